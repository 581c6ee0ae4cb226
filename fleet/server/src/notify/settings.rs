//! Who is told: the settings, checked, and what `doctor` says of them.

use std::path::{Path, PathBuf};

use fleet_engine::resource;
use fleet_store::{Finding, Level};

use super::webhook::{self, Secret};

/// Who is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Receivers {
    /// Where messages are posted, and the file with the secret that signs them.
    pub(crate) webhook: Option<(String, PathBuf)>,
    /// A program and its arguments.
    pub(crate) command: Option<Vec<String>>,
}

impl Receivers {
    /// Of the settings `webhook_url`, `webhook_secret_file` and `notify_command`.
    ///
    /// # Errors
    /// One line: which of them is wrong, and what is allowed. It does not show the address, which may have a key in it.
    pub(crate) fn of(url: Option<String>, secret_file: Option<PathBuf>, command: Option<&str>) -> Result<Self, String> {
        let webhook = match (url, secret_file) {
            (Some(url), Some(file)) => {
                resource::check_url(&url).map_err(|what| format!("webhook_url: {what}"))?;
                Some((url, file))
            }
            (None, None) => None,
            (Some(_), None) => return Err("webhook_url needs webhook_secret_file: messages are signed".to_owned()),
            (None, Some(_)) => return Err("webhook_secret_file needs webhook_url".to_owned()),
        };
        let command: Option<Vec<String>> = command.map(|line| line.split_whitespace().map(str::to_owned).collect());
        if let Some(words) = &command
            && !words.first().is_some_and(|program| Path::new(program).is_absolute())
        {
            return Err("notify_command: begin it with the absolute path of a program".to_owned());
        }
        Ok(Self { webhook, command })
    }
}

/// Whether a server that runs as `user` can use them, as far as can be seen without telling anybody anything.
pub(crate) fn doctor(receivers: &Receivers, user: u32) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((url, file)) = &receivers.webhook {
        findings.push(match Secret::read_for(file, user) {
            Ok(_) => found(Level::Ok, format!("webhook {}, signed with {}", webhook::origin(url), file.display()), ""),
            Err(error) => found(Level::Problem, format!("the webhook is told nothing: {error}"), ADVICE),
        });
    }
    if let Some(program) = receivers.command.as_ref().and_then(|words| words.first()) {
        let is_program =
            rustix::fs::access(program.as_str(), rustix::fs::Access::EXEC_OK).is_ok() && Path::new(program).is_file();
        findings.push(if is_program {
            found(Level::Ok, format!("notify_command {program} can be run"), "")
        } else {
            found(
                Level::Problem,
                format!("notify_command {program} is no program that can be run"),
                "see notify_command",
            )
        });
    }
    findings
}

/// What helps against a bad secret file.
const ADVICE: &str = "write 24 random bytes or more into it, for instance with `openssl rand -hex 32`, of mode 0600, and give it \
                      to the server's user";

fn found(level: Level, what: String, advice: &str) -> Finding {
    Finding { level, what, advice: advice.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_go_together_is_refused_and_the_address_is_not_shown() {
        let of = |url: Option<&str>, file: Option<&str>, command| {
            Receivers::of(url.map(str::to_owned), file.map(PathBuf::from), command)
        };
        assert_eq!(of(None, None, None), Ok(Receivers::default()));
        assert!(of(Some("https://example.com/key"), Some("/s"), Some("/bin/mail -s x root")).is_ok());
        assert!(of(Some("http://127.0.0.1:1/"), Some("/s"), None).is_ok());
        for (url, file, command) in [
            (Some("https://example.com/key"), None, None),
            (None, Some("/s"), None),
            (Some("http://example.com/key"), Some("/s"), None),
            (Some("ftp://example.com/key"), Some("/s"), None),
            (None, None, Some("mail root")),
            (None, None, Some("")),
        ] {
            let error = of(url, file, command).unwrap_err();
            assert!(!error.contains("key"), "{error}");
        }
    }
}
