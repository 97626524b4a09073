"""Chapter 5 of the tutorial: a budget for each request, and what a conversation costs."""

from typing import Literal

import anyio

from autonomy_ctx import Agent, Model, tool
from autonomy_ctx.testing import StoppedClock
from autonomy_ctx.tokens import Price, estimate_cost

INSTRUCTIONS = """\
You answer customers of Pedal, a bike rental in Porto.
The shop opens at 9:00 and closes at 19:00.
A city bike costs 15 EUR a day.
An e-bike costs 32 EUR a day.
A child seat costs 4 EUR a day.
The deposit is 50 EUR for each bike.
A helmet and a lock are included.
Guided tours start at the Ribeira at 10:00.
A flat tyre is repaired on the road by our mechanic.
Bookings are cancelled free of charge until 18:00 the day before.
We take cards and cash.
Bikes are delivered to hotels for 10 EUR."""

Kind = Literal["city bike", "e-bike"]
FREE: dict[Kind, int] = {"city bike": 6, "e-bike": 3}


@tool
async def count_free_bikes(kind: Kind) -> int:
    """How many bikes of a kind are free on Saturday."""
    return FREE[kind]


@tool
async def book_bikes(kind: Kind, count: int, scope: str) -> str:
    """Book bikes for Saturday.

    Args:
        kind: The kind of bike.
        count: How many.
    """
    if count > FREE[kind]:
        raise ValueError(f"only {FREE[kind]} of this kind are free")
    FREE[kind] -= count
    return f"booked for {scope}: {count} x {kind}"


QUESTIONS = (
    "When does the shop open?",
    "Is a lock included?",
    "How much is the deposit?",
    "And a child seat?",
    "Where do guided tours start?",
    "Who repairs a flat tyre?",
    "Until when are bookings cancelled free of charge?",
    "Do you take cards?",
    "Are bikes delivered to hotels?",
    "How much is a city bike?",
    "Where do my invoices go?",
)
# US dollars for a million tokens
PRICE = Price(input=0.25, cached_input=0.025, output=2)


async def main() -> None:
    desk = Agent(
        "desk",
        instructions=INSTRUCTIONS,
        tools=[count_free_bikes, book_bikes],
        model=Model("offline"),  # or Model("gpt-5-mini"), with OPENAI_API_KEY set
        memory="sqlite:///pedal.db",
        context_summary={"floor": 4, "ceiling": 8},
        limits={"context_tokens": 850, "output_tokens": 200},
        clock=StoppedClock(),  # only so that this prints the same every day
    )
    async with desk:
        address = "My invoices go to Rua das Flores 12."
        await desk.send(address, scope="ben", conversation="august", message_id="invoices")
        await desk.pin("invoices", scope="ben", conversation="august")
        for turn, question in enumerate(QUESTIONS, start=2):
            reply = await desk.send(question, scope="ben", conversation="august")
            tokens = reply.usage.input_tokens
            cents = 100 * (estimate_cost(reply.usage, PRICE) or 0)
            context = await desk.explain(scope="ben", conversation="august")
            cut = [f"{one.messages} {one.what}" for one in context.cut]
            print(f"turn {turn:2}: {tokens} tokens", f"{cents:.3f} cents", *cut, sep=", ")
            await desk.settled()  # only so that this prints the same every time
        print(f"\nBen:  {question}\nDesk: {reply}\n")

        print("1,000 conversations like this one:")
        used = desk.get_metrics()
        for what, name in (("answers", ""), ("summaries", "summarizer_")):
            read, written = used[f"{name}input_tokens"], used[f"{name}output_tokens"]
            cost = PRICE.cost(uncached=read, output=written)
            print(f"{what}: {1000 * cost:.2f} USD")


if __name__ == "__main__":
    anyio.run(main)
