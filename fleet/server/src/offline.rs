//! What needs no running server: simulations, checks of files, restoring a backup, a look at the data.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fleet_cli::args::{Doctor, Lint, Restore, Simulate};
use fleet_store::Level;

use crate::settings::Settings;

/// What a wrong resource, or a problem, ends with.
const REFUSED: u8 = 1;
/// Largest file that is read, bytes: a script with a line for each of 100,000 hosts.
const MAX_FILE: u64 = 64 << 20;

/// `simulate --script`.
pub(crate) fn simulate(options: &Simulate) -> io::Result<ExitCode> {
    let text = read(&options.script)?;
    let mut out = BufWriter::new(io::stdout().lock());
    fleet_simulator::run(&text, options.seed, |line| writeln!(out, "{line}"))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// `lint`.
pub(crate) fn lint(options: &Lint) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let mut is_good = true;
    for file in &options.files {
        let name = file.display();
        match fleet_engine::resource::read(&read(file)?) {
            Ok(resources) => {
                for resource in resources {
                    writeln!(out, "{name}: {} {} is legal", resource.kind(), resource.metadata().name)?;
                }
            }
            Err(faults) => {
                is_good = false;
                for fault in faults.to_string().lines() {
                    eprintln!("{name}: {fault}");
                }
            }
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// `restore`: the server is stopped. Everything comes up held.
pub(crate) fn restore(options: &Restore) -> Result<ExitCode, String> {
    let dir = Settings::data(options.data.as_ref(), &options.config)?;
    let restored = fleet_store::restore(&options.file, &dir, options.force).map_err(|error| error.to_string())?;
    println!(
        "restored {} to {}: {} hosts, rollout {}",
        shown(&options.file),
        shown(&dir),
        restored.hosts,
        restored.rollout
    );
    if let Some(replaced) = &restored.replaced {
        println!("the database before is kept as {}", shown(replaced));
    }
    if let Some(left) = &restored.left {
        println!("its audit log ended with record {}, {}", left.seq, left.hash);
    }
    println!("tokens of the admin API are not restored, as some may have been removed since: make them anew");
    println!(
        "everything is held: an older target would send hosts back. Start the server, look at `teleport-fleet autoupdate \
         agents status`, then end the hold with `teleport-fleet autoupdate agents run --all`"
    );
    Ok(ExitCode::SUCCESS)
}

/// `doctor`: a look at the data, also beside a running server.
pub(crate) fn doctor(options: &Doctor) -> Result<ExitCode, String> {
    let dir = Settings::data(options.data.as_ref(), &options.config)?;
    let findings = fleet_store::doctor(&dir);
    for finding in &findings {
        let word = match finding.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        };
        println!("{word:8} {}", finding.what);
        if !finding.advice.is_empty() {
            println!("{:8} {}", "", finding.advice);
        }
    }
    let is_bad = findings.iter().any(|finding| finding.level == Level::Problem);
    Ok(if is_bad { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

/// The text of a file; `-` is standard input.
fn read(file: &PathBuf) -> io::Result<String> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display()));
    let mut text = String::new();
    let source: Box<dyn Read> =
        if file.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(named)?) };
    let length = source.take(MAX_FILE + 1).read_to_string(&mut text).map_err(named)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > MAX_FILE {
        return Err(named(io::Error::other(format!("it is larger than {MAX_FILE} bytes"))));
    }
    Ok(text)
}
