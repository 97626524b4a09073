"""Ranking: messages found by words and by meaning as one list. Pure.

The scores of the two are not comparable: one grows with the rarity of words, the other is a cosine that means
something else with each embedder. So each list is brought to parts from 0 to 1 first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from autonomy_ctx.memory.store import SearchHit

# The usual numbers of BM25: how soon a repeated word counts for no more, and how much the length matters.
BM25_K1, BM25_B = 1.2, 0.75
# What meaning counts for beside words, of 1.
MEANING_SHARE = 0.5

P = TypeVar("P", bound=Hashable)


def fuse_scores(
    words: Mapping[P, float], meaning: Mapping[P, float], *, meaning_share: float = MEANING_SHARE
) -> dict[P, float]:
    """The scores of two searches as one, from 0 to 1; what words found stands first.

    The scores of words are taken as parts of the best one: how much higher a rare word scores says
    something. Those of meaning are spread between the best and the last one, because embedders differ in how
    near they place texts that have nothing to do with each other. Without one, the other decides alone.
    """
    share = meaning_share if words and meaning else float(bool(meaning))
    best = max(words.values(), default=0.0)
    top, last = max(meaning.values(), default=0.0), min(meaning.values(), default=0.0)
    fused = {
        place: (1 - share) * (max(score, 0.0) / best if best > 0 else 1.0) for place, score in words.items()
    }
    for place, score in meaning.items():
        part = (score - last) / (top - last) if top > last else 1.0
        fused[place] = fused.get(place, 0.0) + share * part
    return fused


def fuse_ranks(
    by_words: Sequence[SearchHit],
    by_meaning: Sequence[SearchHit],
    limit: int,
    *,
    meaning_share: float = MEANING_SHARE,
) -> list[SearchHit]:
    """The best of two lists, each message once, with a score from 0 to 1."""
    hits = {(hit.conversation, hit.position): hit for hit in (*by_meaning, *by_words)}
    words, meaning = (
        {(hit.conversation, hit.position): hit.score for hit in some} for some in (by_words, by_meaning)
    )
    scores = fuse_scores(words, meaning, meaning_share=meaning_share)
    # Of equals, what was found by words, and there what stood first: the order of this dict.
    best = sorted(scores, key=lambda place: -scores[place])[:limit]
    return [replace(hits[place], score=scores[place]) for place in best]
