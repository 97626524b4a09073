"""The `httpx` client of models, without the work that requests to a model do not need.

It is an ordinary `httpx.AsyncClient`, so that whatever watches `httpx` sees its requests, and proxies and
certificates of the environment apply. Import this module only in a thread: `httpx` takes 50 ms to import.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

# Also imported, since the first client imports it.
import httpcore  # noqa: F401
import httpx

MAX_CONNECTIONS, MAX_IDLE_CONNECTIONS = 1000, 200


class ModelCookies(httpx.Cookies):
    """Cookies that are looked for only in responses that set one."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Take the cookies of a response."""
        # The standard library reads them, from a request and a response of its own: 0.1 ms to make.
        if "set-cookie" in response.headers:
            super().extract_cookies(response)


class ModelHttpClient(httpx.AsyncClient):
    """A client for one loop, with the TLS context that all clients share."""

    def __init__(self, context: ssl.SSLContext) -> None:
        limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_IDLE_CONNECTIONS)
        super().__init__(limits=limits, follow_redirects=False, verify=context)
        self._model_cookies = ModelCookies()

    @property
    def cookies(self) -> httpx.Cookies:
        """The cookies that servers have set."""
        return self._model_cookies

    @cookies.setter
    def cookies(self, cookies: Any) -> None:
        self._model_cookies = ModelCookies(cookies)

    def build_plain_request(
        self, url: str, headers: Mapping[str, str], content: bytes, connect_seconds: float
    ) -> httpx.Request:
        """Build a POST as `build_request` does while there are no cookies, in a third of the time."""
        parsed = _parse_url(url)
        own = {"host": parsed.netloc.decode("ascii"), "accept": "*/*", "connection": "keep-alive"}
        timeout = {"connect": connect_seconds, "read": None, "write": None, "pool": None}
        return httpx.Request(
            "POST",
            parsed,
            headers={**own, **headers, "content-length": str(len(content))},
            # As a stream: with content, the client would look for what is missing in the headers.
            stream=httpx.ByteStream(content),
            extensions={"timeout": timeout},
        )


@lru_cache(maxsize=64)
def _parse_url(url: str) -> httpx.URL:
    """The URL of a model, which many requests go to."""
    return httpx.URL(url)
