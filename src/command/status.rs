//! `status`: versions, settings and the last result; offline, without root, in at most a second (SPEC §9).

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::cli::{OutputFormat, Status as Args};
use crate::command::version;
use crate::config::Updates;
use crate::config::status::Status;
use crate::context::Context;
use crate::context::awaited;
use crate::host::lock;
use crate::host::process::Process;
use crate::inspect;
use crate::plan::decide::{self, Ask, Decision};
use crate::report::{Code, Result};
use crate::run::cluster_client;
use crate::run::reexec::MAX_FAILURES;
use crate::store::manifest::Manifest;
use crate::store::publish;
use protocol::Revision;
use protocol::find::Directive;

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
    let directive = directive(context, &updates);
    let due = directive.as_ref().is_some_and(|directive| is_due(context, &updates, directive));
    let mut status = gather(context, &updates, directive.as_ref());
    if !is_readable {
        for key in [
            "agent_updates_enabled",
            "pinned",
            "refused",
            "delayed",
            "held",
            "failed_updaters",
            "failed_rows",
            "recovery_pending",
            "update_in_progress",
        ] {
            status[key] = Value::Null;
        }
    }
    let format =
        args.format.unwrap_or(if std::io::stdout().is_terminal() { OutputFormat::Text } else { OutputFormat::Json });
    let text = match format {
        OutputFormat::Json => format!("{status:#}\n"),
        OutputFormat::Yaml => yaml(&status),
        OutputFormat::Text => {
            let silent = updates.spec().enabled.then(|| inspect::silent_timer(context)).flatten();
            text(&status, silent.into_iter().chain(awaited(context)))
        }
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

/// What the cluster wants, if it says so in time.
fn directive(context: &Context, updates: &Updates) -> Option<Directive> {
    updates.spec().proxy.as_ref()?;
    let asked = cluster_client::client(context, updates.spec())
        .and_then(|client| cluster_client::directive(context, updates.spec(), &client, Some(PATIENCE)));
    match asked {
        Ok(directive) => Some(directive),
        Err(error) => {
            context.report.warn(&format!("cannot get the desired version from the cluster: {error}"));
            None
        }
    }
}

/// Whether `update`, run now, would change something.
fn is_due(context: &Context, updates: &Updates, directive: &Directive) -> bool {
    let spec = updates.spec();
    if !spec.enabled || spec.pinned {
        return false;
    }
    let facts = match inspect::facts(context, updates, inspect::Depth::Move, None) {
        Ok(facts) => facts,
        Err(error) => {
            context.report.warn(&format!("cannot find out whether an update is due: {error}"));
            return false;
        }
    };
    let Ok(wanted) = cluster_client::revision(directive, facts.active.as_ref(), None) else {
        return false;
    };
    let wish = Ask { wanted: wanted.clone(), in_window: directive.in_window, insist: false, announced: None };
    matches!(decide::decide(&facts, &wish, spec.min_version.as_ref()), Decision::Go)
        && facts.active.as_ref() != Some(&wanted)
}

fn gather(context: &Context, updates: &Updates, directive: Option<&Directive>) -> Value {
    let (spec, status) = (updates.spec(), updates.status());
    // What may not be read is null, and what cannot be is told.
    let installed = inspect::installed_now(context, updates).unwrap_or_else(|error| {
        if error.code != Code::Permission {
            context.report.warn(&error.to_string());
        }
        Vec::new()
    });
    let active = inspect::active(updates, &installed);
    let desired = directive.and_then(|directive| cluster_client::revision(directive, active.as_ref(), None).ok());
    let edition = |revision: Option<&Revision>| json!(revision.map(|revision| revision.edition.as_str()));
    let number = |revision: Option<&Revision>| json!(revision.map(|revision| revision.version.to_string()));
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| {
        object.insert(key.to_owned(), value);
    };
    // The RFD's nine keys, first and exactly so named.
    put("agent_version_installed", json!(spec.active_version.as_ref().map(ToString::to_string)));
    put(
        "agent_version_desired",
        match &desired {
            Some(desired) => number(Some(desired)),
            None => json!(directive.map(|directive| directive.version.to_string())),
        },
    );
    put("agent_version_previous", number(status.previous.as_ref()));
    put("agent_edition_installed", edition(active.as_ref()));
    put("agent_edition_desired", edition(desired.as_ref()));
    put("agent_edition_previous", edition(status.previous.as_ref()));
    put("agent_update_time_last", json!(status.last_update_time.map(|time| time.to_string())));
    put("agent_update_time_jitter", json!(directive.map(|directive| directive.jitter_seconds)));
    put("agent_updates_enabled", json!(spec.enabled));
    // What operators ask for.
    put("proxy", json!(spec.proxy));
    put("group", json!(spec.group));
    put("base_url", json!(spec.base_url));
    put("pinned", json!(spec.pinned));
    put("in_window", json!(directive.map(|directive| directive.in_window)));
    put(
        "last_result",
        match &status.last_result {
            None => Value::Null,
            Some(last) => json!({
                "time": last.time.to_string(),
                "outcome": last.outcome.to_string(),
                "error_code": last.error_code,
                "message": last.message,
                "from": last.from.as_ref().map(|from| from.version.to_string()),
                "to": last.to.as_ref().map(|to| to.version.to_string()),
            }),
        },
    );
    put(
        "refused",
        status
            .refused
            .iter()
            .map(|refused| {
                json!({
                    "version": refused.revision.version.to_string(),
                    "edition": refused.revision.edition.as_str(),
                    "reason": refused.reason,
                    "error_code": refused.error_code,
                    "time": refused.time.to_string(),
                    "count": refused.count,
                    "retry_at": refused.retry_at.to_string(),
                })
            })
            .collect(),
    );
    put(
        "delayed",
        status
            .delayed
            .iter()
            .map(|delayed| {
                json!({
                    "version": delayed.revision.version.to_string(),
                    "edition": delayed.revision.edition.as_str(),
                    "reason": delayed.reason,
                    "error_code": delayed.error_code,
                    "time": delayed.time.to_string(),
                    "count": delayed.count,
                    "retry_at": delayed.retry_at.to_string(),
                })
            })
            .collect(),
    );
    put("held", held(status, active.as_ref(), context.host.now()));
    put(
        "failed_updaters",
        status
            .failed_updaters
            .iter()
            .map(|failed| {
                json!({
                    "sha256": failed.sha256.to_string(),
                    "count": failed.count,
                    "passed_over": failed.count >= MAX_FAILURES,
                })
            })
            .collect(),
    );
    put(
        "failed_rows",
        status
            .failed_rows
            .iter()
            .map(|rows| {
                json!({
                    "version": rows.revision.version.to_string(),
                    "path": rows.path,
                })
            })
            .collect(),
    );
    let running = running(context, updates);
    put("agent_running", json!(running.as_ref().map(|(running, _)| running)));
    put("agent_version_running", json!(running.and_then(|(_, version)| version)));
    put("agent_version_linked", json!(linked(context)));
    put("agent_replaced_by", json!(active.as_ref().and_then(|_| inspect::replaced(context))));
    put("watch_until", json!(status.watch.as_ref().map(|watch| watch.until.to_string())));
    put("recovery_pending", json!(context.is_interrupted()));
    let run = lock::run_of(&context.lock_path()).ok();
    put("update_in_progress", json!(run.map(|run| run.is_some() || is_downloading(context))));
    put("lock_awaited_since", json!(awaited::since(context).map(|since| since.to_string())));
    put("updater_version", json!(env!("CARGO_PKG_VERSION")));
    put("updater_path", json!(context.host.exe));
    Value::Object(object)
}

/// Versions that were left of late, of which a return is held now.
fn held(status: &Status, active: Option<&Revision>, now: Timestamp) -> Value {
    let left: Vec<_> = status.left.iter().map(|left| (left.revision.clone(), left.time)).collect();
    let mut found: Vec<Value> = Vec::new();
    for (revision, _) in left.iter().filter(|(revision, _)| Some(revision) != active) {
        let until = decide::held_until(&left, active, now, revision);
        let held = until.map(|until| {
            json!({
                "version": revision.version.to_string(),
                "edition": revision.edition.as_str(),
                "until": until.to_string(),
            })
        });
        found.extend(held.filter(|held| !found.contains(held)));
    }
    found.into()
}

/// Whether the agent runs, and which version its process is of; `None` where that cannot be seen.
fn running(context: &Context, updates: &Updates) -> Option<(bool, Option<String>)> {
    if context.layout.is_image() {
        return None;
    }
    let state = context.service(updates).ok()?.state(&context.stop_proof().ok()?).ok()?;
    let exe = state
        .main_pid
        .and_then(|pid| Process::by_pid(pid).ok()??.behind_emulator().ok())
        .and_then(|process| process.exe);
    let version = exe.and_then(|exe| {
        let dir = exe.strip_prefix(&context.layout.versions).ok()?.components().next()?;
        version_in(context, dir.as_os_str().to_str()?)
    });
    Some((state.running, version))
}

/// The version that the `teleport` link leads to.
fn linked(context: &Context) -> Option<String> {
    let target = std::fs::read_link(context.layout.link_dir.join("teleport")).ok()?;
    let rest = target.strip_prefix(context.layout.inside(&context.layout.versions)).ok()?;
    version_in(context, rest.components().next()?.as_os_str().to_str()?)
}

fn version_in(context: &Context, dir: &str) -> Option<String> {
    let manifest = Manifest::read(&context.layout.versions.join(Path::new(dir)));
    manifest.map(|manifest| manifest.version.to_string()).ok().or_else(|| Some(dir.split('_').next()?.to_owned()))
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
        match value {
            Value::Object(object) if !object.is_empty() => {
                out.push('\n');
                write(value, indent + 1, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                write(value, indent + 1, out);
            }
            scalar => *out += &format!(" {scalar}\n"),
        }
    }
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

/// A text of an entry; empty where there is none.
fn word<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

/// `attention`: what an operator should look at, besides what `status` itself tells.
fn text(status: &Value, attention: impl Iterator<Item = String>) -> String {
    let get = |key: &str| match &status[key] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    };
    let both = |version: &str, edition: &str| match (&status[version], &status[edition]) {
        (Value::Null, _) => "-".to_owned(),
        (_, Value::Null) => get(version),
        _ => format!("{} ({})", get(version), get(edition)),
    };
    let mut rows: Vec<(&str, String)> = vec![
        ("Installed", both("agent_version_installed", "agent_edition_installed")),
        (
            "Running",
            match (&status["agent_running"], &status["agent_version_running"]) {
                (Value::Bool(true), Value::Null) => "yes (a version that teleport-update did not install)".into(),
                (Value::Bool(true), _) => get("agent_version_running"),
                (Value::Bool(false), _) => "no".into(),
                _ => "-".into(),
            },
        ),
        ("Desired", both("agent_version_desired", "agent_edition_desired")),
        ("Previous", both("agent_version_previous", "agent_edition_previous")),
        (
            "Updates",
            match (&status["agent_updates_enabled"], &status["pinned"]) {
                (Value::Bool(true), Value::Bool(true)) => "enabled, pinned".into(),
                (Value::Bool(false), Value::Bool(true)) => "disabled, pinned".into(),
                (Value::Bool(true), _) => "enabled".into(),
                (Value::Null, _) => "-".into(),
                _ => "disabled".into(),
            },
        ),
        ("Cluster", get("proxy")),
        ("Group", get("group")),
        ("Window open", get("in_window")),
        ("Last update", get("agent_update_time_last")),
    ];
    if let Value::Object(last) = &status["last_result"] {
        let field = |key| last.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut line = format!("{} at {}", field("outcome").replace('_', " "), field("time"));
        if !field("message").is_empty() {
            line += &format!(": {} [{}]", field("message"), field("error_code"));
        }
        rows.push(("Last result", line));
    }
    let list = |key: &str| status[key].as_array().into_iter().flatten();
    for (key, label) in [("refused", "Refused"), ("delayed", "Delayed")] {
        for waits in list(key) {
            let [version, reason, retry_at] = ["version", "reason", "retry_at"].map(|key| word(waits, key));
            rows.push((
                label,
                format!("{version} ({reason}), failed {} time(s), next attempt {retry_at}", waits["count"]),
            ));
        }
    }
    for held in list("held") {
        let [version, until] = ["version", "until"].map(|key| word(held, key));
        let why = "this host switched back and forth between versions several times in the last two days";
        rows.push(("Delayed", format!("{version}: {why}; next attempt {until}, or run `update --now`")));
    }
    for failed in list("failed_updaters").filter(|failed| failed["passed_over"] == true) {
        let (digest, count) = (word(failed, "sha256"), &failed["count"]);
        let what = "and is no longer used; the package's own updater is used instead";
        rows.push(("Not used", format!("the updater with SHA-256 {digest} failed {count} time(s) {what}")));
    }
    for kept in list("failed_rows") {
        let [version, path] = ["version", "path"].map(|key| word(kept, key));
        rows.push(("Kept data", format!("the database of {version} from before its rollback is in {path}")));
    }
    if status["recovery_pending"] == true {
        rows.push((
            "Attention",
            "a run was interrupted: run `teleport-update recover`, or wait for the next run".into(),
        ));
    }
    if let Some(by) = status["agent_replaced_by"].as_str() {
        rows.push(("Attention", format!("{by}: run `teleport-update enable` to replace it with the managed version")));
    }
    rows.extend(attention.map(|why| ("Attention", why)));
    rows.push(("Updater", get("updater_version")));
    rows.into_iter().map(|(name, value)| format!("{name:<12} {value}\n")).collect()
}
