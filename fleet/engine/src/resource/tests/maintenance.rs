use super::super::MaintenanceWindow;
use super::maintenance;
use crate::calendar::{Days, WindowOpening, Zone};
use crate::policy::{Mode, Strategy, Unassigned, Ungrouped, UngroupedWindow};

#[test]
fn agent_auto_update_turns_updates_on_and_off() {
    let policy = |spec: &str| maintenance(spec).policy.unwrap();
    for (word, mode) in [
        ("true", Mode::Enabled),
        ("on", Mode::Enabled),
        ("yes", Mode::Enabled),
        ("false", Mode::Disabled),
        ("off", Mode::Disabled),
    ] {
        let policy = policy(&format!("agent_auto_update: {word}"));
        assert_eq!((policy.mode, policy.ungrouped), (mode, None));
        assert_eq!((policy.strategy, policy.unassigned), (Strategy::Requires, Unassigned::Hold));
    }
    let groups = policy("agent_auto_update_groups: {regular: [{name: a}], critical: [{name: b}]}");
    assert_eq!((groups.mode, groups.ungrouped), (Mode::Enabled, None));
    assert_eq!((groups.regular[0].name.as_str(), groups.critical[0].name.as_str()), ("a", "b"));
}

#[test]
fn agent_auto_update_is_also_the_schedule_without_groups() {
    let every = |hour| WindowOpening { days: Days::EVERY, hour, zone: Zone::UTC };
    let ungrouped = |keys: &str| maintenance(&format!("agent_auto_update: {keys}")).policy.unwrap().ungrouped.unwrap();
    assert_eq!(ungrouped("{}"), Ungrouped { regular: None, critical: None, immediate_jitter: 0 });
    assert_eq!(
        ungrouped("{regular: {}, critical: {start_hour: 23, jitter_seconds: 60}, immediate: {jitter_seconds: 10}}"),
        Ungrouped {
            regular: Some(UngroupedWindow { opening: every(0), jitter: 0 }),
            critical: Some(UngroupedWindow { opening: every(23), jitter: 60 }),
            immediate_jitter: 10,
        }
    );
    let zone = ungrouped("{regular: {days: [Sun, Monday], timezone: Europe/Berlin}}").regular.unwrap().opening;
    assert_eq!((zone.days, zone.zone.name()), (Days::parse(&["Mon", "Sun"]).unwrap(), "Europe/Berlin"));
}

#[test]
fn the_maintenance_window_alone_is_no_policy() {
    let maintenance = super::maintenance("agent_upgrades: {utc_start_hour: 23, weekdays: [Mon, Tuesday]}");
    assert_eq!(maintenance.policy, None);
    let opening = WindowOpening { days: Days::parse(&["Mon", "Tue"]).unwrap(), hour: 23, zone: Zone::UTC };
    assert_eq!(maintenance.window, Some(MaintenanceWindow { opening }));
    for every in ["{}", "{weekdays: []}", "{utc_start_hour: 0}"] {
        let window = super::maintenance(&format!("agent_upgrades: {every}")).window.unwrap();
        assert_eq!(window.opening, WindowOpening { days: Days::EVERY, hour: 0, zone: Zone::UTC });
    }
    assert_eq!(super::maintenance("{}").window, None);
}

#[test]
fn unassigned_stands_below_agents_here_too() {
    let groups = "agent_auto_update_groups: {regular: [{name: a}]}";
    let unassigned =
        |word| maintenance(&format!("{groups}\nagents: {{unassigned: {word}}}")).policy.unwrap().unassigned;
    assert_eq!(unassigned("last"), Unassigned::Last);
    assert_eq!(unassigned("a"), Unassigned::Group("a".to_owned()));
    maintenance(&format!("{groups}\nagent_auto_update: {{regular: {{}}}}\nagents: {{unassigned: hold}}"));
}

/// Teleport's own resource counts its writings in it.
#[test]
fn the_nonce_of_teleport_s_resource_is_taken_and_means_nothing() {
    let text =
        "kind: cluster_maintenance_config\nversion: v1\nnonce: 18446744073709551615\nspec: {agent_upgrades: {}}\n";
    let resource = super::one(text);
    assert!(!resource.to_yaml().contains("nonce"));
}
