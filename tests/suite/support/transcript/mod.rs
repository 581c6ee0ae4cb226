//! Transcripts: what is done to an image and its cluster, line for line, and what must be seen then.
//!
//! A line at the margin names a case, `#` begins a comment, and each indented line is a step. Words are separated by blanks; `"…"` is one
//! word, written as in JSON. `for NAMES in` repeats the lines that are indented below it, with `{NAME}` filled in: for each of the words behind
//! it, or for each row below it that begins with `|`.
//!
//! * `image V`, `enabled V`: a new image whose cluster names V; the same with V enabled. `with V…`: all are published, and nothing is tried twice;
//!   `closed V…`: the host has followed the channel to the first of them, and its window is closed now. `short` and `limits LINES`: 1.0.0 is
//!   enabled, with bounds for the network that are short enough for a test, or these.
//! * `$ ARGS`: runs the updater; `enable ARGS` and `follow SOURCE ARGS` with the flags for this cluster. Words such as `A=b` before ARGS
//!   are its environment; `CLOCK=TIME` is what its clock says in an image. Behind `->` stands what must come of it (`outcome.rs`), a success if there is none. Behind `=>` the same, and nothing
//!   may have changed but the record of the last run.
//! * `sh LINE`: a line of shell in the image's root, each command of which must succeed, and fail behind `no`; `let NAME LINE`: `{NAME}` is what it prints.
//! * `keep`, and at `kept` every file is as it was; with directories behind both, every file there (of a living host but `updates.yaml` and the lock's); with `installation`, every file but
//!   `updates.yaml` and the lock's.
//! * `host WORDS`: a host under systemd, in a bed (`bed.rs`); `$`, `enable`, `sh` and `let` are in it from then on.
//! * `root`: whoever is not root skips the rest of the case.
//! * `bed [V HOW…]`: in place of an image a host with systemd, which is enabled at V and whose agent runs; `cell [SETTINGS]`: one with a living
//!   agent of 1.0.0, in a cell. Where there is none the rest of the case is skipped. Their steps are in `live.rs`.
//! * All others are in `files.rs` and `cluster.rs`.
//!
//! [`play`] plays all cases of a file, `cases_of!` those that take a bed each as a test of its own. The name of such a case can have words to
//! fill in (`the {FORMAT} is removed`): each test's name says which (`the_deb_is_removed`). `do NAME` stands for the lines below `steps NAME`.

mod bed;
mod cluster;
mod files;
pub(crate) mod live;
mod outcome;

use std::collections::BTreeMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use testing::beds::checkout;
use testing::cluster::{Find, Misbehaviour};

use super::source::{closed_window, open_window};
use super::{Image, Live, Ran, Rig, updater};

/// Cases that are played at the same time.
const AT_ONCE: usize = 4;

/// Longest wait for a download that is on its way.
const SOON: Duration = Duration::from_secs(60);

/// Plays every case of a file below `tests/suite`, and fails with those that fail; with `CASE` in the environment, those whose names contain it.
pub(crate) fn play(file: &str) {
    let text = std::fs::read_to_string(checkout(&format!("tests/suite/{file}"))).unwrap();
    let wanted = std::env::var("CASE").unwrap_or_default();
    let cases: Vec<_> = cases(&text).into_iter().filter(|case| case[0].text.contains(&wanted)).collect();
    assert!(!cases.is_empty(), "{file} has no such case");
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let failure = failure(file, case, BTreeMap::new());
                    failed.lock().unwrap().extend(failure);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// The cases of a file, with the lines of `steps NAME` in place of each `do NAME`.
fn cases(text: &str) -> Vec<Vec<Line<'_>>> {
    let lines: Vec<Line<'_>> = text.lines().enumerate().filter_map(Line::read).collect();
    let (blocks, cases): (Vec<_>, Vec<_>) =
        lines.chunk_by(|_, next| next.indent > 0).partition(|case| case[0].text.starts_with("steps "));
    let mut whole: Vec<Vec<Line<'_>>> = Vec::new();
    for case in cases {
        whole.push(Vec::new());
        for line in case {
            let found = line.text.strip_prefix("do ").map(|name| {
                let block = blocks.iter().find(|block| block[0].text.strip_prefix("steps ") == Some(name));
                &block.unwrap_or_else(|| panic!("there are no steps {name}"))[1..]
            });
            let case = whole.last_mut().unwrap();
            match found {
                Some(steps) => {
                    case.extend(steps.iter().map(|step| Line { indent: line.indent + step.indent - 4, ..*step }))
                }
                None => case.push(*line),
            }
        }
    }
    whole
}

/// Why a case fails, if it does.
fn failure(file: &str, case: &[Line<'_>], filled: BTreeMap<String, String>) -> Option<String> {
    let mut stage = Stage::default();
    stage.filled.extend(filled);
    let why = catch_unwind(AssertUnwindSafe(|| stage.play(&case[1..]))).err()?;
    let text = why.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let why = why.downcast_ref::<String>().cloned().or(text).unwrap_or_default();
    Some(format!("{file}:{}: {}\n{why}", stage.line, case[0].text))
}

/// Plays the case of a file that has the name of the test `name`.
pub(crate) fn play_case(file: &str, name: &str) {
    let text = std::fs::read_to_string(checkout(&format!("tests/suite/{file}"))).unwrap();
    let found = cases(&text).into_iter().find_map(|case| Some((filled(case[0].text, name)?, case)));
    let (filled, case) = found.unwrap_or_else(|| panic!("{file} has no case {name}"));
    if let Some(failure) = failure(file, &case, filled) {
        panic!("{failure}");
    }
}

/// Each case of the file is one of these tests.
pub(crate) fn have_all(file: &str, names: &[&str]) {
    let text = std::fs::read_to_string(checkout(&format!("tests/suite/{file}"))).unwrap();
    for case in cases(&text).iter().map(|case| case[0].text) {
        assert!(names.iter().any(|name| filled(case, name).is_some()), "{file}: no test plays {case:?}");
    }
}

/// What the name of a test fills in for the words in braces of a case's name; `None`: it is another one's.
fn filled(case: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let (words, named): (Vec<&str>, Vec<&str>) = (case.split(' ').collect(), name.split('_').collect());
    let pairs: Vec<_> = words.iter().zip(&named).filter(|(word, name)| word != name).collect();
    let fills = pairs.iter().map(|(word, name)| {
        let word = word.strip_prefix('{')?.strip_suffix('}')?;
        Some((word.to_owned(), (*name).to_string()))
    });
    if words.len() == named.len() { fills.collect() } else { None }
}

#[derive(Clone, Copy)]
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
fn words_of(line: &str) -> Vec<String> {
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
    host: Option<Rig>,
    kept: Vec<String>,
    /// Of the host, by name: a line of shell, and what it printed.
    looks: BTreeMap<String, (String, String)>,
    footprint: BTreeMap<&'static str, String>,
    /// What loops fill in.
    filled: BTreeMap<String, String>,
    /// The run that stands still.
    running: Option<Child>,
    /// The lock, while the case holds it.
    lock: Option<File>,
    reported: live::Reported,
    /// Where the case is.
    line: usize,
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            let _ = running.kill();
            let _ = running.wait();
        }
    }
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
                "root" if !rustix::process::geteuid().is_root() => return eprintln!("skipped: not root"),
                "root" => {}
                "host" if !bed::up(self, words) => return,
                "host" => {}
                "bed" | "cell" => {
                    // The one before ends first.
                    (self.image, self.reported) = (None, live::Reported::default());
                    let words: Vec<String> = words_of(words).iter().map(|word| self.fill(word)).collect();
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    self.image = if verb == "bed" { live::bed(&words) } else { live::cell(&words) };
                    if self.image.is_none() {
                        return;
                    }
                }
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
        let rows: Vec<Vec<String>> = inner.iter().take_while(is_row).map(|row| words_of(&row.text[2..])).collect();
        let steps = &inner[rows.len()..];
        // A word that stands for a list is one.
        let lists = words_of(values).into_iter().flat_map(|word| {
            if word.starts_with('{') {
                self.with_words(&word).split(' ').map(str::to_owned).collect()
            } else {
                vec![word]
            }
        });
        let words: Vec<String> = lists.collect();
        let rows = if rows.is_empty() { words.chunks(names.len()).map(<[_]>::to_vec).collect() } else { rows };
        for row in rows {
            assert_eq!(row.len(), names.len(), "{names:?}: {row:?}");
            for (name, value) in names.iter().zip(row) {
                self.filled.insert((*name).to_owned(), self.with_words(&value));
            }
            self.play(steps);
        }
    }

    /// The text with the words of loops, which stand in braces. What is the image's is filled in later: it may be another one by then.
    fn with_words(&self, text: &str) -> String {
        self.filled.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// The text with all that stands in braces.
    fn fill(&self, text: &str) -> String {
        let mut text = self.with_words(text);
        let place = |path: &std::path::Path| path.display().to_string();
        let (cluster, of_image) = match (&self.host, &self.image) {
            (Some(host), _) => (&host.cluster, vec![("{bed}", host.bed.name().to_owned())]),
            (None, Some(image)) => (
                &image.cluster,
                vec![
                    ("{root}", place(&image.root())),
                    ("{dir}", place(image.root().parent().unwrap())),
                    ("{channel}", image.channel()),
                    ("{graph}", image.graph()),
                ],
            ),
            (None, None) => return text,
        };
        for (name, value) in [
            ("{addr}", cluster.addr()),
            ("{base}", cluster.base_url()),
            ("{plain}", cluster.plain_base_url()),
            ("{cdn}", place(cluster.cdn())),
            ("{ca}", place(cluster.ca_file())),
            ("{pid}", std::process::id().to_string()),
            ("{bootstrap}", "/usr/lib/teleport-update/teleport-update".to_owned()),
            ("{v}", "var/lib/teleport/versions".to_owned()),
        ]
        .into_iter()
        .chain(of_image)
        {
            text = text.replace(name, &value);
        }
        times(&text)
    }

    /// What a line of shell prints.
    fn shell(&mut self, line: &str) -> String {
        let line = self.fill(line);
        if let Some(host) = &self.host {
            return bed::shell(host, &line).ok().stdout.trim_end().to_owned();
        }
        let root = self.image().root();
        let script = ["-euc", &format!("{}\n{line}", include_str!("shell.sh"))];
        let ran = match &self.image().live {
            Some(Live::Bed(bed)) => Ran::of(&bed.run(&[&["bash"], &script[..]].concat())),
            Some(Live::Cell(cell)) => {
                let mut bash = cell.command("/bin/bash");
                bash.args(script);
                let ran = Ran::of_cell(cell.finish(bash).unwrap());
                Ran { stdout: ran.stderr.clone(), ..ran }
            }
            None => {
                let mut bash = Command::new("bash");
                bash.args(script).current_dir(root).env("UPDATER", updater());
                bash.env("MIRROR", format!("{} mirror", updater().with_file_name("teleport-fleet").display()));
                Ran::of(&bash.output().unwrap())
            }
        };
        assert_eq!(ran.status, 0, "{line}: {ran:#?}");
        ran.stdout.trim_end().to_owned()
    }

    fn step(&mut self, verb: &str, line: &str) {
        if bed::act(self, verb, line) {
            return;
        }
        let (is_command, words) = (verb == "$" && line.starts_with('{'), words_of(line));
        let words: Vec<String> = words.iter().map(|word| self.fill(word)).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        if is_command {
            // A loop's word may be a whole command.
            words.splice(..1, words[0].split(' ').collect::<Vec<_>>());
        }
        match (verb, &words[..]) {
            ("$", _) => self.run(&[], &words),
            ("enable", _) => {
                let flags = self.enable_args();
                self.run(&flags.iter().map(String::as_str).collect::<Vec<_>>(), &words);
            }
            ("follow", [source, more @ ..]) => {
                let (base, ca) = (self.fill("{base}"), self.fill("{ca}"));
                let flags = ["enable", "--source", source, "--base-url", &base, "--ca-file", &ca, "--edition", "oss"];
                self.run(&flags, more);
            }
            ("image" | "enabled" | "with" | "closed" | "moved" | "short" | "limits", _) => {
                self.image = Some(image(verb, &words))
            }
            ("meanwhile", [version, args @ ..]) => {
                let archive = format!("/cdn/teleport-v{version}-linux-amd64-bin.tar.gz$");
                self.image().cluster.misbehave(&archive, Misbehaviour::Hold { after_bytes: 1 });
                let mut updater = Command::new(updater());
                updater.env_clear().arg("--root").arg(self.image().root()).args(args);
                self.running = Some(updater.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
                self.image().cluster.until_held(SOON);
            }
            ("then", [_, expected @ ..]) => {
                let mut running = self.running.take().unwrap();
                assert!(running.try_wait().unwrap().is_none(), "it is still at its download");
                self.image().cluster.behave();
                let ran = Ran::of(&running.wait_with_output().unwrap());
                outcome::check(&ran, Duration::ZERO, &["then"], expected);
            }
            ("hold", places) => {
                let lock = File::open(self.image().path(places.first().unwrap_or(&"var/lib/teleport/versions/.lock")));
                let lock = lock.unwrap();
                lock.lock().unwrap();
                self.lock = Some(lock);
            }
            ("let-go", []) => self.lock = None,
            ("keep", places) => self.kept = self.seen(places),
            ("kept", places) => assert_eq!(self.seen(places), self.kept),
            ("reports" | "report" | "keys", _) => {
                let image = self.image.as_ref().expect("a case begins with its image");
                self.reported.look(image, verb, &words);
            }
            ("held", []) => self.image().cluster.until_held(SOON),
            _ if live::is_of_live(self.image(), verb, &words) => {}
            _ if files::is_of_files(self.image(), verb, &words) || files::is_of_status(self.image(), verb, &words) => {}
            _ => cluster::act(self.image(), verb, &words),
        }
    }

    fn enable_args(&mut self) -> Vec<String> {
        let Some(host) = &self.host else { return self.image().enable_args() };
        let (addr, base) = (host.cluster.addr(), host.cluster.base_url());
        ["enable", "--proxy", &addr, "--base-url", &base, "--ca-file", "/root/ca.pem"].map(str::to_owned).to_vec()
    }

    /// The image's files: all, the `installation`, or what is below some directories.
    fn seen(&mut self, places: &[&str]) -> Vec<String> {
        if places == ["installation"] {
            return self.image().installation();
        }
        let image = self.image();
        if image.live.is_some() {
            let below = |place: &&str| {
                let lines = super::tree(&image.path(place)).into_iter();
                lines.filter(|line| !line.starts_with("updates.yaml") && !line.starts_with(".lock")).collect::<Vec<_>>()
            };
            return places.iter().flat_map(below).collect();
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
        let line = [as_json, flags, &args[variables..]].concat();
        let begun = Instant::now();
        if let Some(host) = &self.host {
            let ran = host.updater(&line);
            return outcome::check(&ran, begun.elapsed(), args, expected);
        }
        let before = changes_nothing.then(|| self.image().tree_but_status());
        let ran = self.image().run_with(&line, &env);
        outcome::check(&ran, begun.elapsed(), args, expected);
        if let Some(before) = before {
            assert_eq!(self.image().tree_but_status(), before, "{args:?}");
        }
    }
}

/// A new image, as `kind` has it.
fn image(kind: &str, words: &[&str]) -> Image {
    let image = match (kind, words) {
        ("image", [version]) => return Image::new(version),
        ("enabled", [version]) => return Image::quiet(version),
        ("with", versions) => return Image::with(versions),
        ("closed", versions) => {
            let image = Image::with(versions);
            image.say(versions[0], "no");
            image.follow(&image.channel(), &[]).ok();
            assert_eq!(image.linked(), versions[0]);
            image.set_window(&closed_window());
            return image;
        }
        ("moved", [old, new]) => {
            let image = Image::enabled(old);
            let database = image.path("/var/lib/teleport/proc/sqlite.db");
            std::fs::create_dir_all(database.parent().unwrap()).unwrap();
            let write = |sql: &str| rusqlite::Connection::open(&database).unwrap().execute_batch(sql).unwrap();
            write("CREATE TABLE rows (id INTEGER PRIMARY KEY, note TEXT); INSERT INTO rows (note) VALUES ('by one')");
            image.update_to(new);
            write("INSERT INTO rows (note) VALUES ('by two')");
            image.cluster.set_directive(Find::version(old));
            return image;
        }
        _ => Image::new("1.0.0"),
    };
    let short = ["answer: 3s", "stall: 400ms", "tries: 2", "resumes: 1"];
    let limits = if kind == "short" { &short } else { words };
    let limits: String = limits.iter().map(|limit| format!("    {limit}\n")).collect();
    image.settings(&format!("  network:\n{limits}"));
    image.enable(&[]).ok();
    image.cluster.forget_requests();
    image
}

fn is_of_variable(char: char) -> bool {
    char.is_ascii_alphabetic() || char == '_'
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
