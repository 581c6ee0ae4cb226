//! `simulate`: what a release would do to this fleet, or to one that is made up; or a script of questions.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use fleet_cli::args::{GlobalArgs, PrintFormat, SimulateArgs};
use fleet_cli::{Failure, Verb, asked};
use fleet_engine::resource::{self, Resource};
use fleet_simulator::forecast::{self, Cut, Forecast, ForecastPlan, HostShare, HostSource, KnownHost, Made, Span};
use fleet_wire::api::{Code, HostView};
use jiff::{SignedDuration, Timestamp};

use crate::fault::UsageFault;
use crate::offline;
use crate::simulation::{KINDS, MADE_UP, known};
use crate::terminal;

/// Bytes of a megabyte, as networks count.
const MEGABYTE: u64 = 1_000_000;

/// `simulate`.
///
/// # Errors
/// One line: files that cannot be read, a server that cannot be asked, a configuration that is refused.
pub(crate) fn simulate(options: &SimulateArgs, global: &GlobalArgs) -> Result<ExitCode, UsageFault> {
    match &options.script {
        Some(script) => run_script(script, options.seed)?,
        None => show(&forecast::run(&plan(options, global)?)?, options, global)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `simulate --script`.
fn run_script(script: &Path, seed: u64) -> io::Result<()> {
    let text = offline::read(script)?;
    let mut out = BufWriter::new(io::stdout().lock());
    fleet_simulator::run(&text, seed, |line| writeln!(out, "{line}"))?;
    out.flush()
}

fn show(forecast: &Forecast, options: &SimulateArgs, global: &GlobalArgs) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match &options.svg {
        Some(file) if file.as_os_str() == "-" => return out.write_all(forecast.svg().as_bytes()),
        Some(file) => {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("cannot write {}: {error}", file.display()));
            #[expect(clippy::disallowed_methods, reason = "a picture that is half written is asked for again")]
            fs::write(file, forecast.svg()).map_err(named)?;
        }
        None => {}
    }
    match global.format.unwrap_or_default() {
        PrintFormat::Text => out.write_all(forecast.text().as_bytes()),
        format => {
            let document = fleet_cli::document(format, &forecast.json()).map_err(io::Error::other)?;
            out.write_all(document.as_bytes())
        }
    }
}

fn plan(options: &SimulateArgs, global: &GlobalArgs) -> Result<ForecastPlan, UsageFault> {
    let used = |flag: &'static str| move |what: String| UsageFault::Usage(format!("--{flag}: {what}"));
    let lasts = |flag: &'static str, text: &str| length(text).map_err(used(flag));
    let bad = match (&options.bad, &options.bad_label) {
        (Some(share), _) => HostShare::parse(share).map_err(used("bad"))?,
        (None, Some(_)) => HostShare::ALL,
        (None, None) => HostShare::NONE,
    };
    if options.bad_after.is_some() && bad == HostShare::NONE {
        return Err(used("bad-after")("no host is bad: give --bad or --bad-label".to_owned()));
    }
    let to = options.to.as_deref().map(str::parse).transpose();
    let plan = ForecastPlan {
        resources: Vec::new(),
        to: to.map_err(|error| UsageFault::Usage(format!("--to: {error}")))?,
        hosts: HostSource::Made(MADE_UP),
        begin: time(&options.at)?,
        length: lasts("for", &options.length)?,
        seed: options.seed,
        bad,
        bad_label: options.bad_label.as_deref().map(label).transpose()?,
        bad_after: lasts("bad-after", options.bad_after.as_deref().unwrap_or("0s"))?,
        vanish: HostShare::parse(&options.vanish).map_err(used("vanish"))?,
        cuts: all("network-cut", &options.network_cut, Cut::parse)?,
        down: all("server-down", &options.server_down, Span::parse)?,
        update_in: lasts("update-in", &options.update_in)?,
        every: lasts("every", &options.every)?,
        size: u64::from(options.size) * MEGABYTE,
    };
    let made = made(&options.hosts)?;
    let is_of_server = options.files.is_empty() && options.named.is_empty();
    // What is asked of the server comes last: wrong usage is said at once.
    let resources = if is_of_server { of_server(global)? } else { of_files(options)? };
    let hosts = match (made, &options.inventory) {
        (Some(made), _) => made,
        (None, Some(file)) => HostSource::Known(inventory(&offline::read(file)?, &file.display().to_string())?),
        (None, None) if is_of_server => hosts_of_server(global)?,
        (None, None) => HostSource::Made(MADE_UP),
    };
    Ok(ForecastPlan { resources, hosts, ..plan })
}

/// What the words of a flag say.
fn all<T>(flag: &str, words: &[String], parse: fn(&str) -> Result<T, String>) -> Result<Vec<T>, UsageFault> {
    let wrong = |what| UsageFault::Usage(format!("--{flag}: {what}"));
    words.iter().map(|word| parse(word).map_err(wrong)).collect()
}

fn length(text: &str) -> Result<SignedDuration, String> {
    let length = yaml::scalar::duration(text).and_then(|length| SignedDuration::try_from(length).ok());
    length.ok_or_else(|| format!("{text:?} is no length of time: give 90s, 10m, 3h or 30d"))
}

fn time(text: &str) -> Result<Timestamp, UsageFault> {
    if text == "now" {
        return Ok(crate::clock::now());
    }
    let wrong =
        |_| UsageFault::Usage(format!("--at: {text:?} is no time: give one such as 2026-01-05T00:00:00Z, or now"));
    text.parse().map_err(wrong)
}

fn label(text: &str) -> Result<(String, String), UsageFault> {
    let label = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    label.ok_or_else(|| {
        UsageFault::Usage(format!("--bad-label: {text:?} is no label: give KEY=VALUE, such as os=debian"))
    })
}

/// `--hosts N`, or `--hosts GROUP=N` for each group; `None`: nothing is made up.
fn made(words: &[String]) -> Result<Option<HostSource>, UsageFault> {
    let wrong = |word: &str| UsageFault::Usage(format!("--hosts: {word:?}: give N once, or GROUP=N for each group"));
    let number = |word: &str, count: &str| count.parse::<u32>().map_err(|_| wrong(word));
    if let [only] = words
        && !only.contains('=')
    {
        return Ok(Some(HostSource::Made(number(only, only)?)));
    }
    let mut made = Vec::with_capacity(words.len());
    for word in words {
        let (group, count) = word.rsplit_once('=').ok_or_else(|| wrong(word))?;
        made.push(Made { group: group.to_owned(), count: number(word, count)? });
    }
    Ok((!made.is_empty()).then_some(HostSource::MadeFor(made)))
}

fn of_files(options: &SimulateArgs) -> Result<Vec<Resource>, UsageFault> {
    let mut resources = Vec::new();
    fleet_cli::args::read_once(options.files.iter().chain(&options.named))
        .map_err(|fault| UsageFault::Usage(fault.to_owned()))?;
    for file in options.files.iter().chain(&options.named) {
        let faults = |faults: resource::Faults| {
            let shown: Vec<String> = faults.list().iter().map(|fault| format!("{}: {fault}", file.display())).collect();
            UsageFault::Failed(shown.join("\n"))
        };
        resources.extend(resource::read(&offline::read(file)?).map_err(faults)?);
    }
    Ok(resources)
}

/// Configuration and version of the server.
fn of_server(global: &GlobalArgs) -> Result<Vec<Resource>, UsageFault> {
    let mut resources = Vec::new();
    for kind in KINDS {
        let verb = Verb::Get { what: kind.as_str().to_owned() };
        match asked(&verb, PrintFormat::Yaml, global) {
            Ok(text) => {
                resources.extend(resource::read(&text).map_err(|faults| UsageFault::Failed(faults.to_string()))?)
            }
            // Which of them there are is what is asked.
            Err(failure) if failure.is(Code::NotFound) => {}
            Err(failure) => {
                return Err(match unasked(failure) {
                    UsageFault::Failed(what) => UsageFault::Failed(format!(
                        "{what}; without a server, give the configuration: teleport-fleet simulate -f FILE"
                    )),
                    usage => usage,
                });
            }
        }
    }
    Ok(resources)
}

fn hosts_of_server(global: &GlobalArgs) -> Result<HostSource, UsageFault> {
    let text = asked(&Verb::Hosts(Box::default()), PrintFormat::Json, global).map_err(unasked)?;
    let known = inventory(&text, "the server's hosts")?;
    if known.is_empty() {
        terminal::say(format_args!("note: the server knows no hosts: {MADE_UP} are made up"));
        return Ok(HostSource::Made(MADE_UP));
    }
    Ok(HostSource::Known(known))
}

/// The server could not be asked, or refused.
fn unasked(failure: Failure) -> UsageFault {
    if failure.code == Failure::USAGE {
        UsageFault::Usage(failure.message)
    } else {
        UsageFault::Failed(failure.message)
    }
}

/// Hosts as `hosts --format json` writes them.
fn inventory(text: &str, name: &str) -> Result<Vec<KnownHost>, UsageFault> {
    let wrong = |error| {
        UsageFault::Failed(format!("{name}: {error}; expected what `teleport-fleet hosts --format json` writes"))
    };
    let hosts: Vec<HostView> = serde_json::from_str(text).map_err(wrong)?;
    Ok(hosts.into_iter().map(known).collect())
}
