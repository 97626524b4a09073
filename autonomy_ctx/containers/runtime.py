"""The contexts of a runtime together with their file: who is in it, and what of it others changed."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from autonomy_ctx.containers.context import Context, Held, Keeper, distinct, merged
from autonomy_ctx.containers.context_file import locked
from autonomy_ctx.containers.recording import Recorder
from autonomy_ctx.containers.runtime_file import Entry, RuntimeFile, State, edits
from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message
from autonomy_ctx.validation import check_int


class KeptContexts:
    """Contexts by name, and the file that keeps them all, if there is one."""

    def __init__(self, file: RuntimeFile | None, *, at_once: bool, settled: Callable[[], None]) -> None:
        self.by_name: dict[str, Context] = {}
        self.file = file
        self.at_once = at_once
        self.settled = settled
        # The names that the file has, as far as we know: one that is gone here was removed on purpose.
        self._saved: set[str] = set()

    def made(self, name: str) -> Context:
        """The context of this name, which is made if there is none."""
        context = self.by_name.get(name)
        if context is None:
            context = self.by_name[name] = Context()
        self._adopt(name, context)
        return context

    def changing(self, held: Held | None = None) -> AbstractContextManager[None]:
        """Hold the file, having taken over what others wrote, when changes are written at once."""
        return self._caught_up(self.file, held) if self.file and self.at_once else nullcontext()

    def log(self, *entries: Entry) -> None:
        """Write changes to the journal, inside `changing`, when changes are written at once."""
        if self.file and self.at_once and entries:
            self.file.log(entries)
            self._saved.update(entry.context for entry in entries)

    def add(self, additions: Mapping[str, Sequence[Message]]) -> None:
        """Add messages to contexts by their names, in one step; those of one context all or none."""
        known = [self.made(name)._held for name in additions if name in self.by_name]
        elsewhere: list[tuple[Context, Sequence[Message]]] = []
        with self.changing(next((held for held in known if held.unsaved), None)):
            new: dict[str, list[Message]] = {}
            for name, messages in additions.items():
                context = self.by_name.get(name)
                if context is not None and not self._owns(name, context):
                    elsewhere.append((context, messages))
                else:
                    new[name] = context._held.fresh(messages) if context else distinct(messages)
            self.log(*(Entry(name, "add", messages) for name, messages in new.items() if messages))
            for name, messages in new.items():
                held = self.made(name)._held
                if not self.at_once:
                    held.mark(edited=False)
                held.add(messages)
        for context, messages in elsewhere:
            context.extend(messages)
        self.settled()

    def load(self) -> None:
        """Take over what the file holds."""
        if self.file:
            self._take(self.file.load())

    def save(self) -> None:
        """Bring the file up to date with these contexts, and these with what others wrote."""
        if self.file is None:
            raise ValueError("this runtime has no file; give it one with Runtime(file_path=...)")
        with locked(self.file.path):
            self._save(self.file)

    @contextmanager
    def _caught_up(self, file: RuntimeFile, held: Held | None) -> Iterator[None]:
        with locked(file.path):
            if file.long or file.removed or (held and held.unsaved):
                self._save(file)
            else:
                news = file.news()
                if isinstance(news, dict):
                    self._take(news)
                for entry in news if isinstance(news, list) else ():
                    self._replay(entry)
            yield

    def _save(self, file: RuntimeFile) -> None:
        if file.removed:
            for name, context in self.by_name.items():
                if self._owns(name, context):
                    context._held.unsave()
        found = file.read()
        self._take(found)
        state = {name: list(context) for name, context in self.by_name.items()}
        if state != found or not file.plain:
            file.write(state)
        for name, context in self.by_name.items():
            if self._owns(name, context):
                context._held.unsaved = None
        self._saved = set(state)

    def _take(self, state: State) -> None:
        """Hold what the file has, together with what is not saved here."""
        for name in [*self.by_name, *state]:
            if self._removed(name):
                continue
            context = self.made(name)
            if self._owns(name, context):
                context._held.take(context._held.reconciled(state.get(name, [])))
        self._saved.update(state)

    def _replay(self, entry: Entry) -> None:
        if self._removed(entry.context):
            return
        self._saved.add(entry.context)
        held = self.made(entry.context)._held
        if entry.verb == "add":
            held.add([message for message in entry.messages if message.id not in held.by_id])
        else:
            messages = dict(held.by_id)
            entry.apply(messages)
            held.take(list(messages.values()))

    def _removed(self, name: str) -> bool:
        return name in self._saved and name not in self.by_name

    def _owns(self, name: str, context: Context) -> bool:
        keeper = context._keeper
        return isinstance(keeper, NamedKeeper) and keeper.kept is self and keeper.name == name

    def _adopt(self, name: str, context: Context) -> None:
        # One that somebody put here may have a file of its own, or belong to another runtime.
        if type(context._keeper) is Keeper:
            context._keeper = NamedKeeper(self, name)


class NamedKeeper(Keeper):
    """Keeps one of a runtime's contexts in the runtime's file."""

    def __init__(self, kept: KeptContexts, name: str) -> None:
        self.kept, self.name = kept, name

    def changing(self, held: Held) -> AbstractContextManager[None]:
        return self.kept.changing(held)

    def add(self, held: Held, messages: Sequence[Message]) -> None:
        if not self.kept.at_once:
            held.mark(edited=False)
        self.kept.log(*(Entry(self.name, "add", [message]) for message in messages))

    def edit(self, held: Held, messages: Sequence[Message]) -> None:
        if not self.kept.at_once:
            held.mark(edited=True)
        self.kept.log(*edits(self.name, held.by_id, messages))

    def settle(self) -> None:
        self.kept.settled()

    def save(self, held: Held) -> None:
        self.kept.save()


logger = logging.getLogger("autonomy_ctx.containers")
Contexts: TypeAlias = dict[str, Context]


class Compact(Protocol):
    """Makes long contexts short.

    It changes the contexts it is given in place, or returns others under the same names whose messages
    they are to take. What it returns may be awaitable.
    """

    def compact(self, contexts: Contexts) -> Contexts | Awaitable[Contexts]:
        """Shorten the contexts that need it, and return them all."""
        ...


@dataclass(frozen=True, slots=True)
class _Running:
    """A compaction that has begun, and the ids of the messages that it began from."""

    result: Awaitable[Any]
    bases: Mapping[str, frozenset[str]]


class Runtime:
    """Contexts by name. With `keep_updated` every change is on disk when the call returns.

    The file itself is brought up to date by `save()` and on leaving `with runtime:`; until then a
    journal beside it has the changes, and `from_file` reads both. After an addition `compact` runs.
    One that must be awaited runs when somebody awaits `compacted()`, best between two turns.
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
        self._kept = KeptContexts(file, at_once=keep_updated, settled=self._settled)
        self._recorder = Recorder(self._kept, new_context=self._new, current=self._current)
        self._numbers: dict[str, int] = {}
        self._compacting = self._owed = False
        self._running: list[_Running] = []
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
        """The runtime that a file holds; a missing file holds an empty one.

        It becomes the current one, unless this is inside a `with runtime:`.
        """
        runtime = cls(compact, path, retries=retries, candidates=candidates)
        runtime._kept.load()
        if keep_updated:
            runtime._kept.at_once = True
            runtime.save()
        if not _entered.get():
            _restored.set(runtime)
        return runtime

    @property
    def CTX(self) -> Contexts:  # noqa: N802  # the documented name
        """The contexts by name."""
        return self._kept.by_name

    @property
    def file_path(self) -> Path | None:
        """Its file, if it has one."""
        return self._kept.file.path if self._kept.file else None

    @property
    def keep_updated(self) -> bool:
        """Whether every change is written to disk at once."""
        return self._kept.at_once

    def get_context(self, name: str = "main") -> Context:
        """The context of this name, which is made if there is none."""
        _check(name, "context name")
        if name not in self.CTX:
            with self._kept.changing():
                return self._kept.made(name)
        return self._kept.made(name)

    def new_context(self, label: str = "main", branch_from: Context | str | None = None) -> Context:
        """A new context named `label_a`, or the next free letters, with a copy of another's messages."""
        _check(label, "label")
        if isinstance(branch_from, str) and branch_from not in self.CTX:
            raise InvalidKey("branch_from", f"there is no context {branch_from!r}, only {sorted(self.CTX)}")
        source = self.CTX[branch_from] if isinstance(branch_from, str) else branch_from
        context = self.CTX[self._new(label)]
        context.extend(source or ())
        return context

    async def run(self, agent: Callable[..., Any], /, **input: Any) -> Any:  # noqa: A002  # the documented name
        """Call an agent; `main` gets what it was asked and what it answered if it succeeds, else nothing.

        Each attempt, also one that fails, is in an `attempt_...` context, and model calls inside are in
        an `intermediate_...` one. A failed attempt is tried again up to `retries` times. With
        `candidates` several run side by side; the first that succeeds counts, the others are cancelled.
        """
        return await self._recorder.run(agent, input, candidates=self.candidates, retries=self.retries)

    async def execute(self, tool: Callable[..., Any], /, **input: Any) -> Any:  # noqa: A002  # the documented name
        """Call a tool; `main` gets the call with its result, or its error, which is raised.

        Inside a run they reach `main` together with it. A tool that is a model call is not recorded
        there.
        """
        return await self._recorder.execute(tool, input)

    def get_full_context(self, labels: str | Iterable[str] | None = None) -> list[Message]:
        """The messages of all contexts, or of those named `label` or `label_*`: each once, by time."""
        wanted = None if labels is None else [labels] if isinstance(labels, str) else list(labels)
        found: dict[str, Message] = {}
        for name, context in list(self.CTX.items()):
            if wanted is None or any(name == label or name.startswith(f"{label}_") for label in wanted):
                for message in context:
                    found.setdefault(message.id, message)
        return sorted(found.values(), key=lambda message: message.created_at)

    def clear(self) -> None:
        """Remove all messages from all contexts; their names stay."""
        for context in list(self.CTX.values()):
            context.clear()

    def save(self) -> None:
        """Bring the file up to date, together with what others have written; the journal goes."""
        self._kept.save()

    async def compacted(self) -> None:
        """Run the compaction that is owed, and wait until it is done."""
        while self._running:
            running = self._running.pop(0)
            self._apply(await running.result, running.bases)
        if not self._owed or self.compact is None:
            return
        self._owed, bases = False, self._bases()
        try:
            result: Any = self.compact.compact(dict(self.CTX))
            self._apply(await result if inspect.isawaitable(result) else result, bases)
        except BaseException:
            self._owed = True
            raise

    def __enter__(self) -> Self:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if self.keep_updated:
            self.save()

    def __repr__(self) -> str:
        where = f", file_path={str(self.file_path)!r}" if self.file_path else ""
        return f"Runtime(contexts={list(self.CTX)}{where})"

    def _leave(self) -> None:
        # No tokens: the same runtime may be entered by many tasks at the same time.
        entered = list(reversed(_entered.get()))
        if self in entered:
            entered.remove(self)
            _entered.set(tuple(reversed(entered)))

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Be the current runtime for a while, without saving the whole file at the end of it."""
        _entered.set((*_entered.get(), self))
        try:
            yield
        finally:
            self._leave()

    def _new(self, label: str) -> str:
        """Make a context with the next free name of a label."""
        with self._kept.changing():
            number = self._numbers.get(label, 0)
            while (name := f"{label}_{_letters(number)}") in self.CTX:
                number += 1
            self._numbers[label] = number + 1
            self._kept.log(Entry(name, "new"))
            self._kept.made(name)
        return name

    def _settled(self) -> None:
        """Messages were added: compact, unless it is the compaction that added them."""
        if self.compact is None or self._compacting:
            return
        self._compacting = True
        try:
            result: Any = self.compact.compact(dict(self.CTX))
            if inspect.iscoroutine(result):
                # It has not begun; `compacted` makes another, over what is there by then.
                result.close()
                self._owed = True
            elif inspect.isawaitable(result):
                self._running.append(_Running(result, self._bases()))
            else:
                self._apply(result)
        except Exception:
            # The message is added and saved; whoever added it has nothing to do with this.
            logger.warning("compaction by %s failed", type(self.compact).__name__, exc_info=True)
        finally:
            self._compacting = False

    def _bases(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(context._held.by_id) for name, context in self.CTX.items()}

    def _apply(self, result: Any, bases: Mapping[str, frozenset[str]] | None = None) -> None:
        """Take over messages that came back in other contexts, and keep what was added meanwhile."""
        for name, other in result.items() if isinstance(result, Mapping) else ():
            context = self.CTX.get(name)
            if context is not None and other is not context:
                made = distinct(map(wire.from_dict, other))
                base = context._held.by_id.keys() if bases is None else bases.get(name, frozenset())
                context.messages = merged(base, made, list(context))


_entered: ContextVar[tuple[Runtime, ...]] = ContextVar("autonomy_ctx_entered", default=())
_restored: ContextVar[Runtime | None] = ContextVar("autonomy_ctx_restored", default=None)
_default = Runtime()


def get_runtime() -> Runtime:
    """The runtime of the innermost `with`, else the one last restored from a file, else a default one."""
    entered = _entered.get()
    return entered[-1] if entered else _restored.get() or _default


def get_context(name: str = "main") -> Context:
    """A context of the current runtime by its name, which is made if there is none."""
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


def _check(name: Any, part: str) -> None:
    if not isinstance(name, str) or not name:
        found = "is empty" if name == "" else f"must be a string, not {type(name).__name__}"
        raise InvalidKey(part, found)
