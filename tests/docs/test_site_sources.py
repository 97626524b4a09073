"""The site has every page, its pictures are those of a run, and its check finds what is broken."""

from __future__ import annotations

import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from docs.snippets import ROOT

DOCS = ROOT / "docs"
SETTINGS = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
CHECK = runpy.run_path(str(DOCS / "check_site.py"))


def nav_pages(entry: Any) -> Iterator[str]:
    """The pages of the navigation, in order."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from nav_pages(part)


def test_the_navigation_has_every_page_once() -> None:
    listed = list(nav_pages(SETTINGS["nav"]))
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert pages - set(listed) == set(), "put it into `nav` of zensical.toml"
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("folder", ["how-to", "migrate", "reference", "tutorial", "use-with"])
def test_the_first_page_of_a_folder_links_to_all_others(folder: str) -> None:
    index = (DOCS / folder / "index.md").read_text(encoding="utf-8")
    others = {path.name for path in (DOCS / folder).glob("*.md")} - {"index.md"}
    assert {name for name in others if f"({name})" not in index} == set()


def test_no_page_has_a_diagram_that_needs_a_script_from_elsewhere() -> None:
    assert [
        path.name for path in DOCS.rglob("*.md") if "```mermaid" in path.read_text(encoding="utf-8")
    ] == []


def test_the_page_of_benchmarks_lists_each_with_its_own_words() -> None:
    rows = runpy.run_path(str(DOCS / "make_benchmarks.py"))["list_benchmarks"]()
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert "|---|---|\n" + rows + "\n## Benchmarks others can run\n" in page, (
        "run `python -m docs.make_benchmarks`"
    )


def test_the_readme_compares_with_the_figures_of_the_page_of_benchmarks() -> None:
    table = runpy.run_path(str(DOCS / "make_benchmarks.py"))["shorten_comparison"]()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert table.count("\n") >= 7
    assert f"<!-- comparison: begin -->\n\n{table}\n<!-- comparison: end -->" in readme, (
        "run `python -m docs.make_benchmarks`"
    )


def test_the_drawings_are_those_of_a_run_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    drawn = runpy.run_path(str(DOCS / "make_pictures.py"))["draw_all"]()
    changed = [
        name
        for name, picture in drawn.items()
        if (DOCS / "images" / name).read_text(encoding="utf-8") != picture
    ]
    assert changed == [], "run `python docs/make_pictures.py`, look at them, and commit them"


@pytest.fixture(scope="module")
def plots() -> Iterator[tuple[dict[str, Any], Any]]:
    """The program that draws the plots, and what its replays measured."""
    path = [*sys.path]
    program = runpy.run_path(str(DOCS / "make_plots.py"))
    yield program, anyio.run(program["run_replays"])
    sys.path[:] = path


@pytest.mark.nightly
def test_the_plots_are_those_of_replays_of_today(plots: tuple[dict[str, Any], Any]) -> None:
    program, results = plots
    changed = [
        name
        for name, picture in program["draw_all"](results).items()
        if (DOCS / "images" / name).read_text(encoding="utf-8") != picture
    ]
    assert changed == [], "run `python docs/make_plots.py`, look at them, and commit them"


@pytest.mark.nightly
def test_the_page_about_numbers_has_those_of_the_plots(plots: tuple[dict[str, Any], Any]) -> None:
    program, results = plots
    page = (DOCS / "how-to" / "choose-numbers.md").read_text(encoding="utf-8")
    assert "|---|---|---|---|---|---|---|\n" + program["list_rows"](results) + "\n" in page
    assert "|---|---|---|---|---|\n" + program["list_room_rows"](results) + "\n" in page
    words = " ".join(page.split())
    missing = [sentence for sentence in program["list_sentences"](results) if sentence not in words]
    assert missing == [], "run `python docs/make_plots.py` and put what it prints into the page"
    assert all(f"(../images/{name})" in page for name in program["draw_all"](results))


def problems(folder: Path, body: str) -> list[str]:
    (folder / "index.html").write_text(
        f"<html><body><article>{body}</article></body></html>", encoding="utf-8"
    )
    return [problem.removeprefix("index.html: ") for problem in CHECK["find_problems"](folder)]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="gone.html">x</a>', "links to what is not there: gone.html"),
        ('<a href="#gone">x</a>', "links to an anchor that is not there: #gone"),
        ('<a href="other/#gone">x</a>', "links to an anchor that is not there: other/#gone"),
        ('<img src="gone.png" alt="A picture">', "loads what is not there: gone.png"),
        ('<source srcset="gone.png 2x">', "loads what is not there: gone.png"),
        (
            '<img src="other/picture.svg">',
            "a picture without an alt text: other/picture.svg",
        ),
        (
            '<script src="https://cdn.example/a.js"></script>',
            "loads from elsewhere: https://cdn.example/a.js",
        ),
        ('<link rel="preconnect" href="//fonts.example">', "loads from elsewhere: //fonts.example"),
        (
            "<style>@import 'https://f.example/a.css'</style>",
            "loads from elsewhere: https://f.example/a.css",
        ),
        (
            '<p style="background: url(https://x.example/y)">x</p>',
            "loads from elsewhere: https://x.example/y",
        ),
        (
            '<pre class="mermaid">A --> B</pre>',
            "a Mermaid diagram loads a script; draw a picture",
        ),
        ("<p>See [Memory][autonomy_ctx.Gone].</p>", "an unresolved reference: [Memory][autonomy_ctx.Gone]"),
    ],
)
def test_the_check_of_the_site_tells_what_is_broken(tmp_path: Path, body: str, problem: str) -> None:
    make_other(tmp_path)
    assert problems(tmp_path, body) == [problem]


def test_the_check_of_the_site_is_content_with_what_is_there(tmp_path: Path) -> None:
    make_other(tmp_path)
    body = """
        <h1 id="top">Home</h1><a href="#top">x</a><a href="other/">x</a><a href="other/#there">x</a>
        <a href="https://elsewhere.example/page">a link may lead away</a><link rel="canonical" href="https://here.example">
        <img src="other/picture.svg" alt="A picture"><img src="data:image/png;base64,AA" alt="A dot">
        <pre><code>rows[0][1]</code></pre>
    """
    assert problems(tmp_path, body) == []


def test_a_folder_without_pages_is_no_site(tmp_path: Path) -> None:
    assert list(CHECK["find_problems"](tmp_path)) == [f"{tmp_path}: no pages"]


def make_other(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "index.html").write_text('<h1 id="there">Other</h1>', encoding="utf-8")
    (folder / "other" / "picture.svg").write_text("<svg/>", encoding="utf-8")
