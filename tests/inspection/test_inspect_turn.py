"""What a past turn looks like: its sections, messages, cached part, cost, and what changed in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agents.kit import call, calls

from autonomy_ctx import (
    AdditionalContextSection,
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    ImageContent,
    Memory,
    Message,
    SummarizedHistorySection,
    SystemInstructionsSection,
    TextContent,
    tool,
)
from autonomy_ctx.agents.explain import RECORD_KIND
from autonomy_ctx.errors import UnknownConversation, UnknownTurn
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.inspection import diff_turns, inspect_turn, list_turns
from autonomy_ctx.inspection.changes import advise_on_end, describe_end
from autonomy_ctx.memory.store import Key
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tokens import MODELS, ModelInfo, Price

ANA = ("ana", "trip")


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


def answer_with_usage(text: str, read: int, cached: int) -> dict[str, Any]:
    """A reply as a provider's client gives it, with its own token counts."""
    details = {"cached_tokens": cached}
    usage = {"prompt_tokens": read, "completion_tokens": 10, "prompt_tokens_details": details}
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


def named(answers: Any, name: str) -> ScriptedModel:
    model = ScriptedModel(answers)
    model.name = name
    return model


async def test_a_turn_is_inspected_without_its_agent(memory: Memory) -> None:
    agent = Agent("helper", instructions="Be brief.", model=ScriptedModel("ok"), memory=memory)
    await agent.send("one", scope="ana", conversation="trip")
    reply = await agent.send("two", scope="ana", conversation="trip")
    await agent.close()

    report = await inspect_turn(memory.for_agent("helper"), *ANA)
    assert (report.id, report.step, report.steps, report.position) == (reply.turn, 1, 1, 3)
    assert (report.agent, report.scope, report.conversation) == ("helper", "ana", "trip")
    assert [(one.role, one.position, one.text) for one in report.messages][-3:] == [
        ("user", 1, "one"),
        ("assistant", 2, "ok"),
        ("user", 3, "two"),
    ]
    assert report.tokens == sum(message.tokens for message in report.messages)
    assert report.tokens == sum(section.tokens for section in report.sections)
    assert report.cached_tokens + report.new_tokens == report.tokens
    assert [message.is_cached for message in report.messages][-3:] == [True, False, False]
    history = report.sections[-1]
    assert (history.name, history.source) == ("conversation_history", "3 stored messages (1 to 3)")
    assert history.tokens_change == sum(message.tokens for message in report.messages[-2:])
    assert report.sections[0].source == "1 message written by the section"
    assert report.changes == ("2 new messages (2 to 3)",)


async def test_a_list_of_turns_tells_the_tokens_of_each_section(memory: Memory) -> None:
    history = SummarizedHistorySection(summary_model=None, floor=2, ceiling=4)
    template = ContextTemplate([SystemInstructionsSection("Be brief."), history])
    async with Agent("helper", model=ScriptedModel("ok"), memory=memory, context_template=template) as agent:
        for number in range(4):
            await agent.send(f"message {number}", scope="ana", conversation="trip")
            await history.settled()
    view = memory.for_agent("helper")

    first, *_, last = await list_turns(view, *ANA)
    for turn in (first, last):
        report = await inspect_turn(view, *ANA, turn.id)
        of_summary = sum(one.tokens for one in report.messages if one.role == "summary")
        assert [(one.name, one.tokens) for one in turn.sections] == [
            (one.name, one.tokens) for one in report.sections
        ]
        assert [one.summary_tokens for one in turn.sections] == [0, of_summary]
    assert first.sections[-1].summary_tokens == 0 < last.sections[-1].summary_tokens


async def test_the_first_turn_has_nothing_to_be_compared_with(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    first = await agent.send("one")
    second = await agent.send("two")
    view = memory.for_agent("helper")
    report = await inspect_turn(view, "default", "default", first.turn)
    assert (report.previous, report.next, report.changes) == (None, second.turn, ())
    assert {section.tokens_change for section in report.sections} == {None}
    assert (report.cached_tokens, report.new_tokens) == (0, report.tokens)
    assert (await inspect_turn(view, "default", "default")).previous == first.turn


async def test_each_step_has_its_model_its_usage_and_its_cost(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        MODELS, "priced", ModelInfo(name="priced", price=Price(input=1.0, output=10.0, cached_input=0.1))
    )
    model = named([answer_with_usage("ok", 2000, 0), answer_with_usage("ok", 3000, 2000)], "priced-1")
    agent = Agent("helper", model=model, memory=memory)
    await agent.send("one")
    await agent.send("two")
    report = await inspect_turn(memory.for_agent("helper"), "default", "default")
    assert report.model == "priced-1"
    assert report.usage is not None
    assert report.usage == Usage(input_tokens=3000, cached_tokens=2000, output_tokens=10)
    assert report.turn_usage == report.usage
    assert report.cost.reported == pytest.approx((1000 * 1.0 + 2000 * 0.1 + 10 * 10.0) / 1e6)
    assert report.cost.turn == report.cost.reported
    assert report.request_tokens is not None
    # Shorter than any provider caches: all of it counts as new.
    assert report.cost.estimated == pytest.approx((report.request_tokens * 1.0 + 10 * 10.0) / 1e6)
    infos = await list_turns(memory.for_agent("helper"), "default", "default")
    assert [info.usage and info.usage.input_tokens for info in infos] == [2000, 3000]
    assert (await agent.explain()).usage == report.usage


async def test_the_usage_of_a_turn_is_that_of_all_its_steps(memory: Memory) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    first = {"choices": [{"message": calls(call("look", place="here"))}], "usage": usage}
    model = named([first, answer_with_usage("done", 300, 0)], "unpriced")
    agent = Agent("helper", model=model, memory=memory, tools=[look])
    reply = await agent.send("look")
    view = memory.for_agent("helper")
    report = await inspect_turn(view, "default", "default", reply.turn, step=1)
    assert (report.step, report.steps) == (1, 2)
    assert report.usage is not None
    assert report.turn_usage is not None
    assert (report.usage.input_tokens, report.turn_usage.input_tokens) == (100, 400)
    assert (report.cost.estimated, report.cost.reported, report.cost.price) == (None, None, None)
    last = await inspect_turn(view, "default", "default")
    assert [message.role for message in last.messages][-3:] == ["user", "assistant", "tool"]
    assert [one.name for one in last.messages[-2].tool_calls] == ["look"]
    assert last.messages[-1].tool_call_id == last.messages[-2].tool_calls[0].id


async def test_a_model_that_reports_nothing_has_no_usage(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    await agent.send("one")
    report = await inspect_turn(memory.for_agent("helper"), "default", "default")
    assert (report.model, report.usage, report.turn_usage) == ("scripted", None, None)


async def test_records_from_before_models_were_recorded_are_read(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    reply = await agent.send("one")
    key = Key("helper", "default", "default")
    [record] = await memory.store.read_records(key, RECORD_KIND)
    forms = json.loads(record.body)
    for form in forms:
        del form["model"], form["usage"], form["bounds"], form["epoch"], form["end_reason"], form["head"]
    await memory.store.put_records(key, RECORD_KIND, [(reply.turn, json.dumps(forms))])
    report = await inspect_turn(memory.for_agent("helper"), "default", "default")
    assert (report.model, report.usage, report.floor, report.ceiling) == (None, None, None, None)
    assert (report.epoch, report.end_reason) == (None, None)
    assert not any(message.is_appended for message in report.messages)
    assert report.messages[-1].text == "one"
    assert (await agent.explain(reply.turn)).messages[-1].text == "one"


async def test_a_list_of_turns_says_what_began_each(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    replies = [await agent.send(f"{'word ' * 100}{number}") for number in range(3)]
    await agent.send("short\n\ntext")
    turns = await list_turns(memory.for_agent("helper"), "default", "default")
    assert [turn.id for turn in turns[:3]] == [reply.turn for reply in replies]
    assert [turn.position for turn in turns] == [1, 3, 5, 7]
    assert turns[0].text.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert len(turns[0].text) <= 200
    assert turns[3].text == "short text"
    assert len(await list_turns(memory.for_agent("helper"), "default", "default", limit=2)) == 2


async def test_what_is_not_there_is_named(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    reply = await agent.send("one")
    view = memory.for_agent("helper")
    with pytest.raises(UnknownTurn, match=f"turn 'nope' .* no record of it; recorded turns: '{reply.turn}'"):
        await inspect_turn(view, "default", "default", "nope")
    with pytest.raises(UnknownTurn, match=r"step 2 .* the turn has steps 1 to 1"):
        await inspect_turn(view, "default", "default", step=2)
    with pytest.raises(UnknownConversation, match="'elsewhere' has no messages"):
        await inspect_turn(view, "default", "elsewhere")
    with pytest.raises(UnknownConversation):
        await list_turns(memory.for_agent("other"), "default", "default")
    await view.append("default", "silent", Message("user", "nobody answers"))
    with pytest.raises(UnknownTurn, match="only agents record turns"):
        await inspect_turn(view, "default", "silent")
    assert await list_turns(view, "default", "silent") == ()


async def test_a_summary_that_grew_and_its_segments_are_told(memory: Memory) -> None:
    history = SummarizedHistorySection(ScriptedModel("They spoke of numbers."), floor=2, ceiling=4)
    agent = Agent(
        "helper", model=ScriptedModel("ok"), memory=memory, context_template=ContextTemplate([history])
    )
    reports = []
    for number in range(8):
        await agent.send(f"number {number} " + "word " * 40)
        await history.settled()
        reports.append(await inspect_turn(memory.for_agent("helper"), "default", "default"))
    told = [change for report in reports for change in report.changes]
    assert any(change.startswith("the summary grew by one segment (messages ") for change in told)
    assert any("only in the summary now" in change for change in told)
    last = reports[-1]
    assert (last.floor, last.ceiling) == (2, 4)
    summary = last.messages[0]
    assert (summary.role, summary.position) == ("summary", None)
    assert summary.segments[0].first == 1
    assert last.sections[0].source.startswith(f"summary of messages 1 to {summary.segments[-1].last} (")


async def test_a_summary_after_the_shared_prefix_is_cached_in_part(memory: Memory) -> None:
    history = SummarizedHistorySection(ScriptedModel("They spoke of numbers. " * 5), floor=2, ceiling=4)
    agent = Agent(
        "helper", model=ScriptedModel("ok"), memory=memory, context_template=ContextTemplate([history])
    )
    partly = []
    for number in range(10):
        await agent.send(f"number {number} " + "word " * 40)
        await history.settled()
        report = await inspect_turn(memory.for_agent("helper"), "default", "default")
        assert report.cached_tokens == sum(section.cached_tokens for section in report.sections)
        partly += [one for one in report.messages if 0 < one.cached_tokens < one.tokens]
    assert {message.role for message in partly} == {"summary"}
    assert not any(message.is_cached for message in partly)


async def test_a_section_that_fails_or_changes_its_text_is_told(memory: Memory) -> None:
    weather: list[Any] = ["sun", "rain", RuntimeError("no network"), "sun"]

    def forecast(*place: Any) -> list[dict[str, str]]:
        now = weather.pop(0)
        if isinstance(now, Exception):
            raise now
        return [{"role": "system", "content": now}]

    template = ContextTemplate(
        [
            SystemInstructionsSection("Be brief."),
            ConversationHistorySection(),
            AdditionalContextSection("weather", provider_fn=forecast),
        ]
    )
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, context_template=template)
    changes = []
    for number in range(4):
        await agent.send(f"turn {number}")
        changes.append((await inspect_turn(memory.for_agent("helper"), "default", "default")).changes)
    assert any(line.startswith("section weather appended its new text (") for line in changes[1])
    assert any(line.startswith("section weather failed: ") for line in changes[2])
    assert "section weather works again" in changes[3]


async def test_the_epoch_of_each_turn_and_the_reason_of_its_end_are_told(memory: Memory) -> None:
    rules, hours = ["Be brief."], iter(range(9, 20))

    def rule(*_: Any) -> list[dict[str, str]]:
        return [{"role": "system", "content": rules[0]}]

    def clock(*_: Any) -> list[dict[str, str]]:
        return [{"role": "system", "content": f"It is {next(hours)}:00."}]

    template = ContextTemplate(
        [
            AdditionalContextSection("rules", provider_fn=rule, kind="stable"),
            ConversationHistorySection(),
            AdditionalContextSection("clock", provider_fn=clock),
        ]
    )
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, context_template=template)
    await agent.send("one")
    await agent.send("two")
    view = memory.for_agent("helper")
    report = await inspect_turn(view, "default", "default")
    assert (report.epoch, report.end_reason, report.advice) == (1, None, None)
    assert [(message.section, message.is_appended) for message in report.messages] == [
        ("rules", False),
        ("conversation_history", False),
        ("clock", False),
        ("conversation_history", False),
        ("conversation_history", False),
        ("clock", True),
    ]
    rules[0] = "Be polite."
    await agent.send("three")
    report = await inspect_turn(view, "default", "default")
    assert (report.epoch, report.end_reason) == (2, "instructions")
    assert report.changes[0].startswith("a new epoch began (instructions): ")
    assert "slow or volatile" in (report.advice or "")
    assert not any(message.is_appended for message in report.messages)
    assert [(turn.epoch, turn.end_reasons) for turn in await list_turns(view, "default", "default")] == [
        (1, ()),
        (1, ()),
        (2, ("instructions",)),
    ]
    assert agent.get_metrics()["epochs_ended"] == 1


def test_every_end_is_described() -> None:
    assert all(f"({reason.value}): " in describe_end(reason) for reason in EndReason)
    assert [reason.value for reason in EndReason if advise_on_end(reason)] == [
        "history section",
        "instructions",
        "latest",
    ]
    assert advise_on_end(None) is None


async def test_what_a_budget_cut_is_told_with_its_reason(memory: Memory) -> None:
    template = ContextTemplate([ConversationHistorySection()], max_tokens=300)
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, context_template=template)
    for number in range(8):
        await agent.send(f"turn {number} " + "word " * 40)
    report = await inspect_turn(memory.for_agent("helper"), "default", "default")
    assert report.budget is not None
    [section] = report.sections
    assert section.omitted
    assert any("no longer shown" in change or "was cut" in change for change in report.changes)


async def test_parts_that_are_no_text_are_named(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    image = ImageContent.from_bytes(b"x" * 3000)
    await agent.send([TextContent("look"), image, ImageContent("https://x.test/cat.png")])
    report = await inspect_turn(memory.for_agent("helper"), "default", "default")
    assert [(part.kind, part.text) for part in report.messages[-1].parts] == [
        ("image", "image/png, 3,000 bytes"),
        ("image", "https://x.test/cat.png"),
    ]
    assert "base64" not in json.dumps(report.to_dict())


async def test_a_report_is_json(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    await agent.send("one \ud800 \x1b[31m")
    await agent.send("two")
    report = await inspect_turn(memory.for_agent("helper"), "default", "default")
    form = report.to_dict()
    assert json.loads(json.dumps(form)) == form
    assert form["at"].endswith("Z")
    assert form["messages"][-1]["role"] == "user"


async def test_two_turns_are_compared_message_by_message(memory: Memory) -> None:
    notes = ["first note", "second note"]

    def note(*place: Any) -> list[dict[str, str]]:
        return [{"role": "system", "content": notes.pop(0)}]

    template = ContextTemplate(
        [
            SystemInstructionsSection("Be brief."),
            ConversationHistorySection(max_messages=2),
            AdditionalContextSection("note", provider_fn=note),
        ]
    )
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, context_template=template)
    first = await agent.send("one")
    second = await agent.send("two")
    diff = await diff_turns(memory.for_agent("helper"), "default", "default", first.turn)
    assert (diff.before, diff.after) == (first.turn, second.turn)
    assert [(one.name, one.change) for one in diff.sections] == [
        ("system_instructions", "same"),
        ("conversation_history", "changed"),
        ("note", "changed"),
    ]
    assert [(one.change, one.position, one.text_before, one.text_after) for one in diff.messages] == [
        ("same", None, None, "Be brief."),
        ("removed", 1, "one", None),
        ("added", 2, None, "ok"),
        ("added", 3, None, "two"),
        ("changed", None, "first note", "second note"),
    ]
    same = await diff_turns(memory.for_agent("helper"), "default", "default", second.turn, second.turn)
    assert {one.change for one in same.messages} == {"same"}
    assert same.changes == ()
    assert same.shared_tokens == same.tokens_after
