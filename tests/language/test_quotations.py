"""A digest leaves out; it never alters. Lines quote their source, clauses come whole or not at all."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_text, some

from autonomy_ctx import Message, ToolCall
from autonomy_ctx.language.digest import digest, digest_texts
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.sentences import split_clauses, split_prose
from autonomy_ctx.tokens import TokenCounter

COUNTER = TokenCounter()
LABEL = re.compile(r"- (?:User|Assistant|Tool[^:]*)(?: \(last of \d+ such lines\))?: ")
NOTE = re.compile(r"\[\.\.\. [\d,]+ of [\d,]+ characters were not read for this digest \.\.\.\]")


def flat(text: str) -> str:
    return " ".join(text.split())


def quotes(line: str) -> list[str]:
    """What a line quotes, without who said it and without the marks for what is missing."""
    label = LABEL.match(line)
    assert label is not None, line
    return [piece.strip() for piece in NOTE.sub("", line[label.end() :]).split("[...]")]


def assert_quoted(text: str, *sources: str) -> None:
    """Every line is a quotation of one source, in its order, with marks where something is missing."""
    flat_sources = [flat(source) for source in sources]
    for line in text.splitlines():
        pieces = quotes(line)
        assert any(_has_in_order(source, pieces) for source in flat_sources), line


def _has_in_order(source: str, pieces: list[str]) -> bool:
    at = 0
    for piece in pieces:
        at = source.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


# What stands in it together must be shown together.
WHOLE = [
    "Deploy commit 9f8e7d6c to prod-eu-3, never to prod-us-1.",
    "My locker code is ZX-90817, remember it.",
    "Merge branch fix/cart-41 only if the tests pass.",
    "Merge branch fix/cart-42. But only if the tests pass.",
    "Send invoice INV-2041 to Ana, unless she is on leave, and copy bob@example.com.",
    "Überweise 4.200 EUR an Müller, aber nicht vor dem 3. Mai.",
    "Réserve le vol AF1180, sauf s'il part avant 9h30.",
    "Reserva la mesa 14 para cuatro personas, pero nunca en la terraza.",
    "Reserve o quarto 305, mas não no dia 12 de maio.",
    "El código de la caja es 4711-B, no lo compartas con nadie.",
    "El código del garaje es 8820-K. No lo compartas.",
    "请把 v2.4.1 部署到 prod-eu-3，但不要重启 db-7。",  # noqa: RUF001
    "v2.4.1 を prod-eu-3 にデプロイしてください。ただし db-7 は再起動しないでください。",
    "انشر الإصدار v2.4.1 على prod-eu-3، لكن لا تشغل db-7.",
    "Älä koskaan siirrä tilausta K-5512 varastoon W-9, vaan varastoon W-3.",
]
NAMES = re.compile(r"[A-Za-z]*[-/]?\d[\w.,-]*\w|[\w.]+@[\w.]+")
# In several of the sentences.
COMMON = {"prod-eu-3", "v2.4.1"}
fillers = st.lists(
    st.sampled_from(
        [
            Message("assistant", "I have looked at it. There were 12 files in src/app, and 3 changed."),
            Message("tool", "\n".join(f"src/app/file_{n}.py:{n}: import os" for n in range(30))),
            Message("user", "ok, thanks!"),
            Message("user", "What is the weather in Porto on 12 May?"),
            Message("assistant", "It will rain. " * 30),
        ]
    ),
    max_size=8,
)


@some
@given(st.lists(st.sampled_from(WHOLE), min_size=1, max_size=6, unique=True), fillers, st.integers(12, 250))
def test_a_sentence_comes_whole_or_not_at_all(said: list[str], noise: list[Message], tokens: int) -> None:
    history = [*noise, *(Message("user", sentence) for sentence in said), *noise]
    text = digest(history, tokens=tokens, counter=COUNTER)
    merged = digest_texts(
        [text, digest(noise, tokens=99, counter=COUNTER)], tokens=max(tokens // 2, 16), counter=COUNTER
    )
    for made in (text, merged):
        for sentence in said:
            names = [name for name in NAMES.findall(sentence) if len(name) > 2 and name not in COMMON]
            assert flat(sentence) in made or not any(name in made for name in names), (sentence, made)


@pytest.mark.parametrize("sentence", WHOLE)
def test_no_budget_cuts_into_a_sentence(sentence: str) -> None:
    for tokens in (8, 12, 16, 20, 24, 32, 48):
        text = digest([Message("user", sentence)], tokens=tokens, counter=COUNTER)
        assert text in {f"- User: {sentence}", "- User: [...]", "- [...]"}, tokens


# -- generated conversations --------------------------------------------------------------------------

plain_clauses = st.sampled_from(
    [
        "we move the billing service to the new cluster",
        "the team in Porto has three machines fra-01 and fra-02",
        "Ana knows the details of ticket OPS-4471",
        "the export takes about 40 minutes",
        "copy the dump from /backup/billing.sql on Sunday",
        "the machine has 64 GB of memory",
    ]
)
BOUND = [
    "never start it while the export runs",
    "only if the tests pass",
    "unless Ana says so",
    "not before 9am",
]
bound_clauses = st.sampled_from(BOUND)
joints = st.sampled_from(["; ", ", and ", ", but ", " because ", " \u2014 "])


@st.composite
def long_sentences(draw: st.DrawFn) -> str:
    clauses = draw(st.lists(plain_clauses | bound_clauses, min_size=3, max_size=14))
    text = clauses[0]
    for clause in clauses[1:]:
        text += draw(joints) + clause
    return text[0].upper() + text[1:] + "."


roles = st.sampled_from(["user", "assistant", "tool"])
spoken = st.builds(
    Message, roles, st.lists(long_sentences() | any_text, min_size=1, max_size=4).map(" ".join)
)
written = st.builds(
    Message, roles, st.lists(long_sentences() | any_text, min_size=1, max_size=6).map("\n".join)
)
conversations = st.lists(spoken | written, min_size=1, max_size=6)


@some
@given(conversations, st.integers(32, 400))
def test_every_line_quotes_its_source(history: list[Message], tokens: int) -> None:
    sources = [message.text for message in history] + ["[no text]"]
    text = digest(history, tokens=tokens, counter=COUNTER)
    if text != "- [...]":
        assert_quoted(text, *sources)
    short = digest(history, tokens=tokens, counter=COUNTER, max_characters=900)
    if short != "- [...]":
        assert_quoted(short, *sources)


@some
@given(conversations, conversations, st.integers(32, 300))
def test_a_merge_quotes_the_same_sources(first: list[Message], second: list[Message], tokens: int) -> None:
    texts = [digest(one, tokens=400, counter=COUNTER) for one in (first, second)]
    merged = digest_texts(texts, tokens=tokens, counter=COUNTER)
    if merged != "- [...]":
        assert_quoted(merged, *(message.text for message in (*first, *second)), "[no text]", "[...]")


@some
@given(long_sentences(), st.integers(24, 120))
def test_what_denies_or_limits_is_shown_with_the_rest(sentence: str, tokens: int) -> None:
    text = digest([Message("user", sentence)], tokens=tokens, counter=COUNTER)
    if text in ("- User: [...]", "- [...]"):
        return
    for cue in BOUND:
        assert text.lower().count(cue) == sentence.lower().count(cue)
    assert all(name in text for name in identifiers(sentence))


@some
@given(st.lists(long_sentences(), min_size=1, max_size=4), st.integers(24, 200))
def test_a_merge_loses_no_name_denial_or_condition_of_a_sentence(said: list[str], tokens: int) -> None:
    texts = [digest([Message("user", one)], tokens=400, counter=COUNTER) for one in said]
    text = digest_texts(texts, tokens=tokens, counter=COUNTER)
    for line in filter(LABEL.match, text.splitlines()):
        pieces = [piece for piece in quotes(line) if piece]
        sources = [one for one in said if pieces and _has_in_order(one, pieces)]
        assert not sources or any(
            all(name in line for name in identifiers(one))
            and all(line.lower().count(cue) == one.lower().count(cue) for cue in BOUND)
            for one in sources
        ), line


@some
@given(long_sentences(), st.integers(24, 120))
def test_marks_stand_at_the_borders_of_clauses(sentence: str, tokens: int) -> None:
    text = digest([Message("user", sentence)], tokens=tokens, counter=COUNTER)
    clauses = split_clauses(sentence)
    starts = {sum(map(len, clauses[:number])) for number in range(len(clauses) + 1)}
    at = 0
    for piece in filter(None, quotes(text) if text != "- [...]" else []):
        at = sentence.index(piece, at)
        assert at in starts
        at += len(piece)
        assert at in starts or at + 1 in starts


@some
@given(long_sentences())
def test_clauses_put_together_are_the_sentence(sentence: str) -> None:
    assert "".join(split_clauses(sentence)) == sentence


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Call Dr. Smith at 5 p.m. on Friday. He has 3.50 EUR.",
            ["Call Dr. Smith at 5 p.m. on Friday.", "He has 3.50 EUR."],
        ),
        ("Am 3. Mai geht es los. Bitte max. 500 EUR.", ["Am 3. Mai geht es los.", "Bitte max. 500 EUR."]),
        ("It fails in line 41. The cause is a key.", ["It fails in line 41.", "The cause is a key."]),
        ("deploy only\nif the tests pass\non main", ["deploy only if the tests pass on main"]),
        ("Deploy it. Otherwise stop.", ["Deploy it. Otherwise stop."]),
        (
            "Never do this:\n\n- deploy.\n- delete.\n\nAsk Ana.",
            ["Never do this: - deploy. - delete.", "Ask Ana."],
        ),
        ("Never do this: - Deploy. - Delete.", ["Never do this: - Deploy. - Delete."]),
        ("- one thing\n- another", ["- one thing", "- another"]),
        ("好。我要去里斯本。", ["好。", "我要去里斯本。"]),
    ],
)
def test_a_sentence_has_what_it_cannot_do_without(text: str, sentences: list[str]) -> None:
    assert [flat(piece) for piece in split_prose(text) if piece] == sentences


def test_items_are_never_quoted_without_the_heading_that_forbids_them() -> None:
    items = "\n".join(f"- Deploy service s-{number} to the cluster in Porto." for number in range(40))
    for heading in ("Do not do any of these:", "Älä tee näitä:"):
        text = digest([Message("user", f"{heading}\n{items}")], tokens=100, counter=COUNTER)
        assert text.startswith(f"- User: {heading} ")
        assert "[...]" in text
        again = digest_texts([text, "- User: My name is Ana.\n" * 9 + "x " * 200], tokens=70, counter=COUNTER)
        assert "Deploy" not in again or heading in again


# -- what comes first ---------------------------------------------------------------------------------


def call(number: int, tool: str, /, **arguments: object) -> Message:
    return Message("assistant", None, tool_calls=[ToolCall(f"c{number}", tool, json.dumps(arguments))])


def result(number: int, text: str, *, is_error: bool = False) -> Message:
    return Message("tool", text, tool_call_id=f"c{number}", is_error=is_error)


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        (
            [f"tests/test_cart.py::test_item_{n} PASSED [{n}%]" for n in range(40)],
            "test_item_39 PASSED [39%]",
        ),
        ([f"2026-05-01 10:02:{n} INFO worker-{n} took order {n}" for n in range(10, 50)], "took order 49"),
        ([f"src/report_{n}.py:{n * 7}: total = row['total']" for n in range(12)], "src/report_11.py:77:"),
        ([f"| Casa {n} | Alfama | {n} EUR |" for n in range(12)], "| Casa 11 | Alfama | 11 EUR |"),
        ([json.dumps([{"id": f"TP{n}", "price": n * 3} for n in range(12)])], '{"id": "TP11", "price": 33}'),
    ],
)
def test_lines_of_one_shape_become_the_last_of_them(lines: list[str], last: str) -> None:
    history = [Message("user", "Look it up."), call(1, "get_it"), result(1, "\n".join(lines))]
    text = digest(history, tokens=400, counter=COUNTER)
    number = 12 if len(lines) == 1 else len(lines)
    shown = [line for line in text.splitlines() if line.startswith("- Tool")]
    assert len(shown) == 1
    assert shown[0].startswith(f"- Tool get_it (last of {number} such lines): ")
    assert last in shown[0]


def test_one_failure_among_many_lines_stays() -> None:
    lines = [f"tests/test_cart.py::test_item_{n} PASSED [{n}%]" for n in range(60)]
    lines[30] = "tests/test_cart.py::test_total FAILED [30%]"
    history = [call(1, "run_tests"), result(1, "\n".join([*lines, "1 failed, 59 passed in 3.2s"]))]
    text = digest(history, tokens=120, counter=COUNTER)
    assert "test_total FAILED" in text
    assert "1 failed, 59 passed" in text


@pytest.mark.parametrize(
    "said",
    [
        "ok",
        "thanks, great!",
        "Danke, super!",
        "merci beaucoup",
        "¡Muchas gracias!",
        "obrigado",
        "了解です",
        "好的\uff0c谢谢\uff01",
        "شكرا",
    ],
)
def test_an_acknowledgement_is_left_out(said: str) -> None:
    history = [Message("user", "Book TP571."), Message("assistant", "I booked TP571."), Message("user", said)]
    assert digest(history, tokens=99, counter=COUNTER).splitlines() == [
        "- User: Book TP571.",
        "- Assistant: I booked TP571.",
    ]
    assert digest([Message("user", said)], tokens=32, counter=COUNTER) == f"- User: {said}"


def test_an_answer_is_quoted_with_its_question() -> None:
    history = [
        Message("user", "The branch is stale."),
        Message("assistant", "It has 3 commits. Shall I delete branch old/cart?"),
        Message("user", "yes"),
        Message("assistant", "Which colour do you like?"),
        Message("tool", "done"),
    ]
    text = digest(history, tokens=200, counter=COUNTER)
    assert "Shall I delete branch old/cart?\n- User: yes" in text
    noise = "\n".join(f"- Assistant: Part {n} of the list is in file f{n}.txt." for n in range(40))
    for tokens in range(24, 90, 6):
        again = digest_texts([text, noise], tokens=tokens, counter=COUNTER)
        assert ("- User: yes" in again) == ("old/cart?" in again)


def test_of_a_thing_the_last_state_is_shown() -> None:
    history = [
        Message("user", "Where is order 4401?"),
        call(1, "get_order", id="4401", fresh=1),
        result(1, '{"order": "4401", "status": "packed"}'),
        call(2, "get_order", id="4401", fresh=2),
        result(2, '{"order": "4401", "status": "delivered"}'),
        call(3, "run_tests", path="tests/a.py"),
        result(3, "2 failed, 4 passed in 1.2s", is_error=True),
        call(4, "edit_file", path="src/a.py", text="x" * 400),
        result(4, "Edited src/a.py (1 replacement)."),
        call(5, "edit_file", path="src/a.py", text="y" * 400),
        result(5, "Edited src/a.py (2 replacements)."),
        call(6, "run_tests", path="tests/a.py"),
        result(6, "6 passed in 1.1s"),
    ]
    text = digest(history, tokens=500, counter=COUNTER)
    assert "delivered" in text
    assert "packed" not in text
    assert "6 passed" in text
    assert "2 failed" not in text
    assert text.count("Edited src/a.py") == 1
    assert text.count('calls edit_file({"path": "src/a.py", [...]})') == 1


HOTELS = ["Rosa", "Lua", "Mar", "Sol", "Azul", "Verde", "Bela", "Rio"]


def test_what_was_done_comes_before_what_was_listed() -> None:
    listing = "\n".join(
        f"{name} costs {number} EUR in Porto at 10:{number}" for number, name in enumerate(HOTELS, 10)
    )
    history = [
        Message("user", "Find a hotel in Porto."),
        call(1, "search_hotels"),
        result(1, listing),
        call(2, "book_hotel", name="Lua"),
        result(2, "Booked Lua, reference QX7K2P."),
    ]
    text = digest(history, tokens=60, counter=COUNTER)
    assert "- Tool book_hotel: Booked Lua, reference QX7K2P." in text
    assert "- User: Find a hotel in Porto." in text


HOUSES = ["mill", "barn", "inn", "farm", "hut", "tower", "chapel", "forge"]


@pytest.mark.parametrize("tokens", [200, 300, 512, 1000])
@pytest.mark.parametrize("kind", ["chat", "long sentences", "one user", "tools"])
def test_it_uses_the_room_it_has(tokens: int, kind: str) -> None:
    made = {
        "chat": [
            Message("user" if n % 2 else "assistant", f"Point {n} is about room {n * 3}. It is in house {n}.")
            for n in range(200)
        ],
        "long sentences": [
            Message(
                "assistant",
                f"Part {n} "
                + f"says that the {HOUSES[n % 8]} {HOUSES[n // 8]} stands near the river; it " * 9,
            )
            for n in range(40)
        ],
        "one user": [Message("user", " ".join(f"Sentence {n} names street {n}." for n in range(400)))],
        "tools": [
            message
            for n in range(90)
            for message in (call(n, f"make_{n}", x=n), result(n, f"Made thing T-{n}. It has {n} parts."))
        ],
    }[kind]
    text = digest(made, tokens=tokens, counter=COUNTER)
    assert 0.85 * tokens <= COUNTER.count_text(text) <= tokens
    merged = digest_texts(
        [text, text.replace("1", "7"), text.replace("2", "8")], tokens=tokens, counter=COUNTER
    )
    assert 0.85 * tokens <= COUNTER.count_text(merged) <= tokens


RULES = [
    "Never deploy to prod-us-1.",
    "I always want invoices as PDF.",
    "Please write to anna.berg@example.de, not to the old address.",
    "Das Budget ist höchstens 2.900 EUR.",
]


def test_a_rule_outlasts_any_number_of_merges() -> None:
    kept = digest(
        [Message("user", " ".join(RULES)), Message("assistant", "Noted.")], tokens=200, counter=COUNTER
    )
    for number in range(50):
        later = digest(
            [
                Message("user", f"What about order {number} from 2026-05-{number % 28 + 1:02} in Porto?"),
                Message(
                    "assistant",
                    f"Order {number} was shipped as parcel JD0{number}46 and paid.",
                ),
                Message(
                    "user",
                    f"It weighs {number} kg. The box stands in hall H-{number}.",
                ),
                Message("tool", f"Created ticket T-{number} for order {number}."),
            ],
            tokens=200,
            counter=COUNTER,
        )
        kept = digest_texts([kept, later], tokens=200, counter=COUNTER)
        assert all(rule in kept for rule in RULES)
    assert "49" in kept


def test_it_works_without_cues() -> None:
    """Finnish is in no table."""
    history = [
        Message(
            "user", "Haluan lentää Lissaboniin. Budjetti on 1500 euroa. Älä varaa lentoa ennen kello 9.30."
        ),
        Message("assistant", "Etsin lentoja. " * 40),
        Message("user", "Lähtö on 12.5.2026 Helsingistä."),
    ]
    text = digest(history, tokens=80, counter=COUNTER)
    assert (
        "- User: Haluan lentää Lissaboniin. Budjetti on 1500 euroa. Älä varaa lentoa ennen kello 9.30."
        in text
    )
    assert "- User: Lähtö on 12.5.2026 Helsingistä." in text
