//! Steps of the cluster: what it has and answers, how it misbehaves, what it was asked.

use std::collections::BTreeSet;

use protocol::report::JOIN_HEADER;
use testing::cluster::{
    Archive, Auth, Cluster, Dialect, Elsewhere, Find, FindPath, Misbehaviour, Request, Signer, TufRepository,
    agent_program,
};

use super::super::{Image, updater};

/// One of:
///
/// * `publish V…`; `release V [EDITION]`: the cluster names it, too; `wants V [later] [jitter:SECONDS] [edition:NAME] [group:NAME]`; `archive V HOW…` is a release
///   `without:` or with a `helper:`, `script:`, `unit:` or `updater:` (`own`: the one under test) or `toy:` (`live.rs`), of an agent with this `behaviour:`, `schema:` or `journal:` mode, `signed:` by a key's number, or with so much `padding:`; `bytes NAME TEXT` is any file with its digest,
///   `archive-of V EDITION ARCHITECTURE` one of no program that runs;
/// * `tuf STEPS`: what the signers of the mirror's TUF repository do, each of the words behind `; ` as `TufRepository::act` takes them, or `names V`;
/// * `find [BODY]`, `find-at PATH ELSEWHERE`, `dialect NAME`, `auth basic USER PASSWORD`, `auth bearer TOKEN`;
/// * `say VERSION CRITICAL` (the channel), `draw VERSIONS FROM-TO…` (the graph), `page PATH STATUS TEXT…` (one after the other);
/// * `misbehave PATH HOW`, `misbehave-times COUNT PATH HOW`, `behave`, `down`, `up`;
/// * `asked PATH COUNT`: how often it was asked since `forget`; `N+`: at least; behind it words as in [`of_requests`]. `asked-paths PATHS`.
pub(super) fn act(image: &mut Image, verb: &str, words: &[&str]) {
    if !is_of_cluster(&mut image.cluster, verb, words) && !answers(image, verb, words) {
        panic!("no such step: {verb} {words:?}");
    }
}

/// Whether it is one of those that need no image.
pub(super) fn is_of_cluster(cluster: &mut Cluster, verb: &str, words: &[&str]) -> bool {
    has(cluster, verb, words) || is_of_server(cluster, verb, words)
}

/// Whether it is about archives and versions.
fn has(cluster: &Cluster, verb: &str, words: &[&str]) -> bool {
    match (verb, words) {
        ("publish", versions) => versions.iter().for_each(|version| drop(cluster.publish(&Archive::simple(version)))),
        ("release", [version]) => publish(cluster, &Archive::simple(version), Find::version(version)),
        ("release", [version, edition]) => {
            let archive = Archive::new(version, edition, "amd64").agent(&agent_program(), "healthy", 1);
            publish(cluster, &archive, Find { edition: (*edition).into(), ..Find::version(version) });
        }
        ("archive-of", [version, edition, architecture]) => {
            drop(cluster.publish(&Archive::new(version, edition, architecture)));
        }
        ("bytes", [name, text]) => drop(cluster.publish_bytes(name, text.as_bytes())),
        ("archive", [version, how @ ..]) => {
            publish(cluster, &archive(Archive::simple(version), how), Find::version(version));
        }
        ("tuf", [steps]) => steps.split("; ").for_each(|step| signed(cluster, &step.split(' ').collect::<Vec<_>>())),
        ("wants", [version, more @ ..]) => {
            let (mut find, mut group) = (Find::version(version), None);
            for word in more {
                match word.split_once(':') {
                    Some(("edition", edition)) => edition.clone_into(&mut find.edition),
                    Some(("group", name)) => group = Some(name),
                    Some(("jitter", seconds)) => find.jitter = seconds.parse().unwrap(),
                    _ => find.auto_update = *word != "later",
                }
            }
            match group {
                Some(group) => cluster.set_directive_for_group(group, find),
                None => cluster.set_directive(find),
            }
        }
        _ => return false,
    }
    true
}

/// What the signers of the mirror's TUF repository do; `names V` is a release.
fn signed(cluster: &Cluster, words: &[&str]) {
    let mut repository = TufRepository::at(&cluster.cdn().join("tuf"));
    match *words {
        ["names", version] => {
            let name = format!("teleport-v{version}-linux-amd64-bin.tar.gz");
            repository.add("targets", &name, &std::fs::read(cluster.cdn().join(&name)).unwrap());
        }
        _ => repository.act(words),
    }
}

/// The cluster has it, and names it.
fn publish(cluster: &Cluster, archive: &Archive, find: Find) {
    cluster.publish(archive);
    cluster.set_directive(find);
}

/// The archive with what `how` says of it.
pub(super) fn archive(archive: Archive, how: &[&str]) -> Archive {
    how.iter().fold(archive, |archive, how| match how.split_once(':') {
        Some(("without", name)) => archive.without_helper(name),
        Some(("helper", name)) => archive.helper(name),
        Some(("behaviour", name)) => archive.behaviour(name),
        Some(("schema", number)) => archive.schema(number.parse().unwrap()),
        Some(("journal", mode)) => archive.trailer_field("journal", mode.into()),
        Some(("updater", "own")) => archive.updater(&std::fs::read(updater()).unwrap()),
        Some(("updater", text)) => archive.updater(text.as_bytes()),
        Some(("unit", text)) => archive.unit(text),
        Some(("toy", body)) => archive.updater(super::live::toy(body).as_bytes()),
        Some(("updater-of-the-rfd", text)) => archive.updater_named("teleport-updater", text.as_bytes()),
        Some(("script", name)) => archive.file(name, 0o755, b"#!/bin/sh\nexit 1\n"),
        Some(("signed", number)) => archive.signed(&Signer::fixed(number.parse().unwrap())),
        Some(("padding", bytes)) => archive.padding(bytes.parse().unwrap()),
        _ => panic!("no such archive: {how}"),
    })
}

/// Whether it is about answers and questions.
fn answers(image: &mut Image, verb: &str, words: &[&str]) -> bool {
    match (verb, words) {
        ("say", [version, critical]) => image.say(version, critical),
        ("draw", [versions, edges @ ..]) => {
            let versions: Vec<&str> = versions.split(' ').collect();
            let number = |text: &str| text.parse().unwrap();
            let pairs = edges.iter().map(|edge| edge.split_once('-').unwrap());
            image.draw(&versions, &pairs.map(|(from, to)| (number(from), number(to))).collect::<Vec<_>>());
        }
        _ => return false,
    }
    true
}

fn is_of_server(cluster: &mut Cluster, verb: &str, words: &[&str]) -> bool {
    match (verb, words) {
        ("find", body) => cluster.set_find_body(body.first().map(|body| body.as_bytes())),
        ("find-at", [path, elsewhere]) => {
            let path = [("v1", FindPath::V1), ("old", FindPath::Old), ("both", FindPath::Both)]
                .into_iter()
                .find(|known| known.0 == *path);
            let elsewhere = match *elsewhere {
                "not-found" => Elsewhere::NotFound,
                "not-allowed" => Elsewhere::NotAllowed,
                _ => Elsewhere::Html,
            };
            cluster.set_find_path(path.unwrap().1, elsewhere);
        }
        ("dialect", [name]) => cluster.set_dialect(if *name == "today" { Dialect::Today } else { Dialect::Rfd }),
        ("auth", words) => cluster.require_auth(Some(match words.join(" ").split(' ').collect::<Vec<_>>()[..] {
            ["basic", user, password] => Auth::Basic(user.to_owned(), password.to_owned()),
            ["bearer", token] => Auth::Bearer(token.to_owned()),
            _ => panic!("no such auth: {words:?}"),
        })),
        ("page", [path, answers @ ..]) => {
            let answers: Vec<(u16, &str)> = answers.chunks(2).map(|it| (it[0].parse().unwrap(), it[1])).collect();
            cluster.set_page(path, &answers);
        }
        ("misbehave", [_, ""]) => {}
        ("misbehave", [path, how @ ..]) => cluster.misbehave(path, misbehaviour(&how.join(" "))),
        ("misbehave-times", [times, path, how @ ..]) => {
            cluster.misbehave_times(path, misbehaviour(&how.join(" ")), times.parse().unwrap());
        }
        ("behave", []) => cluster.behave(),
        ("down", []) => cluster.go_down(),
        ("up", []) => cluster.come_up(),
        ("forget", []) => cluster.forget_requests(),
        ("asked", [path, count, words @ ..]) => {
            let mut asked = cluster.requests_to(path);
            asked.retain(|asked| asked.method == "GET" || !words.contains(&"get"));
            asked.retain(|asked| asked.header("range").is_none() || !words.contains(&"whole"));
            match count.strip_suffix('+') {
                Some(least) => assert!(asked.len() >= least.parse().unwrap_or(1), "{path}: {asked:#?}"),
                None => assert_eq!(asked.len().to_string(), *count, "{asked:#?}"),
            }
            words.iter().filter(|word| !["get", "whole"].contains(word)).for_each(|wanted| of_requests(&asked, wanted));
        }
        ("asked-paths", [paths]) => {
            let asked: Vec<String> = cluster.requests().into_iter().map(|request| request.path).collect();
            assert_eq!(asked.join(" "), *paths);
        }
        _ => return false,
    }
    true
}

/// What must be so: a parameter of the last request, `KEY=VALUE`, or all of them, `query:`; its `authorization:`, which none of them has if nothing
/// follows; `plain`: each is a GET without parameters; `if-range`: one has this header; `accept-encoding:`, `if-range:`, `range:`: how the last one's
/// begins; `ranges:` of all. `join:` is the token of all, or of none, and `without:` in no body. With `get` no other requests count, with `whole` none for a part.
fn of_requests(asked: &[Request], wanted: &str) {
    let last = asked.last().unwrap();
    let is_so = match wanted.split_once([':', '=']) {
        None if wanted == "if-range" => asked.iter().any(|asked| asked.header("if-range").is_some()),
        None => wanted == "plain" && asked.iter().all(|asked| asked.method == "GET" && asked.query.is_empty()),
        Some(("ranges", ranges)) => {
            let found: Vec<&str> = asked.iter().map(|asked| asked.header("range").unwrap_or("none")).collect();
            found.join(",") == ranges
        }
        Some((name @ ("accept-encoding" | "if-range" | "range"), begin)) => {
            last.header(name).is_some_and(|value| value.starts_with(begin))
        }
        Some(("join", token)) => {
            asked.iter().all(|asked| asked.header(JOIN_HEADER) == Some(token).filter(|token| !token.is_empty()))
        }
        Some(("without", text)) => !asked.iter().any(|asked| String::from_utf8_lossy(&asked.body).contains(text)),
        Some(("authorization", "")) => asked.iter().all(|asked| asked.header("authorization").is_none()),
        Some(("authorization", value)) => last.header("authorization") == Some(value),
        Some(("query", pairs)) => {
            let asked: BTreeSet<String> = last.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            asked.iter().map(String::as_str).eq(pairs.split('&').collect::<BTreeSet<_>>())
        }
        Some((name, value)) => last.parameter(name) == Some(value),
    };
    assert!(is_so, "{wanted}: {asked:#?}");
}

fn misbehaviour(words: &str) -> Misbehaviour {
    fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
        text.parse().unwrap()
    }
    match words.split(' ').collect::<Vec<_>>()[..] {
        ["status", status] => Misbehaviour::Status(number(status), None),
        ["status", status, retry_after] => Misbehaviour::Status(number(status), Some(number(retry_after))),
        ["redirect", url] => Misbehaviour::Redirect(url.to_owned()),
        ["redirect-loop"] => Misbehaviour::RedirectLoop,
        ["cut", bytes] => Misbehaviour::CutAfter { bytes: number(bytes) },
        ["cut-every", bytes] => Misbehaviour::CutEvery { bytes: number(bytes) },
        ["hold", after_bytes] => Misbehaviour::Hold { after_bytes: number(after_bytes) },
        ["stall", after_bytes] => Misbehaviour::Stall { after_bytes: number(after_bytes) },
        ["slow", bytes_per_sec] => Misbehaviour::Slow { bytes_per_sec: number(bytes_per_sec) },
        ["wrong-length", by] => Misbehaviour::WrongLength(number(by)),
        ["huge-body", bytes] => Misbehaviour::HugeBody(number(bytes)),
        ["huge-headers", bytes] => Misbehaviour::HugeHeaders(number(bytes)),
        ["reset", times] => Misbehaviour::ConnectionRefusedFor(number(times)),
        ["close"] => Misbehaviour::CloseBeforeResponse,
        ["chunked"] => Misbehaviour::Chunked,
        ["no-length"] => Misbehaviour::NoLength,
        ["gzip"] => Misbehaviour::ContentEncodingGzip,
        ["ignore-range"] => Misbehaviour::IgnoreRange,
        ["wrong-range"] => Misbehaviour::WrongRange,
        ["changed-midway"] => Misbehaviour::ChangedMidway,
        ["wrong-type"] => Misbehaviour::WrongType,
        ["stale"] => Misbehaviour::Stale,
        ["bad-tls"] => Misbehaviour::BadTls,
        _ => panic!("no such misbehaviour: {words}"),
    }
}
