"""Embedders turn texts into vectors.

`as_embedder` wraps a library's model or a function, plain or async, as an `Embedder`. `checked_vectors`
checks the vectors that an embedder returned.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread

from autonomy_ctx.background import current_loop
from autonomy_ctx.errors import InvalidVectors


class Embedder(Protocol):
    """Makes vectors of texts: texts with a similar meaning have vectors that are near to each other."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, all of the same length."""


class HasEmbed(Protocol):
    """An `Embedder`, or an object of a library whose `embed` computes."""

    def embed(self, texts: list[str], /) -> Any:
        """One vector for each text."""


class HasEncode(Protocol):
    """A model as sentence-transformers and model2vec have it."""

    def encode(self, texts: list[str], /) -> Any:
        """One vector for each text."""


EmbedderLike: TypeAlias = HasEmbed | HasEncode | Callable[[list[str]], Any]


def as_embedder(value: EmbedderLike) -> Embedder:
    """The value as an embedder: as it is, or wrapped.

    What is `async` is awaited; anything else computes, and runs in a worker thread.
    """
    embed, encode = (getattr(value, name, None) for name in ("embed", "encode"))
    # A class has the methods of its objects, and a text, such as a model's name, has `encode`.
    if isinstance(value, type | str) or not any(map(callable, (embed, encode, value))):
        what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(
            f"{what} is not an embedder: give an object with `embed(texts)` such as HttpEmbedder, a model "
            f"with `encode(texts)` such as model2vec's StaticModel, or a function that takes a list of texts"
        )
    if callable(embed):
        # What is async here has the one method of an embedder.
        return value if _is_async(embed) else ThreadEmbedder(embed)  # type: ignore[return-value]
    call: Any = encode if callable(encode) else value
    return AsyncEmbedder(call) if _is_async(call) else ThreadEmbedder(call)


class AsyncEmbedder:
    """An async function as an embedder."""

    def __init__(self, call: Callable[[list[str]], Awaitable[list[list[float]]]]) -> None:
        self._call = call

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors that the function gives."""
        return await self._call(list(texts))

    def __repr__(self) -> str:
        return f"AsyncEmbedder({_callable_name(self._call)})"


class ThreadEmbedder:
    """A function that computes, as an embedder: called in a worker thread, one call at a time."""

    def __init__(self, call: Callable[[list[str]], Any]) -> None:
        self._call = call
        # Not the shared threads, so that a slow model only delays its own callers.
        self._limiters: WeakKeyDictionary[Any, anyio.CapacityLimiter] = WeakKeyDictionary()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The result of the function. If the caller is cancelled, the function runs on and ends by itself."""
        limiter = self._limiters.setdefault(current_loop(), anyio.CapacityLimiter(1))
        [found] = await anyio.to_thread.run_sync(
            self._compute, list(texts), abandon_on_cancel=True, limiter=limiter
        )
        # A plain function may return the coroutine of another function.
        vectors: list[list[float]] = await found if inspect.isawaitable(found) else found
        return vectors

    def __repr__(self) -> str:
        return f"ThreadEmbedder({_callable_name(self._call)})"

    def _compute(self, texts: list[str]) -> list[Any]:
        found = self._call(texts)
        # A generator computes when it is read, so it is read in this thread. In a list, because trio lets no
        # thread give a coroutine.
        return [list(found) if isinstance(found, Iterator) else found]


def _is_async(call: Callable[..., Any]) -> bool:
    # An object may have an async `__call__`.
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


def _callable_name(call: Callable[..., Any]) -> str:
    return getattr(call, "__qualname__", type(call).__name__)


def embedder_name(value: EmbedderLike) -> str:
    """The name of an embedder in every process: its `name` or its model's, else its class.

    Vectors are kept under it, so one that makes other vectors needs another name.
    """
    while isinstance(value, partial):
        value = value.func
    for attribute in ("name", "model", "model_name", "base_model_name"):
        found = getattr(value, attribute, None)
        if isinstance(found, str) and found:
            return found
    return _callable_name(value)  # type: ignore[arg-type]


def checked_vectors(vectors: Any, count: int) -> list[list[float]]:
    """Vectors that can be compared with each other, from lists or from arrays of any library."""
    vectors = _to_list(vectors)
    if not isinstance(vectors, Sequence) or isinstance(vectors, str) or len(vectors) != count:
        given = f"{len(vectors)} vectors" if isinstance(vectors, list | tuple) else type(vectors).__name__
        raise InvalidVectors(f"returned {given} for {count} texts")
    try:
        made = [[float(number) for number in _to_list(vector)] for vector in vectors]
    except (TypeError, ValueError, OverflowError):
        raise InvalidVectors("returned a vector that is not a list of numbers") from None
    lengths = sorted({len(vector) for vector in made})
    if len(lengths) > 1 or 0 in lengths:
        raise InvalidVectors(f"returned vectors of {' and '.join(map(str, lengths))} numbers")
    if not all(map(math.isfinite, (number for vector in made for number in vector))):
        raise InvalidVectors("returned numbers that are not finite")
    return made


def _to_list(value: Any) -> Any:
    """An array of numpy or torch as a list."""
    return value.tolist() if callable(getattr(value, "tolist", None)) else value
