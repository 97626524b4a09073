"""Conversations of four kinds of agent, for the plots of `make_plots.py`: the same in every run.

What differs is what decides about limits: how long a message is, how many requests a turn has, whether users
pause for longer than a provider's cache lasts, and how long a conversation gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from autonomy_ctx.replay import RecordedConversation

START = datetime(2026, 5, 4, 9, tzinfo=UTC)
CITIES = ("Porto", "Lisbon", "Braga", "Faro", "Tomar", "Sintra", "Aveiro", "Coimbra")
PEOPLE = ("Ada Okafor", "Jonas Weber", "Mina Sato", "Luis Prado", "Eva Novak")
# What holds from then on; the newer of two about the same thing takes its place.
STATEMENTS = (
    "My booking code is PT-{number}.",
    "The budget is {number} EUR.",
    "Never book anything above {small} EUR a night.",
    "The contact at the hotel is now {person}.",
    "We decided to stay in {city}.",
    "I prefer window seats.",
    "My deadline is {day} June.",
    "Please always answer in short sentences.",
)
QUESTIONS = (
    "How do I get from {city} to {other} on Sunday without a car, and what does it cost?",
    "Is there a quiet room in {city} for two nights, with breakfast, near the old town?",
    "What did {person} say about the ferry on {day} June?",
    "Can you compare the two offers from {city} for me?",
)
ANSWERS = (
    "The train from {city} to {other} leaves at 08:{small} and costs {small} EUR. The bus is cheaper, but it "
    "needs two changes and an hour more, and it does not run on Sundays before ten.",
    "There are two rooms in {city}. Room R-{number} costs {small} EUR and has breakfast; the other one is on "
    "the street, {small} EUR, without breakfast. I would take the first one.",
    "{person} wrote on {day} June that the ferry to {other} runs at 9:40 when the sea is calm. I have put it "
    "into your notes as N-{number}.",
)
SHORT_QUESTIONS = ("And to {other}?", "Is that on {day} June?", "What about {city}?", "How much is it?")
SHORT_ANSWERS = ("Yes, at 08:{small}, from {city}.", "It is {small} euros.", "On {day} June, with {person}.")
CODE = (
    "    def load_{number}(self, path: str) -> list[Row]:\n"
    "        # {person}: keep the order of rows, see issue {small}.\n"
    "        rows = [parse(line) for line in open(path) if line.strip()]\n"
    "        return sorted(rows, key=lambda row: row.day)\n"
)


@dataclass(frozen=True)
class Kind:
    """A kind of agent and a conversation with it."""

    name: str
    description: str
    conversation: RecordedConversation


def make_kinds() -> list[Kind]:
    """One conversation of each kind."""
    return [
        Kind("Assistant for weeks", "a user comes back every few hours", make_assistant()),
        Kind("Voice agent", "short sentences, seconds apart", make_voice()),
        Kind("Coding agent", "tool results of 800 tokens", make_coder()),
        Kind("Platform", "a short conversation of one of many users", make_platform()),
    ]


def make_assistant() -> RecordedConversation:
    """Three turns at a time, then hours of silence, for three weeks."""
    return _record("assistant", _hold(chance=Random(1), turns=90, tools=3, pause_every=3, result_lines=6))


def make_voice() -> RecordedConversation:
    """A call of twenty minutes."""
    return _record("voice", _hold(chance=Random(2), turns=120, seconds=10, is_short=True))


def make_coder() -> RecordedConversation:
    """Each task reads four files or so, one after the other."""
    return _record(
        "coder", _hold(chance=Random(3), turns=24, tools=1, calls=4, result_lines=12, result=CODE, seconds=60)
    )


def make_platform() -> RecordedConversation:
    """What most users of a service have: a dozen turns."""
    return _record("platform", _hold(chance=Random(4), turns=14, tools=4, result_lines=6))


def _record(name: str, messages: Iterator[dict[str, Any]]) -> RecordedConversation:
    return RecordedConversation(messages, name=name, instructions="You plan journeys for a small team. " * 90)


def _hold(
    *,
    chance: Random,
    turns: int,
    tools: int = 0,
    calls: int = 1,
    result: str = "2026-06-{day:02d} {city} to {other}, seat {small}, {number} free\n",
    result_lines: int = 0,
    seconds: int = 40,
    pause_every: int = 0,
    is_short: bool = False,
) -> Iterator[dict[str, Any]]:
    """The messages of a conversation; every `tools`-th turn makes `calls` calls, one after the other."""
    time = START

    def at(role: str, content: str | None, **more: Any) -> dict[str, Any]:
        nonlocal time
        time += timedelta(seconds=2)
        return {"role": role, "content": content, "created_at": time.isoformat(), **more}

    for turn in range(turns):
        time += timedelta(hours=7) if pause_every and turn % pause_every == 0 else timedelta(seconds=seconds)
        words = choose_words(chance)
        if turn % 6 == 1:
            asked = STATEMENTS[turn // 6 % len(STATEMENTS)]
        else:
            asked = chance.choice(SHORT_QUESTIONS if is_short else QUESTIONS)
        yield at("user", asked.format(**words))
        if tools and turn % tools == 0:
            for call in range(calls):
                name = f"call_{turn}_{call}"
                arguments = json.dumps({"city": words["city"], "number": words["number"]})
                function = {"name": "look_up", "arguments": arguments}
                yield at(
                    "assistant", None, tool_calls=[{"id": name, "type": "function", "function": function}]
                )
                lines = (result.format(**choose_words(chance)) for _ in range(result_lines))
                yield at("tool", "".join(lines), tool_call_id=name)
        yield at("assistant", chance.choice(SHORT_ANSWERS if is_short else ANSWERS).format(**words))


def choose_words(chance: Random) -> dict[str, Any]:
    """Names and numbers for the sentences above."""
    city, other = chance.sample(CITIES, 2)
    return {
        "city": city,
        "other": other,
        "person": chance.choice(PEOPLE),
        "number": chance.randrange(1000, 9999),
        "small": chance.randrange(10, 60),
        "day": chance.randrange(1, 29),
    }
