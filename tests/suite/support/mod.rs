//! What black-box tests share, with `use crate::support::*`: the real binary, a test cluster on loopback, an image to bake into, and a bed to live in.

pub(crate) mod go;
pub(crate) mod life;
pub(crate) mod look;
pub(crate) mod package;
pub(crate) mod repository;
pub(crate) mod source;
pub(crate) mod transcript;

pub(crate) use std::collections::{BTreeMap, BTreeSet, HashSet};
pub(crate) use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::{Child, Command, Output, Stdio};
pub(crate) use std::time::{Duration, Instant};

pub(crate) use serde_json::{Value, json};
pub(crate) use testing::beds::{self, Bed, checkout};
pub(crate) use testing::cluster::{Archive, Auth, Cluster, Dialect, Find, Misbehaviour, Proxy, Signer, agent_program};
pub(crate) use testing::crash::Updater;
use testing::crash::injector::{self, Action, Scope, Traced};
use testing::crash::live::cell::Cell;
use testing::crash::live::flows::Scene;

pub(crate) use life::{SOON, VERSIONS};
pub(crate) use look::{binary, link, names, property, until};
pub(crate) use package::{Product, deb, install_deb, install_rpm, rpm};

/// The updater under test: static, as it is delivered.
pub(crate) fn updater() -> PathBuf {
    match std::env::var_os("TEST_UPDATER") {
        Some(path) => path.into(),
        None => env!("CARGO_BIN_EXE_teleport-update").into(),
    }
}

/// Health and watch settings that give a verdict in a second or two. A version that is to fail with them dies sooner than in a second.
pub(crate) const FAST: &str = "  watch: 1s\n  health:\n    stable: 1s\n    without_readiness: 2s\n    deadline: 8s\n";

/// What a command left: status, and both streams as text.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Exit status; -1 for a signal.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// What `output` tells.
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { status: output.status.code().unwrap_or(-1), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// The same of a program in a cell, whose streams are one. JSON begins with the first brace.
    pub(crate) fn of_cell(ran: testing::crash::live::cell::Ran) -> Self {
        let stdout = ran.said.find('{').map_or("", |at| &ran.said[at..]).to_owned();
        Self { status: ran.code.unwrap_or(-1), stdout, stderr: ran.said }
    }

    /// The same, after making sure that it ended with 0.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.status, 0, "{self:#?}");
        self
    }

    /// The same, after making sure that it ended with `status` and says `what` on standard error.
    #[track_caller]
    pub(crate) fn fails(self, status: i32, what: &str) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self.says(what)
    }

    /// The same, after making sure that it says `what` on standard error.
    #[track_caller]
    pub(crate) fn says(self, what: &str) -> Self {
        assert!(self.stderr.contains(what), "{what:?} is not in {self:#?}");
        self
    }

    /// The `error_code` of the last line of a run with `--log-format json`.
    #[track_caller]
    pub(crate) fn error_code(&self) -> String {
        let last = self.stderr.lines().last().unwrap_or_default();
        let line: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {self:#?}"));
        line["error_code"].as_str().unwrap_or_default().to_owned()
    }

    /// The same, after making sure that it ended with 1 and this `error_code`, as `--log-format json` has it.
    #[track_caller]
    pub(crate) fn refused(self, code: &str) -> Self {
        assert_eq!((self.status, self.error_code().as_str()), (1, code), "{self:#?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// An image below a temporary directory (`--root`), and a cluster for it. Runs in parallel with everything.
pub(crate) struct Image {
    dir: tempfile::TempDir,
    /// The cluster.
    pub cluster: Cluster,
    /// The host in whose place an image stands where a transcript says so.
    pub live: Option<Live>,
}

/// A host that lives, which the updater sees without `--root`.
pub(crate) enum Live {
    Bed(Bed),
    Cell(Cell),
}

impl Image {
    /// An empty image; the cluster names `version`, whose archive is published.
    pub(crate) fn new(version: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/etc")).unwrap();
        std::fs::create_dir_all(dir.path().join("cluster")).unwrap();
        let cluster = Cluster::start(&dir.path().join("cluster"));
        cluster.publish(&Archive::simple(version));
        cluster.set_directive(Find::version(version));
        Self { dir, cluster, live: None }
    }

    /// The host of `rig` as an image.
    pub(crate) fn of_bed(rig: Rig) -> Self {
        Self { dir: rig._dir, cluster: rig.cluster, live: Some(Live::Bed(rig.bed)) }
    }

    /// A cell with the files of `scene` as an image.
    pub(crate) fn of_cell(scene: Scene) -> Self {
        let cell = Cell::copy_of(scene.files.path(), &scene.updater).unwrap();
        Self { dir: scene.releases, cluster: scene.cluster, live: Some(Live::Cell(cell)) }
    }

    /// An image that is enabled at `version`.
    #[track_caller]
    pub(crate) fn enabled(version: &str) -> Self {
        let image = Self::new(version);
        image.enable(&[]).ok();
        image
    }

    /// The same; the cluster's log is empty.
    #[track_caller]
    pub(crate) fn quiet(version: &str) -> Self {
        let image = Self::enabled(version);
        image.cluster.forget_requests();
        image
    }

    /// The version that the agent's link leads to; empty without one.
    pub(crate) fn linked(&self) -> String {
        look::version(&self.root())
    }

    /// The tree but the lock file, which names its last holder, and what `updates.yaml` says happened.
    pub(crate) fn installation(&self) -> Vec<String> {
        self.tree().into_iter().filter(|line| !line.contains("/.lock/") && !line.contains("/updates.yaml ")).collect()
    }

    /// Releases `version`, and updates to it.
    #[track_caller]
    pub(crate) fn update_to(&self, version: &str) -> Ran {
        self.release(version);
        self.run(&["update"]).ok()
    }

    /// `status` as JSON.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.run(&["status", "--format", "json"]).ok().json()
    }

    /// The image's root.
    pub(crate) fn root(&self) -> PathBuf {
        match &self.live {
            Some(Live::Bed(bed)) => bed.root().to_owned(),
            Some(Live::Cell(cell)) => cell.path("/"),
            None => self.dir.path().join("root"),
        }
    }

    /// A path in the image.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        match &self.live {
            Some(Live::Cell(cell)) => cell.path(&format!("/{}", inside.trim_start_matches('/'))),
            _ => self.root().join(inside.trim_start_matches('/')),
        }
    }

    /// The versions directory.
    pub(crate) fn versions(&self) -> PathBuf {
        self.path("/var/lib/teleport/versions")
    }

    /// Runs the updater with `--root` below a shell's `limit` (`umask 077`, `ulimit -v 300000`).
    pub(crate) fn run_below(&self, limit: &str, args: &[&str]) -> Ran {
        let output = Command::new("/bin/sh")
            .env_clear()
            .args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")])
            .arg(updater())
            .arg("--root")
            .arg(self.root())
            .args(args)
            .output()
            .unwrap();
        Ran::of(&output)
    }

    /// Runs the updater with `--root` and no environment but `env`.
    pub(crate) fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        match &self.live {
            Some(Live::Bed(bed)) => {
                let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let env: Vec<&str> = env.iter().map(String::as_str).collect();
                // A path is another program of that kind.
                let is_named = args.first().is_some_and(|arg| arg.starts_with('/'));
                let program: &[&str] = if is_named { &[] } else { &["teleport-update"] };
                Ran::of(&bed.run(&[&["env"], &env[..], program, args].concat()))
            }
            Some(Live::Cell(cell)) => {
                let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
                Ran::of_cell(cell.finish(cell.updater(&args)).unwrap())
            }
            None => {
                let mut command = updater_at(&self.root());
                command.envs(env.iter().copied()).args(args);
                let Some((_, time)) = env.iter().find(|(name, _)| *name == "CLOCK") else {
                    return Ran::of(&command.output().unwrap());
                };
                let said = Action::Say(time.parse::<jiff::Timestamp>().unwrap().as_second());
                let Traced { status, stdout, stderr, .. } = injector::run(&mut command, Scope::Clock, |_| said);
                Ran { status: status.code().unwrap_or(-1), stdout, stderr }
            }
        }
    }

    /// Runs the updater with `--root`.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    /// The arguments of an `enable` against this cluster.
    pub(crate) fn enable_args(&self) -> Vec<String> {
        let ca = match self.live {
            Some(_) => "/root/ca.pem".to_owned(),
            None => self.cluster.ca_file().display().to_string(),
        };
        ["enable", "--proxy", &self.cluster.addr(), "--base-url", &self.cluster.base_url(), "--ca-file", &ca]
            .map(str::to_owned)
            .to_vec()
    }

    /// Enables, with further arguments.
    pub(crate) fn enable(&self, more: &[&str]) -> Ran {
        let args = self.enable_args();
        let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.run(&args)
    }

    /// Enables with another base URL, with further arguments.
    pub(crate) fn enable_from(&self, base_url: &str, more: &[&str]) -> Ran {
        let ca = self.cluster.ca_file().display().to_string();
        let addr = self.cluster.addr();
        let mut args = vec!["enable", "--proxy", &addr, "--base-url", base_url];
        if !more.contains(&"--ca-file") {
            args.extend(["--ca-file", &ca]);
        }
        args.extend(more);
        self.run(&args)
    }

    /// Publishes `version` and lets the cluster name it.
    pub(crate) fn release(&self, version: &str) {
        self.cluster.publish(&Archive::simple(version));
        self.cluster.set_directive(Find::version(version));
    }

    /// Makes the installed version's binaries a few bytes long, for tests that copy the image many times and run none.
    pub(crate) fn make_slim(&self, version: &str) {
        for entry in std::fs::read_dir(self.versions().join(version).join("bin")).unwrap() {
            std::fs::write(entry.unwrap().path(), "slim").unwrap();
        }
    }

    /// `updates.yaml` as text.
    pub(crate) fn config(&self) -> String {
        std::fs::read_to_string(self.versions().join("updates.yaml")).unwrap_or_default()
    }

    /// Writes `updates.yaml` anew, with these lines (indented by two) below `spec`.
    pub(crate) fn settings(&self, spec: &str) {
        std::fs::create_dir_all(self.versions()).unwrap();
        let text = format!("version: v1\nkind: agent_versions\nspec:\n{spec}");
        std::fs::write(self.versions().join("updates.yaml"), text).unwrap();
    }

    /// `last_result` of `status`.
    #[track_caller]
    pub(crate) fn last_result(&self) -> Value {
        self.status()["last_result"].clone()
    }

    /// [`Image::tree`] without what a failure may change: `status` in `updates.yaml`, and the holder named in the lock.
    #[track_caller]
    pub(crate) fn tree_but_status(&self) -> Vec<String> {
        let config = self.config();
        let spec = config.split("\nstatus:").next().unwrap_or_default().to_owned();
        let mut tree: Vec<String> = self.tree();
        tree.retain(|line| !line.contains("versions/updates.yaml ") && !line.contains("versions/.lock/"));
        tree.push(spec);
        tree
    }

    /// Publishes `bytes` as the `oss` archive of `version`, with its true digest, and lets the cluster name it.
    pub(crate) fn release_bytes(&self, version: &str, bytes: &[u8]) {
        self.cluster.publish_bytes(&format!("teleport-v{version}-linux-amd64-bin.tar.gz"), bytes);
        self.cluster.set_directive(Find::version(version));
    }

    /// Every path below the root with kind, mode, size, link target and digest: two equal lists are equal trees.
    pub(crate) fn tree(&self) -> Vec<String> {
        tree(&self.root())
    }
}

/// The updater for the image at `root`, without an environment.
pub(crate) fn updater_at(root: &Path) -> Command {
    let mut command = Command::new(updater());
    command.env_clear().arg("--root").arg(root);
    command
}

/// Kills the updater with `args` for the image at `root` at its `nth` system call named `call`. False: it got through.
pub(crate) fn is_killed_at(root: &Path, args: &[&str], call: &str, nth: usize) -> bool {
    let inject = [format!("trace={call}"), format!("inject={call}:signal=KILL:when={nth}")];
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject[0], "-e", &inject[1]]);
    let killed = strace.arg(updater()).arg("--root").arg(root).args(args).env_clear().output().unwrap();
    !killed.status.success()
}

/// A copy of the image at `root` below a temporary directory.
pub(crate) fn copy_of(root: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("cp").args(["-a", "-T"]).args([root, dir.path()]).status().unwrap().success());
    dir
}

/// Every path below `dir`, described.
pub(crate) fn tree(dir: &Path) -> Vec<String> {
    testing::crash::tree::tree(dir).unwrap()
}

/// A bed with the updater installed as the package does it, its own cluster, and (after [`Rig::start_agent`]) a running
/// agent under real systemd.
pub(crate) struct Rig {
    /// The bed.
    pub bed: Bed,
    /// The cluster.
    pub cluster: Cluster,
    _dir: tempfile::TempDir,
}

impl Rig {
    /// `None`, saying why, where this machine cannot host a bed.
    pub(crate) fn up(name: &str) -> Option<Self> {
        Self::up_on("bookworm", name, &[])
    }

    /// A bed that is enabled at 1.0.0.
    pub(crate) fn enabled(name: &str) -> Option<Self> {
        let rig = Self::up(name)?;
        rig.release(&Archive::simple("1.0.0"));
        rig.enable(&[]).ok();
        Some(rig)
    }

    /// The same with a running agent.
    pub(crate) fn on_one(name: &str) -> Option<Self> {
        let rig = Self::enabled(name)?;
        rig.start_agent();
        Some(rig)
    }

    /// Releases `archive`, and updates to it.
    #[track_caller]
    pub(crate) fn update_to(&self, archive: &Archive) -> Ran {
        self.release(archive);
        self.updater(&["update"]).ok()
    }

    /// Like [`Rig::up`], on a root of `root.sh`, with further arguments for `systemd-nspawn`.
    pub(crate) fn up_on(root: &str, name: &str, nspawn: &[&str]) -> Option<Self> {
        let rig = Self::bare_with(root, name, nspawn)?;
        rig.bed.put_updater(&updater());
        Some(rig)
    }

    /// The same without the updater, on a root of `root.sh`.
    pub(crate) fn bare(root: &str, name: &str) -> Option<Self> {
        Self::bare_with(root, name, &[])
    }

    pub(crate) fn bare_with(root: &str, name: &str, nspawn: &[&str]) -> Option<Self> {
        let bed = Bed::up_on(root, name, nspawn)?;
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(dir.path());
        bed.write("/etc/hosts", "127.0.0.1 localhost\n", 0o644);
        bed.write("/root/ca.pem", cluster.ca_pem(), 0o644);
        bed.write("/etc/teleport.yaml", "teleport:\n  data_dir: /var/lib/teleport\n", 0o600);
        let config = format!("version: v1\nkind: agent_versions\nspec:\n{FAST}");
        bed.write("/var/lib/teleport/versions/updates.yaml", &config, 0o644);
        Some(Self { bed, cluster, _dir: dir })
    }

    /// What a second installation, `dev`, finds: its agent's configuration, and settings as the first one's.
    pub(crate) fn prepare_dev(&self) {
        self.bed.write("/etc/teleport_dev.yaml", "teleport:\n  data_dir: /var/lib/teleport_dev\n", 0o600);
        let config = format!("version: v1\nkind: agent_versions\nspec:\n{FAST}");
        self.bed.write("/var/lib/teleport_dev/versions/updates.yaml", config, 0o644);
    }

    /// Publishes `archive` and lets the cluster name it.
    pub(crate) fn release(&self, archive: &Archive) {
        self.cluster.publish(archive);
        self.cluster.set_directive(Find::version(archive.version()));
    }

    /// Runs the updater in a unit of its own.
    pub(crate) fn updater(&self, args: &[&str]) -> Ran {
        let args: Vec<&str> = ["teleport-update"].into_iter().chain(args.iter().copied()).collect();
        Ran::of(&self.bed.run(&args))
    }

    /// Runs the updater `program`, where this happens to calls of these names (`inject=` of strace).
    pub(crate) fn injected(&self, program: &str, args: &[&str], calls: &str, what: &str) -> Output {
        let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:{what}"));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject]).arg(checkout("tests/beds/bed.sh"));
        strace.args(["exec", self.bed.name(), program]).args(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs the updater and kills it at its eighth record: between its journal and its commit.
    #[track_caller]
    pub(crate) fn kill_in_the_switch(&self, program: &str, args: &[&str]) {
        let killed = self.injected(program, args, "fdatasync", "signal=KILL:when=8");
        assert!(!killed.status.success(), "{killed:?}");
    }

    /// Enables against this rig's cluster, with further arguments.
    pub(crate) fn enable(&self, more: &[&str]) -> Ran {
        let (addr, base) = (self.cluster.addr(), self.cluster.base_url());
        let mut args = vec!["enable", "--proxy", &addr, "--base-url", &base, "--ca-file", "/root/ca.pem"];
        args.extend(more);
        self.updater(&args)
    }

    /// Enables and starts the agent's unit and waits until it answers.
    pub(crate) fn start_agent(&self) {
        self.bed.sh("systemctl daemon-reload; systemctl enable --now teleport");
        self.until_ready();
    }

    /// Waits until the agent is ready: its process lives, and wrote its number once it was (one that was killed leaves its own).
    pub(crate) fn until_ready(&self) {
        self.bed.until(
            "test -S /var/lib/teleport/debug.sock && kill -0 $(cat /run/teleport.pid)",
            std::time::Duration::from_secs(20),
        );
    }

    /// `status` as JSON.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.updater(&["status", "--format", "json"]).ok().json()
    }

    /// A path in the bed, as the host sees it.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.bed.root().join(inside.trim_start_matches('/'))
    }

    /// The answer to `sql` on the agent's database, a line a row.
    pub(crate) fn sql(&self, sql: &str) -> Vec<String> {
        sql_of(&self.path("/var/lib/teleport/proc/sqlite.db"), sql)
    }
}

/// The answer to `sql` on the database at `path`, a line a row, values separated by `|`.
pub(crate) fn sql_of(path: &Path, sql: &str) -> Vec<String> {
    let database = testing::crash::live::rows::open(path).unwrap();
    let mut statement = database.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values: Vec<String> = (0..columns)
            .map(|column| match row.get_ref(column).unwrap() {
                rusqlite::types::ValueRef::Null => String::new(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            })
            .collect();
        Ok(values.join("|"))
    });
    rows.unwrap().map(|row| row.unwrap()).collect()
}
