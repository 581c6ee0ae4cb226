//! What every command works with: environment, paths, voice, signals, the settings' data directory, the lock.

pub(crate) mod awaited;
pub(crate) mod heard;

use crate::execute::{Site, journal};
use jiff::{SignedDuration, Timestamp};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use crate::cli::Global;
use crate::config::agent::AgentConfig;
use crate::config::{Credentials, Status, Updates};
use crate::host::layout::DEFAULT_DATA_DIR;
use crate::host::lock::{self, Lock};
use crate::host::signal::Signals;
use crate::host::{Host, Layout, command, durable, fingerprint, ownership, selinux, trust};
use crate::report::{Code, Error, Report, Result};
use crate::service::{Service, StopProof};
use crate::store::publish;

/// Runs that a database in use fails, and hours that it does so, before a move that keeps it goes on all the same: a
/// backup job ends, a process that holds a lock for ever must not keep a host on its version (SPEC §6).
const MAX_BUSY_RUNS: u32 = 3;
const MAX_BUSY_TIME: SignedDuration = SignedDuration::from_hours(6);
/// A new directory for an agent's data: everybody may pass, for the links to lead to `tsh`, and nobody but its owner read
/// what is in it (SPEC §1). The agent would make it 0700.
const STATE_MODE: u32 = 0o711;

/// What every command works with.
#[derive(Debug)]
pub struct Context {
    /// Environment, arguments, clock.
    pub host: Host,
    /// Paths.
    pub layout: Layout,
    /// The link directory that they are for, where it is not the usual one.
    pub path: Option<PathBuf>,
    /// The voice.
    pub report: Report,
    /// SIGINT and SIGTERM.
    pub signals: Signals,
    /// Options of every command.
    pub global: Global,
    /// `updates.yaml` named another version than the links when it was last opened.
    pub settings_disagree: bool,
    /// Passwords and tokens that this command was given, until its commit; none if they are the kept ones.
    pub credentials: Option<Credentials>,
    /// `spec.data_dir` of `updates.yaml` when it was last opened.
    pub data_dir: Option<PathBuf>,
    /// What a rollout server said to this run, and this run to it.
    pub(crate) talk: heard::Talk,
}

impl Context {
    /// The context of this process.
    pub fn new(host: Host, global: &Global) -> Result<Self> {
        let report = Report::new(|name| host.var(name), global);
        let root = global.root.clone().unwrap_or_else(|| PathBuf::from("/"));
        check_root(&root)?;
        let layout = Layout::new(&root, global.install_suffix.as_deref(), None)?;
        ownership::set_root(&layout.root);
        Ok(Self {
            report,
            layout,
            path: None,
            signals: Signals::install()?,
            host,
            global: global.clone(),
            settings_disagree: false,
            credentials: None,
            data_dir: None,
            talk: heard::Talk::default(),
        })
    }

    /// Makes the layout that of the link directory `path` (`spec.path`; none for the usual one).
    pub fn lay_out(&mut self, path: Option<&Path>) -> Result<()> {
        if self.path.as_deref() != path {
            self.layout = Layout::new(&self.layout.root, self.layout.suffix.as_deref(), path)?;
            self.path = path.map(Path::to_owned);
        }
        Ok(())
    }

    /// `teleport.yaml`, if there is one.
    pub fn agent_config(&self) -> Result<Option<AgentConfig>> {
        agent_config_of(&self.layout)
    }

    /// The agent's data directory, real path: as set in `updates.yaml`, else in `teleport.yaml`; the default one for those
    /// who may not read that.
    ///
    /// Errors: `config_invalid`, `io`; `permission` where others could have named it in `teleport.yaml`.
    pub fn data_dir(&self) -> Result<PathBuf> {
        data_dir_of(&self.layout, self.data_dir.as_deref())
    }

    /// The agent's host UUID, if it ever joined. Errors: as [`Context::data_dir`]; `io`.
    pub(crate) fn host_uuid(&self) -> Result<Option<String>> {
        // Only root may read the agent's directory; without it the question is asked without the id.
        fingerprint::agent_uuid(&self.data_dir()?)
    }

    /// Whether a run was interrupted and is to be undone or finished.
    pub(crate) fn is_interrupted(&self) -> bool {
        journal::is_open(&self.layout.versions)
    }

    /// What must not be in use when the agent is stopped.
    pub fn stop_proof(&self) -> Result<StopProof> {
        Ok(StopProof::of(&self.layout, &self.data_dir()?))
    }

    /// What runs the agent.
    pub fn service(&self, updates: &Updates) -> Result<Service> {
        Ok(Service::detect(&self.layout.unit, updates.spec().service.clone(), self.layout.is_image()))
    }

    /// The place where a plan is carried out.
    pub fn site(&self, updates: &Updates, boot: bool) -> Result<Site<'_>> {
        self.site_of(updates, boot, self.data_dir()?)
    }

    /// The same for an agent whose data directory is known without `teleport.yaml`.
    pub fn site_of(&self, updates: &Updates, boot: bool, data_dir: PathBuf) -> Result<Site<'_>> {
        let spec = updates.spec();
        Ok(Site {
            host: &self.host,
            layout: &self.layout,
            report: &self.report,
            signals: &self.signals,
            service: self.service(updates)?,
            data_dir,
            proxy: spec.proxy.clone().unwrap_or_default(),
            health: spec.health,
            database_timeout: spec.database_timeout,
            busy_too_long: is_busy_too_long(updates.status(), self.host.now()),
            before_reload: Cell::default(),
            stopped_at: Cell::default(),
            down: RefCell::default(),
            restarted: Cell::default(),
            downtime: RefCell::default(),
            boot,
        })
    }

    /// The file of credentials that this command's commit puts in place; none if they stay.
    pub fn next_credentials(&self) -> Result<Option<String>> {
        self.credentials.as_ref().map(|given| given.render_over(&self.layout.versions)).transpose()
    }

    /// Makes the versions directory if need be.
    pub fn make_versions(&self) -> Result<()> {
        let state = durable::parent(&self.layout.versions);
        durable::create_dir(state, STATE_MODE)?;
        durable::create_dir_all(&self.layout.versions)?;
        if !self.layout.is_image() && selinux::awaits_label(state) {
            let done = command::Command::new("restorecon").arg("-R").arg(state).run();
            if !done.is_ok_and(|output| output.status.success()) {
                self.report
                    .warn(&format!("cannot set the SELinux labels of {0}; run `restorecon -R {0}`", state.display()));
            }
        }
        Ok(())
    }

    /// Takes the lock, making the versions directory if need be.
    ///
    /// Errors: also where versions are another's, for what follows works in them.
    pub fn lock(&self, command: &str) -> Result<Lock> {
        self.make_versions()?;
        trust::check_installed(&self.layout)?;
        let lock = Lock::acquire(&self.lock_path(), lock::wait_of(command), command, &|| self.signals.cancelled());
        let told = |error: Error| if error.code == Code::LockHeld { awaited::note(self, error) } else { error };
        lock.inspect(|_| awaited::over(self)).map_err(told)
    }

    /// Where the lock is.
    pub fn lock_path(&self) -> PathBuf {
        self.layout.versions.join(publish::LOCK)
    }
}

fn agent_config_of(layout: &Layout) -> Result<Option<AgentConfig>> {
    AgentConfig::read(&layout.behind(&layout.agent_config))
}

/// As [`Context::data_dir`], of any installation; `set`: `spec.data_dir` of its `updates.yaml`.
pub(crate) fn data_dir_of(layout: &Layout, set: Option<&Path>) -> Result<PathBuf> {
    if let Some(dir) = set {
        return Ok(layout.real_path(dir));
    }
    let config = match agent_config_of(layout) {
        Err(error) if error.code == Code::Permission => None,
        other => other?,
    };
    // The agent that a configuration leaves without one takes its own default, with a suffix as well.
    let named = config.map(|config| config.data_dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA_DIR)));
    // Mostly it is the default one, and its way need not be walked twice.
    let Some(named) = named.filter(|named| *named != layout.default_data_dir_name()) else {
        return Ok(layout.default_data_dir());
    };
    let named = layout.agents(&named);
    if named != layout.default_data_dir() {
        trust::check_naming(&layout.behind(&layout.agent_config), &named)?;
    }
    Ok(named)
}

/// An image that is not there, a misspelt one mostly, would be an empty host, and `enable` would make one.
///
/// Errors: `usage`.
fn check_root(root: &Path) -> Result<()> {
    let wrong = |why: &str| Err(Error::new(Code::Usage, format!("--root {}: {why}", root.display())));
    match std::fs::metadata(root) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => wrong("this is not a directory"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => wrong("there is no such directory"),
        Err(error) => wrong(&error.to_string()),
    }
}

/// Whether enough runs have failed because the database was in use.
fn is_busy_too_long(status: &Status, now: Timestamp) -> bool {
    status
        .database_busy
        .as_ref()
        .is_some_and(|busy| busy.count >= MAX_BUSY_RUNS && now.duration_since(busy.since) >= MAX_BUSY_TIME)
}
