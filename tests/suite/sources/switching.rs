//! One source after another, a source that vanishes, and one that lies.

use crate::support::*;

#[test]
fn a_host_goes_from_source_to_source_and_back_with_an_update_in_between() {
    let image = Image::with(&["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0"]);
    image.enable(&[]).ok();
    assert_eq!(image.linked(), "1.0.0");
    image.say("1.1.0", "no");
    image.run(&["enable", "--source", &image.channel()]).ok();
    assert_eq!(image.linked(), "1.1.0");
    image.draw(&["1.1.0", "1.2.0"], &[(0, 1)]);
    image.run(&["enable", "--source", &image.graph()]).ok();
    assert_eq!(image.linked(), "1.2.0");
    let file = image.root().with_file_name("release.yaml");
    std::fs::write(&file, "version: 1.3.0\n").unwrap();
    image.run(&["enable", "--source", &format!("file://{}", file.display())]).ok();
    assert_eq!(image.linked(), "1.3.0");
    image.say("1.3.0", "no");
    image.run(&["enable", "--source", &image.channel()]).ok();
    image.say("1.4.0", "no");
    assert_eq!(image.update(), "1.4.0");
    image.cluster.set_directive(Find::version("1.5.0"));
    image.run(&["enable", "--source", "default"]).ok();
    assert_eq!(image.linked(), "1.5.0");
    assert_eq!(image.status()["source"], serde_json::Value::Null);
}

#[test]
fn a_source_that_cannot_be_used_is_not_taken_over() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    // Neither one that answers nonsense nor one that answers not at all.
    image.changes_nothing(&["enable", "--source", &image.graph()], 1, "404");
    image.changes_nothing(&["enable", "--source", "file:///nowhere/release.yaml"], 1, "/nowhere/release.yaml");
    image.changes_nothing(&["enable", "--source", "channel+https://127.0.0.1:1/v1/x"], 1, "127.0.0.1:1");
    image.say("1.1.0", "no");
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn a_refusal_outlives_a_change_of_the_source() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    let refused = "status:\n  refused:\n    - version: 1.1.0\n      edition: oss\n      reason: ends\n      error_code: unhealthy\n";
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    let later = jiff::Timestamp::from_second(now.as_second() + 3600).unwrap();
    let times = format!("      time: \"{now}\"\n      count: 1\n      retry_at: \"{later}\"\n");
    let config = image.config();
    let spec = config.split("\nstatus:").next().unwrap().trim_end();
    std::fs::write(image.versions().join("updates.yaml"), format!("{spec}\n{refused}{times}")).unwrap();
    let file = image.root().with_file_name("release.yaml");
    std::fs::write(&file, "version: 1.0.0\n").unwrap();
    image.run(&["enable", "--source", &format!("file://{}", file.display())]).ok();
    std::fs::write(&file, "version: 1.1.0\ncritical: yes\n").unwrap();
    image.changes_nothing(&["update"], 0, "1.1.0 (oss) is not tried again yet (ends)");
}

#[test]
fn a_source_that_vanishes_is_an_error_that_is_written_down_once() {
    let mut image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    image.cluster.go_down();
    image.changes_nothing(&["update"], 1, "version");
    let written = image.config();
    image.changes_nothing(&["update"], 1, "version");
    assert_eq!(image.config(), written);
    let status = image.run(&["status", "--format", "json"]).ok();
    assert_eq!(status.json()["agent_version_desired"], serde_json::Value::Null);
    image.cluster.come_up();
    image.say("1.1.0", "no");
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn a_source_that_says_the_same_for_long_or_nothing_is_told_of() {
    let mut image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    let answers = image.versions().join(".source-answers");
    image.update();
    assert!(!answers.exists(), "nobody asked for it");
    image.set("  stale_after: 14d\n");
    let stale = |image: &Image| image.status()["source_stale"].clone();
    assert!(!image.run(&["update"]).ok().stderr.contains("stale"));
    assert!(stale(&image).is_null());
    // As if lines 2 and 3 had been written long ago: since when it names the version, and when it last answered.
    let of_old = |lines: &[usize]| {
        let text = std::fs::read_to_string(&answers).unwrap();
        let old = |(at, line): (usize, &str)| {
            if lines.contains(&at) { "2020-01-01T00:00:00Z".to_owned() } else { line.to_owned() }
        };
        std::fs::write(&answers, text.lines().enumerate().map(old).collect::<Vec<_>>().join("\n")).unwrap();
    };
    of_old(&[2]);
    let told = format!("{} has named 1.0.0 since 2020-01-01", image.channel());
    image.run(&["update"]).ok().says(&told).says("stale_after (14d)");
    assert!(stale(&image).as_str().unwrap().starts_with(&told));
    image.say("1.1.0", "no");
    assert_eq!(image.update(), "1.1.0");
    assert!(stale(&image).is_null());
    of_old(&[2, 3]);
    image.cluster.go_down();
    image.run(&["update"]).fails(1, "has not answered since 2020-01-01").says("stale_after (14d)");
    assert!(stale(&image).as_str().unwrap().contains("has not answered since 2020-01-01"));
    image.run(&["uninstall"]).ok();
    assert!(!answers.exists());
}

#[test]
fn against_a_source_that_lies_floors_editions_and_waits_hold() {
    let image = Image::with(&["2.0.0", "2.1.0", "2.0.1"]);
    let file = image.root().with_file_name("release.yaml");
    let say = |text: &str| std::fs::write(&file, text).unwrap();
    say("version: 2.0.0\n");
    image.follow(&format!("file://{}", file.display()), &["--min-version", "2.0.0"]).ok();
    // An older version.
    say("version: 1.9.0\ncritical: yes\n");
    image.changes_nothing(&["update", "--now"], 1, "min_version 2.0.0");
    // Another edition, of which there is no archive.
    say("version: 2.1.0\nedition: enterprise\n");
    image.run(&["update"]).fails(1, "teleport-ent");
    assert_eq!(image.linked(), "2.0.0");
    // One that flaps: after the fourth return the timer waits.
    let mut moves = 0;
    for round in 0..12 {
        let version = ["2.0.1", "2.1.0"][round % 2];
        say(&format!("version: {version}\nedition: oss\ncritical: yes\n"));
        let before = image.linked();
        let ran = image.run(&["update"]).ok();
        moves += usize::from(image.linked() != before);
        assert!(image.linked() == version || ran.stderr.contains("switched back and forth"), "{ran:#?}");
    }
    assert!((4..=7).contains(&moves), "{moves}");
}

#[test]
fn a_source_that_never_answered_is_told_of_and_what_is_kept_fails_no_update() {
    let mut image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    image.set("  stale_after: 14d\n");
    let answers = image.versions().join(".source-answers");
    image.cluster.go_down();
    image.run(&["update"]).fails(1, "error");
    let first = std::fs::read_to_string(&answers).unwrap();
    image.run(&["update"]).fails(1, "error");
    assert_eq!(std::fs::read_to_string(&answers).unwrap(), first, "it counts from the first time");
    let lines: Vec<&str> = first.lines().collect();
    assert_eq!((lines[1], lines[2]), ("none", lines[3]));
    std::fs::write(&answers, first.replace(lines[2], "2020-01-01T00:00:00Z")).unwrap();
    image.run(&["update"]).fails(1, "has not answered since 2020-01-01");
    image.cluster.come_up();
    // Who is only told keeps it too.
    image.set("  notify_only: true\n");
    image.run(&["update"]).ok();
    assert!(std::fs::read_to_string(&answers).unwrap().contains("\n1.0.0\n"));
    image.run(&["enable"]).ok();
    image.say("1.1.0", "no");
    std::fs::write(&answers, "x".repeat(1 << 20)).unwrap();
    assert_eq!(image.update(), "1.1.0");
    assert!(std::fs::read_to_string(&answers).unwrap().contains("\n1.1.0\n"), "it is replaced");
    // What cannot be replaced is told.
    std::fs::remove_file(&answers).unwrap();
    std::fs::create_dir_all(answers.join("x")).unwrap();
    image.say("1.0.0", "no");
    image.run(&["update"]).ok().says("cannot keep what the source answered");
    assert_eq!(image.linked(), "1.0.0");
}
