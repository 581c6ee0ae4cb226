//! Flows of hosts that follow a source which is no cluster.

use crate::cluster::TufRepository;
use crate::crash::flow::Flow;
use crate::crash::flows::on_one;
use crate::crash::host::{Host, Updater, words};
use crate::crash::release::small;

/// An upgrade that a channel names.
pub fn update_channel(updater: &Updater) -> Flow {
    let host = on_one(updater);
    say(&host, "1.0.0");
    host.run(&words(&format!("enable --source channel+https://{}/v1/c", host.cluster.addr())));
    host.cluster.publish(&small("2.0.0"));
    say(&host, "2.0.0");
    Flow::new("update-channel", host, words("update"), Some("1.0.0"), Some("2.0.0"))
}

/// An upgrade to which an edge of a graph leads.
pub fn update_graph(updater: &Updater) -> Flow {
    let host = on_one(updater);
    let nodes = r#"{"nodes":[{"version":"1.0.0"},{"version":"2.0.0"}],"edges":"#;
    host.cluster.set_page("/v1/graph", &[(200, &format!("{nodes}[]}}"))]);
    host.run(&words(&format!("enable --source cincinnati+https://{}/v1/graph", host.cluster.addr())));
    host.cluster.publish(&small("2.0.0"));
    host.cluster.set_page("/v1/graph", &[(200, &format!("{nodes}[[0,1]]}}"))]);
    Flow::new("update-graph", host, words("update"), Some("1.0.0"), Some("2.0.0"))
}

/// An upgrade that a file beside the image names.
///
/// # Panics
/// If the file cannot be written.
pub fn update_file(updater: &Updater) -> Flow {
    let host = on_one(updater);
    let file = host.root().with_file_name("release.yaml");
    std::fs::write(&file, "version: 1.0.0\n").unwrap();
    host.run(&words(&format!("enable --source file://{}", file.display())));
    host.cluster.publish(&small("2.0.0"));
    // Not critical: what is urgent waits half an hour after a failure, and the next run here follows at once.
    std::fs::write(&file, "version: 2.0.0\n").unwrap();
    Flow::new("update-file", host, words("update"), Some("1.0.0"), Some("2.0.0"))
}

/// An upgrade whose archive the signers of a TUF repository must mean; its root, timestamp, snapshot and targets are new.
///
/// # Panics
/// If the repository cannot be made.
pub fn update_tuf(updater: &Updater) -> Flow {
    let host = on_one(updater);
    let mut repository = TufRepository::at(&host.cluster.cdn().join("tuf"));
    let root = host.cluster.cdn().join("tuf/metadata/1.root.json");
    host.run(&words(&format!("enable --tuf-root {}", root.display())));
    host.release(&small("2.0.0"));
    let name = "teleport-v2.0.0-linux-amd64-bin.tar.gz";
    repository.update("root");
    repository.add("targets", name, &std::fs::read(host.cluster.cdn().join(name)).unwrap());
    Flow::new("update-tuf", host, words("update"), Some("1.0.0"), Some("2.0.0"))
}

/// Another source with credentials, and its version with it.
pub fn enable_source(updater: &Updater) -> Flow {
    let host = on_one(updater);
    host.cluster.publish(&small("2.0.0"));
    say(&host, "2.0.0");
    let args = words(&format!("enable --source channel+https://me:secret@{}/v1/c", host.cluster.addr()));
    Flow::new("enable-source", host, args, Some("1.0.0"), Some("2.0.0"))
}

fn say(host: &Host, version: &str) {
    host.cluster.set_page("/v1/c/version", &[(200, version)]);
}
