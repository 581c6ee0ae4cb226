//! `run`: keepers of all agents, the Lease, the listener, and the configuration that is read again (KUBE §1, §2).

use std::sync::Arc;
use std::time::Duration;

use error::{Code, Error, Result};
use http_client::{Client, HttpSettings, Retry};
use protocol::Digest;
use registry::{DockerAuths, HttpTransport, Registry};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::api::{Api, ApiFault};
use crate::cli::CommonArgs;
use crate::config::{KubeConfig, MAX_MOUNTED, RegistrySettings, mounted, pem};
use crate::keeper::{Keeper, KeeperContext};
use crate::leader::{Leader, RETRY};
use crate::store::StateMap;
use crate::tell::{SharedNumbers, log, numbers};

/// What servers see.
const USER_AGENT: &str = concat!("teleport-kube-update/", env!("CARGO_PKG_VERSION"));
/// How often the configuration is looked at. A mounted ConfigMap changes within a minute.
const RELOAD: Duration = Duration::from_secs(10);
/// Longest time of a look at the Lease: two of them that fail end before the deadline by which a leader steps back.
const LEASE_CALL: Duration = Duration::from_secs(3);

/// Reads the configuration: the file, or the flags.
///
/// Errors: `config_invalid`, `usage`.
pub fn config(global: &CommonArgs) -> Result<KubeConfig> {
    let CommonArgs { agent, kind, container, group, source, window, .. } = global;
    let flags = [
        ("name", agent),
        ("kind", kind),
        ("container", container),
        ("group", group),
        ("source", source),
        ("window", window),
    ];
    let pairs: Vec<_> = flags.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?))).collect();
    match (agent, &pairs[..]) {
        (Some(_), pairs) => KubeConfig::of_flags(pairs),
        (None, []) => KubeConfig::read(&global.config),
        (None, _) => Err(Error::new(Code::Usage, "--kind, --container, --group, --source and --window need --agent")),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// What asks registries, and what asks sources.
///
/// Errors: files that cannot be used.
pub fn clients(settings: &RegistrySettings) -> Result<(Client, Registry)> {
    let mut http = HttpSettings::from_env(USER_AGENT, &variable);
    // The loop itself tries again.
    http.retry = Retry { tries: 1, ..Retry::default() };
    let client = Client::new(&http)?;
    if let Some(file) = &settings.ca_file {
        (http.ca_pem, http.ca_place) = (Some(pem(file)?), "registry.ca_file");
    }
    let invalid = |error: registry::RegistryError| Error::new(Code::ConfigInvalid, error.to_string());
    let auths = settings
        .auth_file
        .as_ref()
        .map(|file| DockerAuths::from_json(&mounted(file)?).map_err(|error| invalid(error).during(file.display())));
    let auths = auths.transpose()?.unwrap_or_default();
    let transport = HttpTransport::new(&http).map_err(invalid)?;
    Ok((client, Registry::new(Box::new(transport), auths, settings.insecure.clone())))
}

/// All that keepers share.
///
/// Errors: files that cannot be used.
pub fn shared(
    api: &Api,
    global: &CommonArgs,
    config: &KubeConfig,
    identity: &str,
    told: &SharedNumbers,
) -> Result<Arc<KeeperContext>> {
    let (client, registry) = clients(&config.registry)?;
    Ok(Arc::new(KeeperContext {
        api: api.clone(),
        store: Mutex::new(StateMap::new(api.clone(), &global.name)),
        name: global.name.clone(),
        client,
        registry,
        keys: config.agents.iter().map(crate::config::KubeAgent::key).collect(),
        config: config.clone(),
        identity: identity.to_owned(),
        numbers: told.clone(),
    }))
}

/// The keepers of a configuration.
struct Keepers {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Keepers {
    fn start(api: &Api, global: &CommonArgs, config: KubeConfig, identity: &str, told: &SharedNumbers) -> Result<Self> {
        let shared = shared(api, global, &config, identity, told)?;
        numbers(told).keep(&shared.keys);
        for agent in config.agents.iter().filter(|agent| agent.verify.keys.is_empty()) {
            log("warn", &agent.key(), "verify_none", "signatures of images are not verified (verify: none)");
        }
        let keepers = config.agents.into_iter().map(|agent| Keeper::new(shared.clone(), agent));
        let keepers = keepers.collect::<Result<Vec<_>>>()?;
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for mut keeper in keepers {
            let mut stopped = stopped.clone();
            tasks.spawn(async move {
                // A look that has begun ends: only between two is it stopped.
                while !*stopped.borrow_and_update() {
                    let wait = keeper.look().await;
                    let _ = tokio::time::timeout(wait, stopped.changed()).await;
                }
            });
        }
        Ok(Self { stop, tasks })
    }

    async fn end(mut self) {
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Runs until SIGTERM or SIGINT.
///
/// Errors: what keeps it from starting.
pub async fn run(api: Api, global: CommonArgs, listen: std::net::SocketAddr) -> Result<()> {
    let pod = variable("HOSTNAME").unwrap_or_else(|| "teleport-kube-update".to_owned());
    let identity = format!("{pod}_{}", uuid::Uuid::new_v4());
    let told = SharedNumbers::default();
    numbers(&told).unready.insert("lease", "the lease has not been looked at yet".to_owned());
    crate::listener::listen(listen, told.clone())
        .await
        .map_err(|error| Error::new(Code::Io, format!("cannot listen on {listen}: {error}")))?;
    let io = |error: std::io::Error| Error::new(Code::Io, format!("signals cannot be taken: {error}"));
    let (mut term, mut int) =
        (signal(SignalKind::terminate()).map_err(io)?, signal(SignalKind::interrupt()).map_err(io)?);
    let mut leader = Leader::new(api.clone(), &global.name, &identity);
    let mut loaded = Loaded::default();
    loaded.load(&api, &global, &identity, &told).await;
    let (mut lease, mut reload) = (tokio::time::interval(RETRY), tokio::time::interval(RELOAD));
    lease.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = lease.tick() => lead(&mut leader, &told).await,
            _ = reload.tick() => loaded.load(&api, &global, &identity, &told).await,
            _ = term.recv() => break,
            _ = int.recv() => break,
        }
    }
    if let Some(keepers) = loaded.keepers {
        keepers.end().await;
    }
    leader.release().await;
    Ok(())
}

async fn lead(leader: &mut Leader, told: &SharedNumbers) {
    let slow = |_| Err(ApiFault::Away(format!("no answer within {} s", LEASE_CALL.as_secs())));
    let result = tokio::time::timeout(LEASE_CALL, leader.renew()).await.unwrap_or_else(slow);
    let was = std::mem::replace(&mut numbers(told).is_leader, leader.is_leader());
    if was != leader.is_leader() {
        log("info", "", "leader", if was { "this process lost the lease" } else { "this process has the lease" });
    }
    let mut numbers = numbers(told);
    match result {
        Ok(()) => drop(numbers.unready.remove("lease")),
        Err(fault) => {
            let why = format!("the Lease cannot be used: {fault}");
            if numbers.unready.insert("lease", why.clone()).as_ref() != Some(&why) {
                log("warn", "", "api_unavailable", &why);
            }
        }
    }
}

/// The configuration that is at work.
#[derive(Default)]
struct Loaded {
    /// What was read last, and of which files.
    digest: Option<Digest>,
    keepers: Option<Keepers>,
}

impl Loaded {
    /// Reads the configuration, if it has changed. One that is wrong changes nothing, and stands in /readyz.
    async fn load(&mut self, api: &Api, global: &CommonArgs, identity: &str, told: &SharedNumbers) {
        let digest = Digest::of(&files(global));
        if self.digest == Some(digest) {
            return;
        }
        self.digest = Some(digest);
        let started = config(global).and_then(|config| Keepers::start(api, global, config, identity, told));
        match started {
            Ok(keepers) => {
                numbers(told).unready.remove("config");
                if let Some(before) = self.keepers.replace(keepers) {
                    log("info", "", "config", "the configuration has changed");
                    before.end().await;
                }
            }
            Err(error) => {
                log("error", "", error.code.as_str(), &error.to_string());
                numbers(told).unready.insert("config", error.to_string());
            }
        }
    }
}

/// The bytes of the configuration and of all files that it names: certificates and keys are exchanged in place.
fn files(global: &CommonArgs) -> Vec<u8> {
    let read = |file: &std::path::Path| error::read_limited(file, MAX_MOUNTED).ok().flatten().unwrap_or_default();
    let mut all = if global.agent.is_none() { read(&global.config) } else { Vec::new() };
    let Ok(config) = config(global) else { return all };
    let keys = config.agents.iter().flat_map(|agent| &agent.verify.keys);
    for file in keys.chain(&config.registry.auth_file).chain(&config.registry.ca_file) {
        all.extend(read(file));
    }
    all
}
