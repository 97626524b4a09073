"""Two ways to add what only you know: a section of your own, and a provider function."""

from collections.abc import MutableMapping
from typing import Any

import anyio

from autonomy_ctx import (
    AdditionalContextSection,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SystemInstructionsSection,
)

ORDERS = {"ana": ["4411: rain jacket, sent on Monday", "4398: tent, delivered"]}


class OpenOrders:
    """Any object with `name`, `enabled` and `get_messages` is a section; there is nothing to inherit."""

    name = "open_orders"
    enabled = True

    def __init__(self, orders: dict[str, list[str]]) -> None:
        self.orders = orders

    async def get_messages(
        self, memory: Any, scope: str, conversation: str, params: MutableMapping[str, Any]
    ) -> list[dict[str, Any]]:
        found = self.orders.get(scope, [])
        # Sections share `params`, in order: a later one may use what this one leaves there.
        params["open_orders"] = len(found)
        if not found:
            return []
        return [{"role": "system", "content": "Orders of this user:\n" + "\n".join(found)}]


async def preferences(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
    """A provider is the short form: one function, plain or async."""
    return [{"role": "system", "content": f"{params['open_orders']} orders. Prices in EUR."}]


async def main() -> None:
    memory = Memory()
    await memory.append("ana", "support", Message("user", "Where is my jacket?"))
    template = ContextTemplate(
        [
            SystemInstructionsSection("You work at the help desk of an outdoor shop."),
            OpenOrders(ORDERS),
            AdditionalContextSection("preferences", provider_fn=preferences, timeout=2.0),
            ConversationHistorySection(),
        ]
    )
    context = await template.compose(memory, "ana", "support")
    for message, origin in zip(context.messages, context.origins(), strict=True):
        print(f"{origin.section:22}{message.role:8}{' / '.join(message.text.splitlines())}")


if __name__ == "__main__":
    anyio.run(main)
