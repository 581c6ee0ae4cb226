//! Bounds of what a download may take: time, bytes, entries.

use std::time::Duration;

use super::space;

/// Bounds of one download; tests set them small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest time for everything.
    pub run: Duration,
    /// Slowest average over [`Limits::speed_window`], bytes per second.
    pub min_speed: u64,
    /// Over which time of waiting for the network the speed is averaged.
    pub speed_window: Duration,
    /// Connections in a row that may break without a new byte.
    pub resumes: u32,
    /// Wait before each of them.
    pub resume_wait: Duration,
    /// Bytes of the archive for which there is room, where its server has told.
    pub announced: Option<u64>,
    /// Bytes of the archive as the signers of the TUF repository say.
    pub signed: Option<u64>,
    /// Bytes that unpacking leaves free on the file system.
    pub reserve: u64,
    /// Most bytes of the archive.
    pub max_archive: u64,
    /// Most bytes of one unpacked file.
    pub max_entry: u64,
    /// Most bytes inflated.
    pub max_total: u64,
    /// Most entries.
    pub max_entries: usize,
}

impl Default for Limits {
    /// Five to ten times what releases of 2026 need (190 MB packed, 800 MB unpacked, some dozen entries).
    fn default() -> Self {
        Self {
            run: Duration::from_secs(3600),
            min_speed: 1024,
            speed_window: Duration::from_secs(60),
            resumes: 5,
            resume_wait: Duration::from_secs(1),
            announced: None,
            signed: None,
            reserve: space::RESERVE,
            max_archive: 4 << 30,
            max_entry: 2 << 30,
            max_total: 8 << 30,
            max_entries: 10_000,
        }
    }
}
