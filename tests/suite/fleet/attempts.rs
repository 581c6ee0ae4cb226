//! What a host makes of rollouts' numbers and attempts, and the questions that it signs.

use protocol::report::PATH;

use crate::support::transcript::live;
use crate::support::*;

#[test]
fn a_host_follows_the_latest_attempt_of_the_latest_rollout_and_signs_its_questions() {
    transcript::play("fleet/attempts.txt");
}

#[test]
fn no_other_server_sees_the_signature() {
    let Some(host) = live::cell(&[]) else { return };
    live::tell(&host, "1.0.0", 1, 1, 0);
    host.run(&["update"]).ok();
    // By a redirect.
    let files = tempfile::tempdir().unwrap();
    let other = Cluster::start(files.path());
    other.set_directive(Find::version("1.0.0"));
    let url = format!("https://{}/v1/webapi/find", other.addr());
    host.cluster.misbehave("/v1/webapi/find", Misbehaviour::Redirect(url));
    let both = format!("{}\n{}", host.cluster.ca_pem(), other.ca_pem());
    std::fs::write(host.path("/root/both.pem"), both).unwrap();
    host.cluster.forget_requests();
    let base = host.cluster.base_url();
    let enable = |proxy: &str, more: &[&str]| {
        let args = ["enable", "--proxy", proxy, "--base-url", &base, "--ca-file", "/root/both.pem"];
        host.run(&[&args, more].concat()).ok();
    };
    let is_unsigned = || !other.requests().is_empty() && other.requests().iter().all(|it| live::question(it).is_none());
    enable(&host.cluster.addr(), &[]);
    assert!(live::question(&host.cluster.requests()[0]).is_some() && is_unsigned());
    // By another address.
    host.cluster.behave();
    other.forget_requests();
    enable(&other.addr(), &["--allow-proxy-conflict"]);
    host.run(&["update"]).ok();
    assert!(is_unsigned());
    assert!(other.requests_to(PATH).is_empty(), "it asks for no reports");
}
