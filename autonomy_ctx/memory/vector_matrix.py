"""`VectorMatrix`: vectors in memory, all compared with a query at once by numpy.

It is a separate module, because it imports numpy, which only a memory with an embedder needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autonomy_ctx.embedders import checked_vectors
from autonomy_ctx.errors import InvalidVectors
from autonomy_ctx.memory.search_text import RowHit
from autonomy_ctx.memory.vectors import VECTOR_TYPE

_Floats: TypeAlias = NDArray[np.float32]
_Numbers: TypeAlias = NDArray[np.int64]
_FIRST_ROWS = 64


class _Rows(NamedTuple):
    """Vectors and their places; rows from `size` on are free."""

    size: int
    vectors: _Floats
    conversation_ids: _Numbers
    positions: _Numbers


def pack_vectors(vectors: Any, count: int, dimensions: int | None = None) -> list[bytes]:
    """Vectors of an embedder in the form in which they are kept: of length 1, as bytes.

    `InvalidVectors` when they are not so many, not equally long, or not finite; with `dimensions`, when
    they are of another length.
    """
    try:
        made = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError):
        made = np.empty(0)
    if made.ndim != 2 or made.shape[0] != count or not made.shape[1] or not np.isfinite(made).all():
        # Slower, and says what is wrong; or has found how to read them.
        made = np.asarray(checked_vectors(vectors, count), dtype=np.float64)
    if dimensions is not None and count and made.shape[1] != dimensions:
        raise InvalidVectors(f"returned vectors of {made.shape[1]} numbers, but the others have {dimensions}")
    # By the largest number first, so that no square is too large.
    largest = np.abs(made).max(axis=1, keepdims=True, initial=0.0)
    made = made / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    made /= np.where(lengths > 0, lengths, 1.0)
    return [row.tobytes() for row in made.astype(VECTOR_TYPE)]


class VectorMatrix:
    """Vectors with their places. It grows while others search it: what they look at does not change."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._rows = self._make_rows(0)

    def __len__(self) -> int:
        return self._rows.size

    @property
    def size_bytes(self) -> int:
        """The size in memory."""
        rows = self._rows
        return rows.vectors.nbytes + rows.conversation_ids.nbytes + rows.positions.nbytes

    def add(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """Add vectors: the number of the conversation, the position and the bytes of each."""
        if not vectors:
            return
        rows, end = self._rows, self._rows.size + len(vectors)
        if end > len(rows.positions):
            rows = self._make_rows(max(end, 2 * rows.size))._replace(size=rows.size)
            for name in ("vectors", "conversation_ids", "positions"):
                getattr(rows, name)[: rows.size] = getattr(self._rows, name)[: rows.size]
        joined = b"".join(vector for _, _, vector in vectors)
        made = np.frombuffer(joined, dtype=VECTOR_TYPE).reshape(len(vectors), self.dimensions)
        rows.vectors[rows.size : end] = made
        rows.conversation_ids[rows.size : end] = [number for number, _, _ in vectors]
        rows.positions[rows.size : end] = [position for _, position, _ in vectors]
        self._rows = rows._replace(size=end)

    def nearest(
        self, vector: bytes, limit: int, ranges: Sequence[tuple[int, int, int]] | None = None
    ) -> list[RowHit]:
        """The nearest by cosine, best first; of equals the newest.

        With `ranges`, in those: each the number of a conversation, its first and its last position.
        """
        size, vectors, conversation_ids, positions = self._rows
        vectors, conversation_ids, positions = vectors[:size], conversation_ids[:size], positions[:size]
        if ranges is not None:
            inside = np.zeros(size, dtype=bool)
            for number, first, last in ranges:
                inside |= (conversation_ids == number) & (positions >= first) & (positions <= last)
            if not inside.all():
                vectors, positions = vectors[inside], positions[inside]
                conversation_ids = conversation_ids[inside]
        if not len(positions):
            return []
        one = np.frombuffer(vector, dtype=VECTOR_TYPE).astype(np.float32)
        # Not `@`: that has a thread for each core and waits for all of them, which takes forty times as long
        # on a machine whose cores are busy.
        scores = np.einsum("ij,j->i", vectors, one)
        best = np.arange(len(scores))
        if limit < len(scores):
            best = np.argpartition(scores, -limit)[-limit:]
        # The last key counts first.
        order = best[np.lexsort((-positions[best], -scores[best]))]
        found = zip(conversation_ids[order], positions[order], scores[order], strict=True)
        return [RowHit(int(number), int(position), float(score)) for number, position, score in found]

    def _make_rows(self, room: int) -> _Rows:
        room = max(room, _FIRST_ROWS)
        vectors = np.empty((room, self.dimensions), dtype=np.float32)
        return _Rows(0, vectors, np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64))
