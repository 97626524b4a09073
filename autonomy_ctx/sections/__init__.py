"""Sections pick from memory what a model will see."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "ContributingSection": "autonomy_ctx.sections.section",
    "Contribution": "autonomy_ctx.sections.section",
    "Omission": "autonomy_ctx.sections.section",
    "Section": "autonomy_ctx.sections.section",
}

if TYPE_CHECKING:
    from autonomy_ctx.sections.section import ContributingSection, Contribution, Omission, Section
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "ContributingSection",
    "Contribution",
    "Omission",
    "Section",
]
