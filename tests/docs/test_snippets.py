"""Every piece of Python in the documentation runs, and prints what the page says."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from docs.readme_server import serve_openai
from docs.snippets import PAGES, ROOT, run, shown, snippets
from models.provider_server import providing
from models.provider_words import Asked, Call, Say

LANGUAGES = ("python", "text", "bash", "sql", "mermaid", "toml", "json", "yaml", "javascript")
FENCES = tuple(f"```{name}" for name in LANGUAGES)

# What a reader copies warns of nothing.
pytestmark = pytest.mark.filterwarnings("error")

# Its snippets are copied one by one, and one asks OpenAI; on the other pages they build on each other.
README = ROOT / "README.md"
# Its snippets ask the providers' own clients.
OWN_CLIENT = ROOT / "docs" / "how-to" / "use-your-own-client.md"
# Its snippets need a server with the roles of the page: `tests/postgres/test_page.py` runs them.
POSTGRESQL = ROOT / "docs" / "how-to" / "use-postgresql.md"
# It sets a tracer provider, which a process has for good.
TRACES = ROOT / "docs" / "how-to" / "trace.md"
# Its snippets, in three languages, ask a running endpoint: `tests/server/test_openai_page.py` runs them.
ENDPOINT = ROOT / "docs" / "how-to" / "put-it-in-front-of-your-model.md"
# The same, with Claude Code: `tests/server/test_claude_code_page.py` runs them.
CLAUDE_CODE = ROOT / "docs" / "how-to" / "give-claude-code-a-memory.md"
APART = (README, OWN_CLIENT, POSTGRESQL, TRACES, ENDPOINT, CLAUDE_CODE)
# Their snippets need the frameworks: `tests/adapters` runs them.
USE_WITH = ROOT / "docs" / "use-with"
MIGRATE = [ROOT / "docs" / "migrate" / f"{name}.md" for name in ("langchain", "llama-index", "openai-agents")]
# They show the code of programs: `tests/docs/test_tutorial.py` runs those, and compares.
TUTORIAL = ROOT / "docs" / "tutorial"
ADDRESSES = {
    "OPENAI_BASE_URL": "/v1",
    "ANTHROPIC_BASE_URL": "",
    "GOOGLE_GEMINI_BASE_URL": "",
}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


ALONE = [page for page in PAGES if page not in (*APART, *MIGRATE) and page.parent not in (USE_WITH, TUTORIAL)]


@pytest.mark.parametrize("page", ALONE, ids=shown)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path)


def test_the_snippets_of_the_readme_run_with_a_key_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one with a key asks a server of this machine that answers as OpenAI does."""
    with serve_openai(monkeypatch) as server:
        run(README, tmp_path, alone=True)
    assert server.refused == []
    assert len(server.seen) == 2


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) < 150


def test_the_snippets_with_the_providers_own_clients_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a server of this machine that speaks their protocols; the clients find it by themselves."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(providing(_answer)) as server,
        warnings.catch_warnings(),
    ):
        # What a client warns of while it is imported is its own affair.
        warnings.simplefilter("ignore")
        for name, path in ADDRESSES.items():
            monkeypatch.setenv(name, server.url + path)
        for name in KEYS:
            monkeypatch.setenv(name, "k")
        run(OWN_CLIENT, tmp_path)
    assert server.refused == []
    assert len(server.seen) == 5


def test_the_snippets_about_traces_run_in_a_process_of_their_own(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from docs.snippets import run; run(*map(Path, sys.argv[1:]))"
    )
    paths = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", ""), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(TRACES), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def _answer(asked: Asked) -> Say:
    role, text = asked.said[-1]
    if "weather" in text and asked.tools:
        return Say(calls=[Call("call_1", "weather", {"city": "Lisbon"})])
    return Say("It is sunny." if role == "tool" else "Yes, they are.")


def test_no_block_escapes_the_check() -> None:
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        fences = [line for line in lines if line.lstrip().startswith("```")]
        assert {*fences} <= {"```", *FENCES}, f"{shown(page)}: unknown or indented fence"
        assert fences.count("```") * 2 == len(fences), f"{shown(page)}: a fence without a language, or open"
        assert fences.count("```python") == len(snippets(page)), shown(page)


def test_the_quickstart_can_be_pasted_into_a_console(tmp_path: Path) -> None:
    """`python -m asyncio`, as the page says: there an empty line ends a block, and only that."""
    page = ROOT / "docs" / "quickstart.md"
    pasted = "".join(f"{snippet.source}\n" for snippet in snippets(page))
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        input=pasted,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=True,
    )
    assert "Error" not in done.stderr, done.stderr
    printed = re.sub(r"^((>>>|\.\.\.) )+", "", done.stdout, flags=re.MULTILINE)
    at = 0
    for snippet in snippets(page):
        if snippet.prints is not None:
            found = printed.find(snippet.prints, at)
            assert found >= 0, f"{snippet.place} does not print what the page says: {printed[at:]}"
            at = found + len(snippet.prints)


def programs() -> Iterator[tuple[str, str]]:
    """Each snippet and each example, with where it stands."""
    for page in PAGES:
        yield from ((snippet.place, snippet.source) for snippet in snippets(page))
    for script in sorted((ROOT / "examples").rglob("*.py")):
        yield shown(script), script.read_text(encoding="utf-8")


def test_agents_are_given_all_but_their_name_by_keyword() -> None:
    """A bare second argument does not say whether the model is told it: `instructions=` does."""
    bare: list[str] = []
    agents = 0
    for place, source in programs():
        for node in ast.walk(
            compile(source, place, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Agent":
                agents += 1
                bare += [place] if len(node.args) > 1 else []
    assert agents > 10
    assert bare == []


def test_a_failing_snippet_is_named_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nvalue = 1\nvalue.missing\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:5: AttributeError"):
        run(page, tmp_path)
