"""Nothing of one scope or conversation is ever seen in another, whatever they are called."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from agents.kit import call, calls, stored
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import few, names

from autonomy_ctx import ContextItem, ContextPool, ContextQueue, Memory, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.testing import ScriptedModel

# Names that a joined key, a pattern, a folder or a careless comparison would take for each other.
NASTY = [
    "",
    "a",
    "A",
    "a:b",
    "a/b",
    "a%",
    "a_",
    "b",
    ":",
    "/",
    "..",
    "\u00e9",
    "e\u0301",
    "default",
    " a",
    "a ",
]
some_names = st.sampled_from(NASTY) | names
places = st.tuples(some_names, some_names)


@tool
def note(text: str, scope: str, conversation: str) -> list[Any]:
    """Note something, with and without an id."""
    return [ContextItem(f"queued {text}"), ContextItem(f"pooled {text}", f"about {text}", "note")]


def script() -> ScriptedModel:
    """Every turn notes what the user said, reads it from the pool, and answers."""

    def answer(asked: Any) -> Any:
        last = asked.messages[-1]
        said = next(one for one in reversed(asked.messages) if one["role"] == "user")["content"]
        if last["role"] == "user":
            return calls(call("note", text=said))
        if last["name"] == "note":
            return calls(call("read_context_item", item_id="note"))
        return f"noted {said}"

    return ScriptedModel([answer])


def assert_apart(value: Any, foreign: str) -> None:
    assert foreign not in json.dumps(value, ensure_ascii=False, default=str)


@few
@given(st.lists(places, min_size=2, max_size=2, unique=True), st.booleans())
@example([("a", "b:c"), ("a:b", "c")], False)
@example([("default", "default"), ("default", "Default")], True)
@example([("", "ab"), ("a", "b")], True)
@pytest.mark.parametrize("url", [None, "sqlite"])
def test_no_byte_of_one_conversation_reaches_another(
    tmp_path_factory: pytest.TempPathFactory, url: str | None, pair: list[tuple[str, str]], trio: bool
) -> None:
    path = None if url is None else f"sqlite:///{tmp_path_factory.mktemp('pair')}/memory.db"

    async def check() -> None:
        model = script()
        async with Memory(path) as memory:
            agent = Agent("helper", tools=[note], model=model, memory=memory)
            secrets = dict(zip(pair, ("SECRET-ONE", "SECRET-TWO"), strict=True))
            for _ in range(2):
                for (scope, conversation), secret in secrets.items():
                    before = len(model.calls)
                    reply = await agent.send(secret, scope=scope, conversation=conversation)
                    assert reply.text == f"noted {secret}"
                    [foreign] = set(secrets.values()) - {secret}
                    for asked in model.calls[before:]:
                        assert secret in asked.prompt
                        assert_apart([asked.messages, asked.options], foreign)
            for (scope, conversation), secret in secrets.items():
                [foreign] = set(secrets.values()) - {secret}
                context = await agent.explain(scope=scope, conversation=conversation)
                assert_apart(context.to_dicts(), foreign)
                items = await agent._items.load(agent._key(scope, conversation))
                found = [item.to_dict() for item in (*items.queue, *items.pool)]
                assert len(found) == 3
                assert_apart(found, foreign)
                assert_apart(await agent.history(scope=scope, conversation=conversation), foreign)
            first, second = pair
            await agent.delete_conversation(scope=first[0], conversation=first[1])
            assert await stored(agent.memory, *first) == []
            assert len(await stored(agent.memory, *second)) == 12
            assert (await agent.explain(scope=second[0], conversation=second[1])).messages

    anyio.run(check, backend="trio" if trio else "asyncio")


async def test_other_conversations_begin_with_what_was_given_and_not_with_what_was_found(
    memory: Memory,
) -> None:
    queue, pool = ContextQueue(limit=5), ContextPool()
    await queue.append(ContextItem("for everybody"))
    await pool.add(ContextItem("rules", "the rules", "rules"))
    agent = Agent(
        "helper", tools=[note], model=script(), memory=memory, context_queue=queue, context_pool=pool
    )
    await agent.send("mine")
    await agent.send("yours", scope="bo")
    items = await agent._items.load(agent._key("bo", "default"))
    assert [item.content for item in items.queue] == ["for everybody", "queued yours"]
    assert [item.content for item in items.pool] == ["rules", "pooled yours"]
    assert [item.content for item in queue] == ["for everybody", "queued mine"]
    agent.context_pool = ContextPool()
    fresh = await agent._items.load(agent._key("cy", "default"))
    assert [item.content for item in fresh.queue] == ["for everybody"]
    assert list(fresh.pool) == []


async def test_a_pool_is_that_of_the_conversation_also_for_calls_made_at_once(memory: Memory) -> None:
    agent = Agent("helper", tools=[note], model=script(), memory=memory)
    async with anyio.create_task_group() as group:
        for number in range(12):

            async def send(number: int = number) -> None:
                scope, conversation = f"scope {number % 3}", f"conversation {number // 3}"
                reply = await agent.send(f"word-{number}-", scope=scope, conversation=conversation)
                assert reply.text == f"noted word-{number}-"
                history = await agent.history(scope=scope, conversation=conversation)
                assert all(
                    f"word-{number}-" in json.dumps(message) for message in history if message["content"]
                )

            group.start_soon(send)


async def test_more_conversations_than_are_held_at_once_keep_their_items(
    memory: Memory,
) -> None:
    agent = Agent("helper", tools=[note], model=script(), memory=memory)
    for number in range(300):
        await agent._items.load(agent._key("scope", f"other {number}"))
        if number == 0:
            await agent.send("early", scope="scope", conversation="first")
    assert len(agent._items._others) == 256
    items = await agent._items.load(agent._key("scope", "first"))
    assert [item.content for item in (*items.queue, *items.pool)] == ["queued early", "pooled early"]


async def test_agents_of_one_memory_have_conversations_of_their_own(memory: Memory) -> None:
    one = Agent("one", tools=[note], model=script(), memory=memory)
    two = Agent("two", tools=[note], model=script(), memory=memory)
    await one.send("SECRET-ONE")
    await two.send("hello")
    assert_apart(await two.history(), "SECRET-ONE")
    assert_apart((await two.explain()).to_dicts(), "SECRET-ONE")
    assert [item.content for item in two.context_pool] == ["pooled hello"]
