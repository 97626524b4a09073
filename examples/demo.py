"""300 turns whose context stays small: drawn as they go, then taken apart; see `make demo`."""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import anyio

from autonomy_ctx import (
    AdditionalContextSection,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SummarizedHistorySection,
    create_default_template,
)

if TYPE_CHECKING:
    from examples._conversation import Talk
    from examples._draw import GREEN, GREY, RED, YELLOW, Gauge, Screen, clean, count, fitted
else:
    from _conversation import Talk
    from _draw import GREEN, GREY, RED, YELLOW, Gauge, Screen, clean, count, fitted

SCOPE, CONVERSATION = "ana", "trip and booking service"
TURNS, EVERY = 300, 30
# Turns of people take seconds; these leave the background a moment, and an eye one more.
PAUSE = 0.012 if sys.stdout.isatty() else 0.003
INSTRUCTIONS = """You are Ana's assistant for two things: her trip through Portugal in May, and the
booking service she maintains. Say which of the two you mean when it is not clear. Prefer trains.
Never book anything without a yes. For code, name the file and the line, and change as little as possible."""


def preferences(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
    return [
        {
            "role": "system",
            "content": "Ana: vegetarian, up early, 120 EUR a night at most, Python 3.12, pytest.",
        }
    ]


def now(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
    return [{"role": "system", "content": f"It is {time.strftime('%A, %H:%M:%S')}."}]


async def weather(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
    raise ConnectionError("weather.example is down")


def make_template() -> tuple[ContextTemplate, SummarizedHistorySection]:
    """What changes seldom comes first, what changes every turn comes last: caches live on that."""
    # No model: summaries are digests, made here. With `model=...` they are written by that model.
    template = create_default_template(INSTRUCTIONS, context_summary={"floor": 10, "ceiling": 20})
    template.add_section(AdditionalContextSection("preferences", provider_fn=preferences, kind="slow"), 2)
    template.add_section(AdditionalContextSection("now", provider_fn=now))
    history = template.get_section("conversation_history")
    assert isinstance(history, SummarizedHistorySection)
    return template, history


async def drive(
    screen: Screen, memory: Memory, template: ContextTemplate, history: SummarizedHistorySection
) -> tuple[list[float], int]:
    """Hold the conversation; the milliseconds of each compose, and what whole histories would have cost."""
    gauge = Gauge(screen, TURNS, history.floor, history.ceiling, history.config.hard_limit)
    taken, stored, whole = [], 0, 0
    gauge.head()
    for number, (question, *answer) in enumerate(Talk(seed=7).turns(TURNS), start=1):
        await memory.append(SCOPE, CONVERSATION, question)
        started = time.perf_counter()
        context = await template.compose(memory, SCOPE, CONVERSATION)
        taken.append((time.perf_counter() - started) * 1000)
        await memory.append(SCOPE, CONVERSATION, *answer)
        whole += stored + memory.token_counter.count_messages([question])
        stored += memory.token_counter.count_messages([question, *answer])

        window = sum(origin.position is not None for origin in context.origins())
        segments = (await memory.summary(SCOPE, CONVERSATION)).segments
        tokens = sum(segment.tokens for segment in segments)
        note = f"{count(len(segments), 'segment'):>11} {tokens:>5,} tokens" if segments else ""
        gauge.row(number, window, note, keep=number % EVERY == 0)
        await anyio.sleep(PAUSE)
    await history.settled()
    return taken, whole


def show_metrics(
    screen: Screen, history: SummarizedHistorySection, taken: Sequence[float], whole: int
) -> None:
    found = history.get_metrics()
    sent = found["context_tokens"]
    screen.title("What it took", "get_metrics()")
    times = f"{median(taken):.1f} ms in the median, {max(taken):.0f} ms at most"
    rows = [
        ("turns composed", f"{len(taken)}", times),
        ("summaries_committed", f"{found['summaries_committed']}", "each in the background, under a lease"),
        ("summaries_merged", f"{found['summaries_merged']}", "neighbours made one, to keep the size"),
        ("digests_served", f"{found['digests_served']}", "made on the spot, at the hard limit"),
        ("summarizer_calls", f"{found['summarizer_calls']}", "no model was asked: these are digests"),
        ("context_tokens", f"{sent:,}", f"of history sent; {whole:,} without summaries"),
        ("prefix_reuse", f"{found['prefix_reuse']:.0%}", "of them begin as the turn before did"),
    ]
    for name, value, note in rows:
        text = fitted(note, screen.width - 36).rstrip()
        print(f"  {name:<21}{screen.paint(f'{value:>9}', GREEN)}  {screen.paint(text, GREY)}")


async def show_context(screen: Screen, memory: Memory, template: ContextTemplate) -> None:
    context = await template.compose(memory, SCOPE, CONVERSATION)
    screen.title(
        "The context now, section by section", f"{count(context.tokens, 'token')}, {len(context)} messages"
    )
    for report in context.sections:
        screen.section(report, context.tokens)

    stored = await memory.get_message_count(SCOPE, CONVERSATION)
    state = await memory.summary(SCOPE, CONVERSATION)
    screen.title("Its summary", f"{state.covered:,} of {stored:,} messages; memory keeps them all")
    for segment in state.segments:
        start = f"{segment.first:>5} to {segment.last:>5,}"
        text = fitted(clean(segment.text.removeprefix("- ")), screen.width - 32).rstrip()
        print(f"{screen.paint(start, GREY)}  level {segment.level}{segment.tokens:>6}  {text}")
    screen.title("Its window", "everything after the summary, verbatim")
    print(screen.paint(f"{'position':>10}  role      tokens  text", GREY))
    screen.window(context, "conversation_history", first=4, last=3)


async def show_next_turn(screen: Screen, memory: Memory, template: ContextTemplate) -> None:
    sliding = ContextTemplate([ConversationHistorySection(max_messages=30)])
    before = await template.compose(memory, SCOPE, CONVERSATION)
    slid = await sliding.compose(memory, SCOPE, CONVERSATION)
    await memory.append(SCOPE, CONVERSATION, Message("user", "Good. And after that?"))
    after = await template.compose(memory, SCOPE, CONVERSATION, previous=before)
    slid = await sliding.compose(memory, SCOPE, CONVERSATION, previous=slid)

    screen.title("One more question", "shared with the turn before, from the first message on")
    for label, context in (("summary and window", after), ("sliding window of 30", slid)):
        shared = context.shared
        assert shared is not None
        share = screen.paint(f"{shared.share:.1%}", GREEN if shared.share > 0.5 else RED)
        print(
            f"  {label:<22}{shared.messages:>3} of {len(context):<3} messages"
            f"{shared.tokens:>7,} of {context.tokens:<6,} tokens  {share}"
        )
    screen.line("A provider's prompt cache reuses that beginning.", GREY)


async def show_failure(screen: Screen, memory: Memory, template: ContextTemplate) -> None:
    template.add_section(AdditionalContextSection("weather", provider_fn=weather, timeout=0.5))
    # The library logs what it leaves out; here it is drawn instead.
    context = await template.compose(memory, SCOPE, CONVERSATION)
    screen.title(
        "A section fails, the turn goes on", f"{count(context.tokens, 'token')}, {len(context)} messages"
    )
    report = context.section("weather")
    assert report is not None
    screen.section(report, context.tokens)


async def main() -> None:
    screen = Screen()
    with tempfile.TemporaryDirectory() as folder:
        async with Memory(f"sqlite:///{Path(folder) / 'memory.db'}") as memory:
            template, history = make_template()
            async with history:
                screen.title(f"{TURNS} turns with tool calls", "SQLite, every commit on disk")
                taken, whole = await drive(screen, memory, template, history)
                screen.line("Over the ceiling a summary is on its way. No turn waits for it.", YELLOW)
                show_metrics(screen, history, taken, whole)
                await show_context(screen, memory, template)
                await show_next_turn(screen, memory, template)
                await show_failure(screen, memory, template)
    print()


if __name__ == "__main__":
    anyio.run(main)
