"""Which runtime is current, how its contexts are named, saved and compacted, and what stays apart."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from autonomy_ctx import Message
from autonomy_ctx.containers import runtime as module
from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.runtime import Compact, Runtime, get_context, get_runtime, no_context
from autonomy_ctx.containers.strategies import SummarizeOldest, TruncateOldest
from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.testing import HeldModel, ScriptedModel

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_runtime_is_current(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "_default_runtime", Runtime())
    token = module._restored_runtime.set(None)
    yield
    module._restored_runtime.reset(token)
    assert module._entered_runtimes.get() == ()


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


# -- which is current ---------------------------------------------------------------------------------


def test_without_a_runtime_there_is_a_default_one() -> None:
    assert get_runtime() is get_runtime()
    get_context().user("a")
    assert texts(get_runtime().CTX["main"]) == ["a"]


def test_with_makes_a_runtime_current_and_nesting_restores() -> None:
    default, outer, inner = get_runtime(), Runtime(), Runtime()
    with outer as entered:
        assert entered is outer is get_runtime()
        with inner:
            assert get_runtime() is inner
            with outer:
                assert get_runtime() is outer
            assert get_runtime() is inner
        assert get_runtime() is outer
        with pytest.raises(KeyError), inner:
            raise KeyError
        assert get_runtime() is outer
    assert get_runtime() is default


def test_two_runtimes_have_two_main_contexts() -> None:
    one, other = Runtime(), Runtime()
    with one:
        mine = get_context("main")
    with other:
        assert get_context("main") is not mine
    with one:
        assert get_context("main") is mine


async def test_tasks_inherit_the_runtime_and_change_it_for_nobody_else() -> None:
    outer, seen = Runtime(), []

    async def work(number: int) -> None:
        assert get_runtime() is outer
        with Runtime() as own:
            await anyio.lowlevel.checkpoint()
            assert get_runtime() is own
            get_context().user(str(number))
            await anyio.lowlevel.checkpoint()
            seen.append(texts(get_context()))
        assert get_runtime() is outer

    with outer:
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(work, number)
        assert outer.CTX == {}
    assert sorted(seen) == [["0"], ["1"], ["2"]]


async def test_many_tasks_may_enter_the_same_runtime() -> None:
    shared = Runtime()

    async def work(turns: int) -> None:
        with shared:
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            assert get_runtime() is shared
            get_context().user("a")

    async with anyio.create_task_group() as group:
        for turns in (3, 1, 2):
            group.start_soon(work, turns)
    assert len(shared.CTX["main"]) == 3
    assert get_runtime() is not shared


def test_a_restored_runtime_becomes_current_when_none_is(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    with Runtime.from_file(path, keep_updated=True):
        get_context("main").user("Hello")

    restored = Runtime.from_file(path)
    assert get_runtime() is restored
    assert texts(get_context("main")) == ["Hello"]
    with Runtime() as current:
        Runtime.from_file(path)
        assert get_runtime() is current
    assert get_runtime() is restored


def test_a_runtime_restored_in_a_task_is_not_current_outside_it(tmp_path: Path) -> None:
    before = get_runtime()
    contextvars.copy_context().run(Runtime.from_file, tmp_path / "runtime.json")
    assert get_runtime() is before


# -- contexts by name ---------------------------------------------------------------------------------


def test_a_context_is_made_once_and_kept_by_its_name() -> None:
    runtime = Runtime()
    assert runtime.CTX == {}
    main = runtime.get_context()
    assert {"main": main} == runtime.CTX
    assert runtime.get_context("main") is main
    assert runtime.get_context("other") is not main


@pytest.mark.parametrize("name", [None, 3, ""])
def test_a_name_is_a_text(name: Any) -> None:
    with pytest.raises(InvalidKey, match="context name"):
        Runtime().get_context(name)
    with pytest.raises(InvalidKey, match="label"):
        Runtime().new_context(name)


def test_new_contexts_are_named_with_letters_after_their_label() -> None:
    runtime = Runtime()
    runtime.get_context("attempt_b")
    for _ in range(26 + 26 * 26):
        runtime.new_context("attempt")
    runtime.new_context("intermediate")
    attempts = [name for name in runtime.CTX if name.startswith("attempt_")]
    assert attempts[:3] == ["attempt_b", "attempt_a", "attempt_c"]
    assert attempts[25:27] == ["attempt_z", "attempt_aa"]
    assert attempts[-2:] == ["attempt_zz", "attempt_aaa"]
    assert list(runtime.CTX)[-1] == "intermediate_a"


def test_a_name_that_another_process_took_is_not_given_again(tmp_path: Path) -> None:
    one, other = (Runtime.from_file(tmp_path / "runtime.json", keep_updated=True) for _ in range(2))
    one.new_context("attempt").user("a")
    other.new_context("attempt").user("b")
    assert {name: texts(context) for name, context in other.CTX.items()} == {
        "attempt_a": ["a"],
        "attempt_b": ["b"],
    }


def test_editing_a_branch_leaves_its_source_alone() -> None:
    runtime = Runtime()
    main = runtime.get_context()
    main.user("a")
    by_name = runtime.new_context("attempt", branch_from="main")
    by_itself = runtime.new_context("attempt", main)
    by_name.user("b")
    by_itself.clear()
    main.user("c")
    assert [texts(context) for context in (main, by_name, by_itself)] == [["a", "c"], ["a", "b"], []]
    assert by_name[0].id == main[0].id
    with pytest.raises(InvalidKey, match="no context 'nobody'"):
        runtime.new_context("attempt", branch_from="nobody")
    assert "attempt_c" not in runtime.CTX


def test_no_context_belongs_to_nobody(tmp_path: Path) -> None:
    with Runtime.from_file(tmp_path / "runtime.json", keep_updated=True) as runtime:
        no_context().user("secret")
        assert runtime.CTX == {}
    assert "secret" not in (tmp_path / "runtime.json").read_text()


def test_the_full_context_has_every_message_once_by_time() -> None:
    runtime = Runtime()
    said = {n: Message("user", str(n), created_at=NOON + timedelta(minutes=n)) for n in range(5)}
    runtime.get_context("main").extend([said[0], said[3]])
    runtime.get_context("attempt_a").extend([said[0], said[2]])
    runtime.get_context("attempt_b").append(said[1])
    runtime.get_context("attempted").append(said[4])
    runtime.get_context("attempt_a").append(Message("user", "naive", created_at="2030-01-01T12:01:30"))

    assert texts(runtime.get_full_context()) == ["0", "1", "naive", "2", "3", "4"]
    assert texts(runtime.get_full_context("main")) == ["0", "3"]
    assert texts(runtime.get_full_context("attempt")) == ["0", "1", "naive", "2"]
    assert texts(runtime.get_full_context(["main", "attempted"])) == ["0", "3", "4"]
    assert runtime.get_full_context("nobody") == runtime.get_full_context([]) == []


def test_clearing_a_runtime_empties_its_contexts_and_its_file(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    with Runtime.from_file(path, keep_updated=True) as runtime:
        main = runtime.get_context()
        main.user("a")
        runtime.clear()
        main.user("b")
    assert texts(Runtime.from_file(path).CTX["main"]) == ["b"]


# -- files --------------------------------------------------------------------------------------------


def test_a_persistent_runtime_used_outside_a_with_writes_everything_down(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    runtime = Runtime(file_path=path, keep_updated=True)
    runtime.get_context("main").user("a")
    assert texts(Runtime.from_file(path).CTX["main"]) == ["a"]
    assert runtime.file_path == path
    assert repr(runtime) == f"Runtime(contexts=['main'], file_path={str(path)!r})"


def test_leaving_the_with_leaves_plain_json_also_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    runtime = Runtime.from_file(path, keep_updated=True)

    def fail() -> None:
        get_context("main").user("a")
        raise KeyError

    with pytest.raises(KeyError), runtime:
        fail()
    assert [form["content"] for form in json.loads(path.read_text())["contexts"]["main"]] == ["a"]


def test_a_runtime_that_does_not_keep_updated_writes_when_saved(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    with Runtime.from_file(path) as runtime:
        get_context("main").user("a")
    assert list(tmp_path.iterdir()) == []
    runtime.save()
    assert len(json.loads(path.read_text())["contexts"]["main"]) == 1


def test_bad_arguments_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="this runtime has no file"):
        Runtime().save()
    with pytest.raises(ValueError, match="this runtime has no file"):
        Runtime().get_context().save()
    with pytest.raises(ValueError, match="keep_updated needs a file_path"):
        Runtime(keep_updated=True)
    with pytest.raises(TypeError, match=r"must have a method compact\(contexts\); int has none"):
        Runtime(compact=3)  # type: ignore[arg-type]


# -- compaction ---------------------------------------------------------------------------------------


def test_compaction_runs_after_an_addition_and_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    runtime = Runtime(TruncateOldest(max_messages=3), path, keep_updated=True)
    for number in range(10):
        runtime.get_context().user(str(number))
    assert texts(runtime.CTX["main"]) == ["7", "8", "9"]
    assert texts(Runtime.from_file(path).CTX["main"]) == ["7", "8", "9"]


def test_compaction_by_hand_is_saved_with_a_contexts_own_file(tmp_path: Path) -> None:
    context = Context.from_file(tmp_path / "talk.json", keep_updated=True)
    context.extend(Message("user", str(number)) for number in range(10))
    runtime = Runtime(compact=TruncateOldest(max_messages=4))
    assert runtime.compact is not None
    assert runtime.compact.compact({"main": context}) == {"main": context}
    assert texts(Context.from_file(tmp_path / "talk.json")) == ["6", "7", "8", "9"]


class KeepTwo(Compact):
    """Returns other contexts instead of changing the ones it was given."""

    def compact(self, contexts: dict[str, Context]) -> dict[str, Context]:
        return {name: Context(messages=context.messages[-2:]) for name, context in contexts.items()}


def test_a_strategy_may_return_other_contexts(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    runtime = Runtime.from_file(path, keep_updated=True, compact=KeepTwo())
    main = runtime.get_context()
    for number in range(5):
        main.user(str(number))
    assert runtime.get_context() is main
    assert texts(main) == ["3", "4"] == texts(Runtime.from_file(path).CTX["main"])


class Broken(Compact):
    def compact(self, contexts: dict[str, Context]) -> dict[str, Context]:
        raise RuntimeError("no")


def test_a_strategy_that_fails_does_not_fail_the_addition(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime(Broken())
    with caplog.at_level(logging.WARNING, "autonomy_ctx"):
        runtime.get_context().user("a")
    assert texts(runtime.CTX["main"]) == ["a"]
    assert "compaction by Broken failed" in caplog.text


class Noting(Compact):
    """Adds a message, which must not make it run again."""

    def compact(self, contexts: dict[str, Context]) -> None:  # type: ignore[override]
        for context in contexts.values():
            context.assistant("noted")


def test_a_strategy_may_add_messages_itself() -> None:
    runtime = Runtime(Noting())
    runtime.get_context().user("a")
    assert texts(runtime.CTX["main"]) == ["a", "noted"]


async def test_a_strategy_that_must_be_awaited_runs_when_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    model = ScriptedModel(["they counted"])
    runtime = Runtime(SummarizeOldest(model, keep=2, max_messages=4), path, keep_updated=True)
    for number in range(6):
        runtime.get_context().user(str(number))
    assert len(runtime.CTX["main"]) == 6
    assert model.calls == []
    await runtime.compacted()
    await runtime.compacted()
    assert len(model.calls) == 1
    assert texts(runtime.CTX["main"]) == ["[Conversation Summary]\nthey counted", "4", "5"]
    assert texts(Runtime.from_file(path).CTX["main"]) == texts(runtime.CTX["main"])


class KeepTwoLater(Compact):
    """Returns other contexts, and takes its time."""

    def __init__(self) -> None:
        self.begun, self.may_end = anyio.Event(), anyio.Event()

    async def compact(self, contexts: dict[str, Context]) -> dict[str, Context]:
        kept = {name: Context(messages=context.messages[-2:]) for name, context in contexts.items()}
        self.begun.set()
        await self.may_end.wait()
        return kept


async def test_what_is_said_during_a_compaction_stays() -> None:
    strategy = KeepTwoLater()
    runtime = Runtime(strategy)
    main = runtime.get_context()
    main.extend(Message("user", text) for text in "abcd")
    async with anyio.create_task_group() as group:
        group.start_soon(runtime.compacted)
        await strategy.begun.wait()
        main.user("meanwhile")
        strategy.may_end.set()
    assert texts(main) == ["c", "d", "meanwhile"]


async def test_a_compaction_that_was_cancelled_is_still_owed() -> None:
    strategy = KeepTwoLater()
    runtime = Runtime(strategy)
    main = runtime.get_context()
    main.extend(Message("user", text) for text in "abcd")
    async with anyio.create_task_group() as group:
        group.start_soon(runtime.compacted)
        await strategy.begun.wait()
        group.cancel_scope.cancel()
    assert len(main) == 4
    strategy.may_end.set()
    await runtime.compacted()
    assert texts(main) == ["c", "d"]


class InATask(Compact):
    """Starts at once, in a task of its own."""

    def compact(self, contexts: dict[str, Context]) -> Awaitable[dict[str, Context]]:
        return asyncio.ensure_future(KeepTwoAwaited().compact(contexts))


class KeepTwoAwaited:
    async def compact(self, contexts: dict[str, Context]) -> dict[str, Context]:
        return KeepTwo().compact(contexts)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_compaction_that_runs_already_is_waited_for(anyio_backend: str) -> None:
    runtime = Runtime(InATask())
    runtime.get_context().extend(Message("user", text) for text in "abcd")
    await runtime.compacted()
    assert texts(runtime.CTX["main"]) == ["c", "d"]


async def test_a_context_cleared_while_it_is_summarized_stays_cleared() -> None:
    model = HeldModel()
    runtime = Runtime(SummarizeOldest(model, keep=1, max_messages=2))
    main = runtime.get_context()
    main.extend(Message("user", text) for text in "abcd")
    async with anyio.create_task_group() as group:
        group.start_soon(runtime.compacted)
        call = await model.wait_for_call()
        main.clear()
        main.user("anew")
        call.answer("a summary of what is gone")
    assert texts(main) == ["anew"]
