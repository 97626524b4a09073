"""Broken builds of what adapters share: what is stored of a framework's history, and what is sent."""

from __future__ import annotations

from mutants.mutant import Mutant

ENGINE = "tests/test_context_engine.py"
MUTANTS = [
    Mutant(
        "an id tells a message and all before it apart",
        "engine/branches.py",
        '        before = sha256(f"{before}\\n{shown}".encode()).hexdigest()[:32]\n',
        "        before = sha256(shown.encode()).hexdigest()[:32]\n",
        ENGINE,
    ),
    Mutant(
        "a history without what was answered is refused",
        "engine/branches.py",
        "if not may_begin_anew and any(_is_answer(entry.message) for entry in newest.entries):\n",
        "if False:\n",
        ENGINE,
    ),
    Mutant(
        "the branch of a conversation is found after a restart",
        "engine/branches.py",
        "            known = key._replace(conversation=records[-1].body) if records else key\n",
        "            known = key\n",
        ENGINE,
    ),
    Mutant(
        "calls of one conversation store one after the other",
        "engine/branches.py",
        "            lock = self._locks[key] = anyio.Lock()\n",
        "            lock = anyio.Lock()\n",
        ENGINE,
    ),
    Mutant(
        "a message that was shortened is not sent whole",
        "engine/framework_context.py",
        "is_same = own is not None and visible_fields(own.message) == visible_fields(message)\n",
        "is_same = own is not None\n",
        ENGINE,
    ),
    Mutant(
        "a context without the user's message is not sent",
        "engine/engine.py",
        "        if head.last_user and not _shows(composed, head.last_user, turn.message):\n",
        "        if False:\n",
        ENGINE,
    ),
    Mutant(
        "each step of a turn can be explained",
        "engine/engine.py",
        "        turn.steps.append(Step(context=turn.previous, model=model, bounds=bounds, usage=usage))\n",
        "        turn.steps = [Step(context=turn.previous, model=model, bounds=bounds, usage=usage)]\n",
        ENGINE,
    ),
    Mutant(
        "a history that was cut begins with a user's message",
        "engine/framework_context.py",
        "    if messages and messages[0].message.role is ChatRole.ASSISTANT:\n",
        "    if False:\n",
        ENGINE,
    ),
    Mutant(
        "after plain calls the engine is asked in its own thread",
        "engine/engine.py",
        "        if self._portal is None:\n            return await work(*args, **options)\n",
        "        if True:\n            return await work(*args, **options)\n",
        ENGINE,
    ),
    Mutant(
        "what is for one call stands before the question",
        "engine/framework_context.py",
        "    while start and messages[start - 1].message.role is ChatRole.USER:\n",
        "    while False:\n",
        ENGINE,
    ),
    Mutant(
        "a framework that has lost its history goes on from the log",
        "engine/branches.py",
        "            if end:\n",
        "            if False:\n",
        ENGINE,
    ),
    Mutant(
        "where a history begins in the log is known to other processes",
        "engine/branches.py",
        '            start = self._starts[key] = records[-1].body if records else ""\n',
        '            start = self._starts[key] = ""\n',
        ENGINE,
    ),
    Mutant(
        "the same message again is another turn once there was an answer",
        "engine/branches.py",
        '                return entries[0].message.id if has_ended else ""\n',
        '                return ""\n',
        ENGINE,
    ),
    Mutant(
        "an inner run is not in the conversation of the outer one",
        "engine/engine.py",
        "        if self._agents.get(key, agent) != agent and not await self.shares(key, history):\n",
        "        if False:\n",
        ENGINE,
    ),
]
