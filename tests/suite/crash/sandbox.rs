//! SPEC §4: what parses an archive can't do more than fill its staging directory, whatever the archive makes it do.

use testing::cluster::Misbehaviour::Stall;

use crate::support::*;

/// Until a thread is there and sandboxed.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn the_thread_that_unpacks_is_in_its_sandbox_before_the_archive_is_there_and_the_others_are_not() {
    let image = Image::new("1.0.0");
    image.cluster.misbehave(".tar.gz$", Stall { after_bytes: 0 });
    let mut run = Running(updater_at(&image.root()).args(image.enable_args()).stderr(Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + SOON;
    let threads = loop {
        let threads = threads(run.0.id());
        if threads.iter().any(|thread| thread.name == "unpack" && thread.seccomp != 0) {
            break threads;
        }
        assert!(Instant::now() < deadline, "{threads:?}");
        assert!(run.0.try_wait().unwrap().is_none(), "it ended");
    };
    for thread in threads {
        let sandboxed = thread.name == "unpack";
        // 2: a filter (seccomp(2)); Landlock's own sign is that no program can gain rights.
        assert_eq!((thread.seccomp == 2, thread.no_new_privs == 1), (sandboxed, sandboxed), "{thread:?}");
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
struct Thread {
    name: String,
    seccomp: u32,
    no_new_privs: u32,
}

/// The threads of `pid` as /proc shows them.
fn threads(pid: u32) -> Vec<Thread> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    told.map(|text| {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        let number = |name: &str| field(name).parse().unwrap_or_default();
        Thread { name: field("Name"), seccomp: number("Seccomp"), no_new_privs: number("NoNewPrivs") }
    })
    .collect()
}
