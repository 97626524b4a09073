"""The half of a chat context that only grows: who said, called, returned or decided what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

from autonomy_ctx.containers.chat_view import ChatView, Kept
from autonomy_ctx.errors import ConflictingMessage, InvalidMessage
from autonomy_ctx.items.cuts import is_summary
from autonomy_ctx.items.edits import inserted, tool_names
from autonomy_ctx.items.events import AgentConfigUpdate, AgentHandoff
from autonomy_ctx.items.message import ChatRole, Message, new_id, now
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.items.wire import Item

AnyItem = TypeVar("AnyItem", bound=Item)


class ChatRecord(ChatView):
    """Items in order, to which more can be added; each method returns the item it made."""

    def __init__(
        self,
        items: Iterable[Item] | None = None,
        *,
        token_counter: TokenCounter | None = None,
        clock: Callable[[], datetime] = now,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        super().__init__(Kept(map(_checked, items or ())), token_counter or TokenCounter())
        self._clock, self._new_id = clock, new_id

    def add_message(
        self,
        role: ChatRole | str,
        content: Any,
        message_id: str | None = None,
        created_at: datetime | str | float | None = None,
        replace: bool = False,
        agent_id: str | None = None,
        **fields: Any,
    ) -> Message:
        """Add a message at the end and return it.

        With `replace`, a system message takes the place of all system messages before it. Other
        fields of a `Message`, such as `name`, `phase` and `extra`, go by their names.
        """
        message = Message(
            role,
            content,
            id=message_id or self._new_id(),
            created_at=self._clock() if created_at is None else created_at,
            agent=agent_id,
            **fields,
        )
        replaced = filter(_is_system, self._kept.items) if replace and _is_system(message) else ()
        return self._add(message, instead_of=list(replaced))

    def user(self, content: Any, **fields: Any) -> Message:
        """Add what a user said."""
        return self.add_message(ChatRole.USER, content, **fields)

    def assistant(
        self,
        content: Any = None,
        tool_calls: Sequence[Any] | None = None,
        **fields: Any,
    ) -> Message:
        """Add what the agent said, called, or both."""
        return self.add_message(ChatRole.ASSISTANT, content, tool_calls=tool_calls or (), **fields)

    def tool(
        self, content: Any, name: str | None = None, tool_call_id: str | None = None, **fields: Any
    ) -> Message:
        """Add what a tool returned."""
        return self.add_message(ChatRole.TOOL, content, name=name, tool_call_id=tool_call_id, **fields)

    def system(self, content: Any, **fields: Any) -> Message:
        """Add instructions."""
        return self.add_message(ChatRole.SYSTEM, content, **fields)

    def add_function_call(
        self,
        name: str,
        arguments: str | Mapping[str, Any],
        call_id: str | None = None,
        agent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        """Add one call of a tool; `metadata`, such as a thought signature, stays with it in `extra`."""
        extra = None if metadata is None else dict(metadata)
        call = {"id": call_id or f"call_{self._new_id()}", "name": name, "arguments": arguments}
        return self.assistant(tool_calls=[call | {"extra": extra}], agent_id=agent_id)

    def add_function_output(
        self, name: str, output: Any, call_id: str, is_error: bool = False, agent_id: str | None = None
    ) -> Message:
        """Add what a call came to."""
        return self.tool(output, name, call_id, is_error=is_error, agent_id=agent_id)

    def add_handoff(
        self,
        to_agent: str,
        from_agent: str | None = None,
        reason: str | None = None,
        agent_id: str | None = None,
    ) -> AgentHandoff:
        """Add that control went from one agent to another."""
        return self._add(
            AgentHandoff(to_agent=to_agent, from_agent=from_agent, reason=reason, **self._stamps(agent_id))
        )

    def add_config_update(
        self,
        instructions: str | None = None,
        tools: Iterable[Any] | None = None,
        agent_id: str | None = None,
    ) -> AgentConfigUpdate:
        """Add that instructions or tools changed; tools by name or as objects with a `name`."""
        names = None if tools is None else tuple(tool_names(tools))
        return self._add(AgentConfigUpdate(instructions=instructions, tools=names, **self._stamps(agent_id)))

    def insert(self, item: AnyItem) -> AnyItem:
        """Put an item in its place by time: before the first item that is later."""
        self.insert_many([item])
        return item

    def insert_many(self, items: Iterable[Item]) -> Self:
        """Put each item in its place by time, all or none."""
        fresh: dict[str, Item] = {}
        for item in map(_checked, items):
            known = fresh.get(item.id) or self._kept.find(item.id)
            if known is None:
                fresh[item.id] = item
            else:
                self._check_same(known, item)
        if fresh:
            self._kept.replace(inserted(self._kept.items, *fresh.values()))
        return self

    def _add(self, item: AnyItem, instead_of: Sequence[Item] = ()) -> AnyItem:
        known = self._kept.find(item.id)
        gone = set(map(id, instead_of))
        if known is not None and id(known) not in gone:
            self._check_same(known, item)
            return item
        if gone:
            self._kept.replace([other for other in self._kept.items if id(other) not in gone])
        self._kept.append(item)
        return item

    def _stamps(self, agent_id: str | None) -> dict[str, Any]:
        return {"id": self._new_id(), "created_at": self._clock(), "agent": agent_id}

    def _check_same(self, known: Item, item: Item) -> None:
        if known != item:
            raise ConflictingMessage(message_id=item.id, position=self._kept.items.index(known))


def _is_system(item: Item) -> bool:
    return isinstance(item, Message) and item.role is ChatRole.SYSTEM and not is_summary(item)


def _checked(item: Any) -> Any:
    """An item, or an error that says how to make one."""
    if not isinstance(item, Item):
        raise InvalidMessage(
            "item", f"must be a message or an event, not {type(item).__name__}; dicts go through `from_dict`"
        )
    return item
