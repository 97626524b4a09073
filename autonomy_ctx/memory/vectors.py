"""The values by which a store keeps a vector for each message.

`VectorIndex` computes the vectors, a block at a time. The progress of each conversation is stored with each
block, so that any process can continue. A vector is deleted with its message, in the same transaction; a fork
uses the vectors of the messages that it shares. One embedder is active, under a number that is never used
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autonomy_ctx.formats.outgoing import replace_surrogates
from autonomy_ctx.language.words import text_ends
from autonomy_ctx.memory.search_text import row_text
from autonomy_ctx.memory.store import Key

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


def make_embedding_block(
    key: Key, start: int, head: int, rows: Sequence[tuple[int, str, int, int, str, str]], limit: int
) -> EmbeddingBlock:
    """A block of rows after `start`; one more than `limit` was read, to know if there are more."""
    texts = tuple(UnembeddedText(row[0], row[1], embedded_text(row_text(*row))) for row in rows[:limit])
    # What was appended since the head was read is for the next time, unless it is in the block.
    end = texts[-1].position if len(rows) > limit else max(head, texts[-1].position if texts else 0)
    return EmbeddingBlock(key, start, end, texts)


def embedded_text(text: str) -> str:
    """The part of a text that is embedded, as every embedder can read it."""
    return replace_surrogates(text_ends(text, EMBEDDED_END_CHARACTERS)).strip()
