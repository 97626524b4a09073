"""`autonomy-ctx models`: the table of known models, with windows, prices and the rules of their caches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from autonomy_ctx.cli.output import Output, WrongInput, make_table
from autonomy_ctx.errors.spelling import did_you_mean
from autonomy_ctx.formats.model_table import (
    MODELS,
    TABLE_DATE,
    ModelInfo,
    find_model,
    is_known_model,
    known_models,
)

MINUTE, HOUR = 60, 3600
COLUMNS = ("prompt", "input", "cached", "write", "output", "above", "kept")


def list_models(output: Output, name: Annotated[str | None, typer.Argument(metavar="NAME")] = None) -> None:
    """List the known models: the longest prompt, prices per million tokens, how long a prompt is cached.

    Prices are list prices in US dollars. A second price is for entries that are cached longer. Prompts
    above a limit cost more, by a factor. A name that is not in the table is shown as the model it is taken
    for. With --json, there are all columns.

    Args:
        name: The beginning of a name, or any model's name.
    """
    rows = [MODELS[key] for key in known_models() if key.startswith((name or "").lower())]
    if not rows and name is not None:
        taken_for = find_model(name)
        if taken_for is None:
            near = did_you_mean(name, known_models())
            raise WrongInput(
                f"no model in the table begins with {name!r}{near}; `autonomy-ctx models` lists all of them"
            )
        rows = [taken_for]
        if not is_known_model(name):
            output.note(f"{name} is not in the table of {TABLE_DATE}; it is shown as {taken_for.name}")
    if output.is_json:
        output.print_json({"date": TABLE_DATE, "models": [asdict(info) for info in rows]})
        return
    output.print(_draw(rows))
    output.note(f"checked on {TABLE_DATE}; USD per million tokens")


def _draw(rows: list[ModelInfo]) -> Table:
    table = make_table()
    table.add_column("model", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for info in rows:
        price, rule = info.price, info.cache
        cells = [""] * 5
        if price is not None:
            tier = price.tier
            cells = [
                f"{price.input:g}",
                f"{price.cached_input:g}",
                _pair(f"{price.cache_write:g}", f"{price.long_cache_write:g}"),
                f"{price.output:g}",
                "" if tier is None else f"{_short(tier.above)}: x{tier.input:g}",
            ]
        longer = rule.seconds if rule.long_seconds is None else rule.long_seconds
        kept = "" if rule.match == "none" else _pair(_span(rule.seconds), _span(longer))
        table.add_row(Text(info.name, style="bold"), _short(info.window), *cells, kept)
    return table


def _pair(usual: str, longer: str) -> str:
    return usual if usual == longer else f"{usual}, {longer}"


def _short(tokens: int | None) -> str:
    """Tokens in thousands or millions; a power of two is rounded."""
    if tokens is None:
        return "?"
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens / 1_000:.3g}k" if tokens >= 10_000 else f"{tokens:,}"


def _span(seconds: float) -> str:
    return f"{seconds / HOUR:g} h" if seconds >= HOUR else f"{seconds / MINUTE:g} min"
