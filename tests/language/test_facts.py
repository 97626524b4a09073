"""Facts are found without a model: what holds, what replaces it and what is done."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_text, many, messages, some

from autonomy_ctx import Message, ToolCall
from autonomy_ctx.language.facts import find_facts
from autonomy_ctx.messages.fact import (
    FACT_KINDS,
    MAX_FACT_CHARACTERS,
    QUESTION_NOTE,
    Fact,
    FactChange,
    stated_text,
)
from autonomy_ctx.messages.message import content_text
from autonomy_ctx.messages.text_cache import forget_texts

CASES = Path(__file__).parent / "fact_cases"
NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)
MARKS = {"+": "add", "~": "replace", "x": "done"}


@dataclass
class Case:
    """A conversation, what holds before it, and the changes that a reader would make."""

    name: str
    messages: list[tuple[int, Message]] = field(default_factory=list)
    standing: list[Fact] = field(default_factory=list)
    wanted: list[tuple[str, str, str, str]] = field(default_factory=list)
    allowed: list[tuple[str, str]] = field(default_factory=list)


def read_cases(name: str) -> list[Case]:
    """Cases by blocks: facts, messages, then changes (`+ kind: text`, `~ F1 kind: text`, `x F1`, `none`)."""
    cases = []
    for block in (CASES / name).read_text(encoding="utf-8").strip().split("\n\n"):
        title, *lines = block.splitlines()
        case = Case(title.removeprefix("# "))
        for line in lines:
            head, _, text = line.partition(": ")
            text = text.replace("\\n", "\n")
            position = len(case.messages) + 1
            if re.match(r"F\d", head):
                key, kind = head.split()
                case.standing.append(Fact(id=key, kind=kind, text=text, position=0, created_at=NOON))  # type: ignore[arg-type]
            elif head in ("user", "assistant"):
                said, _, call = text.partition("| ")
                tool, _, arguments = call.partition(" ")
                calls = [ToolCall("c1", tool, arguments)] if call else []
                case.messages.append(
                    (position, Message(head, said.strip() or None, tool_calls=calls, created_at=NOON))
                )
            elif head.startswith("tool"):
                result = Message("tool", text, tool_call_id="c1", is_error="error" in head, created_at=NOON)
                case.messages.append((position, result))
            elif head.startswith("?"):
                case.allowed.append((head.split()[1], text))
            elif line != "none":
                mark, *rest = head.split()
                kind = rest[-1] if rest and rest[-1] in FACT_KINDS else ""
                target = rest[0] if rest and rest[0] != kind else ""
                case.wanted.append((MARKS[mark], target, kind, text))
        cases.append(case)
    return cases


def is_wanted(change: FactChange, wanted: tuple[str, str, str, str]) -> bool:
    action, target, kind, text = wanted
    return (
        change.action == action
        and (change.target or "") == target
        and (action == "done" or change.kind == kind)
        and text in change.text
    )


def problems(case: Case) -> list[str]:
    """What was not found, and what should not have been."""
    found = find_facts(case.messages, case.standing)
    rest = list(found)
    missing = []
    for wanted in case.wanted:
        hit = next((change for change in rest if is_wanted(change, wanted)), None)
        if hit:
            rest.remove(hit)
        else:
            missing.append(f"missing {wanted}")
    # What may be found beside the rest replaces nothing.
    rest = [
        change
        for change in rest
        if change.action != "add" or not any(text in change.text for _, text in case.allowed)
    ]
    return missing + [f"extra {one.action} {one.target} {one.kind}: {one.text}" for one in rest]


CASES_OF_RULES = [*read_cases("tuned.txt"), *read_cases("more.txt")]
WHOSE_WORDS = read_cases("whose_words.txt")


@pytest.mark.parametrize("case", CASES_OF_RULES, ids=lambda case: case.name)
def test_a_case_that_the_rules_were_written_for(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.parametrize("case", WHOSE_WORDS, ids=lambda case: case.name)
def test_what_others_said_is_no_fact_of_the_user(case: Case) -> None:
    assert problems(case) == []


# -- properties ---------------------------------------------------------------------------------------

PHRASES = [
    "Never deploy on Fridays.", "The port is 8081.", "Actually make it 9,200.", "Done.", "I called Ben.",
    "Remind me to call Ben tomorrow.", "Let's go with Postgres.", "Go with option B.", "Option B: split it\n",
    "I suggest we wait.", "Yes.", "No, the budget is 7.", "I prefer tea!", "Forget the rule about Fridays.",
    "not Lisbon but Porto", "- never this\n", "Rules:\n", "```\nnever code\n```\n", "> never quoted\n",
    "Is it always so?", "预算是3000元。", "まだ。", "Nein, der Termin ist am 6. Mai.", " ", "\n", ", and ",
    "; ", "\"", "(", ")", "I've booked it, code HX-20931.", "#12", "é", "\u00a0", "an unfinished",
    "e.g. this", "My budget is €1,500 and I must be back by 2026-05-10.", "أنا نباتي.", "x" * 450,
]  # fmt: skip
said = st.lists(st.sampled_from(PHRASES), max_size=8).map("".join) | any_text
speech = st.builds(Message, st.sampled_from(["user", "assistant"]), said, created_at=st.just(NOON))
kinds = st.sampled_from(FACT_KINDS)
facts = st.lists(
    st.tuples(kinds, st.sampled_from(PHRASES[:16]), st.sampled_from(["holds", "replaced", "done"])),
    max_size=6,
).map(
    lambda rows: [
        Fact(id=f"F{index}", kind=kind, text=text.strip(), position=0, created_at=NOON, state=state)  # type: ignore[arg-type]
        for index, (kind, text, state) in enumerate(rows, 1)
    ]
)
numbered = st.lists(speech | messages, max_size=10).map(lambda made: list(enumerate(made, 10)))


def one_line(text: str) -> str:
    return " ".join(text.split())


@many
@given(numbered, facts)
def test_every_fact_is_a_contiguous_quotation_of_its_source(
    history: list[tuple[int, Message]], standing: list[Fact]
) -> None:
    sources = dict(history)
    for change in find_facts(history, standing):
        source = sources[change.position]
        assert change.created_at == source.created_at
        assert len(change.text) <= MAX_FACT_CHARACTERS
        if change.action != "done":
            whole = one_line(content_text(source.content))
            said, note, question = stated_text(change.text), *change.text.partition(QUESTION_NOTE)[1:]
            plain = re.sub(r" \((?:\d|[A-Z])[^()]{2,40}\d{4}\)", "", said)
            assert change.text
            assert change.text in whole or plain in whole
            before = [one_line(content_text(sources[at].content)) for at in sources if at < change.position]
            assert not note or change.text in whole or any(question[:-1] in text for text in before)


@many
@given(numbered, facts)
def test_changes_refer_to_facts_that_hold_and_no_two_say_the_same(
    history: list[tuple[int, Message]], standing: list[Fact]
) -> None:
    before = list(standing)
    holding = {fact.id: fact.text for fact in standing if fact.state == "holds"}
    for index, change in enumerate(find_facts(history, standing)):
        if change.action != "add":
            assert change.target in holding
            del holding[change.target]
        if change.action != "done":
            same = one_line(change.text).casefold()
            assert same not in {one_line(text).casefold() for text in holding.values()}
            holding[f"+{index}"] = change.text
    assert standing == before


def test_a_character_that_nobody_sees_may_stand_beside_a_number() -> None:
    text = "my budget is \u0640 400 EUR"
    assert [change.text for change in find_facts([(1, Message("user", text))], ())] == [text]


def test_the_first_message_may_answer_the_one_before() -> None:
    question = Message("assistant", "Plated dinner or buffet?", created_at=NOON)
    answer = Message("user", "buffet, please no seating wars", created_at=NOON)
    (change,) = find_facts([(7, answer)], [], before=(6, question))
    assert (change.kind, change.position) == ("decision", 7)
    assert change.text == f"buffet, please no seating wars{QUESTION_NOTE}Plated dinner or buffet?)"


@some
@given(numbered, facts)
def test_the_same_messages_give_the_same_changes(
    history: list[tuple[int, Message]], standing: list[Fact]
) -> None:
    assert find_facts(history, standing) == find_facts(history, standing)


def steps(history: list[tuple[int, Message]], standing: Sequence[Fact] = ()) -> int:
    """How many calls of Python functions the work takes."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        find_facts(history, standing)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "text",
    [
        "Never deploy on day {n}. The port of box {n} is {n}. Remind me to call number {n}. I called {n}.",
        "ok {n}, thanks. " * 5,
        "no, not, never, instead of, " * 6 + "{n}",
        "预算是{n}元。不要忘了。" * 3,
    ],
)
def test_twice_the_messages_take_about_twice_the_steps(text: str) -> None:
    def history(size: int) -> list[tuple[int, Message]]:
        return [(n, Message("user", text.format(n=n), created_at=NOON)) for n in range(1, size + 1)]

    steps(history(2))  # tables are made on first use
    forget_texts()
    few = steps(history(120))
    forget_texts()
    assert steps(history(240)) < 2.6 * few


LONG_PIECES = [
    "never ",
    "a, and ",
    "the port is 80 and ",
    "no, ",
    "«",
    '"',
    "x",
    "好",
    "not ",
    "\n- ",
    "a b\n",
    "a:\n\n",
    "Ab: c\n",
    "<a>\n",
    '"a b c. d" ',
]


@pytest.mark.parametrize("piece", LONG_PIECES)
def test_one_long_message_is_read_in_linear_time(piece: str) -> None:
    def history(size: int) -> list[tuple[int, Message]]:
        return [(1, Message("user", piece * size, created_at=NOON))]

    steps(history(2))
    assert steps(history(2000)) < 2.6 * steps(history(1000)) + 2000
