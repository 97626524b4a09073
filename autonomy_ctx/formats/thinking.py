"""The choice of thinking of earlier replies that goes back to the provider that made it.

Current Claude models bind a thinking block to everything before it: system prompt, tools and messages. If
that has changed, they refuse the request. So a reply with thinking is stored with a `ThinkingPrefix`: a hash
of what stood before its thinking, and which thinking was sent before it. A request keeps a thinking block
only if the hash still fits, and only as one unbroken run that ends with the newest block that fits.

Bodies are those of Anthropic's Messages API and of Bedrock's Converse API.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

from autonomy_ctx.formats.base import (
    ANTHROPIC,
    BEDROCK,
    NO_THINKING,
    ModelReply,
    ThinkingUse,
    WireRequest,
    content_of,
    signature_of,
)
from autonomy_ctx.formats.incoming import as_mapping, as_mappings
from autonomy_ctx.formats.model_table import find_model
from autonomy_ctx.messages.message import Message, Part, ThinkingContent
from autonomy_ctx.messages.summary import SummaryBlock

# Under this name the extra fields of a message have what `ThinkingPrefix` says.
EXTRA_NAME = "thinking_prefix"
# With it, a request may say what the provider does with thinking that does not fit.
BINDING_BETA = "thinking-binding-controls-2026-08-01"
# Why thinking is left out.
CONTEXT_CHANGED = "the context before it has changed"
CONTEXT_UNKNOWN = "it is not known which context it was made with"
PROVIDER_REFUSED = "the provider refused it"
OTHER_PROVIDER = "another provider made it"
WITHOUT_ANSWER = "no answer follows it"

# How many swaps thinking survives.
MAX_CHAINS = 8

_GOOGLE_SIGNATURE = "thought_signature"
_TAGLESS_OWNERS = (ANTHROPIC, BEDROCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingPrefix:
    """Context before the thinking of a reply: a hash, and the thinking that was sent before it.

    `after` names the last thinking block before it, and `count` is the number of all of them. `calls_at` is
    where the tool calls stood among the parts, if not at the end.
    """

    hash: str
    after: str | None = None
    count: int = 0
    calls_at: tuple[int, ...] = ()


def read_prefix(message: Message) -> ThinkingPrefix | None:
    """Prefix that was stored with a message that has thinking."""
    stored = as_mapping(message.extra.get(EXTRA_NAME)) if message.extra else {}
    if not isinstance(stored.get("hash"), str):
        return None
    after, count = stored.get("after"), stored.get("count")
    return ThinkingPrefix(
        hash=stored["hash"],
        after=after if isinstance(after, str) else None,
        count=count if isinstance(count, int) else 0,
        calls_at=tuple(at for at in stored.get("calls_at") or () if isinstance(at, int)),
    )


def binds_thinking(model: str) -> bool | None:
    """Tell if a model checks what stands before thinking; None if no model is named.

    Claude models with an unknown name count as new ones.
    """
    if not model:
        return None
    info = find_model(model)
    return "claude" in model if info is None else info.binds_thinking


def drop_refused(messages: Sequence[Message], owner: str) -> Sequence[Message]:
    """The messages without the thinking that a provider has refused: all before the reply that says so."""
    last = max((at for at, message in enumerate(messages) if _refuses(message, owner)), default=0)
    return [*(without_thinking(message, owner) for message in messages[:last]), *messages[last:]]


def _refuses(message: Message, owner: str) -> bool:
    """True for a reply that says that the provider refused the thinking before it."""
    return bool(message.extra) and as_mapping(message.extra.get(EXTRA_NAME)).get("refused") == owner


def without_thinking(message: Message, owner: str | None = None) -> Message:
    """A message without its thinking; with an `owner`, only without the thinking that this provider made."""

    def is_kept(part: Part) -> bool:
        if owner is None or not isinstance(part, ThinkingContent):
            return not isinstance(part, ThinkingContent)
        mark, untagged = part.signature or part.redacted, owner in _TAGLESS_OWNERS
        return mark is not None and signature_of(owner, mark, accept_untagged=untagged) is None

    parts = list(filter(is_kept, message.parts))
    calls = message.tool_calls
    if any(_GOOGLE_SIGNATURE in call.extra for call in calls) and owner in (None, "google"):
        calls = tuple(
            replace(
                call, extra={name: value for name, value in call.extra.items() if name != _GOOGLE_SIGNATURE}
            )
            for call in calls
        )
    if len(parts) == len(message.parts) and calls is message.tool_calls:
        return message
    return replace(message, content=content_of(parts), tool_calls=calls)


class _SentBlock(NamedTuple):
    """A thinking block of a request: its name, where it stands, and the hashes of what stands before it.

    There are several behind a summary that the provider wrote: see `_Chain`.
    """

    id: str
    turn: int
    states: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Group:
    """All thinking of one stored message: it is sent together or not at all."""

    prefix: ThinkingPrefix | None
    ids: list[str]
    blocks: list[_SentBlock] = field(default_factory=list)
    is_kept: bool = False

    @property
    def fits(self) -> bool:
        """True if everything before it is as it was."""
        if self.prefix is None or [block.id for block in self.blocks] != self.ids:
            return False
        chains = zip(*(block.states for block in self.blocks), strict=True)
        return self.prefix.hash in {_hash(*chain) for chain in chains}


def select_thinking(
    body: dict[str, Any],
    messages: Sequence[Message],
    owner: str,
    model: str,
    block: SummaryBlock | None = None,
) -> ThinkingUse:
    """Take the thinking out of a request that the provider would refuse; says what was kept and left out.

    `block` is the summary that the body begins with, if the provider wrote one.
    """
    groups = _group_by_message(messages, owner)
    made = sum(isinstance(part, ThinkingContent) for message in messages for part in message.parts)
    if not made:
        return NO_THINKING
    sent = _Chain(body, continued_states(block, model)).thinking if groups else []
    own = sum(len(group.ids) for group in groups)
    is_refused = any(_refuses(message, owner) for message in messages)
    missing = PROVIDER_REFUSED if is_refused else WITHOUT_ANSWER
    left_out = Counter({OTHER_PROVIDER: made - own, missing: own - len(sent)})
    by_id = {name: group for group in groups for name in group.ids}
    for one in sent:
        if one.id in by_id:
            by_id[one.id].blocks.append(one)
    groups = [group for group in groups if group.blocks]
    _choose_run(groups, loop_from=_loop_start(body), is_bound=binds_thinking(model))
    ids = {block.id for group in groups if group.is_kept for block in group.blocks}
    for group in groups:
        if not group.is_kept:
            left_out[CONTEXT_UNKNOWN if group.prefix is None else CONTEXT_CHANGED] += len(group.blocks)
    if len(ids) < len(sent):
        for turn in body["messages"]:
            turn["content"] = [
                block for block in turn["content"] if (name := _thinking_id(block)) is None or name in ids
            ]
    turn_thinking_off_where_required(body)
    return ThinkingUse(sent=tuple(block.id for block in sent if block.id in ids), left_out=dict(+left_out))


def _choose_run(groups: Sequence[_Group], *, loop_from: int, is_bound: bool | None) -> None:
    """Mark the longest unbroken run of thinking that ends with the newest that fits.

    A block that was left out once is not in the run that newer replies name: it stays out, the run goes on.
    """
    # How many blocks may stand before the ones that were looked at, and which one right before them.
    room = float("inf")
    before: str | None = None
    is_linked = has_kept = False
    for group in reversed(groups):
        size, prefix = len(group.blocks), group.prefix
        if prefix is None:
            # Made by a client of the user's own, or stored by an older version. Current models refuse it if
            # anything has changed; others need it inside a tool loop.
            in_loop = all(block.turn >= loop_from for block in group.blocks)
            if is_bound or (is_bound is None and not in_loop):
                continue
        if is_linked and before != group.ids[-1]:
            continue
        fits = prefix is None or group.fits
        if room < size or (has_kept and not fits):
            # A gap: the newer ones were made with this one before them.
            return
        group.is_kept = has_kept = fits
        room = min(room - size, float("inf") if prefix is None else prefix.count)
        is_linked, before = prefix is not None, None if prefix is None else prefix.after


def record_prefix(reply: ModelReply, body: Mapping[str, Any], owner: str, use: ThinkingUse) -> ModelReply:
    """A reply with what stood before its thinking, for memory to keep beside it.

    After a request that was refused for its thinking, the reply says that nothing before it is sent again.
    """
    stored: dict[str, Any] = {"refused": owner} if use.refused else {}
    if use.refused_block:
        stored["refused_block"] = use.refused_block
    if any(_thinking_id(block) for block in reply.blocks):
        sent = () if use.refused else use.sent
        state = _Chain(body).states[-1]
        states: list[str] = []
        for block in reply.blocks:
            if _thinking_id(block) is None:
                state = _next_state(state, "assistant", block)
            else:
                states.append(state)
        stored |= {"hash": _hash(*states), "after": sent[-1] if sent else None, "count": len(sent)}
        if reply.calls_at:
            stored["calls_at"] = list(reply.calls_at)
    extra = {**reply.extra, EXTRA_NAME: stored} if stored else reply.extra
    return replace(reply, extra=extra, thinking=use)


def record_request(reply: ModelReply, request: Mapping[str, Any], owner: str) -> ModelReply:
    """A reply with what stood before its thinking, for a request of the user's own client."""
    sent = tuple(block.id for block in _Chain(request).thinking)
    return record_prefix(reply, request, owner, ThinkingUse(sent=sent))


def let_provider_drop(request: WireRequest, model: str) -> WireRequest | None:
    """The request again, in which the provider drops the thinking that does not fit; None if it cannot."""
    body = dict(request.body)
    is_bedrock = request.path.startswith("/model/")
    fields = dict(as_mapping(body.get("additionalModelRequestFields"))) if is_bedrock else body
    thinking = as_mapping(fields.get("thinking")) or {"type": "adaptive"}
    if not binds_thinking(model) or thinking.get("type") not in ("adaptive", "enabled"):
        return None
    fields["thinking"] = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    if not is_bedrock:
        return replace(request, body=fields, betas=(*request.betas, BINDING_BETA))
    fields["anthropic_beta"] = [*fields.get("anthropic_beta", ()), BINDING_BETA]
    return replace(request, body=body | {"additionalModelRequestFields": fields})


def _group_by_message(messages: Sequence[Message], owner: str) -> list[_Group]:
    groups: list[_Group] = []
    for message in messages:
        if type(message.content) is not tuple:
            continue
        marks = [
            signature_of(owner, part.signature or part.redacted, accept_untagged=True)
            for part in message.content
            if isinstance(part, ThinkingContent)
        ]
        ids = [_name_of(mark) for mark in marks if mark]
        if ids:
            groups.append(_Group(prefix=read_prefix(message), ids=ids))
    return groups


class ContinuedStates(NamedTuple):
    """Hashes of what a summary of the provider replaces, valid behind the same system prompt and tools."""

    start: str = ""
    states: tuple[str, ...] = ()


NO_STATES = ContinuedStates()


def continued_states(block: SummaryBlock | None, model: str) -> ContinuedStates:
    """The hashes with which a model checks the thinking behind a block; none if its writer kept none."""
    if block is None or (binds_thinking(model) and not binds_thinking(block.model)):
        return NO_STATES
    return ContinuedStates(block.start, block.states)


def read_states(body: Mapping[str, Any], before: ContinuedStates) -> ContinuedStates:
    """The hashes of a whole request, for the block that takes its place; `before` are those of its block."""
    chain = _Chain(body, before)
    return ContinuedStates(chain.start, tuple(chain.states[-MAX_CHAINS:]))


class _Chain:
    """A hash that grows block by block over a request, and the thinking blocks in it.

    Cache marks, the order of keys and thinking itself do not count. A request may begin with a summary that
    the provider wrote. The hashes of what it replaces then go on, before the one that begins with it, if a
    reply follows.
    """

    def __init__(self, body: Mapping[str, Any], before: ContinuedStates = NO_STATES) -> None:
        tools = body.get("tools") or as_mapping(body.get("toolConfig")).get("tools") or []
        offered = [tool for tool in _without_marks(tools) if not as_mapping(tool).get("defer_loading")]
        self.start = _hash(_canonical(_without_marks(body.get("system") or [])), _canonical(offered))
        self.states = [self.start]
        self.thinking: list[_SentBlock] = []
        is_behind_block = False
        for turn, message in enumerate(as_mappings(body.get("messages"))):
            content = message.get("content")
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
                name, role = _thinking_id(block), str(message.get("role"))
                if role != "assistant" and is_behind_block:
                    self.states = self.states[-1:]
                is_behind_block = block.get("type") == "compaction"
                if name is not None:
                    self.thinking.append(_SentBlock(name, turn, tuple(self.states)))
                elif "cachePoint" not in block:
                    self.states = [_next_state(state, role, block) for state in self.states]
                if is_behind_block and before.start == self.start:
                    self.states = [*before.states, *self.states]


def _next_state(state: str, role: str, block: Mapping[str, Any]) -> str:
    call = as_mapping(block.get("toolUse")) or block
    given = call.get("input")
    if isinstance(given, str):
        # A streamed call has its arguments as text.
        with suppress(ValueError, RecursionError):
            call = {**call, "input": json.loads(given or "{}")}
        block = {**block, "toolUse": call} if "toolUse" in block else call
    return _hash(state, role, _canonical(_without_marks(block)))


def _thinking_id(block: Mapping[str, Any]) -> str | None:
    """A short name for a thinking block, made from its signature; None for any other block."""
    if block.get("type") in ("thinking", "redacted_thinking"):
        return _name_of(block.get("signature") or block.get("data"))
    reasoning = block.get("reasoningContent")
    if isinstance(reasoning, Mapping):
        text = as_mapping(reasoning.get("reasoningText"))
        return _name_of(text.get("signature") or reasoning.get("redactedContent"))
    return None


def _name_of(mark: Any) -> str:
    """A short name for a signature; whatever a server has put in its place, too."""
    return _hash(mark if isinstance(mark, str) else _encode_bytes(mark))[:12]


def _hash(*texts: str) -> str:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_encode_bytes)


def _encode_bytes(value: Any) -> str:
    """Bytes as the JSON has them; Amazon's client takes them as they are."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _without_marks(value: Any) -> Any:
    """A copy of blocks or tools without cache marks; what a tool is given stays as it is."""
    if isinstance(value, list | tuple):
        return [
            _without_marks(one) for one in value if not (isinstance(one, Mapping) and "cachePoint" in one)
        ]
    if not isinstance(value, Mapping):
        return value
    return {
        name: inner if name in ("input", "input_schema", "json") else _without_marks(inner)
        for name, inner in value.items()
        if name != "cache_control"
    }


def _loop_start(body: Mapping[str, Any]) -> int:
    """The index of the first message after the newest one in which a user speaks."""
    messages = body["messages"]
    for at in range(len(messages) - 1, -1, -1):
        blocks = as_mappings(messages[at].get("content"))
        has_results = any(one.get("type") == "tool_result" or "toolResult" in one for one in blocks)
        if messages[at]["role"] == "user" and not has_results:
            return at + 1
    return 0


def turn_thinking_off_where_required(body: dict[str, Any]) -> None:
    """In manual mode, a model refuses a tool loop whose last reply does not begin with thinking."""
    at = _loop_start(body)
    last = next((one for one in reversed(body["messages"][at:]) if one["role"] == "assistant"), None)
    # A text alone makes no loop.
    blocks = [] if last is None else as_mappings(last["content"])
    if not blocks or _thinking_id(blocks[0]) is not None:
        return
    for options in (body, as_mapping(body.get("additionalModelRequestFields"))):
        if as_mapping(options.get("thinking")).get("type") != "enabled":
            continue
        if options is body:
            del body["thinking"]
        else:
            fields = {name: value for name, value in options.items() if name != "thinking"}
            body["additionalModelRequestFields"] = fields
