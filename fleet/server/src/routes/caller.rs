//! Who asks, where a reverse proxy is in front (`behind_proxy`).

use std::net::{IpAddr, SocketAddr};

use crate::listener::Peer;
use axum::body::Body;
use axum::http::{HeaderMap, Request};

/// What proxies say of who asks them: each puts the address that it saw at the end.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Makes the caller the one that the proxy names. What others before it claim does not count.
pub(super) fn see_through(request: &mut Request<Body>) {
    let Some(address) = last_hop(request.headers()) else { return };
    if let Some(Peer::Tcp(peer)) = request.extensions_mut().get_mut() {
        *peer = SocketAddr::new(address, 0);
    }
}

fn last_hop(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all(FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
    let last = last.rsplit(',').next()?.trim();
    // Some write the port too.
    last.parse().ok().or_else(|| last.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_last_header_counts() {
        for (values, address) in [
            (&["192.0.2.1"][..], Some("192.0.2.1")),
            (&["203.0.113.9, 192.0.2.1"], Some("192.0.2.1")),
            (&["203.0.113.9", "192.0.2.2 , 2001:db8::1"], Some("2001:db8::1")),
            (&["192.0.2.1:4711"], Some("192.0.2.1")),
            (&["[2001:db8::1]:4711"], Some("2001:db8::1")),
            (&["192.0.2.1, unknown"], None),
            (&[""], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(FORWARDED_FOR, value.parse().unwrap());
            }
            assert_eq!(last_hop(&headers), address.map(|address| address.parse().unwrap()), "{values:?}");
        }
    }
}
