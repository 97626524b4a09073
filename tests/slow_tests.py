"""Which tests only `make test-all` runs: they need much time, or a browser, node or several processes.

`make test` is to take less than five minutes on two cores. What stands here is in the second half of
`make test-all`, which runs everything but the nightly tests. Each promise of docs/promises.md keeps a
test that is not slow; `tests/docs/test_reference.py` checks it.
"""

from __future__ import annotations

from collections.abc import Collection

# Folders, files and tests, relative to `tests`; the longest name that fits decides.
SLOW = frozenset(
    {
        "agents/test_any_body.py",
        "agents/test_cancelled_turns.py",
        "agents/test_documented_programs.py",
        "agents/test_node.py::test_a_signal_ends_a_turn_that_hangs_and_its_message_is_kept",
        "agents/test_node.py::test_an_application_may_stop_itself",
        "agents/test_node.py::test_an_error_in_main_ends_the_node_and_is_raised_as_itself",
        "agents/test_thinking.py"
        "::test_no_random_conversation_is_refused_or_loses_thinking_behind_an_unchanged_prefix",
        "agents/test_killed_epochs.py",
        "agents/test_provider_summary_rules.py"
        "::test_no_random_conversation_is_refused_or_shows_what_was_deleted",
        "agents/test_local_model.py",
        "agents/test_restart.py",
        "black_box",
        "cli",
        "compaction/test_check_figures.py",
        "compaction/test_summary_checks.py::test_a_hostile_megabyte_takes_moments",
        "docs/test_examples.py",
        "compaction/test_kept_facts.py::test_cases_are_spread_over_the_conversations",
        "compaction/test_kept_facts.py::test_every_case_can_be_found_where_it_is_said_and_nowhere_else",
        "compaction/test_merging.py::test_old_digests_are_as_good_as_new_ones_in_a_merge",
        "memory/test_stores.py::TestHotWindows",
        "sections/test_swap.py::test_cost_breaks_the_prefix_less_often_than_eager",
        "memory/test_mailbox.py::test_thousands_of_deliveries_later_an_old_id_is_still_known",
        "docs/test_pages.py",
        "docs/test_site_sources.py",
        "docs/test_snippets.py::test_the_snippets_of_a_page_run",
        "docs/test_tutorial.py",
        "inspector",
        "memory/test_cancel.py",
        "memory/test_contract_plugins.py",
        "memory/test_fork_machine.py",
        "memory/test_loop_free.py",
        "memory/test_memory_machine.py",
        "memory/test_power_cut.py",
        "memory/test_turns_machine.py",
        "messages/test_estimate.py::test_vocabularies_with_a_token_per_digit_have_a_profile",
        "postgres",
        "sections/test_summary_machine.py",
        "server/test_openai_long_talks.py",
        "server/test_openai_node.py",
        "server/test_openai_page.py",
        "agents/test_agent.py::test_a_store_that_is_away_does_not_hide_why_a_turn_failed",
        "compaction/test_kept_facts.py::test_the_corpus_is_the_one_that_was_measured",
        "compaction/test_kept_facts.py::test_the_corpus_has_the_promised_size",
        "language/test_fact_rules.py::test_twice_the_messages_take_about_twice_the_steps",
        "language/test_identifiers.py::test_a_hostile_megabyte_takes_no_longer_than_others",
        "memory/test_conversation_cache.py::test_the_number_of_a_store_that_is_gone_is_not_used_again",
        "memory/test_term_index.py::test_any_text_can_be_asked",
        "memory/test_two_writers.py",
        "sections/test_swap.py::TestCostSwaps",
        "sections/test_swap.py::TestNeverSwaps",
        "server/test_http_closing.py",
        "test_tracing.py::test_a_merge_of_segments_has_a_span_of_its_own",
        "memory/test_fact_cache.py::test_kept_facts_are_those_of_the_file_whoever_writes",
        "knowledge/test_text_knowledge.py::test_a_file_that_begins_with_many_blank_lines_is_read_at_once",
        "memory/test_window_cache.py::test_any_history_of_reads_and_writes_gives_the_windows_of_the_store",
        "replay/test_replay_page.py::test_short_and_long_conversations_are_drawn",
        "server/test_openai_tenants.py::test_two_hundred_streams_at_once_all_come_to_their_end",
        "test_bench_peers.py",
        "tools/test_mcp.py::test_the_process_of_a_server_ends_with_a_loop_that_crashes",
        "test_patterns.py",
    }
)
QUICK = frozenset(
    {
        "black_box/test_kill.py::test_every_acknowledged_message_survives_a_kill",
        "cli/test_command_line.py::test_a_database_that_nobody_named_is_left_alone",
        "cli/test_command_line.py::test_reading_changes_nothing_in_the_database_or_beside_it",
        "cli/test_command_output.py",
        "cli/test_drawing.py",
        "cli/test_memory_tools.py",
        "postgres/test_names.py",
        "postgres/test_stores.py::TestPostgresStore",
    }
)
SLOW_FIXTURES = frozenset({"browser", "node_folder", "own_server", "pgbouncer"})
# Where cancelling, tasks and threads are the subject, or a store is, `make test` has trio beside asyncio.
TRIO = (
    "test_background.py",
    "memory/test_stores.py",
    "memory/test_worker_thread.py",
    "template/test_failing",
)


def is_slow_name(name: str) -> bool:
    """Whether the lists above put a test among the slow ones; `name` is relative to `tests`."""
    file, *inner = name.partition("[")[0].split("::")
    folders = file.split("/")
    known = ["/".join(folders[: end + 1]) for end in range(len(folders))]
    known += ["::".join([file, *inner[: end + 1]]) for end in range(len(inner))]
    listed = next((one for one in reversed(known) if one in SLOW or one in QUICK), None)
    return listed in SLOW


def has_only_slow(path: str) -> bool:
    """Whether all tests of a folder or file are slow."""
    return is_slow_name(path) and not any(one.startswith(path) for one in QUICK)


def is_slow(name: str, *, fixtures: Collection[str], on_trio: bool) -> bool:
    """Whether a test, with the fixtures that it uses and on its event loop, is slow."""
    if SLOW_FIXTURES.intersection(fixtures) or is_slow_name(name):
        return True
    return on_trio and not name.startswith(TRIO)
