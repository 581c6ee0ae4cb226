//! Login of the dashboard by an OpenID Connect provider, which is a real one on loopback that can misbehave.

mod binding;
mod forged;
mod good;
mod provider;
mod roles;
mod settings;

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::issuer::{CLIENT, Issuer, pairs};
use crate::support::visitor::{Answer, Visitor};
use crate::support::{Server, dir, write_secret};
use tempfile::TempDir;

/// Where browsers come back to.
const CALLBACK: &str = "/login/oidc/callback";
/// The cookie of the way.
const TRIP: &str = "fleet-login";

/// The flags with which a server lets in people whom `issuer` names: of the group `sre` as operators, others as viewers.
fn flags(dir: &Path, issuer: &Issuer) -> Vec<String> {
    let secret = write_secret(dir, CLIENT.1);
    let flags = [
        "--plain",
        "--public-addr",
        "localhost:1",
        "--oidc-issuer",
        &issuer.url,
        "--oidc-client-id",
        CLIENT.0,
        "--oidc-client-secret-file",
        &secret,
        "--oidc-roles",
        "sre=operator,all=viewer",
    ];
    flags.map(str::to_owned).to_vec()
}

/// A server with these flags and further ones.
fn server_with(dir: &Path, issuer: &Issuer, further: &[&str]) -> Server {
    let flags = flags(dir, issuer);
    let words: Vec<&str> = flags.iter().map(String::as_str).chain(further.iter().copied()).collect();
    Server::with(dir, &words)
}

fn server(dir: &Path, issuer: &Issuer) -> Server {
    server_with(dir, issuer, &[])
}

/// A provider, and a server whose people it names.
fn served() -> (Issuer, TempDir, Server) {
    let (issuer, dir) = (Issuer::start(), dir());
    let server = server(dir.path(), &issuer);
    (issuer, dir, server)
}

/// Somebody on the way to the provider.
struct Trip {
    /// What was sent along.
    sent: BTreeMap<String, String>,
    /// `NAME=VALUE`.
    cookie: String,
}

/// The cookie that an answer sets: `NAME=VALUE`, and its attributes.
fn cookie<'a>(answer: &'a Answer, name: &str) -> Option<(&'a str, &'a str)> {
    let lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    let mut cookies = lines.filter(|(key, _)| key.eq_ignore_ascii_case("set-cookie")).map(|(_, cookie)| cookie);
    cookies
        .find(|cookie| cookie.split_once('=').is_some_and(|(known, _)| known == name))
        .map(|cookie| cookie.split_once("; ").unwrap())
}

/// Goes to the provider, to be shown `next` afterwards.
fn depart(server: &Server, issuer: &Issuer, next: &str) -> Trip {
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    let answer = Visitor::new(server).get(&format!("/login/oidc?next={next}"));
    assert_eq!(answer.status, 303, "{answer:?}\n{}", server.log());
    let (endpoint, query) = answer.header("location").unwrap().split_once('?').unwrap();
    assert_eq!(endpoint, format!("{}/authorize", issuer.url));
    Trip { sent: pairs(query), cookie: cookie(&answer, TRIP).unwrap().0.to_owned() }
}

/// Comes back with a query and a cookie.
fn arrive(server: &Server, query: &[(&str, &str)], cookie: &str) -> Answer {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    let mut visitor = Visitor::new(server);
    visitor.cookie = Some(cookie.to_owned()).filter(|cookie| !cookie.is_empty());
    visitor.get(&format!("{CALLBACK}?{query}"))
}

/// Logs in there, and comes back.
fn come_back(server: &Server, issuer: &Issuer, trip: &Trip) -> Answer {
    let code = issuer.logs_in(&trip.sent);
    arrive(server, &[("code", &code), ("state", &trip.sent["state"])], &trip.cookie)
}

/// Goes there, logs in, and comes back.
fn log_in(server: &Server, issuer: &Issuer) -> Answer {
    come_back(server, issuer, &depart(server, issuer, "/"))
}

/// Who has the session that an answer gives.
fn visitor(server: &Server, answer: &Answer) -> Visitor {
    let mut visitor = Visitor::new(server);
    let session = cookie(answer, "fleet").unwrap_or_else(|| panic!("no session: {answer:?}\n{}", server.log()));
    visitor.cookie = Some(session.0.to_owned());
    visitor
}

/// An answer that lets nobody in: this status, this text on the page, and no session.
fn assert_refused(answer: &Answer, status: u16, says: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.body.contains(says) && answer.body.contains("<h1>Log in</h1>"), "{says:?}: {answer:?}");
    assert!(cookie(answer, "fleet").is_none(), "{answer:?}");
    assert_eq!(answer.header("refresh"), None, "{answer:?}");
}
