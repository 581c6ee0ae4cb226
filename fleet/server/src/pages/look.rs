//! Pages that look.

use std::collections::BTreeMap;

use crate::views::audit::{AuditLogPage, AuditRow};
use crate::views::curve::Drawing;
use crate::views::frame::Frame;
use crate::views::group::GroupPage;
use crate::views::host::HostPage;
use crate::views::hosts::HostsPage;
use crate::views::rollout::RolloutPage;
use crate::views::rollouts::{self, PastRollout, RolloutsPage};
use crate::views::versions::VersionsPage;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri};
use fleet_engine::curve::VersionCurve;
use fleet_engine::host::HostId;
use fleet_wire::answers::ids;
use fleet_wire::api::{ApiError, AuditEntry, Code, HostsQuery, ReportedChange};
use fleet_wire::rollout::StopsAlone;
use fleet_wire::words::reported;
use jiff::{SignedDuration, Timestamp};

use super::page::{PageResult, asked, frame, nothing, page, refuse};
use super::session::Session;
use crate::app::App;
use crate::clock;
use crate::core;
use crate::past::{self, past, with_history};

/// Records of a page.
const RECORDS: u32 = 50;
/// How far back versions are shown.
const SHOWN: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The kinds of resources that say who runs what.
const KINDS: [&str; 5] =
    ["autoupdate_version", "autoupdate_config", "cluster_maintenance_config", "fleet_release", "fleet_channel"];

/// `/`.
pub(super) async fn rollout(session: Session, State(app): State<App>) -> PageResult {
    let known = app.core.run(|tx| {
        let rollout = core::rollouts::present(tx);
        let summary = core::rollouts::summary(tx, rollout.as_ref());
        Ok((rollout, summary, core::rollouts::stops(tx), core::hosts::known(tx)))
    });
    let (rollout, summary, StopsAlone { holds, needs, .. }, hosts) =
        known.await.map_err(|wrong| refuse(&app, Some(&session), wrong, "/"))?;
    let frame = Frame { summary: Some(summary), ..frame(&app, Some(&session)) };
    Ok(page(StatusCode::OK, &RolloutPage { frame, rollout, holds, needs, hosts, servers: app.servers.all() }))
}

/// `/groups/NAME`.
pub(super) async fn group(session: Session, State(app): State<App>, Path(name): Path<String>) -> PageResult {
    let refused = |wrong| refuse(&app, Some(&session), wrong, "/");
    let wanted = name.clone();
    let known = app.core.run(move |tx| {
        let rollout = core::rollouts::present(tx);
        let summary = core::rollouts::summary(tx, rollout.as_ref());
        Ok((rollout, summary, core::rollouts::group_look(tx, &wanted)))
    });
    let (rollout, summary, look) = known.await.map_err(refused)?;
    let history = about(&app, vec![format!("group {name}"), "all groups".to_owned()]).await.map_err(refused)?;
    let rollout = rollout.unwrap_or_default();
    let (failures, curve) = look.map_or_else(Default::default, |look| (look.failures, look.curve));
    let frame = Frame { summary: Some(summary), ..frame(&app, Some(&session)) };
    let group = GroupPage::of(frame, &rollout, &name, failures, curve.as_ref(), &history);
    let none = || refused(ApiError::new(Code::NotFound, format!("the rollout has no group {name:?}")));
    group.map(|group| page(StatusCode::OK, &group)).ok_or_else(none)
}

/// `/hosts`. What a form sends empty does not matter.
pub(super) async fn hosts(session: Session, State(app): State<App>, uri: Uri) -> PageResult {
    let refused = |wrong| refuse(&app, Some(&session), wrong, "/hosts");
    let query = Query::<HostsQuery>::try_from_uri(&uri);
    let Query(query) = query.map_err(|error| refused(ApiError::new(Code::BadRequest, error.body_text())))?;
    let query = HostsQuery { by_name: true, ..said(query) };
    let wanted = query.clone();
    let found = app.core.run(move |tx| Ok((core::hosts::list(tx, &wanted)?, core::rollouts::group_names(tx)))).await;
    let (found, groups) = found.map_err(refused)?;
    Ok(page(StatusCode::OK, &HostsPage { frame: frame(&app, Some(&session)), query, found, groups }))
}

fn said(query: HostsQuery) -> HostsQuery {
    let said = |part: Option<String>| part.filter(|part| !part.trim().is_empty());
    HostsQuery {
        group: said(query.group),
        state: said(query.state),
        version: said(query.version).map(|version| version.trim().to_owned()),
        search: said(query.search).map(|search| search.trim().to_owned()),
        label: said(query.label),
        after: said(query.after),
        ..query
    }
}

/// `/hosts/UUID`.
pub(super) async fn host(session: Session, State(app): State<App>, Path(id): Path<String>) -> PageResult {
    let refused = |wrong| refuse(&app, Some(&session), wrong, "/hosts");
    let none = || refused(ApiError::new(Code::BadRequest, format!("{id:?} is no UUID of a host")));
    let host = ids::uuid(&id).ok_or_else(none)?;
    let known = app.core.run(move |tx| Ok((core::hosts::explain(tx, host), core::rollouts::group_names(tx)))).await;
    let (explained, groups) = known.map_err(refused)?;
    let explained = match explained {
        Ok(explained) => Ok(with_history(&app, host, explained).await.map_err(refused)?),
        Err(wrong) => Err(wrong.message),
    };
    let id = ids::text(host);
    let history = about(&app, vec![format!("host {id}")]).await.map_err(refused)?;
    Ok(page(StatusCode::OK, &HostPage { frame: frame(&app, Some(&session)), id, explained, groups, history }))
}

/// `/versions`.
pub(super) async fn versions(session: Session, State(app): State<App>) -> PageResult {
    let known = app.core.run(|tx| {
        // Of a kind of which there can be one, that there is none is an error.
        let kept = KINDS.iter().flat_map(|kind| core::resources::list(tx, kind, None).unwrap_or_default()).collect();
        Ok((core::counts::counts(tx), core::rollouts::group_names(tx), kept))
    });
    let (counts, groups, kept) = known.await.map_err(|wrong| refuse(&app, Some(&session), wrong, "/"))?;
    let now = clock::now();
    let changes = past(&app, move |reader| reader.version_changes(now.saturating_sub(SHOWN).unwrap_or(now))).await;
    let changes = changes.map_err(|wrong| refuse(&app, Some(&session), wrong, "/"))?;
    let mut by_version = BTreeMap::new();
    counts.counts.iter().for_each(|row| *by_version.entry(row.version.clone()).or_default() += row.count);
    let drawing = Drawing::of_versions(&VersionCurve::of(&by_version, &changes, now));
    Ok(page(StatusCode::OK, &VersionsPage { frame: frame(&app, Some(&session)), counts, drawing, groups, kept }))
}

/// `/audit`.
pub(super) async fn audit(session: Session, State(app): State<App>, uri: Uri) -> PageResult {
    let before = before(&uri).map_err(|_| nothing(&app, Some(&session)))?;
    let read = past(&app, move |reader| {
        let entries = reader.latest(before, None, RECORDS + 1)?;
        // A walk through all of it: once, not with each page after the first.
        let verified = before.is_none().then(|| reader.verify(None)).transpose()?;
        Ok((entries, verified))
    });
    let (mut entries, verified) = read.await.map_err(|wrong| refuse(&app, Some(&session), wrong, "/"))?;
    let has_more = cut(&mut entries);
    let next = entries.last().filter(|_| has_more).map(|entry| entry.seq);
    let lines = entries.iter().map(AuditRow::of).collect();
    let frame = frame(&app, Some(&session));
    Ok(page(StatusCode::OK, &AuditLogPage { frame, lines, next, verified, is_first: before.is_none() }))
}

/// `/rollouts`.
pub(super) async fn rollouts(session: Session, State(app): State<App>, uri: Uri) -> PageResult {
    let before = before(&uri).map_err(|_| nothing(&app, Some(&session)))?;
    let found = past::rollouts(&app, before, RECORDS + 1).await;
    let mut found = found.map_err(|wrong| refuse(&app, Some(&session), wrong, "/"))?;
    let has_more = cut(&mut found);
    let lines: Vec<_> = found.iter().map(|(shown, ended)| rollouts::RolloutRow::of(shown, *ended)).collect();
    let next = lines.last().filter(|_| has_more).map(|line| line.number);
    let frame = frame(&app, Some(&session));
    Ok(page(StatusCode::OK, &RolloutsPage { frame, lines, next, is_first: before.is_none() }))
}

/// `/rollouts/NUMBER`.
pub(super) async fn past_rollout(session: Session, State(app): State<App>, Path(number): Path<String>) -> PageResult {
    let refused = |wrong| refuse(&app, Some(&session), wrong, "/rollouts");
    let none = || refused(ApiError::new(Code::NotFound, format!("there was no rollout {number:?}")));
    let before = number.parse::<u64>().ok().and_then(|number| number.checked_add(1)).ok_or_else(none)?;
    let found = past::rollouts(&app, Some(before), 1).await.map_err(refused)?;
    let row = found.first().map(|(shown, ended)| rollouts::RolloutRow::of(shown, *ended));
    let row = row.filter(|row| row.number + 1 == before).ok_or_else(none)?;
    let now = clock::now();
    // Its last second is among it.
    let end = |at: Timestamp| at.saturating_add(SignedDuration::from_secs(1)).unwrap_or(at);
    let within = (row.began.parse().unwrap_or(now), row.ended.parse().map_or(now, end));
    let target = row.rollout.spec.target_version.clone();
    let read = past(&app, move |reader| {
        Ok((reader.failures(&target, within, RECORDS + 1)?, reader.of_rollout(within, RECORDS)?))
    });
    let (mut failures, records) = read.await.map_err(refused)?;
    let has_more = cut(&mut failures);
    let named = app.core.run(move |tx| {
        let said = |(host, reported, json): (HostId, Timestamp, String)| {
            let change = ReportedChange { change: serde_json::from_str(&json).unwrap_or_default(), reported };
            (ids::text(host), core::hosts::name(tx, host), reported::change(&change))
        };
        Ok(failures.into_iter().map(said).collect())
    });
    let failures = named.await.map_err(refused)?;
    let records = records.iter().map(AuditRow::of).collect();
    let frame = frame(&app, Some(&session));
    Ok(page(StatusCode::OK, &PastRollout { frame, row, failures, has_more, records }))
}

/// The number before which a page begins; `None`: it is the first.
fn before(uri: &Uri) -> Result<Option<u64>, std::num::ParseIntError> {
    asked(uri, "before").map(|value| value.parse()).transpose()
}

/// The newest records about one of `subjects`, among the newest of all.
async fn about(app: &App, subjects: Vec<String>) -> Result<Vec<AuditEntry>, ApiError> {
    let read = past(app, move |reader| {
        let mut found = Vec::new();
        for subject in &subjects {
            found.extend(reader.latest(None, Some(subject), RECORDS)?);
        }
        Ok(found)
    });
    let mut found = read.await?;
    found.sort_by_key(|entry| std::cmp::Reverse(entry.seq));
    cut(&mut found);
    Ok(found)
}

/// Leaves what a page has of it; whether there was more.
fn cut<T>(found: &mut Vec<T>) -> bool {
    let most = usize::try_from(RECORDS).unwrap_or(usize::MAX);
    let has_more = found.len() > most;
    found.truncate(most);
    has_more
}
