"""Evidence that recall shows on LoCoMo: `python -m benchmarks locomo PATH`, beside plain BM25.

`PATH` is a checkout of `snap-research/locomo` on GitHub, whose data stay there: ten conversations of two
people over months, in `data/locomo10.json` or in the archive `data/locomo10.zip`. The questions of category
5, which have no answer, are left out. The figures are as in `beam`. The data have facts ("observations") and
a summary of each session, which a model wrote: a row of its own has them as our facts and summaries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from benchmarks.evidence import BUDGETS, Asked, Derived, PublicCase, measure_cases, show_tallies
from benchmarks.table import Figure

MIN_ALL = dict(zip(BUDGETS, (0.80, 0.86, 0.90), strict=True))
UNANSWERABLE = 5
_ID = re.compile(r"D\d+:\d+")


async def measure(path: Path) -> list[Figure]:
    cases = [_read_case(*one) for one in _read_files(path)]
    tallies = await measure_cases(cases)
    show_tallies(f"LoCoMo: {len(cases)} conversations", tallies, ("BM25", "recall"))
    ours, floor = tallies["recall"], tallies["BM25"]
    return [
        Figure(
            name=f"all evidence in {budget:,} tokens",
            ours=f"{ours.mean(f'all in {budget}'):.3f}",
            floor=f"BM25 {floor.mean(f'all in {budget}'):.3f}",
            value=ours.mean(f"all in {budget}"),
            bound=least,
            at_most=False,
        )
        for budget, least in MIN_ALL.items()
    ]


def _read_files(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    whole = path / "data" / "locomo10.json"
    if whole.exists():
        yield from ((str(one["sample_id"]), one) for one in json.loads(whole.read_text(encoding="utf-8")))
        return
    with ZipFile(path / "data" / "locomo10.zip") as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json") and "__MACOSX" not in name:
                yield Path(name).stem, json.loads(archive.read(name))


def _read_case(name: str, sample: dict[str, Any]) -> PublicCase:
    # The file of all conversations has the sessions of one in a dict of their own.
    talk = sample.get("conversation", sample)
    messages = list(_read_messages(talk))
    known = frozenset(message["id"] for message in messages)
    questions = [
        Asked(asked["question"], f"category {asked['category']}", evidence)
        for asked in sample["qa"]
        if asked["category"] != UNANSWERABLE
        and (evidence := known.intersection(_ID.findall(" ".join(asked.get("evidence", ())))))
    ]
    facts, summaries = list(_read_facts(talk, known)), list(_read_summaries(talk))
    return PublicCase(name=name, messages=messages, questions=questions, facts=facts, summaries=summaries)


def _sessions(talk: Mapping[str, Any]) -> Iterator[str]:
    number = 1
    while f"session_{number}" in talk:
        yield f"session_{number}"
        number += 1


def _read_facts(talk: Mapping[str, Any], known: frozenset[str]) -> Iterator[Derived]:
    for session in _sessions(talk):
        for facts in talk.get(f"{session}_observation", {}).values():
            for text, sources in facts:
                for source in [sources] if isinstance(sources, str) else sources:
                    if source in known:
                        yield Derived(source, source, text)


def _read_summaries(talk: Mapping[str, Any]) -> Iterator[Derived]:
    for session in _sessions(talk):
        said = [one["dia_id"] for one in talk[session]]
        yield Derived(said[0], said[-1], talk[f"{session}_summary"])


def _read_messages(talk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for session in _sessions(talk):
        began = f"{talk[f'{session}_date_time']} +0000"
        time = datetime.strptime(began, "%I:%M %p on %d %B, %Y %z")
        for said in talk[session]:
            time += timedelta(seconds=30)
            picture = f" [shares {said['blip_caption']}]" if said.get("blip_caption") else ""
            yield {
                "id": said["dia_id"],
                "role": "user" if said["speaker"] == talk["speaker_a"] else "assistant",
                "content": f"{said['speaker']}: {said['text']}{picture}",
                "timestamp": time.isoformat(),
            }
