//! `tuf` and `mirror`: what works on directories, without a server.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::str::FromStr;

use error::Code;
use fleet_cli::args::{GlobalArgs, MirrorArgs, PrintFormat, TufKeys, TufVerb};
use fleet_cli::read_text;
use fleet_tuf::{Founders, MirrorOrder, Policy, Refreshed, SignOrder, SigningKey, SiteRepository, Verdict};
use http_client::{Client, HttpSettings};
use jiff::Timestamp;
use protocol::ParseError;
use serde_json::json;

use crate::clock;
use crate::fault::UsageFault;
use crate::terminal;

/// What servers see.
const USER_AGENT: &str = concat!("teleport-fleet/", env!("CARGO_PKG_VERSION"));
/// Most bytes of a file of certificates.
const MAX_PEM: u64 = 1 << 20;
const DAY: u64 = 24 * HOUR;
const HOUR: u64 = 3600;

/// `tuf`.
///
/// # Errors
/// One line.
pub(crate) fn tuf(verb: &TufVerb, global: &GlobalArgs) -> Result<ExitCode, UsageFault> {
    let now = clock::now();
    let said = match verb {
        TufVerb::Key { file } => {
            let id = fleet_tuf::make_key(file).map_err(fault)?;
            let shown = file.display();
            vec![format!("{shown}: the secret key; keep it to yourself"), format!("{shown}.pub: key {id}")]
        }
        TufVerb::Init(init) => {
            let policy = Policy {
                root: u64::from(init.root_days) * DAY,
                targets: u64::from(init.targets_days) * DAY,
                snapshot: u64::from(init.snapshot_days) * DAY,
                timestamp: u64::from(init.timestamp_days) * DAY,
                refresh: u64::from(init.refresh_hours) * HOUR,
            };
            SiteRepository::init(&init.dir, &founders(&init.keys), &policy, now).map_err(fault)?;
            let shown = init.dir.display();
            vec![format!(
                "{shown}: root and targets wait for their signatures: `teleport-fleet tuf sign {shown} --key KEY`"
            )]
        }
        TufVerb::Add { dir, files, remove } => {
            SiteRepository::open(dir).and_then(|site| site.add(files, remove, now)).map_err(fault)?
        }
        TufVerb::Sign(sign) => {
            let key = SigningKey::read(&sign.key).map_err(fault)?;
            let (own_copy, unchecked) = (sign.check.as_deref(), sign.unchecked);
            let order = SignOrder { key: &key, name: &sign.key, own_copy, unchecked, now };
            SiteRepository::open(&sign.dir).and_then(|site| site.sign(&order)).map_err(fault)?
        }
        TufVerb::Commit(online) => {
            let key = SigningKey::read(&online.online_key).map_err(fault)?;
            let published = SiteRepository::open(&online.dir).and_then(|site| site.commit(&key, now));
            published.map_err(fault)?
        }
        TufVerb::Refresh { online, above } => {
            let key = SigningKey::read(&online.online_key).map_err(fault)?;
            let refreshed = SiteRepository::open(&online.dir).and_then(|site| site.refresh(&key, *above, now));
            vec![match refreshed.map_err(fault)? {
                Refreshed::NotYet => "nothing to do: more than half of the time is left".to_owned(),
                Refreshed::Renewed(version) => format!("published timestamp version {version}"),
            }]
        }
        TufVerb::Rotate { dir, keys } => {
            SiteRepository::open(dir).and_then(|site| site.rotate(&founders(keys), now)).map_err(fault)?
        }
        TufVerb::Check { place, root, at } => {
            let at = at.as_deref().map_or(Ok(now), str::parse::<Timestamp>);
            let at = at.map_err(|error| UsageFault::Usage(format!("--at: {error}")))?;
            let client = client(global)?;
            let (verdict, _) = fleet_tuf::check(place, root, &client, at, &[]).map_err(fault)?;
            match global.format.unwrap_or_default() {
                PrintFormat::Text => lines(place, &verdict, at),
                _ => vec![json(&verdict)],
            }
        }
    };
    print(&said)
}

/// `mirror`.
///
/// # Errors
/// One line.
pub(crate) fn mirror(args: &MirrorArgs, global: &GlobalArgs) -> Result<ExitCode, UsageFault> {
    let order = MirrorOrder {
        versions: &parsed("--versions", &args.versions)?,
        editions: &parsed("--edition", &args.edition)?,
        archs: &parsed("--arch", &args.arch)?,
        from: args.from.trim_end_matches('/'),
        to: &args.to,
        tuf_root: args.tuf_root.as_deref(),
        public_key: args.public_key.as_deref(),
        now: clock::now(),
    };
    let (mut told, mut is_whole) = (Ok(ExitCode::SUCCESS), true);
    let mut say = |brought: Result<String, error::Error>| match brought {
        Ok(line) => told = print(&[line]),
        Err(error) => {
            is_whole = false;
            terminal::say(format_args!("error: {}", fault(error)));
        }
    };
    fleet_tuf::mirror(&order, &client(global)?, &mut say).map_err(fault)?;
    if is_whole { told } else { Ok(ExitCode::FAILURE) }
}

/// The words behind a flag. Errors: one is none.
fn parsed<T: FromStr<Err = ParseError>>(flag: &str, words: &[String]) -> Result<Vec<T>, UsageFault> {
    let parsed = words.iter().map(|word| word.trim().trim_start_matches('v').parse());
    parsed.collect::<Result<_, _>>().map_err(|error| UsageFault::Usage(format!("{flag}: {error}")))
}

fn founders(keys: &TufKeys) -> Founders {
    let TufKeys { root_key, targets_key, online_key, root_threshold, targets_threshold, no_spare } = keys.clone();
    Founders { root: root_key, targets: targets_key, online: online_key, root_threshold, targets_threshold, no_spare }
}

fn client(global: &GlobalArgs) -> Result<Client, UsageFault> {
    let variable = |name: &str| std::env::var_os(name)?.into_string().ok();
    let mut settings = HttpSettings::from_env(USER_AGENT, &variable);
    if let Some(file) = &global.ca_file {
        let text = read_text(file, MAX_PEM).map_err(|error| UsageFault::Usage(format!("--ca-file: {error}")))?;
        (settings.ca_pem, settings.ca_place) = (Some(text), "--ca-file");
    }
    Client::new(&settings).map_err(fault)
}

fn lines(place: &str, verdict: &Verdict, at: Timestamp) -> Vec<String> {
    let Verdict { root, targets, ends } = verdict;
    let mut said = vec![format!("{place}: a host accepts it: root version {root}, targets version {targets}")];
    let days = |end: Timestamp| (end.duration_since(at).as_hours() + 12) / 24;
    said.extend(ends.iter().map(|(role, end)| format!("{role:<10} ends {end}, in {} days", days(*end))));
    said
}

fn json(verdict: &Verdict) -> String {
    let ends: serde_json::Map<_, _> = verdict.ends.iter().map(|(role, end)| (role.clone(), json!(end))).collect();
    json!({ "root": verdict.root, "targets": verdict.targets, "expires": ends }).to_string()
}

fn fault(error: error::Error) -> UsageFault {
    let line = error.to_string();
    if error.code == Code::Usage {
        UsageFault::Usage(line)
    } else {
        UsageFault::Failed(format!("{line} [{}]", error.code.as_str()))
    }
}

/// Whoever reads us may have read enough.
fn print(said: &[String]) -> Result<ExitCode, UsageFault> {
    let mut out = io::stdout().lock();
    for line in said {
        match writeln!(out, "{line}") {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    Ok(ExitCode::SUCCESS)
}
