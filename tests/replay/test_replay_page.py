"""The page of a replay: one file that asks for nothing, shows hostile text as text, and fits a phone."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from html.parser import HTMLParser
from typing import Any

import anyio
import pytest
from replay.recordings import recorded, talk

from autonomy_ctx.replay import RecordedConversation, ReplayReport, make_grid, render_report, replay
from autonomy_ctx.replay.plots import (
    NARROW,
    WIDE,
    Line,
    Point,
    bar_plot,
    line_plot,
    round_up,
    scatter_plot,
)

HOSTILE = "<script>alert(1)</script> \u202egnp.exe \x1b[31m & \"quoted\" 'name'"


def make_report(conversation: RecordedConversation, **numbers: Any) -> ReplayReport:
    async def work() -> ReplayReport:
        return await replay(conversation, make_grid(**({"floors": (4,), "ceilings": (10, 20)} | numbers)))

    return anyio.run(work)


@pytest.fixture(scope="module")
def page() -> str:
    return render_report(make_report(recorded(40), floors=(4, 6), ceilings=(10, 20), sizes=(256,)))


class Tags(HTMLParser):
    """Checks that every tag is closed, and collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parse(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_the_page_is_whole_and_asks_for_nothing(page: str) -> None:
    tags = parse(page)
    assert tags.names.isdisjoint({"script", "img", "link", "iframe", "object", "form", "a"})
    assert not {name for name in tags.attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert "http:" not in page
    assert "https:" not in page


def test_the_policy_allows_the_stylesheet_by_its_hash_and_nothing_else(page: str) -> None:
    [style] = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'\"" in page


def test_the_page_says_what_the_report_says(page: str) -> None:
    report = make_report(recorded(40), floors=(4, 6), ceilings=(10, 20), sizes=(256,))
    assert report.recommendation.reason in page
    assert report.recommendation.runner_up_reason in page
    for run in report.runs:
        assert run.label in page
    assert page == render_report(report), "the same replay is the same page, byte for byte"


def test_hostile_text_is_shown_as_text() -> None:
    messages = [*talk(12), {"role": "user", "content": f"Never use {HOSTILE}."}]
    conversation = RecordedConversation(messages, name=HOSTILE)
    page = render_report(make_report(conversation))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;U+202E&gt;" in page
    parse(page)


@pytest.mark.parametrize("turns", [1, 2, 700])
def test_short_and_long_conversations_are_drawn(turns: int) -> None:
    messages = [message for message in talk(turns) if message["role"] in ("user", "system")]
    page = render_report(make_report(RecordedConversation(messages)))
    parse(page)
    assert "NaN" not in page
    assert "inf" not in re.sub(r"[a-z]*info[a-z]*", "", page)
    assert len(page) < 400_000


def test_a_line_that_leaves_the_plot_ends_there() -> None:
    line = Line(label="a", values=[1.0, 5.0, 50.0, 60.0, 5.0], style="best")
    drawn = line_plot([line], title="t", width=400, top=10.0, format_value=str)
    [path] = re.findall(r'class="line best" d="([^"]*)"', drawn)
    # Up to the edge and down again, not along it.
    assert path.count("M") == 3


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_long_labels_of_bars_are_not_cut_off(width: int) -> None:
    label = "20/80, size 512, budget 4,000"
    drawn = bar_plot([(label, "", [(1.0, "new")], "$1.00")], title="t", width=width, top=1.0)
    [(x, anchor)] = re.findall(rf'x="([^"]*)" y="[^"]*" text-anchor="(\w+)">{label}<', drawn)
    # 7 pixels a letter.
    assert float(x) >= (7 * len(label) if anchor == "end" else 0)
    [(start, size)] = re.findall(r'<rect class="new" x="([^"]*)" y="[^"]*" width="([^"]*)"', drawn)
    assert float(size) > width / 2
    assert float(start) + float(size) + 50 < width


def test_the_two_best_points_are_named_in_any_crowd() -> None:
    crowd = [
        Point(label=f"{n}/80, size 512", x=1 + n / 1e6, y=0.5, style="best" if n == 7 else "", title="")
        for n in range(40)
    ]
    drawn = scatter_plot(crowd, title="t", width=NARROW, x_label="x", y_label="y", format_x=str, format_y=str)
    assert ">7/80, size 512</text>" in drawn


@pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (1.1, 1.5), (4614, 5000), (99_000, 100_000)])
def test_axes_end_with_round_numbers(value: float, top: float) -> None:
    assert round_up(value) == top
