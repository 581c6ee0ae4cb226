//! What a rollout server said to this run, and what this run said to it.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use protocol::dry_run::DryRunOrder;
use protocol::report::Rollout;
use protocol::{Edition, Version};

use http_client::Client;

/// The talk of one run with the server that it asks.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// The last answer.
    pub heard: RefCell<Option<Heard>>,
    /// It did not answer: nothing is sent to it either.
    pub is_deaf: Cell<bool>,
    /// Another process does this run, and its reports.
    pub is_elsewhere: Cell<bool>,
    /// A line about a report has been printed; there is one a run.
    pub is_told: Cell<bool>,
    /// How long reports have taken that were sent under the lock.
    pub spent: Cell<Duration>,
    /// When the change began.
    pub started: Cell<Option<Instant>>,
    /// When its version was committed.
    pub switched: Cell<Option<Instant>>,
    /// The join token that this command was given, before it is kept.
    pub token: RefCell<Option<String>>,
    /// The highest number that a question was signed with.
    pub number: Cell<u64>,
    /// What came of the dry run that this run made.
    pub dry_run: RefCell<Option<String>>,
}

/// An answer to the find question.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    /// Of whom: `https://HOST:PORT`.
    pub origin: String,
    /// What a rollout server adds.
    pub fleet: Option<Rollout>,
    /// Which version it names.
    pub version: Version,
    /// The edition that it names.
    pub edition: Option<Edition>,
    /// This host installs what it is told, when it is told to.
    pub acts: bool,
    /// Which record of a last run was there when it came.
    pub result: Option<String>,
    /// By whom it was asked.
    pub client: Client,
    /// What it asks this host to try.
    pub dry_run: Option<DryRunOrder>,
}
