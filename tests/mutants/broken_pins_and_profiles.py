"""Broken builds of pins, and of what is known of a user in all conversations."""

from __future__ import annotations

from mutants.mutant import Mutant

STORES = "tests/memory/test_stores.py"
SUMMARIZED = "tests/sections/test_summarized.py"
PIN_TOOL = "tests/tools/test_pin_tool.py"
PROFILES = "tests/memory/test_profile.py"
LEARNING = "tests/sections/test_profile_section.py"
MUTANTS = [
    Mutant(
        "a pin replaces only what is pinned",
        "memory/sqlite/summaries.py",
        "        if not changed:\n            raise NotPinned(replaces)\n",
        "",
        STORES,
    ),
    Mutant(
        "a fork has the dates of its pins",
        "memory/sqlite/forks.py",
        '"SELECT ?, position, pinned_at, source FROM pin',
        '"SELECT ?, position, 0, source FROM pin',
        STORES,
    ),
    Mutant(
        "pins without room are named",
        "sections/summarized.py",
        '                *([pin_omission(pins.omitted, "pin_tokens")] if pins.omitted else ()),\n',
        "",
        SUMMARIZED,
    ),
    Mutant(
        "pins without room in the budget are named",
        "template/budget.py",
        "            yield pin_omission(pins, self.reason)\n",
        "            pass\n",
        "tests/template/test_budget.py",
    ),
    Mutant(
        "a model pins no result of a tool",
        "tools/builtin/pins.py",
        "    _check_speaker(entry)\n",
        "",
        PIN_TOOL,
    ),
    Mutant(
        "a model lets go only of what a model has pinned",
        "tools/builtin/pins.py",
        '    own = [pin for pin in pins if pin.source == "model"]\n',
        "    own = list(pins)\n",
        PIN_TOOL,
    ),
    Mutant(
        "a model pushes no pin out",
        "tools/builtin/pins.py",
        "    _check_room(section, memory, [pin for pin in pins if pin is not old], entry)\n",
        "",
        PIN_TOOL,
    ),
    Mutant(
        "profiles of two scopes are apart",
        "memory/sqlite/facts.py",
        "    WHERE c.agent = ? AND c.scope = ? AND f.conversation_id = c.id\n",
        "    WHERE c.agent = ? AND ? IS NOT NULL AND f.conversation_id = c.id\n",
        PROFILES,
    ),
    Mutant(
        "profiles of two agents are apart",
        "memory/profile.py",
        "make_key(agent, scope, PROFILE_CONVERSATION)",
        'make_key("", scope, PROFILE_CONVERSATION)',
        PROFILES,
    ),
    Mutant(
        "a fork has no profile of its own",
        "memory/facts.py",
        "        row = row._replace(in_profile=False)\n",
        "",
        PROFILES,
    ),
    Mutant(
        "nothing is learned of a deleted message",
        "memory/sqlite/summaries.py",
        "    if generation is not None and (known is None or known[1].generation != generation):\n"
        "        return []\n",
        "",
        PROFILES,
    ),
    Mutant(
        "what was removed from a profile stays away",
        "memory/profile.py",
        "fact.created_at.timestamp() <= record.at",
        "False",
        PROFILES,
    ),
    Mutant(
        "a profile knows only what the user said",
        "compaction/facts.py",
        "        if not is_said_by_user(message):\n            continue\n",
        "",
        LEARNING,
    ),
    Mutant(
        "mail is not said by the user",
        "compaction/voices.py",
        "    return message.role is ChatRole.USER and mail_id(message) is None\n",
        "    return message.role is ChatRole.USER\n",
        LEARNING,
    ),
    Mutant(
        "entries of a profile without room are named",
        "sections/profile.py",
        "            omitted=(_omission(omitted),) if omitted else (),\n",
        "",
        LEARNING,
    ),
    Mutant(
        "a statement that is tied to a day is not for all conversations",
        "language/profile_rules.py",
        "    if _TIED_PATTERN.search(text):\n        return None\n",
        "",
        "tests/language/test_profile_rules.py",
    ),
]
