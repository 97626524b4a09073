"""`VectorIndex`: vectors of a memory's messages, computed in the background, for search by meaning.

No append and no search waits until vectors are computed. The store knows which messages lack a vector, so
another process can continue the work. If two processes compute the same vectors, one block is stored and the
other is dropped. While an embedder fails or is slow, messages are found by words only.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module, util
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel
import anyio.to_thread
from cachetools import TTLCache

from autonomy_ctx.background import Background, current_loop
from autonomy_ctx.callables import describe_error
from autonomy_ctx.embedders import EmbedderLike, as_embedder, embedder_name
from autonomy_ctx.errors import EmbedderReplaced, StoreClosed, StoreError, VectorsUnsupported
from autonomy_ctx.memory.ranking import fuse_ranks
from autonomy_ctx.memory.search_text import query_terms
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, SearchHit, check_name
from autonomy_ctx.memory.vectors import (
    BYTES_PER_NUMBER,
    EmbeddingBlock,
    MessageVector,
    VectorBlock,
    embedded_text,
)
from autonomy_ctx.tracing import leave_trace
from autonomy_ctx.validation import check_seconds

logger = logging.getLogger("autonomy_ctx.memory")

# How many messages are embedded together: at most so many, and fewer with an embedder that takes longer than
# this, because a search waits for the call that is under way.
MAX_BATCH, SLOW_CALL_SECONDS, FAST_CALL_SECONDS = 64, 0.2, 0.05
FIRST_BATCH = 16
# What is appended within this time is embedded together.
GATHER_SECONDS = 0.25
# A call in the background that takes longer has failed.
CALL_TIMEOUT_SECONDS = 60.0
# The same for texts that a turn waits for.
TEXTS_TIMEOUT_SECONDS = 10.0
# After a failure the embedder is left alone, each time for twice as long.
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 300.0
# Conversations that are remembered as lacking vectors; what is forgotten is found by a search.
MAX_PENDING = 10_000
# How often a search looks whether its scope lacks vectors, as after a process was killed; of so many scopes.
CHECK_SECONDS, MAX_CHECKED = 60.0, 4096
# For each message that is wanted, how many are looked at by words and by meaning.
CANDIDATES_PER_HIT = 2
_PROBE = "Is it a message that cannot be embedded, or does the embedder fail?"


class EmbeddingGap(NamedTuple):
    """A conversation that may lack vectors, or with None all of a scope."""

    agent: str
    scope: str
    conversation: str | None


class _Pause:
    """The pause before a failed embedder is called again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until, self.seconds = 0.0, 0.0

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._until

    def begin(self) -> None:
        self.seconds = min(max(2 * self.seconds, FIRST_PAUSE_SECONDS), MAX_PAUSE_SECONDS)
        self._until = self._clock() + self.seconds

    def end(self) -> None:
        self._until = self.seconds = 0.0


class _Registration:
    """The registration of an embedder in the store, shared by all tasks that wait for it."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.failure: Exception | None = None


class VectorIndex:
    """Makes the vectors of messages with an embedder, and finds messages by words and by meaning."""

    def __init__(
        self,
        store: Store,
        embedder: EmbedderLike,
        *,
        timeout: float,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder, self.name = as_embedder(embedder), embedder_name(embedder)
        check_name("embedder", self.name)
        self._timeout = check_seconds("embedder_timeout", timeout)
        if not hasattr(store, "nearest"):
            raise VectorsUnsupported(type(store).__name__)
        self._store = store
        if util.find_spec("numpy") is None:
            raise ImportError("a memory with an embedder needs numpy: pip install 'autonomy-ctx[embeddings]'")
        self._sleep, self._clock = sleep, clock
        self._background = Background()
        self._pending: dict[EmbeddingGap, None] = {}
        self._checked: TTLCache[EmbeddingGap, bool] = TTLCache(MAX_CHECKED, CHECK_SECONDS, timer=clock)
        # What wakes the job that makes vectors, for each event loop of this process that has one.
        self._wake_events: WeakKeyDictionary[Any, anyio.Event] = WeakKeyDictionary()
        self._process = os.getpid()
        self._batch_size = FIRST_BATCH
        self._fill_pause, self._query_pause = _Pause(clock), _Pause(clock)
        # The number under which the store knows the embedder, once its dimensions are known.
        self._number: int | None = None
        self._dimensions: int | None = None
        self._is_replaced = False
        self._registrations: WeakKeyDictionary[Any, _Registration] = WeakKeyDictionary()
        self._pack_vectors: Callable[..., list[bytes]] | None = None
        self.metrics = {"messages_embedded": 0, "embedder_failures": 0, "searches_without_meaning": 0}

    def note_appended(self, key: Key) -> None:
        """Have what was appended embedded soon."""
        self._note(EmbeddingGap(*key))

    async def search(
        self, agent: str, scope: str, query: str, conversation: str | None, limit: int
    ) -> list[SearchHit]:
        """The messages that share a word with the query or are near it in meaning; best first."""
        # It refuses what is no question.
        query_terms(query, limit)
        near: list[SearchHit] = []
        words: list[SearchHit] = []
        failure: Exception | None = None
        wanted = CANDIDATES_PER_HIT * limit

        async def find_near() -> None:
            nonlocal near, failure
            try:
                near = await self.nearest(agent, scope, query, conversation, wanted)
            except Exception as error:
                failure = failure or error

        # Not raised inside: a group would wrap it.
        async with anyio.create_task_group() as group:
            group.start_soon(find_near)
            try:
                words = await self._store.search(agent, scope, query, conversation=conversation, limit=wanted)
            except Exception as error:
                failure = error
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return fuse_ranks(words, near, limit)

    async def nearest(
        self, agent: str, scope: str, query: str, conversation: str | None, limit: int
    ) -> list[SearchHit]:
        """The messages that are nearest to a query in meaning; none while the embedder fails or is slow."""
        place = EmbeddingGap(agent, scope, None)
        if place not in self._checked:
            self._checked[place] = True
            self._note(place)
        vector = await self._embed_query(query)
        if vector is None or self._number is None:
            return []
        return await self._store.nearest(
            agent, scope, vector, embedder=self._number, conversation=conversation, limit=limit
        )

    async def embed_messages(self, agent: str, scope: str, conversation: str | None) -> int:
        """Compute all missing vectors now, and return how many messages got one."""
        place, made = EmbeddingGap(agent, scope, conversation), 0
        while not self._is_replaced and (blocks := await self._read_blocks(place, MAX_BATCH)):
            made += await self._embed_blocks(blocks)
        if self._is_replaced:
            raise EmbedderReplaced(self.name)
        return made

    async def close(self) -> None:
        """Stop making vectors; what is missing is made later, here or elsewhere."""
        self._pending.clear()
        await self._background.aclose()

    def _note(self, place: EmbeddingGap) -> None:
        if self._is_replaced or len(self._pending) >= MAX_PENDING:
            return
        self._pending[place] = None
        if self._process != os.getpid():
            # In the child of a fork there are no jobs.
            self._process = os.getpid()
            self._wake_events.clear()
        loop = current_loop()
        wake = self._wake_events.get(loop)
        # A daemon: a close does not wait for vectors.
        if wake is None and self._background.start(partial(self._fill, loop), daemon=True):
            wake = self._wake_events[loop] = anyio.Event()
        if wake is not None:
            wake.set()

    async def _fill(self, loop: Any) -> None:
        """Make vectors whenever some are missing, one job for each event loop."""
        try:
            while not self._is_replaced:
                await self._wake_events[loop].wait()
                self._wake_events[loop] = anyio.Event()
                await self._sleep(GATHER_SECONDS)
                with leave_trace():
                    await self._fill_pending()
        except StoreClosed:
            pass
        finally:
            self._wake_events.pop(loop, None)

    async def _fill_pending(self) -> None:
        """Make vectors until none is missing that is known of."""
        while self._pending and not self._is_replaced:
            places = list(self._pending)
            try:
                await self._fill_batch()
                self._fill_pause.end()
            except StoreClosed:
                raise
            except Exception as error:
                self._pending |= dict.fromkeys(places)
                self._note_failure(error, self._fill_pause, "messages get no vectors for now")
                self._batch_size = max(self._batch_size // 4, 1)
                await self._sleep(self._fill_pause.seconds)
            # Others get their turn, whatever store and embedder do.
            await anyio.lowlevel.checkpoint()

    async def _fill_batch(self) -> None:
        """Embed the next batch of messages, those that wait longest first."""
        blocks: list[EmbeddingBlock] = []
        for place in list(self._pending):
            room = self._batch_size - sum(len(block.texts) for block in blocks)
            if room <= 0:
                break
            # Before it is read: what is appended from now on is noted again. A close may have dropped it.
            self._pending.pop(place, None)
            found = await self._read_blocks(place, room)
            blocks += found
            if found:
                # At the end of the line; there may be more.
                self._pending[place] = None
        if not blocks:
            return
        try:
            began = self._clock()
            await self._embed_blocks(blocks)
            seconds = self._clock() - began
        except StoreError:
            raise
        except Exception as error:
            texts = [one for block in blocks for one in block.texts]
            if len(texts) != 1 or not await self._can_embed(_PROBE):
                raise
            logger.warning(
                "a message gets no vector, because the embedder failed on it: %s", describe_error(error)
            )
            await self._put([VectorBlock(block.key, block.start, block.end, ()) for block in blocks])
            return
        if seconds > SLOW_CALL_SECONDS:
            self._batch_size = max(self._batch_size // 2, 1)
        elif seconds < FAST_CALL_SECONDS:
            self._batch_size = min(self._batch_size * 2, MAX_BATCH)

    async def _read_blocks(self, place: EmbeddingGap, limit: int) -> list[EmbeddingBlock]:
        if self._number is None:
            await self._embed([_PROBE])
        assert self._number is not None
        agent, scope, conversation = place
        found = await self._store.read_unembedded(
            agent, scope, embedder=self._number, conversation=conversation, limit=limit
        )
        if found is None:
            self._note_replaced()
        return found or []

    async def _embed_blocks(self, blocks: Sequence[EmbeddingBlock]) -> int:
        """Compute and store the vectors of some blocks, and return their number."""
        texts = [one.text for block in blocks for one in block.texts if one.text]
        made = iter(await self._embed(texts) if texts else [])
        await self._put(
            [
                VectorBlock(
                    block.key,
                    block.start,
                    block.end,
                    tuple(
                        MessageVector(one.position, one.message_id, next(made))
                        for one in block.texts
                        if one.text
                    ),
                )
                for block in blocks
            ]
        )
        return len(texts)

    async def _put(self, blocks: Sequence[VectorBlock]) -> None:
        assert self._number is not None
        if await self._store.put_vectors(blocks, embedder=self._number):
            self.metrics["messages_embedded"] += sum(len(block.vectors) for block in blocks)
        else:
            self._note_replaced()

    def _note_replaced(self) -> None:
        """Stop computing vectors, because the store would not keep them."""
        if not self._is_replaced:
            self._is_replaced = True
            logger.warning(
                "another process uses another embedder than %r for this memory; this process searches by "
                "words only. Give all processes of a memory the same embedder, and start this one again",
                self.name,
            )

    async def _can_embed(self, text: str) -> bool:
        try:
            await self._embed([text])
        except Exception:
            return False
        return True

    async def embed_texts(self, texts: list[str]) -> list[bytes]:
        """The vectors of texts that are no messages, in the stored form; empty if there are none now."""
        try:
            return await self._embed(texts, TEXTS_TIMEOUT_SECONDS)
        except Exception as error:
            self._note_failure(error, self._query_pause, "searches use words only for now")
            return []

    async def _embed(self, texts: list[str], timeout: float = CALL_TIMEOUT_SECONDS) -> list[bytes]:
        """The vectors of texts in the stored form. The first vectors register the embedder."""
        if self._pack_vectors is None:
            # In a thread: numpy takes a while to import.
            matrix = await anyio.to_thread.run_sync(import_module, "autonomy_ctx.memory.vector_matrix")
            self._pack_vectors = matrix.pack_vectors
        with anyio.fail_after(timeout):
            found = await self._embedder.embed(texts)
            pack = partial(self._pack_vectors, found, len(texts), self._dimensions)
            vectors = (
                pack() if len(texts) == 1 else await anyio.to_thread.run_sync(pack, abandon_on_cancel=True)
            )
            if self._number is None:
                await self._register(len(vectors[0]) // BYTES_PER_NUMBER)
        return vectors

    async def _register(self, dimensions: int) -> None:
        """Wait until the store has registered the embedder.

        The registration continues if the caller is cancelled.
        """
        loop = current_loop()
        registration = self._registrations.get(loop)
        if registration is None:
            registration = self._registrations[loop] = _Registration()
            if not self._background.start(partial(self._use_embedder, registration, loop, dimensions)):
                raise StoreClosed("this memory")
        await registration.done.wait()
        if registration.failure is not None:
            raise registration.failure

    async def _use_embedder(self, registration: _Registration, loop: Any, dimensions: int) -> None:
        try:
            number = await self._store.use_embedder(self.name, dimensions)
            self._number, self._dimensions = number, dimensions
        except Exception as error:
            registration.failure = error
        finally:
            del self._registrations[loop]
            registration.done.set()

    async def _embed_query(self, query: str) -> bytes | None:
        """The vector of a question, or None when there is none in time."""
        text = embedded_text(query)
        if not text or self._is_replaced:
            return None
        vector = None
        if self._query_pause.is_over:
            try:
                [vector] = await self._embed([text], self._timeout)
                self._query_pause.end()
            except Exception as error:
                self._note_failure(error, self._query_pause, "searches use words only for now")
        if vector is None:
            self.metrics["searches_without_meaning"] += 1
        return vector

    def _note_failure(self, error: Exception, pause: _Pause, effect: str) -> None:
        """Pause the calls for a while. The warning is logged once for all failures in a row."""
        what = "the store"
        if not isinstance(error, StoreError):
            self.metrics["embedder_failures"] += 1
            what = f"the embedder {self.name!r}"
        if not pause.seconds:
            logger.warning("%s fails, %s: %s", what, effect, describe_error(error))
        pause.begin()
