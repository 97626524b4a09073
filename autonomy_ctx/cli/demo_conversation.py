"""The conversation of the demo: a trip and a code base, 300 turns with tool calls, the same every time.

`demo_script.toml` has the words, and `DemoModel` plays the assistant's part. The turns are real ones of a
real agent: it composes, asks this model, runs the tools and stores what was said.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from random import Random
from string import Template
from typing import Any

from autonomy_ctx.formats.base import ModelReply, Usage
from autonomy_ctx.messages.cuts import newest_user_index
from autonomy_ctx.messages.message import ChatRole, Message, TextContent, ToolCall
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.wire import from_dict
from autonomy_ctx.models.offline import OfflineModel
from autonomy_ctx.tools.tool import Tool, tool

SCRIPT: dict[str, Any] = tomllib.loads(
    files("autonomy_ctx").joinpath("cli", "demo_script.toml").read_text(encoding="utf-8")
)
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
            draw = self._random.choice((self._journey, self._room, self._bug, self._review))
            for _ in range(min(self._random.randint(2, 5), number - made)):
                made += 1
                statement = SCRIPT["statements"].get(str(made))
                if statement is None:
                    yield _rehearse(draw.__name__.removeprefix("_"), draw())
                else:
                    yield RehearsedTurn(question=statement, answer="Noted.")

    def _journey(self) -> dict[str, Any]:
        start, end = self._random.sample(SCRIPT["cities"], 2)
        fare, hours = self._random.randint(10, 48), self._random.randint(1, 4)
        return {"start": start, "end": end, "fare": fare, "hours": hours, "bus": fare // 2 + 3}

    def _room(self) -> dict[str, Any]:
        return {"city": self._random.choice(SCRIPT["cities"]), "price": self._random.randint(55, 140)}

    def _bug(self) -> dict[str, Any]:
        file, test = self._random.choice(SCRIPT["files"]), self._random.choice(SCRIPT["tests"])
        return {"file": file, "test": test, "line": self._random.randint(12, 240)}

    def _review(self) -> dict[str, Any]:
        file, other = self._random.sample(SCRIPT["files"], 2)
        return {"file": file, "other": other}


def _rehearse(topic: str, drawn: Mapping[str, Any]) -> RehearsedTurn:
    """A turn about a topic, with what was drawn for it."""
    texts = SCRIPT["topics"][topic]
    calls = [
        RehearsedCall(**{name: Template(text).substitute(drawn) for name, text in call.items()})
        for call in texts.get("calls", ())
    ]
    question, answer = (Template(texts[name]).substitute(drawn) for name in ("question", "answer"))
    return RehearsedTurn(question=question, calls=tuple(calls), answer=answer)


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
