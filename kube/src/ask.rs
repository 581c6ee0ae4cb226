//! Asks the source which version is wanted, and when (KUBE §3). Blocks: for a thread of its own.

use std::time::{Duration, Instant};

use error::Result;
use http_client::Client;
use jiff::{SignedDuration, Timestamp};
use protocol::find::Question;
use protocol::report::{Rollout, SignedQuestion, question_message};
use protocol::{Arch, Edition, Revision, Version, turn};
use sources::{Choice, HostKey, Said, Source, Way, Window, Word as SourceWord};
use yaml::view::LONGEST_FILE;

use crate::config::{KubeAgent, zone};
use crate::plan::{AgentLook, SourceSays, WantedVersion};
use crate::schedule::Exported;

/// Longest time of a question, tries and waits included.
const LONGEST: Duration = Duration::from_secs(60);
/// A schedule that cannot be used for so long closes no window any more: upstream, too, takes its agent for one that lost its
/// cluster.
const GONE: SignedDuration = SignedDuration::from_hours(168);

/// A question.
#[derive(Debug, Clone)]
pub struct SourceQuestion {
    /// Of which agent.
    pub agent: KubeAgent,
    /// Its UUID.
    pub update_id: String,
    /// The version that it runs.
    pub own: Option<Version>,
    /// Versions that are refused here.
    pub refused: Vec<Version>,
    /// The window that agents export.
    pub exported: Exported,
    /// The key, and the epoch and number of this question; `None`: it is not signed.
    pub signed: Option<(String, u64, u64)>,
    /// A person looks: this host does not count as told.
    pub is_look: bool,
    /// The version that the source named before, and since when: from then on the jitter runs.
    pub named: Option<(Version, Timestamp)>,
}

impl SourceQuestion {
    /// A person's.
    pub fn new(look: &AgentLook<'_>, exported: Exported) -> Self {
        Self {
            agent: look.agent.clone(),
            update_id: look.state.update_id.clone(),
            own: look.own(),
            refused: look.state.refused.iter().map(|refusal| refusal.version.clone()).collect(),
            exported,
            signed: None,
            is_look: true,
            named: None,
        }
    }

    /// Since when the source names `version`.
    fn since(&self, version: &Version, now: Timestamp) -> Timestamp {
        self.named.as_ref().filter(|(before, _)| before == version).map_or(now, |(_, since)| *since)
    }
}

/// What was heard.
#[derive(Debug, Clone)]
pub struct SourceAnswer {
    /// What the source says.
    pub word: SourceSays,
    /// What a rollout server adds.
    pub fleet: Option<Rollout>,
    /// The version that it names, and since when.
    pub named: Option<(Version, Timestamp)>,
}

/// Asks, at `now`.
pub fn ask(client: &Client, asking: &SourceQuestion, now: Timestamp) -> SourceAnswer {
    let never = || false;
    let way = Way { client, end: Some(Instant::now() + LONGEST), cancelled: &never };
    let heard = heard(asking, &way, now);
    let (word, fleet) = heard.unwrap_or_else(|error| (SourceSays::Silent(error.to_string()), None));
    let version = word.target().map(|target| target.said.version.clone());
    let named = version.map(|version| (version.clone(), asking.since(&version, now)));
    SourceAnswer { word, fleet, named }
}

fn find(asking: &SourceQuestion, origin: &str, way: &Way<'_>, now: Timestamp) -> Result<(SourceSays, Option<Rollout>)> {
    let KubeAgent { group, window, .. } = &asking.agent;
    let id = Some(asking.update_id.clone());
    let question = Question { host: id.clone(), group: group.clone(), update_id: id, dry_run: asking.is_look };
    let signature = asking.signed.as_ref().filter(|_| !asking.is_look).and_then(|(seed, epoch, number)| {
        let key = HostKey::of(seed).ok()?;
        let signature = key.sign(&question_message(&asking.update_id, *epoch, *number));
        Some(SignedQuestion { key: key.public(), epoch: *epoch, number: *number, signature }.to_string())
    });
    let found = sources::find(way.client, origin, &question, signature.as_deref(), Some(LONGEST), &|| false)?;
    let directive = found.directive;
    let edition = directive.edition.unwrap_or(Edition::Oss);
    let revision = Revision { version: directive.version.clone(), edition };
    let seconds = turn::seconds(&asking.update_id, &revision, directive.jitter_seconds);
    let since = asking.since(&directive.version, now);
    let told = found.told.as_ref();
    let (edition, digests) = (directive.edition, found.digests);
    let mut target = WantedVersion {
        may_go: directive.in_window,
        reason: told.map_or_else(|| "the cluster decides".to_owned(), protocol::reason::Told::sentence),
        until: told.and_then(|told| told.until.as_deref()?.parse().ok()),
        is_find: true,
        waits_for: told.and_then(|told| told.target.clone()),
        turn: since.checked_add(SignedDuration::from_secs(seconds.into())).ok(),
        told: found.fleet.map(|fleet| (fleet.rollout, fleet.attempt)),
        ..WantedVersion::of(Said { edition, digests, ..Said::version(directive.version) })
    };
    if let Some(window) = window.as_ref().filter(|window| target.may_go && !window.is_open(now)) {
        narrow(&mut target, window, now);
    }
    if target.may_go {
        let reason = std::mem::take(&mut target.reason);
        exported(&mut target, asking, way, now)?;
        if target.may_go {
            target.reason = reason;
        }
    }
    Ok((SourceSays::Target(Box::new(target)), found.fleet))
}

fn narrow(target: &mut WantedVersion, window: &Window, now: Timestamp) {
    (target.may_go, target.reason, target.until) = (window.is_open(now), window.told(now), window.next(now));
}

/// What the source says, and what a rollout server adds.
fn heard(asking: &SourceQuestion, way: &Way<'_>, now: Timestamp) -> Result<(SourceSays, Option<Rollout>)> {
    let source = &asking.agent.source;
    let word = match source {
        Source::Find(server) => return find(asking, &sources::origin(server), way, now),
        Source::Channel(url) => sources::ask_channel(url, way)?,
        Source::Graph(url) => {
            let refused: Vec<_> = asking.refused.iter().collect();
            let downwards = asking.agent.allow_downgrade;
            let choice = Choice { who: "this agent", own: asking.own.as_ref(), refused: &refused, downwards };
            sources::ask_graph(url, &choice, Arch::NATIVE, Some(&asking.update_id), way)?
        }
        Source::File(path) => {
            let missing = || error::Error::new(error::Code::Io, format!("{} does not exist", path.display()));
            let text = error::read_limited(path, LONGEST_FILE)?.ok_or_else(missing)?;
            let (word, stale_after) = sources::file_word(path, &text, &zone)?;
            if let Some(since) = stale_after.filter(|since| *since <= now) {
                let why = format!("{source} is out of date since {since} (stale_after)");
                return Ok((SourceSays::Silent(why), None));
            }
            word
        }
    };
    let said = match word {
        SourceWord::Nothing(why) => return Ok((SourceSays::Nothing(why), None)),
        SourceWord::Version(said) => *said,
    };
    if let Some(why) = said.out_of_time(now) {
        return Ok((SourceSays::Nothing(why), None));
    }
    let window = said.window.clone().or_else(|| asking.agent.window.clone());
    let mut target = WantedVersion {
        keeps_major: matches!(source, Source::Channel(_)),
        reason: "there is no maintenance window".to_owned(),
        ..WantedVersion::of(said)
    };
    match window {
        Some(window) => narrow(&mut target, &window, now),
        None => exported(&mut target, asking, way, now)?,
    }
    Ok((SourceSays::Target(Box::new(target)), None))
}

/// By the window that agents export, or the server's.
fn exported(target: &mut WantedVersion, asking: &SourceQuestion, way: &Way<'_>, now: Timestamp) -> Result<()> {
    let lost = |since: Timestamp, why: &str, target: &mut WantedVersion| {
        let opens = since.checked_add(GONE).ok();
        target.may_go = opens.is_some_and(|opens| opens <= now);
        target.until = opens;
        target.reason = format!("the schedule that the agents export {why}; it counts no more after 168 h");
    };
    match (&asking.exported, &asking.agent.source) {
        (Exported::Lost(since, why), _) => lost(*since, why, target),
        (Exported::Window(window), _) => match window.over_since(now) {
            Some(since) => lost(since, "is wholly past", target),
            None => narrow(target, window, now),
        },
        (Exported::None, Source::Channel(url)) => {
            if let Some(window) = sources::schedule(url, asking.agent.group.as_deref(), &zone, way)? {
                narrow(target, &window, now);
            }
        }
        (Exported::None, _) => {}
    }
    Ok(())
}

impl WantedVersion {
    /// A version that may be installed now.
    pub fn of(said: Said) -> Self {
        Self {
            said,
            may_go: true,
            reason: String::new(),
            until: None,
            keeps_major: false,
            is_find: false,
            waits_for: None,
            turn: None,
            told: None,
        }
    }
}
