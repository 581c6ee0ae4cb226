//! The address of the cluster's proxy, as people write it and as it is compared.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use error::{Code, Error, Result};

/// The port of an address without one (SPEC §3).
pub const DEFAULT_PORT: u16 = 443;
/// Longest host name, bytes (RFC 1035).
const MAX_HOST_LEN: usize = 253;

/// Host and port of a proxy: lower-case, default port 443, no scheme. Shown without the default port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyAddr {
    host: String,
    port: u16,
}

impl ProxyAddr {
    /// The host; an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host as it stands before a port.
    pub(super) fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl FromStr for ProxyAddr {
    type Err = Error;

    /// Accepts `host`, `host:port`, `[v6]:port` and `https://` before, slashes behind. Errors: [`Code::Usage`].
    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            Error::new(Code::Usage, format!("{:?} is not a proxy address", http_client::redact(text)))
                .advise("give host or host:port, like mytenant.teleport.sh:443")
        };
        let lower = text.trim().to_lowercase();
        let bare = lower.strip_prefix("https://").unwrap_or(&lower).trim_end_matches('/');
        let (host, port) = if let Some(rest) = bare.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(refused)?;
            let address: Ipv6Addr = host.parse().map_err(|_| refused())?;
            let port = if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(refused)?) };
            (address.to_string(), port)
        } else if let Ok(address) = bare.parse::<Ipv6Addr>() {
            (address.to_string(), None)
        } else {
            let (host, port) = bare.split_once(':').map_or((bare, None), |(host, port)| (host, Some(port)));
            let host = host.strip_suffix('.').unwrap_or(host);
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            if host.is_empty()
                || host.len() > MAX_HOST_LEN
                || !host.bytes().all(is_name)
                || host.split('.').any(str::is_empty)
            {
                return Err(refused());
            }
            (host.to_owned(), port)
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                port.parse().ok().filter(|port| *port != 0).ok_or_else(refused)?
            }
            Some(_) => return Err(refused()),
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for ProxyAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.bracketed())?;
        if self.port == DEFAULT_PORT { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_write_an_address_compare_equal() {
        for (text, shown) in [
            ("https://Mytenant.Teleport.sh:443/", "mytenant.teleport.sh"),
            ("mytenant.teleport.sh", "mytenant.teleport.sh"),
            ("mytenant.teleport.sh.", "mytenant.teleport.sh"),
            ("mytenant.teleport.sh:3080", "mytenant.teleport.sh:3080"),
            ("10.0.0.1:3080", "10.0.0.1:3080"),
            ("[::1]:3080", "[::1]:3080"),
            ("[0:0::1]", "[::1]"),
            ("::1", "[::1]"),
        ] {
            let parsed: ProxyAddr = text.parse().unwrap();
            assert_eq!(parsed.to_string(), shown);
            assert_eq!(shown.parse::<ProxyAddr>().unwrap(), parsed);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_telling_a_password() {
        for bad in [
            "", "https://", "http://h", "h:0", "h:99999", "h:+1", "h:", "a b", "h/path", "h?x", "[::1", "a..b", "h:1:2",
        ] {
            assert!(bad.parse::<ProxyAddr>().is_err(), "{bad:?}");
        }
        let told = "https://me:secret@host".parse::<ProxyAddr>().unwrap_err().to_string();
        assert!(!told.contains("secret"), "{told}");
    }
}
