"""`render_report`: a replay as one HTML page with inline SVG plots.

The page has no script and loads nothing: its content-security policy allows only its own stylesheet, by its
hash. Text of users is escaped, and characters that would reverse or hide text are made visible.
"""

from __future__ import annotations

import hashlib
import unicodedata
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from autonomy_ctx.replay.plots import (
    Line,
    Point,
    bar_plot,
    both_widths,
    line_plot,
    round_up,
    scatter_plot,
    spark_plot,
)
from autonomy_ctx.replay.recommendation import (
    FACTS_WEIGHT,
    explain_shares,
    format_money,
    format_run,
    format_share,
    kept_share,
)
from autonomy_ctx.replay.result import ReplayReport, ReplayRun, TurnMeasure

# How much a page lists of what may be thousands.
MAX_FACTS, MAX_FACT_CHARACTERS, MAX_NAMES, MAX_NAME_CHARACTERS = 40, 160, 60, 60
MAX_MATRIX_COLUMNS = 12
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def render_report(report: ReplayReport) -> str:
    """The page as text; write it to a file with UTF-8."""
    style = files("autonomy_ctx.replay").joinpath("report.css").read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    body = "\n".join(
        [
            *_header(report),
            *_answer(report),
            *_size_plot(report),
            *_choice_plot(report),
            *_cost_plot(report),
            *_spark_plots(report),
            *_retention_plot(report),
            *_table(report),
            *_lost_section(report),
            *_notes(report),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Replay of {_show(report.conversation)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


# -- the parts of the page ----------------------------------------------------------------------------


def _header(report: ReplayReport) -> Iterator[str]:
    writer = "digests, no model" if report.summary_model is None else f"summaries by {report.summary_model}"
    facts = [
        f"{report.turns:,} turns",
        f"{report.messages:,} messages",
        f"{len(report.runs):,} settings",
        writer,
        f"prices of {report.price_name}",
    ]
    items = "".join(f"<li>{_show(fact)}</li>" for fact in facts)
    yield '<header><p class="kicker">Replay</p>'
    yield f"<h1>{_show(report.conversation)}</h1><ul>{items}</ul></header>"


def _answer(report: ReplayReport) -> Iterator[str]:
    best, advice = report.best, report.recommendation
    assert best.setting is not None
    extra = best.label.partition(", ")[2]
    yield '<section class="answer"><div class="choice">'
    yield f'<p class="numbers"><b>{best.setting.floor}</b><i>/</i><b>{best.setting.ceiling}</b></p>'
    yield f'<p class="caption">floor / ceiling{", " + _show(extra) if extra else ""}</p></div><div>'
    yield f"<p>{_show(advice.reason)}</p>"
    yield f'<p class="muted">{_show(explain_shares(best))}</p>'
    if advice.runner_up is not None:
        yield f'<p class="muted">Runner-up: {_show(advice.runner_up_reason)}</p>'
    yield f"<pre><code>{_show(advice.setting.as_argument())}</code></pre></div></section>"
    whole = report.whole
    tiles = [
        ("cost", format_money(best.cost), f"whole history {format_money(whole.cost)}"),
        ("context, average", f"{best.mean_context:,}", f"tokens; at most {best.largest_context:,}"),
        ("from the cache", format_share(best.cached_share), "of the tokens sent"),
        ("facts shown", format_share(best.facts_share), "of the current facts"),
        ("identifiers shown", format_share(best.names_share), "of all named before"),
        ("turns over the limit", f"{best.turns_over_limit:,}", _limit_text(report)),
    ]
    yield '<dl class="tiles">'
    for name, value, note in tiles:
        yield f'<div><dt>{name}</dt><dd>{_show(value)}</dd><dd class="muted">{_show(note)}</dd></div>'
    yield "</dl>"


def _size_plot(report: ReplayReport) -> Iterator[str]:
    best, second = report.best, _second(report)
    shown = [best] if second is None else [best, second]
    top = round_up(1.15 * max(run.largest_context for run in shown))
    lines = [
        Line(label=f"{run.label}", values=_contexts(run), style=style, has_area=style == "best")
        for run, style in zip(shown, ("best", "second"), strict=False)
    ]
    lines.append(Line(label="whole history", values=_contexts(report.whole), style="whole"))
    limit = None if report.limit is None else (float(report.limit), f"limit {report.limit:,}")
    yield "<section><h2>Size of the context over time</h2>"
    yield '<p class="muted">Tokens of the largest context of each turn.'
    if report.whole.largest_context > top:
        yield f"The line of the whole history continues to {report.whole.largest_context:,} tokens."
    yield "</p>"
    yield _legend([(line.label, line.style) for line in lines])
    yield both_widths(
        lambda width: line_plot(
            lines,
            title="Tokens of the context in each turn",
            width=width,
            top=top,
            format_value=_format_tokens,
            limit=limit,
        )
    )
    yield "</section>"


def _choice_plot(report: ReplayReport) -> Iterator[str]:
    if len(report.runs) < 2:
        return
    points = [
        Point(
            label=run.label,
            x=run.cost,
            y=kept_share(run),
            style=_style(report, run),
            title=f"{run.label}: {format_money(run.cost)}, facts {format_share(run.facts_share)}, "
            f"identifiers {format_share(run.names_share)}",
        )
        for run in report.runs
    ]
    yield "<section><h2>What each setting costs, and what it keeps</h2>"
    yield (
        '<p class="muted">Up and to the left is better. Kept: the share of earlier content that the contexts '
        f"show; current facts count for {format_share(FACTS_WEIGHT)} of it, identifiers for the rest.</p>"
    )
    yield both_widths(
        lambda width: scatter_plot(
            points,
            title="Cost and what is kept, for each setting",
            width=width,
            x_label="cost of the conversation",
            y_label="kept",
            format_x=_format_axis_money,
            format_y=format_share,
        )
    )
    yield "</section>"


def _cost_plot(report: ReplayReport) -> Iterator[str]:
    runs = [*sorted(report.runs, key=lambda run: run.cost), report.whole]
    top = max(run.cost for run in runs)
    rows = [
        (run.label, _style(report, run), _cost_parts(report, run), format_money(run.cost)) for run in runs
    ]
    written = (
        "estimated, as if a model had written the digests" if report.summary_model is None else "as used"
    )
    kinds = [("new input", "new"), ("cached input", "cached"), ("output", "output"), ("summaries", "summary")]
    yield f'<section><h2>Cost</h2><p class="muted">By the list prices of {_show(report.price_name)}; '
    yield f"summaries {written}.</p>"
    yield _legend(kinds)
    yield both_widths(lambda width: bar_plot(rows, title="Cost of each setting", width=width, top=top))
    yield "</section>"


def _spark_plots(report: ReplayReport) -> Iterator[str]:
    if len(report.runs) < 3:
        return
    top = max(run.largest_context for run in report.runs) or 1
    yield '<section><h2>Every setting</h2><p class="muted">The context over time, all on one scale '
    yield f'(0 to {top:,} tokens).</p><ul class="sparks">'
    for run in report.runs:
        style = _style(report, run)
        plot = spark_plot(
            _contexts(run), title=f"Context of {run.label} over time", top=top, style=style or "other"
        )
        note = f"{format_money(run.cost)} · facts {format_share(run.facts_share)}"
        yield f'<li class="{style}"><h3>{_show(run.label)}</h3>{plot}<p class="muted">{note}</p></li>'
    yield "</ul></section>"


def _retention_plot(report: ReplayReport) -> Iterator[str]:
    if not report.facts and not report.identifiers:
        return
    best, second = report.best, _second(report)
    lines = []
    for run, style in ((best, "best"), *(((second, "second"),) if second else ())):
        lines.append(Line(label=f"{run.label}, facts", values=_shares(run.turns, "facts"), style=style))
        names = _shares(run.turns, "names")
        lines.append(Line(label=f"{run.label}, identifiers", values=names, style=f"{style} dashed"))
    yield "<section><h2>What the contexts still show</h2>"
    yield '<p class="muted">The share of the current facts (solid) and of all '
    yield "earlier identifiers (dashed) that the context of each turn shows.</p>"
    yield _legend([(best.label, "best"), *([(second.label, "second")] if second else [])])
    yield both_widths(
        lambda width: line_plot(
            lines,
            title="Share of facts and identifiers that are shown",
            width=width,
            height=220,
            top=1.0,
            format_value=format_share,
        )
    )
    yield "</section>"


def _table(report: ReplayReport) -> Iterator[str]:
    heads = ("setting", *format_run(report.whole))
    yield '<section><h2>All numbers</h2><div class="scroll" tabindex="0"><table><thead><tr>'
    yield "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr></thead><tbody>"
    for run in (*report.runs, report.whole):
        row = "".join(f"<td>{_show(cell)}</td>" for cell in format_run(run).values())
        yield f'<tr class="{_style(report, run)}"><th scope="row">{_show(run.label)}</th>{row}</tr>'
    yield "</tbody></table></div></section>"


def _lost_section(report: ReplayReport) -> Iterator[str]:
    """Which facts the last context of each setting has, and which identifiers that of the best has not."""
    if report.facts:
        yield from _fact_matrix(report)
    names = report.best.lost_names
    if names:
        yield f"<section><h2>Identifiers that {_show(report.best.label)} does not show at the end</h2>"
        yield f'<p class="muted">{len(names):,} of {report.identifiers:,}, the newest first'
        yield f"{_list_note(len(names), MAX_NAMES)}. Search and recall still find them.</p>"
        shown = "".join(
            f"<li>{_show(_shorten(name, MAX_NAME_CHARACTERS))}</li>" for name in names[::-1][:MAX_NAMES]
        )
        yield f'<ul class="chips">{shown}</ul></section>'


def _fact_matrix(report: ReplayReport) -> Iterator[str]:
    runs = sorted(report.runs, key=lambda run: run is not report.best)[:MAX_MATRIX_COLUMNS]
    lost = [set(run.lost_facts) for run in runs]
    # Those that only some settings keep say most.
    facts = sorted(report.facts, key=lambda fact: -sum(fact in one for one in lost))
    yield "<section><h2>Facts in the last context</h2>"
    if not any(lost):
        listed = "".join(
            f"<li>{_show(_shorten(fact, MAX_FACT_CHARACTERS))}</li>" for fact in facts[:MAX_FACTS]
        )
        yield f'<p class="muted">Every setting shows all {len(facts):,} current facts at the end of the '
        yield f"conversation.</p><details><summary>The facts{_list_note(len(facts), MAX_FACTS)}</summary>"
        yield f"<ul>{listed}</ul></details></section>"
        return
    yield f'<p class="muted">The current facts at the end{_list_note(len(facts), MAX_FACTS)}; facts that a '
    yield "setting lost come first. Memory still has the lost facts.</p>"
    yield '<div class="scroll" tabindex="0"><table class="facts"><thead><tr><th scope="col">fact</th>'
    yield "".join(f'<th scope="col">{_show(run.label)}</th>' for run in runs) + "</tr></thead><tbody>"
    for fact in facts[:MAX_FACTS]:
        marks = "".join(
            '<td class="lost">lost</td>' if fact in one else '<td class="shown">shown</td>' for one in lost
        )
        yield f'<tr><th scope="row">{_show(_shorten(fact, MAX_FACT_CHARACTERS))}</th>{marks}</tr>'
    yield "</tbody></table></div></section>"


def _notes(report: ReplayReport) -> Iterator[str]:
    notes = [
        "A turn is a user's message with all requests until the answer. The plots count turns from 1.",
        _describe_numbers(report),
        "Tokens are estimated. A prefix that "
        "a request shares with the previous request counts as cached, from 1,024 tokens on.",
        f"The record has {report.pauses:,} pauses after which nothing was cached." if report.pauses else "",
        "Facts and identifiers are found by rules, without a model.",
        *(f"Left out: {sentence}." for sentence in report.skipped),
    ]
    items = "".join(f"<li>{_show(note)}</li>" for note in notes if note)
    yield f"<footer><h2>How it was measured</h2><ul>{items}</ul></footer>"


def _describe_numbers(report: ReplayReport) -> str:
    first = report.whole.turns[0].number
    if not report.has_stored_numbers or first is None:
        return ""
    return f"The first turn of the plots has the number {first:,} in the memory." if first > 1 else ""


# -- small pieces -------------------------------------------------------------------------------------


def _cost_parts(report: ReplayReport, run: ReplayRun) -> list[tuple[float, str]]:
    price = report.price
    output = sum(turn.output_tokens for turn in run.turns)
    return [
        (price.cost(written=run.sent_tokens - run.cached_tokens), "new"),
        (price.cost(cached=run.cached_tokens), "cached"),
        (price.cost(output=output), "output"),
        (run.summary_cost, "summary"),
    ]


def _second(report: ReplayReport) -> ReplayRun | None:
    wanted = report.recommendation.runner_up
    return next((run for run in report.runs if run.setting == wanted), None) if wanted else None


def _style(report: ReplayReport, run: ReplayRun) -> str:
    if run is report.whole:
        return "whole"
    return "best" if run is report.best else "second" if run is _second(report) else ""


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    keys = "".join(f'<span class="key {style}">{_show(name)}</span>' for name, style in entries)
    return f'<p class="legend">{keys}</p>'


def _contexts(run: ReplayRun) -> list[float]:
    return [float(turn.context_tokens) for turn in run.turns]


def _shares(turns: Sequence[TurnMeasure], what: str) -> list[float]:
    pairs = [(getattr(turn, f"{what}_shown"), getattr(turn, f"{what}_said")) for turn in turns]
    return [shown / said if said else 1.0 for shown, said in pairs]


def _limit_text(report: ReplayReport) -> str:
    return "no limit was given" if report.limit is None else f"of {report.limit:,} tokens"


def _list_note(total: int, most: int) -> str:
    return f" ({most:,} of {total:,})" if total > most else ""


def _format_tokens(value: float) -> str:
    return f"{value / 1000:,.10g}k" if value >= 1000 else f"{value:,.0f}"


def _format_axis_money(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.1 or not value else format_money(value)


def _shorten(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _show(text: str) -> str:
    """A text as HTML; invisible characters are shown as their numbers."""
    if not text.isprintable():
        text = "".join(f"<U+{ord(char):04X}>" if _is_invisible(char) else char for char in text)
    return escape(text)


def _is_invisible(char: str) -> bool:
    return char != "\n" and unicodedata.category(char) in _INVISIBLE_CATEGORIES
