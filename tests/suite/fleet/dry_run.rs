//! What a host does that a rollout server asks to try a version, and not to install it (DIRECTIVES §3).

cases_of! { "fleet/dry_run.txt":
    r17_a_dry_run_does_all_that_comes_before_a_switch_and_leaves_nothing;
    r17_a_dry_run_tells_the_code_that_an_update_would_end_with_and_counts_as_no_attempt;
    r17_a_host_that_is_pinned_or_disabled_or_told_nonsense_tries_nothing;
    r17_a_dry_run_that_is_killed_anywhere_leaves_what_the_next_run_removes;
}
