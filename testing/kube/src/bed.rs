//! The three programs: where they are, how they begin, who uses them.
//!
//! Whoever uses a bed holds a shared lock on a file in its folder. `keeper.sh` runs the programs while there is one, so that
//! nothing is left behind whatever becomes of a test.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::client::ApiClient;
use crate::namespace::Namespace;

const KEEPER: &str = include_str!("keeper.sh");
/// What `tests/kube/setup.sh` builds.
const VERSION: &str = "1.20.2";
/// Until the API server must be ready: a busy machine builds beside it.
const PATIENCE: Duration = Duration::from_secs(90);
/// Half seconds that a shared bed waits for the next test.
const LINGER: &str = "30";
/// How often another try is made where a port was taken meanwhile.
const TRIES: usize = 3;
/// What must be free in memory, bytes.
const MEMORY: u64 = 1 << 30;
/// Ports outside those that the kernel gives to connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A control plane. It ends when nobody uses it.
#[derive(Debug)]
pub struct KubeBed {
    /// With all rights.
    pub client: ApiClient,
    /// Its folder; programs log there.
    pub dir: PathBuf,
    users: Option<File>,
    /// Whom this process started. It waits for him, but of a bed that is shared: that is never dropped.
    keeper: Option<Child>,
}

struct Programs {
    etcd: PathBuf,
    apiserver: PathBuf,
    manager: PathBuf,
}

impl KubeBed {
    /// The one that tests of this user on this machine share, begun if there is none; each has namespaces of its own in it.
    /// `None`, and said: it cannot be had here.
    ///
    /// # Panics
    /// If it does not begin.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<KubeBed>> = OnceLock::new();
        let open = || {
            let programs = Programs::find()?;
            // Other programs, or another way to start them, make another bed.
            let digest =
                Sha256::digest(format!("{KEEPER}{:?}{:?}{:?}", programs.etcd, programs.apiserver, programs.manager));
            let mark: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
            let user = rustix::process::getuid().as_raw();
            Some(Self::open(&memory().join(format!("kube-bed-{user}-{mark}")), &programs, LINGER))
        };
        SHARED.get_or_init(open).as_ref()
    }

    /// One of one's own, which ends with the value: for whoever hurts it.
    ///
    /// # Panics
    /// If it does not begin.
    pub fn start() -> Option<Self> {
        let programs = Programs::find()?;
        Some(Self::open(&memory().join(format!("kube-bed-{}", mark())), &programs, "-1"))
    }

    /// A namespace whose name begins so, with a kubelet and two nodes of its own.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn namespace(&self, prefix: &str) -> Namespace {
        Namespace::new(self.client.clone(), &format!("{prefix}-{}", mark()))
    }

    /// The certificate of its authority.
    ///
    /// # Panics
    /// If it has ended.
    pub fn ca_pem(&self) -> String {
        std::fs::read_to_string(self.dir.join("ca.pem")).unwrap()
    }

    fn open(dir: &Path, programs: &Programs, linger: &str) -> Self {
        let users = use_folder(dir);
        let start = File::create(dir.join("start")).unwrap();
        flock(&start, FlockOperation::LockExclusive).unwrap();
        let mut bed = std::fs::read_to_string(dir.join("address")).ok().and_then(|url| Self::at(dir, &url));
        for number in 1.. {
            if bed.is_some() {
                break;
            }
            bed = begin(dir, programs, linger);
            assert!(bed.is_some() || number < TRIES, "{}", log(dir));
        }
        let mut bed = bed.unwrap();
        bed.users = Some(users);
        bed
    }

    /// The bed in this folder, if it answers.
    fn at(dir: &Path, url: &str) -> Option<Self> {
        let token = std::fs::read_to_string(dir.join("token")).ok()?;
        let client = ApiClient::new(url, &token, &std::fs::read_to_string(dir.join("ca.pem")).ok()?);
        client.get("/readyz").ok()?;
        Some(Self { client, dir: dir.to_owned(), users: None, keeper: None })
    }
}

impl Drop for KubeBed {
    fn drop(&mut self) {
        self.users = None;
        if let Some(mut keeper) = self.keeper.take() {
            let _ = keeper.wait();
            // It is there where a program ended by itself.
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

impl Programs {
    /// `None`, and said: one is missing.
    fn find() -> Option<Self> {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
        let caches = || std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("teleport-kube-bed");
        let built =
            std::env::var_os("KUBE_BED_CACHE").map_or_else(caches, PathBuf::from).join(format!("kubernetes-{VERSION}"));
        let find = |variable: &str, name: &str| {
            let program = std::env::var_os(variable).map_or_else(|| built.join(name), PathBuf::from);
            let is_there = program.exists();
            if !is_there {
                eprintln!("skipped: no {name} at {}: make setup-kube", program.display());
            }
            is_there.then_some(program)
        };
        Some(Self {
            etcd: find("KUBE_BED_ETCD", "etcd")?,
            apiserver: find("KUBE_BED_APISERVER", "kube-apiserver")?,
            manager: find("KUBE_BED_MANAGER", "kube-controller-manager")?,
        })
    }
}

/// Where files need no disk, if there is room: etcd takes two files of 64 MiB before it writes a word.
fn memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let is_writable = rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
    let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    if is_writable && room > MEMORY { memory.to_owned() } else { std::env::temp_dir() }
}

/// What no other test has in a name.
pub(crate) fn mark() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // Two digits of the time, for a number of a process that comes again.
    format!("{:x}{:02x}-{}", std::process::id(), now.subsec_nanos() >> 8 & 0xff, NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A lock on the users of this folder, which is there and stays while it is held.
fn use_folder(dir: &Path) -> File {
    loop {
        std::fs::create_dir_all(dir).unwrap();
        let path = dir.join("users");
        let Ok(users) = File::options().create(true).append(true).mode(0o600).open(&path) else { continue };
        flock(&users, FlockOperation::LockShared).unwrap();
        // Its keeper may have taken it away meanwhile.
        if std::fs::metadata(&path).is_ok_and(|now| now.ino() == users.metadata().unwrap().ino()) {
            return users;
        }
    }
}

/// Starts the programs in this folder; `None`: one ended.
#[expect(clippy::zombie_processes, reason = "where it fails this process ends as well")]
fn begin(dir: &Path, programs: &Programs, linger: &str) -> Option<KubeBed> {
    let _ = std::fs::remove_file(dir.join("address"));
    let _ = std::fs::remove_dir_all(dir.join("etcd"));
    let ports = free_ports();
    let url = format!("https://127.0.0.1:{}", ports[2]);
    write_files(dir, &url);
    let mut keeper = Command::new("setsid");
    keeper.args(["bash", "-c", KEEPER, "keeper"]).arg(dir);
    keeper
        .args([&programs.etcd, &programs.apiserver, &programs.manager])
        .args(ports.map(|port| port.to_string()))
        .arg(linger);
    let output = File::create(dir.join("keeper.log")).unwrap();
    keeper.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut keeper = keeper.spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(mut bed) = KubeBed::at(dir, &url) {
            std::fs::write(dir.join("new"), &url).unwrap();
            std::fs::rename(dir.join("new"), dir.join("address")).unwrap();
            bed.keeper = Some(keeper);
            return Some(bed);
        }
        if keeper.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the API server is not ready after {PATIENCE:?}: {}", log(dir));
}

fn free_ports() -> [u16; 3] {
    let count = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id()
        .wrapping_mul(37)
        .wrapping_add(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_micros());
    let candidates = (0..count).map(|at| PORTS.start + u16::try_from(first.wrapping_add(at) % count).unwrap());
    let mut free = candidates.filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    // Held together, so that they differ.
    [free.next().unwrap(), free.next().unwrap(), free.next().unwrap()]
        .map(|listener| listener.local_addr().unwrap().port())
}

/// Keys, certificates and tokens.
fn write_files(dir: &Path, url: &str) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let server_key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let server = CertificateParams::new(names).unwrap().signed_by(&server_key, &issuer).unwrap().pem();
    let account = KeyPair::generate().unwrap();
    let token: String = Sha256::digest(server_key.serialize_der()).iter().map(|byte| format!("{byte:02x}")).collect();
    let manager = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bed",
        "clusters": [{"name": "bed", "cluster": {"server": url, "certificate-authority": dir.join("ca.pem")}}],
        "users": [{"name": "bed", "user": {"token": format!("{token}m")}}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed"}}],
    });
    let users =
        format!("{token},bed,bed,system:masters\n{token}m,system:kube-controller-manager,manager,system:masters\n");
    for (name, text) in [
        ("ca.pem", ca),
        ("server.pem", server),
        ("server.key", server_key.serialize_pem()),
        ("account.key", account.serialize_pem()),
        ("account.pub", account.public_key_pem()),
        ("token", token),
        ("tokens.csv", users),
        ("manager.json", manager.to_string()),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

/// The last lines of what the programs said.
fn log(dir: &Path) -> String {
    let end = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("\n{name}:\n{}", lines[lines.len().saturating_sub(8)..].join("\n"))
    };
    ["keeper.log", "etcd.log", "apiserver.log", "manager.log"].map(end).concat()
}
