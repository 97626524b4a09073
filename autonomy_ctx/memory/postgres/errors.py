"""Errors of PostgreSQL: which of them to try again after, and the error that a user should see.

The errors of psycopg are not chained to ours: they may quote message ids, or parts of a URL.
"""

from __future__ import annotations

from enum import Enum

import psycopg
from psycopg import conninfo

from autonomy_ctx.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreUnavailable

_DEFAULT_PORT = "5432"
_IDLE_STATE = "25P03"
# Beginnings of SQLSTATEs: the connection or the server behind it is gone, or takes no connections now.
_LOST_STATES = ("08", "57P01", "57P02", "57P03", "57P05", "53300", _IDLE_STATE, "25P04")
_CONFLICT_STATES = ("40001", "40P01")
_READ_ONLY_STATE = "25006"
_GIVEN_UP_STATES = ("57014", "55P03")
_NO_ROOM_STATES = ("53100",)
_DAMAGE_STATES = ("XX001", "XX002")
_MISSING_TABLE_STATES = ("42P01", "42703", "42883", "3F000")
_REFUSED_STATES = {
    "28": ("refused the user or the password", "check both in the URL, and pg_hba.conf on the server"),
    "3D000": ("has no such database", "create it first; autonomy_ctx makes its tables itself"),
    "42501": (
        "does not give this user enough rights",
        "let it use the schema autonomy_ctx and read and write its tables; to make or upgrade the tables, "
        "it needs the right to create in the database",
    ),
}


class Failure(Enum):
    """Kinds of errors of psycopg, by what a call does next."""

    # The connection is gone or cannot be made. It may work again.
    LOST = "lost"
    # The server takes no writes; it may become the primary one, or another has become it.
    READ_ONLY = "read-only"
    # The transaction was rolled back because of another one.
    CONFLICT = "conflict"
    # Trying again would not help.
    FINAL = "final"


def server_name(url: str) -> str:
    """The hosts, ports and name of the database in a URL, without user and password."""
    parts = parse_url(url)
    hosts = str(parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = str(parts.get("port") or _DEFAULT_PORT).split(",")
    if len(ports) < len(hosts):
        ports *= len(hosts)
    places = ",".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=False))
    return f"postgresql://{places}/{parts.get('dbname') or parts.get('user') or ''}"


def parse_url(url: str) -> dict[str, object]:
    """The parts of a URL."""
    try:
        return dict(conninfo.conninfo_to_dict(url))
    except psycopg.Error:
        # Without the cause, which might quote the password.
        problem = "cannot be read as the URL of a database"
    raise StoreUnavailable(
        path="postgresql://...",
        problem=problem,
        advice="write postgresql://user:password@host:5432/database, with special characters as %XX",
    )


def classify(error: psycopg.Error) -> Failure:
    """Tell the kind of an error."""
    state = error.sqlstate
    if state is None:
        # No answer of a server: the socket was closed, or the client itself refused.
        is_lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return Failure.LOST if is_lost else Failure.FINAL
    if state.startswith(_LOST_STATES):
        return Failure.LOST
    if state == _READ_ONLY_STATE:
        return Failure.READ_ONLY
    return Failure.CONFLICT if state in _CONFLICT_STATES else Failure.FINAL


def is_unanswered(error: psycopg.Error) -> bool:
    """True when a statement may have been done: the server has not said that it was not.

    A pooler that has lost the server answers with a state of its own, of class 08.
    """
    return classify(error) is Failure.LOST and (error.sqlstate or "08").startswith("08")


def describe(error: psycopg.Error) -> str:
    """The problem in a few words, without any part of the statement or the URL."""
    text, state = str(error).lower(), error.sqlstate
    if state == _READ_ONLY_STATE or "session is read-only" in text or "session is not read-only" in text:
        return "the server is read-only, as a replica is"
    if state == "57P03" or "starting up" in text or "shutting down" in text:
        return "the server is starting or shutting down"
    if is_full(error):
        return "the server accepts no more connections"
    if state == _IDLE_STATE:
        return "this process was paused during a transaction, so the server ended the transaction"
    for words, problem in (
        ("connection refused", "the connection was refused"),
        ("no such file", "there is no socket of a server"),
        ("timeout", "the server did not answer in time"),
        ("name or service", "the name of the host is not known"),
        ("resolve host", "the name of the host is not known"),
        ("getaddrinfo", "the name of the host is not known"),
        ("ssl", "no secure connection could be made (SSL)"),
    ):
        if words in text:
            return problem
    return "the connection was lost" if state is None else f"the server closed the connection ({state})"


def is_full(error: psycopg.Error) -> bool:
    """True when a server has no room for another connection."""
    text = str(error).lower()
    return error.sqlstate == "53300" or "too many" in text or "remaining connection slots" in text


def is_refusal(error: psycopg.Error) -> bool:
    """True when a retry would not help: a wrong password, for example, or an unknown database."""
    if error.sqlstate is not None:
        return error.sqlstate.startswith(tuple(_REFUSED_STATES))
    if is_full(error):
        return False
    # Before a connection is made, psycopg does not always know the state.
    text = str(error).lower()
    return any(words in text for words in _REFUSAL_WORDS) or not isinstance(error, psycopg.OperationalError)


_REFUSAL_WORDS = {
    "password authentication failed": "28",
    "no password supplied": "28",
    "no pg_hba.conf entry": "28",
    "authentication failed": "28",
    'role "': "28",
    "does not exist": "3D000",
    "no such database": "3D000",
    "permission denied for database": "42501",
}


def translate(error: psycopg.Error, path: str, seconds: float, *, has_expired: bool = False) -> StoreError:
    """The error that a user should see. `has_expired`: the deadline of the call has passed."""
    state = error.sqlstate or _state_of_refusal(error)
    for beginning, (problem, advice) in _REFUSED_STATES.items():
        if state.startswith(beginning):
            return StoreUnavailable(path=path, problem=f"the server {problem}", advice=advice)
    if state in _GIVEN_UP_STATES:
        own = "because of its own limit (statement_timeout, lock_timeout), within"
        return StoreBusy(
            path=path,
            seconds=seconds,
            problem=f"ended a statement {'after' if has_expired else own}",
            advice="Try again, raise the limit, or look for a session that keeps a transaction open",
        )
    if state in _NO_ROOM_STATES:
        return StoreFull(path=path, problem="the server's disk is full")
    if state in _DAMAGE_STATES:
        return damage_error(path, f"PostgreSQL says {state}")
    if state in _MISSING_TABLE_STATES:
        return StoreUnavailable(
            path=path,
            problem="tables of autonomy_ctx are missing or were changed",
            advice="restore a backup; nothing is written to new, empty tables in their place",
        )
    if classify(error) is not Failure.FINAL:
        return outage_error(path, describe(error), seconds)
    name = type(error).__name__
    return StoreError(
        f"{path}: PostgreSQL refused the statement with {name} ({state or 'no state'}); nothing was stored"
    )


def outage_error(path: str, problem: str, seconds: float, *, may_be_stored: bool = False) -> StoreUnavailable:
    """The error of a call whose deadline has passed."""
    if may_be_stored:
        return StoreUnavailable(
            path=path,
            problem=f"{problem}, and that did not change within {seconds:g} s; the outcome is not known",
            advice="send the same message with the same id again: it is kept once",
        )
    return StoreUnavailable(
        path=path,
        problem=f"{problem}, and that did not change within {seconds:g} s; nothing was stored",
        advice="look at the server and the network; this memory works again as soon as the server does",
    )


def damage_error(path: str, problem: str) -> StoreCorrupt:
    """The error for rows that cannot be decoded."""
    return StoreCorrupt(path=path, problem=problem, advice="Restore a backup of the database")


def _state_of_refusal(error: psycopg.Error) -> str:
    if is_full(error):
        return ""
    text = str(error).lower()
    return next((state for words, state in _REFUSAL_WORDS.items() if words in text), "")
