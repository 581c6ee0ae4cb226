//! The arguments of `start`, as far as they matter here.

use std::path::{Path, PathBuf};

/// Teleport's own default.
const DATA_DIR: &str = "/var/lib/teleport";

/// What `start` was told.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The words as given, for the child of a reload.
    pub words: Vec<String>,
    /// Where to write the process id; nowhere if absent.
    pub pid_file: Option<PathBuf>,
    /// The flag, else the configuration, else the default.
    pub data_dir: PathBuf,
    /// The text of the configuration; empty without one.
    pub configuration: String,
}

impl Arguments {
    /// Parses the words after `start`; unknown ones are ignored, as this is not what is tested here.
    ///
    /// # Errors
    /// A configuration that cannot be read.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let configuration = match flag(words, &["--config", "-c"]) {
            Some(file) => std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?,
            None => String::new(),
        };
        let given = flag(words, &["--data-dir"]).map(PathBuf::from);
        let data_dir = given.or_else(|| data_dir_of(&configuration)).unwrap_or_else(|| PathBuf::from(DATA_DIR));
        let words_with_command = [&["start".to_owned()], words].concat();
        let pid_file = flag(words, &["--pid-file"]).map(PathBuf::from);
        Ok(Self { words: words_with_command, pid_file, data_dir, configuration })
    }

    /// The agent's database below the data directory.
    pub(crate) fn database(&self) -> PathBuf {
        self.data_dir.join("proc/sqlite.db")
    }

    /// The path of the debug socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.data_dir.join("debug.sock")
    }
}

/// The value of `--name VALUE` or `--name=VALUE`.
fn flag(words: &[String], names: &[&str]) -> Option<String> {
    words.iter().enumerate().find_map(|(at, word)| {
        names.iter().find_map(|name| match word.strip_prefix(name)? {
            "" => words.get(at + 1).cloned(),
            rest => rest.strip_prefix('=').map(str::to_owned),
        })
    })
}

fn data_dir_of(yaml: &str) -> Option<PathBuf> {
    yaml.lines().find_map(|line| {
        let value = line.trim_start().strip_prefix("data_dir:")?;
        let value = value.split(" #").next().unwrap_or(value).trim().trim_matches(['"', '\'']);
        Some(Path::new(value).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_take_their_value_after_a_blank_or_an_equals_sign() {
        let words: Vec<String> = ["--pid-file=/run/a.pid", "--data-dir", "/data"].map(str::to_owned).into();
        let arguments = Arguments::parse(&words).unwrap();
        assert_eq!(arguments.pid_file.as_deref(), Some(Path::new("/run/a.pid")));
        assert_eq!(arguments.data_dir, Path::new("/data"));
        assert_eq!(arguments.words[0], "start");
    }

    #[test]
    fn the_data_directory_comes_from_the_configuration() {
        let yaml = "version: v3\nteleport:\n  nodename: a\n  data_dir: \"/srv/teleport\" # ours\n";
        assert_eq!(data_dir_of(yaml).as_deref(), Some(Path::new("/srv/teleport")));
        assert_eq!(data_dir_of("teleport:\n  nodename: a\n"), None);
    }
}
