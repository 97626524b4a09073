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
    from opentelemetry.trace import Span, SpanContext, SpanKind, Tracer

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
_FINISH_REASONS = {"end": "stop", "tools": "tool_call", "refused": "content_filter"}
_CANCELLATIONS = ("CancelledError", "Cancelled")
# The buckets that the conventions ask for.
_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TOKENS = tuple(float(4**power) for power in range(14))
_HISTOGRAMS = (
    ("operation.duration", "s", "GenAI operation duration.", _SECONDS),
    (
        "operation.time_to_first_chunk",
        "s",
        "Time to receive the first chunk of a streamed response.",
        _SECONDS,
    ),
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
    """A span that is current inside its `with`. This one records nothing; others override what they do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was begun."""

    @property
    def is_active(self) -> bool:
        """True if the span is recorded."""
        return False

    def begin_turn(self) -> None:
        """The turn has come: what went before was waiting."""

    def end_turn(self, *, text: str, usage: Usage, stop: str, steps: int) -> None:
        """The turn has an answer."""

    def note_chunk(self) -> None:
        """A piece of a streamed reply has come."""

    def end_chat(self, reply: ModelReply) -> None:
        """The model has replied."""

    def end_tool(self, result: Message | None, error: BaseException | None) -> None:
        """The tool has a result, or none yet."""

    def end_summary(self, *, committed: bool, tokens: int = 0, coverage: float = 0.0) -> None:
        """The segment is written."""


_NO_SPAN = OperationSpan()


class _RecordedSpan(OperationSpan):
    """One that is recorded, and ends with the type of the error that left its `with`."""

    span: Span
    _token: Any

    def __init__(
        self,
        telemetry: _Telemetry,
        name: str,
        attributes: dict[str, AttributeValue],
        *,
        kind: str = "INTERNAL",
    ) -> None:
        self._telemetry, self._name, self._kind = telemetry, name, kind
        self._attributes = attributes
        # For every span below.
        self._shared: Attributes = EMPTY

    def __enter__(self) -> Self:
        from opentelemetry import context, trace

        kind: SpanKind = getattr(trace.SpanKind, self._kind)
        inherited: Any = context.get_value(_SHARED_KEY) or EMPTY
        cause: Any = context.get_value(_CAUSE_KEY)
        is_root = not trace.get_current_span().get_span_context().is_valid
        self._shared = {**inherited, **self._shared}
        self.span = self._telemetry.tracer.start_span(
            self._name,
            kind=kind,
            attributes={**self._shared, **self._attributes},
            links=[trace.Link(cause)] if cause is not None and is_root else None,
        )
        current = context.set_value(_SHARED_KEY, self._shared)
        self._token = context.attach(trace.set_span_in_context(self.span, current))
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from opentelemetry import context

        if error is not None:
            self._fail(error)
        self._measure()
        self.span.end()
        context.detach(self._token)

    @property
    def is_active(self) -> bool:
        return True

    def _set(self, attributes: Attributes) -> None:
        self._attributes.update(attributes)
        self.span.set_attributes(attributes)

    def _fail(self, error: BaseException) -> None:
        from opentelemetry.trace import Status, StatusCode

        from autonomy_ctx.formats.overflow import status_of

        # The text of an error may quote what was said. So may its causes, which a recorded exception has.
        self.span.set_status(Status(StatusCode.ERROR, str(error) if records_content() else None))
        status = status_of(error)
        self._set({"error.type": error_type(error)})
        if status is not None:
            self._set({"http.response.status_code": status})

    def _measure(self) -> None:
        """Metrics, for what the conventions have some for."""


class _TurnSpan(_RecordedSpan):
    def begin_turn(self) -> None:
        self._set({"autonomy_ctx.turn.waited_seconds": round(time.perf_counter() - self._began, 6)})

    def end_turn(self, *, text: str, usage: Usage, stop: str, steps: int) -> None:
        reason = _FINISH_REASONS.get(stop, stop)
        found: dict[str, AttributeValue] = {
            "gen_ai.response.finish_reasons": (reason,),
            "autonomy_ctx.turn.steps": steps,
            **_usage_attributes(usage),
        }
        if records_content():
            output = {**_message_form(Message("assistant", text)), "finish_reason": reason}
            found["gen_ai.output.messages"] = _to_json([output])
        self._set(found)


class _ChatSpan(_RecordedSpan):
    _first_chunk_seconds: float | None = None
    _usage: Usage | None = None

    def note_chunk(self) -> None:
        if self._first_chunk_seconds is None:
            self._first_chunk_seconds = time.perf_counter() - self._began
            self._set({"gen_ai.response.time_to_first_chunk": self._first_chunk_seconds})

    def end_chat(self, reply: ModelReply) -> None:
        self._usage = reply.usage
        reason = _finish_reason(reply)
        found: dict[str, AttributeValue] = _usage_attributes(reply.usage)
        if reason is not None:
            found["gen_ai.response.finish_reasons"] = (reason,)
        if reply.model:
            found["gen_ai.response.model"] = reply.model
        if reply.id:
            found["gen_ai.response.id"] = reply.id
        if self.span.is_recording() and records_content():
            output = {**_message_form(reply.message), "finish_reason": reason or "stop"}
            found["gen_ai.output.messages"] = _to_json([output])
        self._set(found)

    def _measure(self) -> None:
        if self._telemetry.histograms is None:
            return
        seconds, first_chunk, tokens = self._telemetry.histograms
        named = {name: self._attributes[name] for name in _METRIC_ATTRIBUTES if name in self._attributes}
        seconds.record(time.perf_counter() - self._began, named)
        if self._first_chunk_seconds is not None:
            first_chunk.record(self._first_chunk_seconds, named)
        if self._usage is not None and self._usage.input_tokens:
            for kind, count in (("input", self._usage.input_tokens), ("output", self._usage.output_tokens)):
                tokens.record(count, {**named, "gen_ai.token.type": kind})


# The attributes that metrics have, too.
_METRIC_ATTRIBUTES = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "server.address",
    "server.port",
    "error.type",
)


class _ToolSpan(_RecordedSpan):
    def end_tool(self, result: Message | None, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
        if result is not None and records_content():
            self._set({"gen_ai.tool.call.result": result.text})


class _SummarySpan(_RecordedSpan):
    def end_summary(self, *, committed: bool, tokens: int = 0, coverage: float = 0.0) -> None:
        found: dict[str, AttributeValue] = {"autonomy_ctx.summary.committed": committed}
        if committed:
            found["autonomy_ctx.summary.tokens"] = tokens
            found["autonomy_ctx.summary.identifier_coverage"] = coverage
        self._set(found)

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        # Why a summary was refused is a word.
        reason = getattr(error, "reason", None)
        if isinstance(reason, str):
            self._set({"error.type": reason})


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
    made = _TurnSpan(telemetry, f"invoke_agent {agent}", attributes)
    made._shared = {"gen_ai.agent.name": agent, **_conversation_attributes(scope, conversation)}
    return made


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
    found: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        **_model_attributes(model),
        **attributes,
    }
    if max_tokens is not None:
        found["gen_ai.request.max_tokens"] = max_tokens
    if stream:
        found["gen_ai.request.stream"] = True
    if records_content():
        found["gen_ai.input.messages"] = _to_json([_message_form(from_dict(one)) for one in messages])
        if tools:
            found["gen_ai.tool.definitions"] = _to_json([{"type": "function", **tool} for tool in tools])
    name = found.get("gen_ai.request.model")
    return _ChatSpan(telemetry, "chat" if name is None else f"chat {name}", found, kind="CLIENT")


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
    return _ToolSpan(telemetry, f"execute_tool {call.name}" if is_known else "execute_tool", attributes)


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
    return _SummarySpan(telemetry, "autonomy_ctx.summary", attributes)


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

    shared = _conversation_attributes(scope, conversation)
    if agent:
        shared["gen_ai.agent.name"] = agent
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


def _conversation_attributes(scope: str, conversation: str) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {"gen_ai.conversation.id": trace_conversation_id(scope, conversation)}
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


def _finish_reason(reply: ModelReply) -> str | None:
    stop = reply.stop or ("tools" if reply.tool_calls else None)
    return None if stop is None else _FINISH_REASONS.get(stop, stop)


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
