//! How a host is to install a version (DIRECTIVES §4): `fleet.installer` of an answer, what a report names, and the bounds of what a
//! script is given, which both sides check.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::find::fleet;
use crate::{Digest, Kind, ParseError, serde_as_text};

/// Most installers that a host reports, and most services.
pub const MAX_NAMED: usize = 16;
/// Most variables of a script.
pub const MAX_ENV: usize = 16;
/// Longest name of a script, bytes: it is the name of a file.
const MAX_NAME: usize = 64;
/// Longest name of a variable, bytes.
const MAX_VARIABLE: usize = 32;
/// Longest value of a variable, bytes.
const MAX_VALUE: usize = 256;
/// Variables that decide what a shell runs, but those that begin with [`RESERVED_PREFIXES`].
const RESERVED: [&str; 7] = ["PATH", "HOME", "SHELL", "SHELLOPTS", "IFS", "ENV", "PS4"];
/// How those begin that decide what a shell, the linker, libc or an interpreter loads.
const RESERVED_PREFIXES: [&str; 9] = ["LD_", "BASH", "GLIBC_", "GCONV_", "PERL", "PYTHON", "RUBY", "NODE_", "JAVA_"];

/// What installs a version on a host, as settings, directives and reports name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum Installer {
    /// `update`: the updater, as its settings say.
    #[default]
    Update,
    /// `tuf`: the updater, where the host has a trusted root.
    Tuf,
    /// `notify`: nothing; people are told.
    Notify,
    /// `local-script/NAME`: the host's own file of this name.
    LocalScript(String),
}

impl Installer {
    /// The kinds, as they are written.
    pub const KINDS: [&str; 4] = ["update", "tuf", "notify", "local-script"];

    /// Its kind, one of [`Installer::KINDS`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Tuf => "tuf",
            Self::Notify => "notify",
            Self::LocalScript(_) => "local-script",
        }
    }

    /// Its name; empty: only scripts have one.
    pub fn name(&self) -> &str {
        if let Self::LocalScript(name) = self { name } else { "" }
    }
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::LocalScript(name) = self { write!(f, "local-script/{name}") } else { f.write_str(self.kind()) }
    }
}

impl FromStr for Installer {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let script = text.strip_prefix("local-script/").filter(|name| is_script_name(name));
        let plain = [Self::Update, Self::Tuf, Self::Notify].into_iter().find(|known| known.kind() == text);
        plain.or(script.map(|name| Self::LocalScript(name.to_owned()))).ok_or_else(|| {
            ParseError::new(Kind::Installer, format!("{text:?} is no installer"))
                .advise("give update, tuf, notify, or local-script/NAME, where NAME has letters a-z, digits and `-`")
        })
    }
}

serde_as_text!(Installer);

/// `fleet.installer`: how this host is to install what the answer names. Absent: as its updater does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstallerOrder {
    /// Its kind; an updater refuses one that it does not know.
    pub kind: String,
    /// The script's name; empty: the kind has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A script's variables, at most 16 ([`MAX_ENV`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// `bash` or `sh`, which runs the script; empty: its own first line says that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shell: String,
    /// What the script's bytes must be; absent: whatever they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub sha256: Option<Digest>,
    /// How long the script may run, seconds; 0: as the updater has it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timeout_seconds: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl InstallerOrder {
    /// Reads `fleet.installer` of a find answer; `None`: there is none.
    ///
    /// # Errors
    /// It is there and cannot be understood: nobody guesses how to install.
    pub fn parse(body: &[u8]) -> Result<Option<Self>, ParseError> {
        Self::read(fleet(body).and_then(|fleet| fleet.get("installer").cloned()))
    }

    /// The same of the value itself.
    pub(crate) fn read(found: Option<serde_json::Value>) -> Result<Option<Self>, ParseError> {
        let Some(value) = found.filter(|value| !value.is_null()) else { return Ok(None) };
        serde_json::from_value(value)
            .map(Some)
            .map_err(|error| ParseError::new(Kind::Answer, format!("fleet.installer: {error}")))
    }

    /// The updater installs, as its settings say.
    pub fn usual() -> Self {
        Self { kind: Installer::Update.to_string(), ..Self::default() }
    }

    /// What installs; `None`: a kind, or a name, that this program does not know.
    pub fn installer(&self) -> Option<Installer> {
        let text = if self.name.is_empty() { self.kind.clone() } else { format!("{}/{}", self.kind, self.name) };
        text.parse().ok()
    }

    /// The first variable that no script is given; `None`: all are in order.
    pub fn bad_variable(&self) -> Option<&str> {
        let is_good = |(name, value): &(&String, &String)| is_variable(name) && is_value(value);
        let surplus = self.env.keys().nth(MAX_ENV);
        self.env.iter().find(|pair| !is_good(pair)).map(|(name, _)| name).or(surplus).map(String::as_str)
    }
}

/// `fleet.attributes` of a find answer: what is no text is left out.
pub fn attributes(value: &serde_json::Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// Whether a script may have this name: 1 to 64 of `a-z`, `0-9` and `-`.
pub fn is_script_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_usual)
}

/// Whether a variable may have this name: `[A-Z][A-Z0-9_]{0,31}`, and none by which a shell runs something else.
pub fn is_variable(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_free = !RESERVED.contains(&name) && !RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let is_letter = name.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase());
    is_letter && name.len() <= MAX_VARIABLE && name.bytes().all(is_usual) && is_free
}

/// Whether a variable may have this value: 0 to 256 of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`, which mean nothing to a shell.
pub fn is_value(value: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    value.len() <= MAX_VALUE && value.bytes().all(is_usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installer_is_one_of_four_and_its_name_is_a_files() {
        for good in ["update", "tuf", "notify", "local-script/a-1"] {
            assert_eq!(good.parse::<Installer>().unwrap().to_string(), good);
        }
        for bad in
            ["", "Update", "local-script", "local-script/", "local-script/..", "local-script/A", "script/a", "update/a"]
        {
            assert!(bad.parse::<Installer>().is_err(), "{bad}");
        }
        assert!(format!("local-script/{}", "a".repeat(64)).parse::<Installer>().is_ok());
        assert!(format!("local-script/{}", "a".repeat(65)).parse::<Installer>().is_err());
    }

    #[test]
    fn no_variable_is_a_shells_and_no_value_means_something_to_it() {
        for good in ["VERSION", "A", "A_1", "LDX"] {
            assert!(is_variable(good), "{good}");
        }
        for bad in ["", "a", "1A", "_A", "PATH", "HOME", "SHELL", "IFS", "ENV", "LD_PRELOAD", "BASH_ENV", "A-B", "A=B"]
        {
            assert!(!is_variable(bad), "{bad}");
        }
        assert!(!is_variable(&"A".repeat(33)) && is_variable(&"A".repeat(32)));
        assert!(is_value("17.2.1-rc.1_x") && is_value("") && is_value(&"a".repeat(256)));
        for bad in ["a b", "$(x)", "`x`", "a;b", "a\nb", "a/b", "+", "é"] {
            assert!(!is_value(bad), "{bad}");
        }
    }

    #[test]
    fn an_order_is_read_or_refused_and_never_guessed() {
        let read = |text: &str| InstallerOrder::parse(text.as_bytes());
        for none in ["", "[]", "{}", r#"{"fleet":{}}"#, r#"{"fleet":{"installer":null}}"#] {
            assert_eq!(read(none), Ok(None), "{none}");
        }
        for bad in [r#"{"fleet":{"installer":1}}"#, r#"{"fleet":{"installer":{"name":"x"}}}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let order = read(r#"{"fleet":{"installer":{"kind":"local-script","name":"a","env":{"V":"1","path":"x"}}}}"#);
        let order = order.unwrap().unwrap();
        assert_eq!(order.installer(), Some(Installer::LocalScript("a".to_owned())));
        assert_eq!(order.bad_variable(), Some("path"));
        let unknown = InstallerOrder { kind: "remote-script".to_owned(), ..InstallerOrder::default() };
        assert_eq!(unknown.installer(), None);
        let many = InstallerOrder { env: (0..17).map(|at| (format!("V{at:02}"), String::new())).collect(), ..unknown };
        assert_eq!(many.bad_variable(), Some("V16"));
    }
}
