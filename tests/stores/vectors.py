"""Which messages lack a vector, and how far a conversation has them: decided by scripts, on every store."""

from __future__ import annotations

from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.vectors import MessageVector, VectorBlock
from autonomy_ctx.testing.values import MAIN, OTHER, make_drafts, make_message
from autonomy_ctx.testing.vector_contract import VectorsContract, pack_vector


class BlocksContract(VectorsContract):
    """Tests of blocks without vectors, and of storing them."""

    async def test_blocks_are_in_order_within_the_limit_and_end(self, store: Store) -> None:
        await self.say(store, "a cat", "a train", "a soup")
        number = await store.use_embedder("topics", 3)
        [block] = await self.blocks(store, number, limit=2)
        assert (block.key, block.start, block.end) == (MAIN, 0, 2)
        assert [one.text for one in block.texts] == ["a cat", "a train"]
        assert await store.put_vectors(self.embed([block]), embedder=number)
        [block] = await self.blocks(store, number, limit=2)
        assert (block.start, block.end, [one.text for one in block.texts]) == (2, 3, ["a soup"])
        assert await store.put_vectors(self.embed([block]), embedder=number)
        assert await self.blocks(store, number, limit=2) == []

    async def test_blocks_of_one_conversation_or_of_the_whole_scope(self, store: Store) -> None:
        await self.say(store, "a cat")
        await self.say(store, "a train", key=OTHER)
        number = await store.use_embedder("topics", 3)
        blocks = await self.blocks(store, number)
        assert sorted(block.key for block in blocks) == sorted([MAIN, OTHER])
        [block] = await self.blocks(store, number, conversation="other")
        assert block.key == OTHER

    async def test_a_block_stored_twice_is_there_once(self, store: Store) -> None:
        await self.say(store, "a cat", "a train")
        number = await store.use_embedder("topics", 3)
        blocks = self.embed(await self.blocks(store, number))
        assert await store.put_vectors(blocks, embedder=number)
        assert await store.put_vectors(blocks, embedder=number)
        assert await self.find(store, "cat", number) == ["a cat", "a train"]

    async def test_a_block_that_comes_late_moves_no_mark_back(self, store: Store) -> None:
        await self.say(store, "a cat", "a train", "a soup")
        number = await store.use_embedder("topics", 3)
        late = self.embed(await self.blocks(store, number, limit=1))
        await self.embed_all(store)
        assert await store.put_vectors(late, embedder=number)
        assert await self.blocks(store, number) == []
        assert len(await self.find(store, "cat", number)) == 3

    async def test_a_message_without_text_has_no_vector_and_holds_nothing_up(self, store: Store) -> None:
        call = {"id": "c1", "name": "look", "arguments": ""}
        await store.append(
            MAIN,
            make_drafts(
                make_message("", id="m1", role="assistant", tool_calls=[call]), make_message("a cat", id="m2")
            ),
        )
        number = await store.use_embedder("topics", 3)
        [block] = await self.blocks(store, number)
        assert [one.text for one in block.texts] == ["", "a cat"]
        embedded = self.embed([block._replace(texts=block.texts[1:])])
        assert await store.put_vectors(embedded, embedder=number)
        assert await self.blocks(store, number) == []
        assert await self.find(store, "cat", number) == ["a cat"]

    async def test_of_equals_the_newest_comes_first(self, store: Store) -> None:
        await self.say(store, "first cat", "second cat", "third cat")
        number = await self.embed_all(store)
        assert await self.find(store, "cat", number) == ["third cat", "second cat", "first cat"]

    async def test_a_deleted_fork_leaves_what_it_shared(self, store: Store) -> None:
        await self.say(store, "first cat")
        await store.fork(MAIN, None, "fork")
        fork = Key("", "ana", "fork")
        await self.say(store, "second cat", key=fork)
        number = await self.embed_all(store)
        await store.delete("ana", "", "fork")
        assert await self.find(store, "cat", number) == ["first cat"]
        assert await self.find(store, "cat", number, key=fork, whole_scope=False) == []

    async def test_other_dimensions_are_another_embedder(self, store: Store) -> None:
        await self.say(store, "a cat")
        first = await self.embed_all(store)
        second = await store.use_embedder("topics", 4)
        assert second != first
        [block] = await self.blocks(store, second)
        vector = pack_vector(1.0, 0.0, 0.0, 0.0)
        made = VectorBlock(MAIN, block.start, block.end, (MessageVector(1, "a cat", vector),))
        assert await store.put_vectors([made], embedder=second)
        [hit] = await store.nearest("", "ana", vector, embedder=second, limit=9)
        assert hit.message.text == "a cat"
