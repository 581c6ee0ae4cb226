//! What `fleet/monitoring` asks for is what the server shows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use yaml::Node;

use crate::reports::host::{Host, epoch};
use crate::support::{Server, dir, groups, request, version, write_secret};

const ALERTS: &str = include_str!("../../../monitoring/alerts.yaml");
const CASES: &str = include_str!("../../../monitoring/alerts.test.yaml");
const DASHBOARD: &str = include_str!("../../../monitoring/grafana-dashboard.json");
const OPERATIONS: &str = include_str!("../../../../docs/fleet-operations.md");

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words = text.split(|char: char| !is_part(char)).filter(|word| word.starts_with("teleport_fleet_"));
    // A histogram has three names.
    let of = |word: &str| {
        ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned()
    };
    words.map(of).collect()
}

/// What a server shows that has a rollout, and a receiver; and the values of each label of it.
fn shown() -> (BTreeSet<String>, String) {
    let dir = dir();
    let secret = write_secret(dir.path(), &"x".repeat(24));
    let webhook = ["--webhook-url", "http://127.0.0.1:1/", "--webhook-secret-file", &secret];
    let server = Server::with(dir.path(), &[&["--plain"], &webhook[..]].concat());
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    let host = Host::with_key(1, "dev", 1);
    assert_eq!(host.sends(server.addr, &host.says(epoch(&server), "1.0.0", None)).0, 200);
    let (status, text) = request(server.metrics, "GET", "/metrics", "", "");
    assert_eq!(status, 200);
    let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let typed = typed.filter(|name| !name.starts_with("process_")).map(str::to_owned).collect();
    let values = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert_eq!(names(&values), typed, "a metric without a value, or without a type");
    (typed, values)
}

/// Each alert: its name and its expression.
fn alerts() -> Vec<(String, String)> {
    let root = Node::parse(ALERTS).unwrap_or_else(|fault| panic!("line {}: {}", fault.line, fault.what));
    let mut found = Vec::new();
    walk(&root, &mut found);
    found
}

fn walk(node: &Node, found: &mut Vec<(String, String)>) {
    let pairs = node.pairs().into_iter().flatten();
    let value = |name: &str| {
        let mut pairs = node.pairs().into_iter().flatten();
        pairs.find(|(key, _)| key.as_str() == Some(name)).and_then(|(_, value)| value.as_str()).map(str::to_owned)
    };
    if let (Some(name), Some(expression)) = (value("alert"), value("expr")) {
        found.push((name, expression));
    }
    pairs.for_each(|(_, value)| walk(value, found));
    node.items().into_iter().flatten().for_each(|item| walk(item, found));
}

#[test]
fn each_alert_asks_for_metrics_and_labels_that_the_server_shows_and_is_explained() {
    let (metrics, text) = shown();
    let alerts = alerts();
    assert!(alerts.len() >= 8, "{alerts:?}");
    for (alert, expression) in alerts {
        let asked = names(&expression);
        let unknown: Vec<_> = asked.difference(&metrics).collect();
        assert!(unknown.is_empty(), "{alert} asks for {unknown:?}");
        assert!(!asked.is_empty() || expression.starts_with("up{"), "{alert}: {expression}");
        for label in ["state=", "reason!~", "who!=", "result=", "receiver="] {
            let key = label.trim_end_matches(['=', '~', '!']);
            let is_shown = || text.lines().any(|line| names(line) == asked && line.contains(&format!("{key}=\"")));
            assert!(!expression.contains(label) || is_shown(), "{alert} asks for the label {key}");
        }
        assert!(OPERATIONS.contains(&format!("| `{alert}` |")), "docs/fleet-operations.md does not explain {alert}");
    }
    for metric in metrics {
        assert!(OPERATIONS.contains(&format!("| `{metric}` |")), "docs/fleet-operations.md does not explain {metric}");
    }
}

/// Prometheus' own checker: the system's, or what `tests/setup.sh monitoring` put below the target directory.
fn promtool(words: &[&str]) -> Option<Output> {
    let places = Path::new(env!("CARGO_TARGET_TMPDIR")).ancestors().map(|folder| folder.join("promtool/promtool"));
    let programs = std::iter::once(PathBuf::from("promtool")).chain(places);
    let checked = programs.into_iter().find_map(|program| Command::new(program).args(words).output().ok());
    if checked.is_none() {
        eprintln!("skipped: there is no promtool (tests/setup.sh monitoring)");
    }
    checked
}

#[test]
fn prometheus_takes_the_rules_and_each_alert_comes_when_it_should_and_not_otherwise() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../monitoring");
    let (rules, cases) = (format!("{folder}/alerts.yaml"), format!("{folder}/alerts.test.yaml"));
    for words in [["check", "rules", &rules], ["test", "rules", &cases]] {
        let Some(checked) = promtool(&words) else { return };
        let said = [checked.stdout, checked.stderr].concat();
        assert!(checked.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn each_alert_has_a_case_where_it_comes_and_one_where_it_does_not() {
    for (alert, _) in alerts() {
        let silent = format!("alertname: {alert}, exp_alerts: []");
        let comes = format!("alertname: {alert}\n        exp_alerts:\n          - exp_labels: ");
        assert!(CASES.contains(&silent) && CASES.contains(&comes), "{alert}");
    }
}

#[test]
fn the_dashboard_is_one_that_grafana_imports_and_asks_for_what_is_shown() {
    let (metrics, _) = shown();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 38, "Grafana 10's is 38");
    assert!(dashboard.get("id").is_none(), "an id is the importing Grafana's to give");
    let uid = dashboard["uid"].as_str().unwrap();
    assert!((1..=40).contains(&uid.len()) && !dashboard["title"].as_str().unwrap().is_empty());
    let variables: Vec<&str> =
        dashboard["templating"]["list"].as_array().unwrap().iter().map(|list| list["name"].as_str().unwrap()).collect();
    assert_eq!(variables, ["datasource", "instance"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have the same id");
    let mut taken = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(["stat", "table", "timeseries"].contains(&panel["type"].as_str().unwrap()), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        let (left, top) = (place("x"), place("y"));
        assert!(left + place("w") <= 24, "{title}");
        for cell in (left..left + place("w")).flat_map(|x| (top..top + place("h")).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{title} lies over another panel");
        }
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            assert!(!names(expression).is_empty(), "{title}: {expression}");
            asked.extend(names(expression));
        }
    }
    assert_eq!(asked, metrics, "what is shown and what is looked at");
}
