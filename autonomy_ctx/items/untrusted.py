"""What users, tools and documents said, made safe to stand in a prompt as data.

It stands between marks that carry a secret, so that no text can close its own block; marks that only
look like ours, and the role tokens of chat templates, are broken before they get there.
"""

from __future__ import annotations

import re
from hashlib import sha256

# The labels of our own blocks.
CONVERSATION, BACKGROUND, SEGMENT = "conversation", "background", "segment"

# Marks by which chat templates tell roles and turns apart; some servers obey them inside a text too.
ROLE_MARKS = (
    r"<[|\uff5c][^\s<>|\uff5c]{1,40}[|\uff5c]>|<(?:start|end)_of_turn>|<</?SYS>>|</?s>"
    r"|\[/?INST\]|\[TOOL_CALLS\]"
)
# Marks in the form of ours, with any secret or none.
DELIMITERS = (
    rf"<\s{{0,4}}/?\s{{0,4}}(?:(?:{CONVERSATION}|{BACKGROUND}|{SEGMENT})(?:\s{{1,4}}[0-9a-f]{{1,64}})?"
    r"|[\w-]{1,32}\s{1,4}[0-9a-f]{16})\s{0,4}>"
)
MARKS = re.compile(rf"{ROLE_MARKS}|{DELIMITERS}", re.IGNORECASE)
# Reads like the bracket it replaces, but opens nothing.
BROKEN = "\u2039"


def nonce(*texts: str) -> str:
    """16 hex digits that no text can know in advance; the same for the same texts."""
    digest = sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        # With its length, so that moving a character to the next text gives another secret.
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()[:16]


def delimited(label: str, text: str, secret: str) -> str:
    """The text between lines `<label secret>` and `</label secret>`, unable to close them itself."""
    inside = harmless(text, secret)
    # Inside, this label opens nothing, however the tag goes on.
    tag = re.compile(rf"<(?=\s{{0,4}}/?\s{{0,4}}{re.escape(label)}\b)", re.IGNORECASE)
    inside = tag.sub(BROKEN, inside)
    return f"<{label} {secret}>\n{inside}\n</{label} {secret}>"


def harmless(text: str, secret: str) -> str:
    """The text with the secret blotted out and all marks broken but legible."""
    if secret:
        text = re.sub(re.escape(secret), "****", text, flags=re.IGNORECASE)
    return broken(text)


def broken(text: str) -> str:
    """The text with the first character of every mark replaced, so that it marks nothing."""
    return MARKS.sub(lambda found: BROKEN + found[0][1:], text)
