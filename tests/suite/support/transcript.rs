//! Transcripts: what is done to an image and its cluster, line for line, and what must be seen then.
//!
//! A line at the margin names a case, `#` begins a comment, and each indented line is a step. Words are separated by blanks; `"…"` is one
//! word, written as in JSON. `for NAMES in` repeats the lines that are indented below it, with `{NAME}` filled in: for each of the words behind
//! it, or for each row below it that begins with `|`.
//!
//! * `image V`, `enabled V`: a new image whose cluster names V; the same with V enabled. `with V…`: all are published, and nothing is tried twice;
//!   `closed V…`: the host has followed the channel to the first of them, and its window is closed now.
//! * `$ ARGS`: runs the updater; `enable ARGS` and `follow SOURCE ARGS` with the flags for this cluster. Words such as `A=b` before ARGS
//!   are its environment. Behind `->` stands what must come of it: the exit status (0 if left out, `any`, `fails`), `code:` its error code, `prints:` on
//!   standard output, `not:` on neither stream, `silent`: nothing on standard output and something on the other, `one-line` on the other, and whatever else standard error must contain, `[..]` for anything within a line. Behind `=>` the same, and nothing may have
//!   changed but the record of the last run.
//! * `sh LINE`: a line of shell in the image's root, which must succeed; `let NAME LINE`: `{NAME}` is what it prints. `write FILE TEXT`.
//!   `sql FILE STATEMENTS` changes a database, and `select FILE COLUMNS… ROWS` is what stands in it; `flip FILE` turns a bit.
//! * `status KEY=VALUE…`, `plan FLAGS KEY=VALUE…`: keys of the JSON, `/` between the parts of a path; `~` for "contains".
//! * `linked V`, `names DIRECTORY NAMES`, `config has|lacks TEXT`; `keep`, and at `kept` every file is as it was; with directories behind
//!   both, every file there; with `installation`, every file but `updates.yaml` and the lock's.
//! * `asked PATH COUNT`: how often the cluster was asked since `forget` (`+`: at least once). Behind it parameters of the last question,
//!   `KEY=VALUE`, or all of them, `query:`; its `authorization:`, which none has if nothing follows; `plain`: each was a GET without parameters. With
//!   `get` no other requests count.
//! * The rest are the cluster's methods, and edits of `updates.yaml`; see `Stage`.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use testing::beds::checkout;
use testing::cluster::{Archive, Auth, Dialect, Find, Misbehaviour, Request};

use super::go::{agent, go_host, put};
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
                    let text = why.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    let why = why.downcast_ref::<String>().cloned().or(text).unwrap_or_default();
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
        // A word that stands for a list is one.
        let lists = words(values).into_iter().flat_map(|word| match word.starts_with('{') {
            true => self.fill(&word).split(' ').map(str::to_owned).collect(),
            false => vec![word],
        });
        let words: Vec<String> = lists.collect();
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
        let mut bash = Command::new("bash");
        bash.args(["-euc", &line]).current_dir(root).env("UPDATER", super::updater());
        let ran = Ran::of(&bash.output().unwrap());
        assert_eq!(ran.status, 0, "{line}: {ran:#?}");
        ran.stdout.trim_end().to_owned()
    }

    fn step(&mut self, verb: &str, line: &str) {
        let (is_command, words) = (verb == "$" && line.starts_with('{'), words(line));
        let words: Vec<String> = words.iter().map(|word| self.fill(word)).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        if is_command {
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
            ("sql", [file, sql]) => {
                let file = self.image().path(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
            }
            ("select", [file, sql, rows @ ..]) => {
                assert_eq!(super::sql_of(&self.image().path(file), &format!("SELECT {sql}")), rows);
            }
            ("flip", [file]) => flip(&self.image().path(file)),
            ("keep", places) => self.kept = self.seen(places),
            ("kept", places) => assert_eq!(self.seen(places), self.kept),
            ("go", more) => {
                let (root, proxy, base) = (self.image().root(), self.fill("{addr}"), self.fill("{base}"));
                go_host(&root, &proxy, &base, *more == ["pinned"]);
            }
            ("agent", [file, version]) => {
                // A program that is running cannot be written to, and a link would be followed.
                let _ = std::fs::remove_file(self.image().path(file));
                put(self.image().path(file), agent(version), 0o755);
            }
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

    /// The image's files: all, the `installation`, or what is below some directories.
    fn seen(&mut self, places: &[&str]) -> Vec<String> {
        if places == ["installation"] {
            return self.image().installation();
        }
        let mut tree = self.image().tree();
        tree.retain(|line| places.is_empty() || places.iter().any(|place| line.starts_with(place)));
        tree
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
            Some(&"fails") if ran.status != 0 => Some(ran.status),
            Some(&"any") => Some(ran.status),
            first => first.and_then(|word| word.parse().ok()),
        };
        assert_eq!(ran.status, status.unwrap_or(0), "{args:?}: {ran:#?}");
        for word in &expected[usize::from(status.is_some())..] {
            match word.split_once(':') {
                Some(("code", code)) => assert_eq!(ran.error_code(), code, "{args:?}: {ran:#?}"),
                Some(("prints", text)) => assert!(has(&ran.stdout, text), "{args:?}: no {text:?} in {ran:#?}"),
                Some(("not", text)) => {
                    assert!(!ran.stdout.contains(text) && !ran.stderr.contains(text), "{args:?}: {text:?} in {ran:#?}");
                }
                None if *word == "one-line" => assert_eq!(ran.stderr.lines().count(), 1, "{args:?}: {ran:#?}"),
                None if *word == "silent" => {
                    assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{args:?}: {ran:#?}")
                }
                _ => assert!(has(&ran.stderr, word), "{args:?}: no {word:?} in {ran:#?}"),
            }
        }
        if let Some(before) = before {
            assert_eq!(self.image().tree_but_status(), before, "{args:?}");
        }
    }
}

/// Whether `wanted` is in `text`, with anything of one line for each `[..]`.
fn has(text: &str, wanted: &str) -> bool {
    let parts =
        |line: &str| wanted.split("[..]").try_fold(0, |at, part| Some(at + line[at..].find(part)? + part.len()));
    if wanted.contains("[..]") { text.lines().any(|line| parts(line).is_some()) } else { text.contains(wanted) }
}

/// Changes a bit in the middle of a file.
fn flip(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

fn is_of_variable(char: char) -> bool {
    char.is_ascii_alphabetic() || char == '_'
}

/// What is done to the cluster, and what it was asked.
fn of_cluster(image: &mut Image, verb: &str, words: &[&str]) {
    let cluster = &mut image.cluster;
    match (verb, words) {
        ("publish", versions) => versions.iter().for_each(|version| drop(cluster.publish(&Archive::simple(version)))),
        ("archive", [version, how @ ..]) => {
            let archive = how.iter().fold(Archive::simple(version), |archive, how| match how.split_once(':') {
                Some(("without", name)) => archive.without_helper(name),
                Some(("helper", name)) => archive.helper(name),
                Some(("behaviour", name)) => archive.behaviour(name),
                _ => panic!("no such archive: {how}"),
            });
            cluster.publish(&archive);
            cluster.set_directive(Find::version(version));
        }
        ("bytes", [name, text]) => drop(cluster.publish_bytes(name, text.as_bytes())),
        ("release", [version]) => image.release(version),
        ("release", [version, edition]) => image.release_edition(version, edition),
        ("wants", [version, more @ ..]) => {
            let mut find = Find::version(version);
            for word in more {
                match word.split_once(':') {
                    Some(("edition", edition)) => edition.clone_into(&mut find.edition),
                    Some(("jitter", seconds)) => find.jitter = seconds.parse().unwrap(),
                    _ => find.auto_update = *word != "later",
                }
            }
            cluster.set_directive(find);
        }
        ("dialect", [name]) => cluster.set_dialect(if *name == "today" { Dialect::Today } else { Dialect::Rfd }),
        ("auth", ["basic", user, password]) => {
            cluster.require_auth(Some(Auth::Basic((*user).to_owned(), (*password).to_owned())));
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
            let mut asked = cluster.requests_to(path);
            asked.retain(|asked| asked.method == "GET" || !parameters.contains(&"get"));
            match *count {
                "+" => assert!(!asked.is_empty(), "nobody asked for {path}"),
                count => assert_eq!(asked.len().to_string(), count, "{asked:#?}"),
            }
            parameters.iter().filter(|word| **word != "get").for_each(|wanted| of_requests(&asked, wanted));
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
