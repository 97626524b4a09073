"""Changes of conversations over HTTP: pins, facts, the last turn, messages, a whole conversation."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.inspection.report import to_json
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.server.common.arguments import RequestReader
from autonomy_ctx.server.common.errors import ClientError, bad_request
from autonomy_ctx.server.common.responses import error_response, json_response


class ConversationEdits:
    """Changes conversations.

    If the agent runs in this process, deletions go through it, so that they happen between two turns.
    """

    def __init__(self, requests: RequestReader) -> None:
        self._requests = requests

    async def pin(self, request: Request) -> Response:
        """Pin a message, optionally instead of another."""
        with await self._requests.body(request) as body:
            key, message_id, replaces = body.key(), body.text("message_id"), body.optional_text("replaces")
        view = self._requests.view(key.agent)
        return _answer_found(await view.pin(*key[1:], message_id, replaces=replaces))

    async def unpin(self, request: Request) -> Response:
        """Unpin a message."""
        with self._requests.query(request) as query:
            key, message_id = query.key(), query.text("message_id")
        return _answer_found(await self._requests.view(key.agent).unpin(*key[1:], message_id))

    async def add_fact(self, request: Request) -> Response:
        """Add or replace a fact, or mark one as done."""
        with await self._requests.body(request) as body:
            key, fact_id = body.key(), body.optional_text("fact_id")
            action = body.optional_text("action") or "add"
            kind, text = body.optional_text("kind"), body.optional_text("text")
        facts = self._requests.view(key.agent).facts(*key[1:])
        match action:
            case "add":
                fact = await facts.add(kind or "value", text or "")  # type: ignore[arg-type]  # checked there
            case "replace":
                fact = await facts.replace(fact_id or "", text or "", kind=kind)  # type: ignore[arg-type]
            case "done":
                await facts.done(fact_id or "")
                return json_response({"fact": None})
            case _:
                raise bad_request("`action` must be add, replace or done")
        return json_response({"fact": to_json(fact)})

    async def remove_fact(self, request: Request) -> Response:
        """Remove a fact."""
        with self._requests.query(request) as query:
            key, fact_id = query.key(), query.text("fact_id")
        await self._requests.view(key.agent).facts(*key[1:]).remove(fact_id)
        return json_response({"removed": True})

    async def undo(self, request: Request) -> Response:
        """Undo the last turn, or the newest segment of the summary."""
        with await self._requests.body(request) as body:
            key, what = body.key(), body.text("what")
        match what:
            case "summary":
                undone = int(await self._requests.view(key.agent).undo_summary(*key[1:]))
            case "turn":
                owner = self._owner(key)
                undone = await owner.drop_last_turn(scope=key.scope, conversation=key.conversation)
            case _:
                raise bad_request("`what` must be turn or summary")
        return json_response({"undone": undone})

    async def delete_message(self, request: Request) -> Response:
        """Delete one message."""
        with self._requests.query(request) as query:
            key, message_id = query.key(), query.text("message_id")
        place = {"scope": key.scope, "conversation": key.conversation}
        return _answer_found(await self._owner(key).delete_message(message_id=message_id, **place))

    async def delete_conversation(self, request: Request) -> Response:
        """Delete a conversation."""
        with self._requests.query(request) as query:
            key = query.key()
        place = {"scope": key.scope, "conversation": key.conversation}
        return json_response({"deleted": await self._owner(key).delete_conversation(**place)})

    def _owner(self, key: Key) -> Agent | Memory:
        return self._requests.agent(key.agent) or self._requests.view(key.agent)


def _answer_found(there: bool) -> Response:
    if there:
        return json_response({"done": True})
    return error_response(
        ClientError(status=404, type="NotFound", message="the conversation has no such message")
    )
