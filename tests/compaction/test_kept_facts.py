"""The corpus that kept facts are measured with: frozen, as large as it says, and judged by whole lines."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import kept_facts
from benchmarks.fact_corpus import (
    HALVES,
    LONG,
    NAMES,
    SHORT,
    Case,
    Conversation,
    Step,
    corpus_digest,
    has_keys,
    is_long,
    make_conversation,
    make_corpus,
    read_scripts,
)
from benchmarks.fact_model import FACTS, PerfectSummarizer
from benchmarks.kept_facts import ROWS, View, judge_cases
from benchmarks.provider import FactWriter, Provider

CONVERSATIONS = 57
WINDOW = 20


def step(text: str, *keys: str, percent: int = 1, said: str = "") -> Step:
    return Step(percent, tuple(tuple(key.split("|")) for key in keys), text, (("u", said or text),))


def test_the_corpus_is_the_one_that_was_measured() -> None:
    assert corpus_digest() == kept_facts.DIGEST
    assert len(make_corpus()) == CONVERSATIONS
    assert make_corpus()[0] == make_conversation(HALVES[0], SHORT, read_scripts(HALVES[0])[0])


def test_the_corpus_has_the_promised_size() -> None:
    for long, least, length in ((False, 24, SHORT), (True, 5, LONG)):
        chosen = [one for one in make_corpus() if is_long(one) is long]
        assert len(chosen) >= least
        assert all(length <= len(one.messages) <= length + 10 for one in chosen)
        halves = Counter(one.half for one in chosen)
        assert halves["held_out"] >= least // 2
        assert halves["development"] >= halves["held_out"]
        rows = Counter(ROWS[case.kind] for one in chosen for case in one.cases if not case.done)
        assert set(rows) == set(ROWS.values())
        assert min(rows.values()) >= 60
        assert sum(case.done for one in chosen for case in one.cases) >= 20


def test_people_talk_about_several_things_in_several_languages() -> None:
    scripts = [script for half in HALVES for script in read_scripts(half)]
    assert {script.domain for script in scripts} == {"coding", "travel", "support", "research", "home"}
    languages = {language for script in scripts for language in script.languages}
    assert languages == {"en", "de", "fr", "es", "ja", "ar"}


def test_no_sentence_of_a_case_is_used_twice() -> None:
    said = Counter(
        one.source
        for half in HALVES
        for script in read_scripts(half)
        for case in script.cases
        for one in case.steps
    )
    assert [text for text, count in said.items() if count > 1] == []


def test_cases_are_spread_over_the_conversations() -> None:
    for row in ROWS.values():
        places = [
            at / len(one.messages)
            for one in make_corpus()
            for case, found in zip(one.cases, one.places, strict=True)
            if ROWS[case.kind] == row
            for at in found
        ]
        for first, last in ((0.0, 0.33), (0.33, 0.67), (0.67, 1.0)):
            assert sum(first <= place < last for place in places) >= len(places) / 6, (row, first)
    late = [at >= len(one.messages) - WINDOW for one in make_corpus() for found in one.places for at in found]
    assert sum(late) <= len(late) / 20


@pytest.mark.parametrize("number", range(CONVERSATIONS))
def test_every_case_can_be_found_where_it_is_said_and_nowhere_else(number: int) -> None:
    conversation = make_corpus()[number]
    texts = [str(message["content"]) for message in conversation.messages]
    lower = [text.lower() for text in texts]
    for case, places in zip(conversation.cases, conversation.places, strict=True):
        own = {text for one in case.steps for _, text in one.lines}
        for one, place in zip(case.steps, places, strict=True):
            assert texts[place] == one.source
            assert any(one.stands_in(text) for _, text in one.lines), one
            assert one.stands_in(one.text) or not one.text, one
            keys = one.keys[:1] if case.kind in NAMES else one.keys
            near = [at for at, text in enumerate(lower) if any(key.lower() in text for key in keys[0])]
            assert [texts[at] for at in near if texts[at] not in own and has_keys(texts[at], keys)] == []


def test_half_of_a_rule_is_not_found() -> None:
    rule = Case("rule", (step("never deploy to prod-us-1", "prod-us-1", "never|not"),))
    for text, found in (
        ("Deploy commit 9f8e7d6c to prod-us-1.", False),
        ("Never mind.\nDeploy to prod-us-1.", False),
        ("User: Deploy to prod-eu-3, never to prod-us-1.", True),
    ):
        assert list(judge_cases(View([text], []), [rule])) == [(kept_facts.RULES, found)]


@pytest.mark.parametrize(
    ("summary", "window", "newest", "old", "alone"),
    [
        (["budget 11,500"], [], False, True, True),
        (["budget 11,500", "budget 9,200"], [], True, False, True),
        (["budget 9,200", "budget 11,500"], [], True, True, True),
        (["budget 9,200 (was 11,500 until 3 May)"], [], True, False, False),
        (["budget 11,500"], ["make the budget 9,200"], True, False, False),
        (["Named: 11,500, 9f8e7d6c", "budget 9,200"], [], True, False, False),
        (["budget 111,500"], [], False, False, False),
    ],
)
def test_an_old_value_holds_where_nothing_after_it_is_newer(
    summary: list[str], window: list[str], newest: bool, old: bool, alone: bool
) -> None:
    value = Case(
        "value", (step("budget 11,500", "11,500", "budget"), step("budget 9,200", "9,200", "budget"))
    )
    found = dict(judge_cases(View(summary, window), [value]))
    rows = kept_facts.NEWEST, kept_facts.OLD, kept_facts.ANYWHERE
    assert tuple(found[row] for row in rows) == (newest, old, alone)


def test_an_item_that_is_done_is_open_where_nothing_after_it_says_so() -> None:
    item = Case(
        "open", (step("write the changelog", "changelog"), step("", "changelog", "done", said="done"))
    )
    for summary, still_open in (
        (["write the changelog"], True),
        (["write the changelog", "changelog is done"], False),
        (["changelog is done", "F3 open: write the changelog"], True),
        (["something else"], False),
    ):
        assert list(judge_cases(View(summary, []), [item])) == [(kept_facts.FINISHED, still_open)]


SECRET = "0123456789abcdef"


def prompt(rules: str, said: str, label: str = "conversation") -> list[dict[str, str]]:
    block = f"<{label} {SECRET}>\n{said}\n</{label} {SECRET}>"
    return [
        {"role": "system", "content": rules},
        {"role": "user", "content": f"{block}\nAt most 300 tokens."},
    ]


async def test_the_perfect_model_writes_changes_of_facts_where_it_is_asked_for_them() -> None:
    budget = Case(
        "value", (step("budget 11,500", "11,500"), step("budget 9,200", "9,200", said="make it 9,200"))
    )
    item = Case("open", (step("write the changelog", "changelog"), step("", "changelog", said="all written")))
    rule = Case("rule", (step("never on Fridays", "never", said="please never on Fridays"),))
    booking = Case("id", (step("booking QX7LMP", "QX7LMP", said="your code is QX7LMP"),))
    model = PerfectSummarizer(Conversation("talk", "development", [], [budget, item, rule, booking]))
    lines = ("make it 9,200", "all written", "please never on Fridays", "your code is QX7LMP")
    said = "\n\n".join(f"User: {line}" for line in lines)
    standing = "F1 value: budget 11,500\nF2 open: write the changelog\nF3 value: 17 seats"

    reply = await model.complete_chat(prompt(f"Below a line {FACTS} write changes.\n{standing}", said))
    record, changes = reply.split(f"\n{FACTS}\n")
    assert changes.split("\n") == ["~ F1 value: budget 9,200", "x F2", "+ rule: never on Fridays"]
    assert "booking QX7LMP" in record

    reply = await model.complete_chat(prompt("Write a record.", said))
    assert FACTS not in reply
    assert "- budget 9,200" in reply
    assert "- never on Fridays" in reply


async def test_the_perfect_model_merges_records_and_leaves_out_what_was_replaced() -> None:
    budget = Case(
        "value", (step("budget 11,500", "11,500"), step("budget 9,200", "9,200", said="make it 9,200"))
    )
    model = PerfectSummarizer(Conversation("talk", "development", [], [budget]))
    records = "Facts\n- budget 11,500\n- blue chairs\nFacts\n- budget 9,200"
    reply = await model.complete_chat(prompt("Make them one record.", records, "segment"))
    assert "- blue chairs" in reply
    assert "- budget 9,200" in reply
    assert "11,500" not in reply


async def test_a_short_conversation_is_counted_through_the_real_pipeline() -> None:
    # The first of the corpus, without the others.
    conversation = make_conversation(HALVES[0], SHORT, read_scripts(HALVES[0])[0])
    for perfect in (False, True):
        column = next(one for one in kept_facts.COLUMNS if one.perfect is perfect and not one.long)
        tally = await kept_facts.tally_column(column, [conversation])
        assert sum(tally.cases.values()) == len(conversation.cases) + 2 * 3
        assert tally.compactions[0] >= 20
        assert not perfect or tally.percent(kept_facts.RULES, *HALVES) == 100


def test_the_writer_of_facts_writes_none_unless_it_is_asked() -> None:
    writer = FactWriter(Provider(), None)
    said = "User: The pass phrase of customer C-0003 is zephyr-42."
    asked = prompt(f"Below a line {FACTS} write changes.", said)
    assert (
        writer._answer(prompt("Write a record.", said), 300)
        == writer._answer(asked, 300).split("\n" + FACTS)[0]
    )
    assert writer._answer(asked, 300).endswith("+ value: pass phrase of customer C-0003 is zephyr-42")
