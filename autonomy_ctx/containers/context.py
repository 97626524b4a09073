"""A conversation with its own file: `Context`, its messages, and how they are saved.

A `MessageBuffer` holds the messages and merges them with what other writers saved meanwhile. Messages are
compared by id. Additions of several writers are all kept; an edit removes only messages that its writer had
seen. A `Persistence` is told of every change before it is made.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, SupportsIndex, TypeAlias, overload

from autonomy_ctx.containers.context_file import ContextFile, file_lock
from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import ChatRole, Content, Message, ToolCall

# What a message may say, in any of the spellings that `Message` takes.
MessageContent: TypeAlias = Content | Mapping[str, Any] | Sequence[Any]


@dataclass(slots=True)
class UnsavedChanges:
    """Changes that no file has: the ids in it when they began, and whether any is more than an addition."""

    base: frozenset[str]
    edited: bool


class MessageBuffer:
    """Messages in order and by id; no two share an id."""

    def __init__(self, order: list[Message]) -> None:
        # May be a list that passes edits on, so it is only changed through the methods of `list` itself.
        self.order = order
        self.by_id: dict[str, Message] = {}
        self.unsaved: UnsavedChanges | None = None

    def select_new(self, messages: Iterable[Message]) -> list[Message]:
        """The messages that are not in it yet; raises `ConflictingMessage` when an id has other content."""
        return distinct_messages(messages, self.by_id)

    def add(self, messages: Sequence[Message]) -> None:
        """Put messages at the end."""
        list.extend(self.order, messages)
        self.by_id.update((message.id, message) for message in messages)

    def replace_all(self, messages: Sequence[Message]) -> None:
        """Hold these messages and no others."""
        list.__setitem__(self.order, slice(None), messages)
        self.by_id = {message.id: message for message in messages}

    def mark_unsaved(self, *, edited: bool) -> None:
        """Remember that a change, about to be made, is not saved."""
        if self.unsaved is None:
            self.unsaved = UnsavedChanges(frozenset(self.by_id), edited)
        self.unsaved.edited |= edited

    def mark_all_unsaved(self) -> None:
        """Remember that no file has these messages any more."""
        if self.order:
            self.unsaved = UnsavedChanges(frozenset(), edited=True)

    def reconcile(self, theirs: Sequence[Message]) -> list[Message]:
        """The messages for a file that now holds `theirs`: the changes of both sides."""
        if self.unsaved is None:
            return list(theirs)
        if self.unsaved.edited:
            return merge_edits(self.unsaved.base, self.order, theirs)
        known = self.unsaved.base.union(message.id for message in theirs)
        return [*theirs, *(message for message in self.order if message.id not in known)]


def merge_edits(base: AbstractSet[str], mine: Sequence[Message], theirs: Sequence[Message]) -> list[Message]:
    """An edited list with what others added to the messages that the edit began from."""
    own = {message.id for message in mine}
    new = [message for message in theirs if message.id not in base and message.id not in own]
    at = len(mine)
    while at and mine[at - 1].id not in base:
        at -= 1
    return [*mine[:at], *new, *mine[at:]] if new else list(mine)


def distinct_messages(messages: Iterable[Message], known: dict[str, Message] | None = None) -> list[Message]:
    """The messages whose ids are not known, each once; raises when one id stands for two contents."""
    known = known or {}
    found: dict[str, Message] = {}
    for message in messages:
        other = known.get(message.id) or found.get(message.id)
        if other is None:
            found[message.id] = message
        elif other != message:
            ids = [*known, *found]
            raise ConflictingMessage(message_id=message.id, position=ids.index(message.id))
    return list(found.values())


class Persistence:
    """Told of every change before it is made; this one only notes that the change is not saved.

    A `transaction` surrounds a change: inside it nobody else writes, and the buffer has what others wrote.
    """

    def transaction(self, buffer: MessageBuffer) -> AbstractContextManager[None]:
        """Lock the file for one change."""
        return nullcontext()

    def add(self, buffer: MessageBuffer, messages: Sequence[Message]) -> None:
        """Messages are about to be added at the end."""
        buffer.mark_unsaved(edited=False)

    def edit(self, buffer: MessageBuffer, messages: Sequence[Message]) -> None:
        """These messages are about to replace those in the buffer."""
        buffer.mark_unsaved(edited=True)

    def after_add(self) -> None:
        """Messages were added, and the file is free again."""

    def save(self, buffer: MessageBuffer) -> None:
        """Save what is not saved yet."""
        raise ValueError(
            "this context has no file; give it one with Context(file_path=...), "
            "or use a context of a Runtime that has one"
        )


class FilePersistence(Persistence):
    """Keeps one context in a file of its own: at once when `keep_updated`, otherwise when saved."""

    def __init__(self, path: str | os.PathLike[str], *, keep_updated: bool) -> None:
        self.file = ContextFile(path)
        self.keep_updated = keep_updated

    def transaction(self, buffer: MessageBuffer) -> AbstractContextManager[None]:
        return self._sync(buffer) if self.keep_updated else nullcontext()

    def add(self, buffer: MessageBuffer, messages: Sequence[Message]) -> None:
        if self.keep_updated:
            self.file.append(messages, buffer.order)
        else:
            buffer.mark_unsaved(edited=False)

    def edit(self, buffer: MessageBuffer, messages: Sequence[Message]) -> None:
        if self.keep_updated:
            self.file.write(messages)
        else:
            buffer.mark_unsaved(edited=True)

    def save(self, buffer: MessageBuffer) -> None:
        with file_lock(self.file.path):
            self._save(buffer)

    @contextmanager
    def _sync(self, buffer: MessageBuffer) -> Iterator[None]:
        with file_lock(self.file.path):
            if buffer.unsaved is not None or self.file.removed:
                self._save(buffer)
            elif changes := self.file.read_changes():
                if changes.replaces_all:
                    buffer.replace_all(changes.messages)
                else:
                    buffer.add(buffer.select_new(changes.messages))
            yield

    def _save(self, buffer: MessageBuffer) -> None:
        if self.file.removed:
            buffer.mark_all_unsaved()
        theirs = self.file.read()
        messages = buffer.reconcile(theirs)
        if messages != theirs or not self.file.path.exists():
            self.file.write(messages)
        buffer.replace_all(messages)
        buffer.unsaved = None


class Context:
    """A list of messages. With `keep_updated`, every change is in the file when the call returns.

    A message whose id is already in the context is not added again. Messages that other processes added to
    the file are read before the next change.
    """

    def __init__(
        self,
        messages: Iterable[Message | Mapping[str, Any]] | None = None,
        file_path: str | os.PathLike[str] | None = None,
        keep_updated: bool = False,
    ) -> None:
        self._messages = MessageList(self)
        self._buffer = MessageBuffer(self._messages)
        self._persistence = Persistence()
        if messages is not None and (made := distinct_messages(wire.from_dicts(messages))):
            self._buffer.mark_unsaved(edited=False)
            self._buffer.add(made)
        if file_path is not None:
            self._persistence = FilePersistence(file_path, keep_updated=keep_updated)
            if keep_updated:
                self.save()
        elif keep_updated:
            raise ValueError("keep_updated needs a file_path: there is no file to keep updated")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], keep_updated: bool = False) -> Self:
        """The context in a file; empty if the file does not exist."""
        context = cls(file_path=path)
        persistence = context._persistence
        assert isinstance(persistence, FilePersistence)
        context._buffer.replace_all(persistence.file.load() or [])
        if keep_updated:
            persistence.keep_updated = True
            context.save()
        return context

    @property
    def messages(self) -> list[Message]:
        """The messages, as a list: editing it edits the context, and its file."""
        return self._messages

    @messages.setter
    def messages(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        # `context.messages += [...]` has added them already and sets the list to itself.
        if messages is not self._messages:
            self._edit(messages)

    @property
    def file_path(self) -> Path | None:
        """The path of its own file, or None."""
        return self._persistence.file.path if isinstance(self._persistence, FilePersistence) else None

    @property
    def keep_updated(self) -> bool:
        """Tell whether every change is written to its own file at once."""
        return isinstance(self._persistence, FilePersistence) and self._persistence.keep_updated

    def user(self, content: MessageContent) -> Message:
        """Add what the user said."""
        return self.append(Message(ChatRole.USER, content))

    def assistant(
        self, content: MessageContent, tool_calls: Sequence[ToolCall | Mapping[str, Any]] | None = None
    ) -> Message:
        """Add what the model answered, and the tools it calls."""
        return self.append(Message(ChatRole.ASSISTANT, content, tool_calls=tool_calls))

    def tool(
        self,
        content: MessageContent,
        name: str | None = None,
        tool_call_id: str | None = None,
        *,
        is_error: bool = False,
    ) -> Message:
        """Add what a tool returned."""
        return self.append(
            Message(ChatRole.TOOL, content, name=name, tool_call_id=tool_call_id, is_error=is_error)
        )

    def system(self, content: MessageContent) -> Message:
        """Add an instruction."""
        return self.append(Message(ChatRole.SYSTEM, content))

    def append(self, message: Message | Mapping[str, Any]) -> Message:
        """Add a message at the end, and return it; of a dict that becomes several messages, the last."""
        made = wire.from_dicts([message])
        self.extend(made)
        return made[-1]

    def extend(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        """Add messages at the end, in one write."""
        made = wire.from_dicts(messages)
        with self._persistence.transaction(self._buffer):
            new = self._buffer.select_new(made)
            if new:
                self._persistence.add(self._buffer, new)
                self._buffer.add(new)
        if new:
            self._persistence.after_add()

    def clear(self) -> None:
        """Remove all messages, also those that others have just added to the file."""
        with self._persistence.transaction(self._buffer):
            if self._messages:
                self._persistence.edit(self._buffer, [])
                self._buffer.replace_all([])

    def save(self) -> None:
        """Write all changes to the file, and keep what other processes have written there."""
        self._persistence.save(self._buffer)

    def _edit(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        made = distinct_messages(wire.from_dicts(messages))
        before = frozenset(self._buffer.by_id)
        with self._persistence.transaction(self._buffer):
            after = merge_edits(before, made, self._messages)
            if after != self._messages:
                self._persistence.edit(self._buffer, after)
                self._buffer.replace_all(after)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        # A copy: a change in the middle of a loop, also one by another process, must not skip a message.
        return iter(list(self._messages))

    @overload
    def __getitem__(self, index: SupportsIndex) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Message | list[Message]:
        return self._messages[index]

    def __contains__(self, message: object) -> bool:
        return isinstance(message, Message) and self._buffer.by_id.get(message.id) == message

    def __repr__(self) -> str:
        where = f", file_path={str(self.file_path)!r}" if self.file_path else ""
        return f"Context(len={len(self)}{where})"

    def __reduce__(self) -> tuple[type[Context], tuple[list[Message]]]:
        # A copy has the messages but not the file: two contexts must not write to one file.
        return type(self), (list(self._messages),)


def _edit_method(name: str) -> Any:
    """A method of `list` that hands the outcome to the context instead of keeping it."""

    def edit(self: MessageList, *args: Any, **kwargs: Any) -> Any:
        copy = list(self)
        result = getattr(copy, name)(*args, **kwargs)
        self._context._edit(copy)
        return self if result is copy else result

    return edit


class MessageList(list[Message]):
    """The list of a context's messages; what is done to it is done to the context."""

    __slots__ = ("_context",)
    _context: Context

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context

    def append(self, message: Message) -> None:
        self._context.append(message)

    def extend(self, messages: Iterable[Message]) -> None:
        self._context.extend(messages)

    def __iadd__(self, messages: Iterable[Message]) -> Self:  # type: ignore[override,misc]
        self._context.extend(messages)
        return self

    def clear(self) -> None:
        self._context.clear()

    insert, pop, remove = _edit_method("insert"), _edit_method("pop"), _edit_method("remove")
    reverse, sort = _edit_method("reverse"), _edit_method("sort")
    __setitem__, __delitem__ = _edit_method("__setitem__"), _edit_method("__delitem__")
    __imul__ = _edit_method("__imul__")

    def __reduce__(self) -> tuple[type[list[Message]], tuple[list[Message]]]:
        return list, (list(self),)
