//! A version that comes up, and each way in which one does not: three kinds of workload.

use std::time::Duration;

use kube_bed::{KubeBed, PodLife};

use crate::scene::Scene;

/// A workload of each kind; the kind stands in its name.
const KINDS: [&str; 3] = ["agent", "deployment", "daemonset"];

#[test]
fn each_kind_follows_its_source_and_goes_back_by_hand() {
    let Some(bed) = KubeBed::shared() else { return };
    for name in KINDS {
        let mut scene = Scene::new(bed, "follows", &[name]);
        scene.deploy(name);
        scene.want("2.0.0", "");
        scene.start();
        scene.told(name, "updated");
        scene.settled(name, "2.0.0");
        assert_eq!(scene.versions(), ["2.0.0"], "{name}");
        assert!(scene.written()[0].contains("@sha256:"), "{name}: {:?}", scene.written());
        let text = scene.ask(&["status"]);
        assert!(text.contains("version   2.0.0") && text.contains("wanted    2.0.0"), "{text}");
        scene.ask(&["rollback"]);
        scene.settled(name, "1.0.0");
        assert_eq!(scene.versions(), ["2.0.0", "1.0.0"], "{name}");
        let refused = &scene.state(name)["refused"][0];
        assert_eq!(refused["version"], "2.0.0", "{refused}");
        assert!(scene.deleted().is_empty(), "{name}");
    }
}

#[test]
fn a_version_that_does_not_come_up_is_taken_back_without_a_hand() {
    let Some(bed) = KubeBed::shared() else { return };
    let ways = [
        ("unready", PodLife::Unready, "progress_deadline"),
        ("late", PodLife::Late(Duration::from_secs(30)), "progress_deadline"),
        ("crashing", PodLife::Crashing, "unhealthy"),
        ("missing", PodLife::Missing, "progress_deadline"),
        ("invalid", PodLife::InvalidImageName, "invalid_image"),
        ("crash-after-ready", PodLife::CrashAfterReady(Duration::from_millis(500)), "unhealthy"),
    ];
    std::thread::scope(|scope| {
        for name in KINDS {
            scope.spawn(move || {
                for (way, life, code) in ways {
                    let mut scene = Scene::new(bed, way, &[name]);
                    scene.deploy(name);
                    scene.live("2.0.0", life);
                    scene.want("2.0.0", "");
                    scene.start();
                    scene.settled_after_failure(name, code);
                    assert_eq!(scene.versions(), ["2.0.0", "1.0.0"], "{name} {way}");
                    assert_eq!(scene.present(name), scene.image("1.0.0"), "{name} {way}: the old image, exactly");
                }
            });
        }
    });
}
