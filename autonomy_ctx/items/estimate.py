"""Token counts without a download.

An exact count needs the model's vocabulary: megabytes to fetch, where it is published at all. A budget only
needs to know roughly what fits, but for every piece of text and at once. Byte-pair tokenizers first cut a
text into words, numbers and runs of marks, so counting those cuts gets within about 15 %.
"""

from string import ascii_lowercase, ascii_uppercase, digits

# Thousandths of a token, so that sums are exact. Least squares of the relative error against o200k over 2 KB
# pieces of prose, manuals and program messages in 18 languages, source code, JSON, logs and identifiers.
# About 20 % low on Polish, Ukrainian, Thai and traditional Chinese, 20 % high on Vietnamese and Hindi.
PER_CHARACTER = 68
PER_CAPITAL_OR_DIGIT = 216
PER_WORD = 613
PER_NUMBER = 996
PER_MARKS = 827
PER_ACCENTED = 1214  # splits its word in two; an emoji costs about as much
PER_CYRILLIC = 106
PER_OTHER_SCRIPT = 211  # Greek, Hebrew, Arabic, Indic, Thai
PER_WIDE = 663  # Han, kana, full-width forms, typographic marks
PER_HANGUL = 431

_LOWER, _UPPER, _DIGITS = ascii_lowercase.encode(), ascii_uppercase.encode(), digits.encode()
_UPPER_AND_DIGITS = _UPPER + _DIGITS
_NOT_LEAD = bytes(range(0xC0))  # ASCII, and every byte of a character after its first


def _script(byte: int) -> int:
    """Return the letter for the script that the first byte of a UTF-8 sequence announces."""
    if byte in (0xD0, 0xD1):
        return ord("c")
    if byte < 0xCE or byte >= 0xF0:
        return ord("a")
    if byte < 0xE2:
        return ord("o")
    return ord("h") if 0xEA <= byte <= 0xED else ord("w")


def _runs_of(members: bytes) -> bytes:
    """Return the table that turns the bytes of a class into `x` and all others into a space."""
    return bytes(ord("x") if byte in members else ord(" ") for byte in range(256))


_SCRIPTS = bytes(map(_script, range(256)))
_WORDS = _runs_of(_LOWER + _UPPER + bytes(range(0x80, 0x100)))
_NUMBERS = _runs_of(_DIGITS)
# Line breaks and capitals are marks too: a capital opens a new token within its word (camelCase, base64).
_MARKS = _runs_of(bytes(byte for byte in range(0x80) if byte not in b" " + _LOWER + _DIGITS))


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text costs: 0 if it is empty, otherwise at least 1."""
    data = text.encode("utf-8", "surrogatepass")
    # `count` is fastest if its pattern ends in the commoner byte: so starts of words, but ends of the others.
    cost = (
        PER_CHARACTER * len(text)
        + PER_CAPITAL_OR_DIGIT * (len(data) - len(data.translate(None, _UPPER_AND_DIGITS)))
        + PER_WORD * data.translate(_WORDS).count(b" x")
        + PER_NUMBER * data.translate(_NUMBERS).count(b"x ")
        + PER_MARKS * data.translate(_MARKS).count(b"x ")
    )
    if not text.isascii():
        scripts = data.translate(_SCRIPTS, _NOT_LEAD)
        cost += (
            PER_ACCENTED * scripts.count(b"a")
            + PER_CYRILLIC * scripts.count(b"c")
            + PER_OTHER_SCRIPT * scripts.count(b"o")
            + PER_WIDE * scripts.count(b"w")
            + PER_HANGUL * scripts.count(b"h")
        )
    return -(-cost // 1000)
