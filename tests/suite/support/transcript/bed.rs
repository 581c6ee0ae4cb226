//! Cases with a host: a bed under a real systemd, its cluster, and its agent once it was started.

use std::time::Duration;

use testing::beds::checkout;
use testing::cluster::Archive;

use super::super::package::{Product, install_deb, install_rpm};
use super::super::{Ran, Rig, look, sql_of};
use super::{Stage, cluster, files, words_of};

/// For what takes some seconds on an idle machine.
const SOON: Duration = Duration::from_secs(60);

/// What lines of shell may call: the agent's process, its program, this life of its unit, what a unit said, whether units are
/// active, whether ours are enabled; a package's removal and version; a directory's files with all that makes them so.
const SHELL: &str = include_str!("bed.sh");

/// Brings up the host of `host WORDS`; false, saying why, where this machine cannot host one. The words: `root:NAME` (of `root.sh`), `nspawn:ARG`,
/// and in place of the updater alone `deb` or `rpm`, its package of 1.0.0; with `fleet` the server's; with `bare` nothing is installed.
pub(super) fn up(stage: &mut Stage, line: &str) -> bool {
    let line = stage.fill(line);
    let all = words_of(&line);
    let of = |kind: &str| all.iter().filter_map(|word| word.strip_prefix(kind)).collect::<Vec<_>>();
    let has = |wanted: &str| all.iter().any(|word| word == wanted);
    // A machine holds few of them at a time.
    stage.host = None;
    let name = format!("line{}", stage.line);
    let root = of("root:").first().copied().unwrap_or(if has("rpm") { "bookworm-rpm" } else { "bookworm" });
    let product = if has("fleet") { Product::Fleet } else { Product::Updater };
    let is_packaged = has("deb") || has("rpm");
    if is_packaged && product.built("1.0.0").is_none() {
        return false;
    }
    let host = if is_packaged || has("bare") {
        Rig::bare_with(root, &name, &of("nspawn:"))
    } else {
        Rig::up_on(root, &name, &of("nspawn:"))
    };
    let Some(host) = host else { return false };
    if is_packaged && !has("bare") {
        install(&host, product, if has("deb") { "deb" } else { "rpm" }, "1.0.0");
    }
    stage.host = Some(host);
    true
}

fn install(host: &Rig, product: Product, format: &str, version: &str) {
    match format {
        "deb" => install_deb(&host.bed, &product.deb(version).unwrap()),
        _ => install_rpm(&host.bed, &product.rpm(version).unwrap()),
    }
}

/// What a line of shell in the host does, by a unit of its own.
pub(super) fn shell(host: &Rig, line: &str) -> Ran {
    Ran::of(&host.bed.run(&["bash", "-euc", &format!("{SHELL}{line}")]))
}

/// Whether this is one of:
///
/// * `settings LINES` (of `spec`, in place of all), `live V HOW…` (released, enabled and running), `start`, `ready`, `run UNIT ARGS` (the updater,
///   in the background), `over UNIT`, `drop-in LINES` (of the agent's unit), `by start` (it cannot be reloaded), `by reload`;
/// * `until LINE`; `is VALUE LINE`: all that the line prints, with blanks for line ends; `has TEXT LINE`, `lacks TEXT LINE`: on either stream;
///   `fails LINE`; `outside LINE`: of no unit; `keep NAME LINE`: then `kept NAME` and `changed NAME` compare what it prints;
/// * `write FILE TEXT [MODE]`, `copy FILE-OF-THE-CHECKOUT FILE`, `edit FILE FROM TO`, `note TEXT` (a row of the agent's), `notes TEXT…`, `no-notes TEXT…`,
///   `kept-note V TEXT` (in its snapshot), `schema N` (or a version that begins with it), `waits MINUTES` (until what was refused is tried again), `select FILE COLUMNS ROWS`, `tidy`, `footprint`: `same` after it, nothing changed;
/// * `install FORMAT V` (the package; with `install-fleet` the server's), `package deb V` (only puts it to `/root/package.deb`; so does `package-fleet`), `within SCRIPT` (99 is its failure), `kill-in-switch ARGS`, `strike WHAT MOMENT ARGS` (see [`strike`]), `boot`, `cut`, `halt`, `reboot`;
/// * `linked V`, `status KEY=VALUE…`, and the steps of the cluster.
pub(super) fn act(stage: &mut Stage, verb: &str, line: &str) -> bool {
    if stage.host.is_none() {
        return false;
    }
    if of_shell(stage, verb, line) {
        return true;
    }
    let all: Vec<String> = words_of(line).iter().map(|word| stage.fill(word)).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let Some(host) = &mut stage.host else { return false };
    is_of_life(host, verb, &all)
        || is_of_files(host, verb, &all)
        || cluster::is_of_cluster(&mut host.cluster, verb, &all)
}

/// Whether it is one with a line of shell.
fn of_shell(stage: &mut Stage, verb: &str, line: &str) -> bool {
    let whole = stage.fill(line);
    let (first, rest) = first_word(line);
    let (first, rest) = (stage.fill(&first), stage.fill(rest));
    let Some(host) = &stage.host else { return false };
    let look = |line: &str| shell(host, line);
    let print = |line: &str| look(line).ok().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    match verb {
        "until" => host.bed.until(&whole, SOON),
        "outside" => drop(Ran::of(&host.bed.exec(&["bash", "-euc", &format!("{SHELL}{whole}")])).ok()),
        "fails" => assert_ne!(look(&whole).status, 0, "{whole}"),
        "is" => assert_eq!(print(&rest), first, "{rest}"),
        "has" => {
            let ran = look(&rest);
            assert!(ran.stdout.contains(&first) || ran.stderr.contains(&first), "{first:?}: {rest}: {ran:#?}");
        }
        "lacks" => {
            let ran = look(&rest).ok();
            assert!(!ran.stdout.contains(&first) && !ran.stderr.contains(&first), "{first:?}: {rest}: {ran:#?}");
        }
        "keep" => {
            let printed = print(&rest);
            stage.looks.insert(first, (rest, printed));
        }
        "kept" | "changed" => {
            for name in whole.split(' ') {
                let (line, before) = &stage.looks[name];
                let now = print(line);
                assert_eq!(now == *before, verb == "kept", "{name}: {before:?}, then {now:?}");
            }
        }
        "footprint" => stage.footprint = host.footprint(),
        "same" => assert_eq!(host.footprint(), stage.footprint),
        _ => return false,
    }
    true
}

/// The first word of a line, and all behind it.
fn first_word(line: &str) -> (String, &str) {
    if !line.starts_with('"') {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        return (first.to_owned(), rest);
    }
    let mut quoted = serde_json::Deserializer::from_str(line).into_iter::<String>();
    let first = quoted.next().unwrap().unwrap_or_else(|error| panic!("{error}: {line}"));
    (first, line[quoted.byte_offset()..].trim_start())
}

fn is_of_life(host: &Rig, verb: &str, words: &[&str]) -> bool {
    match (verb, words) {
        ("settings", lines) => host.configure(&lines.iter().map(|line| format!("  {line}\n")).collect::<String>()),
        ("live", [version, how @ ..]) => {
            host.release(&cluster::archive(Archive::simple(version), how));
            host.enable(&[]).ok();
            host.start_agent();
        }
        ("by", ["start"]) => host.drop_in("ExecReload=\n"),
        ("by", ["reload"]) => {}
        ("start", []) => host.start_agent(),
        ("ready", []) => host.until_ready(),
        ("run", [unit, args @ ..]) => host.updater_in_background(unit, &args.join(" ")),
        ("over", [unit]) => host.until_over(unit),
        ("drop-in", lines) => host.drop_in(&lines.iter().map(|line| format!("{line}\n")).collect::<String>()),
        // Whoever is stopped with the agent has no status of his own.
        ("within", [script]) => assert_ne!(host.bed.run(&[script]).status.code(), Some(99)),
        ("package" | "package-fleet" | "install" | "install-fleet", [format, version]) => {
            let product = if verb.ends_with("fleet") { Product::Fleet } else { Product::Updater };
            if verb.starts_with("install") {
                install(host, product, format, version);
            } else {
                host.bed.put(product.deb(version).unwrap(), "/root/package.deb");
            }
        }
        ("kill-in-switch", args) => host.kill_in_the_switch("teleport-update", args),
        ("strike", [what, moment, args @ ..]) => strike(host, what, moment, args),
        ("boot", []) => host.bed.boot(),
        ("cut", []) => host.bed.cut(),
        ("halt", []) => host.bed.halt(),
        ("reboot", []) => host.bed.reboot(),
        _ => return false,
    }
    true
}

fn is_of_files(host: &Rig, verb: &str, words: &[&str]) -> bool {
    let has = |rows: &[String], note: &str| rows.iter().any(|row| row.ends_with(&format!("|{note}")));
    match (verb, words) {
        ("write", [file, text]) => host.bed.write(file, text, 0o644),
        ("write", [file, text, mode]) => host.bed.write(file, text, u32::from_str_radix(mode, 8).unwrap()),
        ("copy", [from, to]) => host.bed.put(checkout(from), to),
        ("edit", [file, from, to]) => host.edit(file, from, to),
        ("note", [text]) => host.note(text),
        ("notes", notes) => notes.iter().for_each(|note| assert!(host.has_note(note), "{note}: {:?}", host.rows())),
        ("no-notes", notes) => notes.iter().for_each(|note| assert!(!host.has_note(note), "{note}: {:?}", host.rows())),
        ("kept-note", [version, note]) => assert!(has(&host.rows_kept(version), note), "{:?}", host.rows_kept(version)),
        ("schema", [version]) => {
            assert_eq!(host.sql("PRAGMA user_version"), [version.split('.').next().unwrap()]);
        }
        ("select", [file, sql, rows @ ..]) => {
            assert_eq!(sql_of(&host.path(file), &format!("SELECT {sql}")), rows);
        }
        ("waits", [minutes]) => {
            let refused = &host.status()["refused"][0];
            let time = |key: &str| refused[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
            assert_eq!(time("retry_at").duration_since(time("time")).as_mins().to_string(), *minutes);
        }
        ("tidy", []) => host.assert_tidy(),
        ("linked", [version]) => assert_eq!(look::version(host.bed.root()), *version),
        ("status", wanted) => files::holds(&host.status(), wanted),
        _ => return false,
    }
    true
}

/// Runs the updater, and this happens to it (`inject=` of strace) at a write of its journal: the one with that number, or of that step's intent, and
/// with `+` all that follow; at its `commit`, or right `after-commit`.
fn strike(host: &Rig, what: &str, moment: &str, args: &[&str]) {
    let (moment, more) = moment.strip_suffix('+').map_or((moment, ""), |moment| (moment, "+"));
    let when = moment.parse().unwrap_or_else(|_| nth(host, moment));
    let ran = host.injected("teleport-update", args, "fdatasync", &format!("{what}:when={when}{more}"));
    assert!(!ran.status.success(), "{moment} was not met");
    assert!(what.starts_with("signal") || ran.status.code() == Some(1), "{ran:?}");
}

/// Which write of the journal that is.
fn nth(host: &Rig, moment: &str) -> usize {
    let plan = host.updater(&["plan", "--now", "--format", "json"]).ok().json();
    // A write for the beginning, then one for each step's intent, with what was done before; some are written together.
    let steps: Vec<&str> =
        plan["switch"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    let together = |at: &usize| {
        matches!(steps[at - 1..=*at], ["stop", "snapshot"] | ["restore", "link_agent"] | ["link_agent", "start"])
    };
    let written = |last: usize| 2 + last - (1..=last).filter(together).count();
    let end = written(steps.len() - 1);
    match moment {
        "commit" => end + 1,
        "after-commit" => end + 2,
        step => {
            written(steps.iter().position(|known| *known == step).unwrap_or_else(|| panic!("no {step} in {steps:?}")))
        }
    }
}
