"""Schemas of a summary: what one may say, and what an error tells of one that may not be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autonomy_ctx import ContextSummaryConfig, SchemaSection, SummarySchema
from autonomy_ctx.compaction.config import read_config, resolve_settings
from autonomy_ctx.compaction.schema import MAX_SECTIONS, READY_SCHEMAS, read_schema

GOAL: dict[str, Any] = {"name": "Goal", "description": "what is wanted", "share": 0.5}


def section(**changes: Any) -> dict[str, Any]:
    return {**GOAL, **changes}


@pytest.mark.parametrize("name", ["coding", "support", "voice"])
def test_a_ready_schema_is_named(name: str) -> None:
    config = ContextSummaryConfig(schema=name)
    assert config.schema is READY_SCHEMAS[name]
    assert config.schema.default_section.update == "rewrite"
    updates = {one.update for one in config.schema.sections}
    assert updates == {"rewrite", "append", "replace"}


def test_a_schema_is_given_in_four_ways() -> None:
    made = SummarySchema("custom", [SchemaSection("Goal", "what is wanted", 0.5)])
    assert read_schema(made) is made
    assert read_schema([GOAL]) == made
    assert read_schema({"name": "custom", "sections": [GOAL]}) == made
    assert read_schema({"sections": [SchemaSection(**GOAL)]}) == made
    assert read_schema(None) is None


def test_a_schema_is_data() -> None:
    for schema in READY_SCHEMAS.values():
        assert read_schema(json.loads(json.dumps(schema.to_dict()))) == schema


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": ""}, "one line"),
        ({"name": " Goal"}, "without spaces"),
        ({"name": "Goal\nNext"}, "one line"),
        ({"name": "x" * 61}, "1 to 60 characters"),
        ({"name": "## Goal"}, "has '#' in it"),
        ({"name": "Goal: what"}, "has ':' in it"),
        ({"name": "- Goal"}, "does not read as a heading"),
        ({"name": "42"}, "does not read as a heading"),
        ({"name": "Facts"}, "another part of a summary"),
        ({"name": "Also  named"}, "another part of a summary"),
        ({"description": ""}, "the description of 'Goal' must be one line"),
        ({"description": "a\nb"}, "one line"),
        ({"share": 0}, "above 0"),
        ({"share": -0.1}, "above 0"),
        ({"share": 1.1}, "<= 1"),
        ({"share": float("nan")}, "finite"),
        ({"update": "merge"}, "rewrite, append or replace"),
        ({"kinds": ["goals"]}, "goal, rule"),
        ({"tokens": 10}, "does not know tokens"),
    ],
)
def test_a_bad_section_is_met_with_a_sentence(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ContextSummaryConfig(schema=[section(**changes)])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("cooking", "there are coding, support, voice"),
        ([], "has 0 sections"),
        ([section(name=f"Part {chr(65 + at)}", share=0.01) for at in range(MAX_SECTIONS + 1)], "1 to 12"),
        ([GOAL, section(name="GOAL", share=0.1)], "two sections"),
        ([section(share=0.6), section(name="Next", share=0.6)], "1.20 together"),
        ([{"name": "Goal"}], "lacks description, share"),
        ({"name": "mine"}, "a name and sections"),
        ({"sections": [GOAL], "size": 3}, "not size"),
    ],
)
def test_a_bad_schema_is_met_with_a_sentence(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_schema(value)


@pytest.mark.parametrize("value", [3, {"sections": "Goal"}, [3], [section(share="much")], [section(name=3)]])
def test_what_is_no_schema_at_all_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        read_schema(value)


def test_tenths_that_make_a_whole_are_not_too_much() -> None:
    schema = SummarySchema("ten", [SchemaSection(f"Part {chr(65 + at)}", "x", 0.1) for at in range(10)])
    assert [section.share for section in schema.sections] == [0.1] * 10


def test_a_summary_must_have_room_for_its_sections() -> None:
    with pytest.raises(
        ValueError, match="too small for the 6 sections of the schema 'coding'; give at least 384"
    ):
        ContextSummaryConfig(schema="coding", size=383)
    ContextSummaryConfig(schema="coding", size=384)
    assert ContextSummaryConfig(schema="coding", hard_limit_tokens=1_000).size == 384


def test_a_schema_is_part_of_what_tells_configurations_apart() -> None:
    plain, coding, voice = (
        resolve_settings(ContextSummaryConfig(schema=schema)).fingerprint()
        for schema in (None, "coding", "voice")
    )
    assert len({plain, coding, voice}) == 3
    # What is owed under a configuration of before stays owed under the same name.
    assert plain == "3e96bd8874de76ce"


def test_an_argument_of_an_agent_may_name_a_schema() -> None:
    config = read_config({"schema": "voice"})
    assert config is not None
    assert config.schema is READY_SCHEMAS["voice"]
