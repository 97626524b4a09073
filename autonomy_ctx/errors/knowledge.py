"""Why knowledge could not be added, searched or read."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class KnowledgeError(AutonomyCtxError):
    """A knowledge base could not be searched or changed."""

    def __init__(self, knowledge: str, problem: str) -> None:
        super().__init__(f"knowledge `{knowledge}` {problem}")
        self.knowledge, self.problem = knowledge, problem


class InvalidDocument(KnowledgeError, ValueError):
    """A text or file that cannot be added; nothing was changed."""

    def __init__(self, source: str, problem: str) -> None:
        AutonomyCtxError.__init__(self, f"document {source!r} {problem}; nothing was added")
        self.source, self.problem = source, problem


class InvalidPassage(KnowledgeError, TypeError):
    """A knowledge base answered with something that is no passage."""

    def __init__(self, problem: str) -> None:
        AutonomyCtxError.__init__(
            self, f"{problem}; give a list of passages, texts, or dicts with `text` or `content`"
        )
        self.problem = problem


class InvalidVectors(KnowledgeError, ValueError):
    """An embedder gave vectors that cannot be compared."""

    def __init__(self, problem: str) -> None:
        AutonomyCtxError.__init__(
            self,
            f"the embedder {problem}; it must give one list of finite numbers per text, all equally long",
        )
        self.problem = problem
