"""The time tools."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from autonomy_ctx.messages.message import ToolCall
from autonomy_ctx.tools.builtin.time import get_current_time, get_current_time_utc, time_tools
from autonomy_ctx.tools.run import run_calls

NOON = datetime(2030, 1, 2, 12, 0, 0, 5, tzinfo=UTC)


async def test_the_time_is_that_of_the_clock_in_utc_and_in_the_zone() -> None:
    tools = time_tools(clock=lambda: NOON, zone=timezone(timedelta(hours=13)))
    calls = [ToolCall("1", "get_current_time_utc"), ToolCall("2", "get_current_time", "{}")]
    utc, local = await run_calls(calls, tools)
    assert utc.message is not None
    assert local.message is not None
    assert utc.message.text == "2030-01-02T12:00:00+00:00 (Wednesday)"
    assert local.message.text == "2030-01-03T01:00:00+13:00 (Thursday)"


async def test_by_default_they_use_the_clock_and_the_zone_of_the_machine() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    utc = datetime.fromisoformat((await get_current_time_utc()).split(" ")[0])
    local = datetime.fromisoformat((await get_current_time()).split(" ")[0])
    assert before <= utc <= local <= datetime.now(UTC)
    assert utc.tzinfo == UTC
    assert local.utcoffset() == datetime.now().astimezone().utcoffset()


def test_they_take_no_arguments() -> None:
    for made in (get_current_time, get_current_time_utc):
        assert made.spec["parameters"]["properties"] == {}
        assert made.description
