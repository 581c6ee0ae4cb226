//! What the steps work on.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::database::{FileLock, StatData};
use crate::host::process::Reaper;
use crate::host::signal::Signals;
use crate::host::{Host, Layout};
use crate::report::{Error, Report};
use crate::service::{HealthSettings, Service, StopProof};
use crate::store::VersionDir;

/// The place where a plan is carried out.
#[derive(Debug)]
pub struct Site<'a> {
    /// Environment and clock.
    pub host: &'a Host,
    /// Paths.
    pub layout: &'a Layout,
    /// Where it is said what happens.
    pub report: &'a Report,
    /// SIGINT and SIGTERM.
    pub signals: &'a Signals,
    /// What runs the agent.
    pub service: Service,
    /// The agent's data directory.
    pub data_dir: PathBuf,
    /// The cluster, as `backup.yaml` names it.
    pub proxy: String,
    /// When a version counts as healthy.
    pub health: HealthSettings,
    /// How long a database is waited for that is in use.
    pub database_timeout: Duration,
    /// Earlier runs have waited long enough for a database that stays busy: a move that keeps it does not wait for ever.
    pub busy_too_long: bool,
    /// The old main process just before the reload: a successor that dies at once leaves a trace in it alone.
    pub before_reload: Cell<Option<Reaper>>,
    /// When the agent was stopped.
    pub stopped_at: Cell<Option<Instant>>,
    /// It could not be reloaded, and was restarted.
    pub restarted: Cell<bool>,
    /// Why the agent that was brought back does not run.
    pub down: RefCell<Option<Error>>,
    /// What is known while the agent stands still for a restore.
    pub downtime: RefCell<Downtime>,
    /// The boot-time recovery: no network, no service calls.
    pub boot: bool,
}

/// What is made ready before an agent must stand still for a restore, or found out meanwhile.
#[derive(Debug, Default)]
pub struct Downtime {
    /// The live database as this run has taken it.
    pub left: Option<StatData>,
    /// Keeps whoever is started meanwhile from that database.
    pub lock: Option<FileLock>,
}

impl Site<'_> {
    /// The agent's database.
    pub fn database(&self) -> PathBuf {
        self.layout.database(&self.data_dir)
    }

    /// What must not be in use when the agent is stopped.
    pub fn stop_proof(&self) -> StopProof {
        StopProof { at_boot: self.boot, ..StopProof::of(self.layout, &self.data_dir) }
    }

    /// The real path of a directory in the versions directory.
    pub fn version_dir(&self, dir: &VersionDir) -> PathBuf {
        self.layout.versions.join(dir)
    }
}
