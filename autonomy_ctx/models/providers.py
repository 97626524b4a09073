"""The providers: base URL, wire format, and the environment variables that hold keys and URLs.

`choose_provider` finds the provider of a model by its name. Most providers speak the OpenAI format. The
environment is read only when a model is first used.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from autonomy_ctx.errors.spelling import did_you_mean
from autonomy_ctx.formats.base import Format, WireFormat, load_format
from autonomy_ctx.formats.model_table import known_models
from autonomy_ctx.validation import is_loopback, parse_host

# The first version that refuses sampling parameters, and the one that takes them.
ANTHROPIC_VERSION, ANTHROPIC_SAMPLING_VERSION = "2026-10-21", "2023-06-01"
SAMPLING_OPTIONS = ("temperature", "top_p", "top_k")
REGION_PLACEHOLDER = "{region}"
REGION_VARIABLES, DEFAULT_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION"), "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider: its address, its words, and the variables that hold keys and addresses."""

    name: str
    base_url: str | None = None
    wire_format: WireFormat = "openai"
    key_variables: tuple[str, ...] = ()
    url_variables: tuple[str, ...] = ()
    key_header: str = "authorization"
    # The part of the path that a base may leave out: empty for none, None for a host alone, as OpenAI's do.
    version: str | None = None
    # Whether it makes the models: `openai/gpt-oss-20b` on a server of one's own is a model's full name.
    vendor: bool = False
    # Whether it serves models with windows of its own choosing.
    local: bool = False

    @property
    def knows_cache_fields(self) -> bool:
        """Tell whether its API has fields for prompt caches: it is OpenAI, or has another format."""
        return self.wire_format != "openai" or self.name == "openai"

    def headers(self, key: str | None, body: Mapping[str, Any], *, version: str | None) -> dict[str, str]:
        """The headers of a request; `version` is the Anthropic API version, chosen automatically if None."""
        headers = {"content-type": "application/json"}
        if key is not None:
            headers[self.key_header] = f"Bearer {key}" if self.key_header == "authorization" else key
        if self.wire_format == "anthropic":
            sampling = any(name in body for name in SAMPLING_OPTIONS)
            usual = ANTHROPIC_SAMPLING_VERSION if sampling else ANTHROPIC_VERSION
            headers["anthropic-version"] = version or usual
        return headers

    def resolve_base_url(self, given: str | None) -> str | None:
        """The base URL: the one given, which was checked, one from the environment, or the usual one."""
        if given is not None:
            return given
        found = next(filter(None, map(os.environ.get, self.url_variables)), None)
        if found is not None and self.name == "ollama":
            # OLLAMA_HOST may be a bare host and never has the path.
            found = found if "://" in found else f"http://{found}"
            found = found if urlsplit(found).path.strip("/") else f"{found.rstrip('/')}/v1"
        return checked_url(found) if found is not None else self.default_base_url()

    def default_base_url(self) -> str | None:
        """The provider's own base URL, in the region that the environment names."""
        if self.base_url is None:
            return None
        region = next(filter(None, map(os.environ.get, REGION_VARIABLES)), DEFAULT_REGION)
        return self.base_url.replace(REGION_PLACEHOLDER, region)

    def read_key(self) -> str | None:
        """The key that the environment holds."""
        return next(filter(None, map(os.environ.get, self.key_variables)), None)

    def format(self) -> Format:
        """The provider's words."""
        return load_format(self.wire_format)


def _read_providers() -> dict[str, Provider]:
    rows: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("providers.json").read_bytes())
    return {
        name: Provider(name=name, **{field: _read_value(value) for field, value in row.items()})
        for name, row in rows.items()
    }


def _read_value(value: Any) -> Any:
    # What JSON has as lists are names of variables.
    return tuple(value) if isinstance(value, list) else value


# The server at `compatible` is any other one: no key of another provider is ever sent to it.
PROVIDERS: Mapping[str, Provider] = _read_providers()
ALIASES = {"gemini": "google", "amazon": "bedrock", "aws": "bedrock", "responses": "openai-responses"}
_NAME_PATTERNS = (
    (re.compile(r"offline$"), "offline"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"(?:gpt|chatgpt)-|o[1-9](?:-|$)"), "openai"),
    (re.compile(r"gemini-"), "google"),
    (re.compile(r"nova-|(?:(?:us|eu|apac|global)\.)?(?:amazon|anthropic|meta|mistral)\."), "bedrock"),
)
_VERSION_SUFFIX = re.compile(r"/v\d\w*$")
_SHORT_NOVA = re.compile(r"nova-[a-z0-9-]+$")


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """A provider, and the model's name as that provider knows it."""

    provider: Provider
    model: str


def choose_provider(name: str, *, provider: str | None = None, base_url: str | None = None) -> ProviderChoice:
    """Who serves a model. A provider given wins, then a prefix `provider/`, then the name itself.

    With a `base_url`, `openai/...` and the names of other makers are part of a model's name, as on
    vLLM or OpenRouter; an unknown name is then a model of an OpenAI-compatible server.
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError('a model needs a name, such as "gpt-5", "ollama/llama3" or "offline"')
    if provider is not None:
        chosen = PROVIDERS.get(ALIASES.get(provider, provider))
        if chosen is None:
            near = did_you_mean(str(provider), [*PROVIDERS, *ALIASES])
            raise ValueError(
                f"provider {provider!r} is not known{near}; give one of {', '.join(PROVIDERS)}, or only a "
                f"`base_url` for a server that speaks the OpenAI format"
            )
        return _complete_choice(ProviderChoice(chosen, name), base_url)
    prefix, slash, rest = name.partition("/")
    found = PROVIDERS.get(ALIASES.get(prefix, prefix)) if slash and rest else None
    if found is not None and not (base_url is not None and found.vendor):
        return _complete_choice(ProviderChoice(found, rest), base_url)
    for pattern, known in _NAME_PATTERNS:
        if pattern.match(name) and not slash:
            return _complete_choice(ProviderChoice(PROVIDERS[known], name), base_url)
    if base_url is None:
        near = did_you_mean(name, [*known_models(), "offline"])
        raise ValueError(
            f"nothing is known about model {name!r}{near}; give `provider=` (one of {', '.join(PROVIDERS)}), "
            f"a prefix as in 'ollama/{name}', or the `base_url` of a server that speaks the OpenAI format"
        )
    return ProviderChoice(PROVIDERS["compatible"], name)


def _complete_choice(choice: ProviderChoice, base_url: str | None) -> ProviderChoice:
    if choice.provider.name == "compatible" and base_url is None:
        raise ValueError(f"model {choice.model!r} on a compatible server needs its `base_url`")
    if choice.provider.name == "bedrock" and _SHORT_NOVA.match(choice.model):
        # `nova-lite` is how people say it; `amazon.nova-lite-v1:0` is how Bedrock does.
        version = "" if re.search(r"-v\d+$", choice.model) else "-v1"
        return ProviderChoice(choice.provider, f"amazon.{choice.model}{version}:0")
    return choice


def checked_url(url: Any) -> str:
    """A base URL that is safe to show: http or https, with no user, password or query in it."""
    found = urlsplit(url) if isinstance(url, str) else None
    if found is None or found.scheme not in ("http", "https") or not found.netloc:
        raise ValueError(
            "a base_url begins with http:// or https:// and a host, such as http://127.0.0.1:8000/v1"
        )
    try:
        found.port  # noqa: B018  # raises when it is none
    except ValueError:
        raise ValueError("the port of a base_url must be a number up to 65535") from None
    if found.username is not None or found.password is not None or found.query or found.fragment:
        raise ValueError(
            "a base_url has only a scheme, a host and a path, because it is logged; "
            "pass the key as `api_key` and other values as `headers`"
        )
    if not _is_valid_host(parse_host(found.netloc)):
        raise ValueError("the host of a base_url must be a name or an address, with a port or without")
    return str(url).rstrip("/")


def _is_valid_host(host: str | None) -> bool:
    try:
        # Every part of a name has 1 to 63 characters; looking up another one would raise.
        return host is not None and bool(host.encode("idna"))
    except UnicodeError:
        return False


def sends_in_clear(url: str) -> bool:
    """Tell whether others could read what is sent to a URL: not encrypted, and to another machine."""
    found = urlsplit(url)
    return found.scheme != "https" and not is_loopback(parse_host(found.netloc) or "")


def join_url(base: str, path: str, version: str | None) -> str:
    """The URL of a path below a base. A base may be given with the version of the API or without."""
    path = path.lstrip("/")
    where = urlsplit(base).path.rstrip("/")
    if version == "":
        return f"{base}/{path}"
    if version is not None:
        path = path.removeprefix(f"{version}/")
        if not _VERSION_SUFFIX.search(where):
            base = f"{base}/{version}"
    elif not where:
        base = f"{base}/v1"
    return f"{base}/{path}"
