"""`RecordedConversation`: a past conversation, turn by turn, for a replay.

It is read from a memory or, with `read_conversation_file`, from a file of another system.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from autonomy_ctx.agents.explain import ContextRecords
from autonomy_ctx.errors import UnknownConversation, UnknownTurn
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import make_key
from autonomy_ctx.memory.turn_figures import read_numbers
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.events import is_said_by_user
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.validation import check_int

# Messages without a time get one, a minute apart: the same for every replay.
FIRST_TIME = datetime(2026, 1, 1, 9, tzinfo=UTC)
MESSAGE_SECONDS = 60
MESSAGES_PER_READ = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One request to a model: the messages since the previous request, and the answer.

    `answer` is None if the record ends without one.
    """

    said: tuple[Message, ...]
    answer: Message | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """A user's message and all requests until the answer; `position` is the user message's.

    `rest` are the messages after the last request: its answer, and what followed. The number is None if the
    conversation has figures of turns, but not of this one: then it has no number in the memory either.
    """

    number: int | None
    position: int
    requests: tuple[RecordedRequest, ...]
    rest: tuple[Message, ...]


@dataclass(frozen=True, slots=True, init=False)
class RecordedConversation:
    """The messages of a recorded conversation in order, with their recorded times, and its instructions."""

    name: str
    messages: tuple[Message, ...]
    instructions: str
    # Whether the record says when each message was written.
    has_times: bool
    # The numbers of turns in the memory, by the ids of the users' messages; empty if there are none.
    turn_numbers: Mapping[str, int]

    def __init__(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        name: str = "conversation",
        instructions: str = "",
    ) -> None:
        """From messages or their dicts. System messages at the beginning are the instructions."""
        given = list(messages)
        made = [_make_message(one, index) for index, one in enumerate(given)]
        # Instructions have no time in most records.
        has_times = all(
            _has_time(one) for one, read in zip(given, made, strict=True) if read.role is not ChatRole.SYSTEM
        )
        if not has_times:
            made = [replace(read, created_at=_time_at(index)) for index, read in enumerate(made)]
        leading = next((at for at, one in enumerate(made) if one.role is not ChatRole.SYSTEM), len(made))
        texts = [instructions, *(one.text for one in made[:leading])]
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "messages", tuple(made[leading:]))
        object.__setattr__(self, "instructions", "\n\n".join(filter(None, texts)))
        object.__setattr__(self, "has_times", has_times)
        object.__setattr__(self, "turn_numbers", EMPTY)

    def turns(self) -> list[RecordedTurn]:
        """Each turn with its requests. Messages before the first user message belong to its turn.

        They have the numbers of the memory. Without figures of turns there, users' messages are counted.
        """
        starts = [at for at, message in enumerate(self.messages) if is_said_by_user(message)]
        # What comes before the first user's message is said with it.
        ends = [*starts[1:], len(self.messages)]
        begins = [0, *starts[1:]]
        numbers = self.turn_numbers
        return [
            _make_turn(
                numbers.get(self.messages[start].id) if numbers else counted,
                start + 1,
                self.messages[begin:end],
                start - begin,
            )
            for counted, (begin, start, end) in enumerate(zip(begins, starts, ends, strict=False), 1)
        ]

    def last_turns(self, count: int) -> RecordedConversation:
        """Make a copy with only the last turns."""
        check_int("count", count)
        starts = [at for at, message in enumerate(self.messages) if is_said_by_user(message)]
        if len(starts) <= count:
            return self
        return self._with(messages=self.messages[starts[-count] :])

    def with_instructions(self, instructions: str) -> RecordedConversation:
        """Make a copy with other instructions."""
        return self._with(instructions=instructions)

    def _with(self, **fields: Any) -> RecordedConversation:
        made = RecordedConversation(())
        for name in ("name", "messages", "instructions", "has_times", "turn_numbers"):
            object.__setattr__(made, name, fields.get(name, getattr(self, name)))
        return made


async def read_conversation(memory: Memory, scope: str, conversation: str) -> RecordedConversation:
    """Read a conversation of a memory; on the view of an agent, a conversation with that agent.

    If the agent's newest turns are recorded, their instructions are read too.
    """
    messages: list[Message] = []
    positions: list[int] = []
    head = await memory.head(scope, conversation)
    if not head.count:
        raise UnknownConversation(conversation)
    for after in range(0, head.position, MESSAGES_PER_READ):
        window = await memory.read(
            scope, conversation, after=after, before=min(after + MESSAGES_PER_READ, head.position) + 1
        )
        messages += [entry.message for entry in window.entries]
        positions += [entry.position for entry in window.entries]
    instructions = await _read_instructions(memory, scope, conversation)
    made = RecordedConversation(messages, name=conversation, instructions=instructions)
    numbers = await read_numbers(memory.store, make_key(memory.agent, scope, conversation))
    # System messages at the beginning are instructions there.
    placed = zip(made.messages, positions[len(positions) - len(made.messages) :], strict=True)
    return made._with(turn_numbers={one.id: numbers[at] for one, at in placed if at in numbers})


async def _read_instructions(memory: Memory, scope: str, conversation: str) -> str:
    """Read what stood before the history in the newest recorded turn; nothing without one."""
    records = ContextRecords(memory, seconds=math.inf, clock=lambda: datetime.now(UTC))
    try:
        context = await records.explain(make_key(memory.agent, scope, conversation), None, None)
    except UnknownTurn:
        return ""
    messages = context.messages
    return "\n\n".join(
        messages[index].text
        for section in context.sections
        if section.kind == "stable"
        for index in section.indexes
        if messages[index].role is ChatRole.SYSTEM
    )


def _make_turn(number: int | None, position: int, messages: Sequence[Message], user: int) -> RecordedTurn:
    """A turn of these messages; `user` is the index of the user's message among them."""
    requests: list[RecordedRequest] = []
    start = 0
    for index in range(user + 1, len(messages)):
        # Two messages of the assistant in a row are one answer.
        if messages[index].role is ChatRole.ASSISTANT and messages[index - 1].role is not ChatRole.ASSISTANT:
            requests.append(RecordedRequest(said=tuple(messages[start:index]), answer=messages[index]))
            start = index
    if not requests:
        requests, start = [RecordedRequest(said=tuple(messages), answer=None)], len(messages)
    return RecordedTurn(
        number=number, position=position, requests=tuple(requests), rest=tuple(messages[start:])
    )


def _has_time(value: Any) -> bool:
    if isinstance(value, Message):
        return True
    return any(value.get(name) is not None for name in ("created_at", "timestamp"))


def _time_at(index: int) -> datetime:
    return FIRST_TIME + timedelta(seconds=index * MESSAGE_SECONDS)


def _make_message(value: Any, index: int) -> Message:
    """A message with an id by its place: ids of a record may be missing or used twice."""
    message = wire.from_dict(value, new_id=lambda: "", now=lambda: _time_at(index))
    if isinstance(message, Summary):
        message = Message("system", "\n".join(message.texts), created_at=message.created_at)
    return replace(message, id=f"m{index + 1}")
