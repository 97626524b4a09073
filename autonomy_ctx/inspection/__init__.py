"""Reports for people: turns, conversations and messages as values, read from a memory without an agent."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "ConversationReport": "autonomy_ctx.inspection.conversation",
    "FactReport": "autonomy_ctx.inspection.conversation",
    "MessageDiff": "autonomy_ctx.inspection.diff",
    "MessagePage": "autonomy_ctx.inspection.message",
    "MessageReport": "autonomy_ctx.inspection.message",
    "PartReport": "autonomy_ctx.inspection.message",
    "PinReport": "autonomy_ctx.inspection.conversation",
    "SectionDiff": "autonomy_ctx.inspection.diff",
    "SectionTokens": "autonomy_ctx.inspection.turn",
    "SegmentReport": "autonomy_ctx.inspection.conversation",
    "SummaryWork": "autonomy_ctx.inspection.conversation",
    "Timeline": "autonomy_ctx.inspection.timeline",
    "TimelinePoint": "autonomy_ctx.inspection.timeline",
    "TimelineSegment": "autonomy_ctx.inspection.timeline",
    "ToolCallReport": "autonomy_ctx.inspection.message",
    "TurnCost": "autonomy_ctx.inspection.turn",
    "TurnDiff": "autonomy_ctx.inspection.diff",
    "TurnInfo": "autonomy_ctx.inspection.turn",
    "TurnMessage": "autonomy_ctx.inspection.turn",
    "TurnReport": "autonomy_ctx.inspection.turn",
    "TurnSection": "autonomy_ctx.inspection.turn",
    "TurnThinking": "autonomy_ctx.inspection.turn",
    "diff_turns": "autonomy_ctx.inspection.diff",
    "inspect_conversation": "autonomy_ctx.inspection.conversation",
    "inspect_timeline": "autonomy_ctx.inspection.timeline",
    "inspect_turn": "autonomy_ctx.inspection.turn",
    "list_turns": "autonomy_ctx.inspection.turn",
    "read_facts": "autonomy_ctx.inspection.conversation",
    "read_message": "autonomy_ctx.inspection.message",
    "read_messages": "autonomy_ctx.inspection.message",
}

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

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
