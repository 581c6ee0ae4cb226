//! A run that finds nothing to do, beside one `curl` of the same question.

use std::io;

use serde_json::json;

use crate::bench::host::{Host, Roots, Template};
use crate::bench::lab::Lab;
use crate::bench::run;

/// What was measured on one kind of host.
#[derive(Debug, Clone)]
pub struct Idle {
    /// Which.
    pub name: &'static str,
    /// Seconds of each `update`.
    pub update: Vec<f64>,
    /// Seconds of the `curl` of the same round.
    pub curl: Vec<f64>,
    /// System calls of an `update`.
    pub update_calls: u64,
    /// System calls of a `curl`.
    pub curl_calls: u64,
}

/// Measures so many pairs on each kind of host.
///
/// # Errors
/// A run that fails.
pub fn measure(lab: &Lab, pairs: usize) -> io::Result<Vec<Idle>> {
    lab.server.publish("1.0.0", json!({"updater": false}))?;
    lab.server.publish("1.1.0", json!({}))?;
    let kinds = [
        ("the system's authorities", "1.0.0", Roots::System),
        ("one authority (`--ca-file`)", "1.0.0", Roots::Own),
        ("the system's, hand-over to the version's own updater", "1.1.0", Roots::System),
    ];
    kinds.into_iter().map(|(name, version, roots)| kind(lab, pairs, name, version, roots)).collect()
}

fn kind(lab: &Lab, pairs: usize, name: &'static str, version: &str, roots: Roots) -> io::Result<Idle> {
    eprintln!("idle: {name}");
    let host = Template::new(lab, version, roots)?.host(lab, lab.work())?;
    let id = "00000000-0000-4000-8000-000000000000";
    let url = format!("https://{}/v1/webapi/find?host={id}&group=default&update_id={id}", lab.server.addr);
    let mut curl = vec!["-fsS", "-o", "/dev/null", &url];
    if roots == Roots::Own {
        curl.extend(["--cacert", "/etc/cluster-ca.pem"]);
    }
    let update = || run::timed(|| host.start("updater", &["update"])).map(|took| took.as_secs_f64());
    let ask = || run::timed(|| host.start("/usr/bin/curl", &curl)).map(|took| took.as_secs_f64());
    // The first run makes this host's update id, and both programs come into the page cache.
    update().map_err(|error| explain(&host, &error))?;
    ask().map_err(|error| explain(&host, &error))?;
    let mut found = Idle { name, update: vec![], curl: vec![], update_calls: 0, curl_calls: 0 };
    for _ in 0..pairs {
        found.update.push(update().map_err(|error| explain(&host, &error))?);
        found.curl.push(ask()?);
    }
    found.update_calls = host.system_calls("updater", &["update"])?;
    found.curl_calls = host.system_calls("/usr/bin/curl", &curl)?;
    Ok(found)
}

fn explain(host: &Host, error: &io::Error) -> io::Error {
    io::Error::other(format!("{error}: {}", std::fs::read_to_string(host.said()).unwrap_or_default()))
}
