//! Pages that look.

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use fleet_answers::ids;
use fleet_api::{Code, Entry, HostsQuery, Wrong};
use fleet_pages::audit::{Audit, Line};
use fleet_pages::group::Group;
use fleet_pages::host::Host;
use fleet_pages::hosts::Hosts;
use fleet_pages::rollout::Rollout;
use fleet_pages::rollouts::{self, Rollouts};
use fleet_pages::versions::Versions;
use fleet_words::rollout as words;

use super::page::{frame, nothing, page, refuse};
use super::session::Session;
use crate::app::App;
use crate::past::{self, past, with_history};

/// Records of a page.
const RECORDS: u32 = 50;
/// The kinds of resources that say who runs what.
const KINDS: [&str; 5] =
    ["autoupdate_version", "autoupdate_config", "cluster_maintenance_config", "fleet_release", "fleet_channel"];

/// `/`.
pub(super) async fn rollout(session: Session, State(app): State<App>) -> Response {
    let known = app.core.run(|keeper| Ok((keeper.present(), keeper.holds(), keeper.known()))).await;
    let (rollout, holds, hosts) = match known {
        Ok(known) => known,
        Err(wrong) => return refuse(&app, Some(&session), wrong, "/"),
    };
    let rollout = rollout.as_ref().map(words::Rollout::read);
    page(StatusCode::OK, &Rollout { frame: frame(&app, Some(&session)), rollout, holds, hosts })
}

/// `/groups/NAME`.
pub(super) async fn group(session: Session, State(app): State<App>, Path(name): Path<String>) -> Response {
    let wanted = name.clone();
    let known = app.core.run(move |keeper| Ok((keeper.present(), keeper.group_look(&wanted)))).await;
    let (rollout, look) = match known {
        Ok(known) => known,
        Err(wrong) => return refuse(&app, Some(&session), wrong, "/"),
    };
    let history = match about(&app, vec![format!("group {name}"), "all groups".to_owned()]).await {
        Ok(history) => history,
        Err(wrong) => return refuse(&app, Some(&session), wrong, "/"),
    };
    let rollout = rollout.as_ref().map(words::Rollout::read).unwrap_or_default();
    let (failures, curve) = look.map_or_else(Default::default, |look| (look.failures, look.curve));
    match Group::of(frame(&app, Some(&session)), &rollout, &name, failures, curve.as_ref(), &history) {
        Some(group) => page(StatusCode::OK, &group),
        None => {
            let message = format!("the rollout has no group {name:?}");
            refuse(&app, Some(&session), Wrong::new(Code::NotFound, message), "/")
        }
    }
}

/// `/hosts`. What a form sends empty does not matter.
pub(super) async fn hosts(session: Session, State(app): State<App>, uri: Uri) -> Response {
    let query = match Query::<HostsQuery>::try_from_uri(&uri) {
        Ok(Query(query)) => said(query),
        Err(error) => {
            return refuse(&app, Some(&session), Wrong::new(Code::BadRequest, error.body_text()), "/hosts");
        }
    };
    let wanted = query.clone();
    let found = app
        .core
        .run(move |keeper| Ok((keeper.hosts(&wanted)?, keeper.group_names().map(str::to_owned).collect::<Vec<_>>())))
        .await;
    match found {
        Ok((found, groups)) => {
            page(StatusCode::OK, &Hosts { frame: frame(&app, Some(&session)), query, found, groups })
        }
        Err(wrong) => refuse(&app, Some(&session), wrong, "/hosts"),
    }
}

fn said(query: HostsQuery) -> HostsQuery {
    let said = |part: Option<String>| part.filter(|part| !part.trim().is_empty());
    HostsQuery {
        group: said(query.group),
        state: said(query.state),
        version: said(query.version).map(|version| version.trim().to_owned()),
        after: said(query.after),
        ..query
    }
}

/// `/hosts/UUID`.
pub(super) async fn host(session: Session, State(app): State<App>, Path(id): Path<String>) -> Response {
    let Some(host) = ids::uuid(&id) else {
        let message = format!("{id:?} is no UUID of a host");
        return refuse(&app, Some(&session), Wrong::new(Code::BadRequest, message), "/hosts");
    };
    let known = app
        .core
        .run(move |keeper| Ok((keeper.explain(host), keeper.group_names().map(str::to_owned).collect::<Vec<_>>())))
        .await;
    let (explained, groups) = match known {
        Ok((Ok(explained), groups)) => match with_history(&app, host, explained).await {
            Ok(explained) => (Ok(explained), groups),
            Err(failure) => return refuse(&app, Some(&session), failure.wrong(), "/hosts"),
        },
        Ok((Err(wrong), groups)) => (Err(wrong.message), groups),
        Err(wrong) => return refuse(&app, Some(&session), wrong, "/hosts"),
    };
    let id = ids::text(host);
    match about(&app, vec![format!("host {id}")]).await {
        Ok(history) => {
            page(StatusCode::OK, &Host { frame: frame(&app, Some(&session)), id, explained, groups, history })
        }
        Err(wrong) => refuse(&app, Some(&session), wrong, "/hosts"),
    }
}

/// `/versions`.
pub(super) async fn versions(session: Session, State(app): State<App>) -> Response {
    let known = app.core.run(|keeper| {
        // Of a kind of which there can be one, that there is none is an error.
        let kept = KINDS.iter().flat_map(|kind| keeper.kept(kind, None).unwrap_or_default()).collect();
        Ok((keeper.counts(), kept))
    });
    match known.await {
        Ok((counts, kept)) => page(StatusCode::OK, &Versions { frame: frame(&app, Some(&session)), counts, kept }),
        Err(wrong) => refuse(&app, Some(&session), wrong, "/"),
    }
}

/// `/audit`.
pub(super) async fn audit(session: Session, State(app): State<App>, uri: Uri) -> Response {
    let Ok(before) = before(&uri) else { return nothing(&app, Some(&session)) };
    let read = past(&app, move |reader| {
        let entries = reader.latest(before, None, RECORDS + 1)?;
        // A walk through all of it: once, not with each page after the first.
        let verified = before.is_none().then(|| reader.verify(None)).transpose()?;
        Ok((entries, verified))
    });
    let (mut entries, verified) = match read.await {
        Ok(read) => read,
        Err(failure) => return refuse(&app, Some(&session), failure.wrong(), "/"),
    };
    let most = usize::try_from(RECORDS).unwrap_or(usize::MAX);
    let has_more = entries.len() > most;
    entries.truncate(most);
    let next = entries.last().filter(|_| has_more).map(|entry| entry.seq);
    let lines = entries.iter().map(Line::of).collect();
    let frame = frame(&app, Some(&session));
    page(StatusCode::OK, &Audit { frame, lines, next, verified, is_first: before.is_none() })
}

/// `/rollouts`.
pub(super) async fn rollouts(session: Session, State(app): State<App>, uri: Uri) -> Response {
    let Ok(before) = before(&uri) else { return nothing(&app, Some(&session)) };
    let found = match past::rollouts(&app, before, RECORDS + 1).await {
        Ok(found) => found,
        Err(failure) => return refuse(&app, Some(&session), failure.wrong(), "/"),
    };
    let most = usize::try_from(RECORDS).unwrap_or(usize::MAX);
    let has_more = found.len() > most;
    let lines: Vec<_> = found.iter().take(most).map(|(shown, ended)| rollouts::Line::of(shown, *ended)).collect();
    let next = lines.last().filter(|_| has_more).map(|line| line.number);
    let frame = frame(&app, Some(&session));
    page(StatusCode::OK, &Rollouts { frame, lines, next, is_first: before.is_none() })
}

/// The number before which a page begins; `None`: it is the first.
fn before(uri: &Uri) -> Result<Option<u64>, std::num::ParseIntError> {
    let mut query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    query.find(|(name, _)| name == "before").map(|(_, value)| value.parse()).transpose()
}

/// The newest records about one of `subjects`, among the newest of all.
async fn about(app: &App, subjects: Vec<String>) -> Result<Vec<Entry>, Wrong> {
    let read = past(app, move |reader| {
        let mut found = Vec::new();
        for subject in &subjects {
            found.extend(reader.latest(None, Some(subject), RECORDS)?);
        }
        Ok(found)
    });
    let mut found = read.await.map_err(|failure| failure.wrong())?;
    found.sort_by_key(|entry| std::cmp::Reverse(entry.seq));
    found.truncate(usize::try_from(RECORDS).unwrap_or(usize::MAX));
    Ok(found)
}
