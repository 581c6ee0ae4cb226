//! Seed 001 (RFD 0109): a test for each sentence of "Version Discovery Endpoint" and "Core Upgrade Model" that a host can keep.

use super::host::{CHANNEL, closed_window, open_window};
use crate::support::*;

/// Follows the channel, which says `version`, within a window that is closed.
fn closed(version: &str, more: &[&str]) -> Image {
    let image = Image::with(&[&[version], more].concat());
    image.say(version, "no");
    image.follow(&image.channel(), &[]).ok();
    assert_eq!(image.linked(), version);
    image.set_window(&closed_window());
    image
}

/// Has followed the channel, with `flags`, to 1.0.0; by now it says 1.1.0.
fn behind(flags: &[&str]) -> Image {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), flags).ok();
    image.say("1.1.0", "no");
    image
}

#[test]
fn the_current_target_can_be_queried_and_whether_it_is_critical() {
    let image = Image::with(&["1.0.0"]);
    image.say("1.0.0\n", "no\n");
    image.follow(&image.channel(), &[]).ok();
    assert_eq!(image.linked(), "1.0.0");
    // Static values of the form {apiversion}/{channel}/{value}; nobody is asked the find question.
    for value in ["version", "critical"] {
        let asked = image.cluster.requests_to(&format!("{CHANNEL}/{value}$"));
        assert!(asked.iter().all(|request| request.method == "GET" && request.query.is_empty()), "{asked:?}");
        assert!(!asked.is_empty());
    }
    assert!(image.cluster.requests_to("find").is_empty());
    let status = image.status();
    assert_eq!((status["source"].as_str(), &status["proxy"]), (Some(&*image.channel()), &serde_json::Value::Null));
    assert_eq!(status["source_reason"], "there is no maintenance window");
}

#[test]
fn a_version_is_a_semver_string_perhaps_with_v_and_white_space() {
    let image = closed("1.0.0", &["1.1.0", "1.2.0"]);
    image.say(" v1.1.0 \r\n", "yes");
    assert_eq!(image.update(), "1.1.0");
    for garbage in ["", "1", "1.2", "latest", "<html>1.2.0</html>", "1.2.0 1.3.0", "../1.2.0", "None"] {
        image.say(garbage, "yes");
        image.changes_nothing(&["update"], 1, "is not a version");
    }
    assert_eq!(image.last_result()["error_code"], "cluster_answer");
    image.say("none\n", "yes");
    image.changes_nothing(&["update"], 0, "says none");
    image.say("1.2.0", "yes");
    assert_eq!(image.update(), "1.2.0");
}

#[test]
fn the_string_yes_is_critical_and_any_other_value_is_not() {
    let image = closed("1.0.0", &["1.1.0"]);
    for other in ["no", "", "YES", "Yes", "true", "1", "y", "yes!", "yes yes", "\"yes\"", "<html>yes</html>"] {
        image.say("1.1.0", other);
        image.changes_nothing(&["update"], 0, "is closed");
    }
    // As `[[ "$CRITICAL" == "yes" ]]` reads what curl prints.
    image.say("1.1.0", "yes\n");
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn if_the_version_is_unavailable_no_update_is_attempted() {
    let mut image = closed("1.0.0", &["1.1.0"]);
    for status in [404, 403, 410, 500, 503] {
        image.cluster.set_page(&format!("{CHANNEL}/version"), &[(status, "1.1.0")]);
        image.cluster.set_page(&format!("{CHANNEL}/critical"), &[(200, "yes")]);
        image.changes_nothing(&["update", "--now"], 1, &status.to_string());
    }
    image.say("1.1.0", "yes");
    image.cluster.misbehave("/version", Misbehaviour::BadTls);
    image.changes_nothing(&["update"], 1, "/version");
    image.cluster.behave();
    // Cut on its way: of 1.1.0-rc the version 1.1.0 is left, which was not named.
    image.say("1.1.0-rc", "yes");
    image.cluster.misbehave("/version", Misbehaviour::NoLength);
    image.cluster.misbehave("/version", Misbehaviour::CutAfter { bytes: 5 });
    image.changes_nothing(&["update"], 1, "may be cut");
    image.cluster.behave();
    image.say("1.1.0", "yes");
    image.cluster.go_down();
    image.changes_nothing(&["update"], 1, "/version");
    assert_eq!(image.last_result()["error_code"], "network");
    image.cluster.come_up();
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn if_critical_is_unavailable_an_update_is_not_critical() {
    let image = closed("1.0.0", &["1.1.0"]);
    for status in [404, 500] {
        image.say("1.1.0", "yes");
        image.cluster.set_page(&format!("{CHANNEL}/critical"), &[(status, "yes")]);
        image.changes_nothing(&["update"], 0, "is closed");
    }
}

#[test]
fn a_critical_update_is_installed_outside_of_the_window_too() {
    let image = closed("1.0.0", &["1.1.0"]);
    image.say("1.1.0", "no");
    image.changes_nothing(&["update"], 0, "is closed and opens at");
    let status = image.run(&["status", "--format", "json", "--err-if-should-update-now"]).ok().json();
    assert_eq!((&status["in_window"], &status["agent_version_desired"]), (&false.into(), &"1.1.0".into()));
    image.say("1.1.0", "yes");
    let ran = image.run(&["status", "--err-if-should-update-now"]);
    assert_eq!(ran.status, 3, "{ran:#?}");
    assert_eq!(ran.json()["source_reason"], "1.1.0 is critical");
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn an_agent_downgrade_is_a_lower_version_of_the_channel_and_no_lower_major() {
    let image = Image::with(&["1.9.0", "2.0.0", "2.1.0"]);
    image.say("1.9.0", "no");
    image.follow(&image.channel(), &["--keep", "5"]).ok();
    for version in ["2.0.0", "2.1.0", "2.0.0"] {
        image.say(version, "no");
        assert_eq!(image.update(), version);
    }
    image.say("1.9.0", "yes");
    for command in [&["update"][..], &["update", "--now"], &["enable"], &["plan"]] {
        image.changes_nothing(command, 1, "lower than that of 2.0.0");
    }
    assert_eq!(image.last_result()["error_code"], "lower_major");
    // An operator's word is another thing.
    image.run(&["enable", "--force-version", "1.9.0"]).ok();
    assert_eq!(image.linked(), "1.9.0");
}

#[test]
fn an_update_that_is_critical_is_attempted_once_or_twice_an_hour() {
    let image = closed("1.0.0", &[]);
    // There is no such archive: each attempt fails.
    image.say("1.1.0", "yes");
    image.cluster.publish_bytes("teleport-v1.1.0-linux-amd64-bin.tar.gz", b"no archive");
    image.run(&["update"]).fails(1, "error");
    let asked = || image.cluster.requests_to("bin.tar.gz$").len();
    let first = asked();
    assert!(first > 0);
    for _ in 0..3 {
        image.changes_nothing(&["update"], 0, "next attempt at");
    }
    assert_eq!(asked(), first);
    let status = image.status();
    let delayed = &status["delayed"][0];
    let time = |key: &str| delayed[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    assert!((30 * 60..=60 * 60).contains(&(time("retry_at") - time("time"))), "{delayed}");
}

#[test]
fn updaters_obey_the_schedule_that_the_agent_emits() {
    let image = behind(&[]);
    let schedule = image.path("/etc/teleport-upgrade.d/schedule");
    std::fs::create_dir_all(schedule.parent().unwrap()).unwrap();
    // It comes before what an operator or a server says.
    image.set_window(&open_window());
    std::fs::write(&schedule, format!("{}\n", closed_window())).unwrap();
    image.changes_nothing(&["update"], 0, "is closed");
    std::fs::write(&schedule, "every Tuesday\n").unwrap();
    image.changes_nothing(&["update"], 1, "/etc/teleport-upgrade.d/schedule");
    std::fs::remove_file(&schedule).unwrap();
    // What cannot be read is not "no window".
    for odd in ["absent", "/etc", "/dev/zero", "schedule"] {
        std::os::unix::fs::symlink(odd, &schedule).unwrap();
        image.changes_nothing(&["update"], 1, "/etc/teleport-upgrade.d/schedule cannot be read");
        std::fs::remove_file(&schedule).unwrap();
    }
    std::fs::create_dir(&schedule).unwrap();
    image.changes_nothing(&["update"], 1, "/etc/teleport-upgrade.d/schedule cannot be read");
    std::fs::remove_dir(&schedule).unwrap();
    // As a drop-in of the timer: the rate is blanked, and OnCalendar set.
    let drop_in = image.path("/etc/systemd/system/teleport-upgrade.timer.d/override.conf");
    std::fs::create_dir_all(drop_in.parent().unwrap()).unwrap();
    let text = |window: &str| format!("[Timer]\nOnBootSec=\nOnUnitActiveSec=\nOnCalendar=\nOnCalendar={window}\n");
    std::fs::write(&drop_in, text(&closed_window())).unwrap();
    image.changes_nothing(&["update"], 0, "is closed");
    std::fs::write(&drop_in, text(&open_window())).unwrap();
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn the_servers_maintenance_schedule_counts_where_the_host_has_none() {
    let image = behind(&["--group", "a b"]);
    let schedule = |status, text: &str| image.cluster.set_page("/v1/maintenance-schedule", &[(status, text)]);
    let at = |hours: i64| jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + hours * 3600).unwrap();
    schedule(200, &format!("{{\"windows\":[{{\"start\":\"{}\",\"stop\":\"{}\"}}]}}", at(1), at(2)));
    image.changes_nothing(&["update"], 0, "is closed and opens at");
    let asked = image.cluster.requests_to("maintenance-schedule").pop().unwrap();
    assert_eq!(asked.parameter("group"), Some("a b"));
    schedule(200, "{\"windows\":[]}");
    image.changes_nothing(&["update"], 0, "is closed");
    // A window that ends before it begins, and what is no schedule: an error opens nothing.
    for wrong in [&*format!("{{\"windows\":[{{\"start\":\"{}\",\"stop\":\"{}\"}}]}}", at(2), at(1)), "{}", "soon"] {
        schedule(200, wrong);
        image.changes_nothing(&["update"], 1, "maintenance schedule");
    }
    schedule(500, "");
    image.changes_nothing(&["update"], 1, "500");
    schedule(200, &closed_window());
    image.changes_nothing(&["update"], 0, "is closed");
    // The operator's own comes before it.
    image.set_window(&open_window());
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn a_malformed_window_of_the_settings_is_an_error_and_keeps_nobody_from_status() {
    let image = closed("1.0.0", &["1.1.0"]);
    image.set_window("Tueday 02:00");
    image.say("1.1.0", "no");
    image.run(&["--log-format", "json", "update"]).refused("config_invalid");
    image.run(&["status", "--format", "json"]).ok();
    image.run(&["disable"]).ok();
}

#[test]
fn a_window_has_the_length_that_the_settings_say() {
    let image = closed("1.0.0", &["1.1.0"]);
    image.say("1.1.0", "no");
    image.changes_nothing(&["update"], 0, "is closed");
    // The window began 19 hours ago, and lasts 20.
    image.set("  window_length: 20h\n");
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn a_slash_in_the_name_of_a_channel_and_one_at_its_end_are_parts_of_its_url() {
    let image = Image::with(&["1.0.0"]);
    image.say("1.0.0", "no");
    image.follow(&format!("{}/", image.channel()), &[]).ok();
    assert!(image.cluster.requests_to("//version").is_empty());
}

#[test]
fn an_answer_of_a_megabyte_is_an_error_that_leaves_every_command_usable() {
    let image = behind(&[]);
    let schedule = |text: &str| image.cluster.set_page("/v1/maintenance-schedule", &[(200, text)]);
    // A line that grows with each quote that is escaped, one word, and beginnings of windows that would be looked at for hours.
    for text in ["\"".repeat(1_000_000), "\u{1b}".repeat(4_000), "Mon 02:00\n".repeat(90_000)] {
        schedule(&text);
        let ran = image.changes_nothing(&["update"], 1, "maintenance schedule");
        assert!(ran.stderr.len() < 2_000, "{} bytes", ran.stderr.len());
        image.run(&["status", "--format", "json"]).ok();
        assert!(image.config().len() < 20_000, "{} bytes", image.config().len());
    }
    assert_eq!(image.last_result()["error_code"], "cluster_answer");
    schedule(&"Mon 02:00\n".repeat(65));
    image.changes_nothing(&["update"], 1, "64 lines");
    schedule(&open_window());
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn no_content_is_no_schedule() {
    let image = closed("1.0.0", &["1.1.0"]);
    image.set_window("");
    image.cluster.set_page("/v1/maintenance-schedule", &[(204, "")]);
    image.say("1.1.0", "no");
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn the_schedule_that_the_agent_exports_for_systemd_is_windows_in_seconds() {
    let image = behind(&[]);
    let schedule = image.path("/etc/teleport-upgrade.d/schedule");
    std::fs::create_dir_all(schedule.parent().unwrap()).unwrap();
    let now = jiff::Timestamp::now().as_second();
    let put = |windows: &[(i64, i64)]| {
        let lines = windows.iter().map(|(from, to)| format!("{} {}\n", now + from, now + to));
        std::fs::write(&schedule, format!("# generated by teleport\n{}", lines.collect::<String>())).unwrap();
    };
    put(&[(-7200, -3600), (7200, 10_800), (3600, 5400)]);
    let next = jiff::Timestamp::from_second(now + 3600).unwrap();
    image.changes_nothing(&["update"], 0, &format!("is closed and opens at {next}"));
    put(&[(-7200, -3600)]);
    image.changes_nothing(&["update"], 0, "out of date");
    put(&[(-23 * 3600 - 60, -23 * 3600)]);
    image.changes_nothing(&["update"], 0, "out of date");
    // A window that ends before it begins, and more of them than anybody has.
    put(&[(3600, -3600)]);
    image.changes_nothing(&["update"], 1, "/etc/teleport-upgrade.d/schedule");
    put(&[(-3600, 3600); 65]);
    image.changes_nothing(&["update"], 1, "64 lines");
    put(&[(-7200, -3600), (-60, 3600)]);
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn a_schedule_whose_windows_are_all_past_is_a_failure_after_a_day_and_none_after_a_week() {
    let image = behind(&[]);
    let schedule = image.path("/etc/teleport-upgrade.d/schedule");
    std::fs::create_dir_all(schedule.parent().unwrap()).unwrap();
    let now = jiff::Timestamp::now().as_second();
    let ended = |hours: i64| {
        let end = now - hours * 3600;
        std::fs::write(&schedule, format!("{} {}\n{} {end}\n", end - 9000, end - 7200, end - 3600)).unwrap();
    };
    for hours in [25, 167] {
        ended(hours);
        let ran = image.changes_nothing(&["--log-format", "json", "update"], 1, "no later one since");
        assert_eq!(ran.error_code(), "schedule_stale");
        let status = image.status();
        assert_eq!(status["last_result"]["error_code"], "schedule_stale");
        assert!(status["source_stale"].as_str().unwrap().contains("maintenance windows"), "{status}");
    }
    // The operator's own window stands in for a schedule that counts no more.
    ended(169);
    image.set_window("2020-01-01 00:00 UTC");
    image.changes_nothing(&["update"], 1, "2020-01-01");
    image.set_window("");
    image.run(&["update"]).ok().says("it no longer counts");
    assert_eq!(image.update(), "1.1.0");
    // Nothing is kept back, but nobody is left without a word either.
    ended(25);
    image.run(&["update"]).ok().says("no later one since").says("nothing to do");
}

#[test]
fn an_urgent_version_without_an_archive_is_tried_once_or_twice_an_hour_too() {
    let image = closed("1.0.0", &[]);
    image.say("1.1.0", "yes");
    image.run(&["update"]).fails(1, "1.1.0");
    let asked = || image.cluster.requests_to("v1.1.0").len();
    let first = asked();
    assert!(first > 0);
    image.changes_nothing(&["update"], 0, "next attempt at");
    assert_eq!(asked(), first);
    // In its window it is tried as it comes.
    image.say("1.1.0", "no");
    image.set_window(&open_window());
    image.run(&["update"]).fails(1, "1.1.0");
    assert!(asked() > first);
}

#[test]
fn a_changed_digest_brings_no_more_tries_of_what_is_urgent() {
    let image = closed("1.0.0", &[]);
    image.say("1.1.0", "yes");
    let archive = "teleport-v1.1.0-linux-amd64-bin.tar.gz";
    image.cluster.publish_bytes(archive, b"no archive");
    image.run(&["update"]).fails(1, "error");
    image.cluster.publish_bytes(archive, b"another one");
    image.changes_nothing(&["update"], 0, "next attempt at");
}
