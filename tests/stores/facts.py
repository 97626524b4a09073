"""Standing facts, on every store."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from autonomy_ctx.memory.facts import MAX_FACTS_OF_KIND, newest_facts
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.fact import FACT_KINDS, Fact, FactAction, FactChange, FactKind, FactSource
from autonomy_ctx.testing.values import (
    BOB,
    HELPER,
    MAIN,
    OTHER,
    StoreActions,
    make_provisional_segment,
    make_segment,
)

_AT = datetime(2030, 1, 1, 12, tzinfo=UTC)


def make_change(
    position: int,
    text: str = "",
    target: str | None = None,
    action: FactAction | None = None,
    kind: FactKind = "value",
    source: FactSource = "model",
) -> FactChange:
    """A change that a message at a position makes; with a target it replaces that."""
    return FactChange(
        action=action or ("replace" if target else "add"),
        position=position,
        created_at=_AT + timedelta(minutes=position),
        kind=kind,
        text=text,
        target=target,
        source=source,
    )


def fact_texts(facts: Iterable[Fact]) -> dict[str, str]:
    """The texts of the facts that hold, by id."""
    return {fact.id: fact.text for fact in facts if fact.state == "holds"}


def states_of(facts: Iterable[Fact]) -> list[tuple[str, str, str | None]]:
    """The id of each fact, its state, and the id of the fact that it replaced."""
    return [(fact.id, fact.state, fact.replaces) for fact in facts]


class FactsContract(StoreActions):
    """Tests of facts."""

    async def commit_facts(
        self, store: Store, first: int, last: int, *changes: FactChange, key: Key = MAIN
    ) -> None:
        """Commit a segment with changes."""
        assert await self.commit(store, make_segment(first, last), key, facts=changes)

    async def holding(self, store: Store, key: Key = MAIN) -> dict[str, str]:
        return fact_texts((await store.summary(key)).facts)

    async def test_a_fact_comes_back_as_it_was_written(self, store: Store) -> None:
        await self.fill(store, 4)
        await self.commit_facts(
            store, 1, 3, make_change(2, 'NUL \0, surrogate \ud800, 中文, "x"', kind="rule")
        )
        [fact] = (await store.summary(MAIN)).facts
        assert fact == Fact(
            id="F1",
            kind="rule",
            text='NUL \0, surrogate \ud800, 中文, "x"',
            position=2,
            created_at=_AT + timedelta(minutes=2),
            source="model",
        )
        assert await store.facts(MAIN) == [fact]
        for other in (OTHER, HELPER, BOB):
            assert (await store.summary(other)).facts == ()
            assert await store.facts(other) == []

    async def test_what_was_replaced_or_done_no_longer_holds(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.commit_facts(
            store, 1, 2, make_change(1, "budget 11,500"), make_change(2, "call the hotel", kind="open")
        )
        await self.commit_facts(
            store, 3, 4, make_change(3, "budget 9,200", "F1"), make_change(4, target="F2", action="done")
        )
        assert await self.holding(store) == {"F3": "budget 9,200"}
        assert states_of((await store.summary(MAIN)).facts) == [
            ("F1", "replaced", None),
            ("F3", "holds", "F1"),
        ]
        states = [(one.id, one.state) for one in await store.facts(MAIN)]
        assert states == [("F1", "replaced"), ("F2", "done"), ("F3", "holds")]

    async def test_a_summary_names_what_ended_and_what_is_in_its_place(self, store: Store) -> None:
        await self.fill(store, 9)
        await self.commit_facts(
            store, 1, 2, make_change(1, "budget 11,500"), make_change(2, "call the hotel", kind="open")
        )
        assert (await store.summary(MAIN)).ended == ()
        await self.commit_facts(
            store, 3, 4, make_change(3, "budget 9,200", "F1"), make_change(4, target="F2", action="done")
        )
        await self.commit_facts(store, 5, 6, make_change(6, "budget 8,000", "F3"))
        ended = {(one.text, one.now, one.position) for one in (await store.summary(MAIN)).ended}
        assert ended == {
            ("budget 11,500", "budget 8,000", 3),
            ("budget 9,200", "budget 8,000", 6),
            ("call the hotel", "", 4),
        }
        assert await store.undo_segment(MAIN)
        left = {(one.text, one.now) for one in (await store.summary(MAIN)).ended}
        assert left == {("budget 11,500", "budget 9,200"), ("call the hotel", "")}

    async def test_changes_of_one_commit_may_refer_to_each_other(self, store: Store) -> None:
        await self.fill(store, 3)
        changes = [make_change(1, "port 80"), make_change(2, "port 81", "+0"), make_change(2, "Port 81.")]
        await self.commit_facts(store, 1, 2, *changes)
        assert await self.holding(store) == {"F2": "port 81"}, "and nothing is said twice"

    async def test_a_target_that_does_not_hold_is_no_target(self, store: Store) -> None:
        await self.fill(store, 3)
        done = make_change(2, target="F9", action="done")
        await self.commit_facts(store, 1, 2, make_change(1, "port 80", "F7"), done)
        [fact] = (await store.summary(MAIN)).facts
        assert (fact.id, fact.replaces, fact.state) == ("F1", None, "holds")

    async def test_undo_brings_back_what_was_replaced_or_done(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.commit_facts(
            store, 1, 2, make_change(1, "budget 11,500"), make_change(2, "call the hotel", kind="open")
        )
        before = (await store.summary(MAIN)).facts
        await self.commit_facts(
            store, 3, 4, make_change(3, "budget 9,200", "F1"), make_change(4, target="F2", action="done")
        )
        assert await store.undo_segment(MAIN)
        assert (await store.summary(MAIN)).facts == before
        await self.commit_facts(store, 3, 4, make_change(3, "budget 9,000", "F1"))
        assert await self.holding(store) == {"F2": "call the hotel", "F5": "budget 9,000"}, "a new number"

    async def test_a_merge_and_its_undo_leave_facts_alone(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.commit_facts(store, 1, 2, make_change(1, "a"))
        await self.commit_facts(store, 3, 4, make_change(3, "b", "F1"))
        held = await self.holding(store)
        assert await store.commit_segment(MAIN, make_segment(1, 4, level=1), generation=0, fence=None)
        assert await self.holding(store) == held
        assert await store.undo_segment(MAIN)
        assert await self.holding(store) == held == {"F2": "b"}

    async def test_deleting_a_message_drops_the_facts_of_its_segment_and_later_ones(
        self, store: Store
    ) -> None:
        await self.fill(store, 6)
        await self.commit_facts(store, 1, 2, make_change(1, "a"))
        await self.commit_facts(store, 3, 4, make_change(3, "b", "F1"))
        assert await store.commit_segment(MAIN, make_segment(1, 4, level=1), generation=0, fence=None)
        revision = (await store.head(MAIN)).revision
        assert await store.delete("ana", "", "trip", ["m3"]) == 1
        assert await self.holding(store) == {"F1": "a"}
        assert (await store.head(MAIN)).revision > revision

    async def test_facts_go_with_their_segment_though_their_message_stays(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.commit_facts(store, 1, 4, make_change(1, "a"))
        assert await store.delete("ana", "", "trip", ["m4"]) == 1
        assert await self.holding(store) == {}
        assert await store.facts(MAIN) == []

    async def test_a_real_segment_takes_the_place_of_a_stand_ins_facts(self, store: Store) -> None:
        await self.fill(store, 6)
        rules = [make_change(1, "by rules", source="rules"), make_change(4, "later", source="rules")]
        await self.commit_digest(store, 1, 4, *rules)
        await self.commit_facts(store, 1, 3, make_change(1, "by a model"))
        assert await self.holding(store) == {"F2": "later", "F3": "by a model"}

    async def commit_digest(self, store: Store, first: int, last: int, *changes: FactChange) -> None:
        """Commit a provisional segment with facts found by rules."""
        assert await self.commit(store, make_provisional_segment(first, last), facts=changes)

    async def test_a_fact_that_a_real_segment_states_again_keeps_its_id(self, store: Store) -> None:
        await self.fill(store, 6)
        budget, seat = make_change(1, "Budget 90", source="rules"), make_change(2, "window", source="rules")
        gone, late = make_change(3, "gone", source="rules"), make_change(5, "late", source="rules")
        await self.commit_digest(store, 1, 4, budget, seat, gone)
        await self.commit_digest(store, 5, 5, late)
        before = await self.holding(store)
        assert before == {"F1": "Budget 90", "F2": "window", "F3": "gone", "F4": "late"}
        new, rule = make_change(3, "new"), make_change(4, "window", kind="rule")
        await self.commit_facts(store, 1, 4, new, rule, make_change(2, "budget 90."))
        facts = await store.facts(MAIN)
        assert [(one.id, one.kind, one.text, one.position, one.source) for one in facts] == [
            ("F1", "value", "budget 90.", 2, "model"),
            ("F4", "value", "late", 5, "rules"),
            ("F5", "value", "new", 3, "model"),
            ("F6", "rule", "window", 4, "model"),
        ], "in the order of their ids, as it was stated last; another kind is another fact"
        assert list((await store.summary(MAIN)).facts) == facts
        await store.write_facts(MAIN, [make_change(6, "mine", source="user")])
        assert list(await self.holding(store)) == ["F1", "F4", "F5", "F6", "F7"], "no id is given twice"

    async def test_a_fact_that_is_stated_again_is_as_it_was_stated_last(self, store: Store) -> None:
        """Also for who has read it before: its id, its message and its time are the same."""
        await self.fill(store, 4)
        await self.commit_digest(store, 1, 2, make_change(1, "Budget 90", source="rules"))
        [before] = (await store.summary(MAIN)).facts
        await self.commit_facts(store, 1, 2, make_change(1, "budget 90"))
        [after] = (await store.summary(MAIN)).facts
        assert (before.id, before.text, before.source) == ("F1", "Budget 90", "rules")
        assert (after.id, after.text, after.source) == ("F1", "budget 90", "model")
        assert (after.position, after.created_at) == (before.position, before.created_at)

    async def test_facts_that_are_stated_again_keep_what_they_replaced(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.commit_facts(store, 1, 1, make_change(1, "port 80"))
        chain = make_change(2, "port 81", "F1"), make_change(3, "port 80", "+0")
        await self.commit_digest(store, 2, 3, *chain)
        before = states_of(await store.facts(MAIN))
        assert before == [("F1", "replaced", None), ("F2", "replaced", "F1"), ("F3", "holds", "F2")]
        # As it is said by who does not know of the first.
        await self.commit_facts(store, 2, 3, make_change(2, "port 81"), make_change(3, "port 80", "+0"))
        assert states_of(await store.facts(MAIN)) == before

    async def test_what_ended_a_fact_still_ends_it_when_it_is_stated_again(self, store: Store) -> None:
        """A later message has replaced it, or a user: it must not hold again beside that."""
        await self.fill(store, 8)
        names = ("replaced", "taken", "done", "removed")
        stated = [make_change(at, name, source="rules") for at, name in enumerate(names, 1)]
        await self.commit_digest(store, 1, 4, *stated)
        later = make_change(5, "by a later message", "F1"), make_change(5, "to be removed", "F4")
        await self.commit_digest(store, 5, 5, *later)
        await store.write_facts(
            MAIN,
            [
                make_change(6, "by a user", "F2", source="user"),
                make_change(6, target="F3", action="done", source="user"),
            ],
        )
        assert await store.remove_fact(MAIN, 6)
        before = states_of(await store.facts(MAIN))
        assert [state for _, state, _ in before[:4]] == ["replaced", "replaced", "done", "replaced"]
        again = [make_change(at, name) for at, name in enumerate(names, 1)]
        # Said twice, it is still the same fact.
        await self.commit_facts(store, 1, 4, *again, *again)
        assert states_of(await store.facts(MAIN)) == before
        assert list(await self.holding(store)) == ["F5", "F7"]

    async def test_facts_do_not_end_each_other_in_a_circle(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.commit_digest(store, 1, 2, make_change(1, "port 80", source="rules"))
        await self.commit_digest(store, 3, 4, make_change(3, "port 81", "F1", source="rules"))
        await self.commit_facts(store, 1, 2, make_change(2, "port 80", "F2"))
        assert await self.holding(store) == {"F3": "port 80"}

    async def test_what_a_user_wrote_stays_until_it_is_removed(self, store: Store) -> None:
        await self.fill(store, 6)
        await self.commit_facts(store, 1, 2, make_change(1, "a"))
        [mine] = await store.write_facts(MAIN, [make_change(6, "mine", "F1", source="user")])
        assert (mine.id, mine.replaces, mine.source) == ("F2", "F1", "user")
        await self.commit_facts(store, 3, 4, make_change(4, "c"))
        await store.undo_segment(MAIN)
        await store.delete("ana", "", "trip", ["m1"])
        assert await self.holding(store) == {"F2": "mine"}
        assert await store.remove_fact(MAIN, 2)
        assert not await store.remove_fact(MAIN, 2)
        assert await self.holding(store) == {}

    async def test_what_a_removed_fact_had_replaced_does_not_come_back(self, store: Store) -> None:
        await self.fill(store, 4)
        await self.commit_facts(store, 1, 2, make_change(1, "a"), make_change(2, "b", "+0"))
        assert not await store.remove_fact(MAIN, 1), "it does not hold"
        assert await store.remove_fact(MAIN, 2)
        assert await self.holding(store) == {}
        assert [(one.id, one.state) for one in await store.facts(MAIN)] == [("F1", "replaced")]

    async def test_every_change_of_facts_is_a_new_revision(self, store: Store) -> None:
        revisions = [(await store.head(MAIN)).revision]
        await store.write_facts(MAIN, [make_change(0, "before any message", source="user")])
        revisions.append((await store.head(MAIN)).revision)
        await store.remove_fact(MAIN, 1)
        revisions.append((await store.head(MAIN)).revision)
        assert revisions == sorted(set(revisions))

    async def test_facts_that_go_with_their_conversation_are_a_new_revision(self, store: Store) -> None:
        await store.write_facts(MAIN, [make_change(0, "before any message", source="user")])
        before = await store.head(MAIN)
        await store.delete("ana", "", "trip")
        after = await store.head(MAIN)
        assert await store.facts(MAIN) == []
        assert (after.revision, after.generation) == (before.revision + 1, before.generation + 1)

    async def test_a_late_segment_writes_no_facts(self, store: Store) -> None:
        await self.fill(store, 4)
        segment = make_segment(1, 2)
        late = [make_change(1, "late")]
        assert not await store.commit_segment(MAIN, segment, generation=1, fence=None, facts=late)
        assert await store.facts(MAIN) == []

    async def test_facts_go_with_their_conversation_and_scope(self, store: Store) -> None:
        for key in (MAIN, OTHER, BOB):
            await self.fill(store, 2, key)
            await self.commit_facts(store, 1, 2, make_change(1, "a"), key=key)
            await store.write_facts(key, [make_change(2, "mine", source="user")])
        await store.drop_segments("ana", "", "trip")
        assert await self.holding(store) == {"F2": "mine"}
        await store.delete("ana", "", "trip")
        assert await store.facts(MAIN) == []
        assert len(await store.facts(OTHER)) == len(await store.facts(BOB)) == 2
        await store.delete("ana")
        assert await store.facts(OTHER) == []
        assert len(await store.facts(BOB)) == 2

    async def test_a_summary_is_read_with_the_newest_facts_of_each_kind(self, store: Store) -> None:
        kept = [
            make_change(1, "never book flights", kind="rule"),
            make_change(1, "a window seat", source="user"),
            replace(make_change(1, "their name is Ana"), in_profile=True),
        ]
        values = [make_change(1, f"the port of host {at} is 80") for at in range(1_000)]
        await self.fill(store, 2)
        await self.commit_facts(store, 1, 1, *kept, *values)
        read = await self.holding(store)
        assert list(read)[:3] == ["F1", "F2", "F3"], "no number of values pushes these out"
        assert len(read) == 3 + MAX_FACTS_OF_KIND
        assert read["F1003"] == "the port of host 999 is 80"
        await store.fork(MAIN, 2, "Fork")
        fork = MAIN._replace(conversation="Fork")
        assert len(await store.facts(fork)) == len(await store.facts(MAIN)) == 1_003
        # There the name is in the profile of another conversation, which has it.
        assert await self.holding(store, fork) == {name: text for name, text in read.items() if name != "F3"}

    async def test_a_fact_that_a_summary_is_not_read_with_can_be_ended(self, store: Store) -> None:
        number = MAX_FACTS_OF_KIND + 4
        await store.write_facts(
            MAIN, [make_change(1, f"the port of host {at} is 80") for at in range(number)]
        )
        changes = make_change(2, "the port of host 0 is 81", "F1"), make_change(2, target="F2", action="done")
        again = make_change(2, "the port of host 2 is 80")
        await store.write_facts(MAIN, [*changes, again])
        newest = f"F{MAX_FACTS_OF_KIND + 5}"
        facts = (await store.summary(MAIN)).facts
        assert [(one.id, one.state) for one in facts[:2]] == [("F1", "replaced"), ("F7", "holds")]
        assert (facts[-2].id, facts[-2].text) == (newest, "the port of host 0 is 81")
        assert facts[-1].text == "the port of host 2 is 80", "said again after so many others, it is new"
        assert [one.state for one in (await store.facts(MAIN))[:3]] == ["replaced", "done", "holds"]
        # Where newer ones go, those are read again that hold, and no others.
        for number in range(5, MAX_FACTS_OF_KIND + 5):
            assert await store.remove_fact(MAIN, number)
        assert list(await self.holding(store)) == ["F3", "F4", newest, f"F{MAX_FACTS_OF_KIND + 7}"]

    async def test_what_is_read_are_the_newest_of_all_that_hold(self, store: Store) -> None:
        chance = random.Random(7)
        for step in range(8):
            known = [fact.id for fact in await store.facts(MAIN)]
            changes = []
            for at in range(200):
                kind = chance.choice([*FACT_KINDS[:2], "value", "value", "value"])
                source: FactSource = chance.choice(["user", "model", "model"])
                target = chance.choice(known) if known and chance.random() < 0.1 else None
                made = make_change(1, f"{step} {at}", target, kind=kind, source=source)
                changes.append(replace(made, in_profile=chance.random() < 0.1))
            await store.write_facts(MAIN, changes)
        wanted = {fact.id: fact.text for fact in newest_facts(await store.facts(MAIN))}
        assert await self.holding(store) == wanted
        assert MAX_FACTS_OF_KIND < len(wanted) < len(fact_texts(await store.facts(MAIN)))
