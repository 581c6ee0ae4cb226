//! How many requests are in work at a time: one more is refused at once, and told when to come again (FLEET §5).
//!
//! A request is in work until its answer is made, not until its client has read it: a client that does not read takes no place
//! from others, and is closed by the listener.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use prometheus::process_collector::ProcessCollector;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use crate::failure::ApiFailure;

/// What anybody asks. An answer takes microseconds: so many are in work only where this host is overloaded.
const PUBLIC: usize = 1024;
/// Of those, who may wait for another server (a forwarded channel, at most five seconds): it must not use up the others' places.
const WAITING: usize = 256;
/// Hosts' reports: each is answered when it is durable, at most a second later, and has up to 16 KiB.
const REPORTS: usize = 4096;
/// The admin API, over one listener. Its answers wait for the core and the disk.
const ADMIN: usize = 256;
/// Of those, who only looks: whoever commands finds a place.
const LOOKS: usize = ADMIN / 4 * 3;
/// Of those, of one token.
const LOOKS_OF_ONE: usize = ADMIN / 4;
/// Pages, over one listener; those wait for the core and the disk too.
const PAGES: usize = 256;
/// Streams of what is decided, at a time: each takes a connection for as long as it likes.
const STREAMS: usize = 1024;
/// Of those, of one token, person or user: as many as he may have sessions.
const STREAMS_OF_ONE: usize = 32;
/// Seconds after which who was refused may come again: from the first, less than the sum (FLEET §5).
const AFTER: (u32, u32) = (5, 26);
/// Steps through all of [`AFTER`], neighbours far apart: it has no divisor in common with their number.
const STRIDE: u32 = 11;

/// What a listener has in work.
#[derive(Clone)]
pub(crate) struct Load(Arc<PlaceLimits>);

struct PlaceLimits {
    public: Bounded,
    waiting: Bounded,
    reports: Bounded,
    admin: Bounded,
    looks: Bounded,
    pages: Bounded,
    streams: Bounded,
    shares: Mutex<HashMap<(&'static str, String), usize>>,
    refused: AtomicU32,
}

struct Bounded {
    taken: AtomicUsize,
    most: usize,
}

/// What a request is, as far as its place goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
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

/// The places of a kind of requests.
type Places = fn(&PlaceLimits) -> &Bounded;

/// A place of a request; dropping it gives it back.
pub(crate) struct RequestPlace {
    load: Load,
    kind: Places,
}

/// A place of somebody who is known: of all of its kind, and of his own. Dropping it gives both back.
pub(crate) struct Share {
    place: RequestPlace,
    of: (&'static str, String),
}

/// Upper bounds of how long an answer takes, seconds: a host's 1 ms, a page's 50 ms (FLEET §11), and what somebody gives up on.
const SECONDS: [f64; 8] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];

/// What the requests came to, and what this process needs.
#[derive(Clone)]
pub(crate) struct RequestMeter {
    /// All of it.
    pub(crate) registry: Registry,
    answered: IntCounterVec,
    seconds: HistogramVec,
}

impl RequestMeter {
    /// Nothing was asked yet.
    ///
    /// # Errors
    /// Two have the same name.
    pub(crate) fn new() -> prometheus::Result<Self> {
        let answered = Opts::new("teleport_fleet_requests_total", "Requests that were answered");
        let answered = IntCounterVec::new(answered, &["kind", "status"])?;
        let seconds = HistogramOpts::new("teleport_fleet_request_seconds", "How long answers took");
        let seconds = HistogramVec::new(seconds.buckets(SECONDS.to_vec()), &["kind"])?;
        let registry = Registry::new();
        registry.register(Box::new(answered.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(ProcessCollector::for_self()))?;
        Ok(Self { registry, answered, seconds })
    }

    /// A request of `kind` was answered after so long.
    pub(crate) fn note(&self, kind: RequestKind, status: StatusCode, after: Duration) {
        self.answered.with_label_values(&[kind.row().0, status.as_str()]).inc();
        self.seconds.with_label_values(&[kind.row().0]).observe(after.as_secs_f64());
    }
}

impl RequestKind {
    /// Its body is read before it takes a place: anybody may send one, as slowly as he likes, and others wait for the same places.
    pub(crate) fn waits_for_its_body(self) -> bool {
        matches!(self, Self::Report | Self::Page)
    }

    /// As metrics name it, and as people do; and which places it takes.
    fn row(self) -> (&'static str, &'static str, Option<Places>) {
        match self {
            Self::Health => ("health", "health", None),
            Self::Admin => ("admin", "admin API", Some(|places| &places.admin)),
            Self::Report => ("report", "reports", Some(|places| &places.reports)),
            Self::Page => ("page", "dashboard", Some(|places| &places.pages)),
            Self::Public => ("public", "public", Some(|places| &places.public)),
        }
    }

    /// It is on record in the log, with an id that its answer has.
    pub(crate) fn is_of_operators(self) -> bool {
        matches!(self, Self::Admin | Self::Page)
    }
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

impl Load {
    /// Nothing is in work yet.
    pub(crate) fn new() -> Self {
        Self::of(PUBLIC, WAITING, ADMIN, PAGES)
    }

    fn of(public: usize, waiting: usize, admin: usize, pages: usize) -> Self {
        let bounded = |most| Bounded { taken: AtomicUsize::new(0), most };
        Self(Arc::new(PlaceLimits {
            public: bounded(public),
            waiting: bounded(waiting),
            reports: bounded(REPORTS),
            admin: bounded(admin),
            looks: bounded(LOOKS),
            pages: bounded(pages),
            streams: bounded(STREAMS),
            shares: Mutex::default(),
            refused: AtomicU32::new(0),
        }))
    }

    /// A place for a request; inside `None`: it needs none.
    pub(crate) fn enter(&self, kind: RequestKind) -> Result<Option<RequestPlace>, ApiFailure> {
        kind.row().2.map(|places| self.take(places)).transpose()
    }

    /// A place for a request that waits for another server.
    pub(crate) fn wait(&self) -> Result<RequestPlace, ApiFailure> {
        self.take(|places| &places.waiting)
    }

    /// A place for a request of the admin API by which `who` looks.
    pub(crate) fn look(&self, who: &str) -> Result<Share, ApiFailure> {
        self.share(|places| &places.looks, ("look", who), LOOKS_OF_ONE)
    }

    /// A place for a stream of what is decided, for `who`.
    pub(crate) fn stream(&self, who: &str) -> Result<Share, ApiFailure> {
        self.share(|places| &places.streams, ("stream", who), STREAMS_OF_ONE)
    }

    fn share(&self, kind: Places, (what, who): (&'static str, &str), most: usize) -> Result<Share, ApiFailure> {
        let place = self.take(kind)?;
        let of = (what, who.to_owned());
        let mut shares = self.0.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = shares.entry(of.clone()).or_default();
        if *taken >= most {
            return Err(self.overloaded());
        }
        *taken += 1;
        Ok(Share { place, of })
    }

    fn take(&self, kind: Places) -> Result<RequestPlace, ApiFailure> {
        let bounded = kind(&self.0);
        // Whoever finds no place gives back what it took of the count.
        let place = RequestPlace { load: self.clone(), kind };
        if bounded.taken.fetch_add(1, Ordering::Relaxed) < bounded.most {
            return Ok(place);
        }
        Err(self.overloaded())
    }

    fn overloaded(&self) -> ApiFailure {
        let (first, number) = AFTER;
        let turn = self.0.refused.fetch_add(1, Ordering::Relaxed);
        ApiFailure::overloaded(first + turn.wrapping_mul(STRIDE) % number)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.place.load.0.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut taken) = shares.entry(std::mem::take(&mut self.of)) {
            *taken.get_mut() -= 1;
            if *taken.get() == 0 {
                taken.remove();
            }
        }
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        (self.kind)(&self.load.0).taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn beyond_its_bound_a_kind_is_refused_and_the_others_are_served() {
        let load = Load::of(2, 1, 1, 1);
        let first = load.enter(RequestKind::Public).unwrap();
        let second = load.enter(RequestKind::Public).unwrap();
        let waiting = load.wait().unwrap();
        for _ in 0..100 {
            assert!(load.enter(RequestKind::Public).is_err() && load.wait().is_err());
        }
        assert!(load.enter(RequestKind::Health).unwrap().is_none());
        let admin = load.enter(RequestKind::Admin).unwrap();
        assert!(load.enter(RequestKind::Admin).is_err());
        let page = load.enter(RequestKind::Page).unwrap();
        assert!(load.enter(RequestKind::Page).is_err());
        drop(first);
        let third = load.enter(RequestKind::Public).unwrap();
        assert!(load.enter(RequestKind::Public).is_err());
        drop((second, third, waiting, admin, page));
        assert!(
            load.wait().is_ok() && load.enter(RequestKind::Admin).is_ok() && load.enter(RequestKind::Public).is_ok()
        );
    }

    #[test]
    fn one_who_looks_or_follows_takes_no_more_than_his_share_and_leaves_places_for_commands() {
        let load = Load::new();
        let mut looks: Vec<_> = (0..LOOKS_OF_ONE).map(|_| load.look("token a").unwrap()).collect();
        assert!(load.look("token a").is_err());
        let streams: Vec<_> = (0..STREAMS_OF_ONE).map(|_| load.stream("token a").unwrap()).collect();
        assert!(load.stream("token a").is_err() && load.stream("token b").is_ok());
        for who in ["token b", "token c"] {
            looks.extend((0..LOOKS_OF_ONE).map(|_| load.look(who).unwrap()));
        }
        assert!(load.look("token d").is_err(), "all that look together");
        let commands: Vec<_> = (0..ADMIN - LOOKS).map(|_| load.enter(RequestKind::Admin).unwrap()).collect();
        drop((looks, streams, commands));
        assert!(load.look("token a").is_ok() && load.stream("token a").is_ok());
        assert!(load.0.shares.lock().unwrap().is_empty());
    }

    #[test]
    fn who_is_refused_comes_again_within_5_to_30_seconds_spread_evenly() {
        let load = Load::of(0, 0, 0, 0);
        let after: Vec<u32> = (0..26).map(|_| load.wait().err().unwrap().after.unwrap()).collect();
        assert_eq!(after.iter().copied().collect::<BTreeSet<_>>(), (5..=30).collect());
        assert!(after.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 5), "{after:?}");
    }
}
