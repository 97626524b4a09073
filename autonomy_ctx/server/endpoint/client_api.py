"""An API of clients: what a request says, what is sent in its place, and how the answer is read.

A body goes on as the client wrote it. Only its messages are ours, and of these the client's own objects
wherever they are shown as it had them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

from starlette.responses import Response

from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.incoming import as_count, as_mapping, as_nonempty_text
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.server.endpoint.errors import EndpointError
from autonomy_ctx.server.endpoint.upstream import StreamPiece, UpstreamResponse

CONVERSATION_HEADER = "x-conversation-id"
RETRY_HEADER = "x-stainless-retry-count"
# Names of a conversation in `metadata`, as clients have them.
_METADATA_NAMES = ("conversation_id", "conversation", "session_id", "thread_id")
# How many messages before a result may have made its call.
CALL_LOOKBACK = 16
# How many of which kind of the client's blocks or fields were left out, on the answer.
OMITTED_HEADER = "x-context-omitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """A request of a client: its instructions, and the messages or items after them, as it wrote them."""

    api: ClientApi
    body: Mapping[str, Any]
    instructions: Sequence[SourcedMessage]
    sources: Sequence[Any]
    # As the client names it; None when it must be recognised.
    conversation: str | None = None
    previous_response: str | None = None
    is_retry: bool = False
    # Whether the client is known to send all of its history each time.
    resends_history: bool = False
    # Whether its first message stands for all that was said before.
    begins_anew: bool = False
    # Of the body, in bytes.
    size: int = 0

    @property
    def model(self) -> str | None:
        """The name of the model that is asked."""
        return as_nonempty_text(self.body.get("model"))

    @property
    def output_tokens(self) -> int:
        """The number of tokens that the answer may have; 0 when it is not said."""
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        return next(filter(None, (as_count(self.body.get(name)) for name in names)), 0)


class UpstreamAnswer(NamedTuple):
    """An answer, and its messages as they are read when the client sends them back."""

    reply: ModelReply
    messages: Sequence[Message] = ()


class UpstreamBody(NamedTuple):
    """A body for upstream, and how many of the client's blocks or fields of each kind it leaves out."""

    content: dict[str, Any]
    omitted: Mapping[str, int] = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request whose messages are stored, and the context to send instead."""

    request: ClientRequest
    key: Key
    context: FrameworkContext
    # All messages of the request; the context has the end of them.
    said: Sequence[SourcedMessage]
    # As the client is told it: the fork, if the history does not continue the log.
    conversation: str
    # Whether the client is now known to send whole histories.
    is_first_whole: bool = False

    def sources(self) -> dict[str, Any]:
        """The client's own messages by their ids in memory, as far as the context may show them."""
        unknown = (one.message for one in self.context.messages if one.source is None)
        wanted = {message.id for message in unknown if not isinstance(message, Summary)}
        return {one.stored_id: one.source for one in self.said if one.stored_id in wanted}


class PreviewedBody(NamedTuple):
    """A body for upstream as JSON, and its tokens."""

    content: bytes
    tokens: int


class EncodedBody(NamedTuple):
    """A body for upstream as JSON, and how many of the client's blocks of each kind it leaves out."""

    content: bytes
    omitted: Mapping[str, int]


class ClientApi(ABC):
    """An API of clients: how its requests, answers, streams and errors are read and written."""

    path: ClassVar[str]
    # Of a body: where its messages are.
    field: ClassVar[str]
    # Whether a later request may name an answer by its id.
    has_responses: ClassVar[bool] = False
    # Where a key is sent.
    key_header: ClassVar[str] = "authorization"
    # The field that names a conversation for the prompt cache.
    cache_field: str | None = None
    # The address of upstream, where it is not the client's.
    target_path: str | None = None
    format: Any

    def __init__(self, *, by_user: bool = False) -> None:
        self._by_user = by_user

    @abstractmethod
    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        """Read what a body asks for; raise when it is none."""

    @abstractmethod
    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        """Read messages or items of a request; `first` is the number of the first of them."""

    @abstractmethod
    def is_boundary(self, source: Any) -> bool:
        """Tell whether a message ends with this message or item, whatever follows."""

    @abstractmethod
    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """List the client's tools, for counting."""

    @abstractmethod
    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> UpstreamBody:
        """Put a context in place of a body's messages; `sources` has the client's own by their ids."""

    @abstractmethod
    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        """Read a whole answer."""

    @abstractmethod
    def finish_answer(self, reader: Any) -> UpstreamAnswer:
        """Take the answer out of the format's reader, once the stream has ended."""

    @abstractmethod
    def is_preface(self, piece: StreamPiece) -> bool:
        """Tell whether an event comes before the model has done anything."""

    @abstractmethod
    def is_last(self, piece: StreamPiece) -> bool:
        """Tell whether nothing comes after an event."""

    @abstractmethod
    def error_of(self, piece: StreamPiece) -> Any:
        """Find the error that an event stands for; None for any other event."""

    @abstractmethod
    def error_event(self, error: EndpointError) -> bytes:
        """Write an error as an event."""

    @abstractmethod
    def error_response(self, error: EndpointError) -> Response:
        """Write an error as a response."""

    @abstractmethod
    def is_answer(self, source: Any) -> bool:
        """Tell whether a message or item is the assistant's."""

    def upstream_headers(self, headers: dict[str, str]) -> dict[str, str]:
        """Give the headers for upstream."""
        return headers

    def translate(self, response: UpstreamResponse) -> UpstreamResponse:
        """Give an answer of upstream in this API."""
        return response

    def stream_data(self, data: dict[str, Any]) -> Mapping[str, Any]:
        """Give the part of an event that is read."""
        return data

    def find_name(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> str | None:
        """The conversation that a client names; its user is a person, who may have several."""
        metadata = as_mapping(body.get("metadata"))
        names: list[Any] = [unquote(headers.get(CONVERSATION_HEADER, ""))]
        names += [metadata.get(name) for name in _METADATA_NAMES]
        names += [self.user_of(body)] if self._by_user else []
        return next((one for one in names if isinstance(one, str) and one), None)

    def user_of(self, body: Mapping[str, Any]) -> Any:
        """The name of the client's own user."""
        return body.get("user")


class AnswerReader:
    """Puts a streamed answer together for memory; what it does not understand is the client's matter."""

    def __init__(self, api: ClientApi) -> None:
        self._api, self._reader, self._is_damaged = api, api.format.reader(), False

    def feed(self, piece: StreamPiece) -> None:
        """Take in one event."""
        if piece.data is None or self._is_damaged:
            return
        try:
            self._reader.feed(self._api.stream_data(piece.data), piece.event)
        except Exception:  # a format may stumble in any way over what is none of its own
            self._is_damaged = True

    def finish(self) -> UpstreamAnswer:
        """Give the answer, once the stream has ended."""
        damaged = UpstreamAnswer(ModelReply(stop="error"))
        try:
            return damaged if self._is_damaged else self._api.finish_answer(self._reader)
        except Exception:  # as above
            return damaged


def is_retry(headers: Mapping[str, str]) -> bool:
    """Tell whether a client sends a request again."""
    count = headers.get(RETRY_HEADER, "0")
    return count.isascii() and count.isdigit() and int(count[:9]) > 0


def parse_body(raw: bytes) -> dict[str, Any]:
    """A body as JSON, with finite numbers only; raises when it is none."""
    try:
        data = json.loads(raw, parse_constant=_parse_float, parse_float=_parse_float)
    except (ValueError, RecursionError):
        raise EndpointError("the body is not JSON that can be read") from None
    if not isinstance(data, dict):
        raise EndpointError("the body must be a JSON object")
    return data


def _parse_float(text: str) -> float:
    """A number; `NaN`, or one that is too large such as 1e999, could not be written again."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def with_extra(message: Message, extra: Mapping[str, Any]) -> Message:
    """A message with extra fields, if there are any."""
    return replace(message, extra=extra) if extra else message


def shows_newest(context: FrameworkContext, said: Sequence[SourcedMessage]) -> bool:
    """Tell whether a context has the newest message; without a result, a model makes its call again."""
    return any(one.message.id == said[-1].stored_id for one in context.messages[::-1])


def check_results(
    request: ClientRequest, said: Sequence[SourcedMessage], first: int, log: Sequence[Message]
) -> None:
    """Refuse the result of a call that nobody has made, before anything is stored."""
    new = [one.message for one in said[first:]]
    if all(message.role is not ChatRole.TOOL for message in new):
        return
    # The newest ones: those of the log, or of the history up to here.
    earlier = [*log, *(one.message for one in said[:first][-CALL_LOOKBACK:])]
    calls = {call.id for message in earlier for call in message.tool_calls}
    calls.update(message.tool_call_id for message in log if message.tool_call_id)
    for message in new:
        if message.role is ChatRole.TOOL and message.tool_call_id not in calls:
            raise EndpointError(
                f"a message of a tool answers the call {str(message.tool_call_id)[:80]!r}, "
                f"which no message before it makes",
                param=request.api.field,
            )
        calls.update(call.id for call in message.tool_calls)
