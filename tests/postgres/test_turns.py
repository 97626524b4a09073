"""Turns on a server: how many statements they take, and what becomes of them when an answer is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from agents.kit import call, calls

from autonomy_ctx import Agent, Memory, tool
from autonomy_ctx.errors import StoreError, TurnLost
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.store import Draft, RecordDraft, TurnStart, TurnToken
from autonomy_ctx.testing import MAIN, ScriptedModel, make_drafts, make_message
from postgres.proxy import COMMIT, CuttingProxy

HOUR = 3600.0
# What only the one statement of a turn that begins, or ends, has.
BEGIN, END = b"turn_until = autonomy_ctx.now_seconds()", b"turn_until = 0"


def drafts(*texts: str) -> Sequence[Draft]:
    return make_drafts(*(make_message(text, id=text) for text in texts))


async def begin(store: PostgresStore, owner: str, *texts: str, **options: Any) -> TurnStart:
    start = await store.begin_turn(MAIN, drafts(*texts), owner=owner, seconds=HOUR, **options)
    return TurnStart(*start[:3])


async def end(store: PostgresStore, start: TurnStart, owner: str, *texts: str) -> list[int]:
    return await store.append(MAIN, drafts(*texts), turn=TurnToken(MAIN, start.ticket, owner), ends=True)


async def texts(store: PostgresStore) -> list[str]:
    return [entry.message.text for entry in (await store.read(MAIN)).entries]


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def proxy(database_url: str) -> AsyncIterator[CuttingProxy]:
    async with CuttingProxy(database_url) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def proxied(proxy: CuttingProxy) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(proxy.url())
    await store.check()
    yield store
    await store.close()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All statements that are sent from here on."""
    sent: list[str] = []
    execute = psycopg.AsyncCursor.execute

    async def note(self: Any, query: Any, *given: Any, **options: Any) -> Any:
        sent.append(str(query))
        return await execute(self, query, *given, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", note)
    return sent


@pytest.mark.parametrize("reads_log", [True, False])
async def test_an_uncontended_turn_has_one_statement_for_each_of_its_appends(
    store: PostgresStore, statements: list[str], reads_log: bool
) -> None:
    for turn in range(3):
        head = (await store.head(MAIN)).position
        statements.clear()
        after = {"after": head} if reads_log else {}
        start = await begin(store, f"o{turn}", f"question {turn}", **after)
        assert start == TurnStart(turn + 1, [head + 1])
        assert len(statements) == 1
        hold = TurnToken(MAIN, start.ticket, f"o{turn}")
        assert await store.append(MAIN, drafts(f"call {turn}", f"result {turn}"), turn=hold) == [
            head + 2,
            head + 3,
        ]
        assert len(statements) == 2
        assert await end(store, start, f"o{turn}", f"answer {turn}") == [head + 4]
        assert len(statements) == 3
        assert await store.append(MAIN, drafts(f"answer {turn}")) == [head + 4]
    assert (await store.head(MAIN)).count == 12


async def test_an_ordinary_turn_waits_twice_for_the_server(database_url: str, statements: list[str]) -> None:
    @tool
    def look_up(city: str) -> str:
        """Look up the weather."""
        return f"Rain in {city}."

    model = ScriptedModel(["Hello!", "Hello again!", calls(call("look_up", city="Rome")), "It rains."])
    async with Agent("a", model=model, memory=Memory(database_url), tools=[look_up]) as agent:
        await agent.send("Hello", scope="ana")
        statements.clear()
        await agent.send("Hello again", scope="ana")
        assert len(statements) == 2, "the turn and its question; the answer and its records"
        statements.clear()
        await agent.send("And the weather?", scope="ana")
        assert len(statements) == 3, "a step with a tool: its messages"


async def test_a_turn_ends_with_its_record_in_one_statement(
    store: PostgresStore, statements: list[str]
) -> None:
    start = await begin(store, "a", "question")
    statements.clear()
    hold, record = TurnToken(MAIN, start.ticket, "a"), RecordDraft("k", "a", "record", keep=1, generation=0)
    assert await store.append(MAIN, drafts("answer"), [record], turn=hold, ends=True) == [2]
    assert len(statements) == 1
    assert [one.body for one in await store.read_records(MAIN, "k")] == ["record"]


@pytest.mark.parametrize("forward", [True, False])
async def test_a_turn_whose_end_got_no_answer_has_its_record_once(
    proxied: PostgresStore, proxy: CuttingProxy, forward: bool
) -> None:
    start = await begin(proxied, "a", "question")
    hold, record = TurnToken(MAIN, start.ticket, "a"), RecordDraft("k", "a", "record", keep=1, generation=0)
    proxy.cut_at(END, forward=forward)
    assert await proxied.append(MAIN, drafts("answer"), [record], turn=hold, ends=True) == [2]
    assert proxy.cuts == 1
    assert [one.body for one in await proxied.read_records(MAIN, "k")] == ["record"]
    assert await texts(proxied) == ["question", "answer"]


async def test_a_turn_whose_record_cannot_be_stored_says_so_before_its_answer_is(
    database_url: str, store: PostgresStore
) -> None:
    question = {"role": "user", "content": "where?", "id": "q"}
    agent = Agent("a", model=ScriptedModel(["here", "here"]), memory=Memory(store=store))
    await store.check()
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END';"
            "CREATE TRIGGER refuse BEFORE INSERT ON autonomy_ctx.record EXECUTE FUNCTION refuse()"
        )
        with pytest.raises(StoreError, match="nothing was stored"):
            await agent.send(question, scope="ana")
        assert [one["content"] for one in await agent.history(scope="ana")] == ["where?"]
        await other.execute("DROP TRIGGER refuse ON autonomy_ctx.record")
    assert (await agent.send(question, scope="ana")).text == "here"
    assert [one["content"] for one in await agent.history(scope="ana")] == ["where?", "here"]
    assert (await agent.explain(scope="ana")).messages[-1].text == "where?"
    await agent.close()


async def test_a_renewal_is_one_statement(store: PostgresStore, statements: list[str]) -> None:
    start = await begin(store, "a")
    statements.clear()
    assert await store.renew_turn(MAIN, start.ticket, owner="a", seconds=HOUR)
    assert len(statements) == 1


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("reads_log", [True, False])
async def test_a_turn_whose_beginning_got_no_answer_has_begun_once(
    proxied: PostgresStore, proxy: CuttingProxy, forward: bool, reads_log: bool
) -> None:
    await proxied.append(MAIN, drafts("before"))
    proxy.cut_at(BEGIN, forward=forward)
    start = await begin(proxied, "a", "question", **({"after": 1} if reads_log else {}))
    assert (start, proxy.cuts) == (TurnStart(1, [2]), 1)
    assert (await begin(proxied, "b")) == TurnStart(2, None)
    assert await end(proxied, start, "a", "answer") == [3]
    assert await texts(proxied) == ["before", "question", "answer"]


@pytest.mark.parametrize("forward", [True, False])
async def test_a_turn_whose_end_got_no_answer_has_ended_once(
    proxied: PostgresStore, proxy: CuttingProxy, forward: bool
) -> None:
    start = await begin(proxied, "a", "question")
    proxy.cut_at(END, forward=forward)
    assert await end(proxied, start, "a", "answer") == [2]
    assert proxy.cuts == 1
    assert await begin(proxied, "b", "next") == TurnStart(2, [3])
    assert await end(proxied, start, "a", "answer") == [2], "sent again"
    with pytest.raises(TurnLost):
        await end(proxied, start, "a", "more")
    assert await texts(proxied) == ["question", "answer", "next"]


@pytest.mark.parametrize("forward", [True, False])
async def test_a_place_whose_commit_got_no_answer_is_taken_once(
    proxied: PostgresStore, proxy: CuttingProxy, forward: bool
) -> None:
    await begin(proxied, "a")
    proxy.cut_at(COMMIT, forward=forward)
    assert await begin(proxied, "b") == TurnStart(2, None)
    assert proxy.cuts == 1
    assert await begin(proxied, "c") == TurnStart(3, None)


async def test_an_owner_that_asks_again_without_its_ticket_has_the_place_it_had(store: PostgresStore) -> None:
    start = await begin(store, "a", "one")
    assert await begin(store, "b") == await begin(store, "b") == TurnStart(2, None)
    assert await begin(store, "a", "one") == start
    await store.leave_turn(MAIN, None, owner="a")
    assert (await begin(store, "b", "two")).positions == [2]


async def test_a_log_that_is_not_there_is_not_continued(store: PostgresStore) -> None:
    assert await begin(store, "a", "one", after=5) == TurnStart(1, [])
    assert await texts(store) == []


async def test_a_message_that_is_known_begins_the_turn_where_it_stands(store: PostgresStore) -> None:
    await store.append(MAIN, drafts("one", "two"))
    assert await begin(store, "a", "one") == TurnStart(1, [1])
    assert (await begin(store, "b")).positions is None
