//! The tables of `docs/fleet-resources.md` are those of the keys.
//!
//! To renew the page after a change of a key: `RENEW_DOCS=1 cargo test --package fleet-engine page`.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::fault::FaultList;
use super::super::key::{Key, KeyKind, KeyTable};
use super::super::keys;
use super::super::reader::ResourceReader;
use super::super::{Kind, schema};
use crate::calendar::{Days, Zone};
use crate::percent::Percent;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet-resources.md");

/// All tables: that of a document, and whatever stands in it.
fn tables() -> Vec<&'static KeyTable> {
    let specs = Kind::ALL
        .into_iter()
        .filter(|kind| kind.is_made_here().is_none())
        .filter_map(keys::spec_of)
        .map(|(table, _)| table);
    let mut tables: Vec<&KeyTable> = [&keys::DOCUMENT].into_iter().chain(specs).collect();
    let mut seen = 0;
    while let Some(table) = tables.get(seen) {
        let inner = |key: &'static Key| key.kind.table();
        tables.extend(table.keys.iter().filter_map(inner).collect::<Vec<_>>());
        seen += 1;
    }
    tables
}

/// A table in Markdown: these rows, with a column of defaults for each dialect, and one of when a change acts.
fn markdown(keys: &[&Key], has_dialects: bool, says_when: bool) -> String {
    let columns = if has_dialects { &["v2", "169", "directive"][..] } else { &["default"] };
    let acts = if says_when { &["acts"][..] } else { &[] };
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |");
    let head = ["key", "value"].iter().chain(columns).chain(acts).chain(&["meaning"]);
    let head: Vec<String> = head.map(|cell| (*cell).to_owned()).collect();
    let rows = keys.iter().map(|key| {
        let default = |column| key.required().map_or(key.default(column), |_| "required").to_owned();
        let mut cells = vec![format!("`{}`", key.name), key.kind.shown()];
        cells.extend((0..columns.len()).map(default));
        cells.extend(acts.iter().map(|_| key.acts.to_owned()));
        cells.push(key.meaning());
        line(&cells)
    });
    line(&head) + &format!("|{}\n", "---|".repeat(head.len())) + &rows.collect::<String>()
}

/// The tables of a section: that of a group has one for keys that act with the next rollout, and one for the others.
fn section(table: &KeyTable) -> Vec<String> {
    let has_dialects = table.heading.starts_with("A group");
    let says_when = table.keys.iter().any(|key| !key.acts.is_empty());
    if !(has_dialects && says_when) {
        return vec![markdown(&table.keys.iter().collect::<Vec<_>>(), has_dialects, says_when)];
    }
    let acting = |acts: &str| table.keys.iter().filter(|key| key.acts == acts).collect::<Vec<_>>();
    ["next rollout", "next step"].map(|acts| markdown(&acting(acts), true, false)).to_vec()
}

/// The page with each section's tables replaced.
fn renewed(page: &str) -> String {
    let mut page = page.to_owned();
    for table in tables() {
        let heading = format!("\n### {}\n", table.heading);
        let mut from = page.find(&heading).unwrap_or_else(|| panic!("no heading {}", table.heading)) + heading.len();
        for wanted in section(table) {
            from += page[from..].find("\n| key |").unwrap() + 1;
            let length = page[from..].find("\n\n").unwrap() + 1;
            page.replace_range(from..from + length, &wanted);
            from += wanted.len();
        }
    }
    page
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a page of the source, and only where that is asked for")]
fn the_page_has_the_tables_of_the_keys() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let renewed = renewed(&page);
    if std::env::var_os("RENEW_DOCS").is_some() {
        std::fs::write(PAGE, renewed).unwrap();
        return;
    }
    let old = page.lines().zip(renewed.lines()).find(|(old, new)| old != new);
    assert!(
        page == renewed,
        "docs/fleet-resources.md is old: {old:?}; {}",
        include_str!("page.rs").lines().nth(2).unwrap()
    );
}

/// Whether a value of this kind stands there.
fn stands(place: &ResourceReader<'_>, kind: &KeyKind) -> bool {
    match kind {
        KeyKind::Whole(..) | KeyKind::Decimal(..) => place.read::<u32>(kind).is_some(),
        KeyKind::Share => place.read::<f64>(kind).is_some(),
        KeyKind::Percentage => place.read::<Percent>(kind).is_some(),
        KeyKind::Flag | KeyKind::FlagOr(_) => place.read::<bool>(kind).is_some(),
        KeyKind::Weekdays => place.read::<Days>(kind).is_some(),
        KeyKind::TimeZone => place.read::<Zone>(kind).is_some(),
        KeyKind::Words(_) | KeyKind::Name(_) => place.read::<String>(kind).is_some(),
        KeyKind::Minutes(..) => place.read::<SignedDuration>(kind).is_some(),
        KeyKind::Text(_) => place.text().is_some(),
        KeyKind::List(..) => place.list().is_some(),
        _ => false,
    }
}

#[test]
fn each_default_is_a_value_that_its_key_may_have() {
    let mut seen = 0;
    for (table, key) in tables().into_iter().flat_map(|table| table.keys.iter().map(move |key| (table, key))) {
        for node in (0..3).filter_map(|column| key.default_value(column)) {
            let found = FaultList::default();
            assert!(stands(&ResourceReader::root(&node, &found), &key.kind), "{}: {}", table.heading, key.name);
            seen += 1;
        }
    }
    assert!(seen > 80, "only {seen} defaults");
}

#[test]
fn the_schema_has_each_key_with_its_range_and_the_default_of_its_dialect() {
    let schema = schema();
    let group = |kind: usize, path: &str| {
        schema["oneOf"][kind]["properties"]["spec"]
            .pointer(&format!("/properties/{path}/properties/regular/items"))
            .unwrap_or_else(|| panic!("{schema}"))
            .clone()
    };
    let (v2, rfd0169) = (group(0, "agents/properties/schedules"), group(3, "agent_auto_update_groups"));
    assert_eq!(v2["required"], json!(["name"]));
    assert_eq!(v2["additionalProperties"], json!(false));
    let jitter = |group: &Value| group["properties"]["jitter_seconds"].clone();
    let wanted = |default: u32| {
        json!({
            "type": "integer", "minimum": 0, "maximum": 60, "default": default, "title": "a whole number from 0 to 60",
            "description": "longest random wait, seconds (acts: next step)"
        })
    };
    assert_eq!([jitter(&v2), jitter(&rfd0169)], [wanted(60), wanted(0)]);
    assert_eq!(v2["properties"]["days"]["default"], json!(["Mon", "Tue", "Wed", "Thu"]));
    assert_eq!(v2["properties"]["blackout"]["maxItems"], json!(100));
    assert_eq!(v2["properties"]["approval"]["enum"], json!(["viewer", "operator", "admin"]));
    let kinds = schema["oneOf"].as_array().unwrap().iter().map(|kind| kind["properties"]["kind"]["const"].clone());
    let written = Kind::ALL.into_iter().filter(|kind| kind.is_made_here().is_none());
    assert_eq!(kinds.collect::<Vec<_>>(), written.map(|kind| json!(kind.as_str())).collect::<Vec<_>>());
}
