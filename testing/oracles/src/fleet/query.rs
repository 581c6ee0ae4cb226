//! Query strings: what is read strictly is read leniently the same, and what an updater asks is what was meant.

use fleet_wire::answers::query::{LONGEST, LONGEST_VALUE, Query, path};
use fleet_wire::answers::{find, ids};

use super::assert_line;

const NAMES: [&str; 5] = ["host", "group", "update_id", "channel", "kind"];

/// Any text as the query of a host.
pub fn fleet_query(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let asked = find::question(text);
    let again = find::question(text);
    assert_eq!(again.is_dry_run, asked.is_dry_run);
    let (question, again) = (asked.question, again.question);
    assert_eq!((again.host, &again.group, again.update_id), (question.host, &question.group, question.update_id));
    assert!(question.group.len() <= LONGEST_VALUE);
    for id in question.host.into_iter().chain((question.update_id != 0).then_some(question.update_id)) {
        assert_eq!(ids::uuid(&ids::text(id)), Some(id));
    }
    let lenient = Query::lenient(text);
    let strict = Query::strict(text);
    assert_eq!(strict.is_ok(), text.len() <= LONGEST);
    for name in NAMES {
        let value = lenient.first(name);
        assert!(value.as_ref().is_none_or(|value| value.len() <= LONGEST_VALUE));
        match strict.as_ref().map_err(Clone::clone).and_then(|query| query.only(name)) {
            Ok(only) => assert_eq!(only, value, "{name} of {text}"),
            Err(fault) => assert_line(&fault.to_string()),
        }
    }
    asked_again(text);
    match path(text) {
        Ok(read) => assert!(read.len() <= text.len()),
        Err(fault) => assert_line(&fault.to_string()),
    }
}

/// The values of this query, asked by an updater.
fn asked_again(text: &str) {
    let query = Query::lenient(text);
    let value = |name| query.first(name).map(std::borrow::Cow::into_owned);
    let asked = protocol::find::Question {
        host: value("host"),
        group: value("group"),
        update_id: value("update_id"),
        dry_run: false,
    };
    let written = asked.query();
    let read = Query::lenient(written.trim_start_matches('?'));
    for (name, meant) in [("host", asked.host), ("group", asked.group), ("update_id", asked.update_id)] {
        assert_eq!(read.first(name).map(std::borrow::Cow::into_owned), meant, "{name} of {written}");
    }
}
