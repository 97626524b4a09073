"""A summary made without a model: quotations of what the messages say, as a person would mark them.

It is used where no model is configured or none answers in time. It quotes whole sentences and leaves out
others; where a long sentence is shortened, "[...]" stands for whole clauses. What users said and what was
done come before what tools listed, lines of one shape become the last of them, and of an order or a file
the last state is shown. The result is immediate and the same for the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.background import pause
from autonomy_ctx.language.clauses import (
    OMISSION,
    CueFinder,
    WordView,
    clean,
    split_clauses,
    split_output,
    split_prose,
)
from autonomy_ctx.language.cues import (
    ACKNOWLEDGEMENT_CUES,
    ACTION_CUES,
    ANSWER_CUES,
    LOOKING_VERBS,
    NEGATION_CUES,
    OBLIGATION_CUES,
)
from autonomy_ctx.language.fact_clauses import BRACKETED_DATE, read_clause
from autonomy_ctx.language.fact_cues import FACT_CUES
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.phrases import split_phrases
from autonomy_ctx.language.quotations import (
    NO_LABEL,
    Kind,
    Pass,
    Quotation,
    Reply,
    choose_quotations,
    first_fitting,
    rank_quotations,
)
from autonomy_ctx.messages.clamp import CHARACTERS_PER_TOKEN
from autonomy_ctx.messages.fact import QUESTION_NOTE, normalize_fact
from autonomy_ctx.messages.message import ChatRole, Message, ToolCall
from autonomy_ctx.messages.text_cache import TextCache
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.transcript import short_name, speaker_label, tool_names_by_call, visible_text

MAX_END_LENGTH = 20_000  # how much of a long text is read at each end
MIN_END_LENGTH = 400
MAX_ARGUMENTS_LENGTH = 160  # characters of a call's arguments
MAX_REPLY_LENGTH = 80  # characters
MAX_CACHED_LENGTH = 4_000  # characters that were read of a text
MIN_OUTDATED_LENGTH = 8  # characters of a fact that is looked for in what was said
MAX_READ_SENTENCE = 600  # characters; a longer sentence is a paste
# Words that say what a statement is about: with fewer it says nothing, with more it says no more.
MIN_STATED_WORDS, MAX_STATED_WORDS = 2, 8
CALL_WEIGHT = 0.3
# How many lines of one shape become one: few of a tool, more of a person, who may mean each of them.
ALIKE_LINES = {ChatRole.TOOL: 3, ChatRole.ASSISTANT: 6}
ALIKE_USER_LINES = 8
# The part of the room that is for users' lines while others wait, and for their rules in a merge.
USER_SHARE, RULE_SHARE = 0.62, 0.5
MAX_SHAPE_WORDS = 8  # a longer sentence is somebody's words, not a line of a list
SMALL_BUDGET = 96  # tokens; up to here users' lines may take all
SHORT_RESULT_UNITS = 4  # a result of so few lines says how an action came out
QUESTION_MARKS = ("?", "\uff1f", "\u061f")
IMAGE_PLACEHOLDER = "[image]"
NO_TEXT_PLACEHOLDER = "[no text]"

# What holds beyond the next answer, and what is over with it, by the cues of facts.
_LASTING_CUES = frozenset(
    (
        "rule",
        "preference",
        "decision",
        "open",
        "due",
        "goal",
        "value",
        "amount",
        "change",
        "contrast",
        "withdraw",
    )
)
_PASSING_CUES = frozenset(("question", "hypothetical", "request", "task"))
_ROLE_WEIGHTS = {
    ChatRole.USER: 2.0,
    ChatRole.SYSTEM: 1.0,
    ChatRole.DEVELOPER: 1.0,
    ChatRole.ASSISTANT: 1.0,
    ChatRole.TOOL: 0.8,
}
_NEGATION = CueFinder(NEGATION_CUES)
_OBLIGATION, _ACTION = CueFinder(OBLIGATION_CUES), CueFinder(ACTION_CUES)
_COMPLETION = CueFinder(ACTION_CUES, {"": tuple(split_phrases(FACT_CUES["done"].lower()))})
_ACKNOWLEDGEMENT, _ANSWER = CueFinder(ACKNOWLEDGEMENT_CUES), CueFinder(ANSWER_CUES, ACKNOWLEDGEMENT_CUES)

_VALUE = lazy_pattern(r"(?<!\S)[^\s\d/\\@_]*+[\d/\\@_]\S*+")
_KEY = lazy_pattern(r'"([^"\n]{1,40})"\s{0,2}:')
_SEARCH_HIT = lazy_pattern(r"[^\s:]{1,200}:\d{1,7}[:-]")
_LOG_LEVEL = lazy_pattern(r"\b(?:DEBUG|INFO|NOTICE|TRACE)\b")
_QUOTED_LINE = lazy_pattern(
    r"- (?:(?P<caller>Assistant(?: \([^:\n]{0,80}\))?) calls (?P<name>[^(\n]{1,80})\("
    r"|(?P<label>(?:User|Assistant|System|Developer|Tool)\b[^:\n]{0,120}): )"
)
_NO_FAILURE = lazy_pattern(r"\b(?:0|no) (?:fail|error)")
_COUNT_NOTE = lazy_pattern(r" \(last of (\d{1,9}) such lines\)$")


class _Weight(NamedTuple):
    """The kind and weight of a sentence."""

    kind: Kind
    score: float
    is_rule: bool
    exact: tuple[str, ...]
    is_passing: bool = False
    content: frozenset[str] = frozenset()


class _ReadSentence(NamedTuple):
    """A sentence of a text, or the last line of one shape, wherever it is quoted."""

    place: int
    text: str
    alike: int
    shape: object
    reply: Reply
    words: tuple[str, ...]
    is_image: bool
    # Its weight, field by field: thousands are kept, and the garbage collector follows each object.
    kind: Kind
    score: float
    is_rule: bool
    exact: tuple[str, ...]
    is_passing: bool
    content: frozenset[str]


class _ReadText(NamedTuple):
    """In how many pieces a text was divided, and those that say something."""

    pieces: int
    sentences: tuple[_ReadSentence, ...]


_read_texts: TextCache[_ReadText] = TextCache(2048)


def digest(
    messages: Sequence[Message], *, tokens: int, counter: TokenCounter, max_characters: int | None = None
) -> str:
    """Quotations of the messages in their order, in at most `tokens` tokens.

    What users said comes first, the newest before all others, then what was done, then the rest. About
    `max_characters` characters are read in all, where time is short.
    """
    ends = _end_length(len(messages), max_characters)
    names, outdated = tool_names_by_call(messages), _outdated_results(messages)
    units: list[Quotation] = []
    for index, message in enumerate(messages):
        if index not in outdated:
            units += _message_units(message, names, index, index / len(messages), ends)
    units = _settle_replies(units)
    if not units:
        # Nothing but acknowledgements, or nothing at all.
        spoken = [(speaker_label(message, names), clean(visible_text(message))) for message in messages[-1:]]
        return "\n".join(first_fitting(label, text, tokens, counter) for label, text in spoken)
    order = rank_quotations(units)
    of_kind = {kind: [at for at in order if units[at].kind is kind] for kind in Kind}
    users, actions = of_kind[Kind.USER], of_kind[Kind.ACTION]
    # The best of each message, the newest message first.
    best = sorted({units[at].group: at for at in reversed(users)}.values(), reverse=True)
    share = max(int(tokens * USER_SHARE), min(tokens, SMALL_BUDGET)) if actions else tokens
    passes = [
        Pass(best[:1], tokens),
        Pass([at for at in users if units[at].is_rule], share),
        Pass(best, share),
        Pass(actions, tokens),
        Pass(users, tokens),
        Pass(of_kind[Kind.CALL], tokens),
        Pass(of_kind[Kind.NOTE], tokens),
        Pass(of_kind[Kind.OTHER], tokens),
    ]
    return choose_quotations(units, passes, tokens, counter)


def _end_length(messages: int, max_characters: int | None) -> int:
    """The characters to read at each end of a long text, where messages share `max_characters`."""
    if max_characters is None:
        return MAX_END_LENGTH
    return max(min(MAX_END_LENGTH, max_characters // (2 * max(messages, 1))), MIN_END_LENGTH)


def digest_texts(
    texts: Sequence[str], *, tokens: int, counter: TokenCounter, outdated: Sequence[str] = ()
) -> str:
    """Make a digest of digests and summaries: their lines in order, each once.

    Users' lines have a share of their own, and what they ruled the first part of it, however old it is: so
    nothing of it goes for the number of merges. Sentences that say what is `outdated` are left out: facts
    that were replaced, and items that are done.
    """
    if not outdated and sum(map(len, texts)) <= tokens * CHARACTERS_PER_TOKEN:
        lines = dict.fromkeys(line.strip() for text in texts for line in text.splitlines())
        whole = "\n".join(filter(None, lines))
        if whole and counter.count_text(whole) <= tokens:
            return whole
    units: list[Quotation] = []
    for index, text in enumerate(texts):
        for line in _read_ends(text, MAX_END_LENGTH):
            pause()
            units += _line_units(line, len(units), index / len(texts))
    units = _settle_replies(units)
    if not units:
        return NO_TEXT_PLACEHOLDER if texts else ""
    old = [text for text in map(_plain, outdated) if len(text) >= MIN_OUTDATED_LENGTH]
    for unit in units if old else ():
        pause()
        said = _plain(unit.text)
        unit.is_outdated = any(text in said for text in old)
    order = [at for at in rank_quotations(units) if not units[at].is_outdated] or [len(units) - 1]
    stated = [at for at in order if units[at].kind is Kind.USER and not units[at].is_passing]
    passes = [
        Pass([at for at in stated if units[at].is_rule], int(tokens * RULE_SHARE)),
        Pass(stated, int(tokens * USER_SHARE)),
        Pass([at for at in order if units[at].kind is Kind.ACTION], tokens),
        Pass(stated, tokens),
        Pass(order, tokens),
    ]
    return choose_quotations(units, passes, tokens, counter)


def _plain(text: str) -> str:
    """A sentence, or a fact that quotes one, in the form in which they are compared."""
    return normalize_fact(BRACKETED_DATE.sub("", text.partition(QUESTION_NOTE)[0]))


def score_message(message: Message) -> float:
    """The weight of a message's best line."""
    units = _message_units(message, {}, 0, 0.0, MIN_END_LENGTH)
    return max((unit.score for unit in units if unit.kind is not Kind.NOTE), default=0.0)


# -- what a message says ------------------------------------------------------------------------------


def _message_units(
    message: Message, names: dict[str, str], group: int, recency: float, ends: int
) -> list[Quotation]:
    who, role = speaker_label(message, names), message.role
    base = _ROLE_WEIGHTS[role] + recency / 2 + 2 * message.is_error
    text = visible_text(message)
    read = _read_sentences(text, role, who, ends)
    units: list[Quotation] = []
    for one in read.sentences:
        score = 0.1 if one.is_image else base + one.score
        unit = Quotation(
            who, one.text, one.kind, score, group, one.place, role is not ChatRole.TOOL, one.is_rule
        )
        unit.alike, unit.shape, unit.exact = one.alike, one.shape, one.exact
        unit.reply, unit.words = one.reply, one.words
        unit.is_passing, unit.content = one.is_passing, one.content
        units.append(unit)
    _spread(units)
    if len(text) > 2 * ends:
        unread = f"{len(text) - 2 * ends:,} of {len(text):,} characters"
        note = f"[... {unread} were not read for this digest ...]"
        units.append(Quotation(who, note, Kind.NOTE, base, group, read.pieces))
    for number, call in enumerate(message.tool_calls):
        kind = Kind.OTHER if _only_looks(call.name) else Kind.CALL
        shown = f"{who} calls {short_name(call.name)}({_show_arguments(call)})"
        # Its result says more.
        unit = Quotation("", shown, kind, base + CALL_WEIGHT, group, read.pieces + 1 + number)
        unit.exact = tuple(identifiers(shown.partition("(")[2]))
        units.append(unit)
    if not units:
        units.append(Quotation(who, clean(text) or NO_TEXT_PLACEHOLDER, Kind.OTHER, 0.0, group, 0))
    return units


def read_for_digest(
    messages: Sequence[Message], max_characters: int | None = None, *, start: int = 0
) -> Generator[int, None, None]:
    """Read messages before a digest of them is wanted, one at each step; how long each is comes before it.

    Those before index `start` have been read.
    """
    names, ends = tool_names_by_call(messages), _end_length(len(messages), max_characters)
    for message in islice(messages, start, None):
        text = visible_text(message)
        yield min(len(text), 2 * ends)
        _read_sentences(text, message.role, speaker_label(message, names), ends)


def _read_sentences(text: str, role: ChatRole, who: str, ends: int) -> _ReadText:
    """Read a text sentence by sentence; of a long one only its two ends."""
    # Of a short text all is read, however much of a long one would be; of a long one its two ends.
    is_long = len(text) > 2 * ends
    if (2 * ends if is_long else len(text)) > MAX_CACHED_LENGTH:
        return _weigh_sentences(text, role, who, ends)
    key = (text[:ends], text[-ends:], role, who) if is_long else (text, role, who)
    return _read_texts.get_or_make(key, lambda: _weigh_sentences(text, role, who, ends))


def _weigh_sentences(text: str, role: ChatRole, who: str, ends: int) -> _ReadText:
    divide = split_output if role is ChatRole.TOOL else split_prose
    pieces = [(clean(piece), piece) for piece in _divide_ends(divide, text, ends)]
    lines = [(at, shown, piece) for at, (shown, piece) in enumerate(pieces) if _says_something(shown)]
    short, last = len(lines) <= SHORT_RESULT_UNITS, len(lines) and lines[-1][0]
    sentences: list[_ReadSentence] = []
    for at, shown, piece, alike, shape in _collapse_alike(lines, role):
        pause()
        view = WordView.of(shown)
        weight = _weigh(view, role, who, is_outcome=short or at == last)
        is_image, reply = shown == IMAGE_PLACEHOLDER, _read_reply(view, role)
        sentences.append(_ReadSentence(at, piece, alike, shape, reply, view.words, is_image, *weight))
    return _ReadText(len(pieces), tuple(sentences))


def _divide_ends(divide: Callable[[str], Iterator[str]], text: str, ends: int) -> Iterator[str]:
    """The sentences of a text; of a long one those at its two ends, without the two that were cut."""
    if len(text) <= 2 * ends:
        yield from divide(text)
        return
    yield from list(divide(text[:ends]))[:-1]
    # Not neighbours: something that says nothing stands between them.
    yield ""
    yield from list(divide(text[-ends:]))[1:]


def _read_ends(text: str, ends: int) -> list[str]:
    if len(text) <= 2 * ends:
        return text.splitlines()
    return text[:ends].splitlines()[:-1] + text[-ends:].splitlines()[1:]


def _says_something(text: str) -> bool:
    # The numbers of a list and the marks between paragraphs are no sentences.
    return len(text) > 2 or text.isalnum()


def _weigh(view: WordView, role: ChatRole, label: str, *, is_outcome: bool) -> _Weight:
    """Weigh a sentence; `is_outcome` when a tool said little else, or this last."""
    text = view.text
    names = tuple(identifiers(text))
    exact = len(names)
    # Both how many and how dense; below 60 characters a sentence is not denser for being short.
    score = min(exact, 6) / 3 + min(2.0, 40 * exact / max(len(text), 60))
    if role is ChatRole.TOOL:
        acts = (exact > 0 or label.endswith(" failed")) and has_failed(text)
        # What a search finds may have been done long ago.
        if is_outcome and not acts:
            acts = not _only_looks(label.partition(" ")[2])
        return _Weight(Kind.ACTION if acts else Kind.OTHER, score + 2 * acts, False, names)
    is_question = text.endswith(QUESTION_MARKS)
    if role is ChatRole.USER:
        return _weigh_user(view, score, names, is_question=is_question)
    acts = not is_question and _ACTION.matches(view)
    score += 2 if acts else _OBLIGATION.matches(view)
    return _Weight(Kind.ACTION if acts else Kind.OTHER, score, False, names)


def _weigh_user(view: WordView, score: float, names: tuple[str, ...], *, is_question: bool) -> _Weight:
    if len(view.text) > MAX_READ_SENTENCE:
        return _Weight(Kind.USER, score, _OBLIGATION.matches(view), names)
    clause = read_clause(view.text)
    is_lasting = clause.has(*_LASTING_CUES) or (not clause.has("none") and _OBLIGATION.matches(view))
    is_done = _COMPLETION.matches(view)
    is_passing = is_question or (clause.has(*_PASSING_CUES) and not (is_lasting and clause.has("request")))
    if not (is_lasting or is_done or names) and len(clause.content) < MIN_STATED_WORDS:
        # "Anyway." says nothing that lasts.
        is_passing = True
    is_rule = (is_lasting or is_done) and not is_passing
    if is_rule:
        # What a user did is as good as what had to be done: without it that seems open.
        score = 2 + min(score, 1.5) + (is_lasting and _NEGATION.matches(view))
    elif not is_passing:
        score += min(len(clause.content), MAX_STATED_WORDS) / MAX_STATED_WORDS
    return _Weight(Kind.USER, score + is_question, is_rule, names, is_passing, clause.content)


def has_failed(text: str) -> bool:
    """Tell whether a line of output tells of a failure."""
    lower = text.lower()
    # Also within the names of errors. Written out, as every line of a long output comes through here.
    failed = "error" in lower or "fail" in lower or "exception" in lower or "fatal" in lower
    failed = failed or "denied" in lower or "traceback" in lower or "fehler" in lower or "erreur" in lower
    return failed and not _NO_FAILURE.search(lower)


def _spread(units: Sequence[Quotation]) -> None:
    """Make each a little lighter than the better ones of its message, so that none takes all the room."""
    for rank, unit in enumerate(sorted(units, key=lambda unit: -unit.score)):
        unit.score -= min(rank / 4, 3)


def _read_reply(view: WordView, role: ChatRole) -> Reply:
    """Tell whether a sentence only acknowledges or only answers."""
    if role is ChatRole.TOOL or len(view.text) > MAX_REPLY_LENGTH:
        return Reply.NONE
    if _ACKNOWLEDGEMENT.covers(view):
        return Reply.ACKNOWLEDGEMENT
    return Reply.ANSWER if _ANSWER.covers(view) else Reply.NONE


def _settle_replies(units: Sequence[Quotation]) -> list[Quotation]:
    """The units without acknowledgements; an answer counts as much as what its question asks for.

    What a user says without naming anything ("I want to change it.") needs the sentence before it.
    """
    settled: list[Quotation] = []
    for unit in units:
        before = settled[-1] if settled else None
        if unit.reply:
            if before is not None and _answers(unit, before):
                before.kind, before.score, before.answer = Kind.USER, before.score + 1, len(settled)
                unit.is_rule, unit.is_answer = False, True
            elif unit.reply is Reply.ACKNOWLEDGEMENT:
                continue
            else:
                unit.kind, unit.is_rule, unit.score = Kind.OTHER, False, 0.0
        elif (
            before is not None
            and (before.group, before.place + 1) == (unit.group, unit.place)
            and (unit.is_rule and not unit.exact and before.exact)
        ):
            before.is_rule, before.score = True, max(before.score, unit.score)
        settled.append(unit)
    return settled


def _answers(unit: Quotation, before: Quotation) -> bool:
    is_asked = before.label.startswith("Assistant") and clean(before.text).endswith(QUESTION_MARKS)
    return is_asked and unit.label.startswith("User")


def _only_looks(name: str) -> bool:
    return not frozenset(LOOKING_VERBS).isdisjoint(
        name.lower().replace("-", "_").replace(".", "_").split("_")
    )


def _show_arguments(call: ToolCall) -> str:
    """The arguments on one line; of long ones, those that are short."""
    text = call.arguments[:MAX_END_LENGTH]
    whole = clean(text)
    if len(whole) <= MAX_ARGUMENTS_LENGTH and len(text) == len(call.arguments):
        return whole
    pieces, left = split_clauses(text), MAX_ARGUMENTS_LENGTH
    if len(text) < len(call.arguments):
        pieces.pop()
    made: list[str] = []
    for piece in map(clean, pieces):
        if len(piece) <= left:
            made.append(piece)
            left -= len(piece)
        elif made[-1:] != [OMISSION]:
            made.append(OMISSION)
    if len(text) < len(call.arguments) and made[-1:] != [OMISSION]:
        made.append(OMISSION)
    closing = "}" if made[-1:] == [OMISSION] and call.arguments.rstrip().endswith("}") else ""
    return " ".join(made) + closing


# -- lines of one shape, and states of one thing ------------------------------------------------------


def _shape(line: str) -> object:
    """The form that lines share which differ in their values only; None for a line of its own."""
    if line.endswith(".") and line.count(" ") > MAX_SHAPE_WORDS:
        return None
    failed = has_failed(line)
    if line.startswith(("{", "[", '"')):
        keys = tuple(_KEY.findall(line[:1000]))
        if keys:
            return failed, keys
    for mark in ("|", "\t"):
        if line.count(mark) > 1:
            return failed, mark, line.count(mark)
    if _SEARCH_HIT.match(line):
        return failed, "hit"
    if line.count(",") > 2 and not line.endswith(".") and any(map(str.isdigit, line)):
        return failed, ",", line.count(",")
    frame = _VALUE.sub("#", line)
    if frame.startswith("#") and not failed and (level := _LOG_LEVEL.search(frame[:80])):
        return failed, level[0]
    words = frame.split()
    if "#" in frame:
        return failed, tuple(word for word, after in pairwise([*words, ""]) if (word, after) != ("#", "#"))
    if len(words) < 5 and not line.endswith((".", "!", "?", ":")):
        return failed, words[0], len(words)
    return None


def _collapse_alike(
    lines: Sequence[tuple[int, str, str]], role: ChatRole
) -> Iterator[tuple[int, str, str, int, object]]:
    """The lines, but of many with one shape only the last, with their number."""
    least = ALIKE_LINES.get(role, ALIKE_USER_LINES)
    if len(lines) < least:
        for at, shown, piece in lines:
            yield at, shown, piece, 1, None
        return
    is_output = role is ChatRole.TOOL
    # A person's sentence is meant, also where others are like it.
    shapes = [_shape(shown) if is_output or shown[-1] not in ".!?\u3002" else None for _, shown, _ in lines]
    numbers: dict[object, int] = {}
    last: dict[object, int] = {}
    for index, shape in enumerate(shapes):
        numbers[shape] = numbers.get(shape, 0) + 1
        last[shape] = index
    for index, (at, shown, piece) in enumerate(lines):
        shape = shapes[index]
        if shape is None or numbers[shape] < least:
            yield at, shown, piece, 1, None
        elif last[shape] == index:
            yield at, shown, piece, numbers[shape], shape


def _outdated_results(messages: Sequence[Message]) -> set[int]:
    """Results of calls that were made again later with the same arguments."""
    calls = {call.id: (call.name, call.arguments) for one in messages for call in one.tool_calls if call.id}
    newest: dict[tuple[str, str], int] = {}
    outdated: set[int] = set()
    for index, message in enumerate(messages):
        call = calls.get(message.tool_call_id or "") if message.role is ChatRole.TOOL else None
        if call is not None:
            if call in newest:
                outdated.add(newest[call])
            newest[call] = index
    return outdated


# -- what a digest says -------------------------------------------------------------------------------


def _line_units(line: str, group: int, recency: float) -> list[Quotation]:
    """The units of a line of a digest, or of a text that a model wrote."""
    match = _QUOTED_LINE.match(line)
    if match is None:
        # Each sentence of a model counts as something done.
        return [
            replace(unit, kind=Kind.ACTION, score=unit.score + recency)
            for unit in _prose_units(NO_LABEL, line, ChatRole.ASSISTANT, group)
        ]
    if match["caller"]:
        kind = Kind.OTHER if _only_looks(match["name"]) else Kind.CALL
        names = tuple(identifiers(line.partition("(")[2]))
        return [Quotation("", line[2:], kind, CALL_WEIGHT + recency, group, 0, exact=names)]
    label, text = match["label"], line[match.end() :]
    role = ChatRole(label.split()[0].lower())
    if role is not ChatRole.TOOL:
        units = _prose_units(label, text, role, group)
        for unit in units:
            if role is not ChatRole.USER:
                unit.score += recency
            elif not unit.is_rule:
                # What was asked is answered by now; what was ruled is as good as ever.
                unit.score += recency - 1.5 * unit.is_passing
        return units
    alike, note = 1, _COUNT_NOTE.search(label)
    if note is not None:
        label, alike = label[: note.start()], int(note[1])
    view = WordView.of(text)
    weight = _weigh(view, role, label, is_outcome=alike == 1)
    unit = Quotation(label, text, weight.kind, weight.score + recency, group, 0)
    unit.alike, unit.exact, unit.words = alike, weight.exact, view.words
    unit.shape = (_shape(text) or text) if alike > 1 else None
    return [unit]


def _prose_units(label: str, text: str, role: ChatRole, group: int) -> list[Quotation]:
    units: list[Quotation] = []
    for at, piece in enumerate(split_prose(text)):
        sentence = clean(piece)
        if _says_something(sentence):
            view = WordView.of(sentence)
            weight = _weigh(view, role, label, is_outcome=True)
            unit = Quotation(label, piece, weight.kind, weight.score, group, at, True, weight.is_rule)
            unit.exact, unit.reply, unit.words = weight.exact, _read_reply(view, role), view.words
            unit.is_passing, unit.content = weight.is_passing, weight.content
            units.append(unit)
    return units
