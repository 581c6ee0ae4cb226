//! What headers before an entry say of it: long names (GNU) and records (PAX). What would change its meaning in a way that is not
//! followed here refuses it.

use std::io::{self, Read};

use tar::{EntryType, PaxExtensions};

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

/// What is known of the entry to come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extended {
    /// Its name.
    pub(super) name: Option<Vec<u8>>,
    /// Where it leads, if it is a link.
    pub(super) target: Option<Vec<u8>>,
    size: Option<Vec<u8>>,
    /// Why it is refused, which is told once its name is known.
    refused: Option<String>,
}

impl Extended {
    /// Reads a header of this kind; `false`: it is an entry. Errors: those of reading.
    pub(super) fn take(&mut self, kind: EntryType, body: &mut impl Read) -> io::Result<bool> {
        let field = match kind {
            EntryType::GNULongName => &mut self.name,
            EntryType::GNULongLink => &mut self.target,
            EntryType::XHeader => {
                self.records(&whole(body)?);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        let name = whole(body)?;
        set(field, &mut self.refused, name.strip_suffix(b"\0").unwrap_or(&name));
        Ok(true)
    }

    fn records(&mut self, body: &[u8]) {
        let Some(records) = records(body) else {
            self.refused = Some("its extended header is damaged".to_owned());
            return;
        };
        for (key, value) in records {
            let field = match key {
                b"path" => &mut self.name,
                b"linkpath" => &mut self.target,
                b"size" => &mut self.size,
                _ => {
                    self.refused = self.refused.take().or_else(|| unknown(key));
                    continue;
                }
            };
            set(field, &mut self.refused, value);
        }
    }

    /// Why the entry of which this was told, with this size in its own header, is refused.
    pub(super) fn complaint(&self, size: u64) -> Option<String> {
        // Programs differ in which one they take, and so in where the next entry begins.
        let is_other = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) != Some(size);
        let has_two_sizes = self.size.as_deref().is_some_and(is_other);
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
    body.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Each says the same, or nothing is known for sure.
fn set(field: &mut Option<Vec<u8>>, refused: &mut Option<String>, value: &[u8]) {
    if value.is_empty() || field.as_deref().is_some_and(|earlier| earlier != value) {
        *refused = Some("its extended headers contradict each other".to_owned());
    }
    *field = Some(value.to_owned());
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
