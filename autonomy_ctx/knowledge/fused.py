"""`FusedKnowledge`: several knowledge bases searched at once, their results ranked together.

Scores of different bases do not compare, so each score is standardised among those of its own base. A base
that fails or is late is left out as long as another one answers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio

from autonomy_ctx.callables import describe_error
from autonomy_ctx.errors import KnowledgeError
from autonomy_ctx.knowledge.knowledge import Passage, SearchTool, checked_knowledge, search_knowledge
from autonomy_ctx.validation import check_int, check_seconds

logger = logging.getLogger("autonomy_ctx.knowledge")

# Each base is asked for more results than needed, because a common result may be first in neither.
OVERSAMPLE_FACTOR, MIN_CANDIDATES = 4, 20
# What a base did not find stands this much below the last that it did.
MISSING_PENALTY = 0.5


class FusedKnowledge(SearchTool):
    """Searches several knowledge bases at once and merges the results into one list without duplicates."""

    def __init__(self, *bases: Any, timeout: float | None = 1.5) -> None:
        if not bases:
            raise ValueError("FusedKnowledge needs at least one knowledge base")
        self.timeout = check_seconds("timeout", timeout, endless=True, optional=True)
        self.bases = tuple(checked_knowledge(base) for base in bases)

    async def search(self, query: str, limit: int = 5) -> list[Passage]:
        """The best passages of all bases, best first. Raises an error only if no base answers."""
        check_int("limit", limit)
        found: list[Sequence[Passage] | None] = [None] * len(self.bases)
        problems: list[str] = []

        async def run(number: int) -> None:
            name = type(self.bases[number]).__name__
            try:
                with anyio.move_on_after(self.timeout) as scope:
                    answer = await search_knowledge(
                        self.bases[number], query, max(OVERSAMPLE_FACTOR * limit, MIN_CANDIDATES)
                    )
                if scope.cancelled_caught:
                    problems.append(f"{name} took longer than {self.timeout:g} s")
                    logger.warning("knowledge base %s was left out: it took too long", name)
                elif answer.problem is not None and not answer.passages:
                    problems.append(f"{name}: {answer.problem}")
                    logger.warning("knowledge base %s was left out: %s", name, answer.problem)
                else:
                    found[number] = answer.passages
            except Exception as error:
                problems.append(f"{name} failed: {describe_error(error)}")
                logger.warning("knowledge base %s failed and was left out", name, exc_info=True)

        async with anyio.create_task_group() as group:
            for number in range(len(self.bases)):
                group.start_soon(run, number)
        answers = [answer for answer in found if answer is not None]
        if not answers:
            raise KnowledgeError(type(self).__name__, f"got no answer from any base: {'; '.join(problems)}")
        return fuse_answers(answers)[:limit]

    def __repr__(self) -> str:
        return f"FusedKnowledge({', '.join(map(repr, self.bases))})"


def fuse_answers(answers: Sequence[Sequence[Passage]]) -> list[Passage]:
    """The passages of several answers by the sum of what each stands out by; each text once."""
    passages: dict[str, Passage] = {}
    measured: list[dict[str, float]] = []
    for answer in answers:
        scores: dict[str, float] = {}
        for passage, score in zip(answer, standard_scores(answer), strict=True):
            name = " ".join(passage.text.casefold().split())
            passages.setdefault(name, passage)
            scores.setdefault(name, score)
        if scores:
            measured.append(scores)
    sums = {
        name: sum(scores.get(name, min(scores.values()) - MISSING_PENALTY) for scores in measured)
        for name in passages
    }
    ranked = sorted(passages, key=lambda name: -sums[name])
    return [replace(passages[name], score=sums[name]) for name in ranked]


def standard_scores(answer: Sequence[Passage]) -> list[float]:
    """Each score's distance from the mean in standard deviations; higher is better."""
    scores = [passage.score for passage in answer]
    if len(set(scores)) < 2:
        # A base that gives no scores still gives an order.
        scores = [-float(number) for number in range(len(answer))]
    elif scores[0] < scores[-1]:
        # Best first, but growing: these are distances.
        scores = [-score for score in scores]
    mean = math.fsum(scores) / max(len(scores), 1)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / max(len(scores), 1))
    return [(score - mean) / deviation if deviation else 0.0 for score in scores]
