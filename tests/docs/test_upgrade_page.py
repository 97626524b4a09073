"""The page of the upgrade lists the names that have changed, and each of them still works, with a warning."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from docs.snippets import ROOT
from public_names import names

from autonomy_ctx import Agent, Model, compaction, server, stores

PAGE = (ROOT / "docs" / "migrate" / "upgrade.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([\w.]+)` \| `([\w.]+)` \|$", PAGE, flags=re.MULTILINE)


def look_up(name: str) -> Any:
    home, _, last = name.rpartition(".")
    return getattr(import_module(home), last)


def test_the_page_lists_every_former_name() -> None:
    moved = {f"{one.__name__}.{name}" for one in (compaction, server, stores) for name in one._FORMER_NAMES}
    assert {old for old, _ in ROWS} == {"autonomy_ctx.items.NAME", "Agent.get_whole_message", *moved}


@pytest.mark.parametrize(("old", "new"), ROWS)
async def test_a_former_name_works_with_a_warning_that_names_the_new_one(old: str, new: str) -> None:
    if old.startswith("Agent."):
        async with Agent("guide", model=Model("offline")) as agent:
            reply = await agent.send("Hello.", message_id="hello")
            with pytest.warns(DeprecationWarning, match="get_full_message"):
                assert await agent.get_whole_message(reply.messages[0].id) is None
        return
    old, new = (name.replace("NAME", names("autonomy_ctx.messages")[0]) for name in (old, new))
    with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}"):
        found = look_up(old)
    assert found is look_up(new)
