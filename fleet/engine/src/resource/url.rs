//! Addresses that the server will ask: https, or http on this very host.

use std::net::{IpAddr, Ipv6Addr};

/// Longest address, bytes.
const LONGEST: usize = 2048;

/// Checks an absolute URL: https, or http where the host is a loopback address; no user, no password (`get` would show
/// them), no fragment. The error says what is wrong with it.
pub fn check(text: &str) -> Result<(), &'static str> {
    if text.len() > LONGEST {
        return Err("it is longer than 2048 bytes");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
        return Err("it has characters that must be percent-encoded");
    }
    let (is_plain, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err("it does not begin with https://"),
    };
    if text.contains('#') {
        return Err("it has a fragment");
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("it has a user or a password in it");
    }
    let (host, port) = split(authority).ok_or("it has no valid host")?;
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Err("its port is not a number from 1 to 65535");
    }
    if is_plain && !is_loopback(host) {
        return Err("http is for loopback addresses alone");
    }
    Ok(())
}

/// Host, without brackets, and port.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        return if rest.is_empty() { Some((host, None)) } else { Some((host, Some(rest.strip_prefix(':')?))) };
    }
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        matches!(label.len(), 1..=63) && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    host.split('.').all(is_label).then_some((host, port))
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_goes_out_and_http_stays_at_home() {
        for good in [
            "https://example.com",
            "https://example.com:8443/a/b?c=%20d",
            "https://10.0.0.1/",
            "https://[2001:db8::1]:443/x",
            "http://localhost:8080/gate",
            "http://127.1.2.3/",
            "http://[::1]/",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "ftp://example.com",
            "HTTPS://example.com",
            "https://",
            "https:///path",
            "https://user@example.com",
            "https://user:secret@example.com",
            "https://example.com/#top",
            "https://exa mple.com",
            "https://example.com/\u{7f}",
            "https://example.com/ä",
            "https://example..com",
            "https://example.com:0",
            "https://example.com:70000",
            "https://example.com:",
            "https://[::1",
            "https://[::1]x",
            "https://[example]",
            "http://example.com",
            "http://localhost.example.com",
            "http://128.0.0.1",
            "http://[::2]/",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check(&format!("https://example.com/{}", "x".repeat(LONGEST))).is_err());
    }
}
