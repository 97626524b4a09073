"""Conversations to look at, and a way to run async code beside a browser, which has the thread's loop."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import anyio

from autonomy_ctx import (
    AdditionalContextSection,
    Agent,
    ContextTemplate,
    Memory,
    SummarizedHistorySection,
    SystemInstructionsSection,
)
from autonomy_ctx.cli.inspector_file import make_inspector_html
from autonomy_ctx.testing import ScriptedModel, numbered_ids

T = TypeVar("T")
SCOPE, CONVERSATION, AGENT = "ana", "trip", "guide"
HOSTILE = (
    "<script>document.title = 'pwned'</script><img src=x onerror=alert(1)>"
    "</script></style>\x1b[31mred\x1b[0m \u202eevil\u202c \u200bhidden &lt; {{7*7}}"
)


def run_beside(work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Run async code to its end in another thread."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(anyio.run(work, *arguments))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


async def write_story(path: Path) -> None:
    """12 turns with a summary, facts, a pin and a section that fails; a conversation of hostile text."""
    async with Memory(f"sqlite:///{path}") as memory:
        await write_trip(memory)
        view = memory.for_agent(AGENT)
        await view.append("eve", HOSTILE, {"role": "user", "content": HOSTILE, "id": "evil"})
        await view.append("eve", HOSTILE, {"role": "assistant", "content": "I see text."})
        await view.facts("eve", HOSTILE).add("value", HOSTILE[:200])
        await view.pin("eve", HOSTILE, "evil")
        page = await view.read(SCOPE, CONVERSATION, after=0, before=2)
        await view.pin(SCOPE, CONVERSATION, page.entries[0].message.id)


async def write_trip(memory: Memory, turns: int = 12) -> None:
    """Turns of an agent whose history is summarized by a model."""
    asked = iter(range(1_000))

    def weather(scope: str, conversation: str, params: Any) -> list[dict[str, Any]]:
        number = next(asked)
        if number == turns - 2:
            raise ConnectionError("weather.example is down")
        return [{"role": "system", "content": "It rains." if number == turns - 3 else "21 degrees and dry."}]

    writer = ScriptedModel("- The booking code is PT-4711.\n- Porto comes first.")
    history = SummarizedHistorySection(summary_model=writer, floor=4, ceiling=8)
    template = ContextTemplate(
        [
            SystemInstructionsSection("You plan short trips."),
            history,
            AdditionalContextSection("weather", provider_fn=weather, kind="volatile"),
        ]
    )
    model = ScriptedModel("Noted, and now the next one.")
    model.name = "claude-sonnet-4-5"
    async with Agent(
        AGENT, model=model, memory=memory, context_template=template, new_id=numbered_ids("turn-")
    ) as guide:
        for number in range(1, turns + 1):
            night = f"Night {number} costs {60 + number} EUR."
            text = "My booking code is PT-4711." if number == 1 else night
            await guide.send(text, scope=SCOPE, conversation=CONVERSATION)
            await history.settled()


async def make_page(database: Path) -> str:
    """All conversations of a database as one page."""
    async with Memory(f"sqlite:///{database}") as memory:
        found = [info.key for scope in await memory.scopes() for info in await memory.conversations(scope)]
        return await make_inspector_html(memory, found)


def view_of(address: str, name: str, **parameters: str) -> str:
    """The address of a view of the trip."""
    place = {"agent": AGENT, "scope": SCOPE, "conversation": CONVERSATION}
    return f"{address}#/{name}?{urlencode(place | parameters)}"
