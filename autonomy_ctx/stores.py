"""The store, the values for authors of stores, and the values that reads of a memory return."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "ConversationFacts": "autonomy_ctx.memory.facts",
    "ConversationInfo": "autonomy_ctx.memory.store",
    "ConversationOutline": "autonomy_ctx.memory.outline",
    "CopyProgress": "autonomy_ctx.memory.transfer",
    "CopyReport": "autonomy_ctx.memory.transfer",
    "Draft": "autonomy_ctx.memory.store",
    "Entry": "autonomy_ctx.memory.store",
    "Fact": "autonomy_ctx.messages.fact",
    "FactChange": "autonomy_ctx.messages.fact",
    "FactEnd": "autonomy_ctx.memory.outline",
    "Head": "autonomy_ctx.memory.store",
    "IndexedMessage": "autonomy_ctx.memory.store",
    "Key": "autonomy_ctx.memory.store",
    "Lease": "autonomy_ctx.memory.store",
    "MessageMark": "autonomy_ctx.memory.outline",
    "DueTask": "autonomy_ctx.memory.outline",
    "Pin": "autonomy_ctx.memory.store",
    "ProfileEntry": "autonomy_ctx.memory.profile",
    "ProfileFact": "autonomy_ctx.memory.store",
    "RecallHit": "autonomy_ctx.memory.recall_block",
    "RecallReason": "autonomy_ctx.memory.recall_block",
    "RecallResult": "autonomy_ctx.memory.recall_block",
    "Record": "autonomy_ctx.memory.store",
    "ScopeProfile": "autonomy_ctx.memory.profile",
    "SearchHit": "autonomy_ctx.memory.store",
    "SegmentVersion": "autonomy_ctx.memory.outline",
    "Store": "autonomy_ctx.memory.sql.store",
    "StoreOptions": "autonomy_ctx.memory.registry",
    "StoredSegment": "autonomy_ctx.memory.store",
    "SummaryState": "autonomy_ctx.memory.store",
    "TurnToken": "autonomy_ctx.memory.store",
    "TurnStart": "autonomy_ctx.memory.store",
    "Window": "autonomy_ctx.memory.store",
    "copy_memory": "autonomy_ctx.memory.transfer",
    "register_store": "autonomy_ctx.memory.registry",
}

# A store had a protocol for each of these.
_PARTS = (
    *(
        "Facts",
        "Forks",
        "InMemory",
        "IndexedMessageReader",
        "Listing",
        "Log",
        "OutlineReader",
        "ProfileFacts",
    ),
    *("Records", "Search", "Summaries", "Turns", "Vectors", "Work"),
)
_FORMER_NAMES = {
    "OwedWork": "autonomy_ctx.stores:DueTask",
    "TurnHold": "autonomy_ctx.stores:TurnToken",
    **dict.fromkeys(_PARTS, "autonomy_ctx.stores:Store"),
}

if TYPE_CHECKING:
    from autonomy_ctx.memory.facts import ConversationFacts
    from autonomy_ctx.memory.outline import (
        ConversationOutline,
        DueTask,
        FactEnd,
        MessageMark,
        SegmentVersion,
    )
    from autonomy_ctx.memory.profile import ProfileEntry, ScopeProfile
    from autonomy_ctx.memory.recall_block import RecallHit, RecallReason, RecallResult
    from autonomy_ctx.memory.registry import StoreOptions, register_store
    from autonomy_ctx.memory.sql.store import Store
    from autonomy_ctx.memory.store import (
        ConversationInfo,
        Draft,
        Entry,
        Head,
        IndexedMessage,
        Key,
        Lease,
        Pin,
        ProfileFact,
        Record,
        SearchHit,
        StoredSegment,
        SummaryState,
        TurnStart,
        TurnToken,
        Window,
    )
    from autonomy_ctx.memory.transfer import CopyProgress, CopyReport, copy_memory
    from autonomy_ctx.messages.fact import Fact, FactChange
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, _FORMER_NAMES)

__all__ = [
    "ConversationFacts",
    "ConversationInfo",
    "ConversationOutline",
    "CopyProgress",
    "CopyReport",
    "Draft",
    "DueTask",
    "Entry",
    "Fact",
    "FactChange",
    "FactEnd",
    "Head",
    "IndexedMessage",
    "Key",
    "Lease",
    "MessageMark",
    "Pin",
    "ProfileEntry",
    "ProfileFact",
    "RecallHit",
    "RecallReason",
    "RecallResult",
    "Record",
    "ScopeProfile",
    "SearchHit",
    "SegmentVersion",
    "Store",
    "StoreOptions",
    "StoredSegment",
    "SummaryState",
    "TurnStart",
    "TurnToken",
    "Window",
    "copy_memory",
    "register_store",
]
