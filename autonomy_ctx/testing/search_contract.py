"""The part of `StoreContract` about full-text search: what the rows of an index in a database must do."""

from __future__ import annotations

from typing import Any

import anyio

from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key
from autonomy_ctx.testing.values import (
    ALIKE_KEYS,
    BOB,
    HELPER,
    MAIN,
    OTHER,
    StoreActions,
    make_drafts,
    make_message,
)


class SearchContract(StoreActions):
    """The contract of every store about search."""

    async def append_texts(self, store: Store, *texts: str, key: Key = MAIN) -> list[int]:
        """Append texts under ids that tell where they come next."""
        start = (await store.head(key)).position + 1
        messages = (make_message(text, id=f"t{number}") for number, text in enumerate(texts, start))
        return await store.append(key, make_drafts(*messages))

    async def search_texts(self, store: Store, query: str, key: Key = MAIN, **options: Any) -> list[str]:
        """The texts that a search in a key's scope finds."""
        found = await store.search(key.agent, key.scope, query, **options)
        return [one.message.text for one in found]

    async def test_a_message_is_found_by_each_of_its_words(self, store: Store) -> None:
        await self.append_texts(store, "The museum opens early", "Trains leave at noon")
        for word in ("museum", "MUSEUM", "opens", "early"):
            assert await self.search_texts(store, word) == ["The museum opens early"]
        assert await self.search_texts(store, "noon") == ["Trains leave at noon"]
        assert await self.search_texts(store, "ticket") == []

    async def test_what_is_found_says_where_it_stands(self, store: Store) -> None:
        await self.append_texts(store, "nothing", "the museum", "nothing")
        [found] = await store.search("", "ana", "museum")
        [entry] = (await store.read(MAIN, after=1, before=3)).entries
        assert (found.conversation, found.position, found.message) == ("trip", 2, entry.message)
        assert found.score > 0

    async def test_the_best_comes_first_and_a_limit_keeps_the_best(self, store: Store) -> None:
        filler = [f"We talked about the weather of day {number}" for number in range(20)]
        await self.append_texts(
            store, *filler, "museum and weather", "museum", "museum tickets for the weather"
        )
        found = await store.search("", "ana", "museum tickets")
        assert found[0].position == 23
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        assert len(found) == 3
        assert await store.search("", "ana", "museum tickets", limit=1) == found[:1]

    async def test_only_the_scope_and_the_agent_that_are_meant_are_searched(self, store: Store) -> None:
        for key in (MAIN, OTHER, HELPER, BOB):
            await self.append_texts(store, f"secret of {'-'.join(key)}", key=key)
        own = ["secret of -ana-other", "secret of -ana-trip"]
        assert sorted(await self.search_texts(store, "secret")) == own
        assert await self.search_texts(store, "secret", HELPER) == ["secret of helper-ana-trip"]
        assert await self.search_texts(store, "secret", BOB) == ["secret of -bob-trip"]
        assert await self.search_texts(store, "secret", Key("helper", "bob", "trip")) == []
        assert await self.search_texts(store, "secret", conversation="other") == ["secret of -ana-other"]
        assert await self.search_texts(store, "secret", conversation="unknown") == []
        assert await self.search_texts(store, "secret", BOB, conversation="other") == []

    async def test_names_that_join_to_the_same_text_are_searched_apart(self, store: Store) -> None:
        for number, key in enumerate(ALIKE_KEYS):
            await self.append_texts(store, f"secret{number} shared", key=key)
        for number, key in enumerate(ALIKE_KEYS):
            assert await self.search_texts(store, "shared", key) == [f"secret{number} shared"]

    async def test_nobody_reaches_another_scope_with_words_made_to_look_like_the_index(
        self, store: Store
    ) -> None:
        await self.append_texts(store, "secret", key=BOB)
        await self.search_texts(store, "secret", BOB)
        await self.append_texts(store, "hello 1xsecret 2xsecret 3xsecret c1 c2")
        hostile = ["1xsecret", '2xsecret" OR "1xsecret', "place:c1", "c1", "* secret *", '"secret', "^secret"]
        for query in [*hostile, "secret OR 1xsecret", "NEAR(secret)", "{text}:secret", "-secret", "sec\0ret"]:
            assert "secret" not in await self.search_texts(store, query)
        assert await self.search_texts(store, "hello", BOB) == []

    async def test_what_is_appended_later_is_found_too(self, store: Store) -> None:
        await self.append_texts(store, "museum red")
        assert await self.search_texts(store, "museum") == ["museum red"]
        await self.append_texts(store, "museum blue")
        await self.append_texts(store, "museum green", key=OTHER)
        assert await self.search_texts(store, "museum", conversation="trip") == ["museum blue", "museum red"]
        assert len(await self.search_texts(store, "museum")) == 3

    async def test_a_deleted_message_is_not_found(self, store: Store) -> None:
        await self.append_texts(store, "museum red", "museum blue")
        assert len(await self.search_texts(store, "museum")) == 2
        await store.delete("ana", "", "trip", ["t1"])
        assert await self.search_texts(store, "museum") == ["museum blue"]
        await self.append_texts(store, "museum green")
        assert await self.search_texts(store, "museum") == ["museum green", "museum blue"]

    async def test_a_deleted_conversation_or_scope_is_not_found_and_others_are(self, store: Store) -> None:
        for key in (MAIN, OTHER, HELPER, BOB):
            await self.append_texts(store, "museum", key=key)
            assert "museum" in await self.search_texts(store, "museum", key)
        await store.delete("ana", "", "trip")
        assert [one.conversation for one in await store.search("", "ana", "museum")] == ["other"]
        await store.delete("ana")
        for key in (MAIN, HELPER):
            assert await self.search_texts(store, "museum", key) == []
        assert await self.search_texts(store, "museum", BOB) == ["museum"]
        await self.append_texts(store, "museum again")
        assert await self.search_texts(store, "museum") == ["museum again"]

    async def test_tasks_that_search_and_append_at_once_find_what_was_acknowledged(
        self, store: Store
    ) -> None:
        missing: list[str] = []

        async def speak(task: int) -> None:
            for number in range(6):
                key, word = Key("", "ana", str(task)), f"w{task}n{number}"
                await self.append_texts(store, word, key=key)
                if await self.search_texts(store, word) != [word]:
                    missing.append(word)

        async with anyio.create_task_group() as group:
            for task in range(6):
                group.start_soon(speak, task)
        assert missing == []
