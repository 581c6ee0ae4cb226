//! A stop reaches everybody: many clients ask all the time while an operator halts, or a report crosses a threshold. `make
//! fleet-bench` prints how long it took; the tests look at the order of things alone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::reports::host::{Host, epoch, together};
use crate::support::{SOON, Server, client, dir, done, groups, refused, restore, rolling, version};

/// Clients that ask all the time.
const CLIENTS: usize = 8;

/// A question and its answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    begun: Instant,
    answered: Instant,
    update: bool,
}

/// Clients that ask all the time, each as another host of `dev` with each question.
struct Askers {
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<Asked>>>,
}

impl Askers {
    /// They begin, and each has been answered.
    fn start(addr: SocketAddr) -> Self {
        let (is_over, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let asker = |number: usize| {
            let (is_over, count) = (Arc::clone(&is_over), Arc::clone(&count));
            std::thread::spawn(move || ask(addr, number, &is_over, &count))
        };
        let threads = (0..CLIENTS).map(asker).collect();
        let askers = Self { is_over, count, threads };
        askers.go_on();
        askers
    }

    /// Waits for some hundred further answers.
    fn go_on(&self) {
        let (wanted, end) = (self.count.load(Ordering::Relaxed) + 50 * CLIENTS, Instant::now() + SOON);
        while self.count.load(Ordering::Relaxed) < wanted {
            assert!(Instant::now() < end, "nobody is answered");
            std::thread::yield_now();
        }
    }

    /// They end: all that was asked, in the order of the answers.
    fn end(self) -> Vec<Asked> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all: Vec<Asked> = self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        all.sort_by_key(|asked| asked.answered);
        all
    }
}

/// Asks on one connection until it is over.
fn ask(addr: SocketAddr, number: usize, is_over: &AtomicBool, count: &AtomicUsize) -> Vec<Asked> {
    let (mut client, mut asked) = (client::Client::new(addr), Vec::new());
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        let path = format!("/v1/webapi/find?host=40000000-0000-4000-8000-{number:04}{:08}&group=dev", turn % 200);
        let answer: Value = serde_json::from_str(&client.get(&path)).unwrap();
        asked.push(Asked { begun, answered: Instant::now(), update: answer["agent_auto_update"] == true });
        count.fetch_add(1, Ordering::Relaxed);
    }
    asked
}

/// Nobody who began to ask after `stop` was told to update; and somebody was before.
#[track_caller]
fn none_later(asked: &[Asked], stop: Instant) {
    let late = asked.iter().filter(|asked| asked.update && asked.begun > stop).count();
    assert_eq!(late, 0, "of {} questions", asked.len());
    assert!(asked.iter().any(|asked| asked.update), "nobody was told before");
    assert!(asked.iter().any(|asked| asked.begun > stop), "nobody asked after it");
}

/// Nobody at all is told to update, for some hundred questions, and nothing can be started.
#[track_caller]
fn is_stopped(server: &Server) {
    let line = refused(&server.cli(&["autoupdate", "agents", "start-update", "dev"]));
    assert!(line.contains("halted"), "{line}");
    let asked = Askers::start(server.addr).end();
    assert!(asked.iter().all(|asked| !asked.update));
}

fn started() -> (TempDir, Server) {
    let (dir, server) = rolling(&["dev", "prod"]);
    server.agents(&["start-update", "dev"]);
    (dir, server)
}

/// Sends the operator's stop: when it was sent, and when it was answered.
fn halt(server: &Server) -> (Instant, Instant) {
    let sent = Instant::now();
    server.agents(&["halt", "--all"]);
    (sent, Instant::now())
}

#[test]
fn who_asks_after_a_halt_was_answered_is_not_told_to_update() {
    let (_dir, server) = started();
    let askers = Askers::start(server.addr);
    let (_, answered) = halt(&server);
    askers.go_on();
    none_later(&askers.end(), answered);
}

/// What hosts of `dev` are told: how many of nine the target, and how many of them to update.
fn told(server: &Server) -> (usize, usize) {
    let answers: Vec<Value> = (1..=9)
        .map(|number| server.json(&format!("/v1/webapi/find?host=40000000-0000-4000-8000-{number:012}&group=dev")))
        .collect();
    let count = |key: &str, value: &Value| answers.iter().filter(|answer| &answer[key] == value).count();
    (count("agent_version", &"1.1.0".into()), count("agent_auto_update", &true.into()))
}

#[test]
fn who_was_told_right_before_a_halt_or_the_end_of_the_server_is_told_the_target_afterwards() {
    for is_stopped in [false, true] {
        let (dir, mut server) = started();
        assert_eq!(told(&server), (9, 9));
        if is_stopped {
            assert_eq!(server.stop(), Some(0));
            server = Server::start(dir.path());
        }
        halt(&server);
        assert_eq!(told(&server), (9, 0), "the server was stopped: {is_stopped}");
        let hosts = server.parsed(&["hosts", "--state", "told"]);
        assert_eq!(hosts.as_array().or(hosts["hosts"].as_array()).unwrap().len(), 9);
    }
}

#[test]
fn a_stop_holds_through_a_new_target_kill_9_and_the_restore_of_an_older_backup() {
    let (dir, server) = started();
    let backup = dir.path().join("backup.db");
    server.ok(&["backup", backup.to_str().unwrap()]);
    let askers = Askers::start(server.addr);
    let (_, answered) = halt(&server);
    // A reset in between.
    server.create(&version("1.0.0", "1.2.0", "regular"));
    askers.go_on();
    none_later(&askers.end(), answered);
    server.kill();
    let server = Server::start(dir.path());
    is_stopped(&server);
    // The backup is from before the halt: its group was started, and nothing was held.
    assert_eq!(server.stop(), Some(0));
    done(&restore(dir.path(), &backup, &["--force"]));
    let server = Server::start(dir.path());
    is_stopped(&server);
    server.create(&version("1.0.0", "1.3.0", "regular"));
    is_stopped(&server);
}

/// A group whose hosts have reported, so that two failures of ten are too many: the server, and the hosts.
fn reporting(dir: &std::path::Path) -> (Server, u64, Vec<Host>) {
    let server = Server::start(dir);
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    let epoch = epoch(&server);
    let hosts: Vec<Host> = (1..=10).map(|number| Host::new(number, "dev")).collect();
    together(&hosts, |host| assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200));
    server.agents(&["start-update", "dev"]);
    for host in &hosts[..2] {
        server.until("its turn has come", || host.asks(&server, Some(epoch)).1);
    }
    (server, epoch, hosts)
}

fn fails(server: &Server, epoch: u64, host: &Host) {
    let report = host.says(epoch, "1.0.0", Some(("rolled_back", "1.1.0", "unhealthy")));
    assert_eq!(host.sends(server.addr, &report).0, 200);
}

fn until_halted(server: &Server) {
    server.until("the group halts", || server.agents(&["status"]).contains("failed_threshold"));
}

#[test]
fn once_a_group_is_shown_as_halted_by_reports_nobody_who_asks_is_told_to_update() {
    let dir = dir();
    let (server, epoch, hosts) = reporting(dir.path());
    fails(&server, epoch, &hosts[0]);
    let askers = Askers::start(server.addr);
    fails(&server, epoch, &hosts[1]);
    until_halted(&server);
    let shown = Instant::now();
    askers.go_on();
    none_later(&askers.end(), shown);
    // And after kill -9.
    server.kill();
    is_stopped(&Server::start(dir.path()));
}

/// Milliseconds from `from` to the last answer that told somebody to update.
fn last_update(asked: &[Asked], from: Instant) -> u128 {
    let last = asked.iter().rev().find(|asked| asked.update).unwrap();
    last.answered.saturating_duration_since(from).as_millis()
}

#[test]
#[ignore = "a measurement: make fleet-bench"]
fn measure_the_time_to_the_last_update() {
    let (mut by_hand, mut by_report) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let (_dir, server) = started();
        let askers = Askers::start(server.addr);
        let (sent, _) = halt(&server);
        askers.go_on();
        by_hand.push(last_update(&askers.end(), sent));

        let place = dir();
        let (server, epoch, hosts) = reporting(place.path());
        fails(&server, epoch, &hosts[0]);
        let askers = Askers::start(server.addr);
        let sent = Instant::now();
        fails(&server, epoch, &hosts[1]);
        until_halted(&server);
        askers.go_on();
        by_report.push(last_update(&askers.end(), sent));
    }
    for (what, all) in [("halt --all", &mut by_hand), ("the report that crosses a threshold", &mut by_report)] {
        all.sort_unstable();
        println!(
            "| {what} to the last update answered, {CLIENTS} clients that ask all the time | 2000 ms | {} ms | worst {} ms |",
            all[2], all[4]
        );
    }
}
