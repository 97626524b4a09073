"""The inspector page as one file: the script, the style and the values of conversations inside of it.

The file asks no server and runs one script, which its content-security policy names by its hash. It shows the
values that the inspector's HTTP API gives.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

import anyio.to_thread

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.inspection.conversation import ConversationReport, inspect_conversation
from autonomy_ctx.inspection.diff import diff_turns
from autonomy_ctx.inspection.message import MAX_PAGE_MESSAGES, read_messages
from autonomy_ctx.inspection.timeline import inspect_timeline
from autonomy_ctx.inspection.turn import inspect_turn
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key

# Of each conversation the newest ones are in the file.
MAX_FILE_MESSAGES = 5_000
# Each two of so many of the newest turns are compared; of older ones, neighbours.
COMPARED_TURNS = 12
# A text from here on that occurs more than once is written once.
_SHARED_CHARACTERS = 48
_SHARED_KEY = "$text"
# What a list of conversations has of each.
_LISTED_FIELDS = ("agent", "scope", "conversation", "messages", "first_at", "last_at")

_IMPORT_LINE = lazy_pattern(r'(?m)^import (\{[^}\n]*\}) from "\./(\w+)\.js";$')
_EXPORT_WORD = lazy_pattern(r"(?m)^export (?=(?:async function|function|class|const) (\w+))")


class PageAsset(NamedTuple):
    """A part of the page, and its hash as a content-security policy names it."""

    text: str
    policy: str


async def make_inspector_html(
    memory: Memory,
    conversations: Sequence[Key],
    *,
    max_messages: int = MAX_FILE_MESSAGES,
    report_progress: Callable[[int], None] = lambda done: None,
) -> str:
    """The page with these conversations, as HTML."""
    answers: dict[str, Any] = {}
    listed: list[dict[str, Any]] = []
    pages: list[dict[str, Any]] = []
    for done, key in enumerate(conversations):
        view = memory.for_agent(key.agent)
        report = await inspect_conversation(view, key.scope, key.conversation)
        form = report.to_dict()
        listed.append({name: form[name] for name in _LISTED_FIELDS})
        answers |= {name: value async for name, value in _answers(view, report)}
        pages.append(await _read_page(view, report, max_messages))
        report_progress(done + 1)
    data = {"conversations": listed, "answers": answers, "messages": pages}
    return await anyio.to_thread.run_sync(partial(render_inspector_html, data))


async def _answers(memory: Memory, report: ConversationReport) -> AsyncIterator[tuple[str, Any]]:
    """Answer what the page asks of one conversation, by question."""
    place = {"agent": report.agent, "scope": report.scope, "conversation": report.conversation}
    given = (memory, report.scope, report.conversation)
    yield _question("conversation", place), report.to_dict()
    yield _question("timeline", place), (await inspect_timeline(*given)).to_dict()
    explained = [turn for turn in report.turns if turn.has_context]
    turns = [turn.id for turn in explained]
    for turn in explained:
        for step in [None, *range(1, turn.steps + 1)]:
            try:
                shown = await inspect_turn(*given, turn.id, step=step)
            except AutonomyCtxError:
                # A message that it showed was deleted meanwhile.
                continue
            chosen = {"turn": turn.id} | ({} if step is None else {"step": step})
            yield _question("turn", place | chosen), shown.to_dict()
    for before, after in _pairs(turns):
        try:
            diff = await diff_turns(*given, before, after)
        except AutonomyCtxError:
            continue
        yield _question("diff", place | {"before": before, "after": after}), diff.to_dict()


def _pairs(turns: Sequence[str]) -> Iterator[tuple[str, str]]:
    newest = len(turns) - COMPARED_TURNS
    for late in range(len(turns)):
        for early in range(late):
            if early >= newest or early == late - 1:
                yield turns[early], turns[late]


def _question(name: str, parameters: dict[str, Any]) -> str:
    """A question as the page writes it: as `JSON.stringify` does, in the order of the names."""
    asked = sorted((key, str(value)) for key, value in parameters.items())
    return json.dumps([name, asked], ensure_ascii=False, separators=(",", ":"))


async def _read_page(memory: Memory, report: ConversationReport, limit: int) -> dict[str, Any]:
    """The newest messages of a conversation, as one page."""
    before: int | None = None
    messages: list[Any] = []
    while len(messages) < limit:
        wanted = min(MAX_PAGE_MESSAGES, limit - len(messages))
        page = await read_messages(memory, report.scope, report.conversation, before=before, limit=wanted)
        form = page.to_dict()
        messages = form["messages"] + messages
        before = page.older
        if before is None:
            break
    return form | {"messages": messages, "older": before}


def render_inspector_html(data: dict[str, Any]) -> str:
    """The page with its values; nothing in them can end the element they stand in."""
    script, style = _with_hash(bundle_script()), _with_hash(_read_part("style.css"))
    policy = (
        f"default-src 'none'; script-src {script.policy}; style-src {style.policy}; img-src data:; "
        f"base-uri 'none'; form-action 'none'"
    )
    icon = f"data:image/svg+xml,{quote(_read_part('icon.svg').strip())}"
    page = _read_part("index.html")
    policy_tag = f'<meta http-equiv="Content-Security-Policy" content="{policy}" />'
    values = f'<script type="application/json" id="data">{encode_data(data)}</script>'
    for old, new in (
        ('<meta charset="utf-8" />', f'<meta charset="utf-8" />\n    {policy_tag}'),
        ('href="icon.svg"', f'href="{icon}"'),
        ('<link rel="stylesheet" href="style.css" />', f"<style>{style.text}</style>"),
        ('    <script type="module" src="app.js"></script>\n', ""),
        ('<div id="app"></div>', f'<div id="app"></div>\n{values}\n<script>{script.text}</script>'),
    ):
        if page.count(old) != 1:
            raise ValueError(f"the page must have {old} once")
        page = page.replace(old, new)
    return page


def encode_data(data: Any) -> str:
    """JSON that stands safely inside an element: no character of it is markup."""
    counted = Counter(text for text in _strings(data) if len(text) >= _SHARED_CHARACTERS)
    texts = [text for text, times in counted.items() if times > 1]
    places = {text: place for place, text in enumerate(texts)}
    text = json.dumps({"texts": texts, "data": _share(data, places)}, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _share(value: Any, places: dict[str, int]) -> Any:
    """Put its number in the place of each text that occurs more than once."""
    if isinstance(value, str):
        return {_SHARED_KEY: places[value]} if value in places else value
    if isinstance(value, dict):
        return {name: _share(one, places) for name, one in value.items()}
    if isinstance(value, list):
        return [_share(one, places) for one in value]
    return value


def bundle_script() -> str:
    """All modules of the page as one script: each a function, in the order in which they need each other."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in parts:
            return
        text = _read_part(f"{name}.js")
        for found in _IMPORT_LINE.finditer(text):
            add(found[2])
        names = ", ".join(_EXPORT_WORD.findall(text))
        body = _IMPORT_LINE.sub(r"const \1 = modules.\2;", _EXPORT_WORD.sub("", text))
        parts[name] = f"modules.{name} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"

    add("app")
    return '"use strict";\nconst modules = {};\n' + "\n".join(parts.values())


def _read_part(name: str) -> str:
    return files("autonomy_ctx").joinpath("server", "inspector", "page", name).read_text(encoding="utf-8")


def _with_hash(text: str) -> PageAsset:
    return PageAsset(text, f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'")
