"""Long results are shown in part, and read back whole."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from agents.kit import call, calls
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import Agent, Memory, tool
from autonomy_ctx.errors import UnknownResult
from autonomy_ctx.messages.excerpt import Room, make_excerpt
from autonomy_ctx.messages.message import ImageContent
from autonomy_ctx.messages.token_estimate import estimate_tokens
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tools import read_result
from autonomy_ctx.tools.results import ResultPage
from autonomy_ctx.tools.tool import Tool

ID = "0199-result"
PICTURE = ImageContent.from_bytes(b"\x89PNG picture")
CHANCE = Random(7)
USERS = [{"id": number, "login": f"user-{number}", "tags": ["a", "b"]} for number in range(900)]
CODE = "import os\n\n" + "".join(
    f"class Reader{number}:\n    def read_{number}(self) -> str:\n        return 'value {number}'\n\n"
    for number in range(500)
)
PYTEST = (
    "===== test session starts =====\n"
    + "".join(f"tests/test_{number}.py::test_it PASSED\n" for number in range(700))
    + "".join(f"E       AssertionError: {number} is not {number + 1}\n" for number in range(3))
    + "tests/test_9.py:4: AssertionError\n" * 2
    + "".join(f"tests/test_{number}.py::test_that PASSED\n" for number in range(700))
    + "== 3 failed, 1400 passed ==\n"
)
LOG = "".join(
    f"2026-05-04 09:{number // 60 % 60:02d}:{number % 60:02d} INFO request {number} took {number % 97} ms\n"
    + ("2026-05-04 09:11:00 ERROR connection to db-7 refused\n" if number in (700, 900) else "")
    for number in range(2000)
)
KINDS = {
    "pytest": PYTEST,
    "diff": "".join(
        f"diff --git a/mod_{number}.py b/mod_{number}.py\n@@ -1,4 +1,4 @@\n-old {number}\n+new {number}\n"
        for number in range(600)
    ),
    "grep": "".join(f"src/mod_{number // 40}.py:{number}: import thing_{number}\n" for number in range(1500)),
    "listing": "".join(
        f"src/part_{number}:\n" + "".join(f"file_{number}_{one}.py\n" for one in range(20)) + "\n"
        for number in range(90)
    ),
    "json rows": json.dumps(USERS),
    "json pretty": json.dumps({"total": 900, "items": USERS, "next": None}, indent=2),
    "json text": json.dumps({"status": 200, "content": 'The ferry é leaves "now" 🚢. ' * 1500}),
    "json keys": json.dumps({f"key_{number}": {"value": [number] * 30} for number in range(700)}),
    "json deep": "[" * 60 + ",".join(map(str, range(9_000))) + "]" * 60,
    "json number": "[" + "7" * 30_000 + "]",
    "csv": "date,city,seat\n" + "".join(f"2026-05-{n % 28 + 1:02d},Porto,{n}A\n" for n in range(4000)),
    "html": "<html><title>Docs</title>\n"
    + "".join(f"<h2>Part {n}</h2>\n<p>{'It keeps order. ' * 40}</p>\n" for n in range(120)),
    "trace": "Traceback (most recent call last):\n"
    + "".join(
        f'  File "/app/mod_{n}.py", line {n}, in call_{n}\n    return inner_{n}()\n' for n in range(800)
    )
    + "RecursionError: maximum recursion depth exceeded\n",
    "one line": "word_" + " word_".join(map(str, range(12_000))),
    "minified": "".join(f'var a{n}=function(e){{return t.get("key_{n}")}};' for n in range(1500)),
    "python": CODE,
    "log": LOG,
    "repeats": "start\n" + "2026-05-04 waiting\n" * 4000 + "got it\n",
    "base64": base64.b64encode(CHANCE.randbytes(40_000)).decode(),
    "unicode": "".join(f"第{n}章 👩‍💻 会議は{n}時。Größe é\n" for n in range(2500)),
    "windows": "".join(f"line {n}\r\n" for n in range(6000)),
    "empty lines": "\n" * 40_000,
}
_WORD = re.compile(r"[A-Za-z_]\w{2,60}")


def excerpt_of(text: str, tokens: int = 500, **arguments: Any) -> str:
    room = Room(64_000, tokens)
    return make_excerpt(text, room, result_id=ID, arguments=json.dumps(arguments))


@pytest.mark.parametrize("tokens", [200, 500, 2_000, 6_000])
@pytest.mark.parametrize("kind", KINDS)
def test_an_excerpt_fits_and_says_how_to_read_the_rest(kind: str, tokens: int) -> None:
    text = KINDS[kind]
    shown = excerpt_of(text, tokens)
    assert estimate_tokens(shown) <= tokens
    assert shown == excerpt_of(text, tokens), "decided once"
    if shown != text:
        assert "not shown here" in shown
        assert f'read_result(id="{ID}"' in shown
        shown.encode()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("base64", "json number")])
def test_names_in_an_excerpt_are_whole(kind: str) -> None:
    text = KINDS[kind]
    known = set(_WORD.findall(text)) | {
        "not",
        "shown",
        "here",
        "more",
        "lines",
        "like",
        "this",
        "these",
        "are",
    }
    notices = re.compile(
        r"\[?…[^\n]*?(?:…\]|\]|$)|\[\d[\d,]* more lines like this\]|\[JSON .*\]$", re.MULTILINE
    )
    for tokens in (200, 350, 900):
        own = notices.sub(" ", excerpt_of(text, tokens))
        assert {word for word in _WORD.findall(own) if word not in known and "offset" not in word} == set()


@given(
    st.lists(st.text(st.sampled_from('ab {}[]",:\\\n\t…é🚢9_'), max_size=80), max_size=60),
    st.integers(1, 60),
    st.integers(200, 900),
)
def test_any_text_is_shown_within_its_limit_and_read_back_whole(
    pieces: list[str], times: int, tokens: int
) -> None:
    for text in ("\n".join(pieces) * times, json.dumps(pieces * times, ensure_ascii=False)):
        room = Room(64_000, tokens)
        shown = make_excerpt(text, room, result_id=ID)
        assert shown == text or room.fits(shown)
        assert read_back(text, room) == text


def test_a_search_that_finds_few_lines_shows_the_lines_behind_them() -> None:
    lines = [f"needle {number}" if number in (100, 110) else f"line {number}" for number in range(500)]
    room = Room(64_000, 2_000)
    rows = ResultPage("\n".join(lines), ID, query="needle").render(room).splitlines()
    # Up to the next one, and half of the lines each.
    assert [row.rpartition(": ")[2] for row in rows[1:]] == [*lines[100:110], *lines[110:131]]
    many = ResultPage("\n".join(lines), ID, query="line").render(room).splitlines()
    assert many[2].endswith("): line 1"), "of many, only the lines themselves"


@pytest.mark.parametrize("kind", KINDS)
def test_pages_have_every_character_once(kind: str) -> None:
    assert read_back(KINDS[kind], Room(64_000, 400)) == KINDS[kind]


def read_back(text: str, room: Room) -> str:
    """All pages, as a model reads them: from the offset that the page before names."""
    found, offset = "", 0
    for _ in range(10_000):
        page = ResultPage(text, ID, offset).render(room)
        assert room.fits(page)
        heading, _, body = page.partition("\n")
        found += body
        if "reads on" not in heading:
            return found
        offset = int(re.findall(r"offset=(\d+)\)", heading)[0])
    raise AssertionError("there is always one more page")


def test_rows_and_keys_of_json_are_whole_and_counted() -> None:
    shown = excerpt_of(KINDS["json rows"])
    rows = [line.strip(" [,") for line in shown.splitlines() if '"login"' in line]
    assert [json.loads(row) for row in rows] == USERS[: len(rows)]
    count, offset = re.findall(r"…\[(\d+) of 900 items, from offset (\d+)\]", shown)[0]
    assert int(count) == 900 - len(rows)
    assert KINDS["json rows"][int(offset) :].startswith(json.dumps(USERS[len(rows)]))
    asked = excerpt_of(KINDS["json rows"], login="user-777")
    assert json.dumps(USERS[777]) in asked
    assert "…[item 778, offset" in asked
    keys = excerpt_of(KINDS["json keys"])
    shown_keys = len(re.findall(r'^\W*"key_\d+": ', keys, re.MULTILINE))
    assert f"…[{700 - shown_keys} of 700 keys, from offset" in keys


def test_lines_that_are_not_shown_are_counted_exactly() -> None:
    shown = excerpt_of(CODE, symbol="Reader321")
    lines = CODE.splitlines()
    hidden, total, first, last = re.findall(r'… ([\d,]+) of ([\d,]+) lines .* lines="(\d+)-(\d+)"', shown)[0]
    assert int(total.replace(",", "")) == len(lines)
    picked = dict(re.findall(r"^(\d+): (.*)$", shown, re.MULTILINE))
    assert all(lines[int(number) - 1] == line for number, line in picked.items())
    assert "class Reader321:" in picked.values()
    head, tail = shown.split("\n[…")[0].split("\n"), shown.rsplit("…]\n", 1)[1].split("\n")
    assert (lines[: len(head)], lines[-len(tail) :]) == (head, tail)
    assert (int(first), int(last)) == (len(head) + 1, len(lines) - len(tail))
    assert int(hidden.replace(",", "")) == len(lines) - len(head) - len(tail) - len(picked)


def test_errors_repeats_and_the_outline_are_shown() -> None:
    assert "AssertionError: 0 is not 1 [2 more lines like this]" in excerpt_of(PYTEST)
    assert excerpt_of(PYTEST).endswith("== 3 failed, 1400 passed ==")
    assert "ERROR connection to db-7 refused [1 more lines like this]" in excerpt_of(LOG)
    assert "[… 3,999 lines like this one are not shown here, 3 to 4001 …]\ngot it" in excerpt_of(
        KINDS["repeats"]
    )
    assert len(re.findall(r"^\d+: class Reader\d+:$", excerpt_of(CODE), re.MULTILINE)) > 5
    assert re.search(
        r"^\d+: src/mod_\d+.py:\d+: .* \[39 more lines like this\]$", excerpt_of(KINDS["grep"]), re.M
    )


@pytest.fixture
async def asked() -> Any:
    async with Memory() as memory:
        yield memory


async def ask(
    memory: Memory, result: Any, *reads: Callable[[str], dict[str, Any]], **limits: Any
) -> list[Any]:
    """The results that a model is shown: of a tool, and of what it then reads by the id in the first."""

    @tool
    def fetch(name: str = "") -> Any:
        """Fetch it."""
        return result

    shown: list[Any] = []

    def read(one: Callable[[str], dict[str, Any]]) -> Callable[[Any], Any]:
        def reply(request: Any) -> Any:
            shown.append(request.messages[-1]["content"])
            found = re.search(r'read_result\(id="([^"]+)"', str(shown[0]))
            return calls(call("read_result", **one(found[1] if found else "2")))

        return reply

    def end(request: Any) -> str:
        shown.append(request.messages[-1]["content"])
        return "done"

    model = ScriptedModel([calls(call("fetch", name="db-7")), *map(read, reads), end])
    async with Agent("shop", model=model, memory=memory, tools=[fetch], limits=limits) as agent:
        await agent.send("go")
        specs = [request.options.get("tools") for request in model.calls]
        assert all(one == specs[0] for one in specs)
        assert "read_result" in str(specs[0])
    return shown


@pytest.mark.anyio
async def test_an_agent_shows_an_excerpt_once_and_its_model_reads_the_rest(asked: Memory) -> None:
    shown = await ask(
        asked,
        LOG,
        lambda name: {"id": name, "offset": 30_000},
        lambda name: {"id": name, "lines": "702"},
        lambda name: {"id": name, "query": "db-7 refused"},
        lambda name: {"id": "no-such-id"},
        lambda name: {"id": name, "lines": "90000"},
        tool_result_tokens=600,
    )
    first, page, line, found, unknown, beyond = shown
    assert all(estimate_tokens(one) <= 600 for one in shown)
    assert "702: 2026-05-04 09:11:00 ERROR connection to db-7 refused" in first
    assert LOG[30_000:].startswith(page.partition("\n")[2])
    assert line.endswith("]\n2026-05-04 09:11:00 ERROR connection to db-7 refused\n")
    assert found.startswith("[2 of 2,002 lines have")
    assert "'no-such-id' is not in this conversation" in unknown
    assert "has no lines '90000'" in beyond


@pytest.mark.anyio
async def test_a_result_is_an_excerpt_by_the_window_or_by_its_tool(asked: Memory) -> None:
    [by_window] = await ask(asked, LOG)
    assert 2_000 < estimate_tokens(by_window) <= 3_000
    [short] = await ask(asked, "short")
    assert short == "short"
    [whole] = await ask(asked, LOG[:60_000], tool_result_tokens=None)
    assert whole == LOG[:60_000]


@pytest.mark.anyio
async def test_images_beside_a_long_text_stay_and_are_read_again(asked: Memory) -> None:
    first, again = await ask(asked, [LOG, PICTURE], lambda name: {"id": "3"}, tool_result_tokens=400)
    assert "not shown here" in str(first)
    # It is still in view.
    assert "[The same image as in message 3 above]" in str(again)


@pytest.mark.anyio
async def test_an_agent_without_tools_is_not_offered_it() -> None:
    async with Agent("shop", model="offline") as plain:
        assert "read_result" not in [one.name for one in plain.tools]


@pytest.mark.anyio
async def test_results_of_another_conversation_are_not_read(asked: Memory) -> None:
    await asked.append("ana", "one", {"role": "user", "content": "secret", "id": "m1"})
    for name in ("m1", "1"):
        with pytest.raises(UnknownResult, match="is not in this conversation"):
            await read_result.function(name, asked, "ana", "two")


def test_a_tool_has_room_of_its_own() -> None:
    with pytest.raises(ValueError, match="result_tokens must be >= 200 or None, not 5"):
        Tool(test_a_tool_has_room_of_its_own, description="x", result_tokens=5)


def test_the_share_of_the_window_is_bounded() -> None:
    from autonomy_ctx import TurnLimits

    limits = TurnLimits()
    assert [limits.result_tokens(window) for window in (None, 8_000, 100_000, 1_000_000)] == [
        6000,
        2000,
        4000,
        6000,
    ]
    assert TurnLimits(tool_result_tokens=900).result_tokens(8_000) == 900
    with pytest.raises(ValueError, match="tool_result_tokens"):
        TurnLimits(tool_result_tokens=5)
