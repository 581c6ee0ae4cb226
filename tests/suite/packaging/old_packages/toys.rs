//! Toy packages `teleport` and `teleport-ent` that are laid out as the real ones were.

use crate::support::*;

use crate::support::go::agent;
pub(crate) use crate::support::repository::{apt_repository, deb, dnf_repository, rpm, shim};

/// The agent's unit as the packages bring it.
pub(crate) const UNIT: &str = "[Unit]\nDescription=Teleport Service\nAfter=network.target\n\n[Service]\nType=simple\nRestart=always\n\
    RestartSec=1\nEnvironmentFile=-/etc/default/teleport\n\
    ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid\n\
    ExecReload=/bin/kill -HUP $MAINPID\nPIDFile=/run/teleport.pid\nLimitNOFILE=524288\n\n[Install]\n\
    WantedBy=multi-user.target\n";
/// The names of the programs in it.
const PROGRAMS: [&str; 4] = ["teleport", "tsh", "tctl", "tbot"];
/// The updater that the packages of 17.3 and later bring, as far as their scripts call it: links into the system and a unit
/// with a mark after an installation; before a removal, what is the package's goes.
const THEIR_UPDATER: &str = r#"#!/bin/sh
set -e
home=/opt/teleport/system unit=/lib/systemd/system/teleport.service
case $1 in
link-package)
    mkdir -p /usr/local/bin /lib/systemd/system
    for p in $home/bin/*; do
        l=/usr/local/bin/${p##*/}
        case $(readlink "$l" || true) in
        $home/*) ln -sfn "$p" "$l" ;;
        '') [ -e "$l" ] || ln -s "$p" "$l" ;;
        esac
    done
    [ -e $unit ] || { echo '# teleport-update system'; cat $home/lib/systemd/system/teleport.service; } >$unit
    ;;
unlink-package)
    for p in $home/bin/*; do
        l=/usr/local/bin/${p##*/}
        if [ "$(readlink "$l")" = "$p" ]; then rm -f "$l"; fi
    done
    if grep -qs '^# teleport-update system' $unit; then rm -f $unit; fi
    ;;
*) touch /root/go-updater-ran ;;
esac
[ ! -d /run/systemd/system ] || systemctl daemon-reload
"#;
const LINK: &str = "/opt/teleport/system/bin/teleport-update link-package\n";
const UNLINK: &str = "/opt/teleport/system/bin/teleport-update unlink-package\n";
/// A script that may delete anything, for all one can tell: it is left out, and its links stay behind.
const UNLINK_BY_HAND: &str = "for p in /opt/teleport/system/bin/*; do rm -f \"/usr/local/bin/${p##*/}\"; done\n";
/// Old packages stopped and disabled the agent.
const STOP: &str = "[ ! -d /run/systemd/system ] || systemctl disable --now teleport.service || true\n";
/// The worst that a purge could do.
const WIPE: &str = "rm -f /etc/teleport.yaml\nrm -rf /var/lib/teleport\n";

/// How a package is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Binaries in `/usr/local/bin`, unit in `/lib/systemd/system`.
    Plain,
    /// As [`Layout::Plain`], with `/etc/teleport.yaml` as a configuration file of the package.
    WithConfig,
    /// Everything in `/opt/teleport/system`, linked by the package's scripts.
    Linked,
    /// Another package altogether: no file, and no script but its own.
    Empty,
}

/// A toy package.
#[derive(Debug, Clone)]
pub(crate) struct Toy {
    pub name: &'static str,
    pub version: &'static str,
    pub layout: Layout,
    /// Further lines of a deb's control file.
    pub control: &'static str,
    /// Further lines of an rpm's description.
    pub head: &'static str,
    /// Runs at the start of an installation.
    pub before: &'static str,
    /// Runs at the end of a deb's installation.
    pub after: &'static str,
}

impl Toy {
    pub(crate) fn new(name: &'static str, version: &'static str, layout: Layout) -> Self {
        Self { name, version, layout, control: "", head: "", before: "", after: "" }
    }

    /// Its files: path without the leading slash, bytes, mode.
    fn files(&self) -> Vec<(String, Vec<u8>, u32)> {
        let (bin, units) = match self.layout {
            Layout::Empty => return Vec::new(),
            Layout::Linked => ("opt/teleport/system/bin", "opt/teleport/system/lib/systemd/system"),
            _ => ("usr/local/bin", "lib/systemd/system"),
        };
        let mut files: Vec<(String, Vec<u8>, u32)> =
            PROGRAMS.iter().map(|name| (format!("{bin}/{name}"), agent(self.version), 0o755)).collect();
        files.push((format!("{units}/teleport.service"), UNIT.into(), 0o644));
        if self.layout == Layout::Linked {
            files.push((format!("{bin}/teleport-update"), THEIR_UPDATER.into(), 0o755));
        }
        if self.layout == Layout::WithConfig {
            files.push(("etc/teleport.yaml".into(), b"teleport:\n  nodename: packaged\n".to_vec(), 0o600));
        }
        files
    }

    fn is_linked(&self) -> bool {
        self.layout == Layout::Linked
    }

    /// Builds the deb in `dir`.
    pub(crate) fn deb(&self, dir: &Path) -> PathBuf {
        let file = dir.join(format!("{}_{}_all.deb", self.name, self.version));
        let mut scripts = vec![("preinst", format!("#!/bin/sh\nset -e\n{}", self.before))];
        if !self.after.is_empty() {
            scripts.push(("postinst", format!("#!/bin/sh\nset -e\n{}", self.after)));
        }
        if self.layout == Layout::Empty {
        } else if self.is_linked() {
            scripts.push(("postinst", format!("#!/bin/sh\nset -e\n{LINK}")));
            scripts.push(("prerm", format!("#!/bin/sh\nset -e\nif [ \"$1\" = remove ]; then\n{UNLINK}fi\n")));
        } else {
            scripts.push(("prerm", format!("#!/bin/sh\nset -e\nif [ \"$1\" = remove ]; then\n{STOP}fi\n")));
        }
        if self.layout != Layout::Empty {
            scripts.push(("postrm", format!("#!/bin/sh\nset -e\nif [ \"$1\" = purge ]; then\n{WIPE}fi\n")));
        }
        let conffiles = match self.layout {
            Layout::WithConfig => "/etc/teleport.yaml\n",
            _ => "",
        };
        let control = format!("Architecture: all\n{}", self.control);
        deb(&file, self.name, self.version, &control, conffiles, &scripts, &self.files());
        file
    }

    /// Builds the rpm in `dir`.
    pub(crate) fn rpm(&self, dir: &Path) -> PathBuf {
        let mut scripts = vec![("pre", self.before.to_owned())];
        let last = |body: &str| format!("if [ \"$1\" = 0 ]; then\n{body}fi\n");
        if self.layout == Layout::Empty {
            return rpm(dir, self.name, self.version, self.head, &scripts, &[]);
        }
        if self.is_linked() {
            scripts.push(("posttrans", LINK.to_owned()));
            scripts.push(("preun", last(UNLINK_BY_HAND)));
        } else {
            scripts.push(("preun", last(STOP)));
        }
        scripts.push(("postun", last(WIPE)));
        rpm(dir, self.name, self.version, self.head, &scripts, &self.files())
    }
}

/// The updater of the generation before: a timer whose service restarts the agent. Its scripts leave the timer running.
fn upgrader_files() -> Vec<(String, Vec<u8>, u32)> {
    let file = |path: &str, text: &str, mode: u32| (path.to_owned(), text.as_bytes().to_vec(), mode);
    vec![
        file("usr/sbin/teleport-upgrade", "#!/bin/sh\ntouch /root/upgrader-ran\nsystemctl restart teleport\n", 0o755),
        file(
            "lib/systemd/system/teleport-upgrade.service",
            "[Service]\nType=oneshot\nExecStart=/usr/sbin/teleport-upgrade run\n",
            0o644,
        ),
        file(
            "lib/systemd/system/teleport-upgrade.timer",
            "[Timer]\nOnActiveSec=1h\nOnUnitActiveSec=1h\n\n[Install]\nWantedBy=timers.target\n",
            0o644,
        ),
        file("etc/teleport-upgrade.d/endpoint", "example.com/v1/stable/cloud\n", 0o644),
    ]
}

const UPGRADER_STARTS: &str = "systemctl daemon-reload; systemctl enable --now teleport-upgrade.timer\n";

pub(crate) fn upgrader_deb(dir: &Path) -> PathBuf {
    let file = dir.join("teleport-ent-updater_17.0.0_all.deb");
    let scripts = [("postinst", format!("#!/bin/sh\nset -e\n{UPGRADER_STARTS}"))];
    deb(
        &file,
        "teleport-ent-updater",
        "17.0.0",
        "Architecture: all\n",
        "/etc/teleport-upgrade.d/endpoint\n",
        &scripts,
        &upgrader_files(),
    );
    file
}

pub(crate) fn upgrader_rpm(dir: &Path) -> PathBuf {
    rpm(dir, "teleport-ent-updater", "17.0.0", "", &[("post", UPGRADER_STARTS.to_owned())], &upgrader_files())
}
