//! What `docs/kubernetes.md` and the alert rules say is what the program knows.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::report::Outcome;
use teleport_kube_update::config::KubeConfig;
use teleport_kube_update::tell::Numbers;

const PAGE: &str = include_str!("../../docs/kubernetes.md");
const CONFIG: &str = include_str!("../src/config.rs");
const ALERTS: &str = include_str!("../../fleet/monitoring/kube-alerts.yaml");
const CASES: &str = include_str!("../../fleet/monitoring/kube-alerts.test.yaml");
/// Where codes are made.
const SOURCES: [&str; 10] = [
    include_str!("../src/plan/mod.rs"),
    include_str!("../src/verdict/mod.rs"),
    include_str!("../src/keeper/mod.rs"),
    include_str!("../src/keeper/change.rs"),
    include_str!("../src/account.rs"),
    include_str!("../src/prepare.rs"),
    include_str!("../src/commands.rs"),
    include_str!("../src/run.rs"),
    include_str!("../src/image.rs"),
    include_str!("../registry/src/error.rs"),
];
/// What stands before a code that an operator sees. Line breaks and indents do not count.
const BEFORE: [&str; 16] = [
    "nothing(",
    "refuses(",
    "begin(",
    "waits(",
    "fail(",
    "passing(",
    "code: ",
    "code = if target.is_find { ",
    "code = if refusal.until.is_none() { ",
    "told(look, ",
    "self.told(look, ",
    "give_up(look, ",
    "self.say(",
    "Outcome::RolledBack, ",
    "Outcome::Failed, ",
    "Some((",
];

fn section(heading: &str) -> &'static str {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    section.split_once("\n## ").map_or(section, |(section, _)| section)
}

/// The words in code font that begin the rows of the tables of a section.
fn rows(heading: &str) -> Vec<&'static str> {
    let first = section(heading).lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    first.collect()
}

/// The sample that is marked as read by a test.
fn sample() -> &'static str {
    PAGE.split_once("<!-- read by a test -->\n```yaml\n").unwrap().1.split_once("```").unwrap().0
}

#[test]
fn the_page_lists_each_code_and_no_other() {
    let listed = rows("What you see, and who can change it");
    let codes: BTreeSet<_> = listed.iter().copied().collect();
    assert_eq!(codes.len(), listed.len(), "a code is there twice");
    let is_code = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let mut made = BTreeSet::from([Outcome::Updated.name().to_owned()]);
    for source in SOURCES {
        // Up to its tests, on one line.
        let source = source.split("#[cfg(test)]").next().unwrap();
        let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
        for before in BEFORE {
            let before = format!("{before}\"");
            let words = source.split(&before).skip(1).filter_map(|rest| rest.split('"').next());
            made.extend(words.filter(|word| is_code(word)).map(str::to_owned));
        }
        // A code that nobody makes explains nothing.
        let is_made =
            |code: &&&str| [format!("\"{code}\""), format!("\"{code}: ")].iter().any(|word| source.contains(word));
        made.extend(codes.iter().filter(is_made).map(|code| (*code).to_owned()));
    }
    assert!(made.len() > 40, "{made:?}");
    let codes: BTreeSet<_> = codes.into_iter().map(str::to_owned).collect();
    let difference: Vec<_> = made.symmetric_difference(&codes).collect();
    assert!(difference.is_empty(), "docs/kubernetes.md or the program lacks {difference:?}");
}

#[test]
fn the_sample_has_every_key() {
    let list = CONFIG.split_once("const AGENT_KEYS:").unwrap().1.split_once("];").unwrap().0;
    let agent = list.split_once('=').unwrap().1.split('"').skip(1).step_by(2);
    let spec = CONFIG
        .split("only_keys(&[")
        .skip(1)
        .flat_map(|rest| rest.split("])").next().unwrap().split('"').skip(1).step_by(2));
    let mut count = 0;
    for key in agent.chain(spec) {
        count += 1;
        assert!(
            sample().contains(&format!("{key}:")) || key == "config_map",
            "the sample of docs/kubernetes.md has no {key}"
        );
    }
    assert!(count > 30, "{count}");
}

#[test]
fn the_program_reads_the_sample_and_fails_only_at_the_api_server() {
    KubeConfig::parse(Path::new("kube.yaml"), sample().as_bytes()).unwrap();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kube-docs-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.join(name), text).unwrap();
        dir.join(name).display().to_string()
    };
    let key = include_str!("../registry/tests/suite/vectors/cosign.pub");
    let config = sample()
        .replace("/etc/registry/config.json", &file("config.json", "{\"auths\": {}}"))
        .replace("    ca_file: /etc/registry/ca.pem", "   ")
        .replace("/etc/keys/cosign.pub", &file("cosign.pub", key));
    let config = file("kube.yaml", &config);
    // Nobody listens there.
    let kubeconfig = file(
        "kubeconfig",
        r#"{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":"http://127.0.0.1:1"}}],
            "users":[{"name":"x","user":{}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x","namespace":"teleport"}}]}"#,
    );
    let mut plan = Command::new(env!("CARGO_BIN_EXE_teleport-kube-update"));
    let output = plan.env_clear().args(["plan", "--config", &config, "--kubeconfig", &kubeconfig]).output().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: the API server: "), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| word.starts_with("teleport_kube_update_")).collect()
}

#[test]
fn each_alert_asks_for_metrics_that_there_are_and_is_explained() {
    let mut numbers = Numbers::default();
    numbers.agent("statefulset.agent").outcomes.insert("rolled_back", 1);
    let text = numbers.text();
    let shown = names(&text);
    let explained: BTreeSet<_> = rows("Alerts").into_iter().collect();
    for metric in shown.union(&names(ALERTS)) {
        assert!(shown.contains(metric) && explained.contains(metric), "{metric}");
    }
    let alerts: Vec<_> = ALERTS.split("- alert: ").skip(1).map(|rest| rest.lines().next().unwrap()).collect();
    assert_eq!(alerts.len(), 5);
    for alert in alerts {
        assert!(explained.contains(alert), "docs/kubernetes.md does not explain {alert}");
        let (silent, comes) =
            (format!("alertname: {alert}, exp_alerts: []"), format!("alertname: {alert}\n        exp_alerts:\n"));
        assert!(CASES.contains(&silent) && CASES.contains(&comes), "{alert} is not tested");
    }
    let codes = rows("What you see, and who can change it");
    for code in ALERTS.split("code=~\"").skip(1).flat_map(|rest| rest.split('"').next().unwrap().split('|')) {
        assert!(codes.contains(&code), "{code} is no code");
    }
}

#[test]
fn prometheus_takes_the_rules_and_each_alert_comes_when_it_should_and_not_otherwise() {
    let places = Path::new(env!("CARGO_TARGET_TMPDIR")).ancestors().map(|folder| folder.join("promtool/promtool"));
    let programs: Vec<_> = std::iter::once(PathBuf::from("promtool")).chain(places).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fleet/monitoring");
    for words in [["check", "rules", "kube-alerts.yaml"], ["test", "rules", "kube-alerts.test.yaml"]] {
        let run = |program: &PathBuf| Command::new(program).current_dir(folder).args(words).output().ok();
        let Some(checked) = programs.iter().find_map(run) else {
            eprintln!("skipped: there is no promtool (tests/setup.sh monitoring)");
            return;
        };
        let said = [checked.stdout, checked.stderr].concat();
        assert!(checked.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said));
    }
}
