//! Several servers over one real PostgreSQL: what one decides or hears, all know; none lets more hosts update than one would.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testing::postgres::Postgres;

use crate::reports::host::{Host, epoch, together};
use crate::support::visitor::Visitor;
use crate::support::{Server, dir, groups, refused, request, version};

/// Until every server knows what one decided, or has no say any more (FLEET §11).
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// Of a request that changes something.
const ID: &str = "11111111-2222-4333-8444-555555555556";

/// A PostgreSQL server, and servers that share a database on it.
pub(crate) struct Fleet {
    postgres: Postgres,
    url: String,
    pub(crate) nodes: Vec<(TempDir, Option<Server>)>,
    pub(crate) words: Vec<String>,
}

impl Fleet {
    /// So many servers, with these words; `None`, and said: there is no PostgreSQL here.
    pub(crate) fn start(count: usize, words: &[&str]) -> Option<Self> {
        let postgres = Postgres::start(&[])?;
        let url = postgres.database("fleet");
        let words = [&["--plain", "--store", &url], words].concat().into_iter().map(str::to_owned).collect();
        let nodes = (0..count).map(|_| (dir(), None)).collect();
        let mut fleet = Self { postgres, url, nodes, words };
        (0..count).for_each(|number| fleet.begin(number));
        Some(fleet)
    }

    pub(crate) fn begin(&mut self, number: usize) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let server = Server::with(self.nodes[number].0.path(), &words);
        self.nodes[number].1 = Some(server);
    }

    pub(crate) fn node(&self, number: usize) -> &Server {
        self.nodes[number].1.as_ref().unwrap()
    }

    fn all(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter_map(|(_, server)| server.as_ref())
    }

    /// Waits until every server that runs says so.
    pub(crate) fn until_all(&self, what: &str, condition: impl Fn(&Server) -> bool) {
        self.all().for_each(|server| server.until(what, || condition(server)));
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.postgres.sql("fleet", sql).unwrap()
    }
}

fn state(server: &Server, host: &Host) -> Value {
    server.parsed(&["host", &host.id])["state"].clone()
}

fn hosts(count: u8) -> Vec<Host> {
    (1..=count).map(|number| Host::new(number, "dev")).collect()
}

#[test]
fn what_one_decides_and_hears_all_know_within_two_seconds() {
    let Some(fleet) = Fleet::start(3, &[]) else { return };
    let (first, second, third) = (fleet.node(0), fleet.node(1), fleet.node(2));
    first.rolls(&["dev", "prod"]);
    second.until("the rollout", || second.get("/v1/webapi/find?group=dev").1.contains("1.1.0"));
    let epoch = epoch(second);
    let host = Host::new(1, "dev");
    assert_eq!(host.sends(second.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    fleet.until_all("the host", |server| server.ok(&["hosts"]).contains(&host.id));
    // A report that another server took is not taken twice.
    let report = host.says(epoch, "1.0.0", None);
    assert_eq!((host.sends(third.addr, &report).0, host.sends(first.addr, &report).0), (200, 409));
    third.agents(&["start-update", "dev"]);
    fleet.until_all("its turn has come", |server| host.asks(server, Some(epoch)).1);
    fleet.until_all("it was told", |server| state(server, &host) == "told");
    // A stop, and how long hosts are still told to update by any server.
    let stopped = Instant::now();
    first.agents(&["halt", "dev"]);
    fleet.until_all("the stop", |server| !host.asks(server, Some(epoch)).1);
    assert!(stopped.elapsed() < KNOWN_WITHIN, "{:?}", stopped.elapsed());
    // Records have one chain, and each server tells all of them.
    let told: Vec<String> = fleet.all().map(|server| server.ok(&["audit"])).collect();
    assert!(told.iter().all(|log| *log == told[0] && log.contains("halt group dev")));
    assert!(third.ok(&["audit", "verify"]).contains("records"));
}

/// A host that enrolled at one server is heard wherever it asks, by what it signs.
#[test]
fn a_host_is_heard_by_a_server_that_it_never_reported_to() {
    let Some(fleet) = Fleet::start(2, &[]) else { return };
    let (first, second) = (fleet.node(0), fleet.node(1));
    first.rolls(&["dev"]);
    first.agents(&["start-update", "dev"]);
    second.until("the rollout", || second.get("/v1/webapi/find?group=dev").1.contains("1.1.0"));
    let (epoch, host) = (epoch(first), Host::new(1, "dev"));
    assert_eq!(host.sends(first.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    second.until("its turn has come", || host.asks(second, Some(epoch)).1);
    fleet.until_all("it was told", |server| {
        host.asks(second, Some(epoch));
        state(server, &host) == "told"
    });
}

/// A directive that one server was given as a draft, another planned, and a third applied; a halt of it outlasts a rewrite elsewhere.
#[test]
fn a_directive_goes_from_draft_to_rollout_over_any_of_the_servers_and_its_stop_is_known_to_all() {
    let Some(fleet) = Fleet::start(3, &[]) else { return };
    let (first, second, third) = (fleet.node(0), fleet.node(1), fleet.node(2));
    first.rolls(&["dev"]);
    let (epoch, host) = (epoch(first), Host::new(1, "dev"));
    assert_eq!(host.sends(second.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    first.ok(&["rm", "autoupdate_version"]);
    let directive = |more: &str| {
        format!(
            "kind: version-directive\nspec: {{{more}directives: [{{name: all, selectors: [{{labels: {{'*': '*'}}}}], targets: \
             [{{version: 1.1.0}}]}}]}}"
        )
    };
    let written = |server: &Server, more: &str| {
        let ran = server.cli_with(&["create-draft", "-", "--name", "ci/x"], &directive(more));
        assert!(ran.status.success(), "{ran:?}");
    };
    written(first, "");
    second.until("the draft", || second.ok(&["drafts"]).contains("ci/x"));
    let plan = |server: &Server| {
        let told = server.ok(&["version-control", "plan", "ci/x"]);
        told.split_whitespace().nth(1).unwrap().to_owned()
    };
    let id = plan(second);
    third.until("the plan", || third.ok(&["version-control", "pending"]).contains(&id));
    third.ok(&["version-control", "apply", &id]);
    fleet.until_all("the directive", |server| server.ok(&["version-control", "status"]).contains("Status: active"));
    fleet.until_all("its turn has come", |server| host.asks(server, Some(epoch)).1);
    second.agents(&["halt", "all"]);
    fleet.until_all("the stop", |server| !host.asks(server, Some(epoch)).1);
    written(third, "config_id: again, ");
    let id = plan(third);
    first.until("the plan", || first.ok(&["version-control", "pending"]).contains(&id));
    first.ok(&["version-control", "apply", &id]);
    fleet.until_all("the directive", |server| server.ok(&["version-control", "status"]).contains("Source: again"));
    fleet
        .all()
        .for_each(|server| assert!(!host.asks(server, Some(epoch)).1 && server.group("all")["state"] == "halted"));
}

#[test]
fn the_record_of_who_is_forgotten_has_the_key_that_another_server_took() {
    let Some(fleet) = Fleet::start(2, &[]) else { return };
    let (first, second, host) = (fleet.node(0), fleet.node(1), Host::new(1, "dev"));
    first.rolls(&["dev"]);
    let epoch = epoch(first);
    assert_eq!(host.sends(first.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    second.until("the host", || second.ok(&["hosts"]).contains(&host.id));
    second.ok(&["host", &host.id, "forget"]);
    let records = second.records();
    let forgotten = records.iter().find(|record| record["action"] == "forget").unwrap();
    assert_eq!(forgotten["detail"]["key"], host.key().to_string());
    // It comes again with another one, which all believe.
    first.until("it is gone", || !first.ok(&["hosts"]).contains(&host.id));
    let again = Host::with_key(1, "dev", 9);
    assert_eq!(again.sends(first.addr, &again.says(epoch, "1.0.0", None)).0, 200);
    assert_eq!(again.sends(second.addr, &again.says(epoch, "1.0.0", None)).0, 200);
    assert_ne!(host.sends(second.addr, &host.says(epoch, "1.0.0", None)).0, 200);
}

#[test]
fn what_is_limited_is_limited_for_all_together() {
    let Some(fleet) = Fleet::start(2, &["--enrolment", "token"]) else { return };
    let (first, second) = (fleet.node(0), fleet.node(1));
    first.rolls(&["dev"]);
    let made = first.ok(&["tokens", "join", "create", "three", "--uses", "3"]);
    let secret = made.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap();
    second.until("the token", || second.ok(&["tokens", "join"]).contains("three"));
    let epoch = epoch(second);
    let hosts = hosts(8);
    let taken = together(&hosts, |host| {
        let to = if host.next() % 2 == 0 { first.addr } else { second.addr };
        let to = if host.id.ends_with(['1', '3', '5', '7']) { first.addr } else { to };
        host.joins(to, &host.says(epoch, "1.0.0", None), secret).0
    });
    assert_eq!(taken.iter().filter(|status| **status == 200).count(), 3, "{taken:?}");
    // Six reports at once of a host, wherever it sends them.
    let (host, _) = hosts.iter().zip(&taken).find(|(_, status)| **status == 200).unwrap();
    let sent = (0..12).map(|number| {
        let to = if number % 2 == 0 { first } else { second };
        host.sends(to.addr, &host.says(epoch, "1.0.0", None)).0
    });
    let taken = sent.filter(|status| *status == 200).count();
    assert!((5..=7).contains(&taken), "{taken}");
}

/// Behind a balancer each request of a browser may come to another server.
#[test]
fn a_browser_may_come_to_any_server_and_each_knows_the_others() {
    let Some(mut fleet) = Fleet::start(3, &[]) else { return };
    let token = fleet.node(0).token("op", "operator");
    fleet.until_all("the token", |server| server.ok(&["tokens"]).contains("op"));
    fleet.node(0).rolls(&["dev"]);
    fleet.until_all("the rollout", |server| server.get("/v1/webapi/find?group=dev").1.contains("1.1.0"));
    let at = |number| fleet.node(number);
    let (here, there, third) =
        (Visitor::with(at(0), &token), Visitor::with(at(1), &token), Visitor::with(at(2), &token));
    let [mut first, other] = [here.at(at(1).addr), there.at(at(2).addr)];
    assert_eq!((first.get("/").status, other.get("/").status), (200, 200), "at once");
    // A form of a page that another server gave.
    let csrf = first.csrf();
    first = first.at(at(2).addr);
    let halted = first.post("/act", &[("csrf", &csrf), ("do", "halt"), ("id", ID), ("rollout", "1")]);
    assert_eq!(halted.status, 200, "{halted:?}");
    fleet.until_all("the stop", |server| server.agents(&["status"]).contains("Rollout state: Halted"));
    // A logout at one server ends it on all, and no other session.
    assert_eq!(third.at(at(0).addr).get("/").status, 200);
    assert_eq!(other.post("/logout", &[("csrf", &other.csrf())]).status, 303);
    fleet.until_all("the logout", |server| there.at(server.addr).get("/").status == 303);
    assert_eq!(third.at(at(1).addr).get("/").status, 200);
    // Where the database does not answer, who is known at a server goes on there.
    let leaves = Visitor::with(at(1), &token);
    let csrf = leaves.csrf();
    fleet.sql("ALTER TABLE session RENAME TO gone");
    assert_eq!(third.at(at(1).addr).get("/").status, 200);
    // A logout says that it is one here alone, and is one everywhere by itself when the database answers.
    let answer = leaves.post("/logout", &[("csrf", &csrf)]);
    assert!(answer.status == 200 && answer.body.contains("as soon as the database answers"), "{answer:?}");
    fleet.sql("ALTER TABLE gone RENAME TO session");
    fleet.until_all("the logout is everywhere", |server| leaves.at(server.addr).get("/").status == 303);
    // A person's session counts where the same settings name people, and nowhere else: with the token's digest it is known.
    let secret = "0".repeat(64);
    let digest = protocol::Digest::of(secret.as_bytes()).to_string();
    fleet.sql(&format!(
        "INSERT INTO session (digest, who, role, began, used) SELECT '{digest}', 'oidc x', 'admin of-other-settings', began, used \
         FROM session LIMIT 1"
    ));
    let mut person = Visitor::new(at(0));
    person.cookie = Some(format!("fleet={secret}"));
    assert_eq!(person.get("/").status, 303, "nobody names people here");
    // Each knows all, and that one is gone.
    let name = |server: &Server| format!(":{}", server.addr.port());
    let names: Vec<String> = fleet.all().map(name).collect();
    fleet.until_all("three servers", |server| {
        let (page, text) = (third.at(server.addr).get("/").body, server.metrics());
        let up = text.lines().filter(|line| line.starts_with("teleport_fleet_server_up") && line.ends_with(" 1"));
        let is_there =
            |name: &String| page.contains(&format!("{name}: version")) && text.contains(&format!("{name}\",id="));
        names.iter().all(is_there) && up.count() == 3
    });
    fleet.nodes[1].1.take().unwrap().stop();
    fleet.nodes[2].1.take().unwrap().kill();
    // It was heard of last so long ago.
    fleet.sql("UPDATE server SET seen = seen - 60000");
    let first = fleet.node(0);
    let visitor = Visitor::with(first, &token);
    first.until("one is gone in order, and one is silent", || {
        let page = visitor.get("/").body;
        !page.contains(&format!("{}: ", names[1])) && page.contains(&format!("{}: not heard of for", names[2]))
    });
    let data = fleet.nodes[0].0.path().join("data");
    let doctor = first.cli(&["doctor", "--store", &fleet.url, "--data", data.to_str().unwrap()]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    let line = |name: &str, rest: &str| said.lines().any(|line| line.contains(&format!("{name}{rest}")));
    assert!(line(&names[0], ": version ") && line(&names[2], ": not heard of for ") && !line(&names[1], ":"), "{said}");
}

/// As docs/fleet-scale.md prints it, but for addresses and TLS: database, configuration, and a balancer before three servers.
#[test]
fn three_servers_behind_a_balancer_as_the_page_prints_them() {
    const PAGE: &str = include_str!("../../../../docs/fleet-scale.md");
    if !Command::new("haproxy").arg("-v").output().is_ok_and(|found| found.status.success()) {
        return eprintln!("skipped: there is no haproxy here");
    }
    let Some(postgres) = Postgres::start(&[]) else { return };
    // What is printed: a piece of lines with seven blanks before them.
    let printed = |begins: &str| {
        let (_, rest) = PAGE.split_once(&format!("\n       {begins}")).unwrap();
        let first = begins.to_owned() + rest.lines().next().unwrap();
        let further = rest.lines().skip(1).map_while(|line| line.strip_prefix("       "));
        std::iter::once(first).chain(further.map(str::to_owned)).collect::<Vec<_>>()
    };
    // Another name: the test's own user is called so.
    let database = format!("127.0.0.1:{}", postgres.port);
    for line in printed("CREATE ROLE") {
        postgres
            .sql("postgres", &line.replace("ROLE fleet", "ROLE fleets").replace("OWNER fleet", "OWNER fleets"))
            .unwrap();
    }
    let store = printed("store: ").join("").replace("fleet@db.example.com", &format!("fleets@{database}"));
    let store = store.replace("?sslmode=verify-full", "");
    let nodes: Vec<(TempDir, Option<Server>)> = (0..3).map(|_| (dir(), None)).collect();
    for (dir, _) in &nodes {
        std::fs::write(dir.path().join("config.yaml"), format!("{store}\nplain: true\nbehind_proxy: true\n")).unwrap();
    }
    let mut fleet = Fleet { postgres, url: String::new(), nodes, words: Vec::new() };
    (0..3).for_each(|number| fleet.begin(number));
    let (_balancer, place) = balancer(&fleet, printed("defaults").join("\n") + "\n");
    let find = || request(place, "GET", "/v1/webapi/find?group=dev", "", "");
    fleet.node(0).until("the balancer", || {
        TcpStream::connect(place).is_ok() && request(place, "GET", "/readyz", "", "").0 == 200
    });
    fleet.node(0).rolls(&["dev"]);
    fleet.until_all("the rollout", |server| server.get("/v1/webapi/find?group=dev").1.contains("1.1.0"));
    assert!((0..30).all(|_| find().1.contains("1.1.0")));
    let asked = |server: &Server| {
        let metrics = server.metrics();
        metrics.lines().any(|line| line.starts_with("teleport_fleet_requests_total{kind=\"public\",status=\"200\"}"))
    };
    assert!(fleet.all().all(asked), "each got some");
    // A browser: each request comes to another server; a page that follows hears of what another decides.
    let token = fleet.node(0).token("op", "operator");
    fleet.until_all("the token", |server| server.ok(&["tokens"]).contains("op"));
    let mut browser = Visitor::new(fleet.node(0)).at(place);
    assert_eq!(browser.login(&token).status, 303);
    assert!((0..9).all(|_| browser.get("/").status == 200));
    let mut stream = TcpStream::connect(place).unwrap();
    let cookie = browser.cookie.clone().unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nhost: test\r\ncookie: {cookie}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == ": hello"));
    let stop =
        [("csrf", browser.csrf()), ("do", "halt".to_owned()), ("id", ID.to_owned()), ("rollout", "1".to_owned())];
    let stop = stop.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(browser.post("/act", &stop).status, 200);
    assert!(lines.any(|line| line == "event: changed"));
    // One that dies is left out.
    fleet.nodes[1].1.take().unwrap().kill();
    fleet.node(0).until("all answers are good", || (0..30).all(|_| find().0 == 200));
    assert!((0..9).all(|_| browser.get("/").status == 200));
}

/// HAProxy with this configuration, but for the addresses of itself and of the servers; and where it listens.
fn balancer(fleet: &Fleet, mut text: String) -> (Child, SocketAddr) {
    let place = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    text = text.replace(":443 ssl crt /etc/haproxy/fleet.pem", &place.to_string());
    for (name, server) in ["a", "b", "c"].into_iter().zip(fleet.all()) {
        text = text.replace(&format!("{name}.example.com:3080"), &server.addr.to_string());
    }
    let file = fleet.nodes[0].0.path().join("haproxy.cfg");
    std::fs::write(&file, text).unwrap();
    (Child(Command::new("haproxy").arg("-db").arg("-f").arg(&file).spawn().unwrap()), place)
}

/// Ends with the value.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each host asks another server each time, and servers are killed meanwhile: of ten hosts at most two are on their way.
#[test]
fn no_more_hosts_update_than_one_server_would_let() {
    let Some(mut fleet) = Fleet::start(3, &[]) else { return };
    let group = "{name: dev, days: [\"*\"], start_hour: 1, max_in_flight: '20%'}";
    fleet.node(0).create(&format!(
        "kind: autoupdate_config\nversion: v1\nspec: {{agents: {{mode: enabled, strategy: halt-on-error, schedules: {{regular: \
         [{group}]}}}}}}\n---\n{}",
        version("1.0.0", "1.1.0", "regular")
    ));
    fleet.until_all("the rollout", |server| server.get("/v1/webapi/find?group=dev").1.contains("1.1.0"));
    let (epoch, hosts) = (epoch(fleet.node(0)), hosts(10));
    for (number, host) in hosts.iter().enumerate() {
        assert_eq!(host.sends(fleet.node(number % 3).addr, &host.says(epoch, "1.0.0", None)).0, 200);
    }
    fleet.until_all("all hosts", |server| hosts.iter().all(|host| state(server, host) == "pending"));
    fleet.node(0).agents(&["start-update", "dev", "--force"]);
    let mut done: BTreeSet<usize> = BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(150);
    let mut round = 0;
    while done.len() < hosts.len() {
        assert!(Instant::now() < end, "not in time: {} done", done.len());
        round += 1;
        if round % 4 == 0 {
            let number = round / 4 % 3;
            fleet.nodes[number].1.take().unwrap().kill();
            fleet.begin(number);
        }
        let mut told = BTreeSet::new();
        for number in (0..hosts.len()).filter(|number| !done.contains(number)) {
            if hosts[number].asks(fleet.node((number + round) % 3), Some(epoch)).1 {
                told.insert(number);
            }
        }
        assert!(told.len() <= 2, "{told:?} are on their way");
        for number in told {
            let to = fleet.node((number + round + 1) % 3).addr;
            let report = hosts[number].says(epoch, "1.1.0", Some(("updated", "1.1.0", "")));
            // What comes too soon after the one before is sent again.
            if hosts[number].sends(to, &report).0 == 200 {
                done.insert(number);
            }
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_stop_is_known_after_the_database_was_gone_and_lost_decisions_hold_everything() {
    let Some(mut fleet) = Fleet::start(2, &[]) else { return };
    fleet.node(0).rolls(&["dev", "prod"]);
    fleet.until_all("the rollout", |server| server.get("/v1/webapi/find?group=dev").1.contains("1.1.0"));
    let mut standby = fleet.postgres.standby();
    fleet.node(0).agents(&["start-update", "dev"]);
    let followed = || {
        let at = |server: &Postgres| server.sql("fleet", "SELECT head_seq FROM store");
        at(&standby) == at(&fleet.postgres)
    };
    fleet.node(0).until("the standby follows", followed);
    // What is decided from now on the standby does not get.
    standby.kill();
    let halted = fleet.node(1).ok(&["autoupdate", "agents", "halt", "dev"]);
    assert!(halted.contains("Successfully halted"), "{halted}");
    fleet.until_all("the stop", |server| server.agents(&["status"]).contains("Rollout state: Halted"));
    fleet.postgres.kill();
    let line = refused(&fleet.node(0).cli(&["autoupdate", "agents", "run", "dev"]));
    assert!(line.contains("the store"), "{line}");
    // It takes the place of the one that is gone.
    standby.port = fleet.postgres.port;
    standby.begin();
    standby.promote();
    fleet.postgres = standby;
    fleet.until_all("everything is held", |server| {
        server.cli(&["autoupdate", "agents", "status"]).status.success()
            && server.agents(&["status"]).contains("store lost decisions")
    });
    assert!(fleet.node(1).ok(&["audit"]).contains("store_lost"));
}

/// A server of the version before goes on while a newer one brings the schema up.
#[test]
fn a_newer_server_brings_the_schema_up_while_an_older_one_runs() {
    let Some(mut fleet) = Fleet::start(1, &[]) else { return };
    // As the version before left it.
    fleet.sql("DROP TABLE session, receiver, server; UPDATE schema_version SET version = 1");
    fleet.node(0).rolls(&["dev"]);
    fleet.nodes.push((dir(), None));
    fleet.begin(1);
    assert_eq!(fleet.sql("SELECT version FROM schema_version"), "2");
    let host = Host::new(1, "dev");
    assert_eq!(host.sends(fleet.node(0).addr, &host.says(epoch(fleet.node(0)), "1.0.0", None)).0, 200);
    fleet.node(0).agents(&["start-update", "dev"]);
    fleet.until_all("the host's turn", |server| host.asks(server, Some(epoch(server))).1);
    fleet.until_all("both", |server| server.metrics().matches("teleport_fleet_server_up{").count() == 2);
}

#[test]
fn a_newer_schema_is_refused_and_what_a_newer_program_decided_is_left_alone() {
    let Some(mut fleet) = Fleet::start(1, &[]) else { return };
    let server = fleet.node(0);
    server.create(&format!("{}---\n{}", groups(&["dev"]), version("1.0.0", "1.1.0", "regular")));
    let epoch = epoch(server);
    fleet.sql("BEGIN; UPDATE store SET change = change + 1; UPDATE book SET engine = 3; COMMIT");
    let host = Host::new(1, "dev");
    assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200, "hosts are heard");
    let line = refused(&server.cli(&["autoupdate", "agents", "start-update", "dev"]));
    assert!(line.contains("a newer teleport-fleet decides"), "{line}");
    assert!(server.get("/readyz").0 == 200);
    fleet.sql("UPDATE schema_version SET version = 99");
    fleet.nodes[0].1.take().unwrap().stop();
    let (dir, url) = (fleet.nodes[0].0.path().join("data"), fleet.url.clone());
    let mut serve =
        crate::support::program(&["serve", "--plain", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    let serve = serve.args(["--config", "/dev/null", "--store", &url, "--data"]).arg(dir).output().unwrap();
    let line = String::from_utf8(serve.stderr).unwrap();
    assert!(!serve.status.success() && line.contains("schema 99") && line.contains("run the newer"), "{line}");
}
