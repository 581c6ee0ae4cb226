//! Each stop has a name, and ends by it; what failed in an attempt stays counted in it.

use serde_json::{Value, json};

use super::{Play, labelled, names, with};

/// The stops of a group, by name.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    /// An operator, by the group's name.
    Named,
    /// An operator, of everything.
    All,
    /// Its hosts failed.
    Failures,
}

fn stopped(stop: Stop) -> Play {
    let mut play = Play::default();
    let groups = json!([labelled("staging"), labelled("prod")]);
    play.groups("Mon 08:00", groups).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(4), "staging").hosts("Mon 11:50", &["p1"], "prod");
    assert!(play.is_told("Mon 12:00", "h01"));
    match stop {
        Stop::Named => play.say("Mon 12:01", json!({ "halt": { "groups": ["staging"] } })),
        Stop::All => play.say("Mon 12:01", json!({ "halt": { "all": true } })),
        Stop::Failures => play.fails("Mon 12:01", "h01"),
    };
    assert_eq!(play.state("Mon 12:02", "staging"), "halted", "{stop:?}");
    play
}

#[test]
fn each_stop_ends_by_its_name_and_by_nothing_else() {
    let policy = |groups: Value| put_groups(groups);
    let renamed = || with(labelled("other"), json!({ "agents": labelled("staging")["agents"] }));
    let wide = || with(labelled("staging"), json!({ "max_failed_before_halt": "100%" }));
    for stop in [Stop::Named, Stop::All, Stop::Failures] {
        let table = [
            (json!({ "run": { "groups": ["staging"] } }), true),
            (json!({ "run": { "all": true } }), stop == Stop::All),
            (json!({ "run": { "groups": ["prod"] } }), false),
            (json!({ "start": { "groups": ["staging"] } }), false),
            (json!({ "release": { "host": "h01" } }), false),
            (policy(json!([wide(), labelled("prod")])), false),
            (policy(json!([labelled("prod")])), false),
            (policy(json!([renamed(), labelled("prod")])), false),
            (
                json!({ "put": { "kind": "fleet_release", "version": "v1", "metadata": { "name": "r" }, "spec": {
                "version": "2.0.0", "channels": [] } } }),
                false,
            ),
        ];
        for (action, ends) in table {
            let mut play = stopped(stop);
            play.script = std::mem::take(&mut play.script).line(&super::at("Mon 12:03"), action.clone());
            // Whether it is accepted or refused is not asked here.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play.last()));
            play.refusals = play.answers.iter().filter(|answer| !answer["error"].is_null()).count();
            let goes = play.is_told("Mon 12:05", "h02");
            assert_eq!(goes, ends, "{stop:?} {action}");
        }
    }
}

fn put_groups(groups: Value) -> Value {
    super::put("cluster_maintenance_config", json!({ "agent_auto_update_groups": { "regular": groups } }))
}
