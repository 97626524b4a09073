"""How much of the evidence for a question recall finds in public conversations, beside plain BM25.

`beam` and `locomo` read the cases; here they are asked. All ways are measured in one run and with the same
block writer, so that only the choice of messages differs:

- `recall`: `recall()`, as a section or a tool calls it;
- `BM25`: all messages by BM25 over the stems of the question; `BM25, user`: those of the user alone;
- `recall, with facts and summaries`: where the data have facts and summaries that a model wrote, these are
  stored beside the messages that they name;
- `oracle`: the evidence itself. It tells how much the block has room for.

With an embedder that is installed (see `recall_vectors`) also `vectors` alone, `BM25 + vectors` by reciprocal
ranks, and `recall` with this embedder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from autonomy_ctx import Memory
from autonomy_ctx.memory.recall import recall
from autonomy_ctx.memory.recall_block import RecallHit, render_recall
from autonomy_ctx.memory.search_text import query_terms
from autonomy_ctx.memory.store import IndexedMessage, Key, StoredSegment
from autonomy_ctx.memory.term_index import TermIndex
from autonomy_ctx.messages.fact import FactChange, clean_fact_text
from autonomy_ctx.messages.message import ChatRole
from benchmarks.recall_vectors import BenchmarkEmbedder, find_embedders

SCOPE, TALK = "ana", "talk"
BUDGETS = (2_000, 4_000, 8_000)
# The best that count for a rank; and the constant of reciprocal ranks.
TOP, RANK_CONSTANT = 10, 60
# More of them never fit into the largest budget.
MAX_RANKED = 300


class Asked(NamedTuple):
    """A question; `evidence` are the ids of the messages that answer it, none if no message does."""

    text: str
    kind: str
    evidence: frozenset[str]


class Derived(NamedTuple):
    """A text that was made from messages, and the ids of the first and of the last of them."""

    first: str
    last: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCase:
    """A conversation of a public benchmark, as dicts for `add_messages`, with its questions."""

    name: str
    messages: Sequence[Mapping[str, Any]]
    questions: Sequence[Asked]
    # What a model wrote of messages. The summaries cover all messages from the first on.
    facts: Sequence[Derived] = ()
    summaries: Sequence[Derived] = ()


class Tally:
    """The mean of each figure, of all questions and of each kind."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, figure: str, kind: str, value: float) -> None:
        for name in ("", kind):
            self._values[figure, name].append(value)

    def mean(self, figure: str, kind: str = "") -> float:
        values = self._values[figure, kind]
        return sum(values) / len(values)

    @property
    def kinds(self) -> list[str]:
        """The kinds of questions that have evidence."""
        return sorted({kind for figure, kind in self._values if figure == f"{BUDGETS[0]}" and kind})


class Ways:
    """The ways to look for the evidence in one conversation."""

    def __init__(self, memory: Memory, case: PublicCase, index: TermIndex) -> None:
        self.memory, self.case, self._index = memory, case, index

    async def ranked(self, way: str, asked: Asked) -> list[RecallHit]:
        """The messages that are found, the best first."""
        match way:
            case "recall":
                return sorted((await self._recall(asked, BUDGETS[-1])).passages, key=_rank, reverse=True)
            case "vectors":
                return await self._by_meaning(asked.text)
            case "BM25 + vectors":
                return fuse_by_rank(self._by_words(asked.text), await self._by_meaning(asked.text))
            case "oracle":
                return [one for one in self._hits() if one.message.id in asked.evidence]
            case "BM25, user":
                found = self._by_words(asked.text)
                return [one for one in found if one.message.role is ChatRole.USER]
        return self._by_words(asked.text)

    async def shown(self, way: str, asked: Asked, ranked: Sequence[RecallHit], budget: int) -> set[str]:
        """The ids of the messages in a block of so many tokens."""
        if way == "recall":
            found = await self._recall(asked, budget)
        else:
            counter = self.memory.token_counter
            found = render_recall(ranked[:MAX_RANKED], budget, counter, with_conversation_names=False)
        assert found.tokens <= budget
        return {one.message.id for one in found.passages}

    async def _recall(self, asked: Asked, budget: int) -> Any:
        return await recall(self.memory, SCOPE, asked.text, conversation=TALK, max_tokens=budget)

    async def store_derived(self) -> None:
        """Store the facts and summaries of the case as those of the conversation."""
        store, key = self.memory.store, Key("", SCOPE, TALK)
        positions = {one.message.id: one.position for one in self._index.messages}
        generation = (await store.head(key)).generation
        for made in self.case.summaries:
            first, last = positions[made.first], positions[made.last]
            tokens = self.memory.token_counter.count_text(made.text)
            segment = StoredSegment(first=first, last=last, text=made.text, tokens=tokens, model="data")
            changes = [
                FactChange(
                    action="add",
                    position=position,
                    created_at=self._index.messages[position - 1].message.created_at,
                    text=clean_fact_text(fact.text),
                    source="model",
                )
                for fact in self.case.facts
                if first <= (position := positions[fact.first]) <= last
            ]
            assert await store.commit_segment(key, segment, generation=generation, fence=None, facts=changes)

    def _hits(self, scores: Mapping[int, float] | None = None) -> Iterator[RecallHit]:
        """Messages of the index by their numbers, with scores."""
        messages = self._index.messages
        for number, score in (dict.fromkeys(range(len(messages)), 1.0) if scores is None else scores).items():
            _, position, message = messages[number]
            yield RecallHit(conversation=TALK, position=position, message=message, score=score)

    def _by_words(self, question: str) -> list[RecallHit]:
        scores = self._index.score(dict.fromkeys(query_terms(question, 1).exact, 1.0))
        return sorted(self._hits(scores), key=_rank, reverse=True)

    async def _by_meaning(self, question: str) -> list[RecallHit]:
        vectors = self.memory.vector_index
        assert vectors is not None
        near = await vectors.nearest("", SCOPE, question, TALK, MAX_RANKED)
        numbers = self._index.numbers
        return list(self._hits({numbers[TALK, one.position]: one.score for one in near}))


def _rank(hit: RecallHit) -> tuple[float, int]:
    return hit.score, hit.position


def fuse_by_rank(*lists: Sequence[RecallHit]) -> list[RecallHit]:
    """The hits of several lists by the sum of their reciprocal ranks."""
    scores: dict[int, float] = defaultdict(float)
    hits: dict[int, RecallHit] = {}
    for some in lists:
        for rank, hit in enumerate(some, start=1):
            scores[hit.position] += 1 / (RANK_CONSTANT + rank)
            hits[hit.position] = hit
    order = sorted(scores, key=lambda position: (scores[position], position), reverse=True)
    return [
        RecallHit(conversation=TALK, position=at, message=hits[at].message, score=scores[at]) for at in order
    ]


def number_rounds(messages: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The round of each message by its id: a message of the user and what follows until the next one."""
    rounds: dict[str, int] = {}
    number = 0
    for message in messages:
        number += message["role"] == "user"
        rounds[message["id"]] = number
    return rounds


@asynccontextmanager
async def open_case(case: PublicCase, embedder: BenchmarkEmbedder | None) -> AsyncIterator[Ways]:
    """A conversation in a memory, with its vectors if there is an embedder."""
    async with Memory(embedder=embedder, embedder_timeout=600.0) as memory:
        await memory.add_messages(SCOPE, TALK, case.messages)
        if embedder is not None:
            await memory.embed_messages(SCOPE)
        entries = (await memory.read(SCOPE, TALK)).entries
        yield Ways(memory, case, TermIndex(IndexedMessage(TALK, *entry) for entry in entries))


async def measure_cases(cases: Sequence[PublicCase]) -> dict[str, Tally]:
    """The figures of each way, by its name."""
    tallies: dict[str, Tally] = {}
    for embedder in (None, *find_embedders()):
        ways = ["oracle", "BM25", "BM25, user", "recall"]
        suffix = ""
        if embedder is not None:
            ways, suffix = ["vectors", "BM25 + vectors", "recall"], f", {embedder.name}"
        for case in cases:
            async with open_case(case, embedder) as look:
                for way in ways:
                    await _measure_way(look, way, tallies.setdefault(way + suffix, Tally()))
                if case.summaries:
                    await look.store_derived()
                    name = f"recall, with facts and summaries{suffix}"
                    await _measure_way(look, "recall", tallies.setdefault(name, Tally()))
    return tallies


async def _measure_way(look: Ways, way: str, tally: Tally) -> None:
    rounds = number_rounds(look.case.messages)
    for asked in look.case.questions:
        if not asked.evidence:
            tally.add("rounds", asked.kind, 1.0)
            continue
        ranked = await look.ranked(way, asked)
        ids = [one.message.id for one in ranked]
        best = list(dict.fromkeys(rounds[one] for one in ids))[:TOP]
        tally.add("ranks", asked.kind, _share(asked, ids[:TOP]))
        tally.add("rounds", asked.kind, _share(asked, {one for one, at in rounds.items() if at in best}))
        for budget in BUDGETS:
            shown = await look.shown(way, asked, ranked, budget)
            tally.add(f"{budget}", asked.kind, _share(asked, shown))
            tally.add(f"all in {budget}", asked.kind, asked.evidence <= shown)


def _share(asked: Asked, found: Iterable[str]) -> float:
    return len(asked.evidence & set(found)) / len(asked.evidence)


def show_tallies(title: str, tallies: Mapping[str, Tally], kinds_of: Sequence[str] = ("recall",)) -> None:
    """Print the table, and the kinds of questions of some ways."""
    figures = ["ranks", *(f"{budget}" for budget in BUDGETS), *(f"all in {budget}" for budget in BUDGETS)]
    heads = [f"R@{TOP}", *(f"in {budget // 1000}k" for budget in BUDGETS)]
    heads += [f"all in {budget // 1000}k" for budget in BUDGETS]
    print(f"\n  {title}")
    print(f"  {'':<34}" + "".join(f"{head:>11}" for head in [*heads, f"{TOP} rounds"]))
    for way, tally in tallies.items():
        values = [tally.mean(figure) for figure in [*figures, "rounds"]]
        print(f"  {way:<34}" + "".join(f"{value:11.3f}" for value in values))
    for way in kinds_of:
        tally = tallies[way]
        shares = ", ".join(f"{kind} {tally.mean('4000', kind):.2f}" for kind in tally.kinds)
        print(f"  {way}, in 4k by kind: {shares}")
