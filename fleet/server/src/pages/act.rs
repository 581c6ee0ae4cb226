//! What people do: a form leads to a page that says what would happen, and that page's form does it.

use crate::views::confirm::{Confirm, ConfirmPage};
use crate::views::done::Done;
use axum::extract::State;
use axum::http::StatusCode;
use fleet_engine::command::Command;
use fleet_wire::api::{Act, ApiError, Code, DecideMany, Decided, HostsQuery};
use fleet_wire::text;
use fleet_wire::words::{effects, host, written};

use super::access::{FormFields, Posted};
use super::directives::DirectiveAction;
use super::page::{PageResult, frame, page, refuse};
use super::session::Session;
use super::wanted::FormAction;
use crate::app::App;
use crate::core::release::{self, NextRelease};
use crate::core::{Actor, Tx, commands, hosts, many, rollouts};

/// `/confirm`: says what would happen. Nothing changes.
pub(super) async fn confirm(State(app): State<App>, Posted { session, fields }: Posted) -> PageResult {
    session.needs(&app, FormAction::needs(&fields), "POST /confirm").await?;
    let refused = |wrong| refuse(&app, Some(&session), wrong, &FormAction::back(&fields));
    let asked = shown(&app, &session, &fields).await.map_err(refused)?;
    Ok(page(StatusCode::OK, &ConfirmPage { frame: frame(&app, Some(&session)), asked }))
}

/// What would happen.
///
/// # Errors
/// Why nothing would.
pub(super) async fn shown(app: &App, session: &Session, fields: &FormFields) -> Result<Confirm, ApiError> {
    let wanted = FormAction::read(fields)?;
    // The request's id is that of the second form: sent twice, it acts once.
    let id = uuid::Uuid::new_v4().to_string();
    let (actor, command) = (session.actor.clone(), wanted.clone());
    let tried = app.core.run(move |tx| Ok((rollouts::number(tx), tried(tx, &actor, command)?)));
    let (number, Tried { host, groups, touches, more }) = tried.await?;
    let mut sent = FormAction::fields(fields);
    sent.extend([("id", id), ("rollout", number.to_string())]);
    sent.extend(more);
    Ok(Confirm {
        title: wanted.title(&host),
        means: wanted.means().to_owned(),
        groups,
        touches,
        fields: sent,
        is_stop: wanted.is_stop(),
        is_urgent: wanted.is_halt(),
        back: FormAction::back(fields),
    })
}

/// What an action would do: to which host or groups, to how many hosts, and what its form sends besides.
#[derive(Default)]
struct Tried {
    host: String,
    groups: Vec<String>,
    touches: Vec<String>,
    more: Option<(&'static str, String)>,
}

fn tried(tx: &mut Tx<'_>, actor: &Actor, wanted: FormAction) -> Result<Tried, ApiError> {
    let id = uuid::Uuid::new_v4().to_string();
    match wanted {
        FormAction::Host(host, _) => {
            Ok(Tried { host: hosts::name(tx, host), touches: vec![text::hosts(1)], ..Tried::default() })
        }
        FormAction::Many(hosts, decision, _) => {
            let asked = DecideMany { id, hosts: *hosts, decision, dry_run: true, shown: None };
            let many = many::decide(tx, actor, &asked)?;
            Ok(Tried { touches: vec![host::touched(&many)], more: Some(("shown", many.shown)), ..Tried::default() })
        }
        FormAction::Release(release) => {
            let release = NextRelease { revision: release::revision(tx), ..release };
            let written = release::write(tx, actor, &release, (id, true))?;
            let touches = written::lines(&written, true, |_| None);
            Ok(Tried { touches, more: Some(("revision", release.revision)), ..Tried::default() })
        }
        FormAction::Directive(action) => Ok(Tried { touches: action.tried(tx, actor, id)?, ..Tried::default() }),
        FormAction::Command(command) => {
            let is_approval = matches!(command, Command::Approve { digest: None, .. });
            let acted = commands::act(tx, actor, &Act { id, command, dry_run: true })?;
            let seen = acted.rollout.iter().flat_map(|rollout| &rollout.status.groups);
            let mut seen = seen.filter(|group| is_approval && acted.groups.contains(&group.name));
            let digest = seen.find_map(|group| group.approval_digest.clone());
            let touches = vec![effects::effects(&acted.effects)];
            let more = digest.map(|digest| ("digest", digest));
            Ok(Tried { groups: acted.groups, touches, more, ..Tried::default() })
        }
    }
}

/// `/act`: does it, as the API would.
pub(super) async fn act(State(app): State<App>, Posted { session, fields }: Posted) -> PageResult {
    session.needs(&app, FormAction::needs(&fields), "POST /act").await?;
    let back = FormAction::back(&fields);
    let refused = |wrong| refuse(&app, Some(&session), wrong, &back);
    let wanted = FormAction::read(&fields).map_err(refused)?;
    let (id, number, actor) = (fields.get("id").to_owned(), fields.get("rollout").to_owned(), session.actor.clone());
    let next = match &wanted {
        // A plan has the id of the request that made it.
        FormAction::Directive(DirectiveAction::Plan(_)) => format!("/version-control/{id}"),
        _ => back.clone(),
    };
    let done = app.core.run(move |tx| carry_out(tx, &actor, &wanted, id, &number)).await;
    let (sentence, touched) = done.map_err(refused)?;
    Ok(page(StatusCode::OK, &Done { frame: frame(&app, Some(&session)), sentence, touched, back: next }))
}

/// What was done, and what it did to hosts.
fn carry_out(
    tx: &mut Tx<'_>,
    actor: &Actor,
    wanted: &FormAction,
    id: String,
    number: &str,
) -> Result<(String, String), ApiError> {
    if !wanted.holds_for_every_rollout() && number != rollouts::number(tx).to_string() {
        let message = "another rollout began since this was asked: look at it first";
        return Err(tx.refuse(actor, "request", "POST /act", ApiError::new(Code::Conflict, message)));
    }
    match wanted {
        FormAction::Command(command) => {
            let acted = commands::act(tx, actor, &Act { id, command: command.clone(), dry_run: false })?;
            Ok((effects::done(command, &acted), effects::effects(&acted.effects)))
        }
        FormAction::Release(release) => {
            let written = release::write(tx, actor, release, (id, false))?;
            Ok((format!("{}: done.", wanted.title("")), effects::effects(&written.effects)))
        }
        FormAction::Directive(action) => action.carry_out(tx, actor, id),
        FormAction::Host(host, decision) => {
            hosts::decide(tx, actor, *host, &Decided { id, decision: decision.clone() })?;
            Ok((format!("{}: done.", wanted.title(&hosts::name(tx, *host))), String::new()))
        }
        FormAction::Many(hosts, decision, shown) => {
            // What was not shown is nobody's wish.
            let shown = Some(shown.clone().unwrap_or_default());
            let (hosts, decision) = (HostsQuery::clone(hosts), decision.clone());
            let asked = DecideMany { id, hosts, decision, dry_run: false, shown };
            let done = many::decide(tx, actor, &asked)?;
            Ok((host::decided(&asked.decision, &done), String::new()))
        }
    }
}
