"""Vectors from any server with `/v1/embeddings`: asked, retried and timed like a model.

The request loop is that of the models; only what an answer holds differs, so that is a format.
"""

from __future__ import annotations

import json
import math
import time
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import random
from types import TracebackType
from typing import Any

import anyio

from autonomy_ctx.errors import InvalidModelReply, MissingKey
from autonomy_ctx.items.formats.format import Request, StreamReader
from autonomy_ctx.items.formats.openai import OpenAIFormat
from autonomy_ctx.items.formats.reply import ModelReply
from autonomy_ctx.items.message import Message
from autonomy_ctx.knowledge.knowledge import checked_limit, clean
from autonomy_ctx.models.client import Client, Outgoing, Retrying, Timeouts
from autonomy_ctx.models.model import Secret
from autonomy_ctx.models.pool import Pool
from autonomy_ctx.models.providers import PROVIDERS, Choice, checked_url, choose, joined

TOTAL_SECONDS = 60.0


class HttpEmbedder:
    """Asks an embedding model over HTTP, in OpenAI's words.

    With `base_url` any server is asked, with `api_key` or none. Without it the name says the provider
    (`openai/text-embedding-3-small`, `ollama/nomic-embed-text`), whose key comes from the environment.
    `options` go into every request as they are, such as `dimensions=256`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        batch_size: int = 16,
        timeout: float | Mapping[str, float] | None = None,
        client: Any = None,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] = random,
        now: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        self._base_url = None if base_url is None else checked_url(base_url)
        choice = _choice(model, self._base_url)
        self.model, self.batch_size = model, checked_limit("batch_size", batch_size)
        self._provider, self._model = choice.provider, choice.model
        self._api_key = None if api_key is None else Secret(api_key, "api_key")
        self._headers = {name: Secret(value, f"header {name}") for name, value in (headers or {}).items()}
        for refused in ("model", "input", "encoding_format"):
            if refused in options:
                raise TypeError(f"HttpEmbedder() does not take {refused} as an option")
        self._options = options
        self._pool = Pool(client)
        timeouts = Timeouts.of(TOTAL_SECONDS if timeout is None else timeout)
        retrying = Retrying(retries=retries, sleep=sleep, random=jitter, now=now)
        self._client = Client(model, _Embeddings(), self._pool, timeouts, retrying)

    @property
    def base_url(self) -> str | None:
        """Where it is asked: as given, or as the environment says now."""
        return self._provider.address(self._base_url)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text; asked in batches, one after the other."""
        if isinstance(texts, str):
            raise TypeError("embed takes a list of texts, not one text")
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self.batch_size):
            vectors += await self._asked([clean(text) for text in texts[start : start + self.batch_size]])
        return vectors

    async def close(self) -> None:
        """Close its connections in the running loop; a client that was given stays open."""
        await self._pool.aclose()

    async def __aenter__(self) -> HttpEmbedder:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        where = "" if self._base_url is None else f", base_url={self._base_url!r}"
        return f"HttpEmbedder({self.model!r}{where})"

    async def _asked(self, texts: list[str]) -> list[list[float]]:
        base = self.base_url
        if base is None:
            raise ValueError(f"embedding model {self.model!r} has no address; give its `base_url`")
        body = {"model": self._model, "input": texts, "encoding_format": "float", **self._options}
        headers = self._provider.headers(self._key(base), body, version=None)
        headers |= {"accept-encoding": "gzip", "user-agent": "autonomy-ctx"}
        headers |= {name.lower(): secret.value for name, secret in self._headers.items()}
        out = Outgoing(
            url=joined(base, "embeddings", self._provider.version),
            headers=headers,
            content=json.dumps(body, ensure_ascii=False, allow_nan=False).encode(),
        )
        reply = await self._client.complete(out)
        vectors = reply.vectors if isinstance(reply, EmbeddingReply) else ()
        if len(vectors) != len(texts):
            raise InvalidModelReply(self.model, f"holds {len(vectors)} vectors for {len(texts)} texts")
        return [list(vector) for vector in vectors]

    def _key(self, base: str) -> str | None:
        if self._api_key is not None:
            return self._api_key.value
        found = self._provider.key()
        if found is not None:
            return Secret(found, "the key in the environment").value
        if self._provider.keys and base == self._provider.usual_address() and not self._headers:
            raise MissingKey(self.model, self._provider.keys)
        return None


def _choice(model: str, base_url: str | None) -> Choice:
    if base_url is not None:
        if not isinstance(model, str) or not model.strip():
            raise ValueError('an embedding model needs a name, such as "text-embedding-3-small"')
        # No key of another provider is ever sent to an address that was given.
        return Choice(PROVIDERS["compatible"], model)
    choice = choose(model)
    if choice.provider.words != "openai" or choice.provider.name == "offline":
        raise ValueError(
            f"provider {choice.provider.name!r} has no /v1/embeddings; "
            f"give the `base_url` of a server that has it"
        )
    return choice


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingReply(ModelReply):
    """The vectors of one batch, in the order of its texts."""

    vectors: tuple[array[float], ...] = ()


class _Embeddings:
    """The words of `/v1/embeddings`, for the request loop."""

    name = "embeddings"

    def request(
        self,
        model: str,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
        stream: bool = False,
        breakpoints: Sequence[int] = (),
        **options: Any,
    ) -> Request:
        raise NotImplementedError("an embedder is asked about texts, not messages")

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        # Whatever is missing or no number raises, and the loop says that there is no answer.
        rows = sorted(body["data"], key=lambda row: row.get("index", 0))
        vectors = tuple(array("d", row["embedding"]) for row in rows)
        if not all(vector and all(map(math.isfinite, vector)) for vector in vectors):
            raise ValueError("a vector is empty or not finite")
        return EmbeddingReply(vectors=vectors, stop="end")

    def reader(self) -> StreamReader:
        raise NotImplementedError("vectors are not streamed")

    def overflow(self, status: int, body: Any) -> tuple[bool, int | None]:
        return OpenAIFormat().overflow(status, body)
