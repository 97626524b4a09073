"""The contexts of a runtime together with their file: who is in it, and what of it others changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.disk import locked
from autonomy_ctx.containers.held import Held, distinct
from autonomy_ctx.containers.journal import Entry, edits
from autonomy_ctx.containers.keeping import Keeper
from autonomy_ctx.containers.runtime_file import RuntimeFile, State
from autonomy_ctx.items.message import Message


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
