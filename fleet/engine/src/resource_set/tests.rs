use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
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

/// Why `text` is refused beside `texts`; nothing changes by it.
fn refused(texts: &[&str], text: &str) -> Option<String> {
    let (mut resources, mut state) = resources(texts);
    let before = (resources.clone(), state.clone());
    match resources.put_all(read(text).unwrap(), &mut state) {
        Ok(()) => None,
        Err(Refusal { code: "conflict", message }) => {
            assert_eq!((resources, state), before, "{message}");
            Some(message)
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn release(name: &str, spec: &Value) -> String {
    json!({ "kind": "fleet_release", "metadata": { "name": name }, "spec": spec }).to_string()
}

fn channel(group: &str) -> String {
    json!({ "kind": "fleet_channel", "metadata": { "name": "stable" }, "spec": { "group": group } }).to_string()
}

/// What else is refused: `fleet/simulator/tests/scenarios/v2/reach.jsonl`.
#[test]
fn what_is_written_together_is_taken_or_refused_together() {
    let release = |name: &str| release(name, &json!({ "version": "17.3.0" }));
    let message = refused(&[], &format!("{}\n---\n{}", release("a"), release("c")));
    assert!(message.unwrap().contains("\"a\" and would have \"c\""));
    // In any order.
    let policy = "kind: autoupdate_config\nspec: {agents: {mode: enabled, strategy: halt-on-error, schedules: \
                  {regular: [{name: dev}]}}}";
    assert_eq!(refused(&[], &format!("{}\n---\n{policy}", channel("dev"))), None);
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
