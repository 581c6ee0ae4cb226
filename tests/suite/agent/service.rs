//! What an update does to the agent's service: reload, restart, start or nothing, under systemd, under commands of the
//! operator, and under nobody (SPEC §6, service action).

cases_of! { "agent/service.txt":
    an_agent_that_was_stopped_stays_stopped_though_it_is_enabled;
    a_unit_that_cannot_be_reloaded_is_restarted_and_that_is_said;
    an_agent_that_ignores_sigterm_is_killed_by_its_manager_before_its_database_is_touched;
    an_agent_with_a_user_of_its_own_is_upgraded_and_downgraded_and_its_files_stay_that_users;
    an_agent_run_by_commands_is_updated_downgraded_and_reversed;
    an_agent_run_by_commands_gets_its_old_version_back_when_the_new_one_is_broken;
    an_agent_that_nobody_known_runs_is_updated_in_files_only;
    without_a_service_manager_the_look_at_the_processes_decides;
    a_failure_after_the_switch_under_an_agent_that_cannot_be_stopped_puts_back_the_link_alone;
}
