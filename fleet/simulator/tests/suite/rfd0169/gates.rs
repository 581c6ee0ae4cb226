//! When a group may start.

use serde_json::{Value, json};

use super::{Play, labelled, names, with};

/// Groups that require one another, each with one host of its own name.
fn chain(groups: &[(&str, &[&str])]) -> Play {
    let group = |(name, requires): &(&str, &[&str])| with(labelled(name), json!({ "requires": requires }));
    let mut play = Play::default();
    play.groups("Mon 08:00", groups.iter().map(group).collect::<Value>()).target("Mon 08:00", "2.0.0");
    for (name, _) in groups {
        play.hosts("Mon 11:50", &[name], name);
    }
    play
}

#[test]
fn every_change_of_version_or_schedule_resets_all_progress() {
    let flat = |version: &str, schedule: &str| json!({ "agent_version": version, "agent_start_version": "1.0.0", "agent_version_schedule": schedule });
    for (version, schedule) in [("2.0.1", "regular"), ("2.0.0", "critical")] {
        let mut play = chain(&[("test", &[]), ("staging", &["test"])]);
        assert!(play.is_told("Mon 12:01", "test"));
        play.say("Mon 12:02", json!({ "find": {} }));
        let before = play.last()["find"]["fleet"]["rollout"].as_u64().unwrap();
        play.heard("Mon 13:59", &["test"]).put("Mon 14:00", "autoupdate_version", flat(version, schedule));
        let after = play.say("Mon 14:00", json!({ "find": {} })).last()["find"]["fleet"]["rollout"].as_u64().unwrap();
        assert!(after > before, "rollouts are numbered");
        assert_eq!(
            play.count("Mon 14:00", "test", "let_go"),
            u64::from(schedule == "critical"),
            "{version} {schedule}"
        );
    }
}

#[test]
fn writing_what_is_there_already_changes_nothing() {
    let mut play = Play::staging(json!({ "max_in_flight": "50%" }));
    play.hosts("Mon 11:50", names(4), "staging");
    assert_eq!(play.told("Mon 12:01", names(4)).len(), 2);
    let before = play.group("Mon 12:02", "staging");
    play.groups("Mon 12:02", json!([with(labelled("staging"), json!({ "max_in_flight": "50%" }))]))
        .target("Mon 12:02", "2.0.0");
    assert_eq!(play.group("Mon 12:02", "staging"), before);
}
