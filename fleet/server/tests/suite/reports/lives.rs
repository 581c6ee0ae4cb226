//! What becomes of hosts: new images, copies, other groups.

use serde_json::json;

use super::host::{Host, epoch};
use super::{code, known, started, state, told};

/// Its key is new, its version the old one: that is no success that was taken back.
#[test]
fn a_host_of_a_new_image_waits_for_an_admin_and_is_then_a_new_host_that_updates_again() {
    let (_dir, server, hosts, epoch) = told(2);
    let before = &hosts[0];
    let done = before.says(epoch, "1.1.0", Some(("updated", "1.1.0", "")));
    assert_eq!(before.sends(server.addr, &done).0, 200);
    assert_eq!(state(&server, before), "updated");
    let image = Host::with_key(1, "dev", 77);
    let old = image.says(epoch, "1.0.0", None);
    assert_eq!(code(&image.sends(server.addr, &old)), (409, "key_conflict"));
    assert_eq!(state(&server, before), "updated", "until somebody decides");
    server.ok(&["host", &image.id, "accept"]);
    assert_eq!(image.sends(server.addr, &image.says(epoch, "1.0.0", None)).0, 200);
    assert_eq!(state(&server, &image), "let_go", "it failed at nothing");
    server.until("it is told again", || image.asks(&server, Some(epoch)).1);
    server.until("it was told", || state(&server, &image) == "told");
    assert_eq!((&server.group("dev")["state"], &server.group("dev")["failed_count"]), (&json!("active"), &json!(0)));
    let done = image.says(epoch, "1.1.0", Some(("updated", "1.1.0", "")));
    assert_eq!(image.sends(server.addr, &done).0, 200);
    assert_eq!(state(&server, &image), "updated");
    // The machine before is nobody any more.
    assert_eq!(code(&before.sends(server.addr, &before.says(epoch, "9.9.9", None))), (409, "key_conflict"));
}

/// The same key that goes back is the same machine: it left the version that it had.
#[test]
fn a_host_that_reports_the_old_version_again_has_failed() {
    let (_dir, server, hosts, epoch) = told(2);
    for version in ["1.1.0", "1.0.0"] {
        assert_eq!(hosts[0].sends(server.addr, &hosts[0].says(epoch, version, None)).0, 200);
    }
    server.until("the group halts", || server.group("dev")["state"] == "halted");
    assert_eq!(state(&server, &hosts[0]), "failed");
}

/// Two machines with one host id and one key: what one says is later than the other's, or refused.
#[test]
fn a_copied_host_with_the_key_of_the_first_cannot_speak_beside_it() {
    let (_dir, server) = started();
    let epoch = epoch(&server);
    let copy = Host::new(1, "dev");
    let of_copy = copy.says(epoch, "7.7.7", None);
    // Its numbers begin with the time at which it is made.
    let first = Host::new(1, "dev");
    for _ in 0..2 {
        assert_eq!(first.sends(server.addr, &first.says(epoch, "1.0.0", None)).0, 200);
    }
    assert_eq!(code(&copy.sends(server.addr, &of_copy)), (409, "old_sequence"));
    assert_eq!(known(&server, &first)["known"]["version"], "1.0.0");
    // With a name of its own it is another host.
    let other = Host::with_key(2, "dev", 1);
    assert_eq!(other.sends(server.addr, &other.says(epoch, "1.0.0", None)).0, 200);
    assert_eq!(known(&server, &other)["known"]["enrolled"], true);
}

#[test]
fn a_host_that_changes_its_group_moves_unless_it_was_told() {
    let (_dir, server, hosts, epoch) = told(1);
    let waits = Host::new(9, "prod");
    assert_eq!(waits.sends(server.addr, &waits.says(epoch, "1.0.0", None)).0, 200);
    let moved = |host: &Host, group: &str| {
        let mut report = host.says(epoch, "1.0.0", None);
        report["group"] = group.into();
        assert_eq!(host.sends(server.addr, &report).0, 200);
        let host = known(&server, host)["known"].clone();
        [host["declared_group"].as_str().unwrap().to_owned(), host["group"].as_str().unwrap().to_owned()]
    };
    assert_eq!(moved(&hosts[0], "prod"), ["prod", "dev"], "it was told as one of dev");
    assert_eq!(moved(&waits, "dev"), ["dev", "dev"]);
    server.until("it is told as one of dev", || waits.asks(&server, Some(epoch)).1);
}
