//! What the pages about the rollout server say is what the server reads and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use fleet_wire::api::host_states;

use crate::support::{SOON, Server, dir, groups, program, request, version};

const RESOURCES: &str = include_str!("../../../../docs/fleet-resources.md");
const ROLLOUTS: &str = include_str!("../../../../docs/rollouts.md");
const OPERATIONS: &str = include_str!("../../../../docs/fleet-operations.md");
const RUNBOOK: &str = include_str!("../../../../docs/fleet-runbook.md");
const SECURITY: &str = include_str!("../../../../docs/fleet-security.md");
const API_PAGE: &str = include_str!("../../../../docs/fleet-api.md");
const DIRECTIVES: &str = include_str!("../../../../docs/directives.md");
const PAGES: [(&str, &str); 7] = [
    ("directives.md", DIRECTIVES),
    ("rollouts.md", ROLLOUTS),
    ("fleet-operations.md", OPERATIONS),
    ("fleet-runbook.md", RUNBOOK),
    ("fleet-resources.md", RESOURCES),
    ("fleet-api.md", API_PAGE),
    ("fleet-security.md", SECURITY),
];

/// The part of a page below a heading, up to the next one.
fn section(page: &'static str, heading: &str) -> &'static str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let ends = ["\n# ", "\n## ", "\n### "].iter().filter_map(|mark| rest.find(mark));
    &rest[..ends.min().unwrap_or(rest.len())]
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

/// The page's commands, as they are printed.
#[test]
fn the_page_leads_from_a_draft_to_an_active_directive() {
    let dir = dir();
    let server = Server::start(dir.path());
    let mut blocks = DIRECTIVES.split("\n```yaml\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0);
    for (name, text) in [
        ("control.yaml", blocks.next().unwrap().to_owned()),
        ("directive.yaml", blocks.next().unwrap().to_owned()),
        ("annas-token", server.token("anna", "operator")),
        ("berts-token", server.token("bert", "operator")),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let block = DIRECTIVES.split_once("```sh directives\n").unwrap().1.split_once("```").unwrap().0;
    let bin = Path::new(env!("CARGO_BIN_EXE_teleport-fleet")).parent().unwrap();
    let mut bash = std::process::Command::new("bash");
    bash.args(["-euc", block]).current_dir(dir.path()).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    bash.env("TELEPORT_FLEET_SERVER", format!("http://{}", server.addr))
        .env("TELEPORT_FLEET_TOKEN_FILE", "annas-token");
    let output = bash.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && stdout.contains("\ncreated version-directive/"), "{output:?}");
    assert!(server.ok(&["get", "version-directive"]).contains("3.2.1"));
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
    let dir = dir();
    let api = Server::start(dir.path()).json(DOCUMENT);
    let texts = |pointer: &str| -> BTreeSet<String> {
        let listed = api.pointer(pointer).unwrap().as_array().unwrap().iter();
        listed.map(|word| word.get("const").unwrap_or(word).as_str().unwrap().to_owned()).collect()
    };
    let codes = texts("/components/schemas/FindReason/properties/code/enum");
    assert!(codes.len() > 30, "{codes:?}");
    let listed = explained(&["## Groups", "## Hosts"]);
    let missing: Vec<_> = codes.difference(&listed).collect();
    assert!(missing.is_empty(), "docs/fleet-runbook.md does not say what to do about {missing:?}");
    let states = host_states();
    let surplus: Vec<_> = listed.difference(&codes).filter(|code| !states.contains(&code.as_str())).collect();
    assert!(surplus.is_empty(), "docs/fleet-runbook.md explains {surplus:?}, which the engine does not say");
    let rules = texts("/components/schemas/HaltRule/oneOf");
    assert_eq!(explained(&["## Halts"]), rules, "docs/fleet-runbook.md, Halts");
}

#[test]
fn every_test_that_the_page_about_security_names_exists() {
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders = ["server", "simulator", "store"].map(|room| fleet.join(room).join("tests/suite")).to_vec();
    folders.extend(["simulator/tests/scenarios", "server/tests/transcripts"].map(|folder| fleet.join(folder)));
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
        let case = test.replace('_', " ");
        let marks = [format!("\nfn {test}()"), format!("\"case\": \"{case}\""), format!("\n== {case}\n")];
        let is_there = sources.get(file).is_some_and(|source| marks.iter().any(|mark| source.contains(mark)));
        assert!(is_there, "docs/fleet-security.md names {span}, which is no test");
        named += 1;
    }
    assert!(named >= 25, "only {named} tests are named in docs/fleet-security.md");
}

#[test]
fn every_code_of_an_error_is_on_its_page() {
    for code in fleet_wire::api::Code::ALL {
        let row = format!("| `{}` | {} |", json!(code).as_str().unwrap(), code.status());
        assert!(API_PAGE.contains(&row), "docs/fleet-api.md has no row {row}");
    }
}

/// Where the server gives its document.
pub(crate) const DOCUMENT: &str = "/v1/openapi.json";

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
    let dir = dir();
    let api = Server::start(dir.path()).json(DOCUMENT);
    let written: BTreeSet<(String, String)> =
        operations(&api).into_iter().map(|(path, method, _)| (path, method)).collect();
    let routes = routes("routes");
    assert!(routes.len() > 25, "{routes:?}");
    let missing: Vec<_> = routes.difference(&written).collect();
    let surplus: Vec<_> = written.difference(&routes).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "it lacks {missing:?}, and has {surplus:?} too many");
    for (path, _) in written {
        assert!(API_PAGE.contains(&format!("`{path}")), "docs/fleet-api.md does not name {path}");
    }
}

const HOST: &str = "11111111-2222-4333-8444-555555555555";

/// A path of the document with names of what there is.
pub(crate) fn sample(path: &str) -> String {
    let path = path.replace("{kind}", "autoupdate_config").replace("{name}", "autoupdate-config");
    path.replace("{from}", "static").replace("{id}", HOST).replace("{channel}", "dev")
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
    let dir = dir();
    let server = busy(dir.path());
    let api = server.json(DOCUMENT);
    let roles = ["controller", "viewer", "operator", "admin"];
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
            let is_enough = at >= needed || said["x-also"] == roles[at];
            assert_eq!(status != 403, is_enough, "{method} {path} by a {}: {status} {body}", roles[at]);
            let is_there = status != 405 && !body.contains("there is nothing at this path");
            assert!(is_there, "{method} {path}: {status} {body}");
        }
    }
}

/// Where no version of agents is written, it would let the hosts of `dev` go.
const DIRECTIVE: &str = "kind: version-directive\nspec: {directives: [{name: all, selectors: [{group: dev}], targets: [{version: 1.1.0}]}]}";

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
        ("GET", "/v1/openapi.json", String::new(), json!(null)),
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
        ("PUT", "/v1/fleet/drafts/{from}/{name}", String::new(), json!({"id": uuid(20), "text": DIRECTIVE})),
        ("GET", "/v1/fleet/drafts/{from}/{name}", String::new(), json!(null)),
        ("GET", "/v1/fleet/drafts", String::new(), json!(null)),
        ("POST", "/v1/fleet/directive-plans", String::new(), json!({"id": HOST, "text": DIRECTIVE})),
        ("GET", "/v1/fleet/directive-plans/{id}", String::new(), json!(null)),
        ("GET", "/v1/fleet/directive-plans", String::new(), json!(null)),
        ("POST", "/v1/fleet/directive-plans/{id}/review", String::new(), json!({"id": uuid(21), "approve": true})),
        ("POST", "/v1/fleet/directive-plans/{id}/dry-run", String::new(), json!({"id": uuid(23)})),
        ("POST", "/v1/fleet/directive-plans/{id}/apply", String::new(), json!({"id": uuid(22), "dry_run": true})),
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
    let dir = dir();
    let server = busy(dir.path());
    let api = server.json(DOCUMENT);
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

/// Whether a value is what a schema says, and has no key that it does not name; the error says where it is not.
fn fits(value: &Value, schema: &Value, api: &Value) -> Result<(), String> {
    let said = said(value, schema, api)?;
    let surplus = value.as_object().into_iter().flat_map(|pairs| pairs.keys()).find(|name| !said.contains(*name));
    surplus.map_or(Ok(()), |name| Err(format!("{name} is not in the document")))
}

/// The keys of a value that is what a schema says, as far as the document uses JSON Schema.
fn said(value: &Value, schema: &Value, api: &Value) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    if let Some(name) = schema["$ref"].as_str() {
        names = said(value, api.pointer(name.trim_start_matches('#')).ok_or(format!("there is no {name}"))?, api)?;
    }
    if let Some(ways) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array) {
        let tried: Vec<_> = ways.iter().map(|way| said(value, way, api)).collect();
        let fitting = tried.iter().flatten().next().ok_or_else(|| format!("{tried:?}"))?;
        names.extend(fitting.clone());
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
    let is_another = schema.get("const").is_some_and(|only| only != value);
    if is_another || schema["enum"].as_array().is_some_and(|known| !value.is_null() && !known.contains(value)) {
        return Err(format!("{value} is none of {schema}"));
    }
    if schema["format"] == "date-time" && value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_err()) {
        return Err(format!("{value} is no time"));
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        fits(item, schema["prefixItems"].get(at).unwrap_or(&schema["items"]), api)?;
    }
    let Some(pairs) = value.as_object() else { return Ok(names) };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !pairs.contains_key(name) {
            return Err(format!("{name} is missing"));
        }
    }
    let is_open = ["$ref", "oneOf", "anyOf", "properties"].iter().all(|key| schema.get(key).is_none());
    for (name, value) in pairs {
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Null | Value::Bool(false)) if !is_open => continue,
            (Value::Null, more) => fits(value, more, api)?,
            (said, _) => fits(value, said, api).map_err(|what| format!("{name}: {what}"))?,
        }
        names.insert(name.clone());
    }
    Ok(names)
}
