"""Prints results on stdout, as JSON or for people, and everything else on stderr.

Stored text comes from users, models and tools. It is printed without control sequences, and never read as
markup.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from typing import Any, TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from autonomy_ctx.errors import AutonomyCtxError

# How wide text is that goes into a file or a pipe.
PIPE_WIDTH = 100
# An escape sequence: CSI, then OSC and its kin with their text, then any other.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*|\x1b.?"
)


class ExitCode(IntEnum):
    """The end of a command. `FAILED`: it ran and found something wrong, or could not do all of it."""

    DONE = 0
    FAILED = 1
    WRONG_INPUT = 2
    INTERRUPTED = 130


class CommandFailed(Exception):
    """A command ran and could not do what was asked; its sentence is all that is printed."""

    exit_code = ExitCode.FAILED


class WrongInput(CommandFailed):
    """Wrong input of a command: a path, a name, a file, or options that do not go together."""

    exit_code = ExitCode.WRONG_INPUT


def clean(text: str) -> str:
    """A text without anything that moves the cursor, changes colours or turns the direction of writing.

    Line breaks stay; a tab becomes a space.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPE.sub("", text.replace("\r\n", "\n").replace("\t", " "))
    return "".join(
        char for char in text if char in "\n\u200d" or unicodedata.category(char) not in _UNPRINTABLE
    )


# Controls, marks of format, surrogates and code points that nobody has given a meaning to.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean_line(text: str, most: int | None = None) -> str:
    """A clean text on one line; longer than `most` characters, it ends with an ellipsis."""
    if most is not None:
        # Summaries and results are long, and only their beginning is seen.
        text = text[: 8 * most + 200]
    line = " ".join(clean(text).split())
    return line if most is None or len(line) <= most else line[: max(most - 1, 0)].rstrip() + "…"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_time(time: datetime) -> str:
    """A time as people here write it, to the minute."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M")


def make_table(*columns: str) -> Table:
    """An empty table of the one look that tables have here; more columns can be added."""
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim", border_style="dim"
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def encode_json(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON that says exactly what was stored, and holds nothing that a terminal acts on."""
    text = json.dumps(
        value,
        indent=indent,
        ensure_ascii=ascii_only,
        separators=(",", ":") if indent is None else None,
    )
    if text.isprintable():
        return text
    # JSON escapes the oldest controls alone, and not marks of direction, characters without width and others.
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


class Output:
    """Where a command prints, and how."""

    def __init__(self, *, is_json: bool = False, color: bool = True, debug: bool = False) -> None:
        self.is_json, self.debug = is_json, debug
        color = color and not os.environ.get("NO_COLOR")
        # Results, and what is said beside them.
        self.console = _make_console(sys.stdout, color)
        self.messages = _make_console(sys.stderr, color)

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.console.width

    @property
    def is_live(self) -> bool:
        """True if somebody watches who can be shown progress."""
        return self.messages.is_terminal and self.messages.color_system is not None

    def print(self, *parts: RenderableType) -> None:
        """Print for people: texts, as they are, and what rich can draw."""
        if self.console.is_terminal:
            self.console.print(*parts)
            return
        # Columns are filled up with spaces, which nobody wants in a file.
        with self.console.capture() as captured:
            self.console.print(*parts)
        self._write("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def print_sentence(self, sentence: str) -> None:
        """Print what was done, on one line where nobody watches."""
        self.console.print(Text(clean(sentence)), soft_wrap=not self.console.is_terminal)

    def print_row(self, name: str, value: str, style: str = "bold", *, width: int = 9) -> None:
        """Print a named value, an address for example, on one line however narrow the terminal is."""
        self.console.print(Text(f"{name:<{width}}").append(value, style), soft_wrap=True)

    def print_json(self, value: Any) -> None:
        """Print one JSON document."""
        self._write(encode_json(value, indent=2, ascii_only=not self._is_unicode()))

    def print_json_line(self, value: Mapping[str, Any]) -> None:
        """Print one of many values, as a line of JSON Lines."""
        self._write(encode_json(value, ascii_only=not self._is_unicode()))

    def note(self, sentence: str) -> None:
        """Say something beside the result."""
        self._say(Text(clean(sentence), style="dim"))

    def warn(self, sentence: str) -> None:
        """Say what may be wrong, and go on."""
        self._say(Text.assemble(("warning: ", "bold yellow"), clean(sentence)))

    def fail(self, sentence: str) -> None:
        """Say what is wrong and what to do."""
        self._say(Text.assemble(("error: ", "bold red"), clean(sentence)))

    def log_warnings(self) -> None:
        """Print the library's warnings, too: for commands that run until somebody stops them."""
        if not self.debug:
            logging.getLogger("autonomy_ctx").setLevel(logging.WARNING)

    @contextmanager
    def progress(
        self, what: str, total: int | None = None, *, fills_stdout: bool = False
    ) -> Iterator[Callable[[int], None]]:
        """A bar on stderr while somebody watches; call what it gives with how much is done.

        A command that `fills_stdout` meanwhile has none on a terminal: the bar would be among its output.
        """
        if not self.is_live or (fills_stdout and self.console.is_terminal):
            yield lambda done: None
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}", style="dim", markup=False),
            BarColumn(complete_style="cyan", finished_style="cyan"),
            TaskProgressColumn("{task.percentage:>3.0f}%", markup=False),
            TimeRemainingColumn(compact=True),
        )
        with Progress(*columns, console=self.messages, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    def _say(self, text: Text) -> None:
        # Whoever reads a file of messages searches it by lines.
        self.messages.print(text, soft_wrap=not self.messages.is_terminal)

    def _write(self, text: str) -> None:
        sys.stdout.write(text + "\n")

    def _is_unicode(self) -> bool:
        return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def describe_error(error: BaseException) -> str:
    """The sentence that a person gets for an error."""
    if isinstance(error, OSError) and not isinstance(error, AutonomyCtxError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    if isinstance(error, AutonomyCtxError | CommandFailed | ValueError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}; run it again with --debug to see where"


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code for an error: wrong input is told from work that failed."""
    if isinstance(error, CommandFailed):
        return error.exit_code
    # Whoever names what is not there has given wrong input; a bare `KeyError` is a fault of ours.
    is_unknown = isinstance(error, AutonomyCtxError) and isinstance(error, LookupError)
    is_input = is_unknown or isinstance(error, ValueError | ImportError)
    return ExitCode.WRONG_INPUT if is_input else ExitCode.FAILED


def _make_console(file: TextIO, color: bool) -> Console:
    terminal = file.isatty()
    width = None if terminal or os.environ.get("COLUMNS") else PIPE_WIDTH
    # Without colours nothing is bold either: there are no escape sequences at all.
    console = Console(
        file=file,
        color_system="auto" if color else None,
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
    )
    # Narrower than this no table can be read; a terminal wraps the lines then.
    console.width = max(console.width, 20)
    return console
