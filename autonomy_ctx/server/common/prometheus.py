"""A node's counters in the text format that Prometheus reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "autonomy_ctx"
_AGENT = "agent:"
# Numbers that also go down.
_GAUGES = frozenset(
    {
        "summary_coverage_lag_messages",
        "summary_coverage_lag_seconds",
        "summary_seconds",
        "summary_prefix_reuse",
    }
)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


def prometheus_text(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """Counters by group and name, as `node.get_metrics()` gives them, as text.

    All samples of one name stand together. Counters end in `_total`; what is no number is left out.
    """
    found: dict[str, list[str]] = {}
    for group, counters in metrics.items():
        labels = {"agent": group.removeprefix(_AGENT)} if group.startswith(_AGENT) else {}
        kind = "agent" if labels else group
        for name, value in counters.items():
            samples = found.setdefault(_metric(kind, name), [])
            for more, number in _numbers(name, value):
                samples.append(f"{_labels(labels | more)} {number!r}")
    lines: list[str] = []
    for metric, samples in found.items():
        if samples:
            lines.append(f"# TYPE {metric} {'counter' if metric.endswith('_total') else 'gauge'}")
            lines += [metric + sample for sample in samples]
    return "".join(f"{line}\n" for line in lines)


def _metric(kind: str, name: str) -> str:
    plain = _NOT_IN_NAMES.sub("_", f"{PREFIX}_{kind}_{name}")
    return plain if name in _GAUGES else f"{plain}_total"


def _numbers(name: str, value: Any) -> Iterator[tuple[dict[str, str], int | float]]:
    """A number, or those of a dict such as `refused_by_reason`, told apart by a label `reason`."""
    if isinstance(value, Mapping):
        label = _NOT_IN_NAMES.sub("_", name.rpartition("_by_")[2]) if "_by_" in name else "kind"
        for key, number in value.items():
            for _, one in _numbers(name, number):
                yield {label: str(key)}, one
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield {}, value


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items()) + "}"


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
