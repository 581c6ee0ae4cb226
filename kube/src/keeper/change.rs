//! A change of the image: begun, written, watched, ended (KUBE §4, §5).

use super::*;
use crate::plan::{nothing, who};
use sources::Said;

/// The code of an image that is being looked up.
const RESOLVING: &str = "resolving";

/// A change as it is reported.
fn reported(look: &AgentLook<'_>, attempt: &ImageChange, outcome: Outcome, failure: Option<(&str, &str)>) -> Change {
    let from = look.agent.version(&attempt.from);
    change(from.as_ref(), &attempt.version, outcome, attempt.told, failure, look.now)
}

impl Keeper {
    /// Resolves, verifies, opens the change in the state, and writes it.
    pub(super) async fn begin(&mut self, look: &mut AgentLook<'_>, plan: &AgentPlan, new: &Beginning) -> Result<bool> {
        let (present, now) = (look.present(), look.now);
        let prepared = match self.prepared(look, new).await {
            Ok(prepared) => prepared,
            Err(refused) => return self.not_prepared(look, new, &refused).await,
        };
        if let Some(warning) = &prepared.warning {
            log("warn", &self.key, "version_unbound", warning);
        }
        let by_hand = new.target.is_none();
        if by_hand && let Some(left) = look.agent.version(present) {
            look.state.obey(left, "an operator asked to go back".to_owned(), now);
        }
        if plan.code == UNHEALTHY {
            look.state.forced_at = Some(now);
        }
        look.state.attempt = Some(ImageChange {
            from: present.to_owned(),
            to: prepared.image.clone(),
            version: new.version.clone(),
            phase: ChangePhase::Forward,
            generation: look.generation(),
            is_written: false,
            has_arrived: false,
            since: now,
            ready: 0,
            progress_at: now,
            was_healthy: look.complaint.is_none(),
            failure: None,
            by_hand,
            told: new.told(),
        });
        let why = format!("{}: {}", prepared.image, plan.why);
        look.state.tell("progressing", &why, None, "time", now);
        if !self.open(look).await? {
            return Ok(true);
        }
        self.mine.pods.forget();
        self.mine.prepared = None;
        self.mine.proven = Some(prepared.image);
        self.say("progressing", &why, false);
        self.write(look).await
    }

    /// Keeps a change that begins, unless others of the file have begun meanwhile: then nothing is kept.
    async fn open(&self, look: &AgentLook<'_>) -> Result<bool> {
        let mut store = self.shared.store.lock().await;
        let changing = beside(&store, &self.shared, &self.key, None, look.now).changing;
        if changing.len() >= look.max_in_flight {
            return Ok(false);
        }
        store.swap(&self.key, &look.state).await?;
        Ok(true)
    }

    /// What the registry has.
    ///
    /// Errors: why it may not be written; `resolving`, until that is known.
    async fn prepared(&mut self, look: &AgentLook<'_>, begin: &Beginning) -> Result<ProvenImage, ImageRefusal> {
        // A way back by hand is to the very image that ran here.
        if begin.target.is_none() {
            return Ok(ProvenImage { image: begin.image.clone(), warning: None });
        }
        if let Some((image, preparing)) = self.mine.preparing.take_if(|(_, preparing)| preparing.is_finished()) {
            let broken = |error: JoinError| Err(ImageRefusal::passing("registry_answer", error.to_string()));
            self.mine.prepared = Some((image, Timestamp::now(), preparing.await.unwrap_or_else(broken)));
        }
        if let Some((image, at, result)) = &self.mine.prepared
            && *image == begin.image
            && Timestamp::now().duration_since(*at) < result.as_ref().map_or_else(rest, |_| ASK_AGAIN)
            && look.state.wish.as_ref().is_none_or(|wish| wish.at <= *at)
        {
            return result.clone();
        }
        if self.mine.preparing.as_ref().is_none_or(|(image, _)| *image != begin.image) {
            let (shared, agent, cosign) = (self.shared.clone(), self.agent.clone(), self.cosign.clone());
            let (wanted, present) = (begin.clone(), look.present().to_owned());
            let work = move || prepare(&shared.registry, &agent, &cosign, &wanted, &present);
            self.mine.preparing = Some((begin.image.clone(), tokio::task::spawn_blocking(work)));
        }
        Err(ImageRefusal::passing(RESOLVING, format!("{} is looked up in its registry", begin.image)))
    }

    /// Says why an image is not written; gives whether it may be soon.
    async fn not_prepared(&mut self, look: &mut AgentLook<'_>, begin: &Beginning, it: &ImageRefusal) -> Result<bool> {
        let (ImageRefusal { code, why, is_final }, now) = (it, look.now);
        if *is_final {
            let failure = FaultReason { code: (*code).to_owned(), reason: why.clone() };
            look.state.refuse(begin.version.clone(), None, failure, begin.told(), now);
            look.state.wish = None;
            let from = look.agent.version(&look.state.image);
            let failure = Some((*code, why.as_str()));
            let last = change(from.as_ref(), &begin.version, Outcome::Refused, begin.told(), failure, now);
            look.state.last = Some(last);
            // When it is tried again, it may be signed.
            self.mine.prepared = None;
            self.swap(&look.state).await?;
            self.outcome("refused");
            self.event(look, "Refused", &format!("{}: {why}", begin.image), true).await;
        }
        let is_soon = *code == RESOLVING;
        // From when it was asked: a time that moves with each look would be written with each look.
        let asked_at = self.mine.prepared.as_ref().map_or(now, |(_, at, _)| *at);
        let until = asked_at.checked_add(rest(it)).ok().filter(|_| !is_final && !is_soon);
        let who = if is_soon { "time" } else { "who runs the registry, or signs images" };
        self.told(look, &nothing(code, why.as_str(), who).until(until)).await?;
        Ok(is_soon)
    }

    /// Writes the image of the change's phase; gives whether it stands there.
    async fn write(&mut self, look: &mut AgentLook<'_>) -> Result<bool> {
        let (Some(attempt), Some(workload)) = (look.state.attempt.clone(), look.workload) else { return Ok(false) };
        let (image, present, container) = (attempt.image(), look.present(), &look.agent.container);
        let is_old = attempt.phase == ChangePhase::Back || attempt.by_hand;
        if is_old && !image::is_same_repository(image, present) && look.agent.image.is_none() {
            let what = format!("the state names {image}, which is of another repository than {present}");
            return match attempt.phase {
                ChangePhase::Back => Err(LookEnd::Cannot("state_invalid", what)),
                ChangePhase::Forward => self.give_up(look, "state_invalid", &what).await,
            };
        }
        let written = match look.agent.write {
            WriteMode::Image => self
                .shared
                .api
                .write_image(workload, container, image)
                .await
                .map(|workload| (workload.generation(), workload.image(container).unwrap_or_default().to_owned())),
            WriteMode::Publish => self.publish(look, image).await.map(|()| (attempt.generation, image.to_owned())),
        };
        let fault = match written {
            Ok((_, answered)) if answered == present && answered != image => {
                ApiFault::Denied("the API server took the image and kept the old one: a webhook".to_owned())
            }
            // A webhook may have changed it: what the API server answers is what was written.
            Ok((generation, answered)) => return self.is_written(look, generation, &answered).await,
            Err(fault) => fault,
        };
        self.not_written(look, fault).await
    }

    /// Nothing happened: a test failed, or somebody may not. What goes back is tried again at the next look: the new image has
    /// failed already.
    async fn not_written(&mut self, look: &mut AgentLook<'_>, fault: ApiFault) -> Result<bool> {
        let (code, what) = match fault {
            ApiFault::Invalid(what) if self.is_as_seen(look).await? => ("admission_denied", what),
            // It is another by now, perhaps by a patch of ours that came late: the next look sees what it is.
            ApiFault::Invalid(_) => return Err(LookEnd::Again),
            ApiFault::NotFound(what) if look.agent.write == WriteMode::Publish => ("config_invalid", what),
            ApiFault::NotFound(what) => ("changed_meanwhile", what),
            ApiFault::Denied(what) => ("admission_denied", what),
            fault => return Err(fault.into()),
        };
        if look.state.attempt.as_ref().is_some_and(|attempt| attempt.phase == ChangePhase::Back) {
            return self.told(look, &nothing(code, what, who::OWNER)).await.map(|()| false);
        }
        self.give_up(look, code, &what).await
    }

    /// All that a patch tests is as it was: then it was not a test that failed, but a policy, which says 422 too.
    async fn is_as_seen(&self, look: &AgentLook<'_>) -> KubeResult<bool> {
        if look.agent.write == WriteMode::Publish {
            return Ok(true);
        }
        let tested = |workload: &Workload| (workload.metadata.uid.clone(), workload.metadata.generation);
        let now = self.shared.api.workload(look.agent).await?;
        Ok(now.is_some_and(|now| look.workload.is_some_and(|seen| tested(&now) == tested(seen))))
    }

    /// Takes note that the image of this phase, as it is then, stands in the workload, or is published.
    async fn is_written(&mut self, look: &mut AgentLook<'_>, generation: i64, image: &str) -> Result<bool> {
        let Some(attempt) = &mut look.state.attempt else { return Ok(false) };
        attempt.set_image(image.to_owned());
        (attempt.is_written, attempt.generation, attempt.progress_at) = (true, generation, look.now);
        let attempt = attempt.clone();
        let ImageChange { from, to, .. } = &attempt;
        let (event, is_back) = match attempt.phase {
            ChangePhase::Forward => ("Updating", false),
            ChangePhase::Back => ("RolledBack", true),
        };
        let note = match attempt.failure.as_ref().filter(|_| is_back) {
            Some(failure) => format!("{to} failed: {}; back to {from}", failure.reason),
            None => format!("{from} to {to}"),
        };
        if !is_back {
            look.state.last = Some(reported(look, &attempt, Outcome::Started, None));
        }
        self.swap(&look.state).await?;
        self.event(look, event, &note, is_back).await;
        Ok(true)
    }

    /// The state is kept once more between what is read and what is written: so nobody has ended this change before, and who
    /// ends it afterwards writes another version of the ConfigMap.
    async fn publish(&self, look: &AgentLook<'_>, image: &str) -> KubeResult<()> {
        let place = format!("{}-wanted", look.agent.name);
        let before = self.shared.api.shipped("ConfigMap", &place).await?;
        self.swap(&look.state).await?;
        let parsed = image.parse::<registry::ImageReference>().ok();
        let name = parsed.as_ref().map(|image| image.name()).unwrap_or_default();
        let tag = parsed.as_ref().and_then(|image| image.tag()).unwrap_or_default();
        let version = look.agent.version(image).map(|version| version.to_string());
        let change = json!({
            "metadata": { "resourceVersion": before["metadata"]["resourceVersion"] },
            "data": {
                "image": image, "tag": tag, "digest": image::digest(image).unwrap_or_default(),
                "version": version.unwrap_or_default(),
                "values.yaml": format!("image: {name}\nteleportVersionOverride: \"{tag}\"\n"),
            },
        });
        self.shared.api.merge("ConfigMap", &place, change).await.map(drop)
    }

    /// Ends a change of which nothing came about.
    async fn give_up(&mut self, look: &mut AgentLook<'_>, code: &'static str, what: &str) -> Result<bool> {
        let Some(attempt) = look.state.attempt.take() else { return Ok(false) };
        look.state.wish = None;
        if attempt.phase == ChangePhase::Forward && code == "admission_denied" {
            let failure = FaultReason { code: code.to_owned(), reason: what.to_owned() };
            look.state.refuse(attempt.version.clone(), image::digest(&attempt.to), failure, attempt.told, look.now);
        }
        if look.state.last.as_ref().is_some_and(|last| last.outcome.is_under_way()) || code == "admission_denied" {
            look.state.last = Some(reported(look, &attempt, Outcome::Failed, Some((code, what))));
        }
        self.swap(&look.state).await?;
        self.outcome("failed");
        self.told(look, &nothing(code, what, who::OWNER)).await.map(|()| false)
    }

    /// Goes on with the change that is open.
    pub(super) async fn go_on(&mut self, look: &mut AgentLook<'_>) -> Result<bool> {
        let (Some(before), Some(workload)) = (look.state.attempt.clone(), look.workload) else { return Ok(false) };
        // A change that could not go on, say of a workload that was paused, has its time from now on.
        if std::mem::take(&mut self.mine.rests) {
            self.mine.pods.rest(look.now);
        }
        let (image, present) = (before.image(), look.present());
        if present != image && !(look.agent.write == WriteMode::Publish && image::is_it(present, image)) {
            return self.is_elsewhere(look, &before).await;
        }
        if !before.is_written {
            // The reply was lost, not the patch.
            return self.is_written(look, look.generation(), image).await;
        }
        let is_forward = before.phase == ChangePhase::Forward;
        if is_forward && is_called_back(look, &before) {
            let reason = format!("the source wants {} again", before.from);
            return self.turn_back(look, FaultReason { code: "sent_back".to_owned(), reason }).await;
        }
        let mut attempt = before.clone();
        if !attempt.has_arrived {
            (attempt.has_arrived, attempt.progress_at) = (true, look.now);
        }
        let (KubeAgent { container, patience, .. }, pods, now) = (look.agent, look.pods, look.now);
        let may_delete = !self.mine.may_not_delete;
        let changed = ChangedWorkload { workload, container, pods, may_delete, patience, now };
        let course = judge(changed, &mut attempt, &mut self.mine.pods);
        if is_forward && before.ready == 0 && attempt.ready > 0 {
            look.state.last = Some(reported(look, &attempt, Outcome::Switched, None));
        }
        let is_changed = (attempt.ready, attempt.has_arrived) != (before.ready, before.has_arrived);
        look.state.attempt = Some(attempt);
        if is_changed {
            self.swap(&look.state).await?;
        }
        self.follow(look, course).await
    }

    /// The workload does not have the image of the change's phase.
    async fn is_elsewhere(&mut self, look: &mut AgentLook<'_>, attempt: &ImageChange) -> Result<bool> {
        let (image, other, present) = (attempt.image(), attempt.other_image(), look.present());
        let is_publish = look.agent.write == WriteMode::Publish;
        if !attempt.is_written && (is_publish || present == other) {
            if let Some(is_changing) = self.unproven(look, attempt).await? {
                return Ok(is_changing);
            }
            // Another process may have ended this change after the state was read: then this finds out, as nothing else does.
            self.swap(&look.state).await?;
            return self.write(look).await;
        }
        let is_ours = look.owner.as_ref().is_some_and(|owner| owner.hand == Hand::Ours);
        if !attempt.is_written && is_ours && !is_publish {
            // The reply was lost, and a webhook had changed the image.
            return self.is_written(look, look.generation(), present).await;
        }
        if is_publish && image::is_it(present, other) {
            // Nothing of it has come about: another version can take its place.
            let is_superseded = look.word.target().is_some_and(|target| target.said.version != attempt.version);
            if attempt.phase == ChangePhase::Forward && is_superseded {
                let what = format!("the source wants another version than {}", attempt.version);
                return self.give_up(look, "superseded", &what).await.map(|_| true);
            }
            let why = format!("{image} is in the ConfigMap {}-wanted; who delivers it has not yet", look.agent.name);
            return self.told(look, &nothing("published", why, who::OWNER)).await.map(|()| true);
        }
        // Somebody else's image: what he did is noted at the next look.
        let what = format!("somebody replaced {image} by {present}");
        if attempt.is_written {
            (look.state.image, look.state.is_written) = (image.to_owned(), true);
        }
        self.give_up(look, "changed_meanwhile", &what).await.map(|_| true)
    }

    /// What another process opened is looked up and verified once more: who may write the ConfigMap may not choose images. `None`:
    /// it may be written; else whether something goes on.
    async fn unproven(&mut self, look: &mut AgentLook<'_>, attempt: &ImageChange) -> Result<Option<bool>> {
        if attempt.phase == ChangePhase::Back || attempt.by_hand || self.mine.proven.as_ref() == Some(&attempt.to) {
            return Ok(None);
        }
        let target = look.word.target().filter(|target| target.said.version == attempt.version).cloned();
        let target = target.unwrap_or_else(|| WantedVersion::of(Said::version(attempt.version.clone())));
        let begin = Beginning::of(look.agent, look.present(), target, attempt.version.clone());
        let (code, what) = match self.prepared(look, &begin).await {
            Ok(prepared) if prepared.image == attempt.to => {
                self.mine.proven = Some(prepared.image);
                return Ok(None);
            }
            Ok(prepared) => {
                let what = format!("the state names {}, and the registry has {}", attempt.to, prepared.image);
                ("changed_meanwhile", what)
            }
            Err(refused) if refused.is_final => (refused.code, refused.why),
            Err(refused) => return self.not_prepared(look, &begin, &refused).await.map(Some),
        };
        self.give_up(look, code, &what).await.map(Some)
    }

    async fn follow(&mut self, look: &mut AgentLook<'_>, course: Course) -> Result<bool> {
        let Some(attempt) = &look.state.attempt else { return Ok(false) };
        let is_forward = attempt.phase == ChangePhase::Forward;
        match course {
            Course::Waits { code, why } => {
                let code = if code == "progressing" && !is_forward { "going_back" } else { code };
                self.told(look, &nothing(code, why, who::TIME)).await?;
            }
            Course::Frees(pod) => {
                let (level, what) = match self.shared.api.delete_pod(&pod).await {
                    Ok(()) => ("info", "kept the set from going on: deleted".to_owned()),
                    Err(ApiFault::Denied(what)) => ("warn", format!("cannot be deleted ({what}): delete it")),
                    // It is another one by now.
                    Err(ApiFault::Conflict(_) | ApiFault::NotFound(_)) => return Ok(true),
                    Err(fault) => return Err(fault.into()),
                };
                self.mine.may_not_delete = level != "info";
                log(level, &self.key, "pod_stuck", &format!("pod {} {what}", pod.name));
            }
            Course::Done => return self.close(look, None).await,
            Course::Failed(failure) if is_forward && attempt.was_healthy => return self.turn_back(look, failure).await,
            Course::Failed(failure) => return self.close(look, Some(failure)).await,
        }
        Ok(true)
    }

    /// Back to the old image: the refusal is kept before anything is written.
    async fn turn_back(&mut self, look: &mut AgentLook<'_>, failure: FaultReason) -> Result<bool> {
        let Some(attempt) = &mut look.state.attempt else { return Ok(false) };
        (attempt.phase, attempt.is_written, attempt.has_arrived) = (ChangePhase::Back, false, false);
        (attempt.ready, attempt.progress_at, attempt.failure) = (0, look.now, Some(failure.clone()));
        let (version, digest, told) = (attempt.version.clone(), image::digest(&attempt.to), attempt.told);
        let why = failure.reason.clone();
        if failure.code != "sent_back" {
            look.state.refuse(version.clone(), digest, failure, told, look.now);
            look.state.failed = Some(FailedVersion { version, at: look.now });
        }
        look.state.wish = None;
        look.state.tell("going_back", &why, None, "time", look.now);
        self.swap(&look.state).await?;
        self.mine.pods.forget();
        self.say("going_back", &why, true);
        self.write(look).await
    }

    /// The change is over. `failure`: the pods did not come up, and nothing more is written.
    async fn close(&mut self, look: &mut AgentLook<'_>, failure: Option<FaultReason>) -> Result<bool> {
        let Some(attempt) = look.state.attempt.take() else { return Ok(false) };
        let cause = failure.as_ref().or(attempt.failure.as_ref());
        let text = cause.map(|cause| cause.reason.as_str()).unwrap_or_default();
        let is_forward = attempt.phase == ChangePhase::Forward;
        let (outcome, code) = match (is_forward, &failure) {
            (true, None) => (Outcome::Updated, ""),
            // It was not well before: that is not the version's fault, and the old image would not help.
            (true, Some(_)) => (Outcome::Updated, "unhealthy_before"),
            (false, None) => (Outcome::RolledBack, cause.map(|cause| cause.code.as_str()).unwrap_or_default()),
            (false, Some(_)) => (Outcome::Failed, "both_unhealthy"),
        };
        let (present, state) = (look.present(), &mut look.state);
        (state.image, state.is_written) = (present.to_owned(), look.agent.write == WriteMode::Image);
        if is_forward {
            state.previous = Some(attempt.from.clone()).filter(|_| !attempt.by_hand);
            state.wish = None;
        }
        state.takes_over = false;
        let failed = Some((code, text)).filter(|_| !code.is_empty());
        look.state.last = Some(reported(look, &attempt, outcome, failed));
        let told = if code.is_empty() || outcome == Outcome::RolledBack { outcome.name() } else { code };
        let note = match outcome {
            Outcome::Updated if text.is_empty() => format!("{} runs", attempt.to),
            _ => format!("{}: {text}", attempt.to),
        };
        look.state.tell(told, &note, None, "nobody needs to", look.now);
        self.swap(&look.state).await?;
        self.mine.pods.forget();
        self.outcome(outcome.name());
        let is_warning = (failure.is_some() || !is_forward) && code != "sent_back";
        self.say(told, &note, is_warning);
        self.event(look, if is_forward { "Updated" } else { "RolledBack" }, &note, is_warning).await;
        Ok(true)
    }
}

/// The source names the version before again.
fn is_called_back(look: &AgentLook<'_>, attempt: &ImageChange) -> bool {
    let Some(target) = look.word.target() else { return false };
    let wanted = look.agent.pin.as_ref().unwrap_or(&target.said.version);
    let is_old = look.agent.version(&attempt.from).as_ref() == Some(wanted);
    !attempt.by_hand && target.may_go && is_old && *wanted != attempt.version
}
