"""Contexts that grow by appending: refused requests, ends of epochs, cost and cache reads, in 40 turns.

Each conversation is also held with contexts that are rendered anew for each request. The provider is a server
for tests, which binds thinking to its prefix and bills what its cache reads and writes. A token is a word
there. The texts have the sizes of those in `cost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from autonomy_ctx import (
    Agent,
    ComposedContext,
    ContextTemplate,
    Memory,
    SummarizedHistorySection,
    SystemInstructionsSection,
    tool,
)
from autonomy_ctx.errors import ModelError
from autonomy_ctx.formats.model_table import DEFAULT_PRICE
from autonomy_ctx.hooks import hook
from autonomy_ctx.memory.store import Key
from autonomy_ctx.models.catalog import price_of
from autonomy_ctx.models.model import Model
from autonomy_ctx.template.epoch_store import EPOCH_KIND
from autonomy_ctx.template.template import TemplateHook
from autonomy_ctx.testing.providers import ProviderRequest, ProviderServer
from autonomy_ctx.testing.providers.state import find_words
from benchmarks.epoch_requests import RequestLog, SentRequest
from benchmarks.honest import HonestModel
from benchmarks.table import Figure
from benchmarks.talk import RESULT_TOKENS, SAID_TOKENS, calls_tool, lookup, question, said
from benchmarks.talk import answer as answer_message

TURNS = 40
CLAUDE, GPT = "claude-opus-5-5", "gpt-5.6"
MODELS = (CLAUDE, GPT)
Mode = Literal["log", "render"]
MODES: tuple[Mode, Mode] = ("log", "render")
AGENT, SCOPE, CONVERSATION = "shop", "ana", "orders"
# A window in which "auto" summarizes within these turns, and one that is never full.
SMALL_WINDOW, LARGE_WINDOW = 6_000, 200_000
# The limit of a context, in tokens, and the turns that were held before, which are more.
BUDGET, EARLIER_TURNS = 8_000, 30
# In every eighth turn a loop of so many calls.
LOOP_EVERY, LOOP_CALLS = 8, 10
# A section that changes: as one text, or as lines with as many words in all.
SECTION_TOKENS, LINES, LINE_WORDS = 500, 26, 14
TURN_SECONDS = 30.0
# Longer than in `cost`: providers cache nothing below 512 or 1,024 of their tokens, so with shorter ones
# a tool more or less would decide whether the beginning is cached.
INSTRUCTION_TOKENS = 1_600
SUMMARIZED = ("plain", '"auto"', "long loops", "restarts")


@tool
def look_up(number: int) -> str:
    """Look up an order."""
    return said(3 * number + 2, RESULT_TOKENS)


class TurnSection:
    """A section whose text depends on the number of the turn."""

    enabled, kind = True, "volatile"

    def __init__(self, name: str, write: Callable[[int], str], talk: Talk) -> None:
        self.name = name
        self._write, self._talk = write, talk

    async def get_messages(
        self, memory: Any, scope: str, conversation: str, params: Any
    ) -> list[dict[str, str]]:
        return [{"role": "system", "content": self._write(self._talk.number)}]


def write_clock(number: int) -> str:
    return f"It is minute {number} of this conversation."


@cache
def write_board(number: int) -> str:
    """A list of which one line is another in each turn."""
    # The turn that has written each line last.
    turns = [number - (number - at) % LINES for at in range(LINES)]
    return "\n".join(" ".join(said(1_000 + turn).split()[-LINE_WORDS:]) for turn in turns)


@cache
def write_report(number: int) -> str:
    """A text that is another in each turn."""
    return said(10_000 + number, SECTION_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way to hold a conversation of 40 turns."""

    name: str
    summary: Any = True
    window: int = LARGE_WINDOW
    budget: int | None = None
    section: tuple[str, Callable[[int], str]] | None = None
    # After each turn: go on, begin anew on the same file, or let another process have the next turn.
    after_turn: Literal["go on", "restart", "other process"] = "go on"
    has_loops: bool = False


SECTIONS: dict[str, Callable[[int], str]] = {
    "clock": write_clock,
    "board": write_board,
    "report": write_report,
}
SCENARIOS = (
    Scenario(name="plain"),
    Scenario(name='"auto"', summary="auto", window=SMALL_WINDOW),
    Scenario(name="long loops", has_loops=True),
    # With a section that changes: without one, a context that is rendered anew goes on as well.
    Scenario(name="restarts", after_turn="restart", section=("clock", write_clock)),
    Scenario(name="processes", after_turn="other process", section=("clock", write_clock)),
    Scenario(name="budget", summary=None, budget=BUDGET),
    Scenario(name="no section"),
    *(Scenario(name=name, section=(name, write)) for name, write in SECTIONS.items()),
)


@dataclass
class Talk:
    """A conversation, and what came of it."""

    scenario: Scenario
    model: str
    mode: Mode
    url: str
    turns: int = TURNS
    number: int = 0
    largest_row: int = 0
    log: RequestLog = field(default_factory=RequestLog)

    def __post_init__(self) -> None:
        self.server = ProviderServer(self._answer, clock=lambda: self.number * TURN_SECONDS)
        self._calls_left = self._calls = 0
        # Of the turn that runs.
        self._contexts: list[ComposedContext] = []

    @property
    def sent(self) -> list[SentRequest]:
        return self.log.sent

    @property
    def cost(self) -> float:
        """The bill in US dollars."""
        return sum(request.cost or 0.0 for request in self.server.requests)

    @property
    def ends(self) -> int:
        return sum(one.is_end for one in self.sent)

    @property
    def summaries(self) -> int:
        return sum(one.shows_new_summary for one in self.sent)

    @property
    def read_share(self) -> float:
        """The tokens that the cache gave, of those that marks covered."""
        return sum(one.reads for one in self.sent) / sum(one.possible_reads for one in self.sent)

    @property
    def read_share_with_ends(self) -> float:
        """The same, of all that marks covered in the request before, also where an epoch has ended."""
        requests = [one.request for one in self.sent]
        covered = sum(request.cached + request.written for request in requests[:-1])
        return sum(request.cached for request in requests[1:]) / covered

    @property
    def thinking(self) -> int:
        return sum(one.request.thinking for one in self.sent)

    @property
    def possible_thinking(self) -> int:
        return sum(one.possible_thinking for one in self.sent)

    @property
    def disagreements(self) -> int:
        """Requests of which the library says something else than what was sent; the first begins anyway."""
        return sum(one.is_end != (one.end_reason is not None) for one in self.sent[1:])

    async def hold(self) -> Talk:
        """Hold the conversation."""
        scenario = self.scenario
        async with AsyncExitStack() as stack:
            self._client = await stack.enter_async_context(self.server.client())
            agents = [await self._open(stack)]
            if scenario.budget is not None:
                await self._say_before(agents[0].memory)
            if scenario.after_turn == "other process":
                agents.append(await self._open(stack))
            for number in range(self.turns):
                self.number = number
                if scenario.after_turn == "restart":
                    async with AsyncExitStack() as process:
                        await self._turn(await self._open(process), begins_process=True)
                else:
                    await self._turn(agents[number % len(agents)], begins_process=len(agents) > 1)
        return self

    async def _say_before(self, memory: Memory) -> None:
        for number in range(TURNS, TURNS + EARLIER_TURNS):
            called = lookup(number, RESULT_TOKENS) if calls_tool(number) else []
            messages = [question(number, SAID_TOKENS), *called, answer_message(number, SAID_TOKENS)]
            await memory.append(SCOPE, CONVERSATION, *messages)

    async def _open(self, stack: AsyncExitStack) -> Agent:
        """An agent with a memory of its own, as a new process has it."""
        scenario = self.scenario
        memory = await stack.enter_async_context(
            Memory() if scenario.after_turn == "go on" else Memory(self.url)
        )
        options: dict[str, Any] = {}
        if self.model == GPT:
            options = {"provider": "openai-responses"}
        model = Model(
            self.model, client=self._client, api_key="key", context_window=scenario.window, **options
        )
        given: dict[str, Any] = {"instructions": said(0, INSTRUCTION_TOKENS)}
        if scenario.summary is not None:
            auto = {"auto": True} if scenario.summary == "auto" else {}
            given["context_summary"] = {"model": HonestModel(), **auto}
        if scenario.section is not None or scenario.name == "no section":
            changing = [TurnSection(*scenario.section, self)] if scenario.section else []
            history = SummarizedHistorySection(HonestModel())
            stack.push_async_callback(history.close)
            template = ContextTemplate(
                [SystemInstructionsSection(said(0, INSTRUCTION_TOKENS)), *changing, history], arrange="cache"
            )
            given = {"context_template": template}
        if scenario.budget is not None:
            given["limits"] = {"context_tokens": scenario.budget}
        agent = Agent(AGENT, model=model, memory=memory, tools=[look_up], context=self.mode, **given)

        @hook(TemplateHook.AFTER_COMPOSE)
        def note_context(context: ComposedContext) -> None:
            self._contexts.append(context)

        agent.context_template.hooks.append(note_context)
        return await stack.enter_async_context(agent)

    async def _turn(self, agent: Agent, *, begins_process: bool) -> None:
        number, before = self.number, len(self.server.requests)
        is_loop = self.scenario.has_loops and number % LOOP_EVERY == LOOP_EVERY - 1
        self._calls_left = LOOP_CALLS if is_loop else int(calls_tool(number))
        self._contexts.clear()

        async def settle(request: ProviderRequest) -> None:
            await agent.settled()

        # A summary is ready before the reply, so each run has the same ones.
        self.server.before_reply = settle
        try:
            asked = question(number, SAID_TOKENS)["content"]
            await agent.send(asked, scope=SCOPE, conversation=CONVERSATION)
        except ModelError:
            # What was refused is counted by the server.
            return
        answered = [request for request in self.server.requests[before:] if request.status == 200]
        for at, (request, context) in enumerate(zip(answered, self._contexts, strict=True)):
            self.log.add(request, context, begins_process=begins_process and at == 0)
        records = await agent.memory.store.read_records(Key(AGENT, SCOPE, CONVERSATION), EPOCH_KIND)
        self.largest_row = max([self.largest_row, *(len(one.body.encode()) for one in records)])
        await agent.settled()

    def _answer(self, body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Think, call a tool as often as the turn has calls, then answer."""
        thinking = {"type": "thinking", "thinking": ""}
        if not self._calls_left:
            return [thinking, {"type": "text", "text": said(3 * self.number + 1, SAID_TOKENS)}]
        self._calls_left -= 1
        self._calls += 1
        call = {"type": "tool_use", "id": f"toolu_{self._calls:04}", "name": "look_up"}
        return [thinking, {**call, "input": {"number": self._calls}}]


class Pair(NamedTuple):
    """A conversation with contexts that grow, and the same one with contexts that are rendered anew."""

    grown: Talk
    rendered: Talk


Pairs = Mapping[tuple[str, str], Pair]


async def hold_all(folder: Path, scenarios: Iterable[Scenario] = SCENARIOS) -> Pairs:
    """Hold the conversations, each with each model in both ways."""
    pairs: dict[tuple[str, str], Pair] = {}
    for scenario in scenarios:
        for model in MODELS:
            talks = [
                await Talk(scenario, model, mode, f"sqlite:///{folder}/{len(pairs)}-{mode}.db").hold()
                for mode in MODES
            ]
            pairs[scenario.name, model] = Pair(*talks)
    return pairs


async def measure(folder: Path) -> list[Figure]:
    pairs = await hold_all(folder)
    figures = [_refused(pairs, model) for model in MODELS]
    for model in MODELS:
        figures += [_ends_by_summary(name, model, pairs[name, model]) for name in SUMMARIZED]
        figures += [_ends_by_turn(model, pairs["budget", model])]
        figures += _costs(pairs, model)
        figures += [_reads(pairs, model), _continued(pairs, model), _thinking(pairs, model)]
    grown = [pair.grown for pair in pairs.values()]
    worst = max(grown, key=lambda talk: talk.largest_row)
    return [
        *figures,
        Figure(
            name="bytes of the largest row of an epoch",
            ours=f"{worst.largest_row} ({worst.scenario.name})",
            floor="0",
            value=worst.largest_row,
            bound=2048,
        ),
        Figure(
            name="requests that are not what `end_reason` says",
            ours=f"of {sum(len(talk.sent) for talk in grown)}{_name_those_that_disagree(grown)}",
            floor="0",
            value=sum(talk.disagreements for talk in grown),
            bound=0,
        ),
    ]


def _name_those_that_disagree(talks: Iterable[Talk]) -> str:
    return "".join(f", {talk.scenario.name} {talk.model}" for talk in talks if talk.disagreements)


def _of_model(pairs: Pairs, model: str) -> tuple[list[Talk], list[Talk]]:
    """The conversations with a model: those that grow, and those that are rendered anew."""
    chosen = [pair for (_, name), pair in pairs.items() if name == model]
    return [pair.grown for pair in chosen], [pair.rendered for pair in chosen]


def _refused(pairs: Pairs, model: str) -> Figure:
    grown, rendered = _of_model(pairs, model)
    return Figure(
        name=f"requests refused, {model}",
        ours=f"of {sum(len(talk.server.requests) for talk in grown)}",
        floor=f"rendered anew {sum(len(talk.server.refused) for talk in rendered)}",
        value=sum(len(talk.server.refused) for talk in grown),
        bound=0,
    )


def _ends_by_summary(name: str, model: str, pair: Pair) -> Figure:
    grown, rendered = pair
    return Figure(
        name=f"ends / summaries shown, {name}, {model}",
        ours=f"{grown.ends} / {grown.summaries}",
        floor=f"rendered anew {rendered.ends} / {rendered.summaries}",
        value=grown.ends / max(grown.summaries, 1),
        bound=1.05,
    )


def _ends_by_turn(model: str, pair: Pair) -> Figure:
    return Figure(
        name=f"ends / turns, {BUDGET} tokens at most, {model}",
        ours=f"{pair.grown.ends} / {TURNS}",
        floor=f"rendered anew {pair.rendered.ends} / {TURNS}",
        value=pair.grown.ends / TURNS,
        bound=0.125,
    )


def _costs(pairs: Pairs, model: str) -> Iterator[Figure]:
    """What a section costs: beside none, or beside its text in each turn at the price of writing."""
    bare = pairs["no section", model]
    once = (price_of(model) or DEFAULT_PRICE).cost(
        written=sum(len(find_words(write_report(number))) for number in range(TURNS))
    )
    for name, text, own, bound in (
        ("clock", "a clock / without", 0.0, 1.05),
        ("board", f"{SECTION_TOKENS} tokens, 1 line changes / without", 0.0, 1.05),
        ("report", f"{SECTION_TOKENS} tokens that change / without + text", once, 1.12),
    ):
        grown, rendered = pairs[name, model]
        ratio = rendered.cost / (bare.rendered.cost + own)
        yield Figure(
            name=f"cost, {text}, {model}",
            ours=f"${grown.cost:.4f}",
            floor=f"${bare.grown.cost + own:.4f}, rendered anew ${rendered.cost:.4f}: {ratio:.2f}",
            value=grown.cost / (bare.grown.cost + own),
            bound=bound,
        )


def _reads(pairs: Pairs, model: str) -> Figure:
    grown, rendered = _of_model(pairs, model)
    worst = min(grown, key=lambda talk: talk.read_share)
    ends = min(talk.read_share_with_ends for talk in grown)
    return Figure(
        name=f"tokens read from the cache / possible, {model}",
        ours=f"the least, {worst.scenario.name}; with ends {ends:.2f}",
        floor=f"rendered anew {min(talk.read_share for talk in rendered):.2f}; with ends "
        f"{min(talk.read_share_with_ends for talk in rendered):.2f}",
        value=worst.read_share,
        bound=0.97,
        at_most=False,
    )


def _continued(pairs: Pairs, model: str) -> Figure:
    def count(side: int) -> tuple[int, int]:
        talks = [pairs[name, model][side] for name in ("restarts", "processes")]
        first = [one for talk in talks for one in talk.sent if one.begins_process]
        return sum(one.continues for one in first), len(first)

    (ours, changes), (anew, _) = count(0), count(1)
    return Figure(
        name=f"restarts, other processes: % that go on, {model}",
        ours=f"{ours} of {changes}",
        floor=f"rendered anew {anew}",
        value=100 * ours / changes,
        bound=100,
        at_most=False,
    )


def _thinking(pairs: Pairs, model: str) -> Figure:
    grown, rendered = _of_model(pairs, model)
    sent, possible = sum(talk.thinking for talk in grown), sum(talk.possible_thinking for talk in grown)
    return Figure(
        name=f"thinking sent back / possible, {model}",
        ours=f"{sent:,} / {possible:,} blocks",
        floor=f"rendered anew {sum(talk.thinking for talk in rendered):,} blocks",
        value=sent / possible,
        bound=1,
        at_most=False,
    )
