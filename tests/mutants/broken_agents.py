"""Broken builds of who does the work: agents, their turns and items, and what runs are recorded."""

from __future__ import annotations

from mutants.mutant import Mutant

AGENT = "tests/agents/test_agent.py"
EXPLAIN = "tests/agents/test_explain.py"
ORDER = "tests/agents/test_turn_order.py"
QUESTIONS = "tests/agents/test_questions.py"
TEAM = "tests/agents/test_agents_of_agents.py"
RECORDING = "tests/containers/test_recording.py"
THINKING = "tests/agents/test_thinking.py"
MUTANTS = [
    Mutant(
        "thinking behind a changed prefix is left out",
        "formats/thinking.py",
        "        if prefix is None or group.fits:\n",
        "        if True:\n",
        THINKING,
    ),
    Mutant(
        "thinking that was left out once stays out",
        "formats/thinking.py",
        "        if room < size or (is_linked and before != group.ids[-1]):\n",
        "        if False:\n",
        THINKING,
    ),
    Mutant(
        "thinking that still fits goes back",
        "formats/thinking.py",
        "            group.is_kept = has_kept = True\n",
        "            has_kept = True\n",
        THINKING,
    ),
    Mutant(
        "a reply after refused thinking says that nothing before it is sent again",
        "formats/thinking.py",
        '    stored: dict[str, Any] = {"refused": owner} if use.refused else {}\n',
        "    stored: dict[str, Any] = {}\n",
        THINKING,
    ),
    Mutant(
        "calls of a reply keep their place among its thinking",
        "formats/blocks.py",
        "            while waiting and waiting[0][1] is not None and waiting[0][1] <= number:\n",
        "            while False:\n",
        THINKING,
    ),
    Mutant(
        "an answer that is stored is returned without its record",
        "memory/joint_append.py",
        "    except Exception as error:\n",
        "    except ZeroDivisionError as error:\n",
        EXPLAIN,
    ),
    Mutant(
        "what a user said is kept before the model is asked",
        "agents/turn.py",
        "            reply = await self._accept(message) or await self._run_steps()\n",
        "            reply = await self._run_steps()\n            await self._accept(message)\n",
        AGENT,
    ),
    Mutant(
        "a call and its results are kept in one step",
        "agents/turn.py",
        "            await self._save_calls(message, stored, ends=",
        "            await self._save(message)\n            await self._save_calls(message, stored, ends=",
        AGENT,
    ),
    Mutant(
        "a message that is sent again after its answer runs nothing again",
        "agents/turn.py",
        "        known_at = position if position <= entry.head.position else None\n",
        "        known_at = None\n",
        AGENT,
    ),
    Mutant(
        "a turn that ended before its answer is continued when its message is sent again",
        "agents/turn.py",
        " or messages[-1].role is not ChatRole.ASSISTANT or messages[-1].tool_calls:\n",
        ":\n",
        AGENT,
    ),
    Mutant(
        "all of a long result is kept beside the log",
        "agents/turn.py",
        "        await self._save(message, *results, full_texts=full_texts, ends=ends)\n",
        "        await self._save(message, *results, ends=ends)\n",
        AGENT,
    ),
    Mutant(
        "a message that says nothing is refused",
        "agents/options.py",
        "    if all(isinstance(part, TextContent) and not part.text.strip() for part in message.parts):\n",
        "    if False:\n",
        AGENT,
    ),
    Mutant(
        "the item tool is sent only where there are items to read",
        "agents/options.py",
        "        if reads_items:\n",
        "        if True:\n",
        "tests/agents/test_conversation_items.py",
    ),
    Mutant(
        "tools that are not there are not described",
        "sections/instructions.py",
        "for name in self.builtin_tools)\n",
        "for name in BUILTIN_TOOLS)\n",
        "tests/agents/test_conversation_items.py",
    ),
    Mutant(
        "what a tool has done is kept when the turn is cancelled",
        "agents/turn.py",
        "                await self._save_anyway(self._save_finished_calls(message, ended, stored))\n",
        "                pass\n",
        "tests/agents/test_cancelled_turns.py",
    ),
    Mutant(
        "a context without the newest message is not sent",
        "agents/turn.py",
        "        if not _shows_user_message(composed, self._incoming):",
        "        if False:",
        AGENT,
    ),
    Mutant(
        "too long a context is sent once more and not twice",
        "agents/turn.py",
        "            reply = await self._complete(composed)\n        record_model_call",
        "            try:\n                reply = await self._complete(composed)\n"
        "            except ContextOverflow:\n                reply = await self._complete(composed)\n"
        "        record_model_call",
        AGENT,
    ),
    Mutant(
        "after some of an answer was heard no other follows",
        "agents/turn.py",
        "            if self._text_streamed:",
        "            if False:",
        "tests/agents/test_stream.py",
    ),
    Mutant(
        "a known window is not overfilled",
        "agents/turn.py",
        "        return max(1, int(window * WINDOW_SHARE) - (limits.output_tokens or 0))",
        "        return None",
        AGENT,
    ),
    Mutant(
        "a turn ends at its limit of tokens",
        "agents/turn.py",
        "            if tokens_used_up:",
        "            if False:",
        AGENT,
    ),
    Mutant(
        "in an inbox mail waits until the model has answered",
        "agents/turn.py",
        "        composed = await self._compose(self._context_limit())\n        try:",
        "        composed = await self._compose(self._context_limit())\n"
        "        await self._deliver()\n        try:",
        "tests/agents/test_mail.py",
    ),
    Mutant(
        "a hook may keep a call from being run",
        "agents/turn.py",
        "            vetoed[index] = CallOutcome(",
        "            CallOutcome(",
        "tests/agents/test_agent_hooks.py",
    ),
    Mutant(
        "an answer goes to a question of its own conversation",
        "agents/turn.py",
        "        found = await memory.read(scope, conversation, limit=QUESTION_LOOKBACK)",
        '        found = await memory.read(scope, "default", limit=QUESTION_LOOKBACK)',
        QUESTIONS,
    ),
    Mutant(
        "a question of a turn that was cut short was never asked",
        "agents/turn.py",
        "for one in window if one.phase == WAITING_FOR_INPUT for call",
        "for one in window for call",
        QUESTIONS,
    ),
    Mutant(
        "turns of one conversation wait for each other",
        "agents/turn_queue.py",
        "        queue = queues.setdefault(key, _ConversationQueue())",
        "        queue = _ConversationQueue()",
        ORDER,
    ),
    Mutant(
        "turns of different conversations run side by side",
        "agents/turn_queue.py",
        "        queue = queues.setdefault(key, _ConversationQueue())",
        "        queue = queues.setdefault(None, _ConversationQueue())",
        ORDER,
    ),
    Mutant(
        "close waits for the turns that go on",
        "agents/turn_queue.py",
        "                while self._turns - own:",
        "                while self._waiting:",
        ORDER,
    ),
    Mutant(
        "close ends the turns that do not end",
        "agents/turn_queue.py",
        "                self._active[turn].cancel()\n",
        "                pass\n",
        ORDER,
    ),
    Mutant(
        "items belong to one scope",
        "agents/conversation_items.py",
        "        items = self._own if key == self._own_key else self._others.get(key)\n",
        "        key = key._replace(scope=self._own_key.scope)\n"
        "        items = self._own if key == self._own_key else self._others.get(key)\n",
        "tests/agents/test_mail.py",
    ),
    Mutant(
        "an item that was taken out does not come back",
        "agents/conversation_items.py",
        "            await self._records.drop_records(key, POOL, sorted(gone))\n",
        "",
        "tests/agents/test_conversation_items.py",
    ),
    Mutant(
        "an explanation goes with the messages it shows",
        "agents/explain.py",
        "derived=True",
        "derived=False",
        EXPLAIN,
    ),
    Mutant(
        "what was deleted during a turn is not recorded",
        "agents/explain.py",
        ", generation=generation\n",
        "\n",
        EXPLAIN,
    ),
    Mutant(
        "the record of a turn goes with its last messages",
        "agents/turn.py",
        "        record = await self._draft_steps() if ends else None\n",
        "        record = None\n",
        EXPLAIN,
    ),
    Mutant(
        "an answer is kept where there is no room for its record",
        "agents/turn.py",
        "            await append()\n",
        "            raise\n",
        EXPLAIN,
    ),
    Mutant(
        "every step of a turn is explained",
        "agents/explain.py",
        "        form = forms[-1 if step is None else step - 1]",
        "        form = forms[-1]",
        EXPLAIN,
    ),
    Mutant(
        "only so many turns are explained",
        "agents/explain.py",
        "keep=self._turns, ",
        "",
        EXPLAIN,
    ),
    Mutant(
        "sub-agents go only so deep",
        "agents/subagents.py",
        "depth=agent.count(PATH_SEPARATOR)",
        "depth=0",
        TEAM,
    ),
    Mutant(
        "a deleted conversation takes its sub-agents along",
        "agents/agent.py",
        "            deleted = await self._subagents.delete(scope, conversation)",
        "            deleted = 0",
        TEAM,
    ),
    Mutant(
        "one can wait until no summary is being written",
        "template/template.py",
        "                await settled()",
        "                pass",
        "tests/agents/test_agent.py",
    ),
    Mutant(
        "closing a stream ends its turn",
        "agents/reply.py",
        "            self._scope.cancel()\n",
        "            pass\n",
        "tests/agents/test_stream.py",
    ),
    Mutant(
        "all messages of a turn are dated by the clock of the agent",
        "agents/turn.py",
        "replace(reply.message, created_at=environment.clock(), agent=environment.name)\n",
        "replace(reply.message, agent=environment.name)\n",
        "tests/agents/test_agent.py",
    ),
    Mutant(
        "a node closes its agents",
        "agents/node.py",
        "                steps.push_async_callback(_close_all, agents)\n",
        "",
        "tests/agents/test_node.py",
    ),
    Mutant(
        "a run that fails leaves main alone",
        "containers/recording.py",
        "                if not retries:\n                    raise\n",
        "                if not retries:\n"
        "                    self.commit(attempt)\n                    raise\n",
        RECORDING,
    ),
    Mutant(
        "a run reaches main in one step",
        "containers/recording.py",
        "self.recorder.add(enclosing, [*attempt.messages, answer], {attempt.context: [answer]})\n",
        "self.recorder.add(enclosing, attempt.messages)\n"
        "            self.recorder.add(enclosing, [answer], {attempt.context: [answer]})\n",
        RECORDING,
    ),
    Mutant(
        "a tool that fails is recorded with its error",
        "containers/recording.py",
        "                self.add(enclosing, [request, _result_message(call, error_text(error), "
        "is_error=True)])\n",
        "                pass\n",
        RECORDING,
    ),
    Mutant(
        "a turn asked for from inside itself is refused",
        "agents/turn_queue.py",
        "        if _is_blocked_by(queue, enclosing):",
        "        if False:",
        ORDER,
    ),
    Mutant(
        "an agent lists its own conversations",
        "memory/memory.py",
        "return (self.agent or None) if agent is None else agent",
        "return agent",
        "tests/agents/test_conversation_verbs.py",
    ),
    Mutant(
        "a dropped turn has ended",
        "agents/agent.py",
        "        async with self._edit_log(self._key(scope, conversation)):\n"
        "            return await self.memory.drop_last_turn(scope, conversation)\n",
        "        return await self.memory.drop_last_turn(scope, conversation)\n",
        "tests/agents/test_conversation_verbs.py",
    ),
    Mutant(
        "an agent and its branch share one queue of turns",
        "agents/agent.py",
        "            made._turn_queue = TurnQueue(made.name, shared_with=self._turn_queue)\n",
        "            pass\n",
        "tests/agents/test_agent_copies.py",
    ),
    Mutant(
        "what a tool found is there after a restart",
        "agents/conversation_items.py",
        "            await self._records.put_records(key, POOL, pooled, keep=items.pool.limit)\n",
        "",
        "tests/agents/test_conversation_items.py",
    ),
    Mutant(
        "only turns up to an age are explained",
        "agents/explain.py",
        "        return [record for record in found if record.at >= oldest]",
        "        return list(found)",
        EXPLAIN,
    ),
    Mutant(
        "mail comes before what the user says",
        "agents/turn.py",
        "                await _receive_mail(self._mailbox(), self._key)\n"
        "            positions = await environment.memory.append(scope, conversation, *entry.messages)\n",
        "                pass\n"
        "            positions = await environment.memory.append(scope, conversation, *entry.messages)\n"
        "            await _receive_mail(self._mailbox(), self._key)\n",
        "tests/agents/test_mail.py",
    ),
    Mutant(
        "mail does not close a question",
        "agents/turn.py",
        "    waiting = _questions_of_paused_turn(window)\n",
        "    if mailbox is not None:\n        await _receive_mail(mailbox, key)\n"
        "    waiting = _questions_of_paused_turn(window)\n",
        "tests/agents/test_mail.py",
    ),
    Mutant(
        "a turn cannot speak for the agent in params",
        "agents/options.py",
        "    if reserved:\n        raise InvalidParams",
        "    if False:\n        raise InvalidParams",
        "tests/agents/test_bad_agents.py",
    ),
]
