//! What becomes of the containers of an image.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// What becomes of a pod with a container of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodLife {
    /// It is ready at once.
    #[default]
    Ready,
    /// It runs, and is never ready.
    Unready,
    /// It runs, and is ready after so long.
    Late(Duration),
    /// It ends soon after each start, never ready; `CrashLoopBackOff` between.
    Crashing,
    /// The same, but it is ready for so long after each start.
    CrashAfterReady(Duration),
    /// Its image is not in the registry: `ErrImagePull`, `ImagePullBackOff`.
    Missing,
    /// Its image's name is none: `InvalidImageName`.
    InvalidImageName,
    /// It is bound, and its containers are not created: a volume does not come.
    Creating,
    /// No node takes it: `PodScheduled` is false.
    Unschedulable,
}

/// Lives by image, `REPOSITORY:TAG` without a digest. Clones are the same table.
#[derive(Debug, Clone, Default)]
pub struct PodLives(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    lives: HashMap<String, PodLife>,
    ends: HashMap<String, Duration>,
    digests: HashMap<String, String>,
}

impl PodLives {
    /// From now on, also of pods that are there. An image that nobody named is ready at once.
    pub fn set(&self, image: &str, life: PodLife) {
        self.0.lock().unwrap().lives.insert(image.to_owned(), life);
    }

    /// A pod of the image takes so long to end (at once by default).
    pub fn set_end(&self, image: &str, takes: Duration) {
        self.0.lock().unwrap().ends.insert(image.to_owned(), takes);
    }

    /// What a tag names from now on, `sha256:HEX`: what pods that begin without a digest run.
    pub fn set_digest(&self, image: &str, digest: &str) {
        self.0.lock().unwrap().digests.insert(image.to_owned(), digest.to_owned());
    }

    pub(super) fn of(&self, image: &str) -> PodLife {
        self.0.lock().unwrap().lives.get(tag(image)).copied().unwrap_or_default()
    }

    /// The `imageID` of an image: its repository and digest.
    pub(super) fn id_of(&self, image: &str) -> String {
        let digest = image.split_once('@').map(|(_, digest)| digest.to_owned());
        let digest = digest.or_else(|| self.0.lock().unwrap().digests.get(image).cloned());
        let of_the_name = || {
            let hex: String = Sha256::digest(image).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("sha256:{hex}")
        };
        format!("{}@{}", repository(tag(image)), digest.unwrap_or_else(of_the_name))
    }

    pub(super) fn end_of(&self, pod: &Value) -> Duration {
        let table = self.0.lock().unwrap();
        images(pod).filter_map(|image| table.ends.get(tag(image)).copied()).max().unwrap_or_default()
    }

    pub(super) fn is_unschedulable(&self, pod: &Value) -> bool {
        images(pod).any(|image| self.of(image) == PodLife::Unschedulable)
    }
}

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    pod["spec"]["containers"].as_array().into_iter().flatten().filter_map(|container| container["image"].as_str())
}

fn tag(image: &str) -> &str {
    image.split('@').next().unwrap_or(image)
}

/// Without the tag: what follows the last `:`, unless it is a port.
fn repository(image: &str) -> &str {
    image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(image, |(repository, _)| repository)
}
