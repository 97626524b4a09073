"""Plots as inline SVG: lines over turns, bars of parts, points of two numbers. Text in, text out.

Colours are classes of the page's stylesheet, so that a plot is right in light and dark. A plot is drawn
twice, for a wide and for a narrow page: letters keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

WIDE, NARROW = 960, 400
# What is left of a plot, below it and around it.
LEFT_MARGIN, RIGHT_MARGIN, TOP_MARGIN, BOTTOM_MARGIN = 56, 16, 14, 30
FONT = 12
# More points than this cannot be told apart on a page.
MAX_POINTS = 480
MIN_SHARE_SPAN = 0.2
Format: TypeAlias = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Values over turns, from turn 1 on. `style` is a class of the stylesheet."""

    label: str
    values: Sequence[float]
    style: str
    has_area: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting as two numbers."""

    label: str
    x: float
    y: float
    style: str
    title: str

    @property
    def is_important(self) -> bool:
        """True for one of the two settings that are recommended."""
        return self.style in ("best", "second")


def both_widths(draw: Callable[[int], str]) -> str:
    """A plot for a wide page and for a narrow one; the stylesheet shows one of them."""
    return f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>'


def line_plot(
    lines: Sequence[Line],
    *,
    title: str,
    width: int,
    height: int = 280,
    top: float,
    format_value: Format,
    limit: tuple[float, str] | None = None,
) -> str:
    """Lines over turns, up to `top`; what is above it is cut off."""
    turns = max(len(line.values) for line in lines)
    area = _Area(width, height, 1, max(turns, 2), 0, top)
    parts = [*_y_axis(area, format_value), *_turn_axis(area, turns)]
    # The first line is the one that matters: it is drawn last, above the others.
    for line in reversed(lines):
        parts += _draw_line(line, area)
    if limit is not None and limit[0] <= top:
        y = area.y(limit[0])
        parts.append(_level(y, width, "limit"))
        parts.append(_text(width - RIGHT_MARGIN, y - 5, limit[1], "end", "limit-label"))
    return _svg(width, height, title, parts)


def spark_plot(values: Sequence[float], *, title: str, top: float, style: str) -> str:
    """A small line over turns without axes, to stand beside others of the same scale."""
    width, height = 240, 72
    points = _bucket(values, 120)
    step = width / max(len(points) - 1, 1)
    path = [(index * step, height - 2 - (height - 6) * min(value / top, 1.0)) for index, value in points]
    line = _path(path)
    closed = f"{line}L{width},{height}L0,{height}Z"
    parts = [f'<path class="area {style}" d="{closed}"/>', f'<path class="line {style}" d="{line}"/>']
    return _svg(width, height, title, parts, "spark")


def bar_plot(
    rows: Sequence[tuple[str, str, Sequence[tuple[float, str]], str]], *, title: str, width: int, top: float
) -> str:
    """A bar for each row: its label and class, its parts with their classes, and the text after it."""
    label_width = max(_text_width(label) for label, *_ in rows) + 14
    # Labels that would take the room of the bars stand above them.
    is_stacked = label_width > width * 0.35
    start = 0.0 if is_stacked else label_width
    step, text_width = 42 if is_stacked else 26, 72
    room = width - start - text_width
    parts = []
    for number, (label, style, pieces, after) in enumerate(rows):
        y = number * step + (20 if is_stacked else 4)
        at = (0.0, y - 5, "start") if is_stacked else (start - 10, y + 13, "end")
        parts.append(_text(at[0], at[1], label, at[2], f"bar-label {style}"))
        x = start
        for value, kind in pieces:
            size = room * value / top if top else 0
            if size > 0:
                parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{size:.1f}" height="17"/>')
            x += size
        parts.append(_text(x + 8, y + 13, after, "start", f"bar-value {style}"))
    return _svg(width, len(rows) * step + 6, title, parts)


def scatter_plot(
    points: Sequence[Point],
    *,
    title: str,
    width: int,
    height: int = 320,
    x_label: str,
    y_label: str,
    format_x: Format,
    format_y: Format,
) -> str:
    """Points with their labels; axes begin where the points do, and are named."""
    xs, ys = [point.x for point in points], [point.y for point in points]
    left, right = _pad_range(min(xs), max(xs))
    # Shares that hardly differ must not look as if they did.
    low, high = _pad_range(min(ys), max(ys))
    missing = max(MIN_SHARE_SPAN - (high - low), 0.0)
    high = min(high + missing / 2, 1.02)
    area = _Area(width, height - 18, left, right, max(min(low, high - MIN_SHARE_SPAN), 0.0), high)
    parts = [*_y_axis(area, format_y), *_x_axis(area, format_x, 5 if width > NARROW else 3)]
    parts.append(_text((LEFT_MARGIN + width - RIGHT_MARGIN) / 2, height - 4, x_label, "middle", "axis-label"))
    parts.append(_text(LEFT_MARGIN - 8, TOP_MARGIN - 3, y_label, "end", "axis-label"))
    places = [(area.x(point.x), area.y(point.y)) for point in points]
    for point, (x, y) in zip(points, places, strict=True):
        radius = 7 if point.is_important else 5
        parts.append(
            f'<circle class="point {point.style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
            f"<title>{escape(point.title)}</title></circle>"
        )
    parts += _point_labels(points, places, width)
    return _svg(width, height, title, parts)


def _point_labels(
    points: Sequence[Point], places: Sequence[tuple[float, float]], width: int
) -> Iterator[str]:
    """The names of points beside, above or below them, those that matter first.

    One without room is left to the tooltip; those that matter are named in any case.
    """
    circles = [(y, x - 7, x + 7) for x, y in places]
    names: list[tuple[float, float, float]] = []
    ordered = sorted(zip(points, places, strict=True), key=lambda one: not one[0].is_important)
    for point, (x, y) in ordered:
        size = _text_width(point.label)
        spots = [(x + 11, y), (x - 11 - size, y), (x - size / 2, y - 16), (x - size / 2, y + 16)]
        inside = [spot for spot in spots if spot[0] > LEFT_MARGIN and spot[0] + size < width] or spots[1:2]
        free = [spot for spot in inside if not _is_covered(*spot, size, [*circles, *names])]
        if point.is_important:
            free = free or [spot for spot in inside if not _is_covered(*spot, size, names)] or inside
        if free:
            start, at = free[0]
            names.append((at, start, start + size))
            yield _text(start, at + 4, point.label, "start", f"point-label {point.style}")


def _is_covered(start: float, y: float, size: float, taken: Sequence[tuple[float, float, float]]) -> bool:
    return any(abs(y - at) < FONT + 1 and start < end and begin < start + size for at, begin, end in taken)


def _text_width(text: str) -> float:
    """About how wide a text is, in the letters of plots."""
    return len(text) * FONT * 0.58


def round_up(value: float) -> float:
    """The next number that an axis can end with."""
    if value <= 0:
        return 1.0
    step: float = 10.0 ** math.floor(math.log10(value))
    return next(step * factor for factor in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * factor >= value)


@dataclass(frozen=True, slots=True)
class _Area:
    """Where values lie in a plot."""

    width: int
    height: int
    left: float
    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        return LEFT_MARGIN + (self.width - LEFT_MARGIN - RIGHT_MARGIN) * (value - self.left) / (
            (self.right - self.left) or 1
        )

    def y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1)
        return TOP_MARGIN + (self.height - TOP_MARGIN - BOTTOM_MARGIN) * (1 - min(max(share, 0.0), 1.0))


def _draw_line(line: Line, area: _Area) -> Iterator[str]:
    points = _bucket(line.values, MAX_POINTS)
    last = len(points) - 1 or 1
    turns = len(line.values)
    path = [(area.x(1 + index * (turns - 1) / last), area.y(value)) for index, value in points]
    above = [value > area.high for _, value in points]
    # Where a line leaves the plot it ends: along the edge it would look like a value.
    pieces = [path[at : at + 2] for at in range(last) if not (above[at] and above[at + 1])]
    drawn = _path(path) if not any(above) else "".join(map(_path, pieces))
    if line.has_area:
        floor = area.height - BOTTOM_MARGIN
        closed = f"{drawn}L{path[-1][0]:.1f},{floor}L{LEFT_MARGIN},{floor}Z"
        yield f'<path class="area {line.style}" d="{closed}"/>'
    yield f'<path class="line {line.style}" d="{drawn}"><title>{escape(line.label)}</title></path>'


def _bucket(values: Sequence[float], points: int) -> list[tuple[int, float]]:
    """At most so many values, each the largest of its stretch: no peak is lost."""
    size = -(-len(values) // points)
    return [(number, max(values[at : at + size])) for number, at in enumerate(range(0, len(values), size))]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _y_axis(area: _Area, format_value: Format) -> Iterator[str]:
    for value in _ticks(area.low, area.high, 4):
        y = area.y(value)
        yield _level(y, area.width, "grid")
        yield _text(LEFT_MARGIN - 8, y + 4, format_value(value), "end", "tick")


def _x_axis(area: _Area, format_value: Format, count: int) -> Iterator[str]:
    for value in _ticks(area.left, area.right, count):
        yield _text(area.x(value), area.height - BOTTOM_MARGIN + 18, format_value(value), "middle", "tick")


def _turn_axis(area: _Area, turns: int) -> Iterator[str]:
    # A word has room beside the last one.
    room = area.x(turns) - FONT * 8
    inner = [
        value
        for value in _ticks(0, turns, 5 if area.width > NARROW else 3)
        if area.x(1) + FONT * 5 < area.x(value) < room
    ]
    for value in [1, *inner, turns]:
        anchor = "start" if value == 1 else "end" if value == turns else "middle"
        text = f"turn {value:,.0f}" if value in (1, turns) else f"{value:,.0f}"
        yield _text(area.x(value), area.height - BOTTOM_MARGIN + 18, text, anchor, "tick")


def _ticks(low: float, high: float, count: int) -> list[float]:
    """About so many round values between two."""
    span = (high - low) or 1
    raw = span / count
    step: float = 10.0 ** math.floor(math.log10(raw))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if step * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _pad_range(low: float, high: float) -> tuple[float, float]:
    room = (high - low) * 0.12 or abs(high) * 0.1 or 0.1
    return max(low - room, 0.0), high + room


def _level(y: float, width: int, style: str) -> str:
    """A line from one side of a plot to the other."""
    ends = f'x1="{LEFT_MARGIN}" x2="{width - RIGHT_MARGIN}" y1="{y:.1f}" y2="{y:.1f}"'
    return f'<line class="{style}" {ends}/>'


def _text(x: float, y: float, text: str, anchor: str, style: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: int, height: int, title: str, parts: Sequence[str], style: str = "plot") -> str:
    return (
        f'<svg class="{style}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
