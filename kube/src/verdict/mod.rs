//! What the pods say of an agent: whether it is healthy, and what becomes of a change (KUBE §3, §5). Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::image;
use crate::state::{ChangePhase, FaultReason, ImageChange};
use crate::workload::{INVALID_IMAGE, Pod, Workload, WorkloadKind};

/// Restarts of a container that show that a version does not run.
const RESTARTS: u32 = 3;
/// Over how long restarts are counted of an agent that is not being changed.
const RESTART_PERIOD: SignedDuration = SignedDuration::from_mins(10);

/// A pod that should have ended so long ago is on a node that is gone: clocks differ, and a kubelet may be late.
const LOST: SignedDuration = SignedDuration::from_mins(1);

/// How patient a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long all pods must be ready without a restart.
    pub watch: Duration,
    /// How long no further pod need become ready.
    pub progress_deadline: Duration,
    /// How long an agent is unhealthy before that counts.
    pub unhealthy_after: Duration,
}

/// What a change comes to next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Course {
    /// It goes on.
    Waits {
        /// `progressing`, `unschedulable`, `watching`.
        code: &'static str,
        /// For people.
        why: String,
    },
    /// This pod keeps the set from going on: it is deleted, if it is still the very same.
    Frees(Pod),
    /// All pods of this phase's image were ready for the watch.
    Done,
    /// They do not come up.
    Failed(FaultReason),
}

/// What is remembered of pods between two looks; a new process begins anew.
#[derive(Debug, Default, Clone)]
pub struct Memory {
    /// Since when all pods are ready, and how often they had been restarted then.
    settled: Option<(Timestamp, u32)>,
    /// Since when there is a complaint.
    unwell_since: Option<Timestamp>,
    /// How often containers had been restarted, by time.
    restarts: Vec<(Timestamp, u32)>,
    /// How often the containers of pods that are older than the change had been restarted when they were first seen, by UID.
    restarts_before: BTreeMap<String, u32>,
    /// The time without progress counts from here at the earliest.
    counted_from: Option<Timestamp>,
    /// What another's rollout looked like, and since when.
    rollout: Option<((usize, usize), Timestamp)>,
}

impl Memory {
    /// Forgets what was seen of the pods of an image before.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Until `now` nobody could see progress, or there could be none: a deadline begins anew.
    pub fn rest(&mut self, now: Timestamp) {
        self.counted_from = Some(now);
    }

    /// How long no further pod became ready. A time that is yet to come is of a clock that was wrong.
    fn without_progress(&self, attempt: &ImageChange, now: Timestamp) -> SignedDuration {
        let since = [Some(attempt.progress_at), self.counted_from].into_iter().flatten().filter(|at| *at <= now).max();
        since.map_or(SignedDuration::ZERO, |since| now.duration_since(since))
    }

    /// How often a pod's container was restarted in the change: an old pod may have been years before.
    fn restarts_in(&mut self, attempt: &ImageChange, pod: &Pod) -> u32 {
        if pod.created.is_some_and(|created| created >= attempt.since) {
            return pod.restarts;
        }
        pod.restarts.saturating_sub(*self.restarts_before.entry(pod.uid.clone()).or_insert(pod.restarts))
    }

    /// What is wrong with the agent, once it has been so for long enough.
    pub fn complaint(&mut self, pods: &[Pod], patience: &Patience, now: Timestamp) -> Option<String> {
        let sum = pods.iter().map(|pod| pod.restarts).sum();
        let is_recent = |at: Timestamp| now.duration_since(at) <= RESTART_PERIOD;
        self.restarts.retain(|(at, before)| is_recent(*at) && *before <= sum);
        if self.restarts.last().is_none_or(|(_, before)| *before != sum) {
            self.restarts.push((now, sum));
        }
        let fresh = self.restarts.first().map_or(0, |(_, before)| sum - before);
        let is_unwell =
            |pod: &&Pod| !pod.is_ready && !pod.is_pending && !pod.is_terminating && !is_young(pod, patience, now);
        let what = match pods.iter().find(is_unwell) {
            _ if fresh >= RESTARTS => Some(format!("{fresh} restarts of its container in 10 minutes")),
            Some(pod) => Some(format!("pod {} is not ready", pod.name)),
            None => None,
        };
        self.unwell_since = what.is_some().then_some(self.unwell_since.unwrap_or(now));
        let (what, since) = what.zip(self.unwell_since)?;
        let lasts = now.duration_since(since) >= signed(patience.unhealthy_after) || fresh >= RESTARTS;
        lasts.then(|| format!("the agent is unhealthy: {what}"))
    }

    /// Another's rollout is under way, and goes on or began less than a progress deadline ago.
    pub fn other_rollout(&mut self, workload: &Workload, pods: &[Pod], deadline: Duration, now: Timestamp) -> bool {
        if workload.is_observed() && !has_two_revisions(workload, pods) {
            self.rollout = None;
            return false;
        }
        let new = pods.iter().filter(|pod| is_new(workload, pod)).count();
        let shape = (pods.iter().filter(|pod| pod.is_ready).count(), new);
        let since = self.rollout.filter(|(before, _)| *before == shape).map_or(now, |(_, since)| since);
        self.rollout = Some((shape, since));
        now.duration_since(since) < signed(deadline)
    }
}

fn is_young(pod: &Pod, patience: &Patience, now: Timestamp) -> bool {
    pod.created.is_some_and(|created| now.duration_since(created) < signed(patience.watch))
}

fn is_new(workload: &Workload, pod: &Pod) -> bool {
    workload.update_revision().is_empty() || pod.revision == workload.update_revision()
}

fn has_two_revisions(workload: &Workload, pods: &[Pod]) -> bool {
    let mut counted = pods.iter().filter(|pod| !pod.is_terminating && is_counted(workload, pod));
    if workload.kind == WorkloadKind::StatefulSet {
        return counted.any(|pod| !is_new(workload, pod));
    }
    let first = counted.next().map(|pod| &pod.revision);
    counted.any(|pod| Some(&pod.revision) != first)
}

/// Pods below a partition keep their revision.
fn is_counted(workload: &Workload, pod: &Pod) -> bool {
    workload.kind != WorkloadKind::StatefulSet || pod.ordinal().is_none_or(|ordinal| ordinal >= workload.partition())
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The agent of a change: its workload, with the image of the change's phase.
#[derive(Debug, Clone, Copy)]
pub struct ChangedWorkload<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The agent's container.
    pub container: &'a str,
    /// Its pods.
    pub pods: &'a [Pod],
    /// A pod may be deleted.
    pub may_delete: bool,
    /// How patient the verdict is.
    pub patience: &'a Patience,
    /// The time.
    pub now: Timestamp,
}

/// What becomes of a change whose image the workload has; counts progress in `attempt`.
pub fn judge(of: ChangedWorkload<'_>, attempt: &mut ImageChange, memory: &mut Memory) -> Course {
    let ChangedWorkload { workload, container, pods, patience, now, .. } = of;
    if !workload.is_observed() {
        return waits("progressing", "the controller has not seen the new image yet");
    }
    let image = workload.image(container).unwrap_or_default();
    let below = if workload.kind == WorkloadKind::StatefulSet { workload.partition() as usize } else { 0 };
    let is_lost = |pod: &&Pod| pod.ends_by.is_some_and(|by| now.duration_since(by) > LOST);
    let lost = pods.iter().filter(is_lost).count();
    // A DaemonSet still wants a pod on a node that is gone.
    let gone = if workload.kind == WorkloadKind::DaemonSet { lost } else { 0 };
    let wanted = workload.replicas().saturating_sub(below + gone);
    // A StatefulSet says which revision is the new one. Of the others the image tells, which a webhook may have changed in pods.
    let is_sure = !workload.update_revision().is_empty();
    let is_of_it = |pod: &&Pod| is_new(workload, pod) && (is_sure || image::is_of(&pod.image, image));
    let is_meant = |pod: &&Pod| is_counted(workload, pod) && (gone == 0 || !is_lost(pod));
    let counted: Vec<_> = pods.iter().filter(is_meant).collect();
    let new: Vec<_> = counted.iter().copied().filter(is_of_it).filter(|pod| !pod.is_terminating).collect();
    let old = counted.iter().filter(|pod| !is_of_it(pod)).count();
    let ready = new.iter().filter(|pod| pod.is_ready).count();
    let most = ready.min(wanted);
    // Where it was scaled down, what comes up from now on is progress again.
    if most > attempt.ready || wanted < attempt.ready {
        (attempt.ready, attempt.progress_at) = (most, now);
    }
    if let Some(failure) = hopeless(&new, attempt, memory) {
        return Course::Failed(failure);
    }
    if old == 0 && ready >= wanted && ready == new.len() {
        return settle(&new, memory, patience, now);
    }
    memory.settled = None;
    if let Some(stuck) = stuck(&of, attempt) {
        return if of.may_delete {
            Course::Frees(stuck.clone())
        } else {
            waits("pod_stuck", &format!("pod {} keeps the set from going on: delete it", stuck.name))
        };
    }
    if lost > 0 || new.iter().any(|pod| pod.is_unschedulable) {
        memory.rest(now);
        let what = if lost > 0 { "a pod does not end: its node may be gone" } else { "a pod waits for a node" };
        return waits("unschedulable", &format!("{what}: that is not the version's fault"));
    }
    let grace = if counted.iter().any(|pod| pod.is_terminating) { workload.grace() } else { 0 };
    let limit = patience.progress_deadline + Duration::from_secs(grace);
    if memory.without_progress(attempt, now) >= signed(limit) {
        let what = new.iter().find(|pod| !pod.is_ready && !pod.waiting.is_empty());
        let detail = what.map(|pod| format!(" ({}: {})", pod.name, pod.waiting)).unwrap_or_default();
        let reason = format!("no further pod became ready for {} s; {ready} of {wanted} are{detail}", limit.as_secs());
        return Course::Failed(FaultReason { code: "progress_deadline".to_owned(), reason });
    }
    waits("progressing", &format!("{ready} of {wanted} pods are ready"))
}

fn waits(code: &'static str, why: &str) -> Course {
    Course::Waits { code, why: why.to_owned() }
}

/// What no time mends.
fn hopeless(new: &[&Pod], attempt: &ImageChange, memory: &mut Memory) -> Option<FaultReason> {
    let fail = |code: &str, reason: String| Some(FaultReason { code: code.to_owned(), reason });
    if let Some(pod) = new.iter().find(|pod| pod.waiting == INVALID_IMAGE) {
        return fail("invalid_image", format!("pod {}: {INVALID_IMAGE}", pod.name));
    }
    // All are counted, not only up to the first: what a pod had before is remembered when it is first seen.
    let counted: Vec<_> = new.iter().map(|pod| (pod, memory.restarts_in(attempt, pod))).collect();
    let (pod, restarts) = counted.into_iter().find(|(_, restarts)| *restarts >= RESTARTS)?;
    fail("unhealthy", format!("pod {}: its container was restarted {restarts} times", pod.name))
}

fn settle(new: &[&Pod], memory: &mut Memory, patience: &Patience, now: Timestamp) -> Course {
    let restarts = new.iter().map(|pod| pod.restarts).sum();
    let since = memory.settled.filter(|(_, before)| *before == restarts).map_or(now, |(since, _)| since);
    memory.settled = Some((since, restarts));
    let left = signed(patience.watch) - now.duration_since(since);
    if left.is_positive() {
        return waits("watching", &format!("all pods are ready; watched for {} s more", left.as_secs().max(1)));
    }
    Course::Done
}

/// The pod that keeps an ordered set from going on (kubernetes#67250): the highest one of another revision, not ready, not
/// ending. Forward only where an agent was unhealthy before: else the old pods are ready.
fn stuck<'a>(of: &ChangedWorkload<'a>, attempt: &ImageChange) -> Option<&'a Pod> {
    let may = attempt.phase == ChangePhase::Back || !attempt.was_healthy;
    if !may || !of.workload.is_ordered() || of.pods.iter().any(|pod| pod.is_terminating) {
        return None;
    }
    let is_stuck = |pod: &&Pod| !is_new(of.workload, pod) && !pod.is_ready && is_counted(of.workload, pod);
    of.pods.iter().filter(is_stuck).max_by_key(|pod| pod.ordinal())
}

#[cfg(test)]
mod tests;
