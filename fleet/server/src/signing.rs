//! `tuf` and `mirror`: what works on directories, without a server.

use std::io::{self, Write as _};
use std::process::ExitCode;

use error::Code;
use fleet_cli::args::{GlobalArgs, PrintFormat, TufOnline, TufVerb};
use fleet_cli::read_text;
use fleet_tuf::{MirrorOrder, SigningKey, SiteRepository, Verdict};
use http_client::{Client, HttpSettings};
use jiff::Timestamp;
use serde_json::json;

use crate::clock;
use crate::fault::UsageFault;
use crate::outbound;

/// Most bytes of a file of certificates.
const MAX_PEM: u64 = 1 << 20;

/// `tuf`.
///
/// # Errors
/// One line.
pub(crate) fn tuf(verb: &TufVerb, global: &GlobalArgs) -> Result<ExitCode, UsageFault> {
    print(&done(verb, global, clock::now()).map_err(fault)?)
}

/// Does it, and gives what is said of it.
fn done(verb: &TufVerb, global: &GlobalArgs, now: Timestamp) -> error::Result<Vec<String>> {
    Ok(match verb {
        TufVerb::Key { file } => {
            let (id, shown) = (fleet_tuf::make_key(file)?, file.display());
            vec![format!("{shown}: the secret key; keep it to yourself"), format!("{shown}.pub: key {id}")]
        }
        TufVerb::Init { dir, keys, policy } => {
            SiteRepository::init(dir, keys, policy, now)?;
            let shown = dir.display();
            vec![format!(
                "{shown}: root and targets wait for their signatures: `teleport-fleet tuf sign {shown} --key KEY`"
            )]
        }
        TufVerb::Add { dir, files, remove, known } => SiteRepository::open(dir)?.add(files, remove, known, now)?,
        TufVerb::Sign { dir, order } => SiteRepository::open(dir)?.sign(order, now)?,
        TufVerb::Commit(TufOnline { dir, online_key }) => {
            let key = SigningKey::read(online_key)?;
            SiteRepository::open(dir)?.commit(&key, now)?
        }
        TufVerb::Refresh { online: TufOnline { dir, online_key }, above } => {
            let key = SigningKey::read(online_key)?;
            vec![match SiteRepository::open(dir)?.refresh(&key, *above, now)? {
                None => "nothing to do: more than half of the time is left".to_owned(),
                Some(version) => format!("published timestamp version {version}"),
            }]
        }
        TufVerb::Rotate { dir, keys } => SiteRepository::open(dir)?.rotate(keys, now)?,
        TufVerb::Check { place, root, at } => {
            let at = at.as_deref().map_or(Ok(now), str::parse::<Timestamp>);
            let at = at.map_err(|error| error::Error::new(Code::Usage, format!("--at: {error}")))?;
            let (verdict, _) = fleet_tuf::check(place, root, &client(global)?, at, &[])?;
            match global.format.unwrap_or_default() {
                PrintFormat::Text => lines(place, &verdict, at),
                _ => vec![json(&verdict)],
            }
        }
    })
}

/// `mirror`.
///
/// # Errors
/// One line.
pub(crate) fn mirror(order: &MirrorOrder, global: &GlobalArgs) -> Result<ExitCode, UsageFault> {
    let (mut told, mut is_whole) = (Ok(ExitCode::SUCCESS), true);
    let mut say = |brought: Result<String, error::Error>| match brought {
        Ok(line) => told = print(&[line]),
        Err(error) => {
            is_whole = false;
            fault(error).tell();
        }
    };
    let client = client(global).map_err(fault)?;
    fleet_tuf::mirror(order, &client, clock::now(), &mut say).map_err(fault)?;
    if is_whole { told } else { Ok(ExitCode::FAILURE) }
}

fn client(global: &GlobalArgs) -> error::Result<Client> {
    let variable = |name: &str| std::env::var_os(name)?.into_string().ok();
    let mut settings = HttpSettings::from_env(outbound::USER_AGENT, &variable);
    if let Some(file) = &global.ca_file {
        let refused = |error| error::Error::new(Code::Usage, format!("--ca-file: {error}"));
        (settings.ca_pem, settings.ca_place) = (Some(read_text(file, MAX_PEM).map_err(refused)?), "--ca-file");
    }
    Client::new(&settings)
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

fn print(said: &[String]) -> Result<ExitCode, UsageFault> {
    let mut out = io::stdout().lock();
    said.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(ExitCode::SUCCESS)
}
