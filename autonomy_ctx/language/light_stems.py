"""Light stems: words of many languages without the endings of number, gender and case.

Only endings that are safe to take away are taken away; what a verb or an adjective is made of stays. English
has the stems of `stems`. A text is of the language whose little words it has; a short one without any may be
of each. `light_stems` takes words as `fold_script` gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.messages.text_cache import word_cache

_MIN_STEM, _MIN_LOAN_WORD = 3, 5
# The languages of the Latin script. In those of the second group words are joined to longer ones.
SPACED_LANGUAGES = ("fr", "es", "pt", "it", "pl", "tr", "vi")
COMPOUND_LANGUAGES = ("de", "nl", "nordic")
LATIN_LANGUAGES = (*COMPOUND_LANGUAGES, *SPACED_LANGUAGES)

# Words that tell a language from English and mostly from others.
_LITTLE_WORDS = {
    "de": "der die das und ist nicht ein eine einen einem einer eines mit für fuer auf dem den des zu von "
    "wir ich sie sich auch wurde werden haben habe sind bitte über ueber bei nach aus im vom zum zur "
    "noch wie oder aber kein keine mein meine unser unsere ihr ihre wo wann warum gibt wird heute "
    "gestern morgen können muss mich mir dir uns euch es er dass wenn schon sehr bis durch ohne gegen",
    "nl": "de het een en niet van ik je wij we zijn met voor op aan dat er ook maar om naar bij uit deze "
    "dit werd worden hebben heeft geen wat wie waar wanneer gisteren vandaag morgen over onze mijn "
    "jouw zij hij u",
    "nordic": "och att det som en ett är jag inte på av med för den har till vi om när var vad igår idag og "
    "er ikke jeg et af til der å hva hvor når i går dag hvad fra ble blev",
    "fr": "le la les des une un et est dans pour que qui pas nous vous avec sur ce cette sont du au aux il "
    "elle je mais ou où par plus été hier avons ont mon ma mes votre notre quand comment pourquoi de "
    "en",
    "es": "el los las una unos y es que de la en por para con no se del al como pero más está están hemos "
    "ayer hoy cuando dónde donde mi su nuestro hay muy este esta qué cómo son fue un",
    "pt": "o os as um uma e é que de da do das dos em no na nos nas por para com não se mais mas como foi "
    "ontem hoje quando onde meu minha seu sua está estão são temos muito este esta ao à",
    "it": "il lo gli i la le un una e è che di da in con per non si del della dei delle al alla sono ma "
    "come più ieri oggi quando dove mio mia nostro abbiamo hanno questo questa nel nella sul sulla",
    "pl": "i w z na do nie się jest to że jak o dla po od za ale czy był była było są mamy wczoraj dziś "
    "kiedy gdzie mój moja nasz ten ta te przez już bardzo we ze",
    "tr": "ve bir bu da de için ile çok ne mi mı değil var yok dün bugün nerede ben sen biz siz gibi daha "
    "ama olarak olan kadar hakkında",
    "vi": "là và của có không tôi bạn anh chị em cho với được này đã sẽ ở một những các hôm qua nay",
}
# Words that are too common in English texts, or mean something else there.
_AMBIGUOUS_WORDS = (
    "die den dem des an in on no me do as a i am is was war we of to so also man over per al la le o e u "
    "en de el em es et er du un una ma par plus con se si come due sole son mine ten ta te za po and mi "
    "da ne ben sen var dove more fast art not her his hat are it dag wie met van uit maar om dit dat las "
    "los don nay cho anh"
)
# Letters that tell languages, before these.
_LETTER_TABLE = (
    "ä de nordic; ö de nordic tr; ü de tr; ß de; åøæ nordic; ñ es; ãõ pt; łąężźśćń pl; şğı tr; œîû fr; "
    "ë nl fr; êâô fr pt; è fr it; à fr it pt; ìò it; ù it fr; é fr es pt it; áíú es pt; ó es pt pl; "
    "ç fr pt tr; đơư vi"
)


@cache
def _languages_by_word() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for language, words in _LITTLE_WORDS.items():
        for word in dict.fromkeys(words.split()):
            found.setdefault(word, []).append(language)
    return {word: tuple(languages) for word, languages in found.items()}


@cache
def _languages_by_letter() -> dict[str, list[str]]:
    rows = (row.split() for row in _LETTER_TABLE.split(";"))
    return {letter: languages for letters, *languages in rows for letter in letters}


@cache
def function_words() -> frozenset[str]:
    """Words that tell a language of the Latin script from English."""
    return frozenset(_languages_by_word()) - frozenset(_AMBIGUOUS_WORDS.split())


def guess_languages(words: Sequence[str], english: int) -> tuple[str, ...]:
    """The languages that a text may be in by its little words and letters; none when it is English.

    `english` is how many little words of English it has. Ambiguous words decide between others only.
    """
    clear = function_words().intersection(words)
    text = "".join(words)
    by_letter = _languages_by_letter()
    letters = [] if text.isascii() else [by_letter[one] for one in by_letter.keys() & set(text)]
    if not clear and (english or not letters):
        return ()
    if english and len(clear) + len(letters) <= english:
        return ()
    votes: dict[str, int] = {}
    by_word = _languages_by_word()
    for word in by_word.keys() & set(words):
        for language in by_word[word]:
            votes[language] = votes.get(language, 0) + (2 if word in clear else 1)
    for languages in letters:
        for language in languages:
            votes[language] = votes.get(language, 0) + 2
    most = max(votes.values())
    return tuple(language for language in LATIN_LANGUAGES if votes.get(language, 0) == most)


def light_stems(word: str, languages: Iterable[str]) -> list[str]:
    """The stems of a folded word in these languages, or in that of its script; never the word itself."""
    if word.isascii():
        found = [noun_stem(word, language) for language in languages]
        if "de" in languages and len(word) >= _MIN_LOAN_WORD:
            found.append(_strip(word, _GERMAN_LOAN))
    else:
        found = [_script_stem(word)]
    return [stem for stem in dict.fromkeys(found) if stem != word]


@word_cache(65_536)
def noun_stem(word: str, language: str) -> str:
    """The stem of a folded word in a language of the Latin script; the word itself if it has no ending."""
    stem = _LATIN_STEMS[language](word)
    return stem if len(stem) >= (2 if language == "tr" else _MIN_STEM) else word


@word_cache(65_536)
def _script_stem(word: str) -> str:
    """By the script of the last letter."""
    last = word[-1]
    for first, end, strip in _SCRIPT_STEMS:
        if first <= last <= end:
            return strip(word)
    return word


def _strip(word: str, endings: Sequence[tuple[str, str]], least: int = _MIN_STEM) -> str:
    """The word without the first of these endings that leaves enough of it."""
    for ending, other in endings:
        if word.endswith(ending) and len(word) - len(ending) + len(other) >= least:
            return word[: len(word) - len(ending)] + other
    return word


def _rules(endings: str) -> tuple[tuple[str, str], ...]:
    """Endings, the longest first; `ces>z` puts another in its place."""
    pairs = ((one.partition(">")[0], one.partition(">")[2]) for one in endings.split())
    return tuple(sorted(pairs, key=lambda pair: -len(pair[0])))


_GERMAN = _rules("ern em en er es e ens ns")
# Konto and Konten, Zentrum and Zentren.
_GERMAN_LOAN = _rules("ums um as os a o en")
_GERMAN_S = lazy_pattern("(?<=[bdfghklmnrtaio])s$")
_DUTCH = _rules("eren en e")
_DUTCH_S = lazy_pattern("(?<=[bdfgklmnprt])s$|(?<=[ij]e)s$")
_DOUBLE = lazy_pattern(r"([bdfgklmnprst])\1$")
_NORDIC = _rules("arnas ernas ornas arna erna orna erne ene ar or er en et na ne a e n ets ens")
_FRENCH = _rules("eaux>eau aux>al ees>e ee>e oux>ou eux>eu s x")
_SPANISH = _rules("ces>z es s e")
_PORTUGUESE = _rules("oes>ao aes>ao aos>ao ais>al eis>el ois>ol uis>ul ns>m res>r zes>z ses>s s")
_ITALIAN = _rules("che>c chi>c ghe>g ghi>g io ia ie ii i e o a")
_POLISH = _rules(
    "iami iach ami ach owie owi ow om em iem ie ego emu ymi imi ych ich ej a e i o u y ek>k ia iu ii"
)
_TURKISH_PLURAL = _rules(
    "larindan lerinden larinda lerinde larinin lerinin larini lerini larina lerine larin lerin larim lerim "
    "lardan lerden larda lerde lari leri lara lere lar ler"
)
_TURKISH_CASE = _rules("daki deki dan den tan ten da de ta te nin nun in un yi yu i u")
_RUSSIAN = _rules(
    "иями ями ами иях ях ах ией ией ей ой ий ый ая яя ое ее ие ые ого его ому ему ыми ими ых их ую юю ов ев "
    "ів ові ем ом ам ям ием ию ия ии ью а я о е и ы у ю ь й і ї"
)
_GREEK = _rules("ιουσ ους ουσ εισ εων ιων ιου ων οσ οι ου ον εσ ησ ασ ια ιο α η ο ε ι υ ω")
_ARABIC_SUFFIX = _rules("هما ها ان ات ون ين يه هم هن ه ي")
_ARABIC_PREFIXES = ("وبال", "وكال", "وال", "بال", "كال", "فال", "ولل", "لل", "ال")
# The article of this name is a part of it.
_ARABIC_NAMES = frozenset(("الله", "والله", "بالله", "لله"))
_HINDI = _rules("ियों ियां ियो ाओं ओं ों ें ां ीं ी े ा ो ि ुओं")
_HEBREW = _rules("יות>י ית>י ימ ות ה")
_HEBREW_PREFIXES = ("וה", "שה", "ה")


def _german(word: str) -> str:
    stem = _strip(word, _GERMAN)
    return stem if stem != word else _GERMAN_S.sub("", word)


def _dutch(word: str) -> str:
    stem = _strip(word, _DUTCH[:1], 4)
    if stem == word:
        stem = _DUTCH_S.sub("", _strip(word, _DUTCH[1:]))
    if stem != word:
        stem = _DOUBLE.sub(r"\1", stem)
        if stem[-1] in "zv":
            stem = stem[:-1] + {"z": "s", "v": "f"}[stem[-1]]
    return stem


def _turkish(word: str) -> str:
    stem = _strip(word, _TURKISH_PLURAL, 2)
    if stem == word:
        stem = _strip(word, _TURKISH_CASE)
    return stem[:-1] + "p" if stem != word and stem.endswith("b") else stem


def _arabic(word: str) -> str:
    if word in _ARABIC_NAMES:
        return word
    if len(word) > 4 and word[0] == "و" and not word.startswith(_ARABIC_PREFIXES):
        word = word[1:]
    for prefix in _ARABIC_PREFIXES:
        if word.startswith(prefix) and len(word) - len(prefix) >= _MIN_STEM:
            word = word[len(prefix) :]
            break
    return _strip(word, _ARABIC_SUFFIX)


def _hebrew(word: str) -> str:
    for prefix in _HEBREW_PREFIXES:
        if word.startswith(prefix) and len(word) - len(prefix) >= _MIN_STEM:
            word = word[len(prefix) :]
            break
    return _strip(word, _HEBREW)


_LATIN_STEMS: dict[str, Callable[[str], str]] = {
    "de": _german,
    "nl": _dutch,
    "nordic": lambda word: _strip(word, _NORDIC),
    "fr": lambda word: _strip(word, _FRENCH),
    "es": lambda word: _strip(word, _SPANISH),
    "pt": lambda word: _strip(word, _PORTUGUESE),
    "it": lambda word: _strip(word, _ITALIAN),
    "pl": lambda word: _strip(word, _POLISH),
    "tr": _turkish,
    "vi": lambda word: word,
}
_SCRIPT_STEMS: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("\u0370", "\u03ff", lambda word: _strip(word, _GREEK)),
    ("\u0400", "\u04ff", lambda word: _strip(word, _RUSSIAN)),
    ("\u05d0", "\u05ea", _hebrew),
    ("\u0620", "\u06d3", _arabic),
    ("\u0900", "\u097f", lambda word: _strip(word, _HINDI, 2)),
)
