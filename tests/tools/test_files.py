"""Files for a model: what the tools do, and that none of them ever leaves its folder."""

from __future__ import annotations

import itertools
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autonomy_ctx.errors import FileRefused
from autonomy_ctx.messages.message import ToolCall
from autonomy_ctx.tools.builtin.files import Visibility, filesystem_tools, matches
from autonomy_ctx.tools.builtin.sandbox import read_bytes, write_bytes
from autonomy_ctx.tools.run import run_calls

SECRET = "the secret outside"


class Disk:
    """A root with files, something outside of it, and the tools by name."""

    def __init__(self, folder: Path, visibility: Visibility = "all", **options: Any) -> None:
        self.root, self.outside = folder / "root", folder / "outside"
        for made in (self.root, self.outside, folder / "root-evil"):
            made.mkdir(exist_ok=True)
        (self.outside / "secret.txt").write_text(SECRET)
        (folder / "root-evil" / "secret.txt").write_text(SECRET)
        self.tools = {made.name: made for made in filesystem_tools(self.root, visibility, **options)}

    def __getattr__(self, name: str) -> Callable[..., str]:
        if name not in self.tools:
            raise AttributeError(name)
        return self.tools[name]


def calls_of(*calls: Callable[[], str]) -> tuple[Callable[[], str], ...]:
    return calls


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_the_tools_are_these(disk: Disk) -> None:
    assert list(disk.tools) == [
        "list_directory",
        "read_file",
        "write_file",
        "edit_file",
        "find_files",
        "search_in_files",
        "remove_file",
    ]
    for made in disk.tools.values():
        schema = made.spec["parameters"]
        assert made.description
        assert all(shown["description"] for shown in schema["properties"].values())
        assert not {"agent", "scope", "conversation"} & schema["properties"].keys()


def test_a_file_is_made_read_replaced_edited_and_removed(disk: Disk) -> None:
    assert disk.write_file("notes/may/plan.md", "one\ntwo\n") == "made notes/may/plan.md (8 bytes)"
    assert disk.read_file("notes/may/plan.md") == "one\ntwo\n"
    assert disk.write_file("./notes//may/plan.md", "öne\ntwo\ntwo\n").startswith("replaced")
    assert (disk.root / "notes/may/plan.md").read_bytes() == "öne\ntwo\ntwo\n".encode()
    assert disk.edit_file("notes/may/plan.md", "öne", "1") == "replaced 1 in notes/may/plan.md"
    assert disk.edit_file("notes/may/plan.md", "two", "2", replace_all=True).startswith("replaced 2")
    assert disk.read_file("notes/may/plan.md") == "1\n2\n2\n"
    assert disk.remove_file("notes/may/plan.md") == "removed notes/may/plan.md"
    assert disk.list_directory("notes/may") == "[the folder is empty]"


def test_an_edit_needs_a_piece_that_occurs_once(disk: Disk) -> None:
    disk.write_file("a.txt", "x x")
    with pytest.raises(FileRefused, match="does not contain `old_text`"):
        disk.edit_file("a.txt", "y", "z")
    with pytest.raises(FileRefused, match="does not contain `old_text`"):
        disk.edit_file("a.txt", "", "z")
    with pytest.raises(FileRefused, match="contains `old_text` 2 times"):
        disk.edit_file("a.txt", "x", "z")
    assert disk.read_file("a.txt") == "x x"


def test_line_ends_and_the_permissions_of_a_file_stay_as_they_are(disk: Disk) -> None:
    path = disk.root / "run.sh"
    path.write_bytes(b"one\r\ntwo")
    path.chmod(0o751)
    disk.edit_file("run.sh", "two", "three")
    assert path.read_bytes() == b"one\r\nthree"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


def test_some_lines_of_a_file_are_read_with_a_note_of_how_many_there_are(disk: Disk) -> None:
    disk.write_file("a.txt", "1\n2\n3\n4")
    assert disk.read_file("a.txt", 2, 3) == "2\n3\n[lines 2 to 3 of 4]"
    assert disk.read_file("a.txt", first_line=4) == "4\n[lines 4 to 4 of 4]"
    assert disk.read_file("a.txt", 1, 99) == "1\n2\n3\n4"
    for first, last in [(0, None), (3, 2)]:
        with pytest.raises(FileRefused, match="lines from 1 on"):
            disk.read_file("a.txt", first, last)
    with pytest.raises(FileRefused, match="has only 4 lines"):
        disk.read_file("a.txt", 5)
    disk.write_file("empty.txt", "")
    assert disk.read_file("empty.txt") == ""


def test_a_long_file_is_shown_up_to_a_bound_from_where_one_can_read_on(disk: Disk) -> None:
    disk.write_file("long.txt", "".join(f"{n:99}\n" for n in range(5_000)))
    shown = disk.read_file("long.txt")
    assert shown.endswith("[lines 1 to 2,000 of 5,000]")
    assert disk.read_file("long.txt", 2001).startswith(f"{2000:99}\n")
    disk.write_file("one line.txt", "x" * 300_000 + "\n" + "y")
    assert disk.read_file("one line.txt").endswith("[lines 1 to 1 of 2]")


def test_a_folder_is_listed_with_sizes_and_marks(disk: Disk) -> None:
    disk.write_file("b.txt", "12345")
    disk.write_file("a/x.txt", "")
    (disk.root / "link").symlink_to("b.txt")
    (disk.root / "forged\n- c.txt").touch()
    (disk.root / os.fsdecode(b"\xff.txt")).touch()
    assert disk.list_directory().splitlines() == [
        "a/",
        "b.txt (5 bytes)",
        "forged\\n- c.txt (0 bytes)",
        "link (a link or a device; not available)",
        "\\udcff.txt (0 bytes)",
    ]
    assert disk.list_directory("a") == "x.txt (0 bytes)"


def test_a_large_folder_is_listed_up_to_a_bound(disk: Disk) -> None:
    for n in range(1_005):
        (disk.root / f"{n:04}").touch()
    lines = disk.list_directory().splitlines()
    assert len(lines) == 1_001
    assert lines[-1] == "[1,000 are shown; there are more: use find_files with a pattern]"


def test_files_are_found_by_pattern(disk: Disk) -> None:
    for path in ("a.md", "b.txt", "notes/c.md", "notes/deep/d.md", ".hidden/e.md"):
        disk.write_file(path, "x")
    (disk.root / "loop").symlink_to(".")
    assert disk.find_files("*.md").splitlines() == [".hidden/e.md", "a.md", "notes/c.md", "notes/deep/d.md"]
    assert disk.find_files("notes/*.md") == "notes/c.md"
    assert disk.find_files("notes/**").splitlines() == ["notes/c.md", "notes/deep/d.md"]
    assert disk.find_files("*.md", "notes/deep") == "notes/deep/d.md"
    assert disk.find_files("*.py") == "[no file has such a name]"


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("a/b/c.md", "**/*.md", True),
        ("c.md", "**/*.md", True),
        ("a/b/c.md", "a/**/c.md", True),
        ("a/c.md", "a/**/c.md", True),
        ("a/c.md", "*/b/*", False),
        ("a/c.md", "**", True),
        ("a/c.md", "**/a", False),
        ("a/b/c", "a/*", False),
        ("/".join("a" * 60), "/".join(["**", "a"] * 5) + "/b", False),
    ],
)
def test_patterns_match_by_folder(path: str, pattern: str, fits: bool) -> None:
    assert matches(path, pattern) is fits


def test_text_is_found_as_it_is_written(disk: Disk) -> None:
    disk.write_file("a.txt", "first (a+)+$ line\nSecond Line\n")
    disk.write_file("b/c.md", "the second line " + "x" * 500)
    (disk.root / "binary").write_bytes(b"\0line")
    (disk.root / "latin").write_bytes(b"\xff line")
    assert disk.search_in_files("(a+)+$") == "a.txt:1: first (a+)+$ line"
    lines = disk.search_in_files("second line", ignore_case=True).splitlines()
    assert lines[0] == "a.txt:2: Second Line"
    assert lines[1].startswith("b/c.md:1: the second line xxx")
    assert len(lines[1]) < 230
    assert disk.search_in_files("line", pattern="*.md").startswith("b/c.md:1:")
    assert disk.search_in_files("nothing like it") == "[no file contains this text]"
    for bad in ("", "two\nlines"):
        with pytest.raises(FileRefused, match="a text of one line"):
            disk.search_in_files(bad)


def test_a_search_ends_when_its_time_is_up(tmp_path: Path) -> None:
    ticks = iter(range(1_000_000))
    disk = Disk(tmp_path, look_seconds=5.0, clock=lambda: next(ticks))
    for n in range(20):
        disk.write_file(f"{n:02}.txt", "line")
    found = disk.search_in_files("line")
    assert found.endswith("found, not all: 5 seconds are over; look in a smaller folder]")
    assert "5 seconds are over" in disk.find_files("*")


def test_a_search_gives_no_more_results_than_its_bound(disk: Disk) -> None:
    disk.write_file("a.txt", "line\n" * 1_000)
    lines = disk.search_in_files("line").splitlines()
    assert len(lines) == 201
    assert lines[-1] == "[200 found, not all: there are more; look in a smaller folder]"


@pytest.mark.parametrize("pattern", ["*" * 11, "x" * 201])
def test_a_pattern_that_could_take_long_is_refused(disk: Disk, pattern: str) -> None:
    with pytest.raises(FileRefused, match="is a pattern of more than"):
        disk.find_files(pattern)


def test_sizes_are_capped(tmp_path: Path) -> None:
    disk = Disk(tmp_path, max_file_bytes=10)
    with pytest.raises(FileRefused, match="would be larger than 10 bytes"):
        disk.write_file("a/a.txt", "x" * 11)
    assert not (disk.root / "a").exists()
    disk.write_file("a.txt", "x" * 10)
    with pytest.raises(FileRefused, match="would be larger"):
        disk.edit_file("a.txt", "x" * 10, "y" * 11)
    (disk.root / "b.txt").write_text("x" * 11)
    with pytest.raises(FileRefused, match="is larger than 10 bytes"):
        disk.read_file("b.txt")
    assert disk.search_in_files("x") == "a.txt:1: xxxxxxxxxx"


def test_what_is_no_text_is_refused(disk: Disk) -> None:
    (disk.root / "image").write_bytes(b"\x89PNG\0")
    with pytest.raises(FileRefused, match=r"'image' is not text \(5 bytes\)"):
        disk.read_file("image")
    with pytest.raises(FileRefused, match="half of a character"):
        disk.write_file("a.txt", "\ud800")


def test_errors_name_the_path_and_no_folder_of_the_host(disk: Disk) -> None:
    for call in calls_of(
        lambda: disk.read_file("nope/x.txt"),
        lambda: disk.list_directory("nope"),
        lambda: disk.remove_file("nope"),
        lambda: disk.read_file("n" * 300),
    ):
        with pytest.raises(FileRefused) as caught:
            call()
        assert str(disk.root) not in str(caught.value)
        assert str(caught.value).startswith("'n")


# -- nothing outside ------------------------------------------------------------------------------------


def link_to_folder(disk: Disk) -> str:
    (disk.root / "out").symlink_to(disk.outside)
    return "out/secret.txt"


def link_to_file(disk: Disk) -> str:
    (disk.root / "out.txt").symlink_to(disk.outside / "secret.txt")
    return "out.txt"


def relative_link(disk: Disk) -> str:
    (disk.root / "out.txt").symlink_to("../outside/secret.txt")
    return "out.txt"


def link_in_a_folder(disk: Disk) -> str:
    (disk.root / "a").mkdir()
    (disk.root / "a" / "out").symlink_to("../../outside")
    return "a/out/secret.txt"


def chain_of_links(disk: Disk) -> str:
    (disk.root / "two").symlink_to(disk.outside)
    (disk.root / "one").symlink_to("two")
    return "one/secret.txt"


def link_to_itself(disk: Disk) -> str:
    (disk.root / "loop").symlink_to("loop")
    return "loop/x"


def link_inside(disk: Disk) -> str:
    (disk.root / "real").mkdir()
    (disk.root / "real" / "x.txt").write_text("inside")
    (disk.root / "alias").symlink_to("real")
    return "alias/x.txt"


def dangling_link(disk: Disk) -> str:
    (disk.root / "new.txt").symlink_to(disk.outside / "new.txt")
    return "new.txt"


def dangling_link_to_folder(disk: Disk) -> str:
    (disk.root / "new").symlink_to(disk.outside / "new")
    return "new/file.txt"


def link_to_proc(disk: Disk) -> str:
    (disk.root / "self").symlink_to("/proc/self")
    return "self/environ"


def link_to_proc_root(disk: Disk) -> str:
    (disk.root / "top").symlink_to("/proc/self/root")
    return f"top{disk.outside}/secret.txt"


def link_to_proc_cwd(disk: Disk) -> str:
    (disk.root / "here").symlink_to("/proc/self/cwd")
    return "here/pyproject.toml"


def hard_link(disk: Disk) -> str:
    os.link(disk.outside / "secret.txt", disk.root / "hard.txt")
    return "hard.txt"


def fifo(disk: Disk) -> str:
    os.mkfifo(disk.root / "pipe")
    return "pipe"


def fifo_as_folder(disk: Disk) -> str:
    os.mkfifo(disk.root / "pipe")
    return "pipe/x"


def link_to_device(disk: Disk) -> str:
    (disk.root / "null").symlink_to("/dev/null")
    return "null"


def device(disk: Disk) -> str:
    try:
        os.mknod(disk.root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only a privileged user makes devices")
    return "zero"


def unix_socket(disk: Disk) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(disk.root)  # a socket's path must be short
        try:
            made.bind("sock")
        finally:
            os.chdir(here)
    return "sock"


def file_as_folder(disk: Disk) -> str:
    (disk.root / "file").write_text("x")
    return "file/secret.txt"


def folder_as_file(disk: Disk) -> str:
    (disk.root / "folder").mkdir()
    return "folder"


PATHS: list[Callable[[Disk], str]] = [
    link_to_folder,
    link_to_file,
    relative_link,
    link_in_a_folder,
    chain_of_links,
    link_to_itself,
    link_inside,
    dangling_link,
    dangling_link_to_folder,
    link_to_proc,
    link_to_proc_root,
    link_to_proc_cwd,
    hard_link,
    fifo,
    fifo_as_folder,
    link_to_device,
    device,
    unix_socket,
    file_as_folder,
    folder_as_file,
]
WRITTEN = [
    "..",
    "../outside/secret.txt",
    "../root-evil/secret.txt",
    "a/../../outside/secret.txt",
    "a/../secret.txt",
    "./../outside/secret.txt",
    "a/..",
    ".../../../outside/secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "{outside}/secret.txt",
    "/proc/self/environ",
    "/dev/zero",
    "a\0b",
    "secret.txt\0.md",
    "a\nb",
    "a\x1b[31m",
    "\udcff.txt",
    "\ud800",
    "a\u2028b",
    "",
    ".",
    "a/",
    "n" * 300,
    "n/" * 100 + "n",
    "n" * 5000,
    ".private/conversation/x.txt",
    ".PRIVATE/x.txt",
    ".private",
    "./.private/x",
]


def everything_outside(disk: Disk) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in sorted(disk.root.parent.rglob("*"))
        if path.is_file() and not path.is_symlink() and disk.root not in path.parents
    }  # fmt: skip


def refused_by_all(disk: Disk, path: str) -> None:
    """No tool reads, writes, edits or removes it, and nothing changes outside."""
    before = everything_outside(disk)
    inside = sorted(os.listdir(disk.root))
    for call in calls_of(
        lambda: disk.read_file(path),
        lambda: disk.edit_file(path, "secret", "known"),
        lambda: disk.remove_file(path),
        lambda: disk.write_file(path, "written"),
    ):
        with pytest.raises(FileRefused) as caught:
            call()
        assert SECRET not in str(caught.value)
        assert len(str(caught.value)) < 300
    assert everything_outside(disk) == before
    assert sorted(os.listdir(disk.root)) == inside
    for found in (disk.find_files("*"), disk.search_in_files("the secret", ignore_case=True)):
        assert SECRET not in found


@pytest.mark.parametrize("make", PATHS, ids=lambda make: make.__name__)
def test_what_leads_outside_or_is_no_plain_file_is_refused(disk: Disk, make: Callable[[Disk], str]) -> None:
    refused_by_all(disk, make(disk))


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: repr(path[:30]))
def test_a_path_that_is_no_relative_way_down_is_refused(disk: Disk, path: str) -> None:
    refused_by_all(disk, path.replace("{outside}", str(disk.outside)))


@pytest.mark.parametrize(
    "path", ["..", "/", "/etc", "../outside", "out", "a/../..", "pipe", "\0", ".private"]
)
def test_folders_outside_are_neither_listed_nor_searched(disk: Disk, path: str) -> None:
    link_to_folder(disk)
    fifo(disk)
    for call in calls_of(
        lambda: disk.list_directory(path),
        lambda: disk.find_files("*", path),
        lambda: disk.search_in_files("secret", path),
    ):
        with pytest.raises(FileRefused):
            call()


def test_names_that_only_look_dangerous_are_plain_names(disk: Disk) -> None:
    for name in ("...", "..a", "a..", "~", "$HOME", "a\\..\\b", "-rf", "*", "%2e%2e", "日本\u3000語.txt"):
        disk.write_file(name, name)
        assert disk.read_file(name) == name
        disk.remove_file(name)


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="there is no /proc here")
def test_another_device_such_as_proc_is_not_entered() -> None:
    tools = {made.name: made for made in filesystem_tools("/", "all")}
    for path in ("proc/self/environ", "proc/version"):
        with pytest.raises(FileRefused, match="is on another device"):
            tools["read_file"](path)
    with pytest.raises(FileRefused, match="is on another device"):
        tools["list_directory"]("proc/self")


def test_devices_are_refused_also_where_they_live() -> None:
    tools = {made.name: made for made in filesystem_tools("/dev", "all")}
    for path in ("zero", "null"):
        with pytest.raises(FileRefused, match="is not a plain file"):
            tools["read_file"](path)
        with pytest.raises(FileRefused, match="is not a plain file"):
            tools["write_file"](path, "x")


def swapping(disk: Disk, until: threading.Event) -> None:
    """Exchange a folder for a link to the outside, again and again."""
    place, link = disk.root / "swap", disk.root / "link"
    for n in itertools.count():
        if until.is_set():
            return
        aside = disk.root / f"aside-{n}"
        # Each step may fail: a write makes the folder anew while it is away.
        steps: list[Callable[[], None]] = [
            lambda: os.rename(place, aside),  # noqa: B023
            lambda: os.symlink(disk.outside, place),
            lambda: os.unlink(place),
            lambda: os.rename(aside, place),  # noqa: B023
            # A file, too: for a moment a link to the secret has its name.
            lambda: os.symlink(disk.outside / "secret.txt", link),
            lambda: os.rename(link, place / "file.txt"),
            lambda: os.unlink(link),
        ]
        for step in steps:
            with suppress(OSError):
                step()


def test_a_folder_that_is_exchanged_for_a_link_meanwhile_leads_nowhere(disk: Disk) -> None:
    (disk.root / "swap").mkdir()
    done = threading.Event()
    racer = threading.Thread(target=swapping, args=(disk, done))
    racer.start()
    got = refused = 0
    try:
        for n in range(300):
            for call in calls_of(
                lambda: disk.write_file("swap/file.txt", "inside"),
                lambda: disk.read_file("swap/file.txt"),
                lambda: disk.search_in_files("secret", "swap") if n % 5 == 0 else "",  # noqa: B023
                lambda: disk.edit_file("swap/secret.txt", "secret", "known"),
                lambda: disk.remove_file("swap/secret.txt"),
            ):
                try:
                    assert SECRET not in call()
                    got += 1
                except FileRefused:
                    refused += 1
    finally:
        done.set()
        racer.join(20)
    assert got
    assert refused
    assert os.listdir(disk.outside) == ["secret.txt"]
    assert (disk.outside / "secret.txt").read_text() == SECRET


def taking_turns(disk: Disk, until: threading.Event) -> None:
    """Give one name to a file, a link to the secret, its hard link and a FIFO, in turn."""
    turns: list[Callable[[Path], Any]] = [
        lambda path: path.write_text("inside"),
        lambda path: path.symlink_to(disk.outside / "secret.txt"),
        lambda path: path.write_text("inside"),
        lambda path: path.hardlink_to(disk.outside / "secret.txt"),
        lambda path: path.write_text("inside"),
        lambda path: os.mkfifo(path),
    ]
    for turn in itertools.cycle(turns):
        if until.is_set():
            return
        turn(disk.root / "next")
        os.rename(disk.root / "next", disk.root / "name.txt")


def test_a_name_that_is_given_to_something_else_meanwhile_is_never_read_through(disk: Disk) -> None:
    done = threading.Event()
    racer = threading.Thread(target=taking_turns, args=(disk, done))
    racer.start()
    seen = set()
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for tried in itertools.count():
            # On a busy machine the name is seldom a file for as long as reading takes.
            if tried >= 4_000 and ("inside" in seen or tried >= 400_000):
                break
            with suppress(FileRefused):
                seen.add(disk.read_file("name.txt"))
    finally:
        sys.setswitchinterval(usual)
        done.set()
        racer.join(20)
    # It may be found half written, as the name's owner does not write it whole.
    assert "inside" in seen
    assert seen <= {"inside", ""}


class Changing(os.PathLike[str]):
    """A name that is a file when it is looked at, what a test says when it is opened, then a file again."""

    def __init__(self, disk: Disk, make: Callable[[Path], Any]) -> None:
        self.path, self.make, self.uses = disk.root / "name.txt", make, 0

    def __fspath__(self) -> str:
        self.uses += 1
        if self.uses <= 3:
            self.path.unlink(missing_ok=True)
            if self.uses == 2:
                self.make(self.path)
            else:
                self.path.write_text("inside")
        return "name.txt"


@pytest.mark.parametrize("kind", ["hard link", "link", "fifo"])
def test_a_name_that_changes_just_while_it_is_opened_is_never_read_through(disk: Disk, kind: str) -> None:
    secret = disk.outside / "secret.txt"
    makers: dict[str, Callable[[Path], Any]] = {
        "hard link": lambda path: path.hardlink_to(secret),
        "link": lambda path: path.symlink_to(secret),
        "fifo": os.mkfifo,
    }
    name: Any = Changing(disk, makers[kind])
    folder = os.open(disk.root, os.O_RDONLY)
    found = b"refused"
    try:
        with suppress(OSError):
            found = read_bytes(folder, name, 100)
    finally:
        os.close(folder)
    assert name.uses >= 2
    assert found == (b"refused" if kind == "link" else b"inside")


class Replaced(os.PathLike[str]):
    """A hard link to the secret that is opened and then replaced.

    While a system replaces it, its file is counted as having one name and is still found by that name. Here
    its other name is taken away for that time.
    """

    def __init__(self, disk: Disk) -> None:
        self.path, self.secret, self.uses = disk.root / "name.txt", disk.outside / "secret.txt", 0

    def __fspath__(self) -> str:
        self.uses += 1
        match self.uses:
            case 1:
                self.path.write_text("inside")
            case 2:
                self.path.unlink()
                self.path.hardlink_to(self.secret)
            case 3:
                self.secret.unlink()
            case 4:
                os.rename(self.path, self.secret)
                self.path.write_text("inside")
        return "name.txt"


def test_a_hard_link_that_is_just_being_replaced_is_never_read_through(disk: Disk) -> None:
    name: Any = Replaced(disk)
    folder = os.open(disk.root, os.O_RDONLY)
    try:
        assert read_bytes(folder, name, 100) == b"inside"
    finally:
        os.close(folder)
    assert name.uses > 4
    assert (disk.outside / "secret.txt").read_text() == SECRET


def test_a_write_that_fails_half_way_leaves_nothing_behind(disk: Disk) -> None:
    name: Any = Changing(disk, os.mkdir)
    folder = os.open(disk.root, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError):
            write_bytes(folder, name, b"new")
    finally:
        os.close(folder)
    assert os.listdir(disk.root) == ["name.txt"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(["..", ".", "", "a", "out", "outside", "secret.txt", "/", "root", "hard.txt"]),
        max_size=6,
    )
)
def test_no_path_made_of_such_pieces_reads_or_changes_anything_outside(disk: Disk, pieces: list[str]) -> None:
    if not os.path.lexists(disk.root / "out"):
        link_to_folder(disk)
        hard_link(disk)
    path = "/".join(pieces)
    before = everything_outside(disk)
    for name, arguments in [
        ("read_file", ()),
        ("write_file", ("x",)),
        ("list_directory", ()),
        ("remove_file", ()),
    ]:
        try:
            assert SECRET not in disk.tools[name](path, *arguments)
        except FileRefused:
            continue
    assert everything_outside(disk) == before


# -- whose files they are ---------------------------------------------------------------------------------


WHO = ("agent", "scope", "conversation")


@pytest.mark.parametrize(
    ("visibility", "shared"),
    [
        ("conversation", set()),
        ("scope", {"conversation"}),
        ("agent", {"scope", "conversation"}),
        ("all", set(WHO)),
    ],
)
def test_files_are_shared_as_far_as_the_visibility_says(
    tmp_path: Path, visibility: Visibility, shared: set[str]
) -> None:
    disk = Disk(tmp_path, visibility)
    mine = {"agent": "helper", "scope": "ana", "conversation": "trip"}
    disk.write_file("mine.txt", "mine", **mine)
    assert disk.read_file("mine.txt", **mine) == "mine"
    for part in WHO:
        other = {**mine, part: "another"}
        seen = "mine.txt" in disk.list_directory(".", **other)
        assert seen == (part in shared)
        assert ("mine.txt" in disk.find_files("*", **other)) == seen


@pytest.mark.parametrize(
    "pair",
    [
        ("a", "A"),
        ("", "."),
        ("..", "."),
        ("a/b", "a"),
        ("ä", "a\u0308"),
        ("x" * 9999, "x" * 9998),
        ("\0", ""),
    ],
    ids=range(7),
)
def test_names_that_are_nearly_the_same_have_different_files(tmp_path: Path, pair: tuple[str, str]) -> None:
    disk = Disk(tmp_path, "scope")
    first, second = ({"agent": "helper", "scope": name} for name in pair)
    disk.write_file("mine.txt", SECRET, **first)
    assert disk.list_directory(**second) == "[the folder is empty]"
    names = [name for _, folders, _ in os.walk(disk.root) for name in folders]
    assert len({name.casefold() for name in names}) == len(names) == 2 + 3


def test_joined_names_do_not_collide(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "conversation")
    disk.write_file("mine.txt", "mine", agent="a", scope="b:c", conversation="d")
    assert "mine" not in disk.list_directory(agent="a", scope="b", conversation="c:d")


def test_who_uses_the_root_itself_does_not_see_private_files(tmp_path: Path) -> None:
    private = Disk(tmp_path, "scope")
    private.write_file("mine.txt", "private text", agent="helper", scope="ana")
    everybody = Disk(tmp_path, "all")
    everybody.write_file("ours.txt", "for all")
    assert everybody.list_directory() == "ours.txt (7 bytes)"
    assert everybody.find_files("**") == "ours.txt"
    assert everybody.search_in_files("text") == "[no file contains this text]"
    path = next(path for path in private.root.rglob("mine.txt")).relative_to(private.root)
    for call in calls_of(lambda: everybody.read_file(str(path)), lambda: everybody.remove_file(str(path))):
        with pytest.raises(FileRefused, match="does not exist"):
            call()
    os.rename(private.root / ".private", private.root / "moved")
    os.symlink("moved", private.root / ".private")
    with pytest.raises(FileRefused):
        private.read_file("mine.txt", agent="helper", scope="ana")


def test_private_folders_are_for_their_owner_alone_on_the_host_too(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "scope")
    disk.write_file("mine.txt", "mine", agent="helper", scope="ana")
    assert stat.S_IMODE((disk.root / ".private").stat().st_mode) == 0o700


def test_private_files_need_to_know_whose_they_are(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "scope")
    with pytest.raises(FileRefused, match="belongs to one scope, and no scope was given"):
        disk.read_file("a.txt", agent="helper")
    with pytest.raises(FileRefused, match="no agent was given"):
        disk.read_file("a.txt", scope="ana")
    disk.write_file("a.txt", "x", agent=SimpleNamespace(name="helper"), scope="ana")
    assert disk.read_file("a.txt", agent="helper", scope="ana") == "x"


def test_a_root_that_cannot_be_one_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileRefused, match="cannot be the root of the files"):
        filesystem_tools(tmp_path / "file")
    with pytest.raises(ValueError, match="visibility is 'world'; it must be one of conversation, scope"):
        filesystem_tools(tmp_path, "world")  # type: ignore[arg-type]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="there is no /proc here")
def test_no_file_stays_open(disk: Disk) -> None:
    link_to_folder(disk)
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b/c.txt", "out/secret.txt", "../x", "a/b/c.txt/d"):
        with suppress(FileRefused):
            disk.write_file(path, "x")
        with suppress(FileRefused):
            disk.read_file(path)
        with suppress(FileRefused):
            disk.find_files("*", path)
    everywhere = {made.name: made for made in filesystem_tools("/", "all")}
    for path in ("proc", "dev/null", "etc/passwd/x"):
        for name in ("list_directory", "read_file"):
            with suppress(FileRefused):
                everywhere[name](path)
    assert len(os.listdir("/proc/self/fd")) == before


# -- run by a model ---------------------------------------------------------------------------------------


async def test_a_model_works_in_its_own_conversation_and_is_told_what_it_may_not(tmp_path: Path) -> None:
    tools = filesystem_tools(tmp_path / "root")
    inject = {"agent": "helper", "scope": "ana", "conversation": "trip", "memory": None}
    calls = [
        ToolCall("1", "write_file", '{"path": "a.txt", "content": "hello"}'),
        ToolCall("2", "read_file", '{"path": "a.txt", "first_line": "1"}'),
        ToolCall("3", "read_file", '{"path": "../../a.txt"}'),
        ToolCall("4", "read_file", '{"path": "a.txt", "scope": "bob"}'),
    ]
    done = await run_calls(calls, tools, inject=inject, parallel=1)
    texts = [ran.message.text for ran in done if ran.message is not None]
    assert texts[:2] == ["made a.txt (5 bytes)", "hello"]
    assert texts[2].startswith("FileRefused: '../../a.txt' has `..` in it")
    assert texts[3].startswith("InvalidArguments: the call has an unknown argument 'scope'")
    (other,) = await run_calls(calls[1:2], tools, inject={**inject, "scope": "bob"})
    assert other.message is not None
    assert other.message.is_error


async def test_edits_of_one_file_at_the_same_time_are_all_in_it(tmp_path: Path) -> None:
    disk, again = Disk(tmp_path), Disk(tmp_path)
    disk.write_file("a.txt", "".join(f"<{n}>\n" for n in range(16)))
    calls = [
        ToolCall(str(n), "edit_file", f'{{"path": "a.txt", "old_text": "<{n}>", "new_text": "[{n}]"}}')
        for n in range(16)
    ]
    # Two sets of tools over one root, as two agents would have.
    for half, tools in ((calls[:8], disk.tools), (calls[8:], again.tools)):
        done = await run_calls(half, tools)
        assert [ran.error for ran in done] == [None] * 8
    assert disk.read_file("a.txt") == "".join(f"[{n}]\n" for n in range(16))


@pytest.fixture(autouse=True)
def no_files_left_behind(tmp_path: Path) -> Iterator[None]:
    """Whatever happens, no half-written file stays."""
    yield
    assert list(tmp_path.rglob(".*.tmp")) == []
