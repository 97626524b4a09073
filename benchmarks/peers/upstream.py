"""The model that all peers talk to: OpenAI's chat completions over HTTP, in a process of its own.

What it answers depends on the last question alone, so that every peer hears the same words and calls the same
tools. What is no question of the conversation asks for a summary or for facts, and is answered by one
summarizer for all: it writes a fifth of what it reads, within the length it is given, and never leaves out a
planted fact. So a fact that a peer loses was not shown to it. A summary that is summarized again shrinks to a
fifth, too, which makes those cheap that write one summary anew each time.

Every request is billed as `benchmarks.provider` bills it, judged by the rules of the API, and written down.
Peers have a path each: `/langchain/v1/chat/completions`, `/langchain/report`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from autonomy_ctx.messages.token_estimate import estimate_tokens
from benchmarks.honest import SHARE, asked, record
from benchmarks.model_server import run
from benchmarks.peers.report import find_broken_rule
from benchmarks.peers.settings import MODEL, REPLY_SECONDS, SUMMARY_SECONDS, SUMMARY_TOKENS
from benchmarks.provider import Provider, named_stretch, rendered
from benchmarks.talk import TURNS, steps

# How many facts are left where a list is to be condensed to fewer than 50.
CONDENSED = 30
# The shortest summary, in tokens.
LEAST = 48
_EXISTING = re.compile(r"<existing_facts>(.*?)</existing_facts>", re.DOTALL)
_FACT = re.compile(r"<fact>(.*?)</fact>", re.DOTALL)
_ORDER = re.compile(r"Order ORD-\d{5} of \d+ June costs \d+ EUR\.")
_PLANTED = re.compile(r"The pass phrase of customer C-\d{4} is zephyr-\d+\.")
_QUESTIONS = {steps(number)[0][0]["content"]: number for number in range(TURNS)}


class Talk:
    """The conversation of one peer as its provider sees it."""

    def __init__(self, reply_seconds: float, summary_seconds: float) -> None:
        self._seconds = {"turn": reply_seconds, "summary": summary_seconds}
        self.provider = Provider()
        self.requests: list[dict[str, Any]] = []
        self.context = ""

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        began, messages = time.monotonic(), body["messages"]
        number = _find_turn(messages)
        kind = "summary" if number is None else "turn"
        if number is None:
            message = {"role": "assistant", "content": _summarize(messages, _most(body))}
        else:
            self.context = rendered(messages)
            message = _reply(number, messages)
        bill = self.provider
        before = bill.sent, bill.cached, bill.output
        bill.ask(messages, _written(message), body.get("tools") or ())
        sent, cached, output = bill.sent - before[0], bill.cached - before[1], bill.output - before[2]
        # Reading the request is part of the time that a reply takes.
        await anyio.sleep(max(began + self._seconds[kind] - time.monotonic(), 0))
        self.requests.append(
            {
                "kind": kind,
                "began": began,
                "ended": time.monotonic(),
                "sent": sent,
                "cached": cached,
                "output": output,
                "broken": find_broken_rule(messages),
            }
        )
        return {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", MODEL),
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": sent,
                "completion_tokens": output,
                "total_tokens": sent + output,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }

    def report(self) -> dict[str, Any]:
        """What was seen; `context` is what the model read for its last reply."""
        return {"cost": self.provider.cost, "context": self.context, "requests": self.requests}


def _find_turn(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Which turn of the conversation asks for a reply; None where something else is asked."""
    last = messages[-1]
    if last["role"] == "tool":
        asking = [message for message in messages if message["role"] == "user"]
        return _QUESTIONS.get(_text(asking[-1]).strip()) if asking else None
    return _QUESTIONS.get(_text(last).strip()) if last["role"] == "user" else None


def _reply(number: int, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    told = steps(number)
    if len(told) == 3 and messages[-1]["role"] == "user":
        return {**told[1][0], "content": None}
    return told[-1][0]


def _written(message: Mapping[str, Any]) -> str:
    return rendered([message]).partition("\n")[2]


def _summarize(messages: Sequence[Mapping[str, Any]], most: int) -> str:
    prompt = "\n".join(_text(message) for message in messages)
    if existing := _EXISTING.search(prompt):
        return _list_facts(_FACT.findall(existing[1]), messages)
    source, cap = asked([{"content": _text(one)} for one in named_stretch(messages) or messages], most)
    size = min(max(estimate_tokens(source) // SHARE, LEAST), cap)
    facts = list(dict.fromkeys(_PLANTED.findall(source)))
    if "\nFACTS\n" in prompt:
        changes = [f"+ value: {fact.removesuffix('.')}" for fact in facts]
        return "\n".join([record(source, size), *(["FACTS", *changes] if changes else [])])
    lead = "".join(f"{fact}\n" for fact in facts)
    return lead + record(_PLANTED.sub("", source), max(size - estimate_tokens(lead), LEAST))


def _list_facts(existing: Sequence[str], messages: Sequence[Mapping[str, Any]]) -> str:
    """Facts of the messages before the last, which asks for them; a list to condense has them already."""
    facts = list(dict.fromkeys(fact.strip() for fact in existing))
    if "condensing" in _text(messages[-1]):
        planted = [fact for fact in facts if _PLANTED.fullmatch(fact)]
        others = [fact for fact in facts if fact not in planted]
        facts = [*planted, *others[max(len(facts) - CONDENSED, 0) :]]
    else:
        source = "\n".join(_text(message) for message in messages[:-1])
        room = estimate_tokens(source) // SHARE
        found = [*_PLANTED.findall(source), *_ORDER.findall(source)]
        new = [fact for fact in dict.fromkeys(found) if fact not in facts]
        facts = []
        for fact in new:
            room -= estimate_tokens(fact)
            if room >= 0 or _PLANTED.fullmatch(fact):
                facts.append(fact)
    lines = "\n".join(f"  <fact>{fact}</fact>" for fact in facts)
    return f"<facts>\n{lines}\n</facts>"


def _most(body: Mapping[str, Any]) -> int:
    return int(body.get("max_completion_tokens") or body.get("max_tokens") or SUMMARY_TOKENS)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)


class Upstream:
    """All conversations, by the names of the peers."""

    def __init__(
        self, reply_seconds: float = REPLY_SECONDS, summary_seconds: float = SUMMARY_SECONDS
    ) -> None:
        self._seconds = reply_seconds, summary_seconds
        self._talks: dict[str, Talk] = {}

    async def answer(self, method: str, path: str, body: dict[str, Any]) -> Mapping[str, Any] | None:
        peer, _, rest = path.lstrip("/").partition("/")
        talk = self._talks.setdefault(peer, Talk(*self._seconds))
        match method, rest:
            case "POST", "v1/chat/completions":
                return await talk.complete(body)
            case "GET", "report":
                return talk.report()
        return None


if __name__ == "__main__":
    asyncio.run(run(Upstream().answer))
