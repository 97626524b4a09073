"""What a request asks for, read with a bound and checked before anything begins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio.to_thread
from starlette.requests import Request

from autonomy_ctx.agents.agent import CONVERSATION, SCOPE
from autonomy_ctx.server.failures import Failure, Refused, bad_request

BODY_LIMIT = 16 * 1024 * 1024
# From here on a body is parsed in a thread.
_HEAVY = 64 * 1024
HISTORY = 100
LONGEST_HISTORY = 1000

_FIELDS = ("message", "scope", "conversation", "stream", "message_id", "params")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One turn as a client asks for it."""

    message: str | list[Any]
    scope: str = SCOPE
    conversation: str = CONVERSATION
    stream: bool = False
    message_id: str | None = None
    params: dict[str, Any] | None = None

    def options(self) -> dict[str, Any]:
        """What `send` and `stream` of an agent take besides the message."""
        return {
            "scope": self.scope,
            "conversation": self.conversation,
            "message_id": self.message_id,
            "params": self.params,
        }


async def read_asked(request: Request) -> Asked:
    """The turn that a POST asks for."""
    # A form of a web page can send anything but this type without asking the server first.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _unsupported("send JSON, with the header `content-type: application/json`")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise _unsupported("send the body as it is, without a content-encoding")
    raw = await _read(request)
    if len(raw) < _HEAVY:
        return parse_asked(raw)
    return await anyio.to_thread.run_sync(parse_asked, raw)


def parse_asked(raw: bytes) -> Asked:
    """A body as a turn."""
    try:
        data = json.loads(raw, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise bad_request(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except UnicodeDecodeError:
        raise bad_request("the body is not JSON: it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise bad_request(
            "the body is not JSON that can be read: a number or its nesting is too large"
        ) from None
    if not isinstance(data, dict):
        raise bad_request(f"the body must be a JSON object with {', '.join(_FIELDS)}")
    unknown = next((name for name in data if name not in _FIELDS), None)
    if unknown is not None:
        raise bad_request(f"the body has an unknown field {unknown[:40]!r}; it takes {', '.join(_FIELDS)}")
    if "message" not in data:
        raise bad_request("the body has no `message`; give a text, or a list of parts")
    _check(data, "message", str | list, "a text or a list of parts")
    for name in ("scope", "conversation"):
        _check(data, name, str, "a string")
    _check(data, "stream", bool, "true or false")
    _check(data, "message_id", str | None, "a string")
    _check(data, "params", dict | None, "an object")
    if data.get("message_id") == "":
        raise bad_request("`message_id` is empty; leave it out, or give an id")
    return Asked(**data)


def parse_history(query: Mapping[str, str]) -> dict[str, Any]:
    """What `history` of an agent is asked for."""
    known = ("scope", "conversation", "limit")
    unknown = next((name for name in query if name not in known), None)
    if unknown is not None:
        raise bad_request(f"the query has an unknown parameter {unknown[:40]!r}; it takes {', '.join(known)}")
    text = query.get("limit", str(HISTORY))
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= limit <= LONGEST_HISTORY:
        raise bad_request(f"`limit` must be a whole number from 1 to {LONGEST_HISTORY}")
    return {**query, "limit": limit}


async def _read(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > BODY_LIMIT:
        raise _too_large()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_LIMIT:
            raise _too_large()
    return bytes(body)


def _check(data: Mapping[str, Any], name: str, kind: Any, wanted: str) -> None:
    if name in data and not isinstance(data[name], kind):
        raise bad_request(f"`{name}` must be {wanted}")


def _no_number(text: str) -> NoReturn:
    raise bad_request(f"the body is not JSON: {text} is no number")


def _unsupported(message: str) -> Refused:
    return Refused(Failure(status=415, type="UnsupportedMediaType", message=message))


def _too_large() -> Refused:
    return Refused(
        Failure(
            status=413,
            type="BodyTooLarge",
            message=f"a body may have {BODY_LIMIT:,} bytes; send less, or a reference to a file",
        )
    )
