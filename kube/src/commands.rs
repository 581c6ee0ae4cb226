//! What a person asks by `kubectl exec`: all of it goes through the API server, so that whichever process leads does it.

use std::fmt::Write;
use std::time::Duration;

use error::{Code, Error, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, ApiFault, KubeResult, printable};
use crate::cli::{CommonArgs, KubeFormat, WhichAgent};
use crate::config::KubeAgent;
use crate::hands::FieldOwner;
use crate::state::{KeptState, Wish, WishKind};
use crate::store::StateMap;
use crate::workload::Pod;

/// Tries of a swap that others come before.
const TRIES: u32 = 5;
/// How often an outcome is looked for.
const LOOK: Duration = Duration::from_secs(2);
/// How long nothing may happen to what was asked for, before it is said that nobody runs.
const NOBODY: Duration = Duration::from_secs(90);

/// What a command says where the API server does not do it.
pub fn unavailable(fault: ApiFault) -> Error {
    Error::new(Code::Network, format!("the API server: {fault}"))
}

/// The state of an agent.
///
/// Errors: those of the API server; a state that cannot be read.
pub async fn read(store: &mut StateMap, agent: &KubeAgent) -> Result<KeptState> {
    store.refresh().await.map_err(unavailable)?;
    store.state(&agent.key()).map_err(|why| Error::new(Code::ConfigInvalid, why))
}

/// What `status` and `plan` say of all agents.
pub fn shown(all: &[Value], format: KubeFormat, text: fn(&Value) -> String, between: &str) -> String {
    match format {
        KubeFormat::Json => serde_json::to_string_pretty(&json!({ "agents": all })).unwrap_or_default() + "\n",
        KubeFormat::Text => all.iter().map(text).collect::<Vec<_>>().join(between),
    }
}

/// The agent that is meant.
///
/// Errors: `usage` where it is not clear; those of the configuration.
fn meant(global: &CommonArgs, WhichAgent { which }: WhichAgent) -> Result<KubeAgent> {
    let agents = crate::run::config(global)?.agents;
    let is_it = |agent: &KubeAgent, name: &String| agent.name == *name || agent.key() == *name;
    let mut found = agents.iter().filter(|agent| which.as_ref().is_none_or(|name| is_it(agent, name)));
    let names = || agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
    let what = match (found.next(), found.next(), which.as_ref()) {
        (Some(agent), other, name) if other.is_none() || name.is_some() => return Ok(agent.clone()),
        (_, _, None) => format!("there are several agents; name one of them: {}", names()),
        (_, _, Some(name)) => format!("{name:?} is not configured; there are: {}", names()),
    };
    Err(Error::new(Code::Usage, what))
}

/// Changes the state of an agent.
async fn change(
    store: &mut StateMap,
    agent: &KubeAgent,
    edit: impl Fn(&mut KeptState) -> Result<()>,
) -> Result<KeptState> {
    for _ in 0..TRIES {
        let mut state = read(store, agent).await?;
        edit(&mut state)?;
        match store.swap(&agent.key(), &state).await {
            Ok(()) => return Ok(state),
            Err(ApiFault::Conflict(_)) => {}
            Err(fault) => return Err(unavailable(fault)),
        }
    }
    Err(Error::new(Code::LockHeld, "others change the state all the time; try again"))
}

/// `hold` and `release`.
///
/// Errors: those of the API server.
pub async fn hold(api: &Api, global: &CommonArgs, which: WhichAgent, is_held: bool) -> Result<String> {
    let agent = meant(global, which)?;
    change(&mut StateMap::new(api.clone(), &global.name), &agent, |state| {
        state.held = is_held.then(Timestamp::now);
        if !is_held {
            state.refused.clear();
            (state.contested, state.failed) = (None, None);
            state.set_back.clear();
            state.takes_over = state.told.as_ref().is_some_and(|told| told.code == "other_updater");
        }
        Ok(())
    })
    .await?;
    let what = if is_held {
        "is held: nothing is changed until `release`"
    } else {
        "is released: holds and refusals are forgotten"
    };
    Ok(format!("{} {what}\n", agent.name))
}

/// `update --now` and `rollback`: asks for it, and waits for the outcome.
///
/// Errors: those of the API server; what became of it, where that is not what was asked for.
pub async fn wish(api: &Api, global: &CommonArgs, which: WhichAgent, what: WishKind) -> Result<String> {
    let agent = meant(global, which)?;
    let asked = Timestamp::now();
    let mut store = StateMap::new(api.clone(), &global.name);
    let before = change(&mut store, &agent, |state| {
        if what == WishKind::Rollback && state.previous.is_none() {
            return Err(Error::new(Code::NoPrevious, format!("{}: there is no image to go back to", agent.name)));
        }
        let previous = state.previous.as_deref().filter(|_| what == WishKind::Rollback);
        if let Some(previous) = previous.filter(|image| agent.version(image).is_none()) {
            let error = Error::new(Code::NoPrevious, printable(&format!("{previous} has no version in its tag")));
            return Err(error.advise("put it back by hand: kubectl set image"));
        }
        if state.held.is_some() {
            let error = Error::new(Code::Overtaken, format!("{} is held", agent.name));
            return Err(error.advise("run `teleport-kube-update release` first"));
        }
        state.wish = Some(Wish { what, at: asked });
        Ok(())
    })
    .await?;
    let (mut last, mut moved) = (before.clone(), Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let state = read(&mut store, &agent).await?;
        if state != last {
            moved = Instant::now();
        }
        let told = state.told.as_ref().map_or_else(String::new, |told| format!("{}: {}", told.code, told.why));
        if state.wish.is_none() && state.attempt.is_none() {
            let is_bad = state.last != before.last && state.last.as_ref().is_some_and(|last| last.outcome.is_failure());
            let line = printable(&format!("{}: {told}", agent.name));
            return if is_bad { Err(Error::new(Code::Unhealthy, line)) } else { Ok(line + "\n") };
        }
        if moved.elapsed() > NOBODY && state.attempt.is_none() {
            let what = printable(&format!("{}: nothing has happened yet ({told})", agent.name));
            return Err(Error::new(Code::LockHeld, what)
                .advise("it is still asked for; look at `status`, and whether a pod of the updater runs"));
        }
        last = state;
    }
}

/// `status`.
///
/// Errors: those of the API server.
pub async fn status(api: &Api, global: &CommonArgs, format: KubeFormat) -> Result<String> {
    let config = crate::run::config(global)?;
    let mut store = StateMap::new(api.clone(), &global.name);
    store.refresh().await.map_err(unavailable)?;
    let mut all = Vec::new();
    for agent in &config.agents {
        all.push(describe(api, agent, store.state(&agent.key())).await.map_err(unavailable)?);
    }
    Ok(shown(&all, format, text, "\n"))
}

async fn describe(api: &Api, agent: &KubeAgent, state: Result<KeptState, String>) -> KubeResult<Value> {
    let workload = api.workload(agent).await?;
    let pods = api.pods(workload.as_ref(), agent).await?;
    let version = |image: &str| agent.version(image).map(|version| version.to_string());
    let image = workload.as_ref().and_then(|workload| workload.image(&agent.container));
    let owner = workload.as_ref().and_then(|workload| FieldOwner::of_image(workload, &agent.container, &api.manager));
    let row = |pod: &Pod| {
        json!({
            "name": pod.name, "image": pod.image, "version": version(&pod.image), "ready": pod.is_ready,
            "restarts": pod.restarts, "waiting": pod.waiting,
        })
    };
    let broken = state.as_ref().err().cloned();
    let state = state.unwrap_or_default();
    let mut told = serde_json::to_value(&state.told).unwrap_or_default();
    if let Some(why) = broken {
        (told["code"], told["why"]) = ("state_invalid".into(), why.into());
    }
    Ok(json!({
        "name": agent.name, "kind": agent.kind.name(), "container": agent.container, "group": agent.group,
        "source": agent.source.to_string(), "image": image, "version": image.and_then(version), "wanted": state.wanted,
        "code": told["code"], "why": told["why"], "since": told["since"], "until": told["until"], "who": told["who"],
        "owner": owner.as_ref().map(|owner| owner.manager.clone()),
        "owner_remedy": owner.as_ref().and_then(|owner| owner.remedy(agent.kind)),
        "held": state.held, "previous": state.previous, "attempt": state.attempt, "refused": state.refused,
        "contested": state.contested, "conditions": state.conditions, "update_id": state.update_id, "last": state.last,
        "report": state.fleet.as_ref().map(|fleet| json!({ "server": fleet.origin, "at": fleet.at, "refused": fleet.refusal })),
        "pods": pods.iter().map(row).collect::<Vec<_>>(),
    }))
}

/// A time for people, without fractions of a second.
fn whole_seconds(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(|_| time.to_owned(), |time| format!("{time:.0}"))
}

fn text(agent: &Value) -> String {
    let word = |key: &str| agent[key].as_str().unwrap_or_default().to_owned();
    let or = |key: &str, otherwise: &str| agent[key].as_str().unwrap_or(otherwise).to_owned();
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(out, "  {name:<9} {}", printable(&value));
        }
    };
    line("version", or("version", "unknown"));
    line("wanted", or("wanted", "not known yet"));
    line("state", or("code", "not looked at yet"));
    line("why", word("why"));
    line("since", whole_seconds(&word("since")));
    line("until", whole_seconds(&word("until")));
    for (name, key) in
        [("who", "who"), ("image", "image"), ("owner", "owner"), ("advice", "owner_remedy"), ("before", "previous")]
    {
        line(name, word(key));
    }
    for refusal in agent["refused"].as_array().into_iter().flatten() {
        let until = refusal["until"].as_str().map_or("release, or a new target".to_owned(), whole_seconds);
        let [version, reason] =
            ["/version", "/failure/reason"].map(|at| refusal.pointer(at).and_then(Value::as_str).unwrap_or_default());
        line("refused", format!("{version} until {until}: {reason}"));
    }
    if let Some(why) = agent["report"]["refused"].as_str() {
        line("reports", format!("not taken by {}: {why}", agent["report"]["server"].as_str().unwrap_or_default()));
    }
    for pod in agent["pods"].as_array().into_iter().flatten() {
        let ready = if pod["ready"] == true { "ready" } else { "not ready" };
        let waiting = pod["waiting"].as_str().unwrap_or_default();
        let [name, version] = ["name", "version"].map(|key| pod[key].as_str().unwrap_or("unknown"));
        line(
            "pod",
            format!("{name}  {version}  {ready}  {} restarts  {waiting}", pod["restarts"]).trim_end().to_owned(),
        );
    }
    format!("{} {}\n{out}", word("kind"), word("name"))
}
