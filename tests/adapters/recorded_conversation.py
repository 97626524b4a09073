"""One conversation that runs through every framework, and the context that all of them give in the end.

A question with an image is answered after two calls at once, of which one fails; then there is a second
question. The model thinks before it calls.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from models.provider_words import Asked, Call, Say

from autonomy_ctx import ComposedContext, ImageContent, Message, ThinkingContent
from autonomy_ctx.messages.summary import Summary

SCOPE, CONVERSATION = "ana", "trip"
INSTRUCTIONS = "You are a guide. Use the tools."
# One pixel: frameworks look into the bytes.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000000000200"
    "01e221bc330000000049454e44ae426082"
)
QUESTION = "What is the weather at the places in this picture?"
SECOND_QUESTION = "Thanks. Which one is warmer?"
THINKING = "Two places, two calls."
CALLS = Say(
    "I look at both.",
    [Call("call_rome", "weather", {"city": "Rome"}), Call("call_oslo", "weather", {"city": "Oslo"})],
    thinking=THINKING,
)
RESULT, FAILURE = "18 degrees in Rome", "no station in Oslo"
SUMMARY = "Ana asked one question after the other, and each was noted."
ANSWER = "It is 18 degrees in Rome. Oslo has no station."


def weather(city: str) -> str:
    """What the tool of the conversation answers; a framework's test makes its own tool of it."""
    if city != "Rome":
        raise LookupError(f"no station in {city}")
    return f"18 degrees in {city}"


def noted(text: str) -> str:
    """The answer to any other question."""
    return f"Noted: {text}"


def answer(asked: Asked) -> Say:
    """What the model says: calls first, then an answer from the results; other questions it notes."""
    # Some clients send an image in a message of its own.
    role, text = [(role, text) for role, text in asked.said if text][-1]
    if role == "tool":
        return Say(ANSWER)
    return CALLS if text == QUESTION else Say(noted(text))


@dataclass(frozen=True)
class Shown:
    """A message of a context: what every framework must carry, and what some cannot."""

    role: str
    text: str
    # Id, name and arguments of each call.
    calls: tuple[tuple[str | None, str, Any], ...] = ()
    result_of: str | None = None
    # What a framework or its client may lack: images, thinking, error flags.
    images: int = 0
    thinking: str = ""
    is_error: bool = False


EXPECTED = [
    Shown("system", INSTRUCTIONS),
    Shown("user", QUESTION, images=1),
    Shown(
        "assistant",
        CALLS.text,
        calls=tuple((call.id, call.name, dict(call.arguments)) for call in CALLS.calls),
        thinking=THINKING,
    ),
    Shown("tool", RESULT, result_of="call_rome"),
    Shown("tool", FAILURE, result_of="call_oslo", is_error=True),
    Shown("assistant", ANSWER),
    Shown("user", SECOND_QUESTION),
]


def expected(carries: Collection[str]) -> list[Shown]:
    """The context of the second question in a framework that carries these of images, thinking, errors."""
    return [
        replace(
            one,
            images=one.images if "images" in carries else 0,
            thinking=one.thinking if "thinking" in carries else "",
            is_error=one.is_error and "errors" in carries,
        )
        for one in EXPECTED
    ]


def shown(composed: ComposedContext) -> list[Shown]:
    """A context, message by message."""
    return [_shown(message) for message in composed.messages]


def _shown(message: Message) -> Shown:
    # Some frameworks add to the instructions what an agent is called.
    is_rule = message.text.startswith(INSTRUCTIONS)
    return Shown(
        "summary" if isinstance(message, Summary) else message.role.value,
        INSTRUCTIONS if is_rule else message.text,
        calls=tuple((call.id, call.name, json.loads(call.arguments)) for call in message.tool_calls),
        result_of=message.tool_call_id,
        images=sum(isinstance(part, ImageContent) for part in message.parts),
        thinking="".join(part.text for part in message.parts if isinstance(part, ThinkingContent)),
        is_error=message.is_error,
    )
