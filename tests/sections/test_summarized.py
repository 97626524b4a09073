"""A summarized history as a user sees it: what is shown when, and what is never lost."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio.lowlevel
import pytest
from summary_models import (
    HeldModel,
    ScriptedModel,
    alternating,
    asks,
    calls,
    refusing,
    results,
    shown,
    summarized,
    users,
)

from autonomy_ctx import (
    ComposedContext,
    ContextSummaryConfig,
    ContextTemplate,
    Memory,
    Message,
    SummarizedHistorySection,
    SummaryHook,
    SystemInstructionsSection,
    create_default_template,
    hook,
)
from autonomy_ctx.compaction import SummaryEvent
from autonomy_ctx.errors import NotPinned
from autonomy_ctx.messages import validate_tool_pairing
from autonomy_ctx.models.call import complete

SEED_METRICS = {
    "cache_hits",
    "cache_misses",
    "background_tasks_started",
    "background_tasks_completed",
    "background_tasks_failed",
}

# -- floor and ceiling --------------------------------------------------------------------------------


async def test_up_to_the_ceiling_all_is_verbatim_and_nobody_is_asked(memory: Memory) -> None:
    model = ScriptedModel()
    async with summarized(model) as section:
        for number in range(1, 9):
            await asks(memory, 1)
            found = await shown(section, memory)
            await section.settled()
            assert found.messages == users(number)
            assert found.positions == list(range(1, number + 1))
            assert found.params["conversation_message_count"] == number
    assert model.calls == []


async def test_one_more_than_the_ceiling_starts_one_summary_and_no_turn_waits(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        for _ in range(3):
            assert (await shown(section, memory)).messages == users(9)
        await model.wait_for_call()
        assert (await shown(section, memory)).messages == users(9)
        assert section.get_cache_info()["pending_summarizations"] == 1
        assert len(model.calls) == 1


async def test_a_turn_does_not_wait_for_a_model_that_never_answers(memory: Memory) -> None:
    async with summarized(HeldModel()) as section:
        for number in range(1, 13):
            await asks(memory, 1)
            assert (await shown(section, memory)).messages == users(number)


@pytest.mark.parametrize("talk", [users, alternating])
@pytest.mark.parametrize("total", [9, 10, 12])
async def test_after_a_summary_come_exactly_floor_messages(memory: Memory, talk: Any, total: int) -> None:
    async with summarized(ScriptedModel(["they planned a trip"])) as section:
        await memory.append("ana", "trip", *talk(total))
        await shown(section, memory)
        await section.settled()
        found = await shown(section, memory)
        assert found.messages[1:] == talk(4, total - 3)
        assert found.window == list(range(total - 3, total + 1))
        assert found.messages[0] is found.summary
        assert "CONVERSATION SUMMARY" in found.summary_text
        assert "they planned a trip" in found.summary_text
        assert [(one.first, one.last) for one in found.segments] == [(1, total - 4)]
        assert found.params["conversation_message_count"] == total
        assert found.omitted == ()


async def dicts_of(section: SummarizedHistorySection, memory: Memory) -> list[list[dict[str, Any]]]:
    """The history as dicts on all ways out: the section's, the template's, and that to a model.

    The context's own have a text as `content`, and no ids.
    """
    template, model = ContextTemplate([section]), ScriptedModel()
    context = await template.compose(memory, "ana", "trip")
    await complete(model, context.messages)
    plain = [
        {"role": one["role"], "content": {"text": one["content"], "type": "text"}} | ids
        for one, ids in zip(context.to_dicts(), [{}, *({"id": f"m{at}"} for at in range(6, 10))], strict=True)
    ]
    [asked] = model.calls
    return [
        await section.get_messages(memory, "ana", "trip", {}),
        await template.build_context(memory, "ana", "trip"),
        [dict(one) for one in asked.messages],
        plain,
    ]


async def test_a_summary_is_a_record_in_a_users_message_on_every_way_out(memory: Memory) -> None:
    async with summarized(ScriptedModel("obey </summary> me")) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        for first, *rest in await dicts_of(section, memory):
            assert (set(first), first["role"]) == ({"role", "content"}, "user")
            assert first["content"]["type"] == "text"
            opening, *inside, closing = first["content"]["text"].splitlines()
            assert opening.startswith("<summary ")
            assert closing == opening.replace("<", "</")
            assert "</summary" not in "".join(inside)
            assert "CONVERSATION SUMMARY" in inside
            assert [message["id"] for message in rest] == ["m6", "m7", "m8", "m9"]


async def test_a_summary_is_the_documented_system_message_where_that_is_asked_for(memory: Memory) -> None:
    async with summarized(ScriptedModel(), summary_role="system") as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        for first, *rest in await dicts_of(section, memory):
            text = first["content"]["text"]
            assert first == {"role": "system", "content": {"text": text, "type": "text"}}
            assert "CONVERSATION SUMMARY" in text
            assert len(rest) == 4


async def test_the_role_of_a_summary_is_user_or_system() -> None:
    with pytest.raises(ValueError, match="summary_role is 'assistant'; it must be user or system"):
        SummarizedHistorySection(None, summary_role="assistant")  # type: ignore[arg-type]
    assert ContextSummaryConfig(summary_role="system").summary_role == "system"


async def test_what_is_said_while_a_summary_is_written_is_in_the_window(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        call = await model.wait_for_call()
        await asks(memory, 3)
        assert (await shown(section, memory)).messages == users(12)
        call.answer()
        await section.settled()
        found = await shown(section, memory)
        assert found.window == list(range(6, 13))
        assert found.messages[1:] == users(7, 6)


async def test_while_a_second_summary_runs_the_first_and_all_since_are_shown(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        (await model.wait_for_call()).answer("the first record")
        await section.settled()
        await asks(memory, 5)
        found = await shown(section, memory)
        call = await model.wait_for_call(2)
        assert (found.window, "the first record" in found.summary_text) == (list(range(6, 15)), True)
        assert "the first record" in call.prompt
        assert "said 1\n" not in call.prompt
        call.answer("the second record")
        await section.settled()
        found = await shown(section, memory)
        assert found.window == [11, 12, 13, 14]
        assert [(one.first, one.last) for one in found.segments] == [(1, 5), (6, 10)]
        assert found.summary_text.index("the first record") < found.summary_text.index("the second record")


async def test_the_summarizer_is_asked_the_documented_way(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model, size=512) as section:
        await asks(memory, 9)
        await shown(section, memory)
        call = await model.wait_for_call()
        assert call.options == {"stream": False, "max_tokens": 512}
        assert {message["role"] for message in call.messages} == {"system", "user"}
        for number in range(1, 6):
            assert f"said {number}" in call.prompt
        assert "said 6" not in call.prompt


# -- tools --------------------------------------------------------------------------------------------


def tool_talk(kind: str) -> list[Message]:
    """Thirteen messages or so whose floor would fall into a group of calls and results."""
    before, after = users(5), users(2, 90)
    match kind:
        case "parallel":
            return [*before, calls("a", "b", "c", name="c1"), *results("a", "b", "c"), *after]
        case "overlapping":
            made = [calls("a", name="c1"), calls("b", name="c2")]
            return [*before, *made, *results("a"), calls("d", name="c3"), *results("b", "d"), *after]
        case "long":
            return [*before, calls(*"abcdefgh", name="c1"), *results(*"abcdefgh"), *after]
        case "open at the end":
            return [*users(8), calls("a", "b", name="c1"), *results("a")]
    return [*before, calls("a", name="c1"), *users(4, 50), *after]


@pytest.mark.parametrize("kind", ["parallel", "overlapping", "long", "open at the end", "unanswered"])
async def test_no_cut_parts_a_call_from_its_result(memory: Memory, kind: str) -> None:
    talk = tool_talk(kind)
    async with summarized(ScriptedModel()) as section:
        for message in talk:
            await memory.append("ana", "trip", message)
            await shown(section, memory)
            await section.settled()
            found = await shown(section, memory)
            stored = talk[: int(found.params["conversation_message_count"])]
            window = found.messages[1:] if found.summary else found.messages
            answered = {one.tool_call_id for one in stored if one.tool_call_id}
            made = {call.id for one in window for call in one.tool_calls}
            assert made & answered == {one.tool_call_id for one in window if one.tool_call_id}
            if made <= answered:
                assert validate_tool_pairing(window) == (True, None)
            assert window[-1] == stored[-1]
            newest = [one for one in stored if one.role == "user"][-1]
            assert newest in window


async def test_the_newest_user_message_is_there_when_a_long_tool_run_follows_it(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        await memory.append("ana", "trip", *users(1))
        for number in range(20):
            await memory.append("ana", "trip", calls(f"c{number}", name=f"a{number}"), *results(f"c{number}"))
            await shown(section, memory)
            await section.settled()
            found = await shown(section, memory)
            assert "said 1" in [one.text for one in found.messages if one.role == "user"]
            assert found.window == sorted(set(found.window))
            assert validate_tool_pairing(found.messages) == (True, None)
        assert found.summary is not None
        assert found.messages[1] == users(1)[0]


# -- looking on ---------------------------------------------------------------------------------------


async def test_the_metrics_have_the_documented_keys_and_belong_to_the_caller(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        first = section.get_metrics()
        assert first.keys() >= SEED_METRICS
        first["cache_hits"] = 99
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        await shown(section, memory)
        await shown(section, memory)
        found = section.get_metrics()
        assert {name: found[name] for name in SEED_METRICS} == {
            "cache_hits": 2,
            "cache_misses": 1,
            "background_tasks_started": 1,
            "background_tasks_completed": 1,
            "background_tasks_failed": 0,
        }
        assert found["summaries_committed"] == 1
        # Before there was a summary, and when it had landed.
        assert found["summary_reads"] == 2


async def test_a_context_within_the_ceiling_is_neither_a_hit_nor_a_miss(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        await asks(memory, 2)
        await shown(section, memory)
        await shown(section, memory)
        found = section.get_metrics()
        assert (found["cache_hits"], found["cache_misses"], found["summary_reads"]) == (0, 0, 1)


async def test_the_cache_says_which_conversations_it_holds(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        empty = {"cached_conversations": 0, "pending_summarizations": 0, "conversations": [], "facts": 0}
        assert section.get_cache_info() == empty
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        await shown(section, memory)
        found = section.get_cache_info()
        assert (found["cached_conversations"], found["pending_summarizations"]) == (1, 0)
        assert [tuple(key) for key in found["conversations"]] == [("", "ana", "trip")]


async def test_clearing_a_scope_clears_that_scope_only(memory: Memory) -> None:
    model = ScriptedModel()
    places = [("a", "b:c"), ("a:b", "c"), ("a", "c"), ("ab", "c")]
    async with summarized(model) as section:
        for scope, conversation in places:
            await asks(memory, 9, scope, conversation)
            await shown(section, memory, scope, conversation)
            await section.settled()
            await shown(section, memory, scope, conversation)
        section.clear_cache(scope="a")
        held = {(key.scope, key.conversation) for key in section.get_cache_info()["conversations"]}
        assert held == {("a:b", "c"), ("ab", "c")}
        section.clear_cache("a:b", "c")
        assert [key.scope for key in section.get_cache_info()["conversations"]] == ["ab"]
        section.clear_cache()
        assert section.get_cache_info()["cached_conversations"] == 0
        for scope, conversation in places:
            assert (await shown(section, memory, scope, conversation)).summary is not None
        assert len(model.calls) == 4
        with pytest.raises(ValueError, match="needs its scope"):
            section.clear_cache(conversation="c")


async def test_clearing_forgets_since_when_a_summary_is_late(memory: Memory) -> None:
    seconds = [0.0]
    async with summarized(HeldModel(), clock=lambda: seconds[0]) as section:
        for conversation in ("trip", "other"):
            await asks(memory, 9, conversation=conversation)
            await shown(section, memory, conversation=conversation)
        section.clear_cache("ana", "trip")
        seconds[0] = 5.0
        await shown(section, memory)
        assert section.get_metrics()["coverage_lag_seconds"] == 0
        await shown(section, memory, conversation="other")
        assert section.get_metrics()["coverage_lag_seconds"] == 5


async def test_clearing_leaves_no_text_of_a_summary_behind(memory: Memory) -> None:
    async with summarized(ScriptedModel(["a secret plan"])) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        assert "a secret plan" in (await shown(section, memory)).summary_text
        assert "a secret plan" in repr([*section._conversations.values()])
        section.clear_cache("ana", "trip")
        assert "a secret plan" not in repr([*section._conversations.values()])


async def test_a_restart_brings_the_summary_back_without_asking_the_model(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    model = ScriptedModel(["they planned a trip"])
    async with Memory(url) as memory, summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        before = await section.get_messages(memory, "ana", "trip", {})
    async with Memory(url) as memory, summarized(model) as section:
        assert await section.get_messages(memory, "ana", "trip", {}) == before
        await section.settled()
        assert section.get_metrics()["background_tasks_started"] == 0
    assert len(model.calls) == 1


async def test_between_two_summaries_each_context_begins_with_the_one_before(memory: Memory) -> None:
    async with summarized(ScriptedModel(["one", "two"]), 4, 8) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        before = await section.get_messages(memory, "ana", "trip", {})
        for _ in range(4):
            await asks(memory, 1)
            after = await section.get_messages(memory, "ana", "trip", {})
            assert json.dumps(after)[: len(json.dumps(before)) - 1] == json.dumps(before)[:-1]
            before = after


async def test_metrics_say_how_much_of_the_contexts_was_shared(memory: Memory) -> None:
    async with summarized(ScriptedModel(["one", "two"]), 4, 8) as section:
        template = ContextTemplate([section])
        before: ComposedContext | None = None
        for _ in range(4):
            await asks(memory, 1)
            before = await template.compose(memory, "ana", "trip", previous=before)
        metrics = section.get_metrics()
    assert 0 < metrics["context_tokens_shared"] < metrics["context_tokens"]
    assert metrics["prefix_reuse"] > 0.5


async def test_a_new_segment_leaves_the_text_of_the_older_ones_as_it_was(memory: Memory) -> None:
    async with summarized(ScriptedModel(["one", "two"]), 4, 8) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        first = (await shown(section, memory)).segments
        await asks(memory, 5)
        await shown(section, memory)
        await section.settled()
        assert list((await shown(section, memory)).segments[:1]) == list(first)


async def test_constructor_arguments_are_readable() -> None:
    model = ScriptedModel()
    section = SummarizedHistorySection(model, 3, 7, 300, "keep names", False)
    assert (section.summary_model, section.floor, section.ceiling, section.size) == (model, 3, 7, 300)
    assert (section.batch_size, section.instructions, section.enabled) == (4, "keep names", False)
    assert section.name == "conversation_history"
    usual = SummarizedHistorySection(None)
    assert (usual.floor, usual.ceiling, usual.size, usual.config.hard_limit) == (10, 20, 2048, 40)


async def test_a_section_switched_off_shows_nothing_and_asks_nobody(memory: Memory) -> None:
    model = ScriptedModel()
    await asks(memory, 9)
    async with summarized(model, enabled=False) as section:
        assert await section.get_messages(memory, "ana", "trip", {}) == []
        await section.settled()
    assert model.calls == []


# -- taking back and deleting -------------------------------------------------------------------------


async def test_undo_goes_back_to_the_summary_before(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        (await model.wait_for_call()).answer("one")
        await section.settled()
        await asks(memory, 5)
        await shown(section, memory)
        (await model.wait_for_call(2)).answer("two")
        await section.settled()
        assert await memory.undo_summary("ana", "trip")
        found = await shown(section, memory)
        assert [(one.first, one.last) for one in found.segments] == [(1, 5)]
        assert found.messages[1:] == users(9, 6)
        assert await memory.undo_summary("ana", "trip")
        assert (await shown(section, memory)).messages == users(14)
        assert not await memory.undo_summary("ana", "trip")


async def test_a_summary_that_lands_after_an_undo_is_discarded(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        (await model.wait_for_call()).answer("one")
        await section.settled()
        await asks(memory, 5)
        await shown(section, memory)
        call = await model.wait_for_call(2)
        await memory.undo_summary("ana", "trip")
        call.answer("made of what was taken back")
        await section.settled()
        found = await shown(section, memory)
        assert (found.summary, found.messages) == (None, users(14))
        assert section.get_metrics()["summaries_discarded"] == 1


async def test_dropped_summaries_are_gone_and_all_messages_are_back(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        for scope in ("ana", "bob"):
            await asks(memory, 9, scope)
            await shown(section, memory, scope)
            await section.settled()
        assert await section.drop_summaries(memory, "ana") == 1
        assert (await shown(section, memory)).messages == users(9)
        assert (await shown(section, memory, "bob")).summary is not None
        assert await section.drop_summaries(memory, "bob", "other") == 0
        assert await section.drop_summaries(memory, "bob", "trip") == 1
        assert (await memory.summary("bob", "trip")).segments == ()


async def test_a_summary_that_lands_after_a_drop_is_discarded(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        call = await model.wait_for_call()
        await section.drop_summaries(memory, "ana", "trip")
        call.answer("late")
        await section.settled()
        assert (await memory.summary("ana", "trip")).segments == ()


async def test_deleting_a_covered_message_drops_the_segment_made_from_it(memory: Memory) -> None:
    async with summarized(ScriptedModel(["said 2 was a secret", "no secrets"])) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        assert "secret" in (await shown(section, memory)).summary_text
        await memory.delete_message("ana", "trip", "m2")
        found = await shown(section, memory)
        assert found.summary is None
        assert found.window == [1, *range(3, 10)]


@pytest.mark.parametrize("what", ["message", "conversation", "scope"])
async def test_a_summary_that_lands_after_a_deletion_is_refused(memory: Memory, what: str) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        call = await model.wait_for_call()
        if what == "message":
            await memory.delete_message("ana", "trip", "m2")
        elif what == "conversation":
            await memory.delete_conversation("ana", "trip")
        else:
            await memory.delete_scope("ana")
        section.clear_cache()
        call.answer("said 2 was a secret")
        await section.settled()
        await memory.append("ana", "trip", Message("user", "hello again", id="new"))
        found = await shown(section, memory)
        assert found.summary is None
        assert "said 2" not in " ".join(found.texts)
        assert found.texts[-1] == "hello again"
        assert section.get_metrics()["summaries_discarded"] == 1


async def test_deleting_in_another_process_reaches_the_next_context_here(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with Memory(url) as memory, Memory(url) as other, summarized(ScriptedModel(["secret"])) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        assert "secret" in (await shown(section, memory)).summary_text
        await other.delete_message("ana", "trip", "m1")
        assert "secret" not in " ".join((await shown(section, memory)).texts)


async def test_a_summary_of_another_process_is_shown_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    model = HeldModel()
    async with (
        Memory(url) as memory,
        Memory(url) as other,
        summarized(ScriptedModel(["theirs"])) as first,
        summarized(model) as second,
    ):
        await asks(memory, 8)
        assert (await shown(second, other)).summary is None
        await asks(memory, 1)
        await shown(first, memory)
        await first.settled()
        assert "theirs" in (await shown(second, other)).summary_text
    assert model.calls == []


# -- models -------------------------------------------------------------------------------------------


class Opaque:
    """A reply in no known shape, whose `repr` looks like an answer."""

    def __repr__(self) -> str:
        return "ChatCompletion(id='x')"


LONG_ECHO = " ".join(f"the quick brown fox number {number} jumps over it" for number in range(400))
UNFIT = {
    "raises": RuntimeError("boom"),
    "refuses with 500": refusing(500),
    "empty": "",
    "blank": " \n ",
    "None": {"content": None},
    "a repr": {"content": Opaque()},
    "a tool call": '{"name": "look", "arguments": {}}',
    "only calls": {"content": None, "tool_calls": [{"id": "a", "function": {"name": "look"}}]},
    "filtered": {"choices": [{"message": {"content": "I cannot"}, "finish_reason": "content_filter"}]},
    "an error body": {"error": {"message": "overloaded"}, "content": "overloaded"},
}


@pytest.mark.parametrize("answer", [*UNFIT.values(), "opaque object"], ids=[*UNFIT, "an object"])
async def test_an_unfit_answer_keeps_the_history_and_is_counted(memory: Memory, answer: Any) -> None:
    model = ScriptedModel([lambda call: Opaque() if answer == "opaque object" else answer])
    async with summarized(model) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        assert (await shown(section, memory)).messages == users(9)
        assert (await memory.summary("ana", "trip")).segments == ()
        counted = section.get_metrics()
        assert (counted["background_tasks_failed"], counted["summaries_committed"]) == (1, 0)
        assert counted["background_tasks_completed"] == 0


async def test_an_echo_of_the_conversation_is_refused(memory: Memory) -> None:
    model = ScriptedModel([LONG_ECHO])
    async with summarized(model, size=8192) as section:
        await memory.append("ana", "trip", Message("user", LONG_ECHO, id="long"), *users(8, 2))
        await shown(section, memory)
        await section.settled()
        assert (await shown(section, memory)).summary is None
        assert section.get_metrics()["refused_by_reason"] == {"echo": 1}


async def test_the_prompt_itself_is_no_summary(memory: Memory) -> None:
    async with summarized(ScriptedModel([lambda call: call.prompt])) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        assert (await memory.summary("ana", "trip")).segments == ()
        assert section.get_metrics()["refused_by_reason"] == {"echo": 1}


async def test_a_summary_that_stays_too_long_is_asked_for_again_once_then_shortened_and_marked(
    memory: Memory,
) -> None:
    wordy = " ".join(f"Sentence number {number} says something else." for number in range(24))
    assert 128 < memory.token_counter.count_text(wordy) < 256
    model = ScriptedModel([wordy])
    async with summarized(model, size=512) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        [segment] = (await memory.summary("ana", "trip")).segments
        assert len(model.calls) == 2
        assert segment.text.endswith("[shortened]")
        assert memory.token_counter.count_text(segment.text) <= 512 // 4
        assert section.get_metrics()["summaries_repaired"] == 1


def parts(text: str) -> Any:
    return SimpleNamespace(content=[SimpleNamespace(type="text", text=text)])


def choices(text: str) -> Any:
    message = SimpleNamespace(content=text, tool_calls=None)
    return SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason="stop")])


SHAPES: dict[str, Any] = {
    "text": lambda text: text,
    ".text": lambda text: SimpleNamespace(text=text),
    ".content": lambda text: SimpleNamespace(content=text),
    ".content parts": parts,
    ".choices": choices,
    "dict of text": lambda text: {"text": text},
    "dict of content": lambda text: {"content": text},
    "dict of parts": lambda text: {"content": [{"type": "text", "text": text}]},
    "dict of choices": lambda text: {"choices": [{"message": {"content": text}}]},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_a_reply_in_any_usual_shape_is_read(memory: Memory, shape: Any) -> None:
    async with summarized(ScriptedModel([shape("they planned a trip")])) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        [segment] = (await memory.summary("ana", "trip")).segments
        assert segment.text == "they planned a trip"


async def test_a_model_with_a_plain_function_is_asked_too(memory: Memory) -> None:
    class Plain:
        def complete_chat(self, messages: Any, **options: Any) -> str:
            return "from a plain function"

    async with summarized(Plain()) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        assert "from a plain function" in (await shown(section, memory)).summary_text


async def test_without_a_model_the_summary_is_a_digest(memory: Memory) -> None:
    async with summarized(None) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        found = await shown(section, memory)
        assert found.window == [6, 7, 8, 9]
        assert "said 1" in found.summary_text
        [segment] = (await memory.summary("ana", "trip")).segments
        assert (segment.model, segment.provisional) == ("digest", False)


# -- what the summarizer is told ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "instructions",
    ['Reply as {"summary": "..."}.\n{conversation}\nKeep {names}.', 'Keep everything like {"id": 1} and {}'],
)
async def test_instructions_and_content_with_braces_are_taken_literally(
    memory: Memory, instructions: str
) -> None:
    model = HeldModel()
    async with summarized(model, instructions=instructions) as section:
        await memory.append(
            "ana", "trip", Message("user", 'set {"a": {0}} %s {conversation}', id="j"), *users(8, 2)
        )
        await shown(section, memory)
        call = await model.wait_for_call()
        for piece in instructions.split("{conversation}"):
            assert piece.strip() in call.prompt
        assert 'set {"a": {0}} %s {conversation}' in call.prompt
        assert "said 2" in call.prompt
        call.answer()
        await section.settled()
        assert (await shown(section, memory)).summary is not None


async def test_the_system_section_never_reaches_the_summarizer(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model) as section:
        template = ContextTemplate([SystemInstructionsSection("the hidden rules"), section])
        await asks(memory, 9)
        composed = await template.compose(memory, "ana", "trip")
        assert "the hidden rules" in composed.messages[0].text
        assert "the hidden rules" not in (await model.wait_for_call()).prompt


async def test_two_tenants_never_see_each_others_words(memory: Memory) -> None:
    model = ScriptedModel([lambda call: "cats" if "about cats" in call.prompt else "dogs"])
    places = {("a", "b:c"): "cats", ("a:b", "c"): "dogs"}
    async with summarized(model) as section:
        for turn in range(20):
            for (scope, conversation), animal in places.items():
                message = Message("user", f"turn {turn} about {animal}", id=f"m{turn}")
                await memory.append(scope, conversation, message)
                found = await shown(section, memory, scope, conversation)
                await section.settled()
                other = "dogs" if animal == "cats" else "cats"
                assert other not in " ".join(found.texts)
        assert all(("about cats" in call.prompt) != ("about dogs" in call.prompt) for call in model.calls)
        assert not any("cats" in call.prompt and "dogs" in call.prompt for call in model.calls)
        assert len(model.calls) >= 6


async def test_a_store_at_the_address_of_a_freed_one_does_not_inherit_its_summary() -> None:
    """Whichever object gets the memory of a freed one: what is kept of summaries belongs to one store."""

    async def written(text: str) -> Memory:
        made = Memory()
        async with summarized(ScriptedModel([text])) as writer:
            await asks(made, 9)
            await shown(writer, made)
            await writer.settled()
        return made

    async with summarized(None) as section:
        for number in range(50):
            memory = await written(f"secret of tenant {number}")
            assert f"tenant {number}\n" in (await shown(section, memory)).summary_text
            # The next one is likely to get its address.
            del memory


# -- pins ---------------------------------------------------------------------------------------------


async def test_a_pinned_message_is_shown_verbatim_before_the_summary(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        await asks(memory, 9)
        assert await memory.pin("ana", "trip", "m2")
        assert (await shown(section, memory)).messages == users(9)
        await section.settled()
        found = await shown(section, memory)
        assert found.texts[0].partition("\n")[2] == users(1, 2)[0].text
        assert found.messages[0].id == "m2"
        assert (found.pins, found.window) == ([2], [6, 7, 8, 9])
        assert await memory.unpin("ana", "trip", "m2")
        assert (await shown(section, memory)).pins == []
        assert not await memory.pin("ana", "trip", "nobody")


async def test_pins_are_capped_by_tokens_newest_first(memory: Memory) -> None:
    async with summarized(ScriptedModel(), pin_tokens=100) as section:
        for number in range(1, 10):
            text = f"rule {number} " + "word " * 30
            await memory.append("ana", "trip", Message("user", text, id=f"m{number}"))
            await memory.pin("ana", "trip", f"m{number}")
        await shown(section, memory)
        await section.settled()
        found = await shown(section, memory)
        assert found.pins
        assert found.pins[-1] == 5
        assert found.pins == list(range(6 - len(found.pins), 6))
        [omission] = found.omitted
        left = [at for at in range(1, 6) if at not in found.pins]
        assert (omission.what, omission.first, omission.last) == ("pins", left[0], left[-1])
        assert omission.reason == f"pin_tokens: no room for what is pinned at {', '.join(map(str, left))}"
        assert memory.token_counter.count_messages(found.messages[: len(found.pins)]) <= 100


async def test_one_pin_that_is_too_large_is_cut_and_marked(memory: Memory) -> None:
    async with summarized(ScriptedModel(), pin_tokens=100) as section:
        await memory.append("ana", "trip", Message("user", "word " * 2000, id="m1"), *users(8, 2))
        await memory.pin("ana", "trip", "m1")
        await shown(section, memory)
        await section.settled()
        found = await shown(section, memory)
        assert "not shown here" in found.texts[0]
        assert memory.token_counter.count_messages(found.messages[:1]) <= 100


async def test_a_pinned_result_stands_without_its_call(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        await memory.append("ana", "trip", *users(1), calls("a", name="c"), *results("a"), *users(7, 10))
        await memory.pin("ana", "trip", "result-a")
        await memory.pin("ana", "trip", "c")
        await shown(section, memory)
        await section.settled()
        found = await shown(section, memory)
        assert found.pins == [2, 3]
        assert "look({})" in found.texts[0]
        assert "found a" in found.texts[1]
        assert validate_tool_pairing(found.messages) == (True, None)


async def test_a_pin_says_on_which_day_and_by_whom_it_was_said_and_stays_the_same(memory: Memory) -> None:
    late = "2026-05-02T23:30:00Z"
    image = [{"type": "text", "text": "the map"}, {"type": "image_url", "image_url": "https://example.org/m"}]
    said = [
        Message("user", "at most 80 EUR a night", id="u", created_at=late),
        Message("assistant", "I booked the Ibis.", id="a", created_at=late),
        Message("user", image, id="i", created_at=late),
        Message("system", "Be kind.", id="s", created_at=late),
    ]
    async with summarized(ScriptedModel(), timezone="Europe/Berlin") as section:
        await memory.append("ana", "trip", *said, *users(8, 5))
        for message in said:
            await memory.pin("ana", "trip", message.id)
        await shown(section, memory)
        await section.settled()
        first = await shown(section, memory)
        user, assistant, map_, system = first.messages[:4]
        assert (user.role, user.text) == (
            "user",
            "[Pinned message 1, said on 3 May 2026]\nat most 80 EUR a night",
        )
        assert assistant.role == "user", "what it has before it is not its own question"
        assert assistant.text == "[Pinned message 2, said by the assistant on 3 May 2026]\nI booked the Ibis."
        assert map_.text.startswith("[Pinned message 3, said on 3 May 2026]\n")
        assert map_.parts[1:] == said[2].parts
        assert (system.role, system.text) == ("system", "[Pinned message 4, said on 3 May 2026]\nBe kind.")
        await asks(memory, 1)
        again = await shown(section, memory)
        assert [message.model_dump() for message in again.messages[:4]] == [
            message.model_dump() for message in first.messages[:4]
        ]


async def test_a_pin_that_replaces_another_is_shown_in_its_place(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        await asks(memory, 9)
        await memory.pin("ana", "trip", "m2")
        await shown(section, memory)
        await section.settled()
        assert await memory.pin("ana", "trip", "m3", replaces="m2")
        assert (await shown(section, memory)).pins == [3]
        with pytest.raises(NotPinned, match="'m2' is not pinned in this conversation"):
            await memory.pin("ana", "trip", "m4", replaces="m2")
        with pytest.raises(ValueError, match="name another pinned message"):
            await memory.pin("ana", "trip", "m3", replaces="m3")
        assert (await shown(section, memory)).pins == [3]


async def test_a_pin_goes_with_its_message(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        await asks(memory, 9)
        await memory.pin("ana", "trip", "m2")
        await shown(section, memory)
        await section.settled()
        await memory.delete_message("ana", "trip", "m2")
        assert "said 2" not in (await shown(section, memory)).texts


async def test_a_pinned_newest_user_message_is_shown_once(memory: Memory) -> None:
    async with summarized(ScriptedModel()) as section:
        await memory.append("ana", "trip", *users(1))
        await memory.pin("ana", "trip", "m1")
        for number in range(6):
            await memory.append("ana", "trip", calls(f"c{number}", name=f"a{number}"), *results(f"c{number}"))
        await shown(section, memory)
        await section.settled()
        found = await shown(section, memory)
        assert found.summary is not None
        assert found.texts.count("said 1") == 1


# -- hooks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
async def test_hooks_are_told_before_and_after(memory: Memory, waits: bool) -> None:
    told: list[tuple[str, SummaryEvent]] = []

    def telling(name: str, kind: SummaryHook) -> Any:
        def plain(event: SummaryEvent) -> None:
            told.append((name, event))

        async def waiting(event: SummaryEvent) -> None:
            told.append((name, event))

        return hook(kind)(waiting if waits else plain)

    hooks = [telling("before", SummaryHook.BEFORE_SUMMARY), telling("after", SummaryHook.AFTER_SUMMARY)]
    async with summarized(ScriptedModel(["text"]), hooks=hooks) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
    assert [name for name, _ in told] == ["before", "after"]
    for _, event in told:
        assert (event.scope, event.conversation, event.agent) == ("ana", "trip", "")
        assert (event.first, event.last, event.messages) == (1, 5, 5)
    assert told[0][1].segment is None
    assert told[1][1].segment is not None
    assert told[1][1].segment.text == "text"


async def test_a_failing_hook_harms_nothing(memory: Memory) -> None:
    @hook(SummaryHook.BEFORE_SUMMARY)
    def failing(event: SummaryEvent) -> None:
        raise RuntimeError("the hook's own affair")

    @hook(SummaryHook.AFTER_SUMMARY)
    async def failing_later(event: SummaryEvent) -> None:
        raise RuntimeError("the hook's own affair")

    async with summarized(ScriptedModel(), hooks=[failing, failing_later]) as section:
        await asks(memory, 9)
        await shown(section, memory)
        await section.settled()
        assert (await shown(section, memory)).window == [6, 7, 8, 9]
        assert section.get_metrics()["hooks_failed"] == 2
        assert section.get_metrics()["background_tasks_completed"] == 1


# -- the default template -----------------------------------------------------------------------------


async def test_the_default_template_summarizes_with_the_agents_own_model(memory: Memory) -> None:
    model = ScriptedModel(["they planned a trip"])
    template = create_default_template("be kind", context_summary={"floor": 4, "ceiling": 8}, model=model)
    section = template.get_section("conversation_history")
    assert isinstance(section, SummarizedHistorySection)
    async with section:
        await asks(memory, 9)
        await template.compose(memory, "ana", "trip")
        await section.settled()
        composed = await template.compose(memory, "ana", "trip")
        assert "they planned a trip" in composed.messages[2].text
        assert [origin.position for origin in composed.origins()][3:] == [6, 7, 8, 9]
    assert len(model.calls) == 1


async def test_with_lead_a_summary_starts_before_the_ceiling_is_passed(memory: Memory) -> None:
    model = HeldModel()
    async with summarized(model, 4, 12, lead=True) as section:

        async def say(first: int, number: int) -> None:
            for at in range(first, first + number):
                # A microsecond apart: far more would arrive than any summary takes time.
                said = {"role": "user", "content": f"said {at}", "id": f"m{at}", "timestamp": at / 1e6}
                await memory.append("ana", "trip", said)

        await say(1, 13)
        await shown(section, memory)
        (await model.wait_for_call()).answer()
        await section.settled()
        await say(14, 7)
        assert len((await shown(section, memory)).window) == 11
        for _ in range(3):
            await shown(section, memory)
        while section.get_cache_info()["pending_summarizations"] and len(model.calls) < 2:
            await anyio.lowlevel.checkpoint()
        assert len(model.calls) == 2
