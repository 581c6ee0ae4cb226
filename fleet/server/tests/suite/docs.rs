//! What the pages about the rollout server say is what the server reads and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use fleet_engine::resource::{self, Resource};
use serde_json::{Value, json};

use crate::support::{SOON, Server, dir, groups, program, request, version};

const RESOURCES: &str = include_str!("../../../../docs/fleet-resources.md");
const ROLLOUTS: &str = include_str!("../../../../docs/rollouts.md");
const OPERATIONS: &str = include_str!("../../../../docs/fleet-operations.md");
const RUNBOOK: &str = include_str!("../../../../docs/fleet-runbook.md");
const SECURITY: &str = include_str!("../../../../docs/fleet-security.md");
const API_PAGE: &str = include_str!("../../../../docs/fleet-api.md");
const API: &str = include_str!("../../../../docs/fleet-api.json");
const PAGES: [(&str, &str); 6] = [
    ("rollouts.md", ROLLOUTS),
    ("fleet-operations.md", OPERATIONS),
    ("fleet-runbook.md", RUNBOOK),
    ("fleet-resources.md", RESOURCES),
    ("fleet-api.md", API_PAGE),
    ("fleet-security.md", SECURITY),
];

/// `TwoWords` as `two_words`.
fn snake(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, char| {
        if char.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(char.to_ascii_lowercase());
        text
    })
}

/// A key that no mapping has, and that is like none.
const UNKNOWN: &str = "zzzzqqqqxxxx";

/// Keys and values.
type Pairs = &'static [(&'static str, &'static str)];

/// A mapping of the reference: its heading there, the resources in which it stands (its keys at the `#`), one for each column of
/// defaults, and the keys that it must have.
struct Table {
    heading: &'static str,
    within: Vec<String>,
    required: Pairs,
}

/// Any time.
const TIME: &str = "2026-12-20T00:00:00Z";

/// Headings of mappings, where each stands, and what it must have. Those of a group stand in it.
const TABLES: [(&str, &str, Pairs); 29] = [
    ("Every kind", "{#}", &[("kind", "autoupdate_config"), ("spec", "{}")]),
    ("`metadata`", "{kind: fleet_channel, metadata: {#}, spec: {static_version: 1.0.0}}", &[("name", "x")]),
    ("`autoupdate_config`: `spec`", "{kind: autoupdate_config, spec: {#}}", &[]),
    ("`autoupdate_config`: `spec.tools`", "{kind: autoupdate_config, spec: {tools: {#}}}", &[]),
    ("`autoupdate_config`: `spec.agents`", "{kind: autoupdate_config, spec: {agents: {#}}}", &[("mode", "enabled")]),
    (
        "`autoupdate_config`: `spec.agents.schedules`",
        "{kind: autoupdate_config, spec: {agents: {mode: enabled, schedules: {#}}}}",
        &[],
    ),
    ("`cluster_maintenance_config`: `spec`", "{kind: cluster_maintenance_config, spec: {#}}", &[]),
    (
        "`cluster_maintenance_config`: `spec.agent_auto_update`",
        "{kind: cluster_maintenance_config, spec: {agent_auto_update: {#}}}",
        &[],
    ),
    (
        "`cluster_maintenance_config`: `spec.agent_auto_update.regular`",
        "{kind: cluster_maintenance_config, spec: {agent_auto_update: {regular: {#}}}}",
        &[],
    ),
    (
        "`cluster_maintenance_config`: `spec.agent_auto_update.immediate`",
        "{kind: cluster_maintenance_config, spec: {agent_auto_update: {immediate: {#}}}}",
        &[],
    ),
    (
        "`cluster_maintenance_config`: `spec.agent_auto_update_groups`",
        "{kind: cluster_maintenance_config, spec: {agent_auto_update_groups: {#}}}",
        &[],
    ),
    ("`cluster_maintenance_config`: `spec.agents`", "{kind: cluster_maintenance_config, spec: {agents: {#}}}", &[]),
    (
        "`cluster_maintenance_config`: `spec.agent_upgrades`",
        "{kind: cluster_maintenance_config, spec: {agent_upgrades: {#}}}",
        &[],
    ),
    ("A group", "{#}", &[("name", "a")]),
    ("A group: `agents`", "{name: a, agents: {#}}", &[]),
    ("A group: `blackout[]`", "{name: a, blackout: [{#}]}", &[("from", TIME), ("to", "2026-12-21T00:00:00Z")]),
    ("A group: `gate`", "{name: a, gate: {#}}", &[("url", "https://example.com/")]),
    ("A group: `rate`", "{name: a, rate: {#}}", &[("base", "10")]),
    ("`autoupdate_version`: `spec`", "{kind: autoupdate_version, spec: {#}}", &[("agent_version", "1.0.0")]),
    (
        "`autoupdate_version`: `spec.agents`",
        "{kind: autoupdate_version, spec: {agents: {#}}}",
        &[("start_version", "1.0.0"), ("target_version", "1.0.0")],
    ),
    ("`autoupdate_version`: `spec.tools`", "{kind: autoupdate_version, spec: {tools: {#}}}", &[]),
    (
        "`autoupdate_agent_report`: `spec`",
        "{kind: autoupdate_agent_report, metadata: {name: x}, spec: {#}}",
        &[("timestamp", TIME)],
    ),
    (
        "`autoupdate_agent_report`: `spec.groups.NAME`",
        "{kind: autoupdate_agent_report, metadata: {name: x}, spec: {timestamp: 2026-12-20T00:00:00Z, groups: {a: {#}}}}",
        &[],
    ),
    (
        "`autoupdate_agent_report`: `spec.groups.NAME.versions.VERSION`",
        "{kind: autoupdate_agent_report, metadata: {name: x}, spec: {timestamp: 2026-12-20T00:00:00Z, groups: {a: \
         {versions: {1.0.0: {#}}}}}}",
        &[],
    ),
    (
        "`autoupdate_agent_report`: `spec.omitted[]`",
        "{kind: autoupdate_agent_report, metadata: {name: x}, spec: {timestamp: 2026-12-20T00:00:00Z, omitted: [{#}]}}",
        &[],
    ),
    (
        "`fleet_channel`: `spec`",
        "{kind: fleet_channel, metadata: {name: x}, spec: {#}}",
        &[("static_version", "1.0.0")],
    ),
    ("`fleet_release`: `spec`", "{kind: fleet_release, spec: {#}}", &[("version", "1.0.0")]),
    (
        "`fleet_release`: `spec.blocked`",
        "{kind: fleet_release, spec: {version: 1.0.0, blocked: {#}}}",
        &[("reason", "x")],
    ),
    (
        "`fleet_release`: `spec.rollout`",
        "{kind: fleet_release, spec: {version: 1.0.0, rollout: {#}}}",
        &[("start", TIME)],
    ),
];

fn tables() -> impl Iterator<Item = Table> {
    TABLES.into_iter().map(|(heading, within, required)| {
        let v2 = |list: &str| format!("{{kind: autoupdate_config, spec: {{agents: {{{list}}}}}}}");
        let rfd0169 = |list: &str| {
            format!("{{kind: cluster_maintenance_config, spec: {{agent_auto_update_groups: {{{list}}}}}}}")
        };
        let within = match heading {
            _ if is_of_group(heading) => {
                let list = format!("regular: [{within}]");
                vec![v2(&format!("mode: enabled, schedules: {{{list}}}")), rfd0169(&list)]
            }
            // What its window may be, time-based alone says.
            "`autoupdate_config`: `spec.agents`" => vec![within.to_owned(), v2("strategy: time-based, #")],
            _ => vec![within.to_owned()],
        };
        Table { heading, within, required }
    })
}

/// Whether a heading is that of a group, which has two columns of defaults.
fn is_of_group(heading: &str) -> bool {
    heading.starts_with("A group")
}

impl Table {
    /// The resource of the column `index`, with `key` at this value.
    fn resource(&self, index: usize, key: &str, value: Option<&str>) -> String {
        let others = self.required.iter().filter(|(name, _)| *name != key).copied();
        let pairs = others.chain(value.map(|value| (key, value))).map(|(key, value)| format!("{key}: {value}"));
        self.within[index].replace('#', &pairs.collect::<Vec<_>>().join(", "))
    }

    /// What is wrong with the value of `key` in that resource.
    fn faults(&self, index: usize, key: &str, value: &str) -> Vec<String> {
        let Err(faults) = resource::read(&self.resource(index, key, Some(value))) else { return Vec::new() };
        let is_here = |place: &str| place == key || place.ends_with(&format!(".{key}"));
        faults.list().iter().filter(|fault| is_here(&fault.key)).map(|fault| fault.what.clone()).collect()
    }

    /// The rows: the cells of each, the key without its quotes first.
    fn rows(&self) -> Vec<Vec<&'static str>> {
        let section = section(RESOURCES, &format!("### {}", self.heading));
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix('|')?.split_once("` | "));
        rows.map(|(key, cells)| [key].into_iter().chain(cells.split(" | ")).collect()).collect()
    }
}

/// The part of a page below a heading, up to the next one.
fn section(page: &'static str, heading: &str) -> &'static str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let ends = ["\n# ", "\n## ", "\n### "].iter().filter_map(|mark| rest.find(mark));
    &rest[..ends.min().unwrap_or(rest.len())]
}

#[test]
fn every_key_that_the_server_reads_is_in_the_reference_and_no_other() {
    for table in tables() {
        let faults = table.faults(0, UNKNOWN, "1");
        let known =
            faults.iter().find_map(|what| what.split_once("known are ")).unwrap_or_else(|| panic!("{faults:?}")).1;
        let known: BTreeSet<&str> = known.split(", ").collect();
        let listed: BTreeSet<&str> = table.rows().iter().map(|row| row[0]).collect();
        assert_eq!(listed, known, "docs/fleet-resources.md, {}", table.heading);
    }
}

#[test]
fn what_may_stand_there_is_what_the_server_says_of_a_wrong_value() {
    let mut held = 0;
    for table in tables() {
        for row in table.rows() {
            // What a key may be, some say only where those are absent that a resource must have.
            let alone = Table { heading: table.heading, within: table.within.clone(), required: &[] };
            let wanted: Vec<String> = [&table, &alone]
                .into_iter()
                .flat_map(|table| (0..table.within.len()).map(move |index| (table, index)))
                .flat_map(|(table, index)| ["[]", "{}"].map(|value| table.faults(index, row[0], value)))
                .flatten()
                .filter_map(|what| Some(what.split_once(" is not ")?.1.split(", such as ").next()?.to_owned()))
                .collect();
            if wanted.is_empty() {
                // Whatever stands there, only the server may write it.
                assert_eq!(row[0], "status", "{}: nothing is wrong for {}", table.heading, row[0]);
                continue;
            }
            held += 1;
            let is_said = wanted.iter().any(|wanted| row[1].replace('`', "").contains(wanted.as_str()));
            assert!(
                is_said,
                "docs/fleet-resources.md, {}, {}: {:?} does not say {wanted:?}",
                table.heading, row[0], row[1]
            );
        }
    }
    assert!(held > 70, "only {held} keys");
}

#[test]
fn the_defaults_of_the_reference_are_what_a_resource_without_the_key_means() {
    let meaning = |text: &str| {
        let resources = resource::read(text).unwrap_or_else(|faults| panic!("{text}: {faults}"));
        match &resources[0] {
            Resource::Config(object) => format!("{:?}", object.model),
            Resource::Version(object) => format!("{:?}", object.model),
            Resource::Maintenance(object) => format!("{:?}", object.model),
            Resource::Channel(object) => format!("{:?}", object.model),
            Resource::Release(object) => format!("{:?}", object.model),
            Resource::Report(object) => format!("{:?}", object.model),
        }
    };
    let mut held = 0;
    for table in tables() {
        let columns = if is_of_group(table.heading) { 2 } else { 1 };
        for (row, column) in table.rows().iter().flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let (key, cell) = (row[0], row[2 + column]);
            if cell == "required" {
                let without = resource::read(&table.resource(column, key, None));
                assert!(without.is_err(), "{}: {key} is not required", table.heading);
                continue;
            }
            let Some(default) = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')) else { continue };
            let with = meaning(&table.resource(column, key, Some(default)));
            let without = meaning(&table.resource(column, key, None));
            // Whether anything is written at all is part of the meaning of some.
            let is_bare = table.required.is_empty() && table.heading.starts_with("`cluster_maintenance_config`: `spec");
            assert!(is_bare || with == without, "{}, {key}: {default} means {with}, nothing {without}", table.heading);
            held += 1;
        }
    }
    assert!(held > 50, "only {held} defaults");
}

#[test]
fn every_example_of_a_resource_is_accepted() {
    let mut examples = 0;
    for (name, page) in PAGES {
        for block in page.split("\n```yaml\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0) {
            let dir = dir();
            let file = dir.path().join("example.yaml");
            std::fs::write(&file, block).unwrap();
            let output = program(&["lint", file.to_str().unwrap()]).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "docs/{name}:\n{block}\n{told}");
            examples += 1;
        }
    }
    assert!(examples >= 12, "only {examples} examples");
}

#[test]
fn every_command_in_the_pages_is_one() {
    use clap::Parser;
    let mut seen = 0;
    for (name, page) in PAGES {
        let mut in_block = false;
        for line in page.lines() {
            if line.starts_with("```") {
                in_block = !in_block;
            }
            let line = line.strip_prefix("    ").filter(|_| !in_block);
            let Some(line) = line.filter(|line| line.starts_with("teleport-fleet ")) else { continue };
            let line = line.split(" #").next().unwrap().split(['>', '|', '<', '&']).next().unwrap();
            let words: Vec<String> = line.split_whitespace().map(|word| word.replace(['"', '\''], "")).collect();
            if let Err(error) = fleet_cli::args::FleetCli::try_parse_from(&words) {
                panic!("docs/{name}: {line}\n{error}");
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} commands");
}

#[test]
fn every_setting_of_the_server_is_listed_and_no_other() {
    let source = include_str!("../../src/settings/written.rs");
    let keys = source.split_once("const KEYS").unwrap().1.split_once("];").unwrap().0;
    let keys: BTreeSet<&str> = keys.split('"').skip(1).step_by(2).collect();
    let rows =
        section(OPERATIONS, "## The server").lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let listed: BTreeSet<&str> = rows.flat_map(|cell| cell.split('`').step_by(2)).collect();
    assert_eq!(listed, keys, "docs/fleet-operations.md, The server");
}

/// What the serialisation calls the variants of `pub enum NAME` in the engine's list of reasons.
fn reasons(name: &str) -> BTreeSet<String> {
    let source = include_str!("../../../engine/src/reason.rs");
    let variants = source.split_once(&format!("pub enum {name} {{\n")).unwrap().1.split_once("\n}").unwrap().0;
    let lines = variants
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase));
    lines.map(|line| snake(line.split([' ', ',']).next().unwrap())).collect()
}

/// The codes of the rows below these headings of the runbook. Each row has something in every cell, but where `done` wants nothing.
fn explained(headings: &[&str]) -> BTreeSet<String> {
    let sections = headings.iter().flat_map(|heading| section(RUNBOOK, heading).lines());
    let rows = sections.filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "));
    let seen = |(code, cells): (&str, &str)| {
        let cells: Vec<&str> = cells.split(" | ").map(str::trim).collect();
        assert!(!cells[0].is_empty() && cells.last().is_some_and(|last| !last.is_empty()), "{code}: {cells:?}");
        code.split("`, `").map(str::to_owned).collect::<Vec<_>>()
    };
    rows.flat_map(seen).collect()
}

#[test]
fn the_runbook_has_a_row_for_each_reason_of_the_engine() {
    let api: Value = serde_json::from_str(API).unwrap();
    let in_api = |pointer: &str| -> BTreeSet<String> {
        let listed = api.pointer(pointer).unwrap().as_array().unwrap();
        listed.iter().map(|code| code.as_str().unwrap().to_owned()).collect()
    };
    let codes = reasons("Why");
    assert!(codes.len() > 30, "{codes:?}");
    assert_eq!(in_api("/components/schemas/ReasonCode/enum"), codes, "docs/fleet-api.json");
    let listed = explained(&["## Groups", "## Hosts"]);
    let missing: Vec<_> = codes.difference(&listed).collect();
    assert!(missing.is_empty(), "docs/fleet-runbook.md does not say what to do about {missing:?}");
    let states = ["pending", "let_go", "told", "updated", "failed", "timed_out", "silent", "excluded", "unassigned"];
    let surplus: Vec<_> = listed.difference(&codes).filter(|code| !states.contains(&code.as_str())).collect();
    assert!(surplus.is_empty(), "docs/fleet-runbook.md explains {surplus:?}, which the engine does not say");
    let rules = reasons("HaltRule");
    assert_eq!(explained(&["## Halts"]), rules, "docs/fleet-runbook.md, Halts");
    let unknown: Vec<_> = rules.difference(&in_api("/components/schemas/Why/properties/rule/enum")).cloned().collect();
    assert!(unknown.is_empty(), "docs/fleet-api.json does not have the halts {unknown:?}");
}

#[test]
fn every_test_that_the_page_about_security_names_exists() {
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders = ["server", "simulator", "store"].map(|room| fleet.join(room).join("tests/suite")).to_vec();
    // By the name of a file, or of the folder of a `mod.rs`: files of different suites may have the same name.
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let named = if path.ends_with("mod.rs") { folder.as_path() } else { path.as_path() };
            let name = named.file_stem().unwrap().to_string_lossy().into_owned();
            sources.entry(name).or_default().push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    let mut named = 0;
    for span in SECURITY.split('`').skip(1).step_by(2) {
        let Some((file, test)) = span.split_once("::") else { continue };
        let is_there = sources.get(file).is_some_and(|source| source.contains(&format!("\nfn {test}()")));
        assert!(is_there, "docs/fleet-security.md names {span}, which is no test");
        named += 1;
    }
    assert!(named >= 25, "only {named} tests are named in docs/fleet-security.md");
}

#[test]
fn every_code_of_an_error_is_in_the_document_and_on_its_page() {
    let source = include_str!("../../../wire/src/api/refused.rs");
    let variants = source.split_once("pub enum Code {").unwrap().1.split_once("\n}").unwrap().0;
    let names = variants.lines().filter_map(|line| line.trim().strip_suffix(',')).filter(|name| !name.contains(' '));
    let names: BTreeSet<String> = names.map(snake).collect();
    let api: Value = serde_json::from_str(API).unwrap();
    let listed = api.pointer("/components/schemas/Code/enum").unwrap().as_array().unwrap();
    assert_eq!(listed.iter().map(|code| code.as_str().unwrap().to_owned()).collect::<BTreeSet<_>>(), names);
    for name in names {
        let code: fleet_wire::api::Code = serde_json::from_value(json!(name)).unwrap();
        let row = format!("| `{name}` | {} |", code.status());
        assert!(API_PAGE.contains(&row), "docs/fleet-api.md has no row {row}");
    }
}

/// An operation of the document: path, method, and what is said of it.
fn operations(api: &Value) -> Vec<(String, String, Value)> {
    let of_path = |(path, methods): (&String, &Value)| -> Vec<(String, String, Value)> {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, said)| (path.clone(), method.to_ascii_uppercase(), said.clone())).collect()
    };
    api["paths"].as_object().unwrap().iter().flat_map(of_path).collect()
}

/// The routes in the source below `folder`, as the document writes paths: those of channels are two each.
pub(crate) fn routes(folder: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder)];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap_or_default();
            // The one path that has a name: the way back from a provider of logins.
            let source = source.replace(".route(CALLBACK", ".route(\"/login/oidc/callback\"");
            for route in source.split(".route(").skip(1) {
                let (_, route) = route.split_once('"').unwrap();
                let (path, handlers) = route.split_once('"').unwrap();
                let path = path.replace("{*", "{");
                let paths = match path.strip_suffix("/{channel}") {
                    Some(_) => vec![format!("{path}/version"), format!("{path}/critical")],
                    None => vec![path],
                };
                let handlers = &handlers[..end_of_call(handlers)];
                for method in ["get", "post", "put", "delete", "patch"] {
                    let is_there = handlers.split(method).skip(1).any(|rest| rest.starts_with('('));
                    found.extend(paths.iter().filter(|_| is_there).map(|path| (path.clone(), method.to_uppercase())));
                }
            }
        }
    }
    found
}

/// Where the call ends whose arguments go on here.
fn end_of_call(text: &str) -> usize {
    let mut depth = 1;
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    panic!("a route without an end: {text}");
}

#[test]
fn the_document_has_every_route_of_the_server_and_no_other() {
    let api: Value = serde_json::from_str(API).unwrap();
    let written: BTreeSet<(String, String)> =
        operations(&api).into_iter().map(|(path, method, _)| (path, method)).collect();
    let routes = routes("routes");
    assert!(routes.len() > 25, "{routes:?}");
    let missing: Vec<_> = routes.difference(&written).collect();
    let surplus: Vec<_> = written.difference(&routes).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "docs/fleet-api.json lacks {missing:?}, and has {surplus:?} too many"
    );
    for (path, _) in written {
        assert!(API_PAGE.contains(&format!("`{path}")), "docs/fleet-api.md does not name {path}");
    }
}

const HOST: &str = "11111111-2222-4333-8444-555555555555";

/// A path of the document with names of what there is.
pub(crate) fn sample(path: &str) -> String {
    let path = path.replace("{kind}", "autoupdate_config").replace("{name}", "autoupdate-config");
    path.replace("{id}", HOST).replace("{channel}", "dev")
}

/// A server with a rollout, a group of which has started, and a host that asked.
fn busy(dir: &Path) -> Server {
    let server = Server::with(dir, &["--plain", "--public-addr", "fleet.example.com", "--cluster-name", "c1"]);
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    server.json(&format!("/v1/webapi/find?host={HOST}&group=dev"));
    server.until("the host is known", || server.cli(&["host", HOST, "assign", "prod"]).status.success());
    server
}

fn secret(server: &Server, role: &str) -> String {
    let told = server.ok(&["tokens", "create", role, "--role", role]);
    let secret = told.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap();
    format!("authorization: Bearer {secret}\r\n")
}

/// Status and text of an answer, which may be a database.
fn answer(addr: SocketAddr, method: &str, path: &str, header: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{header}");
    write!(stream, "{head}content-length: 2\r\n\r\n{{}}").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn every_operation_of_the_document_is_there_for_its_role() {
    let api: Value = serde_json::from_str(API).unwrap();
    let dir = dir();
    let server = busy(dir.path());
    let roles = ["viewer", "operator", "admin"];
    let secrets = roles.map(|role| secret(&server, role));
    for (path, method, said) in operations(&api) {
        let addr = if path == "/metrics" { server.metrics } else { server.addr };
        let ask = |header: &str| answer(addr, &method, &sample(&path), header);
        let Some(role) = said["x-role"].as_str() else {
            let (status, body) = ask("");
            assert!(!path.starts_with("/v1/fleet/") && status != 405, "{method} {path}: {status} {body}");
            assert!(!body.contains("there is nothing at this path"), "{method} {path}: {body}");
            continue;
        };
        assert_eq!(ask("").0, 401, "{method} {path}");
        let needed = roles.iter().position(|known| *known == role).unwrap();
        for (at, header) in secrets.iter().enumerate() {
            let (status, body) = ask(header);
            assert_eq!(status == 403, at < needed, "{method} {path} by a {}: {status} {body}", roles[at]);
            let is_there = status != 405 && !body.contains("there is nothing at this path");
            assert!(is_there, "{method} {path}: {status} {body}");
        }
    }
}

/// Method, path, query and body of questions whose answers are looked at, in this order.
type Question = (&'static str, &'static str, String, Value);

fn questions() -> Vec<Question> {
    let uuid = |number: u32| format!("00000000-0000-4000-8000-{number:012x}");
    let write = json!({"id": uuid(1), "text": version("1.1.0", "1.2.0", "regular"), "how": "replace", "dry_run": true});
    let act = json!({"id": uuid(2), "command": {"halt": {"groups": ["dev"], "all": false}}});
    vec![
        ("GET", "/v1/webapi/find", format!("?host={HOST}"), json!(null)),
        ("GET", "/webapi/find", "?group=dev".to_owned(), json!(null)),
        ("GET", "/webapi/ping", String::new(), json!(null)),
        ("GET", "/v1/maintenance-schedule", "?kind=kube_controller".to_owned(), json!(null)),
        ("GET", "/v1/graph", "?channel=stable".to_owned(), json!(null)),
        ("GET", "/v1/graph", String::new(), json!(null)),
        ("GET", "/v1/fleet/resources/{kind}", String::new(), json!(null)),
        ("GET", "/v1/fleet/resources/{kind}/{name}", String::new(), json!(null)),
        ("POST", "/v1/fleet/resources", String::new(), write),
        ("POST", "/v1/fleet/resources", String::new(), json!({"id": uuid(3), "text": "kind: x", "how": "create"})),
        ("DELETE", "/v1/fleet/resources/{kind}", format!("?id={}&dry_run=true", uuid(4)), json!(null)),
        ("GET", "/v1/fleet/rollout", String::new(), json!(null)),
        ("GET", "/v1/fleet/rollouts", String::new(), json!(null)),
        ("GET", "/v1/fleet/holds", String::new(), json!(null)),
        ("GET", "/v1/fleet/counts", String::new(), json!(null)),
        ("POST", "/v1/fleet/commands", String::new(), act.clone()),
        ("POST", "/v1/fleet/commands", String::new(), act),
        ("GET", "/v1/fleet/rollout", String::new(), json!(null)),
        ("GET", "/v1/fleet/hosts", String::new(), json!(null)),
        ("GET", "/v1/fleet/hosts", "?state=nonsense".to_owned(), json!(null)),
        ("GET", "/v1/fleet/hosts/{id}", String::new(), json!(null)),
        ("POST", "/v1/fleet/hosts/{id}", String::new(), json!({"id": uuid(5), "decision": "hold"})),
        ("POST", "/v1/fleet/hosts/{id}", String::new(), json!({"id": uuid(6), "decision": {"assign": null}})),
        ("GET", "/v1/fleet/audit", "?limit=5".to_owned(), json!(null)),
        ("GET", "/v1/fleet/audit/verify", String::new(), json!(null)),
        (
            "POST",
            "/v1/fleet/tokens",
            String::new(),
            json!({"id": uuid(7), "name": "x", "role": "viewer", "expires": null}),
        ),
        ("GET", "/v1/fleet/tokens", String::new(), json!(null)),
        ("DELETE", "/v1/fleet/tokens/{name}", format!("?id={}", uuid(8)), json!(null)),
        ("GET", "/v1/fleet/events", String::new(), json!(null)),
    ]
}

#[test]
fn the_answers_of_a_server_are_as_the_document_says() {
    let api: Value = serde_json::from_str(API).unwrap();
    let dir = dir();
    let server = busy(dir.path());
    let admin = secret(&server, "admin");
    for (method, path, query, body) in questions() {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let header = if path.starts_with("/v1/fleet/") { admin.as_str() } else { "" };
        let (status, text) = request(server.addr, method, &format!("{}{query}", sample(path)), header, &body);
        let responses = &api["paths"][path][method.to_ascii_lowercase()]["responses"];
        let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        let (kind, said) = response["content"].as_object().unwrap().iter().next_back().unwrap();
        let lines: Vec<&str> = if kind == "application/jsonl" { text.lines().collect() } else { vec![&text] };
        for line in lines {
            let json: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{method} {path}: {status} {line}"));
            fits(&json, &said["schema"], &api)
                .unwrap_or_else(|what| panic!("{method} {path}: {status}: {what}: {line}"));
        }
    }
}

/// Whether a value is what a schema says, as far as the document uses JSON Schema; the error says where it is not.
fn fits(value: &Value, schema: &Value, api: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        return fits(value, api.pointer(name.trim_start_matches('#')).ok_or(format!("there is no {name}"))?, api);
    }
    if let Some(ways) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array) {
        let tried: Vec<_> = ways.iter().map(|way| fits(value, way, api)).collect();
        return if tried.iter().any(Result::is_ok) { Ok(()) } else { Err(format!("{tried:?}")) };
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_of = |wanted: &Value| wanted == kind || wanted.as_array().is_some_and(|kinds| kinds.contains(&json!(kind)));
    if schema.get("type").is_some_and(|wanted| !is_of(wanted)) {
        return Err(format!("{value} is not of the type {}", schema["type"]));
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
        return Err(format!("{value} is none of {}", schema["enum"]));
    }
    if schema["format"] == "date-time" && value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_err()) {
        return Err(format!("{value} is no time"));
    }
    for item in value.as_array().into_iter().flatten() {
        fits(item, &schema["items"], api)?;
    }
    let Some(pairs) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !pairs.contains_key(name) {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, value) in pairs {
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => return Err(format!("{name} is not in the document")),
            (Value::Null, Value::Object(_)) => fits(value, &schema["additionalProperties"], api)?,
            (Value::Null, _) => {}
            (said, _) => fits(value, said, api).map_err(|what| format!("{name}: {what}"))?,
        }
    }
    Ok(())
}
