//! A workload is a host of a rollout server (KUBE §7).

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kube_bed::{KubeBed, PodLife};
use serde_json::{Value, json};

use crate::scene::Scene;

/// The rollout server, beside the updater.
fn program() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_teleport-kube-update")).with_file_name("teleport-fleet");
    if !path.is_file() {
        println!("skipped: there is no {}: cargo build --workspace --bins", path.display());
        return None;
    }
    Some(path)
}

struct RolloutServer {
    program: PathBuf,
    folder: tempfile::TempDir,
    child: Child,
    port: String,
}

impl RolloutServer {
    fn start() -> Option<Self> {
        let program = program()?;
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        fs::write(&cert_file, key.cert.pem()).unwrap();
        fs::write(&key_file, key.signing_key.serialize_pem()).unwrap();
        Command::new("chmod").arg("600").arg(&key_file).status().unwrap();
        let mut child = Command::new(&program)
            .args(["serve", "--config", "/dev/null", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
            .args(["--report-interval-seconds", "60", "--edition", "oss"])
            .arg("--data")
            .arg(folder.path().join("data"))
            .arg("--tls-cert")
            .arg(&cert_file)
            .arg("--tls-key")
            .arg(&key_file)
            .env("TELEPORT_FLEET_ADMIN_SOCKET", folder.path().join("admin.sock"))
            .stdout(Stdio::piped())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        // Its first line says where it listens.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split_whitespace().next().unwrap().rsplit(':').next().unwrap().to_owned();
        Some(Self { program, folder, child, port })
    }

    fn source(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    fn run(&self, args: &[&str], input: &str) -> String {
        let mut child = Command::new(&self.program)
            .args(args)
            .env("TELEPORT_FLEET_ADMIN_SOCKET", self.folder.path().join("admin.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The only host, once it is as it should be.
    fn host(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        kube_bed::wait_for(crate::scene::PATIENCE, "the server has heard it", || {
            let hosts: Value = serde_json::from_str(&self.run(&["hosts", "--format", "json"], "")).unwrap();
            let host = hosts.as_array().or_else(|| hosts["hosts"].as_array())?.first()?.clone();
            is_so(&host).then_some(host)
        })
    }
}

impl Drop for RolloutServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const POLICY: &str = "kind: autoupdate_config
version: v1
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules: {regular: [{name: prod, days: [\"*\"], start_hour: 3}]}
---
kind: autoupdate_version
version: v1
spec: {agents: {start_version: 1.0.0, target_version: TARGET, schedule: regular, mode: enabled}}
";

#[test]
fn a_workload_follows_a_rollout_reports_and_stops_it_when_the_image_is_bad() {
    let Some(bed) = KubeBed::shared() else { return };
    let Some(server) = RolloutServer::start() else { return };
    let mut scene = Scene::new(bed, "fleet", &["agent"]);
    scene.deploy("agent");
    scene.configure(
        [("source", json!(server.source())), ("group", json!("prod")), ("labels", json!({"team": "a"}))].into(),
    );
    scene.trust(&server.folder.path().join("cert.pem"));
    server.run(&["create", "-f", "-"], &POLICY.replace("TARGET", "1.1.0"));
    scene.start();
    scene.told("agent", "not_let_go");
    let host = server.host(|host| !host["labels"]["kubernetes.name"].is_null());
    assert_eq!(host["labels"]["kubernetes.kind"], "StatefulSet", "{host}");
    assert_eq!(host["labels"]["team"], "a", "{host}");
    server.run(&["autoupdate", "agents", "start-update", "prod"], "");
    scene.restart();
    // The server spreads hosts over a minute: nobody waits for that here.
    let told = scene.ask(&["update", "--now"]);
    assert!(told.contains("updated"), "{told}");
    assert_eq!(scene.versions(), ["1.1.0"]);
    server.host(|host| host["last_outcome"] == "updated");

    scene.live("2.0.0", PodLife::Crashing);
    server.run(
        &["update", "-f", "-"],
        &POLICY
            .split("---\n")
            .nth(1)
            .unwrap()
            .replace("start_version: 1.0.0", "start_version: 1.1.0")
            .replace("TARGET", "2.0.0"),
    );
    server.run(&["autoupdate", "agents", "start-update", "prod"], "");
    scene.restart();
    let output = scene.run(&["update", "--now"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let state = scene.told_any("agent", &["rolled_back", "refused", "not_let_go"]);
    assert_eq!(state["refused"][0]["version"], "2.0.0", "{state}");
    scene.settled("agent", "1.1.0");
    server.host(|host| host["last_outcome"] == "rolled_back");
    let status = kube_bed::wait_for(crate::scene::PATIENCE, "the group is halted", || {
        let text = server.run(&["autoupdate", "agents", "status"], "");
        text.contains("halted").then_some(text)
    });
    assert!(status.contains("prod"), "{status}");
    // The halt reaches it: nothing more is written, also by a process that has forgotten all.
    scene.restart();
    scene.told_any("agent", &["not_let_go", "refused"]);
    assert_eq!(scene.versions(), ["1.1.0", "2.0.0", "1.1.0"]);
}
