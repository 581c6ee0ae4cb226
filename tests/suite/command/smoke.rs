//! The shortest life of a host, for a first look.

use crate::support::*;

#[test]
fn an_image_is_baked_with_the_clusters_version() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let link = std::fs::read_link(image.path("/usr/local/bin/teleport")).unwrap();
    assert_eq!(link.to_str().unwrap(), "/var/lib/teleport/versions/1.0.0/bin/teleport");
    assert!(image.config().contains("enabled: true"));
}

#[test]
fn a_running_agent_is_updated_and_a_broken_version_is_rolled_back() {
    let Some(rig) = Rig::up("smoke") else { return };
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.updater(&["update"]).ok();
    assert_eq!(rig.status()["agent_version_running"], "2.0.0");
    rig.release(&Archive::simple("3.0.0").schema(3).behaviour("dies-soon"));
    rig.updater(&["update"]).fails(1, "rolled back to 2.0.0");
    let status = rig.status();
    assert_eq!(status["agent_version_running"], "2.0.0");
    assert_eq!(status["refused"][0]["version"], "3.0.0");
    assert_eq!(rig.sql("PRAGMA user_version"), ["2"]);
}
