"""What can be read of a chat context, for those who may read it but not change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from autonomy_ctx.containers.chat_dict import items_to_dicts
from autonomy_ctx.items.cuts import is_plain, users
from autonomy_ctx.items.edits import ActiveConfig, active_config, item_tokens
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.items.wire import Item

if TYPE_CHECKING:
    from autonomy_ctx.items.formats.anthropic import AnthropicMessages
    from autonomy_ctx.items.formats.google import GoogleContents


class Kept:
    """The items of one context, shared with its views."""

    __slots__ = ("_ids", "items", "merged")

    def __init__(self, items: Iterable[Item], merged: Iterable[str] = ()) -> None:
        self.items = list(items)
        # Ids of instructions that a merge brought in: records of what another agent was told.
        self.merged = set(merged)
        self._ids: dict[str, Item] | None = None

    def find(self, item_id: str) -> Item | None:
        """The first item with this id."""
        if self._ids is None:
            # Made when first asked for, so that a fork costs no more than a list.
            self._ids = {item.id: item for item in reversed(self.items)}
        return self._ids.get(item_id)

    def append(self, item: Item) -> None:
        self.items.append(item)
        if self._ids is not None:
            self._ids.setdefault(item.id, item)

    def replace(self, items: Iterable[Item], merged: Iterable[str] = ()) -> None:
        """Hold these items instead, from now on and all at once."""
        self.items = list(items)
        self.merged.update(merged)
        self._ids = None
        if self.merged:
            self.merged = {item.id for item in self.items if item.id in self.merged}


class ChatView:
    """The items of a `ChatContext` as they are now and as they will be; nothing can be changed here."""

    def __init__(self, kept: Kept, token_counter: TokenCounter) -> None:
        self._kept = kept
        self.token_counter = token_counter

    @property
    def items(self) -> list[Item]:
        """All items, in a list that belongs to the caller."""
        return list(self._kept.items)

    @property
    def merged_instructions(self) -> frozenset[str]:
        """Ids of instructions and configurations that `merge` brought in: a record, not in force here."""
        return frozenset(self._kept.merged)

    def __len__(self) -> int:
        return len(self._kept.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self._kept.items

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChatView):
            return NotImplemented
        return self._kept.items == other._kept.items and self._kept.merged == other._kept.merged

    __hash__ = None  # type: ignore[assignment]  # equal by content, and the content changes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items, {self.turn_count()} turns)"

    def get_by_id(self, item_id: str) -> Item | None:
        """The item with this id, or None."""
        return self._kept.find(item_id)

    def messages(self) -> list[Message]:
        """The messages that were said: no calls of tools, no results of calls, no events."""
        return [item for item in self._kept.items if isinstance(item, Message) and is_plain(item)]

    def turn_count(self) -> int:
        """How many messages users sent."""
        return len(users(self._kept.items))

    def estimated_tokens(self) -> int:
        """About how many tokens a model would read, in any script."""
        raw = sum(item_tokens(item, self.token_counter) for item in self._kept.items)
        return self.token_counter.calibration.scaled(raw)

    def active_config_at(self, target: str | int | None = None) -> ActiveConfig:
        """The instructions and tools in force after an item, given by id or index; None means the end.

        The latest system or developer message or configuration wins. An unknown id means the end, too.
        What a merge brought in was said to another agent and does not count.
        """
        return active_config(self._kept.items, target, ignoring=self._kept.merged)

    def to_openai_messages(self, *, reasoning_model: bool = False) -> list[dict[str, Any]]:
        """The messages as OpenAI's chat completions take them.

        As in the other formats, handoffs, configurations, direct messages and the instructions that a
        merge brought in are not shown, and what the provider would refuse is mended, but not in the context.
        """
        # Formats are imported when first asked for: most contexts never need them.
        from autonomy_ctx.containers.chat_formats import as_openai

        return as_openai(self._kept.items, self._kept.merged, reasoning_model=reasoning_model)

    def to_anthropic_messages(self, *, caching: bool = False) -> AnthropicMessages:
        """`messages` and `system` as Anthropic takes them, the user's first and last, in turn.

        With `caching`, a prompt cache is cut after the latest turns.
        """
        from autonomy_ctx.containers.chat_formats import as_anthropic

        return as_anthropic(self._kept.items, self._kept.merged, caching=caching)

    async def to_google_contents(
        self, *, thought_signatures: Mapping[str, str | bytes] | None = None, model: str | None = None
    ) -> GoogleContents:
        """`contents` and `system` as Gemini takes them.

        `thought_signatures`, by call id, are for calls that carry none themselves. For a `model` that
        refuses calls without one, those that are left are marked as made elsewhere.
        """
        from autonomy_ctx.containers.chat_formats import as_google

        write = partial(as_google, thought_signatures=thought_signatures, model=model)
        # A long context takes longer than the loop should be held.
        return await anyio.to_thread.run_sync(write, self.items, self.merged_instructions)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON that `ChatContext.from_dict` reads."""
        data: dict[str, Any] = {"items": items_to_dicts(self._kept.items)}
        return data | {"merged": sorted(self._kept.merged)} if self._kept.merged else data
