"""A replay measures what an agent would have sent, turn by turn, and recommends a setting."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from replay.recordings import recorded

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection, SystemInstructionsSection
from autonomy_ctx.replay import (
    RecordedConversation,
    ReplayReport,
    ReplayRun,
    ReplaySetting,
    SettingGrid,
    TurnMeasure,
    make_grid,
    replay,
)
from autonomy_ctx.replay.recommendation import recommend
from autonomy_ctx.replay.retention import ConversationIndex, RetentionMeter
from autonomy_ctx.tokens import Price, price_of


def only(**numbers: Any) -> SettingGrid:
    return SettingGrid(settings=(ReplaySetting(**numbers),), skipped=())


# -- settings ---------------------------------------------------------------------------------------------


def test_wrong_combinations_are_left_out_with_a_sentence() -> None:
    grid = make_grid(floors=(5, 20), ceilings=(20, 40))
    assert [setting.label for setting in grid.settings] == ["5/20", "5/40", "20/40"]
    assert grid.skipped == ("floor (20) must be less than ceiling (20); half of it is usual, here 10",)


def test_a_grid_without_a_valid_setting_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no setting is left to try: floor \(30\) must be less than"):
        make_grid(floors=(30,), ceilings=(20, 30))
    with pytest.raises(ValueError, match="a list is empty"):
        make_grid(floors=())
    with pytest.raises(ValueError, match="these are 400 settings"):
        make_grid(floors=range(1, 21), ceilings=range(21, 41))


def test_a_setting_says_what_to_write_in_a_program() -> None:
    setting = ReplaySetting(floor=5, ceiling=40, size=512, budget=8000)
    assert setting.label == "5/40, size 512, budget 8,000"
    wanted = 'context_summary={"floor": 5, "ceiling": 40, "size": 512}, max_tokens=8000'
    assert setting.as_argument() == wanted


def definitions(count: int) -> list[dict[str, Any]]:
    words = "What it does, in many words. " * 20
    return [
        {"name": f"read_{number}", "description": words, "inputSchema": {"type": "object"}}
        for number in range(count)
    ]


async def test_tools_on_demand_make_contexts_shorter_and_cost_a_request_each() -> None:
    grid = make_grid(floors=(6,), ceilings=(40,), tool_budgets=(None, 2_000))
    assert [one.label for one in grid.settings] == ["6/40", "6/40, tools 2,000"]
    assert grid.settings[-1].as_argument().endswith(", tool_budget=2000")
    messages: list[dict[str, Any]] = []
    for number in range(6):
        function = {"name": f"read_{number // 2 * 20}", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": f"Read file {number}."},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "Nothing to see."},
            {"role": "assistant", "content": f"File {number} is read."},
        ]
    talk = RecordedConversation(messages)
    report = await replay(talk, grid, tools=definitions(100))
    listed, on_demand = report.runs
    assert on_demand.mean_context < listed.mean_context / 4
    assert report.whole.mean_context == listed.mean_context
    # Two turns call the same tool, and the first of them finds it.
    assert [turn.requests for turn in on_demand.turns] == [3, 2, 3, 2, 3, 2]
    assert [turn.requests for turn in listed.turns] == [2] * 6
    few = await replay(talk, grid, tools=definitions(3))
    assert len({run.cost for run in few.runs}) == 1
    with pytest.raises(ValueError, match="give the definitions"):
        await replay(talk, grid)


async def test_results_as_excerpts_and_lines_make_contexts_shorter() -> None:
    grid = make_grid(floors=(6,), ceilings=(12,), result_tokens=(None, 300), clear_results=(None, 1))
    assert [one.label for one in grid.settings] == [
        "6/12",
        "6/12, cleared after 1",
        "6/12, results 300",
        "6/12, results 300, cleared after 1",
    ]
    assert grid.settings[-1].as_argument() == (
        'context_summary={"floor": 6, "ceiling": 12}, limits={"tool_result_tokens": 300}, '
        "clear_results_after=1"
    )
    rows = "\n".join(f"row {row}: nothing to see" for row in range(300))
    messages: list[dict[str, Any]] = []
    for number in range(12):
        function = {"name": "read", "arguments": f'{{"path": "file-{number}"}}'}
        messages += [
            {"role": "user", "content": f"Read file {number}."},
            {
                "role": "assistant",
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"file {number}\n{rows}"},
            {"role": "assistant", "content": f"File {number} is read."},
        ]
    report = await replay(RecordedConversation(messages, name="files"), grid)
    whole, cleared, excerpts, both = (run.sent_tokens for run in report.runs)
    assert both <= excerpts < whole / 3
    assert cleared < whole


# -- measures ---------------------------------------------------------------------------------------------


async def test_a_replay_shows_what_a_template_composes() -> None:
    """The numbers of a turn are those of the context that the real parts compose there."""
    conversation = recorded(60)
    report = await replay(conversation, only(floor=4, ceiling=10, size=256))
    [run] = report.runs
    memory, section = Memory(), SummarizedHistorySection(None, 4, 10, 256)
    template = ContextTemplate([SystemInstructionsSection(conversation.instructions), section])
    tokens = []
    for turn in conversation.turns():
        largest = 0
        for request in turn.requests:
            await memory.append("ana", "trip", *request.said)
            largest = max(largest, (await template.compose(memory, "ana", "trip")).tokens)
            await section.settled()
        await memory.append("ana", "trip", *turn.rest)
        tokens.append(largest)
    await template.close()
    assert [turn.context_tokens for turn in run.turns] == tokens
    assert max(tokens) < report.whole.largest_context


async def test_the_same_record_gives_the_same_numbers() -> None:
    first, second = [await replay(recorded(25), make_grid(floors=(3, 5), ceilings=(8, 16))) for _ in "ab"]
    assert first.to_dict() == second.to_dict()


async def test_what_was_said_is_found_in_the_summary_or_counted_as_lost() -> None:
    report = await replay(recorded(60), only(floor=2, ceiling=6, size=128))
    [run] = report.runs
    last = run.turns[-1]
    assert last.facts_said == len(report.facts)
    assert any("Never ship anything on Fridays" in fact for fact in report.facts)
    assert not any("Never ship" in fact for fact in run.lost_facts), "a rule outlasts any number of merges"
    assert "ORD-10030" in run.lost_names, "a summary of 128 tokens cannot name 60 orders"
    assert 0 < run.names_share < 1
    assert report.whole.facts_share == report.whole.names_share == 1.0
    assert report.whole.lost_names == ()


def test_what_the_new_question_repeats_is_not_counted_as_kept() -> None:
    first, second = "The door code is KX-7719.", "Is KX-7719 still right?"
    answer = {"role": "assistant", "content": "Noted."}
    conversation = RecordedConversation(
        [{"role": "user", "content": first}, answer, {"role": "user", "content": second}]
    )
    meter, whole = RetentionMeter(ConversationIndex(conversation)), conversation.messages
    assert meter.names_shown(whole, [1, 2, 3], whole, 3) == {"kx-7719"}
    assert meter.names_shown(whole[2:], [3], whole, 3) == set()


async def test_before_the_ceiling_everything_is_shown() -> None:
    report = await replay(recorded(4), only(floor=20, ceiling=40))
    [run] = report.runs
    assert [turn.names_shown for turn in run.turns] == [turn.names_said for turn in run.turns]
    assert run.summaries == 0
    assert run.sent_tokens == report.whole.sent_tokens
    assert run.cost == pytest.approx(report.whole.cost)


async def test_costs_are_those_of_the_price_and_of_the_cache() -> None:
    price = Price(input=10, cached_input=1, output=100)
    report = await replay(recorded(80), only(floor=20, ceiling=60), price=price)
    for run in (report.whole, *report.runs):
        output = sum(turn.output_tokens for turn in run.turns)
        new = run.sent_tokens - run.cached_tokens
        wanted = (new * 10 + run.cached_tokens * 1 + output * 100) / 1e6
        assert run.request_cost == pytest.approx(wanted)
    assert report.whole.cached_share > 0.5
    # Digests cost what a model would have taken for them.
    assert report.runs[0].summary_cost > 0
    assert report.summary_model is None


async def summary_cost(price: Price, *, turns: int = 40, **numbers: int) -> float:
    report = await replay(recorded(turns), only(**{"floor": 20, "ceiling": 60, **numbers}), price=price)
    [run] = report.runs
    assert run.summaries > 0
    return run.summary_cost


async def test_a_summary_is_asked_for_after_the_cached_request_where_that_costs_less() -> None:
    """Each price makes one kind of token visible, and the cheaper way is counted."""
    new_only = Price(input=10, cached_input=0, cache_write=0, output=0)
    assert await summary_cost(new_only) == 0, "all that is summarized was in the request before"
    cached_only = Price(input=1e9, cached_input=1, cache_write=0, output=0)
    report = await replay(recorded(30), only(floor=20, ceiling=60), price=cached_only)
    [run] = report.runs
    before = next(
        one for one, next_one in pairwise(run.turns) if next_one.context_tokens < one.context_tokens
    )
    assert run.summaries == 1
    assert run.summary_cost == pytest.approx(before.context_tokens / 1e6)
    # What is cached is cheaper than new, but it is far more.
    dear = Price(input=10, cached_input=9, output=0)
    alone = Price(input=10, cached_input=10, output=0)
    assert await summary_cost(dear) == pytest.approx(await summary_cost(alone))


async def test_a_summary_of_what_was_not_cached_has_the_full_price() -> None:
    new_only = Price(input=10, cached_input=0, cache_write=0, output=0)
    assert await summary_cost(new_only, floor=2, ceiling=4, turns=3) > 0, "requests too small for a cache"
    assert await summary_cost(new_only, budget=1100, turns=80) > 0, "messages that the budget left out"


async def test_nothing_is_cached_after_a_long_pause() -> None:
    quick = await replay(recorded(60, minutes=1), only(floor=20, ceiling=60))
    slow = await replay(recorded(60, minutes=10), only(floor=20, ceiling=60))
    patient = await replay(recorded(60, minutes=10), only(floor=20, ceiling=60), cache_seconds=3600)
    assert (quick.pauses, slow.pauses, patient.pauses) == (0, 59, 0)
    assert slow.runs[0].cached_tokens < quick.runs[0].cached_tokens / 2
    assert patient.runs[0].cached_tokens == quick.runs[0].cached_tokens
    assert slow.whole.cost > quick.whole.cost


async def test_turns_over_a_limit_are_counted() -> None:
    report = await replay(recorded(60), only(floor=4, ceiling=10, size=256), limit=600)
    for run in (report.whole, *report.runs):
        assert run.turns_over_limit == sum(turn.context_tokens > 600 for turn in run.turns)
    assert report.whole.turns_over_limit > report.runs[0].turns_over_limit
    assert (await replay(recorded(2), only(floor=4, ceiling=10))).limit == 200_000, (
        "the window of the default"
    )


async def test_no_context_passes_its_budget() -> None:
    grid = make_grid(floors=(4,), ceilings=(10, 40), budgets=(700, 300, None))
    report = await replay(recorded(60), grid)
    within = [(run, run.setting.budget) for run in report.runs if run.setting and run.setting.budget]
    assert len(within) == 4
    assert all(run.largest_context <= budget for run, budget in within)
    # Summaries that fit a budget leave little to cut, until it is too small for them.
    assert all(run.turns_cut for run, budget in within if budget == 300)


async def test_a_budget_that_nothing_fits_is_left_out_or_refused() -> None:
    conversation = recorded(6).with_instructions("Be kind. " * 200)
    grid = make_grid(floors=(4,), ceilings=(10,), budgets=(100, None))
    report = await replay(conversation, grid)
    assert [run.label for run in report.runs] == ["4/10"]
    assert any("budget 100" in sentence for sentence in report.skipped)
    with pytest.raises(ValueError, match="no setting is left to compare"):
        await replay(conversation, make_grid(floors=(4,), ceilings=(10,), budgets=(100,)))


async def test_a_model_writes_the_summaries_if_one_is_given() -> None:
    model = ListingModel()
    report = await replay(recorded(40), only(floor=4, ceiling=10), model=model)
    [run] = report.runs
    assert report.summary_model == "listing"
    assert model.calls >= run.summaries > 0
    assert run.failed_summaries == 0


async def test_a_model_that_fails_is_counted_and_the_replay_goes_on() -> None:
    report = await replay(recorded(40), only(floor=4, ceiling=10), model=FailingModel())
    [run] = report.runs
    assert run.failed_summaries > 0
    assert len(run.turns) == 40


class FailingModel:
    """Is never there."""

    name = "failing"

    async def complete_chat(
        self, messages: list[dict[str, Any]], stream: bool = False, **options: Any
    ) -> str:
        raise ConnectionError("no route to the model")


class ListingModel:
    """Writes what it is asked to summarize, cut to a few hundred characters."""

    name = "listing"

    def __init__(self) -> None:
        self.calls = 0

    async def complete_chat(
        self, messages: list[dict[str, Any]], stream: bool = False, **options: Any
    ) -> str:
        self.calls += 1
        return "The user asks where orders are. The assistant says that they arrive in two days."


async def test_progress_goes_from_nothing_to_all() -> None:
    seen: list[tuple[int, int]] = []
    await replay(
        recorded(5),
        make_grid(floors=(4,), ceilings=(10, 20)),
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 10) for done in range(1, 11)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"price": "a-model-of-nobody"}, "no price of 'a-model-of-nobody' is known"),
        ({"limit": 0}, "limit must be >= 1"),
        ({"cache_seconds": -1.0}, "cache_seconds"),
    ],
)
async def test_wrong_arguments_are_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        await replay(recorded(2), **options)


async def test_a_record_without_a_user_has_nothing_to_replay() -> None:
    with pytest.raises(ValueError, match="has no message of a user"):
        await replay(RecordedConversation([{"role": "assistant", "content": "Hello?"}]))


# -- the recommendation -----------------------------------------------------------------------------------


def run_of(
    floor: int,
    ceiling: int,
    *,
    cost: float,
    facts: int,
    names: int = 50,
    context: int = 1000,
    limit: int = 5000,
) -> ReplayRun:
    """A run with one turn of these numbers, of 100 facts and 100 identifiers."""
    turn = TurnMeasure(
        number=1,
        position=1,
        requests=1,
        context_tokens=context,
        context_messages=10,
        sent_tokens=context,
        cached_tokens=0,
        output_tokens=0,
        cost=cost,
        facts_said=100,
        facts_shown=facts,
        names_said=100,
        names_shown=50,
    )
    return ReplayRun(
        setting=ReplaySetting(floor=floor, ceiling=ceiling),
        turns=(turn,),
        limit=5000,
        summaries=0,
        summary_cost=0.0,
        failed_summaries=0,
        lost_facts=(),
        lost_names=(),
    )


def test_the_cheapest_of_those_that_keep_about_as_much_is_recommended() -> None:
    runs = [
        run_of(5, 20, cost=1.0, facts=60),
        run_of(5, 40, cost=2.0, facts=94),
        run_of(10, 40, cost=3.0, facts=95),
    ]
    advice = recommend(runs, run_of(1, 2, cost=8.0, facts=100))
    assert advice.setting == runs[1].setting
    assert advice.reason == (
        "5/40 is the cheapest setting that keeps about as much as the best (10/40): its contexts show 94 % "
        "of the current facts and 50 % of the identifiers. A context has 1,000 tokens on average and at "
        "most 1,000, and the conversation costs $2.00, 75 % less than with its whole history in every "
        "context."
    )
    assert advice.runner_up == runs[2].setting
    assert advice.runner_up_reason == "10/40 costs 50 % more and shows 1 point more of the facts."


def test_a_setting_over_the_limit_is_not_recommended_while_there_is_another() -> None:
    runs = [run_of(5, 20, cost=2.0, facts=50), run_of(5, 80, cost=1.0, facts=100, context=9000)]
    advice = recommend(runs, runs[1])
    assert advice.setting == runs[0].setting
    assert advice.reason.startswith("Only 5/20 has no turn over the limit")
    assert advice.runner_up_reason.endswith("has 1 more turn over the limit.")
    over = [run_of(5, 20, cost=2.0, facts=50, context=9000), runs[1]]
    assert recommend(over, runs[1]).reason.startswith("Every setting has turns over the limit")


def test_one_setting_has_no_runner_up_and_equal_ones_say_so() -> None:
    alone = run_of(5, 20, cost=1.0, facts=90)
    advice = recommend([alone], alone)
    assert (advice.runner_up, advice.runner_up_reason) == (None, "")
    assert "the only setting that was tried" in advice.reason
    equal = [alone, run_of(10, 20, cost=1.0, facts=90)]
    advice = recommend(equal, alone)
    assert "never gets long enough" in advice.reason
    assert advice.runner_up_reason == "10/20 costs and keeps the same."


async def test_a_report_has_every_number_as_json(tmp_path: Any) -> None:
    report = await replay(recorded(12), make_grid(floors=(4,), ceilings=(10, 20)))
    form = report.to_dict()
    assert form["recommendation"]["setting"] == report.recommendation.setting.to_dict()
    assert [one["label"] for one in form["settings"]] == ["4/10", "4/20"]
    assert len(form["settings"][0]["turns"]["context_tokens"]) == 12
    assert all(math.isfinite(number) for number in form["settings"][0]["turns"]["cost"])
    assert isinstance(report, ReplayReport)
    assert price_of(report.price_name) == report.price


# -- auto -------------------------------------------------------------------------------------------------


async def test_auto_is_one_of_the_settings_and_decides_by_the_price_of_the_replay() -> None:
    grid = make_grid(floors=(4,), ceilings=(10,), auto=True)
    [_, auto] = grid.settings
    assert (auto.label, auto.as_argument()) == ("auto", 'context_summary="auto"')
    dear = Price(input=1, cached_input=1, output=5)
    free = Price(input=1, cached_input=0, output=5)
    found = [await replay(recorded(80), grid, price=price) for price in (dear, free)]
    summaries = [report.runs[1].summaries for report in found]
    assert summaries[0] > summaries[1] == 0
    assert found[1].runs[1].cost == pytest.approx(found[1].whole.cost)
