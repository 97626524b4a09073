"""Compaction strategies for a `Context` in hand, one class each.

All of them keep tool calls together with their results, keep system messages and the newest user message,
and change the contexts in place, so that a context with a file is saved.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from autonomy_ctx.compaction.checks import check_summary
from autonomy_ctx.compaction.key_names import key_identifiers
from autonomy_ctx.compaction.plan import COMPRESSION_RATIO, MIN_SUMMARY_TOKENS
from autonomy_ctx.compaction.prompt import batch_prompt
from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.runtime import Compact, Contexts
from autonomy_ctx.messages.cuts import (
    find_window_start,
    is_instruction,
    is_summary,
    newest_user_index,
    safe_cuts,
)
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.transcript import transcript
from autonomy_ctx.models.call import CallFailed, PromptTooLong, complete_prompt, is_chat_model
from autonomy_ctx.validation import check_int

__all__ = ["ClearToolResults", "Compact", "Pipeline", "SummarizeOldest", "TruncateOldest"]

logger = logging.getLogger("autonomy_ctx.compaction")
SUMMARY_TITLE = "[Conversation Summary]"
CLEARED_RESULT = "[result cleared to save space]"


class TruncateOldest(Compact):
    """Keeps the newest messages: at most `max_messages`, including system messages and summaries.

    More messages stay only if the messages that must stay are more than that: system messages, the newest
    user message, and the newest group of calls and results.
    """

    def __init__(self, max_messages: int = 100) -> None:
        self.max_messages = check_int("max_messages", max_messages)

    def compact(self, contexts: Contexts) -> Contexts:
        """Shorten every context that is too long."""
        for context in contexts.values():
            if len(context) > self.max_messages:
                context.messages = self._truncate(list(context))
        return contexts

    def _truncate(self, messages: Sequence[Message]) -> list[Message]:
        rest = [message for message in messages if not _is_fixed(message)]
        room = max(self.max_messages - (len(messages) - len(rest)), 1)
        start = find_window_start(rest, room)
        asked = newest_user_index(rest)
        if asked is not None and asked < start:
            start = find_window_start(rest, max(room - 1, 1))
        gone = {message.id for index, message in enumerate(rest[:start]) if index != asked}
        return [message for message in messages if message.id not in gone]


class ClearToolResults(Compact):
    """Replaces all tool results except the newest by a short note, so that every call keeps a result."""

    def __init__(self, keep: int = 3) -> None:
        self.keep = check_int("keep", keep, least=0)

    def compact(self, contexts: Contexts) -> Contexts:
        """Clear the old results of every context."""
        for context in contexts.values():
            results = [message for message in context if message.role is ChatRole.TOOL]
            old = results[: max(len(results) - self.keep, 0)]
            cleared = {
                message.id: dataclasses.replace(
                    message, content=CLEARED_RESULT, extra={**message.extra, "cleared": True}
                )
                for message in old
                if not message.extra.get("cleared")
            }
            if cleared:
                context.messages = [cleared.get(message.id, message) for message in context]
        return contexts


class SummarizeOldest(Compact):
    """Replaces the oldest messages by one summary. Await it, because it calls a model.

    A context of more than `max_messages` keeps its system messages, the summary, the newest user message and
    the newest `keep` messages. An earlier summary becomes part of the next one. If the model fails or its
    summary is rejected, the context stays unchanged.
    """

    def __init__(
        self,
        model: Any,
        keep: int = 20,
        max_messages: int = 50,
        *,
        size: int = 1024,
        batch_tokens: int = 12_000,
        timeout: float = 60.0,
        instructions: str | None = None,
    ) -> None:
        if not is_chat_model(model):
            raise TypeError(f"model must have a method complete_chat; {type(model).__name__} has none")
        self.model = model
        self.keep, self.max_messages = check_int("keep", keep), check_int("max_messages", max_messages)
        if keep >= max_messages:
            raise ValueError(f"keep ({keep}) must be less than max_messages ({max_messages})")
        self.size = check_int("size", size, least=32)
        self.batch_tokens = check_int("batch_tokens", batch_tokens)
        self.timeout, self.instructions = timeout, instructions
        self._counter = TokenCounter()

    async def compact(self, contexts: Contexts) -> Contexts:
        """Summarize the oldest messages of every context that is too long."""
        for context in contexts.values():
            left = self._oldest(list(context)) if len(context) > self.max_messages else []
            # A single earlier summary need not be summarized again.
            while not all(map(is_summary, left)):
                batch = self._batch(left)
                summary = await self._summarize(context, batch)
                if summary is None:
                    break
                left = [summary, *left[len(batch) :]]
        return contexts

    def _oldest(self, messages: Sequence[Message]) -> list[Message]:
        """All messages to summarize."""
        rest = [message for message in messages if is_summary(message) or not _is_fixed(message)]
        asked = newest_user_index(rest)
        old = rest[: find_window_start(rest, self.keep)]
        return [message for index, message in enumerate(old) if index != asked]

    def _batch(self, left: Sequence[Message]) -> list[Message]:
        """As many of the messages as fit into one call, but at least two if there are two."""
        at = spent = 0
        for cut in [*safe_cuts(left)[1:], len(left)]:
            spent += self._counter.count_messages(left[at:cut])
            if spent > self.batch_tokens and at > 1:
                break
            at = cut
        return list(left[:at])

    async def _summarize(self, context: Context, batch: Sequence[Message]) -> Message | None:
        """Replace messages by a summary, and return it; None if no usable summary was written."""
        text = await self._write_summary(batch)
        covered = {message.id for message in batch}
        # Check the messages again after the wait: new messages stay, and removed messages stay removed.
        messages = list(context)
        if text is None or [message for message in messages if message.id in covered] != list(batch):
            return None
        at = next(index for index, message in enumerate(messages) if message.id in covered)
        rest = [message for message in messages if message.id not in covered]
        summary = Message(
            ChatRole.ASSISTANT,
            f"{SUMMARY_TITLE}\n{text}",
            created_at=batch[-1].created_at,
            extra={"summary": True},
        )
        context.messages = [*rest[:at], summary, *rest[at:]]
        return summary

    async def _write_summary(self, batch: Sequence[Message]) -> str | None:
        count = self._counter.count_text
        source = transcript(
            batch, counter=self._counter, max_message_tokens=max(self.batch_tokens // 4, self.size)
        )
        tokens = count(source)
        cap = min(self.size, max(tokens, 256) - 1)
        asked = min(cap, max(MIN_SUMMARY_TOKENS, tokens // COMPRESSION_RATIO))
        prompt = batch_prompt(source, (), cap=asked, instructions=self.instructions)
        try:
            reply = await complete_prompt(self.model, prompt, max_tokens=self.size, timeout=self.timeout)
        except (CallFailed, PromptTooLong) as error:
            logger.warning("the summary model %s; the context is unchanged", error)
            return None
        verdict = check_summary(
            reply,
            source=source,
            source_tokens=tokens,
            cap=cap,
            count=count,
            secret=prompt.secret,
            key_names=key_identifiers(batch),
            asked=prompt.messages[0]["content"],
            context=(self.instructions or "",),
            script_free=self.instructions is not None,
        )
        if verdict.text:
            return verdict.fit_to(cap, count)
        logger.warning("a summary was rejected (%s); the context is unchanged", verdict.problem)
        return None


class Pipeline(Compact):
    """Runs strategies one after the other. Await the result if one of the strategies is async."""

    def __init__(self, strategies: Sequence[Compact]) -> None:
        for index, strategy in enumerate(strategies):
            if not callable(getattr(strategy, "compact", None)):
                raise TypeError(
                    f"strategies[{index}] must have a method compact(contexts); "
                    f"{type(strategy).__name__} has none"
                )
        self.strategies = list(strategies)

    def compact(self, contexts: Contexts) -> Contexts | Awaitable[Contexts]:
        """Run each strategy on the result of the previous one."""
        for index, strategy in enumerate(self.strategies):
            result: Any = strategy.compact(contexts)
            if inspect.iscoroutine(result):
                # The coroutine has not started and is closed; awaiting the pipeline makes a new one.
                result.close()
                return self._run_async(index, contexts)
            if inspect.isawaitable(result):
                return self._run_async(index + 1, contexts, result)
            contexts = contexts if result is None else result
        return contexts

    async def _run_async(
        self, index: int, contexts: Contexts, result: Awaitable[Contexts | None] | None = None
    ) -> Contexts:
        if result is not None:
            contexts = await result or contexts
        for strategy in self.strategies[index:]:
            left: Any = strategy.compact(contexts)
            left = await left if inspect.isawaitable(left) else left
            contexts = contexts if left is None else left
        return contexts


def _is_fixed(message: Message) -> bool:
    """Tell whether a message must stay: an instruction, or a summary of older messages."""
    return is_instruction(message) or is_summary(message)
