"""The shortest way: keep what was said, compose what the model should see."""

import anyio

from autonomy_ctx import (
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SystemInstructionsSection,
)


async def main() -> None:
    memory = Memory()
    await memory.append(
        "ana",
        "trip",
        Message("user", "Three days in Lisbon, no museums. Where do I start?"),
        Message("assistant", "Alfama on foot, then the ferry to Cacilhas for dinner."),
        Message("user", "Is the ferry running on Sunday?"),
    )

    template = ContextTemplate(
        [
            SystemInstructionsSection("You plan short trips. Answer in two sentences."),
            ConversationHistorySection(max_messages=50),
        ]
    )
    context = await template.compose(memory, "ana", "trip")

    print(context)
    for message, origin in zip(context.messages, context.origins(), strict=True):
        print(f"{origin.section:22}{origin.tokens:3} tokens  {message.role:10}{message.text}")


if __name__ == "__main__":
    anyio.run(main)
