"""A conversation is read from a memory or a file of any of the known kinds, and divided into its turns."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay.recordings import chatgpt_export, langchain, talk
from strategies import some

from autonomy_ctx import Agent, Memory, Model
from autonomy_ctx.errors import UnknownConversation
from autonomy_ctx.formats.message_files import InvalidLine, read_lines
from autonomy_ctx.inspection import list_turns
from autonomy_ctx.replay import (
    RecordedConversation,
    make_grid,
    read_conversation,
    read_conversation_file,
    replay,
)
from autonomy_ctx.testing import ScriptedModel, make_message


def said(conversation: RecordedConversation) -> list[tuple[str, str]]:
    """What a reader sees of each message: role, text, and the names and ids of calls."""
    return [
        (message.role.value, message.text + "".join(f"{call.id}:{call.name}" for call in message.tool_calls))
        for message in conversation.messages
    ]


@pytest.mark.parametrize("shape", ["messages_to_dict", "dumpd", "model_dump"])
def test_a_dump_of_langchain_says_what_the_messages_of_openai_say(tmp_path: Path, shape: str) -> None:
    forms = talk(7)
    (tmp_path / "dump.json").write_text(json.dumps([langchain(form, shape) for form in forms]))
    read = read_conversation_file(tmp_path / "dump.json")
    assert said(read) == said(RecordedConversation(forms))
    assert read.instructions == "You help the support team."


def test_openai_messages_are_read_as_a_list_an_object_and_lines(tmp_path: Path) -> None:
    forms = talk(5)
    wanted = said(RecordedConversation(forms))
    for name, text in {
        "list.json": json.dumps(forms),
        "request.json": json.dumps({"model": "gpt-5", "messages": forms}, indent=2),
        "lines.jsonl": "\n".join(json.dumps(form) for form in forms),
        "marked.jsonl": "\ufeff" + "\n\n".join(json.dumps(form) for form in forms) + "\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert said(read_conversation_file(tmp_path / name)) == wanted, name


def test_items_of_the_responses_api_are_messages_too(tmp_path: Path) -> None:
    items = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is it?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "shelf 7"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "On shelf 7."}]},
    ]
    (tmp_path / "items.json").write_text(json.dumps({"input": items}))
    read = read_conversation_file(tmp_path / "items.json")
    assert read.instructions == "Be brief."
    assert said(read) == [
        ("user", "Where is it?"),
        ("assistant", "c1:find"),
        ("tool", "shelf 7"),
        ("assistant", "On shelf 7."),
    ]


def test_an_export_of_chatgpt_is_read_along_the_branch_that_was_looked_at_last(tmp_path: Path) -> None:
    trees = chatgpt_export("Trip", "Trip", "Taxes")
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps(trees))
    read = read_conversation_file(file, "Taxes")
    assert said(read) == [("user", "Where is it?"), ("assistant", "In Aveiro."), ("user", "And now?")]
    assert read.has_times
    assert read_conversation_file(file, "2").name == "Trip (2)"
    del trees[0]["current_node"]
    file.write_text(json.dumps(trees[0]))
    assert len(read_conversation_file(file).messages) == 3


def test_of_several_conversations_one_is_chosen_by_name_or_number(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    lines: list[dict[str, Any]] = []
    for name in ("trip", "taxes"):
        lines += [
            {"type": "conversation", "conversation": name},
            {"role": "user", "content": f"About {name}."},
        ]
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ValueError, match="has several conversations; name one of 'trip', 'taxes'"):
        read_conversation_file(file)
    assert said(read_conversation_file(file, "taxes")) == [("user", "About taxes.")]
    assert read_conversation_file(file, "1").name == "trip"
    with pytest.raises(ValueError, match="has no conversation 'work'"):
        read_conversation_file(file, "work")


def test_lines_that_are_whole_conversations_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "training.jsonl"
    file.write_text("\n".join(json.dumps({"messages": talk(count)}) for count in (2, 3)))
    assert len(read_conversation_file(file, "training 2").turns()) == 3


def test_a_line_ends_where_json_lines_end_a_line(tmp_path: Path) -> None:
    """Not at U+2028 and its kin, which JSON may have in a text."""
    said_so = "one\u2028two\u2029three\x85four\x0cfive"
    lines = [json.dumps({"role": "user", "content": said_so}, ensure_ascii=False).replace("\\f", "")] * 2
    (tmp_path / "talk.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    read = read_conversation_file(tmp_path / "talk.jsonl")
    assert [text for _, text in said(read)] == [said_so.replace("\x0c", "")] * 2


def test_chats_of_the_same_name_are_all_there(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    trees = json.loads(json.dumps(chatgpt_export("Trip (3)", "Trip (2)", "Trip", "Trip", "Trip")))
    for number, tree in enumerate(trees):
        [first, *_] = [node["message"] for node in tree["mapping"].values() if node.get("message")]
        first["content"]["parts"] = [f"Question {number}"]
    file.write_text(json.dumps(trees), encoding="utf-8")
    names = ["Trip (3)", "Trip (2)", "Trip", "Trip (4)", "Trip (5)"]
    for number, name in enumerate(names):
        read = read_conversation_file(file, str(number + 1))
        assert (read.name, said(read)[0][1]) == (name, f"Question {number}")
    ours = [
        *({"type": "conversation", "scope": "ana", "conversation": "trip"}, {"role": "user", "content": "a"}),
        *({"type": "conversation", "scope": "bob", "conversation": "trip"}, {"role": "user", "content": "b"}),
        *({"type": "conversation", "scope": "ana", "conversation": "trip"}, {"role": "user", "content": "c"}),
    ]
    file.write_text("\n".join(map(json.dumps, ours)), encoding="utf-8")
    assert said(read_conversation_file(file, "trip")) == [("user", "a"), ("user", "c")]
    assert said(read_conversation_file(file, "trip (2)")) == [("user", "b")]


class Endless(io.RawIOBase):
    """A stream that says the same line for ever."""

    def __init__(self, line: bytes) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[: len(self._line)] = self._line
        return len(self._line)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"\0", "line 1 has more than 1 MB; give a line for each conversation"),
        (b"[\n", "line 1 begins a document of more than 1 MB; give JSON Lines instead"),
        (b" \n", "ends more than 2 MB and is not the end; give a smaller file"),
        (
            b'{"role": "user", "content": "a"}\n',
            "ends more than 2 MB and is not the end; give a smaller file",
        ),
    ],
)
def test_a_stream_without_an_end_is_given_up(line: bytes, problem: str) -> None:
    stream = io.BufferedReader(Endless(line * 100))
    *_, last = read_lines(stream, max_bytes=2_000_000, max_value_bytes=1_000_000)
    assert isinstance(last, InvalidLine)
    assert str(last).endswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no messages"),
        ("{nothing", "line 1 is not JSON (column 2)"),
        ('{"role": "user", "content": "a"}\n{broken', "line 2 is not JSON"),
        ("[]", "has no messages"),
        ('"text"', "line 1 is a text, not a message"),
        ('[{"role": "user", "content": "a"}, {"role": "nobody", "content": "b"}]', "message 2 of 'talk'"),
        ('[{"role": "user", "content": "a"}, 7]', "line 1 has no message at place 2, but a number"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "talk.json").write_text(text)
    with pytest.raises(ValueError, match=re.escape(problem)):
        read_conversation_file(tmp_path / "talk.json")


KEYS = (
    *("role", "content", "type", "data", "kwargs", "lc", "id", "messages", "items", "mapping", "message"),
    *("tool_calls", "function_call", "arguments", "args", "name", "call_id", "output", "additional_kwargs"),
    *("conversation", "created_at", "timestamp", "parts", "author", "parent", "children", "current_node"),
)
WORDS = (
    "user",
    "assistant",
    "tool",
    "human",
    "ai",
    "AIMessage",
    "conversation",
    "function_call",
    "text",
    "a",
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(WORDS) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


@some
@given(json_values)
def test_any_json_is_a_conversation_or_an_error_that_says_why(value: Any) -> None:
    for text in (json.dumps(value), json.dumps([value, value]), json.dumps(value) + "\n" + json.dumps(value)):
        try:
            read = read_conversation_file(io.BytesIO(text.encode()), "1")
        except ValueError as error:
            problem = str(error)
        else:
            problem = "" if sum(len(turn.requests) for turn in read.turns()) < len(read.turns()) else "stdin"
        assert "stdin" in problem


def test_what_is_no_text_and_what_comes_through_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "photo.json").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        read_conversation_file(tmp_path / "photo.json")
    read = read_conversation_file(io.BytesIO(json.dumps(talk(2)).encode()))
    assert (read.name, len(read.turns())) == ("stdin", 2)


def test_a_turn_has_one_request_for_each_answer_of_the_model() -> None:
    conversation = RecordedConversation(
        [{"role": "assistant", "content": "Hello."}, *talk(3)[1:], {"role": "user", "content": "And now?"}]
    )
    turns = conversation.turns()
    assert [turn.position for turn in turns] == [2, 4, 6, 10]
    assert [len(turn.requests) for turn in turns] == [1, 1, 2, 1]
    assert turns[0].requests[0].said[0].text == "Hello."
    assert turns[3].requests[0].answer is None
    again = [one for turn in turns for request in turn.requests for one in request.said]
    # What is said in all turns, with the last answers, is the conversation.
    assert sum(len(turn.rest) for turn in turns) + len(again) == len(conversation.messages)


def test_ids_that_are_missing_or_repeated_do_no_harm() -> None:
    twice = [{"role": "user", "content": "a", "id": "x"}, {"role": "user", "content": "b", "id": "x"}]
    assert len({message.id for message in RecordedConversation(twice).messages}) == 2


def test_the_last_turns_and_other_instructions() -> None:
    conversation = RecordedConversation(talk(9))
    assert len(conversation.last_turns(4).turns()) == 4
    assert conversation.last_turns(40) is conversation
    assert conversation.with_instructions("Be kind.").instructions == "Be kind."


async def test_a_conversation_of_an_agent_comes_with_its_instructions(tmp_path: Path) -> None:
    memory = Memory(f"sqlite:///{tmp_path}/trips.db")
    async with Agent("guide", instructions="You plan trips.", model=Model("offline"), memory=memory) as guide:
        for city in ("Porto", "Aveiro"):
            await guide.send(f"A room in {city}?", scope="ana", conversation="trip")
    async with Memory(f"sqlite:///{tmp_path}/trips.db") as again:
        read = await read_conversation(again.for_agent("guide"), "ana", "trip")
        assert [text for role, text in said(read) if role == "user"] == [
            "A room in Porto?",
            "A room in Aveiro?",
        ]
        assert read.instructions.startswith("You plan trips.")
        assert read.has_times
        with pytest.raises(UnknownConversation):
            await read_conversation(again, "ana", "trip")


async def test_turns_have_the_numbers_of_the_memory(memory: Memory) -> None:
    agent = Agent("helper", instructions="Help.", model=ScriptedModel("Yes."), memory=memory)
    view = memory.for_agent("helper")
    await agent.send("one", scope="ana", conversation="trip")
    await view.append("ana", "trip", make_message("imported, and no turn of the agent", id="m"))
    await agent.send("two", scope="ana", conversation="trip")
    read = await read_conversation(view, "ana", "trip")
    assert [(turn.number, turn.position) for turn in read.turns()] == [(1, 1), (None, 3), (2, 4)]
    assert [turn.number for turn in read.last_turns(1).turns()] == [2]
    assert [turn.number for turn in await list_turns(view, "ana", "trip")] == [1, 2]
    report = await replay(read, make_grid(floors=[2], ceilings=[4]))
    assert report.has_stored_numbers
    assert [turn.number for turn in report.best.turns] == [1, None, 2]


async def test_without_figures_the_messages_of_the_user_are_counted(memory: Memory) -> None:
    await memory.append("ana", "trip", *(make_message(text, id=text) for text in ("one", "two")))
    read = await read_conversation(memory, "ana", "trip")
    assert [turn.number for turn in read.turns()] == [1, 2]
    assert not (await replay(read, make_grid(floors=[2], ceilings=[4]))).has_stored_numbers
