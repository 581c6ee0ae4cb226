//! `plan`: what `update` would do now; changes nothing.

use crate::inspect;
use crate::release;
use serde_json::{Value, json};

use crate::cli::{OutputFormat, Plan as Args};
use crate::command::version;
use crate::config::Spec;
use crate::context::Context;
use crate::plan::{Database, Plan, ServiceAction, Step};
use crate::report::{Code, Error, Result, megabytes};
use crate::run::change::{self, Planned, RunRequest};
use crate::run::wanted::{Purpose, Wanted};
use crate::run::{fleet, network, recovery, source, tuf};

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Args) -> Result<u8> {
    recovery::warn_if_pending(context);
    let updates = inspect::open(context)?;
    let spec = updates.spec();
    if let Some(why) = rests(spec) {
        return show_none(args, why);
    }
    let client = network::client(context, spec)?;
    let wanted = match Wanted::ask(context, &updates, &client, Purpose::Show, args.now)? {
        Ok(wanted) => wanted,
        Err(why) => return show_none(args, &why),
    };
    if let Some(why) = fleet::outdated(context) {
        return show_none(args, &why);
    }
    let request = RunRequest {
        in_window: wanted.in_window || args.now,
        force: args.now,
        terms: wanted.terms.clone(),
        ..RunRequest::new("update", wanted.revision)
    };
    let mut plan = match change::planned(context, &updates, &request)? {
        Planned::Wait(why) => return show_none(args, &why),
        Planned::Proceed(plan, _) => *plan,
    };
    for step in &mut plan.prepare {
        if let Step::Fetch { bytes, .. } = step {
            let (base, arch) = (network::base_url(context, spec)?, network::arch(context));
            let cancelled = || context.signals.cancelled();
            let size = release::archive_size(&client, &base, &request.target, arch, &cancelled);
            *bytes = size.unwrap_or_default();
        }
    }
    if plan.is_empty() {
        return show(args, &to_json(&plan)?, &format!("nothing to do: {} is active\n", request.target));
    }
    let (mut json, mut text) = (to_json(&plan)?, to_text(&plan));
    if let Some(reason) = &wanted.terms.reason {
        let source = source::named(spec)?.to_string();
        text = format!("source: {source} ({reason})\n{text}");
        json["source"] = source.into();
        json["reason"] = reason.as_str().into();
    }
    if let Some(tuf) = tuf::of(context, &updates, spec)? {
        text = format!("tuf: the archive must be what the signers of {} mean\n{text}", tuf.url);
        json["tuf"] = tuf.url.as_str().into();
    }
    show(args, &json, &text)
}

/// Why `update` asks nobody.
fn rests(spec: &Spec) -> Option<&'static str> {
    let reasons = [
        (!spec.enabled, "updates are disabled"),
        (spec.pinned, "a version is pinned"),
        (spec.notify_only, "notify_only is set: updates are told by `status`, and not installed"),
    ];
    reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
}

fn show_none(args: &Args, why: &str) -> Result<u8> {
    show(args, &json!({ "action": "none", "reason": why }), &format!("nothing to do: {why}\n"))
}

fn show(args: &Args, json: &Value, text: &str) -> Result<u8> {
    match args.format {
        OutputFormat::Text => version::print(text.as_bytes()),
        OutputFormat::Json => version::print(format!("{json:#}\n").as_bytes()),
        OutputFormat::Yaml => version::print(super::status::yaml(json).as_bytes()),
    }
}

fn to_json(plan: &Plan) -> Result<Value> {
    let broken = |error: serde_json::Error| Error::new(Code::Io, format!("the plan cannot be shown: {error}"));
    let mut value = serde_json::to_value(plan).map_err(broken)?;
    if let Value::Object(object) = &mut value {
        for (phase, steps) in [("prepare", &plan.prepare), ("switch", &plan.switch), ("after", &plan.after)] {
            let shown = object.get_mut(phase).and_then(Value::as_array_mut).into_iter().flatten();
            for (shown, step) in shown.zip(steps) {
                shown["does"] = step.describe().into();
                if phase != "after" {
                    shown["undo"] = step.describe_undo().into();
                }
            }
        }
        object.insert("action".into(), if plan.is_empty() { "none" } else { "update" }.into());
        object.insert("download_bytes".into(), json!(plan.download_bytes()));
    }
    Ok(value)
}

fn to_text(plan: &Plan) -> String {
    let to = plan.to.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut text = match &plan.from {
        Some(from) if plan.from == plan.to => format!("repair {from}\n"),
        Some(from) => format!("{from} -> {to}\n"),
        None => format!("install {to}\n"),
    };
    let database = match plan.database {
        Database::Keep => "kept",
        Database::Restore => "restored from the target version's backup",
    };
    let service = match plan.service {
        _ if plan.script().is_some() => "as the script leaves it, and reloaded once if it does not run the version",
        ServiceAction::None => "not touched",
        ServiceAction::Reload => "reloaded (SIGHUP)",
        ServiceAction::Restart => "stopped and started",
        ServiceAction::Start => "started (it is enabled and has failed)",
    };
    text += &format!("database: {database}; agent: {service}\n");
    if let Some(bytes) = plan.download_bytes() {
        text += &format!("download: {}\n", megabytes(bytes));
    }
    let mut number = 0;
    for (title, steps) in [
        ("prepare", &plan.prepare),
        ("switch (if a step fails, undone in reverse order)", &plan.switch),
        ("after the commit", &plan.after),
    ] {
        if steps.is_empty() {
            continue;
        }
        text += &format!("{title}\n");
        for step in steps {
            number += 1;
            text += &format!("  {number:>2}. {}\n", step.describe());
            if title.starts_with("switch") && step.describe_undo() != "nothing to undo" {
                text += &format!("      undo: {}\n", step.describe_undo());
            }
        }
    }
    for note in &plan.notes {
        text += &format!("note: {note}\n");
    }
    text
}
