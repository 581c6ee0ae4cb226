//! `complete`: what a word may be that only the server knows, for the completion scripts of the shells.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory, FromArgMatches};
use clap_complete::Shell;
use fleet_engine::resource::Kind;

use super::agents;
use crate::args::{FleetCli, GlobalArgs};
use crate::client::ApiClient;
use crate::console::Screen;
use crate::failure::Failure;

/// Longest wait for the server: somebody has his finger on the key.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prints what the last of `words` may be, a line each; nothing where the other words of the script do, or nobody answers.
pub(super) fn complete(words: &[String], global: &GlobalArgs, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let Some((last, before)) = words.split_last() else { return Ok(()) };
    let cli = FleetCli::command();
    let (named, typed) = match last.split_once('=').filter(|_| last.starts_with("--")) {
        Some((option, typed)) => (Some(option.to_owned()), typed),
        None => (None, last.as_str()),
    };
    let before: Vec<&String> = before.iter().chain(&named).collect();
    let Some(argument) = argument(&cli, &before).filter(|_| !typed.starts_with('-')) else { return Ok(()) };
    let value = argument.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    let found = match value {
        "KIND[/NAME]" => Kind::ALL.map(|kind| kind.as_str().to_owned()).to_vec(),
        "GROUP" | "GOAL" => groups(&before, global, value == "GOAL"),
        _ => Vec::new(),
    };
    for line in found.iter().filter(|line| line.starts_with(typed) && !line.contains(char::is_control)) {
        writeln!(screen.out(), "{line}")?;
    }
    Ok(screen.out().flush()?)
}

/// What the word behind `words` is: the value of an option, or of the command.
fn argument<'a>(cli: &'a Command, words: &[&String]) -> Option<&'a Arg> {
    let (mut command, mut value, mut count) = (cli, None, 0);
    for word in words {
        if value.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            let is_it = |arg: &&Arg| arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
            let found = command.get_arguments().chain(cli.get_arguments()).find(is_it);
            value = found.filter(|arg| arg.get_action().takes_values());
        } else if let Some(verb) = command.find_subcommand(word) {
            (command, count) = (verb, 0);
        } else {
            count += 1;
        }
    }
    let last = command.get_positionals().count().saturating_sub(1);
    value.or_else(|| command.get_positionals().nth(count.min(last)))
}

/// The names of the rollout's groups; with `is_goal` what `wait` can wait for.
fn groups(words: &[&String], global: &GlobalArgs, is_goal: bool) -> Vec<String> {
    let words = ["teleport-fleet"].into_iter().chain(words.iter().map(|word| word.as_str()));
    let matches = FleetCli::command().ignore_errors(true).try_get_matches_from(words);
    let typed = matches.ok().and_then(|matches| GlobalArgs::from_arg_matches(&matches).ok()).unwrap_or_default();
    // What was typed names the server; else what this process was told.
    let is_named = typed.server.is_some() || typed.admin_socket.is_some();
    let global = if is_named { typed } else { global.clone() };
    let (tell, told) = mpsc::channel();
    // It ends with this process, whatever it waits for.
    thread::spawn(move || {
        let found = ApiClient::new(&global, &mut io::sink()).and_then(|client| agents::rollout(&client));
        let groups = found.ok().and_then(|found| found.rollout).unwrap_or_default().status.groups;
        tell.send(groups.into_iter().map(|group| group.name).collect::<Vec<_>>())
    });
    let names = told.recv_timeout(PATIENCE).unwrap_or_default();
    if !is_goal {
        return names;
    }
    let goals = ["done".to_owned(), "halted".to_owned()].into_iter();
    goals.chain(names.iter().map(|name| format!("{name}=done"))).collect()
}

/// The script for `shell`: clap's, which first asks [`complete`] where the shell is bash, zsh or fish.
pub(super) fn script(shell: Shell) -> String {
    // It panics where it cannot write: into memory it can.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut FleetCli::command(), "teleport-fleet", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        // clap_complete 4.6 writes the name of a program with a hyphen in two ways for bash, and completes no verb then.
        Shell::Bash => script.replace("teleport__subcmd__fleet", "teleport__fleet") + include_str!("complete.bash"),
        Shell::Zsh => {
            let asks_first = concat!(include_str!("complete.zsh"), "\n_teleport-fleet-words() {");
            script.replacen("\n_teleport-fleet() {", asks_first, 1)
        }
        Shell::Fish => script + include_str!("complete.fish"),
        _ => script,
    }
}
