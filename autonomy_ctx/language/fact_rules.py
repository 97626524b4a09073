"""Finds standing facts without a model: what users want, decide, prefer and correct, and what actions made.

A fact is a sentence or clause quoted from its message. Cue words (`fact_cues.py`) say what kind it is, or the
way it is built (`fact_syntax.py`).
A correction or a report of completion is matched to the fact that it is about. Precision matters as much as
recall: the list is short, so questions, hypotheses, quotations, code and logs are no sources.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cache

from autonomy_ctx.language import fact_cues
from autonomy_ctx.language.compared_facts import ComparedFacts, HoldingFact, has_code
from autonomy_ctx.language.dates import has_weekday, resolve_dates
from autonomy_ctx.language.fact import (
    ASSISTANT_NOTE,
    MAX_FACT_CHARACTERS,
    QUESTION_NOTE,
    Fact,
    FactChange,
    FactKind,
    add_note,
    tool_note,
)
from autonomy_ctx.language.fact_clauses import (
    Clause,
    Subject,
    assigns_purpose,
    find_codes,
    find_numbers,
    has_value,
    is_about_all,
    is_arranged,
    is_numbered,
    is_own,
    is_same_quantity,
    is_same_subject,
    names_attribute,
    number_shape,
    old_value,
    phrase_table,
    read_clause,
    says_now,
    shared_part,
    split_clauses,
    word_set,
)
from autonomy_ctx.language.fact_completion import completion, is_bare_report
from autonomy_ctx.language.fact_messages import (
    MAX_SENTENCES_AT_EACH_END,
    chosen_option,
    heading_kind,
    is_action,
    is_asked,
    is_edit,
    join_subject,
    read_sentences,
    read_statement,
    settled_question,
)
from autonomy_ctx.language.fact_syntax import is_undone, is_universal, plans
from autonomy_ctx.language.phrases import PhraseTable, split_words
from autonomy_ctx.language.sentences import Sentence
from autonomy_ctx.messages.events import mail_id
from autonomy_ctx.messages.message import ChatRole, Message, ToolCall, content_text

MAX_FACTS_PER_USER_MESSAGE = 10
MAX_FACTS_PER_ASSISTANT_MESSAGE = 2
MAX_LIST_ITEM_CHARACTERS = 200
MAX_RESULT_CHARACTERS = 200
MAX_ACCEPTANCE_WORDS = 12
MAX_ACKNOWLEDGEMENT_WORDS = 25
MAX_BARE_REPLY_WORDS = 3  # "Sure." and the like
LAST_GOAL_POSITION = 6  # "I want to ..." is the goal of a conversation only at its beginning
MIN_SHARED = 0.5
MIN_SHARED_BY_VALUES = 0.3
MIN_REPORTED_BY_ASSISTANT = 0.45  # more than this of an open item, in an assistant's report
MAX_BARE_WORDS = 6  # in a correction that does not say what it corrects
MAX_DONE_DISTANCE = 4  # messages between an open item and a bare "done"

_FACT_KINDS: tuple[FactKind, ...] = ("rule", "preference", "decision", "open")


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
    """Find facts in steps, the longest of them a short message; the length of each comes before it."""
    facts = ComparedFacts(standing)
    yield from facts.read()
    finder = _Finder(zone, facts)
    previous_position, previous = before or (0, None)
    calls: dict[str, ToolCall] = {}
    for position, message in messages:
        yield len(content_text(message.content))
        if mail_id(message) is not None:
            # Another agent's words, which nobody here takes note of or answers.
            previous = None
            continue
        match message.role:
            case ChatRole.USER:
                is_answered = (
                    previous is not None
                    and previous.role is ChatRole.ASSISTANT
                    and finder.read_answer(position, message, previous_position, previous)
                )
                if not is_answered:
                    yield from finder.read_user(position, message)
            case ChatRole.ASSISTANT:
                calls.update((call.id, call) for call in message.tool_calls if call.id)
                if previous is not None and previous.role is ChatRole.USER:
                    finder.read_acknowledgement(message, previous_position, previous)
                finder.read_assistant(position, message)
            case ChatRole.TOOL:
                finder.read_result(position, message, calls.get(message.tool_call_id or ""))
                continue
            case _:
                continue
        previous, previous_position = message, position
    return finder.changes


def load_tables() -> None:
    """Read the tables of all languages, which the first search for facts otherwise does: 60 ms of CPU."""
    example = Message("user", "The port is 80. Set it to 81 tomorrow. Never mind 5 May. Rules:\n- use it")
    find_facts([(1, example)], [])


class _Finder:
    """Reads messages in order and collects the changes."""

    def __init__(self, zone: tzinfo, facts: ComparedFacts) -> None:
        self._zone, self._facts = zone, facts
        self.changes: list[FactChange] = []

    # -- what is read ---------------------------------------------------------------------------------

    def read_user(self, position: int, message: Message) -> Generator[int, None, None]:
        """Read what a user states."""
        room = MAX_FACTS_PER_USER_MESSAGE
        heading: FactKind | None = None
        before: Sentence | None = None
        whole = " ".join(content_text(message.content).split())
        for sentence in read_sentences(message):
            is_read = before is None or self._is_source(position)
            sentence, before = join_subject(sentence, None if is_read else before, whole), sentence
            if sentence.text.endswith((":", "\uff1a")):
                heading = heading_kind(sentence.text)
                continue
            if heading and sentence.is_list_item and not sentence.is_question:
                if len(sentence.text) <= MAX_LIST_ITEM_CHARACTERS:
                    room -= self._add(position, message, heading, read_clause(sentence.text))
            else:
                heading = None
                for clause in split_clauses(read_clause(sentence.text)):
                    room -= self._read_user_clause(position, message, sentence, clause)
            if room <= 0:
                return
            yield len(sentence.text)

    def read_assistant(self, position: int, message: Message) -> None:
        """Read what an assistant reports: completions, agreements, open items and what its actions made."""
        room = MAX_FACTS_PER_ASSISTANT_MESSAGE
        for sentence in read_sentences(message):
            clause = read_clause(sentence.text)
            is_report = clause.has("report") and not (clause.subject and self._same_value(clause.subject))
            if clause.has("hypothetical") or is_report or sentence.text.endswith((":", "\uff1a")):
                continue
            kind: FactKind | None = None
            if not sentence.is_question:
                self._finish(position, message, clause, by_user=False)
                if clause.has("ack open") and len(clause.content) < 3:
                    continue
                if clause.has("artifact") and (made := find_codes(sentence.text)):
                    room -= self._add_artifact(position, message, sentence.text, made, is_action=False)
                elif clause.subject and (clause.has("change", "report") or is_arranged(clause)):
                    is_replaced = self._replace_value(position, message, clause)
                    if not is_replaced and is_arranged(clause):
                        kind = "value"
                elif (says_now(clause) or clause.has("change")) and self._is_known_figure(clause):
                    room -= self._set_value(position, message, clause)
                elif clause.has("agreement"):
                    kind = "decision"
                elif clause.has("open") and not clause.has("condition", "later"):
                    kind = "open"
            elif clause.has("open") and ":" in sentence.text:
                kind = "open"
            if kind:
                room -= self._add(position, message, kind, clause)
            if room <= 0:
                return

    def read_answer(self, position: int, message: Message, asked_at: int, asked: Message) -> bool:
        """A user's short answer: a proposal is decided, a choice made, or something put off.

        Whether nothing else is in it.
        """
        sentences = read_sentences(message)
        if not sentences or sentences[0].is_question:
            return False
        text = " ".join(sentence.text for sentence in sentences)
        if len(split_words(text)) > MAX_ACCEPTANCE_WORDS:
            return False
        clause = read_clause(text)
        if option := chosen_option(clause, asked):
            return self._add(asked_at, asked, "decision", read_clause(option))
        if clause.has("defer") and len(clause.content) <= 4:
            if statement := read_statement(asked):
                self._add(asked_at, asked, "open", statement)
            return True
        if not clause.has("hypothetical", "report", "question", "defer", "open", "due"):
            question = settled_question(clause, asked)
            if question is not None:
                statement = read_statement(message) or clause
                return self._add(position, message, "decision", statement, asked=question)
        is_pointing = clause.has("decision") and len(clause.content) < 2
        if not is_pointing and not (clause.has("accept") and not clause.has("refuse", "change", "condition")):
            return False
        said = [sentence for sentence in read_sentences(asked) if not sentence.is_question]
        read = [read_clause(sentence.text) for sentence in said[-MAX_SENTENCES_AT_EACH_END:]]
        proposals = [one for one in read if one.has("proposal")] or (read if is_pointing else [])
        if proposals and len(proposals[-1].words) > 3:
            self._add(asked_at, asked, "decision", proposals[-1])
        return False

    def read_acknowledgement(self, message: Message, said_at: int, said: Message) -> None:
        """Read what a user said, where the assistant takes note of it and no cue told what it is."""
        sentences = read_sentences(message)[:2]
        if not sentences or sentences[0].is_question or message.tool_calls:
            return
        clause = read_clause(" ".join(sentence.text for sentence in sentences))
        if not 0 < len(clause.words) <= MAX_ACKNOWLEDGEMENT_WORDS or self._is_source(said_at):
            return
        # "Room it is", but not "here it is".
        is_named = clause.words.folded[0] not in ("here", "there")
        is_noted = clause.has("ack note") or (is_named and sentences[0].text.rstrip(".! ").endswith(" it is"))
        if not is_noted and not clause.has("ack open", "ack figure"):
            return
        for sentence in read_sentences(said)[-3:]:
            stated = read_clause(sentence.text)
            if is_asked(sentence, stated) or stated.has("hypothetical", "report", "request"):
                continue
            if stated.has("done") and not stated.has("not done"):
                continue
            if len(stated.words) < 3 or not stated.content or is_numbered(stated):
                continue
            is_polite = any(word in word_set("POLITE_WORDS") for word in stated.words.folded)
            if clause.has("ack open") or (stated.has("duty") and is_own(stated)):
                self._add(said_at, said, "open", stated)
            elif stated.quantities or stated.codes:
                self._set_value(said_at, said, stated)
            elif (is_noted or (is_polite and len(clause.words) <= MAX_BARE_REPLY_WORDS)) and len(
                stated.content
            ) > 1:
                self._add(said_at, said, "preference", stated)

    def _is_source(self, position: int) -> bool:
        """Tell whether a change comes from this message."""
        return any(change.position == position for change in self.changes[-MAX_FACTS_PER_USER_MESSAGE:])

    def _set_value(self, position: int, message: Message, clause: Clause) -> bool:
        """Puts a value in place of the one of the same thing, or adds it."""
        old = self._same_quantity(clause)
        if old is None:
            return self._replace_value(position, message, clause) or self._add(
                position, message, "value", clause
            )
        return _repeats_value(clause, old) or self._replace(position, message, old, old.kind, clause)

    def _is_known_figure(self, clause: Clause) -> bool:
        """Tell whether an assistant's figure is of something that has a value, or is plainly the newest."""
        is_plain = says_now(clause) and clause.has("change") and not clause.codes
        is_same = clause.subject is not None and self._same_value(clause.subject) is not None
        return is_plain or is_same or self._same_quantity(clause) is not None

    def _same_quantity(self, clause: Clause) -> HoldingFact | None:
        for known in self._facts.newest():
            if known.kind not in ("value", "decision") or (known.subject and clause.subject):
                continue
            if is_same_quantity(clause, known.clause):
                return known
        return None

    def read_result(self, position: int, message: Message, call: ToolCall | None) -> None:
        """Read what an action made, by the first line of its result that names it."""
        if message.is_error or call is None or not is_action(call):
            return
        lines = [" ".join(line.split()) for line in content_text(message.content)[:2000].splitlines()]
        lines = [line for line in lines if line]
        for line in lines[:40]:
            if len(line) <= MAX_RESULT_CHARACTERS and (made := find_codes(line)):
                if self._find_artifact(made) or not is_edit(call):
                    line = add_note(_strip_end(line), tool_note(call.name))
                    self._add_artifact(position, message, line, made, is_action=True)
                return

    # -- what a clause says ---------------------------------------------------------------------------

    def _read_user_clause(self, position: int, message: Message, sentence: Sentence, clause: Clause) -> bool:
        is_request = clause.has("request")
        if len(clause.words) < 2 and not clause.has("done"):
            return False
        if clause.has("report") and not clause.has("open", "due"):
            return False
        if is_asked(sentence, clause):
            is_item = (clause.has("open", "due") and is_request) or (
                clause.has("open") and ":" in clause.text
            )
            if not is_item and not (is_request and clause.has("rule", "change", "later")):
                return False
        elif self._finish(position, message, clause, by_user=True):
            return False
        if clause.has("hypothetical"):
            return False
        if clause.has("withdraw") and (old := self._similar(clause, ("rule", "preference", "decision"))):
            return self._replace(position, message, old, old.kind, clause)
        kind = self._kind(position, clause, is_request)
        if clause.has("change") and (old := self._corrected(clause, kind)) and _may_replace(clause, old):
            return self._replace(position, message, old, kind if kind in _FACT_KINDS else old.kind, clause)
        if kind == "rule" and clause.subject and clause.numbers and self._same_value(clause.subject):
            kind = "value"
        if kind == "value":
            return self._set_value(position, message, clause)
        if kind in (None, "decision") and (old := self._same_quantity(clause)):
            return _repeats_value(clause, old) or self._replace(position, message, old, old.kind, clause)
        return kind is not None and self._add(position, message, kind, clause)

    def _kind(self, position: int, clause: Clause, is_request: bool) -> FactKind | None:
        """The kind of fact that a user's clause is, if it is one."""
        if clause.has("open") or (clause.has("later") and (is_request or clause.has("duty", "wish"))):
            return "open"
        if (clause.has("due", "inquiry") or is_undone(clause)) and not (
            clause.has("rule") and is_about_all(clause)
        ):
            return "open"
        if clause.has("memory") and (clause.has("duty") or ": " in clause.text):
            return "open"
        if clause.has("duty") and clause.has("before") and not clause.has("condition") and is_own(clause):
            return "open"
        if clause.content and (clause.has("rule") or is_universal(clause)):
            return "rule"
        if clause.has("condition", "task"):
            return None
        if clause.has("preference"):
            return "preference"
        if clause.has("decision") or (clause.has("choice") and assigns_purpose(clause)):
            # "Let's go with that" says nothing by itself.
            return "decision" if clause.content else None
        if clause.has("goal", "wish") and self._may_be_goal(position, clause):
            return "goal"
        if clause.subject or (
            clause.has("value") and has_value(clause.text, clause.words, 1) and not is_numbered(clause)
        ):
            return "value"
        if clause.has("change") and old_value(clause) and clause.numbers:
            return "value"
        is_amount = clause.has("amount") or (clause.has("change") and names_attribute(clause))
        if is_amount and clause.quantities:
            return "value"
        if len(clause.content) > 1 and (clause.has("contrast") or plans(clause)):
            return "decision"
        return None

    def _may_be_goal(self, position: int, clause: Clause) -> bool:
        if clause.has("goal"):
            return True
        return position <= LAST_GOAL_POSITION and not self._facts.has_kind("goal")

    # -- which fact it is about -----------------------------------------------------------------------

    def _corrected(self, clause: Clause, kind: FactKind | None) -> HoldingFact | None:
        """The fact that a correction is about, by its subject, old value, words or the form of its value."""
        if clause.subject and (same := self._same_value(clause.subject)):
            return same
        old = old_value(clause)
        if old:
            for known in self._facts.newest():
                if known.kind not in ("open", "goal") and old <= known.clause.content:
                    return known
        wanted: tuple[FactKind, ...] = ("rule", "preference", "decision", "value", "goal")
        if kind in ("rule", "preference"):
            wanted = ("rule", "preference")
        elif kind == "value":
            wanted = ("rule", "preference", "decision", "value")
        if similar := self._similar(clause, wanted):
            return similar
        if quantity := self._same_quantity(clause):
            return quantity
        is_bare = kind in (None, "value") and clause.subject is None and len(clause.content) <= MAX_BARE_WORDS
        return self._same_shape(clause) if is_bare and not old else None

    def _same_value(self, subject: Subject) -> HoldingFact | None:
        for known in self._facts.newest():
            other = known.subject
            if known.kind in ("value", "decision") and other and is_same_subject(subject, other):
                return known
        return None

    def _similar(self, clause: Clause, kinds: Sequence[FactKind]) -> HoldingFact | None:
        best, most = None, 0.0
        for known in self._facts.newest():
            if known.kind in kinds:
                shared = shared_part(clause.content, known.clause.content)
                least = MIN_SHARED
                if known.kind == "value" and len(clause.content & known.clause.content) > 1:
                    least = MIN_SHARED_BY_VALUES
                if shared >= least and shared > most:
                    best, most = known, shared
        return best

    def _same_shape(self, clause: Clause) -> HoldingFact | None:
        """The value that looks most like the new one: "make it 9,200" is about 11,500, not about port 80."""
        numbers = clause.numbers
        if not numbers:
            return None
        best, most = None, 0
        moments = frozenset(("date", "time"))
        is_moment = not moments.isdisjoint(clause.quantities)
        names_thing = has_code(clause.codes)
        for known in self._facts.newest():
            if known.kind != "value" and not (known.kind == "decision" and is_moment):
                continue
            if known.has_code == names_thing and (others := known.numbers):
                if is_moment == moments.isdisjoint(known.clause.quantities):
                    continue
                units = word_set("UNITS").intersection(clause.words.folded)
                alike = 2 * (not units.isdisjoint(known.clause.words.folded))
                alike += any(number_shape(one) == number_shape(other) for one in numbers for other in others)
                alike += len(set(numbers) & set(others))
                alike += any(abs(len(one) - len(other)) <= 1 for one in numbers for other in others)
                if alike > most:
                    best, most = known, alike
        return best

    # -- changes --------------------------------------------------------------------------------------

    def _finish(self, position: int, message: Message, clause: Clause, *, by_user: bool) -> bool:
        """Calls the open item done that the clause reports as done."""
        if clause.has("not done", "open", "due", "request"):
            return False
        # An assistant talks of many things that it did.
        best, most = None, 0.0 if by_user else MIN_REPORTED_BY_ASSISTANT
        for known in self._facts.newest():
            if known.kind == "open" and (part := completion(clause, known.clause)) > most:
                best, most = known, part
        if best is None and by_user and is_bare_report(clause):
            opened = next((known for known in self._facts.newest() if known.kind == "open"), None)
            if opened and 0 <= position - opened.position <= MAX_DONE_DISTANCE:
                best = opened
        if best is None:
            return False
        self._facts.drop(best)
        self.changes.append(
            FactChange(
                action="done",
                position=position,
                created_at=message.created_at,
                kind="open",
                target=best.target,
            )
        )
        return True

    def _replace_value(self, position: int, message: Message, clause: Clause) -> bool:
        old = self._same_value(clause.subject) if clause.subject else None
        if old is None or _repeats_value(clause, old):
            return old is not None
        return self._replace(position, message, old, old.kind, clause)

    def _replace(
        self, position: int, message: Message, old: HoldingFact, kind: FactKind, clause: Clause
    ) -> bool:
        is_of_assistant = message.role is ChatRole.ASSISTANT
        if not old.may_be_replaced(clause) or (is_of_assistant and not old.is_of_assistant):
            return self._add(position, message, "value" if is_of_assistant else kind, clause)
        text = self._quote(message, kind, clause)
        if text is None or self._facts.has_text(text):
            return True
        self._facts.drop(old)
        self._store("replace", position, message, kind, text, old.target, replaced=old)
        return True

    def _add(
        self, position: int, message: Message, kind: FactKind, clause: Clause, *, asked: str = ""
    ) -> bool:
        text = self._quote(message, kind, clause)
        if text and asked and len(text) + len(asked) + len(QUESTION_NOTE) < MAX_FACT_CHARACTERS:
            text = f"{text}{QUESTION_NOTE}{asked})"
        if text is None or self._facts.has_text(text) or self._is_repeated(kind, text, clause):
            return False
        self._store("add", position, message, kind, text, None)
        return True

    def _quote(self, message: Message, kind: FactKind, clause: Clause) -> str | None:
        text = _quote(clause, kind, _local_time(message.created_at, self._zone))
        if text is None or kind != "value" or message.role is not ChatRole.ASSISTANT:
            return text
        return add_note(text, ASSISTANT_NOTE)

    def _add_artifact(
        self, position: int, message: Message, text: str, made: frozenset[str], *, is_action: bool
    ) -> bool:
        text = _strip_end(text)
        if len(text) > MAX_FACT_CHARACTERS or self._facts.has_text(text):
            return False
        known = self._find_artifact(made)
        if known is None:
            self._store("add", position, message, "artifact", text, None)
        elif is_action or not made <= known.identifiers:
            # An assistant repeats what a tool reported; only an action changes it.
            self._facts.drop(known)
            self._store("replace", position, message, "artifact", text, known.target)
        return True

    def _find_artifact(self, made: frozenset[str]) -> HoldingFact | None:
        named = (
            known for known in self._facts.newest() if known.kind == "artifact" and made & known.identifiers
        )
        return next(named, None)

    def _store(
        self,
        action: str,
        position: int,
        message: Message,
        kind: FactKind,
        text: str,
        target: str | None,
        replaced: HoldingFact | None = None,
    ) -> None:
        self._facts.add(HoldingFact(f"+{len(self.changes)}", kind, text, position, replaced))
        self.changes.append(
            FactChange(
                action="replace" if action == "replace" else "add",
                position=position,
                created_at=message.created_at,
                kind=kind,
                text=text,
                target=target,
            )
        )

    def _is_repeated(self, kind: FactKind, text: str, clause: Clause) -> bool:
        """Tell whether a fact of this kind says the same in almost the same words."""
        content = clause.content
        if not content:
            return False
        numbers = tuple(find_numbers(text))
        for known in self._facts.newest():
            if known.kind != kind:
                continue
            other = known.clause.content
            same = len(content & other)
            # Of two sets, all that is not shared is counted once.
            if same >= 0.8 * (len(content) + len(other) - same) and numbers == known.numbers:
                return True
            if kind == "decision" and content <= other:
                return True
            if kind == "open" and same > 1 and same >= 0.6 * min(len(content), len(other)):
                return True
        return False


# -- what else is asked of a message --------------------------------------------------------------------


def _repeats_value(clause: Clause, known: HoldingFact) -> bool:
    """Tell whether a clause gives a subject the value that it has already."""
    if known.numbers:
        return clause.numbers == known.numbers
    return known.clause.content <= clause.content and not clause.has("change")


def _may_replace(clause: Clause, old: HoldingFact) -> bool:
    """Tell whether a correction has a value, where it corrects one: "nope, nothing changed" has none."""
    return old.kind != "value" or has_value(clause.text, clause.words) or bool(clause.quantities)


# -- texts ----------------------------------------------------------------------------------------------


def _local_time(at: datetime, zone: tzinfo) -> datetime:
    try:
        return at.astimezone(zone)
    except OverflowError:  # at the ends of the calendar
        return at


def _quote(clause: Clause, kind: FactKind, said_at: datetime) -> str | None:
    """A clause as a fact: without its first filler words and full stop, with dates; nothing if too long."""
    text, words = clause.text, clause.words
    at = 0
    while at < len(words) and (lead := _lead_table().match(text, words, at)):
        at = lead.last + 1
        while at < len(words) and words.folded[at] in (",", ":"):
            at += 1
    start = words.starts[at] if at < len(words) else 0
    quoted = _strip_end(text[start:])
    # A quotation mark or a bracket before the first word belongs to it.
    if start and text[start - 1] in "\"'([{\u201c\u00ab#@$\u20ac\u00a3":
        quoted = _strip_end(text[start - 1 :])
    if not quoted or len(quoted) > MAX_FACT_CHARACTERS:
        return None
    if kind in ("rule", "preference") and has_weekday(quoted):
        return quoted
    resolved = resolve_dates(quoted, said_at)
    return resolved if len(resolved) <= MAX_FACT_CHARACTERS else quoted


@cache
def _lead_table() -> PhraseTable[str]:
    return phrase_table(fact_cues.FACT_CUES["lead"])


def _strip_end(text: str) -> str:
    return text.strip().rstrip(".!,;:\u3002\uff01 ")
