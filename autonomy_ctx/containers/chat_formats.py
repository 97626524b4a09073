"""A chat context as the messages of a provider, for those who call the provider's own client.

The words are those of `items/formats`, which requests are made of, too. What is added here is only which
items of a context a model sees, and that calls made side by side stay side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autonomy_ctx.items.formats.anthropic import AnthropicMessages, anthropic_messages
from autonomy_ctx.items.formats.google import GoogleContents, google_contents, wants_signatures
from autonomy_ctx.items.formats.openai import openai_messages
from autonomy_ctx.items.formats.outgoing import well_formed_json
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.wire import Item

# Where the request before this one ended, and where this one does.
CACHED_TURNS = 2


def shown(items: Iterable[Item], merged: Collection[str] = ()) -> list[Message]:
    """What a model sees of a context: its messages, but no instructions that a merge brought in.

    Calls that follow one another are one message: each may have been added on its own, but the model
    made them at once, and its signature may be on the first alone.
    """
    out: list[Message] = []
    for item in items:
        if not isinstance(item, Message) or item.id in merged:
            continue
        if out and _calls(out[-1]) and _calls(item) and not item.parts:
            out[-1] = replace(out[-1], tool_calls=out[-1].tool_calls + item.tool_calls)
        else:
            out.append(item)
    return out


def as_openai(
    items: Iterable[Item], merged: Collection[str] = (), *, reasoning_model: bool = False
) -> list[dict[str, Any]]:
    """Messages for chat completions."""
    made = openai_messages(shown(items, merged), [], reasoning_model=reasoning_model)
    return [well_formed_json(message) for message in made]


def as_anthropic(
    items: Iterable[Item], merged: Collection[str] = (), *, caching: bool = False
) -> AnthropicMessages:
    """Messages and system prompt for the Messages API; with `caching`, the latest turns are marked."""
    messages = shown(items, merged)
    return anthropic_messages(messages, [], breakpoints=_turn_ends(messages) if caching else ())


def as_google(
    items: Iterable[Item],
    merged: Collection[str] = (),
    *,
    thought_signatures: Mapping[str, str | bytes] | None = None,
    model: str | None = None,
) -> GoogleContents:
    """Contents and system instruction for generateContent."""
    made = google_contents(
        shown(items, merged),
        [],
        thought_signatures=thought_signatures,
        unsigned_refused=model is not None and wants_signatures(model),
    )
    system = None if made.system is None else well_formed_json(made.system)
    return GoogleContents(well_formed_json(made.contents), system)


def _calls(message: Message) -> bool:
    return message.role is ChatRole.ASSISTANT and bool(message.tool_calls)


def _turn_ends(messages: Sequence[Message]) -> list[int]:
    """Where the assistant is about to speak, the last times."""
    speaks = [message.role is ChatRole.ASSISTANT for message in messages] + [True]
    ends = [at for at in range(len(messages)) if speaks[at + 1] and not speaks[at]]
    return ends[-CACHED_TURNS:]
