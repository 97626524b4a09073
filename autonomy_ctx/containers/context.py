"""A named transcript: messages in order that can keep themselves in a file, and grow there.

Whatever changes a context, a verb, an edit of its list or a compaction, comes through two doors: one
for additions and one for everything else. Behind them stands a keeper that writes the change down
before it is made, so a context and its file never tell two stories.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, SupportsIndex, TypeAlias, overload

from autonomy_ctx.containers.held import Held, distinct, merged
from autonomy_ctx.containers.keeping import FileKeeper, Keeper
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import ChatRole, Content, Message, ToolCall

# What a message may say, in any of the spellings that `Message` takes.
Said: TypeAlias = Content | Mapping[str, Any] | Sequence[Any]


class Context:
    """A conversation in order; with `keep_updated` every change is in its file when the call returns.

    A context is known by its messages' ids: a message that is already there is not added again.
    What other processes add to the file is picked up before the next change.
    """

    def __init__(
        self,
        messages: Iterable[Message | Mapping[str, Any]] | None = None,
        file_path: str | os.PathLike[str] | None = None,
        keep_updated: bool = False,
    ) -> None:
        self._messages = Messages(self)
        self._held = Held(self._messages)
        self._keeper = Keeper()
        if messages is not None and (made := distinct(map(wire.from_dict, messages))):
            self._held.mark(edited=False)
            self._held.add(made)
        if file_path is not None:
            self._keeper = FileKeeper(file_path, keep_updated=keep_updated)
            if keep_updated:
                self.save()
        elif keep_updated:
            raise ValueError("keep_updated needs a file_path: there is no file to keep updated")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], keep_updated: bool = False) -> Self:
        """The context that a file holds; a missing file holds an empty one."""
        context = cls(file_path=path)
        keeper = context._keeper
        assert isinstance(keeper, FileKeeper)
        context._held.take(keeper.file.load())
        if keep_updated:
            keeper.keep_updated = True
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
        """Its own file, if it has one."""
        return self._keeper.file.path if isinstance(self._keeper, FileKeeper) else None

    @property
    def keep_updated(self) -> bool:
        """Whether every change is written to its own file at once."""
        return isinstance(self._keeper, FileKeeper) and self._keeper.keep_updated

    def user(self, content: Said) -> Message:
        """Add what the user said."""
        return self.append(Message(ChatRole.USER, content))

    def assistant(
        self, content: Said, tool_calls: Sequence[ToolCall | Mapping[str, Any]] | None = None
    ) -> Message:
        """Add what the model answered, and the tools it calls."""
        return self.append(Message(ChatRole.ASSISTANT, content, tool_calls=tool_calls))

    def tool(
        self,
        content: Said,
        name: str | None = None,
        tool_call_id: str | None = None,
        *,
        is_error: bool = False,
    ) -> Message:
        """Add what a tool returned."""
        return self.append(
            Message(ChatRole.TOOL, content, name=name, tool_call_id=tool_call_id, is_error=is_error)
        )

    def system(self, content: Said) -> Message:
        """Add an instruction."""
        return self.append(Message(ChatRole.SYSTEM, content))

    def append(self, message: Message | Mapping[str, Any]) -> Message:
        """Add a message at the end, and return it."""
        made = wire.from_dict(message)
        self.extend([made])
        return made

    def extend(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        """Add messages at the end, in one write."""
        made = [wire.from_dict(message) for message in messages]
        with self._keeper.changing(self._held):
            new = self._held.fresh(made)
            if new:
                self._keeper.add(self._held, new)
                self._held.add(new)
        if new:
            self._keeper.settle()

    def clear(self) -> None:
        """Remove all messages, also those that others have just added to the file."""
        with self._keeper.changing(self._held):
            if self._messages:
                self._keeper.edit(self._held, [])
                self._held.take([])

    def save(self) -> None:
        """Write down what is not in the file yet, together with what others have written there."""
        self._keeper.save(self._held)

    def _edit(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        made = distinct(map(wire.from_dict, messages))
        before = frozenset(self._held.by_id)
        with self._keeper.changing(self._held):
            after = merged(before, made, self._messages)
            if after != self._messages:
                self._keeper.edit(self._held, after)
                self._held.take(after)

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
        return isinstance(message, Message) and self._held.by_id.get(message.id) == message

    def __repr__(self) -> str:
        where = f", file_path={str(self.file_path)!r}" if self.file_path else ""
        return f"Context(len={len(self)}{where})"

    def __reduce__(self) -> tuple[type[Context], tuple[list[Message]]]:
        # A copy has the messages and a life of its own: two contexts must not write one file unawares.
        return type(self), (list(self._messages),)


def _editing(name: str) -> Any:
    """A method of `list` that hands the outcome to the context instead of keeping it."""

    def edit(self: Messages, *args: Any, **kwargs: Any) -> Any:
        copy = list(self)
        result = getattr(copy, name)(*args, **kwargs)
        self._context._edit(copy)
        return self if result is copy else result

    return edit


class Messages(list[Message]):
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

    insert, pop, remove = _editing("insert"), _editing("pop"), _editing("remove")
    reverse, sort = _editing("reverse"), _editing("sort")
    __setitem__, __delitem__ = _editing("__setitem__"), _editing("__delitem__")
    __imul__ = _editing("__imul__")

    def __reduce__(self) -> tuple[type[list[Message]], tuple[list[Message]]]:
        return list, (list(self),)
