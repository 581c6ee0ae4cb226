//! Which HTTP proxy a request goes through: `*_PROXY` and NO_PROXY, by the rules Go programs follow.
//!
//! Unlike there, loopback addresses are not exempt unless NO_PROXY names them. SOCKS proxies are not supported.

use std::net::IpAddr;

use error::{Code, Error, Result};
use ureq::http::Uri;

use super::{has_host, redact};

/// Proxy settings, from the environment or from what `enable` persisted. May hold passwords: nothing prints it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// `https_proxy`: for `https://` targets.
    pub https: Option<String>,
    /// `http_proxy`: for `http://` targets.
    pub http: Option<String>,
    /// `all_proxy`: where the one for the scheme is not set.
    pub all: Option<String>,
    /// `no_proxy`: targets that are asked directly.
    pub none: Option<String>,
}

impl Proxies {
    /// The settings of the environment, whose variables `var` gives; lower-case names win over upper-case ones, as in curl.
    pub fn from_env(var: &dyn Fn(&str) -> Option<String>) -> Self {
        let var = |name: &str| var(name).or_else(|| var(&name.to_uppercase()));
        Self { https: var("https_proxy"), http: var("http_proxy"), all: var("all_proxy"), none: var("no_proxy") }
    }

    /// Checks that every proxy address can be used. Errors: [`Code::ConfigInvalid`].
    pub(super) fn check(&self) -> Result<()> {
        [&self.https, &self.http, &self.all].into_iter().flatten().try_for_each(|proxy| parse(proxy).map(drop))
    }

    /// The proxy for a target, `None` for a direct connection.
    pub(super) fn route(&self, target: &Uri) -> Result<Option<ureq::Proxy>> {
        let own = if target.scheme_str() == Some("https") { &self.https } else { &self.http };
        match own.as_ref().or(self.all.as_ref()) {
            Some(proxy) if !self.exempts(target) => parse(proxy).map(Some),
            _ => Ok(None),
        }
    }

    fn exempts(&self, target: &Uri) -> bool {
        let Some(rules) = &self.none else { return false };
        let host = target.host().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.').to_lowercase();
        let port = target.port_u16().unwrap_or(if target.scheme_str() == Some("https") { 443 } else { 80 });
        rules.split([',', ' ']).map(str::trim).filter(|rule| !rule.is_empty()).any(|rule| matches(rule, &host, port))
    }
}

fn parse(proxy: &str) -> Result<ureq::Proxy> {
    let invalid = |why: &str| {
        Error::new(Code::ConfigInvalid, format!("the HTTP proxy {} cannot be used: {why}", redact(proxy)))
            .advise("give one like http://proxy.example.com:3128")
    };
    let parsed = ureq::Proxy::new(proxy).map_err(|_| invalid("not a proxy address"))?;
    if !has_host(parsed.uri()) {
        return Err(invalid("it names no host, or a port that cannot be one"));
    }
    match parsed.protocol() {
        ureq::ProxyProtocol::Http | ureq::ProxyProtocol::Https => Ok(parsed),
        _ => Err(invalid("only HTTP and HTTPS proxies are supported")),
    }
}

/// One NO_PROXY rule: `*`, a host (and its subdomains), `.suffix` (subdomains only), an IP, a CIDR; host and IP with
/// an optional port.
fn matches(rule: &str, host: &str, port: u16) -> bool {
    let rule = rule.to_lowercase();
    if rule == "*" {
        return true;
    }
    if let Some((network, bits)) = rule.split_once('/') {
        return match (network.parse(), bits.parse(), host.parse()) {
            (Ok(network), Ok(bits), Ok(address)) => in_network(address, network, bits),
            _ => false,
        };
    }
    let (name, wanted_port) = split_port(&rule);
    if wanted_port.is_some_and(|wanted| wanted != port) {
        return false;
    }
    if let (Ok(a), Ok(b)) = (name.parse::<IpAddr>(), host.parse::<IpAddr>()) {
        return a == b;
    }
    let name = name.strip_prefix('*').unwrap_or(name);
    match name.strip_prefix('.') {
        Some(suffix) => is_subdomain(host, suffix),
        None => host == name || is_subdomain(host, name),
    }
}

fn split_port(rule: &str) -> (&str, Option<u16>) {
    if rule.parse::<IpAddr>().is_ok() {
        return (rule, None);
    }
    match rule.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
        Some((name, Ok(port))) => (name.trim_matches(['[', ']']), Some(port)),
        _ => (rule.trim_matches(['[', ']']), None),
    }
}

fn is_subdomain(host: &str, of: &str) -> bool {
    !of.is_empty() && host.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'))
}

fn in_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) if bits <= 32 => bits == 0 || (u32::from(a) ^ u32::from(n)) >> (32 - bits) == 0,
        (IpAddr::V6(a), IpAddr::V6(n)) if bits <= 128 => {
            bits == 0 || (u128::from(a) ^ u128::from(n)) >> (128 - bits) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exempt(rules: &str, url: &str) -> bool {
        let proxies = Proxies { none: Some(rules.into()), ..Proxies::default() };
        proxies.exempts(&url.parse().unwrap())
    }

    #[test]
    fn no_proxy_knows_hosts_suffixes_addresses_networks_and_ports() {
        for (rules, url, expected) in [
            ("*", "https://a.example.com", true),
            ("example.com", "https://example.com", true),
            ("example.com", "https://a.Example.COM", true),
            ("example.com", "https://badexample.com", false),
            (".example.com", "https://example.com", false),
            (".example.com", "https://a.example.com", true),
            ("*.example.com", "https://a.example.com", true),
            ("other, example.com:8443", "https://example.com:8443", true),
            ("example.com:8443", "https://example.com", false),
            ("example.com:443", "https://example.com", true),
            ("10.0.0.0/8", "https://10.1.2.3", true),
            ("10.0.0.0/8", "https://11.1.2.3", false),
            ("10.0.0.0/8", "https://ten.example.com", false),
            ("::1", "https://[::1]:3080", true),
            ("[::1]:3080", "https://[::1]:3080", true),
            ("fd00::/8", "https://[fd12::1]", true),
            ("0.0.0.0/0", "https://10.1.2.3", true),
            ("10.0.0.0/99", "https://10.1.2.3", false),
            ("", "https://127.0.0.1", false),
            ("localhost", "https://127.0.0.1", false),
        ] {
            assert_eq!(exempt(rules, url), expected, "{rules:?} {url}");
        }
    }

    #[test]
    fn the_schemes_own_proxy_wins_and_the_general_one_fills_in() {
        let proxies = Proxies {
            https: Some("http://secure:1".into()),
            all: Some("general:2".into()),
            none: Some("direct".into()),
            ..Proxies::default()
        };
        let port = |url: &str| proxies.route(&url.parse().unwrap()).unwrap().map(|proxy| proxy.port());
        assert_eq!(port("https://a"), Some(1));
        assert_eq!(port("http://a"), Some(2));
        assert_eq!(port("https://direct"), None);
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_named_without_its_password() {
        let proxies = Proxies { all: Some("socks5://me:secret@host:1080".into()), ..Proxies::default() };
        let told = proxies.check().unwrap_err().to_string();
        assert!(!told.contains("secret") && told.contains("host:1080"), "{told}");
    }
}
