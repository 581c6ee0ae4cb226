//! A real server on loopback, and what asks it.

pub(crate) mod client;
#[cfg(feature = "oidc")]
pub(crate) mod issuer;
pub(crate) mod loopback;
pub(crate) mod visitor;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_teleport-fleet");
/// For what happens soon, on a loaded machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Every page of the dashboard that looks.
pub(crate) const PAGES: [&str; 10] = [
    "/",
    "/rollouts",
    "/groups/dev",
    "/hosts",
    "/hosts/11111111-2222-4333-8444-555555555555",
    "/versions",
    "/version-control",
    "/audit",
    "/simulate",
    "/hosts?group=dev&state=pending&version=",
];

/// A running server. It is killed at the end.
pub(crate) struct Server {
    child: Child,
    /// For hosts.
    pub(crate) addr: SocketAddr,
    /// For metrics.
    pub(crate) metrics: SocketAddr,
    dir: PathBuf,
}

/// A directory for a server's data and socket.
pub(crate) fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A directory, and a server over plain HTTP with its data there.
pub(crate) fn start() -> (TempDir, Server) {
    let dir = dir();
    let server = Server::start(dir.path());
    (dir, server)
}

/// The same with these groups, none of which starts by itself, and a rollout from 1.0.0 to 1.1.0.
pub(crate) fn rolling(names: &[&str]) -> (TempDir, Server) {
    let (dir, server) = start();
    server.rolls(names);
    (dir, server)
}

/// `teleport-fleet` with these words, outside any configuration of this machine.
pub(crate) fn program(words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("RUST_BACKTRACE", "1").args(words).stdin(Stdio::null());
    command
}

impl Server {
    /// Over plain HTTP, with its data in `dir`.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::with(dir, &["--plain"])
    }

    /// With further words on its command line.
    pub(crate) fn with(dir: &Path, words: &[&str]) -> Self {
        Self::with_env(dir, words, &[])
    }

    /// With variables as well.
    pub(crate) fn with_env(dir: &Path, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
        Self::with_log(dir, words, variables, log.into())
    }

    /// With its log elsewhere.
    pub(crate) fn with_log(dir: &Path, words: &[&str], variables: &[(&str, &str)], log: Stdio) -> Self {
        let listen: &[&str] = if words.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let mut child = program(&["serve", "--metrics", "127.0.0.1:0"])
            .envs(variables.iter().copied())
            .args(listen)
            .args(words)
            .arg("--config")
            .arg(config(dir))
            .arg("--data")
            .arg(dir.join("data"))
            .arg("--admin-socket")
            .arg(dir.join("admin.sock"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let addresses: Vec<SocketAddr> = line.split_whitespace().map(|text| text.parse().unwrap()).collect();
        let [addr, metrics] = addresses[..] else {
            let _ = child.wait();
            panic!("it did not start: {line:?}\n{}", std::fs::read_to_string(dir.join("log")).unwrap());
        };
        Self { child, addr, metrics, dir: dir.to_owned() }
    }

    /// The command line, asking this server.
    pub(crate) fn cli(&self, words: &[&str]) -> Output {
        self.cli_with(words, "")
    }

    /// The same, with a standard input.
    pub(crate) fn cli_with(&self, words: &[&str], input: &str) -> Output {
        let mut child = program(words)
            .arg("--admin-socket")
            .arg(self.dir.join("admin.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
        child.wait_with_output().unwrap()
    }

    /// What a command that must succeed prints.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        done(&self.cli(words))
    }

    /// The JSON that a command prints.
    pub(crate) fn parsed(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[words, &["--format", "json"]].concat())).unwrap()
    }

    /// The records of the audit log, the oldest first.
    pub(crate) fn records(&self) -> Vec<Value> {
        self.ok(&["audit", "--format", "json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The secret of a new token.
    pub(crate) fn token(&self, name: &str, role: &str) -> String {
        let told = self.ok(&["tokens", "create", name, "--role", role]);
        told.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap().to_owned()
    }

    /// What `autoupdate agents` with these words prints.
    pub(crate) fn agents(&self, words: &[&str]) -> String {
        self.ok(&[&["autoupdate", "agents"], words].concat())
    }

    /// What is said of a number of metrics.
    pub(crate) fn metrics(&self) -> String {
        request(self.metrics, "GET", "/metrics", "", "").1
    }

    /// Writes these groups, none of which starts by itself, and a version: a rollout from 1.0.0 to 1.1.0.
    pub(crate) fn rolls(&self, names: &[&str]) {
        self.create(&format!("{}---\n{}", groups(names), version("1.0.0", "1.1.0", "regular")));
    }

    /// Has the engine step now, by a write that changes nothing: by itself it does so within a minute.
    pub(crate) fn steps(&self) {
        self.create(&version("1.0.0", "1.1.0", "regular"));
    }

    /// The group called so, as the rollout shows it.
    pub(crate) fn group(&self, name: &str) -> Value {
        let rollout = self.parsed(&["get", "autoupdate_agent_rollout"]);
        let groups = rollout["status"]["groups"].as_array().unwrap();
        groups.iter().find(|group| group["name"] == name).unwrap().clone()
    }

    /// Writes resources.
    pub(crate) fn create(&self, text: &str) -> String {
        done(&self.cli_with(&["create", "--force", "-f", "-"], text))
    }

    /// Status and body of a GET.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        request(self.addr, "GET", path, "", "")
    }

    /// The JSON of a GET that must succeed.
    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Waits for a condition that comes soon.
    pub(crate) fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let end = Instant::now() + SOON;
        while !condition() {
            assert!(Instant::now() < end, "not in time: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM: the exit status.
    pub(crate) fn stop(mut self) -> Option<i32> {
        signal(self.pid(), "TERM");
        let end = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// An empty configuration, unless the test wrote one.
fn config(dir: &Path) -> PathBuf {
    let file = dir.join("config.yaml");
    if !file.exists() {
        std::fs::write(&file, "").unwrap();
    }
    file
}

/// Puts a backup in the place of the data in `dir`, with further words.
pub(crate) fn restore(dir: &Path, backup: &Path, words: &[&str]) -> Output {
    let mut command = program(&["restore", "--config", "/dev/null", "--data"]);
    command.arg(dir.join("data")).arg(backup).args(words).output().unwrap()
}

/// Sends a signal by name.
pub(crate) fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap().success());
}

/// What a command that must succeed printed.
pub(crate) fn done(output: &Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out
}

/// The line that a command which must be refused printed, and its exit status is 1.
pub(crate) fn refused(output: &Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    err
}

/// What a command that was typed wrongly printed, and its exit status is 2.
pub(crate) fn misused(output: &Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{out}\n{err}");
    err
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// One HTTP request on a connection of its own: status and body. `headers` are lines, each with its line end.
pub(crate) fn request(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let (status, _, body) = exchange(addr, method, path, headers, body);
    (status, body)
}

/// The same, with the lines of the answer's head.
pub(crate) fn exchange(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}");
    let length = body.len();
    write!(stream, "{head}content-length: {length}\r\n\r\n").unwrap();
    // It may answer before it has read everything.
    stream.write_all(body.as_bytes()).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    (status, head.to_owned(), if is_chunked { unchunked(body) } else { body.to_owned() })
}

/// A POST whose body comes in pieces, as it stands: status and body.
pub(crate) fn chunked(addr: SocketAddr, path: &str, headers: &str, pieces: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}transfer-encoding: chunked");
    write!(stream, "{head}\r\n\r\n{pieces}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    whole
}

/// A version of Managed Updates v2.
pub(crate) fn version(start: &str, target: &str, schedule: &str) -> String {
    format!(
        "kind: autoupdate_version\nversion: v1\nmetadata: {{name: autoupdate-version}}\nspec:\n  agents: {{start_version: \
         {start}, target_version: {target}, schedule: {schedule}, mode: enabled}}\n"
    )
}

/// A configuration of Managed Updates v2 with these groups, none of which starts by itself at the time of the test.
pub(crate) fn groups(names: &[&str]) -> String {
    // Half a day from now.
    let hour = (jiff::Timestamp::now().as_second() / 3600 + 12) % 24;
    let group = |name: &&str| format!("      - {{name: {name}, days: ['*'], start_hour: {hour}}}\n");
    let groups: String = names.iter().map(group).collect();
    format!(
        "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: \
         enabled\n    strategy: halt-on-error\n    schedules:\n      regular:\n{}",
        groups
    )
}

/// Head and body of a request; `None`: there is none.
pub(crate) fn whole_request(stream: &mut dyn loopback::Stream) -> Option<(String, String)> {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = stream.read(&mut part).ok().filter(|length| *length > 0)?;
        text.extend_from_slice(&part[..length]);
        let whole = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
        let lengths = head.lines().filter_map(|line| line.split_once(": "));
        let mut lengths = lengths.filter(|(key, _)| key.eq_ignore_ascii_case("content-length"));
        let length: usize = lengths.next().map_or(0, |(_, value)| value.trim().parse().unwrap());
        if body.len() >= length {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}

/// A certificate authority, and a server's configuration for 127.0.0.1.
pub(crate) fn authority() -> (String, Arc<rustls::ServerConfig>) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let (key, server_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut own = CertificateParams::new(Vec::new()).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = own.self_signed(&key).unwrap();
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = server.signed_by(&server_key, &Issuer::new(own, key)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let secret = rustls::pki_types::PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], secret).unwrap();
    (root.pem(), Arc::new(config))
}

/// Writes a secret that only its owner may read.
pub(crate) fn write_secret(dir: &Path, secret: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let file = dir.join("secret");
    std::fs::write(&file, secret).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.display().to_string()
}
