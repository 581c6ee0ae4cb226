//! What the rollout server reads from strangers, from operators and from files.

mod admin;
mod counts;
mod graph;
mod labels;
mod query;
mod request;
mod resources;
mod script;

use std::sync::OnceLock;

use fleet_engine::fleet::Fleet;
use fleet_engine::resource;
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout_state::RolloutState;
use jiff::Timestamp;

pub use admin::fleet_admin;
pub use counts::fleet_counts;
pub use graph::fleet_graph;
pub use labels::fleet_labels;
pub use query::fleet_query;
pub use request::fleet_request;
pub use resources::fleet_resources;
pub use script::fleet_script;

/// The second at which everything happens: a Monday.
const NOW: i64 = 1_767_614_400;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

/// What a server has that is asked: every kind of channel, releases, and a rollout.
struct World {
    shelf: ResourceSet,
    book: RolloutState,
    fleet: Fleet,
}

impl World {
    fn empty() -> Self {
        Self {
            shelf: ResourceSet::default(),
            book: RolloutState { seed: 7, ..RolloutState::default() },
            fleet: Fleet::default(),
        }
    }

    fn of(text: &str) -> Self {
        let mut world = Self::empty();
        let resources = resource::read(text).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
        world.shelf.put_all_for(resources, &mut world.book, Some(&world.fleet)).unwrap();
        world.book.step(&mut world.fleet, now());
        world
    }

    fn usual() -> &'static Self {
        static USUAL: OnceLock<World> = OnceLock::new();
        USUAL.get_or_init(|| Self::of(include_str!("../../../../fuzz/corpus/fleet_resources/world")))
    }
}

/// An error, or a line of a log, cannot write where it is not shown.
fn assert_line(text: &str) {
    assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
    assert!(text.len() < 8192, "{} bytes", text.len());
}
