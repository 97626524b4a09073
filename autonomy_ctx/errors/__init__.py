"""Every error a user can meet, in one tree. Each writes its own sentence and says what to do.

Callers pass facts, not prose, so the same fault reads the same everywhere. No error text holds
message content: it may end up in a log that another tenant's operator reads.
"""

from autonomy_ctx.errors.containers import (
    InvalidContainer,
    InvalidContextFile,
    InvalidItem,
    LimitNotMet,
    SummaryFailed,
    UnknownItem,
)
from autonomy_ctx.errors.hooks import HookError, UnregisteredHookError
from autonomy_ctx.errors.messages import ConflictingMessage, InvalidKey, InvalidMessage, MessageTooLarge
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
from autonomy_ctx.errors.stores import (
    SchemaTooNew,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from autonomy_ctx.errors.template import SectionError
from autonomy_ctx.errors.tools import (
    FileRefused,
    InvalidArguments,
    InvalidResult,
    InvalidTool,
    ToolTimeout,
    UnknownTool,
)

__all__ = [
    "AuthenticationFailed",
    "AutonomyCtxError",
    "ConflictingMessage",
    "ContextOverflow",
    "FileRefused",
    "HookError",
    "InvalidArguments",
    "InvalidContainer",
    "InvalidContextFile",
    "InvalidItem",
    "InvalidKey",
    "InvalidMessage",
    "InvalidModelReply",
    "InvalidResult",
    "InvalidTool",
    "LimitNotMet",
    "MessageTooLarge",
    "MissingKey",
    "ModelError",
    "ModelTimeout",
    "ModelUnavailable",
    "RateLimited",
    "SchemaTooNew",
    "SectionError",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SummaryFailed",
    "ToolTimeout",
    "UnknownItem",
    "UnknownTool",
    "UnregisteredHookError",
]
