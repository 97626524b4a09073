"""The built-in estimate of tokens: no vocabulary, no download.

It counts what a tokenizer splits a text at: words, capitals, numbers, marks, line breaks, and characters by
script. The weights are a fit to `o200k_base`. `token_scripts.json` has what scripts cost, also in other
vocabularies, and syllables of Japanese and Korean that are often one token. Long runs of one character are
counted apart, by how many of it make one token.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits

from autonomy_ctx._lazy import lazy_pattern

# Thousandths of a token, so that sums are exact. Least squares of the relative error against o200k over 2 KB
# pieces of manuals, stories, declarations and program messages in 30 languages, source code, JSON, CSV, logs,
# identifiers and emoji.
PER_WORD, PER_SIX_LETTERS = 880, 462
# "aB", "Ab", "AB", and "AbC" as in base64.
PER_CAPITAL_INSIDE, PER_CAPITALIZED, PER_CAPITAL_PAIR, PER_MIXED_CASE = 627, 356, 39, 2200
PER_NUMBER, PER_FOUR_DIGITS, PER_SPACE_BEFORE_NUMBER = 1219, 1085, 891
PER_DIGIT_APART = 1050
PER_MARK, PER_MARKS_BEFORE_WORD, PER_OTHER_MARKS = 179, 553, 636
PER_LINE, PER_EMPTY_LINE, PER_INDENT, PER_TAB = 611, -600, 739, 689
# Where the letters of a language say more than its script.
PER_DEVANAGARI, PER_THAI = -93, 139
PER_POLISH, PER_OTHER_CYRILLIC, PER_TRADITIONAL = -82, 1380, 5033
# Letters and words beside those by which the language is known, at most so many for each.
PER_VIETNAMESE, PER_VIETNAMESE_WORD, MAX_VIETNAMESE_WORDS = 1113, -850, 3
PER_LETTER_BESIDE_POLISH, MAX_LETTERS_BESIDE_POLISH = 113, 16
# Syllables that are one token together, and how much of a long text is searched for them.
PER_JOINED_KANA, PER_JOINED_HANGUL, PIECE_SAMPLE = -1051, -480, 2000
PER_JOINER, PER_SKIN_TONE, PER_MARK_AFTER_LETTER = 1881, 897, 629
# No text of ordinary length has fewer tokens for its characters.
MIN_PER_CHARACTER = 80

# A run that is counted apart has at least so many characters. Every fourth character is looked at, and six
# equal ones in a row are the sign of one.
_MIN_RUN_LENGTH, _RUN_STEP = 24, 4
# How many such signs are looked at more closely before the whole text is.
_MAX_RUN_LOOKS = 16
_RUN_PATTERN = lazy_pattern(rf"(?s)(.)\1{{{_MIN_RUN_LENGTH - 1},}}")


_DATA = json.loads(Path(__file__).with_name("token_scripts.json").read_bytes())
# By letters that stand for them, the commonest first. Vietnamese letters cost less than their words.
PER_SCRIPT: dict[str, int] = {letter: kind["cost"] for letter, kind in _DATA["kinds"].items()}
# By the second byte: most of hiragana, the rest and half of katakana, the other half.
PER_KANA = tuple((bytes.fromhex(lead), cost) for lead, cost in _DATA["kana"].items())
# How many of a character in a row make one token; of any other, one.
_CHARACTERS_PER_TOKEN = {
    character: int(length) for length, characters in _DATA["run_lengths"].items() for character in characters
}
# By the beginning of a model's name, the longest first: its vocabulary, and if every digit is a token.
VOCABULARY_BY_MODEL: dict[str, str] = _DATA["models"]
DIGITS_APART = tuple(_DATA["digits_apart"])
# Syllables that tokenizers keep together, the longest first.
_PIECES = {script: lazy_pattern("|".join(pieces.split())) for script, pieces in _DATA["pieces"].items()}
# For each vocabulary: what a character costs more, or less, than in `o200k_base`, by its first bytes.
SCRIPT_COSTS: dict[str, tuple[tuple[bytes, int], ...]] = {
    vocabulary: tuple(
        (bytes.fromhex(lead), cost)
        for script, cost in costs.items()
        for lead in _DATA["scripts"][script].split()
    )
    for vocabulary, costs in _DATA["vocabularies"].items()
}

_LOWER, _UPPER, _DIGITS = ascii_lowercase.encode(), ascii_uppercase.encode(), digits.encode()
_NOT_LEAD_BYTES = bytes(range(0xC0))  # ASCII, and every byte of a character after its first


def _class_letter(byte: int) -> str:
    """The letter for the class of a byte."""
    if byte >= 0x80:
        return "u"
    for members, letter in ((_LOWER, "a"), (_UPPER, "A"), (_DIGITS, "d"), (b" ", " "), (b"\n\r", "n")):
        if byte in members:
            return letter
    return "t" if byte == 0x09 else "m"


# The first byte of UTF-8 from which on a script begins, the last script first.
_FIRST_BYTES = [(int(first, 16), letter) for first, letter in reversed(_DATA["first_bytes"].items())]


_CLASS_TABLE = "".join(map(_class_letter, range(256))).encode()
# For the script that the first byte of a UTF-8 sequence announces.
_SCRIPT_TABLE = "".join(
    next((letter for first, letter in _FIRST_BYTES if byte >= first), " ") for byte in range(256)
).encode()
_NUMBER_TABLE = bytes(byte if byte == ord("d") else 0x20 for byte in range(256))
# Letters of words, marks, and all else.
_WORD_TABLE = "".join(
    "x" if chr(byte) in "aAu" else "m" if chr(byte) == "m" else " " for byte in range(256)
).encode()
# As numbers: Python finds one in bytes ten times as fast as a byte string.
_LETTER, _MARK, _LINE_BREAK, _TAB, _CAPITAL, _DIGIT = b"xmntAd"
_POLISH, _OTHER_CYRILLIC, _TRADITIONAL = (
    [letter.encode() for letter in letters] for letters in ("łżęąśćńŁŻ", "іїєґјљњћђџъ", "這個來時說會")
)


def estimate_tokens(text: str, *, digits_apart: bool = False, vocabulary: str = "") -> int:
    """Return about how many tokens a text costs: 0 if it is empty, otherwise at least 1.

    With `digits_apart` every digit is a token, as in the vocabularies of Qwen, Gemma and Mistral. A
    `vocabulary` that is known counts its scripts by `SCRIPT_COSTS`.
    """
    if not text:
        return 0
    runs = 0
    if _may_have_runs(text):
        text, runs = _without_runs(text, digits_apart)
    cost = _cost_of_text(text, digits_apart) if text else 0
    if vocabulary in SCRIPT_COSTS and not text.isascii():
        data = text.encode("utf-8", "surrogatepass")
        cost += sum(weight * data.count(lead) for lead, weight in SCRIPT_COSTS[vocabulary])
    return max(-(-(max(cost, MIN_PER_CHARACTER * len(text)) + runs) // 1000), 1)


def _cost_of_text(text: str, digits_apart: bool) -> int:
    data = text.encode("utf-8", "surrogatepass")
    classes = data.translate(_CLASS_TABLE)
    words, count = classes.translate(_WORD_TABLE), classes.count
    marks_before_word = words.count(b"mx")
    cost = (
        PER_WORD * (words.count(b" x") + marks_before_word + (words[0] == _LETTER))
        + PER_SIX_LETTERS * count(b"aaaaaa")
        + PER_MARK * count(b"m")
        + PER_MARKS_BEFORE_WORD * marks_before_word
        + PER_OTHER_MARKS * (words.count(b"m ") + (words[-1] == _MARK))
    )
    if _LINE_BREAK in classes:
        cost += PER_LINE * count(b"n") + PER_EMPTY_LINE * count(b"nn") + PER_INDENT * count(b"n ")
    if _TAB in classes:
        cost += PER_TAB * count(b"t")
    if _CAPITAL in classes:
        inside, capitalized = count(b"aA"), count(b"Aa")
        cost += PER_CAPITAL_INSIDE * inside + PER_CAPITALIZED * capitalized
        # Most capitals begin a word: the other counts are then 0.
        if inside:
            cost += PER_MIXED_CASE * count(b"AaA")
        if capitalized != count(b"A"):
            cost += PER_CAPITAL_PAIR * count(b"AA")
    if _DIGIT in classes:
        numbers = classes.translate(_NUMBER_TABLE)
        cost += PER_SPACE_BEFORE_NUMBER * count(b" d")
        if digits_apart:
            cost += PER_DIGIT_APART * count(b"d")
        else:
            cost += PER_NUMBER * (numbers.count(b"d ") + (numbers[-1] == _DIGIT))
            cost += PER_FOUR_DIGITS * numbers.count(b"dddd")
    return cost if text.isascii() else cost + _cost_of_scripts(data, classes)


def _cost_of_scripts(data: bytes, classes: bytes) -> int:
    """Cost of characters beyond ASCII besides the words they are in."""
    scripts, count = data.translate(_SCRIPT_TABLE, _NOT_LEAD_BYTES).decode(), data.count
    cost, left = PER_MARK_AFTER_LETTER * classes.count(b"um"), len(scripts)
    for letter, weight in PER_SCRIPT.items():
        if not left:
            break
        found = scripts.count(letter)
        cost, left = cost + weight * found, left - found
    if "e" in scripts and (polish := sum(map(count, _POLISH))):
        letters = classes.count(b"a") + classes.count(b"A")
        cost += PER_POLISH * polish
        cost += PER_LETTER_BESIDE_POLISH * min(letters, MAX_LETTERS_BESIDE_POLISH * polish)
    if "c" in scripts:
        cost += PER_OTHER_CYRILLIC * sum(map(count, _OTHER_CYRILLIC))
    if "v" in scripts and (vietnamese := count(b"\xe1\xba") + count(b"\xe1\xbb")):
        words = classes.count(b" ") + classes.count(b"n") + 1
        cost += PER_VIETNAMESE * vietnamese + PER_VIETNAMESE_WORD * min(
            words, MAX_VIETNAMESE_WORDS * vietnamese
        )
    if "i" in scripts:
        cost += PER_DEVANAGARI * (count(b"\xe0\xa4") + count(b"\xe0\xa5"))
        cost += PER_THAI * (count(b"\xe0\xb8") + count(b"\xe0\xb9"))
    if "k" in scripts:
        cost += sum(weight * count(lead) for lead, weight in PER_KANA)
        cost += PER_JOINED_KANA * _count_joined(data, "kana")
    if "w" in scripts:
        cost += PER_JOINED_HANGUL * _count_joined(data, "hangul")
    if "z" in scripts:
        cost += PER_TRADITIONAL * sum(map(count, _TRADITIONAL))
    if "x" in scripts:
        cost += PER_JOINER * count(b"\xe2\x80\x8d") + PER_SKIN_TONE * count(b"\xf0\x9f\x8f")
    return cost


def _count_joined(data: bytes, script: str) -> int:
    """Count the syllables that are in one token with the one before them, by the beginning of a long text."""
    sample = data[:PIECE_SAMPLE].decode("utf-8", "ignore")
    joined = sum(len(piece) - 1 for piece in _PIECES[script].findall(sample))
    return joined * max(len(data), 1) // max(min(len(data), PIECE_SAMPLE), 1)


def _may_have_runs(text: str) -> bool:
    """True if there may be a long run of one character; found without a loop over the text."""
    if len(text) < _MIN_RUN_LENGTH:
        return False
    encoding, width = ("ascii", 1) if text.isascii() else ("utf-32-be", 4)
    sample = text[::_RUN_STEP].encode(encoding, "surrogatepass")
    number = int.from_bytes(sample, "big")
    # Equal neighbours are zero in the difference of the sample and itself, moved by one character.
    changes = (number ^ (number >> 8 * width)).to_bytes(len(sample), "big")
    equal = bytes((_MIN_RUN_LENGTH // _RUN_STEP - 1) * width)
    at = changes.find(equal)
    for _ in range(_MAX_RUN_LOOKS):
        if at < 0:
            return False
        # In a long text some characters four apart are equal by chance: look at those between them.
        start = max(-(-at // width) - 1, 0) * _RUN_STEP
        if text.startswith(text[start] * (_MIN_RUN_LENGTH - _RUN_STEP + 1), start):
            return True
        at = changes.find(equal, at + 1)
    return at >= 0


def _without_runs(text: str, digits_apart: bool) -> tuple[str, int]:
    """The text without its long runs of one character, and what these cost."""
    cost, pieces, end = 0, [], 0
    for run in _RUN_PATTERN.finditer(text):
        character = run.group(1)
        length = 1 if digits_apart and character in digits else _CHARACTERS_PER_TOKEN.get(character, 1)
        cost += 1000 * -(-(run.end() - run.start()) // length)
        pieces.append(text[end : run.start()])
        end = run.end()
    # What stood before and after a run does not become one word.
    return " ".join([*pieces, text[end:]]).strip(" ") if pieces else text, cost
