"""Every documented example of contexts that needs no agent, with only the import lines changed.

Where the document leaves something out with an ellipsis or a name of the reader's own, it is filled in.
"""

# the examples import where they need a name
from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from autonomy_ctx import Message
from autonomy_ctx.containers import runtime as module
from autonomy_ctx.containers.runtime import Runtime, get_context


@pytest.fixture(autouse=True)
def _fresh_folder_and_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_default_runtime", Runtime())
    token = module._restored_runtime.set(None)
    yield
    module._restored_runtime.reset(token)


def test_basic_usage(capsys: pytest.CaptureFixture[str]) -> None:
    from autonomy_ctx.containers.runtime import get_context

    # Get or create a context
    ctx = get_context("main")  # Default context name

    # Add messages
    ctx.user("What is 2+2?")
    ctx.assistant("4")

    # Access messages
    print(f"Total messages: {len(ctx)}")
    for msg in ctx:
        print(f"{msg.role}: {msg.content}")

    assert capsys.readouterr().out == "Total messages: 2\nuser: What is 2+2?\nassistant: 4\n"


def test_message_types() -> None:
    ctx = get_context("main")
    search = {"id": "call_123", "type": "function", "function": {"name": "search", "arguments": "{}"}}

    # User messages
    ctx.user("Hello, world!")

    # Assistant (LLM) messages
    ctx.assistant("Hi there!")

    # Assistant with tool calls
    ctx.assistant("Let me search for that", tool_calls=[search])

    # Tool result messages
    ctx.tool(content='{"result": 42}', name="calculator", tool_call_id="call_123")

    # System messages (rare)
    ctx.system("You are a helpful assistant")

    assert [msg.role for msg in ctx] == ["user", "assistant", "assistant", "tool", "system"]
    assert ctx.messages[2].tool_calls[0].name == "search"
    assert ctx.messages[3].tool_call_id == "call_123"


def test_persistence(capsys: pytest.CaptureFixture[str]) -> None:
    from autonomy_ctx.containers.context import Context

    # Create persistent context with auto-save
    ctx = Context.from_file("conversation.json", keep_updated=True)

    # Any changes auto-save to disk
    ctx.user("Hello")  # Automatically written to conversation.json
    assert len(json.loads(Path("conversation.json").read_text())) == 1
    ctx.assistant("Hi there")  # Auto-saved

    # Later session - restore from disk
    ctx = Context.from_file("conversation.json")
    print(f"Restored {len(ctx)} messages")

    assert capsys.readouterr().out == "Restored 2 messages\n"


def test_manual_serialization() -> None:
    get_context("main").user("Hello")
    get_context("main").assistant(
        "", tool_calls=[{"id": "c", "function": {"name": "look", "arguments": "{}"}}]
    )

    # Save context
    ctx = get_context("main")
    with open("context.json", "w") as f:
        json.dump([msg.model_dump() for msg in ctx.messages], f)

    # Load context
    from autonomy_ctx import Message
    from autonomy_ctx.containers.context import Context

    with open("context.json") as f:
        messages = [Message(**msg) for msg in json.load(f)]
        ctx = Context(messages=messages)

    assert list(ctx) == list(get_context("main"))
    assert list(Context.from_file("context.json")) == list(ctx)


def test_multiple_contexts() -> None:
    # Separate contexts for different tasks
    main_ctx = get_context("main")
    analysis_ctx = get_context("analysis")
    debug_ctx = get_context("debug")

    # Each maintains independent history
    main_ctx.user("Solve problem A")
    analysis_ctx.user("Analyze data B")

    assert [len(ctx) for ctx in (main_ctx, analysis_ctx, debug_ctx)] == [1, 1, 0]


def test_clearing_context() -> None:
    get_context("main").user("Hello")

    ctx = get_context("main")
    ctx.clear()  # Remove all messages

    assert len(get_context("main")) == 0


def test_context_isolation() -> None:
    from autonomy_ctx.containers.runtime import Runtime

    # Each runtime has independent contexts
    runtime1 = Runtime()
    runtime2 = Runtime()

    with runtime1:
        ctx = get_context("main")  # runtime1's main context
    first = ctx

    with runtime2:
        ctx = get_context("main")  # runtime2's main context (different!)

    assert ctx is not first


def test_compaction() -> None:
    from autonomy_ctx.containers.context import Context
    from autonomy_ctx.containers.runtime import Runtime
    from autonomy_ctx.containers.strategies import TruncateOldest

    # Compact context by removing old messages
    runtime = Runtime(compact=TruncateOldest(max_messages=100))
    for number in range(150):
        runtime.get_context("main").user(str(number))
    assert len(runtime.CTX["main"]) == 100

    # Or implement custom strategy
    from autonomy_ctx.containers.strategies import Compact

    class SummarizeOldest(Compact):
        def compact(self, contexts: dict[str, Context]) -> dict[str, Context]:
            for name, ctx in contexts.items():
                if len(ctx) > 50:
                    # Summarize and keep recent messages
                    summary = Message("system", f"{len(ctx) - 49} messages of {name}")
                    ctx.messages = [summary, *ctx.messages[-49:]]
            return contexts

    runtime = Runtime(compact=SummarizeOldest())
    for number in range(60):
        runtime.get_context("main").user(str(number))
    assert len(runtime.CTX["main"]) == 50
    assert runtime.CTX["main"][0].text == "2 messages of main"


def test_runtime_persistence() -> None:
    from autonomy_ctx.containers.runtime import Runtime

    # Create persistent runtime
    runtime = Runtime.from_file("runtime.json", keep_updated=True)

    # All context changes auto-save
    with runtime:
        ctx = get_context("main")
        ctx.user("Hello")  # Triggers save to runtime.json

    assert json.loads(Path("runtime.json").read_text())["contexts"]["main"][0]["content"] == "Hello"

    # Later - restore runtime with all contexts
    runtime = Runtime.from_file("runtime.json")
    ctx = get_context("main")  # Restored with all messages

    assert ctx is runtime.CTX["main"]
    assert [msg.content for msg in ctx] == ["Hello"]


def test_context_labels() -> None:
    from autonomy_ctx.containers.runtime import get_runtime, new_context

    runtime = get_runtime()
    get_context("main").user("main")

    # Create auto-named contexts
    attempt_ctx = new_context("attempt")  # Creates "attempt_a"
    attempt_ctx2 = new_context("attempt")  # Creates "attempt_b"
    intermediate = new_context("intermediate")  # Creates "intermediate_a"
    assert list(runtime.CTX) == ["main", "attempt_a", "attempt_b", "intermediate_a"]
    attempt_ctx.user("a")
    attempt_ctx2.user("b")
    intermediate.user("i")

    # Get full context history across all labels
    all_messages = runtime.get_full_context()  # All contexts, sorted by timestamp

    # Get specific labels
    main_only = runtime.get_full_context("main")  # Just main context
    attempts = runtime.get_full_context("attempt")  # All attempt_* contexts
    combined = runtime.get_full_context(["main", "intermediate"])  # Multiple labels

    assert [msg.content for msg in all_messages] == ["main", "a", "b", "i"]
    assert [msg.content for msg in main_only] == ["main"]
    assert [msg.content for msg in attempts] == ["a", "b"]
    assert [msg.content for msg in combined] == ["main", "i"]


def test_message_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    ctx = get_context("main")
    ctx.user("Hello")

    msg = ctx.messages[-1]
    print(msg.timestamp)  # datetime object
    print(msg.message_id)  # Unique UUID
    print(msg.role)  # "user"
    print(msg.content)  # "Hello"

    assert capsys.readouterr().out.splitlines() == [str(msg.created_at), msg.id, "user", "Hello"]


def test_full_context_retrieval() -> None:
    from autonomy_ctx.containers.runtime import get_runtime

    some_time = get_context("main").user("before").timestamp
    get_context("analysis").assistant("after")

    runtime = get_runtime()

    # Get all messages from all contexts, deduplicated and sorted
    all_msgs = runtime.get_full_context()

    # Filter by time
    recent = [m for m in all_msgs if m.timestamp > some_time]

    # Group by role
    by_role: dict[str, list[Message]] = {}
    for msg in all_msgs:
        by_role.setdefault(msg.role, []).append(msg)

    assert [msg.content for msg in recent] == ["after"]
    assert list(by_role) == ["user", "assistant"]


def test_observability(capsys: pytest.CaptureFixture[str]) -> None:
    from autonomy_ctx.containers.runtime import get_runtime

    get_context("main").user("Hello")
    get_context("main").assistant("Hi")

    runtime = get_runtime()

    # Access all contexts
    for name, ctx in runtime.CTX.items():
        print(f"Context '{name}': {len(ctx)} messages")

        # Filter by role
        user_msgs = [m for m in ctx if m.role == "user"]
        assistant_msgs = [m for m in ctx if m.role == "assistant"]
        tool_msgs = [m for m in ctx if m.role == "tool"]

        print(f"  User: {len(user_msgs)}")
        print(f"  Assistant: {len(assistant_msgs)}")
        print(f"  Tool: {len(tool_msgs)}")

    # Get full chronological history
    all_messages = runtime.get_full_context()
    print(f"Total messages across all contexts: {len(all_messages)}")

    # Inspect specific context types
    main_messages = runtime.get_full_context("main")
    attempt_messages = runtime.get_full_context("attempt")
    print(f"Main: {len(main_messages)}, Attempts: {len(attempt_messages)}")

    assert capsys.readouterr().out.splitlines() == [
        "Context 'main': 2 messages",
        "  User: 1",
        "  Assistant: 1",
        "  Tool: 0",
        "Total messages across all contexts: 2",
        "Main: 2, Attempts: 0",
    ]


def test_best_practices() -> None:
    get_context("analysis").user("Analyze data")
    get_context("debug").user("Debug error")
    assert len(get_context("analysis")) == len(get_context("debug")) == 1

    # For critical sessions
    from autonomy_ctx.containers.context import Context

    ctx = Context.from_file("important.json", keep_updated=True)
    assert Path("important.json").exists()

    # For throwaway sessions
    from autonomy_ctx.containers.runtime import no_context

    ctx = no_context()  # Won't be saved
    ctx.user("secret")

    from autonomy_ctx.containers.strategies import TruncateOldest

    ctx = get_context("main")
    ctx.extend(Message("user", str(number)) for number in range(200))
    runtime = Runtime(compact=TruncateOldest(max_messages=100))
    if len(ctx) > 100:
        # Consider compaction or summarization
        assert runtime.compact
        runtime.compact.compact({"main": ctx})
    assert len(ctx) == 100
