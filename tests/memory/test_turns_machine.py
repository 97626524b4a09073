"""Many owners, one conversation, a clock that is driven by hand: the rules of turns hold in any order.

The model beside the store knows only the rules: who holds, who waits since when, and whose lease has ended.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autonomy_ctx.errors import TurnLost
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.store import TurnToken
from autonomy_ctx.testing import MAIN, StoppedClock, make_drafts, make_message

STEPS, OWNERS, SECONDS = 150, 6, 10


@dataclass
class Owner:
    """One turn after the other, in a process of its own as far as the store can tell."""

    name: str
    store: Store
    turns: int = 0
    # Of the turn it wants or has: its ticket, whether it believes to hold it, and what it has written.
    ticket: int | None = None
    holds: bool = False
    written: int = 0

    @property
    def owner(self) -> str:
        return f"{self.name}.{self.turns}"

    def next_turn(self) -> None:
        self.turns += 1
        self.ticket, self.holds, self.written = None, False, 0


@dataclass
class Rules:
    """What must be true, by ticket: when leases end, who holds, who has ever held."""

    now: float = 0.0
    until: dict[int, float] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    holder: int = 0
    holders: list[int] = field(default_factory=list)

    def is_live(self, ticket: int) -> bool:
        return self.until.get(ticket, 0) > self.now

    def may_begin(self, ticket: int | None) -> bool:
        if self.holder and self.is_live(self.holder):
            return False
        before = (other for other in self.waiting if ticket not in self.waiting or other < (ticket or 0))
        return not any(map(self.is_live, before))

    def began(self, ticket: int) -> None:
        self.waiting = {other for other in self.waiting if other > ticket}
        self.holder = ticket
        self.holders.append(ticket)

    def left(self, ticket: int) -> None:
        self.waiting.discard(ticket)
        self.holder = 0 if self.holder == ticket else self.holder


class Simulation:
    """Random steps of all owners, each checked against the rules."""

    def __init__(self, stores: list[Store], clock: StoppedClock, dice: random.Random) -> None:
        self._clock, self._dice, self.rules = clock, dice, Rules()
        self._owners = [Owner(str(number), stores[number % len(stores)]) for number in range(OWNERS)]

    async def run(self) -> None:
        for _ in range(STEPS):
            if self._dice.random() < 0.2:
                seconds = self._dice.choice([1, 3, SECONDS])
                self._clock.advance(seconds)
                self.rules.now += seconds
            owner = self._dice.choice(self._owners)
            if owner.holds:
                steps = [self._write, self._write, self._end, self._renew, self._leave]
                await self._dice.choice(steps)(owner)
            elif owner.ticket is None:
                await self._begin(owner)
            else:
                await self._dice.choice([self._begin, self._begin, self._renew, self._leave])(owner)

    async def _begin(self, owner: Owner) -> None:
        allowed = self.rules.may_begin(owner.ticket)
        drafts = make_drafts(make_message("begin", id=f"{owner.owner}:0"))
        start = await owner.store.begin_turn(
            MAIN, drafts, owner=owner.owner, seconds=SECONDS, ticket=owner.ticket
        )
        known = owner.ticket in self.rules.waiting
        assert start.ticket == owner.ticket if known else start.ticket > max(self.rules.until, default=0)
        assert (start.positions is not None) == allowed
        owner.ticket, owner.holds = start.ticket, allowed
        self.rules.until[start.ticket] = self.rules.now + SECONDS
        if allowed:
            assert start.took_over == (self.rules.holder != 0)
            self.rules.began(start.ticket)
            owner.written = 1
        else:
            self.rules.waiting.add(start.ticket)

    async def _write(self, owner: Owner, *, ends: bool = False) -> None:
        assert owner.ticket is not None
        drafts = make_drafts(make_message("more", id=f"{owner.owner}:{owner.written}"))
        hold = TurnToken(MAIN, owner.ticket, owner.owner)
        try:
            await owner.store.append(MAIN, drafts, turn=hold, ends=ends)
        except TurnLost:
            assert self.rules.holder != owner.ticket, "a holder was refused"
            owner.next_turn()
            return
        assert self.rules.holder == owner.ticket, "one that was replaced has written"
        owner.written += 1

    async def _end(self, owner: Owner) -> None:
        ticket = owner.ticket or 0
        await self._write(owner, ends=True)
        if owner.holds:
            self.rules.left(ticket)
            owner.next_turn()

    async def _renew(self, owner: Owner) -> None:
        ticket = owner.ticket or 0
        renewed = await owner.store.renew_turn(MAIN, ticket, owner=owner.owner, seconds=SECONDS)
        assert renewed == (ticket == self.rules.holder or ticket in self.rules.waiting)
        if renewed:
            self.rules.until[ticket] = self.rules.now + SECONDS

    async def _leave(self, owner: Owner) -> None:
        ticket = self._dice.choice([owner.ticket, None])
        await owner.store.leave_turn(MAIN, ticket, owner=owner.owner)
        self.rules.left(owner.ticket or 0)
        owner.next_turn()


@pytest.fixture(params=["in process", "sqlite", "sqlite twice"])
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path, clock: StoppedClock
) -> AsyncIterator[list[Store]]:
    """One store, or two on one file, as two processes have them."""

    def seconds() -> float:
        return clock().timestamp()

    path = str(tmp_path / "memory.db")
    number = 2 if request.param == "sqlite twice" else 1
    made: list[Store] = [
        InProcessStore(clock=seconds) if request.param == "in process" else SqliteStore(path, clock=seconds)
        for _ in range(number)
    ]
    yield made
    for store in made:
        await store.close()


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.mark.parametrize("seed", range(12))
async def test_turns_never_overlap_and_come_in_the_order_of_tickets(
    stores: list[Store], clock: StoppedClock, seed: int
) -> None:
    simulation = Simulation(stores, clock, random.Random(seed))
    await simulation.run()
    assert simulation.rules.holders == sorted(set(simulation.rules.holders))
    assert len(simulation.rules.holders) > 5
    entries = (await stores[0].read(MAIN)).entries
    turns = [entry.message.id.split(":")[0] for entry in entries]
    blocks = [turn for turn, before in zip(turns, [None, *turns], strict=False) if turn != before]
    assert len(blocks) == len(set(blocks)), "a turn is in pieces"
    assert len(blocks) == len(simulation.rules.holders)
