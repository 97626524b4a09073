"""Bodies and events against the types of the official packages, imported only when a test asks.

The packages describe requests as TypedDicts, in which pydantic checks lists only when they are read and
drops fields it does not know. So everything is read, and what comes out must be what went in.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any


@cache
def _module(name: str) -> Any:
    with warnings.catch_warnings():
        # What a package warns of while it is imported is not about this library.
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


@cache
def _adapter(kind: str) -> Any:
    module, _, name = kind.rpartition(".")
    adapter = _module("pydantic").TypeAdapter
    found = getattr(_module(module), name)
    return adapter(found, config=None) if isinstance(found, type) else adapter(found)


def _same(kind: str, value: Any) -> None:
    assert _read(_adapter(kind).validate_python(value)) == value


def _read(value: Any) -> Any:
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {key: _read(inner) for key, inner in value.items()}
    assert isinstance(value, Iterable)
    return [_read(inner) for inner in value]


def openai_takes(body: Mapping[str, Any]) -> None:
    """A body of chat completions."""
    params = _module("openai.types.chat.completion_create_params").CompletionCreateParamsStreaming
    assert body.keys() <= params.__required_keys__ | params.__optional_keys__
    for message in body["messages"]:
        _same("openai.types.chat.ChatCompletionMessageParam", message)
    for tool in body.get("tools", ()):
        _same("openai.types.chat.ChatCompletionFunctionToolParam", tool)


def responses_takes(body: Mapping[str, Any]) -> None:
    """A body of Responses."""
    params = _module("openai.types.responses.response_create_params").ResponseCreateParamsStreaming
    assert body.keys() <= params.__required_keys__ | params.__optional_keys__
    kinds = {
        "message": "openai.types.responses.EasyInputMessageParam",
        "reasoning": "openai.types.responses.ResponseReasoningItemParam",
        "function_call": "openai.types.responses.ResponseFunctionToolCallParam",
        "function_call_output": "openai.types.responses.response_input_param.FunctionCallOutput",
    }
    for item in body["input"]:
        _same(kinds[item["type"]], item)
    for tool in body.get("tools", ()):
        _same("openai.types.responses.FunctionToolParam", tool)


def google_takes(body: Mapping[str, Any]) -> None:
    """A body of generateContent; Google's models refuse fields they do not know."""
    types = _module("google.genai.types")
    fields = {"contents", "systemInstruction", "tools", "generationConfig"}
    assert body.keys() <= fields
    for content in body["contents"]:
        types.Content.model_validate_json(json.dumps(content))
    for tool in body.get("tools", ()):
        types.Tool.model_validate_json(json.dumps(tool))
    if "systemInstruction" in body:
        types.Content.model_validate_json(json.dumps(body["systemInstruction"]))
    types.GenerationConfig.model_validate_json(json.dumps(body.get("generationConfig", {})))


def really(kind: str, value: Mapping[str, Any]) -> Any:
    """A recorded reply or event, which must be one of the package's own."""
    module, _, name = kind.rpartition(".")
    found = getattr(_module(module), name)
    if hasattr(found, "model_validate_json"):
        return found.model_validate_json(json.dumps(value))
    return _adapter(kind).validate_python(value)
