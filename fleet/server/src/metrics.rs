//! Numbers for Prometheus (FLEET §6).

use std::fmt::Write;

use fleet_engine::rollout::{Rollout, State};
use fleet_store::ServerStatus;
use fleet_wire::lenient::word;
use prometheus::TextEncoder;

use crate::core::Snapshot;
use crate::load::RequestMeter;
use crate::notify::{Meter, WEBHOOK};

/// Of the text format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All of them; `versions` are how many hosts run which. No other label has a text that a host chose.
pub(crate) fn text(
    snapshot: &Snapshot,
    meter: Option<&Meter>,
    requests: &RequestMeter,
    versions: &[(String, u64)],
    servers: &[ServerStatus],
    tuf: &[(String, jiff::Timestamp)],
) -> String {
    let mut text = of_servers(servers);
    text += &of_tuf(tuf);
    text += &of_fleet(snapshot, meter, versions);
    // A string takes whatever is written to it.
    let _ = TextEncoder::new().encode_utf8(&requests.registry.gather(), &mut text);
    text
}

/// Of those that share a database.
fn of_servers(servers: &[ServerStatus]) -> String {
    let mut text = String::new();
    let mut add = |name: &str, help: &str, value: fn(&ServerStatus) -> f64| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for server in servers {
            let id = server.id.get(..8).unwrap_or_default();
            let labels = labels(&[("server", &server.name), ("id", id), ("version", &server.version)]);
            let _ = writeln!(text, "{name}{labels} {}", value(server));
        }
    };
    if servers.is_empty() {
        return text;
    }
    let help = "1 for a server that shares the store and was heard of within 10 s";
    add("teleport_fleet_server_up", help, |server| flag(server.is_there()));
    let help = "Writes of other servers that a server had not read";
    add("teleport_fleet_server_behind_writes", help, |server| count(server.behind));
    let help = "How much later it is in the database than on the host of a server";
    add("teleport_fleet_server_clock_offset_seconds", help, |server| server.clock_offset as f64 / 1000.0);
    text
}

/// When each role of the TUF repository ends.
fn of_tuf(ends: &[(String, jiff::Timestamp)]) -> String {
    let mut text = String::new();
    let name = "teleport_fleet_tuf_role_end_timestamp_seconds";
    for (index, (role, end)) in ends.iter().enumerate() {
        if index == 0 {
            let _ = writeln!(text, "# HELP {name} When a role of the TUF repository ends\n# TYPE {name} gauge");
        }
        let _ = writeln!(text, "{name}{} {}", labels(&[("role", role)]), end.as_second());
    }
    text
}

fn of_fleet(snapshot: &Snapshot, meter: Option<&Meter>, versions: &[(String, u64)]) -> String {
    let (public, hosts, is_good) = (snapshot.public(), snapshot.hosts().len(), snapshot.is_good());
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        // A string takes whatever is written to it.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let (hosts, lost) = (count(u64::try_from(hosts).unwrap_or(u64::MAX)), count(snapshot.lost.get()));
    let one = |value: f64| vec![(String::new(), value)];
    let build = vec![(labels(&[("version", env!("CARGO_PKG_VERSION"))]), 1.0)];
    add("teleport_fleet_build_info", "gauge", "The version of this server", &build);
    let versions = versions.iter().map(|(version, hosts)| (labels(&[("version", version)]), count(*hosts)));
    let help = "Hosts by the version that they run: the most frequent ones, and all others as one";
    add("teleport_fleet_hosts_by_version", "gauge", help, &versions.collect::<Vec<_>>());
    add("teleport_fleet_store_available", "gauge", "1 while the store confirms what is answered", &one(flag(is_good)));
    add("teleport_fleet_hosts", "gauge", "Hosts that are known", &one(hosts));
    let waiting = one(count(snapshot.waiting.get()));
    add("teleport_fleet_hosts_waiting", "gauge", "Hosts with a key that waits for an admin", &waiting);
    add("teleport_fleet_questions_lost_total", "counter", "Questions that the core was too busy to note", &one(lost));
    let kept = snapshot.kept().map(|(what, number)| (labels(&[("what", what)]), count(number)));
    add("teleport_fleet_kept", "gauge", "What is remembered of those who ask; each is bounded", &kept);
    let refused = one(count(snapshot.strangers.get()));
    add(
        "teleport_fleet_strangers_refused_total",
        "counter",
        "Requests of the admin API without a known token",
        &refused,
    );
    let now = crate::clock::now();
    let told = |result: &str, attempts: u64| (labels(&[("receiver", WEBHOOK), ("result", result)]), count(attempts));
    let deliveries = meter.map(|meter| [told("delivered", meter.delivered()), told("failed", meter.failed())]);
    let deliveries: Vec<_> = deliveries.into_iter().flatten().collect();
    add(
        "teleport_fleet_notifications_total",
        "counter",
        "Notifications that were delivered, and attempts that failed",
        &deliveries,
    );
    let oldest = meter.map(|meter| (labels(&[("receiver", WEBHOOK)]), count(meter.oldest(now))));
    add(
        "teleport_fleet_notification_oldest_seconds",
        "gauge",
        "Age of the oldest notification that was not delivered; 0: none",
        oldest.as_slice(),
    );
    let held = public.rollouts.holds.all || !public.rollouts.holds.groups.is_empty();
    add("teleport_fleet_held", "gauge", "1 while an operator's halt lasts", &one(flag(held)));
    let number = public.rollouts.rollout.as_ref().map_or(0, |rollout| rollout.number);
    add("teleport_fleet_rollout", "gauge", "Number of the rollout; 0: none", &one(count(number)));
    let Some(rollout) = &public.rollouts.rollout else { return text };
    add("teleport_fleet_group_state", "gauge", "1 for the state that a group has", &states(rollout));
    add(
        "teleport_fleet_group_waits_seconds",
        "gauge",
        "Since when a group that is not done waits for the same reason",
        &waits(rollout, now),
    );
    add("teleport_fleet_group_hosts", "gauge", "Hosts of a group by state", &tallies(rollout));
    text
}

fn states(rollout: &Rollout) -> Vec<(String, f64)> {
    const ALL: [State; 6] =
        [State::Unstarted, State::Canary, State::Active, State::Done, State::RolledBack, State::Halted];
    let of_group = |group: &fleet_engine::rollout::GroupStatus| {
        let labels = |state: State| labels(&[("group", &group.policy.name), ("state", state.name())]);
        ALL.map(|state| (labels(state), flag(group.state == state)))
    };
    rollout.groups.iter().flat_map(of_group).collect()
}

/// Of groups that are not done.
fn waits(rollout: &Rollout, now: jiff::Timestamp) -> Vec<(String, f64)> {
    let groups = rollout.groups.iter().filter(|group| group.state != State::Done);
    let of_group = |group: &fleet_engine::rollout::GroupStatus| {
        let why = &group.reason.why;
        let who = word(&why.who());
        let since = u64::try_from(now.duration_since(group.reason.since).as_secs()).unwrap_or(0);
        (labels(&[("group", &group.policy.name), ("reason", why.code()), ("who", &who)]), count(since))
    };
    groups.map(of_group).collect()
}

fn tallies(rollout: &Rollout) -> Vec<(String, f64)> {
    let of_group = |group: &fleet_engine::rollout::GroupStatus| {
        let tally = &group.tally;
        let counts = [
            ("pending", tally.pending),
            ("in_flight", tally.in_flight()),
            ("updated", tally.updated),
            ("failed", tally.failed),
            ("timed_out", tally.timed_out),
            ("silent", tally.silent),
            ("excluded", tally.excluded),
        ];
        counts.map(|(state, value)| (labels(&[("group", &group.policy.name), ("state", state)]), count(value)))
    };
    rollout.groups.iter().flat_map(of_group).collect()
}

/// Labels as the text format writes them.
fn labels(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

/// Exact below 2^53, which no fleet reaches.
fn count(number: u64) -> f64 {
    number as f64
}
