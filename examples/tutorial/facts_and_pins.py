"""Chapter 4 of the tutorial: what must not get lost in a summary."""

from typing import Literal

import anyio

from autonomy_ctx import Agent, Model, tool

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


REMARKS = (
    "My invoices go to Rua das Flores 12. How much is an e-bike?",
    "Never call me before noon. When does the shop open?",
    "My budget is 300 EUR. Is a lock included?",
)
SIGN = "My sign says: BEN'S TOURS, 9:45, at the blue door. Is a helmet included?"
QUESTIONS = (
    "Where do guided tours start?",
    "Who repairs a flat tyre?",
    "My budget is 450 EUR now. Do you take cards?",
    "Until when are bookings cancelled free of charge?",
    "Are bikes delivered to hotels?",
    "How much is a city bike?",
    "And a child seat?",
    "What does my sign say?",
)


async def main() -> None:
    desk = Agent(
        "desk",
        instructions=INSTRUCTIONS,
        tools=[count_free_bikes, book_bikes],
        model=Model("offline"),  # or Model("gpt-5"), with OPENAI_API_KEY set
        memory="sqlite:///pedal.db",
        context_summary={"floor": 4, "ceiling": 8},
    )
    async with desk:
        for remark in REMARKS:
            await desk.send(remark, scope="ben", conversation="july")
        await desk.send(SIGN, message_id="sign", scope="ben", conversation="july")
        await desk.pin("sign", scope="ben", conversation="july")
        facts = desk.facts(scope="ben", conversation="july")
        await facts.add("preference", "Ben prefers city bikes")
        for question in QUESTIONS:
            reply = await desk.send(question, scope="ben", conversation="july")
            await desk.settled()  # only so that this prints the same every time
        print(f"Ben:  {question}\nDesk: {reply}\n")

        context = await desk.explain(scope="ben", conversation="july")
        sent = {origin.position for origin in context.origins()}
        for position in (1, 3, 5, 7):
            print(f"message {position}:", "sent" if position in sent else "in the summary")
        for fact in await facts.history():
            print(f"{fact.id} {fact.state}: {fact.kind}, {fact.text}")


if __name__ == "__main__":
    anyio.run(main)
