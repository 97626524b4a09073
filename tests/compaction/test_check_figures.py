"""The cases of the benchmark of the gate that it was tuned on; the held-out ones are only measured."""

from __future__ import annotations

from typing import Any

import pytest

from autonomy_ctx import Message
from autonomy_ctx.compaction.calls import CircuitBreaker
from autonomy_ctx.compaction.config import ContextSummaryConfig, resolve_settings
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.writer import SegmentWriter, UnfitSummary
from autonomy_ctx.testing import ModelCall, ScriptedModel
from autonomy_ctx.tokens import TokenCounter
from benchmarks.gate import HALVES, POOR, judge_half, judge_plain
from benchmarks.gate_cases import tuned
from benchmarks.honest import HonestModel
from benchmarks.talk import said

# 11,000 tokens with 500 identifiers: a short record has room for a few of them.
LONG_STRETCH = [Message(("user", "assistant")[at % 2], said(at, 60)) for at in range(165)]


def writer_of(model: Any, size: int) -> SegmentWriter:
    settings = resolve_settings(ContextSummaryConfig(model=model, size=size))
    return SegmentWriter(settings, SummaryMetrics(), CircuitBreaker())


@pytest.mark.parametrize("schema", [None, "coding"])
async def test_no_bad_reply_replaces_history_and_good_ones_pass(schema: str | None) -> None:
    tally = await judge_half(tuned.SOURCES, tuned.BAD, schema)
    assert tally.kept == []
    assert len(tally.unmarked) <= 0.1 * tally.poor
    assert len(tally.refused) <= 0.02 * tally.good
    assert len(tally.repaired) <= 0.05 * tally.good


async def test_no_plain_but_true_reply_is_refused_and_no_broken_one_kept() -> None:
    tally = await judge_plain()
    assert (tally.refused, tally.kept) == ([], [])
    assert tally.good >= 50
    assert tally.reasons.keys() == {
        *("empty", "longer than its source", "echo", "prompt repeated", "tool protocol", "refusal in words"),
        *("refused by the model", "error page", "loop", "other script", "rule turned into its opposite"),
    }


def test_there_are_enough_cases() -> None:
    bad = [one for half in HALVES.values() for one in half.BAD]
    assert len(bad) >= 60
    assert len({one.kind for one in bad}) >= 20
    assert sum(len(half.SOURCES) for half in HALVES.values()) >= 12


@pytest.mark.parametrize("size", [256, 512, 1024, 4096])
async def test_an_honest_record_of_a_long_stretch_is_taken_whatever_the_size(size: int) -> None:
    draft = await writer_of(HonestModel(), size).write_batch(LONG_STRETCH, [], TokenCounter())
    assert draft.segment.text.startswith("Facts and identifiers: ")
    assert draft.segment.tokens <= size // 4


async def test_no_bad_reply_to_a_long_stretch_is_taken_for_a_short_record() -> None:
    kept = []
    for bad in tuned.BAD:
        # An echo of another conversation is about another subject.
        is_poor = bad.kind in {*POOR, "echo"}

        def answer(call: ModelCall, bad: Any = bad) -> Any:
            text = bad.reply_to(tuned.SOURCES[0], str(call.messages[0]["content"]))
            return {
                "choices": [
                    {"message": {"role": "assistant", "content": text}, "finish_reason": bad.stop},
                ]
            }

        try:
            writer = writer_of(ScriptedModel([answer]), 512)
            draft = await writer.write_batch(LONG_STRETCH, [], TokenCounter())
            kept += [] if is_poor and draft.is_doubtful else [(bad.kind, draft)]
        except UnfitSummary:
            pass
    assert kept == []
