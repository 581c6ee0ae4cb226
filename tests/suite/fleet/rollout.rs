//! Rollouts as hosts meet them.

use super::front::Front;
use super::server::Fleet;
use crate::support::*;

#[test]
fn hosts_follow_a_rollout_group_by_group() {
    let fleet = Fleet::start(&["1.0.0", "2.0.0", "3.0.0"]);
    fleet.groups(&["dev", "prod"]);
    fleet.wish("1.0.0", "2.0.0");
    let (dev, prod) = (fleet.host(1, "dev"), fleet.host(2, "prod"));
    // What is not let go yet gets the start version.
    assert_eq!([dev.update(), prod.update()], ["1.0.0", "1.0.0"]);
    fleet.agents("start-update", "dev");
    assert_eq!([dev.update(), prod.update()], ["2.0.0", "1.0.0"]);
    fleet.until_state(&dev, "told");
    fleet.agents("mark-done", "dev");
    assert_eq!(prod.update(), "1.0.0");
    fleet.agents("start-update", "prod");
    assert_eq!([dev.update(), prod.update()], ["2.0.0", "2.0.0"]);
    fleet.agents("mark-done", "prod");
    for (host, group) in [(&dev, "dev"), (&prod, "prod")] {
        let known = fleet.known(host.uuid());
        assert_eq!((&known["group"], &known["declared_group"]), (&group.into(), &group.into()), "{known}");
    }
    // The next rollout begins anew: whoever is told then counts as told, though it was told a minute ago.
    fleet.wish("2.0.0", "3.0.0");
    fleet.agents("start-update", "dev");
    assert_eq!([dev.update(), prod.update()], ["3.0.0", "2.0.0"]);
    fleet.until_state(&dev, "told");
}

#[test]
fn a_host_that_reaches_only_the_path_of_todays_proxies_follows_as_well() {
    let fleet = Fleet::start_plain(&["1.0.0", "2.0.0"]);
    fleet.groups(&["dev", "prod"]);
    fleet.wish("1.0.0", "2.0.0");
    let front = Front::start(fleet.addr);
    fleet.trust(front.ca_pem());
    let dev = fleet.host_at(&front.proxy(), 1, "dev");
    let prod = fleet.host_at(&front.proxy(), 2, "prod");
    fleet.agents("start-update", "dev");
    front.asked();
    assert_eq!([dev.update(), prod.update()], ["2.0.0", "1.0.0"]);
    let query = |host: &str, group: &str| format!("find?host={host}&group={group}");
    let both = |query: String| [format!("/v1/webapi/{query}"), format!("/webapi/{query}")];
    let expected = [both(query(dev.uuid(), "dev")), both(query(prod.uuid(), "prod"))].concat();
    assert_eq!(front.asked(), expected);
    fleet.until_state(&dev, "told");
}

#[test]
fn whoever_only_looks_does_not_count_as_told() {
    let fleet = Fleet::start(&["1.0.0", "2.0.0"]);
    fleet.groups(&["dev"]);
    fleet.wish("1.0.0", "2.0.0");
    let (looks, acts) = (fleet.host(1, "dev"), fleet.host(2, "dev"));
    fleet.until_state(&looks, "pending");
    fleet.agents("start-update", "dev");
    // It sees what it would be told.
    let plan = looks.run(&["plan"]).ok().stdout;
    assert!(plan.starts_with("1.0.0 (oss) -> 2.0.0 (oss)"), "{plan}");
    let status: Value = serde_json::from_str(&looks.run(&["status", "--format", "json"]).ok().stdout).unwrap();
    assert_eq!((&status["agent_version_desired"], &status["in_window"]), (&"2.0.0".into(), &true.into()), "{status}");
    looks.run(&["status", "--err-if-should-update-now"]).fails(3, "");
    // What was asked before is counted before.
    assert_eq!(acts.update(), "2.0.0");
    fleet.until_state(&acts, "told");
    assert_eq!(fleet.known(looks.uuid())["state"], "let_go");
    assert_eq!(looks.update(), "2.0.0");
    fleet.until_state(&looks, "told");
}

#[test]
fn a_server_without_a_rollout_says_so_in_the_updaters_line() {
    let fleet = Fleet::start(&["1.0.0"]);
    let error = fleet.refused_host(1, "dev");
    assert!(error.contains("answered 404: there is no rollout, and none was done before"), "{error}");
    assert!(!error.contains("Teleport proxy"), "{error}");
}

#[test]
fn a_held_host_waits_and_a_halt_stops_those_that_were_not_told() {
    let fleet = Fleet::start(&["1.0.0", "2.0.0"]);
    fleet.groups(&["dev"]);
    fleet.wish("1.0.0", "2.0.0");
    let (held, first, last) = (fleet.host(1, "dev"), fleet.host(2, "dev"), fleet.host(3, "dev"));
    fleet.until_state(&held, "pending");
    fleet.ok(&["host", held.uuid(), "hold"]);
    fleet.agents("start-update", "dev");
    assert_eq!([first.update(), held.update()], ["2.0.0", "1.0.0"]);
    fleet.until_state(&first, "told");
    fleet.agents("halt", "dev");
    assert_eq!(fleet.state("dev"), "halted");
    let plan = last.run(&["plan"]).ok().stdout;
    assert!(plan.ends_with(" holds 2.0.0 back from this host: halted\n"), "{plan}");
    // Nobody new; and whoever went stays where it is.
    assert_eq!([last.update(), first.update(), held.update()], ["1.0.0", "2.0.0", "1.0.0"]);
    fleet.agents("run", "dev");
    assert_eq!([last.update(), held.update()], ["2.0.0", "1.0.0"]);
    fleet.ok(&["host", held.uuid(), "release"]);
    assert_eq!(held.update(), "2.0.0");
}

#[test]
fn each_reason_of_a_server_is_said_in_the_servers_words() {
    let image = Image::quiet("1.0.0");
    let newer = ("moon\u{1b}[2J_phase", "moon2J_phase");
    let known = protocol::reason::WORDS.map(|(code, ..)| (code, code));
    for (code, shown) in known.into_iter().chain([newer]) {
        let fleet = json!({"target": "1.1.0", "why": {"code": code}, "until": "2030-01-02T03:04:05Z"});
        let answer = json!({"agent_version": "1.0.0", "server_edition": "oss", "fleet": fleet});
        image.cluster.set_find_body(Some(answer.to_string().as_bytes()));
        // That the server itself says these, `fleet/wire` tests.
        let words = match protocol::reason::words(code, None) {
            words if words.is_empty() || words == shown => shown.to_owned(),
            words => format!("{words} ({shown})"),
        };
        let line = format!(
            "{} holds 1.1.0 back from this host: {words}; until 2030-01-02T03:04:05Z at the earliest",
            image.cluster.addr()
        );
        assert_eq!(image.run(&["plan"]).ok().stdout, format!("nothing to do: {line}\n"));
        assert_eq!(image.run(&["update"]).ok().stderr, format!("nothing to do: {line}\n"));
        let text = image.run(&["status", "--format", "text"]).ok().stdout;
        assert!(text.contains(&format!("Held back    {line}\n")), "{text}");
        let status = &image.status()["fleet"];
        assert_eq!((&status["why"], &status["until"]), (&shown.into(), &"2030-01-02T03:04:05Z".into()), "{status}");
    }
}

#[test]
fn a_server_that_dies_in_a_rollout_harms_no_host_and_goes_on_where_it_was() {
    let mut fleet = Fleet::start(&["1.0.0", "2.0.0"]);
    fleet.groups(&["dev", "prod"]);
    fleet.wish("1.0.0", "2.0.0");
    let (first, second, prod) = (fleet.host(1, "dev"), fleet.host(2, "dev"), fleet.host(3, "prod"));
    fleet.agents("start-update", "dev");
    assert_eq!(first.update(), "2.0.0");
    fleet.until_state(&first, "told");
    fleet.kill();
    for (host, version) in [(&first, "2.0.0"), (&second, "1.0.0"), (&prod, "1.0.0")] {
        let before = installed(host.root());
        host.run(&["update"]).fails(1, "error");
        assert_eq!(installed(host.root()), before);
        assert_eq!(host.version(), version);
        host.run(&["verify"]).ok();
    }
    fleet.begin();
    assert_eq!([fleet.state("dev"), fleet.state("prod")], ["active", "unstarted"]);
    assert_eq!([prod.update(), first.update(), second.update()], ["1.0.0", "2.0.0", "2.0.0"]);
    fleet.agents("mark-done", "dev");
    fleet.agents("start-update", "prod");
    assert_eq!(prod.update(), "2.0.0");
}

/// Every file, but for the record of the last run and the holder of the lock.
fn installed(root: &std::path::Path) -> Vec<String> {
    let mut tree = tree(root);
    tree.retain(|line| !line.contains("/updates.yaml ") && !line.contains("/.lock/"));
    tree
}
