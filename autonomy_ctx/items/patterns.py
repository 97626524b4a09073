"""Patterns that are compiled when they are first used: all of them at once would make an import slow."""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn")


class _Pattern:
    """Stands in for a compiled pattern until it is used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self._pattern, self._flags)
        # From now on found without coming here.
        vars(self).update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern for its methods; what is wrong with it shows when it is first used."""
    return cast("re.Pattern[str]", _Pattern(pattern, flags))
