//! `systemctl enable` and its kin go on working for the operator although the unit is a link into a version.

cases_of! { "agent/enablement.txt":
    the_agent_stays_enabled_through_updates_downgrades_and_the_end_of_the_enabling_version;
    disabled_by_hand_it_stays_disabled_through_updates_and_can_be_enabled_again;
}
