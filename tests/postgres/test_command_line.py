"""The command line on a PostgreSQL database: it makes no tables by reading, and shows no password."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from postgres_server import Databases, PgBouncer
from psycopg import sql
from pty_process import run_command

from autonomy_ctx.cli.output import ExitCode


def findings(url: str, folder: Path, *, code: int = 0) -> dict[str, tuple[str, str]]:
    """What the doctor found about the memory: status and text by name."""
    ran = run_command("doctor", "-m", url, "--json", cwd=folder)
    assert ran.returncode == code, ran.stdout + ran.stderr
    found = [one for one in json.loads(ran.stdout)["findings"] if one["group"] == "memory"]
    return {one["name"]: (one["status"], one["text"]) for one in found}


def test_reading_makes_no_tables_and_migrating_does(database_url: str, tmp_path: Path) -> None:
    ran = run_command("conversations", "-m", database_url, cwd=tmp_path)
    assert ran.returncode == ExitCode.WRONG_INPUT
    assert ran.stderr.endswith("has no tables of autonomy_ctx\n")
    assert findings(database_url, tmp_path)["schema"][0] == "warning"
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'autonomy_ctx'")
        assert found.fetchone() is None
    made = run_command("migrate", "-m", database_url, cwd=tmp_path)
    assert "now has tables of schema version" in made.stdout
    listed = run_command("conversations", "-m", database_url, cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "there are no conversations yet\n")


def test_a_file_is_copied_into_a_database_and_back(database_url: str, tmp_path: Path) -> None:
    said = json.dumps({"role": "user", "content": "My hotel is in Rua Augusta."})
    run_command("import", "-", "-m", "trips.db", "-s", "ana", "-c", "lisbon", cwd=tmp_path, text=said)
    there = run_command("migrate", "-m", "trips.db", "--to", database_url, cwd=tmp_path)
    assert "has 1 message of 1 conversation, the same as the source" in there.stdout
    back = run_command("migrate", "-m", database_url, "--to", "back.db", "--json", cwd=tmp_path)
    assert json.loads(back.stdout)["messages"] == 1
    exported = [run_command("export", "-m", name, cwd=tmp_path).stdout for name in ("trips.db", database_url)]
    assert exported[0] == exported[1] != ""


def test_the_doctor_knows_the_server_and_its_rights(
    databases: Databases, database: str, database_url: str, tmp_path: Path
) -> None:
    run_command("migrate", "-m", database_url, cwd=tmp_path)
    found = findings(database_url, tmp_path)
    assert {name: status for name, (status, _) in found.items() if status != "ok"} == {}
    assert found["server"][1].startswith("PostgreSQL ")
    assert "upgrade the tables" in found["rights"][1]
    assert found["notifications"] == ("ok", "processes notify each other at once")

    role = sql.Identifier(f"reader_of_{database}")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'very-secret'").format(role))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA autonomy_ctx TO {}").format(role))
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA autonomy_ctx TO {}").format(role))
    place = urlsplit(database_url)
    url = f"postgresql://reader_of_{database}:very-secret@{place.hostname}:{place.port}{place.path}"
    try:
        refused = findings(url, tmp_path, code=ExitCode.FAILED)
        assert refused["rights"][0] == "problem"
        assert "may not read and write" in refused["rights"][1]
        assert "very-secret" not in str(refused)
        # Whoever may only read can still look.
        listed = run_command("conversations", "-m", url, cwd=tmp_path)
        assert (listed.returncode, listed.stderr) == (0, "there are no conversations yet\n")
    finally:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


def test_the_doctor_sees_a_pooler(
    pgbouncer: PgBouncer, database: str, database_url: str, tmp_path: Path
) -> None:
    run_command("migrate", "-m", database_url, cwd=tmp_path)
    found = findings(pgbouncer.url(database), tmp_path)
    assert found["pooler"][0] == "note"
    assert found["notifications"][0] == "warning"


@pytest.mark.parametrize("command", ["conversations", "doctor", "migrate"])
def test_a_server_that_is_not_there_is_named_without_its_password(command: str, tmp_path: Path) -> None:
    url = "postgresql://ana:very-secret@127.0.0.1:1/trips"
    ran = run_command(command, "-m", url, "--debug", cwd=tmp_path)
    assert ran.returncode == ExitCode.FAILED
    assert "postgresql://127.0.0.1:1/trips" in ran.stdout + ran.stderr
    assert "very-secret" not in ran.stdout + ran.stderr
