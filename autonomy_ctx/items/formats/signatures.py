"""Whose signature it is: a thought may only go back to the provider that signed it.

A signature of one provider is an error at another, and a conversation may move between them. So each
is kept with its owner's name before it.
"""

from __future__ import annotations

GOOGLE, RESPONSES = "google", "responses"


def signed(owner: str, signature: str) -> str:
    """A signature with its owner's name."""
    return f"{owner}:{signature}"


def signature_of(owner: str, signature: str | None) -> str | None:
    """The signature if it is this owner's, else None."""
    mark = f"{owner}:"
    return signature[len(mark) :] if signature and signature.startswith(mark) else None


def others_signature(signature: str | None) -> bool:
    """Whether a signature belongs to one of the providers named here."""
    return any(signature_of(owner, signature) is not None for owner in (GOOGLE, RESPONSES))
