//! What a tag names, and whether all of it is there.

use protocol::Digest;
use registry::RegistryCode;
use serde_json::{Value, json};
use testing::registry::{INDEX, MANIFEST, RegistryLie, StandInRegistry};

use crate::support::{Network, agent, code, image, open};

const BOTH: [&str; 2] = ["linux/amd64", "linux/arm64/v8"];

fn names(facts: &registry::ImageFacts) -> Vec<String> {
    facts.platforms.iter().map(ToString::to_string).collect()
}

#[test]
fn an_index_is_read_with_its_platforms_and_without_attestations() {
    let registry = StandInRegistry::default();
    let digest = registry.push_image("team/agent", "2.0.0", Some("2.0.0"), &BOTH);
    let facts = open(&registry).resolve(&agent("2.0.0")).unwrap();
    assert_eq!((facts.digest, facts.media_type.as_str()), (digest, INDEX));
    assert_eq!(names(&facts), ["linux/amd64", "linux/arm64"]);
    assert!(facts.platforms.iter().all(|platform| platform.version_label.as_deref() == Some("2.0.0")));
    assert_eq!(open(&registry).announced(&agent("2.0.0")).unwrap(), Some(digest));
}

#[test]
fn a_manifest_alone_has_the_platform_of_its_configuration() {
    let registry = StandInRegistry::default();
    let digest = registry.push_single("team/agent", "2.0.0", None, "linux/arm/v7");
    let facts = open(&registry).resolve(&agent("2.0.0")).unwrap();
    assert_eq!((facts.digest, facts.media_type.as_str(), facts.size > 100), (digest, MANIFEST, true));
    assert_eq!(names(&facts), ["linux/arm/v7"]);
    assert_eq!(facts.platforms[0].version_label, None);
}

#[test]
fn docker_hubs_images_are_asked_for_at_its_own_address() {
    let registry = StandInRegistry::default();
    let digest = registry.push_image("library/agent", "latest", None, &BOTH);
    let client = Network::default().with("https://registry-1.docker.io", &registry).client("{}", &[]);
    for name in ["agent", "docker.io/agent", "index.docker.io/library/agent:latest"] {
        assert_eq!(client.resolve(&image(name)).unwrap().digest, digest, "{name}");
    }
}

#[test]
fn a_digest_is_asked_for_in_place_of_the_tag() {
    let registry = StandInRegistry::default();
    let first = registry.push_image("team/agent", "2.0.0", Some("2.0.0"), &BOTH);
    registry.push_image("team/agent", "2.0.0", Some("2.0.1"), &BOTH);
    let facts = open(&registry).resolve(&agent("2.0.0").with_digest(first)).unwrap();
    assert_eq!(facts.digest, first);
}

#[test]
fn each_platform_of_the_present_image_and_each_of_its_parts_must_be_there() {
    let registry = StandInRegistry::default();
    let client = open(&registry);
    let (old, new) = (agent("1.0.0"), agent("2.0.0"));
    registry.push_image("team/agent", "1.0.0", None, &BOTH);
    let present = client.resolve(&old).unwrap().platforms;
    registry.push_image("team/agent", "2.0.0", None, &["linux/arm64", "linux/amd64", "linux/s390x"]);
    let facts = client.resolve(&new).unwrap();
    client.check_content(&new, &facts, &present).unwrap();
    client.check_content(&new, &facts, &[]).unwrap();
    // A layer of a platform that nobody here has is nobody's trouble.
    registry.drop_blob(Digest::of(&StandInRegistry::layer("team/agent", "2.0.0", "linux/s390x")));
    client.check_content(&new, &facts, &present).unwrap();
    assert_eq!(code(client.check_content(&new, &facts, &[])), RegistryCode::ImageAbsent);
    registry.drop_blob(Digest::of(&StandInRegistry::layer("team/agent", "2.0.0", "linux/arm64")));
    let error = client.check_content(&new, &facts, &present).unwrap_err();
    assert_eq!(error.code, RegistryCode::ImageAbsent);
    let layer = Digest::of(&StandInRegistry::layer("team/agent", "2.0.0", "linux/arm64"));
    let told =
        format!("linux/arm64 is not whole: https://registry.example/v2/team/agent/blobs/sha256:{layer} answered 404");
    assert_eq!(error.what, told);
    registry.push_image("team/agent", "3.0.0", None, &["linux/amd64"]);
    let facts = client.resolve(&agent("3.0.0")).unwrap();
    let error = client.check_content(&agent("3.0.0"), &facts, &present).unwrap_err();
    assert_eq!(error.code, RegistryCode::ImageAbsent);
    assert!(error.what.contains("has no linux/arm64, which the image that runs now has"), "{error}");
}

#[test]
fn what_is_not_there_is_absent() {
    let registry = StandInRegistry::default();
    let client = open(&registry);
    assert_eq!(code(client.resolve(&agent("9.9.9"))), RegistryCode::ImageAbsent);
    registry.push_image("team/agent", "2.0.0", None, &BOTH);
    let arm = client.resolve(&agent("2.0.0")).unwrap().platforms[1].manifest;
    registry.drop_manifest("team/agent", &format!("sha256:{arm}"));
    assert_eq!(code(client.resolve(&agent("2.0.0"))), RegistryCode::ImageAbsent);
}

/// A configuration with a platform.
const GOOD: &[u8] = br#"{"os": "linux", "architecture": "amd64"}"#;

/// Resolves a manifest or index with that text.
fn resolved(media_type: &str, text: &Value) -> RegistryCode {
    let registry = StandInRegistry::default();
    registry.push_blob(b"{}");
    registry.push_blob(b"no JSON");
    registry.push_blob(GOOD);
    registry.push_manifest("team/agent", Some("2.0.0"), media_type, &serde_json::to_vec(text).unwrap());
    code(open(&registry).resolve(&agent("2.0.0")))
}

#[test]
fn a_document_that_is_not_one_thing_is_refused() {
    let part = |bytes: &[u8]| json!({"mediaType": "x", "digest": format!("sha256:{}", Digest::of(bytes)), "size": 2});
    let sha512 = json!({"digest": format!("sha512:{}", "a".repeat(128))});
    let entry = json!({"digest": part(b"{}")["digest"], "platform": {"os": "linux", "architecture": "amd64"}});
    let hostile = json!({"digest": part(b"{}")["digest"], "platform": {"os": "linux", "architecture": "\u{1b}[31m"}});
    for (media_type, text) in [
        (INDEX, json!({"schemaVersion": 2, "manifests": [], "config": part(b"{}"), "layers": []})),
        (INDEX, json!({"schemaVersion": 2, "config": part(b"{}"), "layers": []})),
        (MANIFEST, json!({"schemaVersion": 2, "manifests": [entry]})),
        (MANIFEST, json!({"schemaVersion": 2, "mediaType": INDEX, "config": part(b"{}"), "layers": []})),
        (INDEX, json!({"schemaVersion": 2, "manifests": []})),
        (INDEX, json!({"schemaVersion": 2, "manifests": vec![entry.clone(); 65]})),
        (INDEX, json!({"schemaVersion": 2, "manifests": vec![part(b"{}"); 257]})),
        (MANIFEST, json!({"schemaVersion": 2, "config": part(b"{}"), "layers": []})),
        (MANIFEST, json!({"schemaVersion": 2, "config": part(b"no JSON"), "layers": []})),
        (MANIFEST, json!({"schemaVersion": 2, "config": part(b"{}"), "layers": [sha512]})),
        (MANIFEST, json!({"schemaVersion": 2, "config": part(b"{}")})),
        (MANIFEST, json!({"schemaVersion": 2, "config": part(GOOD), "layers": vec![part(b"{}"); 256]})),
        (MANIFEST, json!({"schemaVersion": 2, "config": part(GOOD), "layers": [], "manifests": []})),
        (MANIFEST, json!([])),
        ("text/html", json!({"schemaVersion": 2, "config": part(b"{}"), "layers": []})),
    ] {
        assert_eq!(resolved(media_type, &text), RegistryCode::RegistryAnswer, "{media_type} {text}");
    }
    assert_eq!(resolved(INDEX, &json!({"schemaVersion": 2, "manifests": [hostile]})), RegistryCode::ImageAbsent);
}

#[test]
fn a_manifest_with_as_many_layers_as_there_may_be_is_read() {
    let registry = StandInRegistry::default();
    let part = json!({"digest": format!("sha256:{}", registry.push_blob(GOOD))});
    let text = json!({"schemaVersion": 2, "config": part, "layers": vec![part.clone(); 255], "manifests": null});
    registry.push_manifest("team/agent", Some("2.0.0"), MANIFEST, &serde_json::to_vec(&text).unwrap());
    assert_eq!(names(&open(&registry).resolve(&agent("2.0.0")).unwrap()), ["linux/amd64"]);
}

#[test]
fn nothing_of_a_registrys_words_reaches_a_terminal_as_it_is() {
    let registry = StandInRegistry::default();
    registry.push_single("team/agent", "2.0.0", None, "linux/\u{1b}[31mred");
    let error = open(&registry).resolve(&agent("2.0.0")).unwrap_err();
    assert_eq!(error.code, RegistryCode::RegistryAnswer);
    assert!(error.to_string().contains("is no platform") && !error.to_string().contains('\u{1b}'), "{error}");
}

#[test]
fn a_redirected_head_that_an_object_store_refuses_says_that_the_blob_is_there_and_its_404_that_it_is_not() {
    for (status, is_there) in [(403, true), (404, false)] {
        let (registry, store) = (StandInRegistry::default(), StandInRegistry::default());
        registry.push_single("team/agent", "2.0.0", None, "linux/amd64");
        store.lie("/", RegistryLie::Status(status));
        let client = Network::of(&registry).with("https://store.example", &store).client("{}", &[]);
        let facts = client.resolve(&agent("2.0.0")).unwrap();
        registry.lie("/blobs/", RegistryLie::Redirect("https://store.example/blob?signature=x".into()));
        assert_eq!(client.check_content(&agent("2.0.0"), &facts, &[]).is_ok(), is_there, "{status}");
    }
}
