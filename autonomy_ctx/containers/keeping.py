"""Who writes a context's changes down: nobody, its own file, or the runtime that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from autonomy_ctx.containers.disk import locked
from autonomy_ctx.containers.files import ContextFile
from autonomy_ctx.containers.held import Held
from autonomy_ctx.items.message import Message


class Keeper:
    """Told of every change before it is made; this one only notes that the change is not saved.

    `changing` surrounds a change: inside it, nobody else writes, and what others wrote is held.
    """

    def changing(self, held: Held) -> AbstractContextManager[None]:
        """Hold the file for one change."""
        return nullcontext()

    def add(self, held: Held, messages: Sequence[Message]) -> None:
        """Messages are about to be added at the end."""
        held.mark(edited=False)

    def edit(self, held: Held, messages: Sequence[Message]) -> None:
        """These messages are about to take the place of those held."""
        held.mark(edited=True)

    def settle(self) -> None:
        """Messages were added, and the file is free again."""

    def save(self, held: Held) -> None:
        """Write down what is not saved yet."""
        raise ValueError(
            "this context has no file; give it one with Context(file_path=...), "
            "or use a context of a Runtime that has one"
        )


class FileKeeper(Keeper):
    """Keeps one context in a file of its own: at once when `keep_updated`, otherwise when saved."""

    def __init__(self, path: str | os.PathLike[str], *, keep_updated: bool) -> None:
        self.file = ContextFile(path)
        self.keep_updated = keep_updated

    def changing(self, held: Held) -> AbstractContextManager[None]:
        return self._caught_up(held) if self.keep_updated else nullcontext()

    def add(self, held: Held, messages: Sequence[Message]) -> None:
        if self.keep_updated:
            self.file.append(messages, held.order)
        else:
            held.mark(edited=False)

    def edit(self, held: Held, messages: Sequence[Message]) -> None:
        if self.keep_updated:
            self.file.write(messages)
        else:
            held.mark(edited=True)

    def save(self, held: Held) -> None:
        with locked(self.file.path):
            self._save(held)

    @contextmanager
    def _caught_up(self, held: Held) -> Iterator[None]:
        with locked(self.file.path):
            if held.unsaved is not None or self.file.removed:
                self._save(held)
            elif news := self.file.news():
                if news.whole:
                    held.take(news.messages)
                else:
                    held.add(held.fresh(news.messages))
            yield

    def _save(self, held: Held) -> None:
        if self.file.removed:
            held.unsave()
        theirs = self.file.read()
        messages = held.reconciled(theirs)
        if messages != theirs or not self.file.path.exists():
            self.file.write(messages)
        held.take(messages)
        held.unsaved = None
