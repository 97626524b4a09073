"""Profiles, on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stores.facts import make_change

from autonomy_ctx.errors import UnknownProfileEntry
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key
from autonomy_ctx.testing.values import BOB, HELPER, MAIN, OTHER, StoppedClock, StoreActions, make_segment


class ProfileContract(StoreActions):
    """Tests of profiles. A subclass has a `store` and a `clock` fixture."""

    async def learn(
        self, store: Store, key: Key, position: int, text: str, target: str | None = None
    ) -> None:
        """Commit a segment of one message with a fact for the profile."""
        change = replace(make_change(position, text, target), in_profile=True)
        assert await self.commit(store, make_segment(position, position), key, facts=[change])

    async def texts_of(self, store: Store, scope: str = "ana", agent: str = "") -> list[str]:
        return [entry.text for entry in await Memory(store=store).for_agent(agent).profile(scope)]

    async def test_facts_of_all_conversations_of_one_scope_and_agent_are_found(self, store: Store) -> None:
        for key in (MAIN, OTHER, BOB, HELPER):
            await self.fill(store, 2, key)
            await self.learn(store, key, 1, f"{key.agent}/{key.scope}/{key.conversation}")
        plain = make_change(2, "only here")
        await self.commit(store, make_segment(2, 2), facts=[plain])
        found = await store.profile_facts("", "ana")
        assert {(one.conversation, one.fact.text) for one in found} == {
            ("trip", "/ana/trip"),
            ("other", "/ana/other"),
        }
        assert all(one.fact.in_profile for one in found)
        assert await self.texts_of(store, "bob") == ["/bob/trip"]
        assert await self.texts_of(store, agent="helper") == ["helper/ana/trip"]
        assert await self.texts_of(store, "nobody") == []

    async def test_what_ends_in_its_conversation_ends_in_the_profile(self, store: Store) -> None:
        await self.fill(store, 4)
        await self.learn(store, MAIN, 1, "vegetarian")
        await self.learn(store, MAIN, 2, "vegan", "F1")
        assert await self.texts_of(store) == ["vegan"]
        assert await store.undo_segment(MAIN)
        assert await self.texts_of(store) == ["vegetarian"]
        await self.learn(store, MAIN, 2, "vegan", "F1")
        done = make_change(3, target="F3", action="done")
        assert await self.commit(store, make_segment(3, 3), facts=[done])
        assert await self.texts_of(store) == []

    @pytest.mark.parametrize("what", ["message", "conversation", "scope"])
    async def test_it_goes_with_what_it_was_learned_from(self, store: Store, what: str) -> None:
        memory = Memory(store=store)
        for key in (MAIN, OTHER, BOB):
            await self.fill(store, 2, key)
            await self.learn(store, key, 1, f"of {key.scope} in {key.conversation}")
        await memory.profile("ana").add("rule", "by hand")
        await memory.profile("bob").add("rule", "by bob")
        if what == "message":
            await memory.delete_message("ana", "trip", "m1")
        elif what == "conversation":
            await memory.delete_conversation("ana", "trip")
        else:
            await memory.delete_scope("ana")
        left = [] if what == "scope" else ["by hand", "of ana in other"]
        assert await self.texts_of(store) == left
        assert await self.texts_of(store, "bob") == ["by bob", "of bob in trip"]

    async def test_a_fork_has_no_profile_of_its_own(self, store: Store) -> None:
        await self.fill(store, 3)
        await self.learn(store, MAIN, 1, "vegetarian")
        await store.fork(MAIN, 3, "fork")
        assert [one.conversation for one in await store.profile_facts("", "ana")] == ["trip"]
        facts = await store.facts(MAIN._replace(conversation="fork"))
        assert [(fact.text, fact.in_profile) for fact in facts] == [("vegetarian", False)]
        await store.delete("ana", "", "trip")
        assert await self.texts_of(store) == []

    async def test_the_same_batch_twice_and_the_same_words_elsewhere_are_one_entry(
        self, store: Store
    ) -> None:
        for key in (MAIN, OTHER):
            await self.fill(store, 2, key)
            change = replace(make_change(1, "vegetarian", source="rules"), in_profile=True)
            for _ in range(2):
                await store.write_facts(key, [change], generation=0)
        assert await self.texts_of(store) == ["vegetarian"]
        await store.delete("ana", "", "trip")
        assert await self.texts_of(store) == ["vegetarian"], "it was said in the other one, too"

    async def test_nothing_is_learned_of_a_message_that_was_deleted_meanwhile(self, store: Store) -> None:
        await self.fill(store, 2)
        change = replace(make_change(1, "vegetarian", source="rules"), in_profile=True)
        generation = (await store.head(MAIN)).generation
        await store.delete("ana", "", "trip", ["m1"])
        assert await store.write_facts(MAIN, [change], generation=generation) == []
        assert await self.texts_of(store) == []

    async def test_what_was_learned_of_one_message_goes_with_it_alone(self, store: Store) -> None:
        await self.fill(store, 4)
        for position in (1, 2):
            change = make_change(position, f"said at {position}", source="rules")
            await store.write_facts(MAIN, [replace(change, in_profile=True)])
        newer = make_change(3, "said anew", "F1", source="rules")
        await store.write_facts(MAIN, [replace(newer, in_profile=True)])
        await store.delete("ana", "", "trip", ["m4"])
        assert await self.texts_of(store) == ["said at 2", "said anew"]
        await store.delete("ana", "", "trip", ["m3"])
        assert await self.texts_of(store) == ["said at 1", "said at 2"], "what it replaced holds again"
        await store.delete("ana", "", "trip", ["m1"])
        assert await self.texts_of(store) == ["said at 2"]

    async def test_what_is_written_by_hand_goes_before_what_is_learned(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.fill(store, 2)
        await self.learn(store, MAIN, 1, "my name is Ana")
        memory = Memory(store=store, clock=clock)
        profile = memory.profile("ana")
        clock.advance(10 * 365 * 24 * 3600)
        [learned] = await profile
        assert (learned.conversation, learned.position, learned.source) == ("trip", 1, "model")
        written = await profile.replace(learned.id, "my name is Anna")
        assert await profile == [written]
        assert (written.source, written.kind, written.since) == ("user", learned.kind, clock())
        assert await profile.add("value", "my name is Anna") == written
        await profile.remove(written.id)
        assert await profile == [], "nor does what it replaced come back"
        with pytest.raises(UnknownProfileEntry, match="lists its entries"):
            await profile.remove(written.id)
        await profile.add("rule", "window seats")
        assert await profile.clear() == 1
        assert await profile == []
        assert [fact.text for fact in await memory.facts("ana", "trip")] == ["my name is Ana"]
