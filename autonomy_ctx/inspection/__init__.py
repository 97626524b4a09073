"""Reports for people: turns, conversations and messages as values, read from a memory without an agent."""

from autonomy_ctx.inspection.conversation import (
    ConversationReport,
    FactReport,
    PinReport,
    SegmentReport,
    SummaryWork,
    inspect_conversation,
    read_facts,
)
from autonomy_ctx.inspection.diff import MessageDiff, SectionDiff, TurnDiff, diff_turns
from autonomy_ctx.inspection.message import (
    MessagePage,
    MessageReport,
    PartReport,
    ToolCallReport,
    read_message,
    read_messages,
)
from autonomy_ctx.inspection.timeline import Timeline, TimelinePoint, TimelineSegment, inspect_timeline
from autonomy_ctx.inspection.turn import (
    SectionTokens,
    TurnCost,
    TurnInfo,
    TurnMessage,
    TurnReport,
    TurnSection,
    TurnThinking,
    inspect_turn,
    list_turns,
)

__all__ = [
    "ConversationReport",
    "FactReport",
    "MessageDiff",
    "MessagePage",
    "MessageReport",
    "PartReport",
    "PinReport",
    "SectionDiff",
    "SectionTokens",
    "SegmentReport",
    "SummaryWork",
    "Timeline",
    "TimelinePoint",
    "TimelineSegment",
    "ToolCallReport",
    "TurnCost",
    "TurnDiff",
    "TurnInfo",
    "TurnMessage",
    "TurnReport",
    "TurnSection",
    "TurnThinking",
    "diff_turns",
    "inspect_conversation",
    "inspect_timeline",
    "inspect_turn",
    "list_turns",
    "read_facts",
    "read_message",
    "read_messages",
]
