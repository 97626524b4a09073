"""What OpenAI and Google refuse, as plain functions: each raises AssertionError naming the broken rule."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.formats.outgoing import encode_request

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGE = re.compile(r"https?://\S+|data:image/[a-z]+;base64,[A-Za-z0-9+/]+={0,2}")


def openai_rules(body: Mapping[str, Any]) -> None:
    """A body of chat completions."""
    _is_json(body)
    messages = body["messages"]
    assert messages, "there must be a message"
    assert not {"max_tokens", "max_completion_tokens"} <= body.keys(), "one limit, not two"
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "tool":
            assert message.keys() == {"role", "tool_call_id", "content"}, "a result has no other fields"
            assert message["tool_call_id"] in waiting, "a result comes right after its call, once"
            assert isinstance(content, str), "a result is text"
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "every call is answered before anything else is said"
        assert role in ("system", "developer", "user", "assistant"), f"unknown role {role}"
        if role == "assistant":
            assert message.keys() <= {"role", "content", "tool_calls"}, "unknown field"
            calls = message.get("tool_calls")
            assert calls != [], "no calls is no list"
            assert (content is None and calls) or _is_text(content), "an answer says or calls something"
            waiting = [call["id"] for call in calls or ()]
            _calls_are_sound([(call["id"], call["function"]) for call in calls or ()], seen, longest=40)
        elif role == "user":
            assert message.keys() <= {"role", "content", "name"}, "unknown field"
            assert NAME.fullmatch(message.get("name", "x")), "a speaker's name is a word"
            _content_is_sound(content, text="text", image="image_url")
        else:
            assert message.keys() == {"role", "content"}, "unknown field"
            assert _is_text(content), "a rule is text"
    assert not waiting, "every call is answered"
    _tools_are_sound([tool["function"] for tool in body.get("tools", ())], "parameters")


def responses_rules(body: Mapping[str, Any]) -> None:
    """A body of Responses."""
    _is_json(body)
    items = body["input"]
    assert items, "there must be an item"
    assert body.get("max_output_tokens", 16) >= 16, "at least 16 tokens"
    waiting: list[str] = []
    seen: set[str] = set()
    answering = False
    for index, item in enumerate(items):
        match item["type"]:
            case "function_call_output":
                assert item["call_id"] in waiting, "an output comes right after its call, once"
                waiting.remove(item["call_id"])
                answering = bool(waiting)
                if item["output"] != "":
                    _content_is_sound(item["output"], text="input_text", image="input_image")
            case "function_call":
                assert not answering, "calls do not come among the outputs of others"
                _calls_are_sound([(item["call_id"], item)], seen, longest=64)
                waiting.append(item["call_id"])
            case "reasoning":
                assert item["encrypted_content"], "reasoning that is not stored is sent whole"
                after = [later for later in items[index + 1 :] if later["type"] != "reasoning"]
                led = after and (after[0]["type"] == "function_call" or after[0].get("role") == "assistant")
                assert led, "reasoning comes before what it led to"
            case "message":
                assert not waiting, "every call is answered before anything else is said"
                assert item["role"] in ("system", "developer", "user", "assistant")
                if item["role"] == "user":
                    _content_is_sound(item["content"], text="input_text", image="input_image")
                else:
                    assert _is_text(item["content"]), "text that is not empty"
            case kind:
                raise AssertionError(f"unknown item {kind}")
    assert not waiting, "every call is answered"
    _tools_are_sound(body.get("tools", ()), "parameters")


def google_rules(body: Mapping[str, Any]) -> None:
    """A body of generateContent."""
    _is_json(body)
    contents = body["contents"]
    assert contents, "there must be a content"
    assert contents[0]["role"] == "user", "a user's content comes first"
    waiting: list[tuple[str, str]] = []
    seen: set[str] = set()
    for index, content in enumerate(contents):
        assert content["role"] == ("user", "model")[index % 2], "user and model take turns"
        parts = content["parts"]
        assert parts, "a content has parts"
        assert not all(part.get("thought") for part in parts), "a content is more than thoughts"
        for part in parts:
            _part_is_sound(part)
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        assert not (calls and content["role"] == "user"), "only the model calls"
        assert not (answers and content["role"] == "model"), "only the user answers"
        assert sorted((answer["id"], answer["name"]) for answer in answers) == sorted(waiting), (
            "all calls of a content are answered in the next, by id and name"
        )
        assert all("functionResponse" in part for part in parts[: len(answers)]), "answers come first"
        waiting = [(call["id"], call["name"]) for call in calls]
        for call in calls:
            assert isinstance(call["args"], dict), "arguments are an object"
            assert NAME.fullmatch(call["name"]), "a name is a word"
            assert not call["name"][0].isdigit(), "a name starts with a letter or _"
            assert call["name"][0] != "-", "a name starts with a letter or _"
            assert call["id"] not in seen, "an id is used once"
            seen.add(call["id"])
    assert not waiting, "every call is answered"
    assert contents[-1]["role"] == "user", "a user's content comes last"
    system = body.get("systemInstruction")
    if system is not None:
        assert all(_is_text(part["text"]) for part in system["parts"]), "a rule is text"
        assert system["parts"], "a rule is not empty"
    declared = [one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]
    _tools_are_sound(declared, "parametersJsonSchema")
    config = body.get("generationConfig", {})
    if "responseJsonSchema" in config or "responseSchema" in config:
        assert config.get("responseMimeType") == "application/json", "a schema needs the type of JSON"
        assert not {"responseJsonSchema", "responseSchema"} <= config.keys(), "one schema, not two"


def _part_is_sound(part: Mapping[str, Any]) -> None:
    kinds = part.keys() & {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
    assert len(kinds) == 1, "a part is one thing"
    if "text" in part:
        assert part["text"] or part.get("thoughtSignature"), "no empty text"
    if "inlineData" in part:
        assert base64.b64decode(part["inlineData"]["data"], validate=True), "an image has bytes"
        assert part["inlineData"]["mimeType"].startswith("image/")
    if "fileData" in part:
        assert all(part["fileData"][name] for name in ("fileUri", "mimeType")), "an address and a type"
    signature = part.get("thoughtSignature")
    if signature is not None:
        base64.urlsafe_b64decode(signature.replace("+", "-").replace("/", "_") + "==")
    if "functionResponse" in part:
        assert part["functionResponse"]["response"].keys() <= {"output", "error"}


def _calls_are_sound(calls: Sequence[tuple[str, Mapping[str, Any]]], seen: set[str], *, longest: int) -> None:
    for call_id, called in calls:
        assert re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{longest}}}", call_id), "an id is a word, not too long"
        assert call_id not in seen, "an id is used once"
        seen.add(call_id)
        assert NAME.fullmatch(called["name"]), "a name is a word"
        arguments = json.loads(called["arguments"])
        assert isinstance(arguments, dict), "arguments are an object"
        _is_json(arguments)


def _content_is_sound(content: Any, *, text: str, image: str) -> None:
    if isinstance(content, str):
        assert content, "no empty content"
        return
    assert content, "no empty content"
    for part in content:
        if part["type"] == text:
            assert _is_text(part["text"]), "no empty text"
        elif part["type"] == "input_file":
            assert text == "input_text", "chat completions of other servers know no files"
            assert part["filename"], "a file has a name"
            assert part["file_data"].startswith("data:application/pdf;base64,"), "a file carries its bytes"
        else:
            assert part["type"] == image, f"unknown part {part['type']}"
            shown = part["image_url"]
            url = shown["url"] if isinstance(shown, dict) else shown
            assert IMAGE.fullmatch(url), "an image is a URL of the web or carries its bytes"


def _tools_are_sound(tools: Sequence[Mapping[str, Any]], schema: str) -> None:
    names = [tool["name"] for tool in tools]
    assert len(set(names)) == len(names), "a tool is offered once"
    for tool in tools:
        assert NAME.fullmatch(tool["name"]), "a name is a word"
        assert tool[schema]["type"] == "object", "arguments are an object"
        assert "properties" in tool[schema], "an object has properties"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_json(value: Any) -> None:
    encode_request(value).encode()
