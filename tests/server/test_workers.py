"""`autonomy-ctx serve --workers` on SQLite, and what becomes of the processes."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest
from pty_process import WAIT_SECONDS, run_command
from server.workers import WorkersContract, serving_workers


class TestWorkersOnSqlite(WorkersContract):
    @pytest.fixture
    def memory(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'talks.db'}"


async def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    async with serving_workers(tmp_path, "talks.db", exit_code=-signal.SIGKILL) as served:
        family = served.parent.children(recursive=True)
        served.parent.kill()
        assert not psutil.wait_procs(family, WAIT_SECONDS)[1]


def test_workers_need_a_database_that_they_can_share(tmp_path: Path) -> None:
    told = run_command("serve", "--upstream", "http://127.0.0.1:1/v1", "--workers", "2", cwd=tmp_path)
    assert told.returncode == 2
    assert "--memory" in told.stderr


def test_a_database_that_cannot_be_opened_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "talks.db").write_text("This is no database." * 100)
    given = (
        "serve",
        "--upstream",
        "http://127.0.0.1:1/v1",
        "--workers",
        "2",
        "-m",
        "talks.db",
        "--port",
        "0",
    )
    told = run_command(*given, cwd=tmp_path)
    assert told.returncode != 0
    assert told.stderr.count("error:") == 1
