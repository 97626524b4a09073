"""A summarizer that misses nothing: it knows what was planted, and speaks the protocol of a real model.

It reads the prompt it is given and nothing else: the stretch of conversation or the records to merge, the
length, the headings, and the facts that stand. Where the prompt asks for facts it writes their changes below
the line `FACTS`; where it does not, all that should be remembered stands in the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.messages.token_estimate import estimate_tokens
from benchmarks.fact_corpus import Case, Conversation

FACTS = "FACTS"
# Of the length that it may write, so that another way to count does not find it too long.
SHARE_OF_CAP = 0.8
_BLOCK = re.compile(r"<(conversation|segment) ([0-9a-f]{16})>\n(.*?)\n</\1 \2>", re.DOTALL)
_CAP = re.compile(r"[Aa]t most (\d+) tokens")
_STANDING = re.compile(r"^\W*(F\d+) (\w+): (.+)$", re.MULTILINE)
_ASKS_FACTS = re.compile(rf"\b{FACTS}\b")
_MISSING = re.compile(r"It leaves out: (.+?)\.(?: [A-Z]|$)")
_SENTENCE = re.compile(r"^User: (.{20,90})", re.MULTILINE)
# What a heading that fits says, in this order of preference.
_HEADINGS = {
    "rule": ("rules", "forbidden", "goal"),
    "preference": ("rules", "forbidden", "goal"),
    "decision": ("decision", "done"),
    "value": ("facts and identifiers", "files and identifiers", "done"),
    "open": ("open", "next"),
    "artifact": ("artifacts", "files and identifiers", "done"),
    "id": ("artifacts", "files and identifiers", "done"),
    "talk": ("done", "facts and identifiers"),
}


@dataclass(frozen=True, slots=True)
class Note:
    """A line of a record: of a step of a case, or of the talk around."""

    kind: str
    text: str
    case: int | None = None
    step: int = 0


class PerfectSummarizer:
    """Answers at once; for one conversation."""

    name = "perfect"

    def __init__(self, conversation: Conversation, *, repeats_facts: bool = False) -> None:
        self._cases = conversation.cases
        # Whether a record says again what stands in the facts, as most models do.
        self._repeats_facts = repeats_facts

    async def complete_chat(
        self, messages: list[dict[str, Any]], stream: bool = False, max_tokens: int = 2048
    ) -> str:
        prompt = "\n".join(str(message.get("content") or "") for message in messages)
        blocks = _BLOCK.findall(prompt)
        source = "\n".join(text for _, _, text in blocks)
        is_merge = any(label == "segment" for label, _, _ in blocks)
        asks_facts = _ASKS_FACTS.search(_BLOCK.sub("", prompt)) is not None
        notes = self._recorded(source) if is_merge else self._spoken(source)
        changes = self._changes(notes, _standing(prompt)) if asks_facts and not is_merge else []
        if asks_facts and not is_merge and not self._repeats_facts:
            notes = [note for note in notes if note.kind in ("id", "artifact", "talk")]
        caps = [int(cap) for cap in _CAP.findall(prompt)]
        cap = int(min([max_tokens, *caps[-1:]]) * SHARE_OF_CAP)
        # A repair names what is missing.
        missing = _MISSING.findall(str(messages[-1].get("content") or ""))
        notes += [Note("talk", f"Also named: {names}") for names in missing]
        record = _written(notes, prompt, cap)
        return "\n".join([record, FACTS, *changes]) if changes else record

    def _spoken(self, source: str) -> list[Note]:
        """What a stretch of conversation says, only the newest of each case."""
        notes: list[Note] = []
        flat = source.replace("\n  ", "\n")
        for number, case in enumerate(self._cases):
            found = [at for at, step in enumerate(case.steps) if step.source in flat]
            if found and not (case.steps[found[-1]].text == "" and len(found) > 1):
                notes.append(_note(case, number, found[-1]))
        cases = [step.source for case in self._cases for step in case.steps]
        talk = [said for said in _SENTENCE.findall(source) if not any(one.startswith(said) for one in cases)]
        return [*notes, *(Note("talk", said) for said in talk[:2])]

    def _recorded(self, source: str) -> list[Note]:
        """What records say that are to be merged: of each case only the newest, no open item that is done."""
        lines = dict.fromkeys(line.removeprefix("- ") for line in source.split("\n") if line.startswith("- "))
        known = {
            _note(case, number, at).text: (number, at)
            for number, case in enumerate(self._cases)
            for at in range(len(case.steps))
        }
        newest: dict[int, int] = {}
        for line in lines:
            if line in known:
                number, at = known[line]
                newest[number] = max(newest.get(number, 0), at)
        notes: list[Note] = []
        for line in lines:
            if line not in known:
                notes.append(Note("talk", line))
            elif newest[known[line][0]] == known[line][1]:
                notes.append(_note(self._cases[known[line][0]], *known[line]))
        return notes

    def _changes(self, notes: Iterable[Note], standing: Mapping[str, str]) -> list[str]:
        lines: list[str] = []
        for note in notes:
            if note.case is None or note.kind == "id":
                continue
            steps = self._cases[note.case].steps
            before = [step.text for step in steps[: note.step]]
            replaced = next((fact for fact, text in standing.items() if text.startswith(tuple(before))), None)
            if not steps[note.step].text:
                lines += [f"x {replaced}"] if replaced else []
            elif replaced:
                lines.append(f"~ {replaced} {note.kind}: {note.text}")
            elif not any(text.startswith(note.text) for text in standing.values()):
                lines.append(f"+ {note.kind}: {note.text}")
        return lines


def _note(case: Case, number: int, at: int) -> Note:
    step = case.steps[at]
    return Note(case.kind, step.text or f"Done: {step.source}", number, at)


def _standing(prompt: str) -> dict[str, str]:
    """The facts that the prompt shows, by their ids."""
    return {fact: text.strip() for fact, _, text in _STANDING.findall(prompt)}


def _written(notes: Sequence[Note], prompt: str, cap: int) -> str:
    """Notes under the prompt's headings, within so many tokens: talk goes first, then some identifiers."""
    firm = [note for note in notes if note.kind not in ("id", "talk")]
    names = [note for note in notes if note.kind == "id"]
    talk = [note for note in notes if note.kind == "talk"]
    chosen = [*firm, *names, *talk]
    while talk and estimate_tokens(_record(chosen, prompt)) > cap:
        talk.pop(0)
        chosen = [*firm, *names, *talk]
    while names and estimate_tokens(_record(chosen, prompt)) > cap:
        # Evenly over the conversation: one of any eight, or the oldest of fewer.
        names = [note for at, note in enumerate(names) if at % 8 != min(len(names) // 8, 7)]
        chosen = [*firm, *names]
    while len(firm) > 1 and estimate_tokens(_record(chosen, prompt)) > cap:
        firm.pop(0)
        chosen = list(firm)
    return _record(chosen, prompt)


def _record(notes: Sequence[Note], prompt: str) -> str:
    under: dict[str, list[str]] = {}
    for note in notes:
        under.setdefault(_heading(note.kind, prompt), []).append(f"- {note.text}")
    return "\n".join(line for heading, lines in under.items() for line in (heading, *lines)) or "Nothing new."


def _heading(kind: str, prompt: str) -> str:
    rules = prompt.partition("\n<")[0].split("\n")
    for word in _HEADINGS[kind]:
        for line in rules:
            # A heading of a schema says how long its section should be.
            if word in line.lower() and (len(line) < 120 or line.endswith(" tokens)")):
                return line.partition(" (")[0]
    return _HEADINGS[kind][0].capitalize()
