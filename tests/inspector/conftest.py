"""A real browser, Debian's chromium, and pages in it that must not report a single error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from inspector.stories import make_page, run_beside, write_story
from needed_programs import open_chromium
from playwright.sync_api import Browser, Page, expect

# Only how long a test waits for what does not come.
WAIT_MILLISECONDS = 30_000
expect.set_options(timeout=WAIT_MILLISECONDS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Open for one module: while it is, no other event loop can run in this thread."""
    with open_chromium() as found:
        yield found


@pytest.fixture(scope="session")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A story as one file."""
    folder = tmp_path_factory.mktemp("inspector")
    run_beside(write_story, folder / "story.db")
    text = run_beside(make_page, folder / "story.db")
    (folder / "story.html").write_text(text, encoding="utf-8")
    return folder / "story.html"


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages of some size; an error in any of them, or a request to elsewhere, fails the test."""
    problems: list[str] = []
    contexts = []

    def open_one(
        address: str,
        *,
        width: int = 1280,
        height: int = 800,
        scheme: str = "light",
        strict: bool = True,
        refused: str = "",
    ) -> Page:
        """`refused` is part of the message for requests that may fail; not `strict` allows any error."""
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MILLISECONDS)
        if strict:
            page.on("pageerror", lambda error: problems.append(f"error: {error}"))
            page.on(
                "console",
                lambda line: (
                    problems.append(line.text)
                    if line.type == "error" and not (refused and refused in line.text)
                    else None
                ),
            )
        home = address.partition("#")[0].rpartition("/")[0]
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((home, "data:", "blob:"))
                else problems.append(f"request to {request.url}")
            ),
        )
        page.goto(address)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert problems == []
