"""Errors of knowledge bases and embedders."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError
from autonomy_ctx.errors.stores import StoreError


class VectorsUnsupported(StoreError):
    """A memory was given an embedder, but its store cannot store vectors."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"{store} cannot store vectors, so its memory cannot have an `embedder`; add the methods of "
            f"`autonomy_ctx.stores.Vectors` to the store, or leave the embedder out"
        )
        self.store = store


class KnowledgeError(AutonomyCtxError):
    """A knowledge base could not be searched or changed."""

    def __init__(self, knowledge: str, problem: str) -> None:
        super().__init__(f"knowledge `{knowledge}` {problem}")
        self.knowledge, self.problem = knowledge, problem


class InvalidDocument(KnowledgeError, ValueError):
    """A text or file cannot be added to a knowledge base; nothing was changed."""

    def __init__(self, source: str, problem: str) -> None:
        AutonomyCtxError.__init__(self, f"document {source!r} {problem}; nothing was added")
        self.source, self.problem = source, problem


class InvalidPassage(KnowledgeError, TypeError):
    """A knowledge base returned something that is not a passage."""

    def __init__(self, problem: str) -> None:
        AutonomyCtxError.__init__(
            self, f"{problem}; return a list of passages, texts, or dicts with `text` or `content`"
        )
        self.problem = problem


class InvalidVectors(KnowledgeError, ValueError):
    """An embedder returned vectors that cannot be used."""

    def __init__(self, problem: str) -> None:
        AutonomyCtxError.__init__(
            self,
            f"the embedder {problem}; it must return one list of finite numbers per text, all of one length",
        )
        self.problem = problem


class EmbedderReplaced(AutonomyCtxError):
    """Another process uses another embedder for this memory, so the vectors of this one are not stored."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"another process now uses another embedder than {name!r} for this memory; give all processes "
            f"the same embedder, and open this memory again"
        )
        self.name = name
