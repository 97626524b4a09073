"""The time of a replay: 1,000 turns of a support agent with 9 settings, without a model.

CPU seconds of this process are compared with the minute that a person waits, and with composing alone.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random
from typing import Any

from autonomy_ctx.replay import RecordedConversation, ReplaySetting, SettingGrid, render_report, replay
from benchmarks.table import Figure

TURNS, SECONDS = 1000, 60
FLOORS, CEILINGS = (5, 10, 15), (20, 40, 80)
TOOL_EVERY = 4
_QUESTIONS = (
    "Where is order {order}? The customer asked again this morning and I have nothing to tell her.",
    "Can you look at {path}? The import stopped after row {row} and I do not see why.",
    "What would it take to move {order} to another depot?",
    "Who talked to the carrier last? I need a name before I call them.",
    "Summarise what is open with {customer}, one line for each thing, please.",
    "That did not help. Try the other way you described before.",
    "How does the return label of {order} look, and is it valid on Saturdays?",
)
_FACTS = (
    "The contact at the carrier is now {person}, extension {row}.",
    "Never ship {order} before the invoice is paid.",
    "We decided to use the depot in {city} for all parcels of {customer}.",
    "The budget for express parcels is {row} EUR a month.",
    "Please always answer in short sentences.",
    "Remind me to call {person} about {order} tomorrow.",
    "My deadline for the report is {row} minutes after closing.",
)
_ANSWERS = (
    "Order {order} left the depot in {city} and is with the carrier. It should arrive in two days.",
    "The file {path} has a broken line at row {row}: a comma is missing after the street. The rest is fine.",
    "I would first ask the depot in {city} whether there is room, then change the label, then tell {person}.",
    "There are two open things: the refund of {row} EUR, and the label that nobody has printed yet.",
    "Done. I wrote to {person} and put a note into {path}, so that the next shift sees it.",
)
_NAMES = ("Ada Okafor", "Jonas Weber", "Mina Sato", "Luis Prado", "Eva Novak", "Tariq Aziz")
_CITIES = ("Porto", "Leipzig", "Gdansk", "Lyon", "Turin", "Malmo")


def make_talk(turns: int) -> list[dict[str, Any]]:
    """Questions, answers and some calls of a tool; in every sixth turn the user says what holds."""
    chance = Random(16)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help the support team. " * 80}]
    for number in range(turns):
        words = {
            "order": f"ORD-{chance.randrange(10_000, 10_000 + 4 * turns)}",
            "path": f"/srv/imports/batch_{chance.randrange(turns)}.csv",
            "row": chance.randrange(20, 4000),
            "customer": f"customer C-{chance.randrange(200):04d}",
            "person": chance.choice(_NAMES),
            "city": chance.choice(_CITIES),
        }
        asked = chance.choice(_FACTS if number % 6 == 0 else _QUESTIONS).format(**words)
        messages.append({"role": "user", "content": asked})
        if number % TOOL_EVERY == 0:
            messages += _look_up(number, words)
        said = [one.format(**words) for one in chance.sample(_ANSWERS, k=2)]
        messages.append({"role": "assistant", "content": " ".join(said)})
    return messages


def _look_up(number: int, words: dict[str, Any]) -> list[dict[str, Any]]:
    arguments = json.dumps({"order": words["order"]})
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "find_order", "arguments": arguments},
    }
    rows = "\n".join(
        f"2026-05-{day:02d} scanned in {words['city']}, parcel {day} of 9" for day in range(1, 10)
    )
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"{words['order']}\n{rows}"},
    ]


async def measure(folder: Path) -> list[Figure]:
    conversation = RecordedConversation(make_talk(TURNS), name="support")
    settings = [ReplaySetting(floor=floor, ceiling=ceiling) for ceiling in CEILINGS for floor in FLOORS]
    started, began = time.process_time(), time.perf_counter()
    report = await replay(conversation, SettingGrid(settings=tuple(settings), skipped=()))
    seconds, wall = time.process_time() - started, time.perf_counter() - began
    started = time.process_time()
    page = render_report(report)
    drawing = time.process_time() - started
    again = await replay(conversation, SettingGrid(settings=(settings[0],), skipped=()))
    (folder / "replay.html").write_text(page, encoding="utf-8")
    return [
        Figure(
            name=f"CPU seconds, {TURNS:,} turns x {len(settings)} settings",
            ours=f"{seconds * 1e6 / TURNS / len(settings):,.0f} us a turn, {wall:.1f} s by the clock",
            floor="a minute",
            value=seconds,
            bound=SECONDS,
        ),
        Figure(
            name="CPU seconds to draw the report",
            ours=f"{len(page) / 1e6:.2f} MB of HTML",
            floor="a second",
            value=drawing,
            bound=1,
        ),
        Figure(
            name="numbers that differ in a second replay",
            ours=again.runs[0].label,
            floor="0",
            value=float(again.runs[0].to_dict() != report.runs[0].to_dict()),
            bound=0,
        ),
    ]
