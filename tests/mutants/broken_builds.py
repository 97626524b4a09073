"""Builds that break one promise each, by one function that is replaced, and the tests that must notice.

`pytest --broken=NAME` runs tests against such a build. A replacement is made from the function that it
replaces, and does most of the work with it: the build is wrong, and not merely unable to run.
"""

from __future__ import annotations

import pkgutil
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import anyio

from autonomy_ctx.errors import StoreError
from autonomy_ctx.messages.message import new_id

Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class BrokenBuild:
    """A promise, the function without which it does not hold, and tests that must then fail."""

    name: str
    # The heading in docs/promises.md.
    promise: str
    # Import path, `module:name`; a public one where there is one.
    function: str
    replacement: Callable[[Function], Function]
    tests: tuple[str, ...]


def install(name: str) -> None:
    """Replace the function of a build, wherever it has been imported already."""
    build = next((one for one in BUILDS if one.name == name), None)
    if build is None:
        raise ValueError(f"no broken build is called {name!r}; see BUILDS in {__file__}")
    original = pkgutil.resolve_name(build.function)
    broken = build.replacement(original)
    path, _, attribute = build.function.replace(":", ".").rpartition(".")
    owner = pkgutil.resolve_name(path)
    setattr(owner, attribute, broken)
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("autonomy_ctx"):
            for known, value in list(vars(module).items()):
                if value is original:
                    setattr(module, known, broken)


# -- messages are not lost --------------------------------------------------------------------------------


def lose_the_last(append: Function) -> Function:
    async def broken(memory: Any, scope: str, conversation: str, *messages: Any, **options: Any) -> list[int]:
        stored = await append(memory, scope, conversation, *messages[:-1], **options)
        return [*stored, (await memory.head(scope, conversation)).position + 1] if messages else []

    return broken


def store_one_by_one(append: Function) -> Function:
    async def broken(memory: Any, scope: str, conversation: str, *messages: Any, **options: Any) -> list[int]:
        stored = [await append(memory, scope, conversation, one) for one in messages[:-1]]
        return [
            *(position for one in stored for position in one),
            *await append(memory, scope, conversation, *messages[-1:], **options),
        ]

    return broken


def store_under_a_new_id(append: Function) -> Function:
    async def broken(memory: Any, scope: str, conversation: str, *messages: Any, **options: Any) -> list[int]:
        given = [
            {**one, "id": new_id()} if isinstance(one, dict) else replace(one, id=new_id())
            for one in messages
        ]
        return list(await append(memory, scope, conversation, *given, **options))

    return broken


def overwrite(append: Function) -> Function:
    async def broken(memory: Any, scope: str, conversation: str, *messages: Any, **options: Any) -> list[int]:
        for one in messages:
            if isinstance(one, dict) and "id" in one:
                await memory.delete_message(scope, conversation, one["id"])
        return list(await append(memory, scope, conversation, *messages, **options))

    return broken


def leave_out_unknown_fields(get_messages_only: Function) -> Function:
    known = ("id", "role", "content", "created_at", "tool_calls", "tool_call_id")

    async def broken(*args: Any, **options: Any) -> list[dict[str, Any]]:
        found = await get_messages_only(*args, **options)
        return [{name: value for name, value in one.items() if name in known} for one in found]

    return broken


def write_without_the_turn(in_turn: Function) -> Function:
    return lambda memory, turn: memory


def send_as_new(send: Function) -> Function:
    async def broken(mailbox: Any, mail: Any, **place: Any) -> bool:
        return bool(
            await send(mailbox, replace(mail, id=f"{mail.id}-{id(mail)}-{anyio.current_time()}"), **place)
        )

    return broken


# -- the model sees what it needs -------------------------------------------------------------------------


def hide_omissions(contribute: Function) -> Function:
    async def broken(*args: Any, **options: Any) -> Any:
        return replace(await contribute(*args, **options), omitted=())

    return broken


def cut_anywhere(safe_cuts: Function) -> Function:
    return lambda messages: list(range(len(messages) + 1))


def show_only_the_last(contribute: Function) -> Function:
    async def broken(*args: Any, **options: Any) -> Any:
        found = await contribute(*args, **options)
        return replace(found, messages=found.messages[-1:], positions=found.positions[-1:])

    return broken


def pin_nothing(pin: Function) -> Function:
    async def broken(memory: Any, scope: str, conversation: str, message_id: str, **options: Any) -> bool:
        return True

    return broken


def show_the_shortened(get_full_message: Function) -> Function:
    async def broken(*args: Any) -> None:
        return None

    return broken


def worst_first(search: Function) -> Function:
    async def broken(*args: Any, **options: Any) -> list[Any]:
        return list(reversed(await search(*args, **options)))

    return broken


def say_the_time(build_context: Function) -> Function:
    async def broken(*args: Any, **options: Any) -> list[dict[str, Any]]:
        found = await build_context(*args, **options)
        return [{**one, "content": f"{anyio.current_time()}: {one['content']}"} for one in found]

    return broken


def keep_no_record(make_drafts: Function) -> Function:
    async def broken(*args: Any, **options: Any) -> list[Any]:
        return []

    return broken


def truncate_blindly(truncate_items: Function) -> Function:
    def broken(items: Any, *, max_items: int | None = None, **limits: Any) -> Any:
        found = truncate_items(items, max_items=max_items, **limits)
        return found if max_items is None else replace(found, items=list(items)[-max_items:])

    return broken


def send_all_thinking(select_thinking: Function) -> Function:
    def broken(body: dict[str, Any], messages: Any, owner: str, model: str) -> Any:
        copy = {**body, "messages": [{**turn} for turn in body["messages"]]}
        return select_thinking(copy, messages, owner, model)

    return broken


def forget_what_was_sent(draft_epoch: Function) -> Function:
    def broken(composed: Any, generation: int) -> list[Any]:
        composed.state.row = composed.state.base
        return []

    return broken


def keep_removed_lines(continue_epoch: Function) -> Function:
    def broken(before: Any, now: Any, *args: Any, **options: Any) -> Any:
        kept = [text._replace(may_be_removed=False) for text in now]
        return continue_epoch(before, kept, *args, **options)

    return broken


def restore_without_inserts(restore_epoch: Function) -> Function:
    def broken(row: Any, parts: Any, *args: Any) -> Any:
        found = restore_epoch(row, parts, *args)
        return found._replace(additions=found.additions[:1]) if hasattr(found, "additions") else found

    return broken


# -- nothing waits, nothing grows -------------------------------------------------------------------------


def wait_for_the_summary(contribute: Function) -> Function:
    async def broken(section: Any, *args: Any, **options: Any) -> Any:
        found = await contribute(section, *args, **options)
        await section.idle()
        return found

    return broken


def work_in_the_loop(run_sync: Function) -> Function:
    async def broken(work: Function, *args: Any, **options: Any) -> Any:
        return work(*args)

    return broken


def leave_jobs_running(aclose: Function) -> Function:
    async def broken(background: Any) -> None:
        background.begin_closing()

    return broken


def compose_without_a_budget(compose: Function) -> Function:
    async def broken(template: Any, *args: Any, max_tokens: int | None = None, **options: Any) -> Any:
        limit, template.max_tokens = template.max_tokens, None
        try:
            return await compose(template, *args, **options)
        finally:
            template.max_tokens = limit

    return broken


def count_characters(estimate_tokens: Function) -> Function:
    return lambda text: -(-len(text) // 4)


def clamp_nothing(clamp_text: Function) -> Function:
    return lambda text, tokens, count, location_note="": text


def keep_all_items(init: Function) -> Function:
    def broken(queue: Any, *args: Any, **options: Any) -> None:
        init(queue, *args, **options)
        queue._items = deque()

    return broken


# -- one failing part does not break the others -----------------------------------------------------------


def accept_every_summary(check: Function) -> Function:
    def broken(reply: Any, **given: Any) -> Any:
        return replace(check(reply, **given), text=reply.text, problem=None, repair=None)

    return broken


def stop_at_a_failed_tool(run_calls: Function) -> Function:
    async def broken(*args: Any, **options: Any) -> Any:
        outcomes = await run_calls(*args, **options)
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return outcomes

    return broken


def ignore_refusals(fire: Function) -> Function:
    async def broken(*args: Any, **options: Any) -> None:
        try:
            await fire(*args, **options)
        except Exception:
            return

    return broken


# -- tenants, deletion, injection, secrets ----------------------------------------------------------------


def share_scopes(make_key: Function) -> Function:
    return lambda agent, scope, conversation: make_key(agent, scope, conversation)._replace(scope="everybody")


def delete_nothing(delete: Function) -> Function:
    async def broken(*args: Any) -> bool:
        return True

    return broken


def delete_for_one_agent(delete_scope: Function) -> Function:
    async def broken(memory: Any, scope: str) -> int:
        found = await memory.conversations(scope, agent=memory.agent)
        return sum([await memory.delete_conversation(scope, one.conversation) for one in found])

    return broken


def fork_to_itself(fork: Function) -> Function:
    async def broken(memory: Any, scope: str, conversation: str, **options: Any) -> str:
        await fork(memory, scope, conversation, **options)
        return conversation

    return broken


def allow_parent_folders(split_path: Function) -> Function:
    return lambda path: [part for part in path.split("/") if part not in ("", ".")]


def keep_the_key_in_plain_text(init: Function) -> Function:
    def broken(model: Any, *args: Any, **options: Any) -> None:
        init(model, *args, **options)
        model.options = options

    return broken


def trace_content(records_content: Function) -> Function:
    return lambda: True


def let_everybody_in(refusal: Function) -> Function:
    return lambda policy, path, headers: None


def keep_marks(neutralize_marks: Function) -> Function:
    return lambda text: text


# -- model calls, tokens, frameworks ----------------------------------------------------------------------


def drop_summaries_at_the_end(close: Function) -> Function:
    async def broken(memory: Any) -> None:
        with suppress(StoreError):  # closed before
            for scope in await memory.scopes():
                await memory.drop_summaries(scope)
        await close(memory)

    return broken


BUILDS = (
    BrokenBuild(
        name="append-loses-the-last",
        promise="An acknowledged message is never lost",
        function="autonomy_ctx:Memory.append",
        replacement=lose_the_last,
        tests=("tests/messages/test_wire.py::test_memory_gives_back_the_dicts_it_was_given",),
    ),
    BrokenBuild(
        name="append-stores-one-by-one",
        promise="Cancelling is safe",
        function="autonomy_ctx:Memory.append",
        replacement=store_one_by_one,
        tests=(
            "tests/messages/test_bad_input.py::test_a_bad_message_is_refused_with_its_place_and_nothing_is_stored",
            "tests/agents/test_agent.py::test_a_call_and_its_results_are_stored_together",
        ),
    ),
    BrokenBuild(
        name="append-forgets-ids",
        promise="One order, no duplicates",
        function="autonomy_ctx:Memory.append",
        replacement=store_under_a_new_id,
        tests=(
            "tests/formats/test_anthropic_blocks.py::test_a_tool_loop_in_anthropics_form_is_stored_once_and_comes_back_in_ours",
        ),
    ),
    BrokenBuild(
        name="append-overwrites",
        promise="Stored messages never change",
        function="autonomy_ctx:Memory.append",
        replacement=overwrite,
        tests=(
            "tests/messages/test_bad_input.py"
            "::test_other_content_under_a_known_id_is_refused_and_nothing_is_stored",
        ),
    ),
    BrokenBuild(
        name="read-leaves-out-fields",
        promise="Messages come back exactly",
        function="autonomy_ctx:Memory.get_messages_only",
        replacement=leave_out_unknown_fields,
        tests=("tests/messages/test_wire.py::test_memory_gives_back_the_dicts_it_was_given",),
    ),
    BrokenBuild(
        name="turn-writes-after-its-end",
        promise="Turns of one conversation run in order",
        function="autonomy_ctx:Memory.in_turn",
        replacement=write_without_the_turn,
        tests=("tests/agents/test_turn_lease.py::test_a_turn_that_was_replaced_writes_nothing_more",),
    ),
    BrokenBuild(
        name="mail-is-always-new",
        promise="A direct message is delivered once",
        function="autonomy_ctx:Mailbox.send",
        replacement=send_as_new,
        tests=(
            "tests/memory/test_mailbox.py::test_the_same_mail_sent_twice_is_there_once_before_and_after_delivery",
        ),
    ),
    BrokenBuild(
        name="history-hides-omissions",
        promise="No message is left out silently",
        function="autonomy_ctx:ConversationHistorySection.contribute",
        replacement=hide_omissions,
        tests=(
            "tests/sections/test_history.py::test_what_is_shown_and_what_is_named_as_left_out_is_all_there_is",
            "tests/sections/test_history.py"
            "::test_a_window_is_the_most_recent_messages_and_says_what_it_leaves_out",
        ),
    ),
    BrokenBuild(
        name="cuts-anywhere",
        promise="A tool call keeps its result",
        function="autonomy_ctx.messages:safe_cuts",
        replacement=cut_anywhere,
        tests=(
            "tests/messages/test_cuts.py::test_safe_cuts_are_those_the_rules_allow",
            "tests/messages/test_cuts.py::test_no_result_loses_its_call_at_a_safe_cut",
        ),
    ),
    BrokenBuild(
        name="newest-question-is-not-kept",
        promise="The newest user message is always shown",
        function="autonomy_ctx:ConversationHistorySection.contribute",
        replacement=show_only_the_last,
        tests=(
            "tests/sections/test_history.py::test_the_newest_user_message_is_there_however_long_ago_it_was",
        ),
    ),
    BrokenBuild(
        name="pin-does-nothing",
        promise="A pinned message is shown or reported",
        function="autonomy_ctx:Memory.pin",
        replacement=pin_nothing,
        tests=(
            "tests/sections/test_summarized.py"
            "::test_a_pin_says_on_which_day_and_by_whom_it_was_said_and_stays_the_same",
        ),
    ),
    BrokenBuild(
        name="full-text-is-lost",
        promise="Summarized messages can still be read",
        function="autonomy_ctx:Memory.get_full_message",
        replacement=show_the_shortened,
        tests=("tests/tools/test_recall_tools.py::test_a_tool_result_that_was_cut_in_the_log_is_read_whole",),
    ),
    BrokenBuild(
        name="search-shows-the-worst-first",
        promise="Exact words are found first",
        function="autonomy_ctx.memory.sqlite.store:SqliteStore.search",
        replacement=worst_first,
        tests=(
            "tests/memory/test_stores.py::TestSqliteStore"
            "::test_a_word_as_it_is_written_comes_before_its_other_forms",
        ),
    ),
    BrokenBuild(
        name="context-says-the-time",
        promise="The same log gives the same bytes",
        function="autonomy_ctx:ContextTemplate.build_context",
        replacement=say_the_time,
        tests=(
            "tests/template/test_composed.py::test_the_same_log_and_template_give_the_same_bytes_on_every_store",
        ),
    ),
    BrokenBuild(
        name="turns-are-not-recorded",
        promise="Every context can be explained",
        function="autonomy_ctx.agents.explain:ContextRecords.make_drafts",
        replacement=keep_no_record,
        tests=("tests/agents/test_explain.py::test_every_step_is_explained_as_the_model_saw_it",),
    ),
    BrokenBuild(
        name="truncate-parts-calls-and-results",
        promise="Editing a ChatContext keeps it valid",
        function="autonomy_ctx.messages.edits:truncate_items",
        replacement=truncate_blindly,
        tests=("tests/containers/test_chat_properties.py::test_truncating_never_splits_a_pair",),
    ),
    BrokenBuild(
        name="thinking-behind-a-changed-prefix",
        promise="Providers accept every request",
        function="autonomy_ctx.formats.thinking:select_thinking",
        replacement=send_all_thinking,
        tests=(
            "tests/agents/test_thinking.py"
            "::test_a_stable_section_that_changes_leaves_out_the_thinking_after_it_for_good",
        ),
    ),
    BrokenBuild(
        name="nothing-is-known-of-what-was-sent",
        promise="Each request begins with the previous one",
        function="autonomy_ctx.template.epoch_store:draft_epoch",
        replacement=forget_what_was_sent,
        tests=(
            "tests/agents/test_epochs.py::test_sections_that_change_are_appended_and_the_rest_stays",
            "tests/test_engine_epochs.py::test_each_call_goes_on_from_the_call_before_also_after_a_restart",
        ),
    ),
    BrokenBuild(
        name="removed-text-stays-in-the-context",
        promise="Each request begins with the previous one",
        function="autonomy_ctx.template.epoch:continue_epoch",
        replacement=keep_removed_lines,
        tests=("tests/agents/test_epochs.py::test_a_removed_entry_of_a_profile_is_in_no_later_request",),
    ),
    BrokenBuild(
        name="inserts-are-lost-with-the-process",
        promise="Each request begins with the previous one",
        function="autonomy_ctx.template.epoch_row:restore_epoch",
        replacement=restore_without_inserts,
        tests=("tests/agents/test_epochs.py::test_sections_that_change_are_appended_and_the_rest_stays",),
    ),
    BrokenBuild(
        name="turn-waits-for-its-summary",
        promise="No turn waits for a summary",
        function="autonomy_ctx:SummarizedHistorySection.contribute",
        replacement=wait_for_the_summary,
        tests=(
            "tests/sections/test_summarized.py::test_a_turn_does_not_wait_for_a_model_that_never_answers",
        ),
    ),
    BrokenBuild(
        name="work-blocks-the-loop",
        promise="The event loop is never blocked",
        function="anyio.to_thread:run_sync",
        replacement=work_in_the_loop,
        tests=("tests/tools/test_run.py::test_long_arguments_are_read_outside_the_event_loop",),
    ),
    BrokenBuild(
        name="close-leaves-jobs",
        promise="Background work ends",
        function="autonomy_ctx.background:Background.aclose",
        replacement=leave_jobs_running,
        tests=("tests/test_background.py::test_a_close_cancels_what_hangs_and_takes_no_more",),
    ),
    BrokenBuild(
        name="budget-is-ignored",
        promise="A context has a hard limit",
        function="autonomy_ctx:ContextTemplate.compose",
        replacement=compose_without_a_budget,
        tests=(
            "tests/template/test_budget.py::test_a_small_budget_keeps_the_newest_messages_in_their_order",
        ),
    ),
    BrokenBuild(
        name="tokens-are-a-quarter-of-the-characters",
        promise="Token estimates are close",
        function="autonomy_ctx.messages.token_estimate:estimate_tokens",
        replacement=count_characters,
        tests=("tests/messages/test_estimate.py::test_the_whole_corpus_is_estimated_within_15_percent",),
    ),
    BrokenBuild(
        name="long-texts-are-not-cut",
        promise="Large messages are limited",
        function="autonomy_ctx.messages.clamp:clamp_text",
        replacement=clamp_nothing,
        tests=("tests/messages/test_clamp.py::test_a_message_fits_and_keeps_all_but_its_content",),
    ),
    BrokenBuild(
        name="queue-grows",
        promise="A queue or pool never exceeds its limit",
        function="autonomy_ctx:ContextQueue.__init__",
        replacement=keep_all_items,
        tests=("tests/containers/test_queue.py::test_the_newest_push_the_oldest_out",),
    ),
    BrokenBuild(
        name="summaries-are-not-checked",
        promise="A failed summary loses nothing",
        function="autonomy_ctx.compaction.checks:check_summary",
        replacement=accept_every_summary,
        tests=(
            "tests/sections/test_summarized.py::test_an_unfit_answer_keeps_the_history_and_is_counted",
            "tests/sections/test_summarized.py::test_an_echo_of_the_conversation_is_refused",
        ),
    ),
    BrokenBuild(
        name="failed-tool-ends-the-turn",
        promise="A failing tool does not end a turn",
        function="autonomy_ctx.tools.run:run_calls",
        replacement=stop_at_a_failed_tool,
        tests=("tests/tools/test_run.py::test_one_failure_leaves_the_other_calls_alone",),
    ),
    BrokenBuild(
        name="hooks-cannot-refuse",
        promise="A hook that refuses changes nothing",
        function="autonomy_ctx.hooks:fire",
        replacement=ignore_refusals,
        tests=(
            "tests/test_hooks_everywhere.py::test_a_hook_may_keep_messages_out",
            "tests/containers/test_queue.py::test_a_failing_hook_before_keeps_everything_out_and_one_after_does_not",
        ),
    ),
    BrokenBuild(
        name="scopes-are-shared",
        promise="Tenants are separate",
        function="autonomy_ctx.memory.store:make_key",
        replacement=share_scopes,
        tests=("tests/template/test_composed.py::test_no_byte_of_one_scope_is_in_the_context_of_another",),
    ),
    BrokenBuild(
        name="delete-deletes-nothing",
        promise="A deletion is complete",
        function="autonomy_ctx:Memory.delete_message",
        replacement=delete_nothing,
        tests=(
            "tests/memory/test_recall.py::test_deleted_messages_are_neither_found_nor_brought_along",
            "tests/agents/test_explain.py::test_nothing_of_a_deleted_message_is_left_in_the_records",
        ),
    ),
    BrokenBuild(
        name="delete-scope-leaves-other-agents",
        promise="A deletion is complete",
        function="autonomy_ctx:Memory.delete_scope",
        replacement=delete_for_one_agent,
        tests=(
            "tests/agents/test_deleted_quotes.py::test_what_another_conversation_was_shown_is_deleted_too",
        ),
    ),
    BrokenBuild(
        name="fork-is-its-source",
        promise="Forks are separate",
        function="autonomy_ctx:Memory.fork",
        replacement=fork_to_itself,
        tests=(
            "tests/memory/test_stored_forks.py::test_a_fork_has_a_name_of_its_own_or_the_one_that_is_given",
        ),
    ),
    BrokenBuild(
        name="files-leave-their-folder",
        promise="File tools stay in their folder",
        function="autonomy_ctx.tools.builtin.sandbox:split_path",
        replacement=allow_parent_folders,
        tests=("tests/tools/test_files.py::test_a_path_that_is_no_relative_way_down_is_refused",),
    ),
    BrokenBuild(
        name="key-is-shown",
        promise="No secrets in logs and errors",
        function="autonomy_ctx:Model.__init__",
        replacement=keep_the_key_in_plain_text,
        tests=("tests/models/test_client.py::test_no_key_and_no_message_gets_into_a_log_or_an_error",),
    ),
    BrokenBuild(
        name="text-leaves-its-block",
        promise="Found text is shown as data",
        function="autonomy_ctx.messages.transcript:neutralize_marks",
        replacement=keep_marks,
        tests=("tests/messages/test_transcript.py::test_no_mark_survives_however_it_is_nested_or_written",),
    ),
    BrokenBuild(
        name="traces-have-content",
        promise="Traces contain no content",
        function="autonomy_ctx.tracing:records_content",
        replacement=trace_content,
        tests=("tests/test_tracing.py::test_no_span_and_no_metric_says_what_was_said_or_by_whom",),
    ),
    BrokenBuild(
        name="no-token-is-needed",
        promise="HTTP needs a token",
        function="autonomy_ctx.server.common.auth:AccessPolicy.refusal",
        replacement=let_everybody_in,
        tests=(
            "tests/server/test_http_access.py::test_without_the_token_every_route_but_health_is_closed",
            "tests/server/test_http_access.py::test_a_page_of_another_site_is_refused",
        ),
    ),
    BrokenBuild(
        name="summaries-go-with-the-process",
        promise="A restart repeats no summary",
        function="autonomy_ctx:Memory.close",
        replacement=drop_summaries_at_the_end,
        tests=(
            "tests/sections/test_summarized.py::test_a_restart_brings_the_summary_back_without_asking_the_model",
        ),
    ),
)
