"""Asking the user: the tool is not run, the turn waits, and the answer becomes its result.

Everything that a restart needs is in the log: a question is a call of this tool that has no result
yet, and the answer is that result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autonomy_ctx.errors import InvalidArguments
from autonomy_ctx.messages.message import ChatRole, Message, ToolCall
from autonomy_ctx.tools.arguments import parse_arguments
from autonomy_ctx.tools.tool import Tool, ToolRegistry


async def _ask_user_for_input(question: str) -> str:
    """Pause for clarification: ask the user what is unclear, what is missing or what they decide.

    Args:
        question: What to ask, in one or two sentences that can be answered without more context.
    """
    return question


ask_user_for_input = Tool(_ask_user_for_input, name="ask_user_for_input", pauses=True)
ToolRegistry.register(ask_user_for_input)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A call that waits for the user."""

    call: ToolCall
    text: str

    def answer(self, text: str) -> Message:
        """The user's answer as the call's result."""
        return Message(ChatRole.TOOL, text, tool_call_id=self.call.id, name=self.call.name)


def open_questions(messages: Iterable[Message]) -> list[Question]:
    """The questions that wait for an answer, in the order they were asked.

    A new user message closes them: whoever goes on talking does not want to answer any more.
    """
    waiting: dict[str | None, Question] = {}
    for message in messages:
        if message.role is ChatRole.USER:
            waiting.clear()
        elif message.role is ChatRole.TOOL:
            waiting.pop(message.tool_call_id, None)
        for call in message.tool_calls:
            if call.name == ask_user_for_input.name and (text := read_question(call)) is not None:
                waiting[call.id] = Question(call=call, text=text)
    return list(waiting.values())


def read_question(call: ToolCall) -> str | None:
    """The question of a call; None if its arguments are not as they should be."""
    try:
        bound = ask_user_for_input.bind(parse_arguments(call), {})
    except InvalidArguments:
        return None
    return str(bound.arguments["question"])
