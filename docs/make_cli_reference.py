"""Writes the part of docs/reference/cli.md that lists the commands: `python docs/make_cli_reference.py`.

It is made from the commands themselves; a test fails when the page is out of date.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autonomy_ctx.cli.app import COMMANDS, COMMON_OPTIONS, PROGRAM, load_command

PAGE = Path(__file__).parent / "reference" / "cli.md"
MARK = "<!-- From here on made by docs/make_cli_reference.py. -->\n"


def make_page() -> str:
    """The page with the commands as they are now."""
    written, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return written + MARK + "".join(f"\n{part}" for name in COMMANDS for part in describe_command(name))


def describe_command(name: str) -> Iterator[str]:
    """A command: its usage, what it does, its arguments and options."""
    command = load_command(name)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [
        one for one in command.params if one.param_type_name == "option" and one.name not in COMMON_OPTIONS
    ]
    words = [str(one.metavar) if one.required else f"[{one.metavar}]" for one in arguments]
    yield f"## {name}\n"
    yield f"`{' '.join([PROGRAM, name, *words, '[OPTIONS]'])}`\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    rows = [f"| `{_escape(str(one.metavar))}` | {_describe(one)} |\n" for one in arguments]
    rows += [f"| {_names(one)} | {_describe(one)} |\n" for one in options]
    if rows:
        yield "| argument | meaning |\n|---|---|\n" + "".join(rows)


def _names(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar or 'N'}"
    return _escape(", ".join(f"`{one}{value}`" for one in option.opts))


def _describe(parameter: Any) -> str:
    default = parameter.default
    shown = getattr(default, "value", default)
    has_default = not (shown is None or shown is False or parameter.required)
    return _escape(f"{parameter.help}{f' Default: `{shown}`.' if has_default else ''}")


def _escape(cell: str) -> str:
    """A cell of a table: a bar in it would begin the next one."""
    return cell.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
