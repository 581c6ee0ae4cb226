//! `.credentials`: user names, passwords and tokens of proxies and mirrors, apart from `updates.yaml` (SPEC §1, §2).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::host::durable;
use crate::report::Result;
use crate::yaml::document::Node;
use crate::yaml::view::{View, read_document};

/// Readable by root alone.
const MODE: u32 = 0o600;

/// The userinfo part (`user:password`, `token`) of each URL that has one. Its debug form shows none of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Of the proxy for https URLs.
    pub https_proxy: Option<String>,
    /// Of the proxy for http URLs.
    pub http_proxy: Option<String>,
    /// Of the mirror.
    pub base_url: Option<String>,
}

impl Credentials {
    /// The file below the versions directory.
    pub fn file(versions: &Path) -> PathBuf {
        versions.join(".credentials")
    }

    /// Reads the file; none if it is not there. Errors: `config_invalid`, `permission`, `io`.
    pub fn read(versions: &Path) -> Result<Self> {
        let file = Self::file(versions);
        let Some(root) = read_document(&file, true)? else { return Ok(Self::default()) };
        let view = View::new(&file, &root);
        Ok(Self {
            https_proxy: view.at("https_proxy")?.text()?,
            http_proxy: view.at("http_proxy")?.text()?,
            base_url: view.at("base_url")?.text()?,
        })
    }

    /// The file's content.
    pub fn render(&self) -> String {
        self.to_node().emit()
    }

    /// Replaces the file durably, mode 0600, keeping unknown keys; removes it when nothing is left.
    pub fn write(&self, versions: &Path) -> Result<()> {
        let file = Self::file(versions);
        let old = Self::read(versions)?;
        let mut root = read_document(&file, true)?.unwrap_or_else(|| Node::mapping([]));
        root.apply(&old.to_node(), &self.to_node());
        if root.pairs().is_some_and(<[_]>::is_empty) {
            return durable::remove_file(&file);
        }
        durable::write(&file, root.emit().as_bytes(), MODE)
    }

    /// True if there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn to_node(&self) -> Node {
        Node::mapping([
            ("https_proxy", self.https_proxy.as_deref().map(Node::text)),
            ("http_proxy", self.http_proxy.as_deref().map(Node::text)),
            ("base_url", self.base_url.as_deref().map(Node::text)),
        ])
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
    fn the_file_is_roots_alone_and_goes_when_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Credentials::read(dir.path()).unwrap().is_empty());
        let credentials = Credentials { https_proxy: Some("0123:no".to_owned()), ..Credentials::default() };
        credentials.write(dir.path()).unwrap();
        assert_eq!(Credentials::read(dir.path()).unwrap(), credentials);
        let file = Credentials::file(dir.path());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, MODE);
        assert!(!format!("{credentials:?}").contains("0123"));
        Credentials::default().write(dir.path()).unwrap();
        assert!(!file.exists());
    }
}
