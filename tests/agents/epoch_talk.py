"""A conversation that is restarted, edited and deleted from, and all its requests that were answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import pairwise
from typing import Any, NamedTuple

from agents.kit import call, calls
from hypothesis import strategies as st

from autonomy_ctx import (
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    ProfileSection,
    RecallSection,
    SummarizedHistorySection,
    tool,
)
from autonomy_ctx.agents.explain import RECORD_KIND, parse_turn
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import ImageContent
from autonomy_ctx.messages.summary import visible_fields
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_store import EPOCH_KIND
from autonomy_ctx.testing import ScriptedModel

WHERE: Any = {"scope": "ana", "conversation": "trip"}
MAX_ROW_BYTES = 2048
PICTURE = ImageContent.from_bytes(b"a picture")
_GONE = {EndReason.DELETION, EndReason.NOT_RECORDED}


@tool
def look_up(order: str = "") -> Any:
    """Look up an order."""
    if order == "picture":
        return [PICTURE, "a picture"]
    if order == "large":
        return "\n".join(f"{number}: order was sent on day {number}" for number in range(60))
    return f"order {order} was sent"


class TextSection:
    """A section that says what a test wants."""

    enabled = True

    def __init__(self, name: str, kind: str = "volatile", text: str = "", says: str = "states") -> None:
        self.name, self.kind, self.text, self.says = name, kind, text, says
        self.keep = "all"

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
        if self.text == "!":
            raise RuntimeError("not now")
        return [{"role": "system", "content": self.text}] if self.text else []


class SentRequest(NamedTuple):
    """A request that was answered."""

    context: ComposedContext
    shown: str
    reply: str


class Texts:
    """The sections of a test, which all its processes share."""

    def __init__(self) -> None:
        self.rule = TextSection("rule", "stable", "Be brief.")
        self.notes = TextSection("notes", "slow", "Likes tea.")
        self.clock = TextSection("clock", "volatile", "It is 10:00.")
        self.found = TextSection("found", "volatile", "", "adds")


class Talk:
    """One process: an agent that can be opened again, as a new process would."""

    def __init__(
        self, url: str, sections: Callable[[Texts], Sequence[Any]], texts: Texts, **options: Any
    ) -> None:
        self.url, self.sections, self.texts, self.options = url, sections, texts, options
        self.sent: list[SentRequest] = []
        self.steps, self.fails, self.order = 0, False, ""
        # Replies that come first: functions of what is asked, or errors.
        self.replies: list[Any] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Talk:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def open(self) -> None:
        """Begin as a new process does."""
        await self._stack.aclose()
        self._stack = AsyncExitStack()
        memory = await self._stack.enter_async_context(Memory(self.url))
        of_agent = {name: self.options[name] for name in ("context", "limits") if name in self.options}
        options = {name: value for name, value in self.options.items() if name not in of_agent}
        template = ContextTemplate(list(self.sections(self.texts)), **options)
        model = ScriptedModel([self._answer])
        agent = Agent(
            "shop",
            model=model,
            tools=[look_up],
            context_template=template,
            memory=memory,
            **of_agent,
        )
        self.agent = await self._stack.enter_async_context(agent)
        self._stack.push_async_callback(template.close)

    def _answer(self, asked: Any) -> Any:
        if self.replies:
            reply = self.replies.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return reply(asked)
        if self.steps:
            self.steps -= 1
            return calls(call("look_up", order=self.order or str(self.steps)))
        if self.fails:
            raise RuntimeError("the model is away")
        return "Yes."

    async def turn(self, text: str, steps: int = 0, order: str = "") -> None:
        """One turn, with all its requests."""
        self.steps, self.order = steps, order
        reply = await self.agent.send(text, **WHERE)
        # As `explain` reads them, but the record of the turn once for all its steps.
        key, memory = Key("shop", WHERE["scope"], WHERE["conversation"]), self.agent.memory
        [record] = await memory.store.read_records(key, RECORD_KIND, name=reply.turn)
        steps_taken = parse_turn(record).steps
        assert len(steps_taken) == reply.steps
        for step in steps_taken:
            context = await step.read_context(key, memory)
            assert context is not None
            self.sent.append(SentRequest(context, shown(context), reply.messages[-1].id))

    def ends(self) -> list[EndReason | None]:
        """The reason why each request did not begin with the one before."""
        return [request.context.end_reason for request in self.sent[1:]]


def shown(context: ComposedContext) -> str:
    """All that a model sees of a context."""
    return json.dumps([visible_fields(message) for message in context.messages])


def check_requests(sent: Sequence[SentRequest]) -> None:
    """Each request begins with the one before, exactly where no reason is given."""
    for before, after in pairwise(sent):
        context = after.context
        if context.end_reason is None:
            assert after.shown.startswith(before.shown.removesuffix("]")), (
                "it does not begin with the one before"
            )
            assert context.epoch == before.context.epoch
        else:
            assert context.epoch > before.context.epoch
        assert len(context.origins()) == len(context.messages)


HISTORIES: dict[str, Callable[[], Any]] = {
    "plain": ConversationHistorySection,
    "last": lambda: ConversationHistorySection(max_messages=5),
    "summary": lambda: SummarizedHistorySection(None, floor=3, ceiling=6),
    "cost": lambda: SummarizedHistorySection(None, floor=3, ceiling=6, swap="cost"),
    "hard": lambda: SummarizedHistorySection(None, floor=3, ceiling=6, hard_limit=8, hard_limit_tokens=300),
    "cleared": lambda: ConversationHistorySection(clear_results_after=2, clear_images_after=1),
    "cleared summary": lambda: SummarizedHistorySection(
        None, floor=6, ceiling=12, clear_results_after=2, clear_images_after=1
    ),
    "budget": ConversationHistorySection,
    "cache": ConversationHistorySection,
}
KINDS = st.sampled_from(sorted(HISTORIES))
ACTIONS = st.lists(
    st.sampled_from(
        [
            *["turn", "loop", "clock", "process"] * 2,
            *["notes", "nothing", "found", "fails", "restart", "rule", "away", "other"],
            *["delete", "undo", "pin", "unpin", "fact", "no fact", "profile", "no profile", "quoted gone"],
            *["mail", "fork", "large", "large", "picture", "picture"],
        ]
    ),
    min_size=4,
    max_size=14,
)
_SUMMARY_ENDS = {EndReason.SWAP, EndReason.HARD_LIMIT}
_LEGAL: dict[str, set[EndReason]] = {
    "plain": set(),
    "cache": set(),
    "last": {EndReason.HISTORY_SECTION},
    "cleared": {EndReason.OLD_RESULTS},
    "cleared summary": {*_SUMMARY_ENDS, EndReason.OLD_RESULTS},
    "summary": _SUMMARY_ENDS,
    "cost": _SUMMARY_ENDS,
    # A fact beside the summary leaves less room for the messages, so some are cut to other sizes.
    "hard": _SUMMARY_ENDS | {EndReason.HISTORY_SECTION, EndReason.EDIT},
    "budget": {EndReason.BUDGET},
}


async def run_actions(url: str, actions: Sequence[str], kind: str) -> list[SentRequest]:
    """Do what happens to conversations, check why epochs ended, and return all requests that count."""

    def sections(texts: Texts) -> list[Any]:
        profile, recall = ProfileSection(), RecallSection(max_tokens=256, across=True)
        history = HISTORIES[kind]()
        return [texts.rule, texts.notes, profile, history, texts.clock, recall, texts.found]

    options: dict[str, Any] = {"max_tokens": 900} if kind == "budget" else {}
    if kind == "cache":
        options["arrange"] = "cache"
    # Some results are above it.
    options["limits"] = {"tool_result_tokens": 400}
    texts = Texts()
    async with Talk(url, sections, texts, **options) as talk, Talk(url, sections, texts, **options) as other:
        other.sent = talk.sent
        await talk.agent.memory.append(
            "ana", "old", {"role": "user", "content": "My secret harbour is Turku.", "id": "old1"}
        )
        legal = {*_LEGAL[kind], EndReason.SUPERSEDED_TEXT}
        await talk.turn("begin")
        for number, action in enumerate([*actions, "turn"]):
            legal |= await _act(talk, other, action, number)
            if action in ("turn", "loop", "process", "large", "picture"):
                await _compare_with_a_restart(talk, kind)
        ends = {reason for reason in talk.ends() if reason}
        assert ends <= legal, f"ended with {sorted(ends - legal)}, and may with {sorted(legal)}"
        for record in await talk.agent.memory.store.read_records(Key("shop", "ana", "trip"), EPOCH_KIND):
            assert len(record.body) <= MAX_ROW_BYTES
        return talk.sent


async def _act(talk: Talk, other: Talk, action: str, number: int) -> set[EndReason]:
    """Do one thing; the reasons for which an epoch may end after it."""
    memory, texts = talk.agent.memory, talk.texts
    match action:
        case "turn":
            await talk.turn(f"turn {number}: my secret harbour")
        case "loop":
            await talk.turn(f"turn {number}", steps=3)
        case "large" | "picture":
            await talk.turn(f"turn {number}", steps=1, order=action)
        case "process":
            await other.turn(f"turn {number}, elsewhere")
        case "away":
            talk.fails, steps = True, number % 2
            with suppress(RuntimeError):
                await talk.turn(f"turn {number}, which fails", steps=steps)
            talk.fails = False
            if steps:
                # The first request of the turn was answered, with a call.
                context = await talk.agent.explain(step=1, **WHERE)
                [reply] = [one.message for one in (await memory.read("ana", "trip")).entries][-2:-1]
                talk.sent.append(SentRequest(context, shown(context), reply.id))
        case "clock":
            texts.clock.text = f"It is {number}:00."
        case "notes":
            texts.notes.text = f"Likes {number}.\n" + "And tea.\n" * 80
        case "nothing":
            texts.notes.text = ""
        case "found":
            texts.found.text = f"Found {number}."
        case "fails":
            texts.clock.text = "!"
        case "rule":
            texts.rule.text = f"Be brief, {number}."
            return {EndReason.INSTRUCTIONS}
        case "restart":
            await talk.open()
        case "other":
            await memory.append("ana", "trip", {"role": "user", "content": "By the way."})
        case "pin" | "unpin":
            entries = (await memory.read("ana", "trip")).entries
            if entries:
                change = talk.agent.pin if action == "pin" else talk.agent.unpin
                await change(entries[0].message.id, **WHERE)
            return {EndReason.EDIT} if action == "unpin" else set()
        case "mail":
            await talk.agent.message("shop", f"mail {number}", **WHERE)
        case "fork":
            if (await memory.head("ana", "trip")).count:
                await _compare_with_a_fork(talk)
        case "fact":
            await talk.agent.facts(**WHERE).add("rule", f"Rule {number}.")
        case "no fact":
            for fact in (await talk.agent.facts(**WHERE))[:1]:
                await talk.agent.facts(**WHERE).remove(fact.id)
            return {EndReason.EDIT}
        case "profile":
            await talk.agent.profile(scope="ana").add("preference", f"prefers {number}")
        case "no profile":
            for entry in (await talk.agent.profile(scope="ana"))[:1]:
                await talk.agent.profile(scope="ana").remove(entry.id)
                await _expect_gone(talk, entry.text)
            return _GONE
        case "quoted gone":
            await memory.delete_message("ana", "old", "old1")
            await _expect_gone(talk, "Turku")
            return _GONE
        case "delete" | "undo":
            if action == "undo":
                await talk.agent.drop_last_turn(**WHERE)
            else:
                for oldest in (await memory.read("ana", "trip")).entries[:1]:
                    await talk.agent.delete_message(oldest.message.id, **WHERE)
            # Requests count whose reply is in the log.
            ids = {entry.message.id for entry in (await memory.read("ana", "trip")).entries}
            talk.sent[:] = [one for one in talk.sent if one.reply in ids]
            return _GONE
    return set()


async def _expect_gone(talk: Talk, text: str) -> None:
    """What was removed is in no request after that."""
    assert text not in shown(await talk.agent.preview(**WHERE))


async def _compare_with_a_fork(talk: Talk) -> None:
    """A fork would send what its parent would, but for what it finds in its parent."""
    name = await talk.agent.fork(**WHERE)
    own, forked = [
        await talk.agent.preview(scope="ana", conversation=one) for one in (WHERE["conversation"], name)
    ]
    if talk.sent and own.end_reason is None:
        assert forked.end_reason is None
        assert shown(forked).startswith(talk.sent[-1].shown.removesuffix("]"))
        assert forked.epoch == own.epoch
    # A turn that a fork shares cannot be dropped.
    await talk.agent.delete_conversation(scope="ana", conversation=name)


async def _compare_with_a_restart(talk: Talk, kind: str) -> None:
    """A process that has just begun would send the same."""
    before = await talk.agent.summary(**WHERE)
    warm = await talk.agent.preview(**WHERE)
    await talk.open()
    cold = await talk.agent.preview(**WHERE)
    if before != await talk.agent.summary(**WHERE) or (kind == "cost" and warm.end_reason is EndReason.SWAP):
        # One was written meanwhile; or a summary that waited is shown now, for what waiting has cost.
        return
    assert shown(warm) == shown(cold)
    assert (warm.counts, warm.end_reason, warm.omitted) == (cold.counts, cold.end_reason, cold.omitted)
