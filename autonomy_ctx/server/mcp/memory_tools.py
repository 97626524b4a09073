"""The tools of an MCP client for a memory: search, read and explain one scope, and optionally edit it.

The scope is fixed when the tools are made; the agent and the conversation can be fixed too. A fixed value is
not a parameter, so no call can choose another one. Every answer is text for a model and the same as data,
both of bounded size.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from inspect import BoundArguments
from typing import Any
from urllib.parse import quote, unquote

from autonomy_ctx.errors import InvalidArguments, UnknownFact
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
from autonomy_ctx.tools.arguments import convert_arguments
from autonomy_ctx.tools.output import cap_text, clean_text
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
CONVERSATION, AGENT = "conversation", "agent"
# A tool injects values under these names, so its function has others. Up to 0.2, clients had to use those.
PUBLIC_NAMES = {"conversation_name": CONVERSATION, "agent_name": AGENT}
FUNCTION_NAMES = {public: name for name, public in PUBLIC_NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer:
    """The answer of a tool: text for a model, and the same as data."""

    text: str
    data: dict[str, Any]


class MemoryTool(Tool[..., Awaitable[MemoryAnswer]]):
    """A tool of a memory, without the parameters that are fixed, and what it may do."""

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
        self._fixed = fixed

    @property
    def parameters(self) -> Parameters:
        """The parameters that are not fixed, under the names that clients use."""
        kind = super().parameters.object_kind
        renamed = [replace(one, name=PUBLIC_NAMES.get(one.name, one.name)) for one in kind.fields]
        fields = tuple(one for one in renamed if one.name not in self._fixed)
        return Parameters(replace(kind, fields=fields), {}, None)

    def bind(self, arguments: Mapping[str, Any], inject: Mapping[str, Any]) -> BoundArguments:
        """The arguments of a client, checked and converted, for the function."""
        given = {PUBLIC_NAMES.get(name, name): value for name, value in arguments.items()}
        values = convert_arguments(self.name, self.parameters.object_kind, given)
        return self.signature.bind(**{FUNCTION_NAMES.get(name, name): one for name, one in values.items()})


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
        tool = self.tools[name]
        bound = tool.bind(arguments, {})
        try:
            answer = await tool.function(*bound.args, **bound.kwargs)
        except UnknownFact:
            problem = "names no fact that holds; `list_facts` shows those that do"
            raise InvalidArguments(name, problem, argument="fact_id") from None
        text = cap_text(clean_text(answer.text), TEXT_LIMIT)
        for former in PUBLIC_NAMES.keys() & arguments.keys():
            text += f"\nNote: the argument `{former}` is called `{PUBLIC_NAMES[former]}` now."
        return replace(answer, text=text)

    def _tool(
        self, function: Callable[..., Awaitable[MemoryAnswer]], title: str, **hints: bool
    ) -> MemoryTool:
        return MemoryTool(function, title=title, fixed=self._fixed, **hints)

    # -- reading ----------------------------------------------------------------------------------

    async def search_memory(
        self,
        query: str,
        limit: int = 10,
        conversation_name: str | None = None,
        agent_name: str | None = None,
    ) -> MemoryAnswer:
        """Find what was said in earlier conversations: the messages that fit a question best, with those
        around them. Start here, then read on with `read_messages`.

        Args:
            query: What to look for. Names, numbers and the words that were used find most.
            limit: About how many messages to show, at most 50.
            conversation_name: Only in this conversation; leave it out to search all.
            agent_name: Only in conversations with this agent; leave it out for all.
        """
        limit = _between("search_memory", "limit", limit, MAX_FOUND)
        found: list[str] = []
        rows: list[dict[str, Any]] = []
        conversation = self._conversation if conversation_name is None else conversation_name
        for agent in await self._agents(agent_name):
            view = self._memory.for_agent(agent)
            result = await recall(
                view,
                self._scope,
                query,
                conversation=conversation,
                max_tokens=max(limit * MESSAGE_TOKENS, MIN_FOUND_TOKENS),
            )
            if result.passages:
                found.append(f"With the agent {agent}:\n{result.text}" if agent else result.text)
            rows += [
                self._row(Key(agent, self._scope, hit.conversation), Entry(hit.position, hit.message))
                for hit in result.passages[:MAX_FOUND]
            ]
        if not rows:
            text = "No message has these words. Try other words, or fewer."
            return MemoryAnswer(text=text, data={"messages": []})
        found.append("`read_messages` shows what was said around a position.")
        return MemoryAnswer(text="\n".join(found), data={"messages": rows[:MAX_LISTED]})

    async def list_conversations(
        self, limit: int = 20, after: str | None = None, agent_name: str | None = None
    ) -> MemoryAnswer:
        """List the conversations there are, by name, with how many messages each has and when it was held.

        Args:
            limit: How many to list, at most 100.
            after: The `next` of the list before, to go on with it.
            agent_name: Only those with this agent; leave it out for all.
        """
        limit = _between("list_conversations", "limit", limit, MAX_LISTED)
        if self._conversation is not None:
            infos = [one for one in [await self._only_info()] if one is not None]
            following = None
        else:
            agent = self._agent if agent_name is None else agent_name
            key = None if after is None else self._parse_cursor(after, agent)
            page = await self._memory.conversations(self._scope, agent=agent, limit=limit, after=key)
            infos = [_info_row(one.key, one.messages, one.first_at, one.last_at) for one in page]
            following = _cursor(page[-1].key) if len(page) == limit else None
        if not infos:
            return MemoryAnswer(text="There are no conversations.", data={"conversations": [], "next": None})
        lines = [
            f"{row['conversation']!r}{_with_agent(row['agent'])}: {row['messages']} messages, "
            f"{row['first_at'][:16]} to {row['last_at'][:16]} UTC"
            for row in infos
        ]
        if following is not None:
            lines.append(f"There may be more: list_conversations(after={following!r})")
        return MemoryAnswer(text="\n".join(lines), data={"conversations": infos, "next": following})

    async def read_messages(
        self,
        first: int | None = None,
        last: int | None = None,
        offset: int = 0,
        conversation_name: str | None = None,
        agent_name: str | None = None,
    ) -> MemoryAnswer:
        """Read a conversation word for word, from one position to another, a page at a time; without
        positions, its newest messages.

        Args:
            first: The position of the first message; positions count from 1.
            last: The position of the last message.
            offset: How many characters of the first message to pass over, to read on in a long one.
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key = await self._find("read_messages", conversation_name, agent_name)
        view = self._memory.for_agent(key.agent)
        end = (await view.head(key.scope, key.conversation)).position
        last = end if last is None else last
        first = max(1, min(last, end) - NEWEST_MESSAGES + 1) if first is None else first
        page = await read_page(view, key.scope, key.conversation, first, last, offset=offset)
        reading_on = {"first": page.next, "last": last, "offset": page.offset}
        text = f"Conversation {key.conversation!r}, which has positions 1 to {end}:\n{page.text}"
        if page.next is not None:
            told = ", ".join(f"{name}={value}" for name, value in reading_on.items() if value)
            text += f"\nThere is more: read_messages({told})"
        data = {**_names(key), "first": first, "end": end, "next": reading_on if page.next else None}
        return MemoryAnswer(text=text, data=data)

    async def read_summary(
        self, conversation_name: str | None = None, agent_name: str | None = None
    ) -> MemoryAnswer:
        """Read the summary of the older part of a conversation, with the positions that each part covers.

        Args:
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key = await self._find("read_summary", conversation_name, agent_name)
        segments = (await self._memory.for_agent(key.agent).summary(key.scope, key.conversation)).segments
        if not segments:
            text = "Nothing of this conversation is summarized; `read_messages` shows all of it."
            return MemoryAnswer(text=text, data={**_names(key), "parts": []})
        blocks = [f"Messages {one.first} to {one.last}:\n{_quote('summary', one.text)}" for one in segments]
        parts = [{"first": one.first, "last": one.last, "text": _clamp(one.text)} for one in segments]
        return MemoryAnswer(text="\n".join(blocks), data={**_names(key), "parts": parts[-MAX_LISTED:]})

    async def list_facts(
        self, with_old: bool = False, conversation_name: str | None = None, agent_name: str | None = None
    ) -> MemoryAnswer:
        """List what holds now in a conversation: goals, rules, preferences, values, decisions, open points
        and artifacts, each with its id.

        Args:
            with_old: Also what was replaced, removed or is done.
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key = await self._find("list_facts", conversation_name, agent_name)
        facts = self._memory.for_agent(key.agent).facts(key.scope, key.conversation)
        found = (await facts.history() if with_old else await facts)[-MAX_FACTS:]
        lines = [fact_line(one) + (f" ({one.state})" if one.state != "holds" else "") for one in found]
        text = _quote("facts", "\n".join(lines)) if lines else "No facts are known of this conversation yet."
        return MemoryAnswer(text=text, data={**_names(key), "facts": [_fact_row(one) for one in found]})

    async def read_profile(self, agent_name: str | None = None) -> MemoryAnswer:
        """Read what is known of this user or tenant over all conversations: preferences, rules and facts.

        Args:
            agent_name: Only what this agent knows; leave it out for all.
        """
        rows = []
        for agent in await self._agents(agent_name):
            for one in await self._memory.for_agent(agent).profile(self._scope):
                rows.append(
                    {
                        "agent": agent,
                        "kind": one.kind,
                        "text": _clamp(one.text),
                        "conversation": one.conversation,
                    }
                )
        if self._conversation is not None:
            # A profile tells what was said in other conversations, too.
            rows = [row for row in rows if row["conversation"] == self._conversation]
        if not rows:
            return MemoryAnswer(text="The profile is empty.", data={"entries": []})
        text = "\n".join(f"{row['kind']}: {row['text']}" for row in rows[:MAX_FACTS])
        return MemoryAnswer(text=_quote("profile", text), data={"entries": rows[:MAX_FACTS]})

    async def list_pins(
        self, conversation_name: str | None = None, agent_name: str | None = None
    ) -> MemoryAnswer:
        """List the pinned messages of a conversation: those that every context shows word for word.

        Args:
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key = await self._find("list_pins", conversation_name, agent_name)
        pins = (await self._memory.for_agent(key.agent).summary(key.scope, key.conversation)).pins
        if not pins:
            text = "No message of this conversation is pinned."
            return MemoryAnswer(text=text, data={**_names(key), "pins": []})
        lines = [f"[{pin.position}] {indent_continuations(format_message(pin.message, {}))}" for pin in pins]
        rows = [self._row(key, Entry(pin.position, pin.message)) for pin in pins]
        return MemoryAnswer(
            text=_quote("pinned", "\n".join(lines)), data={**_names(key), "pins": rows[:MAX_LISTED]}
        )

    async def explain_turn(
        self,
        turn: str | None = None,
        conversation_name: str | None = None,
        agent_name: str | None = None,
    ) -> MemoryAnswer:
        """Explain what a model was shown in a turn: the tokens of each section and where they came from,
        what was left out and why, what was cached, and what changed since the turn before.

        Args:
            turn: Its id, or the position of the user's message that began it; leave it out for the newest.
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key = await self._find("explain_turn", conversation_name, agent_name)
        view = self._memory.for_agent(key.agent)
        turns = await list_turns(view, key.scope, key.conversation)
        if not turns:
            text = (
                "No turn of this conversation is recorded: agents record theirs, stored messages have none."
            )
            return MemoryAnswer(text=text, data={**_names(key), "turn": None, "turns": []})
        chosen = [one.id for one in turns if turn in (None, one.id, str(one.position))]
        listed = [{"id": one.id, "position": one.position} for one in turns[-MAX_LISTED:]]
        if not chosen:
            there = ", ".join(str(one.position or one.id) for one in turns[-NAMES_LISTED:])
            raise InvalidArguments(
                "explain_turn", f"names no recorded turn; there are {there}", argument="turn"
            )
        report = await inspect_turn(view, key.scope, key.conversation, chosen[-1])
        return MemoryAnswer(
            text=_describe_turn(report), data={**_names(key), "turn": _turn_row(report), "turns": listed}
        )

    # -- editing ----------------------------------------------------------------------------------

    async def pin_message(
        self, position: int, conversation_name: str | None = None, agent_name: str | None = None
    ) -> MemoryAnswer:
        """Pin a message: every later context of the conversation shows it word for word.

        Args:
            position: The position of the message.
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key, message_id = await self._find_message("pin_message", position, conversation_name, agent_name)
        await self._memory.for_agent(key.agent).pin(key.scope, key.conversation, message_id)
        return MemoryAnswer(text=f"Message {position} is pinned.", data={**_names(key), "pinned": position})

    async def remember(
        self, text: str, conversation_name: str | None = None, agent_name: str | None = None
    ) -> MemoryAnswer:
        """Store something that is worth knowing later, word for word; `search_memory` finds it.

        Args:
            text: What to remember, in sentences that can be understood alone.
            conversation_name: Where to store it, after what was said there; without it, in `notes`.
            agent_name: With which agent, where two have conversations of that name.
        """
        if not text.strip():
            raise InvalidArguments("remember", "is empty; give what to remember", argument="text")
        name = self._conversation or conversation_name or NOTES
        keys = await self._keys_of(name, agent_name)
        if len(keys) > 1:
            raise self._ambiguous("remember", keys)
        key = keys[0] if keys else make_key(self._agent or agent_name or "", self._scope, name)
        position = await self._memory.for_agent(key.agent).add_message(*key[1:], Message("user", text))
        told = f"Stored at position {position} of {key.conversation!r}{_with_agent(key.agent)}."
        return MemoryAnswer(text=told, data={**_names(key), "position": position})

    async def unpin_message(
        self, position: int, conversation_name: str | None = None, agent_name: str | None = None
    ) -> MemoryAnswer:
        """Let a pinned message go: it is summarized like any other.

        Args:
            position: The position of the message.
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key, message_id = await self._find_message("unpin_message", position, conversation_name, agent_name)
        await self._memory.for_agent(key.agent).unpin(key.scope, key.conversation, message_id)
        text = f"Message {position} is not pinned any more."
        return MemoryAnswer(text=text, data={**_names(key), "unpinned": position})

    async def add_fact(
        self,
        kind: FactKind,
        text: str,
        conversation_name: str | None = None,
        agent_name: str | None = None,
    ) -> MemoryAnswer:
        """Write down something that holds from now on in a conversation.

        Args:
            kind: What kind of fact it is.
            text: The fact, in one short sentence that can be understood alone.
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key = await self._find("add_fact", conversation_name, agent_name)
        fact = await self._memory.for_agent(key.agent).facts(key.scope, key.conversation).add(kind, text)
        return MemoryAnswer(text=f"Added: {fact_line(fact)}", data={**_names(key), "fact": _fact_row(fact)})

    async def replace_fact(
        self,
        fact_id: str,
        text: str,
        conversation_name: str | None = None,
        agent_name: str | None = None,
    ) -> MemoryAnswer:
        """Put a new fact in the place of one that no longer holds; the old one stays in the history.

        Args:
            fact_id: The id of the fact that is replaced, as `list_facts` shows it.
            text: What holds instead.
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key = await self._find("replace_fact", conversation_name, agent_name)
        facts = self._memory.for_agent(key.agent).facts(key.scope, key.conversation)
        fact = await facts.replace(fact_id, text)
        return MemoryAnswer(
            text=f"Replaced: {fact_line(fact)}", data={**_names(key), "fact": _fact_row(fact)}
        )

    async def remove_fact(
        self, fact_id: str, conversation_name: str | None = None, agent_name: str | None = None
    ) -> MemoryAnswer:
        """Forget a fact that was never true. For one that no longer holds, use `replace_fact`.

        Args:
            fact_id: The id of the fact, as `list_facts` shows it.
            conversation_name: Which conversation; not needed where there is only one.
            agent_name: With which agent, where two have conversations of that name.
        """
        key = await self._find("remove_fact", conversation_name, agent_name)
        await self._memory.for_agent(key.agent).facts(key.scope, key.conversation).remove(fact_id)
        return MemoryAnswer(text=f"Removed {fact_id}.", data={**_names(key), "removed": fact_id})

    # -- names ------------------------------------------------------------------------------------

    async def _agents(self, agent_name: str | None) -> list[str]:
        if self._agent is not None:
            return [self._agent]
        if agent_name is not None:
            return [agent_name]
        return await self._memory.agents(scope=self._scope, limit=MAX_AGENTS)

    async def _find(self, tool: str, conversation_name: str | None, agent_name: str | None) -> Key:
        """The one conversation that is meant, within what is fixed."""
        agents = await self._agents(agent_name)
        name = self._conversation if conversation_name is None else conversation_name
        if name is None:
            agent = agents[0] if agent_name is not None or self._agent is not None else None
            infos = await self._memory.conversations(self._scope, agent=agent, limit=MAX_LISTED)
            keys = [one.key for one in infos]
        else:
            keys = await self._keys_of(name, agent_name)
        if len(keys) == 1:
            return keys[0]
        if keys and name is not None:
            raise self._ambiguous(tool, keys)
        if keys:
            raise InvalidArguments(tool, f"is needed; there are {_list_names(keys)}", argument=CONVERSATION)
        raise InvalidArguments(tool, await self._describe_unknown(name, agents), argument=CONVERSATION)

    async def _keys_of(self, name: str, agent_name: str | None) -> list[Key]:
        """The conversations of a name that have messages."""
        keys = [make_key(agent, self._scope, name) for agent in await self._agents(agent_name)]
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

    async def _find_message(
        self, tool: str, position: int, conversation_name: str | None, agent_name: str | None
    ) -> tuple[Key, str]:
        key = await self._find(tool, conversation_name, agent_name)
        view = self._memory.for_agent(key.agent)
        end = (await view.head(*key[1:])).position
        if 1 <= position <= end:
            found = await view.read(*key[1:], after=position - 1, before=position + 1)
            if found.entries:
                return key, found.entries[0].message.id
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
            problem = "is no place in a list; give the `next` of the list before as it is"
            raise InvalidArguments("list_conversations", problem, argument="after")
        return make_key(parts[0], self._scope, parts[1])

    def _row(self, key: Key, entry: Entry) -> dict[str, Any]:
        message = entry.message
        return {
            **_names(key),
            "position": entry.position,
            "role": message.role.value,
            "at": message.created_at.isoformat(),
            "text": _clamp(message.text),
        }


def _between(tool: str, argument: str, value: int, most: int) -> int:
    if value < 1:
        raise InvalidArguments(tool, f"must be at least 1, but {value} came", argument=argument)
    return min(value, most)


def _names(key: Key) -> dict[str, Any]:
    return {"agent": key.agent, "conversation": key.conversation}


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
    return {
        "id": fact.id,
        "kind": fact.kind,
        "text": _clamp(fact.text),
        "state": fact.state,
        "position": fact.position,
    }


def _turn_row(report: TurnReport) -> dict[str, Any]:
    return {
        "id": report.id,
        "position": report.position,
        "at": report.at.isoformat(),
        "model": report.model,
        "steps": report.steps,
        "tokens": report.tokens,
        "tool_tokens": report.tool_tokens,
        "cached_tokens": report.cached_tokens,
        "sections": [
            {"name": one.name, "status": one.status, "tokens": one.tokens, "cached_tokens": one.cached_tokens}
            for one in report.sections
        ],
        "changes": list(report.changes)[:MAX_LISTED],
        "previous": report.previous,
    }


def _describe_turn(report: TurnReport) -> str:
    began = "" if report.position is None else f", begun by the message at position {report.position}"
    budget = "" if report.budget is None else f" of {report.budget.max_tokens:,}"
    lines = [
        f"Turn {report.id}{began}, {report.at.isoformat()[:16]} UTC, model {report.model or 'not known'}.",
        f"The context had {report.tokens:,}{budget} tokens, {report.cached_tokens:,} of them as in the one "
        f"before, and {report.tool_tokens or 0:,} tokens of tools. Step {report.step} of {report.steps}.",
        "Sections:",
        *[f"- {_describe_section(one)}" for one in report.sections],
    ]
    changes = [f"- {change}" for change in report.changes[:MAX_LISTED]]
    before = "Since the turn before:" if report.previous is not None else "It is the first recorded turn."
    return "\n".join([*lines, before, *(changes or (["- nothing changed"] if report.previous else []))])


def _describe_section(section: TurnSection) -> str:
    if section.status != "included":
        return f"{section.name}: left out, {section.reason or section.status}"
    told = f"{section.name}: {section.tokens:,} tokens, from {section.source}"
    omitted = [f"{one.count} {one.what} not shown ({one.reason})" for one in section.omitted]
    cut = [f"{one.messages} messages {one.what} ({one.reason})" for one in section.cut]
    return "; ".join([told, *omitted, *cut])
