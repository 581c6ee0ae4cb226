//! `teleport-fleet`: tells every host of a fleet which version to run, and everybody why.

mod app;
mod clock;
mod controllers;
mod core;
mod dashboard;
mod doctor;
mod failure;
mod fault;
mod forwards;
mod gates;
mod listener;
mod load;
mod metrics;
mod notify;
mod offline;
mod oidc;
mod outbound;
mod pages;
mod past;
mod random;
mod report;
mod reporting;
mod routes;
mod secret_file;
mod serve;
mod servers;
mod sessions;
mod settings;
mod signing;
mod simulate;
mod simulation;
mod terminal;
mod tokens;
mod tuf_site;
mod users;
mod views;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use fleet_cli::args::{FleetCli, Verb};

use fault::UsageFault;
use settings::Settings;

/// musl's own takes a lock for each piece of memory; questions of hosts take many small ones.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let FleetCli { global, verb } = match FleetCli::try_parse().and_then(FleetCli::checked) {
        Ok(cli) => cli,
        Err(said) => return tell(&said),
    };
    let done = match verb {
        Verb::Serve(options) => Settings::of(&options, global.admin_socket.as_deref())
            .and_then(|settings| Ok(serve::run(&settings)?))
            .map(|()| ExitCode::SUCCESS),
        Verb::Simulate(options) => simulate::simulate(&options, &global),
        Verb::Lint(options) => offline::lint(&options, &global),
        Verb::Restore(options) => offline::restore(&options).map_err(UsageFault::from),
        Verb::Migrate(options) => offline::migrate(&options).map_err(UsageFault::from),
        Verb::Doctor(options) => doctor::doctor(&options, &global).map_err(UsageFault::from),
        Verb::Tuf(verb) => signing::tuf(&verb, &global),
        Verb::Mirror(args) => signing::mirror(&args, &global),
        verb => return fleet_cli::run(&verb, &global),
    };
    done.unwrap_or_else(|fault| fault.tell())
}

/// Help, the version, or what is wrong with the arguments. Whoever keeps that in a file is told if it is not all there.
fn tell(said: &clap::Error) -> ExitCode {
    match said.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            terminal::say(format_args!("error: cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2)),
    }
}
