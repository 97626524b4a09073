"""Recorded conversations for tests: small, with facts and identifiers whose fate is known."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from autonomy_ctx.replay import RecordedConversation

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)


def talk(turns: int, *, minutes: float | None = None) -> list[dict[str, Any]]:
    """A rule and a code in the first turn, then one order after the other; each third calls a tool."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help the support team."}]
    for number in range(1, turns + 1):
        asked = f"Where is order ORD-{10_000 + number}? The customer waits for an answer since this morning."
        if number == 1:
            asked = "Never ship anything on Fridays. The door code of the depot is KX-7719."
        said: list[dict[str, Any]] = [{"role": "user", "content": asked}]
        if number % 3 == 0:
            call = {"id": f"c{number}", "name": "find", "arguments": json.dumps({"order": 10_000 + number})}
            said += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": f"shelf {number}"},
            ]
        said.append({"role": "assistant", "content": f"It left depot {number} and arrives in two days."})
        if minutes is not None:
            at = (NOON + timedelta(minutes=number * minutes)).isoformat()
            said = [one | {"created_at": at} for one in said]
        messages += said
    return messages


def recorded(turns: int, **options: Any) -> RecordedConversation:
    return RecordedConversation(talk(turns, **options), name="support")
