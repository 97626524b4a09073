"""Why there is no context to send."""

from __future__ import annotations

from collections.abc import Mapping

from autonomy_ctx.errors.root import AutonomyCtxError


class SectionError(AutonomyCtxError):
    """A section that may not be left out failed, so there is no context to send."""

    def __init__(self, *, section: str, problem: str) -> None:
        super().__init__(
            f"required section `{section}` {problem}; no context was composed. "
            f"Mend the section, or set `required = False` on it before it joins the template "
            f"if a turn may go on without it"
        )
        self.section = section


class BudgetExceeded(AutonomyCtxError):
    """What may not be cut is, alone, larger than the budget: there is no context to send."""

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
            limit, advice = f"its own `max_tokens` is {budget}", "raise it, or make what it must show shorter"
        else:
            left = f"messages may have {budget}" if budget > 0 else "nothing is left for messages"
            limit = f"of `max_tokens` {max_tokens} {left}"
            if tools or reserved:
                limit += f" ({tools} are for tools, {reserved} for the output)"
            advice = "raise `max_tokens`, or give a required section one of its own"
            if tools > max(budget, 0):
                advice += ", or offer fewer tools"
            if reserved > max(budget, 0):
                advice += ", or lower `reserve_output`"
        super().__init__(
            f"what may not be left out needs {needed} tokens ({shown}), but {limit}; "
            f"no context was composed: {advice}"
        )
        self.needed, self.budget = needed, budget
        self.sections = dict(sections)
        self.max_tokens, self.tools, self.reserved = max_tokens, tools, reserved
