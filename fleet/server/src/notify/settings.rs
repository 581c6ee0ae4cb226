//! Who is told: the settings, checked, and what `doctor` says of them.

use std::path::PathBuf;

use fleet_engine::resource;
use fleet_store::Finding;

use super::webhook::{self, Receiver, Secret};

impl Receiver {
    /// Of the settings `webhook_url` and `webhook_secret_file`; `None`: nobody is told.
    ///
    /// # Errors
    /// One line: which of them is wrong, and what is allowed. It does not show the address, which may have a key in it.
    pub(crate) fn of(url: Option<String>, secret_file: Option<PathBuf>) -> Result<Option<Self>, String> {
        match (url, secret_file) {
            (Some(url), Some(secret_file)) => {
                resource::check_url(&url).map_err(|what| format!("webhook_url: {what}"))?;
                Ok(Some(Self { url, secret_file }))
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err("webhook_url needs webhook_secret_file: messages are signed".to_owned()),
            (None, Some(_)) => Err("webhook_secret_file needs webhook_url".to_owned()),
        }
    }
}

/// Whether a server that runs as `user` can use it, as far as can be seen without telling anybody anything.
pub(crate) fn doctor(receiver: &Receiver, user: u32) -> Finding {
    let Receiver { url, secret_file } = receiver;
    match Secret::read(secret_file, user) {
        Ok(_) => Finding::ok(format!("webhook {}, signed with {}", webhook::origin(url), secret_file.display())),
        Err(error) => Finding::problem(format!("the webhook gets nothing: {error}"), ADVICE),
    }
}

/// What helps against a bad secret file.
const ADVICE: &str = "write 24 random bytes or more into it, for instance with `openssl rand -hex 32`, of mode 0600, and give it \
                      to the server's user";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_go_together_is_refused_and_the_address_is_not_shown() {
        let of = |url: Option<&str>, file: Option<&str>| Receiver::of(url.map(str::to_owned), file.map(PathBuf::from));
        assert_eq!(of(None, None), Ok(None));
        assert!(of(Some("https://example.com/key"), Some("/s")).is_ok_and(|receiver| receiver.is_some()));
        assert!(of(Some("http://127.0.0.1:1/"), Some("/s")).is_ok());
        for (url, file) in [
            (Some("https://example.com/key"), None),
            (None, Some("/s")),
            (Some("http://example.com/key"), Some("/s")),
            (Some("ftp://example.com/key"), Some("/s")),
        ] {
            let error = of(url, file).unwrap_err();
            assert!(!error.contains("key"), "{error}");
        }
    }
}
