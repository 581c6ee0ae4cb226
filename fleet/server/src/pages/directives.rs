//! `/version-control`: version directives, from a draft to what is active (DIRECTIVES §6).

use crate::views::directive_plan::PlanPage;
use crate::views::version_control::{DraftRow, VersionControlPage, banner};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use fleet_engine::resource::Kind;
use fleet_wire::api::{ApiError, ApplyPlan, Code, NewPlan, PlanView, Review};
use fleet_wire::words::{effects, planned, written};

use super::access::FormFields;
use super::page::{PageResult, frame, page, refuse};
use super::session::Session;
use crate::app::App;
use crate::clock;
use crate::core::{Actor, Tx, directives, resources, version_control};

/// Hex digits of a plan's UUID that stand for it.
const SHORT: usize = 8;

/// `/version-control`.
pub(super) async fn overview(session: Session, State(app): State<App>) -> PageResult {
    let known = app.core.run(|tx| {
        let now = clock::now();
        let drafts = directives::known_drafts(tx.state()).map(|(name, draft)| DraftRow::of(name, draft, now)).collect();
        Ok((version_control::status(tx), drafts, directives::plans(tx, None)?))
    });
    let (status, drafts, mut plans) = known.await.map_err(|wrong| refuse(&app, Some(&session), wrong, "/"))?;
    plans.reverse();
    let mut frame = frame(&app, Some(&session));
    // These stand on the page itself.
    let here = banner(&status.alerts);
    frame.warnings.retain(|warning| !here.contains(warning));
    Ok(page(StatusCode::OK, &VersionControlPage { frame, status, drafts, plans }))
}

/// `/version-control/UUID`.
pub(super) async fn plan(session: Session, State(app): State<App>, Path(id): Path<String>) -> PageResult {
    let refused = |wrong| refuse(&app, Some(&session), wrong, "/version-control");
    let actor = session.actor.clone();
    let known = app.core.run(move |tx| {
        let none = || ApiError::new(Code::NotFound, "there is no such plan");
        let plan = directives::plans(tx, Some(&id))?.pop().ok_or_else(none)?;
        let kept = resources::list(tx, Kind::Plan.as_str(), Some(&plan.id))?.pop().ok_or_else(none)?;
        let review = directives::may_review(tx, &actor, &plan.id).map_err(|wrong| wrong.message);
        Ok((plan, kept.yaml, review))
    });
    let (plan, yaml, review) = known.await.map_err(refused)?;
    Ok(page(StatusCode::OK, &PlanPage { frame: frame(&app, Some(&session)), plan, yaml, review }))
}

/// What is done to a draft or a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DirectiveAction {
    /// Freezes the draft of this name.
    Plan(String),
    /// Gives a voice on the plan of this UUID.
    Review { plan: String, approve: bool, reason: String },
    /// Makes the plan of this UUID the active directive.
    Apply(String),
}

impl DirectiveAction {
    /// Of a form; `None`: it asks for something else.
    pub(super) fn read(fields: &FormFields) -> Option<Self> {
        let plan = fields.get("plan").to_owned();
        let review =
            |approve| Self::Review { plan: plan.clone(), approve, reason: fields.get("reason").trim().to_owned() };
        match fields.get("do") {
            "plan" => Some(Self::Plan(fields.get("draft").to_owned())),
            "approve_plan" => Some(review(true)),
            "deny_plan" => Some(review(false)),
            "apply_plan" => Some(Self::Apply(plan)),
            _ => None,
        }
    }

    /// `Approve plan 1a6fd0c2`.
    pub(super) fn title(&self) -> String {
        let short = |plan: &str| plan.get(..SHORT).unwrap_or(plan).to_owned();
        match self {
            Self::Plan(draft) => format!("Plan draft {draft}"),
            Self::Review { plan, approve: true, .. } => format!("Approve plan {}", short(plan)),
            Self::Review { plan, .. } => format!("Deny plan {}", short(plan)),
            Self::Apply(plan) => format!("Apply plan {}", short(plan)),
        }
    }

    /// What happens, a sentence.
    pub(super) fn means(&self) -> &'static str {
        match self {
            Self::Plan(_) => {
                "What the draft says now is frozen, so that people can review it. No host is told anything."
            }
            Self::Review { approve: true, .. } => {
                "Your approval counts. Nothing changes for hosts before the plan is applied."
            }
            Self::Review { .. } => "One denial ends the plan: it cannot be applied any more.",
            Self::Apply(_) => "The plan becomes the active directive, which groups, gates and thresholds carry out.",
        }
    }

    /// What would come of it, a line each.
    ///
    /// # Errors
    /// Those of the action, as the API says them.
    pub(super) fn tried(&self, tx: &mut Tx<'_>, actor: &Actor, id: String) -> Result<Vec<String>, ApiError> {
        match self {
            Self::Plan(draft) => Ok(lines(&directives::plan(tx, actor, &new_plan(draft, id), true)?)),
            Self::Review { plan, approve, reason } => {
                let review = Review { id, approve: *approve, reason: reason.clone() };
                let shown = directives::review(tx, actor, plan, (&review, true))?;
                let reason = Some(format!("Reason: {reason}")).filter(|_| !reason.is_empty());
                let lines = if *approve { lines(&shown) } else { vec!["No host is told anything".to_owned()] };
                Ok(lines.into_iter().chain(reason).collect())
            }
            Self::Apply(plan) => {
                let done = directives::apply(tx, actor, plan, &ApplyPlan { id, dry_run: true })?;
                Ok(written::lines(&done, true, |_| None))
            }
        }
    }

    /// Does it; what was done, and what it did to hosts.
    ///
    /// # Errors
    /// Those of the action; that is on record as well.
    pub(super) fn carry_out(&self, tx: &mut Tx<'_>, actor: &Actor, id: String) -> Result<(String, String), ApiError> {
        let touched = match self {
            Self::Plan(draft) => {
                directives::plan(tx, actor, &new_plan(draft, id), false)?;
                String::new()
            }
            Self::Review { plan, approve, reason } => {
                let review = Review { id, approve: *approve, reason: reason.clone() };
                directives::review(tx, actor, plan, (&review, false))?;
                String::new()
            }
            Self::Apply(plan) => {
                let done = directives::apply(tx, actor, plan, &ApplyPlan { id, dry_run: false })?;
                effects::effects(&done.effects)
            }
        };
        Ok((format!("{}: done.", self.title()), touched))
    }
}

fn new_plan(draft: &str, id: String) -> NewPlan {
    NewPlan { id, draft: Some(draft.to_owned()), text: None }
}

/// What a plan would do when it is applied, and what is against that.
fn lines(plan: &PlanView) -> Vec<String> {
    let mut of_hosts = plan.effects.as_ref().map(planned::summary).unwrap_or_default();
    of_hosts.iter_mut().take(1).for_each(|line| *line = format!("Once it is applied: {line}"));
    of_hosts.into_iter().chain(plan.against.iter().map(|wrong| format!("Not applied yet: {}", wrong.message))).collect()
}
