//! The proxy does what it is told, and nothing else.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube_bed::{ApiCall, ApiClient, ApiFault, ApiProxy, KubeBed, Namespace, PatchKind};
use serde_json::{Value, json};

struct Setting {
    space: Namespace,
    proxy: ApiProxy,
    /// Through the proxy.
    client: ApiClient,
    path: String,
}

/// A ConfigMap behind a proxy.
fn setting(bed: &KubeBed) -> Setting {
    let space = bed.namespace("proxy");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "state", "namespace": space.name}, "data": {"at": "0"}});
    space.client.create(&object).unwrap();
    let proxy = ApiProxy::start(bed);
    let mut client = space.client.named("probe/1.0", None);
    client.url.clone_from(&proxy.url);
    let path = space.path("v1", "configmaps/state");
    Setting { space, proxy, client, path }
}

impl Setting {
    fn write(&self, value: &str) -> u16 {
        let patch = json!({"data": {"at": value}});
        self.client.patch(&self.path, PatchKind::Merge, &patch).map_or_else(|status| status.code, |_| 200)
    }

    /// What the server has, asked without the proxy.
    fn stored(&self) -> Value {
        self.space.client.get(&self.path).unwrap()["data"]["at"].take()
    }
}

fn writes(call: &ApiCall) -> bool {
    call.method == "PATCH"
}

#[test]
fn what_goes_through_is_noted() {
    let Some(bed) = KubeBed::shared() else { return };
    let setting = setting(bed);
    assert_eq!(setting.write("1"), 200);
    assert_eq!(setting.client.get(&format!("{}x", setting.path)).unwrap_err().code, 404);
    let calls = setting.proxy.calls();
    let told: Vec<_> =
        calls.iter().map(|call| (call.number, call.method.as_str(), call.path.clone(), call.status)).collect();
    assert_eq!(
        told,
        [(1, "PATCH", setting.path.clone(), Some(200)), (2, "GET", format!("{}x", setting.path), Some(404))]
    );
    assert_eq!((calls[0].user_agent.as_str(), calls[0].body.as_str()), ("probe/1.0", r#"{"data":{"at":"1"}}"#));
    setting.proxy.forget();
    assert_eq!(setting.proxy.count(), 0);
}

#[test]
fn a_reply_is_lost_and_the_patch_was_done() {
    let Some(bed) = KubeBed::shared() else { return };
    let setting = setting(bed);
    setting.proxy.on(writes, 2..3, ApiFault::Lose);
    assert_eq!((setting.write("1"), setting.write("2")), (200, 0), "the second has no answer");
    assert_eq!(setting.stored(), "2");
    let last = setting.proxy.calls().pop().unwrap();
    assert_eq!((last.status, last.answered), (None, Some(200)));
    assert_eq!(setting.write("3"), 200);
}

#[test]
fn a_request_is_cut_or_refused_before_the_server_has_it() {
    let Some(bed) = KubeBed::shared() else { return };
    let setting = setting(bed);
    for (fault, code) in
        [(ApiFault::Cut, 0), (ApiFault::Answer(500), 500), (ApiFault::Answer(503), 503), (ApiFault::Answer(429), 429)]
    {
        setting.proxy.on(writes, 1..2, fault);
        assert_eq!((setting.write("1"), setting.stored()), (code, json!("0")));
        setting.proxy.heal();
    }
    assert_eq!((setting.write("1"), setting.stored()), (200, json!("1")));
}

#[test]
fn a_request_comes_late() {
    let Some(bed) = KubeBed::shared() else { return };
    let setting = setting(bed);
    let late = Duration::from_millis(400);
    setting.proxy.at(1, ApiFault::Delay(late));
    let began = Instant::now();
    assert_eq!(setting.write("1"), 200);
    assert!(began.elapsed() >= late);
}

#[test]
fn whoever_asked_can_be_killed_before_and_after() {
    let Some(bed) = KubeBed::shared() else { return };
    let setting = setting(bed);
    let kills = Arc::new(AtomicUsize::new(0));
    let kill = || {
        let kills = Arc::clone(&kills);
        Arc::new(move || {
            kills.fetch_add(1, Ordering::SeqCst);
        })
    };
    setting.proxy.on(writes, 1..2, ApiFault::Before(kill()));
    assert_eq!((setting.write("1"), setting.stored(), kills.load(Ordering::SeqCst)), (0, json!("0"), 1));
    setting.proxy.on(writes, 1..2, ApiFault::After(kill()));
    assert_eq!((setting.write("2"), setting.stored(), kills.load(Ordering::SeqCst)), (0, json!("2"), 2));
}

#[test]
fn a_watch_streams_through() {
    let Some(bed) = KubeBed::shared() else { return };
    let setting = setting(bed);
    let mut watch = TcpStream::connect(setting.proxy.url.trim_start_matches("http://")).unwrap();
    watch.set_read_timeout(Some(crate::PATIENCE)).unwrap();
    let path = setting.space.path("v1", "configmaps?watch=1&fieldSelector=metadata.name%3Dstate&timeoutSeconds=50");
    write!(watch, "GET {path} HTTP/1.1\r\nHost: bed\r\nAuthorization: Bearer {}\r\n\r\n", setting.client.token)
        .unwrap();
    let mut lines = BufReader::new(watch).lines();
    let mut next = |part: &str| lines.any(|line| line.is_ok_and(|line| line.contains(part)));
    assert!(next(r#""type":"ADDED""#));
    // The watch is still open.
    assert_eq!(setting.write("1"), 200);
    assert!(next(r#""type":"MODIFIED""#));
    setting.proxy.cut_open();
    assert!(!next("never"), "it ends");
}
