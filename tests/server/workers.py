"""What `autonomy-ctx serve --workers 2` must do on every store: real processes, stopped and killed."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import psutil
from anyio.abc import SocketAttribute
from cli.test_serve_and_worker import start
from models.model_server import Answer, ModelServer, Seen, as_json, chat
from models.provider_words import Responses, Say
from pty_process import WAIT_SECONDS
from server.endpoint import assistant, user

from autonomy_ctx import Memory

NAMED, RETRY = "x-conversation-id", "x-stainless-retry-count"
CLIENTS, TURNS, FORKED = 9, 5, 5


class Echo(ModelServer):
    """Answers each question with its text; each response has an id of its own."""

    def __init__(self) -> None:
        super().__init__(())
        self.open = anyio.Event()
        self._numbers = count(1)

    def answer(self, seen: Seen) -> Answer:
        if seen.path.endswith("/responses"):
            told = json.dumps(Responses().whole(Say(f"To {_text(seen.body['input'][-1])}")))
            answer = as_json(json.loads(told.replace("resp-1", f"resp_{next(self._numbers)}")))
        else:
            answer = as_json(chat(f"To {_text(seen.body['messages'][-1])}"))
        answer.before = self.open
        return answer


def _text(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


class Served:
    """A server with two workers. Each request has a connection of its own: any worker may accept it."""

    def __init__(self, url: str, parent: psutil.Process, upstream: Echo) -> None:
        self.url, self.parent, self.upstream = url, parent, upstream

    def workers(self) -> list[psutil.Process]:
        """The processes that serve, in the order of their start."""
        found = [one for one in self.parent.children() if "spawn_main" in " ".join(one.cmdline())]
        return sorted(found, key=lambda one: one.create_time())

    @asynccontextmanager
    async def only(self, number: int) -> AsyncIterator[None]:
        """Only one worker answers in the block; the other one is stopped, and goes on afterwards."""
        stopped = self.workers()[1 - number]
        stopped.suspend()
        try:
            yield
        finally:
            stopped.resume()

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a request, once more if the worker dies meanwhile, as the SDKs do."""
        body = {"model": "served", **body}
        for number in range(9):
            async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as client:
                try:
                    retried = {RETRY: str(number)} if number else {}
                    return await client.post(f"{self.url}{path}", json=body, headers=headers | retried)
                except httpx.TransportError:
                    continue
        raise AssertionError("no worker answers")

    async def ask(self, *messages: Any, conversation: str = "", **body: Any) -> httpx.Response:
        """A chat completion."""
        said = [user(one) if isinstance(one, str) else one for one in messages]
        named = {NAMED: conversation} if conversation else {}
        answered = await self.post("/chat/completions", {"messages": said, **body}, **named)
        assert answered.status_code == 200, answered.text
        return answered

    async def respond(self, text: str, previous: str | None = None) -> Any:
        """A response."""
        answered = await self.post("/responses", {"input": text, "previous_response_id": previous})
        assert answered.status_code == 200, answered.text
        return answered.json()


@asynccontextmanager
async def serving_workers(folder: Path, memory: str, *, exit_code: int = 0) -> AsyncIterator[Served]:
    """Two workers in front of an upstream server; at the end a TERM signal closes all of it."""
    upstream = Echo()
    upstream.open.set()
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        upstream.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        group.start_soon(listener.serve, upstream.serve)
        arguments = ("serve", "--upstream", f"{upstream.url}/v1", "-m", memory, "-s", "ana", "--json")
        with start(*arguments, "--workers", "2", "--port", "0", cwd=folder) as process:
            assert process.stdout is not None
            line = await anyio.to_thread.run_sync(process.stdout.readline)
            assert line, process.stderr and process.stderr.read()
            served = Served(json.loads(line)["url"], psutil.Process(process.pid), upstream)
            yield served
            family = [] if exit_code else served.parent.children(recursive=True)
            process.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(partial(process.wait, WAIT_SECONDS)) == exit_code
            assert not psutil.wait_procs(family, WAIT_SECONDS)[1]
        group.cancel_scope.cancel()


async def read_stored(memory: str) -> dict[str, list[str]]:
    """The texts of all conversations."""
    async with Memory(memory) as opened:
        found = {}
        for one in await opened.conversations("ana"):
            window = await opened.read("ana", one.conversation)
            found[one.conversation] = [entry.message.text for entry in window.entries]
        return found


class WorkersContract:
    """What two workers on one database do; the subclass has a fixture `memory` with its URL."""

    async def test_each_worker_finds_what_the_other_one_has_stored(self, tmp_path: Path, memory: str) -> None:
        async with serving_workers(tmp_path, memory) as served:
            async with served.only(0):
                first = await served.respond("Hi")
                unnamed = await served.ask("Hello")
                await served.ask("Start", conversation="trip")
            async with served.only(1):
                # First: a stopped process may still have to note how this client sends its history.
                named = [user("Start"), assistant("To Start")]
                await served.ask(*named, "Go on", conversation="trip")
                second = await served.respond("And?", first["id"])
                history = [user("Hello"), assistant("To Hello")]
                again = await served.ask(*history, "More")
            async with served.only(0):
                await served.respond("Then?", second["id"])
                history += [user("More"), assistant("To More")]
                last = await served.ask(*history, "Most")
                # This client sends whole histories: this one is new, and the edit after it is a fork.
                await served.ask("Anew", conversation="trip")
                edited = await served.ask(*named, "Turn", conversation="trip")
            async with served.only(1):
                named += [user("Turn"), assistant("To Turn")]
                forked = await served.ask(*named, "Where?", conversation="trip")
        assert len({answer.headers[NAMED] for answer in (unnamed, again, last)}) == 1
        assert forked.headers[NAMED] == edited.headers[NAMED]
        stored = await read_stored(memory)
        assert sorted(stored.values()) == sorted(
            [
                ["Hi", "To Hi", "And?", "To And?", "Then?", "To Then?"],
                ["Hello", "To Hello", "More", "To More", "Most", "To Most"],
                ["Start", "To Start", "Go on", "To Go on"],
                ["Start", "To Start", "Turn", "To Turn", "Where?", "To Where?"],
                ["Anew", "To Anew"],
            ]
        )

    async def test_two_clients_with_the_same_first_question_have_a_conversation_each(
        self, tmp_path: Path, memory: str
    ) -> None:
        names: list[str] = []
        async with serving_workers(tmp_path, memory) as served:
            upstream = served.upstream
            upstream.open, upstream.arrived = anyio.Event(), anyio.Event()

            async def ask() -> None:
                names.append((await served.ask("Hi")).headers[NAMED])

            async with anyio.create_task_group() as group:
                for number in range(2):
                    async with served.only(number):
                        group.start_soon(ask)
                        await upstream.arrived.wait()
                        upstream.arrived = anyio.Event()
                upstream.open.set()
        assert len(set(names)) == 2
        assert list((await read_stored(memory)).values()) == [["Hi", "To Hi"]] * 2

    async def test_questions_at_once_after_one_answer_are_forks_of_each_other(
        self, tmp_path: Path, memory: str
    ) -> None:
        async with serving_workers(tmp_path, memory) as served:
            for number in range(FORKED):
                first = f"Hi {number}"
                await served.ask(first)
                history = [user(first), assistant(f"To {first}")]
                async with anyio.create_task_group() as group:
                    for at in range(4):
                        group.start_soon(partial(served.ask, *history, f"{number}, {at}"))
        stored = await read_stored(memory)
        assert sorted(said[2] for said in stored.values()) == [
            f"{number}, {at}" for number in range(FORKED) for at in range(4)
        ]
        for said in stored.values():
            assert len(said) == 4
            _pairs(said)

    async def test_a_helper_with_the_whole_history_is_told_apart_in_another_worker(
        self, tmp_path: Path, memory: str
    ) -> None:
        def tool(name: str) -> dict[str, Any]:
            schema: dict[str, Any] = {"type": "object", "properties": {}}
            return {"type": "function", "function": {"name": name, "parameters": schema}}

        def system(text: str) -> dict[str, Any]:
            return {"role": "system", "content": text}

        async with serving_workers(tmp_path, memory) as served:
            async with served.only(0):
                main = await served.ask(system("You work."), "Hi", tools=[tool("write")])
            history = [user("Hi"), assistant("To Hi")]
            async with served.only(1):
                helper = await served.ask(system("You look."), *history, "Look", tools=[tool("look")])
                again = await served.ask(system("You work."), *history, "Go", tools=[tool("write")])
        assert again.headers[NAMED] == main.headers[NAMED] != helper.headers[NAMED]

    async def test_clients_at_once_lose_and_repeat_nothing_when_a_worker_is_killed(
        self, tmp_path: Path, memory: str
    ) -> None:
        count_answered = 0
        async with serving_workers(tmp_path, memory) as served:

            def note() -> None:
                nonlocal count_answered
                count_answered += 1
                if count_answered == CLIENTS * TURNS // 3:
                    served.workers()[0].kill()

            kinds = (_whole_history, _named, _responses)
            async with anyio.create_task_group() as group:
                for number in range(CLIENTS):
                    group.start_soon(kinds[number % 3], served, f"client {number}", note)
            assert len(served.workers()) == 2
        stored = await read_stored(memory)
        expected = [[f"client {number}, {turn}" for turn in range(TURNS)] for number in range(CLIENTS)]
        # Three clients share a named conversation: their turns come in any order. A question whose worker was
        # killed may stand there without an answer, if others went on before it came again.
        [shared] = [said for name, said in stored.items() if name == "shared"]
        answered = [said for said, after in pairwise(shared) if after == f"To {said}"]
        assert sorted(answered) == sorted(one for number in (1, 4, 7) for one in expected[number])
        assert len(shared) - 2 * len(answered) in range(4)
        alone = [said for name, said in stored.items() if name != "shared"]
        assert sorted(map(_pairs, alone)) == [expected[number] for number in (0, 2, 3, 5, 6, 8)], alone


def _pairs(said: list[str]) -> list[str]:
    """The questions of a conversation, each of which has its answer after it."""
    assert [f"To {text}" for text in said[::2]] == said[1::2], said
    return said[::2]


async def _whole_history(served: Served, name: str, note: Callable[[], None]) -> None:
    history: list[Any] = []
    for turn in range(TURNS):
        history.append(user(f"{name}, {turn}"))
        await served.ask(*history)
        history.append(assistant(f"To {name}, {turn}"))
        note()


async def _named(served: Served, name: str, note: Callable[[], None]) -> None:
    for turn in range(TURNS):
        await served.ask(f"{name}, {turn}", conversation="shared")
        note()


async def _responses(served: Served, name: str, note: Callable[[], None]) -> None:
    previous: str | None = None
    for turn in range(TURNS):
        previous = (await served.respond(f"{name}, {turn}", previous))["id"]
        note()
