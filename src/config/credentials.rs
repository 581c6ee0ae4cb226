//! `.credentials`: user names, passwords and tokens of proxies and mirrors, apart from `updates.yaml` (SPEC §1, §2).

use std::fmt;
use std::path::{Path, PathBuf};

use http_client::is_open;
use yaml::Node;
use yaml::view::{View, read_document};

use crate::config::record::{Field, record};
use crate::host::layout::CREDENTIALS;
use crate::host::machine;
use crate::report::{Code, Result};

/// Readable by root alone.
pub(crate) const MODE: u32 = 0o600;

/// The userinfo part (`user:password`, `token`) of each URL that has one, and behind a `?` the secrets of its query. Its debug form shows none of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Of the proxy for https URLs.
    pub https_proxy: Option<String>,
    /// Of the proxy for http URLs.
    pub http_proxy: Option<String>,
    /// Of the mirror.
    pub base_url: Option<String>,
    /// Of the source.
    pub source: Option<String>,
    /// For which server each of them is, in this order; `None` where nobody wrote that down: for the one of `updates.yaml`.
    pub(crate) servers: [Option<String>; 4],
}

/// The keys of the file and, below `servers`, those of the servers.
const KEYS: [&str; 4] = ["https_proxy", "http_proxy", "base_url", "source"];

impl Credentials {
    /// The file below the versions directory.
    pub fn file(versions: &Path) -> PathBuf {
        versions.join(CREDENTIALS)
    }

    /// Reads the file; none if it is not there. Errors: `config_invalid`, `permission`, `io`.
    pub fn read(versions: &Path) -> Result<Self> {
        let file = Self::file(versions);
        let Some(root) = read_document(&file, true)? else { return Ok(Self::default()) };
        <Self as Field>::read(&View::new(&file, &root)).map(Option::unwrap_or_default)
    }

    /// As [`Credentials::read`]; none where the file is damaged, or this user may not read it.
    pub fn known(versions: &Path) -> Result<Self> {
        match Self::read(versions) {
            Err(error) if error.code == Code::ConfigInvalid => Ok(Self::default()),
            Err(error) if error.code == Code::Permission && !machine::is_root() => Ok(Self::default()),
            read => read,
        }
    }

    /// These, written down as being for the servers of `urls`, which are in the order of the fields.
    #[must_use]
    pub fn bound(mut self, urls: [&Option<String>; 4]) -> Self {
        let mut servers = urls.map(server);
        for (kept, server) in self.each().into_iter().zip(&mut servers) {
            server.take_if(|_| kept.is_none());
        }
        self.servers = servers;
        self
    }

    /// Those that are not for another server than that of its URL: an editor may have exchanged it.
    #[must_use]
    pub fn fitting(mut self, urls: [&Option<String>; 4]) -> Self {
        let servers = self.servers.clone();
        for ((kept, server), now) in self.each().into_iter().zip(servers).zip(urls.map(self::server)) {
            kept.take_if(|_| server.is_some() && server != now);
        }
        self
    }

    fn each(&mut self) -> [&mut Option<String>; 4] {
        [&mut self.https_proxy, &mut self.http_proxy, &mut self.base_url, &mut self.source]
    }

    /// The content of the file in `versions` with these in it, unknown keys kept; empty when nothing is left.
    ///
    /// Errors: as [`Credentials::read`].
    pub fn render_over(&self, versions: &Path) -> Result<String> {
        let old = Self::read(versions)?;
        let mut root = read_document(&Self::file(versions), true)?.unwrap_or_else(|| Node::mapping([]));
        if let (Some(old), Some(new)) = (old.node(), self.node()) {
            root.apply(&old, &new);
        }
        Ok(if root.is_bare() { String::new() } else { root.emit() })
    }

    /// True if there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

record!(Credentials; https_proxy, http_proxy, base_url, source, servers);

impl Field for [Option<String>; 4] {
    fn read(view: &View<'_>) -> Result<Option<Self>> {
        let mut servers = [const { None }; 4];
        for (server, key) in servers.iter_mut().zip(KEYS) {
            *server = view.at(key)?.text()?;
        }
        Ok(Some(servers))
    }

    fn node(&self) -> Option<Node> {
        let node = Node::mapping(KEYS.into_iter().zip(self.each_ref().map(Field::node)));
        (!node.is_bare()).then_some(node)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

/// Scheme, host and port of `url`.
fn server(url: &Option<String>) -> Option<String> {
    let (bare, _) = split(url.as_deref()?);
    let start = bare.find("://").map_or(0, |index| index + 3);
    let end = bare[start..].find(['/', '?', '#']).map_or(bare.len(), |index| start + index);
    let server = bare[..end].to_ascii_lowercase();
    // A source has its kind before the scheme: `channel+https`.
    Some(server.split_once('+').map_or(server.clone(), |(_, rest)| rest.to_owned()))
}

/// The URL of a source without userinfo and secrets in its query, and both, a `?` between them, if there are any.
pub(crate) fn split_source(url: &str) -> (String, Option<String>) {
    let (bare, userinfo) = split(url);
    let Some((place, query)) = bare.split_once('?') else { return (bare, userinfo) };
    let (open, secret): (Vec<&str>, Vec<&str>) = query.split('&').partition(|part| is_open(part));
    if secret.is_empty() {
        return (bare, userinfo);
    }
    let mark = if open.is_empty() { "" } else { "?" };
    let bare = format!("{place}{mark}{}", open.join("&"));
    (bare, Some(format!("{}?{}", userinfo.unwrap_or_default(), secret.join("&"))))
}

/// The URL without its userinfo, and the userinfo if there is one. A URL without scheme is understood.
pub fn split(url: &str) -> (String, Option<String>) {
    let start = url.find("://").map_or(0, |index| index + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |index| start + index);
    match url[start..end].rfind('@') {
        None => (url.to_owned(), None),
        Some(at) => {
            let userinfo = &url[start..start + at];
            let bare = format!("{}{}", &url[..start], &url[start + at + 1..]);
            (bare, (!userinfo.is_empty()).then(|| userinfo.to_owned()))
        }
    }
}

/// The URL with this userinfo, in place of one it may have.
pub fn join(url: &str, userinfo: &str) -> String {
    let (bare, _) = split(url);
    let start = bare.find("://").map_or(0, |index| index + 3);
    format!("{}{userinfo}@{}", &bare[..start], &bare[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::durable;

    #[test]
    fn userinfo_is_split_off_and_put_back() {
        for (url, bare, userinfo) in [
            ("http://u:p@px:3128/x@y", "http://px:3128/x@y", Some("u:p")),
            ("u:p@ss@px:3128", "px:3128", Some("u:p@ss")),
            ("https://token@mirror/a?b=@", "https://mirror/a?b=@", Some("token")),
            ("http://px/a@b", "http://px/a@b", None),
            ("px:3128", "px:3128", None),
        ] {
            assert_eq!(split(url), (bare.to_owned(), userinfo.map(str::to_owned)));
            if let Some(userinfo) = userinfo {
                assert_eq!(join(bare, userinfo), url);
            }
        }
    }

    #[test]
    fn what_may_be_a_secret_in_a_sources_query_is_split_off() {
        for (url, bare, secret) in [
            ("cincinnati+https://h/g?channel=a&token=b", "cincinnati+https://h/g?channel=a", Some("?token=b")),
            ("cincinnati+https://u:p@h/g?sig=b&c", "cincinnati+https://h/g", Some("u:p?sig=b&c")),
            ("cincinnati+https://h/g?channel=a&arch=b", "cincinnati+https://h/g?channel=a&arch=b", None),
            ("cincinnati+https://t@h/g", "cincinnati+https://h/g", Some("t")),
        ] {
            assert_eq!(split_source(url), (bare.to_owned(), secret.map(str::to_owned)));
        }
    }

    #[test]
    fn what_was_given_for_one_server_fits_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let given = Credentials { base_url: Some("me:a".into()), source: Some("b".into()), ..Credentials::default() };
        let url = |text: &str| Some(text.to_owned());
        let (mirror, source, none) = (url("https://M:1/x"), url("channel+https://s/v1"), None);
        let bound = given.bound([&none, &none, &mirror, &source]);
        let text = bound.render_over(dir.path()).unwrap();
        durable::write(&Credentials::file(dir.path()), text.as_bytes(), MODE).unwrap();
        let kept = Credentials::read(dir.path()).unwrap();
        assert_eq!(kept, bound, "{text}");
        let (near, other) = (url("https://m:1/y"), url("cincinnati+https://s:8443/v1"));
        assert_eq!(kept.clone().fitting([&none, &none, &near, &source]).base_url.as_deref(), Some("me:a"));
        let fitting = kept.clone().fitting([&none, &none, &mirror, &other]);
        assert_eq!((fitting.base_url.as_deref(), fitting.source), (Some("me:a"), None));
        assert_eq!(kept.fitting([&none, &none, &none, &source]).base_url, None);
        let old = Credentials { source: Some("b".into()), ..Credentials::default() };
        assert_eq!(old.clone().fitting([&none, &none, &none, &other]), old);
    }

    #[test]
    fn what_goes_into_the_file_keeps_the_keys_of_others_and_is_nothing_when_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Credentials::read(dir.path()).unwrap().is_empty());
        let credentials = Credentials { https_proxy: Some("0123:no".to_owned()), ..Credentials::default() };
        let write = |text: &str| durable::write(&Credentials::file(dir.path()), text.as_bytes(), MODE).unwrap();
        write(&credentials.render_over(dir.path()).unwrap());
        assert_eq!(Credentials::read(dir.path()).unwrap(), credentials);
        assert!(!format!("{credentials:?}").contains("0123"));
        assert_eq!(Credentials::default().render_over(dir.path()).unwrap(), "");
        write(&format!("{}theirs: 1\n", credentials.render_over(dir.path()).unwrap()));
        assert_eq!(Credentials::default().render_over(dir.path()).unwrap(), "theirs: 1\n");
    }
}
