//! What binds an image to a version.

use std::collections::BTreeMap;

use protocol::Digest;
use registry::{ImageFacts, SIG_TAG, SignatureProof, SignedClaim, VersionBinding};
use testing::registry::StandInRegistry;

use crate::support::{agent, open};

/// An image with a platform for each of these labels.
fn with_labels(labels: &[Option<&str>]) -> ImageFacts {
    let registry = StandInRegistry::default();
    let client = open(&registry);
    let one = |label: &Option<&str>| {
        registry.push_single("team/agent", "2.0.0", *label, "linux/amd64");
        client.resolve(&agent("2.0.0")).unwrap()
    };
    let all: Vec<_> = labels.iter().map(one).collect();
    ImageFacts { platforms: all.iter().flat_map(|facts| facts.platforms.clone()).collect(), ..all[0].clone() }
}

fn proof(required: &[(&str, &str)]) -> SignatureProof {
    let required: BTreeMap<_, _> =
        required.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let claim = SignedClaim { key: "cosign.pub".into(), annotations: required.clone() };
    SignatureProof { claim, place: SIG_TAG, required }
}

fn binding(facts: &ImageFacts, proof: Option<&SignatureProof>, told: Option<Digest>) -> VersionBinding {
    VersionBinding::of(&"2.0.0".parse().unwrap(), facts, proof, told)
}

#[test]
fn labels_bind_when_every_platform_has_the_version_and_one_that_differs_is_a_mismatch() {
    use VersionBinding::{Bound, Unbound};
    for (labels, expected) in [
        (&[Some("2.0.0"), Some("v2.0.0")][..], Bound),
        (&[Some("2.0.0"), None], Unbound),
        (&[None], Unbound),
        // The label of the base image.
        (&[Some("24.04")], Unbound),
    ] {
        assert_eq!(binding(&with_labels(labels), None, None), expected, "{labels:?}");
    }
    let line = "the label of linux/amd64 says version 1.0.0, not 2.0.0".to_owned();
    assert_eq!(binding(&with_labels(&[Some("2.0.0"), Some("1.0.0")]), None, None), VersionBinding::Mismatch(line));
}

#[test]
fn a_required_annotation_with_the_version_binds_and_another_one_does_not() {
    let facts = with_labels(&[None]);
    assert_eq!(binding(&facts, Some(&proof(&[("version", "2.0.0")])), None), VersionBinding::Bound);
    assert_eq!(binding(&facts, Some(&proof(&[("team", "infra")])), None), VersionBinding::Unbound);
    assert_eq!(binding(&facts, Some(&proof(&[])), None), VersionBinding::Unbound);
}

#[test]
fn the_rollout_servers_digest_binds_and_another_one_overrules_every_witness() {
    let facts = with_labels(&[None]);
    assert_eq!(binding(&facts, None, Some(facts.digest)), VersionBinding::Bound);
    let labelled = with_labels(&[Some("2.0.0")]);
    let found = binding(&labelled, Some(&proof(&[("version", "2.0.0")])), Some(Digest::of(b"another")));
    assert!(matches!(found, VersionBinding::Mismatch(_)), "{found:?}");
    let other_label = with_labels(&[Some("1.0.0")]);
    assert!(matches!(binding(&other_label, None, Some(other_label.digest)), VersionBinding::Mismatch(_)));
}
