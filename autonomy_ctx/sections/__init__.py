"""Sections select the messages that a model will see."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.background": "Closeable",
    "autonomy_ctx.memory.store": "MessageRef",
    "autonomy_ctx.sections.instructions": "ToolCatalogSection",
    "autonomy_ctx.sections.section": (
        "ComposeObserver Composition ContributingSection Contribution Contributor DeliverySection "
        "MetricsSource Omission PinningSection Section SummarizingSection composition_of"
    ),
}

if TYPE_CHECKING:
    from autonomy_ctx.background import Closeable as Closeable
    from autonomy_ctx.memory.store import MessageRef as MessageRef
    from autonomy_ctx.sections.instructions import ToolCatalogSection as ToolCatalogSection
    from autonomy_ctx.sections.section import ComposeObserver as ComposeObserver
    from autonomy_ctx.sections.section import Composition as Composition
    from autonomy_ctx.sections.section import ContributingSection as ContributingSection
    from autonomy_ctx.sections.section import Contribution as Contribution
    from autonomy_ctx.sections.section import Contributor as Contributor
    from autonomy_ctx.sections.section import DeliverySection as DeliverySection
    from autonomy_ctx.sections.section import MetricsSource as MetricsSource
    from autonomy_ctx.sections.section import Omission as Omission
    from autonomy_ctx.sections.section import PinningSection as PinningSection
    from autonomy_ctx.sections.section import Section as Section
    from autonomy_ctx.sections.section import SummarizingSection as SummarizingSection
    from autonomy_ctx.sections.section import composition_of as composition_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
