"""Changes of conversations over HTTP: pins, facts, the last turn, messages, a whole conversation."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypeAlias, TypedDict

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.messages.fact import Fact, FactAction, FactKind
from autonomy_ctx.server.common.arguments import Argument, ConversationTarget, RequestReader, answers
from autonomy_ctx.server.common.errors import ClientError, RequestRefused, bad_request

MessageId: TypeAlias = Annotated[str, Argument("the id of a message")]


class FactBody(TypedDict):
    """A fact to add, to replace or to mark as done, by its `fact_id`."""

    conversation: str
    action: NotRequired[FactAction]
    fact_id: NotRequired[str | None]
    kind: NotRequired[FactKind | None]
    text: NotRequired[str | None]


class FactAnswer(TypedDict):
    """The current fact; null for a fact that is done."""

    fact: Fact | None


class Removal(TypedDict):
    """A fact was removed."""

    removed: bool


class PinBody(TypedDict):
    """A message to pin, optionally instead of another."""

    conversation: str
    message_id: str
    replaces: NotRequired[str | None]


class Confirmation(TypedDict):
    """The change was made."""

    done: bool


class UndoBody(TypedDict):
    """The thing to undo: the last turn, or the newest segment of the summary."""

    conversation: str
    what: Literal["turn", "summary"]


class UndoAnswer(TypedDict):
    """The number of messages or segments that were removed."""

    undone: int


class DeletionAnswer(TypedDict):
    """The number of messages that were deleted."""

    deleted: int


class ConversationEdits:
    """Changes conversations.

    If the agent runs in this process, deletions go through it, so that they happen between two turns.
    """

    def __init__(self, requests: RequestReader) -> None:
        self.requests = requests

    @answers
    async def pin(self, target: ConversationTarget, body: PinBody) -> Confirmation:
        """Pin a message: every later context shows it verbatim."""
        return _confirm(await target.memory.pin(*target[1:], body["message_id"], replaces=body["replaces"]))

    @answers
    async def unpin(self, target: ConversationTarget, message_id: MessageId) -> Confirmation:
        """Unpin a message."""
        return _confirm(await target.memory.unpin(*target[1:], message_id))

    @answers
    async def add_fact(self, target: ConversationTarget, body: FactBody) -> FactAnswer:
        """Add or replace a fact, or mark it as done."""
        facts = target.memory.facts(*target[1:])
        fact_id, kind, text = body["fact_id"] or "", body["kind"], body["text"] or ""
        # What came may be any text.
        action: str | None = body["action"]
        match action:
            case None | "" | "add":
                return {"fact": await facts.add(kind or "value", text)}
            case "replace":
                return {"fact": await facts.replace(fact_id, text, kind=kind)}
            case "done":
                await facts.done(fact_id)
                return {"fact": None}
            case _:
                raise bad_request("`action` must be add, replace or done")

    @answers
    async def remove_fact(
        self, target: ConversationTarget, fact_id: Annotated[str, Argument("the id of a fact")]
    ) -> Removal:
        """Forget a fact."""
        await target.memory.facts(*target[1:]).remove(fact_id)
        return {"removed": True}

    @answers
    async def undo(self, target: ConversationTarget, body: UndoBody) -> UndoAnswer:
        """Undo the last turn, or the newest segment of the summary."""
        what: str = body["what"]
        match what:
            case "summary":
                return {"undone": int(await target.memory.undo_summary(*target[1:]))}
            case "turn":
                return {"undone": await self._owner(target).drop_last_turn(**_names(target))}
            case _:
                raise bad_request("`what` must be turn or summary")

    @answers
    async def delete_message(self, target: ConversationTarget, message_id: MessageId) -> Confirmation:
        """Delete one message and everything that was made from it."""
        owner = self._owner(target)
        return _confirm(await owner.delete_message(message_id=message_id, **_names(target)))

    @answers
    async def delete_conversation(self, target: ConversationTarget) -> DeletionAnswer:
        """Delete a conversation and everything that was made from it."""
        return {"deleted": await self._owner(target).delete_conversation(**_names(target))}

    def _owner(self, target: ConversationTarget) -> Agent | Memory:
        return self.requests.agent(target.memory.agent) or target.memory


def _names(target: ConversationTarget) -> dict[str, str]:
    return {"scope": target.scope, "conversation": target.conversation}


def _confirm(was_there: bool) -> Confirmation:
    if not was_there:
        raise RequestRefused(
            ClientError(status=404, type="NotFound", message="the conversation has no such message")
        )
    return {"done": True}
