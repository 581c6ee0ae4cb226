//! The only room with system calls: durable files, lock, processes, packages, labels, clock.

pub mod acting;
pub mod cage;
pub mod command;
pub mod device;
pub mod durable;
pub mod events;
pub mod http;
pub mod layout;
pub mod lock;
pub mod machine;
pub mod manager;
pub mod mark;
pub mod package;
pub mod process;
pub mod pulse;
mod removal;
pub mod selinux;
pub mod session;
pub mod signal;
pub mod systemctl;
pub mod trust;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use layout::Layout;

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
