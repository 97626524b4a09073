"""OpenAI's Responses and Chat Completions APIs: checks, replies and usage.

Reasoning comes as encrypted items that go back with the item that followed them. Nothing is stored: a request
has the whole conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.formats.anthropic import read_blocks
from autonomy_ctx.formats.base import FIND_TOOLS, RESPONSES, ModelReply
from autonomy_ctx.formats.openai import OpenAIFormat
from autonomy_ctx.formats.openai_responses import ResponsesFormat
from autonomy_ctx.formats.reply_writer import (
    ChatReplyWriter,
    ReplyHead,
    ReplyWriter,
    ResponsesReplyWriter,
    reply_events,
)
from autonomy_ctx.testing.providers.cache import LIVES, CachePosition, CacheUse
from autonomy_ctx.testing.providers.diagnosis import diagnose_gpt
from autonomy_ctx.testing.providers.output_format import check_gpt_format
from autonomy_ctx.testing.providers.state import (
    Blocks,
    Body,
    ProviderRefusal,
    ProviderRequest,
    ProviderState,
    check_window,
    find_words,
    seal,
    to_canonical,
    unseal,
    without_marks,
)

# From this version on, prefixes are cached at marks.
_MARKED_CACHE = (5, 6)
# From this version on, tools may be searched for.
_TOOL_SEARCH = (5, 4)
# Tokens: older models report whole steps.
_STEP, _STEP_OF_5_5 = 128, 2048
# Seconds without a request, by `prompt_cache_retention`.
_RETENTION = {"in_memory": 300.0, "24h": 86_400.0}
_MARK = "prompt_cache_breakpoint"
# Nothing else may be said to the endpoint that compacts.
_COMPACT_FIELDS = {
    *("model", "input", "instructions", "previous_response_id", "service_tier"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
}


def answer_responses(state: ProviderState, body: Body, seen: ProviderRequest) -> Body:
    """Check a request of the Responses API, and answer it."""
    check_gpt_format(body)
    _check_tools(body)
    items = _read_input(state, body)
    use = _use_cache(state, body, items)
    state.count += 1
    seen.thinking = sum(item.get("type") == "reasoning" for item in items)
    seen.reply = [dict(block) for block in state.answer(body)]
    thoughts = [block for block in seen.reply if block["type"] == "thinking"]
    seen.use, seen.output = use, len(find_words(seen.reply))
    diagnosis = diagnose_gpt(state, body, use)
    state.sent[f"resp_{state.count:04}"] = body
    return {
        "id": f"resp_{state.count:04}",
        **diagnosis,
        "object": "response",
        "created_at": int(state.clock()),
        "model": seen.model,
        "status": "completed",
        "output": _make_output(state, seen.reply, _search_kind(body)),
        "usage": _responses_usage(use, seen.output, len(find_words(thoughts))),
    }


class _ResponseEvents(ResponsesReplyWriter):
    """A stream whose last event has the response as it was made, with its sealed items."""

    made: Body

    def _whole(self, reply: ModelReply) -> Body:
        return self.made


def write_events(made: Body, body: Body) -> bytes:
    """A reply of either API as the events of a stream."""
    head = ReplyHead(id=made["id"], model=made["model"], request=body)
    writer: ReplyWriter
    if "choices" in made:
        writer, reply = ChatReplyWriter(head), OpenAIFormat().reply(made)
    else:
        writer, reply = _ResponseEvents(head), ResponsesFormat().reply(made)
        writer.made = made
    return writer.feed(*reply_events(reply)) + writer.finish(reply)


def compact_responses(state: ProviderState, body: Body, seen: ProviderRequest) -> Body:
    """Replace everything but the user's messages by one encrypted item."""
    unknown = sorted(body.keys() - _COMPACT_FIELDS)
    if unknown:
        raise ProviderRefusal(
            f"Unknown parameter: '{unknown[0]}'.", code="unknown_parameter", param=unknown[0]
        )
    items = _read_input(state, body)
    use = _use_cache(state, body, items)
    state.count += 1
    if state.compaction_failures:
        state.compaction_failures.pop(0)
        raise ProviderRefusal("the server is overloaded", status=503, code="server_error")
    seen.reply = [dict(block) for block in state.answer(body) if block["type"] == "text"]
    seen.use, seen.output = use, len(find_words(seen.reply))
    text = "\n".join(str(block["text"]) for block in seen.reply)
    sealed = seal(state, {"organization": state.organization, "text": text})
    return {
        "id": f"resp_{state.count:04}",
        "object": "response.compaction",
        "created_at": int(state.clock()),
        "output": [
            *(item for item in items if item.get("role") == "user"),
            {"type": "compaction", "id": f"cmp_{state.count:04}", "encrypted_content": sealed},
        ],
        "usage": _responses_usage(use, seen.output, 0),
    }


def answer_chat(state: ProviderState, body: Body, seen: ProviderRequest) -> Body:
    """Check a request of the Chat Completions API, and answer it. Thinking is not shown."""
    messages = body.get("messages") or []
    _check_chat(messages)
    check_gpt_format(body)
    use = _use_cache(state, body, _chat_items(messages))
    state.count += 1
    seen.reply = [dict(block) for block in state.answer(body)]
    seen.use, seen.output = use, len(find_words(seen.reply))
    said = read_blocks((block for block in seen.reply if block["type"] != "thinking"), RESPONSES)
    reply = ModelReply(
        **said.fields(()),
        stop="tools" if any(block["type"] == "tool_use" for block in seen.reply) else "end",
        usage=use.to_usage(seen.output),
    )
    head = ReplyHead(id=f"chatcmpl-{state.count:04}", model=seen.model, created=int(state.clock()))
    return ChatReplyWriter(head).whole(reply)


# -- requests ------------------------------------------------------------------------------------


def _read_input(state: ProviderState, body: Body) -> Blocks:
    given = body.get("input") or []
    if body.get("previous_response_id") or body.get("conversation"):
        raise ProviderRefusal("nothing is stored here", code="previous_response_not_found")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    if not items:
        raise ProviderRefusal("Missing required parameter: 'input'.", param="input")
    _check_items(state, items)
    return items


def _search_kind(body: Body) -> str | None:
    """Who searches for tools: `server` or `client`; None if no search is offered."""
    found = [tool for tool in body.get("tools") or () if tool.get("type") == "tool_search"]
    return str(found[0].get("execution", "server")) if found else None


def _check_tools(body: Body) -> None:
    """Refuse a search that the model does not have, deferred tools without one, and its items without it."""
    search, tools = _search_kind(body), body.get("tools") or ()
    if search and _version_of(body) < _TOOL_SEARCH:
        raise ProviderRefusal("Tool 'tool_search' is not supported with this model.", param="tools")
    if search is None and any(tool.get("defer_loading") for tool in tools):
        raise ProviderRefusal("Deferred tools require the 'tool_search' tool.", param="tools")
    given = body.get("input")
    for item in given if isinstance(given, list) else ():
        if item.get("type") == "tool_search_output" and any(
            one.get("type") != "function" or not one.get("name") for one in item["tools"]
        ):
            raise ProviderRefusal("Invalid value for 'tools' of 'tool_search_output'.", param="input")


def _version_of(body: Body) -> tuple[int, int]:
    found = re.search(r"gpt-(\d+)(?:\.(\d+))?", str(body.get("model")))
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _check_items(state: ProviderState, items: Sequence[Mapping[str, Any]]) -> None:
    """Refuse calls without outputs, outputs without calls, and reasoning without what followed it."""
    calls: dict[str, None] = {}
    answered: set[str] = set()
    sent = {item.get("id") for item in items if item.get("type") == "reasoning"}
    for at, item in enumerate(items):
        match item.get("type"):
            case "function_call" | "tool_search_call":
                calls[str(item["call_id"])] = None
            case "function_call_output" | "tool_search_output":
                if item["call_id"] not in calls:
                    raise ProviderRefusal(
                        f"No tool call found for function call output with call_id {item['call_id']}.",
                        param="input",
                    )
                answered.add(str(item["call_id"]))
            case "reasoning":
                follower = next((one for one in items[at + 1 :] if one.get("type") != "reasoning"), {})
                if not _is_follower(follower, _open(state, item).get("follower")):
                    raise ProviderRefusal(
                        f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                        f"following item.",
                        param="input",
                    )
        # Without its id, an item can be sent without its reasoning.
        reasoning = state.reasoning.get(str(item.get("id")))
        if reasoning is not None and reasoning not in sent:
            raise ProviderRefusal(
                f"Item '{item['id']}' of type '{item.get('type')}' was provided without its required "
                f"'reasoning' item: '{reasoning}'.",
                param="input",
            )
    for call in calls:
        if call not in answered:
            raise ProviderRefusal(f"No tool output found for function call {call}.", param="input")


def _open(state: ProviderState, item: Mapping[str, Any]) -> dict[str, Any]:
    """Read an encrypted item; one that was changed, or is of another organization, is refused."""
    opened = unseal(state, item.get("encrypted_content"))
    if opened is None or opened.get("organization") != state.organization:
        raise ProviderRefusal(
            f"The encrypted content for item {item.get('id')} could not be verified.",
            code="invalid_encrypted_content",
        )
    return opened


def _is_follower(item: Mapping[str, Any], expected: Any) -> bool:
    if item.get("type") in ("function_call", "tool_search_call"):
        return bool(item["call_id"] == expected)
    return expected == "message" and item.get("role") == "assistant"


def _check_chat(messages: Sequence[Mapping[str, Any]]) -> None:
    """Refuse calls that the messages right after them do not answer, and answers without calls."""
    calls: list[str] = []
    for at, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in calls:
                raise ProviderRefusal(
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                    param=f"messages.[{at}].role",
                )
            calls.remove(message["tool_call_id"])
            continue
        if calls:
            raise ProviderRefusal(
                f"An assistant message with 'tool_calls' must be followed by tool messages responding to "
                f"each 'tool_call_id'. The following tool_call_ids did not have response messages: "
                f"{', '.join(calls)}",
                param="messages",
            )
        calls = [call["id"] for call in message.get("tool_calls") or ()]


def _chat_items(messages: Sequence[Mapping[str, Any]]) -> Blocks:
    """Messages of Chat Completions as items of Responses."""
    items: Blocks = []
    for message in messages:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "output": message.get("content")})
            continue
        if message.get("content"):
            items.append({"role": message["role"], "content": message["content"]})
        items += [{"type": "function_call", **call["function"]} for call in message.get("tool_calls") or ()]
    return items


# -- the cache -----------------------------------------------------------------------------------


def _use_cache(state: ProviderState, body: Body, items: Blocks) -> CacheUse:
    positions = _list_positions(state, body, items)
    total = sum(len(one.words) for one in positions)
    check_window(
        state, total, code="context_length_exceeded", param="input" if "input" in body else "messages"
    )
    model = str(body.get("model"))
    version = _version_of(body)
    owner = [state.organization, model]
    if version < _MARKED_CACHE:
        life = _RETENTION[body.get("prompt_cache_retention") or "24h"]
        step = _STEP_OF_5_5 if version == (5, 5) else _STEP
        return state.cache.use_longest(
            to_canonical(owner), positions, step=step, life=life, now=state.clock()
        )
    options = body.get("prompt_cache_options") or {}
    text = body.get("text") or {}
    key = [
        *owner,
        body.get("prompt_cache_key"),
        text.get("format", body.get("response_format")),
        text.get("verbosity", body.get("verbosity")),
        (body.get("reasoning") or {}).get("effort", body.get("reasoning_effort")),
        body.get("parallel_tool_calls"),
    ]
    return state.cache.use_marks(
        to_canonical(key),
        positions,
        implicit_life=None if options.get("mode") == "explicit" else LIVES[options.get("ttl", "30m")],
        # Without a key, the provider promises no hit.
        is_readable=body.get("prompt_cache_key") is not None,
        now=state.clock(),
    )


def _list_positions(state: ProviderState, body: Body, items: Blocks) -> list[CachePosition]:
    """A prompt as GPT caches it: tools, instructions, and the parts of the items."""
    default = (body.get("prompt_cache_options") or {}).get("ttl", "30m")
    head = [*(body.get("tools") or ()), *filter(None, [body.get("instructions")])]
    made = [_make_position("head", one, None, default, implicit=False) for one in head]
    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else {}
        role = str(item.get("role", item.get("type")))
        content = item.get("content")
        if item.get("type") == "compaction":
            content = _open(state, item).get("text", "")
        elif item.get("role") is None:
            content = None
        parts: list[Any] = content if isinstance(content, list) else [item if content is None else content]
        ends = _is_message_end(items[:at], role, str(following.get("role", following.get("type"))))
        for number, part in enumerate(parts, 1):
            mark = _find_mark(part) if role != "assistant" else None
            made.append(_make_position(role, part, mark, default, implicit=ends and number == len(parts)))
    return made


def _is_message_end(before: Blocks, role: str, following: str) -> bool:
    """Tell whether GPT sets a mark itself after an item: of the user, after outputs, or the first rules."""
    if role == "function_call_output":
        return following != role
    rules = ("developer", "system")
    is_first = role in rules and following not in rules and all(one.get("role") in rules for one in before)
    return role == "user" or is_first


def _find_mark(part: Any) -> Mapping[str, Any] | None:
    """The mark of a part, or of the last part of a tool's output."""
    if not isinstance(part, Mapping):
        return None
    output = part.get("output")
    inner = [_find_mark(one) for one in output] if isinstance(output, list) else []
    return next(filter(None, [part.get(_MARK), *reversed(inner)]), None)


def _make_position(
    role: str, part: Any, mark: Mapping[str, Any] | None, default: str, *, implicit: bool
) -> CachePosition:
    return CachePosition(
        text=f"{role}{to_canonical(without_marks(part))}",
        words=tuple(f"{role} {word}" for word in find_words(part)),
        life=None if mark is None else LIVES[mark.get("ttl") or default],
        implicit=implicit,
    )


# -- replies -------------------------------------------------------------------------------------


def _make_output(state: ProviderState, reply: Sequence[Mapping[str, Any]], search: str | None) -> Blocks:
    """The content of a reply as items; reasoning is sealed with the item that follows it."""
    output: Blocks = []
    reasoning: str | None = None
    for number, block in enumerate(reply):
        name = f"{state.count:04}_{number}"
        match block["type"]:
            case "tool_use" if search == "client" and block["name"] == FIND_TOOLS:
                item: Body = {"type": "tool_search_call", "id": f"tsc_{name}", "call_id": block["id"]}
                item |= {"execution": search, "arguments": block["input"]}
            case "tool_use":
                item = {"type": "function_call", "id": f"fc_{name}", "call_id": block["id"]}
                item |= {"name": block["name"], "arguments": json.dumps(block["input"])}
            case "text":
                text = {"type": "output_text", "text": block["text"], "annotations": []}
                item = {"type": "message", "id": f"msg_{name}", "role": "assistant", "content": [text]}
            case _:
                following = next((one for one in reply[number:] if one["type"] in ("tool_use", "text")), {})
                follower = following.get("id", "message")
                summary = (
                    [{"type": "summary_text", "text": block["thinking"]}] if block.get("thinking") else []
                )
                sealed = seal(state, {"organization": state.organization, "follower": follower})
                reasoning = f"rs_{name}"
                output.append(
                    {"type": "reasoning", "id": reasoning, "summary": summary, "encrypted_content": sealed}
                )
                continue
        output.append({**item, "status": "completed"})
        if reasoning is not None:
            state.reasoning[item["id"]] = reasoning
            reasoning = None
    return output


def _responses_usage(use: CacheUse, output: int, thoughts: int) -> Body:
    return {
        "input_tokens": use.total,
        "input_tokens_details": {
            "cached_tokens": use.cached,
            "cache_write_tokens": use.written,
            "cache_write_tokens_details": {
                "ttl_30m_tokens": use.written - use.written_long,
                "ttl_12h_tokens": use.written_long,
            },
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thoughts},
        "total_tokens": use.total + output,
    }
