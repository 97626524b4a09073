"""What `make bench-peers` judges and prints, without the frameworks that it measures."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.__main__ import ROOT, facts, hold, said
from benchmarks.peers.report import (
    HEADINGS,
    Row,
    count_waits,
    find_broken_rule,
    make_row,
    make_table,
    percentile,
    time_beside_model,
)
from benchmarks.peers.settings import LEVELS, PEERS, Level
from benchmarks.peers.upstream import Upstream
from benchmarks.provider import LEAST, STEP, Provider
from benchmarks.talk import CALLS, FACTS, TURNS, calls_tool, planted_fact, steps

CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}, {"id": "b"}]}
RESULTS = [{"role": "tool", "tool_call_id": call, "content": "4"} for call in "ab"]
USER: dict[str, Any] = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([USER, CALL, *RESULTS], None),
        ([USER, CALL, *reversed(RESULTS), USER], None),
        ([USER, CALL], "call a has no result"),
        ([USER, CALL, RESULTS[0], USER], "call b has no result"),
        ([USER, CALL, RESULTS[0], USER, RESULTS[1]], "call b has no result"),
        ([USER, CALL, RESULTS[1], CALL], "call a has no result"),
        ([RESULTS[0], USER], "result a does not follow its call"),
        ([USER, CALL, *RESULTS, RESULTS[0]], "result a does not follow its call"),
        ([USER, {"role": "assistant", "content": ""}, USER], "an assistant says and calls nothing"),
    ],
)
def test_a_request_that_an_api_would_refuse_is_found(messages: list[Any], rule: str | None) -> None:
    assert find_broken_rule(messages) == rule


def _seen(kind: str, began: float, ended: float, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "began": began, "ended": ended, "sent": 9, "broken": None, **more}


def test_a_turn_waits_for_a_summary_that_ends_inside_it() -> None:
    turns = [{"began": 0, "ended": 10}, {"began": 20, "ended": 30}, {"began": 40, "ended": 50}]
    waited, background = _seen("summary", 1, 9), _seen("summary", 25, 35)
    across, reply = _seen("summary", 35, 45), _seen("turn", 41, 49)
    assert count_waits(turns, [waited, background, across, reply]) == 1
    # Two summaries in one turn are one wait.
    assert count_waits(turns, [waited, waited]) == 1


def test_time_beside_the_model_leaves_out_its_replies_alone() -> None:
    turn = {"began": 0.0, "ended": 10.0}
    requests = [_seen("turn", 1, 3), _seen("summary", 3, 6), _seen("turn", 6, 8), _seen("turn", 11, 12)]
    assert time_beside_model(turn, requests) == 6
    assert percentile([5, 1, 4, 2, 3], 0.95) == 5


def test_the_provider_caches_beginnings_in_steps_from_the_least_on() -> None:
    def cached(shared: str) -> int:
        provider = Provider()
        for end in ("one", "two"):
            provider.ask([{"role": "user", "content": f"{shared} {end}"}], "yes")
        return provider.cached

    word = "order "
    assert cached(word * (LEAST // 2)) == 0
    assert (once := cached(word * (LEAST * 3))) >= LEAST
    assert once % STEP == 0


def test_what_a_summary_began_with_is_no_longer_cached_when_it_changes() -> None:
    provider = Provider()
    for first in ("one", "two"):
        provider.ask([{"role": "user", "content": f"{first} {'order ' * LEAST * 3}"}], "yes")
    assert provider.cached == 0


ROWS = [
    Row(title="One 1.0", level="20/10", cost=366_543.2, waits=3, p95_ms=1234.4, facts="20 of 20"),
    Row(title="Another framework", level="all", error="Traceback ...\nImportError: no | module\n"),
]


def test_a_peer_that_fails_has_its_error_in_its_row() -> None:
    head, first, second = make_table(ROWS).splitlines()
    assert head.split()[:3] == ["system", "level", "cost"]
    assert "367k" in first
    assert "1,234 ms" in first
    assert second == "Another framework  all    failed: ImportError: no | module"
    assert len(head) == len(first)


def test_a_table_in_markdown_has_all_columns_in_every_row() -> None:
    lines = make_table(ROWS, markdown=True).splitlines()
    assert {line.count("|") for line in lines} == {len(HEADINGS) + 1}
    assert "failed: ImportError: no / module" in lines[-1]


def test_a_table_of_failures_alone_names_them_all() -> None:
    assert make_table([Row(title="One", level="all", error="\n")]).splitlines()[1:] == [
        "One     all    failed: ended without a word"
    ]


def test_a_row_has_what_client_and_provider_saw() -> None:
    turns = [{"began": at, "ended": at + 2.0, "cpu": cpu} for at, cpu in ((0, 9.0), (5, 0.1), (10, 0.3))]
    requests = [
        _seen("turn", 1, 2),
        _seen("summary", 5, 6, sent=900),
        _seen("turn", 6, 7, sent=40, broken="call a has no result"),
    ]
    upstream = {"cost": 7.0, "context": "... the code is 4711 ...", "requests": requests}
    client = {"turns": turns, "stored": ["said: one"]}
    row = make_row("x", "all", client, upstream, said=["one", "two"], facts=["code is 4711", "code is 12"])
    assert (row.summaries, row.waits, row.largest, row.refused, row.lost) == (1, 1, 40, 1, 1)
    assert row.facts == "1 of 2"
    assert row.cpu_ms == pytest.approx(200)


def test_every_peer_has_the_same_levels_and_a_short_module_of_its_own() -> None:
    assert LEVELS[0] == Level(ceiling=20, floor=10)
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    for module in {peer.module for peer in PEERS}:
        levels = [peer.level for peer in PEERS if peer.module == module and isinstance(peer.level, Level)]
        assert levels in ([*LEVELS], [])
        text = (ROOT / "benchmarks" / "peers" / f"{module}.py").read_text()
        assert len(text.splitlines()) <= 80
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.AsyncFunctionDef)]
        assert [argument.arg for argument in functions[-1].args.args] == ["url", "folder", "level"]


def test_a_peer_that_is_not_installed_has_an_error(tmp_path: Path) -> None:
    row = hold(PEERS[0], "http://127.0.0.1:1", str(tmp_path / "no-python"))
    assert row.error.startswith("FileNotFoundError")
    assert (row.title, row.level) == ("autonomy_ctx", "20/10")


def test_versions_are_exact_and_name_no_host() -> None:
    for path in (ROOT / "benchmarks" / "peers").glob("constraints*.txt"):
        lines = path.read_text().splitlines()
        assert lines
        assert all(line.count("==") == 1 and "/" not in line and "@" not in line for line in lines)


def test_the_conversation_is_the_one_that_is_named() -> None:
    assert sum(calls_tool(number) for number in range(TURNS)) == CALLS
    assert len(said()) == 2 * TURNS + CALLS
    assert len(facts()) == len(FACTS) == 20


async def _ask(upstream: Upstream, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"model": "any", "messages": [*messages], **more}
    answer = await upstream.answer("POST", "/some/v1/chat/completions", body)
    assert answer is not None
    message: dict[str, Any] = answer["choices"][0]["message"]
    return message


async def test_the_model_answers_by_the_last_question_alone() -> None:
    upstream = Upstream(0, 0)
    number = next(number for number in range(TURNS) if calls_tool(number))
    (asked,), (call, result), (answer,) = steps(number)
    rules = {"role": "system", "content": "Be brief."}
    assert (await _ask(upstream, rules, asked))["tool_calls"] == call["tool_calls"]
    assert await _ask(upstream, rules, asked, call, result) == answer
    assert await _ask(upstream, USER, asked, call, result) == answer
    report = await upstream.answer("GET", "/some/report", {})
    assert report is not None
    assert [one["kind"] for one in report["requests"]] == ["turn"] * 3
    assert asked["content"] in report["context"]
    assert await upstream.answer("GET", "/some/else", {}) is None


async def test_a_summary_is_short_and_has_every_planted_fact_it_reads() -> None:
    upstream = Upstream(0, 0)
    told = "\n".join(message["content"] for message in [steps(number)[0][0] for number in range(12)])
    prompt = {"role": "user", "content": f"Summarize this conversation:\n{told}"}
    summary = (await _ask(upstream, prompt))["content"]
    assert all(planted_fact(number) in summary for number in FACTS if number < 12)
    assert len(summary) < len(told) / 3
    shorter = (await _ask(upstream, prompt, max_tokens=100))["content"]
    assert len(shorter) < len(summary)


async def test_facts_are_listed_as_they_are_asked_for() -> None:
    upstream = Upstream(0, 0)
    questions = [steps(number)[0][0] for number in range(5)]
    extract = {"role": "user", "content": "Extract.\n<existing_facts>\n\n</existing_facts>"}
    listed = (await _ask(upstream, *questions, extract))["content"]
    assert f"<fact>{planted_fact(3)}</fact>" in listed
    assert listed.count("<fact>") > 1
    known = "\n".join(f"<fact>Order {number}.</fact>" for number in range(60))
    existing = f"<existing_facts><fact>{planted_fact(3)}</fact>\n{known}</existing_facts>"
    condense = {"role": "user", "content": f"You are a fact condensing system. {existing}"}
    condensed = (await _ask(upstream, condense))["content"]
    assert planted_fact(3) in condensed
    assert "Order 59." in condensed
    assert condensed.count("<fact>") < 50
