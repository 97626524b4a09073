"""Messages as the alternating turns that Anthropic and Bedrock insist on.

Both refuse the same things: two turns of one side in a row, a conversation that the assistant opens or
ends, blank text, a turn that ends in thinking, an id used twice, results anywhere but first in the turn after
their calls. Here none of that can come about, and whatever had to be changed for it is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autonomy_ctx.items.formats.blocks import Block, Conversation, Offer, Text, Thinking, Turn, Use
from autonomy_ctx.items.formats.format import Asking
from autonomy_ctx.items.formats.names import ToolNames
from autonomy_ctx.items.formats.prepared import prepared
from autonomy_ctx.items.formats.said import Carries, Writer
from autonomy_ctx.items.formats.sendable import INSTRUCTING, closing, opening, tool_names, tool_specs
from autonomy_ctx.items.formats.values import well_formed, well_formed_json
from autonomy_ctx.items.message import ChatRole, Message

MOST_BREAKPOINTS = 4


def conversation(messages: Sequence[Message], carries: Carries, asked: Asking) -> Conversation:
    """A request in blocks that only have to be spelled."""
    ready = prepared(messages, answered=asked.answered)
    repairs, said = list(ready.repairs), ready.messages
    names = tool_names(asked.tools)
    writer = Writer(carries, names, repairs)
    first = next((at for at, message in enumerate(said) if message.role not in INSTRUCTING), len(said))
    system = [text for at, rule in enumerate(said[:first]) for text in writer.rule(at, rule)]
    turns = _alternating(writer, said, first, repairs)
    if not turns or turns[0].role == "assistant":
        turns.insert(0, Turn("user", [Text(at=first, text=opening(repairs))]))
    if turns[-1].role == "assistant":
        turns.append(Turn("user", [Text(at=len(said), text=closing(repairs))]))
    _cut(system, turns, _places(messages, said, asked.breakpoints))
    offers = _offers(asked.tools, names, repairs)
    if not offers and (called := _called(turns)):
        repairs.append("the history calls tools but none are offered: they are described without arguments")
        offers = [Offer(name=name, description="", schema={"type": "object"}) for name in called]
    return Conversation(
        system=system,
        turns=turns,
        tools=offers,
        offered=bool(asked.tools),
        repairs=tuple(dict.fromkeys(repairs)),
    )


def _alternating(writer: Writer, messages: Sequence[Message], first: int, repairs: list[str]) -> list[Turn]:
    """The messages from `first` on as turns, neighbours of one side joined."""
    turns: list[Turn] = []
    for at, message in enumerate(messages[first:], start=first):
        if message.role is ChatRole.ASSISTANT:
            turn = Turn("assistant", writer.answered(at, message))
        elif message.role is ChatRole.TOOL:
            turn = Turn("user", [writer.result(at, message)])
        elif message.role in INSTRUCTING:
            turn = Turn("user", writer.note(at, message))
        else:
            turn = Turn("user", writer.asked(at, message))
        turns.append(turn)
    turns = _joined(turns)
    kept = [turn for turn in turns if not all(isinstance(block, Thinking) for block in turn.blocks)]
    if len(kept) < len(turns):
        repairs.append("thinking that no answer follows: left out")
    return _joined(kept)


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    """Turns that alternate, thinking first in each, none of them empty."""
    joined: list[Turn] = []
    for turn in turns:
        if not turn.blocks:
            continue
        if joined and joined[-1].role == turn.role:
            joined[-1].blocks += turn.blocks
        else:
            joined.append(Turn(turn.role, list(turn.blocks)))
    for turn in joined:
        # Stable: everything else keeps its order, and so does the thinking, which must not be reordered.
        turn.blocks.sort(key=lambda block: not isinstance(block, Thinking))
    return joined


def _places(messages: Sequence[Message], ready: Sequence[Message], breakpoints: Iterable[int]) -> list[int]:
    """Which of the prepared messages the breakpoints come after.

    Preparing moves and drops results but keeps the order of all others, so those are counted.
    """
    spoken = [at for at, message in enumerate(ready) if message.role is not ChatRole.TOOL]
    places: list[int] = []
    for index in sorted(set(breakpoints)):
        if not 0 <= index < len(messages):
            continue
        count = sum(message.role is not ChatRole.TOOL for message in messages[: index + 1])
        if not count:
            continue
        at = spoken[count - 1]
        if messages[index].role is ChatRole.TOOL:
            # After all results of these calls: a cut among them would part what belongs together.
            at = spoken[count] - 1 if count < len(spoken) else len(ready) - 1
        places.append(at)
    return places


def _cut(system: Sequence[Text], turns: Sequence[Turn], places: Sequence[int]) -> None:
    """Mark the last block of each place; where there is none, the last one before it."""
    blocks = [*system, *(block for turn in turns for block in turn.blocks)]
    # Thinking cannot carry a mark.
    able: list[Block] = [block for block in blocks if not isinstance(block, Thinking)]
    marked: list[Block] = []
    for place in places:
        last = next((block for block in reversed(able) if block.at <= place), None)
        if last is not None and (not marked or last is not marked[-1]):
            marked.append(last)
    for block in marked[-MOST_BREAKPOINTS:]:
        block.cut = True


def _offers(tools: Sequence[Mapping[str, Any]], names: ToolNames, repairs: list[str]) -> list[Offer]:
    """The tools as they are offered; the arguments are always an object."""
    return [
        Offer(
            name=spec.name,
            description=well_formed(spec.description).strip(),
            schema={**well_formed_json(spec.parameters), "type": "object"},
        )
        for spec in tool_specs(tools, names, repairs)
    ]


def _called(turns: Iterable[Turn]) -> list[str]:
    uses = (block for turn in turns for block in turn.blocks if isinstance(block, Use))
    return list(dict.fromkeys(use.name for use in uses))
