"""Whose files they are: one root on disk, and in it a folder for each conversation, scope or agent.

Files for all lie in the root itself, so that it may be an existing folder. All others lie in one
folder in it, which those who use the root itself do not see.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from autonomy_ctx.errors import FileRefused
from autonomy_ctx.tools.builtin.beneath import Base, enter, told

Visibility: TypeAlias = Literal["conversation", "scope", "agent", "all"]
PRIVATE = ".private"
_UNSAFE = re.compile(r"[^a-z0-9_-]+")


class Place:
    """A root on disk and who shares what is in it."""

    def __init__(self, root: str | os.PathLike[str], visibility: Visibility) -> None:
        if visibility not in get_args(Visibility):
            known = ", ".join(get_args(Visibility))
            raise ValueError(f"visibility is {visibility!r}; it must be one of {known}")
        # Fixed now: the process may change its working folder later.
        self.root = Path(root).absolute()
        self.visibility: Visibility = visibility
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"cannot be the root of the files: {os.strerror(error.errno or 0)}; name a folder"
            raise FileRefused(str(self.root), problem) from None

    @contextmanager
    def base(self, agent: Any, scope: str | None, conversation: str | None) -> Iterator[Base]:
        """The folder of this agent, scope and conversation, made if need be, and open."""
        names = self._names(agent, scope, conversation)
        with told("."):
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened = [root]
        try:
            device = os.fstat(root).st_dev
            base = Base(root, device)
            if names:
                with told("."):
                    for name in (PRIVATE, self.visibility, *names):
                        opened.append(enter(base, opened[-1], name, make=True, mode=0o700))
                base = Base(opened[-1], device)
            else:
                hidden = None
                with suppress(OSError):
                    info = os.stat(PRIVATE, dir_fd=root, follow_symlinks=False)
                    hidden = (info.st_dev, info.st_ino)
                base = Base(root, device, hidden, PRIVATE)
            yield base
        finally:
            for fd in opened:
                os.close(fd)

    def _names(self, agent: Any, scope: str | None, conversation: str | None) -> list[str]:
        agent = agent if isinstance(agent, str | None) else getattr(agent, "name", None)
        who = {"agent": agent, "scope": scope, "conversation": conversation}
        wanted = {"all": 0, "agent": 1, "scope": 2, "conversation": 3}[self.visibility]
        found = list(who.items())[:wanted]
        for part, name in found:
            if not isinstance(name, str):
                raise FileRefused(".", f"belongs to one {self.visibility}, and no {part} was given")
        return [_folder_name(str(name)) for _, name in found]


def _folder_name(name: str) -> str:
    """A folder's name that no other name has, also where a disk holds `A` and `a` for the same."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:40]
    return f"{_UNSAFE.sub('-', name[:24].lower())}-{digest}"
