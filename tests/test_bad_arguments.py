"""What a user passes by mistake in code, and the whole error they see, before anything happens."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import (
    AdditionalContextSection,
    AutonomyCtxError,
    ContextTemplate,
    ConversationHistorySection,
    FrameworkInstructionsSection,
    ImageContent,
    InvalidMessage,
    Memory,
    Message,
    SystemInstructionsSection,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from autonomy_ctx.errors import InvalidKey, StoreClosed, StoreUnavailable
from autonomy_ctx.messages import AgentConfigUpdate, AgentHandoff, DirectMessage, Segment, Summary, wire
from autonomy_ctx.stores import register_store
from autonomy_ctx.validation import NotANumber

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROLES = "it must be one of system, developer, user, assistant, tool"
JSON = "which JSON cannot hold; convert it to a string, number, list or dict"
TIME = "is not a time; use a datetime, ISO 8601 text or seconds since 1970"


@dataclass
class Plain:
    """A section with whatever options a test gives it."""

    name: Any = "plain"
    enabled: bool = True
    kind: Any = "volatile"
    timeout: Any = None

    def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
        return []


class Half:
    """A name is not enough."""

    name = "half"


def mail(**fields: Any) -> DirectMessage:
    return DirectMessage(**{"source_agent": "a", "target_agent": "b", "content": "x", **fields})


def by(make: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], Any]:
    """The mistake, to be made later; the types are wrong on purpose."""
    return partial(make, *args, **options)


SEGMENT = Segment(text="x", first=1, last=2)
BUILT: list[tuple[type[Exception], str, Callable[[], Any]]] = [
    # Messages.
    (InvalidMessage, f"`role` is 'bot'; {ROLES}", by(Message, "bot", "x")),
    (InvalidMessage, "`content` must be text, a part or a list of parts, not int", by(Message, "user", 5)),
    (InvalidMessage, "`tool_calls` must be a list, not str", by(Message, "assistant", tool_calls="add")),
    (
        InvalidMessage,
        "`tool_calls[1]` must be a dict, not int",
        by(Message, "assistant", tool_calls=[ToolCall("c", "f"), 5]),
    ),
    (
        InvalidMessage,
        f"`tool_calls[0].arguments.at` is of type datetime, {JSON}",
        by(Message, "assistant", tool_calls=[{"name": "f", "arguments": {"at": NOW}}]),
    ),
    (InvalidMessage, "`id` must be a string, not int", by(Message, "user", "x", id=5)),
    (InvalidMessage, "`is_error` must be True or False, not int", by(Message, "tool", "x", is_error=1)),
    (InvalidMessage, f"`created_at` {TIME}", by(Message, "user", "x", created_at="soon")),
    (InvalidMessage, f"`created_at` {TIME}", by(Message, "user", "x", created_at=float("nan"))),
    (InvalidMessage, "`extra` must be a dict, not list", by(Message, "user", "x", extra=[])),
    (
        InvalidMessage,
        f"`extra.a[0].b` is of type bytes, {JSON}",
        by(Message, "user", "x", extra={"a": [{"b": b"x"}]}),
    ),
    # Parts and calls.
    (InvalidMessage, "`text` must be a string, not NoneType", by(TextContent, None)),
    (
        InvalidMessage,
        "`image` must be a URL or a `data:` URL; use ImageContent.from_bytes for bytes",
        by(ImageContent, b"\x89PNG"),
    ),
    (InvalidMessage, "`image.inference_detail` must be auto, low or high", by(ImageContent, "u", "huge")),
    (InvalidMessage, "`thinking` must be a string, not int", by(ThinkingContent, 5)),
    (InvalidMessage, "`signature` must be a string, not bytes", by(ThinkingContent, "x", signature=b"s")),
    (
        InvalidMessage,
        "`redacted` must be alone: a redacted block has no text and no signature",
        by(ThinkingContent, "x", redacted="y"),
    ),
    (InvalidMessage, "`tool_calls.id` must be a string, not int", by(ToolCall, 5, "f")),
    (InvalidMessage, "`tool_calls.name` must be a string, not NoneType", by(ToolCall, "c", None)),
    (
        InvalidMessage,
        "`tool_calls.arguments` must be JSON text; use json.dumps on a dict",
        by(ToolCall, "c", "f", {"a": 1}),
    ),
    (InvalidMessage, "`tool_calls.extra` must be a dict, not list", by(ToolCall, "c", "f", "", [1])),
    (
        InvalidMessage,
        "`tool_calls.arguments` must hold a JSON object, not list",
        by(ToolCall("c", "f", "[1]").parse_arguments),
    ),
    # Events.
    (InvalidMessage, "`to_agent` must be a string, not NoneType", by(AgentHandoff, to_agent=None)),
    (InvalidMessage, "`reason` must be a string, not int", by(AgentHandoff, to_agent="b", reason=5)),
    (
        InvalidMessage,
        "`to_agent` is missing from the agent_handoff",
        by(wire.item_from_dict, {"type": "agent_handoff"}),
    ),
    (
        InvalidMessage,
        "`type` is ['x']; a message has the type `message` or none",
        by(wire.item_from_dict, {"type": ["x"], "role": "user"}),
    ),
    (InvalidMessage, "`tools` must be a list of tool names", by(AgentConfigUpdate, tools="search")),
    (
        InvalidMessage,
        "`content` is missing from the direct_message",
        by(wire.item_from_dict, {"type": "direct_message", "source_agent": "a", "target_agent": "b"}),
    ),
    (InvalidMessage, "`source_agent` must be a string, not int", by(mail, source_agent=5)),
    (InvalidMessage, "`priority` must be a finite number >= 0 and <= 1, not 2", by(mail, priority=2)),
    (InvalidMessage, "`priority` must be a finite number >= 0 and <= 1, not str", by(mail, priority="high")),
    (
        InvalidMessage,
        "`priority` must be a finite number >= 0 and <= 1, not nan",
        by(mail, priority=float("nan")),
    ),
    (
        InvalidMessage,
        "`ttl_seconds` must be a number of seconds >= 0 or None, not -1",
        by(mail, ttl_seconds=-1),
    ),
    (InvalidMessage, f"`metadata.a` is of type set, {JSON}", by(mail, metadata={"a": {1}})),
    (InvalidMessage, f"`created_at` {TIME}", by(mail, created_at="soon")),
    # Summaries.
    (
        InvalidMessage,
        "`segments.text` must be a string, not NoneType",
        by(Segment, text=None, first=1, last=2),
    ),
    (
        InvalidMessage,
        "`segments.first` must be a whole number >= 1, not 1.0",
        by(Segment, text="x", first=1.0, last=2),
    ),
    (
        InvalidMessage,
        "`segments` covers 3 to 2; positions start at 1, and `first` must not be after `last`",
        by(Segment, text="x", first=3, last=2),
    ),
    (InvalidMessage, "`segments` must not be empty: a summary covers at least one message", by(Summary, [])),
    (InvalidMessage, "`segments` overlap or go back at position 1", by(Summary, [SEGMENT, SEGMENT])),
    # Sections and templates.
    (
        ValueError,
        "max_messages must be >= 1 or None, not 0",
        by(ConversationHistorySection, max_messages=0),
    ),
    (
        NotANumber,
        "max_messages must be a whole number >= 1 or None, not str",
        by(ConversationHistorySection, max_messages="5"),
    ),
    (
        ValueError,
        "filesystem_visibility is 'world'; it must be one of conversation, scope, agent, all",
        by(FrameworkInstructionsSection, filesystem_visibility="world"),
    ),
    (
        InvalidMessage,
        "`instructions` must be a string or a list of messages, not int",
        by(SystemInstructionsSection, 5),
    ),
    (
        InvalidMessage,
        f"`role` is 'boss'; {ROLES}",
        by(SystemInstructionsSection, [{"role": "boss", "content": "x"}]),
    ),
    (
        InvalidMessage,
        "`message` must be a dict or a Message, not str",
        by(AdditionalContextSection().add_message, "hello"),
    ),
    (TypeError, "object is not a section: it needs a `name`", by(ContextTemplate, [object()])),
    (TypeError, "Plain is not a section: it needs a `name`", by(ContextTemplate, [Plain(name="")])),
    (TypeError, "sections must be a list of sections, not Half", by(ContextTemplate, Half())),
    (TypeError, "url must be text such as 'sqlite:///memory.db', not int", by(Memory, 5)),
    (
        TypeError,
        "section `half` is not a section: it needs a `get_messages` method",
        by(ContextTemplate, [Half()]),
    ),
    (
        ValueError,
        "section `plain`: kind is 'fast'; it must be one of stable, slow, volatile",
        by(ContextTemplate, [Plain(kind="fast")]),
    ),
    (
        ValueError,
        "section `plain`: timeout must be a number of seconds > 0 or None, not 0",
        by(ContextTemplate, [Plain(timeout=0)]),
    ),
    (
        NotANumber,
        "section `plain`: timeout must be a number of seconds > 0 or None, not str",
        by(ContextTemplate([]).add_section, Plain(timeout="1s")),
    ),
    # Memory.
    (
        ValueError,
        "'memory.db' is not the URL of a memory; did you mean 'sqlite:///memory.db'?",
        by(Memory, "memory.db"),
    ),
    (
        StoreUnavailable,
        "sqlite://...: names a host, but an SQLite file must be on this machine; "
        "write sqlite:///relative.db or sqlite:////absolute.db",
        by(Memory, "sqlite://user:secret@host/memory.db"),
    ),
    (
        ValueError,
        "the scheme 'sqlite' already has a store; give replace=True to replace it",
        by(register_store, "sqlite", dict),
    ),
    (
        ValueError,
        "scheme is 'Table://'; it must be lower-case letters, digits, +, . and -",
        by(register_store, "Table://", dict),
    ),
    (
        TypeError,
        "factory is str; it must be a function that takes a URL and options",
        by(register_store, "table", "TableStore"),
    ),
    (
        StoreUnavailable,
        "sqlite:///:memory:: this URL names no file; use Memory() to keep messages in this process only",
        by(Memory, "sqlite:///:memory:"),
    ),
    (
        ValueError,
        "give memory a url or a store, not both",
        by(Memory, "sqlite:///x.db", store=Memory()._store),
    ),
    (InvalidKey, "invalid agent: must be a string, not NoneType", by(Memory().for_agent, None)),
    (
        InvalidMessage,
        f"`role` is 'boss'; {ROLES}",
        by(Memory().set_instructions, {"role": "boss", "content": "x"}),
    ),
]


@pytest.mark.parametrize(("kind", "text", "build"), BUILT, ids=[row[1] for row in BUILT])
def test_a_mistake_in_code_is_met_at_once(kind: type[Exception], text: str, build: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        build()
    assert type(caught.value) is kind
    prefix = "invalid message: " if kind is InvalidMessage else ""
    assert str(caught.value) == prefix + text
    assert isinstance(caught.value, ValueError | TypeError | AutonomyCtxError)


# -- files --------------------------------------------------------------------------------------------


def test_a_folder_that_does_not_exist_is_met_when_memory_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        Memory(f"sqlite:///{tmp_path}/no/memory.db")
    assert str(caught.value) == (
        f"{tmp_path}/no/memory.db: the folder {tmp_path}/no does not exist; make it first"
    )


def test_a_folder_instead_of_a_file_is_met_when_memory_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        Memory(f"sqlite:///{tmp_path}")
    assert str(caught.value) == f"{tmp_path}: this is a folder; name a file in it, such as memory.db"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"synchronous": "OFF"}, "synchronous is 'OFF'; it must be FULL or NORMAL"),
        ({"timeout": 0}, "timeout must be a number of seconds > 0, not 0"),
    ],
)
def test_an_option_that_means_nothing_makes_no_file(tmp_path: Path, options: Any, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        Memory(f"sqlite:///{tmp_path}/memory.db", **options)
    assert str(caught.value) == text
    assert os.listdir(tmp_path) == []


async def test_a_memory_that_was_closed_says_so(memory: Memory, tmp_path: Path) -> None:
    await memory.close()
    with pytest.raises(StoreClosed) as caught:
        await memory.append("ana", "trip", Message("user", "hello"))
    assert str(caught.value) in {
        "memory on this process is closed; make a new `Memory` to continue",
        f"memory on {tmp_path}/memory.db is closed; make a new `Memory` to continue",
    }


@pytest.mark.parametrize("limit", [-1, -99])
async def test_a_negative_limit_is_refused(memory: Memory, limit: int) -> None:
    with pytest.raises(ValueError) as caught:
        await memory.get_messages_only("ana", "trip", limit=limit)
    assert str(caught.value) == f"limit must be >= 0 and <= {2**62} or None, not {limit}"
