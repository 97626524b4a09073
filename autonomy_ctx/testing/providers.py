"""`ProviderServer`: a model provider for tests that has the rules of today's Claude models.

It speaks Anthropic's Messages API and Bedrock's Converse API, refuses what they refuse, and signs thinking
so that a changed prefix is noticed. It is an ASGI application. A test gives `ProviderServer().client()`, an
HTTP client that talks to it without a network, to `Model(client=...)` or to a provider's own client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    import httpx

Blocks = list[dict[str, Any]]
Body = dict[str, Any]
# The content of the reply to a request in the words of the Messages API. Thinking is signed by the server.
Answer = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]

BINDING_BETA = "thinking-binding-controls-2026-08-01"
CLEAR_AT_BETA = "mid-conversation-system-clear-at-2026-08-21"
MAX_MARKS = 4
_THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class ClaudeModel:
    """The rules of one Claude model, by family and version."""

    family: str
    version: tuple[int, int]

    @classmethod
    def parse(cls, name: str) -> ClaudeModel:
        """The model with a name of the Claude API or of Bedrock."""
        found = re.search(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2})(?!\d))?", name)
        return cls(found[1], (int(found[2]), int(found[3] or 0))) if found else cls(name, (0, 0))

    @property
    def binds(self) -> bool:
        """Tell whether it checks the prefix of thinking."""
        return self.version >= ((5, 1) if self.family in ("fable", "mythos") else (5, 5))

    @property
    def always_enforces(self) -> bool:
        """Tell whether a changed prefix is an error on every account."""
        return self.family in ("fable", "mythos") and self.version >= (5, 2)

    @property
    def thinking_can_be_off(self) -> bool:
        """Tell whether `thinking.type` may be `disabled`."""
        return not self.binds or self.family == "haiku"

    @property
    def takes_system_messages(self) -> bool:
        """Tell whether messages may have the role `system`."""
        return self.binds or (self.version >= (4, 8) and self.family in ("opus", "fable", "mythos"))

    def reads(self, maker: ClaudeModel) -> bool:
        """Tell whether it can read the thinking of another model; if not, the API drops that thinking."""
        if self == maker:
            return True
        if self.family in ("sonnet", "haiku") and self.binds:
            return False
        if self.family in ("fable", "mythos"):
            return maker.version <= self.version or (maker.family, maker.version) == ("opus", (5, 5))
        return maker.family not in ("fable", "mythos") and maker.version <= self.version


class _RequestRefused(Exception):
    """A request that the provider answers with status 400."""


@dataclass(slots=True, kw_only=True)
class ProviderRequest:
    """A request as it came, what became of it, and which of its thinking the model did not get."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str
    status: int = 200
    error: str = ""
    # As in `input_transformations` of a reply.
    transformations: list[dict[str, str]] = field(default_factory=list)
    # The number of thinking blocks that the model could read.
    thinking: int = 0
    # The content of the reply, in the words of the Messages API.
    reply: Sequence[Mapping[str, Any]] = ()


@dataclass(slots=True, kw_only=True)
class _Thinking:
    """The content of a signature: its block, and what the block depends on."""

    id: str
    model: str
    organization: str
    state: str
    run: list[str]
    text: str


class ProviderServer:
    """Answers requests as a provider would, and keeps them in `requests`.

    `answer` makes the content of a reply; without it, the model thinks and says "Done.". With
    `enforced=False`, the account is an old one, for which a changed prefix is no error on most models.
    Thinking of another `organization` is dropped. `max_tokens` is the context window, counted in words.
    """

    def __init__(
        self,
        answer: Answer | None = None,
        *,
        enforced: bool = True,
        organization: str = "org-1",
        strict_tool_order: bool = True,
        strict_system_shape: bool = True,
        max_tokens: int = 1_000_000,
    ) -> None:
        self.answer = answer or _think_and_say_done
        self.enforced, self.organization = enforced, organization
        self.strict_tool_order, self.strict_system_shape = strict_tool_order, strict_system_shape
        self.max_tokens = max_tokens
        # Counts as a part of every prefix. Change it to have thinking refused that seems to fit.
        self.hidden_prefix = ""
        self.requests: list[ProviderRequest] = []
        self._secret = b"a secret of the provider"
        self._count = 0
        # The ids of all thinking of a reply, by each of them.
        self._replies: dict[str, list[str]] = {}

    @property
    def refused(self) -> list[ProviderRequest]:
        """The requests that were answered with an error."""
        return [request for request in self.requests if request.status != 200]

    def client(self) -> httpx.AsyncClient:
        """An HTTP client whose requests come here, whatever host they name."""
        import httpx

        return httpx.AsyncClient(transport=self.transport())

    def transport(self) -> httpx.ASGITransport:
        """The server as a transport, for a client of your own."""
        import httpx

        return httpx.ASGITransport(self)

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            return
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        status, kind, content = self._respond(unquote(scope["path"]), headers, json.loads(raw or b"{}"))
        errors = [(b"x-amzn-errortype", b"ValidationException")] if status == 400 else []
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", kind.encode()), *errors],
            }
        )
        await send({"type": "http.response.body", "body": content})

    def _respond(self, path: str, headers: Mapping[str, str], given: Body) -> tuple[int, str, bytes]:
        is_bedrock = path.startswith("/model/")
        body = _from_converse(path, given) if is_bedrock else given
        seen = ProviderRequest(path=path, headers=headers, body=given, model=str(body.get("model", "")))
        self.requests.append(seen)
        try:
            if not is_bedrock and path not in ("/v1/messages", "/v1/messages/count_tokens"):
                raise _RequestRefused(f"there is nothing at {path}")
            made = self._answer_messages(body, headers, seen, counts=path.endswith("count_tokens"))
        except _RequestRefused as refused:
            seen.status, seen.error = 400, str(refused)
            error = {"type": "invalid_request_error", "message": seen.error}
            shape = {"message": seen.error} if is_bedrock else {"type": "error", "error": error}
            return 400, "application/json", json.dumps(shape).encode()
        if path.endswith("/converse-stream"):
            return 200, "application/vnd.amazon.eventstream", b"".join(_converse_frames(made))
        if is_bedrock:
            return 200, "application/json", json.dumps(_to_converse(made)).encode()
        if body.get("stream"):
            return 200, "text/event-stream", b"".join(_message_events(made))
        return 200, "application/json", json.dumps(made).encode()

    def _answer_messages(
        self, body: Body, headers: Mapping[str, str], seen: ProviderRequest, *, counts: bool
    ) -> Body:
        model = ClaudeModel.parse(seen.model)
        betas = set(headers.get("anthropic-beta", "").replace(" ", "").split(",")) | set(
            body.get("anthropic_beta", ())
        )
        messages = [_with_blocks(message) for message in body.get("messages", ())]
        _check_options(body, model, betas)
        _check_marks(body, messages)
        _check_messages(messages, model)
        used = _count_words([body.get("system"), body.get("tools"), messages])
        if used > self.max_tokens:
            raise _RequestRefused(f"prompt is too long: {used} tokens > {self.max_tokens} maximum")
        chain = self._check_thinking(body, messages, model, seen)
        self._check_open_loop(body, messages)
        if counts:
            return {"input_tokens": used}
        self._count += 1
        seen.reply = content = self._sign(self.answer(body), seen.model, chain)
        reply = {
            "id": f"msg_{self._count:04}",
            "type": "message",
            "role": "assistant",
            "model": seen.model,
            "content": content,
            "stop_reason": "tool_use"
            if any(block["type"] == "tool_use" for block in content)
            else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": used, "output_tokens": _count_words(content)},
        }
        return reply | ({"input_transformations": seen.transformations} if BINDING_BETA in betas else {})

    def _check_thinking(
        self, body: Body, messages: Sequence[Body], model: ClaudeModel, seen: ProviderRequest
    ) -> _PrefixHash:
        """Walk the blocks of a request, and refuse or drop thinking whose prefix is another one."""
        asked = (body.get("thinking") or {}).get("block_binding", {}).get("prefix_mismatch_behavior")
        is_enforced = model.binds and (model.always_enforces or self.enforced or asked is not None)
        chain = self._start_chain(body)
        for at, message in enumerate(messages):
            is_dropping = False
            for place, block in enumerate(message["content"]):
                if block["type"] not in _THINKING:
                    chain.add(message["role"], block)
                    continue
                path = f"messages.{at}.content.{place}"
                thinking = self._verify(block, path)
                reason = ""
                if thinking.organization != self.organization:
                    reason = "organization_binding_mismatch"
                elif not model.reads(ClaudeModel.parse(thinking.model)):
                    reason = "model_binding_mismatch"
                if reason:
                    seen.transformations.append({"type": "thinking_dropped", "path": path, "reason": reason})
                    chain.run.append(thinking.id)
                    continue
                is_fitting = thinking.state == chain.state and _is_suffix(chain.run, thinking.run)
                if not model.binds or (is_fitting and not is_dropping):
                    chain.run.append(thinking.id)
                    seen.thinking += 1
                    continue
                reason = "prefix_binding_mismatch"
                if not is_enforced:
                    seen.transformations.append(
                        {"type": "thinking_mismatch_allowed", "path": path, "reason": reason}
                    )
                    chain.run.append(thinking.id)
                    seen.thinking += 1
                elif asked == "drop_block":
                    seen.transformations.append({"type": "thinking_dropped", "path": path, "reason": reason})
                    is_dropping = True
                else:
                    raise _RequestRefused(
                        f"{path}: Invalid signature in thinking block. The block is bound to a different "
                        f"conversation. Send it only behind the content that it was made with."
                    )
        return chain

    def _start_chain(self, body: Body) -> _PrefixHash:
        system = _without_marks(body.get("system") or [])
        if not self.strict_system_shape and isinstance(system, str):
            system = [{"type": "text", "text": system}]
        tools = [tool for tool in _without_marks(body.get("tools") or []) if not tool.get("defer_loading")]
        if not self.strict_tool_order:
            tools = sorted(tools, key=lambda tool: str(tool.get("name")))
        return _PrefixHash(_hash(_canonical(system), _canonical(tools), self.hidden_prefix))

    def _check_open_loop(self, body: Body, messages: Sequence[Body]) -> None:
        """In a tool loop, the thinking of the newest reply comes back complete or not at all."""
        at = max((at for at, one in enumerate(messages) if one["role"] == "assistant"), default=None)
        if at is None or not any(block["type"] == "tool_use" for block in messages[at]["content"]):
            return
        content = messages[at]["content"]
        sent = [self._verify(block, "").id for block in content if block["type"] in _THINKING]
        for one in sent:
            whole = self._replies.get(one, [one])
            if [other for other in sent if other in whole] != whole:
                raise _RequestRefused(
                    f"messages.{at}: `thinking` or `redacted_thinking` blocks in the latest assistant "
                    f"message cannot be modified. These blocks must remain as they were in the original "
                    f"response."
                )
        if (body.get("thinking") or {}).get("type") == "enabled" and content[0]["type"] not in _THINKING:
            raise _RequestRefused(
                f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                f"`{content[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start "
                f"with a thinking block."
            )

    def _sign(self, content: Sequence[Mapping[str, Any]], model: str, chain: _PrefixHash) -> Blocks:
        signed: Blocks = []
        made: list[str] = []
        for number, given in enumerate(content):
            block = dict(given)
            if block["type"] not in _THINKING:
                chain.add("assistant", block)
                signed.append(block)
                continue
            name = f"thinking-{self._count}-{number}"
            text = str(block.get("thinking", ""))
            said = {
                "id": name,
                "model": model,
                "organization": self.organization,
                "state": chain.state,
                "run": list(chain.run),
                "text": _hash(text) if text else "",
            }
            mark = self._seal(json.dumps(said))
            is_hidden = block["type"] == "redacted_thinking"
            signed.append(block | ({"data": mark} if is_hidden else {"thinking": text, "signature": mark}))
            chain.run.append(name)
            made.append(name)
        self._replies |= dict.fromkeys(made, made)
        return signed

    def _seal(self, said: str) -> str:
        proof = hmac.digest(self._secret, said.encode(), "sha256").hex()
        return base64.b64encode(f"{proof}{said}".encode()).decode()

    def _verify(self, block: Mapping[str, Any], path: str) -> _Thinking:
        """Read a signature; a request with a wrong one is refused, whatever the settings."""
        mark = str(block.get("signature", block.get("data", "")))
        try:
            said = base64.b64decode(mark).decode()[64:]
            is_ours = hmac.compare_digest(mark, self._seal(said))
            thinking = _Thinking(**json.loads(said)) if is_ours else None
        except (ValueError, TypeError):
            thinking = None
        text = str(block.get("thinking", ""))
        if thinking is None or (text and thinking.text and _hash(text) != thinking.text):
            raise _RequestRefused(f"{path}: Invalid `signature` in `thinking` block")
        return thinking


class _PrefixHash:
    """A hash over the prefix of a block without thinking, and the ids of the thinking before it."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.run: list[str] = []

    def add(self, role: str, block: Mapping[str, Any]) -> None:
        self.state = _hash(self.state, role, _canonical(_without_marks(block)))


def _think_and_say_done(body: Mapping[str, Any]) -> Blocks:
    return [{"type": "thinking", "thinking": ""}, {"type": "text", "text": "Done."}]


def _with_blocks(message: Mapping[str, Any]) -> Body:
    content = message.get("content", "")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    return {"role": message.get("role"), "content": blocks}


def _without_marks(value: Any) -> Any:
    """A copy without cache marks; what a tool is given stays as it is."""
    if isinstance(value, list):
        return [_without_marks(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: inner if name in ("input", "input_schema") else _without_marks(inner)
        for name, inner in value.items()
        if name != "cache_control"
    }


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_suffix(part: Sequence[str], whole: Sequence[str]) -> bool:
    return not part or list(part) == list(whole[-len(part) :])


def _count_words(value: Any) -> int:
    return len(json.dumps(value).split())


def _check_options(body: Body, model: ClaudeModel, betas: set[str]) -> None:
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    if "block_binding" in thinking and (BINDING_BETA not in betas or kind not in ("adaptive", "enabled")):
        raise _RequestRefused(f"thinking.{kind}.block_binding: Extra inputs are not permitted")
    if kind == "disabled" and not model.thinking_can_be_off:
        raise _RequestRefused("thinking.type: this model always thinks")
    effort = (body.get("output_config") or {}).get("effort")
    if kind == "between_tools" and effort in ("xhigh", "max"):
        raise _RequestRefused("thinking.type: `between_tools` is not supported with this effort")
    if model.binds and (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise _RequestRefused("tool_choice: this model cannot be made to call a tool while it thinks")
    if any("clear_at" in one for one in body.get("messages", ())) and CLEAR_AT_BETA not in betas:
        raise _RequestRefused("messages: clear_at: Extra inputs are not permitted")


def _check_marks(body: Body, messages: Sequence[Body]) -> None:
    """At most four cache marks, longer lives before shorter ones, none on thinking."""
    blocks: list[Any] = [*(body.get("tools") or [])]
    if isinstance(body.get("system"), list):
        blocks += body["system"]
    for message in messages:
        for block in message["content"]:
            inner = block.get("content")
            blocks += inner if block["type"] == "tool_result" and isinstance(inner, list) else []
            blocks.append(block)
    marked = [block for block in blocks if block.get("cache_control")]
    if any(block.get("type") in _THINKING for block in marked):
        raise _RequestRefused("cache_control cannot be set for thinking blocks")
    if len(marked) + bool(body.get("cache_control")) > MAX_MARKS:
        raise _RequestRefused(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided")
    lives = [block["cache_control"].get("ttl", "5m") for block in marked]
    if lives != sorted(lives):
        raise _RequestRefused(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
        )


def _check_messages(messages: Sequence[Body], model: ClaudeModel) -> None:
    if not messages or messages[0]["role"] != "user":
        raise _RequestRefused("messages: first message must use the user role")
    if messages[-1]["role"] == "assistant":
        raise _RequestRefused("messages: this model does not support assistant message prefill")
    calls: list[str] = []
    for at, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "system":
            _check_system_message(messages, at, model, calls)
            continue
        if not content:
            raise _RequestRefused(f"messages.{at}: content must not be empty")
        if any(block["type"] == "text" and not block["text"].strip() for block in content):
            raise _RequestRefused(f"messages.{at}: text content blocks must contain non-whitespace text")
        if content[-1]["type"] in _THINKING:
            raise _RequestRefused(
                f"messages.{at}: the final block in an assistant message cannot be `thinking`"
            )
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if sorted(results) != sorted(calls):
            missing = sorted(set(calls) ^ set(results))
            raise _RequestRefused(
                f"messages.{at}: `tool_use` ids must have a `tool_result` block right after them: {missing}"
            )
        if any(block["type"] != "tool_result" for block in content[: len(results)]):
            raise _RequestRefused(f"messages.{at}: `tool_result` blocks must come first in a message")
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
    if calls:
        raise _RequestRefused(f"messages: `tool_use` ids were found without `tool_result` blocks: {calls}")


def _check_system_message(
    messages: Sequence[Body], at: int, model: ClaudeModel, calls: Sequence[str]
) -> None:
    if not model.takes_system_messages:
        raise _RequestRefused(f"messages.{at}: role 'system' is not supported on this model")
    before = next((one["role"] for one in reversed(messages[:at]) if one["role"] != "system"), None)
    after = next((one["role"] for one in messages[at + 1 :] if one["role"] != "system"), None)
    if before != "user" or after not in ("assistant", None) or calls:
        raise _RequestRefused(f"messages.{at}: a system message stands after a user message")


# -- Bedrock's Converse --------------------------------------------------------------------------


def _from_converse(path: str, body: Body) -> Body:
    """A request of the Converse API in the words of the Messages API."""
    fields = body.get("additionalModelRequestFields") or {}
    tools = [
        _converse_tool(one) for one in _with_cache_points((body.get("toolConfig") or {}).get("tools") or [])
    ]
    return {
        "model": path.split("/")[2],
        "system": [
            {"type": "text", "text": one["text"]} | _mark_of(one)
            for one in _with_cache_points(body.get("system") or [])
        ],
        "messages": [
            {"role": one["role"], "content": _converse_blocks(one["content"])}
            for one in body.get("messages", ())
        ],
        **({"tools": tools} if tools else {}),
        **fields,
    }


def _with_cache_points(blocks: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Blocks with the cache points that stand after them."""
    for at, block in enumerate(blocks):
        if "cachePoint" not in block:
            following = blocks[at + 1] if at + 1 < len(blocks) else {}
            point = following.get("cachePoint")
            yield dict(block) if point is None else {**block, "cachePoint": point}


def _mark_of(block: Mapping[str, Any]) -> dict[str, Any]:
    point = block.get("cachePoint")
    life = {"ttl": point["ttl"]} if point and "ttl" in point else {}
    return {} if point is None else {"cache_control": {"type": "ephemeral", **life}}


def _converse_tool(tool: Mapping[str, Any]) -> Body:
    spec = tool["toolSpec"]
    described = {"description": spec["description"]} if "description" in spec else {}
    return {"name": spec["name"], **described, "input_schema": spec["inputSchema"]["json"], **_mark_of(tool)}


def _converse_blocks(content: Sequence[Mapping[str, Any]]) -> Blocks:
    found: Blocks = []
    for block in _with_cache_points(content):
        match block:
            case {"text": text}:
                made: Body = {"type": "text", "text": text}
            case {"image": image}:
                made = {"type": "image", "source": image["source"], "format": image["format"]}
            case {"json": value}:
                made = {"type": "text", "text": json.dumps(value)}
            case {"toolUse": use}:
                made = {
                    "type": "tool_use",
                    "id": use["toolUseId"],
                    "name": use["name"],
                    "input": use["input"],
                }
            case {"toolResult": result}:
                made = {
                    "type": "tool_result",
                    "tool_use_id": result["toolUseId"],
                    "content": _converse_blocks(result["content"]),
                    **({"is_error": True} if result.get("status") == "error" else {}),
                }
            case {"reasoningContent": {"reasoningText": thought}}:
                made = {
                    "type": "thinking",
                    "thinking": thought.get("text", ""),
                    "signature": thought.get("signature", ""),
                }
            case {"reasoningContent": {"redactedContent": data}}:
                made = {"type": "redacted_thinking", "data": data}
            case _:
                raise _RequestRefused(f"a block with {', '.join(block)} is not known")
        found.append(made | _mark_of(block))
    return found


def _to_converse_block(block: Mapping[str, Any]) -> Body:
    match block["type"]:
        case "thinking":
            thought = {"text": block["thinking"], "signature": block["signature"]}
            return {"reasoningContent": {"reasoningText": thought}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": block["data"]}}
        case "tool_use":
            return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}
    return {"text": block["text"]}


def _to_converse(reply: Mapping[str, Any]) -> Body:
    usage = reply["usage"]
    return {
        "output": {
            "message": {"role": "assistant", "content": [_to_converse_block(one) for one in reply["content"]]}
        },
        "stopReason": reply["stop_reason"],
        "usage": {"inputTokens": usage["input_tokens"], "outputTokens": usage["output_tokens"]},
    }


# -- streams -------------------------------------------------------------------------------------


def _message_events(reply: Mapping[str, Any]) -> Iterator[bytes]:
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


def _converse_frames(reply: Mapping[str, Any]) -> Iterator[bytes]:
    """A reply as the frames of ConverseStream."""
    whole = _to_converse(reply)
    yield _frame("messageStart", {"role": "assistant"})
    for index, block in enumerate(whole["output"]["message"]["content"]):
        deltas: list[MutableMapping[str, Any]] = []
        if "toolUse" in block:
            use = dict(block["toolUse"])
            given = json.dumps(use.pop("input"))
            yield _frame("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": use}})
            deltas = [{"toolUse": {"input": given}}]
        elif thought := block.get("reasoningContent", {}).get("reasoningText"):
            deltas = [
                {"reasoningContent": {name: thought[name]}} for name in ("text", "signature") if thought[name]
            ]
        else:
            deltas = [block]
        for delta in deltas:
            yield _frame("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
        yield _frame("contentBlockStop", {"contentBlockIndex": index})
    yield _frame("messageStop", {"stopReason": whole["stopReason"]})
    yield _frame("metadata", {"usage": whole["usage"]})


def _frame(name: str, data: Any) -> bytes:
    """One event of Amazon's event stream, with its checksums."""
    headers = b""
    for key, value in ((":event-type", name), (":message-type", "event")):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    payload = json.dumps(data).encode()
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))
