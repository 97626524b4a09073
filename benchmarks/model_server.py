"""A model behind HTTP on loopback, in a process of its own, with a hosted model's latencies at 1/50.

A hosted model of today takes about 200 ms to begin, 0.2 ms for an input token, a tenth of that for one
whose prefix it has cached, and 20 ms for an output token. Here all of it is fifty times faster: a turn
takes about 5 to 20 ms and a summary 100 to 300 ms, in the proportion that a user would meet.

`python -m benchmarks.model_server` prints its port and ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any, TypeAlias
from zlib import crc32

from autonomy_ctx.messages.token_estimate import estimate_tokens
from benchmarks.honest import asked as summarized
from benchmarks.honest import summary_of
from benchmarks.talk import lookup

SCALE = 1 / 50
FIXED, PER_INPUT, PER_CACHED, PER_OUTPUT = 0.2 * SCALE, 0.0002 * SCALE, 0.00002 * SCALE, 0.02 * SCALE
MODES = ("ok", "hang", "dead", "slow", "garbage", "flaky", "unreliable")
# In the mode "unreliable": the part of calls that fail, each in one of these ways.
FAILING, FAILURES = 0.2, ("500", "cut", "slow")
SLOW = 100
# Prompts whose beginnings are kept, as a provider's cache does for a while.
CACHED_PROMPTS = 64
# One question in so many is answered with a tool call first.
TOOL_EVERY = 3
# Method, path and body of a request in, the answer's body out; None where there is no such path.
Answer: TypeAlias = Callable[[str, str, dict[str, Any]], Awaitable[Mapping[str, Any] | None]]


class Closed(Exception):
    """The connection is to be dropped without an answer."""


class Failed(Exception):
    """The answer is a 500."""


class Cut(Exception):
    """The connection is to be dropped in the middle of an answer."""


class Server:
    """Answers chat completions as the mode says."""

    def __init__(self) -> None:
        self.mode = "ok"
        self.stats: Counter[str] = Counter()
        # How often each text was to be summarized.
        self.batches: Counter[str] = Counter()
        self._prompts: list[str] = []
        self._random = Random(7)

    async def answer(self, method: str, path: str, body: dict[str, Any]) -> Mapping[str, Any] | None:
        match method, path:
            case "POST", "/v1/chat/completions":
                return await self.completion(body)
            case "POST", "/mode" if body.get("mode") in MODES:
                self.mode = body["mode"]
                return {}
            case "GET", "/stats":
                return self.stats | {
                    "summary_batches": len(self.batches),
                    "summary_batch_most_calls": max(self.batches.values(), default=0),
                }
        return None

    async def completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        messages = asked["messages"]
        kind = "summary" if asked.get("model", "").startswith("summary") else "turn"
        self.stats[f"{kind}_calls"] += 1
        if kind == "summary":
            self.batches[summarized(messages, 0).source] += 1
        slower = await self._misbehave()
        prompt = "\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
        shared = max((common(prompt, one) for one in self._prompts), default=0)
        # A prompt that goes on where another ended takes its place: it can do all that the other could.
        self._prompts = [one for one in self._prompts if not prompt.startswith(one)][1 - CACHED_PROMPTS :]
        self._prompts.append(prompt)
        cached, total = estimate_tokens(prompt[:shared]), estimate_tokens(prompt)
        text, calls = self._answer(kind, messages, asked.get("max_tokens") or 1024)
        if "user" in asked:
            # Who asked, and which answer it is: no two are alike.
            text = f"[{asked['user']} #{self.stats['turn_calls']}] {text}"
        output = estimate_tokens(text) + 20 * len(calls)
        seconds = FIXED + PER_CACHED * cached + PER_INPUT * (total - cached) + PER_OUTPUT * output
        self.stats.update({f"{kind}_input": total, f"{kind}_cached": cached, f"{kind}_output": output})
        await asyncio.sleep(seconds * slower)
        message = {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})
        return {
            "object": "chat.completion",
            "model": asked.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {
                "prompt_tokens": total,
                "completion_tokens": output,
                "total_tokens": total + output,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }

    async def _misbehave(self) -> int:
        """Do what the mode asks for before an answer; how many times slower the answer comes."""
        if self.mode == "hang":
            await asyncio.sleep(3600)
        if self.mode == "dead":
            raise Closed
        if self.mode == "flaky" and self._random.random() < 0.5:
            raise Failed
        if self.mode == "unreliable" and self._random.random() < FAILING:
            failure = self._random.choice(FAILURES)
            self.stats[f"failed_{failure}"] += 1
            if failure == "500":
                raise Failed
            if failure == "cut":
                raise Cut
            return SLOW
        return SLOW if self.mode == "slow" else 1

    def _answer(self, kind: str, messages: list[Any], most: int) -> tuple[str, list[Any]]:
        if self.mode == "garbage":
            return garbage(self.stats[f"{kind}_calls"], messages), []
        if kind == "summary":
            return summary_of(messages, most), []
        # By what was asked alone: the same question has the same answer, whatever history came with it.
        number = crc32(str(messages[-1]["content"]).encode())
        if messages[-1]["role"] == "user" and number % TOOL_EVERY == 0:
            return "", lookup(number)[0]["tool_calls"]
        return (
            f"Order {number % 9999} is on its way; I keep batch_{number % 99}.csv open until you answer.",
            [],
        )


def common(first: str, second: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        same = first[low:middle] == second[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low


def garbage(number: int, messages: list[Any]) -> str:
    """The n-th useless answer: noise, a tool call as text, nothing, or the prompt again."""
    noise = "".join(Random(number).choices("abcdefghij \n{}<>#", k=400))
    called = json.dumps({"name": "find_order", "arguments": {"batch": number}})
    return (noise, called, "", str(messages[-1]["content"]))[number % 4]


async def serve(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """HTTP/1.1 with connections kept alive; bodies with a length, which is all that clients here send."""
    try:
        while line := await reader.readline():
            method, path, _ = line.decode().split()
            length = 0
            while (header := await reader.readline()).strip():
                name, _, value = header.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            body = json.loads(await reader.readexactly(length)) if length else {}
            reply: Mapping[str, Any] | None
            try:
                reply = await answer(method, path, body)
                status = "404 Not Found" if reply is None else "200 OK"
            except Failed:
                status, reply = "500 Failed", {"error": "internal error"}
            except Cut:
                writer.write(b'HTTP/1.1 200 -\r\ncontent-length: 1000\r\n\r\n{"object": "chat.')
                await writer.drain()
                raise Closed from None
            data = json.dumps({"error": f"no {method} {path}"} if reply is None else reply).encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
            writer.write(f"{head}\r\n\r\n".encode() + data)
            await writer.drain()
    except (Closed, ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def run(answer: Answer) -> None:
    """Listen on a free port, print it, and answer until the input is closed."""
    listening = await asyncio.start_server(lambda r, w: serve(answer, r, w), "127.0.0.1", 0, limit=2**24)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    # Hung answers would hold up an orderly end.
    os._exit(0)


@contextmanager
def running(module: str = "benchmarks.model_server") -> Iterator[str]:
    """A server in a process of its own; its address."""
    command = [sys.executable, "-m", module]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


if __name__ == "__main__":
    asyncio.run(run(Server().answer))
