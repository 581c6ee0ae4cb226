//! A change of the image: begun, written, watched, ended (KUBE §4, §5).

use super::*;

impl Keeper {
    /// Resolves, verifies, opens the change in the state, and writes it.
    pub(super) async fn begin(
        &mut self,
        state: &mut KeptState,
        plan: &AgentPlan,
        begin: &Beginning,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<bool, LookEnd> {
        let present = workload.image(&self.agent.container).unwrap_or_default().to_owned();
        let prepared = match self.prepared(begin, &present, state.wish.as_ref().map(|wish| wish.at)).await {
            None => {
                let why = format!("{} is looked up in its registry", begin.image);
                self.told(state, "resolving", &why, None, "time", Some(workload), now).await?;
                return Ok(true);
            }
            Some(Ok(prepared)) => prepared,
            Some(Err(refused)) => {
                self.not_prepared(state, begin, &refused, workload, now).await?;
                return Ok(false);
            }
        };
        if let Some(warning) = &prepared.warning {
            log("warn", &self.key, "version_unbound", warning);
        }
        let by_hand = begin.target.is_none();
        let told = begin.target.as_ref().and_then(|target| target.told);
        if by_hand && let Some(left) = image::version(&present, self.agent.tag.as_deref()) {
            state.obey(left, "an operator asked to go back".to_owned(), now);
        }
        if begin.is_forced {
            state.forced_at = Some(now);
        }
        state.attempt = Some(ImageChange {
            from: present,
            to: prepared.image.clone(),
            version: begin.version.clone(),
            phase: ChangePhase::Forward,
            generation: workload.metadata.generation,
            is_written: false,
            has_arrived: false,
            since: now,
            ready: 0,
            progress_at: now,
            was_healthy: begin.is_healthy,
            failure: None,
            by_hand,
            told,
        });
        let why = format!("{}: {}", prepared.image, plan.why);
        state.tell(AgentReason {
            code: "progressing".into(),
            why: why.clone(),
            since: now,
            until: None,
            who: "time".into(),
        });
        if !self.open(state).await? {
            return Ok(true);
        }
        self.memory.forget();
        self.prepared = None;
        self.proven = Some(prepared.image);
        self.say("progressing", &why, false);
        self.write(state, workload, now).await
    }

    /// Keeps a change that begins, unless others of the file have begun meanwhile: then nothing is kept.
    async fn open(&self, state: &KeptState) -> Result<bool, LookEnd> {
        let mut store = self.shared.store.lock().await;
        let changing = beside_in(&store, &self.shared.keys, &self.key, None, state.attempt.as_ref().map(|it| it.since));
        if changing.changing.len() >= self.shared.max_in_flight {
            return Ok(false);
        }
        store.swap(&self.key, state).await?;
        Ok(true)
    }

    /// What the registry has, once it is known.
    async fn prepared(
        &mut self,
        begin: &Beginning,
        present: &str,
        asked: Option<Timestamp>,
    ) -> Option<Result<ProvenImage, ImageRefusal>> {
        // A way back by hand is to the very image that ran here.
        let Some(target) = &begin.target else {
            return Some(Ok(ProvenImage { image: begin.image.clone(), warning: None }));
        };
        if let Some((image, preparing)) = self.preparing.take_if(|(_, preparing)| preparing.is_finished()) {
            let result = preparing
                .await
                .unwrap_or_else(|error| Err(ImageRefusal::passing("registry_answer", error.to_string())));
            self.prepared = Some((image, Timestamp::now(), result));
        }
        if let Some((image, at, result)) = &self.prepared
            && *image == begin.image
            && Timestamp::now().duration_since(*at) < rest(result)
            && asked.is_none_or(|asked| asked <= *at)
        {
            return Some(result.clone());
        }
        if self.preparing.as_ref().is_none_or(|(image, _)| *image != begin.image) {
            let (shared, agent, cosign) = (self.shared.clone(), self.agent.clone(), self.cosign.clone());
            let (image, version, present) = (begin.image.clone(), begin.version.clone(), present.to_owned());
            let told = target.digests.of_image(&image::repository_name(&image));
            let work = move || prepare(&shared.registry, &agent, &cosign, &image, &present, &version, told);
            self.preparing = Some((begin.image.clone(), tokio::task::spawn_blocking(work)));
        }
        None
    }

    async fn not_prepared(
        &mut self,
        state: &mut KeptState,
        begin: &Beginning,
        refused: &ImageRefusal,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<(), LookEnd> {
        let told = begin.target.as_ref().and_then(|target| target.told);
        if refused.is_final {
            let failure = FaultReason { code: refused.code.to_owned(), reason: refused.why.clone() };
            state.refuse(begin.version.clone(), None, failure, told, now);
            state.wish = None;
            let from = image::version(&state.image, self.agent.tag.as_deref());
            let failure = Some((refused.code, refused.why.as_str()));
            state.last = Some(change(from.as_ref(), &begin.version, Outcome::Refused, told, failure, now));
            // When it is tried again, it may be signed.
            self.prepared = None;
            self.swap(state).await?;
            self.outcome("refused");
            self.events
                .say(self.agent.kind, workload, "Refused", &format!("{}: {}", begin.image, refused.why), true)
                .await;
        }
        let until = now.checked_add(rest(&Err(refused.clone()))).ok();
        let who = "who runs the registry, or signs images";
        self.told(state, refused.code, &refused.why, until.filter(|_| !refused.is_final), who, Some(workload), now)
            .await
    }

    /// Writes the image of the change's phase; gives whether it stands there.
    async fn write(&mut self, state: &mut KeptState, workload: &Workload, now: Timestamp) -> Result<bool, LookEnd> {
        let Some(attempt) = state.attempt.clone() else { return Ok(false) };
        let image = attempt.image();
        let KubeAgent { kind, container, .. } = &self.agent;
        let present = workload.image(container).unwrap_or_default();
        let is_old = attempt.phase == ChangePhase::Back || attempt.by_hand;
        if is_old && !image::is_same_repository(image, present) && self.agent.image.is_none() {
            let what = format!("the state names {image}, which is of another repository than {present}");
            return match attempt.phase {
                ChangePhase::Back => Err(LookEnd::State(what)),
                ChangePhase::Forward => {
                    self.give_up(state, "state_invalid", &what, workload, now).await.map(|()| false)
                }
            };
        }
        let written = match self.agent.write {
            WriteMode::Image => self.shared.api.write_image(*kind, workload, container, image).await.map(|workload| {
                (workload.metadata.generation, workload.image(container).unwrap_or_default().to_owned())
            }),
            WriteMode::Publish => self.publish(state, image).await.map(|()| (attempt.generation, image.to_owned())),
        };
        match written {
            Ok((_, answered)) if answered == present && answered != image => {
                let fault =
                    ApiFault::Denied("the API server took the image and kept the old one: a webhook".to_owned());
                self.not_written(state, fault, workload, now).await.map(|()| false)
            }
            Ok((generation, answered)) => {
                // A webhook may have changed it: what the API server answers is what was written.
                if let Some(attempt) = state.attempt.as_mut().filter(|_| answered != image) {
                    attempt.set_image(answered);
                }
                self.is_written(state, generation, workload, now).await.map(|()| true)
            }
            Err(fault) => self.not_written(state, fault, workload, now).await.map(|()| false),
        }
    }

    /// Nothing happened: a test failed, or somebody may not. What goes back is tried again at the next look: the new image has
    /// failed already.
    async fn not_written(
        &mut self,
        state: &mut KeptState,
        fault: ApiFault,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<(), LookEnd> {
        let (code, what) = match fault {
            ApiFault::Invalid(what) if self.is_as_seen(workload).await? => ("admission_denied", what),
            // It is another by now, perhaps by a patch of ours that came late: the next look sees what it is.
            ApiFault::Invalid(_) => return Err(LookEnd::Again),
            ApiFault::NotFound(what) if self.agent.write == WriteMode::Publish => ("config_invalid", what),
            ApiFault::NotFound(what) => ("changed_meanwhile", what),
            ApiFault::Denied(what) => ("admission_denied", what),
            fault => return Err(fault.into()),
        };
        if state.attempt.as_ref().is_some_and(|attempt| attempt.phase == ChangePhase::Back) {
            return self.told(state, code, &what, None, "who manages the workload", Some(workload), now).await;
        }
        self.give_up(state, code, &what, workload, now).await
    }

    /// All that a patch tests is as it was: then it was not a test that failed, but a policy, which says 422 too.
    async fn is_as_seen(&self, seen: &Workload) -> KubeResult<bool> {
        let KubeAgent { kind, name, write, .. } = &self.agent;
        if *write == WriteMode::Publish {
            return Ok(true);
        }
        let tested = |workload: &Workload| (workload.metadata.uid.clone(), workload.metadata.generation);
        let now = self.shared.api.workload(*kind, name).await?;
        Ok(now.is_some_and(|now| tested(&now) == tested(seen)))
    }

    /// Takes note that the image of this phase stands in the workload, or is published.
    async fn is_written(
        &mut self,
        state: &mut KeptState,
        generation: i64,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<(), LookEnd> {
        let Some(attempt) = &mut state.attempt else { return Ok(()) };
        (attempt.is_written, attempt.generation, attempt.progress_at) = (true, generation, now);
        let (phase, to, told, from) = (attempt.phase, attempt.version.clone(), attempt.told, attempt.from.clone());
        let note = match (&attempt.failure, phase) {
            (Some(failure), ChangePhase::Back) => format!("{} failed: {}; back to {from}", attempt.to, failure.reason),
            _ => format!("{from} to {}", attempt.to),
        };
        if phase == ChangePhase::Forward {
            let from = image::version(&from, self.agent.tag.as_deref());
            state.last = Some(change(from.as_ref(), &to, Outcome::Started, told, None, now));
        }
        self.swap(state).await?;
        let reason = if phase == ChangePhase::Forward { "Updating" } else { "RolledBack" };
        self.events.say(self.agent.kind, workload, reason, &note, phase == ChangePhase::Back).await;
        Ok(())
    }

    /// The state is kept once more between what is read and what is written: so nobody has ended this change before, and who
    /// ends it afterwards writes another version of the ConfigMap.
    async fn publish(&self, state: &KeptState, image: &str) -> KubeResult<()> {
        let place = format!("{}-wanted", self.agent.name);
        let before = self.shared.api.object("configmaps", &place).await?;
        let before = before.ok_or_else(|| missing("ConfigMap", &place))?;
        self.swap(state).await?;
        let parsed = image.parse::<registry::ImageReference>().ok();
        let part = |of: Option<String>| of.unwrap_or_default();
        let version = part(image::version(image, self.agent.tag.as_deref()).map(|version| version.to_string()));
        let name = part(parsed.as_ref().map(|image| image.name().to_owned()));
        let tag = part(parsed.as_ref().and_then(|image| image.tag().map(str::to_owned)));
        let values = format!("image: {name}\nteleportVersionOverride: \"{tag}\"\n");
        let data = json!({
            "image": image, "tag": tag, "digest": part(image::digest(image)), "version": version, "values.yaml": values,
        });
        let version = json!({ "resourceVersion": before["metadata"]["resourceVersion"] });
        let change = json!({ "metadata": version, "data": data });
        self.shared.api.merge("configmaps", &place, change).await.map(drop)
    }

    /// Ends a change of which nothing came about.
    async fn give_up(
        &mut self,
        state: &mut KeptState,
        code: &str,
        what: &str,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<(), LookEnd> {
        let Some(attempt) = state.attempt.take() else { return Ok(()) };
        state.wish = None;
        if attempt.phase == ChangePhase::Forward && code == "admission_denied" {
            let failure = FaultReason { code: code.to_owned(), reason: what.to_owned() };
            state.refuse(attempt.version.clone(), image::digest(&attempt.to), failure, attempt.told, now);
        }
        let from = image::version(&attempt.from, self.agent.tag.as_deref());
        if state.last.as_ref().is_some_and(|last| last.outcome.is_under_way()) || code == "admission_denied" {
            let failure = Some((code, what));
            state.last = Some(change(from.as_ref(), &attempt.version, Outcome::Failed, attempt.told, failure, now));
        }
        self.swap(state).await?;
        self.outcome("failed");
        self.told(state, code, what, None, "who manages the workload", Some(workload), now).await
    }

    /// Goes on with the change that is open.
    pub(super) async fn go_on(
        &mut self,
        state: &mut KeptState,
        workload: &Workload,
        pods: &[Pod],
        word: &SourceSays,
        now: Timestamp,
    ) -> Result<bool, LookEnd> {
        let Some(attempt) = &state.attempt else { return Ok(false) };
        // A change that could not go on, say of a workload that was paused, has its time from now on.
        if std::mem::take(&mut self.rests) {
            self.memory.rest(now);
        }
        let present = workload.image(&self.agent.container).unwrap_or_default();
        let image = attempt.image();
        if present != image && !(self.agent.write == WriteMode::Publish && image::is_it(present, image)) {
            return self.is_elsewhere(state, workload, word, now).await;
        }
        if !attempt.is_written {
            // The reply was lost, not the patch.
            self.is_written(state, workload.metadata.generation, workload, now).await?;
            return Ok(true);
        }
        let Some(attempt) = &mut state.attempt else { return Ok(false) };
        let before = attempt.clone();
        if !attempt.has_arrived {
            (attempt.has_arrived, attempt.progress_at) = (true, now);
        }
        if attempt.phase == ChangePhase::Forward && self.is_called_back(attempt, word) {
            let reason = format!("the source wants {} again", attempt.from);
            return self.turn_back(state, FaultReason { code: "sent_back".to_owned(), reason }, workload, now).await;
        }
        let changed = ChangedWorkload {
            workload,
            kind: self.agent.kind,
            container: &self.agent.container,
            pods,
            may_delete: self.may_delete,
        };
        let course = judge(changed, attempt, &mut self.memory, &self.agent.patience, now);
        let grew = attempt.ready > before.ready;
        let is_changed = (attempt.ready, attempt.has_arrived) != (before.ready, before.has_arrived);
        let is_first = before.ready == 0 && grew && attempt.phase == ChangePhase::Forward;
        if is_first {
            let from = image::version(&attempt.from, self.agent.tag.as_deref());
            state.last = Some(change(from.as_ref(), &attempt.version, Outcome::Switched, attempt.told, None, now));
        }
        if is_changed {
            self.swap(state).await?;
        }
        self.follow(state, course, workload, now).await
    }

    /// The workload does not have the image of the change's phase.
    async fn is_elsewhere(
        &mut self,
        state: &mut KeptState,
        workload: &Workload,
        word: &SourceSays,
        now: Timestamp,
    ) -> Result<bool, LookEnd> {
        let Some(attempt) = &state.attempt else { return Ok(false) };
        let (image, other) = (attempt.image().to_owned(), attempt.other_image());
        let present = workload.image(&self.agent.container).unwrap_or_default();
        let is_publish = self.agent.write == WriteMode::Publish;
        if !attempt.is_written && (is_publish || present == other) {
            return match self.unproven(state, workload, word, now).await? {
                Some(is_changing) => Ok(is_changing),
                None => {
                    // Another process may have ended this change after the state was read: then this finds out, as nothing
                    // else does.
                    self.swap(state).await?;
                    self.write(state, workload, now).await
                }
            };
        }
        let is_ours = self.owner(Some(workload)).is_some_and(|owner| owner.hand == Hand::Ours);
        if !attempt.is_written && is_ours && !is_publish {
            // The reply was lost, and a webhook had changed the image.
            let image = present.to_owned();
            if let Some(attempt) = &mut state.attempt {
                attempt.set_image(image);
            }
            self.is_written(state, workload.metadata.generation, workload, now).await?;
            return Ok(true);
        }
        if is_publish && image::is_it(present, other) {
            // Nothing of it has come about: another version can take its place.
            let is_superseded = |target: &WantedVersion| target.version != attempt.version;
            if attempt.phase == ChangePhase::Forward
                && matches!(word, SourceSays::Target(target) if is_superseded(target))
            {
                let what = format!("the source wants another version than {}", attempt.version);
                self.give_up(state, "superseded", &what, workload, now).await?;
                return Ok(true);
            }
            let why = format!("{image} is in the ConfigMap {}-wanted; who delivers it has not yet", self.agent.name);
            self.told(state, "published", &why, None, "who manages the workload", Some(workload), now).await?;
            return Ok(true);
        }
        // Somebody else's image: what he did is noted at the next look.
        let what = format!("somebody replaced {image} by {present}");
        if attempt.is_written {
            (state.image, state.is_written) = (image, true);
        }
        self.give_up(state, "changed_meanwhile", &what, workload, now).await?;
        Ok(true)
    }

    /// What another process opened is looked up and verified once more: who may write the ConfigMap may not choose images. `None`:
    /// it may be written; else whether something goes on.
    async fn unproven(
        &mut self,
        state: &mut KeptState,
        workload: &Workload,
        word: &SourceSays,
        now: Timestamp,
    ) -> Result<Option<bool>, LookEnd> {
        let Some(attempt) = state.attempt.clone() else { return Ok(None) };
        if attempt.phase == ChangePhase::Back || attempt.by_hand || self.proven.as_ref() == Some(&attempt.to) {
            return Ok(None);
        }
        let present = workload.image(&self.agent.container).unwrap_or_default();
        let (repository, tag) = (self.agent.image.as_deref(), self.agent.tag.as_deref());
        let target = match word {
            SourceSays::Target(target) if target.version == attempt.version => target.as_ref().clone(),
            _ => WantedVersion::plain(attempt.version.clone()),
        };
        let begin = Beginning {
            image: image::tagged(repository, present, tag, &attempt.version),
            version: attempt.version.clone(),
            target: Some(target),
            is_healthy: attempt.was_healthy,
            is_forced: false,
        };
        let (code, what) = match self.prepared(&begin, present, None).await {
            None => ("resolving", format!("{} is looked up in its registry", begin.image)),
            Some(Ok(prepared)) if prepared.image == attempt.to => {
                self.proven = Some(prepared.image);
                return Ok(None);
            }
            Some(Ok(prepared)) => {
                let what = format!("the state names {}, and the registry has {}", attempt.to, prepared.image);
                return self.give_up(state, "changed_meanwhile", &what, workload, now).await.map(|()| Some(false));
            }
            Some(Err(refused)) if refused.is_final => {
                return self.give_up(state, refused.code, &refused.why, workload, now).await.map(|()| Some(false));
            }
            Some(Err(refused)) => (refused.code, refused.why),
        };
        self.told(state, code, &what, None, "time", Some(workload), now).await?;
        Ok(Some(code == "resolving"))
    }

    /// The source names the version before again.
    fn is_called_back(&self, attempt: &ImageChange, word: &SourceSays) -> bool {
        let SourceSays::Target(target) = word else { return false };
        let old = image::version(&attempt.from, self.agent.tag.as_deref());
        let wanted = self.agent.pin.as_ref().unwrap_or(&target.version);
        !attempt.by_hand && target.may_go && old.as_ref() == Some(wanted) && *wanted != attempt.version
    }

    async fn follow(
        &mut self,
        state: &mut KeptState,
        course: Course,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<bool, LookEnd> {
        match course {
            Course::Waits { code, why } => {
                let code = match state.attempt.as_ref().map(|attempt| attempt.phase) {
                    Some(ChangePhase::Back) if code == "progressing" => "going_back",
                    _ => code,
                };
                self.told(state, code, &why, None, "time", Some(workload), now).await?;
            }
            Course::Frees(pod) => match self.shared.api.delete_pod(&pod).await {
                Ok(()) => log(
                    "info",
                    &self.key,
                    "pod_stuck",
                    &format!("pod {} kept the set from going on: deleted", pod.name),
                ),
                Err(ApiFault::Denied(what)) => {
                    self.may_delete = false;
                    log(
                        "warn",
                        &self.key,
                        "pod_stuck",
                        &format!("pod {} cannot be deleted ({what}): delete it", pod.name),
                    );
                }
                // It is another one by now.
                Err(ApiFault::Conflict(_) | ApiFault::NotFound(_)) => {}
                Err(fault) => return Err(fault.into()),
            },
            Course::Done => return self.done(state, workload, now).await,
            Course::Failed(failure) => {
                let Some(attempt) = &state.attempt else { return Ok(false) };
                match attempt.phase {
                    ChangePhase::Back => return self.close(state, Some(failure), workload, now).await,
                    ChangePhase::Forward if !attempt.was_healthy => {
                        return self.close(state, Some(failure), workload, now).await;
                    }
                    ChangePhase::Forward => return self.turn_back(state, failure, workload, now).await,
                }
            }
        }
        Ok(true)
    }

    /// Back to the old image: the refusal is kept before anything is written.
    async fn turn_back(
        &mut self,
        state: &mut KeptState,
        failure: FaultReason,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<bool, LookEnd> {
        let Some(attempt) = &mut state.attempt else { return Ok(false) };
        (attempt.phase, attempt.is_written, attempt.has_arrived) = (ChangePhase::Back, false, false);
        (attempt.ready, attempt.progress_at) = (0, now);
        attempt.failure = Some(failure.clone());
        let (version, digest, told) = (attempt.version.clone(), image::digest(&attempt.to), attempt.told);
        let why = failure.reason.clone();
        if failure.code != "sent_back" {
            state.refuse(version.clone(), digest, failure, told, now);
            state.failed = Some(FailedVersion { version, at: now });
        }
        state.wish = None;
        state.tell(AgentReason {
            code: "going_back".into(),
            why: why.clone(),
            since: now,
            until: None,
            who: "time".into(),
        });
        self.swap(state).await?;
        self.memory.forget();
        self.say("going_back", &why, true);
        self.write(state, workload, now).await
    }

    async fn done(&mut self, state: &mut KeptState, workload: &Workload, now: Timestamp) -> Result<bool, LookEnd> {
        self.close(state, None, workload, now).await
    }

    /// The change is over. `failure`: the pods did not come up, and nothing more is written.
    async fn close(
        &mut self,
        state: &mut KeptState,
        failure: Option<FaultReason>,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<bool, LookEnd> {
        let Some(attempt) = state.attempt.take() else { return Ok(false) };
        let old = image::version(&attempt.from, self.agent.tag.as_deref());
        let why = |failure: &FaultReason| failure.reason.clone();
        let (outcome, code, text, event, is_warning) = match (attempt.phase, &failure, &attempt.failure) {
            (ChangePhase::Forward, None, _) => (Outcome::Updated, "", String::new(), "Updated", false),
            // It was not well before: that is not the version's fault, and the old image would not help.
            (ChangePhase::Forward, Some(failure), _) => {
                (Outcome::Updated, "unhealthy_before", why(failure), "Updated", true)
            }
            (ChangePhase::Back, None, Some(cause)) => {
                (Outcome::RolledBack, cause.code.as_str(), why(cause), "RolledBack", cause.code != "sent_back")
            }
            (ChangePhase::Back, None, None) => (Outcome::RolledBack, "", String::new(), "RolledBack", true),
            (ChangePhase::Back, Some(failure), _) => {
                (Outcome::Failed, "both_unhealthy", why(failure), "RolledBack", true)
            }
        };
        let present = workload.image(&self.agent.container).unwrap_or_default();
        (state.image, state.is_written) = (present.to_owned(), self.agent.write == WriteMode::Image);
        if attempt.phase == ChangePhase::Forward {
            state.previous = Some(attempt.from.clone()).filter(|_| !attempt.by_hand);
            state.wish = None;
        }
        let failed = Some((code, text.as_str())).filter(|(code, _)| !code.is_empty());
        state.last = Some(change(old.as_ref(), &attempt.version, outcome, attempt.told, failed, now));
        let told = match outcome {
            Outcome::RolledBack => outcome.name(),
            _ if code.is_empty() => outcome.name(),
            _ => code,
        };
        state.takes_over = false;
        let note = match outcome {
            Outcome::Updated if text.is_empty() => format!("{} runs", attempt.to),
            _ => format!("{}: {text}", attempt.to),
        };
        state.tell(AgentReason {
            code: told.to_owned(),
            why: note.clone(),
            since: now,
            until: None,
            who: "nobody needs to".into(),
        });
        self.swap(state).await?;
        self.memory.forget();
        self.outcome(outcome.name());
        self.say(told, &note, is_warning);
        self.events.say(self.agent.kind, workload, event, &note, is_warning).await;
        Ok(true)
    }
}
