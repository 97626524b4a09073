"""Recommends a setting: the cheapest of those that keep the facts. Pure functions.

Settings with turns over the limit are excluded, unless all settings have such turns. Of the others, those
that show almost as many facts as the best one are candidates, and the cheapest candidate is recommended. A
larger window keeps more facts, but above some size it adds more cost than facts.
"""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.replay.result import Recommendation, ReplayRun

# How much less than the best a setting may keep and still be taken for its price.
MAX_LOSS = 0.03
# Of what is kept, facts weigh so much more than identifiers: what holds matters more than what was named.
FACTS_WEIGHT = 0.7


def recommend(runs: Sequence[ReplayRun], whole: ReplayRun) -> Recommendation:
    """The setting to take and the second best, each with its reason."""
    best = _choose(runs)
    # The same rule without it.
    others = [run for run in runs if run is not best]
    second = _choose(others) if others else None
    assert best.setting is not None
    return Recommendation(
        setting=best.setting,
        reason=_reason(best, runs, whole),
        runner_up=None if second is None else second.setting,
        runner_up_reason="" if second is None else _compare(second, best),
    )


def kept_share(run: ReplayRun) -> float:
    """Weigh what the contexts show of what was said, as one number."""
    return FACTS_WEIGHT * run.facts_share + (1 - FACTS_WEIGHT) * run.names_share


def _choose(runs: Sequence[ReplayRun]) -> ReplayRun:
    fewest = min(run.turns_over_limit for run in runs)
    within = [run for run in runs if run.turns_over_limit == fewest]
    most = max(map(kept_share, within))
    keeping = [run for run in within if kept_share(run) >= most - MAX_LOSS]
    return min(keeping, key=lambda run: (run.cost, run.mean_context))


def _reason(best: ReplayRun, runs: Sequence[ReplayRun], whole: ReplayRun) -> str:
    return f"{_first_sentence(best, runs)} {_second_sentence(best, whole)}"


def _first_sentence(best: ReplayRun, runs: Sequence[ReplayRun]) -> str:
    shows = f"its contexts show {format_share(best.facts_share)} of the current facts"
    shows += f" and {format_share(best.names_share)} of the identifiers"
    if len(runs) == 1:
        return f"{best.label} is the only setting that was tried: {shows}."
    if best.turns_over_limit:
        turns = "turn" if best.turns_over_limit == 1 else "turns"
        return (
            f"Every setting has turns over the limit, {best.label} the fewest "
            f"({best.turns_over_limit:,} {turns}); {shows}."
        )
    if all(run.cost == best.cost and run.mean_context == best.mean_context for run in runs):
        return f"This conversation never gets long enough for the settings to differ; {shows}."
    within = [run for run in runs if not run.turns_over_limit]
    where = "" if len(within) == len(runs) else " within the limit"
    top = max(within, key=kept_share)
    if len(within) == 1:
        return f"Only {best.label} has no turn over the limit: {shows}."
    if top is best:
        also = " and costs least" if min(within, key=lambda run: run.cost) is best else ""
        return f"{best.label} keeps most of what was said{where}{also}: {shows}."
    return (
        f"{best.label} is the cheapest setting{where} that keeps about as much as the best "
        f"({top.label}): {shows}."
    )


def explain_shares(run: ReplayRun) -> str:
    """Say in a sentence what the shares of a setting mean."""
    facts, names = format_share(run.facts_share), format_share(run.names_share)
    if run.facts_share == run.names_share == 1:
        return "All current facts and all identifiers of earlier turns stand in the context."
    return (
        f"Of what was said before a turn, {facts} of the current facts and {names} of the identifiers stand "
        "in its context; the rest stays in memory, where recall and search find it."
    )


def _second_sentence(best: ReplayRun, whole: ReplayRun) -> str:
    size = f"A context has {best.mean_context:,} tokens on average"
    if not whole.cost:
        return f"{size}."
    change = best.cost / whole.cost - 1
    if abs(change) < 0.005:
        return f"{size}, and the conversation costs as much as with its whole history in every context."
    return (
        f"{size} and at most {best.largest_context:,}, and the conversation costs {format_money(best.cost)}, "
        f"{format_share(abs(change))} {'more' if change > 0 else 'less'} "
        "than with its whole history in every context."
    )


def _compare(second: ReplayRun, best: ReplayRun) -> str:
    """Tell what the second best would change, in one sentence."""
    parts = []
    if best.cost:
        change = second.cost / best.cost - 1
        if abs(change) >= 0.005:
            parts.append(f"costs {format_share(abs(change))} {'more' if change > 0 else 'less'}")
        else:
            parts.append("costs the same")
    for share, what in (("facts_share", "facts"), ("names_share", "identifiers")):
        points = round(100 * (getattr(second, share) - getattr(best, share)))
        if points:
            unit = "point" if abs(points) == 1 else "points"
            verb = "" if any("of the" in part for part in parts) else "shows "
            parts.append(f"{verb}{abs(points)} {unit} {'more' if points > 0 else 'less'} of the {what}")
    over = second.turns_over_limit - best.turns_over_limit
    if over > 0:
        parts.append(f"has {over:,} more {'turn' if over == 1 else 'turns'} over the limit")
    if len(parts) == 1 and parts[0] == "costs the same":
        return f"{second.label} costs and keeps the same."
    said = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{second.label} {said}."


def format_run(run: ReplayRun) -> dict[str, str]:
    """The numbers of a run by the heads of their columns, as tables show them."""
    return {
        "cost": format_money(run.cost),
        "tokens sent": f"{run.sent_tokens:,}",
        "cached": format_share(run.cached_share),
        "average": f"{run.mean_context:,}",
        "largest": f"{run.largest_context:,}",
        "over limit": f"{run.turns_over_limit:,}",
        "facts": format_share(run.facts_share),
        "identifiers": format_share(run.names_share),
    }


def format_money(dollars: float) -> str:
    """An amount of dollars with the digits that say something."""
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.3f}" if dollars >= 0.01 else f"${dollars:.5f}"


def format_share(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"
