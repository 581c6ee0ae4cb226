//! `backup.yaml`: what a snapshot is of, and whether it may be restored (RFD 0169 "Downgrades", SPEC §6).

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use sources::DEFAULT_PORT;
use yaml::Node;
use yaml::scalar::time_text;
use yaml::view::{View, read_document};

use super::snapshot_id::{ABSENT, SnapshotId};
use super::sqlite;
use crate::host::{durable, ownership};
use crate::report::{Code, Error, IoContext, Result};
use protocol::{Digest, Edition, Version};

/// The snapshot's database file.
pub(crate) const DATABASE_FILE: &str = "sqlite.db";
/// The snapshot's description; written last, so that its presence means the copy is complete (RFD 0169 "Downgrades").
pub const DESCRIPTION_FILE: &str = "backup.yaml";
/// `version` of `backup.yaml` (RFD 0169).
const FORMAT: &str = "v1";
/// `kind` of `backup.yaml` (RFD 0169).
const KIND: &str = "db_backup";
/// How far in the future a snapshot may lie, seconds: clocks are stepped back by a little when they are synchronised.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// A snapshot's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The proxy the host belonged to, as written then; empty if it had none.
    pub proxy: String,
    /// The version whose database it is.
    pub version: Version,
    /// Its edition; unknown in descriptions of other updaters.
    pub edition: Option<Edition>,
    /// When it was taken; whole seconds in the file.
    pub creation_time: Timestamp,
    /// What was there.
    pub content: Content,
    /// The agent's `host_uuid` then; unknown where there was none, and in descriptions of other updaters.
    pub host: Option<String>,
    /// It holds what a failed version left behind: never restored by itself.
    pub failed: bool,
}

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A copy of the database. Size (bytes) and digest are unknown in descriptions of other updaters.
    Database {
        /// Bytes of `sqlite.db`.
        size: Option<u64>,
        /// SHA-256 of `sqlite.db`.
        sha256: Option<Digest>,
    },
    /// The host had no database.
    Absent,
}

/// What a snapshot must be to be restored.
#[derive(Debug, Clone)]
pub struct Expect<'a> {
    /// The version to be activated.
    pub version: &'a Version,
    /// Its edition; not asked where either side does not know it.
    pub edition: Option<Edition>,
    /// The configured proxy; `None` only fits a snapshot without one.
    pub proxy: Option<&'a str>,
    /// The present time.
    pub now: Timestamp,
    /// `backup_max_age`.
    pub max_age: Duration,
    /// The agent's `host_uuid` now; not asked where either side does not know it.
    pub host: Option<&'a str>,
    /// The journalled [`Backup::id`] when this very run is undone: of the snapshot with it nothing else is asked.
    pub trusted: Option<SnapshotId>,
}

impl Backup {
    /// Reads the description in `snapshot_dir`; `None` if it is not there.
    ///
    /// Errors: `backup_invalid` with file and line, also for one that others could have written; `permission`, `io`.
    pub fn read(snapshot_dir: &Path) -> Result<Option<Self>> {
        let file = snapshot_dir.join(DESCRIPTION_FILE);
        if Self::is_open(snapshot_dir) {
            let (shown, dir) = (file.display(), snapshot_dir.display());
            let what =
                format!("users other than root can write to {shown}: this database backup may have been changed");
            let how = format!("if you trust it, run `chown root:root {dir} {shown}; chmod go-w {dir} {dir}/*`");
            return Err(Error::new(Code::BackupInvalid, what).advise(how));
        }
        let read = read_document(&file, true)
            .and_then(|root| root.map(|root| Self::from_view(&View::new(&file, &root))).transpose());
        read.map_err(|error| match error.code {
            Code::ConfigInvalid => Error::new(Code::BackupInvalid, error.what).advise(NO_DOWNGRADE),
            _ => error,
        })
    }

    /// Whether others could have changed the description in `snapshot_dir`, whose digest vouches for the copy; that has the
    /// database's own owner.
    pub fn is_open(snapshot_dir: &Path) -> bool {
        [snapshot_dir, &snapshot_dir.join(DESCRIPTION_FILE)]
            .iter()
            .any(|path| std::fs::symlink_metadata(path).is_ok_and(|meta| !ownership::is_closed(path, &meta)))
    }

    /// Whether `snapshot_dir` holds what a failed version wrote; one without a good description is nobody's evidence.
    ///
    /// Errors: `permission`, `io`.
    pub fn is_failed(snapshot_dir: &Path) -> Result<bool> {
        match Self::read(snapshot_dir) {
            Err(error) if error.code == Code::BackupInvalid => Ok(false),
            read => Ok(read?.is_some_and(|backup| backup.failed)),
        }
    }

    /// Writes the description durably, mode 0644; [`Backup::read`] gives it back with whole seconds.
    pub fn write(&self, snapshot_dir: &Path) -> Result<()> {
        durable::write(&snapshot_dir.join(DESCRIPTION_FILE), self.render().as_bytes(), durable::FILE_MODE)
    }

    /// Names the bytes of the snapshot, for the journal. `None` for a snapshot of another updater that has no digest.
    pub fn id(&self) -> Option<SnapshotId> {
        match self.content {
            Content::Database { sha256, .. } => sha256.map(SnapshotId::Sha256),
            Content::Absent => Some(SnapshotId::Absent),
        }
    }

    /// The content of `backup.yaml`.
    pub fn render(&self) -> String {
        let (size, sha256, absent) = match &self.content {
            Content::Database { size, sha256 } => {
                (size.map(Node::plain), sha256.map(|sha256| Node::text(sha256.to_string())), None)
            }
            Content::Absent => (None, None, Some(Node::text(ABSENT))),
        };
        let spec = Node::mapping([
            ("proxy", Some(Node::text(&self.proxy))),
            ("version", Some(Node::text(self.version.to_string()))),
            ("creation_time", Some(Node::plain(time_text(self.creation_time)))),
            ("edition", self.edition.map(|edition| Node::text(edition.as_str()))),
            ("database", absent),
            ("size", size),
            ("sha256", sha256),
            ("host", self.host.as_deref().map(Node::text)),
            ("failed", self.failed.then(|| Node::plain(true))),
        ]);
        Node::mapping([("version", Some(Node::text(FORMAT))), ("kind", Some(Node::text(KIND))), ("spec", Some(spec))])
            .emit()
    }

    fn from_view(view: &View<'_>) -> Result<Self> {
        view.check_kind(FORMAT, KIND)?;
        let spec = view.at("spec")?;
        let time = spec.at("creation_time")?;
        let content = match spec.at("database")? {
            database if !database.is_there() => Content::Database {
                size: spec.at("size")?.integer()?,
                sha256: spec.at("sha256")?.parsed("64 hex digits")?,
            },
            database if database.text()?.as_deref() == Some(ABSENT) => Content::Absent,
            database => return Err(database.wrong("\"absent\"")),
        };
        let version = spec.at("version")?;
        Ok(Self {
            proxy: spec.at("proxy")?.text()?.unwrap_or_default(),
            version: version.needed("a version", version.parsed("a version")?)?,
            edition: spec.at("edition")?.parsed("an edition")?,
            creation_time: time.needed("a time", time.time()?)?,
            content,
            host: spec.at("host")?.text()?,
            failed: spec.at("failed")?.boolean()?.unwrap_or_default(),
        })
    }
}

/// What an operator can do without a usable snapshot.
const NO_DOWNGRADE: &str = "this host cannot go back to this version; update to a newer version instead";

/// Whether a snapshot may be restored, by its description alone (SPEC §6 "Valid").
///
/// Errors: `backup_expired` for its age or a time in the future, `backup_invalid` for anything else.
pub fn validity(backup: &Backup, expect: &Expect<'_>) -> Result<()> {
    if expect.trusted.is_some() && expect.trusted == backup.id() {
        return Ok(());
    }
    if backup.failed {
        return Err(invalid("contains the database of a version that failed, or a damaged database"));
    }
    if backup.version != *expect.version {
        return Err(invalid(&format!("is for version {}, not for {}", backup.version, expect.version)));
    }
    if let (Some(found), Some(wanted)) = (backup.edition, expect.edition)
        && found != wanted
    {
        return Err(invalid(&format!("is for edition {found}, not for {wanted}")));
    }
    let proxy = expect.proxy.unwrap_or_default();
    if address(&backup.proxy) != address(proxy) {
        return Err(invalid(&format!("was made with proxy {:?}, but this host now uses {proxy:?}", backup.proxy)));
    }
    // Its database holds that agent's keys: this host would answer to another one's name.
    if let (Some(found), Some(wanted)) = (backup.host.as_deref(), expect.host)
        && found != wanted
    {
        return Err(invalid(&format!(
            "belongs to the agent with host_uuid {found}, but this host's agent is {wanted}"
        )));
    }
    let age = expect.now.duration_since(backup.creation_time);
    let taken = time_text(backup.creation_time);
    let (age, future) = (Duration::try_from(age).ok(), Duration::try_from(-age).ok());
    if future.is_some_and(|future| future > CLOCK_SKEW) {
        let what = format!("the creation time of the database backup ({taken}) is in the future");
        return Err(Error::new(Code::BackupExpired, what).advise("correct the system clock"));
    }
    if age.is_some_and(|age| age >= expect.max_age) {
        let days = expect.max_age.as_secs() / 86_400;
        let what = format!("the database backup of {taken} is older than {days} days");
        return Err(Error::new(Code::BackupExpired, what).advise(
            "if the host's certificates are still valid, raise backup_max_age in updates.yaml; \
             otherwise update to a newer version",
        ));
    }
    Ok(())
}

/// Whether the snapshot's bytes are what its description says, and a good database; reads the whole file.
///
/// Errors: `backup_missing`, `backup_invalid`; `permission`, `io`.
pub(crate) fn check_bytes(snapshot_dir: &Path, backup: &Backup) -> Result<()> {
    let Content::Database { size, sha256 } = &backup.content else { return Ok(()) };
    let file = snapshot_dir.join(DATABASE_FILE);
    if !durable::exists(&file)? {
        return Err(missing(&file));
    }
    let (found, length) = Digest::of_file(&file).at("cannot read", &file)?;
    if size.is_some_and(|size| size != length) || sha256.is_some_and(|sha256| sha256 != found) {
        return Err(invalid("does not match the size or SHA-256 in backup.yaml").during(file.display()));
    }
    sqlite::check_at_rest(&file).map_err(|error| match error.code {
        Code::DatabaseInvalid => Error::new(Code::BackupInvalid, error.what).advise(NO_DOWNGRADE),
        _ => error,
    })
}

/// `backup_invalid`: the snapshot `why`.
pub(super) fn invalid(why: &str) -> Error {
    Error::new(Code::BackupInvalid, format!("the database backup {why}")).advise(NO_DOWNGRADE)
}

/// `backup_missing`: there is no `file`.
pub(super) fn missing(file: &Path) -> Error {
    Error::new(Code::BackupMissing, format!("there is no database backup: {} is missing", file.display()))
        .advise(NO_DOWNGRADE)
}

/// Lower-case host and port: how addresses compare (SPEC §3). [`ProxyAddr`](sources::ProxyAddr) refuses some that a
/// description may hold, and takes some for equal that are not here: with it another snapshot would be restored, or none.
fn address(proxy: &str) -> (String, String) {
    let default = DEFAULT_PORT.to_string();
    let proxy = proxy.trim().to_ascii_lowercase();
    let bare = proxy.split_once("://").map_or(proxy.as_str(), |(_, rest)| rest);
    let bare = bare.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            // A bare IPv6 address has colons of its own.
            if host.contains(':') && !host.ends_with(']') { (bare, default.as_str()) } else { (host, port) }
        }
        Some((host, "")) => (host, default.as_str()),
        _ => (bare, default.as_str()),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (host.to_owned(), port.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sources::ProxyAddr;

    fn backup() -> Backup {
        Backup {
            proxy: "mytenant.teleport.sh".to_owned(),
            version: "15.1.0".parse().unwrap(),
            edition: Some(Edition::Enterprise),
            creation_time: "2020-12-09T16:09:53Z".parse().unwrap(),
            content: Content::Database { size: Some(3), sha256: Some(Digest([0xaa; 32])) },
            host: Some("11111111-2222-4333-8444-555555555555".to_owned()),
            failed: false,
        }
    }

    fn expect(version: &Version) -> Expect<'_> {
        Expect {
            version,
            edition: Some(Edition::Enterprise),
            proxy: Some("MyTenant.teleport.sh:443"),
            now: "2020-12-10T16:09:53Z".parse().unwrap(),
            max_age: Duration::from_secs(2 * 86_400),
            host: Some("11111111-2222-4333-8444-555555555555"),
            trusted: None,
        }
    }

    #[test]
    fn a_description_is_open_where_others_may_write_it_or_its_directory() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        backup().write(dir.path()).unwrap();
        assert!(!Backup::is_open(dir.path()));
        for (path, kept) in [(dir.path().join(DESCRIPTION_FILE), 0o644), (dir.path().to_owned(), 0o700)] {
            let set = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            set(kept | 0o002);
            assert!(Backup::is_open(dir.path()), "{}", path.display());
            set(kept);
        }
    }

    #[test]
    fn the_description_is_the_rfds_with_ours_behind() {
        let dir = tempfile::tempdir().unwrap();
        let text = backup().render();
        assert!(
            text.starts_with(
                "version: v1\nkind: db_backup\nspec:\n  proxy: mytenant.teleport.sh\n  version: 15.1.0\n  creation_time: 2020-12-09T16:09:53+00:00\n  edition: enterprise\n  size: 3\n"
            ),
            "{text}"
        );
        for backup in [
            backup(),
            Backup { content: Content::Absent, failed: true, edition: None, ..backup() },
            Backup { content: Content::Database { size: None, sha256: None }, proxy: String::new(), ..backup() },
        ] {
            backup.write(dir.path()).unwrap();
            assert_eq!(Backup::read(dir.path()).unwrap(), Some(backup));
        }
    }

    #[test]
    fn a_plain_description_of_the_rfd_with_unknown_keys_is_read_and_a_broken_one_names_its_line() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Backup::read(dir.path()).unwrap(), None);
        let file = dir.path().join(DESCRIPTION_FILE);
        let good = "version: v1\nkind: db_backup\nx: [1]\nspec:\n  proxy: p\n  version: 15.1.0\n  creation_time: 2020-12-09T16:09:53+01:00\n";
        durable::write(&file, good.as_bytes(), 0o644).unwrap();
        assert_eq!(Backup::read(dir.path()).unwrap().unwrap().id(), None);
        for (bad, line) in [
            (good.replace("v1", "v2"), 1),
            (good.replace("db_backup", "other"), 2),
            (good.replace("15.1.0", "15"), 6),
            (good.replace("2020-12-09T16", "x"), 7),
            (format!("{good}  sha256: abc\n"), 8),
            (format!("{good}  database: present\n"), 8),
        ] {
            durable::write(&file, bad.as_bytes(), 0o644).unwrap();
            let error = Backup::read(dir.path()).unwrap_err();
            assert_eq!(error.code, Code::BackupInvalid, "{bad}");
            assert!(error.what.contains(&format!("line {line}:")), "{bad}: {error}");
        }
    }

    #[test]
    fn each_reason_refuses_by_itself() {
        let version: Version = "15.1.0".parse().unwrap();
        let other: Version = "15.1.1".parse().unwrap();
        let expect = || expect(&version);
        let code = |backup: &Backup, expect: Expect<'_>| validity(backup, &expect).map_err(|error| error.code);
        let at = |time: &str| Expect { now: time.parse().unwrap(), ..expect() };
        assert_eq!(code(&backup(), expect()), Ok(()));
        assert_eq!(code(&backup(), Expect { version: &other, ..expect() }), Err(Code::BackupInvalid));
        assert_eq!(code(&backup(), Expect { edition: Some(Edition::Oss), ..expect() }), Err(Code::BackupInvalid));
        assert_eq!(code(&backup(), Expect { edition: None, ..expect() }), Ok(()));
        assert_eq!(
            code(&backup(), Expect { proxy: Some("mytenant.teleport.sh:3080"), ..expect() }),
            Err(Code::BackupInvalid)
        );
        assert_eq!(code(&backup(), Expect { proxy: None, ..expect() }), Err(Code::BackupInvalid));
        assert_eq!(code(&Backup { failed: true, ..backup() }, expect()), Err(Code::BackupInvalid));
        assert_eq!(code(&backup(), Expect { host: Some("another"), ..expect() }), Err(Code::BackupInvalid));
        assert_eq!(code(&backup(), Expect { host: None, ..expect() }), Ok(()));
        assert_eq!(code(&Backup { host: None, ..backup() }, expect()), Ok(()));
        assert_eq!(code(&backup(), at("2020-12-11T16:09:52Z")), Ok(()));
        assert_eq!(code(&backup(), at("2020-12-11T16:09:53Z")), Err(Code::BackupExpired));
        let old = validity(&backup(), &at("2020-12-11T16:09:53Z")).unwrap_err();
        assert!(old.what.ends_with("is older than 2 days"), "{old}");
        assert_eq!(code(&backup(), at("2020-12-09T16:08:53Z")), Ok(()));
        assert_eq!(code(&backup(), at("2020-12-09T16:08:52Z")), Err(Code::BackupExpired));
        let absent = Backup { content: Content::Absent, ..backup() };
        assert_eq!(code(&absent, expect()), Ok(()));
    }

    #[test]
    fn undoing_this_run_asks_for_the_digest_alone() {
        let version: Version = "1.0.0".parse().unwrap();
        let digest = SnapshotId::Sha256(Digest([0xaa; 32]));
        let all_wrong = Expect { now: Timestamp::UNIX_EPOCH, proxy: None, ..expect(&version) };
        let failed = Backup { failed: true, ..backup() };
        assert!(validity(&failed, &Expect { trusted: Some(digest), ..all_wrong.clone() }).is_ok());
        assert!(validity(&failed, &Expect { trusted: Some(SnapshotId::Absent), ..all_wrong.clone() }).is_err());
        let absent = Backup { content: Content::Absent, ..backup() };
        assert!(validity(&absent, &Expect { trusted: Some(SnapshotId::Absent), ..all_wrong }).is_ok());
    }

    #[test]
    fn addresses_compare_by_host_and_port() {
        for (a, b) in [("p", "P:443"), ("https://p:443/web", "p"), ("[::1]:443", "::1"), ("p:", "p")] {
            assert_eq!(address(a), address(b), "{a} {b}");
        }
        for (text, host, port) in [
            ("p:3080", "p", "3080"),
            ("[::1]:3080", "::1", "3080"),
            ("[::1]", "::1", "443"),
            ("::1", "::1", "443"),
            ("p:http", "p:http", "443"),
        ] {
            assert_eq!(address(text), (host.to_owned(), port.to_owned()));
        }
    }
    #[test]
    fn a_description_may_hold_what_the_cluster_cannot_be_asked_by_and_equal_is_what_was_equal() {
        let asked = |proxy: &str| proxy.parse::<ProxyAddr>().ok();
        for (here, there) in [("", ""), ("https://p/web", "p"), ("http://p", "p"), ("p:", "p"), ("p:http", "P:http")] {
            assert_eq!(address(here), address(there), "{here:?} {there:?}");
            assert_eq!(asked(here), None, "{here:?}");
        }
        for (here, there) in [("p.", "p"), ("[0:0::1]", "::1"), ("p:0443", "p")] {
            assert_ne!(address(here), address(there), "{here:?} {there:?}");
            assert_eq!(asked(here).unwrap(), asked(there).unwrap());
        }
    }
}
