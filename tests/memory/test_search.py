"""Search: whose words are found, what remains of deleted ones, and who waits for whom."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import few, some

from autonomy_ctx import Memory
from autonomy_ctx.errors import InvalidKey, StoreClosed, StoreUnavailable
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.search_terms import MAX_TERM_LENGTH, index_terms, search_terms
from autonomy_ctx.memory.search_text import IndexBlock, QueryTerms, SearchScope, query_terms
from autonomy_ctx.memory.sql.deletion import delete
from autonomy_ctx.memory.sql.search import read_blocks, write_blocks
from autonomy_ctx.memory.sqlite import fulltext
from autonomy_ctx.memory.sqlite.embedded import purge_step
from autonomy_ctx.memory.sqlite.migrate import migrate
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.stores import Key
from autonomy_ctx.testing import MAIN, make_drafts, make_message
from benchmarks.recall_corpus import make

# Nothing else begins with it: the index keeps of a word only where it differs from the one before.
SECRET = "qzjvsecret"
MANY = 3_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def left(folder: Path, word: str = SECRET) -> list[str]:
    """The files that hold a word, in whatever table."""
    return [file.name for file in folder.iterdir() if any(one in file.read_bytes() for one in spelled(word))]


def spelled(word: str) -> list[bytes]:
    """A word as the index may have it: also from its end to its beginning."""
    return [word.encode(), word[::-1].encode()]


def rows_with(path: Path, word: str = SECRET) -> list[str]:
    """The tables of the index that hold a word."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE name GLOB 'search_[tf]*_*' AND type = 'table'"
        ).fetchall()
        return [
            table
            for (table,) in tables
            for row in connection.execute(f"SELECT * FROM {table}")
            if any(
                one in (v if isinstance(v, bytes) else str(v).encode()) for v in row for one in spelled(word)
            )
        ]


# -- whose words are found --------------------------------------------------------------------------------

WORDS = ["lisbon", "porto", "ORD-4711", "foo_bar.py", "東京", "猫", "Ünïcode", "trains", "1xlisbon", "c1"]
KEYS = [Key(agent, scope, talk) for agent in ("", "h") for scope in ("ana", "bob") for talk in ("a", "b")]
steps = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.sampled_from(["say", "say", "say", "search", "delete", "delete all"]),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=25,
)


@few
@given(steps, st.booleans())
def test_everything_of_the_own_scope_is_found_and_nothing_else(script: Any, on_disk: bool) -> None:
    async def run(store: InProcessStore | SqliteStore) -> None:
        logs: dict[Key, dict[int, list[str]]] = {key: {} for key in KEYS}

        async def check(key: Key, word: str, talk: str | None) -> None:
            found = await store.search(key.agent, key.scope, word, conversation=talk, limit=1000)
            places = {(one.conversation, one.position) for one in found}
            meant = [k for k in KEYS if k[:2] == key[:2] and talk in (None, k.conversation)]
            said_there = {(k.conversation, at): words for k in meant for at, words in logs[k].items()}
            assert {place for place, words in said_there.items() if word in words} <= places
            assert places <= said_there.keys(), "something deleted, or of somebody else"
            assert len(places) == len(found)
            for one in found:
                assert one.message.text == " ".join(said_there[one.conversation, one.position])

        for number, (key, action, words) in enumerate(script, 1):
            if action == "say":
                [at] = await store.append(key, make_drafts(make_message(" ".join(words), id=f"m{number}")))
                logs[key][at] = words
            elif action == "search":
                await check(key, words[0], key.conversation if number % 2 else None)
            elif action == "delete all":
                await store.delete(key.scope, key.agent, key.conversation)
                logs[key].clear()
            elif logs[key]:
                at = min(logs[key])
                [entry] = (await store.read(key, after=at - 1, before=at + 1)).entries
                await store.delete(key.scope, key.agent, key.conversation, [entry.message.id])
                del logs[key][at]
        for key in KEYS[::2]:
            for word in WORDS:
                await check(key, word, None)
        for scope in ("ana", "bob"):
            await store.delete(scope)
        for key in KEYS:
            assert await store.search(key.agent, key.scope, " ".join(WORDS)) == []
        await store.close()

    with TemporaryDirectory() as folder:
        asyncio.run(run(SqliteStore(f"{folder}/memory.db") if on_disk else InProcessStore()))


async def test_memory_searches_as_its_agent(memory: Memory) -> None:
    helper = memory.for_agent("helper")
    await memory.append("ana", "trip", make_message("the museum", id="m1"))
    await helper.append("ana", "trip", make_message("a museum for helpers", id="m1"))
    assert [one.message.text for one in await memory.search("ana", "museum")] == ["the museum"]
    assert [one.message.text for one in await helper.search("ana", "museum")] == ["a museum for helpers"]
    assert await memory.search("ana", "museum", conversation="other") == []
    with pytest.raises(InvalidKey):
        await memory.search("ana\0", "museum")
    with pytest.raises(InvalidKey):
        await memory.search("ana", "museum", conversation="\ud800")
    with pytest.raises(ValueError, match="limit must be >= 1, not 0"):
        await memory.search("ana", "museum", limit=0)
    query: Any = 5
    with pytest.raises(TypeError, match="int"):
        await memory.search("ana", query)
    await memory.close()
    for words in ("museum", "the"):
        with pytest.raises(StoreClosed):
            await memory.search("ana", words)


QUESTIONS = [
    ("dog called", "What is my dog called?", "My dog is called Rex."),
    ("dog called", "Hello! What is my dog called?", "My dog is called Rex. Is that a good name?"),
    ("Hund", "Wie heißt mein Hund?", "Mein Hund, der heißt Rex, und das schon immer."),
    ("狗叫", "我的狗叫什么？", "我的狗叫小白。"),  # noqa: RUF001
]


@pytest.mark.parametrize(("query", "question", "statement"), QUESTIONS)
async def test_a_statement_is_ranked_above_the_question_about_it(
    query: str, question: str, statement: str, memory: Memory
) -> None:
    said = [statement, *[question] * 3]
    await memory.append("ana", "trip", *({"role": "user", "content": text} for text in said))
    found = await memory.search("ana", query)
    assert [hit.message.text for hit in found] == said
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    # Also where the question had taken the only place.
    [best] = await memory.search("ana", query, limit=1)
    assert best.message.text == statement


async def test_a_question_with_more_words_of_the_query_stays_above(memory: Memory) -> None:
    said = ["The ferry is late.", "When does the ferry to Cacilhas leave?", "A ferry."]
    await memory.append("ana", "trip", *({"role": "user", "content": text} for text in said))
    [best, *_] = await memory.search("ana", "ferry cacilhas")
    assert best.message.text == said[1]
    assert len(await memory.search("ana", "ferry", limit=2)) == 2


@pytest.mark.parametrize("limit", [0, -1, True, "3"])
async def test_a_wrong_limit_is_refused(limit: Any, memory: Memory) -> None:
    with pytest.raises(ValueError, match="limit"):
        await memory.search("ana", "ferry", limit=limit)


async def test_better_words_of_others_take_no_place_among_those_that_are_found(memory: Memory) -> None:
    told = "the museum is closed on most days of the week"
    for scope, conversation in (("ana", "trip"), ("carl", "trip")):
        await memory.append(scope, conversation, make_message(told, id="m1"))
    for number in range(5):
        await memory.append("bob", "trip", make_message("museum", id=f"b{number}"))
        await memory.append("carl", "other", make_message("museum", id=f"c{number}"))
    assert len(await memory.search("bob", "museum")) == 5
    [found] = await memory.search("ana", "museum", limit=1)
    assert found.message.text == told
    assert len(await memory.search("carl", "museum")) == 6
    [found] = await memory.search("carl", "museum", conversation="trip", limit=1)
    assert found.message.text == told


async def test_a_closed_store_in_this_process_holds_no_index() -> None:
    store = InProcessStore()
    await store.append(MAIN, make_drafts(make_message("museum", id="m1")))
    await store.search("", "ana", "museum")
    assert store._connection is not None
    await store.close()
    assert store._connection is None


@some
@given(st.text(st.characters(exclude_categories=())))
def test_every_term_that_is_asked_for_is_a_term_of_the_same_text(text: str) -> None:
    asked = search_terms(text)
    assert set(asked) <= set(index_terms(text).words)
    for term in asked:
        assert term
        assert len(term) <= MAX_TERM_LENGTH
        assert not set(term) & set(" \"'()*:^-+\0")
        term.encode()


@some
@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_found_by_itself(text: str) -> None:
    """Whatever a user writes, it is no syntax of the index, and nothing is torn from its place."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, "memory")
        fulltext.create_index(connection)
        fulltext.add_messages(connection, 1, 1, {7: index_terms(text)})
        fulltext.add_messages(connection, 2, 2, {8: index_terms(text)})
        asked = search_terms(text)
        for term in asked:
            assert [
                hit.position for hit in fulltext.find_hits(connection, 1, None, QueryTerms([term]), 9)
            ] == [7]
        if asked:
            assert [hit.position for hit in fulltext.find_hits(connection, 2, 2, QueryTerms(asked), 9)] == [8]
            assert fulltext.find_hits(connection, 2, 1, QueryTerms(asked), 9) == []
            folded = query_terms(text, 9)
            assert [hit.position for hit in fulltext.find_hits(connection, 1, None, folded, 9)] == [7]
            assert fulltext.find_hits(connection, 2, 1, folded, 9) == []
        vocabulary = "CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, search_term, col)"
        connection.execute(vocabulary)
        words = connection.execute("SELECT term FROM temp.v WHERE col = 'text'").fetchall()
        assert all(word.startswith(("1x", "2x")) for (word,) in words)


def test_little_words_are_no_terms() -> None:
    for word in stop_words():
        assert [term for term in index_terms(word).words if len(term) > 1] == [], word
    assert search_terms("What is the price of it?") == search_terms("price")


async def test_each_identifier_of_a_talk_finds_its_message(memory: Memory) -> None:
    talk = make().messages[:1000]
    await memory.add_messages("ana", "talk", talk)
    names = list(dict.fromkeys(name for one in talk for name in identifiers(one["content"])))
    assert len(names) > 20
    for name in names:
        [first, *_] = await memory.search("ana", name)
        assert set(search_terms(name)) <= set(index_terms(first.message.text).words), name
        found = [one.message.text for one in await memory.search("ana", name)]
        assert any(name in text for text in found), name


# -- what remains of deleted words ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["message", "conversation", "scope"])
async def test_no_word_stays_in_the_index_or_the_files_when_its_message_is_deleted(
    path: Path, how: str
) -> None:
    store = SqliteStore(str(path))
    filler = [make_message(f"word{n} about the weather", id=f"w{n}") for n in range(600)]
    await store.append(
        MAIN, make_drafts(*filler[:300], make_message(f"my {SECRET} is", id="m1"), *filler[300:])
    )
    assert await store.search("", "ana", SECRET)
    assert rows_with(path)
    match how:
        case "message":
            await store.delete("ana", "", "trip", ["m1"])
        case "conversation":
            await store.delete("ana", "", "trip")
        case _:
            await store.delete("ana")
    assert rows_with(path) == []
    assert left(path.parent) == []
    assert await store.search("", "ana", SECRET) == []
    assert len(await store.search("", "ana", "weather", limit=1000)) == (600 if how == "message" else 0)
    await store.close()


async def test_a_purge_of_a_large_index_is_taken_in_steps_and_leaves_no_word(path: Path) -> None:
    store = SqliteStore(str(path))
    for start in range(0, 400, 100):
        talk = [
            make_message(" ".join(f"w{n}k{k}" for k in range(250)), id=f"w{n}")
            for n in range(start, start + 100)
        ]
        await store.append(MAIN, make_drafts(*talk, make_message(f"{SECRET} {start}", id=f"s{start}")))
        await store.search("", "ana", SECRET)
    steps = await store.write_script(delete, "ana", "", "trip", [f"s{n}" for n in range(0, 400, 100)]) - 4
    while await store.run_write(purge_step):
        steps += 1
    assert steps >= 3, "rows out, and more than one merge"
    assert rows_with(path) == []
    assert len(await store.search("", "ana", "w7k7 w399k249")) == 2
    await store.close()


def test_a_purge_goes_on_to_its_end_when_the_index_grows_meanwhile() -> None:
    word = "zzsecret"  # the last word of all, which a merge that stops half way does not reach
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, "memory")
        fulltext.create_index(connection)
        connection.execute("BEGIN")
        for n in range(600):
            fulltext.add_messages(
                connection, 1, 1, {n: index_terms(" ".join(f"w{n}k{k}" for k in range(250)))}
            )
        fulltext.add_messages(connection, 1, 1, {600: index_terms(word)})
        connection.execute("COMMIT")
        connection.execute("INSERT INTO search_term (search_term) VALUES ('optimize')")
        fulltext.unlist_entries(connection, 1, 600)
        for _ in range(2):
            assert fulltext.purge_index_step(connection)
        for n in range(3):
            fulltext.add_messages(connection, 2, 2, {n: index_terms(f"new{n}")})
        while fulltext.purge_index_step(connection):
            pass
        blocks = connection.execute("SELECT block FROM search_term_data").fetchall()
        assert not any(word[2:].encode() in block for (block,) in blocks)
        connection.execute("INSERT INTO search_term (search_term) VALUES ('integrity-check')")


async def test_deletions_at_once_beside_searches_leave_no_word(path: Path) -> None:
    """Their steps share transactions, and what is indexed meanwhile makes the index grow new parts."""
    store = SqliteStore(str(path))
    talk = [make_message(" ".join(f"w{n}k{k}" for k in range(250)), id=f"w{n}") for n in range(400)]
    secrets = [make_message(f"{SECRET} {n}", id=f"s{n}") for n in range(6)]
    await store.append(MAIN, make_drafts(*talk[:200], *secrets, *talk[200:]))
    await store.search("", "ana", SECRET)

    async def speak(number: int) -> None:
        key = Key("", "bob", str(number))
        for n in range(8):
            await store.append(key, make_drafts(make_message(f"word{n}", id=f"b{n}")))
            await store.search("", "bob", f"word{n}")

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(store.delete, "ana", "", "trip", [f"s{number}"])
            group.start_soon(speak, number)
    assert rows_with(path) == []
    assert left(path.parent) == []
    assert len(await store.search("", "bob", "word7")) == 6
    await store.close()


async def test_a_deletion_that_was_cut_short_is_finished_by_the_next_search_or_deletion(path: Path) -> None:
    for again in ("search", "delete"):
        store = SqliteStore(str(path))
        await store.append(
            MAIN,
            make_drafts(make_message(f"{SECRET} {again}", id=again), make_message("weather", id=f"w{again}")),
        )
        await store.search("", "ana", SECRET)
        # As a process that is killed after the commit of the deletion leaves it.
        await store.write_script(delete, "ana", "", "trip", [again])
        assert rows_with(path)
        await store.close()
        store = SqliteStore(str(path))
        if again == "search":
            assert await store.search("", "ana", SECRET) == []
        else:
            assert await store.delete("ana", "", "trip", [again]) == 0
        assert rows_with(path) == []
        assert left(path.parent) == []
        await store.close()


async def test_what_is_deleted_is_not_found_before_the_index_is_purged(path: Path) -> None:
    store = SqliteStore(str(path))
    await store.append(MAIN, make_drafts(*(make_message(f"museum {n}", id=f"m{n}") for n in range(30))))
    await store.search("", "ana", "museum")
    gone = [f"m{n}" for n in range(10, 30)]
    await store.write_script(delete, "ana", "", "trip", gone)
    with closing(sqlite3.connect(path)) as connection:
        hits = fulltext.find_hits(connection, 1, None, QueryTerms(["museum"]), 10)
    assert sorted(hit.position for hit in hits) == list(range(1, 11))
    await store.close()


def test_in_a_large_index_rare_words_are_found_however_old_they_are() -> None:
    old = (
        "a zeppelin over the harbour market and many other things of that day",
        "a zeppelin",
        "das Fahrrad von gestern ist wieder da, sagt die Werkstatt",
        "a secret zeppelin over the harbour market",
        "from the station to the market",
    )
    usual = "the harbour market", "the old station"
    rows = {position: index_terms(text) for position, text in enumerate(old, 1)}
    rows |= {n: index_terms(f"{usual[n % 2]} {n}") for n in range(10, fulltext.MAX_RANKED_ROWS + 20)}

    def asked(question: str, *, scope: int = 1, conversation: int | None = None) -> list[int]:
        terms = query_terms(question, 3)
        return [hit.position for hit in fulltext.find_hits(connection, scope, conversation, terms, 3)]

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, "memory")
        fulltext.create_index(connection)
        fulltext.add_messages(connection, 1, 1, rows)
        fulltext.add_messages(connection, 1, 2, {8: index_terms("our zeppelin")})
        fulltext.add_messages(connection, 2, 3, {9: index_terms("their zeppelin")})
        fulltext.unlist_entries(connection, 1, 4)
        assert asked("zeppelin") == [8, 2, 1]
        assert asked("the zeppelin over the harbour market")[0] == 1, "it has all words"
        assert asked("zeppelin", conversation=1) == [2, 1]
        assert asked("zeppelin", scope=2) == [9]
        assert asked("harbour") == [max(rows) - 1, max(rows) - 3, max(rows) - 5], "of equals the newest"
        assert asked("station market")[0] == 5, "both are in many messages, but only here in one"
        assert asked("die Fahrr\u00e4der") == [3], "another form"
        assert asked("nothing of this") == []


async def test_a_file_that_was_never_searched_has_no_index(path: Path) -> None:
    store = SqliteStore(str(path))
    await store.append(MAIN, make_drafts(make_message("hello", id="m1")))
    assert await store.search("", "ana", "the") == []
    assert await store.search("", "bob", "hello") == []
    assert await store.delete("ana", "", "trip", ["m1"]) == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'search_term'").fetchone() is None
    await store.close()


# -- who waits for whom -----------------------------------------------------------------------------------


async def test_a_first_search_takes_the_log_in_blocks_and_others_get_their_turn(path: Path) -> None:
    """While the index follows a long log, appends of others are committed in between."""
    store = SqliteStore(str(path))
    await store.append(MAIN, make_drafts(*(make_message(f"word{n} museum", id=f"m{n}") for n in range(MANY))))
    found: list[int] = []
    behind: list[int] = []

    async def search() -> None:
        found.append(len(await store.search("", "ana", "museum", limit=2 * MANY)))

    async with anyio.create_task_group() as group:
        group.start_soon(search)
        turns = 0
        while not found:
            await store.append(Key("", "bob", "talk"), make_drafts(make_message("hi", id=f"b{turns}")))
            turns += 1
            with closing(sqlite3.connect(path)) as connection:
                [(at,)] = connection.execute(
                    "SELECT indexed FROM conversation WHERE scope = 'ana'"
                ).fetchall()
            behind.append(at)
    assert found == [MANY]
    steps = sorted(set(behind) - {0})
    assert len(steps) >= 3, "appends came through in between"
    assert all(after - before <= 256 * 4 for before, after in pairwise(steps))
    await store.close()


async def read_index_blocks(store: SqliteStore, unindexed: list[tuple[int, int]]) -> list[IndexBlock]:
    return [block.split() for block in await store.read_script(read_blocks, unindexed)]


@pytest.mark.parametrize("change", ["deleted", "indexed"])
async def test_what_changed_since_it_was_read_is_not_taken_into_the_index(
    path: Path, tmp_path: Path, change: str
) -> None:
    """A block is read before its transaction: deleted words must not come back, nor messages come twice."""
    store, place = SqliteStore(str(path)), SearchScope("", "ana", None)
    await store.append(MAIN, make_drafts(make_message(SECRET, id="m1"), make_message("museum", id="m2")))
    blocks = await read_index_blocks(store, [(1, 2)])
    if change == "deleted":
        await store.delete("ana", ids=["m1"])
    else:
        await store._update_index(place, [(1, 2)])
    await store.write_script(write_blocks, store.fulltext, place, blocks)
    assert [hit.message.id for hit in await store.search("", "ana", "museum")] == ["m2"]
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        positions = connection.execute("SELECT position FROM search_entry ORDER BY 1").fetchall()
    if change == "deleted":
        assert (positions, left(tmp_path)) == ([(2,)], [])
    else:
        assert positions == [(1,), (2,)]


async def test_a_search_in_a_long_log_leaves_the_loop_free(memory: Memory) -> None:
    await memory.append("ana", "trip", *(make_message(f"word{n} museum", id=f"m{n}") for n in range(MANY)))
    ticks = 0
    done = anyio.Event()

    async def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        assert len(await memory.search("ana", "museum", limit=MANY)) == MANY
        done.set()
    assert ticks > 25


def test_processes_find_what_others_said_and_index_it_once(path: Path) -> None:
    """As processes would: stores with connections of their own that all search first at once."""
    together = threading.Barrier(4)

    async def fill() -> None:
        store = SqliteStore(str(path))
        await store.append(MAIN, make_drafts(*(make_message(f"museum {n}", id=f"m{n}") for n in range(800))))
        await store.close()

    async def search(number: int) -> list[int]:
        store = SqliteStore(str(path))
        await store.check()
        together.wait(timeout=30)
        first = len(await store.search("", "ana", "museum", limit=9999))
        await store.append(MAIN, make_drafts(make_message("late arrival", id=f"late {number}")))
        together.wait(timeout=30)
        found = [first, len(await store.search("", "ana", "late"))]
        await store.close()
        return found

    asyncio.run(fill())
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: asyncio.run(search(number)), range(4)))
    assert answers == [[800, 4]] * 4
    with closing(sqlite3.connect(path)) as connection:
        [(entries,), (rows,)] = connection.execute(
            "SELECT count(*) FROM search_entry UNION ALL SELECT count(*) FROM search_term"
        ).fetchall()
        connection.execute("INSERT INTO search_term (search_term) VALUES ('integrity-check')")
    assert entries == rows == 804


async def test_cancelling_a_search_leaves_a_store_that_searches(path: Path) -> None:
    store = SqliteStore(str(path))
    await store.append(MAIN, make_drafts(*(make_message(f"museum {n}", id=f"m{n}") for n in range(1000))))
    for checkpoints in range(0, 60, 3):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def cut(after: int = checkpoints, scope: anyio.CancelScope = scope) -> None:
                    for _ in range(after):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()

                group.start_soon(cut)
                await store.search("", "ana", "museum")
    assert len(await store.search("", "ana", "museum", limit=9999)) == 1000
    await store.close()


# -- an index that was made with another folding -----------------------------------------------------------

# Made by the version before forms were indexed: 601 messages, the last of them never searched.
OLD_FOLDING = Path(__file__).with_name("old_folding.sqlite")


@pytest.fixture
def old_path(path: Path) -> Path:
    shutil.copy(OLD_FOLDING, path)
    return path


async def search_ids(store: SqliteStore, query: str) -> list[str]:
    return [hit.message.id for hit in await store.search("", "ana", query, limit=1000)]


def check_indexed_once(path: Path, messages: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        [(entries,), (rows,)] = connection.execute(
            "SELECT count(*) FROM search_entry UNION ALL SELECT count(*) FROM search_term"
        ).fetchall()
        for table in ("search_term", "search_form"):
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
    assert (entries, rows) == (messages, messages)


async def test_an_index_of_an_old_folding_is_made_anew_by_the_next_search(old_path: Path) -> None:
    store = SqliteStore(str(old_path))
    assert await search_ids(store, "Haus") == ["t11"]
    assert await search_ids(store, "كتاب") == ["t591"]
    assert await search_ids(store, "Müller") == ["t301", "t302"], "exact first, which the old one cannot tell"
    assert await search_ids(store, "Rechnung") == ["o1"]
    assert await search_ids(store, "never") == ["t601"]
    assert len(await search_ids(store, "museum")) == 596
    await store.close()
    check_indexed_once(old_path, 602)


async def test_an_old_index_that_was_made_anew_half_way_is_finished_by_the_next_search(
    old_path: Path,
) -> None:
    """As a process that is killed between two blocks leaves it; what was appended meanwhile is there."""
    store, place = SqliteStore(str(old_path)), SearchScope("", "ana", None)
    blocks = await read_index_blocks(store, [(1, 601)])
    assert blocks[0].start == 0
    assert blocks[0].end < 601
    await store.write_script(write_blocks, store.fulltext, place, blocks)
    with closing(sqlite3.connect(old_path)) as connection:
        hits = fulltext.find_hits(connection, 1, None, QueryTerms(["museum"]), 1000)
    assert len(hits) == 596, "the old rest is found as it is"
    await store.append(MAIN, make_drafts(make_message("museum late", id="late")))
    await store.close()
    store = SqliteStore(str(old_path))
    assert len(await search_ids(store, "museum")) == 597
    assert await search_ids(store, "كتاب") == ["t591"]
    await store.close()
    check_indexed_once(old_path, 603)


async def test_a_message_of_an_old_index_is_deleted_with_its_words(old_path: Path) -> None:
    store = SqliteStore(str(old_path))
    assert await store.delete("ana", "", "trip", ["t11"]) == 1
    assert await search_ids(store, "Haus") == await search_ids(store, "gesehen") == []
    await store.close()
    assert rows_with(old_path, "gesehen") == []
    check_indexed_once(old_path, 601)


async def test_appends_go_on_while_an_old_index_is_made_anew(old_path: Path) -> None:
    store = SqliteStore(str(old_path))
    found: list[int] = []

    async def look() -> None:
        found.append(len(await search_ids(store, "museum")))

    turns = 0
    async with anyio.create_task_group() as group:
        group.start_soon(look)
        while not found:
            await store.append(Key("", "bob", "talk"), make_drafts(make_message("hi", id=f"b{turns}")))
            turns += 1
    assert found == [596]
    assert turns >= 3
    await store.close()


# -- a library without FTS5 -------------------------------------------------------------------------------


class Bare(sqlite3.Connection):
    """A connection of a SQLite that was built without FTS5."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self._refuse(sql)
        return super().execute(sql, *values)

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self._refuse(sql)
        return super().executemany(sql, *values)

    def _refuse(self, sql: str) -> None:
        # The schema mentions the table in a comment.
        if ("search_term" in sql or "search_form" in sql) and "CREATE TABLE" not in sql:
            raise sqlite3.OperationalError("no such module: fts5")


class BareStore(SqliteStore):
    def _connect(self, timeout: float, create: bool) -> sqlite3.Connection:
        made = sqlite3.connect(
            self.path, timeout=timeout, isolation_level=None, check_same_thread=False, factory=Bare
        )
        made.execute("PRAGMA wal_autocheckpoint = 0")
        return made


async def test_without_fts5_search_says_what_to_do_and_the_rest_works(path: Path) -> None:
    store = BareStore(str(path))
    await store.append(MAIN, make_drafts(make_message("museum", id="m1"), make_message("museum", id="m2")))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"without FTS5.*use a Python"):
            await store.search("", "ana", "museum")
    assert await store.search("", "ana", "the") == []
    assert await store.delete("ana", "", "trip", ["m1"]) == 1
    assert await store.append(MAIN, make_drafts(make_message("hello", id="m3"))) == [3]
    await store.close()
    # Another Python that has it.
    able = SqliteStore(str(path))
    assert len(await able.search("", "ana", "museum")) == 1
    await able.close()
    store = BareStore(str(path))
    with pytest.raises(StoreUnavailable, match="FTS5"):
        await store.search("", "ana", "museum")
    with pytest.raises(StoreUnavailable, match="FTS5"):
        await store.delete("ana", "", "trip", ["m2"])
    assert [entry.message.id for entry in (await store.read(MAIN)).entries] == ["m3"]
    await store.close()
