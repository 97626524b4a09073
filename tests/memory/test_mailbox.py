"""Mail is delivered once, to whom it was sent, in order, or it is refused; nothing else happens to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import few, names

from autonomy_ctx import InvalidMessage, Mailbox, Memory, MemoryHook, hook
from autonomy_ctx.errors import ConflictingMessage, MailboxFull, MessageTooLarge
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.mailbox import MAIL_KIND, MAIL_LIMIT, MAX_PENDING
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages import DirectMessage
from autonomy_ctx.messages.wire import item_to_dict
from autonomy_ctx.testing import StoppedClock, make_message

WORKER = Path(__file__).parent / "mail_worker.py"


def mail(id: str = "d1", content: str = "Mind the gap.", **fields: Any) -> DirectMessage:  # noqa: A002
    stamps: dict[str, Any] = {"source_agent": "ana", "target_agent": "ben", "created_at": StoppedClock()()}
    return DirectMessage(id=id, content=content, **(stamps | fields))


async def send(memory: Memory, *mails: DirectMessage, clock: Any = None) -> list[bool]:
    box = Mailbox(memory, clock=clock or StoppedClock())
    return [await box.send(one, scope="ana", conversation="trip") for one in mails]


async def waiting(memory: Memory, target: str = "ben", clock: Any = None, **options: Any) -> list[str]:
    box = Mailbox(memory, clock=clock or StoppedClock())
    found = await box.query_by_target(target, scope="ana", conversation="trip", **options)
    return [one.id for one in found]


async def deliver(memory: Memory, *ids: str, clock: Any = None) -> int:
    box = Mailbox(memory, clock=clock or StoppedClock())
    return await box.deliver("ben", ids, scope="ana", conversation="trip")


async def logged(memory: Memory) -> list[str]:
    window = await memory.for_agent("ben").read("ana", "trip")
    return [entry.message.id for entry in window.entries]


# -- once ---------------------------------------------------------------------------------------------


async def test_mail_waits_whole_until_it_is_delivered_and_then_is_in_the_log(memory: Memory) -> None:
    sent = mail(priority=0.8, ttl_seconds=600, parent_task_id="t1", metadata={"reason": "handoff"})
    assert await send(memory, sent) == [True]
    box = Mailbox(memory, clock=StoppedClock())
    assert await box.query_by_target("ben", scope="ana", conversation="trip") == [sent]
    assert await logged(memory) == []

    assert await deliver(memory, "d1") == 1
    assert await waiting(memory) == []
    [entry] = (await memory.for_agent("ben").read("ana", "trip")).entries
    assert entry.message.text.splitlines()[::2] == ["[Direct message from ana]", "Mind the gap."]
    assert (entry.message.id, entry.message.created_at) == ("d1", sent.created_at)
    assert entry.message.extra["direct_message"]["metadata"] == {"reason": "handoff"}


async def test_the_same_mail_sent_twice_is_there_once_before_and_after_delivery(memory: Memory) -> None:
    later = StoppedClock()
    later.advance(5)
    assert await send(memory, mail(), mail(), mail(created_at=later())) == [True, False, False]
    assert await waiting(memory) == ["d1"]
    assert await deliver(memory, "d1", "d1") == 1
    assert await deliver(memory, "d1") == 0
    assert await send(memory, mail()) == [False]
    assert await waiting(memory) == []
    assert await logged(memory) == ["d1"]


async def test_a_deleted_message_does_not_come_back_when_its_mail_is_sent_again(memory: Memory) -> None:
    await send(memory, mail())
    await deliver(memory, "d1")
    assert await memory.for_agent("ben").delete_message("ana", "trip", "d1")
    assert await send(memory, mail()) == [False]
    assert await waiting(memory) == []


async def test_other_content_under_the_same_id_is_refused_before_and_after_delivery(memory: Memory) -> None:
    await send(memory, mail())
    for _ in range(2):
        with pytest.raises(ConflictingMessage, match="'d1' is already in use"):
            await send(memory, mail(content="Something else."))
        await deliver(memory, "d1")
    assert await logged(memory) == ["d1"]


async def test_thousands_of_deliveries_later_an_old_id_is_still_known() -> None:
    memory = Memory()
    for start in range(0, 3000, 500):
        await send(memory, *[mail(f"d{number}") for number in range(start, start + 500)])
        await deliver(memory, *[f"d{number}" for number in range(start, start + 500)])
    assert await send(memory, mail("d0")) == [False]
    assert len(await logged(memory)) == 3000


async def test_mail_under_the_id_of_another_message_is_delivered_all_the_same(memory: Memory) -> None:
    await memory.for_agent("ben").append("ana", "trip", make_message("Hello", id="d1"))
    await send(memory, mail("d1"), mail("d2"))
    assert await deliver(memory, "d1", "d2") == 2
    assert await waiting(memory) == []
    first, other, last = await logged(memory)
    assert (first, last) == ("d1", "d2")
    assert other not in ("d1", "d2")


async def test_a_hook_that_refuses_the_message_leaves_the_mail_waiting(memory: Memory) -> None:
    await send(memory, mail())

    def refuse(*_: Any) -> None:
        raise RuntimeError("not now")

    memory.hooks.append(hook(MemoryHook.BEFORE_APPEND)(refuse))
    with pytest.raises(RuntimeError):
        await deliver(memory, "d1")
    memory.hooks.clear()
    assert await waiting(memory) == ["d1"]
    assert await deliver(memory, "d1") == 1


# -- interrupted --------------------------------------------------------------------------------------


class Meddled(InProcessStore):
    """A store in which something happens before the n-th step."""

    def __init__(self) -> None:
        super().__init__()
        self.at, self.then = 0, self.nothing

    async def nothing(self) -> None: ...

    async def _step(self) -> None:
        self.at -= 1
        if self.at == 0:
            await self.then()

    async def append(self, *args: Any, **options: Any) -> Any:
        await self._step()
        return await super().append(*args, **options)

    async def put_records(self, *args: Any, **options: Any) -> Any:
        await self._step()
        return await super().put_records(*args, **options)

    async def drop_records(self, *args: Any, **options: Any) -> Any:
        await self._step()
        return await super().drop_records(*args, **options)


@pytest.mark.parametrize("step", [1, 2, 3])
async def test_a_delivery_that_fails_before_any_step_is_finished_by_the_next(step: int) -> None:
    store = Meddled()
    memory = Memory(store=store)
    await send(memory, mail("d1"), mail("d2"))

    async def fail() -> None:
        raise OSError("power cut")

    store.at, store.then = step, fail
    with pytest.raises(OSError, match="power cut"):
        await deliver(memory, "d1", "d2")
    # What has reached the log is not shown a second time, and what has not is still shown.
    assert await waiting(memory) == ([] if step > 1 else ["d1", "d2"])
    assert await send(memory, mail("d1")) == [False]
    assert await deliver(memory, "d1", "d2") == 2
    assert await logged(memory) == ["d1", "d2"]
    assert await waiting(memory) == []


@pytest.mark.parametrize("step", [1, 2, 3])
async def test_a_conversation_deleted_during_a_delivery_stays_deleted(step: int) -> None:
    store = Meddled()
    memory = Memory(store=store)
    await memory.for_agent("ben").append("ana", "trip", make_message("Hello", id="m1"))
    await send(memory, mail())

    async def delete() -> None:
        await memory.for_agent("ben").delete_conversation("ana", "trip")

    store.at, store.then = step, delete
    await deliver(memory, "d1")
    assert await logged(memory) == []
    assert await waiting(memory) == []


async def test_another_message_deleted_during_a_delivery_changes_nothing_about_it() -> None:
    store = Meddled()
    memory = Memory(store=store)
    await memory.for_agent("ben").append("ana", "trip", make_message("Hello", id="m1"))
    await send(memory, mail())

    async def delete() -> None:
        await memory.for_agent("ben").delete_message("ana", "trip", "m1")

    store.at, store.then = 2, delete
    assert await deliver(memory, "d1") == 1
    assert await logged(memory) == ["d1"]
    assert await waiting(memory) == []


async def test_mail_that_was_delivered_while_it_was_sent_again_does_not_wait_again() -> None:
    store = Meddled()
    memory = Memory(store=store)

    async def sent_and_delivered_elsewhere() -> None:
        await send(memory, mail())
        await deliver(memory, "d1")

    store.at, store.then = 1, sent_and_delivered_elsewhere
    assert await send(memory, mail()) == [False]
    assert await waiting(memory) == []
    assert await logged(memory) == ["d1"]


def worker(path: Path, step: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), str(path), str(step)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes)


def kept(path: Path) -> tuple[list[str], list[str]]:
    async def read() -> tuple[list[str], list[str]]:
        async with Memory(f"sqlite:///{path}") as memory:
            return await logged(memory), await waiting(memory)

    return anyio.run(read)


def fill(path: Path, count: int) -> list[str]:
    async def fill() -> None:
        async with Memory(f"sqlite:///{path}") as memory:
            await send(memory, *[mail(f"d{number:03}") for number in range(count)])

    anyio.run(fill)
    return [f"d{number:03}" for number in range(count)]


def test_two_processes_that_deliver_at_once_put_each_into_the_log_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    ids = fill(path, 40)
    both = [worker(path), worker(path)]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    answers = []
    for one in both:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in both:
        said_so, _ = one.communicate(timeout=60)
        answers.append(int(said_so))
    assert kept(path) == (ids, [])
    assert sum(answers) == len(ids)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_process_killed_before_any_step_of_a_delivery_leaves_it_to_be_finished(
    tmp_path: Path, step: int
) -> None:
    path = tmp_path / "memory.db"
    ids = fill(path, 3)
    killed = worker(path, step)
    killed.communicate("go\n", timeout=60)
    assert killed.returncode == -9
    in_log, left = kept(path)
    assert (in_log, left) == (([], ids) if step == 1 else (ids, []))

    async def finish() -> None:
        async with Memory(f"sqlite:///{path}") as memory:
            assert await deliver(memory, *ids) == 3
            assert await send(memory, *[mail(one) for one in ids]) == [False] * 3

    anyio.run(finish)
    assert kept(path) == (ids, [])


# -- order and expiry ---------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 0.5000001, 1.0]), st.integers(0, 3)), max_size=12))
@few
def test_mail_is_in_order_of_priority_then_time_then_arrival(stamps: list[tuple[float, int]]) -> None:
    async def check() -> None:
        memory, clock = Memory(), StoppedClock()
        sent = []
        for number, (priority, second) in enumerate(stamps):
            clock.time = StoppedClock().time.replace(second=second)
            sent.append(mail(f"d{number}", priority=priority, created_at=clock()))
        await send(memory, *sent)
        wanted = sorted(range(len(stamps)), key=lambda at: (-stamps[at][0], stamps[at][1], at))
        assert await waiting(memory) == [f"d{at}" for at in wanted]
        assert await waiting(memory, limit=2) == [f"d{at}" for at in wanted[:2]]
        await deliver(memory, *[one.id for one in sent])
        in_time = sorted(range(len(stamps)), key=lambda at: (stamps[at][1], at))
        assert await logged(memory) == [f"d{at}" for at in in_time]

    anyio.run(check)


async def test_mail_expires_exactly_when_its_time_is_over(memory: Memory) -> None:
    clock = StoppedClock()
    await send(memory, mail("d1", ttl_seconds=600), mail("d2"), mail("d3", ttl_seconds=0), clock=clock)
    clock.advance(599.999999)
    assert await waiting(memory, clock=clock) == ["d1", "d2"]
    clock.advance(0.000001)
    assert await waiting(memory, clock=clock) == ["d2"]
    # Reading removes nothing: by another clock it has not expired.
    assert await waiting(memory) == ["d1", "d2"]


async def test_what_expired_after_it_was_read_is_delivered(memory: Memory) -> None:
    clock = StoppedClock()
    await send(memory, mail(ttl_seconds=10), clock=clock)
    assert await waiting(memory, clock=clock) == ["d1"]
    clock.advance(11)
    assert await deliver(memory, "d1", clock=clock) == 1


async def test_mail_that_expired_unread_may_be_sent_again(memory: Memory) -> None:
    clock = StoppedClock()
    await send(memory, mail(ttl_seconds=10), clock=clock)
    clock.advance(10)
    assert await send(memory, mail(ttl_seconds=10, created_at=clock()), clock=clock) == [True]
    assert await waiting(memory, clock=clock) == ["d1"]


async def test_mail_for_another_node_is_left_out(memory: Memory) -> None:
    await send(memory, mail("d1"), mail("d2", target_node_id="west"), mail("d3", target_node_id="ben"))
    assert await waiting(memory) == ["d1", "d2", "d3"]
    assert await waiting(memory, node="west") == ["d1", "d2", "d3"]
    assert await waiting(memory, node="east") == ["d1", "d3"]


# -- whose --------------------------------------------------------------------------------------------

keys = st.tuples(names | st.just(""), names | st.just(""), names | st.just(""))


@given(st.lists(keys, min_size=2, max_size=5, unique=True))
@few
def test_mail_is_only_where_it_was_sent(places: list[tuple[str, str, str]]) -> None:
    async def check() -> None:
        memory = Memory()
        box = Mailbox(memory, clock=StoppedClock())
        for number, (target, scope, conversation) in enumerate(places):
            # The same id everywhere, with other content: nobody is in anybody's way.
            sent = mail("d1", f"for {number}", target_agent=target)
            assert await box.send(sent, scope=scope, conversation=conversation)
        for number, (target, scope, conversation) in enumerate(places):
            [found] = await box.query_by_target(target, scope=scope, conversation=conversation)
            assert found.content == f"for {number}"
            assert await box.deliver(target, ["d1"], scope=scope, conversation=conversation) == 1
            window = await memory.for_agent(target).read(scope, conversation)
            assert [entry.message.extra["direct_message"]["target_agent"] for entry in window.entries] == [
                target
            ]
            assert f"\nfor {number}\n" in window.entries[0].message.text

    anyio.run(check)


async def test_mail_goes_with_its_conversation_and_its_scope(memory: Memory) -> None:
    box = Mailbox(memory, clock=StoppedClock())
    for scope, conversation in (("ana", "trip"), ("ana", "work"), ("bob", "trip")):
        await box.send(mail(), scope=scope, conversation=conversation)
    await memory.for_agent("ben").delete_conversation("ana", "trip")
    assert await waiting(memory) == []
    assert len(await box.query_by_target("ben", scope="ana", conversation="work")) == 1
    await memory.delete_scope("ana")
    assert await box.query_by_target("ben", scope="ana", conversation="work") == []
    assert len(await box.query_by_target("ben", scope="bob", conversation="trip")) == 1


async def test_mail_survives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    async with Memory(url) as memory:
        await send(memory, mail("d1"), mail("d2", "\ud800 {braces} \x00"))
        await deliver(memory, "d1")
    async with Memory(url) as memory:
        box = Mailbox(memory, clock=StoppedClock())
        [left] = await box.query_by_target("ben", scope="ana", conversation="trip")
        assert left == mail("d2", "\ud800 {braces} \x00")
        assert await send(memory, mail("d1")) == [False]


# -- refused ------------------------------------------------------------------------------------------


async def test_mail_that_is_too_large_is_refused_before_anything_changes(memory: Memory) -> None:
    for large in (mail(content="x" * MAIL_LIMIT), mail(metadata={"notes": ["x" * 1000] * 100})):
        with pytest.raises(MessageTooLarge, match="65,536") as caught:
            await send(memory, large)
        assert caught.value.size > MAIL_LIMIT
    assert await waiting(memory) == []
    assert await send(memory, mail(content="x" * (MAIL_LIMIT - 1000))) == [True]


async def test_an_id_that_no_log_could_hold_is_refused(memory: Memory) -> None:
    for bad in ("nul\0", "\ud800"):
        with pytest.raises(InvalidMessage, match="id"):
            await send(memory, mail(bad))


async def test_a_full_mailbox_refuses_and_loses_nothing_until_there_is_room() -> None:
    memory, clock = Memory(), StoppedClock()
    await send(memory, *[mail(f"d{number}", ttl_seconds=60) for number in range(5)], clock=clock)
    # Nearly all at once: each mail that is sent looks through those that wait.
    others = [mail(f"d{number}", priority=0) for number in range(5, MAX_PENDING)]
    bodies = [(one.id, json.dumps(item_to_dict(one))) for one in others[:-5]]
    await memory.store.put_records(Key("ben", "ana", "trip"), MAIL_KIND, bodies)
    await send(memory, *others[-5:], clock=clock)
    before = await waiting(memory, clock=clock)
    with pytest.raises(MailboxFull, match=r"1,000 direct messages .* wait for agent 'ben'") as caught:
        await send(memory, mail("more", priority=1.0), clock=clock)
    assert caught.value.waiting == caught.value.limit == MAX_PENDING
    assert await waiting(memory, clock=clock) == before
    # Elsewhere there is room, and here too once some has expired or was delivered.
    assert await Mailbox(memory).send(mail("more"), scope="ana", conversation="other")
    clock.advance(60)
    assert await send(memory, mail("more", priority=1.0), clock=clock) == [True]
    assert await deliver(memory, "more", "d7", clock=clock) == 2
    assert await send(memory, mail("another"), clock=clock) == [True]


async def test_a_mailbox_is_full_when_its_mail_is_large() -> None:
    memory = Memory()
    with pytest.raises(MailboxFull, match="2,097,152 bytes"):
        await send(memory, *[mail(f"d{number}", "x" * 60_000) for number in range(40)])
    assert 30 < len(await waiting(memory)) < 40


async def test_mail_that_is_no_message_is_refused_by_its_own_type() -> None:
    mistakes: list[dict[str, Any]] = [
        {"priority": 1.5},
        {"ttl_seconds": -1},
        {"content": None},
        {"priority": "high"},
    ]
    for wrong in mistakes:
        with pytest.raises(InvalidMessage, match=next(iter(wrong))):
            mail(**wrong)
    for no_mail in ("hello", {"content": "hello"}, None):
        with pytest.raises(InvalidMessage, match="must be a DirectMessage"):
            await send(Memory(), no_mail)  # type: ignore[arg-type]
