//! Records as lines of a file, whole, torn or damaged.

use sha2::{Digest as _, Sha256};

use super::record::{FORMAT, Record};
use crate::report::{Code, Error, Result};

/// Most records that are written together and not synced one by one, count: what was noted of three steps, the intents of
/// three, and two to spare. A power cut can lose the first sectors of such a write and keep its last.
pub(super) const TOGETHER: usize = 8;

/// Whether a journal that was begun has lost its first record. That is durable before the file gets its name, so it is
/// never torn: a file without it has been damaged since, unless nothing was ever written to it.
pub(super) fn is_headless(records: &[Record], bytes: &[u8]) -> bool {
    records.is_empty() && bytes.iter().any(|&byte| byte != 0)
}

/// Whether whole records stand behind the first one of `rest` that is not: no torn tail, which is what follows the last.
///
/// Sectors of one write reach the disk in any order, so a power cut can leave its last records without its first. Then what
/// is missing are zeros, which no record has in it, and no more records follow than are written together: those were not
/// synced, and no step was begun on them.
pub(super) fn is_damaged(rest: &[u8]) -> bool {
    let mut lines = rest.split(|&byte| byte == b'\n');
    let is_torn = lines.next().is_some_and(|line| line.contains(&0));
    let whole = lines.filter(|line| json_of(line).is_some()).count();
    whole > if is_torn { TOGETHER - 1 } else { 0 }
}

pub(super) fn encode(record: &Record) -> Vec<u8> {
    // Serialising plain data of our own to JSON cannot fail: no maps with other keys than strings, no NaN.
    let json = serde_json::to_string(record).unwrap_or_default();
    format!("{} {json}\n", checksum(json.as_bytes())).into_bytes()
}

pub(super) fn checksum(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(&Sha256::digest(bytes)[..4])
}

/// The JSON of a line whose checksum is right.
pub(super) fn json_of(line: &[u8]) -> Option<&[u8]> {
    let (sum, rest) = line.split_at_checked(8)?;
    let json = rest.strip_prefix(b" ")?;
    (checksum(json).as_bytes() == sum).then_some(json)
}

/// The whole records at the start of `bytes`, and where they end.
///
/// # Errors
/// A record whose checksum is right but whose content is unknown.
pub fn parse(bytes: &[u8]) -> Result<(Vec<Record>, u64)> {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(length) = bytes[at..].iter().position(|&byte| byte == b'\n') {
        let Some(json) = json_of(&bytes[at..at + length]) else {
            break;
        };
        let unknown = |error: &dyn std::fmt::Display| {
            let what = format!("this updater does not know record {}: {error}", records.len() + 1);
            Error::new(Code::JournalUnknown, what)
                .advise("run `recover` with the updater that wrote this file, or with a newer one")
        };
        let record: Record = serde_json::from_slice(json).map_err(|error| unknown(&error))?;
        if let Record::Begin(opening) = &record
            && opening.format != FORMAT
        {
            return Err(unknown(&format!("format {}", opening.format)));
        }
        records.push(record);
        at += length + 1;
    }
    Ok((records, at as u64))
}
