"""Finds standing facts without a model: what users want, decide, prefer and correct, and what actions made.

A fact is a sentence or clause quoted from the user's own words. Its cues (`statement.py`) say its kind.
Precision comes first: what is asked, supposed, reported, over, about somebody else or only for now is none. A
value takes the place of another only if both name the same attribute of the same thing. Pure.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from itertools import pairwise

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.relative_dates import has_weekday, resolve_dates
from autonomy_ctx.language.sentences import QUESTION_MARKS, Sentence, split_sentences
from autonomy_ctx.language.statement import (
    BRACKETED_DATE,
    Statement,
    find_codes,
    is_changed_value,
    is_conjunction,
    is_same_value,
    plain_number,
    read_languages,
    read_statement,
)
from autonomy_ctx.language.tables import load_language
from autonomy_ctx.language.words import split_words
from autonomy_ctx.messages.events import mail_id
from autonomy_ctx.messages.fact import (
    MAX_FACT_CHARACTERS,
    QUESTION_NOTE,
    Fact,
    FactAction,
    FactChange,
    FactKind,
    add_note,
    normalize_fact,
    stated_text,
    tool_note,
)
from autonomy_ctx.messages.message import ChatRole, Message, ToolCall, content_text

MAX_FACTS_PER_MESSAGE = 8
MAX_COMPARED_FACTS = 100  # the newest: a correction is about something that is not long ago or still shown
MAX_MESSAGE_CHARACTERS = 20_000  # at each end of a long text, mostly pasted
MAX_SENTENCES = 40
MAX_SENTENCE_CHARACTERS = 300
MAX_JOINED_CHARACTERS = 200
MAX_ANSWER_WORDS, MAX_CHOICE_WORDS = 12, 8
MAX_RESULT_LINES, MAX_RESULT_CHARACTERS = 40, 200
MAX_CORRECTION_DISTANCE = 6  # messages between a value and "make it 900"
LAST_GOAL_POSITION = 6  # "I want to ..." is the goal of a conversation only at its beginning
MIN_CONTENT = 2  # words that say what a rule or an open item is about
MIN_WORDS = 4  # of a statement with only one such word
MIN_SHARED = 0.5  # of the words of an open item or of its report, whichever has fewer
# Whoever says one of these states nothing that holds.
_BLOCKERS = ("report", "doubt", "other", "past")
# An order, if the assistant takes note of it.
_ORDERS = ("must", "every", "ban", "ban_if_firm")
_HEADED_KINDS: tuple[FactKind, ...] = ("rule", "preference", "decision", "open")
_OPTION_LINE = lazy_pattern(r"\W{0,6}(?:[^\W\d_]{3,10}\s{1,3})?\(?([a-z]|\d{1,2})(?:[).:]|\*\*| -)", 2)
_DIGITS = frozenset("0123456789")
_CAMEL = lazy_pattern("([a-z])([A-Z])")


def find_facts(
    messages: Sequence[tuple[int, Message]],
    standing: Sequence[Fact],
    zone: tzinfo = UTC,
    before: tuple[int, Message] | None = None,
) -> list[FactChange]:
    """The changes of facts by these messages, which come with their positions.

    `before` is the message right before them, which the first one may answer. Relative dates are resolved as
    they were meant in the time zone.
    A change of a fact that is found in the same call names it "+N": the change with the index N added it.
    """
    steps = find_facts_in_steps(messages, standing, zone, before)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[FactChange] = end.value
            return found


def find_facts_in_steps(
    messages: Sequence[tuple[int, Message]],
    standing: Sequence[Fact],
    zone: tzinfo = UTC,
    before: tuple[int, Message] | None = None,
) -> Generator[int, None, list[FactChange]]:
    """Find facts in steps, one message each; the length of the message comes before it."""
    finder = _Finder(standing, zone)
    previous = before
    calls: dict[str, ToolCall] = {}
    for position, message in messages:
        yield len(content_text(message.content))
        if mail_id(message) is not None:
            # Another agent's words, which nobody here answers.
            previous = None
        elif message.role is ChatRole.USER:
            finder.read_user(position, message, previous)
            previous = position, message
        elif message.role is ChatRole.ASSISTANT:
            calls.update((call.id, call) for call in message.tool_calls if call.id)
            finder.read_assistant(position, message)
            previous = position, message
        elif message.role is ChatRole.TOOL:
            finder.read_result(position, message, calls.get(message.tool_call_id or ""))
    return finder.changes


@dataclass(eq=False)
class _KnownFact:
    """A fact that holds, a standing one or one found in this call. It is read when it is compared."""

    target: str
    kind: FactKind
    text: str
    position: int
    created_at: datetime
    replaced: _KnownFact | None = None

    @cached_property
    def statement(self) -> Statement:
        text = BRACKETED_DATE.sub("", stated_text(self.text))
        read = read_statement(text, read_languages(text))
        # "Make it 9,200" is about what it has replaced.
        return self.replaced.statement if self.replaced and read.value is None else read


class _Finder:
    """Reads messages in order and collects the changes."""

    def __init__(self, standing: Sequence[Fact], zone: tzinfo) -> None:
        self._zone = zone
        by_id = {fact.id: fact for fact in standing}
        holding = sorted((fact for fact in standing if fact.state == "holds"), key=lambda fact: fact.position)
        self._texts = {_normalize(fact.text) for fact in holding}
        self._has_goal = any(fact.kind == "goal" for fact in holding)
        self._known: list[_KnownFact] = []
        for fact in holding[-MAX_COMPARED_FACTS:]:
            old = by_id.get(fact.replaces or "")
            replaced = _KnownFact(old.id, old.kind, old.text, old.position, old.created_at) if old else None
            self._known.append(
                _KnownFact(fact.id, fact.kind, fact.text, fact.position, fact.created_at, replaced)
            )
        self._languages: tuple[str, ...] = ()
        self._before: Sentence | None = None  # the sentence before the one that is read
        self._noted: tuple[int, Message, Statement] | None = None
        self.changes: list[FactChange] = []

    # -- what is read ---------------------------------------------------------------------------------

    def read_user(self, position: int, message: Message, previous: tuple[int, Message] | None) -> None:
        """Read what a user states, after what the message answers."""
        text = content_text(message.content)
        sentences = read_sentences(text)
        self._languages = read_languages(" ".join(one.text for one in sentences), self._languages)
        is_answer = previous is not None and previous[1].role is ChatRole.ASSISTANT
        if (
            previous
            and is_answer
            and sentences
            and self._read_answer(position, message, sentences, *previous)
        ):
            return
        first, self._noted = len(self.changes), None
        heading: FactKind | None = None
        before: Sentence | None = None
        for sentence in sentences:
            if len(self.changes) - first >= MAX_FACTS_PER_MESSAGE:
                return
            if sentence.text.endswith((":", "\uff1a")):
                heading = self._heading_kind(sentence.text)
            elif heading and sentence.is_list_item and not sentence.is_question:
                self._add(position, message, heading, self._read(sentence.text))
            else:
                heading = None
                for statement in self._split(sentence):
                    self._before = before if sentence.text.startswith(statement.text) else None
                    self._read_statement(position, message, sentence, statement)
            before = sentence

    def read_assistant(self, position: int, message: Message) -> None:
        """Read which open items an assistant reports as done."""
        noted, self._noted = self._noted, None
        sentences = read_sentences(content_text(message.content))
        reply = self._read(sentences[0].text) if sentences else None
        if noted and reply and reply.has("listed"):
            self._add(noted[0], noted[1], "open", noted[2])
        elif (
            noted
            and reply
            and reply.begins_with("noted")
            and noted[2].has("must", "every", "ban", "ban_if_firm")
        ):
            self._add(noted[0], noted[1], "rule", noted[2])
        if not any(known.kind == "open" for known in self._known):
            return
        for sentence in sentences:
            statement = self._read(sentence.text)
            if not sentence.is_question and not statement.has("report", "doubt"):
                self._finish(position, message, statement, by_user=False)

    def read_result(self, position: int, message: Message, call: ToolCall | None) -> None:
        """Read what an action made, by the first line of its result that names it."""
        if message.is_error or call is None or not (effects := _effects(call, ("en", *self._languages))):
            return
        lines = [" ".join(line.split()) for line in content_text(message.content)[:2000].splitlines()]
        for line in [line for line in lines if line][:MAX_RESULT_LINES]:
            if len(line) > MAX_RESULT_CHARACTERS or not (made := find_codes(line)):
                continue
            known = self._newest("artifact")
            old = next((one for one in known if made & find_codes(stated_text(one.text))), None)
            text = add_note(_strip_end(line), tool_note(call.name))
            if old or "edits" not in effects:
                self._store(position, message, "artifact", text, old)
            return

    def _read_answer(
        self, position: int, message: Message, sentences: list[Sentence], asked_at: int, asked: Message
    ) -> bool:
        """Read a short answer: a proposal is accepted, an option chosen, a question settled, work put off."""
        text = " ".join(one.text for one in sentences)
        answer = self._read(text)
        if sentences[0].is_question or len(answer.words) > MAX_ANSWER_WORDS or answer.has("doubt", "report"):
            return False
        said = read_sentences(content_text(asked.content))
        read = [(one, self._read(one.text)) for one in said[-3:]]
        if answer.has("defer") and len(answer.content) <= MIN_CONTENT:
            stated = [one for sentence, one in read if not sentence.is_question and len(one.content) > 1]
            return bool(stated) and self._add(asked_at, asked, "open", stated[-1])
        if option := self._chosen_option(answer, asked):
            return self._add(asked_at, asked, "decision", self._read(option))
        named = frozenset[str]().union(*(one.content for _, one in read))
        for sentence, question in read:
            is_either = question.has("either") and len(answer.words) <= MAX_CHOICE_WORDS
            is_choice = is_either or (question.has("alternative") and sentence.is_question)
            if is_choice and answer.content & named and not answer.has("open", "question", "task"):
                note = (
                    f"{QUESTION_NOTE}{sentence.text})" if len(sentence.text) <= MAX_JOINED_CHARACTERS else ""
                )
                return self._add(position, message, "decision", answer, note=note)
        if answer.has("accept") and not answer.has("refuse", "change", "condition", "question"):
            is_pointing = answer.has("decision") and not answer.content
            proposals = [
                one
                for sentence, one in read
                if len(one.content) >= MIN_CONTENT
                and (one.has("proposal") or (is_pointing and not sentence.is_question))
            ]
            if proposals and self._add(asked_at, asked, "decision", proposals[-1]):
                return len(answer.content) < MIN_CONTENT
        return False

    def _chosen_option(self, answer: Statement, asked: Message) -> str | None:
        """The line of the option that an answer names: "B please", "go with option 2"."""
        words = [word for word in answer.words.folded if word not in ",:"]
        labels = [word for word in words if len(word) == 1 and word.isalnum() and word.isascii()]
        rest = [at for at, word in enumerate(words) if word not in labels and not answer.is_function(word)]
        if len(labels) != 1 or answer.content or len(rest) > 2:
            return None
        for line in content_text(asked.content)[:MAX_MESSAGE_CHARACTERS].splitlines():
            found = _OPTION_LINE.match(line)
            if found and found[1].lower() == labels[0]:
                return " ".join(line.split()).lstrip("-*\u2022 ")
        return None

    # -- what a statement says ------------------------------------------------------------------------

    def _read(self, text: str) -> Statement:
        return read_statement(text, self._languages)

    def _heading_kind(self, text: str) -> FactKind | None:
        statement = self._read(text)
        if len(statement.words) > MAX_ANSWER_WORDS:
            return None
        return next((kind for kind in _HEADED_KINDS if statement.has(f"{kind}_heading")), None)

    def _join(self, message: Message, statement: Statement) -> Statement | None:
        """The statement with the sentence before it, where it does not say itself what it is about."""
        before = self._before
        if before is None or before.is_question or not _points(statement):
            return None
        joined = f"{before.text} {statement.text}"
        is_fit = len(joined) <= MAX_JOINED_CHARACTERS
        return (
            self._read(joined)
            if is_fit and joined in " ".join(content_text(message.content).split())
            else None
        )

    def _split(self, sentence: Sentence) -> list[Statement]:
        """A sentence as one statement, or as several where each has a kind of its own."""
        whole = self._read(sentence.text)
        if whole.has("condition", *_BLOCKERS):
            return [whole]
        made: list[Statement] = []
        start = 0
        for end, following in _cuts(whole):
            left, right = self._read(whole.text[start:end].rstrip(" ,")), self._read(whole.text[following:])
            kinds = find_kind(left), find_kind(right)
            if all(kinds) and (kinds[0] != kinds[1] or kinds[0] == "value"):
                made.append(left)
                start = following
        return [*made, self._read(whole.text[start:])] if made else [whole]

    def _read_statement(
        self, position: int, message: Message, sentence: Sentence, statement: Statement
    ) -> None:
        if statement.begins_with("scratch") and len(statement.content) < MIN_CONTENT:
            self._withdraw_last(position, message, restores=statement.has("restore"))
            return
        if statement.has("question") or any(mark in sentence.text for mark in QUESTION_MARKS):
            if statement.has("remind") and not statement.has(*_BLOCKERS):
                self._add(position, message, "open", statement)
            return
        if self._finish(position, message, statement, by_user=True) or statement.has(*_BLOCKERS):
            return
        if statement.has("withdraw") and (old := self._similar(statement, "rule", "preference", "decision")):
            self._store(position, message, old.kind, self._quote(message, old.kind, statement), old)
            return
        kind = find_kind(statement) or find_kind(self._join(message, statement) or statement)
        if kind in (None, "rule") and self._is_changed_value(statement):
            kind = "value"
        if kind == "goal":
            if self._has_goal or position > LAST_GOAL_POSITION:
                return
            self._has_goal = True
        if kind == "value":
            self._set_value(position, message, statement)
        elif kind:
            old = self._corrected(statement, kind) if statement.has("change") else None
            if old:
                self._store(position, message, kind, self._quote(message, kind, statement), old)
            else:
                self._add(position, message, kind, statement)
        elif not statement.has("condition", "task"):
            if not statement.has("now", "done", "is") and len(statement.content) >= MIN_CONTENT:
                # The assistant may take note of it.
                self._noted = position, message, statement
            if statement.begins_with("change"):
                self._correct_last(position, message, statement)

    # -- which fact it is about -----------------------------------------------------------------------

    def _newest(self, *kinds: FactKind) -> Iterator[_KnownFact]:
        return (known for known in reversed(self._known[-MAX_COMPARED_FACTS:]) if known.kind in kinds)

    def _set_value(self, position: int, message: Message, statement: Statement) -> None:
        """Put a value in the place of the one of the same thing; beside it, if there are several."""
        compare = is_same_value if statement.value else is_changed_value
        same = [one for one in self._newest("value") if compare(statement, one.statement)]
        if any(_figures(one.text) == _figures(statement.text) for one in same):
            return
        old = same[0] if len(same) == 1 else None
        self._store(position, message, "value", self._quote(message, "value", statement), old)

    def _is_changed_value(self, statement: Statement) -> bool:
        is_stated = bool(statement.attributes) and not statement.has("condition", "task", *_BLOCKERS)
        return is_stated and any(is_changed_value(statement, one.statement) for one in self._newest("value"))

    def _correct_last(self, position: int, message: Message, statement: Statement) -> None:
        """Put a bare correction ("make it 9,200") in the place of the value that was stated just before."""
        known = list(self._newest("value"))[:2]
        if not known or not 0 <= position - known[0].position <= MAX_CORRECTION_DISTANCE:
            return
        last, numbers, before = known[0], statement.numbers, known[0].statement.numbers
        is_last = all(other.position < last.position for other in self._known if other is not last)
        if not is_last or len(numbers) != 1 or len(before) != 1 or len(statement.content) > MIN_CONTENT:
            return
        is_alike = (
            set(numbers[0]) - _DIGITS == set(before[0]) - _DIGITS
            and abs(len(numbers[0]) - len(before[0])) < 2
        )
        if is_alike and statement.units <= last.statement.units:
            self._store(position, message, "value", self._quote(message, "value", statement), last)

    def _corrected(self, statement: Statement, kind: FactKind) -> _KnownFact | None:
        """The rule, preference or decision of which a correction shares most words."""
        if kind not in ("rule", "preference", "decision"):
            return None
        return self._similar(statement, kind)

    def _similar(self, statement: Statement, *kinds: FactKind) -> _KnownFact | None:
        def shared(known: _KnownFact) -> float:
            both = statement.content & known.statement.content
            fewer = min(len(statement.content), len(known.statement.content))
            return len(both) / fewer if both and fewer else 0.0

        found = [known for known in self._newest(*kinds) if shared(known) >= MIN_SHARED]
        return max(found, key=shared, default=None)

    def _finish(self, position: int, message: Message, report: Statement, *, by_user: bool) -> bool:
        """Call the open item done that a statement reports as done."""
        part = report.part_of("done")
        if not part or report.has_in(part, "undone", "condition") or report.has("doubt", "report"):
            return False
        items = list(self._newest("open"))
        content = report.content_of(part.start, part.stop) or report.content
        best, most = None, 0
        for item in items:
            stated = item.statement.content
            shared = len(content & stated)
            least = min(len(stated), len(content))
            if shared > most and shared >= MIN_SHARED * least and (by_user or shared > 1 or least == 1):
                best, most = item, shared
        is_bare = by_user and not report.content and bool(items)
        if is_bare and 0 <= position - items[0].position <= MAX_CORRECTION_DISTANCE:
            best = items[0]
        if best is None:
            return False
        self._change("done", position, message, "open", "", best.target)
        self._drop(best)
        return True

    def _withdraw_last(self, position: int, message: Message, *, restores: bool) -> None:
        """Take back the fact that was stated just before, and bring back the one that it has replaced."""
        last = max(self._known, key=lambda known: known.position, default=None)
        if last is None or last.kind == "artifact":
            return
        if not 0 < position - last.position <= MAX_CORRECTION_DISTANCE:
            return
        self._drop(last)
        old = last.replaced
        if old is None and not restores:
            self._change("done", position, message, last.kind, "", last.target)
        elif old is not None:
            self._known.append(
                _KnownFact(f"+{len(self.changes)}", old.kind, old.text, old.position, old.created_at)
            )
            self._texts.add(_normalize(old.text))
            self.changes.append(
                FactChange(
                    action="replace",
                    position=old.position,
                    created_at=old.created_at,
                    kind=old.kind,
                    text=old.text,
                    target=last.target,
                )
            )

    # -- changes --------------------------------------------------------------------------------------

    def _add(
        self, position: int, message: Message, kind: FactKind, statement: Statement, *, note: str = ""
    ) -> bool:
        text = self._quote(message, kind, statement)
        if text and self._is_repeated(kind, statement):
            return False
        return self._store(position, message, kind, text and text + note, None)

    def _store(
        self, position: int, message: Message, kind: FactKind, text: str | None, old: _KnownFact | None
    ) -> bool:
        if not text or len(text) > MAX_FACT_CHARACTERS or _normalize(text) in self._texts:
            return False
        if old is not None:
            self._drop(old)
        target = f"+{len(self.changes)}"
        self._known.append(_KnownFact(target, kind, text, position, message.created_at, old))
        self._texts.add(_normalize(text))
        self._change("replace" if old else "add", position, message, kind, text, old.target if old else None)
        return True

    def _change(
        self,
        action: FactAction,
        position: int,
        message: Message,
        kind: FactKind,
        text: str,
        target: str | None,
    ) -> None:
        self.changes.append(
            FactChange(
                action=action,
                position=position,
                created_at=message.created_at,
                kind=kind,
                text=text,
                target=target,
            )
        )

    def _drop(self, known: _KnownFact) -> None:
        self._known.remove(known)
        self._texts.discard(_normalize(known.text))

    def _is_repeated(self, kind: FactKind, statement: Statement) -> bool:
        """Tell whether a fact of this kind says the same in almost the same words."""
        content = statement.content
        for known in self._newest(kind):
            other = known.statement.content
            if content and len(content & other) >= 0.8 * len(content | other):
                return True
        return False

    def _quote(self, message: Message, kind: FactKind, statement: Statement) -> str | None:
        """A statement as a fact: without what leads to it and its full stop, with its dates resolved."""
        start = statement.words.starts[statement.lead_end] if statement.lead_end else 0
        text = _strip_end(statement.text[start:])
        if joined := self._join(message, statement):
            start, text = 0, _strip_end(joined.text)
        elif _points(statement) and len(statement.content) <= MIN_CONTENT:
            return None
        # A quotation mark or a bracket before the first word belongs to it.
        if start and statement.text[start - 1] in "\"'([{\u201c\u00ab#@$\u20ac\u00a3":
            text = _strip_end(statement.text[start - 1 :])
        if not text or len(text) > MAX_FACT_CHARACTERS:
            return None
        if kind in ("rule", "preference") and has_weekday(text):
            return text
        try:
            resolved = resolve_dates(text, message.created_at.astimezone(self._zone))
        except OverflowError:  # at the ends of the calendar
            return text
        return resolved if len(resolved) <= MAX_FACT_CHARACTERS else text


def find_kind(one: Statement) -> FactKind | None:
    """The kind of fact that a user's statement is, if it is one."""
    if one.has("question", *_BLOCKERS) or one.is_pasted():
        return None
    is_about = len(one.content) >= MIN_CONTENT
    if one.has("remind") and is_about:
        return "open"
    is_lacking = one.has_in(one.part_of("done"), "lacking") and bool(one.content)
    is_item = is_about or (bool(one.content) and len(one.words) >= MIN_WORDS)
    if ((one.has("open") and is_item) or is_lacking) and not one.has("task"):
        return "open"
    if one.value is not None and not one.has("owned", "condition", "task", "habit", "ban", "duty"):
        return "value"
    if not one.has("now") and is_item and _is_rule(one):
        return "rule"
    if one.has("preference") and len(one.words) >= MIN_CONTENT and not one.has("owned", "task"):
        return "preference"
    if one.has("condition", "task"):
        return None
    if one.has("duty") and is_about and not one.has_in(one.part_of("duty"), "now"):
        return "open"
    if one.has("decision") and one.content:
        return "decision"
    if one.is_named_after("fixed") and not one.has("owned"):
        return "value"
    return "goal" if one.has("goal") and is_about else None


def _is_rule(one: Statement) -> bool:
    """Tell whether a statement is meant to last: it says so, or orders or forbids something in general."""
    if one.has("rule"):
        return True
    if one.has("habit"):
        at = one.cues["habit"]
        # "It always rains here": before or right after it somebody does something.
        around = (*one.words.folded[:at], *one.words.folded[at + 1 : at + 3])
        return one.begins_with("habit") or not any(one.is_subject(word) for word in around)
    if one.has("task"):
        return False
    if any(_forbids(one, part) for part in one.parts_with("ban")):
        return True
    if one.begins_with("ban_if_firm") and one.has("firm"):
        return True
    return one.has("must") and one.has("every") and one.cues["every"] < one.cues["must"]


def _points(one: Statement) -> bool:
    return one.has_in(one.part(one.lead_end), "pointing")


def _forbids(one: Statement, part: range) -> bool:
    """Tell whether a part that begins like a ban is one: "no cars in the yard", not "no, it is fine"."""
    is_told = one.has_in(part[:5], "is", "done") or any(one.words.folded[at].isdigit() for at in part[1:2])
    return not is_told and len(one.content_of(part.start, part.stop)) > 0


def read_sentences(text: str) -> list[Sentence]:
    """The sentences that the author of a message said himself; of a long text those at its ends."""
    if len(text) > 2 * MAX_MESSAGE_CHARACTERS:
        text = f"{text[:MAX_MESSAGE_CHARACTERS]}\n\n{text[-MAX_MESSAGE_CHARACTERS:]}"
    found = [one for one in split_sentences(text) if len(one.text) <= MAX_SENTENCE_CHARACTERS]
    half = MAX_SENTENCES // 2
    return found if len(found) <= MAX_SENTENCES else [*found[:half], *found[-half:]]


def _cuts(one: Statement) -> list[tuple[int, int]]:
    """Where a sentence may be cut: the end of the part before a comma or a conjunction, and the next one."""
    words, cuts = one.words, list[tuple[int, int]]()
    for at, (start, following) in enumerate(pairwise(words.starts)):
        word = words.folded[at]
        if word == "," or is_conjunction(word, one.languages):
            cuts.append((start, following if word == "," else start))
    return cuts[:8]


def _effects(call: ToolCall, languages: Sequence[str]) -> frozenset[str]:
    """The effects of a call by its name, or by the command that it runs; none if it only reads."""
    name = _CAMEL.sub(r"\1 \2", call.name[:100]).replace("_", " ").replace(".", " ")
    tables = [load_language(code).phrases["tools"] for code in dict.fromkeys(languages)]
    for text in (name, call.arguments[:300]):
        words = split_words(text)
        found = frozenset(one for table in tables for match in table.find(words) for one in match.meanings)
        if text is not name:
            return found & {"shell"}
        if found:
            return frozenset() if "reads" in found else found
    return frozenset()


def _figures(text: str) -> frozenset[str]:
    read = read_statement(BRACKETED_DATE.sub("", stated_text(text)))
    return frozenset(map(plain_number, read.numbers)) or read.content


def _normalize(text: str) -> str:
    return normalize_fact(BRACKETED_DATE.sub("", text))


def _strip_end(text: str) -> str:
    return text.strip().rstrip(".!,;:\u3002\uff01 ")
