"""What a case of the gate is made of: a conversation, records that may stand for it, replies that may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autonomy_ctx import Message, ToolCall

_ROLES = {"U": "user", "A": "assistant"}


@dataclass(frozen=True, slots=True)
class Source:
    """A conversation and records of it that a careful person wrote by hand."""

    name: str
    script: str
    records: tuple[str, ...]

    def messages(self) -> list[Message]:
        """The script as messages: `U:` user, `A:` assistant, `C:` a call, `R:` its result."""
        made: list[Message] = []
        for number, line in enumerate(self.script.strip().split("\n")):
            kind, _, text = line.partition(": ")
            if kind == "C":
                name, _, arguments = text.partition(" ")
                made.append(Message("assistant", None, tool_calls=[ToolCall(f"c{number}", name, arguments)]))
            elif kind == "R":
                made.append(Message("tool", text.replace("\\n", "\n"), tool_call_id=f"c{number - 1}"))
            else:
                made.append(Message(_ROLES[kind], text))
        return made


@dataclass(frozen=True, slots=True)
class BadReply:
    """A reply of one kind; made from the source and the prompt where the kind needs them."""

    kind: str
    text: str | Callable[[Source, str], str]
    stop: str = "stop"

    def reply_to(self, source: Source, prompt: str) -> str:
        return self.text if isinstance(self.text, str) else self.text(source, prompt)


@dataclass(frozen=True, slots=True)
class TurnedRule:
    """A record with a rule of the user as its opposite; without its `claim` the record may stand."""

    source: Source
    rule: str
    text: str
    kind: str = "rule"
    claim: str = ""
