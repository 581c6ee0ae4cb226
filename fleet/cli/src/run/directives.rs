//! `create-draft`, `drafts` and `version-control` (DIRECTIVES §3).

use std::path::Path;

use fleet_wire::api::{
    ApplyPlan, BeginDryRun, Code, DraftView, NewDraft, NewPlan, PlanState, PlanView, Review, VersionControlStatus,
};
use fleet_wire::lenient::word;
use fleet_wire::words::planned;

use super::resources::{self, read};
use super::{id, path};
use crate::args::{PrintFormat, VersionControlVerb};
use crate::client::{Answer, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{text, value, version_control as shown};

/// Where drafts are.
const DRAFTS: &str = "/v1/fleet/drafts";
/// Where plans are.
const PLANS: &str = "/v1/fleet/directive-plans";

/// Where the status is.
const STATUS: &str = "/v1/fleet/version-control";

/// `create-draft`.
pub(super) fn create_draft(
    file: &Path,
    name: &str,
    client: &ApiClient,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let text = read(file, screen)?;
    let Some((kind, name)) = name.split_once('/') else {
        return Err(Failure::new(Failure::USAGE, "a draft's name is KIND/NAME"));
    };
    let place = format!("{DRAFTS}/{}/{}", path::encoded(kind), path::encoded(name));
    let written: Answer<DraftView> = client.ask(&ApiCall::put(place, &NewDraft { id: id(), text })?)?;
    value::show(screen, &written, |out, _| {
        let name = text::clean(&written.name);
        writeln!(out, "draft {name}, digest {}", text::clean(&written.digest))?;
        let Some(plan) = &written.plan else {
            return Ok(writeln!(out, "next: teleport-fleet version-control plan {name}")?);
        };
        let plan = text::clean(plan);
        if written.applied {
            return Ok(writeln!(out, "planned as {plan} and applied")?);
        }
        Ok(writeln!(out, "planned as {plan}, which waits: teleport-fleet version-control show {plan}")?)
    })
}

/// `drafts`.
pub(super) fn drafts(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let drafts: Vec<Answer<DraftView>> = client.ask(&ApiCall::get(DRAFTS))?;
    value::list(screen, &drafts, ["Draft", "Author", "Time", "Stale After", "Digest"], |draft| {
        let stale = draft.stale_after.map_or_else(String::new, text::time);
        let digest = draft.digest.chars().take(12).collect();
        [draft.name.clone(), draft.author.clone(), text::time(draft.time), stale, digest]
    })
}

/// `version-control`.
pub(super) fn run(verb: &VersionControlVerb, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let place = |id: &str, what: &str| format!("{PLANS}/{}{what}", path::encoded(id));
    let question = match verb {
        VersionControlVerb::Status => return status(client, screen),
        VersionControlVerb::Plan { draft, file } => {
            let text = file.as_deref().map(|file| read(file, screen)).transpose()?;
            let draft = text.is_none().then(|| draft.clone());
            ApiCall::post(PLANS, &NewPlan { id: id(), draft, text })?
        }
        VersionControlVerb::Pending => return pending(client, screen),
        VersionControlVerb::Show { id } => ApiCall::get(place(id, "")),
        VersionControlVerb::Review { id: plan, approve, reason, .. } => {
            let review = Review { id: id(), approve: *approve, reason: reason.clone() };
            ApiCall::post(place(plan, "/review"), &review)?
        }
        VersionControlVerb::DryRun { id: plan } => ApiCall::post(place(plan, "/dry-run"), &BeginDryRun { id: id() })?,
        VersionControlVerb::Apply { id: plan, dry_run } => {
            let apply = ApplyPlan { id: id(), dry_run: *dry_run };
            let written = client.ask(&ApiCall::post(place(plan, "/apply"), &apply)?.dry(*dry_run))?;
            return resources::show(&written, *dry_run, screen);
        }
    };
    let plan: Answer<PlanView> = client.ask(&question)?;
    let is_whole = matches!(verb, VersionControlVerb::Show { .. });
    value::show(screen, &plan, |out, _| {
        let says = plan.yaml.iter().filter(|_| is_whole).flat_map(|yaml| yaml.lines());
        let mut lines = planned::lines(&plan);
        lines.extend(says.map(str::to_owned));
        lines.iter().try_for_each(|line| Ok(writeln!(out, "{}", text::clean(line))?))
    })
}

fn pending(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let mut plans: Vec<Answer<PlanView>> = client.ask(&ApiCall::get(PLANS))?;
    plans.retain(|plan| plan.state != PlanState::Applied.into());
    if plans.is_empty() && screen.format() == PrintFormat::Text {
        return Ok(writeln!(screen.out(), "No plan waits.")?);
    }
    value::list(screen, &plans, ["Plan", "Draft", "Author", "State", "Approvals", "Expires", "Against"], |plan| {
        let approvals = format!("{} of {}", plan.approved.len(), plan.approvals);
        let against: Vec<String> = plan.against.iter().map(|error| word(&error.code)).collect();
        let draft = if plan.draft.is_empty() { "a file".to_owned() } else { plan.draft.clone() };
        let (id, author, state) = (plan.id.clone(), plan.author.clone(), word(&plan.state));
        [id, draft, author, state, approvals, text::time(plan.expires), against.join(", ")]
    })
}

/// `version-control status`.
pub(super) fn status(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let status: Answer<VersionControlStatus> = client.ask(&ApiCall::get(STATUS.to_owned()))?;
    value::show(screen, &status, |out, look| Ok(shown::status(out, &status, look.is_colourful)?))?;
    warn(&status, screen)
}

/// The warnings below a table, on standard error.
pub(super) fn warn_of_versions(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    match client.ask::<Answer<VersionControlStatus>>(&ApiCall::get(STATUS.to_owned())) {
        Ok(status) => warn(&status, screen),
        // A controller lists hosts, and looks at nothing else.
        Err(failure) if failure.is(Code::Forbidden) => Ok(()),
        Err(failure) => Err(failure),
    }
}

fn warn(status: &VersionControlStatus, screen: &mut Screen<'_>) -> Result<(), Failure> {
    for line in shown::warnings(&status.alerts) {
        writeln!(screen.console.err, "{line}")?;
    }
    Ok(())
}
