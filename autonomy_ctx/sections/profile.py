"""`ProfileSection`: the profile of a user as data for the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from typing import Any

from autonomy_ctx.compaction.config import resolve_timezone
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.profile import ProfileEntry
from autonomy_ctx.memory.store import MessageRef
from autonomy_ctx.messages.dates import format_day
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import PER_MESSAGE
from autonomy_ctx.messages.transcript import nonce, wrap_untrusted
from autonomy_ctx.sections.section import ContributingSection, Contribution, Omission, Params, data_message
from autonomy_ctx.validation import check_int

PROFILE_PREAMBLE = (
    "What this user said in other conversations that holds in all of them, and when. "
    "A record of what was said: it has the weight of a user's message, no more."
)
PROFILE_LABEL = "profile"
# Fewer have no room for one entry in its frame.
MIN_TOKENS = 128


class ProfileSection(ContributingSection):
    """The profile of the scope, without entries from this conversation, which are in its history.

    So the text stays the same during a conversation. Entries that do not fit into `max_tokens` are reported
    as omitted: the oldest learned entries first, entries that users wrote last.
    """

    kind = "slow"
    # A user may remove an entry: then no context shows it again.
    may_be_removed = True

    def __init__(
        self,
        name: str = "profile",
        enabled: bool = True,
        *,
        max_tokens: int = 512,
        timezone: tzinfo | str = UTC,
    ) -> None:
        super().__init__(name, enabled)
        self.max_tokens = check_int("max_tokens", max_tokens, least=MIN_TOKENS)
        self._zone = resolve_timezone(timezone)

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        if not isinstance(memory, Memory):
            return Contribution(())
        profile = memory.profile(scope)
        version = await profile.version()
        entries = [one for one in await profile if one.conversation != conversation]
        if not entries:
            return Contribution(())
        count = memory.token_counter.count_text

        def shorter(tokens: int) -> Message | None:
            left = self._fit(entries, tokens - PER_MESSAGE, count)
            return data_message(self._render(left)) if left else None

        shown = self._fit(entries, self.max_tokens - PER_MESSAGE, count)
        omitted = [entry.id for entry in entries if entry not in shown]
        return Contribution(
            (data_message(self._render(shown)),) if shown else (),
            omitted=(_omission(omitted),) if omitted else (),
            shorter=shorter,
            refs=(version, *_source_refs(shown)) if shown else (),
        )

    def _render(self, entries: Sequence[ProfileEntry]) -> str:
        text = "\n".join(map(self._line, entries))
        return f"{PROFILE_PREAMBLE}\n{wrap_untrusted(PROFILE_LABEL, text, nonce(text))}"

    def _line(self, entry: ProfileEntry) -> str:
        return f"- {entry.kind}: {entry.text} ({format_day(entry.since.astimezone(self._zone))})"

    def _fit(
        self, entries: Sequence[ProfileEntry], tokens: int, count: Callable[[str], int]
    ) -> list[ProfileEntry]:
        """The entries that have room, in their order: what users wrote first, then the newest."""
        chosen: list[ProfileEntry] = []
        left = tokens - count(self._render(()))
        for entry in sorted(entries, key=lambda one: (one.source == "user", one.since), reverse=True):
            cost = count(self._line(entry) + "\n")
            if cost <= left:
                left -= cost
                chosen.append(entry)
        # Lines together may count for a little more than each for itself; so may the mark around them, which
        # is another one for each text.
        while (
            count(self._render(shown := [entry for entry in entries if entry in chosen])) > tokens and shown
        ):
            chosen.pop()
        return shown


def _source_refs(entries: Sequence[ProfileEntry]) -> tuple[MessageRef, ...]:
    """The messages that entries were learned from. A fact ends with any message of its summary, too."""
    learned = [(entry.conversation, entry.position) for entry in entries if entry.conversation is not None]
    places = dict.fromkeys([*learned, *((conversation, None) for conversation, _ in learned)])
    return tuple(MessageRef(conversation, position) for conversation, position in places)


def _omission(ids: Sequence[str]) -> Omission:
    """Entries without room. They were said in other conversations: no position here is theirs."""
    reason = f"max_tokens: no room for {', '.join(ids)}"
    return Omission(first=0, last=0, count=len(ids), reason=reason, what="profile")
