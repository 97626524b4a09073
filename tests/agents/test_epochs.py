"""Requests grow by appending: each one begins with the one before, or an epoch has ended."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.epoch_talk import (
    ACTIONS,
    HISTORIES,
    KINDS,
    WHERE,
    Talk,
    Texts,
    check_requests,
    run_actions,
    shown,
)
from agents.kit import call, calls
from hypothesis import given

from autonomy_ctx import (
    Agent,
    AgentHook,
    ConversationHistorySection,
    ProfileSection,
    SummarizedHistorySection,
    hook,
)
from autonomy_ctx.agents.explain import RECORD_KIND
from autonomy_ctx.errors import ContextOverflow
from autonomy_ctx.memory.store import Key
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_store import EPOCH_KIND, PART_KIND
from autonomy_ctx.testing import ScriptedModel


def sections_of(texts: Texts) -> list[Any]:
    return [texts.rule, texts.notes, ConversationHistorySection(), texts.clock, texts.found]


@pytest.mark.anyio
async def test_sections_that_change_are_appended_and_the_rest_stays(tmp_path: Path) -> None:
    texts = Texts()
    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections_of, texts) as talk:
        for hour in range(10, 16):
            texts.clock.text, texts.found.text = f"It is {hour}:00.", f"Found: {hour}."
            await talk.turn(f"hour {hour}", steps=hour % 3)
            if hour == 12:
                await talk.open()
        check_requests(talk.sent)
        assert not any(talk.ends())
        last = talk.sent[-1].context
    said = [message.text for message in last.messages]
    assert said.count("[clock, now; replaces what it said before]\nIt is 15:00.") == 1
    assert [text for text in said if text.startswith("Found")] == [
        f"Found: {hour}." for hour in range(10, 16)
    ]
    assert last.epoch == 1


@given(actions=ACTIONS, kind=KINDS)
def test_each_request_begins_with_the_one_before_or_an_epoch_has_ended(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str], kind: str
) -> None:
    folder = tmp_path_factory.mktemp("epochs")
    sent = anyio.run(run_actions, f"sqlite:///{folder}/memory.db", actions, kind)
    assert sent
    check_requests(sent)


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    texts = Texts()
    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections_of, texts) as made:
        yield made


@pytest.mark.anyio
async def test_a_stable_section_that_changes_ends_the_epoch_in_the_next_turn(talk: Talk) -> None:
    await talk.turn("one")

    def change(asked: Any) -> Any:
        talk.texts.rule.text = "Be long."
        return calls(call("look_up"))

    talk.replies = [change]
    await talk.turn("two")
    await talk.turn("three")
    assert talk.ends() == [None, None, EndReason.INSTRUCTIONS]
    assert "Be long." in talk.sent[-1].shown


@pytest.mark.anyio
async def test_agents_that_take_turns_go_on_from_their_own_beginning(talk: Talk) -> None:
    for rule in ("A", "B", "A", "B"):
        talk.texts.rule.text = rule
        await talk.turn(f"for {rule}")
    first, second, third, fourth = talk.sent
    assert talk.ends() == [EndReason.INSTRUCTIONS, None, None]
    assert third.shown.startswith(first.shown[:-1])
    assert fourth.shown.startswith(second.shown[:-1])


@pytest.mark.anyio
@pytest.mark.parametrize("history", ["plain", "hard", "budget"])
async def test_a_turn_of_a_hundred_steps_ends_epochs_only_at_limits(tmp_path: Path, history: str) -> None:
    options: dict[str, Any] = {"max_tokens": 2_000} if history == "budget" else {}

    def sections(texts: Texts) -> list[Any]:
        return [texts.rule, HISTORIES[history](), texts.clock, texts.found]

    url, limits = f"sqlite:///{tmp_path}/memory.db", {"steps": 101}
    async with Talk(url, sections, Texts(), limits=limits, **options) as talk:
        await talk.turn("begin")
        talk.texts.clock.text, talk.texts.found.text = "It is 11:00.", "Found."
        await talk.turn("a long one", steps=100)
        check_requests(talk.sent)
    assert len(talk.sent) == 102
    ends = {reason for reason in talk.ends() if reason}
    assert ends <= {"plain": set(), "budget": {EndReason.BUDGET}}.get(history, {EndReason.HARD_LIMIT})
    assert len(ends) == (history != "plain")
    if history != "budget":
        # The question stands before the window, and what has no room beside it is in a digest.
        assert not any(request.context.omitted for request in talk.sent)


@pytest.mark.anyio
async def test_a_question_that_stood_before_the_window_stays_there_in_later_turns(tmp_path: Path) -> None:
    def fail(asked: Any) -> str:
        raise RuntimeError("the summary model is away")

    made: list[SummarizedHistorySection] = []

    def sections(texts: Texts) -> list[Any]:
        # No summary is written, so only the hard limit ends epochs.
        made.append(SummarizedHistorySection(ScriptedModel([fail]), floor=3, ceiling=10))
        return [texts.rule, made[-1]]

    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections, Texts()) as talk:
        await talk.turn("begin")
        await talk.turn("a long one", steps=9)
        # The digest covers the question, which stands before the calls that are left.
        assert talk.ends()[-1] is EndReason.HARD_LIMIT
        question = talk.sent[-1].context.messages[2]
        assert question.text == "a long one"
        await talk.agent.pin(question.id, **WHERE)
        await talk.turn("next")
        await made[-1].settled()
        await talk.open()
        await talk.turn("in another process")
        check_requests(talk.sent)
        assert talk.ends()[-2:] == [None, None]
        last = talk.sent[-1].context
    assert last.messages[2] == question
    assert "Pinned message" not in talk.sent[-1].shown, "it is shown once"


@pytest.mark.anyio
@pytest.mark.parametrize("after", ["go on", "restart", "other process"])
@pytest.mark.parametrize(("size", "has_room"), [(1_000, True), (200, False)])
async def test_facts_of_a_digest_that_are_stored_after_it_was_shown_are_appended(
    tmp_path: Path, after: str, size: int, has_room: bool
) -> None:
    def fail(asked: Any) -> str:
        raise RuntimeError("the summary model is away")

    def sections(texts: Texts) -> list[Any]:
        made = SummarizedHistorySection(ScriptedModel([fail]), floor=3, ceiling=10, size=size)
        return [texts.rule, made]

    url = f"sqlite:///{tmp_path}/memory.db"
    async with Talk(url, sections, Texts()) as talk, Talk(url, sections, Texts()) as other:
        other.sent = talk.sent
        await talk.turn(" ".join(f"Never book anything above {number} EUR." for number in range(11, 19)))
        await talk.turn("a long one", steps=9)
        digested = talk.sent[-1]
        assert talk.ends()[-1] is EndReason.HARD_LIMIT
        assert "[What holds now" not in digested.shown
        # The digest is stored with the facts of its messages.
        await talk.agent.settled()
        stored = await talk.agent.facts(**WHERE)
        if after == "restart":
            await talk.open()
        await (other if after == "other process" else talk).turn("next")
        await talk.turn("and on")
        check_requests(talk.sent)
    assert len(stored) == 8
    appended = [f"[What holds now, too]\n{fact.id} rule: {fact.text}" for fact in stored]
    if has_room:
        assert talk.ends()[-2:] == [None, None]
        assert [message.text for message in talk.sent[-2].context.messages[-8:]] == appended
        assert talk.sent[-1].shown.count("[What holds now") == 8
    else:
        # They are shown anew, as far as they have room. Another process names the digest as the reason.
        assert talk.ends()[-2] is (EndReason.EDIT if after == "go on" else EndReason.HARD_LIMIT)
        assert talk.ends()[-1] is None
        assert talk.sent[-1].shown.count("[What holds now]") == 1


@pytest.mark.anyio
async def test_a_section_that_keeps_the_latest_ends_each_turn(tmp_path: Path) -> None:
    texts = Texts()
    texts.clock.keep = "latest"
    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections_of, texts) as talk:
        for hour in range(3):
            texts.clock.text = f"It is {hour}:00."
            await talk.turn(f"hour {hour}", steps=1)
    assert talk.ends() == [None, EndReason.LATEST, None, EndReason.LATEST, None]
    assert talk.sent[-1].shown.count("It is") == 1


@pytest.mark.anyio
async def test_texts_that_were_replaced_do_not_fill_the_context(talk: Talk) -> None:
    for number in range(12):
        talk.texts.notes.text = f"Note {number}. " + "word " * 60 * (number % 2 + 1)
        await talk.turn(f"turn {number}")
    ends = [reason for reason in talk.ends() if reason]
    assert ends
    assert set(ends) == {EndReason.SUPERSEDED_TEXT}
    check_requests(talk.sent)


@pytest.mark.anyio
async def test_lines_that_change_do_not_replace_the_rest_of_a_long_text(talk: Talk) -> None:
    lines = [f"Order {number} was sent on day {number}." for number in range(40)]
    for number in range(12):
        lines[number] = f"Order {number} has arrived."
        talk.texts.notes.text = "\n".join(lines)
        await talk.turn(f"turn {number}")
    assert not any(talk.ends())
    last = [one.text for one in talk.sent[-1].context.messages if one.text.startswith("[notes")][-1]
    assert last == (
        "[notes, changed; the rest holds]\n+ Order 11 has arrived.\n- Order 11 was sent on day 11."
    )


@pytest.mark.anyio
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_removed_entry_of_a_profile_is_in_no_later_request(tmp_path: Path, restarts: bool) -> None:
    def sections(texts: Texts) -> list[Any]:
        return [texts.rule, ProfileSection(), ConversationHistorySection()]

    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections, Texts()) as talk:
        profile = talk.agent.profile(scope="ana")
        secret = await profile.add("preference", "prefers the night train")
        await talk.turn("one")
        await profile.add("preference", "likes tea")
        await talk.turn("two")
        assert talk.ends() == [None], "what is added is appended"
        assert "likes tea" in talk.sent[-1].shown
        if restarts:
            await talk.open()
        await talk.agent.profile(scope="ana").remove(secret.id)
        stored = talk.agent.memory.store
        for kind in (EPOCH_KIND, PART_KIND, RECORD_KIND):
            assert await stored.read_records(Key("shop", "ana", "trip"), kind) == [], kind
        await talk.turn("three")
        assert talk.ends() == [None, EndReason.DELETION]
        assert "night train" not in talk.sent[-1].shown


@pytest.mark.anyio
@pytest.mark.parametrize("restarts", [False, True])
async def test_another_list_of_sections_is_not_taken_for_a_deletion(tmp_path: Path, restarts: bool) -> None:
    extra: list[Any] = []

    def sections(texts: Texts) -> list[Any]:
        return [texts.rule, ConversationHistorySection(), *extra]

    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections, Texts()) as talk:
        await talk.turn("one")
        if restarts:
            extra.append(ProfileSection())
            await talk.open()
        else:
            assert talk.agent.context_template is not None
            talk.agent.context_template.add_section(ProfileSection())
        await talk.turn("two")
        # Another process does not know which sections there were.
        assert talk.ends() == [EndReason.NOT_RECORDED if restarts else EndReason.INSTRUCTIONS]


@pytest.mark.anyio
async def test_an_entry_that_is_removed_while_a_model_answers_is_not_stored(tmp_path: Path) -> None:
    def sections(texts: Texts) -> list[Any]:
        return [texts.rule, ProfileSection(), ConversationHistorySection()]

    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections, Texts()) as talk:
        secret = await talk.agent.profile(scope="ana").add("preference", "prefers the night train")

        # A call is stored with its results: when it is run, nothing of its request is.
        @hook(AgentHook.BEFORE_CALL)
        async def forget(*_: object) -> None:
            await talk.agent.profile(scope="ana").remove(secret.id)

        talk.agent.hooks.append(forget)
        talk.steps = 1
        reply = await talk.agent.send("one", **WHERE)
        assert reply.steps == 2
        for kind in (EPOCH_KIND, PART_KIND, RECORD_KIND):
            found = await talk.agent.memory.store.read_records(Key("shop", "ana", "trip"), kind)
            assert "night train" not in str(found)
        await talk.turn("two")
        assert "night train" not in talk.sent[-1].shown


@pytest.mark.anyio
async def test_an_epoch_ends_by_hand(talk: Talk) -> None:
    assert not await talk.agent.end_epoch(**WHERE)
    await talk.turn("one")
    talk.texts.clock.text = "It is 11:00."
    await talk.turn("two")
    assert await talk.agent.end_epoch(**WHERE)
    await talk.turn("three")
    await talk.turn("four")
    assert talk.ends() == [None, EndReason.BY_HAND, None]
    assert talk.sent[-1].shown.count("It is") == 1


@pytest.mark.anyio
async def test_a_request_that_was_too_long_ends_the_epoch(tmp_path: Path) -> None:
    texts = Texts()
    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections_of, texts) as talk:
        for number in range(8):
            await talk.turn(f"turn {number} " + "word " * 100)
        talk.replies = [ContextOverflow("too long", window=None)]
        await talk.turn("and now?")
    assert talk.ends() == [*[None] * 7, None, EndReason.DID_NOT_FIT]


@pytest.mark.anyio
async def test_a_row_that_is_gone_is_not_gone_on_from_and_its_reply_is_stored(talk: Talk) -> None:
    await talk.turn("one")
    key = Key("shop", "ana", "trip")

    def lose(asked: Any) -> str:
        # As another process does whose request came first.
        path = talk.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE record SET body = json_quote('{}') WHERE kind = 'epoch'")
        return "Yes."

    talk.replies = [lose]
    await talk.turn("two")
    texts = [entry.message.text for entry in (await talk.agent.memory.read("ana", "trip")).entries]
    assert texts == ["one", "Yes.", "two", "Yes."]
    [record] = await talk.agent.memory.store.read_records(key, EPOCH_KIND)
    assert record.body == "{}"
    await talk.turn("three")
    assert talk.ends() == [None, EndReason.DELETION]


@pytest.mark.anyio
async def test_a_view_does_not_change_what_is_sent(talk: Talk) -> None:
    for number in range(4):
        talk.texts.clock.text = f"It is {number}:00."
        await talk.turn(f"turn {number}")
        agent = talk.agent
        views = [shown(await agent.context_template.compose(agent.memory, "ana", "trip")) for _ in range(2)]
        assert views[0] == views[1]
        assert "replaces what it said" not in views[0]
    assert not any(talk.ends())


@pytest.mark.anyio
async def test_a_context_of_another_conversation_is_refused(talk: Talk) -> None:
    await talk.turn("one")
    other = await talk.agent.context_template.compose(talk.agent.memory, "ana", "other")
    with pytest.raises(ValueError, match="previous is a context of 'other' of 'ana'; give one of this"):
        await talk.agent.context_template.compose(talk.agent.memory, "ana", "trip", previous=other)


@pytest.mark.anyio
async def test_with_render_each_context_is_made_anew(tmp_path: Path) -> None:
    texts = Texts()
    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections_of, texts, context="render") as talk:
        for number in range(3):
            texts.clock.text = f"It is {number}:00."
            await talk.turn(f"turn {number}")
        assert talk.sent[-1].shown.count("It is") == 1
        assert await talk.agent.memory.store.read_records(Key("shop", "ana", "trip"), EPOCH_KIND) == []
    with pytest.raises(ValueError, match="context is 'new'; it must be log or render"):
        Agent("shop", context="new")  # type: ignore[arg-type]


async def ask_fork(talk: Talk, name: str) -> ComposedContext:
    await talk.agent.send("three", scope="ana", conversation=name)
    return await talk.agent.explain(scope="ana", conversation=name)


@pytest.mark.anyio
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_fork_goes_on_from_the_turns_that_it_has(talk: Talk, restarts: bool) -> None:
    ends = []
    for hour in (10, 11, 12):
        talk.texts.clock.text = f"It is {hour}:00."
        await talk.turn(f"hour {hour}", steps=hour - 10)
        ends.append((await talk.agent.memory.head("ana", "trip")).position)
    last_of_turn = [talk.sent[at].shown for at in (0, 2, 5)]
    forks = [await talk.agent.fork(at=at, **WHERE) for at in (None, ends[1], ends[0] + 1, ends[0], 1)]
    if restarts:
        await talk.open()
    newest, second, asked, first, none = [await ask_fork(talk, name) for name in forks]
    assert shown(newest).startswith(last_of_turn[2][:-1])
    assert shown(second).startswith(last_of_turn[1][:-1])
    assert shown(asked).startswith(last_of_turn[0][:-1])
    assert shown(first).startswith(last_of_turn[0][:-1])
    assert {one.end_reason for one in (newest, second, asked, first)} == {None}
    assert "It is 11:00." not in shown(first)
    # Of this one no turn was answered.
    assert (none.epoch, none.end_reason) == (1, None)
    # A call was answered to a request that is in no fork.
    cut = await ask_fork(talk, await talk.agent.fork(at=ends[1] - 1, **WHERE))
    assert cut.end_reason is EndReason.NOT_RECORDED
    await talk.turn("four")
    assert not any(talk.ends())
    check_requests(talk.sent)


@pytest.mark.anyio
async def test_a_fork_keeps_what_its_parent_said_until_both_have_ended(talk: Talk) -> None:
    await talk.turn("one")
    talk.texts.clock.text = "It is 11:00."
    await talk.turn("two")
    name = await talk.agent.fork(**WHERE)
    assert await talk.agent.end_epoch(**WHERE)
    await talk.turn("anew")
    await talk.open()
    forked = await ask_fork(talk, name)
    assert "[clock, now; replaces what it said before]\nIt is 11:00." in [one.text for one in forked.messages]
    assert forked.end_reason is None


@pytest.mark.anyio
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_fork_numbers_its_epochs_on(talk: Talk, restarts: bool) -> None:
    await talk.turn("one")
    talk.texts.rule.text = "Be long."
    await talk.turn("two")
    name = await talk.agent.fork(**WHERE)
    if restarts:
        await talk.open()
    talk.texts.rule.text = "Be brief again."
    forked = await ask_fork(talk, name)
    assert (forked.epoch, forked.end_reason) == (3, EndReason.INSTRUCTIONS)


@pytest.mark.anyio
@pytest.mark.parametrize("restarts", [False, True])
async def test_dropping_the_last_turn_shortens_the_epoch(talk: Talk, restarts: bool) -> None:
    for hour in range(10, 14):
        talk.texts.clock.text = f"It is {hour}:00."
        await talk.turn(f"hour {hour}", steps=hour % 2)
    for _ in range(2):
        await talk.agent.drop_last_turn(**WHERE)
        stored = talk.agent.memory.store
        texts = [one.body for one in await stored.read_records(Key("shop", "ana", "trip"), PART_KIND)]
        assert not any("13:00" in text for text in texts)
        if restarts:
            await talk.open()
    talk.sent[:] = talk.sent[:3]
    talk.texts.clock.text = "It is 14:00."
    await talk.turn("again")
    assert not any(talk.ends())
    check_requests(talk.sent)
    assert talk.sent[-1].context.epoch == 1
    for _ in range(3):
        await talk.agent.drop_last_turn(**WHERE)
    await talk.turn("from the beginning")
    assert "hour 10" not in talk.sent[-1].shown


@pytest.mark.anyio
async def test_a_summary_that_came_before_a_turn_was_dropped_is_told(tmp_path: Path) -> None:
    def sections(texts: Texts) -> list[Any]:
        return [texts.rule, SummarizedHistorySection(None, floor=2, ceiling=6), texts.clock]

    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections, Texts()) as talk:
        while not (await talk.agent.summary(**WHERE)).segments:
            talk.texts.clock.text = f"It is {len(talk.sent)}:00."
            await talk.turn(f"message {len(talk.sent)}")
            await talk.agent.settled()
        assert not any(talk.ends())
        await talk.agent.drop_last_turn(**WHERE)
        await talk.turn("again")
    assert talk.ends()[-1] is EndReason.SWAP


@pytest.mark.anyio
async def test_a_turn_that_failed_is_dropped_without_an_end(talk: Talk) -> None:
    await talk.turn("one")
    talk.replies = [RuntimeError("away")]
    with pytest.raises(RuntimeError, match="away"):
        await talk.turn("two")
    await talk.agent.drop_last_turn(**WHERE)
    await talk.turn("two, again")
    assert talk.ends() == [None]
    check_requests(talk.sent)


@pytest.mark.anyio
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_pin_or_a_fact_of_a_user_is_appended_and_ends_the_epoch_when_it_is_gone(
    tmp_path: Path, restarts: bool
) -> None:
    def sections(texts: Texts) -> list[Any]:
        return [texts.rule, SummarizedHistorySection(None, floor=2, ceiling=14)]

    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections, Texts()) as talk:

        async def turn(text: str) -> None:
            if restarts:
                await talk.open()
            await talk.turn(text)
            await talk.agent.settled()

        while EndReason.SWAP not in talk.ends():
            await turn(f"message {len(talk.sent)}")
        agent, seen = talk.agent, len(talk.sent)
        first, second = [one.message.id for one in (await agent.read(**WHERE)).entries][:3:2]
        await agent.pin(first, **WHERE)
        await turn("pinned")
        fact = await talk.agent.facts(**WHERE).add("rule", "Never by plane.")
        await turn("a rule")
        await talk.agent.pin(second, **WHERE)
        await turn("pinned, too")
        await talk.agent.unpin(first, **WHERE)
        await turn("unpinned")
        await talk.agent.facts(**WHERE).remove(fact.id)
        await turn("no rule")
        check_requests(talk.sent)
    pinned, ruled, pinned_too, unpinned, no_rule = talk.sent[seen:]
    gone = EndReason.EDIT
    assert [one.context.end_reason for one in talk.sent[seen:]] == [None, None, None, gone, gone]
    assert "[Pinned message 1, said on" in pinned.context.messages[-1].text
    assert ruled.context.messages[-1].text == f"[What holds now, too]\n{fact.id} rule: Never by plane."
    assert pinned_too.context.origins()[-1].position == 3
    # At the beginning of an epoch they stand where they belong.
    assert [one.text.count("Never by plane.") for one in unpinned.context.messages][:4] == [0, 0, 1, 0]
    assert "message 1" in unpinned.context.messages[1].text
    assert "Pinned message 1," not in unpinned.shown
    assert "Never by plane." not in no_rule.shown


@pytest.mark.anyio
async def test_numbers_go_on_after_a_deletion_also_in_another_process(talk: Talk) -> None:
    await talk.turn("one")
    await talk.turn("two")
    oldest = (await talk.agent.read(**WHERE)).entries[0].message.id
    await talk.agent.delete_message(oldest, **WHERE)
    await talk.open()
    await talk.turn("three")
    assert [(one.context.epoch, one.context.end_reason) for one in talk.sent] == [
        (1, None),
        (1, None),
        (2, EndReason.DELETION),
    ]


@pytest.mark.anyio
async def test_a_deletion_is_told_also_if_no_reply_is_shown(tmp_path: Path) -> None:
    def sections(texts: Texts) -> list[Any]:
        return [texts.rule, ConversationHistorySection(max_messages=2)]

    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections, Texts()) as talk:
        await talk.turn("one")
        for text in ("two", "three"):
            await talk.agent.memory.append("ana", "trip", {"role": "user", "content": text})
        oldest = (await talk.agent.read(**WHERE)).entries[0].message.id
        await talk.agent.delete_message(oldest, **WHERE)
        await talk.open()
        await talk.turn("four")
    assert talk.ends() == [EndReason.DELETION]


@pytest.mark.anyio
@pytest.mark.parametrize("seconds", [0, 4000])
async def test_auto_drops_replaced_text_when_the_cache_is_cold(tmp_path: Path, seconds: int) -> None:
    clock = [0.0]

    def sections(texts: Texts) -> list[Any]:
        history = SummarizedHistorySection(
            ScriptedModel(context_window=100_000), auto=True, clock=lambda: clock[0]
        )
        return [texts.rule, texts.notes, history]

    async with Talk(f"sqlite:///{tmp_path}/memory.db", sections, Texts()) as talk:
        await talk.turn("begin " + "word " * 400)
        for number in range(3):
            clock[0] += seconds
            talk.texts.notes.text = f"Note {number}. " + "word " * 60
            await talk.turn(f"turn {number}")
        check_requests(talk.sent)
    # The first note is too short to be worth a new beginning.
    end = EndReason.SUPERSEDED_TEXT if seconds else None
    assert talk.ends() == [None, end, end]
