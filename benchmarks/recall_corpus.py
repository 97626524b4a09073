"""A long talk to measure recall with: months of sessions, and questions whose evidence is known.

One user and one assistant talk in many sessions. Facts are said outright (a little under half), asked
for and answered briefly, or come out two messages after their subject was named; some change later, lists
are spread over sessions, and orders are looked up with a tool. Between them stands talk about the same
subjects in the same words that says nothing. A question's evidence is the message with the fact, also where
the subject is only named in the message before: that is how people talk. A few questions cannot be
answered by words alone, because what links two messages is not in the question.

Frozen: `digest` is written down in `recall`, and no figure is comparable after a change.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

SEED, SESSIONS = 20_240, 160
CHANGES, LISTS, PAIRS, LINKS, AGAIN = 50, 10, 50, 14, 60
START = datetime(2024, 1, 8, 8, 0, tzinfo=UTC)

# `{s}` is a subject, `{v}` a value, `{o}` the value it had before. A fact is `said` outright, `asked` for and
# answered, or `told` while talking about something near; `idle` sentences have the same subjects and no fact.
WORDS: dict[str, Any] = json.loads(Path(__file__).with_name("recall_words.json").read_text())


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the ids of all messages that are needed to answer it."""

    text: str
    evidence: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The messages in order, as dicts with ids and timestamps, and the questions."""

    messages: list[dict[str, Any]]
    questions: list[Question]

    @property
    def digest(self) -> str:
        """The SHA-256 of everything that is in it."""
        asked = [[one.text, one.evidence, one.kind] for one in self.questions]
        return hashlib.sha256(json.dumps([self.messages, asked], sort_keys=True).encode()).hexdigest()


@dataclass(slots=True)
class Exchange:
    """Some messages in a row, and which of them is the one that a question needs."""

    lines: list[dict[str, Any]]
    evidence: int = 0
    id: str = ""


@dataclass(slots=True)
class Fact:
    """What is true of a subject, and how it is said."""

    matter: dict[str, Any]
    subject: str
    value: str
    manner: str
    exchange: Exchange
    later: Exchange | None = None


class Chance:
    """Choices that come out the same on every version of Python."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random

    def below(self, count: int) -> int:
        return int(self._random() * count)

    def of(self, choices: Any) -> Any:
        return choices[self.below(len(choices))]

    def shuffled(self, values: Any) -> list[Any]:
        left, made = list(values), []
        while left:
            made.append(left.pop(self.below(len(left))))
        return made


@dataclass(slots=True)
class Script:
    """Sessions that are being filled."""

    chance: Chance
    sessions: list[list[Exchange]] = field(default_factory=lambda: [[] for _ in range(SESSIONS)])

    def put(self, exchange: Exchange, first: int = 0, last: int = SESSIONS) -> int:
        """Place an exchange in a session between two; which one it was."""
        session = first + self.chance.below(last - first)
        self.sessions[session].append(exchange)
        return session


def make(seed: int = SEED) -> Corpus:
    """The corpus; the same every time."""
    chance = Chance(seed)
    script = Script(chance)
    facts = _facts(chance)
    for fact in facts:
        fact.exchange = _stated(fact, chance)
    changing = chance.shuffled(facts)[:CHANGES]
    for fact in facts:
        if fact in changing:
            early = script.put(fact.exchange, 0, SESSIONS * 2 // 3)
            fact.later = _changed(fact, chance)
            script.put(fact.later, early + 1)
        else:
            script.put(fact.exchange)
    lists = _lists(chance, script)
    orders = _orders(chance, script)
    messages = _written(script, chance)
    questions = _questions(facts, chance) + _list_questions(lists, chance) + _order_questions(orders, chance)
    return Corpus(messages=messages, questions=chance.shuffled(questions))


def _facts(chance: Chance) -> list[Fact]:
    made: list[Fact] = []
    for matter in list(WORDS["matters"].values()):
        values = chance.shuffled(matter["values"])
        for number, subject in enumerate(matter["subjects"]):
            manner = chance.of(("said", "said", "said", "said", "asked", "asked", "asked", "told", "told"))
            made.append(Fact(matter, subject, values[number % len(values)], manner, Exchange([])))
    return made


def _stated(fact: Fact, chance: Chance) -> Exchange:
    def fill(text: str) -> str:
        return _filled(text, s=fact.subject, v=fact.value)

    noted = _assistant(chance.of(WORDS["noted"]))
    if fact.manner == "said":
        text = chance.of(WORDS["openers"]) + fill(chance.of(fact.matter["said"])) + chance.of(WORDS["tails"])
        return Exchange([_user(text), noted])
    if fact.manner == "asked":
        question, answer = chance.of(fact.matter["asked"])
        return Exchange([_assistant(fill(question)), _user(fill(answer)), noted], 1)
    opening, prompt, answer = chance.of(fact.matter["told"])
    return Exchange([_user(fill(opening)), _assistant(fill(prompt)), _user(fill(answer)), noted], 2)


def _changed(fact: Fact, chance: Chance) -> Exchange:
    value = chance.of([value for value in fact.matter["values"] if value != fact.value])
    text = _filled(chance.of(fact.matter["changed"]), s=fact.subject, v=value, o=fact.value)
    return Exchange([_user(chance.of(WORDS["openers"]) + text), _assistant(chance.of(WORDS["noted"]))])


def _lists(chance: Chance, script: Script) -> dict[str, list[Exchange]]:
    things, made = chance.shuffled(WORDS["pack"]), {}
    for number, trip in enumerate(WORDS["trips"][:LISTS]):
        made[trip] = [
            Exchange([_user(_filled(chance.of(WORDS["packing"]), s=trip, v=thing)), _assistant(reply)])
            for thing in things[3 * number : 3 * number + 3]
            for reply in [chance.of(WORDS["noted"])]
        ]
        for exchange in made[trip]:
            script.put(exchange)
    return made


def _orders(chance: Chance, script: Script) -> dict[str, Exchange]:
    made = {}
    for number, thing in enumerate(WORDS["orders"]):
        call_id = f"order-{number}"
        call = {"id": call_id, "name": "find_order", "arguments": json.dumps({"query": thing})}
        result = {
            "order": f"ORD-{4000 + 37 * number}",
            "status": chance.of(("shipped", "packed", "in transit", "at the depot")),
            "total": f"{20 + chance.below(400)}.{chance.below(90) + 10} EUR",
            "carrier": chance.of(WORDS["carriers"]),
            "expected": f"{chance.of(WORDS['weekdays'])} {chance.below(28) + 1}",
            "parcel": f"{chance.of('ABCDEFGH')}{100_000 + chance.below(900_000)}",
            "history": [f"depot {chance.below(90) + 10}: scanned" for _ in range(4)],
        }
        made[thing] = Exchange(
            [
                _user(_filled(chance.of(WORDS["wishes"]), s=thing)),
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call_id, "content": json.dumps(result)},
                _assistant(chance.of(WORDS["after_lookup"])),
            ],
            2,
        )
        script.put(made[thing])
    return made


def _idle(chance: Chance) -> Exchange:
    """Talk that no question is about."""
    if chance.below(3) == 0:
        lines = [_user(chance.of(WORDS["chat"])), _assistant(_reply(chance, None))]
    else:
        matter = chance.of(list(WORDS["matters"].values()))
        subject = chance.of(matter["subjects"])
        text = (
            chance.of(WORDS["openers"])
            + _filled(chance.of(matter["idle"]), s=subject)
            + chance.of(WORDS["tails"])
        )
        lines = [_user(text), _assistant(_reply(chance, subject))]
    if chance.below(3) == 0:
        lines += [_user(chance.of(WORDS["thanks"])), _assistant(chance.of(WORDS["replies"]))]
    return Exchange(lines)


def _reply(chance: Chance, subject: str | None) -> str:
    said = [chance.of(WORDS["replies"]) for _ in range(1 + chance.below(3))]
    if subject is not None and chance.below(2) == 0:
        said.insert(0, _filled(chance.of(WORDS["echoes"]), s=subject))
    return " ".join(dict.fromkeys(said))


def _written(script: Script, chance: Chance) -> list[dict[str, Any]]:
    """The sessions one after the other, each with its small talk, ids and times."""
    messages: list[dict[str, Any]] = []
    day = START
    for session in script.sessions:
        talk = chance.shuffled([*session, *(_idle(chance) for _ in range(8 + chance.below(10)))])
        time = day + timedelta(minutes=chance.below(600))
        for exchange in talk:
            calls = ""
            for number, line in enumerate(exchange.lines):
                message = {**line, "id": f"m{len(messages) + 1}", "timestamp": time.isoformat()}
                if "tool_calls" in line:
                    calls = f"call-{len(messages) + 1}"
                    message["tool_calls"] = [{**line["tool_calls"][0], "id": calls}]
                if line["role"] == "tool":
                    message["tool_call_id"] = calls
                if number == exchange.evidence:
                    exchange.id = message["id"]
                messages.append(message)
                time += timedelta(seconds=20 + chance.below(160))
        day += timedelta(days=1 + chance.below(3))
    return messages


def _questions(facts: list[Fact], chance: Chance) -> list[Question]:
    made: list[Question] = []
    for fact in facts:
        text = _filled(chance.of(fact.matter["questions"]), s=fact.subject)
        if fact.later is not None:
            both = (fact.exchange.id, fact.later.id)
            made.append(Question(text=f"{text} And what was it before?", evidence=both, kind="changed"))
        else:
            made.append(Question(text=text, evidence=(fact.exchange.id,), kind=fact.manner))
    steady = [fact for fact in facts if fact.later is None]
    for one in chance.shuffled(steady)[:PAIRS]:
        other = chance.of([fact for fact in steady if fact.matter is one.matter and fact is not one])
        text = _filled(chance.of(one.matter["questions"]), s=one.subject)
        made.append(
            Question(
                text=f"{text} And the same for {other.subject}?",
                evidence=(one.exchange.id, other.exchange.id),
                kind="pair",
            )
        )
    for fact in chance.shuffled(steady)[:AGAIN]:
        known = {question.text for question in made}
        other_words = [_filled(text, s=fact.subject) for text in fact.matter["questions"]]
        text = chance.of([text for text in other_words if text not in known])
        made.append(Question(text=text, evidence=(fact.exchange.id,), kind=fact.manner))
    homes = {fact.subject: fact for fact in steady if fact.matter is WORDS["matters"]["home"]}
    gifts = [fact for fact in steady if fact.matter is WORDS["matters"]["gift"] and fact.subject in homes]
    for gift in gifts[:LINKS]:
        made.append(
            Question(
                text=f"In which city lives the one who gave me the {gift.value}?",
                evidence=(gift.exchange.id, homes[gift.subject].exchange.id),
                kind="link",
            )
        )
    return made


def _list_questions(lists: dict[str, list[Exchange]], chance: Chance) -> list[Question]:
    return [
        Question(
            text=_filled(chance.of(WORDS["packing_questions"]), s=trip),
            evidence=tuple(exchange.id for exchange in exchanges),
            kind="list",
        )
        for trip, exchanges in lists.items()
    ]


def _order_questions(orders: dict[str, Exchange], chance: Chance) -> list[Question]:
    return [
        Question(text=_filled(text, s=thing), evidence=(exchange.id,), kind="result")
        for thing, exchange in orders.items()
        for text in chance.shuffled(WORDS["parcel_questions"])[:2]
    ]


def _filled(text: str, **values: str) -> str:
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text[:1].upper() + text[1:]


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}
