//! TUF metadata from anybody.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::json;
use teleport_update::testing::{Code, Error};
use testing::cluster::TufRepository;
use tuf::{Place, Repository};

/// The files that can be any bytes.
const FILES: [&str; 5] = ["2.root.json", "timestamp.json", "1.snapshot.json", "1.targets.json", "1.d.json"];

/// A host that has the root, and a repository of which one file is anybody's.
struct Host<'a> {
    good: &'a BTreeMap<String, Vec<u8>>,
    name: &'a str,
    bytes: &'a [u8],
}

impl Place for Host<'_> {
    fn kept(&mut self, role: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(if role == "root" { self.good.get("1.root.json").cloned() } else { None })
    }

    fn keep(&mut self, _: &str, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn forget(&mut self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn fetch(&mut self, name: &str, _: u64) -> Result<Option<Vec<u8>>, Error> {
        Ok(if name == self.name { Some(self.bytes.to_owned()) } else { self.good.get(name).cloned() })
    }

    fn warn(&mut self, _: &Error) {}
}

/// A repository whose files are named by their versions alone, so that each is read.
fn good() -> &'static BTreeMap<String, Vec<u8>> {
    static GOOD: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let mut repository = TufRepository::at(dir.path());
        repository.delegate("targets", "d", &["k"], &["*"], false);
        let only = |version: u64| json!({ "version": version });
        for role in ["targets", "d", "snapshot", "timestamp"] {
            repository.set(role, "/version", json!(1));
        }
        repository.set("snapshot", "/meta", json!({ "targets.json": only(1), "d.json": only(1) }));
        repository.set("timestamp", "/meta", json!({ "snapshot.json": only(1) }));
        ["targets", "d", "snapshot", "timestamp"].iter().for_each(|role| repository.publish(role));
        let files = std::fs::read_dir(dir.path().join("metadata")).unwrap().flatten();
        files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
    })
}

/// The first byte says in place of which file the others stand. Nobody signed them: what is told is one short line with a code, and
/// the archive is not named by them.
pub fn tuf_metadata(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let name = FILES[usize::from(*first) % FILES.len()];
    let mut host = Host { good: good(), name, bytes };
    let now = "2030-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
    let found = Repository::refresh(&mut host, now).and_then(|mut repository| repository.target("a"));
    match found {
        // Blanks elsewhere are no other metadata.
        Ok(found) => assert!(found.is_none()),
        Err(error) => {
            assert_eq!(error.code, Code::TufInvalid, "{error}");
            let line = error.to_string();
            assert!(line.len() < 1500 && !line.chars().any(char::is_control), "{line:?}");
        }
    }
}
