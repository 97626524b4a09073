"""`autonomy-ctx show` and `explain`: what people see of a conversation and of a turn."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from pty_process import Terminal, run_command

from autonomy_ctx import (
    AdditionalContextSection,
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    Model,
    ModelReply,
    SystemInstructionsSection,
    TextContent,
    Tool,
    Usage,
)
from autonomy_ctx.cli.output import ExitCode
from autonomy_ctx.inspection import inspect_conversation, inspect_turn
from autonomy_ctx.testing import ScriptedModel

HOSTILE = "\x1b[2J\x1b[31mred\x1b[0m \u202eback [bold]x[/bold]"


def _no_weather(*_: Any) -> list[Message]:
    raise ConnectionError(f"down {HOSTILE}")


async def fill(path: Path) -> None:
    """A long conversation with a summary, a fact, a pin and turns; a short one without turns."""
    async with Memory(f"sqlite:///{path}") as memory:
        model = Model("offline")
        async with Agent(
            "guide", instructions="You plan trips.", model=model, memory=memory, context_summary=True
        ) as guide:
            for night in range(1, 31):
                await guide.send(f"Night {night} costs {60 + night} EUR.", scope="ana", conversation="trip")
        view = memory.for_agent("guide")
        first = (await view.read("ana", "trip", limit=2)).entries[0]
        await view.pin("ana", "trip", first.message.id)
        kept = await view.facts("ana", "trip").add("value", "The budget is 900 EUR.")
        await view.facts("ana", "trip").replace(kept.id, "The budget is 1,200 EUR.")
        template = ContextTemplate(
            [
                SystemInstructionsSection(f"You are careful. {HOSTILE}"),
                AdditionalContextSection("weather", provider_fn=_no_weather),
                ConversationHistorySection(),
            ],
            max_tokens=400,
        )
        async with Agent("cook", model=model, memory=memory, context_template=template) as cook:
            for number in range(12):
                await cook.send(f"Dish {number}: {HOSTILE} {'salt ' * 40}", scope="bo", conversation="dinner")
        usage = Usage(
            input_tokens=1_000,
            cached_tokens=600,
            cache_write_tokens=150,
            long_cache_write_tokens=50,
            output_tokens=90,
            reasoning_tokens=30,
        )
        paid = ScriptedModel([lambda _: ModelReply(parts=(TextContent("ok"),), usage=usage)])
        paid.name = "gpt-5"
        await Agent("clerk", model=paid, memory=memory).send("Hello.", scope="di", conversation="shop")
        await memory.append("cy", "notes", {"role": "user", "content": "x" * 5000 + " the end"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show")
    anyio.run(fill, folder / "all.db")
    return folder


def run(folder: Path, *arguments: str, **variables: str) -> str:
    """What a command prints; it succeeds."""
    ran = run_command(*arguments, "-m", "all.db", cwd=folder, **variables)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_conversation_is_shown_with_where_it_stands(folder: Path) -> None:
    shown = run(folder, "show", "trip")
    assert "scope ana · agent guide" in shown
    assert "between floor 10 and ceiling 20" in shown
    for name in ("messages", "window", "summary", "facts", "pins", "turns", "Newest messages"):
        assert name in shown
    assert "Night 30 costs 90 EUR." in shown


def test_json_is_exactly_what_inspection_gives(folder: Path) -> None:
    async def expected() -> tuple[dict[str, Any], dict[str, Any]]:
        async with Memory(f"sqlite:///{folder}/all.db") as memory:
            view = memory.for_agent("guide")
            conversation = await inspect_conversation(view, "ana", "trip")
            return conversation.to_dict(), (await inspect_turn(view, "ana", "trip")).to_dict()

    conversation, turn = anyio.run(expected)
    assert json.loads(run(folder, "show", "trip", "--json")) == conversation
    explained = json.loads(run(folder, "explain", "-c", "trip", "--json"))
    # What a section makes anew has no time of its own.
    assert explained.keys() == turn.keys()
    assert explained["sections"] == turn["sections"]
    assert explained["changes"] == turn["changes"]
    for part in ("segments", "facts", "pins", "turns"):
        option = "--summary" if part == "segments" else f"--{part}"
        assert json.loads(run(folder, "show", "trip", option, "--json")) == {part: conversation[part]}


def test_the_parts_of_a_conversation_are_shown(folder: Path) -> None:
    assert "Messages 1 to " in run(folder, "show", "trip", "--summary")
    facts = run(folder, "show", "trip", "--facts")
    assert "The budget is 1,200 EUR." in facts
    assert "before: The budget is 900 EUR." in facts
    assert "#59 user" in run(folder, "show", "trip", "--pins")
    assert "Night 30 costs 90 EUR." in run(folder, "show", "trip", "--turns")


def test_what_is_not_there_is_said(folder: Path) -> None:
    sentences = {
        "--summary": "nothing is summarized yet",
        "--facts": "there are no facts",
        "--pins": "no message is pinned",
        "--turns": "no turn is recorded; only agents record turns",
    }
    for option, sentence in sentences.items():
        ran = run_command("show", "notes", option, "-m", "all.db", cwd=folder)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", f"{sentence}\n")


def test_messages_are_paged_and_long_ones_are_cut_until_asked_for(folder: Path) -> None:
    ran = run_command("show", "trip", "--messages", "--before", "5", "-n", "2", "-m", "all.db", cwd=folder)
    assert [line.split()[0] for line in ran.stdout.splitlines() if line.startswith("#")] == ["#3", "#4"]
    assert ran.stderr.splitlines() == [
        "--before 3 shows the messages before these",
        "--after 4 shows the messages after these",
    ]
    after = run(folder, "show", "trip", "--messages", "--after", "0", "-n", "1")
    assert "Night 1 costs 61 EUR." in after
    page = run(folder, "show", "notes", "--messages")
    assert "the end" not in page
    assert "3,008 more characters; --message 1 shows all of it" in page
    assert "the end" in run(folder, "show", "notes", "--message", "1").replace("\n  ", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--facts", "--pins"], "--facts and --pins cannot be combined; leave out one"),
        (["--before", "3"], "--before and --after need --messages"),
        (["--turn", "7777"], "there is no record of turn '7777'; the newest are:"),
        (["--message", "7777"], "7777"),
    ],
)
def test_what_cannot_be_shown_is_an_error(folder: Path, arguments: list[str], sentence: str) -> None:
    ran = run_command("show", "trip", *arguments, "-m", "all.db", cwd=folder)
    assert ran.returncode in (ExitCode.FAILED, ExitCode.WRONG_INPUT)
    assert sentence in ran.stderr


def test_a_turn_is_explained_section_by_section(folder: Path) -> None:
    explained = run(folder, "explain", "-c", "dinner")
    for name in ("system_instructions", "weather", "conversation_history"):
        assert f"▌ {name}" in explained
    assert "weather was left out: its provider failed: ConnectionError" in explained
    assert "of conversation_history left out" in explained
    assert "of 400 tokens" in explained
    assert "tokens are a shared prefix with the previous context" in explained
    assert "Changes since the previous turn" in explained
    assert "new messages" in explained


def test_the_tools_are_a_part_of_a_turn_that_is_explained(folder: Path) -> None:
    explained = run(folder, "explain", "-c", "trip", COLUMNS="120")
    report = json.loads(run(folder, "explain", "-c", "trip", "--json"))
    [tools] = report["definitions"]
    assert tools["items"] == ["get_current_time_utc", "get_current_time"]
    [row] = [line for line in explained.splitlines() if line.startswith("▌ tools")]
    tokens = f"{tools['tokens']:,}"
    assert row.split() == ["▌", "tools", tokens, "2", "tools:", "get_current_time_utc,", "get_current_time"]
    assert report["request_tokens"] == sum(one["tokens"] for one in (*report["sections"], tools))
    assert (
        f"{report['request_tokens']:,}  tokens: {report['tokens']:,} of messages, {tokens} of tools"
        in explained
    )
    # The last part of the bar.
    [bar] = [line for line in explained.splitlines() if line.startswith("█")]
    share = tools["tokens"] / report["request_tokens"]
    shade = "█▓▒░"[len(report["sections"]) % 4]
    assert abs(len(bar) - len(bar.rstrip(shade)) - share * len(bar)) <= 1


def test_the_epochs_of_turns_and_the_reasons_of_their_ends_are_shown(folder: Path) -> None:
    turns = run(folder, "show", "trip", "--turns", COLUMNS="120")
    assert "epoch" in turns
    assert " swap " in turns
    found = json.loads(run(folder, "show", "trip", "--turns", "--json"))["turns"]
    swapped = next(turn for turn in reversed(found) if turn["end_reasons"] == ["swap"])
    explained = run(folder, "explain", str(swapped["position"]), "-c", "trip", COLUMNS="120")
    assert "a new epoch began (swap): another summary is shown" in explained
    after = run(folder, "explain", "-c", "dinner", COLUMNS="120")
    assert "epoch " in after


def test_a_turn_is_named_by_position_id_or_the_beginning_of_its_id(folder: Path) -> None:
    turns = json.loads(run(folder, "show", "trip", "--turns", "--json"))["turns"]
    turn = turns[-3]
    names = (turn["id"], turn["id"][:-2], str(turn["position"]))
    found = [json.loads(run(folder, "explain", name, "-c", "trip", "--json"))["id"] for name in names]
    assert found == [turn["id"]] * 3
    ambiguous = run_command("explain", turn["id"][:4], "-c", "trip", "-m", "all.db", cwd=folder)
    assert ambiguous.returncode == ExitCode.WRONG_INPUT
    assert "several turns begin with" in ambiguous.stderr


def test_the_messages_that_were_sent_are_listed_or_shown_whole(folder: Path) -> None:
    listed = run(folder, "explain", "-c", "trip", "--messages")
    assert "You plan trips." in listed
    assert "Night 30 costs 90 EUR." in listed
    whole = run(folder, "show", "trip", "--turn", "59")
    assert "CONVERSATION SUMMARY" in whole


def test_usage_and_costs_are_shown(folder: Path) -> None:
    shown = " ".join(run(folder, "explain", "-c", "shop", COLUMNS="160").split())
    assert "1,000 in (600 cached, 100 written to the cache, 50 written for longer)" in shown
    assert "90 out (30 reasoning)" in shown
    assert "of the recorded turns, by list prices" in run(folder, "show", "shop")


def test_a_turn_is_named_by_its_number_and_an_old_one_shows_its_figures(folder: Path) -> None:
    kept = json.loads(run(folder, "explain", "trip", "--turn", "30", "--json"))
    assert (kept["number"], kept["position"]) == (30, 59)
    old = json.loads(run(folder, "explain", "trip", "--turn", "5", "--json"))
    assert (old["number"], old["position"], old["has_context"]) == (5, 9, False)
    drawn = run_command("explain", "trip", "--turn", "5", "-m", "all.db", cwd=folder)
    assert "Turn 5" in drawn.stdout
    assert "Night 5 costs" in drawn.stdout
    assert "conversation_history" in drawn.stdout
    assert "its full context is not kept" in drawn.stderr
    assert "explain_turns" in drawn.stderr
    failed = run_command("explain", "trip", "5", "--messages", "-m", "all.db", cwd=folder)
    assert failed.returncode == ExitCode.WRONG_INPUT
    assert "its full context is not kept" in failed.stderr
    listed = run_command("show", "trip", "--turns", "--before", "4", "-m", "all.db", cwd=folder)
    assert [line.split()[0] for line in listed.stdout.splitlines() if "Night" in line] == ["1", "2", "3"]
    both = run_command("explain", "trip", "5", "--turn", "6", "-m", "all.db", cwd=folder)
    assert both.returncode == ExitCode.WRONG_INPUT


def test_the_largest_turns_and_messages_are_named(folder: Path) -> None:
    listed = json.loads(run(folder, "show", "trip", "--turns", "--by", "tokens", "--json"))["turns"]
    tokens = [turn["tokens"] for turn in listed]
    assert tokens == sorted(tokens)
    assert len(set(tokens)) > 1
    assert run(folder, "show", "trip", "--turns", "--by", "tokens").splitlines()[-1].split()[0].isdecimal()
    wrong = run_command("show", "trip", "--by", "tokens", "-m", "all.db", cwd=folder)
    assert wrong.stderr == "error: --by needs --turns\n"
    report = json.loads(run(folder, "explain", "trip", "--json"))
    largest = max(message["tokens"] for message in report["messages"])
    [line] = [one for one in run(folder, "explain", "trip").splitlines() if one.strip().startswith("largest")]
    assert f"({largest:,} tokens)" in line


def test_a_conversation_without_turns_cannot_be_explained(folder: Path) -> None:
    ran = run_command("explain", "-c", "notes", "-m", "all.db", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr == (
        "error: no turn of 'notes' is recorded; only agents record turns. Send an agent a message first, "
        "for example with `autonomy-ctx chat`\n"
    )


def test_several_conversations_are_listed_as_they_are_typed(folder: Path) -> None:
    ran = run_command("explain", "-m", "all.db", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert "  trip --scope ana --agent guide\n" in ran.stderr


def test_a_turn_is_explained_by_the_name_of_its_conversation(folder: Path) -> None:
    newest = json.loads(run(folder, "explain", "-c", "trip", "--json"))
    assert json.loads(run(folder, "explain", "trip", "--json")) == newest
    assert json.loads(run(folder, "explain", "trip", "57", "--json"))["position"] == 57
    shown = run_command("show", "trip", "--turns", "-m", "all.db", cwd=folder)
    assert f"`autonomy-ctx explain trip {newest['number']}` explains the newest" in shown.stderr


def test_one_argument_of_explain_may_be_a_turn_of_the_only_conversation(folder: Path) -> None:
    only = ("--scope", "ana", "--json")
    newest = json.loads(run(folder, "explain", *only))
    assert json.loads(run(folder, "explain", str(newest["position"]), *only)) == newest
    assert json.loads(run(folder, "explain", newest["id"], *only)) == newest


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["guide"],
            "'guide' is the name of an agent, not of a conversation; give one of its conversations:\n"
            "  trip --scope ana --agent guide",
        ),
        (["tripp"], "there is no conversation 'tripp'; did you mean:\n  trip --scope ana --agent guide"),
        (
            ["tripp", "57"],
            "there is no conversation 'tripp'; did you mean:\n  trip --scope ana --agent guide",
        ),
        (["trip", "58"], "there is no record of turn '58'; the newest are:"),
        (
            ["trip", "57", "-c", "trip"],
            "'trip' and --conversation both name a conversation; leave out one",
        ),
    ],
)
def test_what_cannot_be_explained_is_told_with_what_can(
    folder: Path, arguments: list[str], sentence: str
) -> None:
    ran = run_command("explain", *arguments, "-m", "all.db", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr.startswith(f"error: {sentence}")


@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "dinner"],
        ["show", "dinner", "--messages"],
        ["show", "dinner", "--turns"],
        ["show", "trip", "--facts"],
        ["explain", "-c", "dinner", "--messages"],
    ],
    ids=" ".join,
)
def test_lines_fit_and_stored_text_is_only_text(folder: Path, columns: int, arguments: list[str]) -> None:
    with Terminal(*arguments, "-m", "all.db", "--no-color", cwd=folder, columns=columns) as terminal:
        assert terminal.wait() == 0
    assert max(len(line) for line in terminal.raw.splitlines()) <= columns
    for sequence in ("\x1b", "\u202e"):
        assert sequence not in terminal.raw


def test_a_long_list_of_tools_is_a_warning_of_explain_and_doctor(tmp_path: Path) -> None:
    words = "Many words about the arguments, the results and the errors. " * 30
    tools = [Tool(lambda: "", name=f"tool_{number}", description=words) for number in range(40)]

    async def talk(name: str, **options: Any) -> None:
        async with (
            Memory(f"sqlite:///{tmp_path}/{name}.db") as memory,
            Agent("guide", model=ScriptedModel("Yes."), memory=memory, tools=tools, **options) as guide,
        ):
            await guide.send("Hello", conversation="trip")

    anyio.run(talk, "all")
    anyio.run(partial(talk, tool_budget=2_000), "few")
    for command in (("explain", "trip"), ("doctor",)):
        told, silent = (run_command(*command, "-m", f"{name}.db", cwd=tmp_path) for name in ("all", "few"))
        assert "tool_budget=8000" in " ".join(told.stdout.split())
        assert "tool_budget" not in silent.stdout
