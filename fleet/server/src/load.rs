//! How many requests are in work at a time: one more is refused at once, and told when to come again (FLEET §5).
//!
//! A request is in work until its answer is made, not until its client has read it: a client that does not read takes no place
//! from others, and is closed by the listener.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use fleet_api::{Code, Wrong};

use crate::failure::Failure;

/// What anybody asks. An answer takes microseconds: so many are in work only where this host is overloaded.
const PUBLIC: usize = 1024;
/// Of those, who may wait for another server (a forwarded channel, at most five seconds): it must not use up the others' places.
const WAITING: usize = 256;
/// Hosts' reports: each is answered when it is durable, at most a second later, and has up to 16 KiB.
const REPORTS: usize = 4096;
/// The admin API, over one listener. Its answers wait for the core and the disk.
const ADMIN: usize = 256;
/// Pages, over one listener; those wait for the core and the disk too.
const PAGES: usize = 256;
/// Seconds after which who was refused may come again: from the first, less than the sum (FLEET §5).
const AFTER: (u32, u32) = (5, 26);
/// Steps through all of [`AFTER`], neighbours far apart: it has no divisor in common with their number.
const STRIDE: u32 = 11;

/// What a listener has in work.
#[derive(Clone)]
pub(crate) struct Load(Arc<Places>);

struct Places {
    public: Bounded,
    waiting: Bounded,
    reports: Bounded,
    admin: Bounded,
    pages: Bounded,
    refused: AtomicU32,
}

struct Bounded {
    taken: AtomicUsize,
    most: usize,
}

/// What a request is, as far as its place goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Health: it is answered whatever the load.
    Health,
    /// The admin API.
    Admin,
    /// A host's report.
    Report,
    /// The dashboard.
    Page,
    /// Everything else.
    Public,
}

/// A place of a request; dropping it gives it back.
pub(crate) struct Place {
    load: Load,
    kind: fn(&Places) -> &Bounded,
}

/// There is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overloaded {
    /// Come again after so many seconds.
    after: u32,
}

impl Kind {
    /// Its body is read before it takes a place: anybody may send one, as slowly as he likes, and others wait for the same places.
    pub(crate) fn waits_for_its_body(self) -> bool {
        matches!(self, Self::Report | Self::Page)
    }

    /// It is on record in the log, with an id that its answer has.
    pub(crate) fn is_of_operators(self) -> bool {
        matches!(self, Self::Admin | Self::Page)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Health => "health",
            Self::Admin => "admin API",
            Self::Report => "reports",
            Self::Page => "dashboard",
            Self::Public => "public",
        })
    }
}

impl Load {
    /// Nothing is in work yet.
    pub(crate) fn new() -> Self {
        Self::of(PUBLIC, WAITING, ADMIN, PAGES)
    }

    fn of(public: usize, waiting: usize, admin: usize, pages: usize) -> Self {
        let bounded = |most| Bounded { taken: AtomicUsize::new(0), most };
        let refused = AtomicU32::new(0);
        Self(Arc::new(Places {
            public: bounded(public),
            waiting: bounded(waiting),
            reports: bounded(REPORTS),
            admin: bounded(admin),
            pages: bounded(pages),
            refused,
        }))
    }

    /// A place for a request; inside `None`: it needs none.
    pub(crate) fn enter(&self, kind: Kind) -> Result<Option<Place>, Overloaded> {
        match kind {
            Kind::Health => Ok(None),
            Kind::Admin => self.take(|places| &places.admin).map(Some),
            Kind::Report => self.take(|places| &places.reports).map(Some),
            Kind::Page => self.take(|places| &places.pages).map(Some),
            Kind::Public => self.take(|places| &places.public).map(Some),
        }
    }

    /// A place for a request that waits for another server.
    pub(crate) fn wait(&self) -> Result<Place, Overloaded> {
        self.take(|places| &places.waiting)
    }

    fn take(&self, kind: fn(&Places) -> &Bounded) -> Result<Place, Overloaded> {
        let bounded = kind(&self.0);
        // Whoever finds no place gives back what it took of the count.
        let place = Place { load: self.clone(), kind };
        if bounded.taken.fetch_add(1, Ordering::Relaxed) < bounded.most {
            return Ok(place);
        }
        let (first, number) = AFTER;
        let turn = self.0.refused.fetch_add(1, Ordering::Relaxed);
        Err(Overloaded { after: first + turn.wrapping_mul(STRIDE) % number })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.kind)(&self.load.0).taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl IntoResponse for Overloaded {
    fn into_response(self) -> Response {
        let message = format!("too many requests are in work: come again in {} s", self.after);
        let mut response = Failure::from(Wrong::new(Code::Overloaded, message)).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(self.after));
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn beyond_its_bound_a_kind_is_refused_and_the_others_are_served() {
        let load = Load::of(2, 1, 1, 1);
        let first = load.enter(Kind::Public).unwrap();
        let second = load.enter(Kind::Public).unwrap();
        let waiting = load.wait().unwrap();
        for _ in 0..100 {
            assert!(load.enter(Kind::Public).is_err() && load.wait().is_err());
        }
        assert!(load.enter(Kind::Health).unwrap().is_none());
        let admin = load.enter(Kind::Admin).unwrap();
        assert!(load.enter(Kind::Admin).is_err());
        let page = load.enter(Kind::Page).unwrap();
        assert!(load.enter(Kind::Page).is_err());
        drop(first);
        let third = load.enter(Kind::Public).unwrap();
        assert!(load.enter(Kind::Public).is_err());
        drop((second, third, waiting, admin, page));
        assert!(load.wait().is_ok() && load.enter(Kind::Admin).is_ok() && load.enter(Kind::Public).is_ok());
    }

    #[test]
    fn who_is_refused_comes_again_within_5_to_30_seconds_spread_evenly() {
        let load = Load::of(0, 0, 0, 0);
        let after: Vec<u32> = (0..26).map(|_| load.wait().err().unwrap().after).collect();
        assert_eq!(after.iter().copied().collect::<BTreeSet<_>>(), (5..=30).collect());
        assert!(after.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 5), "{after:?}");
    }
}
