"""A process that serves requests collects garbage between them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

import anyio
import anyio.lowlevel
import pytest

from autonomy_ctx import background
from autonomy_ctx.background import Urgent
from autonomy_ctx.cli import endpoint
from autonomy_ctx.cli.endpoint import collecting_when_idle
from autonomy_ctx.server.common.app import ActiveRequests


@pytest.fixture(autouse=True)
def no_other_collection() -> Iterator[None]:
    """Python itself collects nothing meanwhile."""
    gc.disable()
    yield
    gc.enable()


class Node:
    def __init__(self) -> None:
        self.itself = self


def drop_cycles() -> list[ref[Node]]:
    """Leave as much garbage behind as is worth a collection."""
    return [ref(Node()) for _ in range(endpoint._GC_FEWEST_NEW)]


def answer(requests: ActiveRequests) -> None:
    with requests.request():
        pass


async def let_others_run() -> None:
    for _ in range(200):
        await anyio.lowlevel.checkpoint()


async def test_garbage_is_collected_after_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_GC_IDLE_SECONDS", 0)
    requests = ActiveRequests()
    async with collecting_when_idle(requests):
        await let_others_run()
        for _ in range(3):
            dropped = drop_cycles()
            await let_others_run()
            assert all(one() for one in dropped)
            answer(requests)
            await let_others_run()
            assert not any(one() for one in dropped)


async def test_garbage_is_not_collected_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_GC_IDLE_SECONDS", 0)
    monkeypatch.setattr(background, "URGENT_SECONDS", 1000)
    requests = ActiveRequests()
    async with collecting_when_idle(requests):
        await let_others_run()
        dropped, urgent = drop_cycles(), Urgent()
        try:
            answer(requests)
            await let_others_run()
            assert all(one() for one in dropped)
        finally:
            urgent.end()
        answer(requests)
        await let_others_run()
        assert not any(one() for one in dropped)


async def test_what_became_garbage_later_is_collected_too_but_not_beside_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "_GC_IDLE_SECONDS", 0)
    monkeypatch.setattr(endpoint, "_GC_THRESHOLDS", (100_000, 3, 1))
    requests, seen = ActiveRequests(), list[ref[Node]]()

    async def answer_some() -> None:
        for _ in range(20):
            drop_cycles()
            answer(requests)
            await let_others_run()

    async with collecting_when_idle(requests):
        await let_others_run()
        node = Node()
        seen.append(ref(node))
        await answer_some()
        assert gc.is_tracked(node)
        del node
        with requests.request():
            await answer_some()
            assert seen[0]()
        await answer_some()
        assert not seen[0]()


@pytest.mark.parametrize("by_others", [False, True])
async def test_the_collector_is_as_it_was_before_when_serving_ends(by_others: bool) -> None:
    (gc.freeze if by_others else gc.unfreeze)()
    usual, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        async with collecting_when_idle(ActiveRequests()):
            assert gc.get_threshold() == endpoint._GC_THRESHOLDS
            assert gc.get_freeze_count() > frozen
        assert gc.get_threshold() == usual
        assert bool(gc.get_freeze_count()) == by_others
    finally:
        gc.freeze()
