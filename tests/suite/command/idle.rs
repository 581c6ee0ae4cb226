//! What a run costs that has nothing to do: a fleet pays it every ten minutes, a thousand times. One question to the cluster,
//! a handful of small files, and nothing else. Counted by strace, in cells (`testing/src/crash/live`).

use testing::cluster::tls::Authority;
use testing::crash::live::cell::{Cell, Ran};
use testing::crash::live::flow::STRACE;
use testing::crash::live::flows::{Scene, settings, version};
use testing::crash::live::suite;

use crate::support::*;

/// Where Debian has its authorities: all in one file, beside it a file for each.
const CERTIFICATES: &str = "/etc/ssl/certs";
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// What a run reads, and no more.
const READ: [&str; 14] = [
    "/proc/self/status",
    "/etc/hosts",
    "/etc/machine-id",
    "/etc/teleport.yaml",
    BUNDLE,
    "/usr/local/bin",
    "/var/lib/teleport/host_uuid",
    "/var/lib/teleport/versions/.credentials",
    "/var/lib/teleport/versions/.fleet-host",
    "/var/lib/teleport/versions/.journal",
    "/var/lib/teleport/versions/1.0.0/manifest.json",
    "/var/lib/teleport/versions/1.0.0/sha256",
    "/var/lib/teleport/versions/1.0.0_oss/manifest.json",
    "/var/lib/teleport/versions/updates.yaml",
];
/// Most system calls of such a run that are not about memory, which the allocator decides. There are some 320, the look-up of a name
/// in a thread for each family among them; with the certificates read one by one it was five times that.
const MOST_CALLS: usize = 350;

#[test]
fn a_run_with_nothing_to_do_asks_once_reads_a_handful_of_files_and_starts_and_writes_nothing() {
    let Some(updater) = cells() else { return };
    let scene = idle(&updater, Known::InTheBundle);
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    scene.cluster.forget_requests();
    let calls = traced(&cell, "update", 0);
    let asked: Vec<String> = scene.cluster.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(asked, ["/v1/webapi/find"]);
    assert_eq!(calls.iter().filter(|call| call.name == "connect").count(), 1, "{calls:#?}");
    let read: BTreeSet<&str> = calls.iter().filter(|call| call.opens()).filter_map(Call::path).collect();
    assert_eq!(read.iter().filter(|path| !READ.contains(path)).collect::<Vec<_>>(), [&""; 0]);
    let changes: Vec<&Call> = calls.iter().filter(|call| call.changes()).collect();
    assert!(changes.is_empty(), "{changes:#?}");
    assert_eq!(calls.iter().filter(|call| call.starts()).count(), 1, "strace's own start: {calls:#?}");
    let count = calls.iter().filter(|call| !call.is_about_memory()).count();
    assert!(count <= MOST_CALLS, "{count} calls: {calls:#?}");
}

#[test]
fn an_authority_that_only_the_directory_has_is_found_by_a_second_look() {
    let Some(updater) = cells() else { return };
    let scene = idle(&updater, Known::InTheDirectory);
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    let calls = traced(&cell, "update", 0);
    assert!(calls.iter().any(|call| call.opens() && call.path() == Some(CERTIFICATES)), "{calls:#?}");
    assert_eq!(calls.iter().filter(|call| call.name == "connect").count(), 2, "{calls:#?}");
}

#[test]
fn an_authority_that_the_system_does_not_know_is_refused_after_both_looks() {
    let Some(updater) = cells() else { return };
    let scene = idle(&updater, Known::InTheDirectory);
    std::fs::remove_file(scene.files.path().join("root/etc/ssl/certs/cluster.pem")).unwrap();
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    scene.cluster.forget_requests();
    let ran = cell.run("update").unwrap();
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.said.contains("give the CA certificate with --ca-file"), "{ran:#?}");
    assert!(scene.cluster.requests().is_empty());
}

#[test]
fn what_follows_a_run_that_ended_well_takes_no_lock_and_writes_nothing() {
    let Some(updater) = cells() else { return };
    let scene = idle(&updater, Known::InTheBundle);
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    for (result, writes) in [("success", false), ("exit-code", true)] {
        let calls = traced_with(&cell, "recover", &[("SERVICE_RESULT", result)], 0);
        assert_eq!(calls.iter().any(Call::changes), writes, "{result}: {calls:#?}");
    }
}

/// Where the system knows the cluster's authority from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    InTheBundle,
    InTheDirectory,
}

/// A host on the version that the cluster names.
fn idle(updater: &Updater, known: Known) -> Scene {
    let mut scene = Scene::fresh(updater, &settings("10s", "0s"), &version(1)).unwrap();
    let certificates = scene.files.path().join("root").join(CERTIFICATES.trim_start_matches('/'));
    std::fs::create_dir_all(&certificates).unwrap();
    // Of the same name with another key, as after a change of keys.
    let other = Authority::new();
    let (bundle, file) = match known {
        Known::InTheBundle => (scene.cluster.ca_pem(), other.pem()),
        Known::InTheDirectory => (other.pem(), scene.cluster.ca_pem()),
    };
    std::fs::write(certificates.join("ca-certificates.crt"), bundle).unwrap();
    std::fs::write(certificates.join("cluster.pem"), file).unwrap();
    let enable = format!("enable --proxy {} --base-url {}", scene.cluster.addr(), scene.cluster.base_url());
    // The first run after an installation still settles what that left: the watch.
    let settle = |cell: &Cell| {
        let lines = [enable.as_str(), "update"];
        lines.into_iter().try_for_each(|line| said(&cell.run(line).map_err(|error| error.to_string())?, 0))
    };
    scene.live(settle).unwrap();
    scene
}

fn said(ran: &Ran, code: i32) -> Result<(), String> {
    if ran.code == Some(code) { Ok(()) } else { Err(format!("{ran:#?}")) }
}

/// The updater, where cells can be made; elsewhere the tests are skipped.
fn cells() -> Option<Updater> {
    suite::can().then(|| Updater::new(&updater()))
}

/// The calls of the updater with `line`, of all its threads and children.
fn traced(cell: &Cell, line: &str, code: i32) -> Vec<Call> {
    traced_with(cell, line, &[], code)
}

fn traced_with(cell: &Cell, line: &str, env: &[(&str, &str)], code: i32) -> Vec<Call> {
    let inner = cell.updater(&[line.to_owned()]);
    let mut command = cell.command(STRACE);
    command.args(["-f", "-qq", "-s", "4096", "-o", "/run/trace", "--"]).arg(inner.get_program()).args(inner.get_args());
    command.envs(env.iter().copied());
    said(&cell.finish(command).unwrap(), code).unwrap();
    let text = std::fs::read_to_string(cell.path("/run/trace")).unwrap();
    text.lines().filter_map(Call::read).collect()
}

/// A line of strace.
#[derive(Debug)]
struct Call {
    name: String,
    rest: String,
}

impl Call {
    /// The call that `line` begins; `None` where one goes on, or for a signal.
    fn read(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(' ')?.1.trim_start().split_once('(')?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then(|| Self { name: name.to_owned(), rest: rest.to_owned() })
    }

    fn path(&self) -> Option<&str> {
        self.rest.split('"').nth(1)
    }

    fn opens(&self) -> bool {
        ["open", "openat", "openat2"].contains(&self.name.as_str())
    }

    /// Whether it changes a file or a name.
    fn changes(&self) -> bool {
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| self.rest.contains(flag));
        let others = ["rename", "unlink", "link", "symlink", "mkdir", "rmdir", "chmod", "chown", "truncate", "sync"];
        (self.opens() && writes)
            || (others.iter().any(|other| self.name.contains(other)) && !self.name.starts_with("readlink"))
    }

    /// Whether it starts a program or a process.
    fn starts(&self) -> bool {
        match self.name.as_str() {
            "execve" | "execveat" | "fork" | "vfork" => true,
            "clone" | "clone3" => !self.rest.contains("CLONE_THREAD"),
            _ => false,
        }
    }

    fn is_about_memory(&self) -> bool {
        ["mmap", "munmap", "mprotect", "madvise", "mremap", "brk"].contains(&self.name.as_str())
    }
}
