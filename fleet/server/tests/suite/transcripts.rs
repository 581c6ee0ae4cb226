//! Plays the files of `tests/transcripts`: what is done to a server, line for line, and what must be seen then.
//!
//! `== name` begins a case with a server of its own; `#` begins a comment. A line at the margin is a step, what is expected of it is
//! indented below it. Words are separated by blanks, those in `'…'` are one. `{NAME}` is a value; there are `{DIR}`, the directory of
//! the case, and `{ID}`, another UUID for each step.
//!
//! * `serve WORDS`: starts the server with these words, `stop` and `kill` end it. Without `serve` it runs from the beginning. `serving WORDS`:
//!   starts one that ends, with the configuration below.
//! * `rolls NAMES`: writes these groups, none of which starts by itself, and a version: a rollout from 1.0.0 to 1.1.0.
//! * TEXT is made by `groups NAMES`, `version START TARGET SCHEDULE`, the name of one that is kept, or lines that begin with `|` below the
//!   step; `with 'this' 'that'` behind it puts that in place of this; `and TEXT` adds a document.
//! * `write TEXT`: writes resources; `file NAME TEXT` a file. `let NAME TEXT` keeps one, and as `{NAME.json}` how JSON writes it;
//!   `token NAME ROLE` the secret of a new token.
//! * `$ WORDS`, `$ WORDS < TEXT`: the command line at this server. `offline WORDS`: without any.
//! * `GET PATH`, `POST PATH JSON` and others, `as TOKEN` or `with 'HEADER'` behind the path. `visit PATH as TOKEN`, `form PATH as TOKEN NAME=VALUE…`: with
//!   a browser that is logged in; `send as TOKEN`: the form of the last page that asked.
//! * `host NAME NUMBER GROUP KEY`: a host, whose id is `{NAME}`, and its key `{NAME.key}`, which begins with `{NAME.begin}`; `report NAME VERSION OUTCOME TARGET CODE`, `named NAME HOSTNAME`, `again NAME` (the last report), `join NAME VERSION SECRET`, `ask NAME`, `ask NAME
//!   signed`: what it does.
//! * `group NAME`, `records ACTION`, `metrics`, `log`, `database`: looks.
//! * `until STEP`: the same again until it is as expected.
//!
//! Expected is success, unless there is `status`. Of what is printed, of errors where there is one, or of an answer's body: `has`, `lacks`,
//! `begins`, `is` (a text), `line` (one of its lines is this), `row` (the number of a line, its beginning, and behind `*` what else is in
//! it), `lines` (how many), `count` (how often a text), `order` (one tag before another), `printable` (no control characters). As JSON, behind a pointer only what is there:
//! `json` (of objects other keys may be there), `some` (of how many of a list it is true; at least one), `last`, `length`; `code` of a
//! refusal, with its status; `header`. `keep NAME POINTER` keeps what is there, `keep NAME` the text.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::reports::host::{Host, epoch};
use crate::support::visitor::{Answer, Visitor};
use crate::support::{SOON, Server, dir, exchange, groups, program, version};

/// Cases that are played at the same time.
const AT_ONCE: usize = 8;

/// A line at the margin, and those below it.
struct Step<'a> {
    line: &'a str,
    text: String,
    expected: Vec<&'a str>,
}

struct Stage {
    dir: TempDir,
    server: Option<Server>,
    values: BTreeMap<String, String>,
    hosts: BTreeMap<String, Host>,
    cookies: BTreeMap<String, Option<String>>,
    form: Vec<(String, String)>,
    answer: Answer,
    /// The last one that was sent.
    report: Value,
    has_begun: bool,
}

/// Words between blanks; those in quotes are one.
fn words(text: &str) -> Vec<&str> {
    let of = |(number, part)| if number % 2 == 0 { str::split_whitespace(part).collect() } else { vec![part] };
    text.split('\'').enumerate().flat_map(of).collect()
}

fn steps<'a>(lines: &[&'a str]) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    for line in lines {
        match (line.strip_prefix("  "), steps.last_mut()) {
            (Some(below), Some(step)) => match below.strip_prefix('|') {
                Some(text) => step.text += &format!("{text}\n"),
                None => step.expected.push(below),
            },
            _ => steps.push(Step { line, text: String::new(), expected: Vec::new() }),
        }
    }
    steps
}

impl Stage {
    fn new() -> Self {
        let dir = dir();
        let values = BTreeMap::from([("DIR".to_owned(), dir.path().display().to_string())]);
        let answer = Answer { status: 200, head: String::new(), body: String::new() };
        let (hosts, cookies, form) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { dir, server: None, values, hosts, cookies, form, answer, report: Value::Null, has_begun: false }
    }

    fn play(&mut self, step: &Step<'_>) {
        self.values.insert("ID".to_owned(), uuid::Uuid::new_v4().to_string());
        let end = Instant::now() + SOON;
        let (is_repeated, line) = step.line.strip_prefix("until ").map_or((false, step.line), |line| (true, line));
        let (line, text) = (self.fill(line), self.fill(&step.text));
        if !std::mem::replace(&mut self.has_begun, true) && !line.starts_with("serv") {
            self.server = Some(Server::start(self.dir.path()));
        }
        loop {
            self.act(&line, &text);
            let is_told = step.expected.iter().any(|line| line.starts_with("status ") || line.starts_with("code "));
            let success = (!is_told).then_some("success");
            let unmet = step.expected.iter().copied().chain(success).find(|line| !self.is_met(&self.fill(line)));
            match unmet {
                None => break,
                Some(_) if is_repeated && Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
                Some(unmet) => panic!("{line}\n  {unmet}\n{:#?}\n{}", self.answer, self.answer.body),
            }
        }
        for kept in step.expected.iter().filter_map(|line| line.strip_prefix("keep ")) {
            let (name, pointer) = kept.split_once(' ').unwrap_or((kept, ""));
            let found = if pointer.is_empty() { self.answer.body.trim_end().into() } else { self.at(pointer) };
            assert!(!found.is_null(), "{line}: no {pointer}");
            self.keep(name, found.as_str().map_or_else(|| found.to_string(), str::to_owned));
        }
    }

    fn keep(&mut self, name: &str, value: String) {
        self.values.insert(format!("{name}.json"), Value::from(value.as_str()).to_string());
        self.values.insert(name.to_owned(), value);
    }

    /// Puts values where their names are.
    fn fill(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("the server runs")
    }

    #[allow(clippy::too_many_lines, reason = "an arm a kind of step")]
    fn act(&mut self, line: &str, below: &str) {
        let words = words(line);
        if self.answer.body.contains("action=\"/act\"") {
            self.form = self.answer.form("/act");
        }
        self.answered(200, String::new());
        match &words[..] {
            ["serve", words @ ..] => {
                self.server = Some(Server::with(self.dir.path(), &[&["--plain"], words].concat()));
            }
            // One that is to be refused; its configuration stands below.
            ["serving", words @ ..] => {
                let [config, data, socket] =
                    ["config.yaml", "data", "admin.sock"].map(|name| self.dir.path().join(name));
                std::fs::write(&config, below).unwrap();
                let mut command = program(&["serve", "--metrics", "127.0.0.1:0"]);
                command.arg("--config").arg(config).arg("--data").arg(data).arg("--admin-socket").arg(socket);
                self.ended(&command.args(words).output().unwrap());
            }
            ["stop"] => assert_eq!(self.server.take().expect("the server runs").stop(), Some(0)),
            ["kill"] => self.server.take().expect("the server runs").kill(),
            ["let", name, made @ ..] => self.keep(name, self.text(made, below)),
            ["file", name, made @ ..] => {
                let path = self.dir.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, self.text(made, below)).unwrap();
            }
            ["token", name, role] => self.keep(name, self.server().token(name, role)),
            ["rolls", names @ ..] => self.server().rolls(names),
            ["write", made @ ..] => {
                let words = ["create", "--force", "-f", "-"];
                self.ended(&self.server().cli_with(&words, &self.text(made, below)));
            }
            ["$", words @ ..] => {
                let (words, made) = words.split_at(words.iter().position(|word| *word == "<").unwrap_or(words.len()));
                let input = made.split_first().map_or_else(String::new, |(_, made)| self.text(made, below));
                self.ended(&self.server().cli_with(words, &input));
            }
            ["offline", words @ ..] => self.ended(&program(words).output().unwrap()),
            ["visit", path, "as", who] => self.answer = self.browse(who, |visitor| visitor.get(path)),
            ["form", path, "as", who, fields @ ..] => {
                let csrf = self.browse(who, |visitor| visitor.get("/")).field("csrf");
                let fields = fields.iter().filter_map(|field| field.split_once('='));
                let fields: Vec<_> = fields.chain([("csrf", csrf.as_str())]).collect();
                self.answer = self.browse(who, |visitor| visitor.post(path, &fields));
            }
            ["send", "as", who] => {
                let form = self.form.clone();
                let fields: Vec<_> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                self.answer = self.browse(who, |visitor| visitor.post("/act", &fields));
            }
            ["host", name, number, group, key @ ..] => {
                let number = number.parse().unwrap();
                let key = key.first().map_or(number, |key| key.parse().unwrap());
                let host = Host::with_key(number, String::leak((*group).to_owned()), key);
                let key = host.key().to_string();
                self.keep(&format!("{name}.begin"), key[..16].to_owned());
                self.keep(&format!("{name}.key"), key);
                self.keep(name, host.id.clone());
                self.hosts.insert((*name).to_owned(), host);
            }
            ["report", name, version, last @ ..] => {
                let last = if let [outcome, to, code] = last { Some((*outcome, *to, *code)) } else { None };
                self.report = self.hosts[*name].says(epoch(self.server()), version, last);
                let answer = self.hosts[*name].sends(self.server().addr, &self.report);
                self.answered(answer.0, answer.1.to_string());
            }
            ["named", name, hostname] => {
                self.hosts.get_mut(*name).unwrap().hostname = (*hostname).to_owned();
            }
            ["again", name] => {
                let answer = self.hosts[*name].sends(self.server().addr, &self.report);
                self.answered(answer.0, answer.1.to_string());
            }
            ["join", name, version, secret] => {
                let (host, server) = (&self.hosts[*name], self.server());
                let answer = host.joins(server.addr, &host.says(epoch(server), version, None), secret);
                self.answered(answer.0, answer.1.to_string());
            }
            ["ask", name, signed @ ..] => {
                let server = self.server();
                let answer = self.hosts[*name].asks(server, signed.first().map(|_| epoch(server)));
                self.answered(200, json!({ "version": answer.0, "update": answer.1 }).to_string());
            }
            ["group", name] => self.answered(200, self.server().group(name).to_string()),
            ["records", action @ ..] => {
                let mut records = self.server().records();
                records.retain(|record| action.first().is_none_or(|action| record["action"] == *action));
                self.answered(200, Value::from(records).to_string());
            }
            ["metrics"] => self.answered(200, self.server().metrics()),
            ["log"] => self.answered(200, self.server().log()),
            ["database"] => {
                let bytes = std::fs::read(self.dir.path().join("data/fleet.db")).unwrap();
                self.answered(200, String::from_utf8_lossy(&bytes).into_owned());
            }
            [method, path, rest @ ..] if method.chars().all(|char| char.is_ascii_uppercase()) => {
                let header = match rest {
                    ["as", who, ..] => format!("authorization: Bearer {}\r\n", self.values[*who]),
                    ["with", header, ..] => format!("{header}\r\n"),
                    _ => String::new(),
                };
                let body = line.find(" {").map_or("", |at| &line[at + 1..]);
                let (status, head, body) = exchange(self.server().addr, method, path, &header, body);
                self.answer = Answer { status, head, body };
            }
            _ => panic!("not understood: {words:?}"),
        }
    }

    fn answered(&mut self, status: u16, body: String) {
        self.answer = Answer { status, head: String::new(), body };
    }

    /// A command: what it printed, and where it failed its errors.
    fn ended(&mut self, output: &Output) {
        let is_said = output.status.success() || output.stderr.is_empty();
        let said = if is_said { &output.stdout } else { &output.stderr };
        let status = output.status.code().and_then(|code| code.try_into().ok()).expect("no signal ended it");
        self.answered(status, String::from_utf8(said.clone()).unwrap());
    }

    fn browse(&mut self, who: &str, act: impl Fn(&Visitor) -> Answer) -> Answer {
        let server = self.server.as_ref().expect("the server runs");
        let mut visitor = Visitor::new(server);
        let log_in = || Visitor::with(server, &self.values[who]).cookie;
        visitor.cookie = self.cookies.entry(who.to_owned()).or_insert_with(log_in).clone();
        act(&visitor)
    }

    /// The answer; lines of JSON are a list.
    fn json(&self) -> Value {
        let lines =
            || self.answer.body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_default()).collect();
        serde_json::from_str(&self.answer.body).unwrap_or_else(|_| lines())
    }

    fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }

    fn is_met(&self, line: &str) -> bool {
        let (what, of) = line.split_once(' ').unwrap_or((line, ""));
        let (body, text) = (&self.answer.body, of.replace("\\n", "\n"));
        let (pointer, wanted) = of.split_once(' ').filter(|_| of.starts_with('/')).unwrap_or(("", of));
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| panic!("JSON: {line}"));
        let list = || self.at(pointer).as_array().cloned().unwrap_or_default();
        match what {
            "success" => [0, 200].contains(&self.answer.status),
            "status" => json!(self.answer.status) == json(of),
            "has" => body.contains(&text),
            "lacks" => !body.contains(&text),
            "begins" => body.starts_with(&text),
            "is" => *body == text,
            "line" => body.lines().any(|line| line == of),
            "row" => {
                let (number, row) = of.split_once(' ').expect("a number and a text");
                let (begin, more) = row.split_once('*').unwrap_or((row, ""));
                let line = body.lines().nth(number.parse::<usize>().unwrap() - 1);
                line.is_some_and(|line| line.starts_with(begin) && line.contains(more))
            }
            "lines" => json!(body.lines().count()) == json(of),
            "count" => of.split_once(' ').is_some_and(|(often, text)| json!(body.matches(text).count()) == json(often)),
            "order" => of.split_once(" <").is_some_and(|(one, other)| {
                body.find(one).zip(body.find(&format!("<{other}"))).is_some_and(|(one, other)| one < other)
            }),
            "printable" => !body.contains(|char: char| char.is_control() && char != '\n'),
            "json" => has(&self.at(pointer), &json(wanted)),
            "some" => {
                let (often, wanted) = wanted.split_at(wanted.find('{').expect("an object"));
                let found = list().iter().filter(|found| has(found, &json(wanted))).count();
                if often.is_empty() { found > 0 } else { json!(found) == json(often) }
            }
            "last" => list().last().is_some_and(|found| has(found, &json(wanted))),
            "length" => json!(list().len()) == json(wanted),
            "code" => {
                let (status, code) = of.split_once(' ').expect("a status and a code");
                json!(self.answer.status) == json(status) && self.json()["error"]["code"] == code
            }
            "header" => of.split_once(' ').is_some_and(|(name, value)| self.answer.header(name) == Some(value)),
            "keep" => true,
            _ => panic!("not understood: {line}"),
        }
    }

    /// A text of resources: see the module.
    fn text(&self, words: &[&str], below: &str) -> String {
        if let Some(at) = words.iter().position(|word| *word == "and") {
            return format!("{}---\n{}", self.text(&words[..at], below), self.text(&words[at + 1..], below));
        }
        let (made, changes) = words.split_at(words.iter().position(|word| *word == "with").unwrap_or(words.len()));
        let text = match made {
            ["groups", names @ ..] => groups(names),
            ["version", start, target, schedule] => version(start, target, schedule),
            ["upper", text] => text.to_uppercase(),
            [name] => self.values[*name].clone(),
            _ => below.to_owned(),
        };
        let changes: Vec<&str> = changes.iter().copied().filter(|word| *word != "with").collect();
        changes.chunks(2).fold(text, |text, change| {
            assert!(text.contains(change[0]), "no {change:?}: {text}");
            text.replace(change[0], &change[1].replace("\\n", "\n"))
        })
    }
}

fn has(found: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(keys) => found.is_object() && keys.iter().all(|(key, wanted)| has(&found[key.as_str()], wanted)),
        Value::Array(items) => found.as_array().is_some_and(|found| {
            found.len() == items.len() && found.iter().zip(items).all(|(found, wanted)| has(found, wanted))
        }),
        wanted => found == wanted,
    }
}

/// All of them, or with `CASE` in the environment those whose names contain it.
#[test]
fn every_transcript_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let texts: Vec<(String, String)> =
        files.map(|file| (file.display().to_string(), std::fs::read_to_string(&file).unwrap())).collect();
    let wanted = std::env::var("CASE").unwrap_or_default();
    let mut cases = Vec::new();
    for (file, text) in &texts {
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        cases.extend(lines.chunk_by(|_, next| !next.starts_with("== ")).map(|case| (file, case[0], steps(&case[1..]))));
    }
    assert!(cases.len() > 60, "only {}", cases.len());
    cases.retain(|(_, name, _)| name.contains(&wanted));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((file, name, steps)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut stage = Stage::new();
                    if let Err(why) = catch_unwind(AssertUnwindSafe(|| steps.iter().for_each(|step| stage.play(step))))
                    {
                        let text = why.downcast_ref::<&str>().map(|text| (*text).to_owned());
                        let why = why.downcast_ref::<String>().cloned().or(text).unwrap_or_default();
                        failed.lock().unwrap().push(format!("{file}: {name}\n{why}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.join("\n\n"));
}
