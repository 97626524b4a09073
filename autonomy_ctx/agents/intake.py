"""What a user said, on its way into memory: a new message, or the answer to a question that waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from autonomy_ctx.agents.reply import WAITING
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.tools.builtin.ask_user import Question, ask_user_for_input, open_questions

# How far back a question that waits can be: its call, and the results of the calls beside it.
QUESTION_REACH = 64
# What a model reads at once; the rest comes with the next turn.
MOST_MAIL = 32
# One answer to several questions asked at once: the others point to it.
POINTER = "See the answer to the question asked before this one."


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    """Where the newest user message is, and itself unless an answer was taken in.

    `waiting` are questions that came after what was said, which was said before.
    """

    position: int
    message: Message | None
    waiting: tuple[str, ...] = ()


async def take_in(
    memory: Memory,
    key: Key,
    message: Message,
    *,
    tools: Collection[str],
    mailbox: Mailbox | None,
    new_id: Callable[[], str],
) -> TakenIn:
    """Store what a user said: as the answer to an open question, otherwise as a new message.

    Mail that waits for the agent comes before a new message.
    """
    _, scope, conversation = key
    window: list[Message] = []
    if ask_user_for_input.name in tools:
        found = await memory.read(scope, conversation, limit=QUESTION_REACH)
        window = [entry.message for entry in found.entries]
    waiting = _waiting(window)
    still = tuple(question.text for question in waiting)
    before = next((one for one in window if one.id == message.id), None)
    if before is not None and before.role is ChatRole.TOOL:
        # The same answer again; the store refuses another one under its id.
        await memory.add_message(scope, conversation, replace(before, content=message.content))
    elif before is not None or not waiting:
        if before is None and mailbox is not None:
            await _receive(mailbox, key)
        position = await memory.add_message(scope, conversation, message)
        return TakenIn(position=position, message=message, waiting=still)
    else:
        still = ()
        await memory.add_messages(scope, conversation, _answers(waiting, message, new_id))
    last_user = (await memory.head(scope, conversation)).last_user
    return TakenIn(position=last_user, message=None, waiting=still)


async def _receive(mailbox: Mailbox, key: Key) -> None:
    """Take mail into the log, most urgent first; one by one, since together it goes by time."""
    agent, scope, conversation = key
    waiting = await mailbox.query_by_target(agent, scope=scope, conversation=conversation, limit=MOST_MAIL)
    for mail in waiting:
        await mailbox.deliver(agent, [mail.id], scope=scope, conversation=conversation)


def _answers(waiting: Sequence[Question], message: Message, new_id: Callable[[], str]) -> list[Message]:
    first, *others = waiting
    at = message.created_at
    answers = [replace(first.answered(""), content=message.content, id=message.id, created_at=at)]
    return answers + [replace(other.answered(POINTER), id=new_id(), created_at=at) for other in others]


def _waiting(window: Sequence[Message]) -> list[Question]:
    """The open questions that a turn paused for; those of a turn that was cut short were never asked."""
    asked = {call.id for one in window if one.phase == WAITING for call in one.tool_calls}
    return [question for question in open_questions(window) if question.call.id in asked]
