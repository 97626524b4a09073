"""What containers hold, as context: all of a queue, and of a pool what is chosen from its catalogue."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPool
from autonomy_ctx.containers.pool_view import ContextPoolView
from autonomy_ctx.containers.queue import ContextQueue
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message, parse_role
from autonomy_ctx.sections.section import ContextSection, Params

Chosen: TypeAlias = Iterable[str | ContextItem[Any]] | None
Select: TypeAlias = Callable[[ContextPoolView, str, str, Params], Chosen | Awaitable[Chosen]]


class QueueSection(ContextSection):
    """The items of a queue, oldest first: messages as they are, anything else as text under `role`."""

    def __init__(
        self, queue: ContextQueue, *, name: str = "queue", role: str = "system", enabled: bool = True
    ) -> None:
        if not isinstance(queue, ContextQueue):
            raise TypeError(f"QueueSection takes a ContextQueue, not {type(queue).__name__}")
        super().__init__(name, enabled)
        self.queue, self.role = queue, parse_role(role).value

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Params) -> list[Any]:
        """One message for each item."""
        return [_message(item, self.role) for item in self.queue]


class PoolSection(ContextSection):
    """The catalogue of a pool, and the contents of what `select` chooses from it.

    `select(pool, scope, conversation, params)`, plain or async, gets a read-only view and gives ids or
    items; without it only the catalogue is shown. A chosen id that is gone by then is left out.
    """

    def __init__(
        self,
        pool: ContextPool,
        *,
        select: Select | None = None,
        name: str = "pool",
        role: str = "system",
        enabled: bool = True,
    ) -> None:
        if not isinstance(pool, ContextPool):
            raise TypeError(f"PoolSection takes a ContextPool, not {type(pool).__name__}")
        super().__init__(name, enabled)
        self.pool, self.select, self.role = pool, select, parse_role(role).value

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Params) -> list[Any]:
        """The catalogue, if there is anything in it, and one message for each chosen item."""
        if not self.pool:
            return []
        messages = [Message(self.role, f"Available items:\n{self.pool.catalogue()}")]
        if self.select is None:
            return messages
        chosen = self.select(self.pool.view(), scope, conversation, params)
        if inspect.isawaitable(chosen):
            chosen = await chosen
        for one in chosen or ():
            item = one if isinstance(one, ContextItem) else self._get(one)
            if item is not None:
                messages.append(_message(item, self.role))
        return messages

    def _get(self, name: str) -> ContextItem[Any] | None:
        return self.pool.get(name) if name in self.pool else None


def _message(item: ContextItem[Any], role: str) -> Message:
    """An item as a message: what is one already stays as it is."""
    content = item.content
    if isinstance(content, Message):
        return content
    if isinstance(content, Mapping) and "role" in content:
        try:
            return wire.from_dict(dict(content))
        except InvalidMessage:
            # Data that happens to have a role.
            pass
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return Message(role, f"[{item.id}] {text}" if item.id else text)
