"""`autonomy-ctx chat`: talk to an agent in the terminal, and see after each turn what it was shown.

The main thread reads what is typed, so that editing and Ctrl-C work as everywhere; the agent runs in an event
loop beside it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, TypedDict

import typer
from anyio.from_thread import BlockingPortal, start_blocking_portal
from rich.text import Text

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.agents.agent import CONVERSATION, SCOPE, Agent
from autonomy_ctx.agents.options import TurnLimits
from autonomy_ctx.agents.reply import AgentReply, ToolAnswered, TurnEnded
from autonomy_ctx.cli.drawing import (
    FAILED_STYLE,
    NOTE_STYLE,
    Heading,
    MessageTable,
    TurnLine,
    describe_message,
    format_money,
    line_of,
)
from autonomy_ctx.cli.explain import print_turn
from autonomy_ctx.cli.output import (
    ExitCode,
    Output,
    WrongInput,
    clean,
    clean_line,
    count,
    describe_error,
    make_table,
)
from autonomy_ctx.cli.python_file import load_objects, name_options
from autonomy_ctx.cli.target import (
    AgentOption,
    BaseUrlOption,
    ConversationNotFound,
    MemoryOption,
    ScopeOption,
    find_conversation,
    open_memory,
)
from autonomy_ctx.compaction.config import ContextSummaryConfig
from autonomy_ctx.errors import UnknownConversation, UnknownTurn
from autonomy_ctx.errors.spelling import near_names
from autonomy_ctx.formats.base import TextDelta, ThinkingDelta
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.inspection.turn import TurnReport, inspect_turn
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.models.model import Model

AGENT, OFFLINE = "assistant", "offline"
INSTRUCTIONS = "You are a helpful assistant."
PROMPT, MORE_PROMPT = "> ", ". "
# Characters of a tool's arguments and result that are shown while it runs.
TOOL_CHARACTERS = 200
# How long an escape sequence of a model may be before its beginning is given up.
MAX_ESCAPE = 64
_OPEN_ESCAPE = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The options about the agent.

    Args:
        model: For example gpt-5 or ollama/llama3. Without it: offline.
        instructions: The instructions of the agent.
        auto: Choose the limits of summaries by the model's window and price.
        floor: Messages that stay verbatim after a summary.
        ceiling: Messages above which a summary is written.
        budget: The maximum number of tokens of a context.
    """

    model: Annotated[str | None, typer.Option(metavar="NAME")] = None
    base_url: BaseUrlOption = None
    instructions: Annotated[str | None, typer.Option(metavar="TEXT")] = None
    auto: bool = False
    floor: int | None = None
    ceiling: int | None = None
    budget: Annotated[int | None, typer.Option(metavar="TOKENS")] = None

    def prepare(self) -> Callable[..., Agent]:
        """A function that makes the agent of a name on a memory; what is wrong is found before that."""
        model = Model(self.model or OFFLINE, base_url=self.base_url)
        return partial(
            Agent,
            instructions=INSTRUCTIONS if self.instructions is None else self.instructions,
            model=model,
            context_summary=ContextSummaryConfig(
                auto=self.auto, floor=self.floor, ceiling=self.ceiling, model=model
            ),
            limits=TurnLimits(context_tokens=self.budget),
        )

    def refuse_beside_file(self, place: str) -> None:
        """An agent of a file has all of this already."""
        if given := name_options(asdict(self)):
            raise WrongInput(f"the agent of {place} sets this itself; leave out {' and '.join(given)}")


def load_agent(place: str) -> Agent:
    """The agent of `FILE`, or of `FILE:NAME`."""
    found = load_objects(place, lambda value: isinstance(value, Agent), "Agent")
    if len(found) > 1:
        raise WrongInput(f"{place} has several agents; name one: {place}:{' or '.join(found)}")
    [agent] = found.values()
    assert isinstance(agent, Agent)
    return agent


def move_agent(agent: Agent, memory: Memory) -> Agent:
    """Make an agent like this one on another memory."""
    return Agent(agent.name, memory=memory, hooks=list(agent.hooks), **agent.options.arguments())


class StreamCleaner:
    """Cleans a text that comes in pieces; an escape sequence may begin in one and end in another."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> str:
        """The clean text that is known by now."""
        text, self._rest = self._rest + piece, ""
        at = text.rfind("\x1b", -MAX_ESCAPE)
        # Its end may still come.
        if at >= 0 and _OPEN_ESCAPE.fullmatch(text, at):
            text, self._rest = text[:at], text[at:]
        return clean(text)


class Place(TypedDict):
    """Which conversation is meant, as the arguments of an agent's methods."""

    scope: str
    conversation: str


class ChatSession:
    """One conversation with an agent: its turns, and the commands that look at it or change it."""

    def __init__(self, output: Output, agent: Agent, scope: str, conversation: str) -> None:
        self.output, self.agent = output, agent
        self.place = Place(scope=scope, conversation=conversation)
        self.commands: dict[str, tuple[str, Callable[[str], Any]]] = {
            "explain": ("show the context of the last turn", self.explain),
            "facts": ("list the current facts of this conversation", self.facts),
            "pin": ("keep the last message, or the message at a position, in every later context", self.pin),
            "undo": ("delete the last turn", self.undo),
            "help": ("list these commands", self.help),
        }

    # -- turns ----------------------------------------------------------------------------------

    async def send(self, text: str) -> None:
        """Take a turn and print it as it comes."""
        printer = self.output.console
        cleaner, is_line_open = StreamCleaner(), False
        reply: AgentReply | None = None
        async with self.agent.stream(text, **self.place) as stream:
            async for event in stream:
                if isinstance(event, TurnEnded):
                    reply = event.reply
                elif self.output.is_json:
                    continue
                elif isinstance(event, TextDelta | ThinkingDelta):
                    shown = cleaner.feed(event.text)
                    style = NOTE_STYLE if isinstance(event, ThinkingDelta) else ""
                    printer.print(Text(shown, style), end="", soft_wrap=True)
                    is_line_open = not shown.endswith("\n") if shown else is_line_open
                elif isinstance(event, ToolAnswered):
                    if is_line_open:
                        printer.print()
                        is_line_open = False
                    call, message = event.call, event.message
                    self._print_call(f"{call.name}({call.arguments})", message.text, message.is_error)
        if is_line_open:
            printer.print()
        if reply is not None:
            await self._print_end(reply)

    def _print_call(self, call: str, result: str, failed: bool) -> None:
        messages = self.output.messages
        messages.print(Text(f"→ {clean_line(call, TOOL_CHARACTERS)}", NOTE_STYLE))
        style = FAILED_STYLE if failed else NOTE_STYLE
        messages.print(Text(f"← {clean_line(result, TOOL_CHARACTERS)}", style))

    async def _print_end(self, reply: AgentReply) -> None:
        report = await self._inspect(reply.turn)
        if self.output.is_json:
            self.output.print_json_line(describe_turn(reply, report))
            return
        if reply.question:
            self.output.print(Text(clean(reply.question)))
        elif reply.stop != "end":
            self.output.warn(f"the answer ended early: {clean_line(reply.stop)}")
        if report is not None:
            self.output.messages.print(TurnLine(report.sections, turn_notes(report)))

    async def _inspect(self, turn: str | None = None) -> TurnReport | None:
        """Read what a turn was shown; None where no turn is recorded."""
        with suppress(UnknownTurn, UnknownConversation):
            return await inspect_turn(self.agent.memory, turn=turn, **self.place)
        return None

    # -- commands -------------------------------------------------------------------------------

    async def explain(self, rest: str) -> None:
        """Draw the last context."""
        report = await self._inspect()
        if report is None:
            self.output.warn("there is no turn to explain yet")
        elif self.output.is_json:
            self.output.print_json_line(report.to_dict())
        else:
            print_turn(self.output, report)
            self.output.print(Heading("Messages", count(len(report.messages), "message")))
            self.output.print(MessageTable([line_of(message) for message in report.messages]))

    async def facts(self, rest: str) -> None:
        """List the current facts."""
        facts = await self.agent.facts(**self.place)
        if self.output.is_json:
            rows = [
                {"id": one.id, "kind": one.kind, "text": one.text, "position": one.position} for one in facts
            ]
            self.output.print_json_line({"facts": rows})
        elif not facts:
            self.output.note("no facts yet; they are found when a summary is written")
        else:
            table = make_table("id", "kind", "fact")
            table.add_column("message", justify="right")
            for one in facts:
                table.add_row(one.id, one.kind, Text(clean_line(one.text)), str(one.position))
            self.output.print(table)

    async def pin(self, rest: str) -> None:
        """Pin a message by its position; without one the user's newest."""
        if rest and not rest.isdecimal():
            raise WrongInput("/pin takes the position of a message or nothing; /explain shows the positions")
        head = await self.agent.memory.head(**self.place)
        position = int(rest) if rest else head.last_user
        window = await self.agent.read(**self.place, after=max(position - 1, 0), before=position + 1)
        if not window.entries:
            raise WrongInput(f"there is no message {position}" if rest else "there is no message to pin yet")
        message = window.entries[0].message
        await self.agent.pin(message.id, **self.place)
        if self.output.is_json:
            self.output.print_json_line({"pinned": position})
        else:
            self.output.note(f"pinned message {position}: {clean_line(describe_message(message), 60)}")

    async def undo(self, rest: str) -> None:
        """Delete the last turn."""
        deleted = await self.agent.drop_last_turn(**self.place)
        if self.output.is_json:
            self.output.print_json_line({"deleted": deleted})
        else:
            self.output.note(
                f"{count(deleted, 'message')} deleted" if deleted else "there is no turn to undo"
            )

    async def help(self, rest: str) -> None:
        """List the commands."""
        rows = {f"/{name}": note for name, (note, _) in self.commands.items()}
        rows |= {"/quit": "leave; Ctrl-D does the same", "\\": "at the end of a line: the message continues"}
        if self.output.is_json:
            self.output.print_json_line({"commands": rows})
            return
        for name, note in rows.items():
            self.output.print(Text(f"{name:<10}", "bold").append(note, "not bold"))


def turn_notes(report: TurnReport) -> list[str]:
    """Tokens, how much of them a cache has or could have, and the cost, as far as they are known."""
    notes = [count(report.tokens, "token")]
    usage = report.turn_usage
    if usage is not None and usage.cached_tokens and usage.input_tokens:
        notes.append(f"{usage.cached_tokens / usage.input_tokens:.0%} cached")
    elif report.cached_tokens:
        # The provider reported nothing: the shared prefix with the previous context.
        notes.append(f"{report.cached_tokens / report.tokens:.0%} shared")
    if report.cost.turn is not None:
        notes.append(format_money(report.cost.turn))
    if report.steps > 1:
        notes.append(count(report.steps, "step"))
    return notes


def describe_turn(reply: AgentReply, report: TurnReport | None) -> dict[str, Any]:
    """A turn for programs; /explain has all that was shown."""
    told: dict[str, Any] = {
        "turn": reply.turn,
        "text": reply.text,
        "stop": reply.stop,
        "question": reply.question,
        "steps": reply.steps,
        "usage": asdict(reply.usage),
    }
    if report is not None:
        told |= {
            "cost": report.cost.turn,
            "tokens": report.tokens,
            "cached_tokens": report.cached_tokens,
            "sections": {section.name: section.tokens for section in report.sections},
        }
    return told


class ChatLoop:
    """Reads what is typed or piped, and has it done one after the other."""

    def __init__(self, output: Output, portal: BlockingPortal, session: ChatSession) -> None:
        self._output, self._portal, self._session = output, portal, session
        self._is_typed = sys.stdin.isatty()
        self._failed = False
        self._work: InterruptibleWork | None = None

    def run(self) -> ExitCode:
        """Go on until the input ends."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            return self._run()
        finally:
            signal.signal(signal.SIGINT, before)

    def _run(self) -> ExitCode:
        was_interrupted = False
        while True:
            try:
                text = self._read()
                if text in ("/quit", "/exit"):
                    break
                if text:
                    self._do(text)
                    if self._is_typed:
                        # Between what was answered and what is asked next.
                        self._output.messages.print()
                was_interrupted = False
            except EOFError:
                if self._is_typed:
                    # The shell's prompt begins a line of its own.
                    self._output.messages.print()
                break
            except KeyboardInterrupt:
                if was_interrupted or not self._is_typed:
                    return ExitCode.INTERRUPTED
                was_interrupted = True
                self._output.messages.print()
                self._output.note("stopped; press Ctrl-C again to leave")
        return ExitCode.FAILED if self._failed and not self._is_typed else ExitCode.DONE

    def _read(self) -> str:
        """A message: a line, and those after it as long as each ends with a backslash."""
        lines = [self._read_line(PROMPT)]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            try:
                lines.append(self._read_line(MORE_PROMPT))
            except EOFError:
                break
        return "\n".join(lines).strip()

    def _read_line(self, prompt: str) -> str:
        if self._is_typed and sys.stdout.isatty() and not self._output.is_json:
            return input(prompt)
        if self._is_typed:
            # What goes to a file is the answers alone.
            sys.stderr.write(prompt)
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    def _do(self, text: str) -> None:
        """Take a turn, or do a command; what goes wrong is said, and the conversation goes on."""
        try:
            if text.startswith("/") and not text.startswith("//"):
                name, _, rest = text[1:].partition(" ")
                self._call(self._command(name), rest.strip())
            else:
                self._call(self._session.send, text.removeprefix("/") if text.startswith("//") else text)
        except Exception as error:
            self._failed = True
            if self._output.is_json:
                self._output.print_json_line({"error": describe_error(error)})
            self._output.fail(describe_error(error))
        finally:
            # Who talks to it through pipes waits for the whole answer.
            sys.stdout.flush()

    def _command(self, name: str) -> Callable[[str], Any]:
        commands = self._session.commands
        if name not in commands:
            near = near_names(name, [*commands, "quit"])
            advice = f"did you mean /{near[0]}?" if near else "/help lists the commands."
            raise WrongInput(f"/{name} is not a command; {advice} To send it as text, begin with //")
        return commands[name][1]

    def _call(self, work: Callable[[str], Any], text: str) -> None:
        """Run something in the event loop; Ctrl-C cancels it there, and is told here as usual."""
        self._work = InterruptibleWork()
        try:
            self._work.run(self._portal, work, text)
        finally:
            self._work = None

    def _interrupt(self, signal_number: int, frame: Any) -> None:
        if self._work is None:
            raise KeyboardInterrupt
        self._work.stop()


class InterruptibleWork:
    """Work in the event loop of another thread that can be stopped at any moment, also while it is begun.

    A `KeyboardInterrupt` in the middle of that would leave a turn running that nobody waits for.
    """

    def __init__(self) -> None:
        self._future: Future[Any] | None = None
        self._is_stopped = False

    def run(self, portal: BlockingPortal, work: Callable[[str], Any], text: str) -> None:
        """Do it, and wait for it; `KeyboardInterrupt` when it was stopped."""
        self._future = portal.start_task_soon(work, text)
        if self._is_stopped:
            self._future.cancel()
        try:
            self._future.result()
        except CancelledError:
            raise KeyboardInterrupt from None

    def stop(self) -> None:
        """Cancel it, now or as soon as it has begun."""
        self._is_stopped = True
        if self._future is not None:
            self._future.cancel()


@asynccontextmanager
async def open_session(
    output: Output,
    options: ChatOptions,
    *,
    file: str | None,
    memory: str | None,
    agent: str | None,
    scope: str | None,
    conversation: str | None,
) -> AsyncIterator[ChatSession]:
    """The conversation that was named, with an agent on it; a new one where there is none."""
    # First what can be wrong without a database: none is made then.
    loaded: Agent | None = None
    if file is not None:
        options.refuse_beside_file(file)
        loaded = load_agent(file)
        agent = loaded.name
    make_agent = options.prepare()
    async with AsyncExitStack() as stack:
        if memory is not None:
            store = await stack.enter_async_context(open_memory(memory, create=True))
        else:
            store = await stack.enter_async_context(Memory() if loaded is None else loaded.memory)
        key = await choose_conversation(store, conversation, agent=agent, scope=scope)
        if loaded is None:
            made = make_agent(key.agent, memory=store)
        else:
            made = loaded if memory is None else move_agent(loaded, store)
        await stack.enter_async_context(made)
        yield ChatSession(output, made, key.scope, key.conversation)


async def choose_conversation(
    memory: Memory, name: str | None, *, agent: str | None, scope: str | None
) -> Key:
    """The conversation to go on with, or the key of a new one."""
    try:
        key = await find_conversation(memory, name, agent=agent, scope=scope)
    except ConversationNotFound:
        return Key(agent or AGENT, scope or SCOPE, name or CONVERSATION)
    if not key.agent:
        raise WrongInput(
            f"conversation {key.conversation!r} was stored without an agent; give --agent NAME to start a "
            f"conversation of this name with an agent"
        )
    return key


def chat(
    output: Output,
    conversation: Annotated[str | None, typer.Argument(metavar="CONVERSATION")] = None,
    *,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="FILE[:NAME]")] = None,
    options: ChatOptions,
    memory: MemoryOption = None,
    agent: AgentOption = None,
    scope: ScopeOption = None,
) -> int:
    """Talk to an agent, and see after each turn which context the model got.

    The bar after an answer shows the sections of the context. If the database does not exist, it is
    created. Without --memory, nothing is stored. Input can also come from a pipe: each line is a turn.

    Args:
        conversation: The name of the conversation; a new name starts a new one. Optional if there is only
            one.
        file: An Agent in a Python file; the file is executed.
    """
    opening = open_session(
        output, options, file=file, memory=memory, agent=agent, scope=scope, conversation=conversation
    )
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opening) as session:
        if sys.stdin.isatty() and not output.is_json:
            with suppress(ImportError):
                # Editing and history for `input`.
                import readline  # noqa: F401
            stored = portal.call(lambda: session.agent.get_message_count(**session.place))
            greet(session, stored, memory)
        return ChatLoop(output, portal, session).run()


def greet(session: ChatSession, stored: int, memory: str | None) -> None:
    """Say who answers, and where it is kept."""
    output, agent = session.output, session.agent
    where = f"{count(stored, 'message')} in {clean_line(memory)}" if memory else "not stored"
    parts = [agent.name, model_name(agent.model) or "", session.place["conversation"], where]
    output.messages.print(Text(" · ".join(clean_line(part) for part in parts if part), "bold"))
    if model_name(agent.model) == OFFLINE:
        output.note("The offline model only quotes earlier messages; use --model NAME for a real model.")
    output.note("/help lists the commands. Ctrl-C stops a turn, Ctrl-D leaves.")
