"""What goes wrong with items in hand and their files."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class InvalidItem(AutonomyCtxError, ValueError):
    """A context item that cannot be kept, written as JSON, or read back."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid context item: `{field}` {problem}")
        self.field, self.problem = field, problem


class InvalidContainer(AutonomyCtxError, ValueError):
    """A saved container that cannot be read back."""

    def __init__(self, kind: str, field: str, problem: str) -> None:
        super().__init__(f"this is no saved {kind}: `{field}` {problem}")
        self.field, self.problem = field, problem


class UnknownItem(AutonomyCtxError, KeyError):
    """A pool was asked for an id that it does not hold."""

    def __init__(self, item_id: str, *, advice: str = "`catalogue()` lists the ids there are") -> None:
        super().__init__(item_id)
        self.item_id, self.advice = item_id, advice

    def __str__(self) -> str:
        return f"no item with the id {self.item_id!r}; {self.advice}"


class LimitNotMet(AutonomyCtxError):
    """What may not be removed from a context is, alone, over the limit; nothing was removed."""

    def __init__(self, *, over_items: int, over_tokens: int) -> None:
        sizes = [f"{over_items:,} items"] * bool(over_items) + [f"{over_tokens:,} tokens"] * bool(over_tokens)
        super().__init__(
            f"instructions, summaries, handoffs, calls still running and the newest user message are "
            f"{' and '.join(sizes)} over the limit; raise the limit or shorten them. Nothing was removed"
        )
        self.over_items, self.over_tokens = over_items, over_tokens


class SummaryFailed(AutonomyCtxError):
    """A model gave no text that may stand for the conversation; the context is unchanged."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the summary {problem}; the context is unchanged. Try again, or use another model")
        self.problem = problem


class InvalidContextFile(AutonomyCtxError, ValueError):
    """A file that should hold a context or a runtime does not; it was left as it is."""

    def __init__(self, *, path: str, problem: str, advice: str) -> None:
        super().__init__(f"{path} {problem}; the file was left as it is. {advice}")
        self.path, self.problem = path, problem
