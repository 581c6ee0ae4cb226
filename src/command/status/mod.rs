//! `status`: versions, settings and the last result; offline, without root, in at most a second (SPEC §9).

mod report;

use std::io::IsTerminal;
use std::time::Duration;

use http_client::redact;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::{OutputFormat, Status as Args};
use crate::command::version;
use crate::config::Updates;
use crate::config::status::Status;
use crate::context::{Context, awaited};
use crate::host::lock;
use crate::inspect;
use crate::plan::decide::{self, Decision, Request, Terms};
use crate::release::tuf;
use crate::report::{Code, Result};
use crate::run::wanted::{self, Answer, Asking, Purpose};
use crate::run::{fleet, network};
use crate::store::publish;
use protocol::Revision;
use protocol::find::Directive;
use report::{Held, StatusReport};

/// How long the cluster may take: `status` answers within a second in all.
const PATIENCE: Duration = Duration::from_millis(800);
/// Exit status of `--err-if-should-update-now` when an update is due.
const UPDATE_DUE: u8 = 3;

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Args) -> Result<u8> {
    let (updates, is_readable) = match inspect::open(context) {
        Ok(updates) => (updates, true),
        // What may not be read is null.
        Err(error) if error.code == Code::Permission => {
            context.report.warn(&error.to_string());
            (Updates::empty(&context.layout.config_file()), false)
        }
        Err(error) => return Err(error),
    };
    let answer = answer(context, &updates);
    let directive = answer.as_ref().and_then(|answer| answer.directive.clone());
    let terms = answer.map(|answer| answer.terms).unwrap_or_default();
    let due = directive.as_ref().is_some_and(|directive| is_due(context, &updates, directive, &terms));
    let mut status = gather(context, &updates, is_readable, directive.as_ref());
    status.source_reason = terms.reason;
    status.fleet = terms.fleet;
    status.source_stale = terms.stale.or(status.source_stale);
    let silent = updates.spec().enabled.then(|| inspect::silent_timer(context)).flatten();
    status.attention = is_readable.then(|| status.complaints().chain(silent).chain(awaited(context)).collect());
    let format =
        args.format.unwrap_or(if std::io::stdout().is_terminal() { OutputFormat::Text } else { OutputFormat::Json });
    let text = match format {
        OutputFormat::Json => format!("{:#}\n", json!(status)),
        OutputFormat::Yaml => yaml(&json!(status)),
        OutputFormat::Text => status.text(),
    };
    version::print(text.as_bytes())?;
    Ok(if args.err_if_should_update_now && due { UPDATE_DUE } else { 0 })
}

/// Whether a run downloads, which needs no lock.
fn is_downloading(context: &Context) -> bool {
    let entries = std::fs::read_dir(&context.layout.versions).into_iter().flatten().flatten();
    let mut staged = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(publish::STAGING_PREFIX));
    staged.any(|entry| lock::holder(&entry.path()).is_ok_and(|holder| holder.is_some()))
}

/// That runs wait for the lock, where no run takes so long.
fn awaited(context: &Context) -> Option<String> {
    let since = awaited::since(context).filter(|since| awaited::is_long(context, *since))?;
    Some(format!("no run has been able to start since {since}: another run holds the lock"))
}

/// What the source wants, if it says so in time.
fn answer(context: &Context, updates: &Updates) -> Option<Answer> {
    let spec = updates.spec();
    spec.proxy.as_ref().or(spec.source.as_ref())?;
    let asked = network::client(context, spec).and_then(|client| {
        let active = wanted::active(context, updates)?;
        let asking = Asking::new(updates, active.as_ref(), &client, Purpose::Show);
        wanted::ask(context, &Asking { deadline: Some(PATIENCE), ..asking })
    });
    match asked {
        Ok(answer) => Some(answer),
        Err(error) => {
            context.report.warn(&format!("cannot get the desired version from the cluster: {error}"));
            None
        }
    }
}

/// Whether `update`, run now, would change something.
fn is_due(context: &Context, updates: &Updates, directive: &Directive, terms: &Terms) -> bool {
    let spec = updates.spec();
    if !spec.enabled || spec.pinned {
        return false;
    }
    let facts = match inspect::facts(context, updates, inspect::FactsFor::Move, None) {
        Ok(facts) => facts,
        Err(error) => {
            context.report.warn(&format!("cannot find out whether an update is due: {error}"));
            return false;
        }
    };
    let Ok(wanted) = wanted::revision(directive, facts.active.as_ref(), None) else {
        return false;
    };
    let question = Request {
        wanted: wanted.clone(),
        // Who is only told is told at any time.
        in_window: directive.in_window || spec.notify_only,
        force: false,
        announced: None,
        terms: terms.clone(),
    };
    matches!(decide::decide(&facts, &question, spec.min_version.as_ref()), Decision::Proceed)
        && facts.active.as_ref() != Some(&wanted)
}

fn gather(context: &Context, updates: &Updates, is_readable: bool, directive: Option<&Directive>) -> StatusReport {
    let (spec, status) = (updates.spec(), updates.status());
    // What may not be read is null, and what cannot be is told.
    let installed = inspect::installed_now(context, updates).unwrap_or_else(|error| {
        if error.code != Code::Permission {
            context.report.warn(&error.to_string());
        }
        Vec::new()
    });
    let active = inspect::active(updates, &installed);
    let desired = directive.and_then(|directive| wanted::revision(directive, active.as_ref(), None).ok());
    let edition = |revision: &Option<Revision>| revision.as_ref().map(|revision| revision.edition.as_str());
    let desired_version = desired.as_ref().map(|desired| &desired.version).or(directive.map(|named| &named.version));
    let is_ours = active.is_some() && status.installed_by.is_none();
    let running = inspect::running(context, updates);
    let run = lock::run_of(&context.lock_path()).ok();
    StatusReport {
        agent_version_installed: spec.active_version.as_ref().map(ToString::to_string),
        agent_version_desired: desired_version.map(ToString::to_string),
        agent_version_previous: status.previous.as_ref().map(|previous| previous.version.to_string()),
        agent_edition_installed: edition(&active),
        agent_edition_desired: edition(&desired),
        agent_edition_previous: edition(&status.previous),
        agent_update_time_last: status.last_update_time.map(|time| time.to_string()),
        agent_update_time_jitter: directive.map(|directive| directive.jitter_seconds),
        agent_updates_enabled: is_readable.then_some(spec.enabled),
        proxy: spec.proxy.clone(),
        source: spec.source.as_deref().map(redact),
        source_reason: None,
        source_stale: wanted::stale(context, spec),
        notify_only: is_readable.then_some(spec.notify_only),
        group: spec.group.clone(),
        base_url: spec.base_url.as_deref().map(redact),
        pinned: is_readable.then_some(spec.pinned),
        in_window: directive.map(|directive| directive.in_window),
        fleet: None,
        tuf: spec.tuf_root.as_deref().map(|root| tuf::status(&context.layout.versions, root)),
        installers: is_readable.then(|| spec.allowed()),
        installed_by: status.installed_by.clone(),
        last_result: status.last_result.clone(),
        refused: is_readable.then(|| status.refused.clone()),
        delayed: is_readable.then(|| status.delayed.clone()),
        held: is_readable.then(|| held(status, active.as_ref(), context.host.now())),
        failed_updaters: is_readable.then(|| status.failed_updaters.iter().map(Into::into).collect()),
        kept_databases: is_readable.then(|| status.kept_databases.clone()),
        agent_running: running.as_ref().map(|(running, _)| *running),
        agent_version_running: running.and_then(|(_, version)| version),
        agent_version_linked: inspect::linked(context),
        agent_replaced_by: is_ours.then(|| inspect::replaced(context)).flatten(),
        watch_until: status.watch.as_ref().map(|watch| watch.until.to_string()),
        recovery_pending: is_readable.then(|| context.is_interrupted()),
        update_in_progress: run.filter(|_| is_readable).map(|run| run.is_some() || is_downloading(context)),
        report: fleet::shown(context).filter(|_| is_readable),
        lock_awaited_since: awaited::since(context).map(|since| since.to_string()),
        attention: None,
        updater_version: env!("CARGO_PKG_VERSION"),
        updater_path: context.host.exe.clone(),
    }
}

/// Versions that were left of late, of which a return is held now.
fn held(status: &Status, active: Option<&Revision>, now: Timestamp) -> Vec<Held> {
    let left: Vec<_> = status.left.iter().map(|left| (left.revision.clone(), left.time)).collect();
    let mut found: Vec<Held> = Vec::new();
    for (revision, _) in left.iter().filter(|(revision, _)| Some(revision) != active) {
        let held = decide::held_until(&left, active, now, revision).map(|until| Held {
            version: revision.version.to_string(),
            edition: revision.edition.as_str(),
            until: until.to_string(),
        });
        found.extend(held.filter(|held| !found.contains(held)));
    }
    found
}

/// YAML of a value whose strings are all quoted as JSON does, which is YAML too.
pub(crate) fn yaml(value: &Value) -> String {
    fn write(value: &Value, indent: usize, out: &mut String) {
        let pad = "  ".repeat(indent);
        match value {
            Value::Object(object) if !object.is_empty() => {
                for (key, value) in object {
                    *out += &format!("{pad}{key}:");
                    nested(value, indent, out);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    let mut inner = String::new();
                    write(item, indent + 1, &mut inner);
                    let inner = inner.strip_prefix(&"  ".repeat(indent + 1)).unwrap_or(&inner);
                    *out += &format!("{pad}- {inner}");
                }
            }
            scalar => *out += &format!("{pad}{scalar}\n"),
        }
    }
    fn nested(value: &Value, indent: usize, out: &mut String) {
        if value.as_object().is_some_and(|object| !object.is_empty())
            || value.as_array().is_some_and(|all| !all.is_empty())
        {
            out.push('\n');
            write(value, indent + 1, out);
        } else {
            *out += &format!(" {value}\n");
        }
    }
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}
