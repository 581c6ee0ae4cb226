use fleet_engine::fleet::Fleet;
use fleet_engine::rollout_state::RolloutState;
use proptest::prelude::*;
use protocol::find::{Dialect, Digests, Directive};
use serde_json::{Value, json};

use super::*;
use crate::reason::tests::every;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn answer(version: &str, update: bool, jitter: u32, why: Why) -> HostAnswer {
    HostAnswer {
        installer: None,
        attributes: std::collections::BTreeMap::new(),
        version: version.parse().unwrap(),
        target: None,
        update,
        jitter,
        rollout: 7,
        attempt: 2,
        group: "prod".to_owned(),
        reason: WaitReason { why, since: at("2026-01-05T11:00:00Z"), until: Some(at("2026-01-05T12:00:00.9Z")) },
    }
}

fn body(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap()
}

fn ask(form: Form, answer: &HostAnswer, cluster: &Cluster) -> Value {
    let reply = reply(form, answer, cluster, ReleaseDigests::default(), None);
    assert_eq!((reply.status, reply.content_type), (200, "application/json"));
    assert_eq!(reply.headers, [("cache-control", "no-store")]);
    body(&reply)
}

/// Everything that can be configured.
fn full() -> Cluster {
    Cluster {
        name: "example.com".to_owned(),
        server_version: Some("17.5.0".parse().unwrap()),
        edition: Some(Edition::EnterpriseFips),
        tools: Tools { version: Some("17.4.0".parse().unwrap()), auto_update: Some(true) },
        reports: Some(Wanted { epoch: 3, interval_seconds: 900 }),
    }
}

#[test]
fn a_reason_s_code_is_that_of_the_resources() {
    for why in every() {
        assert_eq!(json!(why)["code"], why.code());
    }
}

#[test]
fn to_strangers_a_reason_is_a_code_and_a_time_without_names_and_counts() {
    for why in every() {
        let expected = json!({ "code": why.code() });
        let said = json!(why);
        let said = said.as_object().unwrap().iter().filter(|(key, _)| *key != "code");
        let names: Vec<&str> = said.filter_map(|(_, value)| value.as_str()).filter(|name| !name.is_empty()).collect();
        for form in [Form::Flat, Form::Nested, Form::Ping] {
            let told = ask(form, &answer("17.2.1", false, 60, why.clone()), &Cluster::default());
            assert_eq!(told["fleet"]["why"], expected);
            assert_eq!(told["fleet"]["until"], "2026-01-05T12:00:00Z");
            let told = told.to_string();
            let read = protocol::reason::Told::parse(told.as_bytes()).unwrap();
            assert_eq!((read.code.as_str(), read.until.as_deref()), (why.code(), Some("2026-01-05T12:00:00Z")));
            assert!(!names.iter().chain(&["prod"]).any(|name| told.contains(&format!("\"{name}\""))), "{told}");
        }
    }
}

#[test]
fn each_dialect_has_the_keys_of_the_directive_both_programs_share() {
    for edition in [None, Some(Edition::Oss), Some(Edition::Enterprise), Some(Edition::EnterpriseFips)] {
        let answer = answer("v17.2.1", true, 60, Why::LetGo);
        let directive =
            Directive { version: answer.version.clone(), edition, in_window: true, jitter_seconds: answer.jitter };
        let cluster = Cluster { edition, ..Cluster::default() };
        for (form, dialect) in [(Form::Flat, Dialect::Flat), (Form::Nested, Dialect::Nested)] {
            let mut told = ask(form, &answer, &cluster);
            assert!(told.as_object_mut().unwrap().remove("fleet").is_some());
            assert_eq!(told, directive.write(dialect), "{form:?}");
        }
    }
}

#[test]
fn a_jitter_is_at_most_an_hour() {
    for (jitter, written) in [(0, 0), (3600, 3600), (3601, 3600), (u32::MAX, 3600)] {
        let answer = answer("17.2.1", true, jitter, Why::LetGo);
        let key = "agent_update_jitter_seconds";
        assert_eq!(ask(Form::Flat, &answer, &Cluster::default())[key], written);
        assert_eq!(ask(Form::Nested, &answer, &Cluster::default())["auto_update"][key], written);
    }
}

#[test]
fn what_is_configured_is_said_to_clients_of_proxies() {
    let answer = answer("17.2.1", true, 60, Why::LetGo);
    let mut nested = json!({
        "server_version": "17.5.0", "cluster_name": "example.com",
        "edition": "ent", "fips": true,
        "auto_update": {
            "tools_version": "17.4.0", "tools_auto_update": true,
            "agent_version": "17.2.1", "agent_auto_update": true, "agent_update_jitter_seconds": 60,
        },
        "fleet": {
            "report": { "epoch": 3, "interval_seconds": 900 }, "rollout": 7, "attempt": 2,
            "why": { "code": "let_go" }, "until": "2026-01-05T12:00:00Z",
        },
    });
    assert_eq!(ask(Form::Nested, &answer, &full()), nested);
    let flat = json!({
        "agent_version": "17.2.1", "agent_auto_update": true, "agent_update_jitter_seconds": 60,
        "server_edition": "enterprise-fips", "fleet": nested["fleet"],
    });
    assert_eq!(ask(Form::Flat, &answer, &full()), flat);
    nested["auth"] = json!({});
    nested["proxy"] = json!({});
    nested["automatic_upgrades"] = json!(true);
    assert_eq!(ask(Form::Ping, &answer, &full()), nested);
    let off = self::answer("17.2.1", false, 60, Why::Disabled);
    assert_eq!(ask(Form::Ping, &off, &full())["automatic_upgrades"], false);
}

#[test]
fn what_is_not_configured_is_not_said() {
    let told = ask(Form::Nested, &answer("17.2.1", true, 60, Why::LetGo), &Cluster::default());
    let mut keys: Vec<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    // `fips` is a boolean in every answer of today's proxies.
    assert_eq!(keys, ["auto_update", "fips", "fleet"]);
    assert_eq!(told["auto_update"].as_object().unwrap().len(), 3);
    assert_eq!(told["fleet"].as_object().unwrap().len(), 4);
}

#[test]
fn tools_without_a_version_of_their_own_have_the_servers() {
    let cluster = Cluster { tools: Tools::default(), ..full() };
    let told = ask(Form::Nested, &answer("17.2.1", true, 60, Why::LetGo), &cluster);
    assert_eq!(told["auto_update"]["tools_version"], "17.5.0");
    assert_eq!(told["auto_update"].get("tools_auto_update"), None);
}

fn put(shelf: &mut ResourceSet, book: &mut RolloutState, kind: &str, spec: &Value) {
    let resource =
        json!({ "kind": kind, "version": "v1", "metadata": { "name": kind.replace('_', "-") }, "spec": spec });
    shelf.put_json(&resource, 1, book).unwrap();
}

#[test]
fn tools_are_read_from_both_resources() {
    let (mut shelf, mut book) = (ResourceSet::default(), RolloutState::default());
    assert_eq!(Tools::of(&shelf), Tools::default());
    put(&mut shelf, &mut book, "autoupdate_version", &json!({ "tools": { "target_version": "v17.4.0" } }));
    put(&mut shelf, &mut book, "autoupdate_config", &json!({ "tools": { "mode": "enabled" } }));
    assert_eq!(Tools::of(&shelf), Tools { version: Some("17.4.0".parse().unwrap()), auto_update: Some(true) });
}

#[test]
fn digests_of_the_version_s_archives_are_by_edition_and_architecture() {
    let digest = Digest::of(b"x");
    let archives = [((Edition::Oss, Arch::Amd64), digest), ((Edition::EnterpriseFips, Arch::Arm64), digest)];
    let told = |digests| {
        let reply = reply(Form::Flat, &answer("17.2.1", true, 60, Why::LetGo), &Cluster::default(), digests, None);
        String::from_utf8(reply.body.to_vec()).unwrap()
    };
    let without = told(ReleaseDigests { archives: &archives, images: &[] });
    assert!(
        without.ends_with(&format!(r#""digests":{{"oss/amd64":"{digest}","enterprise-fips/arm64":"{digest}"}}}}}}"#))
    );
    assert!(!told(ReleaseDigests::default()).contains("digests"));
}

#[test]
fn an_agent_in_kubernetes_finds_the_digest_of_its_image() {
    let (archive, image) = (Digest::of(b"archive"), Digest::of(b"image"));
    let images = [("teleport-distroless".to_owned(), image)];
    for (form, archives) in [(Form::Flat, &[][..]), (Form::Nested, &[((Edition::Oss, Arch::Amd64), archive)])] {
        let digests = ReleaseDigests { archives, images: &images };
        let reply = reply(form, &answer("17.2.1", true, 60, Why::LetGo), &Cluster::default(), digests, None);
        let read = Digests::parse(&reply.body).unwrap();
        assert_eq!(read.of_image("teleport-distroless"), Some(image));
        assert_eq!(read.of_image("teleport-ent-distroless"), None);
        assert_eq!(read.get(Edition::Oss, Arch::Amd64), archives.first().map(|(_, digest)| *digest));
    }
}

#[test]
fn what_a_host_is_to_try_is_said_beside_the_rest_and_changes_nothing_of_it() {
    let order = r#"{"plan":"p","version":"18.0.0","installer":{"kind":"tuf"},"attributes":{"length":"7"}}"#;
    let told: DryRunOrder = serde_json::from_str(order).unwrap();
    for form in [Form::Flat, Form::Nested, Form::Ping] {
        let reply = |told| {
            let (answer, digests) = (answer("17.2.1", true, 60, Why::LetGo), ReleaseDigests::default());
            String::from_utf8(reply(form, &answer, &Cluster::default(), digests, told).body.to_vec()).unwrap()
        };
        let (with, without) = (reply(Some(&told)), reply(None));
        assert_eq!(DryRunOrder::parse(with.as_bytes()).as_ref(), Some(&told));
        assert_eq!(with.replace(&format!(r#","dry_run":{order}"#), ""), without);
    }
}

#[test]
fn without_any_rollout_it_is_404_no_rollout() {
    let reply = no_rollout();
    assert_eq!((reply.status, &body(&reply)["error"]["code"]), (404, &json!("no_rollout")));
    assert!(!body(&reply)["error"]["message"].as_str().unwrap().is_empty());
}

#[test]
fn a_stale_answer_has_the_same_version_and_lets_nobody_go() {
    for update in [true, false] {
        let fresh = answer("17.2.1", update, 60, Why::LetGo);
        let stale = stale(fresh.clone(), at("2026-01-05T11:59:00Z"));
        let told = ask(Form::Flat, &stale, &Cluster::default());
        assert_eq!(told["agent_version"], "17.2.1");
        assert_eq!(told["agent_auto_update"], false);
        assert_eq!(told["fleet"]["why"]["code"], "store_unavailable");
        assert_eq!((stale.rollout, stale.attempt, stale.jitter), (fresh.rollout, fresh.attempt, fresh.jitter));
    }
}

/// Who asks.
fn question(query: &str) -> Question {
    super::question(query).question
}

#[test]
fn a_question_says_whether_nobody_updates_by_its_answer() {
    for (query, is_dry_run) in [
        ("", false),
        ("dry_run=true", true),
        ("host=x&group=a&dry_run=true&update_id=y", true),
        ("dry_run=false&dry_run=true", false),
        ("dry_run=1", false),
        ("dry_run", false),
        ("xdry_run=true", false),
    ] {
        assert_eq!(super::question(query).is_dry_run, is_dry_run, "{query}");
    }
    // As the updater writes it.
    let asked = protocol::find::Question { dry_run: true, group: Some("a".to_owned()), ..Default::default() }.query();
    assert!(super::question(asked.trim_start_matches('?')).is_dry_run, "{asked}");
}

#[test]
fn whoever_asks_is_read_and_nothing_of_it_is_an_error() {
    let id = "4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d10";
    let asked = question(&format!("host={id}&group=a%20b&update_id={id}&x=1"));
    assert_eq!((asked.host, asked.group.as_str()), (ids::uuid(id), "a b"));
    assert_eq!(Some(asked.update_id), ids::uuid(id));
    let plain = id.replace('-', "").to_uppercase();
    assert_eq!(question(&format!("host={plain}")).host, ids::uuid(id));
    for none in
        ["", "host=", "host=web-1", "host=00000000-0000-0000-0000-000000000000", "host=%ff&update_id=x", "&&=&%"]
    {
        let asked = question(none);
        assert_eq!((asked.host, asked.group.as_str(), asked.update_id), (None, "", 0), "{none}");
    }
    // Of a name twice the first counts.
    let asked = question(&format!("group=a&group=b&host=x&host={id}"));
    assert_eq!((asked.group.as_str(), asked.host), ("a", None));
    // A group that no resource can have is as none.
    assert_eq!(question(&format!("group={}", "g".repeat(256))).group, "");
}

/// FLEET §4, through resource, engine and both dialects.
#[test]
fn the_rows_of_the_answer_table_are_written_in_both_dialects() {
    for (mode, schedule, version, update) in [
        ("disabled", "regular", "17.2.1", false),
        ("disabled", "immediate", "17.2.1", false),
        ("suspended", "immediate", "17.2.1", false),
        ("enabled", "immediate", "17.2.1", true),
        ("enabled", "regular", "17.2.0", false),
        ("suspended", "regular", "17.2.0", false),
    ] {
        let (mut shelf, mut book, mut fleet) = (ResourceSet::default(), RolloutState::default(), Fleet::default());
        let agents =
            json!({ "start_version": "17.2.0", "target_version": "17.2.1", "mode": mode, "schedule": schedule });
        put(&mut shelf, &mut book, "autoupdate_version", &json!({ "agents": agents }));
        let now = at("2026-01-05T11:30:00Z");
        book.step(&mut fleet, now);
        let answer = book.answer(&fleet, &question("group=nobody-knows"), now).unwrap();
        let flat = ask(Form::Flat, &answer, &Cluster::default());
        let nested = ask(Form::Nested, &answer, &Cluster::default());
        for told in [&flat, &nested["auto_update"]] {
            let told = (&told["agent_version"], &told["agent_auto_update"]);
            assert_eq!(told, (&json!(version), &json!(update)), "{mode} {schedule}");
        }
    }
}

proptest! {
    #[test]
    fn either_dialect_is_read_back_the_same(
        numbers in (0u64..100, 0u64..100, 0u64..100),
        edition in proptest::option::of(proptest::sample::select(vec![Edition::Oss, Edition::Enterprise, Edition::EnterpriseFips])),
        update: bool,
        jitter in 0u32..10_000,
        why in proptest::sample::select(every()),
    ) {
        let version = format!("{}.{}.{}-rc.1+x", numbers.0, numbers.1, numbers.2);
        let answer = answer(&version, update, jitter, why);
        let expected = Directive {
            version: answer.version.clone(),
            edition,
            in_window: update,
            jitter_seconds: jitter.min(3600),
        };
        for form in [Form::Flat, Form::Nested, Form::Ping] {
            let reply = reply(form, &answer, &Cluster { edition, ..full() }, ReleaseDigests::default(), None);
            prop_assert_eq!(&Directive::parse(&reply.body).unwrap().unwrap(), &expected);
        }
    }

    #[test]
    fn no_question_makes_a_panic(text in "((host|group|update_id)=([a-z0-9%+-]{0,40}|.{0,20})&?){0,6}") {
        question(&text);
    }
}
