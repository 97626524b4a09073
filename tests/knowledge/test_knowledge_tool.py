"""A knowledge base as a tool: a plain function that agents take, and a tool made of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from knowledge.bases import CountsTopics, Gives

from autonomy_ctx.errors import InvalidPassage
from autonomy_ctx.knowledge import (
    FusedKnowledge,
    InProcessVectorStore,
    Passage,
    TextKnowledge,
    VectorKnowledgeBase,
)
from autonomy_ctx.tools import knowledge_tool
from autonomy_ctx.tools.tool import tools_by_name

MADE: dict[str, Callable[[], Any]] = {
    "text": TextKnowledge,
    "vector": lambda: VectorKnowledgeBase(CountsTopics(), InProcessVectorStore()),
    "fused": lambda: FusedKnowledge(Gives([Passage("The ferry leaves at noon.", source="ferry.md")])),
}


@pytest.mark.parametrize("kind", MADE)
async def test_every_base_becomes_a_tool_that_shows_passages_with_their_sources(kind: str) -> None:
    base = MADE[kind]()
    if kind != "fused":
        await base.add("The ferry leaves at noon.", source="ferry.md")
    function = base.as_tool(top_k=2)
    [tool] = tools_by_name([function]).values()
    assert tool.spec == knowledge_tool(base).spec
    assert tool.name == "search_knowledge"
    assert list(tool.spec["parameters"]["properties"]) == ["query"]
    assert tool.spec["parameters"]["properties"]["query"]["description"].startswith("What to look for")
    found = await function("When does the ferry leave?")
    assert "source: ferry.md\nThe ferry leaves at noon.\n</passage" in found
    if kind == "text":
        await base.close()


async def test_name_and_description_are_the_users() -> None:
    base = Gives(["one"])
    tool = knowledge_tool(base, name="look_up", description="Looks up trips.\nIn all guides.", top_k=3)
    assert (tool.name, tool.description) == ("look_up", "Looks up trips. In all guides.")
    assert "one" in await tool("where?")
    assert base.asked == [("where?", 3)]
    assert inspect.iscoroutinefunction(tool.function)


async def test_nothing_found_is_said_and_garbage_is_an_error() -> None:
    assert (await knowledge_tool(Gives([]))("x")).startswith("Nothing was found")
    with pytest.raises(InvalidPassage, match="result 1 of the search is int"):
        await knowledge_tool(Gives([7]))("x")
    with pytest.raises(InvalidPassage, match="the search returned NoneType"):
        await knowledge_tool(Gives(None))("x")


def test_wrong_arguments_are_said_at_once() -> None:
    with pytest.raises(TypeError, match="TextKnowledge is not a knowledge base"):
        knowledge_tool(TextKnowledge)
    with pytest.raises(ValueError, match="top_k must be >= 1, not 0"):
        knowledge_tool(Gives([]), top_k=0)
