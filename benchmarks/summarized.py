"""The cost of composing with a summary when the summarized conversation is long."""

from __future__ import annotations

from pathlib import Path

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection
from autonomy_ctx.stores import Key, Lease, StoredSegment
from benchmarks.corpus import fill
from benchmarks.honest import record
from benchmarks.table import Figure, Side, microseconds, side_by_side
from benchmarks.talk import said

SHORT, LONG, WINDOW, SEGMENTS = 100, 100_000, 15, 4


async def summarize(memory: Memory, conversation: str, count: int) -> None:
    """Commit segments over all but the window, of the same length for every conversation."""
    key, store = Key("", "ana", conversation), memory.store
    lease = await store.claim(key, owner="benchmark", task="benchmark", seconds=60)
    assert isinstance(lease, Lease)
    step, first = (count - WINDOW) // SEGMENTS, 1
    for number in range(SEGMENTS):
        last = count - WINDOW if number == SEGMENTS - 1 else first + step - 1
        text = record("\n".join(said(n) for n in range(number * 20, number * 20 + 20)), 400)
        made = StoredSegment(
            first=first, last=last, text=text, tokens=memory.token_counter.count_text(text), model="benchmark"
        )
        assert await store.commit_segment(key, made, generation=0, fence=lease.fence)
        first = last + 1
    await store.complete_task(lease)


async def measure(folder: Path) -> list[Figure]:
    memory = Memory(f"sqlite:///{folder / 'summarized.db'}")
    for name, count in (("short", SHORT), ("long", LONG)):
        await fill(memory, "ana", name, count)
        await summarize(memory, name, count)
    section = SummarizedHistorySection(None)
    template = ContextTemplate([section])
    for name in ("short", "long"):
        shown = await template.compose(memory, "ana", name)
        assert len(shown) == WINDOW + 1
    await section.settled()

    def sides(name: str) -> list[Side]:
        async def compose() -> None:
            await template.compose(memory, "ana", name)

        async def forget_window() -> None:
            await compose()
            await memory.clear_short_term_memory("ana")

        async def forget_all() -> None:
            await memory.clear_short_term_memory("ana")
            section.clear_cache("ana")

        return [
            Side(name, compose, before=compose),
            Side(f"{name}, cold window", compose, before=forget_window),
            Side(f"{name}, cold", compose, before=forget_all),
        ]

    times = await side_by_side(*sides("short"), *sides("long"), rounds=600)
    await section.close()
    await memory.close()

    def ratio(name: str, suffix: str) -> Figure:
        ours, floor = times[f"long{suffix}"], times[f"short{suffix}"]
        return Figure(
            name=f"{name}: {LONG:,} stored messages / {SHORT}",
            ours=microseconds(ours),
            floor=microseconds(floor),
            value=ours / floor,
            bound=1.3,
        )

    return [
        ratio("compose, cached summary", ""),
        ratio("compose, cached summary, window read anew", ", cold window"),
        ratio("compose, summary and window read anew", ", cold"),
    ]
