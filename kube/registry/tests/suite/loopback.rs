//! The real HTTP client, and registries that listen.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http_client::HttpSettings;
use registry::{
    DockerAuths, FALLBACK_TAG, HttpTransport, ImageReference, Registry, RegistryCode, SIG_TAG, Transport, TransportCall,
};
use serde_json::Value;
use testing::cluster::Signer;
use testing::registry::{RegistryAuth, RegistryLie, StandInRegistry};

use crate::support::{code, image, key};

fn settings() -> HttpSettings {
    HttpSettings { user_agent: "registry-test", ..HttpSettings::default() }
}

fn client(host: &str, config: &str) -> Registry {
    let transport = HttpTransport::new(&settings()).unwrap();
    Registry::new(Box::new(transport), DockerAuths::from_json(config.as_bytes()).unwrap(), vec![host.to_owned()])
}

fn bed() -> (StandInRegistry, String, ImageReference) {
    let registry = StandInRegistry::default();
    registry.push_image("team/agent", "2.0.0", Some("2.0.0"), &["linux/amd64", "linux/arm64"]);
    let host = registry.serve();
    let agent = image(&format!("{host}/team/agent:2.0.0"));
    (registry, host, agent)
}

#[test]
fn an_image_with_token_and_signature_is_read_over_http() {
    let (registry, host, agent) = bed();
    let realm = format!("http://{host}/token");
    registry.want(RegistryAuth::Token(realm, Some(("me", "secret"))));
    let config = format!(r#"{{"auths": {{"http://{host}/v1/": {{"auth": "bWU6c2VjcmV0"}}}}}}"#);
    let client = client(&host, &config);
    let facts = client.resolve(&agent).unwrap();
    client.check_content(&agent, &facts, &[]).unwrap();
    assert_eq!(client.announced(&agent).unwrap(), Some(facts.digest));
    registry.sign_bundle("team/agent", facts.digest, &Signer::fixed(1), &Value::Null);
    let proof = client.verify(&agent, facts.digest, &[key(&Signer::fixed(1))], &Default::default()).unwrap();
    assert_eq!(proof.place, FALLBACK_TAG);
}

#[test]
fn bodies_without_end_or_cut_and_other_statuses_are_told_as_what_they_are() {
    for (lie, expected) in [
        (RegistryLie::Endless, RegistryCode::RegistryAnswer),
        (RegistryLie::Body(vec![b' '; (4 << 20) + 1]), RegistryCode::RegistryAnswer),
        (RegistryLie::Cut, RegistryCode::RegistryUnreachable),
        (RegistryLie::Status(429), RegistryCode::RegistryUnreachable),
        (RegistryLie::Status(500), RegistryCode::RegistryUnreachable),
        (RegistryLie::Status(404), RegistryCode::ImageAbsent),
        (RegistryLie::OtherDigest, RegistryCode::RegistryAnswer),
    ] {
        let (registry, host, agent) = bed();
        registry.lie("/manifests/2.0.0", lie.clone());
        let error = client(&host, "{}").resolve(&agent).unwrap_err();
        assert_eq!(error.code, expected, "{lie:?}");
        let is_large = matches!(lie, RegistryLie::Endless | RegistryLie::Body(_));
        assert_eq!(error.what.ends_with("it sent too many bytes"), is_large, "{error}");
        assert!(registry.questions().len() < 4, "asked again: {lie:?}");
    }
}

#[test]
fn credentials_do_not_reach_the_place_that_a_redirect_names() {
    let (registry, host, agent) = bed();
    let (other, elsewhere, _) = bed();
    registry.want(RegistryAuth::Basic("me", "secret"));
    registry.lie("/blobs/", RegistryLie::Redirect(format!("http://{elsewhere}/blob?signature=x")));
    let config = format!(r#"{{"auths": {{"{host}": {{"auth": "bWU6c2VjcmV0"}}}}}}"#);
    client(&host, &config).resolve(&agent).unwrap_err();
    let seen = other.questions();
    assert_eq!((seen.len(), &seen[0].authorization), (1, &None), "{seen:?}");
    assert!(registry.questions().iter().any(|question| question.authorization.is_some()));
}

#[test]
fn nobody_there_is_told_at_once_and_without_credentials() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = client("", "{}").resolve(&image(&format!("{free}/team/agent:2.0.0"))).unwrap_err();
    assert_eq!(error.code, RegistryCode::RegistryUnreachable);
    assert!(error.what.starts_with(&format!("cannot reach https://{free}/v2/team/agent/manifests/2.0.0")), "{error}");
}

#[test]
fn certificates_are_checked_unless_the_call_is_insecure() {
    let folder = tempfile::tempdir().unwrap();
    let server = testing::cluster::Cluster::start(folder.path());
    let (transport, url) = (HttpTransport::new(&settings()).unwrap(), format!("{}/v2/", server.base_url()));
    let send = |url: &str, is_insecure| {
        transport.send(&TransportCall { url, accept: "*/*", authorization: None, is_insecure, most: Some(1 << 20) })
    };
    assert_eq!(code(send(&url, false)), RegistryCode::RegistryUnreachable);
    send(&url, true).unwrap();
    assert_eq!(code(send(&server.plain_base_url(), false)), RegistryCode::RegistryUnreachable);
    let ca_pem = Some(server.ca_pem().to_owned());
    let transport = HttpTransport::new(&HttpSettings { ca_pem, ..settings() }).unwrap();
    let call = TransportCall { url: &url, accept: "*/*", authorization: None, is_insecure: false, most: Some(1 << 20) };
    transport.send(&call).unwrap();
}

/// Debian's `docker-registry`, until it is dropped.
struct DockerRegistry {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None`, with a line, where it is not installed. `DOCKER_REGISTRY` names another binary.
fn docker_registry() -> Option<(DockerRegistry, String)> {
    let program = std::env::var_os("DOCKER_REGISTRY").unwrap_or_else(|| "docker-registry".into());
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (host, config) = (format!("127.0.0.1:{port}"), folder.path().join("config.yml"));
    let text = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{host}'}}\n",
        folder.path().join("data").display()
    );
    std::fs::write(&config, text).unwrap();
    let started = Command::new(program).arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(child) = started else {
        eprintln!("skipped: docker-registry is not installed (apt-get install docker-registry)");
        return None;
    };
    let registry = DockerRegistry { child, _folder: folder };
    let end = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(&host).is_err() {
        assert!(Instant::now() < end, "docker-registry does not listen");
        std::thread::yield_now();
    }
    Some((registry, host))
}

#[test]
fn debians_registry_holds_what_the_stand_in_holds() {
    let Some((_running, host)) = docker_registry() else { return };
    let stand_in = StandInRegistry::default();
    stand_in.push_image("team/agent", "2.0.0", Some("2.0.0"), &["linux/amd64", "linux/arm64"]);
    let image = image(&format!("{host}/team/agent:2.0.0"));
    let client = client(&host, "{}");
    assert_eq!(code(client.resolve(&image)), RegistryCode::ImageAbsent);
    let digest = stand_in.copy_to(&host, "team/agent", "2.0.0");
    let facts = client.resolve(&image).unwrap();
    assert_eq!(facts.digest, digest);
    client.check_content(&image, &facts, &[]).unwrap();
    let keys = [key(&Signer::fixed(1))];
    assert_eq!(code(client.verify(&image, digest, &keys, &Default::default())), RegistryCode::Signature);
    stand_in.sign_bundle("team/agent", digest, &Signer::fixed(1), &Value::Null);
    stand_in.copy_to(&host, "team/agent", &format!("sha256-{digest}"));
    let proof = client.verify(&image, digest, &keys, &Default::default()).unwrap();
    assert_eq!(proof.place, FALLBACK_TAG);
    stand_in.sign_simple("team/agent", digest, &Signer::fixed(1), &Value::Null);
    stand_in.copy_to(&host, "team/agent", &format!("sha256-{digest}.sig"));
    let proof = client.verify(&image, digest, &keys, &Default::default()).unwrap();
    assert_eq!(proof.place, SIG_TAG);
}
