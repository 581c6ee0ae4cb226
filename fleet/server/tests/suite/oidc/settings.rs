//! The settings at the start, and what `doctor` says.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::{log_in, served};
use crate::support::issuer::{CLIENT, Issuer};
use crate::support::{Server, dir, program, refused, write_secret};

/// A configuration with these lines in place of others.
fn config(dir: &std::path::Path, issuer: &str, change: &[(&str, &str)]) -> String {
    let secret = write_secret(dir, CLIENT.1);
    let mut lines = vec![
        ("plain", "true".to_owned()),
        ("public_addr", "localhost:1".to_owned()),
        ("oidc_issuer", issuer.to_owned()),
        ("oidc_client_id", CLIENT.0.to_owned()),
        ("oidc_client_secret_file", secret),
        ("oidc_roles", "{sre: operator, \"cn=a,dc=b\": admin}".to_owned()),
    ];
    for (key, value) in change {
        lines.retain(|(known, _)| known != key);
        if !value.is_empty() {
            lines.push((key, (*value).to_owned()));
        }
    }
    lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect()
}

/// What `doctor` says of the configuration and the data in `dir`.
fn doctor(dir: &std::path::Path) -> String {
    let (config, data) = (dir.join("config.yaml"), dir.join("data"));
    let words = ["doctor", "--config", config.to_str().unwrap(), "--data", data.to_str().unwrap()];
    String::from_utf8(program(&words).output().unwrap().stdout).unwrap()
}

#[test]
fn the_configuration_file_alone_is_enough() {
    let (issuer, dir) = (Issuer::start(), dir());
    issuer.claims(serde_json::json!({"groups": ["cn=a,dc=b"]}));
    std::fs::write(dir.path().join("config.yaml"), config(dir.path(), &issuer.url, &[])).unwrap();
    let server = Server::with(dir.path(), &[]);
    let page = super::visitor(&server, &log_in(&server, &issuer)).get("/").body;
    assert!(page.contains("(joe@example.com), admin"), "{page}");
    let said = doctor(dir.path());
    let line = format!(
        "ok       people log in by {} (not asked), which leads them back to http://localhost:1/login/oidc/callback",
        issuer.url
    );
    assert!(said.contains(&line), "{said}");
    std::fs::set_permissions(dir.path().join("secret"), Permissions::from_mode(0o640)).unwrap();
    let said = doctor(dir.path());
    assert!(said.contains("problem  nobody can log in by") && said.contains("mode 640"), "{said}");
}

/// Root installs, and looks: the secret belongs to the user that has the data.
#[test]
fn doctor_looks_as_the_servers_user_does() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let (issuer, dir) = (Issuer::start(), dir());
    drop(super::server(dir.path(), &issuer));
    std::fs::write(dir.path().join("config.yaml"), config(dir.path(), &issuer.url, &[])).unwrap();
    let doctor = || doctor(dir.path());
    let give = |name: &str| std::os::unix::fs::chown(dir.path().join(name), Some(NOBODY), None).unwrap();
    give("secret");
    assert!(doctor().contains("belongs to user 65534, not to the server's"), "{}", doctor());
    give("data");
    assert!(doctor().contains("ok       people log in by"), "{}", doctor());
}

#[test]
fn settings_that_do_not_go_together_are_told_at_the_start_in_one_line() {
    let holder = dir();
    let empty = write_secret(holder.path(), " \n");
    for (change, says) in [
        (&[("oidc_issuer", "https://u:p@id.example.com")][..], "user or a password"),
        (&[("oidc_client_secret_file", "/nowhere")], "cannot read the secret /nowhere"),
        (&[("oidc_client_secret_file", &empty)], "the file oidc_client_secret_file is empty: write the client secret"),
        (&[("oidc_roles", "{sre: root}")], "\"root\" is not viewer, operator or admin"),
        (&[("public_addr", "fleet.example.com")], "http is for loopback"),
    ] {
        let dir = dir();
        let file = dir.path().join("config.yaml");
        std::fs::write(&file, config(dir.path(), "https://id.example.com", change)).unwrap();
        let (data, socket) = (dir.path().join("data"), dir.path().join("admin.sock"));
        let output = program(&["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
            .args(["--config", file.to_str().unwrap(), "--data", data.to_str().unwrap()])
            .args(["--admin-socket", socket.to_str().unwrap()])
            .output()
            .unwrap();
        let line = refused(&output);
        assert!(line.lines().count() == 1 && line.contains(says), "{change:?}: {line}");
    }
}

#[test]
fn a_secret_that_others_may_read_is_refused_at_the_start_and_at_a_login() {
    let (issuer, dir, server) = served();
    let file = dir.path().join("secret");
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let answer = log_in(&server, &issuer);
    super::assert_refused(&answer, 502, "log in with a token");
    assert!(!answer.body.contains("secret"), "{answer:?}");
    assert!(server.log().contains("has mode 644"), "{}", server.log());
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "another").unwrap();
    super::assert_refused(&log_in(&server, &issuer), 502, "log in with a token");
    assert!(server.log().contains("invalid_client") && !server.log().contains(CLIENT.1), "{}", server.log());
    std::fs::write(&file, format!("{}\n", CLIENT.1)).unwrap();
    assert_eq!(log_in(&server, &issuer).status, 200, "it is read again");
}
