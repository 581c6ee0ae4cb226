//! SPEC §8 with a running agent under a real systemd: kills, power cuts, boots, shutdowns, and the agent's own session.

cases_of! { "agent/recovery_service.txt":
    an_update_killed_before_the_agent_is_reloaded_is_undone;
    an_update_killed_after_the_agent_was_reloaded_is_undone_with_its_database;
    an_update_killed_around_its_commit_is_old_or_new;
    a_downgrade_killed_before_or_after_its_agent_stood_still_brings_one_version_up_with_its_database;
    a_journal_that_cannot_be_written_to_in_the_downtime_leaves_an_agent_that_runs;
    a_rollback_killed_in_its_middle_is_undone;
    a_power_cut_in_the_health_check_boots_into_the_old_version;
    a_power_cut_after_the_commit_boots_into_the_new_version;
    a_killed_run_of_the_unit_is_undone_by_its_stop_command;
    a_stopped_run_of_the_unit_undoes_itself;
    a_run_that_a_shutdown_interrupts_is_old_after_the_boot;
    a_version_whose_reload_a_shutdown_cut_short_is_not_refused_for_it;
    a_downgrade_from_the_agents_own_session_moves_on_and_completes;
    removing_everything_from_the_agents_own_session_completes;
}
