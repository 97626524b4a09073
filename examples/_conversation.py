"""A long conversation to show things with: a trip and a code base, with tool calls. The same every time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

from autonomy_ctx import Message, ToolCall

CITIES = ("Porto", "Lisbon", "Coimbra", "Évora", "Braga", "Faro", "Sintra", "Aveiro", "Tomar", "Óbidos")
FILES = ("fares.py", "rooms.py", "cache.py", "dates.py", "booking.py", "mail.py", "search.py", "users.py")
TESTS = ("rounds_half_up", "survives_a_restart", "refuses_a_past_date", "keeps_the_order", "times_out")


class Talk:
    """Makes messages with numbered ids and a clock of its own, so that two runs give the same bytes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._ids = count(1)
        self._time = datetime(2030, 5, 4, 9, 0, tzinfo=UTC)

    def turns(self, number: int) -> Iterator[list[Message]]:
        """One list of messages per turn, changing the topic every few turns."""
        made = 0
        while made < number:
            topic = self._random.choice((self._journey, self._room, self._bug, self._review))
            for _ in range(min(self._random.randint(2, 5), number - made)):
                yield topic()
                made += 1

    def user(self, text: str) -> Message:
        return self._say("user", text)

    def _say(self, role: str, text: str = "", calls: tuple[ToolCall, ...] = (), call: str = "") -> Message:
        self._time += timedelta(seconds=self._random.randint(2, 90))
        tool = call.split("-")[0] or None
        return Message(
            role,
            text,
            tool_calls=calls,
            tool_call_id=call or None,
            name=tool,
            id=f"m{next(self._ids)}",
            created_at=self._time,
        )

    def _turn(self, question: str, work: dict[str, tuple[str, str]], answer: str) -> list[Message]:
        """A question, its tool calls side by side, their results, an answer."""
        calls = tuple(ToolCall(f"{tool}-{next(self._ids)}", tool, given) for tool, (given, _) in work.items())
        said = [self.user(question)]
        if calls:
            said.append(self._say("assistant", calls=calls))
            said += [self._say("tool", work[call.name][1], call=call.id or "") for call in calls]
        return [*said, self._say("assistant", answer)]

    def _journey(self) -> list[Message]:
        start, end = self._random.sample(CITIES, 2)
        fare, hours = self._random.randint(9, 48), self._random.randint(1, 4)
        return self._turn(
            f"How do I get from {start} to {end} on Sunday, without a car?",
            {
                "search_trains": (
                    f'{{"from": "{start}", "to": "{end}", "day": "sunday"}}',
                    f'[{{"leaves": "08:{fare}", "hours": {hours}, "eur": {fare}}}, {{"leaves": "13:05"}}]',
                ),
                "search_buses": (f'{{"from": "{start}", "to": "{end}"}}', f'[{{"eur": {fare // 2 + 3}}}]'),
            },
            f"Take the 08:{fare}: {hours} h, {fare} EUR. The bus costs {fare // 2 + 3} EUR but needs two "
            f"changes. Shall I hold a seat by the window?",
        )

    def _room(self) -> list[Message]:
        city, price = self._random.choice(CITIES), self._random.randint(55, 140)
        return self._turn(
            f"And somewhere quiet to sleep in {city}, with breakfast, two nights?",
            {
                "search_rooms": (
                    f'{{"city": "{city}", "nights": 2, "quiet": true}}',
                    f'[{{"name": "Casa do Largo", "eur": {price}}}, {{"name": "Pensão {city}"}}]',
                )
            },
            f"Casa do Largo in {city} has a quiet room for {price} EUR a night, breakfast included.",
        )

    def _bug(self) -> list[Message]:
        file, test = self._random.choice(FILES), self._random.choice(TESTS)
        line = self._random.randint(12, 240)
        return self._turn(
            f"test_{test} fails on CI but not here. It touches {file}. Can you look?",
            {
                "read_file": (
                    f'{{"path": "src/{file}"}}',
                    f"def load(day):\n    return CACHE[day]  # {line}",
                ),
                # What programs print is not always clean text.
                "run_tests": (
                    f'{{"name": "test_{test}"}}',
                    f"\x1b[31mFAILED\x1b[0m {file}:{line} KeyError",
                ),
            },
            f"Line {line} of {file} reads the cache before the first write. CI starts with an empty one; "
            f"your machine does not. I would fall back to the database there.",
        )

    def _review(self) -> list[Message]:
        file, other = self._random.sample(FILES, 2)
        return self._turn(
            f"Would you move the retry from {file} to {other}?",
            {},
            f"Yes. {other} already knows the deadline, {file} does not, and two retries multiply: "
            f"3 times 3 is 9 requests for one click.",
        )
