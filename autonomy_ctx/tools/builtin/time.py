"""The current time, which models do not know."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, tzinfo
from typing import Any, TypeAlias

from autonomy_ctx.messages.message import now
from autonomy_ctx.tools.tool import Tool, ToolRegistry

TimeTool: TypeAlias = Tool[[], Coroutine[Any, Any, str]]
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def time_tools(
    *, clock: Callable[[], datetime] = now, zone: tzinfo | None = None
) -> tuple[TimeTool, TimeTool]:
    """`get_current_time_utc` and `get_current_time`. Without a zone, local time is that of the machine."""

    async def get_current_time_utc() -> str:
        """The current date and time in UTC, in ISO 8601, with the day of the week."""
        return _format_time(clock().astimezone(UTC))

    async def get_current_time() -> str:
        """The current local date and time, in ISO 8601, with the day of the week."""
        return _format_time(clock().astimezone(zone))

    return Tool(get_current_time_utc), Tool(get_current_time)


def _format_time(at: datetime) -> str:
    # Not strftime: the day's name must not depend on the machine's language.
    return f"{at.isoformat(timespec='seconds')} ({_DAYS[at.weekday()]})"


get_current_time_utc: TimeTool
"""A tool: the current date and time in UTC, in ISO 8601, with the day of the week."""
get_current_time: TimeTool
"""A tool: the current local date and time, in ISO 8601, with the day of the week."""
get_current_time_utc, get_current_time = time_tools()
ToolRegistry.register(get_current_time_utc)
ToolRegistry.register(get_current_time)
