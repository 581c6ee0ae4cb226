//! The life of the rollout server's package, and packaged updaters that follow it in other beds.

use std::net::TcpListener;

use super::super::fleet::{CONFIGURE, Format, PUT_BACK};
use super::matrix::Matrix;
use crate::support::*;

/// For what happens soon, on a loaded machine.
const SOON: Duration = Duration::from_secs(60);
/// Of a stand-in's archive, whose end is held back: some 2 MB.
const HELD_AFTER: u64 = 100_000;

/// A server from its package, in a bed that shares the network with those of the hosts.
struct Server {
    format: Format,
    bed: Bed,
    port: u16,
}

impl Server {
    /// Its bed, empty yet; `None`, saying why, where this machine can host none.
    fn up(format: Format) -> Option<Self> {
        Product::Fleet.built("1.0.0")?;
        let bed = Bed::up_on(format.root(), "e2e-fleet", &[])?;
        // Free at this moment.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Some(Self { format, bed, port })
    }

    /// Installs, configures and starts it.
    fn install(&self, version: &str) {
        let Self { format, bed, port } = self;
        format.install(bed, version);
        bed.sh(CONFIGURE);
        bed.sh(&format!(
            "printf '%s\\n' 'listen: 127.0.0.1:{port}' 'metrics: 127.0.0.1:0' 'edition: oss' >>/etc/teleport-fleet.yaml && \
             systemctl enable --now teleport-fleet || {{ journalctl -u teleport-fleet -o cat --no-pager; exit 1; }}"
        ));
    }

    /// Installs another version of the package over it; the server runs after that.
    fn upgrade(&self, version: &str) {
        let pid = || self.bed.sh("systemctl show --property MainPID --value teleport-fleet");
        let before = pid();
        self.format.install(&self.bed, version);
        self.bed.sh("systemctl is-active -q teleport-fleet");
        assert_ne!(pid(), before, "the old program goes on");
    }

    /// Two groups, none of which starts by itself and each with one host at a time, from 1.0.0 to 2.0.0.
    fn plan(&self) {
        let hour = (jiff::Timestamp::now().as_second() / 3600 + 12) % 24;
        let group = |name| {
            format!("      - {{name: {name}, days: ['*'], start_hour: {hour}, jitter_seconds: 0, max_in_flight: 1%}}\n")
        };
        let text = format!(
            "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: enabled\n    \
             strategy: halt-on-error\n    schedules:\n      regular:\n{}{}---\nkind: autoupdate_version\nversion: v1\nmetadata: {{name: \
             autoupdate-version}}\nspec:\n  agents: {{start_version: 1.0.0, target_version: 2.0.0, schedule: regular, mode: enabled}}\n",
            group("dev"),
            group("prod")
        );
        self.bed.write("/root/plan.yaml", text, 0o644);
        self.bed.sh("teleport-fleet create -f /root/plan.yaml");
    }

    fn start_group(&self, name: &str) {
        self.bed.sh(&format!("teleport-fleet autoupdate agents start-update {name}"));
    }

    fn asked(&self, line: &str) -> Value {
        serde_json::from_str(&self.bed.sh(&format!("teleport-fleet {line} --format json"))).unwrap()
    }

    fn state(&self, name: &str) -> String {
        let status = self.asked("autoupdate agents status");
        let groups = status["groups"].as_array().unwrap();
        let group = groups.iter().find(|group| group["name"] == name).unwrap();
        group["state"].as_str().unwrap().to_owned()
    }

    /// Versions and states of all hosts.
    fn hosts(&self) -> Vec<(String, String)> {
        let hosts = self.asked("hosts");
        let text = |host: &Value, key: &str| host[key].as_str().unwrap_or_default().to_owned();
        hosts.as_array().unwrap().iter().map(|host| (text(host, "version"), text(host, "state"))).collect()
    }

    /// What the server knows of `host`.
    fn known(&self, host: &Rig) -> Value {
        let id = host.bed.sh("cat /var/lib/teleport/host_uuid");
        self.asked(&format!("host {}", id.trim()))
    }

    /// In which rollout and attempt `host` was told of each of its changes to 2.0.0.
    fn attempts(&self, host: &Rig) -> Vec<Value> {
        let known = self.known(host);
        let changes = known["history"]["changes"].as_array().unwrap();
        let changes = changes.iter().filter(|change| change["to"] == "2.0.0");
        changes.map(|change| json!([change["rollout"], change["attempt"]])).collect()
    }

    /// What an upgrade leaves as it is: the groups with their counts and the hosts with their marks.
    fn shown(&self) -> Value {
        let (mut status, mut hosts) = (self.asked("autoupdate agents status"), self.asked("hosts"));
        // Reasons and their time are of the last step, and each start makes one; and hosts go on asking.
        let of_the_step = ["why", "last_update_reason", "last_update_time"];
        for group in status["groups"].as_array_mut().unwrap() {
            group.as_object_mut().unwrap().retain(|key, _| !of_the_step.contains(&key.as_str()));
        }
        for host in hosts.as_array_mut().unwrap() {
            // Both end with the time since a host last asked.
            host.as_object_mut().unwrap().retain(|key, _| !["last_seen", "status"].contains(&key.as_str()));
        }
        json!([status, hosts])
    }
}

/// What a host's timer does. Whether it succeeded.
fn run(host: &Rig) -> bool {
    host.bed.run(&["systemctl", "start", "teleport-update.service"]).status.success()
}

/// A server and hosts that follow it: the first is group `dev`, the two others are `prod`.
struct Life {
    server: Server,
    hosts: [Rig; 3],
}

impl Life {
    fn up(format: Format) -> Option<Self> {
        let host = |name| match format {
            Format::Deb => Rig::with_deb("bookworm", name, "1.0.0"),
            Format::Rpm => Rig::with_rpm(name, "1.0.0"),
        };
        let server = Server::up(format)?;
        Some(Self { server, hosts: [host("e2e-dev")?, host("e2e-prod")?, host("e2e-prod2")?] })
    }

    fn live(&self) {
        let mut matrix = Matrix::of("server", self.server.format.root(), &self.server.bed);
        matrix.cell("server: install", || self.server.install("1.0.0"));
        matrix.cell("server: hosts enrol", || self.enrol());
        matrix.cell("server: a group updates", || self.first_group());
        matrix.cell("server: package upgrade in mid-rollout", || self.upgrade());
        matrix.cell("server: removal, and installed again", || self.remove());
        matrix.write();
    }

    fn enrol(&self) {
        let (server, cluster) = (&self.server, &self.hosts[0].cluster);
        for number in 1..=2 {
            cluster.publish(&Archive::simple(&format!("{number}.0.0")).schema(number));
        }
        server.plan();
        let authority = std::fs::read_to_string(server.bed.path("/etc/teleport-fleet/fullchain.pem")).unwrap();
        let (proxy, base) = (format!("127.0.0.1:{}", server.port), cluster.base_url());
        for (name, host) in ["dev", "prod", "prod"].into_iter().zip(&self.hosts) {
            host.bed.write("/root/fleet.pem", format!("{authority}{}", cluster.ca_pem()), 0o644);
            let words = ["--proxy", &proxy, "--group", name, "--base-url", &base, "--ca-file", "/root/fleet.pem"];
            host.updater(&[&["enable"], &words[..]].concat()).ok();
            host.start_agent();
            assert!(run(host));
        }
        assert_eq!(server.hosts(), vec![("1.0.0".to_owned(), "pending".to_owned()); 3]);
    }

    fn first_group(&self) {
        self.server.start_group("dev");
        self.until_done("dev", &self.hosts[..1]);
    }

    /// While one host was told and downloads, and another waits for its turn.
    fn upgrade(&self) {
        let (server, cluster) = (&self.server, &self.hosts[0].cluster);
        cluster.misbehave(".tar.gz", Misbehaviour::Hold { after_bytes: HELD_AFTER });
        server.start_group("prod");
        let (told, waits): (Vec<&Rig>, Vec<&Rig>) =
            self.hosts[1..].iter().partition(|host| server.known(host)["known"]["state"] == "let_go");
        let ([told], [waits]) = (&told[..], &waits[..]) else { panic!("one at a time: {}", server.shown()) };
        told.bed.sh("systemctl start --no-block teleport-update.service");
        cluster.until_held(SOON);
        look::until("the host is told", || server.known(told)["known"]["state"] == "told");

        let before = server.shown();
        server.upgrade("1.2.0");
        assert_eq!(server.shown(), before);
        assert!(run(waits));
        assert_eq!((waits.running(), server.shown()), ("1.0.0".to_owned(), before));

        cluster.behave();
        self.until_done("prod", &self.hosts[1..]);
        for host in &self.hosts {
            let attempts = server.attempts(host);
            assert!(!attempts.is_empty() && attempts.iter().all(|told| *told == json!([1, 1])), "{attempts:?}");
        }
        server.bed.sh("teleport-fleet audit verify");
    }

    /// Without a server nobody updates, and every agent goes on.
    fn remove(&self) {
        let Server { format, bed, .. } = &self.server;
        let updated = vec![("2.0.0".to_owned(), "updated".to_owned()); 3];
        assert_eq!(self.server.hosts(), updated);
        format.remove(bed);
        for host in &self.hosts {
            assert!(!run(host));
            assert_eq!(host.running(), "2.0.0");
        }
        format.install(bed, "1.2.0");
        bed.sh(PUT_BACK);
        bed.sh("systemctl enable --now teleport-fleet");
        assert_eq!(self.server.hosts(), updated);
        assert!(self.hosts.iter().all(run));
    }

    /// The timers of `hosts` come until their group is done: what they could not report, a later run does.
    fn until_done(&self, name: &str, hosts: &[Rig]) {
        look::until(&format!("{name} is done"), || {
            assert!(hosts.iter().all(run));
            self.server.state(name) == "done"
        });
        assert!(hosts.iter().all(|host| host.running() == "2.0.0"));
    }
}

#[test]
fn a_server_is_installed_upgraded_in_a_rollout_and_removed_and_packaged_updaters_follow() {
    let Some(life) = Life::up(Format::Deb) else { return };
    life.live();
}

#[test]
#[ignore = "make e2e"]
fn a_server_lives_the_same_with_rpm() {
    let Some(life) = Life::up(Format::Rpm) else { return };
    life.live();
}
