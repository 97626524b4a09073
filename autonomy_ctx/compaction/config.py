"""The configuration of summaries.

`ContextSummaryConfig` is what users write; `CompactionSettings` has every limit resolved to a number. All
values are checked here, and errors say what would be valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, tzinfo
from hashlib import sha256
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from autonomy_ctx.compaction.auto_limits import AutoLimits, choose_limits
from autonomy_ctx.compaction.cost_model import CostModel
from autonomy_ctx.compaction.facts import ProfileRule
from autonomy_ctx.compaction.plan import Limits
from autonomy_ctx.compaction.schema import SummarySchema, read_schema
from autonomy_ctx.compaction.swap_policy import SwapPolicy, policy_of
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.formats.model_table import DEFAULT_PRICE, CacheRule, Price
from autonomy_ctx.memory.store import MAX_LEASE_SECONDS, check_name
from autonomy_ctx.messages.summary import SummaryRole, check_summary_role
from autonomy_ctx.models.call import is_chat_model
from autonomy_ctx.models.catalog import cache_rule, price_of
from autonomy_ctx.validation import check_int, check_seconds

Writer: TypeAlias = Literal["own", "provider"]

DEFAULT_FLOOR, DEFAULT_CEILING, DEFAULT_SIZE, MIN_SIZE = 10, 20, 2048, 128
# Of a budget, what a summary may take, and what is left of the history when it passes its room.
SUMMARY_SHARE, CUT_BACK_SHARE = 1 / 3, 0.7
# What the facts of a summary that is not small may have, about twenty of them.
FACTS_TOKENS = 512


@dataclass(frozen=True, slots=True, init=False)
class ContextSummaryConfig:
    """Limits and options of a summarized history. Values that are not given follow from the others.

    Limits in tokens are whole numbers, or fractions of the model's context window.
    """

    # Messages shown verbatim after a summary, and how many make the next one due.
    floor: int
    ceiling: int
    # The most tokens of all segments of a summary together.
    size: int
    # Take floor, ceiling and size, where they are not given, from the context window and price of the model
    # that reads the context. Until that is known, they are 0 here.
    auto: bool
    # The model that writes summaries; None for a digest without any model.
    model: Any
    # A prompt with {conversation}, or a sentence of what to preserve.
    instructions: str | None
    # The same two limits in tokens, in addition to those in messages.
    floor_tokens: int | float | None
    ceiling_tokens: int | float | None
    # Limits that no context exceeds, even if no summary is written: in messages and in tokens.
    hard_limit: int
    hard_limit_tokens: int | float | None
    # Seconds that one call of the model may take.
    timeout: float
    # Start earlier, because messages are expected to arrive while a summary is written.
    lead: bool
    # Conversations summarized at the same time.
    parallel: int
    # The most tokens that pinned messages take together.
    pin_tokens: int
    # Seconds after which another process takes over from one that died while it wrote a summary.
    lease: float
    # When a summary that is ready is shown: `eager` at once, `cost` when that is cheapest, or a function.
    swap: Literal["eager", "cost"] | SwapPolicy
    # Have the model that reads the context write the summary, after what it has cached, if that is cheaper:
    # `auto` when the model that writes summaries is known to be the one that reads the context.
    share_prefix: bool | Literal["auto"]
    # Seconds for which a provider keeps what it has cached; None for those in the table of models.
    cache_seconds: float | None
    # The role of the message that shows the summary. Most models read a "system" message as rules.
    summary_role: SummaryRole
    # Keep facts (rules, decisions, values, open items) below the summary.
    facts: bool
    # Learn a profile from facts: True for our rules, or a function that takes a fact.
    profile: bool | ProfileRule
    # The time zone of the days in prompts and summaries: a tzinfo, or a name.
    timezone: tzinfo | str
    # The name of the `Worker` that writes the summaries, in another process; None for this one.
    worker: str | None
    # The sections of the summary; None for the default headings.
    schema: SummarySchema | None
    # `provider`: have the provider of the model that reads the context write a summary as well, which it is
    # shown in place of ours. Thinking of the messages after it is then kept.
    writer: Writer

    def __init__(
        self,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        size: int | None = None,
        auto: bool = False,
        model: Any = None,
        instructions: str | None = None,
        floor_tokens: int | float | None = None,
        ceiling_tokens: int | float | None = None,
        hard_limit: int | None = None,
        hard_limit_tokens: int | float | None = None,
        timeout: float = 60.0,
        lead: bool = False,
        parallel: int = 4,
        pin_tokens: int = 1024,
        lease: float = 30.0,
        swap: Literal["eager", "cost"] | SwapPolicy = "eager",
        share_prefix: bool | Literal["auto"] = "auto",
        cache_seconds: float | None = None,
        summary_role: SummaryRole = "user",
        facts: bool = True,
        profile: bool | ProfileRule = False,
        timezone: tzinfo | str = UTC,
        worker: str | None = None,
        schema: SummarySchema | str | Mapping[str, Any] | Sequence[Any] | None = None,
        writer: Writer = "own",
    ) -> None:
        if not isinstance(auto, bool):
            raise TypeError(f"auto is {auto!r}; it must be True or False")
        chosen_schema = read_schema(schema)
        if auto:
            chosen_floor, chosen_ceiling, usual_size, usual_hard_limit = floor or 0, ceiling or 0, 0, 0
        else:
            chosen_floor, chosen_ceiling = _resolve_floor_and_ceiling(floor, ceiling)
            usual_size, usual_hard_limit = _usual_size(hard_limit_tokens, chosen_schema), 2 * chosen_ceiling
        values: dict[str, Any] = {
            "auto": auto,
            "floor": chosen_floor,
            "ceiling": chosen_ceiling,
            "size": usual_size if size is None else size,
            "model": model,
            "instructions": instructions,
            "floor_tokens": floor_tokens,
            "ceiling_tokens": ceiling_tokens,
            "hard_limit": usual_hard_limit if hard_limit is None else hard_limit,
            "hard_limit_tokens": hard_limit_tokens,
            "timeout": timeout,
            "lead": lead,
            "parallel": parallel,
            "pin_tokens": pin_tokens,
            "lease": lease,
            "swap": swap,
            "share_prefix": share_prefix,
            "cache_seconds": cache_seconds,
            "summary_role": summary_role,
            "facts": facts,
            "profile": profile,
            "timezone": timezone,
            "worker": worker,
            "schema": chosen_schema,
            "writer": writer,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.auto:
            # What it is for a model of which nothing is known has to be valid, too.
            _fill_limits(self, choose_limits(None, None))
            return
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
                f"{self.schema.name!r}; give at least {self.schema.min_size}, or a schema of fewer"
            )
        check_int("parallel", self.parallel)
        check_int("pin_tokens", self.pin_tokens, least=0)
        check_seconds("timeout", self.timeout)
        check_seconds("lease", self.lease, most=MAX_LEASE_SECONDS)
        if self.cache_seconds is not None:
            check_seconds("cache_seconds", self.cache_seconds)
        policy_of(self.swap)
        check_summary_role("summary_role", self.summary_role)
        resolve_timezone(self.timezone)
        if self.worker is not None:
            check_worker_name("worker", self.worker)
        if self.writer not in get_args(Writer):
            raise ValueError(f"writer is {self.writer!r}; it must be own or provider")
        if self.writer == "provider" and self.worker is not None:
            raise ValueError(
                "writer is 'provider', and worker is given: only the process that sends requests can have "
                "their provider summarize them; leave out one of them"
            )
        if not isinstance(self.facts, bool):
            raise TypeError(f"facts is {self.facts!r}; it must be True or False")
        if self.share_prefix != "auto" and not isinstance(self.share_prefix, bool):
            raise TypeError(f"share_prefix is {self.share_prefix!r}; it must be True, False or 'auto'")
        if not isinstance(self.profile, bool) and not callable(self.profile):
            raise TypeError(f"profile is {self.profile!r}; it must be True, False or a function of a fact")
        if self.profile and not self.facts:
            raise ValueError("profile learns from facts, and facts is False; leave out one of them")
        if self.instructions is not None and not isinstance(self.instructions, str):
            raise TypeError(f"instructions must be a string, not {type(self.instructions).__name__}")
        if self.model is not None and not is_chat_model(self.model):
            raise TypeError(
                f"the model for summaries is {type(self.model).__name__}, which has no `complete_chat`; "
                f"give a model, or None for a digest without a model"
            )
        for name in ("floor_tokens", "ceiling_tokens", "hard_limit_tokens"):
            _check_tokens(name, getattr(self, name))

    @property
    def batch_size(self) -> int:
        """The number of messages that a summary takes when the ceiling is exceeded."""
        return self.ceiling - self.floor


class SummaryOptions(TypedDict, total=False):
    """Options of a `ContextSummaryConfig`, as keyword arguments of a section."""

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
    swap: Literal["eager", "cost"] | SwapPolicy
    share_prefix: bool | Literal["auto"]
    cache_seconds: float | None
    summary_role: SummaryRole
    facts: bool
    profile: bool | ProfileRule
    timezone: tzinfo | str
    worker: str | None
    schema: SummarySchema | str | Mapping[str, Any] | Sequence[Any] | None
    writer: Writer


def make_config(
    model: Any, config: ContextSummaryConfig | None, options: Mapping[str, Any], *, of: str
) -> ContextSummaryConfig:
    """The configuration that was given, or one from single options."""
    known = {*SummaryOptions.__annotations__, "floor", "ceiling", "size", "instructions"}
    for name in options:
        if name not in known:
            raise TypeError(f"{of} got an unexpected keyword argument {name!r}")
    if config is None:
        return ContextSummaryConfig(model=model, **options)
    if options:
        raise TypeError(f"give a config or {', '.join(options)}, not both; `replace` changes a config")
    return config if config.model is model else replace(config, model=model)


def _fill_limits(
    config: ContextSummaryConfig, limits: AutoLimits, *, with_room: bool = False
) -> ContextSummaryConfig:
    """A configuration of which `auto` chooses, with what was chosen where nothing was given."""
    floor, ceiling = config.floor, config.ceiling
    if not ceiling:
        ceiling = limits.ceiling - limits.floor + (floor or limits.floor)
    if not floor:
        floor = min(limits.floor, max(ceiling // 2, 1))
    least = MIN_SIZE if config.schema is None else config.schema.min_size
    size = config.size or max(limits.size, least)
    tokens: dict[str, Any] = {
        "floor_tokens": config.floor_tokens,
        "ceiling_tokens": config.ceiling_tokens,
        "hard_limit_tokens": config.hard_limit_tokens,
    }
    if all(limit is None for limit in tokens.values()) and 2 * size <= (limits.hard_tokens or 0):
        tokens["hard_limit_tokens"] = limits.hard_tokens
        # Under a budget they follow what it leaves for the history.
        if not with_room:
            tokens |= {"floor_tokens": limits.floor_tokens, "ceiling_tokens": limits.ceiling_tokens}
    return replace(
        config,
        auto=False,
        floor=floor,
        ceiling=ceiling,
        size=size,
        hard_limit=config.hard_limit or 2 * ceiling,
        **tokens,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """A configuration with every limit resolved to a number, for the parts of compaction."""

    limits: Limits
    size: int
    model: Any
    instructions: str | None
    timeout: float
    lead: bool
    parallel: int
    pin_tokens: int
    lease: float
    swap: SwapPolicy
    share_prefix: bool
    cache_seconds: float
    # The model that reads the context, and what its tokens cost, at least in proportion.
    reader: Any
    price: Price
    facts: bool = True
    profile: bool | ProfileRule = False
    zone: tzinfo = UTC
    worker: str | None = None
    schema: SummarySchema | None = None
    # The tokens that the summary and the window have together under a budget; None without one, or where
    # limits in tokens were given.
    room: int | None = None
    # What `auto` chose, and why; None where nothing was left to it.
    note: str | None = None
    # The model whose provider writes summaries as well; None if none does.
    block_writer: Any = None
    # Decides when a summary pays; None where limits were given.
    costs: CostModel | None = None

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
        return writer_name(self.model)

    @property
    def task(self) -> str:
        """The task that is due for conversations: the name of a `Worker`, else of this configuration."""
        return self.fingerprint() if self.worker is None else f"worker:{self.worker}"

    def fingerprint(self) -> str:
        """Identifies a configuration: what was rejected under one may be tried under another."""
        limits = replace(self.limits, hard=0, hard_tokens=None)
        said: tuple[Any, ...] = (self.model_name, limits, self.size, self.instructions)
        if self.schema is not None:
            said += (self.schema,)
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
    reads, is_auto = reader if reader is not None else config.model, config.auto
    reason, by_cost = "", is_auto and not config.ceiling and config.ceiling_tokens is None
    if is_auto:
        chosen = choose_limits(window, price_of(reads), model=model_name(reads))
        config, reason = _fill_limits(config, chosen, with_room=room is not None), chosen.reason
        if budget is not None:
            least = MIN_SIZE if config.schema is None else config.schema.min_size
            config = replace(config, size=max(min(config.size, int(budget * SUMMARY_SHARE)), least))
    floor, ceiling, hard = (
        _resolve_tokens(name, getattr(config, name), window)
        for name in ("floor_tokens", "ceiling_tokens", "hard_limit_tokens")
    )
    if floor is not None and ceiling is not None and floor >= ceiling:
        raise ValueError(f"floor_tokens ({floor}) must be less than ceiling_tokens ({ceiling})")
    if ceiling is not None and hard is not None and ceiling >= hard:
        raise ValueError(f"hard_limit_tokens ({hard}) must be more than ceiling_tokens ({ceiling})")
    if hard is not None and hard < 2 * config.size:
        raise ValueError(
            f"hard_limit_tokens ({hard}) leaves too little room beside a summary of size {config.size}; "
            f"give at least {2 * config.size}, or a smaller size"
        )
    size, shares_prefix = _size_within(config.size, budget), _shares_prefix(config, reader)
    price, cache = price_of(reads) or DEFAULT_PRICE, cache_rule(reads)
    if config.cache_seconds is not None:
        cache = replace(cache, seconds=config.cache_seconds)
    limits = Limits(
        floor=config.floor,
        ceiling=config.ceiling,
        hard=config.hard_limit,
        floor_tokens=floor,
        ceiling_tokens=ceiling,
        hard_tokens=hard,
    )
    notes = [_auto_note(config, reason, by_cost), _writer_note(config, reads)]
    return CompactionSettings(
        limits=limits,
        size=size,
        model=config.model,
        instructions=config.instructions,
        timeout=config.timeout,
        lead=config.lead,
        parallel=config.parallel,
        # Pins must leave room for everything else.
        pin_tokens=config.pin_tokens if hard is None else min(config.pin_tokens, hard // 8),
        lease=config.lease,
        swap=policy_of(config.swap),
        share_prefix=shares_prefix,
        cache_seconds=cache.seconds,
        reader=reads,
        price=price,
        facts=config.facts,
        profile=config.profile,
        zone=resolve_timezone(config.timezone),
        worker=config.worker,
        schema=config.schema,
        room=room if floor is None and ceiling is None else None,
        note="; ".join(filter(None, notes)) or None,
        block_writer=reads if config.writer == "provider" and can_compact(reads) else None,
        costs=_cost_model(config, reads, cache, shares_prefix, size, other_tokens) if by_cost else None,
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


def _writer_note(config: ContextSummaryConfig, reader: Any) -> str:
    """Say that the provider was to write a summary, and cannot."""
    is_ours = config.writer == "provider" and not can_compact(reader)
    return "no provider is known that writes summaries on demand; ours are shown" if is_ours else ""


def _cost_model(
    config: ContextSummaryConfig,
    reader: Any,
    cache: CacheRule,
    shares_prefix: bool,
    size: int,
    other_tokens: int,
) -> CostModel:
    """The costs by which `auto` decides. Without the price of the reader, those of most models count."""
    price, writer = price_of(reader), price_of(config.model)
    if price is None or not price.input:
        price, writer = DEFAULT_PRICE, None
    return CostModel(
        price=price,
        # A digest is written without a model.
        writer=Price(input=0, output=0) if config.model is None else writer or price,
        cache=cache,
        shares_prefix=shares_prefix,
        floor=config.floor,
        size=size,
        other_tokens=other_tokens,
    )


def _auto_note(config: ContextSummaryConfig, reason: str, by_cost: bool) -> str:
    """Explain what `auto` chose and why; without a reason, it chose nothing."""
    if not reason:
        return ""
    size = f"a summary of up to {config.size:,} tokens"
    chosen = (
        f"auto writes {size} when the messages before the last {config.floor} have cost as much as it will"
        if by_cost
        else f"auto keeps {config.floor} to {config.ceiling} messages and {size}"
    )
    return f"{chosen}: {reason}. To choose yourself, give floor, ceiling or size"


def _shares_prefix(config: ContextSummaryConfig, reader: Any) -> bool:
    """Tell whether a summary may be asked for after what the reader has cached."""
    if config.share_prefix != "auto":
        return config.share_prefix
    model = config.model
    if reader is None or model is None:
        return False
    name = model_name(reader)
    return reader is model or (name is not None and name == model_name(model))


def _size_within(size: int, budget: int | None) -> int:
    """The size of a summary under a budget; a size that was chosen stays."""
    if budget is None or size != DEFAULT_SIZE:
        return size
    return max(min(size, int(budget * SUMMARY_SHARE)), MIN_SIZE)


def read_config(value: Any, *, model: Any = None) -> ContextSummaryConfig | None:
    """The configuration that a `context_summary` argument asks for; None when it asks for none.

    `model` is the agent's own, which writes the summaries unless another one is named.
    """
    if value is None or value is False:
        return None
    if value is True:
        value = {}
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(
                f'context_summary is {value!r}; give "auto", True, False, a dict or a ContextSummaryConfig'
            )
        value = {"auto": True}
    if isinstance(value, ContextSummaryConfig):
        return value if value.model is not None else replace(value, model=model)
    if not isinstance(value, Mapping):
        raise TypeError(
            f'context_summary is {type(value).__name__}; give True, a dict, "auto" or a ContextSummaryConfig'
        )
    known = [field.name for field in fields(ContextSummaryConfig)]
    unknown = sorted(str(name) for name in value if name not in known)
    if unknown:
        raise ValueError(f"context_summary does not know {', '.join(unknown)}; it takes {', '.join(known)}")
    return ContextSummaryConfig(**{"model": model, **value})


def _usual_size(hard_limit_tokens: int | float | None, schema: SummarySchema | None) -> int:
    """The usual size of a summary, smaller when the hard limit is a small number of tokens."""
    if not isinstance(hard_limit_tokens, int):
        return DEFAULT_SIZE
    least = MIN_SIZE if schema is None else schema.min_size
    return max(min(DEFAULT_SIZE, hard_limit_tokens // 4), least)


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


def check_worker_name(option: str, name: Any) -> None:
    """Check the name of a `Worker`."""
    if not isinstance(name, str):
        raise TypeError(f"{option} is {name!r}; it must be the name of a Worker, such as 'summaries'")
    if not name:
        raise ValueError(f"{option} is empty; it must be the name of a Worker, such as 'summaries'")
    check_name(option, name)


def _check_tokens(name: str, value: Any) -> None:
    if not isinstance(value, float):
        check_int(name, value, optional=True)
    elif not 0 < value <= 1:
        raise ValueError(f"{name} is {value}; as a fraction of the context window it is above 0, up to 1")


def _resolve_tokens(name: str, value: int | float | None, window: int | None) -> int | None:
    """A limit in tokens as a number, also when it was given as a part of the window."""
    if not isinstance(value, float):
        return value
    if window is None:
        raise ValueError(
            f"{name} is a fraction ({value}), but the model's context window is not known; "
            f"give a number of tokens, or a model with `context_window`"
        )
    return max(int(value * window), 1)
