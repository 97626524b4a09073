"""The context engine behind adapters and endpoints: memory and contexts for agents of other frameworks."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.engine.engine": "AgentInstructionsSection ContextEngine",
    "autonomy_ctx.engine.framework_context": "FrameworkContext SourcedMessage",
}

if TYPE_CHECKING:
    from autonomy_ctx.engine.engine import AgentInstructionsSection as AgentInstructionsSection
    from autonomy_ctx.engine.engine import ContextEngine as ContextEngine
    from autonomy_ctx.engine.framework_context import FrameworkContext as FrameworkContext
    from autonomy_ctx.engine.framework_context import SourcedMessage as SourcedMessage
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
