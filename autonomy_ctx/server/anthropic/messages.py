"""`/v1/messages`: requests, answers and streams."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.formats.anthropic import AnthropicFormat, AnthropicReader, AnthropicWriter
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.incoming import as_mapping, as_mappings, as_nonempty_text, as_text
from autonomy_ctx.formats.outgoing import OPENING_TEXT
from autonomy_ctx.formats.thinking import turn_thinking_off_where_required
from autonomy_ctx.messages.message import Message, new_id
from autonomy_ctx.server.anthropic.blocks import (
    MARK,
    THINKING,
    MessageBlocks,
    blocks_of,
    join_blocks,
    normalize_message,
    read_assistant,
    read_blocks,
    stored_blocks,
)
from autonomy_ctx.server.common.responses import json_response
from autonomy_ctx.server.endpoint.client_api import (
    ClientApi,
    ClientRequest,
    UpstreamAnswer,
    UpstreamBody,
    is_retry,
)
from autonomy_ctx.server.endpoint.errors import EndpointError
from autonomy_ctx.server.endpoint.history import fingerprint
from autonomy_ctx.server.endpoint.upstream import StreamPiece, read_object

SESSION_HEADER = "x-claude-code-session-id"
AGENT_HEADER = "x-claude-code-agent-id"
# The first block of a system prompt may name the client. It changes from request to request, and the provider
# takes it out, but only where it stands.
ATTRIBUTION = "x-anthropic-billing-header:"
# The beginning of what Claude Code says after it has summarized a talk itself.
OWN_SUMMARY = "This session is being continued from a previous conversation"
# In `metadata.user_id`: as older versions of Claude Code have it.
_SESSION = re.compile(r"_session_([0-9a-f-]{36})$")

REQUEST_ID_HEADER = "request-id"
# `type` by status; others below 500 are errors of the request.
_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Messages(ClientApi):
    """`/v1/messages`."""

    path = "/messages"
    field = "messages"
    key_header = "x-api-key"
    format = AnthropicFormat()

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        given = body.get("messages")
        if not isinstance(given, list) or not given:
            raise EndpointError("messages: must be a list with at least one message", param="messages")
        messages = [normalize_message(one, at) for at, one in enumerate(given)]
        leading = _leading_messages(messages)
        said = [one for at, one in enumerate(messages) if at not in leading]
        if not said:
            raise EndpointError("messages: add a message of the user", param="messages")
        system = "\n\n".join(filter(None, (as_text(one.get("text")) for one in _system(body)[1])))
        rules = [SourcedMessage(Message("system", system), system)] if system else []
        leaders = [one for at in leading for one in read_blocks(messages[at], at)]
        rules += [SourcedMessage(Message("system", one.message.text), one.source) for one in leaders]
        session = _find_session(body, headers)
        return ClientRequest(
            api=self,
            body=body,
            instructions=rules,
            sources=said,
            conversation=self.find_name(body, headers) or session,
            is_retry=is_retry(headers),
            resends_history=session is not None,
            begins_anew=0 in leading,
            size=size,
        )

    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        return [said for at, one in enumerate(sources, start=first) for said in read_blocks(one, at)]

    def is_boundary(self, source: Any) -> bool:
        return True

    def is_answer(self, source: Any) -> bool:
        return bool(source.get("role") == "assistant")

    def user_of(self, body: Mapping[str, Any]) -> Any:
        return as_mapping(body.get("metadata")).get("user_id")

    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        named = [one for one in as_mappings(body.get("tools")) if as_nonempty_text(one.get("name"))]
        return [{name: tool[name] for name in tool if name != MARK} for tool in named]

    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> UpstreamBody:
        body = dict(request.body)
        rules = [one for one in context.instructions if not isinstance(one.source, MessageBlocks)]
        if system := _write_system(body, rules):
            body["system"] = system
        given = body["messages"]
        leading = _leading_messages(given)
        # By the numbers that the messages had when they were read.
        own = [one for at, one in enumerate(given) if at not in leading]
        written = _MessageList([*leading.values(), *own] if leading else own, len(leading))
        for one in context.messages:
            blocks = _own_blocks(one, sources)
            if blocks is not None:
                written.add_own(blocks, is_stale=one.message.id in context.without_thinking)
            else:
                written.add(AnthropicWriter().write_one(one.message))
        messages = written.finish()
        shown = [one.source.number for one in context.instructions if isinstance(one.source, MessageBlocks)]
        body["messages"] = _place_leading(messages, [given[at] for at in sorted(set(shown))])
        if written.omitted and "thinking" in body:
            turn_thinking_off_where_required(body)
            written.omitted["thinking option"] += "thinking" not in body
        return UpstreamBody(body, +written.omitted)

    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        return _read_answer(self.format.reply(body), as_mappings(body.get("content")))

    def finish_answer(self, reader: AnthropicReader) -> UpstreamAnswer:
        return _read_answer(reader.finish(), [_with_input(block) for block in reader.content()])

    def is_preface(self, piece: StreamPiece) -> bool:
        # A request that is too long is refused before its stream, and clients wait for signs of life.
        return False

    def is_last(self, piece: StreamPiece) -> bool:
        return piece.data is not None and piece.data.get("type") == "message_stop"

    def error_of(self, piece: StreamPiece) -> Any:
        data = piece.data or {}
        return (data.get("error") or data) if data.get("type") == "error" else None

    def error_response(self, error: EndpointError) -> Response:
        request_id = _new_request_id()
        headers = {**error.headers, REQUEST_ID_HEADER: request_id}
        return json_response(error_body(error, request_id), status=error.status, headers=headers)

    def error_event(self, error: EndpointError) -> bytes:
        return b"event: error\ndata: %b\n\n" % json.dumps(error_body(error, _new_request_id())).encode()


def error_body(error: EndpointError, request_id: str) -> dict[str, Any]:
    """An error as the API has it."""
    usual = "invalid_request_error" if error.status < 500 else "api_error"
    fields: dict[str, Any] = {"type": _TYPES.get(error.status, usual), "message": error.message}
    if error.code is not None:
        fields["details"] = {"error_code": error.code}
    return {"type": "error", "error": fields, "request_id": request_id}


def _new_request_id() -> str:
    return f"req_{new_id()}"


class _MessageList:
    """Messages for upstream: the client's own as they were, wherever all of them is shown."""

    def __init__(self, given: Sequence[Mapping[str, Any]], first: int) -> None:
        # With the cache marks of this request.
        self._given, self._first = given, first
        self._messages: list[dict[str, Any]] = []
        self._waiting: list[MessageBlocks] = []
        self._is_stale = self._is_whole = False
        self.omitted: Counter[str] = Counter()

    def add_own(self, blocks: MessageBlocks, *, is_stale: bool) -> None:
        """Add some blocks of a message as the client wrote them, without thinking if it is stale."""
        if self._waiting and self._waiting[-1].message is not blocks.message:
            self._flush()
        self._waiting.append(blocks)
        self._is_stale = is_stale

    def add(self, message: dict[str, Any]) -> None:
        """Add a message."""
        self._flush()
        self._append(message, is_whole=False)

    def finish(self) -> list[dict[str, Any]]:
        """All messages."""
        self._flush()
        return self._messages

    def _flush(self) -> None:
        if not self._waiting:
            return
        number = self._waiting[0].number
        own = self._waiting[0].message if number < 0 else self._given[number]
        message = join_blocks(self._waiting, own)
        is_whole = len(blocks_of(message)) == len(blocks_of(own))
        self._waiting = []
        if self._is_stale and isinstance(message["content"], list):
            kept = [one for one in message["content"] if one.get("type") not in THINKING]
            self.omitted["thinking"] += len(message["content"]) - len(kept)
            message = {**message, "content": kept}
        self._append(message, is_whole=is_whole)

    def _append(self, message: dict[str, Any], *, is_whole: bool) -> None:
        """Add a message; one that `is_whole` stays as the client wrote it."""
        blocks = blocks_of(message)
        if not blocks and message["role"] != "system":
            return
        last = self._messages[-1] if self._messages else {"role": "", "content": ""}
        before, is_result = blocks_of(last), bool(blocks) and blocks[0].get("type") == "tool_result"
        if is_result and last["role"] == "user" and not (is_whole and self._is_whole):
            # All results of the calls of one answer are in one message.
            message = {**self._messages.pop(), "content": [*before, *blocks]}
        self._messages.append(message)
        self._is_whole = is_whole


def _own_blocks(one: SourcedMessage, sources: Mapping[str, Any]) -> MessageBlocks | None:
    """The client's own blocks of a message, unless it is shown otherwise than the client had it."""
    if isinstance(one.source, MessageBlocks):
        return one.source
    found = sources.get(one.message.id)
    blocks = found if isinstance(found, MessageBlocks) else stored_blocks(one.message)
    if blocks is None:
        return None
    part = {**blocks.message, "content": blocks_of(blocks.message)[blocks.first : blocks.last]}
    read = read_blocks(part)
    return blocks if len(read) == 1 and fingerprint(read[0].message) == fingerprint(one.message) else None


def _leading_messages(messages: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The messages that hold for all of a conversation, by their numbers.

    They are the client's own summary of an earlier one, which comes first, and those of the application
    before the first answer. They stay as they are when what was said after them is summarized.
    """
    # Alone it is what the user says.
    is_followed = any(one["role"] != "system" for one in messages[1:])
    found = {0: messages[0]} if is_followed and _is_own_summary(messages[0]) else {}
    for at, message in enumerate(messages[len(found) :], start=len(found)):
        if message["role"] == "assistant":
            break
        if message["role"] == "system":
            found[at] = message
    return found


def _is_own_summary(message: Mapping[str, Any]) -> bool:
    blocks = blocks_of(message)
    if message["role"] == "assistant":
        return bool(blocks) and blocks[0].get("type") == "compaction"
    return any(as_text(block.get("text")).startswith(OWN_SUMMARY) for block in blocks)


def _place_leading(
    messages: list[dict[str, Any]], leading: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Messages with the leading ones: a summary at the start, and those of the application as they stood."""
    front = [one for one in leading if one["role"] != "system"]
    if front and messages and blocks_of(messages[0])[0].get("text") == OPENING_TEXT:
        # It stood for a beginning that was cut.
        del messages[0]
    first = next((at for at, one in enumerate(messages) if one["role"] == "assistant"), len(messages))
    rules = [one for one in leading if one["role"] == "system"]
    return [*front, *messages[:first], *rules, *messages[first:]]


def _system(body: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The blocks of the system prompt: the client's name, if it has one, and all others."""
    given = body.get("system")
    blocks: list[Mapping[str, Any]] = as_mappings(given)
    if isinstance(given, str) and given:
        blocks = [{"type": "text", "text": given}]
    has_name = bool(blocks) and as_text(blocks[0].get("text")).startswith(ATTRIBUTION)
    return blocks[:has_name], blocks[has_name:]


def _write_system(
    body: Mapping[str, Any], rules: Sequence[SourcedMessage]
) -> list[Mapping[str, Any]] | str | None:
    """The system prompt: the client's own as it is, and then what others have added."""
    name, own = _system(body)
    is_own = any(isinstance(one.source, str) for one in rules)
    more = [one.message.text for one in rules if not isinstance(one.source, str)]
    blocks = [{"type": "text", "text": text} for text in more if text.strip()]
    if is_own and not blocks:
        return body.get("system")
    return [*name, *(own if is_own else ()), *blocks]


def _read_answer(reply: ModelReply, content: Sequence[Mapping[str, Any]]) -> UpstreamAnswer:
    return UpstreamAnswer(reply, [read_assistant(content)] if content else [])


def _with_input(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """A block of a stream, whose input came as text."""
    if not isinstance(block.get("input"), str):
        return block
    found = read_object(block["input"] or "{}")
    return block if found is None else {**block, "input": found}


def _find_session(body: Mapping[str, Any], headers: Mapping[str, str]) -> str | None:
    """The session of Claude Code that a request belongs to; a helper of an agent has one of its own.

    Requests without tools are none of the talk: the title of a session, for example.
    """
    if not body.get("tools"):
        return None
    user = as_text(as_mapping(body.get("metadata")).get("user_id"))
    found = _SESSION.search(user)
    named = found[1] if found else as_nonempty_text((read_object(user) or {}).get("session_id"))
    session = headers.get(SESSION_HEADER) or named
    agent = headers.get(AGENT_HEADER)
    return f"{session}/{agent}" if session and agent else session or None
