"""Compaction when you say so: a task is done, its messages leave the context, and what matters stays.

Runs without a key: the models are scripted. Give both a `Model` to use a real one.
"""

import anyio

from autonomy_ctx import Agent, AgentHook, hook
from autonomy_ctx.compaction import ContextCompacted
from autonomy_ctx.testing import ScriptedModel

RECORD = "Done\n- The flight to Porto on 3 May is booked, 84 EUR, reference TX-7712."


@hook(AgentHook.BEFORE_COMPACTION)
def tell(scope: str, conversation: str, event: ContextCompacted) -> None:
    """Called before the request that shows a summary is sent."""
    print(f"   messages {event.first} to {event.last} leave the context ({event.reason})")


async def main() -> None:
    answers = ScriptedModel(["Booked: TX-7712, 84 EUR."] * 7 + ["TX-7712."])
    async with Agent(
        "planner",
        instructions="You plan trips.",
        model=answers,
        context_summary={"model": ScriptedModel([RECORD]), "floor": 4},
        hooks=[tell],
    ) as planner:
        for number in range(7):
            await planner.send(f"Flight {number} to Porto on 3 May?")
        print(f"before: {(await planner.preview()).tokens} tokens")

        done = await planner.compact("references and prices", keep=["Never more than 90 EUR a flight"])
        print(f"after: {done.tokens_after} tokens; {done.problem or 'nothing went wrong'}")

        reply = await planner.send("What was the reference?")
        print(reply.text)

        again = await planner.compact()
        print(f"once more: {again.problem or f'{again.first} to {again.last} leave'}")


if __name__ == "__main__":
    anyio.run(main)
