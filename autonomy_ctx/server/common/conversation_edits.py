"""Changes of conversations over HTTP: pins, facts, the last turn, messages, a whole conversation."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from autonomy_ctx.inspection.report import to_json
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
        body = await self._requests.body(request)
        key, message_id, replaces = body.key(), body.text("message_id"), body.optional_text("replaces")
        body.finish()
        view = self._requests.view(key.agent)
        return _answer_found(await view.pin(*key[1:], message_id, replaces=replaces), "message")

    async def unpin(self, request: Request) -> Response:
        """Unpin a message."""
        query = self._requests.query(request)
        key, message_id = query.key(), query.text("message_id")
        query.finish()
        return _answer_found(await self._requests.view(key.agent).unpin(*key[1:], message_id), "message")

    async def add_fact(self, request: Request) -> Response:
        """Add or replace a fact, or mark one as done."""
        body = await self._requests.body(request)
        key, fact_id = body.key(), body.optional_text("fact_id")
        action = body.optional_text("action") or "add"
        kind, text = body.optional_text("kind"), body.optional_text("text")
        body.finish()
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
        query = self._requests.query(request)
        key, fact_id = query.key(), query.text("fact_id")
        query.finish()
        await self._requests.view(key.agent).facts(*key[1:]).remove(fact_id)
        return json_response({"removed": True})

    async def undo(self, request: Request) -> Response:
        """Undo the last turn, or the newest segment of the summary."""
        body = await self._requests.body(request)
        key, what = body.key(), body.text("what")
        body.finish()
        agent, view = self._requests.agent(key.agent), self._requests.view(key.agent)
        match what:
            case "summary":
                return json_response({"undone": int(await view.undo_summary(*key[1:]))})
            case "turn" if agent is not None:
                undone = await agent.drop_last_turn(scope=key.scope, conversation=key.conversation)
            case "turn":
                undone = await view.drop_last_turn(*key[1:])
            case _:
                raise bad_request("`what` must be turn or summary")
        return json_response({"undone": undone})

    async def delete_message(self, request: Request) -> Response:
        """Delete one message."""
        query = self._requests.query(request)
        key, message_id = query.key(), query.text("message_id")
        query.finish()
        agent = self._requests.agent(key.agent)
        if agent is not None:
            there = await agent.delete_message(message_id, scope=key.scope, conversation=key.conversation)
        else:
            there = await self._requests.view(key.agent).delete_message(*key[1:], message_id)
        return _answer_found(there, "message")

    async def delete_conversation(self, request: Request) -> Response:
        """Delete a conversation."""
        query = self._requests.query(request)
        key = query.key()
        query.finish()
        agent = self._requests.agent(key.agent)
        if agent is not None:
            deleted = await agent.delete_conversation(scope=key.scope, conversation=key.conversation)
        else:
            deleted = await self._requests.view(key.agent).delete_conversation(*key[1:])
        return json_response({"deleted": deleted})


def _answer_found(there: bool, what: str) -> Response:
    if there:
        return json_response({"done": True})
    return error_response(
        ClientError(status=404, type="NotFound", message=f"the conversation has no such {what}")
    )
