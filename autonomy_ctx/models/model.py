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
from autonomy_ctx.errors import ContextOverflow, SummaryBlockRefused, ThinkingRefused
from autonomy_ctx.formats.base import (
    NO_THINKING,
    RESPONSES,
    Format,
    ModelReply,
    RequestOptions,
    ThinkingUse,
    WireRequest,
    restore_tool_names,
)
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import SummaryBlock
from autonomy_ctx.messages.wire import from_dicts
from autonomy_ctx.models.catalog import find_context_window
from autonomy_ctx.validation import check_int

if TYPE_CHECKING:
    from autonomy_ctx.formats.compaction import Compaction
    from autonomy_ctx.models.client import ModelClient
    from autonomy_ctx.models.offline import OfflineModel, ReplyStream
    from autonomy_ctx.models.streaming import ModelStream

logger = logging.getLogger("autonomy_ctx.models")


class Model(AsyncResource):
    """Calls one model, over HTTP or offline.

    The provider is found by the name (`claude-*`, `gpt-*`, `gemini-*`, `nova-*`, `ollama/llama3`), or given
    as `provider`. With `base_url`, any server that speaks the OpenAI format can be used. `timeout` is the
    seconds for a whole answer, or a dict of `connect`, `first_token` and `total`. `options` are added to
    every request. Without an `api_key`, the key is read from the environment when it is first needed; such a
    key is sent over plain http to another machine only with `insecure=True`.
    """

    # Agents and summaries give it messages as they are; other models get dicts.
    takes_messages: ClassVar[Literal[True]] = True

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
        anthropic_version: str | None = None,
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
            name, choice.provider, base_url=base_url, api_key=api_key, headers=headers, insecure=insecure
        )
        self._version = anthropic_version
        for refused in ("stream", "messages", "tools"):
            if refused in options:
                raise TypeError(f"Model() does not take {refused}; give it to complete_chat()")
        self._options = options
        self.context_window = context_window
        if context_window is None and not choice.provider.local:
            self.context_window = find_context_window(choice.model)
        self._timeouts = Timeouts.of(timeout)
        self._retry_policy = RetryPolicy(retries=retries, sleep=sleep, random=jitter, now=now)
        self._pool = ClientPool(client)
        self._client: ModelClient | None = None
        self._format: Format
        self._offline = _make_offline_model() if choice.provider.name == "offline" else None

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
        those of the model for this request; None removes one.
        """
        read = from_dicts(messages)
        specs = [tool_spec(tool) for tool in tools or ()]
        if self._offline is not None:
            return await self._offline.complete_chat(read, specs, stream, max_tokens)
        chosen = {name: value for name, value in {**self._options, **options}.items() if value is not None}
        usual = chosen.pop("max_tokens", None)
        client = await self._ensure_client()
        if "model" in chosen:
            raise TypeError("`model` is not an option of a request; make another Model to use another model")
        request_options = RequestOptions(
            tools=specs,
            max_tokens=usual if max_tokens is None else max_tokens,
            stream=stream,
            breakpoints=chosen.pop("breakpoints", ()),
            answered_call_ids=chosen.pop("answered_call_ids", ()),
            options=chosen,
        )
        request = self._write_request(read, request_options)
        while True:
            try:
                return await self._ask(client, request, request_options)
            except ContextOverflow as overflow:
                self.learn_window(overflow.window if overflow.is_certain else None)
                raise
            except (SummaryBlockRefused, ThinkingRefused) as refused:
                # Each kind once: the reply says that it is never to be sent again.
                request, read = self._write_without_refused(refused, request, read, request_options)

    @property
    def can_compact(self) -> bool:
        """True if the provider of this model writes summaries on demand: Claude's API, and Responses."""
        from autonomy_ctx.formats.compaction import can_compact

        return can_compact(self._provider.wire_format, self._model)

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
        chosen = {name: value for name, value in self._options.items() if value is not None}
        options = RequestOptions(
            tools=[tool_spec(tool) for tool in tools or ()],
            max_tokens=chosen.pop("max_tokens", None),
            breakpoints=breakpoints,
            options=chosen,
        )
        request = compaction_request(self._write_request(from_dicts(messages), options), owner)
        client = ModelClient(
            self.name, CompactionReplies(owner), self._pool, self._timeouts, self._retry_policy
        )
        sent = self._request_builder.build_request(
            request.path, request.body, version=self._version, betas=request.betas
        )
        reply = await client.complete(sent)
        return make_compaction(reply, request, request.block, owner, self._model)

    async def close(self) -> None:
        """Close the connections of the running event loop; a client that was passed in stays open."""
        await self._pool.aclose()

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

    def _write_request(self, messages: Sequence[Message], request_options: RequestOptions) -> WireRequest:
        request = self._format.request(self._model, messages, request_options)
        if request.repairs:
            logger.debug("model %s: %d repairs in the request", self.name, len(request.repairs))
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
            logger.warning("model %s refused a summary of its own; ours is sent from now on", self.name)
            left = [without_block(one) for one in messages]
            again = self._write_request(left, request_options)
            use = replace(again.thinking, refused_block=request.block.name)
            return replace(again, thinking=use), left
        if isinstance(refused, SummaryBlockRefused) or request.thinking.refused:
            raise refused
        by_provider = refused.by_prefix and self.base_url == self._provider.default_base_url()
        again = self._write_without_thinking(request, messages, request_options, by_provider)
        return again, list(messages)

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
        sent = self._request_builder.build_request(
            request.path,
            request.body,
            stream=stream,
            version=self._version,
            text=request.text,
            betas=request.betas,
        )
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
        if not reply.blocks and request.thinking == NO_THINKING:
            return reply
        from autonomy_ctx.formats.thinking import record_prefix

        return record_prefix(reply, request.body, self._format.name, request.thinking)

    def learn_window(self, window: int | None) -> None:
        """Believe a provider that says its window is smaller than was thought; a tiny one is not believed."""
        from autonomy_ctx.formats.overflow import MIN_WINDOW

        if window is not None and MIN_WINDOW <= window < (self._context_window or window + 1):
            self._context_window = window


def _make_offline_model() -> OfflineModel:
    # Imported here: most models are asked over HTTP.
    from autonomy_ctx.models.offline import OfflineModel

    return OfflineModel()


def tool_spec(tool: Any) -> dict[str, Any]:
    """A tool as `{"name", "description", "parameters"}`, from that, OpenAI's form or an object with these.

    An object may also have all three in its `spec`, as those made with `@tool` do.
    """
    own = None if isinstance(tool, Mapping) else getattr(tool, "spec", None)
    tool = own if isinstance(own, Mapping) else tool
    if isinstance(tool, Mapping):
        inner = tool.get("function")
        spec = inner if isinstance(inner, Mapping) else tool
        name, description = spec.get("name"), spec.get("description")
        parameters = spec.get("parameters", spec.get("input_schema"))
    else:
        name, description, parameters = (
            getattr(tool, field, None) for field in ("name", "description", "parameters")
        )
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"a tool needs a name, a description and parameters; this is a {type(tool).__name__}"
        )
    empty = {"type": "object", "properties": {}}
    return {"name": name, "description": description or "", "parameters": parameters or empty}
