"""The context for a framework or a client: our messages, each with its original object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.agents.explain import SentTurn
from autonomy_ctx.formats.outgoing import INSTRUCTION_ROLES, OPENING_TEXT, repair_messages
from autonomy_ctx.formats.thinking import binds_thinking, without_thinking
from autonomy_ctx.memory.store import Head, Key
from autonomy_ctx.messages.message import ChatRole, Message, Part, TextContent
from autonomy_ctx.messages.summary import visible_fields
from autonomy_ctx.template.composed import ComposedContext


@dataclass(frozen=True, slots=True)
class SourcedMessage:
    """A message with the framework's own object for it; None if the framework has none."""

    message: Message
    source: Any = None
    # The id that it has in memory; not that of the message, which would have to be made anew for it.
    stored_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkContext:
    """The context that a framework sends instead of its history.

    A message that is shown unchanged has a `source`, the framework's own object: send that, as it is
    complete.
    """

    composed: ComposedContext
    instructions: Sequence[SourcedMessage]
    messages: Sequence[SourcedMessage]
    # The framework's own history, under the ids that its messages have in memory.
    history: Sequence[SourcedMessage] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    # The position of the user's message that it answers, and the past that it was made from.
    turn_position: int = 0
    generation: int = 0
    # The log when it was composed, if that is known.
    head: Head | None = None
    # The turn, once the context is recorded; its model, if its name is known; and when it was composed.
    turn: SentTurn | None = None
    model: str | None = None
    composed_at: float = 0.0
    # The ids of messages whose thinking must not be sent, also where only the framework knows of it.
    without_thinking: frozenset[str] = frozenset()

    @property
    def instructions_text(self) -> str:
        """All instructions as one text."""
        return "\n\n".join(one.message.text for one in self.instructions if one.message.text)


class TurnContexts:
    """The contexts of one turn, step by step, and the newest context of the conversation."""

    def __init__(
        self,
        branch: Key,
        position: int,
        message: Message | None,
        name: str,
        previous: ComposedContext | None,
    ) -> None:
        self.branch, self.position, self.message, self.name = branch, position, message, name
        self.previous = previous
        # The contexts of its calls.
        self.steps: list[ComposedContext] = []
        self.generation = 0
        # Once a context was recorded, or if the turn before ran here.
        self.number: int | None = None
        # Where the log ended after its answer.
        self.end = 0

    def as_sent(self) -> SentTurn:
        """The turn as it is recorded."""
        return SentTurn(
            number=self.number or 0,
            id=self.name,
            position=self.position,
            generation=self.generation,
            has_message_id=self.message is not None,
        )


def plain_content(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Parts as content; a single text as a plain string, as most messages have it."""
    if not parts:
        return ""
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], TextContent) else tuple(parts)


def framework_context(
    composed: ComposedContext, said: Sequence[SourcedMessage], *, thinking_after: int = 0
) -> FrameworkContext:
    """A composed context, with what the framework has for each message that is shown as it was.

    Messages up to the position `thinking_after` are shown without their thinking.
    """
    positions = composed.positions() if thinking_after else ()
    shown_at = zip(composed.messages, positions, strict=True) if positions else ()
    stale = frozenset(one.id for one, position in shown_at if position is None or position <= thinking_after)
    known = {one.stored_id or one.message.id: one for one in said}
    # Instructions are sent with each call, under another id each time.
    rules = {str(visible_fields(one.message)): one for one in said if one.message.role in INSTRUCTION_ROLES}
    instructions: list[SourcedMessage] = []
    messages: list[SourcedMessage] = []
    for message in repair_messages(composed.messages).messages:
        own = known.get(message.id)
        if own is None and message.role in INSTRUCTION_ROLES:
            own = rules.get(str(visible_fields(message)))
        if message.id in stale:
            # Compared below: without its thinking, it is not what the framework has.
            message = without_thinking(message)
        is_same = own is not None and visible_fields(own.message) == visible_fields(message)
        shown = SourcedMessage(message, own.source if own is not None and is_same else None)
        # In the middle of a history, a rule stays where the framework had it.
        leads = message.role in INSTRUCTION_ROLES and (not messages or shown.source is None)
        (instructions if leads else messages).append(shown)
    if messages and messages[0].message.role is ChatRole.ASSISTANT:
        # What came before was cut, and most providers want a user's message first.
        messages.insert(0, SourcedMessage(Message("user", OPENING_TEXT)))
    return FrameworkContext(
        composed=composed, instructions=instructions, messages=messages, without_thinking=stale
    )


def thinking_start(composed: ComposedContext, head: Head, model: str | None) -> int:
    """The position up to which thinking is left out: it was made before this epoch began.

    0 for a model that does not bind thinking to what stands before it. In a tool loop, a model of which that
    is not known may need it.
    """
    is_bound = binds_thinking(model or "")
    if is_bound is False:
        return 0
    return composed.state.began if is_bound else min(composed.state.began, head.last_user)


def insert_before_question(
    messages: Sequence[SourcedMessage], others: Sequence[SourcedMessage]
) -> list[SourcedMessage]:
    """Messages with others that are for this call only, before the last things that the user said."""
    start = len(messages)
    while start and messages[start - 1].message.role is ChatRole.USER:
        start -= 1
    return [*messages[:start], *others, *messages[start:]]
