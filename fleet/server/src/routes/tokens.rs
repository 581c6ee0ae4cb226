//! Tokens of the admin API, for admins.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use fleet_wire::api::{JoinToken, MadeToken, NewJoinToken, NewToken, Token, TokenRemoval};
use serde_json::{Value, json};

use super::access::Admin;
use super::request::{ApiPath, ApiQuery, ApiResult, Whole, read_json};
use crate::app::App;

/// The routes.
pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v1/fleet/tokens", get(list).post(make))
        .route("/v1/fleet/tokens/{name}", axum::routing::delete(remove))
        .route("/v1/fleet/join-tokens", get(list_join).post(make_join))
        .route("/v1/fleet/join-tokens/{name}", axum::routing::delete(remove_join))
}

async fn list(_: Admin, State(app): State<App>) -> ApiResult<Vec<Token>> {
    Ok(Json(app.core.run(|keeper| Ok(keeper.tokens())).await?))
}

async fn make(Admin(actor): Admin, State(app): State<App>, Whole(body): Whole) -> ApiResult<MadeToken> {
    let new: NewToken = read_json(&body)?;
    Ok(Json(app.core.run(move |keeper| keeper.make_token(&actor, &new)).await?))
}

async fn remove(
    Admin(actor): Admin,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
    ApiQuery(TokenRemoval { id }): ApiQuery<TokenRemoval>,
) -> ApiResult<Value> {
    app.core.run(move |keeper| keeper.remove_token(&actor, &id, &name)).await?;
    Ok(Json(json!({})))
}

async fn list_join(_: Admin, State(app): State<App>) -> ApiResult<Vec<JoinToken>> {
    Ok(Json(app.core.run(|keeper| Ok(keeper.join_tokens())).await?))
}

async fn make_join(Admin(actor): Admin, State(app): State<App>, Whole(body): Whole) -> ApiResult<MadeToken<JoinToken>> {
    let new: NewJoinToken = read_json(&body)?;
    Ok(Json(app.core.run(move |keeper| keeper.make_join_token(&actor, &new)).await?))
}

async fn remove_join(
    Admin(actor): Admin,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
    ApiQuery(TokenRemoval { id }): ApiQuery<TokenRemoval>,
) -> ApiResult<Value> {
    app.core.run(move |keeper| keeper.remove_join_token(&actor, &id, &name)).await?;
    Ok(Json(json!({})))
}
