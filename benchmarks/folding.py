"""How search finds other forms of words, by language: `python -m benchmarks.folding [file]`.

Each case is a word, another form of it that must be found, and a word that must not be. Each of the three
stands in a message of its own, with and without a sentence around it. Found is the share of other forms that
a search for the word finds; exact first, of those, that come after the message with the word itself; wrongly
found, the share of words that must not be found. Half of the cases were not looked at while the folding was
tuned; of those only sums are printed.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from autonomy_ctx import Memory

CASES = Path(__file__).with_name("folding_cases")
SENTENCES = {
    "arabic": "تحدثنا أمس عن {} مع الزملاء",
    "persian": "دیروز درباره {} با هم حرف زدیم",
    "hebrew": "דיברנו אתמול על {} עם כולם",
    "hindi": "हमने कल {} के बारे में बात की",
    "thai": "{} ครับ",
    "lao": "{} ເດີ້",
    "khmer": "{} បាទ",
    "burmese": "{} ပါ",
    "german": "Wir haben gestern mit dem Team über {} gesprochen",
    "dutch": "Wij hebben gisteren met het team over {} gesproken",
    "scandinavian": "Vi har pratat om {} med de andra och det var bra",
    "french": "Nous avons parlé de {} avec les autres hier",
    "spanish": "Ayer hablamos de {} con los demás",
    "portuguese": "Ontem falamos de {} com os outros",
    "italian": "Ieri abbiamo parlato di {} con gli altri",
    "polish": "Wczoraj w pracy była mowa o {} i nie tylko",
    "russian": "Вчера мы говорили про {} с коллегами",
    "turkish": "Dün iş yerinde {} hakkında konuştuk",
    "vietnamese": "Hôm qua chúng tôi nói về {} với mọi người",
    "greek": "Χθες μιλήσαμε για {} με τους άλλους",
    "japanese": "昨日は「{}」のことを話した",
    "chinese": "昨天我們聊到「{}」的事",
    "english": "Yesterday we talked about {} with the others",
}


class Case(NamedTuple):
    language: str
    query: str
    other: str
    wrong: str


@dataclass
class Tally:
    cases: int = 0
    found: int = 0
    exact_first: int = 0
    wrongly_found: int = 0

    def row(self, name: str) -> str:
        return (
            f"  {name:14}{self.cases:5}  found {self.found:4} ({self.found / self.cases:4.0%})"
            f"  exact first {self.exact_first:4} ({self.exact_first / (self.found or 1):4.0%})"
            f"  wrongly found {self.wrongly_found:3} ({self.wrongly_found / self.cases:4.0%})"
        )


def read_cases(name: str) -> list[Case]:
    lines = (CASES / name).read_text("utf-8").splitlines()
    return [
        Case(*(cell.strip() for cell in line.split("|")))
        for line in lines
        if line and not line.startswith("#")
    ]


async def run_case(case: Case, sentence: str, tally: Tally) -> str:
    """Three messages and one search; what went wrong."""
    async with Memory() as memory:
        # The newest of equals comes first: the exact one must not win by that.
        texts = [sentence.format(word) for word in (case.query, case.other, case.wrong)]
        for text in [*texts, *(sentence.format(f"#{number}") for number in range(5))]:
            await memory.append("scope", "talk", {"role": "user", "content": text})
        found = [hit.position for hit in await memory.search("scope", case.query)]
    tally.cases += 1
    tally.found += 2 in found
    tally.exact_first += found[:1] == [1] and 2 in found
    tally.wrongly_found += 3 in found
    faults = [] if 2 in found else ["not found"]
    faults += ["not exact first"] if 2 in found and found[:1] != [1] else []
    faults += ["wrongly found"] if 3 in found else []
    return (
        f"{case.language}: {case.query} > {case.other} !{case.wrong}: {', '.join(faults)}" if faults else ""
    )


async def run(name: str, show_cases: bool) -> None:
    sums, total = defaultdict[str, Tally](Tally), Tally()
    for case in read_cases(name):
        for sentence in (SENTENCES[case.language], "{}"):
            before = vars(sums[case.language]).copy()
            fault = await run_case(case, sentence, sums[case.language])
            for field, value in vars(sums[case.language]).items():
                setattr(total, field, getattr(total, field) + value - before[field])
            if fault and show_cases:
                print("   ", fault, "" if sentence == "{}" else "(in a sentence)")
    print(f"\n{name}: {total.cases} searches")
    for language, tally in sums.items():
        print(tally.row(language))
    print(total.row("all"))


if __name__ == "__main__":
    for name in sys.argv[1:] or ["tuning.txt", "held_out.txt"]:
        asyncio.run(run(name, show_cases=name == "tuning.txt"))
