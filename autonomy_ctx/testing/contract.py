"""`StoreContract`: what the database of a store must do.

The log and search are tested in detail, because they meet concurrency, errors and the types of columns. Of
all else there is one test for each kind of script: what scripts decide is the same on every database.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from autonomy_ctx.errors import ConflictingMessage, TurnLost
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Head, Key, Record, RecordDraft, TurnToken
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.fact import FactChange
from autonomy_ctx.testing.search_contract import SearchContract
from autonomy_ctx.testing.values import (
    ALIKE_KEYS,
    MAIN,
    StoppedClock,
    make_drafts,
    make_message,
    make_segment,
)


class StoreContract(SearchContract):
    """The contract of every database of a store. Subclass it and provide a `store` and a `clock` fixture."""

    async def test_positions_start_at_one_and_have_no_gaps(self, store: Store) -> None:
        assert await self.fill(store, 3) == [1, 2, 3]
        assert await store.append(MAIN, make_drafts(make_message("4", id="m4"))) == [4]

    async def test_what_was_appended_comes_back_equal_and_in_order(self, store: Store) -> None:
        result = {"tool_call_id": "c1", "is_error": True, "extra": {"deep": [1, {"x": None}]}}
        sent = [
            make_message("hello", id="a"),
            make_message(
                "", id="b", role="assistant", tool_calls=[{"id": "c1", "name": "find", "arguments": "{}"}]
            ),
            make_message("found", id="c", role="tool", **result),
            make_message("NUL \0, surrogate \ud800, 中文, \u202e, {braces}, %s", id="d"),
        ]
        await store.append(MAIN, make_drafts(*sent))
        window = await store.read(MAIN)
        assert [entry.message for entry in window.entries] == sent
        assert [entry.position for entry in window.entries] == [1, 2, 3, 4]

    async def test_a_dict_comes_back_as_it_was_given(self, store: Store) -> None:
        content = {"text": "hi", "type": "text"}
        given = {"id": "x", "role": "user", "content": content, "phase": "executing", "own": [1]}
        [draft] = make_drafts(given)
        await store.append(MAIN, [draft])
        [entry] = (await store.read(MAIN)).entries
        assert {key: wire.to_dict(entry.message)[key] for key in given} == given

    async def test_the_same_message_sent_twice_is_kept_once(self, store: Store) -> None:
        assert await self.say(store, "hello") == await self.say(store, "hello") == [1]
        assert await self.texts(store) == ["hello"]

    async def test_the_same_id_in_one_call_is_kept_once(self, store: Store) -> None:
        assert await self.say(store, "hello", "other", "hello") == [1, 2, 1]

    async def test_a_retry_at_a_later_time_is_still_the_same_message(self, store: Store) -> None:
        for time in (1.0, 2.0):
            sent = make_drafts({"role": "user", "content": "hi", "id": "m1", "timestamp": time})
            assert await store.append(MAIN, sent) == [1]

    async def test_other_content_under_a_known_id_is_refused_whole(self, store: Store) -> None:
        await self.fill(store, 1)
        changed = make_drafts(make_message("new", id="m2"), make_message("changed", id="m1"))
        with pytest.raises(ConflictingMessage) as refused:
            await store.append(MAIN, changed)
        assert (refused.value.message_id, refused.value.position) == ("m1", 1)
        assert await self.texts(store) == ["1"]

    async def test_a_tail_is_the_newest_messages_in_order(self, store: Store) -> None:
        await self.fill(store, 9)
        assert await self.texts(store, limit=3) == ["7", "8", "9"]
        assert await self.texts(store, limit=0) == []
        assert await self.texts(store, limit=99) == [str(n) for n in range(1, 10)]

    async def test_reads_between_positions_exclude_both(self, store: Store) -> None:
        await self.fill(store, 9)
        assert await self.texts(store, after=6) == ["7", "8", "9"]
        assert await self.texts(store, before=4) == ["1", "2", "3"]
        assert await self.texts(store, after=2, before=7, limit=2) == ["5", "6"]
        assert await self.texts(store, after=9) == []

    async def test_a_conversation_nobody_spoke_in_is_empty(self, store: Store) -> None:
        assert await store.head(MAIN) == Head()
        window = await store.read(MAIN)
        assert (window.head, list(window.entries)) == (Head(), [])

    async def test_the_head_knows_the_end_the_count_and_the_newest_user(self, store: Store) -> None:
        await store.append(
            MAIN,
            make_drafts(
                make_message("q", id="a"),
                make_message("a", id="b", role="assistant"),
                make_message("r", id="c", role="tool"),
            ),
        )
        assert await store.head(MAIN) == Head(position=3, count=3, generation=0, last_user=1)
        assert (await store.read(MAIN, limit=1)).head == await store.head(MAIN)

    async def test_names_that_join_to_the_same_text_stay_apart(self, store: Store) -> None:
        keys = [*ALIKE_KEYS, Key("", "a", "c")]
        for number, key in enumerate(keys):
            await store.append(key, make_drafts(make_message(str(number), id="same")))
        for number, key in enumerate(keys):
            assert await self.texts(store, key) == [str(number)]

    async def test_deleting_a_message_leaves_a_hole_and_a_new_generation(self, store: Store) -> None:
        await self.fill(store, 3)
        assert await store.delete("ana", "", "trip", ["m3", "unknown"]) == 1
        assert await store.head(MAIN) == Head(position=3, count=2, generation=1, last_user=2)
        assert await store.append(MAIN, make_drafts(make_message("4", id="m4"))) == [4]
        assert await self.texts(store) == ["1", "2", "4"]

    async def test_a_deleted_conversation_never_uses_a_position_again(self, store: Store) -> None:
        await self.fill(store, 3)
        assert await store.delete("ana", "", "trip") == 3
        assert await store.head(MAIN) == Head(position=3, count=0, generation=1, last_user=0)
        assert await store.append(MAIN, make_drafts(make_message("again", id="m1"))) == [4]

    async def test_deleting_a_scope_takes_all_its_agents_and_nobody_else(self, store: Store) -> None:
        mine, helper = Key("", "ana", "other"), Key("helper", "ana", "trip")
        theirs = Key("", "ana2", "trip")
        for key in (MAIN, mine, helper, theirs):
            await self.fill(store, 2, key)
        assert await store.delete("ana") == 6
        for key in (MAIN, mine, helper):
            assert (await store.read(key)).head.count == 0
        assert await self.texts(store, theirs) == ["1", "2"]

    async def test_deleting_nothing_changes_nothing(self, store: Store) -> None:
        await self.fill(store, 1)
        assert await store.delete("ana", "", "trip", ["unknown"]) == 0
        assert await store.delete("nobody") == 0
        assert (await store.head(MAIN)).generation == 0

    async def test_a_result_too_large_for_the_log_is_cut_there_and_kept_whole_beside_it(
        self, store: Store
    ) -> None:
        text = "0123456789" * (encoding.RESULT_LIMIT // 10 + 1)
        large = make_message(text, id="big", role="tool", tool_call_id="c1")
        await store.append(MAIN, make_drafts(large))
        [entry] = (await store.read(MAIN)).entries
        assert "characters are not shown here" in entry.message.text
        assert len(entry.message.text) < encoding.RESULT_LIMIT
        body = await store.full_text(MAIN, "big")
        assert body is not None
        assert encoding.decode_whole_body(body, "big")["content"] == text
        assert await store.append(MAIN, make_drafts(large)) == [1]
        await store.delete("ana", "", "trip", ["big"])
        assert await store.full_text(MAIN, "big") is None

    async def test_tasks_that_append_at_once_lose_nothing(self, store: Store) -> None:
        positions: list[int] = []

        async def speak(task: int) -> None:
            for number in range(8):
                positions.extend(await self.say(store, f"{task}.{number}"))

        async with anyio.create_task_group() as group:
            for task in range(8):
                group.start_soon(speak, task)
        assert sorted(positions) == list(range(1, 65))
        texts = await self.texts(store)
        assert sorted(texts) == sorted(f"{task}.{number}" for task in range(8) for number in range(8))
        for task in range(8):
            mine = [text for text in texts if text.startswith(f"{task}.")]
            assert mine == [f"{task}.{number}" for number in range(8)]

    async def test_a_store_stays_the_same_store(self, store: Store) -> None:
        await self.fill(store, 1)
        first = store.identity
        await self.fill(store, 2, Key("", "bob", "trip"))
        assert store.identity == first

    async def test_closing_twice_is_harmless(self, store: Store) -> None:
        await self.fill(store, 1)
        await store.close()
        await store.close()

    async def test_turns_wait_for_each_other(self, store: Store) -> None:
        first = await store.begin_turn(MAIN, [], owner="a", seconds=10)
        second = await store.begin_turn(MAIN, [], owner="b", seconds=10)
        assert (first.positions, second.positions) == ([], None)
        assert await store.renew_turn(MAIN, first.ticket, owner="a", seconds=10)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(store.wait_for_turn, MAIN, second.ticket, seconds=60))
            await anyio.lowlevel.checkpoint()
            await store.leave_turn(MAIN, first.ticket, owner="a")
        [draft] = make_drafts(make_message("hello", id="m1"))
        again = await store.begin_turn(MAIN, [draft], owner="b", seconds=10, ticket=second.ticket)
        assert again.positions == [1]
        late = TurnToken(MAIN, first.ticket, "a")
        with pytest.raises(TurnLost):
            await store.append(MAIN, make_drafts(make_message("late", id="m2")), turn=late)

    async def test_a_lease_ends_by_the_clock(self, store: Store, clock: StoppedClock) -> None:
        await self.fill(store, 1)
        lease = await self.claim_lease(store, owner="a")
        assert await store.claim(MAIN, owner="b", task="sum", seconds=10) is None
        clock.advance(11)
        taken = await self.claim_lease(store, owner="b")
        assert taken.fence > lease.fence
        assert not await store.complete_task(lease)
        assert await store.complete_task(taken)
        assert await store.claim_next(owner="c", task="sum", seconds=10) is None

    async def test_segments_facts_and_pins_change_in_one_transaction(self, store: Store) -> None:
        await self.fill(store, 4)
        now = datetime(2030, 1, 1, tzinfo=UTC)
        change = FactChange(action="add", position=1, created_at=now, text="the port is 80", source="model")
        assert await self.commit(store, make_segment(1, 2), facts=[change])
        assert await self.commit(store, make_segment(3, 4))
        assert await store.pin(MAIN, "m4", True)
        state = await store.summary(MAIN)
        assert [(one.first, one.last) for one in state.segments] == [(1, 2), (3, 4)]
        assert [fact.text for fact in state.facts] == ["the port is 80"]
        assert [pin.position for pin in state.pins] == [4]
        assert await store.undo_segment(MAIN)
        assert await self.ranges(store) == [(1, 2, False)]
        assert await store.delete("ana", "", "trip", ["m1"]) == 1
        state = await store.summary(MAIN)
        assert (state.segments, state.facts, state.covered) == ((), (), 0)

    async def test_records_get_growing_numbers_and_the_time(self, store: Store, clock: StoppedClock) -> None:
        numbers = await store.put_records(MAIN, "k", [("a", "1"), ("b", "2"), ("c", "3")], keep=2)
        assert numbers == sorted(set(numbers))
        clock.advance(5)
        [again] = await store.put_records(MAIN, "k", [("b", "4")])
        found = await store.read_records(MAIN, "k")
        assert [(one.name, one.body) for one in found] == [("c", "3"), ("b", "4")]
        assert found[-1] == Record(again, "b", clock().timestamp(), "4")
        assert await store.drop_records(MAIN, "k", ["c", "x"]) == ["c"]

    async def test_a_fork_shares_messages_and_names_are_listed_in_order(self, store: Store) -> None:
        await self.fill(store, 3)
        await store.fork(MAIN, 2, "Fork")
        fork = MAIN._replace(conversation="Fork")
        assert await self.say(store, "own", key=fork) == [3]
        assert await self.texts(store, fork) == ["1", "2", "own"]
        await store.delete("ana", "", "trip", ["m1"])
        assert await self.texts(store, fork) == ["2", "own"]
        page = await store.list_conversations("ana", agent=None, after=None, limit=9)
        assert [(one.conversation, one.messages) for one in page] == [("Fork", 2), ("trip", 2)]

    async def test_an_append_after_a_position_stores_nothing_if_the_log_ends_elsewhere(
        self, store: Store
    ) -> None:
        await self.fill(store, 1)
        record = RecordDraft("k", "a", "body")
        for after, expected in ((1, [2]), (0, []), (2, [3])):
            drafts = make_drafts(make_message("new", id=f"after {after}"))
            assert await store.append(MAIN, drafts, (), after=after) == expected
        late = make_drafts(make_message("late", id="late"))
        assert await store.append(MAIN, late, [record], after=1) == []
        assert (await store.head(MAIN)).position == 3
        assert await store.read_records(MAIN, "k") == []

    async def test_an_error_in_a_transaction_leaves_nothing(self, store: Store) -> None:
        await self.fill(store, 1)
        record = RecordDraft("k", "a", "body")
        with pytest.raises(ConflictingMessage):
            await store.append(MAIN, make_drafts(make_message("2", id="m1")), [record])
        assert await store.read_records(MAIN, "k") == []
        assert (await store.head(MAIN)).position == 1
