"""What is on disk: plain JSON after every change, whole after every kill, and nobody's work lost."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import few, json_dicts, messages, some

from autonomy_ctx import Message
from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.context_file import complete_values, file_lock
from autonomy_ctx.containers.runtime import Runtime
from autonomy_ctx.errors import AutonomyCtxError, InvalidContextFile

ROOT = Path(__file__).parents[2]


def texts(said: Any) -> list[str]:
    return [message.text for message in said]


def on_disk(path: Path) -> list[str]:
    """What any program reads."""
    with path.open() as file:
        return [form["content"] for form in json.load(file)]


def run(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def started_together(processes: list[subprocess.Popen[str]]) -> None:
    """Let programs that say when they are ready begin at the same time."""
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()


def ended(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


# -- a context's file ---------------------------------------------------------------------------------


def test_the_file_is_plain_json_after_every_change(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folders" / "talk.json"
    context = Context.from_file(path, keep_updated=True)
    assert on_disk(path) == []
    context.user("a")
    assert on_disk(path) == ["a"]
    context.extend([Message("assistant", "b"), Message("user", "c")])
    assert on_disk(path) == ["a", "b", "c"]
    del context.messages[0]
    assert on_disk(path) == ["b", "c"]
    context.user("Grüße \ud800 \0 \U0001f600")
    assert on_disk(path)[-1] == "Grüße \ud800 \0 \U0001f600"
    context.clear()
    assert on_disk(path) == []
    context.user("d")
    assert on_disk(path) == ["d"]
    assert context.file_path == path
    assert context.keep_updated
    assert sorted(file.name for file in path.parent.iterdir()) == ["talk.json", "talk.json.lock"]


def test_an_append_writes_only_at_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    context = Context.from_file(path, keep_updated=True)
    context.user("a")
    inode, before = path.stat().st_ino, path.read_bytes()
    context.user("b")
    assert path.stat().st_ino == inode
    assert path.read_bytes().startswith(before.removesuffix(b"\n]"))


def test_the_file_holds_fields_that_message_takes(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    context = Context.from_file(path, keep_updated=True)
    context.user("a")
    context.assistant("", tool_calls=[{"id": "c", "function": {"name": "look", "arguments": "{}"}}])
    context.tool("gone", tool_call_id="c", is_error=True)
    assert [Message(**form) for form in json.loads(path.read_text())] == list(context)


@few
@given(said=st.lists(messages, max_size=4, unique_by=lambda message: message.id))
def test_what_is_read_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, said: Any) -> None:
    path = tmp_path_factory.mktemp("talk") / "talk.json"
    context = Context.from_file(path, keep_updated=True)
    for message in said:
        context.append(message)
    assert list(Context.from_file(path)) == said
    context.messages = list(reversed(said))
    assert list(Context.from_file(path)) == list(reversed(said))


def test_without_keep_updated_the_file_changes_only_when_saved(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    context = Context.from_file(path)
    context.user("a")
    assert list(tmp_path.iterdir()) == []
    context.save()
    assert on_disk(path) == ["a"]
    context.user("b")
    assert on_disk(path) == ["a"]


@pytest.mark.parametrize("dumped", [{}, {"indent": 2}, {"indent": 2, "sort_keys": True}])
@pytest.mark.parametrize("end", ["", "\n", "\n\n   \n"])
def test_a_file_written_by_another_program_is_gone_on_with(
    tmp_path: Path, dumped: dict[str, Any], end: str
) -> None:
    path = tmp_path / "talk.json"
    for before in ([], [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]):
        path.write_text(json.dumps(before, **dumped) + end)
        context = Context.from_file(path, keep_updated=True)
        context.user("c")
        context.user("d")
        assert on_disk(path) == [form["content"] for form in before] + ["c", "d"]


def test_messages_without_an_id_keep_the_one_they_were_given(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text('[{"role": "user", "content": "a"}, {"role": "user", "content": "a"}]')
    first, second = Context.from_file(path), Context.from_file(path)
    ids = [message.id for message in first]
    assert len(set(ids)) == 2
    assert [message.id for message in second] == ids
    first.user("b")
    first.save()
    second.messages = second.messages[1:]
    second.save()
    assert on_disk(path) == ["a", "b"]


def test_two_messages_under_one_id_are_both_read(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    form = {"role": "user", "content": "a", "id": "m", "created_at": "2030-01-01T12:00:00+00:00"}
    path.write_text(json.dumps([form, form, form | {"content": "b"}]))
    context = Context.from_file(path)
    assert texts(context) == ["a", "b"]
    assert context[0].id == "m" != context[1].id


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_rewrite_keeps_the_files_mode_and_the_link_to_it(tmp_path: Path, mode: int) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("[]")
    real.chmod(mode)
    link.symlink_to(real)
    context = Context.from_file(link, keep_updated=True)
    context.user("a")
    context.messages = [Message("user", "b")]
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == mode
    assert on_disk(link) == ["b"]


def test_a_change_of_the_working_folder_does_not_move_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    context = Context.from_file("talk.json", keep_updated=True)
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    context.user("a")
    assert on_disk(tmp_path / "talk.json") == ["a"]


# -- kills --------------------------------------------------------------------------------------------


def whole_before(path: Path, size: int) -> int:
    """How many messages end within the first bytes of a file."""
    data = path.read_bytes()
    lines = data.split(b"\n")[1:-1]
    at, count = 2, 0
    for line in lines:
        count += at + len(line.rstrip(b",")) <= size
        at += len(line) + 1
    return count


def test_a_file_cut_at_any_byte_keeps_every_whole_message(tmp_path: Path) -> None:
    path, torn = tmp_path / "talk.json", tmp_path / "torn.json"
    context = Context.from_file(path, keep_updated=True)
    context.user('quotes " and \\ backslashes, [brackets] and {braces}, é and \U0001f600')
    context.assistant(
        "", tool_calls=[{"id": "c", "function": {"name": "look", "arguments": '{"a": [1.5e3]}'}}]
    )
    context.append(
        {"role": "tool", "content": "x", "tool_call_id": "c", "score": -1.25e-7, "ok": True, "no": None}
    )
    data = path.read_bytes()
    for size in range(len(data) + 1):
        torn.write_bytes(data[:size])
        found = Context.from_file(torn)
        count = whole_before(path, size)
        assert list(found) == list(context)[:count], size
        assert json.loads(torn.read_bytes()) == json.loads(data)[:count]
        cut = data[:size].rstrip(b"\n],[") != b"\n".join(data.split(b"\n")[: count + 1]).rstrip(b"\n],[")
        aside = tmp_path / "torn.json.torn"
        assert aside.exists() == cut, size
        if cut:
            assert aside.read_bytes() == data[:size]
            aside.unlink()


def test_every_state_that_a_killed_append_can_leave_is_mended(tmp_path: Path) -> None:
    path, torn = tmp_path / "talk.json", tmp_path / "torn.json"
    context = Context.from_file(path, keep_updated=True)
    for count in range(3):
        before = path.read_bytes()
        context.user(f"message {count}")
        after = path.read_bytes()
        start = next(at for at in range(len(after)) if before[: at + 1] != after[: at + 1])
        for written in range(len(after) - start + 1):
            # The write got so far; what it had not reached is still the old end.
            torn.write_bytes(after[: start + written] + before[start + written :])
            for keep_updated in (False, True):
                found = Context.from_file(torn, keep_updated=keep_updated)
                assert list(found)[:count] == list(context)[:count]
                assert len(found) <= count + 1
                assert len(on_disk(torn)) == len(found)
            found.user("next")
            assert on_disk(torn)[-1] == "next"


def test_a_tail_of_zeros_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    Context.from_file(path, keep_updated=True).extend([Message("user", "a"), Message("user", "b")])
    path.write_bytes(path.read_bytes()[:-40] + bytes(200))
    assert texts(Context.from_file(path)) == ["a"]
    assert (tmp_path / "talk.json.torn").exists()


def test_what_was_torn_before_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    for number in range(3):
        path.write_text(f'[{{"role": "user", "content": "{number}')
        Context.from_file(path)
    assert sorted(file.name for file in tmp_path.glob("*.torn*")) == [
        "talk.json.torn",
        "talk.json.torn1",
        "talk.json.torn2",
    ]


APPEND_UNTIL_KILLED = """
import sys
from autonomy_ctx.containers.context import Context
context = Context.from_file(sys.argv[1], keep_updated=True)
number = 0
while True:
    context.user(f"{number} " + "x" * 20000)
    print(number, flush=True)
    number += 1
"""


def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    with run(APPEND_UNTIL_KILLED, path) as process:
        assert process.stdout
        for line in process.stdout:
            if int(line) >= 30:
                break
        process.send_signal(signal.SIGKILL)
        # Not `communicate`, which would not see the lines that the loop above has read ahead.
        acknowledged = [30, *map(int, process.stdout.read().split())][-1]
    found = [int(text.split()[0]) for text in texts(Context.from_file(path))]
    assert found == list(range(len(found)))
    assert len(found) in (acknowledged + 1, acknowledged + 2)


FILL_THE_DISK = """
import resource, sys, json
from autonomy_ctx.containers.context import Context
context = Context.from_file(sys.argv[1], keep_updated=True)
context.user("a")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    context.user("x" * 5000)
except OSError as error:
    assert error.filename == sys.argv[1], error
else:
    raise AssertionError("there was room")
assert len(context) == 1
assert [form["content"] for form in json.load(open(sys.argv[1]))] == ["a"]
context.user("b")
"""


def test_a_write_that_fails_leaves_the_context_and_the_file_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    ended(run(FILL_THE_DISK, path))
    assert on_disk(path) == ["a", "b"]


@some
@given(json_dicts, st.data())
def test_every_beginning_of_a_json_value_is_known_as_one(value: dict[str, Any], data: st.DataObject) -> None:
    one = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    text = f"[{one}, {one}]"
    size = data.draw(st.integers(0, len(text) - 1))
    count = (size > len(one)) + (size > 2 * len(one) + 2)
    assert complete_values(text[:size]).values == [value] * count


# -- two writers --------------------------------------------------------------------------------------

APPEND_MANY = """
import sys
from autonomy_ctx.containers.context import Context
path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
context = Context.from_file(path, keep_updated=True)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    context.user(f"{who}{number}")
"""


def test_two_processes_on_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    processes = [run(APPEND_MANY, path, who, 300) for who in "ab"]
    started_together(processes)
    for process in processes:
        ended(process)
    said = on_disk(path)
    assert len(said) == 600
    for who in "ab":
        assert [text for text in said if text.startswith(who)] == [f"{who}{number}" for number in range(300)]


def test_threads_on_one_context_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    context = Context.from_file(path, keep_updated=True)

    def say(who: str) -> None:
        for number in range(50):
            context.user(f"{who}{number}")

    threads = [threading.Thread(target=say, args=(who,)) for who in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(on_disk(path)) == len(context) == 150
    assert on_disk(path) == texts(context)


def test_what_the_other_handle_added_is_picked_up_before_the_next_change(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    one, other = (Context.from_file(path, keep_updated=True) for _ in range(2))
    one.user("a")
    other.user("b")
    other.user("c")
    one.user("d")
    assert texts(one) == ["a", "b", "c", "d"] == on_disk(path)
    other.messages = [message for message in other if message.text != "b"]
    assert texts(other) == ["a", "c", "d"] == on_disk(path)
    one.user("e")
    assert texts(one) == ["a", "c", "d", "e"] == on_disk(path)
    other.clear()
    assert on_disk(path) == []
    one.user("f")
    assert texts(one) == ["f"] == on_disk(path)


def test_an_edit_removes_only_what_it_has_seen(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    one, other = (Context.from_file(path, keep_updated=True) for _ in range(2))
    one.extend(Message("user", text) for text in "abc")
    other.user("d")
    one.messages = one.messages[-1:]
    assert texts(one) == ["c", "d"] == on_disk(path)


def test_saving_by_hand_keeps_what_others_saved(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    Context.from_file(path, keep_updated=True).extend(Message("user", text) for text in "ab")
    one, other, editor = (Context.from_file(path) for _ in range(3))
    one.user("one")
    other.user("other")
    editor.messages = [*editor.messages[1:], Message("user", "edited")]
    for context in (one, other, editor):
        context.save()
    assert on_disk(path) == ["b", "one", "other", "edited"]
    assert texts(editor) == on_disk(path)
    editor.save()
    assert on_disk(path) == ["b", "one", "other", "edited"]


def test_a_context_made_with_messages_adds_them_to_what_its_file_has(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    first = Context([Message("user", "a")], path, keep_updated=True)
    again = Context([*first, Message("user", "b")], path, keep_updated=True)
    assert on_disk(path) == ["a", "b"] == texts(again)


def test_a_file_removed_by_somebody_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    context = Context.from_file(path, keep_updated=True)
    context.user("a")
    path.unlink()
    context.user("b")
    assert on_disk(path) == ["a", "b"] == texts(context)
    path.unlink()
    context.save()
    assert on_disk(path) == ["a", "b"] == texts(context)
    path.unlink()
    context.clear()
    assert on_disk(path) == []


def test_a_runtimes_file_removed_by_somebody_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    runtime = Runtime.from_file(path, keep_updated=True)
    for text in "abc":
        runtime.get_context().user(text)
        path.unlink()
    assert loaded(path) == {"main": ["c"]}
    runtime.get_context().user("d")
    assert loaded(path) == {"main": ["a", "b", "c", "d"]}


# -- bad files ----------------------------------------------------------------------------------------

MESSAGE = '{"role": "user", "content": "a"}'
BAD: dict[str, tuple[str, str]] = {
    "no JSON": ("hello", "is not a JSON list of messages"),
    "garbage in the middle": (f"[{MESSAGE}, oops, {MESSAGE}]", "is not a JSON list"),
    "no comma": (f"[{MESSAGE} {MESSAGE}", "no comma between two values"),
    "something after the end": (f"[{MESSAGE}] and more", "has text after the end of its list"),
    "a newer version": ('{"version": 99, "messages": []}', "has version 99.*Upgrade autonomy_ctx"),
    "another shape": ('{"messages": []}', "contains a JSON dict, not a list of messages"),
    "a runtime's": ('{"contexts": {}}', "Open it with Runtime.from_file"),
    "text": ('"hello"', "contains a JSON str"),
    "no messages": ("[1, 2]", "at index 0 that is not a message"),
    "one bad message": (f'[{MESSAGE}, {{"role": "nobody"}}]', "at index 1 that is not a message.*role"),
    "not a number": ('[{"role": "user", "content": "a", "score": NaN}]', "at index 0.*nan"),
    "nested without end": ("[" * 100_000, "is not a JSON list|nested too deep"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_holds_no_context_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    text, problem = BAD[name]
    path = tmp_path / "talk.json"
    path.write_text(text)
    for use in (Context.from_file, lambda path: Context.from_file(path, keep_updated=True)):
        with pytest.raises(InvalidContextFile, match=problem) as caught:
            use(path)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, AutonomyCtxError | ValueError)
    assert path.read_text() == text


def test_bytes_that_are_no_text_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(b'[{"role": "user", "content": "\xff\xfe"}')
    with pytest.raises(InvalidContextFile):
        Context.from_file(path)
    assert path.read_bytes().startswith(b"[")


def test_a_file_that_breaks_while_it_is_used_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    context = Context.from_file(path, keep_updated=True)
    context.user("a")
    path.write_text("somebody else's notes, longer than the list that was here before" * 4)
    with pytest.raises(InvalidContextFile):
        context.user("b")
    with pytest.raises(InvalidContextFile):
        context.clear()
    assert path.read_text().startswith("somebody")
    assert texts(context) == ["a"]


def test_an_empty_file_is_an_empty_context(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.touch()
    assert len(Context.from_file(path)) == 0
    runtime = tmp_path / "runtime.json"
    runtime.touch()
    assert Runtime.from_file(runtime).CTX == {}


# -- a runtime's file and journal ---------------------------------------------------------------------


def contexts_on_disk(path: Path) -> dict[str, list[str]]:
    with path.open() as file:
        held = json.load(file)["contexts"]
    return {name: [form["content"] for form in forms] for name, forms in held.items()}


def loaded(path: Path) -> dict[str, list[str]]:
    return {name: texts(context) for name, context in Runtime.from_file(path).CTX.items()}


def test_changes_are_in_the_journal_until_the_runtime_is_saved(tmp_path: Path) -> None:
    path, journal = tmp_path / "new" / "runtime.json", tmp_path / "new" / "runtime.json.journal"
    runtime = Runtime.from_file(path, keep_updated=True)
    assert contexts_on_disk(path) == {}
    main = runtime.get_context()
    main.user("a")
    main.user("b")
    assert len(journal.read_text().splitlines()) == 2
    assert contexts_on_disk(path) == {}
    assert loaded(path) == {"main": ["a", "b"]}
    main.save()
    assert contexts_on_disk(path) == {"main": ["a", "b"]}
    assert not journal.exists()


def test_every_kind_of_change_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    runtime = Runtime.from_file(path, keep_updated=True)
    main = runtime.get_context()
    main.extend(Message("user", text) for text in "abcdef")
    del main.messages[1]
    main.messages[0] = Message("user", "A", id=main[0].id)
    main.messages.insert(2, Message("user", "new"))
    main.messages.reverse()
    runtime.new_context("attempt", branch_from="main").clear()
    main.user("last")
    expected = {name: texts(context) for name, context in runtime.CTX.items()}
    assert expected == {"main": ["f", "e", "d", "new", "c", "A", "last"], "attempt_a": []}
    assert loaded(path) == expected


def test_a_kill_before_the_journal_is_removed_changes_nothing(tmp_path: Path) -> None:
    path, journal = tmp_path / "runtime.json", tmp_path / "runtime.json.journal"
    runtime = Runtime.from_file(path, keep_updated=True)
    main = runtime.get_context()
    main.extend(Message("user", text) for text in "abcd")
    del main.messages[1]
    main.messages[0] = Message("user", "A", id=main[0].id)
    main.user("e")
    lines = journal.read_bytes()
    runtime.save()
    expected = contexts_on_disk(path)
    journal.write_bytes(lines)
    assert loaded(path) == expected
    main.user("f")
    assert loaded(path) == {"main": ["A", "c", "d", "e", "f"]}


def test_a_journal_cut_at_any_byte_keeps_every_whole_line(tmp_path: Path) -> None:
    path, journal = tmp_path / "runtime.json", tmp_path / "runtime.json.journal"
    runtime = Runtime.from_file(path, keep_updated=True)
    runtime.get_context().extend(Message("user", text) for text in ["a", "b é"])
    data = journal.read_bytes()
    for size in range(len(data) + 1):
        journal.write_bytes(data[:size])
        count = sum(size >= end for end in (data.index(b"\n"), len(data) - 1))
        assert loaded(path).get("main", []) == ["a", "b é"][:count], size
        aside = tmp_path / "runtime.json.journal.torn"
        ends = (0, data.index(b"\n"), data.index(b"\n") + 1, len(data) - 1, len(data))
        assert aside.exists() == (size not in ends), size
        aside.unlink(missing_ok=True)
        Runtime.from_file(path, keep_updated=True).get_context().user("next")
        assert loaded(path)["main"] == [*["a", "b é"][:count], "next"]
        path.write_text('{"contexts": {}}')
        journal.unlink()


SAY_IN_A_RUNTIME = """
import sys
from autonomy_ctx.containers.runtime import Runtime, get_context, new_context
path, who = sys.argv[1], sys.argv[2]
runtime = Runtime.from_file(path, keep_updated=True)
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    runtime.get_context("main").user(f"{who}{number}")
    if number % 20 == 10:
        with runtime:
            new_context("attempt").user(f"{who} tries {number}")
"""


def test_two_processes_on_one_runtime_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    processes = [run(SAY_IN_A_RUNTIME, path, who) for who in "ab"]
    started_together(processes)
    for process in processes:
        ended(process)
    runtime = Runtime.from_file(path)
    runtime.save()
    held = contexts_on_disk(path)
    for who in "ab":
        assert [text for text in held["main"] if text.startswith(who)] == [f"{who}{n}" for n in range(60)]
    attempts = [held[name] for name in held if name.startswith("attempt_")]
    assert sorted(attempts) == sorted([f"{who} tries {number}"] for who in "ab" for number in (10, 30, 50))


def test_runtimes_saved_by_hand_keep_each_others_work(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    one, other = Runtime.from_file(path), Runtime.from_file(path)
    one.get_context().user("a")
    other.get_context().user("b")
    other.get_context("more").user("c")
    one.save()
    other.save()
    one.save()
    assert contexts_on_disk(path) == {"main": ["a", "b"], "more": ["c"]}
    assert {name: texts(context) for name, context in one.CTX.items()} == contexts_on_disk(path)


def test_a_context_removed_from_the_runtime_leaves_the_file_when_saved(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    runtime = Runtime.from_file(path, keep_updated=True)
    runtime.get_context("old").user("a")
    runtime.get_context("new").user("b")
    del runtime.CTX["old"]
    runtime.get_context("new").user("c")
    runtime.save()
    assert contexts_on_disk(path) == {"new": ["b", "c"]}


def test_a_context_put_into_the_runtime_is_saved_with_it(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    runtime = Runtime.from_file(path, keep_updated=True)
    runtime.CTX["mine"] = Context([Message("user", "a")])
    runtime.CTX["own file"] = Context([Message("user", "b")], tmp_path / "own.json", keep_updated=True)
    runtime.get_context("mine").user("c")
    runtime.CTX["own file"].user("d")
    runtime.save()
    assert contexts_on_disk(path) == {"mine": ["a", "c"], "own file": ["b", "d"]}
    assert on_disk(tmp_path / "own.json") == ["b", "d"]


def test_keys_of_the_file_that_are_not_ours_stay(tmp_path: Path) -> None:
    path = tmp_path / "runtime.json"
    path.write_text(json.dumps({"tools": ["a"], "contexts": {"main": []}, "version": 1}))
    with Runtime.from_file(path, keep_updated=True) as runtime:
        runtime.get_context().user("a")
    held = json.loads(path.read_text())
    assert held.pop("contexts")["main"][0]["content"] == "a"
    assert held == {"tools": ["a"], "version": 1}


def test_a_long_journal_is_folded_in_by_itself(tmp_path: Path) -> None:
    path, journal = tmp_path / "runtime.json", tmp_path / "runtime.json.journal"
    main = Runtime.from_file(path, keep_updated=True).get_context()
    for number in range(5):
        main.user(f"{number}" + "x" * 300_000)
    assert len(contexts_on_disk(path)["main"]) == 4
    assert journal.stat().st_size < 400_000
    assert len(loaded(path)["main"]) == 5


BAD_RUNTIMES: dict[str, tuple[str, str]] = {
    "no JSON": ("hello", "is not JSON"),
    "cut by another program": ('{"contexts": {"main": [', "is not JSON"),
    "a newer version": ('{"version": 99, "contexts": {}}', "has version 99.*reads up to 1.*Upgrade"),
    "a context's": ("[]", "Open it with Context.from_file"),
    "text": ('"hello"', "contains a JSON str, not a runtime"),
    "wrong contexts": ('{"contexts": []}', "has `contexts` that are not lists"),
    "a wrong context": ('{"contexts": {"main": {}}}', "has `contexts` that are not lists"),
    "a wrong message": ('{"contexts": {"main": [{}]}}', "at index 0 that is not a message"),
}


@pytest.mark.parametrize("name", BAD_RUNTIMES)
def test_a_file_that_holds_no_runtime_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    text, problem = BAD_RUNTIMES[name]
    path = tmp_path / "runtime.json"
    path.write_text(text)
    uses: list[Callable[[], object]] = [
        lambda: Runtime.from_file(path),
        lambda: Runtime.from_file(path, keep_updated=True),
        lambda: Runtime(file_path=path).save(),
    ]
    for use in uses:
        with pytest.raises(InvalidContextFile, match=problem):
            use()
    assert path.read_text() == text


@pytest.mark.parametrize(
    "line",
    [
        "oops",
        "[]",
        '{"context": "main"}',
        '{"context": 3, "new": true}',
        '{"context": "main", "rename": "x"}',
        '{"context": "main", "set": 3}',
        '{"context": "main", "add": {"role": "nobody"}}',
    ],
)
def test_a_journal_with_a_line_nobody_knows_is_refused_and_left_alone(tmp_path: Path, line: str) -> None:
    path, journal = tmp_path / "runtime.json", tmp_path / "runtime.json.journal"
    journal.write_text(f'{line}\n{{"context": "main", "new": true}}\n')
    before = journal.read_text()
    with pytest.raises(
        InvalidContextFile,
        match=r"runtime\.json\.journal has (a line that is not a change|something at index 0)",
    ):
        Runtime.from_file(path, keep_updated=True)
    assert journal.read_text() == before


# -- which files, and who may read them ----------------------------------------------------------------


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def test_files_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        Context(file_path=tmp_path / "chat.json", keep_updated=True).user("hi")
        Runtime(file_path=tmp_path / "runtime.json", keep_updated=True).get_context("main").user("hi")
    finally:
        os.umask(before)
    assert set(modes(tmp_path)) >= {"chat.json", "chat.json.lock", "runtime.json.lock"}
    assert set(modes(tmp_path).values()) == {0o600}


def test_a_file_that_others_may_read_stays_so_with_all_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text("[]")
    path.chmod(0o660)
    context = Context.from_file(path, keep_updated=True)
    before = os.umask(0)
    try:
        context.user("hi")
        context.messages = []
    finally:
        os.umask(before)
    assert modes(tmp_path)["chat.json"] == 0o660


@pytest.mark.parametrize("kind", ["folder", "pipe"])
@pytest.mark.parametrize("opened", [Context.from_file, Runtime.from_file])
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, kind: str, opened: Callable[[Path], object]
) -> None:
    path = tmp_path / "chat.json"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(InvalidContextFile, match=f"is a {kind}.*, not a file"):
        opened(path)
    assert [file.name for file in tmp_path.iterdir()] == ["chat.json"]


def test_a_pipe_that_took_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    context = Context(file_path=path, keep_updated=True)
    context.user("hi")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InvalidContextFile, match="is a pipe"):
        context.user("hello")
    assert [message.text for message in context.messages] == ["hi"]


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="nothing says here who waits for a lock")
def test_a_lock_that_was_removed_while_somebody_waited_for_it_is_taken_again(tmp_path: Path) -> None:
    """Whoever comes later locks the new file, so the old one protects from nobody."""
    path, lock = tmp_path / "chat.json", tmp_path / "chat.json.lock"
    order: list[str] = []

    def second() -> None:
        with file_lock(path):
            order.append("second")

    waiter = threading.Thread(target=second)
    with ExitStack() as first:
        first.enter_context(file_lock(path))
        waiter.start()
        wait_until_blocked(waiter, lock)
        lock.unlink()
        with file_lock(path):
            first.close()
            wait_until_blocked(waiter, lock)
            order.append("third")
    waiter.join(10)
    assert order == ["third", "second"]


def wait_until_blocked(waiter: threading.Thread, lock: Path) -> None:
    """Wait until somebody waits for a lock on this file, or the waiter is through."""
    inode = f":{lock.stat().st_ino} "
    while waiter.is_alive():
        lines = Path("/proc/locks").read_text().splitlines()
        if any("->" in line and inode in line for line in lines):
            return
