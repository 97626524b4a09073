"""Ranking: messages found by words and by meaning as one list. Pure.

The scores of the two are not comparable: one grows with the rarity of words, the other is a cosine that means
something else with each embedder. So each list is brought to parts from 0 to 1 first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from autonomy_ctx.memory.store import SearchHit

# What meaning counts for beside words, of 1.
MEANING_SHARE = 0.5

_Place: TypeAlias = tuple[str, int]


def fuse_ranks(
    by_words: Sequence[SearchHit],
    by_meaning: Sequence[SearchHit],
    limit: int,
    *,
    meaning_share: float = MEANING_SHARE,
) -> list[SearchHit]:
    """The best of two lists, each message once, with a score from 0 to 1.

    The scores of words are taken as parts of the best one: how much higher a rare word scores says
    something. Those of meaning are spread between the best and the last one, because embedders differ in how
    near they place texts that have nothing to do with each other. Without one list, the other decides alone.
    """
    share = meaning_share if by_words and by_meaning else float(bool(by_meaning))
    words, meaning = _word_parts(by_words), _meaning_parts(by_meaning)
    scores = {
        place: (1 - share) * words.get(place, 0.0) + share * meaning.get(place, 0.0)
        for place in {**words, **meaning}
    }
    # Of equals, what was found by words, and there what stood first: the order of this dict.
    ranks = {place: rank for rank, place in enumerate(scores)}
    hits = {_place(hit): hit for hit in (*by_meaning, *by_words)}
    best = sorted(scores, key=lambda place: (-scores[place], ranks[place]))[:limit]
    return [replace(hits[place], score=scores[place]) for place in best]


def _word_parts(hits: Sequence[SearchHit]) -> Mapping[_Place, float]:
    """The scores as parts of the best."""
    best = max((hit.score for hit in hits), default=0.0)
    return {_place(hit): max(hit.score, 0.0) / best if best > 0 else 1.0 for hit in hits}


def _meaning_parts(hits: Sequence[SearchHit]) -> Mapping[_Place, float]:
    """The scores between the last one, which is 0, and the best."""
    best = max((hit.score for hit in hits), default=0.0)
    last = min((hit.score for hit in hits), default=0.0)
    return {_place(hit): (hit.score - last) / (best - last) if best > last else 1.0 for hit in hits}


def _place(hit: SearchHit) -> _Place:
    return hit.conversation, hit.position
