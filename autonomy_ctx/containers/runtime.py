"""Named contexts in one file: `Runtime`, and the functions that reach the current one.

A `ContextRegistry` holds the contexts and synchronizes them with their file.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

from autonomy_ctx.containers.context import (
    Context,
    MessageBuffer,
    Persistence,
    distinct_messages,
    merge_edits,
)
from autonomy_ctx.containers.context_file import file_lock
from autonomy_ctx.containers.recording import Recorder
from autonomy_ctx.containers.runtime_file import JournalEntry, RuntimeFile, State, edit_entries
from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import Message
from autonomy_ctx.validation import check_int

logger = logging.getLogger("autonomy_ctx.containers")

Contexts: TypeAlias = dict[str, Context]
_entered_runtimes: ContextVar[tuple[Runtime, ...]] = ContextVar("autonomy_ctx_entered", default=())
_restored_runtime: ContextVar[Runtime | None] = ContextVar("autonomy_ctx_restored", default=None)


class ContextRegistry:
    """Contexts by name, and the file that keeps them all, if there is one."""

    def __init__(
        self, file: RuntimeFile | None, *, keep_updated: bool, after_add: Callable[[], None]
    ) -> None:
        self.by_name: dict[str, Context] = {}
        self.file = file
        self.keep_updated = keep_updated
        self.after_add = after_add
        # The names that the file has, as far as we know: one that is gone here was removed on purpose.
        self._names_in_file: set[str] = set()

    def get_or_create(self, name: str) -> Context:
        """The context of this name; it is created if there is none."""
        context = self.by_name.get(name)
        if context is None:
            context = self.by_name[name] = Context()
        self._adopt(name, context)
        return context

    def transaction(self, buffer: MessageBuffer | None = None) -> AbstractContextManager[None]:
        """Lock the file and take over what others wrote, when changes are written at once."""
        return self._sync(self.file, buffer) if self.file and self.keep_updated else nullcontext()

    def write_journal(self, *entries: JournalEntry) -> None:
        """Write changes to the journal, inside a `transaction`, when changes are written at once."""
        if self.file and self.keep_updated and entries:
            self.file.write_journal(entries)
            self._names_in_file.update(entry.context for entry in entries)

    def add(self, additions: Mapping[str, Sequence[Message]]) -> None:
        """Add messages to contexts by their names, in one step; those of one context all or none."""
        known = [self.get_or_create(name)._buffer for name in additions if name in self.by_name]
        elsewhere: list[tuple[Context, Sequence[Message]]] = []
        with self.transaction(next((buffer for buffer in known if buffer.unsaved), None)):
            new: dict[str, list[Message]] = {}
            for name, messages in additions.items():
                context = self.by_name.get(name)
                if context is not None and not self._owns(name, context):
                    elsewhere.append((context, messages))
                else:
                    new[name] = (
                        context._buffer.select_new(messages) if context else distinct_messages(messages)
                    )
            self.write_journal(
                *(JournalEntry(name, "add", messages) for name, messages in new.items() if messages)
            )
            for name, messages in new.items():
                buffer = self.get_or_create(name)._buffer
                if not self.keep_updated:
                    buffer.mark_unsaved(edited=False)
                buffer.add(messages)
        for context, messages in elsewhere:
            context.extend(messages)
        self.after_add()

    def load(self) -> None:
        """Take over what the file holds."""
        if self.file:
            self._load_state(self.file.load() or {})

    def save(self) -> None:
        """Bring the file up to date with these contexts, and these with what others wrote."""
        if self.file is None:
            raise ValueError("this runtime has no file; give it one with Runtime(file_path=...)")
        with file_lock(self.file.path):
            self._save(self.file)

    @contextmanager
    def _sync(self, file: RuntimeFile, buffer: MessageBuffer | None) -> Iterator[None]:
        with file_lock(file.path):
            if file.journal_is_long or file.removed or (buffer and buffer.unsaved):
                self._save(file)
            else:
                changes = file.read_changes()
                if isinstance(changes, dict):
                    self._load_state(changes)
                for entry in changes if isinstance(changes, list) else ():
                    self._replay(entry)
            yield

    def _save(self, file: RuntimeFile) -> None:
        if file.removed:
            for name, context in self.by_name.items():
                if self._owns(name, context):
                    context._buffer.mark_all_unsaved()
        found = file.read()
        self._load_state(found)
        state = {name: list(context) for name, context in self.by_name.items()}
        if state != found or not file.is_complete:
            file.write(state)
        for name, context in self.by_name.items():
            if self._owns(name, context):
                context._buffer.unsaved = None
        self._names_in_file = set(state)

    def _load_state(self, state: State) -> None:
        """Hold what the file has, together with what is not saved here."""
        for name in [*self.by_name, *state]:
            if self._is_removed(name):
                continue
            context = self.get_or_create(name)
            if self._owns(name, context):
                context._buffer.replace_all(context._buffer.reconcile(state.get(name, [])))
        self._names_in_file.update(state)

    def _replay(self, entry: JournalEntry) -> None:
        if self._is_removed(entry.context):
            return
        self._names_in_file.add(entry.context)
        buffer = self.get_or_create(entry.context)._buffer
        if entry.verb == "add":
            buffer.add([message for message in entry.messages if message.id not in buffer.by_id])
        else:
            messages = dict(buffer.by_id)
            entry.apply(messages)
            buffer.replace_all(list(messages.values()))

    def _is_removed(self, name: str) -> bool:
        return name in self._names_in_file and name not in self.by_name

    def _owns(self, name: str, context: Context) -> bool:
        persistence = context._persistence
        return (
            isinstance(persistence, RegistryPersistence)
            and persistence.registry is self
            and persistence.name == name
        )

    def _adopt(self, name: str, context: Context) -> None:
        # A context that was put here may have its own file, or belong to another runtime.
        if type(context._persistence) is Persistence:
            context._persistence = RegistryPersistence(self, name)


class RegistryPersistence(Persistence):
    """Keeps one of a runtime's contexts in the runtime's file."""

    def __init__(self, registry: ContextRegistry, name: str) -> None:
        self.registry, self.name = registry, name

    def transaction(self, buffer: MessageBuffer) -> AbstractContextManager[None]:
        return self.registry.transaction(buffer)

    def add(self, buffer: MessageBuffer, messages: Sequence[Message]) -> None:
        if not self.registry.keep_updated:
            buffer.mark_unsaved(edited=False)
        self.registry.write_journal(*(JournalEntry(self.name, "add", [message]) for message in messages))

    def edit(self, buffer: MessageBuffer, messages: Sequence[Message]) -> None:
        if not self.registry.keep_updated:
            buffer.mark_unsaved(edited=True)
        self.registry.write_journal(*edit_entries(self.name, buffer.by_id, messages))

    def after_add(self) -> None:
        self.registry.after_add()

    def save(self, buffer: MessageBuffer) -> None:
        self.registry.save()


class Compact(Protocol):
    """Makes long contexts short.

    `compact` changes the contexts in place, or returns other contexts under the same names, whose messages
    then replace the old ones. The result may be awaitable.
    """

    def compact(self, contexts: Contexts) -> Contexts | Awaitable[Contexts]:
        """Shorten the contexts that need it, and return them all."""
        ...


@dataclass(frozen=True, slots=True)
class _RunningCompaction:
    """A compaction that has begun, and the ids of the messages that it began from."""

    result: Awaitable[Any]
    bases: Mapping[str, frozenset[str]]


class Runtime:
    """Contexts by name. With `keep_updated`, every change is on disk when the call returns.

    `save()` and the end of `with runtime:` write the file itself. Until then the changes are in a journal
    beside the file, and `from_file` reads both. `compact` runs after each addition. An async `compact` runs
    when you await `compacted()`, best between two turns.
    """

    def __init__(
        self,
        compact: Compact | None = None,
        file_path: str | os.PathLike[str] | None = None,
        keep_updated: bool = False,
        *,
        retries: int = 0,
        candidates: int = 1,
    ) -> None:
        if compact is not None and not callable(getattr(compact, "compact", None)):
            raise TypeError(
                f"compact must have a method compact(contexts); {type(compact).__name__} has none"
            )
        if keep_updated and file_path is None:
            raise ValueError("keep_updated needs a file_path: there is no file to keep updated")
        self.compact = compact
        self.retries = check_int("retries", retries, least=0)
        self.candidates = check_int("candidates", candidates)
        file = None if file_path is None else RuntimeFile(file_path)
        self._registry = ContextRegistry(file, keep_updated=keep_updated, after_add=self._compact_after_add)
        self._recorder = Recorder(
            self._registry.add, new_context=self._create_context, as_current=self._as_current
        )
        self._next_numbers: dict[str, int] = {}
        self._compacting = self._compaction_due = False
        self._compactions: list[_RunningCompaction] = []
        if keep_updated:
            self.save()

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        keep_updated: bool = False,
        *,
        compact: Compact | None = None,
        retries: int = 0,
        candidates: int = 1,
    ) -> Self:
        """The runtime in a file; empty if the file does not exist.

        It becomes the current runtime, unless this call is inside a `with runtime:`.
        """
        runtime = cls(compact, path, retries=retries, candidates=candidates)
        runtime._registry.load()
        if keep_updated:
            runtime._registry.keep_updated = True
            runtime.save()
        if not _entered_runtimes.get():
            _restored_runtime.set(runtime)
        return runtime

    @property
    def CTX(self) -> Contexts:  # noqa: N802  # the documented name
        """The contexts by name."""
        return self._registry.by_name

    @property
    def file_path(self) -> Path | None:
        """The path of its file, or None."""
        return self._registry.file.path if self._registry.file else None

    @property
    def keep_updated(self) -> bool:
        """Tell whether every change is written to disk at once."""
        return self._registry.keep_updated

    def get_context(self, name: str = "main") -> Context:
        """The context of this name; it is created if there is none."""
        _check_name(name, "context name")
        if name not in self.CTX:
            with self._registry.transaction():
                return self._registry.get_or_create(name)
        return self._registry.get_or_create(name)

    def new_context(self, label: str = "main", branch_from: Context | str | None = None) -> Context:
        """A new context named `label_a`, or with the next free letters. `branch_from` copies messages."""
        _check_name(label, "label")
        if isinstance(branch_from, str) and branch_from not in self.CTX:
            raise InvalidKey("branch_from", f"there is no context {branch_from!r}, only {sorted(self.CTX)}")
        source = self.CTX[branch_from] if isinstance(branch_from, str) else branch_from
        context = self.CTX[self._create_context(label)]
        context.extend(source or ())
        return context

    async def run(self, agent: Callable[..., Any], /, **input: Any) -> Any:  # noqa: A002  # the documented name
        """Call an agent. If it succeeds, its input and its answer are added to `main`, else nothing is.

        Each attempt, also a failed one, is recorded in an `attempt_...` context, and its model calls in an
        `intermediate_...` context. A failed attempt is repeated up to `retries` times. With `candidates`,
        several attempts run in parallel; the first success counts and the others are cancelled.
        """
        return await self._recorder.run(agent, input, candidates=self.candidates, retries=self.retries)

    async def execute(self, tool: Callable[..., Any], /, **input: Any) -> Any:  # noqa: A002  # the documented name
        """Call a tool. The call and its result are added to `main`; an error is added and raised.

        Inside a run, they are added to `main` together with the run. A tool that is a model call is not
        added.
        """
        return await self._recorder.execute(tool, input)

    def get_full_context(self, labels: str | Iterable[str] | None = None) -> list[Message]:
        """The messages of all contexts, or of those named `label` or `label_*`: each once, by time."""
        chosen = None if labels is None else [labels] if isinstance(labels, str) else list(labels)
        found: dict[str, Message] = {}
        for name, context in list(self.CTX.items()):
            if chosen is None or any(name == label or name.startswith(f"{label}_") for label in chosen):
                for message in context:
                    found.setdefault(message.id, message)
        return sorted(found.values(), key=lambda message: message.created_at)

    def clear(self) -> None:
        """Remove all messages from all contexts; their names stay."""
        for context in list(self.CTX.values()):
            context.clear()

    def save(self) -> None:
        """Write the file, keep what other processes have written, and remove the journal."""
        self._registry.save()

    async def compacted(self) -> None:
        """Run the compaction that is due, and wait for it."""
        while self._compactions:
            running = self._compactions.pop(0)
            self._apply(await running.result, running.bases)
        if not self._compaction_due or self.compact is None:
            return
        self._compaction_due, bases = False, self._ids_by_name()
        try:
            result: Any = self.compact.compact(dict(self.CTX))
            self._apply(await result if inspect.isawaitable(result) else result, bases)
        except BaseException:
            self._compaction_due = True
            raise

    def __enter__(self) -> Self:
        _entered_runtimes.set((*_entered_runtimes.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()
        if self.keep_updated:
            self.save()

    def __repr__(self) -> str:
        where = f", file_path={str(self.file_path)!r}" if self.file_path else ""
        return f"Runtime(contexts={list(self.CTX)}{where})"

    def _leave(self) -> None:
        # No tokens: the same runtime may be entered by many tasks at the same time.
        entered = list(reversed(_entered_runtimes.get()))
        if self in entered:
            entered.remove(self)
            _entered_runtimes.set(tuple(reversed(entered)))

    @contextmanager
    def _as_current(self) -> Iterator[None]:
        """Be the current runtime for a while, without saving the whole file at the end of it."""
        _entered_runtimes.set((*_entered_runtimes.get(), self))
        try:
            yield
        finally:
            self._leave()

    def _create_context(self, label: str) -> str:
        """Make a context with the next free name of a label."""
        with self._registry.transaction():
            number = self._next_numbers.get(label, 0)
            while (name := f"{label}_{_letters(number)}") in self.CTX:
                number += 1
            self._next_numbers[label] = number + 1
            self._registry.write_journal(JournalEntry(name, "new"))
            self._registry.get_or_create(name)
        return name

    def _compact_after_add(self) -> None:
        """Messages were added: compact, unless it is the compaction that added them."""
        if self.compact is None or self._compacting:
            return
        self._compacting = True
        try:
            result: Any = self.compact.compact(dict(self.CTX))
            if inspect.iscoroutine(result):
                # It has not begun; `compacted` makes another, over what is there by then.
                result.close()
                self._compaction_due = True
            elif inspect.isawaitable(result):
                self._compactions.append(_RunningCompaction(result, self._ids_by_name()))
            else:
                self._apply(result)
        except Exception:
            # The message is added and saved, so a failed compaction must not raise in the caller.
            logger.warning("compaction by %s failed", type(self.compact).__name__, exc_info=True)
        finally:
            self._compacting = False

    def _ids_by_name(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(context._buffer.by_id) for name, context in self.CTX.items()}

    def _apply(self, result: Any, bases: Mapping[str, frozenset[str]] | None = None) -> None:
        """Take over messages that came back in other contexts, and keep what was added meanwhile."""
        for name, other in result.items() if isinstance(result, Mapping) else ():
            context = self.CTX.get(name)
            if context is not None and other is not context:
                made = distinct_messages(wire.from_dicts(other))
                base = context._buffer.by_id.keys() if bases is None else bases.get(name, frozenset())
                context.messages = merge_edits(base, made, list(context))


_default_runtime = Runtime()


def get_runtime() -> Runtime:
    """The runtime of the innermost `with`, else the last one read from a file, else a default one."""
    entered = _entered_runtimes.get()
    return entered[-1] if entered else _restored_runtime.get() or _default_runtime


def get_context(name: str = "main") -> Context:
    """The context of the current runtime with this name; it is created if there is none."""
    return get_runtime().get_context(name)


def new_context(label: str = "main", branch_from: Context | str | None = None) -> Context:
    """A new context of the current runtime, named `label_a` or the next free letters."""
    return get_runtime().new_context(label, branch_from)


def no_context() -> Context:
    """A context that belongs to no runtime and is never saved."""
    return Context()


def _letters(number: int) -> str:
    """0, 1, ... as a, b, ... z, aa, ab, ..."""
    letters, number = "", number + 1
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return letters


def _check_name(name: Any, part: str) -> None:
    if not isinstance(name, str) or not name:
        found = "is empty" if name == "" else f"must be a string, not {type(name).__name__}"
        raise InvalidKey(part, found)
