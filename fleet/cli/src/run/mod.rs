//! Carries verbs out by asking the server.

mod agents;
mod apply;
mod backup;
mod complete;
mod directives;
mod edit;
mod flat;
mod follow;
mod hosts;
mod log;
mod man;
mod path;
mod resources;
mod swap;
mod tokens;
mod tools;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::CommandFactory;
use fleet_engine::command::Command;
use fleet_wire::api::How;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::args::{AgentsVerb, Autoupdate, FleetCli, GlobalArgs, InventoryVerb, PrintFormat, StatusArgs, Verb};
use crate::client::ApiClient;
use crate::console::{Console, Editor, Screen};
use crate::failure::Failure;
use crate::show::{text, value};

/// Exit status of what failed or was refused (FLEET §12).
const FAILED: u8 = 1;
/// Exit status of what was typed wrongly, as clap's own.
const USAGE: u8 = 2;
/// Exit status of `apply --dry-run`.
const DIFFERS: u8 = 5;

/// Carries `verb` out with this process's input and output; the exit status is `tctl`'s, 0 or 1; or 2 for wrong usage.
///
/// `serve`, `lint`, `simulate`, `restore` and `doctor` are not for it: it refuses them.
pub fn run(verb: &Verb, global: &GlobalArgs) -> ExitCode {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let is_in_place = io::stdout().is_terminal() && !is_dumb;
    let is_colourful = is_in_place && !is_set("NO_COLOR");
    let editor = Editor::of_environment();
    let zone = TimeZone::system();
    let (input, out, err) = (&mut io::stdin(), &mut io::stdout(), &mut io::stderr());
    let console = Console { input, out, err, is_colourful, is_in_place, editor, zone };
    ExitCode::from(run_on(verb, global, console))
}

/// Carries `verb` out with the input and output of `console`; gives the exit status.
pub fn run_on(verb: &Verb, global: &GlobalArgs, console: Console<'_>) -> u8 {
    let mut screen = Screen { console, format: global.format };
    match carry_out(verb, global, &mut screen) {
        Ok(()) => 0,
        // Whoever reads us has read enough.
        Err(failure) if failure.code == Failure::CLOSED => 0,
        Err(failure) if failure.code == Failure::DIFFERS => DIFFERS,
        Err(failure) => report_failure(&failure, global, &mut screen.console),
    }
}

/// What `verb` writes in `format`, for a verb that this program carries out itself.
///
/// # Errors
/// Why the server could not be asked, or what it refused: a line.
pub fn asked(verb: &Verb, format: PrintFormat, global: &GlobalArgs) -> Result<String, Failure> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (input, editor) = (&mut io::empty(), Editor::of_environment());
    let (zone, out_of, err) = (TimeZone::UTC, &mut out, &mut err);
    let console = Console { input, out: out_of, err, is_colourful: false, is_in_place: false, editor, zone };
    carry_out(verb, global, &mut Screen { console, format: Some(format) }).map_err(|failure| {
        let line = failure.message.lines().next().unwrap_or_default();
        Failure { message: text::clean(line).into_owned(), ..failure }
    })?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Writes `error: …` to standard error; where JSON or YAML was asked for, also `{"error":{code,message}}` to standard output,
/// in place of what it would hold. Gives the exit status.
pub(crate) fn report_failure(failure: &Failure, global: &GlobalArgs, console: &mut Console<'_>) -> u8 {
    // There is nobody else to tell when this cannot be written.
    let _ = writeln!(console.err, "error: {}", text::clean_lines(&failure.message));
    if let Some(format @ (PrintFormat::Json | PrintFormat::Yaml)) = global.format {
        let error = json!({ "error": { "code": failure.code, "message": failure.message } });
        let _ = value::write(console.out, format, &error);
        let _ = console.out.flush();
    }
    match failure.code.as_str() {
        Failure::USAGE => USAGE,
        Failure::MISSED => 3,
        Failure::TIMED_OUT => 4,
        _ => FAILED,
    }
}

fn carry_out(verb: &Verb, global: &GlobalArgs, screen: &mut Screen<'_>) -> Result<(), Failure> {
    if let Verb::Completion { shell } = verb {
        return Ok(screen.out().write_all(complete::script(*shell).as_bytes())?);
    }
    if let Verb::Complete { words } = verb {
        return complete::complete(words, global, screen);
    }
    if let Verb::Man = verb {
        return Ok(man::render(&FleetCli::command(), screen.out())?);
    }
    let client = ApiClient::new(global, screen.console.err)?;
    let done = ask(verb, &client, screen).and_then(|()| Ok(screen.out().flush()?));
    done.map_err(|failure| {
        if failure.code != Failure::UNWRITTEN || !client.has_changed() {
            return failure;
        }
        // Else it looked as if nothing had been done.
        Failure { message: format!("the server has done it, but: {failure}"), ..failure }
    })
}

fn ask(verb: &Verb, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    match verb {
        Verb::Autoupdate(verb) => autoupdate(verb, client, screen),
        Verb::Status(options) => status(options, client, screen),
        Verb::Wait(wait) => follow::wait(wait, client, screen),
        Verb::Apply(apply) => apply::apply(apply, client, screen),
        Verb::Get { what } => resources::get(what, client, screen),
        Verb::Create { files, force, dry_run } => {
            let how = if *force { How::Replace } else { How::Create };
            resources::write(files, how, *dry_run, client, screen)
        }
        Verb::Update { files, dry_run } => resources::write(files, How::Update, *dry_run, client, screen),
        Verb::Edit { what } => edit::edit(what, client, screen),
        Verb::Rm { what, dry_run } => resources::remove(what, *dry_run, client, screen),
        Verb::CreateDraft { file, name } => directives::create_draft(file, name, client, screen),
        Verb::Drafts => directives::drafts(client, screen),
        Verb::VersionControl(verb) => directives::run(verb, client, screen),
        Verb::Explain { host } => hosts::explain(host, client, screen),
        Verb::Hosts(filter) => hosts::list(filter, client, screen),
        Verb::Inventory(inventory) => {
            let InventoryVerb::Ls(filter) = &**inventory;
            hosts::inventory(filter, client, screen)
        }
        Verb::Host(host) => hosts::one(host, client, screen),
        Verb::Rollouts { before, last } => agents::rollouts(*before, *last, client, screen),
        Verb::Events(events) => log::events(events, client, screen),
        Verb::Audit(audit) => log::audit(audit, client, screen),
        Verb::Approve { group, digest } => {
            let command = Command::Approve { groups: vec![group.clone()], digest: digest.clone() };
            agents::act(command, false, client, screen)
        }
        Verb::Tokens { verb } => tokens::run(verb.as_ref(), client, screen),
        Verb::Backup { file } => backup::backup(file, client, screen),
        Verb::Serve(_)
        | Verb::Lint(_)
        | Verb::Simulate(_)
        | Verb::Restore(_)
        | Verb::Migrate(_)
        | Verb::Tuf(_)
        | Verb::Mirror(_)
        | Verb::Doctor(_)
        | Verb::Completion { .. }
        | Verb::Complete { .. }
        | Verb::Man => Err(Failure::new("bad_request", "the server program carries this out itself")),
    }
}

fn status(options: &StatusArgs, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    if options.watch { follow::watch(client, screen) } else { agents::show_status(client, screen) }
}

fn autoupdate(verb: &Autoupdate, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    match verb {
        Autoupdate::Agents(AgentsVerb::Status(options)) => status(options, client, screen),
        Autoupdate::Agents(verb) => agents::run(verb, client, screen),
        Autoupdate::ClientTools(verb) => tools::run(verb, client, screen),
        Autoupdate::Update(update) => flat::update(update, client, screen),
        Autoupdate::Reset { dry_run } => flat::reset(*dry_run, client, screen),
        Autoupdate::Status { group } => flat::status(group.as_deref(), client, screen),
        Autoupdate::Run { group } => flat::run(group, client, screen),
    }
}

/// A fresh id: a change that is sent twice with it is made once.
fn id() -> String {
    uuid::Uuid::new_v4().to_string()
}
