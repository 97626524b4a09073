"""Bodies that are decoded from where an earlier one ended say what they would say by themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from autonomy_ctx.messages.text_cache import forget_texts
from autonomy_ctx.server.openai.bodies import BODIES, MAX_PIECES, BodyDecoder

TEXTS = st.sampled_from(["", "a", 'say "so"', "日本", "\ud800", "}]", "1"]) | st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 30) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.sampled_from(["messages", "input", "model", "tools"])


@st.composite
def bodies(draw: st.DrawFn) -> list[bytes]:
    """Bodies of which each goes on from the one before, edits it, cuts it, or is no JSON."""
    fields = draw(st.lists(st.tuples(FIELDS, VALUES), min_size=1, max_size=3))
    elements, made = draw(st.lists(VALUES, max_size=4)), []
    at = draw(st.integers(0, len(fields)))
    for _ in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["more", "more", "edit", "cut", "broken"])):
            case "more":
                elements = [*elements, *draw(st.lists(VALUES, max_size=2))]
            case "edit" if elements:
                elements = [*elements[:-1], draw(VALUES)]
            case "cut":
                elements = elements[: draw(st.integers(0, 4))]
        made.append(draw(write([*fields[:at], ("messages", elements), *fields[at:]])))
    return made


@st.composite
def write(draw: st.DrawFn, fields: list[tuple[str, Any]]) -> bytes:
    # By hand, because a name may be there twice.
    space = draw(st.sampled_from(["", " ", "\n\t"]))
    ascii_only = draw(st.booleans())
    parts = [f"{json.dumps(name)}:{space}{json.dumps(one, ensure_ascii=ascii_only)}" for name, one in fields]
    text = f"{{{space}{f',{space}'.join(parts)}{space}}}"
    if draw(st.integers(0, 5)) == 0:
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(["", ",", "]", "NaN", "x", "\x01"])) + text[place + 1 :]
    return text.encode("utf-8", "surrogatepass")


def outcome(decode: Any, raw: bytes) -> Any:
    try:
        # As a text: `True == 1`, but they are not the same in JSON.
        return json.dumps(decode(raw))
    except ValueError:
        return ValueError


def refuse(text: str) -> Any:
    raise ValueError(text)


@examples(200)
@given(one=bodies(), other=bodies(), max_bodies=st.integers(1, 4), max_bytes=st.sampled_from([40, 10_000]))
def test_a_body_says_the_same_whatever_came_before(
    one: list[bytes], other: list[bytes], max_bodies: int, max_bytes: int
) -> None:
    decoder = BodyDecoder(max_bodies=max_bodies, max_bytes=max_bytes)
    mixed = [raw for pair in zip(one, other, strict=False) for raw in pair] + one
    for raw in mixed:
        expected = outcome(lambda data: json.loads(data, parse_constant=refuse), raw)
        assert outcome(lambda data: decoder.decode(data, 0), raw) == expected
        assert len(decoder) <= max_bodies


def test_what_a_body_shares_with_an_earlier_one_is_the_same_objects() -> None:
    decoder = BodyDecoder()
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    first = decoder.decode(json.dumps({"model": "m", "messages": said}).encode(), 0)
    more = [*said, {"role": "user", "content": "and?"}]
    second = decoder.decode(json.dumps({"model": "m", "messages": more, "stream": True}).encode(), 0)
    assert second == {"model": "m", "messages": more, "stream": True}
    assert all(map(lambda one, other: one is other, first["messages"], second["messages"]))
    assert len(first["messages"]) == 2


def test_a_body_whose_last_element_differs_by_one_letter_is_another_one() -> None:
    decoder = BodyDecoder()
    for said in ([1, 12], [1, 13], [1, 13, 7], [1, 23]):
        assert decoder.decode(json.dumps({"messages": said}).encode(), 0) == {"messages": said}


def test_a_body_may_go_on_as_often_as_it_likes() -> None:
    decoder, said = BodyDecoder(), list[str]()
    for number in range(3 * MAX_PIECES):
        said.append(f"日本 {number}")
        body = {"messages": said, "stream": True}
        assert decoder.decode(json.dumps(body, ensure_ascii=False).encode(), 0) == body
    assert len(decoder) == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_other_encodings_are_read_as_before(encoding: str) -> None:
    raw = '{"messages": ["日本"]}'.encode(encoding)
    assert BodyDecoder().decode(raw, 0) == json.loads(raw)


def test_bodies_are_forgotten_with_what_users_delete() -> None:
    BODIES.decode(json.dumps({"messages": ["x" * 40_000]}).encode())
    assert len(BODIES)
    forget_texts()
    assert not len(BODIES)
