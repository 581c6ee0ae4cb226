//! What anybody may ask: find, channels, schedules, graphs, the install script (FLEET §4).

use std::convert::Infallible;

use axum::Router;
use axum::extract::{FromRequestParts, OriginalUri, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fleet_engine::answer::{HostAnswer, Question};
use fleet_engine::names::NameTable;
use fleet_engine::reason::Why;
use fleet_engine::resource::ChannelSource;
use fleet_wire::answers::channel::{self, Style, Verb};
use fleet_wire::answers::find::{self, FindQuestion, Form};
use fleet_wire::answers::graph::{self, Catalogue};
use fleet_wire::answers::{Reply, schedule};
use fleet_wire::api::Code;
use protocol::report::{QUESTION_HEADER, SignedQuestion};

use super::reply::{HttpReply, not_found};
use super::report::only;
use crate::app::App;
use crate::clock;
use crate::failure::ApiFailure;

/// Where proxies have their channels.
const WEBAPI_CHANNELS: &str = "/webapi/automaticupgrades/channel/";
/// Where static files of channels are.
const V1: &str = "/v1/";

/// The routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/webapi/find", get(async |app, query, signed| answer(Form::Flat, app, query, signed)))
        .route("/webapi/find", get(async |app, query, signed| answer(Form::Nested, app, query, signed)))
        .route("/webapi/ping", get(async |app, query, signed| answer(Form::Ping, app, query, signed)))
        .route("/v1/maintenance-schedule", get(maintenance_schedule))
        .route("/v1/graph", get(update_graph))
        .route("/api/upgrades_info/v1/graph", get(update_graph))
        .route("/scripts/install.sh", get(install_script))
        .route("/tuf/metadata/{file}", get(tuf_metadata))
        .route("/v1/{*channel}", get(v1_channel))
        .route("/webapi/automaticupgrades/channel/{*channel}", get(webapi_channel))
}

/// How a host that enrolled signs its question; what is no signature counts as none.
struct QuestionSignature(Option<SignedQuestion>);

impl FromRequestParts<App> for QuestionSignature {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let value = only(&parts.headers, QUESTION_HEADER);
        Ok(Self(value.and_then(|value| value.parse().ok())))
    }
}

fn answer(
    form: Form,
    State(app): State<App>,
    RawQuery(query): RawQuery,
    QuestionSignature(signed): QuestionSignature,
) -> HttpReply {
    let FindQuestion { question, is_dry_run } = find::question(query.as_deref().unwrap_or_default());
    let snapshot = app.core.snapshot();
    let told = snapshot.ask(&question, signed.as_ref(), (!is_dry_run).then(clock::now));
    let Some(answer) = told.as_ref().and_then(|told| told.answer(snapshot.confirmed())) else {
        return HttpReply(find::no_rollout());
    };
    let public = snapshot.public();
    // Who only looks tries nothing.
    let dry_run = if is_dry_run { None } else { snapshot.dry_run(&question, signed.as_ref()) };
    let digests = public.catalogue.digests(&answer.version);
    HttpReply(find::reply(form, &answer, &public.cluster, digests, dry_run.as_ref()))
}

impl App {
    /// Whether nobody is allowed to update: by an operator's `halt --all`, or because the store does not confirm what is answered.
    fn is_stopped(&self) -> bool {
        let snapshot = self.core.snapshot();
        !snapshot.is_good() || snapshot.public().rollouts.holds.all
    }
}

async fn maintenance_schedule(State(app): State<App>, RawQuery(query): RawQuery) -> HttpReply {
    let query = query.unwrap_or_default();
    let question = match schedule::question(&query) {
        Ok(question) => question,
        Err(reply) => return HttpReply(reply),
    };
    let public = app.core.snapshot().public();
    let windows = schedule::windows(&public.rollouts, &question.group, &NameTable::default());
    HttpReply(schedule::reply(&question, &windows, clock::now()))
}

async fn update_graph(State(app): State<App>, headers: HeaderMap, RawQuery(query): RawQuery) -> HttpReply {
    let accept = headers.get(header::ACCEPT).map(|value| value.to_str().unwrap_or_default());
    let public = app.core.snapshot().public();
    let nothing = Catalogue::default();
    let catalogue = if app.is_stopped() { &nothing } else { &*public.catalogue };
    HttpReply(graph::reply(catalogue, &query.unwrap_or_default(), accept, clock::now()))
}

async fn install_script(State(app): State<App>, RawQuery(query): RawQuery) -> HttpReply {
    match &app.install_script {
        Some(script) => HttpReply(script.reply(&query.unwrap_or_default())),
        None => HttpReply(Reply::error(
            Code::NotFound,
            "this server does not know by which address hosts reach it: set public_addr in its configuration",
        )),
    }
}

/// A file of the TUF repository.
async fn tuf_metadata(State(app): State<App>, OriginalUri(uri): OriginalUri) -> Response {
    let nothing = |what: &str| HttpReply(Reply::error(Code::NotFound, what)).into_response();
    let Some(site) = app.tuf.site.clone() else {
        return nothing("this server has no TUF repository: set tuf_repository in its configuration");
    };
    // As it was asked for: names of roles stand there encoded, and so they do on the disk.
    let name = uri.path().rsplit('/').next().unwrap_or_default().to_owned();
    match tokio::task::spawn_blocking(move || site.file(&name)).await {
        Ok(Some(bytes)) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        _ => nothing("the TUF repository has no such file"),
    }
}

/// Whether somebody, or something that went wrong, has stopped the group: then no client is to move by itself.
fn is_stopped(answer: &HostAnswer) -> bool {
    matches!(
        answer.reason.why,
        Why::Disabled
            | Why::Suspended
            | Why::Halted { .. }
            | Why::Held
            | Why::Blackout { .. }
            | Why::VersionBlocked { .. }
            | Why::StoreUnavailable
    )
}

async fn v1_channel(State(app): State<App>, OriginalUri(uri): OriginalUri) -> Result<HttpReply, ApiFailure> {
    of_channel(&app, Style::V1, uri.path().strip_prefix(V1)).await
}

async fn webapi_channel(State(app): State<App>, OriginalUri(uri): OriginalUri) -> Result<HttpReply, ApiFailure> {
    of_channel(&app, Style::Webapi, uri.path().strip_prefix(WEBAPI_CHANNELS)).await
}

async fn of_channel(app: &App, style: Style, path: Option<&str>) -> Result<HttpReply, ApiFailure> {
    let Some((name, verb)) = path.and_then(channel::path) else { return Ok(HttpReply(not_found())) };
    let public = app.core.snapshot().public();
    let defined = |name: &str| channel::defined(&public.resources, name);
    let servers = public.cluster.server_version.as_ref();
    let is_answering = app.core.snapshot().table().is_some();
    let Some(found) = channel::named(&name, defined, is_answering) else {
        return Ok(HttpReply(channel::unknown(&name)));
    };
    let is_critical = found.critical;
    // A group answers as `find` does: one that is rolled back under `halt --all` sends its hosts back.
    let nothing = || match verb {
        Verb::Version => channel::version(style, None, servers),
        Verb::Critical => channel::critical(false),
    };
    if app.is_stopped() && !matches!(found.source, ChannelSource::Group(_)) {
        return Ok(HttpReply(nothing()));
    }
    Ok(HttpReply(match (&found.source, verb) {
        // Nobody new gets it.
        (ChannelSource::Static(Some(version)), _) if public.resources.block_of(version).is_some() => nothing(),
        (ChannelSource::Static(version), Verb::Version) => channel::version(style, version.as_ref(), servers),
        (ChannelSource::Static(version), Verb::Critical) => channel::critical(is_critical && version.is_some()),
        (ChannelSource::Forward(url), Verb::Version) => match app.forwards.version(url, &app.load).await? {
            Some(version) => channel::version(style, version.as_ref(), servers),
            None => channel::unreachable(&name),
        },
        (ChannelSource::Forward(url), Verb::Critical) => {
            channel::critical(is_critical || app.forwards.is_critical(url, &app.load).await?)
        }
        (ChannelSource::Group(group), verb) => {
            let question = Question { group: group.clone(), ..Question::default() };
            let told = app.core.snapshot().ask(&question, None, Some(clock::now()));
            let answer = told.as_ref().and_then(|told| told.answer(app.core.snapshot().confirmed()));
            let answer = answer.as_deref();
            // These clients update by the version alone, in windows of their own.
            if answer.map_or(app.is_stopped(), is_stopped) {
                return Ok(HttpReply(nothing()));
            }
            channel::group(style, verb, answer, is_critical, servers)
        }
    }))
}
