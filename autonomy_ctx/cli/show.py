"""`autonomy-ctx show`: a conversation, its messages, its summary, its facts, its pins and its turns."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import typer
from rich.padding import Padding
from rich.text import Text

from autonomy_ctx.cli.drawing import (
    FAILED_STYLE,
    NARROW,
    NOTE_STYLE,
    ROLE_STYLES,
    Heading,
    MessageTable,
    format_money,
    line_of,
    value_table,
)
from autonomy_ctx.cli.explain import resolve_turn, turn_name
from autonomy_ctx.cli.output import Output, WrongInput, clean, clean_line, count, format_time, make_table
from autonomy_ctx.cli.target import (
    AgentOption,
    ConversationArgument,
    MemoryOption,
    ScopeOption,
    find_conversation,
    open_memory,
)
from autonomy_ctx.inspection.conversation import ConversationReport, FactReport, inspect_conversation
from autonomy_ctx.inspection.message import (
    MAX_PAGE_MESSAGES,
    MessagePage,
    MessageReport,
    read_message,
    read_messages,
)
from autonomy_ctx.inspection.report import Report
from autonomy_ctx.inspection.turn import MAX_TURNS, TurnInfo, inspect_turn, list_turns

# How many messages there are below a conversation, and on a page of them; and how much of each text.
NEWEST_MESSAGES, PAGE_SIZE, PAGE_CHARACTERS = 6, 20, 2_000
# Of so many turns, the largest are found.
MAX_SORTED = 1_000
VIEWS = ("messages", "message", "turn", "turns", "summary", "facts", "pins")


async def show(
    output: Output,
    conversation: ConversationArgument = None,
    memory: MemoryOption = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    messages: Annotated[bool, typer.Option("--messages", help="A page of the messages.")] = False,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="Messages before this position, or turns.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="POSITION", help="Messages after this position.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MAX_PAGE_MESSAGES, help="The number of messages.")
    ] = PAGE_SIZE,
    message: Annotated[
        int | None, typer.Option(min=1, metavar="POSITION", help="One message with its whole text.")
    ] = None,
    turns: Annotated[bool, typer.Option("--turns", help="The turns and their figures.")] = False,
    by: Annotated[
        Literal["cost", "tokens"] | None,
        typer.Option(help=f"With --turns: the largest of the newest {MAX_SORTED:,} turns, the largest last."),
    ] = None,
    turn: Annotated[
        str | None, typer.Option(metavar="TURN", help="The messages that the model was sent in a turn.")
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="The segments of the summary.")] = False,
    facts: Annotated[
        bool, typer.Option("--facts", help="The current facts, and those that they replaced.")
    ] = False,
    pins: Annotated[bool, typer.Option("--pins", help="The pinned messages.")] = False,
) -> None:
    """Show a conversation: its state and its newest messages, or one part of it in full."""
    given = dict(zip(VIEWS, (messages, message, turn, turns, summary, facts, pins), strict=True))
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1:
        raise WrongInput(f"--{chosen[0]} and --{chosen[1]} cannot be combined; leave out one")
    if (before is not None and chosen not in (["messages"], ["turns"])) or (
        after is not None and chosen != ["messages"]
    ):
        raise WrongInput("--before and --after need --messages; --before can also be used with --turns")
    if by is not None and chosen != ["turns"]:
        raise WrongInput("--by needs --turns")
    async with open_memory(memory) as opened:
        key = await find_conversation(opened, conversation, scope=scope, agent=agent)
        view = opened.for_agent(key.agent)
        names = (key.scope, key.conversation)
        found: Report
        if messages:
            characters = None if output.is_json else PAGE_CHARACTERS
            found = page = await read_messages(
                view, *names, before=before, after=after, limit=limit, max_characters=characters
            )
            draw = partial(_print_page, output, page)
        elif message is not None:
            found = one = await read_message(view, *names, message)
            draw = partial(_print_messages, output, [one])
        elif turn is not None:
            info = await resolve_turn(view, key, turn)
            found = report = await inspect_turn(view, *names, info.number or info.id)
            draw = partial(_print_messages, output, report.messages)
        else:
            found = state = await inspect_conversation(view, *names)
            if by is not None:
                listed = await list_turns(view, *names, before=before, limit=MAX_SORTED)
                largest = sorted(listed, key=lambda turn: getattr(turn, by) or 0)
                found = state = replace(state, turns=tuple(largest[-limit:]))
            elif before is not None:
                found = state = replace(state, turns=await list_turns(view, *names, before=before))
            if chosen:
                draw = partial(PARTS[chosen[0]], output, state)
                if by is not None:
                    draw = partial(_print_turns, output, state, is_sorted=True)
            else:
                newest = await read_messages(
                    view, *names, limit=NEWEST_MESSAGES, max_characters=PAGE_CHARACTERS
                )
                draw = partial(_print_conversation, output, state, newest)
    if not output.is_json:
        draw()
    elif chosen and chosen[0] in PARTS:
        name = "segments" if summary else chosen[0]
        output.print_json({name: found.to_dict()[name]})
    else:
        output.print_json(found.to_dict())


def _print_conversation(output: Output, report: ConversationReport, newest: MessagePage) -> None:
    agent = f" · agent {report.agent}" if report.agent else ""
    output.print(Heading(clean_line(report.conversation), clean_line(f"scope {report.scope}{agent}")))
    output.print(value_table(_value_rows(report)))
    output.print(Heading("Newest messages"))
    output.print(MessageTable([line_of(message) for message in newest.messages]))


def _value_rows(report: ConversationReport) -> Iterator[tuple[str, str, str]]:
    yield (
        "messages",
        f"{report.messages:,}",
        f"{format_time(report.first_at)} to {format_time(report.last_at)}",
    )
    bounds = ""
    if report.floor is not None and report.ceiling is not None:
        bounds = f", between floor {report.floor:,} and ceiling {report.ceiling:,}"
    yield "window", f"{report.window:,}", f"shown verbatim{bounds}"
    if report.segments:
        digests = sum(segment.is_digest for segment in report.segments)
        note = f"{count(report.summary_tokens, 'token')} for messages 1 to {report.covered:,}"
        if digests:
            note += f"; {count(digests, 'digest')}, to be replaced by a model's summary"
        noun = "segment" if len(report.segments) == 1 else "segments"
        yield "summary", f"{len(report.segments):,}", f"{noun}, {note}"
    if report.facts:
        holding = [fact for fact in report.facts if fact.state == "holds"]
        ended = len(report.facts) - len(holding)
        past = f"; {ended:,} ended" if ended else ""
        yield "facts", f"{len(holding):,}", f"current{past}"
    if report.pins:
        yield "pins", f"{len(report.pins):,}", "shown in every context"
    if report.shared_until:
        yield "shared", f"{report.shared_until:,}", "messages are shared with a fork"
    turns = f"newest {MAX_TURNS} turns" if len(report.turns) == MAX_TURNS else "recorded turns"
    for cost, of in ((report.turns_cost, turns), (report.summaries_cost, "summaries")):
        if cost is not None:
            yield "cost", format_money(cost), f"of the {of}, by list prices"
    if report.turns:
        newest = report.turns[-1]
        yield "turns", f"{newest.number or len(report.turns):,}", f"the newest {format_time(newest.at)}"


def _print_page(output: Output, page: MessagePage) -> None:
    _print_messages(output, page.messages)
    if not page.messages:
        output.note("there are no messages in this range")
    if page.older is not None:
        output.note(f"--before {page.older} shows the messages before these")
    if page.newer is not None:
        output.note(f"--after {page.newer} shows the messages after these")


def _print_messages(output: Output, messages: Sequence[MessageReport]) -> None:
    """Messages with their texts, as a transcript."""
    for number, message in enumerate(messages):
        if number:
            output.print("")
        heading = Text()
        if message.position is not None:
            heading.append(f"#{message.position} ", "cyan")
        heading.append(message.role, f"bold {ROLE_STYLES.get(message.role, '')}".strip())
        notes = [clean_line(message.name or ""), "error" if message.is_error else ""]
        # What a section made for a turn was never said at a time.
        time = "" if message.created_at is None else format_time(message.created_at)
        notes += [time, count(message.tokens, "token")]
        heading.append("  " + " · ".join(note for note in notes if note), NOTE_STYLE)
        output.print(heading)
        for text in _message_texts(message):
            output.print(Padding(text, (0, 0, 0, 2)))


def _message_texts(message: MessageReport) -> Iterator[Text]:
    if message.text:
        yield Text(clean(message.text))
    for part in message.parts:
        yield Text(f"[{part.kind}] {clean(part.text)}", NOTE_STYLE)
    for call in message.tool_calls:
        yield Text(f"→ {clean_line(call.name)}({clean(call.arguments)})", "yellow")
    if not message.is_whole:
        where = f"--message {message.position} shows all of it"
        left = message.characters - len(message.text)
        note = f"… {count(left, 'more character')}; {where}" if left > 0 else where
        yield Text(note, NOTE_STYLE)


def _print_summary(output: Output, report: ConversationReport) -> None:
    if not report.segments:
        output.note("nothing is summarized yet")
    for segment in report.segments:
        made = "digest, until a model summarizes it" if segment.is_digest else clean_line(segment.model)
        made += ", doubtful" if segment.is_doubtful else ""
        notes = [made, f"level {segment.level}" if segment.level else "", count(segment.tokens, "token")]
        title = f"Messages {segment.first:,} to {segment.last:,}"
        output.print(Heading(title, " · ".join(note for note in notes if note)))
        output.print(Text(clean(segment.text)))


def _print_facts(output: Output, report: ConversationReport) -> None:
    if not report.facts:
        output.note("there are no facts")
        return
    table = make_table("kind", "fact")
    table.add_column("since", justify="right", no_wrap=True)
    for fact in report.facts:
        if fact.state == "holds":
            table.add_row(Text(fact.kind, NOTE_STYLE), _draw_fact(fact), Text(f"#{fact.position}", "cyan"))
    output.print(table)
    ended = [fact for fact in report.facts if fact.state != "holds" and fact.replaced_by is None]
    for fact in ended:
        output.print(Text(f"ended: {clean_line(fact.text)}", NOTE_STYLE))


def _draw_fact(fact: FactReport) -> Text:
    text = Text(clean_line(fact.text))
    if fact.in_profile:
        text.append("  in all conversations", "magenta")
    if fact.replaced_text is not None:
        text.append(f"\nbefore: {clean_line(fact.replaced_text)}", NOTE_STYLE)
    return text


def _print_pins(output: Output, report: ConversationReport) -> None:
    if not report.pins:
        output.note("no message is pinned")
    _print_messages(output, [pin.message for pin in report.pins])


def _print_turns(output: Output, report: ConversationReport, *, is_sorted: bool = False) -> None:
    if not report.turns:
        output.note("no turn is recorded; only agents record turns")
        return
    is_wide, has_costs = output.width >= NARROW, any(turn.cost for turn in report.turns)
    has_epochs = is_wide and any(turn.epoch for turn in report.turns)
    table = make_table()
    table.expand = True
    table.add_column("turn", justify="right", style="cyan", no_wrap=True)
    if is_wide:
        table.add_column("time", style=NOTE_STYLE, no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    if has_costs:
        table.add_column("cost", justify="right", no_wrap=True)
    if has_epochs:
        table.add_column("epoch", no_wrap=True)
    table.add_column("text", ratio=1, no_wrap=True, overflow="ellipsis")
    for turn in report.turns:
        table.add_row(
            turn_name(turn),
            *([format_time(turn.at)] if is_wide else []),
            f"{turn.tokens:,}",
            *(["" if turn.cost is None else format_money(turn.cost)] if has_costs else []),
            *([_describe_epoch(turn)] if has_epochs else []),
            Text.assemble(("failed ", FAILED_STYLE) if turn.has_failed else "", clean_line(turn.text)),
        )
    output.print(table)
    if is_sorted:
        return
    if any(turn.end_reasons for turn in report.turns):
        output.note("requests of an epoch share a prefix; the word beside it says why the last epoch ended")
    if (first := report.turns[0].number) is not None and first > 1:
        output.note(f"--before {first} shows the turns before these")
    newest = shlex.join([report.conversation, turn_name(report.turns[-1])])
    output.note(f"`autonomy-ctx explain {clean_line(newest)}` explains the newest turn")


def _describe_epoch(turn: TurnInfo) -> Text:
    """The number of a turn's epoch, and why epochs have ended in it."""
    text = Text("" if turn.epoch is None else str(turn.epoch))
    if turn.end_reasons:
        text.append(f" {', '.join(turn.end_reasons)}", "yellow")
    return text


PARTS: dict[str, Callable[[Output, ConversationReport], None]] = {
    "summary": _print_summary,
    "facts": _print_facts,
    "pins": _print_pins,
    "turns": _print_turns,
}
