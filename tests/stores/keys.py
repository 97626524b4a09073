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
    """The kinds of reasons by which messages were recalled, without those that only fill the room.

    From the conversation and from all of its scope, which has no other conversation here: both are the same.
    """
    view = memory.for_agent(key.agent) if key.agent else memory
    found: dict[int, set[str]] = {}
    for conversation in (None, key.conversation):
        before = found
        result = await recall(view, key.scope, question, conversation=conversation, explain=True)
        assert {one.conversation for one in result.passages} <= {key.conversation}
        kinds = {one.position: {reason.kind for reason in one.reasons} for one in result.passages}
        found = {at: some for at, some in kinds.items() if some != {"room"}}
    assert found.keys() == before.keys()
    return found


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

    async def test_a_recall_from_a_scope_finds_messages_of_all_its_conversations_by_their_keys(
        self, store: Store
    ) -> None:
        memory = Memory(store=store)
        rome = MAIN._replace(conversation="rome")
        for key, text in ((MAIN, "The museum is there"), (rome, "The opera is there")):
            await self.say(store, *SAID, key=key)
            await self.summarize(store, make_change(1, text), key=key)
        await store.fork(rome, 2, "fork")

        async def places(question: str) -> set[tuple[str, int]]:
            found = await recall(memory, "ana", question, explain=True)
            kinds = {
                (one.conversation, one.position): [reason.kind for reason in one.reasons]
                for one in found.passages
            }
            return {place for place, some in kinds.items() if "summary" in some}

        assert await places("Which museum?") == {("trip", 1)}
        # The fork has the same message, which is shown once.
        assert {at for _, at in await places("Which opera?")} == {1}
        assert len(await places("Which opera?")) == 1
        await store.delete("ana", "", "trip")
        assert await places("Which museum?") == set()
        assert len(await places("Which opera?")) == 1
        await memory.delete_scope("ana")
        assert await places("Which opera?") == set()

    async def test_a_recall_from_a_scope_leaves_out_what_the_reader_has(self, store: Store) -> None:
        memory = Memory(store=store)
        await self.say(store, *SAID)
        await self.summarize(store, make_change(1, "The museum is there"))
        found = await recall(memory, "ana", "Which museum?", exclude={"trip": {1}})
        assert 1 not in [one.position for one in found.passages]

    async def test_new_keys_of_a_scope_are_known_at_the_next_recall(self, store: Store) -> None:
        memory = Memory(store=store)
        await self.say(store, *SAID)
        await self.summarize(store, make_change(1, "The museum is there"))
        assert await recalled(memory, "Which museum?")
        await store.write_facts(MAIN, [make_change(3, "The theatre is later")])
        assert await recalled(memory, "Which theatre?")
        assert await recalled(memory, "Which museum?")
