//! Who names the version: `spec.source`, or the cluster's proxy (docs/sources.md).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use error::{Code, Error, Result};
use http_client::{has_host, in_url, redact};
use percent_encoding::percent_decode_str;
use ureq::http::Uri;

use super::ProxyAddr;

/// A source of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The find question, to a cluster's proxy or to another server.
    Find(ProxyAddr),
    /// A channel of RFD 0109: the URL above `version` and `critical`, without a slash at its end.
    Channel(String),
    /// An update graph as OpenShift and Fedora CoreOS have it: its URL.
    Graph(String),
    /// A file on this host.
    File(PathBuf),
}

impl Source {
    /// Whose credentials are kept: everything before the path. None where there is no server.
    pub fn origin(&self) -> Option<String> {
        match self {
            Self::Find(server) => Some(super::origin(server)),
            Self::Channel(url) | Self::Graph(url) => Some(origin_of(url)),
            Self::File(_) => None,
        }
    }
}

/// Scheme, host and port of `url`.
pub(super) fn origin_of(url: &str) -> String {
    let start = url.find("://").map_or(0, |index| index + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |index| start + index);
    url[..end].to_owned()
}

/// Without a password that an editor may have written into it.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Find(server) => f.write_str(&super::origin(server)),
            Self::Channel(url) => write!(f, "channel+{}", redact(url)),
            Self::Graph(url) => write!(f, "cincinnati+{}", redact(url)),
            Self::File(path) => write!(f, "file://{}", in_url(path)),
        }
    }
}

impl FromStr for Source {
    type Err = Error;

    /// `https://HOST[:PORT]`, `channel+https://…`, `cincinnati+https://…`, `file:///…`; `http` is for tests (`--insecure`).
    ///
    /// Errors: [`Code::Usage`]; what is refused is shown without a password.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let refused = |why: &str| {
            Error::new(Code::Usage, format!("{:?} is not a source of versions: {why}", redact(text)))
                .advise("give https://HOST, channel+https://HOST/PATH, cincinnati+https://HOST/PATH or file:///PATH")
        };
        if text.contains('#') || text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err(refused("it must not contain a fragment (#) or blanks"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refused("it has no scheme"))?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "file" {
            let path = percent_decode_str(rest).decode_utf8().map_err(|_| refused("its path is not UTF-8"))?;
            let is_file = path.starts_with('/') && !path.ends_with('/') && !path.contains('\0');
            return if is_file {
                Ok(Self::File(PathBuf::from(path.as_ref())))
            } else {
                Err(refused("file:// must be followed by the absolute path of a file"))
            };
        }
        let (kind, scheme) = scheme.split_once('+').unwrap_or(("", &scheme));
        if !matches!((kind, scheme), ("", "https") | ("channel" | "cincinnati", "https" | "http")) {
            return Err(refused("its scheme is unknown"));
        }
        let url = format!("{scheme}://{rest}");
        let parsed = url.parse::<Uri>().map_err(|_| refused("it is not a URL"))?;
        if !has_host(&parsed) {
            return Err(refused("it contains no host name, or no valid port"));
        }
        match kind {
            "" => url.parse().map(Self::Find).map_err(|_| refused("a server that answers find is host or host:port")),
            "channel" if url.contains('?') => Err(refused("the URL of a channel has no query (?)")),
            "channel" => Ok(Self::Channel(url.trim_end_matches('/').to_owned())),
            _ => Ok(Self::Graph(url)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_is_a_source_and_is_shown_as_it_was_written() {
        for text in [
            "https://fleet.example.com:8443",
            "channel+https://updates.example.com/v1/stable/cloud",
            "cincinnati+https://updates.example.com/v1/graph?channel=stable",
            "cincinnati+https://[::1]:8443/api/upgrades_info/v1/graph",
            "file:///etc/teleport/release.yaml",
            "file:///a%20b/%23/~c%25/%1B%0A%C3%A4",
        ] {
            let source: Source = text.parse().unwrap();
            assert_eq!(source.to_string(), text.replace(".com:443", ".com"), "{text}");
            assert_eq!(source.to_string().parse::<Source>().unwrap(), source);
        }
        assert_eq!("channel+https://h/a/".parse::<Source>().unwrap(), Source::Channel("https://h/a".into()));
        assert_eq!("file:///a%20b".parse::<Source>().unwrap(), Source::File("/a b".into()));
        assert_eq!("cincinnati+https://h:1/g?a=b".parse::<Source>().unwrap().origin().unwrap(), "https://h:1");
    }

    #[test]
    fn what_is_no_source_is_a_usage_error_without_a_password() {
        for text in [
            "",
            "host",
            "http://host",
            "ftp://host/x",
            "channel+ftp://h/x",
            "tuf+https://h/x",
            "channel+https://",
            "channel+https://h/x?y",
            "https://h/path",
            "file://etc/x",
            "file:///",
            "file:///etc/",
            "https://h/#x",
            "channel+https://h/a b",
            "cincinnati+https:///graph",
            "cincinnati+https://[@1]/graph",
            "cincinnati+https://[@6::1]/graph",
            "channel+https://me:[secret@h]/x",
        ] {
            let error = text.parse::<Source>().unwrap_err();
            assert_eq!(error.code, Code::Usage, "{text}: {error}");
        }
        let told = "chanel+https://me:secret@host/x".parse::<Source>().unwrap_err().to_string();
        assert!(!told.contains("secret"), "{told}");
    }
}
