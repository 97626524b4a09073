"""The context engine behind adapters and endpoints: memory and contexts for agents of other frameworks."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "AgentInstructionsSection": "autonomy_ctx.engine.engine",
    "ContextEngine": "autonomy_ctx.engine.engine",
    "FrameworkContext": "autonomy_ctx.engine.framework_context",
    "SourcedMessage": "autonomy_ctx.engine.framework_context",
}

if TYPE_CHECKING:
    from autonomy_ctx.engine.engine import AgentInstructionsSection, ContextEngine
    from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = ["AgentInstructionsSection", "ContextEngine", "FrameworkContext", "SourcedMessage"]
