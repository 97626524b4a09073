"""Decides, turn by turn, what an agent's model sees, and shows where each token came from.

The names that applications use most are here. The others are in `errors`, `stores`, `knowledge`, `tools`,
`tasks`, `tokens`, `items`, `containers`, `sections`, `template`, `compaction`, `server` and `testing`. Each
name is imported when it is first used, so that importing the package is fast.
"""

import logging
from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "AdditionalContextSection": "autonomy_ctx.sections.additional",
    "Agent": "autonomy_ctx.agents.agent",
    "AgentHook": "autonomy_ctx.agents.options",
    "AgentReply": "autonomy_ctx.agents.reply",
    "AgentStream": "autonomy_ctx.agents.reply",
    "AutonomyCtxError": "autonomy_ctx.errors",
    "BudgetExceeded": "autonomy_ctx.errors",
    "CallStarted": "autonomy_ctx.formats.base",
    "ChatContext": "autonomy_ctx.containers.chat",
    "ChatRole": "autonomy_ctx.messages.message",
    "Compact": "autonomy_ctx.containers.runtime",
    "ComposedContext": "autonomy_ctx.template.composed",
    "Context": "autonomy_ctx.containers.context",
    "ContextItem": "autonomy_ctx.containers.item",
    "ContextOverflow": "autonomy_ctx.errors",
    "ContextPool": "autonomy_ctx.containers.pool",
    "ContextPoolHook": "autonomy_ctx.containers.pool",
    "ContextQueue": "autonomy_ctx.containers.queue",
    "ContextQueueHook": "autonomy_ctx.containers.queue",
    "ContextSection": "autonomy_ctx.sections.section",
    "ContextSummaryConfig": "autonomy_ctx.compaction.config",
    "ContextTemplate": "autonomy_ctx.template.template",
    "ConversationHistorySection": "autonomy_ctx.sections.history",
    "CostLimit": "autonomy_ctx.agents.cost_limit",
    "CostLimitExceeded": "autonomy_ctx.errors",
    "FrameworkInstructionsSection": "autonomy_ctx.sections.instructions",
    "HookRegistry": "autonomy_ctx.hooks",
    "ImageContent": "autonomy_ctx.messages.message",
    "InboxSection": "autonomy_ctx.sections.inbox",
    "InvalidMessage": "autonomy_ctx.errors",
    "KnowledgeSection": "autonomy_ctx.sections.knowledge",
    "Mailbox": "autonomy_ctx.memory.mailbox",
    "Memory": "autonomy_ctx.memory.memory",
    "MemoryHook": "autonomy_ctx.memory.memory",
    "Message": "autonomy_ctx.messages.message",
    "Model": "autonomy_ctx.models.model",
    "ModelError": "autonomy_ctx.errors",
    "ModelReply": "autonomy_ctx.formats.base",
    "ModelTimeout": "autonomy_ctx.errors",
    "Node": "autonomy_ctx.agents.node",
    "PartialOutput": "autonomy_ctx.agents.reply",
    "PoolSection": "autonomy_ctx.sections.queue_and_pool",
    "ProfileSection": "autonomy_ctx.sections.profile",
    "QueueSection": "autonomy_ctx.sections.queue_and_pool",
    "RateLimited": "autonomy_ctx.errors",
    "RecallSection": "autonomy_ctx.sections.recall",
    "ReplyFinished": "autonomy_ctx.formats.base",
    "Runtime": "autonomy_ctx.containers.runtime",
    "SchemaSection": "autonomy_ctx.compaction.schema",
    "SectionError": "autonomy_ctx.errors",
    "StoreBusy": "autonomy_ctx.errors",
    "StoreError": "autonomy_ctx.errors",
    "SummarizedHistorySection": "autonomy_ctx.sections.summarized",
    "SummaryHook": "autonomy_ctx.compaction.summarizer",
    "SummarySchema": "autonomy_ctx.compaction.schema",
    "SystemInstructionsSection": "autonomy_ctx.sections.instructions",
    "TemplateHook": "autonomy_ctx.template.template",
    "TextContent": "autonomy_ctx.messages.message",
    "TextDelta": "autonomy_ctx.formats.base",
    "ThinkingContent": "autonomy_ctx.messages.message",
    "ThinkingDelta": "autonomy_ctx.formats.base",
    "Tool": "autonomy_ctx.tools.tool",
    "ToolAnswered": "autonomy_ctx.agents.reply",
    "ToolCall": "autonomy_ctx.messages.message",
    "ToolInstructionsSection": "autonomy_ctx.sections.instructions",
    "TruncateOldest": "autonomy_ctx.containers.strategies",
    "Turn": "autonomy_ctx.agents.tool_runner",
    "TurnEnded": "autonomy_ctx.agents.reply",
    "TurnLimits": "autonomy_ctx.agents.options",
    "Usage": "autonomy_ctx.formats.base",
    "Worker": "autonomy_ctx.compaction.worker",
    "create_default_template": "autonomy_ctx.template.defaults",
    "get_context": "autonomy_ctx.containers.runtime",
    "get_runtime": "autonomy_ctx.containers.runtime",
    "hook": "autonomy_ctx.hooks",
    "new_context": "autonomy_ctx.containers.runtime",
    "no_context": "autonomy_ctx.containers.runtime",
    "recall": "autonomy_ctx.memory.recall",
    "tool": "autonomy_ctx.tools.tool",
    "trace_conversation_id": "autonomy_ctx.tracing",
}

if TYPE_CHECKING:
    from autonomy_ctx.agents.agent import Agent
    from autonomy_ctx.agents.cost_limit import CostLimit
    from autonomy_ctx.agents.node import Node
    from autonomy_ctx.agents.options import AgentHook, TurnLimits
    from autonomy_ctx.agents.reply import (
        AgentReply,
        AgentStream,
        PartialOutput,
        ToolAnswered,
        TurnEnded,
    )
    from autonomy_ctx.agents.tool_runner import Turn
    from autonomy_ctx.compaction.config import ContextSummaryConfig
    from autonomy_ctx.compaction.schema import SchemaSection, SummarySchema
    from autonomy_ctx.compaction.summarizer import SummaryHook
    from autonomy_ctx.compaction.worker import Worker
    from autonomy_ctx.containers.chat import ChatContext
    from autonomy_ctx.containers.context import Context
    from autonomy_ctx.containers.item import ContextItem
    from autonomy_ctx.containers.pool import ContextPool, ContextPoolHook
    from autonomy_ctx.containers.queue import ContextQueue, ContextQueueHook
    from autonomy_ctx.containers.runtime import (
        Compact,
        Runtime,
        get_context,
        get_runtime,
        new_context,
        no_context,
    )
    from autonomy_ctx.containers.strategies import TruncateOldest
    from autonomy_ctx.errors import (
        AutonomyCtxError,
        BudgetExceeded,
        ContextOverflow,
        CostLimitExceeded,
        InvalidMessage,
        ModelError,
        ModelTimeout,
        RateLimited,
        SectionError,
        StoreBusy,
        StoreError,
    )
    from autonomy_ctx.formats.base import (
        CallStarted,
        ModelReply,
        ReplyFinished,
        TextDelta,
        ThinkingDelta,
        Usage,
    )
    from autonomy_ctx.hooks import HookRegistry, hook
    from autonomy_ctx.memory.mailbox import Mailbox
    from autonomy_ctx.memory.memory import Memory, MemoryHook
    from autonomy_ctx.memory.recall import recall
    from autonomy_ctx.messages.message import (
        ChatRole,
        ImageContent,
        Message,
        TextContent,
        ThinkingContent,
        ToolCall,
    )
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
    from autonomy_ctx.sections.profile import ProfileSection
    from autonomy_ctx.sections.queue_and_pool import PoolSection, QueueSection
    from autonomy_ctx.sections.recall import RecallSection
    from autonomy_ctx.sections.section import ContextSection
    from autonomy_ctx.sections.summarized import SummarizedHistorySection
    from autonomy_ctx.template.composed import ComposedContext
    from autonomy_ctx.template.defaults import create_default_template
    from autonomy_ctx.template.template import ContextTemplate, TemplateHook
    from autonomy_ctx.tools.tool import Tool, tool
    from autonomy_ctx.tracing import trace_conversation_id
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

# An application decides where logs go; without this, Python prints warnings by itself.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AdditionalContextSection",
    "Agent",
    "AgentHook",
    "AgentReply",
    "AgentStream",
    "AutonomyCtxError",
    "BudgetExceeded",
    "CallStarted",
    "ChatContext",
    "ChatRole",
    "Compact",
    "ComposedContext",
    "Context",
    "ContextItem",
    "ContextOverflow",
    "ContextPool",
    "ContextPoolHook",
    "ContextQueue",
    "ContextQueueHook",
    "ContextSection",
    "ContextSummaryConfig",
    "ContextTemplate",
    "ConversationHistorySection",
    "CostLimit",
    "CostLimitExceeded",
    "FrameworkInstructionsSection",
    "HookRegistry",
    "ImageContent",
    "InboxSection",
    "InvalidMessage",
    "KnowledgeSection",
    "Mailbox",
    "Memory",
    "MemoryHook",
    "Message",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelTimeout",
    "Node",
    "PartialOutput",
    "PoolSection",
    "ProfileSection",
    "QueueSection",
    "RateLimited",
    "RecallSection",
    "ReplyFinished",
    "Runtime",
    "SchemaSection",
    "SectionError",
    "StoreBusy",
    "StoreError",
    "SummarizedHistorySection",
    "SummaryHook",
    "SummarySchema",
    "SystemInstructionsSection",
    "TemplateHook",
    "TextContent",
    "TextDelta",
    "ThinkingContent",
    "ThinkingDelta",
    "Tool",
    "ToolAnswered",
    "ToolCall",
    "ToolInstructionsSection",
    "TruncateOldest",
    "Turn",
    "TurnEnded",
    "TurnLimits",
    "Usage",
    "Worker",
    "create_default_template",
    "get_context",
    "get_runtime",
    "hook",
    "new_context",
    "no_context",
    "recall",
    "tool",
    "trace_conversation_id",
]
