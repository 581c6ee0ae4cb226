//! A group of either dialect: all keys of both and ours, with the dialect's defaults.

use jiff::SignedDuration;

use super::dialect::{MAX_SILENT, PolicyDialect};
use super::fields::ResourceFields;
use super::reader::ResourceReader;
use super::url;
use crate::calendar::{Blackout, Days, WindowOpening, Zone};
use crate::labels::Expression;
use crate::percent::Percent;
use crate::policy::{External, Gate, GroupPolicy, Members, OnHalt, Proof, Rate, RolloutPace};

/// Most hours between groups: a year. What waits longer waits for a person.
const MOST_HOURS: u32 = 8760;
/// Most freezes of a group.
const MOST_BLACKOUTS: usize = 100;
/// Most hosts that a rate or a threshold can speak of.
const MOST_HOSTS: u32 = 10_000_000;
/// How long an external check may take where `gate.timeout_seconds` says nothing, seconds.
const GATE_TIMEOUT: u32 = 10;
/// Roles whose approval a group may wait for: those of the server (FLEET §8).
const ROLES: [(&str, &str); 3] = [("viewer", "viewer"), ("operator", "operator"), ("admin", "admin")];

/// Bounds of all windows that have a length: Managed Updates v2 takes 10 minutes and more (FLEET §3, D3); after a week all
/// have come round.
pub(super) const SHORTEST_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// The other bound.
pub(super) const LONGEST_WINDOW: SignedDuration = SignedDuration::from_hours(168);

/// Reads a group; after a fault, as much of it as others can be checked against.
pub(super) fn read(reader: &ResourceReader<'_>, dialect: PolicyDialect) -> Option<GroupPolicy> {
    let reader = reader.clone().needed("a group");
    let mut fields = reader.fields()?;
    let name = own_name(&fields.get("name").needed("the group's name"));
    let group = GroupPolicy {
        name,
        members: members(&fields.get("agents"), dialect),
        gate: gate(&mut fields, dialect),
        pace: pace(&mut fields, dialect),
        proof: proof(&mut fields, dialect),
    };
    fields.end();
    Some(group)
}

/// A name that stands for nothing else on a command line or in an address.
fn own_name(reader: &ResourceReader<'_>) -> String {
    let name = reader.name().unwrap_or_default();
    if name.starts_with('-') || matches!(name, "." | "..") {
        reader.wrong("a name that does not begin with `-`, and is neither `.` nor `..`");
    }
    name.to_owned()
}

impl GroupPolicy {
    /// A group as Managed Updates v2 has it where nothing is said but its `name` and when it may start.
    pub fn v2(name: &str, opening: WindowOpening) -> Self {
        let defaults = PolicyDialect::V2.defaults();
        Self {
            name: name.to_owned(),
            members: None,
            gate: Gate {
                opening,
                wait_hours: 0,
                soak_hours: 0,
                requires: Vec::new(),
                blackout: Vec::new(),
                approval: None,
                external: None,
            },
            pace: RolloutPace {
                canaries: 0,
                max_in_flight: Percent::ALL,
                jitter: defaults.jitter,
                window: None,
                rate: None,
            },
            proof: Proof {
                timeout_seconds: defaults.timeout,
                failure_seconds: 0,
                max_failed: defaults.max_failed,
                max_timeout: defaults.max_timeout,
                max_failed_of_ended: defaults.max_failed_of_ended,
                min_failed: 1,
                min_ended: 20,
                max_silent: MAX_SILENT,
                on_halt: OnHalt::Stop,
            },
        }
    }
}

/// By labels where `agents` is written. Else v2's groups are named by their hosts, and the RFD's hold all connected agents.
fn members(reader: &ResourceReader<'_>, dialect: PolicyDialect) -> Option<Members> {
    if !reader.is_there() && dialect == PolicyDialect::V2 {
        return None;
    }
    let mut fields = reader.fields()?;
    let mut expression = |name| fields.get(name).parsed("a label expression", Expression::parse);
    let members =
        Members { node: expression("node_labels_expression"), instance: expression("instance_labels_expression") };
    fields.end();
    Some(members)
}

fn gate(fields: &mut ResourceFields<'_>, dialect: PolicyDialect) -> Gate {
    Gate {
        opening: opening(fields, dialect.defaults().days),
        wait_hours: fields.get("wait_hours").integer(0..=MOST_HOURS).unwrap_or(0),
        soak_hours: fields.get("soak_hours").integer(0..=MOST_HOURS).unwrap_or(0),
        requires: names(&fields.get("requires")),
        blackout: blackouts(&fields.get("blackout")),
        approval: role(&fields.get("approval")),
        external: external(&fields.get("gate")),
    }
}

/// `days`, `start_hour` and `timezone`.
pub(super) fn opening(fields: &mut ResourceFields<'_>, default: Days) -> WindowOpening {
    let days = fields.get("days");
    let days = if days.is_there() { self::days(&days) } else { default };
    let hour = fields.get("start_hour").integer(0..=23).and_then(|hour| u8::try_from(hour).ok()).unwrap_or(0);
    let zone = fields.get("timezone");
    let name = zone.text();
    let known = name.and_then(Zone::parse);
    if name.is_some() && known.is_none() {
        zone.wrong("a time zone such as UTC or Europe/Berlin");
    }
    WindowOpening { days, hour, zone: known.unwrap_or_default() }
}

/// A list of days that is not empty: a window without days never opens.
fn days(reader: &ResourceReader<'_>) -> Days {
    let items = reader.list();
    if items.as_ref().is_some_and(Vec::is_empty) {
        reader.refuse("is empty: such a window never opens; leave it out for the default, or give \"*\"");
    }
    each_day(&items.unwrap_or_default())
}

/// The days that a list names.
pub(super) fn each_day(items: &[ResourceReader<'_>]) -> Days {
    let mut words = Vec::with_capacity(items.len());
    for item in items {
        match item.clone().needed("a day").text() {
            Some(word) if Days::parse(&[word]).is_ok() => words.push(word),
            Some(_) => item.wrong("Mon, Tue, Wed, Thu, Fri, Sat, Sun or \"*\""),
            None => {}
        }
    }
    Days::parse(&words).unwrap_or(Days::EVERY)
}

fn names(reader: &ResourceReader<'_>) -> Vec<String> {
    let name = |item: ResourceReader<'_>| item.needed("a group's name").name().unwrap_or_default().to_owned();
    reader.items().into_iter().map(name).collect()
}

fn blackouts(reader: &ResourceReader<'_>) -> Vec<Blackout> {
    reader.items_up_to(MOST_BLACKOUTS, "freezes").iter().filter_map(blackout).collect()
}

fn blackout(reader: &ResourceReader<'_>) -> Option<Blackout> {
    let mut fields = reader.clone().needed("a freeze, {from, to, reason}").fields()?;
    let from = fields.get("from").needed("its first instant").time();
    let end = fields.get("to");
    let to = end.clone().needed("the first instant after it").time();
    let reason = fields.get("reason").text().unwrap_or_default().to_owned();
    fields.end();
    let (from, to) = (from?, to?);
    if to <= from {
        end.wrong("later than from");
    }
    Some(Blackout { from, to, reason })
}

fn role(reader: &ResourceReader<'_>) -> Option<String> {
    reader.one_of(&ROLES).map(str::to_owned)
}

fn external(reader: &ResourceReader<'_>) -> Option<External> {
    let mut fields = reader.there()?.fields()?;
    let url = fields.get("url").needed("the address that is asked");
    let url = url.parsed("an https address", |text| url::check(text).map(|()| text.to_owned()));
    let timeout = fields.get("timeout_seconds").integer(1..=60);
    fields.end();
    Some(External { url: url.unwrap_or_default(), timeout_seconds: timeout.unwrap_or(GATE_TIMEOUT) })
}

fn pace(fields: &mut ResourceFields<'_>, dialect: PolicyDialect) -> RolloutPace {
    RolloutPace {
        canaries: fields.get("canary_count").integer(0..=5).unwrap_or(0),
        max_in_flight: fields.get("max_in_flight").percent().unwrap_or(Percent::ALL),
        jitter: fields.get("jitter_seconds").integer(0..=60).unwrap_or(dialect.defaults().jitter),
        window: fields.get("window_duration").duration(SHORTEST_WINDOW..=LONGEST_WINDOW),
        rate: rate(&fields.get("rate")),
    }
}

fn rate(reader: &ResourceReader<'_>) -> Option<Rate> {
    let mut fields = reader.there()?.fields()?;
    let base = fields.get("base").needed("the hosts of the first hour").integer(1..=MOST_HOSTS);
    let factor_hundredths = fields.get("factor").hundredths(100..=1000).unwrap_or(100);
    let most = fields.get("maximum");
    // A rate that grows must end somewhere; one that does not ends where it begins.
    let most = if factor_hundredths > 100 { most.needed("where the growth ends, in hosts an hour") } else { most };
    let maximum = most.integer(1..=MOST_HOSTS);
    fields.end();
    let base = base?;
    if maximum.is_some_and(|maximum| maximum < base) {
        most.wrong(&format!("at least the base, {base}"));
    }
    Some(Rate { base, factor_hundredths, maximum: maximum.unwrap_or(base) })
}

fn proof(fields: &mut ResourceFields<'_>, dialect: PolicyDialect) -> Proof {
    let defaults = dialect.defaults();
    let mut percent = |name, default| fields.get(name).percent().unwrap_or(default);
    Proof {
        max_failed: percent("max_failed_before_halt", defaults.max_failed),
        max_timeout: percent("max_timeout_before_halt", defaults.max_timeout),
        max_failed_of_ended: percent("max_failed_of_ended", defaults.max_failed_of_ended),
        max_silent: percent("max_silent", MAX_SILENT),
        timeout_seconds: fields.get("timeout_seconds").integer(30..=900).or(defaults.timeout),
        failure_seconds: fields.get("failure_seconds").integer(0..=900).unwrap_or(0),
        min_failed: fields.get("min_failed_before_halt").integer(1..=MOST_HOSTS).unwrap_or(1),
        min_ended: fields.get("min_ended").integer(1..=MOST_HOSTS).unwrap_or(20),
        on_halt: fields
            .get("on_halt")
            .one_of(&[("stop", OnHalt::Stop), ("rollback", OnHalt::Rollback)])
            .unwrap_or(OnHalt::Stop),
    }
}
