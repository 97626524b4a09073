"""OpenTelemetry spans for summaries, when its API is installed; nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from autonomy_ctx.compaction.config import Settings
from autonomy_ctx.memory.store import StoredSegment

if TYPE_CHECKING:
    from autonomy_ctx.compaction.summarizer import SummaryEvent


@contextmanager
def summary_span(event: SummaryEvent, settings: Settings) -> Iterator[Callable[[StoredSegment | None], None]]:
    """A span around one summary. Says how much and how long, never what was said or by whom."""
    tracer = _tracer()
    if tracer is None:
        yield lambda segment: None
        return
    # A recorded exception would bring its causes along, and a provider's error may quote the prompt.
    with tracer.start_as_current_span(
        "autonomy_ctx.summary", record_exception=False, set_status_on_exception=False
    ) as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.request.model", settings.model_name)
        span.set_attribute("autonomy_ctx.summary.covers_from", event.first)
        span.set_attribute("autonomy_ctx.summary.covers_to", event.last)
        span.set_attribute("autonomy_ctx.summary.messages", event.messages)

        def done(segment: StoredSegment | None) -> None:
            span.set_attribute("autonomy_ctx.summary.committed", segment is not None)
            if segment is not None:
                span.set_attribute("gen_ai.usage.input_tokens", segment.input_tokens)
                span.set_attribute("gen_ai.usage.output_tokens", segment.output_tokens)
                span.set_attribute("autonomy_ctx.summary.tokens", segment.tokens)
                span.set_attribute("autonomy_ctx.summary.identifier_coverage", segment.coverage)

        try:
            yield done
        except Exception as error:
            span.set_attribute("error.type", getattr(error, "reason", type(error).__name__))
            span.set_status(_error_status())
            raise


def _error_status() -> Any:
    from opentelemetry.trace import Status, StatusCode

    return Status(StatusCode.ERROR)


@cache
def _tracer() -> Any:
    try:
        import opentelemetry.trace as trace
    except ImportError:
        return None
    return trace.get_tracer("autonomy_ctx")
