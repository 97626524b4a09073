"""A history that stays short: the older part as a summary, the newer part verbatim, and no turn waits.

Runs without a model: summaries are digests. Give `summary_model` an object with `complete_chat` to
have them written.
"""

import anyio

from autonomy_ctx import (
    ContextTemplate,
    Memory,
    Message,
    SummarizedHistorySection,
    SummaryHook,
    SystemInstructionsSection,
    hook,
)
from autonomy_ctx.compaction import SummaryEvent
from autonomy_ctx.messages import Summary

CITIES = ("Porto", "Aveiro", "Coimbra", "Tomar", "Lisbon", "Sintra", "Évora", "Faro")


@hook(SummaryHook.AFTER_SUMMARY)
def written(event: SummaryEvent) -> None:
    """Hooks are told what a summary covers; they cannot fail a turn."""
    assert event.segment is not None
    print(f"   summary of {event.first} to {event.last}, {event.segment.tokens} tokens, in the background")


async def main() -> None:
    memory = Memory()  # Memory("sqlite:///memory.db") keeps messages and summaries on disk
    history = SummarizedHistorySection(summary_model=None, floor=4, ceiling=8, hooks=[written])
    template = ContextTemplate([SystemInstructionsSection("You plan short trips."), history])

    async with history:
        budget = Message("user", "Never more than 80 EUR a night, whatever I say later.")
        await memory.append("ana", "trip", budget)
        await memory.pin("ana", "trip", budget.id)
        for night, city in enumerate(CITIES, start=1):
            await memory.append("ana", "trip", Message("user", f"Night {night}: a room in {city}?"))
            context = await template.compose(memory, "ana", "trip")
            window = [origin.position for origin in context.origins() if origin.position]
            print(f"night {night}: {len(context)} messages, {context.tokens} tokens, positions {window}")
            await memory.append(
                "ana", "trip", Message("assistant", f"Casa do Largo in {city}, {60 + night} EUR, booked.")
            )
            # Only to have the same output every time; a turn never waits.
            await history.settled()

        context = await template.compose(memory, "ana", "trip")
        print("\nWhat the model sees next:")
        for message in context.messages:
            kind = "summary" if isinstance(message, Summary) else message.role.value
            print(f"  {kind:10}{message.text.strip()}".replace("\n", "\n" + " " * 12))
        print(f"\nkept in memory: {await memory.get_message_count('ana', 'trip')} messages")
        metrics = history.get_metrics()
        print(f"summaries: {metrics['summaries_committed']}, model calls: {metrics['summarizer_calls']}")
    await memory.close()


if __name__ == "__main__":
    anyio.run(main)
