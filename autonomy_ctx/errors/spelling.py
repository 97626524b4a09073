"""Names that may have been meant by one that is not known, for errors that say so."""

from __future__ import annotations

from collections.abc import Iterable


def near_names(name: str, known: Iterable[str], *, limit: int = 1) -> list[str]:
    """The known names that are spelled most alike, the nearest first; case does not matter."""
    # Imported here: only errors need it.
    from difflib import get_close_matches

    by_lower_case = {one.lower(): one for one in known}
    return [by_lower_case[one] for one in get_close_matches(name.lower(), by_lower_case, n=limit)]


def did_you_mean(name: str, known: Iterable[str], *, quote: str = "'") -> str:
    """A question for the nearest name, to stand behind a wrong one: " (did you mean 'gpt-5'?)", or none."""
    near = near_names(name, known)
    return f" (did you mean {quote}{near[0]}{quote}?)" if near else ""
