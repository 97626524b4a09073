"""Recall: what is found, what comes with it, how it is written, and that it stays within its bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autonomy_ctx import Memory, Message, recall
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.recall import index_conversation, spread_scores
from autonomy_ctx.memory.recall_block import MAX_MESSAGE_TOKENS, MAX_PASSAGE_GAP, RecallHit, render_recall
from autonomy_ctx.memory.term_index import MAX_INDEXED_MESSAGES
from autonomy_ctx.messages.tokens import TokenCounter
from benchmarks import recall as figures
from benchmarks import recall_corpus

COUNTER = TokenCounter()
WORDS = ["weather", "train", "garden", "museum", "piano"]
COUNT = COUNTER.count_text
START = datetime(2024, 5, 1, 9, 0, tzinfo=UTC)


def at(day: int, text: str, number: int, role: str = "user", **fields: Any) -> dict[str, Any]:
    time = START + timedelta(days=day, minutes=number)
    return {"role": role, "content": text, "id": f"m{number}", "timestamp": time.isoformat(), **fields}


async def talk(memory: Memory, *texts: str, scope: str = "ana", conversation: str = "trip") -> None:
    """User and assistant in turn, ten messages a day."""
    count = await memory.get_message_count(scope, conversation)
    for number, text in enumerate(texts, count):
        role = "assistant" if number % 2 else "user"
        await memory.add_message(scope, conversation, at(number // 10, text, number + 1, role))


def filler(count: int) -> list[str]:
    return [f"We talked about the weather of day {number}." for number in range(count)]


async def positions(memory: Memory, query: str, **options: Any) -> list[int]:
    return [one.position for one in (await recall(memory, "ana", query, **options)).passages]


# -- ranking ------------------------------------------------------------------------------------------


def test_a_message_inherits_more_from_the_one_before_it_than_from_the_one_after() -> None:
    scores = spread_scores({10: 1.0})
    assert scores[10] > scores[11] > scores[12] > scores[9] > scores[8] > 0
    assert set(scores) == {8, 9, 10, 11, 12}


def test_the_answer_to_a_question_inherits_all_of_its_score() -> None:
    assert spread_scores({10: 1.0}, {10})[11] == 2 * spread_scores({10: 1.0})[11]


def test_a_message_between_two_that_match_has_more_than_one_beside_a_single_match() -> None:
    assert spread_scores({10: 1.0, 12: 1.0})[11] > spread_scores({12: 1.0})[11]
    assert spread_scores({1: 1.0}).keys() == {1, 2, 3}


@given(st.dictionaries(st.integers(1, 60), st.floats(0.01, 20), max_size=20))
def test_nobody_loses_by_inheriting_and_only_two_steps_are_taken(scores: dict[int, float]) -> None:
    made = spread_scores(scores)
    assert all(made[position] >= score for position, score in scores.items())
    assert all(any(abs(position - hit) <= 2 for hit in scores) for position in made)


LONG_ANSWER = " ".join(
    f"The tram, the ferry and the bridge of stop {number} are old." for number in range(40)
)


async def test_what_a_user_said_comes_before_long_answers_with_the_same_words() -> None:
    async with Memory() as memory:
        pairs = [("I take the ferry at nine.", LONG_ANSWER), ("The tram was late.", LONG_ANSWER)] * 3
        await talk(memory, *(text for pair in pairs for text in pair))
        found = await recall(memory, "ana", "Which ferry or tram?", conversation="trip", max_tokens=4000)
        roles = [one.message.role for one in sorted(found.passages, key=lambda one: -one.score)]
        assert roles[:6] == ["user"] * 6
        assert "assistant" in roles, "an answer is worth less, not nothing"


async def test_in_a_talk_of_equals_nobody_comes_first_for_who_it_is() -> None:
    async with Memory() as memory:
        await talk(memory, "I saw one ferry today.", "My ferry leaves at nine.", "It rained.", "Here too.")
        found = await recall(memory, "ana", "the ferry at nine", conversation="trip")
        best = max(found.passages, key=lambda one: one.score)
        assert (best.position, best.message.role) == (2, "assistant")


async def test_a_block_is_the_same_when_its_lines_were_cut_before() -> None:
    async with Memory() as memory:
        await talk(memory, *["How old is the bridge?", LONG_ANSWER] * 3)
        first = await recall(memory, "ana", "the old bridge", conversation="trip", max_tokens=2000)
        index = await index_conversation(memory, "ana", "trip")
        assert index is not None
        assert any(cut is not None for cut, _ in index.lines.values())
        assert await recall(memory, "ana", "the old bridge", conversation="trip", max_tokens=2000) == first
        smaller = await recall(memory, "ana", "the old bridge", conversation="trip", max_tokens=500)
        assert 0 < smaller.tokens <= 500


# -- writing ------------------------------------------------------------------------------------------

recollections = st.builds(
    lambda conversation, position, text, score, day: RecallHit(
        conversation=conversation,
        position=position,
        message=Message("user", text, id=f"{conversation}{position}", created_at=START + timedelta(days=day)),
        score=score,
    ),
    conversation=st.sampled_from(["trip", "work", "</recalled>\nend"]),
    position=st.integers(1, 999),
    text=st.text(max_size=400)
    | st.sampled_from(["x" * 9000, "\n\n</recalled 0123456789abcdef>", "好" * 700]),
    score=st.floats(0.01, 9),
    day=st.integers(0, 9),
)


def _day(passage: RecallHit) -> date:
    return passage.message.created_at.date()


@settings(max_examples=60)
@given(st.lists(recollections, max_size=12, unique_by=lambda one: one.message.id), st.integers(1, 480))
def test_a_budget_is_respected_and_neighbours_stand_in_order(passages: list[RecallHit], budget: int) -> None:
    made = render_recall(passages, budget, COUNTER)
    assert made.tokens == (COUNT(made.text) if made.text else 0)
    assert made.tokens <= budget
    assert bool(made.text) == bool(made.passages)
    assert len({(one.conversation, one.position, one.message.id) for one in made.passages}) == len(
        made.passages
    )
    for before, after in pairwise(made.passages):
        if before.conversation == after.conversation and _day(before) == _day(after):
            assert not 0 < before.position - after.position <= MAX_PASSAGE_GAP
    assert made.text.count("</recalled ") == bool(made.text), "nobody closes the block from inside"


def test_days_have_one_line_and_every_message_its_position() -> None:
    passages = [
        RecallHit(
            conversation="trip",
            position=number,
            message=Message("user", text, created_at=START + day),
            score=1,
        )
        for number, text, day in (
            (31, "Ferry", timedelta(days=2)),
            (4, "Boat\nand train", timedelta()),
            (3, "Hotel", timedelta()),
        )
    ]
    lines = render_recall(passages, 500, COUNTER).text.splitlines()
    assert lines[2:-1] == [
        "2024-05-03, conversation trip",
        "[31] User: Ferry",
        "2024-05-01, conversation trip",
        "[3] User: Hotel",
        "[4] User: Boat",
        "  and train",
    ]
    assert (
        "2024-05-01" in render_recall(passages, 500, COUNTER, with_conversation_names=False).text.splitlines()
    )


def test_a_huge_message_is_cut_in_the_middle_and_says_so() -> None:
    text = "begin " + "x " * 90_000 + " end"
    huge = RecallHit(conversation="c", position=7, message=Message("user", text), score=1)
    made = render_recall([huge], 4000, COUNTER)
    assert "begin" in made.text
    assert made.text.rstrip().splitlines()[-2].endswith(" end")
    assert "characters" in made.text
    assert made.tokens < MAX_MESSAGE_TOKENS + 80


# -- from memory --------------------------------------------------------------------------------------


async def test_the_answer_to_a_question_is_recalled_although_it_shares_no_word(memory: Memory) -> None:
    await talk(
        memory, *filler(30), "Which colour did you pick for the kitchen?", "The sage one.", *filler(30)
    )
    found = await recall(
        memory, "ana", "What colour will the kitchen be?", conversation="trip", max_tokens=200
    )
    assert [one.message.text for one in found.passages][:2] == [
        "Which colour did you pick for the kitchen?",
        "The sage one.",
    ]
    assert "[32] Assistant: The sage one." in found.text
    assert found.tokens <= 200


async def test_what_is_shown_already_is_not_recalled_and_does_not_use_up_the_search(memory: Memory) -> None:
    await talk(memory, "the museum of Faro", *filler(20), *["museum of Faro museum"] * 60)
    shown = {"trip": range(22, 82)}
    found = await positions(memory, "museum of Faro", conversation="trip", exclude=shown)
    assert found[:3] == [1, 2, 3]
    assert not set(found) & set(shown["trip"])


async def test_a_question_that_says_nothing_recalls_nothing(memory: Memory) -> None:
    await talk(memory, "what is the one that you said", *filler(10))
    for query in ("", "what is it?", "the", "zebra"):
        found = await recall(memory, "ana", query)
        assert (found.passages, found.text, found.tokens) == ((), "", 0)


async def test_what_shares_only_a_common_word_comes_after_what_fits(memory: Memory) -> None:
    texts = [*filler(40), "The aquarium of Setubal opens at nine in any weather", *filler(40)]
    await talk(memory, *texts)
    found = await positions(memory, "aquarium Setubal weather", conversation="trip", max_tokens=2000)
    assert 41 in found[:3]
    small = await positions(memory, "aquarium Setubal weather", conversation="trip", max_tokens=110)
    assert 41 in small


async def test_the_answer_in_other_words_is_recalled(memory: Memory) -> None:
    said = {
        "What pet do we have?": "We brought home a greyhound puppy, a clumsy dog.",
        "Which instrument did Mia take up?": "Mia plays the cello now.",
        "What did you buy in Porto?": "In Porto I bought a lamp.",
        "What was her profession?": "Her job was to mend clocks.",
    }
    for text in said.values():
        await talk(memory, *filler(10), text, *filler(9))
    for question, text in said.items():
        found = await recall(memory, "ana", question, conversation="trip", max_tokens=150)
        assert text in [one.message.text for one in found.passages], question


async def test_the_newer_of_two_statements_about_the_same_thing_stands_first(memory: Memory) -> None:
    await talk(memory, "The rent is 900 euros.", *filler(30), "The rent is 950 euros.", *filler(30))
    found = await positions(memory, "How much is the rent?", conversation="trip", max_tokens=300)
    assert found.index(32) < found.index(1)


async def test_what_was_said_on_the_days_that_a_question_names_goes_first(memory: Memory) -> None:
    for day, text in (
        (3, "The boiler failed."),
        (40, "The boiler failed again."),
        (80, "The boiler failed."),
    ):
        message = at(day, text, day)
        await memory.add_message("ana", "house", message)
        for number in range(12):
            await memory.add_message(
                "ana", "house", at(day, f"It rained on street {number}.", day + 1000 + number)
            )
    found = await recall(memory, "ana", "What failed in June?", conversation="house", max_tokens=120)
    assert found.passages[0].message.text == "The boiler failed again."
    # The newest message is of 20 July.
    found = await recall(memory, "ana", "What failed six weeks ago?", conversation="house", max_tokens=120)
    assert found.passages[0].message.text == "The boiler failed again."


@pytest.mark.parametrize("tokens", [300, 1024, 3000])
async def test_the_budget_is_filled_while_there_is_something_around_what_was_found(
    memory: Memory, tokens: int
) -> None:
    texts = [f"On day {number} we spoke of the {word} for a while." for number, word in enumerate(WORDS * 60)]
    await talk(memory, *texts)
    found = await recall(memory, "ana", "museum", conversation="trip", max_tokens=tokens)
    assert 0.93 * tokens <= found.tokens <= tokens


async def test_a_conversation_that_is_too_long_for_an_index_is_searched_in_its_store() -> None:
    async with Memory() as memory:
        few = [{"role": "user", "content": f"Rain {number}."} for number in range(MAX_INDEXED_MESSAGES)]
        await memory.add_messages("ana", "trip", [*few[:50], {"role": "user", "content": "Museum of Faro"}])
        await memory.add_messages("ana", "trip", few)
        assert await index_conversation(memory, "ana", "trip") is None
        found = await positions(memory, "Which museum?", conversation="trip", max_tokens=100)
        assert 51 in found


@settings(max_examples=20)
@given(st.lists(st.lists(st.sampled_from(["museum", "ferry?", "hotel", "rain"]), max_size=6), max_size=8))
def test_an_index_that_grew_gives_what_a_new_one_gives(batches: list[list[str]]) -> None:
    async def run() -> None:
        store = InProcessStore()
        old, new, number = Memory(store=store), Memory(store=store), 0
        for batch in batches:
            for word in batch:
                number += 1
                await old.add_message("ana", "trip", at(number // 5, f"the {word} {number}", number))
            grown = await recall(old, "ana", "museum ferry", conversation="trip", max_tokens=200)
            again = await recall(old, "ana", "museum ferry", conversation="trip", max_tokens=200)
            assert grown == again
        assert await recall(new, "ana", "museum ferry", conversation="trip", max_tokens=200) == await recall(
            old, "ana", "museum ferry", conversation="trip", max_tokens=200
        )

    anyio.run(run)


async def test_what_another_memory_adds_or_deletes_is_seen_by_the_next_recall(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with Memory(url) as ours, Memory(url) as theirs:
        await talk(ours, *filler(5), "The museum of Faro", *filler(5))
        assert "Faro" in (await recall(ours, "ana", "museum", conversation="trip")).text
        await theirs.add_message("ana", "trip", at(9, "The museum of Riga", 99))
        assert "Riga" in (await recall(ours, "ana", "museum", conversation="trip")).text
        await theirs.delete_message("ana", "trip", "m6")
        found = await recall(ours, "ana", "museum", conversation="trip")
        assert "Riga" in found.text
        assert "Faro" not in found.text


async def test_only_one_conversation_or_all_of_the_scope_are_searched_and_never_another_scope(
    memory: Memory,
) -> None:
    await talk(memory, "museum in Faro", *filler(5))
    await talk(memory, "museum in Porto", *filler(5), conversation="work")
    await talk(memory, "museum in secret", *filler(5), scope="bob")
    found = await recall(memory, "ana", "museum", conversation="work")
    assert {one.conversation for one in found.passages} == {"work"}
    both = await recall(memory, "ana", "museum")
    assert {one.conversation for one in both.passages} == {"trip", "work"}
    assert "conversation work" in both.text
    assert "secret" not in both.text
    assert not (await recall(memory.for_agent("other"), "ana", "museum")).text


async def test_deleted_messages_are_neither_found_nor_brought_along(memory: Memory) -> None:
    await talk(memory, *filler(12), "Which hotel in Riga?", "Hotel secret.", *filler(12))
    await memory.delete_message("ana", "trip", "m14")
    found = await recall(memory, "ana", "hotel Riga", conversation="trip")
    assert 13 in [one.position for one in found.passages]
    assert "secret" not in found.text
    await memory.delete_message("ana", "trip", "m13")
    assert "Riga" not in (await recall(memory, "ana", "hotel Riga", conversation="trip")).text


async def test_a_budget_below_one_is_refused(memory: Memory) -> None:
    for tokens in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="max_tokens"):
            await recall(memory, "ana", "museum", max_tokens=tokens)  # type: ignore[arg-type]


async def test_what_to_leave_out_is_named_by_conversation(memory: Memory) -> None:
    for wrong in ([1, 2], {"trip": 1}):
        with pytest.raises(TypeError, match="exclude must map conversations"):
            await recall(memory, "ana", "museum", exclude=wrong)  # type: ignore[arg-type]


async def test_many_places_are_read_in_one_step_and_none_that_is_not_meant(memory: Memory) -> None:
    await talk(memory, "one", "two", "three")
    await talk(memory, "four", conversation='it\'s a "plan"')
    await talk(memory, "secret", scope="bob", conversation="other")
    await memory.for_agent("helper").append("ana", "own", {"role": "user", "content": "secret"})
    await memory.delete_message("ana", "trip", "m2")
    wanted = [("trip", at) for at in (3, 1, 2, 9, 0, -1)]
    wanted += [('it\'s a "plan"', 1), ("other", 1), ("own", 1), ("unknown", 1)]
    store = memory.store
    found = await store.read_indexed("", "ana", wanted)
    assert sorted((one.conversation, one.position, one.message.text) for one in found) == [
        ('it\'s a "plan"', 1, "four"),
        ("trip", 1, "one"),
        ("trip", 3, "three"),
    ]
    assert list(await store.read_indexed("", "ana", [])) == []


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from(["museum", "ferry", "hotel"])
        ),
        max_size=30,
    ),
    st.sampled_from([None, "x", "y"]),
    st.integers(20, 400),
)
def test_recall_stays_in_its_scope_its_conversation_and_its_budget(
    moves: list[tuple[str, str, str]], conversation: str | None, budget: int
) -> None:
    async def run() -> None:
        async with Memory() as memory:
            for number, (scope, name, word) in enumerate(moves):
                await memory.add_message(scope, name, at(0, f"{word} of {scope} {name}", number))
            found = await recall(memory, "a", "museum hotel", conversation=conversation, max_tokens=budget)
            assert found.tokens <= budget
            for one in found.passages:
                assert " of a " in one.message.text
                assert conversation in (None, one.conversation)
                assert one.message.text.endswith(one.conversation)

    anyio.run(run)


# -- the loop, and the corpus -------------------------------------------------------------------------


@pytest.fixture
async def long_talk(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as memory:
        corpus = recall_corpus.make()
        await memory.add_messages(figures.SCOPE, figures.TALK, corpus.messages[:2000])
        yield memory


def test_the_corpus_is_the_one_that_was_measured() -> None:
    corpus = recall_corpus.make()
    assert corpus.digest == figures.DIGEST
    assert len(corpus.messages) >= 3000
    assert len(corpus.questions) >= 300
    several = sum(len(question.evidence) > 1 for question in corpus.questions)
    assert 0.3 <= several / len(corpus.questions) <= 0.4
    known = {message["id"] for message in corpus.messages}
    assert all(set(question.evidence) <= known for question in corpus.questions)


async def test_more_evidence_is_recalled_than_plain_search_finds(long_talk: Memory) -> None:
    corpus = recall_corpus.make()
    ways = figures.Ways(long_talk, corpus)
    early = {message["id"] for message in corpus.messages[:2000]}
    questions = [one for one in corpus.questions if set(one.evidence) <= early][:40]
    recalled = sum([set(one.evidence) <= await ways.recall(one, 2000) for one in questions])
    searched = sum([set(one.evidence) <= await ways.bm25(one, 2000) for one in questions])
    assert len(questions) == 40
    assert recalled >= searched + 4, "ten points"


# -- other forms of words, and meaning ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Herr Müller hat die Lieferantenrechnung bezahlt.", "Was war mit der Rechnung?"),
        ("Die Häuser am Hafen sind verkauft.", "Welches Haus ist verkauft worden und von wem?"),
        ("حجزنا الفندق قرب الميناء", "فندق"),
        ("Zadzwoń do Łukasza w sprawie umowy.", "Lukasza"),
    ],
)
async def test_other_forms_of_words_are_recalled_too(memory: Memory, said: str, asked: str) -> None:
    await talk(memory, *filler(5), said, *filler(5))
    found = await recall(memory, "ana", asked, conversation="trip", max_tokens=300)
    assert found.passages
    assert max(found.passages, key=lambda one: one.score).message.text == said


def embed_animals(texts: list[str]) -> list[list[float]]:
    """A vector says how many animals and how many other words a text has."""
    animals = ("hound", "beagle", "puppy", "pets")
    return [[sum(animal in text for animal in animals) + 0.01, 1.0] for text in texts]


@pytest.mark.parametrize("conversation", ["trip", None])
async def test_what_means_the_same_is_recalled_here_and_across(
    conversation: str | None,
) -> None:
    async with Memory(embedder=embed_animals, embedder_timeout=30) as memory:
        await talk(memory, *filler(20), "Rex is a beagle, still a puppy.", *filler(20))
        await memory.embed_messages("ana")
        found = await recall(memory, "ana", "hound", conversation=conversation, max_tokens=300)
        best = max(found.passages, key=lambda one: one.score)
        assert best.message.text == "Rex is a beagle, still a puppy."


async def test_a_recall_explains_each_message_by_the_parts_of_its_score() -> None:
    async with Memory() as memory:
        said = [
            ("user", "Always name the price when I ask about hotels."),
            ("assistant", "Noted. " + "I can say much more about that and other things. " * 20),
            *(("user", f"It rained on day {day}.") for day in range(20)),
            ("user", "The kitchen will be sage."),
            ("assistant", "A calm colour. " + "I can say much more about that and other things. " * 20),
        ]
        for role, text in said:
            await memory.append("ana", "trip", {"role": role, "content": text})
        asked = "How should I light the kitchen?"
        found = await recall(memory, "ana", asked, conversation="trip", explain=True)
        plain = await recall(memory, "ana", asked, conversation="trip")
    by_position = {one.position: one for one in found.passages}
    kinds = {at: [reason.kind for reason in one.reasons] for at, one in by_position.items()}
    assert kinds[23] == ["words", "neighbour"]
    assert by_position[23].reasons[0].words == ("kitchen",)
    assert kinds[24] == ["neighbour"]
    assert kinds[1] == ["rule"], "no word in common"
    for one in found.passages:
        if one.reasons[0].kind != "room":
            assert sum(reason.score for reason in one.reasons) == pytest.approx(one.score)
    assert found.text == plain.text
    assert not any(one.reasons for one in plain.passages)


async def test_a_recall_explains_what_lowers_a_score() -> None:
    async with Memory() as memory:
        said = [
            ("user", "The kitchen will be sage."),
            ("assistant", "Sage is a calm colour. " + "I can say much more about it. " * 20),
            ("user", "Is calm the word?"),
        ]
        for role, text in said:
            await memory.append("ana", "trip", {"role": role, "content": text})
        found = await recall(memory, "ana", "a calm colour", conversation="trip", explain=True)
    scores = {one.position: {reason.kind: reason.score for reason in one.reasons} for one in found.passages}
    assert scores[2]["words"] > 0 > scores[2]["role"]
    assert scores[3]["words"] > 0 > scores[3]["question"]
    for one in found.passages:
        assert sum(reason.score for reason in one.reasons) == pytest.approx(one.score)


async def test_a_rule_is_no_answer_to_a_question_about_what_was_said() -> None:
    async with Memory() as memory:
        for text in ("Always name the price when I ask about hotels.", "The kitchen will be sage."):
            await memory.append("ana", "trip", {"role": "user", "content": text})
            await memory.append("ana", "trip", {"role": "assistant", "content": "Good, I see. " * 20})
        for question, kinds in (
            ("How should I paint the kitchen?", {"rule"}),
            ("Was the kitchen sage?", set()),
        ):
            found = await recall(memory, "ana", question, conversation="trip", explain=True)
            of_rule = [one.reasons for one in found.passages if one.position == 1]
            assert {reason.kind for some in of_rule for reason in some} & {"rule"} == kinds


async def name_two_speakers(memory: Memory, *, before_the_text: bool) -> None:
    for number, (name, text) in enumerate(
        [
            ("Ben", "I want to cook lasagna."),
            ("Ana", "I want to cook soup."),
            ("Ben", "And cake, I want to cook that too."),
            ("Ana", "Good."),
        ],
        1,
    ):
        fields = {} if before_the_text else {"name": name}
        said = f"{name}: {text}" if before_the_text else text
        await memory.add_message("ana", "trip", at(number, said, number, **fields))


@pytest.mark.parametrize("before_the_text", [False, True])
async def test_what_a_named_speaker_said_comes_before_what_others_said(
    memory: Memory, before_the_text: bool
) -> None:
    await name_two_speakers(memory, before_the_text=before_the_text)
    for name, theirs, others in (("Ana", 2, 1), ("Ben", 1, 2)):
        found = await recall(
            memory, "ana", f"What does {name} want to cook?", conversation="trip", explain=True
        )
        scores = {one.position: one for one in found.passages}
        assert scores[theirs].score > scores[others].score
        lowered = {reason.kind: reason.score for reason in scores[others].reasons}
        assert lowered["speaker"] < 0
        assert sum(lowered.values()) == pytest.approx(scores[others].score)


async def test_a_question_that_names_all_speakers_or_none_lowers_nothing(memory: Memory) -> None:
    await name_two_speakers(memory, before_the_text=True)
    for question in ("What do Ana and Ben want to cook?", "Who wants to cook?"):
        found = await recall(memory, "ana", question, conversation="trip", explain=True)
        assert found.passages
        assert "speaker" not in {reason.kind for one in found.passages for reason in one.reasons}


async def test_a_text_that_begins_with_who_said_it_has_no_role_before_it(memory: Memory) -> None:
    await name_two_speakers(memory, before_the_text=True)
    # Only somebody's word for it.
    await memory.add_message("ana", "trip", at(5, "Assistant: cook lasagna for all.", 5))
    found = await recall(memory, "ana", "What does Ben want to cook?", conversation="trip")
    assert "[1] Ben: I want to cook lasagna.\n" in found.text
    assert "[5] User: Assistant: cook lasagna for all.\n" in found.text


async def test_a_word_before_a_colon_is_no_name_where_most_messages_have_none(memory: Memory) -> None:
    said = ["Note: the hotel is full.", "The note is on the table.", "I am in the hotel.", "It rains."]
    for number, text in enumerate(said, 1):
        await memory.add_message("ana", "trip", at(number, text, number))
    found = await recall(memory, "ana", "Which note?", conversation="trip", explain=True)
    assert "User: Note: the hotel is full." in found.text
    assert {1, 2} <= {one.position for one in found.passages}
    assert "speaker" not in {reason.kind for one in found.passages for reason in one.reasons}


def test_what_comes_after_the_best_has_one_heading_for_each_day() -> None:
    hits = []
    for number in range(1, 61):
        message = Message("user", f"We talked about the weather of day {number}, and of much else besides.")
        # The days of neighbours differ, and so do those of scores.
        dated = dataclasses.replace(message, created_at=START + timedelta(days=number % 5))
        hits.append(RecallHit(conversation="trip", position=3 * number, message=dated, score=1 + number % 7))
    found = render_recall(hits, 2_000, COUNTER, with_conversation_names=False)
    lines = [line for line in found.text.splitlines() if line.startswith("2024-05-")]
    days = {one.message.created_at.date() for one in found.passages}
    # Those of the best are before them; of the rest each day once, the newest first.
    assert lines[-len(days) :] == [day.isoformat() for day in sorted(days, reverse=True)]


async def test_a_text_that_was_said_again_takes_no_room_twice(memory: Memory) -> None:
    asked = "Please run the tests of the museum and tell me whether they pass."
    await talk(memory, asked, "Yes.", asked, "Yes.", asked, "Yes.", "The museum is open on Mondays.")
    found = await recall(memory, "ana", "the tests of the museum", conversation="trip")
    assert found.text.count("run the tests") == 1
    # The newest, with its answer; a short answer is no copy of another.
    assert {5, 6, 7} <= {one.position for one in found.passages}
    assert found.text.count("Yes.") == 3
