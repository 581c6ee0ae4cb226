//! What somebody without a token and a session is told: by every route that the source has.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::docs::{routes, sample};
use crate::reports::host::{Host, epoch};
use crate::support::visitor::{Answer, Visitor};
use crate::support::{Server, dir, groups, version};

/// Methods that are tried on every path.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"];
/// What nobody is who guesses.
const GUESSES: [&str; 5] = [
    "",
    "authorization: Bearer tfleet_guess\r\n",
    "authorization: Basic cm9vdDo=\r\n",
    "cookie: fleet=0000000000000000000000000000000000000000000000000000000000000000\r\n",
    "cookie: __Host-fleet=0000000000000000000000000000000000000000000000000000000000000000\r\n",
];
/// What only hosts and operators said here: no stranger is told any of it.
const SECRETS: [&str; 8] = [
    "7.7.7",
    "secret-label",
    "secret-kernel",
    "secret_code",
    "secret-error",
    "secret-token",
    "secret-group",
    "22222222-2222-4222-8222-222222222222",
];

/// What a page may load, and where its forms may go.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A server with a halted group, and hosts that reported what is secret.
fn server(dir: &Path) -> (Server, Host) {
    let server = Server::with(dir, &["--plain", "--public-addr", "fleet.example.com"]);
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    server.ok(&["tokens", "create", "secret-token", "--role", "viewer"]);
    let epoch = epoch(&server);
    let host = Host::new(1, "dev");
    for host in [&host, &Host::new(2, "dev"), &Host::new(3, "secret-group")] {
        let mut report = host.says(epoch, "7.7.7", None);
        report["update_id"] = "22222222-2222-4222-8222-222222222222".into();
        report["kernel"] = "secret-kernel".into();
        report["labels"] = json!({ "env": "secret-label" });
        assert_eq!(host.sends(server.addr, &report).0, 200);
    }
    server.agents(&["start-update", "dev"]);
    server.until("its turn has come", || host.asks(&server, Some(epoch)).1);
    let mut failed = host.says(epoch, "7.7.7", Some(("rolled_back", "1.1.0", "secret_code")));
    failed["last"]["error"] = "secret-error".into();
    assert_eq!(host.sends(server.addr, &failed).0, 200);
    server.until("the group halts", || server.json("/v1/webapi/find?group=dev")["fleet"]["why"]["code"] == "halted");
    (server, host)
}

/// Every path of the source, with names of what there is; and whether it is a page's.
fn paths() -> BTreeSet<(String, bool)> {
    let of = |folder: &str, is_page: bool| {
        let paths = routes(folder).into_iter().map(|(path, _)| path);
        paths.map(move |path| (sample(&path), is_page)).collect::<Vec<_>>()
    };
    of("routes", false).into_iter().chain(of("pages", true)).collect()
}

/// Numbers of hosts have such names in what operators are told.
fn has_count(value: &Value) -> bool {
    match value {
        Value::Object(pairs) => pairs.iter().any(|(key, value)| key.contains("count") || has_count(value)),
        Value::Array(items) => items.iter().any(has_count),
        _ => false,
    }
}

#[test]
fn without_a_token_or_a_session_no_route_says_anything_of_hosts_or_operators() {
    let dir = dir();
    let (server, host) = server(dir.path());
    let stranger = Visitor::new(&server);
    let mut asked = 0;
    for (path, is_page) in paths() {
        // The names of a host and of its group are known to whoever asks in its name; what it runs is not.
        for query in ["", "?id=00000000-0000-4000-8000-000000000001", &format!("?host={}&group=dev", host.id)] {
            for (method, guess) in METHODS.iter().flat_map(|method| GUESSES.map(|guess| (*method, guess))) {
                let body = if method == "POST" { "{}" } else { "" };
                let answer = stranger.ask(method, &format!("{path}{query}"), guess, body);
                let what = format!("{method} {path}{query} {guess:?}: {answer:?}");
                says_nothing(&answer, &what);
                let is_open = path.starts_with("/login") || path.ends_with(".css") || path.ends_with(".js");
                if path.starts_with("/v1/fleet/") {
                    assert!(matches!(answer.status, 401 | 405), "{what}");
                    let is_said = answer.body.contains("\"unauthenticated\"");
                    assert!(is_said || answer.status == 405 || method == "HEAD", "{what}");
                } else if is_page && !is_open {
                    assert!(matches!(answer.status, 303 | 405), "{what}");
                    assert!(answer.status == 405 || answer.body.is_empty(), "{what}");
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 2000, "only {asked}");
}

#[track_caller]
fn says_nothing(answer: &Answer, what: &str) {
    for secret in SECRETS {
        assert!(!answer.body.contains(secret) && !answer.head.contains(secret), "{secret}: {what}");
    }
    let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    // The document names them, and is the same for everybody.
    assert!(json["openapi"].is_string() || !has_count(&json), "{what}");
    assert!(answer.header("set-cookie").is_none(), "{what}");
}

#[test]
fn what_reaches_no_route_says_nothing_either_and_metrics_have_a_listener_of_their_own() {
    let dir = dir();
    let (server, _) = server(dir.path());
    let stranger = Visitor::new(&server);
    for path in
        ["/metrics", "/v1/fleet", "/v1/fleet/", "/v1/fleet/nothing", "/hosts/", "/nothing", "/.git/config", "/v1"]
    {
        let answer = stranger.get(path);
        says_nothing(&answer, path);
        assert!(matches!(answer.status, 303 | 404), "{path}: {answer:?}");
        assert!(answer.body.starts_with('{') || answer.header("content-security-policy") == Some(POLICY), "{answer:?}");
    }
}

#[test]
fn every_answer_of_every_page_forbids_inline_code_and_has_none() {
    let dir = dir();
    let (server, host) = server(dir.path());
    let operator = &server.token("o", "operator");
    let (stranger, operator) = (Visitor::new(&server), Visitor::with(&server, operator));
    let mut pages = 0;
    let nowhere = ["/hosts/x", "/groups/none"].map(|path| (path.to_owned(), true));
    for (path, _) in paths().into_iter().chain(nowhere).filter(|(_, is_page)| *is_page) {
        // A stream has no end.
        if path == "/events" || path.ends_with(".css") || path.ends_with(".js") {
            continue;
        }
        let path = path.replace("/groups/autoupdate-config", "/groups/dev");
        for visitor in [&stranger, &operator] {
            let of_host = path.replace("11111111-2222-4333-8444-555555555555", &host.id);
            for answer in [visitor.get(&path), visitor.get(&of_host), visitor.post(&path, &[("do", "halt")])] {
                if answer.status == 405 {
                    continue;
                }
                for (name, value) in [
                    ("content-security-policy", POLICY),
                    ("cache-control", "no-store"),
                    ("x-content-type-options", "nosniff"),
                ] {
                    assert_eq!(answer.header(name), Some(value), "{path}: {answer:?}");
                }
                no_inline_code(&answer.body, &path);
                pages += 1;
            }
        }
    }
    assert!(pages > 40, "only {pages}");
}

/// Scripts and styles are files of their own: with this policy a browser would take no others.
#[track_caller]
fn no_inline_code(html: &str, path: &str) {
    for script in html.split("<script").skip(1) {
        let (tag, rest) = script.split_once('>').unwrap();
        assert!(tag.contains(" src=\"/") && rest.starts_with("</script>"), "{path}: <script{tag}>");
    }
    for tag in html.split('<').skip(1).filter_map(|tag| tag.split('>').next()) {
        let names = tag.split(' ').skip(1).filter_map(|part| part.split_once('=')).map(|(name, _)| name);
        for name in names {
            assert!(name != "style" && !name.starts_with("on"), "{path}: <{tag}>");
        }
        assert!(!tag.starts_with("style") && !tag.contains("javascript:"), "{path}: <{tag}>");
    }
}
