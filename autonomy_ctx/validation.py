"""Checks of numbers and hosts in arguments, with the same rules and messages everywhere.

A bool is not accepted as a number, because `limit=True` is a mistake; neither is nan. A host is parsed
strictly, because it decides whether data may leave this machine.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeVar

T = TypeVar("T")


class NotANumber(TypeError, ValueError):
    """A value of the wrong type in the place of a number.

    It is a `ValueError` too, so that `except ValueError` catches every bad number.
    """


def check_int(
    name: str,
    value: T,
    *,
    least: int = 1,
    most: int | None = None,
    optional: bool = False,
    where: str = "",
) -> T:
    """The value, if it is a whole number within the bounds; `where` says whose argument it is."""
    problem = int_problem(value, least=least, most=most, optional=optional)
    if problem is not None:
        raise _error(name, problem, where, is_number=_is_a(value, int))
    return value


def check_number(
    name: str, value: T, *, least: float | None = None, most: float | None = None, where: str = ""
) -> T:
    """The value, if it is a finite number within the bounds."""
    problem = number_problem(value, least=least, most=most)
    if problem is not None:
        raise _error(name, problem, where, is_number=_is_a(value, int | float))
    return value


def check_seconds(
    name: str,
    value: T,
    *,
    zero: bool = False,
    most: float | None = None,
    endless: bool = False,
    optional: bool = False,
    where: str = "",
) -> T:
    """The value, if it is a number of seconds above 0; with `zero` also 0, with `endless` also infinity."""
    problem = seconds_problem(value, zero=zero, most=most, endless=endless, optional=optional)
    if problem is not None:
        raise _error(name, problem, where, is_number=_is_a(value, int | float))
    return value


def int_problem(value: Any, *, least: int = 1, most: int | None = None, optional: bool = False) -> str | None:
    """The problem with a whole number, to stand after its name in an error; None for nothing."""
    if value is None and optional:
        return None
    is_number = _is_a(value, int)
    if is_number and value >= least and (most is None or value <= most):
        return None
    kind = "" if is_number else "a whole number "
    return _problem(value, f"{kind}>= {least}{'' if most is None else f' and <= {most}'}", optional)


def number_problem(value: Any, *, least: float | None = None, most: float | None = None) -> str | None:
    """The problem with a finite number, to stand after its name in an error; None for nothing."""
    if (
        _is_a(value, int | float)
        and -math.inf < value < math.inf
        and (least is None or value >= least)
        and (most is None or value <= most)
    ):
        return None
    bounds = [f">= {least:g}"] if least is not None else []
    bounds += [f"<= {most:g}"] if most is not None else []
    return _problem(value, f"a finite number {' and '.join(bounds)}".rstrip())


def seconds_problem(
    value: Any,
    *,
    zero: bool = False,
    most: float | None = None,
    endless: bool = False,
    optional: bool = False,
) -> str | None:
    """The problem with a number of seconds, to stand after its name in an error; None for nothing."""
    if value is None and optional:
        return None
    if (
        _is_a(value, int | float)
        and (value > 0 or (zero and value == 0))
        and (most is None or value <= most)
        and (endless or value < math.inf)
    ):
        return None
    bounds = f"{'>=' if zero else '>'} 0{'' if most is None else f' and <= {most:g}'}"
    return _problem(value, f"a number of seconds {bounds}", optional)


def _is_a(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _problem(value: Any, wanted: str, optional: bool = False) -> str:
    # Only numbers are shown, because other values may be long or contain a user's text.
    shown = repr(value) if isinstance(value, int | float | None) else type(value).__name__
    return f"must be {wanted}{' or None' if optional else ''}, not {shown}"


def _error(name: str, problem: str, where: str, *, is_number: bool) -> Exception:
    sentence = f"{where}: {name} {problem}" if where else f"{name} {problem}"
    return ValueError(sentence) if is_number else NotANumber(sentence)


_AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9A-Za-z:.%_-]+)\]|(?P<name>[\w.-]+))(?::[0-9]{1,5})?")


def parse_host(authority: str) -> str | None:
    """The host of `name`, `name:port` or `[address]:port`; None for a text that is anything else.

    `[::1].evil.com` and `localhost:80@evil.com` begin with a host, but lead to another one.
    """
    found = _AUTHORITY.fullmatch(authority)
    return None if found is None else found["address"] or found["name"]


def format_url(host: str, port: int) -> str:
    """The address of a server at a host and port."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether a name or address can only mean this machine."""
    # Imported here: most who check numbers never look at a host.
    import ipaddress

    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
