"""Summaries over a memory that can only give all messages."""

from __future__ import annotations

from typing import Any

import pytest
from summary_models import HeldModel, ScriptedModel, shown, summarized

Form = dict[str, Any]


class TheirMemory:
    """Somebody else's memory: lists of dicts, and no more."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], list[Form]] = {}

    def say(self, *texts: str, scope: str = "ana", conversation: str = "trip") -> None:
        kept = self.kept.setdefault((scope, conversation), [])
        kept += [{"role": "user", "content": text} for text in texts]

    async def get_messages_only(self, scope: str, conversation: str) -> list[Form]:
        return [dict(form) for form in self.kept.get((scope, conversation), [])]


class TheirPlainMemory(TheirMemory):
    """The same without a wait."""

    def get_messages_only(self, scope: str, conversation: str) -> list[Form]:  # type: ignore[override]
        return [dict(form) for form in self.kept.get((scope, conversation), [])]


def numbered(first: int, last: int) -> list[str]:
    return [f"said {number}" for number in range(first, last + 1)]


@pytest.mark.parametrize("kind", [TheirMemory, TheirPlainMemory])
async def test_any_memory_with_get_messages_only_is_summarized(kind: type[TheirMemory]) -> None:
    theirs = kind()
    theirs.say(*numbered(1, 9))
    async with summarized(ScriptedModel(["they planned a trip"])) as section:
        found = await shown(section, theirs)
        assert (found.texts, found.params["conversation_message_count"]) == (numbered(1, 9), 9)
        await section.settled()
        found = await shown(section, theirs)
        assert "they planned a trip" in found.summary_text
        assert found.texts[1:] == numbered(6, 9)
        theirs.say("said 10")
        assert (await shown(section, theirs)).texts[1:] == numbered(6, 10)
        assert section.get_metrics()["summaries_committed"] == 1


async def test_an_empty_foreign_memory_shows_nothing() -> None:
    async with summarized(ScriptedModel()) as section:
        assert (await shown(section, TheirMemory())).messages == []


async def test_messages_without_an_id_that_say_the_same_are_all_shown() -> None:
    theirs = TheirMemory()
    theirs.say("yes", "yes", "yes")
    async with summarized(ScriptedModel()) as section:
        assert (await shown(section, theirs)).texts == ["yes"] * 3
        theirs.say("yes")
        assert (await shown(section, theirs)).texts == ["yes"] * 4


async def test_messages_with_the_same_id_are_all_shown() -> None:
    theirs = TheirMemory()
    theirs.kept["ana", "trip"] = [{"role": "user", "content": str(at), "id": "same"} for at in range(3)]
    async with summarized(ScriptedModel()) as section:
        assert (await shown(section, theirs)).texts == ["0", "1", "2"]


@pytest.mark.parametrize("change", ["edited", "deleted", "shortened", "emptied"])
async def test_when_their_past_has_changed_the_summary_made_from_it_is_gone(change: str) -> None:
    theirs = TheirMemory()
    theirs.say(*numbered(1, 9))
    async with summarized(ScriptedModel(["said 2 was a secret"])) as section:
        await shown(section, theirs)
        await section.settled()
        assert "secret" in (await shown(section, theirs)).summary_text
        kept = theirs.kept["ana", "trip"]
        match change:
            case "edited":
                kept[1] = {"role": "user", "content": "changed"}
            case "deleted":
                del kept[1]
            case "shortened":
                del kept[3:]
            case "emptied":
                kept.clear()
        found = await shown(section, theirs)
        assert found.summary is None
        assert found.texts == [form["content"] for form in kept]


async def test_a_summary_that_lands_after_their_past_has_changed_is_discarded() -> None:
    theirs = TheirMemory()
    theirs.say(*numbered(1, 9))
    model = HeldModel()
    async with summarized(model) as section:
        await shown(section, theirs)
        call = await model.wait_for_call()
        del theirs.kept["ana", "trip"][1]
        assert "said 2" not in (await shown(section, theirs)).texts
        call.answer("said 2 was a secret")
        await section.settled()
        assert "secret" not in " ".join((await shown(section, theirs)).texts)


async def test_what_a_caller_does_to_the_dicts_changes_nothing() -> None:
    theirs = TheirMemory()
    theirs.say(*numbered(1, 3))
    async with summarized(ScriptedModel()) as section:
        for form in await section.get_messages(theirs, "ana", "trip", {}):
            form["content"] = "spoiled"
        assert (await shown(section, theirs)).texts == numbered(1, 3)


async def test_scopes_of_a_foreign_memory_stay_apart() -> None:
    theirs = TheirMemory()
    theirs.say("cats", scope="a", conversation="b:c")
    theirs.say("dogs", scope="a:b", conversation="c")
    async with summarized(ScriptedModel()) as section:
        assert (await shown(section, theirs, "a", "b:c")).texts == ["cats"]
        assert (await shown(section, theirs, "a:b", "c")).texts == ["dogs"]


async def test_two_foreign_memories_never_show_each_others_messages() -> None:
    one, other = TheirMemory(), TheirMemory()
    one.say(*[f"cats {number}" for number in range(9)])
    other.say(*[f"dogs {number}" for number in range(9)])
    model = ScriptedModel([lambda call: "all cats" if "cats" in call.prompt else "all dogs"])
    async with summarized(model) as section:
        for _ in range(3):
            for theirs, word, foreign in ((one, "cats", "dogs"), (other, "dogs", "cats")):
                said = " ".join((await shown(section, theirs)).texts)
                assert word in said
                assert foreign not in said
                await section.settled()
    assert not any("cats" in call.prompt and "dogs" in call.prompt for call in model.calls)


async def test_two_foreign_memories_keep_their_summaries() -> None:
    one, other = TheirMemory(), TheirMemory()
    one.say(*[f"cats {number}" for number in range(9)])
    other.say(*[f"dogs {number}" for number in range(9)])
    model = ScriptedModel()
    async with summarized(model) as section:
        for _ in range(3):
            for theirs in (one, other):
                await shown(section, theirs)
                await section.settled()
        assert (await shown(section, one)).summary is not None
        assert (await shown(section, other)).summary is not None
    assert len(model.calls) == 2
