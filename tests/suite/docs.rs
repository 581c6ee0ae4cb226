//! What the pages under `docs/` show and list is what the code reads and knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use protocol::find::Directive;
use serde_json::Value;
use teleport_update::testing::Code;
use teleport_update::testing::config::Updates;
use teleport_update::testing::database::Backup;
use teleport_update::testing::journal::{self, Opening, Record};
use teleport_update::testing::manifest::Manifest;
use teleport_update::testing::plan::{Plan, Step};

const PROTOCOL: &str = include_str!("../../docs/protocol.md");
const GUIDE: &str = include_str!("../../docs/operators-guide.md");
const IMAGES: &str = include_str!("../../docs/images.md");
const SECURITY: &str = include_str!("../../docs/security.md");

/// The fenced blocks of a page that are marked `name`.
fn samples(name: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut rest = PROTOCOL;
    while let Some((_, block)) = rest.split_once("\n```") {
        let (mark, body) = block.split_once('\n').unwrap();
        let (body, after) = body.split_once("\n```\n").unwrap();
        if mark.split_whitespace().nth(1) == Some(name) {
            found.push(body);
        }
        rest = after;
    }
    assert!(!found.is_empty(), "docs/protocol.md has no sample {name}");
    found
}

fn sample(name: &str) -> Value {
    serde_json::from_str(samples(name)[0]).unwrap()
}

/// The words in code font that begin the rows of tables in `page`, from the heading `from` to the next of its depth.
fn rows(page: &'static str, from: &str) -> BTreeSet<&'static str> {
    let (_, section) = page.split_once(from).unwrap_or_else(|| panic!("no heading {from}"));
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let first_cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// The words between `before` and `after` in a part of a source file.
fn named(source: &'static str, before: &str, after: char) -> BTreeSet<&'static str> {
    source.split(before).skip(1).filter_map(|rest| rest.split_once(after)).map(|(name, _)| name).collect()
}

/// The part of `source` from `from` to the line `to`.
fn part(source: &'static str, from: &str, to: &str) -> &'static str {
    source.split_once(from).unwrap_or_else(|| panic!("no {from}")).1.split_once(to).unwrap().0
}

/// The keys of the record `name`, as `record!` in `source` lists its fields.
fn fields(source: &'static str, name: &str) -> BTreeSet<String> {
    let (_, rows) = part(source, &format!("record!({name}"), ");\n").split_once(';').unwrap();
    let rows = rows.split(',').map(str::trim).filter(|row| !row.is_empty());
    let key = |row: &str| row.split('"').nth(1).or(row.split_whitespace().next()).unwrap().to_owned();
    rows.map(key).collect()
}

#[test]
fn both_dialects_of_the_find_answer_say_the_same() {
    let read = |name| Directive::parse(sample(name).to_string().as_bytes()).unwrap().unwrap();
    let [rfd, today] = ["find-rfd", "find-today"].map(read);
    assert_eq!(rfd, today);
    assert_eq!((rfd.version.to_string().as_str(), rfd.jitter_seconds, rfd.in_window), ("15.1.1", 10, true));
}

#[test]
fn the_version_handshake_is_the_binarys_own() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_teleport-update"))
        .args(["version", "--format", "json"])
        .output()
        .unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), sample("version"));
}

#[test]
fn the_configuration_shown_is_read_and_comes_back_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("updates.yaml");
    let text = format!("{}\n", samples("updates")[0]);
    write(&file, &text);
    let mut updates = Updates::read(&file).unwrap();
    assert_eq!(updates.status().refused[0].revision.version.to_string(), "3.0.0");
    let spec = updates.spec().clone();
    updates.set_spec(&spec);
    assert_eq!(updates.render().unwrap(), text);
}

#[test]
fn the_snapshots_shown_are_read_and_come_back_the_same() {
    let failed: Vec<bool> = samples("backup")
        .into_iter()
        .map(|text| {
            let dir = tempfile::tempdir().unwrap();
            write(&dir.path().join("backup.yaml"), text);
            let backup = Backup::read(dir.path()).unwrap().unwrap();
            assert_eq!(backup.render(), format!("{text}\n"));
            backup.failed
        })
        .collect();
    assert_eq!(failed, [false, true]);
}

#[test]
fn the_manifest_shown_is_read() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("manifest.json"), samples("manifest")[0]);
    let manifest = Manifest::read(dir.path()).unwrap();
    assert_eq!(manifest.updater.unwrap().protocol, protocol::handover::PROTOCOL);
    assert_eq!(manifest.files[0].path, "bin/teleport");
}

#[test]
fn the_journal_shown_is_read_and_its_open_steps_are_known() {
    let mut begin = sample("journal-begin");
    assert_eq!(begin.as_object_mut().unwrap().remove("record").unwrap(), "begin");
    let opening: Opening = serde_json::from_value(begin).unwrap();
    assert_eq!((opening.format, opening.command.as_str()), (journal::FORMAT, "update"));
    let text = format!("{}\n", samples("journal")[0]);
    let (records, end) = journal::parse(text.as_bytes()).unwrap();
    assert_eq!(end as usize, text.len(), "a checksum is wrong");
    assert!(matches!(records.first(), Some(Record::Intent { step: 0 })));
}

#[test]
fn every_kind_of_journal_record_is_listed() {
    let kinds = part(include_str!("../../src/execute/journal/record.rs"), "pub enum Record {", "\n}\n");
    let kinds: BTreeSet<String> = kinds
        .lines()
        .filter_map(|line| line.strip_prefix("    ").filter(|line| line.starts_with(char::is_uppercase)))
        .map(|line| snake(line.split(['(', ' ', ',', '{']).next().unwrap()))
        .collect();
    let listed = rows(PROTOCOL, "\n## `.journal`\n");
    assert!(kinds.len() > 5 && kinds.iter().all(|kind| listed.contains(kind.as_str())), "{kinds:?} {listed:?}");
}

#[test]
fn the_plan_shown_is_a_plan() {
    let plan: Plan = serde_json::from_value(sample("plan")).unwrap();
    assert!(plan.fetches() && matches!(plan.switch[0], Step::RecordAgent { running: true }));
}

#[test]
fn the_log_line_shown_has_a_known_code() {
    let code = sample("log")["error_code"].clone();
    assert!(Code::ALL.iter().any(|known| code == known.as_str()));
}

#[test]
fn status_has_the_keys_shown_in_their_order() {
    let root = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_teleport-update"))
        .env_clear()
        .arg("--root")
        .arg(root.path())
        .args(["status", "--format", "json"])
        .output()
        .unwrap();
    let real: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&real), keys(&sample("status")));
}

#[test]
fn every_error_code_is_explained() {
    let listed = rows(GUIDE, "\n## Error codes\n");
    for code in Code::ALL {
        assert!(listed.contains(code.as_str()), "{} is missing", code.as_str());
    }
}

#[test]
fn every_setting_is_listed_and_no_other() {
    let source = include_str!("../../src/config/spec.rs");
    let mut keys = fields(source, "Spec");
    let network = part(part(source, "impl Field for Network {", "\n}\n"), "fn node(&self)", "\n    }");
    let network: BTreeSet<String> = named(network, "(\"", '"').into_iter().map(str::to_owned).collect();
    let groups =
        [("health", fields(source, "HealthSettings")), ("network", network), ("service", fields(source, "Commands"))];
    for (group, inner) in groups {
        assert!(keys.remove(group), "{group}");
        keys.extend(inner.into_iter().map(|key| format!("{group}.{key}")));
    }
    let listed: BTreeSet<String> = rows(GUIDE, "\n## Settings\n").into_iter().map(str::to_owned).collect();
    assert_eq!(keys, listed);
}

#[test]
fn every_key_of_the_recorded_status_is_listed() {
    let source = include_str!("../../src/config/status.rs");
    let keys = fields(source, "Status");
    let listed = rows(PROTOCOL, "\n## `updates.yaml`\n");
    assert!(keys.len() > 5 && keys.iter().all(|key| listed.contains(key.as_str())), "{keys:?} {listed:?}");
}

#[test]
fn every_command_and_flag_in_the_pages_exists() {
    use clap::CommandFactory;
    let cli = teleport_update::cli::Cli::command();
    let global: BTreeSet<String> = cli.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect();
    let mut seen = 0;
    for page in [include_str!("../../README.md"), GUIDE, IMAGES] {
        for line in page.lines().filter_map(|line| line.strip_prefix("    ")) {
            let line = line.split('#').next().unwrap();
            let Some((_, words)) = line.split_once("teleport-update ").filter(|(before, _)| !before.contains('/'))
            else {
                continue;
            };
            let words: Vec<&str> = words.split_whitespace().collect();
            let known = cli.get_subcommands().find(|command| words.contains(&command.get_name()));
            let Some(command) = known else { continue };
            seen += 1;
            for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
                let is_known = command.get_arguments().any(|arg| arg.get_long() == Some(flag)) || global.contains(flag);
                assert!(is_known, "{line}: there is no --{flag}");
            }
        }
    }
    assert!(seen > 20, "only {seen} commands were found");
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    // Tests are functions, and cases of the transcript of the same name.
    let mut suite: BTreeMap<String, String> = BTreeMap::new();
    for (path, text) in texts(&["tests/suite"]) {
        let stem = match path.file_stem().unwrap().to_str().unwrap() {
            "mod" => path.parent().unwrap().file_name().unwrap().to_str().unwrap(),
            stem => stem,
        };
        *suite.entry(stem.to_owned()).or_default() += &format!("\n{text}");
    }
    for span in SECURITY.split('`').skip(1).step_by(2) {
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte));
        match span.split_once("::") {
            Some((file, test)) if is_word(file) && is_word(test) => {
                let text = suite.get(file).unwrap_or_else(|| panic!("docs/security.md names {span}: no such file"));
                let names = [format!("\nfn {test}"), format!("\n{}", test.replace('_', " "))];
                let is_there = names.iter().any(|name| text.contains(name.as_str()));
                assert!(is_there, "docs/security.md names {span}, which is no test");
                named += 1;
            }
            _ if span.starts_with("src/") => {
                let text = std::fs::read_to_string(top.join(span)).unwrap_or_else(|error| panic!("{span}: {error}"));
                assert!(text.contains("#[test]"), "{span} has no test");
            }
            _ => {}
        }
    }
    assert!(named > 30, "only {named} tests were found in docs/security.md");
}

#[test]
fn every_planted_fault_fits_the_source() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tried = 0;
    for entry in std::fs::read_dir(top.join("testing/planted")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for file in text.split("\n--- a/").skip(1) {
            let (name, hunks) = file.split_once('\n').unwrap();
            let source = std::fs::read_to_string(top.join(name)).unwrap();
            for hunk in hunks.split("\n@@ ").skip(1) {
                let lines = hunk.lines().skip(1).filter(|line| line.starts_with([' ', '-']));
                let before: String = lines.map(|line| format!("{}\n", &line[1..])).collect();
                assert!(source.contains(&before), "{} does not fit {name}: make it anew", path.display());
                tried += 1;
            }
        }
    }
    assert!(tried >= 7, "only {tried} hunks were found");
}

/// The files below some folders, and what is in them as text. What is no text is empty.
fn texts(folders: &[&str]) -> Vec<(std::path::PathBuf, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders: Vec<_> = folders.iter().map(|name| top.join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push((entry.path(), std::fs::read_to_string(entry.path()).unwrap_or_default()));
            }
        }
    }
    found
}

/// Where comments cite a specification.
const SOURCES: [&str; 6] = ["src", "crates", "fleet", "testing", "tests", "fuzz/fuzz_targets"];

#[test]
fn every_section_of_a_specification_that_a_comment_names_exists() {
    for (mark, page, least) in
        [("SPEC §", "docs/specification.md", 100), ("FLEET §", "docs/fleet-specification.md", 50)]
    {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
        let sections: BTreeSet<&str> =
            text.lines().filter_map(|line| line.strip_prefix("## §")?.split(' ').next()).collect();
        let mut cited = 0;
        for (path, text) in texts(&SOURCES) {
            // A number follows, but in this file.
            let is_numbered = |citation: &&str| citation.starts_with(|char: char| char.is_ascii_digit());
            for citation in text.split(mark).skip(1).filter(is_numbered) {
                // Further ones follow as in `SPEC §3, §4`, `SPEC §5 to §8`.
                let line = citation.lines().next().unwrap();
                let line = line.split([')', ';']).next().unwrap();
                let numbers = format!("§{line}");
                for number in numbers.split('§').skip(1) {
                    let number = number.split(|char: char| !char.is_ascii_digit()).next().unwrap();
                    assert!(sections.contains(number), "{}: {mark}{line}: no such section", path.display());
                    cited += 1;
                }
            }
        }
        assert!(cited > least, "only {cited} citations of {page} were found");
    }
}

#[test]
fn no_source_names_a_document_that_is_not_here() {
    // Those from which the pages were made; in two parts, so that this file does not name them.
    let absent = ["SPEC", "FLEET", "ROLLOUTS", "FLEET_STACK", "DESIGN", "FINDINGS", "PEERS", "HOUSE"];
    let mut found = Vec::new();
    for (path, text) in texts(&SOURCES) {
        for (number, line) in text.lines().enumerate() {
            let names = |name: &str| line.contains(&format!("{name}{}", ".md")) || line.contains(&format!("{name} §"));
            let is_here = |name: &str| ["SPEC", "FLEET"].contains(&name) && !line.contains(&format!("{name}{}", ".md"));
            if absent.iter().any(|name| names(name) && !is_here(name)) {
                found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// No doc test is built: for the few examples in comments that would be minutes. So none may look as if it were run.
#[test]
fn no_comment_holds_an_example_that_nothing_runs() {
    let mut found = Vec::new();
    let mut fences = 0;
    for (path, text) in texts(&SOURCES) {
        let mut is_open = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
            let Some(language) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else { continue };
            is_open = !is_open;
            fences += 1;
            if is_open && !["ignore", "text"].contains(&language) {
                found.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}: say `text` or `ignore` there, or write a test of its own");
    assert!(fences >= 4, "only {fences} were found");
}

/// The server writes its routes as texts, which its page lists; hosts ask where the protocol says.
#[test]
fn the_paths_that_hosts_ask_are_those_of_the_servers_page() {
    for path in protocol::find::PATHS.into_iter().chain([protocol::report::PATH]) {
        assert!(
            include_str!("../../docs/fleet-api.md").contains(&format!("`{path}`")),
            "docs/fleet-api.md has no {path}"
        );
    }
}

#[test]
fn every_link_and_every_source_file_that_a_page_names_leads_somewhere() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["docs", "docs/internals"].into_iter().flat_map(|dir| {
        let names = std::fs::read_dir(top.join(dir)).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(move |name| format!("{dir}/{}", name.display())).filter(|name| name.ends_with(".md"))
    });
    for page in pages.chain(["README.md", "CHANGELOG.md"].map(str::to_owned)) {
        let text = std::fs::read_to_string(top.join(&page)).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { top.join(&page) } else { top.join(&page).parent().unwrap().join(file) };
            // Pictures are targets too.
            let target_text = std::fs::read(&target).unwrap_or_else(|error| panic!("{page}: {link}: {error}"));
            let target_text = String::from_utf8_lossy(&target_text);
            let is_there = target_text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor);
            assert!(anchor.is_empty() || is_there, "{page}: there is no heading for {link}");
        }
        let is_source = |span: &&str| span.contains('/') && span.ends_with(".rs") && !span.contains([' ', '{', '*']);
        for span in text.split('`').skip(1).step_by(2).filter(is_source) {
            let is_there = |dir: &&str| top.join(dir).join(span).exists();
            assert!(["", "src", "tests", "tests/suite", "crates"].iter().any(is_there), "{page}: no {span}");
        }
    }
}

/// What a heading is called in links: lower case, blanks as hyphens, no other signs.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for char in name.chars() {
        if char.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(char.to_lowercase());
    }
    out
}

fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn the_script_shown_installs_the_version_that_it_is_told() {
    let page = include_str!("../../docs/installers.md");
    let script = part(page, "```sh installer\n", "```");
    let dir = tempfile::tempdir().unwrap();
    let apt = dir.path().join("apt-get");
    std::fs::write(&apt, "#!/bin/sh\necho \"$*\" >>\"$CALLS\"\n").unwrap();
    std::fs::set_permissions(&apt, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let calls = dir.path().join("calls");
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let mut shell = std::process::Command::new("/bin/sh");
    shell.env_clear().env("PATH", path).env("CALLS", &calls).env("VERSION", "17.2.1").args(["-c", script]);
    assert!(shell.status().unwrap().success());
    let calls = std::fs::read_to_string(&calls).unwrap();
    assert!(calls.ends_with("install -q -y --allow-downgrades teleport=17.2.1\n"), "{calls}");
    // Without a version it installs nothing.
    assert!(!shell.env_remove("VERSION").status().unwrap().success());
}
