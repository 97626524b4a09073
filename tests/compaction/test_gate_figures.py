"""The cases of the benchmark of the gate, tuned on and held out."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gate import HALVES, judge_half


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES.keys())
@pytest.mark.parametrize("schema", [None, "coding"])
async def test_no_bad_reply_replaces_history_and_good_ones_pass(half: Any, schema: str | None) -> None:
    tally = await judge_half(half.SOURCES, half.BAD, schema)
    assert tally.kept == []
    assert len(tally.refused) <= 0.02 * tally.good
    assert len(tally.repaired) <= 0.05 * tally.good


def test_there_are_enough_cases() -> None:
    bad = [one for half in HALVES.values() for one in half.BAD]
    assert len(bad) >= 60
    assert len({one.kind for one in bad}) >= 20
    assert sum(len(half.SOURCES) for half in HALVES.values()) >= 12
