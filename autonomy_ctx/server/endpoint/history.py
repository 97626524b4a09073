"""Compares a client's messages with a log: known, new, sent again, or another past. Pure functions.

Clients of the OpenAI API send a whole history, its end, or only new messages. Messages are compared by
content, not by format: a client may drop the thinking of an answer, write a text as a list of parts, or
format the arguments of a call differently.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from autonomy_ctx.formats.outgoing import INSTRUCTION_ROLES
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, ToolCall


class HistoryMessage(NamedTuple):
    """A message of a client or of a log: what it says as a hash, who says it, and its id in a log."""

    fingerprint: str
    role: ChatRole
    id: str = ""


@dataclass(frozen=True, slots=True)
class Placement:
    """The ids in the log of a client's messages, and the id that they come after if the log has none."""

    ids: list[str]
    after: str = ""


def fingerprint(message: Message) -> str:
    """Hash what a message says, however a client writes it."""
    role = ChatRole.SYSTEM if message.role in INSTRUCTION_ROLES else message.role
    images = [part.image for part in message.parts if isinstance(part, ImageContent)]
    calls = [(call.id, call.name, _normalize_arguments(call)) for call in message.tool_calls]
    shown = json.dumps([role.value, message.text.strip(), images, calls, message.tool_call_id])
    return _digest(shown)


def chain_id(before: str, said: str) -> str:
    """The id of a message from that of the one before it: it tells all of a history apart from any other."""
    return _digest(f"{before}\n{said}")


def chain_ids(fingerprints: Iterable[str], before: str = "") -> list[str]:
    """The ids of messages that follow each other."""
    ids = []
    for said in fingerprints:
        before = chain_id(before, said)
        ids.append(before)
    return ids


def pair_id(question: str, answer: str) -> str:
    """Hash an answer with the message before it, which finds a history without its beginning."""
    return _digest(f"{question}\n\n{answer}")


def place_history(
    said: Sequence[HistoryMessage],
    log: Sequence[HistoryMessage],
    *,
    is_retry: bool = False,
    resends_history: bool = False,
) -> Placement:
    """Where a client's messages belong in a log, of which the end is given as far as it may matter.

    With an answer among them they are a history: all of it, or a window at its end. Without one they are
    new, unless the client is known to send whole histories. What waits unanswered at the end of the log is
    not new; nor is, in a retry, what the newest answer answers.
    """
    whole = Placement(chain_ids(one.fingerprint for one in said))
    if not log:
        return whole
    answers = any(one.role is ChatRole.ASSISTANT for one in said)
    if answers or resends_history:
        known = {one.id for one in log}
        if not answers or any(one in known for one in whole.ids):
            return whole
        window = _find_window(said, log)
        return _place_after(said, window) if window else whole
    waiting = _find_end(said, log)
    if not waiting and is_retry and log[-1].role is ChatRole.ASSISTANT:
        before = _find_end(said, log[:-1])
        waiting = before if len(before) == len(said) else []
    return _place_after(said, waiting) if waiting else Placement(_chain(said, log[-1].id), log[-1].id)


def _place_after(said: Sequence[HistoryMessage], known: Sequence[HistoryMessage]) -> Placement:
    """The ids of messages of which the log has the first ones."""
    ids = [one.id for one in known]
    return Placement([*ids, *_chain(said[len(ids) :], ids[-1])], ids[-1])


def _chain(said: Sequence[HistoryMessage], before: str) -> list[str]:
    return chain_ids((one.fingerprint for one in said), before)


def _find_window(said: Sequence[HistoryMessage], log: Sequence[HistoryMessage]) -> list[HistoryMessage]:
    """The messages of a log that a history begins with: up to the end of the log if it can be, and many."""
    length, longest, end = 0, 0, 0
    for at, length in enumerate(_matching_lengths(said, log)):
        if length >= longest:
            longest, end = length, at + 1
    for run in (log[len(log) - length :], log[end - longest : end]):
        # Questions alone may be asked anywhere; an answer tells the place.
        if any(one.role is ChatRole.ASSISTANT for one in run):
            return list(run)
    return []


def _matching_lengths(said: Sequence[HistoryMessage], log: Sequence[HistoryMessage]) -> Iterator[int]:
    """For each message of a log, how many of the first of these the log up to it ends with."""
    # Knuth, Morris and Pratt, in linear time.
    words, length = [one.fingerprint for one in said], 0
    borders = _find_borders(words)
    for one in log:
        while length and (length == len(words) or words[length] != one.fingerprint):
            length = borders[length - 1]
        length += words[length] == one.fingerprint
        yield length


def _find_borders(words: Sequence[str]) -> list[int]:
    """For each word, how many of the first words the words up to it end with."""
    borders = [0] * len(words)
    for at in range(1, len(words)):
        length = borders[at - 1]
        while length and words[at] != words[length]:
            length = borders[length - 1]
        borders[at] = length + (words[at] == words[length])
    return borders


def _find_end(said: Sequence[HistoryMessage], log: Sequence[HistoryMessage]) -> list[HistoryMessage]:
    """The messages at the end of a log that are the first of these."""
    *_, length = (0, *_matching_lengths(said, log))
    return list(log[len(log) - length :])


def _normalize_arguments(call: ToolCall) -> str:
    try:
        return json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return call.arguments.strip()


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
