//! What needs no running server: checks of files, restoring a backup, a look at the data.

use fleet_engine::plain::cleaned;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use fleet_cli::args::{GlobalArgs, Lint, Migrate, PrintFormat, Restore};
use fleet_cli::{read_open, read_text};
use fleet_engine::lint::{self, Known};
use fleet_engine::resource;
use fleet_store::StorePlace;
use serde_json::json;

use crate::fault::UsageFault;
use crate::settings::Settings;
use crate::terminal;

/// What a wrong resource, or a problem, ends with.
const REFUSED: u8 = 1;
/// Largest file that is read, bytes: a script with a line for each of 100,000 hosts.
const MAX_FILE: u64 = 64 << 20;

/// `lint`: faults on standard error, advice on standard output. Advice is no fault, unless `--strict` makes it one.
pub(crate) fn lint(options: &Lint, global: &GlobalArgs) -> Result<ExitCode, UsageFault> {
    let is_text = global.format.unwrap_or_default() == PrintFormat::Text;
    let known = Known { hosts: options.hosts, now: Some(crate::clock::now()), ..Known::default() };
    let mut out = io::stdout().lock();
    let (mut is_good, mut found) = (true, Vec::new());
    fleet_cli::args::read_once(options.files.all()).map_err(|what| UsageFault::Usage(what.to_owned()))?;
    for file in options.files.all() {
        let name = file.display();
        let resources = match resource::read(&read(file)?) {
            Ok(resources) => resources,
            Err(faults) => {
                is_good = false;
                for fault in faults.list() {
                    terminal::say(format_args!("{name}: {fault}"));
                    found.push(
                        json!({ "file": name.to_string(), "fault": fault.what, "key": fault.key, "line": fault.line }),
                    );
                }
                continue;
            }
        };
        for resource in resources {
            if is_text {
                writeln!(out, "{name}: {} {} is legal", resource.kind(), resource.metadata().name)?;
            }
            for advice in lint::of_resource(&resource, &known) {
                is_good = is_good && !options.strict;
                if is_text {
                    writeln!(out, "{name}: advice: {}", cleaned(&advice.to_string()))?;
                }
                let mut line = json!(advice);
                line["file"] = json!(name.to_string());
                found.push(line);
            }
        }
    }
    if !is_text {
        let document = fleet_cli::document(global.format.unwrap_or_default(), &found).map_err(io::Error::other)?;
        out.write_all(document.as_bytes())?;
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// `restore`: the server is stopped. Everything comes up held.
pub(crate) fn restore(options: &Restore) -> Result<ExitCode, String> {
    let place = Settings::store(options.data.as_ref(), None, &options.config)?;
    let dir = place.in_file().map_err(|error| error.to_string())?;
    let restored = fleet_store::restore(&options.file, dir, options.force).map_err(|error| error.to_string())?;
    let mut lines = vec![format!(
        "restored {} to {}: {}, rollout {}",
        options.file.display(),
        dir.display(),
        fleet_wire::text::hosts(restored.hosts),
        restored.rollout
    )];
    if let Some(replaced) = &restored.replaced {
        lines.push(format!("the database before is kept as {}", replaced.display()));
    }
    if let Some(left) = &restored.left {
        lines.push(format!("its audit log ended with record {}, {}", left.seq, left.hash));
    }
    lines.push(
        "tokens and join tokens are not restored, as some may have been removed since: make them anew".to_owned(),
    );
    lines.push(
        "everything is held: an older target would send hosts back. Start the server, look at `teleport-fleet autoupdate \
         agents status`, then end the hold with `teleport-fleet autoupdate agents run --all`"
            .to_owned(),
    );
    terminal::print(&format!("{}\n", lines.join("\n")))
        .map_err(|error| format!("the backup was restored, and everything is held; {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// `migrate`: the servers are stopped. Everything comes up held.
pub(crate) fn migrate(options: &Migrate) -> Result<ExitCode, String> {
    let place = |store: &str| {
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| store.starts_with(scheme));
        let url = is_url.then_some(store);
        // What a host notes beside a database is for a server that runs there later.
        StorePlace::new(Path::new(if is_url { "" } else { store }), url).map_err(|error| error.to_string())
    };
    let (from, to) = (place(&options.from)?, place(&options.to)?);
    let migrated = fleet_store::migrate(&from, &to).map_err(|error| error.to_string())?;
    let hosts = fleet_wire::text::hosts(migrated.hosts);
    let lines = format!(
        "moved {hosts} and {} to {}\neverything is held there. Set `store` or `data` of the servers to it, start them, look at \
         `teleport-fleet autoupdate agents status`, then end the hold with `teleport-fleet autoupdate agents run --all`\n",
        fleet_wire::text::counted(migrated.records, "audit record"),
        to.name()
    );
    terminal::print(&lines).map_err(|error| format!("the fleet was moved, and everything is held; {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The text of a file; `-` is standard input.
pub(crate) fn read(file: &Path) -> io::Result<String> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display()));
    let is_input = file.as_os_str() == "-";
    if is_input { read_open(io::stdin(), MAX_FILE) } else { read_text(file, MAX_FILE) }.map_err(named)
}
