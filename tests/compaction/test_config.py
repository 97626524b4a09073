"""What `context_summary` may say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import some
from summary_models import HeldModel, ScriptedModel

from autonomy_ctx import ContextSummaryConfig, SummarizedHistorySection, create_default_template
from autonomy_ctx.compaction.config import read_config, resolve_settings


@pytest.mark.parametrize("value", [None, False])
def test_nothing_asked_for_is_no_configuration(value: bool | None) -> None:
    assert read_config(value) is None


def test_true_and_an_empty_dict_mean_the_defaults() -> None:
    model = ScriptedModel()
    assert read_config(True, model=model) == read_config({}, model=model) == ContextSummaryConfig(model=model)


def test_the_summary_model_may_be_another_one_or_none() -> None:
    own, other = ScriptedModel(), ScriptedModel()
    assert getattr(read_config({}, model=own), "model", None) is own
    assert getattr(read_config({"model": other}, model=own), "model", None) is other
    assert getattr(read_config({"model": None}, model=own), "model", own) is None
    made = read_config(ContextSummaryConfig(ceiling=8), model=own)
    assert made is not None
    assert (made.model, made.floor, made.ceiling, made.hard_limit) == (own, 4, 8, 16)


@some
@given(st.none() | st.integers(1, 500), st.none() | st.integers(2, 500))
def test_any_floor_and_ceiling_are_completed_or_refused(floor: int | None, ceiling: int | None) -> None:
    if floor is not None and ceiling is not None and floor >= ceiling:
        with pytest.raises(ValueError, match="must be less than ceiling"):
            ContextSummaryConfig(floor=floor, ceiling=ceiling)
        return
    made = ContextSummaryConfig(floor=floor, ceiling=ceiling)
    assert floor in (None, made.floor)
    assert ceiling in (None, made.ceiling)
    assert 1 <= made.floor < made.ceiling < made.hard_limit
    assert made.batch_size == made.ceiling - made.floor


def test_fractions_are_of_the_readers_window() -> None:
    config = ContextSummaryConfig(floor_tokens=0.1, ceiling_tokens=0.25, hard_limit_tokens=0.5)
    limits = resolve_settings(config, 100_000).limits
    assert (limits.floor_tokens, limits.ceiling_tokens, limits.hard_tokens) == (10_000, 25_000, 50_000)
    with pytest.raises(ValueError, match="context window is not known"):
        resolve_settings(config, None)


def test_the_default_template_bounds_the_history_by_the_readers_window() -> None:
    template = create_default_template("x", context_summary=True, model=HeldModel(context_window=100_000))
    section = template.get_section("conversation_history")
    assert isinstance(section, SummarizedHistorySection)
    assert section.config.hard_limit_tokens == 0.75
    small = create_default_template("x", context_summary=True, model=HeldModel(context_window=3000))
    section = small.get_section("conversation_history")
    assert isinstance(section, SummarizedHistorySection)
    assert section.config.hard_limit_tokens is None


def test_a_section_of_a_configuration_has_all_of_it() -> None:
    config = ContextSummaryConfig(
        floor=3,
        ceiling=7,
        size=300,
        model=ScriptedModel(),
        instructions="keep names",
        hard_limit=9,
        hard_limit_tokens=900,
        timeout=5,
        lead=True,
        parallel=2,
        pin_tokens=50,
    )
    assert SummarizedHistorySection.of(config).config == config


def test_configurations_that_summarize_differently_have_different_fingerprints() -> None:
    made = [
        resolve_settings(ContextSummaryConfig()),
        resolve_settings(ContextSummaryConfig(ceiling=30)),
        resolve_settings(ContextSummaryConfig(size=300)),
        resolve_settings(ContextSummaryConfig(instructions="keep names")),
        resolve_settings(ContextSummaryConfig(model=ScriptedModel())),
        resolve_settings(ContextSummaryConfig(model=HeldModel())),
    ]
    assert len({one.fingerprint() for one in made}) == len(made)
    assert resolve_settings(ContextSummaryConfig()).fingerprint() == made[0].fingerprint()
