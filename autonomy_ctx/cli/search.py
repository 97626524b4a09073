"""`autonomy-ctx search`: which messages share words with a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from autonomy_ctx.cli.output import Output, clean_line, format_time
from autonomy_ctx.cli.target import (
    MAX_SCOPES,
    AgentOption,
    MemoryOption,
    ScopeOption,
    list_scopes,
    open_memory,
)
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import SearchHit
from autonomy_ctx.messages.wire import to_dict

# How much of a message is shown, in columns of the terminal's width.
EXCERPT_LINES = 2
# A word that is found may have another ending than the one that was asked for.
STEM = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """A message that a search found, and whose it is."""

    agent: str
    scope: str
    hit: SearchHit

    def to_dict(self) -> dict[str, Any]:
        """The whole message, for JSON."""
        return {
            "agent": self.agent,
            "scope": self.scope,
            "conversation": self.hit.conversation,
            "position": self.hit.position,
            "score": self.hit.score,
            "message": to_dict(self.hit.message),
        }


async def search_messages(
    output: Output,
    query: Annotated[str, typer.Argument(metavar="WORDS")],
    memory: MemoryOption = None,
    conversation: Annotated[str | None, typer.Option("--conversation", "-c", metavar="NAME")] = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 10,
) -> None:
    """Find messages that contain any of the WORDS, best first; case, accents and endings do not matter.

    Without --scope, all scopes are searched.

    Args:
        query: The words to search for.
        conversation: Only in this conversation.
        limit: The maximum number of messages.
    """
    async with open_memory(memory) as opened:
        found = await _search(opened, query, conversation, scope, agent, limit)
    if output.is_json:
        output.print_json({"query": query, "hits": [one.to_dict() for one in found]})
        return
    if not found:
        output.note("no message matches these words")
    for number, one in enumerate(found):
        if number:
            output.print("")
        _print_hit(output, one, query.split())


async def _search(
    memory: Memory, query: str, conversation: str | None, scope: str | None, agent: str | None, limit: int
) -> list[FoundMessage]:
    found: list[FoundMessage] = []
    for one in [scope] if scope is not None else await list_scopes(memory, agent):
        for name in [agent] if agent is not None else await memory.agents(scope=one, limit=MAX_SCOPES):
            view = memory.for_agent(name)
            hits = await view.search(one, query, conversation=conversation, limit=limit)
            found += [FoundMessage(agent=name, scope=one, hit=hit) for hit in hits]
            found.sort(key=lambda one: -one.hit.score)
            del found[limit:]
    return found


def _print_hit(output: Output, found: FoundMessage, words: Sequence[str]) -> None:
    hit = found.hit
    place = Text().append(clean_line(hit.conversation), style="bold")
    place.append(f" #{hit.position}", style="cyan")
    names = [found.scope, found.agent, hit.message.role.value, format_time(hit.message.created_at)]
    place.append("  " + " · ".join(clean_line(name) for name in names if name), style="dim")
    output.print(place)
    calls = " ".join(f"→ {call.name}({call.arguments})" for call in hit.message.tool_calls)
    excerpt = Text(_excerpt(hit.message.text or calls, words, EXCERPT_LINES * (output.width - 2)))
    stems = [word[: max(STEM, len(word) - 2)] for word in words if len(word) > 2]
    excerpt.highlight_words(stems, "bold yellow", case_sensitive=False)
    output.print(Padding(excerpt, (0, 0, 0, 2)))


def _excerpt(text: str, words: Sequence[str], most: int) -> str:
    """The part of a text around the first of the words, on one line."""
    line = clean_line(text)
    folded = line.casefold()
    places = [folded.find(word.casefold()[:STEM]) for word in words if len(word) > 2]
    first = min((place for place in places if place >= 0), default=0)
    if len(line) <= most or first < most // 2:
        return clean_line(line, most)
    begin = line.find(" ", first - most // 3) + 1
    return "…" + clean_line(line[begin:], most - 1)
