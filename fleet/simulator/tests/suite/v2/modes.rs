//! FLEET §3: disabled before suspended before enabled; the lower of both wins.

use serde_json::json;

use super::{NEW, OLD, Steps, agents, halting, is, resource, version_in, wanted};
use crate::support::Script;

const MODES: [&str; 3] = ["disabled", "suspended", "enabled"];

/// A started group under these modes; `None`: there is no configuration, the version has no mode.
fn started(config: Option<&str>, version: Option<&str>) -> Script {
    let script = match config {
        None => Script::default(),
        Some(mode) => {
            let schedules = json!({ "regular": [{ "name": "dev", "start_hour": 20 }] });
            let spec = json!({ "mode": mode, "strategy": "halt-on-error", "schedules": schedules });
            Script::default().on("Mon 11:00", agents(&spec))
        }
    };
    let mut spec = json!({ "start_version": OLD, "target_version": NEW, "schedule": "immediate" });
    if let Some(mode) = version {
        spec["mode"] = mode.into();
    }
    script.on("Mon 11:00", wanted(&spec))
}

fn mode_of(script: &Script) -> String {
    script.status("Mon 11:00")["status"]["spec"]["autoupdate_mode"].as_str().unwrap().to_owned()
}

#[test]
fn the_lower_mode_of_both_wins() {
    for (of_config, config) in MODES.iter().enumerate() {
        for (of_version, version) in MODES.iter().enumerate() {
            let wanted = MODES[of_config.min(of_version)];
            let script = started(Some(config), Some(version));
            assert_eq!(mode_of(&script), wanted, "{config} and {version}");
            assert_eq!(script.find("Mon 11:01", "dev"), is(NEW, wanted == "enabled"), "{config} and {version}");
        }
    }
}

/// §2.2: config missing → enabled; so the version decides.
#[test]
fn without_a_configuration_the_version_decides() {
    for version in MODES {
        let script = started(None, Some(version));
        assert_eq!(mode_of(&script), version);
        assert_eq!(script.find("Mon 11:01", ""), is(NEW, version == "enabled"));
    }
}

/// D1: without a configuration the version decides; one that is there names a mode.
#[test]
fn a_configuration_without_a_mode_is_refused_and_changes_nothing() {
    let (code, message) = started(None, None).refusal("Mon 11:00", agents(&json!({ "strategy": "halt-on-error" })));
    assert_eq!(code, "bad_resource");
    assert!(message.ends_with("spec.agents.mode: is missing; give enabled, disabled or suspended"), "{message}");
}

/// §1.2: the version's default is disabled.
#[test]
fn where_neither_names_a_mode_nobody_updates() {
    let script = started(None, None);
    assert_eq!(mode_of(&script), "disabled");
    assert_eq!(script.find("Mon 11:01", "dev"), is(NEW, false));
}

/// D1 and "in doubt, what lets fewer hosts go": a version that does not say so enables nobody.
#[test]
fn a_version_without_a_mode_enables_nobody() {
    let script = started(Some("enabled"), None);
    assert!(!script.find("Mon 11:01", "dev").1);
}

/// §1.1: `agents` absent = no agent config.
#[test]
fn a_configuration_of_tools_alone_is_none_for_agents() {
    let script = Script::default()
        .on("Mon 11:00", resource("autoupdate_config", &json!({ "tools": { "mode": "enabled" } })))
        .on("Mon 11:00", version_in("enabled", "regular"));
    let status = script.status("Mon 11:00");
    assert_eq!(status["status"]["spec"]["autoupdate_mode"], "enabled");
    assert_eq!(status["status"]["status"]["groups"][0]["name"], "default");
}

#[test]
fn a_change_of_either_mode_acts_with_the_next_step() {
    let groups = json!([{ "name": "dev", "start_hour": 12 }]);
    let of =
        |mode: &str| agents(&json!({ "mode": mode, "strategy": "halt-on-error", "schedules": { "regular": groups } }));
    let script = Script::default().on("Mon 11:00", halting(&groups)).on("Mon 11:00", version_in("enabled", "regular"));
    assert_eq!(script.find("Mon 12:10", "dev"), is(NEW, true));
    let suspended = script.clone().on("Mon 12:20", of("suspended"));
    assert_eq!(suspended.find("Mon 12:20", "dev"), is(NEW, false));
    let again = suspended.on("Mon 12:30", of("enabled"));
    assert_eq!(again.find("Mon 12:30", "dev"), is(NEW, true));
    let disabled = again.on("Mon 12:40", version_in("disabled", "regular"));
    assert_eq!(disabled.find("Mon 12:40", "dev"), is(NEW, false));
}

/// D7: states only progress when enabled: that lets fewer hosts go.
#[test]
fn a_suspended_or_disabled_rollout_starts_no_group() {
    for mode in ["suspended", "disabled"] {
        let script = Script::default()
            .on("Mon 11:00", halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])))
            .on("Mon 11:00", version_in(mode, "regular"));
        assert_eq!(script.state("Mon 12:30", "dev"), "unstarted", "{mode}");
        let enabled = script.on("Mon 15:00", version_in("enabled", "regular"));
        assert_eq!(enabled.find("Mon 15:00", "dev"), is(OLD, false), "{mode}");
        assert_eq!(enabled.find("Tue 12:00", "dev"), is(NEW, true), "{mode}");
    }
}

#[test]
fn a_disabled_or_suspended_answer_says_so() {
    let code = |mode: &str| {
        let script = Script::default().on("Mon 11:00", version_in(mode, "immediate"));
        script.why("Mon 11:00", "").0
    };
    let codes = [code("disabled"), code("suspended"), code("enabled")];
    assert!(codes[0] != codes[1] && codes[1] != codes[2] && codes[0] != codes[2], "{codes:?}");
}
