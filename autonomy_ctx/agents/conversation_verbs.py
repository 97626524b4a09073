"""Verbs of an agent that read its conversations or change what is derived from them, through its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autonomy_ctx._lazy import former_method
from autonomy_ctx.memory.memory import PAGE_SIZE, Memory
from autonomy_ctx.memory.store import ConversationInfo, Key, SearchHit, SummaryState, Window

if TYPE_CHECKING:
    from autonomy_ctx.memory.facts import ConversationFacts
    from autonomy_ctx.memory.profile import ScopeProfile

# The scope and conversation of a turn that names none.
SCOPE = CONVERSATION = "default"


class ConversationVerbs:
    """The verbs that an agent has in common with its memory, with the agent's default names."""

    memory: Memory

    async def conversations(
        self, *, scope: str = SCOPE, limit: int = PAGE_SIZE, after: Key | None = None
    ) -> list[ConversationInfo]:
        """The conversations of a scope with this agent, with counts and times, by name, a page at a time."""
        return await self.memory.conversations(scope, limit=limit, after=after)

    async def history(
        self, *, scope: str = SCOPE, conversation: str = CONVERSATION, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """The messages of a conversation, the newest `limit` of them."""
        return await self.memory.get_messages_only(scope, conversation, limit=limit)

    async def read(
        self,
        *,
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
    ) -> Window:
        """The newest `limit` messages between two positions, with their positions."""
        return await self.memory.read(scope, conversation, after=after, before=before, limit=limit)

    async def get_message_count(self, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> int:
        """The number of messages of a conversation, without reading them."""
        return await self.memory.get_message_count(scope, conversation)

    async def get_full_message(
        self, message_id: str, *, scope: str = SCOPE, conversation: str = CONVERSATION
    ) -> dict[str, Any] | None:
        """The full text of a tool result that was shortened in the log; None for other messages."""
        return await self.memory.get_full_message(scope, conversation, message_id)

    get_whole_message = former_method("get_whole_message", "get_full_message")

    async def search(
        self, query: str, *, scope: str = SCOPE, conversation: str | None = None, limit: int = 10
    ) -> list[SearchHit]:
        """The messages of a scope with this agent, or of one conversation, that match a query; best first."""
        return await self.memory.search(scope, query, conversation=conversation, limit=limit)

    async def summary(self, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> SummaryState:
        """The current summary: its segments, how each was made, the pinned messages and the facts."""
        return await self.memory.summary(scope, conversation)

    def facts(self, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> ConversationFacts:
        """The facts of a conversation: `await` it to read them, or change them with its methods."""
        return self.memory.facts(scope, conversation)

    def profile(self, *, scope: str = SCOPE) -> ScopeProfile:
        """The profile of a scope: `await` it to read the entries, or change them with its methods."""
        return self.memory.profile(scope)

    async def pin(
        self,
        message_id: str,
        *,
        replaces: str | None = None,
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
    ) -> bool:
        """Show a message verbatim in all later contexts, optionally instead of another; false if unknown."""
        return await self.memory.pin(scope, conversation, message_id, replaces=replaces)

    async def unpin(self, message_id: str, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> bool:
        """Unpin a message, so that it is summarized like any other; false if there is no such message."""
        return await self.memory.unpin(scope, conversation, message_id)

    async def undo_summary(self, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> bool:
        """Undo the newest segment and go back to the summary before it; false if there is none."""
        return await self.memory.undo_summary(scope, conversation)

    async def drop_summaries(self, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> int:
        """Remove the summaries of a conversation, and return how many segments; messages stay."""
        return await self.memory.drop_summaries(scope, conversation)
