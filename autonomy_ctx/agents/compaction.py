"""Compaction of one conversation on request: what is to be kept, the summary, and what leaves the context."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from autonomy_ctx.agents.options import TurnEnvironment
from autonomy_ctx.agents.turn import TurnRunner
from autonomy_ctx.compaction.cost_model import eager
from autonomy_ctx.compaction.manual import CompactionResult
from autonomy_ctx.errors import AutonomyCtxError, InvalidAgent, InvalidPin
from autonomy_ctx.memory.facts import check_fact_text
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.sections.summarized import SummarizedHistorySection
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_row import covered_by_summary
from autonomy_ctx.template.epoch_store import end_epochs

logger = logging.getLogger("autonomy_ctx.agents")

EditLog = Callable[[Key], AbstractAsyncContextManager[None]]


async def compact_conversation(
    environment: TurnEnvironment, key: Key, edit_log: EditLog, focus: str | None, keep: Iterable[str]
) -> CompactionResult:
    """Summarize a conversation now; turns go on meanwhile, and the next one shows the summary."""
    section = find_summaries(environment)
    if isinstance(keep, str):
        raise TypeError("keep is a string; give a list of message ids and facts")
    if focus is not None and (not isinstance(focus, str) or not focus.strip()):
        raise ValueError(f"focus is {focus!r}; say what the summary must preserve, or leave it out")
    async with edit_log(key):
        kept = await keep_texts(environment.memory, key, keep)
        before = await TurnRunner(environment, key, "").preview()
    made = await section.summarize_now(environment.memory, key.scope, key.conversation, focus=focus)
    async with edit_log(key):
        if made.segments and section.config.swap not in ("eager", eager):
            # The policy might wait with it.
            await end_epochs(await environment.read_epochs(key), EndReason.BY_HAND)
        after = await TurnRunner(environment, key, "").preview()
    first, last = covered_by_summary(before.messages) + 1, covered_by_summary(after.messages)
    return CompactionResult(
        segments=tuple(made.segments),
        first=first if last >= first else 0,
        last=last if last >= first else 0,
        kept=kept,
        tokens_before=before.tokens,
        tokens_after=after.tokens,
        problem=made.problem,
    )


async def compact_later(agent: Any, key: Key, focus: str | None) -> None:
    """Compact after a turn in which the model has asked for it; nobody waits for the result."""
    try:
        done = await agent.compact(focus, scope=key.scope, conversation=key.conversation)
    except AutonomyCtxError as error:
        logger.warning("a conversation could not be compacted: %s", error)
    else:
        if done.problem:
            logger.warning("a conversation was not compacted: %s", done.problem)


def find_summaries(environment: TurnEnvironment) -> SummarizedHistorySection:
    """The section that summarizes; an error if the agent has none."""
    for options in environment.template.section_options:
        if isinstance(options.section, SummarizedHistorySection):
            return options.section
    raise InvalidAgent(
        environment.name, "writes no summaries; give it `context_summary=True`, or a SummarizedHistorySection"
    )


async def keep_texts(memory: Memory, key: Key, keep: Iterable[str]) -> tuple[int, ...]:
    """Pin messages by their ids, and add other texts as facts; the positions of the pinned ones.

    A text with a space is a fact. If there is no message with an id, nothing is kept.
    """
    keep, names = list(keep), (key.scope, key.conversation)
    facts = [check_fact_text(one) for one in keep if " " in str(one).strip()]
    ids = [one for one in keep if " " not in str(one).strip()]
    known = {pin.message.id for pin in (await memory.summary(*names)).pins}
    for at, one in enumerate(ids):
        if not await memory.pin(*names, one):
            for undone in set(ids[:at]) - known:
                await memory.unpin(*names, undone)
            raise InvalidPin(f"this conversation has no message with the id {one!r}")
    for text in facts:
        await memory.facts(*names).add("value", text)
    pins = (await memory.summary(*names)).pins
    return tuple(pin.position for pin in pins if pin.message.id in ids)
