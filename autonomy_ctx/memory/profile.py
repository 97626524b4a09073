"""`ScopeProfile`: facts about a user that hold in all conversations of a scope with one agent.

A profile has two sources. Learned entries are facts of conversations that are marked for the profile. They
are read in place, so they end, are replaced and are deleted with their conversation, and no copy has to be
updated. Entries that users wrote are records of a conversation without messages; they are deleted with the
scope.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from autonomy_ctx.errors import UnknownProfileEntry
from autonomy_ctx.language.profile import profile_subject
from autonomy_ctx.memory.encoding import UnreadableRow
from autonomy_ctx.memory.facts import check_fact_text, check_kind
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import MessageRef, ProfileFact, Record, RecordDraft, make_key
from autonomy_ctx.messages.fact import FACT_KINDS, FactKind, FactSource, clean_fact_text, normalize_fact

# Its records belong to a conversation that has no messages.
PROFILE_CONVERSATION = "autonomy_ctx:profile"
PROFILE_KIND = "profile"
# The body of an entry that was removed: nothing is left of what it said.
_EMPTY_BODY = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """One entry of a profile: its text, since when it holds, and the message that it comes from, if any.

    The id is computed from the text, so the same text twice is one entry.
    """

    id: str
    kind: FactKind
    text: str
    since: datetime
    source: FactSource
    conversation: str | None = None
    position: int | None = None


class ScopeProfile:
    """The profile of a scope: `await` it to read the entries, or change them with its methods.

    Entries that you write here stay until they are removed. A removed entry is not learned again from older
    messages.
    """

    def __init__(self, store: Store, agent: str, scope: str, clock: Callable[[], datetime]) -> None:
        self._store, self._key, self._clock = store, make_key(agent, scope, PROFILE_CONVERSATION), clock

    def __await__(self) -> Generator[Any, None, list[ProfileEntry]]:
        return self._read().__await__()

    async def add(self, kind: FactKind, text: str) -> ProfileEntry:
        """Add an entry, which holds in all conversations from now on."""
        entry = self._make(check_kind(kind), text)
        known = next((one for one in await self._read() if one.id == entry.id), None)
        if known is not None and known.source == "user":
            return known
        await self._write([(entry.id, _encode(entry))])
        return entry

    async def replace(self, entry_id: str, text: str, *, kind: FactKind | None = None) -> ProfileEntry:
        """Replace an entry by a new text; its kind stays unless `kind` is given."""
        old = await self._find(entry_id)
        entry = self._make(old.kind if kind is None else check_kind(kind), text)
        removed = [] if entry.id == old.id else [old.id]
        await self._write([(entry.id, _encode(entry))], removed)
        return entry

    async def remove(self, entry_id: str) -> None:
        """Remove an entry. If it comes from a fact of a conversation, the fact stays there."""
        await self._write([], [(await self._find(entry_id)).id])

    async def clear(self) -> int:
        """Remove all entries, and return how many there were."""
        entries = await self._read()
        await self._write([], [entry.id for entry in entries])
        return len(entries)

    async def version(self) -> MessageRef:
        """A reference for texts that show entries: removing one deletes them. Read it before the entries."""
        return MessageRef(PROFILE_CONVERSATION, generation=(await self._store.head(self._key)).generation)

    async def _find(self, entry_id: str) -> ProfileEntry:
        found = next((entry for entry in await self._read() if entry.id == entry_id), None)
        if found is None:
            raise UnknownProfileEntry(entry_id)
        return found

    async def _read(self) -> list[ProfileEntry]:
        learned = await self._store.profile_facts(self._key.agent, self._key.scope)
        return merge_profile(learned, await self._store.read_records(self._key, PROFILE_KIND))

    async def _write(self, records: list[tuple[str, str]], removed: Sequence[str] = ()) -> None:
        """Put entries; with those that are removed, all that quotes the profile is deleted at once."""
        drafts = [
            RecordDraft(PROFILE_KIND, name, body, ends_quotes=body == _EMPTY_BODY)
            for name, body in [*((one, _EMPTY_BODY) for one in removed), *records]
        ]
        if drafts:
            await self._store.append(self._key, (), drafts)

    def _make(self, kind: FactKind, text: str) -> ProfileEntry:
        clean = clean_fact_text(check_fact_text(text))
        return ProfileEntry(id=entry_id(clean), kind=kind, text=clean, since=self._clock(), source="user")


def entry_id(text: str) -> str:
    """The id of an entry with a text."""
    return "P" + sha256(normalize_fact(text).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def merge_profile(learned: Iterable[ProfileFact], records: Iterable[Record]) -> list[ProfileEntry]:
    """The entries of a profile in a stable order: by kind, then as they were said.

    What a user wrote or removed goes before what was learned up to then. Of what was learned about one thing,
    such as a name, the newest counts.
    """
    written = {record.name: record for record in records}
    own = [entry for record in written.values() if (entry := _decode(record)) is not None]
    found = {entry.id: entry for entry in own}
    own_subjects = {_subject(entry): entry.since for entry in sorted(own, key=lambda one: one.since)}
    subjects: dict[str, ProfileEntry] = {}
    for conversation, fact in learned:
        entry = ProfileEntry(
            id=entry_id(fact.text),
            kind=fact.kind,
            text=fact.text,
            since=fact.created_at,
            source=fact.source,
            conversation=conversation,
            position=fact.position,
        )
        record = written.get(entry.id)
        if entry.id in found or (record is not None and fact.created_at.timestamp() <= record.at):
            continue
        subject = _subject(entry)
        if subject and subject in own_subjects and own_subjects[subject] >= entry.since:
            continue
        if subject and subject in subjects:
            del found[subjects[subject].id]
        if subject:
            subjects[subject] = entry
        found[entry.id] = entry
    return sorted(found.values(), key=lambda one: (FACT_KINDS.index(one.kind), one.since, one.id))


def _subject(entry: ProfileEntry) -> str | None:
    """The thing that an entry is about, such as a name."""
    return profile_subject(entry.text)


def _encode(entry: ProfileEntry) -> str:
    return json.dumps({"kind": entry.kind, "text": entry.text, "since": entry.since.timestamp()})


def _decode(record: Record) -> ProfileEntry | None:
    """The entry of a record; None for one that was removed."""
    if record.body == _EMPTY_BODY:
        return None
    try:
        form = json.loads(record.body)
        return ProfileEntry(
            id=record.name,
            kind=form["kind"],
            text=form["text"],
            since=datetime.fromtimestamp(form["since"], UTC),
            source="user",
        )
    except (ValueError, KeyError, TypeError):
        pass
    # Raised here without its cause, which might quote a user's text.
    raise UnreadableRow(f"the entry {record.name} of a profile cannot be read")
