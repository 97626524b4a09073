"""Talks that were written by hand to measure recall with, and questions as a person asks them weeks later.

A file in `recall_cases` is one conversation: `= names of the two who talk`, `@ time` for a session, then a
line for each message, `A` or `B` with a label where a question needs it. Questions stand at the end:
`? kind | text | labels of all evidence`, the message with the answer last. Small talk from
`chatter.json` is woven between them, the same every time. Files that begin with `held_` were not looked at
while recall was changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.recall_corpus import Chance, Question

FOLDER = Path(__file__).with_name("recall_cases")
HELD_OUT = "held_"
# Pairs of small talk for each session, at least and more by chance.
TALK_PAIRS, CHAT_PAIRS = (8, 7), (4, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A conversation and its questions. In a `talk` two people talk, in a `chat` one and an assistant."""

    name: str
    kind: str
    is_held_out: bool
    messages: list[dict[str, Any]]
    questions: list[Question]


def read_cases() -> list[Case]:
    """All conversations, in order of their names."""
    return [_read_case(path) for path in sorted(FOLDER.glob("*.txt"))]


def _read_case(path: Path) -> Case:
    name = path.stem.removeprefix(HELD_OUT)
    kind = name.partition("_")[0]
    chance, chatter = Chance(sum(map(ord, name))), json.loads((FOLDER / "chatter.json").read_text())[kind]
    speakers: list[str] = []
    sessions: list[tuple[datetime, list[tuple[str, str, str]]]] = []
    asked: list[list[str]] = []
    for line in path.read_text().splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "=":
            speakers = rest.split(", ")
        elif mark == "@":
            sessions.append((datetime.fromisoformat(f"{rest}:00+00:00"), []))
        elif mark == "?":
            asked.append([part.strip() for part in rest.split("|")])
        else:
            who, _, text = line.partition(": ")
            speaker, _, label = who.partition(" ")
            sessions[-1][1].append((speaker, label, text))
    messages: list[dict[str, Any]] = []
    ids: dict[str, str] = {}
    for start, script in sessions:
        time = start
        for speaker, label, text in _with_chatter(script, kind, chatter, chance):
            message_id = f"m{len(messages) + 1}"
            if label:
                assert label not in ids, f"{path.name}: label {label} is there twice"
                ids[label] = message_id
            said = text if kind == "chat" else f"{speakers['AB'.index(speaker)]}: {text}"
            role = "user" if speaker == "A" else "assistant"
            messages.append({"id": message_id, "role": role, "content": said, "timestamp": time.isoformat()})
            time += timedelta(seconds=20 + chance.below(160))
    questions = [
        Question(
            text=text, kind=question_kind, evidence=tuple(ids[label.strip()] for label in labels.split(","))
        )
        for question_kind, text, labels in asked
    ]
    return Case(
        name=name,
        kind=kind,
        is_held_out=path.stem.startswith(HELD_OUT),
        messages=messages,
        questions=questions,
    )


def _with_chatter(
    script: list[tuple[str, str, str]], kind: str, chatter: dict[str, list[str]], chance: Chance
) -> list[tuple[str, str, str]]:
    """The lines of a session with small talk before, after and between what belongs together."""
    least, more = TALK_PAIRS if kind == "talk" else CHAT_PAIRS
    starts = [
        at
        for at, (speaker, _, _) in enumerate(script)
        if speaker == "A" and (at == 0 or (script[at - 1][0] == "B" and not script[at - 1][2].endswith("?")))
    ]
    places = sorted(chance.of([*starts, len(script)]) for _ in range(least + chance.below(more)))
    woven: list[tuple[str, str, str]] = []
    for at in range(len(script) + 1):
        for _ in range(places.count(at)):
            woven += [(speaker, "", text) for speaker, text in _pair(kind, chatter, chance)]
        woven += script[at : at + 1]
    return woven


def _pair(kind: str, chatter: dict[str, list[str]], chance: Chance) -> list[tuple[str, str]]:
    if kind == "talk":
        return [
            (who, " ".join(chance.of(chatter[part]) for part in ("openers", "bodies", "closers")).strip())
            for who in "AB"
        ]
    reply = [chance.of(chatter[part]) for part in ("replies", "details", "details")]
    lines = [("A", chance.of(chatter["asks"])), ("B", " ".join(dict.fromkeys(reply)))]
    if chance.below(3) == 0:
        lines += [("A", chance.of(chatter["thanks"])), ("B", chance.of(chatter["welcomes"]))]
    return lines
