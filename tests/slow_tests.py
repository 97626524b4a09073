"""Which tests only `make test-all` runs: they need much time, or a browser, node or several processes.

`make test` is to take less than five minutes on two cores. What stands here is in the second half of
`make test-all`, which runs everything but the nightly tests. On trio, most tests run at night.
Each promise of docs/promises.md keeps a test that is not slow; `tests/docs/test_reference.py` checks it.
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
        "agents/test_tool_search.py::test_definitions_that_are_found_are_appended_and_the_prefix_stays",
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
        "memory/test_scopes.py",
        "server/test_anthropic_turns.py",
        "server/test_translated_turns.py",
        "server/test_workers.py",
        "server/test_messages_python.py::test_a_talk_goes_on_after_a_restart",
        "server/test_messages_python.py::test_much_output_leaves_room_for_the_newest_messages",
        "server/test_messages_python.py::test_sixty_turns_are_bounded_valid_and_answered_as_without_an_endpoint",
        "server/test_messages_recordings.py::test_sixty_turns_are_bounded_and_valid_over_a_restart",
        "server/test_openai_long_talks.py",
        "server/test_openai_node.py",
        "server/test_openai_page.py",
        "agents/test_agent.py::test_a_store_that_is_away_does_not_hide_why_a_turn_failed",
        "compaction/test_kept_facts.py::test_the_corpus_is_the_one_that_was_measured",
        "compaction/test_kept_facts.py::test_the_corpus_has_the_promised_size",
        "language/test_facts.py::test_twice_the_messages_take_about_twice_the_steps",
        "language/test_identifiers.py::test_a_hostile_megabyte_takes_no_longer_than_others",
        "memory/test_conversation_cache.py::test_the_number_of_a_store_that_is_gone_is_not_used_again",
        "memory/test_term_index.py::test_any_text_can_be_asked",
        "memory/test_two_writers.py",
        "sections/test_swap.py::TestCostSwaps",
        "sections/test_swap.py::TestNeverSwaps",
        "server/test_http_closing.py",
        "test_tracing.py::test_a_merge_of_segments_has_a_span_of_its_own",
        "memory/test_active_facts.py::test_facts_are_those_of_the_file_whoever_writes",
        "knowledge/test_text_knowledge.py::test_a_file_that_begins_with_many_blank_lines_is_read_at_once",
        "memory/test_window_cache.py::test_any_history_of_reads_and_writes_gives_the_windows_of_the_store",
        "replay/test_replay_page.py::test_short_and_long_conversations_are_drawn",
        "server/test_openai_tenants.py::test_two_hundred_streams_at_once_all_come_to_their_end",
        "test_bench_peers.py",
        "tools/test_mcp.py::test_the_process_of_a_server_ends_with_a_loop_that_crashes",
        "test_patterns.py",
        "tools/test_mcp.py::test_a_server_over_http_is_used_and_comes_back_after_a_restart",
        "tools/test_mcp.py::test_a_server_that_is_killed_is_started_again_with_the_next_call",
        "tools/test_mcp.py::test_a_timeout_over_http_reaches_the_server",
        "tools/test_mcp.py::test_changed_tools_are_there_in_the_next_turn",
        "tools/test_mcp.py::test_a_server_gets_the_variables_it_is_given_and_its_stderr_is_logged",
        "tools/test_mcp.py::test_a_turn_that_is_cancelled_cancels_its_call_at_the_server",
        "tools/test_mcp.py::test_results_of_every_kind_are_shown_as_text_and_images_and_errors_as_errors",
        "tools/test_mcp.py::test_a_server_that_does_not_end_by_itself_is_ended",
        "tools/test_mcp.py::test_calls_run_side_by_side_over_one_connection",
        "tools/test_mcp.py::test_a_server_that_dies_at_each_call_is_left_alone_for_longer_each_time",
        "tools/test_mcp.py::test_headers_do_not_follow_a_redirect_to_another_server",
        "memory/test_sqlite_faults.py::test_parent_and_children_may_write_at_once_when_nothing_was_open_at_the_fork",
        "memory/test_sqlite_faults.py::test_a_page_of_zeros_is_never_read_as_part_of_a_history",
        "memory/test_sqlite_faults.py::test_a_second_memory_on_the_same_file_drops_none_of_the_firsts_locks",
        "memory/test_sqlite_faults.py::test_a_file_that_vanishes_while_a_write_waits_is_no_trouble_when_it_is_back",
        "memory/test_sqlite_faults.py::test_a_file_that_may_not_grow_refuses_and_goes_on_when_it_may",
        "memory/test_sqlite_faults.py::test_a_parent_that_forked_in_the_middle_of_a_write_goes_on",
        "memory/test_sqlite_faults.py::test_a_parent_killed_in_a_transaction_leaves_no_lock_with_its_child",
        "memory/test_sqlite_faults.py::test_two_threads_with_a_loop_each_may_share_a_memory",
        "memory/test_sqlite_faults.py::test_the_write_ahead_log_is_folded_into_the_file_as_it_grows",
        "memory/test_sqlite_faults.py::test_a_folder_one_may_not_write_is_refused_at_once",
        "memory/test_sqlite_faults.py::test_a_lock_file_of_another_user_is_named",
        "memory/test_sqlite_faults.py::test_a_write_ahead_log_of_another_user_is_named",
        "memory/test_sqlite_faults.py::test_the_warning_about_an_old_sqlite_is_given_once",
        "memory/test_sqlite_faults.py::test_a_page_that_has_forgotten_some_of_its_rows_is_refused",
        "replay/test_replay_runs.py::test_no_context_passes_its_budget",
        "replay/test_replay_runs.py::test_auto_is_one_of_the_settings_and_decides_by_the_price_of_the_replay",
        "replay/test_replay_runs.py::test_the_same_record_gives_the_same_numbers",
        "replay/test_replay_runs.py::test_nothing_is_cached_after_a_long_pause",
        "replay/test_replay_runs.py::test_a_summary_is_asked_for_after_the_cached_request_where_that_costs_less",
        "replay/test_replay_runs.py::test_what_was_said_is_found_in_the_summary_or_counted_as_lost",
        "compaction/test_summarizer_faults.py::test_closing_while_a_model_hangs_returns_and_leaves_no_task",
        "compaction/test_summarizer_faults.py::test_there_are_at_most_twenty_attempts_in_the_first_hour",
        "server/test_http.py::test_health_is_that_of_memory",
        "agents/test_provider_summaries.py::test_all_that_sections_say_holds_behind_the_summary",
        "agents/test_provider_summary_rules.py::test_no_conversation_of_two_providers_is_refused_or_shows_what_was_deleted",
        "containers/test_context_files.py::test_every_state_that_a_killed_append_can_leave_is_mended",
        "server/test_fastapi_example.py::test_a_tenant_of_the_example_that_asks_too_often_waits_and_the_other_does_not",
        "compaction/test_kept_facts.py::test_a_short_conversation_is_counted_through_the_real_pipeline",
        "memory/test_recall.py::test_a_conversation_that_is_too_long_for_an_index_is_searched_in_its_store",
        "memory/test_recall.py::test_more_evidence_is_recalled_than_plain_search_finds",
        "test_tracing.py::test_a_provider_set_by_the_program_is_found",
        "test_tracing.py::test_a_program_without_the_extra_runs",
        "memory/test_mailbox.py::test_two_processes_that_deliver_at_once_put_each_into_the_log_once",
        "replay/test_replay_page.py::test_the_page_says_what_the_report_says",
        "memory/test_window_cache.py::test_a_window_with_more_text_than_the_bound_is_not_kept",
        "inspection/test_timeline.py::test_a_long_conversation_costs_its_points_and_no_messages",
        "sections/test_summarized.py::test_a_store_at_the_address_of_a_freed_one_does_not_inherit_its_summary",
    }
)
QUICK = frozenset(
    {
        "black_box/test_kill.py::test_every_acknowledged_message_survives_a_kill",
        "cli/test_command_line.py::test_a_database_that_nobody_named_is_left_alone",
        "cli/test_command_output.py",
        "cli/test_drawing.py",
        "cli/test_memory_tools.py",
        "postgres/test_names.py",
        "postgres/test_stores.py::TestPostgresStore",
    }
)
# Of these functions and classes `make test` runs so many tests, from the first to the last. The others of a
# function differ only in their parameters; the others of the class say of one more store what is said of two.
FEW = {
    "agents/test_provider_turns.py::test_a_context_that_is_too_long_twice_is_not_tried_a_third_time": 4,
    "agents/test_provider_turns.py"
    "::test_a_turn_with_two_calls_at_once_is_taken_from_the_question_to_the_answer": 4,
    "agents/test_provider_turns.py"
    "::test_too_long_a_context_is_sent_once_more_with_less_and_with_the_newest_question": 4,
    "agents/test_provider_turns.py"
    "::test_a_provider_that_stays_away_is_given_up_and_the_conversation_goes_on": 4,
    "server/test_http_access.py::test_without_the_token_every_route_but_health_is_closed": 4,
    "memory/test_search.py::test_a_search_in_a_long_log_leaves_the_loop_free": 1,
    "agents/test_deleted_quotes.py::test_no_cache_of_the_process_has_a_word_of_what_was_deleted": 2,
    "agents/test_epochs.py::test_a_turn_of_a_hundred_steps_ends_epochs_only_at_limits": 1,
    "agents/test_node.py::test_a_signal_closes_an_application_cleanly_and_loses_nothing": 2,
    "agents/test_provider_summaries.py::test_a_failed_summary_of_the_provider_leaves_ours": 4,
    "agents/test_provider_turns.py"
    "::test_a_provider_that_fails_before_its_answer_is_asked_again_after_growing_waits": 4,
    "agents/test_provider_turns.py::test_a_provider_that_says_nothing_is_waited_for_only_so_long": 2,
    "agents/test_small_budgets.py::test_the_last_two_exchanges_are_shown_while_they_fit": 1,
    "black_box/test_kill.py::test_every_acknowledged_message_survives_a_kill": 1,
    "compaction/test_merging.py::test_a_long_conversation_keeps_the_size_and_the_input_stays_linear": 1,
    "compaction/test_summarizer_faults.py"
    "::test_a_prompt_that_does_not_fit_is_divided_and_the_size_is_learned": 1,
    "compaction/test_summarizer_faults.py"
    "::test_a_stretch_that_is_refused_is_divided_until_the_conversation_gets_past_it": 1,
    "compaction/test_summarizer_faults.py"
    "::test_where_the_smallest_stretch_is_refused_it_is_tried_again_after_a_new_batch": 1,
    "compaction/test_word_tables.py::test_tables_are_built_once_and_not_on_the_event_loop": 1,
    "memory/test_blocks.py::test_blocks_and_rows_say_the_same": 5,
    "memory/test_listing.py::test_a_page_costs_what_is_on_it_and_not_what_else_there_is": 2,
    "memory/test_mailbox.py::test_a_process_killed_before_any_step_of_a_delivery_leaves_it_to_be_finished": 1,
    "memory/test_migrate.py::test_processes_may_open_the_same_new_file_at_once": 1,
    "memory/test_sqlite_faults.py::test_a_file_one_may_not_write_is_refused_at_once": 1,
    "memory/test_sqlite_faults.py::test_deleted_text_is_in_none_of_the_files": 6,
    "memory/test_sqlite_faults.py::test_the_largest_message_is_kept_and_one_byte_more_is_refused": 1,
    "postgres/test_stores.py::TestPostgresStore": 40,
    "replay/test_recorded_conversations.py::test_a_stream_without_an_end_is_given_up": 2,
    "sections/test_summarized_limits.py::test_a_huge_cold_conversation_is_shown_at_once_and_caught_up": 1,
    "sections/test_summary_schemas.py::test_a_schema_may_be_set_changed_and_taken_away_at_any_time": 1,
    "sections/test_summary_schemas.py::test_merged_segments_name_their_identifiers_by_the_same_rule": 1,
    "sections/test_summary_schemas.py::test_rules_outlast_every_merge_of_digests": 1,
    "sections/test_summary_schemas.py::test_size_order_and_cover_hold_whatever_the_model_does": 5,
    "server/test_asgi.py::test_a_tenant_sees_and_changes_nothing_of_another": 6,
    "server/test_asgi.py::test_tenants_with_conversations_of_the_same_name_have_their_own": 6,
    "server/test_http.py::test_a_bad_body_is_refused_and_changes_nothing": 6,
    "server/test_http.py::test_an_error_of_a_turn_has_a_fitting_status": 5,
    "server/test_http_access.py::test_on_loopback_the_host_must_be_a_loopback_name": 7,
    "server/test_openai_recordings.py::test_a_short_talk_reaches_the_model_as_the_agent_sent_it": 1,
    "template/test_incremental_compose.py::test_a_context_from_a_file_is_the_same_as_one_from_nothing": 1,
    "template/test_incremental_compose.py::test_a_context_is_the_same_as_one_from_nothing": 2,
    "template/test_incremental_compose.py::test_what_another_process_deletes_is_shown_no_more": 2,
    "tools/test_mcp.py::test_a_server_with_too_many_tools_is_refused_and_named": 1,
    "tools/test_recall_tools.py::test_a_tool_result_that_was_cut_in_the_log_is_read_whole": 1,
}
SLOW_FIXTURES = frozenset({"browser", "claude_code", "node_folder", "own_server", "pgbouncer"})
# Where cancelling, tasks and threads are the subject, `make test` has trio beside asyncio.
TRIO = (
    "test_background.py",
    "memory/test_worker_thread.py",
    "template/test_failing",
)

# Where turns, stores, connections or summarizers are the subject, `make test-slow` has trio beside asyncio.
SLOW_TRIO = (
    "agents/test_agent.py",
    "agents/test_stream.py",
    "compaction/test_summarizer_faults.py",
    "memory/test_stores.py",
    "models/test_client.py",
    "sections/test_summarized.py",
    "test_context_engine.py",
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


def find_few(name: str) -> str | None:
    """The function or class in `FEW` to which a test belongs."""
    file, *inner = name.partition("[")[0].split("::")
    return next(
        (one for end in range(len(inner)) if (one := "::".join([file, *inner[: end + 1]])) in FEW), None
    )


def choose_few(count: int, number: int) -> set[int]:
    """So many of a count of tests, by their places, from the first to the last."""
    return {place * (count - 1) // max(number - 1, 1) for place in range(number)}


def is_slow(name: str, *, fixtures: Collection[str], on_trio: bool) -> bool:
    """Whether a test, with the fixtures that it uses and on its event loop, is slow."""
    if SLOW_FIXTURES.intersection(fixtures) or is_slow_name(name):
        return True
    return on_trio and not name.startswith(TRIO)


def is_nightly(name: str, *, on_trio: bool) -> bool:
    """Whether a test is left to `make nightly` on this event loop."""
    return on_trio and not name.startswith(TRIO) and (is_slow_name(name) or not name.startswith(SLOW_TRIO))
