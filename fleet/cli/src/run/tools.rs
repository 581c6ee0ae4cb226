//! `autoupdate client-tools …` (FLEET §6).

use fleet_engine::resource::Kind;
use serde_json::{Value, json};

use super::flat::said;
use super::swap;
use crate::args::ClientTools;
use crate::client::ApiClient;
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{text, value};

/// Where an `autoupdate_config` says whether client tools update.
const MODE: [&str; 3] = ["spec", "tools", "mode"];
/// Where an `autoupdate_version` says to which version.
const VERSION: [&str; 3] = ["spec", "tools", "target_version"];

/// Carries one of its verbs out.
pub(super) fn run(verb: &ClientTools, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let (sentence, done) = match verb {
        ClientTools::Status => return status(client, screen),
        ClientTools::Enable | ClientTools::Disable => {
            let mode = if matches!(verb, ClientTools::Enable) { "enabled" } else { "disabled" };
            let done = swap::set(client, Kind::Config, &MODE, mode, false)?;
            ("client tools auto update mode has been changed", done)
        }
        ClientTools::Target { version: Some(version), .. } => {
            let done = swap::set(client, Kind::Version, &VERSION, version, false)?;
            ("client tools auto update target version has been set", done)
        }
        ClientTools::Target { version: None, .. } => {
            // What is not there is clear already.
            let clear = |_| swap::change(client, Kind::Version, false, |document| Ok(document.remove(&VERSION)));
            let done = swap::only(client, Kind::Version)?.map(clear).transpose()?.flatten();
            ("client tools auto update target version has been cleared", done)
        }
    };
    said(sentence, done.as_slice(), false, screen)
}

fn status(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let of = |kind, pointer: &str| -> Result<Option<String>, Failure> {
        let kept = swap::only(client, kind)?;
        let value = kept.as_ref().and_then(|kept| kept.json.pointer(pointer));
        Ok(value.and_then(Value::as_str).map(str::to_owned))
    };
    let mode = of(Kind::Config, "/spec/tools/mode")?.unwrap_or_else(|| "disabled".to_owned());
    let version = of(Kind::Version, "/spec/tools/target_version")?;
    value::show(screen, &json!({ "mode": mode, "target_version": version }), |out, _| {
        writeln!(out, "mode: {}", text::clean(&mode))?;
        if let Some(version) = &version {
            writeln!(out, "target_version: {}", text::clean(version))?;
        }
        Ok(())
    })
}
