"""Broken builds of the OpenAI endpoint: what is stored of a client's history, and what reaches whom."""

from __future__ import annotations

from mutants.mutant import Mutant

HISTORY = "tests/server/test_openai_history.py"
RECORDINGS = "tests/server/test_openai_recordings.py"
FAULTS = "tests/server/test_openai_faults.py"
TENANTS = "tests/server/test_openai_tenants.py"
MUTANTS = [
    Mutant(
        "a body goes on only from one that it begins with",
        "server/openai_bodies.py",
        "if not raw.startswith(piece, at):",
        "if not raw.startswith(piece[:-1], at):",
        "tests/server/test_openai_bodies.py",
    ),
    Mutant(
        "bodies are forgotten with what users delete",
        "server/openai_bodies.py",
        "forget_with_texts(BODIES.clear)\n",
        "",
        "tests/server/test_openai_bodies.py",
    ),
    Mutant(
        "work in the background lets what is urgent go first",
        "background.py",
        "_urgent[self] = time.monotonic() + URGENT_SECONDS",
        "pass",
        "tests/test_urgent.py",
    ),
    Mutant(
        "work in the background goes on however much is urgent",
        "background.py",
        "    while time.monotonic() < end and somebody_waits():  # noqa: ASYNC110",
        "    while somebody_waits():  # noqa: ASYNC110",
        "tests/test_urgent.py",
    ),
    Mutant(
        "a long step in the background waits for a quiet moment",
        "background.py",
        "        somebody_waits() or now < _last_urgent + _QUIET_SECONDS",
        "        somebody_waits()",
        "tests/test_urgent.py",
    ),
    Mutant(
        "what became garbage after a while is collected too",
        "cli/endpoint.py",
        "    if old > most_old and not has_requests:",
        "    if False:",
        "tests/cli/test_garbage_collection.py",
    ),
    Mutant(
        "garbage is collected when nobody waits",
        "cli/endpoint.py",
        " and not somebody_waits():",
        ":",
        "tests/cli/test_garbage_collection.py",
    ),
    Mutant(
        "a request that came during a step goes before the next one",
        "background.py",
        "    if _last_urgent:\n",
        "    if False:\n",
        "tests/test_urgent.py",
    ),
    Mutant(
        "a thread in the background lets what is urgent go first",
        "background.py",
        "and somebody_waits():\n        time.sleep(_LOOK_SECONDS)\n",
        "and False:\n        time.sleep(_LOOK_SECONDS)\n",
        "tests/test_urgent.py",
    ),
    Mutant(
        "a thread in the background stops at once for what is urgent",
        "background.py",
        " and (_thread.is_overdue or not _urgent or not somebody_waits()):",
        ":",
        "tests/test_urgent.py",
    ),
    Mutant(
        "a thread in the background works for a while after it gave way",
        "background.py",
        "time.monotonic() + _WORK_SECONDS, somebody_waits()\n",
        "time.monotonic() + _WORK_SECONDS, False\n",
        "tests/test_urgent.py",
    ),
    Mutant(
        "threads in the background wait while a context is composed",
        "template/template.py",
        "        urgent = begin_urgent_step()",
        "        urgent = None",
        "tests/test_urgent.py",
    ),
    Mutant(
        "what waits for an answer is not stored again",
        "server/openai_history.py",
        "    waiting = _find_end(said, log)\n",
        "    waiting: list[HistoryMessage] = []\n",
        HISTORY,
    ),
    Mutant(
        "a retry of what was answered is not stored again",
        "server/openai_history.py",
        "    if not waiting and is_retry and log[-1].role is ChatRole.ASSISTANT:\n",
        "    if False:\n",
        HISTORY,
    ),
    Mutant(
        "a window without its beginning goes on in its conversation",
        "server/openai_history.py",
        "        return _place_after(said, window) if window else whole\n",
        "        return whole\n",
        HISTORY,
    ),
    Mutant(
        "new messages come after the log's newest",
        "server/openai_history.py",
        "Placement(_chain(said, log[-1].id), log[-1].id)\n",
        "whole\n",
        HISTORY,
    ),
    Mutant(
        "an answer is known without its thinking",
        "server/openai_history.py",
        "    shown = json.dumps([role.value, message.text.strip(), images, calls, message.tool_call_id])\n",
        "    shown = json.dumps([role.value, repr(message.content), images, calls, message.tool_call_id])\n",
        HISTORY,
    ),
    Mutant(
        "an answer is found after a restart",
        "server/openai_conversations.py",
        "        await self._index(branch, names, name)\n",
        "        return\n",
        HISTORY,
    ),
    Mutant(
        "the messages of the request before are known only as far as they are the same",
        "server/openai_conversations.py",
        "        if not _begins_with(sources, last.sources):\n",
        "        if len(sources) < count:\n",
        HISTORY,
    ),
    Mutant(
        "a first question that failed is known when it comes again",
        "server/openai_conversations.py",
        "        if not answered and request.conversation is None:\n",
        "        if False:\n",
        FAULTS,
    ),
    Mutant(
        "what an agent's helper says about a talk is no part of the talk",
        "server/openai_conversations.py",
        "        if last is None or last.instructions == _instructions(request):\n",
        "        if True:\n",
        RECORDINGS,
    ),
    Mutant(
        "a call of a custom tool is stored, and known when the client sends it back",
        "server/openai_requests.py",
        "    if all(map(is_plain_item, output)):\n",
        "    if True:\n",
        RECORDINGS,
    ),
    Mutant(
        "an answer is stored before the client sees its end",
        "server/openai_relay.py",
        "                    if not has_failed:\n                        await self._store_answer",
        "                    await sender.end(piece.raw)\n"
        "                    await response.drain()\n"
        "                    if not has_failed:\n                        await self._store_answer",
        FAULTS,
    ),
    Mutant(
        "an answer that broke off is an error",
        "server/openai_relay.py",
        "        if not has_failed and answer.reply.stop is None:\n",
        "        if False:\n",
        FAULTS,
    ),
    Mutant(
        "a request that is too long is tried once more",
        "server/openai_relay.py",
        "            refusal = await self._ask(may_retry=True)\n",
        "            refusal = await self._ask(may_retry=False)\n",
        FAULTS,
    ),
    Mutant(
        "a result without a call is refused",
        "server/openai_conversations.py",
        "        if name not in known:\n",
        "        if False:\n",
        FAULTS,
    ),
    Mutant(
        "a client's key goes no further where another one is used",
        "server/upstream.py",
        "(_KEY_HEADERS if own is not None else frozenset())\n",
        "frozenset()\n",
        TENANTS,
    ),
    Mutant(
        "with one key for all, nobody reads a response of another",
        "server/openai_endpoint.py",
        "        if not (self._shares_key and tenant.api_key is None) or first in _SHARED_PATHS:\n",
        "        if True:\n",
        TENANTS,
    ),
    Mutant(
        "answers are found in the scope of the client alone",
        "server/openai_conversations.py",
        "        key = make_key(self._memory.agent, scope, INDEX_CONVERSATION)\n        records",
        '        key = make_key(self._memory.agent, "ana", INDEX_CONVERSATION)\n        records',
        TENANTS,
    ),
]
