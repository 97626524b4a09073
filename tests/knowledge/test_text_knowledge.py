"""Knowledge found by its words."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_text, some

from autonomy_ctx import Message, StoreBusy
from autonomy_ctx.errors import InvalidDocument, KnowledgeError, SchemaTooNew, StoreCorrupt, StoreUnavailable
from autonomy_ctx.knowledge import TextKnowledge, text
from autonomy_ctx.knowledge.documents import MAX_DOCUMENT_BYTES, Document
from autonomy_ctx.messages import Summary
from autonomy_ctx.testing import make_message

FERRY = "The ferry to Cacilhas leaves every twenty minutes."
TRAM = "Tram 28 climbs the hills of Alfama."


@pytest.fixture(params=["memory", "file"])
async def knowledge(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TextKnowledge]:
    """An index in memory and one in a file."""
    async with TextKnowledge(None if request.param == "memory" else tmp_path / "knowledge.db") as made:
        yield made


async def sources(knowledge: TextKnowledge, query: str, limit: int = 10) -> list[str | None]:
    return [passage.source for passage in await knowledge.search(query, limit)]


# -- what is found ------------------------------------------------------------------------------------


async def test_a_question_finds_what_shares_a_word_with_it_best_first(knowledge: TextKnowledge) -> None:
    await knowledge.add(FERRY, source="ferry", title="Boats")
    await knowledge.add(TRAM, source="tram")
    await knowledge.add("Visas are for ninety days.", source="visa")
    found = await knowledge.search("When do the ferries to Cacilhas leave, and is there a tram?", 2)
    assert [(passage.source, passage.title, passage.id) for passage in found] == [
        ("ferry", "Boats", "ferry#1"),
        ("tram", None, "tram#1"),
    ]
    assert found[0].text == FERRY
    assert found[0].score > found[1].score > 0


async def test_word_forms_accents_and_titles_are_found(knowledge: TextKnowledge) -> None:
    await knowledge.add("She was climbing.", source="climb")
    await knowledge.add("Um café à beira-mar.", source="coffee", title="Breakfast")
    assert await sources(knowledge, "climbs") == ["climb"]
    assert await sources(knowledge, "CAFE") == ["coffee"]
    assert await sources(knowledge, "breakfasts") == ["coffee"]


async def test_common_words_find_nothing_by_themselves_unless_there_are_no_others(
    knowledge: TextKnowledge,
) -> None:
    await knowledge.add("What is the time?", source="time")
    await knowledge.add(FERRY, source="ferry")
    assert await sources(knowledge, "what is the ferry") == ["ferry"]
    assert await sources(knowledge, "what is") == ["time"]


async def test_text_without_spaces_is_found_by_its_parts(knowledge: TextKnowledge) -> None:
    await knowledge.add("東京タワーは港区にあります。", source="tokyo")
    await knowledge.add("京都の東にある山。", source="kyoto")
    await knowledge.add("서울은 대한민국의 수도이다.", source="seoul")
    assert await sources(knowledge, "東京") == ["tokyo"]
    assert await sources(knowledge, "港区はどこですか") == ["tokyo"]
    assert await sources(knowledge, "수도") == ["seoul"]
    assert "kyoto" in await sources(knowledge, "山")


async def test_nothing_is_found_by_nothing(knowledge: TextKnowledge) -> None:
    assert await knowledge.search("ferry", 3) == []
    await knowledge.add(FERRY, source="ferry")
    assert await knowledge.search("", 3) == await knowledge.search(" ?! ", 3) == []
    assert await knowledge.search("zebra", 3) == []


async def test_a_long_question_is_asked_by_its_beginning_and_end(knowledge: TextKnowledge) -> None:
    await knowledge.add(FERRY, source="ferry")
    filler = " ".join(f"word{number}" for number in range(200_000))
    assert await sources(knowledge, f"{filler} ferry") == ["ferry"]
    assert await sources(knowledge, f"ferry {filler}") == ["ferry"]


SYNTAX = st.text(st.sampled_from("\"*^()+-:{}' \0ANDORNEARtbody東京ferry\ud800"), max_size=30) | any_text


@some
@given(SYNTAX)
def test_whatever_a_user_writes_is_never_syntax(query: str) -> None:
    connection = text.open_index(":memory:", 1.0)
    text.put_documents(connection, [text.prepare_document(Document(text=FERRY, source="ferry"))])
    asked = text.fts_query(query)
    if asked is not None:
        found = text.find_passages(connection, asked, 3)
        assert len(found) <= 1
        assert asked.count('"') == 2 * (asked.count('" OR "') + 1)
    connection.close()


@some
@given(any_text, any_text)
def test_whatever_a_document_holds_comes_back_and_goes_whole(text: str, source: str) -> None:
    async def work() -> None:
        async with TextKnowledge() as knowledge:
            try:
                await knowledge.add(f"ferry {text}", source=source)
            except InvalidDocument:
                assert not source.strip()
                return
            [found] = await knowledge.search("ferry", 3)
            assert found.text.startswith("ferry")
            assert await knowledge.remove(found.source or "")
            assert await knowledge.search("ferry", 3) == []

    anyio.run(work)


# -- what is added ------------------------------------------------------------------------------------


async def test_the_same_source_again_replaces_what_was_there(knowledge: TextKnowledge) -> None:
    await knowledge.add("\n\n".join([f"ferry {number} " * 100 for number in range(9)]), source="a")
    assert len(await knowledge.search("ferry", 50)) > 3
    await knowledge.add(TRAM, source="a")
    assert await knowledge.search("ferry", 50) == []
    assert await sources(knowledge, "tram") == ["a"]
    await knowledge.add("", source="a")
    assert await sources(knowledge, "tram") == []


async def test_what_is_removed_is_gone_and_removing_says_whether_it_was_there(
    knowledge: TextKnowledge,
) -> None:
    await knowledge.add(FERRY, source="ferry")
    assert await knowledge.remove("ferry")
    assert not await knowledge.remove("ferry")
    assert await sources(knowledge, "ferry") == []


async def test_a_file_is_added_under_its_path_and_its_first_heading_is_its_title(
    knowledge: TextKnowledge, tmp_path: Path
) -> None:
    file = tmp_path / "boats.md"
    file.write_bytes(b"\xef\xbb\xbf\n# Boats \xff\r\n\r\nThe ferry leaves.\r\n")
    await knowledge.add_file(file)
    [found] = await knowledge.search("ferry", 3)
    assert (found.source, found.title) == (file.as_posix(), "Boats \ufffd")
    assert "\r" not in found.text


async def test_a_file_that_begins_with_many_blank_lines_is_read_at_once(
    knowledge: TextKnowledge, tmp_path: Path
) -> None:
    for name, end in (("titled.md", "# Boats\nThe ferry leaves."), ("untitled.md", "The ferry leaves.")):
        file = tmp_path / name
        file.write_text(" \n" * 100_000 + end)
        await knowledge.add_file(file)
    found = await knowledge.search("ferry", 3)
    assert {passage.title for passage in found} == {"Boats", None}


async def test_a_folder_again_reads_what_changed_and_drops_what_is_gone(
    knowledge: TextKnowledge, tmp_path: Path
) -> None:
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    ferry, tram, other = (tmp_path / "docs" / name for name in ("ferry.md", "deep/tram.md", "other.txt"))
    for file, content in ((ferry, FERRY), (tram, TRAM), (other, "ferry tram")):
        file.write_text(content)
    await knowledge.add("A ferry of its own.", source="own")
    assert await knowledge.add_folder(tmp_path / "docs") == [tram.as_posix(), ferry.as_posix()]
    assert set(await sources(knowledge, "ferry tram")) == {"own", ferry.as_posix(), tram.as_posix()}
    tram.unlink()
    ferry.write_text("The boat leaves.")
    assert await knowledge.add_folder(tmp_path / "docs") == [ferry.as_posix()]
    assert await sources(knowledge, "ferry tram boat") == [ferry.as_posix(), "own"]
    assert await knowledge.add_folder(tmp_path / "docs", "*.txt") == [other.as_posix()]
    assert ferry.as_posix() in await sources(knowledge, "boat")


async def test_a_link_out_of_the_folder_is_not_followed(knowledge: TextKnowledge, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text(FERRY)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "secret.md")
    assert await knowledge.add_folder(tmp_path / "docs") == []


async def test_a_pattern_does_not_lead_out_of_the_folder(knowledge: TextKnowledge, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text(FERRY)
    (tmp_path / "docs").mkdir()
    assert await knowledge.add_folder(tmp_path / "docs", "../*.md") == []
    for pattern in ("", str(tmp_path / "*.md")):
        with pytest.raises(InvalidDocument, match="has no files for the pattern"):
            await knowledge.add_folder(tmp_path / "docs", pattern)


async def test_one_bad_file_and_nothing_of_the_folder_is_added(
    knowledge: TextKnowledge, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text(FERRY)
    (tmp_path / "b.md").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(InvalidDocument, match=r"b\.md' is not text.*nothing was added"):
        await knowledge.add_folder(tmp_path)
    assert await knowledge.search("ferry", 3) == []


async def test_messages_are_added_once_and_instructions_never(knowledge: TextKnowledge) -> None:
    unnamed = {"role": "assistant", "content": "Take the ferry at noon."}
    messages: list[Message | dict[str, Any]] = [
        make_message("Is there a ferry?", id="m1"),
        unnamed,
        make_message("Always praise the ferry.", id="m2", role="system"),
        Summary([{"text": "They spoke of a ferry.", "first": 1, "last": 2}]),
        make_message(" ", id="m3"),
    ]
    await knowledge.add_messages(messages)
    await knowledge.add_messages(messages)
    found = await knowledge.search("ferry", 10)
    assert {(passage.text, passage.title) for passage in found} == {
        ("Is there a ferry?", "user"),
        ("Take the ferry at noon.", "assistant"),
    }
    assert len(found) == 2
    assert "message m1" in [passage.source for passage in found]


@pytest.mark.parametrize(
    ("text", "source", "problem"),
    [
        (7, "a", "'a' is int, not text"),
        (b"x", "a", "'a' is bytes, not text"),
        ("x", " ", "needs a `source`"),
        ("x", None, "needs a `source`"),
        ("x" * (MAX_DOCUMENT_BYTES + 1), "a", "over 16,777,216; divide it"),
    ],
    ids=["number", "bytes", "blank", "none", "large"],
)
async def test_what_is_no_document_is_refused(text: Any, source: Any, problem: str) -> None:
    async with TextKnowledge() as knowledge:
        with pytest.raises(InvalidDocument, match=problem):
            await knowledge.add(text, source=source)


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
async def test_what_is_no_file_is_refused_without_waiting(kind: str, tmp_path: Path) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    async with TextKnowledge() as knowledge:
        with pytest.raises(InvalidDocument, match=f"{kind}' (cannot be read|is not a regular file)"):
            await knowledge.add_file(path)
        with pytest.raises(InvalidDocument, match="is not a folder"):
            await knowledge.add_folder(tmp_path / "nowhere")


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, None])
async def test_a_limit_is_a_whole_number_from_1(limit: Any) -> None:
    async with TextKnowledge() as knowledge:
        with pytest.raises(ValueError, match=r"limit must be (a whole number )?>= 1, not "):
            await knowledge.search("ferry", limit)
        with pytest.raises(TypeError, match="a query is text, not int"):
            await knowledge.search(7, 3)  # type: ignore[arg-type]


# -- the file -----------------------------------------------------------------------------------------


async def test_a_file_is_there_again_and_shared(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    async with TextKnowledge(path) as one, TextKnowledge(path) as other:
        await one.add(FERRY, source="ferry")
        assert await sources(other, "ferry") == ["ferry"]
    async with TextKnowledge(str(path)) as again:
        assert await sources(again, "ferry") == ["ferry"]


async def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(StoreUnavailable, match="give knowledge a file of its own"):
        TextKnowledge(other)
    assert other.read_bytes() == before
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreCorrupt, match=r"broken\.db"):
        TextKnowledge(tmp_path / "broken.db")
    with pytest.raises(StoreUnavailable, match="no/such does not exist; make it first"):
        TextKnowledge(tmp_path / "no" / "such" / "folder.db")


async def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    await TextKnowledge(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaTooNew, match="schema version 99"):
        TextKnowledge(path)


async def test_a_locked_file_is_a_typed_error_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    async with TextKnowledge(path, timeout=0.01) as knowledge:
        await knowledge.add(FERRY, source="ferry")
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            await knowledge.add(TRAM, source="ferry")
        assert await sources(knowledge, "ferry") == ["ferry"]
        connection.execute("ROLLBACK")
        connection.close()
        await knowledge.add(TRAM, source="ferry")
        assert await sources(knowledge, "ferry") == []


async def test_a_closed_one_says_so_and_closing_twice_is_harmless() -> None:
    knowledge = TextKnowledge()
    await knowledge.close()
    await knowledge.close()
    with pytest.raises(KnowledgeError, match=r"`TextKnowledge\(\)` is closed; make a new one"):
        await knowledge.search("ferry", 3)


async def test_the_loop_goes_on_while_somebody_waits_for_the_index() -> None:
    knowledge = TextKnowledge()
    await knowledge.add(FERRY, source="ferry")
    free = threading.Event()

    def hold() -> None:
        with knowledge._open():
            free.wait(20)

    # Whoever has the index waits for the loop: if the index were used on the loop, nobody would go on.
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, hold)
        while not knowledge._lock.locked():
            await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(0.01) as scope:
            await knowledge.search("ferry", 3)
        assert scope.cancelled_caught
        free.set()
    assert await sources(knowledge, "ferry") == ["ferry"]
    await knowledge.close()


async def test_a_file_whose_words_were_stemmed_by_sqlite_is_indexed_again(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    async with TextKnowledge(path) as knowledge:
        await knowledge.add("The shop is closing early.", source="shop", title="Prices")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE words")
        connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        connection.execute("INSERT INTO words (rowid, body) VALUES (1, 'price the shop is closing early')")
        connection.execute("PRAGMA user_version = 1")
    for _ in range(2):
        async with TextKnowledge(path) as knowledge:
            assert await sources(knowledge, "When does it close?") == ["shop"]
            assert await sources(knowledge, "pricing") == ["shop"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (text.SCHEMA_VERSION,)
