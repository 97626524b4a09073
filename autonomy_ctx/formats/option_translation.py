"""The options of a request in the words of another API: tools, limits, thinking and the form of the answer.

An option that the other API does not have is left out and named, so that the client is told. One without
which the answer would be another thing, such as a tool that the provider runs, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.formats.base import RequestOptions, WireFormat
from autonomy_ctx.formats.incoming import as_count, as_mapping, as_mappings, as_text
from autonomy_ctx.formats.model_table import find_model
from autonomy_ctx.formats.openai import REASONING_MODELS
from autonomy_ctx.formats.output_schema import (
    OutputSchema,
    OutputTarget,
    claude_version,
    close_schema,
    sent_schema,
)
from autonomy_ctx.formats.reply_writer import CUSTOM_INPUT

# Of each option: its name in chat completions, Responses and Messages, with the object that it is in.
_NAMES: dict[str, tuple[str, str, str]] = {
    "temperature": ("temperature", "temperature", "temperature"),
    "top_p": ("top_p", "top_p", "top_p"),
    "max_tokens": ("max_completion_tokens", "max_output_tokens", "max_tokens"),
    "stop": ("stop", "", "stop_sequences"),
    "effort": ("reasoning_effort", "reasoning.effort", "output_config.effort"),
    "format": ("response_format", "text.format", "output_config.format"),
    "verbosity": ("verbosity", "text.verbosity", ""),
    "parallel": ("parallel_tool_calls", "parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
    "user": ("user", "user", "metadata.user_id"),
    "metadata": ("metadata", "metadata", ""),
    "service_tier": ("service_tier", "service_tier", ""),
    "safety_identifier": ("safety_identifier", "safety_identifier", ""),
    "prompt_cache_key": ("prompt_cache_key", "prompt_cache_key", ""),
    "top_logprobs": ("top_logprobs", "top_logprobs", ""),
}
_APIS: tuple[WireFormat, ...] = ("openai", "responses", "anthropic")
# What is not an option, or is read in another way.
_READ = frozenset(
    (
        *("model", "messages", "input", "instructions", "system", "tools", "tool_choice", "stream"),
        *("stream_options", "store", "include", "previous_response_id", "conversation", "max_tokens"),
    )
)
_OBJECTS = ("reasoning", "text", "output_config", "metadata", "thinking")
# Without these the answer would be another thing.
_ESSENTIAL = frozenset(
    (
        *("audio", "functions", "function_call", "web_search_options", "background", "prompt"),
        *("container", "mcp_servers", "compaction"),
    )
)
# Tokens for thinking from which on an effort is meant, the highest first.
_BUDGETS = (("high", 4096), ("medium", 2048), ("low", 1024))
# The most characters of the name of a user.
_MAX_USER = 64
_CLAUDE_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_FIRST_ADAPTIVE = (4, 6)


class OptionNotTranslatable(AutonomyCtxError):
    """The model's server speaks another API, which has nothing for an option without which the answer would
    be another one; `option` names it.
    """

    def __init__(self, option: str, what: str) -> None:
        super().__init__(f"{option}: {what} is not known to the API of the server behind; leave it out")
        self.option = option


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedOptions:
    """Options for a request of another API, and the client's names of those that it does not have."""

    request: RequestOptions
    omitted: tuple[str, ...] = ()


def translate_options(
    source: WireFormat, target: WireFormat, body: Mapping[str, Any], model: str
) -> TranslatedOptions:
    """Read the options of a body, and write them for another API and the model that it serves."""
    own, names = (
        {concept: row[_APIS.index(api)] for concept, row in _NAMES.items()} for api in (source, target)
    )
    read = _Options(source, body)
    given = read.values(own)
    omitted = [*read.unknown(own)]
    wanted = _write_claude(given, model) if target == "anthropic" else _write_openai(given, model, names)
    tools = list(read.tools())
    if any(tool.get("strict") is True for tool in as_mappings(body.get("tools"))):
        omitted.append("tools.strict")
    carried = {*wanted, "max_tokens", "parallel", *(("effort",) if "thinking" in wanted else ())}
    # Of Messages, an effort may be the tokens for thinking.
    own["effort"] = own["effort"] if _get(body, own["effort"]) else "thinking"
    omitted += [own[concept] for concept in given if concept not in carried]
    options: dict[str, Any] = {}
    for concept, value in wanted.items():
        _put(options, names.get(concept, concept), value)
    if tools:
        options |= _write_choice(read.choice(), given.get("parallel"), target)
    most = as_count(given.get("max_tokens")) or None
    if most is None and target == "anthropic" and (info := find_model(model)) is not None:
        most = info.max_output
    stream = body.get("stream") is True
    request = RequestOptions(tools=tools, max_tokens=most, stream=stream, options=options)
    return TranslatedOptions(request=request, omitted=tuple(dict.fromkeys(omitted)))


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a body in one API."""

    source: WireFormat
    body: Mapping[str, Any]

    def values(self, own: Mapping[str, str]) -> dict[str, Any]:
        """The options that other APIs may have, by their names here."""
        found = {concept: _get(self.body, name) for concept, name in own.items() if name}
        if self.source == "openai" and not found["max_tokens"]:
            found["max_tokens"] = self.body.get("max_tokens")
        if isinstance(found.get("stop"), str):
            found["stop"] = [found["stop"]]
        if self.source == "anthropic":
            found["parallel"] = None if found["parallel"] is None else not found["parallel"]
            budget = as_count(as_mapping(self.body.get("thinking")).get("budget_tokens"))
            usual = next((effort for effort, least in _BUDGETS if budget >= least), None)
            found["effort"] = found["effort"] or usual
        found["format"] = _read_form(found["format"], self.source)
        return {concept: value for concept, value in found.items() if value not in (None, [], {})}

    def unknown(self, own: Mapping[str, str]) -> Iterator[str]:
        """The names of options that no other API has; raises for one that cannot be left out."""
        known = {*own.values(), *_READ, "thinking.type", "thinking.budget_tokens"}
        for name, value in self.body.items():
            is_object = name in _OBJECTS and name not in known
            for path in (f"{name}.{inner}" for inner in as_mapping(value)) if is_object else (name,):
                if path in known or _get(self.body, path) in (None, False, 0, "", [], {}):
                    continue
                if path in _ESSENTIAL:
                    raise OptionNotTranslatable(path, "this option")
                if (path, value) not in (("n", 1), ("modalities", ["text"]), ("truncation", "disabled")):
                    if path in ("n", "modalities"):
                        raise OptionNotTranslatable(path, f"the value {value!r}")
                    yield path

    def tools(self) -> Iterator[Mapping[str, Any]]:
        """The client's tools; raises for one that the provider runs or knows by its name."""
        for at, tool in enumerate(as_mappings(self.body.get("tools"))):
            kind, inner = as_text(tool.get("type")), tool
            if self.source == "openai" and kind == "function":
                inner = as_mapping(tool.get("function"))
            schema: Any = inner.get("input_schema" if self.source == "anthropic" else "parameters")
            if self.source == "responses" and kind == "custom":
                field = {"type": "string", "description": "The whole input, as it is."}
                schema = {"type": "object", "properties": {CUSTOM_INPUT: field}, "required": [CUSTOM_INPUT]}
            elif kind not in (("", "custom") if self.source == "anthropic" else ("function",)):
                raise OptionNotTranslatable(f"tools.{at}", f"the tool {kind!r}, which its provider defines,")
            described = {"name": as_text(inner.get("name")), "description": inner.get("description")}
            yield {**described, "parameters": as_mapping(schema)}

    def choice(self) -> str | Mapping[str, str] | None:
        """`auto`, `none`, `required`, a tool by its name, or nothing."""
        given = self.body.get("tool_choice")
        kind = as_text(given) or as_text(as_mapping(given).get("type"))
        name = as_text(as_mapping(as_mapping(given).get("function")).get("name"))
        name = name or as_text(as_mapping(given).get("name"))
        if kind in ("function", "tool", "custom") and name:
            return {"name": name}
        kind = "required" if kind == "any" else kind
        if kind and kind not in ("auto", "none", "required"):
            raise OptionNotTranslatable("tool_choice", f"the choice {kind!r}")
        return kind or None


def _write_openai(given: Mapping[str, Any], model: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Options for one of OpenAI's APIs; a model that thinks takes no sampling, and others no effort."""
    dropped = {"temperature", "top_p"} if REASONING_MODELS.match(model.lower()) else {"effort"}
    dropped |= {"max_tokens", "parallel", *(("user",) if len(as_text(given.get("user"))) > _MAX_USER else ())}
    made = {concept: value for concept, value in given.items() if names[concept] and concept not in dropped}
    if "format" in made:
        made["format"] = _write_form(made["format"], is_chat=names["format"] == _NAMES["format"][0])
    return made


def _write_claude(given: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Options for Messages; older models are told how many tokens they may think, newer ones how hard."""
    made = {name: given[name] for name in ("temperature", "top_p", "stop", "user") if name in given}
    if isinstance(made.get("temperature"), int | float):
        # The other APIs go up to 2.
        made["temperature"] = min(made["temperature"], 1)
    if "schema" in (form := as_mapping(given.get("format"))):
        output = OutputSchema(as_text(form.get("name")) or "answer", form["schema"])
        sent = sent_schema(OutputTarget("anthropic", "anthropic", model, has_tools=False), output)
        if sent is None:
            raise OptionNotTranslatable("the format of the answer", f"this JSON schema, with {model},")
        made["format"] = {"type": "json_schema", "schema": sent}
    effort = {"minimal": "low"}.get(given.get("effort", ""), given.get("effort"))
    if effort in _CLAUDE_EFFORTS and (claude_version(model) or _FIRST_ADAPTIVE) >= _FIRST_ADAPTIVE:
        made |= {"effort": effort, "thinking": {"type": "adaptive"}}
    elif effort in _CLAUDE_EFFORTS:
        budget = dict(_BUDGETS).get(effort, _BUDGETS[0][1])
        most = as_count(given.get("max_tokens"))
        if not most or most > budget:
            made["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return made


def _write_choice(choice: Any, parallel: Any, target: WireFormat) -> dict[str, Any]:
    """The fields for the choice of a tool, and for several calls at a time."""
    if target != "anthropic":
        made = {} if parallel is None else {"parallel_tool_calls": parallel}
        if isinstance(choice, Mapping):
            is_chat = target == "openai"
            choice = {"type": "function", **({"function": choice} if is_chat else choice)}
        return made | ({} if choice is None else {"tool_choice": choice})
    kind = choice if isinstance(choice, str) else "auto"
    made = {"type": "any" if kind == "required" else kind}
    if isinstance(choice, Mapping):
        made = {"type": "tool", **choice}
    if parallel is False and made["type"] != "none":
        made["disable_parallel_tool_use"] = True
    return {"tool_choice": made} if choice is not None or parallel is False else {}


def _read_form(given: Any, source: WireFormat) -> dict[str, Any]:
    """The form of an answer: its schema and name, or a type alone; nothing for a text."""
    form = as_mapping(given)
    kind = as_text(form.get("type"))
    inner = as_mapping(form.get("json_schema")) if source == "openai" else form
    if kind == "json_schema":
        return {name: inner[name] for name in ("name", "schema", "strict") if name in inner}
    return {"type": kind} if kind and kind != "text" else {}


def _write_form(form: Mapping[str, Any], *, is_chat: bool) -> dict[str, Any]:
    if "schema" not in form:
        return dict(form)
    strict = close_schema(form["schema"], all_required=True) == form["schema"]
    made = {"name": "answer", "strict": strict, **form}
    return {"type": "json_schema", **({"json_schema": made} if is_chat else made)}


def _get(body: Mapping[str, Any], path: str) -> Any:
    outer, _, inner = path.partition(".")
    return as_mapping(body.get(outer)).get(inner) if inner else body.get(outer)


def _put(body: dict[str, Any], path: str, value: Any) -> None:
    outer, _, inner = path.partition(".")
    body[outer] = {**as_mapping(body.get(outer)), inner: value} if inner else value
