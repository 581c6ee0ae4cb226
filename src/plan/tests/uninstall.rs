//! What `uninstall` removes, and what stays for those who come back.

use super::*;
use crate::plan::uninstall::uninstall;

/// Each name that the plan changes, and what it is then.
fn places(plan: &Plan) -> Vec<(String, Node)> {
    let places = plan.switch.iter().flat_map(Step::placements);
    places.map(|place| (place.path.display().to_string(), place.now.clone())).collect()
}

fn is_removed(plan: &Plan, path: &str) -> bool {
    places(plan).contains(&(path.to_owned(), Node::Absent))
}

#[test]
fn what_enables_our_unit_goes_and_what_enables_anothers_stays() {
    let wants = "/units/multi-user.target.wants/teleport.service";
    let enabled_by = |target: &str| {
        let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
        facts.enablement = vec![(wants.into(), Node::Link(target.into()))];
        facts
    };
    let (ours, others) = ("/v/1.0.0/etc/systemd/teleport.service", "/usr/lib/systemd/system/teleport.service");
    for target in [ours, others] {
        assert!(is_removed(&uninstall(&enabled_by(target), &[]), wants), "{target}");
    }
    // There is a unit of somebody else's.
    let with_unit = |target: &str| {
        let mut facts = enabled_by(target);
        facts.unit.node = Node::Kept("/v/.unmanaged/teleport.service".into());
        facts
    };
    assert!(!is_removed(&uninstall(&with_unit(others), &[]), wants));
    assert!(is_removed(&uninstall(&with_unit(ours), &[]), wants), "it would dangle");
    // There was one, which comes back; another unit that does is not meant.
    let back = |path: &str| [(path.into(), "/v/.unmanaged/kept".into())];
    assert!(!is_removed(&uninstall(&enabled_by(others), &back("/units/teleport.service")), wants));
    assert!(is_removed(&uninstall(&enabled_by(others), &back("/units/other.service")), wants));
    let mut gone = enabled_by(others);
    gone.unit.node = Node::Absent;
    assert!(is_removed(&uninstall(&gone, &[]), wants));
}

#[test]
fn the_earlier_updaters_timer_ticks_again_only_where_what_enabled_it_comes_back() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    for (path, is_enabled) in [
        ("/units/timers.target.wants/teleport-upgrade.timer", true),
        ("/units/teleport-upgrade.timer", false),
        ("/units/timers.target.requires/teleport-upgrade.timer", false),
        ("/units/timers.target.wants/other.timer", false),
    ] {
        let plan = uninstall(&facts, &[(path.into(), "/v/.unmanaged/kept".into())]);
        let timer = Step::EnableTimer { unit: "teleport-upgrade.timer".into() };
        assert_eq!(plan.after.contains(&timer), is_enabled, "{path}");
        assert!(places(&plan).contains(&(path.to_owned(), Node::Kept("/v/.unmanaged/kept".into()))));
    }
}
