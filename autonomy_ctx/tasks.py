"""Contexts for agents that are driven by events: tasks, the event bus, and the sources of a context."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

_MODULES = {
    "EventBus": "autonomy_ctx.template.task_context",
    "EventBusContextSource": "autonomy_ctx.template.task_context",
    "MemoryContextSource": "autonomy_ctx.template.task_context",
    "Task": "autonomy_ctx.template.task_context",
    "TaskContextManager": "autonomy_ctx.template.task_context",
    "events_to_messages": "autonomy_ctx.template.task_context",
}

if TYPE_CHECKING:
    from autonomy_ctx.template.task_context import (
        EventBus,
        EventBusContextSource,
        MemoryContextSource,
        Task,
        TaskContextManager,
        events_to_messages,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "EventBus",
    "EventBusContextSource",
    "MemoryContextSource",
    "Task",
    "TaskContextManager",
    "events_to_messages",
]
