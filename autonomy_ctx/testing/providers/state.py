"""`ProviderState`: what the APIs of a `ProviderServer` share, and the requests that it got."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autonomy_ctx.models.catalog import estimate_cost
from autonomy_ctx.testing.providers.cache import CacheUse, PromptCache

Blocks = list[dict[str, Any]]
Body = dict[str, Any]
# The content of the reply to a request in the words of the Messages API. Thinking is signed by the server.
Answer = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]

# Fields that a model does not read, or reads as something else than words.
_WITHOUT_WORDS = frozenset(
    {
        "cache_control", "call_id", "data", "encrypted_content", "id", "prompt_cache_breakpoint", "role",
        "signature", "source", "tool_call_id", "tool_use_id", "type",
    }
)  # fmt: skip
_MARKS = ("cache_control", "prompt_cache_breakpoint")


class ProviderRefusal(Exception):
    """A request that the provider answers with an error."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None):
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(slots=True, kw_only=True)
class ProviderRequest:
    """A request as it came, what became of it, what it cost, and which thinking the model did not get.

    A token is a word. Each token of the prompt is `cached`, `written` or `uncached`.
    """

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str
    status: int = 200
    error: str = ""
    # As in `input_transformations` of a reply.
    transformations: list[dict[str, str]] = field(default_factory=list)
    # As in `context_management` of a reply.
    applied_edits: Sequence[Mapping[str, Any]] = ()
    # The number of thinking blocks that the model could read.
    thinking: int = 0
    # The content of the reply, in the words of the Messages API.
    reply: Sequence[Mapping[str, Any]] = ()
    # The tokens of the prompt, and of the reply.
    use: CacheUse = field(default_factory=CacheUse)
    output: int = 0
    method: str = "POST"
    # Whether it is a part of a batch, which costs half.
    is_batch: bool = False

    @property
    def cached(self) -> int:
        """Tokens that were read from the cache."""
        return self.use.cached

    @property
    def written(self) -> int:
        """Tokens that were written to the cache."""
        return self.use.written

    @property
    def uncached(self) -> int:
        """Tokens that have the full price."""
        return self.use.uncached

    @property
    def cost(self) -> float | None:
        """The price of the request and its reply in US dollars; None for a model without a price."""
        cost = estimate_cost(self.use.to_usage(self.output), self.model)
        return cost / 2 if cost is not None and self.is_batch else cost


class ProviderState:
    """The settings of a provider, and what it remembers from one request to the next."""

    def __init__(self, *, organization: str, max_tokens: int, clock: Callable[[], float]) -> None:
        self.organization, self.max_tokens, self.clock = organization, max_tokens, clock
        self.answer: Answer = _think_and_say_done
        self.enforced = self.strict_tool_order = self.strict_system_shape = True
        # Counts as a part of every prefix. Change it to have thinking refused that seems to fit.
        self.hidden_prefix = ""
        # How the next compactions fail: a `stop_reason` of a reply without a summary, or "unavailable".
        self.compaction_failures: list[str] = []
        self.cache = PromptCache()
        self.count = 0
        # By the id of a thinking block: the ids of all thinking of its reply, and the prefix before it.
        self.replies: dict[str, list[str]] = {}
        self.prefixes: dict[str, frozenset[str]] = {}
        # By the id of an output item of OpenAI: the id of the reasoning that must be sent with it.
        self.reasoning: dict[str, str] = {}
        # By the id of a reply: the request that it answers, to compare a later one with.
        self.sent: dict[str, Mapping[str, Any]] = {}
        # The statuses of the next replies, such as 429, 503 or 529; 429 comes with `retry-after`.
        self.failures: list[int] = []
        # By their ids; while `holds_batches` is set, none ends.
        self.batches: dict[str, Any] = {}
        self.files: dict[str, str] = {}
        self.holds_batches = False
        self.secret = b"a secret of the provider"


def _think_and_say_done(body: Mapping[str, Any]) -> Blocks:
    return [{"type": "thinking", "thinking": ""}, {"type": "text", "text": "Done."}]


def check_window(
    state: ProviderState, tokens: int, *, code: str | None = None, param: str | None = None
) -> None:
    """Refuse a prompt that is larger than the context window."""
    if tokens > state.max_tokens:
        message = f"prompt is too long: {tokens} tokens > {state.max_tokens} maximum"
        raise ProviderRefusal(message, code=code, param=param)


def seal(state: ProviderState, value: Mapping[str, Any]) -> str:
    """A value as a text that nobody else can make."""
    said = json.dumps(value)
    proof = hmac.digest(state.secret, said.encode(), "sha256").hex()
    return base64.b64encode(f"{proof}{said}".encode()).decode()


def unseal(state: ProviderState, text: Any) -> dict[str, Any] | None:
    """The value of a text that `seal` made; None for any other text."""
    try:
        value = json.loads(base64.b64decode(str(text)).decode()[64:])
    except ValueError:
        return None
    return value if isinstance(value, dict) and hmac.compare_digest(str(text), seal(state, value)) else None


def to_canonical(value: Any) -> str:
    """A value as JSON, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def make_hash(*texts: str) -> str:
    """A short hash of texts."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def without_marks(value: Any) -> Any:
    """A copy without cache marks; what a tool is given stays as it is."""
    if isinstance(value, list):
        return [without_marks(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: inner if name in ("input", "input_schema") else without_marks(inner)
        for name, inner in value.items()
        if name not in _MARKS
    }


def find_words(value: Any) -> list[str]:
    """The words of all texts in a value. Each is a token."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, Mapping):
        return [word for name, one in value.items() if name not in _WITHOUT_WORDS for word in find_words(one)]
    if isinstance(value, list | tuple):
        return [word for one in value for word in find_words(one)]
    return [] if value is None or isinstance(value, bool) else [str(value)]
