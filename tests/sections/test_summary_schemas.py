"""Summaries by a schema, end to end: what the model is asked, what stands in the summary, and merges."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from summary_models import NOON, ModelCall, ScriptedModel, asks, shown, summarized

from autonomy_ctx import (
    Agent,
    ContextSummaryConfig,
    ContextTemplate,
    Memory,
    Message,
    SchemaSection,
    SummarySchema,
    SystemInstructionsSection,
    Worker,
)
from autonomy_ctx.compaction.calls import CircuitBreaker
from autonomy_ctx.compaction.config import resolve_settings
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.reply_text import ALSO_NAMED
from autonomy_ctx.compaction.schema import READY_SCHEMAS
from autonomy_ctx.compaction.writer import SegmentWriter
from autonomy_ctx.stores import StoredSegment
from autonomy_ctx.tokens import TokenCounter

COUNTER = TokenCounter()
SCHEMA = SummarySchema(
    "trip",
    [
        SchemaSection("Goal", "what is wanted", 0.2, "replace"),
        SchemaSection("Decisions", "what was decided", 0.3, "append"),
        SchemaSection("What happened", "the rest", 0.3),
    ],
)
NO_REWRITE = SummarySchema("log", [*SCHEMA.sections[:2], SchemaSection("Log", "the rest", 0.3, "append")])
MERGE = "consecutive stretches"


def asked_headings(call: ModelCall) -> list[str]:
    return re.findall(r"(?m)^(\w[\w ]*) \(.*; about \d+ tokens\)$", call.prompt)


def by_headings(call: ModelCall) -> str:
    """A model that does as it is told: a sentence or two about the last message, below each heading."""
    said = re.findall(r"said (\d+)", call.prompt)
    last = said[-1] if said else "0"
    texts = {
        "Goal": f"A trip, as of said {last}.",
        "Decisions": f"- Room {last} was taken, as said {last} has it.",
    }
    rest = f"Ana and Bob talked from said {said[0] if said else 0} on, until said {last} at last."
    texts |= dict.fromkeys(("What happened", "Log"), rest)
    asked = asked_headings(call)
    written = (f"## {name}\n{texts.get(name, f'{name} of said {last}.')}" for name in asked)
    return "\n".join(written) if asked else rest


def headings(text: str) -> list[str]:
    return re.findall(r"(?m)^## (.+)$", text)


async def talk(section: Any, memory: Memory, number: int) -> None:
    for _ in range(number):
        await asks(memory, 1)
        await shown(section, memory)
        await section.settled()


async def test_the_model_is_asked_for_the_headings_and_the_summary_has_them(memory: Memory) -> None:
    model = ScriptedModel([by_headings])
    async with summarized(model, schema=SCHEMA) as section:
        await talk(section, memory, 9)
        assert asked_headings(model.calls[0]) == ["Goal", "Decisions", "What happened"]
        asked = str(model.calls[0].messages[0]["content"])
        assert "Goal (what is wanted; all that holds at the end" in asked
        assert "write `none` if nothing does" in asked
        [cap] = re.findall(r"At most (\d+) tokens", asked)
        tokens = int(0.3 * int(cap))
        assert (
            f"Decisions (what was decided; only what is new, one item per line; about {tokens} tokens)"
            in asked
        )
        assert "## What happened\n- Ana needs" in asked, "an example of the form"
        assert (await shown(section, memory)).summary_text.endswith(
            "\n[Messages 1 to 5, 1 January 2030]\n## Goal\nA trip, as of said 5.\n## Decisions\n"
            "- Room 5 was taken, as said 5 has it.\n## What happened\n"
            "Ana and Bob talked from said 1 on, until said 5 at last.\n"
        )


async def test_a_merge_sends_only_what_is_written_anew(memory: Memory) -> None:
    model = ScriptedModel([by_headings])
    async with summarized(model, schema=SCHEMA, size=384) as section:
        await talk(section, memory, 90)
        merges = [call for call in model.calls if MERGE in call.prompt]
        assert merges
        for call in merges:
            assert asked_headings(call) == ["What happened"]
            assert "## Goal" not in call.prompt
            assert "Room" not in call.prompt
        merged = (await memory.summary("ana", "trip")).segments[0]
        assert merged.level > 0
        assert headings(merged.text) == ["Goal", "Decisions", "What happened"]
        goals = re.findall(r"A trip, as of said (\d+)\.", merged.text)
        assert goals == [str(merged.last)], "that of the newest of them"
        rooms = [int(room) for room in re.findall(r"Room (\d+)", merged.text)]
        assert rooms == sorted(set(rooms))
        assert len(rooms) > 1


async def test_a_merge_keeps_what_the_model_leaves_out() -> None:
    schema = SummarySchema("two", [*SCHEMA.sections, SchemaSection("Errors", "what failed", 0.2)])
    old = "## What happened\nAna wrote to the hotel in Porto.\n## Errors\nThe mail came back on Monday."
    new = "## What happened\nBob called the hotel in Porto, and it has a room.\n## Errors\nThe line was bad."
    segments = [
        StoredSegment(first=at, last=at, text=text, tokens=30) for at, text in enumerate((old, new), start=1)
    ]

    async def merged(reply: str) -> str:
        settings = resolve_settings(ContextSummaryConfig(model=ScriptedModel([reply]), schema=schema))
        writer = SegmentWriter(settings, SummaryMetrics(), CircuitBreaker())
        return (await writer.write_merge(segments, COUNTER)).text

    text = "Ana wrote to the hotel in Porto, Bob called it: there is a room."
    assert await merged(f"## What happened\n{text}") == (
        f"## What happened\n{text}\n## Errors\nThe mail came back on Monday.\nThe line was bad."
    )
    assert await merged(text) == f"## What happened\n{text}", "it may have all of it"


async def test_a_merge_without_a_rewritten_section_asks_no_model(memory: Memory) -> None:
    model = ScriptedModel([by_headings])
    async with summarized(model, schema=NO_REWRITE, size=256) as section:
        await talk(section, memory, 60)
        metrics = section.get_metrics()
        assert metrics["summaries_merged"] > 0
        assert not any(MERGE in call.prompt for call in model.calls)
        assert metrics["summarizer_calls"] == metrics["summaries_committed"]


@pytest.mark.parametrize("schema", [SCHEMA, NO_REWRITE])
@pytest.mark.parametrize("kind", ["good", "fails to merge", "headless", "too long", "digest", "dead"])
async def test_size_order_and_cover_hold_whatever_the_model_does(
    memory: Memory, schema: SummarySchema, kind: str
) -> None:
    def answer(call: ModelCall) -> Any:
        if kind == "dead":
            return ConnectionError("no route to host")
        if kind == "fails to merge" and MERGE in call.prompt:
            return ""
        reply = by_headings(call)
        if kind == "headless":
            return re.sub(r"(?m)^## .*\n", "", reply)
        extra = "\n".join(f"They also spoke of train {at} and its {at * 3} seats." for at in range(200))
        return reply + "\n" + extra if kind == "too long" else reply

    model = None if kind == "digest" else ScriptedModel([answer])
    order = [one.name for one in schema.sections]
    async with summarized(model, schema=schema, size=256) as section:
        for _ in range(60):
            await asks(memory, 1)
            found = await shown(section, memory)
            await section.settled()
            state = await memory.summary("ana", "trip")
            assert sum(one.tokens for one in state.segments) <= 256
            assert all(after.first == before.last + 1 for before, after in pairwise(state.segments))
            assert found.window == list(range(found.window[0], found.window[-1] + 1))
            hidden = found.segments[-1].last if found.segments else 0
            assert found.window[0] == hidden + 1, "no message is hidden"
            for one in state.segments:
                assert one.tokens == COUNTER.count_text(one.text)
                names = headings(one.text)
                assert names == [name for name in order if name in names]
        assert state.segments


async def test_a_schema_may_be_set_changed_and_taken_away_at_any_time(memory: Memory) -> None:
    for schema in (None, SCHEMA, NO_REWRITE, "coding", None):
        options: dict[str, Any] = {} if schema is None else {"schema": schema}
        async with summarized(ScriptedModel([by_headings]), size=512, **options) as section:
            await talk(section, memory, 40)
            assert section.get_metrics()["summaries_committed"] > 0
            assert section.get_metrics()["background_tasks_failed"] == 0
    state = await memory.summary("ana", "trip")
    assert sum(one.tokens for one in state.segments) <= 512


async def test_identifiers_that_the_record_lacks_fill_the_rest_of_its_size(memory: Memory) -> None:
    names = [f"PR-44{at:02}" for at in range(40)]
    talk = [Message("user", f"Look at {name} today.", created_at=NOON) for name in names]
    again = ["PR-4400 and PR-4401 again.", "PR-4401 and PR-4400 once more.", "PR-4401, please."]
    talk[2:2] = [Message("user", text, created_at=NOON) for text in again]
    await memory.append("ana", "trip", *talk)
    model = ScriptedModel(["## What happened\nThey looked at PR-4420 and PR-4421, and at others, today."])
    async with summarized(model, 2, 8, schema=SCHEMA, size=256, hard_limit=99, facts=False) as section:
        await shown(section, memory)
        await section.settled()
        [segment] = (await memory.summary("ana", "trip")).segments
        line = segment.text.splitlines()[-1]
        assert line.startswith(ALSO_NAMED)
        found = line.removeprefix(ALSO_NAMED).split(", ")
        assert found[:4] == ["PR-4401", "PR-4400", "PR-4437", "PR-4436"], "most often named, then the newest"
        assert 50 < segment.tokens <= 64


async def test_merged_segments_name_their_identifiers_by_the_same_rule(memory: Memory) -> None:
    async with summarized(ScriptedModel([by_headings]), schema=NO_REWRITE, size=1024) as section:
        for at in range(120):
            text = f"said {at + 1}: see PR-{4400 + at} and file src/part_{at}.py"
            await memory.append("ana", "trip", Message("user", text, created_at=NOON))
            await shown(section, memory)
            await section.settled()
        state = await memory.summary("ana", "trip")
        merged = next(one for one in state.segments if one.level)
        last = merged.text.splitlines()[-1]
        assert last.startswith(ALSO_NAMED)
        assert merged.text.count(ALSO_NAMED) == 1
        assert 200 < merged.tokens <= 256


async def test_the_gate_judges_a_record_by_a_schema(memory: Memory) -> None:
    """A sentence with an unknown name goes; its section and the others stay."""
    said = "Ana takes the train IC-540 to Lisbon in May, not IC-541."
    await memory.append("ana", "trip", *(Message("user", said, created_at=NOON) for _ in range(9)))
    good = "## Goal\nGo to Lisbon in May.\n## Decisions\n- Ana takes the train IC-540 to Lisbon, not IC-541."
    reply = good.replace("May.", "May. Ticket TK-90001 is paid.")
    async with summarized(ScriptedModel([reply]), schema=SCHEMA) as section:
        await shown(section, memory)
        await section.settled()
        [segment] = (await memory.summary("ana", "trip")).segments
        assert segment.text == good
    async with summarized(ScriptedModel(["I'm sorry, I can't help with that."]), schema=SCHEMA) as section:
        await section.drop_summaries(memory, "ana", "trip")
        await shown(section, memory)
        await section.settled()
        assert section.get_metrics()["refused_by_reason"] == {"refusal in words": 1}
        assert not (await memory.summary("ana", "trip")).segments


async def test_a_name_with_a_number_in_it_is_no_invention(memory: Memory) -> None:
    schema = [{"name": "OKR-2030 status", "description": "how far it is", "share": 0.5}]
    reply = "## OKR-2030 status\nAna takes the train to Lisbon in May."
    await memory.append(
        "ana",
        "trip",
        *(Message("user", "Ana takes the train to Lisbon in May.", created_at=NOON) for _ in range(9)),
    )
    async with summarized(ScriptedModel([reply]), schema=schema) as section:
        await shown(section, memory)
        await section.settled()
        assert (await memory.summary("ana", "trip")).segments[0].text == reply


async def test_what_a_segment_replaces_is_known_to_the_one_who_writes_it() -> None:
    """Also where the segments before it are too long to be shown."""
    model = ScriptedModel([by_headings])
    settings = resolve_settings(ContextSummaryConfig(model=model, schema=SCHEMA, facts=False))
    writer = SegmentWriter(settings, SummaryMetrics(), CircuitBreaker())
    before = "## Goal\nOnly the goal.\n## What happened\n" + "It was long. " * 150
    await writer.write_batch(
        [Message("user", f"said {at}", created_at=NOON) for at in range(3)], [before], COUNTER
    )
    assert "## Goal\nOnly the goal." in model.calls[0].prompt
    assert "It was long." not in model.calls[0].prompt


async def test_a_digest_at_the_hard_limit_has_the_sections(memory: Memory) -> None:
    model = ScriptedModel([ConnectionError("no route to host")])
    async with summarized(model, 2, 4, schema="coding", hard_limit=6, size=1024) as section:
        for at in range(12):
            text = f"Never deploy part {at}." if at % 2 else f"We still need to test part {at}."
            await memory.append("ana", "trip", Message("user", text, created_at=NOON))
            found = await shown(section, memory)
            await section.settled()
        assert found.summary is not None
        assert found.summary.provisional
        assert "## Decisions\n- User: Never deploy part 1." in found.summary_text
        assert "## Open items\n- User: We still need to test part 0." in found.summary_text


async def test_rules_outlast_every_merge_of_digests(memory: Memory) -> None:
    async with summarized(None, schema="coding", size=512, facts=False) as section:
        await memory.append("ana", "trip", Message("user", "Never deploy to prod-us-1.", created_at=NOON))
        for at in range(300):
            text = f"The build {at} of part {at * 3} ran on line {at}, and it was as slow as before."
            await memory.append("ana", "trip", Message("user", text, created_at=NOON))
            await shown(section, memory)
            await section.settled()
        first = (await memory.summary("ana", "trip")).segments[0]
        assert first.level > 0
        assert "## Decisions\n- User: Never deploy to prod-us-1." in first.text


async def test_a_summary_is_asked_for_after_the_cached_context() -> None:
    memory = Memory()

    def answer(call: ModelCall) -> str:
        asked = str(call.messages[-1]["content"])
        if "The conversation above is paused" not in asked:
            return by_headings(call)
        names = asked_headings(call)
        return "\n".join(f"## {name}\nAna and Bob spoke of the word: {name}." for name in names)

    model = ScriptedModel([answer])
    async with summarized(model, 4, 8, schema=SCHEMA, share_prefix=True, size=256) as section:
        template = ContextTemplate([SystemInstructionsSection("rule " * 600), section])
        previous = None
        for number in range(1, 60):
            text = f"Number {number}. " + "word " * 60
            await memory.append("ana", "trip", Message("user", text, created_at=NOON))
            previous = await template.compose(memory, "ana", "trip", previous=previous)
            await section.settled()
        assert any("is paused" in str(call.messages[-1]["content"]) for call in model.calls)
        merges = [call.prompt for call in model.calls if "records of consecutive stretches" in call.prompt]
        assert merges
        for asked in merges:
            assert "What happened (the rest" in asked
            assert "Decisions (" not in asked
            assert "What stands under other headings stays as it is" in asked
        for one in (await memory.summary("ana", "trip")).segments:
            assert headings(one.text) == ["Goal", "Decisions", "What happened"]


async def test_a_worker_writes_by_the_schema_and_a_fork_and_an_undo_have_its_text(memory: Memory) -> None:
    async with summarized(None, worker="summaries", schema=SCHEMA) as section:
        await asks(memory, 12)
        await shown(section, memory)
        await section.settled()
        config = {"floor": 4, "ceiling": 8, "schema": SCHEMA}
        async with Worker(memory, ScriptedModel([by_headings]), config=config) as worker:
            await worker.catch_up()
        text = (await shown(section, memory)).summary_text
        assert headings(text) == ["Goal", "Decisions", "What happened"]
        await memory.fork("ana", "trip", name="other")
        assert (await shown(section, memory, conversation="other")).summary_text == text
    assert await memory.undo_summary("ana", "trip")
    assert not (await memory.summary("ana", "trip")).segments


def test_an_agent_takes_a_schema_and_keeps_it_when_it_is_saved() -> None:
    for schema in ("coding", SCHEMA, SCHEMA.to_dict()):
        agent = Agent("helper", context_summary={"schema": schema})
        again = Agent.from_dict(json.loads(json.dumps(agent.to_dict())))
        history = again.context_template.get_section("conversation_history")
        wanted = READY_SCHEMAS["coding"] if schema == "coding" else SCHEMA
        assert history.config.schema == wanted  # type: ignore[union-attr]
