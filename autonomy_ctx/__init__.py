"""Decides, turn by turn, what an agent's model sees, and shows where each token came from."""

import logging

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.agents.options import AgentHook, TurnLimits
from autonomy_ctx.agents.reply import AgentReply, AgentStream, ToolAnswered, TurnEnded
from autonomy_ctx.agents.tool_runner import Turn
from autonomy_ctx.background import Background
from autonomy_ctx.compaction.config import ContextSummaryConfig
from autonomy_ctx.compaction.strategies import ClearToolResults, Pipeline, SummarizeOldest, TruncateOldest
from autonomy_ctx.compaction.summarizer import SummaryEvent, SummaryHook
from autonomy_ctx.compaction.swap_policy import SwapChoice
from autonomy_ctx.containers.chat import ChatContext, ChatView
from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPool, ContextPoolHook, ContextPoolView
from autonomy_ctx.containers.queue import ContextQueue, ContextQueueHook
from autonomy_ctx.containers.recording import record_model_call
from autonomy_ctx.containers.runtime import (
    Compact,
    Runtime,
    get_context,
    get_runtime,
    new_context,
    no_context,
)
from autonomy_ctx.errors import (
    AddressUnavailable,
    AgentClosed,
    AuthenticationFailed,
    AutonomyCtxError,
    BudgetExceeded,
    ConflictingMessage,
    ContextOverflow,
    FileRefused,
    HookError,
    InvalidAgent,
    InvalidArguments,
    InvalidContainer,
    InvalidContextFile,
    InvalidDocument,
    InvalidItem,
    InvalidKey,
    InvalidMessage,
    InvalidModelReply,
    InvalidPassage,
    InvalidRange,
    InvalidResult,
    InvalidTool,
    InvalidVectors,
    KnowledgeError,
    LimitNotMet,
    MailboxFull,
    MessageTooLarge,
    MissingKey,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    SchemaTooNew,
    SectionError,
    ServerError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    SubagentError,
    SummaryFailed,
    ToolTimeout,
    TurnWithinTurn,
    UnknownAgent,
    UnknownItem,
    UnknownTool,
    UnknownTurn,
    UnregisteredHookError,
    UnregisteredToolError,
    UserMessageMissing,
)
from autonomy_ctx.hooks import HookRegistry, hook
from autonomy_ctx.items.cuts import (
    find_safe_trim_count,
    find_tool_pair_boundary,
    get_tool_result_id,
    get_tool_use_ids,
    safe_cuts,
    validate_tool_pairing,
)
from autonomy_ctx.items.events import AgentConfigUpdate, AgentHandoff, DirectMessage
from autonomy_ctx.items.formats.base import CallStarted, Finished, ModelReply, TextDelta, ThinkingDelta, Usage
from autonomy_ctx.items.message import ChatRole, ImageContent, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.items.summary import Segment, Summary
from autonomy_ctx.items.tokens import Calibration, ExactTextCounter, TextCounter, TokenCounter
from autonomy_ctx.items.wire import item_from_dict, item_to_dict
from autonomy_ctx.knowledge.embedders import Embedder, HttpEmbedder
from autonomy_ctx.knowledge.fused import FusedKnowledge
from autonomy_ctx.knowledge.knowledge import Knowledge, Passage
from autonomy_ctx.knowledge.text import TextKnowledge
from autonomy_ctx.knowledge.vector import InProcessVectorStore, VectorHit, VectorKnowledgeBase, VectorStore
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.memory import Memory, MemoryHook
from autonomy_ctx.memory.recall import RecallHit, RecallResult, recall
from autonomy_ctx.memory.store import (
    Draft,
    Entry,
    Head,
    IndexedMessage,
    IndexedMessageReader,
    Key,
    Lease,
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
from autonomy_ctx.models.catalog import Price, estimate_cost, price_of
from autonomy_ctx.models.model import Model
from autonomy_ctx.sections.additional import AdditionalContextSection
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.sections.inbox import InboxSection
from autonomy_ctx.sections.instructions import (
    FrameworkInstructionsSection,
    SystemInstructionsSection,
    ToolInstructionsSection,
)
from autonomy_ctx.sections.knowledge import KnowledgeSection
from autonomy_ctx.sections.queue_and_pool import PoolSection, QueueSection
from autonomy_ctx.sections.recall import RecallSection
from autonomy_ctx.sections.section import ContextSection, ContributingSection, Contribution, Omission, Section
from autonomy_ctx.sections.summarized import SummarizedHistorySection
from autonomy_ctx.template.cache_order import CacheWarning
from autonomy_ctx.template.composed import (
    BudgetReport,
    ComposedContext,
    Cut,
    Origin,
    SectionReport,
    SharedPrefix,
)
from autonomy_ctx.template.defaults import create_default_template
from autonomy_ctx.template.task_context import (
    EventBus,
    EventBusContextSource,
    MemoryContextSource,
    Task,
    TaskContextManager,
    events_to_messages,
)
from autonomy_ctx.template.template import ContextTemplate, TemplateHook
from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input
from autonomy_ctx.tools.builtin.files import filesystem_tools
from autonomy_ctx.tools.builtin.lookup import knowledge_tool, read_context_item
from autonomy_ctx.tools.builtin.recall import memory_tools, recall_tools
from autonomy_ctx.tools.builtin.time import get_current_time, get_current_time_utc, time_tools
from autonomy_ctx.tools.tool import Tool, ToolRegistry, tool

# An application decides where logs go; without this, Python prints warnings by itself.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AdditionalContextSection",
    "AddressUnavailable",
    "Agent",
    "AgentClosed",
    "AgentConfigUpdate",
    "AgentHandoff",
    "AgentHook",
    "AgentReply",
    "AgentStream",
    "AuthenticationFailed",
    "AutonomyCtxError",
    "Background",
    "BudgetExceeded",
    "BudgetReport",
    "CacheWarning",
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
    "Cut",
    "DirectMessage",
    "Draft",
    "Embedder",
    "Entry",
    "EventBus",
    "EventBusContextSource",
    "ExactTextCounter",
    "FileRefused",
    "Finished",
    "FrameworkInstructionsSection",
    "FusedKnowledge",
    "Head",
    "HookError",
    "HookRegistry",
    "HttpEmbedder",
    "ImageContent",
    "InProcessVectorStore",
    "InboxSection",
    "IndexedMessage",
    "IndexedMessageReader",
    "InvalidAgent",
    "InvalidArguments",
    "InvalidContainer",
    "InvalidContextFile",
    "InvalidDocument",
    "InvalidItem",
    "InvalidKey",
    "InvalidMessage",
    "InvalidModelReply",
    "InvalidPassage",
    "InvalidRange",
    "InvalidResult",
    "InvalidTool",
    "InvalidVectors",
    "Key",
    "Knowledge",
    "KnowledgeError",
    "KnowledgeSection",
    "Lease",
    "LimitNotMet",
    "Log",
    "Mailbox",
    "MailboxFull",
    "Memory",
    "MemoryContextSource",
    "MemoryHook",
    "Message",
    "MessageTooLarge",
    "MissingKey",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelTimeout",
    "ModelUnavailable",
    "Node",
    "Omission",
    "Origin",
    "Passage",
    "Pipeline",
    "PoolSection",
    "Price",
    "QueueSection",
    "RateLimited",
    "RecallHit",
    "RecallResult",
    "RecallSection",
    "Record",
    "Records",
    "Runtime",
    "SchemaTooNew",
    "Search",
    "SearchHit",
    "Section",
    "SectionError",
    "SectionReport",
    "Segment",
    "ServerError",
    "SharedPrefix",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StoredSegment",
    "SubagentError",
    "Summaries",
    "SummarizeOldest",
    "SummarizedHistorySection",
    "Summary",
    "SummaryEvent",
    "SummaryFailed",
    "SummaryHook",
    "SummaryState",
    "SwapChoice",
    "SystemInstructionsSection",
    "Task",
    "TaskContextManager",
    "TemplateHook",
    "TextContent",
    "TextCounter",
    "TextDelta",
    "TextKnowledge",
    "ThinkingContent",
    "ThinkingDelta",
    "TokenCounter",
    "Tool",
    "ToolAnswered",
    "ToolCall",
    "ToolInstructionsSection",
    "ToolRegistry",
    "ToolTimeout",
    "TruncateOldest",
    "Turn",
    "TurnEnded",
    "TurnLimits",
    "TurnWithinTurn",
    "UnknownAgent",
    "UnknownItem",
    "UnknownTool",
    "UnknownTurn",
    "UnregisteredHookError",
    "UnregisteredToolError",
    "Usage",
    "UserMessageMissing",
    "VectorHit",
    "VectorKnowledgeBase",
    "VectorStore",
    "Window",
    "Work",
    "ask_user_for_input",
    "create_default_template",
    "estimate_cost",
    "events_to_messages",
    "filesystem_tools",
    "find_safe_trim_count",
    "find_tool_pair_boundary",
    "get_context",
    "get_current_time",
    "get_current_time_utc",
    "get_runtime",
    "get_tool_result_id",
    "get_tool_use_ids",
    "hook",
    "item_from_dict",
    "item_to_dict",
    "knowledge_tool",
    "memory_tools",
    "new_context",
    "no_context",
    "price_of",
    "read_context_item",
    "recall",
    "recall_tools",
    "record_model_call",
    "safe_cuts",
    "time_tools",
    "tool",
    "validate_tool_pairing",
]
