"""Terms of texts and questions for full-text search.

Text is split into words, and into pairs of characters or syllables for scripts without spaces; stop words are
dropped. English words are stemmed. Beside the words stand their other forms, in plainer letters and with the
stems of other languages, so that an exact match can be told from another. Raise `FOLDING_VERSION` with every
change of what is indexed, here or in the data: indexes that were made with another one are made anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.stemmer import language_stem, light_stems, stem_word
from autonomy_ctx.language.tables import DEFAULT_LANGUAGE, guess_languages, load_index, load_synonyms
from autonomy_ctx.language.words import (
    UNSPACED_SCRIPTS,
    fold_script,
    fold_text,
    is_unspaced,
    normalize_text,
    spelling_forms,
)
from autonomy_ctx.messages.text_cache import word_cache

FOLDING_VERSION = 2

# Marks that join letters into a word, by script; Python counts them as no part of one.
_WORD_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0816-\u082d"
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u09e2\u09e3\u0a01-\u0a03"
    "\u0a3c-\u0a51\u0a70\u0a71\u0a75\u0a81-\u0a83\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03\u0b3c-\u0b57\u0b62\u0b63"
    "\u0b82\u0bbe-\u0bd7\u0c00-\u0c04\u0c3c-\u0c56\u0c62\u0c63\u0c81-\u0c83\u0cbc-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03"
    "\u0d3b-\u0d57\u0d62\u0d63\u0d81-\u0d83\u0dca-\u0df3\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e\u0f3f\u0f71-\u0f84"
    "\u0f86\u0f87\u0f8d-\u0fbc"
)
# Thai, Lao, Burmese and Khmer: written without spaces between words.
_SYLLABIC_SCRIPTS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u109f\u1780-\u17d3\u17dd\ua9e0-\ua9ef"
    "\ua9fa-\ua9fe\uaa60-\uaa7f"
)
# Vowels that stand before their consonant, and what stands after it; in Burmese and Khmer also a consonant
# below it.
_LEADING_VOWELS = "\u0e40-\u0e44\u0ec0-\u0ec4"
_FOLLOWERS = (
    "\u0e30-\u0e3a\u0e45-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ece\u102b-\u1038\u103a-\u103e\u1056-\u1059"
    "\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u17b4-\u17d1\u17d3\u17dd"
)
_SYLLABLE_PATTERN = lazy_pattern(
    f"[{_LEADING_VOWELS}]*+(?:[^{_LEADING_VOWELS}](?:[\u1039\u17d2].|[{_FOLLOWERS}])*+)?", re.DOTALL
)
_LETTERS = rf"[^\W_{UNSPACED_SCRIPTS}{_SYLLABIC_SCRIPTS}]++"
_WORD = rf"{_LETTERS}(?:[{_WORD_MARKS}]++(?:{_LETTERS})?)*+"
_JOINT = "[-_./:@+]{1,3}"
# A text without such scripts has a pattern of its own, which is compiled in a tenth of the time.
_SPACED_WORD = rf"[^\W_]++(?:[{_WORD_MARKS}]++(?:[^\W_]++)?)*+"
_SPACED_TERM_PATTERN = lazy_pattern(rf"{_SPACED_WORD}(?:{_JOINT}{_SPACED_WORD})*+")
_TERM_PATTERN = lazy_pattern(rf"[{UNSPACED_SCRIPTS}]+|[{_SYLLABIC_SCRIPTS}]+|{_WORD}(?:{_JOINT}{_WORD})*+")
# No script without spaces has a character before this one.
_FIRST_UNSPACED = "\u0e01"
# The same for plain text, which takes half the time.
_ASCII_TERM_PATTERN = lazy_pattern(f"[a-z0-9]+(?:{_JOINT}[a-z0-9]+)*")
_JOINT_PATTERN = lazy_pattern(_JOINT)
_SYLLABIC_PATTERN = lazy_pattern(f"[{_SYLLABIC_SCRIPTS}]")
_DIGIT_PATTERN = lazy_pattern(r"\d")

MAX_TERM_LENGTH = 64
# What stands before another form of a word, before a long word that may be joined from others, and before the
# same from its end to its beginning. No word has these characters.
FORM_MARK, HEAD_MARK, TAIL_MARK = "\u00b7", "\u00bb", "\u00ab"
# A word may be joined from others from so many letters on, and be found by its beginning or its end; a part
# of it has at least so many.
_MIN_HEAD_WORD, _MIN_TAIL_WORD, _MIN_PART = 7, 8, 4
# Of the end of a word so many letters are looked at.
_MAX_TAIL = 12
# A text with more words than this and no word that tells its language is data.
_MAX_WORDS_OF_ANY_LANGUAGE = 8


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
    runs = _find_runs(text)
    languages, stop = _text_languages(runs), load_index().stop_words
    if languages == (DEFAULT_LANGUAGE,):
        languages = ()
    elif not languages and len(runs) <= _MAX_WORDS_OF_ANY_LANGUAGE:
        languages = tuple(load_index().latin)
    terms: list[str] = []
    forms: dict[str, None] = {}
    spaced = runs
    if not text.isascii() and max(text) >= _FIRST_UNSPACED:
        spaced = []
        for run in runs:
            if run.isascii() or not (is_unspaced(run) or _SYLLABIC_PATTERN.match(run)):
                spaced.append(run)
            elif is_unspaced(run):
                terms += [gram for gram in (*run, *_bigrams(run)) if gram not in stop]
                forms |= dict.fromkeys(FORM_MARK + gram for gram in _variant_grams(run) if gram not in stop)
            else:
                units = syllables(run)
                terms += [unit[:MAX_TERM_LENGTH] for unit in (*units, *_pairs(units))]
    words = [word for word in _split_runs(spaced) if word not in stop]
    for word in dict.fromkeys(words) if languages or not "".join(words).isascii() else ():
        if languages or not word.isascii():
            forms |= _index_forms(word, languages)
    return IndexTerms(terms + [stem_word(word) for word in words], list(forms))


def folded_words(text: str) -> set[str]:
    """The different words of a text in plain letters, by which one sees what two texts share."""
    return {fold_script(word) for word in index_terms(text).words}


def search_terms(query: str) -> list[str]:
    """The different terms of a question, in order; of a run of characters without spaces only the pairs."""
    found: list[str] = []
    stop = load_index().stop_words
    for run in _find_runs(query):
        if not run.isascii() and is_unspaced(run):
            found += [gram for gram in (_bigrams(run) if len(run) > 1 else [run]) if gram not in stop]
        elif not run.isascii() and _SYLLABIC_PATTERN.match(run):
            units = syllables(run)
            found += [unit[:MAX_TERM_LENGTH] for unit in (_pairs(units) if len(units) > 1 else units)]
        else:
            found += [stem_word(word) for word in _split_runs([run]) if word not in stop]
    return list(dict.fromkeys(found))


def folded_terms(query: str, limit: int) -> FoldedTerms:
    """Where to look for the words of a question besides `search_terms`, at most so many of each kind."""
    runs = _find_runs(query)
    index = load_index()
    languages = _text_languages(runs)
    is_english = languages == (DEFAULT_LANGUAGE,)
    others = tuple(code for code in languages if code != DEFAULT_LANGUAGE) or tuple(index.latin)
    found: list[FoldedTerms] = []
    for run in runs:
        if not run.isascii() and is_unspaced(run):
            variant = fold_script(run)
            grams = _bigrams(run) if len(run) > 1 else [run]
            variants = _bigrams(variant) if len(variant) > 1 else [variant]
            new = [gram for gram in variants if gram not in grams]
            found.append(FoldedTerms(new, [], [FORM_MARK + gram for gram in (*grams, *new)], []))
        elif run.isascii() or not _SYLLABIC_PATTERN.match(run):
            found += [
                _query_forms(part, others, is_english)
                for part in _split_runs([run])
                if part not in index.stop_words
            ]
    return FoldedTerms(
        list(dict.fromkeys(word for one in found for word in one.words))[:limit],
        list(dict.fromkeys(pair for one in found for pair in one.pairs))[:limit],
        list(dict.fromkeys(form for one in found for form in one.forms))[:limit],
        list(dict.fromkeys(prefix for one in found for prefix in one.prefixes))[:limit],
    )


def related_stems(stem: str) -> Mapping[str, float]:
    """The stems that may stand for this one in an answer, each with the part of its weight they have."""
    return load_synonyms().get(stem, {})


def syllables(run: str) -> list[str]:
    """A run of a script without spaces, each consonant with the vowels and marks around it."""
    return [unit for unit in _SYLLABLE_PATTERN.findall(run) if unit]


def fts_or_query(wanted: Iterable[str]) -> str:
    """A question to a full-text index: any of these terms, in quotes, so that nothing is syntax."""
    return " OR ".join(f'"{term}"' for term in wanted)


def _find_runs(text: str) -> list[str]:
    """Words, joined words and runs of characters without spaces, in order."""
    plain = normalize_text(text)
    pattern = _ASCII_TERM_PATTERN
    if not plain.isascii():
        pattern = _SPACED_TERM_PATTERN if max(plain) < _FIRST_UNSPACED else _TERM_PATTERN
    return pattern.findall(plain)


def _split_runs(runs: list[str]) -> list[str]:
    """Words, and of each that has joints its parts and all of them as one."""
    if not "".join(runs).isalnum():
        found: list[str] = []
        for run in runs:
            parts = _JOINT_PATTERN.split(run)
            found += [*parts, "".join(parts)] if len(parts) > 1 else parts
        runs = found
    if max(map(len, runs), default=0) > MAX_TERM_LENGTH:
        return [run[:MAX_TERM_LENGTH] for run in runs]
    return runs


def _text_languages(runs: Sequence[str]) -> tuple[str, ...]:
    """The languages of a text by its words; English alone where it may be that."""
    text, index = " ".join(runs), load_index()
    if text.isascii() and index.foreign_words.isdisjoint(runs):
        return () if index.stop_words.isdisjoint(runs) else (DEFAULT_LANGUAGE,)
    found = guess_languages(runs if text.isascii() else fold_text(text).split(), text)
    return (DEFAULT_LANGUAGE,) if DEFAULT_LANGUAGE in found else found


@word_cache(8_192)
def _index_forms(word: str, languages: tuple[str, ...]) -> dict[str, None]:
    """The other forms of a word, marked. What a question may be spelled like is left to the question."""
    form = fold_script(word)
    found = [] if form == word else [form]
    if not _DIGIT_PATTERN.search(word) and not _is_function_word(word):
        joined = ""
        compound = [language for language in load_index().compound if language in languages][:1]
        if compound and len(form) >= _MIN_HEAD_WORD and form.isascii():
            joined = language_stem(form, compound[0])
            if len(joined) < _MIN_PART:
                joined = ""
            else:
                found.append(HEAD_MARK + joined)
            if joined and len(form) >= _MIN_TAIL_WORD:
                found.append(TAIL_MARK + joined[: -_MAX_TAIL - 1 : -1])
        found += [stem for stem in light_stems(form, languages) if stem != joined]
        if form != word and form.isascii():
            # It may be a loan word in English.
            found.append(stem_word(form))
    return dict.fromkeys(map(_mark_form, found))


@word_cache(4096)
def _query_forms(word: str, languages: tuple[str, ...], is_english: bool) -> FoldedTerms:
    """Where to look for a word of a question."""
    forms = [word, *spelling_forms(word)]
    if _DIGIT_PATTERN.search(word) or _is_function_word(word):
        return FoldedTerms(forms[1:], [], [_mark_form(form) for form in forms], [])
    stems = [stem for form in forms for stem in light_stems(form, languages)]
    stems += [stem for form in forms if form.isascii() and (stem := stem_word(form)) != form]
    compound = [language for language in load_index().compound if language in languages]
    latin = [form for form in forms if form.isascii()]
    marked = [*forms, *stems]
    if not compound:
        # A text of a few words may be taken for one of a language that joins words.
        marked += [HEAD_MARK + form for form in marked if form.isascii()]
    parts = dict.fromkeys(language_stem(form, language) for form in latin for language in compound)
    prefixes = [
        prefix
        for part in parts
        if len(part) >= _MIN_PART
        for prefix in (HEAD_MARK + part, TAIL_MARK + part[: -_MAX_TAIL - 1 : -1])
    ]
    # What is plain in a text has no other form there. An English word has few stems of other languages.
    words = forms[1:] if is_english else [*forms[1:], *stems]
    links = [link for code in compound for link in load_index().stems[code]["links"]]
    pairs = _joined_pairs(latin[0], links) if parts and not is_english else []
    return FoldedTerms(
        [stem for stem in dict.fromkeys(map(stem_word, words)) if stem != stem_word(word)],
        [(stem_word(first), stem_word(second)) for first, second in pairs],
        [_mark_form(form) for form in marked],
        prefixes,
    )


def _is_function_word(word: str) -> bool:
    """Tell whether a word tells a language, and so has no other form worth looking for."""
    return fold_text(word) in load_index().foreign_words


def _mark_form(form: str) -> str:
    return (form if form[0] in (HEAD_MARK, TAIL_MARK) else FORM_MARK + form)[:MAX_TERM_LENGTH]


def _joined_pairs(word: str, links: Iterable[str]) -> list[tuple[str, str]]:
    """The two words that a long one may be joined from, at each place where that may be."""
    found: list[tuple[str, str]] = []
    for at in range(_MIN_PART, len(word) - _MIN_PART + 1):
        first, second = word[:at], word[at:]
        found.append((first, second))
        for link in links:
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
