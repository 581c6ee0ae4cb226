//! Where links that enable the unit lead, and which of them systemd would load in its place.

use super::*;
use crate::plan::links::masking_links;

const WANTS: &str = "/units/multi-user.target.wants/teleport.service";
const REQUIRES: &str = "/units/multi-user.target.requires/teleport.service";
const ALIAS: &str = "/units/agent.service";

/// Links of 1.0.0 that enable the unit, one that leads elsewhere, and 2.0.0 to go to.
fn enabled(linked: bool) -> Facts {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    let ours = || Node::Link("/v/1.0.0/etc/systemd/teleport.service".into());
    facts.enablement = [WANTS, REQUIRES, ALIAS].map(|path| (path.into(), ours())).to_vec();
    facts.enablement.push(("/units/other.service".into(), Node::Link("/usr/lib/systemd/system/other.service".into())));
    facts.unit.linked = linked;
    facts
}

fn enablement_after(facts: &Facts) -> Vec<(String, Node)> {
    let plan = move_to(facts, &target("2.0.0")).unwrap();
    let places = plan.switch.iter().flat_map(Step::placements);
    let is_meant = |place: &&Placement| facts.enablement.iter().any(|(path, _)| *path == place.path);
    places.filter(is_meant).map(|place| (place.path.display().to_string(), place.now.clone())).collect()
}

#[test]
fn what_enables_a_linked_unit_follows_the_version() {
    let now = || Node::Link("/v/2.0.0/etc/systemd/teleport.service".into());
    assert_eq!(enablement_after(&enabled(true)), [WANTS, REQUIRES, ALIAS].map(|path| (path.to_owned(), now())));
}

#[test]
fn what_enables_a_unit_with_paths_of_its_own_leads_to_it_and_an_alias_goes() {
    let now = || Node::Link("/units/teleport.service".into());
    let wanted = [(WANTS, now()), (REQUIRES, now()), (ALIAS, Node::Absent)];
    assert_eq!(enablement_after(&enabled(false)), wanted.map(|(path, node)| (path.to_owned(), node)));
}

#[test]
fn an_alias_of_a_versions_unit_masks_a_unit_with_paths_of_its_own_alone() {
    assert_eq!(masking_links(&enabled(false)).collect::<Vec<_>>(), [std::path::Path::new(ALIAS)]);
    assert_eq!(masking_links(&enabled(true)).count(), 0);
}

#[test]
fn before_the_download_the_names_of_the_damaged_copy_are_the_guess() {
    let mut damaged = installed("2.0.0", unusable());
    (damaged.marker, damaged.intact) = (None, false);
    damaged.binaries = vec!["teleport".into(), "tctl".into()];
    let linked = |facts: &Facts| {
        let plan = move_to(facts, &target("2.0.0")).unwrap();
        assert!(plan.fetches());
        order(&plan).into_iter().filter(|step| step.starts_with("place /bin/")).collect::<Vec<_>>()
    };
    let facts = host("1.0.0", vec![installed("1.0.0", unusable()), damaged.clone()]);
    assert_eq!(linked(&facts), ["place /bin/tctl"]);
    // One without names tells nothing: those of the active version are.
    damaged.binaries.clear();
    let facts = host("1.0.0", vec![installed("1.0.0", unusable()), damaged]);
    assert_eq!(linked(&facts), ["place /bin/tbot", "place /bin/tsh"]);
}
