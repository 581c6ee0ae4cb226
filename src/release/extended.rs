//! What headers before an entry say of it: long names (GNU) and records (PAX). What would change its meaning in a way that is not
//! followed here refuses it.

use std::io::{self, Read};

use tar::{EntryType, PaxExtensions};

use crate::report::{Code, Error};

/// Records that change nothing of what is installed: times, owners and labels are this host's.
const OF_NO_ACCOUNT: [&[u8]; 16] = [
    b"atime",
    b"charset",
    b"comment",
    b"ctime",
    b"gid",
    b"gname",
    b"hdrcharset",
    b"LIBARCHIVE.creationtime",
    b"mtime",
    b"RHT.security.selinux",
    b"SCHILY.dev",
    b"SCHILY.ino",
    b"SCHILY.nlink",
    b"SCHILY.xattr.security.selinux",
    b"uid",
    b"uname",
];

/// Records that are followed. The first two stand in GNU's headers, too.
const FOLLOWED: [&[u8]; 3] = [b"path", b"linkpath", b"size"];
const NAME: usize = 0;
const TARGET: usize = 1;
const SIZE: usize = 2;
/// Most bytes of a header that speaks of others: it is read into memory.
const MAX_HEADER: u64 = 1 << 20;

/// What is known of the entry to come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extended {
    /// The value of each record that is followed.
    said: [Option<Vec<u8>>; 3],
    /// Why it is refused, which is told once its name is known.
    refused: Option<String>,
}

impl Extended {
    /// Reads a header of this kind; `false`: it is an entry. Errors: those of reading.
    pub(super) fn take(&mut self, kind: EntryType, body: &mut impl Read) -> io::Result<bool> {
        let of_gnu = match kind {
            EntryType::GNULongName => Some(FOLLOWED[NAME]),
            EntryType::GNULongLink => Some(FOLLOWED[TARGET]),
            EntryType::XHeader => None,
            _ => return Ok(false),
        };
        let body = whole(body)?;
        match (of_gnu, records(&body)) {
            (Some(key), _) => self.set(key, body.strip_suffix(b"\0").unwrap_or(&body)),
            (None, Some(records)) => records.into_iter().for_each(|(key, value)| self.set(key, value)),
            (None, None) => self.refused = Some("its extended header is damaged".to_owned()),
        }
        Ok(true)
    }

    /// Each says the same, or nothing is known for sure.
    fn set(&mut self, key: &[u8], value: &[u8]) {
        let Some(place) = FOLLOWED.iter().position(|followed| *followed == key) else {
            self.refused = self.refused.take().or_else(|| unknown(key));
            return;
        };
        let earlier = self.said[place].replace(value.to_owned());
        if value.is_empty() || earlier.is_some_and(|earlier| earlier != value) {
            self.refused = Some("its extended headers contradict each other".to_owned());
        }
    }

    /// Its name, and where it leads if it is a link, as far as they were told.
    pub(super) fn names(&mut self) -> [Option<Vec<u8>>; 2] {
        [NAME, TARGET].map(|record| self.said[record].take())
    }

    /// Why the entry of which this was told, with this size in its own header, is refused.
    pub(super) fn complaint(&self, size: u64) -> Option<String> {
        // Programs differ in which one they take, and so in where the next entry begins.
        let is_other = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) != Some(size);
        let has_two_sizes = self.said[SIZE].as_ref().is_some_and(|text| is_other(text));
        self.refused.clone().or_else(|| has_two_sizes.then(|| "its headers differ in its size".to_owned()))
    }
}

/// Why a header that speaks of all entries is refused: it may say only what changes none of them, such as git's comment.
///
/// Errors: those of reading.
pub(super) fn complaint_of_global(body: &mut impl Read) -> io::Result<Option<String>> {
    Ok(match records(&whole(body)?) {
        Some(records) => records.into_iter().find_map(|(key, _)| unknown(key)),
        None => Some("it is damaged".to_owned()),
    })
}

fn whole(body: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if body.take(MAX_HEADER + 1).read_to_end(&mut bytes)? as u64 > MAX_HEADER {
        return Err(io::Error::other(Error::new(Code::ArchiveHostile, "the archive has oversized headers")));
    }
    Ok(bytes)
}

fn unknown(key: &[u8]) -> Option<String> {
    let is_known = OF_NO_ACCOUNT.contains(&key);
    (!is_known).then(|| format!("an extended header has {:?}, which is not supported", String::from_utf8_lossy(key)))
}

/// Key and value of each record; `None`: not all of it is records.
fn records(body: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let records = PaxExtensions::new(body).map(|record| record.ok().map(|it| (it.key_bytes(), it.value_bytes())));
    let records: Vec<_> = records.collect::<Option<_>>()?;
    let lines = body.iter().filter(|byte| **byte == b'\n').count();
    (records.len() == lines && body.ends_with(b"\n")).then_some(records)
}
