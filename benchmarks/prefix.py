"""The share of each request that starts like the previous request, which a provider's cache can reuse."""

from __future__ import annotations

import json
from pathlib import Path

from autonomy_ctx import (
    ComposedContext,
    ContextTemplate,
    Memory,
    SummarizedHistorySection,
    SystemInstructionsSection,
)
from autonomy_ctx.messages.summary import visible_fields
from autonomy_ctx.messages.token_estimate import estimate_tokens
from benchmarks.honest import HonestModel
from benchmarks.model_server import common
from benchmarks.table import Figure
from benchmarks.talk import answer, lookup, question, said

MESSAGES, SYSTEM_TOKENS = 1000, 600
TOOL_EVERY = 4


class Requests:
    """Every context that was sent, compared with the one before it."""

    def __init__(self) -> None:
        self.sent = self.shared = self.count = self.ends = self.broken = 0
        self._text = self._form = self._seen = ""

    def send(self, context: ComposedContext) -> None:
        # Without the closing bracket, a list that goes on begins with the list before it.
        form = json.dumps(context.to_dicts(), ensure_ascii=False)[:-1]
        seen = json.dumps([visible_fields(message) for message in context.messages], ensure_ascii=False)[:-1]
        text = _rendered(context)
        self.count += 1
        if context.end_reason is None:
            self.broken += not (form.startswith(self._form) and seen.startswith(self._seen))
        else:
            self.ends += 1
        self.sent += estimate_tokens(text)
        self.shared += estimate_tokens(text[: common(text, self._text)])
        self._text, self._form, self._seen = text, form, seen


async def measure(folder: Path) -> list[Figure]:
    memory = Memory()
    section = SummarizedHistorySection(HonestModel())
    template = ContextTemplate([SystemInstructionsSection(said(0, SYSTEM_TOKENS)), section])
    requests = Requests()
    context: ComposedContext | None = None
    number = position = 0
    while position < MESSAGES:
        number += 1
        steps = [[question(number)], [answer(number)]]
        if number % TOOL_EVERY == 0:
            steps.insert(1, lookup(number))
        for step in steps:
            [*_, position] = await memory.append("shop", "orders", *step)
            if step is steps[-1]:
                break
            context = await template.compose(memory, "shop", "orders", previous=context)
            requests.send(context)
        await section.settled()
    reuse = section.get_metrics()["prefix_reuse"]
    await section.close()
    await memory.close()
    return [
        Figure(
            name="requests within an epoch that do not begin with the one before",
            ours=f"{requests.count - requests.ends} compared, {requests.ends} ends",
            floor="0",
            value=requests.broken,
            bound=0,
        ),
        Figure(
            name="tokens in the shared prefix / tokens sent, 1,000 messages",
            ours=f"{requests.shared:,} (history alone by its own metric {reuse:.2f})",
            floor=f"{requests.sent:,}",
            value=requests.shared / requests.sent,
            bound=0.85,
            at_most=False,
        ),
    ]


def _rendered(context: ComposedContext) -> str:
    """A request as one text: roles, parts in order, calls."""
    lines: list[str] = []
    for message in context.messages:
        lines.append(f"<{message.role.value}>")
        lines += [getattr(part, "text", "") for part in message.parts]
        lines += [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(lines)
