//! Drafts and plans of version directives (DIRECTIVES §3). The words are those of `fleet_wire::api`.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use fleet_wire::api::{ApiError, Code, DraftView, NewDraft, NewPlan, PlanView, Review};
use serde::Deserialize;

use super::request::{
    ApiBody, ApiPath, ApiResult, Drafter, LISTER, Lister, MAX_BODY, OPERATOR, Operator, VIEWER, Viewer, change_of, look,
};
use crate::app::App;
use crate::core::resources::MAX_TEXT;
use crate::core::{Actor, Tx, directives};

/// The routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/fleet/drafts", get(look::<LISTER, _>(|tx| directives::drafts(tx, None))))
        .route("/v1/fleet/drafts/{from}/{name}", get(draft).put(put))
        .route("/v1/fleet/directive-plans", get(look::<VIEWER, _>(|tx| directives::plans(tx, None))).post(plan))
        .route("/v1/fleet/directive-plans/{id}", get(shown))
        .route("/v1/fleet/directive-plans/{id}/review", post(change_of::<VIEWER, _, _>(review)))
        .route("/v1/fleet/directive-plans/{id}/dry-run", post(change_of::<OPERATOR, _, _>(directives::begin_dry_run)))
        .route("/v1/fleet/directive-plans/{id}/apply", post(change_of::<OPERATOR, _, _>(directives::apply)))
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

async fn shown(_: Viewer, State(app): State<App>, ApiPath(id): ApiPath<String>) -> ApiResult<PlanView> {
    let found = app.core.run(move |tx| directives::plans(tx, Some(&id))).await?;
    one(found)
}

async fn plan(
    Operator { actor, .. }: Operator,
    State(app): State<App>,
    ApiBody(new): ApiBody<NewPlan>,
) -> ApiResult<PlanView> {
    fits(new.text.as_deref().unwrap_or_default())?;
    app.answer(move |tx| directives::plan(tx, &actor, &new, false)).await
}

/// Who may is a setting (`promotion.role`): whoever may look may be asked.
fn review(tx: &mut Tx<'_>, actor: &Actor, id: &str, review: &Review) -> Result<PlanView, ApiError> {
    directives::review(tx, actor, id, (review, false))
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
