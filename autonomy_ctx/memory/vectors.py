"""The protocol of a store that keeps vectors, and its values.

A store with this protocol finds messages by meaning. It is optional and not part of `Store`. `VectorIndex`
computes the vectors, a block at a time. The progress of each conversation is stored with each block, so that
any process can continue. `autonomy_ctx.testing.VectorsContract` tests a store against the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

from autonomy_ctx.formats.outgoing import replace_surrogates
from autonomy_ctx.language.words import text_ends
from autonomy_ctx.memory.search_text import row_text
from autonomy_ctx.memory.store import Key, SearchHit

# Of a long message the beginning and the end are embedded, this many characters of each: about 500 tokens in
# all, which every embedder takes.
EMBEDDED_END_CHARACTERS = 1_000
# How a number of a vector is kept: two bytes, the smaller first.
VECTOR_TYPE = "<f2"
BYTES_PER_NUMBER = 2


class UnembeddedText(NamedTuple):
    """A message without a vector: where it stands, its id, and the text to embed."""

    position: int
    message_id: str
    text: str


class EmbeddingBlock(NamedTuple):
    """The messages of a conversation from after `start` to `end`; those before have been embedded."""

    key: Key
    start: int
    end: int
    texts: tuple[UnembeddedText, ...]


class MessageVector(NamedTuple):
    """The vector of a message, of length 1, as bytes of half-precision numbers."""

    position: int
    message_id: str
    vector: bytes


class VectorBlock(NamedTuple):
    """The vectors of a block of texts. A message without text has no vector."""

    key: Key
    start: int
    end: int
    vectors: tuple[MessageVector, ...]


@runtime_checkable
class Vectors(Protocol):
    """Stores a vector for each message. A fork uses the vectors of the messages that it shares.

    One embedder is active, under a number that is never used again. A vector is deleted with its message, in
    the same transaction.
    """

    async def use_embedder(self, name: str, dimensions: int) -> int:
        """Make an embedder the active one and return its number. Vectors of another embedder are deleted."""

    async def read_unembedded(
        self, agent: str, scope: str, *, embedder: int, conversation: str | None = None, limit: int
    ) -> list[EmbeddingBlock] | None:
        """The next blocks without vectors, at most `limit` messages; empty if all have vectors.

        The blocks of a conversation contain only its own messages. Returns None if the embedder is not
        active.
        """

    async def put_vectors(self, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
        """Store vectors and the progress; false, and nothing is stored, if the embedder is not active.

        A deleted message gets no vector. A block that another process has stored is left out.
        """

    async def nearest(
        self,
        agent: str,
        scope: str,
        vector: bytes,
        *,
        embedder: int,
        conversation: str | None = None,
        limit: int,
    ) -> list[SearchHit]:
        """The messages of a scope with an agent, or of one conversation, nearest in meaning; best first.

        The score is the cosine. Empty if the embedder is not active.
        """


def make_embedding_block(
    key: Key, start: int, head: int, rows: Sequence[tuple[int, str, int, int, str, str]], limit: int
) -> EmbeddingBlock:
    """A block of rows after `start`; one more than `limit` was read, to know if there are more."""
    texts = tuple(UnembeddedText(row[0], row[1], embedded_text(row_text(*row))) for row in rows[:limit])
    # What was appended since the head was read is for the next time, unless it is in the block.
    end = texts[-1].position if len(rows) > limit else max(head, texts[-1].position if texts else 0)
    return EmbeddingBlock(key, start, end, texts)


def has_vectors(store: Any) -> TypeGuard[Vectors]:
    """True for a store that keeps vectors, or wraps one that does."""
    # Not `isinstance`, which does not see what a wrapper passes on through `__getattr__`.
    names = ("use_embedder", "read_unembedded", "put_vectors", "nearest")
    return all(callable(getattr(store, name, None)) for name in names)


def embedded_text(text: str) -> str:
    """The part of a text that is embedded, as every embedder can read it."""
    return replace_surrogates(text_ends(text, EMBEDDED_END_CHARACTERS)).strip()
