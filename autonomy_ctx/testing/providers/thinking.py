"""Thinking that is bound to the content before it: how Claude signs a block, and how it checks one.

A signature holds a hash of everything before its block that is not thinking, and the ids of the thinking
before it. Thinking that is sent back must be an unbroken part of the original sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autonomy_ctx.testing.providers.claude_models import ClaudeModel
from autonomy_ctx.testing.providers.state import (
    Blocks,
    Body,
    ProviderRefusal,
    ProviderRequest,
    ProviderState,
    make_hash,
    seal,
    to_canonical,
    unseal,
    without_marks,
)

THINKING = ("thinking", "redacted_thinking")


@dataclass(slots=True, kw_only=True)
class ThinkingSignature:
    """The content of a signature: its block, and what the block depends on."""

    id: str
    model: str
    organization: str
    system: str
    tools: str
    state: str
    run: list[str]
    text: str


class PrefixChain:
    """A hash over the prefix of a block without thinking, and the ids of the thinking before it.

    After a compaction there are several hashes: of the content that was summarized and all that follows, and
    of the summary and all that follows. The last one is signed; thinking may fit any of them.
    """

    def __init__(self, state: ProviderState, body: Body) -> None:
        system = without_marks(body.get("system") or [])
        if not state.strict_system_shape and isinstance(system, str):
            system = [{"type": "text", "text": system}]
        tools = without_marks(body.get("tools") or [])
        if not state.strict_tool_order:
            tools = sorted(tools, key=lambda tool: str(tool.get("name")))
        bound = [tool for tool in tools if not tool.get("defer_loading")]
        self._deferred = {str(tool.get("name")): tool for tool in tools if tool.get("defer_loading")}
        self.system, self.tools = make_hash(to_canonical(system)), make_hash(to_canonical(bound))
        self.start = make_hash(self.system, self.tools, state.hidden_prefix)
        self.states = [self.start]
        self.run: list[str] = []
        # The places of the blocks, each with the hash after it.
        self.trail: list[tuple[str, str]] = []
        # The places of thinking that the model does not get.
        self.dropped: set[str] = set()

    @property
    def state(self) -> str:
        """The hash that new thinking is signed with."""
        return self.states[-1]

    def add(self, role: str, block: Mapping[str, Any], path: str = "") -> None:
        """Go on to the next block."""
        content = [to_canonical(without_marks(block))]
        # A deferred tool is no part of the prefix until something names it.
        loaded = [self._deferred.pop(name) for name in find_references(block) if name in self._deferred]
        content += map(to_canonical, loaded)
        self.states = [make_hash(one, role, *content) for one in self.states]
        self.trail.append((path, self.state))

    def resume(self, states: Sequence[str], block: Mapping[str, Any]) -> None:
        """Begin again with a summary, after the states that the summarized content had."""
        self.states = [*states, make_hash(self.start, to_canonical(without_marks(block)))]
        self.trail = []

    def find_difference(self, signed: ThinkingSignature, before: frozenset[str]) -> str:
        """Name the first part of a request that a block was not made with."""
        if signed.system != self.system:
            return "The system prompt differs."
        if signed.tools != self.tools:
            return "The tools differ."
        changed = next((path for path, state in self.trail if state not in before), None)
        return f"{changed} differs." if changed else "Content or thinking before it is missing."


def find_references(value: Any) -> Iterator[str]:
    """The names of tools that a block refers to."""
    if isinstance(value, list):
        for one in value:
            yield from find_references(one)
    elif isinstance(value, Mapping):
        if value.get("type") == "tool_reference":
            yield str(value.get("tool_name", value.get("name")))
        for name, one in value.items():
            if name != "input":
                yield from find_references(one)


def read_signature(state: ProviderState, block: Mapping[str, Any], path: str) -> ThinkingSignature:
    """Read a signature; a request with a wrong one is refused, whatever the settings."""
    said = unseal(state, block.get("signature", block.get("data", "")))
    try:
        signed = ThinkingSignature(**(said or {}))
    except TypeError:
        signed = None
    text = str(block.get("thinking", ""))
    if signed is None or (text and signed.text and make_hash(text) != signed.text):
        raise ProviderRefusal(f"{path}: Invalid `signature` in `thinking` block")
    return signed


def check_thinking(
    state: ProviderState, chain: PrefixChain, body: Body, messages: Sequence[Body], seen: ProviderRequest
) -> None:
    """Walk the blocks of a request, and refuse or drop thinking whose prefix is another one."""
    model = ClaudeModel.parse(seen.model)
    asked = (body.get("thinking") or {}).get("block_binding", {}).get("prefix_mismatch_behavior")
    is_enforced = model.always_enforces or state.enforced or asked is not None
    is_dropping = False
    for path, message, block in walk_blocks(messages):
        if path.endswith(".content.0"):
            is_dropping = False
        if block["type"] not in THINKING:
            if block["type"] != "compaction":
                # A message that is cleared later is another one than a message that stays.
                chain.add(f"{message['role']}{message.get('clear_at', '')}", block, path)
            continue
        signed = read_signature(state, block, path)
        is_foreign = signed.organization != state.organization
        if is_foreign or not model.reads(ClaudeModel.parse(signed.model)):
            reason = "organization_binding_mismatch" if is_foreign else "model_binding_mismatch"
            seen.transformations.append({"type": "thinking_dropped", "path": path, "reason": reason})
            chain.dropped.add(path)
            chain.run.append(signed.id)
            continue
        run = chain.run
        is_fitting = signed.state in chain.states and (not run or run == signed.run[-len(run) :])
        if model.binds and (is_dropping or not is_fitting):
            kind = "thinking_dropped" if is_enforced else "thinking_mismatch_allowed"
            seen.transformations.append({"type": kind, "path": path, "reason": "prefix_binding_mismatch"})
            if is_enforced and asked != "drop_block":
                difference = chain.find_difference(signed, state.prefixes.get(signed.id, frozenset()))
                raise ProviderRefusal(
                    f"{path}: Invalid signature in thinking block. The block is bound to a different "
                    f"conversation. Send it only behind the content that it was made with. {difference}"
                )
            if is_enforced:
                chain.dropped.add(path)
                is_dropping = True
                continue
        chain.run.append(signed.id)
        seen.thinking += 1


def walk_blocks(messages: Sequence[Body]) -> Iterator[tuple[str, Body, Body]]:
    """All blocks, each with its place and its message."""
    for at, message in enumerate(messages):
        for place, block in enumerate(message["content"]):
            yield f"messages.{at}.content.{place}", message, block


def check_open_loop(state: ProviderState, body: Body, messages: Sequence[Body]) -> None:
    """In a tool loop, the thinking of the newest reply comes back complete or not at all."""
    at = max((at for at, one in enumerate(messages) if one["role"] == "assistant"), default=None)
    if at is None or not any(block["type"] == "tool_use" for block in messages[at]["content"]):
        return
    content = messages[at]["content"]
    sent = [read_signature(state, block, "").id for block in content if block["type"] in THINKING]
    for one in sent:
        whole = state.replies.get(one, [one])
        if [other for other in sent if other in whole] != whole:
            raise ProviderRefusal(
                f"messages.{at}: `thinking` or `redacted_thinking` blocks in the latest assistant "
                f"message cannot be modified. These blocks must remain as they were in the original "
                f"response."
            )
    if (body.get("thinking") or {}).get("type") == "enabled" and content[0]["type"] not in THINKING:
        raise ProviderRefusal(
            f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{content[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start "
            f"with a thinking block."
        )


def sign_thinking(
    state: ProviderState, chain: PrefixChain, content: Sequence[Mapping[str, Any]], model: str
) -> Blocks:
    """The content of a reply with signatures."""
    signed: Blocks = []
    made: list[str] = []
    for number, given in enumerate(content):
        block = dict(given)
        if block["type"] not in THINKING:
            chain.add("assistant", block)
            signed.append(block)
            continue
        text = str(block.get("thinking", ""))
        signature = ThinkingSignature(
            id=f"thinking-{state.count}-{number}",
            model=model,
            organization=state.organization,
            system=chain.system,
            tools=chain.tools,
            state=chain.state,
            run=list(chain.run),
            text=make_hash(text) if text else "",
        )
        mark = seal(state, asdict(signature))
        is_hidden = block["type"] == "redacted_thinking"
        signed.append(block | ({"data": mark} if is_hidden else {"thinking": text, "signature": mark}))
        state.prefixes[signature.id] = frozenset(hashed for _, hashed in chain.trail)
        chain.run.append(signature.id)
        made.append(signature.id)
    state.replies |= dict.fromkeys(made, made)
    return signed
