//! The room that changes the system by name (`store/publish` is the one exception): durable files, lock, processes, packages, labels, clock.

pub(crate) mod acting;
pub(crate) mod command;
pub(crate) mod device;
pub(crate) mod durable;
pub(crate) mod elf;
pub(crate) mod fingerprint;
pub(crate) mod layout;
pub(crate) mod lock;
pub(crate) mod machine;
pub(crate) mod ownership;
pub(crate) mod package;
pub(crate) mod path;
pub(crate) mod process;
mod removal;
pub(crate) mod sandbox;
pub(crate) mod selinux;
pub(crate) mod session;
pub mod signal;
pub(crate) mod systemctl;
pub(crate) mod tree;
pub(crate) mod trust;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) use layout::Layout;

/// Everything of the surrounding system that is not a file: arguments, environment, clock. No other place reads them.
#[derive(Debug, Clone)]
pub struct Host {
    /// Program name and arguments.
    pub args: Vec<String>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// This program's own file, `/proc/self/exe` resolved.
    pub exe: PathBuf,
}

impl Host {
    /// The host of the running process.
    pub fn current() -> Self {
        Self {
            args: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            env: std::env::vars_os()
                .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
                .collect(),
            exe: std::env::current_exe().unwrap_or_default(),
        }
    }

    /// An environment variable; empty counts as unset.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The present time.
    pub fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}
