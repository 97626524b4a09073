"""The drawings in these docs: a conversation is held, and what is drawn is what was recorded of it.

    python docs/make_pictures.py

It needs the test environment, no network and no key. Each run gives the same bytes, which a test compares.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio

from autonomy_ctx import AdditionalContextSection, Agent, Memory, create_default_template
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.inspection import (
    Timeline,
    TurnInfo,
    TurnReport,
    inspect_timeline,
    inspect_turn,
    list_turns,
)
from autonomy_ctx.testing import StoppedClock, numbered_ids

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import make_screenshots as trip  # noqa: E402

WIDTH = 880
FLOOR, CEILING = 10, 18
STYLE = """
svg { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
.card { fill: #ffffff; stroke: #d0d7de }
text { fill: #1f2328 }
.quiet { fill: #59636e; font-size: 12px }
.title { font-weight: 600; font-size: 15px }
.on { fill: #ffffff; font-size: 12px }
.rule { stroke: #d0d7de }
.bound { stroke: #59636e; stroke-dasharray: 5 4 }
.curve { stroke: #0969da; fill: none; stroke-width: 2.5; stroke-linejoin: round }
.box { fill: #ddf4ff; stroke: #0969da }
.replaced { fill: #eaeef2; stroke: #afb8c1; stroke-dasharray: 3 3 }
.fact { fill: #1a7f37 }
.ended { fill: #afb8c1 }
.new { fill: #bc4c00 }
.c0 { fill: #0969da } .c1 { fill: #8250df } .c2 { fill: #1a7f37 } .c3 { fill: #bc4c00 }
.c4 { fill: #bf3989 } .c5 { fill: #57606a } .c6 { fill: #9a6700 } .c7 { fill: #0a7a86 }
@media (prefers-color-scheme: dark) {
  .card { fill: #0d1117; stroke: #3d444d }
  text { fill: #f0f6fc }
  .quiet { fill: #9198a1 }
  .on { fill: #ffffff }
  .rule { stroke: #3d444d }
  .bound { stroke: #9198a1 }
  .curve { stroke: #58a6ff }
  .box { fill: #12263f; stroke: #58a6ff }
  .replaced { fill: #1c2128; stroke: #656c76 }
  .fact { fill: #3fb950 }
  .ended { fill: #656c76 }
}
"""


@dataclass
class Drawing:
    """An SVG picture: a card with a title, and what is put on it."""

    title: str
    height: int
    parts: list[str] = field(default_factory=list)
    style: str = STYLE

    def rect(self, x: float, y: float, width: float, height: float, kind: str, *, tip: str = "") -> None:
        shown = f"<title>{escape(tip)}</title>" if tip else ""
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect class="{kind}" {place} rx="3">{shown}</rect>')

    def text(self, x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> None:
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def curve(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{places}"/>')

    def __str__(self) -> str:
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{self.style}</style>",
                f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="8"/>',
                f'<text class="title" x="24" y="34">{escape(self.title)}</text>',
                *self.parts,
                "</svg>\n",
            )
        )


@dataclass(frozen=True)
class Run:
    """What was recorded of the conversation."""

    turn: TurnReport
    info: TurnInfo
    timeline: Timeline


class PatientModel(trip.StoryModel):
    """Answers when no summary is being written, so that on any machine each covers the same messages."""

    def __init__(self, history: Any) -> None:
        super().__init__(trip.read_story())
        self._history = history

    async def complete_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> ModelReply:
        await self._history.settled()
        return await super().complete_chat(messages, **options)


class SlowSummaries(trip.SummaryModel):
    """Takes a minute for each summary, so that it is later than the message that made it due."""

    def __init__(self, clock: StoppedClock) -> None:
        super().__init__(trip.read_story())
        self._clock = clock

    async def complete_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        self._clock.advance(60)
        return await super().complete_chat(messages, **options)


async def hold_conversation(path: Path) -> Run:
    """A trip is planned, with tools; the last turn and the whole conversation are inspected."""
    clock, story = StoppedClock(trip.START), trip.read_story()

    def tell_time(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
        return [{"role": "system", "content": f"It is {clock():%A, %H:%M}."}]

    tools = [trip.search_trains, trip.search_rooms]
    template = create_default_template(
        trip.INSTRUCTIONS,
        context_summary={
            "floor": FLOOR,
            "ceiling": CEILING,
            "hard_limit": 26,
            "model": SlowSummaries(clock),
            "size": 500,
        },
        tools=tools,
    )
    template.add_section(
        AdditionalContextSection("preferences", provider_fn=trip.preferences, kind="slow"), 2
    )
    template.add_section(AdditionalContextSection("time", provider_fn=tell_time, kind="volatile"))
    history: Any = template.get_section("conversation_history")
    place = {"scope": trip.SCOPE, "conversation": trip.CONVERSATION}
    async with (
        Memory(f"sqlite:///{path}", clock=clock) as memory,
        Agent(
            "guide",
            model=PatientModel(history),
            memory=memory,
            tools=tools,
            context_template=template,
            clock=clock,
            new_id=numbered_ids("turn-"),
        ) as guide,
    ):
        for exchange in story:
            await guide.send(exchange.question, **place)
            await history.settled()
            clock.advance(600)
        view = memory.for_agent("guide")
        turn = await inspect_turn(view, **place)
        [info] = [info for info in await list_turns(view, **place) if info.id == turn.id]
        return Run(turn, info, await inspect_timeline(view, **place))


def draw_context(run: Run) -> Drawing:
    """The context of one turn as a bar, and the prefix that it shares with the previous turn."""
    turn, parts = run.turn, list(context_parts(run))
    drawing = Drawing("The context of one turn", 150 + 26 * ((len(parts) + 1) // 2))
    total = sum(tokens for _, tokens in parts)
    drawing.text(
        WIDTH - 24,
        34,
        f"{total:,} tokens shown of a conversation with {run.timeline.count} messages",
        "quiet",
        anchor="end",
    )
    scale, x = (WIDTH - 48) / total, 24.0
    for number, (name, tokens) in enumerate(parts):
        drawing.rect(x, 54, tokens * scale - 1, 40, f"c{number % 8}", tip=f"{name}: {tokens} tokens")
        if tokens * scale > 7 * len(name) + 16:
            drawing.text(x + 8, 79, name, "on")
        column, row = number % 2, number // 2
        left, top = 24 + column * 416, 142 + 26 * row
        drawing.rect(left, top - 11, 12, 12, f"c{number % 8}")
        drawing.text(left + 20, top, name)
        drawing.text(left + 380, top, f"{tokens} tokens", "quiet", anchor="end")
        x += tokens * scale
    cached = turn.cached_tokens * scale
    drawing.line(24, 102, 24 + cached - 2, 102, "curve")
    drawing.text(
        24,
        118,
        f"{turn.cached_tokens} tokens are a shared prefix with the previous turn: a provider can cache them",
        "quiet",
    )
    return drawing


def context_parts(run: Run) -> Iterator[tuple[str, int]]:
    for section in run.info.sections:
        if section.summary_tokens:
            yield "summary and facts", section.summary_tokens
            yield "newest messages", section.tokens - section.summary_tokens
        elif section.tokens:
            yield section.name.replace("_", " "), section.tokens
    if run.turn.tool_tokens:
        yield "descriptions of tools", run.turn.tool_tokens


def draw_window(run: Run) -> Drawing:
    """How many messages the model is shown verbatim, over the whole conversation."""
    timeline = run.timeline
    drawing = Drawing("The window between floor and ceiling", 330)
    left, right, bottom, top = 60, WIDTH - 90, 280, 64
    most = 26

    def place(position: float, window: float) -> tuple[float, float]:
        return left + (right - left) * position / timeline.head, bottom - (bottom - top) * window / most

    for window in range(0, most, 5):
        drawing.text(left - 10, place(0, window)[1] + 4, str(window), "quiet", anchor="end")
        drawing.line(left, place(0, window)[1], right, place(0, window)[1], "rule")
    for name, bound in (("ceiling", CEILING), ("floor", FLOOR)):
        y = place(0, bound)[1]
        drawing.line(left, y, right, y, "bound")
        drawing.text(right + 8, y + 4, f"{name} {bound}")
    points = [(point.position, point.window) for point in timeline.points]
    steps = [place(*points[0])]
    for (_, before), (position, window) in pairwise(points):
        # It grows with each message, and falls at once when a summary takes the oldest in.
        if window < before:
            steps.append(place(position, before))
        steps.append(place(position, window))
    drawing.curve(steps, "curve")
    for position in range(0, timeline.head + 1, 10):
        drawing.text(place(position, 0)[0], bottom + 20, str(position), "quiet", anchor="middle")
    drawing.text((left + right) / 2, bottom + 40, "messages stored", "quiet", anchor="middle")
    drawing.text(
        WIDTH - 24,
        34,
        "messages shown verbatim, as the conversation grows",
        "quiet",
        anchor="end",
    )
    return drawing


def draw_segments(run: Run) -> Drawing:
    """Which messages each segment of the summary covers, and from where to where each fact held."""
    timeline = run.timeline
    rows = [
        [segment for segment in timeline.segments if segment.state == "replaced"],
        [segment for segment in timeline.segments if segment.state == "in force"],
    ]
    facts = sorted(timeline.facts, key=lambda fact: fact.position)
    drawing = Drawing("Segments and facts", 186 + 22 * len(facts))
    left, right = 110, WIDTH - 24

    def x(position: float) -> float:
        return left + (right - left) * (position - 1) / timeline.head

    top = 60
    drawing.text(24, top + 14, "messages", "quiet")
    covered = max(segment.last for segment in rows[1])
    for position in range(1, timeline.head + 1):
        kind = "box" if position <= covered else "c0"
        drawing.rect(x(position) + 0.5, top, x(position + 1) - x(position) - 1.5, 20, kind)
    drawing.text(x(timeline.head + 1), top - 8, "window, verbatim", "quiet", anchor="end")
    for name, row, y, kind in (
        ("replaced", rows[0], top + 34, "replaced"),
        ("segments", rows[1], top + 68, "box"),
    ):
        drawing.text(24, y + 17, name, "quiet")
        for segment in row:
            width = x(segment.last + 1) - x(segment.first) - 2
            words = f"{segment.first} to {segment.last}, {segment.tokens} tokens"
            drawing.rect(x(segment.first) + 1, y, width, 26, kind, tip=words)
            short = words if width > 7 * len(words) else f"{segment.first}-{segment.last}"
            if width > 7 * len(short):
                drawing.text(x(segment.first) + width / 2, y + 17, short, "quiet", anchor="middle")
    drawing.text(24, top + 124, "facts", "quiet")
    for number, fact in enumerate(facts):
        y = top + 110 + 22 * number
        end = fact.ended_position or timeline.head
        drawing.rect(
            x(fact.position),
            y + 5,
            max(4, x(end + 1) - x(fact.position)),
            4,
            "ended" if fact.ended_position else "fact",
        )
        words = f"{fact.kind}: {fact.text}" + (
            f" (until {fact.ended_position})" if fact.ended_position else ""
        )
        at_end = x(fact.position) > (left + right) / 2
        drawing.text(
            x(end + 1) if at_end else x(fact.position),
            y + 2,
            words,
            "quiet",
            anchor="end" if at_end else "start",
        )
    return drawing


def draw_layers(layers: Sequence[Sequence[str]]) -> Drawing:
    """The folders of the package; each may import what is below it."""
    drawing = Drawing("Imports point down", 62 + 34 * len(layers))
    for number, names in enumerate(layers):
        y = 52 + 34 * number
        width = (WIDTH - 48 - 8 * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            drawing.rect(24 + column * (width + 8), y, width, 28, "box")
            drawing.text(24 + column * (width + 8) + width / 2, y + 19, name, anchor="middle")
    return drawing


def read_layers() -> list[list[str]]:
    """As the import linter checks them, without what is nobody's business."""
    settings = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = [
        contract for contract in settings["tool"]["importlinter"]["contracts"] if contract["type"] == "layers"
    ]
    rows = [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]
    return [public for row in rows if (public := [name for name in row if not name.startswith("_")])]


def draw_all() -> dict[str, str]:
    """Each picture by the name of its file."""
    with tempfile.TemporaryDirectory() as folder:
        run = anyio.run(hold_conversation, Path(folder) / "trip.db")
    return {
        "context-of-a-turn.svg": str(draw_context(run)),
        "layers.svg": str(draw_layers(read_layers())),
        "segments-and-facts.svg": str(draw_segments(run)),
        "window.svg": str(draw_window(run)),
    }


def main() -> None:
    for name, picture in draw_all().items():
        (FOLDER / "images" / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
