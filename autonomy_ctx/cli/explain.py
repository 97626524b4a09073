"""`autonomy-ctx explain`: what a model was shown in a turn, from where, what it cost and what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autonomy_ctx.agents.agent_tools import LARGE_TOOLS
from autonomy_ctx.agents.explain import NOT_KEPT
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
from autonomy_ctx.inspection.turn import (
    MAX_TURNS,
    TurnInfo,
    TurnMessage,
    TurnReport,
    TurnSection,
    inspect_turn,
    list_turns,
    read_number,
)
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.sections.section import Omission
from autonomy_ctx.template.composed import Definitions

# The beginning of an id stands for it from this many characters on.
MIN_PREFIX = 4
# An error lists so many turns.
MAX_LISTED = 8
# So many of the largest messages of a turn are named.
MAX_LARGEST = 3
_DEFINITIONS = {"tools": "tools", "output_schema": "the schema of the answer"}
OMITTED_NOUNS = {
    "messages": "message",
    "facts": "fact",
    "pins": "pinned message",
    "profile": "line",
    "results": "old result",
    "images": "old image",
}


async def explain_turn(
    output: Output,
    name: ConversationArgument = None,
    turn: Annotated[
        str | None,
        typer.Argument(
            metavar="TURN",
            help="The number of a turn, see `show --turns`, or its id. Without it: the newest turn.",
        ),
    ] = None,
    turn_option: Annotated[
        str | None, typer.Option("--turn", metavar="TURN", help="The same as TURN.")
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

    A number alone is a turn. The figures of every turn are kept, its messages only of the newest turns;
    `autonomy-ctx show --turns` lists them.
    """
    if turn is not None and turn_option is not None:
        raise WrongInput(f"{turn!r} and --turn both name a turn; leave out one")
    turn = turn or turn_option
    if conversation is not None and turn is not None:
        raise WrongInput(f"{name!r} and --conversation both name a conversation; leave out one")
    if conversation is not None or (turn is None and name is not None and name.isdecimal()):
        name, turn = conversation, name
    async with open_memory(memory) as opened:
        key, info = await _find_turn(opened, name, turn, scope=scope, agent=agent)
        view = opened.for_agent(key.agent)
        report: TurnInfo | TurnReport = info
        if info.has_context or step is not None or messages:
            report = await inspect_turn(view, key.scope, key.conversation, info.number or info.id, step=step)
    if output.is_json:
        output.print_json(report.to_dict())
        return
    if isinstance(report, TurnInfo):
        print_figures(output, key, report)
        return
    print_turn(output, report)
    if messages:
        output.print(Heading("Messages", count(len(report.messages), "message")))
        output.print(MessageTable([line_of(message) for message in report.messages]))


async def _find_turn(
    memory: Memory, name: str | None, turn: str | None, **place: str | None
) -> tuple[Key, TurnInfo]:
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


async def resolve_turn(memory: Memory, key: Key, given: str | None) -> TurnInfo:
    """The turn that was meant, by its number, the position of its message or its id; None is the newest."""
    number = read_number(given)
    turns = await list_turns(memory, key.scope, key.conversation, limit=1 if given is None else MAX_TURNS)
    if not turns:
        raise WrongInput(
            f"no turn of {key.conversation!r} is recorded; only agents record turns. Send an agent a message "
            "first, for example with `autonomy-ctx chat`"
        )
    if given is None:
        return turns[-1]
    if number is not None:
        page = await list_turns(memory, key.scope, key.conversation, before=number + 1, limit=1)
        if page and page[-1].number == number:
            return page[-1]
    found = [turn for turn in turns if turn.id == given]
    # Of records of 0.2, a number is the position of the user's message.
    found = found or [turn for turn in turns if str(turn.position) == given]
    if not found and len(given) >= MIN_PREFIX:
        found = [turn for turn in turns if turn.id.startswith(given)]
    if len({turn.id for turn in found}) == 1:
        return found[-1]
    if found:
        raise WrongInput(f"several turns begin with {given!r}; give more of the id:\n{_list_turns(found)}")
    raise WrongInput(f"there is no record of turn {given!r}; the newest are:\n{_list_turns(turns)}")


def turn_name(turn: TurnInfo | TurnReport) -> str:
    """Name a turn as the command line does: by its number; of 0.2, by its position or its id."""
    return clean_line(str(turn.number or turn.position or turn.id))


def _list_turns(turns: Sequence[TurnInfo]) -> str:
    return "\n".join(f"  {turn_name(turn)}  {clean_line(turn.text, 60)}" for turn in turns[-MAX_LISTED:])


def print_turn(output: Output, report: TurnReport) -> None:
    """A turn as people read it."""
    _print_heading(output, report, report)
    said = next((one for one in report.messages if one.position == report.position), None)
    if said is not None and report.position is not None:
        output.print(Padding(Text(clean_line(said.text, 3 * output.width), "green"), (1, 0, 0, 2)))
    output.print("")
    output.print(SectionBar([*report.sections, *report.definitions]))
    output.print(_draw_sections(report.sections, report.definitions, output.width))
    for line in _section_notes(report.sections):
        output.print(line)
    tools = next((one.tokens for one in report.definitions if one.name == "tools"), 0)
    if tools > LARGE_TOOLS:
        output.print(_bullet(Text(describe_large_tools(tools), "yellow")))
    output.print(Heading("Tokens and cost"))
    output.print(value_table(_value_rows(report)))
    output.print(Heading("Changes since the previous turn", clean_line(report.previous or "")))
    if report.previous is None:
        output.print(Text("this is the first recorded turn", NOTE_STYLE))
    elif not report.changes:
        output.print(Text("nothing changed", NOTE_STYLE))
    for change in report.changes:
        output.print(_bullet(Text(clean_line(change))))


def print_figures(output: Output, key: Key, turn: TurnInfo) -> None:
    """The figures of a turn whose full context is not kept."""
    _print_heading(output, turn, key)
    if turn.text:
        output.print(Padding(Text(clean_line(turn.text, 3 * output.width), "green"), (1, 0, 0, 2)))
    output.print("")
    table = make_table("section")
    table.add_column("tokens", justify="right")
    for index, section in enumerate(turn.sections):
        table.add_row(Text(f"▌ {clean_line(section.name)}", section_style(index)), f"{section.tokens:,}")
    output.print(table)
    output.print(Heading("Tokens and cost"))
    output.print(value_table(_figure_rows(turn)))
    output.print("")
    output.note(NOT_KEPT)


def _figure_rows(turn: TurnInfo) -> Iterator[tuple[str, str, str]]:
    yield "context", f"{turn.tokens:,}", f"tokens, {turn.shared_tokens:,} of them in a shared prefix"
    if turn.request_tokens is not None:
        yield "request", f"{turn.request_tokens:,}", "tokens with the tools"
    yield "steps", f"{turn.steps:,}", "" if turn.seconds is None else f"in {turn.seconds:,.1f} s"
    if turn.epoch is not None:
        ended = ", ".join(describe_end(reason) for reason in turn.end_reasons)
        yield "epoch", str(turn.epoch), ended
    yield "model", "", clean_line(turn.model or "not known")
    if turn.usage is not None:
        yield "usage", "", f"the provider counted {_describe_usage(turn.usage)}"
    yield "cost", "" if turn.cost is None else format_money(turn.cost), "" if turn.cost else "not known"


def _print_heading(output: Output, turn: TurnInfo | TurnReport, place: Key | TurnReport) -> None:
    output.print(Heading(f"Turn {turn_name(turn)}", f"{clean_line(turn.id)} · {format_time(turn.at)}"))
    names = [place.conversation, f"scope {place.scope}", f"agent {place.agent}" if place.agent else ""]
    output.print(Text(" · ".join(clean_line(name) for name in names if name), NOTE_STYLE))


def _draw_sections(sections: Sequence[TurnSection], definitions: Sequence[Definitions], width: int) -> Table:
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
    for index, one in enumerate(definitions, len(sections)):
        name = Text(f"▌ {one.name}", section_style(index))
        more = ["", "", Text(_describe_definitions(one), NOTE_STYLE)] if is_wide else [""]
        table.add_row(name, f"{one.tokens:,}", *more)
    return table


def describe_large_tools(tokens: int) -> str:
    """The cost of a long list of tools, and what to do about it."""
    return (
        f"{tokens:,} tokens of tools are sent with every request; `Agent(..., tool_budget={LARGE_TOOLS})` "
        f"lists a few and lets the model find the others"
    )


def _describe_definitions(one: Definitions) -> str:
    names = clean_line(", ".join(one.items))
    return f"{count(len(one.items), 'tool')}: {names}" if one.name == "tools" and names else names


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
    if omission.what in ("messages", "results", "images"):
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


def _name_message(message: TurnMessage) -> str:
    """A message by its position, role and tool; one that a section made by the section."""
    place = message.section if message.position is None else f"#{message.position}"
    return clean_line(" ".join(filter(None, [place, message.role, message.name])))


def _describe_epoch(report: TurnReport) -> str:
    if report.end_reason is not None:
        return describe_end(report.end_reason)
    appended = sum(message.is_appended for message in report.messages)
    return f"{count(appended, 'text')} of sections appended since the epoch began"


def _value_rows(report: TurnReport) -> Iterator[tuple[str, str, str]]:
    step = f"step {report.step} of {report.steps}, " if report.steps > 1 else ""
    yield "context", f"{report.tokens:,}", f"tokens, {step}composed in {report.milliseconds:.1f} ms"
    if report.definitions and report.request_tokens is not None:
        beside = ", ".join(f"{one.tokens:,} of {_DEFINITIONS[one.name]}" for one in report.definitions)
        yield "request", f"{report.request_tokens:,}", f"tokens: {report.tokens:,} of messages, {beside}"
    if report.budget is not None:
        used, most = report.budget.used, report.budget.max_tokens
        reserved = (
            f", {report.budget.reserve_output:,} reserved for the output"
            if report.budget.reserve_output
            else ""
        )
        yield "budget", f"{used / most:.0%}", f"{used:,} of {most:,} tokens{reserved}"
    share = _percent(report.cached_tokens, report.tokens) or "0%"
    yield (
        "cached",
        share,
        f"{report.cached_tokens:,} tokens are a shared prefix with the previous context; "
        f"{report.new_tokens:,} are new",
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
    largest = sorted(report.messages, key=lambda one: -one.tokens)[:MAX_LARGEST]
    yield "largest", "", ", ".join(f"{_name_message(one)} ({one.tokens:,} tokens)" for one in largest)
    yield "model", "", clean_line(report.model or "not known")
    thinking = report.thinking
    if thinking.sent or thinking.left_out:
        why = f"; {thinking.left_out:,} left out: {'; '.join(thinking.reasons)}" if thinking.left_out else ""
        yield "thinking", f"{thinking.sent:,}", f"blocks of earlier replies were sent back{why}"
    if thinking.is_summary_refused:
        yield "summary", "", "the provider refused its own summary; ours was sent instead"
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
        yield "cost", format_money(cost.estimated), "estimated from local token counts"
    if cost.reported is not None:
        yield "", format_money(cost.reported), "from the provider's token counts"
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
