"""`autonomy-ctx export` and `import`: what comes out goes in again, once, and a bad file changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pty_process import run_command
from replay.recordings import chatgpt_export, langchain, talk

from autonomy_ctx import Memory, Message
from autonomy_ctx.cli.output import ExitCode

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "ferries"}'}}
LONG = "a ferry at nine; " * 80_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a database: a conversation with calls, images and a long result, a fork, an agent's."""

    async def fill() -> None:
        async with Memory(f"sqlite:///{tmp_path}/trips.db") as memory:
            await memory.append(
                "ana",
                "lisbon",
                {"role": "user", "content": "Where is my hotel?", "message_id": "m1"},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "name": "look", "content": LONG},
                Message("assistant", "In Rua Augusta. \x1b[1m\u202e"),
                {"role": "user", "content": [{"type": "text", "text": "And this?"}], "mood": "curious"},
            )
            await memory.delete_message("ana", "lisbon", "m1")
            await memory.fork("ana", "lisbon", at=4, name="lisbon again")
            await memory.for_agent("planner").append(
                "bo", "porto", {"role": "user", "content": "A plan, please."}
            )

    anyio.run(fill)
    return tmp_path


def read(path: Path, work: Callable[[Memory], Any]) -> Any:
    """What some work on a database gives."""

    async def run() -> Any:
        async with Memory(f"sqlite:///{path}") as memory:
            return await work(memory)

    return anyio.run(run)


def test_an_export_goes_into_another_memory_and_comes_out_the_same(folder: Path) -> None:
    first = run_command("export", "-m", "trips.db", "-o", "all.jsonl", cwd=folder)
    assert first.stderr == "wrote 8 messages of 3 conversations to all.jsonl\n"
    stored = run_command("import", "all.jsonl", "-m", "new.db", cwd=folder)
    assert stored.stdout == "stored 8 messages in 3 conversations; new.db is new\n"
    again = run_command("export", "-m", "new.db", cwd=folder)
    assert again.stdout == (folder / "all.jsonl").read_text(encoding="utf-8")

    async def whole_result(memory: Memory) -> str:
        [result] = [
            entry.message
            for entry in (await memory.read("ana", "lisbon")).entries
            if entry.message.role == "tool"
        ]
        assert len(result.text) < len(LONG)
        whole = await memory.get_full_message("ana", "lisbon", result.id)
        assert whole is not None
        return str(whole["content"])

    assert read(folder / "new.db", whole_result) == LONG


def test_an_import_into_the_same_memory_stores_nothing_twice(folder: Path) -> None:
    exported = run_command("export", "-m", "trips.db", cwd=folder).stdout
    ran = run_command("import", "-", "-m", "trips.db", "--json", cwd=folder, text=exported)
    assert json.loads(ran.stdout) == {"stored": 0, "known": 8, "conversations": 3}


def test_one_conversation_or_a_scope_is_exported(folder: Path) -> None:
    one = run_command("export", "porto", "-m", "trips.db", cwd=folder)
    assert [json.loads(line).get("content") for line in one.stdout.splitlines()] == [None, "A plan, please."]
    scope = run_command("export", "--scope", "ana", "-m", "trips.db", cwd=folder)
    assert "wrote 7 messages of 2 conversations" in scope.stderr


def test_openai_messages_go_out_and_in(folder: Path) -> None:
    exported = run_command("export", "lisbon", "-m", "trips.db", "--format", "openai", cwd=folder).stdout
    [line] = exported.splitlines()
    messages = json.loads(line)["messages"]
    assert [message["role"] for message in messages] == ["assistant", "tool", "assistant", "user"]
    assert messages[0]["tool_calls"] == [CALL]
    arguments = ["import", "-", "-m", "new.db", "-s", "ana", "-c", "lisbon"]
    assert run_command(*arguments, cwd=folder, text=exported).stdout.startswith("stored 4 messages")
    # The messages have no ids: they are known by their places and what they say.
    again = run_command(*arguments, cwd=folder, text=exported)
    assert again.stdout == "stored 0 messages in 1 conversation; 4 messages were already stored\n"
    longer = json.dumps({"messages": [*messages, {"role": "user", "content": "More."}]})
    more = run_command(*arguments, cwd=folder, text=longer)
    assert more.stdout == "stored 1 message in 1 conversation; 4 messages were already stored\n"


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrap", [lambda messages: messages, lambda messages: {"messages": messages}])
def test_a_document_of_messages_is_read_too(
    folder: Path, indent: int | None, wrap: Callable[[Any], Any]
) -> None:
    said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    (folder / "chat.json").write_text(json.dumps(wrap(said), indent=indent), encoding="utf-8-sig")
    ran = run_command("import", "chat.json", "-m", "new.db", "-s", "ana", "-c", "chat", cwd=folder)
    assert ran.stdout.startswith("stored 2 messages in 1 conversation")

    async def texts(memory: Memory) -> list[str]:
        return [entry.message.text for entry in (await memory.read("ana", "chat")).entries]

    assert read(folder / "new.db", texts) == ["Hello", "Hi"]


@pytest.mark.parametrize("shape", ["messages_to_dict", "dumpd", "model_dump"])
@pytest.mark.parametrize("join", [json.dumps, lambda forms: "\n".join(map(json.dumps, forms))])
def test_a_dump_of_langchain_is_stored_as_the_messages_of_openai_are(
    folder: Path, shape: str, join: Callable[[Any], str]
) -> None:
    forms = talk(7)
    dump = join([langchain(form, shape) for form in forms])
    for name, text in (("plain", json.dumps(forms)), ("dump", dump)):
        ran = run_command("import", "-", "-m", "new.db", "-s", "ana", "-c", name, cwd=folder, text=text)
        assert ran.stdout.startswith(f"stored {len(forms)} messages in 1 conversation"), ran.stderr

    async def messages(memory: Memory) -> list[list[tuple[Any, ...]]]:
        windows = [await memory.read("ana", name) for name in ("plain", "dump")]
        return [
            [
                (one.message.role, one.message.text, one.message.tool_calls, one.message.tool_call_id)
                for one in window.entries
            ]
            for window in windows
        ]

    plain, dumped = read(folder / "new.db", messages)
    assert dumped == plain
    arguments = ["import", "-", "-m", "new.db", "-s", "ana", "-c", "dump"]
    again = run_command(*arguments, cwd=folder, text=dump)
    assert again.stdout.startswith("stored 0 messages in 1 conversation")


def test_an_export_of_chatgpt_becomes_one_conversation_for_each_title(folder: Path) -> None:
    (folder / "export.json").write_text(json.dumps(chatgpt_export("Trip", "Taxes", "Trip")))
    ran = run_command("import", "export.json", "-m", "new.db", "-s", "ana", cwd=folder)
    assert ran.stdout.startswith("stored 9 messages in 3 conversations"), ran.stderr

    async def texts(memory: Memory) -> list[list[str]]:
        windows = [await memory.read("ana", name) for name in ("Trip", "Taxes", "Trip (2)")]
        return [[entry.message.text for entry in window.entries] for window in windows]

    # The answer that was looked at last, and what followed it.
    assert read(folder / "new.db", texts) == [["Where is it?", "In Aveiro.", "And now?"]] * 3


def test_items_of_the_responses_api_are_imported(folder: Path) -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is it?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "shelf 7"},
        {"role": "assistant", "content": None, "refusal": "I cannot say more."},
    ]
    text = json.dumps({"input": items}, indent=2)
    ran = run_command("import", "-", "-m", "new.db", "-s", "ana", "-c", "x", cwd=folder, text=text)
    assert ran.stdout.startswith("stored 4 messages in 1 conversation"), ran.stderr

    async def texts(memory: Memory) -> list[str]:
        return [entry.message.text for entry in (await memory.read("ana", "x")).entries]

    assert read(folder / "new.db", texts) == ["Where is it?", "", "shelf 7", "I cannot say more."]


def test_several_conversations_without_names_are_numbered(folder: Path) -> None:
    lines = "".join(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n" for text in "ab")
    run_command("import", "-", "-m", "new.db", "-s", "ana", "-c", "old", cwd=folder, text=lines)
    listed = json.loads(run_command("conversations", "-m", "new.db", "--json", cwd=folder).stdout)
    assert [one["conversation"] for one in listed["conversations"]] == ["old-1", "old-2"]


def test_bad_lines_are_named_before_anything_is_stored(folder: Path) -> None:
    good = json.dumps({"role": "user", "content": "Hello"})
    lines = [
        good.encode(),
        b'{"role": "usr", "content": "x"}',
        b'{"role": "user", "content": ',
        b"",
        b"7",
        b'{"role": "user", "content": "\xff"}',
        b'{"role": "user", "content": "x", "id": "\\u0000"}',
        b'{"type": "full_text", "id": 3}',
        b'{"type": "conversation", "scope": 3}',
    ]
    (folder / "bad.jsonl").write_bytes(b"\n".join(lines))
    ran = run_command("import", "bad.jsonl", "-m", "new.db", "-s", "ana", "-c", "x", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr.splitlines() == [
        "error: bad.jsonl: 7 lines cannot be imported; nothing was stored",
        "  line 2 is not a message: `role` is 'usr'; it must be one of system, developer, user, assistant, "
        "tool",
        "  line 3 is not JSON (column 28)",
        "  line 5 is a number, not a message",
        "  line 6 is not UTF-8 text (byte 30)",
        "  line 7 is not a message: `id` must not contain a NUL character",
        "  line 8 must have an `id` and a `text`",
        "  line 9 has a `scope` that is not a name",
    ]
    assert not (folder / "new.db").exists()


def test_a_message_that_is_too_large_is_named_by_its_line(folder: Path) -> None:
    large = json.dumps({"role": "user", "content": "x" * 20_000_000})
    text = json.dumps({"role": "user", "content": "small"}) + "\n" + large + "\n"
    ran = run_command("import", "-", "-m", "new.db", "-s", "ana", "-c", "x", cwd=folder, text=text)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr.startswith("error: stdin: line 2 is not a message: `content` needs 20,000,0")
    assert not (folder / "new.db").exists()


@pytest.mark.parametrize(
    ("text", "arguments", "sentence"),
    [
        ("", [], "stdin has no messages"),
        (
            '{"role": "user", "content": "x"}',
            [],
            "does not name its scope and conversation; also give --scope and --conversation",
        ),
        (
            '{"role": "user", "content": "x"}',
            ["-s", "ana"],
            "does not name its scope and conversation; also give --conversation",
        ),
        (
            '{"type": "conversation", "scope": "a", "conversation": "b"}\n{"role": "user", "content": "x"}\n'
            '{"type": "conversation", "scope": "a", "conversation": "c"}\n{"role": "user", "content": "x"}\n',
            ["-c", "d"],
            "stdin has several conversations with names; leave --conversation out",
        ),
    ],
)
def test_a_file_that_does_not_say_enough_is_refused(
    folder: Path, text: str, arguments: list[str], sentence: str
) -> None:
    ran = run_command("import", "-", "-m", "new.db", *arguments, cwd=folder, text=text)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert sentence in ran.stderr
    assert not (folder / "new.db").exists()


@pytest.mark.parametrize(
    ("file", "problem"), [("gone.jsonl", "No such file or directory"), (".", "Is a directory")]
)
def test_a_file_that_cannot_be_read_is_wrong_input(folder: Path, file: str, problem: str) -> None:
    ran = run_command("import", file, "-m", "new.db", "-s", "ana", "-c", "x", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr == f"error: {file} cannot be read: {problem}\n"


def test_a_device_that_never_ends_is_refused_soon(folder: Path) -> None:
    ran = run_command("import", "/dev/zero", "-m", "new.db", "-s", "ana", "-c", "x", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr == "error: /dev/zero is not text: it has NUL bytes; nothing was stored\n"
    assert not (folder / "new.db").exists()


def test_a_line_without_an_end_is_refused_and_named(folder: Path) -> None:
    """A file that takes no room on the disk, and would take all of the memory."""
    with open(folder / "hole.jsonl", "wb") as hole:
        hole.write(b'{"role": "user", "content": "Hello"}\n')
        hole.truncate(1 << 40)
    ran = run_command("import", "hole.jsonl", "-m", "new.db", "-s", "ana", "-c", "x", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr == (
        "error: hole.jsonl: line 2 has more than 512 MB; give a line for each conversation; "
        "nothing was stored\n"
    )


def test_chats_of_the_same_name_are_told_apart(folder: Path) -> None:
    (folder / "export.json").write_text(json.dumps(chatgpt_export("Trip (2)", "Trip", "Trip")))
    run_command("import", "export.json", "-m", "new.db", "-s", "ana", cwd=folder)
    listed = json.loads(run_command("conversations", "-m", "new.db", "--json", cwd=folder).stdout)
    assert sorted(one["conversation"] for one in listed["conversations"]) == ["Trip", "Trip (2)", "Trip (3)"]


def test_names_of_the_command_line_win_over_those_of_the_file(folder: Path) -> None:
    exported = run_command("export", "porto", "-m", "trips.db", cwd=folder).stdout
    run_command("import", "-", "-m", "new.db", "-s", "cy", "-a", "guide", cwd=folder, text=exported)
    [one] = json.loads(run_command("conversations", "-m", "new.db", "--json", cwd=folder).stdout)[
        "conversations"
    ]
    assert (one["agent"], one["scope"], one["conversation"]) == ("guide", "cy", "porto")


def test_other_content_under_a_known_id_stops_an_import_and_says_how_far_it_came(folder: Path) -> None:
    line = {"role": "user", "content": "one", "id": "same"}
    arguments = ["import", "-", "-m", "new.db", "-s", "ana", "-c", "x"]
    run_command(*arguments, cwd=folder, text=json.dumps(line))
    ran = run_command(*arguments, cwd=folder, text=json.dumps(line | {"content": "two"}))
    assert ran.returncode == ExitCode.FAILED
    assert "message id 'same' is already at position 1 with other content" in ran.stderr
    assert ran.stderr.endswith("Before that, stored 0 messages in 1 conversation\n")


def test_an_export_writes_over_no_file_unless_forced(folder: Path) -> None:
    (folder / "all.jsonl").write_text("mine")
    ran = run_command("export", "-m", "trips.db", "-o", "all.jsonl", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr == "error: all.jsonl already exists; use --force to overwrite it\n"
    assert (folder / "all.jsonl").read_text() == "mine"
    forced = run_command("export", "-m", "trips.db", "-o", "all.jsonl", "--force", "--json", cwd=folder)
    assert json.loads(forced.stdout) == {"conversations": 3, "messages": 8, "file": "all.jsonl"}
    assert (folder / "all.jsonl").stat().st_mode & 0o777 == 0o600
    for wrong in (".", "no/such/folder.jsonl"):
        assert (
            run_command("export", "-m", "trips.db", "-o", wrong, cwd=folder).returncode
            == ExitCode.WRONG_INPUT
        )


def test_a_long_conversation_is_moved_in_pages(folder: Path) -> None:
    lines = "".join(json.dumps({"role": "user", "content": f"message {n}"}) + "\n" for n in range(1, 1302))
    ran = run_command("import", "-", "-m", "new.db", "-s", "ana", "-c", "long", cwd=folder, text=lines)
    assert ran.stdout.startswith("stored 1,301 messages in 1 conversation")
    _, *exported = run_command("export", "long", "-m", "new.db", cwd=folder).stdout.splitlines()
    assert [json.loads(line)["content"] for line in exported] == [f"message {n}" for n in range(1, 1302)]
