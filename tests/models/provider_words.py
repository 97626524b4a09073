"""What each provider says on the wire, whole and in pieces, and what it refuses."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from formats.frames import event as frame
from formats.rules import google_rules, openai_rules, responses_rules
from formats.rules_anthropic import anthropic_rules, bedrock_rules

SIGNATURE = base64.b64encode(b"signed by the provider").decode()
INPUT_TOKENS, OUTPUT_TOKENS = 900, 12
# When an answer was made, in seconds since 1970.
CREATED = 1_893_456_000


@dataclass(frozen=True)
class Call:
    """A tool that the model calls."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Say:
    """What the model answers: thinking, text and calls, in this order."""

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: str = ""


@dataclass(frozen=True)
class Asked:
    """A request in the words of nobody: what the rules are, and what was said by whom, in order."""

    system: list[str]
    said: list[tuple[str, str]]
    tools: list[str]


class Words(Protocol):
    """One provider's protocol."""

    name: ClassVar[str]
    overloaded: ClassVar[Any]
    too_long: ClassVar[Any]

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> bool:
        """Raise AssertionError for what the provider refuses; whether a stream is asked for."""

    def whole(self, say: Say) -> Any:
        """The body of a whole answer."""

    def pieces(self, say: Say) -> list[bytes]:
        """The answer as a stream, cut where a provider cuts it; the first text is in the third piece."""

    def asked(self, body: Any) -> Asked:
        """What a request says."""


def sse(value: Any, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def halves(text: str) -> Iterator[str]:
    """A text in two pieces."""
    middle = len(text) // 2
    yield from filter(None, (text[:middle], text[middle:]))


def _bearer(headers: Mapping[str, str]) -> None:
    assert headers["authorization"].startswith("Bearer "), "a key is needed"


def _is_ours(headers: Mapping[str, str]) -> bool:
    """Whether a request was written here. Other clients write some things in other ways that are allowed."""
    return headers.get("user-agent") == "autonomy-ctx"


def _chat_as_we_write(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body of chat completions with text in one piece, without names of speakers and empty fields."""
    messages = []
    for message in body["messages"]:
        one = dict(message)
        if one["role"] in ("assistant", "tool"):
            one["content"] = _joined(one.get("content"), "text")
        if one["role"] == "assistant":
            one.pop("name", None)
            if one.get("refusal") is None:
                one.pop("refusal", None)
            if one.get("tool_calls"):
                one["content"] = one["content"] or None
        messages.append(one)
    return {**body, "messages": messages}


def _input_as_we_write(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body of responses whose messages say their type, and have rules and answers as one text.

    Custom tools take a text. Here they are functions with one argument; tools of the provider are left out.
    """
    items = []
    for item in body["input"]:
        one = {"type": "message", **item}
        match one["type"]:
            case "message" if one["role"] == "assistant":
                one["content"] = _joined(one["content"], "output_text")
            case "message" if one["role"] != "user":
                one["content"] = _joined(one["content"], "input_text")
            case "custom_tool_call":
                assert isinstance(one["input"], str), "a custom tool takes a text"
                one |= {"type": "function_call", "arguments": json.dumps({"input": one["input"]})}
            case "custom_tool_call_output":
                one["type"] = "function_call_output"
        items.append(one)
    tools = [one for one in body.get("tools", ()) if one["type"] == "function"]
    return {**body, "input": items, "tools": tools}


def _joined(content: Any, kind: str) -> Any:
    """Parts of one kind as one text; anything else as it is."""
    if not isinstance(content, list) or not content or any(part["type"] != kind for part in content):
        return content
    return "\n".join(part["text"] for part in content)


class OpenAI:
    """Chat completions."""

    name: ClassVar[str] = "openai"
    overloaded: ClassVar[Any] = {"error": {"message": "overloaded", "type": "server_error", "code": None}}
    too_long: ClassVar[Any] = {
        "error": {
            "message": "This model's maximum context length is 16384 tokens. However, your messages resulted "
            "in 20211 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> bool:
        assert path == "/v1/chat/completions", f"no such path {path}"
        _bearer(headers)
        openai_rules(body if _is_ours(headers) else _chat_as_we_write(body))
        return bool(body.get("stream"))

    def whole(self, say: Say) -> Any:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in say.calls
        ]
        message: dict[str, Any] = {"role": "assistant", "content": say.text or None, "refusal": None}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"reasoning_content": say.thinking} if say.thinking else {}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": CREATED,
            "model": "served",
            "choices": [{"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}],
            "usage": self._usage(),
        }

    def pieces(self, say: Say) -> list[bytes]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": one} for one in halves(say.thinking)] or [{}]
        deltas += [{"content": one} for one in halves(say.text)]
        for index, call in enumerate(say.calls):
            named = {"name": call.name, "arguments": ""}
            deltas.append(
                {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": named}]}
            )
            for part in halves(json.dumps(call.arguments)):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        stop = "tool_calls" if say.calls else "stop"
        choices: list[Any] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
        choices.append([{"index": 0, "delta": {}, "finish_reason": stop}])
        about = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": "served",
        }
        made = [sse({**about, "choices": choice}) for choice in choices]
        return [*made, sse({**about, "choices": [], "usage": self._usage()}), b"data: [DONE]\n\n"]

    def asked(self, body: Any) -> Asked:
        said = [(one["role"], _texts(one.get("content"))) for one in body["messages"]]
        return Asked(
            system=[text for role, text in said if role in ("system", "developer")],
            said=[(role, text) for role, text in said if role not in ("system", "developer")],
            tools=[tool["function"]["name"] for tool in body.get("tools", ())],
        )

    def _usage(self) -> Any:
        return {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            "prompt_tokens_details": {"cached_tokens": 512},
        }


class Responses:
    """OpenAI's Responses."""

    name: ClassVar[str] = "responses"
    overloaded: ClassVar[Any] = {
        "error": {"message": "overloaded", "type": "server_error", "code": "server_error"}
    }
    too_long: ClassVar[Any] = {
        "error": {
            "message": "Your input exceeds the context window of this model. Please adjust your input and "
            "try again.",
            "type": "invalid_request_error",
            "param": "input",
            "code": "context_length_exceeded",
        }
    }

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> bool:
        assert path == "/v1/responses", f"no such path {path}"
        _bearer(headers)
        responses_rules(body if _is_ours(headers) else _input_as_we_write(body))
        return bool(body.get("stream"))

    def whole(self, say: Say) -> Any:
        return {
            "id": "resp-1",
            "object": "response",
            "status": "completed",
            "model": "served",
            "error": None,
            "output": self._items(say),
            "usage": {
                "input_tokens": INPUT_TOKENS,
                "output_tokens": OUTPUT_TOKENS,
                "input_tokens_details": {"cached_tokens": 512},
            },
        }

    def pieces(self, say: Say) -> list[bytes]:
        whole = self.whole(say)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        made: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(whole["output"]):
            about = {"output_index": index, "item_id": item["id"]}
            empty: dict[str, Any] = {
                "message": {"content": []},
                "function_call": {"arguments": ""},
                "reasoning": {},
            }
            added = {**item, **empty[item["type"]], "status": "in_progress"}
            made.append({"type": "response.output_item.added", "output_index": index, "item": added})
            if item["type"] == "message":
                part = {"type": "output_text", "text": "", "annotations": []}
                made.append(
                    {"type": "response.content_part.added", **about, "content_index": 0, "part": part}
                )
                kind = {"type": "response.output_text.delta", "content_index": 0}
                made += [{**kind, **about, "delta": one} for one in halves(say.text)]
            elif item["type"] == "function_call":
                kind = {"type": "response.function_call_arguments.delta"}
                made += [{**kind, **about, "delta": one} for one in halves(item["arguments"])]
            else:
                kind = {"type": "response.reasoning_summary_text.delta", "summary_index": 0}
                made += [{**kind, **about, "delta": one} for one in halves(say.thinking)]
            made.append({"type": "response.output_item.done", "output_index": index, "item": item})
        made.append({"type": "response.completed", "response": whole})
        pieces: list[bytes] = []
        for at, one in enumerate(made):
            event = sse({**one, "sequence_number": at}, one["type"])
            # A message and its first part begin together.
            if one["type"] == "response.content_part.added":
                pieces[-1] += event
            else:
                pieces.append(event)
        return pieces

    def asked(self, body: Any) -> Asked:
        said: list[tuple[str, str]] = []
        for item in body["input"]:
            match item.get("type", "message"):
                case "message":
                    said.append((item["role"], _texts(item["content"])))
                case "function_call_output":
                    said.append(("tool", _texts(item["output"])))
        return Asked(
            system=[text for role, text in said if role in ("system", "developer")],
            said=[(role, text) for role, text in said if role not in ("system", "developer")],
            tools=[tool["name"] for tool in body.get("tools", ())],
        )

    def _items(self, say: Say) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if say.thinking:
            summary = [{"type": "summary_text", "text": say.thinking}]
            items.append(
                {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": SIGNATURE}
            )
        if say.text:
            content = [{"type": "output_text", "text": say.text, "annotations": []}]
            items.append({"type": "message", "id": "msg_1", "role": "assistant", "content": content})
        for call in say.calls:
            arguments = json.dumps(call.arguments)
            named = {"id": f"fc_{call.id}", "call_id": call.id, "name": call.name, "arguments": arguments}
            items.append({"type": "function_call", "status": "completed", **named})
        return [{"status": "completed", **item} for item in items]


class Anthropic:
    """Anthropic's Messages."""

    name: ClassVar[str] = "anthropic"
    overloaded: ClassVar[Any] = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    too_long: ClassVar[Any] = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 20211 tokens > 16384 maximum",
        },
    }

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> bool:
        assert path == "/v1/messages", f"no such path {path}"
        # Anthropic's own client sends it as a bearer's.
        assert headers.get("x-api-key") or headers["authorization"].startswith("Bearer "), "a key is needed"
        assert headers.get("anthropic-version"), "a version is needed"
        anthropic_rules(body)
        return bool(body.get("stream"))

    def whole(self, say: Say) -> Any:
        blocks: list[dict[str, Any]] = []
        if say.thinking:
            blocks.append({"type": "thinking", "thinking": say.thinking, "signature": SIGNATURE})
        if say.text:
            blocks.append({"type": "text", "text": say.text})
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
            for call in say.calls
        ]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "served",
            "content": blocks,
            "stop_reason": "tool_use" if say.calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": INPUT_TOKENS - 512,
                "cache_read_input_tokens": 512,
                "cache_creation_input_tokens": 0,
                "output_tokens": OUTPUT_TOKENS,
            },
        }

    def pieces(self, say: Say) -> list[bytes]:
        whole = self.whole(say)
        made: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        ]
        for index, block in enumerate(whole["content"]):
            empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
            start = {**block, **empty.get(block["type"], {"input": {}})}
            made.append({"type": "content_block_start", "index": index, "content_block": start})
            deltas: list[dict[str, Any]]
            if block["type"] == "text":
                deltas = [{"type": "text_delta", "text": one} for one in halves(say.text)]
            elif block["type"] == "thinking":
                deltas = [{"type": "thinking_delta", "thinking": one} for one in halves(say.thinking)]
                deltas.append({"type": "signature_delta", "signature": SIGNATURE})
            else:
                arguments = json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": one} for one in halves(arguments)]
            made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            made.append({"type": "content_block_stop", "index": index})
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        made.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": OUTPUT_TOKENS}})
        made.append({"type": "message_stop"})
        return [sse(one, one["type"]) for one in made]

    def asked(self, body: Any) -> Asked:
        said: list[tuple[str, str]] = []
        for message in body["messages"]:
            for block in message["content"]:
                match block["type"]:
                    case "text":
                        said.append((message["role"], block["text"]))
                    case "tool_result":
                        said.append(("tool", _texts(block["content"])))
        return Asked(
            system=[block["text"] for block in body.get("system", ())],
            said=said,
            tools=[tool["name"] for tool in body.get("tools", ())],
        )


class Google:
    """Google's generateContent."""

    name: ClassVar[str] = "google"
    overloaded: ClassVar[Any] = {
        "error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
    }
    too_long: ClassVar[Any] = {
        "error": {
            "code": 400,
            "message": "The input token count (20211) exceeds the maximum number of tokens allowed (16384).",
            "status": "INVALID_ARGUMENT",
        }
    }

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> bool:
        # Google's own client asks for another version.
        path = path.replace("/v1/", "/v1beta/")
        streamed = "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
        assert path in ("/v1beta/models/gemini-3-pro:generateContent", streamed), f"no such path {path}"
        assert headers.get("x-goog-api-key"), "a key is needed"
        assert "key=" not in path, "a key in an address would be logged"
        # Both spellings of a field are one to the service, and its own client mixes them.
        spelling = {"parameters_json_schema": "parametersJsonSchema", "mime_type": "mimeType"}
        text = json.dumps(body)
        for other, one in spelling.items():
            text = text.replace(f'"{other}"', f'"{one}"')
        google_rules(json.loads(text))
        for content in body["contents"]:
            # Only the first call of several at once is signed.
            calls = [part for part in content["parts"] if "functionCall" in part]
            assert not calls or calls[0].get("thoughtSignature"), "a call of a newer model is signed"
        return path == streamed

    def whole(self, say: Say) -> Any:
        return {
            "candidates": [
                {"content": {"role": "model", "parts": self._parts(say)}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": INPUT_TOKENS,
                "cachedContentTokenCount": 512,
                "candidatesTokenCount": OUTPUT_TOKENS,
            },
            "modelVersion": "served",
            "responseId": "r-1",
        }

    def pieces(self, say: Say) -> list[bytes]:
        whole = self.whole(say)
        parts: list[dict[str, Any]] = []
        for part in self._parts(say):
            if "text" in part:
                parts += [{**part, "text": one} for one in halves(part["text"])]
            else:
                parts.append(part)
        about = {"modelVersion": "served", "responseId": "r-1"}
        made: list[Any] = [{**about, "usageMetadata": {"promptTokenCount": INPUT_TOKENS}}, about]
        made += [
            {**about, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
            for part in parts
        ]
        made.append({**whole, "candidates": [{"finishReason": "STOP", "index": 0}]})
        return [sse(one) for one in made]

    def asked(self, body: Any) -> Asked:
        said: list[tuple[str, str]] = []
        for content in body["contents"]:
            role = "assistant" if content["role"] == "model" else "user"
            for part in content["parts"]:
                if "functionResponse" in part:
                    answer = part["functionResponse"]["response"]
                    said.append(("tool", str(answer.get("output", answer.get("error")))))
                elif part.get("text") and not part.get("thought"):
                    said.append((role, part["text"]))
        return Asked(
            system=[part["text"] for part in body.get("systemInstruction", {}).get("parts", ())],
            said=said,
            tools=[one["name"] for tool in body.get("tools", ()) for one in tool["functionDeclarations"]],
        )

    def _parts(self, say: Say) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        if say.thinking:
            parts.append({"text": say.thinking, "thought": True})
        if say.text:
            parts.append({"text": say.text})
        for call in say.calls:
            parts.append({"functionCall": {"id": call.id, "name": call.name, "args": dict(call.arguments)}})
        if say.calls:
            parts[-len(say.calls)]["thoughtSignature"] = SIGNATURE
        return parts


class Bedrock:
    """Amazon Bedrock's Converse."""

    name: ClassVar[str] = "bedrock"
    overloaded: ClassVar[Any] = {
        "message": "Bedrock is unable to process your request.",
        "__type": "ServiceUnavailable",
    }
    too_long: ClassVar[Any] = {
        "message": "The model returned the following errors: Input is too long for requested model."
    }

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> bool:
        base, _, action = path.rpartition("/")
        assert base == "/model/amazon.nova-micro-v1%3A0", f"no such path {path}"
        assert action in ("converse", "converse-stream"), f"no such path {path}"
        _bearer(headers)
        bedrock_rules(body)
        return action == "converse-stream"

    def whole(self, say: Say) -> Any:
        return {
            "output": {"message": {"role": "assistant", "content": self._blocks(say)}},
            "stopReason": "tool_use" if say.calls else "end_turn",
            "usage": self._usage(),
            "metrics": {"latencyMs": 7},
        }

    def pieces(self, say: Say) -> list[bytes]:
        made = [frame("messageStart", {"role": "assistant"})]
        for index, block in enumerate(self._blocks(say)):
            about = {"contentBlockIndex": index}
            deltas: list[dict[str, Any]]
            start: dict[str, Any] = {}
            if "text" in block:
                deltas = [{"text": one} for one in ("", *halves(block["text"]))]
            elif "toolUse" in block:
                use = block["toolUse"]
                start = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
                deltas = [{"toolUse": {"input": one}} for one in halves(json.dumps(use["input"]))]
            else:
                deltas = [{"reasoningContent": {"text": one}} for one in halves(say.thinking)]
                deltas.append({"reasoningContent": {"signature": SIGNATURE}})
            # Only calls have a start: of its union exactly one member is set.
            made += [frame("contentBlockStart", {**about, "start": start})] if start else []
            made += [frame("contentBlockDelta", {**about, "delta": delta}) for delta in deltas]
            made.append(frame("contentBlockStop", about))
        made.append(frame("messageStop", {"stopReason": "tool_use" if say.calls else "end_turn"}))
        made.append(frame("metadata", {"usage": self._usage(), "metrics": {"latencyMs": 7}}))
        return made

    def asked(self, body: Any) -> Asked:
        said: list[tuple[str, str]] = []
        for message in body["messages"]:
            for block in message["content"]:
                if "text" in block:
                    said.append((message["role"], block["text"]))
                elif "toolResult" in block:
                    said.append(("tool", _texts(block["toolResult"]["content"])))
        specs = [tool["toolSpec"] for tool in body.get("toolConfig", {}).get("tools", ())]
        return Asked(
            system=[block["text"] for block in body.get("system", ()) if "text" in block],
            said=said,
            tools=[spec["name"] for spec in specs],
        )

    def _blocks(self, say: Say) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if say.thinking:
            thought = {"text": say.thinking, "signature": SIGNATURE}
            blocks.append({"reasoningContent": {"reasoningText": thought}})
        if say.text:
            blocks.append({"text": say.text})
        for call in say.calls:
            used = {"toolUseId": call.id, "name": call.name, "input": dict(call.arguments)}
            blocks.append({"toolUse": used})
        return blocks

    def _usage(self) -> Any:
        return {
            "inputTokens": INPUT_TOKENS - 512,
            "cacheReadInputTokens": 512,
            "outputTokens": OUTPUT_TOKENS,
            "totalTokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }


def _texts(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(part.get("text", "") for part in content)


ALL: Mapping[str, Callable[[], Words]] = {
    "openai": OpenAI,
    "responses": Responses,
    "anthropic": Anthropic,
    "google": Google,
    "bedrock": Bedrock,
}
