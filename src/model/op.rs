//! What can happen to a host, and the program's commands.

use super::host::{Host, Stop};
use super::reference::{Answer, Reference};
use super::updater::Did;
use super::world::Rev;

/// What happens.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// The cluster names a revision, whose archive can be downloaded.
    Publish(Rev),
    /// An archive is taken away again.
    Withdraw(Rev),
    /// The cluster's window opens or closes.
    Window(bool),
    /// A command, killed after so many changes.
    Run(Command, Option<u32>),
    /// The power goes and comes back; the boot's recovery may itself be killed.
    Reboot(Option<u32>),
    /// The operator edits `updates.yaml`.
    Edit(Edit),
    /// The clock is stepped by so many seconds.
    Clock(i64),
    /// Something is damaged: in which version, what.
    Damage(Rev, Damage),
    /// The agent acknowledges a row.
    Row,
    /// The operator deals with the agent's service.
    Service(Service),
}

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the program's own commands")]
pub(super) enum Command {
    Update,
    UpdateNow,
    Enable,
    Disable,
    Pin(Option<Rev>),
    Unpin,
    Rollback,
    Recover,
    Repair,
    Uninstall,
}

/// An edit.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "they are the settings' own names")]
pub(super) enum Edit {
    Keep(u32),
    MinVersion(Option<usize>),
    MaxAge(i64),
    Proxy(usize),
}

/// A damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// A file has another size.
    Size,
    /// A file has other bytes of the same size.
    Bytes,
    /// The marker is gone.
    Marker,
    /// The snapshot has other bytes.
    Snapshot,
    /// `backup.yaml` cannot be read.
    Description,
    /// The snapshot is gone.
    NoSnapshot,
    /// A link is gone.
    Link,
}

/// What an operator does with systemctl, or the agent by itself.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "they are systemctl's own words")]
pub(super) enum Service {
    Enable,
    Start,
    Stop,
    Crash,
}

/// Has the host do `command`, by the program's rules.
pub(super) fn drive(host: &mut Host, command: Command) -> Result<Did, Stop> {
    match command {
        Command::Update => host.update(false),
        Command::UpdateNow => host.update(true),
        Command::Enable => host.enable(),
        Command::Disable => host.settings(&|spec| spec.enabled = false),
        Command::Pin(rev) => host.pin(rev),
        Command::Unpin => host.settings(&|spec| {
            spec.pinned = false;
            spec.pinned_version = None;
        }),
        Command::Rollback => host.rollback(),
        Command::Recover => host.recover(false).map(|()| Did::Waited),
        Command::Repair => host.repair(),
        Command::Uninstall => host.uninstall(),
    }
}

/// What SPEC says of the same.
pub(super) fn account(reference: &mut Reference, command: Command) -> Answer {
    match command {
        Command::Update => reference.update(false),
        Command::UpdateNow => reference.update(true),
        Command::Enable => reference.enable(),
        Command::Disable => {
            reference.enabled = false;
            Answer::Fine
        }
        Command::Pin(rev) => reference.pin(rev),
        Command::Unpin => {
            reference.pinned = None;
            Answer::Fine
        }
        Command::Rollback => reference.rollback(),
        Command::Recover => Answer::Fine,
        Command::Repair => reference.repair(),
        Command::Uninstall => reference.uninstall(),
    }
}
