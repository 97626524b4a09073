"""Structured answers: `send(text, output=MyType)` and what a turn does for it.

The schema goes with the request where the provider has a field for it. Otherwise an instruction is stored
right behind the user's message, so that later requests still begin with this one. An answer that does not fit
is stored as it is, and behind it a message that asks for another one: the log says what happened, and nothing
that was sent is changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NoReturn

from autonomy_ctx.agents.options import TurnEnvironment
from autonomy_ctx.agents.reply import (
    STEPS_USED_UP,
    TOKENS_USED_UP,
    WAITING_FOR_INPUT,
    AgentEvent,
    AgentReply,
    Listener,
    PartialOutput,
    StructuredReply,
)
from autonomy_ctx.errors import InvalidMessage, OutputError
from autonomy_ctx.formats.base import CallStarted, ModelReply, TextDelta
from autonomy_ctx.formats.output_schema import OutputSchema, drop_nulls, find_problem
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.cuts import OUTPUT_REQUEST
from autonomy_ctx.messages.json_values import validate_json
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.models.model import Model
from autonomy_ctx.tools.arguments import convert_answer
from autonomy_ctx.tools.schema import ModelClass, ObjectKind, Shape, inline_references, schema_of

# Ends of a turn after which there is nothing to repair, and what is wrong then.
_ENDS = {
    "refused": "the model refused to answer",
    STEPS_USED_UP: "the turn reached its limit of steps",
    TOKENS_USED_UP: "the turn reached its limit of tokens",
}
_REPAIR = "Your last answer does not fit the JSON schema: {problem}. Answer again, with only the JSON object."
_FENCE = "```"
_FIRST_HALVES = ("\\ud8", "\\ud9", "\\uda", "\\udb")
_MAX_PROBLEM = 300


class TurnOutput:
    """The value that a turn must answer with: asks for it, checks it, and asks once more if it is wrong."""

    def __init__(self, agent: str, output: Any) -> None:
        self._agent = agent
        self._shape = None if isinstance(output, Mapping) else Shape(output)
        self.schema = _read_schema(output, self._shape)
        # The schema as it goes with the request; None if the provider has no field for it.
        self.sent: OutputSchema | None = None
        self._has_repaired = False
        self._partial = PartialJson()

    async def ask(self, environment: TurnEnvironment, key: Key, asked: Message) -> list[Message]:
        """Store an instruction behind what the user said, unless the provider has a field for the schema."""
        model = environment.model
        if isinstance(model, Model):
            self.sent = model.sent_output(self.schema, environment.listing.specs)
        if self.sent is not None:
            return []
        # If the user's message is sent again, the same instruction is stored once.
        text = self.schema.instruction
        name = hashlib.sha256(f"{asked.id} {text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        instruction = _system_message(name, text, environment)
        await environment.memory.append(key.scope, key.conversation, instruction)
        return [instruction]

    def repair(self, reply: ModelReply, environment: TurnEnvironment) -> list[Message]:
        """The request to answer again, once; nothing if the answer fits."""
        if self._has_repaired or reply.stop in _ENDS:
            return []
        try:
            self._read(reply.text)
        except ValueError as error:
            self._has_repaired, self._partial = True, PartialJson()
            text = _REPAIR.format(problem=str(error)[:_MAX_PROBLEM])
            return [_system_message(environment.new_id(), text, environment)]
        return []

    def finish(self, reply: AgentReply) -> AgentReply:
        """The reply of the turn with its value; without one if the turn waits for the user."""
        value = None
        if reply.stop != WAITING_FOR_INPUT:
            try:
                value = self._read(reply.text)
            except ValueError as error:
                raise OutputError(
                    agent=self._agent,
                    output=self.schema.name,
                    problem=_ENDS.get(reply.stop, str(error)),
                    text=reply.text,
                    turn=reply.turn,
                ) from None
        known = {field.name: getattr(reply, field.name) for field in fields(AgentReply)}
        return StructuredReply(**{**known, "output": value})

    def listen(self, listener: Listener) -> Listener:
        """A listener that is told of the value so far, too, whenever more of it has come."""

        async def tell(event: AgentEvent) -> None:
            await listener(event)
            if isinstance(event, CallStarted):
                # The text before a call is not the answer.
                self._partial = PartialJson()
            elif isinstance(event, TextDelta) and (value := self._partial.feed(event.text)) is not None:
                await listener(PartialOutput(value))

        return tell

    def _read(self, text: str) -> Any:
        """The value of an answer; a `ValueError` says where it does not fit."""
        value = drop_nulls(self.schema.schema, _parse(text))
        if self._shape is not None:
            return convert_answer(self._shape, value)
        if (problem := find_problem(self.schema.schema, value)) is not None:
            raise ValueError(problem)
        return value


class PartialJson:
    """Reads a JSON object piece by piece, and closes what is open to give the value so far.

    A text that is not complete is given as far as it is; a key without its value, and a number or a word that
    may go on, are left out.
    """

    def __init__(self) -> None:
        self._text, self._end, self._closing = "", 0, ""
        # The brackets that are open, innermost last, each as the one that closes it.
        self._open: list[str] = []
        self._in_text = self._is_key = self._key_follows = False
        self._escaped = 0
        self._value: Any = None

    def feed(self, piece: str) -> Any:
        """The value after one more piece; None if it is still the same."""
        at = len(self._text)
        self._text += piece
        for end, char in enumerate(piece, at + 1):
            if self._in_text:
                self._read_text(char, end)
            elif self._open or (char == "{" and not self._end):
                self._read_structure(char, end)
        if not self._end:
            return None
        try:
            value = json.loads(self._text[self._text.index("{") : self._end] + self._closing)
        except ValueError:
            return None
        is_new, self._value = value != self._value, value
        return value if is_new else None

    def _read_text(self, char: str, end: int) -> None:
        if self._escaped:
            # Four digits follow a `u`.
            self._escaped = 4 if char == "u" else self._escaped - 1
        elif char == "\\":
            self._escaped = 1
        elif char == '"':
            self._in_text = False
        if not self._escaped and not self._is_key and not self._is_half(end):
            self._mark(end, '"' if self._in_text else "")

    def _is_half(self, end: int) -> bool:
        """Tell whether the text ends with the first of two escapes that are one character."""
        return self._text[end - 6 : end - 2].lower().startswith(_FIRST_HALVES)

    def _read_structure(self, char: str, end: int) -> None:
        match char:
            case '"':
                self._in_text, self._is_key = True, self._key_follows
            case "{" | "[":
                self._open.append("}" if char == "{" else "]")
                self._key_follows = char == "{"
                self._mark(end)
            case "}" | "]":
                self._open.pop()
                self._key_follows = False
                self._mark(end)
            case ",":
                self._key_follows = self._open[-1] == "}"
                self._mark(end - 1)
            case ":":
                self._key_follows = False

    def _mark(self, end: int, closing: str = "") -> None:
        """Note that the text up to here is a value, once it is closed."""
        self._end, self._closing = end, closing + "".join(reversed(self._open))


def _read_schema(output: Any, shape: Shape | None) -> OutputSchema:
    """The schema of a type or of a dict that is one; it must be that of an object."""
    if shape is None:
        try:
            schema, name = inline_references(validate_json(dict(output), "output")), "answer"
        except InvalidMessage as error:
            raise TypeError(f"output is not a JSON schema: it {error.problem}; nothing was stored") from None
    elif isinstance(shape.kind, ObjectKind | ModelClass):
        schema, name = schema_of(shape), getattr(shape.annotation, "__name__", "answer")
    else:
        schema, name = {}, ""
    if schema.get("type") != "object":
        given = "a dict of another schema" if shape is None else repr(output)
        raise TypeError(
            f"output must be a dataclass, a TypedDict, a pydantic model or the JSON schema of an object, not "
            f"{given}; put other values into a field of one. Nothing was stored"
        )
    return OutputSchema(str(schema.get("title") or name), schema)


def _system_message(message_id: str, text: str, environment: TurnEnvironment) -> Message:
    at, extra = environment.clock(), {OUTPUT_REQUEST: True}
    return Message(ChatRole.SYSTEM, text, id=message_id, created_at=at, agent=environment.name, extra=extra)


def _parse(text: str) -> Any:
    """The JSON of an answer, also between other text or in a code fence."""
    # The text of the first fence, without the name of its language.
    fenced = [part.partition("\n")[2] for part in text.split(_FENCE, 2)[1:2]]
    first, last = text.find("{"), text.rfind("}")
    tried = [text, *fenced, *([text[first : last + 1]] if 0 <= first < last else [])]
    for one in tried:
        try:
            return json.loads(one, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            continue
    raise ValueError("answer is not JSON")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
