"""Facts and summaries by whose words recall finds the messages that they were made from, on every store."""

from __future__ import annotations

from stores.facts import make_change

from autonomy_ctx import Memory, recall
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, StoredSegment
from autonomy_ctx.messages.fact import FactChange
from autonomy_ctx.testing.values import BOB, HELPER, MAIN, StoreActions

SAID = ("It is the one by the station.", "Noted.", "And the second is at nine.", "All right.")
SUMMARY = "The user wants a hotel with a sauna."


async def recalled(memory: Memory, question: str, key: Key = MAIN) -> dict[int, set[str]]:
    """The kinds of reasons by which messages were recalled, without those that only fill the room."""
    found = await recall(
        memory.for_agent(key.agent) if key.agent else memory,
        key.scope,
        question,
        conversation=key.conversation,
        explain=True,
    )
    kinds = {one.position: {reason.kind for reason in one.reasons} for one in found.passages}
    return {at: some for at, some in kinds.items() if some != {"room"}}


class KeysContract(StoreActions):
    """Tests of keys."""

    async def summarize(self, store: Store, *changes: FactChange, key: Key = MAIN) -> None:
        """Store a summary of the first two messages."""
        segment = StoredSegment(first=1, last=2, text=SUMMARY, tokens=9, model="m")
        generation = (await store.head(key)).generation
        assert await store.commit_segment(key, segment, generation=generation, fence=None, facts=changes)

    async def test_messages_are_recalled_by_words_of_their_facts_and_summaries(self, store: Store) -> None:
        memory = Memory(store=store)
        await self.say(store, *SAID)
        assert await recalled(memory, "Which museum?") == await recalled(memory, "a sauna?") == {}
        await self.summarize(store, make_change(1, "The museum is near the station"))
        assert "summary" in (await recalled(memory, "Which museum?"))[1]
        assert [at for at, kinds in (await recalled(memory, "a sauna?")).items() if "summary" in kinds] == [
            1,
            2,
        ]
        found = await recall(memory, "ana", "museum at the station", conversation="trip", explain=True)
        best = max(found.passages, key=lambda one: one.score)
        words = {reason.kind: reason.words for reason in best.reasons}
        assert (words["words"], words["summary"]) == (("station",), ("museum",))
        assert sum(reason.score for reason in best.reasons) - best.score < 1e-9

    async def test_a_fact_or_summary_that_is_gone_is_no_key(self, store: Store) -> None:
        memory = Memory(store=store)
        await self.say(store, *SAID)
        await self.summarize(
            store, make_change(1, "The museum is there"), make_change(2, "The opera is noted")
        )
        assert await recalled(memory, "Which museum?")
        assert await store.remove_fact(MAIN, 1)
        assert await recalled(memory, "Which museum?") == {}
        assert await recalled(memory, "Which opera?")
        await store.write_facts(MAIN, [make_change(3, "The cinema is noted", target="F2")])
        assert await recalled(memory, "Which opera?") == {}
        assert await recalled(memory, "a sauna?")
        assert await store.undo_segment(MAIN)
        assert await recalled(memory, "a sauna?") == {}

    async def test_deleting_a_message_deletes_its_keys(self, store: Store) -> None:
        memory = Memory(store=store)
        await self.say(store, *SAID)
        await self.summarize(store, make_change(1, "The museum is there"))
        assert await recalled(memory, "Which museum?")
        await store.delete("ana", "", "trip", [SAID[0]])
        assert await recalled(memory, "Which museum?") == await recalled(memory, "a sauna?") == {}

    async def test_keys_stay_in_their_scope_and_with_their_agent(self, store: Store) -> None:
        memory = Memory(store=store)
        for key in (MAIN, BOB, HELPER):
            await self.say(store, *SAID, key=key)
        await self.summarize(store, make_change(1, "The museum is there"), key=BOB)
        assert await recalled(memory, "Which museum?", BOB)
        assert await recalled(memory, "Which museum?") == {}
        assert await recalled(memory, "a sauna?", HELPER) == {}
