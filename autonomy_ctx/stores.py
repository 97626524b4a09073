"""The store, the values for authors of stores, and the values that reads of a memory return."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.memory.facts": "ConversationFacts",
    "autonomy_ctx.memory.outline": "ConversationOutline DueTask FactEnd MessageMark SegmentVersion",
    "autonomy_ctx.memory.profile": "ProfileEntry ScopeProfile",
    "autonomy_ctx.memory.recall_block": "RecallHit RecallReason RecallResult",
    "autonomy_ctx.memory.registry": "StoreOptions register_store",
    "autonomy_ctx.memory.sql.store": "Store",
    "autonomy_ctx.memory.store": (
        "AppendResult ConversationInfo Draft Entry Head IndexedMessage Key Lease Pin ProfileFact Record "
        "SearchHit StoredSegment SummaryState TurnStart TurnToken Window"
    ),
    "autonomy_ctx.memory.transfer": "CopyProgress CopyReport copy_memory",
    "autonomy_ctx.messages.fact": "Fact FactChange",
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
    from autonomy_ctx.memory.facts import ConversationFacts as ConversationFacts
    from autonomy_ctx.memory.outline import ConversationOutline as ConversationOutline
    from autonomy_ctx.memory.outline import DueTask as DueTask
    from autonomy_ctx.memory.outline import FactEnd as FactEnd
    from autonomy_ctx.memory.outline import MessageMark as MessageMark
    from autonomy_ctx.memory.outline import SegmentVersion as SegmentVersion
    from autonomy_ctx.memory.profile import ProfileEntry as ProfileEntry
    from autonomy_ctx.memory.profile import ScopeProfile as ScopeProfile
    from autonomy_ctx.memory.recall_block import RecallHit as RecallHit
    from autonomy_ctx.memory.recall_block import RecallReason as RecallReason
    from autonomy_ctx.memory.recall_block import RecallResult as RecallResult
    from autonomy_ctx.memory.registry import StoreOptions as StoreOptions
    from autonomy_ctx.memory.registry import register_store as register_store
    from autonomy_ctx.memory.sql.store import Store as Store
    from autonomy_ctx.memory.store import AppendResult as AppendResult
    from autonomy_ctx.memory.store import ConversationInfo as ConversationInfo
    from autonomy_ctx.memory.store import Draft as Draft
    from autonomy_ctx.memory.store import Entry as Entry
    from autonomy_ctx.memory.store import Head as Head
    from autonomy_ctx.memory.store import IndexedMessage as IndexedMessage
    from autonomy_ctx.memory.store import Key as Key
    from autonomy_ctx.memory.store import Lease as Lease
    from autonomy_ctx.memory.store import Pin as Pin
    from autonomy_ctx.memory.store import ProfileFact as ProfileFact
    from autonomy_ctx.memory.store import Record as Record
    from autonomy_ctx.memory.store import SearchHit as SearchHit
    from autonomy_ctx.memory.store import StoredSegment as StoredSegment
    from autonomy_ctx.memory.store import SummaryState as SummaryState
    from autonomy_ctx.memory.store import TurnStart as TurnStart
    from autonomy_ctx.memory.store import TurnToken as TurnToken
    from autonomy_ctx.memory.store import Window as Window
    from autonomy_ctx.memory.transfer import CopyProgress as CopyProgress
    from autonomy_ctx.memory.transfer import CopyReport as CopyReport
    from autonomy_ctx.memory.transfer import copy_memory as copy_memory
    from autonomy_ctx.messages.fact import Fact as Fact
    from autonomy_ctx.messages.fact import FactChange as FactChange
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES, _FORMER_NAMES)
