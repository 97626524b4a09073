"""Standing facts: the short list of what holds now in a conversation.

Segments are history and are merged; a fact is written once and holds until it is replaced or done. What is
stored are the changes, in order. Which facts hold follows from them, so dropping a change takes it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

FactKind = Literal["goal", "rule", "preference", "value", "decision", "open", "artifact"]
FactState = Literal["holds", "replaced", "done"]
FactSource = Literal["model", "rules", "user"]
FactAction = Literal["add", "replace", "done"]
FACT_KINDS: tuple[FactKind, ...] = get_args(FactKind)
MAX_FACT_CHARACTERS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChange:
    """What somebody wants to change: add a fact, put one in place of another, or call one done.

    `position` and `created_at` are those of the message that says so. `target` is the id of the fact that
    is replaced or done.
    """

    action: FactAction
    position: int
    created_at: datetime
    kind: FactKind = "value"
    text: str = ""
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What was once said to hold, by whom, and whether it still does."""

    id: str
    kind: FactKind
    text: str
    position: int
    created_at: datetime
    replaces: str | None = None
    state: FactState = "holds"
    source: FactSource = "model"
