"""The configuration of summaries.

`ContextSummaryConfig` is what users write; `CompactionSettings` adds what follows from the reader's model and
the budget: every limit as a number. All values are checked here, and errors say what would be valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, tzinfo
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack, get_args

from autonomy_ctx.compaction.calls import is_same_model
from autonomy_ctx.compaction.cost_model import CostModel, SwapPolicy, policy_of
from autonomy_ctx.compaction.facts import ProfileRule
from autonomy_ctx.compaction.plan import Limits
from autonomy_ctx.compaction.schema import SummarySchema, read_schema
from autonomy_ctx.errors.spelling import did_you_mean
from autonomy_ctx.formats.model_info import check_token_limit, model_name, resolve_token_limit
from autonomy_ctx.formats.model_table import DEFAULT_PRICE, Price
from autonomy_ctx.memory.store import MAX_LEASE_SECONDS, check_name
from autonomy_ctx.messages.excerpt import MIN_RESULT_TOKENS
from autonomy_ctx.messages.summary import SummaryRole, check_summary_role
from autonomy_ctx.models.call import is_chat_model
from autonomy_ctx.models.catalog import cache_rule, price_of
from autonomy_ctx.validation import check_int, check_seconds

Swap: TypeAlias = Literal["eager", "cost"] | SwapPolicy
Writer: TypeAlias = Literal["own", "provider"]

DEFAULT_FLOOR, DEFAULT_CEILING, DEFAULT_SIZE = 10, 20, 2048
# The limits of `auto` bound contexts; below them, a `CostModel` decides when a summary pays.
# Messages that stay after a summary: the last exchanges, with their tool calls; and the most without one.
AUTO_FLOOR, AUTO_CEILING = 6, 240
# The size of a summary.
AUTO_SIZE, MIN_SIZE = 1536, 128
# Parts of the context window: of the messages that stay, of those that make a summary due, of all history,
# and what one token of summary needs.
FLOOR_SHARE, CEILING_SHARE, HARD_SHARE, WINDOW_PER_SIZE = 0.25, 0.5, 0.75, 16
# Of a budget, what a summary may take, and what is left of the history when it passes its room.
SUMMARY_SHARE, CUT_BACK_SHARE = 1 / 3, 0.7
# What the facts of a summary that is not small may have, about twenty of them.
FACTS_TOKENS = 512
# The default of what follows from other values.
_FOLLOWS: Any = None


class SummaryOptions(TypedDict, total=False):
    """Options of a `ContextSummaryConfig` that a section takes by name; None for what is not given."""

    auto: bool
    floor_tokens: int | float | None
    ceiling_tokens: int | float | None
    hard_limit: int | None
    hard_limit_tokens: int | float | None
    timeout: float
    lead: bool
    parallel: int
    pin_tokens: int
    lease: float
    swap: Swap
    share_prefix: bool | Literal["auto"]
    cache_seconds: float | None
    summary_role: SummaryRole
    facts: bool
    profile: bool | ProfileRule
    timezone: tzinfo | str
    worker: str | None
    schema: SummarySchema | str | Mapping[str, Any] | Sequence[Any] | None
    writer: Writer
    clear_results_after: int | None
    clear_images_after: int | None
    max_result_tokens: int | None
    batch: bool


class _AllOptions(SummaryOptions, total=False):
    floor: int | None
    ceiling: int | None
    size: int | None
    model: Any
    instructions: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSummaryConfig:
    """Limits and options of a summarized history. Values that are not given follow from the others.

    Limits in tokens are whole numbers, or fractions of the model's context window.
    """

    # Messages shown verbatim after a summary, and how many make the next one due.
    floor: int = _FOLLOWS
    ceiling: int = _FOLLOWS
    # The most tokens of all segments of a summary together.
    size: int = _FOLLOWS
    # Take floor, ceiling and size, where they are not given, from the context window and price of the model
    # that reads the context. Until that is known, they are 0 here.
    auto: bool = False
    # The model that writes summaries; None for a digest without any model.
    model: Any = None
    # A prompt with {conversation}, or a sentence of what to preserve.
    instructions: str | None = None
    # The same two limits in tokens, in addition to those in messages.
    floor_tokens: int | float | None = None
    ceiling_tokens: int | float | None = None
    # Limits that no context exceeds, even if no summary is written: in messages and in tokens.
    hard_limit: int = _FOLLOWS
    hard_limit_tokens: int | float | None = None
    # Seconds that one call of the model may take.
    timeout: float = 60.0
    # Start earlier, because messages are expected to arrive while a summary is written.
    lead: bool = False
    # Conversations summarized at the same time.
    parallel: int = 4
    # The most tokens that pinned messages take together.
    pin_tokens: int = 1024
    # Seconds after which another process takes over from one that died while it wrote a summary.
    lease: float = 30.0
    # When a summary that is ready is shown: `eager` at once, `cost` when that is cheapest, or a function.
    swap: Swap = "eager"
    # Have the model that reads the context write the summary, after what it has cached, if that is cheaper:
    # `auto` when the model that writes summaries is known to be the one that reads the context.
    share_prefix: bool | Literal["auto"] = "auto"
    # Seconds for which a provider keeps what it has cached; None for those in the table of models.
    cache_seconds: float | None = None
    # The role of the message that shows the summary. Most models read a "system" message as rules.
    summary_role: SummaryRole = "user"
    # Keep facts (rules, decisions, values, open items) below the summary.
    facts: bool = True
    # Learn a profile from facts: True for our rules, or a function that takes a fact.
    profile: bool | ProfileRule = False
    # The time zone of the days in prompts and summaries: a tzinfo, or a name.
    timezone: tzinfo | str = UTC
    # The name of the `Worker` that writes the summaries, in another process; None for this one.
    worker: str | None = None
    # The sections of the summary; None for the default headings.
    schema: SummarySchema | None = None
    # `provider`: have the provider of the model that reads the context write a summary as well, which it is
    # shown in place of ours. Thinking of the messages after it is then kept.
    writer: Writer = "own"
    # The newest turns whose large results and images are shown in full when an epoch begins; None for all.
    clear_results_after: int | None = None
    clear_images_after: int | None = None
    # The most tokens of a result of an earlier turn from then on; None for all of it.
    max_result_tokens: int | None = None
    # Have summaries written by the batches of the model's provider: within a day, at half the price.
    batch: bool = False

    if TYPE_CHECKING:
        # More may be given than is held: None for what follows, and other forms of a schema.
        def __init__(self, **options: Unpack[_AllOptions]) -> None: ...

    def __post_init__(self) -> None:
        for name, (wanted, is_right) in _FORMS.items():
            if not is_right(value := getattr(self, name)):
                raise TypeError(f"{name} is {value!r}; it must be {wanted}")
        schema = read_schema(self.schema)
        chosen = {name: getattr(self, name) for name in ("floor", "ceiling", "size", "hard_limit")}
        if self.auto:
            chosen = {name: value or 0 for name, value in chosen.items()}
        else:
            floor, ceiling = _resolve_floor_and_ceiling(self.floor, self.ceiling)
            size, hard = DEFAULT_SIZE, self.hard_limit_tokens
            if isinstance(hard, int):
                # Smaller when the hard limit is a small number of tokens.
                size = max(min(size, hard // 4), _least_size(schema))
            usual = {"floor": floor, "ceiling": ceiling, "size": size, "hard_limit": 2 * ceiling}
            chosen = {name: usual[name] if value is None else value for name, value in chosen.items()}
        object.__setattr__(self, "schema", schema)
        for name, value in chosen.items():
            object.__setattr__(self, name, value)
        if self.auto:
            # What it is for a model of which nothing is known has to be valid, too.
            _fill_limits(self, choose_limits(None, None))
        else:
            self._check()

    def _check(self) -> None:
        check_int("hard_limit", self.hard_limit)
        if self.hard_limit <= self.ceiling:
            raise ValueError(
                f"hard_limit ({self.hard_limit}) must be more than ceiling ({self.ceiling}); "
                f"{2 * self.ceiling} is usual"
            )
        check_int("size", self.size, least=MIN_SIZE)
        if self.schema is not None and self.size < self.schema.min_size:
            raise ValueError(
                f"size ({self.size}) is too small for the {len(self.schema.sections)} sections of the schema "
                f"{self.schema.name!r}; give at least {self.schema.min_size}, or a schema with fewer"
            )
        for name, check in _CHECKS.items():
            check(name, getattr(self, name))
        policy_of(self.swap)
        resolve_timezone(self.timezone)
        if self.writer not in get_args(Writer):
            raise ValueError(f"writer is {self.writer!r}; it must be own or provider")
        if self.writer == "provider" and self.worker is not None:
            raise ValueError(
                "writer is 'provider', and worker is given: only the process that sends requests can have "
                "their provider summarize them; leave out `writer` or `worker`"
            )
        if self.profile and not self.facts:
            raise ValueError("profile learns from facts, and facts is False; leave out `profile` or `facts`")
        if self.instructions is not None and not isinstance(self.instructions, str):
            raise TypeError(f"instructions must be a string, not {type(self.instructions).__name__}")
        if self.model is not None and not is_chat_model(self.model):
            raise TypeError(
                f"the model for summaries is {type(self.model).__name__}, which has no `complete_chat`; "
                f"give a model, or None for a digest without a model"
            )
        if self.batch and self.model is not None and getattr(self.model, "can_batch", False) is not True:
            raise ValueError(
                f"batch is True, but the provider of {writer_name(self.model)!r} has no batches; leave it "
                f"out, or give a `Model` of Anthropic or OpenAI"
            )

    @property
    def batch_size(self) -> int:
        """The number of messages that a summary takes when the ceiling is exceeded."""
        return self.ceiling - self.floor


def check_worker_name(option: str, name: Any, *, optional: bool = False) -> None:
    """Check the name of a `Worker`."""
    if name is None and optional:
        return
    if not isinstance(name, str) or not name:
        problem, error = (f"is {name!r}", TypeError) if name != "" else ("is empty", ValueError)
        raise error(f"{option} {problem}; it must be the name of a Worker, such as 'summaries'")
    check_name(option, name)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "parallel": check_int,
    "pin_tokens": partial(check_int, least=0),
    "clear_results_after": partial(check_int, optional=True),
    "clear_images_after": partial(check_int, optional=True),
    "max_result_tokens": partial(check_int, least=MIN_RESULT_TOKENS, optional=True),
    "timeout": check_seconds,
    "lease": partial(check_seconds, most=MAX_LEASE_SECONDS),
    "cache_seconds": partial(check_seconds, optional=True),
    "summary_role": check_summary_role,
    "worker": partial(check_worker_name, optional=True),
    "floor_tokens": check_token_limit,
    "ceiling_tokens": check_token_limit,
    "hard_limit_tokens": check_token_limit,
}
# What a value that is neither a number nor a name must be, and whether it is.
_FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "auto": ("True or False", lambda value: isinstance(value, bool)),
    "batch": ("True or False", lambda value: isinstance(value, bool)),
    "facts": ("True or False", lambda value: isinstance(value, bool)),
    "share_prefix": ("True, False or 'auto'", lambda value: isinstance(value, bool) or value == "auto"),
    "profile": (
        "True, False or a function of a fact",
        lambda value: isinstance(value, bool) or callable(value),
    ),
}


def make_config(
    model: Any, config: ContextSummaryConfig | None, options: Mapping[str, Any], *, of: str
) -> ContextSummaryConfig:
    """The configuration that was given, or one from single options."""
    for name in options:
        if name not in _ALL_OPTIONS or name == "model":
            raise TypeError(f"{of} got an unexpected keyword argument {name!r}")
    if config is None:
        return ContextSummaryConfig(model=model, **options)
    if options:
        raise TypeError(f"give a config or {', '.join(options)}, not both; `replace` changes a config")
    return config if config.model is model else replace(config, model=model)


def read_config(value: Any, *, model: Any = None) -> ContextSummaryConfig | None:
    """The configuration that a `context_summary` argument asks for; None when it asks for none.

    `model` is the agent's own, which writes the summaries unless another one is named.
    """
    if value is None or value is False:
        return None
    if isinstance(value, ContextSummaryConfig):
        return value if value.model is not None else replace(value, model=model)
    if isinstance(value, str) and value != "auto":
        raise ValueError(
            f'context_summary is {value!r}; give "auto", True, False, a dict or a ContextSummaryConfig'
        )
    options = {} if value is True else {"auto": True} if isinstance(value, str) else value
    if not isinstance(options, Mapping):
        raise TypeError(
            f'context_summary is {type(value).__name__}; give True, a dict, "auto" or a ContextSummaryConfig'
        )
    unknown = sorted(str(name) for name in options if name not in _ALL_OPTIONS)
    if unknown:
        asked = ", ".join(f"{name}{did_you_mean(name, _ALL_OPTIONS)}" for name in unknown)
        raise ValueError(f"context_summary does not know {asked}; it takes {', '.join(_ALL_OPTIONS)}")
    return ContextSummaryConfig(**{"model": model, **options})


def resolve_timezone(value: Any) -> tzinfo:
    """A time zone that was given as an object or by its name."""
    if isinstance(value, tzinfo):
        return value
    # Imported here: few name one.
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(value)
    except (ValueError, TypeError, OSError, KeyError):
        raise ValueError(
            f"timezone is {value!r}; it must be a tzinfo, or a name such as 'Europe/Berlin'"
        ) from None


_ALL_OPTIONS = tuple(field.name for field in fields(ContextSummaryConfig))


class AutoLimits(NamedTuple):
    """The chosen limits that depend on the model, and the reason as a sentence for `explain`."""

    size: int
    reason: str
    # None where the context window is not known.
    floor_tokens: int | None = None
    ceiling_tokens: int | None = None
    hard_tokens: int | None = None


def choose_limits(window: int | None, price: Price | None, *, model: str | None = None) -> AutoLimits:
    """The limits for a model with this context window and price; None for what is not known of it."""
    name = model or "the model"
    known = price if price is not None and price.input > 0 else DEFAULT_PRICE
    cost = f"a cached token costs {known.cached_input / known.input:.2g} of an uncached one"
    if known is not price:
        cost = f"its price is not known: {cost}, as is usual"
    elif known.tier is not None:
        cost += f"; above {known.tier.above:,} tokens all cost {known.tier.input:g} times as much"
    if window is None:
        reads = f"the context window of {name} is not known, so messages are not counted in tokens"
        return AutoLimits(AUTO_SIZE, f"{reads}; {cost}")
    size = max(min(AUTO_SIZE, window // WINDOW_PER_SIZE), MIN_SIZE)
    tokens = [int(window * share) for share in (FLOOR_SHARE, CEILING_SHARE, HARD_SHARE)]
    # With less it is no window for conversations: only messages are counted.
    is_enough = tokens[-1] >= 2 * size
    return AutoLimits(size, f"{name} reads {window:,} tokens; {cost}", *(tokens if is_enough else ()))


def _least_size(schema: SummarySchema | None) -> int:
    return MIN_SIZE if schema is None else schema.min_size


def _resolve_floor_and_ceiling(floor: Any, ceiling: Any) -> tuple[int, int]:
    """Both limits, one chosen to go with the other when only one was given."""
    if type(floor) is int and floor < 1:
        # In words of its own: programs look for them.
        raise ValueError(f"floor must be at least 1, not {floor}")
    if floor is not None:
        check_int("floor", floor)
    if ceiling is not None:
        check_int("ceiling", ceiling, least=2)
    if ceiling is None:
        ceiling = DEFAULT_CEILING if floor is None or floor < DEFAULT_CEILING else 2 * floor
    if floor is None:
        floor = DEFAULT_FLOOR if ceiling > DEFAULT_FLOOR else max(ceiling // 2, 1)
    if floor >= ceiling:
        raise ValueError(
            f"floor ({floor}) must be less than ceiling ({ceiling}); "
            f"half of it is usual, here {max(ceiling // 2, 1)}"
        )
    return floor, ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """A configuration, and what follows from the reader's model and the budget."""

    # With the limits that `auto` chooses.
    config: ContextSummaryConfig
    limits: Limits
    size: int
    pin_tokens: int
    swap: SwapPolicy
    share_prefix: bool
    cache_seconds: float
    # The model that reads the context, and what its tokens cost, at least in proportion.
    reader: Any
    price: Price
    zone: tzinfo
    # The tokens that the summary and the window have together under a budget; None without one, or where
    # limits in tokens were given.
    room: int | None
    # What `auto` chose, and why; None where nothing was left to it.
    note: str | None
    # The model whose provider writes summaries as well; None if none does.
    block_writer: Any
    # Decides when a summary pays; None where limits were given.
    costs: CostModel | None

    def limits_beside(self, summary_tokens: int) -> Limits:
        """The limits of a window beside a summary: a history that passes its room is cut back in a step."""
        if self.room is None:
            return self.limits
        ceiling = max(self.room - summary_tokens, self.room // 3)
        floor = max(int(self.room * CUT_BACK_SHARE) - summary_tokens - self.size // 4, self.room // 4)
        return replace(self.limits, ceiling_tokens=ceiling, floor_tokens=min(floor, ceiling - 1))

    @property
    def facts_tokens(self) -> int:
        """The most tokens of the facts in a summary: a quarter of its size, or what some twenty need."""
        usual = self.size // 4
        return max(usual, min(FACTS_TOKENS, self.size // 3)) if self.size >= 2 * FACTS_TOKENS else usual

    @property
    def model_name(self) -> str:
        """The name of the model, which is stored with what it has written."""
        return writer_name(self.config.model)

    @property
    def task(self) -> str:
        """The task that is due for conversations: the name of a `Worker`, else of this configuration."""
        worker = self.config.worker
        return self.fingerprint() if worker is None else f"worker:{worker}"

    def fingerprint(self) -> str:
        """Identifies a configuration: what was rejected under one may be tried under another."""
        limits = replace(self.limits, hard=0, hard_tokens=None)
        said: tuple[Any, ...] = (self.model_name, limits, self.size, self.config.instructions)
        if self.config.schema is not None:
            said += (self.config.schema,)
        if self.config.batch:
            said += ("batch",)
        return sha256(repr(said).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def writer_name(model: Any) -> str:
    """The name to keep beside what a model has written; `digest` for no model."""
    return "digest" if model is None else model_name(model) or type(model).__name__


def resolve_settings(
    config: ContextSummaryConfig,
    window: int | None = None,
    *,
    reader: Any = None,
    budget: int | None = None,
    room: int | None = None,
    other_tokens: int = 0,
) -> CompactionSettings:
    """A configuration with every limit a number; `window` is the context window that fractions refer to.

    Under a `budget` in tokens the usual size of a summary is at most a third of it. `room` is what the
    budget leaves for the summary and the window; it is used unless limits in tokens were given. A context
    has `other_tokens` beside the conversation.
    """
    reads = reader if reader is not None else config.model
    by_cost, reason = config.auto and not config.ceiling and config.ceiling_tokens is None, ""
    may_shrink = config.auto or config.size == DEFAULT_SIZE
    if config.auto:
        chosen = choose_limits(window, price_of(reads), model=model_name(reads))
        config, reason = _fill_limits(config, chosen, with_room=room is not None), chosen.reason
    size = config.size
    if budget is not None and may_shrink:
        size = max(min(size, int(budget * SUMMARY_SHARE)), _least_size(config.schema))
    floor, ceiling, hard = (
        resolve_token_limit(name, getattr(config, name), window)
        for name in ("floor_tokens", "ceiling_tokens", "hard_limit_tokens")
    )
    if floor is not None and ceiling is not None and floor >= ceiling:
        raise ValueError(f"floor_tokens ({floor}) must be less than ceiling_tokens ({ceiling})")
    if ceiling is not None and hard is not None and ceiling >= hard:
        raise ValueError(f"hard_limit_tokens ({hard}) must be more than ceiling_tokens ({ceiling})")
    if hard is not None and hard < 2 * size:
        raise ValueError(
            f"hard_limit_tokens ({hard}) leaves too little room beside a summary of size {size}; "
            f"give at least {2 * size}, or a smaller size"
        )
    limits = Limits(
        floor=config.floor,
        ceiling=config.ceiling,
        hard=config.hard_limit,
        floor_tokens=floor,
        ceiling_tokens=ceiling,
        hard_tokens=hard,
    )
    shares_prefix = config.share_prefix
    if shares_prefix == "auto":
        # Only if the reader is known, and not where it merely stands for the model that writes.
        shares_prefix = (
            reader is not None and config.model is not None and is_same_model(reader, config.model)
        )
    price, cache = price_of(reads), cache_rule(reads)
    if config.cache_seconds is not None:
        cache = replace(cache, seconds=config.cache_seconds)
    costs = None
    if by_cost:
        # Without the price of the reader, those of most models count. A digest is written without a model.
        known, writer = (price, price_of(config.model)) if price and price.input else (DEFAULT_PRICE, None)
        writing = Price(input=0, output=0) if config.model is None else writer or known
        if config.batch:
            # A batch costs half.
            writing = replace(writing, input=writing.input / 2, output=writing.output / 2)
        costs = CostModel(
            price=known,
            writer=writing,
            cache=cache,
            shares_prefix=shares_prefix,
            floor=config.floor,
            size=size,
            other_tokens=other_tokens,
        )
    provider_writes = config.writer == "provider"
    notes: list[str] = []
    if reason:
        most = f"a summary of up to {size:,} tokens"
        chose = f"auto keeps {config.floor} to {config.ceiling} messages and {most}"
        if by_cost:
            cost = f"when the messages before the last {config.floor} have cost as much as it will"
            chose = f"auto writes {most} {cost}"
        notes.append(f"{chose}: {reason}. To choose yourself, give floor, ceiling or size")
    if provider_writes and not can_compact(reads):
        notes.append("the provider of this model writes no summaries on demand; our own are shown")
    return CompactionSettings(
        config=config,
        limits=limits,
        size=size,
        # Pins must leave room for everything else.
        pin_tokens=config.pin_tokens if hard is None else min(config.pin_tokens, hard // 8),
        swap=policy_of(config.swap),
        share_prefix=shares_prefix,
        cache_seconds=cache.seconds,
        reader=reads,
        price=price or DEFAULT_PRICE,
        zone=resolve_timezone(config.timezone),
        room=room if floor is None and ceiling is None else None,
        note="; ".join(notes) or None,
        block_writer=reads if provider_writes and can_compact(reads) else None,
        costs=costs,
    )


def can_compact(model: Any) -> bool:
    """Tell whether the provider of a model writes summaries on demand."""
    return getattr(model, "can_compact", False) is True


def check_writer(config: ContextSummaryConfig, reader: Any) -> None:
    """Refuse `writer="provider"` for a model whose provider is known to write no summaries."""
    if config.writer == "provider" and getattr(reader, "can_compact", None) is False:
        raise ValueError(
            f"writer is 'provider', but the provider of {model_name(reader)!r} writes no summaries; "
            f"leave it out, or use a current Claude model on Anthropic's own API, or a GPT model with "
            f"provider='openai-responses'"
        )


def _fill_limits(
    config: ContextSummaryConfig, limits: AutoLimits, *, with_room: bool = False
) -> ContextSummaryConfig:
    """A configuration of which `auto` chooses, with what was chosen where nothing was given."""
    floor, ceiling = config.floor, config.ceiling
    if not ceiling:
        ceiling = AUTO_CEILING - AUTO_FLOOR + (floor or AUTO_FLOOR)
    if not floor:
        floor = min(AUTO_FLOOR, max(ceiling // 2, 1))
    size = config.size or max(limits.size, _least_size(config.schema))
    chosen: dict[str, Any] = {}
    given = (config.floor_tokens, config.ceiling_tokens, config.hard_limit_tokens)
    if all(limit is None for limit in given) and 2 * size <= (limits.hard_tokens or 0):
        chosen["hard_limit_tokens"] = limits.hard_tokens
        # Under a budget they follow what it leaves for the history.
        if not with_room:
            chosen |= {"floor_tokens": limits.floor_tokens, "ceiling_tokens": limits.ceiling_tokens}
    hard = config.hard_limit or 2 * ceiling
    return replace(config, auto=False, floor=floor, ceiling=ceiling, size=size, hard_limit=hard, **chosen)
