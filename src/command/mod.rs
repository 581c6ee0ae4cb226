//! One file a command: facts → plan → execute → report. What several commands share stands in [`errand`] (the whole
//! walk), [`survey`] (the facts) and [`ask`] (the cluster).

pub(crate) mod ask;
pub(crate) mod awaited;
pub(crate) mod completion;
mod data_dir;
pub(crate) mod disable;
pub(crate) mod enable;
pub(crate) mod errand;
pub(crate) mod hand_over;
pub(crate) mod identity;
#[cfg(test)]
mod model;
pub(crate) mod pin;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod rollback;
pub(crate) mod status;
pub(crate) mod stranger;
pub(crate) mod survey;
pub(crate) mod uninstall;
pub(crate) mod update;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod watch;
mod way_back;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::{Cli, Command, Global, LogFormat};
use crate::config::agent::AgentConfig;
use crate::config::{Credentials, Updates};
use crate::execute::Site;
use crate::host::lock::Lock;
use crate::host::signal::Signals;
use crate::host::{Host, Layout, command, durable, selinux, trust};
use crate::report::{Code, Format, Report, Result};
use crate::service::commands::Commands;
use crate::service::{HealthSettings, Service, StopProof};
use crate::store::publish;

/// How long a command waits for another run, seconds: an operator's patience.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// How long the timer's run waits, seconds: the next one comes in ten minutes.
const TIMER_LOCK_WAIT: Duration = Duration::from_secs(5);

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
    pub misnamed: bool,
    /// Passwords and tokens that this command was given, until its commit; none if they are the kept ones.
    pub credentials: Option<Credentials>,
    /// `spec.data_dir` of `updates.yaml` when it was last opened.
    pub data_dir: Option<PathBuf>,
}

impl Context {
    /// The context of this process.
    pub fn new(host: Host, global: &Global) -> Result<Self> {
        let format = match global.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        let report = Report::new(&host, format, global.debug);
        let root = global.root.clone().unwrap_or_else(|| PathBuf::from("/"));
        let layout = Layout::new(&root, global.install_suffix.as_deref(), None)?;
        trust::set_root(&layout.root);
        Ok(Self {
            report,
            layout,
            path: None,
            signals: Signals::install()?,
            host,
            global: global.clone(),
            misnamed: false,
            credentials: None,
            data_dir: None,
        })
    }

    /// `updates.yaml` with the version that the links lead to, and the layout with the link directory that it names.
    pub fn open(&mut self) -> Result<Updates> {
        let mut updates = Updates::read(&self.layout.config_file())?;
        self.lay_out(updates.spec().path.as_deref())?;
        self.data_dir.clone_from(&updates.spec().data_dir);
        let told = survey::believe_links(self, &mut updates)?;
        if let (Some(told), Some(linked), false) = (&told, &updates.spec().active_version, self.misnamed) {
            let file = updates.file().display();
            self.report
                .warn(&format!("{file} says that {told} is active, but all links point to {linked}; using {linked}"));
        }
        self.misnamed = told.is_some();
        Ok(updates)
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
        AgentConfig::read(&self.layout.behind(&self.layout.agent_config))
    }

    /// The agent's data directory, real path: as set in `updates.yaml`, else in `teleport.yaml`; the default one for those
    /// who may not read that.
    ///
    /// Errors: `config_invalid`, `io`; `permission` where others could have named it in `teleport.yaml`.
    pub fn data_dir(&self) -> Result<PathBuf> {
        if let Some(dir) = &self.data_dir {
            return Ok(self.layout.real(dir));
        }
        let config = match self.agent_config() {
            Err(error) if error.code == Code::Permission => None,
            other => other?,
        };
        let named = config.and_then(|config| config.data_dir);
        // Mostly it is the default one, and its way need not be walked twice.
        let Some(named) = named.filter(|named| *named != self.layout.default_data_dir_name()) else {
            return Ok(self.layout.default_data_dir());
        };
        let named = self.layout.agents(&named);
        if named != self.layout.default_data_dir() {
            trust::check_naming(&self.layout.behind(&self.layout.agent_config), &named)?;
        }
        Ok(named)
    }

    /// What must not be in use when the agent is stopped.
    pub fn stop_proof(&self) -> Result<StopProof> {
        Ok(StopProof {
            versions_dir: self.layout.versions.clone(),
            plain_binary: Some(self.layout.link_dir.join("teleport")),
            database: self.layout.database(&self.data_dir()?),
            at_boot: false,
            unit: self.layout.unit.clone(),
        })
    }

    /// What runs the agent.
    pub fn service(&self, updates: &Updates) -> Result<Service> {
        let commands = updates.spec().service.as_ref().map(|commands| Commands {
            start: commands.start.clone(),
            stop: Some(commands.stop.clone()),
            reload: Some(commands.reload.clone()),
            pid_file: commands.pid_file.clone(),
        });
        Ok(Service::detect(&self.layout.unit, commands, self.layout.is_image()))
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
            health: HealthSettings {
                stable: spec.health.stable,
                without_readiness: spec.health.without_readiness,
                deadline: spec.health.deadline,
                watch: spec.watch,
            },
            database_timeout: spec.database_timeout,
            busy_too_long: record::is_busy_too_long(updates.status(), self.host.now()),
            before_reload: Cell::default(),
            standstill: RefCell::default(),
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
        match Lock::acquire(&self.lock_path(), self.lock_wait(command), command, &|| self.signals.cancelled()) {
            Ok(lock) => {
                awaited::over(self);
                Ok(lock)
            }
            Err(error) if error.code == Code::LockHeld => Err(awaited::note(self, error)),
            Err(error) => Err(error),
        }
    }

    /// How long `command` waits for another run.
    pub fn lock_wait(&self, command: &str) -> Duration {
        if command == "update" { TIMER_LOCK_WAIT } else { LOCK_WAIT }
    }

    /// Where the lock is.
    pub fn lock_path(&self) -> PathBuf {
        self.layout.versions.join(publish::LOCK)
    }
}

/// Whether a command may change the host; the others need no lock, and no right but to read.
fn writes(command: &Command) -> bool {
    match command {
        Command::Verify(args) => args.repair,
        Command::Status(_) | Command::Plan(_) => false,
        Command::Completion { .. } | Command::Version(_) | Command::Man => false,
        _ => true,
    }
}

/// Runs the command line. Returns the exit status.
pub fn run(cli: &Cli, context: &mut Context) -> Result<u8> {
    if let Command::Enable(args) | Command::Pin(args) = &cli.command {
        enable::check_words(args)?;
    }
    match &cli.command {
        Command::Version(_) | Command::Completion { .. } | Command::Man => {}
        // It tells what it can.
        Command::Status(_) => {
            let checked = trust::check_versions(&context.layout).and_then(|()| trust::check_installed(&context.layout));
            if let Err(error) = checked {
                context.report.warn(&error.to_string());
            }
        }
        _ => trust::check_versions(&context.layout)?,
    }
    // Before anything of a version is read or run.
    if matches!(&cli.command, Command::Verify(args) if args.repair) {
        verify::close(context)?;
    }
    if let Some(status) = hand_over::to_active(cli, context)? {
        return Ok(status);
    }
    // Undoing an interrupted run and removing everything stop the agent too; a move sees to it itself.
    let stops = match &cli.command {
        Command::Uninstall(args) => args.force,
        command => writes(command) && recover::is_needed(context),
    };
    if stops && let Some(status) = errand::leave_session(context)? {
        return Ok(status);
    }
    // Before the command reads anything: what was committed may not stand in `updates.yaml` yet.
    if writes(&cli.command) && !matches!(cli.command, Command::Recover(_)) && recover::is_needed(context) {
        let waits_shortly = matches!(cli.command, Command::Update(_));
        let _lock = context.lock(if waits_shortly { "update" } else { "recover" })?;
        recover::pending(context, false)?;
    }
    match &cli.command {
        Command::Enable(args) => enable::run(context, args),
        Command::Disable => disable::run(context),
        Command::Update(args) => update::run(context, args),
        Command::Pin(args) => pin::run(context, args),
        Command::Unpin => pin::unpin(context),
        Command::Status(args) => status::run(context, args),
        Command::Plan(args) => plan::run(context, args),
        Command::Verify(args) => verify::run(context, args),
        Command::Rollback => rollback::run(context),
        Command::Recover(args) => recover::run(context, args),
        Command::Uninstall(args) => uninstall::run(context, args),
        Command::Completion { shell } => completion::run(*shell),
        Command::Version(args) => version::run(args),
        Command::Man => completion::man(),
    }
}
