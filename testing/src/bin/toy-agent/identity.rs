//! The trailer: the last line of the program's own file, so that a variant is made by appending bytes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

/// What stands before the JSON in the trailer's line.
const MARK: &str = "\nTOYAGENT ";

/// Bytes read from the file's end; a trailer is far shorter.
const TAIL: u64 = 4096;

/// Who this program says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Plain semver, without `v`.
    pub version: String,
    /// `oss`, `enterprise` or `enterprise-fips`.
    pub edition: String,
    /// How it (mis)behaves.
    pub behaviour: Behaviour,
    /// The database schema it migrates to, and the newest it can read.
    pub schema: i64,
    /// Whether a thread inserts rows without pause, whatever the behaviour.
    pub writes: bool,
    /// `delete` keeps a rollback journal in place of the WAL.
    pub journal: String,
    /// How that thread writes: `pace_ms` and `transaction_ms`.
    pub pace: Pace,
    /// Dies, its database migrated, where this stands in its configuration: a release that breaks some hosts.
    pub refuses: Option<String>,
}

/// How the thread that inserts rows does so; both zero: as fast as it can, a transaction a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pace {
    /// Rest between two transactions.
    pub rest: Duration,
    /// How long a transaction is kept open; a row for each millisecond.
    pub transaction: Duration,
}

/// How an agent (mis)behaves; in the trailer in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Starts, is ready, reloads, ends on SIGTERM.
    Healthy,
    /// Exits 1 right at the start.
    ExitAtOnce,
    /// Becomes ready and dies a second later.
    CrashLoop,
    /// Becomes ready and dies at once.
    DiesSoon,
    /// Answers 503 for ever.
    NeverReady,
    /// Becomes ready and dies after 8 s.
    ReadyThenDies,
    /// Becomes ready and dies after 10 s.
    DiesAfterTen,
    /// Makes the database unusable to every version, then exits 1.
    CorruptsSchema,
    /// Overwrites the database's first page, then exits 1.
    CorruptsFile,
    /// Prints another version than its own.
    WrongVersion,
    /// Ignores SIGHUP.
    HangsOnReload,
    /// Does not serve `debug.sock`.
    NoSocket,
    /// Inserts rows without pause, as with `"writes": true`.
    WritesHard,
    /// Ready after 3 s.
    SlowStart,
    /// Ignores SIGTERM.
    IgnoresTerm,
    /// Sleeps for ever on `version`.
    HangsOnVersion,
}

impl Identity {
    /// Reads the trailer of `/proc/self/exe`; version 0.0.0, healthy, schema 1 if there is none.
    pub(crate) fn of_this_program() -> Self {
        Self::parse(&tail_of_this_program().unwrap_or_default()).unwrap_or_else(|error| {
            eprintln!("ERROR: bad trailer: {error}");
            Self::plain()
        })
    }

    /// Parses the trailer at the end of `bytes`; without one the answer is [`Identity::plain`].
    ///
    /// # Errors
    /// A trailer that is not JSON, or names an unknown behaviour.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let Some(line) = last_line(bytes) else { return Ok(Self::plain()) };
        let json: serde_json::Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let plain = Self::plain();
        let text = |key: &str, default: &str| json[key].as_str().unwrap_or(default).to_owned();
        Ok(Self {
            version: text("version", &plain.version),
            edition: text("edition", &plain.edition),
            behaviour: Behaviour::parse(&text("behaviour", "healthy"))?,
            schema: json["schema"].as_i64().unwrap_or(plain.schema),
            writes: json["writes"].as_bool().unwrap_or(false),
            journal: text("journal", &plain.journal),
            pace: Pace { rest: millis(&json["pace_ms"]), transaction: millis(&json["transaction_ms"]) },
            refuses: json["refuses"].as_str().map(str::to_owned),
        })
    }

    /// Whether a thread inserts rows without pause.
    pub(crate) fn writes(&self) -> bool {
        self.writes || self.behaviour == Behaviour::WritesHard
    }

    fn plain() -> Self {
        Self {
            version: "0.0.0".to_owned(),
            edition: "oss".to_owned(),
            behaviour: Behaviour::Healthy,
            schema: 1,
            writes: false,
            journal: "wal".to_owned(),
            pace: Pace::default(),
            refuses: None,
        }
    }
}

impl Behaviour {
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "healthy" => Self::Healthy,
            "exit-at-once" => Self::ExitAtOnce,
            "crash-loop" => Self::CrashLoop,
            "dies-soon" => Self::DiesSoon,
            "never-ready" => Self::NeverReady,
            "ready-then-dies" => Self::ReadyThenDies,
            "dies-after-ten" => Self::DiesAfterTen,
            "corrupts-schema" => Self::CorruptsSchema,
            "corrupts-file" => Self::CorruptsFile,
            "wrong-version" => Self::WrongVersion,
            "hangs-on-reload" => Self::HangsOnReload,
            "no-socket" => Self::NoSocket,
            "writes-hard" => Self::WritesHard,
            "slow-start" => Self::SlowStart,
            "ignores-term" => Self::IgnoresTerm,
            "hangs-on-version" => Self::HangsOnVersion,
            other => return Err(format!("unknown behaviour {other:?}")),
        })
    }
}

fn millis(json: &serde_json::Value) -> Duration {
    Duration::from_millis(json.as_u64().unwrap_or(0))
}

fn tail_of_this_program() -> std::io::Result<Vec<u8>> {
    let mut file = File::open("/proc/self/exe")?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail)
}

/// The JSON of the last line, if that line is a trailer.
fn last_line(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = bytes.strip_suffix(b"\n")?;
    let start = bytes.iter().rposition(|byte| *byte == b'\n')?;
    bytes[start..].strip_prefix(MARK.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_file_is_the_trailer() {
        let bytes = b"\x7fELF...\nTOYAGENT {\"version\":\"15.1.1\",\"behaviour\":\"never-ready\",\"schema\":2}\n";
        let identity = Identity::parse(bytes).unwrap();
        assert_eq!(identity.version, "15.1.1");
        assert_eq!(identity.behaviour, Behaviour::NeverReady);
        assert_eq!(identity.schema, 2);
        assert!(!identity.writes());
    }

    #[test]
    fn of_two_trailers_the_last_one_counts() {
        let bytes = b"\nTOYAGENT {\"version\":\"1.0.0\"}\n\nTOYAGENT {\"version\":\"2.0.0\"}\n";
        assert_eq!(Identity::parse(bytes).unwrap().version, "2.0.0");
    }

    #[test]
    fn a_file_without_a_trailer_is_version_zero() {
        for bytes in [&b""[..], b"\x7fELF", b"TOYAGENT {}", b"\nTOYAGENT {\"version\":\"1.0.0\"}\nmore\n"] {
            assert_eq!(Identity::parse(bytes).unwrap(), Identity::plain());
        }
    }

    #[test]
    fn writing_combines_with_any_behaviour() {
        let bytes = b"\nTOYAGENT {\"version\":\"1.0.0\",\"behaviour\":\"crash-loop\",\"writes\":true}\n";
        let identity = Identity::parse(bytes).unwrap();
        assert_eq!(identity.behaviour, Behaviour::CrashLoop);
        assert!(identity.writes());
    }

    #[test]
    fn the_pace_of_writing_is_in_milliseconds() {
        let bytes = b"\nTOYAGENT {\"version\":\"1.0.0\",\"writes\":true,\"pace_ms\":5,\"transaction_ms\":300}\n";
        let pace = Identity::parse(bytes).unwrap().pace;
        assert_eq!((pace.rest.as_millis(), pace.transaction.as_millis()), (5, 300));
    }

    #[test]
    fn an_unknown_behaviour_or_broken_json_is_an_error() {
        assert!(Identity::parse(b"\nTOYAGENT {\"behaviour\":\"sings\"}\n").is_err());
        assert!(Identity::parse(b"\nTOYAGENT {\"behav\n").is_err());
    }
}
