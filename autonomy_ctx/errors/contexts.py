"""Errors of templates, sections, hooks and containers."""

from __future__ import annotations

from collections.abc import Mapping

from autonomy_ctx.errors.root import AutonomyCtxError


class SectionError(AutonomyCtxError):
    """A required section failed, so no context was composed."""

    def __init__(self, *, section: str, problem: str) -> None:
        super().__init__(
            f"required section `{section}` {problem}; no context was composed. "
            f"Fix the section. If a turn may do without it, set `required = False` on it before "
            f"you add it to the template"
        )
        self.section = section


class BudgetExceeded(AutonomyCtxError):
    """The messages that may not be left out are larger than the budget, so no context was composed."""

    def __init__(
        self,
        *,
        needed: int,
        budget: int,
        sections: Mapping[str, int],
        max_tokens: int | None = None,
        tools: int = 0,
        reserved: int = 0,
    ) -> None:
        shown = ", ".join(f"`{name}` {tokens}" for name, tokens in sections.items()) or "no section"
        if max_tokens is None:
            limit, advice = (
                f"its own `max_tokens` is {budget}",
                "raise it, or shorten what the section must show",
            )
        else:
            limit = f"nothing of `max_tokens` {max_tokens} is left for messages"
            if budget > 0:
                limit = f"messages may have {budget} tokens of `max_tokens` {max_tokens}"
            if tools or reserved:
                limit += f" ({tools} are for tools, {reserved} for the output)"
            advice = "raise `max_tokens`, or limit a required section with a `max_tokens` of its own"
            if tools > max(budget, 0):
                advice += ", or offer fewer tools"
            if reserved > max(budget, 0):
                advice += ", or lower `reserve_output`"
        super().__init__(
            f"the messages that may not be left out need {needed} tokens ({shown}), but {limit}; "
            f"no context was composed: {advice}"
        )
        self.needed, self.budget = needed, budget
        self.sections = dict(sections)
        self.max_tokens, self.tools, self.reserved = max_tokens, tools, reserved


class HookError(AutonomyCtxError):
    """A hook failed.

    Where possible, this error is also an instance of the exception type that the hook raised.
    """

    def __init__(self, *, hook: str, event: str, problem: str, done: bool | None = None) -> None:
        self.hook, self.event, self.done = hook, event, done
        outcome = {
            None: "",
            False: "; nothing was changed",
            True: "; the change was made before, and stays",
        }
        self.sentence = f"hook `{hook}` ({event}) failed: {problem}{outcome[done]}"
        # Not `super()`: the next class may be the hook's own exception type, which takes other arguments.
        Exception.__init__(self, self.sentence)

    def __str__(self) -> str:
        # Some types that it is combined with, such as KeyError, would format the text differently.
        return self.sentence


class UnregisteredHookError(AutonomyCtxError, LookupError):
    """No hook is registered under the requested name."""

    def __init__(self, name: str, *, event: str | None = None) -> None:
        kind = "hook" if event is None else f"{event} hook"
        super().__init__(
            f"no {kind} named {name!r} is registered; import the module that defines it with "
            f"`@hook(...)` first"
        )
        self.name, self.event = name, event


class InvalidItem(AutonomyCtxError, ValueError):
    """A context item cannot be stored, written as JSON, or read back."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid context item: `{field}` {problem}")
        self.field, self.problem = field, problem


class InvalidContainer(AutonomyCtxError, ValueError):
    """A saved container cannot be read back."""

    def __init__(self, kind: str, field: str, problem: str) -> None:
        super().__init__(f"this is not a saved {kind}: `{field}` {problem}")
        self.field, self.problem = field, problem


class UnknownItem(AutonomyCtxError, KeyError):
    """The pool has no item with this id."""

    def __init__(self, item_id: str, *, advice: str = "`catalogue()` lists the ids") -> None:
        super().__init__(item_id)
        self.item_id, self.advice = item_id, advice

    def __str__(self) -> str:
        return f"no item with the id {self.item_id!r}; {self.advice}"


class LimitNotMet(AutonomyCtxError):
    """The items that may not be removed from a context are larger than the limit; nothing was removed."""

    def __init__(self, *, over_items: int, over_tokens: int) -> None:
        sizes = [f"{over_items:,} items"] * bool(over_items) + [f"{over_tokens:,} tokens"] * bool(over_tokens)
        super().__init__(
            f"instructions, summaries, handoffs, calls still running and the newest user message are "
            f"{' and '.join(sizes)} over the limit; raise the limit or shorten them. Nothing was removed"
        )
        self.over_items, self.over_tokens = over_items, over_tokens


class SummaryFailed(AutonomyCtxError):
    """A model did not write a usable summary; the context is unchanged."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the summary {problem}; the context is unchanged. Try again, or use another model")
        self.problem = problem


class InvalidContextFile(AutonomyCtxError, ValueError):
    """A file does not contain a context or a runtime; the file was not changed."""

    def __init__(self, *, path: str, problem: str, advice: str) -> None:
        super().__init__(f"{path} {problem}; the file was not changed. {advice}")
        self.path, self.problem = path, problem
