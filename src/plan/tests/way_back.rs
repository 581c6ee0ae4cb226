//! The way back from a version that fell in its watch to an agent that was none of ours.

use super::*;

/// What has replaced an agent of others: their helper, none of theirs, their unit, and a unit where none was.
fn done(running: bool) -> (Facts, Plan) {
    let place = |path: &str, was: Option<&str>, part: Part| Placement {
        path: path.into(),
        was: was.map_or(Node::Absent, |kept| Node::Kept(kept.into())),
        now: Node::Link("/v/1.0.0/new".into()),
        part,
    };
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.agent.running = running;
    let evidence: VersionDir = VersionDir::unmanaged();
    let plan = Plan {
        to: Some(revision("1.0.0")),
        to_dir: Some("1.0.0".into()),
        unmanaged: true,
        switch: vec![
            Step::Place(place("/bin/tsh", Some("/k/tsh"), Part::Helper)),
            Step::Place(place("/bin/tbot", None, Part::Helper)),
            Step::Place(place("/units/teleport.service", Some("/k/unit"), Part::Unit)),
            Step::Place(place("/units/new.service", None, Part::Unit)),
            Step::Snapshot { dir: evidence.clone(), stopped: false, failed: false },
            Step::LinkAgent { place: place("/bin/teleport", Some("/k/teleport"), Part::Agent), evidence },
        ],
        ..Plan::none(Direction::First)
    };
    (facts, plan)
}

#[test]
fn what_was_there_comes_back_new_helpers_go_and_a_unit_of_ours_stays() {
    let (facts, done) = done(true);
    let back = back(&facts, &done).unwrap();
    assert_eq!((back.from.clone(), back.to_dir.clone()), (done.to, Some(VersionDir::unmanaged())));
    let places: Vec<_> = back.switch.iter().flat_map(Step::placements).cloned().collect();
    let paths: Vec<_> = places.iter().map(|place| place.path.display().to_string()).collect();
    assert_eq!(paths, ["/bin/tsh", "/bin/tbot", "/units/teleport.service", "/bin/teleport"]);
    assert!(places.iter().all(|place| place.was == Node::Link("/v/1.0.0/new".into())));
    assert_eq!(places[0].now, Node::Kept("/k/tsh".into()));
    assert_eq!(places[1].now, Node::Absent);
}

#[test]
fn an_agent_that_did_not_run_is_not_started_on_the_way_back() {
    for running in [true, false] {
        let (facts, done) = done(running);
        assert_eq!(back(&facts, &done).unwrap().switch.contains(&Step::Start), running);
    }
}
