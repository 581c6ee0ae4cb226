//! Graphs as they were written: most of those who ask are answered the same bytes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::question::{GraphArch, GraphDialect, GraphQuestion};

/// Most graphs that are kept, each below a MiB (`fleet_engine::resource_set::MOST_IN_CHANNEL`). One for each channel, architecture and
/// dialect, and for each set of releases that are hidden from some hosts: few, unless many rollouts are under way at once.
const MOST: usize = 32;

/// What decides how a graph is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GraphKey {
    dialect: GraphDialect,
    channel: String,
    arch: GraphArch,
    /// The releases that the host does not see yet, by their places among all.
    hidden: Vec<usize>,
}

/// Graphs by what was asked. A copy has none: it may be of other releases.
#[derive(Debug, Default)]
pub(super) struct Cache {
    written: Mutex<HashMap<GraphKey, Bytes>>,
}

impl GraphKey {
    pub(super) fn new(asked: &GraphQuestion, hidden: Vec<usize>) -> Self {
        Self { dialect: asked.dialect, channel: asked.channel.clone(), arch: asked.arch, hidden }
    }
}

impl Cache {
    /// The graph of `key`, which `write` writes where it is not kept.
    pub(super) fn get<E>(&self, key: GraphKey, write: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Bytes, E> {
        let lock = || self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(known.clone());
        }
        // Without the lock: whoever asks for another graph does not wait.
        let written = Bytes::from(write()?);
        let mut kept = lock();
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(key, written.clone());
        Ok(written)
    }

    /// How many are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Cache {
    /// What is kept can be written again.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
