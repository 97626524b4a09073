"""`autonomy-ctx doctor`, `lint`, `search` and `migrate`: what they find, and how they end."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import threading
import tomllib
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest
from pty_process import ROOT, run_command

from autonomy_ctx import Agent, Memory
from autonomy_ctx.cli import doctor
from autonomy_ctx.cli.doctor import EXTRAS, FRAMEWORKS
from autonomy_ctx.cli.output import ExitCode
from autonomy_ctx.memory.sqlite.migrate import latest_version
from autonomy_ctx.testing import ScriptedModel

# A database as an earlier version has left it.
OLD_DATABASE = ROOT / "tests" / "memory" / "old_folding.sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    async def fill() -> None:
        async with Memory(f"sqlite:///{tmp_path}/trips.db") as memory:
            for scope, text in (("ana", "My booking code is PT-4711."), ("bo", "Two bookings, please.")):
                await memory.append(scope, "lisbon", {"role": "user", "content": text})
            await memory.for_agent("guide").append(
                "ana", "porto", {"role": "user", "content": "No booking yet."}
            )
            long = "word " * 400 + "the harbour " + "word " * 400
            await memory.append("ana", "lisbon", {"role": "user", "content": long})

    anyio.run(fill)
    return tmp_path


# -- search -------------------------------------------------------------------------------------------


def test_a_search_goes_over_all_scopes_and_agents_or_some(folder: Path) -> None:
    def places(*arguments: str) -> set[tuple[str, str, str]]:
        ran = run_command("search", "bookings", "-m", "trips.db", "--json", *arguments, cwd=folder)
        return {(hit["scope"], hit["agent"], hit["conversation"]) for hit in json.loads(ran.stdout)["hits"]}

    assert places() == {("ana", "", "lisbon"), ("bo", "", "lisbon"), ("ana", "guide", "porto")}
    assert places("--scope", "ana") == {("ana", "", "lisbon"), ("ana", "guide", "porto")}
    assert places("--agent", "guide") == {("ana", "guide", "porto")}
    assert places("--conversation", "lisbon", "--scope", "bo") == {("bo", "", "lisbon")}
    assert len(places("--limit", "1")) == 1


def test_a_hit_is_shown_with_its_place_and_the_words_around_it(folder: Path) -> None:
    ran = run_command("search", "harbour", "-m", "trips.db", cwd=folder)
    place, excerpt, *_ = ran.stdout.splitlines()
    assert place.startswith("lisbon #2  ana · user · ")
    assert excerpt.startswith("  …word")
    assert "the harbour" in ran.stdout
    none = run_command("search", "zebra", "-m", "trips.db", cwd=folder)
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "no message matches these words\n")


def test_a_hit_without_a_text_shows_its_calls(tmp_path: Path) -> None:
    async def fill() -> None:
        async with Memory(f"sqlite:///{tmp_path}/calls.db") as memory:
            call = {"id": "c", "name": "weather", "arguments": '{"city": "Porto"}'}
            await memory.append("ana", "trip", {"role": "assistant", "content": None, "tool_calls": [call]})

    anyio.run(fill)
    ran = run_command("search", "Porto", "-m", "calls.db", cwd=tmp_path)
    assert ran.stdout.splitlines()[1] == '  → weather({"city": "Porto"})'


# -- migrate ------------------------------------------------------------------------------------------


def test_an_old_database_is_read_only_after_it_was_migrated(tmp_path: Path) -> None:
    shutil.copy(OLD_DATABASE, tmp_path / "old.db")
    before = (tmp_path / "old.db").read_bytes()
    refused = run_command("conversations", "-m", "old.db", cwd=tmp_path)
    assert refused.returncode == ExitCode.WRONG_INPUT
    assert refused.stderr == (
        f"error: old.db has schema version 10, and this program reads version {latest_version()}; run "
        f"`autonomy-ctx migrate` on it once. Older versions of autonomy_ctx cannot open it after that\n"
    )
    assert (tmp_path / "old.db").read_bytes() == before
    assert os.listdir(tmp_path) == ["old.db"]
    migrated = run_command("migrate", "-m", "old.db", cwd=tmp_path)
    assert migrated.stdout == f"old.db was upgraded from schema version 10 to {latest_version()}\n"
    again = run_command("migrate", "-m", "old.db", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == {"memory": "old.db", "from": latest_version(), "to": latest_version()}
    assert run_command("conversations", "-m", "old.db", cwd=tmp_path).returncode == 0


def test_a_memory_is_copied_into_another(folder: Path) -> None:
    first = run_command("migrate", "-m", "trips.db", "--to", "new.db", cwd=folder)
    assert first.stdout == "new.db has 4 messages of 3 conversations, the same as the source\n"
    again = run_command("migrate", "-m", "trips.db", "--to", "new.db", "--json", cwd=folder)
    assert json.loads(again.stdout)["unchanged_conversations"] == 3
    exported = [run_command("export", "-m", name, cwd=folder).stdout for name in ("trips.db", "new.db")]
    assert exported[0] == exported[1] != ""
    one = run_command("migrate", "-m", "trips.db", "--to", "bo.db", "--scope", "bo", "--json", cwd=folder)
    assert json.loads(one.stdout)["messages"] == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-m", "gone.db"], "gone.db does not exist; databases found: trips.db"),
        (["-m", "trips.db", "--scope", "ana"], "--scope needs --to: a schema is upgraded as a whole"),
        (["-m", "trips.db", "--to", "trips.db"], "--to names the same memory; name another one"),
        (["-m", "gone.db", "--to", "new.db"], "gone.db does not exist; databases found: trips.db"),
        (["-m", "memory://"], "memory://... is neither SQLite nor PostgreSQL, and cannot be upgraded"),
    ],
)
def test_what_cannot_be_migrated_is_left_alone(folder: Path, arguments: list[str], sentence: str) -> None:
    before = sorted(os.listdir(folder))
    ran = run_command("migrate", *arguments, cwd=folder)
    assert (ran.returncode, ran.stderr) == (ExitCode.WRONG_INPUT, f"error: {sentence}\n")
    assert sorted(os.listdir(folder)) == before


# -- lint ---------------------------------------------------------------------------------------------

PLANS = """
from beside import newest, sections
from autonomy_ctx import Agent, ContextTemplate, Model

costly = ContextTemplate(newest)
same = costly
thrifty = ContextTemplate(sections, arrange="cache")
guide = Agent("guide", instructions="You plan trips.", model=Model("offline"))
number = 7
if __name__ == "__main__":
    raise SystemExit("not as a program")
"""
SECTIONS = """
from autonomy_ctx import AdditionalContextSection, ConversationHistorySection
from autonomy_ctx import Message, SystemInstructionsSection

now = AdditionalContextSection("now", provider_fn=lambda *_: [Message("system", "Monday")])
rules = SystemInstructionsSection("You plan.")
sections = [rules, now, ConversationHistorySection()]
newest = [rules, now, ConversationHistorySection(max_messages=20)]
"""


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "plans.py").write_text(PLANS)
    (tmp_path / "plans" / "beside.py").write_text(SECTIONS)
    return tmp_path


def test_a_costly_order_is_named_and_fails(plans: Path) -> None:
    ran = run_command("lint", "plans/plans.py", "--json", cwd=plans)
    assert ran.returncode == ExitCode.FAILED
    found = {plan["template"]: plan for plan in json.loads(ran.stdout)["templates"]}
    assert list(found) == ["costly", "thrifty", "guide"], "one object under two names is one"
    assert [warning["section"] for warning in found["costly"]["warnings"]] == ["conversation_history"]
    assert [section["cached"] for section in found["costly"]["sections"]] == [True, True, False]
    assert [section["name"] for section in found["thrifty"]["sections"]][-1] == "now"
    assert not found["thrifty"]["warnings"]
    shown = run_command("lint", "plans/plans.py", cwd=plans)
    assert "section `conversation_history` shows only the newest 20 messages" in " ".join(
        shown.stdout.split()
    )


def test_the_agent_that_a_function_returns_is_looked_at(tmp_path: Path) -> None:
    source = "from autonomy_ctx import Agent\n\ndef make_agent():\n    return Agent(model='offline')\n"
    (tmp_path / "own.py").write_text(source)
    ran = run_command("lint", "own.py:make_agent", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("make_agent()")


def test_one_template_is_chosen_by_its_name(plans: Path) -> None:
    ran = run_command("lint", "plans/plans.py:thrifty", cwd=plans)
    assert ran.returncode == 0
    assert "no section starts a new epoch in every turn" in ran.stdout


@pytest.mark.parametrize(
    ("source", "place", "code", "sentence"),
    [
        (None, "gone.py", ExitCode.WRONG_INPUT, "gone.py does not exist; name a Python file"),
        (None, "plans", ExitCode.WRONG_INPUT, "plans is a folder; name a Python file"),
        (
            None,
            "plans/plans.py:dear",
            ExitCode.WRONG_INPUT,
            "nothing named 'dear'; it has costly, same",
        ),
        (
            None,
            "plans/plans.py:number",
            ExitCode.WRONG_INPUT,
            "type int; it must be a ContextTemplate or Agent",
        ),
        (
            "x = 1",
            "own.py",
            ExitCode.WRONG_INPUT,
            "own.py has no ContextTemplate or Agent at its top level\n",
        ),
        (
            "from autonomy_ctx import Agent\n\nasync def main():\n    async with Agent():\n        pass",
            "own.py",
            ExitCode.WRONG_INPUT,
            "no ContextTemplate or Agent at its top level; line 4 makes an agent inside main(), where this "
            "command cannot reach it. Write `agent = Agent(...)` outside of functions, or return it from a "
            "function without arguments and name that function: own.py:make_agent",
        ),
        (
            "def make_agent():\n    pass",
            "own.py:make_agent",
            ExitCode.WRONG_INPUT,
            "make_agent() of own.py is of type NoneType; it must be a ContextTemplate or Agent",
        ),
        (
            "async def main():\n    pass",
            "own.py:main",
            ExitCode.WRONG_INPUT,
            "main of own.py is of type function; it must be a ContextTemplate or Agent",
        ),
        ("\n\n1 / 0", "own.py", ExitCode.FAILED, "own.py, line 3: ZeroDivisionError: division by zero"),
        ("x = (", "own.py", ExitCode.FAILED, "line 1: '(' was never closed"),
        ("raise SystemExit(3)", "own.py", ExitCode.FAILED, "own.py ended the program"),
        (
            "x = 1",
            "own.txt",
            ExitCode.WRONG_INPUT,
            "own.txt is not a Python file",
        ),
    ],
)
def test_a_file_that_has_no_template_is_an_error_with_its_place(
    plans: Path, source: str | None, place: str, code: ExitCode, sentence: str
) -> None:
    if source is not None:
        (plans / place.partition(":")[0]).write_text(source)
    ran = run_command("lint", place, cwd=plans)
    assert ran.returncode == code
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


# -- doctor -------------------------------------------------------------------------------------------


def findings(folder: Path, *arguments: str, code: int = 0, **variables: str) -> dict[str, tuple[str, str]]:
    """What the doctor found: status and text by group and name."""
    ran = run_command("doctor", *arguments, "--json", cwd=folder, **variables)
    assert ran.returncode == code, ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
    assert report["ok"] is (code == 0)
    return {f"{one['group']} {one['name']}": (one["status"], one["text"]) for one in report["findings"]}


def test_a_healthy_memory_is_found_to_be_one(folder: Path) -> None:
    found = findings(folder, "-m", "trips.db")
    assert found["memory schema"] == ("ok", f"version {latest_version()}, the newest")
    assert found["memory integrity"] == ("ok", "every page was read; none is damaged")
    assert found["memory writing"][0] == "ok"
    assert found["extras cli"][0] == "ok"
    assert sqlite3.sqlite_version in found["program SQLite"][1]
    shown = run_command("doctor", "-m", "trips.db", cwd=folder)
    assert "✓  integrity" in shown.stdout


def test_the_models_are_listed_with_windows_and_prices(tmp_path: Path) -> None:
    done = run_command("models", "gpt-6.1", cwd=tmp_path, COLUMNS="120")
    assert done.returncode == ExitCode.DONE
    assert [line.split()[:3] for line in done.stdout.splitlines() if line.startswith("gpt")] == [
        ["gpt-6.1-sol", "922k", "2"],
        ["gpt-6.1-terra", "922k", "1"],
    ]
    [row] = json.loads(run_command("models", "claude-haiku-5-5", "--json", cwd=tmp_path).stdout)["models"]
    assert (row["window"], row["price"]["tier"]["above"]) == (1_000_000, 100_000)


def test_a_model_that_is_not_in_the_table_is_shown_as_what_it_is_taken_for(tmp_path: Path) -> None:
    done = run_command("models", "claude-opus-5-9", cwd=tmp_path)
    assert "claude-opus-5-9 is not in the table" in done.stderr
    assert "claude-opus-5-5" in done.stdout
    wrong = run_command("models", "llama", cwd=tmp_path)
    assert wrong.returncode == ExitCode.WRONG_INPUT
    assert "no model in the table begins with 'llama'" in wrong.stderr


def test_the_doctor_names_models_that_are_not_in_the_table(tmp_path: Path) -> None:
    async def talk() -> None:
        async with Memory(f"sqlite:///{tmp_path}/a.db") as memory:
            for name in ("claude-opus-5-9", "claude-opus-5-5", "offline"):
                model = ScriptedModel("Yes.")
                model.name = name
                async with Agent("guide", model=model, memory=memory) as agent:
                    await agent.send("Hello", scope="ana", conversation=name)

    anyio.run(talk)
    done = run_command("doctor", "--memory", f"{tmp_path}/a.db", "--json", cwd=tmp_path)
    told = {one["name"]: one for one in json.loads(done.stdout)["findings"] if one["group"] == "models"}
    assert set(told) - {"keys"} == {"claude-opus-5-9", "table"}
    assert told["claude-opus-5-9"]["status"] == "warning"
    assert "the values of claude-opus-5-5 are used" in told["claude-opus-5-9"]["text"]


def test_a_table_of_models_that_is_old_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    [new] = doctor._examine_table()
    assert new.status == "ok"
    monkeypatch.setattr(doctor, "TABLE_DATE", "2025-01-01")
    [old] = doctor._examine_table()
    assert old.status == "warning"
    assert "days ago" in old.text


def test_the_doctor_knows_what_each_extra_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {
        extra: {package.partition(">")[0].partition("[")[0] for package in packages}
        for extra, packages in project["optional-dependencies"].items()
    }
    # psycopg brings its pool by an extra of its own.
    wanted["postgres"].add("psycopg-pool")
    assert {extra: set(packages) for extra, packages in (EXTRAS | FRAMEWORKS).items()} == wanted


def free_pages(stored: bytes) -> set[int]:
    """The numbers of the pages on the list of free ones, such as those that an index has left."""
    found: set[int] = set()
    (trunk,) = struct.unpack_from(">I", stored, 32)
    while trunk:
        start = 4096 * (trunk - 1)
        following, count = struct.unpack_from(">II", stored, start)
        found |= {trunk, *struct.unpack_from(f">{count}I", stored, start + 8)}
        trunk = following
    return found


def test_a_damaged_page_is_found_also_where_nobody_reads(folder: Path) -> None:
    lines = "".join(json.dumps({"role": "user", "content": f"{n} " * 500}) + "\n" for n in range(300))
    imported = run_command("import", "-", "-m", "trips.db", "-s", "cy", "-c", "long", cwd=folder, text=lines)
    assert imported.returncode == 0
    with closing(sqlite3.connect(folder / "trips.db")) as connection:
        # A page that is still in the write-ahead log would hide the damage.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    stored = (folder / "trips.db").read_bytes()
    # A page in the middle that is a leaf of a tree: in an unused one nobody would miss anything.
    pages, free = len(stored) // 4096, free_pages(stored)
    leaf = next(
        at for at in range(pages // 2, pages) if stored[4096 * at] in b"\x0a\x0d" and at + 1 not in free
    )
    with (folder / "trips.db").open("r+b") as file:
        file.seek(4096 * leaf)
        file.write(b"\xff" * 4096)
    assert run_command("conversations", "-m", "trips.db", cwd=folder).returncode == 0
    found = findings(folder, "-m", "trips.db", code=ExitCode.FAILED)
    status, text = found["memory integrity"]
    assert status == "problem"
    assert text.endswith("Restore a backup, or save what can be saved with `sqlite3 trips.db .recover`")


@pytest.mark.parametrize("name", ["gone.db", "notes.txt"])
def test_a_path_without_a_database_is_a_problem_and_makes_nothing(folder: Path, name: str) -> None:
    (folder / "notes.txt").write_text("no database")
    before = sorted(os.listdir(folder))
    found = findings(folder, "-m", name, code=ExitCode.FAILED)
    assert "problem" in {status for status, _ in found.values()}
    assert sorted(os.listdir(folder)) == before


def test_an_old_schema_is_a_warning_and_stays(tmp_path: Path) -> None:
    shutil.copy(OLD_DATABASE, tmp_path / "old.db")
    found = findings(tmp_path, "-m", "old.db")
    assert found["memory schema"] == (
        "warning",
        f"version 10; run `autonomy-ctx migrate` to upgrade it to {latest_version()}",
    )
    assert os.listdir(tmp_path) == ["old.db"]


def test_keys_are_named_and_never_shown(folder: Path) -> None:
    secret = "sk-very-secret"
    ran = run_command("doctor", cwd=folder, OPENAI_API_KEY=secret, GEMINI_API_KEY=secret)
    assert "OPENAI_API_KEY is set" in ran.stdout
    assert "GEMINI_API_KEY is set" in ran.stdout
    assert secret not in ran.stdout + ran.stderr


@pytest.fixture
def provider() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server on this machine that notes the headers of its requests; its address."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            seen.append(dict(self.headers))
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_providers_are_reached_only_when_asked_and_without_the_key(
    folder: Path, provider: tuple[str, list[dict[str, str]]]
) -> None:
    address, seen = provider
    variables = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "sk-very-secret"}
    findings(folder, code=0, **variables)
    assert seen == []
    found = findings(folder, "--network", code=0, **variables)
    assert found["network openai"][0] == "ok"
    assert len(seen) == 1
    assert "sk-very-secret" not in str(seen)
    gone = findings(folder, "--network", code=ExitCode.FAILED, OPENAI_BASE_URL="http://127.0.0.1:1/v1")
    assert "cannot be reached" in gone["network openai"][1]
