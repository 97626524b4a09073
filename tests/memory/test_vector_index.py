"""Memory with an embedder: vectors are made in the background, and search goes by words and by meaning."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from autonomy_ctx import Memory, Message, recall
from autonomy_ctx.embedders import embedder_name
from autonomy_ctx.errors import EmbedderReplaced, InvalidKey, InvalidVectors, VectorsUnsupported
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.vector_index import MAX_BATCH, VectorIndex
from autonomy_ctx.memory.vector_matrix import VectorMatrix, pack_vectors
from autonomy_ctx.stores import Store
from autonomy_ctx.testing import MAIN

TOPICS = {
    "pet": ("dog", "cat", "kitten", "pet", "animal"),
    "travel": ("train", "flight", "journey", "station"),
    "food": ("soup", "dinner", "eat", "meal"),
}


def embed_topics(texts: Sequence[str]) -> list[list[float]]:
    """A vector says how many words of each topic a text has."""
    return [
        [sum(word in text.lower() for word in words) + 0.01 for words in TOPICS.values()] for text in texts
    ]


class SteppedEmbedder:
    """An embedder that does as it is told: answers, fails, or waits."""

    def __init__(self) -> None:
        self.name = "SteppedEmbedder"
        self.calls: list[list[str]] = []
        self.failure: Exception | None = None
        self.answer: Any = None
        self.may_answer = anyio.Event()
        self.is_waiting = False
        self.was_called = anyio.Event()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        self.was_called.set()
        if self.is_waiting:
            await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        vectors: list[list[float]] = embed_topics(texts) if self.answer is None else self.answer
        return vectors


@pytest.fixture(params=["in process", "sqlite"])
def url(request: pytest.FixtureRequest, sqlite_path: Path) -> str | None:
    return None if request.param == "in process" else f"sqlite:///{sqlite_path}"


@pytest.fixture
async def memory(url: str | None) -> AsyncIterator[Memory]:
    memory = Memory(url, embedder=embed_topics, embedder_timeout=30)
    yield memory
    await memory.close()


async def say(memory: Memory, *texts: str, scope: str = "ana", conversation: str = "trip") -> None:
    await memory.append(scope, conversation, *(Message("user", text) for text in texts))


async def find(memory: Memory, query: str, scope: str = "ana", **options: Any) -> list[str]:
    return [hit.message.text for hit in await memory.search(scope, query, **options)]


async def wait_for_vectors(memory: Memory, count: int) -> None:
    """Wait until the background has embedded so many messages."""
    with anyio.fail_after(20):
        while (await memory.get_metrics())["messages_embedded"] < count:
            await anyio.lowlevel.checkpoint()


async def test_a_message_is_found_by_meaning_without_a_word_in_common(memory: Memory) -> None:
    await say(memory, "Our dog is called Bella", "The train leaves at nine", "We eat at eight")
    assert await find(memory, "animal") == []
    assert await memory.embed_messages("ana") == 3
    assert (await find(memory, "animal"))[0] == "Our dog is called Bella"
    assert (await find(memory, "which journey", limit=1)) == ["The train leaves at nine"]


async def test_vectors_are_made_in_the_background(memory: Memory) -> None:
    await say(memory, "Our dog is called Bella", "The train leaves at nine")
    await wait_for_vectors(memory, 2)
    assert (await find(memory, "animal", limit=1)) == ["Our dog is called Bella"]
    await say(memory, "We have soup", conversation="other")
    await wait_for_vectors(memory, 3)
    assert (await find(memory, "meal", limit=1)) == ["We have soup"]


async def test_a_search_finds_by_words_what_has_no_vector_yet(memory: Memory) -> None:
    await say(memory, "Our dog is called Bella")
    await memory.embed_messages("ana")
    await say(memory, "The code is ORD-4711")
    assert (await find(memory, "ORD-4711"))[0] == "The code is ORD-4711"


async def test_words_and_meaning_together_beat_each_alone(memory: Memory) -> None:
    await say(memory, "Bella came along to the office", "The dog sleeps", "Bella is our dog", "Soup again")
    await memory.embed_messages("ana")
    assert (await find(memory, "Bella the animal", limit=1)) == ["Bella is our dog"]


async def test_agents_and_tenants_are_apart(memory: Memory) -> None:
    helper = memory.for_agent("helper")
    await say(memory, "my dog")
    await say(memory, "their dog", scope="bob")
    await say(helper, "a helper's dog")
    for view, scope in ((memory, "ana"), (memory, "bob"), (helper, "ana")):
        await view.embed_messages(scope)
    assert await find(memory, "animal") == ["my dog"]
    assert await find(memory, "animal", scope="bob") == ["their dog"]
    assert await find(helper, "animal") == ["a helper's dog"]
    assert await find(helper, "animal", scope="bob") == []


async def test_what_is_deleted_is_not_found(memory: Memory) -> None:
    await memory.append("ana", "trip", Message("user", "my dog", id="m1"), Message("user", "cat"))
    await memory.embed_messages("ana")
    assert len(await find(memory, "animal")) == 2
    await memory.delete_message("ana", "trip", "m1")
    assert await find(memory, "animal") == ["cat"]
    await memory.delete_scope("ana")
    assert await find(memory, "animal") == []


async def test_a_memory_that_had_no_embedder_is_filled_when_it_is_searched(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with Memory(url) as plain:
        await say(plain, "Our dog is called Bella", "The train leaves at nine")
    async with Memory(url, embedder=embed_topics, embedder_timeout=30) as memory:
        assert await find(memory, "animal") == []
        await wait_for_vectors(memory, 2)
        assert (await find(memory, "animal", limit=1)) == ["Our dog is called Bella"]
    async with Memory(url) as plain:
        assert await find(plain, "animal") == []


async def test_a_restart_embeds_nothing_again(tmp_path: Path) -> None:
    url, embedder = f"sqlite:///{tmp_path}/memory.db", SteppedEmbedder()
    async with Memory(url, embedder=embedder, embedder_timeout=30) as memory:
        await say(memory, "Our dog is called Bella")
        assert await memory.embed_messages("ana") == 1
    async with Memory(url, embedder=embedder, embedder_timeout=30) as memory:
        assert await memory.embed_messages("ana") == 0
        assert (await find(memory, "animal")) == ["Our dog is called Bella"]


async def test_an_append_does_not_wait_for_the_embedder(url: str | None) -> None:
    embedder = SteppedEmbedder()
    embedder.is_waiting = True
    async with Memory(url, embedder=embedder, embedder_timeout=30) as memory:
        await say(memory, "Our dog is called Bella")
        await embedder.was_called.wait()
        await say(memory, "The train leaves at nine")
        assert await memory.get_message_count("ana", "trip") == 2
        embedder.is_waiting = False
        embedder.may_answer.set()
        await wait_for_vectors(memory, 2)


async def test_a_close_does_not_wait_for_the_embedder(url: str | None) -> None:
    embedder = SteppedEmbedder()
    embedder.is_waiting = True
    memory = Memory(url, embedder=embedder)
    await say(memory, "Our dog is called Bella")
    await embedder.was_called.wait()
    await memory.close()
    assert not embedder.may_answer.is_set()
    assert (await memory.get_metrics())["messages_embedded"] == 0


async def test_a_search_with_a_slow_embedder_goes_by_words(
    url: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = SteppedEmbedder()
    async with Memory(url, embedder=embedder, embedder_timeout=0.01) as memory:
        await say(memory, "Our dog is called Bella")
        await memory.embed_messages("ana")
        embedder.is_waiting = True
        with caplog.at_level(logging.WARNING, logger="autonomy_ctx.memory"):
            assert await find(memory, "Bella") == ["Our dog is called Bella"]
            calls = len(embedder.calls)
            # It is left alone for a while, and nothing more is said.
            assert await find(memory, "Bella") == ["Our dog is called Bella"]
        assert len(embedder.calls) == calls
        assert [record.getMessage().split(":")[0] for record in caplog.records] == [
            "the embedder 'SteppedEmbedder' fails, searches use words only for now"
        ]
        metrics = await memory.get_metrics()
        assert (metrics["searches_without_meaning"], metrics["embedder_failures"]) == (2, 1)


@pytest.mark.parametrize(
    "answer",
    [
        [[1.0, 0.0]],
        [[math.nan, 0.0, 0.0]],
        [[math.inf, 0.0, 0.0]],
        [],
        [[1.0, 0.0, 0.0]] * 2,
        [[]],
        None,
        "text",
        [["a", "b", "c"]],
        7,
    ],
    ids=repr,
)
async def test_wrong_vectors_fail_neither_an_append_nor_a_search(url: str | None, answer: Any) -> None:
    embedder = SteppedEmbedder()
    async with Memory(url, embedder=embedder, embedder_timeout=30) as memory:
        await say(memory, "Our dog is called Bella")
        await memory.embed_messages("ana")
        if answer is None:
            embedder.failure = RuntimeError("no model")
        embedder.answer = answer
        await say(memory, "The train leaves at nine")
        assert await find(memory, "train") == ["The train leaves at nine"]
        with pytest.raises((InvalidVectors, RuntimeError)):
            await memory.embed_messages("ana")
        embedder.answer = embedder.failure = None
        assert await memory.embed_messages("ana") == 1


class Sleeper:
    """A sleep that ends when it is told to, and tells how long it was to be."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await anyio.lowlevel.checkpoint()


async def filled(index: VectorIndex, count: int) -> None:
    with anyio.fail_after(20):
        while index.metrics["messages_embedded"] < count:
            await anyio.lowlevel.checkpoint()


async def append_texts(store: InProcessStore, *texts: str) -> None:
    memory = Memory(store=store)
    await memory.append("ana", "trip", *(Message("user", text) for text in texts))


async def test_a_failing_embedder_is_tried_again_after_longer_and_longer_pauses() -> None:
    store, sleeper, embedder = InProcessStore(), Sleeper(), SteppedEmbedder()
    index = VectorIndex(store, embedder, timeout=30, sleep=sleeper)
    await append_texts(store, "a dog")
    embedder.failure = RuntimeError("no model")
    index.note_appended(MAIN)
    with anyio.fail_after(20):
        while len(sleeper.seconds) < 5:
            await anyio.lowlevel.checkpoint()
    embedder.failure = None
    await filled(index, 1)
    assert sleeper.seconds[:5] == [0.25, 1.0, 2.0, 4.0, 8.0]
    await index.close()


async def test_a_message_on_which_the_embedder_fails_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = InProcessStore()

    async def embed(texts: list[str]) -> list[list[float]]:
        if any("poison" in text for text in texts):
            raise RuntimeError("cannot")
        return embed_topics(texts)

    index = VectorIndex(store, embed, timeout=30, sleep=Sleeper())
    await append_texts(store, *["a dog"] * 5, "poison", *["a train"] * 5)
    index.note_appended(MAIN)
    with caplog.at_level(logging.WARNING, logger="autonomy_ctx.memory"):
        await filled(index, 10)
    assert any("gets no vector" in record.getMessage() for record in caplog.records)
    await index.close()


async def test_messages_are_embedded_in_batches_that_grow(url: str | None) -> None:
    embedder = SteppedEmbedder()
    async with Memory(url, embedder=embedder, embedder_timeout=30) as memory:
        await say(memory, *(f"dog {number}" for number in range(300)))
        await memory.embed_messages("ana")
    sizes = [len(call) for call in embedder.calls[1:]]
    assert sum(sizes) == 300
    assert max(sizes) == MAX_BATCH
    assert len(sizes) == math.ceil(300 / MAX_BATCH)


async def test_another_embedder_makes_vectors_anew_and_the_first_one_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"

    async with (
        Memory(url, embedder=embed_topics, embedder_timeout=30) as first,
        Memory(url, embedder=SteppedEmbedder(), embedder_timeout=30) as second,
    ):
        await say(first, "Our dog is called Bella")
        assert await first.embed_messages("ana") == 1
        assert await second.embed_messages("ana") == 1
        assert (await find(second, "animal")) == ["Our dog is called Bella"]
        await say(first, "The train leaves at nine")
        with caplog.at_level(logging.WARNING, logger="autonomy_ctx.memory"):
            # What the first one makes is not kept. By words it finds as before.
            assert await find(first, "animal") == []
            assert await find(first, "train") == ["The train leaves at nine"]
            await second.embed_messages("ana")
            assert (await find(second, "journey", limit=1)) == ["The train leaves at nine"]


async def test_a_replaced_embedder_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with Memory(url, embedder=embed_topics) as first, Memory(url, embedder=SteppedEmbedder()) as second:
        await say(first, "Our dog is called Bella")
        await first.embed_messages("ana")
        await second.embed_messages("ana")
        with pytest.raises(EmbedderReplaced, match="embed_topics"):
            await first.embed_messages("ana")


async def test_two_memories_that_fill_at_once_store_each_vector_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with (
        Memory(url, embedder=embed_topics, embedder_timeout=30) as first,
        Memory(url, embedder=embed_topics, embedder_timeout=30) as second,
    ):
        await say(first, *(f"dog {number}" for number in range(200)))
        async with anyio.create_task_group() as group:
            group.start_soon(first.embed_messages, "ana")
            group.start_soon(second.embed_messages, "ana")
        for memory in (first, second):
            found = await find(memory, "animal", limit=500)
            assert len(found) == len(set(found)) == 200


def test_a_function_that_computes_runs_in_a_thread() -> None:
    names: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        names.append(threading.current_thread().name)
        return embed_topics(texts)

    async def run() -> None:
        async with Memory(embedder=embed) as memory:
            await say(memory, "a dog")
            await memory.embed_messages("ana")

    anyio.run(run)
    assert threading.main_thread().name not in names


async def test_a_blank_question_finds_nothing_and_a_wrong_one_is_refused(memory: Memory) -> None:
    await say(memory, "a dog")
    await memory.embed_messages("ana")
    assert await find(memory, "  ") == []
    with pytest.raises(ValueError, match="limit"):
        await memory.search("ana", "dog", limit=0)
    with pytest.raises(TypeError, match="query"):
        await memory.search("ana", 7)  # type: ignore[arg-type]


async def test_without_an_embedder_there_is_nothing_to_embed_and_no_new_metric() -> None:
    async with Memory() as memory:
        with pytest.raises(ValueError, match="embedder="):
            await memory.embed_messages("ana")
        assert "messages_embedded" not in await memory.get_metrics()


async def test_a_store_without_vectors_is_refused_when_memory_is_made() -> None:
    class Plain:
        def __init__(self) -> None:
            self.inner = InProcessStore()

        def __getattr__(self, name: str) -> Any:
            if name == "nearest":
                raise AttributeError(name)
            return getattr(self.inner, name)

    with pytest.raises(VectorsUnsupported, match="Plain cannot store vectors"):
        Memory(store=cast(Store, Plain()), embedder=embed_topics)


async def test_a_wrapped_store_keeps_vectors_too() -> None:
    class Wrapped:
        def __init__(self) -> None:
            self.inner = InProcessStore()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    async with Memory(store=cast(Store, Wrapped()), embedder=embed_topics, embedder_timeout=30) as memory:
        await say(memory, "a dog")
        await memory.embed_messages("ana")
        assert await find(memory, "animal") == ["a dog"]


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import importlib.util
from autonomy_ctx import Memory
try:
    Memory(embedder=lambda texts: [])
except ImportError as error:
    print(error)
"""
PLAIN_MEMORY = """
import sys, asyncio
from autonomy_ctx import Memory
async def main():
    memory = Memory()
    await memory.append("ana", "trip", {"role": "user", "content": "hi"})
    await memory.search("ana", "hi")
    await memory.close()
asyncio.run(main())
print("numpy" in sys.modules, "autonomy_ctx.memory.vector_index" in sys.modules)
"""


def run_program(program: str) -> str:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_without_numpy_the_error_names_the_extra() -> None:
    assert "autonomy-ctx[embeddings]" in run_program(WITHOUT_NUMPY)


def test_a_memory_without_an_embedder_loads_no_numpy() -> None:
    assert run_program(PLAIN_MEMORY) == "False False"


def test_what_an_embedder_is_called() -> None:
    class Model:
        model = "text-embedding-3-small"

        def embed(self, texts: list[str]) -> list[list[float]]:
            return []

    assert embedder_name(Model()) == "text-embedding-3-small"
    assert embedder_name(embed_topics) == "embed_topics"
    assert embedder_name(partial(embed_topics)) == "embed_topics"
    assert embedder_name(SteppedEmbedder()) == "SteppedEmbedder"


def test_vectors_are_packed_with_length_one_however_large_they_are() -> None:
    packed = pack_vectors([[3.0, 4.0], [1e300, 1e300], [0.0, 0.0], [1e-300, 0.0]], 4)
    matrix = VectorMatrix(2)
    matrix.add([(1, position, vector) for position, vector in enumerate(packed)])
    scores = {one.position: one.score for one in matrix.nearest(packed[0], 9)}
    assert scores[0] == pytest.approx(1.0, abs=1e-3)
    assert scores[1] == pytest.approx(7 / 5 / math.sqrt(2), abs=1e-3)
    assert scores[2] == 0.0
    assert scores[3] == pytest.approx(0.6, abs=1e-3)


KILLED = """
import anyio, os, signal, sys
sys.path.insert(0, sys.argv[2])
from test_vector_index import embed_topics, say
from autonomy_ctx import Memory

calls = 0


def embed(texts):
    global calls
    calls += 1
    if calls == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return embed_topics(texts)


embed.__qualname__ = "embed_topics"


async def main():
    memory = Memory(sys.argv[1], embedder=embed)
    await say(memory, *(f"dog {number}" for number in range(400)))
    await memory.embed_messages("ana")


anyio.run(main)
"""


async def test_after_a_kill_the_rest_is_embedded_and_nothing_twice(tmp_path: Path) -> None:
    url, here = f"sqlite:///{tmp_path}/memory.db", str(Path(__file__).parent)
    killed = await anyio.run_process([sys.executable, "-c", KILLED, url, here], check=False)
    assert killed.returncode == -9, killed.stderr
    embedder = SteppedEmbedder()
    embedder.name = "embed_topics"
    async with Memory(url, embedder=embedder, embedder_timeout=30) as memory:
        assert await memory.get_message_count("ana", "trip") == 400
        made = await memory.embed_messages("ana")
        assert 0 < made < 400
        found = await find(memory, "animal", limit=1000)
        assert len(found) == len(set(found)) == 400


async def test_a_scope_that_is_deleted_while_it_is_embedded_leaves_nothing(url: str | None) -> None:
    embedder = SteppedEmbedder()
    async with Memory(url, embedder=embedder, embedder_timeout=30) as memory:
        await memory.search("ana", "anything")
        await say(memory, "my dog")
        embedder.is_waiting = True

        async def embed() -> None:
            await memory.embed_messages("ana")

        async with anyio.create_task_group() as group:
            embedder.was_called = anyio.Event()
            group.start_soon(embed)
            await embedder.was_called.wait()
            await memory.delete_scope("ana")
            embedder.is_waiting = False
            embedder.may_answer.set()
        await say(memory, "my cat")
        await memory.embed_messages("ana")
        assert await find(memory, "animal", limit=1) == ["my cat"]


async def test_an_embedder_that_hangs_in_a_thread_holds_up_neither_search_nor_close() -> None:
    may_end = threading.Event()

    def embed(texts: list[str]) -> list[list[float]]:
        may_end.wait(30)
        return embed_topics(texts)

    try:
        async with Memory(embedder=embed, embedder_timeout=0.01) as memory:
            await say(memory, "Our dog is called Bella")
            assert await find(memory, "Bella") == ["Our dog is called Bella"]
            assert await find(memory, "Bella") == ["Our dog is called Bella"]
    finally:
        may_end.set()


async def test_a_fork_is_found_by_meaning_under_its_own_name(memory: Memory) -> None:
    await say(memory, "Our dog is called Bella", "The train leaves at nine")
    await memory.embed_messages("ana")
    fork = await memory.fork("ana", "trip", at=1, name="fork")
    [hit] = await memory.search("ana", "animal", conversation=fork)
    assert (hit.conversation, hit.message.text) == ("fork", "Our dog is called Bella")


def test_a_memory_goes_on_filling_in_another_event_loop(tmp_path: Path) -> None:
    memory = Memory(f"sqlite:///{tmp_path}/memory.db", embedder=embed_topics, embedder_timeout=30)

    async def first() -> None:
        # The loop ends before anything is embedded.
        await say(memory, "my dog")

    async def second() -> None:
        await say(memory, "my cat")
        await wait_for_vectors(memory, 2)
        assert sorted(await find(memory, "animal")) == ["my cat", "my dog"]
        await memory.close()

    anyio.run(first)
    anyio.run(second)


def test_a_name_that_no_store_can_hold_is_refused_at_once() -> None:
    embedder = SteppedEmbedder()
    embedder.name = "a\0b"
    with pytest.raises(InvalidKey, match="embedder"):
        Memory(embedder=embedder)


async def test_recall_shows_what_was_found_by_meaning(memory: Memory) -> None:
    await say(memory, *(f"It rained on day {day}." for day in range(30)), "Bella the dog comes along.")
    await memory.embed_messages("ana")
    found = await recall(memory, "ana", "animal", max_tokens=200)
    assert "Bella the dog comes along." in found.text
