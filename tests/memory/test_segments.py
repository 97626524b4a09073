"""Whatever segments are offered, in whatever order: those in force are one summary without a gap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from autonomy_ctx.memory.store import (
    Head,
    StoredSegment,
    SummaryState,
    last_final_position,
    segment_replacement,
)

HEAD = 12


def segment(first: int, last: int, provisional: bool) -> StoredSegment:
    return StoredSegment(first=first, last=last, text=f"{first}-{last}", tokens=1, provisional=provisional)


@st.composite
def fitting(draw: st.DrawFn, active: list[StoredSegment]) -> StoredSegment:
    """One that starts where something starts or ends, so that it often fits."""
    starts = {
        1,
        last_final_position(active) + 1,
        *(one.first for one in active),
        *(one.last + 1 for one in active),
    }
    first = draw(st.sampled_from(sorted(starts)) | st.integers(-1, HEAD + 1))
    ends = [one.last for one in active if one.last >= first]
    last = draw(st.sampled_from(ends) | st.integers(first - 1, HEAD + 1)) if ends else first + draw(sizes)
    return segment(first, last, draw(st.booleans()))


sizes = st.integers(-1, 4)


def put(active: list[StoredSegment], new: StoredSegment) -> list[StoredSegment] | None:
    """The list after a commit, as a store makes it."""
    swap = segment_replacement(active, new, HEAD)
    if swap is None:
        return None
    assert set(swap.removed) <= set(active)
    left = [one for one in active if one not in swap.removed]
    return sorted([*left, *swap.added], key=lambda one: one.first)


@examples(400)
@given(data=st.data())
def test_any_offers_leave_a_summary_without_a_gap_that_never_goes_back(data: st.DataObject) -> None:
    active: list[StoredSegment] = []
    for _ in range(data.draw(st.integers(1, 12))):
        new = data.draw(fitting(active))
        after = put(active, new)
        if after is None:
            continue
        before, now = SummaryState(Head(), tuple(active)), SummaryState(Head(), tuple(after))
        assert new in after
        assert now.covered >= before.covered
        assert now.written >= before.written
        assert now.covered <= HEAD
        edges = [0, *(one.last for one in after)]
        assert [one.first for one in after] == [edge + 1 for edge in edges[:-1]]
        assert all(one.first <= one.last for one in after)
        kinds = [one.provisional for one in after]
        assert kinds == sorted(kinds), "written ones come first"
        active = after


@given(active_to=st.integers(1, HEAD), new_to=st.integers(1, HEAD))
def test_a_written_one_covers_a_stand_in_whole_or_in_part(active_to: int, new_to: int) -> None:
    after = put([segment(1, active_to, True)], segment(1, new_to, False))
    assert after is not None
    assert [(one.first, one.last) for one in after if one.provisional] == (
        [(new_to + 1, active_to)] if active_to > new_to else []
    )
