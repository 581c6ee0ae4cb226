//! What a command wants, and what it was decided from.

use crate::config::{Credentials, Spec, Updates};
use crate::context::Context;
use crate::database::SnapshotId;
use crate::host::durable;
use crate::inspect::FactsFor;
use crate::plan::Over;
use crate::plan::decide::Terms;
use crate::report::{Code, Error, Result};
use protocol::Revision;

/// What a command decides from, and others may change as long as the lock is not held: an operator's command, another run, a
/// hand in an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Basis {
    spec: Spec,
    credentials: Credentials,
    /// There was a file with settings: without one they are what the links say.
    written: bool,
}

impl Basis {
    /// Of the settings as they were read.
    ///
    /// Errors: `permission`, `io`.
    pub(crate) fn of(context: &Context, updates: &Updates) -> Result<Self> {
        let credentials = Credentials::known(&context.layout.versions)?;
        let written = durable::exists(&context.layout.config_file())?;
        Ok(Self { spec: updates.spec().clone(), credentials, written })
    }

    /// Refuses to change again what was changed since this was so: `now` it is otherwise, and `wanted` otherwise again. The
    /// later word counts, and who came earlier is told.
    ///
    /// Errors: `overtaken`.
    pub(crate) fn refuse_contested(&self, now: &Self, wanted: &Spec, credentials: Option<&Credentials>) -> Result<()> {
        let mut names = now.spec.contested(&self.spec, wanted);
        let is_other = |credentials: &Credentials| *credentials != now.credentials;
        if self.credentials != now.credentials && credentials.is_some_and(is_other) {
            names.push("the credentials");
        }
        if names.is_empty() {
            return Ok(());
        }
        let what = format!(
            "another command or an editor changed {} while this command was running; that change was kept",
            names.join(", ")
        );
        Err(Error::new(Code::Overtaken, what)
            .advise("check updates.yaml; run the command again if you still want its change"))
    }

    /// Whether the settings have gone since: another run has uninstalled.
    pub(crate) fn is_gone(&self, context: &Context) -> Result<bool> {
        Ok(self.written && !durable::exists(&context.layout.config_file())?)
    }
}

/// What a command wants.
pub(crate) struct RunRequest<'a> {
    /// The command's name, for the lock and the journal.
    pub command: &'static str,
    /// The revision to be reached.
    pub target: Revision,
    /// Whether the cluster's window is open, or does not matter.
    pub in_window: bool,
    /// The operator forced: earlier refusals do not count.
    pub force: bool,
    /// On which terms the source names the revision.
    pub terms: Terms,
    /// What it does, and so which facts it needs.
    pub facts_for: FactsFor,
    /// What of others may be replaced.
    pub over: Over,
    /// What the commit changes in the settings.
    pub change: &'a dyn Fn(&mut Spec),
    /// Why there is nothing to do any more, if the settings say so when the lock is ours: another run was quicker.
    pub obsolete: &'a dyn Fn(&Updates) -> Option<String>,
    /// The version that is left is refused from now on, for this reason (a rollback).
    pub refuse_outgoing: Option<String>,
    /// Digest of a snapshot that is asked for nothing else (a failed watch goes back to its own).
    pub trusted_snapshot: Option<SnapshotId>,
    /// What it was decided from: under the lock it must still be so. `None` where no setting has a say.
    pub basis: Option<Basis>,
}

impl RunRequest<'_> {
    /// `command` moves to `target` in an open window and changes no settings.
    pub(crate) fn new(command: &'static str, target: Revision) -> Self {
        Self {
            command,
            target,
            in_window: true,
            force: true,
            terms: Terms::default(),
            facts_for: FactsFor::Move,
            over: Over::Told,
            change: &|_| {},
            obsolete: &|_| None,
            refuse_outgoing: None,
            trusted_snapshot: None,
            basis: None,
        }
    }

    /// The settings as the commit will write them, but for the version that is active then.
    pub(crate) fn settings(&self, updates: &Updates) -> Spec {
        let mut spec = updates.spec().clone();
        (self.change)(&mut spec);
        spec
    }
}
