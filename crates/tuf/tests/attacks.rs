//! What a repository may do to its clients, and what comes of it (DIRECTIVES §9): each attack is a row, its steps those of
//! [`TufRepository::act`].

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;

use error::{Code, Error, Result};
use jiff::Timestamp;
use testing::cluster::TufRepository;
use testing::cluster::tuf::key;
use tuf::{Place, Repository};

const NOW: &str = "2030-01-01T00:00:00Z";
const NAME: &str = "teleport-v2.0.0-linux-amd64-bin.tar.gz";
/// As large as no role's metadata may be.
const FLOOD: usize = 2 << 20;

/// What a client keeps, and the directory that it asks.
struct Host<'a> {
    kept: BTreeMap<String, Vec<u8>>,
    metadata: &'a Path,
    asked: Vec<String>,
    warned: usize,
}

impl Place for Host<'_> {
    fn kept(&mut self, role: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.kept.get(role).cloned())
    }

    fn keep(&mut self, role: &str, bytes: &[u8]) -> Result<()> {
        self.kept.insert(role.to_owned(), bytes.to_owned());
        Ok(())
    }

    fn forget(&mut self, role: &str) -> Result<()> {
        self.kept.remove(role);
        Ok(())
    }

    fn fetch(&mut self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        self.asked.push(name.to_owned());
        let mut bytes = std::fs::read(self.metadata.join(name)).ok();
        bytes.iter_mut().for_each(|bytes| bytes.truncate(limit as usize + 1));
        Ok(bytes)
    }

    fn warn(&mut self, _: &Error) {
        self.warned += 1;
    }
}

/// A repository that names one archive, and a host that has verified it.
struct Bed {
    dir: tempfile::TempDir,
    repository: TufRepository,
    kept: BTreeMap<String, Vec<u8>>,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut repository = TufRepository::at(dir.path());
        repository.add("targets", NAME, b"good");
        let root = repository.root(1);
        let mut bed = Self { dir, repository, kept: BTreeMap::from([("root".to_owned(), root)]) };
        assert_eq!(bed.look(NOW), Ok(true));
        bed
    }

    /// Whether the good archive is what the signers mean by its name, at this time.
    fn look(&mut self, now: &str) -> Result<bool, Code> {
        let metadata = self.dir.path().join("metadata");
        let mut host = Host { kept: self.kept.clone(), metadata: &metadata, asked: Vec::new(), warned: 0 };
        let found = Repository::refresh(&mut host, now.parse().unwrap())
            .and_then(|mut repository| repository.target(NAME))
            .map(|file| file.is_some_and(|file| file.is(b"good")));
        self.kept = host.kept;
        found.map_err(|error| error.code)
    }

    fn act(&mut self, steps: &str) {
        for step in steps.lines().map(str::trim).filter(|step| !step.is_empty()) {
            let words: Vec<&str> = step.split(' ').collect();
            match words[..] {
                ["flood", name] => {
                    std::fs::write(self.dir.path().join("metadata").join(name), vec![b' '; FLOOD]).unwrap();
                }
                ["garbage", name, text] => {
                    std::fs::write(self.dir.path().join("metadata").join(name), text).unwrap();
                }
                ["key", id, name] => self.repository.set("root", &format!("/keys/{id}"), key(name)),
                ["copy", from, to] => {
                    let metadata = self.dir.path().join("metadata");
                    std::fs::copy(metadata.join(from), metadata.join(to)).unwrap();
                }
                _ => self.repository.act(&words),
            }
        }
    }
}

/// The steps of each attack, and the code it ends with.
const ATTACKS: &[(&str, Code)] = &[
    // Arbitrary installation.
    ("by targets mallory\nupdate targets", Code::TufInvalid),
    ("by targets t1\nupdate targets", Code::TufInvalid),
    ("by targets t1 t1\nupdate targets", Code::TufInvalid),
    ("by timestamp mallory\nupdate timestamp", Code::TufInvalid),
    ("by snapshot mallory\nupdate snapshot", Code::TufInvalid),
    (
        "key other t1\nset root /roles/targets/keyids [\"t1\",\"other\"]\nupdate root\nby targets t1 other\nupdate targets",
        Code::TufInvalid,
    ),
    ("set root /roles/targets/threshold 0\nupdate root", Code::TufInvalid),
    ("set root /roles/timestamp/threshold 0\nupdate root", Code::TufInvalid),
    ("set root /roles/targets/keyids [\"t1\",\"t1\"]\nupdate root", Code::TufInvalid),
    // Endless data.
    ("flood timestamp.json", Code::TufInvalid),
    ("flood 2.root.json", Code::TufInvalid),
    ("update snapshot\nflood 3.snapshot.json", Code::TufInvalid),
    ("update targets\nflood 3.targets.json", Code::TufInvalid),
    // Freeze.
    ("set root /expires \"2029-12-31T00:00:00Z\"\nupdate root", Code::TufExpired),
    ("set timestamp /expires \"2029-12-31T00:00:00Z\"\nupdate timestamp", Code::TufExpired),
    ("set snapshot /expires \"2029-12-31T00:00:00Z\"\nupdate snapshot", Code::TufExpired),
    ("set targets /expires \"2029-12-31T00:00:00Z\"\nupdate targets", Code::TufExpired),
    // What ends in this very second has ended.
    ("set timestamp /expires \"2030-01-01T00:00:00Z\"\nupdate timestamp", Code::TufExpired),
    // Mix and match.
    (
        "set snapshot /meta/targets.json/version 3\nupdate snapshot\nset targets /version 3\npublish targets",
        Code::TufInvalid,
    ),
    (
        "set snapshot /meta/targets.json {\"version\":9}\nupdate snapshot\nset targets /version 9\nby targets t1\npublish targets",
        Code::TufInvalid,
    ),
    ("set timestamp /meta/snapshot.json {\"version\":3}\nset timestamp /version 3\npublish timestamp", Code::Network),
    // Rollback.
    ("set timestamp /version 1\npublish timestamp", Code::TufRollback),
    (
        "set timestamp /version 9\nset timestamp /meta/snapshot.json {\"version\":1}\npublish timestamp",
        Code::TufRollback,
    ),
    ("set targets /version 0\nupdate targets", Code::TufRollback),
    ("set snapshot /meta {\"other.json\":{\"version\":1}}\nupdate snapshot", Code::TufRollback),
    // Key compromise: the online key, one targets key, one root key alone.
    ("set targets /targets {}\nby targets online\nupdate targets", Code::TufInvalid),
    ("by root r1\nupdate root", Code::TufInvalid),
    (
        "by root r1 online\nset root /roles/targets {\"keyids\":[\"online\"],\"threshold\":1}\nupdate root",
        Code::TufInvalid,
    ),
    // A root that skips a version, or goes back.
    ("set root /version 4\npublish root\ncopy 4.root.json 2.root.json", Code::TufInvalid),
    ("copy 1.root.json 2.root.json", Code::TufRollback),
    // Roles with a top-level role's name, or none.
    (
        "set targets /delegations {\"keys\":{},\"roles\":[{\"name\":\"root\",\"keyids\":[],\"threshold\":1,\"paths\":[\"*\"]}]}\nupdate targets",
        Code::TufInvalid,
    ),
    (
        "set targets /delegations {\"keys\":{},\"roles\":[{\"name\":\"a\",\"keyids\":[],\"threshold\":1}]}\nupdate targets",
        Code::TufInvalid,
    ),
    // What is no metadata.
    ("garbage timestamp.json {}", Code::TufInvalid),
    ("garbage timestamp.json []", Code::TufInvalid),
    ("garbage timestamp.json {", Code::TufInvalid),
    (
        "garbage timestamp.json {\"signatures\":[],\"signed\":{\"_type\":\"timestamp\",\"spec_version\":\"1.0\",\"version\":1.5}}",
        Code::TufInvalid,
    ),
    ("set timestamp /spec_version \"2.0.0\"\nupdate timestamp", Code::TufInvalid),
    ("set timestamp /_type \"snapshot\"\nupdate timestamp", Code::TufInvalid),
    ("set timestamp /expires \"tomorrow\"\nupdate timestamp", Code::TufInvalid),
    ("set targets /targets {\"a\":{\"length\":1,\"hashes\":{\"md5\":\"00\"}}}\nupdate targets", Code::TufInvalid),
    ("set targets /targets {\"a\":{\"length\":-1,\"hashes\":{\"sha256\":\"00\"}}}\nupdate targets", Code::TufInvalid),
];

#[test]
fn every_attack_ends_with_its_code_and_the_repository_is_accepted_once_it_is_good_again() {
    for (steps, code) in ATTACKS {
        let mut bed = Bed::new();
        // The same repository, some versions later and never attacked.
        let good = tempfile::tempdir().unwrap();
        copy(bed.dir.path(), good.path());
        let mut later = TufRepository::at(good.path());
        (0..10).for_each(|_| later.update("targets"));
        let kept = bed.kept.clone();
        bed.act(steps);
        assert_eq!(bed.look(NOW), Err(*code), "{steps}");
        assert_eq!(bed.kept["targets"], kept["targets"], "{steps}");
        // The mirror is put right: nothing that was kept stands in the way. A root that its own signers let end does.
        if bed.kept["root"] == kept["root"] {
            std::fs::remove_dir_all(bed.dir.path().join("metadata")).unwrap();
            copy(good.path(), bed.dir.path());
            assert_eq!(bed.look(NOW), Ok(true), "{steps}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("metadata")).unwrap();
    for entry in std::fs::read_dir(from.join("metadata")).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join("metadata").join(entry.file_name())).unwrap();
    }
    std::fs::copy(from.join("state.json"), to.join("state.json")).unwrap();
}

#[test]
fn two_hundred_and_fifty_six_new_roots_are_taken_in_one_run_and_the_others_in_the_next() {
    let mut bed = Bed::new();
    (0..300).for_each(|_| bed.repository.update("root"));
    assert_eq!(bed.look(NOW), Err(Code::TufInvalid));
    assert_eq!(bed.look(NOW), Ok(true));
}

#[test]
fn versions_that_were_driven_to_the_last_one_are_forgotten_with_the_keys_that_signed_them() {
    let mut bed = Bed::new();
    let last = i64::MAX.to_string();
    bed.act(&format!("set snapshot /version {last}\npublish snapshot\nlink snapshot\nset timestamp /version {last}\npublish timestamp"));
    assert_eq!(bed.look(NOW), Ok(true));
    bed.act("set snapshot /version 2\nset timestamp /version 2\nupdate snapshot");
    assert_eq!(bed.look(NOW), Err(Code::TufRollback));
    bed.act("key fresh fresh\nset root /roles/snapshot/keyids [\"fresh\"]\nset root /roles/timestamp/keyids [\"fresh\"]\nupdate root");
    bed.act("by snapshot fresh\nby timestamp fresh\nupdate snapshot");
    assert_eq!(bed.look(NOW), Ok(true));
}

#[test]
fn a_key_of_another_id_is_the_same_key_and_a_role_is_asked_by_whoever_delegates_to_it_here() {
    let mut bed = Bed::new();
    bed.act("set targets /targets {}\ndelegate targets a ka teleport-*\ndelegate targets b kb teleport-*\ndelegate a c kc teleport-*");
    assert_eq!(bed.look(NOW), Ok(false));
    // `b` speaks, and `a`, who is asked before it, has nothing.
    bed.repository.add("b", NAME, b"good");
    assert_eq!(bed.look(NOW), Ok(true));
    // Who is asked first counts.
    bed.repository.add("c", NAME, b"evil");
    assert_eq!(bed.look(NOW), Ok(false));
    // Off its path nobody is asked.
    bed.act("set targets /delegations/roles/0/paths [\"other-*\"]\nupdate targets");
    assert_eq!(bed.look(NOW), Ok(true));
    // After one that terminates nobody is.
    bed.act("set targets /delegations/roles/0/paths [\"*\"]\nset targets /delegations/roles/0/terminating true\nset c /targets {}\nupdate c\nupdate targets");
    assert_eq!(bed.look(NOW), Ok(false));
}

#[test]
fn the_thirty_third_role_is_one_too_many() {
    let mut bed = Bed::new();
    bed.act("set targets /targets {}");
    for number in 1..=33 {
        let from = if number == 1 { "targets".to_owned() } else { format!("d{}", number - 1) };
        bed.act(&format!("delegate {from} d{number} k{number} *"));
        if number == 32 {
            assert_eq!(bed.look(NOW), Ok(false));
        }
    }
    assert_eq!(bed.look(NOW), Err(Code::TufInvalid));
}

#[test]
fn what_is_kept_and_damaged_is_had_anew_but_the_root() {
    for role in ["timestamp", "snapshot", "targets"] {
        let mut bed = Bed::new();
        bed.kept.insert(role.to_owned(), b"{".to_vec());
        assert_eq!(bed.look(NOW), Ok(true), "{role}");
        assert_ne!(bed.kept[role], b"{", "{role}");
    }
    let mut bed = Bed::new();
    bed.kept.insert("root".to_owned(), b"{".to_vec());
    assert_eq!(bed.look(NOW), Err(Code::TufState));
    bed.kept.remove("root");
    assert_eq!(bed.look(NOW), Err(Code::TufState));
}

#[test]
fn where_nothing_is_new_only_the_next_root_and_the_timestamp_are_asked_for() {
    let bed = Bed::new();
    let metadata = bed.dir.path().join("metadata");
    let mut host = Host { kept: bed.kept.clone(), metadata: &metadata, asked: Vec::new(), warned: 0 };
    Repository::refresh(&mut host, NOW.parse::<Timestamp>().unwrap()).map(drop).unwrap();
    assert_eq!((host.asked.join(" ").as_str(), host.warned), ("2.root.json timestamp.json", 0));
}

/// In which order roles are asked, and by whose keys: as python-tuf does.
#[test]
fn delegations_are_searched_in_preorder_and_each_by_whoever_delegates_on_this_way() {
    let three = |second: &str, third: &str| {
        let mut bed = Bed::new();
        bed.act("set targets /targets {}\ndelegate targets a ka *");
        bed.act(&format!("delegate targets {second} k{second} *\ndelegate targets {third} k{third} *"));
        bed
    };
    // A role that is named later, and by one that is asked before, is asked before.
    let mut bed = three("c", "b");
    bed.act("delegate a b kb *");
    bed.repository.add("b", NAME, b"good");
    bed.repository.add("c", NAME, b"evil");
    assert_eq!(bed.look(NOW), Ok(true));
    // One that terminates does so where it was named before, or asked.
    for order in [["b", "c"], ["c", "b"]] {
        let mut bed = three(order[0], order[1]);
        bed.act("delegate a b kb * terminating");
        bed.repository.add("c", NAME, b"good");
        assert_eq!(bed.look(NOW), Ok(false), "{order:?}");
    }
    // The keys are those of this way.
    let mut bed = Bed::new();
    bed.act("set targets /targets {}\ndelegate targets a ka *\ndelegate targets b kb *\ndelegate a b other *\nby b kb");
    bed.repository.add("b", NAME, b"good");
    assert_eq!(bed.look(NOW), Err(Code::TufInvalid));
}
