"""A client that works for a long time: what it sends grows with every step, what the model sees does not."""

from __future__ import annotations

from itertools import count
from typing import Any

from models.provider_words import Asked, Call, Say
from server.endpoint import CHAT, endpoint, user

STEPS = 40
CEILING = 20
TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}


async def test_a_long_chain_of_calls_stays_one_conversation_that_the_provider_accepts() -> None:
    """Of the provider's rules, those about calls and their results are the ones that a bad cut breaks."""
    numbers = count(1)

    def call(asked: Asked) -> Say:
        number = next(numbers)
        ids = [f"call_{number}", *([f"call_{number}b"] if number % 3 == 0 else [])]
        return Say("Next." if number % 7 else "", [Call(one, "run", {"command": "make"}) for one in ids])

    async with endpoint(call) as made:
        history: list[Any] = [{"role": "system", "content": "You build."}, user("Build it.")]
        conversations, sizes = set(), []
        for number in range(STEPS):
            body = {"model": "served", "messages": history, "tools": [TOOL]}
            response = await made.http.post(CHAT, json=body)
            assert response.status_code == 200, (number, response.text, made.upstream.refused)
            conversations.add(response.headers["x-conversation-id"])
            sent = made.sent()
            sizes.append(len(sent))
            assert sent[-1] == history[-1]
            assert sent[0] == history[0]
            answer = response.json()["choices"][0]["message"]
            calls = answer["tool_calls"]
            results = [
                {"role": "tool", "tool_call_id": one["id"], "content": f"made {one['id']}"} for one in calls
            ]
            unsent = len(results)
            history += [answer, *results]
            # Summaries are written beside the requests; here each has landed before the next.
            await made.app.settled()
        [conversation] = conversations
        # All but the instructions, and the results that no request had.
        assert await made.app.memory.get_message_count("ana", conversation) == len(history) - 1 - unsent
    # All calls are of one turn: a summary waits for its end, unless the hard limit needs it. With room for
    # the instructions, the summary, the user's message and a group that is not divided.
    assert max(sizes[CEILING:]) <= 2 * CEILING + 6
    assert len(history) > 4 * CEILING
