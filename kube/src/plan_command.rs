//! `plan`: the value that the next look would act on, and what its registry says of the image. Changes nothing.

use error::Result;
use serde_json::{Value, json};

use crate::account::account;
use crate::api::{Api, printable};
use crate::ask::{SourceQuestion, ask};
use crate::cli::{CommonArgs, KubeFormat};
use crate::commands::{read, shown, unavailable};
use crate::config::KubeAgent;
use crate::keeper::{KeeperContext, cosign_keys};
use crate::plan::{AgentLook, NextStep};
use crate::prepare::prepare;
use crate::schedule::exported;
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
    Ok(shown(&all, format, text, ""))
}

async fn of_agent(shared: &KeeperContext, agent: &KubeAgent) -> Result<Value> {
    let workload = shared.api.workload(agent).await.map_err(unavailable)?;
    let pods = shared.api.pods(workload.as_ref(), agent).await.map_err(unavailable)?;
    let mut store = shared.store.lock().await;
    let state = read(&mut store, agent).await?;
    drop(store);
    let mut look = shared.look(agent, state, (workload.as_ref(), &pods));
    account(&mut look);
    let exported = exported(&shared.api, &mut look).await;
    // Nothing else runs in this process.
    let heard = ask(&shared.client, &SourceQuestion::new(&look, exported), look.now);
    look.hear(heard.word);
    shared.look_beside(&mut look, &mut Memory::default()).await;
    Ok(describe(shared, &look))
}

fn describe(shared: &KeeperContext, look: &AgentLook<'_>) -> Value {
    let (agent, plan) = (look.agent, look.plan());
    let mut value = json!({
        "name": agent.name, "kind": agent.kind.name(), "image": look.present(), "code": plan.code, "why": plan.why,
        "until": plan.until, "who": plan.who, "owner": look.owner.as_ref().map(|owner| &owner.manager),
        "owner_remedy": look.owner.as_ref().and_then(|owner| owner.remedy(agent.kind)), "action": "nothing",
    });
    if let NextStep::GoOn = plan.step {
        value["action"] = "go_on".into();
    }
    let NextStep::Begin(begin) = &plan.step else { return value };
    value["action"] = if begin.target.is_some() { "update" } else { "rollback" }.into();
    (value["to"], value["version"]) = (begin.image.clone().into(), begin.version.to_string().into());
    if look.workload.is_some_and(|workload| workload.has_data(&agent.container)) {
        value["data"] =
            "the agent keeps data on a volume: no snapshot of it is made, and a way back does not restore it".into();
    }
    if begin.target.is_none() {
        return value;
    }
    let prepared = cosign_keys(agent).map_err(|error| error.to_string()).and_then(|keys| {
        prepare(&shared.registry, agent, &keys, begin, look.present())
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
