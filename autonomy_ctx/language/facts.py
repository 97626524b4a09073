"""Finds standing facts without a model: what users want, decide, prefer and correct, and what actions made.

A fact is a sentence or clause quoted from the user's own words. Its cues (`statement.py`) say its kind.
Precision comes first: what is asked, supposed, reported, over, about somebody else or only for now is none. A
value takes the place of another only if both name the same attribute of the same thing. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.dates import has_weekday, resolve_dates
from autonomy_ctx.language.sentences import QUESTION_MARKS, Sentence, split_sentences
from autonomy_ctx.language.statement import (
    BRACKETED_DATE,
    Statement,
    find_codes,
    is_changed_value,
    is_same_value,
    owner_codes,
    read_languages,
    read_statement,
)
from autonomy_ctx.language.tables import find_languages, load_language
from autonomy_ctx.language.words import split_words, text_ends
from autonomy_ctx.messages.events import mail_id
from autonomy_ctx.messages.fact import (
    ASSISTANT_NOTE,
    MAX_FACT_CHARACTERS,
    QUESTION_NOTE,
    Fact,
    FactChange,
    FactKind,
    add_note,
    normalize_fact,
    stated_text,
    tool_note,
)
from autonomy_ctx.messages.message import ChatRole, Message, ToolCall, content_text

Utterance = tuple[int, Message]
MAX_FACTS_PER_MESSAGE = 8
MAX_COMPARED_FACTS = 100  # the newest: a correction is about something that is not long ago or still shown
MAX_TEXT, MAX_SENTENCES = 20_000, 40  # of a long message, mostly pasted: at each end, and of all
MAX_SENTENCE, MAX_JOINED = 300, 200  # characters
MAX_ANSWER_WORDS, MAX_CHOICE_WORDS = 12, 8
MAX_NOTE = 300  # characters of a reply that takes note of what was said
MAX_RESULT_LINES, MAX_RESULT_CHARACTERS = 40, 200
MAX_DISTANCE = 6  # messages between a fact and a correction that does not say what it corrects
MIN_CONTENT = 2  # words that say what a statement is about; one is enough in a longer statement
MIN_WORDS = 4
MAX_VALUE_CONTENT = 8  # such words of what states a value
MAX_POINTING_CONTENT = 3  # such words beside an "it" or "that" which points to another sentence
MIN_SHARED = 0.5  # of the words of an open item or of its report, whichever has fewer
# Of a message, to tell whether it states a rule: at each end, and of a sentence.
MAX_RULE_END, MAX_RULE_SENTENCE = 1_000, 600
# Without one of these no sentence is a rule or a preference.
_RULE_CUES = frozenset(("preference", "rule", "habit", "ban", "ban_if_firm", "must"))
# Whoever says one of these states nothing that holds.
_BLOCKERS = ("report", "doubt", "other", "past")
# A figure beside one of these states nothing.
_NO_VALUE = ("owned", "condition", "task", "trying", "habit", "ban", "duty")
# An order, if the assistant takes note of it.
_ORDERS = ("must", "every", "ban", "ban_if_firm")
_HEADED_KINDS: tuple[FactKind, ...] = ("rule", "preference", "decision", "open")
# Stated beside a question, it is most often what the question is about, and only for now.
_PASSING_KINDS: tuple[FactKind, ...] = ("goal", "open", "value")
_SETTLED_KINDS: tuple[FactKind, ...] = ("rule", "preference", "decision")
_OPTION_LINE = lazy_pattern(r"\W{0,6}(?:[^\W\d_]{3,10}\s{1,3})?\(?([a-z]|\d{1,2})(?:[).:]|\*\*| -)", 2)
_FORMULA = lazy_pattern(r"\\\(|\$[^$]{0,80}[\\^][^$]{0,80}\$")
_CAMEL, _DIGIT = lazy_pattern("([a-z])([A-Z])"), lazy_pattern(r"\d")


def find_facts(
    messages: Sequence[Utterance],
    standing: Sequence[Fact],
    zone: tzinfo = UTC,
    before: Utterance | None = None,
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
    messages: Sequence[Utterance],
    standing: Sequence[Fact],
    zone: tzinfo = UTC,
    before: Utterance | None = None,
) -> Generator[int, None, list[FactChange]]:
    """Find facts in steps, the longest of them a sentence; the length of what is read comes before it."""
    finder = _Finder(standing, zone)
    calls: dict[str, ToolCall] = {}
    for position, message in messages:
        yield len(content_text(message.content))
        if mail_id(message) is not None:
            # Another agent's words, which nobody here answers.
            before = None
        elif message.role is ChatRole.TOOL:
            finder.read_result((position, message), calls.get(message.tool_call_id or ""))
        elif message.role in (ChatRole.USER, ChatRole.ASSISTANT):
            calls.update((call.id, call) for call in message.tool_calls if call.id)
            if message.role is ChatRole.USER:
                yield from finder.read_user((position, message), before)
            else:
                finder.read_assistant((position, message))
            before = position, message
    return finder.changes


class _Finder:
    """Reads messages in order and collects the changes."""

    def __init__(self, standing: Sequence[Fact], zone: tzinfo) -> None:
        self._zone = zone
        self._all = {fact.id: fact for fact in standing}
        holding = sorted((fact for fact in standing if fact.state == "holds"), key=lambda fact: fact.position)
        self._texts = {_normalize(fact.text) for fact in holding}
        self._known = holding[-MAX_COMPARED_FACTS:]
        self._statements: dict[str, Statement] = {}
        self._languages = read_languages(stated_text(holding[-1].text)) if holding else ()
        self._own = ""  # the message without what was pasted into it
        self._asks = False  # whether it asks for something
        self._said: list[Sentence] = []  # the sentences of the message, up to the one that is read
        self._asked: Utterance | None = None  # what the message answers
        self._noted: list[tuple[Utterance, Statement]] = []  # what the assistant may take note of
        self.changes: list[FactChange] = []

    # -- what is read ---------------------------------------------------------------------------------

    def read_user(self, spoken: Utterance, asked: Utterance | None) -> Generator[int, None, None]:
        """Read what a user states, after what the message answers."""
        sentences = _read_sentences(spoken[1])
        self._own = " ".join(one.text for one in sentences)
        self._languages = read_languages(self._own, self._languages)
        self._asks = any(one.is_question for one in sentences)
        self._said, self._asked = [], asked if asked and asked[1].role is ChatRole.ASSISTANT else None
        self._noted, heading = [], None
        first = len(self.changes)
        if self._asked and self._read_answer(spoken, sentences, self._asked):
            return
        for sentence in sentences:
            self._said.append(sentence)
            if len(self.changes) - first >= MAX_FACTS_PER_MESSAGE:
                return
            yield len(sentence.text)
            read = self._read(sentence.text)
            if sentence.text.endswith((":", "\uff1a")):
                named = (kind for kind in _HEADED_KINDS if read.has(f"{kind}_heading"))
                heading = next(named, None) if len(read.words) <= MAX_ANSWER_WORDS else None
            elif heading and sentence.is_list_item and not sentence.is_question:
                self._add(spoken, heading, read)
            elif sentence.text.startswith("**") and find_kind(read) == "rule":
                # "**Consistency**: Make sure that ...": the user quotes what a model has advised.
                continue
            else:
                heading = None
                stated = self._read(read.before("asks"))
                self._asks = self._asks or stated.text != read.text
                is_asked = any(map(stated.text.count, QUESTION_MARKS))
                for part in self._split(stated):
                    self._read_statement(spoken, part, is_asked=is_asked)

    def read_assistant(self, spoken: Utterance) -> None:
        """Read whether an assistant takes note of what was said, and which open items it reports as done."""
        sentences = _read_sentences(spoken[1])
        noted, self._noted = self._noted, []
        # "Certainly! Here is ...": a long reply does something, and takes note of nothing.
        is_short = len(content_text(spoken[1].content)) <= MAX_NOTE
        if noted and sentences and is_short and not sentences[0].is_question:
            self._take_note(noted, self._read(sentences[0].text))
        if any(self._newest("open")):
            for sentence in sentences:
                if not sentence.is_question:
                    self._finish(spoken, self._read(sentence.text))

    def _take_note(self, noted: list[tuple[Utterance, Statement]], reply: Statement) -> None:
        """Add what a user said without a cue, if the assistant's reply tells what it was."""
        for said, statement in noted:
            is_order = statement.has(*_ORDERS) or statement.is_request
            if reply.begins_with("noted") and is_order and not statement.has("owned"):
                self._add(said, "rule", statement)
            elif reply.begins_with("recorded") and len(statement.numbers) == 1:
                self._add(said, "value", statement)
            elif statement is noted[-1][1] and reply.has("listed", "chosen"):
                self._add(said, "open" if reply.has("listed") else "decision", statement)

    def read_result(self, spoken: Utterance, call: ToolCall | None) -> None:
        """Read what an action made, by the first line of its result that names it."""
        if call is None or spoken[1].is_error or not (effects := _effects(call, ("en", *self._languages))):
            return
        lines = [" ".join(line.split()) for line in content_text(spoken[1].content)[:2000].splitlines()]
        for line in [line for line in lines if line][:MAX_RESULT_LINES]:
            if len(line) <= MAX_RESULT_CHARACTERS and (made := find_codes(line)):
                known = self._newest("artifact")
                old = next((one for one in known if made & find_codes(stated_text(one.text))), None)
                if old or "edits" not in effects:
                    note = tool_note(call.name, _show_arguments(call))
                    self._store(spoken, "artifact", add_note(_strip_end(line), note), old)
                return

    def _read_answer(self, spoken: Utterance, sentences: list[Sentence], asked: Utterance) -> bool:
        """Read a short answer: a proposal is accepted, an option chosen, a question settled, work put off."""
        if not sentences or sentences[0].is_question or len(split_words(self._own)) > MAX_ANSWER_WORDS:
            return False
        answer = self._read(self._own)
        if answer.has("doubt", "report", "question") or find_kind(answer) == "rule":
            return False
        read = [(one, self._read(one.text)) for one in _read_sentences(asked[1])[-3:]]
        stated = [one for sentence, one in read if not sentence.is_question and len(one.content) > 1]
        if answer.has("defer") and len(answer.content) <= MIN_CONTENT:
            return bool(stated) and not _is_bare(stated[-1], "open") and self._add(asked, "open", stated[-1])
        if option := _chosen_option(answer, asked[1]):
            return self._add(asked, "decision", self._read(option))
        if len(answer.words) <= MIN_WORDS and not answer.has("refuse", "change"):
            # "I moved it to port 9000." "Great."
            for sentence, told in read:
                if not sentence.is_question and not told.has("doubt", "proposal", "offer", "question"):
                    self._update(asked, told, ASSISTANT_NOTE)
        if any(one.has("offer") for _, one in read):
            # Work for now, and what it made is an artifact.
            return False
        named = frozenset[str]().union(*(one.content for _, one in read))
        for sentence, question in read:
            is_open = question.has("alternative") and sentence.is_question
            is_choice = is_open or (question.has("either") and len(answer.words) <= MAX_CHOICE_WORDS)
            if is_choice and answer.content & named and not answer.has("open", "task", "defer"):
                is_short = len(sentence.text) <= MAX_JOINED
                note = f"{QUESTION_NOTE}{sentence.text})" if is_short else ""
                return self._add(spoken, "decision", answer, note)
        if answer.has("accept") and not answer.has("refuse", "change", "condition"):
            # "Let's go with that" accepts whatever was said.
            is_pointing = answer.has("decision") and not answer.content
            proposals = stated if is_pointing else [one for one in stated if one.has("proposal")]
            note = f"{QUESTION_NOTE}{proposals[-1].text})" if proposals else ""
            if proposals and self._add(spoken, "decision", answer, note):
                return len(answer.content) < MIN_CONTENT
        return False

    # -- what a statement says ------------------------------------------------------------------------

    def _read(self, text: str) -> Statement:
        return read_statement(text, self._languages)

    def _split(self, whole: Statement) -> list[Statement]:
        """A sentence as one statement, or as several where each has a kind of its own."""
        made: list[Statement] = []
        start = 0
        for end, following in () if whole.has("condition") or not find_kind(whole) else whole.cuts:
            left, right = self._read(whole.text[start:end].rstrip(" ,")), self._read(whole.text[following:])
            kinds = find_kind(left), find_kind(right)
            # A rule keeps what it applies to: "whenever you make a menu, no nuts".
            if all(kinds) and "rule" not in kinds and (kinds[0] != kinds[1] or kinds[0] == "value"):
                made.append(left)
                start = following
        return [*made, self._read(whole.text[start:])] if made else [whole]

    def _join(self, message: Message, statement: Statement, kind: FactKind | None = None) -> Statement | None:
        """The statement with the sentence before it, where it does not say itself what it is about."""
        if not self._said or not _is_bare(statement, kind):
            return None
        whole = " ".join(content_text(message.content).split())
        before = self._said[-2] if len(self._said) > 1 and not self._said[-2].is_question else None
        joined = f"{before.text} {self._said[-1].text}" if before else ""
        # A short message is quoted whole.
        for text in (self._own, joined) if kind else (joined,):
            lead = text.partition(self._said[-1].text)[0]
            is_more = len(text) <= MAX_JOINED and not any(map(text.count, QUESTION_MARKS))
            is_more = is_more and len(self._read(lead).content) >= MIN_CONTENT
            if is_more and text in whole and not _is_bare(read := self._read(text), kind):
                return read
        return None

    def _asked_note(self, answer: Statement) -> str:
        """The question that a statement answers, without which it says too little."""
        sentences = _read_sentences(self._asked[1]) if self._asked else []
        if not sentences or len(sentences[-1].text) > MAX_JOINED:
            return ""
        is_answer = answer.content & self._read(sentences[-1].text).content
        return f"{QUESTION_NOTE}{sentences[-1].text})" if is_answer else ""

    def _read_statement(self, spoken: Utterance, statement: Statement, *, is_asked: bool) -> None:
        if statement.begins_with("scratch") and len(statement.content) < MIN_CONTENT:
            self._take_back(spoken, restores=statement.has("restore"))
            return
        if is_asked or statement.has("question", "asks"):
            if statement.has("remind") and not statement.has(*_BLOCKERS):
                self._add(spoken, "open", statement)
            return
        if statement.has(*_BLOCKERS):
            # "Marketing wants a bigger number, so the version is 2.0 now."
            if statement.has("change") and not statement.has("doubt", "other", "past"):
                self._update(spoken, statement)
            return
        if self._finish(spoken, statement, by_user=True):
            return
        kind = find_kind(statement)
        is_own = kind == "value" and statement.value is not None and statement.value.is_own
        if kind in _PASSING_KINDS and self._asks and not is_own and not statement.has("remind"):
            # "I need to add a column. Can you help me?" is work for now; "My budget is 5,000" stays true.
            kind = None
        is_first = not any(one.position == spoken[0] for one in self._known)
        if kind is None and statement.points_back and is_first:
            kind = find_kind(self._join(spoken[1], statement) or statement)
        # "I'm trying to get it to 85 %" changes nothing.
        same = [] if kind is None and statement.has("trying") else self._same_values(statement)
        old: Fact | None = None
        if kind == "value" or (same and kind in (None, "rule")):
            if any(self._statement(one).figures == statement.figures for one in same):
                return
            # Beside several that it may be about, it stands by itself.
            kind, old = "value", same[0] if len(same) == 1 else None
        elif kind == "goal":
            old = next(self._newest("goal"), None)
        elif statement.has("withdraw") or (statement.has("change") and kind in _SETTLED_KINDS):
            old = self._similar(statement, *([kind] if kind else _SETTLED_KINDS))
            kind = kind or (old.kind if old else None)
        if kind:
            self._add(spoken, kind, statement, old=old)
        elif not statement.has("condition", "task"):
            if not statement.has("now", "done") and sum(map(str.isalpha, statement.content)) >= MIN_CONTENT:
                self._noted.append((spoken, statement))
            if statement.begins_with("change"):
                self._correct_last(spoken, statement)

    def _update(self, spoken: Utterance, statement: Statement, note: str = "") -> None:
        """Put another figure in the place of the one value that a statement can mean."""
        same = self._same_values(statement)
        if len(same) == 1 and self._statement(same[0]).figures != statement.figures:
            text = self._quote(spoken[1], "value", statement.text[statement.start :])
            self._store(spoken, "value", add_note(text, note), same[0])

    # -- which fact it is about -----------------------------------------------------------------------

    def _newest(self, *kinds: FactKind) -> Iterator[Fact]:
        return (known for known in reversed(self._known[-MAX_COMPARED_FACTS:]) if known.kind in kinds)

    def _statement(self, fact: Fact) -> Statement:
        """A known fact as a statement, read when it is first compared."""
        if fact.id not in self._statements:
            text = BRACKETED_DATE.sub("", stated_text(fact.text))
            read, old = read_statement(text, read_languages(text)), self._all.get(fact.replaces or "")
            # "Make it 9,200" is about what it has replaced.
            is_bare = fact.kind == "value" and read.value is None and old is not None
            self._statements[fact.id] = self._statement(old) if old and is_bare else read
        return self._statements[fact.id]

    def _same_values(self, statement: Statement) -> list[Fact]:
        """The values of which a statement gives the same attribute of the same thing."""
        if not statement.has_figure or statement.has("condition", "task", "owned", "trying"):
            return []
        compare = is_same_value if statement.value and not statement.has("change") else is_changed_value
        # A value without a code of the same thing is not read.
        values, codes = self._newest("value"), owner_codes(statement)
        near = (one for one in values if one.replaces or all(code in one.text for code in codes))
        return [one for one in near if compare(statement, self._statement(one))]

    def _correct_last(self, spoken: Utterance, statement: Statement) -> None:
        """Put a bare correction ("make it 9,200") in the place of the value that was stated just before."""
        last = self._last(spoken)
        if last is None or last.kind != "value" or len(statement.content) > MIN_CONTENT:
            return
        known = self._statement(last)
        # Alike without their digits: "9,200" is no time and no version.
        forms = [_DIGIT.sub("", number) for number in (*statement.numbers, *known.numbers)]
        if len(forms) == 2 and forms[0] == forms[1] and statement.numbers and statement.units <= known.units:
            self._add(spoken, "value", statement, old=last)

    def _last(self, spoken: Utterance) -> Fact | None:
        """The only fact that was stated last, if that is not long ago."""
        newest = max((one.position for one in self._known if one.kind != "artifact"), default=-MAX_DISTANCE)
        found = [one for one in self._known if one.position == newest]
        return found[0] if len(found) == 1 and 0 < spoken[0] - newest <= MAX_DISTANCE else None

    def _similar(self, statement: Statement, *kinds: FactKind) -> Fact | None:
        """The fact of which a statement shares most words."""

        def shared(fact: Fact) -> float:
            known = self._statement(fact).content
            return len(statement.content & known) / max(min(len(statement.content), len(known)), 1)

        return max(
            (one for one in self._newest(*kinds) if shared(one) >= MIN_SHARED), key=shared, default=None
        )

    def _finish(self, spoken: Utterance, report: Statement, *, by_user: bool = False) -> bool:
        """Call the open item done that a statement reports as done."""
        part, is_told = report.part_of("done"), report.has("done")
        if not is_told and by_user and not report.numbers and not find_kind(report):
            # "The inventory is in the portal" ends what asked for the inventory, if it is about nothing else.
            part = range(len(report.words))
        if not part or report.has_in(part, "undone", "condition") or report.has("doubt", "report"):
            return False
        if report.has("open", "remind", "duty", "task"):
            return False
        content = report.content_of(part) or report.content
        best, most = self._last(spoken) if by_user and is_told and not content else None, 0
        best = best if best and best.kind == "open" else None
        for item in self._newest("open"):
            stated = self._statement(item).content
            shared, least = len(content & stated), min(len(stated), len(content)) if is_told else len(content)
            is_enough = shared > 1 or (is_told and (by_user or least == 1))
            if is_enough and shared > most and shared >= MIN_SHARED * least:
                best, most = item, shared
        if best is not None:
            self._end(spoken, best)
        return best is not None

    def _take_back(self, spoken: Utterance, *, restores: bool) -> None:
        """Take back the fact that was stated just before, and bring back the one that it has replaced."""
        last = self._last(spoken)
        old = self._all.get(last.replaces or "") if last else None
        if last and old:
            said = Message(ChatRole.USER, old.text, created_at=old.created_at)
            self._store((old.position, said), old.kind, old.text, last)
        elif last and not restores:
            self._end(spoken, last)

    # -- changes --------------------------------------------------------------------------------------

    def _add(
        self, spoken: Utterance, kind: FactKind, statement: Statement, note: str = "", old: Fact | None = None
    ) -> bool:
        joined, content = self._join(spoken[1], statement, kind), statement.content
        text = self._quote(spoken[1], kind, joined.text if joined else statement.text[statement.start :])
        # What it replaces says what it is about.
        if not note and joined is None and old is None and _is_bare(statement, kind):
            note = self._asked_note(statement)
            text = text if note else ""
        for known in self._newest(kind) if kind != "value" and old is None else ():
            other = self._statement(known).content
            if content and len(content & other) >= 0.8 * len(content | other):
                return False
        text += note if text else ""
        for known in self._known if old is None and 0 < len(text) <= MAX_FACT_CHARACTERS else ():
            if known.position == spoken[0] and known.id.startswith("+"):
                if text in known.text:
                    return False
                if known.text in text:
                    # The sentence before, which it goes on from.
                    self._extend(known, text)
                    return True
        return self._store(spoken, kind, text, old)

    def _extend(self, known: Fact, text: str) -> None:
        """Give a fact that was found in this call a longer text."""
        index = int(known.id.removeprefix("+"))
        self._forget(known)
        self.changes[index] = replace(self.changes[index], text=text)
        self._known.append(replace(known, text=text))
        self._all[known.id] = self._known[-1]
        self._texts.add(_normalize(text))
        self._statements.pop(known.id, None)

    def _store(self, spoken: Utterance, kind: FactKind, text: str, old: Fact | None) -> bool:
        if not text or len(text) > MAX_FACT_CHARACTERS or _normalize(text) in self._texts:
            return False
        position, at, key = spoken[0], spoken[1].created_at, f"+{len(self.changes)}"
        replaces = old.id if old else None
        self._forget(old)
        fact = Fact(id=key, kind=kind, text=text, position=position, created_at=at, replaces=replaces)
        self._all[key] = fact
        self._known.append(fact)
        self._texts.add(_normalize(text))
        change = FactChange(action="add", position=position, created_at=at, kind=kind, text=text)
        self.changes.append(replace(change, action="replace", target=old.id) if old else change)
        return True

    def _end(self, spoken: Utterance, fact: Fact) -> None:
        self._forget(fact)
        position, at = spoken[0], spoken[1].created_at
        change = FactChange(action="done", position=position, created_at=at, kind=fact.kind, target=fact.id)
        self.changes.append(change)

    def _forget(self, fact: Fact | None) -> None:
        if fact is not None:
            self._known.remove(fact)
            self._texts.discard(_normalize(fact.text))

    def _quote(self, message: Message, kind: FactKind, text: str) -> str:
        """A statement as a fact: without its full stop, with its dates resolved."""
        text = _strip_end(text)
        if kind in ("rule", "preference") and has_weekday(text):
            return text
        try:
            resolved = resolve_dates(text, message.created_at.astimezone(self._zone))
        except OverflowError:  # at the ends of the calendar
            return text
        return resolved if len(resolved) <= MAX_FACT_CHARACTERS else text


def _is_bare(one: Statement, kind: FactKind | None = None) -> bool:
    """Tell whether a statement does not say itself what it is about; a value names its attribute."""
    about = len(one.content_of(range(len(one.words))))
    # Two figures say what a choice is about: "put 500 on the card instead of 400".
    about += len(one.numbers) if kind == "decision" else 0
    points_back = one.has("pointing") if kind == "rule" else one.points_back
    points_back = points_back and about <= MAX_POINTING_CONTENT
    if kind == "value":
        points_back = one.value is not None and one.has_in(one.part(one.value.first), "pointing")
    elif kind in ("preference", "decision"):
        # "The new gate works, we keep it" says before what it means.
        points_back = one.has("pointing") and not one.content_of(range(one.cues["pointing"]))
    if points_back:
        return True
    least = {"value": 0, "preference": 0}.get(kind or "", MIN_CONTENT)
    # In "we haven't picked a caterer" the verb is a cue; in "I need to pay that" it is not.
    is_named = any(word[0].isupper() and word[1:2].isalpha() for word in one.text.split()[1:])
    is_strict = (kind == "decision" and not is_named) or (kind == "open" and one.has("duty"))
    is_long = not is_strict and len(one.text.split()) > MIN_WORDS
    return about < (min(least, 1) if is_long else least)


def find_kind(one: Statement) -> FactKind | None:
    """The kind of fact that a user's statement is, if it is one."""
    if one.has("question", *_BLOCKERS):
        return None
    is_about = len(one.content) >= MIN_CONTENT or (bool(one.content) and len(one.words) >= MIN_WORDS)
    is_lacking = bool(one.content) and one.has_in(one.part_of("done"), "lacking")
    if one.has("goal") and is_about:
        return "goal"
    # "Don't remind me" is none.
    is_item = one.has("remind") and not one.has_in((one.cues["remind"] - 1,), "ban")
    is_item = is_item or (one.has("open") and not one.has("task", "trying"))
    if is_lacking or (is_about and is_item):
        return "open"
    if one.value and not one.has(*_NO_VALUE) and not one.text.startswith("**"):
        is_told = one.has_in(one.part(one.value.first), "done") and not one.has("change", "shift")
        # A long sentence tells something else, and a figure by the way.
        return None if is_told or len(one.content) > MAX_VALUE_CONTENT else "value"
    if is_about and not one.has("now") and _is_rule(one):
        return "rule"
    if one.has("preference") and len(one.words) >= MIN_CONTENT and not one.has("owned", "task"):
        return "preference"
    if one.has("condition", "task"):
        return None
    moved = one.part_of("shift")
    is_figure = (
        len(one.numbers) == 1
        and len(one.content) <= MAX_VALUE_CONTENT
        and any(one.words.folded[at][0].isdigit() for at in moved)
    )
    if is_figure and not one.has("trying") and any(map(str.isalpha, one.content_of(moved))):
        return "value"
    is_now = one.begins_with("now") or one.has_in(one.part_of("duty"), "now", "owned")
    is_now = is_now or len(one.content) > MAX_VALUE_CONTENT
    if one.has("duty") and is_about and not is_now and not one.has("trying"):
        return "open"
    part = one.part_of("preferred")
    before = one.words.folded[part.start : one.cues.get("preferred", 0)]
    is_settled = part and not one.has("is", "trying") and not any(map(one.is_subject, before))
    is_settled = is_settled and any(map(str.isalpha, one.content))
    if one.has("decision"):
        # "I've chosen the second method, but I'm getting stuck" tells of a task.
        after = range(one.cues["decision"], len(one.words))
        is_settled = not (one.has_in(after, "refuse") and one.has_in(after, "trying"))
    return "decision" if is_settled and one.content and not one.has("owned", "now") else None


def _is_rule(one: Statement) -> bool:
    """Tell whether a statement is meant to last: it says so, or orders or forbids something in general."""
    if one.has("rule"):
        # "I'm trying to understand the power rule" is none.
        return not one.has("trying")
    if one.has("habit"):
        at = one.cues["habit"]
        # "It always rains here": before or right after it somebody does something.
        around = (*one.words.folded[:at], *one.words.folded[at + 1 : at + 3])
        return bool(one.orders_with("habit")) or not any(map(one.is_subject, around))
    if one.has("task", "trying"):
        return False
    # "I'll book it and make sure it fits" orders nothing.
    bans = one.orders_with("ban") + (one.orders_with("ban_if_firm") if one.has("firm") else [])
    if any(_forbids(one, part) for part in bans):
        return True
    # "Every page must load", not "an answer to any issue that may arise" or "any idea you may have".
    part, folded = one.part_of("every"), one.words.folded
    rest = range(one.cues.get("every", 0), part.stop)
    is_obliged = any(one.has_in((at,), "must") and not one.is_subject(folded[at - 1]) for at in rest)
    return is_obliged and not one.content_of(range(part.start, rest.start))


def _forbids(one: Statement, part: range) -> bool:
    """Tell whether a part that begins like a ban is one: "only cash", not "only 3 days" or "no, it is"."""
    is_told = one.has_in(part[:5], "is", "done") or any(one.words.folded[at].isdigit() for at in part[1:2])
    return not is_told and len(one.content_of(part)) > 0


def states_rule(text: str) -> bool:
    """Tell whether a user's message has a rule or a preference, also inside a question.

    It is only found again, not quoted: "I prefer trains, can you book one?" counts, too.
    """
    text = text_ends(text, MAX_RULE_END)
    words = split_words(text)
    languages = find_languages(words.folded, text)
    tables = [load_language(code).phrases["facts"] for code in languages]
    found = {name.removeprefix("^") for table in tables for one in table.find(words) for name in one.meanings}
    if _RULE_CUES.isdisjoint(found):
        return False
    for sentence in split_sentences(text):
        if len(sentence.text) > MAX_RULE_SENTENCE:
            continue
        statement = read_statement(sentence.text, languages)
        if not sentence.is_question and find_kind(statement) == "rule":
            return True
        part = statement.part_of("preference")
        if part and not statement.has_in(part, *_BLOCKERS):
            return True
    return False


def _read_sentences(message: Message) -> list[Sentence]:
    """The sentences that the author of a message said himself, without formulas: of a long text some."""
    text = content_text(message.content)
    text = text if len(text) <= 2 * MAX_TEXT else f"{text[:MAX_TEXT]}\n\n{text[-MAX_TEXT:]}"
    said = (one for one in split_sentences(text) if not _FORMULA.search(one.text))
    found = [one for one in said if len(one.text) <= MAX_SENTENCE]
    half = MAX_SENTENCES // 2
    return found if len(found) <= MAX_SENTENCES else [*found[:half], *found[-half:]]


def _chosen_option(answer: Statement, asked: Message) -> str | None:
    """The line of the option that an answer names: "B please", "go with option 2"."""
    labels = [word for word in answer.words.folded if len(word) == 1 and word.isascii() and word.isalnum()]
    if len(labels) != 1 or answer.content - set(labels):
        return None
    for line in content_text(asked.content)[:MAX_TEXT].splitlines():
        found = _OPTION_LINE.match(line)
        if found and found[1].lower() == labels[0]:
            return " ".join(line.split()).lstrip("-*\u2022 ")
    return None


def _show_arguments(call: ToolCall) -> str:
    """The arguments of a call as "city: Kyoto, nights: 2"; as they are if they are no object."""
    try:
        values = json.loads(call.arguments)
    except ValueError:
        return call.arguments
    if not isinstance(values, dict):
        return call.arguments
    told = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in values.items())
    return ", ".join(f"{key}: {value}" for key, value in told)


def _effects(call: ToolCall, languages: Iterable[str]) -> frozenset[str]:
    """The effects of a call by its name, or by the command that it runs; none if it only reads."""
    name = _CAMEL.sub(r"\1 \2", call.name[:100]).replace("_", " ").replace(".", " ")
    tables = [load_language(code).phrases["tools"] for code in dict.fromkeys(languages)]
    named, run = (
        frozenset(
            one for table in tables for match in table.find(split_words(text)) for one in match.meanings
        )
        for text in (name, call.arguments[:300])
    )
    return (named if "reads" not in named else frozenset()) if named else run & {"shell"}


def _normalize(text: str) -> str:
    return normalize_fact(BRACKETED_DATE.sub("", text))


def _strip_end(text: str) -> str:
    return text.strip().rstrip(".!,;:\u3002\uff01 ")
