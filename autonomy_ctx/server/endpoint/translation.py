"""Clients of one API in front of a server that speaks another one: requests, answers, errors and lists.

The rest of the endpoint sees the client's own API. Only the body for upstream is another one, and the answer
comes back in the client's words, event by event. Memory keeps the answer as upstream gave it, with thinking
that only its provider can read.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from starlette.responses import Response

from autonomy_ctx.engine.framework_context import FrameworkContext
from autonomy_ctx.formats.base import (
    ANTHROPIC,
    RESPONSES,
    CallStarted,
    ModelReply,
    ReaderEvent,
    StreamError,
    WireFormat,
    load_format,
    restore_tool_names,
    signature_of,
)
from autonomy_ctx.formats.incoming import as_mapping, as_mappings, as_text, stream_error
from autonomy_ctx.formats.option_translation import (
    OptionNotTranslatable,
    TranslatedOptions,
    translate_options,
)
from autonomy_ctx.formats.outgoing import DOCUMENT_MEDIA_TYPE, original_tool_names
from autonomy_ctx.formats.reply_writer import ReplyHead, reply_writer
from autonomy_ctx.formats.thinking import record_request
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import ImageContent, Message, TextContent, ThinkingContent, new_id
from autonomy_ctx.models.providers import PROVIDERS
from autonomy_ctx.server.anthropic.blocks import SOURCE as ANTHROPIC_SOURCE
from autonomy_ctx.server.anthropic.messages import Messages
from autonomy_ctx.server.common.errors import encode_json
from autonomy_ctx.server.common.responses import json_response
from autonomy_ctx.server.endpoint.client_api import ClientApi, ClientRequest, UpstreamAnswer, UpstreamBody
from autonomy_ctx.server.endpoint.errors import EndpointError
from autonomy_ctx.server.endpoint.upstream import (
    EventSplitter,
    StreamPiece,
    Upstream,
    UpstreamFailure,
    UpstreamResponse,
    read_object,
)
from autonomy_ctx.server.openai.api import SOURCE as OPENAI_SOURCE
from autonomy_ctx.server.openai.chat_completions import ChatCompletions
from autonomy_ctx.server.openai.responses import Responses

UpstreamApi = Literal["chat", "responses", "messages"]
UPSTREAM_APIS: tuple[UpstreamApi, ...] = get_args(UpstreamApi)
_FORMATS: dict[str, WireFormat] = {
    "chat": "openai",
    "responses": "responses",
    "messages": "anthropic",
}
_PATHS: dict[WireFormat, str] = {
    "openai": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/messages",
}
_ID_PREFIXES: dict[str, str] = {"openai": "chatcmpl-", "responses": "resp_", "anthropic": "msg_"}
# Names of fields that a header can hold.
_HEADER_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Files of a client: memory has a note of each, and the client's own form beside it.
_SOURCES = (ANTHROPIC_SOURCE, OPENAI_SOURCE)
_FILES = ("document", "file", "input_file", "input_audio")
_NOTE = re.compile(rf"\[(?:{'|'.join(_FILES)})[ \]]")
_LAST_EVENTS = ("message_stop", "response.completed", "response.incomplete")
# What a client says to the provider whose API it speaks.
_VENDOR_HEADERS = re.compile(r"(?:anthropic|openai|x-claude)-.*|x-api-key|authorization")
_KEY_HEADERS = ("authorization", "x-api-key")
# An error in a stream has no status.
_HEARTBEAT = b": ping\n\n"
_STATUSES = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "invalid_request_error": 400,
}


def choose_target(client: ClientApi, upstream: str, upstream_api: UpstreamApi | None) -> WireFormat | None:
    """The API that a client's requests are translated into; None for its own.

    A server whose host is not known is asked in the client's own.
    """
    own, host = client.format.name, urlsplit(upstream).hostname or ""
    if upstream_api is not None:
        target = _FORMATS[upstream_api]
    elif host == "api.anthropic.com":
        target = "anthropic"
    elif host == "api.openai.com" and own == "anthropic":
        target = "responses"
    else:
        return None
    return None if target == own else target


def translate_headers(
    headers: Mapping[str, str], target: WireFormat, *, key_header: str, body: Mapping[str, Any] = EMPTY
) -> dict[str, str]:
    """The headers of a client for a server with another API: its key, and nothing for its own vendor."""
    kept = {name: value for name, value in headers.items() if not _VENDOR_HEADERS.fullmatch(name)}
    keys = (headers.get(name, "").removeprefix("Bearer ") for name in (key_header, *_KEY_HEADERS))
    provider = PROVIDERS["anthropic" if target == "anthropic" else "openai"]
    return kept | provider.headers(next(filter(None, keys), None), body, version=None)


class Translation(ClientApi):
    """An API of clients whose requests go to a server that speaks another one.

    `read_request` makes one for each request, which knows what was sent, and then what was answered.
    """

    def __init__(self, target: WireFormat, *, by_user: bool = False) -> None:
        super().__init__(by_user=by_user)
        self.target = target
        self.target_path = _PATHS[target]
        self.cache_field = None if target == "anthropic" else "prompt_cache_key"
        self._source: WireFormat = self.format.name
        self._target_format = load_format(target)
        self._body: Mapping[str, Any] = {}
        self._sent: Mapping[str, Any] = {}
        self._options: TranslatedOptions
        self._answer = UpstreamAnswer(ModelReply())
        # The tools' own names, by those that upstream has.
        self.tool_names: Mapping[str, str] = EMPTY

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        """Read a request; one that cannot be asked upstream is refused before anything is stored."""
        request = super().read_request(body, headers, size)  # type: ignore[safe-super]  # of the client's API
        own = copy(self)
        own._body = body
        try:
            own._options = translate_options(self._source, self.target, body, request.model or "")
        except OptionNotTranslatable as problem:
            raise EndpointError(str(problem), param=problem.option) from None
        own.tool_names = original_tool_names(str(one["name"]) for one in own._options.request.tools)
        return replace(request, api=own)

    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> UpstreamBody:
        """Write the context in the words of upstream's API."""
        messages = [one.message for one in (*context.instructions, *context.messages)]
        omitted = Counter(one if _HEADER_NAME.fullmatch(one) else "other" for one in self._options.omitted)
        messages = [self._with_files(one, omitted) for one in messages]
        composed = context.composed
        ends = {composed.messages[at].id for at in composed.breakpoints}
        marks = [at for at, one in enumerate(messages) if one.id in ends]
        options = replace(self._options.request, breakpoints=marks)
        made = self._target_format.request(request.model or "", messages, options)
        self._sent = made.body
        is_bound = self.target == "anthropic"
        left_out = sum(made.thinking.left_out.values())
        omitted["thinking"] += left_out if is_bound else _count_foreign(messages, self.target)
        return UpstreamBody(made.body, +omitted)

    def _with_files(self, message: Message, omitted: Counter[str]) -> Message:
        """A message with its PDFs where it has notes of them, if upstream's API takes them."""
        files = list(_list_files([message.extra.get(name) for name in _SOURCES])) if message.extra else []
        parts = list(message.parts) if files else []
        notes = [at for at, one in enumerate(parts) if isinstance(one, TextContent) and _NOTE.match(one.text)]
        for at, (kind, url) in zip(notes, files, strict=False):
            if url and self.target != "openai":
                parts[at] = ImageContent(url)
            else:
                omitted[kind] += 1
        return replace(message, content=tuple(parts)) if files else message

    def upstream_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The client's headers for upstream."""
        options = self._options.request.options
        return translate_headers(headers, self.target, key_header=self.key_header, body=options)

    def translate(self, response: UpstreamResponse) -> UpstreamResponse:
        """An answer of upstream as the client's API has it."""
        return replace(response, read_chunk=_Answer(self, response).read_chunk)

    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        """The answer as upstream gave it."""
        return self._answer

    def finish_answer(self, reader: Any) -> UpstreamAnswer:
        """The answer as upstream gave it."""
        return self._answer

    async def show_models(self, upstream: Upstream, path: str, headers: Mapping[str, str]) -> Response:
        """The models of upstream, or the one at `path`, in the form of the client's API."""
        sent = translate_headers(headers, self.target, key_header=self.key_header)
        async with upstream.send("GET", path, sent, None) as response:
            data = read_object(await response.read_all()) or {}
        if response.status >= 300:
            return self.error_response(_to_error(data, response.status))
        is_anthropic = self._source == "anthropic"
        if "data" in data:
            return json_response(translate_models(data, is_anthropic=is_anthropic))
        return json_response(_translate_model(as_text(data.get("id")), is_anthropic=is_anthropic))

    def note_answer(self, reply: ModelReply, answer_id: str) -> ModelReply:
        """Take an answer under the id that the client sees; its calls have the tools' own names."""
        reply = replace(restore_tool_names(reply, self.tool_names), id=answer_id)
        if self.target == "anthropic" and reply.blocks:
            reply = record_request(reply, self._sent, ANTHROPIC)
        self._answer = UpstreamAnswer(reply, [reply.message] if reply.parts or reply.tool_calls else [])
        return reply


class TranslatedChat(Translation, ChatCompletions):
    """Chat completions, for a server that has another API."""


class TranslatedResponses(Translation, Responses):
    """Responses, for a server that has another API."""


class TranslatedMessages(Translation, Messages):
    """Messages, for a server that has another API."""


def client_apis(upstream: str, upstream_api: UpstreamApi | None, *, by_user: bool) -> list[ClientApi]:
    """The APIs of clients, translated where upstream does not speak them."""
    found: list[ClientApi] = []
    pairs = (
        (ChatCompletions, TranslatedChat),
        (Responses, TranslatedResponses),
        (Messages, TranslatedMessages),
    )
    for plain, translated in pairs:
        own = plain(by_user=by_user)
        target = choose_target(own, upstream, upstream_api)
        found.append(own if target is None else translated(target, by_user=by_user))
    return found


def translated_paths(upstream: str, upstream_api: UpstreamApi | None) -> dict[str, str]:
    """The addresses of requests that are translated, and of those that they become upstream."""
    apis = client_apis(upstream, upstream_api, by_user=False)
    found = ((api.path, api.target_path) for api in apis)
    return {f"/v1{path}": f"/v1{target}" for path, target in found if target is not None}


class _Answer:
    """An answer of upstream that is written for a client while it comes."""

    def __init__(self, api: Translation, response: UpstreamResponse) -> None:
        self._api, self._response = api, response
        self._is_stream = response.status < 300 and response.content_type == "text/event-stream"
        self._splitter, self._reader = EventSplitter(), api._target_format.reader()
        own: WireFormat = api.format.name
        self._id = f"{_ID_PREFIXES[own]}{new_id()}"
        model = as_text(api._body.get("model"))
        head = ReplyHead(id=self._id, model=model, created=int(time.time()), request=api._body)
        self._writer = reply_writer(own, head)
        self._ended = False

    async def read_chunk(self) -> bytes | None:
        """The next bytes for the client; None at the end."""
        while not self._ended:
            if not self._is_stream:
                return self._translate_whole(await self._response.read_all())
            chunk = await self._response.read_chunk()
            pieces = [] if chunk is None else self._splitter.feed(chunk)
            if chunk is None:
                return self._finish()
            if out := b"".join(map(self._translate, pieces)):
                return out
        return None

    def _translate(self, piece: StreamPiece) -> bytes:
        data = piece.data or {}
        if self._ended:
            return b""
        if not piece.is_done and (piece.data is None or data.get("type") == "ping"):
            return _HEARTBEAT
        try:
            events = self._reader.feed(data, piece.event)
        except StreamError as error:
            self._ended = True
            status = _STATUSES.get(error.type, 500)
            return self._api.error_event(EndpointError(error.message, status=status, code=error.type))
        except Exception:  # a format may stumble in any way over what is none of its own
            raise UpstreamFailure("upstream sent an event that cannot be read") from None
        out = self._writer.feed(*map(self._with_own_name, events)) if events else b""
        is_last = piece.is_done or data.get("type") in _LAST_EVENTS
        return out + (self._finish() if is_last else b"")

    def _with_own_name(self, event: ReaderEvent) -> ReaderEvent:
        if isinstance(event, CallStarted):
            return CallStarted(event.id, self._api.tool_names.get(event.name, event.name))
        return event

    def _finish(self) -> bytes:
        self._ended = True
        reply = self._reader.finish()
        if reply.stop is None:
            raise UpstreamFailure("upstream broke off its answer", code="upstream_broke_off")
        return self._writer.finish(self._api.note_answer(reply, self._id))

    def _translate_whole(self, body: bytes) -> bytes:
        self._ended = True
        data = read_object(body) or {}
        if self._response.status >= 300 or data.get("error") or not data:
            return bytes(self._api.error_response(_to_error(data, self._response.status)).body)
        reply = self._api._target_format.reply(data)
        if reply.stop is None and not reply.parts and not reply.tool_calls:
            raise UpstreamFailure("upstream sent no answer that can be read")
        reply = self._api.note_answer(reply, self._id)
        return encode_json(self._writer.whole(reply))


def _to_error(data: Mapping[str, Any], status: int) -> EndpointError:
    """The error that upstream answered with, in whatever form."""
    said = stream_error(data.get("error") or data)
    message = said.message or f"upstream answered with status {status}, and without a word that can be read"
    return EndpointError(message, status=max(status, 400), code=None if said.type == "error" else said.type)


def _count_foreign(messages: Sequence[Message], target: WireFormat) -> int:
    """The thinking that goes to no other provider than the one that made it; chat completions have none."""
    thoughts = (part for one in messages for part in one.parts if isinstance(part, ThinkingContent))
    return sum(target != "responses" or signature_of(RESPONSES, one.signature) is None for one in thoughts)


def _list_files(value: Any) -> Iterator[tuple[str, str]]:
    """The kinds of the files in a client's own form of a message, and their data if they are PDFs."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _list_files(one)
    elif isinstance(value, Mapping):
        source, kind = as_mapping(value.get("source")), as_text(value.get("type"))
        if kind in _FILES and source.get("type") != "text":
            data = as_text(as_mapping(value.get("file")).get("file_data")) or as_text(value.get("file_data"))
            if source.get("type") == "base64":
                data = f"data:{source.get('media_type')};base64,{source.get('data')}"
            yield kind, data if data.startswith(f"data:{DOCUMENT_MEDIA_TYPE};base64,") else ""
        yield from _list_files([value.get("content"), value.get("output")])


def translate_models(body: Mapping[str, Any], *, is_anthropic: bool) -> dict[str, Any]:
    """A list of models in the form of the other vendor's API, for a client of Anthropic or of OpenAI."""
    names = [as_text(one.get("id")) for one in as_mappings(body.get("data"))]
    models = [_translate_model(name, is_anthropic=is_anthropic) for name in names]
    if not is_anthropic:
        return {"object": "list", "data": models}
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return {"data": models, "has_more": False, **ends}


def _translate_model(name: str, *, is_anthropic: bool) -> dict[str, Any]:
    if not is_anthropic:
        return {"id": name, "object": "model", "created": 0, "owned_by": "upstream"}
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
