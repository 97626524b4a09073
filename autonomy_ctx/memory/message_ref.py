"""`MessageRef`: a message that a stored text quotes, so that deleting the message deletes the text too."""

from __future__ import annotations

from dataclasses import dataclass

from autonomy_ctx.memory.store import MAX_POSITION, Key, check_name
from autonomy_ctx.validation import check_int


@dataclass(frozen=True, slots=True)
class MessageRef:
    """A quoted message: its conversation and position, in the scope of the text that quotes it.

    Without a position, it is any message of the conversation. Without an agent, it is the agent of the text.
    """

    conversation: str
    position: int | None = None
    agent: str | None = None

    def __post_init__(self) -> None:
        check_name("conversation", self.conversation)
        check_int("position", self.position, most=MAX_POSITION, optional=True)
        if self.agent is not None:
            check_name("agent", self.agent)

    def key(self, quoting: Key) -> Key:
        """The key of the quoted conversation, for a text of the conversation `quoting`."""
        agent = quoting.agent if self.agent is None else self.agent
        return Key(agent, quoting.scope, self.conversation)
