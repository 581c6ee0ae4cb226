//! `million DIR [HOSTS]`: writes the data of a server that knows so many enrolled hosts, with a name and eight labels each, in twenty groups that
//! they declare. For `tests/bench/million.sh`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for a terminal")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use fleet_engine::fleet::{Fleet, HostReport};
use fleet_engine::host::HostId;
use fleet_store::{Change, EnrolledHost, EnrolledKey, EnrolmentChanges};
use jiff::Timestamp;
use protocol::report::Key;

/// Hosts of a commit.
const BATCH: usize = 10_000;
/// Groups that hosts declare.
const GROUPS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let (dir, hosts) = match &words[..] {
        [_, dir] => (dir, 1_000_000),
        [_, dir, hosts] => (dir, hosts.parse()?),
        _ => return Err("million DIR [HOSTS]".into()),
    };
    let now = Timestamp::now();
    let mut fleet = Fleet::default();
    let ids: Vec<HostId> = (0..hosts).map(spread).collect();
    for (number, id) in ids.iter().enumerate() {
        fleet.report(&report(number, *id), None, now);
    }
    let mut store = fleet_store::StorePlace::from(Path::new(dir)).open()?;
    for ids in ids.chunks(BATCH) {
        store.commit(&Change {
            hosts: ids.iter().filter_map(|id| fleet.record(*id)).collect(),
            enrolments: EnrolmentChanges {
                enrolled: ids.iter().map(|id| enrolled(*id, now)).collect(),
                ..EnrolmentChanges::default()
            },
            arrivals: fleet.arrivals(),
            ..Change::default()
        })?;
    }
    // Those that a client asks in the name of.
    ids.iter().take(BATCH).for_each(|id| println!("{id:032x}"));
    Ok(())
}

/// Spreads numbers as random UUIDs are.
fn spread(number: usize) -> HostId {
    (number as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
}

/// It is known by a key.
fn enrolled(host: HostId, since: Timestamp) -> EnrolledHost {
    let mut key = [0; 32];
    key[..16].copy_from_slice(&host.to_be_bytes());
    let known = EnrolledKey { host, key: Key(key), sequence: 1, change: 0, fixed: None, is_unproven: true };
    EnrolledHost { known, how: "open".to_owned(), since }
}

/// Host `number`: eight labels, of few values.
fn report(number: usize, id: HostId) -> HostReport {
    let label =
        |at: usize| (format!("label-{at}"), (number / 7_usize.pow(u32::try_from(at).unwrap_or(0)) % 7).to_string());
    let labels: BTreeMap<String, String> = (0..8).map(label).collect();
    HostReport {
        host: id,
        update_id: !id,
        group: Some(format!("group-{}", number % GROUPS)),
        version: Some("17.2.0".to_owned()),
        labels: Some(labels),
        hostname: Some(format!("ip-10-{}-{}-{}.example.com", number >> 16, number >> 8 & 0xff, number & 0xff)),
        ..HostReport::default()
    }
}
