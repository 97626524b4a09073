"""What past turns were shown, byte for byte: the records behind `agent.explain`.

A record names the messages that memory has by their positions and holds only the others, so it is
small, and deleting a message deletes it here, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from autonomy_ctx.errors import UnknownTurn
from autonomy_ctx.memory.conversation_cache import ConversationCache
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key, Record
from autonomy_ctx.template.composed import ComposedContext, from_record, to_record
from autonomy_ctx.validation import check_int, check_seconds

RECORD_KIND = "context"
EXPLAIN_TURNS = 20
EXPLAIN_SECONDS = 7 * 24 * 3600.0
# Old records of a conversation are looked for at most this often.
_SWEEP_SECONDS = 3600.0


class ContextRecords:
    """The contexts of the newest turns of each conversation, up to a count and an age."""

    def __init__(
        self,
        memory: Memory,
        *,
        turns: int = EXPLAIN_TURNS,
        seconds: float = EXPLAIN_SECONDS,
        clock: Callable[[], datetime],
    ) -> None:
        check_int("explain_turns", turns, least=0)
        check_seconds("explain_seconds", seconds, endless=True)
        self._memory, self._turns, self._seconds, self._clock = memory, turns, seconds, clock
        self._swept_at: ConversationCache[Key, float] = ConversationCache(1024)

    async def save(self, key: Key, turn: str, generation: int, contexts: Sequence[ComposedContext]) -> None:
        """Save what the steps of a turn were shown, unless something was deleted meanwhile."""
        if not self._turns:
            return
        store, now = self._memory.store, self._clock().timestamp()
        forms = [await to_record(context, self._memory) for context in contexts]
        body = json.dumps(forms, separators=(",", ":"))
        await store.put_records(
            key, RECORD_KIND, [(turn, body)], keep=self._turns, derived=True, generation=generation
        )
        if now - self._swept_at.get(key, 0.0) > _SWEEP_SECONDS:
            self._swept_at[key] = now
            await store.drop_records(key, RECORD_KIND, before=now - self._seconds)

    async def turns(self, key: Key) -> list[str]:
        """The turns there are records of, oldest first."""
        return [record.name for record in await self._read(key, None, limit=None)]

    async def explain(self, key: Key, turn: str | None, step: int | None) -> ComposedContext:
        """What a step of a turn was shown: by default the last step of the newest turn."""
        records = await self._read(key, turn, limit=1)
        if not records:
            raise UnknownTurn(
                turn=turn,
                step=None,
                problem=f"there is no record of it; the newest {self._turns} turns of the last "
                f"{self._seconds / 86400:g} days are kept, until a message of theirs is deleted",
            )
        forms: list[Any] = json.loads(records[-1].body)
        if step is not None and not 1 <= step <= len(forms):
            raise UnknownTurn(turn=turn, step=step, problem=f"the turn has steps 1 to {len(forms)}")
        form = forms[-1 if step is None else step - 1]
        composed = await from_record(form, key.scope, key.conversation, self._memory)
        if composed is None:
            raise UnknownTurn(turn=turn, step=step, problem="messages that it showed have been deleted")
        return composed

    async def _read(self, key: Key, turn: str | None, *, limit: int | None) -> list[Record]:
        oldest = self._clock().timestamp() - self._seconds
        found = await self._memory.store.read_records(key, RECORD_KIND, name=turn, limit=limit)
        return [record for record in found if record.at >= oldest]
