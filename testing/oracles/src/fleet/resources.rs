//! Resources: what is read is printed and read the same, and what is refused changes nothing.

use fleet_engine::fleet::Fleet;
use fleet_engine::resource::{self, Resource};
use fleet_engine::rollout_state::RolloutState;

use super::{World, assert_line, now};

/// Most faults that are told.
const MOST_FAULTS: usize = 20;
/// A printed document is at most so many times as long as what was read: aliases are written out.
const GROWTH: usize = 200;

/// Any text as `create -f` gets it.
pub fn fleet_resources(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let resources = match resource::read(text) {
        Ok(resources) => resources,
        Err(faults) => {
            assert!((1..=MOST_FAULTS).contains(&faults.list().len()));
            faults.list().iter().for_each(|fault| assert_line(&fault.to_string()));
            assert_eq!(resource::read(text), Err(faults));
            return;
        }
    };
    for resource in &resources {
        let printed = resource.to_yaml();
        assert!(printed.len() <= GROWTH * (text.len() + 100), "{} bytes of {}", printed.len(), text.len());
        let again = resource::read(&printed).unwrap_or_else(|faults| panic!("{faults}\n{printed}"));
        assert_eq!(&again[..], std::slice::from_ref(resource), "{printed}");
        let json = resource::read_json(&resource.to_json(), 1).unwrap_or_else(|faults| panic!("{faults}\n{printed}"));
        assert_eq!(json.to_json(), resource.to_json());
    }
    written(&resources, World::empty());
    let usual = World::usual();
    written(&resources, World { shelf: usual.shelf.clone(), book: usual.book.clone(), fleet: Fleet::default() });
}

/// Writes them as one change, and steps.
fn written(resources: &[Resource], mut world: World) {
    let before = (world.shelf.clone(), world.book.clone());
    let fleet = Fleet::default();
    if let Err(refused) = world.shelf.put_all_for(resources.to_vec(), &mut world.book, Some(&fleet)) {
        refused.to_string().lines().for_each(assert_line);
        assert!((world.shelf, world.book) == before, "it was refused, and something changed: {refused}");
        return;
    }
    let mut other = world.book.clone();
    world.book.step(&mut world.fleet, now());
    other.step(&mut Fleet::default(), now());
    assert_eq!(other, world.book, "the same step, another book");
    let json = serde_json::to_string(&world.book).unwrap();
    assert_eq!(serde_json::from_str::<RolloutState>(&json).unwrap(), world.book);
    // Written again it means the same.
    let settled = world.book.clone();
    world.shelf.put_all_for(resources.to_vec(), &mut world.book, Some(&fleet)).unwrap();
    assert_eq!(world.book, settled);
}
