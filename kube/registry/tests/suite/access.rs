//! Who gets credentials, and who does not.

use registry::RegistryCode;
use testing::registry::{RegistryAuth, RegistryLie, StandInRegistry};

use crate::support::{Network, agent, code, image};

const CONFIG: &str = r#"{"auths": {"registry.example": {"username": "me", "password": "secret"}}}"#;
const ME: (&str, &str) = ("me", "secret");

fn bed(auth: RegistryAuth) -> StandInRegistry {
    let registry = StandInRegistry::default();
    registry.push_image("team/agent", "2.0.0", None, &["linux/amd64"]);
    registry.push_image("team/other", "2.0.0", None, &["linux/amd64"]);
    registry.want(auth);
    registry
}

#[test]
fn a_token_is_asked_for_once_a_repository_and_again_when_it_is_no_longer_good() {
    let registry = bed(RegistryAuth::Token("https://registry.example/token".into(), Some(ME)));
    let network = Network::of(&registry);
    let client = network.client(CONFIG, &[]);
    let tokens = || registry.questions().iter().filter(|question| question.path.starts_with("/token")).count();
    client.resolve(&agent("2.0.0")).unwrap();
    client.resolve(&agent("2.0.0")).unwrap();
    assert_eq!(tokens(), 1);
    client.resolve(&image("registry.example/team/other:2.0.0")).unwrap();
    assert_eq!(tokens(), 2);
    registry.expire_tokens();
    client.resolve(&agent("2.0.0")).unwrap();
    assert_eq!(tokens(), 3);
    let asked = registry.questions();
    let scope = asked.iter().find(|question| question.path.starts_with("/token")).unwrap();
    assert_eq!(scope.path, "/token?service=stand%2Din&scope=repository%3Ateam%2Fagent%3Apull", "never more than pull");
    assert_eq!(network.trusted(), ["https://registry.example"]);
}

#[test]
fn a_token_server_of_its_own_gets_the_registrys_password_and_anybody_gets_a_token_without_one() {
    let registry = bed(RegistryAuth::Token("https://auth.example/token".into(), Some(ME)));
    let network = Network::of(&registry).with("https://auth.example", &registry);
    network.client(CONFIG, &[]).resolve(&agent("2.0.0")).unwrap();
    assert_eq!(network.trusted(), ["https://auth.example", "https://registry.example"]);
    assert_eq!(code(network.client("{}", &[]).resolve(&agent("2.0.0"))), RegistryCode::RegistryDenied);
    let registry = bed(RegistryAuth::Token("https://auth.example/token".into(), None));
    let network = Network::of(&registry).with("https://auth.example", &registry);
    network.client("{}", &[]).resolve(&agent("2.0.0")).unwrap();
}

#[test]
fn basic_is_sent_where_it_is_asked_for_and_no_further() {
    let registry = bed(RegistryAuth::Basic(ME.0, ME.1));
    let network = Network::of(&registry);
    network.client(CONFIG, &[]).resolve(&agent("2.0.0")).unwrap();
    for config in [
        "{}",
        r#"{"auths": {"registry.example": {"username": "me", "password": "wrong"}}}"#,
        r#"{"auths": {"other.example": {"username": "me", "password": "secret"}}}"#,
        r#"{"auths": {"registry.example:443": {"username": "me", "password": "secret"}}}"#,
        r#"{"auths": {"registry.example/team/agen": {"username": "me", "password": "secret"}}}"#,
    ] {
        assert_eq!(
            code(network.client(config, &[]).resolve(&agent("2.0.0"))),
            RegistryCode::RegistryDenied,
            "{config}"
        );
    }
    let below = r#"{"auths": {"registry.example": {"username": "me", "password": "wrong"},
        "registry.example/team/agent": {"username": "me", "password": "secret"}}}"#;
    network.client(below, &[]).resolve(&agent("2.0.0")).unwrap();
    assert_eq!(
        code(network.client(below, &[]).resolve(&image("registry.example/team/other:2.0.0"))),
        RegistryCode::RegistryDenied
    );
}

#[test]
fn a_refusal_that_asks_for_nothing_gets_nothing() {
    let registry = bed(RegistryAuth::Open);
    registry.lie("/manifests/", RegistryLie::Status(401));
    let network = Network::of(&registry);
    assert_eq!(code(network.client(CONFIG, &[]).resolve(&agent("2.0.0"))), RegistryCode::RegistryDenied);
    assert!(network.trusted().is_empty());
}

#[test]
fn nothing_is_sent_before_it_is_asked_for() {
    let registry = bed(RegistryAuth::Open);
    let network = Network::of(&registry);
    network.client(CONFIG, &[]).resolve(&agent("2.0.0")).unwrap();
    assert!(network.trusted().is_empty());
}

#[test]
fn an_http_realm_is_refused_unless_the_registry_is_insecure() {
    let realm = RegistryAuth::Token("http://auth.example/token".into(), Some(ME));
    let registry = bed(realm);
    let network = Network::of(&registry).with("http://auth.example", &registry);
    let error = network.client(CONFIG, &[]).resolve(&agent("2.0.0")).unwrap_err();
    assert_eq!(error.code, RegistryCode::RegistryAnswer);
    assert!(error.what.contains("\"http://auth.example/token\" has no https address"), "{error}");
    assert!(network.trusted().is_empty());
    network.client(CONFIG, &["registry.example"]).resolve(&agent("2.0.0")).unwrap();
    for realm in ["", "ftp://auth.example", "https://", "https://me@auth.example/", "https://auth.example/\u{1b}"] {
        registry.want(RegistryAuth::Token(realm.into(), Some(ME)));
        let found = network.client(CONFIG, &["registry.example"]).resolve(&agent("2.0.0"));
        assert_eq!(code(found), RegistryCode::RegistryAnswer, "{realm}");
    }
}

#[test]
fn a_token_server_that_fails_is_not_an_absent_image() {
    for (status, expected) in [
        (404, RegistryCode::RegistryDenied),
        (403, RegistryCode::RegistryDenied),
        (307, RegistryCode::RegistryAnswer),
        (429, RegistryCode::RegistryUnreachable),
        (500, RegistryCode::RegistryUnreachable),
    ] {
        let registry = bed(RegistryAuth::Token("https://registry.example/token".into(), Some(ME)));
        registry.lie("/token", RegistryLie::Status(status));
        assert_eq!(code(Network::of(&registry).client(CONFIG, &[]).resolve(&agent("2.0.0"))), expected, "{status}");
    }
    let registry = bed(RegistryAuth::Token("https://registry.example/token".into(), Some(ME)));
    for body in ["", "{}", r#"{"token": ""}"#, r#"{"token": 1}"#, r#"{"token": "a b"}"#, r#"{"token": "a\r\nx: y"}"#] {
        registry.lie_times("/token", RegistryLie::Body(body.into()), 1);
        let found = Network::of(&registry).client(CONFIG, &[]).resolve(&agent("2.0.0"));
        assert_eq!(code(found), RegistryCode::RegistryAnswer, "{body}");
    }
}

#[test]
fn credentials_never_go_along_a_redirect() {
    for target in ["https://store.example/v2/team/agent/manifests/2.0.0", "/elsewhere", "//store.example/elsewhere"] {
        let (registry, store) = (bed(RegistryAuth::Basic(ME.0, ME.1)), StandInRegistry::default());
        registry.lie("/v2/team/agent/blobs/", RegistryLie::Redirect(target.into()));
        let network = Network::of(&registry).with("https://store.example", &store);
        network.client(CONFIG, &[]).resolve(&agent("2.0.0")).unwrap_err();
        let calls = network.calls.lock().unwrap();
        let last = calls.last().unwrap();
        assert!(!last.0.contains("/blobs/") && last.1.is_none(), "{last:?}");
    }
}

#[test]
fn a_redirected_blob_is_read_and_its_bytes_are_checked() {
    let (registry, store) = (bed(RegistryAuth::Open), bed(RegistryAuth::Open));
    let network = Network::of(&registry).with("https://store.example", &store);
    let first = network.client("{}", &[]).resolve(&agent("2.0.0")).unwrap();
    let asked = registry.questions();
    let blob = asked.iter().find(|question| question.path.contains("/blobs/")).unwrap();
    registry.lie("/blobs/", RegistryLie::Redirect(format!("https://store.example{}", blob.path)));
    assert_eq!(network.client("{}", &[]).resolve(&agent("2.0.0")).unwrap(), first);
    store.lie("/blobs/", RegistryLie::OtherBytes);
    assert_eq!(code(network.client("{}", &[]).resolve(&agent("2.0.0"))), RegistryCode::RegistryAnswer);
}

#[test]
fn an_insecure_registry_speaks_tls_or_not_and_a_secure_one_must() {
    let registry = bed(RegistryAuth::Basic(ME.0, ME.1));
    let network = Network::default().with("http://registry.example", &registry);
    let client = network.client(CONFIG, &["registry.example"]);
    client.resolve(&agent("2.0.0")).unwrap();
    client.resolve(&agent("2.0.0")).unwrap();
    let calls = network.calls.lock().unwrap();
    assert_eq!(calls.iter().filter(|(url, _)| url.starts_with("https:")).count(), 1, "asked once");
    drop(calls);
    for insecure in [&[][..], &["registry.example:5000"]] {
        let found = network.client(CONFIG, insecure).resolve(&agent("2.0.0"));
        assert_eq!(code(found), RegistryCode::RegistryUnreachable);
    }
}
