"""Ranking: messages found by words and by meaning as one list, statements before questions. Pure.

The scores of the two are not comparable: one grows with the rarity of words, the other is a cosine that means
something else with each embedder. So each list is brought to parts from 0 to 1 first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from autonomy_ctx.language.sentences import QUESTION_MARKS, sentence_spans
from autonomy_ctx.language.stemmer import normalized_words
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.language.words import text_ends
from autonomy_ctx.memory.store import SearchHit

# The usual numbers of BM25: how soon a repeated word counts for no more, and how much the length matters.
BM25_K1, BM25_B = 1.2, 0.75
# What meaning counts for beside words, of 1; and the power that lowers what is only somewhat near.
MEANING_SHARE, MEANING_POWER = 0.4, 1.5
# So many more than asked for are ranked, to find a statement behind the questions about it.
SPARE_HITS = 10
# A longer message is no question; of its beginning and its end, this many characters are compared.
READ_CHARACTERS = 2_000

P = TypeVar("P", bound=Hashable)


def score_texts(texts: Mapping[P, Sequence[str]], weights: Mapping[str, float]) -> dict[P, float]:
    """Score texts, which are split into terms, by BM25 with these weights of terms.

    A text with all of several terms comes before every other.
    """
    usual = sum(map(len, texts.values())) / len(texts) if texts else 1.0
    scores: dict[P, float] = {}
    for place, words in texts.items():
        norm = BM25_K1 * (1 - BM25_B + BM25_B * len(words) / usual)
        counts = {term: count for term in weights if (count := words.count(term))}
        scores[place] = sum(
            weights[term] * (BM25_K1 + 1) * count / (count + norm) for term, count in counts.items()
        ) + (sum(weights.values()) * (BM25_K1 + 1) if 1 < len(counts) == len(weights) else 0.0)
    return scores


def fuse_scores(
    words: Mapping[P, float], meaning: Mapping[P, float], *, meaning_share: float = MEANING_SHARE
) -> dict[P, float]:
    """The scores of two searches as one, from 0 to 1; what words found stands first.

    The scores of words are taken as parts of the best one: how much higher a rare word scores says
    something. Those of meaning are spread between the best and the last one, because embedders differ in how
    near they place texts that have nothing to do with each other; of the many in the middle most have little
    to do with the question. Without one, the other decides alone.
    """
    share = meaning_share if words and meaning else float(bool(meaning))
    best = max(words.values(), default=0.0)
    top, last = max(meaning.values(), default=0.0), min(meaning.values(), default=0.0)
    fused = {
        place: (1 - share) * (max(score, 0.0) / best if best > 0 else 1.0) for place, score in words.items()
    }
    for place, score in meaning.items():
        part = (score - last) / (top - last) if top > last else 1.0
        fused[place] = fused.get(place, 0.0) + share * part**MEANING_POWER
    return fused


def fuse_ranks(by_words: Sequence[SearchHit], by_meaning: Sequence[SearchHit], limit: int) -> list[SearchHit]:
    """The best of two lists, each message once, with a score from 0 to 1."""
    hits = {(hit.conversation, hit.position): hit for hit in (*by_meaning, *by_words)}
    words, meaning = (
        {(hit.conversation, hit.position): hit.score for hit in some} for some in (by_words, by_meaning)
    )
    scores = fuse_scores(words, meaning)
    # Of equals, what was found by words, and there what stood first: the order of this dict.
    best = sorted(scores, key=lambda place: -scores[place])[:limit]
    return [replace(hits[place], score=scores[place]) for place in best]


def rank_statements_first(hits: Sequence[SearchHit], query: str, limit: int) -> list[SearchHit]:
    """The best hits, with each question behind the statements that have its words of the query.

    A question tells nothing of what it asks for. Its score becomes that of the last of these statements.
    """
    if not any(map(_may_ask, hits)):
        return list(hits[:limit])
    terms = frozenset(normalized_words(query)) - stop_words()
    words = [
        terms.intersection(normalized_words(text_ends(hit.message.text, READ_CHARACTERS))) for hit in hits
    ]
    asks = [_may_ask(hit) and _only_asks(hit.message.text, terms) for hit in hits]
    scores = [hit.score for hit in hits]
    for at in (at for at in range(len(hits)) if asks[at]):
        stated = [scores[one] for one, has in enumerate(words) if not asks[one] and words[at] <= has]
        scores[at] = min([scores[at], *stated])
    # Of equals, statements first, and there what stood first.
    best = sorted(range(len(hits)), key=lambda at: (-scores[at], asks[at]))[:limit]
    return [replace(hits[at], score=scores[at]) for at in best]


def _may_ask(hit: SearchHit) -> bool:
    text = hit.message.text
    return len(text) <= READ_CHARACTERS and any(mark in text for mark in QUESTION_MARKS)


def _only_asks(text: str, terms: frozenset[str]) -> bool:
    """Tell whether all sentences of a text that have one of the terms are questions."""
    sentences = [text[start:end].rstrip() for start, end in sentence_spans(text)]
    about = [one for one in sentences if not terms.isdisjoint(normalized_words(one))]
    return bool(about) and all(one.endswith(QUESTION_MARKS) for one in about)
