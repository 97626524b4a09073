"""What is taken as an embedder: models of a library, functions, objects; and what is refused."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy
import pytest
from anyio.lowlevel import checkpoint
from knowledge.bases import CountsTopics
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

from autonomy_ctx.embedders import as_embedder
from autonomy_ctx.errors import InvalidVectors
from autonomy_ctx.knowledge import HttpEmbedder, InProcessVectorStore, VectorKnowledgeBase

WORDS = {
    "ferry": [1.0, 0.0, 0.1],
    "boat": [0.9, 0.1, 0.0],
    "tram": [0.0, 1.0, 0.1],
    "hills": [0.1, 0.8, 0.0],
    "tarts": [0.0, 0.0, 1.0],
}


@pytest.fixture
def model(tmp_path: Path) -> StaticModel:
    """A model of five words in the library's own files."""
    vocabulary = {word: number for number, word in enumerate(["[UNK]", "[PAD]", *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    vectors = numpy.array([[0.0] * 3, [0.0] * 3, *WORDS.values()], dtype=numpy.float32)
    StaticModel(vectors, tokenizer).save_pretrained(tmp_path / "model")
    return StaticModel.from_pretrained(tmp_path / "model")


async def filled(embedder: Any) -> VectorKnowledgeBase:
    base = VectorKnowledgeBase(embedder, InProcessVectorStore())
    await base.add("The boat leaves every 20 minutes.", source="boats")
    await base.add("The tram climbs the hills.", source="trams")
    await base.add("Tarts are sold in Belem.", source="food")
    return base


async def nearest(base: VectorKnowledgeBase, query: str) -> str | None:
    [passage] = await base.search(query, 1)
    return passage.source


# -- a model of a library -----------------------------------------------------------------------------


async def test_a_static_model_finds_meaning_without_a_shared_word(model: StaticModel) -> None:
    base = await filled(model)
    found = await base.search("When does the ferry go?", 3)
    assert [passage.source for passage in found] == ["boats", "food", "trams"]
    assert found[0].score > 0.9
    assert found[1].score < 0.2
    assert repr(base.embedding_provider) == "ThreadEmbedder(StaticModel.encode)"


@pytest.mark.parametrize("query", ["nothing that it knows", "\ud800", "ferry " * 5000])
async def test_a_static_model_takes_any_text(model: StaticModel, query: str) -> None:
    base = await filled(model)
    await base.add(f"{query} tram", source="odd")
    assert len(await base.search(query, 10)) >= 4


# -- objects and functions ----------------------------------------------------------------------------


def plain(texts: list[str]) -> list[list[float]]:
    return [
        [sum(row) for row in zip(*found, strict=True)] if found else [0.0, 0.0, 0.0]
        for text in texts
        for found in [[vector for word, vector in WORDS.items() if word in text.lower()]]
    ]


async def awaited(texts: list[str]) -> list[list[float]]:
    await checkpoint()
    return plain(texts)


async def awaited_with(more: str, texts: list[str]) -> list[list[float]]:
    return await awaited(texts)


class Encodes:
    def encode(self, sentences: list[str]) -> Any:
        return numpy.array(plain(sentences), dtype=numpy.float32)


class EncodesRows:
    def encode(self, sentences: list[str]) -> Any:
        return [numpy.array(row) for row in plain(sentences)]


class EncodesLater:
    async def encode(self, sentences: list[str]) -> Any:
        return numpy.array(await awaited(sentences))


class EmbedsOneByOne:
    """As fastembed does: computes while it is read."""

    def embed(self, documents: list[str]) -> Iterator[Any]:
        assert threading.current_thread() is not threading.main_thread()
        for text in documents:
            yield numpy.array(plain([text])[0])


class Called:
    async def __call__(self, texts: list[str]) -> list[list[float]]:
        return await awaited(texts)


class EmbedsArrays:
    async def embed(self, texts: list[str]) -> Any:
        return numpy.array(plain(texts))


ACCEPTED = [
    plain,
    awaited,
    partial(awaited_with, "more"),
    lambda texts: awaited(texts),
    Encodes(),
    EncodesRows(),
    EncodesLater(),
    EmbedsOneByOne(),
    EmbedsArrays(),
    Called(),
]


@pytest.mark.parametrize("embedder", ACCEPTED, ids=lambda one: getattr(one, "__name__", type(one).__name__))
async def test_what_makes_vectors_is_an_embedder_as_it_is(embedder: Any) -> None:
    base = await filled(embedder)
    assert await nearest(base, "a ferry") == "boats"
    assert await nearest(base, "HILLS") == "trams"


def test_an_embedder_is_not_wrapped() -> None:
    for one in (CountsTopics(), HttpEmbedder("m", base_url="http://127.0.0.1:1")):
        assert as_embedder(one) is one
    wrapped = as_embedder(awaited)
    assert as_embedder(wrapped) is wrapped
    assert repr(wrapped) == "AsyncEmbedder(awaited)"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "object"),
        (None, "NoneType"),
        ("minishlab/potion-base-8M", "str"),
        ([[1.0]], "list"),
        (StaticModel, "the class StaticModel"),
        (CountsTopics, "the class CountsTopics"),
    ],
)
def test_what_is_no_embedder_is_refused_with_what_would_be(value: Any, named: str) -> None:
    with pytest.raises(TypeError, match=rf"^{named} is not an embedder: .*`embed.*`encode.*or a function"):
        VectorKnowledgeBase(value, InProcessVectorStore())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "returned NoneType for 1 texts"),
        ("vectors", "returned str for 1 texts"),
        ({"dense": [[1.0]]}, "returned dict for 1 texts"),
        (numpy.array([1.0, 2.0]), "returned 2 vectors for 1 texts"),
        (numpy.array(1.0), "returned float for 1 texts"),
        (numpy.zeros((0, 3)), "returned 0 vectors for 1 texts"),
        (numpy.zeros((1, 0)), "returned vectors of 0 numbers"),
        (numpy.zeros((1, 2, 3)), "returned a vector that is not a list of numbers"),
        (numpy.array([[1.0, math.inf]]), "returned numbers that are not finite"),
        ([[10**400]], "returned a vector that is not a list of numbers"),
        (iter([]), "returned 0 vectors for 1 texts"),
    ],
)
async def test_what_a_model_gives_instead_of_vectors_is_named(given: Any, problem: str) -> None:
    class Wrong:
        def encode(self, texts: list[str]) -> Any:
            return given

    with pytest.raises(InvalidVectors, match=problem):
        await VectorKnowledgeBase(Wrong(), InProcessVectorStore()).search("ferry", 3)


async def test_what_a_model_raises_reaches_the_caller() -> None:
    def fails(texts: list[str]) -> Any:
        raise MemoryError("the model is too large")

    with pytest.raises(MemoryError, match="too large"):
        await VectorKnowledgeBase(fails, InProcessVectorStore()).search("ferry", 3)


# -- the event loop -----------------------------------------------------------------------------------


class HeldEncoder:
    """Computes until it is told to end, and knows how many calls it has."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.calls = 0

    def encode(self, texts: list[str]) -> Any:
        self.calls += 1
        assert self.may_end.wait(20), "nobody could say that it may end"
        return numpy.array(plain(texts))


async def test_the_loop_goes_on_while_a_model_computes_one_call_at_a_time() -> None:
    model = HeldEncoder()
    base = VectorKnowledgeBase(model, InProcessVectorStore())
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(base.search, "ferry", 1)
        while model.calls == 0:
            await checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert model.calls == 1
        model.may_end.set()
    assert model.calls == 3


async def test_whoever_stops_waiting_is_not_held_up_by_the_model() -> None:
    model = HeldEncoder()
    base = VectorKnowledgeBase(model, InProcessVectorStore())
    with anyio.move_on_after(0.01) as scope:
        await base.search("ferry", 1)
    assert scope.cancelled_caught
    assert not model.may_end.is_set()
    model.may_end.set()
    assert await base.search("ferry", 1) == []


def test_one_base_is_used_in_several_event_loops() -> None:
    run: Callable[..., Any] = anyio.run
    base = run(filled, Encodes(), backend="asyncio")
    for backend in ("asyncio", "trio", "asyncio"):
        assert run(nearest, base, "ferry", backend=backend) == "boats"
