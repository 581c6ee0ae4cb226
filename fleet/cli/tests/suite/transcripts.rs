//! Plays the files of `tests/transcripts`: what the server answers, what is typed, what is printed, and what was asked.
//!
//! * `== name` begins a case. Empty lines and lines that begin with `#` are skipped.
//! * `let NAME VALUE`: a value for the lines below. A value is JSON, a NAME, `NAME + JSON` (with these keys in place of its own), or
//!   `rollout JSON`: a rollout with these `groups`, and these keys in `spec` and `status`. In JSON the text `@NAME` is that value.
//! * `text NAME` begins a text that ends with a line `.`; `stdin NAME`: the next command reads it.
//! * `< VALUE`, `< 404 CODE MESSAGE`, `< raw STATUS BODY`, `< kept KIND NAME REVISION TEXT`: the server's next answer.
//! * `$ words`: the command, at a server of its own that gives the answers above. Below it what is expected: `|lines|` printed, each
//!   as it stands; `out has`, `out lacks`, `line`, `out is empty`; `json is`, `json has` (of objects other keys may be there);
//!   `err` (its lines), `err has`; `status`, which is else 0, with nothing on standard error; `asked METHOD PATH JSON`, each
//!   question in order: `*` in a path is any text, and of texts `{"length": 36}` is one that long,
//!   `{"contains": "…"}` one with that in it, `{"yaml": …}` one that says this.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::support::{Asked, Done, Reply, Server, group, rollout};
use yaml::Node;

#[derive(Default)]
struct Transcript {
    values: BTreeMap<String, Value>,
    /// The text that is being read, by name.
    text: Option<String>,
    input: String,
    replies: Vec<Reply>,
    done: Option<(String, Ran)>,
}

/// A command that was carried out, and what is expected of it.
struct Ran {
    done: Done,
    asked: Vec<Asked>,
    out: Vec<String>,
    err: Vec<String>,
    status: u8,
    is_err_told: bool,
    seen: usize,
}

impl Transcript {
    fn line(&mut self, line: &str) {
        match self.text.take() {
            Some(_) if line == "." => {}
            Some(name) => {
                let value = self.values.entry(name.clone()).or_insert_with(|| "".into());
                *value = format!("{}{line}\n", value.as_str().unwrap()).into();
                self.text = Some(name);
            }
            None if line.is_empty() || line.starts_with('#') => {}
            None => self.instruction(line),
        }
    }

    fn instruction(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "==" => self.end(),
            "let" => {
                self.end();
                let (name, value) = rest.split_once(' ').expect("a name and a value");
                self.values.insert(name.to_owned(), self.value(value));
            }
            "text" => self.text = Some(rest.to_owned()),
            "stdin" => self.input = text(&self.values[rest]),
            "<" => {
                self.end();
                self.replies.push(self.reply(rest));
            }
            "$" => {
                self.end();
                let server = Server::new(std::mem::take(&mut self.replies));
                let words = words(rest);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let done = server.run_with(&words, &std::mem::take(&mut self.input), "false");
                let (out, err) = (Vec::new(), Vec::new());
                let ran = Ran { done, asked: server.asked(), out, err, status: 0, is_err_told: false, seen: 0 };
                self.done = Some((rest.to_owned(), ran));
            }
            _ => self.expect(line),
        }
    }

    fn expect(&mut self, line: &str) {
        let value = |text: &str| self.value(text);
        let json = line.strip_prefix("json is ").or(line.strip_prefix("json has ")).map(value);
        let asked = line.strip_prefix("asked ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>());
        let asked_body = asked.as_ref().and_then(|words| words.get(2)).map(|body| self.value(body));
        let (command, ran) = self.done.as_mut().expect("a command is above");
        let done = &ran.done;
        if let Some(out) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) {
            ran.out.push(format!("{out}\n"));
        } else if let Some(text) = line.strip_prefix("out has ") {
            assert!(done.out.contains(text), "{command}: {text}\n{done:?}");
        } else if let Some(text) = line.strip_prefix("out lacks ") {
            assert!(!done.out.contains(text), "{command}: {text}\n{done:?}");
        } else if let Some(text) = line.strip_prefix("line ") {
            assert!(done.out.lines().any(|line| line == text), "{command}: {text}\n{done:?}");
        } else if line == "out is empty" {
            assert_eq!(done.out, "", "{command}");
        } else if let Some(text) = line.strip_prefix("err has ") {
            ran.is_err_told = true;
            assert!(done.err.contains(text), "{command}: {text}\n{done:?}");
        } else if let Some(text) = line.strip_prefix("err ") {
            ran.is_err_told = true;
            ran.err.push(format!("{text}\n"));
        } else if let Some(text) = line.strip_prefix("status ") {
            ran.status = text.parse().expect("a number");
        } else if let Some(wanted) = json {
            let is_met = if line.starts_with("json is") { done.json() == wanted } else { has(&done.json(), &wanted) };
            assert!(is_met, "{command}: {line}\n{done:?}");
        } else if let Some(words) = asked {
            let found = ran.asked.get(ran.seen).unwrap_or_else(|| panic!("{command}: not asked: {line}"));
            ran.seen += 1;
            let is_path = words[1].split_once('*').map_or(found.path == words[1], |(begin, end)| {
                found.path.starts_with(begin) && found.path.ends_with(end)
            });
            let is_body = asked_body.is_none_or(|body| has(&found.body, &body));
            assert!(found.method == words[0] && is_path && is_body, "{command}: {line}\n{found:?}");
        } else {
            panic!("not understood: {line}");
        }
    }

    /// What is only known when all is read that is expected of a command.
    fn end(&mut self) {
        let Some((command, ran)) = self.done.take() else { return };
        assert_eq!(ran.done.status, ran.status, "{command}: {:?}", ran.done);
        if !ran.out.is_empty() {
            assert_eq!(ran.done.out, ran.out.concat(), "{command}");
        }
        if !ran.err.is_empty() || (ran.status == 0 && !ran.is_err_told) {
            assert_eq!(ran.done.err, ran.err.concat(), "{command}");
        }
        assert!(ran.seen == 0 || ran.seen == ran.asked.len(), "{command}: {:?}", ran.asked);
        // An id is of one change.
        for pair in ran.asked.iter().filter(|asked| asked.body["id"].is_string()).collect::<Vec<_>>().windows(2) {
            let is_same = pair[0].body["text"] == pair[1].body["text"];
            assert!(is_same || pair[0].id() != pair[1].id(), "{command}: {pair:?}");
        }
    }

    fn reply(&self, text: &str) -> Reply {
        if let Some(rest) = text.strip_prefix("raw ") {
            let (status, body) = rest.split_once(' ').unwrap_or((rest, ""));
            return Reply::Answer(status.parse().expect("a status"), body.into());
        }
        if let Some(words) = text.strip_prefix("kept ").map(|rest| rest.split(' ').collect::<Vec<_>>()) {
            let [kind, name, revision, yaml] = words[..] else { panic!("{text}") };
            let yaml = self.values[yaml].as_str().unwrap();
            let json = Node::parse(yaml).unwrap().to_json();
            let kept = json!([{ "kind": kind, "name": name, "revision": revision, "yaml": yaml, "json": json }]);
            return Reply::json(&kept);
        }
        let words: Vec<&str> = text.splitn(3, ' ').collect();
        match (words[0].parse(), words.as_slice()) {
            (Ok(status), [_, code, message]) => Reply::refused(status, code, &message.replace("\\n", "\n")),
            _ => Reply::json(&self.value(text)),
        }
    }

    fn value(&self, text: &str) -> Value {
        if let Some(text) = text.strip_prefix("rollout ") {
            return made(&self.value(text));
        }
        if let Some((name, more)) = text.split_once(" + ") {
            let mut value = self.value(name);
            merge(&mut value, &self.value(more));
            return value;
        }
        let name = text.strip_prefix('@').unwrap_or(text);
        let parsed = || serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        self.values.get(name).cloned().unwrap_or_else(|| self.fill(parsed()))
    }

    /// Puts values where their names are.
    fn fill(&self, value: Value) -> Value {
        match value {
            Value::String(text) if text.starts_with('@') => self.value(&text),
            Value::Array(values) => values.into_iter().map(|value| self.fill(value)).collect(),
            Value::Object(keys) => keys.into_iter().map(|(key, value)| (key, self.fill(value))).collect(),
            other => other,
        }
    }
}

/// A rollout with these groups and keys; a key that is null is left out.
fn made(written: &Value) -> Value {
    let text = |group: &Value, key: &str| group[key].as_str().unwrap_or("x").to_owned();
    let groups = written["groups"].as_array().into_iter().flatten();
    let groups =
        groups.map(|one| group(&text(one, "name"), &text(one, "state"), None, &text(one, "last_update_reason"), one));
    let mut made = rollout("halt-on-error", "active", groups.collect());
    for part in ["spec", "status"] {
        merge(&mut made[part], &written[part]);
    }
    made
}

fn merge(value: &mut Value, more: &Value) {
    let keys = value.as_object_mut().expect("an object");
    for (key, value) in more.as_object().unwrap_or(&Map::new()) {
        if value.is_null() {
            keys.remove(key);
        } else {
            keys.insert(key.clone(), value.clone());
        }
    }
}

/// Words between blanks; those in quotes are one.
fn words(text: &str) -> Vec<String> {
    let parts = text.split('\'').enumerate();
    let of = |(number, part): (usize, &str)| match number % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    };
    parts.flat_map(of).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn has(found: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(keys) if found.is_string() => keys.iter().all(|(what, of)| is_text(&text(found), what, of)),
        Value::Object(keys) => {
            found.is_object() && keys.iter().all(|(key, wanted)| found.get(key).is_some_and(|found| has(found, wanted)))
        }
        Value::Array(wanted) => {
            let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| has(found, wanted))
        }
        wanted => found == wanted,
    }
}

fn is_text(found: &str, what: &str, of: &Value) -> bool {
    match what {
        "length" => json!(found.len()) == *of,
        "contains" => found.contains(&text(of)),
        "yaml" => Node::parse(found).unwrap().to_json() == *of,
        _ => panic!("not understood: {what}"),
    }
}

/// The case that failed is the last one that was printed.
#[test]
fn every_transcript_is_true() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
    let mut commands = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        println!("{}", file.display());
        let mut transcript = Transcript::default();
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            if line.starts_with("== ") {
                println!("{line}");
            }
            commands += usize::from(line.starts_with("$ "));
            transcript.line(line);
        }
        transcript.end();
    }
    assert!(commands > 80, "only {commands}");
}
