"""Records, on every store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.memory.facts import ConversationFacts
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Head, Key, MessageRef, Record, RecordDraft
from autonomy_ctx.testing.values import BOB, HELPER, MAIN, OTHER, StoppedClock, StoreActions

# More than a store may want to read on the event loop.
_LARGE_BODY = "0123456789" * 20_000


class RecordsContract(StoreActions):
    """Tests of records."""

    async def put(self, store: Store, *names: str, key: Key = MAIN, kind: str = "k", **options: Any) -> Any:
        """Put records whose bodies are their names in capitals."""
        return await store.put_records(key, kind, [(name, name.upper()) for name in names], **options)

    async def names(self, store: Store, key: Key = MAIN, kind: str = "k", **options: Any) -> list[str]:
        """The names of the records there are, oldest first."""
        return [record.name for record in await store.read_records(key, kind, **options)]

    async def test_records_come_back_as_they_were_put(self, store: Store, clock: StoppedClock) -> None:
        bodies = ["", "NUL \0, surrogate \ud800, 中文", '"quoted" {json}', _LARGE_BODY]
        given = [(f"n{number} \u00e9", body) for number, body in enumerate(bodies)]
        numbers = await store.put_records(MAIN, "k", given)
        assert numbers == sorted(set(numbers))
        now = clock().timestamp()
        expected = [
            Record(number, name, now, body) for number, (name, body) in zip(numbers, given, strict=True)
        ]
        assert await store.read_records(MAIN, "k") == expected
        assert await store.read_records(MAIN, "k", name="n3 \u00e9") == expected[3:]

    async def test_what_was_never_put_is_not_there(self, store: Store) -> None:
        assert await store.read_records(MAIN, "k") == []
        assert await store.drop_records(MAIN, "k") == []
        assert await self.put(store) == []
        await self.put(store, "a")
        assert await store.read_records(MAIN, "k", name="b") == []
        assert await store.drop_records(MAIN, "k", ["b"]) == []

    async def test_records_are_read_after_a_number_and_the_newest_first_chosen(self, store: Store) -> None:
        numbers = await self.put(store, "a", "b", "c", "d")
        assert await self.names(store, limit=2) == ["c", "d"]
        assert await self.names(store, limit=0) == []
        assert await self.names(store, limit=9) == ["a", "b", "c", "d"]
        assert await self.names(store, after=numbers[1]) == ["c", "d"]
        assert await self.names(store, after=numbers[1], limit=1) == ["d"]
        assert await self.names(store, after=numbers[3]) == []
        assert await self.names(store, name="a", after=numbers[0]) == []
        assert await self.names(store, name="a", limit=0) == []

    async def test_a_name_put_again_is_replaced_and_goes_to_the_end(
        self, store: Store, clock: StoppedClock
    ) -> None:
        first = await self.put(store, "a", "b")
        clock.advance(5)
        [again] = await store.put_records(MAIN, "k", [("a", "new")])
        assert again > max(first)
        old, new = await store.read_records(MAIN, "k")
        assert (old.name, new) == ("b", Record(again, "a", clock().timestamp(), "new"))
        twice = await store.put_records(MAIN, "k", [("c", "1"), ("c", "2")])
        [last] = await store.read_records(MAIN, "k", name="c")
        assert (last.number, last.body) == (twice[1], "2")

    async def test_only_the_newest_stay_where_a_number_to_keep_is_given(self, store: Store) -> None:
        await self.put(store, "a", "b", "c")
        await self.put(store, "x", "y", kind="other")
        await self.put(store, "z", key=OTHER)
        await self.put(store, "d", keep=3)
        assert await self.names(store) == ["b", "c", "d"]
        await self.put(store, "b", keep=2)
        assert await self.names(store) == ["d", "b"]
        await self.put(store, "e", "f", "g", keep=1)
        assert await self.names(store) == ["g"]
        await self.put(store, "h", keep=9)
        assert await self.names(store) == ["g", "h"]
        assert await self.names(store, kind="other") == ["x", "y"]
        assert await self.names(store, OTHER) == ["z"]

    async def test_a_number_is_never_used_again(self, store: Store) -> None:
        numbers = await self.put(store, "a", "b")
        await store.drop_records(MAIN, "k")
        numbers += await self.put(store, "a")
        await store.delete("ana")
        numbers += await self.put(store, "a", "b")
        assert numbers == sorted(set(numbers))

    async def test_kinds_and_conversations_do_not_see_each_other(self, store: Store) -> None:
        places = [(key, kind) for key in (MAIN, OTHER, HELPER, BOB) for kind in ("k", "K", "k:a", "")]
        for number, (key, kind) in enumerate(places):
            await store.put_records(key, kind, [("same", str(number))])
        for number, (key, kind) in enumerate(places):
            assert [one.body for one in await store.read_records(key, kind)] == [str(number)]
        assert await store.drop_records(MAIN, "k") == ["same"]
        for key, kind in places[1:]:
            assert await self.names(store, key, kind) == ["same"]

    async def test_dropping_gives_the_names_that_were_really_there(
        self, store: Store, clock: StoppedClock
    ) -> None:
        await self.put(store, "a", "b")
        clock.advance(10)
        now = clock().timestamp()
        await self.put(store, "c", "d")
        assert await store.drop_records(MAIN, "k", ["c", "a", "unknown", "a"]) == ["a", "c"]
        assert await store.drop_records(MAIN, "k", ["a", "c"]) == []
        assert await store.drop_records(MAIN, "k", ["d"], before=now) == []
        assert await store.drop_records(MAIN, "k", before=now) == ["b"]
        assert await store.drop_records(MAIN, "k", []) == []
        assert await store.drop_records(MAIN, "k", ["d"], before=now + 1) == ["d"]
        assert await self.names(store) == []

    async def test_tasks_that_drop_at_once_share_the_records_out(self, store: Store) -> None:
        names = [f"n{number}" for number in range(20)]
        await self.put(store, *names)
        taken: list[str] = []

        async def take() -> None:
            for name in names:
                taken.extend(await store.drop_records(MAIN, "k", [name]))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(take)
        assert sorted(taken) == sorted(names)

    async def test_records_are_no_messages(self, store: Store) -> None:
        await self.put(store, "a", derived=True)
        assert await store.head(MAIN) == Head()
        assert list((await store.read(MAIN)).entries) == []
        assert await self.fill(store, 2) == [1, 2]
        await self.put(store, "b")
        assert await store.head(MAIN) == Head(position=2, count=2, last_user=2)
        assert not await store.enqueue_task(OTHER, task="sum")

    async def test_a_deleted_message_takes_the_records_made_from_messages(self, store: Store) -> None:
        for key in (MAIN, OTHER):
            await self.fill(store, 3, key)
            await self.put(store, "shown", key=key, derived=True)
            await self.put(store, "own", key=key)
            await self.put(store, "shown too", key=key, kind="other", derived=True)
        await store.delete("ana", "", "trip", ["unknown"])
        assert await self.names(store) == ["shown", "own"]
        await store.delete("ana", "", "trip", ["m2"])
        assert await self.names(store) == ["own"]
        assert await self.names(store, kind="other") == []
        assert await self.names(store, OTHER) == ["shown", "own"]
        assert await self.names(store, OTHER, "other") == ["shown too"]

    async def test_a_record_is_as_derived_as_when_it_was_put_last(self, store: Store) -> None:
        await self.fill(store, 1)
        await self.put(store, "a", derived=True)
        await self.put(store, "b")
        await self.put(store, "a")
        await self.put(store, "b", derived=True)
        await store.delete("ana", "", "trip", ["m1"])
        assert await self.names(store) == ["a"]

    async def test_a_deleted_conversation_or_scope_takes_all_its_records(self, store: Store) -> None:
        for key in (MAIN, OTHER, HELPER, BOB):
            await self.put(store, "a", "b", key=key)
        await store.delete("ana", "", "trip")
        assert await self.names(store) == []
        assert await self.names(store, OTHER) == ["a", "b"]
        await store.delete("ana")
        assert [await self.names(store, key) for key in (OTHER, HELPER)] == [[], []]
        assert await self.names(store, BOB) == ["a", "b"]

    async def test_a_deleted_message_takes_the_records_that_quote_it(self, store: Store) -> None:
        for key in (MAIN, OTHER, HELPER, BOB):
            await self.fill(store, 3, key)
        first, second = MessageRef("trip", 1), MessageRef("trip", 2)
        await self.put(store, "both", key=OTHER, refs=[first, second, second])
        await self.put(store, "one", key=OTHER, refs=[first])
        await self.put(store, "two", key=OTHER, refs=[second])
        await self.put(store, "theirs", key=OTHER, refs=[MessageRef("trip", 2, "helper")])
        await self.put(store, "two", key=BOB, refs=[second])
        await self.put(store, "none", key=OTHER)
        await store.delete("ana", "", "trip", ["unknown"])
        assert len(await self.names(store, OTHER)) == 5
        await store.delete("ana", "", "trip", ["m2"])
        assert await self.names(store, OTHER) == ["one", "theirs", "none"]
        assert await self.names(store, BOB) == ["two"]
        await store.delete("ana", "helper", "trip", ["m2"])
        assert await self.names(store, OTHER) == ["one", "none"]
        assert await store.head(OTHER) == Head(position=3, count=3, last_user=3), "nothing of it is deleted"

    async def test_a_deleted_conversation_or_agent_takes_the_records_that_quote_it(
        self, store: Store
    ) -> None:
        for key in (MAIN, OTHER, HELPER):
            await self.fill(store, 2, key)
        await self.put(store, "one", key=OTHER, refs=[MessageRef("trip", 1)])
        await self.put(store, "theirs", key=OTHER, refs=[MessageRef("trip", 1, "helper")])
        await self.put(store, "own", key=OTHER, refs=[MessageRef("other", 2)])
        await store.delete("ana", "", "trip")
        assert await self.names(store, OTHER) == ["theirs", "own"]
        await store.delete("ana", "helper")
        assert await self.names(store, OTHER) == ["own"]

    async def test_what_quotes_any_message_of_a_conversation_goes_with_each_of_them(
        self, store: Store
    ) -> None:
        await self.fill(store, 3)
        await self.put(store, "any", key=OTHER, refs=[MessageRef("trip")])
        await self.put(store, "one", key=OTHER, refs=[MessageRef("trip", 1)])
        await store.delete("ana", "", "trip", ["m3"])
        assert await self.names(store, OTHER) == ["one"]
        # Also what was never said: mail that waits is deleted with its conversation.
        await self.put(store, "mail", key=HELPER)
        await self.put(store, "shown", key=OTHER, refs=[MessageRef("trip", agent="helper")])
        await store.delete("ana", "helper", "trip")
        assert await self.names(store, OTHER) == ["one"]

    async def test_what_quotes_a_message_that_is_gone_is_not_put(self, store: Store) -> None:
        await self.fill(store, 3)
        await store.delete("ana", "", "trip", ["m2"])
        there, gone = MessageRef("trip", 1), MessageRef("trip", 2)
        for refs in ([gone], [there, gone], [MessageRef("trip", 4)], [MessageRef("nowhere")]):
            assert await self.put(store, "a", key=OTHER, refs=refs) == []
        assert await self.put(store, "a", key=BOB, refs=[there]) == [], "it is in another scope"
        assert await self.names(store, OTHER) == []
        assert len(await self.put(store, "a", key=OTHER, refs=[there])) == 1
        await store.delete("ana", "", "trip")
        assert await self.put(store, "a", key=OTHER, refs=[there]) == []

    async def test_a_record_that_is_removed_takes_what_quotes_its_conversation(self, store: Store) -> None:
        profile = Key("", "ana", "profile")
        empty = MessageRef("profile", generation=0)
        await self.fill(store, 1, OTHER)
        assert len(await self.put(store, "before", key=OTHER, refs=[empty])) == 1
        await self.put(store, "none", key=OTHER)
        await store.append(profile, (), [RecordDraft("entry", "a", "tea")])
        assert await self.names(store, OTHER) == ["before", "none"], "what is added takes nothing"
        await store.append(profile, (), [RecordDraft("entry", "a", "", ends_quotes=True)])
        assert await self.names(store, OTHER) == ["none"]
        assert [record.body for record in await store.read_records(profile, "entry")] == [""]
        # One that was read before, and is put only now.
        assert await self.put(store, "late", key=OTHER, refs=[empty]) == []
        newest = MessageRef("profile", generation=(await store.head(profile)).generation)
        assert len(await self.put(store, "now", key=OTHER, refs=[newest])) == 1

    async def test_a_fact_that_a_user_ends_takes_what_quotes_its_conversation(self, store: Store) -> None:
        await self.fill(store, 2)
        facts = ConversationFacts(store, MAIN, lambda: datetime(2030, 1, 1, tzinfo=UTC))
        kept = MessageRef("trip", 1)

        async def put() -> list[str]:
            await self.put(store, "any", key=OTHER, refs=[MessageRef("trip")])
            await self.put(store, "one", key=OTHER, refs=[kept])
            return await self.names(store, OTHER)

        first = await facts.add("rule", "Never by plane.")
        assert await put() == ["any", "one"]
        second = await facts.replace(first.id, "By train.")
        assert await self.names(store, OTHER) == ["one"]
        assert await put() == ["any", "one"]
        await facts.remove(second.id)
        assert await self.names(store, OTHER) == ["one"]

    async def test_a_record_quotes_what_it_quoted_when_it_was_put_last(self, store: Store) -> None:
        await self.fill(store, 3)
        for name in ("a", "b"):
            await self.put(store, name, key=OTHER, refs=[MessageRef("trip", 1)])
        await self.put(store, "a", key=OTHER, refs=[MessageRef("trip", 2)])
        await self.put(store, "b", key=OTHER)
        await store.delete("ana", "", "trip", ["m1"])
        assert await self.names(store, OTHER) == ["a", "b"]
        await store.delete("ana", "", "trip", ["m2"])
        assert await self.names(store, OTHER) == ["b"]

    async def test_what_was_made_from_another_generation_is_not_put(self, store: Store) -> None:
        assert len(await self.put(store, "a", generation=0)) == 1
        await self.fill(store, 2)
        await store.delete("ana", "", "trip", ["m1"])
        assert await self.put(store, "b", derived=True, generation=0) == []
        assert await self.names(store) == ["a"]
        assert len(await self.put(store, "b", derived=True, generation=1)) == 1

    async def test_bad_records_are_refused_and_none_is_put(self, store: Store) -> None:
        good: Any = ("good", "x")
        bad: list[Any] = [("bad \0", "x"), ("bad \ud800", "x"), ("bad", 1)]
        cases = [([good, one], "k", None) for one in bad]
        for records, kind, keep in (*cases, ([good], "k\0", None), ([good], "k", 0)):
            with pytest.raises((InvalidKey, TypeError, ValueError)):
                await store.put_records(MAIN, kind, records, keep=keep)
        assert await self.names(store) == []

    async def test_a_name_where_names_are_meant_and_a_negative_limit_are_refused(self, store: Store) -> None:
        await self.put(store, "a", "b")
        with pytest.raises(InvalidKey):
            await store.drop_records(MAIN, "k", "ab")
        with pytest.raises(ValueError, match="limit"):
            await store.read_records(MAIN, "k", limit=-1)
        assert await self.names(store) == ["a", "b"]
