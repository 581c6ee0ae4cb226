//! External checks of gates: asked while a group waits for them (FLEET §2). No answer is "wait".

use std::time::{Duration, Instant};

use fleet_engine::rollout::GateAnswer;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::core::Core;
use crate::core::commands::{self, WaitingGate};
use crate::outbound::Outbound;

/// Between two questions of the same gate.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// Between two looks for groups that wait.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most bytes of an answer.
const MAX_BODY: u64 = 64 << 10;

#[derive(Deserialize)]
struct Answered {
    answer: GateAnswer,
}

/// Asks, as long as the server runs.
pub(crate) async fn watch(core: Core, outbound: Outbound) {
    let mut due = tokio::time::interval(LOOK_EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut asked: Vec<(WaitingGate, Instant)> = Vec::new();
    loop {
        due.tick().await;
        let Ok(waiting) = core.run(|tx| Ok(commands::gates(tx))).await else { continue };
        asked.retain(|(gate, at)| waiting.contains(gate) && at.elapsed() < ASK_EVERY);
        let mut questions = JoinSet::new();
        for gate in waiting {
            if asked.iter().any(|(known, _)| *known == gate) {
                continue;
            }
            asked.push((gate.clone(), Instant::now()));
            questions.spawn(ask(core.clone(), outbound.clone(), gate));
        }
        questions.join_all().await;
    }
}

async fn ask(core: Core, outbound: Outbound, gate: WaitingGate) {
    let question = json!({ "group": gate.group, "rollout": gate.rollout, "target_version": gate.target });
    let timeout = Duration::from_secs(u64::from(gate.external.timeout_seconds));
    let url = gate.external.url.clone();
    let asked = outbound.ask(MAX_BODY, move |agent| {
        let request = agent.post(&url).header("content-type", "application/json");
        request.config().timeout_global(Some(timeout)).build().send(question.to_string())
    });
    let answered = asked.await.and_then(|(_, body)| {
        serde_json::from_slice::<Answered>(&body).map_err(|error| format!("it answers no {{\"answer\": …}}: {error}"))
    });
    match answered {
        Ok(Answered { answer }) => {
            // What the core refuses is on record there.
            let _ = core.run(move |tx| commands::take_gate(tx, &gate, answer)).await;
        }
        Err(error) => tracing::warn!(group = gate.group, error, "the gate's check cannot be asked: the group waits"),
    }
}
