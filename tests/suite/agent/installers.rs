//! What installs a version on a host: whom its settings let act, and the host's own script in place of the updater (DIRECTIVES §4).

cases_of! { "agent/installers.txt":
    r6_scripts_get_the_version_as_input;
    r7_the_agent_is_reloaded_after_a_script;
    r7_commands_of_people_hold_after_a_script;
    r8_integrity_is_the_scripts_pin;
    r58_a_local_script_is_roots_alone_and_no_link;
    r58_a_local_script_that_fails_is_told_and_not_tried_each_time;
    r58_a_local_script_ends_with_the_run_that_is_told_to_end;
    r17_a_dry_run_of_a_script_runs_what_stands_beside_it_and_not_the_script;
    r58_whom_the_settings_do_not_let_act_is_refused_and_changes_nothing;
    r58_a_variable_that_is_a_shells_is_refused;
    r58_a_version_that_is_only_recommended_is_not_installed;
    r58_no_script_acts_on_an_image_or_while_a_version_is_pinned;
    r59_tuf_needs_a_root_and_a_whole_target;
    r7_under_systemd_a_script_is_a_unit_of_its_own_that_the_updaters_bounds_do_not_hold;
    what_may_install_is_said_by_a_flag_and_reset_by_an_empty_one;
}
