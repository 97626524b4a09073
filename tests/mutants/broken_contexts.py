"""Broken builds of what a model is shown: sections, templates, budgets and summaries."""

from __future__ import annotations

from mutants.mutant import Mutant

SUMMARIZED = "tests/sections/test_summarized.py"
LIMITS = "tests/sections/test_summarized_limits.py"
FAULTS = "tests/compaction/test_summarizer_faults.py"
BUDGET = "tests/template/test_budget.py"
MUTANTS = [
    Mutant(
        "the newest user message is there",
        "sections/history.py",
        "            window = await self._passing(newest.entries) + window\n",
        "",
        "tests/sections/test_history.py",
    ),
    Mutant(
        "what is left out is named",
        "sections/history.py",
        "            omitted = (_omission(head, entries, self._reason()),)\n",
        "            pass\n",
        "tests/sections/test_history.py",
    ),
    Mutant(
        "a required section that fails leaves no context",
        "template/running.py",
        'raise SectionError(section=placement.name, problem=f"failed: {_error_text(error)}") from error',
        "pass",
        "tests/template/test_failing_and_waiting.py",
    ),
    Mutant(
        "sections keep their order",
        "template/template.py",
        "        pieces = self._pieces(placements, shown)\n",
        "        pieces = self._pieces(placements, shown)[::-1]\n",
        "tests/template/test_template.py",
    ),
    Mutant(
        "calibration moves in steps",
        "items/tokens.py",
        "        if abs(self._average / self.factor - 1) <= MIN_FACTOR_CHANGE:",
        "        if False:",
        "tests/items/test_tokens.py",
    ),
    Mutant(
        "a kept summary is shown only while it is in force",
        "compaction/snapshot.py",
        "            if _same_summary(window.head, state.head):",
        "            if True:",
        SUMMARIZED,
    ),
    Mutant(
        "after a summary the floor is shown",
        "compaction/plan.py",
        "    wanted = max(len(entries) - limits.floor, 0)",
        "    wanted = max(len(entries) - limits.floor + 1, 0)",
        SUMMARIZED,
    ),
    Mutant(
        "up to the ceiling all is verbatim",
        "compaction/plan.py",
        "    if len(entries) > limits.ceiling - min(lead, limits.batch - 1):",
        "    if len(entries) >= limits.ceiling - min(lead, limits.batch - 1):",
        SUMMARIZED,
    ),
    Mutant(
        "no context passes the hard limit",
        "compaction/plan.py",
        "    over = max(len(entries) - limits.hard, 0)",
        "    over = 0",
        LIMITS,
    ),
    Mutant(
        "no context passes the hard limit in tokens",
        "compaction/view.py",
        "    return max(settings.limits.hard_tokens - summary - pins - HEADING_TOKENS, MIN_MESSAGE_TOKENS)",
        "    return settings.limits.hard_tokens",
        LIMITS,
    ),
    Mutant(
        "a digest is marked",
        "compaction/snapshot.py",
        "        provisional=True,",
        "        provisional=False,",
        LIMITS,
    ),
    Mutant(
        "an empty answer is no summary",
        "completion/gate.py",
        '    if not text:\n        return verdict("empty")\n',
        "",
        "tests/completion/test_gate.py",
    ),
    Mutant(
        "an answer that is not fit leaves history as it was",
        "compaction/segment_writer.py",
        '                raise UnfitSummary(verdict.problem or "unfit")',
        "                pass",
        SUMMARIZED,
    ),
    Mutant(
        "a failing model is asked less and less",
        "compaction/breaker.py",
        "FIRST_DELAY_SECONDS * 2 ** min(failures - 1, 20)",
        "FIRST_DELAY_SECONDS * 2 ** min(0, 20)",
        FAULTS,
    ),
    Mutant(
        "two refusals of the same messages are enough",
        "compaction/summarizer.py",
        "                if lease.refusals >= MAX_REFUSALS and lease.refused == batch.name:",
        "                if False:",
        FAULTS,
    ),
    Mutant(
        "what there is no room for is owed",
        "compaction/summarizer.py",
        "            await memory.store.owe(key, task=self._task)",
        "            pass",
        FAULTS,
    ),
    Mutant(
        "what users say is data in a prompt",
        "items/transcript.py",
        "    inside = neutralize_text(text, secret)\n",
        "    inside = text\n",
        "tests/completion/test_prompt.py",
    ),
    Mutant(
        "the newest user message is there",
        "sections/summarized.py",
        "        if newest and newest <= shown.before:",
        "        if False:",
        SUMMARIZED,
    ),
    Mutant(
        "sections run in their order",
        "template/running.py",
        "        for index in enabled:\n            outcomes[index]",
        "        for index in reversed(enabled):\n            outcomes[index]",
        "tests/template/test_template.py",
    ),
    Mutant(
        "tools count towards the budget",
        "template/template.py",
        "limit=most - self.reserve_output - cost",
        "limit=most - self.reserve_output",
        BUDGET,
    ),
    Mutant(
        "a context in less room keeps calls and results together",
        "template/budget.py",
        "for cut in safe_cuts(part.messages[self._head :])]",
        "for cut in range(end - self._head)]",
        BUDGET,
    ),
    Mutant(
        "a budget is met or refused",
        "template/budget.py",
        "        raise _budget_exceeded(shares, budget)\n",
        "        pass\n",
        BUDGET,
    ),
    Mutant(
        "the newest user message is the last to be cut",
        "template/budget.py",
        "        kept = _newest_user_index(part.messages) if index == asked else None\n",
        "        kept = None\n",
        BUDGET,
    ),
    Mutant(
        "the section of the lowest priority gives first",
        "template/budget.py",
        "        key=lambda share: (share.placement.priority, -share.index),\n",
        "        key=lambda share: (-share.placement.priority, -share.index),\n",
        BUDGET,
    ),
    Mutant(
        "what a tool found never chooses its role",
        "sections/queue_and_pool.py",
        "    text = content if isinstance(content, str)",
        '    role = content.get("role", role) if isinstance(content, dict) else role\n'
        "    text = content if isinstance(content, str)",
        "tests/sections/test_shelves.py",
    ),
]
