//! What is said of a source, kept of it, and refused: flags, exit statuses, credentials, status, plan, notification only.

use super::host::{CHANNEL, closed_window, open_window};
use crate::support::*;

#[test]
fn an_unknown_scheme_is_a_usage_error_and_changes_nothing() {
    let image = Image::with(&["1.0.0"]);
    let before = image.tree();
    for source in [
        "tuf+https://h/x",
        "ftp://h/x",
        "updates.example.com",
        "channel+ftp://h/x",
        "channel+https://",
        "file://relative",
        "https://h/some/path",
        "http://h",
        "cincinnati+https://h/g#x",
        "https://me:secret@h/x",
    ] {
        let ran = image.follow(source, &[]);
        assert_eq!(ran.status, 2, "{source}: {ran:#?}");
        assert!(!format!("{ran:?}").contains("secret"), "{ran:#?}");
        assert_eq!(image.tree(), before, "{source}");
    }
    // By hand it is an error of the settings, for whoever needs it.
    image.set("  source: tuf+https://h/x\n  enabled: true\n");
    image.run(&["update"]).fails(1, "spec.source in updates.yaml").fails(1, "tuf+https://h/x");
    image.run(&["status"]).ok();
    image.run(&["disable"]).ok();
}

#[test]
fn what_is_not_encrypted_is_for_tests_alone() {
    let image = Image::with(&["1.0.0"]);
    image.say("1.0.0", "no");
    let plain = image.cluster.plain_base_url().replace("/cdn", CHANNEL);
    image.follow(&format!("channel+{plain}"), &[]).fails(2, "not an https:// URL");
    assert_eq!(image.linked(), "");
}

#[test]
fn another_server_is_asked_the_question_alone_and_the_known_proxy_stays() {
    let image = Image::with(&["1.0.0", "2.0.0"]);
    image.enable(&[]).ok();
    let dir = tempfile::tempdir().unwrap();
    let other = Cluster::start(dir.path());
    other.set_directive(Find::version("2.0.0"));
    let both = dir.path().join("both.pem");
    std::fs::write(&both, format!("{}{}", image.cluster.ca_pem(), other.ca_pem())).unwrap();
    image.cluster.forget_requests();
    let source = format!("https://{}", other.addr());
    image.run(&["enable", "--source", &source, "--ca-file", both.to_str().unwrap()]).ok();
    assert_eq!(image.linked(), "2.0.0");
    assert!(image.cluster.requests_to("find").is_empty() && !other.requests_to("find").is_empty());
    let status = image.status();
    assert_eq!((&status["source"], &status["proxy"]), (&Value::from(source.as_str()), &image.cluster.addr().into()));
    // Two words forget it, and a command without the flag leaves it.
    image.run(&["enable"]).ok();
    assert!(image.config().contains(&format!("source: {source}")), "{}", image.config());
    for word in ["", "default"] {
        image.run(&["enable", "--source", &source]).ok();
        image.run(&["enable", "--source", word]).ok();
        assert!(!image.config().contains("source:"), "{word:?}: {}", image.config());
        assert_eq!(image.linked(), "1.0.0");
    }
}

#[test]
fn credentials_of_a_source_are_kept_apart_and_sent_to_it_alone() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    let source = image.channel().replacen("://", "://me:s3cret@", 1);
    let ran = image.follow(&source, &[]).ok();
    assert!(!format!("{ran:?}{}", image.config()).contains("s3cret"), "{ran:#?}");
    let file = image.versions().join(".credentials");
    assert!(std::fs::read_to_string(&file).unwrap().contains("source: me:s3cret"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    image.say("1.1.0", "no");
    assert_eq!(image.update(), "1.1.0");
    let sent = image.cluster.requests_to(CHANNEL).pop().unwrap();
    assert_eq!(sent.header("authorization"), Some("Basic bWU6czNjcmV0"));
    let status = image.run(&["status", "--format", "json"]).ok();
    assert!(!status.stdout.contains("s3cret"), "{status:#?}");
    // Another source gets none of it.
    image.draw(&["1.1.0"], &[]);
    image.run(&["enable", "--source", &image.graph()]).ok();
    assert_eq!(image.cluster.requests_to("/v1/graph").pop().unwrap().header("authorization"), None);
    assert!(!file.exists() || !std::fs::read_to_string(&file).unwrap().contains("s3cret"));
}

#[test]
fn pin_holds_and_now_ignores_a_window_as_with_a_cluster() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    image.say("1.1.0", "yes");
    image.run(&["pin"]).ok();
    image.changes_nothing(&["update"], 0, "pinned");
    image.run(&["unpin"]).ok();
    image.say("1.1.0", "no");
    image.set_window(&closed_window());
    image.changes_nothing(&["update"], 0, "is closed");
    assert_eq!(image.run(&["plan", "--format", "json"]).ok().json()["action"], "none");
    let plan = image.run(&["plan", "--now", "--format", "json"]).ok().json();
    assert_eq!((&plan["action"], &plan["source"]), (&"update".into(), &image.channel().into()));
    assert!(plan["reason"].as_str().unwrap().contains("is closed"), "{plan}");
    image.run(&["update", "--now"]).ok();
    assert_eq!(image.linked(), "1.1.0");
}

#[test]
fn a_window_of_the_settings_narrows_a_clusters_own_and_never_widens_it() {
    let image = Image::with(&["1.0.0", "2.0.0"]);
    image.enable(&[]).ok();
    image.release("2.0.0");
    image.set_window(&closed_window());
    image.changes_nothing(&["update"], 0, "is closed");
    image.set_window(&open_window());
    image.cluster.set_directive(Find { auto_update: false, ..Find::version("2.0.0") });
    image.changes_nothing(&["update"], 0, "waits for the cluster's update window");
    image.release("2.0.0");
    assert_eq!(image.update(), "2.0.0");
}

#[test]
fn a_host_that_is_only_notified_installs_nothing() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "yes");
    // Not even the first version.
    image.follow(&image.channel(), &["--notify-only"]).ok();
    assert_eq!(image.linked(), "");
    assert!(image.cluster.requests_to("cdn").is_empty());
    image.run(&["enable", "--edition", "oss"]).ok();
    assert_eq!(image.linked(), "1.0.0");
    image.run(&["enable", "--notify-only"]).ok();
    image.say("1.1.0", "yes");
    for command in [&["update"][..], &["update", "--now"]] {
        image.changes_nothing(command, 0, "1.1.0 is available; it is not installed, because notify_only is set");
    }
    let due = image.run(&["status", "--format", "json", "--err-if-should-update-now"]);
    assert_eq!(
        (due.status, &due.json()["notify_only"], &due.json()["agent_version_desired"]),
        (3, &true.into(), &"1.1.0".into())
    );
    let text = image.run(&["status", "--format", "text"]).ok().stdout;
    assert!(text.contains("told, not installed") && text.contains(&image.channel()), "{text}");
    let plan = image.run(&["plan", "--format", "json"]).ok().json();
    assert_eq!(plan["action"], "none");
    image.run(&["enable"]).ok();
    assert_eq!(image.linked(), "1.1.0");
}

#[test]
fn a_source_needs_no_proxy_and_a_host_without_either_says_so() {
    let image = Image::with(&["1.0.0"]);
    image.run(&["enable", "--edition", "oss"]).fails(1, "no cluster address is known");
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    assert!(!image.config().contains("proxy:"), "{}", image.config());
}

#[test]
fn credentials_are_sent_to_the_server_that_they_were_given_for_alone() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel().replacen("://", "://me:s3cret@", 1), &[]).ok();
    image.say("1.1.0", "no");
    // By hand, to another server: as if this had been the other one.
    let file = image.versions().join(".credentials");
    let kept = std::fs::read_to_string(&file).unwrap();
    let server = format!("https://{}", image.cluster.addr());
    assert!(kept.contains(&server), "{kept}");
    std::fs::write(&file, kept.replace(&server, "https://other.example.com")).unwrap();
    image.cluster.forget_requests();
    assert_eq!(image.update(), "1.1.0");
    let sent = || image.cluster.requests_to(CHANNEL).iter().any(|asked| asked.header("authorization").is_some());
    assert!(!sent());
    // Nor does the next `enable` take them along.
    image.run(&["enable"]).ok();
    assert!(!sent() && !file.exists());
    // Of whom nobody wrote for which server they are, they are for the one of the settings.
    std::fs::write(&file, "source: me:s3cret\n").unwrap();
    image.run(&["update"]).ok();
    assert!(sent());
}

#[test]
fn a_password_that_an_editor_wrote_into_the_source_is_shown_to_nobody() {
    let mut image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    let secret = image.config().replace("channel+https://", "channel+https://me:s3c'ret@");
    std::fs::write(image.versions().join("updates.yaml"), secret).unwrap();
    image.set("  stale_after: 14d\n");
    let mut told = String::new();
    let mut hear = |image: &Image| {
        for command in [&["update"][..], &["status", "--format", "json"], &["status", "--format", "text"], &["plan"]] {
            told += &format!("{:?}", image.run(command));
        }
        told += image.config().split_once("\nstatus:").map_or("", |(_, status)| status);
    };
    image.say("1.1.0", "no");
    image.cluster.set_page("/v1/maintenance-schedule", &[(200, "nonsense")]);
    hear(&image);
    image.cluster.set_page("/v1/maintenance-schedule", &[(500, "")]);
    hear(&image);
    for version in ["nonsense", "none"] {
        image.say(version, "no");
        hear(&image);
    }
    let answers = std::fs::read_to_string(image.versions().join(".source-answers")).unwrap();
    image.cluster.go_down();
    hear(&image);
    assert!(!told.contains("s3c") && told.contains("***@"), "{told}");
    assert!(!answers.contains("s3c"), "{answers}");
}

#[test]
fn who_is_only_told_is_told_outside_of_the_window_too() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    image.set_window(&closed_window());
    image.say("1.1.0", "no");
    assert_eq!(image.run(&["status", "--err-if-should-update-now"]).status, 0);
    image.set("  notify_only: true\n");
    assert_eq!(image.run(&["status", "--err-if-should-update-now"]).status, 3);
}
