"""`VectorRows`: the vectors of the in-process store, a matrix for each scope of an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autonomy_ctx.memory.conversation_log import ConversationLog, LogRange
from autonomy_ctx.memory.search_text import RowHit, searchable_text
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.vector_matrix import VectorMatrix
from autonomy_ctx.memory.vectors import EmbeddingBlock, UnembeddedText, VectorBlock, embedded_text


class VectorRows:
    """The vectors that one embedder made, and how far each conversation has come."""

    def __init__(self) -> None:
        self.embedder = 0
        self._name, self._dimensions = "", 0
        self._matrices: dict[tuple[str, str], VectorMatrix] = {}
        self._keys: list[Key] = []
        self._numbers: dict[Key, int] = {}
        self._progress: dict[Key, int] = {}

    def use_embedder(self, name: str, dimensions: int) -> int:
        """Make an embedder the active one; vectors of another embedder are deleted."""
        if (name, dimensions) != (self._name, self._dimensions):
            self.embedder += 1
            self._name, self._dimensions = name, dimensions
            self._matrices, self._progress = {}, {}
        return self.embedder

    def read_unembedded(self, logs: Iterable[ConversationLog], limit: int) -> list[EmbeddingBlock]:
        """The next blocks without vectors."""
        blocks: list[EmbeddingBlock] = []
        for log in logs:
            start = self._progress.get(log.key, 0)
            if start >= log.head.position or limit <= 0:
                continue
            new = log.after(start)
            texts = tuple(
                UnembeddedText(
                    entry.position, entry.message.id, embedded_text(searchable_text(entry.message))
                )
                for entry in new[:limit]
            )
            end = log.head.position if len(new) <= limit else texts[-1].position
            limit -= len(texts)
            blocks.append(EmbeddingBlock(log.key, start, end, texts))
        return blocks

    def put(self, block: VectorBlock, log: ConversationLog) -> None:
        """Store the vectors of a block, unless they are already stored."""
        key = block.key
        if self._progress.get(key, 0) != block.start:
            return
        self._progress[key] = block.end
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        matrix = self._matrices.setdefault((key.agent, key.scope), VectorMatrix(self._dimensions))
        # A position is never used again, so what is there under the same id is the same message.
        own = [one for one in block.vectors if log.positions.get(one.message_id) == one.position]
        matrix.add([(self._numbers[key], one.position, one.vector) for one in own])

    def remove(self, key: Key, positions: Iterable[int] | None = None) -> None:
        """Delete the vectors of deleted messages."""
        matrix, number = self._matrices.get((key.agent, key.scope)), self._numbers.get(key)
        if matrix is not None and number is not None:
            matrix.remove(number, positions)

    def searcher(
        self, agent: str, scope: str, vector: bytes, limit: int, ranges: Sequence[LogRange] | None
    ) -> Callable[[], list[RowHit]]:
        """A function that finds the nearest, in a scope or in ranges of its logs; it may run in a thread."""
        matrix = self._matrices.get((agent, scope))
        if matrix is None:
            return list
        known = None
        if ranges is not None:
            known = [
                (self._numbers[one.log.key], one.first, one.last)
                for one in ranges
                if one.log.key in self._numbers
            ]
        return lambda: matrix.nearest(vector, limit, known)

    def key_of(self, found: RowHit) -> Key:
        """Whose message was found."""
        return self._keys[found.conversation_id]
