//! The journal under a kill: a record that was being written may be there, not be there, or be torn.

use std::os::unix::fs::FileExt;

use super::host::{Act, Host};
use crate::execute::journal::{self, Journal, Record};

impl Host {
    /// Appends a record; the fuse may end before it, in the middle of it, or behind it.
    pub(super) fn append(&mut self, journal: &mut Journal, record: Record) -> Act {
        self.tick()?;
        let path = self.journal_dir.join(journal::NAME);
        let torn = (self.fuse == Some(0)).then(|| end_of(&path));
        journal.append(record)?;
        if let Some(before) = torn {
            tear(&path, before, self.ticks);
        }
        self.tick()?;
        self.tick()
    }
}

fn end_of(path: &std::path::Path) -> u64 {
    journal::parse(&std::fs::read(path).unwrap()).unwrap().1
}

/// Leaves some of the record that begins at `from`: a cut, zeros in its middle, or a wrong byte, by `seed`.
fn tear(path: &std::path::Path, from: u64, seed: u32) {
    let bytes = std::fs::read(path).unwrap();
    let length = end_of(path) - from;
    let cut = from + u64::from(seed).wrapping_mul(0x9e37_79b9) % length;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    match seed % 3 {
        0 => file.write_all_at(&vec![0; (bytes.len() as u64 - cut) as usize], cut).unwrap(),
        1 => file.set_len(cut).unwrap(),
        _ => file.write_all_at(&[bytes[cut as usize] ^ 0x10], cut).unwrap(),
    }
}
