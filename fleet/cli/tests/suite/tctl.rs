//! The texts of `tctl autoupdate`, as FLEET §6 has them, word for word.

use crate::support::{Done, Reply, Server, group, rollout};
use serde_json::{Value, json};

fn show(reply: Reply, arguments: &[&str]) -> Done {
    Server::new([reply]).run(arguments)
}

fn status(rollout: &Value) -> String {
    let done = show(Reply::json(rollout), &["autoupdate", "agents", "status"]);
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    done.out
}

#[test]
fn without_a_rollout_it_says_so_and_that_is_no_error() {
    let none = |words: &[&str]| {
        let held = json!({ "all": false, "groups": [], "released": [] });
        let server = Server::new([Reply::refused(404, "no_rollout", "there is no rollout"), Reply::json(&held)]);
        server.run(&[&["autoupdate", "agents", "status"], words].concat())
    };
    let text = "No active agent rollout (autoupdate_agent_rollout).\n";
    assert_eq!(none(&[]), Done::ok(text));
    let json = none(&["--format", "json"]);
    assert_eq!((json.status, json.json()), (0, json!({ "active": false })));
    assert_eq!(none(&["--format", "yaml"]), Done::ok("active: false\n"));
}

#[test]
fn what_is_held_is_shown_without_a_rollout_too_and_how_it_ends() {
    let held = |held: Value| {
        let server = Server::new([Reply::refused(404, "no_rollout", "there is no rollout"), Reply::json(&held)]);
        server.run(&["autoupdate", "agents", "status"]).out
    };
    let all = held(json!({ "all": true, "groups": ["prod"], "released": [] }));
    assert!(all.contains("everything is held by an operator, rollouts to come too; to end that: teleport-fleet autoupdate agents run --all\n"), "{all}");
    assert!(all.contains("prod: held by an operator, in rollouts to come too; to end that: teleport-fleet autoupdate agents run prod\n"), "{all}");
    let restored = held(json!({ "all": true, "cause": "restore", "groups": [], "released": [] }));
    assert!(restored.contains("everything is held by a restore, "), "{restored}");
}

#[test]
fn a_held_group_that_the_rollout_does_not_have_is_shown() {
    let mut resource = rollout("halt-on-error", "active", vec![group("dev", "active", None, "x", &json!({}))]);
    resource["status"]["holds"] = json!({ "all": false, "groups": ["dev", "my prod"], "released": [] });
    let text = status(&resource);
    assert!(text.contains("\nmy prod: held by an operator, in rollouts to come too; to end that: teleport-fleet autoupdate agents run 'my prod'\n"), "{text}");
    assert!(!text.contains("dev: held"), "{text}");
}

/// FLEET §4: a store that does not answer lets nobody go, whatever the groups say.
#[test]
fn a_store_that_does_not_answer_is_shown_with_a_rollout_and_without_one() {
    let why = json!({ "code": "store_unavailable", "since": "2025-01-15T13:00:00Z", "until": null, "who": "time" });
    let line = "\nthe server does not reach its store: until it does, no host is allowed to update, since 2025-01-15 13:00:00 UTC\n";
    let groups = || vec![group("dev", "active", None, "x", &json!({}))];
    for schedule in ["regular", "immediate"] {
        let mut resource = rollout("halt-on-error", "active", groups());
        resource["spec"]["schedule"] = schedule.into();
        for words in [&["autoupdate", "agents", "status"][..], &["autoupdate", "status"]] {
            let text = |resource: &Value| show(Reply::json(resource), words).out;
            assert!(!text(&resource).contains("store"), "{}", text(&resource));
            let mut down = resource.clone();
            down["status"]["store_unavailable"] = why.clone();
            assert!(text(&down).contains(line), "{schedule}, {words:?}: {}", text(&down));
            let json = show(Reply::json(&down), &[words, &["--format", "json"]].concat()).json();
            assert_eq!(json["store_unavailable"], why);
        }
    }
    let held = json!({ "all": false, "groups": [], "released": [], "store_unavailable": why });
    let none = |words: &[&str]| {
        let server = Server::new([Reply::refused(404, "no_rollout", "there is no rollout"), Reply::json(&held)]);
        server.run(&[&["autoupdate", "agents", "status"], words].concat())
    };
    assert!(none(&[]).out.ends_with(line), "{}", none(&[]).out);
    assert_eq!(none(&["--format", "json"]).json(), json!({ "active": false, "store_unavailable": why }));
}

#[test]
fn the_status_is_a_head_a_blank_line_and_a_table_with_a_space_behind_each_column() {
    let groups = vec![
        group("dev", "done", Some("2025-01-15T12:00:00Z"), "update_complete", &json!({})),
        group("prod", "unstarted", None, "created", &json!({ "why": { "code": "done" } })),
    ];
    assert_eq!(
        status(&rollout("halt-on-error", "active", groups)),
        "Agent autoupdate mode: enabled\n\
         Rollout creation date: 2025-01-15 02:00:00\n\
         Start version: 1.2.3\n\
         Target version: 1.2.4\n\
         Rollout state: Active\n\
         Strategy: halt-on-error\n\
         \n\
         Group Name State     Start Time          State Reason    \n\
         ---------- --------- ------------------- --------------- \n\
         dev        Done      2025-01-15 12:00:00 update_complete \n\
         prod       Unstarted                     created         \n"
    );
}

#[test]
fn counts_appear_with_the_first_agent_and_mark_the_catch_all() {
    let groups = vec![
        group(
            "dev",
            "canary",
            Some("2025-01-15T12:00:00Z"),
            "waiting_for_canaries",
            &json!({
                "present_count": 7, "up_to_date_count": 2, "canary_count": 5,
                "canaries": [{ "success": true }, { "success": false }, { "success": true }],
            }),
        ),
        group("prod", "rolledback", None, "manual_rollback", &json!({})),
    ];
    let text = status(&rollout("halt-on-error", "rolledback", groups));
    let table: Vec<&str> = text.lines().skip(7).collect();
    assert_eq!(
        table,
        [
            "Group Name       State        Start Time          State Reason         Agent Count Up-to-date ",
            "---------------- ------------ ------------------- -------------------- ----------- ---------- ",
            "dev              Canary (2/5) 2025-01-15 12:00:00 waiting_for_canaries 7           2          ",
            "prod (catch-all) Rolledback                       manual_rollback      0           0          ",
        ]
    );
}

#[test]
fn groups_that_require_each_other_have_no_catch_all() {
    let groups = vec![group("dev", "active", None, "can_start", &json!({ "present_count": 7 }))];
    assert!(!status(&rollout("requires", "active", groups)).contains("catch-all"));
}

#[test]
fn a_line_is_left_out_for_what_is_not_known() {
    let mut resource = rollout("time-based", "active", Vec::new());
    resource["status"] = json!({ "groups": [] });
    let text = status(&resource);
    assert!(!text.contains("Rollout creation date") && !text.contains("Rollout state"), "{text}");
}

#[test]
fn the_immediate_schedule_has_a_sentence_in_place_of_the_table() {
    let mut resource = rollout("halt-on-error", "active", Vec::new());
    resource["spec"]["schedule"] = "immediate".into();
    resource["status"].as_object_mut().unwrap().remove("state");
    assert_eq!(
        status(&resource),
        "Agent autoupdate mode: enabled\n\
         Rollout creation date: 2025-01-15 02:00:00\n\
         Start version: 1.2.3\n\
         Target version: 1.2.4\n\
         Schedule is immediate. Every group immediately updates to the target version.\n"
    );
}

#[test]
fn below_the_table_each_group_that_waits_says_why_and_what_to_do() {
    let why = json!({
        "code": "halted", "rule": "canary_failed", "count": 1, "of": 5, "error": "unhealthy",
        "since": "2025-01-15T03:00:00Z", "until": null, "who": "operator",
        "advice": { "command": { "run": { "groups": ["dev"], "all": false } } },
    });
    let waits = json!({
        "code": "previous_groups_not_done", "group": "dev", "since": "2025-01-15T02:00:00Z",
        "until": "2025-01-16T02:00:00Z", "who": "hosts",
        "advice": { "command": { "start": { "groups": ["my prod"], "force": false } } },
    });
    let groups = vec![
        group("dev", "halted", None, "canary_failed", &json!({ "why": why })),
        group("my prod", "unstarted", None, "previous_groups_not_done", &json!({ "why": waits })),
        group("last", "done", None, "update_complete", &json!({})),
    ];
    let text = status(&rollout("halt-on-error", "active", groups));
    let below = text.split_once("last       Done      ").unwrap().1;
    assert_eq!(
        below.split_once('\n').unwrap().1,
        "\ndev: halted (canary_failed): 1 of 5 hosts failed, a canary among them; most often: unhealthy, since \
         2025-01-15 03:00:00 UTC; to try again: teleport-fleet autoupdate agents run dev\n\
         my prod: group dev is not done, since 2025-01-15 02:00:00 UTC; until 2025-01-16 02:00:00 UTC at the earliest; to \
         start now: teleport-fleet autoupdate agents start-update 'my prod'\n"
    );
}

#[test]
fn the_status_for_programs_has_the_keys_of_tctl() {
    let canaries = json!([{ "success": true }, { "success": false }]);
    let more = json!({ "present_count": 3, "up_to_date_count": 1, "canary_count": 2, "canaries": canaries });
    let groups = vec![group("dev", "canary", Some("2025-01-15T12:00:00Z"), "can_start", &more)];
    let done = show(
        Reply::json(&rollout("halt-on-error", "active", groups)),
        &["--format", "json", "autoupdate", "agents", "status"],
    );
    let json = done.json();
    for (key, value) in [
        ("active", json!(true)),
        ("autoupdate_mode", json!("enabled")),
        ("rollout_creation_date", json!("2025-01-15T02:00:00Z")),
        ("start_version", json!("1.2.3")),
        ("target_version", json!("1.2.4")),
        ("state", json!("active")),
        ("schedule", json!("regular")),
        ("strategy", json!("halt-on-error")),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
    for (key, value) in [
        ("name", json!("dev")),
        ("state", json!("canary")),
        ("start_time", json!("2025-01-15T12:00:00Z")),
        ("last_update_reason", json!("can_start")),
        ("present_count", json!(3)),
        ("up_to_date_count", json!(1)),
        ("catch_all", json!(true)),
        ("canary_success_count", json!(1)),
        ("canary_count", json!(2)),
    ] {
        assert_eq!(json["groups"][0][key], value, "{key}");
    }
}

#[test]
fn the_report_is_a_table_of_versions_by_groups_and_says_who_is_left_out() {
    let counts = json!({
        "at": "2025-01-15T02:00:00Z", "reports": 2, "expired": 1,
        "counts": [
            { "group": "prod", "version": "10.0.0", "count": 4 },
            { "group": "dev", "version": "9.1.0", "count": 1 },
            { "group": "dev", "version": "10.0.0", "count": 12 },
        ],
        "omitted": [{ "count": 3, "reason": "updater is disabled" }, { "count": 2, "reason": "agent has no updater" }],
    });
    assert_eq!(
        show(Reply::json(&counts), &["autoupdate", "agents", "report"]),
        Done::ok(
            "1 autoupdate agent reports aggregated\n\
             \n\
             Agent Version dev prod \n\
             ------------- --- ---- \n\
             9.1.0         1   0    \n\
             10.0.0        12  4    \n\
             \n\
             5 agents were omitted from the reports:\n\
             - 3 omitted because: updater is disabled\n\
             - 2 omitted because: agent has no updater\n"
        )
    );
    let json = show(Reply::json(&counts), &["autoupdate", "agents", "report", "--format", "json"]).json();
    assert_eq!(json["report_count"], 1);
    assert_eq!(json["groups"], json!(["dev", "prod"]));
    assert_eq!(json["versions"], json!(["9.1.0", "10.0.0"]));
    assert_eq!(json["counts"], counts["counts"]);
    assert_eq!(json["omitted"], counts["omitted"]);
}

#[test]
fn reports_that_say_nothing_say_so() {
    let counts =
        |reports, expired| json!({ "at": null, "reports": reports, "expired": expired, "counts": [], "omitted": [] });
    let report = |reports, expired| show(Reply::json(&counts(reports, expired)), &["autoupdate", "agents", "report"]);
    assert_eq!(report(1, 0), Done::ok("1 autoupdate agent reports aggregated\n\nReports contain no agents.\n"));
    assert!(report(0, 0).out.starts_with("No autoupdate_agent_report found.\n"));
    assert_eq!(report(0, 0).status, 0);
    assert_eq!(
        report(2, 2),
        Done {
            status: 1,
            out: "Read 2 reports, but they are expired. If you just (re)deployed the Auth service, you might want to \
                  retry after 60 seconds.\n"
                .to_owned(),
            err: "error: reports expired\n".to_owned(),
        }
    );
}

/// A command and its sentence; what the server is asked.
fn act(arguments: &[&str], groups: &[&str]) -> (String, Value) {
    let afterwards = rollout("halt-on-error", "active", vec![group("a", "active", None, "manual_trigger", &json!({}))]);
    let acted = json!({
        "groups": groups,
        "rollout": afterwards,
        "effects": { "lets_go": 12, "goes_down": 0, "halted_before": false },
    });
    let server = Server::new([Reply::json(&acted)]);
    let done = server.run(arguments);
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    let asked = server.asked().remove(0);
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/fleet/commands"));
    let (sentence, rest) = done.out.split_once('\n').unwrap();
    assert!(rest.starts_with("New agent rollout status:\n\nAgent autoupdate mode: enabled\n"), "{rest}");
    assert!(rest.ends_with("\nOf the fleet: 12 hosts may update now, 0 downgrade.\n"), "{rest}");
    (sentence.to_owned(), asked.body["command"].clone())
}

#[test]
fn commands_say_what_they_did_in_the_words_of_tctl() {
    let agents = ["autoupdate", "agents"];
    let act = |words: &[&str], groups: &[&str]| act(&[&agents, words].concat(), groups);
    assert_eq!(
        act(&["start-update", "a", "b"], &["a", "b"]),
        (
            "Successfully started updating agents groups: [a b].".to_owned(),
            json!({ "start": { "groups": ["a", "b"], "force": false } })
        )
    );
    assert_eq!(
        act(&["start-update", "a", "--force"], &["a"]).1,
        json!({ "start": { "groups": ["a"], "force": true } })
    );
    assert_eq!(
        act(&["mark-done", "a"], &["a"]),
        ("Successfully marked agent groups as completed: [a].".to_owned(), json!({ "mark_done": { "groups": ["a"] } }))
    );
    assert_eq!(
        act(&["rollback"], &["a", "b"]),
        (
            "Successfully rolled back already started groups.".to_owned(),
            json!({ "rollback": { "groups": [], "all_started": true, "at_once": false } })
        )
    );
    assert_eq!(
        act(&["rollback", "a", "--at-once"], &["a"]),
        (
            "Successfully rolled back the following agent groups: [a].".to_owned(),
            json!({ "rollback": { "groups": ["a"], "all_started": false, "at_once": true } })
        )
    );
    assert_eq!(act(&["halt", "--all"], &["a"]).1, json!({ "halt": { "groups": [], "all": true } }));
    assert_eq!(act(&["run", "a"], &["a"]).1, json!({ "run": { "groups": ["a"], "all": false } }));
}

#[test]
fn a_command_that_names_no_group_is_an_error() {
    for verb in ["start-update", "mark-done", "halt", "run"] {
        let done = Server::new([]).run(&["autoupdate", "agents", verb]);
        assert_eq!((done.status, done.out.as_str()), (1, ""), "{verb}");
        assert!(done.err.starts_with("error: no groups specified"), "{verb}: {}", done.err);
    }
    let done = Server::new([]).run(&["autoupdate", "agents", "start-update"]);
    assert_eq!(done.err, "error: no groups specified\n");
}

#[test]
fn a_dry_run_changes_nothing_and_says_so() {
    let acted = json!({
        "groups": ["a"], "rollout": {}, "effects": { "lets_go": 3, "goes_down": 2, "halted_before": false },
    });
    let server = Server::new([Reply::json(&acted)]);
    let done = server.run(&["autoupdate", "agents", "start-update", "a", "--dry-run"]);
    assert!(done.out.starts_with("Nothing was changed (--dry-run)"), "{}", done.out);
    assert!(done.out.contains("3 hosts may update now, 2 downgrade"), "{}", done.out);
    assert_eq!(server.asked()[0].body["dry_run"], true);
}
