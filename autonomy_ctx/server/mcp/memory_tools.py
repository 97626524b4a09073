"""The tools of an MCP client for a memory: search, read and explain one scope, and optionally edit it.

The scope is fixed when the tools are made; the agent and the conversation can be fixed too. A fixed value is
not a parameter, so no call can choose another one. Every answer is text for a model and the same as data,
both of bounded size.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from autonomy_ctx.errors import InvalidArguments, UnknownFact, UnknownTurn
from autonomy_ctx.errors.spelling import near_names
from autonomy_ctx.inspection.turn import TurnReport, TurnSection, inspect_turn, list_turns
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.page import read_page
from autonomy_ctx.memory.recall import recall
from autonomy_ctx.memory.recall_block import format_message, indent_continuations
from autonomy_ctx.memory.store import Entry, Key, make_key
from autonomy_ctx.messages.clamp import clamp_text
from autonomy_ctx.messages.fact import Fact, FactKind, fact_line
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.token_estimate import estimate_tokens
from autonomy_ctx.messages.transcript import nonce, wrap_untrusted
from autonomy_ctx.server.common.arguments import ConversationTarget
from autonomy_ctx.tools.arguments import convert_arguments
from autonomy_ctx.tools.output import cap_text, clean_text
from autonomy_ctx.tools.schema import Field, Shape
from autonomy_ctx.tools.tool import Parameters, Tool

# Bytes of text, and tokens of each message, summary or fact in the data beside it.
TEXT_LIMIT, ROW_TOKENS = 24_000, 400
# What a message that is found counts for, one with another, and the least room.
MESSAGE_TOKENS, MIN_FOUND_TOKENS = 120, 600
MAX_FOUND, MAX_LISTED, MAX_FACTS = 50, 100, 200
# How many agents of a scope are looked at, and how many names an error lists.
MAX_AGENTS, NAMES_LISTED = 100, 12
NEWEST_MESSAGES = 20
# Where `remember` stores what no conversation was named for.
NOTES = "notes"
CONVERSATION, AGENT, TARGET = "conversation", "agent", "target"
# The names that clients had to use up to 0.2.
FORMER_NAMES = {"conversation_name": CONVERSATION, "agent_name": AGENT}
# What a client says to name the target of a tool.
TARGET_FIELDS = tuple(
    Field(name, Shape(str | None), None, required=False, description=text)
    for name, text in (
        (CONVERSATION, "Which conversation; not needed where there is only one."),
        (AGENT, "With which agent, where two have conversations of that name."),
    )
)


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The answer of a tool: text for a model, and the same as data."""

    text: str
    data: dict[str, Any]


class MemoryTool(Tool[..., Awaitable[MemoryAnswer]]):
    """A tool of a memory, without the parameters that are fixed, and what it may do."""

    # Nothing is injected: what names a conversation is a parameter, or fixed.
    injected_names = frozenset()

    def __init__(
        self,
        function: Callable[..., Awaitable[MemoryAnswer]],
        *,
        title: str,
        fixed: frozenset[str],
        is_read_only: bool = True,
        is_destructive: bool = False,
    ) -> None:
        super().__init__(function)
        self.title, self.is_read_only, self.is_destructive = title, is_read_only, is_destructive
        self.has_target, self._fixed = TARGET in self.signature.parameters, fixed

    @property
    def parameters(self) -> Parameters:
        """The parameters that are not fixed."""
        kind = super().parameters.object_kind
        own = [*kind.fields, *(TARGET_FIELDS if self.has_target else ())]
        fields = tuple(one for one in own if one.name not in self._fixed and one.name != TARGET)
        return Parameters(replace(kind, fields=fields), {}, None)


class MemoryTools:
    """The tools of one scope of a memory."""

    def __init__(
        self,
        memory: Memory,
        scope: str,
        *,
        agent: str | None = None,
        conversation: str | None = None,
        write: bool = False,
    ) -> None:
        self._memory, self._scope = memory, make_key("", scope, "").scope
        self._agent, self._conversation = agent, conversation
        fixed = {AGENT} if agent is not None else set()
        fixed |= {CONVERSATION} if conversation is not None else set()
        self._fixed = frozenset(fixed)
        made = [
            self._tool(self.search_memory, "Search memory"),
            self._tool(self.list_conversations, "List conversations"),
            self._tool(self.read_messages, "Read messages"),
            self._tool(self.read_summary, "Read the summary"),
            self._tool(self.list_facts, "List facts"),
            self._tool(self.read_profile, "Read the profile"),
            self._tool(self.list_pins, "List pinned messages"),
            self._tool(self.explain_turn, "Explain a turn"),
        ]
        if write:
            made += [
                self._tool(self.remember, "Remember", is_read_only=False),
                self._tool(self.pin_message, "Pin a message", is_read_only=False),
                self._tool(self.unpin_message, "Unpin a message", is_read_only=False),
                self._tool(self.add_fact, "Add a fact", is_read_only=False),
                self._tool(self.replace_fact, "Replace a fact", is_read_only=False),
                self._tool(self.remove_fact, "Remove a fact", is_read_only=False, is_destructive=True),
            ]
        self.tools = {tool.name: tool for tool in made}

    async def call(self, name: str, arguments: Mapping[str, Any]) -> MemoryAnswer:
        """Run a tool; what is wrong with a call is an error of this library."""
        tool, names = self.tools[name], dict[str, Any]()
        given = {FORMER_NAMES.get(key, key): value for key, value in arguments.items()}
        values = convert_arguments(name, tool.parameters.object_kind, given)
        if tool.has_target:
            key = await self._find(name, values.pop(CONVERSATION, None), values.pop(AGENT, None))
            values[TARGET], names = (
                ConversationTarget(self._memory.for_agent(key.agent), *key[1:]),
                _names(key),
            )
        try:
            answer = await tool.function(**values)
        except UnknownFact:
            problem = "is not the id of a current fact; `list_facts` lists the current facts"
            raise InvalidArguments(name, problem, argument="fact_id") from None
        text = cap_text(clean_text(answer.text), TEXT_LIMIT)
        for former in FORMER_NAMES.keys() & arguments.keys():
            text += f"\nNote: the argument `{former}` is called `{FORMER_NAMES[former]}` now."
        return MemoryAnswer(text, names | answer.data)

    def _tool(
        self, function: Callable[..., Awaitable[MemoryAnswer]], title: str, **hints: bool
    ) -> MemoryTool:
        return MemoryTool(function, title=title, fixed=self._fixed, **hints)

    # -- reading ----------------------------------------------------------------------------------

    async def search_memory(
        self, query: str, limit: int = 10, conversation: str | None = None, agent: str | None = None
    ) -> MemoryAnswer:
        """Find what was said in earlier conversations: the messages that fit a question best, with those
        around them. Start here, then read on with `read_messages`.

        Args:
            query: What to look for. Names, numbers and the words that were used find most.
            limit: About how many messages to show, at most 50.
            conversation: Only in this conversation; leave it out to search all.
            agent: Only in conversations with this agent; leave it out for all.
        """
        limit = _between("search_memory", "limit", limit, MAX_FOUND)
        found: list[str] = []
        rows: list[dict[str, Any]] = []
        conversation = self._conversation if conversation is None else conversation
        for name in await self._agents(agent):
            result = await recall(
                self._memory.for_agent(name),
                self._scope,
                query,
                conversation=conversation,
                max_tokens=max(limit * MESSAGE_TOKENS, MIN_FOUND_TOKENS),
            )
            if result.passages:
                found.append(f"With the agent {name}:\n{result.text}" if name else result.text)
            rows += [
                _row(Key(name, self._scope, hit.conversation), Entry(hit.position, hit.message))
                for hit in result.passages[:MAX_FOUND]
            ]
        if not rows:
            text = "No message has these words. Try other words, or fewer."
            return MemoryAnswer(text, {"messages": []})
        found.append("`read_messages` shows the messages around a position.")
        return MemoryAnswer("\n".join(found), {"messages": rows[:MAX_LISTED]})

    async def list_conversations(
        self, limit: int = 20, after: str | None = None, agent: str | None = None
    ) -> MemoryAnswer:
        """List the conversations there are, by name, with how many messages each has and when it was held.

        Args:
            limit: How many to list, at most 100.
            after: The `next` of the list before, to go on with it.
            agent: Only those with this agent; leave it out for all.
        """
        limit = _between("list_conversations", "limit", limit, MAX_LISTED)
        if self._conversation is not None:
            infos = [one for one in [await self._only_info()] if one is not None]
            following = None
        else:
            agent = self._agent if agent is None else agent
            key = None if after is None else self._parse_cursor(after, agent)
            page = await self._memory.conversations(self._scope, agent=agent, limit=limit, after=key)
            infos = [_info_row(one.key, one.messages, one.first_at, one.last_at) for one in page]
            following = _cursor(page[-1].key) if len(page) == limit else None
        if not infos:
            return MemoryAnswer("There are no conversations.", {"conversations": [], "next": None})
        lines = [
            f"{row['conversation']!r}{_with_agent(row['agent'])}: {row['messages']} messages, "
            f"{row['first_at'][:16]} to {row['last_at'][:16]} UTC"
            for row in infos
        ]
        if following is not None:
            lines.append(f"There may be more: list_conversations(after={following!r})")
        return MemoryAnswer("\n".join(lines), {"conversations": infos, "next": following})

    async def read_messages(
        self, target: ConversationTarget, first: int | None = None, last: int | None = None, offset: int = 0
    ) -> MemoryAnswer:
        """Read a conversation word for word, from one position to another, a page at a time; without
        positions, its newest messages.

        Args:
            first: The position of the first message; positions count from 1.
            last: The position of the last message.
            offset: How many characters of the first message to pass over, to read on in a long one.
        """
        end = (await target.memory.head(*target[1:])).position
        last = end if last is None else last
        first = max(1, min(last, end) - NEWEST_MESSAGES + 1) if first is None else first
        page = await read_page(*target, first, last, offset=offset)
        reading_on = {"first": page.next, "last": last, "offset": page.offset}
        text = f"Conversation {target.conversation!r}, which has positions 1 to {end}:\n{page.text}"
        if page.next is not None:
            told = ", ".join(f"{name}={value}" for name, value in reading_on.items() if value)
            text += f"\nThere is more: read_messages({told})"
        data = {"first": first, "end": end, "next": reading_on if page.next else None}
        return MemoryAnswer(text, data)

    async def read_summary(self, target: ConversationTarget) -> MemoryAnswer:
        """Read the summary of the older part of a conversation, with the positions that each part covers."""
        segments = (await target.memory.summary(*target[1:])).segments
        if not segments:
            text = "Nothing of this conversation is summarized; `read_messages` shows all of it."
            return MemoryAnswer(text, {"parts": []})
        blocks = [f"Messages {one.first} to {one.last}:\n{_quote('summary', one.text)}" for one in segments]
        parts = [{"first": one.first, "last": one.last, "text": _clamp(one.text)} for one in segments]
        return MemoryAnswer("\n".join(blocks), {"parts": parts[-MAX_LISTED:]})

    async def list_facts(self, target: ConversationTarget, with_old: bool = False) -> MemoryAnswer:
        """List what holds now in a conversation: goals, rules, preferences, values, decisions, open points
        and artifacts, each with its id.

        Args:
            with_old: Also what was replaced, removed or is done.
        """
        facts = target.memory.facts(*target[1:])
        found = (await facts.history() if with_old else await facts)[-MAX_FACTS:]
        lines = [fact_line(one) + (f" ({one.state})" if one.state != "holds" else "") for one in found]
        text = _quote("facts", "\n".join(lines)) if lines else "No facts are known of this conversation yet."
        return MemoryAnswer(text, {"facts": [_fact_row(one) for one in found]})

    async def read_profile(self, agent: str | None = None) -> MemoryAnswer:
        """Read what is known of this user or tenant over all conversations: preferences, rules and facts.

        Args:
            agent: Only what this agent knows; leave it out for all.
        """
        rows = [
            {"agent": name, "kind": one.kind, "text": _clamp(one.text), "conversation": one.conversation}
            for name in await self._agents(agent)
            for one in await self._memory.for_agent(name).profile(self._scope)
        ]
        if self._conversation is not None:
            # A profile tells what was said in other conversations, too.
            rows = [row for row in rows if row["conversation"] == self._conversation]
        if not rows:
            return MemoryAnswer("The profile is empty.", {"entries": []})
        text = "\n".join(f"{row['kind']}: {row['text']}" for row in rows[:MAX_FACTS])
        return MemoryAnswer(_quote("profile", text), {"entries": rows[:MAX_FACTS]})

    async def list_pins(self, target: ConversationTarget) -> MemoryAnswer:
        """List the pinned messages of a conversation: those that every context shows word for word."""
        pins = (await target.memory.summary(*target[1:])).pins
        if not pins:
            text = "No message of this conversation is pinned."
            return MemoryAnswer(text, {"pins": []})
        lines = [f"[{pin.position}] {indent_continuations(format_message(pin.message, {}))}" for pin in pins]
        key = Key(target.memory.agent, *target[1:])
        rows = [_row(key, Entry(pin.position, pin.message)) for pin in pins]
        return MemoryAnswer(_quote("pinned", "\n".join(lines)), {"pins": rows[:MAX_LISTED]})

    async def explain_turn(self, target: ConversationTarget, turn: str | None = None) -> MemoryAnswer:
        """Explain what a model was shown in a turn: the tokens of each section and where they came from,
        what was left out and why, what was cached, and what changed since the turn before.

        Args:
            turn: Its number in the conversation, or its id; leave it out for the newest.
        """
        turns = await list_turns(*target)
        if not turns:
            text = (
                "No turn of this conversation is recorded: agents record theirs, stored messages have none."
            )
            return MemoryAnswer(text, {"turn": None, "turns": []})
        listed = [
            {"number": one.number, "id": one.id, "position": one.position} for one in turns[-MAX_LISTED:]
        ]
        try:
            report = await inspect_turn(*target, turn)
        except UnknownTurn:
            there = ", ".join(str(one.number or one.id) for one in turns[-NAMES_LISTED:] if one.has_context)
            raise InvalidArguments(
                "explain_turn", f"names no recorded turn; there are {there}", argument="turn"
            ) from None
        return MemoryAnswer(_describe_turn(report), {"turn": _turn_row(report), "turns": listed})

    # -- editing ----------------------------------------------------------------------------------

    async def pin_message(self, target: ConversationTarget, position: int) -> MemoryAnswer:
        """Pin a message: every later context of the conversation shows it word for word.

        Args:
            position: The position of the message.
        """
        message_id = await self._find_message("pin_message", target, position)
        await target.memory.pin(*target[1:], message_id)
        return MemoryAnswer(f"Message {position} is pinned.", {"pinned": position})

    async def remember(
        self, text: str, conversation: str | None = None, agent: str | None = None
    ) -> MemoryAnswer:
        """Store something that is worth knowing later, word for word; `search_memory` finds it.

        Args:
            text: What to remember, in sentences that can be understood alone.
            conversation: Where to store it, after what was said there; without it, in `notes`.
            agent: With which agent, where two have conversations of that name.
        """
        if not text.strip():
            raise InvalidArguments("remember", "is empty; give what to remember", argument="text")
        name = self._conversation or conversation or NOTES
        keys = await self._keys_of(name, agent)
        if len(keys) > 1:
            raise self._ambiguous("remember", keys)
        key = keys[0] if keys else make_key(self._agent or agent or "", self._scope, name)
        position = await self._memory.for_agent(key.agent).add_message(*key[1:], Message("user", text))
        told = f"Stored at position {position} of {key.conversation!r}{_with_agent(key.agent)}."
        return MemoryAnswer(told, {**_names(key), "position": position})

    async def unpin_message(self, target: ConversationTarget, position: int) -> MemoryAnswer:
        """Let a pinned message go: it is summarized like any other.

        Args:
            position: The position of the message.
        """
        message_id = await self._find_message("unpin_message", target, position)
        await target.memory.unpin(*target[1:], message_id)
        text = f"Message {position} is not pinned any more."
        return MemoryAnswer(text, {"unpinned": position})

    async def add_fact(self, target: ConversationTarget, kind: FactKind, text: str) -> MemoryAnswer:
        """Write down something that holds from now on in a conversation.

        Args:
            kind: What kind of fact it is.
            text: The fact, in one short sentence that can be understood alone.
        """
        fact = await target.memory.facts(*target[1:]).add(kind, text)
        return MemoryAnswer(f"Added: {fact_line(fact)}", {"fact": _fact_row(fact)})

    async def replace_fact(self, target: ConversationTarget, fact_id: str, text: str) -> MemoryAnswer:
        """Put a new fact in the place of one that no longer holds; the old one stays in the history.

        Args:
            fact_id: The id of the fact that is replaced, as `list_facts` shows it.
            text: What holds instead.
        """
        facts = target.memory.facts(*target[1:])
        fact = await facts.replace(fact_id, text)
        return MemoryAnswer(f"Replaced: {fact_line(fact)}", {"fact": _fact_row(fact)})

    async def remove_fact(self, target: ConversationTarget, fact_id: str) -> MemoryAnswer:
        """Forget a fact that was never true. For one that no longer holds, use `replace_fact`.

        Args:
            fact_id: The id of the fact, as `list_facts` shows it.
        """
        await target.memory.facts(*target[1:]).remove(fact_id)
        return MemoryAnswer(f"Removed {fact_id}.", {"removed": fact_id})

    # -- names ------------------------------------------------------------------------------------

    async def _agents(self, agent: str | None) -> list[str]:
        if self._agent is not None:
            return [self._agent]
        if agent is not None:
            return [agent]
        return await self._memory.agents(scope=self._scope, limit=MAX_AGENTS)

    async def _find(self, tool: str, conversation: str | None, agent: str | None) -> Key:
        """The one conversation that is meant, within what is fixed."""
        agents = await self._agents(agent)
        name = self._conversation if conversation is None else conversation
        if name is None:
            agent = agents[0] if agent is not None or self._agent is not None else None
            infos = await self._memory.conversations(self._scope, agent=agent, limit=MAX_LISTED)
            keys = [one.key for one in infos]
        else:
            keys = await self._keys_of(name, agent)
        if len(keys) == 1:
            return keys[0]
        if keys and name is not None:
            raise self._ambiguous(tool, keys)
        if keys:
            raise InvalidArguments(tool, f"is needed; there are {_list_names(keys)}", argument=CONVERSATION)
        raise InvalidArguments(tool, await self._describe_unknown(name, agents), argument=CONVERSATION)

    async def _keys_of(self, name: str, agent: str | None) -> list[Key]:
        """The conversations of a name that have messages."""
        keys = [make_key(one, self._scope, name) for one in await self._agents(agent)]
        return [key for key in keys if (await self._memory.for_agent(key.agent).head(*key[1:])).count]

    def _ambiguous(self, tool: str, keys: Sequence[Key]) -> InvalidArguments:
        there = ", ".join(repr(key.agent) for key in keys)
        problem = f"is needed: the agents {there} have conversations of this name"
        return InvalidArguments(tool, problem, argument=AGENT)

    async def _describe_unknown(self, name: str | None, agents: Sequence[str]) -> str:
        if self._conversation is not None or name is None:
            return "is of no use yet: there are no messages"
        infos = []
        for agent in agents:
            infos += await self._memory.conversations(self._scope, agent=agent, limit=MAX_LISTED)
        near = set(near_names(name, {one.conversation for one in infos}, limit=NAMES_LISTED))
        keys = [one.key for one in infos if one.conversation in near] or [one.key for one in infos]
        there = f"there are {_list_names(keys)}" if keys else "there are none"
        return f"names no conversation that has messages; {there}"

    async def _find_message(self, tool: str, target: ConversationTarget, position: int) -> str:
        """The id of the message at a position."""
        end = (await target.memory.head(*target[1:])).position
        if 1 <= position <= end:
            found = await target.memory.read(*target[1:], after=position - 1, before=position + 1)
            if found.entries:
                return found.entries[0].message.id
        problem = f"names no message; positions go from 1 to {end}, and some may have been deleted"
        raise InvalidArguments(tool, problem, argument="position")

    async def _only_info(self) -> dict[str, Any] | None:
        for agent in await self._agents(None):
            key = make_key(agent, self._scope, self._conversation or "")
            window = await self._memory.for_agent(agent).read(*key[1:], limit=1)
            if window.entries:
                at = window.entries[0].message.created_at
                oldest = await self._memory.for_agent(agent).read(*key[1:], before=2)
                begin = oldest.entries[0].message.created_at if oldest.entries else at
                return _info_row(key, window.head.count, begin, at)
        return None

    def _parse_cursor(self, after: str, agent: str | None) -> Key:
        parts = [unquote(part) for part in after.split("/")]
        if len(parts) != 2 or agent not in (None, parts[0]):
            problem = "is not a place in a list; give the `next` of the previous list unchanged"
            raise InvalidArguments("list_conversations", problem, argument="after")
        return make_key(parts[0], self._scope, parts[1])


def _between(tool: str, argument: str, value: int, most: int) -> int:
    if value < 1:
        raise InvalidArguments(tool, f"must be at least 1, but {value} came", argument=argument)
    return min(value, most)


def _names(key: Key) -> dict[str, Any]:
    return {"agent": key.agent, "conversation": key.conversation}


def _row(key: Key, entry: Entry) -> dict[str, Any]:
    message = entry.message
    return {
        **_names(key),
        "position": entry.position,
        "role": message.role.value,
        "at": message.created_at.isoformat(),
        "text": _clamp(message.text),
    }


def _info_row(key: Key, messages: int, first_at: datetime, last_at: datetime) -> dict[str, Any]:
    times = {"first_at": first_at.isoformat(), "last_at": last_at.isoformat()}
    return {**_names(key), "messages": messages, **times}


def _with_agent(agent: str) -> str:
    return f" with the agent {agent!r}" if agent else ""


def _list_names(keys: Sequence[Key]) -> str:
    listed = ", ".join(f"{key.conversation!r}{_with_agent(key.agent)}" for key in keys[:NAMES_LISTED])
    return listed if len(keys) <= NAMES_LISTED else f"{listed} and more: `list_conversations` lists them"


def _cursor(key: Key) -> str:
    return f"{quote(key.agent, safe='')}/{quote(key.conversation, safe='')}"


def _clamp(text: str) -> str:
    return clamp_text(text, ROW_TOKENS, estimate_tokens)


def _quote(label: str, text: str) -> str:
    """Put text of users and models between marks that it cannot close."""
    return wrap_untrusted(label, text, nonce(text))


def _fact_row(fact: Fact) -> dict[str, Any]:
    return _fields(fact, "id", "kind", "text", "state", "position") | {"text": _clamp(fact.text)}


def _turn_row(report: TurnReport) -> dict[str, Any]:
    return {
        **_fields(report, "id", "number", "position", "at", "model", "steps", "tokens", "tool_tokens"),
        **_fields(report, "request_tokens", "cached_tokens", "previous"),
        "at": report.at.isoformat(),
        "sections": [_fields(one, "name", "status", "tokens", "cached_tokens") for one in report.sections],
        "changes": list(report.changes)[:MAX_LISTED],
    }


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _describe_turn(report: TurnReport) -> str:
    began = "" if report.position is None else f", begun by the message at position {report.position}"
    budget = "" if report.budget is None else f" of {report.budget.max_tokens:,}"
    lines = [
        f"Turn {report.number or report.id}{began}, {report.at.isoformat()[:16]} UTC, "
        f"model {report.model or 'not known'}.",
        f"The context had {report.tokens:,}{budget} tokens, {report.cached_tokens:,} of them in the shared "
        f"prefix, and {report.tool_tokens or 0:,} tokens of tools. Step {report.step} of {report.steps}.",
        "Sections:",
        *[f"- {_describe_section(one)}" for one in report.sections],
    ]
    changes = [f"- {change}" for change in report.changes[:MAX_LISTED]]
    before = "Since the previous turn:" if report.previous is not None else "It is the first recorded turn."
    return "\n".join([*lines, before, *(changes or (["- nothing changed"] if report.previous else []))])


def _describe_section(section: TurnSection) -> str:
    if section.status != "included":
        return f"{section.name}: left out, {section.reason or section.status}"
    told = f"{section.name}: {section.tokens:,} tokens, from {section.source}"
    omitted = [f"{one.count} {one.what} not shown ({one.reason})" for one in section.omitted]
    cut = [f"{one.messages} messages {one.what} ({one.reason})" for one in section.cut]
    return "; ".join([told, *omitted, *cut])
