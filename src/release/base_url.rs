//! Where archives come from: a base URL, checked once.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use http_client::has_host;
use percent_encoding::percent_decode_str;
use ureq::http::Uri;

use crate::host::trust;
use crate::report::{Code, Error, IoContext, Result};

/// Where Teleport's releases are (SPEC §4).
pub(crate) const DEFAULT_BASE_URL: &str = "https://cdn.teleport.dev";
/// Write permission of group and others.
const OTHERS_WRITE: u32 = 0o022;
/// In such a directory nobody can replace what is another's.
const STICKY: u32 = 0o1000;

/// A base URL: `https://`, `file://`, or `http://`, without trailing slash, userinfo and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(String);

impl Default for BaseUrl {
    fn default() -> Self {
        Self(DEFAULT_BASE_URL.to_owned())
    }
}

impl BaseUrl {
    /// The URL of a file below the base.
    pub fn join(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `http://` may be used with `--insecure` only. Errors: [`Code::Usage`].
    pub fn check_scheme(&self, is_insecure: bool) -> Result<()> {
        if self.0.starts_with("http://") && !is_insecure {
            return Err(Error::new(Code::Usage, format!("the base URL {} is not encrypted", self.0))
                .advise("use https://, or --insecure together with a public key"));
        }
        Ok(())
    }

    /// The directory of a `file://` base, after the check that nobody but root (or whoever runs this) can change what
    /// is in it. `None` for other bases. Errors: [`Code::Permission`], [`Code::ArchiveMissing`].
    pub fn trusted_dir(&self) -> Result<Option<PathBuf>> {
        let Some(path) = self.0.strip_prefix("file://") else { return Ok(None) };
        let decoded = percent_decode_str(path).decode_utf8().map_err(|_| refused(&self.0, "its path is not UTF-8"))?;
        let named = PathBuf::from(decoded.as_ref());
        let (dir, stranger) = trust::traced(&named).map_err(|error| {
            let error = error.during(format!("cannot read the archive directory {}", named.display()));
            if error.code == Code::Io { Error { code: Code::ArchiveMissing, ..error } } else { error }
        })?;
        if let Some((other, meta)) = stranger {
            return Err(changeable(&other, &meta));
        }
        for (depth, part) in dir.ancestors().enumerate() {
            let meta = std::fs::metadata(part).at("cannot read", part)?;
            let may_be_shared = depth > 0 && meta.mode() & STICKY != 0;
            check_owner(part, &meta, may_be_shared)?;
        }
        Ok(Some(dir))
    }
}

/// Opens a file of a trusted directory; `None` if it is not there. Errors: [`Code::Permission`] for a file that others
/// can change.
pub(super) fn open_trusted(dir: &Path, name: &str) -> Result<Option<File>> {
    let path = dir.join(name);
    // A FIFO would block the open for ever.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at("cannot read", &path),
    };
    let meta = file.metadata().at("cannot read", &path)?;
    if !meta.is_file() {
        return Err(Error::new(Code::ArchiveMissing, format!("{} is not a regular file", path.display())));
    }
    check_owner(&path, &meta, false)?;
    Ok(Some(file))
}

fn check_owner(path: &Path, meta: &std::fs::Metadata, may_be_shared: bool) -> Result<()> {
    let is_trusted = meta.uid() == 0 || meta.uid() == rustix::process::geteuid().as_raw();
    if is_trusted && (may_be_shared || meta.mode() & OTHERS_WRITE == 0) {
        return Ok(());
    }
    Err(changeable(path, meta))
}

fn changeable(path: &Path, meta: &std::fs::Metadata) -> Error {
    let (shown, owner, mode) = (path.display(), meta.uid(), meta.mode() & 0o7777);
    let what = format!("{shown} can be changed by users other than root (owner {owner}, mode {mode:o})");
    Error::new(Code::Permission, what).advise("make root its owner, and remove write permission for group and others")
}

impl FromStr for BaseUrl {
    type Err = Error;

    /// Errors: [`Code::Usage`]; what is refused is shown without userinfo.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim().trim_end_matches('/');
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refused(text, "it has no scheme"))?;
        let scheme = scheme.to_ascii_lowercase();
        if text.contains(['?', '#']) || text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err(refused(text, "it must not contain a query (?), a fragment (#) or blanks"));
        }
        match scheme.as_str() {
            "file" if rest.starts_with('/') => {}
            "file" => return Err(refused(text, "file:// must be followed by an absolute path")),
            "https" | "http" => {
                let authority = rest.split('/').next().unwrap_or_default();
                if authority.contains('@') {
                    return Err(refused(text, "it must not contain a user name or a password")
                        .advise("put the mirror's credentials into the file .credentials beside updates.yaml"));
                }
                let parsed: Option<Uri> = format!("{scheme}://{rest}").parse().ok();
                if !parsed.is_some_and(|url| has_host(&url)) {
                    return Err(refused(text, "it contains no host name, or no valid port"));
                }
            }
            _ => return Err(refused(text, "its scheme must be https, file or http")),
        }
        Ok(Self(format!("{scheme}://{rest}")))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn refused(text: &str, why: &str) -> Error {
    Error::new(Code::Usage, format!("--base-url {} cannot be used: {why}", http_client::redact(text)))
        .advise("give one like https://mirror.example.com/teleport or file:///srv/teleport")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_is_dropped_and_names_are_joined() {
        for text in ["https://m.example.com/t", "https://m.example.com/t/", "HTTPS://m.example.com/t//"] {
            assert_eq!(text.parse::<BaseUrl>().unwrap().join("a.tar.gz"), "https://m.example.com/t/a.tar.gz");
        }
        assert_eq!(BaseUrl::default().join("a"), "https://cdn.teleport.dev/a");
    }

    #[test]
    fn what_is_no_base_url_is_refused_without_telling_a_password() {
        for bad in [
            "",
            "cdn",
            "ftp://h",
            "https://",
            "https:///x",
            "file://x",
            "https://h?x",
            "https://h/#y",
            "https://a b",
            "https://h]/x",
        ] {
            assert_eq!(bad.parse::<BaseUrl>().unwrap_err().code, Code::Usage, "{bad:?}");
        }
        let error = "https://me:secret@h/x".parse::<BaseUrl>().unwrap_err();
        assert!(!error.to_string().contains("secret") && error.to_string().contains("credentials"), "{error}");
    }

    #[test]
    fn plain_http_is_for_insecure_only() {
        let base: BaseUrl = "http://h".parse().unwrap();
        assert!(base.check_scheme(false).is_err());
        assert!(base.check_scheme(true).is_ok());
        assert!(BaseUrl::default().check_scheme(false).is_ok());
    }

    #[test]
    fn a_directory_is_that_behind_the_escapes_of_its_url_or_missing() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("in ner");
        std::fs::create_dir(&inner).unwrap();
        let base = |name: &str| format!("file://{}/{name}", dir.path().display()).parse::<BaseUrl>().unwrap();
        assert_eq!(base("in%20ner/").trusted_dir().unwrap().unwrap(), std::fs::canonicalize(&inner).unwrap());
        assert_eq!(base("gone").trusted_dir().unwrap_err().code, Code::ArchiveMissing);
    }
}
