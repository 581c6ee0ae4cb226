//! Expected figures are counted by hand from FLEET §3 and the plans.

use fleet_engine::fleet::HostReport;
use fleet_engine::resource;
use fleet_wire::answers::ids;
use proptest::prelude::*;

use super::*;

const BEGIN: &str = "2026-01-05T00:00:00Z";

fn at(time: &str) -> Timestamp {
    format!("2026-01-{time}Z").parse().unwrap()
}

fn plan(groups: &str, hosts: HostSource) -> ForecastPlan {
    let text = format!(
        "kind: cluster_maintenance_config\nspec:\n  agent_auto_update_groups:\n    regular:\n{groups}---\n\
         kind: autoupdate_version\nspec: {{agent_version: 1.1.0, agent_start_version: 1.0.0}}\n"
    );
    ForecastPlan {
        resources: resource::read(&text).unwrap(),
        to: None,
        hosts,
        begin: BEGIN.parse().unwrap(),
        length: SignedDuration::from_hours(24 * 30),
        seed: 0,
        bad: HostShare::NONE,
        bad_label: None,
        bad_after: SignedDuration::ZERO,
        vanish: HostShare::NONE,
        cuts: Vec::new(),
        down: Vec::new(),
        update_in: SignedDuration::from_secs(90),
        every: SignedDuration::from_mins(10),
        size: 180_000_000,
    }
}

/// Two groups by label, an hour after one another; no failure is tolerated.
fn two(hosts: u32) -> ForecastPlan {
    let group = |name: &str, hour: u32, more: &str| {
        format!(
            "    - {{name: {name}, start_hour: {hour}, max_in_flight: 10%, agents: {{node_labels_expression: 'labels.g == \"{name}\"'}}{more}}}\n"
        )
    };
    plan(&(group("one", 4, "") + &group("two", 6, ", requires: [one]")), HostSource::Made(hosts))
}

fn spans(span: &str) -> Vec<Span> {
    vec![Span::parse(span).unwrap()]
}

#[test]
fn a_good_release_reaches_everybody_in_the_windows_of_the_groups() {
    let forecast = run(&two(200)).unwrap();
    assert_eq!((forecast.outcome, forecast.hosts, forecast.hit(), forecast.at_risk), (Outcome::Done, 200, 0, 0));
    let [one, two] = &forecast.groups[..] else { panic!("{:?}", forecast.groups.len()) };
    assert_eq!((one.start, two.start), (Some(at("05T04:00:00")), Some(at("05T06:00:00"))));
    for group in [one, two] {
        assert_eq!((group.hosts, group.told, group.updated, group.cap), (100, 100, 100, Some(10)));
        assert!(group.most_in_flight <= 10, "{}", group.most_in_flight);
        assert!(group.done > group.start);
    }
    assert_eq!(forecast.decided, two.done);
    assert_eq!(forecast.load.downloads(), 200);
    // 200 hosts ask every 600 seconds.
    assert_eq!(forecast.load.questions(), 33);
}

#[test]
fn a_bad_release_halts_in_the_first_group_and_the_second_is_spared() {
    let forecast = run(&ForecastPlan { bad: HostShare::parse("100%").unwrap(), ..two(200) }).unwrap();
    assert_eq!((forecast.outcome, forecast.at_risk), (Outcome::Halted, 200));
    let [one, two] = &forecast.groups[..] else { panic!() };
    let halt = one.halt.as_ref().unwrap();
    assert_eq!((halt.rule.name(), halt.count, one.state), ("failed_threshold", 1, State::Halted));
    // Two seconds after the report that crossed the threshold.
    let failed = one.curve.samples().iter().find(|sample| sample.failed > 0).unwrap().at;
    assert_eq!(i64::try_from(failed).unwrap(), halt.at.duration_since(forecast.begin).as_secs());
    assert!(forecast.hit() <= 10, "at most as many as may be in flight: {}", forecast.hit());
    assert_eq!((two.state, two.told, two.why.as_str()), (State::Unstarted, 0, "group one is halted"));
}

#[test]
fn only_hosts_with_the_label_are_hit() {
    let labels = |nth: u32| {
        [("g", if nth < 50 { "one" } else { "two" }), ("os", if nth.is_multiple_of(2) { "a" } else { "b" })]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    };
    let report = |nth: u32| HostReport {
        host: ids::parse(&format!("host-{nth}")),
        labels: Some(labels(nth)),
        ..HostReport::default()
    };
    let known = |nth: u32| KnownHost { report: report(nth), ..KnownHost::default() };
    let hosts = HostSource::Known((0..100).map(known).collect());
    let with = |label: &str| ForecastPlan {
        hosts: hosts.clone(),
        bad: HostShare::ALL,
        bad_label: Some(("os".to_owned(), label.to_owned())),
        ..two(0)
    };
    let forecast = run(&with("a")).unwrap();
    assert_eq!((forecast.at_risk, forecast.hosts), (50, 100));
    assert_eq!(run(&with("c")).unwrap_err(), "no host has the label os=c: there are g=one, g=two, os=a, os=b");
}

#[test]
fn hosts_that_never_come_back_are_lost_and_time_out() {
    // By default a tenth may time out.
    let groups = "    - {name: all, start_hour: 4, max_in_flight: 50%, timeout_seconds: 60}\n";
    let lost =
        |share: &str| ForecastPlan { vanish: HostShare::parse(share).unwrap(), ..plan(groups, HostSource::Made(100)) };
    let forecast = run(&lost("10%")).unwrap();
    let group = &forecast.groups[0];
    assert_eq!((group.lost, group.timed_out, group.updated, group.hit()), (10, 10, 90, 10));
    assert_eq!(forecast.outcome, Outcome::Done);
    let forecast = run(&lost("30%")).unwrap();
    assert_eq!(forecast.groups[0].halt.as_ref().unwrap().rule.name(), "timeout_threshold");
}

#[test]
fn a_release_that_breaks_later_halts_a_group_that_was_done() {
    let groups = "    - {name: all, start_hour: 4}\n";
    let late = ForecastPlan {
        bad: HostShare::parse("5%").unwrap(),
        bad_after: SignedDuration::from_hours(3),
        ..plan(groups, HostSource::Made(100))
    };
    let forecast = run(&late).unwrap();
    let group = &forecast.groups[0];
    let halt = group.halt.as_ref().unwrap();
    assert_eq!((halt.rule.name(), group.broken, group.updated), ("soak_failed", 5, 95));
    assert!(halt.at >= at("05T07:00:00"), "{}", halt.at);
}

#[test]
fn while_the_server_is_down_nobody_is_told() {
    let forecast = run(&ForecastPlan { down: spans("4h5m..5h"), ..two(200) }).unwrap();
    let one = &forecast.groups[0];
    let told = |minute: u64| CurveSample { at: 0, ..one.curve.at(minute * 60) };
    assert_eq!(told(4 * 60 + 6), told(4 * 60 + 59));
    assert!(told(4 * 60 + 6).updated < 100);
    assert_eq!((forecast.outcome, one.updated), (Outcome::Done, 100));
    assert_eq!(forecast.spans.len(), 1);
}

#[test]
fn hosts_that_are_cut_off_come_later() {
    let all = Cut { share: HostShare::ALL, span: spans("4h..4h30m")[0] };
    let forecast = run(&ForecastPlan { cuts: vec![all], ..two(200) }).unwrap();
    assert_eq!(forecast.groups[0].curve.at(4 * 3600 + 1800).updated, 0);
    assert_eq!(forecast.groups[0].updated, 100);
}

#[test]
fn an_empty_configuration_is_the_default_group_and_says_so() {
    let forecast = run(&ForecastPlan { resources: Vec::new(), ..two(10) }).unwrap();
    // Monday at noon.
    assert_eq!(forecast.groups[0].start, Some(at("05T12:00:00")));
    assert!(forecast.notes.iter().any(|note| note.starts_with("no configuration")));
    assert!(forecast.notes.iter().any(|note| note.starts_with("no autoupdate_version")));
}

#[test]
fn approvals_and_modes_are_no_obstacle_and_noted() {
    let groups = "    - {name: all, start_hour: 4, approval: operator}\n";
    let forecast = run(&plan(groups, HostSource::Made(10))).unwrap();
    assert_eq!(forecast.outcome, Outcome::Done);
    assert_eq!(forecast.notes, ["all asked for its approval: given at once"]);
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let of = |change: fn(&mut ForecastPlan)| {
        let mut plan = two(10);
        change(&mut plan);
        run(&plan).unwrap_err()
    };
    assert!(of(|plan| plan.hosts = HostSource::Made(0)).contains("no host"));
    assert!(of(|plan| plan.every = SignedDuration::from_secs(90)).contains("whole minutes"));
    assert!(of(|plan| plan.every = SignedDuration::from_mins(16)).contains("1m to 15m"));
    let made = |group: &str| HostSource::MadeFor(vec![Made { group: group.to_owned(), count: 1 }]);
    assert_eq!(
        run(&ForecastPlan { hosts: made("x"), ..two(1) }).unwrap_err(),
        "there is no group \"x\": there are one, two"
    );
    assert!(of(|plan| plan.hosts = HostSource::Made(6_000_000)).contains("too many"));
}

/// Tags open and close, attributes are quoted, no character is raw that may not be.
fn is_well_formed(xml: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(begin) = rest.find('<') {
        let text = &rest[..begin];
        let entity_is_known = |after: &str| ["amp;", "lt;", "gt;", "quot;"].iter().any(|name| after.starts_with(name));
        if text.contains('>') && !open.contains(&"style") || !text.split('&').skip(1).all(entity_is_known) {
            return false;
        }
        let Some(end) = rest[begin..].find('>') else { return false };
        let tag = &rest[begin + 1..begin + end];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or_default());
        }
        if tag.contains('<') || tag.matches('"').count() % 2 == 1 {
            return false;
        }
        rest = &rest[begin + end + 1..];
    }
    open.is_empty() && rest.trim().is_empty() && !xml.chars().any(|char| char.is_control() && char != '\n')
}

#[test]
fn the_checker_knows_what_is_not_well_formed() {
    assert!(is_well_formed("<a><b c=\"d\"/>x &amp; y</a>\n"));
    for bad in ["<a>", "<a></b>", "<a>&x</a>", "<a b=\"c></a>", "<a>\u{1}</a>", "<a></a>x"] {
        assert!(!is_well_formed(bad), "{bad}");
    }
}

#[test]
fn a_picture_is_well_formed_whatever_groups_are_called() {
    let groups = "    - {name: 'a<b>&\"c\"', start_hour: 4}\n";
    let forecast = run(&ForecastPlan { bad: HostShare::ALL, ..plan(groups, HostSource::Made(50)) }).unwrap();
    let svg = forecast.svg();
    assert!(is_well_formed(&svg), "{svg}");
    assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;") && svg.contains("prefers-color-scheme:dark"));
    for reference in ["href", "url(", "@import", "<script", "src="] {
        assert!(!svg.contains(reference), "{reference}");
    }
}

#[test]
fn text_and_json_say_the_same() {
    let forecast = run(&ForecastPlan { bad: HostShare::parse("100%").unwrap(), ..two(200) }).unwrap();
    let (text, json) = (forecast.text(), forecast.json());
    assert!(text.contains("Halted in one after") && text.contains("of 200 that this release would hit"), "{text}");
    assert_eq!((json["outcome"].as_str(), json["at_risk"].as_u64()), (Some("halted"), Some(200)));
    assert_eq!(json["blast_radius"].as_u64(), Some(forecast.hit()));
    assert_eq!(json["groups"][0]["halt"]["rule"], "failed_threshold");
    assert_eq!(json["groups"][1]["start"], serde_json::Value::Null);
    let last = json["groups"][0]["curve"].as_array().unwrap().last().unwrap();
    assert_eq!(last[2].as_u64(), Some(forecast.groups[0].updated));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Where no failure is tolerated, all that are hit were in flight at the halt: at most the cap. Canaries take slots too.
    #[test]
    fn the_blast_radius_is_never_above_the_cap(
        seed in any::<u64>(), hosts in 5_u32..400, percent in 1_u64..60, canaries in 0_u64..6, bad in 1_u32..100,
        length in 1_i64..1200,
    ) {
        let groups = format!("    - {{name: all, start_hour: 4, max_in_flight: {percent}%, canary_count: {canaries}, timeout_seconds: 900}}\n");
        let plan = ForecastPlan {
            seed, bad: HostShare::parse(&format!("{bad}%")).unwrap(), update_in: SignedDuration::from_secs(length),
            ..plan(&groups, HostSource::Made(hosts))
        };
        let forecast = run(&plan).unwrap();
        let cap = (u64::from(hosts) * percent).div_ceil(100);
        prop_assert!(forecast.hit() <= cap + canaries, "{} of {cap} and {canaries}", forecast.hit());
        prop_assert!(forecast.hit() <= forecast.at_risk);
        prop_assert!(forecast.groups[0].most_in_flight <= cap);
    }

    #[test]
    fn the_same_plan_gives_the_same_bytes_and_a_picture_that_is_well_formed(
        seed in any::<u64>(), hosts in 1_u32..300, bad in 0_u32..30, vanish in 0_u32..10,
    ) {
        let share = |percent: u32| HostShare::parse(&format!("{percent}%")).unwrap();
        let plan = ForecastPlan { seed, bad: share(bad), vanish: share(vanish), down: spans("4h10m..4h40m"), ..two(hosts) };
        let (one, other) = (run(&plan).unwrap(), run(&plan).unwrap());
        prop_assert_eq!(one.text(), other.text());
        prop_assert_eq!(one.json().to_string(), other.json().to_string());
        prop_assert_eq!(one.svg(), other.svg());
        prop_assert!(is_well_formed(&one.svg()));
    }
}

#[test]
fn the_policy_of_the_package_stops_a_bad_release_within_its_first_hundred_hosts() {
    let policy = include_str!("../../../../packaging/fleet/examples/policy.yaml");
    let bad = HostShare::parse("5%").unwrap();
    // Draws of hosts in which the canaries pass.
    for seed in [3, 4] {
        let plan = ForecastPlan { resources: resource::read(policy).unwrap(), bad, seed, ..two(30_000) };
        let forecast = run(&plan).unwrap();
        let [staging, production, critical] = &forecast.groups[..] else { panic!() };
        assert_eq!(forecast.outcome, Outcome::Halted);
        assert_eq!((production.told, critical.told), (0, 0));
        // Five canaries, and the hundred of the first hour. It breaks one in twenty: five of them; twice that is bad luck.
        assert!(staging.told > 5 && staging.told <= 105, "{}", staging.told);
        assert!((2..=10).contains(&forecast.hit()), "{}", forecast.hit());
    }
}
