"""The sub-agents of one agent. Each is an agent with its own memory and one conversation.

A sub-agent's messages are stored under its path (`assistant/researcher-1`), in the scope and conversation
that it works for. The paths are stored beside that conversation. So the messages survive a restart and are
deleted with the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from autonomy_ctx.agents.options import PATH_SEPARATOR
from autonomy_ctx.agents.reply import AgentReply
from autonomy_ctx.background import Background
from autonomy_ctx.errors import InvalidAgent
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key, make_key
from autonomy_ctx.tools.builtin.subagents import Subagents

# Records beside a conversation: the paths of the sub-agents that have worked in it.
RECORD_KIND = "subagent"
_OPTION_NAMES = """
instructions description model tools context_summary context_template enable_filesystem enable_recall
enable_pins enable_compaction builtin_tools filesystem_visibility filesystem_root subagents
tool_budget limits hooks
"""
SUBAGENT_OPTIONS = frozenset(_OPTION_NAMES.split())


class _Agent(Protocol):
    """The part of an `Agent` that its host uses."""

    async def send(self, text: str, *, scope: str, conversation: str) -> AgentReply: ...

    async def delete_conversation(self, *, scope: str, conversation: str) -> int: ...

    async def close(self) -> None: ...


class _ConversationSubagent:
    """A started sub-agent, working in one conversation."""

    def __init__(self, agent: _Agent, key: Key, forget: Callable[[Key], object]) -> None:
        self._agent, self._key, self._forget = agent, key, forget

    async def ask(self, task: str) -> str:
        reply = await self._agent.send(task, scope=self._key.scope, conversation=self._key.conversation)
        return reply.text

    async def stop(self) -> None:
        self._forget(self._key)
        await self._agent.close()


class SubagentHost:
    """Starts an agent's sub-agents, and is the host they share."""

    def __init__(
        self,
        agent: str,
        configs: Mapping[str, Mapping[str, Any]],
        *,
        make: Callable[..., _Agent],
        model: Any,
        memory: Memory,
        background: Background,
    ) -> None:
        self._path, self._configs = agent, configs
        self._make, self._model = make, model
        self.memory, self.background = memory, background
        for name, config in self._configs.items():
            unknown = sorted(str(option) for option in config if option not in SUBAGENT_OPTIONS)
            if unknown:
                problem = f"has a sub-agent {name!r} with unknown options {', '.join(unknown)}"
                raise InvalidAgent(agent, f"{problem}; it takes {', '.join(sorted(SUBAGENT_OPTIONS))}")
        self._subagents = Subagents(self._configs, self._spawn, depth=agent.count(PATH_SEPARATOR))
        self.tools = self._subagents.tools
        for name in self._configs if self.tools else ():
            self._check_config(name)
        # Those that run, by their path and the conversation they work in.
        self._running: dict[Key, _Agent] = {}

    def models(self) -> Iterator[Any]:
        """The models that sub-agents are configured with, at any depth."""
        return _configured_models(self._configs)

    async def delete(self, parent: Key) -> int:
        """Delete the messages of sub-agents in a conversation, and return how many there were."""
        deleted = 0
        for record in await self.memory.store.read_records(parent, RECORD_KIND):
            key = parent._replace(agent=record.name)
            if (agent := self._running.get(key)) is not None:
                # It has not only messages, but also a queue, a pool and sub-agents.
                deleted += await agent.delete_conversation(scope=key.scope, conversation=key.conversation)
                continue
            deleted += await self.delete(key)
            memory = self.memory.for_agent(key.agent)
            deleted += await memory.delete_conversation(key.scope, key.conversation)
        return deleted

    async def close(self) -> None:
        """Stop all running sub-agents."""
        await self._subagents.stop_all()

    def host(self, agent: Any) -> None:
        """Nothing to do: the host knows its sub-agents by their tasks."""

    def release(self, agent: Any) -> None:
        """Nothing to do."""

    async def _spawn(self, name: str, number: int, scope: str, conversation: str) -> _ConversationSubagent:
        path = f"{self._path}{PATH_SEPARATOR}{name}-{number}"
        key = make_key(path, scope, conversation)
        # The path is stored first, so that the data of the sub-agent is always found for deletion.
        await self.memory.store.put_records(key._replace(agent=self.memory.agent), RECORD_KIND, [(path, "")])
        agent = self._create(name, path)
        self._running[key] = agent
        return _ConversationSubagent(agent, key, lambda key: self._running.pop(key, None))

    def _create(self, name: str, path: str) -> _Agent:
        options = {"model": self._model, **self._configs[name]}
        return self._make(path, node=self, memory=self.memory.for_agent(path), **options)

    def _check_config(self, name: str) -> None:
        """Check a configuration now. In the middle of a turn, only the model would see the error."""
        try:
            self._create(name, f"{self._path}{PATH_SEPARATOR}{name}")
        except (TypeError, ValueError) as error:
            raise InvalidAgent(
                self._path, f"has a sub-agent {name!r} that cannot be made: {error}"
            ) from error


def _configured_models(
    configs: Mapping[str, Mapping[str, Any]], above: frozenset[int] = frozenset()
) -> Iterator[Any]:
    # A sub-agent may have itself as a sub-agent: only its depth is limited.
    if id(configs) in above:
        return
    for config in configs.values():
        yield config.get("model")
        yield from _configured_models(config.get("subagents") or {}, above | {id(configs)})
