"""The room that results and images take: excerpts and clearing, beside the same agents without them.

A coding agent reads 200 large files of the standard library, those of 20 to 200 kB, and needs one definition
in each. Where the excerpt of a file does not show it, the agent searches and reads it with `read_result`,
which is part of its bill. The conversations of four kinds of agents have short results, so only clearing can
change them. Prices and cache rules are those of the server for tests. Images are made smaller only if Pillow
is installed.
"""

from __future__ import annotations

import ast
import gc
import sysconfig
import time
import zlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from autonomy_ctx import Agent, Memory
from autonomy_ctx.agents.options import MAX_RESULT
from autonomy_ctx.messages.excerpt import Room, make_excerpt
from autonomy_ctx.messages.json_values import encode_json_text
from autonomy_ctx.messages.message import ImageContent, TextContent
from autonomy_ctx.replay import RecordedConversation
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tools.results import ResultPage
from benchmarks.agents import InstantModel, find_order
from benchmarks.bill import COUNTER
from benchmarks.corpus import fill
from benchmarks.cost import Run
from benchmarks.kinds import START, STATEMENTS, choose_words, make_kinds
from benchmarks.table import Figure

MODELS = ("claude-opus-5-5",)
FILES, FILES_OF_TURN = 200, 5
SMALLEST, LARGEST = 20_000, 200_000
ROOM = Room(64_000, MAX_RESULT, COUNTER.count_text)
CLEARING = {"clear_results_after": 6, "clear_images_after": 3}
REQUESTS, REPEAT_EVERY, SIDE = 20, 3, 600
STORED, CPU_ROUNDS, CPU_TURNS = 1_000, 5, 10


@dataclass
class CodingAgent:
    """A coding agent and its conversation, with excerpts or with whole files."""

    has_excerpts: bool
    cut: int = 0
    searched: int = 0
    names: set[str] = field(default_factory=set)

    def talk(self) -> RecordedConversation:
        """The conversation."""
        instructions = "You work on a Python library. " * 90
        return RecordedConversation(self._messages(), name="200 files", instructions=instructions)

    def _messages(self) -> Iterator[dict[str, Any]]:
        chance, moment = Random(5), START

        def at(role: str, content: str | None, **more: Any) -> dict[str, Any]:
            nonlocal moment
            moment += timedelta(seconds=3)
            return {"role": role, "content": content, "created_at": moment.isoformat(), **more}

        def ask(name: str, result: str, tool: str, **arguments: Any) -> Iterator[dict[str, Any]]:
            function = {"name": tool, "arguments": encode_json_text(arguments)}
            yield at("assistant", None, tool_calls=[{"id": name, "type": "function", "function": function}])
            yield at("tool", result, tool_call_id=name, name=tool)

        files = read_files()
        for turn in range(FILES // FILES_OF_TURN):
            words = choose_words(chance)
            moment += timedelta(seconds=60)
            said = STATEMENTS[turn // 6 % len(STATEMENTS)].format(**words) if turn % 6 == 1 else "Go on."
            yield at("user", f"Task T-{turn:03d}: compare how these five modules do it. {said}")
            for path, text in files[turn * FILES_OF_TURN : (turn + 1) * FILES_OF_TURN]:
                wanted = chance.choice(definitions(text))
                shown = text
                if self.has_excerpts:
                    shown = make_excerpt(
                        text, ROOM, result_id=path, arguments=encode_json_text({"path": path})
                    )
                yield from ask(f"read {path}", shown, "read_file", path=path)
                if shown is not text:
                    self.cut += 1
                    assert read_back(text, path) == text
                if not all(line in shown for line in wanted):
                    self.searched += 1
                    page = ResultPage(text, path, query=wanted[0].strip()).render(ROOM)
                    yield from ask(f"find {path}", page, "read_result", id=path, query=wanted[0].strip())
                    if not all(line in page for line in wanted):
                        number = text.splitlines().index(wanted[0]) + 1
                        lines = f"{number}-{number + len(wanted)}"
                        part = ResultPage.of_lines(text, path, lines)
                        assert part is not None
                        yield from ask(
                            f"lines {path}", part.render(ROOM), "read_result", id=path, lines=lines
                        )
                self.names.add(f"{path}:{wanted[0].split('(')[0].split()[-1]}")
            names = ", ".join(path for path, _ in files[turn * FILES_OF_TURN : (turn + 1) * FILES_OF_TURN])
            yield at(
                "assistant", f"T-{turn:03d} is done: {names} agree; the reader in the first one is best."
            )


def read_files() -> list[tuple[str, str]]:
    """Modules of the standard library, in the order of their names."""
    folder = Path(sysconfig.get_path("stdlib"))
    paths = sorted(
        path for path in folder.rglob("*.py") if "site-packages" not in path.parts and "test" not in str(path)
    )
    sized = [path for path in paths if SMALLEST <= path.stat().st_size <= LARGEST]
    found = [(str(path.relative_to(folder)), path.read_text(errors="replace")) for path in sized]
    return [(path, text) for path, text in found if definitions(text)][:FILES]


def definitions(text: str) -> list[list[str]]:
    """The lines of each function of a module, at most the first thirty."""
    lines = text.splitlines()
    try:
        nodes = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)]
    except SyntaxError:
        return []
    return [lines[one.lineno - 1 : min(one.end_lineno or one.lineno, one.lineno + 29)] for one in nodes]


def read_back(text: str, name: str) -> str:
    """All pages of a result, as a model reads them."""
    found, offset = "", 0
    while offset < len(text):
        body = ResultPage(text, name, offset).render(ROOM).partition("\n")[2]
        found, offset = found + body, offset + len(body)
    return found


async def measure(folder: Path) -> list[Figure]:
    return [
        *await coding_agent(),
        *await four_kinds("auto"),
        *await four_kinds(None),
        await images(),
        await turn_cpu(folder),
    ]


async def coding_agent() -> list[Figure]:
    """The cost of the coding agent, and what is left of what it was told."""
    figures, agents = [], [CodingAgent(has_excerpts=False), CodingAgent(has_excerpts=True)]
    talks = [agent.talk() for agent in agents]
    assert agents[0].names == agents[1].names
    for model in MODELS:
        before = await Run(talks[0], model, "auto").hold()
        after = await Run(talks[1], model, "auto", options=CLEARING).hold()
        figures += [
            Figure(
                name=f"200 files, {model}: cost / without",
                ours=f"${after.bill.cost:.2f}, {agents[1].cut} cut and read back whole, "
                f"{agents[1].searched} searched",
                floor=f"${before.bill.cost:.2f}",
                value=round(after.bill.cost / before.bill.cost, 3),
                bound=0.6,
            ),
            _ends(f"200 files, {model}", after, before),
            Figure(
                name=f"200 files, {model}: facts that are missing",
                ours=f"{len(after.facts)} facts, {len(agents[1].names)} definitions found",
                floor=f"{len(before.facts)} facts, {len(agents[0].names)} definitions found",
                value=len(before.facts - after.facts),
                bound=0,
            ),
        ]
    return figures


def _ends(name: str, after: Run, before: Run) -> Figure:
    """The ends of epochs, and those for old results; requests that read on in a result are more requests."""
    return Figure(
        name=f"{name}: ends of epochs",
        ours=f"{len(after.reasons)} ends in {len(after.shown)} requests, "
        f"{after.reasons.count(EndReason.OLD_RESULTS)} for old results",
        floor=f"{len(before.reasons)} ends in {len(before.shown)} requests",
        value=len(after.reasons),
        bound=len(before.reasons),
    )


async def four_kinds(context_summary: str | None) -> list[Figure]:
    """The cost and the ends of conversations with short results, with summaries or without."""
    figures = []
    for kind in make_kinds():
        talk, name = kind.conversation, f"{kind.name}, {context_summary or 'no summaries'}"
        before = await Run(talk, MODELS[0], context_summary).hold()
        after = await Run(talk, MODELS[0], context_summary, options=CLEARING).hold()
        ours, floor = after.bill.cost, before.bill.cost
        figures.append(
            Figure(
                name=f"{name}: cost / without",
                ours=f"${ours:.4f}, {len(after.reasons)} ends",
                floor=f"${floor:.4f}, {len(before.reasons)} ends",
                value=round(ours / floor, 3),
                bound=1.001,
            )
        )
        if context_summary:
            figures.append(_ends(name, after, before))
    return figures


async def images() -> Figure:
    """The bytes of images in the twentieth request of a user who sends a screenshot with each."""
    chance, sent = Random(3), list[ImageContent]()
    has_pillow = find_spec("PIL") is not None
    for number in range(REQUESTS):
        repeats = number % REPEAT_EVERY == REPEAT_EVERY - 1
        sent.append(sent[-1] if repeats else _make_image(chance))
    model = ScriptedModel(["I see it."])
    async with Agent(model=model, max_image_side=SIDE if has_pillow else None) as agent:
        for image in sent:
            await agent.send([TextContent("What is on the screen now?"), image])
        shown = (await agent.explain()).messages
    size = sum(len(part.image) for one in shown for part in one.parts if isinstance(part, ImageContent))
    total = sum(len(image.image) for image in sent)
    return Figure(
        name=f"images in request {REQUESTS}: bytes / all images",
        ours=f"{size / 1e6:.1f} MB" + ("" if has_pillow else ", without Pillow"),
        floor=f"{total / 1e6:.1f} MB",
        value=round(size / total, 3),
        bound=0.2,
    )


def _make_image(chance: Random) -> ImageContent:
    """A picture of twice the side that the model reads, whose bytes go with its pixels."""
    width, height = 2 * SIDE, 2 * SIDE * 9 // 16
    rows = b"".join(b"\0" + chance.randbytes(width) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    head = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 0, 0, 0, 0])
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows, 1)), chunk(b"IEND", b"")]
    return ImageContent.from_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


async def turn_cpu(folder: Path) -> Figure:
    """CPU of a turn with a call in a long conversation whose results are old, beside one without limits."""
    none: dict[str, Any] = {
        "limits": {"tool_result_tokens": None},
        "clear_results_after": None,
        "clear_images_after": None,
    }
    best = {"ours": float("inf"), "without": float("inf")}
    async with AsyncExitStack() as opened:
        agents: dict[str, Agent] = {}
        for name, options in (("ours", {}), ("without", none)):
            memory = await opened.enter_async_context(Memory(f"sqlite:///{folder / name}.db"))
            agent = Agent("shop", model=InstantModel(), memory=memory, tools=[find_order], **options)
            agents[name] = await opened.enter_async_context(agent)
            await fill(agent.memory, "ana", "long", STORED)
        for number in range(1 + CPU_ROUNDS):
            for name, agent in agents.items():
                gc.collect()
                began = time.process_time()
                for turn in range(CPU_TURNS):
                    await agent.send(f"question {number} {turn}", scope="ana", conversation="long")
                took = (time.process_time() - began) * 1000 / CPU_TURNS
                best[name] = min(best[name], took) if number else best[name]
    return Figure(
        name=f"turn with a call, {STORED:,} messages shown: CPU / without",
        ours=f"{best['ours']:.1f} ms",
        floor=f"{best['without']:.1f} ms",
        value=round(best["ours"] / best["without"], 3),
        bound=1.05,
    )
