//! The clap tree: what is understood, and what is usage.

use std::path::Path;

use crate::support::Server;
use clap::{CommandFactory, Parser};
use fleet_cli::args::{AgentsVerb, Autoupdate, PrintFormat};
use fleet_cli::{FleetCli, Verb};

fn parse(words: &str) -> FleetCli {
    FleetCli::try_parse_from(format!("teleport-fleet {words}").split_whitespace()).unwrap()
}

#[test]
fn the_tree_is_sound() {
    FleetCli::command().debug_assert();
}

#[test]
fn every_verb_and_every_option_has_a_help() {
    let mut todo = vec![FleetCli::command()];
    let mut count = 0;
    while let Some(command) = todo.pop() {
        count += 1;
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
        }
        todo.extend(command.get_subcommands().cloned());
    }
    assert!(count > 30, "{count}");
}

#[test]
fn global_options_stand_before_or_behind_the_verb() {
    for words in [
        "--format json --admin-socket /s autoupdate agents status",
        "autoupdate agents status --format json --admin-socket /s",
        "autoupdate --format json agents --admin-socket /s status",
    ] {
        let cli = parse(words);
        assert_eq!(cli.global.format, Some(PrintFormat::Json), "{words}");
        assert_eq!(cli.global.admin_socket.as_deref(), Some(Path::new("/s")), "{words}");
        let Verb::Autoupdate(verb) = cli.verb else { panic!("{words}") };
        assert!(matches!(*verb, Autoupdate::Agents(AgentsVerb::Status(_))), "{words}");
    }
}

#[test]
fn all_words_of_the_contract_are_understood() {
    for words in [
        "serve --config F --data D --listen 0.0.0.0:0 --metrics 127.0.0.1:0 --tls-cert C --tls-key K --public-addr a:1",
        "serve --plain --behind-proxy --admin-socket S --ready-file R --server-version 18.0.0 --cluster-name n --edition oss",
        "autoupdate agents report",
        "autoupdate agents start-update a b --force",
        "autoupdate agents mark-done a",
        "autoupdate agents rollback",
        "autoupdate agents rollback a --at-once",
        "autoupdate agents halt --all",
        "autoupdate agents halt a b",
        "autoupdate agents run a",
        "autoupdate client-tools status",
        "autoupdate client-tools enable",
        "autoupdate client-tools disable",
        "autoupdate client-tools target 17.0.0",
        "autoupdate client-tools target --clear",
        "autoupdate update --set-agent-auto-update=off",
        "autoupdate update --schedule regular --group g --set-start-hour=3",
        "autoupdate update --schedule regular --group g --set-jitter-seconds=60",
        "autoupdate update --group g --set-max-in-flight=20%",
        "autoupdate update --set-agent-version=15.1.1 --critical",
        "autoupdate reset",
        "autoupdate status",
        "autoupdate status --group g",
        "autoupdate run --group g",
        "get autoupdate_config",
        "get fleet_channel/stable/cloud --format json",
        "status --watch",
        "wait --for done --timeout 30m",
        "wait --for prod=active",
        "apply -f D --prune --dry-run",
        "apply -f D --prune=fleet_channel,fleet_release --force",
        "create -f F",
        "create --force --dry-run -f -",
        "update -f F",
        "edit autoupdate_config",
        "rm fleet_channel/x",
        "lint F G -",
        "explain --host U",
        "simulate --script F --seed 7",
        "hosts --group g --state silent --failed --version 1.2.3",
        "host U",
        "host U hold",
        "host U release",
        "host U assign g",
        "host U unassign",
        "events --follow",
        "audit",
        "audit verify --head 0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF",
        "approve g",
        "tokens",
        "tokens create ci --role operator --expires-in 90d",
        "tokens rm ci",
        "backup F",
        "restore F --data D --force",
        "doctor",
        "completion bash",
    ] {
        parse(words);
    }
}

#[test]
fn defaults_are_those_of_the_contract() {
    let Verb::Serve(serve) = parse("serve").verb else { panic!() };
    assert_eq!(serve.config, Path::new("/etc/teleport-fleet.yaml"));
    assert_eq!(fleet_cli::args::ADMIN_SOCKET, "/run/teleport-fleet/admin.sock");
    // What is not said may stand in the configuration: here nothing is.
    assert_eq!((serve.listen, serve.metrics, serve.data), (None, None, None));
    assert!(!serve.plain && !serve.behind_proxy);
    let help = FleetCli::command().find_subcommand_mut("serve").unwrap().render_long_help().to_string();
    for default in ["0.0.0.0:443", "127.0.0.1:9443", "/var/lib/teleport-fleet", "/etc/teleport-fleet.yaml"] {
        assert!(help.contains(default), "{default}");
    }
}

#[test]
fn every_option_of_serve_is_a_variable_too() {
    let mut command = FleetCli::command();
    let serve = command.find_subcommand_mut("serve").unwrap();
    for argument in serve.get_arguments().filter(|argument| !argument.is_global_set() && argument.get_id() != "help") {
        let name = argument.get_long().unwrap().replace('-', "_").to_uppercase();
        let variable = argument.get_env().unwrap().to_str().unwrap();
        assert_eq!(variable, format!("TELEPORT_FLEET_{name}"));
    }
}

#[test]
fn wrong_usage_is_status_2() {
    for words in [
        "",
        "frobnicate",
        "autoupdate agents start",
        "autoupdate agents halt a --all",
        "autoupdate client-tools target",
        "autoupdate client-tools target 1.0.0 --clear",
        "autoupdate update",
        "autoupdate update --set-start-hour=3",
        "autoupdate update --group g --set-start-hour=24",
        "autoupdate update --set-agent-auto-update=maybe",
        "autoupdate update --critical",
        "create",
        "wait",
        "wait --for ready",
        "wait --for prod=ready",
        "wait --for done --timeout 0s",
        "apply",
        "apply -f D --force",
        "apply -f D --prune=autoupdate_agent_report",
        "explain",
        "host U explode",
        "hosts --state happy",
        "audit verify --head zz",
        "audit verify --head 95c4",
        "tokens create ci",
        "tokens create ci --role god",
        "tokens create ci --role admin --expires-in -1d",
        "--format xml hosts",
    ] {
        let error = FleetCli::try_parse_from(format!("teleport-fleet {words}").split_whitespace()).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{words}");
    }
}

#[test]
fn a_completion_knows_the_verbs_and_needs_no_server() {
    for shell in ["bash", "zsh", "fish"] {
        let done = Server::new([]).run(&["completion", shell]);
        assert_eq!(done.status, 0);
        assert!(done.out.contains("start-update") && done.out.contains("mark-done"), "{shell}");
    }
}

#[test]
fn bash_completes_each_word_of_a_command() {
    let server = Server::new([]);
    let file = server.directory.path().join("completion");
    std::fs::write(&file, server.run(&["completion", "bash"]).out).unwrap();
    let script = file.display();
    // Groups as a server has them, of which one is hostile.
    let touched = server.directory.path().join("touched");
    let groups = format!("prod\na b\n$(touch {})", touched.display());
    for (typed, word, wanted) in [
        ("", "ap", "approve"),
        ("autoupdate agents", "", "start-update"),
        ("autoupdate agents", "mark", "mark-done"),
        ("hosts", "--st", "--state"),
        ("hosts --state", "timed", "timed_out"),
        ("autoupdate agents start-update prod", "--ig", "--ignore-blackout"),
        ("approve", "", "prod"),
        ("approve", "", "a\\ b"),
        ("wait --for", "prod=do", "done"),
    ] {
        let line = format!(
            "teleport-fleet() {{ case \"$*\" in 'complete -- approve ') echo '{groups}';; *'wait --for prod=do') echo prod=done;; \
             esac; }}; . {script}; COMP_WORDS=(teleport-fleet {typed} '{word}'); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             COMP_LINE='teleport-fleet {typed} {word}'; COMP_POINT=${{#COMP_LINE}}; _teleport_fleet teleport-fleet \
             '{}' \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            word.rsplit('=').next().unwrap()
        );
        let bash = std::process::Command::new("bash").arg("-c").arg(line).output().unwrap();
        let words = String::from_utf8(bash.stdout).unwrap();
        assert!(words.lines().any(|word| word == wanted), "{typed} {word}: {words}");
    }
    assert!(!touched.exists(), "a group's name was run");
}
