use super::super::{AgentVersions, PolicyDialect};
use super::version;
use crate::policy::{Mode, Schedule};

fn wanted(spec: &str) -> AgentVersions {
    version(spec).agents.unwrap()
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
fn a_flat_version_has_three_schedules() {
    for (word, schedule) in
        [("regular", Schedule::Regular), ("critical", Schedule::Critical), ("immediate", Schedule::Immediate)]
    {
        let flat = format!("agent_version: 1.0.0\nagent_version_schedule: {word}");
        assert_eq!(wanted(&flat).schedule, schedule);
    }
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
}

#[test]
fn a_version_may_be_of_tools_alone() {
    let versions = version("tools: {target_version: v17.2.1}");
    assert_eq!((versions.agents, versions.tools), (None, Some("17.2.1".parse().unwrap())));
    assert_eq!(version("{}").tools, None);
    assert_eq!(version("agent_version: 1.0.0\ntools: {}").tools, None);
}
