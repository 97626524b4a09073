"""`Memory`: the log of every conversation, with search, pins and summaries, on any store.

Messages are appended and never rewritten. They are read a window at a time.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from autonomy_ctx._lazy import former_method
from autonomy_ctx.background import AsyncResource, Chunks
from autonomy_ctx.errors import SharedTurn, StoreError
from autonomy_ctx.formats.any_reply import read_answer
from autonomy_ctx.hooks import Hook, fire, validate_hooks
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.cache import WindowCache, forget_deleted
from autonomy_ctx.memory.ranking import SPARE_HITS, rank_statements_first
from autonomy_ctx.memory.registry import StoreOptions, check_store, open_store
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import (
    MAX_POSITION,
    ConversationInfo,
    Draft,
    Entry,
    Head,
    Key,
    RecordDraft,
    SearchHit,
    SummaryState,
    TurnStart,
    TurnToken,
    Window,
    check_cursor,
    check_name,
    make_key,
)
from autonomy_ctx.memory.summary_blocks import BLOCK_KIND
from autonomy_ctx.memory.term_index import TermIndexes
from autonomy_ctx.memory.turn_figures import carry_number
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.events import is_said_by_user
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Message, check_call_id, new_id, now
from autonomy_ctx.messages.text_cache import forget_texts
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.validation import check_int

if TYPE_CHECKING:
    from autonomy_ctx.embedders import EmbedderLike
    from autonomy_ctx.memory.facts import ConversationFacts
    from autonomy_ctx.memory.profile import ScopeProfile
    from autonomy_ctx.memory.sqlite.threads import Synchronous
    from autonomy_ctx.memory.vector_index import VectorIndex

logger = logging.getLogger("autonomy_ctx.memory")

# How many names or conversations a listing gives at a time.
PAGE_SIZE = 100
# How many messages are read at a time to find where a turn begins.
TURN_LOOKBACK = 64


class MemoryHook(Enum):
    """The events of a memory. A hook gets the scope, the conversation, and messages or a number of them.

    If a `BEFORE_APPEND` hook fails, the messages are not stored. The conversation is None if a whole scope
    was deleted. An `AFTER_FORK` hook gets the name of the fork.
    """

    BEFORE_APPEND = "before_append"
    AFTER_APPEND = "after_append"
    AFTER_DELETE = "after_delete"
    AFTER_FORK = "after_fork"


class Memory(AsyncResource):
    """Conversations by scope and name.

    `Memory()` lives in this process, `Memory("sqlite:///path.db")` on disk, and
    `Memory("postgresql://user@host/database")` on a server, for many processes and machines;
    `register_store` adds other kinds of URLs.

    With an `embedder`, messages are also found by meaning: their vectors are computed in the background and
    kept in the store. A search waits for the embedder at most `embedder_timeout` seconds.

    An agent uses `memory.for_agent(name)`; agents that should share a log use the same view.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        store: Store | None = None,
        timeout: float = 30.0,
        synchronous: Synchronous = "FULL",
        accept_shorter: bool = False,
        pool_size: int = 10,
        listen_dsn: str | None = None,
        embedder: EmbedderLike | None = None,
        embedder_timeout: float = 0.3,
        token_counter: TokenCounter | None = None,
        clock: Callable[[], datetime] = now,
        new_id: Callable[[], str] = new_id,
        hooks: Iterable[Hook] | None = None,
    ) -> None:
        if url is not None and store is not None:
            raise ValueError("give memory a url or a store, not both")

        if not isinstance(url, str | None):
            raise TypeError(f"url must be text such as 'sqlite:///memory.db', not {type(url).__name__}")

        def seconds() -> float:
            return clock().timestamp()

        if store is None:
            options = StoreOptions(
                timeout=timeout,
                synchronous=synchronous,
                accept_shorter=accept_shorter,
                pool_size=pool_size,
                listen_dsn=listen_dsn,
                clock=time.time if clock is now else seconds,
            )
            store = open_store(url, options)
        self.agent = ""
        self.token_counter = token_counter or TokenCounter()
        check_store(store)
        self._store: Store = store
        # The turn that this view writes, see `in_turn`.
        self._turn: TurnToken | None = None
        self._window_cache = WindowCache(store)
        self.vector_index: VectorIndex | None = None
        if embedder is not None:
            # Imported here: a memory without an embedder does not need it.
            from autonomy_ctx.memory.vector_index import VectorIndex

            self.vector_index = VectorIndex(store, embedder, timeout=embedder_timeout)
        # For recall.
        self.term_indexes = TermIndexes()
        self._clock, self._new_id = clock, new_id
        self.hooks = validate_hooks(hooks, MemoryHook)
        self._instructions: list[Message] = []
        self._metrics = {"messages_added": 0, "messages_deleted": 0, "reads": 0}

    def for_agent(self, name: str) -> Memory:
        """A view of this memory for one agent: its own conversations, separate from those of other agents."""
        check_name("agent", name)
        view = copy.copy(self)
        view.agent = name
        view._instructions = list(self._instructions)
        return view

    def in_turn(self, turn: TurnToken) -> Memory:
        """A view of this memory for one turn: after the turn has lost its lease, appends raise `TurnLost`."""
        view = copy.copy(self)
        view._turn = turn
        return view

    # -- writing --------------------------------------------------------------------------------

    async def append(
        self,
        scope: str,
        conversation: str,
        *messages: Message | Mapping[str, Any] | Any,
        request: Mapping[str, Any] | None = None,
        full_texts: Mapping[str, str] = EMPTY,
        ends_turn: bool = False,
        records: Sequence[RecordDraft] = (),
        after: int | None = None,
    ) -> list[int]:
        """Store messages, all or none, and return their positions. When the call returns, they are stored.

        The reply object of a provider's SDK is accepted as a message too. If the reply has thinking, pass the
        arguments that it answers as `request`: a context then knows whether the thinking still fits. A dict
        with `tool_use` or `tool_result` blocks, as for Anthropic's API, is accepted too; with several results
        it becomes several messages.

        A message whose id is already stored with the same content is not stored again; its old position is
        returned. So after an error with an unknown outcome, send the same message again.

        `full_texts` has, by message id, the full text of tool results that are shortened in the messages;
        `get_full_message` returns it.

        In a turn (see `in_turn`), `TurnLost` is raised if another turn has begun. `ends_turn` releases the
        lease of the turn in the same transaction. `records` are stored with the messages, in one
        transaction where the store supports that. With `after`, nothing is stored, and there are no
        positions, if the log does not end at this position.
        """
        key = make_key(self.agent, scope, conversation)
        if request is not None:
            messages = tuple(
                read_answer(one, request, new_id=self._new_id, now=self._clock) for one in messages
            )
        drafts = await self._make_drafts(messages, full_texts)
        said = await self._fire_before_append(key, drafts)
        self._window_cache.note_writing(key)
        if (turn := self._turn_of(key)) is not None:
            append = self._store.append_and_read_head
            positions, head = await append(key, drafts, records, turn=turn, ends=ends_turn)
            # A hook may write or delete before the turn reads.
            if head is not None and not self.hooks:
                self._window_cache.note_appended(turn, head, positions, drafts)
        else:
            positions = (
                await self._store.append(key, drafts, records, after=after) if drafts or records else []
            )
        await self._note_appended(key, said, positions)
        return positions

    async def begin_turn(
        self,
        scope: str,
        conversation: str,
        *messages: Message | Mapping[str, Any] | Any,
        owner: str,
        seconds: float,
        ticket: int | None = None,
        after: int | None = None,
        unless: str | None = None,
        records: str | None = None,
    ) -> TurnStart:
        """Acquire the lease of a turn and store its first messages, or take a place in the queue.

        The `positions` of the result are None while other turns come first: wait (`store.wait_for_turn`),
        then call this again with the `ticket`. With `after`, nothing is stored if the log does not end at
        this position; with `unless`, if there are records of this kind. `records` is a kind to read.
        """
        key = make_key(self.agent, scope, conversation)
        drafts = await self._make_drafts(messages, EMPTY)
        said = await self._fire_before_append(key, drafts)
        self._window_cache.note_writing(key)
        start = await self._store.begin_turn(
            key,
            drafts,
            owner=owner,
            seconds=seconds,
            ticket=ticket,
            after=after,
            unless=unless,
            records=records,
        )
        if start.positions:
            if start.head is not None and not self.hooks:
                turn = TurnToken(key, start.ticket, owner)
                self._window_cache.note_appended(turn, start.head, start.positions, drafts)
            await self._note_appended(key, said, start.positions)
        return start

    async def add_message(
        self, scope: str, conversation: str, message: Message | Mapping[str, Any] | Any
    ) -> int:
        """Store one message and return its position; of a dict that becomes several, that of the first."""
        return (await self.append(scope, conversation, message))[0]

    async def add_messages(
        self, scope: str, conversation: str, messages: Sequence[Message | Mapping[str, Any] | Any]
    ) -> list[int]:
        """Store several messages in one transaction and return their positions."""
        return await self.append(scope, conversation, *messages)

    async def delete_message(self, scope: str, conversation: str, message_id: str) -> bool:
        """Delete one message. Returns whether it was there."""
        make_key(self.agent, scope, conversation)
        encoding.check_id(message_id)
        return await self._delete(scope, self.agent, conversation, [message_id]) > 0

    async def delete_conversation(self, scope: str, conversation: str) -> int:
        """Delete all messages of a conversation, and return how many there were.

        A fork loses only its own messages. Shared messages stay in the other conversations and are not
        counted.
        """
        make_key(self.agent, scope, conversation)
        return await self._delete(scope, self.agent, conversation, None)

    async def drop_last_turn(self, scope: str, conversation: str) -> int:
        """Delete the user's newest message and all messages after it, and return how many were deleted.

        Mail of other agents is not a message of the user, so it does not begin a turn. A turn that a fork
        shares is not deleted: `SharedTurn` is raised.
        """
        entries = await self._read_last_turn(scope, conversation)
        if not entries:
            return 0
        if entries[0].position <= await self._store.shared_until(make_key(self.agent, scope, conversation)):
            raise SharedTurn(conversation=conversation, position=entries[0].position)
        return await self._delete(scope, self.agent, conversation, [entry.message.id for entry in entries])

    async def fork(
        self, scope: str, conversation: str, *, at: int | None = None, name: str | None = None
    ) -> str:
        """Make a conversation that shares the messages of another up to a position, and return its name.

        `at` is the last shared position, by default the newest. Summaries, facts and pins up to there also
        belong to the fork, and its turns continue with the next number. No message is copied and no model is
        called. Later messages, pins and summaries are separate. Deleting a shared message deletes it from
        both.
        """
        key = make_key(self.agent, scope, conversation)
        check_int("at", at, most=MAX_POSITION, optional=True)
        name = self._new_id() if name is None else name
        check_name("name", name)
        await self._store.fork(key, at, name)
        await carry_number(self._store, key, key._replace(conversation=name), at)
        if self.hooks:
            await fire(self.hooks, MemoryHook.AFTER_FORK, scope, conversation, name, done=True)
        return name

    async def delete_scope(self, scope: str) -> int:
        """Delete all data of a user or tenant, with all agents, and return how many messages there were."""
        check_name("scope", scope)
        return await self._delete(scope, None, None, None)

    def set_instructions(self, instructions: str | Mapping[str, Any] | Message | Sequence[Any]) -> None:
        """Set the instructions that `get_messages` puts before the history."""
        if isinstance(instructions, str):
            instructions = [Message("system", instructions, phase="system")]
        elif isinstance(instructions, Mapping | Message):
            instructions = [instructions]
        self._instructions = [wire.from_dict(message) for message in instructions]

    # -- reading --------------------------------------------------------------------------------

    async def read(
        self,
        scope: str,
        conversation: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
    ) -> Window:
        """The newest `limit` messages between two positions, and the head at the same moment."""
        key = make_key(self.agent, scope, conversation)
        check_int("limit", limit, least=0, most=MAX_POSITION, optional=True)
        check_int("after", after, least=0, most=MAX_POSITION)
        check_int("before", before, least=0, most=MAX_POSITION, optional=True)
        return await self.read_key(key, after=after, before=before, limit=limit)

    def read_key(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Awaitable[Window]:
        """Read a window of a key that is known to be valid, such as in a section; numbers are not checked."""
        self._metrics["reads"] += 1
        turn = self._turn_of(key)
        return self._window_cache.read(key, after=after, before=before, limit=limit, turn=turn)

    async def head(self, scope: str, conversation: str) -> Head:
        """The state of a conversation (last position, counts), without reading its messages."""
        return await self._store.head(make_key(self.agent, scope, conversation))

    async def history(
        self, scope: str = "default", conversation: str = "default", *, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """The messages of a conversation as dicts, the newest `limit` of them, oldest first.

        Without names, the conversation of an agent's turns that name none. Those of an agent are in the view
        `memory.for_agent(name)`.
        """
        return await self.get_messages_only(scope, conversation, limit=limit)

    async def get_messages_only(
        self, scope: str, conversation: str, *, limit: int | None = None, after: int = 0
    ) -> list[dict[str, Any]]:
        """The messages as dicts that belong to the caller; the newest `limit` of those after a position."""
        window = await self.read(scope, conversation, after=after, limit=limit)
        dicts: list[dict[str, Any]] = []
        async for entries in Chunks(window.entries):
            dicts += [wire.to_dict(entry.message) for entry in entries]
        return dicts

    async def get_messages(self, scope: str, conversation: str) -> list[dict[str, Any]]:
        """The instructions followed by all messages."""
        instructions = [wire.to_dict(message) for message in self._instructions]
        return instructions + await self.get_messages_only(scope, conversation)

    async def get_all_messages(
        self, scope: str, conversation: str, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """All messages ever stored; with a limit the newest."""
        return await self.get_messages_only(scope, conversation, limit=limit)

    async def get_full_message(self, scope: str, conversation: str, message_id: str) -> dict[str, Any] | None:
        """The full text of a tool result that was shortened in the log; None for other messages."""
        encoding.check_id(message_id)
        body = await self._store.full_text(make_key(self.agent, scope, conversation), message_id)
        if body is None:
            return None
        form: dict[str, Any] = await anyio.to_thread.run_sync(encoding.decode_whole_body, body, message_id)
        return form

    get_whole_message = former_method("get_whole_message", "get_full_message")

    async def get_message_count(self, scope: str, conversation: str) -> int:
        """The number of messages in a conversation, without reading them."""
        return (await self.head(scope, conversation)).count

    async def search(
        self, scope: str, query: str, *, conversation: str | None = None, limit: int = 10
    ) -> list[SearchHit]:
        """The messages of a scope, or of one conversation, that contain a word of the query; best first.

        Words are compared without case, accents and endings. Common words, such as "the", do not count. Only
        conversations with this memory's agent are searched. With an embedder, messages with a similar meaning
        are found too. A question is ranked below the statements with the same words.
        """
        check_name("scope", scope)
        if conversation is not None:
            check_name("conversation", conversation)
        check_int("limit", limit)
        ranked = limit + SPARE_HITS
        if self.vector_index is not None:
            hits = await self.vector_index.search(self.agent, scope, query, conversation, ranked)
        else:
            hits = await self._store.search(self.agent, scope, query, conversation=conversation, limit=ranked)
        return rank_statements_first(hits, query, limit)

    async def embed_messages(self, scope: str, conversation: str | None = None) -> int:
        """Compute the missing vectors of a scope or a conversation now. Returns how many messages got one.

        You rarely need this, because vectors are computed in the background. Use it for messages that were
        stored before there was an embedder, and in tests. Errors of the embedder are raised here.
        """
        check_name("scope", scope)
        if conversation is not None:
            check_name("conversation", conversation)
        if self.vector_index is None:
            raise ValueError("this memory has no embedder; open it with Memory(url, embedder=...)")
        return await self.vector_index.embed_messages(self.agent, scope, conversation)

    async def agents(
        self, *, scope: str | None = None, limit: int = PAGE_SIZE, after: str | None = None
    ) -> list[str]:
        """The names of the agents that have conversations, in all scopes or in one; for operators.

        Returns the first `limit` names after `after`, in order. Conversations without an agent have the name
        "".
        """
        _check_page(limit, scope=scope, after=after)
        return await self._store.list_agents(scope=scope, after=after, limit=limit)

    async def scopes(
        self, *, agent: str | None = None, limit: int = PAGE_SIZE, after: str | None = None
    ) -> list[str]:
        """The names of the scopes that have conversations, with all agents or with one; for operators.

        Returns the first `limit` names after `after`, in order. These are all users or tenants: do not show
        them to users.
        """
        _check_page(limit, agent=agent, after=after)
        return await self._store.list_scopes(agent=self._listed_agent(agent), after=after, limit=limit)

    async def conversations(
        self, scope: str, *, agent: str | None = None, limit: int = PAGE_SIZE, after: Key | None = None
    ) -> list[ConversationInfo]:
        """The conversations of a scope that have messages, with counts and times, by agent and name.

        With all agents, or with one; on the view of an agent, with that agent. Returns the first `limit`
        after a key: `after=page[-1].key` gives the next page.
        """
        check_name("scope", scope)
        _check_page(limit, agent=agent)
        agent = self._listed_agent(agent)
        check_cursor(after, scope, agent)
        return await self._store.list_conversations(scope, agent=agent, after=after, limit=limit)

    # -- summaries ------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The store: for code that builds on memory, such as the summarizer."""
        return self._store

    async def summary(self, scope: str, conversation: str) -> SummaryState:
        """The current summary: its segments, how each was made, the pinned messages and the facts."""
        return await self._store.summary(make_key(self.agent, scope, conversation))

    async def pin(
        self, scope: str, conversation: str, message_id: str, *, replaces: str | None = None
    ) -> bool:
        """Show a message verbatim in all later contexts, also after it is summarized; false if unknown.

        The message with the id `replaces` is unpinned in the same transaction; `NotPinned` is raised if it is
        not pinned.
        """
        encoding.check_id(message_id)
        if replaces is not None:
            encoding.check_id(replaces)
            if replaces == message_id:
                raise ValueError("replaces is the message to pin itself; name another pinned message")
        key = make_key(self.agent, scope, conversation)
        return await self._store.pin(key, message_id, True, replaces=replaces)

    async def unpin(self, scope: str, conversation: str, message_id: str) -> bool:
        """Unpin a message, so that it is summarized like any other; false if there is no such message."""
        encoding.check_id(message_id)
        return await self._store.pin(make_key(self.agent, scope, conversation), message_id, False)

    def facts(self, scope: str, conversation: str) -> ConversationFacts:
        """The facts of a conversation: `await` it to read them, or change them with its methods."""
        # Imported here and below: a memory without facts does not need the rules for them.
        from autonomy_ctx.memory.facts import ConversationFacts

        return ConversationFacts(self._store, make_key(self.agent, scope, conversation), self._clock)

    def profile(self, scope: str) -> ScopeProfile:
        """The profile of a scope: `await` it to read the entries, or change them with its methods.

        Like conversations, a profile belongs to a scope and to this memory's agent.
        """
        from autonomy_ctx.memory.profile import ScopeProfile

        return ScopeProfile(self._store, self.agent, scope, self._clock)

    async def undo_summary(self, scope: str, conversation: str) -> bool:
        """Undo the newest segment and go back to the summary before it; false if there is none."""
        key = make_key(self.agent, scope, conversation)
        is_undone = await self._store.undo_segment(key)
        if is_undone:
            await self._store.drop_records(key, BLOCK_KIND)
        return is_undone

    async def drop_summaries(self, scope: str, conversation: str | None = None) -> int:
        """Remove the summaries of a conversation or scope, and return how many segments; messages stay."""
        check_name("scope", scope)
        if conversation is None:
            # The blocks of each conversation are removed when they are next read: of an older generation.
            return await self._store.drop_segments(scope)
        await self._store.drop_records(make_key(self.agent, scope, conversation), BLOCK_KIND)
        return await self._store.drop_segments(scope, self.agent, conversation)

    # -- housekeeping ---------------------------------------------------------------------------

    async def clear_short_term_memory(self, scope: str, conversation: str | None = None) -> None:
        """Clear the cache of messages in this process; stored messages stay."""
        check_name("scope", scope)
        self._window_cache.forget(self.agent, scope, conversation)
        self.term_indexes.forget(agent=self.agent, scope=scope, conversation=conversation)

    async def get_metrics(self) -> dict[str, int]:
        """Counters since this memory was made."""
        embedded = {} if self.vector_index is None else self.vector_index.metrics
        cached = {"hot_hits": self._window_cache.hits, "hot_misses": self._window_cache.misses}
        return {**self._metrics, **cached, **embedded}

    async def health_check(self) -> bool:
        """Tell whether memory can be written now. It tries a write; a failure is logged."""
        try:
            await self._store.check()
        except StoreError as error:
            logger.warning("memory is not healthy: %s", error)
            return False
        return True

    async def close(self) -> None:
        """Finish accepted writes and close files and threads."""
        try:
            if self.vector_index is not None:
                await self.vector_index.close()
        finally:
            await self._store.close()

    async def __aenter__(self) -> Memory:
        try:
            await self._store.check()
        except BaseException:
            # If `async with` fails to enter, the caller cannot close it.
            await self.close()
            raise
        return self

    def _listed_agent(self, agent: str | None) -> str | None:
        """The agent whose conversations are listed: the given one, else that of the view; None means all."""
        return (self.agent or None) if agent is None else agent

    async def _read_last_turn(self, scope: str, conversation: str) -> Sequence[Entry]:
        """The user's newest message and all after it; empty if there is no user message."""
        end = (await self.head(scope, conversation)).last_user
        while end:
            window = await self.read(scope, conversation, before=end + 1, limit=TURN_LOOKBACK)
            starts = [entry.position for entry in window.entries if is_said_by_user(entry.message)]
            if starts:
                return (await self.read(scope, conversation, after=starts[-1] - 1)).entries
            end = window.entries[0].position - 1 if window.entries else 0
        return ()

    async def _make_drafts(self, messages: Sequence[Any], full_texts: Mapping[str, str]) -> list[Draft]:
        """Drafts of messages; those of large ones are made in a thread."""
        messages = [form for message in messages for form in wire.split_blocks(message)]
        if len(messages) == 1 and not full_texts and encoding.fits_inline(messages[0]):
            return [self._make_draft(messages[0], EMPTY)]
        drafts: list[Draft] = []
        async for some in Chunks(messages):
            for message in some:
                if full_texts or not encoding.fits_inline(message):
                    drafts.append(await anyio.to_thread.run_sync(self._make_draft, message, full_texts))
                else:
                    drafts.append(self._make_draft(message, full_texts))
        return drafts

    async def _fire_before_append(self, key: Key, drafts: Sequence[Draft]) -> tuple[Message, ...]:
        """Call the BEFORE_APPEND hooks, and return the messages."""
        # A tuple: a hook may refuse the messages, not change them.
        said = tuple(draft.message for draft in drafts) if self.hooks else ()
        if said:
            await fire(self.hooks, MemoryHook.BEFORE_APPEND, *key[1:], said, done=False)
        return said

    def _turn_of(self, key: Key) -> TurnToken | None:
        """The turn that this view writes, if it is one of this conversation."""
        return self._turn if self._turn is not None and self._turn.key == key else None

    async def _note_appended(self, key: Key, said: tuple[Message, ...], positions: Sequence[int]) -> None:
        self._metrics["messages_added"] += len(positions)
        if self.vector_index is not None and positions:
            self.vector_index.note_appended(key)
        if said:
            await fire(self.hooks, MemoryHook.AFTER_APPEND, *key[1:], said, done=True)

    def _make_draft(self, value: Message | Mapping[str, Any], full_texts: Mapping[str, str]) -> Draft:
        message = encoding.coerce_message(value, new_id=self._new_id, now=self._clock)
        check_call_id(message)
        return encoding.make_draft(message, self.token_counter, full_text=full_texts.get(message.id))

    async def _delete(
        self, scope: str, agent: str | None, conversation: str | None, ids: Sequence[str] | None
    ) -> int:
        deleted = await self._store.delete(scope, agent, conversation, ids)
        self._window_cache.forget(agent, scope, conversation)
        self.term_indexes.forget(agent=agent, scope=scope, conversation=conversation)
        forget_texts()
        forget_deleted(self._store, scope)
        self._metrics["messages_deleted"] += deleted
        if self.hooks and deleted:
            await fire(self.hooks, MemoryHook.AFTER_DELETE, scope, conversation, deleted, done=True)
        return deleted


def _check_page(limit: int, **names: str | None) -> None:
    """Check the arguments of a page: the limit and the names."""
    check_int("limit", limit, most=MAX_POSITION)
    for part, name in names.items():
        if name is not None:
            check_name(part, name)
