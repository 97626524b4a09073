"""A summary made without a model: quotations of what the messages say, as a person would mark them.

It is used where no model is configured or none answers in time. A line earns its place by what it holds: what
users ruled, what was done and the names that came of it, then values, statements and questions. Small talk
goes first, lines of one shape count once, and of an order or a file the last state is shown. A sentence is
quoted whole, or with "[...]" for clauses that name, deny and limit nothing. The result is the same for the
same messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from itertools import islice, pairwise

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.background import pause
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.name_index import is_key_name, key_names_of
from autonomy_ctx.language.sentences import (
    MAX_LANGUAGE_SAMPLE,
    QUESTION_MARKS,
    find_meanings,
    has_heading,
    is_binding,
    split_clauses,
    split_output,
    split_prose,
    text_languages,
)
from autonomy_ctx.language.tables import DEFAULT_LANGUAGE, Language, find_languages, load_language
from autonomy_ctx.language.words import Words, split_words
from autonomy_ctx.messages.clamp import CHARACTERS_PER_TOKEN, CountText
from autonomy_ctx.messages.message import ChatRole, Message, ToolCall
from autonomy_ctx.messages.text_cache import word_cache
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.transcript import short_name, speaker_label, tool_names_by_call, visible_text

OMISSION = "[...]"
MAX_END_LENGTH, MIN_END_LENGTH = 20_000, 400  # characters of a long text that are read at each end
MAX_CACHED_LENGTH = 4_000  # characters that were read of a text
MAX_ARGUMENTS_LENGTH = 160  # characters of a call's arguments
MAX_LINE_TOKENS = 64  # a longer sentence is shown without some of its clauses, if that is possible
MIN_LINE_TOKENS = 6
MAX_MISSES = 32  # how many lines in a row may not fit before the rest is left unread
MAX_JOINED_LENGTH = 400  # characters of neighbouring sentences that are quoted in one line
MIN_OUTDATED_LENGTH = 8  # characters of a fact that is looked for in what was said
SHORT_RESULT_LINES = 4  # a result of so few lines says how an action came out
MIN_ALIKE_LINES = 3  # of so many lines of one shape in a result the last is shown
MAX_REPLY_WORDS = 16  # a longer sentence is more than a reply
MIN_STATED_WORDS = 2  # with fewer words about something a sentence states nothing
# Small talk: its part of the lines, and the part of the room up to which it is welcome.
TALK_SHARE, TALK_ROOM = 0.25, 0.5
NO_TEXT_PLACEHOLDER = "[no text]"
NO_LABEL = "\n"  # of what a model wrote: its lines do not say who said what

_REPLIES = frozenset(("acknowledgement", "answer"))
# A name of one thing, not of a kind of things, and no number, time or date.
_THING_NAME = lazy_pattern(r"(?!\W{0,3}\d[\d.,:/-]*[^\W\d]{0,3}\Z)[^\s\d/@.]*+[\d/@.]\S*")
_NUMBER = lazy_pattern(r"(?<!\S)[^\w\s]?\d[\d.,:]*(?![\w-])")
_VALUE = lazy_pattern(r"(?<!\S)[^\s\d/\\@_]*+[\d/\\@_]\S*+")
_KEY = lazy_pattern(r'"([^"\n]{1,40})"\s{0,2}:')
_NO_FAILURE = lazy_pattern(r"\b(?:0|no) (?:fail|error)")
_OMISSIONS = lazy_pattern(r"(?:\[\.\.\.\] ){1,99}\[\.\.\.\]")
_COUNT_NOTE = lazy_pattern(r" \(last of (\d{1,9}) such lines\)$")
_FACT_NOTE = lazy_pattern(r"(?:\s{1,4}\([^()\n]{1,300}\)){1,4}$")
_QUOTED_LINE = lazy_pattern(
    r"- (?:(?P<caller>Assistant(?: \([^:\n]{0,80}\))?) calls (?P<name>[^(\n]{1,80})\("
    r"|(?P<label>(?:User|Assistant|System|Developer|Tool)\b[^:\n]{0,120}): )"
)


class Kind(IntEnum):
    """The kinds of lines, in the order of what comes first."""

    RULE = 0
    RESULT = 1
    VALUE = 2
    STATEMENT = 3
    CALL = 4
    QUESTION = 5
    NOTE = 6
    OTHER = 7
    LISTED = 8


_TALK = (Kind.STATEMENT, Kind.OTHER)
# The parts of the room that are for rules, and for rules and results, while other lines wait.
SHARES = {Kind.RULE: 0.5, Kind.RESULT: 0.85}


@dataclass(slots=True)
class Quotation:
    """A sentence, a line of output or a call that is quoted whole or not at all."""

    label: str  # who said it; a call has none
    text: str
    kind: Kind
    group: int  # the message or line it comes from
    place: int  # where in it
    names: tuple[str, ...] = ()
    is_prose: bool = False
    is_plain: bool = False  # without any name or number
    weight: float = 1.0  # how much it says
    alike: int = 1  # how many lines of this shape there were
    subject: object = None  # a later line with the same subject replaces it
    at: int = 0  # its index among all lines
    reply: str = ""  # whether it only acknowledges or answers
    answer: str = ""  # the answer to this question, without which it says little

    @property
    def density(self) -> float:
        """Weight by length; none for what holds little, of which the newest comes first."""
        return self.weight / (40 + len(self.text)) if self.kind <= Kind.VALUE else 0.0

    @property
    def is_talk(self) -> bool:
        """Tell whether it is small talk, or what a tool listed."""
        is_asked = self.kind is Kind.QUESTION and not self.names
        return self.kind is Kind.LISTED or is_asked or (self.is_plain and self.kind in _TALK)

    @property
    def prefix(self) -> str:
        if self.label == NO_LABEL:
            return ""
        note = f" (last of {self.alike} such lines)" if self.alike > 1 else ""
        return f"- {self.label}{note}: " if self.label else "- "


def digest(
    messages: Sequence[Message], *, tokens: int, counter: TokenCounter, max_characters: int | None = None
) -> str:
    """Quotations of the messages in their order, in at most `tokens` tokens.

    The newest user message has a line in any case. About `max_characters` characters are read in all, where
    time is short.
    """
    ends = _end_length(messages, max_characters)
    names, outdated = tool_names_by_call(messages), _outdated_results(messages)
    lines: list[Quotation] = []
    for index, message in enumerate(messages):
        if index not in outdated:
            lines += _read_message(message, names, index, ends)
    lines = _settle_replies(lines)
    if not lines:
        spoken = [(speaker_label(message, names), visible_text(message)) for message in messages[-1:]]
        return "".join(_first_fitting(label, text, tokens, counter) for label, text in spoken)
    asked = [line for line in lines if line.label.startswith("User")]
    last = [line for line in asked if line.group == asked[-1].group]
    return _choose(lines, tokens, counter, first=min(last, key=lambda line: line.kind, default=None))


def read_for_digest(
    messages: Sequence[Message], max_characters: int | None = None, *, start: int = 0
) -> Generator[int, None, None]:
    """Read messages from index `start` on before a digest of them is wanted, each after its length."""
    names, ends = tool_names_by_call(messages), _end_length(messages, max_characters)
    for message in islice(messages, start, None):
        text = visible_text(message)
        yield min(len(text), 2 * ends)
        _read_text(text, message.role, speaker_label(message, names), ends)


def _end_length(messages: Sequence[Message], max_characters: int | None) -> int:
    """The characters to read at each end of a long text, where messages share `max_characters`."""
    if max_characters is None:
        return MAX_END_LENGTH
    return max(min(MAX_END_LENGTH, max_characters // (2 * max(len(messages), 1))), MIN_END_LENGTH)


def digest_texts(
    texts: Sequence[str], *, tokens: int, counter: TokenCounter, outdated: Sequence[str] = ()
) -> str:
    """Make a digest of digests and summaries: their lines in order, each once, the old as good as the new.

    Sentences that say what is `outdated` are left out: facts that were replaced, and items that are done.
    """
    old = [said for text in outdated if len(said := _plain(_FACT_NOTE.sub("", text))) >= MIN_OUTDATED_LENGTH]
    if not old and sum(map(len, texts)) <= tokens * CHARACTERS_PER_TOKEN:
        whole = "\n".join(
            filter(None, dict.fromkeys(one.strip() for text in texts for one in text.split("\n")))
        )
        if whole and counter.count_text(whole) <= tokens:
            return whole
    lines: list[Quotation] = []
    for text in texts:
        for line in _read_ends(str.splitlines, _text_ends(text, MAX_END_LENGTH)):
            pause()
            lines += _read_line(line, len(lines))
    lines = _settle_replies(lines)
    if not lines:
        return NO_TEXT_PLACEHOLDER if texts else ""
    kept = [line for line in lines if not any(map(_plain(line.text).__contains__, old))] if old else lines
    return _choose(kept or lines[-1:], tokens, counter)


def score_message(message: Message) -> float:
    """The weight of a message's best line."""
    kinds = [line.kind for line in _read_message(message, {}, 0, MIN_END_LENGTH) if line.kind != Kind.NOTE]
    return float(Kind.LISTED - min(kinds, default=Kind.LISTED))


def has_failed(text: str, languages: Iterable[Language] = ()) -> bool:
    """Tell whether a line of output tells of a failure, also within the name of an error."""
    lower = text.lower()
    tables = (load_language(DEFAULT_LANGUAGE), *languages)
    failed = any(word in lower for table in tables for word in table.words["failure"])
    return failed and not _NO_FAILURE.search(lower)


# -- what a message says ------------------------------------------------------------------------------


def _read_message(message: Message, names: dict[str, str], group: int, ends: int) -> list[Quotation]:
    who, text = speaker_label(message, names), visible_text(message)
    lines = [replace(line, group=group) for line in _read_text(text, message.role, who, ends)]
    place = lines[-1].place + 1 if lines else 0
    if len(text) > 2 * ends:
        unread = f"{len(text) - 2 * ends:,} of {len(text):,} characters"
        note = f"[... {unread} were not read for this digest ...]"
        lines.append(Quotation(who, note, Kind.NOTE, group, place))
    for number, call in enumerate(message.tool_calls, place + 1):
        shown = f"{who} calls {short_name(call.name)}({_show_arguments(call)})"
        lines.append(_read_call(shown, call.name, group, number))
    return lines or [Quotation(who, _clean(text) or NO_TEXT_PLACEHOLDER, Kind.OTHER, group, 0)]


def _read_text(text: str, role: ChatRole, who: str, ends: int, *, once: bool = True) -> Sequence[Quotation]:
    """The sentences of a text, which are read once; of a long one those at its two ends."""
    weigh = _weigh_once if once and min(len(text), 2 * ends) <= MAX_CACHED_LENGTH else _weigh_ends
    return weigh(_text_ends(text, ends), text[:MAX_LANGUAGE_SAMPLE], role, who)


def _weigh_ends(said_in: tuple[str, ...], sample: str, role: ChatRole, who: str) -> Sequence[Quotation]:
    """The sentences of a text or of its two ends; its languages are those of a sample."""
    is_output = role is ChatRole.TOOL
    languages = text_languages(sample)
    divide = partial(split_output if is_output else split_prose, languages=languages)
    pieces = enumerate(_read_ends(divide, said_in))
    # The numbers of a list and the marks between paragraphs are no sentences.
    said = [(at, piece, one) for at, piece in pieces if len(one := _clean(piece)) > 2 or one.isalnum()]
    shapes = [_shape(one, languages) if is_output else None for _, _, one in said]
    last, numbers = {shape: index for index, shape in enumerate(shapes)}, Counter(shapes)
    lines: list[Quotation] = []
    for index, (at, piece, one) in enumerate(said):
        pause()
        alike = numbers[shapes[index]] if shapes[index] is not None else 1
        if alike >= MIN_ALIKE_LINES and last[shapes[index]] != index:
            continue
        is_outcome = len(said) <= SHORT_RESULT_LINES or index == len(said) - 1
        line = _weigh(one, role, who, languages, is_part=len(said) > 1, is_outcome=is_outcome)
        line.text, line.place = piece, at
        if alike >= MIN_ALIKE_LINES:
            line.alike, line.kind = alike, max(line.kind, Kind.VALUE)
        elif len(said) <= SHORT_RESULT_LINES:
            line.kind = min(line.kind, Kind.OTHER)
        elif line.kind is Kind.LISTED and line.is_plain and index < len(said) - 1:
            continue
        lines.append(line)
    return lines


# As many texts as the digests of a few conversations have; each is read again when a digest grows.
_weigh_once = word_cache(512)(_weigh_ends)


def _text_ends(text: str, ends: int) -> tuple[str, ...]:
    """The beginning and the end of a long text; a short one is whole."""
    return (text,) if len(text) <= 2 * ends else (text[:ends], text[-ends:])


def _read_ends(divide: Callable[[str], Iterable[str]], said_in: Sequence[str]) -> Iterator[str]:
    """The pieces of a text, or those at its two ends, without the two that were cut."""
    first, *last = said_in
    yield from list(divide(first))[: -1 if last else None]
    for end in last:
        # Not neighbours: something that says nothing stands between them.
        yield ""
        yield from list(divide(end))[1:]


def _weigh(
    text: str, role: ChatRole, who: str, languages: Sequence[Language], *, is_part: bool, is_outcome: bool
) -> Quotation:
    """A sentence with its kind; `is_outcome` when a tool said little else, or this last."""
    exact = identifiers(text)
    names = tuple(name for name in exact if _THING_NAME.fullmatch(name) and is_key_name(name))
    line = Quotation(who, text, Kind.LISTED, 0, 0, names, role is not ChatRole.TOOL, not exact)
    line.weight = 1 + len(names) + min(len(exact) - len(names), 2) / 2
    if role is ChatRole.TOOL:
        looks = _only_looks(who.partition(" ")[2])
        may_fail = not looks or who.endswith(" failed")
        if (is_outcome and not looks) or (may_fail and has_failed(text, languages)):
            line.kind = Kind.RESULT if names else Kind.VALUE
        # Of the records of one thing the last one holds; of other lines the last of one form.
        is_record = text.startswith(("{", "[")) and bool(exact)
        line.subject = (who, (names or exact)[0] if names or is_record else _VALUE.sub("#", text))
        return line
    words = split_words(text)
    if is_part:
        # One sentence of a text may be in another language.
        spoken = {language.code: language for language in languages}
        spoken |= {code: load_language(code) for code in find_languages(words.folded, text)}
        languages = tuple(spoken.values())
    cues = find_meanings(words, languages) | find_meanings(words, languages, table="digest")
    content = frozenset(
        word
        for word in words.folded
        if word not in (",", ":")
        and not any(word in one.words["function"] or _opens(word, one) for one in languages)
    )
    line.reply = _reply_kind(words, languages) if len(words) <= MAX_REPLY_WORDS else ""
    is_asked = "question" in cues or any(f"{mark} " in f"{text} " for mark in QUESTION_MARKS)
    is_talk = is_asked or "small_talk" in cues
    if role is not ChatRole.USER:
        acts = not is_asked and "looking" not in cues and (bool(names) or "action" in cues)
        line.kind = (Kind.RESULT if names else Kind.VALUE) if acts else Kind.OTHER
        line.subject = None if names or who == NO_LABEL else (who, _VALUE.sub("#", text))
        return line
    line.subject = (who, content) if len(content) >= MIN_STATED_WORDS else None
    if "rule" in cues and not is_talk:
        line.kind, line.weight = Kind.RULE, line.weight + ("negation" in cues)
    elif is_talk or (not exact and len(content) < MIN_STATED_WORDS):
        line.kind = Kind.QUESTION
    elif names:
        line.kind = Kind.RESULT
    else:
        has_value = "action" in cues or any(map(str.isdecimal, "".join(exact)))
        line.kind = Kind.VALUE if has_value else Kind.STATEMENT
    return line


def _opens(word: str, language: Language) -> bool:
    return "opener" in language.phrases["digest"].meanings.get(word, ())


def _reply_kind(words: Words, languages: Iterable[Language]) -> str:
    """The kind of a sentence that consists of acknowledgements or answers and of nothing else."""
    said = sum(word not in (",", ":") for word in words.folded)
    for language in languages:
        found = [one for one in language.phrases["cues"].find(words) if not _REPLIES.isdisjoint(one.meanings)]
        if said and sum(one.last - one.first + 1 for one in found) == said:
            is_answer = any("acknowledgement" not in one.meanings for one in found)
            return "answer" if is_answer else "acknowledgement"
    return ""


def _settle_replies(lines: Sequence[Quotation]) -> list[Quotation]:
    """The lines without acknowledgements; an answer goes with its question, which it makes a statement."""
    settled: list[Quotation] = []
    for line in lines:
        before = settled[-1] if settled else line
        is_asked = before.label.startswith("Assistant") and _clean(before.text).endswith(QUESTION_MARKS)
        if line.reply and is_asked and line.label.startswith("User"):
            answer = line.prefix + _clean(line.text)
            settled[-1] = replace(before, kind=Kind.VALUE, answer=answer)
        elif line.reply != "acknowledgement":
            settled.append(replace(line, kind=Kind.OTHER) if line.reply else line)
    return settled


def _read_call(shown: str, tool: str, group: int, place: int) -> Quotation:
    names = tuple(key_names_of(shown.partition("(")[2]))
    file = next((name for name in names if "/" in name or "." in name), None)
    kind = Kind.CALL if names and not _only_looks(tool) else Kind.LISTED
    subject = (shown.partition("(")[0], file) if file else None
    return Quotation("", shown, kind, group, place, names, subject=subject)


def _only_looks(tool: str) -> bool:
    """Tell whether a tool lists and changes nothing, by the verb in its name."""
    verbs = load_language(DEFAULT_LANGUAGE).words["looking"]
    return not verbs.isdisjoint(tool.lower().replace("-", "_").replace(".", "_").replace(" ", "_").split("_"))


def _show_arguments(call: ToolCall) -> str:
    """The arguments on one line; of long ones, those that are short."""
    whole = _clean(call.arguments[:MAX_END_LENGTH])
    if len(whole) <= MAX_ARGUMENTS_LENGTH:
        return whole
    made, left = list[str](), MAX_ARGUMENTS_LENGTH
    for piece in map(_clean, split_clauses(whole)):
        made.append(piece if len(piece) <= left else OMISSION)
        left -= len(piece) if made[-1] is piece else 0
    shown = " ".join(one for one, after in pairwise([*made, ""]) if (one, after) != (OMISSION, OMISSION))
    return shown + "}" * (shown.endswith(OMISSION) and whole.startswith("{"))


def _shape(line: str, languages: Sequence[Language]) -> object:
    """The form that lines of output share which differ in their values only."""
    failed = has_failed(line, languages)
    if line.startswith(("{", "[", '"')) and (keys := tuple(_KEY.findall(line[:1000]))):
        return failed, keys
    for mark in ("|", "\t", ","):
        if line.count(mark) > 2 and not line.endswith("."):
            return failed, mark, line.count(mark)
    frame = _VALUE.sub("#", line)
    if frame.startswith("#"):
        return failed, "#", line.split()[0].isdecimal()
    return (failed, frame) if "#" in frame else None


def _outdated_results(messages: Sequence[Message]) -> set[int]:
    """Results of calls that were made again later with the same arguments."""
    calls = {call.id: (call.name, call.arguments) for one in messages for call in one.tool_calls if call.id}
    newest: dict[tuple[str, str], int] = {}
    outdated: set[int] = set()
    for index, message in enumerate(messages):
        call = calls.get(message.tool_call_id or "") if message.role is ChatRole.TOOL else None
        if call is not None:
            outdated |= {newest[call]} if call in newest else set()
            newest[call] = index
    return outdated


def _read_line(line: str, group: int) -> list[Quotation]:
    """The sentences of a line of a digest, or of a text that a model wrote."""
    match = _QUOTED_LINE.match(line)
    if match is None:
        said = _read_text(line, ChatRole.ASSISTANT, NO_LABEL, MAX_END_LENGTH, once=False)
        return [replace(one, group=group, kind=min(one.kind, Kind.VALUE)) for one in said]
    if match["caller"]:
        return [_read_call(line[2:], match["name"], group, 0)]
    label, note = match["label"], _COUNT_NOTE.search(match["label"])
    label = label[: note.start()] if note else label
    role = ChatRole(label.split()[0].lower())
    said = _read_text(line[match.end() :], role, label, MAX_END_LENGTH, once=False)
    lines = [replace(one, group=group) for one in said]
    for one in lines if note else ():
        one.alike, one.kind = int(note[1]) if note else 1, Kind.LISTED
    return lines


# -- what fits ----------------------------------------------------------------------------------------


def _choose(
    lines: Sequence[Quotation], tokens: int, counter: TokenCounter, first: Quotation | None = None
) -> str:
    """The lines that fit, the best first, in the order in which they were said."""
    for at, line in enumerate(lines):
        line.at = at
    ranked = _rank(lines)
    if first is not None:
        ranked = [first, *(line for line in ranked if line is not first)]
    kept: dict[int, str] = {}
    made, left = "", tokens
    # Neighbours share a line, which leaves room for more; in the end long sentences may have what is left.
    for longest in (max(MAX_LINE_TOKENS, tokens // 4), tokens, tokens):
        misses = talk = 0
        for line in ranked:
            pause()
            used = tokens - left
            share = 1.0 if line is first or longest >= tokens else SHARES.get(line.kind, 1.0)
            room = min(left, int(tokens * share) - used)
            is_talk = line.is_talk and line is not first
            is_enough = is_talk and used > TALK_ROOM * tokens and talk >= TALK_SHARE * (len(kept) + 1)
            if line.at in kept or is_enough or room < MIN_LINE_TOKENS:
                talk += is_talk and line.at in kept
                continue
            if misses > MAX_MISSES:
                break
            answer = counter.count_text(line.answer) + 1 if line.answer else 0
            text = _fit(line, min(longest, room - 1 - answer), counter)
            misses = misses + 1 if text is None else 0
            # Of two long lines, the same may be left.
            if text is not None and not (OMISSION in text and text in kept.values()):
                kept[line.at], talk = text, talk + is_talk
                left -= counter.count_text(line.prefix + text) + 1 + answer
        made = _render(lines, kept)
        left = tokens - counter.count_text(made) - 1
    # Counts of lines need not add up to the count of all: then the last to come go first.
    while len(kept) > 1 and counter.count_text(made) > tokens:
        for at in list(kept)[-max(1, len(kept) // 10) :]:
            del kept[at]
        made = _render(lines, kept)
    if kept and counter.count_text(made) <= tokens:
        return made
    return _first_fitting(ranked[0].label, ranked[0].text, tokens, counter)


def _rank(lines: Sequence[Quotation]) -> list[Quotation]:
    """The lines that nothing later replaces: by kind, then what holds most names in the least room."""
    newest: dict[object, Quotation] = {}
    for line in lines:
        newest |= {(line.label, _clean(line.text)): line, line.subject: line}
    standing = [
        line
        for line in lines
        if newest[line.label, _clean(line.text)] is line
        and (line.subject is None or newest[line.subject].group == line.group)
    ]
    # A user may mean each of several numbers; the newest comes first.
    values = {_NUMBER.sub("#", line.text): line.group for line in standing}
    known, named = set[int](), set[str]()
    # What a person said of a thing comes before what a tool printed of it.
    for line in sorted(standing, key=lambda line: (line.kind, not line.is_prose, -line.density, -line.at)):
        is_said = line.kind is Kind.RESULT and named.issuperset(line.names) and line.label[:4] != "User"
        if is_said or values[_NUMBER.sub("#", line.text)] != line.group:
            known.add(line.at)
        named.update(line.names)
    return sorted(standing, key=lambda line: (line.at in known, line.kind, -line.density, -line.at))


def _fit(line: Quotation, tokens: int, counter: TokenCounter) -> str | None:
    """The line, if need be without some of its clauses; None when it cannot be shown in so few tokens."""
    text = _clean(line.text).removesuffix(",")
    whole = line.prefix + text
    cost = counter.count_text(whole) if len(whole) <= tokens * CHARACTERS_PER_TOKEN else None
    if cost is not None and cost <= tokens:
        return text
    if (cost is not None and cost <= MAX_LINE_TOKENS) or not line.label:
        return None
    return fit_clauses(line.text, tokens - counter.count_text(line.prefix), counter.count_text)


def fit_clauses(sentence: str, tokens: int, count: CountText) -> str | None:
    """The sentence in at most `tokens` tokens by leaving clauses out; None where that would alter it.

    Only clauses that name, deny and limit nothing are left out, and items of a list, but not its heading.
    """
    if has_heading(sentence):
        clauses = sentence.splitlines(keepends=True)
        chosen = {0}
    else:
        languages, clauses = text_languages(sentence), split_clauses(sentence)
        chosen = {at for at, one in enumerate(clauses) if identifiers(one) or is_binding(one, languages)}
    made = _render_clauses(clauses, chosen) if chosen else None
    if len(chosen) == len(clauses) or (made is not None and count(made) > tokens):
        return None
    for at in [at for at in range(len(clauses)) if at not in chosen][:MAX_MISSES]:
        more = _render_clauses(clauses, chosen | {at})
        if count(more) <= tokens:
            chosen.add(at)
            made = more
    return made


def _render_clauses(clauses: Sequence[str], chosen: set[int]) -> str:
    pieces: list[str] = []
    for at, clause in enumerate(clauses):
        if at in chosen:
            pieces.append(clause)
        elif not pieces or pieces[-1] != f" {OMISSION} ":
            pieces.append(f" {OMISSION} ")
    return _OMISSIONS.sub(OMISSION, _clean("".join(pieces)))


def _render(lines: Sequence[Quotation], kept: dict[int, str]) -> str:
    made: list[str] = []
    last: Quotation | None = None
    quoted = ""
    for at in sorted(kept):
        line = lines[at]
        whole = line.is_prose and OMISSION not in kept[at] and "\n" not in line.text
        is_next = last is not None and (last.group, last.place + 1) == (line.group, line.place)
        if whole and is_next and len(quoted) + len(line.text) <= MAX_JOINED_LENGTH:
            quoted += line.text
            made[-1] = line.prefix + _clean(quoted)
        else:
            made.append(line.prefix + kept[at])
            quoted = line.text
        made += [line.answer] if line.answer else []
        last = line if whole and not line.answer else None
    return "\n".join(made)


def _first_fitting(label: str, text: str, tokens: int, counter: TokenCounter) -> str:
    """A line for what cannot be shown otherwise: all of it, or a mark that it is missing."""
    who, text = f"- {label}: " if label.strip() else "- ", _clean(text)
    for line in (f"{who}{text}", f"{who}{OMISSION}"):
        if text and len(line) <= tokens * CHARACTERS_PER_TOKEN and counter.count_text(line) <= tokens:
            return line
    return f"- {OMISSION}"


def _clean(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def _plain(text: str) -> str:
    """A sentence, or a fact that quotes one, in the form in which they are compared."""
    return f" {' '.join(split_words(text).folded)} "
