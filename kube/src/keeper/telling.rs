//! Reports to a rollout server (KUBE §7).

use super::*;

impl Keeper {
    /// Tells the rollout server, when it is time, in a thread of its own.
    pub(super) async fn report(
        &mut self,
        state: &mut KeptState,
        workload: Option<&Workload>,
        pods: &[Pod],
        present: &str,
        now: Timestamp,
    ) -> Result<(), LookEnd> {
        if let Some(reporting) = self.reporting.take_if(|reporting| reporting.is_finished())
            && let Ok(fleet) = reporting.await
            && state.fleet.as_ref() != Some(&fleet)
        {
            state.fleet = Some(fleet);
            self.swap(state).await?;
        }
        let Some(wanted) = self.heard.as_ref().and_then(|heard| heard.fleet?.report) else { return Ok(()) };
        let (Some(fleet), Some(seed), Some(workload)) = (state.fleet.clone(), self.seed.clone(), workload) else {
            return Ok(());
        };
        let rests = self.report_after.is_some_and(|at| at > Instant::now());
        let is_news = fleet.said != state.last && fleet.refusal.is_none();
        if self.reporting.is_some() || !is_due(&fleet, wanted, state.last.as_ref(), now) || (rests && !is_news) {
            return Ok(());
        }
        if self.kernel.is_empty() {
            self.kernel = self.shared.api.version().await.unwrap_or_default();
        }
        let content = self.content(state, workload, pods, present);
        let fleet =
            FleetTalk { epoch: if fleet.at.is_none() { wanted.epoch } else { fleet.epoch.max(wanted.epoch) }, ..fleet };
        let shared = self.shared.clone();
        self.report_after = Some(Instant::now() + GAP);
        let work = move || deliver(&shared.client, content, fleet, &seed, shared.join_token_file.as_deref());
        self.reporting = Some(tokio::task::spawn_blocking(work));
        Ok(())
    }

    fn content(&self, state: &KeptState, workload: &Workload, pods: &[Pod], present: &str) -> ReportContent {
        let KubeAgent { name, kind, group, labels, tag, pin, .. } = &self.agent;
        let version =
            |image: &str| image::version(image, tag.as_deref()).map(|version| version.to_string()).unwrap_or_default();
        let ready = pods.iter().find(|pod| pod.is_ready).map(|pod| version(&pod.image));
        let replicas = workload.replicas(*kind).to_string();
        let namespace = self.shared.api.namespace.clone();
        let own = [
            ("kubernetes.namespace", namespace.clone()),
            ("kubernetes.kind", kind.name().to_owned()),
            ("kubernetes.name", name.clone()),
            ("replicas", replicas),
        ];
        let own: BTreeMap<_, _> = own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let pinned = pin.is_some() || state.held.is_some() || workload.is_skipped();
        ReportContent {
            update_id: state.update_id.clone(),
            group: group.clone().unwrap_or_default(),
            hostname: format!("{namespace}/{name}"),
            labels: own.into_iter().chain(labels.clone()).collect(),
            versions: Versions {
                installed: version(present),
                running: ready.unwrap_or_default(),
                previous: state.previous.as_deref().map(version).unwrap_or_default(),
                desired: state.wanted.as_ref().map(ToString::to_string).unwrap_or_default(),
            },
            edition: image::edition(present).map(|edition| edition.to_string()).unwrap_or_default(),
            kernel: self.kernel.clone(),
            pinned,
            last: state.last.clone(),
        }
    }
}
