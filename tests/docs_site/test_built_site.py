"""The site as a reader has it: in a browser, served from this machine, with nothing from elsewhere."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from needed_programs import open_chromium, report_missing
from playwright.sync_api import Browser, Page, expect

SITE = Path(__file__).parent.parent.parent / "site"
PAGES = ["", "how-to/keep-facts/", "promises/", "use-with/", "reference/agents/", "reference/errors/"]
PHONE, DESKTOP = 390, 1280
# Only how long a test waits for what does not come.
expect.set_options(timeout=30_000)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not (SITE / "index.html").exists():
        report_missing("there is no site; `make docs` builds it")
    handler = functools.partial(QuietHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that must not ask another machine for anything, and not report an error."""
    context = browser.new_context(viewport={"width": DESKTOP, "height": 900})
    opened, problems = context.new_page(), list[str]()
    home = (address, "data:", "blob:")
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on(
        "request",
        lambda request: None if request.url.startswith(home) else problems.append(request.url),
    )
    opened.on("response", lambda answer: problems.append(answer.url) if answer.status >= 400 else None)
    yield opened
    context.close()
    assert problems == []


def search(page: Page, address: str, words: str) -> None:
    page.goto(address)
    page.get_by_role("button", name="Search").first.click()
    box = page.get_by_placeholder("Search")
    expect(box).to_be_focused()
    box.fill(words)


def test_search_finds_a_page_by_a_word_of_its_text(page: Page, address: str) -> None:
    search(page, address, "pgbouncer")
    page.get_by_role("option", name="Use pgbouncer").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("PostgreSQL")


def test_search_finds_a_method_of_a_class(page: Page, address: str) -> None:
    search(page, address, "drop_last_turn")
    page.get_by_role("option", name="drop_last_turn").first.click()
    # Members are folded, and unfold for whoever comes to one.
    expect(page.locator("h4[id$='.drop_last_turn']:visible")).to_have_count(1)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_as_wide_as_its_window(page: Page, address: str, path: str) -> None:
    page.goto(address + path)
    for width in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_picture_of_the_home_page_fits_a_desktop_and_a_phone(page: Page, address: str) -> None:
    page.goto(address)
    for width, name in ((DESKTOP, "inspector.png"), (PHONE, "inspector-phone.png")):
        page.set_viewport_size({"width": width, "height": 900})
        picture = page.locator("article img")
        picture.scroll_into_view_if_needed()
        expect(picture).to_have_js_property("complete", True)
        assert picture.evaluate("image => image.naturalWidth") > 0
        assert picture.evaluate("image => image.currentSrc.split('/').pop()") == name
        assert picture.evaluate("image => image.getBoundingClientRect().right") <= width


def test_a_wide_table_scrolls_on_a_phone(page: Page, address: str) -> None:
    page.set_viewport_size({"width": PHONE, "height": 900})
    page.goto(address + "benchmarks/")
    tables = page.locator("article .md-typeset__scrollwrap")
    widths = "wrap => [wrap.clientWidth, wrap.scrollWidth, getComputedStyle(wrap).overflowX]"
    found = [table.evaluate(widths) for table in tables.all()]
    assert any(inside > shown for shown, inside, _ in found)
    assert all(shown <= PHONE and overflow == "auto" for shown, _, overflow in found)


def test_an_entry_of_the_reference_has_one_heading_and_types(page: Page, address: str) -> None:
    page.goto(address + "reference/agents/")
    expect(page.get_by_role("heading", name="TurnLimits", level=3)).to_have_count(1)
    assert page.locator("h3", has_text="(").count() == 0
    entry = page.locator(".doc-class", has=page.locator("[id='autonomy_ctx.TurnLimits']")).last
    expect(entry.locator(".doc-signature").first).to_contain_text("tool_timeout: float")
