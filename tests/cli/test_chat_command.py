"""`autonomy-ctx chat`: in a terminal and in a pipe, with what is typed, stopped, mistyped and hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from pty_process import Terminal, run_command

from autonomy_ctx import Memory
from autonomy_ctx.cli.chat import StreamCleaner
from autonomy_ctx.cli.output import clean

CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
# A model that fails, hangs or sends control sequences when it is asked to.
AGENTS = '''
import anyio

from autonomy_ctx import Agent, Model, ModelError, tool


class Moody:
    name = "moody"

    async def complete_chat(self, messages, tools=None, stream=False, **options):
        said = [message["content"] for message in messages if message["role"] == "user"][-1]
        if said in ("look", "hang") and messages[-1]["role"] != "tool":
            asked = {"name": "price", "arguments": '{"city": "Porto"}'}
            call = {"id": "c1", "type": "function", "function": asked}
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        if said == "hang":
            await anyio.sleep_forever()
        if said == "fail":
            raise ModelError("moody", "is down")
        if said == "hostile":
            return {"role": "assistant", "content": "red \\x1b[31mtext\\x1b]0;title\\x07 \\u202eback"}
        return {"role": "assistant", "content": f"You said {said!r}."}


@tool
def price(city: str) -> str:
    """The price of a room."""
    return f"61 EUR in {city}\\x1b[2J"


moody = Agent("moody", instructions="You are moody.", model=Moody(), tools=[price])
other = Agent("other", instructions="You are another.", model=Model("offline"))
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENTS)
    return tmp_path


def open_moody(folder: Path) -> Terminal:
    return Terminal("chat", "--file", "agents.py:moody", "--memory", "chat.db", cwd=folder)


def stored_texts(path: Path, agent: str = "assistant", conversation: str = "default") -> list[str]:
    async def read() -> list[str]:
        async with Memory(f"sqlite:///{path}") as memory:
            messages = await memory.for_agent(agent).get_messages_only("default", conversation)
            return [message["content"] for message in messages]

    return anyio.run(read)


# -- in a terminal --------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [40, 200])
def test_a_conversation_in_a_terminal(columns: int, tmp_path: Path) -> None:
    with Terminal("chat", "--memory", "chat.db", cwd=tmp_path, columns=columns) as terminal:
        terminal.wait_for("assistant · offline · default · 0", "messages in chat.db", "\n> ")
        terminal.type("The ferry leaves at 9:40.\n")
        terminal.wait_for("Noted.", "tokens", "\n> ")
        terminal.type("When does the ferry leave?\n")
        terminal.wait_for("- User: The ferry leaves at 9:40.", "tokens · ", "% shared", "\n> ")
        terminal.type("/explain\n")
        terminal.wait_for("conversation_history", "When does the ferry", "\n> ")
        terminal.type("/quit\n")
        assert terminal.wait() == 0
    # The bar is drawn in colours.
    assert "\x1b[34m█" in terminal.raw
    assert stored_texts(tmp_path / "chat.db")[0] == "The ferry leaves at 9:40."


def test_ctrl_c_stops_a_turn_and_the_conversation_goes_on(folder: Path) -> None:
    with open_moody(folder) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("hang\n")
        terminal.wait_for("← 61 EUR in Porto")
        terminal.type("\x03")
        terminal.wait_for("stopped; press Ctrl-C again to leave", "\n> ")
        terminal.type("hello\n")
        terminal.wait_for("You said 'hello'.", "\n> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert stored_texts(folder / "chat.db", "moody") == [
        "hang",
        "",
        "61 EUR in Porto\x1b[2J",
        "hello",
        "You said 'hello'.",
    ]


def test_ctrl_c_twice_leaves(folder: Path) -> None:
    with open_moody(folder) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("half a li")
        terminal.wait_for("half a li")
        terminal.interrupt("press Ctrl-C again to leave")
        terminal.type("\x03")
        assert terminal.wait() == 130
    assert "Traceback" not in terminal.text
    assert stored_texts(folder / "chat.db", "moody") == []


def test_an_error_of_the_model_is_shown_and_the_conversation_goes_on(folder: Path) -> None:
    with open_moody(folder) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("fail\n")
        terminal.wait_for("error: ", "is down", "\n> ")
        terminal.type("hello\n")
        terminal.wait_for("You said 'hello'.", "\n> ")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_what_models_and_tools_send_cannot_act_on_the_terminal(folder: Path) -> None:
    with open_moody(folder) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("hostile\n")
        terminal.wait_for("red text back", "\n> ")
        terminal.type("look\n")
        terminal.wait_for(
            '→ price({"city": "Porto"})', "← 61 EUR in Porto", "You said 'look'.", "2 steps", "\n> "
        )
        terminal.type("\x04")
        assert terminal.wait() == 0
    for sequence in ("\x1b]0;", "\x1b[2J", "\u202e"):
        assert sequence not in terminal.raw


def test_a_line_that_ends_with_a_backslash_goes_on(folder: Path) -> None:
    with open_moody(folder) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("one\\\n")
        terminal.wait_for("\n. ")
        terminal.type("two\n")
        terminal.wait_for("You said 'one\\ntwo'.")


# -- in a pipe ------------------------------------------------------------------------------------------


def test_each_line_of_a_pipe_is_a_turn_and_stdout_has_the_answers_alone(folder: Path) -> None:
    ran = run_command("chat", "-f", "agents.py:moody", cwd=folder, text="one\n\ntwo\\\nthree\n//four\n")
    assert ran.returncode == 0
    assert ran.stdout == "You said 'one'.\nYou said 'two\\nthree'.\nYou said '/four'.\n"
    assert ran.stderr.count("tokens") == 3
    assert not CONTROLS.search(ran.stderr)


def test_a_turn_that_fails_in_a_pipe_makes_the_exit_code_1(folder: Path) -> None:
    ran = run_command("chat", "-f", "agents.py:moody", cwd=folder, text="fail\nhello\n")
    assert (ran.returncode, ran.stdout) == (1, "You said 'hello'.\n")
    assert "error: " in ran.stderr


def test_turns_and_commands_as_json_lines(folder: Path) -> None:
    text = "hello\n/explain\n/facts\n/pin\n/pin 1\n/undo\n/undo\n/help\nfail\n"
    ran = run_command("chat", "-f", "agents.py:moody", "--json", cwd=folder, text=text)
    turn, explained, facts, pinned, first, undone, nothing, commands, failed = map(
        json.loads, ran.stdout.splitlines()
    )
    assert (turn["text"], turn["stop"], turn["steps"]) == ("You said 'hello'.", "end", 1)
    assert (explained["id"], explained["tokens"]) == (turn["turn"], turn["tokens"])
    assert [section["name"] for section in explained["sections"]] == list(turn["sections"])
    assert explained["messages"][-1]["text"] == "hello"
    assert (facts, pinned, first) == ({"facts": []}, {"pinned": 1}, {"pinned": 1})
    assert (undone, nothing) == ({"deleted": 2}, {"deleted": 0})
    assert "/pin" in commands["commands"]
    assert "is down" in failed["error"]


def test_commands_that_cannot_be(tmp_path: Path) -> None:
    ran = run_command("chat", cwd=tmp_path, text="/explain\n/pin\n/pin x\n/pin 9\n/undu\n/undo\n/facts\n")
    assert ran.stderr.splitlines() == [
        "warning: there is no turn to explain yet",
        "error: there is no message to pin yet",
        "error: /pin takes the position of a message or nothing; /explain shows the positions",
        "error: there is no message 9",
        "error: /undu is not a command; did you mean /undo? To send it as text, begin with //",
        "there is no turn to undo",
        "no facts yet; they are found when a summary is written",
    ]


def test_facts_are_listed_without_control_characters(tmp_path: Path) -> None:
    async def prepare() -> None:
        async with Memory(f"sqlite:///{tmp_path / 'chat.db'}") as memory:
            own = memory.for_agent("assistant")
            await own.append("default", "default", {"role": "user", "content": "My code is PT-4711."})
            await own.facts("default", "default").add("value", "My code is \x1b[31mPT-4711\u202e")

    anyio.run(prepare)
    listed = run_command("chat", "-m", "chat.db", cwd=tmp_path, text="/facts\n")
    assert re.search(r"F1 +value +My code is PT-4711 +1\n", listed.stdout)
    assert not CONTROLS.search(listed.stdout)


class Provider(BaseHTTPRequestHandler):
    """A provider that streams an answer in pieces and counts its tokens; most of them from its cache."""

    def do_POST(self) -> None:  # the name is the server's
        self.rfile.read(int(self.headers["content-length"]))
        if self.path != "/v1/chat/completions":
            self.send_error(404)
            return
        usage = {
            "prompt_tokens": 10_000,
            "completion_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 9_000},
        }
        deltas: list[dict[str, Any]] = [
            {"role": "assistant"},
            {"content": "At \x1b["},
            {"content": "31m9:40."},
        ]
        chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        chunks += [{"choices": [], "usage": usage}]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is the server's
        pass


@pytest.fixture
def provider_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_the_line_after_a_turn_has_what_the_provider_counted_and_its_cost(
    provider_url: str, tmp_path: Path
) -> None:
    options = ["--model", "gpt-4.1", "--base-url", provider_url]
    ran = run_command("chat", *options, cwd=tmp_path, text="When?\n", OPENAI_API_KEY="none")
    assert (ran.returncode, ran.stdout) == (0, "At 9:40.\n"), ran.stderr
    assert re.search(r"\d+ tokens · 90% cached · \$0\.\d{4} · ", ran.stderr)


# -- which conversation, which agent -----------------------------------------------------------------------


def test_the_only_conversation_is_gone_on_with_and_of_several_one_is_named(tmp_path: Path) -> None:
    for arguments in ([], ["trip", "--scope", "ana"]):
        assert run_command("chat", *arguments, "-m", "chat.db", cwd=tmp_path, text="hello\n").returncode == 0
    assert run_command("chat", "trip", "-m", "chat.db", cwd=tmp_path, text="again\n").returncode == 0
    several = run_command("chat", "-m", "chat.db", cwd=tmp_path, text="hello\n")
    assert several.returncode == 2
    assert "there are several conversations; choose one" in several.stderr
    assert "trip --scope ana --agent assistant" in several.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--file", "agents.py"], "agents.py has several agents; name one: agents.py:moody or other"),
        (["--file", "agents.py:gone"], "agents.py has nothing named 'gone'"),
        (["--file", "agents.py:price"], "price of agents.py is of type Tool; it must be an Agent"),
        (["--file", "missing.py"], "missing.py does not exist"),
        (["-f", "agents.py:other", "--model", "gpt-5", "--floor", "3"], "leave out --model and --floor"),
        (["--model", "nonsense"], "nothing is known about model 'nonsense'"),
        (["--floor", "9", "--ceiling", "3"], "floor"),
        (["--budget", "0"], "context_tokens"),
    ],
)
def test_wrong_input_makes_no_database(arguments: list[str], problem: str, folder: Path) -> None:
    ran = run_command("chat", *arguments, "-m", "new.db", cwd=folder, text="hello\n")
    assert ran.returncode == 2
    assert problem in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (folder / "new.db").exists()


# -- text that comes in pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_an_escape_sequence_in_pieces_is_removed_whole(size: int) -> None:
    text = "a \x1b[31mred\x1b[0m word, \x1b]0;title\x07 and more\nlines"
    cleaner = StreamCleaner()
    pieces = [cleaner.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(pieces) == clean(text) == "a red word,  and more\nlines"
