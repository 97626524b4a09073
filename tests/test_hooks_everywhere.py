"""Memory and templates tell the same kind of hooks as queues and pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autonomy_ctx import (
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    MemoryHook,
    Message,
    TemplateHook,
    hook,
)
from autonomy_ctx.errors import HookError
from autonomy_ctx.testing import make_message

Open = Callable[..., Memory]


@pytest.fixture(params=["in_process", "sqlite"])
def opened(request: pytest.FixtureRequest, sqlite_path: Any) -> Open:
    def made(**options: Any) -> Memory:
        return Memory(None if request.param == "in_process" else f"sqlite:///{sqlite_path}", **options)

    return made


async def test_memory_tells_what_is_appended_and_deleted(opened: Open) -> None:
    told: list[tuple[Any, ...]] = []

    @hook([MemoryHook.BEFORE_APPEND, MemoryHook.AFTER_APPEND])
    def appended(scope: str, conversation: str, messages: list[Message]) -> None:
        told.append((scope, conversation, [message.id for message in messages]))

    @hook(MemoryHook.AFTER_DELETE)
    async def deleted(scope: str, conversation: str | None, count: int) -> None:
        told.append((scope, conversation, count))

    async with opened(hooks=[appended, deleted]) as memory:
        await memory.for_agent("helper").append(
            "ana", "trip", make_message("a", id="m1"), make_message("b", id="m2")
        )
        await memory.append("ana", "trip", make_message("c", id="m3"))
        await memory.delete_message("ana", "trip", "m3")
        await memory.delete_message("ana", "trip", "unknown")
        await memory.delete_scope("ana")
    both, one = ("ana", "trip", ["m1", "m2"]), ("ana", "trip", ["m3"])
    assert told == [both, both, one, one, ("ana", "trip", 1), ("ana", None, 2)]


async def test_memory_tells_of_a_fork(opened: Open) -> None:
    told: list[tuple[str, str, str]] = []

    @hook(MemoryHook.AFTER_FORK)
    def forked(scope: str, conversation: str, name: str) -> None:
        told.append((scope, conversation, name))

    async with opened(hooks=[forked]) as memory:
        await memory.append("ana", "trip", make_message("a", id="m1"))
        name = await memory.fork("ana", "trip")
        await memory.fork("ana", "trip", name="second")
    assert told == [("ana", "trip", name), ("ana", "trip", "second")]


async def test_a_hook_may_keep_messages_out(opened: Open) -> None:
    @hook(MemoryHook.BEFORE_APPEND)
    def veto(scope: str, conversation: str, messages: list[Message]) -> None:
        raise PermissionError("not today")

    async with opened(hooks=[veto]) as memory:
        with pytest.raises(PermissionError, match=r"hook `veto` .* nothing was changed") as caught:
            await memory.append("ana", "trip", make_message("a", id="m1"))
        assert isinstance(caught.value, HookError)
        assert await memory.get_message_count("ana", "trip") == 0


async def test_a_hook_that_fails_afterwards_undoes_nothing(opened: Open) -> None:
    @hook(MemoryHook.AFTER_APPEND)
    def broken(scope: str, conversation: str, messages: list[Message]) -> None:
        raise RuntimeError

    async with opened(hooks=[broken]) as memory:
        with pytest.raises(HookError, match="the change was made before, and stays"):
            await memory.append("ana", "trip", make_message("a", id="m1"))
        assert await memory.get_message_count("ana", "trip") == 1


async def test_a_template_tells_before_and_after(memory: Memory) -> None:
    told: list[Any] = []

    @hook(TemplateHook.BEFORE_COMPOSE)
    async def before(scope: str, conversation: str, params: dict[str, Any]) -> None:
        params["topic"] = "trains"
        told.append((scope, conversation))

    @hook(TemplateHook.AFTER_COMPOSE)
    def after(composed: ComposedContext) -> None:
        told.append(len(composed))

    class Topic:
        name, enabled = "topic", True

        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
            return [{"role": "system", "content": params["topic"]}]

    given = {"other": 1}
    template = ContextTemplate([Topic(), ConversationHistorySection()], hooks=[before, after])
    await memory.append("ana", "trip", make_message("a", id="m1"))
    composed = await template.compose(memory, "ana", "trip", given)
    assert [message.text for message in composed.messages] == ["trains", "a"]
    assert told == [("ana", "trip"), 2]
    assert given == {"other": 1}


@pytest.mark.parametrize("make", [Memory, lambda hooks: ContextTemplate([], hooks=hooks)])
def test_what_is_no_hook_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match="is not a hook"):
        make(hooks=[print])
