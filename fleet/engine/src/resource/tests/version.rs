use super::super::{AgentVersions, PolicyDialect};
use super::{document, faults, version};
use crate::policy::{Mode, Schedule};

fn wanted(spec: &str) -> AgentVersions {
    version(spec).agents.unwrap()
}

fn fault(spec: &str) -> String {
    faults(&document("autoupdate_version", spec))
}

#[test]
fn a_nested_version_is_disabled_and_regular_unless_it_says_otherwise() {
    let agents = wanted("agents: {start_version: v17.2.0, target_version: 17.2.1-rc.1+b}");
    let wanted = AgentVersions {
        dialect: PolicyDialect::V2,
        start: Some("17.2.0".parse().unwrap()),
        target: "17.2.1-rc.1+b".parse().unwrap(),
        schedule: Schedule::Regular,
        mode: Mode::Disabled,
    };
    assert_eq!(agents, wanted);
    let text = "agents: {start_version: 1.0.0, target_version: 1.0.0, schedule: immediate, mode: suspended}";
    let agents = super::version::wanted(text);
    assert_eq!((agents.schedule, agents.mode), (Schedule::Immediate, Mode::Suspended));
}

#[test]
fn a_nested_version_needs_start_and_target_as_strict_versions() {
    assert_eq!(
        fault("agents: {}"),
        "line 3: spec.agents.start_version: is missing; give the version that hosts run before their turn\n\
         line 3: spec.agents.target_version: is missing; give the version that hosts shall run"
    );
    for bad in ["17.2", "17", "latest", "17.2.x", "vv1.0.0", "01.0.0"] {
        assert_eq!(
            fault(&format!("agents: {{start_version: 1.0.0, target_version: {bad}}}")),
            format!("line 3: spec.agents.target_version: {bad} is not a version such as 17.2.1")
        );
    }
}

#[test]
fn a_nested_version_has_two_schedules_and_a_flat_one_three() {
    let agents = "start_version: 1.0.0, target_version: 1.0.0";
    assert_eq!(
        fault(&format!("agents: {{{agents}, schedule: critical}}")),
        "line 3: spec.agents.schedule: critical is not regular or immediate"
    );
    for (word, schedule) in
        [("regular", Schedule::Regular), ("critical", Schedule::Critical), ("immediate", Schedule::Immediate)]
    {
        let flat = format!("agent_version: 1.0.0\nagent_version_schedule: {word}");
        assert_eq!(wanted(&flat).schedule, schedule);
    }
    assert_eq!(
        fault("agent_version: 1.0.0\nagent_version_schedule: daily"),
        "line 4: spec.agent_version_schedule: daily is not regular, critical or immediate"
    );
}

#[test]
fn a_flat_version_takes_its_start_from_the_server_where_it_has_none() {
    let agents = wanted("agent_version: v15.1.1");
    assert_eq!((agents.dialect, agents.start.clone(), agents.mode), (PolicyDialect::Rfd0169, None, Mode::Enabled));
    assert_eq!(agents.schedule, Schedule::Regular);
    let before = "15.1.0".parse().unwrap();
    assert_eq!(agents.target(&before).start, before);
    let own = wanted("agent_version: 15.1.1\nagent_start_version: 15.0.9").target(&before);
    assert_eq!((own.start.to_string(), own.target.to_string()), ("15.0.9".to_owned(), "15.1.1".to_owned()));
    assert_eq!(
        fault("agent_start_version: 1.0.0"),
        "line 3: spec.agent_version: is missing; give the version that hosts shall run"
    );
}

#[test]
fn both_dialects_at_once_are_refused() {
    assert_eq!(
        fault("agent_version: 1.0.0\nagents: {start_version: 1.0.0, target_version: 1.0.0}"),
        "line 4: spec.agents: stands beside agent_version: write one of them, in one dialect"
    );
}

#[test]
fn a_version_may_be_of_tools_alone() {
    let versions = version("tools: {target_version: v17.2.1}");
    assert_eq!((versions.agents, versions.tools), (None, Some("17.2.1".parse().unwrap())));
    assert_eq!(version("{}").tools, None);
    assert_eq!(version("agent_version: 1.0.0\ntools: {}").tools, None);
    assert_eq!(
        fault("tools: {target_version: new}"),
        "line 3: spec.tools.target_version: new is not a version such as 17.2.1"
    );
    assert_eq!(
        fault("agent_versoin: 1.0.0"),
        "line 3: spec.agent_versoin: is not a known key; did you mean agent_version?"
    );
}
