"""The cost of turns in US dollars: what a request will cost, and limits per turn, conversation and scope.

Sums of conversations and scopes are rows in the store. Each reply adds a row of its own, so processes that
work at the same time lose nothing. Many rows are folded into one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.agents.options import AgentHook, TurnEnvironment
from autonomy_ctx.errors import CostLimitExceeded, StoreError, UnknownPrice
from autonomy_ctx.formats.base import ModelReply, Usage
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.hooks import HookRegistry, fire
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, Record, RecordDraft, StoredSegment, make_key
from autonomy_ctx.memory.summary_blocks import read_blocks
from autonomy_ctx.messages.message import new_id
from autonomy_ctx.models.catalog import estimate_cost, price_of
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.validation import check_number

logger = logging.getLogger("autonomy_ctx.agents")

COST_KIND = "cost"
# Where the sum of a scope is; a conversation without messages is in no list.
COST_CONVERSATION = "autonomy_ctx:cost"
# The row that others are folded into, and the rows that say which summaries of a conversation were counted:
# our own, and the provider's.
_TOTAL, _SUMMARIES, _BLOCKS = "total", "summaries", "provider summaries"
_COUNTER_ROWS = (_SUMMARIES, _BLOCKS)
# So many rows are read before they are folded.
_MAX_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request of a turn as hooks get it: the context, and the cost in US dollars.

    `cost` is that of the input, if the prefix that it shares with the previous request is cached. `spent`
    is that of the steps before it in this turn. Both are None for a model whose price is not known.
    """

    agent: str
    turn: str
    step: int
    model: str | None
    context: ComposedContext
    memory: Memory
    cost: float | None
    spent: float | None

    def cost_of(self, reply: ModelReply) -> float | None:
        """The cost of the reply to it, by the usage that the provider reported, else by our own counts."""
        model = reply.fallback or self.model
        if reply.usage != Usage():
            return estimate_cost(reply.usage, model or "")
        price = None if model is None else price_of(model)
        output = self.memory.token_counter.count_messages([reply.message])
        return None if price is None else self.context.estimated_cost(price, output_tokens=output)


async def announce_request(
    environment: TurnEnvironment, key: Key, turn: str, steps: Sequence[ComposedContext], spent: float
) -> ModelRequest:
    """Check the limit of the turn's cost, and tell hooks of the newest step before its request is sent."""
    context = steps[-1]
    price = price_of(environment.model)
    request = ModelRequest(
        agent=environment.name,
        turn=turn,
        step=len(steps),
        model=model_name(environment.model),
        context=context,
        memory=environment.memory,
        cost=None if price is None else context.estimated_cost(price),
        spent=None if price is None else spent,
    )
    if environment.limits.cost is not None:
        _check("turn", environment.limits.cost, request, spent)
    await fire(environment.hooks, AgentHook.BEFORE_REQUEST, key.scope, key.conversation, request, done=False)
    return request


def _check(of: str, limit: float, request: ModelRequest, spent: float) -> None:
    if request.cost is None:
        raise UnknownPrice(request.model)
    if spent + request.cost > limit:
        raise CostLimitExceeded(of=of, limit=limit, spent=spent, cost=request.cost)


class CostLimit:
    """A hook that refuses requests above a cost in US dollars, per conversation, per scope or both.

    Give it to `Agent(hooks=[...])`. The sums are stored in the agent's memory. All agents with such a hook
    add to the sum of a scope, and each agent has its own sum of a conversation. Summaries count, too.
    """

    type = (AgentHook.BEFORE_REQUEST, AgentHook.AFTER_REPLY)

    def __init__(self, *, per_conversation: float | None = None, per_scope: float | None = None) -> None:
        if per_conversation is None and per_scope is None:
            raise ValueError("CostLimit needs per_conversation, per_scope or both, in US dollars")
        for name, limit in (("per_conversation", per_conversation), ("per_scope", per_scope)):
            if limit is not None:
                check_number(name, limit, least=0, where="CostLimit")
        self.per_conversation, self.per_scope = per_conversation, per_scope
        # A saved agent finds its hooks by name.
        self.__name__ = "cost_limit"
        HookRegistry.register(self)

    async def __call__(
        self, scope: str, conversation: str, request: ModelRequest, reply: ModelReply | None = None
    ) -> None:
        """Check a request before it is sent, or add the cost of a reply."""
        store = request.memory.store
        keys = _keys(request.memory, scope, conversation)
        if reply is not None:
            try:
                await _add(store, keys, request.cost_of(reply) or 0.0)
            except StoreError as error:
                # The reply is paid: it is worth more than its sum.
                logger.warning("the cost of a reply could not be stored: %s", type(error).__name__)
            return
        await _add_summaries(request.memory, keys)
        for of, limit, key in zip(
            ("conversation", "scope"), (self.per_conversation, self.per_scope), keys, strict=True
        ):
            if limit is not None:
                _check(of, limit, request, await _read_sum(store, key))

    async def spent(self, memory: Memory, scope: str, conversation: str | None = None) -> float:
        """The cost so far of a scope, or of one conversation with the agent of this memory."""
        keys = _keys(memory, scope, conversation or "")
        return await _read_sum(memory.store, keys[1] if conversation is None else keys[0])

    async def reset(self, memory: Memory, scope: str, conversation: str | None = None) -> None:
        """Begin the sum of a scope or of a conversation anew, such as at the beginning of a month."""
        keys = _keys(memory, scope, conversation or "")
        key = keys[1] if conversation is None else keys[0]
        rows = await memory.store.read_records(key, COST_KIND)
        # These rows stay: they say which summaries have been counted.
        names = [row.name for row in rows if row.name not in _COUNTER_ROWS]
        await memory.store.drop_records(key, COST_KIND, names)


def _keys(memory: Memory, scope: str, conversation: str) -> tuple[Key, Key]:
    """The keys of the sums of a conversation and of its scope."""
    return make_key(memory.agent, scope, conversation), make_key("", scope, COST_CONVERSATION)


async def _add(store: Store, keys: Sequence[Key], cost: float) -> None:
    for key in keys:
        await store.put_records(key, COST_KIND, [(new_id(), json.dumps(cost))])


async def _add_summaries(memory: Memory, keys: tuple[Key, Key]) -> None:
    """Add the cost of summaries that were written since the request before.

    They are written in the background, perhaps by another process. The turn's lease is held: nobody else
    counts them now.
    """
    own = keys[0]
    state = await memory.summary(own.scope, own.conversation)
    if not state.segments:
        return
    await _add_blocks(memory, keys, state.head.generation)
    rows = await memory.store.read_records(own, COST_KIND, name=_SUMMARIES)
    if rows:
        counted = int(rows[0].body)
        new = [segment for segment in state.segments if segment.number > counted]
    else:
        # In a fork, those of the parent are not its own.
        shared = await memory.store.shared_until(own)
        new = [segment for segment in state.segments if segment.last > shared]
    if new or not rows:
        newest = max(segment.number for segment in state.segments)
        await memory.store.put_records(own, COST_KIND, [(_SUMMARIES, str(newest))])
        await _add(memory.store, keys, sum(summary_cost(segment) or 0.0 for segment in new))


async def _add_blocks(memory: Memory, keys: tuple[Key, Key], generation: int) -> None:
    """Add the cost of summaries that the provider wrote since the request before."""
    own = keys[0]
    blocks = await read_blocks(memory.store, own, generation)
    if not blocks:
        return
    rows = await memory.store.read_records(own, COST_KIND, name=_BLOCKS)
    # In a fork, those of the parent are not its own.
    counted = json.loads(rows[0].body) if rows else [generation, await memory.store.shared_until(own)]
    new = [one for one in blocks if [one.generation, one.last] > counted]
    if new:
        newest = json.dumps([generation, new[-1].last])
        await memory.store.put_records(own, COST_KIND, [(_BLOCKS, newest)])
        await _add(memory.store, keys, sum(one.cost for one in new))


def summary_cost(segment: StoredSegment) -> float | None:
    """The cost of writing a segment, as if nothing had been cached; None if the price is not known."""
    usage = Usage(input_tokens=segment.input_tokens, output_tokens=segment.output_tokens)
    return estimate_cost(usage, segment.model)


async def _read_sum(store: Store, key: Key) -> float:
    """Add up the rows of a sum, and fold them into one if they are many."""
    rows = [row for row in await store.read_records(key, COST_KIND) if row.name not in _COUNTER_ROWS]
    total = next((row for row in rows if row.name == _TOTAL), None)
    folded: dict[str, Any] = {"cost": 0.0, "names": []} if total is None else json.loads(total.body)
    others = [row for row in rows if row is not total]
    # Rows that are in the total already, and were not dropped yet, do not count again.
    cost: float = folded["cost"] + sum(
        json.loads(row.body) for row in others if row.name not in folded["names"]
    )
    if len(others) > _MAX_ROWS:
        await fold_rows(store, key, total, cost, [row.name for row in others])
    return cost


async def fold_rows(store: Store, key: Key, total: Record | None, cost: float, names: Sequence[str]) -> None:
    """Put a new total, unless somebody else has, and drop the rows that the newest total has."""
    body = json.dumps({"cost": cost, "names": names})
    expected = "" if total is None else total.body
    await store.append(key, (), [RecordDraft(COST_KIND, _TOTAL, body, expected=expected)])
    for row in await store.read_records(key, COST_KIND, name=_TOTAL):
        await store.drop_records(key, COST_KIND, json.loads(row.body)["names"])
