"""Which facts a summarizer is shown beside a batch: those that the batch may change, in few tokens."""

from __future__ import annotations

from summary_models import NOON

from autonomy_ctx import Message
from autonomy_ctx.compaction.calls import CachedRequest
from autonomy_ctx.compaction.facts import MAX_LISTED_CHARACTERS, MIN_LISTED_TOKENS, listed_facts
from autonomy_ctx.compaction.prompt import cached_batch_prompt
from autonomy_ctx.messages.fact import CUT_MARK, Fact, FactKind, fact_line
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.models.call import Prompt
from autonomy_ctx.tokens import TokenCounter

COUNTER = TokenCounter()
LONG_TEXT = "the hall is ours and so is the garden behind it " * 8


def make_fact(number: int, text: str, kind: FactKind = "value") -> Fact:
    return Fact(id=f"F{number}", kind=kind, text=text.strip(), position=number, created_at=NOON)


def many_facts(*first: Fact) -> list[Fact]:
    """These, and more newer ones of other subjects than there is room for."""
    return [*first, *(make_fact(number, f"courier Tomas{number} brings parcels") for number in range(50, 90))]


def listed(facts: list[Fact], source: str) -> list[str]:
    return listed_facts(facts, source, 0, COUNTER)


def test_few_facts_are_all_listed_in_their_order() -> None:
    facts = [make_fact(1, "the hall costs 400 euros"), make_fact(2, "Ana sings")]
    assert listed(facts, "User: hello") == [fact_line(fact) for fact in facts]


def test_a_fact_that_is_spoken_of_goes_before_newer_ones() -> None:
    hall = make_fact(1, "hall rented", "open")
    assert fact_line(hall) in listed(many_facts(hall), "User: they have rented us the hall")
    assert fact_line(hall) not in listed(many_facts(hall), "User: the parcels of the courier")


def test_a_short_fact_of_the_subject_goes_before_long_ones_that_share_more_common_words() -> None:
    hall = make_fact(1, "hall rented", "open")
    wordy = [
        make_fact(number, f"when we meet on the way to town we say which of us drives car {number}")
        for number in range(2, 40)
    ]
    said = "User: hall rented, we say so when we meet on the way"
    assert fact_line(hall) in listed([hall, *wordy], said)


def test_a_value_may_change_where_its_own_number_is_not_said() -> None:
    budget = make_fact(1, "budget 18,000")
    assert fact_line(budget) in listed(many_facts(budget), "User: my parents help, 21,500 is fine")


def test_of_a_long_fact_the_beginning_is_listed() -> None:
    (line,) = listed([make_fact(1, LONG_TEXT)], "User: the hall")
    assert len(line) <= MAX_LISTED_CHARACTERS
    assert line.endswith(CUT_MARK)
    assert fact_line(make_fact(1, LONG_TEXT)).startswith(line.removesuffix(CUT_MARK))


def test_no_more_is_listed_than_there_is_room_for() -> None:
    lines = listed(many_facts(), "User: hello")
    assert lines
    assert COUNTER.count_text("\n".join(lines)) <= MIN_LISTED_TOKENS


def test_a_long_fact_that_the_context_shows_is_not_listed_again() -> None:
    told = Message("user", "Is the hall ours?", id="m1")
    fact = make_fact(1, LONG_TEXT)

    def asked(shown: str) -> str:
        context = [Summary([], facts=shown), told] if shown else [told]
        request = CachedRequest(messages=context, tokens=9, tools=(), breakpoints=(), generation=0, at=0.0)
        lines = listed([fact], told.text)
        prompt = cached_batch_prompt(request, [told], cap=100, instructions=None, facts=lines)
        assert isinstance(prompt, Prompt)
        return prompt.messages[0]["content"]

    assert "F1 value" in asked("")
    assert "F1 value" not in asked(f"[What holds now]\n{fact_line(fact)}")
