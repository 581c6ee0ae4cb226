//! Channels of RFD 0109: `…/<channel>/version` and `…/<channel>/critical`, as text (FLEET §4, §12).
//!
//! A channel has a static version, is forwarded from another server, or follows a group of the rollout. A name without a
//! `fleet_channel` means the group of that name, as on proxies (FLEET §4).

mod forward;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use fleet_engine::answer::HostAnswer;
use fleet_engine::reason::Why;
use fleet_engine::resource::{Channel, ChannelSource, Kind};
use fleet_engine::resource_set::ResourceSet;
use protocol::Version;

pub use forward::{Forward, read_critical, read_version};

use crate::answers::query::{self, LONGEST_VALUE};
use crate::answers::reply::{Reply, TEXT};
use crate::api::Code;

/// Channels that exist without a `fleet_channel` (RFD 0109).
const PREDEFINED: [&str; 2] = ["default", "stable/cloud"];

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `/v1/<channel>/…`: versions without `v`, and with a line feed, as static files have them.
    V1,
    /// `/webapi/automaticupgrades/channel/<channel>/…`: versions with `v`, as proxies write them.
    Webapi,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Which version.
    Version,
    /// Whether it is to be installed at once.
    Critical,
}

/// Channel and verb of a path behind `/v1/` or `/webapi/automaticupgrades/channel/`, as it was sent: the last element is the
/// verb, what is before it the name. `None`: it is no channel's path.
pub fn path(path: &str) -> Option<(Cow<'_, str>, Verb)> {
    let (name, verb) = path.rsplit_once('/')?;
    let verb = match verb {
        "version" => Verb::Version,
        "critical" => Verb::Critical,
        _ => return None,
    };
    let name = query::path(name).ok()?;
    (!name.is_empty() && name.len() <= LONGEST_VALUE).then_some((name, verb))
}

/// The `fleet_channel` called `name`.
pub fn defined<'a>(shelf: &'a ResourceSet, name: &str) -> Option<&'a Channel> {
    shelf.get(Kind::Channel, name)?.model()
}

/// The channel called `name`; `None`: there is none. `defined` finds the `fleet_channel` of a name; `is_answering`: a question of
/// `find` has an answer.
pub fn named<'a>(
    name: &str,
    defined: impl Fn(&str) -> Option<&'a Channel>,
    is_answering: bool,
) -> Option<Cow<'a, Channel>> {
    let of_group = || Cow::Owned(Channel { source: ChannelSource::Group(name.to_owned()), critical: false });
    match defined(name) {
        Some(channel) => Some(Cow::Borrowed(channel)),
        // A server with a rollout answers from it; the name is that of a group.
        None if is_answering => Some(of_group()),
        None => defined("default").map(Cow::Borrowed).or_else(|| PREDEFINED.contains(&name).then(of_group)),
    }
}

/// The version of a channel; `None`: it has none for the time being.
///
/// `servers`: the version of the Teleport servers, where it is configured: no agent is sent to a newer major than theirs.
pub fn version(style: Style, version: Option<&Version>, servers: Option<&Version>) -> Reply {
    let text = match (version.map(|version| clamp(version, servers)), style) {
        (None, Style::V1) => "none\n".to_owned(),
        (None, Style::Webapi) => "none".to_owned(),
        (Some(version), Style::V1) => format!("{version}\n"),
        (Some(version), Style::Webapi) => format!("v{version}"),
    };
    Reply::ok(TEXT, text)
}

/// Whether a channel is critical. Without a line feed: clients compare with `yes`, and not all of them trim.
pub fn critical(is_critical: bool) -> Reply {
    Reply::ok(TEXT, if is_critical { "yes" } else { "no" })
}

/// The answer of a channel that follows a group. `answer`: that of `find` to an unknown host of the group; `None`: there is no
/// rollout. `always`: the channel itself is critical.
///
/// A stale answer ([`crate::answers::find::stale`]) is written as `none`: clients of channels decide by their own windows, and would
/// update although the server lets no host go.
pub fn group(style: Style, verb: Verb, answer: Option<&HostAnswer>, always: bool, servers: Option<&Version>) -> Reply {
    match verb {
        Verb::Version => {
            let known = answer.filter(|answer| answer.reason.why != Why::StoreUnavailable);
            version(style, known.map(|answer| &answer.version), servers)
        }
        Verb::Critical => critical(always || answer.is_some_and(|answer| answer.update)),
    }
}

/// 404: there is no channel called `name`.
pub fn unknown(name: &str) -> Reply {
    let message =
        format!("there is no channel {name:?}, and no rollout with a group of that name: create a fleet_channel");
    Reply::error(Code::NotFound, message)
}

/// 502: the server that a channel is forwarded from gives no usable answer, and none of the last hour is there.
pub fn unreachable(name: &str) -> Reply {
    let message = format!(
        "channel {name:?} is forwarded, and its server has given no usable answer within an hour: check its forward_url"
    );
    Reply::error(Code::ForwardFailed, message)
}

/// `version`, or the servers' own where its major is larger than theirs.
fn clamp<'a>(version: &'a Version, servers: Option<&'a Version>) -> &'a Version {
    match servers {
        Some(servers) if version.major() > servers.major() => servers,
        _ => version,
    }
}
