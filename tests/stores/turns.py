"""Turns of one conversation, one at a time, on every store."""

from __future__ import annotations

import anyio
import pytest

from autonomy_ctx.errors import ConflictingMessage, TurnLost
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, RecordDraft, TurnStart, TurnToken
from autonomy_ctx.testing.values import MAIN, OTHER, StoppedClock, StoreActions, make_drafts, make_message


class TurnsContract(StoreActions):
    """Tests of turns."""

    async def begin(
        self,
        store: Store,
        owner: str,
        *texts: str,
        ticket: int | None = None,
        after: int | None = None,
        key: Key = MAIN,
    ) -> TurnStart:
        """Begin a turn for ten seconds, with messages whose ids are their texts.

        Of the result, only what tells whether it has begun.
        """
        drafts = make_drafts(*(make_message(text, id=text) for text in texts))
        start = await store.begin_turn(key, drafts, owner=owner, seconds=10, ticket=ticket, after=after)
        return TurnStart(*start[:3])

    async def append_in_turn(
        self, store: Store, start: TurnStart, owner: str, *texts: str, ends: bool = False
    ) -> list[int] | None:
        """The positions of what a turn writes; None when the turn was lost."""
        drafts = make_drafts(*(make_message(text, id=text) for text in texts))
        try:
            return await store.append(MAIN, drafts, turn=TurnToken(MAIN, start.ticket, owner), ends=ends)
        except TurnLost:
            return None

    async def end_with_record(
        self, store: Store, hold: TurnToken | None, message_id: str, *, record: RecordDraft, text: str = "hi"
    ) -> list[int] | Exception:
        """End a turn with a message and a record; the positions, or why they were refused."""
        drafts = make_drafts(make_message(text, id=message_id))
        try:
            return await store.append(MAIN, drafts, [record], turn=hold, ends=hold is not None)
        except (ConflictingMessage, TurnLost, TypeError) as error:
            return error

    async def records(self, store: Store) -> list[tuple[str, str]]:
        """The names and bodies of the records."""
        return [(record.name, record.body) for record in await store.read_records(MAIN, "k")]

    async def test_the_start_of_a_turn_tells_what_was_there_before(self, store: Store) -> None:
        await store.append(MAIN, make_drafts(make_message("1", id="m1"), make_message("2", id="m2")))
        await store.delete(MAIN.scope, MAIN.agent, MAIN.conversation, ["m1"])
        await store.put_records(MAIN, "k", [("a", "one"), ("b", "two")])
        drafts = make_drafts(make_message("3", id="m3"))
        start = await store.begin_turn(MAIN, drafts, owner="a", seconds=10, records="k")
        assert (start.positions, start.position, start.generation) == ([3], 2, 1)
        assert list(start.records) == await store.read_records(MAIN, "k")
        await store.leave_turn(MAIN, start.ticket, owner="a")
        again = await store.begin_turn(MAIN, [], owner="b", seconds=10, after=3)
        assert (again.positions, again.position, list(again.records)) == ([], 3, [])

    async def test_a_turn_stores_nothing_while_records_of_a_kind_wait(self, store: Store) -> None:
        async def begin(owner: str, text: str, after: int | None = None) -> TurnStart:
            drafts = make_drafts(make_message(text, id=text))
            return await store.begin_turn(
                MAIN, drafts, owner=owner, seconds=10, after=after, unless="mail", records="mail"
            )

        await store.put_records(MAIN, "mail", [("m", "hello")])
        for after in (None, 0):
            start = await begin("a", "question", after)
            assert start.positions == []
            assert [record.body for record in start.records] == ["hello"]
        assert (await begin("b", "other")).positions is None, "the turn has begun"
        await store.leave_turn(MAIN, start.ticket, owner="a")
        await store.leave_turn(MAIN, None, owner="b")
        await store.drop_records(MAIN, "mail")
        assert (await begin("c", "question")).positions == [1]

    async def test_a_turn_begins_with_its_message_and_ends_with_its_answer(self, store: Store) -> None:
        first = await self.begin(store, "a", "question")
        assert first == TurnStart(1, [1])
        assert await self.append_in_turn(store, first, "a", "step") == [2]
        assert (await self.begin(store, "b")).positions is None, "it has not ended"
        assert await self.append_in_turn(store, first, "a", "answer", ends=True) == [3]
        assert await self.append_in_turn(store, first, "a", "late") is None
        assert await self.texts(store) == ["question", "step", "answer"]

    async def test_a_turn_may_begin_and_end_without_a_message(self, store: Store) -> None:
        assert await self.begin(store, "a") == TurnStart(1, [])
        assert (await self.begin(store, "b")).positions is None
        await store.leave_turn(MAIN, 1, owner="a")
        assert (await self.begin(store, "b", ticket=2)).positions == []
        assert (await store.head(MAIN)).position == 0

    async def test_who_waits_stores_nothing_and_comes_in_the_order_of_tickets(self, store: Store) -> None:
        turn = await self.begin(store, "a", "a")
        waiting = [await self.begin(store, owner, owner) for owner in "bcd"]
        assert waiting == [TurnStart(2, None), TurnStart(3, None), TurnStart(4, None)]
        assert await self.texts(store) == ["a"]
        await self.append_in_turn(store, turn, "a", "answer", ends=True)
        assert await self.begin(store, "d", "d", ticket=4) == TurnStart(4, None), "others came before"
        assert (await self.begin(store, "e", "e")).positions is None, "nor does anybody else push in"
        for owner, ticket, position in (("b", 2, 3), ("c", 3, 4), ("d", 4, 5), ("e", 5, 6)):
            assert await self.begin(store, owner, owner, ticket=ticket) == TurnStart(ticket, [position])
            await store.leave_turn(MAIN, ticket, owner=owner)
        assert (await self.begin(store, "f")).ticket == 6

    async def test_conversations_do_not_wait_for_each_other(self, store: Store) -> None:
        assert (await self.begin(store, "a", "one")).positions == [1]
        assert (await self.begin(store, "b", "one", key=OTHER)).positions == [1]

    async def test_who_leaves_the_line_is_not_waited_for(self, store: Store) -> None:
        turn = await self.begin(store, "a")
        waiting = [await self.begin(store, owner) for owner in "bc"]
        await store.leave_turn(MAIN, waiting[0].ticket, owner="b")
        await store.leave_turn(MAIN, turn.ticket, owner="b")
        assert (await self.begin(store, "c", ticket=3)).positions is None, "only the owner gives it back"
        await store.leave_turn(MAIN, turn.ticket, owner="a")
        assert (await self.begin(store, "c", ticket=3)).positions == []
        assert (await self.begin(store, "b", ticket=2)) == TurnStart(4, None), "a place at the end"

    async def test_an_owner_can_leave_without_its_ticket(self, store: Store) -> None:
        await self.begin(store, "a")
        await self.begin(store, "b")
        await store.leave_turn(MAIN, None, owner="nobody")
        await store.leave_turn(OTHER, None, owner="a")
        assert (await self.begin(store, "c")).ticket == 3
        for owner in "ab":
            await store.leave_turn(MAIN, None, owner=owner)
        assert (await self.begin(store, "c", ticket=3)).positions == []

    async def test_a_turn_whose_lease_has_ended_is_replaced_and_writes_no_more(
        self, store: Store, clock: StoppedClock
    ) -> None:
        first = await self.begin(store, "a", "a")
        clock.advance(9)
        assert (await self.begin(store, "b", "b")).positions is None
        clock.advance(1)
        second = await self.begin(store, "b", "b", ticket=2)
        assert second == TurnStart(2, [2], took_over=True)
        assert await self.append_in_turn(store, first, "a", "late") is None
        assert await self.append_in_turn(store, first, "a", "late", ends=True) is None
        assert not await store.renew_turn(MAIN, first.ticket, owner="a", seconds=10)
        await store.leave_turn(MAIN, first.ticket, owner="a")
        assert await self.append_in_turn(store, second, "b", "answer", ends=True) == [3]
        assert await self.texts(store) == ["a", "b", "answer"]

    async def test_a_turn_goes_on_after_its_lease_until_another_begins(
        self, store: Store, clock: StoppedClock
    ) -> None:
        turn = await self.begin(store, "a", "a")
        clock.advance(60)
        assert await self.append_in_turn(store, turn, "a", "step") == [2]
        assert await store.renew_turn(MAIN, turn.ticket, owner="a", seconds=10)
        assert (await self.begin(store, "b")).positions is None

    async def test_renewed_leases_last_and_others_are_skipped(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.begin(store, "a")
        for owner in "bcd":
            await self.begin(store, owner)
        for _ in range(4):
            clock.advance(4)
            for owner, ticket in (("a", 1), ("c", 3), ("d", 4)):
                assert await store.renew_turn(MAIN, ticket, owner=owner, seconds=10)
        assert not await store.renew_turn(MAIN, 3, owner="d", seconds=10)
        await store.leave_turn(MAIN, 1, owner="a")
        assert (await self.begin(store, "c", "c", ticket=3)).positions == [1], "b is gone"
        assert not await store.renew_turn(MAIN, 2, owner="b", seconds=10)
        assert await self.begin(store, "b", ticket=2) == TurnStart(5, None)
        await store.leave_turn(MAIN, 3, owner="c")
        assert (await self.begin(store, "b", ticket=5)).positions is None, "d came before"

    async def test_a_line_of_which_all_are_gone_is_no_line(self, store: Store, clock: StoppedClock) -> None:
        for owner in "abc":
            await self.begin(store, owner)
        clock.advance(10)
        assert await self.begin(store, "d", "d") == TurnStart(4, [1], took_over=True)
        await store.leave_turn(MAIN, 4, owner="d")
        assert await self.begin(store, "e") == TurnStart(5, [])

    async def test_a_clock_that_was_set_back_keeps_no_turn(self, store: Store, clock: StoppedClock) -> None:
        await self.begin(store, "a")
        clock.advance(-86_400)
        assert await self.begin(store, "b") == TurnStart(2, [], took_over=True)

    async def test_a_turn_that_begins_twice_has_begun_once(self, store: Store) -> None:
        turn = await self.begin(store, "a", "a")
        await self.begin(store, "b")
        assert await self.begin(store, "a", "a", ticket=turn.ticket) == turn
        assert (await self.begin(store, "b", ticket=2)).positions is None

    async def test_what_a_lost_turn_has_stored_can_be_sent_again(self, store: Store) -> None:
        """After any doubt the same is sent again, also when the answer that ended the turn was stored."""
        turn = await self.begin(store, "a", "question")
        assert await self.append_in_turn(store, turn, "a", "answer", ends=True) == [2]
        await self.begin(store, "b", "next")
        assert await self.append_in_turn(store, turn, "a", "question", "answer", ends=True) == [1, 2]
        assert await self.append_in_turn(store, turn, "a", "answer", "more") is None
        assert await self.texts(store) == ["question", "answer", "next"]

    async def test_a_message_that_is_refused_takes_no_turn(self, store: Store) -> None:
        await self.fill(store, 1)
        other = make_drafts(make_message("changed", id="m1"))
        with pytest.raises(ConflictingMessage):
            await store.begin_turn(MAIN, other, owner="a", seconds=10)
        assert (await self.begin(store, "b", "b")).positions == [2]

    async def test_nothing_is_appended_to_another_log_than_the_one_that_was_read(self, store: Store) -> None:
        await self.fill(store, 2)
        assert await self.begin(store, "a", "a", after=1) == TurnStart(1, []), (
            "the turn is taken all the same"
        )
        assert (await self.begin(store, "b")).positions is None
        await store.leave_turn(MAIN, 1, owner="a")
        assert await self.begin(store, "b", "b", ticket=2, after=2) == TurnStart(2, [3])

    async def test_deleting_a_conversation_leaves_its_turns_in_order(self, store: Store) -> None:
        turn = await self.begin(store, "a", "a")
        await self.begin(store, "b")
        await store.delete("ana")
        assert (await self.begin(store, "b", ticket=2)).positions is None
        assert await self.append_in_turn(store, turn, "a", "answer", ends=True) == [2]
        assert (await self.begin(store, "b", ticket=2)).positions == []

    async def test_what_is_appended_outside_of_turns_waits_for_none(self, store: Store) -> None:
        turn = await self.begin(store, "a", "a")
        assert await self.say(store, "note") == [2]
        assert await self.append_in_turn(store, turn, "a", "answer") == [3]

    async def test_turns_that_begin_at_once_have_one_holder_and_a_line(self, store: Store) -> None:
        starts: dict[int, TurnStart] = {}

        async def start(number: int) -> None:
            starts[number] = await self.begin(store, str(number), str(number))

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(start, number)
        assert sorted(one.ticket for one in starts.values()) == list(range(1, 9))
        assert [one.ticket for one in starts.values() if one.positions is not None] == [1]

    async def test_who_waits_is_woken_when_its_turn_comes(self, store: Store) -> None:
        turn = await self.begin(store, "a", "a")
        order: list[str] = []

        async def wait(owner: str, ticket: int) -> None:
            while (await self.begin(store, owner, owner, ticket=ticket)).positions is None:
                await store.wait_for_turn(MAIN, ticket, seconds=60)
            order.append(owner)
            await self.append_in_turn(store, TurnStart(ticket, []), owner, f"{owner}!", ends=True)

        for owner in "bcd":
            await self.begin(store, owner)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for ticket, owner in enumerate("bcd", start=2):
                    group.start_soon(wait, owner, ticket)
                await self.append_in_turn(store, turn, "a", "a!", ends=True)
        assert order == ["b", "c", "d"]
        assert await self.texts(store) == ["a", "a!", "b", "b!", "c", "c!", "d", "d!"]

    async def test_a_wait_ends_when_the_place_is_gone_or_the_time_is_over(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.begin(store, "a")
        await self.begin(store, "b")
        with anyio.fail_after(30):
            await store.wait_for_turn(MAIN, 2, seconds=0.01)
            await store.wait_for_turn(MAIN, 99, seconds=60)
            clock.advance(10)
            await store.wait_for_turn(MAIN, 2, seconds=60)
        assert (await self.begin(store, "b", ticket=2)).took_over

    async def test_the_last_messages_of_a_turn_and_their_record_are_stored_together(
        self, store: Store
    ) -> None:
        for number, owner in enumerate("abc", start=1):
            start = await self.begin(store, owner, f"{owner}?")
            hold = TurnToken(MAIN, start.ticket, owner)
            record = RecordDraft("k", owner, f"{owner} \0", keep=2, generation=0)
            assert await self.end_with_record(store, hold, f"{owner}!", record=record) == [2 * number]
        assert await self.records(store) == [("b", "b \0"), ("c", "c \0")]
        again = RecordDraft("k", "c", "sent again", keep=2)
        assert await self.end_with_record(store, hold, "c!", record=again) == [6]
        assert await self.end_with_record(store, None, "d!", record=RecordDraft("k", "d", "d")) == [7]
        assert await self.records(store) == [("b", "b \0"), ("c", "sent again"), ("d", "d")]
        assert (await self.begin(store, "e")).positions == [], "each of them has ended"

    async def test_a_record_goes_only_with_messages_that_are_stored(self, store: Store) -> None:
        start = await self.begin(store, "a", "a?")
        hold, lost = TurnToken(MAIN, start.ticket, "a"), TurnToken(MAIN, start.ticket + 1, "b")
        record, body = RecordDraft("k", "a", "a"), 1
        refused = await self.end_with_record(store, lost, "late", record=record)
        assert isinstance(refused, TurnLost)
        refused = await self.end_with_record(store, hold, "a?", record=record, text="changed")
        assert isinstance(refused, ConflictingMessage)
        bad = record._replace(body=body)  # type: ignore[arg-type]  # what a caller may do by mistake
        assert isinstance(await self.end_with_record(store, hold, "a!", record=bad), TypeError)
        assert (await self.records(store), await self.texts(store)) == ([], ["a?"])
        assert (await self.begin(store, "b")).positions is None, "it has not ended"

    async def test_a_record_of_another_generation_is_left_out_and_its_messages_are_kept(
        self, store: Store
    ) -> None:
        start = await self.begin(store, "a", "a?", "b?")
        await store.delete("ana", "", "trip", ["b?"])
        hold, record = TurnToken(MAIN, start.ticket, "a"), RecordDraft("k", "a", "a", generation=0)
        assert await self.end_with_record(store, hold, "a!", record=record) == [3]
        assert (await self.records(store), await self.texts(store)) == ([], ["a?", "hi"])

    async def test_a_record_replaces_only_the_record_that_it_expects(self, store: Store) -> None:
        start = await self.begin(store, "a", "a?")
        hold = TurnToken(MAIN, start.ticket, "a")
        steps: list[tuple[str, str, TurnToken | None]] = [
            ("one", "", hold),
            ("late", "", hold),
            ("two", "one", hold),
            ("late", "one", None),
            ("three", "two", None),
        ]
        for number, (body, expected, turn) in enumerate(steps, start=2):
            parts = ((f"n/{number}", body),)
            record = RecordDraft("k", "n", body, keep=1, derived=True, expected=expected, parts=parts)
            drafts = make_drafts(make_message("hi", id=str(number)))
            other = RecordDraft("other", "n", body)
            stored = await store.append(MAIN, drafts, [record, other], turn=turn)
            assert stored == [number], "the messages are stored in any case"
        assert await self.records(store) == [("n", "three")]
        found = await store.read_records(MAIN, "k_part")
        assert [(part.name, part.body) for part in found] == [
            ("n/2", "one"),
            ("n/4", "two"),
            ("n/6", "three"),
        ]
        assert [one.body for one in await store.read_records(MAIN, "other")] == ["three"]
        await store.delete("ana", "", "trip", ["2"])
        assert not await self.records(store)
        assert not await store.read_records(MAIN, "k_part")

    async def test_a_record_may_be_stored_without_messages(self, store: Store) -> None:
        await self.begin(store, "a", "a?")
        for body, expected in (("one", ""), ("two", "one"), ("late", "one")):
            record = RecordDraft("k", "n", body, expected=expected)
            assert await store.append(MAIN, (), [record]) == []
        assert await self.records(store) == [("n", "two")]
