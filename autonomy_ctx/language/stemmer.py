"""Light stems: words without the beginnings and endings of number, gender, case and tense.

The rules of a language are the steps of `[stems]` in its file, one after another. English words are stemmed
by `stem_word` in every text, because names and terms of English are in all of them; the stems of other
languages are other forms of a word, by which it is found as well (`light_stems`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autonomy_ctx.language.tables import DEFAULT_LANGUAGE, load_index, stop_words
from autonomy_ctx.language.words import split_words
from autonomy_ctx.messages.text_cache import word_cache

# No word of a language is longer.
MAX_STEM_LENGTH = 40


@word_cache(8_192)
def stem_word(word: str) -> str:
    """The stem of an English word in lower case; a word of another script stays as it is."""
    return language_stem(word, DEFAULT_LANGUAGE) if word.isascii() else word


def normalized_words(text: str) -> list[str]:
    """The stems of the words of a text; stop words stay as they are."""
    stop = stop_words()
    found = (word.removesuffix("'s") for word in split_words(text).folded if word not in (",", ":"))
    return [word if word in stop else stem_word(word) for word in found]


def light_stems(word: str, languages: Iterable[str]) -> list[str]:
    """The stems of a folded word in these languages, or in that of its script; never the word itself."""
    if not word.isascii():
        languages = [code for first, last, code in load_index().scripts if first <= word[-1] <= last]
    found = dict.fromkeys(language_stem(word, language) for language in languages)
    return [stem for stem in found if stem != word]


def language_stem(word: str, language: str) -> str:
    """The stem of a folded word in a language; the word itself if no rule fits."""
    rules = load_index().stems.get(language)
    return word if rules is None else stem_with(rules, word)


def stem_with(rules: Mapping[str, Any], word: str) -> str:
    """The stem of a folded word by the finished rules of a language; where they repeat, its own stem."""
    if len(word) > MAX_STEM_LENGTH or any(map(str.isdigit, word)):
        return word
    irregular, before = rules["irregular"], ""
    while word != before and irregular.get(word) != word:
        before = word = irregular.get(word, word)
        for step in rules["steps"]:
            affixes, is_prefix = step["affixes"], step["is_prefix"]
            # The longest that leaves enough letters.
            for size in range(min(step["longest"], len(word)), 0, -1):
                other: str | None = affixes.get(word[:size] if is_prefix else word[-size:])
                if other is not None and len(word) - size + len(other) >= step["least"]:
                    word = other + word[size:] if is_prefix else word[:-size] + other
                    break
        if not rules["repeats"]:
            break
    return word
