"""A file of 0.2, which knows no epochs, is gone on with: the first request begins one, and none is refused.

`talk_of_0_2.sqlite.gz` was made by 0.2: four turns of this agent, with a tool and a model that thinks.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents.epoch_talk import TextSection, look_up

from autonomy_ctx import (
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Model,
    SystemInstructionsSection,
)
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.testing import ProviderServer

pytestmark = pytest.mark.anyio
FILE = Path(__file__).with_name("talk_of_0_2.sqlite.gz")
WHERE: Any = {"scope": "ana", "conversation": "trip"}
# The signatures in the file were made with it.
SECRET = b"of the test"


def make_answer() -> Any:
    """Each turn calls a tool, then answers; both after thinking."""
    numbers = count(100)

    def answer(body: Mapping[str, Any]) -> list[dict[str, Any]]:
        number, thought = next(numbers), {"type": "thinking", "thinking": ""}
        if number % 2 == 0:
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "look_up", "input": {"order": "1"}}
            return [thought, call]
        return [thought, {"type": "text", "text": f"Answer {number}."}]

    return answer


async def test_a_file_of_0_2_is_gone_on_with_and_no_request_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    clock = TextSection("clock")
    template = ContextTemplate([SystemInstructionsSection("You help."), ConversationHistorySection(), clock])
    server = ProviderServer(make_answer())
    server.secret = SECRET
    ends = []
    async with server.client() as client, Memory(f"sqlite:///{path}") as memory:
        model = Model("claude-opus-5-5", client=client, api_key="key")
        async with Agent(
            "shop", model=model, tools=[look_up], context_template=template, memory=memory
        ) as agent:
            before = await agent.explain(**WHERE)
            assert (before.epoch, before.end_reason) == (0, None)
            for turn in range(3):
                clock.text = f"It is {14 + turn}:00."
                reply = await agent.send("And now?", **WHERE)
                ends += [(await agent.explain(reply.turn, step=step, **WHERE)).end_reason for step in (1, 2)]
            shown = (await agent.explain(**WHERE)).messages
    assert not server.refused
    assert ends == [EndReason.NOT_RECORDED, *[None] * 5]
    assert [request.thinking for request in server.requests] == [0, 1, 2, 3, 4, 5]
    assert "Question 0" in [message.text for message in shown]


async def test_with_render_a_file_of_0_2_gets_no_epoch_until_the_option_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    template = ContextTemplate([SystemInstructionsSection("You help."), ConversationHistorySection()])
    ends = []
    async with Memory(f"sqlite:///{path}") as memory:
        for context in ("render", "render", "log", "log"):
            made: Any = {"context_template": template, "memory": memory, "context": context}
            async with Agent("shop", model=Model("offline"), **made) as agent:
                await agent.send("And now?", **WHERE)
                ends.append((await agent.explain(**WHERE)).end_reason)
    assert ends == [None, None, EndReason.NOT_RECORDED, None]
