"""What was expected and what came, in a few words that repeat no long content."""

from __future__ import annotations

import json
from typing import Any, assert_never

from autonomy_ctx.items.json_values import preview
from autonomy_ctx.tools.kinds import (
    Anything,
    Choice,
    Either,
    Fixed,
    Kind,
    Listing,
    Modelled,
    Parsed,
    Record,
    Scalar,
    Table,
)

_WORDS: dict[type, str] = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def came(value: Any) -> str:
    """What came, in a few words; the beginning of a long text is not repeated."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {preview(value)}"
        case str():
            return f"the text {value!r}" if len(value) <= 40 else f"a text of {len(value):,} characters"
        case list():
            return f"a list of {len(value):,}"
        case dict():
            return f"an object with {len(value):,} keys"
        case _:
            return f"a {type(value).__name__}"


def expected(kind: Kind) -> str:
    """What a kind takes, in a few words."""
    match kind:
        case Scalar():
            return _WORDS[kind.type]
        case Choice():
            return f"one of {', '.join(json.dumps(option) for option, _ in kind.options[:20])}"
        case Listing():
            return "a list"
        case Fixed():
            return f"a list of {len(kind.items)}"
        case Either():
            return " or ".join(dict.fromkeys(expected(option.kind) for option in kind.options))
        case Parsed():
            return f"text with {kind.words}"
        case Table() | Record() | Modelled():
            return "an object"
        case Anything():
            return "anything"
        case _:
            assert_never(kind)
