"""Knowledge bases: passages of documents, found by words, by meaning, or by both."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.embedders": "Embedder",
    "autonomy_ctx.knowledge.embedders": "HttpEmbedder",
    "autonomy_ctx.knowledge.fused": "FusedKnowledge",
    "autonomy_ctx.knowledge.knowledge": "Knowledge Passage",
    "autonomy_ctx.knowledge.text": "TextKnowledge",
    "autonomy_ctx.knowledge.vector": "InProcessVectorStore VectorHit VectorKnowledgeBase VectorStore",
}

if TYPE_CHECKING:
    from autonomy_ctx.embedders import Embedder as Embedder
    from autonomy_ctx.knowledge.embedders import HttpEmbedder as HttpEmbedder
    from autonomy_ctx.knowledge.fused import FusedKnowledge as FusedKnowledge
    from autonomy_ctx.knowledge.knowledge import Knowledge as Knowledge
    from autonomy_ctx.knowledge.knowledge import Passage as Passage
    from autonomy_ctx.knowledge.text import TextKnowledge as TextKnowledge
    from autonomy_ctx.knowledge.vector import InProcessVectorStore as InProcessVectorStore
    from autonomy_ctx.knowledge.vector import VectorHit as VectorHit
    from autonomy_ctx.knowledge.vector import VectorKnowledgeBase as VectorKnowledgeBase
    from autonomy_ctx.knowledge.vector import VectorStore as VectorStore
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
