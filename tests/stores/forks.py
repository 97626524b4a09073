"""Forks, on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from stores.facts import fact_texts, make_change, states_of

from autonomy_ctx.errors import ConflictingMessage, InvalidFork, UnknownConversation
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Head, Key, MessageRef
from autonomy_ctx.messages.fact import FactChange
from autonomy_ctx.testing.values import (
    HELPER,
    MAIN,
    OTHER,
    StoreActions,
    make_drafts,
    make_message,
    make_provisional_segment,
    make_segment,
    segment_ranges,
)

FORK = MAIN._replace(conversation="fork")
SECOND = MAIN._replace(conversation="fork of the fork")


class ForkContract(StoreActions):
    """Tests of forks."""

    async def make_fork(
        self, store: Store, at: int | None = None, source: Key = MAIN, target: Key = FORK
    ) -> None:
        """Fork the main conversation."""
        await store.fork(source, at, target.conversation)

    async def texts_by_position(self, store: Store, key: Key = FORK) -> dict[int, str]:
        """All texts by position."""
        return {entry.position: entry.message.text for entry in (await store.read(key)).entries}

    async def fork_at(self, store: Store, at: int) -> Key:
        """Fork the main conversation at a position, under a name that says so."""
        key = MAIN._replace(conversation=f"at {at}")
        await store.fork(MAIN, at, key.conversation)
        return key

    async def family(self, store: Store) -> None:
        """Six messages; a fork at 4 that says a and b; a fork of that at 5, which says x."""
        await self.fill(store, 6)
        await self.make_fork(store, 4)
        await self.say(store, "a", "b", key=FORK)
        await self.make_fork(store, 5, FORK, SECOND)
        await self.say(store, "x", key=SECOND)

    async def test_a_fork_has_the_messages_up_to_its_position_and_goes_on_there(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.make_fork(store, 4)
        assert await self.texts_by_position(store) == {1: "1", 2: "2", 3: "3", 4: "4"}
        head = await store.head(FORK)
        assert (head.position, head.count, head.last_user) == (4, 4, 4)
        assert await self.say(store, "a", key=FORK) == [5]
        assert await self.say(store, "seven", key=MAIN) == [7]
        assert await self.texts_by_position(store) == {1: "1", 2: "2", 3: "3", 4: "4", 5: "a"}
        assert await self.texts_by_position(store, MAIN) == {n: str(n) for n in range(1, 7)} | {7: "seven"}

    async def test_a_fork_at_no_position_is_one_at_the_head(self, store: Store) -> None:
        await self.fill(store, 3)
        await self.make_fork(store)
        assert await self.texts_by_position(store) == {1: "1", 2: "2", 3: "3"}
        assert await self.say(store, "a", key=FORK) == [4]
        assert len(await self.texts_by_position(store, MAIN)) == 3

    async def test_a_fork_of_a_fork_has_the_messages_of_both(self, store: Store) -> None:
        await self.family(store)
        assert await self.texts_by_position(store, SECOND) == {1: "1", 2: "2", 3: "3", 4: "4", 5: "a", 6: "x"}
        below = MAIN._replace(conversation="below the first fork")
        await self.make_fork(store, 3, SECOND, below)
        assert await self.texts_by_position(store, below) == {1: "1", 2: "2", 3: "3"}
        await self.say(store, "y", key=below)
        assert await self.texts_by_position(store, below) == {1: "1", 2: "2", 3: "3", 4: "y"}

    async def test_windows_of_a_fork_reach_over_what_it_shares(self, store: Store) -> None:
        await self.family(store)
        window = partial(self.texts, store, SECOND)
        assert await window(limit=3) == ["4", "a", "x"]
        assert await window(limit=1) == ["x"]
        assert await window(limit=0) == []
        assert await window(after=3) == ["4", "a", "x"]
        assert await window(after=6) == []
        assert await window(before=5, limit=2) == ["3", "4"]
        assert await window(after=1, before=6, limit=9) == ["2", "3", "4", "a"]
        assert (await store.read(SECOND, limit=2)).head == await store.head(SECOND)

    async def test_a_long_fork_reads_like_its_source(self, store: Store) -> None:
        await self.fill(store, 900)
        await self.make_fork(store, 700)
        await store.append(FORK, make_drafts(*(make_message(f"f{n}", id=f"f{n}") for n in range(700))))
        wanted = [str(n) for n in range(1, 701)] + [f"f{n}" for n in range(700)]
        assert await self.texts(store, FORK) == wanted
        assert await self.texts(store, FORK, limit=800) == wanted[-800:]
        assert await self.texts(store, FORK, after=10, before=690) == wanted[10:689]

    async def test_an_id_that_is_shared_is_known_in_the_fork(self, store: Store) -> None:
        await self.family(store)
        drafts = make_drafts(make_message("2", id="m2"), make_message("a", id="a"))
        assert await store.append(SECOND, drafts) == [2, 5]
        assert [(await store.append(SECOND, [draft]))[0] for draft in drafts] == [2, 5]
        changed = make_drafts(make_message("new", id="n"), make_message("changed", id="m2"))
        with pytest.raises(ConflictingMessage) as refused:
            await store.append(SECOND, changed)
        assert (refused.value.message_id, refused.value.position) == ("m2", 2)
        assert len(await self.texts_by_position(store, SECOND)) == 6
        assert await store.append(SECOND, make_drafts(make_message("other", id="m5"))) == [7]
        assert await store.append(MAIN, make_drafts(make_message("apart", id="a"))) == [7]

    async def test_what_cannot_be_forked_is_refused_and_changes_nothing(self, store: Store) -> None:
        await self.fill(store, 3)
        await self.fill(store, 2, OTHER)
        await store.put_records(Key("", "ana", "noted"), "kind", [("one", "body")])
        for unknown in (Key("", "ana", "nobody"), HELPER):
            with pytest.raises(UnknownConversation):
                await store.fork(unknown, None, "new")
        for at, name, field in (
            (4, "new", "at"),
            *((2, name, "name") for name in ("trip", "other", "noted")),
        ):
            with pytest.raises(InvalidFork) as refused:
                await store.fork(MAIN, at, name)
            assert refused.value.field == field
        await store.delete("ana", "", "other")
        with pytest.raises(InvalidFork):
            # It was in use.
            await store.fork(MAIN, 2, "other")
        with pytest.raises(UnknownConversation):
            await store.fork(OTHER, 1, "new")
        assert await store.head(Key("", "ana", "new")) == Head()
        assert await self.say(store, "1", key=Key("", "ana", "new")) == [1]

    async def test_forks_of_the_same_name_belong_to_their_agent_and_scope(self, store: Store) -> None:
        for number, key in enumerate((MAIN, HELPER), 2):
            await self.fill(store, number, key)
            await store.fork(key, 1, "fork")
            assert len(await self.texts_by_position(store, key._replace(conversation="fork"))) == 1

    async def test_a_deleted_message_goes_from_every_conversation_that_shares_it(self, store: Store) -> None:
        for number, through in enumerate((MAIN, FORK, SECOND)):
            keys = [key._replace(scope=f"ana{number}") for key in (MAIN, FORK, SECOND)]
            await self.fill(store, 6, keys[0])
            await store.fork(keys[0], 4, FORK.conversation)
            await self.say(store, "a", key=keys[1])
            await store.fork(keys[1], 5, SECOND.conversation)
            before = [await store.head(key) for key in keys]
            assert await store.delete(f"ana{number}", "", through.conversation, ["m2", "m2", "no"]) == 1
            after = [await store.head(key) for key in keys]
            assert [await self.texts_by_position(store, key) for key in keys] == [
                {1: "1", 3: "3", 4: "4", 5: "5", 6: "6"},
                {1: "1", 3: "3", 4: "4", 5: "a"},
                {1: "1", 3: "3", 4: "4", 5: "a"},
            ]
            assert [one.generation for one in after] == [one.generation + 1 for one in before]
            assert [one.count for one in after] == [5, 4, 4]

    async def test_a_message_that_is_not_shared_goes_from_one_conversation(self, store: Store) -> None:
        await self.family(store)
        heads = [await store.head(key) for key in (FORK, SECOND)]
        assert await store.delete("ana", "", "trip", ["m5", "a"]) == 1
        assert [await store.head(key) for key in (FORK, SECOND)] == heads
        assert await store.delete("ana", "", SECOND.conversation, ["m6", "b"]) == 0
        main = await store.head(MAIN)
        assert await store.delete("ana", "", FORK.conversation, ["a", "b"]) == 2
        assert await store.head(MAIN) == main
        assert await self.texts_by_position(store, FORK) == {1: "1", 2: "2", 3: "3", 4: "4"}
        assert await self.texts_by_position(store, SECOND) == {1: "1", 2: "2", 3: "3", 4: "4", 6: "x"}

    async def test_the_newest_user_of_a_fork_follows_deletions(self, store: Store) -> None:
        await self.fill(store, 3)
        await self.say(store, "answer", role="assistant")
        await self.make_fork(store)
        assert (await store.head(FORK)).last_user == 3
        await store.delete("ana", "", "trip", ["m3"])
        assert (await store.head(FORK)).last_user == 2
        assert await self.say(store, "next", key=FORK) == [5]
        assert (await store.head(FORK)).last_user == 5

    async def test_a_fork_after_deletions_counts_what_is_left(self, store: Store) -> None:
        await self.fill(store, 9)
        await store.delete("ana", "", "trip", ["m2", "m3", "m8"])
        for at, count in ((1, 1), (2, 1), (3, 1), (4, 2), (7, 5), (8, 5), (9, 6)):
            key = await self.fork_at(store, at)
            head = await store.head(key)
            assert (head.position, head.count) == (at, count)
            assert len(await self.texts_by_position(store, key)) == count
            assert len((await store.read(key, after=1)).entries) == count - 1

    async def test_deleting_a_fork_leaves_its_source(self, store: Store) -> None:
        await self.family(store)
        before = await store.head(MAIN)
        assert await store.delete("ana", "", FORK.conversation) == 2
        assert (await store.head(MAIN), await self.texts_by_position(store)) == (before, {})
        assert await self.texts_by_position(store, SECOND) == {1: "1", 2: "2", 3: "3", 4: "4", 6: "x"}
        head = await store.head(FORK)
        assert (head.position, head.count, head.last_user) == (6, 0, 0)
        await store.delete("ana", "", "trip", ["m1"])
        assert await store.head(FORK) == head, "it shares nothing any more"
        assert await self.say(store, "again", key=FORK) == [7]
        assert await self.texts_by_position(store) == {7: "again"}

    async def test_deleting_a_source_deletes_its_messages_from_the_forks(self, store: Store) -> None:
        await self.family(store)
        assert await store.delete("ana", "", "trip") == 6
        assert await self.texts_by_position(store, FORK) == {5: "a", 6: "b"}
        assert await self.texts_by_position(store, SECOND) == {5: "a", 6: "x"}
        head = await store.head(SECOND)
        assert (head.count, head.generation, head.last_user) == (2, 1, 6)
        assert await self.say(store, "m2", key=SECOND) == [7], "its id is free again"
        assert await self.say(store, "later", key=MAIN) == [7]
        assert len(await self.texts_by_position(store, FORK)) == 2

    async def test_deleting_a_scope_deletes_sources_and_forks(self, store: Store) -> None:
        await self.family(store)
        assert await store.delete("ana") == 9
        for key in (MAIN, FORK, SECOND):
            head = await store.head(key)
            assert (head.count, head.generation) == (0, 1)
        assert await store.list_conversations("ana", agent=None, after=None, limit=9) == []

    async def test_a_fork_has_the_segments_that_end_before_its_position(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 5), make_provisional_segment(6, 8))
        for at, ranges in (
            (9, [(1, 2, False), (3, 5, False), (6, 8, True)]),
            (8, [(1, 2, False), (3, 5, False), (6, 8, True)]),
            (7, [(1, 2, False), (3, 5, False)]),
            (4, [(1, 2, False)]),
            (1, []),
        ):
            key = await self.fork_at(store, at)
            state = await store.summary(key)
            assert segment_ranges(state) == ranges
            texts = [one.text for one in (await store.summary(MAIN)).segments[: len(ranges)]]
            assert [one.text for one in state.segments] == texts

    async def test_where_a_segment_reaches_further_the_fork_has_what_it_was_made_from(
        self, store: Store
    ) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 4), make_segment(1, 4, level=1))
        await self.commit_all(store, make_segment(5, 6), make_segment(1, 6, level=2))
        for at, ranges in ((6, [(1, 6)]), (5, [(1, 4)]), (3, [(1, 2)]), (1, [])):
            key = await self.fork_at(store, at)
            state = await store.summary(key)
            assert [(one.first, one.last) for one in state.segments] == ranges

    async def test_a_stand_in_whose_rest_reaches_further_is_left_out(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_provisional_segment(1, 3), make_provisional_segment(4, 8))
        await self.commit_all(store, make_segment(1, 5))
        for at, ranges in ((7, [(1, 5, False)]), (4, [(1, 3, True)]), (2, [])):
            key = await self.fork_at(store, at)
            assert await self.ranges(store, key) == ranges

    async def test_segments_of_one_say_nothing_about_the_other(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 4))
        await self.make_fork(store, 8)
        main, fork = await store.summary(MAIN), await store.summary(FORK)
        await self.commit_all(store, make_segment(5, 6), key=FORK)
        assert await store.summary(MAIN) == main
        assert await store.undo_segment(MAIN)
        assert await self.ranges(store, FORK) == [(1, 2, False), (3, 4, False), (5, 6, False)]
        for ranges in ([(1, 2, False), (3, 4, False)], [(1, 2, False)], []):
            assert await store.undo_segment(FORK)
            assert await self.ranges(store, FORK) == ranges
        assert not await store.undo_segment(FORK)
        assert await self.ranges(store) == [(1, 2, False)]
        assert await store.drop_segments("ana", "", "trip") == 1
        await self.commit_all(store, make_segment(1, 8), key=FORK)
        assert fork.head.revision < (await store.head(FORK)).revision

    async def test_an_undo_in_a_fork_never_leaves_a_gap(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 4), make_segment(5, 6))
        # The newest commit stands first.
        await self.commit_all(store, make_segment(1, 4, level=1))
        await self.make_fork(store)
        assert await self.ranges(store, FORK) == [(1, 4, False), (5, 6, False)]
        assert await store.undo_segment(FORK)
        assert await self.ranges(store, FORK) == [(1, 4, False)]

    async def test_a_lease_on_the_source_is_none_on_the_fork(self, store: Store) -> None:
        await self.fill(store, 9)
        lease = await self.claim_lease(store)
        await self.make_fork(store, 8)
        assert not await self.commit(store, make_segment(1, 2), FORK, fence=lease.fence)
        assert await self.commit(store, make_segment(1, 2), fence=lease.fence)
        assert (await store.summary(FORK)).segments == ()
        own = await self.claim_lease(store, FORK)
        assert await self.commit(store, make_segment(1, 3), FORK, fence=own.fence)
        assert await self.ranges(store) == [(1, 2, False)]

    async def test_a_summary_of_a_fork_is_void_after_a_deletion_through_the_source(
        self, store: Store
    ) -> None:
        await self.fill(store, 9)
        await self.commit_all(store, make_segment(1, 2), make_segment(3, 4))
        await self.make_fork(store, 8)
        generation = (await store.head(FORK)).generation
        await store.delete("ana", "", "trip", ["m3"])
        assert await self.ranges(store, FORK) == [(1, 2, False)]
        assert not await store.commit_segment(FORK, make_segment(3, 5), generation=generation, fence=None)
        await store.delete("ana", "", FORK.conversation, ["m1"])
        assert (await store.summary(MAIN)).segments == (await store.summary(FORK)).segments == ()

    async def test_pins_of_one_say_nothing_about_the_other(self, store: Store) -> None:
        await self.fill(store, 6)
        for message_id in ("m2", "m5"):
            await store.pin(MAIN, message_id, True)
        await self.make_fork(store, 4)

        async def pinned(key: Key) -> list[int]:
            return [entry.position for entry in (await store.summary(key)).pins]

        assert (await pinned(MAIN), await pinned(FORK)) == ([2, 5], [2])
        assert (await store.summary(FORK)).pins == (await store.summary(MAIN)).pins[:1]
        assert await store.pin(FORK, "m2", False)
        assert await store.pin(FORK, "m3", True)
        assert not await store.pin(FORK, "m5", True), "it is not in the fork"
        assert (await pinned(MAIN), await pinned(FORK)) == ([2, 5], [3])
        await store.delete("ana", "", "trip", ["m3"])
        assert (await pinned(MAIN), await pinned(FORK)) == ([2, 5], [])

    async def commit_with_facts(self, store: Store, first: int, last: int, *changes: FactChange) -> None:
        """Commit a segment of the main conversation with changes."""
        assert await self.commit(store, make_segment(first, last), facts=changes)

    async def test_a_fork_has_the_facts_that_held_at_its_position(self, store: Store) -> None:
        await self.fill(store, 9)
        hotel = make_change(2, "call the hotel", kind="open")
        await self.commit_with_facts(store, 1, 2, make_change(1, "budget 11,500"), hotel)
        await self.commit_with_facts(store, 3, 4, make_change(3, "budget 9,200", "F1"))
        done = make_change(6, target="F2", action="done")
        await self.commit_with_facts(store, 5, 6, make_change(5, "budget 9,000", "F3"), done)
        for at, facts in (
            (9, {"F4": "budget 9,000"}),
            (6, {"F4": "budget 9,000"}),
            (5, {"F2": "call the hotel", "F3": "budget 9,200"}),
            (3, {"F1": "budget 11,500", "F2": "call the hotel"}),
            (1, {}),
        ):
            key = await self.fork_at(store, at)
            assert fact_texts((await store.summary(key)).facts) == facts
            assert fact_texts(await store.facts(key)) == facts
        key = MAIN._replace(conversation="at 5")
        assert states_of((await store.summary(key)).facts) == [
            ("F1", "replaced", None),
            ("F2", "holds", None),
            ("F3", "holds", "F1"),
        ]
        assert await store.undo_segment(key)
        assert fact_texts((await store.summary(key)).facts) == {"F1": "budget 11,500", "F2": "call the hotel"}
        assert fact_texts((await store.summary(MAIN)).facts) == {"F4": "budget 9,000"}

    async def test_facts_of_merged_segments_go_with_the_one_that_covers_them(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_with_facts(store, 1, 2, make_change(1, "a"))
        await self.commit_with_facts(store, 3, 4, make_change(3, "b"))
        await self.commit_all(store, make_segment(1, 4, level=1))
        await self.make_fork(store, 8)
        assert fact_texts((await store.summary(FORK)).facts) == {"F1": "a", "F2": "b"}
        await store.delete("ana", "", FORK.conversation, ["m5"])
        assert fact_texts((await store.summary(FORK)).facts) == {"F1": "a", "F2": "b"}
        assert await store.undo_segment(FORK)
        assert fact_texts((await store.summary(FORK)).facts) == {}
        assert fact_texts((await store.summary(MAIN)).facts) == {"F1": "a", "F2": "b"}

    async def test_what_a_user_wrote_is_in_the_fork_if_it_was_written_before(self, store: Store) -> None:
        await self.fill(store, 4)
        [mine] = await store.write_facts(MAIN, [make_change(2, "mine", source="user")])
        await store.write_facts(MAIN, [make_change(4, "later", mine.id, source="user")])
        await self.make_fork(store, 3)
        assert fact_texts(await store.facts(FORK)) == {"F1": "mine"}
        [new] = await store.write_facts(FORK, [make_change(3, "new", source="user")])
        assert new.id == "F3", "a number of the source is not used again"
        assert await store.remove_fact(FORK, 1)
        assert fact_texts(await store.facts(MAIN)) == {"F2": "later"}

    async def test_records_and_work_are_not_shared(self, store: Store) -> None:
        await self.fill(store, 4)
        await store.put_records(MAIN, "note", [("one", "body")])
        await store.enqueue_task(MAIN, task="sum")
        await self.make_fork(store)
        assert await store.read_records(FORK, "note") == []
        lease = await store.claim_next(owner="a", task="sum", seconds=10)
        assert getattr(lease, "key", None) == MAIN
        assert not isinstance(await store.claim_next(owner="a", task="sum", seconds=10), type(lease))
        await store.put_records(FORK, "note", [("two", "body")], derived=True)
        await store.delete("ana", "", "trip", ["m1"])
        assert await store.read_records(FORK, "note") == [], "it was made from the message"
        assert len(await store.read_records(MAIN, "note")) == 1
        await store.put_records(FORK, "note", [("three", "body")], derived=True)
        await store.delete("ana", "", "trip")
        assert await store.read_records(FORK, "note") == [], "it was made from messages that are gone"

    async def test_what_quotes_a_shared_message_goes_however_it_was_named(self, store: Store) -> None:
        names = ("source", "fork", "own", "any")
        refs = (MessageRef("trip", 2), MessageRef("fork", 2), MessageRef("fork", 5), MessageRef("fork"))

        async def quote() -> None:
            for name, ref in zip(names, refs, strict=True):
                assert await store.put_records(OTHER, "note", [(name, "body")], refs=[ref])

        async def left() -> list[str]:
            return [record.name for record in await store.read_records(OTHER, "note")]

        await self.fill(store, 4)
        await self.make_fork(store)
        await self.say(store, "five", key=FORK)
        await quote()
        await store.delete("ana", "", "trip", ["m1"])
        assert await left() == ["source", "fork", "own"]
        await store.delete("ana", "", "fork", ["m2"])
        assert await left() == ["own"]
        refs = (MessageRef("trip", 3), MessageRef("fork", 3), MessageRef("fork", 5), MessageRef("fork"))
        await quote()
        await store.delete("ana", "", "trip")
        assert await left() == ["own"]

    async def test_a_shared_result_is_kept_whole_beside_the_fork_too(self, store: Store) -> None:
        text = "x" * (encoding.RESULT_LIMIT + 10)
        await store.append(MAIN, make_drafts(make_message(text, id="big", role="tool", tool_call_id="c")))
        await self.make_fork(store)
        body = await store.full_text(FORK, "big")
        assert body is not None
        assert body == await store.full_text(MAIN, "big")
        await store.delete("ana", "", FORK.conversation, ["big"])
        assert await store.full_text(MAIN, "big") is None

    async def test_a_search_finds_what_is_shared_once_in_the_scope_and_in_each_conversation(
        self, store: Store
    ) -> None:
        await self.say(store, "red museum", "blue museum", "green museum")
        await self.make_fork(store, 2)
        await self.say(store, "yellow museum", key=FORK)
        await self.make_fork(store, None, FORK, SECOND)

        async def found(conversation: str | None = None, query: str = "museum") -> list[tuple[str, int, str]]:
            hits = await store.search("", "ana", query, conversation=conversation)
            return sorted((hit.conversation, hit.position, hit.message.text) for hit in hits)

        assert await found(SECOND.conversation) == [
            (SECOND.conversation, 1, "red museum"),
            (SECOND.conversation, 2, "blue museum"),
            (SECOND.conversation, 3, "yellow museum"),
        ]
        assert await found("trip", "green") == [("trip", 3, "green museum")]
        assert await found("trip", "yellow") == await found("fork", "green") == []
        assert await found() == [
            ("fork", 3, "yellow museum"),
            ("trip", 1, "red museum"),
            ("trip", 2, "blue museum"),
            ("trip", 3, "green museum"),
        ]
        [best] = await store.search("", "ana", "museum", conversation="fork", limit=1)
        assert best.conversation == "fork"
        await store.delete("ana", "", SECOND.conversation, ["red museum"])
        assert [position for _, position, _ in await found("fork")] == [2, 3]
        assert len(await found()) == 3

    async def test_messages_at_positions_of_a_fork_are_read(self, store: Store) -> None:
        await self.family(store)
        places = [(SECOND.conversation, at) for at in (2, 5, 6, 7)] + [("trip", 5)]
        read = await store.read_indexed("", "ana", places)
        assert sorted((one.conversation, one.position, one.message.text) for one in read) == [
            (SECOND.conversation, 2, "2"),
            (SECOND.conversation, 5, "a"),
            (SECOND.conversation, 6, "x"),
            ("trip", 5, "5"),
        ]

    async def test_a_fork_is_listed_with_its_count_and_times(self, store: Store) -> None:
        start = datetime(2030, 1, 1, tzinfo=UTC)
        forms = [
            {"role": "user", "content": "x", "id": f"m{n}", "timestamp": (start + timedelta(n)).isoformat()}
            for n in range(1, 5)
        ]
        await store.append(MAIN, make_drafts(*forms))
        assert len(await store.list_conversations("ana", agent=None, after=None, limit=9)) == 1
        await self.make_fork(store, 3)

        async def listed() -> tuple[int, int, int]:
            [info] = await store.list_conversations("ana", agent="", after=None, limit=1)
            assert info.key == FORK
            return info.messages, (info.first_at - start).days, (info.last_at - start).days

        assert await listed() == (3, 1, 3)
        await store.delete("ana", "", "trip", ["m1", "m3"])
        assert await listed() == (1, 2, 2)
        late = {**forms[0], "id": "late", "timestamp": (start + timedelta(9)).isoformat()}
        await store.append(FORK, make_drafts(late))
        assert await listed() == (2, 2, 9)
        await store.delete("ana", "", FORK.conversation)
        [info] = await store.list_conversations("ana", agent="", after=None, limit=9)
        assert info.key == MAIN

    async def test_how_far_a_conversation_is_shared_is_known(self, store: Store) -> None:
        assert await store.shared_until(MAIN) == 0
        await self.family(store)
        assert [await store.shared_until(key) for key in (MAIN, FORK, SECOND, OTHER)] == [4, 5, 5, 0]
        await store.delete("ana", "", SECOND.conversation)
        assert [await store.shared_until(key) for key in (MAIN, FORK, SECOND)] == [4, 4, 0]
        await store.delete("ana", "", FORK.conversation)
        assert [await store.shared_until(key) for key in (MAIN, FORK)] == [0, 0]
