"""The conversation of the demo: a trip and a code base, 300 turns with tool calls, the same every time.

`DemoModel` plays the assistant's part. The turns are real ones of a real agent: it composes, asks this model,
runs the tools and stores what was said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from autonomy_ctx.formats.base import ModelReply, Usage
from autonomy_ctx.messages.cuts import newest_user_index
from autonomy_ctx.messages.message import ChatRole, Message, TextContent, ToolCall
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.wire import from_dict
from autonomy_ctx.models.offline import OfflineModel
from autonomy_ctx.tools.tool import Tool, tool

CITIES = ("Porto", "Lisbon", "Coimbra", "Évora", "Braga", "Faro", "Sintra", "Aveiro", "Tomar", "Óbidos")
FILES = ("fares.py", "rooms.py", "cache.py", "dates.py", "booking.py", "mail.py", "search.py", "users.py")
TESTS = ("rounds_half_up", "survives_a_restart", "refuses_a_past_date", "keeps_the_order", "times_out")
# What is said once, by the number of its turn: it holds until something takes its place.
STATEMENTS = {
    2: "The ferry to Berlenga leaves at 9:40 from pier 3.",
    9: "My booking code is PT-4711.",
    25: "Never book anything above 120 EUR a night.",
    60: "I prefer window seats.",
    90: "The budget is 900 EUR.",
    140: "Let's take the train on 4 May, not the bus.",
    190: "My booking code is PT-5822 now.",
    240: "The budget is 1,100 EUR now.",
}
LAST_QUESTION = "From which pier does the ferry to Berlenga go?"
# Between two turns: a person reads the answer, and a provider still has its cache.
TURN_SECONDS = 90


@dataclass(frozen=True, slots=True)
class RehearsedCall:
    """A call that the model makes, and what the tool will say."""

    tool: str
    arguments: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedTurn:
    """A question, the calls that are made side by side for it, and the answer."""

    question: str
    calls: tuple[RehearsedCall, ...] = ()
    answer: str


class DemoClock:
    """The time of the demo: it stands still within a turn, and the last turn is now."""

    def __init__(self, turns: int) -> None:
        self._at = datetime.now(UTC) - timedelta(seconds=TURN_SECONDS * turns)

    def __call__(self) -> datetime:
        return self._at

    def next_turn(self) -> None:
        """Go on to the next turn."""
        self._at += timedelta(seconds=TURN_SECONDS)


class Script:
    """Turns that change the topic every few of them; the same seed gives the same turns."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def turns(self, number: int) -> Iterator[RehearsedTurn]:
        """So many turns; some only state something."""
        made = 0
        while made < number:
            topic = self._random.choice((self._journey, self._room, self._bug, self._review))
            for _ in range(min(self._random.randint(2, 5), number - made)):
                made += 1
                statement = STATEMENTS.get(made)
                yield topic() if statement is None else RehearsedTurn(question=statement, answer="Noted.")

    def _journey(self) -> RehearsedTurn:
        start, end = self._random.sample(CITIES, 2)
        fare, hours = self._random.randint(10, 48), self._random.randint(1, 4)
        bus = fare // 2 + 3
        return RehearsedTurn(
            question=f"How do I get from {start} to {end} on Sunday, without a car?",
            calls=(
                RehearsedCall(
                    "search_trains",
                    f'{{"start": "{start}", "end": "{end}", "day": "sunday"}}',
                    f'[{{"leaves": "08:{fare}", "hours": {hours}, "eur": {fare}}}, {{"leaves": "13:05"}}]',
                ),
                RehearsedCall(
                    "search_buses",
                    f'{{"start": "{start}", "end": "{end}"}}',
                    f'[{{"eur": {bus}}}]',
                ),
            ),
            answer=f"Take the 08:{fare}: {hours} h, {fare} EUR. The bus costs {bus} EUR but needs two "
            f"changes. Shall I hold a seat by the window?",
        )

    def _room(self) -> RehearsedTurn:
        city, price = self._random.choice(CITIES), self._random.randint(55, 140)
        return RehearsedTurn(
            question=f"And somewhere quiet to sleep in {city}, with breakfast, two nights?",
            calls=(
                RehearsedCall(
                    "search_rooms",
                    f'{{"city": "{city}", "nights": 2, "quiet": true}}',
                    f'[{{"name": "Casa do Largo", "eur": {price}}}, {{"name": "Pensão {city}"}}]',
                ),
            ),
            answer=f"Casa do Largo in {city} has a quiet room for {price} EUR a night, breakfast included.",
        )

    def _bug(self) -> RehearsedTurn:
        file, test = self._random.choice(FILES), self._random.choice(TESTS)
        line = self._random.randint(12, 240)
        return RehearsedTurn(
            question=f"test_{test} fails on CI but not here. It touches {file}. Can you look?",
            calls=(
                RehearsedCall(
                    "read_file",
                    f'{{"path": "src/{file}"}}',
                    f"def load(day):\n    return CACHE[day]  # {line}",
                ),
                RehearsedCall(
                    tool="run_tests",
                    arguments=f'{{"name": "test_{test}"}}',
                    # What programs print is not always clean text.
                    result=f"\x1b[31mFAILED\x1b[0m {file}:{line} KeyError",
                ),
            ),
            answer=f"Line {line} of {file} reads the cache before the first write. CI starts with an empty "
            f"one; your machine does not. I would fall back to the database there.",
        )

    def _review(self) -> RehearsedTurn:
        file, other = self._random.sample(FILES, 2)
        return RehearsedTurn(
            question=f"Would you move the retry from {file} to {other}?",
            answer=f"Yes. {other} already knows the deadline, {file} does not, and two retries multiply: "
            f"3 times 3 is 9 requests for one click.",
        )


class DemoModel:
    """Says what was rehearsed; where nothing was, the offline model answers from the context alone."""

    name = "offline"
    context_window: int | None = None

    def __init__(self) -> None:
        self._counter = TokenCounter()
        self._offline = OfflineModel(counter=self._counter)
        self.turn: RehearsedTurn | None = None

    async def complete_chat(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> ModelReply:
        """The calls of the turn; after their results, its answer."""
        if self.turn is None:
            return await self._offline.reply(messages, tools or ())
        read = [from_dict(message) for message in messages]
        sent = self._counter.count_messages(read) + self._counter.count_tools(tools or ())
        asked = newest_user_index(read) or 0
        if self.turn.calls and not any(message.role is ChatRole.TOOL for message in read[asked:]):
            calls = tuple(
                ToolCall(f"{call.tool}-{len(read)}", call.tool, call.arguments) for call in self.turn.calls
            )
            written = self._counter.count_text("".join(call.arguments for call in calls))
            usage = Usage(input_tokens=sent, output_tokens=written)
            return ModelReply(tool_calls=calls, stop="tools", usage=usage, model=self.name)
        usage = Usage(input_tokens=sent, output_tokens=self._counter.count_text(self.turn.answer))
        return ModelReply(parts=(TextContent(self.turn.answer),), stop="end", usage=usage, model=self.name)

    def tools(self) -> list[Tool[..., Any]]:
        """The tools that it calls. Each gives what was rehearsed."""

        def result(name: str) -> str:
            calls = () if self.turn is None else self.turn.calls
            return next((call.result for call in calls if call.tool == name), "nothing found")

        @tool
        def search_trains(start: str, end: str, day: str) -> str:
            """Trains between two cities on a day."""
            return result("search_trains")

        @tool
        def search_buses(start: str, end: str) -> str:
            """Buses between two cities."""
            return result("search_buses")

        @tool
        def search_rooms(city: str, nights: int, quiet: bool) -> str:
            """Rooms in a city."""
            return result("search_rooms")

        @tool
        def read_file(path: str) -> str:
            """A file of the booking service."""
            return result("read_file")

        @tool
        def run_tests(name: str) -> str:
            """Run a test and give what it prints."""
            return result("run_tests")

        return [search_trains, search_buses, search_rooms, read_file, run_tests]
