//! Names as networks answer for them: each question of a look-up can fail by itself (SPEC §3).

use std::net::UdpSocket;
use std::sync::{Arc, Mutex};

use crate::support::*;

const NAME: &str = "teleport.home.test";
const A: u16 = 1;
const AAAA: u16 = 28;
/// What a look-up may take beside what it takes where all is well.
const SECONDS: Duration = Duration::from_secs(3);

/// What a name server says to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Loopback,
    NoData,
    Code(u8),
    Nothing,
}

const SERVFAIL: Says = Says::Code(2);
const NXDOMAIN: Says = Says::Code(3);
const NOTIMP: Says = Says::Code(4);
const REFUSED: Says = Says::Code(5);

/// The answer to a question for `name` and `kind`.
type Rule = Box<dyn Fn(&str, u16) -> Says + Send>;

/// A name server on port 53 of a network of this thread's own.
struct Dns {
    rule: Arc<Mutex<Rule>>,
    asked: Arc<Mutex<BTreeSet<(String, u16)>>>,
}

impl Dns {
    /// `None` without root.
    fn up() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        // SAFETY: of this thread alone, and of what it starts.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
        let rule: Arc<Mutex<Rule>> = Arc::new(Mutex::new(Box::new(|_, _| NXDOMAIN)));
        let asked = Arc::default();
        let dns = Self { rule: Arc::clone(&rule), asked: Arc::clone(&asked) };
        std::thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let (name, kind, end) = question(&packet[..length]);
                asked.lock().unwrap().insert((name.clone(), kind));
                let says = rule.lock().unwrap()(&name, kind);
                if let Some(answer) = answer(&packet[..end], kind, says) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        Some(dns)
    }

    fn set(&self, rule: impl Fn(&str, u16) -> Says + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
        self.asked.lock().unwrap().clear();
    }
}

/// Name and type of the first question, and where it ends.
fn question(packet: &[u8]) -> (String, u16, usize) {
    let (mut at, mut parts) = (12, Vec::new());
    while packet[at] != 0 {
        let end = at + 1 + usize::from(packet[at]);
        parts.push(String::from_utf8_lossy(&packet[at + 1..end]).into_owned());
        at = end;
    }
    (parts.join("."), u16::from_be_bytes([packet[at + 1], packet[at + 2]]), at + 5)
}

fn answer(question: &[u8], kind: u16, says: Says) -> Option<Vec<u8>> {
    let (code, has_address) = match says {
        Says::Nothing => return None,
        Says::Code(code) => (code, false),
        Says::NoData => (0, false),
        Says::Loopback => (0, true),
    };
    let mut bytes = question.to_owned();
    bytes[2..12].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, u8::from(has_address), 0, 0, 0, 0]);
    if has_address {
        let address: &[u8] =
            if kind == A { &[127, 0, 0, 1] } else { &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] };
        bytes.extend([
            0xc0,
            12,
            0,
            u8::try_from(kind).unwrap(),
            0,
            1,
            0,
            0,
            0,
            1,
            0,
            u8::try_from(address.len()).unwrap(),
        ]);
        bytes.extend(address);
    }
    Some(bytes)
}

struct Bench {
    dir: tempfile::TempDir,
    cluster: Cluster,
    dns: Dns,
}

impl Bench {
    fn up() -> Option<Self> {
        let dns = Dns::up()?;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/etc")).unwrap();
        let cluster = Cluster::start_as(&dir.path().join("cluster"), 0, &[NAME]);
        cluster.publish(&Archive::simple("1.0.0"));
        cluster.set_directive(Find::version("1.0.0"));
        Some(Self { dir, cluster, dns })
    }

    /// Runs the updater with this `/etc/resolv.conf`, and names in DNS alone.
    fn run(&self, conf: &str, args: &[&str]) -> (Ran, Duration) {
        let file = |name: &str, text: &str| {
            let path = self.dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let conf = file("resolv.conf", &format!("nameserver 127.0.0.1\n{conf}\n"));
        let hosts = file("hosts", "127.0.0.1 localhost\n");
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$1\" /etc/resolv.conf && mount --bind \"$2\" /etc/hosts && shift 2 && exec \"$@\"";
        command.args(["-m", "sh", "-c", script, "sh"]).arg(conf).arg(hosts);
        command.arg(updater()).arg("--root").arg(self.dir.path().join("root")).args(args);
        let begun = Instant::now();
        (Ran::of(&command.output().unwrap()), begun.elapsed())
    }

    fn enable(&self) {
        let proxy = format!("{NAME}:{}", self.cluster.port());
        let base = format!("https://{proxy}/cdn");
        let ca = self.cluster.ca_file().display().to_string();
        self.dns.set(|_, kind| if kind == A { Says::Loopback } else { Says::NoData });
        self.run("", &["enable", "--proxy", &proxy, "--base-url", &base, "--ca-file", &ca]).0.ok();
    }

    /// `update` asks the cluster, and takes about as long as where all is well.
    #[track_caller]
    fn reaches(&self, conf: &str, within: Duration, what: &str) {
        let (ran, took) = self.run(conf, &["update"]);
        assert_eq!(ran.status, 0, "{what}: {ran:#?}");
        assert!(ran.stderr.contains("1.0.0 (oss) is active, nothing to do"), "{what}: {ran:#?}");
        assert!(took < within, "{what}: {took:?}");
    }
}

#[test]
fn one_family_with_addresses_is_enough_whatever_the_other_question_comes_to() {
    let Some(bench) = Bench::up() else { return };
    bench.enable();
    for says in [Says::Loopback, Says::NoData, NXDOMAIN, SERVFAIL, NOTIMP, REFUSED, Says::Nothing] {
        bench.dns.set(move |_, kind| if kind == A { Says::Loopback } else { says });
        bench.reaches("", SECONDS, &format!("AAAA {says:?}"));
        // `status` has less than a second for all of it.
        let (status, took) = bench.run("", &["status", "--format", "json"]);
        assert_eq!(status.ok().json()["agent_version_desired"], "1.0.0", "AAAA {says:?}");
        assert!(took < SECONDS, "AAAA {says:?}: {took:?}");
    }
}

#[test]
fn a_search_domain_that_fails_does_not_keep_a_name_from_being_found() {
    let Some(bench) = Bench::up() else { return };
    bench.enable();
    for says in [Says::NoData, NXDOMAIN, SERVFAIL, NOTIMP, REFUSED, Says::Nothing] {
        for conf in
            ["search corp.test", "search corp.test svc.test\noptions ndots:5", "domain corp.test\noptions ndots:2"]
        {
            bench.dns.set(move |name, kind| match name {
                NAME if kind == A => Says::Loopback,
                NAME => Says::NoData,
                _ => says,
            });
            bench.reaches(conf, SECONDS, &format!("{says:?} in {conf:?}"));
        }
    }
}

#[test]
fn a_name_that_only_a_search_domain_has_is_found_there() {
    let Some(bench) = Bench::up() else { return };
    bench.enable();
    let full = format!("{NAME}.svc.test");
    for says in [Says::NoData, NXDOMAIN, SERVFAIL, NOTIMP, REFUSED, Says::Nothing] {
        for conf in ["search corp.test svc.test\noptions ndots:5", "search corp.test svc.test"] {
            let full = full.clone();
            bench.dns.set(move |name, kind| match (name, kind) {
                (name, A) if name == full => Says::Loopback,
                (name, AAAA) if name == full => says,
                (name, _) if name.ends_with("corp.test") => says,
                _ => NXDOMAIN,
            });
            bench.reaches(conf, SECONDS, &format!("{says:?} in {conf:?}"));
        }
    }
}

#[test]
fn a_name_that_nobody_has_is_told_with_every_question_in_bounded_time() {
    let Some(bench) = Bench::up() else { return };
    bench.enable();
    let settings = bench.dir.path().join("root/var/lib/teleport/versions/updates.yaml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replacen("spec:\n", "spec:\n  network:\n    tries: 1\n", 1)).unwrap();
    for (says, word) in [(NXDOMAIN, "Name does not resolve"), (SERVFAIL, "Try again"), (Says::Nothing, "no answer")] {
        bench.dns.set(move |_, _| says);
        let (ran, took) = bench.run("search corp.test", &["update"]);
        let ran = ran.fails(1, word).says(&format!("AAAA {NAME}: ")).says("/etc/hosts");
        let is_said = ran.stderr.contains(&format!("waiting for the name server: {NAME}\n"));
        assert!(says == SERVFAIL || is_said == (says == Says::Nothing), "{ran:#?}");
        assert!(took < Duration::from_secs(15), "{says:?}: {took:?}");
    }
    bench.dns.set(|_, kind| if kind == A { Says::Loopback } else { NXDOMAIN });
    let ran = bench.run("", &["--debug", "update"]).0.ok();
    let asked = format!("looked up {NAME}: A {NAME}: 127.0.0.1, AAAA {NAME}: Name does not resolve");
    assert!(ran.stderr.contains(&asked), "{ran:#?}");
}
