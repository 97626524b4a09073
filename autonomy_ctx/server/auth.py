"""Who may send requests: nobody from the network without the token, and no web page in a local browser."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from autonomy_ctx.server.errors import ClientError
from autonomy_ctx.validation import is_loopback, parse_host

HEALTH_PATH = "/health"
Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """Decides by the head of a request, before its body is read."""

    loopback: bool
    token: str | None = field(default=None, repr=False)

    def refusal(self, path: str, headers: Headers) -> ClientError | None:
        """Why a request is refused; None lets it in."""
        headers = list(headers)
        hosts = _header_values(headers, b"host")
        # A page of another site can point a name of its own at this machine, but not rename itself.
        if self.loopback and not (len(hosts) == 1 and is_loopback(parse_host(hosts[0]) or "")):
            return _forbid("the Host header must name this machine: localhost or 127.0.0.1")
        own = {f"{scheme}://{host.lower()}" for scheme in ("http", "https") for host in hosts}
        if any(origin.lower() not in own for origin in _header_values(headers, b"origin")):
            return _forbid("requests of web pages of other sites are refused")
        if self.token is not None and path != HEALTH_PATH and not self._has_token(headers):
            return ClientError(
                status=401,
                type="Unauthorized",
                message="send the header `Authorization: Bearer` with the node's token",
                headers={"www-authenticate": "Bearer"},
            )
        return None

    def _has_token(self, headers: Headers) -> bool:
        values = _header_values(headers, b"authorization")
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        expected = (self.token or "").encode()
        return hmac.compare_digest(token.strip().encode("latin-1"), expected) and scheme.lower() == "bearer"


def check_token(host: str, token: str | None) -> str | None:
    """A token that a header can carry; required where others can reach the host."""
    if token is None:
        if not is_loopback(host):
            raise ValueError(
                f"host {host!r} can be reached from other machines; give a `token` that clients must send "
                f"(python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one), "
                f"or listen on 127.0.0.1"
            )
        return None
    if not isinstance(token, str) or not token or not all("!" <= one <= "~" for one in token):
        raise ValueError(
            "token must be a string of visible ASCII characters, without spaces, and not empty; "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes a good one"
        )
    return token


def _header_values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for one, value in headers if one.lower() == name]


def _forbid(message: str) -> ClientError:
    return ClientError(status=403, type="Forbidden", message=message)
