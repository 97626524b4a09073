"""The tokens that all summaries of a conversation read: they must grow no faster than the conversation."""

from __future__ import annotations

from pathlib import Path

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection
from benchmarks.honest import HonestModel
from benchmarks.table import Figure
from benchmarks.talk import answer, question

LENGTHS = (1000, 2000, 5000, 10_000)
FLOOR, CEILING, SIZE = 10, 20, 2048
MOST, FLAT = 3.0, 1.15
# The figure that summaries are tuned for, at this length.
TUNED_LENGTH, TUNED = 2000, 1.4


async def measure(folder: Path) -> list[Figure]:
    memory = Memory()
    section = SummarizedHistorySection(HonestModel(), FLOOR, CEILING, SIZE)
    template = ContextTemplate([section])
    said, figures = 0, []
    for number in range(max(LENGTHS) // 2):
        pair = [question(number), answer(number)]
        await memory.append("shop", "orders", *pair)
        said += memory.token_counter.count_messages(pair)
        await template.compose(memory, "shop", "orders")
        await section.settled()
        if 2 * (number + 1) in LENGTHS:
            figures.append(_figure(2 * (number + 1), said, section.get_metrics()))
    repairs = section.get_metrics()["summaries_repaired"]
    await section.close()
    await memory.close()
    first, last = figures[0].value, figures[-1].value
    return [
        *figures,
        Figure(
            name=f"the same at {LENGTHS[-1]:,} messages / at {LENGTHS[0]:,}",
            ours=f"{last:.2f}, {repairs} repairs in all",
            floor=f"{first:.2f}",
            value=last / first,
            bound=FLAT,
        ),
    ]


def _figure(messages: int, said: int, metrics: dict[str, int]) -> Figure:
    made = f"{metrics['summaries_committed']} summaries, {metrics['summaries_merged']} merges"
    return Figure(
        name=f"tokens read for summaries / tokens said, {messages:,} messages",
        ours=f"{metrics['summarizer_input_tokens']:,} ({made}, {metrics['summaries_repaired']} repairs)",
        floor=f"{said:,}",
        value=metrics["summarizer_input_tokens"] / said,
        bound=TUNED if messages == TUNED_LENGTH else MOST,
    )
