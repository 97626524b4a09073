"""Broken builds of the replay lab: what it measures, what it recommends, and what its page lets through."""

from __future__ import annotations

from mutants.mutant import Mutant

RUNS = "tests/replay/test_replay_runs.py"
PAGE = "tests/replay/test_replay_page.py"
RECORDS = "tests/replay/test_recorded_conversations.py"
MUTANTS = [
    Mutant(
        "a replay counts as kept only what was said before the turn",
        "replay/retention.py",
        "            elif position is not None and position < before:\n",
        "            elif position is not None:\n",
        RUNS,
    ),
    Mutant(
        "in a replay nothing is cached after a long pause",
        "replay/runner.py",
        "        previous = self._context if is_cached else None\n",
        "        previous = self._context\n",
        RUNS,
    ),
    Mutant(
        "the same record gives the same numbers: the background catches up after each request",
        "replay/runner.py",
        "        await self._section.settled()\n",
        "",
        RUNS,
    ),
    Mutant(
        "a setting over the limit is not recommended while there is another",
        "replay/recommendation.py",
        "    within = [run for run in runs if run.turns_over_limit == fewest]\n",
        "    within = list(runs)\n",
        RUNS,
    ),
    Mutant(
        "a request of a replay is sent before each answer, also between calls of tools",
        "replay/conversation.py",
        "messages[index - 1].role is not ChatRole.ASSISTANT:",
        "index == user + 1:",
        RECORDS,
    ),
    Mutant(
        "the page of a replay shows hostile text as text",
        "replay/report.py",
        "    return escape(text)\n",
        "    return text\n",
        PAGE,
    ),
    Mutant(
        "the page of a replay shows characters that turn or hide text by their numbers",
        "replay/report.py",
        "    if not text.isprintable():\n",
        "    if not text:\n",
        PAGE,
    ),
]
