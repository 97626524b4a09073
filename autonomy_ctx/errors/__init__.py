"""Every error a user can meet, in one tree. Each writes its own sentence and says what to do.

Callers pass facts, not prose, so the same fault reads the same everywhere. No error text holds
message content: it may end up in a log that another tenant's operator reads.
"""

from autonomy_ctx.errors.agents import (
    AgentClosed,
    InvalidAgent,
    TurnWithinTurn,
    UnknownAgent,
    UnknownTurn,
    UserMessageMissing,
)
from autonomy_ctx.errors.containers import (
    InvalidContainer,
    InvalidContextFile,
    InvalidItem,
    LimitNotMet,
    SummaryFailed,
    UnknownItem,
)
from autonomy_ctx.errors.hooks import HookError, UnregisteredHookError
from autonomy_ctx.errors.knowledge import InvalidDocument, InvalidPassage, InvalidVectors, KnowledgeError
from autonomy_ctx.errors.messages import (
    ConflictingMessage,
    InvalidKey,
    InvalidMessage,
    MailboxFull,
    MessageTooLarge,
)
from autonomy_ctx.errors.models import (
    AuthenticationFailed,
    ContextOverflow,
    InvalidModelReply,
    MissingKey,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)
from autonomy_ctx.errors.root import AutonomyCtxError
from autonomy_ctx.errors.server import AddressUnavailable, ServerError
from autonomy_ctx.errors.stores import (
    SchemaTooNew,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from autonomy_ctx.errors.template import BudgetExceeded, SectionError
from autonomy_ctx.errors.tools import (
    FileRefused,
    InvalidArguments,
    InvalidRange,
    InvalidResult,
    InvalidTool,
    SubagentError,
    ToolTimeout,
    UnknownTool,
    UnregisteredToolError,
)

__all__ = [
    "AddressUnavailable",
    "AgentClosed",
    "AuthenticationFailed",
    "AutonomyCtxError",
    "BudgetExceeded",
    "ConflictingMessage",
    "ContextOverflow",
    "FileRefused",
    "HookError",
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
    "KnowledgeError",
    "LimitNotMet",
    "MailboxFull",
    "MessageTooLarge",
    "MissingKey",
    "ModelError",
    "ModelTimeout",
    "ModelUnavailable",
    "RateLimited",
    "SchemaTooNew",
    "SectionError",
    "ServerError",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SubagentError",
    "SummaryFailed",
    "ToolTimeout",
    "TurnWithinTurn",
    "UnknownAgent",
    "UnknownItem",
    "UnknownTool",
    "UnknownTurn",
    "UnregisteredHookError",
    "UnregisteredToolError",
    "UserMessageMissing",
]
