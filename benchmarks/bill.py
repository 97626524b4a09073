"""A bill for contexts, by the cache rules and prices of `ProviderServer`, without a server.

Each message is a position of the prompt, and has as many tokens as the library counts for it. So the bill and
`context_summary="auto"` count alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autonomy_ctx import Message
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.models.catalog import cache_rule, estimate_cost
from autonomy_ctx.testing.providers.cache import CachePosition, CacheUse, PromptCache
from benchmarks.provider import rendered

KEY = "a conversation"
COUNTER = TokenCounter()


class Bill:
    """The cost of requests to one model, with what its cache has of the earlier ones."""

    def __init__(self, model: str, clock: Callable[[], float]) -> None:
        self.model, self.rule = model, cache_rule(model)
        self.life = self.rule.seconds
        self.cost = self.summary_cost = 0.0
        self.sent = self.cached = 0
        self._clock, self._cache = clock, PromptCache()
        self._positions: dict[str, CachePosition] = {}

    @property
    def share(self) -> float:
        """The share of the input that came from the cache."""
        return self.cached / self.sent

    def send(self, messages: Sequence[Mapping[str, Any]], breakpoints: Sequence[int], output: int) -> None:
        """Bill a request of the agent."""
        self.cost += self._charge([wire.from_dict(message) for message in messages], breakpoints, output)

    def ask(self, messages: Sequence[Mapping[str, Any]], answer: str) -> None:
        """Bill a summary; a prompt that follows a context reads it from the cache, and writes nothing."""
        read = [wire.from_dict(message) for message in messages]
        # The last message asks for the summary, or the last three: it is asked for once more.
        breakpoints = [len(read) - 4, len(read) - 2] if len(read) > 4 else []
        cost = self._charge(read, breakpoints, COUNTER.count_text(answer), writes=False)
        self.cost += cost
        self.summary_cost += cost

    def _charge(
        self, messages: Sequence[Message], breakpoints: Sequence[int], output: int, *, writes: bool = True
    ) -> float:
        marked = set(breakpoints)
        positions = [
            self._position(message, self.life if at in marked else None)
            for at, message in enumerate(messages)
        ]
        use = self._use(positions, writes)
        if writes:
            self._cache.write(use)
        self.sent += use.total
        self.cached += use.cached
        cost = estimate_cost(use.to_usage(output), self.model)
        assert cost is not None
        return cost

    def _use(self, positions: list[CachePosition], writes: bool) -> CacheUse:
        now = self._clock()
        if self.model.startswith("claude"):
            return self._cache.use_claude(KEY, positions, least=self.rule.min_tokens, now=now)
        if self.model.startswith("gemini"):
            return self._cache.use_longest(
                KEY, positions, step=1, life=self.life, now=now, least=self.rule.min_tokens
            )
        implicit = self.life if writes else None
        return self._cache.use_marks(KEY, positions, implicit_life=implicit, is_readable=True, now=now)

    def _position(self, message: Message, life: float | None) -> CachePosition:
        text, role = rendered([message]), message.role.value
        is_end = role in ("user", "tool", "system")
        # GPT takes no mark on what the assistant said.
        life = None if self.model.startswith("gpt") and not is_end else life
        name = f"{life}\0{text}"
        found = self._positions.get(name)
        if found is None:
            words = tuple(_split(message))
            found = self._positions[name] = CachePosition(text=text, words=words, life=life, implicit=is_end)
        return found


def _split(message: Message) -> list[str]:
    """Pieces of a message, as many as it has tokens."""
    texts = [getattr(part, "text", "") for part in message.parts]
    texts += [f"{call.name}({call.arguments})" for call in message.tool_calls]
    pieces: list[str] = []
    for text in filter(None, texts):
        count = max(COUNTER.count_text(text), 1)
        size = len(text) / count
        pieces += [text[int(size * at) : int(size * (at + 1))] for at in range(count)]
    more = COUNTER.count_uncalibrated(message) - len(pieces)
    return [f"<{message.role.value}>"] * max(more, 0) + pieces
