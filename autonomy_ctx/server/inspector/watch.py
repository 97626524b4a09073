"""Changes of conversations as server-sent events, for a page that shows them while agents run.

The heads of conversations are read from the store at a bounded rate, because any process may write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.types import Receive, Scope, Send

from autonomy_ctx.agents.explain import RECORD_KIND
from autonomy_ctx.inspection.report import to_json
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.server.common.errors import client_error
from autonomy_ctx.server.common.events import COMMENT, EventResponse, encode_frame, send_piece

POLL_SECONDS = 1.0
KEEP_ALIVE_SECONDS = 15.0
# Of a scope, so many conversations are watched.
MAX_WATCHED = 200


class ConversationWatch:
    """The conversations that a page watches: one, or those of a scope, with all agents or with one."""

    def __init__(self, memory: Memory, scope: str, agent: str | None, conversation: str | None) -> None:
        self._memory, self._scope, self._agent, self._conversation = memory, scope, agent, conversation
        self._known: dict[Key, dict[str, Any]] | None = None

    async def changes(self) -> list[dict[str, Any]]:
        """The conversations that are new, changed or deleted since the last call; none at first."""
        found = await (self._read_list() if self._conversation is None else self._read_one())
        before, self._known = self._known, found
        if before is None:
            return []
        changed = [state for key, state in found.items() if before.get(key) != state]
        gone = [key for key in before if key not in found]
        return changed + [{**key._asdict(), "messages": 0} for key in gone]

    async def _read_one(self) -> dict[Key, dict[str, Any]]:
        key = Key(self._agent or "", self._scope, self._conversation or "")
        view = self._memory.for_agent(key.agent)
        head = await view.head(key.scope, key.conversation)
        # A turn is recorded a moment after its answer is in the log.
        turns = await view.store.read_records(key, RECORD_KIND, limit=1)
        state = {
            **key._asdict(),
            "messages": head.count,
            "head": head.position,
            "generation": head.generation,
            "revision": head.revision,
            "turn": turns[-1].name if turns else None,
        }
        return {key: state}

    async def _read_list(self) -> dict[Key, dict[str, Any]]:
        listed = await self._memory.conversations(self._scope, agent=self._agent, limit=MAX_WATCHED)
        return {info.key: to_json(info) for info in listed}


@dataclass(slots=True)
class ChangeStreams:
    """The streams of one inspector: how many are open, and how often they check for changes."""

    poll_seconds: float
    is_closing: Callable[[], bool]
    count: int = 0


class ChangeStream(EventResponse):
    """Answers with an event `ready`, then one `changed` for each conversation that changes.

    The watch has already read the state once; later changes are sent.
    """

    def __init__(self, watch: ConversationWatch, streams: ChangeStreams) -> None:
        super().__init__()
        self._watch, self._streams = watch, streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client hangs up or the server closes."""
        self._streams.count += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.count -= 1

    async def send_events(self, send: Send) -> bytes:
        """Check for changes at intervals, and return the last event to send."""
        seconds, silent = self._streams.poll_seconds, 0.0
        try:
            await send_piece(send, encode_frame("ready", {}))
            while not self._streams.is_closing():
                await anyio.sleep(seconds)
                changes = await self._watch.changes()
                silent = 0.0 if changes else silent + seconds
                if changes:
                    await send_piece(send, b"".join(encode_frame("changed", one) for one in changes))
                elif silent >= KEEP_ALIVE_SECONDS:
                    silent = 0.0
                    await send_piece(send, COMMENT)
        except Exception as error:
            return encode_frame("error", client_error(error).body())
        return b""
