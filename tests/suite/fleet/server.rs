//! A rollout server with TLS on loopback, its command line, and hosts that follow it: images, each with an agent's UUID.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;

use tempfile::TempDir;

use super::visitor::Visitor;
use crate::support::*;

/// A rollout server and where archives come from.
pub(super) struct Fleet {
    dir: TempDir,
    /// Has the archives alone: nobody asks it for a version.
    pub(super) cluster: Cluster,
    server: Option<Child>,
    /// Where hosts ask.
    pub(super) addr: SocketAddr,
}

/// A host: an image below a directory.
pub(super) struct Host {
    root: PathBuf,
    uuid: String,
}

impl Fleet {
    /// A server with TLS; these versions are published.
    pub(super) fn start(versions: &[&str]) -> Self {
        Self::start_with(versions, true)
    }

    /// The same without TLS, for something in front of it.
    pub(super) fn start_plain(versions: &[&str]) -> Self {
        Self::start_with(versions, false)
    }

    fn start_with(versions: &[&str], is_tls: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(&dir.path().join("cluster"));
        for version in versions {
            cluster.publish(&Archive::simple(version));
        }
        std::fs::create_dir(dir.path().join("data")).unwrap();
        std::fs::write(dir.path().join("config.yaml"), "").unwrap();
        if is_tls {
            certify(dir.path());
        }
        let trusted = std::fs::read_to_string(dir.path().join("ca.pem")).unwrap_or_default() + cluster.ca_pem();
        std::fs::write(dir.path().join("trusted.pem"), trusted).unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut fleet = Self { dir, cluster, server: None, addr };
        fleet.begin();
        fleet
    }

    /// Starts the server, after the first time at the address that it had.
    pub(super) fn begin(&mut self) {
        let end = Instant::now() + SOON;
        while let Err(line) = self.try_begin() {
            // Meanwhile its port was anybody's: a connection that has it goes away again.
            let is_again = self.addr.port() != 0;
            assert!(is_again && Instant::now() < end, "no address: {line:?}\n{}", self.log());
        }
    }

    /// Starts it; else what it printed in place of its address.
    fn try_begin(&mut self) -> Result<(), String> {
        let path = |name: &str| self.dir.path().join(name);
        let log = std::fs::File::options().create(true).append(true).open(path("log")).unwrap();
        let mut command = self.program();
        command.args(["serve", "--edition", "oss", "--metrics", "127.0.0.1:0", "--listen", &self.addr.to_string()]);
        command.arg("--config").arg(path("config.yaml")).arg("--data").arg(path("data"));
        if path("cert.pem").exists() {
            command.arg("--tls-cert").arg(path("cert.pem")).arg("--tls-key").arg(path("key.pem"));
        } else {
            command.arg("--plain");
        }
        let mut server = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        // From here on Drop ends it, also if the next line panics.
        self.server = Some(server);
        match line.split(' ').next().and_then(|bound| bound.parse().ok()) {
            Some(bound) => self.addr = bound,
            None => {
                self.kill();
                return Err(line);
            }
        }
        Ok(())
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// What the server logged.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The address as `--proxy` takes it.
    pub(super) fn proxy(&self) -> String {
        format!("localhost:{}", self.addr.port())
    }

    /// The certificates of the server and of the archives' place.
    pub(super) fn trusted(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("trusted.pem")).unwrap()
    }

    /// Hosts trust this authority as well.
    pub(super) fn trust(&self, ca_pem: &str) {
        std::fs::write(self.dir.path().join("trusted.pem"), self.trusted() + ca_pem).unwrap();
    }

    /// The operator's command, which must succeed: what it prints.
    #[track_caller]
    pub(super) fn ok(&self, words: &[&str]) -> String {
        Ran::of(&self.program().args(words).output().unwrap()).ok().stdout
    }

    /// The operator's command, which must fail: what it says.
    #[track_caller]
    pub(super) fn fails(&self, words: &[&str]) -> String {
        let output = self.program().args(words).output().unwrap();
        assert!(!output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// A file of the operator's.
    pub(super) fn file(&self, name: &str, text: &str) -> String {
        let file = self.dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// The same for a command about groups.
    #[track_caller]
    pub(super) fn agents(&self, verb: &str, group: &str) {
        self.ok(&["autoupdate", "agents", verb, group]);
    }

    /// Writes resources.
    #[track_caller]
    pub(super) fn write(&self, text: &str) {
        let mut command = self.program();
        command.args(["create", "--force", "-f", "-"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        Ran::of(&child.wait_with_output().unwrap()).ok();
    }

    /// From `start` to `target`.
    #[track_caller]
    pub(super) fn wish(&self, start: &str, target: &str) {
        self.write(&format!(
            "kind: autoupdate_version\nversion: v1\nmetadata: {{name: autoupdate-version}}\nspec:\n  agents: {{start_version: \
             {start}, target_version: {target}, schedule: regular, mode: enabled}}\n"
        ));
    }

    /// These groups, in this order; none starts by itself at the time of the test.
    #[track_caller]
    pub(super) fn groups(&self, names: &[&str]) {
        // Half a day from now.
        let hour = (jiff::Timestamp::now().as_second() / 3600 + 12) % 24;
        let group =
            |name: &&str| format!("      - {{name: {name}, days: ['*'], start_hour: {hour}, jitter_seconds: 0}}\n");
        let groups: String = names.iter().map(group).collect();
        self.write(&format!(
            "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: enabled\n    \
             strategy: halt-on-error\n    schedules:\n      regular:\n{groups}"
        ));
    }

    /// A group as `status` has it.
    #[track_caller]
    pub(super) fn group(&self, name: &str) -> Value {
        let status: Value =
            serde_json::from_str(&self.ok(&["autoupdate", "agents", "status", "--format", "json"])).unwrap();
        let groups = status["groups"].as_array().unwrap();
        groups.iter().find(|each| each["name"] == name).unwrap().clone()
    }

    /// The state of a group.
    #[track_caller]
    pub(super) fn state(&self, group: &str) -> String {
        self.group(group)["state"].as_str().unwrap().to_owned()
    }

    /// Somebody with an operator's token.
    #[track_caller]
    pub(super) fn visitor(&self) -> Visitor {
        let made = self.ok(&["tokens", "create", "visitor", "--role", "operator"]);
        let token = made.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap();
        Visitor::with(self.proxy(), &self.dir.path().join("ca.pem"), token)
    }

    /// What the server knows of the host `uuid`; null if nothing.
    #[track_caller]
    pub(super) fn known(&self, uuid: &str) -> Value {
        let hosts: Value = serde_json::from_str(&self.ok(&["hosts", "--format", "json"])).unwrap();
        hosts.as_array().unwrap().iter().find(|host| host["host"] == uuid).cloned().unwrap_or_default()
    }

    /// Waits until the server has the host in this state: what it was told is counted within a second.
    #[track_caller]
    pub(super) fn until_state(&self, host: &Host, state: &str) {
        look::until(&format!("{} is {state}", host.uuid), || self.known(&host.uuid)["state"] == state);
    }

    /// A host in `group` that has enabled, asking at `proxy`.
    #[track_caller]
    pub(super) fn host_at(&self, proxy: &str, number: u8, group: &str) -> Host {
        let (host, ran) = self.enable(proxy, number, group);
        ran.ok();
        host
    }

    /// What a host says that cannot enable.
    #[track_caller]
    pub(super) fn refused_host(&self, number: u8, group: &str) -> String {
        let (_, ran) = self.enable(&self.proxy(), number, group);
        ran.fails(1, "error").stderr
    }

    /// The file of those certificates.
    pub(super) fn trusted_file(&self) -> String {
        self.dir.path().join("trusted.pem").display().to_string()
    }

    /// A host that has enabled nothing yet.
    pub(super) fn bare_host(&self, number: u8) -> Host {
        let host = Host {
            root: self.dir.path().join(format!("host-{number}")),
            uuid: format!("11111111-0000-4000-8000-0000000000{number:02}"),
        };
        let state = host.root.join("var/lib/teleport");
        std::fs::create_dir_all(state.join("versions")).unwrap();
        std::fs::write(state.join("host_uuid"), &host.uuid).unwrap();
        // A server that is down is not asked again for seconds.
        let settings = "version: v1\nkind: agent_versions\nspec:\n  network:\n    tries: 1\n";
        std::fs::write(state.join("versions/updates.yaml"), settings).unwrap();
        host
    }

    fn enable(&self, proxy: &str, number: u8, group: &str) -> (Host, Ran) {
        let (host, trusted) = (self.bare_host(number), self.trusted_file());
        let mut words = vec!["enable", "--proxy", proxy, "--group", group, "--ca-file", &trusted];
        let base = self.cluster.base_url();
        words.extend(["--base-url", &base]);
        let ran = host.run(&words);
        (host, ran)
    }

    /// A host in `group` that has enabled.
    #[track_caller]
    pub(super) fn host(&self, number: u8, group: &str) -> Host {
        self.host_at(&self.proxy(), number, group)
    }

    /// `teleport-fleet`, asking this server.
    fn program(&self) -> Command {
        let program = updater().with_file_name("teleport-fleet");
        assert!(program.exists(), "{} is missing: make build", program.display());
        let mut command = Command::new(program);
        command.env_clear().env("TELEPORT_FLEET_ADMIN_SOCKET", self.dir.path().join("admin.sock")).stdin(Stdio::null());
        command
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Host {
    /// Its agent's UUID.
    pub(super) fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Its root directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs the updater.
    pub(super) fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&updater_at(&self.root).args(words).output().unwrap())
    }

    /// What the timer does; it must succeed. The version that is active then.
    #[track_caller]
    pub(super) fn update(&self) -> String {
        self.run(&["update"]).ok();
        self.version()
    }

    /// The version that is active.
    #[track_caller]
    pub(super) fn version(&self) -> String {
        look::version(&self.root)
    }
}

/// An authority of its own, and a certificate of it for localhost.
fn certify(dir: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let script = format!(
        "openssl req -x509 {key} -days 2 -subj /CN=authority -keyout ca-key.pem -out ca.pem && \
         openssl req {key} -subj /CN=localhost -keyout key.pem -out request.pem && \
         echo 'subjectAltName = DNS:localhost' >names && \
         openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -days 2 -set_serial 2 -extfile names -out cert.pem"
    );
    Ran::of(&Command::new("sh").args(["-c", &script]).current_dir(dir).output().unwrap()).ok();
}
