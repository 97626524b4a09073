"""The modules that users import from; a test that is about all public names reads them here."""

from __future__ import annotations

import importlib

ROOT = "autonomy_ctx"
SUBMODULES = (
    "autonomy_ctx.compaction",
    "autonomy_ctx.containers",
    "autonomy_ctx.errors",
    "autonomy_ctx.inspection",
    "autonomy_ctx.messages",
    "autonomy_ctx.knowledge",
    "autonomy_ctx.replay",
    "autonomy_ctx.sections",
    "autonomy_ctx.server",
    "autonomy_ctx.stores",
    "autonomy_ctx.tasks",
    "autonomy_ctx.template",
    "autonomy_ctx.testing",
    "autonomy_ctx.tokens",
    "autonomy_ctx.tools",
)
MODULES = (ROOT, *SUBMODULES)


def names(module: str) -> list[str]:
    """The public names of a module."""
    return list(importlib.import_module(module).__all__)


def get(module: str, name: str) -> object:
    """What a module gives under a name."""
    return getattr(importlib.import_module(module), name)


PUBLIC = [(module, name) for module in MODULES for name in names(module)]
