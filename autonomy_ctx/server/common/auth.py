"""Checks who may send requests: only holders of the token, and no web page in a local browser."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autonomy_ctx.server.common.errors import ClientError
from autonomy_ctx.validation import is_loopback, parse_host

HEALTH_PATH = "/health"
METRICS_PATH = "/metrics"
# Of the inspector: everything that tells of conversations is below it.
API_PREFIX = "/api/"
Headers = Iterable[tuple[bytes, bytes]]


class Access(Protocol):
    """Decides by the headers of a request, before its body is read."""

    def refusal(self, path: str, headers: Headers) -> ClientError | None:
        """Why a request is refused; None lets it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """Who may use a node's API."""

    loopback: bool
    token: str | None = field(default=None, repr=False)
    # Names besides those of this machine, in lower case.
    hosts: frozenset[str] = frozenset()

    def refusal(self, path: str, headers: Headers) -> ClientError | None:
        """Why a request is refused; None lets it in."""
        headers = list(headers)
        hosts = _header_values(headers, b"host")
        # Against DNS rebinding: another site can point its own name at this machine, but the Host header
        # shows it.
        host = (parse_host(hosts[0]) or "").lower() if len(hosts) == 1 else ""
        if self.loopback and not (is_loopback(host) or host in self.hosts):
            names = " or one of the allowed hosts" if self.hosts else ""
            return _forbid(f"the Host header must name this machine: localhost or 127.0.0.1{names}")
        if _comes_from_elsewhere(headers, [*hosts, *(one for one in self.hosts if not is_loopback(one))]):
            return _forbid("requests of web pages of other sites are refused")
        if self.token is not None and path != HEALTH_PATH and not has_token(headers, self.token):
            return ClientError(
                status=401,
                type="Unauthorized",
                message="send the header `Authorization: Bearer` with the node's token",
                headers={"www-authenticate": "Bearer"},
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorAccess:
    """The access rule of the inspector: the token is needed, and pages of other sites are rejected.

    Its static files are public and need no token, because the page is loaded before it has the token. A
    browser sends the token once and then a cookie, which is derived from the token.
    """

    token: str = field(repr=False)
    # Names besides those of this machine.
    hosts: frozenset[str] = frozenset()

    @property
    def cookie_name(self) -> str:
        """The name of the cookie. It contains the port, because all ports of a machine share cookies."""
        return f"autonomy_ctx_inspector_{self._sign('name')[:8]}"

    @property
    def cookie_value(self) -> str:
        """The value of the cookie, derived from the token."""
        return self._sign("cookie")

    def refusal(self, path: str, headers: Headers) -> ClientError | None:
        """Why a request is refused; None lets it in."""
        headers = list(headers)
        hosts = _header_values(headers, b"host")
        host = (parse_host(hosts[0]) or "").lower() if len(hosts) == 1 else ""
        if not (is_loopback(host) or host in self.hosts):
            return _forbid("the Host header must name this machine, or one of the allowed hosts")
        if _comes_from_elsewhere(headers, hosts):
            return _forbid("requests of web pages of other sites are refused")
        if not path.startswith(API_PREFIX):
            return None
        # What a browser says of a request that a page of another site has caused.
        if any(site not in ("same-origin", "none") for site in _header_values(headers, b"sec-fetch-site")):
            return _forbid("requests of web pages of other sites are refused")
        if has_token(headers, self.token) or self._has_cookie(headers):
            return None
        return ClientError(
            status=401,
            type="Unauthorized",
            message="open the inspector with the address that was printed at its start: it has the token",
            headers={"www-authenticate": "Bearer"},
        )

    def is_token(self, token: str) -> bool:
        """Compare a text with the token."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def _has_cookie(self, headers: Headers) -> bool:
        cookies = [pair.strip() for text in _header_values(headers, b"cookie") for pair in text.split(";")]
        expected = f"{self.cookie_name}={self.cookie_value}".encode()
        return any(hmac.compare_digest(pair.encode("latin-1"), expected) for pair in cookies)

    def _sign(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), "sha256").hexdigest()


def check_token(host: str, token: str | None) -> str | None:
    """Check that a token can be sent in a header; it is required if other machines can reach the host."""
    if token is None:
        if not is_loopback(host):
            raise ValueError(
                f"host {host!r} can be reached from other machines; give a `token` that clients must send "
                f"(python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one), "
                f"or listen on 127.0.0.1"
            )
        return None
    return check_token_text(token)


def check_token_text(token: str) -> str:
    """Check that a token can be sent in a header."""
    if not isinstance(token, str) or not token or not all("!" <= one <= "~" for one in token):
        raise ValueError(
            "token must be a string of visible ASCII characters, without spaces, and not empty; "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes a good one"
        )
    return token


def _header_values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for one, value in headers if one.lower() == name]


def _comes_from_elsewhere(headers: Headers, hosts: Sequence[str]) -> bool:
    """Tell whether a page of another site sends a request."""
    own = {f"{scheme}://{host.lower()}" for scheme in ("http", "https") for host in hosts}
    return any(origin.lower() not in own for origin in _header_values(headers, b"origin"))


def has_token(headers: Headers, expected: str) -> bool:
    """Tell whether a request has the token of the server."""
    values = _header_values(headers, b"authorization")
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    is_same = hmac.compare_digest(token.strip().encode("latin-1"), expected.encode())
    return is_same and scheme.lower() == "bearer"


def _forbid(message: str) -> ClientError:
    return ClientError(status=403, type="Forbidden", message=message)
