//! Which version is wanted, and who says so: the one door for a new source of versions (`crates/sources` asks). `update` and `plan`
//! take the whole answer; `enable` and `status` take what was said, for a version may be forced or the proxy be missing.

use std::time::{Duration, Instant};

use http_client::Client;
use protocol::find::{Directive, Question};
use protocol::installer::{Installer, InstallerOrder};
use protocol::{Edition, Revision};
use sources::{Choice, FleetReason, Found, ProxyAddr, Said, Source, Timing, Way, Window, Word};

use crate::config::{Spec, Updates};
use crate::context::Context;
use crate::context::heard::Heard;
use crate::inspect;
use crate::plan::decide::Terms;
use crate::report::{Code, Error, Result};
use crate::run::{agent_health, fleet, identity, network, source, source_age, windows};

/// Who is meant, in the reasons of sources.
const WHO: &str = "this host";

/// What becomes of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// This host installs what it is told, when it is told to.
    Act,
    /// This host tells what it is told, and installs nothing: it does not count as told either.
    Tell,
    /// A person reads it: the host does not count as told (docs/decisions.md, 0047).
    Show,
}

/// A question to the source that the settings name.
pub(crate) struct Asking<'a> {
    /// The settings, as they will be.
    pub spec: &'a Spec,
    /// The settings and what happened, as they are.
    pub updates: &'a Updates,
    /// The version that is active.
    pub active: Option<&'a Revision>,
    /// By whom it is asked.
    pub client: &'a Client,
    /// What for.
    pub purpose: Purpose,
    /// A person ignores earlier failures.
    pub force: bool,
    /// Bounds everything, retries included; `None` leaves the client's own limits.
    pub deadline: Option<Duration>,
}

impl<'a> Asking<'a> {
    /// By a program, with the settings as they are and the client's own limits.
    pub(crate) fn new(
        updates: &'a Updates,
        active: Option<&'a Revision>,
        client: &'a Client,
        purpose: Purpose,
    ) -> Self {
        Self { spec: updates.spec(), updates, active, client, purpose, force: false, deadline: None }
    }
}

/// What a source answered.
pub(crate) struct Answer {
    /// The version, and whether it may be installed now; `None`: no update.
    pub directive: Option<Directive>,
    /// On which terms. Of a source that is no cluster `reason` is there.
    pub terms: Terms,
}

/// What the source wants now.
pub(crate) struct Wanted {
    /// The version to be run.
    pub revision: Revision,
    /// Whether hosts may go now.
    pub in_window: bool,
    /// Over how long hosts spread, seconds.
    pub jitter_seconds: u32,
    /// On which terms.
    pub terms: Terms,
}

impl Wanted {
    /// Asks the source, for `purpose`; `force`: earlier failures do not count. The text says why there is no update.
    ///
    /// Errors: `proxy_missing`, those of the question, `edition_unknown`.
    pub(crate) fn ask(
        context: &Context,
        updates: &Updates,
        client: &Client,
        purpose: Purpose,
        force: bool,
    ) -> Result<Result<Self, String>> {
        let active = active(context, updates)?;
        let answer = ask(context, &Asking { force, ..Asking::new(updates, active.as_ref(), client, purpose) })?;
        let Some(directive) = answer.directive else { return Ok(Err(answer.terms.reason.unwrap_or_default())) };
        let revision = revision(&directive, active.as_ref(), None)?;
        let Directive { in_window, jitter_seconds, .. } = directive;
        Ok(Ok(Self { revision, in_window, jitter_seconds, terms: answer.terms }))
    }
}

/// The active version. Where updates.yaml names no edition (RFD 0169 has none), the one on disk is meant.
pub(crate) fn active(context: &Context, updates: &Updates) -> Result<Option<Revision>> {
    Ok(match updates.spec().active() {
        Some(active) => Some(active),
        None => inspect::active(updates, &inspect::installed_now(context, updates)?),
    })
}

/// Asks the source that the settings name.
///
/// Errors: `proxy_missing`, `usage` for a source that is none, and those of the source: nothing follows from them.
pub(crate) fn ask(context: &Context, asking: &Asking<'_>) -> Result<Answer> {
    let mut answer = word(context, asking);
    if let Ok(answer) = &mut answer {
        // Who says nothing has the updater install.
        answer.terms.order.get_or_insert_with(|| Ok(InstallerOrder::usual()));
    }
    if asking.purpose != Purpose::Show && asking.spec.stale_after.is_some() {
        if let Ok(source) = source::named(asking.spec) {
            let directive = answer.as_ref().ok().and_then(|answer| answer.directive.as_ref());
            let version = directive.map(|directive| &directive.version);
            source_age::keep(context, source.to_string(), version, answer.is_ok());
        }
        if let Some(what) = stale(context, asking.spec) {
            context.report.warn(&what);
        }
    }
    answer
}

/// That the source has said the same, or nothing, for longer than `stale_after`.
pub(crate) fn stale(context: &Context, spec: &Spec) -> Option<String> {
    source_age::complaint(context, &source::named(spec).ok()?.to_string(), spec.stale_after?)
}

/// What the source says.
fn word(context: &Context, asking: &Asking<'_>) -> Result<Answer> {
    let (spec, layout) = (asking.spec, &context.layout);
    let cancelled = || context.signals.cancelled();
    let end = asking.deadline.map(|deadline| Instant::now() + deadline);
    let way = Way { client: asking.client, end, cancelled: &cancelled };
    let source = source::named(spec)?;
    let word = match &source {
        Source::Find(server) => return find(context, asking, server),
        Source::Channel(url) => sources::ask_channel(url, &way)?,
        Source::Graph(url) => {
            let refused: Vec<_> = asking.updates.status().refused.iter().map(|it| &it.revision.version).collect();
            let choice = Choice {
                who: WHO,
                own: asking.active.map(|active| &active.version),
                refused: if asking.force { &[] } else { &refused },
                downwards: spec.allow_downgrade,
            };
            let host_uuid = context.host_uuid()?;
            let id = identity::shown(context, spec, host_uuid.as_deref());
            let url = network::whole_url(context, spec, url)?;
            sources::ask_graph(&url, &choice, network::arch(context), id.as_deref(), &way)?
        }
        Source::File(path) => {
            let (file, text) = source::file(path)?;
            let (word, stale_after) = sources::file_word(&file, &text, &|name| windows::zone(name, layout))?;
            if let Some(since) = stale_after.filter(|since| *since <= context.host.now()) {
                let what = format!("{source} is out of date since {since} (stale_after)");
                context.report.warn(&format!("{what}: whatever writes it may have stopped"));
            }
            word
        }
    };
    match word {
        Word::Nothing(why) => Ok(Answer { directive: None, terms: Terms { reason: Some(why), ..Terms::default() } }),
        Word::Version(said) => judged(context, asking, &source, *said, &way),
    }
}

/// What follows from the word of a source that is no cluster.
fn judged(context: &Context, asking: &Asking<'_>, source: &Source, said: Said, way: &Way<'_>) -> Result<Answer> {
    let now = context.host.now();
    let mut terms = Terms {
        digests: said.digests.clone(),
        floor: said.floor.clone(),
        keeps_major: matches!(source, Source::Channel(_)),
        ..Terms::default()
    };
    if let Some(why) = said.out_of_time(now) {
        terms.reason = Some(why);
        return Ok(Answer { directive: None, terms });
    }
    let (in_window, reason) = timing(context, asking, source, &said, way, &mut terms)?;
    terms.reason = Some(reason);
    let Said { version, edition, .. } = said;
    Ok(Answer { directive: Some(Directive { version, edition, in_window, jitter_seconds: 0 }), terms })
}

/// Whether the version may be installed now, and why. What makes it urgent, and a schedule that is out of date, is in `terms`.
fn timing(
    context: &Context,
    asking: &Asking<'_>,
    source: &Source,
    said: &Said,
    way: &Way<'_>,
    terms: &mut Terms,
) -> Result<(bool, String)> {
    let own = asking.active.map(|active| &active.version);
    let is_shown = asking.purpose == Purpose::Show;
    let complaint = || agent_health::complaint(context, asking.updates, !is_shown);
    let window = || window(context, asking.spec, source, way);
    let Timing { is_open, urgent, reason, stale } =
        sources::timing(said, WHO, own, context.host.now(), complaint, window)?;
    if let Some(why) = stale.as_ref().filter(|_| own == Some(&said.version) && !is_shown) {
        context.report.warn(why);
    }
    (terms.urgent, terms.stale) = (urgent, stale);
    Ok((is_open, reason))
}

/// The window of a source that names none itself: the one that the agent exports or, after it, the operator's, or the server's.
fn window(context: &Context, spec: &Spec, source: &Source, way: &Way<'_>) -> Result<Option<Window>> {
    let Source::Channel(url) = source else { return windows::of_settings(context, spec) };
    if let Some(window) = windows::exported(context)?.filter(|window| windows::counts(context, window)) {
        return Ok(Some(window));
    }
    match windows::of_settings(context, spec)? {
        Some(window) => Ok(Some(window)),
        None => {
            let zone_of = |name: &str| windows::zone(name, &context.layout);
            let schedule = sources::schedule(url, spec.group.as_deref(), &zone_of, way)?;
            Ok(schedule.filter(|window| windows::counts(context, window)))
        }
    }
}

/// Asks `server` the find question. A window of the settings can only narrow its own.
fn find(context: &Context, asking: &Asking<'_>, server: &ProxyAddr) -> Result<Answer> {
    let spec = asking.spec;
    let window = windows::of_settings(context, spec)?;
    let host_uuid = context.host_uuid()?;
    let update_id = identity::shown(context, spec, host_uuid.as_deref());
    let is_dry = asking.purpose != Purpose::Act;
    let question = Question { host: host_uuid, group: spec.group.clone(), update_id, dry_run: is_dry };
    let origin = sources::origin(server);
    // Only a question by which this host acts is signed.
    let host = question.host.as_deref().filter(|_| !is_dry);
    let signature = host.and_then(|host| fleet::signature(context, &origin, host));
    let signature = signature.as_deref();
    let (client, deadline) = (asking.client, asking.deadline);
    let found = sources::find(client, &origin, &question, signature, deadline, &|| context.signals.cancelled());
    context.talk.is_deaf.set(found.is_err());
    let Found { mut directive, fleet, told, digests, installer: order, attributes, dry_run } = found?;
    let (version, edition, acts) = (directive.version.clone(), directive.edition, !is_dry);
    let result = fleet.and_then(|_| fleet::last_result(context));
    *context.talk.heard.borrow_mut() =
        Some(Heard { origin, fleet, version, edition, acts, result, client: client.clone(), dry_run });
    let fleet_reason = told.map(|mut told| {
        let named = told.target.take().unwrap_or_else(|| directive.version.clone());
        let is_held = !directive.in_window && asking.active.is_none_or(|active| active.version != named);
        FleetReason::new(server.to_string(), told, is_held.then_some(named))
    });
    let is_told_alone = matches!(&order, Some(Ok(order)) if order.installer() == Some(Installer::Notify));
    let mut terms = Terms { digests, fleet: fleet_reason, order, attributes, ..Terms::default() };
    if is_told_alone {
        terms.reason =
            Some(format!("the cluster recommends {}, and has nothing installed (notify)", directive.version));
        return Ok(Answer { directive: None, terms });
    }
    let now = context.host.now();
    if let Some(window) = window.filter(|window| directive.in_window && !window.is_open(now)) {
        directive.in_window = false;
        terms.reason = Some(window.told(now));
        terms.stale = window.stale(now);
    }
    Ok(Answer { directive: Some(directive), terms })
}

/// The revision that the directive means: no edition in the answer means the installed one (SPEC §1). FIPS is left by a word
/// of this host's operator alone (`said`, of `--edition`), whatever the cluster answers, and entered by it too.
pub(crate) fn revision(directive: &Directive, active: Option<&Revision>, said: Option<Edition>) -> Result<Revision> {
    let installed = active.map(|active| active.edition);
    let edition = match (said, installed) {
        (Some(Edition::EnterpriseFips), _) | (None, Some(Edition::EnterpriseFips)) => Some(Edition::EnterpriseFips),
        _ => directive.edition.or(said).or(installed),
    };
    let edition = edition.ok_or_else(|| {
        Error::new(Code::EditionUnknown, "the cluster does not name an edition, and no version is installed")
            .advise("run `teleport-update enable --edition EDITION` (oss, enterprise or enterprise-fips)")
    })?;
    Ok(Revision { version: directive.version.clone(), edition })
}
