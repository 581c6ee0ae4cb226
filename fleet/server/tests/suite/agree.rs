//! What a host is answered, what `explain` says of it and what its page says: the same version, update, reason and time, in any
//! state that configuration, commands and reports lead to.

use std::fmt::Write as _;

use fleet_wire::reason::Reason;
use fleet_wire::text::time_to_come;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::reports::host::{Host, epoch};
use crate::support::visitor::Visitor;
use crate::support::{Server, request, start, version};

/// Changes of one life of a server.
const STEPS: u32 = 25;
/// Lives, by seed: each has another policy and other hosts.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Hosts with a key.
const HOSTS: u8 = 6;
const GROUPS: [&str; 3] = ["dev", "prod", "web"];

/// Numbers that look random, and are the same for a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(most).unwrap()).unwrap()
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    fn is(&mut self, per_cent: usize) -> bool {
        self.below(100) < per_cent
    }
}

/// A configuration: strategy, mode, windows, and what a group may have.
fn config(dice: &mut Dice) -> String {
    let is_timed = dice.is(25);
    let mode = dice.of(&["enabled", "enabled", "enabled", "suspended", "disabled"]);
    let (strategy, window) =
        if is_timed { ("time-based", "    maintenance_window_duration: 2h\n") } else { ("halt-on-error", "") };
    let mut text = format!(
        "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: \
         {mode}\n    strategy: {strategy}\n{window}    schedules:\n      regular:\n"
    );
    let now = jiff::Timestamp::now();
    for (index, name) in GROUPS.iter().enumerate() {
        let hour = (now.as_second() / 3600 + [0, 12, 23][dice.below(3)]) % 24;
        write!(text, "      - {{name: {name}, days: ['*'], start_hour: {hour}").unwrap();
        let more: [(usize, String); 6] = [
            (30, format!("max_in_flight: {}%", [0, 20, 50][dice.below(3)])),
            (if is_timed { 0 } else { 25 }, "canary_count: 2".to_owned()),
            (if is_timed || index == 0 { 0 } else { 25 }, "wait_hours: 2".to_owned()),
            (15, "approval: operator".to_owned()),
            (15, freeze(now)),
            (20, "max_failed_before_halt: 50%".to_owned()),
        ];
        for (_, key) in more.iter().filter(|(per_cent, _)| dice.is(*per_cent)) {
            write!(text, ", {key}").unwrap();
        }
        text.push_str("}\n");
    }
    text
}

fn freeze(now: jiff::Timestamp) -> String {
    let [from, to] = [-3600, 7200].map(|seconds| now + jiff::SignedDuration::from_secs(seconds));
    format!("blackout: [{{from: {from}, to: {to}, reason: holidays}}]")
}

/// One change of anything: whether it is refused does not matter.
fn step(server: &Server, dice: &mut Dice, hosts: &[Host], epoch: u64) -> String {
    let group = *dice.of(&GROUPS);
    let host = dice.of(hosts);
    let words: Vec<&str> = match dice.below(14) {
        0 => return write(server, &config(dice)),
        1 => {
            let (target, schedule) = (*dice.of(&["1.1.0", "1.2.0"]), *dice.of(&["regular", "regular", "immediate"]));
            return write(server, &version("1.0.0", target, schedule));
        }
        2 | 3 => vec!["autoupdate", "agents", "start-update", group],
        4 => vec!["autoupdate", "agents", "start-update", group, "--force"],
        5 => vec!["autoupdate", "agents", "halt", *dice.of(&[group, "--all"])],
        6 => vec!["autoupdate", "agents", "run", *dice.of(&[group, "--all"])],
        7 => vec!["autoupdate", "agents", "mark-done", group],
        8 => vec!["autoupdate", "agents", "rollback", group],
        9 => vec!["approve", group],
        10 => vec!["host", &host.id, *dice.of(&["hold", "release", "unassign"])],
        11 => vec!["host", &host.id, "assign", group],
        12 => return format!("{} asks: {:?}", host.id, host.asks(server, Some(epoch))),
        _ => return report(server, dice, host, epoch),
    };
    format!("{words:?}: {}", server.cli(&words).status)
}

fn write(server: &Server, text: &str) -> String {
    let status = server.cli_with(&["create", "--force", "-f", "-"], text).status;
    format!("{text}: {status}")
}

fn report(server: &Server, dice: &mut Dice, host: &Host, epoch: u64) -> String {
    let target = *dice.of(&["1.1.0", "1.2.0"]);
    let outcome = *dice.of(&["started", "switched", "updated", "rolled_back", "failed"]);
    let running = if outcome == "updated" { target } else { "1.0.0" };
    let mut report = host.says(epoch, running, Some((outcome, target, "unhealthy")));
    (report["pinned"], report["enabled"]) = (dice.is(10).into(), (!dice.is(10)).into());
    report["group"] = (*dice.of(&GROUPS)).into();
    format!("{} says {outcome} {target}: {}", host.id, host.sends(server.addr, &report).0)
}

/// What the three say of a host now.
fn said(server: &Server, page: &Visitor, token: &str, host: &str) -> [String; 3] {
    let find = request(server.addr, "GET", &format!("/v1/webapi/find?host={host}&dry_run=true"), "", "").1;
    let find: Value = serde_json::from_str(&find).unwrap();
    let explained = request(server.addr, "GET", &format!("/v1/fleet/hosts/{host}"), token, "").1;
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |version: &Value, update: &Value, code: &Value, until: &Value| {
        format!("{} {update} {} until {}", text(version), text(code), text(until))
    };
    let fleet = &find["fleet"];
    let answered = of(&find["agent_version"], &find["agent_auto_update"], &fleet["why"]["code"], &fleet["until"]);
    let explains = of(&explained["version"], &explained["update"], &explained["why"]["code"], &explained["until"]);
    // The page has sentences: those of what is explained.
    let mut reason = Reason::read(&explained["why"]);
    reason.until = Some(explained["until"].as_str().map(str::to_owned));
    let (version, update) = (text(&explained["version"]), explained["update"] == true);
    let told = match explained["why"]["code"].as_str() {
        Some("updated" | "went_back") => format!("{version}, which it runs"),
        _ if update => format!("update to {version}"),
        _ => format!("no update now (version named: {version})"),
    };
    let mut parts = vec![format!("<dd>{told}</dd>"), format!("<p class=\"why\">{}</p>", reason.sentence())];
    if let Some(until) = reason.until.as_ref().and_then(Option::as_deref).filter(|_| !reason.is_moving()) {
        parts.push(format!(">{}</small></dd>", time_to_come(until, &TimeZone::UTC)));
    }
    let html = unescaped(&page.get(&format!("/hosts/{host}")).body);
    let missing: Vec<&String> = parts.iter().filter(|part| !html.contains(*part)).collect();
    let shows = if missing.is_empty() { explains.clone() } else { format!("a page without {missing:?}") };
    [answered, explains, shows]
}

fn unescaped(html: &str) -> String {
    let marks = [("&#39;", "'"), ("&#34;", "\""), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    marks.iter().fold(html.to_owned(), |html, (mark, char)| html.replace(mark, char))
}

#[test]
fn find_explain_and_the_page_say_the_same_of_every_host_in_every_state() {
    for seed in SEEDS {
        let (_dir, server) = start();
        let dice = &mut Dice(seed);
        let token = &server.token("t", "viewer");
        let page = Visitor::with(&server, token);
        let bearer = format!("authorization: Bearer {token}\r\n");
        server.create(&format!("{}---\n{}", config(dice), version("1.0.0", "1.1.0", "regular")));
        let epoch = epoch(&server);
        let hosts: Vec<Host> = (1..=HOSTS).map(|number| Host::new(number, GROUPS[usize::from(number) % 3])).collect();
        for host in &hosts {
            assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200);
        }
        // One only asks; one never came.
        let asks = Host::new(100, "web");
        asks.asks(&server, None);
        let never = Host::new(101, "dev");
        let mut life = Vec::new();
        let mut codes = std::collections::BTreeSet::new();
        for _ in 0..STEPS {
            life.push(step(&server, dice, &hosts, epoch));
            for host in hosts.iter().chain([&asks, &never]) {
                let now = || said(&server, &page, &bearer, &host.id);
                // The engine may step between two of the questions.
                let is_one = |said: &[String; 3]| said[0] == said[1] && said[1] == said[2];
                let what = || format!("seed {seed}, host {}: {:#?}\n{}", host.id, now(), life.join("\n"));
                let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
                while !is_one(&now()) {
                    assert!(std::time::Instant::now() < end, "they do not agree: {}", what());
                    std::thread::yield_now();
                }
                codes.insert(now()[0].split(' ').nth(2).unwrap_or_default().to_owned());
            }
        }
        assert!(codes.len() >= 4, "seed {seed} led to {codes:?} alone");
    }
}
