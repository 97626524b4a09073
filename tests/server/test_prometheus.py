"""Metrics as Prometheus reads them."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.server.common.prometheus import prometheus_text

_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@given(st.lists(st.text(min_size=1), unique=True, min_size=1))
def test_every_name_of_an_agent_comes_back_from_its_label(names: list[str]) -> None:
    text = prometheus_text({f"agent:{name}": {"turns": at} for at, name in enumerate(names)})
    head, *samples = text.removesuffix("\n").split("\n")
    assert head == "# TYPE autonomy_ctx_agent_turns_total counter"
    found = [
        re.fullmatch(r'autonomy_ctx_agent_turns_total\{agent="(.*)"\} (\d+)', one, re.DOTALL)
        for one in samples
    ]
    read = [re.sub(r'\\[\\"n]', lambda one: _UNESCAPED[one[0]], one[1]) for one in found if one is not None]
    assert read == names


def test_numbers_by_reason_get_a_label_and_what_is_no_number_is_left_out() -> None:
    metrics: dict[str, dict[str, Any]] = {
        "memory": {"reads": 3},
        "agent:a": {"summary_refused_by_reason": {"too long": 2}, "flag": True, "state": "fine", "mine": 0.5},
    }
    assert prometheus_text(metrics) == (
        "# TYPE autonomy_ctx_memory_reads_total counter\n"
        "autonomy_ctx_memory_reads_total 3\n"
        "# TYPE autonomy_ctx_agent_summary_refused_by_reason_total counter\n"
        'autonomy_ctx_agent_summary_refused_by_reason_total{agent="a",reason="too long"} 2\n'
        "# TYPE autonomy_ctx_agent_mine_total counter\n"
        'autonomy_ctx_agent_mine_total{agent="a"} 0.5\n'
    )
