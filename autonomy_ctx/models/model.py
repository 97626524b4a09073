"""`Model`: one model by its name, called the same way whichever provider serves it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import random
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import anyio
import anyio.to_thread

from autonomy_ctx.background import AsyncResource
from autonomy_ctx.errors import (
    ContextOverflow,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    SummaryBlockRefused,
    ThinkingRefused,
)
from autonomy_ctx.formats.base import (
    NO_THINKING,
    RESPONSES,
    CacheFields,
    Format,
    ModelReply,
    RequestOptions,
    ThinkingUse,
    WireRequest,
    restore_tool_names,
)
from autonomy_ctx.formats.model_table import TABLE_DATE, find_model, is_known_model
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import SummaryBlock
from autonomy_ctx.messages.wire import from_dicts
from autonomy_ctx.validation import check_int

if TYPE_CHECKING:
    from autonomy_ctx.formats.compaction import Compaction
    from autonomy_ctx.formats.output_schema import OutputSchema, OutputTarget
    from autonomy_ctx.models.batches import BatchClient
    from autonomy_ctx.models.client import ModelClient
    from autonomy_ctx.models.offline import OfflineModel, ReplyStream
    from autonomy_ctx.models.streaming import ModelStream

logger = logging.getLogger("autonomy_ctx.models")
# Options of a request that say what is cached: the places, the conversation's name, and a longer life.
CACHE_OPTIONS = ("breakpoints", "cache_key", "long_cache")


class Model(AsyncResource):
    """Calls one model, over HTTP or offline.

    The provider is found by the name (`claude-*`, `gpt-*`, `gemini-*`, `nova-*`, `ollama/llama3`), or given
    as `provider`. With `base_url`, any server that speaks the OpenAI format can be used. `timeout` is the
    seconds for a whole answer, or a dict of `connect`, `first_token` and `total`. `options` are added to
    every request. Without an `api_key`, the key is read from the environment when it is first needed; such a
    key is sent over plain http to another machine only with `insecure=True`. Fields for prompt caches are
    sent to the provider's own address only, with `cache=True` to any, and with `cache=False` to none.
    `fallback` is a model, or its name, that answers if this one is not available after its retries. With
    `cache_diagnosis`, the provider is asked why its cache was missed.
    """

    # Agents and summaries give it messages as they are; other models get dicts.
    takes_messages: ClassVar[Literal[True]] = True
    # Agents name the conversation for the provider's cache.
    takes_cache_fields: ClassVar[Literal[True]] = True

    def __init__(
        self,
        name: str,
        *,
        provider: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        context_window: int | None = None,
        timeout: float | Mapping[str, float] | None = None,
        client: Any = None,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        insecure: bool = False,
        cache: bool | None = None,
        anthropic_version: str | None = None,
        fallback: Model | str | None = None,
        cache_diagnosis: bool = False,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] = random,
        now: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        # Imported here: who asks over HTTP, and how, is only of interest once there is a model.
        from autonomy_ctx.models.client import ClientPool, RequestBuilder, RetryPolicy, Timeouts
        from autonomy_ctx.models.providers import checked_url, choose_provider

        base_url = None if base_url is None else checked_url(base_url)
        choice = choose_provider(name, provider=provider, base_url=base_url)
        self.name = name
        self._provider, self._model = choice.provider, choice.model
        self._request_builder = RequestBuilder(
            name,
            choice.provider,
            base_url=base_url,
            api_key=api_key,
            headers=headers,
            insecure=insecure,
            version=anthropic_version,
        )
        self._cache = cache
        self.fallback = Model(fallback) if isinstance(fallback, str) else fallback
        if not isinstance(self.fallback, Model | None):
            raise TypeError(f"fallback must be a Model or its name, not {type(fallback).__name__}")
        self._cache_diagnosis = cache_diagnosis
        if cache_diagnosis and choice.provider.wire_format not in ("anthropic", "responses"):
            raise ValueError(
                f"cache_diagnosis is for Claude's Messages API and OpenAI's Responses API; model {name!r} is "
                f"asked through {choice.provider.name!r}. Leave it out, or give provider='openai-responses'"
            )
        for refused in ("stream", "messages", "tools"):
            if refused in options:
                raise TypeError(f"Model() does not take {refused}; give it to complete_chat()")
        self._options = options
        info = find_model(choice.model)
        if info is not None and info.vendor and choice.provider.local:
            # A local server decides about its models itself. A row without a vendor is one of the user's.
            info = None
        if info is not None:
            _tell_unknown(choice.model, info.name)
        self.context_window = info.window if context_window is None and info is not None else context_window
        self._timeouts = Timeouts.of(timeout)
        self._retry_policy = RetryPolicy(retries=retries, sleep=sleep, random=jitter, now=now)
        self._pool = ClientPool(client)
        self._client: ModelClient | None = None
        self._format: Format
        self._offline: OfflineModel | None = None
        if choice.provider.name == "offline":
            # Imported here: most models are asked over HTTP.
            from autonomy_ctx.models.offline import OfflineModel

            self._offline = OfflineModel()

    @property
    def request_options(self) -> Mapping[str, Any]:
        """The options that each request has, such as `temperature`."""
        return self._options

    @property
    def provider(self) -> str:
        """The name of the provider."""
        return self._provider.name

    @property
    def base_url(self) -> str | None:
        """The base URL: as given, or from the environment."""
        return self._request_builder.base_url

    @property
    def context_window(self) -> int | None:
        """The most tokens that the model can read, if known."""
        return self._context_window

    @context_window.setter
    def context_window(self, value: int | None) -> None:
        self._context_window = check_int("context_window", value, optional=True)

    @overload
    async def complete_chat(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        stream: Literal[False] = False,
        max_tokens: int | None = None,
        **options: Any,
    ) -> ModelReply: ...
    @overload
    async def complete_chat(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        *,
        stream: Literal[True],
        max_tokens: int | None = None,
        **options: Any,
    ) -> ModelStream | ReplyStream: ...
    @overload
    async def complete_chat(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        stream: bool = False,
        max_tokens: int | None = None,
        **options: Any,
    ) -> ModelReply | ModelStream | ReplyStream: ...
    async def complete_chat(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        stream: bool = False,
        max_tokens: int | None = None,
        **options: Any,
    ) -> ModelReply | ModelStream | ReplyStream:
        """The answer. With `stream=True`, its events; the last is `ReplyFinished` with the answer.

        If you stop reading a stream early, close it with `async with` or `aclose()`. `options` are added to
        those of the model for this request; None removes one. With an `OutputSchema` as `output`, the model
        is asked for JSON that fits it, by the provider's own field or, if it has none, in words.
        """
        read = from_dicts(messages)
        specs = [tool_spec(tool) for tool in tools or ()]
        chosen = self._choose_options(options)
        output: OutputSchema | None = chosen.pop("output", None)
        if output is not None:
            from autonomy_ctx.formats.output_schema import output_options

            fields = output_options(self._output_target(specs), output, chosen)
            chosen |= fields or {}
            read = read if fields is not None else [*read, Message("system", output.instruction)]
        if self._offline is not None:
            return await self._offline.complete_chat(read, specs, stream, max_tokens)
        client = await self._ensure_client()
        if "model" in chosen:
            raise TypeError("`model` is not an option of a request; make another Model to use another model")
        request_options = self._request_options(chosen, specs, max_tokens, stream=stream)
        request = self._write_request(read, request_options)
        while True:
            try:
                return await self._ask(client, request, request_options)
            except ContextOverflow as overflow:
                self.learn_window(overflow.window if overflow.is_certain else None)
                raise
            except (ModelUnavailable, RateLimited, ModelTimeout) as error:
                if self.fallback is None:
                    raise
                return await self._ask_fallback(
                    self.fallback, error, read, tools=tools, stream=stream, max_tokens=max_tokens, **options
                )
            except (SummaryBlockRefused, ThinkingRefused) as refused:
                # Each kind once: the reply says that it is never to be sent again.
                request, read = self._write_without_refused(refused, request, read, request_options)

    def takes_output(self, output: OutputSchema, tools: Sequence[Any] = ()) -> bool:
        """Tell whether the provider has a field for such an answer, together with these tools."""
        return self.sent_output(output, tools) is not None

    def sent_output(self, output: OutputSchema, tools: Sequence[Any] = ()) -> OutputSchema | None:
        """The schema in the keywords that the provider takes; None if it has no field for it."""
        from autonomy_ctx.formats.output_schema import OutputSchema, sent_schema

        schema = sent_schema(self._output_target(tools), output)
        return None if schema is None else OutputSchema(output.name, schema)

    @property
    def can_compact(self) -> bool:
        """True if the provider of this model writes summaries on demand: Claude's API, and Responses."""
        from autonomy_ctx.formats.compaction import can_compact

        return can_compact(self._provider.wire_format, self._model)

    @property
    def defers_tools(self) -> bool:
        """True if the model reads some definitions of tools only when it has found them.

        Of Claude and GPT, these are the models that write summaries on demand.
        """
        return self.can_compact

    def takes_block(self, block: SummaryBlock) -> bool:
        """Tell whether a summary that a provider wrote is sent to this model, and not our text."""
        from autonomy_ctx.formats.compaction import takes_block

        return takes_block(block, self._provider.wire_format, self._model)

    async def compact(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        *,
        breakpoints: Sequence[int] = (),
        cache_key: str | None = None,
    ) -> Compaction:
        """Have the provider write a summary of these messages, to stand in their place later.

        They are the messages of a request that was sent, and end before its reply.
        """
        from autonomy_ctx.formats.compaction import CompactionReplies, compaction_request, make_compaction
        from autonomy_ctx.models.client import ModelClient

        if not self.can_compact:
            raise ValueError(f"the provider of {self.name!r} ({self.provider}) writes no summaries on demand")
        await self._ensure_client()
        owner = self._format.name
        chosen = self._choose_options({"breakpoints": breakpoints, "cache_key": cache_key})
        options = self._request_options(chosen, [tool_spec(tool) for tool in tools or ()], None)
        request = compaction_request(self._write_request(from_dicts(messages), options), owner)
        client = ModelClient(
            self.name, CompactionReplies(self._format), self._pool, self._timeouts, self._retry_policy
        )
        reply = await client.complete(self._request_builder.build_request(request))
        return make_compaction(reply, request, request.block, owner, self._model)

    @property
    def can_batch(self) -> bool:
        """True if the provider of this model answers batches, at half the price."""
        from autonomy_ctx.models.batches import BATCH_PROVIDERS

        return self.provider in BATCH_PROVIDERS

    async def batches(self) -> BatchClient:
        """The batches of this model."""
        from autonomy_ctx.models.batches import BatchClient

        if not self.can_batch:
            raise ValueError(f"the provider of {self.name!r} ({self.provider}) has no batches")
        client = await self._ensure_client()
        return BatchClient(self.name, self._format, self._request_builder, client)

    async def send_batch(
        self, messages: Sequence[Message | Mapping[str, Any]], *, max_tokens: int | None = None
    ) -> str:
        """Send messages as a batch, to be answered within a day; the id by which `batches` reads it."""
        batches = await self.batches()
        options = self._request_options(self._choose_options({}), (), max_tokens)
        return await batches.send(self._write_request(from_dicts(messages), options))

    def check_key(self) -> None:
        """Raise `MissingKey` if this model, or its fallback, needs a key that is neither given nor set."""
        self._request_builder.check_key()
        if self.fallback is not None:
            self.fallback.check_key()

    async def close(self) -> None:
        """Close the connections of the running event loop; a client that was passed in stays open."""
        await self._pool.aclose()
        if self.fallback is not None:
            await self.fallback.close()

    def __repr__(self) -> str:
        given = self._request_builder.explicit_base_url
        where = "" if given is None else f", base_url={given!r}"
        return f"Model({self.name!r}, provider={self.provider!r}{where})"

    async def _ensure_client(self) -> ModelClient:
        if self._client is None:
            from autonomy_ctx.models.client import ModelClient

            # In a thread: the first of its kind is imported.
            self._format = await anyio.to_thread.run_sync(self._provider.format)
            self._client = ModelClient(
                self.name, self._format, self._pool, self._timeouts, self._retry_policy
            )
        return self._client

    def _choose_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the model and those of one request; one that is None is left out."""
        return {name: value for name, value in {**self._options, **options}.items() if value is not None}

    def _request_options(
        self,
        chosen: dict[str, Any],
        tools: Sequence[Mapping[str, Any]],
        max_tokens: int | None,
        *,
        stream: bool = False,
    ) -> RequestOptions:
        usual = chosen.pop("max_tokens", None)
        return RequestOptions(
            tools=tools,
            max_tokens=usual if max_tokens is None else max_tokens,
            stream=stream,
            **self._cache_options(chosen),
            answered_call_ids=chosen.pop("answered_call_ids", ()),
            options=chosen,
        )

    def _cache_options(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """Take the options for the prompt cache out of those of a request."""
        breakpoints, key, is_long = (chosen.pop(name, None) for name in CACHE_OPTIONS)
        # What the user has decided for the model wins.
        is_long = self._options.get("long_cache", is_long)
        is_bedrock = self._provider.wire_format == "bedrock"
        info = find_model(self._model) if is_bedrock or is_long else None
        # Bedrock has models without a cache, which refuse marks.
        has_marks = not is_bedrock or (info is not None and info.cache.marks > 0)
        if self._cache is False or (self._cache is None and not has_marks):
            return {}
        is_long = is_long and (info is None or info.cache.long_seconds is not None)
        is_sent = self._cache or (self._is_at_provider and self._provider.knows_cache_fields)
        fields = CacheFields(key=key, is_long=bool(is_long)) if is_sent else None
        return {"breakpoints": breakpoints or (), "cache": fields}

    def _output_target(self, tools: Sequence[Any]) -> OutputTarget:
        from autonomy_ctx.formats.output_schema import OutputTarget

        return OutputTarget(self.provider, self._provider.wire_format, self._model, bool(tools))

    @property
    def _is_at_provider(self) -> bool:
        """Tell whether it is asked at the provider's own address, and not at a gateway or a local server."""
        own = self._provider.default_base_url()
        return not self._provider.local and own is not None and self.base_url == own

    def _write_request(self, messages: Sequence[Message], request_options: RequestOptions) -> WireRequest:
        request = self._format.request(self._model, messages, request_options)
        if request.repairs:
            logger.debug("model %s: %d repairs in the request", self.name, len(request.repairs))
        if self._cache_diagnosis:
            from autonomy_ctx.formats.cache_diagnosis import ask_for_diagnosis

            request = ask_for_diagnosis(request, messages, self._format.name)
        if request.block is None:
            return request
        return replace(request, thinking=replace(request.thinking, block=request.block.name))

    def _write_without_refused(
        self,
        refused: SummaryBlockRefused | ThinkingRefused,
        request: WireRequest,
        messages: Sequence[Message],
        request_options: RequestOptions,
    ) -> tuple[WireRequest, list[Message]]:
        """A refused request without what was refused, and its messages; raises if it is not there."""
        from autonomy_ctx.formats.compaction import without_block

        # OpenAI does not say which of its encrypted items it cannot read.
        is_block = isinstance(refused, SummaryBlockRefused) or self._format.name == RESPONSES
        if is_block and request.block is not None:
            logger.warning("model %s refused its own summary; our own summary is sent from now on", self.name)
            left = [without_block(one) for one in messages]
            again = self._write_request(left, request_options)
            use = replace(again.thinking, refused_block=request.block.name)
            return replace(again, thinking=use), left
        if isinstance(refused, SummaryBlockRefused) or request.thinking.refused:
            raise refused
        by_provider = refused.by_prefix and self._is_at_provider
        again = self._write_without_thinking(request, messages, request_options, by_provider)
        return again, list(messages)

    async def _ask_fallback(
        self, fallback: Model, error: ModelError, messages: Sequence[Message], **request: Any
    ) -> ModelReply | ModelStream | ReplyStream:
        """The answer of the fallback to the same messages; a request that is too long for it is not sent."""
        from autonomy_ctx.models.streaming import ModelStream

        name = fallback.name
        logger.warning("model %s: %s; model %s is asked instead", self.name, type(error).__name__, name)
        try:
            answer: ModelReply | ModelStream | ReplyStream = await fallback.complete_chat(messages, **request)
        except ContextOverflow:
            # A shorter context would be another prefix, also for the first model.
            raise error from None
        if isinstance(answer, ModelReply):
            return replace(answer, fallback=name)
        if isinstance(answer, ModelStream):
            complete_reply = answer.complete_reply or (lambda reply: reply)
            answer.complete_reply = lambda reply: replace(complete_reply(reply), fallback=name)
        return answer

    def _write_without_thinking(
        self,
        refused: WireRequest,
        messages: Sequence[Message],
        request_options: RequestOptions,
        by_provider: bool,
    ) -> WireRequest:
        """A refused request again: the provider drops the thinking that does not fit, or there is none."""
        from autonomy_ctx.formats.thinking import PROVIDER_REFUSED, let_provider_drop, without_thinking

        use = ThinkingUse(left_out={PROVIDER_REFUSED: len(refused.thinking.sent) or 1}, refused=True)
        again = let_provider_drop(refused, self._model) if by_provider else None
        if again is None:
            owner = self._format.name
            again = self._write_request([without_thinking(one, owner) for one in messages], request_options)
        logger.warning(
            "model %s refused the thinking of earlier replies; it is left out from now on", self.name
        )
        known = refused.thinking
        use = replace(use, block=known.block, refused_block=known.refused_block)
        return replace(again, thinking=use)

    async def _ask(
        self, client: ModelClient, request: WireRequest, request_options: RequestOptions
    ) -> ModelReply | ModelStream:
        from autonomy_ctx.formats.outgoing import original_tool_names

        stream = request_options.stream
        sent = self._request_builder.build_request(request, stream=stream)
        names = original_tool_names(str(spec["name"]) for spec in request_options.tools)
        if not stream:
            reply = await client.complete(sent)
            return restore_tool_names(self._complete_reply(request, reply), names)
        events = await client.stream(sent, self._format.reader)
        events.names, events.on_overflow = names, self.learn_window
        events.complete_reply = partial(self._complete_reply, request)
        return events

    def _complete_reply(self, request: WireRequest, reply: ModelReply) -> ModelReply:
        """A reply with what the request before it says of its thinking, where there is any."""
        if self._cache_diagnosis:
            from autonomy_ctx.formats.cache_diagnosis import store_reply_id

            reply = store_reply_id(reply, self._format.name)
        if not reply.blocks and request.thinking == NO_THINKING:
            return reply
        from autonomy_ctx.formats.thinking import record_prefix

        return record_prefix(reply, request.body, self._format.name, request.thinking)

    def learn_window(self, window: int | None) -> None:
        """Believe a provider that says its window is smaller than was thought; a tiny one is not believed."""
        from autonomy_ctx.formats.overflow import MIN_WINDOW

        if window is not None and MIN_WINDOW <= window < (self._context_window or window + 1):
            self._context_window = window


# Names of models that are not in the table; each is told once.
_unknown_names: set[str] = set()
_MAX_UNKNOWN = 100


def _tell_unknown(name: str, taken_for: str) -> None:
    """Say once that a model is not in the table, and which one it is taken for."""
    if name in _unknown_names or len(_unknown_names) >= _MAX_UNKNOWN or is_known_model(name):
        return
    _unknown_names.add(name)
    logger.warning(
        "model %s is not in the table of %s; the window, price and cache of %s are used for it. Add "
        "a row to autonomy_ctx.tokens.MODELS if these are wrong",
        name,
        TABLE_DATE,
        taken_for,
    )


def tool_spec(tool: Any) -> dict[str, Any]:
    """A tool as `{"name", "description", "parameters"}`, from that, OpenAI's form or an object with these.

    A dict may also have `defer_loading`. An object may also have all three in its `spec`, as those made with
    `@tool` do.
    """
    deferred = {}
    own = None if isinstance(tool, Mapping) else getattr(tool, "spec", None)
    tool = own if isinstance(own, Mapping) else tool
    if isinstance(tool, Mapping):
        inner = tool.get("function")
        spec = inner if isinstance(inner, Mapping) else tool
        name, description = spec.get("name"), spec.get("description")
        parameters = spec.get("parameters", spec.get("input_schema"))
        if spec.get("defer_loading") is True:
            deferred = {"defer_loading": True}
    else:
        name, description, parameters = (
            getattr(tool, field, None) for field in ("name", "description", "parameters")
        )
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"a tool needs a name, a description and parameters; this is a {type(tool).__name__}"
        )
    empty = {"type": "object", "properties": {}}
    return {"name": name, "description": description or "", "parameters": parameters or empty, **deferred}
