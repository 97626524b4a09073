"""MCP in both directions: a memory is served to MCP clients, and an agent uses it as one of them."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from autonomy_ctx import Agent, Memory, Model
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tools import mcp_server


def calling(name: str, arguments: str) -> dict[str, object]:
    """What a model answers that wants to use a tool."""
    call = {"id": "call-1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


async def main() -> None:
    with TemporaryDirectory() as folder:
        database = Path(folder) / "trips.db"
        async with Memory(f"sqlite:///{database}") as memory:
            guide = Agent("guide", instructions="You plan trips.", model=Model("offline"), memory=memory)
            await guide.send("The hotel in Lisbon is Casa do Largo.", scope="ana", conversation="trip")
            await guide.facts(scope="ana", conversation="trip").add("value", "the budget is 600 EUR")
            await guide.close()

        # One scope of the memory, as any MCP client would start it.
        command = ["-m", "autonomy_ctx", "mcp", "--memory", str(database), "--scope", "ana"]
        trips = mcp_server(sys.executable, args=command, name="trips")
        await trips.connect()
        print("tools:", ", ".join(tool.name for tool in trips.listed_tools()))

        # Replies of a script stand in for a model.
        model = ScriptedModel([calling("search_memory", '{"query": "hotel in Lisbon"}'), "Casa do Largo."])
        async with Agent("clerk", instructions="You answer.", model=model, tools=[trips]) as clerk:
            print("answer:", await clerk.send("Where does Ana stay?"))
            [found] = [one["content"] for one in await clerk.history() if one["role"] == "tool"]
            print(found)


if __name__ == "__main__":
    anyio.run(main)
