"""`InboxSection`: direct messages to an agent, shown until a model has read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from autonomy_ctx.memory.mailbox import Mailbox, as_message
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import MessageRef
from autonomy_ctx.messages.clamp import clamp_message, clamp_text
from autonomy_ctx.messages.events import DirectMessage, mail_id
from autonomy_ctx.messages.message import Message, now
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params
from autonomy_ctx.validation import check_int

# More than this would not be read carefully by a model.
MAX_INBOX_MESSAGES = 64
# A direct message must not be cut to less than says something.
MIN_INBOX_TOKENS = 64


class InboxSection(ContributingSection):
    """Direct messages to one agent that have not expired, most urgent first, in at most `max_tokens`.

    Without an `agent`, it is the agent whose memory it gets. After a model has answered a context with these
    messages, the agent delivers them: they become part of the history and leave the inbox. Messages that do
    not fit wait for the next context.
    """

    says = "adds"

    # A higher priority than the history, because otherwise mail could wait forever. Its own size is bounded.
    priority = 15

    def __init__(
        self,
        agent: str | None = None,
        *,
        node: str | None = None,
        max_tokens: int = 2048,
        name: str = "inbox",
        enabled: bool = True,
        clock: Callable[[], datetime] = now,
    ) -> None:
        check_int("max_tokens", max_tokens, least=MIN_INBOX_TOKENS)
        super().__init__(name, enabled)
        self.agent, self.node = agent, node
        # Not for the template to see: it would leave out from the beginning, which is most urgent here.
        self._max_tokens = max_tokens
        self._clock = clock

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        # Any memory will do for other sections; only this library's has mail.
        if not isinstance(memory, Memory):
            return Contribution(())
        target = self._target(memory)
        waiting = await Mailbox(memory, clock=self._clock).query_by_target(
            target,
            scope=scope,
            conversation=conversation,
            node=self.node,
            limit=MAX_INBOX_MESSAGES,
        )
        shown = select_most_urgent(waiting, self._max_tokens, memory.token_counter)
        # Mail of another agent is delivered into that agent's log, and its position is not known yet.
        is_quoted = shown and target != memory.agent
        return Contribution(shown, refs=(MessageRef(conversation, agent=target),) if is_quoted else ())

    async def deliver(self, memory: Any, scope: str, conversation: str, messages: Sequence[Message]) -> None:
        """Deliver the mail that a model has read. This happens before its answer is stored."""
        if isinstance(memory, Memory):
            await Mailbox(memory, clock=self._clock).deliver(
                self._target(memory),
                filter(None, map(mail_id, messages)),
                scope=scope,
                conversation=conversation,
            )

    def _target(self, memory: Memory) -> str:
        return memory.agent if self.agent is None else self.agent


def select_most_urgent(waiting: Iterable[DirectMessage], room: int, counter: TokenCounter) -> list[Message]:
    """The first messages that fit, the very first in any case, shortened if it has to be."""
    shown: list[Message] = []
    for mail in waiting:
        message = as_message(mail)
        cost = counter.count_messages([message])
        if cost > room:
            if not shown:
                shown.append(_shorten_mail(mail, int(room / counter.calibration.factor), counter))
            break
        shown.append(message)
        room -= cost
    return shown


def _shorten_mail(mail: DirectMessage, tokens: int, counter: TokenCounter) -> Message:
    """Mail in at most so many uncalibrated tokens, its marks whole; delivered, the log has all of it."""
    count = counter.text_counter.count
    left = tokens - counter.count_uncalibrated(as_message(replace(mail, content="-")))
    how = f"; memory has all of message {mail.id!r}"
    return clamp_message(
        as_message(replace(mail, content=clamp_text(mail.content, max(left, 1), count, how))), tokens, counter
    )
