"""What a context is made of: composed from a long stored conversation, then taken apart; see `make demo`."""

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
    FrameworkInstructionsSection,
    Memory,
    Message,
    SystemInstructionsSection,
)

if TYPE_CHECKING:
    from examples._conversation import Talk
    from examples._draw import GREEN, GREY, RED, YELLOW, Screen, count
else:
    from _conversation import Talk
    from _draw import GREEN, GREY, RED, YELLOW, Screen, count

SCOPE, CONVERSATION = "ana", "trip and booking service"
WINDOW = 30
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


def template_with(max_messages: int | None, *more: AdditionalContextSection) -> ContextTemplate:
    """What changes seldom comes first, what changes every turn comes last: caches live on that."""
    return ContextTemplate(
        [
            SystemInstructionsSection(INSTRUCTIONS),
            FrameworkInstructionsSection(enable_filesystem=True),
            AdditionalContextSection("preferences", provider_fn=preferences, kind="slow"),
            ConversationHistorySection(max_messages=max_messages),
            *more,
            AdditionalContextSection("now", provider_fn=now),
        ]
    )


async def microseconds(template: ContextTemplate, memory: Memory, *, forget: bool = False) -> float:
    """The median time of a compose over 30 runs, each after forgetting the kept window if asked to."""
    taken = []
    for _ in range(30):
        if forget:
            await memory.clear_short_term_memory(SCOPE, CONVERSATION)
        started = time.perf_counter()
        await template.compose(memory, SCOPE, CONVERSATION)
        taken.append((time.perf_counter() - started) * 1e6)
    return median(taken)


async def show_context(screen: Screen, memory: Memory, template: ContextTemplate) -> None:
    context = await template.compose(memory, SCOPE, CONVERSATION)
    screen.title(
        "The context, section by section", f"{count(context.tokens, 'token')}, {len(context)} messages"
    )
    for report in context.sections:
        screen.section(report, context.tokens)

    history = context.section("conversation_history")
    assert history is not None
    stored = await memory.get_message_count(SCOPE, CONVERSATION)
    screen.title("The window", f"{history.messages} of {stored:,} messages")
    print(screen.paint(f"{'position':>10}  role      tokens  text", GREY))
    screen.window(context, "conversation_history")
    for gone in context.omitted:
        screen.line(
            f"Not shown: {count(gone.count, 'message')} between positions {gone.first} and {gone.last} "
            f"({gone.reason}). They stay in memory.",
            YELLOW,
        )


async def show_timings(screen: Screen, memory: Memory, template: ContextTemplate) -> None:
    stored = await memory.get_messages_only(SCOPE, CONVERSATION)
    in_process = Memory()
    await in_process.add_messages(SCOPE, CONVERSATION, stored)

    screen.title("Composing, in microseconds", "median of 30")
    print(screen.paint(f"{'':<24}{'from the file':>13}{'kept window':>13}{'in process':>13}", GREY))
    for label, chosen in (
        (f"window of {WINDOW} of {len(stored)}", template),
        (f"all {len(stored)} messages", template_with(None)),
    ):
        cold = await microseconds(chosen, memory, forget=True)
        hot = await microseconds(chosen, memory)
        near = await microseconds(chosen, in_process)
        print(f"  {label:<22}{cold:>13,.0f}{hot:>13,.0f}{near:>13,.0f}")
    screen.line("Windows of up to 256 messages are kept; longer ones are read again each time.", GREY)
    await in_process.close()


async def show_next_turn(
    screen: Screen, memory: Memory, template: ContextTemplate, said: Sequence[Message]
) -> None:
    whole = template_with(None)
    before = await template.compose(memory, SCOPE, CONVERSATION)
    whole_before = await whole.compose(memory, SCOPE, CONVERSATION)
    positions = await memory.append(SCOPE, CONVERSATION, *said)
    after = await template.compose(memory, SCOPE, CONVERSATION, previous=before)
    whole_after = await whole.compose(memory, SCOPE, CONVERSATION, previous=whole_before)

    screen.title("The next turn", f"{count(len(positions), 'new message')}")
    for message, origin in zip(after.messages, after.origins(), strict=True):
        if origin.position is not None and origin.position >= positions[0]:
            screen.message(message, origin.position, origin.tokens)
    print(screen.paint("  shared with the turn before, from the first message on:", GREY))
    for label, context in ((f"window of {WINDOW}", after), (f"all {len(whole_after)} messages", whole_after)):
        shared = context.shared
        assert shared is not None
        share = screen.paint(f"{shared.share:.1%}", GREEN if shared.share > 0.5 else RED)
        print(
            f"  {label:<18}{shared.messages:>4} of {len(context):<4} messages"
            f"{shared.tokens:>7,} of {context.tokens:<6,} tokens {share}"
        )
    screen.line(
        "A provider's prompt cache reuses the shared beginning. A sliding window moves it every turn; "
        "a history that only grows keeps it.",
        GREY,
    )


async def show_failure(screen: Screen, memory: Memory) -> None:
    # The library logs what it leaves out; here it is drawn instead.
    template = template_with(WINDOW, AdditionalContextSection("weather", provider_fn=weather, timeout=0.5))
    context = await template.compose(memory, SCOPE, CONVERSATION)
    screen.title(
        "A section fails, the turn goes on", f"{count(context.tokens, 'token')}, {len(context)} messages"
    )
    for name in ("conversation_history", "weather", "now"):
        report = context.section(name)
        assert report is not None
        screen.section(report, context.tokens)


async def main() -> None:
    screen, talk = Screen(), Talk(seed=7)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.db"
        async with Memory(f"sqlite:///{file}") as memory:
            *turns, (question, *answer) = talk.turns(90)
            started = time.perf_counter()
            for turn in (*turns, [question]):
                await memory.append(SCOPE, CONVERSATION, *turn)
            taken = (time.perf_counter() - started) * 1000
            stored = await memory.get_message_count(SCOPE, CONVERSATION)
            screen.title("A stored conversation", "SQLite, every commit on disk")
            screen.line(f"{count(stored, 'message')} kept, one commit a turn: 90 commits in {taken:.0f} ms.")
            template = template_with(WINDOW)
            await show_context(screen, memory, template)
            await show_timings(screen, memory, template)
            await show_next_turn(screen, memory, template, [*answer, talk.user("Good. And after that?")])
            await show_failure(screen, memory)
    print()


if __name__ == "__main__":
    anyio.run(main)
