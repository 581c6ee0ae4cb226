//! PostgreSQL behind a network that loses requests and answers: what an error says is what happened, nothing is lost, and nothing is
//! done twice.

use std::cell::RefCell;
use std::sync::Arc;

use fleet_engine::host::HostId;
use fleet_engine::resource::Kind;
use fleet_store::{Change, Committed, Error, HostSink, News, Result, Store, StorePlace, StoreReader, StoreState};
use protocol::report::Key;
use testing::postgres::Postgres;
use testing::proxy::{Proxy, Way};

use crate::contract::CONTRACT;
use crate::support::*;

/// Networks that the contract is kept over.
const SEEDS: u64 = 3;
/// One request in so many meets a fault, and one COMMIT in eight.
const ONE_IN: usize = 64;
/// Attempts until a request gets through: it would take chance far longer.
const ATTEMPTS: usize = 200;

/// A database, and the network before it.
#[derive(Debug)]
struct Network {
    server: Arc<Postgres>,
    database: String,
    proxy: Proxy,
}

impl Network {
    fn to(server: &Arc<Postgres>, database: &str, seed: u64) -> Arc<Self> {
        let proxy = Proxy::start(server.port, seed);
        proxy.set(Way::Faulty(ONE_IN));
        Arc::new(Self { server: Arc::clone(server), database: database.to_owned(), proxy })
    }

    /// A place of a server that has only this network.
    fn bed(self: &Arc<Self>) -> Bed {
        let mut bed = Bed::at(self.url());
        let own = Arc::clone(self);
        bed.opens = Some(Box::new(move |bed| {
            let direct = StorePlace::new(&bed.data(), Some(&own.server.url(&own.database))).unwrap();
            let store = Persistent::open(&own, bed, direct.clone());
            OpenStore { store: Box::new(store), place: direct }
        }));
        bed
    }

    fn url(&self) -> String {
        format!("postgres://fleet@127.0.0.1:{}/{}", self.proxy.port, self.database)
    }

    /// Whether this request was kept, as PostgreSQL itself says.
    fn has(&self, request: &str) -> bool {
        let count = format!("SELECT count(*) FROM request WHERE id = '{request}'");
        self.server.sql(&self.database, &count).unwrap() == "1"
    }
}

/// A store that does each request until it is done, and sees whether errors say the truth.
#[derive(Debug)]
struct Persistent {
    store: RefCell<Box<dyn Store>>,
    /// Reads what was written where no network is between.
    direct: StorePlace,
    network: Arc<Network>,
    commits: usize,
}

fn until_done<T>(mut request: impl FnMut() -> Result<T>) -> T {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match request() {
            Ok(done) => return done,
            // Of no other kind is what a network does.
            Err(error @ (Error::Unavailable(_) | Error::Unknown(_))) => last = Some(error),
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("it never gets through: {last:?}");
}

impl Persistent {
    fn open(network: &Arc<Network>, bed: &Bed, direct: StorePlace) -> Self {
        let store = RefCell::new(until_done(|| bed.place().open()));
        let persistent = Self { store, direct, network: Arc::clone(network), commits: 0 };
        assert_eq!(persistent.strange(), None, "nothing was lost");
        persistent
    }

    /// As the server does: opened again, and read again.
    fn recover(&self) -> Loaded {
        let mut store = self.store.borrow_mut();
        until_done(|| store.reopen().and_then(|()| load(&mut **store)))
    }
}

impl Store for Persistent {
    fn load_with(&mut self, sink: &mut dyn HostSink) -> Result<StoreState> {
        let loaded = load(&mut **self.store.get_mut());
        let Loaded { state, keys, hosts, .. } = loaded.or_else(|_| Result::Ok(self.recover()))?;
        sink.expect(keys.len(), hosts.len());
        keys.into_iter().for_each(|key| sink.take_key(key));
        hosts.into_iter().for_each(|host| sink.take_host(host, state.arrivals));
        Ok(state)
    }

    fn key(&self, host: HostId) -> Result<Option<Key>> {
        Ok(until_done(|| {
            let asked = self.store.borrow().key(host);
            asked.inspect_err(|_| drop(self.recover()))
        }))
    }

    fn take_turn(&mut self) -> Result<Option<News>> {
        let news = self.store.get_mut().take_turn();
        news.or_else(|_| {
            self.recover();
            Ok(None)
        })
    }

    fn commit(&mut self, change: &Change<'_>) -> Result<Committed> {
        let before = StoreReader::open(&self.direct)?.head()?.seq;
        for _ in 0..ATTEMPTS {
            // Each attempt has a name of its own, so that none can be told for another.
            self.commits += 1;
            let name = format!("{}-{}", self.network.proxy.port, self.commits);
            let request = change.request.clone().unwrap_or((name, String::new()));
            let change = Change { request: Some(request.clone()), ..change.clone() };
            let done = self.store.get_mut().commit(&change);
            let wrong = match done {
                Ok(committed) => return Ok(committed),
                Err(Error::Mismatch(line)) => {
                    self.recover();
                    return Err(Error::Mismatch(line));
                }
                Err(error) => error,
            };
            self.recover();
            let (is_kept, said) = (self.network.has(&request.0), self.outcome(&request.0)?);
            assert_eq!(said.is_some(), is_kept, "what it says later is what happened: {wrong}");
            assert!(!is_kept || matches!(wrong, Error::Unknown(_)), "{wrong}");
            if is_kept {
                let entries = StoreReader::open(&self.direct)?.audit(before, u32::MAX)?;
                return Ok(Committed { revision: self.revision()?, entries });
            }
        }
        panic!("it never gets through")
    }

    fn outcome(&self, request_id: &str) -> Result<Option<String>> {
        Ok(until_done(|| {
            let asked = self.store.borrow().outcome(request_id);
            asked.inspect_err(|_| drop(self.recover()))
        }))
    }

    fn revision(&self) -> Result<u64> {
        Ok(until_done(|| {
            let asked = self.store.borrow().revision();
            asked.inspect_err(|_| drop(self.recover()))
        }))
    }

    fn reopen(&mut self) -> Result<()> {
        self.recover();
        Ok(())
    }

    fn strange(&self) -> Option<&str> {
        let strange = self.store.borrow().strange().map(str::to_owned);
        assert_eq!(strange, None, "nothing was lost");
        None
    }

    fn unwitnessed(&self) -> Option<&Error> {
        None
    }

    fn stop_waits(&self) -> Result<bool> {
        self.store.borrow().stop_waits()
    }

    fn note_stop(&self, waits: bool) -> Result<()> {
        self.store.borrow().note_stop(waits)
    }
}

#[test]
fn the_contract_is_kept_whatever_the_network_loses() {
    let Some(server) = Postgres::start(&["fsync=off"]).map(Arc::new) else { return };
    let mut faults = 0;
    for seed in 0..SEEDS {
        for (number, (name, holds)) in CONTRACT.iter().enumerate() {
            eprintln!("seed {seed}: {name}");
            let database = format!("fleet{seed}_{number}");
            server.database(&database);
            let network = Network::to(&server, &database, seed * 100 + number as u64);
            holds(&network.bed());
            faults += network.proxy.faults();
        }
    }
    assert!(faults > 20, "only {faults} requests met a fault");
}

/// Each as often as it must until it is answered, and by turns with the other.
#[test]
fn what_two_servers_write_over_such_networks_is_there_once() {
    let Some(server) = Postgres::start(&["fsync=off"]).map(Arc::new) else { return };
    server.database("fleet");
    let each = 25;
    std::thread::scope(|scope| {
        for name in ["one", "other"] {
            let network = Network::to(&server, "fleet", name.len() as u64);
            scope.spawn(move || {
                let mut store = network.bed().open();
                for number in 0..each {
                    let subject = format!("{name} {number}");
                    write_once(&mut store, &subject);
                }
            });
        }
    });
    let store = Bed::at(server.url("fleet")).open();
    let (entries, verified) = (store.audit(0, 1000).unwrap(), store.verify(None).unwrap());
    let mut subjects: Vec<_> = entries.iter().map(|entry| entry.subject.clone()).collect();
    let of = |name: &str| subjects.iter().filter(|subject| subject.starts_with(name)).cloned().collect::<Vec<_>>();
    for name in ["one", "other"] {
        let order: Vec<_> = (0..each).map(|number| format!("{name} {number}")).collect();
        assert_eq!(of(name), order, "each once, in the order in which they were answered");
    }
    subjects.dedup();
    assert_eq!((subjects.len(), verified.records, verified.fault), (2 * each, 2 * each as u64, None));
    assert_eq!(store.revision().unwrap(), 2 * each as u64);
}

fn write_once(store: &mut OpenStore, subject: &str) {
    for _ in 0..ATTEMPTS {
        store.take_turn().unwrap();
        let expected = store.revision().unwrap();
        let resources = vec![(Kind::Channel, subject.replace(' ', "-"), Some(("r".to_owned(), "kind: x".to_owned())))];
        let request = Some((subject.to_owned(), String::new()));
        let change = Change { expected, resources, records: vec![record(subject)], request, ..Change::default() };
        match store.commit(&change) {
            Ok(_) => return,
            // The other was first; and this one has not been written.
            Err(Error::Mismatch(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("its turn never comes");
}
