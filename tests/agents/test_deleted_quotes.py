"""What a turn was shown of other conversations is deleted with it: from records, files and caches."""

from __future__ import annotations

import gc
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from uuid import uuid4

import anyio
import pytest
from agents.kit import stored
from stores.facts import make_change

from autonomy_ctx import (
    ContextTemplate,
    ConversationHistorySection,
    InboxSection,
    Memory,
    ProfileSection,
    RecallSection,
    SummarizedHistorySection,
)
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.errors import UnknownTurn
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.events import DirectMessage
from autonomy_ctx.sections import ContributingSection, Contribution, MessageRef
from autonomy_ctx.testing import HeldModel, ScriptedModel

# Not in the source of any module, so that whoever has it has it from a conversation.
SECRET = f"quillon{uuid4().hex}"
SAID = f"The code of the garage door is {SECRET}."
ASKED = "What was the code of the garage door?"
A, HELPER = Key("helper", "ana", "a"), "helper"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory(f"sqlite:///{tmp_path / 'memory.db'}") as memory:
        yield memory


def files_with(folder: Path, text: str) -> list[str]:
    return [file.name for file in folder.iterdir() if text.encode() in file.read_bytes().lower()]


def records_with(folder: Path, text: str) -> list[str]:
    """The conversations that have a record with the text."""
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        rows = connection.execute(
            "SELECT c.conversation FROM record r JOIN conversation c ON c.id = r.conversation_id "
            "WHERE r.body LIKE ?",
            (f"%{text}%",),
        )
        return sorted({name for (name,) in rows})


class Quotations(ContributingSection):
    """A section of a user's own that quotes the first message of another conversation."""

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Any) -> Contribution:
        _, entries = await memory.read(scope, "a", before=2)
        messages = [replace(entry.message, id=f"quoted {entry.message.id}") for entry in entries]
        return Contribution(messages, refs=[MessageRef("a", entry.position) for entry in entries])


def make_agent(memory: Memory, *sections: Any, name: str = HELPER, **options: Any) -> Agent:
    template = ContextTemplate([ConversationHistorySection(), *sections])
    model = options.pop("model", None) or ScriptedModel("ok")
    return Agent(name, model=model, memory=memory, context_template=template, **options)


async def quote(memory: Memory, kind: str) -> Agent:
    """Have conversation `b` show what was said in conversation `a` of the helper, as message m1."""
    talk = memory.for_agent(HELPER)
    if kind == "mail":
        agent = make_agent(memory, InboxSection(HELPER), name="clerk")
        mail = DirectMessage(source_agent="boss", target_agent=HELPER, content=SAID, id="m1")
        assert await Mailbox(memory).send(mail, scope="ana", conversation="b")
        await agent.send("Any mail?", scope="ana", conversation="b")
        return agent
    await talk.append("ana", "a", {"role": "user", "content": SAID, "id": "m1"})
    await talk.append("ana", "a", {"role": "assistant", "content": "Noted.", "id": "m2"})
    if kind == "profile":
        fact = replace(make_change(1, f"The code is {SECRET}"), in_profile=True)
        await talk.store.write_facts(A, [fact])
    if kind == "fork":
        await talk.fork("ana", "a", name="a, again")
    sections: dict[str, Any] = {"profile": ProfileSection(), "own section": Quotations("quotes")}
    agent = make_agent(memory, sections.get(kind) or RecallSection(across=True))
    await agent.send(ASKED, scope="ana", conversation="b")
    return agent


async def delete(memory: Memory, kind: str, what: str) -> None:
    talk = memory.for_agent(HELPER)
    # Mail was delivered into the log of the agent that it was for.
    conversation = {"mail": "b", "fork": "a, again"}.get(kind, "a")
    if what == "message":
        assert await talk.delete_message("ana", conversation, "m1")
    elif what == "conversation":
        assert await talk.delete_conversation("ana", "b" if kind == "mail" else "a")
    else:
        await memory.delete_scope("ana")


KINDS = ["recall", "profile", "mail", "fork", "own section"]


@pytest.mark.parametrize("what", ["message", "conversation", "scope"])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_another_conversation_was_shown_is_deleted_too(
    memory: Memory, tmp_path: Path, kind: str, what: str
) -> None:
    agent = await quote(memory, kind)
    assert SECRET in str((await agent.explain(scope="ana", conversation="b")).to_dicts())
    assert records_with(tmp_path, SECRET) == ["b"]
    await delete(memory, kind, what)
    with pytest.raises(UnknownTurn):
        await agent.explain(scope="ana", conversation="b")
    assert files_with(tmp_path, SECRET) == []
    if what != "scope":
        assert [one.text for one in await stored(agent.memory, "ana", "b")][-1] == "ok", "its own stays"


@pytest.mark.parametrize("kind", ["recall", "profile", "fork", "own section"])
async def test_what_is_deleted_while_the_model_answers_is_not_recorded(
    memory: Memory, tmp_path: Path, kind: str
) -> None:
    await quote(memory, kind)
    model = HeldModel()
    sections: dict[str, Any] = {"profile": ProfileSection(), "own section": Quotations("quotes")}
    agent = make_agent(memory, sections.get(kind) or RecallSection(across=True), model=model)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.send(ASKED, scope="ana", conversation="c"))
        asked = await model.wait_for_call()
        assert SECRET in str(asked.messages)
        await delete(memory, kind, "message")
        asked.answer("ok")
    assert [one.text for one in await stored(agent.memory, "ana", "c")][-1] == "ok"
    with pytest.raises(UnknownTurn):
        await agent.explain(scope="ana", conversation="c")
    assert files_with(tmp_path, SECRET) == []


async def test_a_turn_that_quotes_nothing_of_it_stays_explained(memory: Memory) -> None:
    agent = await quote(memory, "recall")
    await agent.send("Good morning!", scope="ana", conversation="c")
    await delete(memory, "recall", "message")
    assert (await agent.explain(scope="ana", conversation="c")).messages


async def test_a_copied_context_is_deleted_with_any_message_of_its_scope(
    memory: Memory, tmp_path: Path
) -> None:
    """In the copy it is not known which messages a context quotes."""
    from autonomy_ctx.stores import copy_memory

    await quote(memory, "recall")
    (tmp_path / "copies").mkdir()
    async with Memory(f"sqlite:///{tmp_path / 'copies' / 'memory.db'}") as copies:
        await copy_memory(memory, copies)
        assert records_with(tmp_path / "copies", SECRET) == ["b"]
        await delete(copies, "recall", "message")
        assert files_with(tmp_path / "copies", SECRET) == []


def reachable_texts() -> Iterator[str]:
    """The texts that the modules of the package hold, in whatever they hold them."""
    gc.collect()
    modules = {name: vars(module) for name, module in sys.modules.items()}
    pending: list[Any] = [one for name, one in modules.items() if name.split(".")[0] == "autonomy_ctx"]
    seen = set(map(id, modules.values()))
    while pending:
        for one in gc.get_referents(pending.pop()):
            if id(one) in seen:
                continue
            seen.add(id(one))
            # Not `isinstance`: an object of a test may claim any class.
            if issubclass(type(one), (str, bytes)):
                yield one if issubclass(type(one), str) else one.decode("utf-8", "replace")
            elif not isinstance(one, ModuleType):
                is_foreign = isinstance(one, FunctionType | type) and not str(one.__module__).startswith(
                    "autonomy_ctx"
                )
                if not is_foreign:
                    pending.append(one)


def caches_with(text: str) -> Iterator[str]:
    return (found for found in reachable_texts() if text in found.lower())


@pytest.mark.parametrize("kind", KINDS)
async def test_no_cache_of_the_process_has_a_word_of_what_was_deleted(memory: Memory, kind: str) -> None:
    await quote(memory, kind)
    template = ContextTemplate(
        [
            SummarizedHistorySection(summary_model=None, floor=2, ceiling=4),
            RecallSection(across=True),
            ProfileSection(),
            InboxSection(HELPER),
        ]
    )
    agent = Agent(HELPER, model=ScriptedModel("ok"), memory=memory, context_template=template)
    for number in range(4):
        await agent.send(f"{number}: never tell anybody {SECRET}.", scope="ana", conversation="a")
        await agent.send(f"{number}: {ASKED}", scope="ana", conversation="b")
    await memory.for_agent(HELPER).search("ana", f"the {SECRET} of the door")
    assert next(caches_with(SECRET), None), "the caches are in use, or this test finds nothing"
    await agent.close()
    await memory.delete_scope("ana")
    assert list(caches_with(SECRET)) == []
