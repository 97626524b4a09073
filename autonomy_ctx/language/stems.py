"""`stem_term`: the Porter stem of an English word, so that `run` finds `running`.

SQLite's full-text index stems by itself. Stores whose index does not, stem with this, to the same stems.
M. F. Porter, An algorithm for suffix stripping, 1980; the numbers of the steps are his.
"""

from __future__ import annotations

from itertools import pairwise

from autonomy_ctx.messages.text_cache import word_cache

# No word of a language is longer; SQLite leaves longer ones as they are, too.
_MAX_STEM_BYTES = 64
_VOWELS = "aeiou"

# Suffixes and what takes their place, in the order in which they are tried.
_STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("logi", "log"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
)
_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@word_cache(65_536)
def stem_term(term: str) -> str:
    """The stem of a word in lower case; a term in which nothing is English stays as it is."""
    if len(term) < 3 or not term[-1].isascii() or len(term.encode()) > _MAX_STEM_BYTES:
        return term
    word = _strip_participle(_strip_plural(term))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_suffix(_replace_suffix(word, _STEP_2), _STEP_3)
    return _strip_end(_strip_suffix(word))


def _strip_plural(word: str) -> str:
    """Step 1a."""
    if word[1:].endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _strip_participle(word: str) -> str:
    """Step 1b."""
    if word[1:].endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return _mend_stem(stem) if _has_vowel(stem) else word
    return word


def _mend_stem(stem: str) -> str:
    """Mend the stem that step 1b leaves: hop from hopp, file from fil."""
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) > 1 and stem[-1] == stem[-2] and stem[-1] not in "aeioulsz":
        return stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_short(stem) else stem


def _replace_suffix(word: str, suffixes: tuple[tuple[str, str], ...]) -> str:
    """Steps 2 and 3."""
    for suffix, other in suffixes:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return stem + other if _measure(stem) > 0 else word
    return word


def _strip_suffix(word: str) -> str:
    """Step 4. Of -sion and -tion the first letter stays."""
    for suffix in _STEP_4:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            if suffix in ("sion", "tion"):
                stem += suffix[0]
            return stem if _measure(stem) > 1 else word
    return word


def _strip_end(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _ends_short(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _vowels(word: str) -> list[bool]:
    """For each letter, whether it is a vowel: y is one after a consonant."""
    found: list[bool] = []
    for letter in word:
        found.append(letter in _VOWELS or (letter == "y" and bool(found) and not found[-1]))
    return found


def _has_vowel(word: str) -> bool:
    return any(_vowels(word))


def _measure(word: str) -> int:
    """Count how often a consonant follows a vowel."""
    vowels = _vowels(word)
    return sum(before and not after for before, after in pairwise(vowels))


def _ends_short(word: str) -> bool:
    """Tell whether it ends with consonant, vowel, consonant, the last one not w, x or y."""
    return _vowels(word)[-3:] == [False, True, False] and word[-1] not in "wxy"
