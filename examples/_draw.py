"""Draws a composed context in a terminal: colours only where they are wanted, and no line too long."""

import os
import re
import shutil
import sys
import unicodedata

from autonomy_ctx import ComposedContext, Message
from autonomy_ctx.template import SectionReport

KINDS = {"stable": 34, "slow": 36, "volatile": 35}
ROLES = {"system": 35, "developer": 35, "user": 32, "assistant": 34, "tool": 33}
BOLD, RED, GREEN, YELLOW, GREY = 1, 31, 32, 33, 90
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.")


def clean(text: str) -> str:
    """One line without anything that could move the cursor, change colours or reverse the writing."""
    line = " ".join(_ESCAPES.sub("", text).split())
    return "".join(char for char in line if unicodedata.category(char)[0] != "C")


def cells(text: str) -> int:
    """How many columns a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def fitted(text: str, width: int) -> str:
    """A text in exactly `width` columns: padded, or cut with an ellipsis."""
    if len(text) > 4 * width:
        text = text[: 4 * width]  # summaries are long; only their beginning can be seen
    if cells(text) > width:
        while cells(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - cells(text))


def one_line(message: Message) -> str:
    """What a message says, or which tools it calls."""
    calls = "  ".join(f"→ {call.name}({call.arguments})" for call in message.tool_calls)
    return clean(f"{message.text} {calls}".strip())


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Screen:
    """Where to draw: how wide it is and whether it has colours."""

    def __init__(self) -> None:
        self.width = max(72, min(shutil.get_terminal_size((100, 24)).columns, 120))
        self.colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def paint(self, text: str, *codes: int) -> str:
        if not self.colours or not codes:
            return text
        return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m"

    def title(self, text: str, note: str = "") -> None:
        """A heading with a rule to the end of the line, and a note at its right."""
        note = f" {note}" if note else ""
        rule = "─" * (self.width - cells(text) - cells(note) - 4)
        print(f"\n{self.paint('──', GREY)} {self.paint(text, BOLD)} {self.paint(rule + note, GREY)}")

    def line(self, text: str, *codes: int) -> None:
        """Words that may need several lines."""
        rest = text
        while rest:
            at = self.width - 2 if len(rest) > self.width - 2 else len(rest)
            at = (rest.rfind(" ", 0, at) + 1 or at) if at < len(rest) else at
            print("  " + self.paint(rest[:at].rstrip(), *codes))
            rest = rest[at:]

    def section(self, report: SectionReport, total: int) -> None:
        """A section in two lines: what it is and costs, then its share of the context."""
        colour = RED if report.status == "failed" else KINDS[report.kind]
        costs = f"{report.tokens:>6,} tokens {report.messages:>4} msg {report.milliseconds:>6.2f} ms"
        name = fitted(report.name, self.width - cells(costs) - 13)
        mark = self.paint("▌", colour)
        print(f"{mark} {self.paint(name, BOLD)} {self.paint(f'{report.kind:<9}', colour)} {costs}")
        if report.reason is not None:
            reason = fitted(f"left out: {clean(report.reason)}", self.width - 2).rstrip()
            print(f"{mark} {self.paint(reason, RED)}")
            return
        share = report.tokens / total if total else 0.0
        room = self.width - 9
        eighths = max(round(share * room * 8), 1 if report.tokens else 0)
        bar = "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]
        rest = self.paint("·" * (room - len(bar)), GREY)
        print(f"{mark} {self.paint(bar, colour)}{rest} {share:>5.1%}")

    def message(self, message: Message, position: int | None, tokens: int) -> None:
        """A message in one line: position, role, tokens, text."""
        role = message.role.value
        start = f"{'-' if position is None else position:>10}"
        text = fitted(one_line(message), self.width - 30).rstrip()
        print(f"{self.paint(start, GREY)}  {self.paint(f'{role:<10}', ROLES[role])}{tokens:>6}  {text}")

    def window(self, context: ComposedContext, name: str, *, first: int = 5, last: int = 5) -> None:
        """The first and last messages of a section."""
        shown = [
            (message, origin)
            for message, origin in zip(context.messages, context.origins(), strict=True)
            if origin.section == name
        ]
        hidden = len(shown) - first - last
        for index, (message, origin) in enumerate(shown):
            if hidden > 0 and first <= index < len(shown) - last:
                if index == first:
                    print(self.paint(f"{'…':>10}  {hidden} more", GREY))
                continue
            self.message(message, origin.position, origin.tokens)


class Gauge:
    """A row per turn: how far the run is, and the window between its limits; redrawn in a terminal."""

    def __init__(self, screen: Screen, turns: int, floor: int, ceiling: int, most: int) -> None:
        self.screen, self.turns = screen, turns
        self.floor, self.ceiling, self.most = floor, ceiling, most
        self.room = screen.width - 52

    def head(self) -> None:
        """The limits, each above its mark."""
        label = f"floor {self.floor}".rjust(self._at(self.floor) + 1)
        label = f"{label:<{self._at(self.ceiling)}}{self.ceiling} ceiling"
        last = f"hard limit {self.most}"
        last = last if len(label) + len(last) < self.room else str(self.most)
        line = f"{'  turn':<20}window {label}{last:>{self.room - len(label)}}  summary"
        print(self.screen.paint(line, GREY))

    def row(self, turn: int, window: int, note: str, *, keep: bool) -> None:
        """Draw a turn; `keep` leaves its row on the screen, without a terminal only those are printed."""
        live = sys.stdout.isatty()
        if not live and not keep:
            return
        paint = self.screen.paint
        done = turn * 10 // self.turns
        colour = GREEN if window <= self.ceiling else YELLOW if window <= self.most else RED
        marks = ["─"] * self.room
        for limit in (self.floor, self.ceiling, self.most):
            marks[self._at(limit)] = "┼"
        scale = "".join(marks)
        at = self._at(window)
        drawn = paint(scale[:at], GREY) + paint("●", colour) + paint(scale[at + 1 :], GREY)
        progress = paint("█" * done, GREEN) + paint("░" * (10 - done), GREY)
        start = f"{turn:>5}/{self.turns} {progress}  {paint(f'{window:>4}', colour)}"
        text = fitted(note, 24).rstrip()
        print(f"\r\x1b[K{start} {drawn} {text}" if live else f"{start} {drawn} {text}", end="")
        print(end="\n" if keep else "", flush=True)

    def _at(self, messages: int) -> int:
        return min(messages * (self.room - 1) // self.most, self.room - 1)
