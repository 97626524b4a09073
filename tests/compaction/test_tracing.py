"""Spans say how much and how long, and never what was make_message or by whom."""

from __future__ import annotations

from collections.abc import Iterator

import opentelemetry.trace as trace
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autonomy_ctx import Memory, SummarizedHistorySection
from autonomy_ctx.compaction import metrics
from autonomy_ctx.testing import ScriptedModel, make_message


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A process has one provider for good; a test has its own.
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    metrics.load_tracer.cache_clear()
    yield exporter
    metrics.load_tracer.cache_clear()
    provider.shutdown()


async def summarized(memory: Memory, model: ScriptedModel) -> None:
    async with SummarizedHistorySection(model, floor=2, ceiling=4) as section:
        await memory.append("ana", "trip", *(make_message(f"private {n}", id=f"m{n}") for n in range(5)))
        await section.get_messages(memory, "ana", "trip", {})
        await section.settled()


async def test_a_summary_is_one_span_with_its_range_and_cost(
    memory: Memory, exporter: InMemorySpanExporter
) -> None:
    await summarized(memory, ScriptedModel(["short"]))
    [span] = exporter.get_finished_spans()
    found = dict(span.attributes or {})
    assert span.name == "autonomy_ctx.summary"
    assert found["gen_ai.request.model"] == "scripted"
    assert (found["autonomy_ctx.summary.covers_from"], found["autonomy_ctx.summary.covers_to"]) == (1, 3)
    assert found["autonomy_ctx.summary.committed"] is True
    assert isinstance(found["gen_ai.usage.input_tokens"], int)
    for secret in ("private", "ana", "trip", "short"):
        assert not any(secret in str(value) for value in found.values())


async def test_a_summary_that_failed_is_a_span_with_an_error(
    memory: Memory, exporter: InMemorySpanExporter
) -> None:
    await summarized(memory, ScriptedModel([RuntimeError("private words")]))
    [span] = exporter.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    found = dict(span.attributes or {})
    assert found["error.type"] == "failed"
    assert "autonomy_ctx.summary.committed" not in found
    assert "private" not in span.to_json()
