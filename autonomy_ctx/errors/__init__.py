"""All errors that this library raises on purpose. Each builds its own message and says what to do.

Callers pass values, not sentences, so that the same fault has the same message everywhere. No error message
contains the content of a conversation, because it may end up in a log that others read. The errors of one
layer are in one module, so that each is worded beside similar ones. Import them from here.
"""

from __future__ import annotations

from autonomy_ctx.errors.agents import AccessDenied as AccessDenied
from autonomy_ctx.errors.agents import AddressUnavailable as AddressUnavailable
from autonomy_ctx.errors.agents import AgentClosed as AgentClosed
from autonomy_ctx.errors.agents import CostLimitExceeded as CostLimitExceeded
from autonomy_ctx.errors.agents import HistoryMismatch as HistoryMismatch
from autonomy_ctx.errors.agents import InvalidAgent as InvalidAgent
from autonomy_ctx.errors.agents import InvalidParams as InvalidParams
from autonomy_ctx.errors.agents import OutputError as OutputError
from autonomy_ctx.errors.agents import ServerError as ServerError
from autonomy_ctx.errors.agents import TurnLost as TurnLost
from autonomy_ctx.errors.agents import TurnWaitTimeout as TurnWaitTimeout
from autonomy_ctx.errors.agents import TurnWithinTurn as TurnWithinTurn
from autonomy_ctx.errors.agents import UnknownAgent as UnknownAgent
from autonomy_ctx.errors.agents import UnknownTurn as UnknownTurn
from autonomy_ctx.errors.agents import UnnamedConversation as UnnamedConversation
from autonomy_ctx.errors.agents import UserMessageMissing as UserMessageMissing
from autonomy_ctx.errors.contexts import BudgetExceeded as BudgetExceeded
from autonomy_ctx.errors.contexts import HookError as HookError
from autonomy_ctx.errors.contexts import InvalidContainer as InvalidContainer
from autonomy_ctx.errors.contexts import InvalidContextFile as InvalidContextFile
from autonomy_ctx.errors.contexts import InvalidItem as InvalidItem
from autonomy_ctx.errors.contexts import LimitNotMet as LimitNotMet
from autonomy_ctx.errors.contexts import SectionError as SectionError
from autonomy_ctx.errors.contexts import SummaryFailed as SummaryFailed
from autonomy_ctx.errors.contexts import UnknownItem as UnknownItem
from autonomy_ctx.errors.contexts import UnregisteredHookError as UnregisteredHookError
from autonomy_ctx.errors.conversations import ConflictingMessage as ConflictingMessage
from autonomy_ctx.errors.conversations import InvalidFact as InvalidFact
from autonomy_ctx.errors.conversations import InvalidFork as InvalidFork
from autonomy_ctx.errors.conversations import InvalidKey as InvalidKey
from autonomy_ctx.errors.conversations import InvalidMessage as InvalidMessage
from autonomy_ctx.errors.conversations import InvalidPin as InvalidPin
from autonomy_ctx.errors.conversations import MailboxFull as MailboxFull
from autonomy_ctx.errors.conversations import MessageTooLarge as MessageTooLarge
from autonomy_ctx.errors.conversations import NotPinned as NotPinned
from autonomy_ctx.errors.conversations import SharedTurn as SharedTurn
from autonomy_ctx.errors.conversations import UnknownConversation as UnknownConversation
from autonomy_ctx.errors.conversations import UnknownFact as UnknownFact
from autonomy_ctx.errors.conversations import UnknownPosition as UnknownPosition
from autonomy_ctx.errors.conversations import UnknownProfileEntry as UnknownProfileEntry
from autonomy_ctx.errors.knowledge import EmbedderReplaced as EmbedderReplaced
from autonomy_ctx.errors.knowledge import InvalidDocument as InvalidDocument
from autonomy_ctx.errors.knowledge import InvalidPassage as InvalidPassage
from autonomy_ctx.errors.knowledge import InvalidVectors as InvalidVectors
from autonomy_ctx.errors.knowledge import KnowledgeError as KnowledgeError
from autonomy_ctx.errors.knowledge import VectorsUnsupported as VectorsUnsupported
from autonomy_ctx.errors.models import AuthenticationFailed as AuthenticationFailed
from autonomy_ctx.errors.models import ContextOverflow as ContextOverflow
from autonomy_ctx.errors.models import InsecureAddress as InsecureAddress
from autonomy_ctx.errors.models import InvalidModelReply as InvalidModelReply
from autonomy_ctx.errors.models import MissingKey as MissingKey
from autonomy_ctx.errors.models import ModelError as ModelError
from autonomy_ctx.errors.models import ModelTimeout as ModelTimeout
from autonomy_ctx.errors.models import ModelUnavailable as ModelUnavailable
from autonomy_ctx.errors.models import RateLimited as RateLimited
from autonomy_ctx.errors.models import SummaryBlockRefused as SummaryBlockRefused
from autonomy_ctx.errors.models import ThinkingRefused as ThinkingRefused
from autonomy_ctx.errors.models import UnknownPrice as UnknownPrice
from autonomy_ctx.errors.root import AutonomyCtxError as AutonomyCtxError
from autonomy_ctx.errors.stores import CopyConflict as CopyConflict
from autonomy_ctx.errors.stores import CopyMismatch as CopyMismatch
from autonomy_ctx.errors.stores import SchemaTooNew as SchemaTooNew
from autonomy_ctx.errors.stores import StoreBusy as StoreBusy
from autonomy_ctx.errors.stores import StoreClosed as StoreClosed
from autonomy_ctx.errors.stores import StoreCorrupt as StoreCorrupt
from autonomy_ctx.errors.stores import StoredFormTooNew as StoredFormTooNew
from autonomy_ctx.errors.stores import StoreError as StoreError
from autonomy_ctx.errors.stores import StoreFull as StoreFull
from autonomy_ctx.errors.stores import StoreUnavailable as StoreUnavailable
from autonomy_ctx.errors.tools import FileRefused as FileRefused
from autonomy_ctx.errors.tools import InvalidArguments as InvalidArguments
from autonomy_ctx.errors.tools import InvalidRange as InvalidRange
from autonomy_ctx.errors.tools import InvalidResult as InvalidResult
from autonomy_ctx.errors.tools import InvalidTool as InvalidTool
from autonomy_ctx.errors.tools import McpConnectionLost as McpConnectionLost
from autonomy_ctx.errors.tools import McpServerUnavailable as McpServerUnavailable
from autonomy_ctx.errors.tools import McpToolFailed as McpToolFailed
from autonomy_ctx.errors.tools import SubagentError as SubagentError
from autonomy_ctx.errors.tools import ToolTimeout as ToolTimeout
from autonomy_ctx.errors.tools import UnknownResult as UnknownResult
from autonomy_ctx.errors.tools import UnknownTool as UnknownTool
from autonomy_ctx.errors.tools import UnregisteredToolError as UnregisteredToolError

__all__ = sorted(name for name, value in globals().items() if isinstance(value, type))
# Tracebacks, traces and pickles name each error by the module that users import it from.
for _name in __all__:
    globals()[_name].__module__ = __name__
