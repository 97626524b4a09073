"""How a server is reached: its address, the key and the headers that go with each request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autonomy_ctx.errors import MissingKey
from autonomy_ctx.models.client import Outgoing
from autonomy_ctx.models.providers import Provider, joined


class Secret:
    """Text for a header that shows itself nowhere."""

    __slots__ = ("value",)

    def __init__(self, value: str, name: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string, not {type(value).__name__}")
        self.value = value.strip()
        # Said here, because the HTTP client would show the value.
        if not self.value or not self.value.isascii() or not self.value.isprintable():
            raise ValueError(
                f"{name} is empty or holds characters that no header can; check how it was copied"
            )

    def __repr__(self) -> str:
        return "***"


class Access:
    """Writes requests to one server for one model. Keys come from the environment unless given."""

    def __init__(
        self,
        name: str,
        provider: Provider,
        *,
        base_url: str | None,
        api_key: str | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        self._name, self._provider, self.given_url = name, provider, base_url
        self._api_key = None if api_key is None else Secret(api_key, "api_key")
        self._headers = {name: Secret(value, f"header {name}") for name, value in (headers or {}).items()}

    @property
    def base_url(self) -> str | None:
        """Where it is asked: as given, or as the environment says now."""
        return self._provider.address(self.given_url)

    def outgoing(
        self, path: str, body: Mapping[str, Any], *, stream: bool = False, version: str | None = None
    ) -> Outgoing:
        """A request with its headers; `version` is that of the Anthropic API."""
        base = self.base_url
        if base is None:
            raise ValueError(f"model {self._name!r} has no address; give its `base_url`")
        headers = self._provider.headers(self._key(base), body, version=version)
        # Compressing a stream would only hold its pieces back.
        headers |= {"accept-encoding": "identity" if stream else "gzip", "user-agent": "autonomy-ctx"}
        headers |= {name.lower(): secret.value for name, secret in self._headers.items()}
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return Outgoing(
            url=joined(base, path, self._provider.version),
            headers=headers,
            content=text.encode("utf-8", "replace"),
        )

    def _key(self, base: str) -> str | None:
        if self._api_key is not None:
            return self._api_key.value
        found = self._provider.key()
        if found is not None:
            return Secret(found, "the key in the environment").value
        # A server at another address than the provider's own may well need none.
        if self._provider.keys and base == self._provider.usual_address() and not self._headers:
            raise MissingKey(self._name, self._provider.keys)
        return None
