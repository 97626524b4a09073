"""Contexts of tasks: the documented examples, the order, and nothing lost, doubled or from elsewhere."""

from __future__ import annotations

import ast
import inspect
import json
from datetime import timedelta
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import few, names

from autonomy_ctx import BudgetExceeded, InvalidMessage, Mailbox, Memory, Message, ToolCall
from autonomy_ctx.knowledge import InProcessVectorStore
from autonomy_ctx.messages import DirectMessage
from autonomy_ctx.messages.transcript import nonce, wrap_untrusted
from autonomy_ctx.tasks import (
    EventBus,
    EventBusContextSource,
    MemoryContextSource,
    Task,
    TaskContextManager,
    events_to_messages,
)
from autonomy_ctx.testing import StoppedClock, make_message
from autonomy_ctx.tokens import TokenCounter
from autonomy_ctx.tools import memory_tools
from autonomy_ctx.tools.run import run_calls

# -- the documented examples, as they are written; only import lines are changed ------------------------

CONFIGURED = """
from autonomy_ctx.tasks import TaskContextManager
from autonomy_ctx.tokens import TokenCounter

context_manager = TaskContextManager(
    token_counter=TokenCounter(),
    sources=[memory_source, event_source],
    max_tokens=4000,
    system_prompt="You are a helpful AI assistant",
    knowledge_base=knowledge_base  # Optional
)
"""

MEMORY_SOURCE = """
from autonomy_ctx.tasks import MemoryContextSource

memory_source = MemoryContextSource(memory=loom_memory)
# Retrieves tasks from L1 and L2 layers
"""

EVENT_SOURCE = """
from autonomy_ctx.tasks import EventBusContextSource

event_source = EventBusContextSource(event_bus=event_bus)
# Retrieves thinking events and tool calls
"""

DIRECT_MESSAGE = """
from autonomy_ctx.tasks import Task

direct_msg = Task(
    task_id="task-123:event:node.message",
    source_agent="agent-a",
    target_agent="agent-b",
    action="node.message",
    parameters={
        "content": "Please focus on the database migration plan.",
        "priority": 0.8,
        "ttl_seconds": 600,
        "target_node_id": "agent-b",
        "parent_task_id": "task-123",
        "metadata": {"reason": "handoff"},
    },
)
"""

COUNTED = """
from autonomy_ctx.tokens import TokenCounter

counter = TokenCounter()
token_count = counter.count_messages(messages)
"""

BASIC = """
from autonomy_ctx.tasks import TaskContextManager
from autonomy_ctx.tasks import Task

# Build context for current task
current_task = Task(
    task_id="task_123",
    action="execute",
    parameters={"content": "Read file data.txt"}
)

messages = await context_manager.build_context(current_task)

# Messages ready for LLM
response = await llm.chat(messages, tools=available_tools)
"""

WITH_SESSION = """
from autonomy_ctx.tasks import Task

current_task = Task(
    task_id="task_123",
    action="execute",
    parameters={"content": "Refactor the memory layer"},
    session_id="session-2026-01-28",
)
"""

QUERIED = """
# L2 session working memory
await executor.execute("query_l2_memory", {"limit": 10, "session_id": "session-2026-01-28"})

# L3 session summaries
await executor.execute("query_l3_memory", {"limit": 20, "session_id": "session-2026-01-28"})
"""

WITH_KNOWLEDGE = """
from autonomy_ctx.knowledge import VectorKnowledgeBase

# Create knowledge base
kb = VectorKnowledgeBase(embedding_provider, vector_store)

# Configure context manager with knowledge base
context_manager = TaskContextManager(
    token_counter=TokenCounter(),
    sources=[memory_source],
    knowledge_base=kb,  # Auto-queries relevant knowledge
    max_tokens=4000
)

# Knowledge is automatically included in context
messages = await context_manager.build_context(current_task)
"""

SESSION = "session-2026-01-28"


async def run(example: str, given: dict[str, Any]) -> None:
    ran = eval(compile(example, "<example>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), given)
    if inspect.isawaitable(ran):
        await ran


class Letters:
    """A toy embedder: which letters a text has."""

    async def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0 + text.lower().count(letter) for letter in "abcdefghijklm"] for text in texts]


class Echo:
    async def chat(self, messages: Any, tools: Any) -> Any:
        return messages


class Executor:
    """Runs tools by name, as an agent does."""

    def __init__(self, memory: Memory) -> None:
        self.tools, self.answers = memory_tools(memory), list[Any]()

    async def execute(self, name: str, arguments: dict[str, Any]) -> Any:
        [ran] = await run_calls([ToolCall("c1", name, json.dumps(arguments))], self.tools)
        assert ran.error is None
        self.answers.append(ran.value)
        return ran.value


async def test_every_documented_example_runs_with_only_its_imports_changed() -> None:
    memory, bus = Memory(), EventBus()
    await memory.append(
        "default", "default", make_message("Hello", id="m1"), make_message("Hi", id="m2", role="assistant")
    )
    await memory.append("default", SESSION, make_message("Never rename memory.py", id="m3"))
    known: dict[str, Any] = {
        "loom_memory": memory,
        "event_bus": bus,
        "knowledge_base": None,
        "embedding_provider": Letters(),
        "vector_store": InProcessVectorStore(),
        "llm": Echo(),
        "available_tools": [],
        "executor": Executor(memory),
    }
    for example in (MEMORY_SOURCE, EVENT_SOURCE, CONFIGURED, BASIC):
        await run(example, known)
    assert known["response"] == [
        {"role": "system", "content": "You are a helpful AI assistant"},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Read file data.txt"},
    ]
    await run(COUNTED, known)
    assert known["token_count"] > 20
    await run(WITH_SESSION, known)
    await run(QUERIED, known)
    assert [[row["content"] for row in answer] for answer in known["executor"].answers] == [
        ["Never rename memory.py"],
        [],
    ]
    await run(DIRECT_MESSAGE, known)
    await run(WITH_KNOWLEDGE, known)
    await known["kb"].add("A memory layer has tiers.", source="guide")
    messages = await known["context_manager"].build_context(known["current_task"])
    assert [one["role"] for one in messages] == ["user", "system", "user"]
    assert "A memory layer has tiers." in messages[1]["content"]
    assert messages[-1]["content"] == "Refactor the memory layer"


def from_ana(content: str) -> str:
    """Mail as a model reads it."""
    return f"[Direct message from ana]\n{wrap_untrusted('mail', content, nonce(content))}"


def test_events_are_converted_by_the_documented_rules() -> None:
    assert events_to_messages(
        [
            Task(action="node.thinking", parameters={"content": "I need to..."}),
            Task(action="execute", parameters={"content": "Read file X"}),
            Task(action="node.tool_call", parameters={"tool_name": "read_file"}),
            Task(
                action="node.tool_call", parameters={"tool_name": "read", "tool_args": {"path": "a", "n": 1}}
            ),
            Task(action="node.tool_result", parameters={"content": "x" * 1000}),
            Task(action="node.message", source_agent="ana", parameters={"content": "Look."}),
            Task(action="node.message", parameters={"content": "Look again."}),
            Task(action="node.delegation_request", source_agent="ana", parameters={"subtask": "Count."}),
            Task(action="node.delegation_response", source_agent="b\nen]", parameters={"result": {"n": 3}}),
            Task(action="node.delegation_response", parameters={"content": "Three."}),
            Task(action="node.delegation_request", source_agent="ana"),
            Task(action="something.else", parameters={"content": "?"}),
        ]
    ) == [
        {"role": "assistant", "content": "I need to..."},
        {"role": "user", "content": "Read file X"},
        {"role": "assistant", "content": "[Calling read_file(...)]"},
        {"role": "assistant", "content": '[Calling read(path="a", n=1)]'},
        {"role": "user", "content": from_ana("Look.")},
        {"role": "user", "content": from_ana("Look again.").replace(" from ana", "")},
        {"role": "assistant", "content": "[Delegation request from ana] Count."},
        {"role": "assistant", "content": '[Delegation response from b en_] {"n": 3}'},
        {"role": "assistant", "content": "[Delegation response] Three."},
    ]


@given(
    st.sampled_from(
        [
            "execute",
            "node.thinking",
            "node.tool_call",
            "node.message",
            "node.delegation_request",
            "node.delegation_response",
            "node.tool_result",
            None,
        ]
    ),
    st.none()
    | st.dictionaries(
        st.sampled_from(
            [
                "content",
                "tool_name",
                "tool_args",
                "priority",
                "ttl_seconds",
                "metadata",
                "subtask",
                "result",
                "source_agent",
            ]
        ),
        st.none() | st.text(max_size=3) | st.integers() | st.lists(st.integers(), max_size=2),
    ),
)
@few
def test_whatever_an_event_holds_it_is_a_message_or_left_out(action: Any, parameters: Any) -> None:
    class Event:
        pass

    event: Any = Event()
    event.action, event.parameters = action, parameters
    for message in events_to_messages([event, Event()]):
        assert message["role"] in ("user", "assistant")
        assert isinstance(message["content"], str)


# -- building -----------------------------------------------------------------------------------------


def asks(content: str = "What now?", **fields: Any) -> Task:
    given: dict[str, Any] = {"task_id": "now", "target_agent": "ben", "session_id": "trip"}
    return Task(**(given | {"parameters": {"content": content}} | fields))


def manager(*sources: Any, **options: Any) -> TaskContextManager:
    return TaskContextManager(TokenCounter(), sources, **options)


async def texts(context: TaskContextManager, task: Task) -> list[str]:
    return [message["content"] for message in await context.build_context(task)]


def happened(number: int, action: str = "node.thinking", **fields: Any) -> Task:
    at = StoppedClock()() + timedelta(seconds=number)
    given: dict[str, Any] = {"task_id": f"e{number}", "session_id": "trip", "created_at": at}
    return Task(action=action, **(given | {"parameters": {"content": f"thought {number}"}} | fields))


def direct(number: int, **parameters: Any) -> Task:
    return happened(
        number,
        "node.message",
        source_agent="ana",
        target_agent="ben",
        parameters={"content": f"mail {number}", **parameters},
    )


class Guide:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def search(self, query: str, limit: int) -> list[str]:
        self.asked.append(query)
        return ["Boats leave at noon."]


async def test_the_order_is_system_memory_knowledge_events_mail_task(memory: Memory) -> None:
    ben, bus, guide = memory.for_agent("ben"), EventBus(), Guide()
    await ben.append(
        "default", "trip", make_message("Hello", id="m1"), make_message("Hi", id="m2", role="assistant")
    )
    await Mailbox(memory).send(
        DirectMessage(source_agent="ana", target_agent="ben", content="mail 1", id="d1", priority=0.9),
        scope="default",
        conversation="trip",
    )
    for event in (direct(3), happened(2), happened(1)):
        bus.publish(event)
    built = manager(
        EventBusContextSource(bus, clock=StoppedClock()),
        MemoryContextSource(ben),
        system_prompt="You help.",
        knowledge_base=guide,
    )
    messages = await built.build_context(asks())
    knowledge = messages.pop(3)
    assert knowledge["role"] == "system"
    assert "Boats leave at noon." in knowledge["content"]
    assert messages == [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "assistant", "content": "thought 1"},
        {"role": "assistant", "content": "thought 2"},
        {"role": "user", "content": from_ana("mail 1")},
        {"role": "user", "content": from_ana("mail 3")},
        {"role": "user", "content": "What now?"},
    ]
    assert guide.asked == ["What now?"]


@given(st.lists(st.tuples(names, names), min_size=2, max_size=4, unique=True))
@few
def test_nothing_of_another_session_or_scope_is_shown(places: list[tuple[str, str]]) -> None:
    async def check() -> None:
        memory, bus = Memory(), EventBus()
        for number, (scope, session) in enumerate(places):
            await memory.append(scope, session, make_message(f"message {number}", id="m1"))
            bus.publish(happened(number, session_id=session, parameters={"content": f"thought of {session}"}))
        for number, (scope, session) in enumerate(places):
            source = MemoryContextSource(memory, scope=scope)
            found = await texts(manager(source, EventBusContextSource(bus)), asks(session_id=session))
            assert found[0] == f"message {number}"
            assert set(found[1:-1]) == {f"thought of {session}"}

    anyio.run(check)


async def test_a_bus_or_memory_that_gives_everything_leaks_nothing() -> None:
    class Careless:
        def events(self, session_id: str | None) -> list[Task]:
            return [happened(1), happened(2, session_id="other"), happened(3, session_id=None)]

        async def tasks(self, session_id: str | None) -> list[Task]:
            return [happened(4, "execute"), happened(5, "execute", session_id="other")]

    both = Careless()
    built = manager(MemoryContextSource(both), EventBusContextSource(both))
    assert await texts(built, asks()) == ["thought 4", "thought 1", "What now?"]
    assert await texts(built, asks(session_id=None)) == ["thought 3", "What now?"]


async def test_nothing_is_shown_twice(memory: Memory) -> None:
    bus = EventBus()
    # The task is stored under its own id, under another one, and on the bus; an event is in memory too.
    await memory.append("default", "trip", make_message("thought 1", id="e1", role="assistant"))
    await memory.append("default", "trip", make_message("What now?", id="now"))
    for event in (happened(1), happened(2), happened(2), asks()):
        bus.publish(event)
    sources = [MemoryContextSource(memory), MemoryContextSource(memory), EventBusContextSource(bus)]
    assert await texts(manager(*sources, EventBusContextSource(bus)), asks()) == [
        "thought 1",
        "thought 2",
        "What now?",
    ]
    await memory.delete_message("default", "trip", "now")
    await memory.append("default", "trip", make_message("What now?", id="m9"))
    assert await texts(manager(MemoryContextSource(memory)), asks()) == ["thought 1", "What now?"]


async def test_mail_is_sorted_shown_to_its_target_and_not_once_it_has_expired() -> None:
    bus, clock = EventBus(), StoppedClock()
    for event in (
        direct(1),
        direct(2, priority=0.9),
        direct(3, ttl_seconds=10),
        direct(4, priority="high"),
        happened(5, "node.message", target_agent="eve", parameters={"content": "mail 5"}),
        happened(
            6, "node.message", target_agent="x", parameters={"content": "mail 6", "target_node_id": "ben"}
        ),
    ):
        bus.publish(event)
    built = manager(EventBusContextSource(bus, clock=clock))
    *mail, asked = await texts(built, asks())
    assert [text.splitlines()[2] for text in mail] == ["mail 2", "mail 1", "mail 3", "mail 6"]
    assert asked == "What now?"
    clock.advance(13)
    assert "mail 3" not in " ".join(await texts(built, asks()))
    # Whoever does not say who they are reads nobody's mail.
    assert await texts(built, asks(target_agent="")) == ["What now?"]


async def test_mail_that_was_answered_is_in_the_history_and_not_shown_again(memory: Memory) -> None:
    ben = memory.for_agent("ben")
    sent = DirectMessage(source_agent="ana", target_agent="ben", content="Mind the gap.", id="d1")
    await Mailbox(memory).send(sent, scope="default", conversation="trip")
    built = manager(MemoryContextSource(ben))
    context = await built.compose(asks())
    assert [report.name for report in context.sections if report.messages] == [
        "direct_messages",
        "conversation_history",
    ]
    await built.deliver(asks(), context)
    again = await built.compose(asks())
    assert [report.name for report in again.sections if report.messages] == ["memory", "conversation_history"]
    assert [message.text for message in again.messages] == [message.text for message in context.messages]


async def test_stored_calls_parts_and_results_become_plain_text(memory: Memory) -> None:
    await memory.append(
        "default",
        "trip",
        {"role": "user", "content": [{"type": "text", "text": "Look"}]},
        Message("assistant", "I look.", tool_calls=[ToolCall("c1", "look", '{"at": "sea"}')]),
        Message("tool", "the sea " * 100, tool_call_id="c1"),
        {"role": "assistant", "content": "Blue."},
    )
    built = await manager(MemoryContextSource(memory)).build_context(asks())
    assert [message["content"] for message in built] == [
        "Look",
        'I look.\n[Calling look({"at": "sea"})]',
        "Blue.",
        "What now?",
    ]
    assert all(set(message) == {"role", "content"} for message in built)


# -- within a budget ----------------------------------------------------------------------------------


async def test_a_small_budget_keeps_the_system_prompt_the_newest_and_the_task() -> None:
    memory, counter = Memory(), TokenCounter()
    await memory.append(
        "default", "trip", *[make_message(f"message {n} " + "word " * 20, id=f"m{n}") for n in range(40)]
    )
    built = manager(MemoryContextSource(memory), system_prompt="You help.", max_tokens=300)
    messages = await built.build_context(asks())
    assert counter.count_messages(messages) <= 300
    numbers = [int(one["content"].split()[1]) for one in messages[1:-1]]
    assert numbers == list(range(40 - len(numbers), 40))
    assert len(numbers) >= 4
    assert (messages[0]["content"], messages[-1]["content"]) == ("You help.", "What now?")


@pytest.mark.parametrize("words", ["word " * 5000, "漢字" * 5000])
async def test_a_task_that_is_too_long_is_shortened_and_never_left_out(words: str) -> None:
    memory = Memory()
    await memory.append("default", "trip", *[make_message("earlier " * 20, id=f"m{n}") for n in range(10)])
    built = manager(MemoryContextSource(memory), system_prompt="You help.", max_tokens=400)
    messages = await built.build_context(asks(f"Begin {words} end."))
    assert TokenCounter().count_messages(messages) <= 400
    assert messages[-1]["role"] == "user"
    assert messages[-1]["content"].startswith("Begin")
    assert messages[-1]["content"].endswith("end.")
    assert "characters are not shown here" in messages[-1]["content"]


@given(st.integers(60, 600), st.integers(0, 12), st.integers(0, 12), st.integers(1, 400))
@few
def test_any_budget_is_met_or_refused_and_the_task_is_last(
    most: int, stored: int, events: int, length: int
) -> None:
    async def check() -> None:
        memory, bus = Memory(), EventBus()
        await memory.append("default", "trip", *[make_message("w " * 30, id=f"m{n}") for n in range(stored)])
        for number in range(events):
            bus.publish(direct(number) if number % 2 else happened(number))
        built = manager(
            MemoryContextSource(memory),
            EventBusContextSource(bus, clock=StoppedClock()),
            system_prompt="You help.",
            knowledge_base=Guide(),
            max_tokens=most,
        )
        messages = await built.build_context(asks("now " * length))
        assert TokenCounter().count_messages(messages) <= most
        assert messages[-1]["content"].startswith("now")
        assert messages[0]["content"] == "You help."

    anyio.run(check)


async def test_tools_count_towards_the_budget_and_too_long_a_prompt_is_refused() -> None:
    memory = Memory()
    await memory.append("default", "trip", *[make_message("word " * 20, id=f"m{n}") for n in range(20)])
    built = manager(MemoryContextSource(memory), max_tokens=500)
    without = await built.build_context(asks())
    beside = await built.build_context(asks(), tools=memory_tools(memory)[:1])
    assert len(beside) < len(without)
    with pytest.raises(BudgetExceeded, match="system_instructions"):
        await manager(system_prompt="word " * 500, max_tokens=100).build_context(asks())


# -- when something is wrong --------------------------------------------------------------------------


async def test_knowledge_or_a_bus_that_fails_costs_only_itself(memory: Memory) -> None:
    class Broken:
        def search(self, query: str, limit: int) -> Any:
            raise ConnectionError("away")

        async def events(self, session_id: str | None) -> Any:
            raise ConnectionError("away")

    await memory.append("default", "trip", make_message("Hello", id="m1"))
    broken = Broken()
    built = manager(MemoryContextSource(memory), EventBusContextSource(broken), knowledge_base=broken)
    context = await built.compose(asks())
    assert [message.text for message in context.messages] == ["Hello", "What now?"]
    failed = {report.name: report.reason for report in context.sections if report.status == "failed"}
    assert failed == {
        "knowledge": "could not be searched: ConnectionError: away",
        "events": "could not be read: ConnectionError",
    }


async def test_a_task_without_words_is_told_by_its_action_and_one_with_nothing_is_refused() -> None:
    built = manager()
    odd = Task(action="resize", parameters={"width": 3})
    assert await texts(built, odd) == ["resize(width=3)"]
    assert await texts(built, Task(action="plan", parameters={"subtask": "Pack."})) == ["Pack."]
    assert await texts(built, Task(action="resize", parameters={"width": 0})) == ["resize(width=0)"]
    for nothing in ({}, {"content": ""}, {"content": None, "subtask": ""}):
        with pytest.raises(InvalidMessage, match="content"):
            await built.build_context(Task(parameters=nothing))
    with pytest.raises(TypeError, match="dict is neither a task nor an event"):
        await built.build_context({"action": "execute", "parameters": {"content": "Pack."}})


def test_what_is_wrong_is_said_at_once() -> None:
    with pytest.raises(TypeError, match="EventBus is not a source"):
        manager(EventBus())
    for wrong_sources in (None, EventBusContextSource(EventBus())):
        with pytest.raises(TypeError, match="must be a list of sources"):
            TaskContextManager(TokenCounter(), wrong_sources)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="str is neither a task nor an event"):
        EventBus().publish("something happened")
    with pytest.raises(TypeError, match="get_messages_only"):
        MemoryContextSource(object())
    with pytest.raises(TypeError, match="events"):
        EventBusContextSource(object())
    with pytest.raises(ValueError, match="max_tokens"):
        manager(max_tokens=0)
    with pytest.raises(TypeError):
        manager(knowledge_base=object())
    with pytest.raises(ValueError, match="limit"):
        EventBus(0)
    for wrong in ({"task_id": 3}, {"parameters": {"x": object()}}, {"session_id": 3}, {"action": None}):
        with pytest.raises(InvalidMessage, match=next(iter(wrong))):
            Task(**wrong)


def test_a_bus_keeps_the_newest_and_an_id_once() -> None:
    bus = EventBus(limit=3)
    for number in (1, 2, 1, 3, 4):
        bus.publish(happened(number))
    assert [event.task_id for event in bus.events("trip")] == ["e1", "e3", "e4"]
    assert bus.events() == []
