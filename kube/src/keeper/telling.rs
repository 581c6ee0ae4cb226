//! Reports to a rollout server (KUBE §7).

use std::collections::BTreeMap;

use protocol::Arch;
use protocol::report::{MAX_LABELS, Report, Versions};

use super::*;

impl Keeper {
    /// Tells the rollout server, when it is time, in a thread of its own.
    pub(super) async fn report(&mut self, look: &mut AgentLook<'_>) -> Result<()> {
        let state = &mut look.state;
        if let Some(fleet) = ended(&mut self.mine.reporting).await
            && state.fleet.as_ref() != Some(&fleet)
        {
            state.fleet = Some(fleet);
            self.swap(state).await?;
        }
        let Some(wanted) = self.mine.heard.as_ref().and_then(|heard| heard.fleet?.report) else { return Ok(()) };
        let (Some(fleet), Some(seed), Some(workload)) = (state.fleet.clone(), self.mine.seed.clone(), look.workload)
        else {
            return Ok(());
        };
        let rests = self.mine.report_after.is_some_and(|at| at > Instant::now());
        let is_news = fleet.said != state.last && fleet.refusal.is_none();
        if self.mine.reporting.is_some()
            || !is_due(&fleet, wanted, state.last.as_ref(), look.now)
            || (rests && !is_news)
        {
            return Ok(());
        }
        if self.mine.kernel.is_empty() {
            self.mine.kernel = self.shared.api.version().await.unwrap_or_default();
        }
        let report = content(look, workload, &self.shared.api.namespace, self.mine.kernel.clone());
        let epoch = if fleet.at.is_none() { wanted.epoch } else { fleet.epoch.max(wanted.epoch) };
        let (fleet, shared) = (FleetTalk { epoch, ..fleet }, self.shared.clone());
        self.mine.report_after = Some(Instant::now() + GAP);
        let work = move || deliver(&shared.client, report, fleet, &seed, shared.config.join_token_file.as_deref());
        self.mine.reporting = Some(tokio::task::spawn_blocking(work));
        Ok(())
    }
}

/// What a report of an agent says, before it is numbered. `kernel`: the API server's version.
fn content(look: &AgentLook<'_>, workload: &Workload, namespace: &str, kernel: String) -> Report {
    let (agent, state, present) = (look.agent, &look.state, look.present());
    let version = |image: &str| agent.version(image).map(|version| version.to_string()).unwrap_or_default();
    let own = [
        ("kubernetes.namespace", namespace.to_owned()),
        ("kubernetes.kind", agent.kind.name().to_owned()),
        ("kubernetes.name", agent.name.clone()),
        ("replicas", workload.replicas().to_string()),
    ];
    let own: BTreeMap<_, _> = own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let labels: BTreeMap<_, _> = own.into_iter().chain(agent.labels.clone()).collect();
    let ready = look.pods.iter().find(|pod| pod.is_ready).map(|pod| version(&pod.image));
    Report {
        host: state.update_id.clone(),
        hostname: format!("{namespace}/{}", agent.name),
        update_id: state.update_id.clone(),
        group: agent.group.clone().unwrap_or_default(),
        labels: labels.into_iter().take(MAX_LABELS).collect(),
        versions: Versions {
            installed: version(present),
            running: ready.unwrap_or_default(),
            previous: state.previous.as_deref().map(version).unwrap_or_default(),
            desired: state.wanted.as_ref().map(ToString::to_string).unwrap_or_default(),
        },
        edition: image::edition(present).map(|edition| edition.to_string()).unwrap_or_default(),
        updater: concat!("teleport-kube-update ", env!("CARGO_PKG_VERSION")).to_owned(),
        arch: Arch::NATIVE.as_str().to_owned(),
        os: "kubernetes".to_owned(),
        kernel,
        enabled: true,
        pinned: agent.pin.is_some() || state.held.is_some() || workload.is_skipped(),
        last: state.last.clone(),
        ..Report::default()
    }
}
