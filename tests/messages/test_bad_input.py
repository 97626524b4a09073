"""What a user passes by mistake, and the whole error they see.

Each text names the place and says what would be right. Where memory is involved, a refused
message takes the good one beside it along: all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from autonomy_ctx import ContextTemplate, ConversationHistorySection, InvalidMessage, Memory, Message
from autonomy_ctx.errors import ConflictingMessage, InvalidKey, MessageTooLarge
from autonomy_ctx.memory.store import make_key
from autonomy_ctx.testing import make_drafts

GOOD = {"role": "user", "content": "hello", "id": "good"}
NOW = datetime(2030, 1, 1, tzinfo=UTC)
DEEP: Any = "bottom"
for _ in range(10_000):
    DEEP = {"x": DEEP}
CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
LIMIT = 8 * 1024 * 1024


def user(content: Any = "x", **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


def caller(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


# -- messages handed to memory ------------------------------------------------------------------------

ROLES = "it must be one of system, developer, user, assistant, tool"
JSON = "which JSON cannot hold; convert it to a string, number, list or dict"
KNOWN = "known are text, image, image_url, thinking and redacted_thinking"
DEEPEST = "is nested more than 64 levels deep, or contains itself"
TIME = "is not a time; use a datetime, ISO 8601 text or seconds since 1970"
UNANSWERED = "is missing; a tool's message must have the id of the call that it answers"
RESULT = {"role": "tool", "content": "42", "name": "add"}

MESSAGES: list[tuple[Any, str]] = [
    # Not a message at all.
    (None, "`message` must be a dict or a Message, not NoneType"),
    ("hello", "`message` must be a dict or a Message, not str"),
    ([user()], "`message` must be a dict or a Message, not list"),
    ({"type": "agent_handoff"}, "`type` is 'agent_handoff'; a message has the type `message` or none"),
    (user(type="x" * 99), f"`type` is '{'x' * 39}...; a message has the type `message` or none"),
    (user(type=["x"]), "`type` is ['x']; a message has the type `message` or none"),
    (user([user("x")]), "`content[0]` is a message, not a part of one; give one message at a time"),
    # Role and content.
    ({"content": "x"}, f"`role` is missing; {ROLES}"),
    ({"role": "bot", "content": "x"}, f"`role` is 'bot'; {ROLES}"),
    ({"role": 5, "content": "x"}, f"`role` is 5; {ROLES}"),
    ({"role": "x" * 99, "content": "x"}, f"`role` is '{'x' * 39}...; {ROLES}"),
    ({"role": ["user"], "content": "x"}, f"`role` is of type list; {ROLES}"),
    ({"role": "user"}, "`content` is missing"),
    (user(5), "`content` must be text, a part or a list of parts, not int"),
    (user(["x", 5]), "`content[1]` must be a part with a `type`, not int"),
    (user({"type": "video"}), f"`content.type` is 'video'; {KNOWN}"),
    (user([{"url": "x"}]), f"`content[0].type` is None; {KNOWN}"),
    (user({"type": "x" * 99}), f"`content.type` is '{'x' * 39}...; {KNOWN}"),
    (user({"type": [], "text": "x"}), f"`content.type` is []; {KNOWN}"),
    (user({"type": "text"}), "`content.text` is missing from a text part"),
    (user([{"type": "text", "text": 5}]), "`content[0].text` must be a string, not int"),
    (user({"type": "image_url", "image_url": {}}), "`content.image_url.url` is missing"),
    (user({"type": "image_url", "image_url": 5}), "`content.image_url` must be a URL or a dict with a `url`"),
    (
        user({"type": "image_url", "image_url": {"url": "u", "detail": "huge"}}),
        "`content.image_url.detail` must be auto, low or high",
    ),
    (user({"type": "image"}), "`content.image` is missing"),
    (
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
        "`content.source.data` is missing",
    ),
    (user({"type": "thinking"}), "`content.thinking` is missing"),
    (
        user({"type": "thinking", "thinking": "x", "signature": 5}),
        "`content.signature` must be a string, not int",
    ),
    (user({"type": "redacted_thinking"}), "`content.data` is missing"),
    # Calls.
    ({**caller(), "tool_calls": {"id": "c"}}, "`tool_calls` must be a list, not dict"),
    ({**caller(), "tool_calls": {}}, "`tool_calls` must be a list, not dict"),
    (caller("add"), "`tool_calls[0]` must be a dict, not str"),
    (caller({"id": "c"}), "`tool_calls[0].name` is missing"),
    (
        caller({"id": "a", "name": "f"}, {"id": "c", "function": {}}),
        "`tool_calls[1].function.name` is missing",
    ),
    (caller({"function": "add"}), "`tool_calls[0].function` must be a dict, not str"),
    (caller({"id": "c", "name": 5}), "`tool_calls[0].name` must be a string, not int"),
    (caller({"id": 5, "name": "f"}), "`tool_calls[0].id` must be a string, not int"),
    (caller({"name": "f", "extra": [1]}), "`tool_calls[0].extra` must be a dict, not list"),
    (RESULT, f"`tool_call_id` {UNANSWERED}"),
    ({**RESULT, "tool_call_id": None}, f"`tool_call_id` {UNANSWERED}"),
    ({**RESULT, "tool_call_id": ""}, f"`tool_call_id` {UNANSWERED}"),
    (Message("tool", "42", name="add"), f"`tool_call_id` {UNANSWERED}"),
    # The other fields.
    (user(tool_call_id=5), "`tool_call_id` must be a string, not int"),
    (user(name=5), "`name` must be a string, not int"),
    (user(is_error="yes"), "`is_error` must be True or False, not str"),
    (user(id=5), "`id` must be a string, not int"),
    (user(message_id=5), "`message_id` must be a string, not int"),
    (user(phase=5), "`phase` must be a string, not int"),
    (user(agent=5), "`agent` must be a string, not int"),
    (user(agent=0), "`agent` must be a string, not int"),
    (user(agent_id=5), "`agent_id` must be a string, not int"),
    (user(extra=[1]), "`extra` must be a dict, not list"),
    (user(id="a\0b"), "`id` must not contain a NUL character"),
    (user(id="\ud800"), "`id` contains a lone surrogate, which is not valid Unicode text"),
    # Times.
    (user(timestamp="yesterday"), f"`timestamp` {TIME}"),
    (user(created_at="yesterday"), f"`created_at` {TIME}"),
    (user(timestamp=1e300), f"`timestamp` {TIME}"),
    (user(timestamp=True), "`timestamp` must be a datetime, ISO 8601 text or seconds, not bool"),
    (user(timestamp="0001-01-01T00:00:00+10:00"), "`timestamp` is a time outside the years 1 to 9999 in UTC"),
    # Values that are not JSON, named by their path.
    (user(when=NOW), f"`message.when` is of type datetime, {JSON}"),
    (user([{"text": b"raw"}]), f"`message.content[0].text` is of type bytes, {JSON}"),
    (user(extra={"prices": [1, Decimal("2.5")]}), f"`message.extra.prices[1]` is of type Decimal, {JSON}"),
    (user(tags={"a"}), f"`message.tags` is of type set, {JSON}"),
    (user(("a", "b")), f"`message.content` is of type tuple, {JSON}"),
    (user(score=float("nan")), "`message.score` is nan, which JSON cannot hold; use None or a string"),
    (
        caller({"name": "f", "arguments": {"x": [float("-inf")]}}),
        "`message.tool_calls[0].arguments.x[0]` is -inf, which JSON cannot hold; use None or a string",
    ),
    (
        user(extra={"n": 10**5000}),
        "`message.extra.n` is a number of more than 4300 digits, which JSON cannot hold; use a string",
    ),
    (user(extra={1: 2}), "`message.extra` has a key of type int; keys must be strings"),
    (user(loop=CYCLE), f"`message.loop{'.self' * 9}.se...{'.self' * 10}` {DEEPEST}"),
    (user(DEEP), f"`message.content{'.x' * 22}....{'.x' * 25}` {DEEPEST}"),
    # Summaries.
    (
        {"type": "summary", "content": []},
        "`segments` must be a list with one entry per text part of `content`",
    ),
    (
        {"type": "summary", "content": [], "segments": []},
        "`segments` must not be empty: a summary covers at least one message",
    ),
    (
        {"type": "summary", "content": [{"text": "x"}], "segments": [{}]},
        "`segments[0]` must have `first` and `last`",
    ),
    (
        {"type": "summary", "content": [{}], "segments": [{"first": 1, "last": 2}]},
        "`segments.text` must be a string, not NoneType",
    ),
]


async def test_a_bad_message_is_refused_with_its_place_and_nothing_is_stored(memory: Memory) -> None:
    said = []
    for bad, _ in MESSAGES:
        with pytest.raises(InvalidMessage) as caught:
            await memory.append("ana", "trip", GOOD, bad)
        said.append(str(caught.value))
    assert said == [f"invalid message: {text}" for _, text in MESSAGES]
    assert await memory.get_messages_only("ana", "trip") == []
    assert await memory.add_message("ana", "trip", GOOD) == 1


@pytest.mark.parametrize("role", ["user", "tool"])
async def test_a_message_over_the_limit_is_refused_with_both_sizes(memory: Memory, role: str) -> None:
    big = Message(role, "x" * LIMIT, id="big", created_at=NOW, tool_call_id="c1")
    with pytest.raises(MessageTooLarge) as caught:
        await memory.append("ana", "trip", GOOD, big)
    size = f"{LIMIT + 48:,}"  # with the role and the id of the call around it
    assert str(caught.value) == (
        f"invalid message: `content` needs {size} bytes, and a message may have at most 8,388,608; "
        f"split it, or store it as a file and send a reference"
    )
    assert await memory.get_message_count("ana", "trip") == 0


async def test_a_stored_result_that_names_no_call_is_still_read(memory: Memory) -> None:
    """Earlier versions kept them."""
    await memory.store.append(make_key("", "ana", "trip"), make_drafts(Message("tool", "42", id="old")))
    assert [form["id"] for form in await memory.get_messages_only("ana", "trip")] == ["old"]


async def test_other_content_under_a_known_id_is_refused_and_nothing_is_stored(memory: Memory) -> None:
    await memory.add_message("ana", "trip", GOOD)
    with pytest.raises(ConflictingMessage) as caught:
        await memory.append("ana", "trip", user(id="new"), {**GOOD, "content": "bye"})
    assert str(caught.value) == (
        "message id 'good' is already at position 1 with other content; "
        "messages are never rewritten: send the new content under a new id"
    )
    assert [form["id"] for form in await memory.get_messages_only("ana", "trip")] == ["good"]


class Watched(list[Any]):
    """A list that holds itself twice, and minds being walked for ever."""

    looks = 0

    def __iter__(self) -> Any:
        self.looks += 1
        assert self.looks < 1000, "walked again and again"
        return super().__iter__()


async def test_a_list_that_contains_itself_twice_is_refused_at_once(memory: Memory) -> None:
    loop = Watched()
    loop += [loop, loop]
    with pytest.raises(InvalidMessage, match=DEEPEST):
        await memory.append("ana", "trip", GOOD, user(loop=loop))
    assert await memory.get_message_count("ana", "trip") == 0


# -- which conversation -------------------------------------------------------------------------------

STRINGS = "must be a string, not"
NUL = "must not contain a NUL character"
SURROGATE = "contains a lone surrogate, which is not valid Unicode text"
LONGEST = "a name may have at most 1,024"

KEYS: list[tuple[str, Any, Any, str]] = [
    ("scope None", None, "trip", f"invalid scope: {STRINGS} NoneType"),
    ("scope number", 5, "trip", f"invalid scope: {STRINGS} int"),
    ("scope bytes", b"ana", "trip", f"invalid scope: {STRINGS} bytes"),
    ("scope NUL", "a\0", "trip", f"invalid scope: {NUL}"),
    ("scope NUL beside other letters", "é\0", "trip", f"invalid scope: {NUL}"),
    ("scope surrogate", "\ud800", "trip", f"invalid scope: {SURROGATE}"),
    ("conversation None", "ana", None, f"invalid conversation: {STRINGS} NoneType"),
    ("conversation number", "ana", 5, f"invalid conversation: {STRINGS} int"),
    ("conversation NUL", "ana", "\0", f"invalid conversation: {NUL}"),
    ("scope long", "a" * 1025, "trip", f"invalid scope: has 1,025 bytes; {LONGEST}"),
    ("conversation long", "ana", "é" * 513, f"invalid conversation: has 1,026 bytes; {LONGEST}"),
    ("conversation surrogate", "ana", "x\udfff", f"invalid conversation: {SURROGATE}"),
]


@pytest.mark.parametrize(("scope", "conversation", "text"), [k[1:] for k in KEYS], ids=[k[0] for k in KEYS])
async def test_a_name_that_no_store_can_hold_is_refused_everywhere(
    memory: Memory, scope: Any, conversation: Any, text: str
) -> None:
    uses: list[Callable[[], Any]] = [
        lambda: memory.append(scope, conversation, GOOD),
        lambda: memory.read(scope, conversation),
        lambda: memory.get_messages_only(scope, conversation),
        lambda: memory.get_message_count(scope, conversation),
        lambda: memory.delete_conversation(scope, conversation),
        lambda: memory.delete_message(scope, conversation, "good"),
        lambda: memory.get_full_message(scope, conversation, "good"),
    ]
    for use in uses:
        with pytest.raises(InvalidKey) as caught:
            await use()
        assert str(caught.value) == text
    assert (await memory.get_metrics())["messages_added"] == 0


async def test_a_context_of_a_conversation_that_cannot_be_says_so(memory: Memory) -> None:
    template = ContextTemplate([ConversationHistorySection()])
    with pytest.raises(InvalidKey) as caught:
        await template.compose(memory, None, "trip")  # type: ignore[arg-type]
    assert str(caught.value) == "invalid scope: must be a string, not NoneType"


async def test_a_number_that_no_store_can_count_to_is_refused(memory: Memory) -> None:
    for name, number in product(["limit", "after", "before"], [-1, 2**62 + 1, 2**70]):
        options: dict[str, Any] = {name: number}
        with pytest.raises(ValueError, match=rf"{name} must be >= .* and <= {2**62}.*, not {number}"):
            await memory.read("ana", "trip", **options)


async def test_the_longest_name_and_the_largest_limit_are_taken(memory: Memory) -> None:
    longest = "é" * 512
    assert await memory.for_agent(longest).append(longest, longest, GOOD) == [1]
    window = await memory.for_agent(longest).read(longest, longest, after=0, limit=2**62)
    assert len(window.entries) == 1
    with pytest.raises(InvalidKey, match="invalid agent: has 1,025 bytes; a name may have at most 1,024"):
        memory.for_agent("a" * 1025)
