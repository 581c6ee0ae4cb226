//! What somebody who only asks can say of himself, and of others.

use super::{find, host, started, until_in, until_known};

#[test]
fn what_strangers_call_themselves_reaches_no_terminal_as_control_characters() {
    let (dir, server) = started();
    let hostile = "%1b%5b31m%07%0d%0a%c2%9b2J%7f";
    find(&server, &format!("host={}&group={hostile}", host(1)));
    until_known(&server, dir.path(), 1);
    let is_control = |char: char| char.is_control() && char != '\n';
    for words in [
        &["hosts"][..],
        &["hosts", "--format", "json"],
        &["hosts", "--format", "yaml"],
        &["host", &host(1)],
        &["explain", "--host", &host(1)],
        &["autoupdate", "agents", "report"],
        &["autoupdate", "agents", "status"],
    ] {
        let text = server.ok(words);
        assert!(!text.contains(is_control), "{words:?}: {text:?}");
    }
    let log = server.log();
    assert!(!log.contains(is_control), "{log:?}");
    let metrics = server.metrics();
    assert!(!metrics.contains(is_control) && !metrics.contains("31m"), "{metrics:?}");
}

#[test]
fn one_host_is_one_whatever_the_spelling_of_its_uuid() {
    let (dir, server) = started();
    let id = "ABCDEF01-2345-4789-8ABC-DEF012345678";
    for spelled in [id.to_owned(), id.to_lowercase(), id.replace('-', "")] {
        find(&server, &format!("host={spelled}&group=dev"));
    }
    until_known(&server, dir.path(), 1);
    find(&server, &format!("host={}&group=dev", host(2)));
    until_known(&server, dir.path(), 2);
}

#[test]
fn a_question_never_changes_what_a_caller_of_another_group_is_answered() {
    let (dir, server) = started();
    let update_id = host(100);
    find(&server, &format!("host={}&group=dev&update_id={update_id}", host(1)));
    until_known(&server, dir.path(), 1);
    let stays = ("1.0.0".to_owned(), false);
    assert_eq!(find(&server, &format!("group=prod&update_id={update_id}")), stays, "an updater without a host id");
    assert_eq!(find(&server, &format!("host={}&group=prod&update_id={update_id}", host(2))), stays, "a copied host");
}

#[test]
fn a_stranger_does_not_move_a_host_into_a_group_that_is_let_go() {
    let (dir, server) = started();
    let own = format!("host={}&group=prod", host(1));
    find(&server, &own);
    until_in(&server, dir.path(), &host(1), "prod");
    find(&server, &format!("host={}&group=dev", host(1)));
    until_in(&server, dir.path(), &host(1), "dev");
    assert_eq!(find(&server, &own), ("1.0.0".to_owned(), false), "it says itself that it is in prod");
}
