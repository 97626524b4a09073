"""Contexts for agents that are driven by events: tasks, the event bus, and the sources of a context."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_NAMES = {
    "autonomy_ctx.template.task_context": (
        "EventBus EventBusContextSource MemoryContextSource Task TaskContextManager events_to_messages"
    ),
}

if TYPE_CHECKING:
    from autonomy_ctx.template.task_context import EventBus as EventBus
    from autonomy_ctx.template.task_context import EventBusContextSource as EventBusContextSource
    from autonomy_ctx.template.task_context import MemoryContextSource as MemoryContextSource
    from autonomy_ctx.template.task_context import Task as Task
    from autonomy_ctx.template.task_context import TaskContextManager as TaskContextManager
    from autonomy_ctx.template.task_context import events_to_messages as events_to_messages
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
