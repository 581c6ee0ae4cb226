//! Every reason: `explain`, `status`, the pages and the host itself say the same of it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

use askama::Template;
use clap::Parser;
use fleet_cli::args::PrintFormat;
use fleet_cli::{FleetCli, asked};
use fleet_engine::reason::Why;
use fleet_wire::api::{Explained, HoldsView};
use fleet_wire::lenient::Lenient;
use fleet_wire::rollout::{AgentRollout, Needs};
use jiff::Timestamp;
use protocol::reason::{Told, WORDS};
use serde_json::{Value, json};

use super::frame::Frame;
use super::group::GroupPage;
use super::host::HostPage;
use super::rollout::RolloutPage;

const HOST: &str = "4f1c0d1e-0000-4000-8000-000000000001";

/// The server's answer about a rollout whose group, and about a host that, waits for this.
fn answer(code: &str) -> Value {
    // The keys of all reasons: each reads its own.
    let mut why = json!({
        "group": "staging", "reason": "year end", "role": "sre", "answer": "wait", "error": "unhealthy", "rule": "failed_threshold",
        "done": 1, "chosen": 2, "wanted": 3, "in_flight": 5, "cap": 5, "updated": 7, "granted": 8, "allowed": 9, "count": 3,
        "of": 18, "failed": 6, "present": 4, "initial": 10, "excluded": 1, "since": "2026-01-05T12:00:00Z", "until": null,
        "targets": [], "installers": [],
    });
    why["code"] = code.into();
    why["hosts"] = if code == "no_reports" { json!(7) } else { json!([]) };
    json!({ "status": { "groups": [{ "name": "prod", "why": why }] }, "host": HOST, "group": "prod", "why": why })
}

/// What the command line says of it.
fn typed(words: &[&str], answer: &Value) -> String {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut cli = FleetCli::parse_from([&["teleport-fleet"], words].concat());
    cli.global.admin_socket = Some(socket);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).lines().find(|line| line.as_ref().unwrap().is_empty());
            let body = answer.to_string();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
                .unwrap();
        });
        asked(&cli.verb, PrintFormat::Text, &cli.global).unwrap()
    })
}

/// The pages of the host, of its group and of the rollout.
fn pages(answer: &Value) -> [String; 3] {
    let explained: Explained = serde_json::from_value(answer.clone()).unwrap();
    let rollout: AgentRollout = serde_json::from_value(answer.clone()).unwrap();
    let frame =
        || Frame { user: None, build: String::new(), at: Timestamp::UNIX_EPOCH, summary: None, warnings: Vec::new() };
    let group = GroupPage::of(frame(), &rollout, "prod", Vec::new(), None, &[]).unwrap();
    let id = HOST.to_owned();
    let host = HostPage { frame: frame(), id, explained: Ok(explained), groups: Vec::new(), history: Vec::new() };
    let (holds, needs) = (HoldsView::default(), Needs::default());
    let all = RolloutPage { frame: frame(), rollout: Some(rollout), holds, needs, hosts: 1, servers: Vec::new() };
    [host.render(), group.render(), all.render()].map(Result::unwrap)
}

#[test]
fn of_every_reason_the_command_line_the_pages_and_the_host_say_the_same() {
    let schema = schemars::schema_for!(Why).to_value();
    let codes = schema["oneOf"].as_array().unwrap().iter().map(|variant| &variant["properties"]["code"]["const"]);
    assert_eq!(codes.collect::<Vec<_>>(), WORDS.map(|(code, ..)| code), "each reason has its words");
    for (code, template, general) in WORDS {
        let answer = answer(code);
        let rollout: AgentRollout = serde_json::from_value(answer.clone()).unwrap();
        let reason = rollout.status.groups[0].reason();
        assert!(matches!(&reason.code, Lenient::Known(why) if why.code() == code), "{code}");
        let sentence = reason.sentence();
        let line = format!("{sentence}, since 2026-01-05 12:00:00 UTC\n");
        let explained = typed(&["explain", "--host", HOST], &answer);
        assert!(explained.contains(&format!("\nWhy: {line}")), "{code}: {explained}");
        // A group that waits for nothing has its state in the table alone.
        let status = typed(&["status"], &answer);
        assert_eq!(status.contains(&format!("\nprod: {line}")), !reason.is_moving(), "{code}: {status}");
        for page in pages(&answer) {
            assert!(page.contains(&format!("<p class=\"why\">{sentence}</p>")), "{code}: {page}");
        }
        // The host is told the code alone: the same words without names and numbers.
        let told = json!({ "fleet": { "why": { "code": code } } }).to_string();
        let said = Told::parse(told.as_bytes()).unwrap().sentence();
        assert!(said.starts_with(&template.replace("{}", general)), "{code}: {said}");
        let (before, after) = template.split_once("{}").unwrap_or((template, ""));
        assert!(sentence.starts_with(before) && sentence.ends_with(after), "{code}: {sentence}, on the host: {said}");
    }
}
