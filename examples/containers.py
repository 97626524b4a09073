"""What an agent holds in hand: the latest readings, documents to choose from, and a talk that forks."""

import json
from collections.abc import Iterable
from typing import Any

import anyio

from autonomy_ctx import (
    ChatContext,
    ContextItem,
    ContextPool,
    ContextPoolHook,
    ContextQueue,
    ContextTemplate,
    Memory,
    Message,
    PoolSection,
    QueueSection,
    hook,
)
from autonomy_ctx.containers import ContextPoolView
from autonomy_ctx.errors import HookError


@hook(ContextPoolHook.BEFORE_ADD)
def refuse_drafts(pool: ContextPool, item: ContextItem[Any]) -> None:
    """A hook before a change may refuse it: raise, and nothing happens."""
    if "draft" in (item.description or ""):
        raise ValueError("drafts stay out")


@hook(ContextPoolHook.AFTER_ADD)
async def tell(pool: ContextPool, item: ContextItem[Any]) -> None:
    """A hook after a change hears of it, plain or async."""
    print(f"  in the pool: {item.id} ({len(pool)} of {pool.limit})")


def asked_for(pool: ContextPoolView, scope: str, conversation: str, params: Any) -> Iterable[str]:
    """Which documents this turn needs; a model may choose as well."""
    return [item.id for item in pool if item.id and item.id in params["question"]]


async def queue_and_pool() -> None:
    print("A queue keeps the latest, a pool what it is given by id")
    readings = ContextQueue(limit=2)
    for hour in (9, 10, 11):
        await readings.append(ContextItem(f"{hour}:00, 18 degrees, wind from the west"))
    documents = ContextPool(limit=2, hooks=[refuse_drafts, tell])
    for name in ("visa", "ferry", "rooms"):  # the third takes the place of the oldest
        await documents.add(ContextItem(f"All about {name}.", description=f"Notes on {name}", id=name))
    try:
        await documents.add(ContextItem("...", description="A draft", id="food"))
    except HookError as error:
        print(f"  {error}")

    template = ContextTemplate([QueueSection(readings), PoolSection(documents, select=asked_for)])
    context = await template.compose(Memory(), "ana", "trip", {"question": "When is the last ferry?"})
    for message, origin in zip(context.messages, context.origins(), strict=True):
        print(f"  {origin.section:6}{' / '.join(message.text.splitlines())}")

    saved = json.dumps(documents.to_dict())
    restored = ContextPool.from_dict(json.loads(saved))
    print(f"  saved in {len(saved)} characters, and back with its hooks: {restored.hooks == documents.hooks}")


async def talk() -> None:
    print("A conversation in hand forks, merges and is cut without breaking a pair")
    chat = ChatContext()
    chat.system("You plan short trips.")
    for number in range(1, 4):
        chat.user(f"Question {number}")
        chat.add_function_call("search", {"q": number}, call_id=f"c{number}")
        chat.add_function_output("search", "three results", call_id=f"c{number}")
        chat.assistant(f"Answer {number}")

    helper = chat.fork_brief("You find rooms.", "A room in Cacilhas under 80 EUR.", agent_id="rooms")
    helper.assistant("Boavista, 64 EUR.", agent_id="rooms")
    await chat.merge_result(helper)
    print(f"  after the helper: {len(chat)} items, the last says {chat.messages()[-1].text!r}")
    for limit in (9, 6, 3):
        left = chat.fork().truncate(max_items=limit)
        roles = [item.role for item in left if isinstance(item, Message)]
        print(f"  at most {limit}: {', '.join(roles)}")


async def main() -> None:
    await queue_and_pool()
    await talk()


if __name__ == "__main__":
    anyio.run(main)
