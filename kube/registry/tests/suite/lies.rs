//! Answers that are none: what passes is told from what does not.

use std::collections::BTreeMap;

use registry::RegistryCode::{self, ImageAbsent, RegistryAnswer, RegistryDenied, RegistryUnreachable, Signature};
use serde_json::Value;
use testing::cluster::Signer;
use testing::registry::{RegistryLie, StandInRegistry};

use crate::support::{agent, code, key, open};

fn bed() -> StandInRegistry {
    let registry = StandInRegistry::default();
    registry.push_image("team/agent", "2.0.0", Some("2.0.0"), &["linux/amd64"]);
    registry
}

/// What must come of each lie wherever it is told.
fn lies() -> Vec<(RegistryLie, RegistryCode)> {
    vec![
        (RegistryLie::OtherBytes, RegistryAnswer),
        (RegistryLie::Body(vec![b' '; (4 << 20) + 1]), RegistryAnswer),
        (RegistryLie::Endless, RegistryAnswer),
        (RegistryLie::Redirect("http://store.example/x".into()), RegistryAnswer),
        (RegistryLie::Redirect("https://me:secret@store.example/x".into()), RegistryAnswer),
        (RegistryLie::Redirect("ftp://store.example/x".into()), RegistryAnswer),
        (RegistryLie::Redirect("/v2/team/agent/manifests/2.0.0".into()), RegistryAnswer),
        (RegistryLie::Redirect("https://store.example/x".into()), RegistryUnreachable),
        (RegistryLie::Cut, RegistryUnreachable),
        (RegistryLie::Silence, RegistryUnreachable),
        (RegistryLie::Status(429), RegistryUnreachable),
        (RegistryLie::Status(500), RegistryUnreachable),
        (RegistryLie::Status(503), RegistryUnreachable),
        (RegistryLie::Status(401), RegistryDenied),
        (RegistryLie::Status(403), RegistryDenied),
        (RegistryLie::Status(404), ImageAbsent),
        (RegistryLie::Status(206), RegistryAnswer),
        (RegistryLie::Status(418), RegistryAnswer),
    ]
}

#[test]
fn every_lie_about_a_tag_a_manifest_or_a_configuration_is_told_as_what_it_is() {
    let registry = bed();
    let manifest = open(&registry).resolve(&agent("2.0.0")).unwrap().platforms[0].manifest;
    for part in ["/manifests/2.0.0", &format!("/manifests/sha256:{manifest}"), "/blobs/"] {
        for (lie, expected) in lies() {
            // A tag has no digest that other bytes could be told from: that is what signatures are for.
            if part.ends_with("2.0.0") && matches!(lie, RegistryLie::OtherBytes) {
                continue;
            }
            let registry = bed();
            registry.lie(part, lie.clone());
            assert_eq!(code(open(&registry).resolve(&agent("2.0.0"))), expected, "{part}: {lie:?}");
            // A tag, a manifest, a configuration, and three redirects of one of them.
            assert!(registry.questions().len() <= 6, "{part}: {lie:?}");
        }
    }
    for lie in [RegistryLie::OtherDigest, RegistryLie::Type("text/html"), RegistryLie::Body(b"<html>".to_vec())] {
        let registry = bed();
        registry.lie("/manifests/2.0.0", lie.clone());
        assert_eq!(code(open(&registry).resolve(&agent("2.0.0"))), RegistryAnswer, "{lie:?}");
    }
}

#[test]
fn a_place_that_cannot_be_read_now_is_no_refusal() {
    for part in [".sig", "/referrers/", "/blobs/"] {
        for (lie, expected) in lies().into_iter().filter(|(_, expected)| *expected == RegistryUnreachable) {
            let registry = bed();
            let image = open(&registry).resolve(&agent("2.0.0")).unwrap().digest;
            registry.sign_simple("team/agent", image, &Signer::fixed(1), &Value::Null);
            registry.lie(part, lie.clone());
            // By another key: another place, or another look, may have the good one.
            let keys = [key(&Signer::fixed(2))];
            let found = open(&registry).verify(&agent("2.0.0"), image, &keys, &BTreeMap::new());
            assert_eq!(code(found), expected, "{part}: {lie:?}");
        }
    }
}

#[test]
fn a_good_signature_counts_whatever_the_other_places_say() {
    for (lie, _) in lies() {
        let registry = bed();
        let image = open(&registry).resolve(&agent("2.0.0")).unwrap().digest;
        registry.sign_bundle("team/agent", image, &Signer::fixed(1), &Value::Null);
        registry.lie(".sig", lie.clone());
        let keys = [key(&Signer::fixed(2)), key(&Signer::fixed(1))];
        open(&registry).verify(&agent("2.0.0"), image, &keys, &BTreeMap::new()).unwrap();
    }
}

#[test]
fn a_registry_that_does_not_know_referrers_is_asked_for_the_fallback_tag_whatever_it_answers() {
    for lie in [400, 401, 403, 404, 405, 406]
        .map(RegistryLie::Status)
        .into_iter()
        .chain([RegistryLie::Body(b"<html>".to_vec()), RegistryLie::Redirect("/v2/team/agent/manifests/none".into())])
    {
        let registry = bed();
        let image = open(&registry).resolve(&agent("2.0.0")).unwrap().digest;
        registry.sign_bundle("team/agent", image, &Signer::fixed(1), &Value::Null);
        registry.lie("/referrers/", lie.clone());
        let found = open(&registry).verify(&agent("2.0.0"), image, &[key(&Signer::fixed(1))], &BTreeMap::new());
        assert_eq!(found.unwrap().place, registry::FALLBACK_TAG, "{lie:?}");
    }
}

#[test]
fn an_error_says_why_the_signatures_do_not_count() {
    let registry = bed();
    let image = open(&registry).resolve(&agent("2.0.0")).unwrap().digest;
    let refused = |require: &[(&str, &str)], number| {
        let require = require.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let error =
            open(&registry).verify(&agent("2.0.0"), image, &[key(&Signer::fixed(number))], &require).unwrap_err();
        assert_eq!(error.code, Signature);
        error.what
    };
    let no = format!("registry.example/team/agent@sha256:{image} has no signature that counts; ");
    assert_eq!(refused(&[], 1), no.trim_end_matches("; "));
    registry.sign_simple("team/agent", image, &Signer::fixed(1), &serde_json::json!({"version": "1.0.0"}));
    assert_eq!(refused(&[], 2), format!("{no}sha256-HEX.sig: none of the keys has made it"));
    let other = "sha256-HEX.sig: \"version\": \"2.0.0\" is not among its signed annotations";
    assert_eq!(refused(&[("version", "2.0.0")], 1), format!("{no}{other}"));
}
