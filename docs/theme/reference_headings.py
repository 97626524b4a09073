"""A Markdown extension for the pages of the reference, which are written to be read without the site, too.

In the files an entry is a heading with a signature, a line `::: module.Name` and words. On the site that line
becomes a heading, the signature with its types, the docstring and the members, all from the source. So the
written heading goes, and where words follow, the docstring is folded: they say the same and more. A heading
without such a line stays, without its arguments.
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


class ReferenceHeadingsExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        # After pages were included in pages (32), before code blocks are taken out (25).
        md.preprocessors.register(ReferenceHeadings(md), "reference_headings", 28)


def makeExtension(**options: object) -> ReferenceHeadingsExtension:  # noqa: N802
    return ReferenceHeadingsExtension(**options)
