"""Providers on loopback ports: one that answers the agents, one that writes the summaries."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from adapters.recorded_conversation import SUMMARY, answer
from models.provider_server import ProviderServer, providing
from models.provider_words import Say

pytest.register_assert_rewrite("adapters.contract", "adapters.several_agents")

# What frameworks would tell their makers, and look up at theirs.
os.environ["ADK_DISABLE_TELEMETRY"] = "1"
os.environ["OTEL_SDK_DISABLED"] = "true"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["DO_NOT_TRACK"] = "1"


@pytest.fixture
def anyio_backend() -> str:
    """The frameworks need asyncio."""
    return "asyncio"


@pytest.fixture
async def server() -> AsyncIterator[ProviderServer]:
    """Answers the agents, in the words of all providers; refuses what a real provider refuses."""
    async with providing(answer) as serving:
        yield serving
    assert serving.refused == []


@pytest.fixture
async def summaries() -> AsyncIterator[ProviderServer]:
    """Writes the summaries."""
    async with providing(Say(SUMMARY)) as serving:
        yield serving
    assert serving.refused == []


@pytest.fixture
def memory_url(tmp_path: Path) -> str:
    """A file that outlives an adapter."""
    return f"sqlite:///{tmp_path}/memory.db"
