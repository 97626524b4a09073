"""What is known of a user in a new conversation: by the profile, and by recall from the scope.

One user has 20 conversations with much talk (that of `recall`) and says 60 things of himself in them; some
change in a later one. The sentences of the first half are such as the rules of profiles are documented for;
those of the second half were written afterwards and are held out. Each question is asked in a new
conversation, where nothing of it was said. No model answers.

- `profile`: the answer stands in the profile that the context shows, and nothing that has ended;
- `recall`: the newest statement stands in a block of 1,024 tokens recalled for the question, before an older
  one;
- `either`: one of both.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from autonomy_ctx import ContextTemplate, Memory, ProfileSection, SummarizedHistorySection
from autonomy_ctx.memory.recall import recall
from benchmarks.recall_corpus import make
from benchmarks.table import Figure

SCOPE, NEW, TALKS, TALK_MESSAGES, TOKENS = "ana", "new", 20, 60, 1_024
HALVES = ("development", "held out")
KEPT = ("role", "content", "tool_calls", "tool_call_id")
MIN_EITHER = 0.9
# A statement that changes comes so many conversations later.
LATER = 10
_CASES = Path(__file__).with_name("profile_cases.txt")


class Case(NamedTuple):
    """What a user says, what is asked, and a word of the answer; of what changes also the outdated word."""

    half: str
    said: str
    question: str
    answer: str
    later: str = ""
    outdated: str = ""


def read_cases() -> list[Case]:
    """The cases of both halves."""
    lines = _CASES.read_text(encoding="utf-8").splitlines()
    return [Case(*line.split(" | ")) for line in lines if not line.startswith("#")]


async def measure(folder: Path) -> list[Figure]:
    cases = read_cases()
    right: Counter[tuple[str, str]] = Counter()
    async with Memory(f"sqlite:///{folder / 'memory.db'}") as memory:
        history = SummarizedHistorySection(None, profile=True)
        template = ContextTemplate([ProfileSection(max_tokens=4_096), history])
        await _talk(memory, template, cases)
        await history.settled()
        await memory.append(SCOPE, NEW, {"role": "user", "content": "Hello again."})
        shown = (await template.compose(memory, SCOPE, NEW)).messages[0].text.splitlines()
        for case in cases:
            in_profile = _has(shown, case.answer) and not (case.outdated and _has(shown, case.outdated))
            found = (await recall(memory, SCOPE, case.question, max_tokens=TOKENS)).passages
            places = {one.message.text: -at for at, one in enumerate(found)}
            newest, older = places.get(case.later or case.said), places.get(case.said)
            in_recall = newest is not None and (not case.later or older is None or newest > older)
            for way, is_right in (
                ("profile", in_profile),
                ("recall", in_recall),
                ("either", in_profile or in_recall),
            ):
                right[case.half, way] += is_right
        await history.close()
    sizes = Counter(case.half for case in cases)
    print(
        f"\n  {len(cases)} questions, {TALKS} conversations with {TALK_MESSAGES} messages of other talk each"
    )
    return [
        Figure(
            name=f"{way}, {half}",
            ours=f"{right[half, way]} of {sizes[half]}",
            floor="none",
            value=right[half, way] / sizes[half],
            bound=MIN_EITHER if way == "either" else 0.0,
            at_most=False,
        )
        for half in HALVES
        for way in ("profile", "recall", "either")
    ]


def _has(lines: list[str], word: str) -> bool:
    return any(word in line for line in lines)


async def _talk(memory: Memory, template: ContextTemplate, cases: list[Case]) -> None:
    """The conversations, each with the statements that are its turn between other talk."""
    other = itertools.cycle(make().messages)
    for number in range(TALKS):
        own = [case.said for at, case in enumerate(cases) if number == at % (LATER if case.later else TALKS)]
        own += [case.later for at, case in enumerate(cases) if case.later and number == at % LATER + LATER]
        name, every = f"talk {number}", TALK_MESSAGES // (len(own) + 1)
        due = 0
        for at, message in enumerate(itertools.islice(other, TALK_MESSAGES)):
            # A user says nothing between a call and its result.
            if own and message["role"] == "user" and at >= due:
                due = at + every
                await memory.append(SCOPE, name, {"role": "user", "content": own.pop(0)})
                await template.compose(memory, SCOPE, name)
            await memory.append(SCOPE, name, {key: message[key] for key in KEPT if key in message})
        await template.compose(memory, SCOPE, name)
        assert not own, "all of it was said"
