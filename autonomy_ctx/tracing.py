"""OpenTelemetry: spans of turns, model calls, tool calls and summaries, and metrics of model calls.

Names and attributes follow the GenAI semantic conventions in the version of `SCHEMA_URL`; additional names
begin with `autonomy_ctx.`. Contents of messages are recorded only if the environment asks for it.

A program that has set a provider has imported OpenTelemetry. So this module looks for it among the imported
modules and imports nothing itself. Without a provider, a span costs only a dict lookup.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit

from autonomy_ctx.formats.base import ModelReply, Usage
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.formats.outgoing import summary_record
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import ImageContent, Message, Part, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.wire import from_dict

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram
    from opentelemetry.trace import Span, SpanContext, Tracer

# The last version of the semantic conventions that has those of GenAI. They moved to a repository of
# their own after it.
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
# The variable by which instrumentations of GenAI are asked for content, and its values that mean spans.
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CONTENT_VALUES = frozenset({"true", "span_only", "span_and_event"})

_NAME = "autonomy_ctx"
# What the context of OpenTelemetry carries: attributes of every span below, and the span that was the cause.
_SHARED_KEY, _CAUSE_KEY = "autonomy_ctx-shared", "autonomy_ctx-cause"
# Where the conventions have another word than this library.
_PROVIDER_NAMES = {
    "google": "gcp.gemini",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
# The options of a request that the conventions have names for.
_SAMPLING_OPTIONS = {
    **{name: name for name in ("temperature", "top_p", "top_k", "max_tokens", "seed", "stop_sequences")},
    **{name: name for name in ("frequency_penalty", "presence_penalty")},
    **dict.fromkeys(("max_output_tokens", "max_completion_tokens"), "max_tokens"),
    "stop": "stop_sequences",
}
_FINISH_REASONS = {"end": "stop", "tools": "tool_call", "refused": "content_filter"}
_CANCELLATIONS = ("CancelledError", "Cancelled")
# The buckets that the conventions ask for.
_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TOKENS = tuple(float(4**power) for power in range(14))
_FIRST_CHUNK = "Time to receive the first chunk of a streamed response."
_HISTOGRAMS = (
    ("operation.duration", "s", "GenAI operation duration.", _SECONDS),
    ("operation.time_to_first_chunk", "s", _FIRST_CHUNK, _SECONDS),
    ("token.usage", "{token}", "Number of input and output tokens used.", _TOKENS),
)

AttributeValue: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = Mapping[str, AttributeValue]


class _Telemetry(NamedTuple):
    """The makers of spans and metrics, and the providers that they came from."""

    providers: tuple[object, object]
    tracer: Tracer
    # Of seconds, of seconds to the first chunk, and of tokens; None where nobody asked for metrics.
    histograms: tuple[Histogram, ...] | None


_telemetry: _Telemetry | None = None


def _find_telemetry() -> _Telemetry | None:
    """Find the makers of spans and metrics of this program; None when it has set no provider."""
    global _telemetry
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    metrics: Any = sys.modules.get("opentelemetry.metrics")
    try:
        tracers = trace.get_tracer_provider()
        meters = None if metrics is None else metrics.get_meter_provider()
    except AttributeError:
        # Another thread is importing them.
        return None
    measures = meters is not None and _is_set(meters, "opentelemetry.metrics")
    if not measures and not _is_set(tracers, "opentelemetry.trace"):
        return None
    found = _telemetry
    if found is None or found.providers[0] is not tracers or found.providers[1] is not meters:
        found = _telemetry = _make_telemetry(tracers, meters, measures)
    return found


def _is_set(provider: object, interface: str) -> bool:
    """Tell whether a provider does something: those of the interface itself only stand in for one."""
    return not type(provider).__module__.startswith(interface)


def _make_telemetry(tracers: Any, meters: Any, measures: bool) -> _Telemetry:
    tracer = tracers.get_tracer(_NAME, None, SCHEMA_URL)
    if not measures:
        return _Telemetry((tracers, meters), tracer, None)
    meter = meters.get_meter(_NAME, None, SCHEMA_URL)
    histograms = tuple(
        meter.create_histogram(
            f"gen_ai.client.{name}", unit, description, explicit_bucket_boundaries_advisory=buckets
        )
        for name, unit, description, buckets in _HISTOGRAMS
    )
    return _Telemetry((tracers, meters), tracer, histograms)


def is_tracing() -> bool:
    """Tell whether anybody asked for spans or metrics."""
    return _find_telemetry() is not None


def records_content() -> bool:
    """Tell whether the environment asks that spans say what was said."""
    return os.environ.get(CONTENT_VARIABLE, "").strip().lower() in CONTENT_VALUES


def trace_conversation_id(scope: str, conversation: str) -> str:
    """The `gen_ai.conversation.id` of a conversation: a hash that is the same in all processes."""
    return sha256(json.dumps([scope, conversation]).encode()).hexdigest()[:32]


class OperationSpan:
    """A span that is current inside its `with`, and ends with the type of the error that leaves it.

    One without telemetry records nothing.
    """

    span: Span
    _token: Any
    # By `time.perf_counter()`. A call that others have made is told when it is over.
    _began: float | None = None
    _first_chunk_seconds: float | None = None
    _usage = Usage()

    def __init__(
        self,
        telemetry: _Telemetry | None = None,
        name: str = "",
        attributes: Attributes = EMPTY,
        *,
        is_call: bool = False,
        shared: Attributes = EMPTY,
    ) -> None:
        self._telemetry, self._name = telemetry, name
        # Calls of a model have metrics, too.
        self._is_call = is_call
        self._attributes = dict(attributes)
        # For every span below.
        self._shared = shared

    def __enter__(self) -> Self:
        if self._telemetry is None:
            return self
        from opentelemetry import context, trace

        inherited: Any = context.get_value(_SHARED_KEY) or EMPTY
        cause: Any = context.get_value(_CAUSE_KEY)
        is_root = not trace.get_current_span().get_span_context().is_valid
        self._shared = {**inherited, **self._shared}
        now = time.perf_counter()
        self._began = now if self._began is None else self._began
        self.span = self._telemetry.tracer.start_span(
            self._name,
            kind=trace.SpanKind.CLIENT if self._is_call else trace.SpanKind.INTERNAL,
            attributes={**self._shared, **self._attributes},
            links=[trace.Link(cause)] if cause is not None and is_root else None,
            start_time=None if self._began == now else time.time_ns() - int((now - self._began) * 1e9),
        )
        current = context.set_value(_SHARED_KEY, self._shared)
        self._token = context.attach(trace.set_span_in_context(self.span, current))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._telemetry is None:
            return
        from opentelemetry import context

        if error is not None:
            self._fail(error)
        if self._is_call and self._telemetry.histograms is not None:
            self._measure(*self._telemetry.histograms)
        self.span.end()
        context.detach(self._token)

    def begin_turn(self) -> None:
        """The turn has come: what went before was waiting."""
        self._set({"autonomy_ctx.turn.waited_seconds": round(self._seconds(), 6)})

    def number_turn(self, number: int | None) -> None:
        """The turn has a number in its conversation, unless it did not ask the model."""
        if number is not None:
            self._set({"autonomy_ctx.turn.number": number})

    def end_turn(self, *, text: str, usage: Usage, stop: str, steps: int) -> None:
        """The turn has an answer."""
        if self._telemetry is not None:
            self._set({"autonomy_ctx.turn.steps": steps})
            self._end_reply(Message("assistant", text), usage, stop)

    def note_chunk(self) -> None:
        """A piece of a streamed reply has come."""
        if self._first_chunk_seconds is None:
            self._first_chunk_seconds = self._seconds()
            self._set({"gen_ai.response.time_to_first_chunk": self._first_chunk_seconds})

    def end_chat(self, reply: ModelReply) -> None:
        """The model has replied."""
        if self._telemetry is None:
            return
        self._usage = reply.usage
        named = {"gen_ai.response.model": reply.model, "gen_ai.response.id": reply.id}
        self._set({name: value for name, value in named.items() if value})
        self._end_reply(reply.message, reply.usage, reply.stop or ("tools" if reply.tool_calls else None))

    def end_tool(self, result: Message | None, error: BaseException | None) -> None:
        """The tool has a result, or none yet."""
        if error is not None:
            self._fail(error)
        if result is not None and records_content():
            self._set({"gen_ai.tool.call.result": result.text})

    def end_summary(self, *, committed: bool, tokens: int = 0, coverage: float = 0.0) -> None:
        """The segment is written."""
        self._set({"autonomy_ctx.summary.committed": committed})
        if committed:
            found = {"tokens": tokens, "identifier_coverage": coverage}
            self._set({f"autonomy_ctx.summary.{name}": value for name, value in found.items()})

    def fail(self, kind: str, text: str | None = None) -> None:
        """The operation failed, for a reason in a word."""
        if self._telemetry is None:
            return
        from opentelemetry.trace import Status, StatusCode

        self.span.set_status(Status(StatusCode.ERROR, text))
        self._set({"error.type": kind})

    def _fail(self, error: BaseException) -> None:
        if self._telemetry is None:
            return
        from autonomy_ctx.formats.overflow import status_of

        # Why a summary was refused is a word.
        reason = getattr(error, "reason", None) if self._name == _SUMMARY else None
        # The text of an error may quote what was said. So may its causes, which a recorded exception has.
        text = str(error) if records_content() else None
        self.fail(reason if isinstance(reason, str) else error_type(error), text)
        status = status_of(error)
        if status is not None:
            self._set({"http.response.status_code": status})

    def _end_reply(self, message: Message, usage: Usage, stop: str | None) -> None:
        reason = None if stop is None else _FINISH_REASONS.get(stop, stop)
        found: dict[str, AttributeValue] = _usage_attributes(usage)
        if reason is not None:
            found["gen_ai.response.finish_reasons"] = (reason,)
        if self.span.is_recording() and records_content():
            output = {**_message_form(message), "finish_reason": reason or "stop"}
            found["gen_ai.output.messages"] = _to_json([output])
        self._set(found)

    def _seconds(self) -> float:
        return time.perf_counter() - (self._began or 0.0)

    def _set(self, attributes: Attributes) -> None:
        if self._telemetry is not None:
            self._attributes.update(attributes)
            self.span.set_attributes(attributes)

    def _measure(self, seconds: Histogram, first_chunk: Histogram, tokens: Histogram) -> None:
        named = {name: self._attributes[name] for name in _METRIC_ATTRIBUTES if name in self._attributes}
        seconds.record(self._seconds(), named)
        if self._first_chunk_seconds is not None:
            first_chunk.record(self._first_chunk_seconds, named)
        if self._usage.input_tokens:
            for kind, count in (("input", self._usage.input_tokens), ("output", self._usage.output_tokens)):
                tokens.record(count, {**named, "gen_ai.token.type": kind})


_NO_SPAN = OperationSpan()
_SUMMARY = "autonomy_ctx.summary"
# The attributes that metrics have, too.
_METRIC_ATTRIBUTES = (
    *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"),
    *("server.address", "server.port", "error.type"),
)


def turn_span(
    message: Message, *, agent: str, description: str, scope: str, conversation: str, turn: str, model: Any
) -> OperationSpan:
    """The span of a turn: `invoke_agent NAME`."""
    telemetry = _find_telemetry()
    if telemetry is None:
        return _NO_SPAN
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "invoke_agent",
        "autonomy_ctx.turn.id": turn,
        **_model_attributes(model),
    }
    if records_content():
        attributes["gen_ai.input.messages"] = _to_json([_message_form(message)])
        attributes |= {"gen_ai.agent.description": description} if description else {}
    shared = _conversation_attributes(scope, conversation, agent)
    return OperationSpan(telemetry, f"invoke_agent {agent}", attributes, shared=shared)


def chat_span(
    model: Any,
    messages: Iterable[Message | Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    max_tokens: int | None = None,
    stream: bool = False,
    attributes: Attributes = EMPTY,
) -> OperationSpan:
    """The span of one call of a model, with all its retries: `chat MODEL`."""
    telemetry = _find_telemetry()
    if telemetry is None:
        return _NO_SPAN
    found = {**_model_attributes(model), **_model_sampling(model), **attributes}
    if max_tokens is not None:
        found["gen_ai.request.max_tokens"] = max_tokens
    if tools and records_content():
        found["gen_ai.tool.definitions"] = _to_json([{"type": "function", **tool} for tool in tools])
    return _call_span(telemetry, found, map(from_dict, messages), stream=stream)


def _call_span(
    telemetry: _Telemetry, attributes: Attributes, messages: Iterable[Message], *, stream: bool
) -> OperationSpan:
    found = {"gen_ai.operation.name": "chat", **attributes}
    if stream:
        found["gen_ai.request.stream"] = True
    if records_content():
        found["gen_ai.input.messages"] = _to_json([_message_form(one) for one in messages])
    name = found.get("gen_ai.request.model")
    return OperationSpan(telemetry, "chat" if name is None else f"chat {name}", found, is_call=True)


def record_call(
    reply: ModelReply | None,
    *,
    began: float,
    model: str | None,
    options: Mapping[str, Any],
    messages: Iterable[Message],
    agent: str,
    scope: str,
    conversation: str,
    turn: str,
    number: int,
    attributes: Attributes,
) -> None:
    """Record the span of a model call that a framework or a client made: `chat MODEL`, until now.

    It began at a time of `time.perf_counter()`. `options` are those of the request. Without a reply, the call
    failed, or was refused.
    """
    telemetry = _find_telemetry()
    if telemetry is None:
        return
    found: dict[str, AttributeValue] = {
        "gen_ai.provider.name": "_OTHER",
        **_sampling_attributes(options),
        "autonomy_ctx.turn.id": turn,
        "autonomy_ctx.turn.number": number,
        **attributes,
    }
    if model is not None:
        found["gen_ai.request.model"] = model
    made = _call_span(telemetry, found, messages, stream=options.get("stream") is True)
    made._shared, made._began = _conversation_attributes(scope, conversation, agent), began
    with made:
        if reply is None:
            # Another program knows why.
            made.fail("no_answer")
        else:
            made.end_chat(reply)


def tool_span(call: ToolCall, *, is_known: bool, description: str = "") -> OperationSpan:
    """The span of one call of a tool: `execute_tool NAME`."""
    telemetry = _find_telemetry()
    if telemetry is None:
        return _NO_SPAN
    with_content = records_content()
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "function",
    }
    if call.id:
        attributes["gen_ai.tool.call.id"] = call.id
    # A name that no tool has is what the model said.
    if is_known or with_content:
        attributes["gen_ai.tool.name"] = call.name
    if with_content:
        attributes["gen_ai.tool.call.arguments"] = call.arguments
        attributes |= {"gen_ai.tool.description": description} if description else {}
    return OperationSpan(telemetry, f"execute_tool {call.name}" if is_known else "execute_tool", attributes)


def summary_span(*, first: int, last: int, messages: int | None = None, model: str) -> OperationSpan:
    """The span of one segment of a summary, of messages or, without a number of them, of older segments."""
    telemetry = _find_telemetry()
    if telemetry is None:
        return _NO_SPAN
    attributes: dict[str, AttributeValue] = {
        # Not as the conventions have it: viewers would take it for a call of the model.
        "autonomy_ctx.summary.model": model,
        "autonomy_ctx.summary.kind": "merge" if messages is None else "segment",
        "autonomy_ctx.summary.covers_from": first,
        "autonomy_ctx.summary.covers_to": last,
    }
    if messages is not None:
        attributes["autonomy_ctx.summary.messages"] = messages
    return OperationSpan(telemetry, _SUMMARY, attributes)


def current_span_context() -> SpanContext | None:
    """Name the current span, for work that it causes and does not wait for."""
    if _find_telemetry() is None:
        return None
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    return found if found.is_valid else None


def current_trace() -> Context | None:
    """Where spans belong now; `continue_trace` hands it to a task elsewhere."""
    if _find_telemetry() is None:
        return None
    from opentelemetry import context

    return context.get_current()


def continue_trace(parent: Context | None) -> AbstractContextManager[object]:
    """Let the spans of this task belong where those of another one do; None changes nothing."""
    return nullcontext() if parent is None else _attach(parent)


def leave_trace() -> AbstractContextManager[object]:
    """Let spans belong to none: a job for many turns has inherited the span of the one that started it."""
    if _find_telemetry() is None:
        return nullcontext()
    from opentelemetry.context import Context

    return _attach(Context())


def background_trace(
    agent: str, scope: str, conversation: str, cause: SpanContext | None
) -> AbstractContextManager[object]:
    """Let spans begin traces of their own, with a link to the span that caused them.

    A task in the background has inherited the span of whoever started it, which has long ended.
    """
    if _find_telemetry() is None:
        return nullcontext()
    from opentelemetry.context import Context

    shared = _conversation_attributes(scope, conversation, agent)
    return _attach(Context({_SHARED_KEY: shared, _CAUSE_KEY: cause}))


@contextmanager
def _attach(parent: Context) -> Iterator[None]:
    from opentelemetry import context

    token = context.attach(parent)
    try:
        yield
    finally:
        context.detach(token)


def error_type(error: BaseException) -> str:
    """An error as `error.type` names it: its class with its module, or `cancelled`."""
    kind = type(error)
    if kind.__name__ in _CANCELLATIONS and not isinstance(error, Exception):
        return "cancelled"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _conversation_attributes(scope: str, conversation: str, agent: str = "") -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {"gen_ai.conversation.id": trace_conversation_id(scope, conversation)}
    if agent:
        found["gen_ai.agent.name"] = agent
    if records_content():
        found |= {"autonomy_ctx.scope": scope, "autonomy_ctx.conversation": conversation}
    return found


def _model_attributes(model: Any) -> dict[str, AttributeValue]:
    """The name, provider and base URL of a model."""
    provider = getattr(model, "provider", None)
    found: dict[str, AttributeValue] = {
        "gen_ai.provider.name": _PROVIDER_NAMES.get(provider, provider)
        if isinstance(provider, str) and provider
        else "_OTHER"
    }
    name, url = model_name(model), getattr(model, "base_url", None)
    if name is not None:
        found["gen_ai.request.model"] = name
    if isinstance(url, str) and (address := urlsplit(url)).hostname:
        found["server.address"] = address.hostname
        found["server.port"] = address.port or (80 if address.scheme == "http" else 443)
    return found


def _model_sampling(model: Any) -> dict[str, AttributeValue]:
    """The sampling parameters of a model's requests, at the top level or in a group of a provider's own."""
    options = getattr(model, "request_options", None)
    found: dict[str, AttributeValue] = {}
    for group in [options, *options.values()] if isinstance(options, Mapping) else ():
        found |= _sampling_attributes(group) if isinstance(group, Mapping) else {}
    return found


def _sampling_attributes(options: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """The options of a request that the conventions have names for."""
    found: dict[str, AttributeValue] = {}
    for name, value in options.items():
        known = _SAMPLING_OPTIONS.get(name)
        if known == "stop_sequences" and isinstance(value, str | list | tuple):
            found[f"gen_ai.request.{known}"] = [value] if isinstance(value, str) else [*map(str, value)]
        elif known not in (None, "stop_sequences") and isinstance(value, int | float):
            found[f"gen_ai.request.{known}"] = value
    return found


def _usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    """Tokens as the provider counted them; nothing when it did not."""
    if not usage.input_tokens and not usage.output_tokens:
        return {}
    found: dict[str, AttributeValue] = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    if usage.input_tokens:
        found["autonomy_ctx.usage.cached_share"] = round(usage.cached_tokens / usage.input_tokens, 4)
    return found


def _message_form(message: Message) -> dict[str, Any]:
    """A message as the conventions write it."""
    shown = summary_record(message) if isinstance(message, Summary) else message
    if shown.role == "tool":
        answer = {"type": "tool_call_response", "id": shown.tool_call_id, "response": shown.text}
        return {"role": "tool", "parts": [answer]}
    parts = [_part_form(part) for part in shown.parts if part != TextContent("")]
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _parse_arguments(call.arguments)}
        for call in shown.tool_calls
    ]
    return {"role": shown.role.value, "parts": parts}


def _part_form(part: Part) -> dict[str, Any]:
    match part:
        case TextContent(text):
            return {"type": "text", "content": text}
        case ThinkingContent(text):
            return {"type": "reasoning", "content": text}
        case ImageContent(image) if image.startswith("data:"):
            # Its bytes would fill a trace.
            kind = image[5:].partition(";")[0].partition(",")[0]
            return {"type": "blob", "modality": "image", "mime_type": kind, "content": ""}
        case ImageContent(image):
            return {"type": "uri", "modality": "image", "uri": image}


def _parse_arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
