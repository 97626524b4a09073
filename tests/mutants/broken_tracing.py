"""Broken builds of traces: what is in them, what is not, and what belongs to what."""

from __future__ import annotations

from mutants.mutant import Mutant

TRACING = "tests/test_tracing.py"
MUTANTS = [
    Mutant(
        "no span says what was said unless the environment asks",
        "tracing.py",
        '    return os.environ.get(CONTENT_VARIABLE, "").strip().lower() in CONTENT_VALUES\n',
        "    return True\n",
        TRACING,
    ),
    Mutant(
        "the text of an error is not in a span",
        "tracing.py",
        "str(error) if records_content() else None",
        "str(error)",
        TRACING,
    ),
    Mutant(
        "a name that no tool has is not in a span",
        "tracing.py",
        "    if is_known or with_content:\n",
        "    if True:\n",
        TRACING,
    ),
    Mutant(
        "conversations of two scopes have two ids",
        "tracing.py",
        "json.dumps([scope, conversation])",
        "(scope + conversation)",
        TRACING,
    ),
    Mutant(
        "without a provider nothing of OpenTelemetry is imported",
        "tracing.py",
        '    trace: Any = sys.modules.get("opentelemetry.trace")\n',
        "    import opentelemetry.trace as trace\n",
        TRACING,
    ),
    Mutant(
        "metrics are counted without a provider of spans",
        "tracing.py",
        "    if not measures and not _is_set(tracers",
        "    if not _is_set(tracers",
        TRACING,
    ),
    Mutant(
        "a summary is not a part of the turn that caused it",
        "compaction/summarizer.py",
        "                    with background_trace(*lease.key, cause):\n",
        "                    if True:\n",
        TRACING,
    ),
    Mutant(
        "a summary is linked to the turn that caused it",
        "compaction/summarizer.py",
        "background_trace(*lease.key, cause)",
        "background_trace(*lease.key, None)",
        TRACING,
    ),
    Mutant(
        "a streamed turn belongs to the span of its reader",
        "agents/reply.py",
        "continue_trace(self._trace)",
        "continue_trace(None)",
        TRACING,
    ),
    Mutant(
        "vectors made in the background belong to no turn",
        "memory/vector_index.py",
        "                with leave_trace():\n",
        "                if True:\n",
        TRACING,
    ),
    Mutant(
        "a tool's failure is an error of its span",
        "tools/run.py",
        "span.end_tool(outcome.message, outcome.error)",
        "span.end_tool(outcome.message, None)",
        TRACING,
    ),
]
