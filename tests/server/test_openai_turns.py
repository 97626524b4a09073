"""Requests at once in one conversation of the endpoint: they take turns, and each reply names where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx
from models.model_server import Answer, as_json, chat, serving
from models.provider_server import providing
from models.provider_words import Asked, Say
from server.endpoint import CHAT, Endpoint, answer_of, assistant, endpoint, endpoint_before, error_of, user

from autonomy_ctx import Memory

NAMED = "x-conversation-id"


def echo(asked: Asked) -> Say:
    """An answer that tells which question it is for."""
    return Say(f"To {asked.said[-1][1]}")


async def at_once(*asking: Any) -> list[httpx.Response]:
    """The answers of requests that are sent at the same time."""
    answers: dict[int, httpx.Response] = {}

    async def ask(number: int, made: Any) -> None:
        answers[number] = await made

    async with anyio.create_task_group() as group:
        for number, made in enumerate(asking):
            group.start_soon(ask, number, made)
    return [answers[number] for number in range(len(asking))]


def check_pairs(said: list[str]) -> None:
    """Every question is followed by its own answer."""
    assert [f"To {text}" for text in said[::2]] == said[1::2]


async def test_requests_at_once_in_a_named_conversation_take_turns() -> None:
    async with endpoint(echo) as made:
        answers = await at_once(*(made.ask(f"Question {at}", conversation="trip") for at in range(5)))
        assert [answer_of(one) for one in answers] == [f"To Question {at}" for at in range(5)]
        assert {one.headers[NAMED] for one in answers} == {"trip"}
        stored = await made.stored()
        assert list(stored) == ["trip"]
        assert len(stored["trip"]) == 10
        check_pairs(stored["trip"])


async def test_requests_of_several_processes_take_turns(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'talk.db'}"
    async with (
        providing(echo) as upstream,
        endpoint_before(upstream, memory=url) as one,
        endpoint_before(upstream, memory=url) as other,
    ):
        asking = [(one, other)[at % 2].ask(f"Question {at}", conversation="trip") for at in range(4)]
        answers = await at_once(*asking)
        assert {answer.headers[NAMED] for answer in answers} == {"trip"}
        stored = await one.stored()
        assert list(stored) == ["trip"]
        check_pairs(stored["trip"])
        assert len(stored["trip"]) == 8


async def test_a_history_that_does_not_continue_the_log_goes_to_a_fork_that_the_reply_names() -> None:
    async with endpoint(echo) as made:
        first = await made.ask("Hi", conversation="trip")
        before = [user("Hi"), assistant(answer_of(first))]
        asking = (made.ask(*before, f"Question {at}", conversation="trip") for at in range(3))
        answers = await at_once(*asking)
        stored = await made.stored()
        names = [one.headers[NAMED] for one in answers]
        assert len(set(names)) == 3
        assert "trip" in names
        for number, name in enumerate(names):
            assert stored[name] == ["Hi", "To Hi", f"Question {number}", f"To Question {number}"]
        # Under that name it goes on.
        [fork, *_] = [name for name in names if name != "trip"]
        again = await made.ask("And?", conversation=fork)
        assert again.headers[NAMED] == fork
        assert (await made.stored())[fork] == [*stored[fork], "And?", "To And?"]


async def test_a_request_that_waits_too_long_is_told_so_and_not_stored() -> None:
    gate = anyio.Event()
    held = as_json(chat("Fine."))
    held.before = gate
    async with (
        serving(held, as_json(chat("Fine."))) as upstream,
        endpoint_before(upstream, turn_wait_seconds=0) as made,
        anyio.create_task_group() as group,
    ):
        group.start_soon(lambda: made.ask("First", conversation="trip"))
        await upstream.arrived.wait()
        busy = await made.ask("Second", conversation="trip")
        assert error_of(busy) == (409, "conversation_busy")
        assert "waited" not in busy.text
        # Another conversation does not wait.
        assert (await made.ask("Third", conversation="other")).status_code == 200
        assert len(upstream.seen) == 2
        gate.set()
    assert upstream.seen[0].body["messages"] == [user("First")]


async def test_a_client_that_leaves_gives_its_turn_to_the_next() -> None:
    never = Answer(before=anyio.Event())
    async with serving(never, as_json(chat("Fine."))) as upstream, endpoint_before(upstream) as made:
        with anyio.move_on_after(30) as left:
            async with anyio.create_task_group() as group:

                async def leave() -> None:
                    await upstream.arrived.wait()
                    group.cancel_scope.cancel()

                group.start_soon(leave)
                await made.ask("First", conversation="trip")
        assert not left.cancelled_caught
        assert answer_of(await made.ask("Second", conversation="trip")) == "Fine."
        assert await made.stored() == {"trip": ["First", "Second", "Fine."]}


# -- the first request of a conversation without a name ---------------------------------------------------


async def retried(made: Endpoint, text: str) -> httpx.Response:
    body = {"model": "served", "messages": [user(text)]}
    return await made.http.post(CHAT, json=body, headers={"x-stainless-retry-count": "1"})


async def test_a_first_request_that_failed_after_it_was_stored_is_known_when_it_comes_again() -> None:
    # No budget has room for it: the message is stored, and then it cannot be composed.
    async with (
        Memory() as memory,
        serving(as_json(chat("Fine."))) as upstream,
        endpoint_before(upstream, memory=memory, max_tokens=5) as small,
        endpoint_before(upstream, memory=memory) as large,
    ):
        text = "Where does the ferry leave? " * 5
        assert error_of(await small.ask(text)) == (400, "context_length_exceeded")
        assert list((await large.stored()).values()) == [[text]]
        assert (await retried(large, text)).status_code == 200
        assert list((await large.stored()).values()) == [[text, "Fine."]]


async def test_a_first_request_that_is_sent_again_while_it_runs_is_one_conversation() -> None:
    gate = anyio.Event()
    held = as_json(chat("Late."))
    held.before = gate
    async with (
        serving(held, as_json(chat("Fine."))) as upstream,
        endpoint_before(upstream) as made,
        anyio.create_task_group() as group,
    ):
        group.start_soon(lambda: made.ask("Hi"))
        await upstream.arrived.wait()
        again = await retried(made, "Hi")
        [conversation] = await made.stored()
        assert again.headers[NAMED] == conversation
        group.cancel_scope.cancel()


async def test_an_answer_to_a_first_request_that_its_client_did_not_get_stays_in_one_tree() -> None:
    async with endpoint(Say("Lost."), Say("Fine."), Say("Yes.")) as made:
        first = await made.ask("Hi")
        again = await retried(made, "Hi")
        assert again.headers[NAMED].startswith(first.headers[NAMED])
        await made.ask("Hi", assistant("Fine."), "Sure?")
        assert await made.stored() == {
            first.headers[NAMED]: ["Hi", "Lost."],
            again.headers[NAMED]: ["Hi", "Fine.", "Sure?", "Yes."],
        }
