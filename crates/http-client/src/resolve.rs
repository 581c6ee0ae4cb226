//! Looks up names: addresses of each family by a question of its own, and one answer is enough.
//!
//! The static C library fails a name as soon as one of its questions fails: that for AAAA, or that in a search domain. glibc,
//! and with it `curl`, does not.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use dns_lookup::{AddrInfoHints, getaddrinfo};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::awaited::Awaited;

/// How long the other family's answer is waited for, once there is an address that can be reached: far more than a resolver
/// needs that answers at all, and less than anybody notices.
const GRACE: Duration = Duration::from_millis(100);
/// Silence after which the next spelling of the name is asked for too.
const PATIENCE: Duration = Duration::from_millis(300);
/// Longest look-up, where the settings have none.
const LONGEST: Duration = Duration::from_secs(60);
/// How often the clock is looked at while nothing is heard.
const TICK: Duration = Duration::from_millis(10);
/// The search list, and most bytes of it that are read.
const RESOLV_CONF: (&str, u64) = ("/etc/resolv.conf", 64 << 10);
/// Families, as they are told.
const FAMILIES: [(&str, i32); 2] = [("A", libc::AF_INET), ("AAAA", libc::AF_INET6)];

/// Who is told what was asked.
#[derive(Clone, Default)]
pub struct Trace(Option<Arc<Tell>>);

type Tell = dyn Fn(&str) + Send + Sync;

impl Trace {
    /// Says `line`.
    pub(super) fn tell(&self, line: &str) {
        if let Self(Some(tell)) = self {
            tell(line);
        }
    }

    /// Each look-up is a line for `tell`.
    pub fn to(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}

/// The resolver of the HTTP library.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) trace: Trace,
    pub(super) awaited: Awaited,
}

impl Resolver for Names {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let place =
            uri.scheme().zip(uri.authority()).and_then(|(scheme, at)| DefaultResolver::host_and_port(scheme, at));
        let place = place.as_deref().and_then(|place| place.rsplit_once(':'));
        let Some((host, port)) = place.and_then(|(host, port)| Some((host, port.parse().ok()?))) else {
            return Err(ureq::Error::HostNotFound);
        };
        let host = host.trim_matches(['[', ']']);
        let found = match host.parse() {
            Ok(address) => vec![address],
            Err(_) => self.look_up(host, (*timeout.after).min(LONGEST))?,
        };
        // As RFC 6724 has it in short: what can be reached first, and IPv6 before IPv4.
        let is_choice = found.len() > 1;
        let place = |address: IpAddr| ((is_choice && !can_be_reached(address), address.is_ipv4()), address);
        let found: Vec<_> = found.into_iter().map(place).collect();
        let mut addresses = self.empty();
        for rank in [(false, false), (false, true), (true, false), (true, true)] {
            for (_, address) in found.iter().filter(|(its, _)| *its == rank) {
                // More than there is room for are never tried.
                let _ = addresses.try_push(SocketAddr::new(*address, port));
            }
        }
        Ok(addresses)
    }
}

impl Names {
    fn look_up(&self, host: &str, longest: Duration) -> io::Result<Vec<IpAddr>> {
        self.awaited.name(host);
        let mut search = Search::of(host, || {
            let conf = error::read_limited(Path::new(RESOLV_CONF.0), RESOLV_CONF.1).ok().flatten();
            String::from_utf8_lossy(&conf.unwrap_or_default()).into_owned()
        });
        let found = search.run(longest, can_be_reached, ask);
        let told = search.told();
        self.trace.tell(&format!("looked up {host}: {told}"));
        found.ok_or_else(|| io::Error::other(format!("failed to lookup address information: {told}")))
    }
}

/// Asks the C library, which reads `/etc/hosts` and asks DNS.
fn ask(name: &str, family: i32) -> Answer {
    let hints = AddrInfoHints { address: family, socktype: libc::SOCK_STREAM, ..AddrInfoHints::default() };
    let found = getaddrinfo(Some(name), None, Some(hints)).map_err(io::Error::from);
    let found = found.and_then(|found| found.map(|info| info.map(|info| info.sockaddr.ip())).collect());
    found.map_err(|error: io::Error| {
        let text = error.to_string();
        text.rsplit_once(": ").map_or(text.clone(), |(_, why)| why.to_owned())
    })
}

/// Whether there is a way to it; nothing is sent.
fn can_be_reached(address: IpAddr) -> bool {
    let own: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    // Any port will do.
    UdpSocket::bind((own, 0)).is_ok_and(|socket| socket.connect((address, 9)).is_ok())
}

/// `name` in each search domain of `conf`; the last list counts (resolv.conf(5)).
fn in_domains(name: &str, conf: &str) -> Vec<String> {
    let lists = conf.lines().map(str::split_ascii_whitespace);
    let mut list =
        lists.filter_map(|mut words| words.next().filter(|key| ["search", "domain"].contains(key)).map(|_| words));
    list.next_back().into_iter().flatten().map(|domain| format!("{name}.{}.", domain.trim_end_matches('.'))).collect()
}

/// The addresses of a family, or why there are none.
type Answer = Result<Vec<IpAddr>, String>;

/// One look-up.
struct Search {
    /// The name, as the C library reads it; itself and nothing else; and, once that is known to have no addresses, in each search
    /// domain.
    names: Vec<String>,
    /// For each of the first of `names` what each family's question came to; `None`: nothing yet.
    asked: Vec<[Option<Answer>; 2]>,
    /// Reads where the search list is.
    conf: Option<fn() -> String>,
}

impl Search {
    fn of(name: &str, conf: fn() -> String) -> Self {
        let (name, is_absolute) = (name.to_owned(), name.ends_with('.'));
        let absolute = (!is_absolute).then(|| format!("{name}."));
        Self { names: std::iter::once(name).chain(absolute).collect(), asked: Vec::new(), conf: Some(conf) }
    }

    /// Asks for one spelling after the other until one has addresses; `None`: all have failed, or `longest` is over.
    fn run(
        &mut self,
        longest: Duration,
        can_be_reached: impl Fn(IpAddr) -> bool,
        ask: impl Fn(&str, i32) -> Answer + Copy + Send + 'static,
    ) -> Option<Vec<IpAddr>> {
        let (sender, answers) = channel();
        let (begun, mut last, mut found_at) = (Instant::now(), Instant::now(), None);
        loop {
            if let Some(found) = self.asked.iter().find(|asked| asked.iter().flatten().any(Result::is_ok)) {
                let addresses: Vec<_> = found.iter().flatten().flatten().flatten().copied().collect();
                let is_whole = found.iter().all(Option::is_some);
                let is_late = found_at.get_or_insert_with(Instant::now).elapsed() >= GRACE;
                if is_whole || is_late && addresses.iter().any(|address| can_be_reached(*address)) {
                    return Some(addresses);
                }
            } else if self.is_next_due(last.elapsed()) {
                self.begin(ask, &sender);
                last = Instant::now();
                continue;
            } else if self.asked.iter().all(has_failed) {
                return None;
            }
            if begun.elapsed() >= longest {
                // What cannot be reached is better than nothing: its failure names the address.
                return self.asked.iter().flatten().flatten().find_map(|answer| answer.clone().ok());
            }
            if let Ok((name, family, answer)) = answers.recv_timeout(TICK) {
                self.take(name, family, answer);
            }
        }
    }

    /// The search domains count once the name itself is known to have no addresses. Until then silence brings the next question.
    fn is_next_due(&mut self, silence: Duration) -> bool {
        let is_name_gone = self.asked.get(1).is_some_and(has_failed);
        if let Some(conf) = self.conf.take_if(|_| is_name_gone) {
            self.names.extend(in_domains(&self.names[0], &conf()));
        }
        let may_hurry = self.asked.len() < 2 || is_name_gone;
        self.asked.len() < self.names.len() && (self.asked.iter().all(has_failed) || may_hurry && silence >= PATIENCE)
    }

    fn begin(
        &mut self,
        ask: impl Fn(&str, i32) -> Answer + Copy + Send + 'static,
        to: &Sender<(usize, usize, Answer)>,
    ) {
        let at = self.asked.len();
        self.asked.push([None, None]);
        for (family, (_, number)) in FAMILIES.iter().enumerate() {
            let (name, to, number) = (self.names[at].clone(), to.clone(), *number);
            let work = move || drop(to.send((at, family, ask(&name, number))));
            if let Err(error) = std::thread::Builder::new().name("resolve".into()).spawn(work) {
                self.take(at, family, Err(error.to_string()));
            }
        }
    }

    fn take(&mut self, name: usize, family: usize, answer: Answer) {
        if let Some(place) = self.asked.get_mut(name).and_then(|asked| asked.get_mut(family)) {
            *place = Some(answer);
        }
    }

    /// Each question and its answer.
    fn told(&self) -> String {
        let of_name = |(name, asked): (&String, &[Option<Answer>; 2])| {
            let of_family = |((family, _), answer): (&(&str, i32), &Option<Answer>)| match answer {
                None => format!("{family} {name}: no answer"),
                Some(Err(why)) => format!("{family} {name}: {why}"),
                Some(Ok(found)) => {
                    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
                    format!("{family} {name}: {}", found.join(" "))
                }
            };
            FAMILIES.iter().zip(asked).map(of_family).collect::<Vec<_>>().join(", ")
        };
        self.names.iter().zip(&self.asked).map(of_name).collect::<Vec<_>>().join(", ")
    }
}

fn has_failed(asked: &[Option<Answer>; 2]) -> bool {
    asked.iter().all(|answer| matches!(answer, Some(Err(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn silent() -> Answer {
        std::thread::park_timeout(Duration::from_secs(30));
        Err("late".to_owned())
    }

    fn look_up(
        conf: fn() -> String,
        ask: impl Fn(&str, i32) -> Answer + Copy + Send + 'static,
    ) -> (Option<Vec<IpAddr>>, String) {
        let mut search = Search::of("a.test", conf);
        let found = search.run(Duration::from_secs(2), |_| true, ask);
        (found, search.told())
    }

    #[test]
    fn spellings_are_the_name_the_absolute_name_and_that_in_each_domain_of_the_last_list() {
        assert_eq!(Search::of("a.test", String::new).names, ["a.test", "a.test."]);
        assert_eq!(Search::of("a.test.", String::new).names, ["a.test."]);
        let conf = "domain z.test\nnameserver 192.0.2.53\nsearch b.test  c.test.\noptions ndots:5\n";
        assert_eq!(in_domains("a", conf), ["a.b.test.", "a.c.test."]);
        assert_eq!(in_domains("a", "nameserver 192.0.2.53"), Vec::<String>::new());
    }

    #[test]
    fn a_search_domain_counts_only_once_the_name_itself_has_no_addresses() {
        let conf = || "search b.test".to_owned();
        let there = |family| if family == libc::AF_INET { Ok(vec![V4]) } else { silent() };
        let gone =
            move |name: &str, family| if name == "a.test.b.test." { there(family) } else { Err("no".to_owned()) };
        assert_eq!(look_up(conf, gone).0, Some(vec![V4]));
        let slow = move |name: &str, family| if name == "a.test.b.test." { there(family) } else { silent() };
        let (found, told) = look_up(conf, slow);
        assert_eq!(found, None);
        assert!(!told.contains("b.test"), "{told}");
        // The C library hangs in a search domain of its own.
        let hanging = move |name: &str, family| if name == "a.test." { there(family) } else { silent() };
        assert_eq!(look_up(conf, hanging).0, Some(vec![V4]));
    }
}
