"""The command itself: its help, its exit codes, its errors; in a terminal, in a pipe, narrow and wide."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from pty_process import Terminal, command_environment, run_command

from autonomy_ctx import Memory
from autonomy_ctx.cli.app import COMMANDS, load_command
from autonomy_ctx.cli.output import ExitCode, WrongInput
from autonomy_ctx.cli.target import MAX_SCOPES, find_conversation

ERROR_MODULES = (
    "agents",
    "contexts",
    "conversations",
    "knowledge",
    "models",
    "root",
    "spelling",
    "stores",
    "tools",
)
HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07 [bold]text[/bold] \u202eback"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database: two scopes, two agents, names and texts of all kinds."""
    folder = tmp_path_factory.mktemp("command")

    async def fill() -> None:
        async with Memory(f"sqlite:///{folder}/trips.db") as memory:
            for scope in ("ana", "bo"):
                await memory.append(scope, "lisbon", {"role": "user", "content": f"My hotel. {HOSTILE}"})
            await memory.append("ana", "taxes", {"role": "user", "content": "The form is due in May."})
            await memory.append("ana", HOSTILE, {"role": "user", "content": "A name that is hostile."})
            planner = memory.for_agent("planner")
            await planner.append("ana", "lisbon", {"role": "user", "content": "Plan the trip."})

    anyio.run(fill)
    return folder


def test_help_lists_every_command_with_its_line(folder: Path) -> None:
    ran = run_command("--help", cwd=folder, COLUMNS="120")
    assert ran.returncode == 0
    assert ran.stderr == ""
    for name, entry in COMMANDS.items():
        assert name in ran.stdout
        assert entry.help in ran.stdout
    assert run_command(cwd=folder, COLUMNS="120").stdout == ran.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_the_options_of_all(name: str) -> None:
    command = load_command(name)
    assert command.help
    options = {option for one in command.params for option in one.opts}
    assert options >= {"--json", "--no-color", "--debug"}
    assert all(getattr(one, "help", None) for one in command.params), "every argument says what it is"


def test_help_imports_no_command() -> None:
    program = (
        "import sys\nfrom autonomy_ctx.cli.app import run\nrun(['--help'])\n"
        "print(*[name for name in sys.modules if name.startswith('autonomy_ctx.')], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], env=command_environment(), capture_output=True, text=True, check=True
    )
    assert set(ran.stderr.split()) == {
        "autonomy_ctx._lazy",
        "autonomy_ctx.cli",
        "autonomy_ctx.cli.app",
        "autonomy_ctx.cli.output",
        "autonomy_ctx.errors",
        *(f"autonomy_ctx.errors.{name}" for name in ERROR_MODULES),
    }


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install(missing: str) -> None:
    program = f"import sys\nsys.modules[{missing!r}] = None\nfrom autonomy_ctx.cli import main\nmain()"
    ran = subprocess.run(
        [sys.executable, "-c", program], env=command_environment(), capture_output=True, text=True
    )
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr == f"autonomy-ctx needs {missing}: pip install 'autonomy-ctx[cli]'\n"


def test_the_version_is_printed(folder: Path) -> None:
    ran = run_command("--version", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such-command"], "there is no command 'no-such-command'"),
        (["explian"], "there is no command 'explian' (did you mean 'explain'?)"),
        (
            ["conversations", "--no-such-option"],
            "`autonomy-ctx conversations` has no option '--no-such-option'",
        ),
        (["show", "--mesages"], "`autonomy-ctx show` has no option '--mesages' (did you mean '--messages'?)"),
        (
            ["--memory", "x", "show"],
            "no option '--memory'; write the options of a command after its name",
        ),
        (["conversations", "--limit"], "--limit"),
        (["conversations", "--limit", "many"], "--limit"),
        (["conversations", "--limit", "0"], "--limit"),
        (["search"], "WORDS"),
        (["export", "--format", "xml"], "xml"),
    ],
)
def test_wrong_usage_is_one_sentence_and_where_to_read_more(
    folder: Path, arguments: list[str], sentence: str
) -> None:
    ran = run_command(*arguments, cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stdout == ""
    error, advice = ran.stderr.splitlines()
    assert error.startswith("error: ")
    assert sentence in error
    assert advice.endswith("--help` shows its usage")


@pytest.mark.parametrize(
    ("memory", "sentence"),
    [
        (
            None,
            "no memory was named: give --memory FILE, or set AUTONOMY_CTX_MEMORY; databases found: trips.db",
        ),
        ("trip.db", "trip.db does not exist; databases found: trips.db"),
        (".", ". is a folder, not a database; databases found: trips.db"),
        ("notes.txt", "notes.txt is not a database of autonomy_ctx; databases found: trips.db"),
        ("what?.db", "what?.db: the path of a memory must not have a question mark in it"),
        ("sqlite:///nowhere/trips.db", "nowhere/trips.db does not exist; databases found: trips.db"),
    ],
)
def test_a_wrong_path_is_an_error_and_makes_nothing(folder: Path, memory: str | None, sentence: str) -> None:
    (folder / "notes.txt").write_text("no database")
    before = sorted(os.listdir(folder))
    arguments = [] if memory is None else ["--memory", memory]
    ran = run_command("conversations", *arguments, cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stdout == ""
    assert ran.stderr == f"error: {sentence}\n"
    assert sorted(os.listdir(folder)) == before


def test_a_database_that_nobody_named_is_left_alone(folder: Path) -> None:
    """Also by the hint that names it: SQLite would make files beside one that it opens."""
    (folder / "trips.db.copy").write_bytes((folder / "trips.db").read_bytes())
    ran = run_command("conversations", "--memory", "trip.db", cwd=folder)
    assert "trips.db.copy" in ran.stderr
    assert [name for name in os.listdir(folder) if name.startswith("trips.db.copy")] == ["trips.db.copy"]
    (folder / "trips.db.copy").unlink()


def test_reading_changes_nothing_in_the_database_or_beside_it(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "trips.db"
    copy.write_bytes((folder / "trips.db").read_bytes())
    before = copy.read_bytes()
    for arguments in (["conversations"], ["show", "taxes"], ["show", "taxes", "--facts"], ["export"]):
        assert run_command(*arguments, "-m", "trips.db", cwd=tmp_path).returncode == 0
    assert os.listdir(tmp_path) == ["trips.db"]
    assert copy.read_bytes() == before


async def test_more_scopes_than_can_be_looked_through_are_told() -> None:
    async with Memory() as memory:
        for number in range(MAX_SCOPES + 1):
            await memory.append(f"user {number}", "trip", {"role": "user", "content": "Hello"})
        with pytest.raises(WrongInput, match=f"more than {MAX_SCOPES:,} scopes; name one with --scope"):
            await find_conversation(memory, "trip")
        assert (await find_conversation(memory, None, scope="user 7")).scope == "user 7"
        await memory.delete_scope("user 7")
        with pytest.raises(WrongInput, match="choose one:\n  trip --scope 'user 0'\n"):
            await find_conversation(memory, "trip")


def test_a_memory_is_named_by_an_option_the_environment_or_a_url(folder: Path) -> None:
    by_option = run_command("conversations", "--memory", "trips.db", cwd=folder)
    by_variable = run_command("conversations", cwd=folder, AUTONOMY_CTX_MEMORY="trips.db")
    by_url = run_command("conversations", "-m", f"sqlite:///{folder}/trips.db", cwd=folder.parent)
    assert by_option.returncode == 0
    assert by_option.stdout == by_variable.stdout == by_url.stdout != ""


def test_conversations_are_listed_with_all_their_names(folder: Path) -> None:
    ran = run_command("conversations", "-m", "trips.db", "--json", cwd=folder)
    listed = json.loads(ran.stdout)
    found = [
        (one["scope"], one["agent"], one["conversation"], one["messages"]) for one in listed["conversations"]
    ]
    assert found == [
        ("ana", "", HOSTILE, 1),
        ("ana", "", "lisbon", 1),
        ("ana", "", "taxes", 1),
        ("ana", "planner", "lisbon", 1),
        ("bo", "", "lisbon", 1),
    ]
    assert listed["more"] is False
    few = json.loads(run_command("conversations", "-m", "trips.db", "-n", "2", "--json", cwd=folder).stdout)
    assert (len(few["conversations"]), few["more"]) == (2, True)
    bo = run_command("conversations", "-m", "trips.db", "--scope", "bo", cwd=folder)
    assert "lisbon" in bo.stdout
    assert "ana" not in bo.stdout
    none = run_command("conversations", "-m", "trips.db", "--scope", "cy", cwd=folder)
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr == "there are no conversations with these names\n"


def test_an_ambiguous_name_lists_what_there_is_as_it_is_typed(folder: Path) -> None:
    ran = run_command("export", "lisbon", "-m", "trips.db", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr.splitlines() == [
        "error: there are several conversations named 'lisbon'; choose one:",
        "  lisbon --scope ana --agent ''",
        "  lisbon --scope ana --agent planner",
        "  lisbon --scope bo --agent ''",
    ]
    chosen = run_command(
        "export", "lisbon", "--scope", "ana", "--agent", "planner", "-m", "trips.db", cwd=folder
    )
    assert "Plan the trip." in chosen.stdout


def test_an_unknown_name_brings_near_ones(folder: Path) -> None:
    ran = run_command("export", "taxs", "-m", "trips.db", cwd=folder)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr.splitlines() == [
        "error: there is no conversation 'taxs'; did you mean:",
        "  taxes --scope ana",
    ]
    elsewhere = run_command("export", "x", "-m", "trips.db", "--scope", "cy", cwd=folder)
    assert "there are no conversations of scope 'cy'" in elsewhere.stderr
    near = run_command("export", "lisbon", "-m", "trips.db", "--scope", "anna", cwd=folder)
    assert near.stderr == "error: there are no conversations of scope 'anna'; did you mean the scope 'ana'?\n"


@pytest.mark.parametrize("columns", [40, 200])
def test_lines_fit_the_terminal(folder: Path, columns: int) -> None:
    with Terminal("conversations", "-m", "trips.db", cwd=folder, columns=columns) as terminal:
        assert terminal.wait() == 0
        lines = terminal.text.splitlines()
    assert lines
    assert max(map(len, lines)) <= columns
    # Names are folded, not cut.
    assert "planner" in terminal.text or columns < 60


def test_a_terminal_has_colours_and_a_pipe_has_none(folder: Path) -> None:
    with Terminal("conversations", "-m", "trips.db", cwd=folder) as terminal:
        terminal.wait()
        assert "\x1b[" in terminal.raw
    ran = run_command("conversations", "-m", "trips.db", cwd=folder)
    assert "\x1b" not in ran.stdout
    assert all(line == line.rstrip() for line in ran.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "variables"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})]
)
def test_without_colours_there_is_no_escape_sequence(
    folder: Path, arguments: list[str], variables: dict[str, str]
) -> None:
    for command in (
        ["conversations", "-m", "trips.db"],
        ["conversations", "-m", "gone.db"],
        ["export", "--help"],
    ):
        with Terminal(*command, *arguments, cwd=folder, columns=100, **variables) as terminal:
            terminal.wait()
            assert "\x1b" not in terminal.raw


def test_stored_text_reaches_no_terminal_as_a_control_sequence(folder: Path) -> None:
    for arguments in (["conversations"], ["search", "hotel"], ["search", "hotel", "--json"], ["export"]):
        with Terminal(*arguments, "-m", "trips.db", "--no-color", cwd=folder) as terminal:
            assert terminal.wait() == 0
        for sequence in ("\x1b", "\x07", "\u202e"):
            assert sequence not in terminal.raw
        assert "red" in terminal.raw


def test_a_reader_that_has_read_enough_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m autonomy_ctx export -m trips.db | true; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=command_environment(), capture_output=True, text=True
    )
    assert ran.stdout == "0\n"
    assert "Traceback" not in ran.stderr
    assert "Broken" not in ran.stderr


def test_a_terminal_without_letters_gets_question_marks_and_json_gets_escapes(folder: Path) -> None:
    variables = {"PYTHONIOENCODING": "ascii"}
    ran = run_command("conversations", "-m", "trips.db", cwd=folder, **variables)
    assert ran.returncode == 0
    assert ran.stdout.isascii()
    found = run_command("search", "hotel", "-m", "trips.db", "--json", cwd=folder, **variables)
    assert "\u202eback" in json.loads(found.stdout)["hits"][0]["message"]["content"]


def test_a_traceback_is_shown_only_when_asked_for(folder: Path) -> None:
    quiet = run_command("conversations", "-m", "gone.db", cwd=folder)
    loud = run_command("conversations", "-m", "gone.db", "--debug", cwd=folder)
    assert quiet.returncode == loud.returncode == ExitCode.WRONG_INPUT
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in loud.stderr
    assert quiet.stderr in loud.stderr


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A pipe that nobody writes into."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    holder = os.open(path, os.O_RDWR)
    yield path
    os.close(holder)


def test_ctrl_c_ends_a_command_without_a_word(folder: Path, pipe: Path) -> None:
    with Terminal("import", str(pipe), "-m", "trips.db", "-s", "ana", "-c", "new", cwd=folder) as terminal:
        # A signal that comes just before it begins to read would be seen with the next one only. What is
        # shown again and again is shown by another thread, while the first one reads.
        terminal.wait_for(*["reading"] * 4)
        terminal.type("\x03")
        assert terminal.wait() == ExitCode.INTERRUPTED
        assert "Traceback" not in terminal.text


def test_completion_knows_commands_and_options(folder: Path) -> None:
    def complete(*words: str) -> str:
        return run_command(
            cwd=folder,
            _AUTONOMY_CTX_COMPLETE="complete_bash",
            COMP_WORDS=" ".join(words),
            COMP_CWORD=str(len(words) - 1),
        ).stdout

    assert complete("autonomy-ctx", "conv").split() == ["conversations"]
    assert "--memory" in complete("autonomy-ctx", "export", "--m").split()
