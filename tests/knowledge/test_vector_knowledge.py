"""Knowledge found by its meaning, and the vectors in this process."""

from __future__ import annotations

import math
from importlib import util
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowledge.bases import CountsTopics, Keeps
from strategies import some

from autonomy_ctx.errors import InvalidDocument, InvalidVectors, KnowledgeError
from autonomy_ctx.knowledge import InProcessVectorStore, VectorHit, VectorKnowledgeBase
from autonomy_ctx.knowledge.vector import DotProducts, numpy_dot_products, python_dot_products
from autonomy_ctx.testing import make_message

needs_numpy = pytest.mark.skipif(util.find_spec("numpy") is None, reason="numpy is not installed")


@pytest.fixture(params=[python_dot_products, pytest.param(numpy_dot_products, marks=needs_numpy)])
def products(request: pytest.FixtureRequest) -> DotProducts:
    made: DotProducts = request.param
    return made


async def sources(base: VectorKnowledgeBase, query: str, limit: int = 10) -> list[str | None]:
    return [passage.source for passage in await base.search(query, limit)]


async def filled(products: DotProducts | None = None) -> VectorKnowledgeBase:
    base = VectorKnowledgeBase(CountsTopics(), InProcessVectorStore(products=products))
    for topic in ("ferry", "tram", "food"):
        await base.add(f"All about the {topic}: {topic}, {topic}.", source=f"{topic}.md", title="Guide")
    return base


async def test_the_nearest_comes_first(products: DotProducts) -> None:
    base = await filled(products)
    found = await base.search("food food tram", 2)
    assert [(passage.source, passage.title, passage.id) for passage in found] == [
        ("food.md", "Guide", "food.md#1"),
        ("tram.md", "Guide", "tram.md#1"),
    ]
    assert 1 >= found[0].score > found[1].score > 0


async def test_the_same_source_again_replaces_all_that_was_there(products: DotProducts) -> None:
    base = await filled(products)
    await base.add("\n\n".join([f"ferry {number} " * 100 for number in range(9)]), source="ferry.md")
    assert len(await base.search("ferry", 50)) > 5
    await base.add("Now about visa.", source="ferry.md")
    store = base.vector_store
    assert isinstance(store, InProcessVectorStore)
    assert len(store) == 3
    assert await sources(base, "visa", 1) == ["ferry.md"]
    await base.remove("ferry.md")
    assert await sources(base, "visa", 5) == ["tram.md", "food.md"]
    await base.add("", source="tram.md")
    assert await sources(base, "visa", 5) == ["food.md"]


async def test_files_folders_and_messages_are_added_too(tmp_path: Path) -> None:
    base = VectorKnowledgeBase(CountsTopics(), InProcessVectorStore())
    (tmp_path / "a.md").write_text("ferry")
    (tmp_path / "b.md").write_text("tram")
    await base.add_file(tmp_path / "a.md")
    assert await base.add_folder(tmp_path) == [(tmp_path / name).as_posix() for name in ("a.md", "b.md")]
    await base.add_messages([make_message("I like food", id="m1")])
    assert await sources(base, "food", 1) == ["message m1"]
    assert await sources(base, "tram", 1) == [(tmp_path / "b.md").as_posix()]
    with pytest.raises(InvalidDocument):
        await base.add_file(tmp_path / "missing.md")


async def test_nothing_is_asked_about_nothing() -> None:
    base = await filled()
    assert isinstance(base.embedding_provider, CountsTopics)
    before = len(base.embedding_provider.asked)
    assert await base.search("  ", 3) == []
    assert len(base.embedding_provider.asked) == before


class Broken:
    """Gives vectors that are none."""

    def __init__(self, vectors: Any) -> None:
        self.vectors = vectors

    async def embed(self, texts: Any) -> Any:
        return self.vectors


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (None, "returned NoneType for 1 texts"),
        ([], "returned 0 vectors for 1 texts"),
        ([[1.0], [2.0]], "returned 2 vectors for 1 texts"),
        ([[]], "returned vectors of 0 numbers"),
        ([["x"]], "returned a vector that is not a list of numbers"),
        ([7], "returned a vector that is not a list of numbers"),
        ([[math.nan, 1.0]], "returned numbers that are not finite"),
        ([[1.0, 2.0]], "returned a vector of 2 numbers, but the others have 5"),
    ],
)
async def test_vectors_that_do_not_compare_are_refused_and_the_old_ones_stay(
    vectors: Any, problem: str
) -> None:
    base = await filled()
    broken = VectorKnowledgeBase(Broken(vectors), base.vector_store)
    with pytest.raises(InvalidVectors, match=problem):
        await broken.search("ferry", 3)
    with pytest.raises(InvalidVectors, match=problem):
        await broken.add("new", source="ferry.md")
    assert await sources(base, "ferry", 1) == ["ferry.md"]


async def test_a_store_of_ones_own_needs_only_add_and_search() -> None:
    store = Keeps()
    base = VectorKnowledgeBase(CountsTopics(), store)
    await base.add("ferry", source="a")
    await base.add("tram", source="a")
    assert [passage.text for passage in await base.search("ferry", 3)] == ["tram"]
    with pytest.raises(KnowledgeError, match="`Keeps` cannot remove documents; give the vector store"):
        await base.remove("a")


async def test_a_document_that_is_being_replaced_is_replaced_although_the_caller_leaves() -> None:
    class Interrupted(InProcessVectorStore):
        async def remove(self, source: str) -> int:
            gone = await super().remove(source)
            scope.cancel()
            return gone

    base = VectorKnowledgeBase(CountsTopics(), Interrupted())
    for text in ("ferry", "tram"):
        with anyio.CancelScope() as scope:
            await base.add(text, source="a")
            await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert [passage.text for passage in await base.search("ferry", 3)] == [text]


@pytest.mark.parametrize("answer", [7, "text", [7], [{"payload": {}}]])
async def test_a_store_that_gives_no_hits_is_named(answer: Any) -> None:
    base = VectorKnowledgeBase(CountsTopics(), Keeps(answer))
    with pytest.raises(KnowledgeError, match=r"the search"):
        await base.search("ferry", 3)


def test_what_can_neither_embed_nor_keep_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="object is not an embedder"):
        VectorKnowledgeBase(object(), InProcessVectorStore())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="object is not a vector store: it needs `add`"):
        VectorKnowledgeBase(CountsTopics(), object())  # type: ignore[arg-type]


# -- vectors in this process --------------------------------------------------------------------------


async def test_equals_come_in_the_order_they_were_added_and_a_zero_is_near_nothing(
    products: DotProducts,
) -> None:
    store = InProcessVectorStore(products=products)
    await store.add(["a", "b", "z"], [[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]], [{}, {"n": 1}, {}])
    found = await store.search([3.0, 4.0], 3)
    assert [hit.id for hit in found] == ["a", "b", "z"]
    assert [hit.score for hit in found] == [pytest.approx(1.0), pytest.approx(1.0), 0.0]
    assert found[1] == VectorHit(id="b", score=found[1].score, payload={"n": 1})


async def test_an_id_again_replaces_its_vector(products: DotProducts) -> None:
    store = InProcessVectorStore(products=products)
    await store.add(["a", "b"], [[1.0, 0.0], [0.0, 1.0]], [{"v": 1}, {}])
    await store.add(["a"], [[0.0, -1.0]], [{"v": 2}])
    assert len(store) == 2
    assert [(hit.id, hit.payload) for hit in await store.search([0.0, -1.0], 1)] == [("a", {"v": 2})]


async def test_lists_that_do_not_fit_together_change_nothing() -> None:
    store = InProcessVectorStore()
    with pytest.raises(ValueError, match="not 1, 2 and 1"):
        await store.add(["a"], [[1.0], [2.0]], [{}])
    with pytest.raises(InvalidVectors, match="2 numbers, but the others have 1"):
        await store.add(["a", "b"], [[1.0], [2.0, 3.0]], [{}, {}])
    assert len(store) == 0
    assert await store.search([1.0], 3) == []


vectors = st.lists(
    st.lists(st.floats(-10, 10).filter(lambda n: n == 0 or abs(n) > 1e-3), min_size=3, max_size=3),
    min_size=1,
    max_size=8,
)


@needs_numpy
@some
@given(vectors)
def test_numpy_and_plain_python_agree(rows: list[list[float]]) -> None:
    from array import array

    flat, one = array("f", [n for row in rows for n in row]), array("f", rows[0])
    assert list(python_dot_products(flat, one)) == pytest.approx(
        list(numpy_dot_products(flat, one)), abs=1e-3
    )
