"""The names of tools on the wire: the same in every request, however many requests came before."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from autonomy_ctx.formats.outgoing import (
    MAX_NAME_LENGTH,
    ToolNames,
    UniqueNames,
    google_tool_name,
    original_tool_names,
    sanitize_name,
)

# Few letters, so that names collide once they are valid: `a b` and `a_b`, `a` and `a-2`.
NAMES = st.lists(st.text("ab _-2é", max_size=4) | st.text("ab", min_size=62, max_size=70), max_size=8)


def named_one_by_one(offered: list[str], called: list[str]) -> list[str]:
    """The names as they are given out, tool by tool, with nothing remembered from another request."""
    distinct, found = UniqueNames(), dict[str, str]()
    for name in [*sorted(offered, key=lambda name: sanitize_name(name) != name), *called]:
        if name not in found:
            found[name] = distinct.new(name)
    return [found[name] for name in (*offered, *called)]


@given(NAMES, st.lists(NAMES, max_size=3))
def test_a_request_names_its_tools_as_if_it_were_the_first(
    offered: list[str], calls: list[list[str]]
) -> None:
    for called in [*calls, []]:
        names = ToolNames(offered)
        assert [names.wire_name(name) for name in called] == named_one_by_one(offered, called)[len(offered) :]
        assert [names.wire_name(name) for name in offered] == named_one_by_one(offered, [])


@given(NAMES)
@example([" 2", "2"])
@example(["2" * 64, "2" * 63 + "a", "2" * 63 + "b"])
def test_a_name_on_the_wire_leads_back_to_its_tool(offered: list[str]) -> None:
    own, names = original_tool_names(offered), ToolNames(offered)
    sent = {name: names.wire_name(name) for name in offered}
    assert len(set(sent.values())) == len(sent)
    assert all(0 < len(wire) <= MAX_NAME_LENGTH for wire in sent.values())
    assert all(own[wire] == name for name, wire in sent.items() if wire != name)
    at_google = {name: google_tool_name(wire) for name, wire in sent.items()}
    assert len(set(at_google.values())) == len(at_google)
    assert all(own[wire] == name for name, wire in at_google.items() if wire != name)
