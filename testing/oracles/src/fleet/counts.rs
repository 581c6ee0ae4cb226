//! What other servers counted (`autoupdate_agent_report`): nothing is counted twice or gets lost.

use fleet_engine::resource::{self, Resource};

use super::{World, now};

/// Any text as reports.
pub fn fleet_counts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(resources) = resource::read(text) else { return };
    let reports = |resource: &Resource| matches!(resource, Resource::Report(_));
    if !resources.iter().all(reports) {
        return;
    }
    let models = resources.iter().filter_map(|resource| match resource {
        Resource::Report(object) => Some(&object.model),
        _ => None,
    });
    let written: u64 = models.flat_map(|report| &report.counts).map(|count| u64::from(count.count)).sum();
    let usual = World::usual();
    let mut world = World { shelf: usual.shelf.clone(), book: usual.book.clone(), fleet: super::Fleet::default() };
    world.shelf.put_all_for(resources, &mut world.book, Some(&world.fleet)).unwrap();
    let counted = world.shelf.counted(None);
    assert_eq!(counted.values().flat_map(|versions| versions.values()).sum::<u64>(), written);
    let good = world.shelf.counted(Some(now()));
    for (group, versions) in &good {
        for (version, count) in versions {
            assert!(counted[group][version] >= *count, "{group} {version}");
        }
    }
    let mut other = world.fleet.clone();
    let mut again = world.book.clone();
    for (book, fleet) in [(&mut world.book, &mut world.fleet), (&mut again, &mut other)] {
        fleet.set_counts(counted.clone(), now());
        book.step(fleet, now());
    }
    assert_eq!(world.book, again, "the same counts, another step");
}
