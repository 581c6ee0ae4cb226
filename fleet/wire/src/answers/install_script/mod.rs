//! `GET /scripts/install.sh?group=`: a POSIX sh script that installs the updater and enables it with this server.
//!
//! The text is fixed. What comes from outside are the public address and the packages' directory, both configured and checked,
//! and the group's name, which can only have letters, digits, `.`, `_` and `-`.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::answers::query::Query;
use crate::answers::reply::{Reply, SHELL};

/// The script with places for the values.
const TEMPLATE: &str = include_str!("install.sh");
/// Longest address, bytes.
const LONGEST_ADDRESS: usize = 255;
/// Longest directory of packages, bytes.
const LONGEST_URL: usize = 2048;

/// The script, but for the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallScript {
    /// Before and behind the group's name.
    parts: (String, String),
}

impl InstallScript {
    /// The script for the server at `public_addr` (host, with a port if need be). `packages`: the https directory with the
    /// updater's packages, `SHA256SUMS` and `install.sh` (as `packaging/all.sh` makes it); `None`: TELEPORT_UPDATE_URL must
    /// name one when the script runs, or the package must be installed before.
    ///
    /// # Errors
    /// Which of the two is malformed, and what is expected.
    pub fn new(public_addr: &str, packages: Option<&str>) -> Result<Self, String> {
        if !is_address(public_addr) {
            return Err(format!("{public_addr:?} is no public address: expected HOST or HOST:PORT"));
        }
        let packages = packages.unwrap_or_default().trim_end_matches('/');
        if !packages.is_empty() && !is_https(packages) {
            return Err(format!("{packages:?} is no directory of packages: expected an https:// URL"));
        }
        let text = TEMPLATE.replace("@ADDRESS@", public_addr).replace("@PACKAGES@", packages);
        let (before, behind) = text.split_once("@GROUP@").ok_or("the script has no place for the group")?;
        Ok(Self { parts: (before.to_owned(), behind.to_owned()) })
    }

    /// The answer to the query behind the path, without its `?`. Other parameters than `group` are ignored.
    pub fn reply(&self, query: &str) -> Reply {
        let group = match Query::strict(query).and_then(|query| query.only("group")) {
            Ok(group) => group.unwrap_or(Cow::Borrowed("")),
            Err(fault) => return Reply::bad_request(&fault.to_string()),
        };
        if !group.is_empty() && !is_group(&group) {
            let message = format!(
                "group {group:?} cannot stand in a script: expected letters, digits, `.`, `_` and `-`, not beginning with `-`"
            );
            return Reply::bad_request(&message);
        }
        let (before, behind) = &self.parts;
        Reply::ok(SHELL, format!("{before}{group}{behind}"))
    }
}

fn is_group(group: &str) -> bool {
    !group.starts_with('-') && group.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_address(text: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_[]".contains(&byte);
    (1..=LONGEST_ADDRESS).contains(&text.len()) && !text.starts_with(['-', ':']) && text.bytes().all(is_usual)
}

/// An https URL that can stand between single quotes.
fn is_https(text: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_graphic() && !b"'\"\\`<>^{|}$#?@".contains(&byte);
    text.len() <= LONGEST_URL
        && text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_usual))
}
