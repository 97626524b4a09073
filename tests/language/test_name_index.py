from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import any_text, messages, some

from autonomy_ctx import Message, ToolCall
from autonomy_ctx.compaction.key_names import MAX_CALLED, MAX_SAID, key_identifiers
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.name_index import NameIndex, key_names_of, unknown_names


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("budget 1200", "1,200"),
        ("budget 1200", "1.200"),
        ("budget 12,045,521", "12045521"),
        ("budget 1200 EUR", "€1200"),
        ("budget 1200", "1200EUR"),
        ("paid 2450", "2,450.00"),
        ("paid 804,30", "804.30"),
        ("order 1234", "ORDER-1234"),
        ("the order with the number 12345", "order-12345"),
        ("#4411", "PR-4411"),
        ("edit src/app.py", "app.py"),
        ("see https://www.example.org/a/b", "example.org/a/b"),
        ("see example.org/a", "https://example.org/a/"),
        ("commit 9f8e7d6c5b4a", "9f8e7d6"),
        ("postgres", "PostgreSQL"),
        ("on 2026-05-02", "2 May"),
        ("on 2 May 2026", "2026-05-02"),
        ("on May 2nd", "02.05.2026"),
        ("am 2. Mai", "May 2"),
        ("le 2 juillet", "2 July"),
        ("5月12日", "2026-05-12"),
        ("予約番号はRSV-880412です", "RSV-880412"),
        ("code ＺＸ－９０８１７", "ZX-90817"),  # noqa: RUF001
        ("المبلغ ١٢٠٠٠", "12000"),
        ("meet on 2 May, next Friday", "8 May"),
    ],
)
def test_an_identifier_is_known_however_it_is_written(source: str, name: str) -> None:
    assert NameIndex(source).has(name)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("prod-us-1 and prod-eu-3", "prod-us-3"),
        ("budget 11500", "1500"),
        ("ORDER-1234", "ORDER-1235"),
        ("commit 9f8e7d6c", "9f8e7d6d"),
        ("on 2 May", "2 August"),
        ("src/app.py", "src/main.py"),
        ("a@example.org", "b@example.org"),
        ("", "ORDER-1"),
    ],
)
def test_another_identifier_is_not_known(source: str, name: str) -> None:
    assert not NameIndex(source).has(name)
    assert unknown_names(f"It is {name}.", NameIndex(source)) == [name]


PARTS = (
    "src/app and lib/app.py",
    "edit src/lib/app.py",
    "commit 9f8e7d6c5b4a",
    "budget 1,200 EUR",
    "on 2 May, next Friday",
    "PostgreSQL for prod-us-1",
    "予約番号はRSV-880412です",
    "",
)
NAMES = (
    *("src/lib/app.py", "lib/src/app.py", "app.py", "9f8e7d6", "1200", "8 May", "2 August"),
    *("postgres", "prod-us-1", "prod-us-3", "RSV-880412", "ORDER-77"),
)


@given(st.lists(st.sampled_from(PARTS)), st.lists(st.sampled_from(PARTS)), st.lists(st.sampled_from(NAMES)))
def test_texts_that_are_read_when_needed_count_as_others(
    texts: list[str], more: list[str], names: list[str]
) -> None:
    known, whole = NameIndex(*texts, more=more), NameIndex(*texts, *more)
    assert [known.has(name) for name in names] == [whole.has(name) for name in names]


def test_counts_years_and_phrases_are_not_unknown() -> None:
    text = (
        'The 3 of 12 tests (85%) of 2026 were "good enough", read/write, v2, 10:30, 2nd, 4.5 and done.Then.'
    )
    assert unknown_names(text, NameIndex("")) == []


def test_key_identifiers_are_those_of_users_calls_assistants_and_the_last_results() -> None:
    conversation = [
        Message("user", "Move ORDER-1001 by 2 May, for 640 euros."),
        Message("assistant", None, tool_calls=[ToolCall("1", "look", json.dumps({"row_id": "ROW-77"}))]),
        Message("tool", "noise_1 noise_2 ORDER-9999", tool_call_id="1"),
        Message("assistant", "See src/app.py."),
        Message("assistant", None, tool_calls=[ToolCall("2", "look", "not json_at_all")]),
        Message("tool", "RESULT-5", tool_call_id="2"),
    ]
    assert key_identifiers(conversation) == [
        *("ORDER-1001", "2 May", "ROW-77", "json_at_all", "src/app.py", "RESULT-5")
    ]
    assert "RESULT-5" not in key_identifiers([*conversation, Message("assistant", "Done.")])


def test_long_lists_are_no_subject() -> None:
    names = [f"name_{number}" for number in range(100)]
    call = ToolCall("1", "write", json.dumps({"lines": names}))
    assert len(key_identifiers([Message("user", " ".join(names))])) == MAX_SAID
    assert len(key_identifiers([Message("assistant", None, tool_calls=[call])])) == MAX_CALLED


@some
@given(any_text, any_text)
@example("", "A0://")
@example("", "0?0\u31f0")
@example("Links begin with https:// here.", "")
def test_a_text_knows_its_own_identifiers(text: str, other: str) -> None:
    source = f"{other} {text} {other}"
    assert unknown_names(source, NameIndex(source)) == []


@some
@given(messages)
def test_key_identifiers_of_any_message_are_identifiers(message: Message) -> None:
    for name in key_identifiers([message]):
        assert name in key_names_of(name) or name in identifiers(f" {name} ")
