"""The inspector as one file, in a browser: what it shows, and that it runs nothing else and asks nobody."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from inspector.conftest import OpenPage
from inspector.stories import HOSTILE, view_of
from playwright.sync_api import expect

from autonomy_ctx.cli.inspector_file import bundle_script, encode_data


def test_a_conversation_is_picked_and_its_turns_are_clicked_through(
    page_file: Path, open_page: OpenPage
) -> None:
    page = open_page(page_file.as_uri())
    page.get_by_role("navigation", name="Conversations").get_by_role("link", name="trip").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("trip")
    page.get_by_role("link", name="Night 12 costs 72 EUR.").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Turn 12")
    expect(page.get_by_text("You plan short trips.")).to_be_visible()
    page.get_by_role("link", name="Previous turn").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Turn 11")
    expect(page.get_by_text("weather.example is down").first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Turn 12")


def test_the_bar_of_a_turn_has_all_tokens_of_the_request(page_file: Path, open_page: OpenPage) -> None:
    page = open_page(view_of(page_file.as_uri(), "conversation"))
    page.get_by_role("link", name="Night 12 costs 72 EUR.").click()
    whole = page.get_by_role("group", name=re.compile("^The request, "))
    parts = whole.locator("> *").evaluate_all("parts => parts.map((part) => part.ariaLabel)")
    tokens = [int(re.findall(r"(\d+) tokens?", part)[0]) for part in parts]
    assert sum(tokens) == int(re.findall(r"\d+", whole.get_attribute("aria-label") or "")[0])
    assert re.fullmatch(r"tools: \d+ tokens, get_current_time_utc, get_current_time", parts[-1])
    expect(page.locator(".key")).to_contain_text(f"tools{tokens[-1]}")
    item = page.locator(".sections > li").last
    expect(item).to_have_text(f"tools{tokens[-1]}get_current_time_utc, get_current_time")


def test_a_summary_unfolds_to_its_originals(page_file: Path, open_page: OpenPage) -> None:
    page = open_page(view_of(page_file.as_uri(), "conversation"))
    page.get_by_role("link", name="Night 12 costs 72 EUR.").click()
    segment = page.locator(".segment-text").first
    segment.get_by_role("button", name=re.compile("originals")).click()
    expect(segment.get_by_text("My booking code is PT-4711.")).to_be_visible()
    segment.get_by_role("button", name="Hide the originals").click()
    expect(segment.get_by_text("My booking code is PT-4711.")).to_be_hidden()


def test_two_turns_are_compared(page_file: Path, open_page: OpenPage) -> None:
    page = open_page(view_of(page_file.as_uri(), "conversation"))
    page.get_by_role("link", name="Night 12 costs 72 EUR.").click()
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare two turns")
    added = page.locator(".entry.added")
    expect(added.filter(has_text="Night 12 costs 72 EUR.")).to_be_visible()
    chosen = page.get_by_label("From").locator("option:checked")
    expect(chosen).to_have_text(re.compile("Night 11 costs"))
    page.get_by_label("From").select_option(index=0)
    expect(page.locator(".entry.added").filter(has_text="Night 11")).to_be_visible()


def test_the_timeline_shows_segments_turns_and_a_part_of_it_larger(
    page_file: Path, open_page: OpenPage
) -> None:
    page = open_page(view_of(page_file.as_uri(), "conversation"))
    timeline = page.locator(".timeline")
    drawing = timeline.get_by_role("group")
    expect(drawing).to_have_attribute("aria-label", re.compile("^Timeline of messages 1 to 24: [1-9]"))
    segments = timeline.locator("rect.segment:not(.past)")
    covered = segments.first.locator("title").text_content() or ""
    assert covered.startswith("Summary of messages 1 to ")
    expect(timeline.get_by_text("ceiling 8")).to_be_visible()
    expect(timeline.locator(".pinned")).to_have_count(1)
    box = drawing.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 60)
    expect(timeline.locator(".tip")).to_contain_text("in the window")
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(drawing).not_to_have_attribute("aria-label", re.compile("messages 1 to 24"))
    page.get_by_role("button", name="Whole conversation").click()
    expect(drawing).to_have_attribute("aria-label", re.compile("messages 1 to 24"))
    page.keyboard.press("+")
    expect(drawing).to_have_attribute("aria-label", re.compile("messages 7 to 18"))
    page.keyboard.press("-")
    timeline.get_by_role("link", name="Turn 12 at message 23").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Turn 12")


def test_epochs_are_shown_with_why_they_ended_and_what_was_appended(
    page_file: Path, open_page: OpenPage
) -> None:
    page = open_page(view_of(page_file.as_uri(), "conversation"))
    epochs = page.locator(".timeline .epoch title")
    assert re.match("Epoch 1, [1-9] recorded turns from message 1 on$", epochs.first.text_content() or "")
    assert "; the previous epoch ended: swap" in (epochs.last.text_content() or "")
    expect(page.locator(".turns .tag").filter(has_text="swap").first).to_be_visible()
    page.get_by_role("link", name="Night 10 costs 70 EUR.").click()
    expect(page.locator(".figures").get_by_text("Epoch")).to_be_visible()
    appended = page.locator(".message", has=page.locator(".tag", has_text="appended"))
    expect(appended.filter(has_text="It rains.").get_by_text("weather", exact=True)).to_be_visible()


def test_the_file_runs_one_script_and_says_so(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) == 1
    digest = b64encode(sha256(scripts[0].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert f"script-src 'sha256-{digest}';" in policy[1]
    assert policy[1].startswith("default-src 'none';")
    assert "unsafe" not in policy[1]


def test_what_is_not_that_script_is_refused(page_file: Path, open_page: OpenPage) -> None:
    page = open_page(page_file.as_uri(), strict=False)
    page.get_by_role("heading", level=1).wait_for()
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.wasRun = true";
            document.head.append(script);
        }"""
    )
    assert page.evaluate("window.wasRun") is None


@pytest.mark.parametrize("tab", ["messages", "facts", "pins"])
def test_hostile_text_is_shown_as_text(page_file: Path, open_page: OpenPage, tab: str) -> None:
    page = open_page(page_file.as_uri())
    side = page.get_by_role("navigation", name="Conversations")
    side.get_by_role("link", name=re.compile("script")).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("<script>")
    assert "\u202e" not in heading.inner_text()
    page.get_by_role("link", name=re.compile(f"^{tab}", re.IGNORECASE)).click()
    if tab == "messages":
        page.get_by_role("button", name=re.compile("document.title")).click()
    shown = page.locator(".text, .said").filter(has_text="document.title").first
    expect(shown).to_contain_text("<script>document.title = 'pwned'</script><img src=x onerror=alert(1)>")
    expect(shown).to_contain_text("ESC")
    expect(shown).to_contain_text("RLO")
    expect(shown).to_contain_text("ZWSP")
    text = shown.inner_text()
    assert not {"\x1b", "\u202e", "\u200b"} & set(text)
    assert page.locator("img").count() == 0
    assert "pwned" not in page.title().split("<")[0]


def test_search_marks_what_it_found(page_file: Path, open_page: OpenPage) -> None:
    page = open_page(view_of(page_file.as_uri(), "conversation"))
    page.keyboard.press("/")
    page.keyboard.type("booking")
    page.keyboard.press("Enter")
    expect(page.locator("mark").first).to_have_text("booking")
    page.get_by_role("link", name=re.compile("My booking code")).click()
    expect(page.locator(".item.found")).to_contain_text("My booking code is PT-4711.")


def test_data_cannot_end_the_element_it_stands_in() -> None:
    data = {"text": HOSTILE, "other": "<!-- <script> ]]>", "long": HOSTILE * 2, "again": HOSTILE * 2}
    text = encode_data(data)
    assert not set("<>&") & set(text)
    found = json.loads(text)
    assert found["data"]["text"] == HOSTILE
    assert found["texts"] == [HOSTILE * 2]
    assert found["data"]["long"] == found["data"]["again"] == {"$text": 0}


def test_every_module_of_the_page_is_in_the_script() -> None:
    folder = Path(__file__).parents[2] / "autonomy_ctx" / "server" / "inspector" / "page"
    script = bundle_script()
    for path in folder.glob("*.js"):
        assert f"modules.{path.stem} = " in script
    assert not re.search(r"(?m)^(?:import|export) ", script)
