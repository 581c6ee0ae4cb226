//! Who of several processes acts: a Lease (KUBE §9). It only spares noise: swaps and tests keep two leaders harmless.

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::api::{Api, ApiFault, KubeResult};

/// A holder that did not renew for so long has gone.
const LEASE: Duration = Duration::from_secs(15);
/// A leader that could not renew for so long acts no more.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often it is looked at, or tried again.
pub const RETRY: Duration = Duration::from_secs(2);
/// How often it is renewed while that works: three times in a lease.
const RENEW: Duration = Duration::from_secs(5);

/// The Lease as this process sees it.
pub struct Leader {
    api: Api,
    name: String,
    identity: String,
    /// When it last was ours for certain.
    renewed: Option<Instant>,
    /// What another one wrote, and when that was seen: clocks of two nodes are not compared.
    seen: Option<(Value, Instant)>,
}

impl Leader {
    /// `name`: of the Lease; `identity`: of this process.
    pub fn new(api: Api, name: &str, identity: &str) -> Self {
        Self { api, name: name.to_owned(), identity: identity.to_owned(), renewed: None, seen: None }
    }

    /// Whether this process leads.
    pub fn is_leader(&self) -> bool {
        self.renewed.is_some_and(|at| at.elapsed() < RENEW_DEADLINE)
    }

    /// Takes or renews the Lease, if it is free, over or ours.
    ///
    /// Errors: those of the API server; a Lease that is not there names the manifest.
    pub async fn renew(&mut self) -> KubeResult<()> {
        let begun = Instant::now();
        if self.renewed.is_some_and(|at| at.elapsed() < RENEW) {
            return Ok(());
        }
        let lease = self.api.shipped("Lease", &self.name).await?;
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let is_ours = holder == self.identity;
        if !is_ours && !holder.is_empty() {
            let before = self.seen.as_ref().filter(|(before, _)| before == spec);
            let since = before.map_or(begun, |(_, since)| *since);
            self.seen = Some((spec.clone(), since));
            self.renewed = None;
            if since.elapsed() < LEASE {
                return Ok(());
            }
        }
        let now = format!("{:.6}", Timestamp::now());
        let acquired = if is_ours { spec["acquireTime"].clone() } else { now.clone().into() };
        let transitions = spec["leaseTransitions"].as_u64().unwrap_or_default() + u64::from(!is_ours);
        let change = json!({
            "metadata": { "resourceVersion": lease["metadata"]["resourceVersion"] },
            "spec": {
                "holderIdentity": self.identity, "leaseDurationSeconds": LEASE.as_secs(), "acquireTime": acquired,
                "renewTime": now, "leaseTransitions": transitions,
            },
        });
        match self.api.merge("Lease", &self.name, change).await {
            Ok(_) => self.renewed = Some(begun),
            Err(ApiFault::Conflict(_)) if !is_ours => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Gives it up, so that the next one need not wait.
    pub async fn release(&mut self) {
        if !self.is_leader() {
            return;
        }
        self.renewed = None;
        let change = json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } });
        // It ends by itself where this fails.
        let _ = self.api.merge("Lease", &self.name, change).await;
    }
}
