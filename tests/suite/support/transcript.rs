//! Transcripts: what is done to an image and its cluster, line for line, and what must be seen then.
//!
//! A line at the margin names a case, `#` begins a comment, and each indented line is a step. Words are separated by blanks; `"…"` is one
//! word, written as in JSON. `for NAMES in` repeats the lines that are indented below it, with `{NAME}` filled in: for each of the words behind
//! it, or for each row below it that begins with `|`.
//!
//! * `image V`, `enabled V`: a new image whose cluster names V; the same with V enabled. `with V…`: all are published, and nothing is tried twice;
//!   `closed V…`: the host has followed the channel to the first of them, and its window is closed now.
//! * `$ ARGS`: runs the updater; `enable ARGS` and `follow SOURCE ARGS` with the flags for this cluster. Words such as `A=b` before ARGS
//!   are its environment. Behind `->` stands what must come of it: the exit status (0 if left out, `any`), `code:` its error code, `prints:` on
//!   standard output, `not:` on neither stream, and whatever else standard error must contain. Behind `=>` the same, and nothing may have
//!   changed but the record of the last run.
//! * `sh LINE`: a line of shell in the image's root, which must succeed; `let NAME LINE`: `{NAME}` is what it prints. `write FILE TEXT`.
//! * `status KEY=VALUE…`, `plan FLAGS KEY=VALUE…`: keys of the JSON, `/` between the parts of a path; `~` for "contains".
//! * `linked V`, `names DIRECTORY NAMES`, `config has|lacks TEXT`; `keep`, and at `kept` every file is as it was.
//! * `asked PATH COUNT`: how often the cluster was asked since `forget` (`+`: at least once). Behind it parameters of the last question,
//!   `KEY=VALUE`, or all of them, `query:`; its `authorization:`, which none has if nothing follows; `plain`: each was a GET without parameters.
//! * The rest are the cluster's methods, and edits of `updates.yaml`; see `Stage`.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use testing::beds::checkout;
use testing::cluster::{Archive, Find, Misbehaviour, Request};

use super::source::{closed_window, open_window};
use super::{Image, Ran};

/// Cases that are played at the same time.
const AT_ONCE: usize = 4;

/// Plays every case of a file below `tests/suite`, and fails with those that fail; with `CASE` in the environment, those whose names contain it.
pub(crate) fn play(file: &str) {
    let text = std::fs::read_to_string(checkout(&format!("tests/suite/{file}"))).unwrap();
    let wanted = std::env::var("CASE").unwrap_or_default();
    let lines: Vec<Line<'_>> = text.lines().enumerate().filter_map(Line::read).collect();
    let cases: Vec<&[Line<'_>]> = lines.chunk_by(|_, next| next.indent > 0).collect();
    let cases: Vec<_> = cases.into_iter().filter(|case| case[0].text.contains(&wanted)).collect();
    assert!(!cases.is_empty(), "{file} has no such case");
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some([name, steps @ ..]) = cases.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    let mut stage = Stage::default();
                    let Err(why) = catch_unwind(AssertUnwindSafe(|| stage.play(steps))) else { continue };
                    let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
                    failed.lock().unwrap().push(format!("{file}:{}: {}\n{why}", stage.line, name.text));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn read((at, line): (usize, &'a str)) -> Option<Self> {
        let text = line.trim();
        let is_step = !text.is_empty() && !text.starts_with('#');
        is_step.then(|| Self { number: at + 1, indent: line.len() - line.trim_start().len(), text })
    }
}

/// The words of a step.
fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        // A quote may follow the beginning of a word, as in `not:"a b"`.
        let end = rest.find([' ', '"']).unwrap_or(rest.len());
        let mut word = rest[..end].to_owned();
        rest = &rest[end..];
        if rest.starts_with('"') {
            let mut quoted = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            word += &quoted.next().unwrap().unwrap_or_else(|error| panic!("{error}: {rest}"));
            rest = &rest[quoted.byte_offset()..];
        }
        found.push(word);
        rest = rest.trim_start();
    }
    found
}

/// An image in the middle of a case.
#[derive(Default)]
struct Stage {
    image: Option<Image>,
    kept: Vec<String>,
    /// What loops fill in.
    filled: BTreeMap<String, String>,
    /// Where the case is.
    line: usize,
}

impl Stage {
    fn image(&mut self) -> &mut Image {
        self.image.as_mut().expect("a case begins with its image")
    }

    fn play(&mut self, lines: &[Line<'_>]) {
        let mut rest = lines;
        while let Some((line, after)) = rest.split_first() {
            self.line = line.number;
            let inner = after.iter().take_while(|next| next.indent > line.indent).count();
            let (inner, after) = after.split_at(inner);
            let (verb, words) = line.text.split_once(' ').unwrap_or((line.text, ""));
            match verb {
                "for" => self.repeat(words, inner),
                "sh" => drop(self.shell(words)),
                "let" => {
                    let (name, line) = words.split_once(' ').unwrap();
                    let value = self.shell(line);
                    self.filled.insert(name.to_owned(), value);
                }
                _ => self.step(verb, words),
            }
            rest = after;
        }
    }

    fn repeat(&mut self, line: &str, inner: &[Line<'_>]) {
        let (names, values) = line.split_once(" in").unwrap();
        let names: Vec<&str> = names.split(' ').collect();
        let is_row = |line: &&Line<'_>| line.text.starts_with("| ");
        let rows: Vec<Vec<String>> = inner.iter().take_while(is_row).map(|row| words(&row.text[2..])).collect();
        let steps = &inner[rows.len()..];
        let words = words(values);
        let rows = if rows.is_empty() { words.chunks(names.len()).map(<[_]>::to_vec).collect() } else { rows };
        for row in rows {
            assert_eq!(row.len(), names.len(), "{names:?}: {row:?}");
            for (name, value) in names.iter().zip(row) {
                self.filled.insert((*name).to_owned(), self.fill(&value));
            }
            self.play(steps);
        }
    }

    /// The text with what stands in braces: a loop's word, or something of this image's.
    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.filled {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        let Some(image) = &self.image else { return text };
        let cluster = &image.cluster;
        for (name, value) in [
            ("{addr}", cluster.addr()),
            ("{base}", cluster.base_url()),
            ("{plain}", cluster.plain_base_url()),
            ("{cdn}", cluster.cdn().display().to_string()),
            ("{ca}", cluster.ca_file().display().to_string()),
            ("{root}", image.root().display().to_string()),
            ("{dir}", image.root().parent().unwrap().display().to_string()),
            ("{channel}", image.channel()),
            ("{graph}", image.graph()),
            ("{v}", "var/lib/teleport/versions".to_owned()),
        ] {
            text = text.replace(name, &value);
        }
        times(&text)
    }

    /// What a line of shell prints.
    fn shell(&mut self, line: &str) -> String {
        let (line, root) = (self.fill(line), self.image().root());
        let ran = Ran::of(&Command::new("bash").args(["-euc", &line]).current_dir(root).output().unwrap());
        assert_eq!(ran.status, 0, "{line}: {ran:#?}");
        ran.stdout.trim_end().to_owned()
    }

    fn step(&mut self, verb: &str, line: &str) {
        let words: Vec<String> = words(line).iter().map(|word| self.fill(word)).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        if verb == "$" {
            // A loop's word may be a whole command.
            words.splice(..1, words[0].split(' ').collect::<Vec<_>>());
        }
        match (verb, &words[..]) {
            ("image", [version]) => self.image = Some(Image::new(version)),
            ("enabled", [version]) => self.image = Some(Image::quiet(version)),
            ("with", versions) => self.image = Some(Image::with(versions)),
            ("closed", versions) => {
                let image = self.image.insert(Image::with(versions));
                image.say(versions[0], "no");
                image.follow(&image.channel(), &[]).ok();
                assert_eq!(image.linked(), versions[0]);
                image.set_window(&closed_window());
            }
            ("$", _) => self.run(&[], &words),
            ("enable", _) => {
                let flags = self.image().enable_args();
                self.run(&flags.iter().map(String::as_str).collect::<Vec<_>>(), &words);
            }
            ("follow", [source, more @ ..]) => {
                let (base, ca) = (self.fill("{base}"), self.fill("{ca}"));
                let flags = ["enable", "--source", source, "--base-url", &base, "--ca-file", &ca, "--edition", "oss"];
                self.run(&flags, more);
            }
            ("status", wanted) => {
                let status = self.image().status();
                holds(&status, wanted);
            }
            ("plan", words) => {
                let flags = words.iter().take_while(|word| word.starts_with("--")).count();
                let args = [&["plan", "--format", "json"], &words[..flags]].concat();
                holds(&self.image().run(&args).ok().json(), &words[flags..]);
            }
            ("linked", [version]) => assert_eq!(self.image().linked(), *version),
            ("names", [directory, names @ ..]) => assert_eq!(super::names(&self.image().path(directory)), names),
            ("config", [has, text]) => {
                let config = self.image().config();
                assert_eq!(config.contains(text), *has == "has", "{config}");
            }
            ("write", [file, text]) => std::fs::write(self.image().root().join(file), text).unwrap(),
            ("keep", []) => self.kept = self.image().tree(),
            ("kept", []) => assert_eq!(self.image().tree(), self.kept),
            ("set", lines) => lines.iter().for_each(|line| self.image().set(&format!("  {line}\n"))),
            ("settings", lines) => {
                let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
                self.image().settings(&lines);
            }
            ("window", [window]) => self.image().set_window(window),
            ("edit", [from, to]) => self.image().edit(from, to),
            _ => of_cluster(self.image(), verb, &words),
        }
    }

    /// Runs the updater with `flags` and the words before the arrow, and looks at what comes behind it.
    fn run(&mut self, flags: &[&str], words: &[&str]) {
        let arrow = words.iter().position(|word| ["->", "=>"].contains(word)).unwrap_or(words.len());
        let (args, expected) = (&words[..arrow], words.get(arrow + 1..).unwrap_or_default());
        let changes_nothing = words.get(arrow) == Some(&"=>");
        let is_variable = |word: &&&str| word.split_once('=').is_some_and(|(name, _)| name.chars().all(is_of_variable));
        let variables = args.iter().take_while(is_variable).count();
        let env: Vec<(&str, &str)> = args[..variables].iter().filter_map(|word| word.split_once('=')).collect();
        let as_json: &[&str] =
            if expected.iter().any(|word| word.starts_with("code:")) { &["--log-format", "json"] } else { &[] };
        let before = changes_nothing.then(|| self.image().tree_but_status());
        let ran = self.image().run_with(&[as_json, flags, &args[variables..]].concat(), &env);
        let status = match expected.first() {
            Some(&"any") => Some(ran.status),
            first => first.and_then(|word| word.parse().ok()),
        };
        assert_eq!(ran.status, status.unwrap_or(0), "{args:?}: {ran:#?}");
        for word in &expected[usize::from(status.is_some())..] {
            match word.split_once(':') {
                Some(("code", code)) => assert_eq!(ran.error_code(), code, "{args:?}: {ran:#?}"),
                Some(("prints", text)) => assert!(ran.stdout.contains(text), "{args:?}: no {text:?} in {ran:#?}"),
                Some(("not", text)) => {
                    assert!(!ran.stdout.contains(text) && !ran.stderr.contains(text), "{args:?}: {text:?} in {ran:#?}");
                }
                _ => assert!(ran.stderr.contains(word), "{args:?}: no {word:?} in {ran:#?}"),
            }
        }
        if let Some(before) = before {
            assert_eq!(self.image().tree_but_status(), before, "{args:?}");
        }
    }
}

fn is_of_variable(char: char) -> bool {
    char.is_ascii_alphabetic() || char == '_'
}

/// What is done to the cluster, and what it was asked.
fn of_cluster(image: &mut Image, verb: &str, words: &[&str]) {
    let cluster = &mut image.cluster;
    match (verb, words) {
        ("publish", versions) => versions.iter().for_each(|version| drop(cluster.publish(&Archive::simple(version)))),
        ("bytes", [name, text]) => drop(cluster.publish_bytes(name, text.as_bytes())),
        ("release", [version]) => image.release(version),
        ("release", [version, edition]) => image.release_edition(version, edition),
        ("wants", [version]) => cluster.set_directive(Find::version(version)),
        ("wants", [version, "later"]) => {
            cluster.set_directive(Find { auto_update: false, ..Find::version(version) });
        }
        ("find", [body]) => cluster.set_find_body(Some(body.as_bytes())),
        ("say", [version, critical]) => image.say(version, critical),
        ("page", [path, status, text]) => cluster.set_page(path, &[(status.parse().unwrap(), text)]),
        ("draw", [versions, edges @ ..]) => {
            let versions: Vec<&str> = versions.split(' ').collect();
            let number = |text: &str| text.parse().unwrap();
            let pairs = edges.iter().map(|edge| edge.split_once('-').unwrap());
            image.draw(&versions, &pairs.map(|(from, to)| (number(from), number(to))).collect::<Vec<_>>());
        }
        ("misbehave", [path, how @ ..]) => cluster.misbehave(path, misbehaviour(how)),
        ("behave", []) => cluster.behave(),
        ("down", []) => cluster.go_down(),
        ("up", []) => cluster.come_up(),
        ("forget", []) => cluster.forget_requests(),
        ("asked", [path, count, parameters @ ..]) => {
            let asked = cluster.requests_to(path);
            match *count {
                "+" => assert!(!asked.is_empty(), "nobody asked for {path}"),
                count => assert_eq!(asked.len().to_string(), count, "{asked:#?}"),
            }
            parameters.iter().for_each(|wanted| of_requests(&asked, wanted));
        }
        _ => panic!("no such step: {verb} {words:?}"),
    }
}

/// What must be so of the requests, or of the last of them.
fn of_requests(asked: &[Request], wanted: &str) {
    let last = asked.last().unwrap();
    let is_so = match wanted.split_once([':', '=']) {
        None => wanted == "plain" && asked.iter().all(|asked| asked.method == "GET" && asked.query.is_empty()),
        Some(("authorization", "")) => asked.iter().all(|asked| asked.header("authorization").is_none()),
        Some(("authorization", value)) => last.header("authorization") == Some(value),
        Some(("query", pairs)) => {
            let asked: BTreeSet<String> = last.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            asked.iter().map(String::as_str).eq(pairs.split('&').collect::<BTreeSet<_>>())
        }
        Some((name, value)) => last.parameter(name) == Some(value),
    };
    assert!(is_so, "{wanted}: {asked:#?}");
}

fn misbehaviour(words: &[&str]) -> Misbehaviour {
    let number = |text: &str| text.parse().unwrap();
    match words {
        ["status", status] => Misbehaviour::Status(status.parse().unwrap(), None),
        ["redirect", url] => Misbehaviour::Redirect((*url).to_owned()),
        ["cut", bytes] => Misbehaviour::CutAfter { bytes: number(bytes) },
        ["stall", bytes] => Misbehaviour::Stall { after_bytes: number(bytes) },
        ["no-length"] => Misbehaviour::NoLength,
        ["stale"] => Misbehaviour::Stale,
        ["bad-tls"] => Misbehaviour::BadTls,
        _ => panic!("no such misbehaviour: {words:?}"),
    }
}

/// Fills in `{now+SECONDS}` and `{epoch+SECONDS}`, and calendar expressions of an hour that is `{open}` now or `{closed}` for some hours.
fn times(text: &str) -> String {
    let now = jiff::Timestamp::now().as_second();
    let mut text = text.replace("{open}", &open_window()).replace("{closed}", &closed_window());
    for (mark, is_number) in [("{now", false), ("{epoch", true)] {
        while let Some((before, rest)) = text.split_once(mark) {
            let (seconds, after) = rest.split_once('}').unwrap();
            let time = now + seconds.trim_start_matches('+').parse::<i64>().unwrap();
            let time =
                if is_number { time.to_string() } else { jiff::Timestamp::from_second(time).unwrap().to_string() };
            text = format!("{before}{time}{after}");
        }
    }
    text
}

/// `found` has these keys and values.
#[track_caller]
fn holds(found: &Value, wanted: &[&str]) {
    assert!(!wanted.is_empty());
    for wanted in wanted {
        let (key, value) = wanted.split_once(['=', '~']).unwrap();
        let found_value = found.pointer(&format!("/{key}")).unwrap_or_else(|| panic!("no {key} in {found:#}"));
        let text = found_value.as_str().map_or_else(|| found_value.to_string(), str::to_owned);
        let is_so = if wanted[key.len()..].starts_with('=') { text == value } else { text.contains(value) };
        assert!(is_so, "{wanted}: {text} in {found:#}");
    }
}
