"""The command line: its commands, the options that each of them has, and how they end.

A command is a function in a module of its own that is imported when the command runs. It is given an
`Output` first, then its own arguments, which its docstring describes; `add_common_options` gives it the
options of all commands. What it returns is the exit code; None is 0.
"""

from __future__ import annotations

import copy
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import anyio
import typer
from typer.core import TyperCommand, TyperGroup

from autonomy_ctx.cli.output import ExitCode, Output, describe_error, exit_code_of
from autonomy_ctx.errors.spelling import did_you_mean

PROGRAM = "autonomy-ctx"
RUN, LOOK, MOVE, CHECK = "Run", "Look", "Move", "Check"
# The group of the options of all commands in the help of each.
EVERYWHERE = "Everywhere"


class CommandEntry(NamedTuple):
    """Where the function of a command is, and its line in the help."""

    panel: str
    # `module:function` in this package.
    place: str
    help: str


# In the order of the help.
COMMANDS = {
    "demo": CommandEntry(RUN, "demo:run_demo", "Watch 300 turns of an agent whose context stays small."),
    "chat": CommandEntry(RUN, "chat:chat", "Talk to an agent and see the context of each turn."),
    "serve": CommandEntry(RUN, "serve:serve", "Serve agents, or an endpoint in front of a model, over HTTP."),
    "mcp": CommandEntry(RUN, "mcp:serve_mcp", "Serve a memory to any MCP client."),
    "worker": CommandEntry(RUN, "worker:run_worker", "Write the summaries that agents leave to workers."),
    "compact": CommandEntry(RUN, "compact:compact", "Summarize a conversation now."),
    "conversations": CommandEntry(LOOK, "conversations:list_all", "List the conversations of a memory."),
    "show": CommandEntry(LOOK, "show:show", "Show a conversation, its summary, its facts or its turns."),
    "explain": CommandEntry(LOOK, "explain:explain_turn", "Explain the context of a turn."),
    "search": CommandEntry(LOOK, "search:search_messages", "Find messages by their words."),
    "inspect": CommandEntry(LOOK, "inspect:inspect", "Show conversations in a browser."),
    "export": CommandEntry(MOVE, "transfer:export_messages", "Write messages to a file."),
    "import": CommandEntry(MOVE, "transfer:import_messages", "Store the messages of a file."),
    "migrate": CommandEntry(MOVE, "migrate:migrate", "Upgrade a database, or copy it into another one."),
    "models": CommandEntry(CHECK, "models:list_models", "List known models, their windows and prices."),
    "doctor": CommandEntry(CHECK, "doctor:examine", "Check this installation and a memory."),
    "lint": CommandEntry(CHECK, "lint:lint_templates", "Show the cache plan of a template in a Python file."),
    "replay": CommandEntry(
        CHECK, "replay:replay_conversation", "Replay a recorded conversation with many settings."
    ),
}

# The errors of the command line's own parser, in whichever package this version of typer has it.
_ClickException: Any = typer.BadParameter.__mro__[2]
COMMON_OPTIONS = {
    "json_": ("--json", "Print JSON for programs."),
    "no_color": ("--no-color", "Print without colours, like NO_COLOR."),
    "debug": ("--debug", "Print tracebacks and log messages."),
}


class Command(TyperCommand):
    """A command whose help shows no types that say nothing: a switch takes no value, and N is a number."""

    def get_params(self, ctx: Any) -> Any:
        """Its arguments and options."""
        return _name_values(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """The commands by name; a command is imported when it runs, so that help and completion are quick."""

    def get_params(self, ctx: Any) -> Any:
        """The options before a command."""
        return _name_values(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as the help of all commands tells of it."""
        entry = COMMANDS.get(cmd_name)
        return entry and TyperCommand(cmd_name, help=entry.help, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was named, and its arguments."""
        if args and args[0][:1] != "-" and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(str(name)), rest


def _name_values(parameters: Any) -> Any:
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""
        elif one.metavar is None:
            one.metavar = "N"
    return parameters


def load_command(name: str) -> Any:
    """Import a command, with all its options."""
    entry = COMMANDS[name]
    module, _, function = entry.place.partition(":")
    work = getattr(import_module(f"autonomy_ctx.cli.{module}"), function)
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command(name, cls=Command, help=_describe(work))(add_common_options(work))
    return typer.main.get_command(app)


def _describe(work: Callable[..., Any]) -> str:
    """The paragraphs of a docstring, each on one line: a terminal has a width of its own."""
    text = (inspect.getdoc(work) or "").partition("\n\nArgs:\n")[0]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _option_of(name: str, hint: Any, help_text: str | None) -> Any:
    """The annotation of a parameter for typer: what the docstring says of it, and a switch without its no."""
    kind, info = get_args(hint) if get_origin(hint) is Annotated else (hint, typer.Option())
    info = copy.copy(info)
    info.help = info.help or help_text
    # A name that is given comes where typer otherwise has a default.
    if kind is bool and info.default is ...:
        info.param_decls = (f"--{name.replace('_', '-')}",)
    return Annotated[kind, info]


def _options_of(described: Any, parameters: Sequence[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """The parameters of a function for typer; one that is a dataclass stands for its fields."""
    # Imported here: the help of all commands needs none of it.
    from autonomy_ctx.tools.schema import read_docstring

    hints: dict[str, Any] = get_type_hints(described, include_extras=True)
    texts = read_docstring(inspect.getdoc(described)).arguments
    for one in parameters:
        hint = hints[one.name]
        if _is_group(hint):
            yield from _options_of(hint, list(inspect.signature(hint).parameters.values()))
        else:
            yield one.replace(annotation=_option_of(one.name, hint, texts.get(one.name)))


def _is_group(hint: Any) -> bool:
    """Tell whether a parameter stands for options that belong together, its fields."""
    return is_dataclass(hint)


def add_common_options(work: Callable[..., Any]) -> Callable[..., None]:
    """The function of a command with the options that every command has, and ended as every command is."""
    hints = get_type_hints(work, include_extras=True)
    own = _options_of(work, list(inspect.signature(work).parameters.values())[1:])
    groups = {name: kind for name, kind in hints.items() if _is_group(kind)}
    common = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option(switch, help=text, rich_help_panel=EVERYWHERE)],
        )
        for name, (switch, text) in COMMON_OPTIONS.items()
    ]

    @wraps(work)
    def run_command(*, json_: bool, no_color: bool, debug: bool, **arguments: Any) -> None:
        output = Output(is_json=json_, color=not no_color, debug=debug)
        logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR, format="%(name)s: %(message)s")
        for name, kind in groups.items():
            arguments[name] = kind(**{one.name: arguments.pop(one.name) for one in fields(kind)})
        raise typer.Exit(_run(work, output, arguments))

    # Keyword-only ones all: their order is then free.
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + common
    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_command.__annotations__ = {one.name: one.annotation for one in parameters}
    del run_command.__wrapped__
    return run_command


def _run(work: Callable[..., Any], output: Output, arguments: dict[str, Any]) -> int:
    """Run a command to its end; its exit code."""
    try:
        if inspect.iscoroutinefunction(work):
            code = anyio.run(partial(work, output, **arguments))
        else:
            code = work(output, **arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has read enough: let what is left go nowhere.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except Exception as error:
        error = _single_error(error)
        if output.debug:
            traceback.print_exception(error)
        output.fail(describe_error(error))
        return exit_code_of(error)
    return ExitCode.DONE if code is None else int(code)


def _single_error(error: Exception) -> Exception:
    """The error itself, out of the groups that tasks put around it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _print_version(wanted: bool) -> None:
    if wanted:
        with suppress(PackageNotFoundError):
            typer.echo(f"{PROGRAM} {version('autonomy-ctx')}")
        raise typer.Exit


def make_app() -> typer.Typer:
    """The command line as typer has it."""
    app = typer.Typer(cls=CommandGroup, name=PROGRAM, rich_markup_mode="rich", pretty_exceptions_enable=False)

    @app.callback()
    def _start(
        version: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """Look at what an agent's model sees: conversations, contexts, summaries and facts."""

    return app


def _describe_usage_error(error: Any) -> str:
    """An error of the parser as a sentence; an option that is not known with the one that may be meant."""
    if not hasattr(error, "possibilities") or error.ctx is None:
        return str(error.format_message())
    name, command = error.option_name, error.ctx.command
    known = [one for option in command.get_params(error.ctx) for one in option.opts]
    where = "" if error.ctx.parent else "; write the options of a command after its name"
    return f"`{error.ctx.command_path}` has no option {name!r}{did_you_mean(name, known)}{where}"


def run(arguments: Sequence[str]) -> int:
    """Run the command line; its exit code."""
    if "--no-color" in arguments:
        # Help is printed before the options of a command are read.
        os.environ["NO_COLOR"] = "1"
    arguments = list(arguments) or ["--help"]
    if os.environ.get("NO_COLOR") and "--help" in arguments:
        # Takes longer to import than most commands run, and draws nothing but help.
        from typer import rich_utils

        # Nothing bold either: no escape sequences at all.
        rich_utils.COLOR_SYSTEM = None
    for stream in (sys.stdout, sys.stderr):
        # A text that the terminal has no letters for is no reason to stop.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    command = typer.main.get_command(make_app())
    try:
        code = command.main(arguments, prog_name=PROGRAM, standalone_mode=False)
    except _ClickException as error:
        output = Output()
        output.fail(_describe_usage_error(error))
        context = getattr(error, "ctx", None)
        command_path = f"{PROGRAM} {arguments[0]}" if context is None else context.command_path
        output.note(f"`{command_path} --help` shows its usage")
        return ExitCode.WRONG_INPUT
    except typer.Abort:
        return ExitCode.INTERRUPTED
    return int(code or ExitCode.DONE)
