"""Decides, turn by turn, what an agent's model sees, and shows where each token came from."""

from autonomy_ctx.errors import (
    AutonomyCtxError,
    ConflictingMessage,
    InvalidKey,
    InvalidMessage,
    MessageTooLarge,
    SchemaTooNew,
    SectionError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from autonomy_ctx.items.calibration import Calibration
from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.cuts import (
    find_safe_trim_count,
    find_tool_pair_boundary,
    get_tool_result_id,
    get_tool_use_ids,
    safe_cuts,
    validate_tool_pairing,
)
from autonomy_ctx.items.events import AgentConfigUpdate, AgentHandoff, DirectMessage
from autonomy_ctx.items.exact import ExactText
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.parts import ImageContent, TextContent, ThinkingContent
from autonomy_ctx.items.summary import Segment, Summary
from autonomy_ctx.items.tokens import TextCounter, TokenCounter
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Draft, Entry, Head, Log, Store, Window
from autonomy_ctx.sections.additional import AdditionalContextSection
from autonomy_ctx.sections.framework import FrameworkInstructionsSection
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.sections.instructions import SystemInstructionsSection
from autonomy_ctx.sections.section import ContextSection, ContributingSection, Contribution, Omission, Section
from autonomy_ctx.template.composed import ComposedContext, Origin, SectionReport, SharedPrefix
from autonomy_ctx.template.defaults import create_default_template
from autonomy_ctx.template.template import ContextTemplate

__all__ = [
    "AdditionalContextSection",
    "AgentConfigUpdate",
    "AgentHandoff",
    "AutonomyCtxError",
    "Calibration",
    "ChatRole",
    "ComposedContext",
    "ConflictingMessage",
    "ContextSection",
    "ContextTemplate",
    "ContributingSection",
    "Contribution",
    "ConversationHistorySection",
    "DirectMessage",
    "Draft",
    "Entry",
    "ExactText",
    "FrameworkInstructionsSection",
    "Head",
    "ImageContent",
    "InvalidKey",
    "InvalidMessage",
    "Log",
    "Memory",
    "Message",
    "MessageTooLarge",
    "Omission",
    "Origin",
    "SchemaTooNew",
    "Section",
    "SectionError",
    "SectionReport",
    "Segment",
    "SharedPrefix",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "Summary",
    "SystemInstructionsSection",
    "TextContent",
    "TextCounter",
    "ThinkingContent",
    "TokenCounter",
    "ToolCall",
    "Window",
    "create_default_template",
    "find_safe_trim_count",
    "find_tool_pair_boundary",
    "get_tool_result_id",
    "get_tool_use_ids",
    "safe_cuts",
    "validate_tool_pairing",
]
