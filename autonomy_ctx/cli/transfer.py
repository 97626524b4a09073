"""`autonomy-ctx export` and `autonomy-ctx import`: messages out of a memory into a file, and back.

Neither holds more than a few hundred messages at a time. An import checks the whole file before it stores
anything, and stores no message twice: it can be run again.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any

import anyio
import typer

from autonomy_ctx.cli.output import CommandFailed, Output, WrongInput, count, encode_json
from autonomy_ctx.cli.target import (
    AgentOption,
    MemoryOption,
    ScopeOption,
    find_conversation,
    iterate_all,
    memory_path,
    open_memory,
)
from autonomy_ctx.errors import AutonomyCtxError, InvalidKey, InvalidMessage
from autonomy_ctx.formats.message_files import (
    CONVERSATION,
    FULL_TEXT,
    MAX_STREAM_BYTES,
    ConversationLine,
    InvalidLine,
    MessageLine,
    add_id,
    read_lines,
)
from autonomy_ctx.formats.openai import openai_message
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.sqlite.connection import NEW_FILE_MODE
from autonomy_ctx.memory.store import Key, make_key
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import ChatRole, Message, check_call_id
from autonomy_ctx.messages.tokens import TokenCounter

MESSAGES_PER_PAGE = 200
# Messages are stored together up to this many, or this many characters.
MESSAGES_PER_BATCH, CHARACTERS_PER_BATCH = 500, 4_000_000
STREAM = "-"
# An error lists so many bad lines.
MAX_PROBLEMS = 8


class FileFormat(StrEnum):
    """The format of a file of messages."""

    JSONL = "jsonl"
    OPENAI = "openai"


async def export_messages(
    output: Output,
    conversation: Annotated[str | None, typer.Argument(metavar="CONVERSATION")] = None,
    memory: MemoryOption = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    file: Annotated[str, typer.Option("--output", "-o", metavar="FILE")] = STREAM,
    file_format: Annotated[FileFormat, typer.Option("--format", "-f", metavar="FORMAT")] = FileFormat.JSONL,
    force: bool = False,
) -> None:
    """Write messages as JSON Lines: of one conversation, or of all with this --scope and --agent.

    Summaries, facts and pins are not exported; `autonomy-ctx migrate --to` copies everything.

    Args:
        conversation: The name of the conversation. Without it: all conversations.
        file: The file to write; - means stdout.
        file_format: jsonl: one message a line, with ids and times. openai: one conversation a line, as
            {"messages": [...]}.
        force: Overwrite an existing file.
    """
    async with open_memory(memory) as opened:
        total = None
        keys = (info.key async for info in iterate_all(opened, scope, agent))
        if conversation is not None:
            key = await find_conversation(opened, conversation, scope=scope, agent=agent)
            total = (await opened.for_agent(key.agent).head(key.scope, key.conversation)).count
            keys = (one async for one in _only(key))
        write = _write_openai if file_format is FileFormat.OPENAI else _write_jsonl
        conversations = messages = 0
        with (
            open_new(file, force=force) as target,
            output.progress("exporting", total, fills_stdout=file == STREAM) as tell,
        ):
            async for key in keys:
                conversations += 1
                async for written in write(opened.for_agent(key.agent), key, target):
                    messages += written
                    tell(messages)
    if output.is_json and file != STREAM:
        output.print_json({"conversations": conversations, "messages": messages, "file": file})
        return
    where = "" if file == STREAM else f" to {file}"
    output.note(f"wrote {count(messages, 'message')} of {count(conversations, 'conversation')}{where}")


def import_messages(
    output: Output,
    file: Annotated[str, typer.Argument(metavar="FILE")],
    memory: MemoryOption = None,
    scope: Annotated[str | None, typer.Option("--scope", "-s", metavar="NAME")] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", metavar="NAME")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", "-c", metavar="NAME")] = None,
) -> None:
    """Store the messages of a file: of `export`, of OpenAI, of LangChain or of ChatGPT.

    The format is recognized by the contents: JSON Lines as `export` writes them, messages in OpenAI's
    format, a dump of LangChain's messages, or an export of ChatGPT.

    The whole file is checked first. A message whose id is stored already is not stored again, so you can
    repeat an import. If the database does not exist, it is created.

    Args:
        file: The file to read; - means stdin.
        scope: The scope to use instead of that in the file.
        agent: The agent to use instead of that in the file.
        conversation: The conversation name to use instead of that in the file.
    """
    names = _Names(agent=agent, scope=scope, conversation=conversation)
    with _open_seekable(file, output) as source:
        size = source.seek(0, os.SEEK_END)
        with output.progress("checking", size) as tell:
            is_series = _check(source, file, names, tell)
        path = memory_path(memory)
        is_new = path is not None and not os.path.exists(path)
        report = _Report()

        async def store() -> None:
            with output.progress("storing", size) as tell:
                async with open_memory(memory, create=True) as opened:
                    await _store(source, opened, names, is_series, report, tell)

        try:
            anyio.run(store)
        except AutonomyCtxError as error:
            raise CommandFailed(f"{error}. Before that, {report}") from error
    if output.is_json:
        output.print_json(asdict(report))
        return
    made = f"; {path} is new" if is_new else ""
    output.print_sentence(f"{report}{made}")


# -- writing ------------------------------------------------------------------------------------------


@contextmanager
def open_new(file: str, *, force: bool) -> Iterator[IO[bytes]]:
    """A file to write, private, in place under its name when all of it is written; or stdout."""
    if file == STREAM:
        yield sys.stdout.buffer
        return
    path = Path(file)
    if path.is_dir():
        raise WrongInput(f"{file} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        # A device or a pipe stays where it is.
        with open(path, "wb") as target:
            yield target
        return
    if path.exists() and not force:
        raise WrongInput(f"{file} already exists; use --force to overwrite it")
    if not path.parent.is_dir():
        raise WrongInput(f"{file}: there is no folder {path.parent}")
    path = path.resolve() if path.is_symlink() else path
    # What users said is for nobody else to read.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        created = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, NEW_FILE_MODE)
    except OSError as error:
        raise WrongInput(f"{file} cannot be written: {error.strerror}") from None
    try:
        with open(created, "wb") as target:
            yield target
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


async def _only(key: Key) -> AsyncIterator[Key]:
    yield key


async def _pages(memory: Memory, key: Key) -> AsyncIterator[Sequence[Message]]:
    """All messages of a conversation, oldest first."""
    at, last = 0, (await memory.head(key.scope, key.conversation)).position
    while at < last:
        stop = min(at + MESSAGES_PER_PAGE, last)
        window = await memory.read(key.scope, key.conversation, after=at, before=stop + 1)
        if window.entries:
            yield [entry.message for entry in window.entries]
        at = stop


async def _write_jsonl(memory: Memory, key: Key, target: IO[bytes]) -> AsyncIterator[int]:
    _write_line(target, {"type": CONVERSATION} | key._asdict())
    async for page in _pages(memory, key):
        for message in page:
            if message.role is ChatRole.TOOL and encoding.CUT_WORDS in message.text:
                whole = await memory.get_full_message(key.scope, key.conversation, message.id)
                if whole is not None:
                    text = wire.from_dict(whole).text
                    _write_line(target, {"type": FULL_TEXT, "id": message.id, "text": text})
            _write_line(target, wire.to_dict(message))
        yield len(page)


async def _write_openai(memory: Memory, key: Key, target: IO[bytes]) -> AsyncIterator[int]:
    target.write(b'{"messages":[')
    comma = b""
    async for page in _pages(memory, key):
        for message in page:
            target.write(comma + encode_json(openai_message(message)).encode())
            comma = b","
        yield len(page)
    target.write(b"]}\n")


def _write_line(target: IO[bytes], value: dict[str, Any]) -> None:
    target.write(encode_json(value).encode() + b"\n")


# -- reading ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The names that the command line gives; they win over those of the file."""

    agent: str | None
    scope: str | None
    conversation: str | None

    def key(self, line: ConversationLine | None, number: int, suffix: str) -> Key:
        """Where the messages go that follow a line."""
        scope = self.scope if line is None or self.scope is not None else line.scope
        name = line.conversation if line is not None else None
        if self.conversation is not None:
            name = self.conversation + suffix
        if scope is None or name is None:
            missing = [
                option for option, value in (("--scope", scope), ("--conversation", name)) if value is None
            ]
            raise WrongInput(
                f"line {number:,} does not name its scope and conversation; also give {' and '.join(missing)}"
            )
        agent = self.agent if line is None or self.agent is not None else line.agent
        return make_key(agent or "", scope, name)


@dataclass(slots=True)
class _Report:
    """The result of an import."""

    stored: int = 0
    known: int = 0
    conversations: int = 0

    def __str__(self) -> str:
        text = f"stored {count(self.stored, 'message')} in {count(self.conversations, 'conversation')}"
        return text + (
            f"; {count(self.known, 'message was', 'messages were')} already stored" if self.known else ""
        )


@contextmanager
def _open_seekable(file: str, output: Output) -> Iterator[IO[bytes]]:
    """A file that can be read twice; what comes through a pipe is first written to a temporary one.

    A device or a pipe may never end: what cannot be text and what is too much is refused while it is read.
    """
    with ExitStack() as stack:
        if file == STREAM:
            if sys.stdin.isatty():
                raise WrongInput("stdin is a terminal; pipe a file into it, or name a file")
            pipe: IO[bytes] = sys.stdin.buffer
        else:
            try:
                pipe = stack.enter_context(open(file, "rb"))
            except OSError as error:
                raise WrongInput(f"{file} cannot be read: {error.strerror}") from None
            if stat.S_ISREG(os.fstat(pipe.fileno()).st_mode):
                yield pipe
                return
        spool = stack.enter_context(tempfile.TemporaryFile())
        with output.progress("reading") as tell:
            while piece := pipe.read(1 << 20):
                if b"\0" in piece:
                    raise WrongInput(f"{_file_name(file)} is not text: it has NUL bytes; nothing was stored")
                if spool.tell() + len(piece) > MAX_STREAM_BYTES:
                    raise WrongInput(
                        f"{_file_name(file)} has more than {MAX_STREAM_BYTES // 1_000_000:,} MB; "
                        "write it to a file and import that; nothing was stored"
                    )
                spool.write(piece)
                tell(spool.tell())
        spool.seek(0)
        yield spool


def _file_name(file: str) -> str:
    return "stdin" if file == STREAM else file


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """A message of a file, and where it goes."""

    number: int
    key: Key
    message: Message
    full_text: str | None


def _place_messages(
    source: IO[bytes], names: _Names, *, is_series: bool
) -> Iterator[ImportTarget | ConversationLine | InvalidLine]:
    """The messages of a file, each with its conversation; and the lines that name conversations.

    The conversations of a series have no names of their own: they are numbered.
    """
    source.seek(0)
    current: ConversationLine | None = None
    unnamed, index = 0, 0
    for line in read_lines(source):
        match line:
            case InvalidLine():
                yield line
            case ConversationLine():
                current, index = line, 0
                unnamed += line.conversation is None
                yield line
            case MessageLine():
                index += 1
                try:
                    key = names.key(current, line.number, f"-{unnamed}" if is_series and unnamed else "")
                    message = wire.from_dict(add_id(line.form, index))
                    check_call_id(message)
                    yield ImportTarget(number=line.number, key=key, message=message, full_text=line.full_text)
                except InvalidLine as error:
                    yield error
                except InvalidMessage as error:
                    yield _no_message(line.number, error)
                except InvalidKey as error:
                    yield InvalidLine(line.number, f"has an {error}")


def _no_message(number: int, error: InvalidMessage) -> InvalidLine:
    return InvalidLine(number, f"is not a message: `{error.field}` {error.problem}")


def _check(source: IO[bytes], file: str, names: _Names, tell: Callable[[int], None]) -> bool:
    """Read all of a file and refuse it if anything is wrong; whether it is a series of conversations."""
    counter = TokenCounter()
    problems: list[InvalidLine] = []
    total = messages = unnamed = 0
    named: set[ConversationLine] = set()
    for found in _place_messages(source, names, is_series=False):
        tell(source.tell())
        if isinstance(found, ImportTarget):
            messages += 1
            try:
                encoding.make_draft(found.message, counter, full_text=found.full_text)
            except InvalidMessage as error:
                found = _no_message(found.number, error)
        if isinstance(found, ConversationLine):
            unnamed += found.conversation is None
            if found.conversation is not None and len(named) < 2:
                named.add(replace(found, number=0))
        elif isinstance(found, InvalidLine):
            total += 1
            problems += [found] if len(problems) < MAX_PROBLEMS else []
    if total:
        raise WrongInput(_describe_problems(_file_name(file), problems, total))
    if not messages:
        raise WrongInput(f"{_file_name(file)} has no messages")
    if names.conversation is not None and len(named) > 1:
        raise WrongInput(f"{_file_name(file)} has several conversations with names; leave --conversation out")
    return unnamed > 1


def _describe_problems(file: str, problems: list[InvalidLine], total: int) -> str:
    """The sentence about the bad lines of a file."""
    if total == 1:
        return f"{file}: {problems[0]}; nothing was stored"
    listed = "\n".join(f"  {problem}" for problem in problems[:MAX_PROBLEMS])
    more = f"\n  ... and {total - MAX_PROBLEMS:,} more" if total > MAX_PROBLEMS else ""
    return f"{file}: {count(total, 'line')} cannot be imported; nothing was stored\n{listed}{more}"


async def _store(
    source: IO[bytes],
    memory: Memory,
    names: _Names,
    is_series: bool,
    report: _Report,
    tell: Callable[[int], None],
) -> None:
    """Store the messages of a file that was checked, some hundred at a time."""
    batch: list[ImportTarget] = []
    size = 0
    keys: set[Key] = set()
    for found in _place_messages(source, names, is_series=is_series):
        if not isinstance(found, ImportTarget):
            continue
        is_full = len(batch) == MESSAGES_PER_BATCH or size > CHARACTERS_PER_BATCH
        if batch and (is_full or batch[0].key != found.key):
            await _append(memory, batch, report)
            tell(source.tell())
            batch, size = [], 0
        if found.key not in keys:
            keys.add(found.key)
            report.conversations += 1
        batch.append(found)
        size += encoding.approximate_length(found.message)
    if batch:
        await _append(memory, batch, report)


async def _append(memory: Memory, batch: Sequence[ImportTarget], report: _Report) -> None:
    key = batch[0].key
    view = memory.for_agent(key.agent)
    last = (await view.head(key.scope, key.conversation)).position
    full_texts = {one.message.id: one.full_text for one in batch if one.full_text is not None}
    positions = await view.append(
        key.scope, key.conversation, *(one.message for one in batch), full_texts=full_texts
    )
    new = len({position for position in positions if position > last})
    report.stored += new
    report.known += len(positions) - new
