"""The cost of traces for a turn, with tracing off and with tracing on.

A turn with one tool call, in memory, with a model that answers at once: as small as a turn can be, so that
what is added to it shows. It has four spans. Measured are all that such a turn asks of traces, in a program
that never imported OpenTelemetry and in one that imported its interface and set no provider; and the turn
itself with the SDK that exports to nowhere. A provider is set for good, so all of it is measured in an
interpreter of its own.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

from autonomy_ctx import Agent, ContextTemplate, ConversationHistorySection, SystemInstructionsSection
from autonomy_ctx.messages.message import Message, ToolCall
from autonomy_ctx.tracing import chat_span, current_span_context, is_tracing, tool_span, turn_span
from benchmarks.agents import SYSTEM, InstantModel, find_order
from benchmarks.corpus import spoken
from benchmarks.table import Figure, Side, microseconds, side_by_side

INTERFACE = ("opentelemetry.trace", "opentelemetry.metrics")
MESSAGE, CALL = Message("user", "Hello"), ToolCall("call_1", "find_order", "{}")
LOOPS = 20_000


def untraced_spans() -> None:
    """All that a turn with one tool call asks of traces."""
    names = {"agent": "a", "description": "", "scope": "s", "conversation": "c", "turn": "t"}
    with turn_span(MESSAGE, **names, model=None) as turn:
        turn.begin_turn()
        current_span_context()
        for _ in range(2):
            is_tracing()
            with chat_span(None, ()):
                pass
        with tool_span(CALL, is_known=True):
            pass


def seconds_of_untraced_spans() -> float:
    """The best of some rounds."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(LOOPS):
            untraced_spans()
        best = min(best, (time.perf_counter() - began) / LOOPS)
    return best


async def compare() -> dict[str, float]:
    """Seconds of what a turn asks of traces without a provider, and of a turn without one and with one."""
    window = [SystemInstructionsSection(SYSTEM), ConversationHistorySection(max_messages=20)]
    agent = Agent("shop", model=InstantModel(), tools=[find_order], context_template=ContextTemplate(window))
    took = {"spans, not imported": seconds_of_untraced_spans()}
    modules: dict[str, ModuleType] = {}

    async def take_turn() -> None:
        await agent.send(spoken(2)["content"]["text"], scope="ana")

    async def use(imported: bool) -> None:
        for name in INTERFACE:
            sys.modules.pop(name, None)
        sys.modules.update(modules if imported else {})

    modules |= {name: importlib.import_module(name) for name in INTERFACE}
    took["spans, no provider"] = seconds_of_untraced_spans()
    modules["opentelemetry.trace"].set_tracer_provider(_make_provider())
    took |= await side_by_side(
        Side("untraced", take_turn, partial(use, False)), Side("traced", take_turn, partial(use, True))
    )
    await agent.close()
    return took


def _make_provider() -> Any:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider


async def measure(folder: Path) -> list[Figure]:
    ran = await anyio.run_process([sys.executable, "-m", "benchmarks.tracing"])
    took: dict[str, float] = json.loads(ran.stdout)
    turn = took["untraced"]
    return [
        *(
            Figure(
                name=f"spans of a turn with a call, {state}: % of the turn",
                ours=f"{took[f'spans, {state}'] * 1e6:.1f} us",
                floor=microseconds(turn),
                value=100 * took[f"spans, {state}"] / turn,
                bound=bound,
            )
            for state, bound in (("not imported", 0.5), ("no provider", 3))
        ),
        Figure(
            name="turn with a call, four spans exported / not imported",
            ours=microseconds(took["traced"]),
            floor=microseconds(turn),
            value=took["traced"] / turn,
            bound=1.5,
        ),
    ]


if __name__ == "__main__":
    print(json.dumps(anyio.run(compare)))
