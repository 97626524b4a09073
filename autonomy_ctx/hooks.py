"""Hooks: functions that are called on events, their decorator, and the dispatcher.

Each part of the library defines its own events as an `enum.Enum`. Containers save hooks by name, and
`HookRegistry` finds the function when a saved container is loaded.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, ClassVar, TypeAlias, TypeVar

from autonomy_ctx.errors import HookError, UnregisteredHookError

Hook: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])
logger = logging.getLogger("autonomy_ctx.hooks")


def hook(type: Enum | Iterable[Enum]) -> Callable[[F], F]:  # noqa: A002  # the attribute's name
    """Make a function, sync or async, a hook for one event or for several."""
    types = type if isinstance(type, Enum) else _event_tuple(type)

    def mark(function: F) -> F:
        if not callable(function):
            raise TypeError(f"@hook(...) goes on a function, not on {_describe_type(function)}")
        function.type = types  # type: ignore[attr-defined]
        HookRegistry.register(function)
        return function

    return mark


class HookRegistry:
    """Hooks by the name of their function; a later hook replaces one with the same name."""

    _hooks: ClassVar[dict[str, Hook]] = {}

    @classmethod
    def register(cls, function: Hook) -> None:
        """Register a hook under the name of its function."""
        hook_events(function)
        name = _registry_name(function)
        if cls._hooks.get(name, function) is not function:
            logger.debug("hook %r was registered again; the latest wins", name)
        cls._hooks[name] = function

    @classmethod
    def get(cls, name: str) -> Hook:
        """The hook with this name. Raises `UnregisteredHookError` if there is none."""
        if name not in cls._hooks:
            raise UnregisteredHookError(name)
        return cls._hooks[name]

    @classmethod
    def clear(cls) -> None:
        """Remove all hooks, for tests."""
        cls._hooks.clear()

    @classmethod
    def names(cls) -> list[str]:
        """The registered names, in the order of registration."""
        return list(cls._hooks)


def hook_events(function: Hook) -> tuple[Enum, ...]:
    """The events a hook is for; `TypeError` for what is not a hook."""
    found = getattr(function, "type", None)
    types = found if isinstance(found, tuple | list) else (found,)
    if not callable(function) or not types or not all(isinstance(one, Enum) for one in types):
        raise TypeError(
            f"{_display_name(function)} is not a hook: a hook is a function whose `.type` is an event, "
            f"as `@hook(...)` sets it"
        )
    return tuple(types)


def validate_hooks(hooks: Iterable[Hook] | None, events: type[Enum]) -> list[Hook]:
    """Hooks as a new list, or `TypeError` for the first that is none or would never be called."""
    if hooks is None:
        return []
    if not isinstance(hooks, Iterable) or isinstance(hooks, str | Mapping):
        raise TypeError(f"hooks must be a list of hooks, not {_describe_type(hooks)}")
    made = list(hooks)
    for one in made:
        types = hook_events(one)
        if not any(isinstance(own, events) for own in types):
            others = ", ".join(str(own) for own in types)
            raise TypeError(
                f"hook `{_display_name(one)}` is for {others} and would never be called here, because the "
                f"events here are those of {events.__name__}; add it to an object that has its events"
            )
    return made


def hooks_for_event(hooks: Iterable[Hook], type: Enum) -> list[Hook]:  # noqa: A002  # the attribute's name
    """The hooks that are for an event, in their order."""
    # Not `in`: members of two enums of strings are equal when their values are.
    return [one for one in hooks if any(own is type for own in hook_events(one))]


async def fire(
    hooks: Iterable[Hook],
    type: Enum,  # noqa: A002  # the attribute's name
    *args: Any,
    done: bool | None = None,
) -> None:
    """Call every hook of an event, one after the other, and await what is awaitable.

    The first that fails ends it with a `HookError` that is an instance of the hook's own exception
    type, too. `done` tells that error whether the change the hooks are about was made.
    """
    for one in hooks_for_event(hooks, type):
        try:
            result = one(*args)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            raise _wrap_error(error, hook=_display_name(one), event=event_name(type), done=done) from error


def event_name(type: Enum) -> str:  # noqa: A002  # the attribute's name
    """An event as it is written in files and errors."""
    return type.name.lower()


def hooks_to_names(hooks: Iterable[Hook]) -> dict[str, list[str]]:
    """Hooks as JSON: the names of the functions under the name of each event."""
    names: dict[str, list[str]] = {}
    for one in hooks:
        for type_ in hook_events(one):
            names.setdefault(event_name(type_), []).append(_registry_name(one))
    return names


def hooks_from_names(names: Mapping[str, Sequence[str]]) -> list[Hook]:
    """The hooks that `by_name` wrote, in an order that keeps the order of every event's hooks."""
    left = [[_find_hook(name, event) for name in names[event]] for event in names]
    hooks: list[Hook] = []
    while left := [queue for queue in left if queue]:
        heads = [queue[0] for queue in left]
        # A hook of several events is in several queues, and its turn comes when it leads them all.
        # Nobody's turn: written by hand in an order that cannot be; then the first is taken.
        turn = next((one for one in heads if all(q[0] is one for q in left if one in q)), heads[0])
        hooks.append(turn)
        for queue in left:
            if queue[0] is turn:
                queue.pop(0)
    return hooks


def _find_hook(name: str, event: str) -> Hook:
    try:
        found = HookRegistry.get(name)
    except UnregisteredHookError:
        raise UnregisteredHookError(name, event=event) from None
    if all(event_name(type_) != event for type_ in hook_events(found)):
        # Another function has taken the name: restored, it would never be called.
        raise UnregisteredHookError(name, event=event)
    return found


def _wrap_error(error: Exception, **facts: Any) -> HookError:
    """A `HookError` that is what the hook raised, too, with all that it carries."""
    facts["problem"] = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    try:
        kind = _error_class(type(error))
        named = kind.__new__(kind, *error.args)
        for base in type(error).__mro__:
            for name, slot in vars(base).items():
                # What is kept outside the instance's dict, such as `errno`; not everything can be set.
                if inspect.isdatadescriptor(slot) and not name.startswith("__"):
                    with suppress(Exception):
                        setattr(named, name, getattr(error, name))
        vars(named).update(vars(error))
        HookError.__init__(named, **facts)
        named.args = error.args
    except Exception:
        # A type that cannot be combined or made that way: the cause still tells all.
        return HookError(**facts)
    return named


def _error_class(kind: type[Exception]) -> type[HookError]:
    if issubclass(kind, HookError):
        return kind
    if issubclass(kind, StopIteration | StopAsyncIteration):
        # Raised by a coroutine, Python would replace them by a RuntimeError.
        return HookError
    return type("HookError", (HookError, kind), {"__module__": HookError.__module__})


def _event_tuple(types: Any) -> tuple[Enum, ...]:
    several = tuple(types) if isinstance(types, Iterable) else ()
    if not several or not all(isinstance(one, Enum) for one in several):
        raise TypeError(
            "@hook(...) takes the event the function is for, such as `ContextPoolHook.AFTER_ADD`, "
            "or a list of events"
        )
    return several


def _registry_name(function: Hook) -> str:
    """The name a hook is registered and saved under."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(
            f"{_describe_type(function)} has no name to be saved under; use a named function as a hook"
        )
    return name


def _display_name(function: object) -> str:
    return str(getattr(function, "__name__", None) or _describe_type(function))


def _describe_type(value: object) -> str:
    return f"an object of type {type(value).__name__}"
