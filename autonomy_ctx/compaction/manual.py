"""Summaries that somebody asks for, and what is said of a context that a summary makes smaller."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.prompt import PLACEHOLDER
from autonomy_ctx.memory.store import StoredSegment


@dataclass(slots=True, kw_only=True)
class ManualSummary:
    """A summary that is written now, whether one is due or not."""

    # An instruction for this one, beside those of the configuration.
    focus: str | None = None
    segments: list[StoredSegment] = field(default_factory=list)
    # Why not everything was summarized; empty if it was.
    problem: str = ""

    def adapt(self, settings: CompactionSettings) -> CompactionSettings:
        """The settings with the focus."""
        if self.focus is None:
            return settings
        config = settings.config
        # The place of the conversation is that of the configuration.
        focus = self.focus.replace(PLACEHOLDER, "the conversation")
        instructions = "\n".join(filter(None, [config.instructions, focus]))
        return replace(settings, config=replace(config, instructions=instructions))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The result of `Agent.compact`: the segments that were written, and what the next context will be.

    The messages `first` to `last` leave the context with the next turn, except those `kept`, which are
    pinned; 0 if none leave. `problem` says why not everything was summarized.
    """

    segments: tuple[StoredSegment, ...]
    first: int
    last: int
    kept: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """A summary takes the place of the messages `first` to `last` in the request that follows.

    `reason` is that of the end of the epoch. `tokens_before` is None if this process did not send the context
    before.
    """

    first: int
    last: int
    reason: str
    tokens_before: int | None
    tokens_after: int
