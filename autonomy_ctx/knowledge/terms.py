"""Words as SQLite's full-text index compares them, and questions that cannot be its syntax.

The words are those of `items.ranking`: scripts without spaces one character each, so in a question two
neighbours are looked for together. Whatever a user writes, only words in quotes reach the index.
"""

from __future__ import annotations

from autonomy_ctx.items.ranking import words

# A long question is about what it begins and ends with.
MOST_TERMS = 64
MOST_CHARACTERS = 20_000
# In the form in which words are compared.
STOP_WORDS = frozenset(
    words(
        "a about after all also am an and any are as at be because been before being but by can could did do "
        "does doing for from had has have having he her here him his how i if in into is it its just like me "
        "more most my no not of on or our out over please she should so some such tell than that the their "
        "them then there these they this those to too up us very was we were what when where which while who "
        "whom why will with would you your"
    )
)


def indexed(text: str, title: str | None = None) -> str:
    """A passage as the index sees it."""
    return " ".join(words(f"{title}\n{text}" if title else text))


def question(text: str) -> str | None:
    """A question in the index's syntax: any of its words, common ones only if there are no others."""
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: MOST_CHARACTERS // 2]} {text[-MOST_CHARACTERS // 2 :]}"
    found = words(text)
    terms = list(dict.fromkeys(_terms([word for word in found if word not in STOP_WORDS] or found)))
    if len(terms) > MOST_TERMS:
        terms = [*terms[: MOST_TERMS // 2], *terms[-MOST_TERMS // 2 :]]
    return " OR ".join(f'"{term}"' for term in terms) or None


def _terms(found: list[str]) -> list[str]:
    """Words, and each two neighbours of a script without spaces as one."""
    terms: list[str] = []
    before = ""
    for word in found:
        spaceless = len(word) == 1 and ord(word) >= 0x3040
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
