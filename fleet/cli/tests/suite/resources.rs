//! `get`, `create`, `update`, `edit`, `rm`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Done, Reply, Server};
use serde_json::{Value, json};
use yaml::Node;

const CONFIG: &str = "\
kind: autoupdate_config
version: v1
metadata:
  name: autoupdate-config
spec:
  agents:
    # careful
    mode: enabled
    strategy: halt-on-error
";

fn kept(name: &str, yaml: &str) -> Value {
    json!({ "kind": "autoupdate_config", "name": name, "revision": "r7", "yaml": yaml,
        "json": Node::parse(yaml).unwrap().to_json() })
}

fn written() -> Reply {
    Reply::json(&json!({
        "changed": [{ "kind": "autoupdate_config", "name": "autoupdate-config", "revision": "r8", "was_there": true,
            "takes": "next_rollout" }],
        "effects": { "lets_go": 12, "goes_down": 0, "halted_before": false },
    }))
}

const WRITTEN: &str = "updated autoupdate_config/autoupdate-config, takes effect with the next rollout; 12 hosts may update now, 0 downgrade\n";

#[test]
fn what_is_written_says_when_it_acts_and_on_how_many_hosts() {
    let server = Server::new([written(), written()]);
    let file = server.directory.path().join("config.yaml");
    fs::write(&file, CONFIG).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(server.run(&["create", "--force", "-f", file]), Done::ok(WRITTEN));
    assert_eq!(server.run_with(&["update", "-f", "-", "--dry-run"], CONFIG, "").out, format!("would be {WRITTEN}"));
    let asked = server.asked();
    assert_eq!((&asked[0].body["how"], &asked[0].body["dry_run"]), (&json!("replace"), &json!(false)));
    assert_eq!((&asked[1].body["how"], &asked[1].body["dry_run"]), (&json!("update"), &json!(true)));
    assert!(asked.iter().all(|asked| asked.body["text"] == CONFIG));
}

#[test]
fn a_file_that_is_too_large_is_said_before_anything_is_sent() {
    let server = Server::new([]);
    let large = "#".repeat((1 << 20) + 1);
    let done = server.run_with(&["create", "-f", "-"], &large, "");
    assert!(done.err.contains("larger than 1048576 bytes"), "{}", done.err);
    assert_eq!(done.status, 1);
}

fn left(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(server.directory.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name != "admin.sock").collect()
}

#[test]
fn an_edit_that_changes_nothing_writes_nothing() {
    let server = Server::new([Reply::json(&json!([kept("autoupdate-config", CONFIG)]))]);
    let done = server.run_with(&["edit", "autoupdate_config"], "", "true");
    assert_eq!(done, Done::ok("autoupdate_config/autoupdate-config: nothing was changed\n"));
    assert_eq!(server.asked().len(), 1);
    assert!(left(&server).is_empty());
}

#[test]
fn an_edit_writes_the_text_with_the_revision_that_was_read() {
    // With its revision line left alone, and with it deleted.
    for more in ["", "; sed -i /revision/d"] {
        let server = Server::new([Reply::json(&json!([kept("autoupdate-config", CONFIG)])), written()]);
        let editor = format!(
            "edit() {{ sed -i 's/mode: enabled/mode: suspended/' \"$1\"{}; }}; edit",
            if more.is_empty() { String::new() } else { format!("{more} \"$1\"") }
        );
        assert_eq!(server.run_with(&["edit", "autoupdate_config"], "", &editor), Done::ok(WRITTEN));
        let body = server.asked()[1].body.clone();
        let text = Node::parse(body["text"].as_str().unwrap()).unwrap().to_json();
        assert_eq!(body["how"], "update");
        assert_eq!(text["metadata"]["revision"], "r7");
        assert_eq!(text["spec"]["agents"]["mode"], "suspended");
        assert!(body["text"].as_str().unwrap().contains("# careful"));
        assert!(left(&server).is_empty());
    }
}

#[test]
fn what_is_refused_is_kept_for_its_writer_alone() {
    let stale = Reply::refused(409, "stale_revision", "it was changed since it was read");
    let server = Server::new([Reply::json(&json!([kept("autoupdate-config", CONFIG)])), stale]);
    let done = server.run_with(&["edit", "autoupdate_config"], "", "echo '# mine' >>");
    assert_eq!(done.status, 1);
    let left = left(&server);
    let [name] = left.as_slice() else { panic!("{left:?}") };
    let path = server.directory.path().join(name);
    assert!(done.err.contains("it was changed since it was read"), "{}", done.err);
    assert!(done.err.contains(&format!("teleport-fleet update -f {}", path.display())), "{}", done.err);
    assert!(fs::read_to_string(&path).unwrap().ends_with("# mine\n"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_editor_that_fails_changes_nothing() {
    let server = Server::new([Reply::json(&json!([kept("autoupdate-config", CONFIG)]))]);
    let done = server.run_with(&["edit", "autoupdate_config"], "", "false");
    assert_eq!(done.status, 1);
    assert!(done.err.contains("nothing was changed"), "{}", done.err);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn several_files_are_one_change_and_advice_names_its_file() {
    let advice = json!([{ "kind": "autoupdate_version", "name": "n", "line": 9, "key": "spec.x", "code": "unwise",
        "what": "is unwise", "advice": "do better" }]);
    let answer = Reply::json(&json!({
        "changed": [], "effects": { "lets_go": 0, "goes_down": 0, "halted_before": false }, "advice": advice,
    }));
    let server = Server::new([answer]);
    let (first, second) = (server.directory.path().join("a.yaml"), server.directory.path().join("b.yaml"));
    fs::write(&first, "kind: a\n# 2\n# 3\n").unwrap();
    fs::write(&second, "kind: b\n").unwrap();
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    let done = server.run(&["create", "-f", first, second]);
    let text = server.asked()[0].body["text"].as_str().unwrap().to_owned();
    let before = text[..text.find("kind: b").unwrap()].matches('\n').count();
    // Those with `-f` come first.
    let (name, line) = (second, 9 - before);
    assert!(
        done.out.contains(&format!("advice: {name}: line {line}: spec.x: is unwise: do better [unwise]\n")),
        "{}",
        done.out
    );
    assert_eq!(Node::parse_all(&text).unwrap().len(), 2);
}

#[test]
fn what_stands_in_two_files_is_said_with_both_and_their_own_lines() {
    let server = Server::new([Reply::refused(400, "bad_resource", "line 9: whatever the whole has")]);
    let (first, second) = (server.directory.path().join("a.yaml"), server.directory.path().join("b.yaml"));
    let version = "kind: autoupdate_version\nspec: {agent_version: 17.3.0}\n";
    fs::write(&first, format!("# 1\n# 2\n{version}")).unwrap();
    fs::write(&second, format!("# 1\n{version}")).unwrap();
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    let done = server.run(&["create", "-f", first, "-f", second]);
    assert_eq!(done.status, 1);
    let said = format!(
        "{second}: line 2: metadata.name: autoupdate_version autoupdate-version stands in line 3 of {first} as well\n"
    );
    assert!(done.err.ends_with(&said), "{}", done.err);
}
