"""The cost of editing a `ChatContext`: truncating it as it grows, and a fork beside a deep copy."""

from __future__ import annotations

import copy
from itertools import cycle
from pathlib import Path

from autonomy_ctx.containers.chat import ChatContext
from autonomy_ctx.messages.edits import truncate_items
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import TokenCounter
from benchmarks.table import Figure, Side, microseconds, side_by_side

SHORT, LONG = 1_000, 5_000
# Few tokens, so that nearly everything has to go.
LIMIT = 200


def conversation(length: int) -> ChatContext:
    """Instructions, then questions, calls, results and answers, so many items in all."""
    context = ChatContext()
    context.system("You are a travel agent.")
    for number, kind in enumerate(cycle(["user", "call", "result", "answer"])):
        if len(context) == length:
            return context
        match kind:
            case "user":
                context.user(f"What is the fare to city {number}?")
            case "call":
                context.add_function_call("search", f'{{"city": {number}}}', f"call{number}")
            case "result":
                context.add_function_output("search", f"fare {number}.50 euros", f"call{number - 1}")
            case _:
                context.assistant(f"It is {number}.50 euros.")
    raise AssertionError("unreachable: the cycle does not end")


async def measure(folder: Path) -> list[Figure]:
    counter = TokenCounter()
    contexts = {length: conversation(length) for length in (SHORT, LONG)}
    items = {length: context.items for length, context in contexts.items()}
    dicts = contexts[LONG].to_dict()

    async def truncate(length: int) -> None:
        truncate_items(items[length], max_tokens=LIMIT, counter=counter)

    async def count() -> None:
        counter.count_messages(item for item in items[LONG] if isinstance(item, Message))

    async def fork() -> None:
        contexts[LONG].fork()

    async def deep_copy() -> None:
        copy.deepcopy(dicts)

    async def deep_copy_of_items() -> None:
        copy.deepcopy(items[LONG])

    times = await side_by_side(
        Side("short", lambda: truncate(SHORT)),
        Side("long", lambda: truncate(LONG)),
        Side("count", count),
        Side("fork", fork),
        Side("items", deep_copy_of_items),
        rounds=100,
        warm=10,
    )
    # Much slower than the rest: fewer rounds will do, beside the same fork.
    slow = await side_by_side(Side("fork", fork), Side("copy", deep_copy), rounds=15, warm=2)
    return [
        Figure(
            name="truncate to a token limit: 5,000 items / 1,000",
            ours=microseconds(times["long"]),
            floor=microseconds(times["short"]),
            value=times["long"] / times["short"],
            bound=8,
        ),
        Figure(
            name="truncate 5,000 items to a token limit: ms",
            ours=microseconds(times["long"]),
            floor=f"{microseconds(times['count'])} to add up their counts, which are known",
            value=times["long"] * 1000,
            bound=20,
        ),
        Figure(
            name="deep copy of 5,000 items as dicts / fork",
            ours=microseconds(slow["fork"]),
            floor=microseconds(slow["copy"]),
            value=slow["copy"] / slow["fork"],
            bound=20,
            at_most=False,
        ),
        Figure(
            name="deep copy of the list of 5,000 frozen items / fork",
            ours=microseconds(times["fork"]),
            floor=microseconds(times["items"]),
            value=times["items"] / times["fork"],
            bound=20,
            at_most=False,
        ),
    ]
