//! What it takes: memory, and calls of an agent that has nothing to do (KUBE §11). Not asserted: `make kube-figures` prints them.

use std::time::{Duration, Instant};

use kube_bed::KubeBed;

use crate::scene::Scene;

/// How long calls are counted.
const COUNTED: Duration = Duration::from_secs(180);

#[test]
#[ignore = "a measurement of seven minutes: make kube-figures"]
fn memory_and_idle_calls() {
    let Some(bed) = KubeBed::shared() else { return };
    for count in [1, 200] {
        let names: Vec<_> = (0..count).map(|number| format!("agent-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut scene = Scene::new(bed, "figures", &names);
        for name in &names {
            scene.create(name);
        }
        for name in &names {
            scene.settled(name, "1.0.0");
        }
        let number = scene.start();
        for name in &names {
            scene.told(name, "up_to_date");
        }
        scene.proxy.forget();
        let begun = Instant::now();
        std::thread::sleep(COUNTED);
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        let calls = scene.proxy.calls();
        let lease = calls.iter().filter(|call| call.path.contains("/leases/")).count();
        let own = (calls.len() - lease) as f64 / minutes / count as f64;
        let memory = std::fs::read_to_string(format!("/proc/{}/status", scene.pid(number))).unwrap();
        let kib = |key: &str| memory.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
        println!(
            "{count} agents: {}; {}; {own:.2} calls a minute and agent, and {:.1} for the Lease",
            kib("VmRSS"),
            kib("VmHWM"),
            lease as f64 / minutes
        );
    }
}
