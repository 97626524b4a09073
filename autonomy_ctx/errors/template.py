"""Why there is no context to send."""

from __future__ import annotations

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
