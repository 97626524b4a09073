"""Hundreds of tools within a budget: the model is told their names, and finds the definitions it needs.

Runs without a key or a server: the model is scripted, and the tools are functions. Use `mcp_server(...)` and
a `Model` instead.
"""

from typing import Any

import anyio

from autonomy_ctx import Agent, Tool, ToolAnswered, tool
from autonomy_ctx.testing import ScriptedModel

PLACES = ("hotel", "flight", "ferry", "museum", "restaurant", "car", "bike", "guide", "ticket", "train")
VERBS = ("book", "cancel", "list", "rate", "change", "describe", "compare", "share", "print", "pay")


@tool
def refund_trip(reference: str) -> str:
    """Refund the price of a trip to the card that paid it."""
    return f"{reference}: 84 EUR refunded"


def make_tool(verb: str, place: str) -> Tool[..., Any]:
    """One of a hundred tools, as servers have them."""

    def run(reference: str, note: str = "") -> str:
        return f"{verb} {place}: {reference}"

    description = f"{verb.title()} a {place}. The reference is that of the booking, such as TX-7712."
    return Tool(run, name=f"{verb}_{place}", description=description)


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    made = {"id": f"call-{name}", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


async def main() -> None:
    tools = [make_tool(verb, place) for place in PLACES for verb in VERBS]
    model = ScriptedModel(
        [
            call("find_tools", query="give the customer the money back", limit=1),
            call("call_tool", name="refund_trip", arguments={"reference": "TX-7712"}),
            "The money is on its way.",
        ]
    )
    async with Agent("clerk", tools=[refund_trip, *tools], model=model, tool_budget=3_000) as clerk:
        async for event in clerk.stream("I want my money back for TX-7712."):
            if isinstance(event, ToolAnswered):
                print(f"{event.call.name}: {event.message.text.splitlines()[0]}")
        context = await clerk.explain()
        listed = next(one for one in context.definitions or () if one.name == "tools")
        print(f"listed: {', '.join(listed.items)}; {len(tools) + 1} others are found")


if __name__ == "__main__":
    anyio.run(main)
