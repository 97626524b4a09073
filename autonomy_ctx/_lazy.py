"""Names that are imported when they are first used, so that importing the package is fast."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    module: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a module whose names are defined in other modules."""

    def get_name(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        # From now on the module has the name itself, and this function is not asked again.
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *modules})

    return get_name, list_names
