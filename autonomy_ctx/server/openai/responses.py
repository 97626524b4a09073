"""`/v1/responses`: requests, answers and streams."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.incoming import as_mapping, as_mappings, as_nonempty_text
from autonomy_ctx.formats.openai_responses import (
    ResponsesFormat,
    ResponsesReader,
    is_plain_item,
    read_input,
    responses_items,
)
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Message
from autonomy_ctx.server.endpoint.client_api import ClientRequest, UpstreamAnswer, UpstreamBody, with_extra
from autonomy_ctx.server.endpoint.errors import EndpointError
from autonomy_ctx.server.endpoint.history import fingerprint
from autonomy_ctx.server.endpoint.upstream import StreamPiece
from autonomy_ctx.server.openai.api import SOURCE, OpenAIApi, error_fields, one_message_answer, own_source


class Responses(OpenAIApi):
    """`/v1/responses`."""

    path = "/responses"
    field, element = "input", "an item"
    has_responses = True
    format = ResponsesFormat()

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        given = body.get("input")
        items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
        if not isinstance(items, list) or not items or given == "":
            raise EndpointError("`input` must be a text, or a list with at least one item", param="input")
        self._check_objects(items)
        kinds = [item.get("type") for item in items]
        if wrong := [at for at, kind in enumerate(kinds) if not isinstance(kind, str | None)]:
            raise EndpointError("the `type` of an item must be a text", param=f"input[{wrong[0]}].type")
        text = body.get("instructions")
        if not isinstance(text, str | None):
            raise EndpointError("`instructions` must be a text", param="instructions")
        previous = body.get("previous_response_id")
        if not isinstance(previous, str | None):
            raise EndpointError("`previous_response_id` must be a string", param="previous_response_id")
        leading = [SourcedMessage(Message("system", text), text)] if text else []
        conversation = body.get("conversation")
        named = as_nonempty_text(as_mapping(conversation).get("id")) or as_nonempty_text(conversation)
        named = None if previous else named
        return self._make_request(body, headers, size, items, leading, named=named, previous=previous)

    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        try:
            found = read_input(sources)
        except InvalidMessage as problem:
            raise EndpointError(str(problem), param=f"input[{first}]") from None
        said = []
        for one in found:
            items = list(one.items)
            extra = EMPTY if all(map(is_plain_item, items)) else {SOURCE: items}
            said.append(SourcedMessage(with_extra(one.message, extra), items))
        return said

    def is_boundary(self, source: Any) -> bool:
        # What an assistant does up to the next item of another is one message.
        kind = source.get("type") or "message"
        return kind.endswith("_output") or (kind == "message" and source.get("role") != "assistant")

    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return [one for one in as_mappings(body.get("tools")) if as_nonempty_text(one.get("name"))]

    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> UpstreamBody:
        def read(source: Any) -> str:
            found = read_input(source)
            return fingerprint(found[0].message) if len(found) == 1 else ""

        is_stored = request.body.get("store") is not False
        texts: list[str] = []
        items: list[Any] = []
        omitted = Counter[str]()
        for one in (*context.instructions, *context.messages):
            if isinstance(one.source, str):
                texts.append(one.source)
                continue
            own = own_source(one, sources, list, read)
            if own is not None and one.message.id in context.without_thinking:
                omitted["thinking"] += sum(item.get("type") == "reasoning" for item in own)
                own = [item for item in own if item.get("type") != "reasoning"]
            items += responses_items(one.message) if own is None else own if is_stored else _without_ids(own)
        body = {**request.body, "input": items}
        for name in ("previous_response_id", "conversation"):
            body.pop(name, None)
        if texts or "instructions" in body:
            body["instructions"] = "\n\n".join(texts) or None
        return UpstreamBody(body, +omitted)

    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        return _response_answer(self.format.reply(body), as_mappings(body.get("output")))

    def finish_answer(self, reader: ResponsesReader) -> UpstreamAnswer:
        return _response_answer(reader.finish(), reader.output)

    def is_preface(self, piece: StreamPiece) -> bool:
        kinds = ("response.created", "response.in_progress", "response.queued")
        return piece.data is None or piece.data.get("type") in kinds

    def is_last(self, piece: StreamPiece) -> bool:
        kind = None if piece.data is None else piece.data.get("type")
        return piece.is_done or kind in ("response.completed", "response.incomplete")

    def error_of(self, piece: StreamPiece) -> Any:
        data = piece.data or {}
        if data.get("type") == "response.failed":
            return as_mapping(data.get("response")).get("error") or data
        return (data.get("error") or data) if data.get("type") == "error" or data.get("error") else None

    def error_event(self, error: EndpointError) -> bytes:
        fields = error_fields(error)
        event = {"type": "error", "code": fields["code"], "message": error.message, "param": None}
        return b"event: error\ndata: %b\n\n" % json.dumps(event).encode()


def _response_answer(reply: ModelReply, output: Sequence[Mapping[str, Any]]) -> UpstreamAnswer:
    """An answer with items of any kind, which are kept where ours would not be the same."""
    if all(map(is_plain_item, output)):
        return one_message_answer(reply)
    messages = [with_extra(one.message, {SOURCE: list(one.items)}) for one in read_input(output)]
    return UpstreamAnswer(reply, messages)


def _without_ids(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Items for a server that has stored none of them: without ids, and without what says nothing itself."""
    said = [one for one in items if one.get("type") != "reasoning" or one.get("encrypted_content")]
    return [
        dict(one) if one.get("type") == "reasoning" else {key: one[key] for key in one if key != "id"}
        for one in said
    ]
