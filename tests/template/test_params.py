"""`params` is a dict for users: their sections share it, and the context gives back what they wrote."""

from __future__ import annotations

import gc
import json
from typing import Any
from weakref import ref

import pytest
from own_sections import Does, Says

from autonomy_ctx import (
    Agent,
    ContextItem,
    ContextQueue,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    QueueSection,
    RecallSection,
)
from autonomy_ctx.sections import ContributingSection, Contribution
from autonomy_ctx.sections.section import Params
from autonomy_ctx.testing import ScriptedModel


def writes(**values: Any) -> Does:
    def write(params: dict[str, Any]) -> list[Any]:
        params.update(values)
        return []

    return Does("writes", write)


def reads(name: str, into: list[Any]) -> Does:
    def read(params: dict[str, Any]) -> list[Any]:
        into.append(params)
        return []

    return Does(name, read)


async def test_a_context_gives_back_what_its_sections_wrote() -> None:
    given = {"language": "Portuguese"}
    context = await ContextTemplate([writes(found=3)]).compose(Memory(), "ana", "trip", given)
    assert context.params == {"language": "Portuguese", "found": 3}
    assert given == {"language": "Portuguese"}
    assert (await ContextTemplate([]).compose(Memory(), "ana", "trip")).params == {}


async def test_what_a_context_gives_back_cannot_be_changed() -> None:
    kept: list[dict[str, Any]] = []
    template = ContextTemplate([reads("keeps", kept)])
    context = await template.compose(Memory(), "ana", "trip", {"a": 1})
    kept[0]["a"] = 2
    assert context.params == {"a": 1}
    with pytest.raises(TypeError):
        context.params["a"] = 3  # type: ignore[index]


async def test_params_are_a_dict_that_sections_may_treat_as_one() -> None:
    found: list[Any] = []
    template = ContextTemplate([reads("reads", found)])
    await template.compose(Memory(), "ana", "trip", {"a": [1]})
    params = found[0]
    assert isinstance(params, dict)
    assert json.loads(json.dumps(params)) == params == {"a": [1]}
    assert params | {"b": 2} == {"a": [1], "b": 2}


async def test_an_agent_puts_nothing_of_its_own_among_the_params() -> None:
    found: list[dict[str, Any]] = []
    queue = ContextQueue(limit=3)
    await queue.append(ContextItem("from the queue"))
    template = ContextTemplate(
        [
            reads("reads", found),
            QueueSection(),
            ConversationHistorySection(),
        ]
    )
    model = ScriptedModel("ok")
    async with Agent("helper", model=model, context_template=template, context_queue=queue) as agent:
        await agent.send("Hello", params={"plan": "gold"})
    assert found == [{"plan": "gold", "conversation_message_count": 1}]
    assert "from the queue" in str(model.calls[0].messages)


async def test_an_agent_lets_go_of_the_params_after_the_turn() -> None:
    class Request:
        """Something large that belongs to one turn."""

    request = Request()
    gone = ref(request)
    async with Agent("helper", model=ScriptedModel("ok")) as agent:
        await agent.send("Hello", params={"request": request})
        del request
        gc.collect()
        assert gone() is None


async def test_a_template_inside_a_section_sees_the_items_and_keeps_its_own_params() -> None:
    class Inner:
        name, enabled = "inner", True

        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
            template = ContextTemplate([writes(inner=True), QueueSection()])
            inner = await template.compose(memory, scope, conversation, params)
            assert inner.params == {"outer": True, "inner": True}
            return inner.messages

    outer: list[Any] = []
    queue = ContextQueue(limit=3)
    await queue.append(ContextItem("from the queue"))
    template = ContextTemplate(
        [
            writes(outer=True),
            Inner(),
            reads("after", outer),
            ConversationHistorySection(),
        ]
    )
    model = ScriptedModel("ok")
    async with Agent("helper", model=model, context_template=template, context_queue=queue) as agent:
        await agent.send("Hello")
    assert outer == [{"outer": True, "conversation_message_count": 1}]
    assert "from the queue" in str(model.calls[0].messages)


class LastTwo(ContributingSection):
    """A history of one's own that says where its messages come from."""

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        _, entries = await memory.read(scope, conversation, limit=2)
        return Contribution([entry.message for entry in entries], [entry.position for entry in entries])


class Polite(ConversationHistorySection):
    """A history that changes the dicts of the one it inherits from."""

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Params) -> Any:
        return [*await super().get_messages(memory, scope, conversation, params)]


@pytest.mark.parametrize(
    "history", [LastTwo("conversation_history"), Polite(max_messages=2)], ids=["contributes", "overrides"]
)
async def test_recall_leaves_out_what_any_section_before_it_shows(history: Any) -> None:
    memory = Memory()
    for text in ("The hotel in Riga is full.", "The hotel in Riga is dear.", "Which hotel in Riga?"):
        await memory.append("ana", "trip", Message("user", text))
    template = ContextTemplate([Says("first"), history, RecallSection()])
    context = await template.compose(memory, "ana", "trip")
    assert "is full" in context.messages[-1].text
    assert "is dear" not in context.messages[-1].text
