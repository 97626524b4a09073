"""What a store's author needs, and what reading a memory gives back."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "ConversationFacts": "autonomy_ctx.memory.facts",
    "ConversationInfo": "autonomy_ctx.memory.store",
    "Draft": "autonomy_ctx.memory.store",
    "Entry": "autonomy_ctx.memory.store",
    "Fact": "autonomy_ctx.items.fact",
    "FactChange": "autonomy_ctx.items.fact",
    "Facts": "autonomy_ctx.memory.store",
    "Forks": "autonomy_ctx.memory.store",
    "Head": "autonomy_ctx.memory.store",
    "IndexedMessage": "autonomy_ctx.memory.store",
    "IndexedMessageReader": "autonomy_ctx.memory.store",
    "InMemory": "autonomy_ctx.memory.store",
    "Key": "autonomy_ctx.memory.store",
    "Lease": "autonomy_ctx.memory.store",
    "Listing": "autonomy_ctx.memory.store",
    "Log": "autonomy_ctx.memory.store",
    "RecallHit": "autonomy_ctx.memory.recall",
    "RecallResult": "autonomy_ctx.memory.recall",
    "Record": "autonomy_ctx.memory.store",
    "Records": "autonomy_ctx.memory.store",
    "Search": "autonomy_ctx.memory.store",
    "SearchHit": "autonomy_ctx.memory.store",
    "Store": "autonomy_ctx.memory.store",
    "StoreOptions": "autonomy_ctx.memory.registry",
    "StoredSegment": "autonomy_ctx.memory.store",
    "Summaries": "autonomy_ctx.memory.store",
    "SummaryState": "autonomy_ctx.memory.store",
    "Window": "autonomy_ctx.memory.store",
    "Work": "autonomy_ctx.memory.store",
    "register_store": "autonomy_ctx.memory.registry",
}

if TYPE_CHECKING:
    from autonomy_ctx.items.fact import Fact, FactChange
    from autonomy_ctx.memory.facts import ConversationFacts
    from autonomy_ctx.memory.recall import RecallHit, RecallResult
    from autonomy_ctx.memory.registry import StoreOptions, register_store
    from autonomy_ctx.memory.store import (
        ConversationInfo,
        Draft,
        Entry,
        Facts,
        Forks,
        Head,
        IndexedMessage,
        IndexedMessageReader,
        InMemory,
        Key,
        Lease,
        Listing,
        Log,
        Record,
        Records,
        Search,
        SearchHit,
        Store,
        StoredSegment,
        Summaries,
        SummaryState,
        Window,
        Work,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "ConversationFacts",
    "ConversationInfo",
    "Draft",
    "Entry",
    "Fact",
    "FactChange",
    "Facts",
    "Forks",
    "Head",
    "InMemory",
    "IndexedMessage",
    "IndexedMessageReader",
    "Key",
    "Lease",
    "Listing",
    "Log",
    "RecallHit",
    "RecallResult",
    "Record",
    "Records",
    "Search",
    "SearchHit",
    "Store",
    "StoreOptions",
    "StoredSegment",
    "Summaries",
    "SummaryState",
    "Window",
    "Work",
    "register_store",
]
