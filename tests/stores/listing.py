"""Listings, on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import ConversationInfo, Key
from autonomy_ctx.testing.values import BOB, HELPER, MAIN, OTHER, StoreActions, make_drafts, make_message

_START = datetime(2030, 1, 1, tzinfo=UTC)
# Names that are easily sorted, cut or matched in more than one way.
_ODD_NAMES = ("", " ", "%", "A", "Z", "_", "a", "a\tb", "a b", "aa", "b", "\u00e9", "e\u0301", "\uffff", "😀")


class ListingContract(StoreActions):
    """Tests of listings."""

    async def fill_all(self, store: Store) -> None:
        """Four conversations: three of ana, one of them with the agent helper, and one of bob."""
        for number, key in enumerate((MAIN, OTHER, HELPER, BOB), 1):
            await self.fill(store, number, key)

    async def agents(self, store: Store, scope: str | None = None) -> list[str]:
        """All agents."""
        return await store.list_agents(scope=scope, after=None, limit=100)

    async def scopes(self, store: Store, agent: str | None = None) -> list[str]:
        """All scopes."""
        return await store.list_scopes(agent=agent, after=None, limit=100)

    async def keys(
        self,
        store: Store,
        scope: str = "ana",
        agent: str | None = None,
        after: Key | None = None,
        limit: int = 100,
    ) -> list[Key]:
        """The keys of a page of conversations."""
        page = await store.list_conversations(scope, agent=agent, after=after, limit=limit)
        return [info.key for info in page]

    async def test_a_store_that_nobody_used_lists_nothing(self, store: Store) -> None:
        assert await self.agents(store) == []
        assert await self.scopes(store) == []
        assert await self.keys(store) == []

    async def test_what_has_messages_is_listed(self, store: Store) -> None:
        await self.fill_all(store)
        assert await self.agents(store) == ["", "helper"]
        assert await self.scopes(store) == ["ana", "bob"]
        assert await self.keys(store) == [OTHER, MAIN, HELPER]
        assert await self.keys(store, "bob") == [BOB]

    async def test_a_listing_can_be_of_one_agent_or_one_scope(self, store: Store) -> None:
        await self.fill_all(store)
        assert await self.agents(store, "bob") == [""]
        assert await self.agents(store, "ana") == ["", "helper"]
        assert await self.agents(store, "nobody") == []
        assert await self.scopes(store, "helper") == ["ana"]
        assert await self.scopes(store, "") == ["ana", "bob"]
        assert await self.scopes(store, "nobody") == []
        assert await self.keys(store, agent="helper") == [HELPER]
        assert await self.keys(store, agent="") == [OTHER, MAIN]
        assert await self.keys(store, agent="nobody") == []

    async def test_a_conversation_is_listed_with_its_count_and_times(self, store: Store) -> None:
        times = [_START + timedelta(seconds=seconds, microseconds=1) for seconds in (0, 50, 20)]
        forms = [
            {"role": "user", "content": "x", "id": f"m{at.second}", "timestamp": at.isoformat()}
            for at in times
        ]
        await store.append(MAIN, make_drafts(*forms))
        [info] = await store.list_conversations("ana", agent=None, after=None, limit=9)
        expected = ConversationInfo(**MAIN._asdict(), messages=3, first_at=times[0], last_at=times[2])
        assert info == expected
        await store.delete("ana", "", "trip", ["m0"])
        [info] = await store.list_conversations("ana", agent=None, after=None, limit=9)
        assert (info.messages, info.first_at, info.last_at) == (2, times[1], times[2])
        await store.delete("ana", "", "trip", ["m20"])
        [info] = await store.list_conversations("ana", agent=None, after=None, limit=9)
        assert (info.messages, info.first_at, info.last_at) == (1, times[1], times[1])

    async def test_a_listing_follows_what_is_said_and_deleted(self, store: Store) -> None:
        await self.fill_all(store)
        assert await self.keys(store) == [OTHER, MAIN, HELPER]
        await store.delete("ana", "", "other", ["m1"])
        assert await self.keys(store) == [OTHER, MAIN, HELPER]
        await store.delete("ana", "", "other", ["m2"])
        await store.delete("ana", "helper", "trip")
        assert (await self.agents(store), await self.keys(store)) == ([""], [MAIN])
        await store.delete("ana")
        await store.delete("ana")
        assert (await self.scopes(store), await self.keys(store)) == (["bob"], [])
        await self.fill(store, 1, HELPER)
        assert (await self.agents(store), await self.scopes(store)) == (["", "helper"], ["ana", "bob"])
        [info] = await store.list_conversations("ana", agent=None, after=None, limit=9)
        assert (info.key, info.messages) == (HELPER, 1)

    async def test_a_conversation_without_messages_is_not_listed(self, store: Store) -> None:
        await store.put_records(MAIN, "mail", [("one", "body")])
        await store.append(OTHER, [])
        assert (await self.agents(store), await self.scopes(store), await self.keys(store)) == ([], [], [])

    async def test_a_message_sent_twice_is_listed_once(self, store: Store) -> None:
        assert await self.keys(store) == []
        for _ in range(2):
            await store.append(MAIN, make_drafts(make_message("hello", id="m1")))
        [info] = await store.list_conversations("ana", agent=None, after=None, limit=9)
        assert (info.key, info.messages) == (MAIN, 1)
        await store.delete("ana", "", "trip", ["m1"])
        assert await self.keys(store) == []

    async def test_pages_follow_each_other_in_order_without_a_gap(self, store: Store) -> None:
        keys = [
            Key(agent, scope, name)
            for agent in ("", "b", "a/b-1")
            for scope in ("ana", "bob")
            for name in _ODD_NAMES
        ]
        for key in keys:
            await self.fill(store, 1, key)
        wanted = sorted(key for key in keys if key.scope == "ana")
        for agent in (None, "b"):
            expected = [key for key in wanted if agent in (None, key.agent)]
            for limit in (1, 4, 100):
                found: list[Key] = []
                while page := await self.keys(
                    store, agent=agent, after=found[-1] if found else None, limit=limit
                ):
                    assert len(page) <= limit
                    found += page
                assert found == expected

    async def test_names_come_in_pages_each_name_once(self, store: Store) -> None:
        for name in _ODD_NAMES:
            for other in ("x", "y"):
                await self.fill(store, 1, Key(name, other, "c"))
                await self.fill(store, 1, Key(other, name, "c"))
        everyone, x_only = sorted({*_ODD_NAMES, "x", "y"}), sorted(_ODD_NAMES)
        for limit in (1, 4, 100):
            cases: list[tuple[str | None, list[str]]] = [(None, everyone), ("x", x_only)]
            for other_name, expected in cases:
                agents: list[str] = []
                while page := await store.list_agents(
                    scope=other_name, after=agents[-1] if agents else None, limit=limit
                ):
                    agents += page
                assert agents == expected
                scopes: list[str] = []
                while page := await store.list_scopes(
                    agent=other_name, after=scopes[-1] if scopes else None, limit=limit
                ):
                    scopes += page
                assert scopes == expected

    async def test_a_page_may_come_after_something_that_is_gone(self, store: Store) -> None:
        await self.fill_all(store)
        await store.delete("ana", "", "other")
        assert await self.keys(store, after=OTHER) == [MAIN, HELPER]
        assert await store.list_scopes(agent=None, after="amy", limit=9) == ["ana", "bob"]
        assert await store.list_agents(scope=None, after="h", limit=9) == ["helper"]
