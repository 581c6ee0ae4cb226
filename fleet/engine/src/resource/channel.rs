//! `fleet_channel`: a channel of RFD 0109, and where its version comes from.

use protocol::Version;

use super::fields::ResourceFields;
use super::reader::ResourceReader;

/// What a frozen channel says in place of a version.
const NONE: &str = "none";
/// Longest name of a channel, bytes.
const LONGEST_NAME: usize = 128;

/// What a `fleet_channel` says. Its name is the resource's, such as `stable/cloud`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// Where the version comes from.
    pub source: ChannelSource,
    /// Whether the version is to be installed at once; a group's channel is critical besides when find says update.
    pub critical: bool,
}

/// Where a channel's version comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelSource {
    /// It is this one; `None`: the channel is frozen, as `none` says in RFD 0109.
    Static(Option<Version>),
    /// The channel at this address says.
    Forward(String),
    /// What a host of this group would be told.
    Group(String),
}

/// Reads `spec`.
pub(super) fn read(fields: &ResourceFields<'_>) -> Option<Channel> {
    let place = |name| fields.place(name);
    let is_there = ["static_version", "forward_url", "group"].map(|name| place(name).is_there());
    let source = match is_there {
        [true, false, false] if place("static_version").text() == Some(NONE) => Some(ChannelSource::Static(None)),
        [true, false, false] => fields.get("static_version").map(|version| ChannelSource::Static(Some(version))),
        [false, true, false] => fields.get("forward_url").map(ChannelSource::Forward),
        [false, false, true] => fields.get("group").map(ChannelSource::Group),
        _ => {
            fields.refuse("needs exactly one of static_version, forward_url and group");
            None
        }
    };
    let critical = fields.value("critical");
    Some(Channel { source: source?, critical })
}

/// A channel's name: parts of letters, digits, `.`, `_` and `-`, with `/` between, as they stand in addresses.
pub(super) fn name(reader: &ResourceReader<'_>) -> Option<String> {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_part = |part: &str| !part.is_empty() && !matches!(part, "." | "..") && part.bytes().all(is_usual);
    reader.text_that(
        &format!("a channel: parts of letters, digits, `.`, `_` or `-` with `/` between, at most {LONGEST_NAME} bytes"),
        |name| name.len() <= LONGEST_NAME && name.split('/').all(is_part),
    )
}
