"""Which provider a name means, where it is, and what goes with a request."""

from __future__ import annotations

import pytest

from autonomy_ctx.models.model import Model
from autonomy_ctx.models.providers import ALIASES, PROVIDERS, checked_url, choose, joined
from autonomy_ctx.models.windows import known_window

VARIABLES = {name for one in PROVIDERS.values() for name in (*one.keys, *one.urls)}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("gpt-5", "openai", "gpt-5"),
        ("chatgpt-4o-latest", "openai", "chatgpt-4o-latest"),
        ("o3", "openai", "o3"),
        ("o4-mini", "openai", "o4-mini"),
        ("gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("nova-lite", "bedrock", "amazon.nova-lite-v1:0"),
        ("nova-pro-v1", "bedrock", "amazon.nova-pro-v1:0"),
        ("amazon.nova-lite-v1:0", "bedrock", "amazon.nova-lite-v1:0"),
        ("us.anthropic.claude-x-v1:0", "bedrock", "us.anthropic.claude-x-v1:0"),
        ("ollama/llama3", "ollama", "llama3"),
        ("openrouter/anthropic/claude-x", "openrouter", "anthropic/claude-x"),
        ("openai/gpt-5", "openai", "gpt-5"),
        ("gemini/gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("responses/gpt-5", "openai-responses", "gpt-5"),
        ("bedrock/nova-micro", "bedrock", "amazon.nova-micro-v1:0"),
        ("offline", "offline", "offline"),
    ],
)
def test_a_name_says_who_serves_the_model(name: str, provider: str, model: str) -> None:
    found = choose(name)
    assert (found.provider.name, found.model) == (provider, model)


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("llama-3", "compatible", "llama-3"),
        ("meta-llama/Llama-3", "compatible", "meta-llama/Llama-3"),
        ("openai/gpt-oss-20b", "compatible", "openai/gpt-oss-20b"),
        ("google/gemma-3", "compatible", "google/gemma-3"),
        ("ollama/llama3", "ollama", "llama3"),
        ("gpt-5", "openai", "gpt-5"),
        ("claude-x", "anthropic", "claude-x"),
    ],
)
def test_at_an_address_of_ones_own_a_makers_name_is_part_of_the_models(
    name: str, provider: str, model: str
) -> None:
    found = choose(name, base_url="http://127.0.0.1:8000/v1")
    assert (found.provider.name, found.model) == (provider, model)


def test_a_provider_that_is_given_wins() -> None:
    assert choose("claude-x", provider="openai").provider.name == "openai"
    for alias, name in ALIASES.items():
        assert choose("x", provider=alias).provider.name == name


@pytest.mark.parametrize("name", ["o", "opus", "llama3", "o10x", "somebody/llama3", "ollama/", "gpt5"])
def test_an_unknown_name_is_refused_with_what_to_give(name: str) -> None:
    with pytest.raises(ValueError, match=r"`provider=`.*'ollama/.*`base_url`"):
        Model(name)


def test_an_unknown_provider_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'nobody' is not known; give one of openai,.*offline"):
        Model("x", provider="nobody")
    with pytest.raises(ValueError, match="needs its `base_url`"):
        Model("x", provider="compatible")
    for odd in ("", " ", None):
        with pytest.raises(ValueError, match="needs a name"):
            Model(odd)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("127.0.0.1:8000", "begins with http"),
        ("ftp://there", "begins with http"),
        ("http://", "begins with http"),
        (7, "begins with http"),
        ("http://there:99999/v1", "port"),
        ("http://me:planted@there/v1", "only scheme, host and path"),
        ("http://planted@there/v1", "only scheme, host and path"),
        ("http://there/v1?key=planted", "only scheme, host and path"),
    ],
)
def test_an_address_that_cannot_be_shown_is_refused_without_showing_it(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        Model("x", base_url=url)
    assert "planted" not in str(raised.value)


def test_addresses_come_from_the_environment_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("gpt-5")
    assert model.base_url == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://there/v1/")
    assert model.base_url == "http://there/v1"
    assert Model("gpt-5", base_url="http://here/v1").base_url == "http://here/v1"


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("there", "http://there/v1"),
        ("0.0.0.0:11434", "http://0.0.0.0:11434/v1"),
        ("https://there:1/", "https://there:1/v1"),
        ("http://there/api/v1", "http://there/api/v1"),
    ],
)
def test_the_host_of_ollama_may_be_bare(monkeypatch: pytest.MonkeyPatch, value: str, url: str) -> None:
    assert Model("ollama/x").base_url == "http://127.0.0.1:11434/v1"
    monkeypatch.setenv("OLLAMA_HOST", value)
    assert Model("ollama/x").base_url == url


def test_bedrock_is_in_the_region_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("nova-lite")
    assert model.base_url == "https://bedrock-runtime.us-east-1.amazonaws.com"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert model.base_url == "https://bedrock-runtime.eu-west-1.amazonaws.com"
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert model.base_url == "https://bedrock-runtime.eu-central-1.amazonaws.com"


@pytest.mark.parametrize(
    ("base", "path", "version", "url"),
    [
        ("http://x/v1", "/chat/completions", None, "http://x/v1/chat/completions"),
        ("http://x", "/chat/completions", None, "http://x/v1/chat/completions"),
        ("http://x/api/paas", "/chat/completions", None, "http://x/api/paas/chat/completions"),
        ("http://x", "/messages", "v1", "http://x/v1/messages"),
        ("http://x/v1", "/messages", "v1", "http://x/v1/messages"),
        ("http://x/anthropic", "/v1/messages", "v1", "http://x/anthropic/v1/messages"),
        ("http://x", "/models/m:generateContent", "v1beta", "http://x/v1beta/models/m:generateContent"),
        ("http://x/v1", "/v1beta/models/m:x?alt=sse", "v1beta", "http://x/v1/models/m:x?alt=sse"),
        ("http://x", "/model/m/converse", "", "http://x/model/m/converse"),
    ],
)
def test_a_base_may_have_the_version_or_not(base: str, path: str, version: str | None, url: str) -> None:
    assert joined(checked_url(base), path, version) == url


def test_each_provider_gets_its_key_in_its_own_header() -> None:
    assert PROVIDERS["openai"].headers("k", {}, version=None)["authorization"] == "Bearer k"
    assert PROVIDERS["bedrock"].headers("k", {}, version=None)["authorization"] == "Bearer k"
    assert PROVIDERS["anthropic"].headers("k", {}, version=None)["x-api-key"] == "k"
    assert PROVIDERS["google"].headers("k", {}, version=None)["x-goog-api-key"] == "k"
    assert PROVIDERS["ollama"].headers(None, {}, version=None) == {"content-type": "application/json"}


def test_the_version_of_anthropic_fits_the_sampling_parameters() -> None:
    headers = PROVIDERS["anthropic"].headers
    assert headers("k", {"max_tokens": 1}, version=None)["anthropic-version"] == "2026-10-21"
    for name in ("temperature", "top_p", "top_k"):
        assert headers("k", {name: 1}, version=None)["anthropic-version"] == "2023-06-01"
    assert headers("k", {"top_k": 1}, version="2030-01-01")["anthropic-version"] == "2030-01-01"


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4", 8_192),
        ("gpt-4-turbo-2024", 128_000),
        ("gpt-4.1-mini", 1_047_576),
        ("openai/gpt-4o", 128_000),
        ("o1-mini-x", 128_000),
        ("claude-sonnet-4-5", 200_000),
        ("us.anthropic.claude-x-v1:0", 200_000),
        ("amazon.nova-lite-v1:0", 300_000),
        ("gemini-2.5-flash", 1_048_576),
        ("llama3", None),
    ],
)
def test_the_longest_beginning_of_a_name_gives_its_window(name: str, window: int | None) -> None:
    assert known_window(name) == window


def test_a_window_may_be_set_and_a_local_server_has_its_own() -> None:
    assert Model("gpt-5").context_window == 400_000
    assert Model("gpt-5", context_window=9).context_window == 9
    assert Model("ollama/gpt-oss").context_window is None
    assert Model("gpt-oss", provider="compatible", base_url="http://x").context_window is None
    for odd in (0, -1, True, 1.5, "9"):
        with pytest.raises(ValueError, match="context_window"):
            Model("gpt-5", context_window=odd)  # type: ignore[arg-type]
