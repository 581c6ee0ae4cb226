//! How long things take with a million hosts. Run: `cargo test --release -p fleet-store --test suite -- --ignored figures --nocapture`.

use std::time::Instant;

use fleet_engine::fleet::Fleet;
use fleet_store::Change;

use crate::support::*;

/// Hosts of the figures (FLEET §11).
const HOSTS: u32 = 1_000_000;
/// Hosts in a batch: what comes in a second at the most.
const BATCH: u32 = 5_000;

/// Spreads numbers as random UUIDs are.
fn spread(number: u32) -> u128 {
    u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
}

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let (begun, cpu) = (Instant::now(), on_cpu());
    let result = act();
    println!("{what}: {:.3} s, {:.3} s of processor", begun.elapsed().as_secs_f64(), on_cpu() - cpu);
    result
}

/// How long this thread was on a processor, seconds: what others do on the machine does not count.
fn on_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Memory of this process now, MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
#[ignore = "takes a minute; prints figures"]
fn a_million_hosts() {
    let bed = Bed::new();
    let mut store = bed.open();
    let model = host(1, "18.1.2");
    let host = |number: u32| {
        let id = spread(number);
        fleet_engine::record::HostRecord { id, update_id: id, ..model.clone() }
    };
    timed("write 1,000,000 new hosts, 5,000 a commit", || {
        for from in (0..HOSTS).step_by(BATCH as usize) {
            let hosts = (from..from + BATCH).map(host).collect();
            store.commit(&Change { hosts, arrivals: u64::from(from), ..Change::default() }).unwrap();
        }
    });
    let hosts: Vec<_> = (0..BATCH).map(|number| host(number.wrapping_mul(199) % HOSTS)).collect();
    timed("write 5,000 known hosts, ten times", || {
        for _ in 0..10 {
            store.commit(&Change { hosts: hosts.clone(), ..Change::default() }).unwrap();
        }
    });
    timed("write a book of one rollout, 100 times", || {
        for number in 1..=100 {
            write_book(&mut store, &book(number));
        }
    });
    drop(store);
    println!("database: {} MiB", bed.database().metadata().unwrap().len() >> 20);
    let mut store = timed("open", || bed.open());
    let before = resident();
    let (_, count) = timed("read all hosts", || store.load_with(|hosts, _| hosts.count()).unwrap());
    assert_eq!(count, HOSTS as usize);
    println!("memory for reading: {} MiB", resident() - before);
    let (_, fleet) =
        timed("load into the engine", || store.load_with(|hosts, arrivals| Fleet::restore(hosts, arrivals)).unwrap());
    println!("memory with the engine's fleet: {} MiB", resident());
    drop(fleet);
    timed("backup", || store.backup(&bed.dir.path().join("backup")).unwrap());
}
