//! Where fuzzing of the rollout server starts from: the documents of its pages, and questions that were once hard.

use crate::seeds::{Seeds, numbered};

const RESOURCES: &str = include_str!("../../../../docs/fleet-resources.md");
const ROLLOUTS: &str = include_str!("../../../../docs/rollouts.md");
const SIMULATE: &str = include_str!("../../../../docs/simulate.md");

/// What a server has that is asked.
pub(super) const WORLD: &str = "kind: autoupdate_config
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - {name: dev, days: ['*'], start_hour: 12}
      - {name: prod, days: [Mon, Tue], start_hour: 5, wait_hours: 24, blackout: [{from: 2026-01-06T00:00:00Z, to: 2026-01-09T00:00:00Z, reason: x}]}
---
kind: autoupdate_version
spec: {agents: {start_version: 1.2.3, target_version: 1.2.4, schedule: regular, mode: enabled}}
---
kind: fleet_channel
metadata: {name: stable/cloud}
spec: {group: dev}
---
kind: fleet_channel
metadata: {name: upstream}
spec: {forward_url: 'https://updates.example.com/v1/stable'}
---
kind: fleet_channel
metadata: {name: frozen}
spec: {static_version: 17.2.0, critical: true}
---
kind: fleet_release
metadata: {name: one}
spec: {version: 1.2.3, channels: [stable, dev], barrier: true}
---
kind: fleet_release
metadata: {name: two}
spec: {version: 1.2.4, channels: [stable], rollout: {start: 2026-01-01T00:00:00Z, start_value: 0.1, duration_minutes: 60}}
";

const RELEASES: &str = "kind: fleet_release
metadata: {name: a}
spec: {version: 1.0.0, channels: [stable], barrier: true}
---
kind: fleet_release
metadata: {name: b}
spec: {version: 1.1.0, channels: [stable, dev], rollout: {start: 2026-01-05T11:30:00Z, start_value: 0.1, duration_minutes: 60}, digests: {oss/amd64: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881}}
---
kind: fleet_release
metadata: {name: c}
spec: {version: 1.2.0-rc.1, channels: [dev], deadend: true, rollout: {start: 2026-01-01T00:00:00Z}}
---
kind: fleet_release
metadata: {name: d}
spec: {version: 1.2.0, channels: [stable], requires_from: [1.1.0], critical: true, rollout: {start: 2026-01-01T00:00:00Z}}
---
kind: fleet_release
metadata: {name: e}
spec: {version: 1.3.0, channels: [stable], blocked: {reason: x}, barrier: true}
";

/// Questions of graphs.
const GRAPHS: [&str; 6] = [
    "channel=stable&arch=amd64&version=1.0.0",
    "channel=stable&id=4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d10",
    "stream=stable&basearch=x86_64&rollout_wariness=0.5&node_uuid=4b9a8a2c53b54e219bb72f7c1f4c6d10&os_version=1.0.0",
    "stream=dev&basearch=aarch64&rollout_wariness=1e309",
    "channel=none",
    "channel=a&channel=%61&arch=x",
];

/// The seeds of each target.
pub(crate) fn all() -> Vec<(&'static str, Seeds)> {
    let documents: Vec<String> = [RESOURCES, ROLLOUTS].into_iter().flat_map(|page| blocks(page, "yaml")).collect();
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let reports: Vec<&str> = documents.iter().copied().filter(|text| text.contains("agent_report")).collect();
    assert!(documents.len() > 8 && !reports.is_empty(), "the pages have lost their documents");
    let graphs: Vec<String> = GRAPHS.iter().map(|query| format!("{query}\n{RELEASES}")).collect();
    let graphs: Vec<&str> = graphs.iter().map(String::as_str).collect();
    let scripts = scripts();
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    vec![
        ("fleet_admin", numbered(ADMIN)),
        ("fleet_counts", numbered(&[&reports, COUNTS].concat())),
        ("fleet_graph", numbered(&graphs)),
        ("fleet_labels", numbered(LABELS)),
        ("fleet_query", numbered(QUERIES)),
        ("fleet_request", numbered(REQUESTS)),
        ("fleet_resources", numbered(&[&documents[..], &[WORLD, RELEASES]].concat())),
        ("fleet_script", numbered(&scripts)),
    ]
}

/// The fenced blocks of a page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let blocks = page.split("\n```").filter_map(|block| block.split_once('\n'));
    blocks.filter(|(mark, _)| mark.trim() == language).map(|(_, body)| format!("{body}\n")).collect()
}

/// The script of the page, and it with each other action behind it.
fn scripts() -> Vec<String> {
    let page = blocks(SIMULATE, "json").into_iter().find(|block| block.contains("\"put\""));
    let page =
        page.unwrap_or_else(|| panic!("docs/simulate.md has no script")).replace("\"count\":100", "\"count\":20");
    let with = |line: &&str| {
        format!(
            "{page}{{\"at\":\"2026-01-05T05:10:00Z\",{line}}}\n{{\"at\":\"2026-01-05T06:00:00Z\",\"status\":{{}}}}\n"
        )
    };
    ACTIONS.iter().map(with).chain([page.clone()]).collect()
}

const ACTIONS: &[&str] = &[
    r#""rm":"autoupdate_version""#,
    r#""report":{"host":"a","group":"dev","version":"1.2.4","labels":{"os":"linux"},"update_id":"u","last":{"outcome":"failed","to":"1.2.4","code":"unhealthy"}}"#,
    r#""counts":[{"group":"dev","version":"1.2.3","count":3},{"group":"prod","version":"v1.2.4","count":18446744073709551615}]"#,
    r#""hosts":{"count":3,"group":"prod","version":"1.2.4","labels":{"a":"b"},"breaks":0.5,"update_in":"0s","every":"1m"}"#,
    r#""start":{"groups":["prod"],"force":true}"#,
    r#""mark_done":{"groups":["dev"]}"#,
    r#""rollback":{"groups":[],"at_once":true}"#,
    r#""halt":{"all":true}"#,
    r#""run":{"groups":["dev"]}"#,
    r#""hold":{"host":"2c1e4a38-7f0a-4a3e-9d5f-0f6f6c1a9b11"}"#,
    r#""assign":{"host":"2c1e4a38-7f0a-4a3e-9d5f-0f6f6c1a9b11","group":"dev"}"#,
    r#""approve":{"group":"dev"}"#,
    r#""gate":{"group":"dev","answer":"stop"}"#,
    r#""explain":{"host":"2c1e4a38-7f0a-4a3e-9d5f-0f6f6c1a9b11"}"#,
    r#""graph":{"channel":"stable","arch":"amd64","version":"1.2.3","node_uuid":"n","rollout_wariness":"0.2"}"#,
    r#""counts":[{"group":"dev","version":"1.2.3","count":18446744073709551615},{"group":"dev","version":"1.2.3","count":18446744073709551615}]"#,
];

const ADMIN: &[&str] = &[
    r#"{"id":"6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1ae1","how":"replace","text":"kind: fleet_channel\n","dry_run":true}"#,
    r#"{"id":"6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1ae1","command":{"halt":{"groups":[],"all":true}}}"#,
    r#"{"id":"6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1ae1","command":{"rollback":{"groups":["dev"],"all_started":false,"at_once":true}},"dry_run":true}"#,
    r#"{"id":"6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1ae1","command":{"gate":{"group":"dev","answer":"go"}}}"#,
    r#"{"id":"x","decision":{"assign":"dev"}}"#,
    r#"{"id":"x","decision":"hold"}"#,
    r#"{"id":"x","name":"ci","role":"operator","expires":"2026-12-01T00:00:00Z"}"#,
];

const COUNTS: &[&str] = &[
    "kind: autoupdate_agent_report\nmetadata: {name: a}\nspec:\n  timestamp: 2026-01-05T12:00:00Z\n  groups:\n    dev: {versions: {1.2.3: {count: 7}, v1.2.3: {count: 4294967295}}}\n  omitted: [{count: 2, reason: pinned}]\n",
    "kind: autoupdate_agent_report\nmetadata: {name: a}\nspec: {timestamp: 2026-01-05T12:00:00Z}\n---\nkind: autoupdate_agent_report\nmetadata: {name: b}\nspec: {timestamp: 1970-01-01T00:00:00Z, groups: {prod: {versions: {1.2.4: {count: 1}}}}}\n",
];

const LABELS: &[&str] = &[
    "labels[\"environment\"]==\"staging\"",
    "labels.os == \"linux\" && !(exists(labels[\"team\"]) || group != \"prod\")",
    "equals(resource.metadata.labels[`a`], \"\\n\\t\\\"\\\\\") || hasPrefix(labels.a, labels[\"b\"])",
    "group == \"dev\"",
    "((((((((((labels.a == \"b\"))))))))))",
    "!!!exists(labels.a)",
    "labels.a == 'b'",
    "labels[\u{201c}a\u{201d}] == \"b\"",
];

const QUERIES: &[&str] = &[
    "host=4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d10&group=prod&update_id=4b9a8a2c53b54e219bb72f7c1f4c6d11",
    "group=a+b%26c&&host=&group=second&gr%6fup=third&flag&%zz=1",
    "group=%ff&host=%",
    "group=50%&group=50%25",
    "host=00000000-0000-0000-0000-000000000000",
    "",
];

const REQUESTS: &[&str] = &[
    "/v1/webapi/find?host=4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d10&group=dev",
    "/webapi/find?group=prod",
    "/webapi/ping",
    "/v1/stable/cloud/version",
    "/v1/upstream/version",
    "/v1/frozen/critical",
    "/webapi/automaticupgrades/channel/frozen/version",
    "/webapi/automaticupgrades/channel/a%0ab/version",
    "/v1/maintenance-schedule?kind=systemd_timer&group=prod",
    "/v1/maintenance-schedule?kind=kube_controller",
    "/v1/graph?channel=stable&arch=amd64&version=1.2.3\napplication/json;q=0.5, text/*",
    "/v1/graph?stream=stable&basearch=x86_64\ntext/html",
    "/scripts/install.sh?group=prod",
    "/scripts/install.sh?group=%24(id)",
];
