//! When a host reports, and what the server's answers do to it.

use protocol::report::{JOIN_HEADER, Outcome, PATH, Report, SIGNATURE_HEADER};
use rustix::process::Signal;
use testing::crash::live::flows::settings;

use super::reporting::{EPOCH, HOST, KEY, Reporting, last, outcomes, signed};
use crate::support::*;

/// An interval that no test outlasts, seconds.
const LONG: u32 = 86_400;
/// For what happens soon, on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_server_that_does_not_ask_gets_nothing() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "healthy");
    for fleet in [json!(null), json!({"rollout": 1, "attempt": 1}), json!({"report": "yes"})] {
        host.answer("1.0.0", &fleet);
        host.run("update", 0);
    }
    host.answer("2.0.0", &json!(null));
    host.run("update", 0);
    let enable = host.scene.enable();
    host.run(&enable, 0);
    let requests = host.scene.cluster.requests();
    assert!(requests.iter().all(|request| request.method != "POST"), "{requests:#?}");
    assert!(requests.iter().all(|request| request.headers.iter().all(|(name, _)| !name.starts_with("teleport-fleet"))));
    let kept = std::fs::read_to_string(host.cell.path(KEY)).unwrap_or_else(|_| "{}".into());
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert!(kept["seed"].is_null(), "{kept}");
    assert_eq!(host.status()["report"], "not asked for");
}

#[test]
fn an_update_reports_each_step_once_and_then_only_after_the_interval() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 4, 1, LONG);
    host.run("update", 0);
    let first = host.reports();
    assert_eq!(first.len(), 1, "{first:#?}");
    let report = &first[0];
    assert_eq!((report.host.as_str(), report.epoch), (HOST, EPOCH));
    assert_eq!((report.versions.installed.as_str(), report.versions.running.as_str()), ("1.0.0", "1.0.0"));
    assert_eq!(report.versions.desired, "1.0.0");
    assert!(report.enabled && !report.pinned && !report.recovery_pending);
    assert_eq!((report.edition.as_str(), report.arch.as_str()), ("oss", protocol::Arch::NATIVE.as_str()));
    assert!(report.updater.starts_with("teleport-update ") && !report.kernel.is_empty(), "{report:#?}");
    let mode = std::fs::metadata(host.cell.path(KEY)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    assert!(host.status()["report"].as_str().unwrap().starts_with("taken 2"));
    // Nothing is new.
    host.scene.cluster.forget_requests();
    host.run("update", 0);
    assert_eq!(host.scene.cluster.requests().len(), 1);
    host.posts();
    host.publish(2, "healthy");
    host.tell("2.0.0", 5, 2, LONG);
    host.run("update", 0);
    let reports = host.reports();
    let expected = [Outcome::Started, Outcome::Switched, Outcome::Updated].map(Some);
    assert_eq!(outcomes(&reports), expected, "{reports:#?}");
    for report in &reports {
        let change = report.last.clone().unwrap();
        assert_eq!((change.from.as_str(), change.to.as_str()), ("1.0.0", "2.0.0"));
        assert_eq!((change.rollout, change.attempt), (Some(5), Some(2)));
        assert!(report.sequence > first[0].sequence);
    }
    assert_eq!(reports[0].versions.running, "1.0.0");
    assert_eq!((reports[2].versions.running.as_str(), reports[2].versions.previous.as_str()), ("2.0.0", "1.0.0"));
    host.run("update", 0);
    assert_eq!(host.posts().len(), 0);
    // The interval is over.
    host.tell("2.0.0", 5, 2, 0);
    host.run("update", 0);
    assert_eq!(outcomes(&host.reports()), [Some(Outcome::Updated)]);
}

#[test]
fn a_failure_is_reported_with_its_code_and_its_line() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "exit-at-once");
    host.tell("2.0.0", 5, 1, LONG);
    host.run("update", 1);
    let reports = host.reports();
    assert_eq!(outcomes(&reports), [Some(Outcome::Started), Some(Outcome::RolledBack)], "{reports:#?}");
    let failed = last(&reports);
    assert_eq!((failed.from.as_str(), failed.to.as_str(), failed.code.as_str()), ("1.0.0", "2.0.0", "unhealthy"));
    assert!(!failed.error.is_empty() && !failed.error.contains('\n'), "{failed:#?}");
    assert_eq!(reports[1].versions.running, "1.0.0");
    // It waits: nothing new. In another rollout this is told once.
    host.run("update", 0);
    assert_eq!(host.posts().len(), 0);
}

#[test]
fn an_archive_that_does_not_come_is_a_failure_without_its_address() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("3.0.0", 5, 1, LONG);
    host.run("update", 1);
    let reports = host.reports();
    assert_eq!(outcomes(&reports), [Some(Outcome::Started), Some(Outcome::Failed)], "{reports:#?}");
    let failed = last(&reports);
    assert!(!failed.error.contains("localhost") && !failed.error.contains("://"), "{failed:#?}");
}

#[test]
fn what_a_hostile_server_does_with_a_report_changes_nothing() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "healthy");
    host.publish(3, "healthy");
    let elsewhere = format!("{}/elsewhere", host.scene.cluster.base_url());
    let hostile = [
        ("redirect", Misbehaviour::Redirect(elsewhere)),
        ("garbage", Misbehaviour::WrongType),
        ("huge", Misbehaviour::HugeBody(100 << 20)),
        ("error", Misbehaviour::Status(500, None)),
        ("cut", Misbehaviour::CloseBeforeResponse),
        ("headers", Misbehaviour::HugeHeaders(10 << 20)),
        ("drip", Misbehaviour::Slow { bytes_per_sec: 1 }),
    ];
    // Drop by drop this is hours.
    host.scene.cluster.set_page(PATH, &[(200, &" ".repeat(64 << 10))]);
    for (round, (name, how)) in hostile.into_iter().enumerate() {
        let target = if round % 2 == 0 { "2.0.0" } else { "3.0.0" };
        host.scene.cluster.misbehave(PATH, how);
        host.tell(target, 10 + round as u64, 1, LONG);
        let ran = host.run("update --now", 0);
        host.scene.cluster.behave();
        assert_eq!(host.status()["agent_version_installed"], target, "{name}");
        let requests = host.scene.cluster.requests();
        assert!(requests.iter().all(|request| !request.path.contains("elsewhere")), "{requests:#?}");
        let said = ran.said.matches("did not take this host's report").count();
        assert!(said == usize::from(name != "garbage"), "{name}: {}", ran.said);
        host.posts();
    }
}

#[test]
fn a_server_that_stalls_holds_up_no_update_and_is_asked_again_by_the_next_run() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "healthy");
    host.tell("2.0.0", 5, 1, LONG);
    host.scene.cluster.misbehave(PATH, Misbehaviour::Stall { after_bytes: 0 });
    let ran = host.run("update", 0);
    assert_eq!(ran.said.matches("did not take this host's report").count(), 1, "{ran:#?}");
    assert!(host.status()["report"].as_str().unwrap().starts_with("refused: "));
    host.scene.cluster.behave();
    host.posts();
    host.run("update", 0);
    assert_eq!(outcomes(&host.reports()), [Some(Outcome::Updated)]);
}

#[test]
fn while_the_last_report_hangs_another_command_has_the_lock() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, LONG);
    host.scene.cluster.misbehave_times(PATH, Misbehaviour::Hold { after_bytes: 0 }, 1);
    let mut hangs = host.cell.spawn(host.cell.updater(&["update".to_owned()])).unwrap();
    host.scene.cluster.until_held(SOON);
    // It hangs until it is told to go on, however long the other one takes.
    hangs.signal(Signal::STOP);
    host.run("pin", 0);
    assert!(hangs.is_alive().unwrap());
    hangs.signal(Signal::CONT);
    host.scene.cluster.behave();
    let ran = hangs.end().unwrap();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(host.status()["pinned"], true);
}

#[test]
fn a_report_says_who_the_host_is_what_was_set_and_how_long_its_change_took() {
    let Some(host) = Reporting::with(&(settings("1500ms", "300ms") + "  group: staging\n")) else { return };
    std::fs::write(host.cell.path("/etc/os-release"), "NAME=Any\nVERSION_ID=\"7\"\nID=plain\n").unwrap();
    host.publish(2, "healthy");
    host.tell("2.0.0", 5, 1, 0);
    host.run("update", 0);
    let asked = host.scene.cluster.requests_to("/v1/webapi/find")[0].query.clone();
    let asked = asked.into_iter().find(|(key, _)| key == "update_id").unwrap().1;
    let reports = host.reports();
    for report in &reports {
        assert_eq!((report.group.as_str(), report.os.as_str()), ("staging", "plain 7"));
        assert!(report.enabled && !report.pinned, "{report:#?}");
        assert_eq!((&report.update_id, report.update_id.len()), (&asked, "eb5f221f-0778-44ca-809a-b9bf9951f007".len()));
    }
    let phases = |report: &Report| report.last.clone().unwrap().phases;
    let names = |report: &Report| phases(report).into_keys().collect::<Vec<_>>();
    assert_eq!(reports.iter().map(names).collect::<Vec<_>>(), [vec![], vec!["change"], vec!["change", "watch"]]);
    // The watch is over.
    assert!(phases(&reports[2])["watch"] >= 300, "{reports:#?}");

    let flags = |line: &str| {
        host.run(line, 0);
        host.reports().iter().map(|report| (report.enabled, report.pinned)).collect::<Vec<_>>()
    };
    assert_eq!(flags("pin"), [(true, true)]);
    assert_eq!(flags("unpin"), []);
    assert_eq!(flags("disable"), []);
    assert_eq!(flags("update"), [(false, false)]);
}

#[test]
fn a_host_that_asks_nothing_stops_reporting_when_the_server_wants_no_reports() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, 0);
    host.run("update", 0);
    host.run("pin", 0);
    host.run("update", 0);
    host.posts();
    let unwanted = r#"{"error":{"code":"not_wanted","message":"this server takes no reports"}}"#;
    host.scene.cluster.set_page(PATH, &[(404, unwanted)]);
    let ran = host.run("update", 0);
    assert!(!ran.said.contains("did not take"), "{ran:#?}");
    let requests: Vec<_> = host.scene.cluster.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(requests, ["POST"]);
    host.posts();
    host.run("update", 0);
    assert!(host.scene.cluster.requests().is_empty());
    assert_eq!(host.status()["report"], "not asked for");
    // It asks again, and so does the server.
    host.run("unpin", 0);
    host.scene.cluster.set_page(PATH, &[(200, "{}")]);
    host.run("update", 0);
    assert_eq!(host.reports().len(), 1);
}

#[test]
fn a_host_goes_on_from_the_number_and_the_epoch_that_the_server_has() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, LONG);
    let high = 9_000_000_000_000_000_u64;
    let old = format!(r#"{{"error":{{"code":"other_epoch","message":"m"}},"epoch":8,"sequence":{high}}}"#);
    host.scene.cluster.set_page(PATH, &[(409, &old), (200, "{}")]);
    host.run("update", 0);
    let reports = host.reports();
    assert_eq!(reports.len(), 2, "{reports:#?}");
    assert_eq!((reports[0].epoch, reports[1].epoch, reports[1].sequence), (EPOCH, 8, high + 1));
    assert!(host.status()["report"].as_str().unwrap().starts_with("taken "));
    // A server that never agrees is asked twice, not for ever.
    host.scene.cluster.set_page(PATH, &[(409, &old)]);
    host.tell("1.0.0", 1, 1, 0);
    let ran = host.run("update", 0);
    assert_eq!(host.posts().len(), 2, "{ran:#?}");
}

#[test]
fn refusals_are_shown_and_asked_again_when_it_is_time() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, LONG);
    let conflict = r#"{"error":{"code":"key_conflict","message":"another key is known for this host"}}"#;
    host.scene.cluster.set_page(PATH, &[(409, conflict)]);
    let ran = host.run("update", 0);
    assert!(ran.said.contains("key_conflict"), "{ran:#?}");
    assert_eq!(host.status()["report"], "refused: key_conflict: another key is known for this host");
    // Not before the next interval.
    host.posts();
    host.run("update", 0);
    assert_eq!(host.posts().len(), 0);
    host.tell("1.0.0", 1, 1, 0);
    std::fs::remove_file(host.cell.path(KEY)).unwrap();
    host.scene.cluster.set_page(PATH, &[(202, "{}")]);
    let ran = host.run("update", 0);
    assert!(ran.said.contains("approves of this host"), "{ran:#?}");
    assert_eq!(host.status()["report"], "waits for approval");
    host.posts();
    // Another one is tried by each run, but where the server wants a rest.
    host.scene.cluster.misbehave(PATH, Misbehaviour::Status(429, Some(3600)));
    let ran = host.run("update", 0);
    assert!(ran.said.contains("reports later") && !ran.said.contains("warning"), "{ran:#?}");
    host.run("update", 0);
    assert_eq!(host.posts().len(), 1);
}

#[test]
fn a_clone_makes_a_key_of_its_own() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, LONG);
    host.run("update", 0);
    let key =
        |host: &Reporting| host.posts()[0].header(SIGNATURE_HEADER).unwrap().split(' ').nth(1).unwrap().to_owned();
    let first = key(&host);
    std::fs::write(host.cell.path("/etc/machine-id"), "fedcba9876543210fedcba9876543210\n").unwrap();
    host.run("update", 0);
    let second = key(&host);
    assert_ne!(first, second);
    let recorded = |host: &Reporting| host.key()["host"].as_str().unwrap().to_owned();
    assert!(recorded(&host).contains("machine:"), "{}", recorded(&host));
}

#[test]
fn an_image_has_no_key_and_an_uninstalled_host_keeps_its_own_and_is_silent() {
    let image = Image::new("1.0.0");
    let body = json!({"agent_version": "1.0.0", "server_edition": "oss", "agent_auto_update": true,
        "fleet": {"rollout": 1, "attempt": 1, "report": {"epoch": EPOCH, "interval_seconds": 1}}});
    image.cluster.set_find_body(Some(body.to_string().as_bytes()));
    image.enable(&[]).ok();
    image.run(&["update"]).ok();
    assert!(image.cluster.requests_to(PATH).is_empty() && !image.versions().join(".fleet-host").exists());

    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, 0);
    for line in ["status", "plan", "verify"] {
        host.run(line, 0);
    }
    assert_eq!(host.posts().len(), 0);
    let enable = host.scene.enable();
    host.run(&enable, 0);
    assert_eq!(host.reports().len(), 1);
    let key = host.key()["seed"].clone();
    host.run("uninstall --force", 0);
    assert_eq!(host.status()["report"], "not asked for");
    assert_eq!(host.posts().len(), 0);
    // It is as much the agent's as its host_uuid, which stays as well.
    assert_eq!(host.key()["seed"], key);
}

#[test]
fn a_join_token_goes_along_until_a_report_was_taken() {
    let Some(host) = Reporting::on_one() else { return };
    let kept = host.cell.path("/var/lib/teleport/versions/join-token");
    host.tell("1.0.0", 1, 1, 0);
    host.scene
        .cluster
        .set_page(PATH, &[(403, r#"{"error":{"code":"join_token_needed","message":"a token is needed"}}"#)]);
    let enable = host.scene.enable();
    host.run(&format!("{enable} --join-token-file /root/none"), 2);
    assert_eq!(host.posts().len(), 0);
    std::fs::write(host.cell.path("/root/token"), "s3cret-token\n").unwrap();
    let ran = host.run(&format!("{enable} --join-token-file /root/token"), 0);
    assert!(!ran.said.contains("s3cret"), "{ran:#?}");
    let mode = std::fs::metadata(&kept).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    host.scene.cluster.set_page(PATH, &[(200, "{}")]);
    host.run("update", 0);
    let posts = host.posts();
    assert_eq!(posts.len(), 2);
    for post in &posts {
        assert_eq!(post.header(JOIN_HEADER), Some("s3cret-token"));
        assert!(!String::from_utf8_lossy(&post.body).contains("s3cret"));
    }
    assert!(!kept.exists());
    host.run("update", 0);
    assert_eq!(host.posts()[0].header(JOIN_HEADER), None);
}

#[test]
fn labels_come_from_the_settings_and_from_the_agents_configuration() {
    let labels = "  labels: {env: prod, tier: \"1\"}\n";
    let Some(host) = Reporting::with(&(settings("1500ms", "0s") + labels)) else { return };
    let agent = "teleport:\n  data_dir: /var/lib/teleport\n  labels: {env: theirs}\nssh_service:\n  labels: {rack: r7}\n  \
                 commands: [{name: made, command: [echo, ssh], period: 1m}]\n";
    std::fs::write(host.cell.path("/etc/teleport.yaml"), agent).unwrap();
    host.tell("1.0.0", 1, 1, LONG);
    host.run("update", 0);
    let expected = [("env", "prod"), ("made", "ssh"), ("rack", "r7"), ("tier", "1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(host.reports()[0].labels, expected.into());
}

#[test]
fn labels_that_programs_print_are_bounded_in_time_and_kept_for_their_period() {
    let Some(host) = Reporting::on_one() else { return };
    let program = |words: &str, period: &str| format!("  - {{name: {words}, period: {period}}}\n");
    let agent = [
        "teleport:\n  data_dir: /var/lib/teleport\n  labels: {env: theirs, kind: static}\n  commands:\n".to_owned(),
        program("who, command: [id, -u]", "1h0m0s"),
        program("shown, command: [cat, /etc/shown]", "1h"),
        program("each, command: [cat, /etc/shown]", "0s"),
        program("kind, command: [echo, printed]", "1h"),
        program("fails, command: [cat, /etc/none]", "1h"),
        program("lines, command: [printf, 'a\\nb']", "1h"),
        program("hangs, command: [sleep, '1000']", "1h"),
    ];
    std::fs::write(host.cell.path("/etc/teleport.yaml"), agent.concat()).unwrap();
    std::fs::write(host.cell.path("/etc/shown"), "first\n").unwrap();
    host.tell("1.0.0", 1, 1, 0);
    host.run("update", 0);
    let label = |report: &protocol::report::Report, name: &str| report.labels.get(name).cloned();
    let first = &host.reports()[0];
    for (name, value) in
        [("who", "65534"), ("shown", "first"), ("each", "first"), ("kind", "printed"), ("env", "theirs")]
    {
        assert_eq!(label(first, name).as_deref(), Some(value), "{first:#?}");
    }
    assert_eq!(first.labels.len(), 5, "{first:#?}");
    std::fs::write(host.cell.path("/etc/shown"), "second\n").unwrap();
    host.run("update", 0);
    let second = &host.reports()[0];
    assert_eq!([label(second, "shown"), label(second, "each")].map(Option::unwrap), ["first", "second"]);
    // Another command is another label's value at once.
    let other = agent.concat().replace("[cat, /etc/shown], period: 1h", "[cat, /etc/shown, /etc/shown], period: 1h");
    std::fs::write(host.cell.path("/etc/teleport.yaml"), other.replace("name: who", "name: user")).unwrap();
    host.run("update", 0);
    let third = &host.reports()[0];
    assert_eq!((label(third, "who"), label(third, "user").as_deref()), (None, Some("65534")));
    assert_eq!(label(third, "shown"), None, "two lines are no label: {third:#?}");
}

#[test]
fn nothing_runs_for_labels_where_no_report_is_sent_or_the_lock_is_held() {
    let Some(host) = Reporting::on_one() else { return };
    let commands = "  commands: [{name: made, command: [/bin/sh, -c, 'echo x >>/var/tmp/ran; echo y'], period: 0s}]\n";
    let agent = format!("teleport:\n  data_dir: /var/lib/teleport\n{commands}");
    std::fs::write(host.cell.path("/etc/teleport.yaml"), agent).unwrap();
    std::fs::set_permissions(host.cell.path("/var/tmp"), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let runs = || std::fs::read_to_string(host.cell.path("/var/tmp/ran")).unwrap_or_default().lines().count();
    host.answer("1.0.0", &json!(null));
    host.run("update", 0);
    assert_eq!(runs(), 0, "nobody asks for reports");
    host.tell("1.0.0", 1, 1, LONG);
    host.run("update", 0);
    assert_eq!(runs(), 1);
    host.run("update", 0);
    assert_eq!(runs(), 1, "nothing is sent");
    // Three reports, the last of them without the lock.
    host.publish(2, "healthy");
    host.tell("2.0.0", 2, 1, LONG);
    host.posts();
    host.run("update", 0);
    assert_eq!((host.posts().len(), runs()), (3, 2));
}

#[test]
fn a_host_that_cannot_keep_its_key_updates_all_the_same() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "healthy");
    std::fs::create_dir_all(host.cell.path(KEY).join("full")).unwrap();
    host.tell("2.0.0", 5, 1, LONG);
    host.run("update", 0);
    assert_eq!(host.posts().len(), 0, "what was not kept is not sent");
    assert_eq!(host.status()["agent_version_installed"], "2.0.0");
    std::fs::remove_dir_all(host.cell.path(KEY)).unwrap();
    host.run("update", 0);
    assert_eq!(outcomes(&host.reports()).len(), 1);
}

#[test]
fn a_host_that_never_joined_reports_with_the_first_run_after_it_has() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, LONG);
    std::fs::remove_file(host.cell.path("/var/lib/teleport/host_uuid")).unwrap();
    host.run("update", 0);
    assert_eq!(host.posts().len(), 0);
    assert!(host.status()["report"].as_str().unwrap().starts_with("not sent yet: this host has no host_uuid"));
    std::fs::write(host.cell.path("/var/lib/teleport/host_uuid"), HOST).unwrap();
    host.run("update", 0);
    assert_eq!(signed(&host.posts()[0]).host, HOST);
}
