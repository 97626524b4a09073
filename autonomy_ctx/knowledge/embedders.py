"""`HttpEmbedder`: an embedder that calls a server with `/v1/embeddings` through the request loop of the
models.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import random
from typing import Any

import anyio
import anyio.to_thread

from autonomy_ctx.background import AsyncResource
from autonomy_ctx.errors import InvalidModelReply
from autonomy_ctx.formats.base import ModelReply, WireRequest
from autonomy_ctx.formats.outgoing import replace_surrogates
from autonomy_ctx.models.client import ClientPool, ModelClient, RequestBuilder, RetryPolicy, Timeouts
from autonomy_ctx.models.providers import PROVIDERS, ProviderChoice, checked_url, choose_provider
from autonomy_ctx.validation import check_int

EMBED_TIMEOUT_SECONDS = 60.0


class HttpEmbedder(AsyncResource):
    """Calls an embedding model over HTTP, in OpenAI's format.

    With `base_url`, any server is called, with or without an `api_key`. Without it, the name contains the
    provider (`openai/text-embedding-3-small`, `ollama/nomic-embed-text`), and the key comes from the
    environment. Such a key is sent over plain http to another machine only with `insecure=True`. `options`,
    such as `dimensions=256`, are added to every request.
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
        insecure: bool = False,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] = random,
        now: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        base_url = None if base_url is None else checked_url(base_url)
        choice = _choose_embedding_provider(model, base_url)
        self.model, self.batch_size = model, check_int("batch_size", batch_size)
        self._model = choice.model
        self._request_builder = RequestBuilder(
            model, choice.provider, base_url=base_url, api_key=api_key, headers=headers, insecure=insecure
        )
        for refused in ("model", "input", "encoding_format"):
            if refused in options:
                raise TypeError(f"HttpEmbedder() does not take {refused} as an option")
        self._options = options
        self._pool = ClientPool(client)
        timeouts = Timeouts.of(EMBED_TIMEOUT_SECONDS if timeout is None else timeout)
        retry_policy = RetryPolicy(retries=retries, sleep=sleep, random=jitter, now=now)
        self._client = ModelClient(model, _EmbeddingsFormat(), self._pool, timeouts, retry_policy)

    @property
    def base_url(self) -> str | None:
        """The base URL: as given, or from the environment."""
        return self._request_builder.base_url

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text; the texts are sent in batches, one after the other."""
        if isinstance(texts, str):
            raise TypeError("embed takes a list of texts, not one text")
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self.batch_size):
            vectors += await self._embed_batch(
                [replace_surrogates(text) for text in texts[start : start + self.batch_size]]
            )
        return vectors

    async def close(self) -> None:
        """Close the connections of the running event loop; a client that was passed in stays open."""
        await self._pool.aclose()

    def __repr__(self) -> str:
        given = self._request_builder.explicit_base_url
        where = "" if given is None else f", base_url={given!r}"
        return f"HttpEmbedder({self.model!r}{where})"

    async def _embed_batch(self, texts: list[str]) -> list[list[float]]:
        body = {"model": self._model, "input": texts, "encoding_format": "float", **self._options}
        request = self._request_builder.build_request(WireRequest(path="embeddings", body=body))
        reply = await self._client.complete(request)
        vectors = reply.vectors if isinstance(reply, EmbeddingReply) else ()
        if len(vectors) != len(texts):
            raise InvalidModelReply(self.model, f"holds {len(vectors)} vectors for {len(texts)} texts")
        return [list(vector) for vector in vectors]


def _choose_embedding_provider(model: str, base_url: str | None) -> ProviderChoice:
    if base_url is not None:
        if not isinstance(model, str) or not model.strip():
            raise ValueError('an embedding model needs a name, such as "text-embedding-3-small"')
        # No key of another provider is ever sent to an address that was given.
        return ProviderChoice(PROVIDERS["compatible"], model)
    try:
        choice = choose_provider(model)
    except ValueError as error:
        raise ValueError(
            f"the provider of model {model!r} is not known; name it, as in "
            f"'openai/text-embedding-3-small', or give the `base_url` of a server with /v1/embeddings"
        ) from error
    if choice.provider.wire_format != "openai" or choice.provider.name == "offline":
        raise ValueError(
            f"provider {choice.provider.name!r} has no /v1/embeddings; "
            f"give the `base_url` of a server that has it"
        )
    return choice


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingReply(ModelReply):
    """The vectors of one batch, in the order of its texts."""

    vectors: tuple[array[float], ...] = ()


class _EmbeddingsFormat:
    """The words of `/v1/embeddings`, for the request loop."""

    name = "embeddings"

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        # Whatever is missing or no number raises, and the loop says that there is no answer.
        rows = sorted(body["data"], key=lambda row: row.get("index", 0))
        vectors = tuple(array("d", row["embedding"]) for row in rows)
        if not all(vector and all(map(math.isfinite, vector)) for vector in vectors):
            raise ValueError("a vector is empty or not finite")
        return EmbeddingReply(vectors=vectors, stop="end")
