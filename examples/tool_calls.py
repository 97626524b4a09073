"""A window over tool calls: never a result without its call, and what is left out has a name."""

import anyio

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Memory, Message, ToolCall
from autonomy_ctx.messages import validate_tool_pairing


def asked(number: int) -> list[Message]:
    """One turn: a question, two calls side by side, their results, an answer."""
    fares, rooms = ToolCall(f"fares-{number}", "fares", "{}"), ToolCall(f"rooms-{number}", "rooms", "{}")
    return [
        Message("user", f"Question {number}"),
        Message("assistant", tool_calls=[fares, rooms]),
        Message("tool", '{"eur": 42}', tool_call_id=fares.id, name=fares.name),
        Message("tool", '{"free": 3}', tool_call_id=rooms.id, name=rooms.name),
        Message("assistant", f"Answer {number}"),
    ]


async def main() -> None:
    memory = Memory()
    for number in range(1, 9):
        await memory.append("ana", "trip", *asked(number))

    for limit in (12, 7, 3):
        template = ContextTemplate([ConversationHistorySection(max_messages=limit)])
        context = await template.compose(memory, "ana", "trip")
        whole, problem = validate_tool_pairing(context.messages)
        [gone] = context.omitted
        shown = ", ".join(str(origin.position) for origin in context.origins())
        print(f"max_messages={limit:<3} shows {shown}")
        print(f"    pairs whole: {whole}{f' ({problem})' if problem else ''}")
        print(f"    left out: {gone.count} messages, positions {gone.first} to {gone.last} ({gone.reason})")


if __name__ == "__main__":
    anyio.run(main)
