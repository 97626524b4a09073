"""Whose signature it is: a thought may only go back to the provider that signed it.

A signature of one provider is an error at another, and a conversation may move between them. So each
is kept with its owner's name before it, and so is thinking that its owner does not show.
"""

from __future__ import annotations

ANTHROPIC, BEDROCK, GOOGLE, RESPONSES = OWNERS = ("anthropic", "bedrock", "google", "responses")


def signed(owner: str, signature: str) -> str:
    """A signature with its owner's name."""
    return f"{owner}:{signature}"


def signature_of(owner: str, signature: str | None, *, unmarked: bool = False) -> str | None:
    """The signature as its owner gave it, if it is this owner's, else None.

    With `unmarked`, one without any owner's name counts, too: it was not read by this library, or by
    a version of it that gave no names to Anthropic's and Bedrock's.
    """
    if not signature:
        return None
    name, colon, own = signature.partition(":")
    if not colon or name not in OWNERS:
        return signature if unmarked else None
    return own or None if name == owner else None
