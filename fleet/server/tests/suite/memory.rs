//! What strangers can make the server keep.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::ops::Range;

use crate::support::{Server, groups, rolling, version};

/// Distinct ids of each kind, in all.
const FLOOD: u32 = 200_000;
/// How many of them a few hosts have had, while no other is known. The core notes what it was asked in a fifth of a second
/// together, so of each host the last.
const BY_FEW: u32 = 60_000;
const FEW: u32 = 500;
/// Questions that are sent before their answers are read.
const BATCH: u32 = 50;
/// Hosts that only ask, at most.
const MOST_HOSTS: u64 = 100_000;
/// Names of groups, at most; those of the server's own come on top.
const MOST_NAMES: u64 = 65_536 + 16;

fn uuid(kind: u32, number: u32) -> String {
    format!("{kind:08x}-2222-4333-8444-{number:012x}")
}

/// What is asked as number so: at first by the same few hosts, then mostly by a new host, and on the other paths.
fn path(number: u32) -> String {
    let (group, update_id) = (format!("g{number}"), uuid(2, number));
    match number % 20 {
        _ if number < BY_FEW => {
            format!("/v1/webapi/find?host={}&group=dev&update_id={update_id}", uuid(3, 1 + number % FEW))
        }
        0 => format!("/v1/c{number}/version"),
        1 => format!("/v1/graph?channel=c{number}&arch=a{number}&version=1.0.{number}&node_uuid={update_id}"),
        2 => format!("/v1/maintenance-schedule?kind=systemd_timer&group={group}"),
        3 => format!("/webapi/find?update_id={update_id}&group={group}"),
        _ => format!("/v1/webapi/find?host={}&group={group}&update_id={update_id}", uuid(1, number)),
    }
}

fn read_answer(reader: &mut impl BufRead) {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
}

/// Asks all of this on one connection.
fn flood(server: &Server, numbers: Range<u32>) {
    let mut stream = TcpStream::connect(server.addr).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for batch in numbers.step_by(BATCH as usize) {
        let ask = |number| format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", path(number));
        let questions: String = (batch..batch + BATCH).map(ask).collect();
        stream.write_all(questions.as_bytes()).unwrap();
        (0..BATCH).for_each(|_| read_answer(&mut reader));
    }
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = server.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.trim().parse().unwrap()
}

fn kept(server: &Server, what: &str) -> u64 {
    metric(server, &format!("teleport_fleet_kept{{what=\"{what}\"}}"))
}

#[test]
fn a_flood_of_ids_that_nobody_knows_leaves_a_bounded_memory_and_who_is_known_is_served() {
    let (_dir, server) = rolling(&["dev"]);
    server.agents(&["start-update", "dev"]);
    flood(&server, 0..BY_FEW);
    server.until("they were seen", || kept(&server, "hosts") == u64::from(FEW));
    let of_few = kept(&server, "update_ids");
    assert!(of_few <= 2 * u64::from(FEW) + 1024, "{FEW} hosts have {of_few} update ids");
    flood(&server, BY_FEW..FLOOD);
    // A host that comes last is known last: then all before it were. While the core is busy questions are lost, and asked again.
    let is_known = |host: &str, group: &str| {
        server.json(&format!("/v1/webapi/find?host={host}&group={group}"));
        server.cli(&["host", host, "hold"]).status.success()
    };
    server.until("all were seen", || is_known(&uuid(4, 1), "dev"));
    assert!(kept(&server, "hosts") > MOST_HOSTS / 2, "the flood did not arrive: {}", kept(&server, "hosts"));
    assert!(kept(&server, "hosts") <= MOST_HOSTS + 1, "{} hosts", kept(&server, "hosts"));
    assert_eq!(metric(&server, "teleport_fleet_hosts"), kept(&server, "hosts"));
    assert!(kept(&server, "update_ids") <= 2 * MOST_HOSTS + 2048, "{} update ids", kept(&server, "update_ids"));
    // Who was forgotten has left room.
    assert!(kept(&server, "names") >= MOST_NAMES / 2, "there is room for names: {}", kept(&server, "names"));
    assert!(kept(&server, "names") <= MOST_NAMES, "{} names", kept(&server, "names"));
    assert!(kept(&server, "answers") < 100, "{} answers", kept(&server, "answers"));
    // A group that is written now is one, though strangers have used up the names.
    server.create(&groups(&["dev", "new", "last"]));
    server.create(&version("1.0.0", "1.2.0", "regular"));
    server.agents(&["start-update", "dev"]);
    server.until("the host is known", || is_known(&uuid(4, 2), "new"));
    let known = server.ok(&["host", &uuid(4, 2), "--format", "json"]);
    let known: serde_json::Value = serde_json::from_str(&known).unwrap();
    assert_eq!(known["group"], "new", "{known}");
}
