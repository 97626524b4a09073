"""Everyday speech states no facts, and what is plainly stated is found, in every language."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autonomy_ctx import Message
from autonomy_ctx.language.facts import find_facts

SENTENCES = Path(__file__).parent / "plain_sentences"
LANGUAGES = ("ar", "de", "en", "es", "fr", "ja", "pt", "zh")
NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)
# Of 100 sentences, and of those that state a fact.
MAX_FACTS, MIN_FOUND = 2, 0.7


def kinds_in(text: str) -> list[str]:
    said = Message("user", text, created_at=NOON)
    return [change.kind for change in find_facts([(9, said)], []) if change.action != "done"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_plain_sentences_become_no_facts(language: str) -> None:
    lines = (SENTENCES / f"{language}.txt").read_text("utf-8").splitlines()
    sentences = [line for line in lines if line.strip()]
    assert len(sentences) >= 100
    found = [line for line in sentences if kinds_in(line)]
    assert len(found) <= MAX_FACTS * len(sentences) / 100, found


def test_what_is_plainly_stated_is_found_by_its_kind() -> None:
    found, all_of_kind = Counter[str](), Counter[str]()
    for line in (SENTENCES / "said.txt").read_text("utf-8").splitlines():
        _, kind, text = line.split("\t")
        # Orders and wishes are near to each other.
        wanted = {"rule", "preference"} if kind in ("rule", "preference") else {kind}
        all_of_kind[kind] += 1
        found[kind] += bool(wanted.intersection(kinds_in(text)))
    assert all(found[kind] >= MIN_FOUND * count for kind, count in all_of_kind.items()), found
