"""`KnowledgeSection`: passages of a knowledge base that fit the newest user message.

A search that finds nothing, fails or is late never fails the turn; the problem is recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import anyio

from autonomy_ctx.callables import await_value, describe_error
from autonomy_ctx.knowledge.knowledge import (
    checked_knowledge,
    render_passages,
    render_passages_async,
    search_knowledge,
)
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.tokens import PER_MESSAGE, TokenCounter, token_counter_of
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params, data_message
from autonomy_ctx.validation import check_int

logger = logging.getLogger("autonomy_ctx.sections")

QueryFunction: TypeAlias = Callable[[list[Message]], str | Awaitable[str | None] | None]

# How many of the newest messages a query function gets.
QUERY_MESSAGES = 20
# Of a very long question, what is asked with: its beginning and its end.
MAX_QUESTION_CHARACTERS = 4000


class KnowledgeSection(ContributingSection):
    """The passages that match the newest user message, as data in one message, within `max_tokens`.

    `query`, a plain or async function of the newest messages, makes another question. The section is optional
    and runs in parallel with others. A failure, or more than `timeout` seconds, is recorded.
    """

    says = "adds"

    required = False
    independent = True
    handles_timeout = True

    def __init__(
        self,
        knowledge: Any,
        *,
        query: QueryFunction | None = None,
        top_k: int = 5,
        max_tokens: int = 1024,
        timeout: float | None = 2.0,
        name: str = "knowledge",
        enabled: bool = True,
    ) -> None:
        super().__init__(name, enabled)
        if query is not None and not callable(query):
            raise TypeError(
                f"query is {type(query).__name__}; it must be a function that takes the newest messages"
            )
        self.knowledge = checked_knowledge(knowledge)
        self.query = query
        self.top_k = check_int("top_k", top_k)
        self.max_tokens = check_int("max_tokens", max_tokens)
        self.timeout = timeout

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        found: Contribution | None = None
        try:
            with anyio.move_on_after(self.timeout):
                found = await self._search(memory, scope, conversation)
        except Exception as error:
            logger.warning("section `%s`: the knowledge base could not be searched", self.name, exc_info=True)
            return Contribution((), problem=f"could not be searched: {describe_error(error)}")
        return found or Contribution((), problem=f"took longer than {self.timeout:g} s")

    async def _search(self, memory: Any, scope: str, conversation: str) -> Contribution:
        question = await self._question(memory, scope, conversation)
        if not question:
            return Contribution(())
        answer = await search_knowledge(self.knowledge, question, self.top_k)
        counter = token_counter_of(memory) or TokenCounter()
        text = await render_passages_async(answer.passages, self.max_tokens - PER_MESSAGE, counter.count_text)
        problem = (
            None if answer.problem is None else f"was given something else than passages: {answer.problem}"
        )
        if text is None and answer.passages:
            problem = f"found passages, but max_tokens={self.max_tokens} has no room for one"

        def shorter(tokens: int) -> Message | None:
            less = render_passages(answer.passages, tokens - PER_MESSAGE, counter.count_text)
            return None if less is None else data_message(less)

        messages = [] if text is None else [data_message(text)]
        return Contribution(messages, problem=problem, shorter=shorter)

    async def _question(self, memory: Any, scope: str, conversation: str) -> str:
        if self.query is None:
            return shorten_question((await _newest_user_text(memory, scope, conversation)).strip())
        made = await await_value(self.query(await _newest_messages(memory, scope, conversation)))
        if made is not None and not isinstance(made, str):
            raise TypeError(
                f"query returned {type(made).__name__}; it must return text, or None to ask nothing"
            )
        return (made or "").strip()


def shorten_question(text: str) -> str:
    """The beginning and the end of a very long question; a shorter one as it is."""
    half = MAX_QUESTION_CHARACTERS // 2
    return text if len(text) <= MAX_QUESTION_CHARACTERS else f"{text[:half]}\n{text[-half:]}"


async def _newest_user_text(memory: Any, scope: str, conversation: str) -> str:
    if isinstance(memory, Memory):
        at = (await memory.head(scope, conversation)).last_user
        if not at:
            return ""
        found = await memory.read(scope, conversation, after=at - 1, before=at + 1)
        messages: Sequence[Message] = [entry.message for entry in found.entries]
    else:
        messages = await _newest_messages(memory, scope, conversation, role=ChatRole.USER)
    return messages[-1].text if messages else ""


async def _newest_messages(
    memory: Any, scope: str, conversation: str, *, role: ChatRole | None = None
) -> list[Message]:
    """The newest messages, of a role if one is given, oldest first."""
    if isinstance(memory, Memory):
        found = await memory.read(scope, conversation, limit=QUERY_MESSAGES)
        return [entry.message for entry in found.entries]
    given = await await_value(memory.get_messages_only(scope, conversation))
    window: list[Message] = []
    for message in (one for form in reversed(given) for one in reversed(wire.from_dicts([form]))):
        if role is None or message.role is role:
            window.append(message)
        if len(window) == (QUERY_MESSAGES if role is None else 1):
            break
    return window[::-1]
