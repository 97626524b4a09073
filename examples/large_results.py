"""A long result is shown in part; the model searches the rest. Runs offline."""

from typing import Any

import anyio

from autonomy_ctx import Agent, tool
from autonomy_ctx.testing import ScriptedModel


@tool
def read_log(service: str) -> str:
    """Read the log of a service."""
    lines = [f"09:{number // 60:02d} request {number} took {number % 7} ms" for number in range(3000)]
    lines[1207] = "09:20 ERROR connection to db-7 refused"
    return "\n".join(lines)


def search(request: Any) -> dict[str, Any]:
    """Answer as a model does that has seen the excerpt."""
    result = request.messages[-1]["content"]
    result_id = result.partition('read_result(id="')[2].partition('"')[0]
    arguments = {"id": result_id, "query": "db-7"}
    return {"tool_calls": [{"id": "c2", "name": "read_result", "arguments": arguments}]}


async def main() -> None:
    first = {"tool_calls": [{"id": "c1", "name": "read_log", "arguments": {"service": "orders"}}]}
    model = ScriptedModel([first, search, "db-7 refuses connections since 09:20."])
    async with Agent("ops", model=model, tools=[read_log]) as agent:
        print((await agent.send("What is wrong with the orders?")).text)
        context = await agent.explain()
    print(f"{context.tokens:,} tokens were sent; the log alone has 35,000.")


anyio.run(main)
