"""Spans and metrics by the GenAI conventions: with the SDK, and what is not in them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import opentelemetry.metrics as metrics
import opentelemetry.trace as trace
import pytest
from agents.kit import add_up, broken, call, calls
from models.provider_server import Fault, providing
from models.provider_words import Say
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from server.endpoint import CHAT, endpoint
from summary_models import asks, shown, summarized

from autonomy_ctx import Agent, Memory, Message, Model, SummarizedHistorySection, tool, trace_conversation_id
from autonomy_ctx.engine.engine import ContextEngine
from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.errors import ContextOverflow
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.testing import HeldModel, ScriptedModel, make_message
from autonomy_ctx.tracing import CONTENT_VARIABLE, SCHEMA_URL

ROOT = Path(__file__).parent.parent
WHERE: dict[str, Any] = {"scope": "ana@example.org", "conversation": "porto-trip"}
USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 750},
    "completion_tokens_details": {"reasoning_tokens": 6},
}


@dataclass
class Traces:
    """What was exported, in the order in which it ended."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [found] = self.named(name)
        return found

    def points(self, name: str) -> list[HistogramDataPoint]:
        found = self.reader.get_metrics_data()
        resources = [] if found is None else found.resource_metrics
        every = [one for each in resources for scope in each.scope_metrics for one in scope.metrics]
        return [
            point
            for metric in every
            if metric.name == name
            for point in metric.data.data_points
            if isinstance(point, HistogramDataPoint)
        ]

    def text(self) -> str:
        """All that left the process."""
        return "".join(span.to_json() for span in self.spans) + str(self.reader.get_metrics_data())


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    found = Traces(InMemorySpanExporter(), InMemoryMetricReader())
    tracers, meters = TracerProvider(), MeterProvider([found.reader])
    tracers.add_span_processor(SimpleSpanProcessor(found.exporter))
    # A process has one provider for good; a test has its own.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracers)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: meters)
    monkeypatch.delenv(CONTENT_VARIABLE, raising=False)
    yield found
    tracers.shutdown()
    meters.shutdown()


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    return span.parent is not None and of.context is not None and span.parent.span_id == of.context.span_id


def reply(message: Mapping[str, Any], stop: str = "stop") -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "model": "scripted-2026",
        "choices": [{"message": dict(message), "finish_reason": stop}],
        "usage": USAGE,
    }


def text(said: str) -> dict[str, Any]:
    return reply({"role": "assistant", "content": said})


async def test_a_turn_is_a_tree_of_its_model_calls_and_tools(memory: Memory, traces: Traces) -> None:
    model = ScriptedModel([reply(calls(call("add_up", a=1, b=2)), "tool_calls"), text("It is 3.")])
    agent = Agent("helper", instructions="Help.", model=model, memory=memory, tools=[add_up])
    answer = await agent.send("How much is 1 + 2?", **WHERE)
    assert [span.name for span in traces.spans] == [
        "chat scripted",
        "execute_tool add_up",
        "chat scripted",
        "invoke_agent helper",
    ]
    turn = traces.one("invoke_agent helper")
    assert turn.parent is None
    assert all(is_child(span, turn) for span in traces.spans[:-1])
    assert [span.kind.name for span in traces.spans] == ["CLIENT", "INTERNAL", "CLIENT", "INTERNAL"]
    scope = turn.instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.schema_url) == ("autonomy_ctx", SCHEMA_URL)
    found = dict(attributes(turn))
    assert found.pop("autonomy_ctx.turn.waited_seconds") >= 0
    assert found == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
        "gen_ai.conversation.id": trace_conversation_id(**WHERE),
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 2000,
        "gen_ai.usage.output_tokens": 40,
        "gen_ai.usage.cache_read.input_tokens": 1500,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 12,
        "autonomy_ctx.usage.cached_share": 0.75,
        "autonomy_ctx.turn.id": answer.turn,
        "autonomy_ctx.turn.number": 1,
        "autonomy_ctx.turn.steps": 2,
    }
    first, second = map(attributes, traces.named("chat scripted"))
    assert first["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert second["gen_ai.response.finish_reasons"] == ("stop",)
    assert second["gen_ai.response.model"] == "scripted-2026"
    assert second["gen_ai.response.id"] == "chatcmpl-1"
    assert second["gen_ai.conversation.id"] == trace_conversation_id(**WHERE)
    assert second["autonomy_ctx.usage.cached_share"] == 0.75
    ran = attributes(traces.one("execute_tool add_up"))
    assert ran["gen_ai.tool.name"] == "add_up"
    assert ran["gen_ai.tool.type"] == "function"
    assert str(ran["gen_ai.tool.call.id"]).startswith("call-")


async def test_a_model_call_says_what_each_section_costs_and_how_much_is_shared(
    memory: Memory, traces: Traces
) -> None:
    agent = Agent("helper", instructions="Help.", model=ScriptedModel("Yes."), memory=memory)
    await agent.send("Is it open?", **WHERE)
    await agent.send("And on Sunday?", **WHERE)
    first, second = map(attributes, traces.named("chat scripted"))
    shown = await agent.explain(**WHERE)
    assert second["autonomy_ctx.context.messages"] == len(shown)
    assert second["autonomy_ctx.context.tokens"] == shown.tokens
    assert second["autonomy_ctx.context.epoch"] == shown.epoch == 1
    assert "autonomy_ctx.context.end_reason" not in second
    sections = {section.name: section.tokens for section in shown.sections}
    assert sections["conversation_history"] > 0
    assert {name: second[f"autonomy_ctx.section.{name}.tokens"] for name in sections} == sections
    assert "autonomy_ctx.context.shared_share" not in first
    assert shown.shared is not None
    assert second["autonomy_ctx.context.shared_tokens"] == shown.shared.tokens > 0
    assert second["autonomy_ctx.context.shared_share"] == pytest.approx(shown.shared.share, abs=1e-4)


async def test_a_section_that_failed_is_named_without_what_it_said(memory: Memory, traces: Traces) -> None:
    class Weather:
        name, enabled = "weather", True

        async def get_messages(self, *given: Any) -> list[Any]:
            raise RuntimeError("secret weather")

    agent = Agent("helper", instructions="Help.", model=ScriptedModel("Yes."), memory=memory)
    agent.context_template.add_section(Weather())
    await agent.send("Is it open?", **WHERE)
    assert attributes(traces.one("chat scripted"))["autonomy_ctx.section.weather.status"] == "failed"
    assert "secret" not in traces.text()


async def test_no_span_and_no_metric_says_what_was_said_or_by_whom(memory: Memory, traces: Traces) -> None:
    @tool
    def look(where: str) -> str:
        """Secret description."""
        raise ValueError(f"secret failure in {where}")

    answers: list[Any] = [
        calls(call("look", where="secret place"), call("secret_tool"), text="secret thought"),
        {"role": "assistant", "content": "secret answer"},
        RuntimeError("secret error"),
    ]
    agent = Agent(
        "helper",
        description="Secret agent.",
        instructions="Secret rule.",
        model=ScriptedModel(answers),
        memory=memory,
        tools=[look],
    )
    await agent.send("secret question", **WHERE)
    with pytest.raises(RuntimeError):
        await agent.send("secret question", **WHERE)
    exported = traces.text()
    for secret in ("secret", "Secret", "ana@", "porto-trip"):
        assert secret not in exported


async def test_content_and_names_are_recorded_when_the_environment_asks(
    memory: Memory, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT_VARIABLE, "SPAN_ONLY")
    asked = call("add_up", a=1, b=2)
    model = ScriptedModel([calls(asked, text="Let me see."), "It is 3."])
    agent = Agent(
        "helper", description="Adds.", instructions="Help.", model=model, memory=memory, tools=[add_up]
    )
    await agent.send("How much is 1 + 2?", **WHERE)
    turn = attributes(traces.one("invoke_agent helper"))
    assert turn["gen_ai.agent.description"] == "Adds."
    [question] = json.loads(str(turn["gen_ai.input.messages"]))
    assert question == {"role": "user", "parts": [{"type": "text", "content": "How much is 1 + 2?"}]}
    [said] = json.loads(str(turn["gen_ai.output.messages"]))
    assert said["parts"] == [{"type": "text", "content": "It is 3."}]
    assert (turn["autonomy_ctx.scope"], turn["autonomy_ctx.conversation"]) == tuple(WHERE.values())
    assert turn["gen_ai.conversation.id"] == trace_conversation_id(**WHERE), "as without content"
    ran = attributes(traces.one("execute_tool add_up"))
    assert json.loads(str(ran["gen_ai.tool.call.arguments"])) == {"a": 1, "b": 2}
    assert ran["gen_ai.tool.call.result"] == "3"
    assert ran["gen_ai.tool.description"] == "Add two numbers."
    first = json.loads(str(attributes(traces.named("chat scripted")[0])["gen_ai.output.messages"]))
    assert [part["type"] for part in first[0]["parts"]] == ["text", "tool_call"]
    assert first[0]["finish_reason"] == "tool_call"
    last = attributes(traces.named("chat scripted")[-1])
    system, *_, user, assistant, result = json.loads(str(last["gen_ai.input.messages"]))
    assert system == {"role": "system", "parts": [{"type": "text", "content": "Help."}]}
    assert user["parts"] == [{"type": "text", "content": "How much is 1 + 2?"}]
    assert assistant["parts"] == [
        {"type": "text", "content": "Let me see."},
        {"type": "tool_call", "id": asked["id"], "name": "add_up", "arguments": {"a": 1, "b": 2}},
    ]
    assert result == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": asked["id"], "response": "3"}],
    }
    assert json.loads(str(last["gen_ai.output.messages"])) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "It is 3."}], "finish_reason": "stop"}
    ]
    definition = json.loads(str(last["gen_ai.tool.definitions"]))[0]
    assert (definition["type"], definition["name"]) == ("function", "add_up")


async def test_content_has_images_without_their_bytes(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT_VARIABLE, "true")
    agent = Agent("helper", instructions="Help.", model=ScriptedModel("A cat."))
    images = ["data:image/png;base64,QUJD", "https://example.org/cat.png"]
    await agent.send([{"type": "image", "image": image} for image in images])
    shown = json.loads(str(attributes(traces.one("chat scripted"))["gen_ai.input.messages"]))
    assert shown[-1]["parts"] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": ""},
        {"type": "uri", "modality": "image", "uri": "https://example.org/cat.png"},
    ]
    await agent.close()


async def test_a_failing_tool_is_an_error_and_its_turn_is_not(memory: Memory, traces: Traces) -> None:
    model = ScriptedModel([calls(call("broken"), call("no_such_tool")), "It did not work."])
    agent = Agent("helper", instructions="Help.", model=model, memory=memory, tools=[broken])
    await agent.send("Try it.", **WHERE)
    failed = traces.one("execute_tool broken")
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.status.description is None
    assert attributes(failed)["error.type"] == "RuntimeError"
    unknown = traces.one("execute_tool")
    assert attributes(unknown)["error.type"] == "autonomy_ctx.errors.UnknownTool"
    assert "gen_ai.tool.name" not in attributes(unknown), "the model's word, not a tool's name"
    assert traces.one("invoke_agent helper").status.status_code is trace.StatusCode.UNSET


async def test_a_failing_model_is_an_error_of_its_call_and_of_the_turn(
    memory: Memory, traces: Traces
) -> None:
    class Refused(Exception):
        status_code = 429

    agent = Agent("helper", instructions="Help.", model=ScriptedModel([Refused("private")]), memory=memory)
    with pytest.raises(Refused):
        await agent.send("Hello", **WHERE)
    for name in ("chat scripted", "invoke_agent helper"):
        span = traces.one(name)
        assert span.status.status_code is trace.StatusCode.ERROR
        assert attributes(span)["error.type"] == f"{__name__}.{Refused.__qualname__}"
        assert attributes(span)["http.response.status_code"] == 429
        assert span.events == ()
    [point] = traces.points("gen_ai.client.operation.duration")
    assert dict(point.attributes or {})["error.type"] == f"{__name__}.{Refused.__qualname__}"
    assert traces.points("gen_ai.client.token.usage") == []


async def test_a_context_that_was_too_long_is_a_call_with_an_error_and_then_another(
    memory: Memory, traces: Traces
) -> None:
    model = ScriptedModel(["a", ContextOverflow("scripted", window=None, status_code=400), "Shorter."])
    agent = Agent("helper", instructions="Help.", model=model, memory=memory)
    await agent.send("long " * 500, **WHERE)
    traces.exporter.clear()
    await agent.send("short", **WHERE)
    first, second = traces.named("chat scripted")
    tokens = [attributes(span)["autonomy_ctx.context.tokens"] for span in (first, second)]
    assert tokens[0] > tokens[1]
    assert attributes(second)["autonomy_ctx.context.end_reason"] == (await agent.explain(**WHERE)).end_reason
    assert attributes(first)["error.type"] == "autonomy_ctx.errors.ContextOverflow"
    assert second.status.status_code is trace.StatusCode.UNSET
    assert traces.one("invoke_agent helper").status.status_code is trace.StatusCode.UNSET


async def test_a_cancelled_turn_says_so_on_every_loop(memory: Memory, traces: Traces) -> None:
    model = HeldModel()
    agent = Agent("helper", instructions="Help.", model=model, memory=memory)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.send("Hello", **WHERE))
        await model.wait_for_call()
        group.cancel_scope.cancel()
    for name in ("chat held", "invoke_agent helper"):
        assert attributes(traces.one(name))["error.type"] == "cancelled"


async def test_what_a_tool_does_is_below_its_span_in_threads_and_other_agents_too(
    memory: Memory, traces: Traces
) -> None:
    tracer = trace.get_tracer_provider().get_tracer("a program")

    @tool
    def in_a_thread() -> str:
        """Work in a thread."""
        with tracer.start_as_current_span("query"):
            return "done"

    expert = Agent("expert", instructions="Know.", model=ScriptedModel("Yes."), memory=memory)
    model = ScriptedModel([calls(call("in_a_thread"), call("expert", message="Is it?")), "Yes."])
    agent = Agent(
        "helper", instructions="Help.", model=model, memory=memory, tools=[in_a_thread, expert.as_tool()]
    )
    with tracer.start_as_current_span("request"):
        await agent.send("Is it?", **WHERE)
    assert is_child(traces.one("query"), traces.one("execute_tool in_a_thread"))
    inner = traces.one("invoke_agent expert")
    assert is_child(inner, traces.one("execute_tool expert"))
    assert is_child(traces.one("invoke_agent helper"), traces.one("request"))
    asked = [span for span in traces.named("chat scripted") if is_child(span, inner)]
    assert [attributes(span)["gen_ai.agent.name"] for span in asked] == ["expert"]


async def test_a_streamed_turn_belongs_to_its_reader_and_says_when_the_first_piece_came(
    memory: Memory, traces: Traces
) -> None:
    tracer = trace.get_tracer_provider().get_tracer("a program")
    agent = Agent("helper", instructions="Help.", model=Model("offline"), memory=memory)
    requests = []
    began = time.perf_counter()
    for number in range(2):
        # The second one finds a background that the first one's task began.
        with tracer.start_as_current_span(f"request {number}"):
            async for _ in agent.stream("Is the ferry running?", **WHERE):
                pass
        requests.append(traces.one(f"request {number}"))
    took = time.perf_counter() - began
    for request, turn, asked in zip(
        requests, traces.named("invoke_agent helper"), traces.named("chat offline"), strict=True
    ):
        assert is_child(turn, request)
        assert is_child(asked, turn)
        found = attributes(asked)
        assert found["gen_ai.request.stream"] is True
        assert found["gen_ai.provider.name"] == "offline"
        # Spans have the times of another clock, which may be set meanwhile.
        assert 0 < found["gen_ai.response.time_to_first_chunk"] < took
    [point] = traces.points("gen_ai.client.operation.time_to_first_chunk")
    assert point.count == 2
    await agent.close()


async def test_a_model_over_http_is_named_by_provider_address_and_port(
    memory: Memory, traces: Traces
) -> None:
    async with providing(lambda asked: Say("Yes.")) as server:
        model = Model(
            "gpt-5", base_url=f"{server.url}/v1", api_key="secret-key", temperature=0.2, top_p=0.9, stop="END"
        )
        agent = Agent(
            "helper", instructions="Help.", model=model, memory=memory, limits={"output_tokens": 300}
        )
        await agent.send("Is it open?", **WHERE)
        await agent.close()
    found = attributes(traces.one("chat gpt-5"))
    assert found["gen_ai.provider.name"] == "openai"
    assert found["gen_ai.request.max_tokens"] == 300
    assert (found["gen_ai.request.temperature"], found["gen_ai.request.top_p"]) == (0.2, 0.9)
    assert found["gen_ai.request.stop_sequences"] == ("END",)
    assert f"http://{found['server.address']}:{found['server.port']}" == server.url
    assert "secret-key" not in traces.text()


async def test_a_call_of_a_framework_is_a_span_once_its_reply_is_stored(traces: Traces) -> None:
    tracer = trace.get_tracer_provider().get_tracer("a program")
    async with ContextEngine(scope="ana", agent="guide") as engine:
        key = engine.key(None, "trip", remedy="")
        for number in (1, 2):
            said = [SourcedMessage(make_message(f"question {number}", id=f"m{number}"))]
            with tracer.start_as_current_span("request"):
                context = await engine.compose(key, said, model="framework-1", may_continue=True)
                answer = Message("assistant", "private words")
                usage = Usage(input_tokens=1000, cached_tokens=750, output_tokens=20)
                await engine.store_reply(key, context, answer, usage=usage)
        newest = await engine.explain("trip")
    calls = traces.named("chat framework-1")
    found = [attributes(call) for call in calls]
    assert [one["autonomy_ctx.turn.number"] for one in found] == [1, 2]
    assert found[1]["autonomy_ctx.turn.id"] == newest.messages[-1].id
    assert found[0]["gen_ai.agent.name"] == "guide"
    assert found[0]["gen_ai.conversation.id"] == trace_conversation_id("ana", "trip")
    assert found[0]["gen_ai.usage.input_tokens"] == 1000
    assert found[0]["autonomy_ctx.usage.cached_share"] == 0.75
    assert found[0]["autonomy_ctx.section.conversation_history.tokens"] > 0
    assert all(is_child(*pair) for pair in zip(calls, traces.named("request"), strict=True))
    assert all(call.start_time < call.end_time for call in calls if call.start_time and call.end_time)
    assert "private" not in traces.text()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_exchange_of_the_endpoint_is_a_span(traces: Traces, stream: bool) -> None:
    said: Any = {"messages": [{"role": "user", "content": "private words"}], "stream": stream}
    options = {"temperature": 0.2, "max_completion_tokens": 300, "stop": "END"}
    async with endpoint(Say("Hello."), agent="guide") as made:
        answered = await made.http.post(
            CHAT,
            json={"model": "served", **said, **options},
            headers={"x-conversation-id": "trip"},
        )
        assert answered.status_code == 200
    found = attributes(traces.one("chat served"))
    assert found["gen_ai.conversation.id"] == trace_conversation_id("ana", "trip")
    assert found["gen_ai.agent.name"] == "guide"
    assert found["autonomy_ctx.turn.number"] == 1
    assert found["gen_ai.usage.output_tokens"] > 0
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["gen_ai.request.temperature"] == 0.2
    assert found["gen_ai.request.max_tokens"] == 300
    assert found["gen_ai.request.stop_sequences"] == ("END",)
    assert found.get("gen_ai.request.stream", False) is stream
    assert "private" not in traces.text()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_refused_exchange_of_the_endpoint_is_a_span_with_an_error(traces: Traces) -> None:
    async with endpoint(Fault.OVERLOADED) as made:
        assert (await made.ask("Hello", conversation="trip")).status_code >= 400
    span = traces.one("chat served")
    assert span.status.status_code is trace.StatusCode.ERROR
    assert attributes(span)["error.type"] == "no_answer"


async def test_metrics_count_tokens_and_seconds_of_each_model(memory: Memory, traces: Traces) -> None:
    agent = Agent("helper", instructions="Help.", model=ScriptedModel([text("Yes.")]), memory=memory)
    await agent.send("Is it open?", **WHERE)
    await agent.send("And now?", **WHERE)
    [took] = traces.points("gen_ai.client.operation.duration")
    assert took.count == 2
    assert dict(took.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.model": "scripted-2026",
    }
    assert (took.explicit_bounds[0], took.explicit_bounds[-1]) == (0.01, 81.92)
    used = {
        str(dict(point.attributes or {})["gen_ai.token.type"]): point.sum
        for point in traces.points("gen_ai.client.token.usage")
    }
    assert used == {"input": 2000, "output": 40}


async def test_metrics_are_counted_without_a_provider_of_spans(
    memory: Memory, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    agent = Agent("helper", instructions="Help.", model=ScriptedModel([text("Yes.")]), memory=memory)
    await agent.send("Is it open?", **WHERE)
    assert traces.spans == []
    assert [point.count for point in traces.points("gen_ai.client.operation.duration")] == [1]


async def test_a_summary_is_linked_to_the_turn_that_caused_it(memory: Memory, traces: Traces) -> None:
    summary = {"floor": 2, "ceiling": 4, "model": ScriptedModel("short")}
    agent = Agent(
        "helper", instructions="Help.", model=ScriptedModel("Yes."), memory=memory, context_summary=summary
    )
    for number in range(3):
        await agent.send(f"question {number}", **WHERE)
    section = agent.context_template.get_section("conversation_history")
    assert isinstance(section, SummarizedHistorySection)
    await section.settled()
    span = traces.one("autonomy_ctx.summary")
    assert span.parent is None, "the turn did not wait for it"
    [link] = span.links
    cause = traces.named("invoke_agent helper")[-1].context
    assert cause is not None
    assert link.context.span_id == cause.span_id, "the turn whose context was too long"
    found = attributes(span)
    assert found["gen_ai.agent.name"] == "helper"
    assert found["gen_ai.conversation.id"] == trace_conversation_id(**WHERE)
    assert found["autonomy_ctx.summary.committed"] is True
    [asked] = [one for one in traces.named("chat scripted") if is_child(one, span)]
    assert attributes(asked)["gen_ai.conversation.id"] == trace_conversation_id(**WHERE)
    await agent.close()


async def summarize(memory: Memory, model: ScriptedModel) -> None:
    async with SummarizedHistorySection(model, floor=2, ceiling=4) as section:
        await memory.append("ana", "trip", *(make_message(f"private {n}", id=f"m{n}") for n in range(5)))
        await section.get_messages(memory, "ana", "trip", {})
        await section.settled()


async def test_a_summary_is_one_span_with_its_range_and_calls(memory: Memory, traces: Traces) -> None:
    await summarize(memory, ScriptedModel([text("short")]))
    span, asked = traces.one("autonomy_ctx.summary"), traces.one("chat scripted")
    found = attributes(span)
    assert found["autonomy_ctx.summary.model"] == "scripted"
    assert found["autonomy_ctx.summary.kind"] == "segment"
    assert (found["autonomy_ctx.summary.covers_from"], found["autonomy_ctx.summary.covers_to"]) == (1, 3)
    assert found["autonomy_ctx.summary.messages"] == 3
    assert found["autonomy_ctx.summary.committed"] is True
    assert found["autonomy_ctx.summary.tokens"] > 0
    counted = [
        name for name in found if name.startswith(("gen_ai.usage", "gen_ai.request", "gen_ai.operation"))
    ]
    assert counted == [], "tokens are counted once, by the call"
    assert attributes(asked)["gen_ai.usage.input_tokens"] == 1000
    for secret in ("private", "ana", "trip", "short"):
        assert secret not in traces.text()


async def test_a_merge_of_segments_has_a_span_of_its_own(traces: Traces) -> None:
    memory = Memory()
    model = ScriptedModel(
        [lambda made: " ".join(f"note {len(model.calls)} of {number}" for number in range(50))]
    )
    async with summarized(model, 4, 8, size=1200) as section:
        while not section.get_metrics()["summaries_merged"]:
            await asks(memory, 1)
            await shown(section, memory)
            await section.settled()
    *_, merge = (span for span in traces.named("autonomy_ctx.summary") if kind(span) == "merge")
    assert attributes(merge)["autonomy_ctx.summary.covers_from"] == 1
    assert "autonomy_ctx.summary.messages" not in attributes(merge)
    assert any(is_child(asked, merge) for asked in traces.named("chat scripted"))
    [segment] = [one for one in traces.named("autonomy_ctx.summary") if is_child(merge, one)]
    assert kind(segment) == "segment", "the one that called for it"


def kind(span: ReadableSpan) -> Any:
    return attributes(span)["autonomy_ctx.summary.kind"]


async def test_a_summary_that_failed_is_a_span_with_an_error(memory: Memory, traces: Traces) -> None:
    await summarize(memory, ScriptedModel([RuntimeError("private words")]))
    span, asked = traces.one("autonomy_ctx.summary"), traces.one("chat scripted")
    assert span.status.status_code is asked.status.status_code is trace.StatusCode.ERROR
    assert attributes(span)["error.type"] == "failed"
    assert attributes(asked)["error.type"] == "RuntimeError"
    assert "autonomy_ctx.summary.committed" not in attributes(span)
    assert "private" not in traces.text()


async def test_vectors_made_in_the_background_belong_to_no_turn(traces: Traces) -> None:
    tracer = trace.get_tracer_provider().get_tracer("a program")
    done = anyio.Event()

    async def embed(texts: list[str]) -> list[list[float]]:
        with tracer.start_as_current_span("embed"):
            vectors = [[1.0, 0.0] for _ in texts]
        done.set()
        return vectors

    async with Memory(embedder=embed) as memory:
        with tracer.start_as_current_span("request"):
            await memory.append("ana", "trip", make_message("The ferry leaves at 9:40.", id="m1"))
            await done.wait()
    assert traces.named("embed")[0].parent is None


def test_the_id_of_a_conversation_is_the_same_everywhere_and_of_one_conversation_only() -> None:
    assert trace_conversation_id("ana", "trip") == "f6b1eca0f5fe41782216000c2978f20d"
    assert trace_conversation_id("ana", "trip") != trace_conversation_id("bob", "trip")
    assert trace_conversation_id("a", "bc") != trace_conversation_id("ab", "c")


PROGRAM = """
import asyncio, sys
{first}
from autonomy_ctx import Agent, Model


async def main():
    summary = {{"floor": 2, "ceiling": 4, "model": Model("offline")}}
    async with Agent("a", instructions="Help.", model=Model("offline"), context_summary=summary) as agent:
        for number in range(4):
            await agent.send(f"question {{number}}")
        await agent.context_template.get_section("conversation_history").settled()


asyncio.run(main())
print(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))
{last}
"""


def run_program(first: str = "", last: str = "") -> str:
    program = PROGRAM.format(first=first, last=last)
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_without_a_provider_nothing_of_opentelemetry_is_imported() -> None:
    assert run_program() == "[]\n"


def test_a_program_without_the_extra_runs() -> None:
    blocked = 'sys.modules["opentelemetry"] = sys.modules["opentelemetry.trace"] = None'
    assert run_program(blocked) == "['opentelemetry', 'opentelemetry.trace']\n"


def test_a_provider_set_by_the_program_is_found() -> None:
    first = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
    last = "print(sorted({span.name for span in exporter.get_finished_spans()}))"
    printed = run_program(first, last).splitlines()[-1]
    assert printed == "['autonomy_ctx.summary', 'chat offline', 'invoke_agent a']"
