//! Texts that people and clusters give: what is accepted reads back as itself, and is harmless where it is put.

use std::time::Duration;

use protocol::{Arch, Edition, Revision, Version};
use sources::ProxyAddr;
use teleport_update::testing::config::{join, split};
use teleport_update::testing::release::BaseUrl;
use yaml::scalar::{boolean, duration, duration_text, integer, is_string_without_quotes, time_text};
use yaml::{Node, Value};

/// Any text as each of them.
pub fn strings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    version(text);
    proxy_addr(text);
    base_url(text);
    scalars(text);
    userinfo(text);
    if let Ok(edition) = text.parse::<Edition>() {
        assert_eq!(edition.to_string().parse(), Ok(edition));
    }
    if let Ok(arch) = text.parse::<Arch>() {
        assert_eq!(arch.to_string(), text);
    }
}

/// It can be a directory's name, is strict semver, and has no `v` before it.
pub(crate) fn assert_version(version: &Version) {
    let shown = version.to_string();
    assert!(semver::Version::parse(&shown).is_ok_and(|strict| strict.to_string() == shown), "{shown}");
    assert!(shown.len() <= 64 && shown.starts_with(|first: char| first.is_ascii_digit()), "{shown}");
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
    assert!(shown.bytes().all(usual) && !shown.contains(".."), "{shown}");
    assert_eq!(shown.parse().as_ref(), Ok(version));
}

fn version(text: &str) {
    let Ok(version) = text.parse::<Version>() else {
        let is_strict = semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).is_ok();
        assert!(!is_strict || text.len() > 64, "{text:?} is a version");
        return;
    };
    assert_version(&version);
    assert_eq!(version.to_string(), text.strip_prefix('v').unwrap_or(text));
    for edition in [Edition::Oss, Edition::Enterprise, Edition::EnterpriseFips] {
        let revision = Revision { version: version.clone(), edition };
        let json = serde_json::to_string(&revision).unwrap();
        assert_eq!(serde_json::from_str::<Revision>(&json).unwrap(), revision);
        // As a plain scalar it is a text, for readers of any YAML.
        assert_eq!(Node::text(version.to_string()).as_str(), Some(version.to_string().as_str()));
    }
}

fn proxy_addr(text: &str) {
    let Ok(address) = text.parse::<ProxyAddr>() else { return };
    let shown = address.to_string();
    assert_eq!(shown.parse().as_ref(), Ok(&address));
    assert_eq!(text.to_uppercase().parse().as_ref(), Ok(&address), "case matters in {text:?}");
    assert_eq!(format!("https://{shown}/").parse().as_ref(), Ok(&address));
    assert!(address.port() != 0 && !address.host().is_empty());
    assert!(shown.is_ascii() && !shown.contains(['/', '@', '?', '#', '%', ' ', '\\']), "{shown}");
    assert_eq!(shown, shown.to_ascii_lowercase());
}

fn base_url(text: &str) {
    let Ok(base) = text.parse::<BaseUrl>() else { return };
    let shown = base.to_string();
    assert_eq!(shown.parse().as_ref(), Ok(&base));
    assert_eq!(base.join("a"), format!("{shown}/a"));
    assert!(["https://", "http://", "file:///"].iter().any(|scheme| shown.starts_with(scheme)), "{shown}");
    assert!(!shown.contains(['?', '#', '\n', ' ', '\0']), "{shown}");
    let authority = shown.split('/').nth(2).unwrap_or_default();
    assert!(shown.starts_with("file") || (!authority.contains('@') && !authority.is_empty()), "{shown}");
    assert!(base.check_scheme(false).is_ok() != shown.starts_with("http://"));
}

fn scalars(text: &str) {
    if let Some(length) = duration(text) {
        assert!(length <= Duration::from_secs(100 * 365 * 86_400));
        assert_eq!(duration(&duration_text(length)), Some(length), "{text}");
    }
    if let Some(number) = integer(text) {
        assert_eq!(number.to_string(), text);
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        let shown = time_text(time);
        let read: jiff::Timestamp = shown.parse().unwrap_or_else(|error| panic!("{text} as {shown}: {error}"));
        assert_eq!(read.as_second(), time.as_second(), "{text} as {shown}");
        assert_eq!(time_text(read), shown);
    }
    assert!(!is_string_without_quotes(text) || (boolean(text).is_none() && integer(text).is_none()));
    let mut root = Node::mapping([]);
    root.set(&["key"], Node::text(text));
    let written = root.emit();
    let read = Node::parse(&written).unwrap_or_else(|fault| panic!("{fault}\n{written}"));
    assert_eq!(read.get("key").and_then(Node::as_str), Some(text), "{written}");
    assert_eq!(read, root);
    assert!(matches!(read.value, Value::Mapping(_)));
}

fn userinfo(url: &str) {
    let (bare, userinfo) = split(url);
    assert_eq!(split(&bare).1, None, "something is left in {bare:?}");
    if let Some(userinfo) = userinfo {
        assert_eq!(join(&bare, &userinfo), url);
    }
}
