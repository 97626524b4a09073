"""`CostModel`: a summary is due when the messages that it replaces have cost as much as it will."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import ContextSummaryConfig, Message
from autonomy_ctx.compaction.config import resolve_settings
from autonomy_ctx.compaction.cost_model import CostModel
from autonomy_ctx.formats.model_table import DEFAULT_PRICE, MODELS, CacheRule, Price, PriceTier
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.models.catalog import PRICES
from autonomy_ctx.stores import Entry

START = datetime(2026, 5, 4, 9, tzinfo=UTC)
PRICE = Price(input=4, cached_input=0.2, cache_write=5, long_cache_write=8, output=20)
TOKENS = 120


class NamedModel:
    """A model of which only the name is known."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete_chat(self, messages: object, stream: bool = False) -> str:
        return ""


def costs(price: Price = PRICE, **options: object) -> CostModel:
    rule = CacheRule(match="marks", marks=4, min_tokens=512, seconds=300, long_seconds=3600)
    model = CostModel(
        price=price, writer=price, cache=rule, shares_prefix=True, floor=6, size=1536, other_tokens=700
    )
    return replace(model, **options)  # type: ignore[arg-type]


def count(message: Message) -> int:
    return TOKENS


def talk(turns: int, *, gap: float = 30.0, calls: int = 0, first: int = 1) -> list[Entry]:
    """Turns of a question, calls with their results, and an answer; the last one waits for its answer."""
    time, messages = START, list[Message]()
    for number in range(turns):
        time += timedelta(seconds=gap)
        roles = ["user", *(["assistant", "tool"] * calls), "assistant"]
        messages += [
            Message(role, f"{number}", tool_call_id="c" if role == "tool" else None, created_at=time)
            for role in roles
        ]
    return [Entry(first + at, message) for at, message in enumerate(messages[:-1])]


def first_due(model: CostModel, *, summary_tokens: int = 0, most: int = 400, **options: float) -> int:
    """The number of turns after which a summary is due; `most` if it never is."""
    for turns in range(1, most):
        if model.is_due(talk(turns, **options), summary_tokens, count):  # type: ignore[arg-type]
            return turns
    return most


# -- when ---------------------------------------------------------------------------------------------


def test_a_dear_cache_makes_summaries_more_frequent() -> None:
    found = [
        first_due(costs(replace(PRICE, cached_input=share * PRICE.input)))
        for share in (0.025, 0.05, 0.1, 0.5, 1.0)
    ]
    assert found == sorted(found, reverse=True)
    assert all(one > other for one, other in pairwise(found[:4]))


def test_a_cache_that_is_read_for_nothing_makes_no_summary_due() -> None:
    assert first_due(costs(replace(PRICE, cached_input=0)), most=120) == 120


def test_short_messages_are_summarized_after_more_of_them() -> None:
    model = costs()
    assert not model.is_due(talk(first_due(model)), 0, lambda message: TOKENS // 2)


def _size_in(known: Mapping[int, int], message: Message) -> int:
    return known.get(id(message), 40)


def test_messages_that_are_shown_in_part_to_the_writer_are_summarized_sooner() -> None:
    """The results of a turn have 12,000 tokens: in one, the last, which is carried least; or in four."""
    model, found = costs(shares_prefix=False), list[int]()
    for sizes in ((0, 0, 0, 12_000), (3_000, 3_000, 3_000, 3_000)):
        for turns in range(1, 100):
            entries = talk(turns, calls=4)
            tools = [entry.message for entry in entries if entry.message.role is ChatRole.TOOL]
            size_of = {id(message): sizes[at % 4] for at, message in enumerate(tools)}
            if model.is_due(entries, 0, partial(_size_in, size_of)):
                found.append(turns)
                break
    assert found[0] < found[1]


def test_the_floor_is_never_summarized() -> None:
    assert not costs().is_due(talk(3), 0, lambda message: 100_000)


def test_the_first_summary_has_to_pay_for_more_than_a_later_one() -> None:
    model = costs()
    usual = first_due(model)
    later = next(turns for turns in range(1, 400) if model.is_due(talk(turns, first=2_000), 0, count))
    assert later < usual


def test_the_cost_is_that_of_a_walk_over_the_requests() -> None:
    """By hand, for chat turns of two messages: what is saved in each request, and what the summary costs."""
    model, turns = costs(), first_due(costs())
    for number, is_due in ((turns - 1, False), (turns, True)):
        spent = 0.0
        for request in range(1, number + 1):
            replaced = max(2 * request - 1 - 6, 0) * TOKENS
            spent += max(replaced - model.added_tokens(replaced, 0), 0) * 0.2 if replaced else 0
        saved = replaced - model.added_tokens(replaced, 0)
        total = 700 + (2 * number - 1) * TOKENS
        spent += saved * 0.2 / 2
        written = model.added_tokens(replaced, 0) - 44
        summary = total * 0.2 + 460 * 5 + written * 20
        swap = 700 * 0.2 + (total - saved - 700) * 5 - total * 0.2
        assert (spent >= 1.8 * (summary + swap)) is is_due


# -- idle gaps ------------------------------------------------------------------------------------------


def test_before_the_cache_expires_a_summary_pays_sooner() -> None:
    model = costs(cache=replace(costs().cache, long_seconds=None))
    soonest = next(turns for turns in range(1, 400) if model.is_due(talk(turns), 0, count, expires=True))
    assert soonest < first_due(model) // 2


def test_requests_after_a_pause_count_at_the_price_of_writing() -> None:
    model = costs(cache=replace(costs().cache, long_seconds=None))
    assert first_due(model, gap=301.0) < first_due(model, gap=299.0)


def test_pauses_within_the_longer_life_call_for_it() -> None:
    model = costs()
    assert model.prefers_long_life(talk(20, gap=30), 0, count) is None
    assert model.prefers_long_life(talk(20, gap=900), 0, count) is True
    assert model.prefers_long_life(talk(20, gap=7200), 0, count) is False
    assert costs(cache=CacheRule()).prefers_long_life(talk(20, gap=900), 0, count) is None


def test_the_first_pause_calls_for_the_longer_life_before_a_prefix_is_long_enough_for_the_cache() -> None:
    entries = talk(2, gap=900)
    assert costs().cache.min_tokens > TOKENS + 200
    assert costs(other_tokens=200).prefers_long_life(entries, 0, count) is True


def test_a_single_pause_does_not_pay_for_the_longer_life() -> None:
    entries = talk(40, gap=30)
    late = [
        Entry(one.position, replace(one.message, created_at=one.message.created_at + timedelta(minutes=10)))
        if one.position > 4
        else one
        for one in entries
    ]
    assert costs().prefers_long_life(late, 0, count) is False


# -- the cache's minimum, and tiers ------------------------------------------------------------------------


def test_a_window_stays_long_enough_for_the_cache() -> None:
    rule = replace(costs().cache, min_tokens=4_096)
    model, entries = costs(cache=rule), talk(60)
    cut = model.move_cut(entries, len(entries) - 6, 0, count)
    assert 700 + TOKENS * (len(entries) - cut) >= 4_096 > 700 + TOKENS * (len(entries) - cut - 2)
    assert costs().move_cut(entries, len(entries) - 6, 0, count) == len(entries) - 6


def test_a_context_that_no_cache_takes_soon_is_kept_short() -> None:
    rule = replace(costs().cache, min_tokens=100_000)
    model, entries = costs(cache=rule), talk(20)
    assert model.move_cut(entries, len(entries) - 6, 0, count) == len(entries) - 6
    assert first_due(model) < first_due(costs())


def test_a_tier_is_not_passed_if_a_summary_can_prevent_it() -> None:
    tier = PriceTier(above=20_000, input=5, output=5)
    model = costs(replace(PRICE, cached_input=0.001, tier=tier))
    turns = first_due(model)
    # The next turn is still sent with all messages, and the one after it is not above.
    assert 700 + TOKENS * (2 * turns - 1) <= 20_000 - TOKENS
    assert 700 + TOKENS * (2 * turns + 5) > 20_000
    assert first_due(costs(replace(PRICE, cached_input=0.001)), most=turns + 20) == turns + 20


def test_a_turn_that_began_before_the_window_has_an_answer() -> None:
    """After a summary inside a long turn, no message of a user is left in the window."""
    tier = PriceTier(above=TOKENS * 60, input=5, output=5)
    model = costs(replace(PRICE, tier=tier), other_tokens=0)
    loop = [entry for entry in talk(1, calls=40) if entry.message.role is not ChatRole.USER]
    assert model.is_due(loop[:20], 0, count) is False
    assert model.is_due(loop, 0, count) is True


def test_inside_a_loop_it_waits_for_the_usual_number_of_requests() -> None:
    model = costs()
    whole = next(
        talk(turns, calls=4) for turns in range(1, 99) if model.is_due(talk(turns, calls=4), 0, count)
    )
    # The same messages without the last two calls of the turn.
    assert not model.is_due(whole[:-4], 0, count)
    assert model.is_due(whole[:-4], 0, count, expires=True)


# -- always -----------------------------------------------------------------------------------------------


def prices() -> Iterator[Price]:
    for name in ("gpt-6.1-sol", "claude-fable-5-2", "claude-haiku-5-5", "gemini-3.8-flash", "gpt-4o"):
        found = resolve_settings(ContextSummaryConfig(auto=True), reader=NamedModel(name)).costs
        assert found is not None
        yield found.price


@given(
    turns=st.integers(0, 60),
    skipped=st.integers(0, 300),
    calls=st.integers(0, 4),
    gap=st.sampled_from([1.0, 400.0, 4_000.0, 90_000.0]),
    tokens=st.integers(1, 3_000),
    summary_tokens=st.integers(0, 2_000),
    expires=st.booleans(),
    price=st.sampled_from([*prices(), Price(input=0, output=0), Price(input=1, output=1)]),
)
def test_any_conversation_has_an_answer_and_a_safe_cut(
    turns: int,
    skipped: int,
    calls: int,
    gap: float,
    tokens: int,
    summary_tokens: int,
    expires: bool,
    price: Price,
) -> None:
    # A window begins anywhere: a summary may end inside a turn.
    model, entries = costs(price), talk(turns, calls=calls, gap=gap)[skipped:]

    def same(message: Message) -> int:
        return tokens

    assert model.is_due(entries, summary_tokens, same, expires=expires) in (True, False)
    assert model.prefers_long_life(entries, summary_tokens, same) in (True, False, None)
    if len(entries) > 6:
        cut = model.move_cut(entries, len(entries) - 6, summary_tokens, same)
        assert 0 <= cut <= len(entries) - 6


def test_a_model_without_a_price_is_taken_to_have_the_usual_one() -> None:
    def found(price: Price | None, **options: object) -> CostModel | None:
        if price is not None:
            PRICES["my-own"] = price
        try:
            config = ContextSummaryConfig(auto=True, **options)  # type: ignore[arg-type]
            return resolve_settings(config, reader=NamedModel("my-own")).costs
        finally:
            MODELS.pop("my-own", None)

    for price in (None, Price(input=0, output=0)):
        model = found(price, model=NamedModel("gpt-5-mini"))
        assert model is not None
        assert (model.price, model.writer) == (DEFAULT_PRICE, DEFAULT_PRICE)
    known = found(Price(input=2, output=3), model=NamedModel("gpt-5-mini"))
    assert known is not None
    assert (known.price.input, known.writer.input) == (2, 0.25)
    # A digest is written without a model.
    digest = found(Price(input=2, output=3))
    assert digest is not None
    assert digest.writer == Price(input=0, output=0)
