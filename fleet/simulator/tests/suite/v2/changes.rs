//! FLEET §3: what begins a rollout anew, and what changes one that goes on.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, agents, dev_and_prod, halting, immediate, is, mark_done, resource, rollback, start, t, timed,
    version, version_in, version_of,
};
use crate::support::Script;

/// `dev` is done, `stage` is active, `prod` has not begun.
fn under_way() -> Script {
    Script::default()
        .on("Mon 11:00", halting(&three()))
        .on("Mon 11:00", version())
        .on("Mon 11:10", mark_done(&["dev"]))
        .on("Mon 11:10", start(&["stage"]))
}

fn three() -> Value {
    json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "stage", "days": ["*"], "start_hour": 16 },
        { "name": "prod", "days": ["*"], "start_hour": 20 },
    ])
}

fn states(script: &Script, when: &str) -> Vec<String> {
    let status = script.status(when);
    let groups = status["status"]["status"]["groups"].as_array().unwrap();
    groups
        .iter()
        .map(|group| format!("{}: {}", group["name"].as_str().unwrap(), group["state"].as_str().unwrap()))
        .collect()
}

fn begun(script: &Script, when: &str) -> Value {
    script.status(when)["status"]["status"]["start_time"].clone()
}

const BEFORE: [&str; 3] = ["dev: done", "stage: active", "prod: unstarted"];
const ANEW: [&str; 3] = ["dev: unstarted", "stage: unstarted", "prod: unstarted"];

#[test]
fn a_rollout_begins_with_the_version_and_all_its_groups_are_unstarted() {
    let script = dev_and_prod();
    let status = script.status("Mon 11:00");
    assert_eq!(status["status"]["spec"]["start_version"], OLD);
    assert_eq!(status["status"]["spec"]["target_version"], NEW);
    assert_eq!(status["status"]["spec"]["schedule"], "regular");
    assert_eq!(status["status"]["spec"]["strategy"], "halt-on-error");
    assert_eq!(status["status"]["status"]["state"], "unstarted");
    assert_eq!(status["status"]["status"]["start_time"], t("Mon 11:00").as_str());
    let group = script.group("Mon 11:00", "dev");
    assert_eq!(group["last_update_time"], t("Mon 11:00").as_str());
    assert_eq!(group["config_days"], json!(["*"]));
    assert_eq!(group["config_start_hour"], 12);
    assert_eq!(group["config_wait_hours"], 0);
}

#[test]
fn another_target_or_start_drops_whatever_the_groups_were_doing() {
    for next in [version_of(OLD, "17.2.2"), version_of("17.1.0", NEW)] {
        let script = under_way().on("Mon 11:20", rollback(&["dev"])).on("Mon 11:30", next);
        assert_eq!(states(&script, "Mon 11:30"), ANEW);
        assert_eq!(begun(&script, "Mon 11:30"), t("Mon 11:30").as_str());
        assert!(!script.find("Mon 11:30", "dev").1);
    }
}

#[test]
fn another_target_ends_canaries() {
    let groups = json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "canary_count": 1 }]);
    let script =
        super::rollout(&groups).hosts("Mon 11:55", 1..=1, "dev", OLD).on("Mon 12:01", version_of(OLD, "17.2.2"));
    assert_eq!(script.state("Mon 12:01", "dev"), "unstarted");
    assert_eq!(script.find_host("Mon 12:01", 1, "dev"), is(OLD, false));
}

#[test]
fn another_strategy_begins_anew() {
    let script = under_way().on("Mon 11:30", timed("1h", &three()));
    assert_eq!(states(&script, "Mon 11:30"), ANEW);
    assert_eq!(begun(&script, "Mon 11:30"), t("Mon 11:30").as_str());
}

#[test]
fn immediate_drops_the_groups_and_regular_brings_them_back_unstarted() {
    let script = under_way().on("Mon 11:30", immediate());
    let status = script.status("Mon 11:30");
    assert_eq!(status["status"]["status"]["groups"], json!([]));
    assert_eq!(status["status"]["status"]["start_time"], t("Mon 11:30").as_str());
    for group in ["dev", "prod", "lab", ""] {
        assert_eq!(script.find("Mon 11:30", group), is(NEW, true), "{group}");
    }
    let script = script.on("Mon 11:40", version());
    assert_eq!(states(&script, "Mon 11:40"), ANEW);
    assert_eq!(script.find("Mon 11:40", "dev"), is(OLD, false));
}

#[test]
fn modes_touch_no_group() {
    for mode in ["suspended", "disabled", "enabled"] {
        let script = under_way().on("Mon 11:30", version_in(mode, "regular"));
        assert_eq!(states(&script, "Mon 11:30"), BEFORE, "{mode}");
        assert_eq!(begun(&script, "Mon 11:30"), t("Mon 11:00").as_str(), "{mode}");
        assert_eq!(script.status("Mon 11:30")["status"]["spec"]["autoupdate_mode"], mode);
    }
}

#[test]
fn writing_the_same_again_begins_nothing() {
    let script = under_way()
        .on("Mon 11:30", version())
        .on("Mon 11:30", version_of("v17.2.0", "v17.2.1"))
        .on("Mon 11:30", halting(&three()));
    assert_eq!(states(&script, "Mon 11:30"), BEFORE);
    assert_eq!(begun(&script, "Mon 11:30"), t("Mon 11:00").as_str());
}

#[test]
fn other_groups_days_hours_and_canaries_wait_for_the_next_rollout() {
    let next = json!([
        { "name": "first", "days": ["*"], "start_hour": 11 },
        { "name": "prod", "days": ["Sun"], "start_hour": 11, "canary_count": 5 },
        { "name": "dev", "days": ["*"], "start_hour": 11 },
    ]);
    let script = under_way().on("Mon 11:30", halting(&next));
    assert_eq!(states(&script, "Mon 11:30"), BEFORE);
    let prod = script.group("Mon 11:30", "prod");
    assert_eq!((&prod["config_start_hour"], &prod["config_days"]), (&json!(20), &json!(["*"])));
    // Its old window is the one that counts, and it has no canaries.

    assert_eq!(script.state("Mon 19:59:59", "prod"), "unstarted");
    assert_eq!(script.hosts("Mon 19:59", 1..=3, "prod", OLD).state("Mon 20:00", "prod"), "active");
}

#[test]
fn the_next_rollout_has_the_groups_of_the_configuration_as_it_is_then() {
    let next = json!([
        { "name": "first", "days": ["*"], "start_hour": 13 },
        { "name": "dev", "days": ["Sat", "Sun"], "start_hour": 14, "canary_count": 2 },
    ]);
    let script = under_way().on("Mon 11:30", halting(&next)).on("Mon 11:40", version_of(NEW, "17.2.2"));
    assert_eq!(states(&script, "Mon 11:40"), ["first: unstarted", "dev: unstarted"]);
    let dev = script.group("Mon 11:40", "dev");
    assert_eq!((&dev["config_start_hour"], &dev["config_days"]), (&json!(14), &json!(["Sat", "Sun"])));
    assert_eq!(dev["canary_count"], 2);
}

/// §2.8: the maintenance window's duration changes the spec, and resets nothing.
#[test]
fn another_window_duration_begins_nothing() {
    let groups = json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }]);
    let script = Script::default()
        .on("Mon 11:00", timed("1h", &groups))
        .on("Mon 11:00", version())
        .on("Mon 12:10", timed("2h", &groups));
    assert_eq!(script.state("Mon 12:10", "dev"), "active");
    assert_eq!(begun(&script, "Mon 12:10"), t("Mon 11:00").as_str());
}

/// FLEET §2: pace, thresholds and freezes act with the next step.
#[test]
fn thresholds_act_on_the_rollout_that_goes_on() {
    let of = |percent: u32| {
        halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "max_failed_before_halt": percent }]))
    };
    let script = Script::default()
        .on("Mon 11:00", of(50))
        .on("Mon 11:00", version())
        .hosts("Mon 11:59", 1..=10, "dev", OLD)
        .on("Mon 12:01", super::asks(1, "dev"))
        .on("Mon 12:01", super::asks(2, "dev"))
        .on("Mon 12:05", super::failed(1, "dev"))
        .on("Mon 12:05", super::failed(2, "dev"));
    assert_eq!(script.state("Mon 12:06", "dev"), "active");
    assert_eq!(script.clone().on("Mon 12:06", of(20)).state("Mon 12:06", "dev"), "active");
    assert_eq!(script.on("Mon 12:06", of(19)).state("Mon 12:06", "dev"), "halted");
}

#[test]
fn a_freeze_acts_on_the_rollout_that_goes_on() {
    let frozen = halting(&json!([{
        "name": "dev", "days": ["*"], "start_hour": 12,
        "blackout": [{ "from": t("Mon 12:10"), "to": t("Mon 12:20"), "reason": "sale" }],
    }]));
    let script = super::rollout(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])).on("Mon 12:05", frozen);
    assert!(script.find("Mon 12:09", "dev").1);
    assert!(!script.find("Mon 12:10", "dev").1);
    assert!(!script.find("Mon 12:19:59", "dev").1);
    assert!(script.find("Mon 12:20", "dev").1);
}

#[test]
fn without_its_version_a_rollout_is_gone() {
    let gone = [
        json!({ "rm": "autoupdate_version" }),
        resource("autoupdate_version", &json!({ "tools": { "target_version": NEW } })),
    ];
    for action in gone {
        let script = under_way().on("Mon 11:30", action);
        assert_eq!(script.refusal("Mon 11:30", json!({ "status": {} })).0, "no_rollout");
        assert_eq!(script.refusal("Mon 11:30", json!({ "find": { "group": "stage" } })).0, "no_rollout");
        let script = script.on("Mon 11:40", version());
        assert_eq!(states(&script, "Mon 11:40"), ANEW);
        assert_eq!(begun(&script, "Mon 11:40"), t("Mon 11:40").as_str());
    }
}

#[test]
fn without_a_configuration_the_strategy_is_halt_on_error() {
    let script = Script::default().on("Mon 11:00", timed("1h", &three())).on("Mon 11:00", version());
    assert_eq!(script.status("Mon 11:10")["status"]["spec"]["strategy"], "time-based");
    let script = script.on("Mon 11:10", json!({ "rm": "autoupdate_config" }));
    let status = script.status("Mon 11:10");
    assert_eq!(status["status"]["spec"]["strategy"], "halt-on-error");
    // It differed: a new rollout, of the default group.
    assert_eq!(status["status"]["status"]["start_time"], t("Mon 11:10").as_str());
    assert_eq!(states(&script, "Mon 11:10"), ["default: unstarted"]);
}

#[test]
fn a_removed_configuration_of_the_same_strategy_leaves_the_groups_and_the_versions_mode() {
    let suspended =
        agents(&json!({ "mode": "suspended", "strategy": "halt-on-error", "schedules": { "regular": three() } }));
    let script = under_way().on("Mon 11:20", suspended);
    assert_eq!(script.find("Mon 11:20", "stage"), is(NEW, false));
    let script = script.on("Mon 11:30", json!({ "rm": "autoupdate_config" }));
    assert_eq!(states(&script, "Mon 11:30"), BEFORE);
    assert_eq!(script.find("Mon 11:30", "stage"), is(NEW, true));
}

#[test]
fn what_is_not_there_cannot_be_removed() {
    let script = Script::default();
    assert_eq!(script.refusal("Mon 11:00", json!({ "rm": "autoupdate_version" })).0, "not_found");
    assert_eq!(script.refusal("Mon 11:00", json!({ "rm": "autoupdate_config" })).0, "not_found");
}

/// §2.3: without groups there is one, `default`, from Monday to Thursday at 12:00 UTC.
#[test]
fn without_a_configuration_there_is_the_default_group() {
    for (begun, starts) in
        [("Mon 11:00", "Mon 12:00"), ("Thu 13:00", "next Mon 12:00"), ("Sat 11:00", "next Mon 12:00")]
    {
        let script = Script::default().on(begun, version());
        let group = script.group(begun, "default");
        assert_eq!(group["config_days"], json!(["Mon", "Tue", "Wed", "Thu"]));
        assert_eq!(group["config_start_hour"], 12);
        assert_eq!(script.find(&starts.replace("12:00", "11:59:59"), "any"), is(OLD, false), "{begun}");
        assert_eq!(script.find(starts, "any"), is(NEW, true), "{begun}");
    }
}

#[test]
fn without_groups_there_is_the_default_group() {
    for spec in [
        json!({ "mode": "enabled", "strategy": "halt-on-error" }),
        json!({ "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": [] } }),
        json!({ "mode": "enabled", "strategy": "time-based", "maintenance_window_duration": "1h" }),
    ] {
        let script = Script::default().on("Mon 11:00", agents(&spec)).on("Mon 11:00", version());
        assert_eq!(states(&script, "Mon 11:00"), ["default: unstarted"]);
        assert_eq!(script.find("Mon 12:00", "any"), is(NEW, true));
    }
}

#[test]
fn the_clusters_maintenance_window_makes_default_cmc() {
    let window = resource(
        "cluster_maintenance_config",
        &json!({ "agent_upgrades": { "utc_start_hour": 2, "weekdays": ["Sat"] } }),
    );
    let script = Script::default().on("Mon 11:00", window).on("Mon 11:00", version());
    assert_eq!(states(&script, "Mon 11:00"), ["default-cmc: unstarted"]);
    assert_eq!(script.find("Mon 12:30", "any"), is(OLD, false));
    assert_eq!(script.find("Sat 01:59:59", "any"), is(OLD, false));
    assert_eq!(script.find("Sat 02:00", "any"), is(NEW, true));
}

#[test]
fn a_maintenance_window_without_weekdays_is_open_every_day() {
    let window = resource("cluster_maintenance_config", &json!({ "agent_upgrades": { "utc_start_hour": 2 } }));
    let script = Script::default().on("Fri 11:00", window).on("Fri 11:00", version());
    assert_eq!(script.group("Fri 11:00", "default-cmc")["config_days"], json!(["*"]));
    assert_eq!(script.find("Sat 02:00", "any"), is(NEW, true));
}

#[test]
fn a_maintenance_window_changes_nothing_where_there_are_groups() {
    let window = resource("cluster_maintenance_config", &json!({ "agent_upgrades": { "utc_start_hour": 2 } }));
    let script =
        Script::default().on("Mon 11:00", window).on("Mon 11:00", halting(&three())).on("Mon 11:00", version());
    assert_eq!(states(&script, "Mon 11:00"), ANEW);
}

/// §2.3: the state of the whole.
#[test]
fn the_state_of_the_whole_comes_from_its_groups() {
    let state = |script: &Script| script.status("Mon 11:30")["status"]["status"]["state"].clone();
    let base = Script::default().on("Mon 11:00", halting(&three())).on("Mon 11:00", version());
    let all = ["dev", "stage", "prod"];
    assert_eq!(state(&base), "unstarted");
    assert_eq!(state(&base.clone().on("Mon 11:10", start(&["prod"]))), "active");
    assert_eq!(state(&base.clone().on("Mon 11:10", mark_done(&["dev"]))), "active");
    assert_eq!(state(&base.clone().on("Mon 11:10", mark_done(&["dev", "stage"]))), "active");
    assert_eq!(state(&base.clone().on("Mon 11:10", mark_done(&all))), "done");
    let one_back = base.clone().on("Mon 11:10", mark_done(&all)).on("Mon 11:11", rollback(&["stage"]));
    assert_eq!(state(&one_back), "rolledback");
    assert_eq!(state(&base.clone().on("Mon 11:10", rollback(&["prod"]))), "rolledback");
    assert_eq!(state(&base.on("Mon 11:10", rollback(&all))), "rolledback");
}

#[test]
fn a_group_with_canaries_alone_makes_an_active_rollout() {
    let groups = json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "canary_count": 1 }]);
    let script = super::rollout(&groups).hosts("Mon 11:55", 1..=2, "dev", OLD);
    let status = script.status("Mon 12:00");
    assert_eq!(status["status"]["status"]["groups"][0]["state"], "canary");
    assert_eq!(status["status"]["status"]["state"], "active");
}

/// No groups → unspecified.
#[test]
fn an_immediate_rollout_has_no_state() {
    let state = Script::default().on("Mon 11:00", immediate()).status("Mon 11:00")["status"]["status"]["state"].clone();
    assert!(state.is_null() || state == "unspecified", "{state}");
}

/// setGroupState: the time moves only if state or reason changed.
#[test]
fn the_last_update_time_moves_with_state_or_reason_only() {
    let script = dev_and_prod();
    let at = |script: &Script, when: &str| script.group(when, "prod")["last_update_time"].as_str().unwrap().to_owned();
    // `previous_groups_not_done` came with the first step.
    assert_eq!(at(&script, "Mon 11:30"), t("Mon 11:00"));
    let script = script.counts("Mon 11:59:30", &[("dev", OLD, 1)]);
    assert_eq!(at(&script, "Mon 13:30"), t("Mon 11:00"));
    let done = script.on("Mon 13:00", mark_done(&["dev"]));
    let group = |when: &str| done.group(when, "prod");
    assert_eq!(group("Mon 13:30")["last_update_reason"], "cannot_start");
    assert_eq!(group("Mon 13:30")["last_update_time"], t("Mon 13:00").as_str());
    assert_eq!(at(&done, "Mon 14:30"), t("Mon 14:01"), "can_start, then update_in_progress");
}
