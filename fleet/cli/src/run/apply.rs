//! `apply`: the resources of a directory, as one change (FLEET §2).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fleet_engine::resource;
use fleet_wire::api::{How, Takes, WriteResult};
use serde_json::Value;

use super::resources::{self, JoinedText};
use super::swap;
use crate::args::{Apply, Files};
use crate::client::ApiClient;
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::text::{clean, counted};
use crate::show::value;

/// First it is asked what would change: what is there as the directory has it is not written again.
pub(super) fn apply(apply: &Apply, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let mut files = Vec::new();
    find(&apply.file, &mut files)?;
    if files.is_empty() && !apply.force {
        let message = format!("there is no resource in {} (*.yaml, *.yml, *.json)", apply.file.display());
        let removes =
            if apply.prune.is_empty() { "" } else { ": --prune would remove all; if that is meant, add --force" };
        return Err(Failure::new("bad_request", format!("{message}{removes}")));
    }
    let joined = JoinedText::read(&Files { files, named: Vec::new() }, screen)?;
    let ask = |is_dry| {
        let asked = swap::write(client, joined.text.clone(), How::Replace, apply.prune.clone(), is_dry);
        asked.map_err(|failure| joined.named(failure))
    };
    let planned = ask(true)?;
    let differs = planned.changed.iter().any(|changed| changed.takes != Takes::Nothing.into());
    let diff = if apply.dry_run && differs { diff(&joined.text, &planned, client)? } else { Vec::new() };
    let done = if differs && !apply.dry_run { ask(false)? } else { planned };
    value::show(screen, &done, |out, _| {
        let mut changed = done.read.clone();
        changed.changed.retain(|changed| changed.takes != Takes::Nothing.into());
        let same = (done.changed.len() - changed.changed.len()) as u64;
        let same = counted(same, "resource");
        if !differs {
            return Ok(writeln!(out, "nothing differs: {same} as the directory has it; nothing was written")?);
        }
        diff.iter().try_for_each(|line| writeln!(out, "{}", clean(line)))?;
        resources::text(out, &changed, apply.dry_run, &|unwise| joined.place(unwise.line?))?;
        Ok(writeln!(out, "{same} as before")?)
    })?;
    if differs && apply.dry_run { Err(Failure::new(Failure::DIFFERS, "")) } else { Ok(()) }
}

/// The files of resources in `place`, which may be one, by name; what begins with a dot is another program's.
fn find(place: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |error| Failure::local(format!("cannot read {}", place.display()), error);
    if !fs::metadata(place).map_err(failed)?.is_dir() {
        files.push(place.to_owned());
        return Ok(());
    }
    let names = fs::read_dir(place).map_err(failed)?.map(|entry| Ok(entry?.path())).collect::<Result<BTreeSet<_>, _>>();
    for path in names.map_err(failed)? {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_resource = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        // What cannot be looked at may be a directory of resources, which --prune would remove.
        if !is_hidden && (is_resource || fs::metadata(&path).map_err(failed)?.is_dir()) {
            find(&path, files)?;
        }
    }
    Ok(())
}

/// What changes in each resource: a line for each value that goes or comes.
fn diff(text: &str, planned: &WriteResult, client: &ApiClient) -> Result<Vec<String>, Failure> {
    let comes = resource::read(text).unwrap_or_default();
    let mut lines = Vec::new();
    for changed in planned.changed.iter().filter(|changed| changed.takes != Takes::Nothing.into()) {
        let there =
            if changed.was_there { swap::read(client, &changed.kind, Some(&changed.name))? } else { Vec::new() };
        let is_it = |found: &&resource::Resource| {
            found.kind().as_str() == changed.kind && found.metadata().name == changed.name
        };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        there.iter().for_each(|kept| flatten(&kept.json, "", &mut old));
        comes.iter().find(is_it).iter().for_each(|found| flatten(&found.to_json(), "", &mut new));
        lines.push(format!("{}/{}", changed.kind, changed.name));
        lines.extend(old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {line}")));
        lines.extend(new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}")));
    }
    Ok(lines)
}

/// Each value with its place; of a list by the name of its items, where they have one.
fn flatten(value: &Value, place: &str, lines: &mut Vec<String>) {
    match value {
        Value::Object(keys) => {
            let dot = if place.is_empty() { "" } else { "." };
            keys.iter().for_each(|(key, value)| flatten(value, &format!("{place}{dot}{key}"), lines));
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                let name = item["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
                flatten(item, &format!("{place}[{name}]"), lines);
            }
        }
        _ if place == "metadata.revision" => {}
        value => lines.push(format!("{place}: {value}")),
    }
}
