"""The calls of one step: asked about, run side by side, and what they found put on the shelf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from autonomy_ctx.agents.setting import AgentHook, Setting
from autonomy_ctx.agents.shelves import Shelf
from autonomy_ctx.errors import HookError, InvalidItem
from autonomy_ctx.hooks import fire
from autonomy_ctx.items.message import Message, ToolCall
from autonomy_ctx.memory.encoding import MESSAGE_LIMIT
from autonomy_ctx.memory.store import Key
from autonomy_ctx.tools.run import Ran, result_message, run_calls

# Room for what a row has besides the text, and for characters that JSON writes longer.
_LONGEST_TEXT = MESSAGE_LIMIT // 4


async def run_tools(
    setting: Setting, key: Key, calls: Sequence[ToolCall], done: Callable[[Ran], None]
) -> list[Ran]:
    """Run calls and give what became of each, in their order; `done` hears of each as it ends.

    Its message is what memory keeps: all of a long result, which memory cuts for the log. A call that
    pauses has none.
    """
    vetoed = await _vetoed(setting, key, calls)
    for ran in vetoed.values():
        done(ran)
    shelf = await setting.shelves.of(key)
    allowed = [call for index, call in enumerate(calls) if index not in vetoed]
    limits = setting.limits
    ended = iter(
        await run_calls(
            allowed,
            setting.tools,
            inject={
                **setting.inject,
                "pool": shelf.pool,
                "memory": setting.memory,
                "scope": key.scope,
                "conversation": key.conversation,
            },
            timeout=limits.tool_timeout,
            output_limit=limits.tool_output,
            parallel=limits.parallel_tools,
            clock=setting.clock,
            new_id=setting.new_id,
            done=done,
        )
    )
    return [vetoed[index] if index in vetoed else _whole(next(ended)) for index in range(len(calls))]


async def shelved(setting: Setting, key: Key, shelf: Shelf, ran: Ran) -> Ran:
    """The same call once its items are on the shelf; an error result if they could not be."""
    if not ran.items:
        return ran
    try:
        await setting.shelves.put(key, shelf, ran.items)
    except (InvalidItem, HookError) as error:
        return replace(
            ran, message=_refusal(setting, ran.call, f"it ran, but what it found was not kept: {error}")
        )
    return ran


async def tell_called(setting: Setting, key: Key, ran: Sequence[Ran]) -> None:
    """Tell the hooks of calls and their results."""
    if setting.hooks:
        for one in ran:
            if one.message is not None:
                await _fire(setting, AgentHook.AFTER_CALL, key, one.call, one.message, done=True)


async def _vetoed(setting: Setting, key: Key, calls: Sequence[ToolCall]) -> dict[int, Ran]:
    """The calls that a hook does not let through, by their place, with what the model is told."""
    vetoed: dict[int, Ran] = {}
    for index, call in enumerate(calls if setting.hooks else ()):
        try:
            await _fire(setting, AgentHook.BEFORE_CALL, key, call, done=False)
        except HookError as error:
            message = _refusal(setting, call, f"it was not run: {error}")
            vetoed[index] = Ran(call=call, message=message, error=error)
    return vetoed


def _whole(ran: Ran) -> Ran:
    """A long result with all of its text, as far as memory takes it; the log shows its ends."""
    if ran.full is None or ran.message is None or len(ran.full) > _LONGEST_TEXT:
        return ran
    return replace(ran, message=replace(ran.message, content=ran.full))


def _refusal(setting: Setting, call: ToolCall, text: str) -> Message:
    return result_message(call, text, is_error=True, message_id=setting.new_id(), created_at=setting.clock())


async def _fire(setting: Setting, event: AgentHook, key: Key, *args: Any, done: bool) -> None:
    await fire(setting.hooks, event, key.scope, key.conversation, *args, done=done)
