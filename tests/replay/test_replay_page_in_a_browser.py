"""The page of a replay in a real browser: nothing is refused or missing, and it can be read on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import anyio
import pytest
from needed_programs import open_chromium
from replay.recordings import talk

from autonomy_ctx.replay import RecordedConversation, make_grid, render_report, replay

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MIN_LETTER_PIXELS = 9


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    async def draw() -> str:
        conversation = RecordedConversation(
            [*talk(40), {"role": "user", "content": "Never use <script>document.title = 'owned'</script>."}],
            name="a name that is as long as nobody would make it " * 3 + "x" * 80,
        )
        grid = make_grid(floors=(4, 6), ceilings=(10, 20), sizes=(128, 256))
        return render_report(await replay(conversation, grid, limit=400))

    file = tmp_path_factory.mktemp("page") / "replay.html"
    file.write_text(anyio.run(draw), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    # After the address: while it is open, no other event loop can run in this thread.
    with open_chromium() as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_fits_and_reports_nothing(
    browser: Browser, address: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    assert problems == [], "the policy of the page refuses nothing that it has"
    assert page.title().startswith("Replay of a name")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert ink != paper
    letters = page.evaluate(
        "[...document.querySelectorAll('svg text')].map(one => one.getBoundingClientRect().height)"
        ".filter(height => height > 0)"
    )
    assert len(letters) > 20
    assert min(letters) >= MIN_LETTER_PIXELS
    page.close()


def test_dark_is_dark(browser: Browser, address: str) -> None:
    colors = []
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
        page.goto(address)
        colors.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert colors[0] != colors[1]
