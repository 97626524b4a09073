"""Scopes stay apart in every index, and a deletion reaches all of them: search, recall, and vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from autonomy_ctx import Memory, recall

SCOPES, TALKS = ("ana", "bob", "a:b"), ("trip", "house")
Step = tuple[str, str, str]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "delete talk", "delete scope", "recall"]),
        st.sampled_from(SCOPES),
        st.sampled_from(TALKS),
    ),
    max_size=20,
)


class LetterEmbedder:
    """Counts letters: every text has a vector, and equal texts have equal ones."""

    name = "letters"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, *(float(text.count(letter)) for letter in "abcdefgh")] for text in texts]


async def check_scopes(memory: Memory, steps: list[Step]) -> None:
    """Run the steps, then look for everything in every way."""
    kept: dict[tuple[str, str], list[str]] = {}
    for number, (do, scope, talk) in enumerate(steps):
        text = f"kitchen {number} of {scope} in {talk}"
        if do == "say":
            await memory.append(scope, talk, {"role": "user", "content": text})
            kept.setdefault((scope, talk), []).append(text)
        elif do == "recall":
            # An index in this process is made before things change.
            await recall(memory, scope, "kitchen", conversation=talk)
        elif do == "delete talk":
            await memory.delete_conversation(scope, talk)
            kept.pop((scope, talk), None)
        else:
            await memory.delete_scope(scope)
            kept = {place: texts for place, texts in kept.items() if place[0] != scope}
    for scope in SCOPES:
        await memory.embed_messages(scope)
        of_scope = {text for place, texts in kept.items() if place[0] == scope for text in texts}
        hits = await memory.search(scope, "kitchen", limit=50)
        everywhere = await recall(memory, scope, "kitchen", max_tokens=4_000)
        assert {hit.message.text for hit in hits} == of_scope
        assert {one.message.text for one in everywhere.passages} == of_scope
        for talk in TALKS:
            of_talk = set(kept.get((scope, talk), ()))
            here = await recall(memory, scope, "kitchen", conversation=talk, max_tokens=4_000)
            near = await memory.search(scope, "cabbage", conversation=talk, limit=50)
            assert {one.message.text for one in here.passages} == of_talk
            assert {hit.message.text for hit in near} == of_talk, "found by vectors alone"


def run_steps(open_memory: Callable[[], Memory], steps: list[Step]) -> None:
    async def run() -> None:
        async with open_memory() as memory:
            await check_scopes(memory, steps)

    anyio.run(run)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(steps=STEPS)
def test_no_index_shows_what_another_scope_has_or_what_was_deleted(steps: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'memory.db'}"
        run_steps(lambda: Memory(url, embedder=LetterEmbedder(), embedder_timeout=600.0), steps)
