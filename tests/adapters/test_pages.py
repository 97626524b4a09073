"""The programs of the pages in `docs/use-with` and `docs/migrate` run, and print what the pages say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from adapters.recorded_conversation import answer
from anyio.from_thread import start_blocking_portal
from docs.snippets import ROOT, Snippet, snippets
from models.provider_server import providing

PAGES = {page.stem: page for page in sorted((ROOT / "docs" / "use-with").glob("*.md"))}
FRAMEWORKS = (
    "agent-framework",
    "google-adk",
    "langchain",
    "llama-index",
    "openai-agents",
    "pydantic-ai",
    "strands",
)
# About all of them.
SEVERAL = "several-agents"
# In an environment of its own, with a test of its own.
PROXY = "litellm"
# Both programs, before and after. Mem0 and Letta are not installed; their pages are run with the docs.
MIGRATED = ("langchain", "llama-index", "openai-agents")
PROGRAMS = [
    *(snippet for name in (*FRAMEWORKS, SEVERAL) for snippet in snippets(PAGES[name])),
    *(snippet for name in MIGRATED for snippet in snippets(ROOT / "docs" / "migrate" / f"{name}.md")),
]


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Variables by which the clients of providers find one on this machine."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(providing(answer)) as server:
        yield {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "k",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "GOOGLE_API_KEY": "k",
            "PYTHONPATH": str(ROOT),
        }
    assert server.refused == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.place)
def test_a_program_prints_what_its_page_says(
    program: Snippet, environment: dict[str, str], tmp_path: Path
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program.source],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == program.prints


def test_every_framework_has_a_page_with_a_program() -> None:
    names = [*FRAMEWORKS, SEVERAL, PROXY]
    assert set(PAGES) == {"index", *names}
    index = PAGES["index"].read_text(encoding="utf-8")
    assert all(f"({name}.md)" in index and snippets(PAGES[name]) for name in names)
