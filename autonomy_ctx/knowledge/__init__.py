"""Knowledge bases: passages of documents, found by words, by meaning, or by both."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "Embedder": "autonomy_ctx.embedders",
    "FusedKnowledge": "autonomy_ctx.knowledge.fused",
    "HttpEmbedder": "autonomy_ctx.knowledge.embedders",
    "InProcessVectorStore": "autonomy_ctx.knowledge.vector",
    "Knowledge": "autonomy_ctx.knowledge.knowledge",
    "Passage": "autonomy_ctx.knowledge.knowledge",
    "TextKnowledge": "autonomy_ctx.knowledge.text",
    "VectorHit": "autonomy_ctx.knowledge.vector",
    "VectorKnowledgeBase": "autonomy_ctx.knowledge.vector",
    "VectorStore": "autonomy_ctx.knowledge.vector",
}

if TYPE_CHECKING:
    from autonomy_ctx.embedders import Embedder
    from autonomy_ctx.knowledge.embedders import HttpEmbedder
    from autonomy_ctx.knowledge.fused import FusedKnowledge
    from autonomy_ctx.knowledge.knowledge import Knowledge, Passage
    from autonomy_ctx.knowledge.text import TextKnowledge
    from autonomy_ctx.knowledge.vector import (
        InProcessVectorStore,
        VectorHit,
        VectorKnowledgeBase,
        VectorStore,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "Embedder",
    "FusedKnowledge",
    "HttpEmbedder",
    "InProcessVectorStore",
    "Knowledge",
    "Passage",
    "TextKnowledge",
    "VectorHit",
    "VectorKnowledgeBase",
    "VectorStore",
]
