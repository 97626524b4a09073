"""`AdditionalContextSection`: fixed messages, and messages from a provider function."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from autonomy_ctx.callables import await_value, describe_error
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import Message
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params, SectionKind

logger = logging.getLogger("autonomy_ctx.sections")

ContextProvider = Callable[[str, str, Any], Any]


class AdditionalContextSection(ContributingSection):
    """Static messages first, then those of `provider_fn(scope, conversation, params)`, plain or async.

    If the provider fails or is too slow, the static messages are still shown and the problem is recorded.
    """

    handles_timeout = True

    def __init__(
        self,
        name: str = "additional_context",
        enabled: bool = True,
        provider_fn: ContextProvider | None = None,
        *,
        required: bool = False,
        timeout: float | None = None,
        independent: bool = False,
        kind: SectionKind = "volatile",
    ) -> None:
        super().__init__(name, enabled)
        self.provider_fn = provider_fn
        self.required, self.timeout, self.independent, self.kind = required, timeout, independent, kind
        self._static = Contribution(())

    def set_static_messages(self, messages: Sequence[Message | Mapping[str, Any]]) -> None:
        """Replace the static messages."""
        self._static = Contribution(tuple(wire.from_dicts(messages)))

    def add_message(self, message: Message | Mapping[str, Any]) -> None:
        """Add one static message."""
        self._static = Contribution((*self._static.messages, *wire.from_dicts([message])))

    def clear_messages(self) -> None:
        """Drop the static messages."""
        self._static = Contribution(())

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        if self.provider_fn is None:
            return self._static
        messages, problem = list(self._static.messages), None
        try:
            with anyio.move_on_after(self.timeout) as scope_of_time:
                provided = await await_value(self.provider_fn(scope, conversation, params))
                messages += wire.from_dicts(provided or ())
            if scope_of_time.cancelled_caught:
                problem = f"took longer than {self.timeout:g} s"
        except Exception as error:
            logger.warning("section `%s`: its provider failed", self.name, exc_info=True)
            problem = f"its provider failed: {describe_error(error)}"
        return Contribution(messages, problem=problem)
