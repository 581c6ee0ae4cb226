//! What strangers may ask, path and query: an answer, the same each time, in which nothing of theirs is more than a text.

use fleet_engine::answer::Question;
use fleet_engine::names::NameTable;
use fleet_engine::resource::ChannelSource;
use fleet_wire::answers::channel::{self, Style, Verb};
use fleet_wire::answers::find::{self, Cluster, Form};
use fleet_wire::answers::graph::{self, Catalogue};
use fleet_wire::answers::install_script::InstallScript;
use fleet_wire::answers::{Reply, schedule};
use serde_json::Value;

use super::{World, assert_line, now};

/// Longest answer, bytes: a schedule of a month.
const LONGEST: usize = 64 << 10;
/// Answers by the header `accept` and the query; of a channel, by what is behind the path.
type Route = fn(&World, &str, &str) -> Reply;
/// What a path is, or begins with, and what answers it.
const PATHS: [(&str, Route); 7] = [
    ("/v1/webapi/find", |world, _, query| find_reply(world, Form::Flat, query)),
    ("/webapi/find", |world, _, query| find_reply(world, Form::Nested, query)),
    ("/webapi/ping", |world, _, query| find_reply(world, Form::Ping, query)),
    ("/v1/maintenance-schedule", |world, _, query| match schedule::question(query) {
        Ok(question) => {
            schedule::reply(&question, &schedule::windows(&world.book, &question.group, &NameTable::default()), now())
        }
        Err(reply) => reply,
    }),
    ("/v1/graph", |world, accept, query| graph::reply(&Catalogue::of(&world.shelf), query, Some(accept), now())),
    ("/scripts/install.sh", |_, _, query| {
        InstallScript::new("fleet.example.com", Some("https://example.com/p")).unwrap().reply(query)
    }),
    ("/webapi/automaticupgrades/channel/", |world, _, path| of_channel(world, Style::Webapi, path)),
];

/// A line with path and query, and behind it the header `accept`.
pub fn fleet_request(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (target, accept) = text.split_once('\n').unwrap_or((text, ""));
    let world = World::usual();
    let reply = route(world, target, accept);
    assert_eq!(route(world, target, accept), reply, "{target}");
    assert!(matches!(reply.status, 200 | 400 | 404 | 406 | 502), "{target}: {}", reply.status);
    assert!(reply.body.len() <= LONGEST, "{target}: {} bytes", reply.body.len());
    assert!(reply.headers.contains(&("cache-control", "no-store")), "{target}");
    let body = std::str::from_utf8(&reply.body).unwrap_or_else(|_| panic!("{target}: no UTF-8"));
    if reply.content_type == fleet_wire::answers::reply::JSON {
        let json: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{target}: {error}: {body}"));
        if let Some(message) = json["error"]["message"].as_str().or(json["value"].as_str()) {
            assert_line(message);
        }
    }
    if let Some(name) = json_version(body) {
        assert!(["1.2.3", "1.2.4"].contains(&name.as_str()), "{target}: no rollout named {name}");
    }
}

fn json_version(body: &str) -> Option<String> {
    let json: Value = serde_json::from_str(body).ok()?;
    let version = json["agent_version"].as_str().or(json["auto_update"]["agent_version"].as_str())?;
    Some(version.to_owned())
}

fn route(world: &World, target: &str, accept: &str) -> Reply {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    for (known, answer) in PATHS {
        if known.ends_with('/') {
            if let Some(channel) = path.strip_prefix(known) {
                return answer(world, accept, channel);
            }
        } else if path == known {
            return answer(world, accept, query);
        }
    }
    of_channel(world, Style::V1, path.strip_prefix("/v1/").unwrap_or(path))
}

fn find_reply(world: &World, form: Form, query: &str) -> Reply {
    let answer = world.book.answer(&world.fleet, &find::question(query).question, now());
    answer.map_or_else(find::no_rollout, |answer| {
        find::reply(form, &answer, &Cluster::default(), find::ReleaseDigests::default(), None)
    })
}

fn of_channel(world: &World, style: Style, path: &str) -> Reply {
    let Some((name, verb)) = channel::path(path) else {
        return Reply::error(fleet_wire::api::Code::NotFound, "nothing");
    };
    let Some(found) = channel::named(&name, |name| channel::defined(&world.shelf, name), true) else {
        return channel::unknown(&name);
    };
    let is_critical = found.critical;
    match (&found.source, verb) {
        (ChannelSource::Static(version), Verb::Version) => channel::version(style, version.as_ref(), None),
        (ChannelSource::Static(_) | ChannelSource::Forward(_), Verb::Critical) => channel::critical(is_critical),
        (ChannelSource::Forward(_), Verb::Version) => channel::unreachable(&name),
        (ChannelSource::Group(group), verb) => {
            let question = Question { group: group.clone(), ..Question::default() };
            let answer = world.book.answer(&world.fleet, &question, now());
            channel::group(style, verb, answer.as_ref(), is_critical, None)
        }
    }
}
