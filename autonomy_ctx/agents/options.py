"""The options of an agent, what its turns need from it, and the checks of arguments.

`AgentOptions` are the arguments that a branch or a copy of an agent gets too. A `TurnEnvironment` is what a
turn sees of its agent. All arguments are checked before any work begins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    cast,
    get_args,
    runtime_checkable,
)

from autonomy_ctx.agents.conversation_items import ItemsByConversation
from autonomy_ctx.agents.explain import ContextRecords
from autonomy_ctx.agents.metrics import AgentMetrics
from autonomy_ctx.agents.tool_search import ToolListing
from autonomy_ctx.agents.turn_queue import TurnLease
from autonomy_ctx.background import Background
from autonomy_ctx.containers.pool import ContextPool
from autonomy_ctx.containers.queue import ContextQueue
from autonomy_ctx.errors import (
    InvalidAgent,
    InvalidContainer,
    InvalidMessage,
    InvalidParams,
    UnknownPrice,
    UnknownTool,
)
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.hooks import Hook, hooks_from_names
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import MAX_LEASE_SECONDS, Key, Record, check_name
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.excerpt import MIN_RESULT_TOKENS
from autonomy_ctx.messages.message import ChatRole, Message, TextContent
from autonomy_ctx.messages.transcript import may_close
from autonomy_ctx.models.call import ChatModel, is_chat_model
from autonomy_ctx.template.epoch_store import EPOCH_KIND, StoredEpochs, composer_name, decode_epochs
from autonomy_ctx.template.template import ContextTemplate
from autonomy_ctx.tools.output import OUTPUT_LIMIT
from autonomy_ctx.tools.run import PARALLEL, TIMEOUT_SECONDS
from autonomy_ctx.tools.tool import ToolRegistry, ToolSource, tools_by_name
from autonomy_ctx.validation import check_int, check_number, check_seconds

if TYPE_CHECKING:
    from autonomy_ctx.compaction.config import ContextSummaryConfig


MAX_NAME_LENGTH = 128
# The built-in tool that reads items of the pool.
ITEM_TOOL = "read_context_item"
# The one that reads results.
RESULT_TOOL = "read_result"
# Where an agent's files are when no other folder is named, beneath the working folder.
FILES_FOLDER = "agent-files"
# Between an agent's name and those of its sub-agents.
PATH_SEPARATOR = "/"
# Names that the agent and sections set themselves; the sender of a turn, also over HTTP, must not set them.
RESERVED_PARAMS = frozenset({"context_queue", "context_pool", "conversation_message_count"})
# The part of the model's window that one result may have, and its bounds in tokens.
RESULT_SHARE, MIN_RESULT, MAX_RESULT = 0.04, 2_000, 6_000
_OPTIONAL_LIMITS = ("tokens", "tool_result_tokens", "context_tokens", "output_tokens", "tool_timeout", "cost")


# A context goes on from the one before, or each is rendered anew, as up to 0.2.
ContextMode: TypeAlias = Literal["log", "render"]


# A model, the name of one, or none.
AnyModel: TypeAlias = ChatModel | str | None
# A message to an agent: text, a message as an object or a dict, or parts.
UserContent: TypeAlias = str | Message | Mapping[str, Any] | Sequence[Any]


class SendOptions(TypedDict, total=False):
    """The options of `Agent.send` besides the output."""

    scope: str
    conversation: str
    params: Mapping[str, Any] | None
    message_id: str | None


class AgentHook(Enum):
    """The events of an agent. Each hook gets the scope and the conversation first.

    `BEFORE_TURN` hooks get the user's message and `AFTER_TURN` hooks the reply. `BEFORE_CALL` hooks get a
    tool call and `AFTER_CALL` hooks the call and its result. If a `BEFORE_TURN` hook fails, the turn does not
    begin. If a `BEFORE_CALL` hook fails, the tool is not run and the model is told so. `BEFORE_REQUEST` hooks
    get a `ModelRequest`, and `AFTER_REPLY` hooks the request and the model's reply. `BEFORE_COMPACTION` hooks
    get a `ContextCompacted` before a request in which a summary takes the place of more messages. If one of
    them fails, the turn ends there.
    """

    BEFORE_TURN = "before_turn"
    BEFORE_REQUEST = "before_request"
    AFTER_REPLY = "after_reply"
    BEFORE_COMPACTION = "before_compaction"
    BEFORE_CALL = "before_call"
    AFTER_CALL = "after_call"
    AFTER_TURN = "after_turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """The limits of one turn: `steps` (model calls), `tokens` in all, and limits for each tool call.

    `context_tokens` is the limit of one context with its tools; by default it comes from the template or the
    model. `tool_output` is in bytes. A tool result above `tool_result_tokens` is shown as an excerpt; a
    fraction is one of the model's window, and gives 2,000 to 6,000 tokens. None means no limit. A turn that
    reaches `steps` or `tokens` ends there; what it has done so far is kept. `cost` is in US dollars: a
    request that would pass it is not sent, and the turn ends with `CostLimitExceeded`.
    """

    steps: int = 25
    tokens: int | None = None
    context_tokens: int | None = None
    output_tokens: int | None = None
    tool_timeout: float | None = TIMEOUT_SECONDS
    tool_output: int = OUTPUT_LIMIT
    tool_result_tokens: int | float | None = RESULT_SHARE
    parallel_tools: int = PARALLEL
    cost: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value, optional = getattr(self, field.name), field.name in _OPTIONAL_LIMITS
            if field.name == "tool_timeout":
                check_seconds(field.name, value, endless=True, optional=optional, where="TurnLimits")
            elif field.name == "tool_result_tokens" and isinstance(value, float):
                check_number(field.name, value, least=0, most=1, where="TurnLimits")
            elif field.name == "cost":
                if value is not None:
                    check_number(field.name, value, least=0, where="TurnLimits")
            else:
                least = MIN_RESULT_TOKENS if field.name == "tool_result_tokens" else 1
                check_int(field.name, value, least=least, optional=optional, where="TurnLimits")

    def result_tokens(self, window: int | None) -> int | None:
        """The tokens of a tool result with a model that has this window, None if that is not known."""
        most = self.tool_result_tokens
        if not isinstance(most, float):
            return most
        return MAX_RESULT if window is None else min(max(int(window * most), MIN_RESULT), MAX_RESULT)


def read_limits(value: TurnLimits | Mapping[str, Any] | None) -> TurnLimits:
    """Limits from a dict. An unknown name is an error."""
    if isinstance(value, TurnLimits):
        return value
    if not isinstance(value, Mapping | None):
        raise TypeError(f"limits must be a TurnLimits or a dict, not {type(value).__name__}")
    known = [field.name for field in fields(TurnLimits)]
    unknown = sorted(str(name) for name in value or () if name not in known)
    if unknown:
        raise ValueError(f"limits has unknown names {', '.join(unknown)}; known names are {', '.join(known)}")
    return TurnLimits(**(value or {}))


def check_limits(value: TurnLimits | Mapping[str, Any] | None, model: Any) -> TurnLimits:
    """Limits for a model, whose price must be known if there is a limit of cost."""
    limits = read_limits(value)
    if limits.cost is not None:
        # Imported here: most agents have no such limit.
        from autonomy_ctx.models.catalog import price_of

        for one in (model, getattr(model, "fallback", None)):
            if one is not None and price_of(one) is None:
                raise UnknownPrice(model_name(one))
    return limits


@runtime_checkable
class Host(Protocol):
    """The part of a node that the agents it hosts use."""

    memory: Memory
    background: Background

    def host(self, agent: Any) -> None:
        """Add an agent under its name."""

    def release(self, agent: Any) -> None:
        """Remove a closed agent."""


# The options that a saved agent does not have, or not as they are. JSON can hold all others.
_OTHER_NAMES = """
description tools instructions model node context_summary context_template builtin_tools filesystem_root
subagents limits clock new_id
"""
_OTHER_OPTIONS = frozenset(_OTHER_NAMES.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The arguments of an agent that a branch or a saved copy is made with too."""

    description: str
    tools: tuple[Any, ...]
    instructions: str | None
    model: Any
    node: Host | None
    context_summary: bool | Literal["auto"] | Mapping[str, Any] | ContextSummaryConfig | None
    context_template: ContextTemplate | None
    enable_ask_for_user_input: bool
    enable_filesystem: bool
    enable_recall: bool
    enable_pins: bool
    enable_compaction: bool
    builtin_tools: tuple[str, ...]
    filesystem_visibility: str
    filesystem_root: str | os.PathLike[str] | None
    subagents: Mapping[str, Mapping[str, Any]] | None
    tool_budget: int | None
    limits: TurnLimits | Mapping[str, Any] | None
    clear_results_after: int | None
    clear_images_after: int | None
    max_image_side: int | None
    explain_turns: int
    explain_seconds: float
    context: ContextMode
    turn_lease_seconds: float | None
    turn_wait_seconds: float | None
    clock: Callable[[], datetime]
    new_id: Callable[[], str]

    @classmethod
    def names(cls) -> list[str]:
        """The names of all options."""
        return [field.name for field in fields(cls)]

    def template_arguments(self) -> dict[str, Any]:
        """The options that the default template takes as they are."""
        names = [
            "enable_ask_for_user_input",
            "enable_filesystem",
            "filesystem_visibility",
            "enable_recall",
            "enable_pins",
            "builtin_tools",
        ]
        # Without epochs, each context begins anew: it would be another one in each turn.
        names += ["clear_results_after", "clear_images_after"] if self.context == "log" else []
        return {name: getattr(self, name) for name in names}

    def arguments(self) -> dict[str, Any]:
        """The options as keyword arguments of `Agent`."""
        return {name: getattr(self, name) for name in self.names()}

    @property
    def own_tools(self) -> list[Any]:
        """The functions and tools that an agent was given, without servers."""
        return [one for one in self.tools if not isinstance(one, ToolSource)]

    def to_dict(self) -> dict[str, Any]:
        """The options that are data, and the names of tools, tool servers and sub-agents.

        A model, a template and memory cannot be saved.
        """
        options = {name: value for name, value in self.arguments().items() if name not in _OTHER_OPTIONS}
        options["filesystem_root"] = None if self.filesystem_root is None else str(self.filesystem_root)
        options["builtin_tools"] = list(self.builtin_tools)
        options["context_summary"] = _summary_options(self.context_summary)
        options["limits"] = asdict(read_limits(self.limits))
        return {
            "tools": list(tools_by_name(self.own_tools)),
            "tool_sources": [one.name for one in self.tools if isinstance(one, ToolSource)],
            "subagents": list(self.subagents or {}),
            "options": options,
        }


def decode_arguments(data: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an agent from its dict. Those that are given override the values of the dict."""
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise InvalidContainer("Agent", "name", "is missing")
    name = data["name"]
    lists = ("tools", "tool_sources", "subagents", "turns")
    shapes = [("options", Mapping), ("hooks", Mapping), *[(field, list) for field in lists]]
    for field, shape in shapes:
        if not isinstance(data.get(field), shape | None):
            raise InvalidContainer("Agent", field, f"must not be of type {type(data[field]).__name__}")
    missing = [sub for sub in data.get("subagents") or () if sub not in (given.get("subagents") or {})]
    if missing:
        raise InvalidAgent(
            name, f"was saved with the sub-agents {', '.join(missing)}; give `subagents` again"
        )
    if data.get("tool_sources") and "tools" not in given:
        raise InvalidAgent(
            name, f"was saved with the servers {', '.join(data['tool_sources'])}; give `tools` again"
        )
    options: dict[str, Any] = {**(data.get("options") or {})}
    unknown = sorted(str(option) for option in options if option not in AgentOptions.names())
    if unknown:
        raise InvalidContainer("Agent", "options", f"has unknown names: {', '.join(unknown)}")
    options |= {"description": data.get("description", ""), "instructions": data.get("instructions")}
    if "tools" not in given:
        options["tools"] = [ToolRegistry.get(tool) for tool in data.get("tools") or ()]
    if given.get("context_template") is not None:
        options.pop("context_summary", None)
    for field, container in (("context_queue", ContextQueue), ("context_pool", ContextPool)):
        if field not in given and data.get(field) is not None:
            options[field] = container.from_dict(data[field])
    if "hooks" not in given:
        options["hooks"] = hooks_from_names(data.get("hooks") or {})
    return {"name": name, **options, **given}


def _summary_options(value: Any) -> Any:
    """The options of `context_summary` without the model and a `profile` function, which cannot be saved."""
    # Imported here: compaction is for those who ask for summaries.
    from autonomy_ctx.compaction.config import ContextSummaryConfig
    from autonomy_ctx.compaction.schema import SummarySchema

    if isinstance(value, ContextSummaryConfig):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        options = {
            name: option
            for name, option in value.items()
            if name != "model" and not (name == "profile" and callable(option))
        }
        schema = options.get("schema")
        return {**options, "schema": schema.to_dict()} if isinstance(schema, SummarySchema) else options
    return value


class TurnEnvironment(NamedTuple):
    """An agent as its turns see it."""

    name: str
    memory: Memory
    model: Any
    template: ContextTemplate
    listing: ToolListing
    items: ItemsByConversation
    records: ContextRecords
    limits: TurnLimits
    hooks: Sequence[Hook]
    metrics: AgentMetrics
    # The `Agent` itself, for tools that ask for it.
    agent: Any
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    # Whether a context goes on from the one before, and whether there will be items to read.
    keeps_epochs: bool
    expects_items: bool
    # The longest side of images, in pixels; None if they stay as they are.
    image_side: int | None
    # Of the turn that this one is a part of, and that shares its log.
    enclosing: TurnLease | None

    def specs_to_send(self, *, reads_items: bool) -> Sequence[Mapping[str, Any]]:
        """The tool specs for the model. The tool that reads items is included only if there can be items."""
        if reads_items or ITEM_TOOL not in self.listing.tools:
            return self.listing.specs
        return [spec for spec in self.listing.specs if spec["name"] != ITEM_TOOL]

    async def read_epochs(self, key: Key) -> StoredEpochs:
        """The epochs of a conversation that this agent has sent."""
        return self.epochs_of(key, await self.memory.store.read_records(key, EPOCH_KIND))

    def epochs_of(self, key: Key, records: Sequence[Record]) -> StoredEpochs:
        """The epochs of a conversation, of records that were read."""
        names = [section.name for section in self.template.sections]
        return decode_epochs(self.memory.store, key, composer_name(self.name, names), records)

    def injected(self, key: Key, pool: ContextPool) -> dict[str, Any]:
        """The values that tools are given besides the model's arguments."""
        return {
            "agent": self.agent,
            "pool": pool,
            "memory": self.memory,
            "scope": key.scope,
            "conversation": key.conversation,
        }


def check_agent_name(name: Any) -> str:
    """Check that a name can be part of a key and of a URL."""
    check_name("agent", name)
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidAgent(str(name)[:40], f"needs a name of 1 to {MAX_NAME_LENGTH} printable characters")
    _check_closing_characters(name)
    if PATH_SEPARATOR in name:
        raise InvalidAgent(
            name, f"must not have {PATH_SEPARATOR!r} in its name: it separates the names of sub-agents"
        )
    return str(name)


def _check_closing_characters(name: str) -> None:
    if any(map(may_close, name)):
        raise InvalidAgent(
            name, "must not have brackets or bars in its name: prompts put names between such characters"
        )


def check_model(name: str, model: Any) -> Any:
    """A `Model` for a name; anything else must have `complete_chat`, or be None."""
    if isinstance(model, str):
        # Imported here: most agents are given a model.
        from autonomy_ctx.models.model import Model

        return Model(model)
    if model is not None and not is_chat_model(model):
        problem = f"has a model of type {_type_name(model)} without complete_chat()"
        raise InvalidAgent(name, f"{problem}; give a Model, or an object that has this method")
    return model


def check_keys(models: Iterable[Any]) -> None:
    """Check that each model has the key that it needs; models of other types do that themselves."""
    for model in models:
        check_key = getattr(model, "check_key", None)
        if callable(check_key):
            check_key()


def check_memory(name: str, memory: Any, node: Host | None, **options: Any) -> Memory:
    """The memory that was given, a new one for a URL, or that of the node; else one in this process."""
    if node is not None:
        check_host(name, node)
        memory = node.memory if memory is None else memory
    if isinstance(memory, str | None):
        return Memory(memory, **options)
    if not isinstance(memory, Memory):
        raise InvalidAgent(
            name,
            f"has memory of type {_type_name(memory)}; give a Memory or its URL, such as 'sqlite:///agents.db'",
        )
    return memory


def check_template(name: str, template: Any, context_summary: Any) -> Any:
    """Check that a template can compose, or is None, and that `context_summary` is not given too."""
    if template is not None and context_summary not in (None, False):
        raise ValueError(
            "give context_summary to summarize the history of the default context, or context_template "
            "to choose all sections yourself (with a SummarizedHistorySection for summaries), not both"
        )
    if template is not None and not callable(getattr(template, "compose", None)):
        raise InvalidAgent(
            name, f"has a context_template of type {_type_name(template)}; give a ContextTemplate([...])"
        )
    return template


def check_context_mode(mode: Any) -> ContextMode:
    """Check the mode in which contexts are made."""
    if mode not in get_args(ContextMode):
        raise ValueError(f"context is {mode!r}; it must be log or render")
    return cast(ContextMode, mode)


def check_turn_seconds(lease: Any, wait: Any) -> None:
    """Check the seconds of a lease and of waiting; None means no lease, or no limit."""
    check_seconds("turn_lease_seconds", lease, most=MAX_LEASE_SECONDS, optional=True, where="Agent")
    check_seconds("turn_wait_seconds", wait, zero=True, endless=True, optional=True, where="Agent")


def check_tools(name: str, tools: Any) -> tuple[Any, ...]:
    """Tools as a new tuple. Each one is checked later, when it is made a `Tool`."""
    if not isinstance(tools, Iterable) or isinstance(tools, str | bytes | Mapping):
        raise InvalidAgent(name, f"has tools of type {_type_name(tools)}; give a list of functions or tools")
    return tuple(tools)


def check_subagents(name: str, subagents: Any) -> dict[str, dict[str, Any]]:
    """Sub-agents by name, each with its options."""
    form = "give a dict of names, each with a dict of options"
    if not isinstance(subagents, Mapping | None):
        raise InvalidAgent(name, f"has subagents of type {_type_name(subagents)}; {form}")
    for one, options in (subagents or {}).items():
        if isinstance(one, str):
            _check_closing_characters(one)
        if not isinstance(options, Mapping):
            raise InvalidAgent(name, f"has a sub-agent {one!r} of type {_type_name(options)}; {form}")
    return {one: dict(options) for one, options in (subagents or {}).items()}


def check_turn(name: str, model: Any, params: Any) -> None:
    """Check that a turn has a model, and that its `params` use no reserved names."""
    if model is None:
        raise InvalidAgent(
            name,
            'has no model that could answer; give it one, such as `model="gpt-5"`, or `model="offline"`, '
            "which needs no key; without a model, use only `put` and `run`",
        )
    if not isinstance(params, Mapping | None):
        raise TypeError(
            f"params must be a dict for the sections, not {_type_name(params)}; nothing was stored"
        )
    reserved = sorted(RESERVED_PARAMS.intersection(params or ()))
    if reserved:
        raise InvalidParams(names=reserved)


def user_message(content: Any, message_id: str | None, *, new_id: Callable[[], str], at: datetime) -> Message:
    """The user's message, from text, parts or a message; `message_id` overrides the message's own id."""
    if isinstance(content, Message):
        message = content
    elif isinstance(content, Mapping) and "role" in content:
        message = wire.from_dict(dict(content), new_id=new_id, now=lambda: at)
    else:
        message = Message(ChatRole.USER, content, id=message_id or new_id(), created_at=at)
    if message_id is not None and message.id != message_id:
        message = replace(message, id=message_id)
    if message.role is not ChatRole.USER:
        raise InvalidMessage(
            "role", f"is {message.role.value!r}; a message to an agent must have the role 'user'"
        )
    if all(isinstance(part, TextContent) and not part.text.strip() for part in message.parts):
        raise InvalidMessage("content", "is empty; send a text or an image")
    return message


def question_text(values: Mapping[str, Any]) -> str:
    """Arguments as one text: a single text as it is, anything else as JSON."""
    if len(values) == 1:
        (only,) = values.values()
        if isinstance(only, str):
            return only
    return json.dumps(dict(values), ensure_ascii=False, default=str)


def check_mail(to: Any, content: Any) -> None:
    """Check that mail has a target and a text."""
    for field, given in (("to", to), ("content", content)):
        if isinstance(given, str) and not given.strip():
            raise InvalidMessage(field, "is empty; give the name of an agent and a text")


def check_host(name: str, node: Any) -> None:
    """Check that an agent is started on a node."""
    if not isinstance(node, Host):
        raise InvalidAgent(
            name, f"is started on {type(node).__name__}; give a Node, or make an Agent without one"
        )


def check_tool_name(name: str, tools: Mapping[str, Any]) -> None:
    """Check that the tool of a turn exists."""
    if name not in tools:
        raise UnknownTool(name, known=list(tools))


def _type_name(value: Any) -> str:
    return type(value).__name__
