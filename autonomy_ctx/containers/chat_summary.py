"""The summaries of a `ChatContext`: which items are summarized, and the errors of a rejected answer.

The summarized items are removed, so the prompt and the checks are those of a summary of a log. But if the
summary fails, no digest replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.compaction.checks import CUT_OFF, LONGER, SMALLEST, TOO_LONG, check_summary
from autonomy_ctx.compaction.prompt import batch_prompt
from autonomy_ctx.errors import SummaryFailed
from autonomy_ctx.formats.any_reply import CUT_OFF_REASONS
from autonomy_ctx.messages.cuts import has_content, is_instruction
from autonomy_ctx.messages.events import DirectMessage
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.transcript import transcript
from autonomy_ctx.messages.wire import Item
from autonomy_ctx.models.call import CallFailed, ChatModel, PromptTooLong, complete_prompt, is_chat_model

CONVERSATION_SUMMARY = "[Conversation Summary]\n"
SUB_AGENT_SUMMARY = "[Sub-agent Summary]\n"
DEFAULT_MAX_TOKENS = 2048

TOO_LONG_TEXT = "has {size:,} tokens, more than the {source:,} it should stand for"
# Sentences for the gate's words.
_PROBLEMS = {
    "refused by the model": "was refused by the model",
    "tool protocol": "is a tool call instead of a text",
    "empty": "is empty",
    "echo": "repeats what the model was shown",
    "error page": "is an error page",
    "prompt repeated": "repeats the instructions",
    "refusal in words": "is a refusal in words",
    "loop": "repeats itself",
    "other script": "is in another script than the conversation",
    CUT_OFF: "was cut off; give it more `max_tokens`",
    TOO_LONG: TOO_LONG_TEXT,
    LONGER: TOO_LONG_TEXT,
}


async def summarize_items(
    items: Sequence[Item],
    model: ChatModel,
    *,
    earlier: Sequence[Item] = (),
    counter: TokenCounter,
    max_tokens: int,
) -> str:
    """A text that stands for these items and for earlier summaries; empty when the items say nothing.

    Raises `SummaryFailed` when the model gives none; what it raised itself is the cause.
    """
    if not is_chat_model(model):
        raise TypeError(f"a model has a method `complete_chat`; {type(model).__name__} has none")
    messages = _messages(items)
    if not any(message.tool_calls or has_content(message) for message in messages):
        return ""
    said = transcript(messages, counter=counter)
    known = [message.text.removeprefix(CONVERSATION_SUMMARY) for message in _messages(earlier)]
    prompt = batch_prompt(said, known, cap=max_tokens, instructions=None, carry_over=bool(known))
    try:
        reply = await complete_prompt(model, prompt, max_tokens=max_tokens)
    except (CallFailed, PromptTooLong) as error:
        # No text of the model's own error: it may quote what users said.
        raise SummaryFailed(f"could not be written ({error})") from error.__cause__
    source = "\n\n".join([*known, said])
    tokens = counter.count_text(source)
    # It only has to be shorter than its source, and nothing is asked again: no cap, no names to look for.
    verdict = check_summary(
        reply,
        source=source,
        source_tokens=tokens,
        cap=max(tokens, SMALLEST),
        count=counter.count_text,
        secret=prompt.secret,
        key_names=(),
        asked=prompt.messages[0]["content"],
    )
    if not verdict.text or verdict.problem in (CUT_OFF, TOO_LONG):
        is_cut = (reply.stop or "").lower() in CUT_OFF_REASONS and verdict.problem == "empty"
        problem = _PROBLEMS[CUT_OFF if is_cut else verdict.problem or "empty"]
        size = counter.count_text(reply.text)
        raise SummaryFailed(problem.format(size=size, source=tokens))
    return verdict.text


def _messages(items: Sequence[Item]) -> list[Message]:
    """The messages to summarize: no instructions, and direct messages as ordinary messages."""
    found = []
    for item in items:
        if isinstance(item, DirectMessage):
            text = f"[Direct message from {item.source_agent} to {item.target_agent}] {item.content}"
            found.append(Message("user", text, id=item.id, created_at=item.created_at))
        elif isinstance(item, Message) and not is_instruction(item):
            found.append(item)
    return found
