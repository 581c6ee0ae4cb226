//! Where the agent has its data by its own word, against where the settings say that it has (SPEC §6, another data
//! directory): a database that is looked for in the wrong place is taken for none, and no downgrade would restore it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::Updates;
use crate::config::agent::AgentConfig;
use crate::context::Context;
use crate::host::durable;
use crate::host::layout::{DATABASE, DEFAULT_DATA_DIR};
use crate::host::process::{self, FileId, Process};
use crate::report::{Code, Error, Result};
use crate::service::{AgentState, Service};
use crate::store::contents::AGENT;

/// Largest file of environment variables that is read, bytes.
const MAX_ENVIRONMENT: u64 = 64 * 1024;

/// What speaks against `data_dir` as the agent's; `None` if nothing does. The database that it has open counts most: it is a file,
/// whatever its name. Without one its arguments and environment count, and while it does not run what was seen last, and the words
/// of its unit or command. Words do not count against an operator's own in `spec.data_dir`.
///
/// Errors: `io`; the service manager does not answer; the agent's own configuration cannot be read.
pub(super) fn other(
    context: &Context,
    updates: &Updates,
    state: &AgentState,
    data_dir: &Path,
) -> Result<Option<Error>> {
    let is_settled = updates.spec().data_dir.is_some();
    let agents = agents(context, updates, state)?;
    for agent in &agents {
        let named = match opened(agent, data_dir)? {
            Opened::Ours => return Ok(None),
            Opened::Other(dir) => Some(dir),
            Opened::Nothing if is_settled => None,
            Opened::Nothing => by_words(context, &Words::of_process(agent)?, data_dir)?,
        };
        if let Some(named) = named {
            return Ok(Some(told(&named, data_dir)));
        }
    }
    if !agents.is_empty() || is_settled {
        return Ok(None);
    }
    let words = Words::of_service(context, updates)?;
    match &updates.status().agent_data_dir {
        Some(seen) if seen != data_dir => Ok(Some(told(seen, data_dir))),
        // It can start an agent with any directory.
        None if words.start_other_program() => Ok(Some(not_understood(&words, data_dir))),
        _ => Ok(by_words(context, &words, data_dir)?.map(|named| told(&named, data_dir))),
    }
}

/// The directory of the database that the running agent is seen to have open, where that is to be kept for when it does not run:
/// it is another one than was seen last, and words would not tell it.
///
/// Errors: as [`other`].
pub(crate) fn to_remember(context: &Context, updates: &Updates, data_dir: &Path) -> Result<Option<PathBuf>> {
    let state = context.service(updates)?.state(&context.stop_proof()?)?;
    let last = updates.status().agent_data_dir.as_deref();
    for agent in agents(context, updates, &state)? {
        let seen = match opened(&agent, data_dir)? {
            Opened::Ours => data_dir.to_owned(),
            Opened::Other(dir) => dir,
            Opened::Nothing => continue,
        };
        let is_told = seen == data_dir && last.is_none() && !Words::of_service(context, updates)?.start_other_program();
        return Ok(Some(seen).filter(|seen| !is_told && last != Some(seen)));
    }
    Ok(None)
}

/// The running agent's processes: where the service runs, what runs beside it is another agent.
fn agents(context: &Context, updates: &Updates, state: &AgentState) -> Result<Vec<Process>> {
    let mut agents = context.service(updates)?.agents(&context.stop_proof()?)?;
    agents.retain(|agent| !(state.running && state.unmanaged.contains(&agent.pid)));
    // A program of another name, such as a script that starts the agent.
    if agents.is_empty()
        && let Some(main) = state.main_pid.map_or(Ok(None), Process::by_pid)?.filter(|main| !main.hidden)
    {
        agents.push(main.behind_emulator()?);
    }
    Ok(agents)
}

/// Errors: `other_data_dir` if the place counts, as a database is saved or restored or the command names it, and something speaks
/// against it.
pub(crate) fn refuse(counts: bool, other: Option<&Error>) -> Result<()> {
    other.filter(|_| counts).map_or(Ok(()), |error| Err(error.clone()))
}

/// The contradiction in words.
fn told(other: &Path, data_dir: &Path) -> Error {
    let (other, expected) = (other.display(), data_dir.display());
    if other.to_string() == expected.to_string() {
        let what =
            format!("the agent's {other} is another directory than this host's (BindPaths=, a mount of its own)");
        return Error::new(Code::OtherDataDir, what).advise(
            "run `teleport-update enable --data-dir DIR` with the directory that the host has it in, or correct the unit",
        );
    }
    let what = format!("the agent uses the data directory {other}, but teleport-update expects {expected}");
    Error::new(Code::OtherDataDir, what).advise(format!(
        "if this is intended, run `teleport-update enable --data-dir {other}`; otherwise correct the unit or command that \
         starts the agent"
    ))
}

/// What starts the agent does not tell its data directory, and nobody has seen it yet.
fn not_understood(words: &Words, data_dir: &Path) -> Error {
    let line: Vec<_> = words.arguments.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let what =
        format!("cannot tell which data directory the agent uses: it does not run, and `{}` starts it", line.join(" "));
    Error::new(Code::OtherDataDir, what).advise(format!(
        "start the agent and run the command again, or run `teleport-update enable --data-dir {}`",
        data_dir.display()
    ))
}

/// The database that an agent has open.
enum Opened {
    Ours,
    Other(PathBuf),
    Nothing,
}

fn opened(agent: &Process, data_dir: &Path) -> Result<Opened> {
    let database = data_dir.join(DATABASE);
    let ours = FileId::find(&database)?;
    let here = agent.shares_our_files()?;
    let mut other = Opened::Nothing;
    for (name, file) in process::open_files(agent, Path::new(DATABASE))? {
        // One that was replaced has another inode; where the agent has mounts of its own the name says nothing.
        if (here && name == database) || (file.is_some() && file == ours) {
            return Ok(Opened::Ours);
        }
        other = Opened::Other(name.ancestors().nth(2).unwrap_or(&name).to_owned());
    }
    Ok(other)
}

/// What an agent is, or would be, started with.
#[derive(Debug, Default)]
struct Words {
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
}

impl Words {
    fn of_process(agent: &Process) -> Result<Self> {
        Ok(Self { arguments: agent.args()?, environment: process::environment(agent)? })
    }

    fn of_service(context: &Context, updates: &Updates) -> Result<Self> {
        let split = |text: &str| {
            let unquoted = |word: &str| word.trim_matches(['"', '\'']).as_bytes().to_vec();
            text.split_whitespace().map(unquoted).collect::<Vec<_>>()
        };
        match context.service(updates)? {
            Service::Systemd(systemd) => {
                let start = systemd.start_line()?;
                let mut environment = Vec::new();
                for file in start.environment_files.iter().map(|file| context.layout.real_path(file)) {
                    let text = durable::read_limited(&file, MAX_ENVIRONMENT)?.unwrap_or_default();
                    environment.extend(String::from_utf8_lossy(&text).lines().map(unquoted_line));
                }
                // What is in a file goes before what is in the unit (systemd.exec(5)).
                environment.extend(split(&start.environment));
                let words = Self { arguments: split(&start.arguments), environment };
                Ok(Self { arguments: words.expanded(), ..words })
            }
            Service::Commands(commands) => Ok(Self { arguments: split(&commands.start), environment: Vec::new() }),
            Service::None => Ok(Self::default()),
        }
    }

    /// The arguments with the variables of the environment, as systemd puts them in: `${NAME}` within a word, and `$NAME` alone
    /// as words (systemd.service(5)).
    fn expanded(&self) -> Vec<Vec<u8>> {
        let value = |name: &str| self.variable(name).map(|value| value.into_os_string().into_encoded_bytes());
        let mut words = Vec::new();
        for word in &self.arguments {
            let text = String::from_utf8_lossy(word);
            match text.strip_prefix('$').filter(|name| !name.starts_with(['{', '$'])) {
                Some(name) => {
                    let value = value(name).unwrap_or_default();
                    words.extend(
                        value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_vec),
                    );
                }
                None => {
                    let mut rest = &*text;
                    let mut whole = Vec::new();
                    while let Some((before, (name, after))) =
                        rest.split_once("${").and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
                    {
                        whole.extend_from_slice(before.as_bytes());
                        whole.extend(value(name).unwrap_or_default());
                        rest = after;
                    }
                    whole.extend_from_slice(rest.as_bytes());
                    words.push(whole);
                }
            }
        }
        words
    }

    /// Whether what is started is another program than the agent's: which one it starts in turn is not told.
    fn start_other_program(&self) -> bool {
        let is_agent = |word: &Vec<u8>| Path::new(OsStr::from_bytes(word)).file_name() == Some(OsStr::new(AGENT));
        self.arguments.first().is_some_and(|_| !self.arguments.iter().any(is_agent))
    }

    /// The value of `--name VALUE` or `--name=VALUE`, of a short `-n VALUE`.
    fn flag(&self, names: &[&str]) -> Option<PathBuf> {
        self.arguments.iter().enumerate().find_map(|(at, word)| {
            names.iter().find_map(|name| match word.strip_prefix(name.as_bytes())? {
                b"" => self.arguments.get(at + 1).map(|value| path(value)),
                [b'=', value @ ..] => Some(path(value)),
                _ => None,
            })
        })
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        let value = |line: &'_ [u8]| line.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(path);
        self.environment.iter().find_map(|line| value(line)).filter(|value| !value.as_os_str().is_empty())
    }
}

fn unquoted_line(line: &str) -> Vec<u8> {
    let line = line.trim();
    match line.split_once('=') {
        Some((name, value)) => format!("{name}={}", value.trim_matches(['"', '\''])).into_bytes(),
        None => line.as_bytes().to_vec(),
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// The data directory that `words` name, where it is not `data_dir`.
fn by_words(context: &Context, words: &Words, data_dir: &Path) -> Result<Option<PathBuf>> {
    let named = match words.flag(&["--data-dir"]).or_else(|| words.variable("TELEPORT_DATA_DIR")) {
        Some(dir) => Some(dir),
        None => match words.flag(&["--config", "-c"]).or_else(|| words.variable("TELEPORT_CONFIG_FILE")) {
            Some(file) if context.layout.real_path(&file) == context.layout.agent_config => None,
            Some(file) => match AgentConfig::read(&context.layout.real_path(&file)) {
                Err(error) if error.code == Code::Permission => None,
                config => config?.map(|config| config.data_dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA_DIR))),
            },
            None => None,
        },
    };
    let Some(named) = named.filter(|named| named.is_absolute()) else { return Ok(None) };
    let real = context.layout.real_path(&named);
    let file = FileId::find(&real)?;
    let is_ours = real == data_dir || (file.is_some() && file == FileId::find(data_dir)?);
    Ok((!is_ours).then_some(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(arguments: &[&str], environment: &[&str]) -> Words {
        let bytes = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Words { arguments: bytes(arguments), environment: bytes(environment) }
    }

    #[test]
    fn flags_and_variables_are_read_as_the_agent_reads_them() {
        for arguments in [["start", "--data-dir=/d", "-c"], ["start", "--data-dir", "/d"]] {
            assert_eq!(words(&arguments, &[]).flag(&["--data-dir"]), Some("/d".into()), "{arguments:?}");
        }
        assert_eq!(words(&["start", "-c", "/c.yaml"], &[]).flag(&["--config", "-c"]), Some("/c.yaml".into()));
        assert_eq!(words(&["start", "--data-directory=/d"], &[]).flag(&["--data-dir"]), None);
        let set = words(&[], &["PATH=/bin", "TELEPORT_DATA_DIR=/d"]);
        assert_eq!(set.variable("TELEPORT_DATA_DIR"), Some("/d".into()));
        assert_eq!(words(&[], &["TELEPORT_DATA_DIR="]).variable("TELEPORT_DATA_DIR"), None);
        let arguments = ["/usr/local/bin/teleport", "$OPTIONS", "--config=${DIR}/t.yaml"];
        let unit = words(&arguments, &["OPTIONS=start  --data-dir /d", "DIR=/etc"]);
        let expanded = words(&["/usr/local/bin/teleport", "start", "--data-dir", "/d", "--config=/etc/t.yaml"], &[]);
        assert_eq!(unit.expanded(), expanded.arguments);
        assert!(!unit.start_other_program() && !words(&["sh", "-c", "exec /opt/teleport"], &[]).start_other_program());
        assert!(words(&["/usr/local/bin/run-agent"], &[]).start_other_program());
        assert_eq!(unquoted_line(" TELEPORT_DATA_DIR=\"/d e\" "), b"TELEPORT_DATA_DIR=/d e");
    }
}
