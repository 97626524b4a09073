"""Decides, turn by turn, what an agent's model sees, and shows where each token came from.

The names that applications use most are here. The others are in `errors`, `stores`, `knowledge`, `tools`,
`tasks`, `tokens`, `items`, `containers`, `sections`, `template`, `compaction`, `server` and `testing`. Each
name is imported when it is first used, so that importing the package is fast.
"""

import logging
from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.agents.agent": "Agent",
    "autonomy_ctx.agents.cost_limit": "CostLimit",
    "autonomy_ctx.agents.node": "Node",
    "autonomy_ctx.agents.options": "AgentHook TurnLimits",
    "autonomy_ctx.agents.reply": "AgentReply AgentStream PartialOutput ToolAnswered TurnEnded",
    "autonomy_ctx.agents.tool_runner": "Turn",
    "autonomy_ctx.compaction.config": "ContextSummaryConfig",
    "autonomy_ctx.compaction.schema": "SchemaSection SummarySchema",
    "autonomy_ctx.compaction.summarizer": "SummaryHook",
    "autonomy_ctx.compaction.worker": "Worker",
    "autonomy_ctx.containers.chat": "ChatContext",
    "autonomy_ctx.containers.context": "Context",
    "autonomy_ctx.containers.item": "ContextItem",
    "autonomy_ctx.containers.pool": "ContextPool ContextPoolHook",
    "autonomy_ctx.containers.queue": "ContextQueue ContextQueueHook",
    "autonomy_ctx.containers.runtime": "Compact Runtime get_context get_runtime new_context no_context",
    "autonomy_ctx.containers.strategies": "TruncateOldest",
    "autonomy_ctx.errors": (
        "AutonomyCtxError BudgetExceeded ContextOverflow CostLimitExceeded InvalidMessage ModelError "
        "ModelTimeout RateLimited SectionError StoreBusy StoreError"
    ),
    "autonomy_ctx.formats.base": "CallStarted ModelReply ReplyFinished TextDelta ThinkingDelta Usage",
    "autonomy_ctx.hooks": "HookRegistry hook",
    "autonomy_ctx.memory.mailbox": "Mailbox",
    "autonomy_ctx.memory.memory": "Memory MemoryHook",
    "autonomy_ctx.memory.recall": "recall",
    "autonomy_ctx.messages.message": "ChatRole ImageContent Message TextContent ThinkingContent ToolCall",
    "autonomy_ctx.models.model": "Model",
    "autonomy_ctx.sections.additional": "AdditionalContextSection",
    "autonomy_ctx.sections.history": "ConversationHistorySection",
    "autonomy_ctx.sections.inbox": "InboxSection",
    "autonomy_ctx.sections.instructions": (
        "FrameworkInstructionsSection SystemInstructionsSection ToolInstructionsSection"
    ),
    "autonomy_ctx.sections.knowledge": "KnowledgeSection",
    "autonomy_ctx.sections.profile": "ProfileSection",
    "autonomy_ctx.sections.queue_and_pool": "PoolSection QueueSection",
    "autonomy_ctx.sections.recall": "RecallSection",
    "autonomy_ctx.sections.section": "ContextSection",
    "autonomy_ctx.sections.summarized": "SummarizedHistorySection",
    "autonomy_ctx.template.composed": "ComposedContext",
    "autonomy_ctx.template.defaults": "create_default_template",
    "autonomy_ctx.template.template": "ContextTemplate TemplateHook",
    "autonomy_ctx.tools.tool": "Tool tool",
    "autonomy_ctx.tracing": "trace_conversation_id",
}

if TYPE_CHECKING:
    from autonomy_ctx.agents.agent import Agent as Agent
    from autonomy_ctx.agents.cost_limit import CostLimit as CostLimit
    from autonomy_ctx.agents.node import Node as Node
    from autonomy_ctx.agents.options import AgentHook as AgentHook
    from autonomy_ctx.agents.options import TurnLimits as TurnLimits
    from autonomy_ctx.agents.reply import AgentReply as AgentReply
    from autonomy_ctx.agents.reply import AgentStream as AgentStream
    from autonomy_ctx.agents.reply import PartialOutput as PartialOutput
    from autonomy_ctx.agents.reply import ToolAnswered as ToolAnswered
    from autonomy_ctx.agents.reply import TurnEnded as TurnEnded
    from autonomy_ctx.agents.tool_runner import Turn as Turn
    from autonomy_ctx.compaction.config import ContextSummaryConfig as ContextSummaryConfig
    from autonomy_ctx.compaction.schema import SchemaSection as SchemaSection
    from autonomy_ctx.compaction.schema import SummarySchema as SummarySchema
    from autonomy_ctx.compaction.summarizer import SummaryHook as SummaryHook
    from autonomy_ctx.compaction.worker import Worker as Worker
    from autonomy_ctx.containers.chat import ChatContext as ChatContext
    from autonomy_ctx.containers.context import Context as Context
    from autonomy_ctx.containers.item import ContextItem as ContextItem
    from autonomy_ctx.containers.pool import ContextPool as ContextPool
    from autonomy_ctx.containers.pool import ContextPoolHook as ContextPoolHook
    from autonomy_ctx.containers.queue import ContextQueue as ContextQueue
    from autonomy_ctx.containers.queue import ContextQueueHook as ContextQueueHook
    from autonomy_ctx.containers.runtime import Compact as Compact
    from autonomy_ctx.containers.runtime import Runtime as Runtime
    from autonomy_ctx.containers.runtime import get_context as get_context
    from autonomy_ctx.containers.runtime import get_runtime as get_runtime
    from autonomy_ctx.containers.runtime import new_context as new_context
    from autonomy_ctx.containers.runtime import no_context as no_context
    from autonomy_ctx.containers.strategies import TruncateOldest as TruncateOldest
    from autonomy_ctx.errors import AutonomyCtxError as AutonomyCtxError
    from autonomy_ctx.errors import BudgetExceeded as BudgetExceeded
    from autonomy_ctx.errors import ContextOverflow as ContextOverflow
    from autonomy_ctx.errors import CostLimitExceeded as CostLimitExceeded
    from autonomy_ctx.errors import InvalidMessage as InvalidMessage
    from autonomy_ctx.errors import ModelError as ModelError
    from autonomy_ctx.errors import ModelTimeout as ModelTimeout
    from autonomy_ctx.errors import RateLimited as RateLimited
    from autonomy_ctx.errors import SectionError as SectionError
    from autonomy_ctx.errors import StoreBusy as StoreBusy
    from autonomy_ctx.errors import StoreError as StoreError
    from autonomy_ctx.formats.base import CallStarted as CallStarted
    from autonomy_ctx.formats.base import ModelReply as ModelReply
    from autonomy_ctx.formats.base import ReplyFinished as ReplyFinished
    from autonomy_ctx.formats.base import TextDelta as TextDelta
    from autonomy_ctx.formats.base import ThinkingDelta as ThinkingDelta
    from autonomy_ctx.formats.base import Usage as Usage
    from autonomy_ctx.hooks import HookRegistry as HookRegistry
    from autonomy_ctx.hooks import hook as hook
    from autonomy_ctx.memory.mailbox import Mailbox as Mailbox
    from autonomy_ctx.memory.memory import Memory as Memory
    from autonomy_ctx.memory.memory import MemoryHook as MemoryHook
    from autonomy_ctx.memory.recall import recall as recall
    from autonomy_ctx.messages.message import ChatRole as ChatRole
    from autonomy_ctx.messages.message import ImageContent as ImageContent
    from autonomy_ctx.messages.message import Message as Message
    from autonomy_ctx.messages.message import TextContent as TextContent
    from autonomy_ctx.messages.message import ThinkingContent as ThinkingContent
    from autonomy_ctx.messages.message import ToolCall as ToolCall
    from autonomy_ctx.models.model import Model as Model
    from autonomy_ctx.sections.additional import AdditionalContextSection as AdditionalContextSection
    from autonomy_ctx.sections.history import ConversationHistorySection as ConversationHistorySection
    from autonomy_ctx.sections.inbox import InboxSection as InboxSection
    from autonomy_ctx.sections.instructions import (
        FrameworkInstructionsSection as FrameworkInstructionsSection,
    )
    from autonomy_ctx.sections.instructions import SystemInstructionsSection as SystemInstructionsSection
    from autonomy_ctx.sections.instructions import ToolInstructionsSection as ToolInstructionsSection
    from autonomy_ctx.sections.knowledge import KnowledgeSection as KnowledgeSection
    from autonomy_ctx.sections.profile import ProfileSection as ProfileSection
    from autonomy_ctx.sections.queue_and_pool import PoolSection as PoolSection
    from autonomy_ctx.sections.queue_and_pool import QueueSection as QueueSection
    from autonomy_ctx.sections.recall import RecallSection as RecallSection
    from autonomy_ctx.sections.section import ContextSection as ContextSection
    from autonomy_ctx.sections.summarized import SummarizedHistorySection as SummarizedHistorySection
    from autonomy_ctx.template.composed import ComposedContext as ComposedContext
    from autonomy_ctx.template.defaults import create_default_template as create_default_template
    from autonomy_ctx.template.template import ContextTemplate as ContextTemplate
    from autonomy_ctx.template.template import TemplateHook as TemplateHook
    from autonomy_ctx.tools.tool import Tool as Tool
    from autonomy_ctx.tools.tool import tool as tool
    from autonomy_ctx.tracing import trace_conversation_id as trace_conversation_id
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)

# An application decides where logs go; without this, Python prints warnings by itself.
logging.getLogger(__name__).addHandler(logging.NullHandler())
