"""What the writer of segments does with a reply: asks a little short, repairs once, refuses the broken."""

from __future__ import annotations

import re
from dataclasses import replace
from threading import get_ident
from typing import Any

import pytest
from summary_models import NOON, ScriptedModel

from autonomy_ctx import Message
from autonomy_ctx.compaction.calls import CircuitBreaker
from autonomy_ctx.compaction.config import ContextSummaryConfig, resolve_settings
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.reply_text import ALSO_NAMED
from autonomy_ctx.compaction.schema import SchemaSection, SummarySchema
from autonomy_ctx.compaction.writer import SegmentWriter, UnfitSummary
from autonomy_ctx.memory.store import StoredSegment
from autonomy_ctx.messages.fact import Fact
from autonomy_ctx.tokens import EstimatedTextCounter, TokenCounter

COUNTER = TokenCounter()
TALK = [
    Message("user", "Deploy commit 9f8e7d6c to prod-eu-3, never to prod-us-1, and write to ana@example.org."),
    Message("assistant", "The rollout 55210 failed because the image was missing; I will build it again."),
] * 8


def writer_of(model: Any, **options: Any) -> tuple[SegmentWriter, SummaryMetrics]:
    metrics = SummaryMetrics()
    settings = resolve_settings(ContextSummaryConfig(model=model, **options))
    return SegmentWriter(settings, metrics, CircuitBreaker()), metrics


async def test_key_identifiers_that_a_record_lacks_are_named_in_its_last_line() -> None:
    model = ScriptedModel("9f8e7d6c goes to prod-eu-3, never to prod-us-1. The image was missing.")
    writer, metrics = writer_of(model)
    draft = await writer.write_batch(TALK, [], COUNTER)
    assert draft.segment.text.endswith(f"\n{ALSO_NAMED}ana@example.org, 55210")
    assert draft.segment.coverage == 1.0
    assert metrics.dump()["summaries_repaired"] == 0


async def test_a_reply_is_judged_in_a_thread() -> None:
    record = "9f8e7d6c goes to prod-eu-3, never to prod-us-1. Rollout 55210 failed, ana@example.org waits."
    threads: set[int] = set()

    class Watched(EstimatedTextCounter):
        def count(self, text: str) -> int:
            if text == record:
                threads.add(get_ident())
            return super().count(text)

    facts = [
        Fact(id=f"F{at}", kind="value", text=f"room {at} costs {at} euros", position=1, created_at=NOON)
        for at in range(1, 200)
    ]
    for standing in ([], facts):
        writer, _ = writer_of(ScriptedModel(record))
        draft = await writer.write_batch(TALK[:2], [], TokenCounter(Watched()), standing=standing)
        assert draft.segment.text == record
    assert threads
    assert get_ident() not in threads


async def test_a_record_is_asked_for_a_little_shorter_than_it_may_be() -> None:
    model = ScriptedModel("9f8e7d6c goes to prod-eu-3, never to prod-us-1.")
    writer, _ = writer_of(model, size=256)
    await writer.write_batch(TALK * 10, [], COUNTER)
    assert re.search(r"At most 51 tokens", model.calls[0].prompt), "0.8 of a quarter of the size"


async def test_a_few_tokens_too_many_cost_no_second_call() -> None:
    words = ["9f8e7d6c goes to prod-eu-3, never to prod-us-1; rollout 55210 failed:"]
    while COUNTER.count_text(" ".join(words)) <= 64:
        words.append(f"item {len(words)}")
    model = ScriptedModel(" ".join(words))
    writer, metrics = writer_of(model, size=256)
    draft = await writer.write_batch(TALK * 10, [], COUNTER)
    assert 64 < draft.segment.tokens <= 68
    assert (len(model.calls), metrics.dump()["summaries_repaired"]) == (1, 0)


GOOD = "9f8e7d6c goes to prod-eu-3, never to prod-us-1. Rollout 55210 failed, ana@example.org waits."
PLAIN = "The image was missing and is built again."


async def test_one_repair_may_save_a_reply_and_a_second_broken_one_may_not() -> None:
    loop = "The user asked for help. " * 12
    writer, metrics = writer_of(ScriptedModel([loop, GOOD]))
    assert (await writer.write_batch(TALK, [], COUNTER)).segment.text == GOOD
    assert (metrics.dump()["summaries_repaired"], metrics.dump()["summaries_doubtful"]) == (1, 0)
    writer, _ = writer_of(ScriptedModel([loop, "I'm sorry, but I can't help with that."]))
    with pytest.raises(UnfitSummary, match="loop") as refused:
        await writer.write_batch(TALK, [], COUNTER)
    assert refused.value.text == "I'm sorry, but I can't help with that."


async def test_a_plain_reply_is_asked_for_once_more_and_then_kept_as_doubtful() -> None:
    model = ScriptedModel(PLAIN)
    writer, metrics = writer_of(model)
    draft = await writer.write_batch(TALK, [], COUNTER)
    names = "9f8e7d6c, prod-eu-3, prod-us-1, ana@example.org, 55210"
    assert draft.segment.text == f"{PLAIN}\n{ALSO_NAMED}{names}"
    assert draft.is_doubtful
    assert len(model.calls) == 2
    assert metrics.dump()["summaries_doubtful"] == 1
    writer, metrics = writer_of(ScriptedModel([PLAIN, GOOD]))
    assert not (await writer.write_batch(TALK, [], COUNTER)).is_doubtful
    assert metrics.dump()["summaries_doubtful"] == 0


async def test_a_poor_reply_is_kept_where_its_repair_is_broken() -> None:
    writer, _ = writer_of(ScriptedModel([PLAIN, ""]))
    assert (await writer.write_batch(TALK, [], COUNTER)).segment.text.startswith(PLAIN)


async def test_a_reply_that_is_too_long_twice_is_cut_at_a_sentence_and_marked() -> None:
    long = " ".join(f"Step {number} of the rollout to prod-eu-3 was done." for number in range(40))
    writer, _ = writer_of(ScriptedModel(long), size=512)
    draft = await writer.write_batch(TALK * 4, [], COUNTER)
    assert re.search(r"was done\. \[shortened\](\nAlso named: |$)", draft.segment.text)
    assert draft.is_doubtful
    assert draft.segment.tokens <= 128


@pytest.mark.parametrize(
    ("reply", "record", "facts"),
    [
        (f"Facts:\n- {GOOD}", f"- {GOOD}", None),
        (f"{GOOD}\nFACTS\nAna waits since Monday.", f"{GOOD}\nAna waits since Monday.", None),
        (f"{GOOD}\nFACTS\n- rule: never deploy to prod-us-1", GOOD, ["never deploy to prod-us-1"]),
        (f"{GOOD}\nFACTS\nnone", GOOD, []),
        (f"Okay. <think>so\nFACTS\n+ rule: x\n</think>\n{GOOD}", GOOD, None),
        (f"```\n{GOOD}\nFACTS\n+ rule: never deploy to prod-us-1\n```", GOOD, ["never deploy to prod-us-1"]),
    ],
)
async def test_what_stands_below_facts_is_read_or_part_of_the_record(
    reply: str, record: str, facts: list[str] | None
) -> None:
    writer, metrics = writer_of(ScriptedModel(reply))
    draft = await writer.write_batch(TALK, [], COUNTER)
    assert draft.segment.text == record
    assert (None if draft.facts.lines is None else [line.text for line in draft.facts.lines]) == facts
    assert draft.facts.is_unread is ("<think>" not in reply and facts is None)
    assert metrics.dump()["summaries_repaired"] == 0


async def test_instructions_may_ask_for_another_language() -> None:
    chinese = "9f8e7d6c 部署到 prod-eu-3，绝不部署到 prod-us-1。镜像缺失，需要重新构建。"  # noqa: RUF001
    writer, _ = writer_of(ScriptedModel(chinese))
    with pytest.raises(UnfitSummary, match="other script"):
        await writer.write_batch(TALK, [], COUNTER)
    writer, _ = writer_of(ScriptedModel(chinese), instructions="Write in Chinese.")
    assert (await writer.write_batch(TALK, [], COUNTER)).segment.text.startswith(chinese)
    writer, _ = writer_of(ScriptedModel(chinese), schema="coding")
    with pytest.raises(UnfitSummary, match="other script"):
        await writer.write_batch(TALK, [], COUNTER)
    writer, _ = writer_of(
        ScriptedModel(chinese), schema=SummarySchema("own", [SchemaSection("记录", "all", 1.0)])
    )
    assert chinese in (await writer.write_batch(TALK, [], COUNTER)).segment.text


async def test_a_record_denies_no_fact_unless_the_reply_changes_it() -> None:
    fact = Fact(id="F1", kind="rule", text="do not restart the database", position=1, created_at=NOON)
    text = "9f8e7d6c goes to prod-eu-3, never to prod-us-1. Restart the database. 55210 failed."
    writer, _ = writer_of(ScriptedModel(text))
    with pytest.raises(UnfitSummary, match="rule turned into its opposite"):
        await writer.write_batch(TALK, [], COUNTER, None, [fact])
    value = replace(fact, kind="value")
    assert "Restart" not in (await writer.write_batch(TALK, [], COUNTER, None, [value])).segment.text
    writer, _ = writer_of(ScriptedModel(f"{text}\nFACTS\nx F1"))
    assert "Restart" in (await writer.write_batch(TALK, [], COUNTER, None, [fact])).segment.text


async def test_what_earlier_segments_name_is_known() -> None:
    text = "9f8e7d6c goes to prod-eu-3, never to prod-us-1; 55210 failed, as TK-90001 foretold. Ana waits."
    writer, _ = writer_of(ScriptedModel(text))
    assert "TK-90001" not in (await writer.write_batch(TALK, [], COUNTER)).segment.text
    assert "TK-90001" in (await writer.write_batch(TALK, ["TK-90001 was opened."], COUNTER)).segment.text


def segment_of(text: str, first: int) -> StoredSegment:
    return StoredSegment(
        first=first, last=first + 9, text=text, tokens=COUNTER.count_text(text), model="small"
    )


async def test_a_merge_keeps_names_that_the_model_is_not_shown() -> None:
    records = [
        f"9f8e7d6c goes to prod-eu-3.\n{ALSO_NAMED}ana@example.org, 55210",
        "It never goes to prod-us-1; the image of TK-90001 was missing.",
    ]
    model = ScriptedModel("9f8e7d6c goes to prod-eu-3, never to prod-us-1. TK-90001 had no image.")
    writer, _ = writer_of(model)
    segments = [segment_of(text, number) for number, text in zip((1, 11), records, strict=True)]
    draft = await writer.write_merge(segments, COUNTER)
    assert "9f8e7d6c goes to prod-eu-3.\n</segment" in model.calls[0].prompt
    assert ALSO_NAMED not in model.calls[0].prompt
    assert draft.text.endswith(f"\n{ALSO_NAMED}ana@example.org, 55210")
    assert draft.coverage == 1.0


async def test_a_merge_may_name_what_only_the_line_of_names_has() -> None:
    """A model that writes after the cached context has read that line, too."""
    record = f"9f8e7d6c goes to prod-eu-3.\n{ALSO_NAMED}ana@example.org, 55210"
    text = "9f8e7d6c goes to prod-eu-3, never to prod-us-1; 55210 failed."
    writer, _ = writer_of(ScriptedModel(text))
    segments = [segment_of(record, 1), segment_of("It never goes to prod-us-1.", 11)]
    assert (await writer.write_merge(segments, COUNTER)).text.startswith(text)


async def test_the_background_is_the_end_of_the_record_without_its_line_of_names() -> None:
    model = ScriptedModel("9f8e7d6c goes to prod-eu-3, never to prod-us-1.")
    writer, _ = writer_of(model)
    lines = [f"- Step {number} of the rollout was done, and nobody has complained." for number in range(9)]
    record = "\n".join([*lines, "Next step", f"- Wait for Ana.\n{ALSO_NAMED}TK-90001"])
    await writer.write_batch(TALK, [record], COUNTER)
    prompt = model.calls[0].prompt
    assert "Next step\n- Wait for Ana.\n</background" in prompt
    assert "TK-90001" not in prompt
    assert "Step 0" not in prompt
