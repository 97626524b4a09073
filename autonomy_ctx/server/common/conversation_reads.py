"""Reads of conversations over HTTP: their state, messages, turns, facts, and search results.

The inspector and the API of tenants use the same code. They differ in how the scope is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias, TypedDict, TypeVar

from autonomy_ctx.inspection.conversation import (
    ConversationReport,
    FactReport,
    inspect_conversation,
    read_facts,
)
from autonomy_ctx.inspection.diff import TurnDiff, diff_turns
from autonomy_ctx.inspection.message import (
    MAX_PAGE_MESSAGES,
    PAGE_CHARACTERS,
    PAGE_MESSAGES,
    MessagePage,
    MessageReport,
    read_message,
    read_messages,
    report_entry,
)
from autonomy_ctx.inspection.timeline import MAX_POINTS, Timeline, inspect_timeline
from autonomy_ctx.inspection.turn import MAX_TURNS, TurnInfo, TurnReport, inspect_turn, list_turns
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.server.common.arguments import Argument, ConversationTarget, RequestReader, answers

T = TypeVar("T")

MAX_LISTED = 1_000
MAX_HITS = 100
SEARCH_HITS = 20
# Where no agent is named, so many are searched.
MAX_SEARCHED_AGENTS = 20
QUERY_CHARACTERS = 1_000

LIMIT = "the maximum number of results"
ListLimit: TypeAlias = Annotated[int, Argument(LIMIT, most=MAX_LISTED)]


class SearchResult(TypedDict):
    """A message that was found."""

    agent: str
    scope: str
    conversation: str
    score: float
    message: MessageReport


class SearchResults(TypedDict):
    """Messages that were found, best first."""

    hits: list[SearchResult]


class TurnList(TypedDict):
    """The newest recorded turns, oldest first."""

    turns: list[TurnInfo]


class FactList(TypedDict):
    """Every fact that is kept, also those replaced or done."""

    facts: list[FactReport]


class ConversationReads:
    """Handlers that read conversations."""

    def __init__(self, requests: RequestReader) -> None:
        self.requests = requests

    @answers
    async def conversation(self, target: ConversationTarget) -> ConversationReport:
        """Get the state of a conversation: counts, summary, facts, pins, turns."""
        return await inspect_conversation(*target)

    @answers
    async def facts(self, target: ConversationTarget) -> FactList:
        """List all facts of a conversation: current, replaced and done."""
        return {"facts": [*await read_facts(*target)]}

    @answers
    async def messages(
        self,
        target: ConversationTarget,
        after: Annotated[int | None, Argument("only messages after this position", least=0)] = None,
        before: Annotated[int | None, Argument("only messages before this position")] = None,
        limit: Annotated[int, Argument(LIMIT, most=MAX_PAGE_MESSAGES)] = PAGE_MESSAGES,
        max_characters: Annotated[
            int, Argument("the maximum length of each text", least=0, most=PAGE_CHARACTERS)
        ] = PAGE_CHARACTERS,
    ) -> MessagePage:
        """Read a page of messages: the newest, or the messages next to a position."""
        return await read_messages(
            *target, after=after, before=before, limit=limit, max_characters=max_characters
        )

    @answers
    async def message(
        self, target: ConversationTarget, position: Annotated[int, Argument("the message's position")]
    ) -> MessageReport:
        """Read one message with its whole text."""
        return await read_message(*target, position)

    @answers
    async def timeline(
        self,
        target: ConversationTarget,
        first: int | None = None,
        last: int | None = None,
        points: Annotated[int, Argument(most=MAX_POINTS)] = 500,
    ) -> Timeline:
        """Show a conversation over time."""
        return await inspect_timeline(*target, first=first, last=last, points=points)

    @answers
    async def turns(
        self,
        target: ConversationTarget,
        before: Annotated[int | None, Argument("only turns before this number")] = None,
        limit: ListLimit = MAX_TURNS,
    ) -> TurnList:
        """List the figures of the newest turns, or of those before a number."""
        return {"turns": [*await list_turns(*target, limit=limit, before=before)]}

    @answers
    async def turn(
        self,
        target: ConversationTarget,
        turn: Annotated[
            str | None, Argument("the number or the id of a turn; by default the newest turn")
        ] = None,
        step: Annotated[int | None, Argument("a step; by default the last step")] = None,
    ) -> TurnReport:
        """Explain the context of a turn, with the source of each token."""
        return await inspect_turn(*target, turn, step=step)

    @answers
    async def diff(
        self,
        target: ConversationTarget,
        before: str,
        after: str | None = None,
        step_before: int | None = None,
        step_after: int | None = None,
    ) -> TurnDiff:
        """Compare two turns."""
        return await diff_turns(*target, before, after, step_before=step_before, step_after=step_after)

    @answers
    async def search(
        self,
        *,
        scope: str,
        agent: str | None = None,
        conversation: Annotated[str | None, Argument("search only this conversation")] = None,
        query: Annotated[str, Argument("the words to search for", max_characters=QUERY_CHARACTERS)],
        limit: Annotated[int, Argument(LIMIT, most=MAX_HITS)] = SEARCH_HITS,
    ) -> SearchResults:
        """Find your messages that contain any word of a query, best first."""
        agents = [agent]
        if agent is None:
            agents = [*await self.requests.view("").agents(scope=scope, limit=MAX_SEARCHED_AGENTS)]
        hits: list[SearchResult] = []
        for name in agents:
            view = self.requests.view(name or "")
            for hit in await view.search(scope, query, conversation=conversation, limit=limit):
                hits.append(
                    {
                        "agent": view.agent,
                        "scope": scope,
                        "conversation": hit.conversation,
                        "score": hit.score,
                        "message": report_entry(view, Entry(hit.position, hit.message), PAGE_CHARACTERS),
                    }
                )
        hits.sort(key=lambda hit: -hit["score"])
        return {"hits": hits[:limit]}


def last_of_page(found: Sequence[T], limit: int) -> T | None:
    """The `after` of the next page; None if there is none."""
    return found[-1] if len(found) == limit else None
