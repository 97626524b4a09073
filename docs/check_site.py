"""Whether the built site holds together: no link, anchor or picture is missing, nothing comes from elsewhere.

    python docs/check_site.py site

`zensical build --strict` looks at links in Markdown. This looks at the pages as a browser gets them: what was
generated, what a template adds, what stands in HTML.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself when it shows a page.
_LOADED = {
    ("audio", "src"),
    ("embed", "src"),
    ("iframe", "src"),
    ("image", "href"),
    ("img", "src"),
    ("img", "srcset"),
    ("input", "src"),
    ("link", "href"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("track", "src"),
    ("use", "href"),
    ("video", "poster"),
    ("video", "src"),
}
# Links in the head that say where something is, and load nothing.
_NAMES_ONLY = {"alternate", "author", "canonical", "next", "prev"}
_STYLE_ADDRESS = re.compile(r"""@import\s+["']([^"']+)|url\(\s*["']?([^"')]+)""")
# The theme fetches these from elsewhere when a page has one.
_FETCHES_SCRIPTS = {"mermaid": "a Mermaid diagram", "glightbox": "a lightbox"}
_CROSS_REFERENCE = re.compile(r"\[[^\]\n]+\]\[[\w.]*\]")


@dataclass
class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors in it."""

    path: Path
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._open.append(tag)
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        names_only = tag == "link" and set(given.get("rel", "").split()) <= _NAMES_ONLY
        for name, value in given.items():
            if name == "style":
                self.loads.extend(style_addresses(value))
            elif (tag, name) not in _LOADED or names_only:
                continue
            elif name == "srcset":
                self.loads.extend(choice.split()[0] for choice in value.split(",") if choice.strip())
            else:
                self.loads.append(value)
        for word in given.get("class", "").split():
            if word in _FETCHES_SCRIPTS:
                self.problems.append(f"{_FETCHES_SCRIPTS[word]} loads a script; draw a picture")
        if tag == "img" and not given.get("alt", "").strip():
            self.problems.append(f"a picture without an alt text: {given.get('src')}")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        inside = set(self._open)
        if self._open and self._open[-1] == "style":
            self.loads.extend(style_addresses(data))
        elif "article" in inside and not inside & {"code", "pre", "script"}:
            self.problems.extend(
                f"an unresolved reference: {text}" for text in _CROSS_REFERENCE.findall(data)
            )


def style_addresses(text: str) -> list[str]:
    """What a style loads."""
    return [first or second for first, second in _STYLE_ADDRESS.findall(text)]


def find_problems(site: Path) -> Iterator[str]:
    """A sentence for each fault, with the file it is in."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: no pages"
    for path, page in pages.items():
        shown = path.relative_to(site)
        yield from (f"{shown}: {problem}" for problem in page.problems)
        for address in page.loads:
            if (problem := _find_load_problem(site, path, address)) is not None:
                yield f"{shown}: {problem}"
        for address in page.links:
            if (problem := _find_link_problem(site, pages, path, address)) is not None:
                yield f"{shown}: {problem}"
    for path in sorted(site.rglob("*.css")):
        for address in style_addresses(path.read_text(encoding="utf-8")):
            if (problem := _find_load_problem(site, path, address)) is not None:
                yield f"{path.relative_to(site)}: {problem}"


def _find_load_problem(site: Path, path: Path, address: str) -> str | None:
    parts = urlsplit(address)
    if parts.scheme == "data" or (not parts.path and not parts.netloc):
        return None
    if parts.scheme or parts.netloc:
        return f"loads from elsewhere: {address}"
    return None if _find_target(site, path, parts.path).is_file() else f"loads what is not there: {address}"


def _find_link_problem(site: Path, pages: dict[Path, Page], path: Path, address: str) -> str | None:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    target = _find_target(site, path, parts.path) if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"links to what is not there: {address}"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return f"links to an anchor that is not there: {address}"
    return None


def _find_target(site: Path, path: Path, address: str) -> Path:
    """The file behind an address; a site without a name of its own has its root where `site` is."""
    relative = unquote(address)
    return site / relative.lstrip("/") if relative.startswith("/") else (path.parent / relative).resolve()


def main() -> None:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve()
    problems = list(dict.fromkeys(find_problems(site)))
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201
    if problems:
        sys.exit(f"{len(problems)} problems in {site.name}")
    print(f"{site.name}: {sum(1 for _ in site.rglob('*.html'))} pages, every link leads somewhere")  # noqa: T201


if __name__ == "__main__":
    main()
