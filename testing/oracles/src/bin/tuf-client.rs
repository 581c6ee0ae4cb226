//! tuf-client   a TUF client with the command line of the public conformance suite, on the agent's rules, its store and its way
//! of asking. A test program, not shipped.
//!
//!     tuf-client --metadata-dir DIR init ROOT
//!     tuf-client --metadata-dir DIR --metadata-url URL refresh
//!     tuf-client --metadata-dir DIR --metadata-url URL --target-name NAME... --target-base-url URL --target-dir DIR download
//!
//! The time is that of `TUF_NOW` (RFC 3339); else the clock's, and what faketime(1) adds to it: its library does not reach a
//! static program. Ends with 0 or 1.

#![allow(clippy::disallowed_methods, reason = "no host of ours is cared for here")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use http_client::{Client, HttpSettings, Request};
use jiff::Timestamp;
use teleport_update::testing::release::{BaseUrl, Look, Metadata};
use tuf::{Place, ROOT, Repository, TrustedSet};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What the suite gives: options by name, and the words that are none.
struct Arguments {
    options: HashMap<String, Vec<String>>,
    words: Vec<String>,
}

impl Arguments {
    fn read() -> Self {
        let (mut options, mut words) = (HashMap::<String, Vec<String>>::new(), Vec::new());
        let mut given = std::env::args().skip(1);
        while let Some(word) = given.next() {
            match word.strip_prefix("--") {
                Some(name) => options.entry(name.to_owned()).or_default().extend(given.next()),
                None => words.push(word),
            }
        }
        Self { options, words }
    }

    fn one(&self, name: &str) -> Outcome<&str> {
        let value = self.options.get(name).and_then(|values| values.first());
        value.map(String::as_str).ok_or_else(|| format!("--{name} is missing").into())
    }
}

fn main() -> ExitCode {
    match run(&Arguments::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tuf-client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let dir = Path::new(arguments.one("metadata-dir")?);
    // The suite's servers speak HTTP without TLS.
    let mut settings = HttpSettings { insecure: true, user_agent: "tuf-client", ..HttpSettings::default() };
    settings.retry.tries = 1;
    let client = Client::new(&settings)?;
    let base: BaseUrl = arguments.one("metadata-url").unwrap_or("https://none.invalid").parse()?;
    let now = time()?;
    let look = Look { client: &client, now, cancelled: &|| false, warn: &|what| eprintln!("{what}") };
    let mut place = Metadata { dir, url: &base, look: &look };
    match arguments.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["init", root] => {
            let bytes = fs::read(root)?;
            TrustedSet::new(&bytes, now)?;
            place.keep(ROOT, &bytes)?;
        }
        ["refresh"] => drop(Repository::refresh(&mut place, now)?),
        ["download"] => {
            let mut repository = Repository::refresh(&mut place, now)?;
            for name in arguments.options.get("target-name").into_iter().flatten() {
                download(arguments, &mut repository, &client, name)?;
            }
        }
        _ => return Err("one of init ROOT, refresh, download".into()),
    }
    Ok(())
}

fn time() -> Outcome<Timestamp> {
    if let Ok(text) = std::env::var("TUF_NOW") {
        return Ok(text.parse()?);
    }
    // Seconds, such as +60 or -60.
    let added: i64 = std::env::var("FAKETIME").map_or(Ok(0), |text| text.trim_start_matches('+').parse())?;
    Ok(Timestamp::from_second(Timestamp::now().as_second() + added)?)
}

fn download(arguments: &Arguments, repository: &mut Repository<'_>, client: &Client, name: &str) -> Outcome<()> {
    let file = repository.target(name)?.ok_or("no role names this target")?;
    let here = Path::new(arguments.one("target-dir")?).join(name.replace('%', "%25").replace('/', "%2F"));
    if fs::read(&here).is_ok_and(|bytes| file.is(&bytes)) {
        return Ok(());
    }
    let (folder, base) = name.rsplit_once('/').map_or((String::new(), name), |(dir, base)| (format!("{dir}/"), base));
    let named = if repository.is_consistent()? { format!("{folder}{}.{base}", file.prefix()) } else { name.to_owned() };
    let url = format!("{}/{named}", arguments.one("target-base-url")?.trim_end_matches('/'));
    let answer = client.ask(&Request { cut: Some(file.length + 1), ..Request::get(url) }, &|| false)?;
    if answer.status != 200 || !file.is(&answer.body) {
        return Err(format!("{name}: answered {}, or not the file that is meant", answer.status).into());
    }
    Ok(fs::write(here, answer.body)?)
}
