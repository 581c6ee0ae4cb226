//! The key of a host: the first report's is the host's from then on, whichever command sends it.

use protocol::report::PATH;
use testing::crash::live::cell::{Cell, SOON, until};
use testing::crash::live::flows::{Scene, version};
use testing::crash::live::suite;

use super::server::Fleet;
use crate::support::transcript::live::{self, EPOCH, HOST, KEY};
use crate::support::*;

/// The agent's id before it has one.
const UUID: &str = "/var/lib/teleport/host_uuid";

/// A host on which no updater was, with the agent of somebody else's package: it may have its `host_uuid`.
fn fresh(trusted: &str) -> (Scene, Cell) {
    let scene = Scene::fresh(&Updater::new(&updater()), "", &version(1)).unwrap();
    let root = scene.files.path().join("root");
    std::fs::remove_dir_all(root.join("var/lib/teleport/versions")).unwrap();
    std::fs::write(root.join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::write(root.join("root/ca.pem"), format!("{trusted}{}", scene.cluster.ca_pem())).unwrap();
    let cell = Cell::copy_of(scene.files.path(), &scene.updater).unwrap();
    (scene, cell)
}

fn seed(cell: &Cell) -> Option<String> {
    let kept: Value = serde_json::from_slice(&std::fs::read(cell.path(KEY)).ok()?).unwrap();
    Some(kept["seed"].as_str()?.to_owned())
}

/// When the host gets its `host_uuid`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Joined {
    Before,
    /// After the first command.
    Then,
    Never,
}

#[test]
fn a_host_has_one_key_whichever_commands_it_runs_first() {
    if !suite::can() {
        return;
    }
    let fleet = Fleet::start(&[]);
    fleet.groups(&["dev"]);
    fleet.wish("1.0.0", "1.0.0");
    let proxy = format!("enable --proxy {}", fleet.proxy());
    let rows: [&[&str]; 9] = [
        &[&proxy, "update", "status"],
        &["enable --source https://SERVER --proxy CLUSTER", "update"],
        &["update", &proxy],
        &["rollback", &proxy, "update"],
        &["status", &proxy],
        &["pin 1.0.0 --edition enterprise --proxy SERVER", "unpin", &proxy],
        &[&proxy, "disable", &proxy],
        &[&proxy, "uninstall --force", &proxy, "update"],
        &["enable --proxy SERVER --force-version 9.9.9 --edition enterprise", &proxy],
    ];
    let mut hosts = 0;
    for row in rows {
        for joined in [Joined::Before, Joined::Then, Joined::Never] {
            hosts += 1;
            let uuid = format!("22222222-0000-4000-8000-0000000000{hosts:02}");
            let (scene, cell) = fresh(&fleet.trusted());
            let join = || std::fs::write(cell.path(UUID), &uuid).unwrap();
            let mut key: Option<String> = None;
            for (index, line) in row.iter().enumerate() {
                if (joined, index) == (Joined::Before, 0) || (joined, index) == (Joined::Then, 1) {
                    join();
                }
                let mut line =
                    line.replace("SERVER", &fleet.proxy()).replace("CLUSTER", &scene.cluster.addr().to_string());
                if line.starts_with("enable") || line.starts_with("pin") {
                    line += &format!(" --group dev --base-url {} --ca-file /root/ca.pem", scene.cluster.base_url());
                }
                let ran = cell.run(&line).unwrap();
                assert!(!ran.said.contains("key_conflict"), "{row:?}, {joined:?}: {ran:#?}");
                let now = seed(&cell);
                assert!(key.is_none() || key == now, "{row:?}, {joined:?}, `{line}`: another key");
                key = now;
            }
            assert_eq!(key.is_some(), joined != Joined::Never, "{row:?}, {joined:?}");
            assert_eq!(fleet.known(&uuid)["host"] == uuid.as_str(), joined != Joined::Never, "{row:?}, {joined:?}");
        }
    }
    assert!(!fleet.ok(&["hosts", "--waiting"]).contains("22222222"));
}

#[test]
fn a_run_that_is_killed_while_its_first_report_is_on_the_way_has_kept_its_key() {
    let Some((scene, cell)) = asked() else { return };
    scene.cluster.misbehave(PATH, Misbehaviour::Stall { after_bytes: 0 });
    let enable: Vec<String> = scene.enable().split(' ').map(str::to_owned).collect();
    let running = cell.spawn(cell.updater(&enable)).unwrap();
    until(SOON, || !scene.cluster.requests_to(PATH).is_empty()).unwrap();
    running.signal(rustix::process::Signal::KILL);
    running.end().unwrap();
    assert!(!cell.path("/var/lib/teleport/versions/updates.yaml").exists(), "it had not enabled yet");
    let first = keys(&scene);
    scene.cluster.behave();
    assert_eq!(cell.run(&scene.enable()).unwrap().code, Some(0));
    let then = keys(&scene);
    assert!(first.len() == 1 && then.len() >= 2 && then.iter().all(|key| *key == first[0]), "{first:?} {then:?}");
}

#[test]
fn two_first_commands_at_once_have_one_key() {
    let Some((scene, cell)) = asked() else { return };
    let enable = scene.enable();
    cell.run_at_once(&[&enable, &enable, &enable]).unwrap();
    let keys = keys(&scene);
    assert!(keys.len() >= 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

/// A host that has its `host_uuid`, and a server that the test plays and that asks for reports.
fn asked() -> Option<(Scene, Cell)> {
    if !suite::can() {
        return None;
    }
    let (scene, cell) = fresh("");
    std::fs::write(cell.path(UUID), HOST).unwrap();
    let mut answer = Find::version("1.0.0").to_json(Dialect::Rfd);
    answer["fleet"] = json!({"rollout": 1, "attempt": 1, "report": {"epoch": EPOCH, "interval_seconds": 0}});
    scene.cluster.set_find_body(Some(answer.to_string().as_bytes()));
    scene.cluster.set_page(PATH, &[(200, "{}")]);
    Some((scene, cell))
}

/// The public keys of the reports since the last call.
fn keys(scene: &Scene) -> Vec<String> {
    let posts = scene.cluster.requests_to(PATH);
    scene.cluster.forget_requests();
    posts.iter().map(|post| live::key(post).to_string()).collect()
}
