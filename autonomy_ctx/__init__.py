"""Decides, turn by turn, what an agent's model sees, and shows where each token came from."""

import logging

from autonomy_ctx.background import Background
from autonomy_ctx.compaction.config import ContextSummaryConfig
from autonomy_ctx.compaction.strategies import ClearToolResults, Pipeline, SummarizeOldest, TruncateOldest
from autonomy_ctx.compaction.summarizer import SummaryEvent, SummaryHook
from autonomy_ctx.containers.chat import ChatContext
from autonomy_ctx.containers.chat_view import ChatView
from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPool, ContextPoolHook
from autonomy_ctx.containers.pool_view import ContextPoolView
from autonomy_ctx.containers.queue import ContextQueue, ContextQueueHook
from autonomy_ctx.containers.runtime import (
    Compact,
    Runtime,
    get_context,
    get_runtime,
    new_context,
    no_context,
)
from autonomy_ctx.errors import (
    AuthenticationFailed,
    AutonomyCtxError,
    ConflictingMessage,
    ContextOverflow,
    HookError,
    InvalidContainer,
    InvalidContextFile,
    InvalidItem,
    InvalidKey,
    InvalidMessage,
    InvalidModelReply,
    LimitNotMet,
    MessageTooLarge,
    MissingKey,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    SchemaTooNew,
    SectionError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    SummaryFailed,
    UnknownItem,
    UnregisteredHookError,
)
from autonomy_ctx.hooks import HookRegistry, hook
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
from autonomy_ctx.items.formats.reply import (
    CallStarted,
    Finished,
    ModelReply,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.parts import ImageContent, TextContent, ThinkingContent
from autonomy_ctx.items.summary import Segment, Summary
from autonomy_ctx.items.tokens import TextCounter, TokenCounter
from autonomy_ctx.items.wire import item_from_dict, item_to_dict
from autonomy_ctx.memory.key import Key
from autonomy_ctx.memory.memory import Memory, MemoryHook
from autonomy_ctx.memory.segments import StoredSegment, Summaries, SummaryState
from autonomy_ctx.memory.store import Draft, Entry, Head, Log, Store, Window
from autonomy_ctx.memory.work import Lease, Work
from autonomy_ctx.models.model import Model
from autonomy_ctx.sections.additional import AdditionalContextSection
from autonomy_ctx.sections.framework import FrameworkInstructionsSection
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.sections.instructions import SystemInstructionsSection
from autonomy_ctx.sections.section import ContextSection, ContributingSection, Contribution, Omission, Section
from autonomy_ctx.sections.shelves import PoolSection, QueueSection
from autonomy_ctx.sections.summarized import SummarizedHistorySection
from autonomy_ctx.template.composed import ComposedContext, Origin, SectionReport, SharedPrefix
from autonomy_ctx.template.defaults import create_default_template
from autonomy_ctx.template.template import ContextTemplate, TemplateHook

# An application decides where logs go; without this, Python prints warnings by itself.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AdditionalContextSection",
    "AgentConfigUpdate",
    "AgentHandoff",
    "AuthenticationFailed",
    "AutonomyCtxError",
    "Background",
    "Calibration",
    "CallStarted",
    "ChatContext",
    "ChatRole",
    "ChatView",
    "ClearToolResults",
    "Compact",
    "ComposedContext",
    "ConflictingMessage",
    "Context",
    "ContextItem",
    "ContextOverflow",
    "ContextPool",
    "ContextPoolHook",
    "ContextPoolView",
    "ContextQueue",
    "ContextQueueHook",
    "ContextSection",
    "ContextSummaryConfig",
    "ContextTemplate",
    "ContributingSection",
    "Contribution",
    "ConversationHistorySection",
    "DirectMessage",
    "Draft",
    "Entry",
    "ExactText",
    "Finished",
    "FrameworkInstructionsSection",
    "Head",
    "HookError",
    "HookRegistry",
    "ImageContent",
    "InvalidContainer",
    "InvalidContextFile",
    "InvalidItem",
    "InvalidKey",
    "InvalidMessage",
    "InvalidModelReply",
    "Key",
    "Lease",
    "LimitNotMet",
    "Log",
    "Memory",
    "MemoryHook",
    "Message",
    "MessageTooLarge",
    "MissingKey",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelTimeout",
    "ModelUnavailable",
    "Omission",
    "Origin",
    "Pipeline",
    "PoolSection",
    "QueueSection",
    "RateLimited",
    "Runtime",
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
    "StoredSegment",
    "Summaries",
    "SummarizeOldest",
    "SummarizedHistorySection",
    "Summary",
    "SummaryEvent",
    "SummaryFailed",
    "SummaryHook",
    "SummaryState",
    "SystemInstructionsSection",
    "TemplateHook",
    "TextContent",
    "TextCounter",
    "TextDelta",
    "ThinkingContent",
    "ThinkingDelta",
    "TokenCounter",
    "ToolCall",
    "TruncateOldest",
    "UnknownItem",
    "UnregisteredHookError",
    "Usage",
    "Window",
    "Work",
    "create_default_template",
    "find_safe_trim_count",
    "find_tool_pair_boundary",
    "get_context",
    "get_runtime",
    "get_tool_result_id",
    "get_tool_use_ids",
    "hook",
    "item_from_dict",
    "item_to_dict",
    "new_context",
    "no_context",
    "safe_cuts",
    "validate_tool_pairing",
]
