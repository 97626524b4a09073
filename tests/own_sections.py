"""Sections of a test's own: they say or do whatever the test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autonomy_ctx import ContextTemplate, Memory


def note(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


class Says:
    """A section of one's own, with no base class: a name, a switch, messages."""

    def __init__(self, name: str, *given: Any, enabled: bool = True, **options: Any) -> None:
        self.name = name
        self.enabled = enabled
        self.given = list(given) or [note(name)]
        for option, value in options.items():
            setattr(self, option, value)

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
        return self.given


class Does(Says):
    """A section that does whatever a test wants."""

    def __init__(self, name: str, work: Callable[[dict[str, Any]], Any], **options: Any) -> None:
        super().__init__(name, **options)
        self.work = work

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
        found = self.work(params)
        return await found if hasattr(found, "__await__") else found


def fail(params: dict[str, Any]) -> Any:
    raise RuntimeError("away")


async def texts(template: ContextTemplate, params: dict[str, Any] | None = None) -> list[str]:
    context = await template.compose(Memory(), "ana", "trip", params)
    return [message.text for message in context.messages]
