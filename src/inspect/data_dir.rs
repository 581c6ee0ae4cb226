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
use crate::plan::Plan;
use crate::report::{Code, Error, Result};
use crate::service::{AgentState, Service};

/// Largest file of environment variables that is read, bytes.
const MAX_ENVIRONMENT: u64 = 64 * 1024;

/// The data directory that the agent has, as it calls it, where that is not `data_dir`; `None` also where it does not tell.
/// The database that it has open counts most; without one its arguments and environment, and for one that does not run
/// those of its unit or command. Words do not count against an operator's own in `spec.data_dir`.
///
/// Errors: `io`; the service manager does not answer; the agent's own configuration cannot be read.
pub(super) fn other(
    context: &Context,
    updates: &Updates,
    state: &AgentState,
    data_dir: &Path,
) -> Result<Option<PathBuf>> {
    let mut named = Vec::new();
    let mut runs = false;
    for agent in context.stop_proof()?.agents()? {
        // Where the service runs, what runs beside it is another agent.
        if state.running && state.unmanaged.contains(&agent.pid) {
            continue;
        }
        runs = true;
        match opened(&agent, data_dir)? {
            Opened::Ours => return Ok(None),
            Opened::Other(dir) => named.push(dir),
            Opened::Nothing => named.extend(by_words(context, updates, &Words::of_process(&agent)?, data_dir)?),
        }
    }
    if !runs {
        named.extend(by_words(context, updates, &Words::of_service(context, updates)?, data_dir)?);
    }
    Ok(named.into_iter().next())
}

/// Errors: `other_data_dir` if `plan` saves or restores a database and the agent has its own in `other`.
pub(crate) fn refuse(plan: &Plan, other: Option<&Path>, data_dir: &Path) -> Result<()> {
    match other.filter(|_| plan.needs_database()) {
        None => Ok(()),
        Some(other) => Err(Error::new(Code::OtherDataDir, told(other, data_dir)).advise(format!(
            "if this is intended, run `teleport-update enable --data-dir {}`; otherwise correct the unit or command that \
             starts the agent",
            other.display()
        ))),
    }
}

/// The contradiction in words.
pub(crate) fn told(other: &Path, data_dir: &Path) -> String {
    format!("the agent uses the data directory {}, but teleport-update expects {}", other.display(), data_dir.display())
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
    let mut other = Opened::Nothing;
    for (name, file) in process::open_files(agent, Path::new(DATABASE))? {
        // In a container it has another name, and one that was replaced has another inode.
        if name == database || (file.is_some() && file == ours) {
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
                Ok(Self { arguments: split(&start.arguments), environment })
            }
            Service::Commands(commands) => Ok(Self { arguments: split(&commands.start), environment: Vec::new() }),
            Service::None => Ok(Self::default()),
        }
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
fn by_words(context: &Context, updates: &Updates, words: &Words, data_dir: &Path) -> Result<Option<PathBuf>> {
    if updates.spec().data_dir.is_some() {
        return Ok(None);
    }
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
        assert_eq!(unquoted_line(" TELEPORT_DATA_DIR=\"/d e\" "), b"TELEPORT_DATA_DIR=/d e");
    }
}
