"""A Markdown extension: pages can be read without the site, too, and this turns them into those of the site.

In the files of the reference, an entry is a heading with a signature, a line `::: module.Name` and words. On
the site that line becomes a heading, the signature with its types, the docstring and the members, all from
the source. So the written heading goes. Where words follow, the docstring is folded: they say the same and
more. A heading without such a line stays, without its arguments.

A file of the root, such as the changelog, links to `docs/...`; on the site that folder is the root.
"""

from __future__ import annotations

import re

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

_HEADING = re.compile(r"### `\w+[`(]")
_ARGUMENTS = re.compile(r"`(\w+)\([^`]*`")
_DIRECTIVE = "::: "
_WORDS_FOLLOW = ["    options:", "      extra:", "        words: true"]


class ReferenceHeadings(Preprocessor):
    """Shortens headings, and tells each directive whether words follow."""

    def run(self, lines: list[str]) -> list[str]:
        shown = []
        for number, line in enumerate(lines):
            following = next((below for below in lines[number + 1 :] if below.strip()), "#")
            if _HEADING.match(line):
                generated = following.startswith(_DIRECTIVE)
                shown.append("" if generated else _ARGUMENTS.sub(r"`\1`", line))
                continue
            shown.append(line)
            if line.startswith(_DIRECTIVE) and not following.startswith((_DIRECTIVE, "#")):
                shown.extend(_WORDS_FOLLOW)
        return shown


class RootLinks(Preprocessor):
    """Lets links from the root of the repository lead to the same pages on the site."""

    def run(self, lines: list[str]) -> list[str]:
        return [line.replace("](docs/", "](") for line in lines]


class SitePages(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        # After pages were included in pages (32), before code blocks are taken out (25).
        md.preprocessors.register(ReferenceHeadings(md), "reference_headings", 28)
        md.preprocessors.register(RootLinks(md), "root_links", 27)


def makeExtension(**options: object) -> SitePages:  # noqa: N802
    return SitePages(**options)
