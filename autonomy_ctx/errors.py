"""Every error a user can meet, in one tree. Each writes its own sentence and says what to do.

Callers pass facts, not prose, so the same fault reads the same everywhere. No error text holds
message content: it may end up in a log that another tenant's operator reads. All are in one long
module, so that each can be found and worded beside its neighbours.
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
            f"needs {size:,} bytes, one message may have {limit:,}; "
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
            f"`memory.conversations(scope)` lists those that have"
        )
        self.conversation = conversation


class UnknownPosition(AutonomyCtxError, LookupError):
    """A conversation has no message at a position, or not any more."""

    def __init__(self, *, position: int, last: int) -> None:
        super().__init__(
            f"there is no message at position {position}: the conversation goes up to {last}, "
            f"and deleted messages leave holes"
        )
        self.position, self.last = position, last


class InvalidFork(AutonomyCtxError, ValueError):
    """A fork that cannot be made: it has no free name, or no such position; nothing was changed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid fork: `{field}` {problem}")
        self.field, self.problem = field, problem


class SharedTurn(AutonomyCtxError):
    """The turn that should be dropped belongs to a fork too; nothing was deleted."""

    def __init__(self, *, conversation: str, position: int) -> None:
        elsewhere = f"fork it with `at={position - 1}`" if position > 1 else "start a new conversation"
        super().__init__(
            f"the last turn of conversation {conversation!r}, from position {position} on, is shared with a "
            f"fork; {elsewhere} and go on there. `delete_message` deletes a message from both"
        )
        self.conversation, self.position = conversation, position


class MailboxFull(AutonomyCtxError):
    """So many direct messages wait for an agent in one conversation that no more are taken."""

    def __init__(self, *, target: str, waiting: int, limit: int, size: int, most_bytes: int) -> None:
        super().__init__(
            f"{waiting:,} direct messages ({size:,} bytes) wait for agent {target!r} in this conversation, "
            f"at most {limit:,} ({most_bytes:,} bytes) may; nothing was stored and nothing was dropped. "
            f"Let the agent take a turn, which delivers them, or send with a `ttl_seconds`"
        )
        self.target, self.waiting, self.limit = target, waiting, limit
        self.size, self.most_bytes = size, most_bytes


class InvalidKey(AutonomyCtxError, ValueError):
    """An agent, scope or conversation name that cannot name a conversation."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"invalid {part}: {problem}")
        self.part = part


class InvalidFact(AutonomyCtxError, ValueError):
    """Something that should be a fact is not one; nothing was changed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid fact: `{field}` {problem}")
        self.field, self.problem = field, problem


class UnknownFact(AutonomyCtxError, LookupError):
    """No fact with this id holds in the conversation; nothing was changed."""

    def __init__(self, fact_id: str) -> None:
        super().__init__(f"no fact {fact_id!r} holds in this conversation; `await facts` lists those that do")
        self.fact_id = fact_id


class UnknownProfileEntry(AutonomyCtxError, LookupError):
    """No entry with this id is in the profile; nothing was changed."""

    def __init__(self, entry_id: str) -> None:
        super().__init__(
            f"no entry {entry_id!r} is in this profile; `await memory.profile(scope)` lists those that are"
        )
        self.entry_id = entry_id


class NotPinned(AutonomyCtxError, LookupError):
    """The message that a pin should replace is not pinned; nothing was changed."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"message {message_id!r} is not pinned in this conversation, so no pin can replace it; "
            f"`(await memory.summary(scope, conversation)).pins` lists those that are"
        )
        self.message_id = message_id


class InvalidPin(AutonomyCtxError, ValueError):
    """A model wants to pin what it may not, or what has no room; nothing was changed."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"not pinned: {problem}")
        self.problem = problem


class StoreError(AutonomyCtxError):
    """Memory could not be read or written; what was acknowledged before is untouched."""


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
            f"{path}: {problem}; nothing was stored. Free some disk space: "
            f"the same memory goes on by itself, no restart is needed"
        )


class StoreCorrupt(StoreError):
    """The file is damaged; answering from half a history would be worse than not answering."""

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
            f"{path} has schema version {found}, this version of autonomy_ctx knows up to {known}; "
            f"upgrade autonomy_ctx to open it"
        )


class StoredFormTooNew(StoreError):
    """A stored message was written by a newer version of the library."""

    def __init__(self, *, found: int, known: int) -> None:
        super().__init__(
            f"a message was stored in form {found}, this version of autonomy_ctx knows up to {known}; "
            f"upgrade autonomy_ctx to read it"
        )
        self.found, self.known = found, known


class VectorsUnsupported(StoreError):
    """A memory was given an embedder, and its store keeps no vectors."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"{store} keeps no vectors, so a memory on it takes no `embedder`; give the store the methods of "
            f"`autonomy_ctx.stores.Vectors`, or leave the embedder out"
        )
        self.store = store


class CopyConflict(StoreError):
    """The target of a copy has another conversation under the same name; nothing of it was changed."""

    def __init__(self, key: tuple[str, str, str]) -> None:
        super().__init__(
            f"the target has other messages in {_conversation_text(key)}; copy into an empty memory, or "
            f"delete that conversation there and copy again"
        )
        self.key = key


class CopyMismatch(StoreError):
    """Both sides of a copy differ in the end."""

    def __init__(self, keys: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(
            f"{len(keys):,} conversations differ after the copy, such as {_conversation_text(keys[0])}; "
            f"stop all who write into the source and copy again"
        )
        self.keys = list(keys)


def _conversation_text(key: tuple[str, str, str]) -> str:
    agent, scope, conversation = key
    return f"conversation {conversation!r} of scope {scope!r}" + (f" with agent {agent!r}" if agent else "")


class SectionError(AutonomyCtxError):
    """A section that may not be left out failed, so there is no context to send."""

    def __init__(self, *, section: str, problem: str) -> None:
        super().__init__(
            f"required section `{section}` {problem}; no context was composed. "
            f"Mend the section, or set `required = False` on it before it joins the template "
            f"if a turn may go on without it"
        )
        self.section = section


class BudgetExceeded(AutonomyCtxError):
    """What may not be cut is, alone, larger than the budget: there is no context to send."""

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
            limit, advice = f"its own `max_tokens` is {budget}", "raise it, or make what it must show shorter"
        else:
            left = f"messages may have {budget}" if budget > 0 else "nothing is left for messages"
            limit = f"of `max_tokens` {max_tokens} {left}"
            if tools or reserved:
                limit += f" ({tools} are for tools, {reserved} for the output)"
            advice = "raise `max_tokens`, or give a required section one of its own"
            if tools > max(budget, 0):
                advice += ", or offer fewer tools"
            if reserved > max(budget, 0):
                advice += ", or lower `reserve_output`"
        super().__init__(
            f"what may not be left out needs {needed} tokens ({shown}), but {limit}; "
            f"no context was composed: {advice}"
        )
        self.needed, self.budget = needed, budget
        self.sections = dict(sections)
        self.max_tokens, self.tools, self.reserved = max_tokens, tools, reserved


class HookError(AutonomyCtxError):
    """A hook failed. It is also an instance of the hook's own exception type, where that is possible."""

    def __init__(self, *, hook: str, event: str, problem: str, done: bool | None = None) -> None:
        self.hook, self.event, self.done = hook, event, done
        outcome = {None: "", False: "; nothing was changed", True: "; what it follows was done and stands"}
        self.sentence = f"hook `{hook}` ({event}) failed: {problem}{outcome[done]}"
        # Not `super()`: the next in line may be the hook's own type, whose arguments are others.
        Exception.__init__(self, self.sentence)

    def __str__(self) -> str:
        # Said here because some types it is combined with, such as KeyError, say it differently.
        return self.sentence


class UnregisteredHookError(AutonomyCtxError, LookupError):
    """A hook is asked for by a name under which none is registered."""

    def __init__(self, name: str, *, event: str | None = None) -> None:
        kind = "hook" if event is None else f"{event} hook"
        super().__init__(
            f"no {kind} named {name!r} is registered; import the module that defines it with "
            f"`@hook(...)` before it is asked for"
        )
        self.name, self.event = name, event


class InvalidItem(AutonomyCtxError, ValueError):
    """A context item that cannot be kept, written as JSON, or read back."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid context item: `{field}` {problem}")
        self.field, self.problem = field, problem


class InvalidContainer(AutonomyCtxError, ValueError):
    """A saved container that cannot be read back."""

    def __init__(self, kind: str, field: str, problem: str) -> None:
        super().__init__(f"this is no saved {kind}: `{field}` {problem}")
        self.field, self.problem = field, problem


class UnknownItem(AutonomyCtxError, KeyError):
    """A pool was asked for an id that it does not hold."""

    def __init__(self, item_id: str, *, advice: str = "`catalogue()` lists the ids there are") -> None:
        super().__init__(item_id)
        self.item_id, self.advice = item_id, advice

    def __str__(self) -> str:
        return f"no item with the id {self.item_id!r}; {self.advice}"


class LimitNotMet(AutonomyCtxError):
    """What may not be removed from a context is, alone, over the limit; nothing was removed."""

    def __init__(self, *, over_items: int, over_tokens: int) -> None:
        sizes = [f"{over_items:,} items"] * bool(over_items) + [f"{over_tokens:,} tokens"] * bool(over_tokens)
        super().__init__(
            f"instructions, summaries, handoffs, calls still running and the newest user message are "
            f"{' and '.join(sizes)} over the limit; raise the limit or shorten them. Nothing was removed"
        )
        self.over_items, self.over_tokens = over_items, over_tokens


class SummaryFailed(AutonomyCtxError):
    """A model gave no text that may stand for the conversation; the context is unchanged."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the summary {problem}; the context is unchanged. Try again, or use another model")
        self.problem = problem


class InvalidContextFile(AutonomyCtxError, ValueError):
    """A file that should hold a context or a runtime does not; it was left as it is."""

    def __init__(self, *, path: str, problem: str, advice: str) -> None:
        super().__init__(f"{path} {problem}; the file was left as it is. {advice}")
        self.path, self.problem = path, problem


class ModelError(AutonomyCtxError):
    """A model gave no answer. No key and no message is in the text; `code` is the provider's own word."""

    def __init__(
        self, model: str, problem: str, *, status_code: int | None = None, code: str | None = None
    ) -> None:
        said = [f"status {status_code}"] * (status_code is not None) + [code] * (code is not None)
        shown = f" ({', '.join(map(str, said))})" if said else ""
        super().__init__(f"model `{model}` {problem.replace('{said}', shown)}")
        self.model, self.status_code, self.code = model, status_code, code


class ModelUnavailable(ModelError):
    """The model could not be reached, broke off or is overloaded, also when asked again.

    For one that could not be reached, `host` is where it was asked, and `reason` is "refused", "dns", "tls",
    "timeout", "network", "proxy", "closed" or "other".
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
            f"{problem}{{said}}; try again later, or look at the provider's status and at `base_url`",
            status_code=status_code,
            code=code,
        )
        self.host, self.reason = host, reason


class RateLimited(ModelError):
    """The provider takes no more requests for now; `retry_after` in seconds if it says for how long."""

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
            f"takes no more requests{{said}}; try again {when}, send fewer at once or raise the quota",
            status_code=status_code,
            code=code,
        )
        self.retry_after = retry_after


class AuthenticationFailed(ModelError):
    """The provider does not accept the key, or the key may not use this model."""

    def __init__(self, model: str, *, status_code: int = 401, code: str | None = None) -> None:
        super().__init__(
            model,
            "does not accept the key{said}; check the key and what it may be used for",
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
        # As if the provider had said so: whoever stops at a refused key stops at a missing one.
        self.status_code = 401
        self.variables = variables


class InsecureAddress(AuthenticationFailed):
    """A key from the environment would cross the network in clear text; nothing was sent."""

    def __init__(self, model: str, url: str, variables: tuple[str, ...]) -> None:
        ModelError.__init__(
            self,
            model,
            f"was not asked: {url} is neither https nor this machine, and the key from "
            f"{' or '.join(variables)} would be sent in clear text; use an https `base_url`, "
            f"or give `insecure=True` if you trust the network",
        )
        # As for a missing key: asking again does not help.
        self.status_code = 401
        self.url, self.variables = url, variables


class ContextOverflow(ModelError):
    """The request was too long for the model; `window` in tokens if the provider says how long it may be."""

    def __init__(
        self, model: str, *, window: int | None = None, status_code: int | None = 400, code: str | None = None
    ) -> None:
        room = "" if window is None else f" of {window:,} tokens"
        super().__init__(
            model,
            f"was given more than its context window{room} takes{{said}}; send less or set a smaller budget",
            status_code=status_code,
            code=code,
        )
        self.window = window


class InvalidModelReply(ModelError):
    """The server answered, but with nothing that is an answer of a model."""

    def __init__(self, model: str, problem: str, *, code: str | None = None) -> None:
        super().__init__(
            model,
            f"sent a reply that {problem}{{said}}; check that `base_url` and `provider` go together",
            code=code,
        )


class ModelTimeout(ModelError, TimeoutError):
    """The model did not answer in time."""

    def __init__(self, model: str, *, what: str, seconds: float) -> None:
        super().__init__(
            model,
            f"gave {what} for {seconds:g} s; give it longer with `timeout`, or send less",
        )
        self.seconds = seconds


class InvalidTool(AutonomyCtxError, ValueError):
    """A function that cannot be offered to a model as it is."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"tool `{tool}` {problem}")
        self.tool, self.problem = tool, problem


class UnknownTool(AutonomyCtxError, LookupError):
    """A model called a tool that it was not given."""

    def __init__(self, tool: str, *, known: list[str]) -> None:
        there = f"the tools are {', '.join(known)}" if known else "there are no tools"
        super().__init__(f"there is no tool named {tool!r}; {there}")
        self.tool = tool


class UnregisteredToolError(AutonomyCtxError, LookupError):
    """A tool is asked for by a name under which none is registered."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no tool named {name!r} is registered; import the module that defines it with `@tool` before "
            f"it is asked for, or pass it with `tools=`"
        )
        self.name = name


class InvalidArguments(AutonomyCtxError, ValueError):
    """The arguments of a call do not fit the tool; it was not run."""

    def __init__(self, tool: str, problem: str, *, argument: str | None = None) -> None:
        which = f"argument `{argument}` " if argument else "the call "
        super().__init__(f"{which}{problem}; `{tool}` was not run")
        self.tool, self.argument, self.problem = tool, argument, problem


class ToolTimeout(AutonomyCtxError, TimeoutError):
    """A tool took longer than it may."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(
            f"`{tool}` was given up after {seconds:g} s and may have been half done; ask for less at a time"
        )
        self.tool, self.seconds = tool, seconds


class McpServerUnavailable(AutonomyCtxError, ConnectionError):
    """An MCP server cannot be reached or did not start; nothing was asked of it."""

    def __init__(self, server: str, problem: str, *, retry_seconds: float | None = None) -> None:
        again = "" if retry_seconds is None else f"; it can be tried again in {max(retry_seconds, 0.1):.1f} s"
        super().__init__(f"MCP server {server!r} is not available: {problem}{again}")
        self.server, self.problem, self.retry_seconds = server, problem, retry_seconds


class McpConnectionLost(AutonomyCtxError, ConnectionError):
    """The connection to an MCP server ended during a call, which is not made again by itself."""

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(
            f"the connection to MCP server {server!r} was lost while `{tool}` ran, so it may or may not have "
            f"been done; check before you call it again"
        )
        self.server, self.tool = server, tool


class McpToolFailed(AutonomyCtxError):
    """A tool of an MCP server answered with an error; the text is the server's."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class InvalidResult(AutonomyCtxError, TypeError):
    """A tool ran, but what it returned cannot be shown to a model."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"it ran, but its result {problem}; return text, or data that JSON can hold")
        self.problem = problem


class FileRefused(AutonomyCtxError, OSError):
    """A file or folder that a filesystem tool does not touch."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path if len(path) <= 120 else path[:120] + '...'!r} {problem}")
        self.path, self.problem = path, problem


class SubagentError(AutonomyCtxError, RuntimeError):
    """A sub-agent that could not be started, did not answer or did not stop; the cause is in `__cause__`."""

    def __init__(self, subagent: str, problem: str) -> None:
        super().__init__(f"sub-agent `{subagent}` {problem}")
        self.subagent, self.problem = subagent, problem


class InvalidRange(AutonomyCtxError, ValueError):
    """Positions that a conversation does not have."""

    def __init__(self, first: int, last: int, problem: str) -> None:
        super().__init__(f"positions {first} to {last} cannot be read: {problem}")
        self.first, self.last, self.problem = first, last, problem


class InvalidAgent(AutonomyCtxError, ValueError):
    """An agent that cannot be as it was described."""

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(f"agent {agent!r} {problem}")
        self.agent, self.problem = agent, problem


class InvalidParams(AutonomyCtxError, ValueError):
    """`params` of a turn with a name that is the agent's own; nothing was stored."""

    def __init__(self, *, names: list[str]) -> None:
        super().__init__(
            f"params must not have {', '.join(map(repr, names))}: sections are told this by the agent; "
            f"use another name"
        )
        self.names = names


class UnknownAgent(AutonomyCtxError, LookupError):
    """A node was asked for an agent that it does not host."""

    def __init__(self, agent: str, *, known: list[str]) -> None:
        there = f"there are {', '.join(known)}" if known else "there are none yet"
        super().__init__(f"this node hosts no agent named {agent!r}; {there}")
        self.agent = agent


class AgentClosed(AutonomyCtxError, RuntimeError):
    """An agent or node was used after it was closed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is closed and takes no more turns; start another")
        self.name = name


class TurnWithinTurn(AutonomyCtxError, RuntimeError):
    """A turn was begun from inside a turn of the same conversation, where it would wait for itself."""

    def __init__(self, *, agent: str) -> None:
        super().__init__(
            f"agent {agent!r} was asked from inside its own turn in the same conversation, where it would "
            f"wait for itself; use another conversation, or return what is to be said from the tool"
        )
        self.agent = agent


class TurnWaitTimeout(AutonomyCtxError, TimeoutError):
    """A turn did not get its turn in the conversation within the time that it may wait."""

    def __init__(self, *, agent: str, seconds: float) -> None:
        super().__init__(
            f"a turn of agent {agent!r} waited {seconds:g} s for those before it in the same conversation; "
            f"nothing of it was stored. Send it again later, or raise `turn_wait_seconds`"
        )
        self.agent, self.seconds = agent, seconds


class TurnLost(AutonomyCtxError):
    """A turn did not renew its lease in time, another one has begun, and this one may not write any more."""

    def __init__(self) -> None:
        super().__init__(
            "the lease of this turn ended before it was renewed, and another turn of the conversation has "
            "begun; nothing more of this one is stored. Keep long work out of the event loop, and send the "
            "message again if it has no answer"
        )


class UserMessageMissing(AutonomyCtxError):
    """The composed context lacks the newest user message, so the model would answer something else."""

    def __init__(self, *, agent: str, position: int, sections: list[str]) -> None:
        super().__init__(
            f"the newest user message of agent {agent!r} (position {position}) is in none of the sections "
            f"{sections}; the model was not asked. Let a history section show it: a filter or a limit may "
            f"have taken it out"
        )
        self.position = position


class UnknownTurn(AutonomyCtxError, LookupError):
    """There is no record of a turn, or not any more."""

    def __init__(self, *, turn: str | None, step: int | None, problem: str) -> None:
        which = "the newest turn" if turn is None else f"turn {turn!r}"
        which += "" if step is None else f", step {step}"
        super().__init__(f"{which} of this conversation cannot be explained: {problem}")
        self.turn, self.step = turn, step


class UnnamedConversation(AutonomyCtxError, ValueError):
    """A call of another framework names no conversation; nothing was stored and no model was asked."""

    def __init__(self, *, remedy: str) -> None:
        super().__init__(f"this call names no conversation; {remedy}")
        self.remedy = remedy


class HistoryMismatch(AutonomyCtxError, ValueError):
    """A framework's history does not begin as the stored conversation does; nothing was stored."""

    def __init__(self, *, conversation: str, messages: int) -> None:
        super().__init__(
            f"the {messages:,} messages that the framework passed for conversation {conversation!r} share "
            f"none with those that are stored; pass its whole history, unshortened, or start another "
            f"conversation"
        )
        self.conversation, self.messages = conversation, messages


class KnowledgeError(AutonomyCtxError):
    """A knowledge base could not be searched or changed."""

    def __init__(self, knowledge: str, problem: str) -> None:
        super().__init__(f"knowledge `{knowledge}` {problem}")
        self.knowledge, self.problem = knowledge, problem


class InvalidDocument(KnowledgeError, ValueError):
    """A text or file that cannot be added; nothing was changed."""

    def __init__(self, source: str, problem: str) -> None:
        AutonomyCtxError.__init__(self, f"document {source!r} {problem}; nothing was added")
        self.source, self.problem = source, problem


class InvalidPassage(KnowledgeError, TypeError):
    """A knowledge base answered with something that is no passage."""

    def __init__(self, problem: str) -> None:
        AutonomyCtxError.__init__(
            self, f"{problem}; give a list of passages, texts, or dicts with `text` or `content`"
        )
        self.problem = problem


class InvalidVectors(KnowledgeError, ValueError):
    """An embedder gave vectors that cannot be compared."""

    def __init__(self, problem: str) -> None:
        AutonomyCtxError.__init__(
            self,
            f"the embedder {problem}; it must give one list of finite numbers per text, all equally long",
        )
        self.problem = problem


class EmbedderReplaced(AutonomyCtxError):
    """Another process has put another embedder in force, so this one's vectors are not kept."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the vectors of this memory are made by another embedder than {name!r} now; give all processes "
            f"the same embedder, and open this memory again"
        )
        self.name = name


class ServerError(AutonomyCtxError):
    """An HTTP server that cannot run as it was asked to."""


class AccessDenied(ServerError):
    """Raised by an application's `authenticate`: it knows who sends a request, and refuses it.

    The client is told the reason.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"access is denied: {reason}" if reason else "access is denied")
        self.reason = reason


class AddressUnavailable(ServerError, OSError):
    """An HTTP server could not listen where it was told to; nothing was started."""

    def __init__(self, *, host: str, port: int, problem: str, advice: str) -> None:
        super().__init__(f"cannot listen on port {port} of {host!r}: {problem}; {advice}")
        self.host, self.port, self.problem = host, port, problem
