//! Sessions of the dashboard: what a browser has in place of a token (FLEET §8). They are in memory: a restart ends them; where
//! servers share a database they are also there, and each server takes those of the others.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fleet_store::{SessionLimits, SharedTables, StoredSession};
use fleet_wire::api::Role;
use tokio::sync::{Semaphore, watch};

use crate::tokens;

/// Without a page that somebody asked for.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// From its beginning.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions; beyond them the one goes that was used longest ago.
const MOST: usize = 1024;
/// Most of one token or person, so that nobody pushes out the others.
const MOST_OF_ONE: usize = 32;
/// What the database says of a session is good for so long.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// A page waits so long for the database: an operator who stops something must not wait for one that is gone.
const PATIENCE: Duration = Duration::from_secs(1);
/// A database that did not answer is asked again after so long.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Browsers for which the database is asked at once: who makes cookies up takes no more of its connections.
const ASKED: usize = 4;
/// Bytes of a session's secret.
const SECRET: usize = 32;

/// The sessions there are.
#[derive(Clone)]
pub(crate) struct Sessions {
    kept: Arc<Mutex<SessionList>>,
    shared: Option<SharedTables>,
    /// The digest of what says who people are and what they may do; `None`: nothing does.
    people: Option<String>,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct SessionList {
    entries: Vec<SessionEntry>,
    /// Digests of those that ended, and that the database may still have.
    ended: Vec<String>,
    /// When the database did not answer last.
    failed: Option<Instant>,
}

/// Whose a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Who has the token with this digest; what that may do is looked up each time.
    Token(String),
    /// Somebody whom an OpenID Connect provider named, with what he could do then.
    #[cfg_attr(not(feature = "oidc"), allow(dead_code, reason = "only a provider makes one"))]
    Person {
        /// `oidc SUBJECT (EMAIL)`.
        who: String,
        /// By the configuration.
        role: Role,
    },
}

impl Holder {
    /// Whether both are the same token or person.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Person { who, .. }, Self::Person { who: other, .. }) => who == other,
            _ => self == other,
        }
    }
}

struct SessionEntry {
    /// When the database had it last; `None`: it was not asked yet.
    seen: Option<Instant>,
    /// Of the cookie; the cookie itself is not kept.
    digest: String,
    holder: Holder,
    began: Instant,
    used: Instant,
    /// Whoever watches it sees it go.
    end: watch::Sender<()>,
}

/// A session that is good.
#[derive(Clone)]
pub(crate) struct LiveSession {
    /// Whose it is.
    pub(crate) holder: Holder,
    /// Closed when the session ends by a logout, or as there are too many.
    pub(crate) ended: watch::Receiver<()>,
}

impl Sessions {
    /// Those of this server; with `shared` those of all that share a database. `people`: the digest of the settings by which people
    /// log in: who logged in by others does it again.
    pub(crate) fn new(shared: Option<SharedTables>, people: Option<String>) -> Self {
        Self { kept: Arc::default(), shared, people, places: Arc::new(Semaphore::new(ASKED)) }
    }

    /// A new session of `holder`: the secret for its cookie. `None`: there are no random numbers.
    pub(crate) async fn begin(&self, holder: Holder) -> Option<String> {
        let secret = self.begin_here(holder.clone(), Instant::now())?;
        let digest = tokens::digest(&secret);
        let (who, role) = match holder {
            Holder::Token(digest) => (digest, None),
            Holder::Person { who, role } => (who, Some(self.kept_role(role))),
        };
        let limits = SessionLimits { idle: IDLE, longest: LONGEST, most_of_one: MOST_OF_ONE, most: MOST };
        let begin = move |shared: &SharedTables| shared.begin_session(&digest, &who, role.as_deref(), limits);
        self.ask(true, begin).await;
        Some(secret)
    }

    /// The session of this secret, if it is good now; with `is_use` it is good for another while. Where the database does not
    /// answer, it is what is known here.
    pub(crate) async fn find(&self, secret: &str, is_use: bool) -> Option<LiveSession> {
        let now = Instant::now();
        let digest = tokens::digest(secret);
        if !self.is_fresh(&digest, now) {
            let asked = digest.clone();
            if let Some(found) = self.ask(false, move |shared| shared.session(&asked, is_use)).await {
                self.learn(&digest, found, now);
            }
        }
        self.find_here(secret, now, is_use)
    }

    /// Ends the session of this secret. The answer: whether it ended on all servers; else that is tried again.
    pub(crate) async fn end(&self, secret: &str) -> bool {
        self.end_here(secret);
        if self.shared.is_none() {
            return true;
        }
        self.lock().ended.push(tokens::digest(secret));
        self.ask(true, |_| Ok(())).await.is_some()
    }

    /// Tells the database which sessions ended while it did not answer.
    pub(crate) async fn tell_ended(&self) {
        if !self.lock().ended.is_empty() {
            self.ask(true, |_| Ok(())).await;
        }
    }

    /// A person's role in the database: with what gave it.
    fn kept_role(&self, role: Role) -> String {
        format!("{role} {}", self.people.as_deref().unwrap_or_default())
    }

    /// What the database answers, after it was told which sessions ended; `None`: there is none, or it does not. `is_change`: it is
    /// asked also where it did not answer a moment ago.
    async fn ask<T: Send + 'static>(
        &self,
        is_change: bool,
        ask: impl FnOnce(&SharedTables) -> fleet_store::Result<T> + Send + 'static,
    ) -> Option<T> {
        let shared = self.shared.clone()?;
        let _place = self.places.acquire().await.ok()?;
        if !is_change && self.lock().failed.is_some_and(|failed| failed.elapsed() < ASK_AGAIN) {
            return None;
        }
        let ended = self.lock().ended.clone();
        let asked = move || {
            ended.iter().try_for_each(|digest| shared.end_session(digest))?;
            ask(&shared).map(|found| (found, ended))
        };
        let error = match tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(asked)).await {
            Ok(Ok(Ok((found, ended)))) => {
                self.lock().ended.retain(|digest| !ended.contains(digest));
                return Some(found);
            }
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => return None,
            Err(_) => "it does not answer".to_owned(),
        };
        tracing::warn!(error, "sessions of other servers are not known meanwhile");
        self.lock().failed = Some(Instant::now());
        None
    }

    /// Whether what is known of it here is as good as what the database says.
    fn is_fresh(&self, digest: &str, now: Instant) -> bool {
        let sessions = self.lock();
        let known = sessions.entries.iter().find(|kept| kept.digest == digest);
        known.and_then(|known| known.seen).is_some_and(|seen| now.saturating_duration_since(seen) < GOOD_FOR)
    }

    /// Takes what the database has. What it has not is over, also where it was begun while the database did not answer; and a person's
    /// role of other settings than this server's.
    fn learn(&self, digest: &str, found: Option<StoredSession>, now: Instant) {
        let mut sessions = self.lock();
        let ended = sessions.ended.iter().any(|ended| ended == digest);
        let Some((found, holder)) =
            found.filter(|_| !ended).and_then(|found| Some((found.clone(), self.holder(found)?)))
        else {
            return sessions.entries.retain(|kept| kept.digest != digest);
        };
        let before = |age| now.checked_sub(age).unwrap_or(now);
        let (began, used) = (before(found.age), before(found.idle));
        if let Some(kept) = sessions.entries.iter_mut().find(|kept| kept.digest == digest) {
            (kept.seen, kept.used) = (Some(now), kept.used.max(used));
            return;
        }
        sessions.entries.retain(|kept| kept.is_good(now));
        let (digest, end) = (digest.to_owned(), watch::Sender::new(()));
        sessions.entries.push(SessionEntry { seen: Some(now), digest, holder, began, used, end });
    }

    /// Whose it is; `None`: a person's whom nobody names here, or who may do something else by now.
    fn holder(&self, found: StoredSession) -> Option<Holder> {
        let Some(kept) = found.role else { return Some(Holder::Token(found.who)) };
        let role = Role::named(kept.split(' ').next()?)?;
        let is_ours = self.people.is_some() && kept == self.kept_role(role);
        is_ours.then_some(Holder::Person { who: found.who, role })
    }

    fn begin_here(&self, holder: Holder, now: Instant) -> Option<String> {
        let secret = secret()?;
        let sessions = &mut self.lock().entries;
        sessions.retain(|kept| kept.is_good(now));
        if sessions.iter().filter(|kept| kept.holder.is(&holder)).count() >= MOST_OF_ONE {
            remove_oldest(sessions, |kept| kept.holder.is(&holder));
        }
        if sessions.len() >= MOST {
            remove_oldest(sessions, |_| true);
        }
        let (digest, end) = (tokens::digest(&secret), watch::Sender::new(()));
        sessions.push(SessionEntry { seen: None, digest, holder, began: now, used: now, end });
        Some(secret)
    }

    fn find_here(&self, secret: &str, now: Instant, is_use: bool) -> Option<LiveSession> {
        let digest = tokens::digest(secret);
        let mut sessions = self.lock();
        let kept = sessions.entries.iter_mut().find(|kept| kept.digest == digest && kept.is_good(now))?;
        if is_use {
            kept.used = now;
        }
        Some(LiveSession { holder: kept.holder.clone(), ended: kept.end.subscribe() })
    }

    fn end_here(&self, secret: &str) {
        let digest = tokens::digest(secret);
        self.lock().entries.retain(|kept| kept.digest != digest);
    }

    fn lock(&self) -> MutexGuard<'_, SessionList> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionEntry {
    fn is_good(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE && now.duration_since(self.began) < LONGEST
    }
}

fn remove_oldest(sessions: &mut Vec<SessionEntry>, is_one: impl Fn(&SessionEntry) -> bool) {
    let among = sessions.iter().enumerate().filter(|(_, kept)| is_one(kept));
    if let Some(index) = among.min_by_key(|(_, kept)| kept.used).map(|(index, _)| index) {
        sessions.remove(index);
    }
}

/// What a cookie holds and nobody guesses: 64 hexadecimal digits. `None`: there are no random numbers.
pub(crate) fn secret() -> Option<String> {
    let mut bytes = [0; SECRET];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(base16ct::lower::encode_string(&bytes))
}

/// What forms of a session carry. Whoever has not the cookie cannot know it.
pub(crate) fn csrf(secret: &str) -> String {
    tokens::digest(&format!("csrf {secret}"))
}

/// Logins that failed, by address.
#[derive(Clone, Default)]
pub(crate) struct Failures(Arc<Mutex<Vec<Tries>>>);

struct Tries {
    from: IpAddr,
    since: Instant,
    count: u32,
}

/// Failed logins of an address in [`WINDOW`].
const TRIES: u32 = 10;
/// After it they are forgotten.
const WINDOW: Duration = Duration::from_secs(60);
/// Most addresses that are remembered; beyond them the oldest goes.
const ADDRESSES: usize = 4096;

impl Failures {
    /// How long `from` has to wait, where there were too many.
    #[cfg_attr(not(feature = "oidc"), allow(dead_code, reason = "a token is looked up without asking anybody"))]
    pub(crate) fn wait(&self, from: IpAddr, now: Instant) -> Option<Duration> {
        let from = network(from);
        let tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tries.iter().find(|tries| tries.from == from && tries.count >= TRIES)?;
        WINDOW.checked_sub(now.duration_since(known.since))
    }

    /// One more from `from`: how long it has to wait, where there were too many.
    pub(crate) fn note(&self, from: IpAddr, now: Instant) -> Option<Duration> {
        let from = network(from);
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tries.retain(|tries| now.duration_since(tries.since) < WINDOW);
        if let Some(known) = tries.iter_mut().find(|tries| tries.from == from) {
            known.count = known.count.saturating_add(1);
            return (known.count > TRIES).then(|| WINDOW.saturating_sub(now.duration_since(known.since)));
        }
        if tries.len() >= ADDRESSES {
            tries.remove(0);
        }
        tries.push(Tries { from, since: now, count: 1 });
        None
    }
}

/// Whoever has one IPv6 address has the 64 bits behind its network.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            std::net::Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn token(digest: &str) -> Holder {
        Holder::Token(digest.to_owned())
    }

    #[test]
    fn a_session_is_good_for_an_hour_after_its_last_use_and_twelve_in_all() {
        let (sessions, start) = (Sessions::new(None, None), Instant::now());
        let idle = sessions.begin_here(token("token"), start).unwrap();
        let used = sessions.begin_here(token("token"), start).unwrap();
        assert_eq!(used.len(), 64, "256 bits: {used}");
        assert!(sessions.find_here(&idle, start + IDLE - SECOND, false).is_some(), "a look that is no use");
        assert!(sessions.find_here(&idle, start + IDLE, true).is_none());
        let mut now = start;
        while now < start + LONGEST {
            assert_eq!(sessions.find_here(&used, now, true).unwrap().holder, token("token"));
            now += IDLE - SECOND;
        }
        assert!(sessions.find_here(&used, start + LONGEST - SECOND, true).is_some());
        assert!(sessions.find_here(&used, start + LONGEST, true).is_none());
    }

    #[test]
    fn an_end_is_seen_at_once_and_ends_no_other() {
        let (sessions, now) = (Sessions::new(None, None), Instant::now());
        let (one, other) =
            (sessions.begin_here(token("a"), now).unwrap(), sessions.begin_here(token("a"), now).unwrap());
        let found = sessions.find_here(&one, now, true).unwrap();
        assert!(found.ended.has_changed().is_ok());
        sessions.end_here(&one);
        assert!(found.ended.has_changed().is_err(), "closed");
        assert!(sessions.find_here(&one, now, true).is_none());
        assert!(sessions.find_here(&other, now, true).is_some());
        assert_ne!(csrf(&one), csrf(&other));
    }

    #[test]
    fn neither_a_token_nor_all_of_them_have_more_sessions_than_their_bound() {
        let (sessions, start) = (Sessions::new(None, None), Instant::now());
        let at = |number: usize| start + Duration::from_millis(u64::try_from(number).unwrap());
        let first = sessions.begin_here(token("a"), start).unwrap();
        let own: Vec<String> =
            (1..=MOST_OF_ONE).map(|number| sessions.begin_here(token("a"), at(number)).unwrap()).collect();
        assert!(sessions.find_here(&first, at(100), false).is_none(), "the oldest of the token");
        assert!(own.iter().all(|secret| sessions.find_here(secret, at(100), false).is_some()));
        for number in 0..MOST * 2 {
            sessions.begin_here(token(&format!("b{}", number % 100)), at(100 + number)).unwrap();
        }
        assert!(sessions.lock().entries.len() <= MOST);
    }

    #[test]
    fn a_person_has_no_more_sessions_than_a_token_whatever_his_role() {
        let (sessions, start) = (Sessions::new(None, None), Instant::now());
        let person = |role| Holder::Person { who: "oidc 1".to_owned(), role };
        let first = sessions.begin_here(person(Role::Viewer), start).unwrap();
        let other = sessions.begin_here(token("oidc 1"), start).unwrap();
        for _ in 0..MOST_OF_ONE {
            sessions.begin_here(person(Role::Admin), start + SECOND).unwrap();
        }
        assert!(sessions.find_here(&first, start + SECOND, false).is_none());
        assert!(sessions.find_here(&other, start + SECOND, false).is_some());
    }

    #[test]
    fn beyond_ten_failures_a_minute_an_address_waits_and_no_other() {
        let (failures, now) = (Failures::default(), Instant::now());
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let neighbour: IpAddr = "2001:db8::2".parse().unwrap();
        for _ in 0..TRIES {
            assert_eq!(failures.note(one, now), None);
        }
        assert_eq!(failures.note(neighbour, now + SECOND), Some(WINDOW - SECOND), "of the same network");
        assert_eq!(failures.wait(one, now + SECOND), Some(WINDOW - SECOND));
        assert_eq!(failures.note("192.0.2.1".parse().unwrap(), now), None);
        assert_eq!(failures.wait("192.0.2.1".parse().unwrap(), now), None);
        assert_eq!(failures.wait(one, now + WINDOW + SECOND), None);
        assert_eq!(failures.note(one, now + WINDOW), None);
        for number in 0..2 * u32::try_from(ADDRESSES).unwrap() {
            failures.note(std::net::Ipv4Addr::from_bits(number).into(), now + WINDOW);
        }
        assert!(failures.0.lock().unwrap().len() <= ADDRESSES);
    }
}
