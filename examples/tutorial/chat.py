"""Chapter 1 of the tutorial: an assistant for a bike rental that remembers what a customer says."""

import anyio

from autonomy_ctx import Agent, Model

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

QUESTIONS = (
    "Hi, I am Ana. How much is an e-bike?",
    "I stay at the Casa do Largo. When does the shop close?",
    "Is a helmet included?",
    "Where do I stay?",
)


async def main() -> None:
    model = Model("offline")  # or Model("gpt-5"), with OPENAI_API_KEY set
    desk = Agent("desk", instructions=INSTRUCTIONS, model=model, memory="sqlite:///pedal.db")
    async with desk:
        for question in QUESTIONS:
            reply = await desk.send(question, scope="ana", conversation="may")
            print(f"Ana:  {question}\nDesk: {reply}\n")

        context = await desk.explain(scope="ana", conversation="may")
        for section in context.sections:
            print(f"{section.name}: {section.tokens} tokens")


if __name__ == "__main__":
    anyio.run(main)
