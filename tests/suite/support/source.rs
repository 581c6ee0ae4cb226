//! What the tests of sources share: an image that follows one, windows that are open or closed now, and graphs.

use serde_json::{Value, json};
use testing::cluster::Archive;

use super::{Image, Ran};

/// Below which a channel is served.
pub(crate) const CHANNEL: &str = "/v1/stable/cloud";
/// Where a graph is served.
pub(crate) const GRAPH: &str = "/v1/graph";

/// A calendar expression whose window of an hour is open now, for the next half hour.
pub(crate) fn open_window() -> String {
    window_from(-30)
}

/// One whose window is closed now, and for some hours.
pub(crate) fn closed_window() -> String {
    window_from(5 * 60)
}

fn window_from(minutes: i64) -> String {
    let start = jiff::Timestamp::now().as_second() + minutes * 60;
    let of_day = start.rem_euclid(86_400);
    format!("*-*-* {:02}:{:02}:00 UTC", of_day / 3600, of_day % 3600 / 60)
}

/// The graph of these versions and edges.
pub(crate) fn graph(versions: &[&str], edges: &[(usize, usize)]) -> String {
    let nodes: Vec<Value> = versions.iter().map(|version| json!({ "version": version, "payload": "" })).collect();
    json!({ "nodes": nodes, "edges": edges }).to_string()
}

impl Image {
    /// An image whose cluster has these archives, whose requests are tried once, and that has enabled nothing.
    pub(crate) fn with(versions: &[&str]) -> Self {
        let image = Self::new(versions[0]);
        for version in versions {
            image.cluster.publish(&Archive::simple(version));
        }
        image.settings("  network:\n    tries: 1\n");
        image
    }

    /// Enables with `source`, with further arguments.
    pub(crate) fn follow(&self, source: &str, more: &[&str]) -> Ran {
        let (base, ca) = (self.cluster.base_url(), self.cluster.ca_file().display().to_string());
        let mut args = vec!["enable", "--source", source, "--base-url", &base, "--ca-file", &ca, "--edition", "oss"];
        args.extend(more);
        self.run(&args)
    }

    /// The source of the channel that this cluster serves.
    pub(crate) fn channel(&self) -> String {
        format!("channel+https://{}{CHANNEL}", self.cluster.addr())
    }

    /// The source of the graph that this cluster serves.
    pub(crate) fn graph(&self) -> String {
        format!("cincinnati+https://{}{GRAPH}?channel=stable", self.cluster.addr())
    }

    /// What the channel says from now on.
    pub(crate) fn say(&self, version: &str, critical: &str) {
        self.cluster.set_page(&format!("{CHANNEL}/version"), &[(200, version)]);
        self.cluster.set_page(&format!("{CHANNEL}/critical"), &[(200, critical)]);
    }

    /// What the graph is from now on.
    pub(crate) fn draw(&self, versions: &[&str], edges: &[(usize, usize)]) {
        self.cluster.set_page(GRAPH, &[(200, &graph(versions, edges))]);
    }

    /// Adds lines below `spec` of `updates.yaml`, indented by two.
    pub(crate) fn set(&self, lines: &str) {
        let text = self.config().replacen("\nspec:\n", &format!("\nspec:\n{lines}"), 1);
        std::fs::write(self.versions().join("updates.yaml"), text).unwrap();
    }

    /// Has `window` in `updates.yaml`, in place of the one that is there.
    pub(crate) fn set_window(&self, window: &str) {
        let kept: String = self.config().split_inclusive('\n').filter(|line| !line.starts_with("  window:")).collect();
        std::fs::write(self.versions().join("updates.yaml"), kept).unwrap();
        self.set(&format!("  window: \"{window}\"\n"));
    }

    /// Replaces `from`, which must be there, in `updates.yaml`.
    #[track_caller]
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let text = self.config();
        assert!(text.contains(from), "{from:?} is not in {text}");
        std::fs::write(self.versions().join("updates.yaml"), text.replace(from, to)).unwrap();
    }
}
