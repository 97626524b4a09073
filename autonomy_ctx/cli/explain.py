"""`autonomy-ctx explain`: what a model was shown in a turn, from where, what it cost and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autonomy_ctx.cli.drawing import (
    FAILED_STYLE,
    NARROW,
    NOTE_STYLE,
    Heading,
    MessageTable,
    SectionBar,
    format_money,
    line_of,
    section_style,
    value_table,
)
from autonomy_ctx.cli.output import Output, WrongInput, clean_line, count, format_time, make_table
from autonomy_ctx.cli.target import (
    AgentOption,
    ConversationArgument,
    ConversationNotFound,
    ConversationOption,
    MemoryOption,
    ScopeOption,
    find_conversation,
    open_memory,
)
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.inspection.changes import describe_end
from autonomy_ctx.inspection.turn import TurnInfo, TurnReport, TurnSection, inspect_turn, list_turns
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.sections.section import Omission

# The beginning of an id stands for it from this many characters on.
MIN_PREFIX = 4
# A turn is looked for among so many, and an error lists so many.
MAX_TURNS, MAX_LISTED = 10_000, 8
OMITTED_NOUNS = {"messages": "message", "facts": "fact", "pins": "pinned message", "profile": "line"}


async def explain_turn(
    output: Output,
    name: ConversationArgument = None,
    turn: Annotated[
        str | None,
        typer.Argument(
            metavar="TURN",
            help="The position of the user's message, or the id of the turn. Without it: the newest turn.",
        ),
    ] = None,
    memory: MemoryOption = None,
    conversation: ConversationOption = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    step: Annotated[
        int | None,
        typer.Option(min=1, help="The number of a request of the turn. Without it: the last request."),
    ] = None,
    messages: Annotated[bool, typer.Option("--messages", help="List the messages that were sent.")] = False,
) -> None:
    """Explain a turn: tokens and source of each section, what was cut and why, cache, cost, changes.

    A number alone is a turn. Agents record the newest turns of each conversation; `autonomy-ctx show --turns`
    lists them.
    """
    if conversation is not None and turn is not None:
        raise WrongInput(f"{name!r} and --conversation both name a conversation; give one of them")
    if conversation is not None or (turn is None and name is not None and name.isdecimal()):
        name, turn = conversation, name
    async with open_memory(memory) as opened:
        key, known = await _find_turn(opened, name, turn, scope=scope, agent=agent)
        view = opened.for_agent(key.agent)
        report = await inspect_turn(view, key.scope, key.conversation, known, step=step)
    if output.is_json:
        output.print_json(report.to_dict())
        return
    print_turn(output, report)
    if messages:
        output.print(Heading("Messages", count(len(report.messages), "message")))
        output.print(MessageTable([line_of(message) for message in report.messages]))


async def _find_turn(
    memory: Memory, name: str | None, turn: str | None, **place: str | None
) -> tuple[Key, str | None]:
    """The conversation of a name, and a turn of it; a name alone may also be the id of a turn."""
    try:
        key = await find_conversation(memory, name, **place)
    except ConversationNotFound as error:
        if name is None or turn is not None:
            raise
        try:
            key, turn = await find_conversation(memory, None, **place), name
            return key, await resolve_turn(memory.for_agent(key.agent), key, turn)
        except WrongInput:
            raise error from None
    return key, await resolve_turn(memory.for_agent(key.agent), key, turn)


async def resolve_turn(memory: Memory, key: Key, given: str | None) -> str | None:
    """The id of the turn that was meant; None for the newest."""
    limit = 1 if given is None else MAX_TURNS
    turns = await list_turns(memory, key.scope, key.conversation, limit=limit)
    if not turns:
        raise WrongInput(
            f"no turn of {key.conversation!r} is recorded: agents record theirs, messages that were only "
            f"stored have none"
        )
    if given is None:
        return None
    found = [turn for turn in turns if turn.id == given]
    found = found or [turn for turn in turns if str(turn.position) == given]
    if not found and len(given) >= MIN_PREFIX:
        found = [turn for turn in turns if turn.id.startswith(given)]
    if len({turn.id for turn in found}) == 1:
        return found[-1].id
    if found:
        raise WrongInput(f"several turns begin with {given!r}; give more of the id:\n{_list_turns(found)}")
    raise WrongInput(f"there is no record of turn {given!r}; the newest are:\n{_list_turns(turns)}")


def turn_name(turn: TurnInfo) -> str:
    """Name a turn as the command line does: by the position of its message, or by its id."""
    return clean_line(turn.id) if turn.position is None else str(turn.position)


def _list_turns(turns: Sequence[TurnInfo]) -> str:
    return "\n".join(f"  {turn_name(turn)}  {clean_line(turn.text, 60)}" for turn in turns[-MAX_LISTED:])


def print_turn(output: Output, report: TurnReport) -> None:
    """A turn as people read it."""
    name = report.id if report.position is None else str(report.position)
    output.print(Heading(f"Turn {clean_line(name)}", f"{clean_line(report.id)} · {format_time(report.at)}"))
    names = [report.conversation, f"scope {report.scope}", f"agent {report.agent}" if report.agent else ""]
    output.print(Text(" · ".join(clean_line(name) for name in names if name), NOTE_STYLE))
    said = next((one for one in report.messages if one.position == report.position), None)
    if said is not None and report.position is not None:
        output.print(Padding(Text(clean_line(said.text, 3 * output.width), "green"), (1, 0, 0, 2)))
    output.print("")
    output.print(SectionBar(report.sections))
    output.print(_draw_sections(report.sections, output.width))
    for line in _section_notes(report.sections):
        output.print(line)
    output.print(Heading("Tokens and cost"))
    output.print(value_table(_value_rows(report)))
    output.print(Heading("Since the turn before", clean_line(report.previous or "")))
    if report.previous is None:
        output.print(Text("this is the first turn that is recorded", NOTE_STYLE))
    elif not report.changes:
        output.print(Text("nothing changed", NOTE_STYLE))
    for change in report.changes:
        output.print(_bullet(Text(clean_line(change))))


def _draw_sections(sections: Sequence[TurnSection], width: int) -> Table:
    is_wide = width >= NARROW
    table = make_table()
    table.expand = True
    table.add_column("section", ratio=None if is_wide else 1, no_wrap=True, overflow="ellipsis")
    table.add_column("tokens", justify="right", no_wrap=True)
    if is_wide:
        table.add_column("change", justify="right", no_wrap=True)
    table.add_column("cached", justify="right", no_wrap=True)
    if is_wide:
        table.add_column("from", ratio=1, overflow="fold")
    for index, section in enumerate(sections):
        source = section.source if section.status == "included" else section.status
        style = FAILED_STYLE if section.status == "failed" else NOTE_STYLE
        table.add_row(
            Text(f"▌ {clean_line(section.name)}", section_style(index)),
            f"{section.tokens:,}",
            *([_draw_change(section.tokens_change)] if is_wide else []),
            Text(_percent(section.cached_tokens, section.tokens), NOTE_STYLE),
            *([Text(clean_line(source), style)] if is_wide else []),
        )
    return table


def _draw_change(change: int | None) -> Text:
    if not change:
        return Text("" if change is None else "·", NOTE_STYLE)
    return Text(f"{change:+,}", "yellow" if change > 0 else "cyan")


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else ""


def _section_notes(sections: Sequence[TurnSection]) -> Iterator[Table]:
    """Why a section is not there, or not whole."""
    for section in sections:
        name = clean_line(section.name)
        if section.status != "included":
            style = FAILED_STYLE if section.status == "failed" else NOTE_STYLE
            yield _bullet(Text(f"{name} was left out: {clean_line(section.reason or section.status)}", style))
        if section.note is not None:
            yield _bullet(Text(f"{name}: {clean_line(section.note)}", NOTE_STYLE))
        for omission in section.omitted:
            yield _bullet(Text(f"{name} does not show {_describe_omission(omission)}", NOTE_STYLE))
        for cut in section.cut:
            lost = f"{count(cut.messages, 'message')} of {clean_line(cut.section)} {cut.what}"
            tokens = count(cut.tokens, "token")
            yield _bullet(Text(f"{lost}, {tokens}: {clean_line(cut.reason)}", "yellow"))


def _describe_omission(omission: Omission) -> str:
    what = count(omission.count, OMITTED_NOUNS[omission.what])
    where = ""
    if omission.what == "messages":
        where = (
            f" ({omission.first})"
            if omission.first == omission.last
            else f" ({omission.first} to {omission.last})"
        )
    return f"{what}{where}: {clean_line(omission.reason)}"


def _bullet(text: Text) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_row(Text("·", NOTE_STYLE), text)
    return table


def _describe_epoch(report: TurnReport) -> str:
    if report.end_reason is not None:
        return describe_end(report.end_reason)
    appended = sum(message.is_appended for message in report.messages)
    return f"{count(appended, 'text')} of sections appended since it began"


def _value_rows(report: TurnReport) -> Iterator[tuple[str, str, str]]:
    step = f"step {report.step} of {report.steps}, " if report.steps > 1 else ""
    yield "context", f"{report.tokens:,}", f"tokens, {step}composed in {report.milliseconds:.1f} ms"
    if report.budget is not None:
        used, most = report.budget.used, report.budget.max_tokens
        reserved = (
            f", {report.budget.reserve_output:,} reserved for the output"
            if report.budget.reserve_output
            else ""
        )
        yield "budget", f"{used / most:.0%}", f"{used:,} of {most:,} tokens{reserved}"
    if report.tool_tokens:
        yield "tools", f"{report.tool_tokens:,}", "tokens of tool descriptions"
    share = _percent(report.cached_tokens, report.tokens) or "0%"
    yield (
        "cached",
        share,
        f"{report.cached_tokens:,} tokens begin as in the context before; {report.new_tokens:,} are new",
    )
    if report.epoch is not None:
        yield "epoch", str(report.epoch), _describe_epoch(report)
    if report.advice is not None:
        yield "", "", report.advice
    if (miss := report.cache_miss) is not None:
        tokens = f" for {miss.tokens:,} tokens" if miss.tokens else ""
        yield "missed", "", f"the provider says of its cache: {clean_line(miss.reason)}{tokens}"
    if report.floor is not None and report.ceiling is not None:
        yield "window", "", f"between floor {report.floor:,} and ceiling {report.ceiling:,} messages"
    yield "model", "", clean_line(report.model or "not known")
    thinking = report.thinking
    if thinking.sent or thinking.left_out:
        why = f"; {thinking.left_out:,} left out: {'; '.join(thinking.reasons)}" if thinking.left_out else ""
        yield "thinking", f"{thinking.sent:,}", f"blocks of earlier replies were sent back{why}"
    if thinking.is_summary_refused:
        yield "summary", "", "the provider refused the one that it had written; ours was sent in its place"
    usage = report.usage
    if usage is None:
        yield "usage", "", "the provider's count is not known"
    else:
        yield "usage", "", f"the provider counted {_describe_usage(usage)}"
    cost = report.cost
    if cost.price is None:
        yield "cost", "", "the price of this model is not known"
        return
    if cost.estimated is not None:
        yield "cost", format_money(cost.estimated), "estimated from the counts here"
    if cost.reported is not None:
        yield "", format_money(cost.reported), "by what the provider counted"
    if cost.turn is not None and report.steps > 1:
        yield "", format_money(cost.turn), f"for all {report.steps} steps of the turn"


def _describe_usage(usage: Usage) -> str:
    """Tokens in and out, with the parts that have other prices."""
    read = {
        "cached": usage.cached_tokens,
        "written to the cache": usage.cache_write_tokens - usage.long_cache_write_tokens,
        "written for longer": usage.long_cache_write_tokens,
    }
    parts = ", ".join(f"{tokens:,} {what}" for what, tokens in read.items() if tokens)
    reasoning = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
    return (
        f"{usage.input_tokens:,} in{f' ({parts})' if parts else ''}, {usage.output_tokens:,} out{reasoning}"
    )
