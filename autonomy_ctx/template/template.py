"""`ContextTemplate`: runs sections in order, applies the budget, and returns a `ComposedContext`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from autonomy_ctx.background import AsyncResource, Chunks, begin_urgent_step, close_resource
from autonomy_ctx.formats.model_info import check_token_limit, context_window_of, resolve_token_limit
from autonomy_ctx.formats.outgoing import model_dict
from autonomy_ctx.hooks import Hook, fire, validate_hooks
from autonomy_ctx.messages.tokens import TokenCounter, token_counter_of
from autonomy_ctx.sections.section import ComposeParams
from autonomy_ctx.template.budget import Measure
from autonomy_ctx.template.cache_order import CacheWarning, PlannedSection, lint_order
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.composer import Composer
from autonomy_ctx.template.epoch_store import StoredEpochs
from autonomy_ctx.template.running import SectionOptions, is_enabled, read_section_options
from autonomy_ctx.validation import check_int

if TYPE_CHECKING:
    from autonomy_ctx.formats.output_schema import OutputSchema

_DEFAULT_COUNTER = TokenCounter()


class TemplateHook(Enum):
    """The events of a template. Hooks get scope, conversation and params before, the context after."""

    BEFORE_COMPOSE = "before_compose"
    AFTER_COMPOSE = "after_compose"


class ContextTemplate(AsyncResource):
    """Runs sections in order and returns what the model will see.

    If a required section fails, `SectionError` is raised; an optional one is left out and recorded. With
    `max_tokens`, messages, tools and the reserved output never take more: sections are shortened by priority,
    or `BudgetExceeded` is raised. A fraction refers to `model.context_window`. With `arrange="cache"`,
    sections run in order, but messages are placed for a provider's cache: stable ones first, volatile ones
    right after the newest user message.
    """

    def __init__(
        self,
        sections: Sequence[Any],
        *,
        max_tokens: int | float | None = None,
        reserve_output: int = 0,
        token_counter: TokenCounter | None = None,
        hooks: Iterable[Hook] | None = None,
        model: Any = None,
        arrange: Literal["given", "cache"] = "given",
    ) -> None:
        check_token_limit("max_tokens", max_tokens)
        if isinstance(max_tokens, float) and model is None:
            raise ValueError(
                f"max_tokens is a fraction ({max_tokens}) of a context window; "
                f"say of which `model`, or give a number of tokens"
            )
        if arrange not in ("given", "cache"):
            raise ValueError(f"arrange is {arrange!r}; it must be given or cache")
        check_int("reserve_output", reserve_output, least=0)
        if isinstance(max_tokens, int) and reserve_output >= max_tokens:
            raise ValueError(
                f"reserve_output ({reserve_output}) leaves nothing of max_tokens ({max_tokens}) for messages"
            )
        self.max_tokens, self.reserve_output, self.model = max_tokens, reserve_output, model
        if not isinstance(sections, Iterable) or isinstance(sections, str | Mapping):
            raise TypeError(f"sections must be a list of sections, not {type(sections).__name__}")
        self.sections = list(sections)
        self.arrange = arrange
        self.hooks = validate_hooks(hooks, TemplateHook)
        # None: as memory counts, so that stored counts are used and there is one calibration.
        self.token_counter = token_counter
        # By the id of a section, which its options keep alive: the id cannot come to mean another one.
        self._section_options: dict[int, SectionOptions] = {}
        for section in self.sections:
            self._options_of(section)
        for name, count in Counter(self.get_section_names()).items():
            if count > 1:
                _warn_of_one_name(name)

    @property
    def section_options(self) -> list[SectionOptions]:
        """Each section with its options and what it offers, in order."""
        return [self._options_of(section) for section in self.sections]

    def get_section(self, name: str) -> Any | None:
        """The first section with a name, or None."""
        return next((section for section in self.sections if section.name == name), None)

    def get_section_names(self) -> list[str]:
        """The names of all sections, in order."""
        return [section.name for section in self.sections]

    def add_section(self, section: Any, index: int | None = None) -> None:
        """Add a section at the end, or at an index."""
        name = self._options_of(section).name
        if self.get_section(name) is not None:
            _warn_of_one_name(name)
        self.sections.insert(len(self.sections) if index is None else index, section)

    def remove_section(self, name: str) -> bool:
        """Remove the first section with this name. Returns whether there was one."""
        section = self.get_section(name)
        if section is None:
            return False
        self.sections.remove(section)
        self._section_options.pop(id(section), None)
        return True

    def lint(self, composed: ComposedContext | None = None) -> list[CacheWarning]:
        """Warnings about sections that end an epoch in every turn, with the cost.

        Sizes are those of a context composed before, or typical ones.
        """
        _check_context("composed", composed)
        return lint_order(self.plan(composed))

    def plan(self, composed: ComposedContext | None = None) -> list[PlannedSection]:
        """The enabled sections, as `lint` and the order for a cache see them."""
        reports = {} if composed is None else {one.name: one for one in reversed(composed.sections)}
        return [
            PlannedSection(
                name=options.name,
                kind=options.kind,
                tokens=reports[options.name].tokens if options.name in reports else None,
                is_latest=options.keep == "latest",
                max_messages=getattr(options.section, "max_messages", None),
            )
            for options in self.section_options
            if is_enabled(options.section)
        ]

    async def build_context(
        self, memory: Any, scope: str, conversation: str, params: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The context as a list of dicts that belong to the caller."""
        composed = await self.compose(memory, scope, conversation, params)
        return [model_dict(message) async for some in Chunks(composed.messages) for message in some]

    async def compose(
        self,
        memory: Any,
        scope: str,
        conversation: str,
        params: Mapping[str, Any] | None = None,
        *,
        previous: ComposedContext | None = None,
        tools: Sequence[Any] = (),
        output: OutputSchema | None = None,
        max_tokens: int | None = None,
        stored: StoredEpochs | None = None,
    ) -> ComposedContext:
        """The context with a report of each section.

        Given the `previous` context of this conversation, which was sent, it goes on from it where that is
        possible: `end_reason` says why not. Sections share a copy of `params`, which the context returns as
        they left it. `tools`, as specs or objects with a `spec`, and `output`, the schema that is sent for
        the answer, count towards the budget. `max_tokens` is the budget of this call, instead of the
        template's. `stored` are the epochs that memory has, which agents and engines pass.
        """
        if max_tokens is not None:
            check_int("max_tokens", max_tokens, optional=True)
        elif isinstance(self.max_tokens, float):
            window = context_window_of(self.model)
            max_tokens = resolve_token_limit("max_tokens", self.max_tokens, window)
        else:
            max_tokens = self.max_tokens
        _check_context("previous", previous)
        if previous is not None and (previous.scope, previous.conversation) != (scope, conversation):
            raise ValueError(
                f"previous is a context of {previous.conversation!r} of {previous.scope!r}; give one of this "
                f"conversation, {conversation!r} of {scope!r}"
            )
        shared = ComposeParams.copy_of(params)
        if self.hooks:
            await fire(self.hooks, TemplateHook.BEFORE_COMPOSE, scope, conversation, shared)
        counter = self.token_counter or token_counter_of(memory) or _DEFAULT_COUNTER
        composer = Composer(
            options=self.section_options,
            memory=memory,
            scope=scope,
            conversation=conversation,
            params=shared,
            measure=Measure(counter, counter.calibration.factor),
            arrange=self.arrange,
            max_tokens=max_tokens,
            reserve_output=self.reserve_output,
            tools=tools,
            output=output,
            previous=previous,
            stored=stored,
        )
        urgent = begin_urgent_step()
        try:
            composed = await composer.compose()
        finally:
            if urgent is not None:
                urgent.end()
        if self.hooks:
            await fire(self.hooks, TemplateHook.AFTER_COMPOSE, composed)
        return composed

    async def settled(self) -> None:
        """Wait until no section has a summary to write. For scripts and tests; a turn never waits."""
        for section in self.sections:
            if (settled := getattr(section, "settled", None)) is not None:
                await settled()

    async def close(self) -> None:
        """Close the sections that have something to close, such as summaries in the background."""
        for options in self.section_options:
            if options.closeable is not None:
                await close_resource(options.closeable)

    def _options_of(self, section: Any) -> SectionOptions:
        known = self._section_options.get(id(section))
        if known is None:
            known = self._section_options[id(section)] = read_section_options(section)
        return known

    def __repr__(self) -> str:
        return f"ContextTemplate([{', '.join(self.get_section_names())}])"


def _warn_of_one_name(name: str) -> None:
    """A warning where the template was made, or where the section was added."""
    warnings.warn(
        f"two sections have the name {name!r}: `get_section` and `remove_section` find only the first; "
        f"give one of them another name",
        stacklevel=3,
    )


def _check_context(name: str, given: Any) -> None:
    if given is not None and not isinstance(given, ComposedContext):
        raise TypeError(
            f"{name} is {type(given).__name__}; it must be a context that `compose` gave, or None"
        )
