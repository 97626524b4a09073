"""Generated messages and histories, and slow rules to judge a cut by, for all tests.

Import from here: `from strategies import histories, some`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from autonomy_ctx import ChatRole, ImageContent, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.messages import AgentConfigUpdate, AgentHandoff, DirectMessage, Segment, Summary

# How fast this machine is today is not a property of the library: no deadlines.
some = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def examples(number: int) -> settings:
    """So many examples in the whole suite, and fewer, in proportion, in `make test`."""
    return settings(some, max_examples=max(1, number * some.max_examples // 100))


few, many = examples(25), examples(200)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

# -- JSON ---------------------------------------------------------------------------------------------

# Any character, lone surrogates and NUL included.
any_text = st.text(st.characters(exclude_categories=()), max_size=12)
call_ids = any_text.filter(bool)
# Names that every store can hold.
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
json_dicts: st.SearchStrategy[dict[str, Any]] = st.dictionaries(any_text, json_values, max_size=3)

# -- messages built in code ---------------------------------------------------------------------------

times = st.datetimes(timezones=st.just(UTC))
text_parts = st.builds(TextContent, any_text)
image_parts = st.builds(
    ImageContent, st.just("https://x.test/cat.png"), st.sampled_from(("auto", "low", "high"))
) | st.builds(ImageContent.from_bytes, st.binary(min_size=1, max_size=4))
thinking_parts = st.builds(ThinkingContent, any_text, signature=st.none() | any_text) | st.builds(
    ThinkingContent, st.just(""), redacted=any_text
)
parts = text_parts | image_parts | thinking_parts
contents = any_text | parts | st.lists(parts, max_size=3)
calls = st.builds(ToolCall, st.none() | names, any_text, any_text, json_dicts)

_stamps: dict[str, st.SearchStrategy[Any]] = {"id": names, "created_at": times, "agent": st.none() | names}
_said = st.builds(
    Message,
    st.sampled_from(["system", "developer", "user"]),
    contents,
    name=st.none() | any_text,
    phase=st.none() | any_text,
    extra=json_dicts,
    **_stamps,
)
_answered = st.builds(
    Message,
    st.just("assistant"),
    st.none() | contents,
    tool_calls=st.lists(calls, max_size=3),
    extra=json_dicts,
    **_stamps,
)
_resulted = st.builds(
    Message,
    st.just("tool"),
    contents,
    tool_call_id=call_ids,
    name=st.none() | any_text,
    is_error=st.booleans(),
    extra=json_dicts,
    **_stamps,
)
messages: st.SearchStrategy[Message] = _said | _answered | _resulted


@st.composite
def summaries(draw: st.DrawFn) -> Summary:
    """Summaries of ascending ranges, with and without gaps between them."""
    ends = sorted(draw(st.lists(st.integers(1, 60), min_size=2, max_size=8, unique=True)))
    ranges = list(zip(ends[::2], ends[1::2], strict=False))
    segments = [
        Segment(text=draw(any_text), first=first, last=last, provisional=draw(st.booleans()))
        for first, last in ranges
    ]
    role: Any = draw(st.sampled_from(["user", "system"]))
    return Summary(segments, display_role=role, **{name: draw(value) for name, value in _stamps.items()})


events = (
    st.builds(
        AgentHandoff, to_agent=any_text, from_agent=st.none() | names, reason=st.none() | any_text, **_stamps
    )
    | st.builds(
        AgentConfigUpdate,
        instructions=st.none() | any_text,
        tools=st.none() | st.lists(any_text, max_size=3),
        **_stamps,
    )
    | st.builds(
        DirectMessage,
        source_agent=names,
        target_agent=names,
        content=any_text,
        priority=st.floats(0, 1),
        ttl_seconds=st.none() | st.floats(0, 1e6),
        metadata=json_dicts,
        **_stamps,
    )
)

# -- messages as dicts --------------------------------------------------------------------------------

_cache_mark = {"cache_control": st.just({"type": "ephemeral"})}
_detail = st.sampled_from(["auto", "low", "high"])
part_dicts: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"text": any_text}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "input_text", "output_text"]), "text": any_text},
        optional=_cache_mark,
    ),
    st.fixed_dictionaries({"type": st.just("image_url"), "image_url": st.just("https://x.test/a.png")}),
    st.fixed_dictionaries(
        {
            "type": st.just("image_url"),
            "image_url": st.fixed_dictionaries(
                {"url": st.just("data:image/png;base64,AA==")}, optional={"detail": _detail}
            ),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("image"), "image": st.just("https://x.test/b.png")},
        optional={"inference_detail": _detail},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("image"),
            "source": st.just({"type": "base64", "media_type": "image/png", "data": "AA=="})
            | st.just({"type": "url", "url": "https://x.test/c.png"}),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("thinking"), "thinking": any_text}, optional={"signature": st.none() | any_text}
    ),
    st.fixed_dictionaries({"type": st.just("thinking"), "text": any_text}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": any_text}),
)
content_values: st.SearchStrategy[Any] = (
    any_text | part_dicts | st.lists(any_text | part_dicts, min_size=1, max_size=3)
)

_arguments = st.none() | any_text | json_dicts
_signature = {"thought_signature": any_text, "extra": json_dicts}
call_dicts: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": any_text}, optional={"id": st.none() | names, "arguments": _arguments, **_signature}
) | st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": any_text}, optional={"arguments": _arguments}),
    },
    optional={"id": st.none() | names, **_signature},
)

_seconds = st.integers(0, 2**32) | st.floats(-1e9, 4e9)
time_values: st.SearchStrategy[Any] = _seconds | times.map(datetime.isoformat)
_bookkeeping: dict[str, st.SearchStrategy[Any]] = {
    "phase": st.none() | st.sampled_from(["system", "planning", "executing", "waiting_for_input"]),
    "agent": st.none() | names,
    "agent_id": st.none() | names,
    "name": st.none() | any_text,
    "type": st.just("message"),
    "extra": json_dicts,
    "is_error": st.none() | st.booleans(),
    # Keys this library has no name for.
    "confidence": json_values,
    "own \ud800 {key}": json_values,
}
_bodies = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user"]), "content": content_values},
        optional=_bookkeeping,
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant")},
        optional={
            "content": st.none() | content_values,
            "tool_calls": st.none() | st.lists(call_dicts, max_size=3),
            **_bookkeeping,
        },
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "content": content_values, "tool_call_id": call_ids},
        optional=_bookkeeping,
    ),
)


@st.composite
def stamped_dicts(draw: st.DrawFn) -> dict[str, Any]:
    """Message dicts that say their id and their time, under either name."""
    stamps: dict[str, Any] = {
        draw(st.sampled_from(["id", "message_id"])): draw(names),
        draw(st.sampled_from(["timestamp", "created_at"])): draw(time_values),
    }
    body: dict[str, Any] = draw(_bodies)
    return stamps | body if draw(st.booleans()) else body | stamps


# Any message dict, with and without an id and a time.
message_dicts: st.SearchStrategy[dict[str, Any]] = _bodies | stamped_dicts()

# -- histories ----------------------------------------------------------------------------------------

# What happens next: who does it, and the ids of the calls that are made or answered ("" is no id).
Move: TypeAlias = tuple[str, tuple[str, ...]]

_SPEAK: list[Move] = [("user", ()), ("answer", ()), ("thinking", ()), ("note", ())]
_any_ids = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=3)
# Few ids: calls overlap, repeat an id, stay open; results come first, twice, or for no call at all.
_wild_moves: st.SearchStrategy[Move] = st.one_of(
    st.sampled_from(_SPEAK),
    st.tuples(st.just("call"), _any_ids.map(tuple)),
    st.tuples(st.just("result"), st.sampled_from([("a",), ("b",), ("c",), ("lost",)])),
)


@st.composite
def _turn(draw: st.DrawFn, number: int) -> list[Move]:
    """A question, rounds of parallel calls with their results, and mostly an answer."""
    moves: list[Move] = [("user", ())]
    for step in range(draw(st.integers(0, 2))):
        ids = [f"{number}.{step}{letter}" for letter in "xyz"[: draw(st.integers(1, 3))]]
        if draw(st.booleans()):
            moves.append(("thinking", ()))
        moves.append(("call", tuple(ids)))
        moves += [("result", (answered,)) for answered in draw(st.permutations(ids))]
    if draw(st.integers(0, 3)):
        moves.append(("answer", ()))
    return moves


@st.composite
def _conversations(draw: st.DrawFn) -> list[Move]:
    """Turns one after the other, of which some results get lost, come late or come twice."""
    moves: list[Move] = []
    for number in range(draw(st.integers(0, 3))):
        moves += draw(_turn(number))
    for _ in range(draw(st.integers(0, 2))):
        results = [index for index, (kind, _) in enumerate(moves) if kind == "result"]
        if not results:
            break
        at = draw(st.sampled_from(results))
        later = draw(st.integers(at, len(moves)))
        fault = draw(st.sampled_from(["lost", "late", "twice"]))
        if fault != "lost":
            moves.insert(later, moves[at])
        if fault != "twice":
            del moves[at]
    if draw(st.booleans()):
        moves.insert(draw(st.integers(0, len(moves))), ("user", ()))
    return moves


def _untangled(moves: list[Move]) -> list[Move]:
    """The same without calls under an id that still waits for its result."""
    waiting: set[str] = set()
    kept: list[Move] = []
    for kind, ids in moves:
        if kind == "call":
            ids = tuple(call_id for call_id in dict.fromkeys(ids) if call_id not in waiting)
            waiting.update(filter(None, ids))
        elif kind == "result":
            waiting.difference_update(ids)
        kept.append((kind, ids))
    return kept


def told(moves: Iterable[Move]) -> list[Message]:
    """Moves as messages with ids m1, m2, m3 and so on, whose text is their number."""
    return [_message(number, kind, ids) for number, (kind, ids) in enumerate(moves, start=1)]


def _message(number: int, kind: str, ids: tuple[str, ...]) -> Message:
    stamps: dict[str, Any] = {"id": f"m{number}", "created_at": NOON}
    match kind:
        case "user":
            return Message("user", str(number), **stamps)
        case "answer":
            return Message("assistant", str(number), **stamps)
        case "thinking":
            return Message("assistant", [ThinkingContent(str(number))], **stamps)
        case "note":
            return Message("system", str(number), **stamps)
        case "call":
            made = [ToolCall(call_id or None, "look", "{}") for call_id in ids]
            return Message("assistant", None, tool_calls=made, **stamps)
    return Message("tool", str(number), tool_call_id=ids[0] or "none", **stamps)


orderly_histories = _conversations().map(told)
# In these an id may be used again before it was answered, so that nobody can tell whose result is whose.
tangled_histories = st.lists(_wild_moves, max_size=14).map(told)
wild_histories = st.lists(_wild_moves, max_size=14).map(_untangled).map(told)
histories: st.SearchStrategy[list[Message]] = orderly_histories | wild_histories

# -- judging a cut ------------------------------------------------------------------------------------


def pairs(history: Sequence[Message]) -> list[tuple[int, int | None]]:
    """Each call's index with the index of its last result, or None if it never got one.

    A result belongs to the latest call before it that has its id, also when it comes twice.
    """
    made: list[tuple[int, str]] = []
    results: dict[int, int] = {}
    for index, message in enumerate(history):
        if message.role is ChatRole.ASSISTANT:
            made += [(index, call.id) for call in message.tool_calls if call.id]
        if message.role is not ChatRole.TOOL or not message.tool_call_id:
            continue
        mine = [number for number, (_, call_id) in enumerate(made) if call_id == message.tool_call_id]
        if mine:
            results[mine[-1]] = index
    return [(start, results.get(number)) for number, (start, _) in enumerate(made)]


def may_cut(history: Sequence[Message], cut: int) -> bool:
    """Whether `history[:cut]` and `history[cut:]` may part, by the rules, one pair at a time."""
    if cut == 0:
        return True
    if cut < len(history):
        if history[cut].role is ChatRole.TOOL:
            return False
        if history[cut].role is ChatRole.ASSISTANT and _is_thought(history[cut - 1]):
            return False
    for start, result in pairs(history):
        if result is not None:
            if start < cut <= result:
                return False
            continue
        users = [at for at in range(start + 1, len(history)) if history[at].role is ChatRole.USER]
        if start < cut < (users[0] if users else len(history) + 1):
            return False
    return True


def last_window(history: Sequence[Message], limit: int) -> list[Message]:
    """The most recent `limit` messages, fewer if no cut is safe there, or the last whole group."""
    first = max(0, len(history) - limit)
    safe = [cut for cut in range(len(history)) if may_cut(history, cut)]
    later = [cut for cut in safe if cut >= first]
    return list(history[(later[0] if later else max(safe, default=0)) :])


def _is_thought(message: Message) -> bool:
    thoughts = [isinstance(part, ThinkingContent) for part in message.parts]
    return message.role is ChatRole.ASSISTANT and not message.tool_calls and any(thoughts) and all(thoughts)
