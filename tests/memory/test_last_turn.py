"""Dropping the last turn of a conversation: the user's newest message and all that follows it."""

from __future__ import annotations

import pytest

from autonomy_ctx import Memory, Message
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.memory import TURN_LOOKBACK
from autonomy_ctx.messages import DirectMessage
from autonomy_ctx.testing import make_message


async def say(memory: Memory, scope: str, conversation: str, *texts: str, role: str = "user") -> None:
    await memory.append(scope, conversation, *(Message(role, text) for text in texts))


async def texts(memory: Memory, scope: str = "ana", conversation: str = "trip") -> list[str]:
    return [entry.message.text for entry in (await memory.read(scope, conversation)).entries]


async def test_the_last_turn_is_the_users_newest_message_and_all_after_it(memory: Memory) -> None:
    await say(memory, "ana", "trip", "one")
    await say(memory, "ana", "trip", "1", role="assistant")
    await say(memory, "ana", "trip", "two")
    await memory.append(
        "ana",
        "trip",
        Message("assistant", tool_calls=[{"id": "c", "name": "find", "arguments": "{}"}]),
        Message("tool", "found", tool_call_id="c"),
        Message("assistant", "2"),
    )
    assert await memory.drop_last_turn("ana", "trip") == 4
    assert await texts(memory) == ["one", "1"]
    assert await memory.drop_last_turn("ana", "trip") == 2
    assert await memory.drop_last_turn("ana", "trip") == 0
    assert await memory.conversations("ana") == []


async def test_without_a_users_message_there_is_no_turn_to_drop(memory: Memory) -> None:
    await say(memory, "ana", "trip", "Welcome.", role="assistant")
    assert await memory.drop_last_turn("ana", "trip") == 0
    assert await memory.drop_last_turn("ana", "other") == 0
    assert await texts(memory) == ["Welcome."]


@pytest.mark.parametrize("mails", [1, TURN_LOOKBACK + 5])
async def test_mail_begins_no_turn(memory: Memory, mails: int) -> None:
    """However much of it came in the turn."""
    guide, mailbox = memory.for_agent("guide"), Mailbox(memory)
    await say(guide, "ana", "trip", "one", "two")
    for number in range(mails):
        mail = DirectMessage(source_agent="cook", target_agent="guide", content="x", id=f"mail {number}")
        await mailbox.send(mail, scope="ana", conversation="trip")
        await mailbox.deliver("guide", [mail.id], scope="ana", conversation="trip")
    assert await guide.drop_last_turn("ana", "trip") == mails + 1
    assert await texts(guide) == ["one"]


async def test_mail_without_a_users_message_is_no_turn(memory: Memory) -> None:
    guide, mailbox = memory.for_agent("guide"), Mailbox(memory)
    mail = DirectMessage(source_agent="cook", target_agent="guide", content="x", id="mail")
    await mailbox.send(mail, scope="ana", conversation="trip")
    await mailbox.deliver("guide", ["mail"], scope="ana", conversation="trip")
    assert await guide.drop_last_turn("ana", "trip") == 0


async def test_a_dropped_turn_can_be_said_again_under_the_same_id(memory: Memory) -> None:
    await memory.append("ana", "trip", make_message("hello", id="m1"))
    assert await memory.drop_last_turn("ana", "trip") == 1
    assert await memory.append("ana", "trip", make_message("other words", id="m1")) == [2]
