"""Draws contexts in a terminal: bars of sections, a gauge of the window, tables of messages.

Everything here is a value that rich prints. What was stored is cleaned first: text of users and tools must
not move the cursor or change colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from autonomy_ctx.cli.output import clean_line, make_table
from autonomy_ctx.inspection.message import MessageReport, ToolCallReport
from autonomy_ctx.messages.message import Message, ToolCall
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.template.composed import ComposedContext

# One after the other for the sections of a context: neighbours differ, also where there are no colours.
SECTION_STYLES = ("blue", "cyan", "green", "magenta", "yellow", "bright_black")
_SHADES, _ASCII_SHADES = "█▓▒░", "#=+-"
ROLE_STYLES = {
    "system": "magenta",
    "developer": "magenta",
    "user": "green",
    "assistant": "blue",
    "tool": "yellow",
    "summary": "cyan",
}
KIND_STYLES = {"stable": "blue", "slow": "cyan", "volatile": "magenta"}
FAILED_STYLE, NOTE_STYLE = "red", "dim"
_GAP = "  "
# Columns below which a drawing leaves out what can be done without.
NARROW = 72
# As many characters of a message as can be seen.
LINE_CHARACTERS = 1_000


class PartLike(Protocol):
    """The part of a request that has a share of a bar: a section, the tools, the schema of the answer."""

    @property
    def name(self) -> str: ...
    @property
    def tokens(self) -> int: ...


class SectionLike(PartLike, Protocol):
    """The part of a section that is drawn, of the report of a compose or of an inspection."""

    @property
    def kind(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def messages(self) -> int: ...
    @property
    def milliseconds(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    """A message as one line of a table."""

    position: int | None
    role: str
    tokens: int
    text: str


def format_money(dollars: float) -> str:
    """An amount with as many digits as say something: a turn may cost a hundredth of a cent."""
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}"


def section_style(index: int) -> str:
    """The colour of a section by its place in the context."""
    return SECTION_STYLES[index % len(SECTION_STYLES)]


def divide_cells(parts: Sequence[int], width: int) -> list[int]:
    """Columns for each part by its size: together `width`, and one at least for what is not nothing."""
    total = sum(parts)
    if not total or width <= 0:
        return [0] * len(parts)
    exact = [part * width / total for part in parts]
    cells = [max(int(one), 1 if part else 0) for one, part in zip(exact, parts, strict=True)]
    # What is missing goes to those who lost most by rounding; what is too much is taken from the widest.
    by_loss = sorted(range(len(parts)), key=lambda index: cells[index] - exact[index])
    for index in by_loss[: max(width - sum(cells), 0)]:
        cells[index] += 1
    while sum(cells) > width:
        cells[max(range(len(cells)), key=cells.__getitem__)] -= 1
    return cells


@dataclass(frozen=True, slots=True)
class Heading:
    """A title with a rule to the end of the line, and a note at its right where there is room."""

    title: str
    note: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, rule = options.max_width, "-" if options.ascii_only else "─"
        note = self.note if cell_len(self.title) + cell_len(self.note) + 10 <= width else ""
        line = Text(f"{rule * 2} ", NOTE_STYLE, no_wrap=True, overflow="ellipsis")
        line.append(self.title, "default bold")
        line.append(" ")
        line.append(rule * max(width - cell_len(self.title) - (cell_len(note) + 1 if note else 0) - 4, 0))
        if note:
            line.append(f" {note}")
        yield Text()
        yield line


@dataclass(frozen=True, slots=True)
class SectionBar:
    """The parts of a request as one bar, each as long as its share of the tokens."""

    sections: Sequence[PartLike]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.render(console, options, options.max_width)
        yield Segment.line()

    def render(self, console: Console, options: ConsoleOptions, width: int) -> Text:
        """The bar in so many columns: in colours, or in shades where there are none."""
        shades = _ASCII_SHADES if options.ascii_only else _SHADES
        if console.color_system is not None and not console.no_color and not options.ascii_only:
            shades = _SHADES[0]
        bar = Text(no_wrap=True, end="")
        for index, cells in enumerate(divide_cells([section.tokens for section in self.sections], width)):
            bar.append(shades[index % len(shades)] * cells, section_style(index))
        return bar


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A turn in one line: the bar of its sections, its notes, and the largest sections that fit."""

    sections: Sequence[SectionLike]
    notes: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        separator = " | " if options.ascii_only else " · "
        bar = SectionBar(self.sections).render(console, options, max(min(width // 4, 32), 4))
        line = Text(no_wrap=True, overflow="ellipsis").append_text(bar)
        line.append(_GAP + separator.join(self.notes), NOTE_STYLE)
        for index in sorted(range(len(self.sections)), key=lambda index: -self.sections[index].tokens):
            section = self.sections[index]
            legend = f"{clean_line(section.name)} {section.tokens:,}"
            if section.tokens and line.cell_len + len(separator) + cell_len(legend) <= width:
                line.append(separator, NOTE_STYLE).append(legend, section_style(index))
        failed = [clean_line(section.name) for section in self.sections if section.status == "failed"]
        yield line
        for name in failed:
            yield Text(f"section {name} failed and was left out; /explain says why", FAILED_STYLE)


@dataclass(frozen=True, slots=True)
class SectionTable:
    """The sections of a context: what each is, costs and took, its share as a bar, and what went wrong."""

    sections: Sequence[SectionLike]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= NARROW
        total = sum(section.tokens for section in self.sections)
        table = make_table()
        table.expand = True
        table.add_column("section", overflow="ellipsis", no_wrap=True, ratio=None if wide else 1)
        if wide:
            table.add_column("kind", no_wrap=True)
        table.add_column("tokens", justify="right", no_wrap=True)
        if wide:
            table.add_column("messages", justify="right", no_wrap=True)
            table.add_column("ms", justify="right", no_wrap=True)
        table.add_column("share", justify="right", no_wrap=True)
        if wide:
            table.add_column("", ratio=1, no_wrap=True)
        for index, section in enumerate(self.sections):
            share = section.tokens / total if total else 0.0
            style = section_style(index)
            name = Text(f"▌ {clean_line(section.name)}", style)
            tokens, part = f"{section.tokens:,}", f"{share:.1%}"
            if not wide:
                table.add_row(name, tokens, part)
                continue
            kind = Text(section.kind, KIND_STYLES.get(section.kind, ""))
            # The smallest share is still to be seen.
            bar = Bar(1.0, 0.0, max(share, 0.01 if section.tokens else 0.0), color=style)
            table.add_row(
                name, kind, tokens, f"{section.messages:,}", f"{section.milliseconds:.2f}", part, bar
            )
        yield table
        for section in self.sections:
            if section.status != "included":
                reason = clean_line(section.reason or section.status)
                style = FAILED_STYLE if section.status == "failed" else NOTE_STYLE
                yield Text(f"{clean_line(section.name)} was left out: {reason}", style)


def message_lines(context: ComposedContext, section: str | None = None) -> list[ListedMessage]:
    """The messages of a context, or of one of its sections."""
    return [
        ListedMessage(
            position=origin.position,
            role="summary" if isinstance(message, Summary) else message.role.value,
            tokens=origin.tokens,
            text=describe_message(message),
        )
        for message, origin in zip(context.messages, context.origins(), strict=True)
        if section is None or origin.section == section
    ]


def describe_message(message: Message) -> str:
    """Put what a message says and which tools it calls on one line."""
    return join_line(message.text, (), message.tool_calls)


def join_line(text: str, images: Iterable[str], calls: Iterable[ToolCall | ToolCallReport]) -> str:
    """Put the text of a message, its images and its calls on one line."""
    parts = [*images, *(f"→ {call.name}({call.arguments})" for call in calls)]
    return clean_line("  ".join([text[:LINE_CHARACTERS], *parts]), LINE_CHARACTERS)


def line_of(message: MessageReport) -> ListedMessage:
    """A message as one line of a table."""
    images = [f"[{part.kind} {part.text}]" for part in message.parts if part.kind == "image"]
    text = join_line(message.text, images, message.tool_calls)
    return ListedMessage(position=message.position, role=message.role, tokens=message.tokens, text=text)


@dataclass(frozen=True, slots=True)
class MessageTable:
    """Messages one to a row: all of them, or the `first` and the `last`."""

    lines: Sequence[ListedMessage]
    first: int | None = None
    last: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= NARROW
        table = make_table()
        table.expand = True
        table.add_column("position" if wide else "#", justify="right", style=NOTE_STYLE, no_wrap=True)
        table.add_column("role", no_wrap=True)
        if wide:
            table.add_column("tokens", justify="right", no_wrap=True)
        table.add_column("text", ratio=1, no_wrap=True, overflow="ellipsis")
        for line in _with_gap(self.lines, self.first, self.last):
            if isinstance(line, int):
                table.add_row("…", Text(f"{line} more", NOTE_STYLE))
                continue
            position = "-" if line.position is None else str(line.position)
            role = Text(line.role, ROLE_STYLES.get(line.role, ""))
            tokens = [f"{line.tokens:,}"] if wide else []
            table.add_row(position, role, *tokens, Text(line.text))
        yield table


def _with_gap(lines: Sequence[ListedMessage], first: int | None, last: int) -> Iterator[ListedMessage | int]:
    """The lines at both ends, and between them how many were left out."""
    if first is None or len(lines) <= first + last:
        yield from lines
        return
    yield from lines[:first]
    yield len(lines) - first - last
    yield from lines[len(lines) - last :]


def value_table(rows: Iterable[tuple[str, str, str]]) -> Table:
    """Names with their values, and a note on each."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", style="green", no_wrap=True)
    table.add_column(style=NOTE_STYLE, overflow="fold")
    for name, value, note in rows:
        table.add_row(Text(name), Text(value), Text(note))
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowGauge:
    """Where a window stands between its floor, its ceiling and its hard limit, all in messages."""

    floor: int
    ceiling: int
    hard_limit: int
    width: int

    def scale(self) -> Text:
        """The limits, each before its mark: with their names where there is room."""
        limits = {"floor": self.floor, "ceiling": self.ceiling, "hard limit": self.hard_limit}
        named = self._labels([(f"{name} {limit}", limit) for name, limit in limits.items()])
        line = named or self._labels([(str(limit), limit) for limit in limits.values()]) or ""
        return Text(line, NOTE_STYLE, no_wrap=True)

    def row(self, window: int) -> Text:
        """The window as a point: green within the ceiling, yellow above it, red above the hard limit."""
        marks = ["─"] * self.width
        for limit in (self.floor, self.ceiling, self.hard_limit):
            marks[self._at(limit)] = "┼"
        at = self._at(window)
        line = Text("".join(marks[:at]), NOTE_STYLE, no_wrap=True)
        line.append("●", self.style(window))
        return line.append("".join(marks[at + 1 :]))

    def style(self, window: int) -> str:
        """The colour of a window of so many messages."""
        return "green" if window <= self.ceiling else "yellow" if window <= self.hard_limit else "red"

    def _labels(self, labels: Sequence[tuple[str, int]]) -> str | None:
        """Labels that end at their marks, in order; None when they do not fit."""
        line = ""
        for label, limit in labels:
            room = self._at(limit) + 1 - len(line)
            if room < len(label) + (1 if line else 0):
                return None
            line += label.rjust(room)
        return line

    def _at(self, messages: int) -> int:
        return min(messages * (self.width - 1) // self.hard_limit, self.width - 1)
