"""A context item: what it holds is its own, and it says what JSON cannot hold."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.errors import AutonomyCtxError, InvalidItem

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
items = st.builds(ContextItem[Any], values, st.none() | st.text(), st.none() | st.text())


def test_only_content_is_needed() -> None:
    item = ContextItem(content="hello")
    assert (item.content, item.description, item.id) == ("hello", None, None)
    assert [field.name for field in dataclasses.fields(item)] == ["content", "description", "id"]
    with pytest.raises(TypeError, match="content"):
        ContextItem()


@pytest.mark.parametrize("name", ["content", "description", "id", "other"])
def test_an_item_cannot_be_changed(name: str) -> None:
    item = ContextItem(content="hello")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(item, name, "other")
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(item, name)


def test_editing_what_was_put_in_or_read_edits_nothing_in_the_item() -> None:
    given_ = {"rows": [1]}
    item = ContextItem(content=given_)
    given_["rows"].append(2)
    item.content["rows"].append(3)
    written = item.to_dict()
    written["content"]["rows"].append(4)
    assert item.content == {"rows": [1]}
    data = {"content": [1]}
    back = ContextItem.from_dict(data)
    data["content"].append(2)
    assert back.content == [1]


def test_items_compare_by_value_and_can_be_in_a_set() -> None:
    one, same = (ContextItem(content={"a": [1]}, description="d", id="x") for _ in range(2))
    assert one == same
    assert {one, same} == {one}
    assert one != dataclasses.replace(one, description="other")
    assert one != dataclasses.replace(one, content={"a": [2]})
    assert one != "x"


def test_a_copy_of_any_kind_is_equal() -> None:
    item = ContextItem(content={"a": [1]}, description="d", id="x")
    assert copy.copy(item) == copy.deepcopy(item) == pickle.loads(pickle.dumps(item)) == item
    assert repr(item) == "ContextItem(content={'a': [1]}, description='d', id='x')"


def test_a_subclass_has_its_own_fields() -> None:
    @dataclasses.dataclass(frozen=True)
    class Page(ContextItem[str]):
        number: int = 1

    assert Page("text", number=3) == Page("text", number=3)
    assert Page("text", number=3) != Page("text", number=4)
    assert isinstance(Page.from_dict({"content": "a"}), Page)


@pytest.mark.parametrize(("name", "wrong"), [("id", 3), ("description", ["a"])])
def test_an_id_or_description_is_text(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"`{name}` must be a string or None, not {type(wrong).__name__}"):
        ContextItem("a", **{name: wrong})


def test_content_that_cannot_be_copied_says_so() -> None:
    with pytest.raises(TypeError, match=r"content of type lock cannot be copied .* a name or path"):
        ContextItem(content=threading.Lock())


@given(items)
def test_an_item_read_back_from_json_is_the_same(item: ContextItem[Any]) -> None:
    assert ContextItem.from_dict(json.loads(json.dumps(item.to_dict()))) == item


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (datetime(2030, 1, 1, tzinfo=UTC), "content"),
        ({"when": [1, {2}]}, r"content\.when\[1\]"),
        ({"a": {3: "b"}}, r"content\.a"),
        (float("nan"), "content"),
        ((1, 2), "content"),
    ],
)
def test_content_that_json_cannot_hold_is_named_by_its_path(content: Any, path: str) -> None:
    with pytest.raises(InvalidItem, match=f"^invalid context item: `{path}` ") as caught:
        ContextItem(content=content).to_dict()
    assert isinstance(caught.value, AutonomyCtxError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("text", "`item` must be a dict, not str"),
        ({}, "`content` is missing"),
        ({"content": 1, "id": 3}, "`id` must be a string or None, not int"),
        ({"content": 1, "description": []}, "`description` must be a string or None, not list"),
    ],
)
def test_data_that_is_no_item_is_refused(data: Any, message: str) -> None:
    with pytest.raises(InvalidItem, match=f"invalid context item: {message}"):
        ContextItem.from_dict(data)
