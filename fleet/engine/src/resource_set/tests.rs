use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::fleet::HostReport;
use crate::resource::read;

const TARGET: &str = "kind: autoupdate_version\nspec: {agent_version: 17.3.0, agent_start_version: 17.2.0}\n";

/// A resources with what `texts` say, all of it taken.
fn resources(texts: &[&str]) -> (ResourceSet, RolloutState) {
    let (mut resources, mut state) = (ResourceSet::default(), RolloutState::default());
    for text in texts {
        resources.put_all(read(text).unwrap(), &mut state).unwrap();
    }
    (resources, state)
}

/// Why `text` is refused beside `texts`, for hosts that run these versions; nothing changes by it.
fn refused_for(texts: &[&str], text: &str, versions: &[&str]) -> Option<String> {
    let (mut resources, mut state) = resources(texts);
    let before = (resources.clone(), state.clone());
    let fleet = fleet(versions);
    match resources.put_all_for(read(text).unwrap(), &mut state, &fleet) {
        Ok(()) => None,
        Err(Refused::Conflict(message)) => {
            assert_eq!((resources, state), before, "{message}");
            Some(message)
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn refused(texts: &[&str], text: &str) -> Option<String> {
    refused_for(texts, text, &[])
}

/// Hosts 1, 2, … with these versions.
fn fleet(versions: &[&str]) -> Fleet {
    let mut fleet = Fleet::default();
    for (host, version) in (1..).zip(versions) {
        let report = HostReport { host, version: Some((*version).to_owned()), ..HostReport::default() };
        fleet.report(&report, None, Timestamp::UNIX_EPOCH);
    }
    fleet
}

fn release(name: &str, spec: &Value) -> String {
    json!({ "kind": "fleet_release", "metadata": { "name": name }, "spec": spec }).to_string()
}

fn plain(spec: &Value) -> String {
    json!({ "kind": "fleet_release", "spec": spec }).to_string()
}

fn channel(group: &str) -> String {
    json!({ "kind": "fleet_channel", "metadata": { "name": "stable" }, "spec": { "group": group } }).to_string()
}

#[test]
fn a_version_has_one_release() {
    let first = release("a", &json!({ "version": "17.3.0" }));
    let message = refused(&[&first], &release("b", &json!({ "version": "v17.3.0", "deadend": true })));
    let wanted = "spec.version: 17.3.0 has the fleet_release \"a\" and would have \"b\": write into one of them";
    assert_eq!(message.as_deref(), Some(wanted));
    assert_eq!(refused(&[&first], &release("b", &json!({ "version": "17.3.1" }))), None);
    assert_eq!(refused(&[&first], &release("a", &json!({ "version": "17.3.0", "deadend": true }))), None);
    let both = format!("{first}\n---\n{}", release("c", &json!({ "version": "17.3.0" })));
    assert!(refused(&[], &both).unwrap().contains("\"a\" and would have \"c\""));
}

#[test]
fn a_channel_names_a_group_that_there_is() {
    let policy = "kind: autoupdate_config\nspec: {agents: {mode: enabled, strategy: halt-on-error, schedules: \
                  {regular: [{name: dev}, {name: prod}], critical: [{name: all}]}}}";
    for group in ["dev", "prod", "all"] {
        assert_eq!(refused(&[policy], &channel(group)), None, "{group}");
    }
    let wanted = "fleet_channel stable: spec.group: there is no group \"pord\"; known are dev, prod, all";
    assert_eq!(refused(&[policy], &channel("pord")).as_deref(), Some(wanted));
    // Without a configuration there is Managed Updates' group.
    assert_eq!(refused(&[], &channel("default")), None);
    assert!(refused(&[], &channel("dev")).unwrap().ends_with("known are default"));
    // In one change, in any order.
    assert_eq!(refused(&[], &format!("{}\n---\n{policy}", channel("dev"))), None);
    // A channel that is there already keeps nobody from another policy.
    assert_eq!(refused(&[policy, &channel("dev")], &policy.replace("dev", "test")), None);
    // A group of the rollout that the policy has no more.
    let (mut resources, mut state) = resources(&[policy, TARGET]);
    state.step(&mut Fleet::default(), Timestamp::UNIX_EPOCH);
    resources.put_all(read(&policy.replace("dev", "test")).unwrap(), &mut state).unwrap();
    resources.put_all(read(&channel("dev")).unwrap(), &mut state).unwrap();
    assert!(resources.put_all(read(&channel("all2")).unwrap(), &mut state).is_err());
}

#[test]
fn what_was_written_can_be_written_again_whatever_has_become_of_its_group_version_or_channel() {
    let policy = "kind: autoupdate_config\nspec: {agents: {mode: enabled, strategy: halt-on-error, schedules: \
                  {regular: [{name: dev}, {name: prod}]}}}";
    let fixed = "kind: fleet_channel\nmetadata: {name: fixed}\nspec: {static_version: 17.2.9}";
    let (mut resources, mut state) = resources(&[policy, TARGET, &channel("dev"), fixed]);
    let all = || read(&format!("{}\n---\n{fixed}", channel("dev"))).unwrap();
    // The group leaves the policy, and the rollout that still had it is another's now; the version is blocked.
    resources.put_all(read(&policy.replace("dev", "test")).unwrap(), &mut state).unwrap();
    resources.put_all(read(&TARGET.replace("17.3.0", "17.4.0")).unwrap(), &mut state).unwrap();
    state.step(&mut Fleet::default(), Timestamp::UNIX_EPOCH);
    assert!(!state.group_names().contains(&"dev"));
    let blocked = release("bad", &json!({ "version": "17.2.9", "blocked": { "reason": "x" } }));
    resources.put_all(read(&blocked).unwrap(), &mut state).unwrap();
    let before = (resources.clone(), state.clone());
    resources.put_all(all(), &mut state).unwrap();
    assert_eq!((&resources, &state), (&before.0, &before.1));
    // What it would mean from now on is asked.
    let critical = |text: &str| {
        text.replace("spec: {", "spec: {critical: true, ").replace("\"spec\":{", "\"spec\":{\"critical\":true,")
    };
    for text in [critical(&channel("dev")), critical(fixed)] {
        assert!(resources.put_all(read(&text).unwrap(), &mut state).is_err(), "{text}");
    }
    let mut crowd = ResourceSet::default();
    let of = |number: usize| {
        release(&format!("r{number}"), &json!({ "version": format!("1.0.{number}"), "channels": ["stable"] }))
    };
    crowd.put_back((0..MOST_IN_CHANNEL + 5).flat_map(|number| read(&of(number)).unwrap()).collect());
    crowd.put_all(read(&of(3)).unwrap(), &mut RolloutState::default()).unwrap();
}

#[test]
fn a_target_is_reached_from_the_versions_that_its_release_names() {
    let release = plain(&json!({ "version": "17.3.0", "requires_from": ["17.2.0", "17.1.9"] }));
    let refused = |versions: &[&str]| refused_for(&[&release], TARGET, versions);
    assert_eq!(refused(&["17.2.0", "17.1.9", "17.3.0", "17.4.0"]), None);
    assert_eq!(
        refused(&["17.2.0", "17.1.0"]).as_deref(),
        Some(
            "17.3.0 cannot be reached by every host: 1 host (00000000-0000-0000-0000-000000000002) runs 17.1.0, and it is \
             reached from 17.2.0 or 17.1.9 alone: roll that out first"
        )
    );
    let many = refused(&["17.1.0"; 5]).unwrap();
    assert!(many.contains("5 hosts (00000000-0000-0000-0000-000000000001, "), "{many}");
    assert!(many.contains("-000000000003, 2 more) run 17.1.0"), "{many}");
}

#[test]
fn nobody_goes_past_a_barrier_or_leaves_a_dead_end() {
    let barrier = |version: &str| plain(&json!({ "version": version, "barrier": true }));
    let (low, high) = (barrier("17.1.0"), barrier("17.2.5"));
    let refused = |versions: &[&str]| refused_for(&[&low, &high], TARGET, versions);
    assert_eq!(refused(&["17.2.5", "17.2.6"]), None);
    assert!(
        refused(&["17.2.0"])
            .unwrap()
            .ends_with("runs 17.2.0, and must run 17.2.5 before, a barrier: roll that out first")
    );
    assert!(refused(&["17.0.0"]).unwrap().contains("must run 17.1.0 before"));
    // The barrier itself may be the target.
    assert_eq!(refused_for(&[&low], &TARGET.replace("17.3.0", "17.1.0"), &["17.0.0"]), None);
    let deadend = plain(&json!({ "version": "17.2.6", "deadend": true }));
    assert!(refused_for(&[&deadend], TARGET, &["17.2.6"]).unwrap().contains("which is a dead end"));
    assert_eq!(refused_for(&[&deadend], TARGET, &["17.2.5"]), None);
    // Back from it is another thing.
    assert_eq!(refused_for(&[&deadend], &TARGET.replace("17.3.0", "17.2.1"), &["17.2.6"]), None);
}

#[test]
fn hosts_that_are_kept_from_updates_and_unknown_versions_keep_no_target() {
    let release = plain(&json!({ "version": "17.3.0", "requires_from": ["17.2.0"] }));
    let (mut resources, mut state) = resources(&[&release]);
    let mut fleet = fleet(&["17.1.0"]);
    fleet.question(9, Some("dev"), 0, None, Timestamp::UNIX_EPOCH);
    assert!(resources.put_all_for(read(TARGET).unwrap(), &mut state, &fleet).is_err());
    fleet.decide(1, None, Timestamp::UNIX_EPOCH, |flags| flags.held = true);
    resources.put_all_for(read(TARGET).unwrap(), &mut state, &fleet).unwrap();
    // The same target again, though a host has come that cannot reach it: it is rolled out already.
    fleet.decide(1, None, Timestamp::UNIX_EPOCH, |flags| flags.held = false);
    resources.put_all_for(read(TARGET).unwrap(), &mut state, &fleet).unwrap();
}

#[test]
fn a_channel_has_at_most_so_many_releases() {
    let many = |from: usize, to: usize, channel: &str| -> String {
        let of = |number| {
            release(&format!("r{number}"), &json!({ "version": format!("1.0.{number}"), "channels": [channel] }))
        };
        (from..to).map(of).collect::<Vec<_>>().join("\n---\n")
    };
    let full = many(0, MOST_IN_CHANNEL, "stable");
    let message = refused(&[&full], &many(900, 901, "stable")).unwrap();
    assert!(message.contains("\"stable\" would have 251 releases, at most 250"), "{message}");
    assert_eq!(refused(&[&full], &many(0, 1, "stable")), None, "one that is there already");
    assert_eq!(refused(&[&full], &many(900, 901, "beta")), None);
    assert!(refused(&[], &many(0, MOST_IN_CHANNEL + 1, "stable")).is_some());
    // A store that has more than that is taken, and whatever is no release can be written.
    let mut resources = ResourceSet::default();
    resources.put_back(read(&many(0, MOST_IN_CHANNEL + 5, "stable")).unwrap());
    let mut state = RolloutState::default();
    resources.put_all(read(TARGET).unwrap(), &mut state).unwrap();
    resources.remove("fleet_release/r3", &mut state).unwrap();
    assert!(resources.put_all(read(&many(900, 901, "stable")).unwrap(), &mut state).is_err());
}
