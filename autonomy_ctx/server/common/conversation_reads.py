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
from autonomy_ctx.memory.store import Entry, Key
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
        """The state of a conversation."""
        query = self._requests.query(request)
        view, key = self._view(query)
        query.finish()
        return await _answer(await inspect_conversation(view, *key[1:]))

    async def facts(self, request: Request) -> Response:
        """Every fact of a conversation."""
        query = self._requests.query(request)
        view, key = self._view(query)
        query.finish()
        return await large_json_response({"facts": to_json(await read_facts(view, *key[1:]))})

    async def messages(self, request: Request) -> Response:
        """A page of messages."""
        query = self._requests.query(request)
        view, key = self._view(query)
        options: dict[str, Any] = {
            "after": query.number("after", None, least=0),
            "before": query.number("before", None),
            "limit": query.number("limit", PAGE_MESSAGES, most=MAX_PAGE_MESSAGES),
            "max_characters": query.number("max_characters", PAGE_CHARACTERS, least=0, most=PAGE_CHARACTERS),
        }
        query.finish()
        return await _answer(await read_messages(view, *key[1:], **options))

    async def message(self, request: Request) -> Response:
        """One message with all of its text."""
        query = self._requests.query(request)
        view, key = self._view(query)
        position = query.number("position", 0)
        query.finish()
        if not position:
            raise bad_request("the query has no `position`")
        return await _answer(await read_message(view, *key[1:], position))

    async def timeline(self, request: Request) -> Response:
        """A conversation over time."""
        query = self._requests.query(request)
        view, key = self._view(query)
        options: dict[str, Any] = {
            "first": query.number("first", None),
            "last": query.number("last", None),
            "points": query.number("points", 500, most=MAX_POINTS),
        }
        query.finish()
        return await _answer(await inspect_timeline(view, *key[1:], **options))

    async def turns(self, request: Request) -> Response:
        """The recorded turns of a conversation."""
        query = self._requests.query(request)
        view, key = self._view(query)
        limit = query.number("limit", MAX_TURNS, most=MAX_LISTED)
        query.finish()
        return await large_json_response({"turns": to_json(await list_turns(view, *key[1:], limit=limit))})

    async def turn(self, request: Request) -> Response:
        """The context of a turn."""
        query = self._requests.query(request)
        view, key = self._view(query)
        turn, step = query.optional_text("turn"), query.number("step", None)
        query.finish()
        return await _answer(await inspect_turn(view, *key[1:], turn, step=step))

    async def diff(self, request: Request) -> Response:
        """Two turns side by side."""
        query = self._requests.query(request)
        view, key = self._view(query)
        before, after = query.text("before"), query.optional_text("after")
        step_before, step_after = query.number("step_before", None), query.number("step_after", None)
        query.finish()
        report = await diff_turns(
            view, *key[1:], before, after, step_before=step_before, step_after=step_after
        )
        return await _answer(report)

    async def search(self, request: Request) -> Response:
        """Messages of a scope that share a word with a query, with one agent or with all of them."""
        query = self._requests.query(request)
        scope, agent = query.text("scope"), query.optional_text("agent")
        conversation = query.optional_text("conversation")
        words = query.text("query", limit=QUERY_CHARACTERS)
        limit = query.number("limit", SEARCH_HITS, most=MAX_HITS)
        query.finish()
        agents = [agent]
        if agent is None:
            agents = [*await self._requests.view("").agents(scope=scope, limit=MAX_SEARCHED_AGENTS)]
        hits: list[dict[str, Any]] = []
        for name in agents:
            view = self._requests.view(name or "")
            hits += [
                {
                    "agent": view.agent,
                    "scope": scope,
                    "conversation": hit.conversation,
                    "score": hit.score,
                    "message": report_entry(
                        view, Entry(hit.position, hit.message), PAGE_CHARACTERS
                    ).to_dict(),
                }
                for hit in await view.search(scope, words, conversation=conversation, limit=limit)
            ]
        hits.sort(key=lambda hit: -hit["score"])
        return await large_json_response({"hits": hits[:limit]})

    def _view(self, query: Arguments) -> tuple[Memory, Key]:
        key = query.key()
        return self._requests.view(key.agent), key


async def _answer(report: Report) -> Response:
    return await large_json_response(report.to_dict())


def read_limit(query: Arguments) -> int:
    """The limit of a page of a listing."""
    return query.number("limit", PAGE_SIZE, most=MAX_LISTED)


def last_of_page(found: Sequence[T], limit: int) -> T | None:
    """The `after` of the next page; None if there is none."""
    return found[-1] if len(found) == limit else None
