"""What all adapters share: what is stored of a framework's history, and what its model is shown."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from autonomy_ctx import (
    ChatRole,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SystemInstructionsSection,
    TextContent,
    ThinkingContent,
)
from autonomy_ctx.engine.engine import ContextEngine
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage, insert_before_question
from autonomy_ctx.errors import HistoryMismatch, InvalidKey, UnnamedConversation, UserMessageMissing
from autonomy_ctx.memory.store import Key
from autonomy_ctx.testing import HeldModel, ScriptedModel

TRIP = Key("", "ana", "trip")


def said(*texts: str) -> list[SourcedMessage]:
    """A history in which a user and an assistant take turns; the framework has the texts in capitals."""
    roles = ("user", "assistant")
    return [
        SourcedMessage(Message(roles[number % 2], text), text.upper()) for number, text in enumerate(texts)
    ]


def rules(text: str) -> list[SourcedMessage]:
    return [SourcedMessage(Message("system", text), "RULES")]


def sources(context: FrameworkContext) -> list[str | None]:
    return [one.source for one in context.messages]


async def stored(memory: Memory, conversation: str = "trip") -> list[str]:
    return [entry.message.text for entry in (await memory.read("ana", conversation)).entries]


async def test_a_history_that_grows_is_stored_once(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        for count in (1, 1, 3, 2, 5):
            history = said("a", "b", "a", "b", "a")[:count]
            if count != 2:
                context = await engine.compose(TRIP, history, instructions=rules("Be kind."))
                assert sources(context) == [one.source for one in history]
                assert context.instructions_text == "Be kind."
                assert [one.source for one in context.instructions] == ["RULES"]
    assert await stored(memory) == ["a", "b", "a", "b", "a"]


async def test_another_engine_goes_on_after_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with ContextEngine(scope="ana", memory=url) as engine:
        await engine.compose(TRIP, said("a", "b", "c"))
        await engine.compose(TRIP, said("a", "x"))
    async with ContextEngine(scope="ana", memory=url) as engine:
        fork = await engine.current_conversation("trip")
        assert fork != "trip"
        context = await engine.compose(TRIP, said("a", "x", "y"))
        assert sources(context) == ["A", "X", "Y"]
        assert await stored(engine.memory, fork) == ["a", "x", "y"]
        assert (await engine.explain("trip")).messages[-1].text == "y"


async def test_a_history_that_left_the_log_goes_on_in_a_fork_and_comes_back(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.compose(TRIP, said("a", "b", "c"))
        assert sources(await engine.compose(TRIP, said("a", "b", "d"))) == ["A", "B", "D"]
        fork = await engine.current_conversation("trip")
        assert sources(await engine.compose(TRIP, said("a", "b", "e"))) == ["A", "B", "E"]
        assert await engine.current_conversation("trip") not in ("trip", fork)
        assert sources(await engine.compose(TRIP, said("a", "b", "d", "f"))) == ["A", "B", "D", "F"]
        assert await engine.current_conversation("trip") == fork
        assert sources(await engine.compose(TRIP, said("a", "b", "c", "g", "h"))) == list("ABCGH")
        assert await engine.current_conversation("trip") == "trip"
    assert await stored(memory) == list("abcgh")
    assert await stored(memory, fork) == list("abdf")


async def test_a_step_back_alone_is_a_fork_too(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.compose(TRIP, said("a", "b", "c"))
        assert sources(await engine.compose(TRIP, said("a"))) == ["A"]


async def test_after_a_first_call_that_failed_the_framework_may_begin_anew(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.compose(TRIP, said("a"))
        assert sources(await engine.compose(TRIP, said("b"))) == ["B"]
        assert sources(await engine.compose(TRIP, said("b", "c", "d"))) == ["B", "C", "D"]


async def test_a_history_without_what_was_answered_is_refused(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.store_history(TRIP, said("a", "b"))
        with pytest.raises(HistoryMismatch, match="pass the whole history"):
            await engine.compose(TRIP, said("c"))
    assert await stored(memory) == ["a", "b"]


async def test_a_new_message_alone_goes_on_from_the_log(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.store_history(TRIP, said("a", "b"))
        context = await engine.compose(TRIP, said("c"), may_continue=True)
        assert [one.message.text for one in context.messages] == ["a", "b", "c"]
        assert sources(context) == [None, None, "C"]
        await engine.store_reply(TRIP, context, Message("assistant", "d"))
    # The framework's history begins with this message from now on, in other processes, too.
    async with ContextEngine(scope="ana", memory=memory) as engine:
        context = await engine.compose(TRIP, said("c", "d", "e"), may_continue=True)
        assert [one.message.text for one in context.messages] == ["a", "b", "c", "d", "e"]
        assert sources(context) == [None, None, "C", "D", "E"]
        with pytest.raises(HistoryMismatch):
            await engine.compose(TRIP, said("x", "d", "e"), may_continue=True)
        assert await engine.current_conversation("trip") == "trip"
    assert await stored(memory) == ["a", "b", "c", "d", "e"]


async def test_a_new_message_may_be_the_same_as_an_earlier_one(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        for count in range(1, 5):
            context = await engine.compose(TRIP, said("yes"), may_continue=True)
            assert sum(one.message.text == "yes" for one in context.messages) == count
            await engine.store_reply(TRIP, context, Message("assistant", "noted"))
        assert await engine.current_conversation("trip") == "trip"
    assert await stored(memory) == ["yes", "noted"] * 4


async def test_a_turn_that_was_not_answered_is_tried_again_without_its_history(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.compose(TRIP, said("a", "b", "c"))
    for _ in range(2):
        async with ContextEngine(scope="ana", memory=memory) as engine:
            context = await engine.compose(TRIP, said("c"), may_continue=True)
            assert [one.message.text for one in context.messages] == ["a", "b", "c"]
    assert await stored(memory) == ["a", "b", "c"]


async def test_another_process_may_have_gone_on_without_a_history(memory: Memory) -> None:
    async with (
        ContextEngine(scope="ana", memory=memory) as engine,
        ContextEngine(scope="ana", memory=memory) as other,
    ):
        await engine.store_history(TRIP, said("a", "b", "c", "d"))
        await other.compose(TRIP, said("e"), may_continue=True)
        context = await engine.compose(TRIP, said("e", "f", "g"))
        assert [one.message.text for one in context.messages] == list("abcdefg")


async def test_a_deleted_conversation_begins_at_its_beginning_again(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.store_history(TRIP, said("a", "b"))
        await engine.compose(TRIP, said("c"), may_continue=True)
        await memory.delete_conversation("ana", "trip")
        await engine.compose(TRIP, said("c"), may_continue=True)
    async with ContextEngine(scope="ana", memory=memory) as engine:
        assert sources(await engine.compose(TRIP, said("c", "d", "e"))) == ["C", "D", "E"]


async def test_another_agent_with_another_history_is_in_a_conversation_of_its_own(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        for history in (said("a"), said("a", "b", "c")):
            assert await engine.agent_key(TRIP, history, "guide") == TRIP
            await engine.compose(TRIP, history)
        inner = await engine.agent_key(TRIP, said("x"), "expert")
        assert inner.conversation == "trip/expert"
        # It begins anew each time; the same question is asked again, too.
        for _ in range(6):
            context = await engine.compose(inner, said("x"), may_begin_anew=True)
            assert sources(context) == ["X"]
            await engine.store_reply(inner, context, Message("assistant", "y"))
            # The model answers in other words each time.
            context = await engine.compose(inner, said("x"), may_begin_anew=True)
            await engine.store_reply(inner, context, Message("assistant", "z"))
        assert len(await engine.current_conversation("trip/expert")) < 30
        # One that takes over has the history.
        assert await engine.agent_key(TRIP, said("a", "b", "c", "d", "e"), "expert") == TRIP
    assert await stored(memory) == ["a", "b", "c"]


async def test_calls_of_one_conversation_at_once_do_not_mix(memory: Memory) -> None:
    shown: dict[str, Sequence[str | None]] = {}

    async def call(text: str) -> None:
        shown[text] = sources(await engine.compose(TRIP, said("a", "b", text)))

    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.compose(TRIP, said("a"))
        async with anyio.create_task_group() as group:
            for text in ("c", "d", "e"):
                group.start_soon(call, text)
    assert shown == {text: ["A", "B", text.upper()] for text in ("c", "d", "e")}


async def test_a_summary_stands_for_what_is_older_and_no_call_waits_for_it(memory: Memory) -> None:
    model = HeldModel()
    history = said(*(f"message {number}" for number in range(7)))
    async with ContextEngine(
        scope="ana", memory=memory, context_summary={"floor": 2, "ceiling": 4, "model": model}
    ) as engine:
        assert len((await engine.compose(TRIP, history)).messages) == 7
        call = await model.wait_for_call()
        call.answer("They counted the messages from 0 to 4.")
        await engine.background.idle()
        same = (await engine.compose(TRIP, history)).messages
        assert len(same) == 7, "inside a turn, what it began with stays"
        history = said(*(f"message {number}" for number in range(9)))
        summary, *window = (await engine.compose(TRIP, history)).messages
    assert summary.source is None
    assert "They counted" in summary.message.text
    assert [one.source for one in window] == [one.source for one in history[-len(window) :]]


async def test_a_summarizer_that_fails_costs_no_call(memory: Memory) -> None:
    model = ScriptedModel([RuntimeError("down")])
    history = said(*(f"message {number}" for number in range(31)))
    async with ContextEngine(
        scope="ana", memory=memory, context_summary={"floor": 2, "ceiling": 4, "model": model}
    ) as engine:
        for count in range(1, 32, 2):
            context = await engine.compose(TRIP, history[:count])
            assert context.messages[-1].source == history[count - 1].source
            assert len(context.messages) <= 10
            await engine.background.idle()
    assert model.calls


async def test_a_message_that_was_shortened_has_no_source(memory: Memory) -> None:
    history = [
        SourcedMessage(Message("user", "Read it."), "ASK"),
        SourcedMessage(
            Message("assistant", None, tool_calls=[{"id": "c1", "name": "read", "arguments": "{}"}]), "CALL"
        ),
        SourcedMessage(Message("tool", "words " * 5000, tool_call_id="c1", name="read"), "RESULT"),
    ]
    async with ContextEngine(scope="ana", memory=memory, max_tokens=1000) as engine:
        context = await engine.compose(TRIP, history)
        assert context.composed.tokens <= 1000
        assert sources(context) == ["ASK", "CALL", None]


async def test_explain_gives_every_step_of_a_turn(memory: Memory) -> None:
    history = [SourcedMessage(Message("user", "Read it."), "ASK")]
    async with ContextEngine(scope="ana", memory=memory) as engine:
        first = await engine.compose(TRIP, history, instructions=rules("Be kind."))
        call = Message("assistant", None, tool_calls=[{"id": "c1", "name": "read", "arguments": "{}"}])
        history += [SourcedMessage(call), SourcedMessage(Message("tool", "done", tool_call_id="c1"))]
        second = await engine.compose(TRIP, history, instructions=rules("Be kind."))
        for step, context in enumerate((first, second), start=1):
            explained = await engine.explain("trip", step=step)
            assert explained.digest() == context.composed.digest()
        assert second.composed.shared is not None
        assert second.composed.shared.messages == 2


async def test_a_template_of_the_users_keeps_the_instructions_of_the_agent(memory: Memory) -> None:
    template = ContextTemplate([SystemInstructionsSection("From us."), ConversationHistorySection()])
    async with ContextEngine(scope="ana", memory=memory, context_template=template) as engine:
        context = await engine.compose(TRIP, said("a"), instructions=rules("From the framework."))
    assert context.instructions_text == "From the framework.\n\nFrom us."
    assert template.get_section_names() == ["system_instructions", "conversation_history"]


async def test_a_template_that_hides_the_users_message_is_refused(memory: Memory) -> None:
    template = ContextTemplate([SystemInstructionsSection("From us.")])
    async with ContextEngine(scope="ana", memory=memory, context_template=template) as engine:
        with pytest.raises(UserMessageMissing):
            await engine.compose(TRIP, said("a"))


async def test_a_call_must_name_its_scope_and_conversation() -> None:
    async with ContextEngine(scope=lambda call: call["user"]) as engine:
        assert engine.key({"user": "ana"}, "trip", remedy="") == TRIP
        with pytest.raises(UnnamedConversation, match="pass a thread_id"):
            engine.key({"user": "ana"}, None, remedy="pass a thread_id")
        with pytest.raises(InvalidKey, match="scope"):
            engine.key({"user": None}, "trip", remedy="")
        with pytest.raises(InvalidKey, match="pass the `scope`"):
            await engine.explain("trip")
    with pytest.raises(InvalidKey, match="scope"):
        ContextEngine(scope=None)  # type: ignore[arg-type]


async def test_a_log_that_is_the_history_takes_the_same_message_twice(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        for _ in range(2):
            await engine.append(TRIP, [Message("user", "a"), Message("assistant", "b")])
        assert [message.text for message in await engine.history(TRIP)] == ["a", "b", "a", "b"]
        context = await engine.compose_stored(TRIP)
        assert [one.message.text for one in context.messages] == ["a", "b", "a", "b"]


def test_plain_functions_use_it_from_any_thread(tmp_path: Path) -> None:
    engine = ContextEngine(scope="ana", memory=f"sqlite:///{tmp_path}/memory.db")
    assert sources(engine.run_sync(engine.compose, TRIP, said("a"))) == ["A"]
    assert sources(engine.run_sync(engine.compose, TRIP, said("a", "b", "c"))) == ["A", "B", "C"]
    engine.close_sync()


async def test_a_cut_history_begins_with_a_user_message(memory: Memory) -> None:
    long = said(*("word " * 200 if number == 0 else f"text {number}" for number in range(5)))
    async with ContextEngine(scope="ana", memory=memory, context_summary=False) as engine:
        whole = await engine.compose(TRIP, long)
        short = await engine.compose(TRIP, long, max_tokens=whole.composed.tokens // 4)
    assert short.composed.cut
    assert short.messages[0].message.role == "user"
    assert sources(short) == [None, "TEXT 1", "TEXT 2", "TEXT 3", "TEXT 4"]


async def test_after_plain_calls_an_adapter_works_in_the_thread_that_the_engine_has(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with ContextEngine(scope="ana", memory=url) as engine:
        await anyio.to_thread.run_sync(engine.run_sync, engine.compose, TRIP, said("a"))
        there = await engine.run(_thread)
        assert there != await _thread()
        assert (await engine.run(engine.explain, "trip")).messages[-1].text == "a"


async def _thread() -> int:
    return threading.get_ident()


def test_what_is_for_one_call_stands_before_the_question() -> None:
    history = [*said("a", "b", "c"), SourcedMessage(Message("user", "d"), "D")]
    note = SourcedMessage(Message("user", "It is noon."), "NOTE")
    assert [one.source for one in insert_before_question(history, [note])] == ["A", "B", "NOTE", "C", "D"]
    assert [one.source for one in insert_before_question(history[:1], [note])] == ["NOTE", "A"]


def test_what_our_models_import_is_whole_before_a_client_can_see_it() -> None:
    """A model that writes summaries would import it in a thread, beside a framework's call."""
    program = (
        "import sys\n"
        "from autonomy_ctx import Model\n"
        "from autonomy_ctx.engine import ContextEngine\n"
        "ContextEngine(scope='ana')\n"
        "print('httpx' in sys.modules)\n"
        "ContextEngine(scope='ana', context_summary={'model': Model('gpt-5', api_key='k')})\n"
        "print('httpx' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]


async def test_a_history_that_shares_nothing_may_begin_anew(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.store_history(TRIP, said("a", "b"))
        context = await engine.compose(TRIP, said("c", "d", "e"), may_begin_anew=True)
        assert sources(context) == ["C", "D", "E"]
        assert await stored(memory, context.composed.conversation) == ["c", "d", "e"]
        assert context.composed.conversation == await engine.current_conversation("trip")
    assert await stored(memory) == ["a", "b"]


async def test_what_comes_after_a_message_of_the_newest_branch_is_a_fork_of_it(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.compose(TRIP, said("a", "b", "c"))
        branch = (await engine.compose(TRIP, said("a", "b", "d", "e", "f"))).composed.conversation
        window = await memory.read("ana", branch)
        after = window.entries[3].message
        assert after.text == "e"
        context = await engine.compose(TRIP, said("g"), after=after.id)
        assert await stored(memory, context.composed.conversation) == ["a", "b", "d", "e", "g"]


async def test_a_message_that_has_an_id_keeps_it(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory) as engine:
        history = [replace(one, stored_id=f"own-{at}") for at, one in enumerate(said("a", "b", "c"))]
        context = await engine.compose(TRIP, history)
        reply = SourcedMessage(Message("assistant", "d"), None, "own-3")
        assert await engine.store_reply(TRIP, context, reply) == TRIP
    entries = (await memory.read("ana", "trip")).entries
    assert [entry.message.id for entry in entries] == ["own-0", "own-1", "own-2", "own-3"]


def thought(*texts: str) -> list[SourcedMessage]:
    """A history in which the assistant thinks before every answer."""
    return [
        SourcedMessage(
            Message(
                one.message.role, [ThinkingContent("hm", signature=f"s{at}"), TextContent(one.message.text)]
            ),
            one.source,
        )
        if at % 2
        else one
        for at, one in enumerate(said(*texts))
    ]


def thinks(context: FrameworkContext) -> list[bool]:
    """For each answer, whether its thinking goes back: then it is the framework's own object."""
    answers = [one for one in context.messages if one.message.role is ChatRole.ASSISTANT]
    found = [any(isinstance(part, ThinkingContent) for part in one.message.parts) for one in answers]
    assert found == [one.source is not None for one in answers]
    return found


@pytest.mark.parametrize("change", ["instructions", "tools"])
async def test_thinking_is_left_out_for_good_when_our_part_of_the_request_changes(
    memory: Memory, change: str
) -> None:
    history = thought("a", "b", "c", "d", "e", "f", "g")
    tool = {"name": "look", "description": "", "parameters": {}}

    async def ask(count: int, *, changed: bool) -> list[bool]:
        instructions = rules("Be short." if changed and change == "instructions" else "Be kind.")
        tools = [tool] if changed and change == "tools" else []
        context = await engine.compose(
            TRIP, history[:count], instructions=instructions, tools=tools, model="claude-opus-5-5"
        )
        return thinks(context)

    async with ContextEngine(scope="ana", memory=memory) as engine:
        assert await ask(1, changed=False) == []
        assert await ask(3, changed=False) == [True]
        assert await ask(5, changed=True) == [False, False]
        # Only the thinking that was made since goes back.
        assert await ask(7, changed=True) == [False, False, True]


async def test_after_a_restart_thinking_of_the_same_epoch_goes_back(memory: Memory) -> None:
    history = thought("a", "b", "c", "d", "e")
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.compose(TRIP, history[:1], model="claude-opus-5-5")
    async with ContextEngine(scope="ana", memory=memory) as engine:
        assert thinks(await engine.compose(TRIP, history[:3], model="claude-opus-5-5")) == [True]
        changed = await engine.compose(TRIP, history, instructions=rules("Be kind."), model="claude-opus-5-5")
        assert (thinks(changed), changed.composed.end_reason) == ([False, False], "instructions")
    async with ContextEngine(scope="ana", memory=memory) as engine:
        assert thinks(await engine.compose(TRIP, history, model="claude-opus-5")) == [True, True]
