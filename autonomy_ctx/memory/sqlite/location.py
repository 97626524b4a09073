"""Can a database live at this path? Asked when memory is made, so that a typing error or a wrong
permission is met at the start and not by the first user's first message."""

from __future__ import annotations

import os
from pathlib import Path

from autonomy_ctx.errors import StoreUnavailable

# SQLite's WAL needs memory shared between processes, which these cannot give.
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "glusterfs", "ceph"}
)


def path_of(url: str) -> str:
    """The path in `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    prefix = "sqlite:///"
    if not url.startswith(prefix):
        scheme, _, rest = url.partition("://")
        # The rest of a URL may hold a password: it is not repeated.
        raise StoreUnavailable(
            path=f"{scheme}://..." if rest else url,
            problem="is not a kind of memory known here",
            advice="use Memory() in process or Memory('sqlite:///path.db') on disk"
            + ("" if rest else f"; did you mean 'sqlite:///{url}'?"),
        )
    path = url[len(prefix) :].split("?", 1)[0]
    if not path or path == ":memory:":
        raise StoreUnavailable(
            path=url, problem="names no file", advice="use Memory() to keep messages in this process only"
        )
    return path


def check_location(path: str, mounts: str | None = None) -> None:
    """Raise the error a user should see if no database can be opened or made at `path`."""
    check_folder(path)
    file = Path(path).absolute()
    folder = file.parent
    kind = filesystem_of(file, _mounts() if mounts is None else mounts)
    if kind in NETWORK_FILESYSTEMS:
        raise StoreUnavailable(
            path=path,
            problem=f"is on a network filesystem ({kind}), where several processes can damage an SQLite file",
            advice="use a local disk, or a server database for several machines",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreUnavailable(
            path=path,
            problem=f"the folder {folder} is not writable for this user",
            advice="SQLite makes files beside the database: change the owner or choose another folder",
        )
    if file.exists():
        _check_file(path, file)


def check_folder(path: str) -> None:
    """Raise the error a user should see if `path` is no place for a file."""
    file = Path(path).absolute()
    if not file.parent.is_dir():
        raise StoreUnavailable(
            path=path, problem=f"the folder {file.parent} does not exist", advice="make it first"
        )
    if file.is_dir():
        raise StoreUnavailable(
            path=path, problem="is a folder", advice="name a file in it, such as memory.db"
        )


def filesystem_of(file: Path, mounts: str) -> str | None:
    """The kind of filesystem a path is on, from the text of /proc/mounts."""
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        if (file == point or point in file.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind


def _check_file(path: str, file: Path) -> None:
    """By its permissions only: to open and close the file here would drop this process's locks on it."""
    if not os.access(file, os.R_OK | os.W_OK):
        raise StoreUnavailable(
            path=path,
            problem="may not be read and written by this user",
            advice="change its owner or permissions",
        )


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text()
    except OSError:
        return ""
