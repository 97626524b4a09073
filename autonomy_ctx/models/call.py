"""One call of any model: messages in, a `ModelReply` out.

A model needs only `complete_chat`. It may be plain or async, take fewer arguments and answer in any common
format. If it cannot stream, the whole answer is one piece.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeGuard, runtime_checkable

import anyio

from autonomy_ctx.background import Chunks
from autonomy_ctx.callables import await_call
from autonomy_ctx.errors import AutonomyCtxError, ContextOverflow, InvalidModelReply
from autonomy_ctx.formats.any_reply import is_answer, read_reply
from autonomy_ctx.formats.base import (
    NO_CACHE_FIELDS,
    CacheFields,
    CallStarted,
    ModelReply,
    ReplyFinished,
    RequestOptions,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
)
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.formats.outgoing import model_dict
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Message, TextContent, ToolCall, new_id
from autonomy_ctx.tracing import Attributes, OperationSpan, chat_span

if TYPE_CHECKING:
    from autonomy_ctx.formats.output_schema import OutputSchema

OnEvent = Callable[[StreamEvent], Awaitable[None]]
AnyMessage = Message | Mapping[str, Any]

# Of one reply. More is a fault of the model: each call is run, and all are held in memory together.
MAX_CALLS, MAX_PARTS = 256, 1_000


class CachedContext(Protocol):
    """A context as it was sent: its provider has it in a cache, which may be cut at `breakpoints`."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    breakpoints: Sequence[int]
    cache_key: str | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages for a summarizer, the secret of their marks, and which rules they were made by."""

    messages: list[dict[str, str]]
    secret: str
    rules_hash: str
    # What comes before the messages, so that a provider's cache has it.
    context: CachedContext | None = None


@runtime_checkable
class ChatModel(Protocol):
    """Anything with `complete_chat(messages=, stream=, max_tokens=)`, plain or async; messages are dicts."""

    @property
    def complete_chat(self) -> Callable[..., Any]: ...


def is_chat_model(model: Any) -> TypeGuard[ChatModel]:
    """Tell whether a model can be called; also one that passes `complete_chat` on through `__getattr__`."""
    try:
        return callable(model.complete_chat)
    except AttributeError:
        return False


class MessageModel(ChatModel, Protocol):
    """A model with an async `complete_chat` that takes `Message`s, `breakpoints` and `answered_call_ids`."""

    takes_messages: ClassVar[Literal[True]]


class CallFailed(Exception):
    """The call gave no answer. `reason` is a word for metrics: `failed`, `timed out` or `not allowed`."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class PromptTooLong(Exception):
    """The prompt did not fit the model's context window; `window` in tokens if the error names it."""

    def __init__(self, window: int | None) -> None:
        super().__init__("was given a prompt that does not fit its context window")
        self.window = window


def takes_messages(model: Any) -> TypeGuard[MessageModel]:
    """Tell whether a model takes messages as they are.

    Its class has to say so: a wrapper that passes on attributes has a `complete_chat` of its own.
    """
    return getattr(type(model), "takes_messages", False) is True


async def complete(
    model: ChatModel,
    messages: Sequence[AnyMessage],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    max_tokens: int | None = None,
    breakpoints: Sequence[int] = (),
    cache: CacheFields = NO_CACHE_FIELDS,
    answered_call_ids: Sequence[str] = (),
    output: OutputSchema | None = None,
    on_event: OnEvent | None = None,
    trace_attributes: Attributes = EMPTY,
) -> ModelReply:
    """The model's reply; with `on_event` it is streamed, and each event is passed on as it comes.

    Raises `ContextOverflow` when the request was too long, whichever client says so, and
    `InvalidModelReply` for a reply without an answer, or with more than `MAX_CALLS` calls or `MAX_PARTS`
    parts. Other errors are the model's own. The span of the call has the `trace_attributes`. `output` is for
    a `Model` that takes it.
    """
    options = RequestOptions(
        tools=tools,
        max_tokens=max_tokens,
        stream=on_event is not None,
        breakpoints=breakpoints,
        answered_call_ids=answered_call_ids,
        cache=cache,
        options={} if output is None else {"output": output},
    )
    with chat_span(
        model,
        messages,
        tools=tools,
        max_tokens=max_tokens,
        stream=on_event is not None,
        attributes=trace_attributes,
    ) as span:
        reply = await _reply(model, messages, options, _note_chunks(on_event, span))
        span.end_chat(reply)
        _check_count(model, "tool calls", len(reply.tool_calls), MAX_CALLS)
        _check_count(model, "parts", len(reply.parts), MAX_PARTS)
        if not is_answer(reply):
            raise InvalidModelReply(_name(model), "has neither text nor calls")
    return _with_call_ids(reply)


def _note_chunks(on_event: OnEvent | None, span: OperationSpan) -> OnEvent | None:
    if on_event is None:
        return None

    async def note_and_pass_on(event: StreamEvent) -> None:
        span.note_chunk()
        await on_event(event)

    return note_and_pass_on


def _with_call_ids(reply: ModelReply) -> ModelReply:
    """The reply with an id for each call: a result is found by the id of its call."""
    if all(call.id for call in reply.tool_calls):
        return reply
    calls = (
        call if call.id else ToolCall(new_id(), call.name, call.arguments, call.extra)
        for call in reply.tool_calls
    )
    return replace(reply, tool_calls=tuple(calls))


async def complete_prompt(
    model: ChatModel, prompt: Prompt, *, max_tokens: int, timeout: float | None = None
) -> ModelReply:
    """The reply to a prompt for a summary, also one without an answer: the gate judges it.

    Raises `CallFailed` or `PromptTooLong`, never anything else but a cancellation.
    """
    messages: Sequence[AnyMessage] = prompt.messages
    options = RequestOptions(max_tokens=max_tokens)
    if (cached := prompt.context) is not None:
        # In the same form as an agent sends it, so that both requests have the same prefix.
        messages = [*cached.messages, *messages]
        options = RequestOptions(
            tools=cached.tools,
            max_tokens=max_tokens,
            breakpoints=tuple(cached.breakpoints),
            cache=CacheFields(key=cached.cache_key),
        )
    try:
        with (
            chat_span(model, messages, tools=options.tools, max_tokens=max_tokens) as span,
            anyio.fail_after(timeout),
        ):
            reply = await _reply(model, messages, options, None)
            span.end_chat(reply)
            return reply
    except TimeoutError as error:
        waited = "in time" if timeout is None else f"for {timeout:g} s"
        raise CallFailed("timed out", f"gave no answer {waited}") from error
    except ContextOverflow as error:
        raise PromptTooLong(error.window) from error
    except Exception as error:
        # Imported here and below: the ways in which providers refuse are of interest once one does.
        from autonomy_ctx.formats.overflow import status_of

        reason = "not allowed" if status_of(error) in (401, 403) else "failed"
        raise CallFailed(reason, type(error).__name__) from error


async def _reply(
    model: ChatModel, messages: Sequence[AnyMessage], options: RequestOptions, on_event: OnEvent | None
) -> ModelReply:
    """Whatever the model replies, read; a client's error that says the request was too long is typed."""
    try:
        if takes_messages(model):
            answer: Any = await model.complete_chat(
                messages,
                tools=options.tools,
                stream=options.stream,
                max_tokens=options.max_tokens,
                breakpoints=options.breakpoints or None,
                answered_call_ids=options.answered_call_ids or None,
                **_cache_options(model, options.cache),
                **options.options,
            )
        else:
            answer = await _call_with_dicts(model, messages, options)
        if hasattr(answer, "__aiter__") and not isinstance(answer, ModelReply):
            # Where nobody asked for a stream, a reply may only look like one: a mock has every method.
            whole = None if on_event is not None else read_reply(answer)
            if whole is not None and is_answer(whole) and (whole.parts or whole.tool_calls):
                return whole
            return await _consume_stream(model, answer, on_event)
    except AutonomyCtxError:
        raise
    except Exception as error:
        from autonomy_ctx.formats.overflow import exception_overflow, status_of

        overflow = exception_overflow(error)
        if overflow is None:
            raise
        raise ContextOverflow(
            _name(model),
            window=overflow.window,
            is_certain=overflow.certain,
            status_code=status_of(error),
        ) from error
    reply = read_reply(answer)
    if on_event is not None and reply.text:
        await on_event(TextDelta(reply.text))
    return reply


def _cache_options(model: Any, cache: CacheFields | None) -> dict[str, Any]:
    if cache is None or not getattr(type(model), "takes_cache_fields", False):
        return {}
    return {"cache_key": cache.key} | ({"long_cache": True} if cache.is_long else {})


async def _call_with_dicts(model: ChatModel, messages: Sequence[AnyMessage], options: RequestOptions) -> Any:
    """Call a model that takes dicts, with the options that its `complete_chat` takes."""
    dicts = [
        model_dict(message) if isinstance(message, Message) else dict(message)
        async for some in Chunks(messages)
        for message in some
    ]
    given: dict[str, Any] = {"stream": options.stream}
    if options.tools:
        given["tools"] = [dict(tool) for tool in options.tools]
    if options.max_tokens is not None:
        given["max_tokens"] = options.max_tokens
    call = model.complete_chat
    names = _parameter_names(call)
    if names is not None:
        given = {name: value for name, value in given.items() if name in names}
    return await await_call(partial(call, messages=dicts, **given))


async def _consume_stream(
    model: ChatModel, stream: AsyncIterator[Any], on_event: OnEvent | None
) -> ModelReply:
    """Pass on each event of a stream as it comes; the reply it ends with, or else its pieces of text."""
    emit = on_event or _ignore
    reply: ModelReply | None = None
    texts: list[str] = []
    calls = 0
    try:
        async for event in stream:
            match event:
                case ReplyFinished(reply):
                    pass
                case TextDelta(piece) | str(piece):
                    texts.append(piece)
                    await emit(TextDelta(piece))
                case ThinkingDelta():
                    await emit(event)
                case CallStarted():
                    # Counted during the stream, before the whole reply is in memory.
                    calls += 1
                    _check_count(model, "tool calls", calls, MAX_CALLS)
                    await emit(event)
                case _:
                    kind = type(event).__name__
                    raise InvalidModelReply(_name(model), f"has a piece of type {kind} in its stream")
    finally:
        # Clients differ in the name, and some close at once.
        close = getattr(stream, "aclose", None) or getattr(stream, "close", None)
        closing = close() if callable(close) else None
        if inspect.isawaitable(closing):
            with anyio.CancelScope(shield=True):
                await closing
    if reply is None and texts:
        return ModelReply(parts=(TextContent("".join(texts)),), stop="end")
    if reply is None:
        raise InvalidModelReply(_name(model), "ended without an answer")
    return reply


async def _ignore(event: StreamEvent) -> None:
    """Nobody listens."""


def _check_count(model: ChatModel, what: str, count: int, most: int) -> None:
    if count > most:
        raise InvalidModelReply(_name(model), f"has more than {most:,} {what}")


def _parameter_names(call: Callable[..., Any]) -> frozenset[str] | None:
    """The parameter names of a function; None if it takes any, or if they are not known."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _name(model: Any) -> str:
    return model_name(model) or type(model).__name__
