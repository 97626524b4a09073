"""`autonomy-ctx demo`: 300 turns of an agent whose context stays small, drawn as they go, then taken apart.

No network, no key, no model: the assistant's part was rehearsed, and summaries are digests. The database
stays, so that the other commands have something to look at.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.cli.app import PROGRAM
from autonomy_ctx.cli.demo_conversation import LAST_QUESTION, DemoClock, DemoModel, Script
from autonomy_ctx.cli.drawing import (
    NARROW,
    NOTE_STYLE,
    Heading,
    MessageTable,
    SectionBar,
    SectionTable,
    WindowGauge,
    message_lines,
    value_table,
)
from autonomy_ctx.cli.output import Output, clean, clean_line, count, make_table
from autonomy_ctx.hooks import hook
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.sections.additional import AdditionalContextSection
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.sections.summarized import SummarizedHistorySection
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.defaults import create_default_template
from autonomy_ctx.template.template import ContextTemplate, TemplateHook

DATABASE = "autonomy-ctx-demo.db"
AGENT, SCOPE, CONVERSATION = "assistant", "ana", "trip"
TURNS, EVERY = 300, 30
FLOOR, CEILING = 10, 20
# The clock of the demo jumps from turn to turn; no lease may run out meanwhile.
LEASE_SECONDS = 3600.0
# Turns of people take seconds; these leave the background a moment, and an eye one more.
PAUSE_SECONDS, UNSEEN_PAUSE_SECONDS = 0.012, 0.003
INSTRUCTIONS = """You are Ana's assistant for two things: her trip through Portugal in May, and the
booking service she maintains. Say which of the two you mean when it is not clear. Prefer trains.
Never book anything without a yes. For code, name the file and the line, and change as little as possible."""
NEXT_STEPS = {
    "show": "the conversation, its summary and its facts",
    "explain": "the last context, section by section",
    "replay": "the same conversation with other limits",
    "inspect": "everything as a page in the browser",
}
PREFERENCES = "Ana: vegetarian, up early, 120 EUR a night at most, Python 3.12, pytest."


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """The cost of the turns: milliseconds of each compose, and tokens with and without summaries."""

    compose_milliseconds: Sequence[float]
    whole_history_tokens: int
    metrics: dict[str, Any]


@dataclass(slots=True)
class ComposeTimer:
    """Listens to a template: the newest context, and how long each compose took."""

    context: ComposedContext | None = None
    milliseconds: list[float] = field(default_factory=list)
    _started: float = 0.0

    def listen(self, template: ContextTemplate) -> None:
        """Be told of every compose of a template."""

        @hook(TemplateHook.BEFORE_COMPOSE)
        def begin(scope: str, conversation: str, params: Any) -> None:
            self._started = time.perf_counter()

        @hook(TemplateHook.AFTER_COMPOSE)
        def end(context: ComposedContext) -> None:
            self.milliseconds.append((time.perf_counter() - self._started) * 1000)
            self.context = context

        template.hooks += [begin, end]


def make_template(clock: DemoClock) -> tuple[ContextTemplate, SummarizedHistorySection]:
    """Make a template with what changes seldom first and what changes every turn last, for caches."""

    def preferences(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
        return [{"role": "system", "content": PREFERENCES}]

    def now(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
        return [{"role": "system", "content": f"It is {clock():%A, %H:%M}."}]

    # No model: summaries are digests, made here. With `model=...` they are written by that model.
    summary = {"floor": FLOOR, "ceiling": CEILING, "lease": LEASE_SECONDS}
    template = create_default_template(INSTRUCTIONS, context_summary=summary)
    template.add_section(AdditionalContextSection("preferences", provider_fn=preferences, kind="slow"), 2)
    template.add_section(AdditionalContextSection("now", provider_fn=now))
    history = template.get_section("conversation_history")
    assert isinstance(history, SummarizedHistorySection)
    return template, history


async def weather(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
    """A source that is down."""
    raise ConnectionError("weather.example is down")


class TurnTable:
    """A row per turn: how far the run is, and the window between its limits; redrawn in a terminal."""

    def __init__(self, console: Console, history: SummarizedHistorySection) -> None:
        self._console = console
        self._is_wide = console.width >= NARROW
        # What stands before the gauge and behind it.
        beside = 51 if self._is_wide else 14
        self._gauge = WindowGauge(
            floor=history.floor,
            ceiling=history.ceiling,
            hard_limit=history.config.hard_limit,
            width=max(console.width - beside, 10),
        )
        is_live = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, auto_refresh=False, transient=True) if is_live else None

    def __enter__(self) -> TurnTable:
        start = f"{'turn':>7}{'':11}" if self._is_wide else f"{'turn':>7}"
        head = Text(f"{start} {'msgs':>4} ", NOTE_STYLE, no_wrap=True).append_text(self._gauge.scale())
        self._console.print(head.append(f"  {'summary':>11}") if self._is_wide else head)
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def draw(self, turn: int, window: int, note: str) -> None:
        """Draw a turn; every 30th row stays, and without a terminal only those are printed."""
        stays = turn % EVERY == 0
        if self._live is None and not stays:
            return
        row = Text(f"{f'{turn}/{TURNS}':>7}", no_wrap=True, overflow="crop")
        if self._is_wide:
            done = turn * 10 // TURNS
            row.append(" ").append("█" * done, "green").append("░" * (10 - done), NOTE_STYLE)
        row.append(f" {window:>4} ", self._gauge.style(window)).append_text(self._gauge.row(window))
        if self._is_wide:
            row.append(f"  {note}")
        if stays:
            self._console.print(row)
        elif self._live is not None:
            self._live.update(row, refresh=True)


async def drive(
    console: Console,
    agent: Agent,
    model: DemoModel,
    clock: DemoClock,
    history: SummarizedHistorySection,
    timer: ComposeTimer,
) -> DemoRun:
    """Hold the conversation."""
    stored, whole = 0, 0
    counter = agent.memory.token_counter
    pause = PAUSE_SECONDS if console.is_terminal else UNSEEN_PAUSE_SECONDS
    with TurnTable(console, history) as rows:
        for number, turn in enumerate(Script(seed=7).turns(TURNS), start=1):
            clock.next_turn()
            model.turn = turn
            reply = await agent.send(turn.question, scope=SCOPE, conversation=CONVERSATION)
            # Without summaries every step of a turn would send all that was said before.
            asked = counter.count_text(turn.question)
            whole += reply.steps * (stored + asked)
            stored += asked + counter.count_messages(reply.messages)
            assert timer.context is not None
            window = sum(position is not None for position in timer.context.positions())
            segments = (await agent.summary(scope=SCOPE, conversation=CONVERSATION)).segments
            tokens = sum(segment.tokens for segment in segments)
            note = f"{count(len(segments), 'segment'):>11} {tokens:>5,} tokens" if segments else ""
            rows.draw(number, window, note)
            await anyio.sleep(pause)
    await history.settled()
    model.turn = None
    return DemoRun(
        compose_milliseconds=timer.milliseconds,
        whole_history_tokens=whole,
        metrics=dict(history.get_metrics()),
    )


def draw_metrics(console: Console, run: DemoRun) -> None:
    """Draw what the turns took."""
    found, taken = run.metrics, run.compose_milliseconds
    console.print(Heading("Totals", "agent.get_metrics()"))
    rows = [
        ("contexts composed", len(taken), f"{median(taken):.1f} ms each (median)"),
        ("summaries written", found["summaries_committed"], "in the background, under a lease"),
        ("summaries merged", found["summaries_merged"], "adjacent segments, to limit the size"),
        ("calls of a summary model", found["summarizer_calls"], "the demo writes digests by rules"),
        ("tokens of history", found["context_tokens"], f"{run.whole_history_tokens:,} without summaries"),
    ]
    shared = (
        "shared prefix",
        f"{found['prefix_reuse']:.0%}",
        "with the previous turn; a provider can cache it",
    )
    console.print(value_table([*((name, f"{value:,}", note) for name, value, note in rows), shared]))


async def ask_once_more(console: Console, agent: Agent, template: ContextTemplate) -> None:
    """Ask for what was said 299 turns ago; meanwhile a section fails."""
    template.add_section(AdditionalContextSection("weather", provider_fn=weather, timeout=0.5))
    sliding = ContextTemplate([ConversationHistorySection(max_messages=30)])
    before = await sliding.compose(agent.memory, SCOPE, CONVERSATION)
    reply = await agent.send(LAST_QUESTION, scope=SCOPE, conversation=CONVERSATION)
    slid = await sliding.compose(agent.memory, SCOPE, CONVERSATION, previous=before)
    context = await agent.explain(reply.turn, scope=SCOPE, conversation=CONVERSATION)

    console.print(Heading("One more question", "the offline model answers from the context alone"))
    for name, style, text in (("Ana", "green", LAST_QUESTION), ("assistant", "blue", reply.text)):
        console.print(Text(f"{name}: ", style).append(clean(text), "default"))
    rows = []
    for label, found in (("summary and window", context), ("sliding window of 30", slid)):
        assert found.shared is not None
        note = f"{found.shared.tokens:,} of {found.tokens:,} tokens are shared with the previous turn"
        rows.append((label, f"{found.shared.share:.1%}", note))
    console.print()
    console.print(value_table(rows))
    draw_context(console, context)


def draw_context(console: Console, context: ComposedContext) -> None:
    """A context section by section."""
    size = f"{count(context.tokens, 'token')}, {count(len(context), 'message')}"
    console.print(Heading("Context, section by section", size))
    console.print(SectionBar(context.sections))
    console.print(SectionTable(context.sections))


async def draw_history(console: Console, agent: Agent) -> None:
    """The summary, the facts and the window of the conversation."""
    stored = await agent.get_message_count(scope=SCOPE, conversation=CONVERSATION)
    state = await agent.summary(scope=SCOPE, conversation=CONVERSATION)
    console.print(Heading("Summary", f"{state.covered:,} of {stored:,} messages; memory keeps them all"))
    table = make_table()
    table.expand = True
    table.add_column("messages", justify="right", style=NOTE_STYLE, no_wrap=True)
    table.add_column("level", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("text", ratio=1, no_wrap=True, overflow="ellipsis")
    for segment in state.segments:
        text = clean_line(segment.text.removeprefix("- "))
        table.add_row(
            f"{segment.first} to {segment.last}", f"{segment.level}", f"{segment.tokens:,}", Text(text)
        )
    console.print(table)
    console.print(Heading("Current facts", "verbatim; never summarized"))
    for fact in await agent.facts(scope=SCOPE, conversation=CONVERSATION):
        console.print(Text(f"{fact.kind:<12}", NOTE_STYLE).append(clean_line(fact.text), "not dim"))
    context = await agent.explain(scope=SCOPE, conversation=CONVERSATION)
    console.print(Heading("Window", "everything after the summary, verbatim"))
    console.print(MessageTable(message_lines(context, "conversation_history"), first=4, last=3))


def make_anew(path: Path) -> None:
    """Remove the database of the demo before."""
    for suffix in ("", "-wal", "-shm", ".lock", ".progress"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


async def run_demo(output: Output) -> None:
    """Watch 300 turns of an agent whose context stays small: offline, in a new database in this folder."""
    console = Console(quiet=True) if output.is_json else output.console
    run = await hold_demo(console, Path(DATABASE))
    if output.is_json:
        output.print_json(
            {
                "database": DATABASE,
                "agent": AGENT,
                "scope": SCOPE,
                "conversation": CONVERSATION,
                "turns": TURNS,
                "whole_history_tokens": run.whole_history_tokens,
                "compose_milliseconds_median": round(median(run.compose_milliseconds), 3),
                "metrics": run.metrics,
            }
        )
        return
    draw_next_steps(console)


def draw_next_steps(console: Console) -> None:
    """Where to look next."""
    console.print(Heading("Next steps", f"everything is in {DATABASE}"))
    for step, note in NEXT_STEPS.items():
        console.print(Text(f"# {note}", NOTE_STYLE))
        console.print(Text(f"{_program()} {step} -m {DATABASE}"), soft_wrap=True)


def _program() -> str:
    """Find how this command is called here: by its path, where its virtual environment is not active."""
    beside = Path(sys.executable).with_name(PROGRAM)
    if shutil.which(PROGRAM) or not beside.exists():
        return PROGRAM
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


async def hold_demo(console: Console, path: Path) -> DemoRun:
    """Hold the conversation in a new database, and draw it."""
    make_anew(path)
    clock, model, timer = DemoClock(TURNS), DemoModel(), ComposeTimer()
    template, history = make_template(clock)
    timer.listen(template)
    async with Memory(f"sqlite:///{path}", clock=clock) as memory, history:
        agent = Agent(
            AGENT,
            instructions=INSTRUCTIONS,
            tools=model.tools(),
            model=model,
            memory=memory,
            context_template=template,
            explain_turns=TURNS + 1,
            clock=clock,
        )
        async with agent:
            console.print(Heading(f"{TURNS} turns of an agent with tools", "SQLite, every commit on disk"))
            run = await drive(console, agent, model, clock, history, timer)
            console.print(Text("Above the ceiling, a summary is written. No turn waits for it.", "yellow"))
            draw_metrics(console, run)
            await ask_once_more(console, agent, template)
            await draw_history(console, agent)
    return run
