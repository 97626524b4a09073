"""Which conversation: always the three names themselves, never one string made of them."""

from __future__ import annotations

from typing import NamedTuple

from autonomy_ctx.errors import InvalidKey


class Key(NamedTuple):
    """A conversation of a scope (a user or tenant) with an agent."""

    agent: str
    scope: str
    conversation: str


def make_key(agent: str, scope: str, conversation: str) -> Key:
    """A key whose names every store can hold exactly as they are."""
    check_name("agent", agent)
    check_name("scope", scope)
    check_name("conversation", conversation)
    return Key(agent, scope, conversation)


def check_name(part: str, name: str) -> None:
    """Refuse what could not be told apart from another name in some store."""
    if name.__class__ is not str:
        raise InvalidKey(part, f"must be a string, not {type(name).__name__}")
    if name.isascii():
        if "\0" in name:
            raise InvalidKey(part, "must not contain a NUL character")
        return
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidKey(part, "contains a lone surrogate, which is not valid Unicode text") from None
    if "\0" in name:
        raise InvalidKey(part, "must not contain a NUL character")
