"""Large results and images of old turns leave when an epoch begins, and only then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents.kit import call, calls

from autonomy_ctx import (
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    SummarizedHistorySection,
    tool,
)
from autonomy_ctx.messages.message import ImageContent
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.testing import ScriptedModel

WHERE: Any = {"scope": "ana", "conversation": "trip"}
PICTURE = ImageContent.from_bytes(b"a picture")
pytestmark = pytest.mark.anyio


def large(number: int) -> str:
    return f"file {number} begins here\n" + f"line of {number} and more\n" * 90


@tool
def read_file(number: int) -> str:
    """Read a file."""
    return large(number)


@tool
def look(number: int) -> Any:
    """Look at the screen."""
    return [PICTURE if number < 100 else ImageContent.from_bytes(f"picture {number}".encode()), "seen"]


class Talk:
    """An agent whose turns call one tool each."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url, self.options, self.next = url, options, calls(call("read_file", number=0))

    async def open(self) -> Talk:
        self.memory = Memory(self.url)
        self.agent = Agent(
            "shop",
            model=ScriptedModel([self._answer]),
            memory=self.memory,
            tools=[read_file, look],
            **self.options,
        )
        return self

    def _answer(self, request: Any) -> Any:
        return self.next if request.messages[-1]["role"] == "user" else "done"

    async def turn(self, name: str, number: int) -> ComposedContext:
        self.next = calls(call(name, number=number))
        await self.agent.send(f"turn {number}", **WHERE)
        return await self.agent.explain(**WHERE)

    async def close(self) -> None:
        await self.agent.close()
        await self.memory.close()


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    made = await Talk(f"sqlite:///{tmp_path}/memory.db").open()
    yield made
    await made.close()


def texts(context: ComposedContext) -> list[str]:
    return [message.text for message in context.messages if message.role == "tool"]


async def test_results_of_old_turns_are_lines_from_the_next_epoch_on(talk: Talk) -> None:
    for number in range(9):
        last = await talk.turn("read_file", number)
    assert texts(last) == [large(number) for number in range(9)], "nothing leaves inside an epoch"
    assert last.omitted == []
    await talk.agent.end_epoch(**WHERE)
    last = await talk.turn("read_file", 9)
    first, *_ = shown = texts(last)
    # The newest six turns, and the one that is asked now.
    assert shown[4:] == [large(number) for number in range(4, 10)]
    assert first == (
        '[Not shown here any more: the result of read_file({"number": 0}), 1,729 characters, which began: '
        'file 0 begins here; read_result(id="3") shows it again]'
    )
    [omission] = last.omitted
    assert (omission.what, omission.count, omission.reason) == ("results", 4, "clear_results_after=6")
    assert [one.position for one in last.origins()][4] == 3
    # They stay lines, and no others become lines, until the next epoch.
    later = await talk.turn("read_file", 10)
    assert texts(later) == [*shown, large(10)]
    assert later.end_reason is None


async def test_what_was_cleared_is_read_again_and_is_the_same_after_a_restart(talk: Talk) -> None:
    for number in range(8):
        await talk.turn("read_file", number)
    await talk.agent.end_epoch(**WHERE)
    before = await talk.turn("read_file", 8)
    await talk.close()
    await talk.open()
    talk.next = calls(call("read_result", id="3"))
    await talk.agent.send("read it again", **WHERE)
    after = await talk.agent.explain(**WHERE)
    assert after.end_reason is None
    assert texts(after)[: len(texts(before))] == texts(before)
    assert texts(after)[-1].partition("\n")[2] == large(0)


async def test_pins_stay(talk: Talk) -> None:
    for number in range(9):
        await talk.turn("read_file", number)
    entries = (await talk.memory.for_agent("shop").read("ana", "trip")).entries
    [pinned] = [entry.message.id for entry in entries if entry.position == 3]
    await talk.agent.pin(pinned, **WHERE)
    await talk.agent.end_epoch(**WHERE)
    shown = texts(await talk.turn("read_file", 9))
    assert shown[0] == large(0)
    assert shown[1].startswith("[Not shown here any more")


async def test_an_epoch_ends_where_old_results_have_cost_enough(tmp_path: Path) -> None:
    talk = await Talk(f"sqlite:///{tmp_path}/memory.db", clear_results_after=2).open()
    found = []
    for number in range(24):
        last = await talk.turn("read_file", number)
        found.append((await talk.agent.explain(step=1, **WHERE)).end_reason)
    assert set(found) == {EndReason.OLD_RESULTS, None}
    # Each time, what is old has been sent often, and is 2,000 tokens or more.
    assert found.index(EndReason.OLD_RESULTS) >= 5
    assert found.count(EndReason.OLD_RESULTS) <= 6
    assert last.tokens < 24 * 500 / 2
    await talk.close()


async def test_the_same_image_is_shown_once_and_old_ones_leave(talk: Talk) -> None:
    for number in range(5):
        last = await talk.turn("look", number)
    images = [message for message in last.messages if PICTURE in message.parts]
    assert len(images) == 1
    assert (
        texts(last)[1] == "[The same image as in message 3 above]\nseen"
        or "[The same image" in texts(last)[1]
    )
    await talk.agent.end_epoch(**WHERE)
    last = await talk.turn("look", 5)
    shown = texts(last)
    assert 'an image of message 3; read_result(id="3") shows it again' in shown[0]
    assert sum(PICTURE in message.parts for message in last.messages) == 1
    assert PICTURE in [message for message in last.messages if message.role == "tool"][3].parts
    assert [(one.what, one.count) for one in last.omitted] == [("images", 3)]
    talk.next = calls(call("read_result", id="3"))
    await talk.agent.send("look again", **WHERE)
    entries = (await talk.memory.for_agent("shop").read("ana", "trip")).entries
    assert PICTURE in entries[-2].message.parts


@pytest.mark.parametrize(
    "options", [{"clear_results_after": None, "clear_images_after": None}, {"context": "render"}]
)
async def test_nothing_leaves_without_limits_or_without_epochs(tmp_path: Path, options: Any) -> None:
    talk = await Talk(f"sqlite:///{tmp_path}/memory.db", **options).open()
    for number in range(8):
        last = await talk.turn("read_file", number)
    if "context" not in options:
        await talk.agent.end_epoch(**WHERE)
        last = await talk.turn("read_file", 8)
    assert "Not shown here any more" not in "".join(texts(last))
    await talk.close()


@pytest.mark.parametrize(
    "kind", [ConversationHistorySection, lambda **o: SummarizedHistorySection(None, **o)]
)
async def test_sections_of_a_template_have_the_same_options(kind: Any) -> None:
    async with Memory() as memory:
        for number in range(4):
            await memory.append(
                "ana",
                "trip",
                {"role": "user", "content": f"turn {number}"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": f"c{number}", "name": "f", "arguments": "{}"}],
                },
                {"role": "tool", "content": large(number), "tool_call_id": f"c{number}"},
                {"role": "assistant", "content": "done"},
            )
        async with ContextTemplate([kind(clear_results_after=2)]) as template:
            shown = texts(await template.compose(memory, "ana", "trip"))
    assert shown[2:] == [large(2), large(3)]
    assert shown[0].endswith("began: file 0 begins here; memory has it at position 3]")
    with pytest.raises(ValueError, match="clear_images_after must be"):
        kind(clear_images_after=0)
