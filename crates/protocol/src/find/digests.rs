//! Digests of a version's archives, where a server knows them (FLEET §9).

use std::collections::BTreeMap;

use super::fleet::fleet;
use crate::error::{Kind, ParseError};
use crate::{Arch, Digest, Edition};

/// Before the name of an image's repository, in place of edition and architecture (KUBE §4).
pub const IMAGE: &str = "image/";

/// What an archive's digest must be, beside what its mirror says; by edition and architecture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Digests {
    /// Of whatever archive.
    any: Option<Digest>,
    /// By `oss/amd64`.
    by_archive: BTreeMap<String, Digest>,
}

impl Digests {
    /// The digest of the one archive that is meant, whatever its edition; `None`: nothing is known.
    pub fn of_any(digest: Option<Digest>) -> Self {
        Self { any: digest, by_archive: BTreeMap::new() }
    }

    /// Those of a find answer (`fleet.digests`). A cluster's answer has none.
    ///
    /// Errors: [`Kind::Digest`] for one that is no SHA-256, [`Kind::Answer`] where they are no list by archive: who names digests
    /// wants them checked.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let fleet = fleet(body).unwrap_or_default();
        let Some(digests) = fleet.get("digests") else { return Ok(Self::default()) };
        Self::read(digests.as_object().ok_or_else(|| wrong("it is no object"))?, "")
    }

    /// Reads those keys of an object that begin with `prefix` and go on with the archive: `oss/amd64`.
    ///
    /// Errors: as [`Self::parse`].
    pub fn read(object: &serde_json::Map<String, serde_json::Value>, prefix: &str) -> Result<Self, ParseError> {
        let digest = |text: &serde_json::Value| text.as_str().ok_or_else(|| wrong("a digest is no text"))?.parse();
        let archives = object.iter().filter_map(|(key, text)| Some((key.strip_prefix(prefix)?, text)));
        let pairs = archives.map(|(archive, text)| Ok((archive.to_owned(), digest(text)?)));
        Ok(Self { any: None, by_archive: pairs.collect::<Result<_, _>>()? })
    }

    /// That of the image in the repository whose name's last part this is.
    pub fn of_image(&self, repository: &str) -> Option<Digest> {
        self.by_archive.get(&format!("{IMAGE}{repository}")).copied()
    }

    /// That of the archive of `edition` for `arch`.
    pub fn get(&self, edition: Edition, arch: Arch) -> Option<Digest> {
        self.by_archive.get(&format!("{edition}/{arch}")).copied().or(self.any)
    }
}

fn wrong(what: &str) -> ParseError {
    ParseError::new(Kind::Answer, format!("fleet.digests: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_archive_has_its_own() {
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        let body =
            format!(r#"{{"agent_version":"1.0.0","fleet":{{"digests":{{"oss/amd64":"{one}","x/riscv":"{two}"}}}}}}"#);
        let digests = Digests::parse(body.as_bytes()).unwrap();
        assert_eq!(digests.get(Edition::Oss, Arch::Amd64), Some(one));
        assert_eq!(digests.get(Edition::Oss, Arch::Arm64), None);
        assert_eq!(digests.get(Edition::Enterprise, Arch::Amd64), None);
        assert_eq!(Digests::of_any(Some(two)).get(Edition::EnterpriseFips, Arch::Arm), Some(two));
    }

    #[test]
    fn an_answer_without_any_has_none_and_one_that_cannot_be_checked_is_an_error() {
        for body in ["", "[]", "{}", r#"{"fleet":"x"}"#, r#"{"fleet":{"rollout":1}}"#] {
            assert_eq!(Digests::parse(body.as_bytes()).unwrap(), Digests::default(), "{body}");
        }
        for digests in ["null", "[]", r#""x""#, r#"{"oss/amd64":null}"#, r#"{"oss/amd64":"abc"}"#] {
            let body = format!(r#"{{"fleet":{{"digests":{digests}}}}}"#);
            assert!(Digests::parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
