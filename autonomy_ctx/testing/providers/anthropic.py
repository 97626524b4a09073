"""Anthropic's Messages API: from a request to a reply, its usage and its stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autonomy_ctx.testing.providers import claude_checks as checks
from autonomy_ctx.testing.providers import compaction
from autonomy_ctx.testing.providers.cache import LIVES, CachePosition, CacheUse
from autonomy_ctx.testing.providers.claude_models import ClaudeModel
from autonomy_ctx.testing.providers.clearing import clear_tool_uses
from autonomy_ctx.testing.providers.diagnosis import diagnose_claude
from autonomy_ctx.testing.providers.output_format import check_claude_format
from autonomy_ctx.testing.providers.state import (
    Blocks,
    Body,
    ProviderRequest,
    ProviderState,
    check_window,
    find_words,
    to_canonical,
    without_marks,
)
from autonomy_ctx.testing.providers.thinking import (
    THINKING,
    PrefixChain,
    check_open_loop,
    check_thinking,
    sign_thinking,
    walk_blocks,
)

_ATTRIBUTION = "x-anthropic-billing-header:"


def answer_messages(
    state: ProviderState, body: Body, seen: ProviderRequest, *, counts: bool, is_bedrock: bool
) -> Body:
    """Check a request, and answer it or, for `counts`, count its tokens."""
    model = ClaudeModel.parse(seen.model)
    body = _without_attribution(body)
    betas = set(seen.headers.get("anthropic-beta", "").replace(" ", "").split(","))
    betas |= set(body.get("anthropic_beta", ()))
    messages = [_with_blocks(message) for message in body.get("messages", ())]
    compacts = "compaction" in body and not counts
    checks.check_options(body, model, betas)
    check_claude_format(body, model)
    checks.check_tools(body, messages)
    checks.check_marks(body, messages)
    if compacts:
        compaction.check_request(body, messages, model, betas, is_bedrock=is_bedrock)
    chain = PrefixChain(state, body)
    compaction.resume_chain(state, chain, messages, betas)
    checks.check_messages(messages, model, may_end_with_reply=compacts)
    check_thinking(state, chain, body, messages, seen)
    check_open_loop(state, body, messages)
    positions = _list_positions(body, messages, chain.dropped)
    original = sum(len(one.words) for one in positions)
    edited = clear_tool_uses(body, messages, original)
    if edited.applied:
        positions = _list_positions(body, edited.messages, chain.dropped)
    total = sum(len(one.words) for one in positions)
    check_window(state, total)
    if counts:
        managed = {"context_management": {"original_input_tokens": original}}
        return {"input_tokens": total, **(managed if "context_management" in body else {})}
    state.count += 1
    use = state.cache.use_claude(
        _cache_key(state, body), positions, least=model.min_cached_tokens, now=state.clock()
    )
    if compacts:
        made = compaction.summarize(state, chain, body, messages, model)
    else:
        said = [dict(block) for block in state.answer(body)]
        if (body.get("thinking") or {}).get("display") == "omitted":
            said = [block | ({"thinking": ""} if block["type"] == "thinking" else {}) for block in said]
        is_calling = any(block["type"] == "tool_use" for block in said)
        content = sign_thinking(state, chain, said, seen.model)
        made = {"content": content, "stop_reason": "tool_use" if is_calling else "end_turn"}
    seen.reply = made["content"]
    seen.use, seen.output = use, len(find_words(seen.reply))
    usage = _make_usage(use, seen.output)
    if compacts:
        nothing = _make_usage(CacheUse(), 0)
        usage = {**nothing, "iterations": [{"type": "compaction", **usage}]}
    reply = {
        "id": f"msg_{state.count:04}",
        "type": "message",
        "role": "assistant",
        "model": seen.model,
        **made,
        "stop_sequence": None,
        "usage": usage,
    }
    if "context_management" in body:
        seen.applied_edits = edited.applied
        reply["context_management"] = {"applied_edits": edited.applied}
    reply |= diagnose_claude(state, body, betas, use)
    state.sent[reply["id"]] = body
    if checks.BINDING_BETA in betas:
        reply["input_transformations"] = seen.transformations
    return reply


def _without_attribution(body: Body) -> Body:
    """A request without the block that names the version of Claude Code: no model sees it."""
    match body.get("system"):
        case [{"text": str(named)}, *system] if named.startswith(_ATTRIBUTION):
            return {**body, "system": system}
    return body


def _with_blocks(message: Mapping[str, Any]) -> Body:
    content = message.get("content", "")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    return {"role": None, **message, "content": blocks}


def _cache_key(state: ProviderState, body: Body) -> str:
    """Everything besides the content that a cached prefix belongs to."""
    thinking, output = body.get("thinking") or {}, body.get("output_config") or {}
    return to_canonical(
        [
            state.organization,
            body.get("model"),
            body.get("speed"),
            thinking.get("type"),
            thinking.get("budget_tokens"),
            output.get("effort"),
            # The model is told of it before everything else.
            output.get("format"),
            body.get("tool_choice") or {"type": "auto"},
        ]
    )


def _list_positions(body: Body, messages: Sequence[Body], dropped: set[str]) -> list[CachePosition]:
    """A prompt as Claude caches it: tools, system, and the blocks that the model sees."""
    system = body.get("system") or []
    texts: Blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    seen: list[tuple[str, Body]] = [
        ("tools", tool) for tool in body.get("tools") or () if not tool.get("defer_loading")
    ]
    seen += [("system", block) for block in texts]
    last_user = max((at for at, one in enumerate(messages) if one["role"] == "user"), default=0)
    for path, message, block in walk_blocks(messages):
        is_over = message.get("clear_at") == "next_user_message" and int(path.split(".")[1]) < last_user
        if path not in dropped and not is_over:
            seen.append((str(message["role"]), block))
    cacheable = [at for at, (_, block) in enumerate(seen) if block.get("type") not in THINKING]
    automatic = cacheable[-1] if cacheable and body.get("cache_control") else None
    return [
        _make_position(role, block, body["cache_control"] if at == automatic else None)
        for at, (role, block) in enumerate(seen)
    ]


def _make_position(role: str, block: Body, mark: Mapping[str, Any] | None) -> CachePosition:
    inner = block.get("content") if block.get("type") == "tool_result" else None
    marks = [one.get("cache_control") for one in inner] if isinstance(inner, list) else []
    found = next(filter(None, [block.get("cache_control"), mark, *marks]), None)
    # The order of arguments counts here, though not for the prefix of thinking.
    text = f"{role}{to_canonical(without_marks(block))}{json.dumps(block.get('input'))}"
    return CachePosition(
        text=text,
        words=tuple(find_words(block)),
        life=None if found is None else LIVES[found.get("ttl", "5m")],
    )


def _make_usage(use: CacheUse, output: int) -> Body:
    return {
        "input_tokens": use.uncached,
        "cache_read_input_tokens": use.cached,
        "cache_creation_input_tokens": use.written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": use.written - use.written_long,
            "ephemeral_1h_input_tokens": use.written_long,
        },
        "output_tokens": output,
    }


def make_events(reply: Mapping[str, Any]) -> Iterator[bytes]:
    """A reply as the server-sent events of the Messages API, each text in two pieces."""

    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

    yield event("message_start", message={**reply, "content": [], "stop_reason": None})
    for index, block in enumerate(reply["content"]):
        match block["type"]:
            case "text":
                half = len(block["text"]) // 2
                begun: Body = {"type": "text", "text": ""}
                deltas = [
                    {"type": "text_delta", "text": piece}
                    for piece in (block["text"][:half], block["text"][half:])
                ]
            case "thinking":
                begun = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}] * bool(block["thinking"])
                deltas += [{"type": "signature_delta", "signature": block["signature"]}]
            case "tool_use":
                begun = {**block, "input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
            case _:
                begun, deltas = dict(block), []
        yield event("content_block_start", index=index, content_block=begun)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    yield event("message_delta", delta={"stop_reason": reply["stop_reason"]}, usage=reply["usage"])
    yield event("message_stop")
