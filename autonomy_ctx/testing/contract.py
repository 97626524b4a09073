"""`StoreContract`: what every store must do. The tests of the log are here; those of turns, summaries, facts,
work, records, search, listing and forks are in the classes it inherits from.
"""

from __future__ import annotations

import anyio
import pytest

from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.store import Head, Key, Store
from autonomy_ctx.messages import wire
from autonomy_ctx.testing.facts_contract import FactsContract
from autonomy_ctx.testing.fork_contract import ForkContract
from autonomy_ctx.testing.listing_contract import ListingContract
from autonomy_ctx.testing.records_contract import RecordsContract
from autonomy_ctx.testing.search_contract import SearchContract
from autonomy_ctx.testing.summaries_contract import SummariesContract
from autonomy_ctx.testing.turns_contract import TurnsContract
from autonomy_ctx.testing.values import ALIKE_KEYS, MAIN, make_drafts, make_message
from autonomy_ctx.testing.work_contract import WorkContract


class StoreContract(
    TurnsContract,
    SummariesContract,
    FactsContract,
    WorkContract,
    RecordsContract,
    SearchContract,
    ListingContract,
    ForkContract,
):
    """The contract of every store. Subclass it and provide a `store` and a `clock` fixture."""

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
