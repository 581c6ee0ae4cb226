//! The life of the rollout server's package, and packaged updaters that follow it in other beds.

use std::net::TcpListener;

use serde_json::Value;
use test_cluster::archive::Archive;

use super::super::fleet::CONFIGURE;
use crate::support::beds::Bed;
use crate::support::package::{Product, install_deb};
use crate::support::{Rig, look};

/// A server from its package, in a bed that shares the network with those of the hosts.
struct Server {
    bed: Bed,
    port: u16,
}

impl Server {
    /// Installs, configures and starts it; `None`, saying why, where this machine can host no bed.
    fn install(version: &str) -> Option<Self> {
        let deb = Product::Fleet.deb(version)?;
        let bed = Bed::up("e2e-fleet")?;
        install_deb(&bed, &deb);
        // Free at this moment.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        bed.sh(CONFIGURE);
        bed.sh(&format!(
            "printf '%s\\n' 'listen: 127.0.0.1:{port}' 'metrics: 127.0.0.1:0' 'edition: oss' >>/etc/teleport-fleet.yaml && \
             systemctl enable --now teleport-fleet || {{ journalctl -u teleport-fleet -o cat --no-pager; exit 1; }}"
        ));
        Some(Self { bed, port })
    }

    /// Installs another version of the package over it; the server runs after that.
    fn upgrade(&self, version: &str) {
        let pid = || self.bed.sh("systemctl show --property MainPID --value teleport-fleet");
        let before = pid();
        install_deb(&self.bed, &Product::Fleet.deb(version).unwrap());
        self.bed.sh("systemctl is-active -q teleport-fleet");
        assert_ne!(pid(), before, "the old program goes on");
    }

    /// Two groups, none of which starts by itself, from 1.0.0 to 2.0.0.
    fn plan(&self) {
        let hour = (jiff::Timestamp::now().as_second() / 3600 + 12) % 24;
        let group = |name| format!("      - {{name: {name}, days: ['*'], start_hour: {hour}, jitter_seconds: 0}}\n");
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

    fn state(&self, name: &str) -> String {
        let status: Value =
            serde_json::from_str(&self.bed.sh("teleport-fleet autoupdate agents status --format json")).unwrap();
        let groups = status["groups"].as_array().unwrap();
        let group = groups.iter().find(|group| group["name"] == name).unwrap();
        group["state"].as_str().unwrap().to_owned()
    }

    /// Versions and states of all hosts.
    fn hosts(&self) -> Vec<(String, String)> {
        let hosts: Value = serde_json::from_str(&self.bed.sh("teleport-fleet hosts --format json")).unwrap();
        let text = |host: &Value, key: &str| host[key].as_str().unwrap_or_default().to_owned();
        hosts.as_array().unwrap().iter().map(|host| (text(host, "version"), text(host, "state"))).collect()
    }
}

/// What a host's timer does. Whether it succeeded.
fn run(host: &Rig) -> bool {
    host.bed.run(&["systemctl", "start", "teleport-update.service"]).status.success()
}

/// The timer of `host` comes until its group is done: what it could not report, a later run does.
fn until_done(server: &Server, name: &str, host: &Rig) {
    look::until(&format!("{name} is done"), || {
        assert!(run(host));
        server.state(name) == "done"
    });
    assert_eq!(host.running(), "2.0.0");
}

#[test]
fn a_server_is_installed_upgraded_in_a_rollout_and_removed_and_packaged_updaters_follow() {
    let Some(server) = Server::install("1.0.0") else { return };
    let Some(dev) = Rig::with_deb("bookworm", "e2e-dev", "1.0.0") else { return };
    let Some(prod) = Rig::with_deb("bookworm", "e2e-prod", "1.0.0") else { return };
    for number in 1..=2 {
        dev.cluster.publish(&Archive::simple(&format!("{number}.0.0")).schema(number));
    }
    server.plan();
    let authority = std::fs::read_to_string(server.bed.path("/etc/teleport-fleet/fullchain.pem")).unwrap();
    let (proxy, base) = (format!("127.0.0.1:{}", server.port), dev.cluster.base_url());
    for (name, host) in [("dev", &dev), ("prod", &prod)] {
        host.bed.write("/root/fleet.pem", format!("{authority}{}", dev.cluster.ca_pem()), 0o644);
        let words = ["--proxy", &proxy, "--group", name, "--base-url", &base, "--ca-file", "/root/fleet.pem"];
        host.updater(&[&["enable"], &words[..]].concat()).ok();
        host.start_agent();
        assert!(run(host));
    }
    server.start_group("dev");
    until_done(&server, "dev", &dev);

    // In the middle of the rollout.
    server.upgrade("1.2.0");
    assert_eq!((server.state("dev"), server.state("prod")), ("done".into(), "unstarted".into()));
    assert!(run(&prod));
    assert_eq!(prod.running(), "1.0.0");
    server.start_group("prod");
    until_done(&server, "prod", &prod);
    let updated = vec![("2.0.0".to_owned(), "updated".to_owned()); 2];
    assert_eq!(server.hosts(), updated);
    server.bed.sh("teleport-fleet audit verify");

    // Without a server nobody updates, and every agent goes on.
    server.bed.sh("dpkg --remove teleport-fleet");
    for host in [&dev, &prod] {
        assert!(!run(host));
        assert_eq!(host.running(), "2.0.0");
    }
    install_deb(&server.bed, &Product::Fleet.deb("1.2.0").unwrap());
    server.bed.sh("systemctl enable --now teleport-fleet");
    assert_eq!(server.hosts(), updated);
    assert!(run(&dev) && run(&prod));
}
