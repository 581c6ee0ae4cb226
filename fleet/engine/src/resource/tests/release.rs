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
    };
    assert_eq!(release(""), wanted);
    assert_eq!(one(&text("")).metadata().name, "17.2.1");
    assert_eq!(one(&format!("metadata: {{name: fix}}\n{}", text(""))).metadata().name, "fix");
    assert_eq!(faults("kind: fleet_release\nspec: {}"), "line 2: spec.version: is missing; give the version");
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
fn faults_of_a_release_name_the_item() {
    assert_eq!(
        faults(&text("channels: [a, a, \"b c\"]")),
        "line 2: spec.channels[1]: a is in the list twice\n\
         line 2: spec.channels[2]: \"b c\" is not a channel: parts of letters, digits, `.`, `_` or `-` with `/` between, at most \
         128 bytes"
    );
    assert_eq!(
        faults(&text("blocked: {}")),
        "line 2: spec.blocked.reason: is missing; give the reason, for those who ask why"
    );
    assert_eq!(faults(&text("blocked: true")), "line 2: spec.blocked: true is not a mapping of keys and values");
    assert_eq!(
        faults(&text("requires_from: [17.2.1, 1]")),
        "line 2: spec.requires_from[0]: 17.2.1 is not another version: none is reached from itself\n\
         line 2: spec.requires_from[1]: 1 is not a version such as 17.2.1"
    );
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
    for bad in ["1.01", "-0.1", ".nan", "nan", ".inf", "\"0.5\"", "50%"] {
        let spec = format!("rollout: {{start: 2026-01-01T00:00:00Z, start_value: {bad}}}");
        assert_eq!(
            faults(&text(&spec)),
            format!("line 2: spec.rollout.start_value: {bad} is not a number from 0 to 1")
        );
    }
    assert_eq!(rollout("duration_minutes: 527040").duration_minutes, Some(527_040));
    assert_eq!(
        faults(&text("rollout: {duration_minutes: 527041}")),
        "line 2: spec.rollout.start: is missing; give the time when it begins\n\
         line 2: spec.rollout.duration_minutes: 527041 is not a whole number from 0 to 527040"
    );
}

#[test]
fn digests_are_by_edition_and_architecture() {
    let digest = Digest::of(b"x");
    let release = release(&format!("digests: {{oss/amd64: {digest}, \"enterprise-fips/arm64\": \"{digest}\"}}"));
    let wanted = [((Edition::Oss, Arch::Amd64), digest), ((Edition::EnterpriseFips, Arch::Arm64), digest)];
    assert_eq!(release.digests, wanted);
    assert_eq!(
        faults(&text(&format!(
            "digests: {{oss: {digest}, ent/amd64: {digest}, enterprise/amd64: {digest}, oss/386: abc}}"
        ))),
        "line 2: spec.digests.oss: oss is not an edition and an architecture such as oss/amd64\n\
         line 2: spec.digests.enterprise/amd64: is in the list twice\n\
         line 2: spec.digests.oss/386: abc is not a SHA-256 in hex"
    );
    assert!(faults(&text("digests: {oss/amd64: ~}")).ends_with("is missing; give the archive's SHA-256"));
}
