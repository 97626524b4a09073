"""A model reads a pooled item whole, and an id that is not there answers with those that are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import ContextItem, ContextPool
from autonomy_ctx.messages.message import ToolCall
from autonomy_ctx.tools.builtin.lookup import _list_newest, read_context_item
from autonomy_ctx.tools.run import CallOutcome, run_calls


async def reading(item_id: str, pool: ContextPool | None, **options: Any) -> CallOutcome:
    call = ToolCall("c1", "read_context_item", json.dumps({"item_id": item_id, **options}))
    inject = {} if pool is None else {"pool": pool}
    return (await run_calls([call], [read_context_item], inject=inject))[0]


async def pooled(*items: ContextItem[Any]) -> ContextPool:
    pool = ContextPool()
    for item in items:
        await pool.add(item)
    return pool


async def said(item_id: str, pool: ContextPool | None, *, is_error: bool = False) -> str:
    message = (await reading(item_id, pool)).message
    assert message is not None
    assert message.is_error is is_error
    return message.text


class Loud(str):
    def __str__(self) -> str:
        return "LOUD"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Dear {name},\n\u00e9", "Dear {name},\n\u00e9"),
        ("", ""),
        (Loud("quiet"), "quiet"),
        ({"rows": [1, 2.5, None]}, '{"rows": [1, 2.5, null]}'),
        (["a", "b"], '["a", "b"]'),
        (None, "null"),
        (3, "3"),
    ],
    ids=repr,
)
async def test_text_is_read_as_it_is_and_other_content_as_json(content: Any, text: str) -> None:
    pool = await pooled(ContextItem(content, "a thing", "one"))
    assert await said("one", pool) == text


async def test_items_inside_an_item_are_its_content_and_not_results() -> None:
    pool = await pooled(ContextItem([ContextItem("inner", "x", "in")], "a list", "one"))
    ran = await reading("one", pool)
    assert ran.items == ()
    assert ran.message is not None
    assert json.loads(ran.message.text)[0]["content"] == "inner"


async def test_content_that_json_cannot_hold_is_an_error_that_says_so() -> None:
    pool = await pooled(ContextItem(object(), "a thing", "one"))
    assert (await said("one", pool, is_error=True)).startswith("InvalidResult: ")


async def test_an_unknown_id_answers_with_the_items_there_are() -> None:
    pool = await pooled(ContextItem(1, "the plan", "plan"), ContextItem(2, "line\nbreak", "b"))
    text = await said("paln", pool, is_error=True)
    assert text == (
        "UnknownItem: no item with the id 'paln'; the items are:\n- [plan] the plan\n- [b] line break"
    )


async def test_an_empty_pool_says_that_it_is_empty() -> None:
    assert "there are no items" in await said("plan", ContextPool(), is_error=True)


async def test_without_a_pool_the_call_is_refused() -> None:
    assert "there is no `pool` here" in await said("plan", None, is_error=True)


async def test_a_long_catalogue_is_cut_to_the_newest_and_says_how_many_are_left_out() -> None:
    pool = await pooled(*(ContextItem(n, f"thing {n} " + "x" * 400, f"id-{n}") for n in range(500)))
    text = await said("y" * 5_000, pool, is_error=True)
    assert len(text.encode()) < 2_000
    lines = text.splitlines()
    assert lines[-2].startswith("- [id-499] thing 499 x")
    assert lines[-1] == f"and {500 - (len(lines) - 2):,} older ones"
    assert "not shown here" not in text


@given(st.lists(st.tuples(st.text(), st.text()), max_size=30))
def test_the_list_is_bounded_and_has_one_line_for_each_item(texts: list[tuple[str, str]]) -> None:
    items: list[ContextItem[Any]] = [ContextItem(None, text, id_) for text, id_ in texts]
    listed = _list_newest(items)
    assert len(listed.encode()) <= 1_600
    _, *lines = listed.splitlines()
    older = [line for line in lines if line.startswith("and ")]
    assert len(lines) - len(older) == len(items) - (int(older[0].split()[1]) if older else 0)


def test_the_model_sees_the_id_and_not_the_pool() -> None:
    assert list(read_context_item.spec["parameters"]["properties"]) == ["item_id", "offset"]


async def test_a_long_item_is_read_on_from_an_offset() -> None:
    whole = "".join(f"{number:09}\n" for number in range(20_000))
    pool = await pooled(ContextItem(whole, "a log", "log"))
    first = await said("log", pool)
    begin, _, _ = first.partition("\n[... ")
    assert len(begin) < len(whole) // 2
    rest = (await reading("log", pool, offset=len(begin))).message
    assert rest is not None
    assert rest.text.startswith(whole[len(begin) : len(begin) + 40_000])
    refused = (await reading("log", pool, offset=-1)).message
    assert refused is not None
    assert refused.is_error
    assert "offset must be >= 0, not -1" in refused.text
