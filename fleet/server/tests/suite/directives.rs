//! What somebody may try with drafts and plans: a controller on every path, texts of a MiB, more plans than there is room for.

use serde_json::{Value, json};

use crate::docs::{DOCUMENT, sample};
use crate::support::visitor::Visitor;
use crate::support::{Server, exchange, start};

/// What a controller's token is for; of a draft its own.
const OPEN: [(&str, &str); 4] = [
    ("get", "/v1/fleet/drafts"),
    ("get", "/v1/fleet/drafts/{from}/{name}"),
    ("put", "/v1/fleet/drafts/{from}/{name}"),
    ("get", "/v1/fleet/hosts"),
];

fn header(server: &Server, name: &str, role: &str) -> String {
    format!("authorization: Bearer {}\r\n", server.token(name, role))
}

fn uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn ask(server: &Server, (method, path): (&str, &str), header: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, _, answer) = exchange(server.addr, method, path, header, &body);
    (status, serde_json::from_str(&answer).unwrap_or_default())
}

/// A directive of this version, with `more` in its only entry.
fn directive(version: &str, more: &str) -> String {
    format!(
        "kind: version-directive\nspec: {{directives: [{{name: all, selectors: [{{group: dev}}], targets: [{{version: \
         {version}}}]{more}}}]}}\n"
    )
}

#[test]
fn a_controllers_token_opens_its_draft_the_drafts_and_the_list_of_hosts_and_nothing_else() {
    let (_dir, server) = start();
    let secret = server.token("ctl", "controller");
    let bearer = format!("authorization: Bearer {secret}\r\n");
    let api = server.json(DOCUMENT);
    let mut asked = (0, 0);
    for (path, methods) in api["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/v1/fleet/")) {
        for method in methods.as_object().unwrap().keys() {
            let body = match method.as_str() {
                "get" | "delete" => Value::Null,
                _ => json!({ "id": uuid(asked.0 + 1), "text": directive("1.1.0", "") }),
            };
            let query = if method == "delete" { format!("?id={}", uuid(99)) } else { String::new() };
            let asks = (method.to_uppercase(), format!("{}{query}", sample(path)));
            let (status, answer) = ask(&server, (&asks.0, &asks.1), &bearer, &body);
            if OPEN.contains(&(method, path)) {
                assert!(status == 200 || status == 404, "{method} {path}: {status} {answer}");
                asked.1 += 1;
            } else {
                assert_eq!((status, &answer["error"]["code"]), (403, &json!("forbidden")), "{method} {path}: {answer}");
            }
            asked.0 += 1;
        }
    }
    assert!(asked.0 > 30 && asked.1 == OPEN.len(), "{asked:?}");
    let own = ("PUT", "/v1/fleet/drafts/static/autoupdate-config");
    assert_eq!(ask(&server, own, &bearer, &json!({ "id": uuid(200), "text": directive("1.1.0", "") })).0, 200);
    // No page is for it either.
    let stranger = Visitor::new(&server);
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    let login = stranger.ask("POST", "/login", form, &format!("token={secret}"));
    assert_eq!(login.status, 401, "{login:?}");
    assert!(login.header("set-cookie").is_none());
}

#[test]
fn a_draft_of_a_mebibyte_is_taken_or_refused_and_the_server_goes_on() {
    let (dir, server) = start();
    let (bearer, operator) = (header(&server, "ctl", "controller"), header(&server, "acts", "operator"));
    let place = ("PUT", "/v1/fleet/drafts/big/one");
    let draft = |server: &Server, number: usize, text: &str| {
        let (status, answer) = ask(server, place, &bearer, &json!({ "id": uuid(number), "text": text }));
        let code = answer["error"]["code"].as_str().unwrap_or_default().to_owned();
        (status, code, answer.to_string().chars().take(300).collect::<String>())
    };
    let selector = |length: usize, at: usize| format!("      - labels: {{k{at}: '{}'}}\n", "x".repeat(length));
    let entries = |length: usize| {
        let entry = |number: usize| {
            let selectors: String = (0..50).map(|at| selector(length, at)).collect();
            format!("  - name: g{number}\n    targets: [{{version: 1.1.0}}]\n    selectors:\n{selectors}")
        };
        format!("kind: version-directive\nspec:\n  directives:\n{}", (0..50).map(entry).collect::<String>())
    };
    // As many selectors as there may be, with long words.
    let big = entries(365);
    assert!(big.len() > 900 << 10, "{}", big.len());
    let (status, _, told) = draft(&server, 1, &big);
    assert_eq!(status, 200, "{told}");
    let (status, plan) =
        ask(&server, ("POST", "/v1/fleet/directive-plans"), &operator, &json!({ "id": uuid(2), "draft": "big/one" }));
    assert_eq!((status, &plan["effects"]["entries"][49]["name"]), (200, &json!("g49")));
    // More than that, in bytes and in number, and what is nested.
    let many = directive("1.1.0", "").replace("[{group: dev}]", &format!("[{}]", "{group: x},".repeat(70_000)));
    let nested = directive("1.1.0", "").replace("{group: dev}", &"[".repeat(500_000));
    let bomb = format!("a: &a [{}]\nb: &b [{}]\n{}", "x,".repeat(99), "*a,".repeat(99), directive("1.1.0", ""));
    for (number, text, wanted) in [
        (2, entries(395), (413, "too_large")),
        (3, "#".repeat((1 << 20) + 1), (413, "too_large")),
        (4, format!("{}{}", directive("1.1.0", ""), "#".repeat(1 << 20)), (413, "too_large")),
        (5, many, (400, "bad_resource")),
        (6, nested, (400, "bad_resource")),
        (7, bomb, (400, "bad_resource")),
        (8, directive("1.1.0", "").repeat(2).replace("}\nkind", "}\n---\nkind"), (400, "bad_resource")),
        (9, String::new(), (400, "bad_resource")),
    ] {
        let (status, code, told) = draft(&server, number, &text);
        assert_eq!((status, code.as_str()), wanted, "{number}: {told}");
    }
    // What the store keeps can be read again.
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    let told = server.ok(&["drafts"]);
    assert!(told.contains("big/one"), "{told}");
}

#[test]
fn of_a_hundred_plans_one_that_is_over_gives_way_and_drafts_give_none() {
    let (_dir, server) = start();
    let operator = header(&server, "acts", "operator");
    let plans = ("POST", "/v1/fleet/directive-plans");
    let plan =
        |number: usize| ask(&server, plans, &operator, &json!({ "id": uuid(number), "text": directive("1.1.0", "") }));
    for number in 1..=100 {
        assert_eq!(plan(number).0, 200);
        let draft = format!("/v1/fleet/drafts/d/{number}");
        let text = json!({ "id": uuid(1000 + number), "text": directive("1.1.0", "") });
        assert_eq!(ask(&server, ("PUT", &draft), &operator, &text).0, 200);
    }
    let text = json!({ "id": uuid(2000), "text": directive("1.1.0", "") });
    assert_eq!(ask(&server, ("PUT", "/v1/fleet/drafts/d/more"), &operator, &text).0, 409);
    assert_eq!(plan(101).0, 409);
    server.ok(&["version-control", "review", &uuid(50), "--deny"]);
    assert_eq!(plan(102).0, 200);
    let (_, all) = ask(&server, ("GET", "/v1/fleet/directive-plans"), &operator, &Value::Null);
    let ids: Vec<&str> = all.as_array().unwrap().iter().map(|plan| plan["id"].as_str().unwrap()).collect();
    assert!(ids.len() == 100 && !ids.contains(&uuid(50).as_str()) && ids.contains(&uuid(1).as_str()), "{ids:?}");
}
