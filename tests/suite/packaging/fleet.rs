//! The rollout server's deb and rpm: built, linted, installed, configured, upgraded, removed and purged for real; what its unit
//! forbids; and the policy that comes with it.

use Format::{Deb, Rpm};

use crate::support::*;

const UNIT: &str = "teleport-fleet.service";
const DATA: &str = "/var/lib/teleport-fleet";
/// For what happens soon, on a loaded machine.
const SOON: Duration = Duration::from_secs(60);
/// As an operator writes it: the certificate's key is for the server's group alone.
pub(super) const CONFIGURE: &str = "mkdir -p /etc/teleport-fleet && cd /etc/teleport-fleet && \
     openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=fleet -keyout key.pem -out request 2>/dev/null && \
     echo 'subjectAltName = IP:127.0.0.1' >names && \
     openssl x509 -req -in request -signkey key.pem -days 2 -extfile names -out fullchain.pem 2>/dev/null && \
     chgrp teleport-fleet key.pem && chmod 640 key.pem && \
     printf '%s\\n' 'tls_cert: /etc/teleport-fleet/fullchain.pem' 'tls_key: /etc/teleport-fleet/key.pem' \
         >/etc/teleport-fleet.yaml";
/// After a removal, what an operator does with the file that rpm has kept under another name.
pub(super) const PUT_BACK: &str = "cp -p /etc/teleport-fleet.yaml.rpmsave /etc/teleport-fleet.yaml 2>/dev/null || true";

/// Both formats in a bed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    Deb,
    Rpm,
}

impl Format {
    /// A bed of its own network, so that port 443 is free, without the package.
    fn bare(self, name: &str) -> Option<Bed> {
        Product::Fleet.built("1.0.0")?;
        Bed::up_on(self.root(), name, &["--private-network"])
    }

    /// Of a bed with its package manager.
    pub(super) fn root(self) -> &'static str {
        if let Deb = self { "bookworm" } else { "bookworm-rpm" }
    }

    /// Installs, or upgrades to, `version`.
    pub(super) fn install(self, bed: &Bed, version: &str) {
        match self {
            Deb => install_deb(bed, &Product::Fleet.deb(version).unwrap()),
            Rpm => install_rpm(bed, &Product::Fleet.rpm(version).unwrap()),
        }
    }

    /// Removes it; what it was told stays.
    pub(super) fn remove(self, bed: &Bed) {
        bed.sh(match self {
            Deb => "dpkg --remove teleport-fleet",
            Rpm => "rpm -e --force-debian teleport-fleet",
        });
    }
}

/// What `systemctl VERB` says of the unit, whatever its exit status.
fn asked(bed: &Bed, verb: &str) -> String {
    bed.sh(&format!("systemctl {verb} {UNIT} || true")).trim_end().to_owned()
}

fn pid(bed: &Bed) -> String {
    bed.sh(&format!("systemctl show --property MainPID --value {UNIT}"))
}

fn program(words: &[&str]) -> Ran {
    Ran::of(&Command::new(Product::Fleet.program()).env_clear().args(words).stdin(Stdio::null()).output().unwrap())
}

/// What the server says, over TLS, at the port that needs a capability.
fn ask(bed: &Bed, path: &str) -> String {
    bed.sh(&format!(
        "printf 'GET {path} HTTP/1.1\\r\\nHost: fleet\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet \
         -connect 127.0.0.1:443 -CAfile /etc/teleport-fleet/fullchain.pem -verify_return_error 2>/dev/null"
    ))
}

/// The server's answer to a host of `staging`.
fn answer(bed: &Bed) -> String {
    let text = ask(bed, "/v1/webapi/find?group=staging");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    text
}

/// Configures and starts a server, and writes the policy of the package into it.
fn set_up(bed: &Bed) {
    bed.sh(CONFIGURE);
    bed.sh(&format!("systemctl enable --now {UNIT} || {{ journalctl -u {UNIT} -o cat --no-pager; exit 1; }}"));
    bed.sh("cd /usr/share/doc/teleport-fleet/examples && teleport-fleet create -f policy.yaml -f version.yaml");
    assert!(answer(bed).contains("\"agent_version\":\"17.2.0\""));
}

/// The number behind "exposure level", of 10.
fn exposure(bed: &Bed) -> f32 {
    let said = bed.sh(&format!("systemd-analyze security --no-pager {UNIT}"));
    let (_, number) =
        said.split_once("exposure level for teleport-fleet.service: ").unwrap_or_else(|| panic!("{said}"));
    number.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn two_builds_of_the_same_give_the_same_bytes() {
    let Some(first) = Product::Fleet.built("1.0.0") else { return };
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join("elsewhere");
    Product::Fleet.build_in(dir.path(), "1.0.0", &Product::Fleet.program(), &again);
    let sums = |dir: &std::path::Path| std::fs::read_to_string(dir.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&first), sums(&again));
    assert_eq!(sums(&first).lines().count(), 2);
}

#[test]
fn the_distributions_checkers_find_nothing() {
    let Some(dir) = Product::Fleet.built("1.0.0") else { return };
    let lint = Command::new(checkout("packaging/lint.sh")).arg(dir).stdin(Stdio::null()).output().unwrap();
    Ran::of(&lint).ok();
}

#[test]
fn the_policy_of_the_package_is_legal_and_wise_for_every_size_of_fleet() {
    let files = ["policy.yaml", "version.yaml"].map(|name| checkout("packaging/fleet/examples").join(name));
    for hosts in ["10", "1000", "100000"] {
        let words = ["lint", "--strict", "--hosts", hosts, files[0].to_str().unwrap(), files[1].to_str().unwrap()];
        let ran = program(&words).ok();
        assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
    }
    let policy = std::fs::read_to_string(&files[0]).unwrap();
    for word in ["canary_count: 5", "max_in_flight: 10%", "soak_hours: ", "max_failed_before_halt: "] {
        assert!(policy.contains(word), "{word}");
    }
}

#[test]
fn the_manual_page_renders_without_a_warning_and_has_every_verb() {
    let page = program(&["man"]).ok().stdout;
    for word in [".TH teleport-fleet 8", ".SS \"serve\"", ".SS \"autoupdate agents start\\-update\"", "EXIT STATUS"] {
        assert!(page.contains(word), "{word}");
    }
    look::renders(&page);
}

fn a_server_lives_through_installation_upgrade_and_removal(format: Format) {
    let Some(bed) = format.bare("fp-life") else { return };
    format.install(&bed, "1.0.0");
    for name in ["alerts.yaml", "grafana-dashboard.json"] {
        let has = bed.sh(&format!("cat /usr/share/doc/teleport-fleet/monitoring/{name}"));
        assert_eq!(has, std::fs::read_to_string(checkout("fleet/monitoring").join(name)).unwrap(), "{name}");
    }
    // Nothing is configured: nothing runs, and nothing has failed.
    assert_eq!((asked(&bed, "is-enabled").as_str(), asked(&bed, "is-active").as_str()), ("disabled", "inactive"));
    assert_eq!(bed.sh("systemctl --failed --no-legend"), "");
    set_up(&bed);
    assert_eq!(bed.sh("stat -c '%U:%G %a' /run/teleport-fleet/admin.sock"), "teleport-fleet:teleport-fleet 660\n");
    assert_eq!(bed.sh(&format!("stat -c '%U:%G %a' {DATA}")), "teleport-fleet:teleport-fleet 700\n");

    let (before, audit) = (pid(&bed), bed.sh("teleport-fleet audit"));
    format.install(&bed, "1.2.0");
    assert_eq!(asked(&bed, "is-active"), "active");
    assert_ne!(pid(&bed), before, "the old program goes on");
    assert!(bed.sh("readlink /proc/$(systemctl show -p MainPID --value teleport-fleet)/exe").ends_with("fleet\n"));
    assert_eq!(bed.sh("teleport-fleet audit"), audit);
    assert!(answer(&bed).contains("\"agent_version\":\"17.2.0\""));
    assert_eq!(asked(&bed, "is-enabled"), "enabled");

    let configuration = bed.sh("cat /etc/teleport-fleet.yaml");
    format.remove(&bed);
    assert!(!bed.path("/usr/bin/teleport-fleet").exists());
    assert_eq!(bed.sh("systemctl --failed --no-legend; find /etc/systemd -name 'teleport-fleet*'"), "");
    assert!(bed.path(DATA).join("fleet.db").exists());
    // rpm keeps an operator's file under another name.
    assert_eq!(
        bed.sh("cat /etc/teleport-fleet.yaml 2>/dev/null || cat /etc/teleport-fleet.yaml.rpmsave"),
        configuration
    );

    format.install(&bed, "1.2.0");
    assert_eq!(asked(&bed, "is-active"), "inactive");
    bed.sh(PUT_BACK);
    bed.sh(&format!("systemctl enable --now {UNIT}"));
    assert_eq!(bed.sh("teleport-fleet audit"), audit);
    assert!(answer(&bed).contains("\"agent_version\":\"17.2.0\""));
    bed.reboot();
    bed.until(&format!("systemctl is-active -q {UNIT}"), SOON);
    assert!(answer(&bed).contains("\"agent_version\":\"17.2.0\""));
}

tests_of! { a_server_lives_through_installation_upgrade_and_removal:
    a_server_lives_through_every_change_of_the_deb(Deb);
    a_server_lives_through_every_change_of_the_rpm(Rpm);
}

#[test]
fn the_server_has_no_right_that_it_does_not_need() {
    let Some(bed) = Deb.bare("fp-unit") else { return };
    install_deb(&bed, &Product::Fleet.deb("1.0.0").unwrap());
    let exposed = exposure(&bed);
    assert!(exposed < 2.0, "{exposed}");
    // A system call that the unit forbids kills the server here, instead of failing unseen.
    let kill = format!("/etc/systemd/system/{UNIT}.d/kill.conf");
    bed.write(kill, "[Service]\nSystemCallErrorNumber=kill\n", 0o644);
    bed.sh("systemctl daemon-reload");
    set_up(&bed);
    let before = pid(&bed);
    let status = bed.sh("cat /proc/$(systemctl show -p MainPID --value teleport-fleet)/status");
    // CAP_NET_BIND_SERVICE is number 10.
    for line in ["CapEff:\t0000000000000400", "CapBnd:\t0000000000000400", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    bed.sh("teleport-fleet tokens create ci --role admin >/root/token && chmod 600 /root/token");
    bed.sh(&format!("systemctl reload {UNIT} && teleport-fleet backup /root/backup && teleport-fleet doctor"));
    bed.sh(
        "teleport-fleet --server https://127.0.0.1 --ca-file /etc/teleport-fleet/fullchain.pem --token-file /root/token \
         autoupdate agents status",
    );
    // A channel that is forwarded: a name is resolved, and a connection refused.
    bed.sh("printf '%s\\n' 'kind: fleet_channel' 'version: v1' 'metadata: {name: far}' \
         'spec: {forward_url: \"https://localhost:9/v1/far\"}' | teleport-fleet create -f -");
    assert!(ask(&bed, "/v1/far/version").starts_with("HTTP/1.1 50"));
    assert_eq!(pid(&bed), before, "{}", bed.sh(&format!("journalctl -u {UNIT} -o cat --no-pager | tail -n 20")));
    // Its group, and nobody else.
    let status = "teleport-fleet autoupdate agents status";
    let by = |groups: &str| bed.run(&["sh", "-c", &format!("setpriv --reuid=65534 --regid=65534 {groups} {status}")]);
    Ran::of(&by("--groups=teleport-fleet")).ok();
    Ran::of(&by("--clear-groups")).fails(1, "admin.sock");
    bed.sh(&format!("systemctl restart {UNIT}"));
    assert_eq!(asked(&bed, "is-active"), "active");
}

/// The page's own lines: root makes the backup and restores it, and the files are the server's again.
#[test]
fn root_restores_a_backup_and_the_server_starts_again() {
    let Some(bed) = Deb.bare("fp-restore") else { return };
    install_deb(&bed, &Product::Fleet.deb("1.0.0").unwrap());
    set_up(&bed);
    bed.sh("teleport-fleet backup /root/fleet.backup && teleport-fleet rm autoupdate_version");
    bed.sh(&format!("systemctl stop {UNIT} && teleport-fleet restore --force /root/fleet.backup"));
    assert_eq!(bed.sh(&format!("stat -c %U {DATA}/fleet.db")), "teleport-fleet\n");
    bed.sh(&format!("systemctl start {UNIT}"));
    // It has the version that was removed, and holds everything, as every restored server does.
    assert!(answer(&bed).contains("\"agent_version\":\"17.2.0\",\"agent_auto_update\":false"));
    assert!(bed.sh("teleport-fleet autoupdate agents status").contains("agents run --all"));
}

/// systemd 247 and 257; before 235 there is no StateDirectory=.
#[test]
fn the_unit_starts_under_older_and_newer_systemd() {
    for root in ["bullseye", "trixie"] {
        let Some(deb) = Product::Fleet.deb("1.0.0") else { return };
        let Some(bed) = Bed::up_on(root, "fp-root", &["--private-network"]) else { return };
        install_deb(&bed, &deb);
        set_up(&bed);
        let exposed = exposure(&bed);
        assert!(exposed < 2.0, "{root}: {exposed}");
        let complaints = bed.sh("journalctl -b --no-pager -o cat | grep 'teleport-fleet.service:[0-9]*:' || true");
        assert_eq!(complaints, "", "{root}");
    }
}

#[test]
fn a_start_that_fails_is_told_and_an_upgrade_starts_nothing_that_was_stopped() {
    let Some(bed) = Deb.bare("fp-stopped") else { return };
    install_deb(&bed, &Product::Fleet.deb("1.0.0").unwrap());
    // Without a certificate.
    let ran = Ran::of(&bed.run(&["systemctl", "start", UNIT]));
    assert_ne!(ran.status, 0, "{ran:?}");
    let log = bed.sh(&format!("journalctl -u {UNIT} -o cat --no-pager"));
    assert!(log.contains("error: give --tls-cert and --tls-key"), "{log}");
    bed.sh(&format!("systemctl stop {UNIT}"));
    set_up(&bed);
    bed.sh(&format!("systemctl stop {UNIT}"));
    install_deb(&bed, &Product::Fleet.deb("1.2.0").unwrap());
    assert_eq!(asked(&bed, "is-active"), "inactive");
    // An administrator who forbids that packages start services is obeyed.
    bed.sh(&format!("systemctl start {UNIT}"));
    let before = pid(&bed);
    bed.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755);
    install_deb(&bed, &Product::Fleet.deb("1.0.0").unwrap());
    assert_eq!(pid(&bed), before);
}

#[test]
fn a_purge_takes_the_servers_own_files_and_follows_no_link() {
    let Some(bed) = Deb.bare("fp-purge") else { return };
    install_deb(&bed, &Product::Fleet.deb("1.0.0").unwrap());
    set_up(&bed);
    bed.sh("dpkg --purge teleport-fleet");
    assert!(!bed.path(DATA).exists() && !bed.path("/etc/teleport-fleet.yaml").exists());
    // The certificate is the operator's; files can still be the user's.
    assert!(bed.path("/etc/teleport-fleet/key.pem").exists());
    bed.sh("id teleport-fleet");

    // What the server's user could put there before the purge.
    install_deb(&bed, &Product::Fleet.deb("1.0.0").unwrap());
    bed.sh(&format!(
        "mkdir -p /srv/others && echo theirs >/srv/others/fleet.db && mkdir {DATA} && ln -s /srv/others/fleet.db {DATA}/fleet.db && \
         ln -s /srv/others {DATA}/fleet.db.replaced-1 && mkdir {DATA}/fleet.db.replaced-2 && echo mine >{DATA}/backup"
    ));
    let purged = Ran::of(&bed.run(&["dpkg", "--purge", "teleport-fleet"])).ok();
    assert!(purged.stderr.contains(&format!("kept {DATA}")), "{purged:?}");
    assert_eq!(bed.sh("cat /srv/others/fleet.db"), "theirs\n");
    assert_eq!(bed.sh(&format!("ls {DATA}")), "backup\nfleet.db.replaced-2\n");

    // The directory itself is a link to where the disk is.
    install_deb(&bed, &Product::Fleet.deb("1.0.0").unwrap());
    bed.sh(&format!("rm -r {DATA} && ln -s /srv/others {DATA}"));
    let purged = Ran::of(&bed.run(&["dpkg", "--purge", "teleport-fleet"])).ok();
    assert!(purged.stderr.contains(&format!("kept the link {DATA}")), "{purged:?}");
    assert_eq!(bed.sh(&format!("cat {DATA}/fleet.db")), "theirs\n");
}

#[test]
fn another_root_of_dpkgs_is_all_that_its_scripts_touch() {
    let Some(bed) = Deb.bare("fp-chrootless") else { return };
    bed.put(Product::Fleet.deb("1.0.0").unwrap(), "/root/package.deb");
    let seen = |bed: &Bed| {
        (
            tree(&bed.path("/etc/systemd")),
            tree(&bed.path("/usr/lib/systemd/system")),
            bed.sh("cat /etc/passwd /etc/group"),
        )
    };
    let before = seen(&bed);
    let dpkg = "dpkg --root=/srv/image --force-script-chrootless --force-depends";
    bed.sh(&format!(
        "mkdir -p /srv/image/var/lib/dpkg/info /srv/image/var/lib/dpkg/updates && : >/srv/image/var/lib/dpkg/status && \
         {dpkg} -i /root/package.deb && grep -q '^teleport-fleet:' /srv/image/etc/passwd && \
         mkdir -p /srv/image{DATA} {DATA} && : >/srv/image{DATA}/fleet.db && : >{DATA}/fleet.db"
    ));
    assert_eq!(seen(&bed), before);
    bed.sh(&format!("systemctl --root=/srv/image enable {UNIT} && {dpkg} --purge teleport-fleet"));
    assert_eq!(
        bed.sh(&format!("find /srv/image{DATA} /srv/image/etc/systemd -name '*fleet*' 2>/dev/null || true")),
        ""
    );
    assert!(bed.path(DATA).join("fleet.db").exists());
    assert_eq!(seen(&bed), before);
}
