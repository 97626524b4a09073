"""What is drawn of a context fits any width, needs no colours, and holds nothing that a terminal acts on."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Memory, Message
from autonomy_ctx.cli.drawing import (
    Heading,
    ListedMessage,
    MessageTable,
    SectionBar,
    SectionTable,
    TurnLine,
    WindowGauge,
    divide_cells,
    format_money,
    message_lines,
)

CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "\x1b[2J\x1b]0;title\x07weather\u202e\x9b31m"


@dataclass(frozen=True)
class Section:
    """A section as drawings see it."""

    name: str
    tokens: int
    kind: str = "slow"
    status: str = "included"
    reason: str | None = None
    messages: int = 3
    milliseconds: float = 0.4


SECTIONS = [
    Section("system_instructions", 70, kind="stable"),
    Section("conversation_history", 2795),
    Section("now", 16, kind="volatile"),
    Section(HOSTILE, 0, status="failed", reason=f"its provider failed: {HOSTILE}"),
]


def drawn(what: RenderableType, *, width: int = 100, color: bool = False, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(
        file=file,
        width=width,
        force_terminal=color,
        color_system="256" if color else None,
        legacy_windows=False,
    )
    console.print(what)
    file.seek(0)
    return file.read()


@given(parts=st.lists(st.integers(0, 10_000), max_size=12), width=st.integers(0, 200))
def test_cells_are_divided_without_a_rest_and_what_is_there_is_seen(parts: list[int], width: int) -> None:
    cells = divide_cells(parts, width)
    assert len(cells) == len(parts)
    assert sum(cells) == (width if sum(parts) else 0)
    if width >= sum(part > 0 for part in parts):
        assert all((cell > 0) == (part > 0) for cell, part in zip(cells, parts, strict=True) if width)


@pytest.mark.parametrize("width", [20, 40, 72, 100, 200])
@pytest.mark.parametrize(
    "what",
    [
        Heading("A title", "and a note"),
        SectionBar(SECTIONS),
        SectionTable(SECTIONS),
        TurnLine(SECTIONS, ["2,881 tokens", "94% cached", "$0.0012"]),
        MessageTable(
            [ListedMessage(position=n, role="user", tokens=9, text="hello " * 40) for n in range(20)]
        ),
    ],
    ids=lambda what: type(what).__name__,
)
def test_a_drawing_fits_and_shows_no_control_characters(what: RenderableType, width: int) -> None:
    printed = drawn(what, width=width)
    assert max(map(len, printed.splitlines())) <= width
    assert not CONTROLS.search(printed)


def test_the_bar_tells_sections_apart_by_colour_and_without_colours_by_shade() -> None:
    two = [Section("one", 30), Section("two", 10)]
    assert drawn(SectionBar(two), width=40) == "█" * 30 + "▓" * 10 + "\n"
    assert drawn(SectionBar(two), width=40, encoding="ascii") == "#" * 30 + "=" * 10 + "\n"
    colored = drawn(SectionBar(two), width=40, color=True)
    assert "▓" not in colored
    assert colored.count("█") == 40
    assert len(set(re.findall(r"\x1b\[3\dm", colored))) == 2


def test_a_turn_is_one_line_with_its_notes_and_says_what_failed() -> None:
    line, failed = drawn(TurnLine(SECTIONS, ["2,881 tokens", "94% cached"]), width=120).splitlines()
    assert line.endswith(
        "2,881 tokens · 94% cached · conversation_history 2,795 · system_instructions 70 · now 16"
    )
    assert failed == "section weather failed and was left out; /explain says why"


def test_a_failed_section_says_why() -> None:
    assert "weather was left out: its provider failed: weather" in drawn(SectionTable(SECTIONS))


def test_the_gauge_marks_its_limits_and_shows_the_window() -> None:
    gauge = WindowGauge(floor=10, ceiling=20, hard_limit=40, width=81)
    assert gauge.scale().plain == "floor 10".rjust(21) + "ceiling 20".rjust(20) + "hard limit 40".rjust(40)
    assert gauge.row(22).plain == f"{'─' * 20}┼{'─' * 19}┼{'─' * 3}●{'─' * 35}┼"
    assert [gauge.style(window) for window in (20, 21, 41)] == ["green", "yellow", "red"]


def test_labels_of_a_narrow_gauge_are_numbers() -> None:
    scale = WindowGauge(floor=10, ceiling=20, hard_limit=40, width=21).scale().plain
    assert scale.split() == ["10", "20", "40"]


def test_only_the_ends_of_a_long_list_of_messages_are_shown() -> None:
    lines = [ListedMessage(position=n, role="user", tokens=9, text=f"text {n}") for n in range(20)]
    printed = drawn(MessageTable(lines, first=2, last=1))
    assert re.findall(r"text \d+", printed) == ["text 0", "text 1", "text 19"]
    assert "17 more" in printed


async def test_messages_of_a_context_are_cleaned(memory: Memory) -> None:
    await memory.append("ana", "trip", Message("user", f"hello {HOSTILE}\nagain"))
    context = await ContextTemplate([ConversationHistorySection()]).compose(memory, "ana", "trip")
    [line] = message_lines(context, "conversation_history")
    assert (line.position, line.role, line.text) == (1, "user", "hello weather again")


@pytest.mark.parametrize(
    ("dollars", "written"), [(0.00012, "$0.0001"), (0.5, "$0.5000"), (1234.5, "$1,234.50")]
)
def test_money_has_the_digits_that_say_something(dollars: float, written: str) -> None:
    assert format_money(dollars) == written
