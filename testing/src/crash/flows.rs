//! The flows: what operators and timers do, each on the smallest image on which it does all of its work.

use std::os::unix::fs::{PermissionsExt, chown};

use crate::cluster::directive::Find;
use crate::crash::database::{self, migrate, migrate_and_crash};
use crate::crash::flow::Flow;
use crate::crash::host::{Host, Updater, words};
use crate::crash::release::{small, small_enterprise};
use crate::crash::sources;

/// The one whose agent has a user of its own, which only root can give it.
pub const OWNED: &str = "downgrade-owned";

/// Their names, in the order of tables.
pub const NAMES: [&str; 22] = [
    "enable",
    "enable-over-plain",
    "update",
    "update-names",
    "update-channel",
    "update-graph",
    "update-file",
    "update-tuf",
    "enable-source",
    "downgrade",
    "downgrade-wal",
    OWNED,
    "upgrade-restores",
    "rollback",
    "pin",
    "edition",
    "repair",
    "retention",
    "keep-one",
    "uninstall",
    "disable",
    "unpin",
];

/// The agent's user, `nobody` of most distributions, and his group.
const AGENT: u32 = 65_534;
/// Another group, which may read his database.
const AGENT_GROUP: u32 = 65_533;

/// The flow of that name.
///
/// # Panics
/// If there is none, or its image cannot be made.
pub fn flow(name: &str, updater: &Updater) -> Flow {
    match name {
        "enable" => enable(updater),
        "enable-over-plain" => enable_over_plain(updater),
        "update" => update(updater),
        "update-names" => update_names(updater),
        "update-channel" => sources::update_channel(updater),
        "update-graph" => sources::update_graph(updater),
        "update-file" => sources::update_file(updater),
        "update-tuf" => sources::update_tuf(updater),
        "enable-source" => sources::enable_source(updater),
        "downgrade" => downgrade(updater),
        "downgrade-wal" => downgrade_wal(updater),
        OWNED => downgrade_owned(updater),
        "upgrade-restores" => upgrade_restores(updater),
        "rollback" => rollback(updater),
        "pin" => pin(updater),
        "edition" => edition(updater),
        "repair" => repair(updater),
        "retention" => retention(updater),
        "keep-one" => keep_one(updater),
        "uninstall" => uninstall(updater),
        "disable" => disable(updater),
        "unpin" => unpin(updater),
        _ => panic!("no flow {name}; there are {NAMES:?}"),
    }
}

/// 1.0.0 is active and has a database of schema 1.
pub fn on_one(updater: &Updater) -> Host {
    let host = Host::new(updater);
    host.run(&host.enable_args());
    migrate(&host.path(database::PATH), 1);
    host
}

/// 2.0.0 is active with a database of schema 2; 1.0.0 has a snapshot of schema 1.
pub fn on_two(updater: &Updater) -> Host {
    let host = on_one(updater);
    host.release(&small("2.0.0"));
    host.run(&words("update"));
    migrate(&host.path(database::PATH), 2);
    host
}

/// A first installation.
pub fn enable(updater: &Updater) -> Flow {
    let host = Host::new(updater);
    let args = host.enable_args();
    Flow::new("enable", host, args, None, Some("1.0.0"))
}

/// A first installation on a host with an agent that nobody manages: plain binaries, a unit, a database.
pub fn enable_over_plain(updater: &Updater) -> Flow {
    let host = Host::new(updater);
    for (path, text) in [
        ("usr/local/bin/teleport", "#!/bin/sh\necho plain\n"),
        ("usr/local/bin/tsh", "#!/bin/sh\necho plain tsh\n"),
        ("usr/local/lib/systemd/system/teleport.service", "[Service]\nExecStart=/usr/local/bin/teleport start\n"),
    ] {
        let path = host.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    }
    std::os::unix::fs::symlink("/opt/else/tctl", host.path("usr/local/bin/tctl")).unwrap();
    migrate(&host.path(database::PATH), 1);
    let args = host.enable_args();
    Flow::new("enable-over-plain", host, args, None, Some("1.0.0"))
}

/// An upgrade that keeps the database.
pub fn update(updater: &Updater) -> Flow {
    let host = on_one(updater);
    host.release(&small("2.0.0"));
    Flow::new("update", host, words("update"), Some("1.0.0"), Some("2.0.0"))
}

/// An upgrade to a version that has one binary more and one less.
pub fn update_names(updater: &Updater) -> Flow {
    let host = Host::new(updater);
    host.release(&small("1.0.0").without_helper("tctl"));
    host.run(&host.enable_args());
    migrate(&host.path(database::PATH), 1);
    host.release(&small("2.0.0").without_helper("tbot"));
    Flow::new("update-names", host, words("update"), Some("1.0.0"), Some("2.0.0"))
}

/// A downgrade, which restores the old version's snapshot.
pub fn downgrade(updater: &Updater) -> Flow {
    let host = on_two(updater);
    host.name("1.0.0");
    Flow::new("downgrade", host, words("update"), Some("2.0.0"), Some("1.0.0"))
}

/// The same where the agent was killed: rows of the version that is left are in the write-ahead log alone.
pub fn downgrade_wal(updater: &Updater) -> Flow {
    let host = on_two(updater);
    migrate_and_crash(&host.path(database::PATH), 2, 200);
    host.name("1.0.0");
    Flow::new("downgrade-wal", host, words("update"), Some("2.0.0"), Some("1.0.0"))
}

/// The same where data directory and database are the agent's user's, in whose directory the updater has no more rights than
/// he. The group of the file is another than his.
pub fn downgrade_owned(updater: &Updater) -> Flow {
    let host = Host::new(updater);
    let path = host.path(database::OWN_PATH);
    std::fs::write(host.path("etc/teleport.yaml"), "teleport:\n  data_dir: /srv/agent\n").unwrap();
    migrate(&path, 1);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let proc = path.parent().unwrap();
    for (dir, mode) in [(proc, 0o700), (proc.parent().unwrap(), 0o750)] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
        chown(dir, Some(AGENT), Some(AGENT)).unwrap();
    }
    chown(&path, Some(AGENT), Some(AGENT_GROUP)).unwrap();
    host.run(&host.enable_args());
    host.release(&small("2.0.0"));
    host.run(&words("update"));
    migrate_and_crash(&path, 2, 200);
    host.name("1.0.0");
    Flow::new(OWNED, host, words("update"), Some("2.0.0"), Some("1.0.0"))
}

/// An upgrade back to a version that has a snapshot of its own (v1, v2, v1, v2).
pub fn upgrade_restores(updater: &Updater) -> Flow {
    let host = on_two(updater);
    host.name("1.0.0");
    host.run(&words("update"));
    host.name("2.0.0");
    Flow::new("upgrade-restores", host, words("update"), Some("1.0.0"), Some("2.0.0"))
}

/// An operator's way back.
pub fn rollback(updater: &Updater) -> Flow {
    let mut flow = Flow::new("rollback", on_two(updater), words("rollback"), Some("2.0.0"), Some("1.0.0"));
    // The version left is refused after it: what `update` does next is nothing in either state.
    flow.again = words("update");
    flow
}

/// An installation of a version that the cluster does not name.
pub fn pin(updater: &Updater) -> Flow {
    let host = on_one(updater);
    host.cluster.publish(&small("2.0.0"));
    Flow::new("pin", host, words("pin --force-version 2.0.0"), Some("1.0.0"), Some("2.0.0"))
}

/// The other edition of the same version.
pub fn edition(updater: &Updater) -> Flow {
    let host = on_one(updater);
    host.cluster.publish(&small_enterprise("1.0.0"));
    host.cluster.set_directive(Find { edition: "enterprise".to_owned(), ..Find::version("1.0.0") });
    Flow::new("edition", host, words("update"), Some("1.0.0"), Some("1.0.0"))
}

/// Three files of the active version are damaged: other bytes, cut off, gone.
pub fn repair(updater: &Updater) -> Flow {
    let host = on_one(updater);
    let bin = host.path("var/lib/teleport/versions/1.0.0/bin");
    std::fs::write(bin.join("tsh"), "other bytes").unwrap();
    std::fs::write(bin.join("teleport"), &std::fs::read(bin.join("teleport")).unwrap()[..100]).unwrap();
    std::fs::remove_file(bin.join("tctl")).unwrap();
    let mut flow = Flow::new("repair", host, words("verify --repair"), Some("1.0.0"), Some("1.0.0"));
    flow.damaged = true;
    flow
}

/// A third version, which retires the first.
pub fn retention(updater: &Updater) -> Flow {
    let host = on_two(updater);
    host.release(&small("3.0.0"));
    Flow::new("retention", host, words("update"), Some("2.0.0"), Some("3.0.0"))
}

/// A host that keeps one version: the one that is left goes.
pub fn keep_one(updater: &Updater) -> Flow {
    let host = Host::new(updater);
    host.run(&[host.enable_args(), words("--keep 1")].concat());
    migrate(&host.path(database::PATH), 1);
    host.release(&small("2.0.0"));
    Flow::new("keep-one", host, words("update"), Some("1.0.0"), Some("2.0.0"))
}

/// The end of the installation.
pub fn uninstall(updater: &Updater) -> Flow {
    let mut flow = Flow::new("uninstall", on_two(updater), words("uninstall"), Some("2.0.0"), None);
    // Where the run was undone the host is still managed.
    flow.next = words("recover");
    flow
}

/// Only the settings change.
pub fn disable(updater: &Updater) -> Flow {
    Flow::new("disable", on_one(updater), words("disable"), Some("1.0.0"), Some("1.0.0"))
}

/// Only the settings change.
pub fn unpin(updater: &Updater) -> Flow {
    let host = on_one(updater);
    host.run(&words("pin --force-version 1.0.0"));
    Flow::new("unpin", host, words("unpin"), Some("1.0.0"), Some("1.0.0"))
}
