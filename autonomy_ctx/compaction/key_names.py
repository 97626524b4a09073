"""The identifiers of a conversation that a record of it should have, the most important first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.background import pause
from autonomy_ctx.language.name_index import key_names_of
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.transcript import visible_text

MAX_KEY_IDENTIFIERS = 400
# Of one message, one call, and the results after the last answer; what is beyond is a list, not a subject.
MAX_SAID, MAX_CALLED, MAX_LISTED = 24, 8, 4
_NUMBER = lazy_pattern(r"\d+")


def key_identifiers(messages: Sequence[Message]) -> list[str]:
    """The names that users, assistants, calls and the last results use, the most important first."""
    groups: list[list[str]] = [[], [], [], []]
    of_users, of_calls, of_assistants, of_results = groups
    answered = max(
        (at for at, one in enumerate(messages) if one.role is not ChatRole.TOOL and not one.tool_calls),
        default=-1,
    )
    for at, message in enumerate(messages):
        pause()
        if message.role is ChatRole.TOOL:
            # A result that names many things lists them; one of few says what came of an action.
            names = key_names_of(visible_text(message)) if at > answered else []
            # They are many, or all of one shape, as hits of a search and rows of a table are.
            shapes = {_NUMBER.sub("0", name) for name in names}
            is_list = len(names) > MAX_LISTED or (len(names) > 2 and len(shapes) == 1)
            of_results += [] if is_list else names
            continue
        said = of_users if message.role is ChatRole.USER else of_assistants
        said += key_names_of(visible_text(message))[:MAX_SAID]
        for call in message.tool_calls:
            of_calls += key_names_of("\n".join(_values(call.arguments)))[:MAX_CALLED]
    return list(dict.fromkeys(name for group in groups for name in group))[:MAX_KEY_IDENTIFIERS]


def rank_names(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """The identifiers that most of these texts have first; of equal ones, those that were named last."""
    folded = [text.casefold() for text in texts]

    def weight(name: str) -> tuple[int, int]:
        found = [at for at, text in enumerate(folded) if name.casefold() in text]
        return -len(found), -max(found, default=-1)

    return sorted(names, key=weight)


def _values(arguments: str) -> list[str]:
    """The arguments of a call, without the names of its parameters."""
    try:
        return list(_leaves(json.loads(arguments)))
    except (ValueError, RecursionError):
        return [arguments]


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
