"""`context_summary="auto"`: limits from the model's context window and price."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summary_models import ScriptedModel

from autonomy_ctx import (
    Agent,
    ContextSummaryConfig,
    Memory,
    Message,
    Node,
    SummarizedHistorySection,
    create_default_template,
)
from autonomy_ctx.compaction.config import choose_limits, read_config, resolve_settings
from autonomy_ctx.engine import ContextEngine
from autonomy_ctx.models.catalog import PRICES
from autonomy_ctx.tokens import Price

once = pytest.mark.parametrize("anyio_backend", ["asyncio"])
prices = st.none() | st.builds(
    Price,
    input=st.floats(0, 100),
    output=st.floats(0, 100),
    cached_input=st.floats(0, 100),
    cache_write=st.floats(0, 100),
)


class SizedModel(ScriptedModel):
    """A model whose name and context window may change, as when an agent gets another one."""

    def __init__(self, window: int | None, name: str = "unheard-of") -> None:
        super().__init__("a short summary")
        self.context_window, self.name = window, name


# -- what is chosen -----------------------------------------------------------------------------------


@given(window=st.none() | st.integers(2_000, 2_000_000), price=prices)
def test_whatever_is_chosen_is_valid_and_within_the_window(window: int | None, price: Price | None) -> None:
    chosen = choose_limits(window, price)
    assert chosen.size >= 128
    tokens = (chosen.floor_tokens, chosen.ceiling_tokens, chosen.hard_tokens)
    if window is None:
        assert tokens == (None, None, None)
        return
    floor_tokens, ceiling_tokens, hard_tokens = (one or 0 for one in tokens)
    assert 0 < floor_tokens < ceiling_tokens < hard_tokens < window
    assert 2 * chosen.size <= hard_tokens
    assert floor_tokens + chosen.size < ceiling_tokens


@given(
    window=st.none() | st.integers(1, 2_000_000),
    budget=st.none() | st.integers(200, 1_000_000),
    floor=st.none() | st.integers(1, 30),
    ceiling=st.none() | st.integers(31, 90),
    size=st.none() | st.integers(128, 900),
    name=st.sampled_from(["unheard-of", *PRICES]),
)
def test_it_goes_with_any_limit_that_is_given(
    window: int | None,
    budget: int | None,
    floor: int | None,
    ceiling: int | None,
    size: int | None,
    name: str,
) -> None:
    model = SizedModel(window, name)
    given_limits = {"floor": floor, "ceiling": ceiling, "size": size}
    config = read_config({"auto": True, **given_limits}, model=model)
    assert config is not None
    found = resolve_settings(config, window, reader=model, budget=budget, room=budget)
    limits = found.limits
    assert 1 <= limits.floor < limits.ceiling < limits.hard
    assert floor in (None, limits.floor)
    assert ceiling in (None, limits.ceiling)
    if size is not None and budget is None:
        assert found.size == size
    if window is not None and limits.hard_tokens is not None:
        assert found.size <= limits.hard_tokens < window
    # It is what it was when it is made again from its own fields.
    assert resolve_settings(replace(config), window, reader=model, budget=budget, room=budget) == found


def test_a_ceiling_below_the_usual_floor_has_a_floor_that_goes_with_it() -> None:
    limits = resolve_settings(ContextSummaryConfig(auto=True, ceiling=5)).limits
    assert (limits.floor, limits.ceiling) == (2, 5)


def test_it_says_what_it_chose_and_why() -> None:
    known = resolve_settings(ContextSummaryConfig(auto=True), 400_000, reader=SizedModel(400_000, "gpt-5"))
    assert known.note == (
        "auto writes a summary of up to 1,536 tokens when the messages before the last 6 have cost as much "
        "as it will: gpt-5 reads 400,000 tokens; a cached token costs 0.1 of an uncached one. To "
        "choose yourself, give floor, ceiling or size"
    )
    tier = resolve_settings(ContextSummaryConfig(auto=True), reader=SizedModel(None, "claude-haiku-5-5")).note
    assert "above 100,000 tokens all cost 5 times as much" in (tier or "")
    given_ceiling = resolve_settings(ContextSummaryConfig(auto=True, ceiling=40)).note or ""
    assert given_ceiling.startswith("auto keeps 6 to 40 messages and a summary of up to 1,536 tokens")
    unknown = resolve_settings(ContextSummaryConfig(auto=True), reader=SizedModel(None)).note or ""
    assert "the context window of unheard-of is not known" in unknown
    assert "its price is not known: a cached token costs 0.1 of an uncached one, as is usual" in unknown
    assert resolve_settings(ContextSummaryConfig()).note is None


def test_only_where_no_ceiling_is_given_does_the_cost_decide() -> None:
    assert resolve_settings(ContextSummaryConfig(auto=True)).costs is not None
    assert resolve_settings(ContextSummaryConfig(auto=True, floor=4)).costs is not None
    assert resolve_settings(ContextSummaryConfig(auto=True, ceiling=40)).costs is None
    assert resolve_settings(ContextSummaryConfig(auto=True, ceiling_tokens=9_000)).costs is None
    assert resolve_settings(ContextSummaryConfig()).costs is None


def test_the_life_of_the_cache_is_the_one_of_the_model_unless_it_is_given() -> None:
    def life(name: str, **options: Any) -> float:
        return resolve_settings(ContextSummaryConfig(**options), reader=SizedModel(None, name)).cache_seconds

    assert (life("claude-opus-5-5"), life("gpt-6.1-sol"), life("unheard-of")) == (300, 1800, 300)
    assert life("gpt-6.1-sol", cache_seconds=60.0) == 60


@pytest.mark.parametrize("wrong", ["automatic", "", "True"])
def test_another_word_is_refused_with_what_there_is(wrong: Any) -> None:
    with pytest.raises(ValueError, match='give "auto", True, False, a dict or a ContextSummaryConfig'):
        create_default_template("Help.", context_summary=wrong)


def test_auto_is_on_or_off() -> None:
    with pytest.raises(TypeError, match="auto is 'yes'; it must be True or False"):
        ContextSummaryConfig(auto="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="floor"):
        ContextSummaryConfig(auto=True, floor=5, ceiling=5)


# -- where it is used ---------------------------------------------------------------------------------


async def test_a_template_follows_the_window_and_the_name_of_its_model() -> None:
    model = SizedModel(400_000, "gpt-5")
    template = create_default_template("Help.", context_summary="auto", model=model)
    section = template.get_section("conversation_history")
    assert isinstance(section, SummarizedHistorySection)
    assert (section.floor, section.ceiling, section.size) == (6, 240, 1536)
    memory = Memory()
    await memory.append("ana", "trip", Message("user", "Hello"))
    model.context_window, model.name = 4_000, "gpt-4o"
    context = await template.compose(memory, "ana", "trip")
    assert (section.floor, section.ceiling, section.size) == (6, 240, 250)
    report = context.section("conversation_history")
    assert report is not None
    assert "gpt-4o reads 4,000 tokens" in (report.note or "")
    await template.close()


async def test_an_agent_explains_what_was_chosen() -> None:
    async with Node() as node:
        agent = await Agent.start(
            node=node, name="desk", instructions="Help.", model=SizedModel(128_000), context_summary="auto"
        )
        await agent.send("Hello")
        report = (await agent.explain()).section("conversation_history")
        assert report is not None
        assert "unheard-of reads 128,000 tokens" in (report.note or "")
        again = agent.to_dict()["options"]["context_summary"]
        assert again == "auto"


async def test_an_engine_takes_it() -> None:
    async with ContextEngine(memory=Memory(), scope="ana", context_summary="auto") as engine:
        section = engine.template.get_section("conversation_history")
        assert isinstance(section, SummarizedHistorySection)
        assert (section.floor, section.ceiling, section.size) == (6, 240, 1536)
