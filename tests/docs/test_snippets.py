"""Every piece of Python in the documentation runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.snippets import PAGES, run, shown, snippets

FENCES = ("```python", "```text", "```bash", "```sql", "```mermaid", "```toml")


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_no_block_escapes_the_check(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    fences = [line for line in lines if line.lstrip().startswith("```")]
    assert all(fence == "```" or fence in FENCES for fence in fences), "unknown or indented fence"
    assert fences.count("```") * 2 == len(fences), "a fence without a language, or one left open"
    assert fences.count("```python") == len(snippets(page))


def test_a_failing_snippet_is_named_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nvalue = 1\nvalue.missing\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:5: AttributeError"):
        run(page, tmp_path)
