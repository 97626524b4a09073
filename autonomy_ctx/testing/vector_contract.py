"""`VectorsContract`: what a store does with vectors."""

from __future__ import annotations

from collections.abc import Mapping

from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.vectors import EmbeddingBlock, MessageVector, VectorBlock
from autonomy_ctx.testing.values import BOB, HELPER, MAIN, OTHER, StoreActions

# What the texts of these tests are about, as directions.
TOPICS: Mapping[str, tuple[float, float, float]] = {
    "cat": (1.0, 0.0, 0.0),
    "kitten": (0.9, 0.1, 0.0),
    "train": (0.0, 1.0, 0.0),
    "railway": (0.1, 0.9, 0.0),
    "soup": (0.0, 0.0, 1.0),
}


def pack_vector(*numbers: float) -> bytes:
    """Numbers as a store keeps them, with length 1."""
    # Imported here: it needs numpy, which other tests do without.
    from autonomy_ctx.memory.vector_matrix import pack_vectors

    [vector] = pack_vectors([numbers], 1)
    return vector


def pack_topic(text: str) -> bytes:
    """The vector of a text that names one topic."""
    return pack_vector(*TOPICS[text.split()[-1]])


class VectorsContract(StoreActions):
    """The contract of vectors on a database. Subclass it and provide a `store` fixture."""

    def embed(self, blocks: list[EmbeddingBlock]) -> list[VectorBlock]:
        """The vectors of an embedder for blocks of texts."""
        return [
            VectorBlock(
                block.key,
                block.start,
                block.end,
                tuple(
                    MessageVector(one.position, one.message_id, pack_topic(one.text)) for one in block.texts
                ),
            )
            for block in blocks
        ]

    async def blocks(
        self, store: Store, number: int, *, key: Key = MAIN, conversation: str | None = None, limit: int = 9
    ) -> list[EmbeddingBlock]:
        """The next blocks that lack vectors."""
        found = await store.read_unembedded(
            key.agent, key.scope, embedder=number, conversation=conversation, limit=limit
        )
        assert found is not None
        return found

    async def embed_all(self, store: Store, *keys: Key, name: str = "topics") -> int:
        """Store the missing vectors of these conversations' scopes, and return the embedder's number."""
        number = await store.use_embedder(name, 3)
        for key in keys or (MAIN,):
            while blocks := await self.blocks(store, number, key=key, limit=2):
                assert await store.put_vectors(self.embed(blocks), embedder=number)
        return number

    async def find(
        self,
        store: Store,
        text: str,
        number: int,
        *,
        key: Key = MAIN,
        whole_scope: bool = True,
        limit: int = 10,
    ) -> list[str]:
        """The texts nearest to one."""
        found = await store.nearest(
            key.agent,
            key.scope,
            pack_topic(text),
            embedder=number,
            conversation=None if whole_scope else key.conversation,
            limit=limit,
        )
        return [hit.message.text for hit in found]

    async def test_messages_are_found_by_meaning_nearest_first(self, store: Store) -> None:
        await self.say(store, "a cat", "a train", "a soup", "a kitten")
        number = await self.embed_all(store)
        assert (await self.find(store, "cat", number))[:2] == ["a cat", "a kitten"]
        assert await self.find(store, "railway", number, limit=1) == ["a train"]
        [hit] = await store.nearest("", "ana", pack_topic("cat"), embedder=number, limit=1)
        assert (hit.conversation, hit.position, hit.message.id) == ("trip", 1, "a cat")
        assert 0.99 < hit.score < 1.01

    async def test_tenants_and_agents_find_only_their_own(self, store: Store) -> None:
        for key, text in ((MAIN, "my cat"), (BOB, "their cat"), (HELPER, "a helper's cat")):
            await self.say(store, text, key=key)
        number = await self.embed_all(store, MAIN, BOB, HELPER)
        assert await self.find(store, "cat", number) == ["my cat"]
        assert await self.find(store, "cat", number, key=BOB) == ["their cat"]
        assert await self.find(store, "cat", number, key=HELPER) == ["a helper's cat"]
        assert await self.find(store, "cat", number, key=Key("helper", "bob", "trip")) == []

    async def test_what_others_have_takes_no_place_of_what_is_found(self, store: Store) -> None:
        for key, text in (
            (MAIN, "my kitten"),
            (BOB, "their cat"),
            (HELPER, "a helper's cat"),
            (OTHER, "a train"),
        ):
            await self.say(store, text, key=key)
        number = await self.embed_all(store, MAIN, BOB, HELPER)
        assert await self.find(store, "cat", number, limit=1) == ["my kitten"]
        assert await self.find(store, "cat", number, key=OTHER, whole_scope=False, limit=1) == ["a train"]

    async def test_a_conversation_finds_its_own_messages_only(self, store: Store) -> None:
        await self.say(store, "my cat")
        await self.say(store, "another cat", key=OTHER)
        number = await self.embed_all(store)
        assert await self.find(store, "cat", number, whole_scope=False) == ["my cat"]
        assert sorted(await self.find(store, "cat", number)) == ["another cat", "my cat"]
        nobody = Key("", "ana", "nobody")
        assert await self.find(store, "cat", number, key=nobody, whole_scope=False) == []

    async def test_a_vector_goes_with_its_message(self, store: Store) -> None:
        await self.say(store, "first cat", "second cat", "a train")
        number = await self.embed_all(store)
        assert len(await self.find(store, "cat", number)) == 3
        await store.delete("ana", "", "trip", ["second cat"])
        assert await self.find(store, "cat", number) == ["first cat", "a train"]
        # No place is left for it.
        assert await self.find(store, "cat", number, limit=1) == ["first cat"]
        assert await self.find(store, "cat", number, whole_scope=False) == ["first cat", "a train"]

    async def test_vectors_go_with_their_conversation_and_scope(self, store: Store) -> None:
        for key, text in ((MAIN, "my cat"), (OTHER, "another cat"), (BOB, "their cat")):
            await self.say(store, text, key=key)
        number = await self.embed_all(store, MAIN, BOB)
        await store.delete("ana", "", "trip")
        assert await self.find(store, "cat", number, limit=1) == ["another cat"]
        await store.delete("ana")
        assert await self.find(store, "cat", number) == []
        assert await self.find(store, "cat", number, key=BOB) == ["their cat"]
        await self.say(store, "a new cat")
        await self.embed_all(store)
        assert await self.find(store, "cat", number) == ["a new cat"]

    async def test_what_was_deleted_while_it_was_embedded_gets_no_vector(self, store: Store) -> None:
        await self.say(store, "first cat", "second cat")
        number = await store.use_embedder("topics", 3)
        blocks = self.embed(await self.blocks(store, number))
        await store.delete("ana", "", "trip", ["first cat"])
        assert await store.put_vectors(blocks, embedder=number)
        assert await self.find(store, "cat", number) == ["second cat"]
        await store.delete("ana", "", "trip", ["second cat"])
        await self.say(store, "a kitten")
        await self.embed_all(store)
        assert await self.find(store, "cat", number, limit=1) == ["a kitten"]
        await self.say(store, "third cat")
        blocks = self.embed(await self.blocks(store, number))
        await store.delete("ana")
        assert await store.put_vectors(blocks, embedder=number)
        assert await self.find(store, "cat", number) == []
        assert await self.blocks(store, number) == []

    async def test_a_fork_finds_what_it_shares_under_its_own_name(self, store: Store) -> None:
        await self.say(store, "first cat", "second cat")
        await store.fork(MAIN, 1, "fork")
        fork = Key("", "ana", "fork")
        await self.say(store, "a kitten", key=fork)
        number = await self.embed_all(store)
        assert await self.find(store, "cat", number, key=fork, whole_scope=False) == ["first cat", "a kitten"]
        assert await self.find(store, "cat", number, whole_scope=False) == ["second cat", "first cat"]
        found = await store.nearest(
            "", "ana", pack_topic("cat"), embedder=number, conversation="fork", limit=9
        )
        assert {(hit.conversation, hit.position) for hit in found} == {("fork", 1), ("fork", 2)}
        # In the scope, each message once.
        assert sorted(await self.find(store, "cat", number)) == ["a kitten", "first cat", "second cat"]
        await store.delete("ana", "", "fork", ["first cat"])
        assert await self.find(store, "cat", number, key=fork, whole_scope=False) == ["a kitten"]
        assert await self.find(store, "cat", number, whole_scope=False) == ["second cat"]

    async def test_another_embedder_makes_all_vectors_anew(self, store: Store) -> None:
        await self.say(store, "a cat", "a train")
        first = await self.embed_all(store)
        assert await store.use_embedder("topics", 3) == first
        blocks = self.embed([EmbeddingBlock(MAIN, 2, 2, ())])
        second = await store.use_embedder("others", 3)
        assert second != first
        # The one before can neither store nor find.
        assert await store.put_vectors(blocks, embedder=first) is False
        assert await store.read_unembedded("", "ana", embedder=first, limit=9) is None
        assert await self.find(store, "cat", first) == []
        assert await self.find(store, "cat", second) == []
        await self.embed_all(store, name="others")
        assert await self.find(store, "cat", second) == ["a cat", "a train"]
        # Back again: as another one.
        third = await store.use_embedder("topics", 3)
        assert third not in (first, second)
        assert await self.find(store, "cat", third) == []
