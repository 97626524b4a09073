"""A rich conversation, tools, and generated histories for the tests of all formats."""

from __future__ import annotations

import json
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from strategies import NOON, histories, messages, summaries, tangled_histories

from autonomy_ctx import ImageContent, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.messages import Segment, Summary

GOLDEN = Path(__file__).parent / "golden"
PIXEL = ImageContent.from_bytes(b"not really a picture")
WEB = ImageContent("https://x.test/map.png", "high")

TOOLS: list[dict[str, Any]] = [
    {
        "name": "find_train",
        "description": "Trains between two towns.",
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string"}, "day": {"type": "string"}},
            "required": ["to"],
            "additionalProperties": False,
        },
    },
    {"name": "maps.show", "description": "A map of a town."},
]

# Anything a memory may hold, odd or not.
any_history: st.SearchStrategy[list[Message]] = (
    histories | tangled_histories | st.lists(messages | summaries(), max_size=8)
)
tool_lists: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=70) | st.sampled_from(["look", "a.b", "a_b", "1st"])},
        optional={"description": st.text(max_size=5), "parameters": st.just({"properties": {}})},
    ),
    max_size=3,
)

# What every provider can carry: whole characters, words as names, arguments that are objects.
whole_texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
_words = st.from_regex(r"[a-z_][a-zA-Z0-9_-]{0,30}", fullmatch=True)
_objects = st.dictionaries(whole_texts, st.booleans() | st.integers() | whole_texts, max_size=3)
carried_calls: st.SearchStrategy[list[ToolCall]] = st.lists(
    st.builds(ToolCall, _words, _words, _objects.map(lambda value: json.dumps(value, ensure_ascii=False))),
    max_size=3,
    unique_by=lambda call: call.id,
)
cuts = st.lists(st.integers(0, 40), max_size=4)


def pieces(text: str, cuts: list[int]) -> list[str]:
    """The text cut at some places; nothing is lost."""
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def said(role: str, content: Any = None, number: int = 0, **fields: Any) -> Message:
    """A message that is the same on every run."""
    return Message(role, content, id=f"m{number}", created_at=NOON, **fields)


def rich(thought: ThinkingContent, **extra: Any) -> list[Message]:
    """Rules, a summary, images, a thought, parallel calls of which one fails, one that never ends."""
    return [
        said("system", "You plan journeys.", 1),
        Summary(
            [
                Segment(text="Ana wants to go to Lisbon.", first=1, last=4),
                Segment(text="She likes trains.", first=5, last=9),
            ],
            id="m2",
            created_at=NOON,
        ),
        said("user", [TextContent("Which of these?"), WEB, PIXEL], 3, name="ana"),
        said(
            "assistant",
            [thought, TextContent("I will look.")],
            4,
            tool_calls=[
                ToolCall("call_1", "find_train", '{"to": "Lisbon"}', extra),
                ToolCall("call_2", "maps.show", ""),
            ],
        ),
        said("user", "And please hurry.", 5),
        said("tool", "no such town", 6, tool_call_id="call_2", is_error=True),
        said("tool", [TextContent("08:15, 11:40"), PIXEL], 7, tool_call_id="call_1"),
        said("tool", "whose result?", 8, tool_call_id="lost"),
        said("developer", "Answer in one sentence.", 9),
        said("assistant", "At 08:15 or 11:40.", 10),
        said("user", "Book it.", 11),
        said("assistant", None, 12, tool_calls=[ToolCall("call_1", "book", "{broken")]),
        said("user", "Well?", 13),
    ]


def golden(name: str, made: dict[str, Any]) -> None:
    """Compare with the file; write it where it is missing, to be read before it is kept."""
    path = GOLDEN / f"{name}.json"
    if not path.exists():
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        raise AssertionError(f"{path.name} was missing and is written now; read it, then run again")
    assert made == json.loads(path.read_text(encoding="utf-8"))


def ids() -> Any:
    """A maker of ids: new1, new2 and so on."""
    numbers = count(1)
    return lambda: f"new{next(numbers)}"
