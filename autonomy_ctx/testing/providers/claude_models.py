"""`ClaudeModel`: the rules that differ between Claude models, by family and version.

A model that is not listed anywhere has the rules of its family, so a new version needs no change here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# The names of Fable and Mythos have the same rules.
_LARGE = ("fable", "mythos")
# Tokens: a shorter prefix is not cached. Versions of a family from the newest; the first that is not newer
# than the model counts.
_LEAST_CACHED: dict[str, tuple[tuple[tuple[int, int], int], ...]] = {
    "opus": (((5, 0), 512), ((4, 8), 1024), ((4, 7), 2048), ((4, 5), 4096)),
    "sonnet": (((5, 5), 512),),
    "haiku": (((5, 5), 512), ((4, 5), 4096)),
    "fable": (((5, 0), 512),),
    "mythos": (((5, 0), 512),),
}


@dataclass(frozen=True, slots=True)
class ClaudeModel:
    """The rules of one Claude model, by family and version."""

    family: str
    version: tuple[int, int]

    @classmethod
    def parse(cls, name: str) -> ClaudeModel:
        """The model with a name of the Claude API or of Bedrock."""
        found = re.search(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2})(?!\d))?", name)
        return cls(found[1], (int(found[2]), int(found[3] or 0))) if found else cls(name, (0, 0))

    @property
    def binds(self) -> bool:
        """Tell whether it checks the prefix of thinking."""
        return self.version >= ((5, 1) if self.family in _LARGE else (5, 5))

    @property
    def always_enforces(self) -> bool:
        """Tell whether a changed prefix is an error on every account."""
        return self.family in _LARGE and self.version >= (5, 2)

    @property
    def thinking_can_be_off(self) -> bool:
        """Tell whether `thinking.type` may be `disabled`."""
        return not self.binds or self.family == "haiku"

    @property
    def takes_system_messages(self) -> bool:
        """Tell whether messages may have the role `system`."""
        return self.binds or (self.version >= (4, 8) and self.family in ("opus", *_LARGE))

    @property
    def ignores_system_messages(self) -> bool:
        """Tell whether it accepts messages with the role `system` and does not read them."""
        return (self.family, self.version) == ("sonnet", (5, 0))

    @property
    def compacts(self) -> bool:
        """Tell whether it writes summaries on demand."""
        least = {"haiku": (5, 5), "fable": (5, 0), "mythos": (5, 0)}.get(self.family, (4, 6))
        return self.version >= least

    @property
    def min_cached_tokens(self) -> int:
        """Tokens that a prefix must have to be cached."""
        steps = _LEAST_CACHED.get(self.family, ())
        return next((tokens for version, tokens in steps if self.version >= version), 1024)

    def reads(self, maker: ClaudeModel) -> bool:
        """Tell whether it can read the thinking of another model; if not, the API drops that thinking."""
        if self == maker:
            return True
        if self.family in ("sonnet", "haiku") and self.binds:
            return False
        if self.family in _LARGE:
            return maker.version <= self.version or (maker.family, maker.version) == ("opus", (5, 5))
        return maker.family not in _LARGE and maker.version <= self.version
