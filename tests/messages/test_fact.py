"""Facts as text: the lines a model writes, and the lines a model is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.messages.fact import (
    FACT_KINDS,
    MAX_FACT_CHARACTERS,
    STANDING_HEADING,
    Fact,
    FactKind,
    FactLine,
    FactSource,
    SplitReply,
    fact_line,
    fact_number,
    read_fact_line,
    render_facts,
    split_facts,
)
from autonomy_ctx.messages.token_estimate import estimate_tokens

AT = datetime(2026, 5, 3, 22, 30, tzinfo=UTC)


def make_fact(number: int, text: str, kind: str = "value", **fields: object) -> Fact:
    given_fields = {"position": number, "created_at": AT, **fields}
    return Fact(id=f"F{number}", kind=kind, text=text, **given_fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("+ rule: never deploy to prod-us-1", FactLine("add", "rule", "never deploy to prod-us-1", None)),
        ("~ F3 value: budget 9,200 EUR", FactLine("replace", "value", "budget 9,200 EUR", "F3")),
        ("x F4", FactLine("done", "value", "", "F4")),
        # What small models make of it.
        ("- + Rule: no mail", FactLine("add", "rule", "no mail", None)),
        ("* ~ f12 **decision**: use Postgres", FactLine("replace", "decision", "use Postgres", "F12")),
        ("~ [F2] open: call the hotel", FactLine("replace", "open", "call the hotel", "F2")),
        ("~ value: no id", FactLine("add", "value", "no id", None)),
        ("+ F7 goal: a number of its own", FactLine("add", "goal", "a number of its own", None)),
        ("x F4 done on Monday", FactLine("done", "value", "", "F4")),
        ("  +value:tight", FactLine("add", "value", "tight", None)),
        ("+ open: ask: now or later?", FactLine("add", "open", "ask: now or later?", None)),
        ("- rule: never on a Sunday", FactLine("add", "rule", "never on a Sunday", None)),
        ("* **Value:** 900 euros", FactLine("add", "value", "900 euros", None)),
    ],
)
def test_a_change_is_read_as_small_models_write_it(line: str, expected: FactLine) -> None:
    assert read_fact_line(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        "x F",
        "nothing changes",
        "+ wish: a pony",
        "+ rule:",
        "rule: no sign",
        "F3 value: x",
        "- none",
        "- never on a Sunday",
        "- Hotel: none yet",
    ],
)
def test_a_line_that_is_no_change_is_none(line: str) -> None:
    assert read_fact_line(line) is None


@pytest.mark.parametrize("heading", ["FACTS", "FACTS:", "## Facts", "**FACTS**", "**Facts:**", "  FACTS "])
def test_the_changes_stand_below_their_heading(heading: str) -> None:
    reply = f"Done\n- booked\n\n{heading}\n+ goal: see Lisbon\nchatter\nx F1\n"
    split = split_facts(reply)
    assert split.record == "Done\n- booked\nchatter"
    assert split.lines == [FactLine("add", "goal", "see Lisbon", None), FactLine("done", "value", "", "F1")]
    assert not split.is_unread


def test_a_reply_without_the_heading_says_nothing_of_facts() -> None:
    assert split_facts("The facts are:\n+ rule: x") == SplitReply("The facts are:\n+ rule: x")
    assert split_facts("Record\nFACTS") == SplitReply("Record", [])


@pytest.mark.parametrize(
    "line", ["none", "- None.", "No changes", "(nothing new)", "Keine Änderungen.", "なし"]
)
def test_a_line_that_says_that_nothing_changes_is_no_change(line: str) -> None:
    assert split_facts(f"Record\nFACTS\n{line}") == SplitReply("Record", [])


def test_what_is_no_change_goes_back_into_the_record() -> None:
    split = split_facts("Record\nFACTS\n- never on a Sunday\n```\nAna waits.\n")
    assert split == SplitReply("Record\n- never on a Sunday\nAna waits.", None, is_unread=True)


def test_a_reply_that_begins_with_the_heading_is_a_record_too() -> None:
    assert split_facts("Facts:\n- Lisbon in May\n- 900 euros") == SplitReply(
        "- Lisbon in May\n- 900 euros", None, is_unread=True
    )
    split = split_facts("FACTS\n+ goal: see Lisbon\nx F2\n- rule: never on a Sunday")
    assert split.record == "- goal: see Lisbon\n- rule: never on a Sunday"
    assert [line.kind for line in split.lines or ()] == ["goal", "value", "rule"]


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    _, lines, is_unread = split_facts(text)
    assert is_unread <= (lines is None)
    for line in lines or ():
        assert line.kind in FACT_KINDS
        assert len(line.text) <= MAX_FACT_CHARACTERS
        assert line.text.splitlines() in ([], [line.text])
        assert line.target is None or fact_number(line.target) is not None


def test_facts_are_shown_by_kind_and_within_it_the_newest_first() -> None:
    facts = [make_fact(2, "b"), make_fact(1, "a"), make_fact(3, "c", "rule"), make_fact(4, "d", state="done")]
    rendered = render_facts(facts, 100, estimate_tokens)
    assert rendered.text == f"{STANDING_HEADING}\nF3 rule: c\nF2 value: b\nF1 value: a\n"
    assert rendered.omitted == ()


def test_a_value_that_changed_names_what_it_was_and_until_when() -> None:
    old, new = make_fact(1, "budget 11,500", state="replaced"), make_fact(2, "budget 9,200", replaces="F1")
    assert (
        "F2 value: budget 9,200 (until 3 May 2026: budget 11,500)"
        in render_facts([old, new], 100, estimate_tokens).text
    )
    east = timezone(timedelta(hours=9))
    assert "until 4 May 2026" in render_facts([old, new], 100, estimate_tokens, east).text


def test_a_rule_that_changed_shows_only_the_one_that_holds() -> None:
    old, new = (
        make_fact(1, "reply in German", "rule", state="replaced"),
        make_fact(2, "reply in English", "rule", replaces="F1"),
    )
    assert render_facts([old, new], 100, estimate_tokens).text.splitlines()[1:] == [
        "F2 rule: reply in English"
    ]


@given(
    st.lists(st.tuples(st.sampled_from(FACT_KINDS), st.text(min_size=1, max_size=40)), max_size=30),
    st.integers(0, 300),
)
def test_facts_keep_their_room_and_what_has_none_is_named(said: list[tuple[str, str]], tokens: int) -> None:
    facts = [
        make_fact(at, " ".join(text.split()) or "x", kind) for at, (kind, text) in enumerate(said, start=1)
    ]
    rendered = render_facts(facts, tokens, estimate_tokens)
    assert not rendered.text or estimate_tokens(rendered.text) <= tokens + len(facts)
    shown = {line.split(" ")[0] for line in rendered.text.splitlines()[1:]}
    named = {fact.id for fact in rendered.omitted}
    assert shown | named >= {fact.id for fact in facts}
    assert not named & shown


@given(
    st.lists(st.tuples(st.sampled_from(FACT_KINDS), st.sampled_from(["user", "rules"])), max_size=30),
    st.integers(0, 300),
)
def test_a_lighter_fact_is_left_out_before_a_heavier_one_of_its_kind(
    said: list[tuple[FactKind, FactSource]], tokens: int
) -> None:
    facts = [
        make_fact(at, "the same words", kind, source=source) for at, (kind, source) in enumerate(said, 100)
    ]
    rendered = render_facts(facts, tokens, estimate_tokens)
    omitted = set(rendered.omitted)
    for fact in omitted:
        older = (
            one for one in facts if (one.kind, one.source) == (fact.kind, fact.source) and one.id < fact.id
        )
        assert omitted.issuperset(older)
        # Nothing is left out that has room.
        used = estimate_tokens(f"{STANDING_HEADING}\n")
        used += sum(estimate_tokens(f"{line}\n") for line in rendered.text.splitlines()[1:])
        assert used + estimate_tokens(f"{fact_line(fact)}\n") > tokens


def test_what_users_wrote_and_rules_stay_longest() -> None:
    facts = [
        make_fact(1, "the port is 8080"),
        make_fact(2, "a user's own value", source="user"),
        make_fact(3, "never on Fridays", "rule"),
        make_fact(4, "file a.py written", "artifact"),
    ]
    room = (
        estimate_tokens(f"{STANDING_HEADING}\nF3 rule: never on Fridays\nF2 value: a user's own value\n") + 2
    )
    assert [fact.id for fact in render_facts(facts, room, estimate_tokens).omitted] == ["F1", "F4"]


def test_of_thousands_of_facts_those_are_looked_at_that_may_have_room() -> None:
    facts = [make_fact(1, "what a user wrote", source="user")]
    facts += [make_fact(at, f"room {at} costs {at} euros") for at in range(2, 3_000)]
    looked_at: list[str] = []

    def count(line: str) -> int:
        looked_at.append(line)
        return estimate_tokens(line)

    rendered = render_facts(facts, 300, count)
    lines = rendered.text.splitlines()[1:]
    assert lines[-1] == "F1 value: what a user wrote"
    newest = range(2_999, 3_000 - len(lines), -1)
    assert [line.split()[0] for line in lines[:-1]] == [f"F{at}" for at in newest]
    assert len(lines) < len(looked_at) < 60
    assert len(rendered.omitted) == len(facts) - len(lines)


def test_no_kind_takes_the_room_of_all_others() -> None:
    rules = [make_fact(at, f"never touch part {at} of the plan", "rule") for at in range(1, 40)]
    value, decision = make_fact(50, "the port is 8080"), make_fact(51, "we use Postgres", "decision")
    text = render_facts([*rules, value, decision], 120, estimate_tokens).text
    assert "the port is 8080" in text
    assert "we use Postgres" in text
    assert "rule: " in text


def test_what_was_before_gives_way_to_what_holds() -> None:
    old, new = make_fact(1, "budget 11,500", state="replaced"), make_fact(2, "budget 9,200", replaces="F1")
    other = make_fact(3, "the port is 8080")
    both = f"{STANDING_HEADING}\nF3 value: the port is 8080\nF2 value: budget 9,200\n"
    assert render_facts([old, new, other], estimate_tokens(both) + 3, estimate_tokens).text == both
