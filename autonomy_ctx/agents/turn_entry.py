"""Accepts the message of a user: as a new message, or as the answer to an open question.

Mail of other agents that waits comes into the log before a new message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from autonomy_ctx.agents.options import TurnEnvironment
from autonomy_ctx.agents.reply import WAITING_FOR_INPUT
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import ChatRole, Message

if TYPE_CHECKING:
    from autonomy_ctx.tools.builtin.ask_user import Question

# How far back a question that waits can be: its call, and the results of the calls beside it.
QUESTION_LOOKBACK = 64
# What a model reads at once; the rest comes with the next turn.
MAX_MAIL = 32
# One answer to several questions asked at once: the others point to it.
SAME_ANSWER = "See the answer to the question asked before this one."


class EntryPlan(NamedTuple):
    """The messages that store what a user said, and the log before them: its end and its generation."""

    messages: Sequence[Message]
    # The newest user message; None if the user answers a question.
    message: Message | None = None
    waiting: tuple[str, ...] = ()
    # Whether mail comes before it.
    takes_mail: bool = False
    position: int = 0
    generation: int = 0


async def plan_entry(environment: TurnEnvironment, key: Key, message: Message) -> EntryPlan:
    """Plan what to store of what a user said: the answer to an open question, otherwise a new message."""
    _, scope, conversation = key
    window: list[Message] = []
    if reads_log(environment):
        found = await environment.memory.read(scope, conversation, limit=QUESTION_LOOKBACK)
        head, window = found.head, [entry.message for entry in found.entries]
    else:
        head = await environment.memory.head(scope, conversation)
    waiting = _questions_of_paused_turn(window) if window else []
    texts = tuple(question.text for question in waiting)
    before = next((one for one in window if one.id == message.id), None)
    plan = EntryPlan([message], message, texts, position=head.position, generation=head.generation)
    if before is not None and before.role is ChatRole.TOOL:
        # The same answer again; the store refuses another one under its id.
        return plan._replace(messages=[replace(before, content=message.content)], message=None)
    if before is None and waiting:
        answers = _answer_messages(waiting, message, environment.new_id)
        return plan._replace(messages=answers, message=None, waiting=())
    return plan._replace(takes_mail=before is None and await _has_mail(environment, key))


def reads_log(environment: TurnEnvironment) -> bool:
    """True if what a user says may be the answer to an open question, which only the log tells."""
    # Imported here and below: built-in tools are made when their modules are imported.
    from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input

    return ask_user_for_input.name in environment.listing.tools


async def _has_mail(environment: TurnEnvironment, key: Key) -> bool:
    """Tell whether mail waits: it comes into the log before the user's message, and so stays there."""
    agent, scope, conversation = key
    mailbox = Mailbox(environment.memory, clock=environment.clock)
    return bool(await mailbox.query_by_target(agent, scope=scope, conversation=conversation, limit=1))


async def receive_mail(environment: TurnEnvironment, key: Key) -> None:
    """Take mail into the log, most urgent first; one by one, since together it goes by time."""
    agent, scope, conversation = key
    mailbox = Mailbox(environment.memory, clock=environment.clock)
    waiting = await mailbox.query_by_target(agent, scope=scope, conversation=conversation, limit=MAX_MAIL)
    for mail in waiting:
        await mailbox.deliver(agent, [mail.id], scope=scope, conversation=conversation)


def _answer_messages(
    waiting: Sequence[Question], message: Message, new_id: Callable[[], str]
) -> list[Message]:
    first, *others = waiting
    at = message.created_at
    answers = [replace(first.answer(""), content=message.content, id=message.id, created_at=at)]
    return answers + [replace(other.answer(SAME_ANSWER), id=new_id(), created_at=at) for other in others]


def _questions_of_paused_turn(window: Sequence[Message]) -> list[Question]:
    """The open questions that a turn paused for; those of a turn that was cut short were never asked."""
    from autonomy_ctx.tools.builtin.ask_user import open_questions

    asked = {call.id for one in window if one.phase == WAITING_FOR_INPUT for call in one.tool_calls}
    return [question for question in open_questions(window) if question.call.id in asked]
