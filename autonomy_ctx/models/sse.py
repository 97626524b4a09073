"""Server-sent events: lines in, events out.

Written here because the usual packages are bound to one HTTP client. Only `event` and `data` matter to
a model's stream; comments, ids and retry hints are passed over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its data, and its name if it has one."""

    data: str
    event: str | None = None


async def next_event(lines: AsyncIterator[str]) -> ServerEvent | None:
    """The next event that has data; None at the end, where an unfinished event does not count."""
    name: str | None = None
    data: list[str] = []
    async for line in lines:
        if not line:
            if data:
                return ServerEvent("\n".join(data), name)
            name = None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value or None
    return None
