//! `tuf`, `mirror` and `/tuf/metadata/`: a repository that several people sign, what hosts find there, and what comes of a cut.

use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::io::Errno;
use tempfile::TempDir;
use testing::cluster::{Archive, Cluster, Misbehaviour, Signer, TufRepository};
use testing::crash::injector::{self, Action, Call, Scope};

use crate::support::{Server, dir, program};

/// The archive that the first targets name.
const NAME: &str = "teleport-v1.0.0-linux-amd64-bin.tar.gz";
/// The next one.
const NEXT: &str = "teleport-v2.0.0-linux-amd64-bin.tar.gz";
/// The keys of the people, and the server's.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "online"];

/// A directory with keys, archives, and maybe a repository.
struct Site(TempDir);

impl Site {
    /// With keys, and two archives in `archives/`.
    fn bare() -> Self {
        let site = Self(dir());
        KEYS.iter().for_each(|key| drop(site.ok(&format!("tuf key {key}"))));
        std::fs::create_dir(site.path("archives")).unwrap();
        std::fs::write(site.path(&format!("archives/{NAME}")), "first").unwrap();
        std::fs::write(site.path(&format!("archives/{NEXT}")), "second").unwrap();
        site
    }

    /// With a repository that names the first archive.
    fn new() -> Self {
        let site = Self::bare();
        site.all(
            "tuf init repo --root-key a.pub --root-key b.pub --root-key c.pub --targets-key d.pub --targets-key e.pub --online-key online.pub
             tuf add repo archives/teleport-v1.0.0-linux-amd64-bin.tar.gz
             tuf sign repo --key a
             tuf sign repo --key b
             tuf sign repo --key d --check archives
             tuf sign repo --key e --check archives
             tuf commit repo --online-key online",
        );
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, line: &str) -> Output {
        let words: Vec<&str> = line.split(' ').collect();
        program(&words).current_dir(self.0.path()).output().unwrap()
    }

    #[track_caller]
    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs each line.
    #[track_caller]
    fn all(&self, lines: &str) {
        lines.lines().map(str::trim).for_each(|line| drop(self.ok(line)));
    }

    /// Runs a line that must be refused with this status, and gives what it said.
    #[track_caller]
    fn refuses(&self, line: &str, status: i32, said: &str) {
        let output = self.run(line);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{line}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{line}: {stderr}");
    }

    /// Whether a host with the first root accepts what is published.
    fn is_accepted(&self) -> bool {
        self.run("tuf check repo --root repo/metadata/1.root.json").status.success()
    }

    /// The same, byte for byte.
    fn copied(&self) -> Self {
        let copy = Self(dir());
        let from = format!("{}/.", self.0.path().display());
        let status = std::process::Command::new("cp").args(["-a", &from]).arg(copy.0.path()).status();
        assert!(status.unwrap().success());
        copy
    }
}

#[test]
fn a_repository_needs_two_people_for_each_archive_and_keys_that_can_be_lost() {
    let site = Site::bare();
    let three = "--root-key a.pub --root-key b.pub --root-key c.pub";
    for (keys, said) in [
        (
            "--root-key a.pub --root-key b.pub --targets-key d.pub --targets-key e.pub --online-key online.pub",
            "--no-spare",
        ),
        (&format!("{three} --targets-key a.pub --targets-key e.pub --online-key online.pub"), "both root and targets"),
        (&format!("{three} --targets-key d.pub --targets-key e.pub --online-key d.pub"), "both targets and timestamp"),
        (&format!("{three} --targets-key d.pub --targets-key d.pub --online-key online.pub"), "given twice"),
        (&format!("{three} --targets-key d.pub --online-key online.pub"), "2 signatures cannot be asked for"),
        (&format!("{three} --targets-key d.pub --targets-key e.pub --online-key online"), "PUBLIC KEY"),
        (&format!("{three} --targets-key d.pub --targets-key e.pub"), "no key for snapshot"),
        (
            &format!("{three} --targets-key d.pub --targets-key e.pub --online-key online.pub --timestamp-days 3"),
            "less than 4 periods",
        ),
    ] {
        site.refuses(&format!("tuf init repo {keys}"), 2, said);
        assert!(!site.path("repo/policy.json").exists(), "{keys}");
    }
    site.refuses("tuf add repo", 2, "no repository");
    site.refuses("tuf key a", 1, "a.pub: ");
    site.all(&format!("tuf init repo {three} --targets-key d.pub --targets-key e.pub --online-key online.pub"));
    site.refuses(
        &format!("tuf init repo {three} --targets-key d.pub --targets-key e.pub --online-key online.pub"),
        2,
        "already",
    );
    site.refuses("tuf commit repo --online-key online", 1, "root version 1 has 0 of the 2 signatures");
    site.refuses("tuf sign repo --key online", 2, "nothing that waits");
    site.all("tuf sign repo --key a\ntuf sign repo --key c");
    site.all(&format!("tuf add repo archives/{NAME}"));
    site.refuses("tuf sign repo --key d", 2, "--check");
    // The second signer's own copy is another one, or lacks.
    std::fs::create_dir(site.path("own")).unwrap();
    site.refuses("tuf sign repo --key d --check own", 1, "is not there");
    std::fs::write(site.path(&format!("own/{NAME}")), "evil!").unwrap();
    site.refuses("tuf sign repo --key d --check own", 1, "[tuf_mismatch]");
    site.all("tuf sign repo --key d --check archives");
    site.refuses("tuf commit repo --online-key online", 1, "targets version 1 has 1 of the 2 signatures");
    // The same person again is one.
    site.all("tuf sign repo --key d --check archives");
    site.refuses("tuf commit repo --online-key online", 1, "targets version 1 has 1 of the 2 signatures");
    site.all("tuf sign repo --key e --unchecked");
    site.refuses("tuf commit repo --online-key e", 2, "online key");
    site.all("tuf commit repo --online-key online");
    assert!(site.is_accepted());
    let record = std::fs::read_to_string(site.path("repo/signatures.jsonl")).unwrap();
    assert!(record.lines().last().unwrap().ends_with(r#""compared":false}"#), "{record}");
    // What is published once need not be compared again.
    site.all(&format!("tuf add repo archives/{NEXT} --remove {NAME}"));
    site.refuses(&format!("tuf add repo --remove {NAME}"), 2, "name no");
    site.all("tuf sign repo --key d --check archives\ntuf sign repo --key e --check archives\ntuf commit repo --online-key online");
    site.all("tuf add repo\ntuf sign repo --key d\ntuf sign repo --key e\ntuf commit repo --online-key online");
    assert!(site.is_accepted());
}

#[test]
fn keys_are_rotated_and_a_command_can_sign() {
    let site = Site::new();
    site.all("tuf key f\ntuf rotate repo --targets-key d.pub --targets-key f.pub");
    site.refuses("tuf commit repo --online-key online", 1, "of the present root keys");
    site.all("tuf sign repo --key a\ntuf sign repo --key b");
    site.refuses("tuf commit repo --online-key online", 1, "targets version 2 has 0 of the 2 signatures");
    site.all("tuf sign repo --key d\ntuf sign repo --key f --check archives\ntuf commit repo --online-key online");
    assert!(site.is_accepted());
    // The online key, and two of three root keys.
    site.all("tuf key g\ntuf key h\ntuf key other\ntuf rotate repo --root-key a.pub --root-key g.pub --root-key h.pub --online-key other.pub");
    site.all("tuf sign repo --key g\ntuf sign repo --key h");
    site.refuses("tuf commit repo --online-key other", 1, "of the present root keys");
    site.all("tuf sign repo --key a\ntuf sign repo --key b");
    site.refuses("tuf commit repo --online-key online", 2, "online key");
    site.all("tuf commit repo --online-key other");
    assert!(site.is_accepted());
    // OpenSSL in the place of a key in a device.
    let command = "openssl dgst -sha256 -sign ec.pem";
    let openssl =
        |words: &[&str]| std::process::Command::new("openssl").args(words).current_dir(site.0.path()).output();
    if openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "ec.pem"]).is_err() {
        return eprintln!("skipped: there is no openssl");
    }
    openssl(&["pkey", "-in", "ec.pem", "-pubout", "-out", "ec.pub"]).unwrap();
    site.all("tuf rotate repo --targets-key d.pub --targets-key ec.pub\ntuf sign repo --key a\ntuf sign repo --key g\ntuf sign repo --key d");
    let sign = |key: &str| {
        let words = ["tuf", "sign", "repo", "--check", "archives", "--key", key];
        program(&words).current_dir(site.0.path()).output().unwrap()
    };
    assert!(sign(&format!("exec:{command}")).status.success());
    assert_eq!(sign("exec:false").status.code(), Some(1));
    site.all("tuf commit repo --online-key other");
    assert!(site.is_accepted());
}

#[test]
fn a_directory_that_went_back_is_not_published_again() {
    let site = Site::new();
    let before = site.copied();
    site.all("tuf refresh repo --online-key online --above 7");
    std::fs::copy(site.path("repo/published.json"), before.path("repo/published.json")).unwrap();
    // What the online key signs goes on above it.
    assert_eq!(before.ok("tuf refresh repo --online-key online"), "published timestamp version 9\n");
    assert!(before.is_accepted());
    before.refuses("tuf refresh repo --online-key online --above 18446744073709551615", 2, "--above");
    // What people sign does not.
    std::fs::write(before.path("repo/published.json"), r#"{"targets":5}"#).unwrap();
    before.refuses("tuf refresh repo --online-key online", 1, "[tuf_rollback]");
}

/// Whoever may write to the shared directory, with one key or none, gets no second signature for what its owner has not seen.
#[test]
fn nobody_signs_what_somebody_else_wrote_by_hand() {
    let clean = Site::new();
    clean.all("tuf key f\ntuf add repo archives/teleport-v2.0.0-linux-amd64-bin.tar.gz");
    let staged = |site: &Site, change: &dyn Fn(&mut serde_json::Value)| {
        let path = site.path("repo/staged/targets.json");
        let mut whole: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut whole["signed"]);
        std::fs::write(path, whole.to_string()).unwrap();
    };
    let role = serde_json::json!({"keys": {}, "roles": []});
    for (change, said) in [
        (
            &(|signed: &mut serde_json::Value| signed["delegations"] = role.clone()) as &dyn Fn(&mut serde_json::Value),
            "other fields",
        ),
        (&|signed| signed["version"] = 9.into(), "2 is the next one"),
        (&|signed| signed["version"] = 1.into(), "nothing that waits"),
        (&|signed| signed["expires"] = "9999-01-01T00:00:00Z".into(), "its end"),
        (&|signed| signed["targets"]["../x"] = signed["targets"][NAME].clone(), "no archive"),
        (&|signed| signed["targets"][NAME]["custom"] = 1.into(), "no archive"),
        (&|signed| signed["targets"] = "x".into(), "nothing that waits"),
    ] {
        let site = clean.copied();
        staged(&site, change);
        let output = site.run("tuf sign repo --key e --check archives");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() || said == "nothing that waits", "{said}");
        assert!(stderr.contains(said) || output.status.success(), "{said}: {stderr}");
    }
    // Published by hand, it is not known: nobody's signature that counts is on it.
    let site = clean.copied();
    std::fs::write(site.path(&format!("archives/{NEXT}")), "evil").unwrap();
    site.all(&format!("tuf add repo archives/{NEXT}"));
    let bytes = std::fs::read(site.path("repo/staged/targets.json")).unwrap();
    std::fs::write(site.path("repo/metadata/1.targets.json"), bytes).unwrap();
    std::fs::write(site.path(&format!("archives/{NEXT}")), "second").unwrap();
    assert!(!site.run("tuf sign repo --key e --check archives").status.success());
    // What changes is said.
    let said = clean.ok("tuf sign repo --key e --check archives");
    assert!(said.contains(&format!("new: {NEXT}")) && said.contains("targets end 20"), "{said}");
    clean.all("tuf rotate repo --root-key a.pub --root-key b.pub --root-key f.pub");
    let said = clean.ok("tuf sign repo --key a");
    assert!(said.contains("(NEW)") && said.contains("(as before)"), "{said}");
}

#[test]
fn links_in_the_shared_directory_lead_nowhere() {
    let link = |site: &Site, name: &str| {
        let path = site.path(name);
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink("../../precious", path).unwrap();
    };
    let clean = Site::new();
    clean.all("tuf add repo archives/teleport-v2.0.0-linux-amd64-bin.tar.gz");
    std::fs::write(clean.path("precious"), "precious").unwrap();
    for name in [
        "repo/staged/targets.json",
        "repo/signatures.jsonl",
        "repo/metadata/1.root.json",
        "repo/policy.json",
        "repo/.lock",
    ] {
        let site = clean.copied();
        link(&site, name);
        site.run("tuf sign repo --key e --check archives");
        site.run("tuf refresh repo --online-key online --above 9");
        site.run("tuf add repo");
        assert_eq!(std::fs::read_to_string(site.path("precious")).unwrap(), "precious", "{name}");
    }
    let site = clean.copied();
    std::fs::rename(site.path("repo/staged"), site.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", site.path("repo/staged")).unwrap();
    site.refuses("tuf add repo", 2, "no directory");
    // A pipe is not waited for.
    rustix::fs::mknodat(rustix::fs::CWD, site.path("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    clean.all("tuf add repo");
    std::fs::rename(site.path("pipe"), clean.path("pipe")).unwrap();
    clean.refuses("tuf add repo pipe", 2, "no regular file");
}

#[test]
fn thresholds_stay_and_a_root_that_takes_a_key_away_waits_for_no_archive() {
    let site = Site::new();
    site.all("tuf key f\ntuf rotate repo --root-threshold 3 --no-spare\ntuf sign repo --key a\ntuf sign repo --key b\ntuf sign repo --key c\ntuf commit repo --online-key online");
    site.all("tuf rotate repo --root-key a.pub --root-key b.pub --root-key c.pub --root-key f.pub");
    let said = site.ok("tuf sign repo --key a");
    assert!(said.contains("root: 3 of"), "{said}");
    // A second rotation goes on with the first.
    site.all("tuf key g\ntuf rotate repo --online-key g.pub");
    let said = site.ok("tuf sign repo --key a");
    assert!(said.contains("root: 3 of") && said.matches("(NEW)").count() == 3, "{said}");
    site.all(
        "tuf sign repo --key b\ntuf sign repo --key c\ntuf add repo archives/teleport-v2.0.0-linux-amd64-bin.tar.gz",
    );
    let said = site.ok("tuf commit repo --online-key g");
    assert!(said.contains("targets version 2 wait"), "{said}");
    assert!(site.is_accepted());
    // The old key is told at once.
    site.refuses("tuf refresh repo --online-key online", 2, "online key");
    // Of a commit that was killed before its end nothing waits any more.
    site.all("tuf sign repo --key d --check archives\ntuf sign repo --key e --check archives");
    let waiting = std::fs::read(site.path("repo/staged/targets.json")).unwrap();
    site.all("tuf commit repo --online-key g");
    std::fs::write(site.path("repo/staged/targets.json"), waiting).unwrap();
    site.refuses("tuf commit repo --online-key g", 2, "nothing waits");
    // A key that could never count.
    std::fs::write(site.path("bad.pub"), std::fs::read_to_string(site.path("a.pub")).unwrap().replace("MCow", "MCox"))
        .unwrap();
    site.refuses("tuf rotate repo --online-key bad.pub", 2, "bad.pub");
    site.refuses("tuf key a", 1, "a.pub");
}

/// The verbs that publish, cut short at each call that changes something: hosts accept what is there, and the verb comes to its end
/// when it is run again.
#[test]
fn what_is_published_is_accepted_wherever_a_verb_is_killed_or_fails() {
    let mut site = Site::new();
    let published = |site: &Site| std::fs::read(site.path("repo/metadata/timestamp.json")).unwrap();
    let verbs = [
        ("", "tuf refresh repo --online-key online --above 20"),
        (
            "tuf add repo archives/teleport-v2.0.0-linux-amd64-bin.tar.gz\ntuf sign repo --key d --check archives\ntuf sign repo --key e --check archives",
            "tuf commit repo --online-key online",
        ),
        (
            "tuf rotate repo --root-key a.pub --root-key b.pub --root-key c.pub\ntuf sign repo --key a\ntuf sign repo --key c",
            "tuf commit repo --online-key online",
        ),
    ];
    for (before, verb) in verbs {
        before.lines().for_each(|line| drop(site.ok(line)));
        let words: Vec<&str> = verb.split(' ').collect();
        let cut = |site: &Site, action: &mut dyn FnMut(&Call) -> Action| {
            injector::run(program(&words).current_dir(site.0.path()), Scope::Changes, action)
        };
        let done = site.copied();
        let calls = cut(&done, &mut |_| Action::Pass).calls.len();
        assert!(calls > 8 && done.is_accepted(), "{verb}: {calls} calls");
        for action in [
            Action::Kill,
            Action::Fail(Errno::IO.raw_os_error()),
            Action::Fail(Errno::NOSPC.raw_os_error()),
            Action::Short,
        ] {
            for number in 1..=calls {
                let here = site.copied();
                let old = published(&here);
                cut(&here, &mut |call| if call.number == number { action } else { Action::Pass });
                assert!(here.is_accepted(), "{verb}: {action:?} at {number} of {calls}");
                let is_done = published(&here) != old;
                // Again: it does what is left, or says that nothing is.
                let again = here.run(verb);
                let said = String::from_utf8_lossy(&again.stderr).into_owned();
                assert!(
                    again.status.success() || (is_done && said.contains("nothing waits")),
                    "{verb}: {number}: {said}"
                );
                assert!(here.is_accepted() && published(&here) != old, "{verb}: {action:?} at {number}");
            }
        }
        site = done;
    }
}

/// The page's commands, as they are printed.
#[test]
fn the_page_makes_a_repository() {
    let page = std::fs::read_to_string(testing::beds::checkout("docs/tuf.md")).unwrap();
    let block = page.split_once("```sh repository\n").unwrap().1.split_once("```").unwrap().0;
    let site = Site(dir());
    for key in ["anna", "bert", "cleo", "dora", "emil", "online"] {
        site.ok(&format!("tuf key {key}"));
    }
    for place in ["", "doras-own-downloads/", "emils-own-downloads/"] {
        std::fs::create_dir_all(site.path(place)).unwrap();
        std::fs::write(site.path(&format!("{place}teleport-v17.0.1-linux-amd64-bin.tar.gz")), "archive").unwrap();
    }
    let bin = Path::new(env!("CARGO_BIN_EXE_teleport-fleet")).parent().unwrap();
    let mut bash = std::process::Command::new("bash");
    bash.args(["-euc", block]).current_dir(site.0.path()).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let output = bash.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && stdout.contains("a host accepts it: root version 1"), "{output:?}");
}

/// Python's TUF, below the directory of builds; `None`, said so: it is not there.
fn python() -> Option<PathBuf> {
    let below = Path::new(env!("CARGO_BIN_EXE_teleport-fleet")).ancestors().nth(3).unwrap();
    let found = below.join("python-tuf/bin/python");
    let found = found.exists().then_some(found);
    if found.is_none() {
        eprintln!("skipped: there is no python-tuf (tests/setup.sh tuf)");
    }
    found
}

#[test]
fn python_tuf_accepts_our_repositories_and_we_accept_its() {
    let Some(python) = python() else { return };
    let script = testing::beds::checkout("tests/tuf/python_tuf.py");
    let run = |words: &[&str]| std::process::Command::new(&python).arg(&script).args(words).output().unwrap();
    let site = Site::new();
    site.all("tuf rotate repo --root-key a.pub --root-key b.pub --root-key c.pub\ntuf sign repo --key a\ntuf sign repo --key c\ntuf commit repo --online-key online");
    let word = |name: &str| site.path(name).display().to_string();
    let (root, metadata) = (word("repo/metadata/1.root.json"), word("repo/metadata"));
    let accepted = run(&["accept", &root, &metadata, NAME, &word(&format!("archives/{NAME}"))]);
    assert!(accepted.status.success(), "{accepted:?}");
    assert_eq!(run(&["accept", &root, &metadata, NAME, &word("a.pub")]).status.code(), Some(1));
    for kind in ["flat", "delegated", "bins", "rsa", "p256", "rotated"] {
        let place = word(kind);
        let made = run(&["make", kind, &place]);
        assert!(made.status.success(), "{kind}: {made:?}");
        let client = http_client::Client::new(&http_client::HttpSettings::default()).unwrap();
        let (root, names) = (site.path(kind).join("root.json"), ["target".to_owned(), "none".to_owned()]);
        let found = fleet_tuf::check(&place, &root, &client, jiff::Timestamp::now(), &names).unwrap().1;
        assert!(found[0].as_ref().is_some_and(|file| file.is(b"the file that is meant")), "{kind}");
        assert!(found[1].is_none(), "{kind}");
    }
}

#[test]
fn a_mirror_has_archives_whole_and_verified_or_not_at_all() {
    let site = Site::bare();
    let cluster = Cluster::start(&site.path("cluster"));
    let signer = Signer::fixed(1);
    std::fs::write(site.path("release.pem"), signer.public_key_pem()).unwrap();
    let archive = Archive::simple("1.0.0").signed(&signer);
    cluster.publish(&archive);
    let from = format!("--from {} --ca-file {}", cluster.base_url(), site.path("cluster/ca.pem").display());
    let mirror = format!("mirror --versions 1.0.0 --edition oss --to mirror {from}");
    let whole = site.path(&format!("mirror/{NAME}"));
    // The connection breaks; what came is gone on with.
    cluster.misbehave_times(&format!("{NAME}$"), Misbehaviour::CutAfter { bytes: 100_000 }, 1);
    site.refuses(&mirror, 1, "goes on from there");
    assert!(!whole.exists());
    cluster.behave();
    cluster.forget_requests();
    site.ok(&mirror);
    let asked = cluster.requests_to(&format!("/cdn/{NAME}"));
    assert!(asked.iter().any(|asked| asked.header("range") == Some("bytes=100000-")), "{asked:?}");
    assert_eq!(std::fs::read(&whole).unwrap(), std::fs::read(cluster.cdn().join(NAME)).unwrap());
    // Again: nothing is downloaded.
    cluster.forget_requests();
    assert!(site.ok(&mirror).contains("is there, verified"));
    assert!(cluster.requests_to(&format!("/cdn/{NAME}$")).is_empty());
    // A key.
    site.ok(&format!("{mirror} --public-key release.pem"));
    assert!(site.path(&format!("mirror/{NAME}.sig")).exists());
    // What the key did not sign, what TUF's signers do not mean, what is damaged.
    std::fs::write(site.path("other.pem"), Signer::fixed(2).public_key_pem()).unwrap();
    let other = mirror.replace("--to mirror", "--to second");
    site.refuses(&format!("{other} --public-key other.pem"), 1, "[signature_invalid]");
    let mut repository = TufRepository::at(&cluster.cdn().join("tuf"));
    let root = cluster.cdn().join("tuf/metadata/1.root.json");
    let with_tuf = format!("{other} --tuf-root {}", root.display());
    site.refuses(&with_tuf, 1, "[tuf_unlisted]");
    repository.add("targets", NAME, b"another one");
    site.refuses(&with_tuf, 1, "[tuf_mismatch]");
    repository.add("targets", NAME, &std::fs::read(&whole).unwrap());
    std::fs::write(cluster.cdn().join(NAME), "damaged").unwrap();
    site.refuses(&with_tuf, 1, "[checksum_mismatch]");
    assert!(std::fs::read_dir(site.path("second")).unwrap().next().is_none(), "nothing of it is there");
    std::fs::copy(&whole, cluster.cdn().join(NAME)).unwrap();
    site.ok(&with_tuf);
    site.refuses(&mirror.replace("1.0.0", "9.0.0"), 1, "[archive_missing]");
    site.refuses(&mirror.replace("oss", "free"), 2, "--edition");
}

#[test]
fn a_server_serves_its_repository_keeps_it_from_ending_and_says_when_people_must_sign() {
    let site = Site::new();
    let words = ["--plain", "--tuf-repository", "repo", "--tuf-online-key", "online"];
    let words =
        words.map(|word| if word.starts_with("--") { word.to_owned() } else { site.path(word).display().to_string() });
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let file = |name: &str| std::fs::read_to_string(site.path(&format!("repo/{name}"))).unwrap();
    // As if half of the time were over.
    let policy = file("policy.json").replace("604800", "60480000");
    std::fs::write(site.path("repo/policy.json"), policy).unwrap();
    // The directory is others', too: no key is handed out.
    std::os::unix::fs::symlink("../../online", site.path("repo/metadata/k.json")).unwrap();
    std::fs::write(site.path("repo/metadata/other.json"), "{}").unwrap();
    let data = dir();
    let server = Server::with(data.path(), &words);
    server.until("the timestamp is new", || file("metadata/timestamp.json").contains("\"version\":2"));
    for name in ["1.root.json", "1.targets.json", "timestamp.json"] {
        assert_eq!(server.get(&format!("/tuf/metadata/{name}")), (200, file(&format!("metadata/{name}"))), "{name}");
    }
    for name in [
        "policy.json",
        "2.root.json",
        "..%2fpolicy.json",
        "%2e%2e/policy.json",
        ".timestamp.json.new",
        "x",
        "k.json",
        "other.json",
    ] {
        assert_eq!(server.get(&format!("/tuf/metadata/{name}")).0, 404, "{name}");
    }
    server.until("it was looked at", || server.metrics().contains("tuf_role_end_timestamp_seconds{role=\"root\"}"));
    assert!(!server.log().contains("ends at"), "{}", server.log());
    drop(server);
    // The targets end in a week: who runs the server hears of it, and doctor says the command.
    let policy = file("policy.json").replace("7776000", "600000");
    std::fs::write(site.path("repo/policy.json"), policy).unwrap();
    site.all("tuf add repo\ntuf sign repo --key d\ntuf sign repo --key e\ntuf commit repo --online-key online");
    let server = Server::with(data.path(), &words);
    let told = || server.log().matches("The role targets of the TUF repository ends at").count();
    server.until("it is told", || told() > 0);
    assert_eq!(told(), 1, "of two thresholds that are past the nearer one");
    let config = site.path("fleet.yaml");
    std::fs::write(&config, format!("tuf_repository: {}\n", site.path("repo").display())).unwrap();
    let words = ["doctor", "--config", config.to_str().unwrap(), "--data", data.path().to_str().unwrap()];
    let said = program(&words).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("warning  The role targets of the TUF repository ends at"), "{said}");
    drop(server);
    // A repository that hosts refuse.
    std::fs::remove_file(site.path("repo/metadata/1.root.json")).unwrap();
    let said = String::from_utf8(program(&words).output().unwrap().stdout).unwrap();
    assert!(said.contains("problem  the TUF repository"), "{said}");
}

/// DIRECTIVES §5.4, r12, r13, r59: what signers list becomes a draft, with all that installers need of it, and with the floor.
#[test]
fn r59_a_controller_drafts_what_the_signers_list_and_says_where_it_cannot() {
    let site = Site::new();
    site.all(
        "tuf add repo archives/teleport-v2.0.0-linux-amd64-bin.tar.gz --security CVE-2026-1 --eol
         tuf sign repo --key d --check archives",
    );
    let signed = site.ok("tuf sign repo --key e --check archives");
    assert!(signed.contains("CVE-2026-1"), "the signer sees it: {signed}");
    site.ok("tuf commit repo --online-key online");
    let repository = site.path("repo").display().to_string();
    let online = site.path("online").display().to_string();
    let data = dir();
    let server = Server::with(data.path(), &["--plain", "--tuf-repository", &repository, "--tuf-online-key", &online]);
    let root = std::fs::read_to_string(site.path("repo/metadata/1.root.json")).unwrap();
    let controller = |port: u16| {
        serde_json::json!({
            "kind": "version-controller", "sub_kind": "tuf", "metadata": { "name": "default" },
            "spec": { "url": format!("http://127.0.0.1:{port}/tuf/metadata"), "root": root, "interval": "5m" },
        })
    };
    let write = |port: u16| server.cli_with(&["create", "--force", "-f", "-"], &controller(port).to_string());
    assert!(write(server.addr.port()).status.success());
    let draft = || server.cli(&["get", "version-directive-draft/tuf/default", "--format", "json"]);
    server.until("it is drafted", || draft().status.success());
    let drafted = String::from_utf8(draft().stdout).unwrap();
    for wanted in ["2.0.0", "1.0.0", "CVE-2026-1", "\"v2\"", "length", "sha256", "amd64", "oss"] {
        assert!(drafted.contains(wanted), "{wanted}: {drafted}");
    }
    // Nobody lets hosts go by it.
    assert!(!server.cli(&["get", "version-directive"]).status.success());
    // Where it cannot ask, it says so, and what is drafted stays.
    assert!(write(1).status.success());
    server.until("it says so", || server.log().contains("the controller drafts nothing"));
    assert_eq!(String::from_utf8(draft().stdout).unwrap(), drafted);
}
