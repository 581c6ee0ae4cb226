//! Release archives in the layout of the real ones, around the toy agent.

use std::fs::{self, File};
use std::io::{self, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use crate::cluster::padding::{Padding, RATIO};
use crate::cluster::signature::Signer;
use crate::cluster::toy;

/// Part of the cache's key: raise it when the same description gives other bytes.
const FORM: &str = "1";

const UNIT: &str = "\
[Unit]
Description=Teleport Service
After=network.target

[Service]
Type=simple
Restart=always
RestartSec=1
EnvironmentFile=-/etc/default/teleport
ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid
ExecReload=/bin/kill -HUP $MAINPID
PIDFile=/run/teleport.pid
LimitNOFILE=524288

[Install]
WantedBy=multi-user.target
";

/// The description of a release; bytes are made by [`Archive::bytes`] and [`Archive::write_to`].
#[derive(Debug, Clone)]
pub struct Archive {
    version: String,
    edition: String,
    arch: String,
    helpers: Vec<String>,
    agent: Arc<[u8]>,
    trailer: serde_json::Value,
    updater: Option<(String, Arc<[u8]>)>,
    unit: String,
    extra: Vec<(String, u32, Arc<[u8]>)>,
    padding: u64,
    rfd_layout: bool,
    signer: Option<Signer>,
}

/// An archive on disk.
#[derive(Debug, Clone)]
pub struct Written {
    /// The `.tar.gz`; `.sha256` and perhaps `.sig` stand beside it.
    pub path: PathBuf,
    /// 64 hex digits.
    pub sha256: String,
    /// Bytes of the compressed archive.
    pub size: u64,
}

impl Archive {
    /// A healthy release. `edition` is `oss`, `enterprise` or `enterprise-fips`; `arch` is `amd64`, `arm64`, ….
    pub fn new(version: &str, edition: &str, arch: &str) -> Self {
        assert!(["oss", "enterprise", "enterprise-fips"].contains(&edition), "no such edition: {edition}");
        Self {
            version: version.to_owned(),
            edition: edition.to_owned(),
            arch: arch.to_owned(),
            helpers: ["tsh", "tctl", "tbot", "fdpass-teleport"].map(str::to_owned).into(),
            agent: Arc::new([]),
            trailer: serde_json::json!({"version": version, "edition": edition, "behaviour": "healthy", "schema": 1}),
            updater: None,
            unit: UNIT.to_owned(),
            extra: Vec::new(),
            padding: 0,
            rfd_layout: false,
            signer: None,
        }
    }

    /// A healthy `oss`, `amd64` release of schema 1 around [`toy::agent_program`]: what most tests want.
    pub fn simple(version: &str) -> Self {
        Self::new(version, "oss", "amd64").agent(&toy::agent_program(), "healthy", 1)
    }

    /// The toy agent's program and how it behaves; see the toy agent's `Behaviour` for the names.
    pub fn agent(mut self, program: &[u8], behaviour: &str, schema: i64) -> Self {
        self.agent = program.into();
        self.behaviour(behaviour).schema(schema)
    }

    /// Replaces the behaviour.
    pub fn behaviour(self, behaviour: &str) -> Self {
        self.trailer_field("behaviour", behaviour.into())
    }

    /// Replaces the database schema.
    pub fn schema(self, schema: i64) -> Self {
        self.trailer_field("schema", schema.into())
    }

    /// The agent inserts rows without pause, whatever its behaviour.
    pub fn writes(self) -> Self {
        self.trailer_field("writes", true.into())
    }

    /// Sets any field of the trailer.
    pub fn trailer_field(mut self, key: &str, value: serde_json::Value) -> Self {
        self.trailer[key] = value;
        self
    }

    /// Adds an executable `teleport-update`.
    pub fn updater(self, program: &[u8]) -> Self {
        self.updater_named("teleport-update", program)
    }

    /// Adds an updater under another name, as `teleport-updater`.
    pub fn updater_named(mut self, name: &str, program: &[u8]) -> Self {
        self.updater = Some((name.to_owned(), program.into()));
        self
    }

    /// Adds one more helper executable.
    pub fn helper(mut self, name: &str) -> Self {
        if !self.helpers.iter().any(|known| known == name) {
            self.helpers.push(name.to_owned());
        }
        self
    }

    /// Leaves a helper out.
    pub fn without_helper(mut self, name: &str) -> Self {
        self.helpers.retain(|known| known != name);
        self
    }

    /// Replaces the systemd unit.
    pub fn unit(mut self, unit: &str) -> Self {
        self.unit = unit.to_owned();
        self
    }

    /// Adds a regular file below the prefix.
    pub fn file(mut self, path: &str, mode: u32, contents: &[u8]) -> Self {
        self.extra.push((path.to_owned(), mode, contents.into()));
        self
    }

    /// Makes the archive about `compressed` bytes longer; unpacked that is [`RATIO`] times as much, shared by the large
    /// binaries about as in a real release.
    pub fn padding(mut self, compressed: u64) -> Self {
        self.padding = (compressed as f64 * RATIO) as u64;
        self
    }

    /// `bin/`, `etc/systemd/`, `share/` below the prefix, in place of the layout of today's releases.
    pub fn rfd_layout(mut self) -> Self {
        self.rfd_layout = true;
        self
    }

    /// Adds a `.sig`.
    pub fn signed(mut self, signer: &Signer) -> Self {
        self.signer = Some(signer.clone());
        self
    }

    /// The version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The file name, as on the CDN.
    pub fn name(&self) -> String {
        let fips = if self.edition == "enterprise-fips" { "-fips" } else { "" };
        format!("{}-v{}-linux-{}{fips}-bin.tar.gz", self.prefix(), self.version, self.arch)
    }

    /// The directory within the archive.
    pub fn prefix(&self) -> &'static str {
        if self.edition == "oss" { "teleport" } else { "teleport-ent" }
    }

    /// Every path in the archive with its mode, directories with a trailing slash.
    pub fn listing(&self) -> Vec<(String, u32)> {
        self.entries().into_iter().map(|entry| (entry.path, entry.mode)).collect()
    }

    /// The compressed archive.
    ///
    /// # Panics
    /// If the cache cannot be written.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.cached().path).unwrap()
    }

    /// Writes `<name>.tar.gz`, `.sha256` and, if signed, `.sig` into `directory`.
    ///
    /// # Panics
    /// If the directory cannot be written.
    pub fn write_to(&self, directory: &Path) -> Written {
        let cached = self.cached();
        let name = self.name();
        let path = directory.join(&name);
        // A copy, not a link: tests may spoil what they were given.
        replace(&path, |file| io::copy(&mut File::open(&cached.path)?, file).map(drop)).unwrap();
        replace(&beside(&path, ".sha256"), |file| writeln!(file, "{}  {name}", cached.sha256)).unwrap();
        let sig = beside(&path, ".sig");
        match &self.signer {
            Some(signer) => replace(&sig, |file| file.write_all(signer.sign(&unhex(&cached.sha256)).as_bytes())),
            None => fs::remove_file(sig).or(Ok(())),
        }
        .unwrap();
        Written { path, ..cached }
    }

    fn entries(&self) -> Vec<Entry> {
        let prefix = self.prefix();
        let (bin, systemd, share) =
            if self.rfd_layout { ("bin/", "etc/systemd/", "share/") } else { ("", "examples/systemd/", "") };
        let mut entries = vec![Entry::directory(format!("{prefix}/"))];
        let mut directories: Vec<&str> = Vec::new();
        if self.rfd_layout {
            directories.extend(["bin/", "etc/", "etc/systemd/", "share/"]);
        } else {
            directories.extend(["examples/", "examples/systemd/", "examples/aws/"]);
        }
        entries.extend(directories.into_iter().map(|path| Entry::directory(format!("{prefix}/{path}"))));

        let trailer: Arc<[u8]> = format!("\nTOYAGENT {}\n", self.trailer).into_bytes().into();
        for name in ["teleport"].into_iter().chain(self.helpers.iter().map(String::as_str)) {
            entries.push(Entry {
                path: format!("{prefix}/{bin}{name}"),
                mode: 0o755,
                head: Arc::clone(&self.agent),
                padding: (self.padding as f64 * padding_share(name)) as u64,
                tail: Arc::clone(&trailer),
            });
        }
        if let Some((name, program)) = &self.updater {
            entries.push(Entry::file(format!("{prefix}/{bin}{name}"), 0o755, Arc::clone(program)));
        }
        let mut text = |path: String, mode: u32, text: &str| {
            entries.push(Entry::file(format!("{prefix}/{path}"), mode, text.as_bytes().into()));
        };
        text(format!("{systemd}teleport.service"), 0o644, &self.unit);
        for name in ["README.md", "CHANGELOG.md", "VERSION", "LICENSE-community"] {
            text(format!("{share}{name}"), 0o644, &format!("{name} of {}\n", self.version));
        }
        if !self.rfd_layout {
            text("install".to_owned(), 0o755, "#!/bin/sh\necho 'this script must never run' >&2\nexit 1\n");
            text("examples/systemd/README.md".to_owned(), 0o644, "How to run Teleport with systemd.\n");
            text("examples/aws/start.sh".to_owned(), 0o755, "#!/bin/sh\nexit 1\n");
        }
        for (path, mode, contents) in &self.extra {
            entries.push(Entry::file(format!("{prefix}/{path}"), *mode, Arc::clone(contents)));
        }
        entries
    }

    /// The archive in the cache beside the compiled tests: hundreds of tests use the same few.
    fn cached(&self) -> Written {
        let entries = self.entries();
        let mut key = Sha256::new();
        key.update(FORM);
        for entry in &entries {
            key.update(format!("{:?} {:o} {}\n", entry.path, entry.mode, entry.padding));
            key.update(Sha256::digest(&entry.head));
            key.update(Sha256::digest(&entry.tail));
        }
        let directory = toy::profile_directory().join("test-archives");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(hex(&key.finalize()));
        let digest = beside(&path, ".sha256");
        if !digest.exists() {
            let mut sha256 = String::new();
            replace(&path, |file| {
                sha256 = pack(&entries, file)?;
                Ok(())
            })
            .unwrap();
            replace(&digest, |file| file.write_all(sha256.as_bytes())).unwrap();
        }
        let size = path.metadata().unwrap().len();
        Written { sha256: fs::read_to_string(digest).unwrap(), path, size }
    }
}

struct Entry {
    path: String,
    mode: u32,
    head: Arc<[u8]>,
    padding: u64,
    tail: Arc<[u8]>,
}

impl Entry {
    fn directory(path: String) -> Self {
        Self::file(path, 0o755, Arc::new([]))
    }

    fn file(path: String, mode: u32, contents: Arc<[u8]>) -> Self {
        Self { path, mode, head: contents, padding: 0, tail: Arc::new([]) }
    }
}

/// The part of the padding that a binary gets.
fn padding_share(name: &str) -> f64 {
    match name {
        "teleport" => 0.4,
        "tsh" | "tctl" | "tbot" => 0.2,
        _ => 0.0,
    }
}

/// Writes the archive and returns its digest.
fn pack(entries: &[Entry], out: &mut File) -> io::Result<String> {
    let hashing = Hashing { inner: BufWriter::new(out), digest: Sha256::new() };
    let mut tar = tar::Builder::new(GzEncoder::new(hashing, Compression::fast()));
    for entry in entries {
        let size = entry.head.len() as u64 + entry.padding + entry.tail.len() as u64;
        let mut header = Header::new_gnu();
        header.set_entry_type(if entry.path.ends_with('/') { EntryType::Directory } else { EntryType::Regular });
        header.set_mode(entry.mode);
        header.set_size(size);
        // As the release builders do: a fixed time, and an owner that means nothing on the host.
        header.set_mtime(1_700_000_000);
        header.set_uid(1000);
        header.set_gid(1000);
        let contents = Cursor::new(&entry.head)
            .chain(Padding::new(entry.padding).take(entry.padding))
            .chain(Cursor::new(&entry.tail));
        tar.append_data(&mut header, &entry.path, contents)?;
    }
    let mut hashing = tar.into_inner()?.finish()?;
    hashing.inner.flush()?;
    Ok(hex(&hashing.digest.finalize()))
}

struct Hashing<W> {
    inner: W,
    digest: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(bytes)?;
        self.digest.update(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> [u8; 32] {
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
}

/// `path` with something after its last extension.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whole or not at all: tests run beside each other, and the server reads while a test publishes.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = beside(path, &format!(".{}.{number}.tmp", std::process::id()));
    write(&mut File::create(&temporary)?)?;
    fs::rename(temporary, path)
}
