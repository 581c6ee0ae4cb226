//! Numbers for Prometheus (FLEET §6).

use std::fmt::Write;

use fleet_engine::rollout::{GroupStatus, State};
use fleet_engine::rollout_state::RolloutState;
use fleet_store::ServerStatus;
use fleet_wire::lenient::word;
use jiff::Timestamp;
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
    tuf: &[(String, Timestamp)],
) -> String {
    let mut text = MetricText::default();
    text.add_servers(servers);
    if !tuf.is_empty() {
        let ends = tuf.iter().map(|(role, end)| (labels(&[("role", role)]), end.as_second() as f64));
        text.add("tuf_role_end_timestamp_seconds", GAUGE, "When a role of the TUF repository ends", ends);
    }
    let (public, now) = (snapshot.public(), crate::clock::now());
    text.add_fleet(snapshot, meter, versions, now);
    text.add_rollouts(&public.rollouts, now);
    // A string takes whatever is written to it.
    let _ = TextEncoder::new().encode_utf8(&requests.registry.gather(), &mut text.0);
    text.0
}

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// Metrics as text; each has a name that begins with `teleport_fleet_`.
#[derive(Default)]
struct MetricText(String);

impl MetricText {
    /// Numbers, each with its labels.
    fn add(&mut self, name: &str, kind: &str, help: &str, values: impl IntoIterator<Item = (String, f64)>) {
        // A string takes whatever is written to it.
        let _ = writeln!(self.0, "# HELP teleport_fleet_{name} {help}\n# TYPE teleport_fleet_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.0, "teleport_fleet_{name}{labels} {value}");
        }
    }

    /// One number.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.add(name, kind, help, [(String::new(), value)]);
    }

    /// Of those that share a database.
    fn add_servers(&mut self, servers: &[ServerStatus]) {
        let mut add = |name: &str, help: &str, value: fn(&ServerStatus) -> f64| {
            let of = |server: &ServerStatus| {
                let id = server.id.get(..8).unwrap_or_default();
                (labels(&[("server", &server.name), ("id", id), ("version", &server.version)]), value(server))
            };
            self.add(name, GAUGE, help, servers.iter().map(of));
        };
        if servers.is_empty() {
            return;
        }
        let help = "1 for a server that shares the store and was heard of within 10 s";
        add("server_up", help, |server| flag(server.is_there()));
        let help = "Writes of other servers that a server had not read";
        add("server_behind_writes", help, |server| count(server.behind));
        let help = "How much later it is in the database than on the host of a server";
        add("server_clock_offset_seconds", help, |server| server.clock_offset as f64 / 1000.0);
    }

    fn add_fleet(&mut self, snapshot: &Snapshot, meter: Option<&Meter>, versions: &[(String, u64)], now: Timestamp) {
        let hosts = u64::try_from(snapshot.hosts().len()).unwrap_or(u64::MAX);
        let build = (labels(&[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
        self.add("build_info", GAUGE, "The version of this server", [build]);
        let versions = versions.iter().map(|(version, hosts)| (labels(&[("version", version)]), count(*hosts)));
        let help = "Hosts by the version that they run: the most frequent ones, and all others as one";
        self.add("hosts_by_version", GAUGE, help, versions);
        let is_good = flag(snapshot.is_good());
        self.one("store_available", GAUGE, "1 while the store confirms what is answered", is_good);
        self.one("hosts", GAUGE, "Hosts that are known", count(hosts));
        let waiting = count(snapshot.waiting.get());
        self.one("hosts_waiting", GAUGE, "Hosts with a key that waits for an admin", waiting);
        let lost = count(snapshot.lost.get());
        self.one("questions_lost_total", COUNTER, "Questions that the core was too busy to note", lost);
        let kept = snapshot.kept().map(|(what, number)| (labels(&[("what", what)]), count(number)));
        self.add("kept", GAUGE, "What is remembered of those who ask; each is bounded", kept);
        let refused = count(snapshot.strangers.get());
        self.one("strangers_refused_total", COUNTER, "Requests of the admin API without a known token", refused);
        let told = |(result, attempts)| (labels(&[("receiver", WEBHOOK), ("result", result)]), count(attempts));
        let deliveries =
            meter.map(|meter| [("delivered", meter.delivered.get()), ("failed", meter.failed.get())].map(told));
        let help = "Notifications that were delivered, and attempts that failed";
        self.add("notifications_total", COUNTER, help, deliveries.into_iter().flatten());
        let oldest = meter.map(|meter| (labels(&[("receiver", WEBHOOK)]), count(meter.oldest(now))));
        let help = "Age of the oldest notification that was not delivered; 0: none";
        self.add("notification_oldest_seconds", GAUGE, help, oldest);
    }

    fn add_rollouts(&mut self, rollouts: &RolloutState, now: Timestamp) {
        let held = rollouts.holds.all || !rollouts.holds.groups.is_empty();
        self.one("held", GAUGE, "1 while an operator's halt lasts", flag(held));
        let number = rollouts.rollout.as_ref().map_or(0, |rollout| rollout.number);
        self.one("rollout", GAUGE, "Number of the rollout; 0: none", count(number));
        if let Some(rollout) = &rollouts.rollout {
            self.add_groups(&rollout.groups, now);
        }
    }

    fn add_groups(&mut self, groups: &[GroupStatus], now: Timestamp) {
        let labels_of = |group: &GroupStatus, state| labels(&[("group", &group.policy.name), ("state", state)]);
        let state = |group| State::ALL.map(|state| (labels_of(group, state.name()), flag(group.state == state)));
        self.add("group_state", GAUGE, "1 for the state that a group has", groups.iter().flat_map(state));
        let waits = |group: &GroupStatus| {
            let (why, since) = (&group.reason.why, now.duration_since(group.reason.since).as_secs());
            let labels = [("group", &*group.policy.name), ("reason", why.code()), ("who", &word(&why.who()))];
            (self::labels(&labels), count(u64::try_from(since).unwrap_or(0)))
        };
        let help = "Since when a group that is not done waits for the same reason";
        let not_done = groups.iter().filter(|group| group.state != State::Done);
        self.add("group_waits_seconds", GAUGE, help, not_done.map(waits));
        let tally = |group: &GroupStatus| {
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
            counts.map(|(state, value)| (labels_of(group, state), count(value)))
        };
        self.add("group_hosts", GAUGE, "Hosts of a group by state", groups.iter().flat_map(tally));
    }
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
