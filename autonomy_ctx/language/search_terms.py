"""Terms of texts and questions for full-text search.

Text is split into words, and into pairs of characters or syllables for scripts without spaces; stop words are
dropped. Beside the words as they are written stand their other forms (`folding`, `light_stems`), so that an
exact match can be told from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.folding import (
    SYLLABIC_SCRIPTS,
    WORD_MARKS,
    fold_script,
    normalize_text,
    spelling_forms,
    syllables,
)
from autonomy_ctx.language.light_stems import (
    COMPOUND_LANGUAGES,
    LATIN_LANGUAGES,
    function_words,
    guess_languages,
    light_stems,
    noun_stem,
)
from autonomy_ctx.language.stems import stem_term
from autonomy_ctx.language.terms import STOP_WORDS, UNSPACED_SCRIPTS, is_unspaced
from autonomy_ctx.messages.text_cache import word_cache

MAX_TERM_LENGTH = 64
_LETTERS = rf"[^\W_{UNSPACED_SCRIPTS}{SYLLABIC_SCRIPTS}]+"
_WORD = rf"{_LETTERS}(?:[{WORD_MARKS}]+(?:{_LETTERS})?)*"
_JOINT = "[-_./:@+]{1,3}"
_TERM_PATTERN = lazy_pattern(rf"[{UNSPACED_SCRIPTS}]+|[{SYLLABIC_SCRIPTS}]+|{_WORD}(?:{_JOINT}{_WORD})*")
# No script without spaces has a character before this one.
_FIRST_UNSPACED = "\u0e01"
# The same for plain text, which takes half the time.
_ASCII_TERM_PATTERN = lazy_pattern(f"[a-z0-9]+(?:{_JOINT}[a-z0-9]+)*")
_JOINT_PATTERN = lazy_pattern(_JOINT)
_STOP_WORD_SET = frozenset(STOP_WORDS.split())
_SYLLABIC_PATTERN = lazy_pattern(f"[{SYLLABIC_SCRIPTS}]")
_DIGIT_PATTERN = lazy_pattern(r"\d")

# What stands before another form of a word, before a long word that may be joined from others, and before the
# same from its end to its beginning. No word has these characters.
FORM_MARK, HEAD_MARK, TAIL_MARK = "\u00b7", "\u00bb", "\u00ab"
# What stands after a word that is not English but ends like one, which keeps it from being stemmed.
STEM_GUARD = "\u00a6"
# A word may be joined from others from so many letters on, and be found by its beginning or its end; a part
# of it has at least so many.
_MIN_HEAD_WORD, _MIN_TAIL_WORD, _MIN_PART = 7, 8, 4
# Of the end of a word so many letters are looked at.
_MAX_TAIL = 12
# A text with more words than this and no word that tells its language is data.
_MAX_WORDS_OF_ANY_LANGUAGE = 8
_LINKING_LETTERS = ("es", "en", "er", "s", "n", "e")


class IndexTerms(NamedTuple):
    """The terms of a text, as often as they are there, and the other forms of its words, marked."""

    words: list[str]
    forms: list[str]

    @property
    def joined_words(self) -> list[str]:
        """The forms that are the beginning or the end of a joined word."""
        return [form for form in self.forms if form.startswith((HEAD_MARK, TAIL_MARK))]


class FoldedTerms(NamedTuple):
    """Where else to look for the words of a question.

    `words` and `pairs` (words that stand in one text) are met among the words of a text, `forms` and
    `prefixes` among the forms.
    """

    words: list[str]
    pairs: list[tuple[str, str]]
    forms: list[str]
    prefixes: list[str]


def index_terms(text: str) -> IndexTerms:
    """The terms that a text is found by."""
    plain = normalize_text(text)
    is_ascii = plain.isascii()
    if is_ascii or max(plain) < _FIRST_UNSPACED:
        runs = (_ASCII_TERM_PATTERN if is_ascii else _TERM_PATTERN).findall(plain)
        if "".join(runs).isalnum():
            # Words and nothing else, as in most messages: looked at all at once.
            words = [run for run in runs if run not in _STOP_WORD_SET]
            english = len(runs) - len(words)
        else:
            parts = [part for run in runs for part in _split_run(run)]
            words = [part for part in parts if part not in _STOP_WORD_SET]
            english = len(parts) - len(words)
        if max(map(len, words), default=0) > MAX_TERM_LENGTH:
            words = [word[:MAX_TERM_LENGTH] for word in words]
        languages = _index_languages(runs, english)
        if is_ascii:
            return IndexTerms(words, _all_forms(words, languages) if languages else [])
        forms = _all_forms(words if languages else [word for word in words if not word.isascii()], languages)
        return IndexTerms([word if word.isascii() else _guard_term(word) for word in words], forms)
    runs = _TERM_PATTERN.findall(plain)
    terms: list[str] = []
    spaced: list[str] = []
    forms = []
    languages = _index_languages(runs, len(_STOP_WORD_SET.intersection(runs)))
    for run in runs:
        if run.isascii():
            parts = [part for part in _split_run(run) if part not in _STOP_WORD_SET]
            if languages:
                spaced += parts
        elif is_unspaced(run):
            parts = [*run, *_bigrams(run)]
            forms += [FORM_MARK + form for form in _variant_grams(run) if form not in _STOP_WORD_SET]
            parts = [part for part in parts if part not in _STOP_WORD_SET]
        elif _SYLLABIC_PATTERN.match(run):
            units = syllables(run)
            parts = [*units, *_pairs(units)]
        else:
            parts = _split_run(run)
            spaced += parts
        terms += parts
    forms += _all_forms(spaced, languages)
    return IndexTerms([_guard_term(term[:MAX_TERM_LENGTH]) for term in terms], forms)


def folded_words(text: str) -> set[str]:
    """The different words of a text in plain letters, by which one sees what two texts share."""
    return {fold_script(word.removesuffix(STEM_GUARD)) for word in index_terms(text).words}


def search_terms(query: str) -> list[str]:
    """The different terms of a question, in order; of a run of characters without spaces only the pairs."""
    found: list[str] = []
    for run in _query_runs(query):
        if not run.isascii() and is_unspaced(run):
            found += _bigrams(run) if len(run) > 1 else [run]
        elif not run.isascii() and _SYLLABIC_PATTERN.match(run):
            units = syllables(run)
            found += _pairs(units) if len(units) > 1 else units
        else:
            found += _split_run(run)
    return list(
        dict.fromkeys(_guard_term(term[:MAX_TERM_LENGTH]) for term in found if term not in _STOP_WORD_SET)
    )


def folded_terms(query: str, limit: int) -> FoldedTerms:
    """Where to look for the words of a question besides `search_terms`, at most so many of each kind."""
    runs = _query_runs(query)
    english = len(_STOP_WORD_SET.intersection(runs))
    languages = guess_languages(runs, english)
    is_english = english > 0 and not languages
    found: list[FoldedTerms] = []
    for run in runs:
        if not run.isascii() and is_unspaced(run):
            variant = fold_script(run)
            grams = _bigrams(run) if len(run) > 1 else [run]
            variants = _bigrams(variant) if len(variant) > 1 else [variant]
            others = [gram for gram in variants if gram not in grams]
            found.append(FoldedTerms(others, [], [FORM_MARK + gram for gram in (*grams, *others)], []))
        elif run.isascii() or not _SYLLABIC_PATTERN.match(run):
            found += [
                _query_forms(part, languages or LATIN_LANGUAGES, is_english)
                for part in _split_run(run)
                if part not in _STOP_WORD_SET and len(part) <= MAX_TERM_LENGTH
            ]
    return FoldedTerms(
        list(dict.fromkeys(word for one in found for word in one.words))[:limit],
        list(dict.fromkeys(pair for one in found for pair in one.pairs))[:limit],
        list(dict.fromkeys(form for one in found for form in one.forms))[:limit],
        list(dict.fromkeys(prefix for one in found for prefix in one.prefixes))[:limit],
    )


def _query_runs(query: str) -> tuple[str, ...]:
    plain = normalize_text(query)
    return tuple((_ASCII_TERM_PATTERN if plain.isascii() else _TERM_PATTERN).findall(plain))


def _guard_term(term: str) -> str:
    return term if term.isascii() or not term[-1].isascii() else term + STEM_GUARD


def _split_run(run: str) -> list[str]:
    """A word, or the parts of one with joints and all of them as one."""
    if run.isalnum():
        return [run]
    parts = _JOINT_PATTERN.split(run)
    return [*parts, "".join(parts)] if len(parts) > 1 else parts


def _index_languages(words: Sequence[str], english: int) -> tuple[str, ...]:
    """The languages whose endings the words of a text may have; none for English and for data."""
    languages = guess_languages(words, english)
    if not languages and not english and len(words) <= _MAX_WORDS_OF_ANY_LANGUAGE:
        return LATIN_LANGUAGES
    return languages


def _all_forms(words: Sequence[str], languages: tuple[str, ...]) -> list[str]:
    """The different other forms of these words, marked."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(words):
        found |= _index_forms(word, languages)
    return list(found)


@word_cache(65_536)
def _index_forms(word: str, languages: tuple[str, ...]) -> dict[str, None]:
    """The other forms of a word, marked. What a question may be spelled like is left to the question."""
    form = fold_script(word)
    found = [] if form == word else [form]
    if word not in function_words() and not _DIGIT_PATTERN.search(word):
        joined = ""
        compound = [language for language in COMPOUND_LANGUAGES if language in languages][:1]
        if compound and len(form) >= _MIN_HEAD_WORD and form.isascii():
            joined = noun_stem(form, compound[0])
            if len(joined) < _MIN_PART:
                joined = ""
            else:
                found.append(HEAD_MARK + joined)
            if joined and len(form) >= _MIN_TAIL_WORD:
                found.append(TAIL_MARK + joined[: -_MAX_TAIL - 1 : -1])
        found += [stem for stem in light_stems(form, languages) if stem != joined]
        if form != word and form.isascii():
            # It may be a loan word in English.
            found.append(stem_term(form))
    return dict.fromkeys(map(_mark_form, found))


@word_cache(4096)
def _query_forms(word: str, languages: tuple[str, ...], is_english: bool) -> FoldedTerms:
    """Where to look for a word of a question."""
    forms = [word, *spelling_forms(word)]
    if word in function_words() or _DIGIT_PATTERN.search(word):
        return FoldedTerms(forms[1:], [], [_mark_form(form) for form in forms], [])
    stems = [stem for form in forms for stem in light_stems(form, languages)]
    stems += [stem for form in forms if form.isascii() and (stem := stem_term(form)) != form]
    compound = [language for language in COMPOUND_LANGUAGES if language in languages]
    latin = [form for form in forms if form.isascii()]
    marked = [*forms, *stems]
    if not compound:
        # A text of a few words may be taken for one of a language that joins words.
        marked += [HEAD_MARK + form for form in marked if form.isascii()]
    parts = dict.fromkeys(noun_stem(form, language) for form in latin for language in compound)
    prefixes = [
        prefix
        for part in parts
        if len(part) >= _MIN_PART
        for prefix in (HEAD_MARK + part, TAIL_MARK + part[: -_MAX_TAIL - 1 : -1])
    ]
    # What is plain in a text has no other form there. An English word has few stems of other languages.
    words = forms[1:] if is_english else [*forms[1:], *stems]
    pairs = _joined_pairs(latin[0]) if parts and not is_english else []
    return FoldedTerms(words, pairs, [_mark_form(form) for form in marked], prefixes)


def _mark_form(form: str) -> str:
    return (form if form[0] in (HEAD_MARK, TAIL_MARK) else FORM_MARK + form)[:MAX_TERM_LENGTH]


def _joined_pairs(word: str) -> list[tuple[str, str]]:
    """The two words that a long one may be joined from, at each place where that may be."""
    found: list[tuple[str, str]] = []
    for at in range(_MIN_PART, len(word) - _MIN_PART + 1):
        first, second = word[:at], word[at:]
        found.append((first, second))
        for link in _LINKING_LETTERS:
            if first.endswith(link) and at - len(link) >= _MIN_PART:
                found.append((first[: -len(link)], second))
                break
    return found


def _variant_grams(run: str) -> list[str]:
    """The characters and pairs that a run of characters without spaces has in other variants only."""
    variant = fold_script(run)
    if variant == run:
        return []
    grams, variants = [*run, *_bigrams(run)], [*variant, *_bigrams(variant)]
    return [other for gram, other in zip(grams, variants, strict=True) if gram != other]


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _pairs(units: Sequence[str]) -> list[str]:
    return [first + second for first, second in pairwise(units)]
