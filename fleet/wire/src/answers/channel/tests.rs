use std::collections::BTreeMap;

use fleet_engine::reason::{WaitReason, Why};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;

fn version_of(text: &str) -> Version {
    text.parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn text(reply: &Reply) -> &str {
    assert_eq!((reply.status, reply.content_type), (200, TEXT));
    std::str::from_utf8(&reply.body).unwrap()
}

fn answer(version: &str, update: bool) -> HostAnswer {
    HostAnswer {
        installer: None,
        attributes: std::collections::BTreeMap::new(),
        version: version_of(version),
        target: None,
        update,
        jitter: 60,
        rollout: 1,
        attempt: 1,
        group: "prod".to_owned(),
        reason: WaitReason { why: if update { Why::LetGo } else { Why::NotYet }, since: at(0), until: None },
    }
}

#[test]
fn a_channel_s_name_may_have_slashes_and_the_last_element_is_the_verb() {
    for (sent, name, verb) in [
        ("default/version", "default", Verb::Version),
        ("stable/cloud/version", "stable/cloud", Verb::Version),
        ("stable/cloud/critical", "stable/cloud", Verb::Critical),
        ("version/version", "version", Verb::Version),
        ("a/version/critical", "a/version", Verb::Critical),
        ("stable%2Fcloud/version", "stable/cloud", Verb::Version),
        ("a+b/version", "a+b", Verb::Version),
    ] {
        assert_eq!(path(sent), Some((Cow::Borrowed(name), verb)), "{sent}");
    }
    for bad in ["version", "/version", "", "a", "a/", "a/versions", "a/Version", "%ff/version", "a/version/"] {
        assert_eq!(path(bad), None, "{bad}");
    }
    assert_eq!(path(&format!("{}/version", "x".repeat(256))), None);
}

#[test]
fn v1_is_without_v_and_with_a_line_feed_and_webapi_the_other_way_round() {
    let newest = version_of("v17.2.1-rc.1");
    assert_eq!(text(&version(Style::V1, Some(&newest), None)), "17.2.1-rc.1\n");
    assert_eq!(text(&version(Style::Webapi, Some(&newest), None)), "v17.2.1-rc.1");
    assert_eq!(text(&version(Style::V1, None, None)), "none\n");
    assert_eq!(text(&version(Style::Webapi, None, None)), "none");
    assert_eq!(text(&critical(true)), "yes");
    assert_eq!(text(&critical(false)), "no");
}

#[test]
fn a_larger_major_than_the_servers_becomes_the_servers_version() {
    let told = |channel: &str, servers: &str| {
        let reply = version(Style::Webapi, Some(&version_of(channel)), Some(&version_of(servers)));
        text(&reply).to_owned()
    };
    assert_eq!(told("18.0.0", "17.5.2"), "v17.5.2");
    assert_eq!(told("18.0.0-alpha.1", "17.5.2"), "v17.5.2");
    assert_eq!(told("100.0.0", "17.5.2"), "v17.5.2");
    // Within a major the channel may be ahead.
    assert_eq!(told("17.9.9", "17.5.2"), "v17.9.9");
    assert_eq!(told("16.0.0", "17.5.2"), "v16.0.0");
    assert_eq!(told("9.0.0", "10.0.0"), "v9.0.0");
    assert_eq!(text(&version(Style::Webapi, Some(&version_of("18.0.0")), None)), "v18.0.0");
    let reply = group(Style::V1, Verb::Version, Some(&answer("18.0.0", true)), false, Some(&version_of("17.0.0")));
    assert_eq!(text(&reply), "17.0.0\n");
}

#[test]
fn a_group_s_channel_is_critical_when_find_would_say_update() {
    for (update, always, expected) in
        [(false, false, "no"), (true, false, "yes"), (false, true, "yes"), (true, true, "yes")]
    {
        let answer = answer("17.2.1", update);
        assert_eq!(text(&group(Style::V1, Verb::Critical, Some(&answer), always, None)), expected);
        assert_eq!(text(&group(Style::V1, Verb::Version, Some(&answer), always, None)), "17.2.1\n");
    }
}

#[test]
fn a_stale_answer_lets_nobody_go_by_way_of_a_channel() {
    let stale = crate::answers::find::stale(answer("17.2.1", true), at(0));
    assert_eq!(text(&group(Style::V1, Verb::Version, Some(&stale), false, None)), "none\n");
    assert_eq!(text(&group(Style::V1, Verb::Critical, Some(&stale), false, None)), "no");
}

#[test]
fn channels_are_found_by_their_names() {
    let (mut shelf, mut book) = (ResourceSet::default(), fleet_engine::rollout_state::RolloutState::default());
    let spec = serde_json::json!({ "kind": "fleet_channel", "version": "v1", "metadata": { "name": "stable/cloud" },
        "spec": { "static_version": "17.2.1", "critical": true } });
    shelf.put_json(&spec, 1, &mut book).unwrap();
    let expected = Channel { source: ChannelSource::Static(Some(version_of("17.2.1"))), critical: true };
    assert_eq!(defined(&shelf, "stable/cloud"), Some(&expected));
    assert_eq!(defined(&shelf, "stable"), None);
    let frozen = serde_json::json!({ "kind": "fleet_channel", "version": "v1", "metadata": { "name": "frozen" },
        "spec": { "static_version": "none" } });
    shelf.put_json(&frozen, 2, &mut book).unwrap();
    assert_eq!(origin("frozen", |name| defined(&shelf, name), true), Some((ChannelSource::Static(None), false)));
    assert_eq!(text(&version(Style::V1, None, None)), "none\n");
}

#[test]
fn without_a_rollout_a_group_s_channel_has_no_version() {
    assert_eq!(text(&group(Style::V1, Verb::Version, None, false, None)), "none\n");
    assert_eq!(text(&group(Style::V1, Verb::Critical, None, false, None)), "no");
}

/// Where the answer of a channel comes from, and whether it is always critical.
fn origin<'a>(
    name: &str,
    defined: impl Fn(&str) -> Option<&'a Channel>,
    is_answering: bool,
) -> Option<(ChannelSource, bool)> {
    named(name, defined, is_answering).map(|found| (found.source.clone(), found.critical))
}

fn of_group(name: &str) -> Option<(ChannelSource, bool)> {
    Some((ChannelSource::Group(name.to_owned()), false))
}

fn channels() -> BTreeMap<&'static str, Channel> {
    let channel = |source, critical| Channel { source, critical };
    BTreeMap::from([
        ("old", channel(ChannelSource::Static(Some(version_of("16.0.0"))), true)),
        ("stable/cloud", channel(ChannelSource::Forward("https://example.com/v1/stable/cloud".to_owned()), false)),
        ("first", channel(ChannelSource::Group("canaries".to_owned()), false)),
    ])
}

#[test]
fn a_defined_channel_has_its_source_and_another_is_the_group_of_its_name() {
    let channels = channels();
    let defined = |name: &str| channels.get(name);
    for is_answering in [true, false] {
        assert_eq!(
            origin("old", defined, is_answering),
            Some((ChannelSource::Static(Some(version_of("16.0.0"))), true))
        );
        let forward = ChannelSource::Forward("https://example.com/v1/stable/cloud".to_owned());
        assert_eq!(origin("stable/cloud", defined, is_answering), Some((forward, false)));
        assert_eq!(origin("first", defined, is_answering), of_group("canaries"));
    }
    assert_eq!(origin("prod", defined, true), of_group("prod"));
    assert_eq!(origin("prod", defined, false), None);
}

#[test]
fn without_a_rollout_an_unknown_channel_is_the_default_one_if_that_is_defined() {
    let mut channels = channels();
    channels.insert("default", Channel { source: ChannelSource::Static(Some(version_of("15.0.0"))), critical: false });
    let defined = |name: &str| channels.get(name);
    assert_eq!(origin("prod", defined, false), Some((ChannelSource::Static(Some(version_of("15.0.0"))), false)));
    assert_eq!(origin("prod", defined, true), of_group("prod"));
}

#[test]
fn the_predefined_channels_exist_though_nobody_defined_them() {
    for name in ["default", "stable/cloud"] {
        assert_eq!(origin(name, |_| None, false), of_group(name));
    }
    assert_eq!(origin("stable", |_| None, false), None);
}

#[test]
fn an_unknown_channel_and_an_unreachable_one_are_errors_with_a_code() {
    for (reply, status, code) in [(unknown("x\"\n"), 404, "not_found"), (unreachable("x"), 502, "forward_failed")] {
        let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((reply.status, body["error"]["code"].as_str()), (status, Some(code)));
        assert!(!body["error"]["message"].as_str().unwrap().contains('\n'));
    }
}

#[test]
fn a_forwarded_version_is_trimmed_and_may_have_a_v() {
    for good in ["17.2.1", "v17.2.1", " v17.2.1\r\n", "17.2.1\n\n"] {
        assert_eq!(read_version(good.as_bytes()), Ok(Some(version_of("17.2.1"))), "{good}");
    }
    assert_eq!(read_version(b"none\n"), Ok(None));
    for bad in ["", "17.2", "latest", "None", "vv1.0.0", "1.0.0 2.0.0", "<html>1.0.0</html>", "v"] {
        assert!(read_version(bad.as_bytes()).is_err(), "{bad}");
    }
    assert!(read_version(b"\xff1.0.0").is_err());
    let error = read_version("x\n".repeat(1000).as_bytes()).unwrap_err();
    assert!(error.len() < 300 && !error.contains('\n'), "{error}");
}

#[test]
fn a_forwarded_channel_is_critical_by_exactly_yes() {
    for (body, expected) in
        [("yes", true), (" yes\n", true), ("YES", false), ("no", false), ("", false), ("yes!", false), ("true", false)]
    {
        assert_eq!(read_critical(body.as_bytes()), expected, "{body}");
    }
}

#[test]
fn a_forwarded_answer_is_fresh_for_a_minute_then_the_last_good_for_an_hour_then_nothing() {
    let mut forward = Forward::default();
    assert!(forward.is_due(at(0)));
    assert_eq!(forward.at(at(0)), None);
    forward.take(Some(1), at(0));
    for (seconds, due, said) in
        [(0, false, Some(&1)), (60, false, Some(&1)), (61, true, Some(&1)), (3600, true, Some(&1)), (3601, true, None)]
    {
        assert_eq!((forward.is_due(at(seconds)), forward.at(at(seconds))), (due, said), "{seconds} s");
    }
}

#[test]
fn a_server_that_fails_is_asked_once_a_minute_and_does_not_make_the_last_good_answer_younger() {
    let mut forward = Forward::default();
    forward.take(Some(1), at(0));
    for minute in 1..=60 {
        let now = at(minute * 60);
        forward.take(None, now);
        assert!(!forward.is_due(at(minute * 60 + 60)));
        assert_eq!(forward.at(now), Some(&1), "minute {minute}");
    }
    assert_eq!(forward.at(at(3601)), None);
    forward.take(Some(2), at(4000));
    assert_eq!(forward.at(at(4000)), Some(&2));
}

#[test]
fn while_it_is_asked_nobody_else_asks() {
    let mut forward = Forward::<u8>::default();
    forward.ask(at(0));
    assert!(!forward.is_due(at(5)));
    assert!(forward.is_due(at(61)));
    // The clock went back by a day.
    assert!(forward.is_due(at(-86_400)));
}

proptest! {
    #[test]
    fn nothing_that_a_server_sends_makes_a_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (read_version(&body), read_critical(&body));
    }

    #[test]
    fn no_path_makes_a_panic(sent in ".{0,300}") {
        let _ = path(&sent);
    }

    #[test]
    fn what_one_server_writes_another_one_reads(numbers in (0u64..30, 0u64..30, 0u64..30), v1: bool) {
        let sent = version_of(&format!("{}.{}.{}", numbers.0, numbers.1, numbers.2));
        let reply = version(if v1 { Style::V1 } else { Style::Webapi }, Some(&sent), None);
        prop_assert_eq!(read_version(&reply.body), Ok(Some(sent)));
    }

    #[test]
    fn a_last_good_answer_is_never_older_than_an_hour(asked in proptest::collection::vec((0i64..20_000, any::<bool>()), 0..20), now in 0i64..20_000) {
        let mut forward = Forward::default();
        let mut asked = asked;
        asked.sort_unstable();
        asked.retain(|(second, _)| *second <= now);
        for (second, good) in &asked {
            forward.take(good.then_some(*second), at(*second));
        }
        let newest = asked.iter().rfind(|(_, good)| *good).map(|(second, _)| *second);
        let expected = newest.filter(|second| SignedDuration::from_secs(now - second) <= SignedDuration::from_hours(1));
        prop_assert_eq!(forward.at(at(now)).copied(), expected);
    }
}
