"""Named contexts that live, are saved and are compacted together, and the runtime that is current.

Code deep inside a program asks for a context by name and gets the current runtime's. Tasks inherit
which one that is, and never change it for others.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

from autonomy_ctx.containers.arguments import parse_count
from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.held import distinct, merged
from autonomy_ctx.containers.journal import Entry
from autonomy_ctx.containers.kept import KeptContexts
from autonomy_ctx.containers.recording import Recorder
from autonomy_ctx.containers.runtime_file import RuntimeFile
from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message

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
        self.retries = parse_count(retries, "retries", at_least=0)
        self.candidates = parse_count(candidates, "candidates", at_least=1)
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
