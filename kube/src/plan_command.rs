//! `plan`: the value that the next look would act on, and what its registry says of the image. Changes nothing.

use error::{Code, Error, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::account::account;
use crate::api::{Api, printable};
use crate::ask::{SourceQuestion, ask};
use crate::cli::{CommonArgs, KubeFormat};
use crate::config::KubeAgent;
use crate::hands::FieldOwner;
use crate::image;
use crate::keeper::{KeeperContext, beside, cosign_keys};
use crate::plan::{AgentFacts, AgentPlan, NextStep, SourceSays};
use crate::prepare::prepare;
use crate::tell::SharedNumbers;
use crate::verdict::Memory;

/// The plan of each agent.
///
/// Errors: those of the API server; files that cannot be used.
pub async fn plan(api: &Api, global: &CommonArgs, format: KubeFormat) -> Result<String> {
    let config = crate::run::config(global)?;
    let shared = crate::run::shared(api, global, &config, "plan", &SharedNumbers::default())?;
    let mut all = Vec::new();
    for agent in &config.agents {
        all.push(of_agent(&shared, agent).await?);
    }
    Ok(match format {
        KubeFormat::Json => serde_json::to_string_pretty(&json!({ "agents": all })).unwrap_or_default() + "\n",
        KubeFormat::Text => all.iter().map(text).collect(),
    })
}

async fn of_agent(shared: &KeeperContext, agent: &KubeAgent) -> Result<Value> {
    let unavailable = |fault| Error::new(Code::Network, format!("the API server: {fault}"));
    let now = Timestamp::now();
    let (workload, pods) =
        shared.api.workload_and_pods(agent.kind, &agent.name, &agent.container).await.map_err(unavailable)?;
    let mut store = shared.store.lock().await;
    store.refresh().await.map_err(unavailable)?;
    let mut state = store.state(&agent.key()).map_err(|why| Error::new(Code::ConfigInvalid, why))?;
    drop(store);
    let present =
        workload.as_ref().and_then(|workload| workload.image(&agent.container)).unwrap_or_default().to_owned();
    let owner =
        workload.as_ref().and_then(|workload| FieldOwner::of_image(workload, &agent.container, &shared.api.manager));
    if state.attempt.is_none() && !present.is_empty() {
        account(&mut state, agent, &present, owner.as_ref(), now);
    }
    let exported = crate::schedule::exported(&shared.api, agent, &mut state.schedule_lost, now).await;
    let asking = SourceQuestion::new(agent, &state, &present, exported);
    // Nothing else runs in this process.
    let heard = ask(&shared.client, &asking, now);
    let version = match &heard.word {
        SourceSays::Target(target) => {
            state.note_wanted(&target.version);
            Some(target.version.clone())
        }
        _ => None,
    };
    let beside = beside(shared, &agent.key(), version.as_ref(), now).await;
    let mut memory = Memory::default();
    let other_rollout = workload.as_ref().is_some_and(|workload| {
        memory.other_rollout(workload, agent.kind, &pods, agent.patience.progress_deadline, now)
    });
    let facts = AgentFacts {
        now,
        agent,
        is_leader: true,
        workload: workload.as_ref(),
        pods: &pods,
        owner: owner.clone(),
        state: &state,
        word: &heard.word,
        beside: &beside,
        max_in_flight: shared.max_in_flight,
        other_rollout,
        complaint: memory.complaint(&pods, &agent.patience, now),
        tag_moved: false,
    };
    let plan = facts.plan();
    let remedy = owner.as_ref().and_then(|owner| owner.remedy(agent.kind));
    let has_data = workload.as_ref().is_some_and(|workload| workload.has_data(&agent.container));
    Ok(describe(shared, agent, &plan, &present, owner.map(|owner| owner.manager), remedy, has_data))
}

fn describe(
    shared: &KeeperContext,
    agent: &KubeAgent,
    plan: &AgentPlan,
    present: &str,
    owner: Option<String>,
    remedy: Option<String>,
    has_data: bool,
) -> Value {
    let mut value = json!({
        "name": agent.name, "kind": agent.kind.name(), "image": present, "code": plan.code, "why": plan.why,
        "until": plan.until, "who": plan.who, "owner": owner, "owner_remedy": remedy, "action": "nothing",
    });
    if let NextStep::GoOn = plan.step {
        value["action"] = "go_on".into();
    }
    let NextStep::Begin(begin) = &plan.step else { return value };
    value["action"] = if begin.target.is_some() { "update" } else { "rollback" }.into();
    (value["to"], value["version"]) = (begin.image.clone().into(), begin.version.to_string().into());
    if has_data {
        value["data"] =
            "the agent keeps data on a volume: no snapshot of it is made, and a way back does not restore it".into();
    }
    let Some(target) = &begin.target else { return value };
    let told = target.digests.of_image(&image::repository_name(&begin.image));
    let prepared = cosign_keys(agent).map_err(|error| error.to_string()).and_then(|keys| {
        prepare(&shared.registry, agent, &keys, &begin.image, present, &begin.version, told)
            .map_err(|refused| format!("{}: {}", refused.code, refused.why))
    });
    match prepared {
        Ok(prepared) => (value["to"], value["warning"]) = (prepared.image.into(), prepared.warning.into()),
        Err(why) => (value["action"], value["registry"]) = ("nothing".into(), why.into()),
    }
    value
}

fn text(plan: &Value) -> String {
    let word = |key: &str| plan[key].as_str().unwrap_or_default();
    let mut out = format!("{} {}: {}", word("kind"), word("name"), word("action"));
    for key in ["to", "code", "why", "until", "who", "registry", "warning", "data", "owner", "owner_remedy"] {
        if !word(key).is_empty() {
            out += &format!("\n  {key:<12} {}", printable(word(key)));
        }
    }
    out + "\n"
}
