//! Reports that nobody should believe: each is refused or ignored (FLEET §5), and what was known stays.

use protocol::report::{JOIN_HEADER, SIGNATURE_HEADER};
use serde_json::{Value, json};

use super::host::{Host, epoch, post};
use super::{code, known, started, started_with};
use crate::support::Server;

/// A change of a good report.
type Change = fn(&mut Value);

/// Fields of a signed report that are out of bounds, or make no sense.
const FIELDS: [(&str, Change); 22] = [
    ("no host", |report| drop(report.as_object_mut().unwrap().remove("host"))),
    ("a host that is no UUID", |report| report["host"] = "host".into()),
    ("a host of zeros", |report| report["host"] = "00000000-0000-0000-0000-000000000000".into()),
    ("an update id that is none", |report| report["update_id"] = "x".into()),
    ("no epoch", |report| drop(report.as_object_mut().unwrap().remove("epoch"))),
    ("a huge epoch", |report| report["epoch"] = json!(1_u64 << 53)),
    ("a huge number", |report| report["sequence"] = json!(u64::MAX)),
    ("a negative number", |report| report["sequence"] = json!(-1)),
    ("a broken number", |report| report["sequence"] = json!(1.5)),
    ("a number as a text", |report| report["sequence"] = "1".into()),
    ("65 labels", |report| {
        report["labels"] = (0..65).map(|at| (format!("l{at}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    }),
    ("a long label", |report| report["labels"] = json!({ "x".repeat(257): "" })),
    ("a label that is no text", |report| report["labels"] = json!({ "x": { "y": 1 } })),
    ("a long group", |report| report["group"] = "g".repeat(257).into()),
    ("a long kernel", |report| report["kernel"] = "k".repeat(257).into()),
    ("no version", |report| report["versions"]["running"] = "newest".into()),
    ("a version with a path", |report| report["versions"]["installed"] = "../../etc".into()),
    ("an outcome that is none", |report| report["last"] = json!({ "to": "1.1.0", "at": "", "outcome": "exploded" })),
    ("a change to nowhere", |report| report["last"] = json!({ "to": "", "at": "", "outcome": "failed" })),
    ("a long error", |report| {
        report["last"] = json!({ "to": "1.1.0", "at": "", "outcome": "failed", "error": "e".repeat(1025) });
    }),
    ("33 phases", |report| {
        let phases: serde_json::Map<_, _> = (0..33).map(|at| (format!("p{at}"), json!(1))).collect();
        report["last"] = json!({ "to": "1.1.0", "at": "", "outcome": "failed", "phases": phases });
    }),
    ("enabled as a text", |report| report["enabled"] = "yes".into()),
];

fn header(value: &str) -> String {
    format!("{SIGNATURE_HEADER}: {value}\r\n")
}

/// A host that is known, with what is known of it.
fn one(server: &Server) -> (Host, u64, Value) {
    let (host, epoch) = (Host::new(1, "dev"), epoch(server));
    assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    let before = known(server, &host);
    (host, epoch, before)
}

/// What was known is still known, but for a key that waits.
#[track_caller]
fn nothing_moved(server: &Server, host: &Host, before: &Value) {
    let mut after = known(server, host);
    // How long ago it was seen is another number each second.
    for changes in ["waiting_key", "status"] {
        after["known"][changes] = before["known"][changes].clone();
    }
    assert_eq!((&after["known"], &after["history"]), (&before["known"], &before["history"]));
}

#[test]
fn a_signed_report_out_of_bounds_is_refused() {
    let (_dir, server) = started();
    let (host, epoch, before) = one(&server);
    for (what, change) in FIELDS {
        let mut report = host.says(epoch, "9.9.9", None);
        change(&mut report);
        assert_eq!(code(&host.sends(server.addr, &report)), (400, "bad_request"), "{what}");
    }
    nothing_moved(&server, &host, &before);
}

#[test]
fn a_text_that_is_no_report_is_refused_though_it_is_signed() {
    let (_dir, server) = started();
    let (host, epoch, before) = one(&server);
    let report = host.says(epoch, "9.9.9", None).to_string();
    let with = |pair: &str| report.replacen('{', &format!("{{{pair},"), 1);
    let id = &host.id;
    for (what, body) in [
        ("nothing", String::new()),
        ("no JSON", "{".to_owned()),
        ("a list", "[]".to_owned()),
        ("two reports", format!("{report}{report}")),
        ("a mark of byte order", format!("\u{feff}{report}")),
        ("a key twice", with(&format!("\"host\": \"{id}\""))),
        ("a number twice", with("\"sequence\": 1")),
        ("a number beyond all", report.replace(&format!("\"epoch\":{epoch}"), "\"epoch\":1e400")),
        ("half a surrogate", report.replace("6.1.0", "\\ud800")),
        ("a naked control character", report.replace("6.1.0", "\u{1}")),
    ] {
        let answer = post(server.addr, &header(&host.signature(body.as_bytes())), &body);
        assert_eq!(code(&answer), (400, "bad_request"), "{what}");
    }
    nothing_moved(&server, &host, &before);
}

/// A newer updater may say more.
#[test]
fn what_a_server_does_not_know_is_ignored_however_deep_it_is_and_what_it_knows_is_not() {
    let (_dir, server) = started();
    let (host, epoch, before) = one(&server);
    for deep in [
        format!("{}{}", "[".repeat(7000), "]".repeat(7000)),
        format!("{}1{}", "{\"a\":".repeat(2500), "}".repeat(2500)),
    ] {
        let with = |key: &str| {
            let body = host.says(epoch, "1.0.0", None).to_string().replacen('{', &format!("{{\"{key}\":{deep},"), 1);
            post(server.addr, &header(&host.signature(body.as_bytes())), &body).0
        };
        assert_eq!([with("unknown"), with("last"), with("update_id")], [200, 400, 400]);
    }
    let mut after = known(&server, &host);
    for key in ["report", "reported"] {
        after["history"][key] = before["history"][key].clone();
    }
    assert_eq!(after["history"], before["history"]);
}

#[test]
fn what_is_not_signed_by_the_hosts_key_over_these_bytes_is_refused() {
    let (_dir, server) = started();
    let (host, epoch, before) = one(&server);
    let other = Host::new(2, "dev");
    assert_eq!(other.sends(server.addr, &other.says(epoch, "1.0.0", None)).0, 200);
    let body = host.says(epoch, "9.9.9", Some(("failed", "1.1.0", "lie"))).to_string();
    let good = host.signature(body.as_bytes());
    let parts: Vec<&str> = good.split(' ').collect();
    let [version, key, signature] = parts[..] else { panic!("{good}") };
    let of_other = other.signature(body.as_bytes());
    let [_, _, foreign] = of_other.split(' ').collect::<Vec<_>>()[..] else { panic!("{of_other}") };
    let bad = (401, "bad_signature");
    for (what, headers, expected) in [
        ("no signature", String::new(), bad),
        ("an empty one", header(""), bad),
        ("a truncated one", header(&good[..good.len() - 2]), bad),
        ("half of one", header(&format!("{version} {key}")), bad),
        ("a longer one", header(&format!("{good}00")), bad),
        ("more behind it", header(&format!("{good} {signature}")), bad),
        ("another algorithm", header(&format!("rsa {key} {signature}")), bad),
        ("the next version", header(&format!("v2 {key} {signature}")), bad),
        ("another's signature with this key", header(&format!("{version} {key} {foreign}")), bad),
        ("a signature of zeros", header(&format!("{version} {key} {}", "0".repeat(128))), bad),
        ("a key of zeros", header(&format!("{version} {} {}", "0".repeat(64), "0".repeat(128))), bad),
        ("a bit of it changed", header(&changed(&good)), bad),
        ("two of them", header(&good) + &header(&good), bad),
        ("a good one and another", header(&good) + &header(&of_other), bad),
        ("no text", header("\u{ff}"), bad),
        ("another enrolled host's key", header(&of_other), (409, "key_conflict")),
    ] {
        assert_eq!(code(&post(server.addr, &headers, &body)), expected, "{what}");
    }
    // The right signature of the body before it was changed by a byte that means nothing.
    assert_eq!(code(&post(server.addr, &header(&good), &format!("{body} "))), bad);
    nothing_moved(&server, &host, &before);
    assert_eq!(post(server.addr, &header(&good), &body).0, 200, "it was good all the time");
}

/// A hex digit in the middle of a text is another one.
fn changed(text: &str) -> String {
    let at = text.len() - 40;
    let digit = if &text[at..=at] == "0" { "1" } else { "0" };
    format!("{}{digit}{}", &text[..at], &text[at + 1..])
}

#[test]
fn replays_reorderings_and_other_times_are_refused_with_what_to_go_on_from() {
    let (_dir, server) = started();
    let (host, epoch, before) = one(&server);
    let [first, second, last] = [(); 3].map(|()| host.says(epoch, "1.0.0", None));
    assert_eq!(host.sends(server.addr, &last).0, 200);
    let number = last["sequence"].as_u64().unwrap();
    let go_on = |answer: &(u16, Value)| (answer.1["epoch"].as_u64(), answer.1["sequence"].as_u64());
    for (what, report, expected) in [
        ("the same again", last.clone(), (409, "old_sequence")),
        ("the first after the last", first, (409, "old_sequence")),
        ("the second after the last", second, (409, "old_sequence")),
        ("from the beginning of time", with(&last, "sequence", json!(0)), (409, "old_sequence")),
        ("the epoch before", with(&last, "epoch", json!(epoch - 1)), (409, "other_epoch")),
        ("an epoch to come", with(&host.says(epoch, "9.9.9", None), "epoch", json!(epoch + 1)), (409, "other_epoch")),
        ("no epoch at all", with(&host.says(epoch, "9.9.9", None), "epoch", json!(0)), (409, "other_epoch")),
    ] {
        let answer = host.sends(server.addr, &report);
        assert_eq!(code(&answer), expected, "{what}");
        assert_eq!(go_on(&answer), (Some(epoch), Some(number)), "{what}");
    }
    let mut after = known(&server, &host);
    assert_eq!(after["history"]["changes"], before["history"]["changes"]);
    for changes in ["last_seen", "status"] {
        after["known"][changes] = before["known"][changes].clone();
    }
    assert_eq!(after["known"], before["known"]);
    // Its own clock is its own matter: only the number says what is later.
    for time in ["1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "now", ""] {
        let report = with(&host.says(epoch, "1.0.0", None), "time", time.into());
        assert_eq!(host.sends(server.addr, &report).0, 200, "{time:?}");
    }
    let seen: jiff::Timestamp = known(&server, &host)["known"]["last_seen"].as_str().unwrap().parse().unwrap();
    assert!((jiff::Timestamp::now() - seen).get_hours().abs() < 1);
}

fn with(report: &Value, key: &str, value: Value) -> Value {
    let mut report = report.clone();
    report[key] = value;
    report
}

#[test]
fn what_is_too_large_is_refused_however_it_comes() {
    let (_dir, server) = started();
    let (host, epoch, before) = one(&server);
    let report = host.says(epoch, "9.9.9", None).to_string();
    let most = format!("{report}{}", " ".repeat((16 << 10) - report.len()));
    let large = format!("{most} ");
    assert_eq!(code(&post(server.addr, &header(&host.signature(large.as_bytes())), &large)), (413, "too_large"));
    // In pieces, without a length.
    let pieces: Vec<String> = large
        .as_bytes()
        .chunks(4000)
        .map(|piece| format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()))
        .collect();
    let chunked = format!("{}0\r\n\r\n", pieces.concat());
    let (status, body) = crate::support::chunked(
        server.addr,
        protocol::report::PATH,
        &header(&host.signature(large.as_bytes())),
        &chunked,
    );
    assert_eq!(status, 413, "{body}");
    nothing_moved(&server, &host, &before);
    assert_eq!(post(server.addr, &header(&host.signature(most.as_bytes())), &most).0, 200, "16 KiB are allowed");
}

#[test]
fn what_a_report_says_is_text_and_reaches_no_terminal_as_anything_else() {
    let (_dir, server) = started();
    let (host, epoch, _) = one(&server);
    let evil = "\u{1b}[31m\u{7}\r\n\u{9b}2J\u{7f}\u{0}<script>alert(1)</script>";
    let mut report = host.says(epoch, "1.0.0", Some(("failed", "1.1.0", evil)));
    for key in ["group", "kernel", "os", "arch", "edition", "updater", "time"] {
        report[key] = evil.into();
    }
    report["labels"] = json!({ evil: evil });
    (report["last"]["error"], report["last"]["from"]) = (evil.into(), evil.into());
    report["last"]["phases"] = json!({ evil: 1 });
    assert_eq!(host.sends(server.addr, &report).0, 200);
    for words in [
        &["host", host.id.as_str()][..],
        &["host", &host.id, "--format", "json"],
        &["hosts"],
        &["hosts", "--format", "yaml"],
        &["explain", "--host", &host.id],
        &["autoupdate", "agents", "report"],
        &["get", "autoupdate_agent_report"],
        &["autoupdate", "agents", "status"],
        &["audit"],
    ] {
        let text = server.ok(words);
        assert!(!text.contains(|char: char| char.is_control() && char != '\n'), "{words:?}: {text:?}");
    }
    let metrics = server.metrics();
    assert!(!metrics.contains("<script") && !metrics.contains('\u{1b}'), "an unknown code is no label: {metrics}");
    assert!(!server.log().contains('\u{1b}'));
}

#[test]
fn of_two_join_tokens_none_counts() {
    let (_dir, server) = started_with(&["--plain", "--enrolment", "token"]);
    let (host, epoch) = (Host::new(1, "dev"), epoch(&server));
    let secret = server.ok(&["tokens", "join", "create", "rack"]).trim().to_owned();
    let body = host.says(epoch, "1.0.0", None).to_string();
    let join = format!("{JOIN_HEADER}: {secret}\r\n");
    let headers = header(&host.signature(body.as_bytes()));
    assert_eq!(code(&post(server.addr, &format!("{join}{join}{headers}"), &body)), (403, "join_token_needed"));
    assert_eq!(post(server.addr, &format!("{join}{headers}"), &body).0, 200);
}

/// Each host may say something new in each report; what it said before is not kept, and takes the room of nobody's group.
#[test]
fn new_labels_in_each_report_fill_no_memory_and_take_no_group_from_another_host() {
    const HOSTS: u8 = 100;
    const REPORTS: u32 = 6;
    let (_dir, server) = started();
    let epoch = epoch(&server);
    let labels = |host: &Host, report: u32| -> Value {
        let label = |at: u32| (format!("k {} {report} {at}", host.id), json!(format!("v {} {report} {at}", host.id)));
        (0..64).map(label).collect::<serde_json::Map<_, _>>().into()
    };
    let lies = |number: u8| {
        let host = Host::new(number, "dev");
        for report in 0..REPORTS {
            let said = with(&host.says(epoch, "1.0.0", None), "labels", labels(&host, report));
            assert_eq!(host.sends(server.addr, &said).0, 200);
        }
        let last = labels(&host, REPORTS - 1);
        assert_eq!(known(&server, &host)["known"]["labels"], last);
    };
    std::thread::scope(|scope| (1..=HOSTS).for_each(|number| drop(scope.spawn(move || lies(number)))));
    let honest = Host::new(200, "a new group");
    assert_eq!(honest.sends(server.addr, &honest.says(epoch, "1.0.0", None)).0, 200);
    assert_eq!(known(&server, &honest)["known"]["declared_group"], "a new group");
    let metrics = server.metrics();
    let kept = metrics.lines().find_map(|line| line.strip_prefix("teleport_fleet_kept{what=\"names\"}")).unwrap();
    let kept: u32 = kept.trim().parse().unwrap();
    let said = u32::from(HOSTS) * 128;
    assert!(kept > said && kept <= 2 * said + 2048, "{kept} names are kept, {said} are said");
}
