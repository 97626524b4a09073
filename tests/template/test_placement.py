"""What a section may offer beside its messages is looked at once, when it joins a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest
from own_sections import Says

from autonomy_ctx import (
    AdditionalContextSection,
    ContextTemplate,
    InboxSection,
    Memory,
    Message,
    SectionError,
    SummarizedHistorySection,
)
from autonomy_ctx.sections import Contribution
from autonomy_ctx.sections.section import Params
from autonomy_ctx.template.running import SectionOptions, read_section_options


def offers(placement: SectionOptions) -> set[str]:
    abilities = ("observer", "delivery", "summarizing", "metrics", "closeable")
    return {ability for ability in abilities if getattr(placement, ability) is not None}


def test_a_plain_section_offers_only_messages() -> None:
    assert offers(read_section_options(Says("plain"))) == set()


def test_sections_of_this_library_offer_what_they_have() -> None:
    assert offers(read_section_options(InboxSection())) == {"delivery"}
    assert offers(read_section_options(SummarizedHistorySection(None))) == {
        "observer",
        "summarizing",
        "metrics",
        "closeable",
    }


def test_a_template_shows_the_placements_in_the_order_of_its_sections() -> None:
    first, second = Says("first"), Says("second")
    template = ContextTemplate([second])
    template.add_section(first, index=0)
    assert [options.section for options in template.section_options] == [first, second]


async def test_any_object_may_observe_contribute_and_close() -> None:
    class Own:
        """No base class, and no `__dict__` either."""

        __slots__ = ("closed", "enabled", "name", "seen")

        def __init__(self) -> None:
            self.name, self.enabled, self.closed = "conversation_history", True, False
            self.seen: list[tuple[int, int, list[Mapping[str, Any]]]] = []

        def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
            raise AssertionError("`contribute` is in the same class and goes before")

        async def contribute(self, memory: Any, scope: str, conversation: str, params: Any) -> Contribution:
            return Contribution([Message("user", "Hello")], [7])

        def note_composed(
            self, contribution: Contribution, composed: Any, tools: Sequence[Mapping[str, Any]]
        ) -> None:
            self.seen.append((len(contribution.messages), len(composed), list(tools)))

        def close(self) -> None:
            self.closed = True

    own, tool = Own(), {"name": "look", "description": "", "parameters": {}}
    async with ContextTemplate([own, Says("beside")]) as template:
        context = await template.compose(Memory(), "ana", "trip", tools=[tool])
    assert context.positions() == [7, None]
    assert own.seen == [(1, 2, [tool])]
    assert own.closed


class Hangs(AdditionalContextSection):
    """Overrides the method that ends in time."""

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        await anyio.sleep_forever()
        raise AssertionError


class EndsInTime(Hangs):
    """Overrides it again, and says that it ends in time by itself."""

    handles_timeout = True

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        with anyio.move_on_after(self.timeout):
            await super().contribute(memory, scope, conversation, params)
        return Contribution([Message("system", "what there is by then")])


def test_a_section_that_handles_its_timeout_is_not_stopped_by_the_template() -> None:
    assert read_section_options(AdditionalContextSection(timeout=0.01)).timeout is None
    assert read_section_options(EndsInTime(timeout=0.01)).timeout is None


async def test_a_subclass_that_overrides_the_method_is_stopped_again() -> None:
    assert read_section_options(Hangs(timeout=0.01)).timeout == 0.01
    with pytest.raises(SectionError, match="took longer than"):
        await ContextTemplate([Hangs(timeout=0.01, required=True)]).compose(Memory(), "ana", "trip")


async def test_what_such_a_section_has_in_time_is_shown() -> None:
    context = await ContextTemplate([EndsInTime(timeout=0.01)]).compose(Memory(), "ana", "trip")
    assert [message.text for message in context.messages] == ["what there is by then"]
