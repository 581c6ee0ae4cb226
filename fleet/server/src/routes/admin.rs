//! The admin API, below `/v1/fleet/`. The words are those of `fleet_wire::api`.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use fleet_engine::host::HostId;
use fleet_wire::answers::ids;
use fleet_wire::api::{
    ApiError, AuditEntry, AuditPage, AuditRange, Code, Decided, Explained, HostsQuery, KnownHead, Removal,
    RolloutsQuery, TokenRemoval, Verified, Write, WriteResult,
};
use fleet_wire::rollout::AgentRollout;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::request::{
    ADMIN, Admin, Answering, ApiBody, ApiPath, ApiQuery, ApiResult, Lister, MAX_BODY, OPERATOR, Operator, VIEWER,
    Viewer, bad, change, look,
};
use crate::app::App;
use crate::core::resources::MAX_TEXT;
use crate::core::{Actor, Tx, commands, counts, hosts, many, resources, rollouts, tokens, version_control};
use crate::failure::ApiFailure;
use crate::past::{self, past, with_history};

/// Records of a page where the question does not say.
const PAGE: u32 = 100;
/// Hex digits of a record's hash.
const HASH: usize = 64;
/// Most records of a page.
const MAX_PAGE: u32 = 1000;
/// Bytes of a copy that are read at once.
const CHUNK: usize = 256 << 10;
/// Events that a reader may be behind before he is cut off.
const BEHIND: usize = 256;

/// The routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/fleet/resources", post(write))
        .route("/v1/fleet/resources/{kind}", get(list).delete(remove))
        .route("/v1/fleet/resources/{kind}/{*name}", get(list).delete(remove))
        .route("/v1/fleet/rollout", get(look::<VIEWER, _>(rollouts::rollout)))
        .route("/v1/fleet/holds", get(look::<VIEWER, _>(|tx| Ok(rollouts::stops(tx)))))
        .route("/v1/fleet/rollouts", get(rollouts))
        .route("/v1/fleet/counts", get(look::<VIEWER, _>(|tx| Ok(counts::counts(tx)))))
        .route("/v1/fleet/version-control", get(look::<VIEWER, _>(|tx| Ok(version_control::status(tx)))))
        .route("/v1/fleet/commands", post(change::<OPERATOR, _, _>(commands::act)))
        .route("/v1/fleet/hosts", get(hosts).post(change::<OPERATOR, _, _>(many::decide)))
        .route("/v1/fleet/hosts/{id}", get(explain).post(decide))
        .route("/v1/fleet/audit", get(audit))
        .route("/v1/fleet/audit/verify", get(verify))
        .route("/v1/fleet/events", get(events))
        .route("/v1/fleet/backup", get(backup))
        .route("/v1/fleet/doctor", get(doctor))
        .route(
            "/v1/fleet/tokens",
            get(look::<ADMIN, _>(|tx| Ok(tokens::list(tx)))).post(change::<ADMIN, _, _>(tokens::make)),
        )
        .route("/v1/fleet/tokens/{name}", delete(removal(tokens::remove)))
        .route(
            "/v1/fleet/join-tokens",
            get(look::<ADMIN, _>(|tx| Ok(tokens::list_join(tx)))).post(change::<ADMIN, _, _>(tokens::make_join)),
        )
        .route("/v1/fleet/join-tokens/{name}", delete(removal(tokens::remove_join)))
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
}

fn host(text: &str) -> Result<HostId, ApiFailure> {
    ids::uuid(text).ok_or_else(|| bad(format!("{text:?} is no UUID of a host")))
}

/// What a path names.
#[derive(Deserialize)]
struct ResourcePath {
    kind: String,
    name: Option<String>,
}

async fn list(
    _: Viewer,
    State(app): State<App>,
    ApiPath(ResourcePath { kind, name }): ApiPath<ResourcePath>,
) -> impl IntoResponse {
    app.answer(move |tx| resources::list(tx, &kind, name.as_deref())).await
}

async fn write(
    Operator { actor, .. }: Operator,
    State(app): State<App>,
    ApiBody(write): ApiBody<Write>,
) -> ApiResult<WriteResult> {
    if write.text.len() > MAX_TEXT {
        return Err(ApiError::new(Code::TooLarge, format!("the resources are larger than {MAX_TEXT} bytes")).into());
    }
    app.answer(move |tx| resources::write(tx, &actor, &write)).await
}

async fn remove(
    Operator { actor, .. }: Operator,
    State(app): State<App>,
    ApiPath(ResourcePath { kind, name }): ApiPath<ResourcePath>,
    ApiQuery(Removal { id, dry_run }): ApiQuery<Removal>,
) -> impl IntoResponse {
    let name = name.unwrap_or_default();
    app.answer(move |tx| resources::remove(tx, &actor, &id, (&kind, &name), dry_run)).await
}

/// The present rollout, and past ones as they were last, the newest first.
async fn rollouts(
    _: Viewer,
    State(app): State<App>,
    ApiQuery(RolloutsQuery { before, limit }): ApiQuery<RolloutsQuery>,
) -> ApiResult<Vec<AgentRollout>> {
    let limit = limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let found = past::rollouts(&app, before, limit).await?;
    Ok(Json(found.into_iter().map(|(shown, _)| shown).collect()))
}

async fn hosts(_: Lister, State(app): State<App>, ApiQuery(query): ApiQuery<HostsQuery>) -> impl IntoResponse {
    app.answer(move |tx| hosts::list(tx, &query)).await
}

async fn explain(_: Viewer, State(app): State<App>, ApiPath(id): ApiPath<String>) -> ApiResult<Explained> {
    let id = host(&id)?;
    let explained = app.core.run(move |tx| hosts::explain(tx, id)).await?;
    Ok(Json(with_history(&app, id, explained).await?))
}

async fn decide(
    Operator { actor, .. }: Operator,
    State(app): State<App>,
    ApiPath(id): ApiPath<String>,
    ApiBody(decided): ApiBody<Decided>,
) -> ApiResult<Explained> {
    let id = host(&id)?;
    let explained = app.core.run(move |tx| hosts::decide(tx, &actor, id, &decided)).await?;
    Ok(Json(with_history(&app, id, explained).await?))
}

async fn audit(_: Viewer, State(app): State<App>, ApiQuery(part): ApiQuery<AuditRange>) -> ApiResult<AuditPage> {
    let limit = part.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let mut entries = past(&app, move |reader| reader.audit(part.after, limit + 1)).await?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = entries.len() > most;
    entries.truncate(most);
    Ok(Json(AuditPage { entries, more }))
}

async fn verify(_: Viewer, State(app): State<App>, ApiQuery(known): ApiQuery<KnownHead>) -> ApiResult<Verified> {
    let is_hash = |head: &String| head.len() == HASH && head.bytes().all(|byte| byte.is_ascii_hexdigit());
    if known.head.as_ref().is_some_and(|head| !is_hash(head)) {
        return Err(
            ApiError::new(Code::BadRequest, format!("head is not the {HASH} hex digits of a record's hash")).into()
        );
    }
    let head = known.head.map(|head| head.to_ascii_lowercase());
    Ok(Json(past(&app, move |reader| reader.verify(head.as_deref())).await?))
}

/// Records, a line each; with `follow` also those to come.
async fn events(
    viewer: Viewer,
    State(app): State<App>,
    ApiQuery(part): ApiQuery<AuditRange>,
) -> Result<Response, ApiFailure> {
    let place = app.load.stream(&viewer.actor.who)?;
    // First the ear, then the past: nothing falls between them.
    let mut to_come = app.core.events();
    let limit = part.limit.unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE);
    // Behind a number that is not there yet stands what comes.
    let after = past(&app, move |reader| Ok(reader.head()?.seq.min(part.after))).await?;
    let first = past(&app, move |reader| reader.audit(after, limit)).await?;
    let mut ending = app.ending.clone();
    let (lines, body) = mpsc::channel::<Result<Bytes, std::convert::Infallible>>(BEHIND);
    tokio::spawn(async move {
        let _place = place;
        let (mut last, mut page) = (after, first);
        // A long past comes in pages; a question that does not follow gets the first.
        while !page.is_empty() {
            for entry in page {
                last = entry.seq;
                if lines.send(Ok(line(&entry))).await.is_err() {
                    return;
                }
            }
            let read = past(&app, move |reader| reader.audit(last, limit));
            page = if part.follow { read.await.unwrap_or_default() } else { Vec::new() };
        }
        if !part.follow {
            return;
        }
        loop {
            let entry = tokio::select! {
                entry = to_come.recv() => entry,
                () = lines.closed() => return,
                _ = ending.wait_for(|is_ending| *is_ending) => return,
            };
            match entry {
                Ok(entry) if entry.seq <= last => {}
                Ok(entry) => {
                    last = entry.seq;
                    if lines.send(Ok(line(&entry))).await.is_err() {
                        return;
                    }
                }
                // Too slow: the reader asks again, from the last that it has.
                Err(RecvError::Lagged(_) | RecvError::Closed) => return,
            }
        }
    });
    let stream = tokio_stream::wrappers::ReceiverStream::new(body);
    Ok(([(header::CONTENT_TYPE, "application/jsonl")], Body::from_stream(stream)).into_response())
}

fn line(entry: &AuditEntry) -> Bytes {
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

/// What is found in the data, which nobody else can read.
async fn doctor(_: Admin, State(app): State<App>) -> ApiResult<Vec<fleet_store::Finding>> {
    let look = move || fleet_store::doctor(&app.store, || None);
    let found = tokio::task::spawn_blocking(look).await;
    Ok(Json(found.map_err(|error| ApiError::new(Code::Internal, error.to_string()))?))
}

/// A copy of the data, as it is at this time. It is made beside the data, and removed once it was read.
async fn backup(_: Admin, State(app): State<App>) -> Result<Response, ApiFailure> {
    let failed = |message: String| ApiFailure::from(ApiError::new(Code::StoreUnavailable, message));
    let made = tokio::task::spawn_blocking(move || copy(&app.store)).await;
    let file = made.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    let (chunks, body) = mpsc::channel::<std::io::Result<Bytes>>(2);
    tokio::task::spawn_blocking(move || read_whole(file, &chunks));
    let stream = tokio_stream::wrappers::ReceiverStream::new(body);
    Ok(([(header::CONTENT_TYPE, "application/vnd.sqlite3")], Body::from_stream(stream)).into_response())
}

/// A copy without a name: it is gone when it is closed, also by a kill.
#[allow(clippy::disallowed_methods, reason = "a file of this request alone: it need not be durable")]
fn copy(store: &fleet_store::StorePlace) -> Result<std::fs::File, String> {
    let data = store.in_file().map_err(|error| error.to_string())?;
    let path = data.join(format!(".backup-{}", uuid::Uuid::new_v4()));
    let made = fleet_store::backup(data, &path).map_err(|error| error.to_string());
    let opened = made.and_then(|()| std::fs::File::open(&path).map_err(|error| format!("the copy: {error}")));
    let removed = std::fs::remove_file(&path);
    let file = opened?;
    removed.map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
    Ok(file)
}

fn read_whole(mut file: std::fs::File, chunks: &mpsc::Sender<std::io::Result<Bytes>>) {
    use std::io::Read;
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = match file.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => Ok(Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default())),
            Err(error) => Err(error),
        };
        // Whoever asked may have left.
        if chunks.blocking_send(chunk).is_err() {
            return;
        }
    }
}

/// Removes a token; `remove` gets the request's id and the name.
fn removal(
    remove: fn(&mut Tx<'_>, &Actor, &str, &str) -> Result<(), ApiError>,
) -> impl Fn(Admin, State<App>, ApiPath<String>, ApiQuery<TokenRemoval>) -> Answering<Value> + Clone {
    move |Admin { actor, .. }, State(app), ApiPath(name), ApiQuery(TokenRemoval { id })| {
        Box::pin(async move { app.answer(move |tx| remove(tx, &actor, &id, &name).map(|()| json!({}))).await })
    }
}
