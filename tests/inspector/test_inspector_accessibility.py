"""Whether everybody can use the page: axe-core's rules, the keyboard alone, a phone, both colour schemes."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from inspector.conftest import OpenPage
from inspector.stories import view_of
from needed_programs import report_missing
from playwright.sync_api import Page, expect

TABS = ["turns", "messages", "summary", "facts", "pins"]


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core."""
    try:
        return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        report_missing("the package axe-playwright-python is missing; `make test` installs it")


def open_view(open_page: OpenPage, page_file: Path, name: str, **options: Any) -> Page:
    """A view by its name; a turn is opened from the list, and compared from there."""
    address = page_file.as_uri()
    if name in TABS:
        page = open_page(view_of(address, "conversation", tab=name), **options)
    elif name == "search":
        page = open_page(view_of(address, "search", query="night"), **options)
    else:
        page = open_page(view_of(address, "conversation"), **options)
        page.get_by_role("link", name=re.compile("Night 12")).first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Turn 12")
        if name == "diff":
            page.get_by_role("link", name="Compare").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("Compare two turns")
    page.get_by_role("heading", level=1).wait_for()
    expect(page.get_by_role("main")).not_to_have_attribute("aria-busy", "true")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [*TABS, "turn", "diff", "search"])
def test_axe_finds_no_serious_fault(
    page_file: Path, open_page: OpenPage, axe: str, name: str, scheme: str
) -> None:
    page = open_view(open_page, page_file, name, scheme=scheme)
    page.evaluate(axe)
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    serious = [
        (one["id"], node["html"][:200], node["failureSummary"])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
    assert serious == []


@pytest.mark.parametrize("name", [*TABS, "turn", "diff", "search"])
def test_nothing_is_wider_than_a_phone(page_file: Path, open_page: OpenPage, name: str) -> None:
    page = open_view(open_page, page_file, name, width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_the_keyboard_is_enough(page_file: Path, open_page: OpenPage) -> None:
    page = open_page(view_of(page_file.as_uri(), "conversation"))
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("trip")
    page.keyboard.press("j")
    expect(page.locator(":focus")).to_contain_text("Night 12")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(heading).to_have_text("Turn 12")
    page.keyboard.press("ArrowLeft")
    expect(heading).to_have_text("Turn 11")
    page.keyboard.press("d")
    expect(heading).to_have_text("Compare two turns")
    page.keyboard.press("Escape")
    expect(heading).to_have_text("Turn 11")
    page.keyboard.press("Escape")
    expect(heading).to_have_text("trip")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_the_colours_follow_the_system_until_they_are_switched(page_file: Path, open_page: OpenPage) -> None:
    page = open_page(page_file.as_uri(), scheme="dark")
    page.get_by_role("heading", level=1).wait_for()
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(18, 20, 23)"
    page.keyboard.press("t")
    assert page.evaluate(paper) == "rgb(248, 247, 244)"
    expect(page.get_by_role("button", name="Light colours")).to_be_visible()
