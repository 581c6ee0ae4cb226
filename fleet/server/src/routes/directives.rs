//! Drafts and plans of version directives (DIRECTIVES §3). The words are those of `fleet_wire::api`.

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use fleet_wire::api::{ApiError, ApplyPlan, BeginDryRun, Code, DraftView, NewDraft, NewPlan, PlanView, Review};
use serde::Deserialize;

use super::request::{ApiBody, ApiPath, ApiResult, Drafter, Lister, MAX_BODY, Operator, Viewer};
use crate::app::App;
use crate::core::directives;
use crate::core::resources::MAX_TEXT;

/// The routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/fleet/drafts", get(drafts))
        .route("/v1/fleet/drafts/{from}/{name}", get(draft).put(put))
        .route("/v1/fleet/directive-plans", get(plans).post(plan))
        .route("/v1/fleet/directive-plans/{id}", get(shown))
        .route("/v1/fleet/directive-plans/{id}/review", post(review))
        .route("/v1/fleet/directive-plans/{id}/dry-run", post(dry_run))
        .route("/v1/fleet/directive-plans/{id}/apply", post(apply))
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
}

/// `KIND/NAME` of a draft.
#[derive(Deserialize)]
struct DraftPath {
    from: String,
    name: String,
}

impl DraftPath {
    fn name(&self) -> String {
        format!("{}/{}", self.from, self.name)
    }
}

async fn drafts(_: Lister, State(app): State<App>) -> impl IntoResponse {
    app.answer(|tx| directives::drafts(tx, None)).await
}

async fn draft(_: Lister, State(app): State<App>, ApiPath(path): ApiPath<DraftPath>) -> ApiResult<DraftView> {
    let found = app.core.run(move |tx| directives::drafts(tx, Some(&path.name()))).await?;
    one(found)
}

async fn put(
    Drafter(actor): Drafter,
    State(app): State<App>,
    ApiPath(path): ApiPath<DraftPath>,
    ApiBody(new): ApiBody<NewDraft>,
) -> ApiResult<DraftView> {
    fits(&new.text)?;
    app.answer(move |tx| directives::put(tx, &actor, &path.name(), &new)).await
}

async fn plans(_: Viewer, State(app): State<App>) -> impl IntoResponse {
    app.answer(|tx| directives::plans(tx, None)).await
}

async fn shown(_: Viewer, State(app): State<App>, ApiPath(id): ApiPath<String>) -> ApiResult<PlanView> {
    let found = app.core.run(move |tx| directives::plans(tx, Some(&id))).await?;
    one(found)
}

async fn plan(
    Operator(actor): Operator,
    State(app): State<App>,
    ApiBody(new): ApiBody<NewPlan>,
) -> ApiResult<PlanView> {
    fits(new.text.as_deref().unwrap_or_default())?;
    app.answer(move |tx| directives::plan(tx, &actor, &new, false)).await
}

/// Who may is a setting (`promotion.role`): whoever may look may be asked.
async fn review(
    Viewer { actor, .. }: Viewer,
    State(app): State<App>,
    ApiPath(id): ApiPath<String>,
    ApiBody(review): ApiBody<Review>,
) -> impl IntoResponse {
    app.answer(move |tx| directives::review(tx, &actor, &id, (&review, false))).await
}

async fn dry_run(
    Operator(actor): Operator,
    State(app): State<App>,
    ApiPath(id): ApiPath<String>,
    ApiBody(begin): ApiBody<BeginDryRun>,
) -> impl IntoResponse {
    app.answer(move |tx| directives::begin_dry_run(tx, &actor, &id, &begin)).await
}

async fn apply(
    Operator(actor): Operator,
    State(app): State<App>,
    ApiPath(id): ApiPath<String>,
    ApiBody(apply): ApiBody<ApplyPlan>,
) -> impl IntoResponse {
    app.answer(move |tx| directives::apply(tx, &actor, &id, &apply)).await
}

fn fits(text: &str) -> Result<(), ApiError> {
    let message = || format!("the directive is larger than {MAX_TEXT} bytes");
    if text.len() > MAX_TEXT { Err(ApiError::new(Code::TooLarge, message())) } else { Ok(()) }
}

/// The only one that was found.
fn one<T>(found: Vec<T>) -> ApiResult<T> {
    let nothing = || ApiError::new(Code::NotFound, "there is no such thing");
    Ok(Json(found.into_iter().next().ok_or_else(nothing)?))
}
