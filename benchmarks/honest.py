"""A model that writes honest summaries without any network: a fifth of what it reads, with its names.

It does what the prompt asks: it keeps identifiers first, then sentences, and obeys the length named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.messages.token_estimate import estimate_tokens

SHARE = 5
_BLOCK = re.compile(r"<(conversation|segment) ([0-9a-f]{16})>\n(.*?)\n</\1 \2>", re.DOTALL)
_CAP = re.compile(r"[Aa]t most (\d+) tokens")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Asked(NamedTuple):
    """What a summarizer's prompt wants shortened, and how far."""

    source: str
    cap: int


def asked(messages: Sequence[Mapping[str, Any]], most: int) -> Asked:
    """Read a prompt as a model would: the marked blocks, or all of it, and the last length it names."""
    text = "\n".join(str(message.get("content") or "") for message in messages)
    blocks = [found[2] for found in _BLOCK.findall(text)]
    caps = [int(cap) for cap in _CAP.findall(text)]
    return Asked("\n".join(blocks) or text, min([most, *caps[-1:]]))


def record(source: str, tokens: int) -> str:
    """The identifiers of a text, evenly thinned out where they are too many, and some of its sentences."""
    names = identifiers(source)
    room = max(tokens * 2 // 3, 1)
    step = max(-(-estimate_tokens(", ".join(names)) // room), 1)
    made = "Facts and identifiers: " + ", ".join(names[::step]) + "."
    sentences = [line for line in _SENTENCE.split(source) if len(line) > 20]
    step = max(len(sentences) * 20 // max(tokens, 1), 1)
    for sentence in sentences[::step]:
        longer = f"{made}\n- {sentence[:120]}"
        if estimate_tokens(longer) > tokens:
            break
        made = longer
    return made


def summary_of(messages: Sequence[Mapping[str, Any]], most: int) -> str:
    """An honest answer to a summarizer's prompt."""
    source, cap = asked(messages, most)
    return record(source, min(max(estimate_tokens(source) // SHARE, 48), cap))


class HonestModel:
    """Answers at once, in this process."""

    name = "honest"

    async def complete_chat(
        self, messages: list[dict[str, Any]], stream: bool = False, max_tokens: int = 2048
    ) -> Any:
        return summary_of(messages, max_tokens)
