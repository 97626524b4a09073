"""Evidence that recall shows on BEAM: `python -m benchmarks beam PATH`, beside plain BM25.

`PATH` is a checkout of `mohammadtavakoli78/BEAM` on GitHub (ICLR 2026), whose data stay there. Of each tier
that it has (100K, 500K), a chat is a conversation, and each probing question names the messages that answer
it. Recall was changed with the odd-numbered chats of 100K; the even ones and 500K are for the figures.

- `R@10`: the part of a question's evidence among the ten best messages.
- `in 2k`: the part that stands in a block of 2,000 tokens; `all in 2k`: the questions with all of it there.
- `10 rounds`: the part in the ten best rounds (a message of the user with its answer), where the 40 questions
  of a tier that no message answers count as 1.0, as Ogham counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.evidence import BUDGETS, Asked, PublicCase, Tally, measure_cases, show_tallies
from benchmarks.table import Figure

TIERS = ("100K", "500K")
# What every evidence in so many tokens, by words, must reach on the even chats of 100K.
MIN_EVIDENCE = dict(zip(BUDGETS, (0.62, 0.72, 0.80), strict=True))
MIN_RANKS, MIN_ROUNDS, MIN_KIND = 0.56, 0.66, 0.30
# The mark of a generated message, which is no part of what was said.
_MARK = re.compile(r"\s*->->[ \d,]*$")


async def measure(path: Path) -> list[Figure]:
    figures: list[Figure] = []
    for tier in TIERS:
        if not (path / "chats" / tier).is_dir():
            print(f"\n  {path} has no tier {tier}")
            continue
        cases = read_tier(path, tier)
        halves = (
            {"odd, used for development": cases[::2], "even": cases[1::2]}
            if tier == "100K"
            else {"all": cases}
        )
        for half, some in halves.items():
            tallies = await measure_cases(some)
            show_tallies(f"BEAM {tier}, {half}: {len(some)} chats", tallies, ("BM25, user", "recall"))
            if half == "even":
                figures += _figures(tallies["recall"], tallies["BM25, user"])
    return figures


def _figures(ours: Tally, floor: Tally) -> list[Figure]:
    wanted = {
        "R@10 of messages": ("ranks", MIN_RANKS),
        **{f"evidence in {budget:,} tokens": (f"{budget}", least) for budget, least in MIN_EVIDENCE.items()},
        "evidence in 10 rounds": ("rounds", MIN_ROUNDS),
    }
    return [
        Figure(
            name=name,
            ours=f"{ours.mean(figure):.3f}",
            floor=f"BM25 over the user's messages {floor.mean(figure):.3f}",
            value=ours.mean(figure),
            bound=least,
            at_most=False,
        )
        for name, (figure, least) in wanted.items()
    ]


def read_tier(path: Path, tier: str) -> list[PublicCase]:
    """The chats of a tier, by their numbers."""
    chats = (one for one in (path / "chats" / tier).iterdir() if one.is_dir())
    folders = sorted(chats, key=lambda folder: int(folder.name))
    return [_read_chat(folder) for folder in folders]


def _read_chat(folder: Path) -> PublicCase:
    # A chat that was longer than its tier is there a second time, shortened; the file is spelled so.
    chats = [folder / "chat_trunecated.json", folder / "chat.json"]
    chat = json.loads(next(one for one in chats if one.exists()).read_text(encoding="utf-8"))
    messages = list(_read_messages(chat))
    known = frozenset(message["id"] for message in messages)
    probing = json.loads(
        (folder / "probing_questions" / "probing_questions.json").read_text(encoding="utf-8")
    )
    asked = [
        Asked(one["question"], kind, known.intersection(_ids(one.get("source_chat_ids"))))
        for kind, some in probing.items()
        for one in some
    ]
    questions = [one for one in asked if one.evidence or one.kind == "abstention"]
    return PublicCase(name=folder.name, messages=messages, questions=questions)


def _read_messages(chat: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    time = datetime(2024, 1, 1, tzinfo=UTC)
    for message in (one for batch in chat for turns in batch["turns"] for one in turns):
        if message.get("time_anchor"):
            time = datetime.strptime(message["time_anchor"], "%B-%d-%Y").replace(tzinfo=UTC)
        time += timedelta(seconds=30)
        yield {
            "id": str(message["id"]),
            "role": message["role"],
            "content": _MARK.sub("", message["content"]) or " ",
            "timestamp": time.isoformat(),
        }


def _ids(found: Any) -> Iterator[str]:
    """The ids of messages in a list, or in the lists of a dict."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        for one in found:
            yield from _ids(one)
    elif found is not None:
        yield str(found)
