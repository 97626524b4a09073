"""All errors that this library raises on purpose. Each builds its own message and says what to do.

Callers pass values, not sentences, so that the same fault has the same message everywhere. No error message
contains the content of a conversation, because it may end up in a log that others read. All errors are in one
module, so that each can be found and worded beside similar ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = [
    "AccessDenied",
    "AddressUnavailable",
    "AgentClosed",
    "AuthenticationFailed",
    "AutonomyCtxError",
    "BudgetExceeded",
    "ConflictingMessage",
    "ContextOverflow",
    "CopyConflict",
    "CopyMismatch",
    "EmbedderReplaced",
    "FileRefused",
    "HistoryMismatch",
    "HookError",
    "InsecureAddress",
    "InvalidAgent",
    "InvalidArguments",
    "InvalidContainer",
    "InvalidContextFile",
    "InvalidDocument",
    "InvalidFact",
    "InvalidFork",
    "InvalidItem",
    "InvalidKey",
    "InvalidMessage",
    "InvalidModelReply",
    "InvalidParams",
    "InvalidPassage",
    "InvalidPin",
    "InvalidRange",
    "InvalidResult",
    "InvalidTool",
    "InvalidVectors",
    "KnowledgeError",
    "LimitNotMet",
    "MailboxFull",
    "McpConnectionLost",
    "McpServerUnavailable",
    "McpToolFailed",
    "MessageTooLarge",
    "MissingKey",
    "ModelError",
    "ModelTimeout",
    "ModelUnavailable",
    "NotPinned",
    "RateLimited",
    "SchemaTooNew",
    "SectionError",
    "ServerError",
    "SharedTurn",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StoredFormTooNew",
    "SubagentError",
    "SummaryFailed",
    "ToolTimeout",
    "TurnLost",
    "TurnWaitTimeout",
    "TurnWithinTurn",
    "UnknownAgent",
    "UnknownConversation",
    "UnknownFact",
    "UnknownItem",
    "UnknownPosition",
    "UnknownProfileEntry",
    "UnknownTool",
    "UnknownTurn",
    "UnnamedConversation",
    "UnregisteredHookError",
    "UnregisteredToolError",
    "UserMessageMissing",
    "VectorsUnsupported",
]


class AutonomyCtxError(Exception):
    """The root of all errors raised on purpose by this library."""


class InvalidMessage(AutonomyCtxError, ValueError):
    """Something that should be a message is not one; nothing was stored."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid message: `{field}` {problem}")
        self.field, self.problem = field, problem


class MessageTooLarge(InvalidMessage):
    """A message is over the size that one log entry may have."""

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(
            "content",
            f"needs {size:,} bytes, and a message may have at most {limit:,}; "
            f"split it, or store it as a file and send a reference",
        )
        self.size, self.limit = size, limit


class ConflictingMessage(AutonomyCtxError):
    """A message id was used again for other content."""

    def __init__(self, *, message_id: str, position: int | None = None) -> None:
        where = "in use" if position is None else f"at position {position}"
        super().__init__(
            f"message id {message_id!r} is already {where} with other content; "
            f"messages are never rewritten: send the new content under a new id"
        )
        self.message_id, self.position = message_id, position


class UnknownConversation(AutonomyCtxError, LookupError):
    """A conversation that should be forked or inspected has no messages; nothing was changed."""

    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"conversation {conversation!r} has no messages in this scope with this agent; "
            f"`memory.conversations(scope)` lists the conversations that have some"
        )
        self.conversation = conversation


class UnknownPosition(AutonomyCtxError, LookupError):
    """A conversation has no message at this position, or the message was deleted."""

    def __init__(self, *, position: int, last: int) -> None:
        super().__init__(
            f"there is no message at position {position}; the last position of the conversation is {last}, "
            f"and a deleted message leaves its position empty"
        )
        self.position, self.last = position, last


class InvalidFork(AutonomyCtxError, ValueError):
    """A fork cannot be made: its name is in use, or the position does not exist. Nothing was changed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid fork: `{field}` {problem}")
        self.field, self.problem = field, problem


class SharedTurn(AutonomyCtxError):
    """The last turn cannot be deleted, because a fork shares it; nothing was deleted."""

    def __init__(self, *, conversation: str, position: int) -> None:
        elsewhere = f"fork it with `at={position - 1}`" if position > 1 else "start a new conversation"
        super().__init__(
            f"the last turn of conversation {conversation!r}, from position {position} on, is shared with a "
            f"fork; {elsewhere} and go on there. `delete_message` deletes a message from both"
        )
        self.conversation, self.position = conversation, position


class MailboxFull(AutonomyCtxError):
    """Too many direct messages wait for an agent in one conversation; the new message was not stored."""

    def __init__(self, *, target: str, waiting: int, limit: int, size: int, most_bytes: int) -> None:
        super().__init__(
            f"{waiting:,} direct messages ({size:,} bytes) wait for agent {target!r} in this conversation, "
            f"and at most {limit:,} ({most_bytes:,} bytes) may wait; nothing was stored or deleted. "
            f"Let the agent take a turn, which delivers them, or send with a `ttl_seconds`"
        )
        self.target, self.waiting, self.limit = target, waiting, limit
        self.size, self.most_bytes = size, most_bytes


class InvalidKey(AutonomyCtxError, ValueError):
    """The name of an agent, a scope or a conversation is invalid."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"invalid {part}: {problem}")
        self.part = part


class InvalidFact(AutonomyCtxError, ValueError):
    """Something that should be a fact is not one; nothing was changed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid fact: `{field}` {problem}")
        self.field, self.problem = field, problem


class UnknownFact(AutonomyCtxError, LookupError):
    """The conversation has no fact with this id; nothing was changed."""

    def __init__(self, fact_id: str) -> None:
        super().__init__(f"this conversation has no fact {fact_id!r}; `await facts` lists its facts")
        self.fact_id = fact_id


class UnknownProfileEntry(AutonomyCtxError, LookupError):
    """The profile has no entry with this id; nothing was changed."""

    def __init__(self, entry_id: str) -> None:
        super().__init__(
            f"this profile has no entry {entry_id!r}; `await memory.profile(scope)` lists its entries"
        )
        self.entry_id = entry_id


class NotPinned(AutonomyCtxError, LookupError):
    """The message that a pin should replace is not pinned; nothing was changed."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"message {message_id!r} is not pinned in this conversation, so no pin can replace it; "
            f"`(await memory.summary(scope, conversation)).pins` lists the pinned messages"
        )
        self.message_id = message_id


class InvalidPin(AutonomyCtxError, ValueError):
    """A model may not pin this message, or there is no room for it; nothing was changed."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"not pinned: {problem}")
        self.problem = problem


class StoreError(AutonomyCtxError):
    """Memory could not be read or written. Data that was acknowledged before is not affected."""


class StoreBusy(StoreError):
    """Others used the store for longer than the timeout."""

    def __init__(
        self,
        *,
        path: str,
        seconds: float,
        problem: str = "was locked by another writer for",
        advice: str = "Try again, raise `timeout`, or look for a process that keeps a transaction open",
    ) -> None:
        super().__init__(f"{path} {problem} {seconds:g} s; nothing was stored. {advice}")


class StoreUnavailable(StoreError):
    """The store cannot be reached or opened."""

    def __init__(self, *, path: str, problem: str, advice: str) -> None:
        super().__init__(f"{path}: {problem}; {advice}")


class StoreFull(StoreError):
    """There is no room to write."""

    def __init__(self, *, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}; nothing was stored. Free some disk space; "
            f"the memory then works again without a restart"
        )


class StoreCorrupt(StoreError):
    """The store is damaged. Nothing is read from it, because half a history would mislead the model."""

    def __init__(self, *, path: str, problem: str, advice: str | None = None) -> None:
        if advice is None:
            advice = f"Restore a backup, or save what can be saved with `sqlite3 {path} .recover`"
        super().__init__(f"{path} is damaged ({problem}); nothing is read from it. {advice}")


class StoreClosed(StoreError):
    """The memory was used after `close()`."""

    def __init__(self, path: str) -> None:
        super().__init__(f"memory on {path} is closed; make a new `Memory` to go on")


class SchemaTooNew(StoreError):
    """The file was written by a newer version of the library."""

    def __init__(self, *, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, and this version of autonomy_ctx reads up to {known}; "
            f"upgrade autonomy_ctx to open it"
        )


class StoredFormTooNew(StoreError):
    """A stored message was written by a newer version of the library."""

    def __init__(self, *, found: int, known: int) -> None:
        super().__init__(
            f"a message has stored format {found}, and this version of autonomy_ctx reads up to {known}; "
            f"upgrade autonomy_ctx to read it"
        )
        self.found, self.known = found, known


class VectorsUnsupported(StoreError):
    """A memory was given an embedder, but its store cannot store vectors."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"{store} cannot store vectors, so its memory cannot have an `embedder`; add the methods of "
            f"`autonomy_ctx.stores.Vectors` to the store, or leave the embedder out"
        )
        self.store = store


class CopyConflict(StoreError):
    """The target of a copy has another conversation of the same name, which was not changed."""

    def __init__(self, key: tuple[str, str, str]) -> None:
        super().__init__(
            f"the target has other messages in {_conversation_text(key)}; copy into an empty memory, or "
            f"delete that conversation there and copy again"
        )
        self.key = key


class CopyMismatch(StoreError):
    """After a copy, the source and the target differ."""

    def __init__(self, keys: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(
            f"{len(keys):,} conversations differ after the copy, such as {_conversation_text(keys[0])}; "
            f"stop every process that writes to the source, and copy again"
        )
        self.keys = list(keys)


def _conversation_text(key: tuple[str, str, str]) -> str:
    agent, scope, conversation = key
    return f"conversation {conversation!r} of scope {scope!r}" + (f" with agent {agent!r}" if agent else "")


class SectionError(AutonomyCtxError):
    """A required section failed, so no context was composed."""

    def __init__(self, *, section: str, problem: str) -> None:
        super().__init__(
            f"required section `{section}` {problem}; no context was composed. "
            f"Fix the section. If a turn may do without it, set `required = False` on it before "
            f"you add it to the template"
        )
        self.section = section


class BudgetExceeded(AutonomyCtxError):
    """The messages that may not be left out are larger than the budget, so no context was composed."""

    def __init__(
        self,
        *,
        needed: int,
        budget: int,
        sections: Mapping[str, int],
        max_tokens: int | None = None,
        tools: int = 0,
        reserved: int = 0,
    ) -> None:
        shown = ", ".join(f"`{name}` {tokens}" for name, tokens in sections.items()) or "no section"
        if max_tokens is None:
            limit, advice = (
                f"its own `max_tokens` is {budget}",
                "raise it, or shorten what the section must show",
            )
        else:
            limit = f"nothing of `max_tokens` {max_tokens} is left for messages"
            if budget > 0:
                limit = f"messages may have {budget} tokens of `max_tokens` {max_tokens}"
            if tools or reserved:
                limit += f" ({tools} are for tools, {reserved} for the output)"
            advice = "raise `max_tokens`, or limit a required section with a `max_tokens` of its own"
            if tools > max(budget, 0):
                advice += ", or offer fewer tools"
            if reserved > max(budget, 0):
                advice += ", or lower `reserve_output`"
        super().__init__(
            f"the messages that may not be left out need {needed} tokens ({shown}), but {limit}; "
            f"no context was composed: {advice}"
        )
        self.needed, self.budget = needed, budget
        self.sections = dict(sections)
        self.max_tokens, self.tools, self.reserved = max_tokens, tools, reserved


class HookError(AutonomyCtxError):
    """A hook failed.

    Where possible, this error is also an instance of the exception type that the hook raised.
    """

    def __init__(self, *, hook: str, event: str, problem: str, done: bool | None = None) -> None:
        self.hook, self.event, self.done = hook, event, done
        outcome = {
            None: "",
            False: "; nothing was changed",
            True: "; the change before it was made and stays",
        }
        self.sentence = f"hook `{hook}` ({event}) failed: {problem}{outcome[done]}"
        # Not `super()`: the next class may be the hook's own exception type, which takes other arguments.
        Exception.__init__(self, self.sentence)

    def __str__(self) -> str:
        # Some types that it is combined with, such as KeyError, would format the text differently.
        return self.sentence


class UnregisteredHookError(AutonomyCtxError, LookupError):
    """No hook is registered under the requested name."""

    def __init__(self, name: str, *, event: str | None = None) -> None:
        kind = "hook" if event is None else f"{event} hook"
        super().__init__(
            f"no {kind} named {name!r} is registered; import the module that defines it with "
            f"`@hook(...)` first"
        )
        self.name, self.event = name, event


class InvalidItem(AutonomyCtxError, ValueError):
    """A context item cannot be stored, written as JSON, or read back."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid context item: `{field}` {problem}")
        self.field, self.problem = field, problem


class InvalidContainer(AutonomyCtxError, ValueError):
    """A saved container cannot be read back."""

    def __init__(self, kind: str, field: str, problem: str) -> None:
        super().__init__(f"this is not a saved {kind}: `{field}` {problem}")
        self.field, self.problem = field, problem


class UnknownItem(AutonomyCtxError, KeyError):
    """The pool has no item with this id."""

    def __init__(self, item_id: str, *, advice: str = "`catalogue()` lists the ids there are") -> None:
        super().__init__(item_id)
        self.item_id, self.advice = item_id, advice

    def __str__(self) -> str:
        return f"no item with the id {self.item_id!r}; {self.advice}"


class LimitNotMet(AutonomyCtxError):
    """The items that may not be removed from a context are larger than the limit; nothing was removed."""

    def __init__(self, *, over_items: int, over_tokens: int) -> None:
        sizes = [f"{over_items:,} items"] * bool(over_items) + [f"{over_tokens:,} tokens"] * bool(over_tokens)
        super().__init__(
            f"instructions, summaries, handoffs, calls still running and the newest user message are "
            f"{' and '.join(sizes)} over the limit; raise the limit or shorten them. Nothing was removed"
        )
        self.over_items, self.over_tokens = over_items, over_tokens


class SummaryFailed(AutonomyCtxError):
    """A model did not write a usable summary; the context is unchanged."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the summary {problem}; the context is unchanged. Try again, or use another model")
        self.problem = problem


class InvalidContextFile(AutonomyCtxError, ValueError):
    """A file does not contain a context or a runtime; the file was not changed."""

    def __init__(self, *, path: str, problem: str, advice: str) -> None:
        super().__init__(f"{path} {problem}; the file was left as it is. {advice}")
        self.path, self.problem = path, problem


class ModelError(AutonomyCtxError):
    """A model gave no answer.

    The text contains no key and no messages; `code` is the provider's error code.
    """

    def __init__(
        self, model: str, problem: str, *, status_code: int | None = None, code: str | None = None
    ) -> None:
        said = [f"status {status_code}"] * (status_code is not None) + [code] * (code is not None)
        shown = f" ({', '.join(map(str, said))})" if said else ""
        super().__init__(f"model `{model}` {problem.replace('{said}', shown)}")
        self.model, self.status_code, self.code = model, status_code, code


class ModelUnavailable(ModelError):
    """The model could not be reached, stopped in the middle or is overloaded, also after retries.

    If the model could not be reached, `host` is the host that was called, and `reason` is "refused", "dns",
    "tls", "timeout", "network", "proxy", "closed" or "other".
    """

    def __init__(
        self,
        model: str,
        problem: str,
        *,
        status_code: int | None = None,
        code: str | None = None,
        host: str | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(
            model,
            f"{problem}{{said}}; try again later, or check the provider's status page and `base_url`",
            status_code=status_code,
            code=code,
        )
        self.host, self.reason = host, reason


class RateLimited(ModelError):
    """The provider refuses more requests for now; `retry_after` is in seconds, if the provider gives it."""

    def __init__(
        self,
        model: str,
        *,
        status_code: int | None = 429,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        when = "later" if retry_after is None else f"in {retry_after:g} s"
        super().__init__(
            model,
            f"refuses more requests for now{{said}}; try again {when}, send fewer at once or raise the quota",
            status_code=status_code,
            code=code,
        )
        self.retry_after = retry_after


class AuthenticationFailed(ModelError):
    """The provider does not accept the key, or the key may not use this model."""

    def __init__(self, model: str, *, status_code: int = 401, code: str | None = None) -> None:
        super().__init__(
            model,
            "does not accept the key{said}; check the key and its permissions",
            status_code=status_code,
            code=code,
        )


class MissingKey(AuthenticationFailed):
    """No key was given and none is in the environment; nothing was sent."""

    def __init__(self, model: str, variables: tuple[str, ...]) -> None:
        ModelError.__init__(
            self,
            model,
            f"needs a key; set {' or '.join(variables)} in the environment, or give `api_key`",
        )
        # The status of a refused key, so that code which handles a refused key also handles a missing one.
        self.status_code = 401
        self.variables = variables


class InsecureAddress(AuthenticationFailed):
    """A key from the environment would cross the network in clear text; nothing was sent."""

    def __init__(self, model: str, url: str, variables: tuple[str, ...]) -> None:
        ModelError.__init__(
            self,
            model,
            f"was not called: {url} is neither https nor on this machine, and the key from "
            f"{' or '.join(variables)} would be sent in clear text; use an https `base_url`, "
            f"or give `insecure=True` if you trust the network",
        )
        # As for a missing key: a retry does not help.
        self.status_code = 401
        self.url, self.variables = url, variables


class ContextOverflow(ModelError):
    """The request was too long for the model; `window` is the limit in tokens, if the provider gives it."""

    def __init__(
        self, model: str, *, window: int | None = None, status_code: int | None = 400, code: str | None = None
    ) -> None:
        room = "" if window is None else f" of {window:,} tokens"
        super().__init__(
            model,
            f"got a request longer than its context window{room}{{said}}; send less or set a smaller budget",
            status_code=status_code,
            code=code,
        )
        self.window = window


class InvalidModelReply(ModelError):
    """The server answered, but its response is not the answer of a model."""

    def __init__(self, model: str, problem: str, *, code: str | None = None) -> None:
        super().__init__(
            model,
            f"sent a reply that {problem}{{said}}; check that `base_url` and `provider` match",
            code=code,
        )


class ModelTimeout(ModelError, TimeoutError):
    """The model did not answer in time."""

    def __init__(self, model: str, *, what: str, seconds: float) -> None:
        super().__init__(
            model,
            f"gave {what} for {seconds:g} s; raise `timeout`, or send less",
        )
        self.seconds = seconds


class InvalidTool(AutonomyCtxError, ValueError):
    """A function cannot be offered to a model as a tool."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"tool `{tool}` {problem}")
        self.tool, self.problem = tool, problem


class UnknownTool(AutonomyCtxError, LookupError):
    """A model called a tool that does not exist."""

    def __init__(self, tool: str, *, known: list[str]) -> None:
        there = f"the tools are {', '.join(known)}" if known else "there are no tools"
        super().__init__(f"there is no tool named {tool!r}; {there}")
        self.tool = tool


class UnregisteredToolError(AutonomyCtxError, LookupError):
    """No tool is registered under the requested name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no tool named {name!r} is registered; import the module that defines it with `@tool` first, "
            f"or pass it with `tools=`"
        )
        self.name = name


class InvalidArguments(AutonomyCtxError, ValueError):
    """The arguments of a call do not match the tool's parameters; the tool was not run."""

    def __init__(self, tool: str, problem: str, *, argument: str | None = None) -> None:
        which = f"argument `{argument}` " if argument else "the call "
        super().__init__(f"{which}{problem}; `{tool}` was not run")
        self.tool, self.argument, self.problem = tool, argument, problem


class ToolTimeout(AutonomyCtxError, TimeoutError):
    """A tool took longer than its time limit."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(
            f"`{tool}` was given up after {seconds:g} s and may have been half done; ask for less at a time"
        )
        self.tool, self.seconds = tool, seconds


class McpServerUnavailable(AutonomyCtxError, ConnectionError):
    """An MCP server cannot be reached or did not start; no request was sent to it."""

    def __init__(self, server: str, problem: str, *, retry_seconds: float | None = None) -> None:
        again = "" if retry_seconds is None else f"; it can be tried again in {max(retry_seconds, 0.1):.1f} s"
        super().__init__(f"MCP server {server!r} is not available: {problem}{again}")
        self.server, self.problem, self.retry_seconds = server, problem, retry_seconds


class McpConnectionLost(AutonomyCtxError, ConnectionError):
    """The connection to an MCP server was lost during a call. The call is not repeated automatically."""

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"the connection to MCP server {server!r} was lost while `{tool}` ran, so it may or may not have "
            f"been done; check before you call it again"
        )
        self.server, self.tool = server, tool


class McpToolFailed(AutonomyCtxError):
    """A tool of an MCP server answered with an error; the message is the server's text."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class InvalidResult(AutonomyCtxError, TypeError):
    """A tool ran, but its return value cannot be shown to a model."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"it ran, but its result {problem}; return text, or data that JSON can hold")
        self.problem = problem


class FileRefused(AutonomyCtxError, OSError):
    """A file tool refuses to read or change this file or folder."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path if len(path) <= 120 else path[:120] + '...'!r} {problem}")
        self.path, self.problem = path, problem


class SubagentError(AutonomyCtxError, RuntimeError):
    """A sub-agent could not be started, did not answer or did not stop; the cause is in `__cause__`."""

    def __init__(self, subagent: str, problem: str) -> None:
        super().__init__(f"sub-agent `{subagent}` {problem}")
        self.subagent, self.problem = subagent, problem


class InvalidRange(AutonomyCtxError, ValueError):
    """The conversation does not have these positions."""

    def __init__(self, first: int, last: int, problem: str) -> None:
        super().__init__(f"positions {first} to {last} cannot be read: {problem}")
        self.first, self.last, self.problem = first, last, problem


class InvalidAgent(AutonomyCtxError, ValueError):
    """An agent was given options that are invalid or do not fit together."""

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"agent {agent!r} {problem}")
        self.agent, self.problem = agent, problem


class InvalidParams(AutonomyCtxError, ValueError):
    """The `params` of a turn use a name that the agent sets itself; nothing was stored."""

    def __init__(self, *, names: list[str]) -> None:
        super().__init__(
            f"params must not have {', '.join(map(repr, names))}: the agent sets this itself; "
            f"use another name"
        )
        self.names = names


class UnknownAgent(AutonomyCtxError, LookupError):
    """The node hosts no agent of this name."""

    def __init__(self, agent: str, *, known: list[str]) -> None:
        there = f"it hosts {', '.join(known)}" if known else "it hosts none yet"
        super().__init__(f"this node hosts no agent named {agent!r}; {there}")
        self.agent = agent


class AgentClosed(AutonomyCtxError, RuntimeError):
    """An agent or node was used after it was closed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is closed and takes no more turns; start a new one")
        self.name = name


class TurnWithinTurn(AutonomyCtxError, RuntimeError):
    """A turn was started inside a turn of the same conversation; it would wait for itself forever."""

    def __init__(self, *, agent: str) -> None:
        super().__init__(
            f"agent {agent!r} was called inside its own turn in the same conversation, and would wait for "
            f"itself forever; use another conversation, or let the tool return the text"
        )
        self.agent = agent


class TurnWaitTimeout(AutonomyCtxError, TimeoutError):
    """A turn waited too long for the turns before it in the same conversation; nothing of it was stored."""

    def __init__(self, *, agent: str, seconds: float) -> None:
        super().__init__(
            f"a turn of agent {agent!r} waited {seconds:g} s for earlier turns of the same conversation; "
            f"nothing of it was stored. Send it again later, or raise `turn_wait_seconds`"
        )
        self.agent, self.seconds = agent, seconds


class TurnLost(AutonomyCtxError):
    """The lease of a turn expired and another turn has begun, so this turn may not write any more."""

    def __init__(self) -> None:
        super().__init__(
            "the lease of this turn expired before it was renewed, and another turn of the conversation has "
            "begun; nothing more of this turn is stored. Keep long work out of the event loop, and send the "
            "message again if it has no answer"
        )


class UserMessageMissing(AutonomyCtxError):
    """The composed context lacks the newest user message, so the model was not called."""

    def __init__(self, *, agent: str, position: int, sections: list[str]) -> None:
        super().__init__(
            f"the newest user message of agent {agent!r} (position {position}) is in none of the sections "
            f"{sections}; the model was not called. Let a history section show it: a filter or a limit may "
            f"have removed it"
        )
        self.position = position


class UnknownTurn(AutonomyCtxError, LookupError):
    """There is no record of the turn, or it was deleted."""

    def __init__(self, *, turn: str | None, step: int | None, problem: str) -> None:
        which = "the newest turn" if turn is None else f"turn {turn!r}"
        which += "" if step is None else f", step {step}"
        super().__init__(f"{which} of this conversation cannot be explained: {problem}")
        self.turn, self.step = turn, step


class UnnamedConversation(AutonomyCtxError, ValueError):
    """A call of another framework does not name its conversation; nothing was stored, no model was called."""

    def __init__(self, *, remedy: str) -> None:
        super().__init__(f"this call does not name its conversation; {remedy}")
        self.remedy = remedy


class HistoryMismatch(AutonomyCtxError, ValueError):
    """The history that a framework passed has nothing in common with the stored one; nothing was stored."""

    def __init__(self, *, conversation: str, messages: int) -> None:
        super().__init__(
            f"the {messages:,} messages that the framework passed for conversation {conversation!r} have "
            f"none in common with the stored messages; pass the whole history, not a part, or start another "
            f"conversation"
        )
        self.conversation, self.messages = conversation, messages


class KnowledgeError(AutonomyCtxError):
    """A knowledge base could not be searched or changed."""

    def __init__(self, knowledge: str, problem: str) -> None:
        super().__init__(f"knowledge `{knowledge}` {problem}")
        self.knowledge, self.problem = knowledge, problem


class InvalidDocument(KnowledgeError, ValueError):
    """A text or file cannot be added to a knowledge base; nothing was changed."""

    def __init__(self, source: str, problem: str) -> None:
        AutonomyCtxError.__init__(self, f"document {source!r} {problem}; nothing was added")
        self.source, self.problem = source, problem


class InvalidPassage(KnowledgeError, TypeError):
    """A knowledge base returned something that is not a passage."""

    def __init__(self, problem: str) -> None:
        AutonomyCtxError.__init__(
            self, f"{problem}; return a list of passages, texts, or dicts with `text` or `content`"
        )
        self.problem = problem


class InvalidVectors(KnowledgeError, ValueError):
    """An embedder returned vectors that cannot be used."""

    def __init__(self, problem: str) -> None:
        AutonomyCtxError.__init__(
            self,
            f"the embedder {problem}; it must return one list of finite numbers per text, all of one length",
        )
        self.problem = problem


class EmbedderReplaced(AutonomyCtxError):
    """Another process uses another embedder for this memory, so the vectors of this one are not stored."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"another process now uses another embedder than {name!r} for this memory; give all processes "
            f"the same embedder, and open this memory again"
        )
        self.name = name


class ServerError(AutonomyCtxError):
    """An HTTP server cannot run with the options that it was given."""


class AccessDenied(ServerError):
    """Raise it in your `authenticate` function to refuse a request whose sender is known.

    The client gets status 403 and the reason.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"access is denied: {reason}" if reason else "access is denied")
        self.reason = reason


class AddressUnavailable(ServerError, OSError):
    """An HTTP server could not listen on this host and port; nothing was started."""

    def __init__(self, *, host: str, port: int, problem: str, advice: str) -> None:
        super().__init__(f"cannot listen on port {port} of {host!r}: {problem}; {advice}")
        self.host, self.port, self.problem = host, port, problem
