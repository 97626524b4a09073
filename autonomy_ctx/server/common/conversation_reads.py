"""Reads of conversations over HTTP: their state, messages, turns, facts, and search results.

The inspector and the API of tenants use the same code. They differ in how the scope is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from autonomy_ctx.inspection.conversation import inspect_conversation, read_facts
from autonomy_ctx.inspection.diff import diff_turns
from autonomy_ctx.inspection.message import (
    MAX_PAGE_MESSAGES,
    PAGE_CHARACTERS,
    PAGE_MESSAGES,
    read_message,
    read_messages,
    report_entry,
)
from autonomy_ctx.inspection.report import Report, to_json
from autonomy_ctx.inspection.timeline import MAX_POINTS, inspect_timeline
from autonomy_ctx.inspection.turn import MAX_TURNS, inspect_turn, list_turns
from autonomy_ctx.memory.memory import PAGE_SIZE, Memory
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.server.common.arguments import Arguments, RequestReader
from autonomy_ctx.server.common.errors import bad_request
from autonomy_ctx.server.common.responses import large_json_response

T = TypeVar("T")

MAX_LISTED = 1_000
MAX_HITS = 100
SEARCH_HITS = 20
# Where no agent is named, so many are searched.
MAX_SEARCHED_AGENTS = 20
QUERY_CHARACTERS = 1_000


class ConversationReads:
    """Routes that read conversations."""

    def __init__(self, requests: RequestReader) -> None:
        self._requests = requests

    async def conversation(self, request: Request) -> Response:
        """Answer with the state of a conversation."""
        with self._requests.query(request) as query:
            place = self._place(query)
        return await _answer(await inspect_conversation(*place))

    async def facts(self, request: Request) -> Response:
        """Answer with every fact of a conversation."""
        with self._requests.query(request) as query:
            place = self._place(query)
        return await large_json_response({"facts": to_json(await read_facts(*place))})

    async def messages(self, request: Request) -> Response:
        """Answer with a page of messages."""
        with self._requests.query(request) as query:
            place = self._place(query)
            after, before = query.number("after", None, least=0), query.number("before", None)
            limit = query.number("limit", PAGE_MESSAGES, most=MAX_PAGE_MESSAGES)
            most = query.number("max_characters", PAGE_CHARACTERS, least=0, most=PAGE_CHARACTERS)
        return await _answer(
            await read_messages(*place, after=after, before=before, limit=limit, max_characters=most)
        )

    async def message(self, request: Request) -> Response:
        """Answer with one message and all of its text."""
        with self._requests.query(request) as query:
            place, position = self._place(query), query.number("position", 0)
        if not position:
            raise bad_request("the query has no `position`")
        return await _answer(await read_message(*place, position))

    async def timeline(self, request: Request) -> Response:
        """Answer with a conversation over time."""
        with self._requests.query(request) as query:
            place = self._place(query)
            first, last = query.number("first", None), query.number("last", None)
            points = query.number("points", 500, most=MAX_POINTS)
        return await _answer(await inspect_timeline(*place, first=first, last=last, points=points))

    async def turns(self, request: Request) -> Response:
        """Answer with the recorded turns of a conversation."""
        with self._requests.query(request) as query:
            place, limit = self._place(query), query.number("limit", MAX_TURNS, most=MAX_LISTED)
        return await large_json_response({"turns": to_json(await list_turns(*place, limit=limit))})

    async def turn(self, request: Request) -> Response:
        """Answer with the context of a turn."""
        with self._requests.query(request) as query:
            place = self._place(query)
            turn, step = query.optional_text("turn"), query.number("step", None)
        return await _answer(await inspect_turn(*place, turn, step=step))

    async def diff(self, request: Request) -> Response:
        """Answer with two turns side by side."""
        with self._requests.query(request) as query:
            place = self._place(query)
            turns = query.text("before"), query.optional_text("after")
            step_before, step_after = query.number("step_before", None), query.number("step_after", None)
        return await _answer(await diff_turns(*place, *turns, step_before=step_before, step_after=step_after))

    async def search(self, request: Request) -> Response:
        """Answer with messages of a scope that share a word with a query, of one agent or of all."""
        with self._requests.query(request) as query:
            scope, agent = query.text("scope"), query.optional_text("agent")
            conversation = query.optional_text("conversation")
            words = query.text("query", limit=QUERY_CHARACTERS)
            limit = query.number("limit", SEARCH_HITS, most=MAX_HITS)
        agents = [agent]
        if agent is None:
            agents = [*await self._requests.view("").agents(scope=scope, limit=MAX_SEARCHED_AGENTS)]
        hits: list[dict[str, Any]] = []
        for name in agents:
            view = self._requests.view(name or "")
            for hit in await view.search(scope, words, conversation=conversation, limit=limit):
                message = report_entry(view, Entry(hit.position, hit.message), PAGE_CHARACTERS)
                hits.append(
                    {
                        "agent": view.agent,
                        "scope": scope,
                        "conversation": hit.conversation,
                        "score": hit.score,
                        "message": message.to_dict(),
                    }
                )
        hits.sort(key=lambda hit: -hit["score"])
        return await large_json_response({"hits": hits[:limit]})

    def _place(self, query: Arguments) -> tuple[Memory, str, str]:
        """Find the memory, the scope and the conversation that a request names."""
        key = query.key()
        return self._requests.view(key.agent), key.scope, key.conversation


async def _answer(report: Report) -> Response:
    return await large_json_response(report.to_dict())


def read_limit(query: Arguments) -> int:
    """The limit of a page of a listing."""
    return query.number("limit", PAGE_SIZE, most=MAX_LISTED)


def last_of_page(found: Sequence[T], limit: int) -> T | None:
    """The `after` of the next page; None if there is none."""
    return found[-1] if len(found) == limit else None
