"""Words as SQLite's full-text index compares them, and questions that cannot be its syntax.

The words are those of `items.ranking`: scripts without spaces one character each, so in a question two
neighbours are looked for together. Whatever a user writes, only words in quotes reach the index.
"""

from __future__ import annotations

from autonomy_ctx.items.terms import any_of, ends, is_unspaced, little, words

# Of a long question as many terms and characters count at its beginning as at its end.
END_TERMS, END_CHARACTERS = 32, 10_000


def indexed(text: str, title: str | None = None) -> str:
    """A passage as the index sees it."""
    return " ".join(words(f"{title}\n{text}" if title else text))


def question(text: str) -> str | None:
    """A question in the index's syntax: any of its words, common ones only if there are no others."""
    found = list(dict.fromkeys(_terms(words(ends(text, END_CHARACTERS)))))
    terms = [term for term in found if term not in little()] or found
    if len(terms) > 2 * END_TERMS:
        terms = [*terms[:END_TERMS], *terms[-END_TERMS:]]
    return any_of(terms) or None


def _terms(found: list[str]) -> list[str]:
    """Words, and each two neighbours of a script without spaces as one."""
    terms: list[str] = []
    before = ""
    for word in found:
        spaceless = is_unspaced(word)
        if not spaceless:
            terms.append(word)
        elif before:
            if terms[-1] == before:
                terms.pop()
            terms.append(f"{before} {word}")
        else:
            terms.append(word)
        before = word if spaceless else ""
    return terms
