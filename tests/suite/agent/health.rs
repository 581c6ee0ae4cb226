//! Every way in which a new version can be broken, after a reload and after a start: it is found out, and the old version
//! is put back (SPEC §6, health).

cases_of! { "agent/health.txt":
    a_version_that_never_gets_ready_after_a_reload_is_rolled_back;
    a_version_that_never_gets_ready_after_a_start_is_rolled_back;
    a_version_that_exits_at_once_after_a_start_is_rolled_back;
    a_version_that_loops_after_a_reload_is_rolled_back;
    a_version_that_loops_after_a_start_is_rolled_back;
    a_version_that_spoils_the_schema_after_a_reload_is_rolled_back_with_the_database;
    a_version_that_spoils_the_schema_after_a_start_is_rolled_back_with_the_database;
    a_version_that_spoils_the_database_file_after_a_reload_is_rolled_back_with_the_database;
    a_version_that_spoils_the_database_file_after_a_start_is_rolled_back_with_the_database;
    a_version_that_lost_the_readiness_that_the_old_one_had_is_rolled_back;
    a_successor_that_dies_at_once_behind_its_living_parent_is_noticed_long_before_the_deadline;
    an_old_version_that_does_not_follow_the_reload_is_a_failure_of_the_update_and_goes_on;
    a_version_that_takes_some_seconds_to_get_ready_is_fine;
    a_version_without_readiness_is_fine_after_it_stood_for_longer;
    an_agent_that_was_failing_before_cannot_make_the_new_version_bad;
    where_the_kernel_tells_of_no_event_looks_alone_find_out;
    a_version_that_is_ready_and_dies_in_its_watch_is_left_by_a_new_run;
    a_version_that_dies_after_ten_seconds_is_left_by_a_new_run;
    a_version_that_falls_again_waits_longer_and_its_failed_snapshot_is_not_restored;
    the_lock_is_free_during_the_watch_and_a_killed_watch_is_taken_up_by_the_next_run;
    a_version_that_fell_while_its_watcher_was_dead_is_left_by_the_next_run;
    a_watch_that_ends_well_is_not_the_end_of_another_versions_watch;
    a_watch_ends_silently_when_another_run_was_at_work_with_the_agent;
    a_watch_that_is_over_leads_back_no_more_whatever_the_agent_does_then;
    a_refused_version_rests_for_a_growing_time_and_an_operator_can_insist;
    a_new_target_clears_what_was_refused;
    enabling_again_tries_a_refused_version_at_once;
}
