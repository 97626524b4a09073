"""The benchmark of epochs: its view of requests, and a short conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.testing.providers import ProviderRequest
from autonomy_ctx.testing.providers.cache import CacheUse
from benchmarks.epoch_requests import RequestLog
from benchmarks.epochs import CLAUDE, LINES, MODELS, SCENARIOS, Talk, write_board

pytestmark = pytest.mark.anyio
CONTEXT = ComposedContext(
    scope="ana", conversation="trip", messages=[], counts=[], sections=[], calibration=1.0
)
LONG = "word " * 600


def request_of(
    *texts: str, marked: tuple[int, ...] = (), cached: int = 0, written: int = 0
) -> ProviderRequest:
    """A request of Claude, in which user and assistant take turns."""
    messages = []
    for at, text in enumerate(texts):
        block: dict[str, Any] = {"type": "text", "text": text}
        if at in marked:
            block["cache_control"] = {"type": "ephemeral"}
        messages.append({"role": ("user", "assistant")[at % 2], "content": [block]})
    return ProviderRequest(
        path="/v1/messages",
        headers={},
        body={"messages": messages},
        model=CLAUDE,
        reply=[{"type": "thinking", "thinking": ""}, {"type": "text", "text": f"answer {len(texts)}"}],
        use=CacheUse(cached=cached, written=written),
    )


def log_of(*requests: ProviderRequest) -> RequestLog:
    log = RequestLog()
    for request in requests:
        log.add(request, CONTEXT, begins_process=False)
    return log


def test_a_request_that_only_moves_its_marks_goes_on() -> None:
    first, second = request_of(LONG, marked=(0,)), request_of(LONG, "answer 1", "next", marked=(2,))
    assert [one.is_end for one in log_of(first, second).sent] == [False, False]


def test_a_changed_beginning_is_an_end_whatever_the_library_says() -> None:
    log = log_of(request_of(LONG, marked=(0,)), request_of(f"{LONG} and more", "answer 1", "next"))
    assert [(one.is_end, one.end_reason) for one in log.sent] == [(False, None), (True, None)]
    assert log.sent[1].possible_reads == log.sent[1].possible_thinking == 0
    assert not log.sent[1].continues


def test_tokens_behind_a_mark_that_are_not_read_are_missed() -> None:
    log = log_of(
        request_of(LONG, marked=(0,), written=600),
        request_of(LONG, "answer 1", "next", marked=(2,), cached=0, written=603),
        request_of(LONG, "answer 1", "next", "answer 3", "last", cached=603),
    )
    assert [(one.possible_reads, one.reads) for one in log.sent] == [(0, 0), (600, 0), (603, 603)]


def test_thinking_is_possible_for_each_reply_of_the_epoch_that_is_shown() -> None:
    log = log_of(
        request_of("one"),
        request_of("one", "answer 1", "two"),
        request_of("other", "answer 1", "two", "answer 3", "three"),
    )
    assert [one.possible_thinking for one in log.sent] == [0, 1, 0]


@pytest.mark.parametrize("number", [1, LINES, 39])
def test_one_line_of_the_board_changes_in_each_turn(number: int) -> None:
    before, now = write_board(number - 1).splitlines(), write_board(number).splitlines()
    assert len(now) == LINES
    assert sum(one != other for one, other in zip(before, now, strict=True)) == 1


@pytest.mark.parametrize("model", MODELS)
async def test_a_conversation_with_restarts_is_never_refused(tmp_path: Path, model: str) -> None:
    scenario = next(one for one in SCENARIOS if one.after_turn == "restart")
    talk = await Talk(scenario, model, "log", f"sqlite:///{tmp_path}/m.db", turns=6).hold()
    assert len(talk.sent) == 8
    assert sum(one.begins_process for one in talk.sent) == 5
    assert (talk.server.refused, talk.ends, talk.disagreements) == ([], 0, 0)
    assert talk.thinking == talk.possible_thinking > 0
    assert 0 < talk.largest_row <= 2048
