//! Starting and ending.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use crate::hostile::disk::sql;
use crate::support::{Server, dir, groups, misused, program, refused, request, start};

fn serve(words: &[&str]) -> Output {
    serve_with("", words)
}

/// With a configuration.
fn serve_with(configuration: &str, words: &[&str]) -> Output {
    serve_by(configuration, words, &[])
}

/// With variables as well.
fn serve_by(configuration: &str, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data, socket, config) = (path("data"), path("admin.sock"), path("config.yaml"));
    std::fs::write(&config, configuration).unwrap();
    let mut all = vec!["serve", "--data", &data, "--admin-socket", &socket, "--config", &config];
    if !words.contains(&"--metrics") {
        all.extend(["--metrics", "127.0.0.1:0"]);
    }
    all.extend(words);
    program(&all).envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn a_command_for_notifications_is_gone_and_whoever_names_it_hears_so() {
    let words = ["--plain", "--listen", "127.0.0.1:0"];
    let line = refused(&serve_with("plain: true\nnotify_command: /bin/mail root\n", &words));
    assert!(line.contains("line 2: notify_command is gone: set webhook_url"), "{line}");
    let line = misused(&serve_by("", &words, &[("TELEPORT_FLEET_NOTIFY_COMMAND", "/bin/mail root")]));
    assert!(line.contains("TELEPORT_FLEET_NOTIFY_COMMAND is gone: set webhook_url"), "{line}");
    assert_eq!(serve(&["--notify-command", "/bin/mail"]).status.code(), Some(2));
}

#[test]
fn an_address_that_is_taken_and_a_configuration_that_is_wrong_are_told_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let line = refused(&serve(&["--plain", "--listen", &address]));
    let says = format!("{address}: Address in use (os error 98): stop what listens there, or give another --listen\n");
    assert!(line.lines().count() == 1 && line.ends_with(&says), "{line}");
    let line = refused(&serve(&["--plain", "--listen", "127.0.0.1:0", "--metrics", &address]));
    assert!(line.ends_with("or give another --metrics\n"), "{line}");
    let dir = dir();
    let config = dir.path().join("wrong.yaml");
    std::fs::write(&config, "data: /x\nlistn: 1\n").unwrap();
    let output = program(&["serve", "--plain", "--config", config.to_str().unwrap()]).output().unwrap();
    let line = refused(&output);
    assert!(line.contains("wrong.yaml line 2") && line.contains("listn"), "{line}");
}

#[test]
fn a_data_directory_that_others_may_write_is_warned_of_in_the_words_of_doctor() {
    let dir = dir();
    let data = dir.path().join("data");
    drop(Server::start(dir.path()));
    let warning = format!("others may write {} (mode 777)", data.display());
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).unwrap();
    let server = Server::start(dir.path());
    let log = server.log();
    let line = log.lines().find(|line| line.contains(&warning)).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("WARN") && line.contains("chmod go-w"), "{line}");
    assert_eq!(log.matches("others may write").count(), 1, "not at the first start: {log}");
    let doctor = program(&["doctor", "--config", "/dev/null", "--data", data.to_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8(doctor.stdout).unwrap().contains(&warning));
}

#[test]
fn a_second_server_on_the_same_data_is_refused_and_the_first_goes_on() {
    let (dir, server) = start();
    let data = dir.path().join("data");
    let second = program(&["serve", "--plain", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
        .args(["--config", "/dev/null", "--data", data.to_str().unwrap()])
        .args(["--admin-socket", dir.path().join("second.sock").to_str().unwrap()])
        .output()
        .unwrap();
    let line = refused(&second);
    assert!(line.lines().count() == 1 && line.contains("data"), "{line}");
    assert_eq!(server.get("/readyz").0, 200);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_ready_file_and_the_first_line_have_the_bound_addresses() {
    let dir = dir();
    let ready = dir.path().join("ready");
    let server = Server::with(dir.path(), &["--plain", "--ready-file", ready.to_str().unwrap()]);
    let expected = format!("{} {}\n", server.addr, server.metrics);
    server.until("the ready file", || std::fs::read_to_string(&ready).is_ok_and(|text| text == expected));
    let (status, text) = request(server.metrics, "GET", "/metrics", "", "");
    assert_eq!(status, 200);
    assert!(text.contains("teleport_fleet_store_available 1\n"), "{text}");
    assert_eq!(server.get("/metrics").0, 404, "metrics have a listener of their own");
    assert_eq!(server.get("/healthz"), (200, "ok\n".to_owned()));
}

/// `cargo test --package teleport-fleet --no-default-features`.
#[cfg(not(feature = "oidc"))]
#[test]
fn a_program_without_openid_connect_refuses_its_settings() {
    let line = misused(&serve(&["--listen", "127.0.0.1:0", "--plain", "--oidc-issuer", "https://id.example.com"]));
    assert!(line.contains("built without the feature oidc"), "{line}");
}

/// Without it another policy would rule: a store with a resource that this version does not read is not served from.
#[test]
fn a_stored_resource_that_cannot_be_read_is_named_and_nothing_is_served() {
    let (dir, server) = start();
    server.create(&groups(&["dev"]));
    assert_eq!(server.stop(), Some(0));
    let (data, socket) = (dir.path().join("data"), dir.path().join("admin.sock"));
    let (data, socket) = (data.to_str().unwrap(), socket.to_str().unwrap());
    if !sql(dir.path(), "UPDATE resource SET yaml = replace(yaml, 'strategy', 'stratagem')") {
        return;
    }
    let serve = ["serve", "--data", data, "--admin-socket", socket, "--metrics", "127.0.0.1:0", "--plain"];
    let line = refused(&program(&[&serve[..], &["--listen", "127.0.0.1:0"]].concat()).output().unwrap());
    assert!(
        line.contains("autoupdate_config/autoupdate-config cannot be read") && line.contains("stratagem"),
        "{line}"
    );
}
