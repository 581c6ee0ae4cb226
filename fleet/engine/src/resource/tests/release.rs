use protocol::{Arch, Digest, Edition};

use super::super::{Phased, Release, Resource};
use super::{faults, one};

fn text(spec: &str) -> String {
    format!("kind: fleet_release\nspec: {{version: 17.2.1, {spec}}}\n")
}

fn release(spec: &str) -> Release {
    match one(&text(spec)) {
        Resource::Release(object) => object.model,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_release_that_says_nothing_is_an_ordinary_version() {
    let wanted = Release {
        version: "17.2.1".parse().unwrap(),
        channels: Vec::new(),
        critical: false,
        barrier: false,
        deadend: false,
        blocked: None,
        requires_from: Vec::new(),
        rollout: None,
        digests: Vec::new(),
        image_digests: Vec::new(),
    };
    assert_eq!(release(""), wanted);
    assert_eq!(one(&text("")).metadata().name, "17.2.1");
    assert_eq!(one(&format!("metadata: {{name: fix}}\n{}", text(""))).metadata().name, "fix");
}

#[test]
fn each_key_of_a_release_is_read() {
    let release = release(
        "channels: [stable/cloud, beta], critical: true, barrier: true, deadend: true, blocked: {reason: breaks SELinux}, \
         requires_from: [v17.1.0, 17.2.0]",
    );
    assert_eq!(release.channels, ["stable/cloud", "beta"]);
    assert!(release.critical && release.barrier && release.deadend);
    assert_eq!(release.blocked.as_deref(), Some("breaks SELinux"));
    assert_eq!(release.requires_from, ["17.1.0".parse().unwrap(), "17.2.0".parse().unwrap()]);
}

#[test]
fn a_list_has_at_most_a_hundred_items() {
    let many = vec!["1.0.0"; 101].join(", ");
    assert_eq!(
        faults(&text(&format!("requires_from: [{many}]"))),
        "line 2: spec.requires_from: has 101 versions, 100 are allowed"
    );
}

#[test]
fn a_phased_rollout_has_a_start_a_share_and_a_length() {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    let rollout = |keys: &str| release(&format!("rollout: {{start: 2026-01-01T00:00:00Z, {keys}}}")).rollout.unwrap();
    assert_eq!(rollout(""), Phased { start, start_value: 0.0, duration_minutes: None });
    for (text, share) in [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1.0", 1.0), ("1e-3", 0.001)] {
        let wanted = Phased { start, start_value: share, duration_minutes: Some(2880) };
        assert_eq!(rollout(&format!("start_value: {text}, duration_minutes: 2880")), wanted);
    }
    assert_eq!(rollout("duration_minutes: 527040").duration_minutes, Some(527_040));
}

#[test]
fn digests_are_by_edition_and_architecture() {
    let digest = Digest::of(b"x");
    let release = release(&format!("digests: {{oss/amd64: {digest}, \"enterprise-fips/arm64\": \"{digest}\"}}"));
    let wanted = [((Edition::Oss, Arch::Amd64), digest), ((Edition::EnterpriseFips, Arch::Arm64), digest)];
    assert_eq!(release.digests, wanted);
}

#[test]
fn digests_of_images_are_by_the_last_part_of_the_repository() {
    let digest = Digest::of(b"x");
    let release = release(&format!("image_digests: {{teleport-distroless: {digest}, \"teleport_x.1\": \"{digest}\"}}"));
    assert_eq!(
        release.image_digests,
        [("teleport-distroless".to_owned(), digest), ("teleport_x.1".to_owned(), digest)]
    );
    for name in ["gravitational/teleport", "Teleport", "-teleport", "teleport.", "\"\"", "public.ecr.aws:443", "a b"] {
        let said = faults(&text(&format!("image_digests: {{{name}: {digest}}}")));
        assert!(said.contains("is not the last part of a repository's name"), "{name}: {said}");
    }
    let said = faults(&text(&format!("image_digests: {{teleport: \"sha256:{digest}\"}}")));
    assert!(said.starts_with("line 2: spec.image_digests.teleport: "), "{said}");
}
