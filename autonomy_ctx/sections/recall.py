"""`RecallSection`: old messages that match the newest question and are not in the shown history.

It runs after the history section, which says which positions it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.recall import recall
from autonomy_ctx.memory.recall_block import describe_reasons, render_recall
from autonomy_ctx.memory.store import MessageRef
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import PER_MESSAGE
from autonomy_ctx.sections.section import (
    ContributingSection,
    Contribution,
    Params,
    composition_of,
    data_message,
)
from autonomy_ctx.validation import check_int

# Room for one message, if it is cut, with what stands around it.
MIN_TOKENS = 128


class RecallSection(ContributingSection):
    """Messages that match the newest user message and are not in the history, as data in one message.

    With `across`, messages of the scope's other conversations too. The section is optional; without a match
    it adds no message.
    """

    says = "adds"

    required = False

    def __init__(
        self,
        *,
        max_tokens: int = 1024,
        across: bool = False,
        name: str = "recall",
        timeout: float | None = 2.0,
        enabled: bool = True,
    ) -> None:
        super().__init__(name, enabled)
        self.max_tokens = check_int("max_tokens", max_tokens, least=MIN_TOKENS)
        self.across = across
        self.timeout = timeout

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        if not isinstance(memory, Memory):
            problem = f"cannot search a {type(memory).__name__}; it needs a `Memory`"
            return Contribution((), problem=problem)
        head = await memory.head(scope, conversation)
        newest = head.last_user
        composition = composition_of(params)
        shown = {newest, *(at for positions in composition.shown for at in positions if at is not None)}
        if not newest or (len(shown) >= head.count and not self.across):
            return Contribution(())
        asked = (await memory.read(scope, conversation, after=newest - 1, before=newest + 1)).entries
        found = await recall(
            memory,
            scope,
            asked[0].message.text if asked else "",
            conversation=None if self.across else conversation,
            max_tokens=self.max_tokens - PER_MESSAGE,
            exclude=_shown_before(composition.quoted, {conversation: shown}),
            explain=True,
        )
        if not found.text:
            return Contribution(())

        def shorter(tokens: int) -> Message | None:
            less = render_recall(
                found.passages,
                tokens - PER_MESSAGE,
                memory.token_counter,
                with_conversation_names=self.across,
            )
            return data_message(less.text) if less.text else None

        refs = dict.fromkeys(MessageRef(one.conversation, one.position) for one in found.passages)
        note = describe_reasons(found.passages)
        return Contribution([data_message(found.text)], shorter=shorter, refs=tuple(refs), note=note)


def _shown_before(quoted: Sequence[MessageRef], shown: Mapping[str, set[int]]) -> dict[str, set[int]]:
    """The positions of each conversation that the context shows already."""
    found = {conversation: set(positions) for conversation, positions in shown.items()}
    for ref in quoted:
        if ref.position is not None:
            found.setdefault(ref.conversation, set()).add(ref.position)
    return found
