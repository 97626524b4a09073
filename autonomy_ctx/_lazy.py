"""Names and patterns that are imported and compiled when they are first used: so the import is fast."""

import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

_PATTERN_METHODS = ("match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn")


def warn_of_former_name(old: str, new: str, *, stacklevel: int = 2) -> None:
    """Warn whoever uses a name that has changed; it works until 0.4."""
    text = f"{old} is now called {new}; the former name will be removed in 0.4"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


def modules_by_name(names: Mapping[str, str]) -> dict[str, str]:
    """The module of each name; `names` are those of each module, with spaces between them."""
    return {name: home for home, own in names.items() for name in own.split()}


def lazy_names(
    module: str,
    names: Mapping[str, str],
    moved: Mapping[str, str] = MappingProxyType({}),
    *,
    at_once: Sequence[str] = (),
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a module whose names are defined in other modules.

    `names` are those of each of these modules, with spaces between them; `at_once` are imported already.
    `moved` has names that are public elsewhere now, as `module` or `module:name`; here they give a warning.
    """
    modules = modules_by_name(names)

    def get_name(name: str) -> object:
        if name in moved:
            home, _, new = moved[name].partition(":")
            warn_of_former_name(f"{module}.{name}", f"{home}.{new or name}")
            return getattr(import_module(home), new or name)
        if name not in modules:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        # From now on the module has the name itself, and this function is not asked again.
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *modules})

    # Constants first, as the linter has it.
    public = sorted([*modules, *at_once], key=lambda name: (not name.isupper(), name))
    return get_name, list_names, public


def former_method(old: str, new: str) -> Any:
    """A method under a name that it had before; it warns, and calls the method of today."""

    def call(self: Any, *given: Any, **named: Any) -> Any:
        warn_of_former_name(f"{type(self).__name__}.{old}", new)
        return getattr(self, new)(*given, **named)

    return call


class _LazyPattern:
    """Stands in for a compiled pattern until it is used."""

    def __init__(self, pattern: str | Callable[[], str], flags: int) -> None:
        self._pattern, self._flags = pattern, flags

    def _compile(self) -> re.Pattern[str]:
        return re.compile(self._pattern if isinstance(self._pattern, str) else self._pattern(), self._flags)

    def __getattr__(self, name: str) -> Any:
        if name not in _PATTERN_METHODS:
            raise AttributeError(name)
        compiled = self._compile()
        # From now on found without coming here.
        vars(self).update({method: getattr(compiled, method) for method in _PATTERN_METHODS})
        return getattr(compiled, name)


def lazy_pattern(pattern: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """A pattern, or what makes it, for its methods; what is wrong with it shows when it is first used."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
