"""Sections select the messages that a model will see."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "Closeable": "autonomy_ctx.background",
    "ComposeObserver": "autonomy_ctx.sections.section",
    "Composition": "autonomy_ctx.sections.section",
    "ContributingSection": "autonomy_ctx.sections.section",
    "Contribution": "autonomy_ctx.sections.section",
    "Contributor": "autonomy_ctx.sections.section",
    "DeliverySection": "autonomy_ctx.sections.section",
    "MessageRef": "autonomy_ctx.memory.store",
    "MetricsSource": "autonomy_ctx.sections.section",
    "Omission": "autonomy_ctx.sections.section",
    "PinningSection": "autonomy_ctx.sections.section",
    "Section": "autonomy_ctx.sections.section",
    "SummarizingSection": "autonomy_ctx.sections.section",
    "ToolCatalogSection": "autonomy_ctx.sections.instructions",
    "composition_of": "autonomy_ctx.sections.section",
}

if TYPE_CHECKING:
    from autonomy_ctx.background import Closeable
    from autonomy_ctx.memory.store import MessageRef
    from autonomy_ctx.sections.instructions import ToolCatalogSection
    from autonomy_ctx.sections.section import (
        ComposeObserver,
        Composition,
        ContributingSection,
        Contribution,
        Contributor,
        DeliverySection,
        MetricsSource,
        Omission,
        PinningSection,
        Section,
        SummarizingSection,
        composition_of,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "Closeable",
    "ComposeObserver",
    "Composition",
    "ContributingSection",
    "Contribution",
    "Contributor",
    "DeliverySection",
    "MessageRef",
    "MetricsSource",
    "Omission",
    "PinningSection",
    "Section",
    "SummarizingSection",
    "ToolCatalogSection",
    "composition_of",
]
