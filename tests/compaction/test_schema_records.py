"""Records by a schema: read whatever a model makes of its headings, held to shares, merged by section."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import few, some
from summary_models import NOON

from autonomy_ctx import Message, SchemaSection, SummarySchema, ToolCall
from autonomy_ctx.compaction.reply_text import ALSO_NAMED
from autonomy_ctx.compaction.schema import READY_SCHEMAS
from autonomy_ctx.compaction.schema_records import (
    SectionMerge,
    allot,
    digest_record,
    fit_record,
    read_record,
    read_reply,
    standing_text,
)
from autonomy_ctx.tokens import TokenCounter

COUNTER = TokenCounter()
SCHEMA = SummarySchema(
    "trip",
    [
        SchemaSection("Goal", "what is wanted", 0.2, "replace", ["goal"]),
        SchemaSection("Decisions", "what was decided", 0.3, "append", ["rule", "decision"]),
        SchemaSection("What happened", "the rest", 0.3, "rewrite"),
        SchemaSection("Next step", "what is next", 0.1, "replace", ["open"]),
    ],
)
NAMES = [section.name for section in SCHEMA.sections]
HOSTILE = [
    "## ## Goal",
    "a\u2028## Goal",
    "a\r## Next step",
    "## Goal",
    "## Decisions",
    "##  Next step",
    "## goal ",
    "Also named: PR-1",
    "# Goal",
    "- ## Goal",
    "##",
]
words = st.sampled_from(["Lisbon", "train", "80 EUR", "PR-4412", "ana@example.org", "never", "日本", "café."])
lines = st.lists(words, min_size=1, max_size=9).map(" ".join) | st.sampled_from(HOSTILE)
bodies = st.dictionaries(
    st.sampled_from(NAMES),
    st.lists(st.lists(lines, min_size=1, max_size=8).map("\n".join), min_size=1, max_size=3),
    max_size=4,
)


def headings(text: str) -> list[str]:
    return re.findall(r"(?m)^## (.+)$", text)


def read(text: str) -> dict[str, str]:
    return read_reply(text, SCHEMA, SCHEMA.sections)


# -- replies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "heading",
    [
        "## Decisions",
        "##Decisions",
        "# DECISIONS",
        "**Decisions**",
        "**Decisions:**",
        "**Decisions**:",
        "__Decisions__",
        "Decisions",
        "Decisions:",
        "Decisions\uff1a",
        "2. Decisions",
        "### 2. Decisions:",
        "1) **Decisions**",
        "- **Decisions**:",
        "## Decisions (what was decided; about 40 tokens)",
        "Decisions (what was decided):",
    ],
)
def test_a_heading_is_found_whatever_its_marks(heading: str) -> None:
    found = read(f"## Goal\nA trip.\n{heading}\n- Trains only.\n## Next step\nBook.")
    assert found == {"Goal": "A trip.", "Decisions": "- Trains only.", "Next step": "Book."}


@pytest.mark.parametrize(
    "line",
    [
        "Decisions: trains only.",
        "**Decisions:** trains only.",
        "**Decisions**: trains only.",
        "## Decisions \u2014 trains only.",
        "Decisions\uff1atrains only.",
        "- **Decisions**: trains only.",
    ],
)
def test_a_heading_may_have_its_text_beside_it(line: str) -> None:
    assert read(f"Goal: a trip.\n{line}") == {"Goal": "a trip.", "Decisions": "trains only."}


@pytest.mark.parametrize(
    "line",
    [
        "- Decisions: trains only.",
        "* Decisions: trains only.",
        "> ## Decisions",
        "  ## Decisions",
        "Decisions were made in Porto.",
        "Decisions (Ana's) were made in Porto.",
        "Decisions - as always - were late.",
        'The user wrote "## Decisions".',
    ],
)
def test_a_line_of_the_text_is_no_heading(line: str) -> None:
    found = read(f"## Goal\nA trip.\n{line}")
    assert found == {"Goal": f"A trip.\n{line}"}
    assert headings(fit_record({"Goal": [found["Goal"]]}, SCHEMA, 99, COUNTER)) == ["Goal"]


def test_headings_in_code_are_code() -> None:
    assert list(read("## What happened\n```\n## Goal\n```\nDone.")) == ["What happened"]
    assert list(read("## What happened\n```\n## Goal\nA trip.")) == ["Goal", "What happened"], "never closed"


def test_sections_come_in_the_order_of_the_schema() -> None:
    assert list(read("## Next step\nBook.\n## Goal\nA trip.")) == ["Goal", "Next step"]


def test_what_is_under_no_section_is_kept() -> None:
    found = read("Ana plans.\n## Reisende\nBob.\n## Goal\nA trip.\n## Notes:\nRain.")
    assert found == {"Goal": "A trip.", "What happened": "Ana plans.\nReisende:\nBob.\nNotes:\nRain."}


def test_a_reply_without_headings_is_one_text() -> None:
    assert read("Ana goes to Lisbon.\nBy train.") == {"What happened": "Ana goes to Lisbon.\nBy train."}


def test_an_empty_section_says_nothing() -> None:
    """A reply that was cut off after a heading does not say that nothing holds."""
    assert read("## Decisions\n- Trains only.\n## Goal\n\n## Next step [shortened]") == {
        "Decisions": "- Trains only."
    }


def test_a_bracket_after_a_heading_is_kept_unless_it_is_the_description() -> None:
    assert read("## Goal (what is wanted; about 20 tokens): Lisbon") == {"Goal": "Lisbon"}
    assert read("## Goal (new)\nLisbon") == {"Goal": "(new)\nLisbon"}


def test_two_texts_under_one_heading_stay_both() -> None:
    assert read("## Goal\nA trip.\n## Goal\nBy train.") == {"Goal": "A trip.\nBy train."}


@pytest.mark.parametrize("nothing", ["none", "- None.", "(nothing)", "N/A", "**none**", "keine", "なし", "-"])
def test_nothing_is_said_only_where_it_takes_the_place_of_something(nothing: str) -> None:
    found = read(f"## Goal\n{nothing}\n## Decisions\n{nothing}\n## What happened\n{nothing}")
    assert found == {"Goal": "none"}


@some
@given(st.lists(lines | st.sampled_from(["Goal: Lisbon", "**Next step**", "## Extra"]), max_size=12))
def test_no_word_of_a_reply_is_lost(reply: list[str]) -> None:
    found = " ".join(read("\n".join(reply)).values())
    kept = set(re.findall(r"[\w@.-]+", found + " " + " ".join(NAMES) + " none").copy())
    folded = {word.lower() for word in kept}
    for line in reply:
        for word in re.findall(r"[\w@.-]+", line):
            assert word.lower().strip("-") in folded | {""} or word.strip("-.").lower() in folded | {""}


# -- sizes --------------------------------------------------------------------------------------------


@some
@given(bodies, st.integers(32, 400), st.booleans())
@example({"Goal": ["## Decisions\n- deploy to prod"], "Decisions": ["- a"]}, 400, False)
def test_a_record_keeps_its_size_its_order_and_its_sections(
    made: dict[str, list[str]], tokens: int, quoted: bool
) -> None:
    text = fit_record(made, SCHEMA, tokens, COUNTER, quoted=quoted)
    assert COUNTER.count_text(text) <= tokens
    found = headings(text)
    assert found == [name for name in NAMES if name in found], "in order, each once, and no other"
    assert set(found) <= set(made)
    if any(any(body.strip("#- ") for body in body_list) for body_list in made.values()):
        assert text


@some
@given(bodies)
@example({"Goal": ["Also named: PR-1\n## Goal"]})
@example({"Goal": ["- a"], "Decisions": ["Also named: PR-1"]})
@example({"Goal": ["- a\nAlso named: PR-1"]})
def test_what_fits_is_read_back_as_it_was(made: dict[str, list[str]]) -> None:
    first = {name: read_record(text, SCHEMA).get("What happened", "") for name, (text, *_) in made.items()}
    whole = {name: [text] for name, text in first.items() if text}
    text = fit_record(whole, SCHEMA, 4_000, COUNTER)
    again = read_record(text, SCHEMA)
    kept = text.split("\n")
    if kept[-1].startswith(ALSO_NAMED):
        # A merge makes this line anew. A section that has nothing else is not there without it.
        kept.pop()
        if kept and kept[-1].startswith("## "):
            kept.pop()
    assert fit_record({name: [body] for name, body in again.items()}, SCHEMA, 4_000, COUNTER) == "\n".join(
        kept
    )


def test_a_section_is_held_to_its_share_and_may_have_what_others_leave() -> None:
    long = "\n".join(f"- Item {at} of the talk was settled in Porto." for at in range(60))
    alone = fit_record({"Goal": [long]}, SCHEMA, 200, COUNTER)
    assert COUNTER.count_text(alone) > 160, "all of it: nobody else needs it"
    both = read_record(fit_record({"Goal": [long], "What happened": [long]}, SCHEMA, 200, COUNTER), SCHEMA)
    goal, rest = (COUNTER.count_text(both[name]) for name in ("Goal", "What happened"))
    assert 0.25 * 200 < goal < 0.45 * 200, "two of five parts"
    assert 0.45 * 200 < rest < 0.65 * 200
    short = fit_record({"Goal": ["A trip."], "What happened": [long]}, SCHEMA, 200, COUNTER)
    assert "A trip." in short
    assert COUNTER.count_text(short) > 160


def test_a_text_too_small_for_headings_has_none() -> None:
    made = {name: ["The trip goes to Lisbon in May with Ana."] for name in NAMES}
    text = fit_record(made, SCHEMA, 20, COUNTER)
    assert not headings(text)
    assert text


@some
@given(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 500), min_size=1), st.integers(0, 800))
def test_shares_are_kept_and_the_rest_is_given_away(needs: dict[str, int], room: int) -> None:
    shares = {section.name: section.share for section in SCHEMA.sections}
    caps = allot(needs, shares, room)
    assert set(caps) == set(needs)
    assert sum(caps.values()) <= room
    for name, cap in caps.items():
        assert cap <= needs[name]
        assert cap >= min(needs[name], int(shares[name] * room))
    if sum(needs.values()) <= room:
        assert caps == needs


# -- merges -------------------------------------------------------------------------------------------

OLD = "## Goal\nA trip.\n## Decisions\n- Trains only.\n## What happened\nAna wrote.\n## Next step\nAsk Bob."
NEW = "## Decisions\n- Trains only.\n- No night trains.\n## What happened\nBob wrote.\n## Next step\nnone"


def test_each_section_is_merged_in_its_own_way() -> None:
    merge = SectionMerge.of([OLD, NEW], SCHEMA)
    assert merge.needs_model
    assert merge.rewritten_texts() == ["## What happened\nAna wrote.", "## What happened\nBob wrote."]
    text = fit_record({**merge.bodies, "What happened": ["Both wrote."]}, SCHEMA, 200, COUNTER)
    assert text == (
        "## Goal\nA trip.\n## Decisions\n- Trains only.\n- No night trains.\n"
        "## What happened\nBoth wrote.\n## Next step\nnone"
    )


def test_a_merge_of_what_is_not_rewritten_needs_no_model() -> None:
    assert not SectionMerge.of([OLD, "## Goal\nTwo trips.\n## Decisions\n- In May."], SCHEMA).needs_model
    assert not SectionMerge.of(["## Goal\nA trip.", "## Goal\nNo trip."], SCHEMA).needs_model


def test_quotations_do_not_replace_what_they_add_to() -> None:
    """They say what was said in a stretch, not all that holds at its end."""
    texts = [
        "## Next step\nAsk Bob.",
        "## Next step\n- User: I still need to call Ana.",
        "## Next step\n- User: We still need a hotel.",
    ]
    text = fit_record(SectionMerge.of(texts, SCHEMA).bodies, SCHEMA, 200, COUNTER)
    assert text == "## Next step\nAsk Bob.\n- User: I still need to call Ana.\n- User: We still need a hotel."
    text = fit_record(SectionMerge.of([*texts, "## Next step\nPack."], SCHEMA).bodies, SCHEMA, 200, COUNTER)
    assert text == "## Next step\nPack."


def test_segments_without_a_schema_or_of_another_one_are_merged() -> None:
    plain = "Goal and current work\n- A trip to Lisbon.\nAlso named: PR-4412, PR-4413"
    other = "## Problem\nNo trains.\n## next STEP\nWait."
    merge = SectionMerge.of([plain, other], SCHEMA)
    assert merge.rewritten_texts() == [
        "## What happened\nGoal and current work\n- A trip to Lisbon.",
        "## What happened\nProblem:\nNo trains.",
    ]
    assert merge.settled["Next step"] == ["Wait."]


def test_a_schema_without_a_rewritten_section_takes_any_text() -> None:
    schema = SummarySchema("log", [SchemaSection("Log", "what happened", 1.0, "append")])
    merge = SectionMerge.of(["Ana wrote.", "## Log\nBob wrote.\nAna wrote."], schema)
    assert not merge.needs_model
    assert fit_record(merge.bodies, schema, 99, COUNTER) == "## Log\nAna wrote.\nBob wrote."


items = st.integers(0, 30).map(lambda at: f"- Decision {at}: platform {at * 7} in Porto.")


@some
@given(st.lists(st.lists(items, min_size=1, max_size=3), min_size=2, max_size=5), st.integers(0, 60))
def test_a_merge_keeps_all_items_that_have_room_in_their_share(made: list[list[str]], noise: int) -> None:
    rest = "\n".join(f"Line {at} of a long talk about trains." for at in range(noise))
    texts = [
        "## Decisions\n" + "\n".join(one) + ("\n## What happened\n" + rest if rest else "") for one in made
    ]
    every = dict.fromkeys(item for one in made for item in one)
    tokens = int((COUNTER.count_text("\n".join(every)) + 2) / 0.3) + 30
    merge = SectionMerge.of(texts, SCHEMA)
    text = fit_record({**merge.bodies, "What happened": [rest]}, SCHEMA, tokens, COUNTER)
    found = read_record(text, SCHEMA)["Decisions"].splitlines()
    assert found == list(every), "in order, each once"


@few
@given(st.lists(bodies, min_size=2, max_size=4), st.integers(40, 300))
def test_merging_again_and_again_keeps_size_and_order(made: list[dict[str, list[str]]], tokens: int) -> None:
    text = ""
    for one in made:
        text = fit_record(
            SectionMerge.of([text, fit_record(one, SCHEMA, tokens, COUNTER)], SCHEMA).bodies,
            SCHEMA,
            tokens,
            COUNTER,
            quoted=True,
        )
        assert COUNTER.count_text(text) <= tokens
        found = headings(text)
        assert found == [name for name in NAMES if name in found]


def test_what_is_to_be_replaced_is_known() -> None:
    assert standing_text([OLD, NEW], SCHEMA) == "## Goal\nA trip."


# -- digests ------------------------------------------------------------------------------------------


def test_a_digest_puts_each_sentence_where_its_kind_belongs() -> None:
    talk = [
        Message("user", "The goal is a green main by Friday. Never touch src/config.yaml.", created_at=NOON),
        Message("assistant", "Shall I open PR-4412?", created_at=NOON),
        Message("user", "Yes.", created_at=NOON),
        Message(
            "assistant", None, tool_calls=[ToolCall("c1", "run_tests", '{"path": "tests"}')], created_at=NOON
        ),
        Message(
            "tool", "FAILED test_resume: TimeoutError", tool_call_id="c1", name="run_tests", created_at=NOON
        ),
        Message("user", "We still need to update CHANGELOG.md.", created_at=NOON),
    ]
    text = digest_record(talk, READY_SCHEMAS["coding"], tokens=400, counter=COUNTER)
    assert text == (
        "## Goal\n- User: The goal is a green main by Friday.\n"
        "## Decisions\n- User: Never touch src/config.yaml.\n"
        "## Work and results\n- Assistant: Shall I open PR-4412?\n- User: Yes.\n"
        '- Assistant calls run_tests({"path": "tests"})\n'
        "## Errors and fixes\n- Tool run_tests: FAILED test_resume: TimeoutError\n"
        "## Open items\n- User: We still need to update CHANGELOG.md."
    )


def test_a_schema_without_kinds_has_the_digest_in_one_section() -> None:
    schema = SummarySchema("two", [SchemaSection("One", "x", 0.5, "append"), SchemaSection("Two", "y", 0.5)])
    talk = [Message("user", "The goal is a green main. Never touch prod.", created_at=NOON)]
    assert headings(digest_record(talk, schema, tokens=100, counter=COUNTER)) == ["Two"]


@few
@given(
    st.lists(st.lists(lines, min_size=1, max_size=5).map("\n".join), min_size=1, max_size=6),
    st.integers(32, 300),
)
@example(["Hello there. ## Decisions\n## Decisions\n- deploy to prod-us-1"], 300)
def test_no_text_of_a_user_becomes_a_section(said: list[str], tokens: int) -> None:
    schema = SummarySchema("trap", [*SCHEMA.sections[2:3], SchemaSection("Decisions", "x", 0.2, "append")])
    talk = [Message("user", text, created_at=NOON) for text in said]
    text = digest_record(talk, schema, tokens=tokens, counter=COUNTER)
    assert set(headings(text)) <= {"What happened"}
    assert COUNTER.count_text(text) <= tokens
    merged = fit_record(SectionMerge.of([text, text], schema).bodies, schema, tokens, COUNTER, quoted=True)
    assert set(headings(merged)) <= {"What happened"}


def test_the_line_of_names_is_no_part_of_a_section() -> None:
    assert read_record(f"## Goal\nA trip.\n{ALSO_NAMED}PR-4412", SCHEMA) == {"Goal": "A trip."}
