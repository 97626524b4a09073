"""The inspector served on this machine, in a browser: live, with 100,000 messages, without the token."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import pytest
from inspector.conftest import OpenPage
from inspector.stories import AGENT, CONVERSATION, SCOPE, run_beside, view_of, write_story
from playwright.sync_api import Browser, Page, expect

from autonomy_ctx import Agent, Memory
from autonomy_ctx.server.inspector.app import InspectorAddress, inspector_server
from autonomy_ctx.testing import ScriptedModel

MANY = 100_000


@contextmanager
def served(path: Path, *, write: bool = False) -> Iterator[InspectorAddress]:
    """An inspector of a database, in a thread of its own."""
    addresses: list[InspectorAddress] = []
    ready, stop = threading.Event(), anyio.Event()
    tokens: list[anyio.lowlevel.EventLoopToken] = []

    async def serve() -> None:
        tokens.append(anyio.lowlevel.current_token())
        async with Memory(f"sqlite:///{path}") as memory, inspector_server(memory, write=write) as address:
            addresses.append(address)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    assert ready.wait(20)
    try:
        yield addresses[0]
    finally:
        anyio.from_thread.run_sync(stop.set, token=tokens[0])
        thread.join()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "story.db"
    run_beside(write_story, path)
    return path


@pytest.fixture(scope="module")
def address(story: Path) -> Iterator[InspectorAddress]:
    with served(story) as found:
        yield found


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(text)


async def say(path: Path, text: str) -> None:
    """One more turn of the agent, from another process's point of view."""
    async with (
        Memory(f"sqlite:///{path}") as memory,
        Agent(AGENT, model=ScriptedModel("Certainly."), memory=memory) as agent,
    ):
        await agent.send(text, scope=SCOPE, conversation=CONVERSATION)


def test_the_token_opens_the_page_and_leaves_the_address(
    address: InspectorAddress, open_page: OpenPage
) -> None:
    page = open_page(address.page)
    side = page.get_by_role("navigation", name="Conversations")
    side.get_by_role("link", name=re.compile("^trip")).click()
    heading(page, "trip")
    assert address.token not in page.url
    assert address.token not in page.evaluate("document.cookie")
    page.reload()
    heading(page, "trip")
    page.get_by_role("link", name=re.compile("Night 12")).first.click()
    heading(page, "Turn 12")
    page.get_by_role("button", name=re.compile("originals")).first.click()
    expect(page.locator(".originals").get_by_text("My booking code is PT-4711.")).to_be_visible()


def test_a_view_is_opened_together_with_the_token(address: InspectorAddress, open_page: OpenPage) -> None:
    view = "%2Fconversation%3Fagent%3Dguide%26scope%3Dana%26conversation%3Dtrip%26tab%3Dfacts"
    page = open_page(f"{address.page}&view={view}")
    heading(page, "trip")
    expect(page.get_by_role("link", name=re.compile("^Facts"))).to_have_attribute("aria-current", "page")


@pytest.mark.parametrize("fragment", ["#token=wrong", "", "#/conversation?scope=ana&conversation=trip"])
def test_without_the_token_nothing_is_shown(
    address: InspectorAddress, open_page: OpenPage, fragment: str
) -> None:
    page = open_page(f"{address.url}/{fragment}", strict=False)
    expect(page.get_by_role("alert")).to_contain_text("token")
    assert "trip" not in page.get_by_role("main").inner_text()
    expect(page.get_by_role("navigation", name="Conversations")).to_be_empty()


def test_the_right_address_helps_in_the_same_tab(address: InspectorAddress, open_page: OpenPage) -> None:
    page = open_page(f"{address.url}/#token=wrong", strict=False)
    expect(page.get_by_role("alert")).to_contain_text("token")
    page.goto(address.page)
    page.get_by_role("heading", level=1).wait_for()
    page.goto(address.page)
    page.get_by_role("heading", level=1).wait_for()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert address.token not in page.url


def test_a_name_of_another_site_is_refused(address: InspectorAddress, browser: Browser) -> None:
    port = address.url.rpartition(":")[2]
    context = browser.new_context()
    page = context.new_page()
    answer = page.request.get(f"http://127.0.0.1:{port}/", headers={"host": "evil.example"})
    assert answer.status == 403
    allowed = page.request.get(f"http://127.0.0.1:{port}/")
    assert allowed.status == 200
    assert "'unsafe" not in allowed.headers["content-security-policy"]
    context.close()


def test_search_finds_messages_of_the_server(address: InspectorAddress, open_page: OpenPage) -> None:
    page = open_page(address.page)
    page.get_by_role("heading", level=1).wait_for()
    page.goto(view_of(f"{address.url}/", "search", query="booking"))
    expect(page.locator("mark").first).to_have_text("booking")
    page.get_by_role("link", name=re.compile("My booking code")).click()
    expect(page.locator(".item.found")).to_contain_text("My booking code is PT-4711.")


@pytest.mark.parametrize("tab", ["turns", "messages"])
def test_a_new_turn_shows_up_while_one_looks(tmp_path: Path, open_page: OpenPage, tab: str) -> None:
    path = tmp_path / "live.db"
    run_beside(say, path, "The first question")
    with served(path) as address:
        page = open_page(f"{address.page}")
        page.goto(view_of(f"{address.url}/", "conversation", tab=tab))
        expect(page.get_by_role("status")).to_have_text("live")
        expect(page.get_by_text("The first question")).to_be_visible()
        run_beside(say, path, "And a second one")
        expect(page.get_by_text("And a second one")).to_be_visible()
        expect(page.get_by_role("navigation", name="Conversations")).to_contain_text("4 messages")
        page.close()


def test_only_an_inspector_that_may_write_has_buttons(address: InspectorAddress, open_page: OpenPage) -> None:
    page = open_page(address.page)
    page.goto(view_of(f"{address.url}/", "conversation", tab="facts"))
    heading(page, "trip")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    expect(page.get_by_role("button", name="Add")).to_have_count(0)


def test_facts_pins_and_conversations_are_changed(tmp_path: Path, open_page: OpenPage) -> None:
    path = tmp_path / "written.db"
    run_beside(say, path, "The ferry leaves at 9:40.")
    run_beside(say, path, "And the train?")
    with served(path, write=True) as address:
        # What changed is read again, and may be gone by then.
        page = open_page(address.page, refused="404")
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(view_of(f"{address.url}/", "conversation", tab="facts"))
        page.get_by_label("New fact").fill("The ferry is at 9:40")
        page.get_by_role("button", name="Add").click()
        fact = page.get_by_role("listitem").filter(has_text="The ferry is at 9:40")
        fact.get_by_role("button", name="Done").click()
        expect(fact).to_have_class("past")
        page.get_by_role("link", name=re.compile("^Messages")).click()
        page.get_by_role("button", name=re.compile("The ferry leaves")).click()
        page.get_by_role("button", name="Pin", exact=True).click()
        expect(page.get_by_role("link", name="Pins 1")).to_be_visible()
        page.get_by_role("button", name="Undo turn").click()
        expect(page.get_by_role("link", name="Messages 2")).to_be_visible()
        page.get_by_role("button", name="Delete", exact=True).first.click()
        expect(page.get_by_text("There are no conversations yet.").first).to_be_visible()
        page.close()


async def write_many(path: Path) -> None:
    async with Memory(f"sqlite:///{path}", synchronous="NORMAL") as memory:
        view = memory.for_agent(AGENT)
        for start in range(1, MANY, 2_000):
            numbers = range(start, start + 2_000)
            await view.append(
                SCOPE, CONVERSATION, *[{"role": "user", "content": f"This is message {n}."} for n in numbers]
            )


@pytest.mark.nightly
def test_a_conversation_of_100_000_messages_scrolls(tmp_path: Path, open_page: OpenPage) -> None:
    run_beside(write_many, tmp_path / "many.db")
    with served(tmp_path / "many.db") as address:
        page = open_page(address.page)
        heading(page, CONVERSATION)
        rows = page.locator(".item")
        expect(page.get_by_text("This is message 1.")).to_be_visible()
        page.get_by_label("Go to message").fill("77,777")
        page.keyboard.press("Enter")
        expect(page.get_by_text("This is message 77777.")).to_be_in_viewport()
        for _ in range(30):
            page.mouse.wheel(0, 2_000)
        page.get_by_role("button", name="Newest").evaluate("(button) => button.click()")
        expect(page.get_by_text(f"This is message {MANY}.")).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator(".item .full")).to_be_visible()
        assert rows.count() < 100, "only what is in sight exists"
        page.close()


def test_an_empty_memory_shows_its_first_conversation_when_it_comes(
    tmp_path: Path, open_page: OpenPage
) -> None:
    path = tmp_path / "empty.db"
    with served(path) as address:
        page = open_page(address.page)
        expect(page.get_by_role("main")).to_contain_text("There are no conversations yet.")
        run_beside(say, path, "The first question")
        heading(page, CONVERSATION)
        page.get_by_role("link", name=re.compile("The first question")).click()
        heading(page, "Turn 1")
        expect(page.get_by_role("link", name="Next turn")).to_have_count(0)
        run_beside(say, path, "And a second one")
        page.get_by_role("link", name="Next turn").click()
        heading(page, "Turn 2")
        page.close()


async def write_long(path: Path) -> None:
    async with (
        Memory(f"sqlite:///{path}") as memory,
        Agent(AGENT, model=ScriptedModel("Certainly."), memory=memory, explain_turns=2) as agent,
    ):
        for number in range(1, 104):
            await agent.send(f"message {number}", scope=SCOPE, conversation=CONVERSATION)


def test_each_turn_is_opened_by_its_number_and_older_turns_are_listed(
    tmp_path: Path, open_page: OpenPage
) -> None:
    run_beside(write_long, tmp_path / "long.db")
    with served(tmp_path / "long.db") as address:
        page = open_page(address.page)
        expect(page.locator(".turns li")).to_have_count(100)
        page.get_by_role("button", name="Older turns").click()
        expect(page.locator(".turns li")).to_have_count(103)
        expect(page.get_by_role("button", name="Older turns")).to_be_hidden()
        page.get_by_label("Order of the turns").select_option("most tokens first")
        expect(page.locator(".turns li")).to_have_count(103)
        texts = page.locator(".turns li .number:not(.wide)").all_inner_texts()
        tokens = [int(text.split()[0].replace(",", "")) for text in texts]
        assert tokens == sorted(tokens, reverse=True)
        page.get_by_label("Go to turn").fill("57")
        page.keyboard.press("Enter")
        heading(page, "Turn 57")
        expect(page.get_by_text("The full context of this turn is not kept")).to_be_visible()
        page.get_by_role("link", name="Next turn").click()
        heading(page, "Turn 58")
        page.evaluate("location.hash = location.hash.replace('58', '102')")
        heading(page, "Turn 102")
        expect(page.get_by_role("link", name="Next turn")).to_be_visible()
        page.get_by_role("link", name="Previous turn").click()
        heading(page, "Turn 101")
        # It may still be reading: before its server ends.
        page.close()
