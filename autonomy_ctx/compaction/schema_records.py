"""The text of a segment with a schema: parsed from a reply, fitted to its shares, merged by section. Pure.

In the store, a section is a line `## Name` and the text below it. A reply is parsed leniently and a stored
text strictly, so that words of a user which look like a heading never become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.compaction.reply_text import ALSO_NAMED, SHORTENED_MARK, trim_to_cap
from autonomy_ctx.compaction.schema import SchemaSection, SectionKind, SummarySchema, heading_key
from autonomy_ctx.language.digest import digest, digest_texts, has_failed
from autonomy_ctx.language.facts import find_facts
from autonomy_ctx.language.sentences import QUESTION_MARKS, split_prose
from autonomy_ctx.messages.fact import normalize_fact
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.tokens import TokenCounter

HEADING_MARK = "## "
NOTHING = "none"
# Tokens; a section that would have fewer is left out of a text that is too long.
MIN_SECTION_TOKENS = 6
# Where headings would take more of a text than this, it has none.
MAX_HEADING_SHARE = 0.5
# Characters of a line that can be a heading.
MAX_HEADING_CHARACTERS = 600
_MAX_FIT_TRIES = 6
_TOLERANCE = 1e-9
# A wish is a goal only at the beginning of a conversation, and a digest may begin anywhere.
_ANY_POSITION = 1_000

_STORED_HEADING = lazy_pattern(r"## (\S.*)")
_LIKE_HEADING = lazy_pattern(r"(?m)^(?:##[^\S\n]++)++")
_MARKED_HEADING = lazy_pattern(
    r"(?P<marks>(?:#{1,6}[ \t]*)?(?:[-\u2022*][ \t]+(?=\*\*|__))?(?:\d{1,2}[.)][ \t]+)?(?:\*{1,3}|_{1,3})?"
    r"(?:\d{1,2}[.)][ \t]+)?)(?P<text>\S.*)"
)
_HEADING_END = lazy_pattern(r"[:\uff1a\ufe55\uff08]|(?<=\s)\(|(?<=\s)[\u2013\u2014-]\s")
_CLOSING_BRACKET = lazy_pattern(
    r"(?P<inside>(?:[^()\uff08\uff09]|[(\uff08][^()\uff08\uff09]{0,200}[)\uff09]){0,500})[)\uff09]"
    r"[*_]{0,3}(?P<colon>[:\uff1a]?)[*_]{0,3}"
)
_FENCE = lazy_pattern(r"[ \t]{0,3}```")
_ITEM_MARK = lazy_pattern(r"(?:[-*\u2022]|\d{1,3}[.)])[ \t]")
_QUOTED_LINE = lazy_pattern(
    r"- (?P<who>User|Assistant|System|Developer|Tool)\b[^:\n]{0,120}?(?:: |(?P<verb> calls ))(?P<said>.*)"
)
# What models write where there is nothing to write.
_NOTHING_WORDS = frozenset(
    (
        *("", "none", "nothing", "nothing new", "nothing yet", "nothing open", "n/a", "na", "not applicable"),
        *("nil", "empty", "none yet", "none so far", "keine", "keiner", "nichts", "entfällt", "aucun"),
        *("aucune", "rien", "ninguno", "ninguna", "nada", "nenhum", "nenhuma", "なし", "特になし", "无"),
        *("没有", "無", "لا شيء", "لا يوجد"),
    )
)
_AROUND_NOTHING = " \t\n*_()[]-.。!"

CountText = Callable[[str], int]
Bodies = Mapping[str, Sequence[str]]


# -- reading ------------------------------------------------------------------------------------------


def read_reply(text: str, schema: SummarySchema, sections: Sequence[SchemaSection]) -> dict[str, str]:
    """Read what a model wrote under each of the sections that it was asked for.

    Headings are recognized in any markup, case and order. Text before the first heading, or under an unknown
    heading, goes to the default section, so nothing is lost.
    """
    wanted = {section.key: section for section in sections}
    rest = schema.default_section if schema.default_section in sections else sections[0]
    lines: dict[str, list[str]] = {}
    current = rest
    in_code = False
    # A fence that is never closed holds no code.
    fences = sum(bool(_FENCE.match(line)) for line in text.splitlines())
    for line in text.splitlines():
        if _FENCE.match(line) and fences % 2 == 0:
            in_code = not in_code
        found = None if in_code else _read_heading(line, wanted)
        if found is None:
            if not in_code and (unknown := _STORED_HEADING.fullmatch(line.rstrip())):
                current, line = rest, f"{unknown[1].rstrip(':')}:"
            lines.setdefault(current.name, []).append(line)
            continue
        current, said = found
        lines.setdefault(current.name, []).append(said)
    return _clean_bodies(lines, sections)


def _read_heading(line: str, wanted: Mapping[str, SchemaSection]) -> tuple[SchemaSection, str] | None:
    """The section that starts at this line, and the text after its heading; None for any other line."""
    if not line or line[0].isspace() or len(line) > MAX_HEADING_CHARACTERS:
        return None
    found = _MARKED_HEADING.fullmatch(line.removesuffix(SHORTENED_MARK).rstrip())
    if found is None:
        return None
    text, is_marked = found["text"], bool(found["marks"].strip("0123456789.) "))
    whole = wanted.get(heading_key(text.rstrip("#*_ ")))
    if whole is not None:
        return whole, ""
    for end in _HEADING_END.finditer(text):
        section = wanted.get(heading_key(text[: end.start()].rstrip("#*_ ")))
        if section is None:
            continue
        after, mark = text[end.end() :], end[0].strip()
        if mark in ("(", "\uff08"):
            closed = _CLOSING_BRACKET.match(after)
            if closed is None or (closed.end() < len(after) and not (is_marked or closed["colon"])):
                return None
            # Mostly the description, repeated.
            repeated = heading_key(closed["inside"]).startswith(heading_key(section.description))
            said = (f"({closed['inside']})" * (not repeated), after[closed.end() :].strip(" *_"))
            return section, " ".join(filter(None, said))
        if mark in ("-", "\u2013", "\u2014") and not is_marked:
            return None
        return section, after.strip().removeprefix("**").removeprefix("__").strip()
    return None


def _clean_bodies(lines: Mapping[str, Iterable[str]], sections: Iterable[SchemaSection]) -> dict[str, str]:
    made: dict[str, str] = {}
    for section in sections:
        body = "\n".join(line.rstrip() for line in lines.get(section.name, ()) if line.strip())
        if body and body.strip(_AROUND_NOTHING).casefold() in _NOTHING_WORDS:
            # It is kept only if it replaces an earlier text.
            body = NOTHING if section.update == "replace" else ""
        if body:
            made[section.name] = body
    return made


def has_headings(text: str, sections: Sequence[SchemaSection]) -> bool:
    """Tell whether a reply has any of the headings that it was asked for."""
    wanted = {section.key: section for section in sections}
    return any(_read_heading(line, wanted) for line in text.splitlines())


def read_record(text: str, schema: SummarySchema) -> dict[str, str]:
    """The sections of a stored text; text outside of them belongs to the default section.

    The line of identifiers at the end is left out, because a merge writes a new one.
    """
    rest = schema.default_section
    current = rest
    lines: dict[str, list[str]] = {}
    by_key = {section.key: section for section in schema.sections}
    every = text.strip().split("\n")
    if every and every[-1].startswith(ALSO_NAMED):
        every.pop()
    for line in every:
        found = _STORED_HEADING.fullmatch(line)
        if found is None:
            lines.setdefault(current.name, []).append(line)
            continue
        section = by_key.get(heading_key(found[1]))
        current = section or rest
        if section is None:
            lines.setdefault(rest.name, []).append(f"{found[1]}:")
    return _clean_bodies(lines, schema.sections)


# -- writing ------------------------------------------------------------------------------------------


def neutralize_headings(body: str) -> str:
    """A text in which no line can be read as the heading of a section."""
    return _LIKE_HEADING.sub("", body)


def fit_record(
    bodies: Bodies,
    schema: SummarySchema,
    tokens: int,
    counter: TokenCounter,
    *,
    quoted: bool = False,
    outdated: Sequence[str] = (),
) -> str:
    """The text of a segment within a number of tokens: the sections in order, each within its share.

    The unused share of a section goes to the others. A single text that is too long is cut at a sentence. Of
    several texts, and of quotations (`quoted`), the most informative lines are kept. Sentences with
    `outdated` facts are left out.
    """
    count = counter.count_text
    present = [section for section in schema.sections if any(bodies.get(section.name, ()))]
    texts = {section.name: join_items(bodies[section.name]) for section in present}
    if outdated:
        bodies = {
            name: [digest_texts([text], tokens=count(text), counter=counter, outdated=outdated)]
            for name, text in texts.items()
        }
        texts = {name: found[0] for name, found in bodies.items()}
    whole = _render(present, texts)
    if count(whole) <= tokens:
        return whole
    headings = heading_tokens(present, count)
    if sum(headings.values()) > MAX_HEADING_SHARE * tokens:
        every = [text for section in present for text in bodies[section.name]]
        return neutralize_headings(_shorten(every, tokens, counter, quoted=quoted))
    needs = {name: count(text) + 1 for name, text in texts.items()}
    shares = {section.name: section.share for section in present}
    # The sum of the parts' counts may differ from the count of the whole text.
    excess = tries = 0
    while tries < _MAX_FIT_TRIES:
        room = tokens - sum(headings[name] for name in needs) - excess
        caps = allot(needs, shares, room)
        cramped = [name for name, cap in caps.items() if needs[name] > cap <= MIN_SECTION_TOKENS]
        if cramped and len(needs) > 1:
            del needs[min(cramped, key=lambda name: caps[name])]
            continue
        made = {
            name: texts[name]
            if needs[name] <= cap
            else _shorten(bodies[name], cap - 1, counter, quoted=quoted)
            for name, cap in caps.items()
        }
        text = _render(present, made)
        over = count(text) - tokens
        if over <= 0:
            return text
        excess, tries = excess + max(over, 2), tries + 1
    return trim_to_cap(text, tokens, count)


def allot(needs: Mapping[str, int], shares: Mapping[str, float], room: int) -> dict[str, int]:
    """The tokens of each section: as many as it needs, or its share of what is left."""
    caps: dict[str, int] = {}
    waiting = dict(needs)
    left = max(room, 0)
    while waiting:
        total = sum(shares[name] for name in waiting)
        fitting = [name for name, need in waiting.items() if need <= left * shares[name] / total + _TOLERANCE]
        if not fitting:
            return caps | {name: int(left * shares[name] / total + _TOLERANCE) for name in waiting}
        for name in fitting:
            caps[name] = waiting.pop(name)
        left = max(room, 0) - sum(caps.values())
    return caps


def join_items(texts: Sequence[str]) -> str:
    """The lines of several texts in order, each once; one text stays as it is."""
    if len(texts) == 1:
        return texts[0]
    lines: dict[str, str] = {}
    for text in texts:
        for line in text.removesuffix(SHORTENED_MARK).splitlines():
            if line.strip():
                said = line.strip()
                mark = _ITEM_MARK.match(said)
                lines.setdefault(normalize_fact(said[mark.end() :] if mark else said), line)
    return "\n".join(lines.values())


def _shorten(texts: Sequence[str], tokens: int, counter: TokenCounter, *, quoted: bool) -> str:
    if len(texts) == 1 and not quoted:
        return trim_to_cap(texts[0], tokens, counter.count_text)
    return digest_texts(texts, tokens=tokens, counter=counter)


def heading_tokens(sections: Iterable[SchemaSection], count: CountText) -> dict[str, int]:
    """The tokens of each section's heading."""
    return {section.name: count(f"{HEADING_MARK}{section.name}\n") for section in sections}


def _render(sections: Iterable[SchemaSection], texts: Mapping[str, str]) -> str:
    return "\n".join(
        f"{HEADING_MARK}{section.name}\n{body}"
        for section in sections
        if (body := neutralize_headings(texts.get(section.name, "")).strip())
    )


# -- merging ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SectionMerge:
    """A merge of segments by section: which text stays, and which is to be rewritten."""

    schema: SummarySchema
    # What needs no model: items of all segments, and what the newest one says.
    settled: dict[str, list[str]]
    # What is written anew, of each segment.
    open: dict[str, list[str]]
    records: Sequence[Mapping[str, str]]

    @classmethod
    def of(cls, texts: Sequence[str], schema: SummarySchema) -> SectionMerge:
        records = [read_record(text, schema) for text in texts]
        settled: dict[str, list[str]] = {}
        rewritten: dict[str, list[str]] = {}
        for section in schema.sections:
            found = [one[section.name] for one in records if section.name in one]
            match section.update:
                case "replace":
                    # The newest written text and the quotations after it, because these are not complete.
                    quoted = [all(map(_QUOTED_LINE.fullmatch, text.splitlines())) for text in found]
                    written = [at for at, is_quoted in enumerate(quoted) if not is_quoted]
                    newest = found[written[-1] if written else 0 :]
                    settled[section.name] = [text for text in newest if text != NOTHING] or newest
                case "append":
                    settled[section.name] = found
                case "rewrite":
                    rewritten[section.name] = found
        return cls(schema, settled, rewritten, records)

    @property
    def needs_model(self) -> bool:
        """Tell whether the texts of two segments must be combined by a model."""
        return any(len(found) > 1 for found in self.open.values())

    def rewritten_texts(self) -> list[str]:
        """The texts of each segment in the sections that are rewritten."""
        sections = self.schema.only("rewrite")
        made = (_render(sections, record) for record in self.records)
        return [text for text in made if text]

    def room(self, tokens: int, count: CountText) -> int:
        """The part of a number of tokens that the rewritten sections may have together."""
        bodies = self.bodies
        present = [section for section in self.schema.sections if bodies[section.name]]
        headings = heading_tokens(present, count)
        needs = {section.name: count(join_items(bodies[section.name])) + 1 for section in present}
        shares = {section.name: section.share for section in present}
        caps = allot(needs, shares, tokens - sum(headings.values()))
        own = [section.name for section in self.schema.only("rewrite") if section.name in caps]
        return sum(caps[name] + headings[name] for name in own)

    @property
    def bodies(self) -> dict[str, list[str]]:
        """All sections with their old texts."""
        return {**self.settled, **self.open}


def standing_text(texts: Sequence[str], schema: SummarySchema) -> str:
    """The newest text of the segments in the sections with `update="replace"`."""
    merge, sections = SectionMerge.of(texts, schema), schema.only("replace")
    found = {one.name: join_items(merge.settled[one.name]) for one in sections}
    return _render(sections, {name: text for name, text in found.items() if text != NOTHING})


# -- digests ------------------------------------------------------------------------------------------


def digest_record(
    messages: Sequence[Message],
    schema: SummarySchema | None,
    *,
    tokens: int,
    counter: TokenCounter,
    max_characters: int | None = None,
) -> str:
    """A digest of the messages; with a schema, each line under the section for its kind."""
    if schema is None:
        return digest(messages, tokens=tokens, counter=counter, max_characters=max_characters)
    headings = sum(heading_tokens(schema.sections, counter.count_text).values())
    room = max(tokens - headings, tokens // 2)
    text = digest(messages, tokens=room, counter=counter, max_characters=max_characters)
    lines: dict[str, list[str]] = {}
    asked: SchemaSection | None = None
    for line in text.splitlines():
        for kind, part in _divide_quotation(line):
            # An answer stays with its question.
            section = asked if kind is None and asked is not None else schema.section_for(kind)
            lines.setdefault(section.name, []).append(part)
            is_question = part.startswith("- Assistant") and part.endswith(QUESTION_MARKS)
            asked = section if is_question else None
    bodies = {name: ["\n".join(found)] for name, found in lines.items()}
    return fit_record(bodies, schema, tokens, counter, quoted=True)


def _divide_quotation(line: str) -> Iterator[tuple[SectionKind | None, str]]:
    """The sentences of a digest line by kind; a sentence that is not a fact stays with the one before it."""
    found = _QUOTED_LINE.fullmatch(line)
    if found is None:
        yield None, line
        return
    role = ChatRole(found["who"].lower())
    if role is ChatRole.TOOL or found["verb"]:
        yield "error" if has_failed(line) else "action", line
        return
    label = line[: found.start("said")]
    last: SectionKind | None = None
    said = ""
    for sentence in split_prose(found["said"]):
        changes = find_facts([(_ANY_POSITION, Message(role, sentence.strip()))], ())
        kind = changes[0].kind if changes else None
        if said and kind not in (None, last):
            yield last, label + said.strip()
            said = ""
        said, last = said + sentence, kind or last
    yield last or ("action" if role is ChatRole.ASSISTANT else None), label + said.strip()
