"""`autonomy-ctx lint`: the cache plan of the templates in a Python file, and what about it costs money."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.cli.drawing import KIND_STYLES
from autonomy_ctx.cli.output import ExitCode, Output, clean_line, make_table
from autonomy_ctx.cli.python_file import load_objects
from autonomy_ctx.template.cache_order import arrange_for_cache
from autonomy_ctx.template.running import HISTORY_SECTION
from autonomy_ctx.template.template import ContextTemplate

CHANGES = {"stable": "never", "slow": "now and then", "volatile": "every turn"}


def lint_templates(output: Output, place: Annotated[str, typer.Argument(metavar="FILE[:NAME]")]) -> int:
    """Show the order in which a template sends its sections, and how well a provider can cache it.

    The sizes are typical values. The file is executed. The exit code is 1 if a section makes turns more
    expensive than necessary.

    Args:
        place: A Python file with templates or agents. NAME chooses one, or a function that returns one.
    """
    kinds = "ContextTemplate or Agent"
    found = load_objects(place, lambda value: isinstance(value, ContextTemplate | Agent), kinds)
    plans = [
        make_plan(name, value.context_template if isinstance(value, Agent) else value)
        for name, value in found.items()
    ]
    if output.is_json:
        output.print_json({"templates": plans})
    else:
        for number, plan in enumerate(plans):
            if number:
                output.print("")
            _print_plan(output, plan)
    return ExitCode.FAILED if any(plan["warnings"] for plan in plans) else ExitCode.DONE


def make_plan(name: str, template: ContextTemplate) -> dict[str, Any]:
    """The sections in the order they are sent, and the warnings about it."""
    planned = template.plan()
    if template.arrange == "cache":
        planned = [planned[piece.section] for piece in arrange_for_cache(planned, [()] * len(planned))]
    sections: list[dict[str, Any]] = []
    is_cached = True
    for section in planned:
        # All that was sent stays, unless every turn begins anew.
        is_cached = is_cached and not section.is_latest and section.max_messages is None
        sections.append(
            {
                "name": section.name,
                "kind": section.kind,
                "tokens": section.expected_tokens,
                "cached": is_cached,
            }
        )
    return {
        "template": name,
        "arrange": template.arrange,
        "sections": sections,
        "warnings": [asdict(warning) for warning in template.lint()],
    }


def _describe_changes(section: dict[str, Any]) -> str:
    return "grows at its end" if section["name"] == HISTORY_SECTION else CHANGES[section["kind"]]


def _print_plan(output: Output, plan: dict[str, Any]) -> None:
    order = "arranged for the cache" if plan["arrange"] == "cache" else "in the order given"
    output.print(Text.assemble((clean_line(plan["template"]), "bold"), (f"  {order}", "dim")))
    table = make_table("section", "changes")
    table.add_column("tokens", justify="right")
    table.add_column("each turn")
    for section in plan["sections"]:
        kind = section["kind"]
        read = ("from the cache", "green") if section["cached"] else ("not cached", "yellow")
        table.add_row(
            Text(clean_line(section["name"]), style="bold"),
            Text(_describe_changes(section), style=KIND_STYLES[kind]),
            f"~{section['tokens']:,}",
            Text(*read),
        )
    output.print(Padding(table, (1, 0, 1, 2), expand=False))
    for warning in plan["warnings"]:
        output.print(Text.assemble(("✗ ", "yellow"), clean_line(warning["problem"])))
    if not plan["warnings"]:
        output.print(Text.assemble(("✓ ", "green"), "no section starts a new epoch in every turn"))
