"""The command line in a terminal of its own: a test types into it and reads what a person would see."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

import autonomy_ctx

ROOT = Path(__file__).parent.parent
# The package that this process tests, which may be a broken copy.
PACKAGE_FOLDER = Path(str(autonomy_ctx.__file__)).parent.parent
WAIT_SECONDS = 40.0
# How often Ctrl-C is typed at a prompt.
TRIES = 8
# Runs a command with its input as the controlling terminal: a typed Ctrl-C becomes a signal. As a program of
# its own: `preexec_fn` would run between fork and exec of a process with threads, where it may never end.
_IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")


def command_environment(**variables: str) -> dict[str, str]:
    """The environment of a command: none of the variables that change what is printed."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "LANG")}
    return (
        kept
        | {"PYTHONPATH": str(PACKAGE_FOLDER), "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color"}
        | variables
    )


def run_command(
    *arguments: str, cwd: Path, text: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command with a pipe on each side."""
    return subprocess.run(
        [sys.executable, "-m", "autonomy_ctx", *arguments],
        cwd=cwd,
        env=command_environment(**variables),
        input=text,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


class Terminal:
    """A command in a terminal of a given width."""

    def __init__(self, *arguments: str, cwd: Path, columns: int = 100, **variables: str) -> None:
        self._screen, line = os.openpty()
        fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-c", _IN_TERMINAL),
                *(sys.executable, "-m", "autonomy_ctx", *arguments),
            ],
            stdin=line,
            stdout=line,
            stderr=line,
            cwd=cwd,
            env=command_environment(**variables),
            start_new_session=True,
        )
        os.close(line)
        # All that was printed, as it came.
        self.raw = ""
        self._read_to = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._screen)

    @property
    def text(self) -> str:
        """All that was printed, without escape sequences."""
        return _ESCAPE_SEQUENCE.sub("", self.raw).replace("\r\n", "\n")

    def type(self, keys: str) -> None:
        """Type: `\\n` for Enter, `\\x03` for Ctrl-C, `\\x04` for Ctrl-D."""
        os.write(self._screen, keys.encode())

    def wait_for(self, *wanted: str) -> str:
        """Wait until each of the texts was printed, one after the other; what was printed up to there."""
        start = self._read_to
        for one in wanted:
            while (at := self.text.find(one, self._read_to)) < 0:
                assert self._read(), f"{one!r} was not printed, but:\n{self.text[start:]}"
            self._read_to = at + len(one)
        return self.text[start : self._read_to]

    def interrupt(self, wanted: str) -> None:
        """Type Ctrl-C at a prompt until a text is printed, and wait until nothing more is.

        A signal that comes just before a program begins to read is seen with the next one only.
        """
        for _ in range(TRIES):
            self.type("\x03")
            while self._is_readable(1.0):
                assert self._read(), f"{wanted!r} was not printed, but:\n{self.text}"
            if (at := self.text.find(wanted, self._read_to)) >= 0:
                self._read_to = at + len(wanted)
                return
        raise TimeoutError(f"{wanted!r} was not printed, but:\n{self.text}")

    def wait(self) -> int:
        """Wait until the command has ended; its exit code."""
        # Not only for the next text: a command that shows its progress never stops printing.
        if not self._reads_to_end(WAIT_SECONDS):
            raise TimeoutError(f"it has not ended after:\n{self.text}")
        return self.process.wait(WAIT_SECONDS)

    def _reads_to_end(self, seconds: float) -> bool:
        """Read until nothing more will come; false if that takes longer."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._is_readable(left) and not self._read():
                return True
        return False

    def _is_readable(self, seconds: float) -> bool:
        return bool(select.select([self._screen], [], [], seconds)[0])

    def _read(self) -> bool:
        """Read some more; false at the end."""
        if not self._is_readable(WAIT_SECONDS):
            raise TimeoutError(f"nothing more was printed after:\n{self.text}")
        try:
            read = os.read(self._screen, 65536)
        except OSError:
            # The other side is closed.
            return False
        self.raw += read.decode(errors="replace")
        return bool(read)
