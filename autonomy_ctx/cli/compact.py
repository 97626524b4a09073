"""`autonomy-ctx compact`: writes a summary of a conversation now, which its next turn shows."""

from __future__ import annotations

from typing import Annotated

import typer

from autonomy_ctx.agents.compaction import keep_texts
from autonomy_ctx.cli.output import ExitCode, Output, WrongInput, count
from autonomy_ctx.cli.target import (
    AgentOption,
    BaseUrlOption,
    ConversationArgument,
    MemoryOption,
    ScopeOption,
    find_conversation,
    open_memory,
)
from autonomy_ctx.models.model import Model
from autonomy_ctx.sections.summarized import SummarizedHistorySection
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_store import end_epochs, read_epochs


async def compact(
    output: Output,
    conversation: ConversationArgument = None,
    memory: MemoryOption = None,
    scope: ScopeOption = None,
    agent: AgentOption = None,
    model: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    base_url: BaseUrlOption = None,
    focus: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    keep: Annotated[list[str] | None, typer.Option(metavar="ID|TEXT")] = None,
    floor: Annotated[int | None, typer.Option(min=1)] = None,
) -> int:
    """Summarize all but the newest messages of a conversation now. Its next turn shows the summary.

    No message is deleted. The exit code is 1 if not everything could be summarized.

    Args:
        model: The model that writes the summary. Without it: a digest.
        focus: What this summary must preserve.
        keep: The id of a message to pin, or a fact; may be given several times.
        floor: The number of the newest messages that stay as they are.
    """
    if focus is not None and model is None:
        raise WrongInput("--focus needs --model: a digest quotes, and follows no instruction")
    output.log_warnings()
    writer = None if model is None else Model(model, base_url=base_url)
    async with open_memory(memory) as opened, SummarizedHistorySection(writer, floor) as section:
        key = await find_conversation(opened, conversation, scope=scope, agent=agent)
        view, names = opened.for_agent(key.agent), (key.scope, key.conversation)
        await keep_texts(view, key, keep or ())
        done = await section.summarize_now(view, *names, focus=focus)
        if done.segments:
            # The agent may have a policy that waits with it.
            await end_epochs(await read_epochs(view.store, key), EndReason.BY_HAND)
    first, last = (done.segments[0].first, done.segments[-1].last) if done.segments else (0, 0)
    tokens = sum(one.tokens for one in done.segments)
    if output.is_json:
        output.print_json({"first": first, "last": last, "tokens": tokens, "problem": done.problem or None})
    elif done.segments:
        output.print_sentence(
            f"messages {first:,} to {last:,} have a summary of {count(tokens, 'token')}; "
            f"the next turn shows it"
        )
    if done.problem:
        output.note(done.problem)
    return ExitCode.FAILED if done.problem else ExitCode.DONE
